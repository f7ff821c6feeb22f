/* Text files line by line, in memory bounded by the longest line. */
#ifndef KVL_TRACES_LINES_H
#define KVL_TRACES_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "backend/base/err.h"

enum { KVL_LINE_MAX = 16 << 20 }; /* bytes; anything longer is not one of our formats */

struct kvl_lines {
  FILE *stream;
  char path[1024];     /* for messages, cut to fit */
  char *buffer;
  size_t capacity;     /* one byte more is allocated, for the final NUL */
  size_t begin, end;   /* unread bytes */
  bool eof;
  uint64_t number;     /* of the line returned last; the first is 1 */
  bool newline;        /* the line returned last ended in a newline: a last line that does not may have been cut off */
};

/* -ENOENT, -EACCES, ... as the system says, -EISDIR, -ENOMEM. */
int kvl_lines_open(struct kvl_lines *lines, const char *path, struct kvl_err *err);
void kvl_lines_close(struct kvl_lines *lines);

/* 1 and a NUL-terminated line without its line end (LF or CRLF) and without a UTF-8 mark, valid until the next call and the caller's to write into; 0 at the end of the file;
 * -EIO, -ENOMEM, -EINVAL for a line that is too long or holds a NUL byte. */
int kvl_lines_next(struct kvl_lines *lines, char **text, size_t *length, struct kvl_err *err);

/* Back to the first line. -ESPIPE when the file cannot (a pipe). */
int kvl_lines_rewind(struct kvl_lines *lines, struct kvl_err *err);

/* Says what a file that is not text (or another kind of text) looks like, from its first bytes; NULL when they say nothing. */
const char *kvl_lines_looks_like(const char *head, size_t length);

#endif
