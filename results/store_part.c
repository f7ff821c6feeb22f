#define _GNU_SOURCE /* F_OFD_SETLK */
#include "results/store_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "results/store_internal.h"

/* What SQLite keeps beside a store goes first: who is killed here leaves no journal without its file. */
void kvl_store_remove(const char *path)
{
  static const char *const endings[] = {"-wal", "-shm", "-journal", ""};
  for (unsigned e = 0; e < sizeof endings / sizeof *endings; e++) {
    char name[4200];
    (void)snprintf(name, sizeof name, "%.4096s%s", path, endings[e]);
    (void)unlink(name);
  }
}

int kvl_store_part_has_log(const char *store)
{
  char log[4200], journal[4200];
  (void)snprintf(log, sizeof log, "%.4096s-wal", store);
  (void)snprintf(journal, sizeof journal, "%.4096s-journal", store);
  return access(log, F_OK) == 0 || access(journal, F_OK) == 0;
}

/* Byte 0, which SQLite never locks. The lock belongs to this opening of the file: SQLite's closing it does not drop it, the end of the process does. */
static int lock_part(int file)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  return fcntl(file, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

int kvl_store_part_make(struct kvl_store_part *part, const char *store)
{
  for (int attempt = 0; attempt < 100; attempt++) {
    part->file = kvl_place_part(store, 0644, &part->path);
    if (part->file < 0) {
      return part->file;
    }
    /* Between making and locking it looks left over: whoever clears up may hold it just now, or have removed it. */
    int code = lock_part(part->file), held = code == EAGAIN || code == EACCES;
    struct stat info;
    if (!held && fstat(part->file, &info) == 0 && info.st_nlink > 0) {
      return 0; /* also where there are no locks */
    }
    kvl_store_part_end(part);
  }
  return -EAGAIN;
}

void kvl_store_part_end(struct kvl_store_part *part)
{
  kvl_store_remove(part->path);
  (void)close(part->file);
  free(part->path);
}

/* Is `name` one that kvl_place_part gives beside a file called `base`? */
static int is_part_name(const char *name, const char *base)
{
  size_t length = strlen(base);
  if (strncmp(name, base, length) != 0 || name[length] != '.') {
    return 0;
  }
  const char *own = name + length + 1;
  return strspn(own, "0123456789abcdef") == 16 && strcmp(own + 16, ".part") == 0;
}

/* Of the maker's work there is nothing, or page 1 with our application id. */
static int is_our_part(int file)
{
  unsigned char header[KVL_STORE_HEADER_BYTES];
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    return 0;
  }
  return info.st_size == 0 ||
         (pread(file, header, sizeof header, 0) == (ssize_t)sizeof header && kvl_store_header_application(header) == KVL_STORE_APPLICATION_ID);
}

void kvl_store_part_clear(const char *store)
{
  const char *slash = strrchr(store, '/'), *base = slash != NULL ? slash + 1 : store;
  size_t before = (size_t)(base - store), size = strlen(store) + sizeof ".0123456789abcdef.part";
  char *name = malloc(size);
  if (name == NULL) {
    return; /* the next one does it */
  }
  (void)snprintf(name, size, "%.*s", before > 0 ? (int)before : 1, before > 0 ? store : "."); /* the folder */
  DIR *folder = opendir(name);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    if (!is_part_name(entry->d_name, base)) {
      continue;
    }
    (void)snprintf(name, size, "%.*s%s", (int)before, store, entry->d_name);
    int file = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file >= 0) {
      if (is_our_part(file) && lock_part(file) == 0) {
        kvl_store_remove(name); /* never written to: it may be a second name of the store */
      }
      (void)close(file);
    }
  }
  if (folder != NULL) {
    (void)closedir(folder);
  }
  free(name);
}
