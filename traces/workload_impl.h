/* Between traces/workload.c and the readers of one format each. */
#ifndef KVL_TRACES_WORKLOAD_IMPL_H
#define KVL_TRACES_WORKLOAD_IMPL_H

#include "traces/lines.h"
#include "traces/workload.h"

/* Limits that no real workload comes near; beyond them a number is a mistake. */
#define KVL_WORKLOAD_TOKENS_MAX UINT32_C(100000000)          /* of one request, prompt or output */
#define KVL_WORKLOAD_NS_MAX UINT64_C(1000000000000000000)    /* 31 years */

struct kvl_workload_ops {
  const char *name;
  /* NULL, or a reason why the first line of a file says that it is not of this format (for "auto" and for messages). */
  const char *(*refuses)(const char *line, size_t length);
  /* The reader's own state; NULL: no memory. */
  void *(*create)(void);
  void (*destroy)(void *state);
  void (*rewind)(void *state);
  int (*next)(void *state, struct kvl_lines *lines, struct kvl_request_spec *spec, struct kvl_err *err);
};

extern const struct kvl_workload_ops kvl_workload_mooncake;
extern const struct kvl_workload_ops kvl_workload_agent;

#endif
