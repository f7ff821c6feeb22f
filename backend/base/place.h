/* May a file of that name be put there by rename? */
#ifndef KVL_BASE_PLACE_H
#define KVL_BASE_PLACE_H

#include "backend/base/err.h"

/* For what is written beside its name and renamed when it is whole: nothing or a plain file may be there. A device, a pipe, a socket (/dev/full, /dev/stdout) would be
 * replaced by the file, and is refused: -EINVAL; a folder: -EISDIR; no name: -ENOENT. The line has the reason only; the caller says which file. Whether the folder can be
 * written is not looked at. */
int kvl_place_check(const char *path, struct kvl_err *err);

#endif
