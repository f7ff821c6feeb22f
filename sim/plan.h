/* The capacity planner: which setting of which node serves a workload within a target at least cost, by simulation.
 *
 *   {"name": "published-256", "scenario": "published-256", "set": {"workload.requests": 384},
 *    "model": "deepseek-v4.1-flash", "costs": "...", "workload": "requests.jsonl" or {"kind": "closed", "concurrency": 256, ...},
 *    "nodes": [{"name": "two b300", "set": {"node.hardware": "b300", "node.decode_gpus": 2}, "gpu_hour": 6.0}, ...],
 *    "gpu_hour": 6.0, "target": {"ttft_p90_s": 25, "rate_p10_tok_per_s": 30, "tpot_p90_ms": 33, "concurrency": 256},
 *    "search": {"policy.hot_rows": [1024, 2048], "node.decode_gpus": [1, 2, 3]}, "effort": "normal", "repeats": 3, "seed": 1}
 *
 * Only "scenario" and "target" are needed: the scenario brings the model, the node and the workload that the plan does not name. "search" replaces the
 * values of an axis that is searched anyway, or adds an axis over any scenario key.
 *
 * The search is a row of rounds, each a design of kvloan sweep (sim/sweep.h): so each run is stored as it ends, and a plan that was killed goes on. What a
 * round holds is a function of the plan and of the results of the rounds before: nothing looks at a clock, so the same plan has the same answer.
 *
 *   bound     every candidate without a single miss (no selections are resolved): what misses the target so misses it whatever the link carries, and is dropped;
 *   screen    the rest with the time of misses added to each step, from miss curves of the same selections (sim/plan_screen.c): an estimate, never an answer;
 *   full      the most promising ones as they are, batch by batch until one meets the target or none is left that could;
 *   fine      the best one's neighbours: hot rows, page size, give-back bound, bank, as they are;
 *   repeat    the best two with other seeds;
 *   headroom  the recommendation under more load, screened: how far it is from the edge;
 *   sensitive the recommendation with other localities of the selections, and with half and twice the link.
 *
 * "effort" (quick, normal, thorough) bounds the selected and announced rows that full, fine, repeat and sensitive runs may resolve; what is left out for it
 * is said. */
#ifndef KVL_SIM_PLAN_H
#define KVL_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "results/summary.h"
#include "sim/sweep.h"

enum {
  KVL_PLAN_NODES_MAX = 8, KVL_PLAN_AXES_MAX = 16, KVL_PLAN_VALUES_MAX = 32, KVL_PLAN_AXIS_KEYS = 3, KVL_PLAN_CANDIDATES_MAX = 4000, KVL_PLAN_REPEATS_MAX = 9,
  KVL_PLAN_NAME_MAX = 60, KVL_PLAN_ROUNDS_MAX = 16, KVL_PLAN_VARIANTS_MAX = 8, KVL_PLAN_EXTRA = 8, KVL_PLAN_REASON = 300, KVL_PLAN_HEADROOM = 7
};

enum kvl_plan_target { KVL_PLAN_TTFT, KVL_PLAN_RATE, KVL_PLAN_TPOT, KVL_PLAN_HOLD, KVL_PLAN_TARGETS };
const char *kvl_plan_target_name(enum kvl_plan_target target); /* "ttft_p90_s", ... */
const char *kvl_plan_target_meaning(enum kvl_plan_target target); /* "time to first token, p90" */
const char *kvl_plan_target_unit(enum kvl_plan_target target);

struct kvl_plan_pair {
  const char *key, *value; /* value: JSON text; NULL: none */
};

struct kvl_plan_node {
  const char *name;
  struct kvl_plan_pair *set;
  unsigned sets;
  double gpu_hour; /* NaN: not known */
};

/* What is searched, coarse and fine. An axis of one value is a setting. */
struct kvl_plan_axis {
  const char *label;
  const char *key[KVL_PLAN_AXIS_KEYS];
  unsigned keys;
  uint32_t values;
  const char *value[KVL_PLAN_VALUES_MAX][KVL_PLAN_AXIS_KEYS]; /* NULL: the scenario's own */
  bool given;                                                 /* by the plan */
  const char *own[KVL_PLAN_NODES_MAX];                        /* the scenarios' own, for a value of NULL: JSON, no two alike */
  unsigned owns;
  const char *pinned;                                         /* by what the axis was taken out of the search; NULL: it is searched */
};
/* The axes that are always there, in this order; those of the plan follow. */
enum { KVL_AXIS_GPUS, KVL_AXIS_PREFILL, KVL_AXIS_MODE, KVL_AXIS_HOT, KVL_AXIS_PREFETCH, KVL_AXIS_SPECULATION, KVL_AXIS_PAGE, KVL_AXIS_GIVE_BACK, KVL_AXES_OWN };
enum { KVL_PLAN_NOT = 255 }; /* an axis that means nothing for a candidate */

struct kvl_capacity_plan {
  struct kvl_arena arena;
  const char *name, *note, *file, *scenario, *text; /* text: the whole, as read */
  struct kvl_plan_pair *set;      /* for every run, before a node's */
  unsigned sets;
  const char *const *typed;       /* --set, after the plan's own */
  unsigned typed_count;
  struct kvl_plan_node node[KVL_PLAN_NODES_MAX];
  unsigned nodes;
  double target[KVL_PLAN_TARGETS]; /* NaN: none */
  struct kvl_plan_axis axis[KVL_PLAN_AXES_MAX];
  unsigned axes;
  uint32_t repeats;
  uint64_t seed;
  double effort;                  /* rows that the runs in full may resolve */
  const char *effort_name;
};

/* Reads a plan: a file, or the bare name of one in plans/ of $KVLOAN_SCENARIOS or the installation. `typed`: --set; `targets`: --target, "ttft_p90_s=25", which
 * replace the file's. Kept by reference. -EINVAL, -ENOENT, -EIO with one line: file, line, key, reason, nearest; -ENOMEM. */
int kvl_plan_load(struct kvl_capacity_plan **plan, const char *path, const char *const *typed, unsigned typed_count, const char *const *targets, unsigned target_count,
                  struct kvl_err *err);
int kvl_plan_parse(struct kvl_capacity_plan **plan, const char *text, size_t size, const char *file, const char *const *typed, unsigned typed_count,
                   const char *const *targets, unsigned target_count, struct kvl_err *err);
void kvl_plan_free(struct kvl_capacity_plan *plan);
/* Is it "TARGET=NUMBER" as --target takes it? -EINVAL with one line. */
int kvl_plan_check_target(const char *typed, struct kvl_err *err);
/* The price of a GPU hour as --gpu-hour takes it: a number from KVL_PLAN_PRICE_MIN to KVL_PLAN_PRICE_MAX; -EINVAL: not one. */
int kvl_plan_price(const char *word, double *price);
#define KVL_PLAN_PRICE_MIN 1e-6
#define KVL_PLAN_PRICE_MAX 1e15
#define KVL_PLAN_TARGET_MIN 1e-6 /* of any target, in its unit: below and above there is nothing to be had, and limits.* end */
#define KVL_PLAN_TARGET_MAX 4e9

/* ---- the search ---- */

/* What is asked about a run. */
struct kvl_plan_figures {
  bool known;
  double throughput;              /* output tokens a second */
  double value[KVL_PLAN_TARGETS];
  double missed[KVL_PLAN_TARGETS]; /* by how much, relative: 0.1 is 10 % worse than asked; below 0: margin; NaN: no such target */
  double worst;                   /* the largest of them: at most 0 when all are met */
  double cost;                    /* per million output tokens: money when prices are known, else GPU hours */
  bool steady;                    /* the cost is that of the steady window: the ramp and the drain of an open loop are left out */
};

struct kvl_plan_result {
  bool complete;
  char reason[KVL_PLAN_REASON];   /* why not */
  int64_t run;                    /* in the store */
  uint32_t point;                 /* of the round's sweep, from 1 */
  struct kvl_summary summary;
};

struct kvl_plan_candidate {
  uint8_t node, at[KVL_PLAN_AXES_MAX];
  struct kvl_plan_pair extra[KVL_PLAN_EXTRA]; /* variants of sensitivity, screening */
  unsigned extras;
  bool impossible, hopeless, screened;
  bool full_asked;                /* a run in full was made, or tried */
  uint32_t gpus, decode_gpus;     /* in all; of these */
  bool open;                      /* requests arrive by themselves */
  double price;                   /* of all GPUs, an hour; NaN: not known */
  uint64_t fit, fit_all;          /* sessions of a decode GPU; of all together: host memory is one for them */
  const char *bound_by;           /* what binds there */
  struct kvl_plan_figures bound, screen, full[KVL_PLAN_REPEATS_MAX];
  struct kvl_plan_result result[KVL_PLAN_REPEATS_MAX]; /* in full, by repeat */
  uint32_t seeds;                 /* of these, asked for */
  uint32_t round, point;          /* of the first run in full, from 1 */
  char reason[KVL_PLAN_REASON];
};

struct kvl_plan_round {
  char name[24], hash[KVL_SWEEP_HASH]; /* of its design: a store holds the sweep under it */
  uint32_t points, repeats, failed;
};

struct kvl_plan_variant {
  char label[96];
  struct kvl_plan_result result;
  struct kvl_plan_figures figures;
  uint32_t point;
};

struct kvl_plan_search {
  const struct kvl_capacity_plan *plan;    /* with its axes filled in */
  struct kvl_capacity_plan *own;
  struct kvl_arena arena;
  struct kvl_plan_candidate *candidate;
  uint32_t candidates, impossible, hopeless, screened, fulls;
  bool prefill_left_out;          /* more candidates than can be held: GPUs for prefill are as in the scenario */
  struct kvl_plan_round round[KVL_PLAN_ROUNDS_MAX];
  uint32_t rounds;
  bool priced;
  int best, runner_up;            /* candidate; -1: none ran */
  bool met;                       /* the best one meets every target with every seed */
  bool settled;                   /* repeats are done: who has fewer seeds than others stands behind those that meet the target with all of theirs */
  struct kvl_plan_variant variant[KVL_PLAN_VARIANTS_MAX];
  uint32_t variants, variant_round;
  bool all_hopeless;              /* no candidate of the coarse search meets the target, not even without a single miss */
  struct {
    double load;                  /* sessions at a time, or requests a second */
    struct kvl_plan_figures figures;
  } headroom[KVL_PLAN_HEADROOM];  /* the recommendation under more load, screened */
  uint32_t headrooms;
  const char *load_key;           /* workload.concurrency or workload.rate_per_s; NULL: a recorded load is what it is */
  double work;                    /* rows resolved by runs in full */
  bool short_of_effort;           /* something was left out for it */
  double screen_error[3];         /* median of |screened / in full - 1|: throughput, ttft, rate; NaN: none */
  uint32_t screen_compared;
  char *scenario_json[2];         /* of the best one and the runner-up, resolved */
  char workload[512], model[KVL_NAME_MAX];
};

/* Runs a design: fills cell[0 .. tasks). -EINTR when it was interrupted. */
typedef int kvl_plan_run_fn(void *context, const struct kvl_sweep *design, bool summary_only, struct kvl_plan_result *cell, struct kvl_err *err);

/* 0 also when no candidate meets the target (met says so), or none can be run (best is -1). -EINTR; -EINVAL: the scenario itself cannot be read. */
int kvl_plan_find(struct kvl_plan_search **search, const struct kvl_capacity_plan *plan, kvl_plan_run_fn *run, void *context, struct kvl_err *err);
void kvl_plan_search_free(struct kvl_plan_search *search);

/* Figures of a run against the plan's targets. */
void kvl_plan_judge(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *candidate, const struct kvl_summary *summary, bool priced,
                    struct kvl_plan_figures *figures);
/* Which of two is the better: fewer targets' worth missed; then, where both meet them, less cost (1 % counts as the same), then the simpler, then the larger
 * margin. Below 0: a. */
int kvl_plan_compare(const struct kvl_plan_figures *a, unsigned a_parts, const struct kvl_plan_figures *b, unsigned b_parts);
/* Mechanisms that a candidate needs beyond plain serving. */
unsigned kvl_plan_parts(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *candidate);
/* "mode fixed, hot_rows 2048, ..." */
void kvl_plan_settings_text(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *candidate, char *text, size_t size);
/* The design of a round: candidates as points. Those that come to the same (an axis that the round overrules, nodes that differ in their price alone) are one point;
 * at[0 .. points) says which, from 0. */
int kvl_plan_design(struct kvl_sweep **design, const struct kvl_capacity_plan *plan, const char *round, const struct kvl_plan_candidate *const *point, uint32_t points,
                    uint32_t repeats, uint64_t seed, uint32_t *at, struct kvl_err *err);

/* plan_screen.c: duration of a step over its verified tokens, misses included, as the JSON text of costs.step_ms_by_tokens. */
struct kvl_plan_screen;
struct kvl_plan_screen *kvl_plan_screen_create(void);
void kvl_plan_screen_destroy(struct kvl_plan_screen *screen);
int kvl_plan_screen_table(struct kvl_plan_screen *screen, const struct kvl_scenario *scenario, char **json, struct kvl_err *err);
/* Mean prompt and answer of the scenario's workload. */
int kvl_plan_tokens(const struct kvl_scenario *scenario, uint64_t *input, uint64_t *output, uint64_t *most, struct kvl_err *err);

/* ---- the answer ---- */

struct kvl_explain_facts;
/* The plan's answer as JSON: tables, TSV and pages are made of it. `facts`: of the recommended run, NULL when there is none. The caller frees. NULL: no memory. */
char *kvl_plan_answer(const struct kvl_plan_search *search, const struct kvl_explain_facts *facts);

#endif
