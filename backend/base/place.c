#include "backend/base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

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

int kvl_place_ready(const char *path, struct kvl_err *err)
{
  struct kvl_err why = {""};
  int rc = kvl_place_check(path, &why);
  if (rc != 0) {
    return kvl_err_set(err, rc, "%s: cannot write: %s", path[0] == '\0' ? "--out=" : path, why.text);
  }
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
  char *folder = malloc(length + 1);
  if (folder == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", path);
  }
  memcpy(folder, slash == NULL ? "." : path, length);
  folder[length] = '\0';
  rc = access(folder, W_OK) == 0 ? 0 : -errno;
  free(folder);
  return rc == 0 ? 0 : kvl_err_set(err, rc, "%s: cannot write: %s", path, strerror(-rc));
}

int kvl_place_part(const char *path, mode_t mode, char **part)
{
  size_t size = strlen(path) + sizeof ".0123456789abcdef.part";
  char *name = malloc(size);
  int file = -1, code = name == NULL ? ENOMEM : EEXIST;
  for (int attempt = 0; code == EEXIST && attempt < 100; attempt++) {
    uint64_t own;
    if (getrandom(&own, sizeof own, 0) != (ssize_t)sizeof own) {
      code = EIO;
      break;
    }
    (void)snprintf(name, size, "%s.%016" PRIx64 ".part", path, own);
    file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    code = file >= 0 ? 0 : errno;
  }
  if (code != 0) {
    free(name);
    name = NULL;
  }
  *part = name;
  return code != 0 ? -code : file;
}

static int write_part(int file, int (*write)(FILE *out, const void *context), const void *context)
{
  FILE *out = fdopen(file, "w");
  if (out == NULL) {
    int code = -errno;
    (void)close(file);
    return code;
  }
  errno = 0;
  int rc = write(out, context);
  if (rc == 0 && (fflush(out) != 0 || ferror(out) != 0)) {
    rc = errno != 0 ? -errno : -EIO;
  }
  return fclose(out) != 0 && rc == 0 ? -errno : rc;
}

int kvl_place_write(const char *path, int (*write)(FILE *out, const void *context), const void *context, struct kvl_err *err)
{
  int rc = kvl_place_ready(path, err);
  if (rc != 0) {
    return rc;
  }
  char *part;
  int file = kvl_place_part(path, 0666, &part);
  rc = file < 0 ? file : write_part(file, write, context);
  rc = rc == 0 && rename(part, path) != 0 ? -errno : rc;
  if (rc != 0) {
    if (part != NULL) {
      (void)unlink(part);
    }
    (void)kvl_err_set(err, rc, "%s: cannot write: %s", path, strerror(-rc));
  }
  free(part);
  return rc;
}

static int put_text(FILE *out, const void *text)
{
  (void)fputs(text, out);
  return 0;
}

int kvl_place_write_text(const char *path, const char *text, struct kvl_err *err)
{
  return kvl_place_write(path, put_text, text, err);
}
