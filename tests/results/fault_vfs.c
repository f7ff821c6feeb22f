#include "tests/results/fault_vfs.h"

#include <signal.h>
#include <sqlite3.h>
#include <stddef.h>

struct fault_vfs fault_vfs;

static sqlite3_vfs *platform;

struct fault_file {
  sqlite3_file base;
  sqlite3_io_methods methods;
  sqlite3_file *real; /* lies behind this struct */
};

static sqlite3_file *real_of(sqlite3_file *file)
{
  return ((struct fault_file *)(void *)file)->real;
}

/* Counts one change; true when it is to fail. */
static int fails(void)
{
  fault_vfs.changes++;
  int now = 0;
  if (fault_vfs.countdown > 0) {
    now = fault_vfs.countdown == 1;
    fault_vfs.countdown -= fault_vfs.countdown > 1 || !fault_vfs.sticky;
  }
  if (now && fault_vfs.kill) {
    (void)raise(SIGKILL);
  }
  fault_vfs.failed += now;
  return now;
}

static int file_close(sqlite3_file *file)
{
  return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 at)
{
  return real_of(file)->pMethods->xRead(real_of(file), bytes, size, at);
}

static int file_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 at)
{
  if (fails()) {
    if (size > 1) { /* half of it arrives */
      (void)real_of(file)->pMethods->xWrite(real_of(file), bytes, size / 2, at);
    }
    return SQLITE_FULL;
  }
  return real_of(file)->pMethods->xWrite(real_of(file), bytes, size, at);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
  return fails() ? SQLITE_IOERR_TRUNCATE : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
  if (fails()) {
    return SQLITE_IOERR_FSYNC;
  }
  return fault_vfs.no_sync ? SQLITE_OK : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
  return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int lock)
{
  return real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int file_unlock(sqlite3_file *file, int lock)
{
  return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *out)
{
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int file_control(sqlite3_file *file, int operation, void *argument)
{
  return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int file_sector(sqlite3_file *file)
{
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_traits(sqlite3_file *file)
{
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
  if (extend && fails()) {
    return SQLITE_IOERR_SHMSIZE;
  }
  return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int erase)
{
  return real_of(file)->pMethods->xShmUnmap(real_of(file), erase);
}

static const sqlite3_io_methods methods = {
  2, file_close, file_read, file_write, file_truncate, file_sync, file_size, file_lock, file_unlock, file_check_lock, file_control, file_sector,
  file_traits, file_shm_map, file_shm_lock, file_shm_barrier, file_shm_unmap, NULL, NULL,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
  (void)vfs;
  struct fault_file *fault = (struct fault_file *)(void *)file;
  file->pMethods = NULL;
  if ((flags & SQLITE_OPEN_CREATE) != 0 && fails()) {
    return SQLITE_CANTOPEN;
  }
  fault->real = (sqlite3_file *)(void *)(fault + 1);
  int rc = platform->xOpen(platform, name, fault->real, flags, out);
  if (fault->real->pMethods != NULL) {
    fault->methods = methods;
    fault->methods.iVersion = fault_vfs.no_shared ? 1 : 2;
    file->pMethods = &fault->methods;
  }
  return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
  (void)vfs;
  return fails() ? SQLITE_IOERR_DELETE : platform->xDelete(platform, name, sync);
}

void fault_vfs_install(void)
{
  static sqlite3_vfs vfs;
  platform = sqlite3_vfs_find(NULL);
  if (platform == &vfs || platform == NULL) {
    return;
  }
  vfs = *platform;
  vfs.pNext = NULL;
  vfs.zName = "kvl-fault";
  vfs.szOsFile = (int)sizeof(struct fault_file) + platform->szOsFile;
  vfs.xOpen = vfs_open;
  vfs.xDelete = vfs_delete;
  (void)sqlite3_vfs_register(&vfs, 1);
}
