/* How the timed half of check_kernels times a call (check_bench.c). */
#ifndef KVL_TESTS_KERNELS_BENCH_H
#define KVL_TESTS_KERNELS_BENCH_H

#include <stdbool.h>

enum { BENCH_STEPS = 24 };

struct times { /* us */
  float median, low, high;
};

typedef int call_fn(void *arg, int step, void *stream);

/* Events around single calls, `steps` of them (<= BENCH_STEPS); `gated`: L2 flushed and the stream held until all is queued. */
struct times time_calls(call_fn *call, void *arg, int steps, bool gated, void *stream);
/* Steps from .. from + steps - 1 in one graph, launched three times; us a step. `prepare` (may be NULL) puts the state back before each launch. */
float time_graph(call_fn *call, void *arg, int from, int steps, void (*prepare)(void *), void *stream);

#endif
