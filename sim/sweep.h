/* The design of a sweep: which points of which scenario are run, and with which seeds. Pure data: a point's number, its values and its seeds are
 * functions of the file alone, so that any process may run any part of it.
 *
 *   {"name": "hot-rows", "scenario": "published-256", "set": {"workload.requests": 96},
 *    "grid": {"policy.hot_rows": [512, 2048], "load": [{"workload.concurrency": 64, "workload.requests": 96}, ...]},
 *    "repeats": 3, "seeds": "common", "seed": 1}
 *
 * Exactly one of
 *   "grid":   every combination; the last key changes fastest. A name that is no scenario key labels an axis of objects, which set several keys at once.
 *   "list":   an array of objects, one a point; a key that a point does not name keeps the scenario's value.
 *   "random": {"points": N, "keys": {KEY: [choices] or {"from": A, "to": B, "scale": "linear" or "log", "multiple_of": M}}}, no two points alike.
 * Every key must be one of sim/scenario_keys.c, every value one that the key may take by itself. What a point cannot be as a whole (a pool too small for
 * one session) makes that point fail, not the sweep.
 *
 * A task is one run: point `task / repeats`, repeat `task % repeats`, both counted from 0 (people see them from 1). Its seed: with "common" seeds,
 * seed + repeat, the same for every point, so that points differ by what was changed and not by luck; with "independent", a draw of its own. */
#ifndef KVL_SIM_SWEEP_H
#define KVL_SIM_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "sim/scenario.h"
#include "sim/scenario_json.h"

enum { KVL_SWEEP_KEYS_MAX = 64, KVL_SWEEP_POINTS_MAX = 20000, KVL_SWEEP_REPEATS_MAX = 1000, KVL_SWEEP_TASKS_MAX = 100000, KVL_SWEEP_HASH = 17 };

enum kvl_sweep_kind { KVL_SWEEP_GRID, KVL_SWEEP_LIST, KVL_SWEEP_RANDOM };

struct kvl_sweep {
  struct kvl_arena arena;     /* holds everything below */
  const char *name, *note, *file;
  const char *scenario;       /* as typed */
  const char *scenario_file;  /* as found */
  const char *base;           /* its text */
  size_t base_size;
  const char **set;           /* "key=value" for every point, in order */
  unsigned sets, typed;       /* the last `typed` of them from the command line */
  enum kvl_sweep_kind kind;
  const char **key;           /* what differs between points */
  unsigned keys;
  const char **value;         /* points x keys; JSON text, NULL: the scenario's own */
  uint32_t points, repeats;
  uint64_t seed;
  bool independent;
  /* kvl_sweep_resolve */
  char hash[KVL_SWEEP_HASH];  /* of everything that decides a result: values, seeds, and each point's scenario with its descriptors */
  const char **reason;        /* one a point: why it cannot be run; NULL: it can */
  uint32_t impossible;        /* points with a reason */
};

/* Reads a design (`path`: a file, or the bare name of one in sweeps/ of $KVLOAN_SCENARIOS or the installation). `sets` come after the file's own
 * "set". -EINVAL, -ENOENT, -EIO with one line: file, line, key, reason, the nearest valid choice; -ENOMEM. */
int kvl_sweep_load(struct kvl_sweep **sweep, const char *path, const char *const *sets, unsigned set_count, struct kvl_err *err);
/* The same from text; `file` is its name for messages, and its folder is where the scenario is looked for first. */
int kvl_sweep_parse(struct kvl_sweep **sweep, const char *text, size_t size, const char *file, const char *const *sets, unsigned set_count,
                    struct kvl_err *err);
void kvl_sweep_free(struct kvl_sweep *sweep);

/* Loads every point's scenario once: fills hash, reason and impossible. -EINVAL when no point can be run (with the first point's reason); -ENOMEM. */
int kvl_sweep_resolve(struct kvl_sweep *sweep, struct kvl_err *err);

static inline uint32_t kvl_sweep_tasks(const struct kvl_sweep *sweep)
{
  return sweep->points * sweep->repeats;
}
uint64_t kvl_sweep_seed(const struct kvl_sweep *sweep, uint32_t task);
/* Takes the scenario's folder and what nobody typed (--set=...) out of a line, so that a point's reason is the same wherever it is run. */
void kvl_sweep_plain_reason(const struct kvl_sweep *sweep, struct kvl_err *err);
/* The scenario of a task. -EINVAL and others of kvl_scenario_parse, with a plain reason. */
int kvl_sweep_scenario(const struct kvl_sweep *sweep, uint32_t task, struct kvl_scenario_doc **doc, struct kvl_err *err);
/* "kvloan run SCENARIO --set=..." that repeats a task by itself; the caller frees. NULL: no memory. */
char *kvl_sweep_command(const struct kvl_sweep *sweep, uint32_t task);

/* The value as JSON text in the arena, after `prefix`; NULL: no memory. */
const char *kvl_sweep_json_text(struct kvl_arena *arena, const char *prefix, const struct kvl_json *node);

/* Between sweep_read.c and sweep_points.c: a design before its points are counted out. */
struct kvl_sweep_axis {
  const struct kvl_json *node; /* where it was written */
  unsigned first_key, keys;    /* its keys in sweep->key */
  uint32_t values;
  const char **value;          /* values x keys */
  /* random, when values is 0: a range */
  const char *from, *to;       /* as typed */
  bool log, whole;
  uint64_t multiple_of;
};
int kvl_sweep_expand_grid(struct kvl_sweep *sweep, const struct kvl_sweep_axis *axes, unsigned count, struct kvl_err *err);
int kvl_sweep_expand_random(struct kvl_sweep *sweep, const struct kvl_sweep_axis *axes, unsigned count, uint32_t points, struct kvl_err *err);
/* -EINVAL when two points are alike. */
int kvl_sweep_check_distinct(const struct kvl_sweep *sweep, struct kvl_err *err);

#endif
