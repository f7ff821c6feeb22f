#include "traces/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FIRST_CAPACITY = 64 << 10 };

int kvl_lines_open(struct kvl_lines *lines, const char *path, struct kvl_err *err)
{
  struct stat status;
  memset(lines, 0, sizeof(*lines));
  snprintf(lines->path, sizeof(lines->path), "%s", path);
  if (stat(path, &status) == 0 && S_ISFIFO(status.st_mode)) /* opening it would wait for a writer */
    return kvl_err_set(err, -ESPIPE, "%s: is a pipe and would be read twice; give a file, not a pipe", path);
  lines->stream = fopen(path, "rb");
  if (!lines->stream) {
    int code = errno;
    return kvl_err_set(err, -code, "%s: %s", path, strerror(code));
  }
  if (fstat(fileno(lines->stream), &status) == 0 && S_ISDIR(status.st_mode)) {
    fclose(lines->stream);
    lines->stream = NULL;
    return kvl_err_set(err, -EISDIR, "%s: is a folder, not a file", path);
  }
  lines->capacity = FIRST_CAPACITY;
  lines->buffer = malloc(lines->capacity + 1);
  if (!lines->buffer) {
    kvl_lines_close(lines);
    return kvl_err_set(err, -ENOMEM, "%s: no memory for a line buffer", path);
  }
  return 0;
}

void kvl_lines_close(struct kvl_lines *lines)
{
  if (lines->stream)
    fclose(lines->stream);
  free(lines->buffer);
  lines->stream = NULL;
  lines->buffer = NULL;
}

/* Makes room behind the unread bytes and reads more of the file there. */
static int fill(struct kvl_lines *lines, struct kvl_err *err)
{
  size_t got;
  if (lines->begin > 0) {
    memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
  }
  if (lines->end == lines->capacity) {
    size_t capacity = lines->capacity * 2;
    char *buffer;
    if (lines->end >= KVL_LINE_MAX)
      return kvl_err_set(err, -EINVAL, "%s:%llu: the line is longer than %d MiB", lines->path,
                         (unsigned long long)lines->number + 1, KVL_LINE_MAX >> 20);
    buffer = realloc(lines->buffer, capacity + 1);
    if (!buffer)
      return kvl_err_set(err, -ENOMEM, "%s:%llu: no memory for a line of more than %zu bytes", lines->path,
                         (unsigned long long)lines->number + 1, lines->capacity);
    lines->buffer = buffer;
    lines->capacity = capacity;
  }
  got = fread(lines->buffer + lines->end, 1, lines->capacity - lines->end, lines->stream);
  lines->end += got;
  if (got == 0) {
    if (ferror(lines->stream))
      return kvl_err_set(err, -EIO, "%s:%llu: cannot be read: %s", lines->path, (unsigned long long)lines->number + 1, strerror(errno));
    lines->eof = true;
  }
  return 0;
}

int kvl_lines_next(struct kvl_lines *lines, char **text, size_t *length, struct kvl_err *err)
{
  size_t scanned = 0, size;
  char *start, *stop;
  for (;;) {
    start = lines->buffer + lines->begin;
    stop = memchr(start + scanned, '\n', lines->end - lines->begin - scanned);
    if (stop || lines->eof)
      break;
    scanned = lines->end - lines->begin;
    int code = fill(lines, err);
    if (code)
      return code;
  }
  if (!stop && lines->begin == lines->end)
    return 0;
  lines->number++;
  lines->newline = stop != NULL;
  size = stop ? (size_t)(stop - start) : lines->end - lines->begin;
  lines->begin += size + (stop ? 1 : 0);
  start[size] = '\0';
  if (memchr(start, '\0', size))
    return kvl_err_set(err, -EINVAL, "%s:%llu: there is a zero byte in the line; this is not a text file", lines->path,
                       (unsigned long long)lines->number);
  if (size > 0 && start[size - 1] == '\r')
    start[--size] = '\0';
  if (lines->number == 1 && size >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0) { /* a UTF-8 mark */
    start += 3;
    size -= 3;
  }
  *text = start;
  *length = size;
  return 1;
}

int kvl_lines_rewind(struct kvl_lines *lines, struct kvl_err *err)
{
  if (fseek(lines->stream, 0, SEEK_SET) != 0) {
    int code = errno;
    return kvl_err_set(err, -code, "%s: cannot be read a second time (%s); give a file, not a pipe", lines->path, strerror(code));
  }
  clearerr(lines->stream);
  lines->begin = lines->end = 0;
  lines->eof = false;
  lines->number = 0;
  return 0;
}

const char *kvl_lines_looks_like(const char *head, size_t length)
{
  static const struct {
    const char *magic;
    size_t length;
    const char *what;
  } known[] = {
    {"KVLTRACE", 8, "a kvloan selection trace"},
    {"kvloan-log ", 11, "a kvloan decision log"},
    {"SQLite format 3", 15, "an SQLite database"},
    {"\x1f\x8b", 2, "gzip data: unpack it first"},
    {"\x28\xb5\x2f\xfd", 4, "zstd data: unpack it first"},
    {"\xfd" "7zXZ", 5, "xz data: unpack it first"},
    {"BZh", 3, "bzip2 data: unpack it first"},
    {"PK\x03\x04", 4, "a zip archive: unpack it first"},
    {"\x89PNG", 4, "a PNG picture"},
    {"%PDF", 4, "a PDF document"},
    {"\x7f" "ELF", 4, "a program"},
    {"PAR1", 4, "a Parquet file"},
    {"\xff\xfe", 2, "UTF-16 text: convert it to UTF-8 first"},
    {"\xfe\xff", 2, "UTF-16 text: convert it to UTF-8 first"},
    {"version https://git-lfs", 23, "a Git LFS pointer: fetch the file itself"},
    {"<!DOCTYPE", 9, "a web page"},
    {"<html", 5, "a web page"},
    {"#!", 2, "a script"},
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    if (length >= known[i].length && memcmp(head, known[i].magic, known[i].length) == 0)
      return known[i].what;
  }
  return NULL;
}
