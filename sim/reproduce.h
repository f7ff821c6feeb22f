/* The published experiment as a test of the simulator: one set of parameters for all rows, some rows used to find them, the verdict on the others. */
#ifndef KVL_SIM_REPRODUCE_H
#define KVL_SIM_REPRODUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "sim/run.h"
#include "sim/scenario.h"

enum { KVL_PUBLISHED_ROWS_MAX = 64, KVL_CONTROLS = 6, KVL_DEMANDS = 4, KVL_REPRODUCE_SETS_MAX = 64 };

/* One row of scenarios/published.csv. A value is a number, or a range low..high. */
struct kvl_published_row {
  char id[8], mode[16], metric[48], unit[24];
  double low, high;        /* equal for a single number */
  double repeat;           /* 0: none */
};

/* -ENOENT, -EINVAL and a line with file and line number. */
int kvl_published_read(const char *path, struct kvl_published_row *rows, uint32_t *count, struct kvl_err *err);

enum kvl_row_use { KVL_ROW_CALIBRATION, KVL_ROW_VERDICT, KVL_ROW_LEFT_OUT, KVL_ROW_PRINTED /* shown, no verdict */ };

struct kvl_reproduced_row {
  const struct kvl_published_row *published;
  enum kvl_row_use use;
  double simulated, simulated_low, simulated_high; /* a range when the row speaks of several runs */
  double difference_percent;                       /* from the number, or from the nearer end of the range, in per cent of it; 0 inside the range */
  bool within;                                     /* 5 %, or inside the range */
};

/* What the published authors tried without gain, and the mode they started from: throughput against the adaptive run. */
struct kvl_control {
  const char *name;
  bool drafts; /* against the adaptive run with drafts */
  double throughput_tok_per_s, against_adaptive_percent;
};

/* What row P19 hangs on: the share of the later selections that goes to the host on demand when something that is not published is otherwise. */
struct kvl_later_demand {
  const char *name;
  double percent;
};

/* The fitted numbers, in the order of the rows that they are fitted to. */
struct kvl_fit {
  double kv_pool_bytes;         /* P01 */
  double sessions_per_gpu_max;  /* P02 */
  double requests_per_session;  /* P05: requests of the run over its concurrency */
  double law_fixed_ms;          /* P07 */
  double law_token_ms;          /* P08 */
  double bookkeeping_ms_at_44;  /* P16 */
  double admission_ms;          /* P17 */
  double state_bytes_per_token; /* P13: what speculation keeps of a session in HBM */
};

struct kvl_reproduction {
  struct kvl_published_row published[KVL_PUBLISHED_ROWS_MAX];
  struct kvl_reproduced_row row[KVL_PUBLISHED_ROWS_MAX];
  uint32_t rows;
  struct kvl_control control[KVL_CONTROLS];
  uint32_t controls;
  struct kvl_later_demand demand[KVL_DEMANDS]; /* with the controls */
  uint32_t demands;
  struct kvl_fit fit;
  bool refitted;
  double worst_percent; /* of the verdict's rows */
  bool passed;
};

struct kvl_reproduce_options {
  const char *scenario;    /* the published scenario */
  const char *rows;        /* published.csv */
  const char *sets[KVL_REPRODUCE_SETS_MAX]; /* scenario keys changed in every run: KEY=VALUE */
  unsigned set_count;
  const char *leave_out;   /* a row id: refit without it; NULL */
  bool refit;              /* fit again, from the scenario's numbers on */
  bool controls;           /* run the negative controls */
  const char *store;
  uint32_t threads;
  const volatile sig_atomic_t *stop;
  void (*say)(void *context, const char *what); /* one line for each thing begun; may be NULL */
  void *say_context;
};

/* By how much [simulated_low, simulated_high] leaves [low, high], in per cent of the end that it leaves by more (of the other end where that one is 0):
 * below it negative, inside 0. */
double kvl_range_miss_percent(double low, double high, double simulated_low, double simulated_high);

int kvl_reproduce(const struct kvl_reproduce_options *options, struct kvl_reproduction *result, struct kvl_err *err);

#endif
