/* Sweeps in a result store: what was planned, which runs are done, who works on them; bringing stores together; the table of a sweep.
 *
 * The tables (sweeps, sweep_keys, sweep_points, sweep_tasks, sweep_owners; results/store_sweep.c has them) are made when the first sweep is stored;
 * a store without them is a store without sweeps. A task is one run of one point; it has a row in sweep_tasks if and only if it is done, and its
 * run and that row are written in one transaction. Errors are those of results/store.h. */
#ifndef KVL_RESULTS_SWEEP_H
#define KVL_RESULTS_SWEEP_H

#include "results/store.h"

enum { KVL_HASH_TEXT = 17 };
/* XXH3-64 of a text as 16 hexadecimal digits: what runs.scenario_hash holds. */
void kvl_store_text_hash(char hash[KVL_HASH_TEXT], const char *text);

/* ---- writing: by the one process that runs a shard ---- */

struct kvl_sweep_plan {
  const char *name, *note, *scenario;
  const char *hash;            /* two plans with one hash are the same sweep */
  const char *build, *command;
  const char *const *key;
  uint32_t keys;
  const char *const *value;    /* points x keys: JSON text, NULL: the scenario's own */
  uint32_t points, repeats;
};

struct kvl_sweep_share {       /* the tasks t with t % count == index */
  uint32_t index, count;
};

/* Enters the plan unless it is there, and takes the share: a process that lives and works on any of the same tasks refuses it (-EBUSY, naming it).
 * One on another machine cannot be seen from here and refuses as well, unless `take_over`. *others: earlier sweeps of the same name and another hash. */
int kvl_store_sweep_begin(struct kvl_store *store, const struct kvl_sweep_plan *plan, const struct kvl_sweep_share *share, int take_over, int64_t *sweep,
                          uint32_t *others, struct kvl_err *err);
/* Gives the share back. */
int kvl_store_sweep_end(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, struct kvl_err *err);

enum kvl_task_state { KVL_TASK_MISSING, KVL_TASK_COMPLETE, KVL_TASK_FAILED };
/* The state of each task: `state` has points x repeats places. */
int kvl_store_sweep_states(struct kvl_store *store, int64_t sweep, uint8_t *state, uint32_t tasks, struct kvl_err *err);

struct kvl_task_result {
  uint32_t task, point, repeat;
  uint64_t seed;
  const char *reason;   /* NULL: complete */
  const char *from;     /* a store with the one run of this task; NULL: there is none (failed before it began) */
  int summary_only;     /* leave out its requests, samples, points and moves */
};
/* Records a finished task, with its run copied from `from`. Recorded already: nothing is done, 0. -EBUSY: another process took the share over. */
int kvl_store_sweep_add(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, const struct kvl_task_result *result,
                        struct kvl_err *err);
/* Removes the rows of failed tasks of the share, and their runs, so that they are run again. *count: how many. */
int kvl_store_sweep_forget_failed(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, uint32_t *count, struct kvl_err *err);

/* ---- bringing stores together ---- */

struct kvl_merge_count {
  uint32_t runs, tasks;           /* brought in */
  uint32_t runs_there;            /* were there already */
  uint32_t runs_unfinished;       /* left out: still running, or cut off */
  uint32_t tasks_replaced;        /* failed here, complete there */
  uint32_t plans;                 /* answers brought in */
};
/* Copies every finished run, every sweep and every plan's answer of the store `from` into `store`, in one transaction; what is there already is left as it is, so that
 * merging twice, or in any order, gives the same. -EINVAL: a task is complete in both with different results (the line names it). `count` is added to. */
int kvl_store_merge(struct kvl_store *store, const char *from, struct kvl_merge_count *count, struct kvl_err *err);

/* ---- reading ---- */

struct kvl_stored_sweep {
  int64_t id;
  char *name, *note, *scenario, *hash, *build, *command;
  uint32_t points, repeats;
  uint32_t complete, failed;      /* tasks */
  int running;                    /* somebody works on it, as far as can be seen from here */
  int64_t created_unix_ms;
};
struct kvl_sweep_list {
  struct kvl_stored_sweep *sweep; /* by id */
  uint32_t count;
};
int kvl_store_sweeps(struct kvl_store *store, struct kvl_sweep_list *list, struct kvl_err *err);
void kvl_sweep_list_free(struct kvl_sweep_list *list);
/* The sweep that a word names: a number, a name (the newest of that name), or NULL for the newest. -ENOENT, -EINVAL with the nearest. */
int kvl_sweep_select(const struct kvl_sweep_list *list, const char *store, const char *word, uint32_t *index, struct kvl_err *err);

struct kvl_stored_task {
  uint32_t task, point, repeat;
  uint64_t seed;
  enum kvl_task_state state;      /* missing: the rest is zero */
  char *reason, *scenario_hash;
  int64_t run;                    /* -1: none */
  int has_summary;
  struct kvl_summary summary;
};
/* A whole sweep: keys, values, tasks in order. */
struct kvl_sweep_table {
  const struct kvl_stored_sweep *sweep;
  char **key;
  uint32_t keys;
  char **value;                   /* points x keys: JSON text; NULL: the scenario's own */
  uint32_t points, repeats;
  struct kvl_stored_task *task;   /* points x repeats */
};
int kvl_sweep_table_read(struct kvl_store *store, const struct kvl_stored_sweep *sweep, struct kvl_sweep_table *table, struct kvl_err *err);
void kvl_sweep_table_free(struct kvl_sweep_table *table);

/* A value for people: a JSON string without its quotes; "-" for NULL. */
enum { KVL_SWEEP_VALUE_TEXT = 128 };
const char *kvl_sweep_value_text(char text[KVL_SWEEP_VALUE_TEXT], const char *value);

/* One summary key over the repeats of a point that are complete. */
struct kvl_sweep_cell {
  uint32_t count;
  double mean, min, max;
  double half; /* half-width of the 95 % interval of the mean (Student's t); NaN below two repeats */
};
struct kvl_sweep_cell kvl_sweep_cell(const struct kvl_sweep_table *table, uint32_t point, uint32_t metric);
/* Index of a summary key; -EINVAL with the nearest. */
int kvl_sweep_metric(const char *name, uint32_t *metric, struct kvl_err *err);
int kvl_sweep_key(const struct kvl_sweep_table *table, const char *name, uint32_t *key, struct kvl_err *err);

/* Points that fit every "KEY=VALUE" (value as kvl_sweep_value_text shows it): fills point[0 .. *count). -EINVAL with the nearest. */
int kvl_sweep_where(const struct kvl_sweep_table *table, const char *const *where, uint32_t where_count, uint32_t *point, uint32_t *count,
                    struct kvl_err *err);

enum { KVL_SWEEP_METRICS_MAX = 16 };
/* One row a point: its values, runs, and each metric with its interval; then the failed tasks with their reasons. */
int kvl_sweep_write_points(FILE *out, enum kvl_format format, const struct kvl_sweep_table *table, const uint32_t *metric, uint32_t metrics,
                           const uint32_t *point, uint32_t points);
/* One row a task, in order: values, seed, state, reason, scenario, and every key of the summary that is not measured. Two stores that hold the same
 * results give the same bytes, however they came about: no run numbers, no times of the clock. TSV or JSON. */
int kvl_sweep_write_tasks(FILE *out, enum kvl_format format, const struct kvl_sweep_table *table);

#endif
