/* Times of one decode GPU and one prefill GPU, from the costs descriptor: table, fitted law or roofline. Integer nanoseconds. */
#ifndef KVL_SIM_COSTS_H
#define KVL_SIM_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/model.h"

/* Time of the model's own layers for a step of `tokens` verified tokens, one a query, whose histories together have `history_tokens` tokens (roofline
 * only: what the indexer scans). *outside is set when a table is read past its ends. */
uint64_t kvl_costs_compute_ns(const struct kvl_scenario *scenario, uint32_t tokens, uint64_t history_tokens, bool *outside);

/* Time of drafting for a batch of `requests`, every step; 0 without speculation. *outside as above. */
uint64_t kvl_costs_draft_ns(const struct kvl_scenario *scenario, uint32_t requests, bool *outside);

/* What the mode adds to a step of `batch` requests, all selections together: scale x (batch / 44)^exponent. Tabulated once. */
enum { KVL_COSTS_BATCH_MAX = 4096 };
void kvl_costs_bookkeeping_table(const struct kvl_scenario *scenario, uint64_t table_ns[KVL_COSTS_BATCH_MAX + 1]);

uint64_t kvl_costs_resolve_ns(const struct kvl_costs *costs, uint64_t lanes);
/* The same on the scenario's hardware: no less than what a look-up was measured to take there alone (hardware.resolve_us_by_lanes), if it was and if the profile
 * counts look-ups at all: one whose law is 0 has them in its bookkeeping. A profile made from whole steps says more than that: what a launch amid others costs. */
uint64_t kvl_costs_look_up_ns(const struct kvl_scenario *scenario, uint64_t lanes);
uint64_t kvl_costs_prefill_ns(const struct kvl_costs *costs, uint32_t uncached_tokens, uint32_t cached_tokens);
uint64_t kvl_costs_transfer_ns(const struct kvl_costs *costs, uint64_t bytes);
uint64_t kvl_costs_history_ns(const struct kvl_costs *costs, uint64_t bytes); /* on its way to the host over the GPU's own link; 0: not over that */

#endif
