/* Files that are written beside their name and renamed when they are whole: nothing half written is left that looks whole. */
#ifndef KVL_BASE_PLACE_H
#define KVL_BASE_PLACE_H

#include <stdio.h>
#include <sys/types.h>

#include "backend/base/err.h"

/* May a file of that name be put there by rename? Nothing or a plain file may be there. A device, a pipe, a socket (/dev/full, /dev/stdout) would be
 * replaced by the file, and is refused: -EINVAL; a folder: -EISDIR; no name: -ENOENT. The line has the reason only; the caller says which file. Whether the folder can be
 * written is not looked at. */
int kvl_place_check(const char *path, struct kvl_err *err);

/* Before long work: may the file be written, and its folder? What comes of it is written by kvl_place_write all the same. 0, or a negative errno with
 * "PATH: cannot write: reason". */
int kvl_place_ready(const char *path, struct kvl_err *err);

/* Makes an empty file beside `path` for what will be renamed to it: PATH.RANDOM.part, 16 hexadecimal digits. It was not there before, and nobody else gets that name, on any
 * host and in any container: a process id would not do. The descriptor, open to read and write, with *part to be freed by the caller; or a negative errno. */
int kvl_place_part(const char *path, mode_t mode, char **part);

/* Writes the file: `write` puts its text into `out` and returns 0 or a negative errno; what it could not write is found out here. 0, or a negative errno, with
 * "PATH: cannot write: reason" (an empty path: "--out=") in err, and no file left that was not there before. */
int kvl_place_write(const char *path, int (*write)(FILE *out, const void *context), const void *context, struct kvl_err *err);
/* The same for a text that is there. */
int kvl_place_write_text(const char *path, const char *text, struct kvl_err *err);

#endif
