#include "backend/base/place.h"

#include <errno.h>
#include <sys/stat.h>

int kvl_place_check(const char *path, struct kvl_err *err)
{
  struct stat there;
  if (path[0] == '\0') {
    return kvl_err_set(err, -ENOENT, "the name is empty");
  }
  if (stat(path, &there) != 0 || S_ISREG(there.st_mode)) {
    return 0;
  }
  return S_ISDIR(there.st_mode) ? kvl_err_set(err, -EISDIR, "Is a directory") : kvl_err_set(err, -EINVAL, "not a plain file: it would be replaced by one");
}
