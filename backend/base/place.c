#include "backend/base/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

static int write_part(const char *part, int (*write)(FILE *out, const void *context), const void *context)
{
  FILE *out = fopen(part, "we");
  if (out == NULL) {
    return -errno;
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
  size_t size = strlen(path) + 32;
  char *part = malloc(size);
  if (part == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", path);
  }
  (void)snprintf(part, size, "%s.%ld.part", path, (long)getpid()); /* its own: two at once do not meet */
  rc = write_part(part, write, context);
  rc = rc == 0 && rename(part, path) != 0 ? -errno : rc;
  if (rc != 0) {
    (void)unlink(part);
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
