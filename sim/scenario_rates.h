/* What binds besides memory: requests a second that each stage of the way of a request can carry, from the scenario and the cost profile alone.
 *
 * For requests of one size (fixed-size workloads), or of a file's mean size with no prefix hit (files: the worst case). Upper bounds: nothing here waits,
 * misses or shares a link. `kvloan scenario check` prints them; a run says what really happens. */
#ifndef KVL_SIM_SCENARIO_RATES_H
#define KVL_SIM_SCENARIO_RATES_H

#include <stdint.h>

#include "sim/model.h"

enum kvl_rate_stage { KVL_RATE_PREFILL, KVL_RATE_TRANSFER, KVL_RATE_ADMISSION, KVL_RATE_DECODE, KVL_RATE_STAGES };
const char *kvl_rate_stage_name(enum kvl_rate_stage stage); /* prefill, transfer, admission, decode */

struct kvl_rates {
  uint64_t input_tokens, cached_tokens, output_tokens; /* of a request */
  double per_s[KVL_RATE_STAGES];                       /* requests a second, all GPUs together; infinity: takes no time */
  enum kvl_rate_stage least;
  double asked_per_s;                                  /* open loop: the arrival rate; 0: as many as come back */
  double prefill_ms, step_ms;                          /* one prefill; one decode step of `batch` requests */
  double tokens_per_step;                              /* of one request: 1, or what speculation is expected to give at this batch */
  uint64_t batch;
};

/* `batch`: decode batch of one GPU at which decode is rated (sessions that fit), at least 1. `input_tokens`, `output_tokens`: mean of a file; 0 and 0 for
 * fixed-size workloads, which have their own. */
void kvl_rates_of(const struct kvl_scenario *scenario, uint64_t batch, uint64_t input_tokens, uint64_t output_tokens, struct kvl_rates *rates);

#endif
