/* Shared by the store's own files only: nobody else sees sqlite3.h. */
#ifndef KVL_RESULTS_STORE_INTERNAL_H
#define KVL_RESULTS_STORE_INTERNAL_H

#include <sqlite3.h>
#include <stdint.h>

#include "results/store.h"

enum {
  KVL_STORE_APPLICATION_ID = 0x6b766c6e, /* "kvln" */
  KVL_STORE_VERSION = 1,
  KVL_STORE_HEADER_BYTES = 100,
  KVL_STORE_BUSY_MS = 5000,
  KVL_STORE_BATCH_ROWS = 2048
};
extern const char *const kvl_store_schema[]; /* statements; NULL ends the list */

enum kvl_store_statement {
  KVL_SQL_REQUEST,
  KVL_SQL_SAMPLE,
  KVL_SQL_POINT,
  KVL_SQL_MOVE,
  KVL_SQL_SUMMARY,
  KVL_SQL_END,
  KVL_SQL_STATEMENTS
};

struct kvl_store {
  sqlite3 *db;
  char *path; /* as given, for messages */
  uint32_t busy_ms, batch_rows;
  int read_only, absent; /* absent: there was no such file yet */

  int64_t run; /* being written; 0: none */
  uint64_t samples_written, moves_written;
  sqlite3_stmt *statement[KVL_SQL_STATEMENTS];
  struct kvl_request_record *request;
  struct kvl_step_sample *sample;
  struct kvl_point_counter *point;
  struct kvl_move_record *move;
  uint32_t requests, samples, points, moves; /* in memory */
};

/* Turns SQLite's last failure `rc` into a negative errno and one line: "FILE: cannot DO: why". */
int kvl_store_sql_error(const struct kvl_store *store, int rc, const char *doing, struct kvl_err *err);
int kvl_store_exec(struct kvl_store *store, const char *sql); /* an SQLite result code */
int kvl_store_prepare(struct kvl_store *store, sqlite3_stmt **statement, const char *sql);

/* The application id in SQLite's header (its file format, section 1.3: magic in bytes 0-15, the id in bytes 68-71, big-endian); 0: none, or not SQLite's. */
uint32_t kvl_store_header_application(const unsigned char header[KVL_STORE_HEADER_BYTES]);

/* Who writes a run, and whether that process still lives. */
struct kvl_store_owner {
  char host[72], boot[48], space[48]; /* node name, boot id, process-id name space */
  int64_t process, process_start;     /* start: clock ticks since boot; 0 when not known */
};
void kvl_store_owner_self(struct kvl_store_owner *owner);
enum kvl_stored_status kvl_store_owner_status(const struct kvl_store_owner *owner, const struct kvl_store_owner *self);
void kvl_store_machine(char *text, size_t size); /* "Linux 6.1.0 x86_64, 2 CPUs, NAME OF THE CPU" */

#endif
