/* Inside of `kvloan trace`: what its files share. */
#ifndef KVL_SIM_CMD_TRACE_H
#define KVL_SIM_CMD_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "results/summary.h"
#include "traces/trace.h"

enum { KVL_TRACE_SIZES_MAX = 64 };

struct kvl_trace_call {
  const char *command; /* "gen", for messages */
  const char *file;    /* NULL: none given */
  const char *model, *preset, *out;
  uint32_t context, k, tokens_per_row, sessions, steps, warm;
  uint32_t session, step, limit, cache;
  uint64_t seed;
  uint64_t given;      /* bit n: option n of the table in cmd_trace.c was given */
  uint32_t size_q10[KVL_TRACE_SIZES_MAX]; /* hot-cache sizes over k, times 1,024 */
  uint32_t sizes;
  enum kvl_format format;
};

/* Was the option given? `name` as in --help. */
bool kvl_trace_given(const struct kvl_trace_call *call, const char *name);
/* One line on stderr: "kvloan trace gen: ..."; returns `code`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int kvl_trace_complain(const struct kvl_trace_call *call, int code, const char *format, ...);

/* The shape that --model, --k and --tokens-per-row ask for, and its name. 0, or the exit code after a line. */
int kvl_trace_shape(const struct kvl_trace_call *call, struct kvl_selection_shape *shape, char model[KVL_TRACE_MODEL_MAX + 1]);

/* Can the generator hold sessions of --context tokens and so many steps? -EINVAL says which cache is too long. */
int kvl_trace_fits(const struct kvl_trace_call *call, const struct kvl_selection_shape *shape, uint32_t steps, struct kvl_err *err);

/* A progress line on stderr when that is a terminal, at most ten times a second; done == total ends it. */
void kvl_trace_progress(const char *what, uint64_t done, uint64_t total);

/* Set by Ctrl-C: finish cleanly, leave nothing half written. */
bool kvl_trace_stopped(void);

/* The subcommands: exit codes. */
int kvl_trace_gen(const struct kvl_trace_call *call);
int kvl_trace_info(const struct kvl_trace_call *call);
int kvl_trace_verify(const struct kvl_trace_call *call);
int kvl_trace_cat(const struct kvl_trace_call *call);
int kvl_trace_curve(const struct kvl_trace_call *call);

#endif
