/* Why a stored run behaves as it does: what its records say, and what the model plane says when one thing is changed.
 *
 * Three parts: the facts (time by cause, who held HBM, what the link carried, where each layer found its rows, what binds); two bounds (a link that
 * costs nothing; clairvoyant replacement in the hot caches, on the same selections); and knobs, each turned in a run of its own. Nothing here is a rule of
 * thumb: what is recommended has been run. */
#ifndef KVL_SIM_EXPLAIN_H
#define KVL_SIM_EXPLAIN_H

#include <signal.h>
#include <stdbool.h>

#include "results/store.h"
#include "results/timeline.h"
#include "sim/scenario.h"

/* ---- facts ---- */

enum { KVL_EXPLAIN_SLICES = 10, KVL_EXPLAIN_POINTS = KVL_POINTS_MAX, KVL_EXPLAIN_LINE = 512, KVL_EXPLAIN_GPUS = 4096 };

struct kvl_explain_slice { /* a tenth of the run; shares in percent of HBM */
  double from_s, to_s, batch, waiting, reserved, lent, retiring, free, history;
};

struct kvl_explain_point {
  uint32_t layer, cache;
  uint64_t lanes[KVL_REPORT_TIERS], fetched;
};

/* What binds, strongest first. */
enum kvl_binding { KVL_BINDS_PREFILL, KVL_BINDS_SESSIONS, KVL_BINDS_LINK, KVL_BINDS_COMPUTE, KVL_BINDS_LOAD };

struct kvl_explain_facts {
  const struct kvl_stored_run *run;
  const struct kvl_scenario *scenario;
  struct kvl_explain_slice slice[KVL_EXPLAIN_SLICES];
  uint32_t slices;                 /* 0: the run has no time line */
  double waiting_mean;
  double history_mean;             /* of the running sessions, share in HBM, percent */
  struct kvl_explain_point point[KVL_EXPLAIN_POINTS];
  uint32_t points;
  uint64_t moved_pages[4];         /* revoked (nothing crosses the link), populated, given back, kept */
  uint64_t moved_bytes;            /* over the link, of pages populated and given back */
  uint64_t page_bytes;
  struct {                         /* bytes over the host links; they add up to the summary's total */
    uint64_t demand, population, give_back, prefetch, other;
  } link;
  double link_gb_per_s;            /* mean of one decode GPU, while the run lasted */
  uint64_t sessions_fit;           /* of the workload's size on a decode GPU; 0: sizes vary */
  const char *sessions_bound_by;   /* "node.sessions_per_gpu_max", ...; "" where the batch never reached it */
  uint32_t pressed_sessions;       /* most that a decode GPU had at once; 0: the run has no records of its requests */
  uint64_t pressed_requests;       /* submitted by the time that a GPU had nearly as many and, where requests waited for a slot, as many waited as on average */
  enum kvl_binding binds;
  char binding[KVL_EXPLAIN_LINE];  /* in words */
};

/* `run` and `scenario` must outlive the facts. `line` may be NULL (allocated here then). */
int kvl_explain_read(struct kvl_explain_facts *facts, struct kvl_store *store, const struct kvl_stored_run *run, const struct kvl_scenario *scenario,
                     struct kvl_err *err);

/* The part of it that says from which request on the run was as full as it got: pressed_sessions, pressed_requests. */
int kvl_explain_press(struct kvl_explain_facts *facts, struct kvl_store *store, struct kvl_err *err);

/* What candidate prefetch and speculation did, a sentence each; "" when the run had none. */
void kvl_explain_prefetch(const struct kvl_summary *summary, char *text, size_t size);
void kvl_explain_speculation(const struct kvl_summary *summary, char *text, size_t size);

/* "256 concurrent sessions of 500,000 tokens in (499,968 cached) and 800 out; 384 requests" and the like. */
void kvl_explain_workload(const struct kvl_scenario *scenario, char *text, size_t size);

/* Do requests arrive by themselves, at a rate or at recorded times? Otherwise a finished one makes room for the next. */
bool kvl_is_open_loop(const struct kvl_scenario *scenario);
/* Output of the steady window (first completion to last submission) over that of the whole run; 0: the window is no measure, because there is none or the run is
 * shorter than three stays of a request (end to end, p90). What an open loop puts out is given, so with few requests the whole run's figure tells how fast
 * the last ones end. */
double kvl_steady_ratio(const struct kvl_summary *summary);

/* ---- what if ---- */

enum kvl_try_kind { KVL_TRY_BASE, KVL_TRY_BOUND, KVL_TRY_SETTING, KVL_TRY_HARDWARE };
enum { KVL_TRY_SETS = 8, KVL_TRIES_MAX = 32, KVL_TRY_SET_MAX = 1024 };

enum kvl_objective { KVL_FOR_THROUGHPUT, KVL_FOR_GOODPUT, KVL_FOR_TTFT, KVL_FOR_RATE, KVL_FOR_LATENCY, KVL_OBJECTIVES };

struct kvl_try {
  enum kvl_try_kind kind;
  char label[128];                 /* "policy.hot_rows=4096" */
  char *set[KVL_TRY_SETS];         /* assignments; owned */
  uint32_t sets;
  int status;                      /* 0: it ran; negative errno otherwise, and `why` */
  char why[KVL_EXPLAIN_LINE];
  struct kvl_summary summary;
  double gain_percent;             /* of the objective, against the base; better is positive */
  double worst_percent;            /* largest loss among the other figures of merit, as a positive number */
  enum kvl_objective worst;        /* which of them it is */
};

const char *kvl_objective_name(enum kvl_objective objective);    /* throughput, goodput, ttft, rate, latency */
const char *kvl_objective_meaning(enum kvl_objective objective); /* "output tokens a second" */
/* `steady`: throughput and goodput of the steady window, goodput as the whole run's share of requests that meet the targets. */
double kvl_objective_value(enum kvl_objective objective, const struct kvl_summary *summary, bool steady);
/* Goodput where the scenario has targets, throughput in a closed loop, else end-to-end latency: an open loop's throughput is what is asked for. */
enum kvl_objective kvl_objective_of(const struct kvl_scenario *scenario);

/* Hot caches of the run's size on the run's own selections (a few sessions): how much of what LRU misses a clairvoyant policy would miss as well. Rows in
 * the newest part of the history, as much as the run held in HBM on average, count as held: they never reach the hot caches. */
struct kvl_explain_bound {
  bool known;                      /* false: the scenario resolves no selections, or holds everything */
  double lru_percent, clairvoyant_percent; /* misses of the selections that reach the hot caches */
  double reach_percent;            /* of all selections, those that reach them */
  double ratio;                    /* clairvoyant / lru */
};
int kvl_explain_clairvoyant(const struct kvl_scenario *scenario, double history_percent, struct kvl_explain_bound *bound, struct kvl_err *err);

struct kvl_explain_options {
  enum kvl_objective objective;
  uint32_t threads;                /* all cores: 0 */
  uint32_t knobs;                  /* most knobs to turn */
  uint64_t requests;               /* of each re-run; 0: as many as bounded work allows */
  const char *const *sets;         /* applied to the run's scenario first */
  unsigned set_count;
  const volatile sig_atomic_t *stop;
  void (*progress)(void *context, uint32_t done, uint32_t total, double share); /* re-runs; the share of all their requests that are done, from 0 to 1. First before any of them, with 0; also when it has not grown */
  void *progress_context;
};

struct kvl_what_if {
  enum kvl_objective objective;
  struct kvl_try item[KVL_TRIES_MAX]; /* item[0] is the base; then bounds, settings, hardware, each best first */
  uint32_t count;
  uint64_t requests;               /* of each run, when fewer than the stored run had; else 0 */
  bool pressed;                    /* false: too few requests to press on the pool as the stored run did, so no best is named */
  uint64_t requests_at_least;      /* so many would; 0: not known */
  uint32_t stored_sessions;        /* most on a decode GPU in the stored run */
  bool steady;                     /* throughput and goodput are compared in the steady window: an open loop, and every run has a sensible one */
  bool base_is_stored;             /* the stored run is the base: same build, same length */
  struct kvl_explain_bound bound;
  int best;                        /* index of the setting worth turning; -1: none gains 1 % without losing as much elsewhere, or !pressed */
  int best_hardware;               /* the same among hardware */
};

/* Runs the model plane again and again. 0; -EINTR after *stop; errors of the scenario's text. A run that fails is a try with a status, not an error. */
int kvl_explain_what_if(struct kvl_what_if *what_if, const struct kvl_explain_facts *facts, const char *scenario_json, const char *name,
                        const struct kvl_explain_options *options, struct kvl_err *err);
void kvl_what_if_free(struct kvl_what_if *what_if);

/* " in the steady window" where the objective's figures are that window's, else "". */
const char *kvl_what_if_window(const struct kvl_what_if *what_if);
/* One sentence: the knob, what it gains, what it costs. */
void kvl_what_if_advice(const struct kvl_what_if *what_if, char *text, size_t size);

#endif
