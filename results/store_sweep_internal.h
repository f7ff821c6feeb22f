/* Between the store's files that write sweeps and merge stores. Functions return an SQLite result code unless they say otherwise. */
#ifndef KVL_RESULTS_STORE_SWEEP_INTERNAL_H
#define KVL_RESULTS_STORE_SWEEP_INTERNAL_H

#include <stdarg.h>

#include "results/store_internal.h"
#include "results/sweep.h"

enum { KVL_RUN_TABLES_MAX = 32 };

/* Prepares and binds from the left: 'i' an int64_t, 't' a text (NULL binds NULL). */
int kvl_sql_prepare(struct kvl_store *store, sqlite3_stmt **q, const char *sql, const char *types, ...);
/* Runs a statement whose rows do not matter, when `rc` is SQLITE_OK, and finalizes it. */
int kvl_sql_done(sqlite3_stmt *q, int rc);
/* The first column of the first row, 0 when there is none; binds as many of a and b as the text has places. */
int kvl_sql_number(struct kvl_store *store, int64_t *value, const char *sql, int64_t a, int64_t b);

int kvl_store_sweep_schema(struct kvl_store *store);
/* Ends a transaction: commits when both are 0, else rolls back. A negative errno. */
int kvl_store_finish(struct kvl_store *store, int rc, int code, const char *doing, struct kvl_err *err);
/* Another store under the name "other": 0 or a negative errno. Not inside a transaction. */
int kvl_store_attach(struct kvl_store *store, const char *path, struct kvl_err *err);
void kvl_store_detach(struct kvl_store *store);
/* Rows of `table` whose `key` is `from` in the other store, here with `to`; 0: the next free number. */
int kvl_store_copy_rows(struct kvl_store *store, const char *table, const char *key, int64_t from, int64_t to);
/* A run of the other store with everything that belongs to it. */
int kvl_store_copy_run(struct kvl_store *store, int64_t from, int summary_only, int64_t *run);
/* The answers of plans that the other store has and this one lacks; *count is added to. An SQLite code. */
int kvl_store_merge_plans(struct kvl_store *store, uint32_t *count);
int kvl_store_delete_run(struct kvl_store *store, int64_t run);
/* Whether somebody who may live works on the sweep. */
int kvl_store_sweep_running(struct kvl_store *store, int64_t sweep, int *running);

#endif
