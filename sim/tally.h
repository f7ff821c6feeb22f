/* What a run adds up to: histograms and sums in bounded memory, and the summary made of them. */
#ifndef KVL_SIM_TALLY_H
#define KVL_SIM_TALLY_H

#include <stdint.h>

#include "backend/base/hist.h"
#include "backend/plane.h"
#include "results/store.h"
#include "results/summary.h"
#include "sim/model.h"

struct kvl_tally {
  struct kvl_hist ttft_ns, tpot_ns, e2e_ns, step_ns, batch, verified, rate_micro; /* rate: output tokens a second, times 10^6 */
  uint64_t first_submit_ns, last_token_ns, output_tokens;
  uint64_t prompt_tokens, cached_tokens;
  uint64_t completed, aborted, met_targets, steps;
  uint64_t lanes[KVL_TIERS], fetched, overflow, violations;
  uint64_t stall_ns[KVL_STALLS];
  uint64_t items, queries, step_sum_ns, draft_ns, shared_lanes; /* items: requests of all steps */
  struct kvl_prefetch prefetch;
  uint32_t sessions_max;
  /* The steady window: from the first completion to the last submission. */
  uint64_t steady_from_ns, steady_from_tokens, steady_to_ns, steady_to_tokens;
  /* Step time at a matched batch: sums over steps of exactly this batch. */
  uint32_t matched_batch, matched_queries; /* queries 0: any */
  uint64_t matched_steps, matched_ns, matched_draft_ns;
};

void kvl_tally_init(struct kvl_tally *tally);
void kvl_tally_submitted(struct kvl_tally *tally, uint64_t now_ns);
void kvl_tally_request(struct kvl_tally *tally, const struct kvl_scenario *scenario, const struct kvl_request_record *record);
/* A step in which `batch` requests had `queries` queries and committed `tokens` tokens together. */
void kvl_tally_step(struct kvl_tally *tally, uint32_t batch, uint32_t queries, uint32_t tokens, const struct kvl_step_result *step);

/* Adds every count and time of a step's prefetch. */
void kvl_tally_prefetch(struct kvl_prefetch *sum, const struct kvl_prefetch *p);

/* Fills what the tally knows; the engine adds page moves and link shares, the caller wall time and memory. */
void kvl_tally_summary(const struct kvl_tally *tally, struct kvl_summary *summary);

#endif
