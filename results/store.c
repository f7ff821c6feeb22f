#include "results/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "results/store_internal.h"
#include "results/store_part.h"

/* ---- errors ---- */

/* The folder a path is in, "." when it names none. */
static void folder_of(const char *path, char *folder, size_t size)
{
  const char *slash = strrchr(path, '/');
  if (slash == NULL) {
    (void)snprintf(folder, size, ".");
  } else {
    (void)snprintf(folder, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  }
}

static int error_for_errno(int system_errno)
{
  switch (system_errno) {
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
    return -ENOSPC;
  case EROFS:
    return -EROFS;
  case EACCES:
  case EPERM:
    return -EACCES;
  case ENOMEM:
    return -ENOMEM;
  default:
    return -EIO;
  }
}

/* SQLite says "unable to open" or "readonly" for a dozen reasons: look for the one that the reader can do something about. */
static int open_error(const struct kvl_store *store, const char *doing, struct kvl_err *err)
{
  char folder[4096];
  folder_of(store->path, folder, sizeof folder);
  struct stat info;
  if (stat(folder, &info) != 0) {
    return kvl_err_set(err, -ENOENT, "%s: cannot %s: no folder %s", store->path, doing, folder);
  }
  if (stat(store->path, &info) == 0 && S_ISDIR(info.st_mode)) {
    return kvl_err_set(err, -EISDIR, "%s: cannot %s: it is a folder; name a file in it", store->path, doing);
  }
  if (access(store->path, F_OK) == 0 && access(store->path, store->read_only ? R_OK : R_OK | W_OK) != 0) {
    return kvl_err_set(err, errno == EROFS ? -EROFS : -EACCES, "%s: cannot %s: %s", store->path, doing,
                       errno == EROFS ? "read-only file system" : "no permission, the file is read-only");
  }
  if (access(folder, W_OK) != 0) {
    return kvl_err_set(err, errno == EROFS ? -EROFS : -EACCES, "%s: cannot %s: folder %s is read-only", store->path, doing, folder);
  }
  int system_errno = sqlite3_system_errno(store->db);
  if (system_errno != 0 && system_errno != ENOENT) {
    return kvl_err_set(err, error_for_errno(system_errno), "%s: cannot %s: %s", store->path, doing, strerror(system_errno));
  }
  return kvl_err_set(err, -EACCES, "%s: cannot %s: %s", store->path, doing, sqlite3_errmsg(store->db));
}

/* What SQLite says about a damaged file may hold line ends, its own or the file's. */
static int on_one_line(int code, struct kvl_err *err)
{
  for (char *s = err != NULL ? err->text : NULL; s != NULL && *s != '\0'; s++) {
    if ((unsigned char)*s < 0x20 || *s == 0x7f) {
      *s = ' ';
    }
  }
  return code;
}

static int sql_error(const struct kvl_store *store, int rc, const char *doing, struct kvl_err *err)
{
  /* SQLite does not keep the cause of a failed commit; errno still has it, for the callers clear it before they write. */
  int last_errno = errno, system_errno = sqlite3_system_errno(store->db);
  system_errno = system_errno != 0 ? system_errno : last_errno;
  switch (rc & 0xff) {
  case SQLITE_FULL:
    return kvl_err_set(err, -ENOSPC, "%s: cannot %s: the disk is full, or a size limit is reached", store->path, doing);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return kvl_err_set(err, -EBUSY, "%s: cannot %s: locked by another process for more than %.3g s; try again, or use another file",
                       store->path, doing, store->busy_ms / 1000.0);
  case SQLITE_CANTOPEN:
  case SQLITE_READONLY:
  case SQLITE_PERM:
    return open_error(store, doing, err);
  case SQLITE_NOTADB:
    return kvl_err_set(err, -EINVAL, "%s: not a result store (not an SQLite database)", store->path);
  case SQLITE_CORRUPT:
    return kvl_err_set(err, -EUCLEAN, "%s: cannot %s: the file is damaged (%s)", store->path, doing, sqlite3_errmsg(store->db));
  case SQLITE_NOMEM:
    return kvl_err_set(err, -ENOMEM, "%s: cannot %s: out of memory", store->path, doing);
  case SQLITE_IOERR:
    if (rc == SQLITE_IOERR_NOMEM) {
      return kvl_err_set(err, -ENOMEM, "%s: cannot %s: out of memory", store->path, doing);
    }
    if (error_for_errno(system_errno) == -ENOSPC) {
      return kvl_err_set(err, -ENOSPC, "%s: cannot %s: the disk is full, or a size limit is reached", store->path, doing);
    }
    return kvl_err_set(err, -EIO, "%s: cannot %s: %s%s%s", store->path, doing, sqlite3_errmsg(store->db), system_errno != 0 ? ": " : "",
                       system_errno != 0 ? strerror(system_errno) : "");
  default:
    return kvl_err_set(err, -EIO, "%s: cannot %s: %s", store->path, doing, sqlite3_errmsg(store->db));
  }
}

int kvl_store_sql_error(const struct kvl_store *store, int rc, const char *doing, struct kvl_err *err)
{
  return on_one_line(sql_error(store, rc, doing, err), err);
}

int kvl_store_exec(struct kvl_store *store, const char *sql)
{
  errno = 0;
  return sqlite3_exec(store->db, sql, NULL, NULL, NULL);
}

int kvl_store_prepare(struct kvl_store *store, sqlite3_stmt **statement, const char *sql)
{
  return sqlite3_prepare_v2(store->db, sql, -1, statement, NULL);
}

/* ---- what the file is, before SQLite may touch it ---- */

uint32_t kvl_store_header_application(const unsigned char header[KVL_STORE_HEADER_BYTES])
{
  const unsigned char *at = header + 68;
  return memcmp(header, "SQLite format 3", 16) != 0 ? 0 : (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void pause_ms(long ms)
{
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  (void)nanosleep(&time, NULL);
}

/* Reads the first 100 bytes without SQLite: merely opening another program's database may roll back or checkpoint it. 0: new, empty or ours;
 * 1: an SQLite database without application id: may go on if it has no tables; negative: refused. */
static int look_at_header(struct kvl_store *store, struct kvl_err *err)
{
  unsigned char header[KVL_STORE_HEADER_BYTES];
  for (int attempt = 0;; attempt++) {
    int file = open(store->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below, not waited for */
    if (file < 0) {
      if (errno == ENOENT && !store->read_only) {
        store->absent = 1;
        return 0;
      }
      return errno == ENOENT ? kvl_err_set(err, -ENOENT, "%s: no such file", store->path)
                             : kvl_err_set(err, error_for_errno(errno), "%s: cannot open: %s", store->path, strerror(errno));
    }
    struct stat info;
    int known = fstat(file, &info) == 0, is_folder = known && S_ISDIR(info.st_mode), is_device = known && !is_folder && !S_ISREG(info.st_mode);
    ssize_t length = is_folder || is_device ? 0 : read(file, header, sizeof header);
    int read_errno = errno;
    (void)close(file);
    if (is_folder) {
      return kvl_err_set(err, -EISDIR, "%s: is a folder; name a file in it", store->path);
    }
    if (is_device) {
      return kvl_err_set(err, -EINVAL, "%s: is a pipe or a device; a result store is a file", store->path);
    }
    if (length < 0) {
      return kvl_err_set(err, -EIO, "%s: cannot read: %s", store->path, strerror(read_errno));
    }
    if (length == 0) {
      return 0;
    }
    size_t compare = (size_t)length < 16 ? (size_t)length : 16;
    if (memcmp(header, "SQLite format 3", compare) == 0 && length < (ssize_t)sizeof header && attempt < 20) {
      pause_ms(10); /* another process is just creating it */
      continue;
    }
    if (length < (ssize_t)sizeof header || memcmp(header, "SQLite format 3", 16) != 0) {
      return kvl_err_set(err, -EINVAL, "%s: not a result store (not an SQLite database)", store->path);
    }
    break;
  }
  uint32_t application = kvl_store_header_application(header);
  if (application == KVL_STORE_APPLICATION_ID) {
    return 0;
  }
  return application == 0 ? 1 : kvl_err_set(err, -EEXIST, "%s: another program's database (application id 0x%08x); nothing was changed",
                                            store->path, application);
}

/* One integer from a pragma or a count; negative errno on failure. */
static int read_integer(struct kvl_store *store, const char *sql, int64_t *value, struct kvl_err *err)
{
  sqlite3_stmt *statement = NULL;
  int rc = kvl_store_prepare(store, &statement, sql);
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(statement);
  }
  if (rc == SQLITE_ROW) {
    *value = sqlite3_column_int64(statement, 0);
    rc = SQLITE_OK;
  }
  int code = rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "read it", err);
  (void)sqlite3_finalize(statement);
  return code;
}

static int connect_as(struct kvl_store *store, const char *path, int flags, int immutable, struct kvl_err *err)
{
  (void)sqlite3_close(store->db);
  store->db = NULL;
  /* "./" keeps names such as ":memory:" and "file:x" plain names; an immutable file needs SQLite's URI form, with its special bytes escaped. */
  const char *front = path[0] == '/' ? "" : "./";
  size_t size = 3 * strlen(path) + 64;
  char *name = malloc(size);
  if (name == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: cannot open: out of memory", store->path);
  }
  if (immutable) {
    size_t at = (size_t)snprintf(name, size, "file:%s", front);
    for (const char *p = path; *p != '\0'; p++) {
      at += (size_t)snprintf(name + at, size - at, strchr("?#%", *p) != NULL ? "%%%02x" : "%c", (unsigned char)*p);
    }
    (void)snprintf(name + at, size - at, "?immutable=1");
    flags |= SQLITE_OPEN_URI;
  } else {
    (void)snprintf(name, size, "%s%s", front, path);
  }
  int rc = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
  free(name);
  if (store->db == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: cannot open: out of memory", store->path);
  }
  (void)sqlite3_extended_result_codes(store->db, 1);
  (void)sqlite3_busy_timeout(store->db, (int)store->busy_ms);
  return rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "open it", err);
}

/* ---- the schema ---- */

/* 1: ours and current; 0: no tables at all; negative: refused. */
static int look_at_schema(struct kvl_store *store, struct kvl_err *err)
{
  int64_t application = 0, version = 0, tables = 0;
  /* all of one moment: another process may be creating it right now */
  int alone = sqlite3_get_autocommit(store->db), rc = alone ? kvl_store_exec(store, "BEGIN") : SQLITE_OK;
  int code = rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "read it", err);
  code = code != 0 ? code : read_integer(store, "PRAGMA application_id", &application, err);
  code = code != 0 ? code : read_integer(store, "PRAGMA user_version", &version, err);
  code = code != 0 ? code : read_integer(store, "SELECT count(*) FROM sqlite_schema", &tables, err);
  if (alone && !sqlite3_get_autocommit(store->db)) {
    (void)kvl_store_exec(store, "COMMIT");
  }
  if (code != 0) {
    return code;
  }
  if (application == 0 && tables == 0) {
    return 0;
  }
  if (application != KVL_STORE_APPLICATION_ID) {
    return kvl_err_set(err, -EEXIST, "%s: another program's database (it has tables, and not our application id); nothing was changed", store->path);
  }
  if (version > KVL_STORE_VERSION) {
    return kvl_err_set(err, -ENOTSUP, "%s: written by a newer kvloan (schema %lld; this one knows %d)", store->path, (long long)version,
                       (int)KVL_STORE_VERSION);
  }
  if (version < 1 || tables == 0) {
    return kvl_err_set(err, -EUCLEAN, "%s: our application id, but schema %lld: the file is damaged", store->path, (long long)version);
  }
  return 1;
}

/* Creates the schema, unless another process was faster. In rollback mode, so that the file itself, not only a log beside it, carries our
 * application id as soon as it carries anything. */
static int create_schema(struct kvl_store *store, struct kvl_err *err)
{
  int rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  if (rc != SQLITE_OK) {
    return kvl_store_sql_error(store, rc, "create it", err);
  }
  int code = look_at_schema(store, err);
  if (code == 0) {
    for (unsigned i = 0; kvl_store_schema[i] != NULL && rc == SQLITE_OK; i++) {
      rc = kvl_store_exec(store, kvl_store_schema[i]);
    }
    char mark[128];
    (void)snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", (int)KVL_STORE_APPLICATION_ID,
                   (int)KVL_STORE_VERSION);
    rc = rc == SQLITE_OK ? kvl_store_exec(store, mark) : rc;
    code = rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "create it", err);
  }
  if (!sqlite3_get_autocommit(store->db)) {
    (void)kvl_store_exec(store, "ROLLBACK");
  }
  return code < 0 ? code : 0;
}

static int cannot_create(const struct kvl_store *store, int system_errno, struct kvl_err *err)
{
  int code = error_for_errno(system_errno) == -ENOSPC ? -ENOSPC : -system_errno;
  return kvl_err_set(err, code, "%s: cannot create it: %s", store->path, strerror(system_errno));
}

/* A new store gets its schema under another name, and its own when that is whole: a full disk leaves no empty file there, and no other process meets one. A link,
 * not a rename: whoever was faster keeps the name. 0 also where this way is closed (no room for the longer name, no links here, a link that points nowhere): then it
 * is made in place, which says what is wrong. */
static int create_whole(struct kvl_store *store, struct kvl_err *err)
{
  if (kvl_store_part_has_log(store->path)) {
    return 0;
  }
  struct kvl_err why = {""};
  struct kvl_store_part part;
  int code = kvl_store_part_make(&part, store->path);
  if (code != 0) {
    code = cannot_create(store, -code, &why);
  } else {
    code = connect_as(store, part.path, SQLITE_OPEN_READWRITE, 0, &why);
    code = code != 0 ? code : create_schema(store, &why);
    (void)sqlite3_close(store->db);
    store->db = NULL;
    if (code == 0 && link(part.path, store->path) != 0) {
      code = cannot_create(store, errno, &why);
    }
    kvl_store_part_end(&part);
  }
  if (code != -ENOSPC && code != -EIO && code != -ENOMEM) {
    return 0;
  }
  if (err != NULL) {
    *err = why;
  }
  return code;
}

/* For a database without application id: has it tables? Asked without the right to write. One that must first be rolled back cannot be ours:
 * ours is tagged as soon as it holds anything. */
static int look_at_untagged(struct kvl_store *store, struct kvl_err *err)
{
  int code = connect_as(store, store->path, SQLITE_OPEN_READONLY, 0, err);
  code = code != 0 ? code : look_at_schema(store, err);
  if (code == -EACCES || code == -EROFS) {
    code = kvl_err_set(err, -EEXIST, "%s: another program's database (an interrupted change waits in its journal); nothing was changed", store->path);
  }
  return code;
}

static int open_for_writing(struct kvl_store *store, int untagged, struct kvl_err *err)
{
  if (!untagged) {
    kvl_store_part_clear(store->path);
  }
  int code = untagged ? look_at_untagged(store, err) : store->absent ? create_whole(store, err) : 0;
  if (code < 0) {
    return code;
  }
  code = connect_as(store, store->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, 0, err);
  if (code == 0 && sqlite3_db_readonly(store->db, "main") == 1) { /* SQLite falls back without a word */
    code = open_error(store, "write to it", err);
  }
  code = code != 0 ? code : look_at_schema(store, err);
  if (code == 0) {
    code = create_schema(store, err);
  }
  if (code < 0) {
    return code;
  }
  /* Readers and a writer side by side; where the file system cannot (no shared memory), or another process holds the file just now, the mode
   * stays what it is and everything still works. */
  (void)sqlite3_busy_timeout(store->db, store->busy_ms < 250 ? (int)store->busy_ms : 250);
  (void)kvl_store_exec(store, "PRAGMA journal_mode = WAL");
  (void)sqlite3_busy_timeout(store->db, (int)store->busy_ms);
  int rc = kvl_store_exec(store, "PRAGMA synchronous = FULL");
  return rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "open it", err);
}

static int open_for_reading(struct kvl_store *store, int untagged, struct kvl_err *err)
{
  struct kvl_err first = {""};
  int code = untagged ? look_at_untagged(store, &first) : 0;
  if (!untagged) { /* with the right to write where there is one: what a killed writer left must be rolled back or replayed before reading */
    code = connect_as(store, store->path, SQLITE_OPEN_READWRITE, 0, &first);
    code = code != 0 ? code : look_at_schema(store, &first);
  }
  if (code == -EACCES || code == -EROFS) {
    /* A log-mode file in a read-only folder: SQLite wants to create its shared memory there. Without a log there is nothing to share, and
     * nobody can write either. */
    char log[4200];
    (void)snprintf(log, sizeof log, "%.4096s-wal", store->path);
    struct stat info;
    if (stat(log, &info) == 0 && info.st_size > 0) {
      code = kvl_err_set(&first, code, "%s: a writer was cut off, and what it left in %s must be replayed first, which this folder does not allow: "
                         "copy both files to one that can be written", store->path, log);
    } else {
      code = connect_as(store, store->path, SQLITE_OPEN_READONLY, 1, &first);
      code = code != 0 ? code : look_at_schema(store, &first);
    }
  }
  if (code == 0) {
    return kvl_err_set(err, -EINVAL, "%s: not a result store (empty)", store->path);
  }
  if (code < 0 && err != NULL) {
    *err = first;
  }
  return code < 0 ? code : 0;
}

/* ---- open and close ---- */

int kvl_store_open_with(struct kvl_store **out, const char *path, const struct kvl_store_options *options, struct kvl_err *err)
{
  *out = NULL;
  struct kvl_store *store = calloc(1, sizeof *store);
  if (store == NULL || (store->path = strdup(path)) == NULL) {
    free(store);
    return kvl_err_set(err, -ENOMEM, "%s: cannot open: out of memory", path);
  }
  store->busy_ms = options != NULL && options->busy_ms != 0 ? options->busy_ms : KVL_STORE_BUSY_MS;
  store->batch_rows = options != NULL && options->batch_rows != 0 ? options->batch_rows : KVL_STORE_BATCH_ROWS;
  store->read_only = options != NULL && options->read_only;
  int code = path[0] == '\0' ? kvl_err_set(err, -EINVAL, "the store's file name is empty") : look_at_header(store, err);
  if (code >= 0) {
    code = store->read_only ? open_for_reading(store, code == 1, err) : open_for_writing(store, code == 1, err);
  }
  if (code == 0 && !store->read_only) {
    store->request = calloc(store->batch_rows, sizeof *store->request);
    store->sample = calloc(store->batch_rows, sizeof *store->sample);
    store->point = calloc(store->batch_rows, sizeof *store->point);
    store->move = calloc(store->batch_rows, sizeof *store->move);
    if (store->request == NULL || store->sample == NULL || store->point == NULL || store->move == NULL) {
      code = kvl_err_set(err, -ENOMEM, "%s: cannot open: out of memory", path);
    }
  }
  if (code != 0) {
    kvl_store_close(store);
    return code;
  }
  *out = store;
  return 0;
}

int kvl_store_open(struct kvl_store **store, const char *path, struct kvl_err *err)
{
  return kvl_store_open_with(store, path, NULL, err);
}

void kvl_store_close(struct kvl_store *store)
{
  if (store == NULL) {
    return;
  }
  if (store->run != 0) {
    store->requests = store->samples = store->points = store->moves = 0;
    (void)kvl_store_run_end(store, store->run, NULL, KVL_RUN_FAILED, NULL);
  }
  for (unsigned i = 0; i < KVL_SQL_STATEMENTS; i++) {
    (void)sqlite3_finalize(store->statement[i]);
  }
  int rc = sqlite3_close(store->db);
  assert(rc == SQLITE_OK); /* every statement is finalized: nothing can hold it open */
  (void)rc;
  free(store->request);
  free(store->sample);
  free(store->point);
  free(store->move);
  free(store->path);
  free(store);
}

int kvl_store_check(struct kvl_store *store, struct kvl_err *err)
{
  sqlite3_stmt *statement = NULL;
  int rc = kvl_store_prepare(store, &statement, "PRAGMA integrity_check(1)");
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(statement);
  }
  int code = 0;
  if (rc != SQLITE_ROW) {
    code = kvl_store_sql_error(store, rc, "check it", err);
  } else {
    const unsigned char *verdict = sqlite3_column_text(statement, 0);
    if (verdict == NULL || strcmp((const char *)verdict, "ok") != 0) {
      code = on_one_line(kvl_err_set(err, -EUCLEAN, "%s: damaged: %s", store->path, verdict != NULL ? (const char *)verdict : "no verdict"), err);
    }
  }
  (void)sqlite3_finalize(statement);
  return code;
}
