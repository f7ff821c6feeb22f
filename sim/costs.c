#include "sim/costs.h"

#include <math.h>

__extension__ typedef unsigned __int128 u128;

static uint64_t scaled(uint64_t a, uint64_t b, uint64_t divisor)
{
  return divisor == 0 ? 0 : (uint64_t)((u128)a * b / divisor);
}

/* Roofline: weights and what attention reads over HBM bandwidth, against arithmetic over the peak rate; an estimate wherever it is used. A query reads
 * its selected rows at every reading layer, its window, and the index keys of its whole history at every selection. */
static uint64_t roofline_ns(const struct kvl_scenario *s, uint32_t tokens, uint64_t history_tokens)
{
  const struct kvl_model *m = &s->model;
  uint64_t read = m->weights_bytes + (uint64_t)tokens * m->window_bytes;
  for (uint32_t p = 0; p < m->selection.points; p++) {
    const struct kvl_selection_point *point = &m->selection.point[p];
    const struct kvl_model_cache *cache = &m->cache[point->cache];
    read += (uint64_t)tokens * point->k * cache->row_bytes * m->readers[p];
    read += history_tokens / cache->tokens_per_row * cache->index_key_bytes;
  }
  read += (history_tokens * m->whole_bytes_per_token_q8) >> 8;
  uint64_t by_bytes = scaled(read, 1000000000u, s->hardware.hbm_bytes_per_s);
  uint64_t by_flops = scaled((uint64_t)tokens * m->active_flops_per_token, 1000000000u, s->hardware.flops_per_s);
  return s->costs.law_fixed_ns + (by_bytes > by_flops ? by_bytes : by_flops);
}

uint64_t kvl_costs_compute_ns(const struct kvl_scenario *s, uint32_t tokens, uint64_t history_tokens, bool *outside)
{
  if (tokens == 0) {
    return 0;
  }
  switch (s->costs.compute) {
  case KVL_COMPUTE_TABLE:
    return kvl_curve_at(&s->costs.step_ns_by_tokens, tokens, outside);
  case KVL_COMPUTE_LAW:
    return s->costs.law_fixed_ns + s->costs.law_token_ns * tokens;
  case KVL_COMPUTE_ROOFLINE:
    return roofline_ns(s, tokens, history_tokens);
  }
  return 0;
}

uint64_t kvl_costs_draft_ns(const struct kvl_scenario *s, uint32_t requests, bool *outside)
{
  return s->speculation.method == KVL_SPECULATION_NONE || requests == 0 ? 0 : kvl_curve_at(&s->costs.draft_ns_by_requests, requests, outside);
}

void kvl_costs_bookkeeping_table(const struct kvl_scenario *s, uint64_t table_ns[KVL_COSTS_BATCH_MAX + 1])
{
  double scale = (double)(s->mode == KVL_MODE_RESIDENT ? s->costs.resident_bookkeeping_ns_at_44 : s->costs.bookkeeping_ns_at_44);
  double exponent = (double)s->costs.bookkeeping_exponent_permille / 1000.0;
  table_ns[0] = 0;
  for (uint32_t batch = 1; batch <= KVL_COSTS_BATCH_MAX; batch++) {
    table_ns[batch] = (uint64_t)llround(scale * pow((double)batch / 44.0, exponent));
  }
}

uint64_t kvl_costs_resolve_ns(const struct kvl_costs *c, uint64_t lanes)
{
  return c->resolve_fixed_ns + lanes * c->resolve_lane_ps / 1000;
}

uint64_t kvl_costs_look_up_ns(const struct kvl_scenario *s, uint64_t lanes)
{
  uint64_t law = kvl_costs_resolve_ns(&s->costs, lanes);
  if ((s->costs.resolve_fixed_ns == 0 && s->costs.resolve_lane_ps == 0) || s->hardware.resolve_ns_by_lanes.n == 0) {
    return law;
  }
  uint64_t alone = kvl_curve_at(&s->hardware.resolve_ns_by_lanes, lanes, NULL);
  return alone > law ? alone : law;
}

uint64_t kvl_costs_prefill_ns(const struct kvl_costs *c, uint32_t uncached, uint32_t cached)
{
  u128 ns = c->prefill_fixed_ns + ((u128)uncached * c->prefill_token_ps + (u128)cached * c->prefill_cached_token_ps) / 1000;
  return ns < KVL_TIME_MAX ? (uint64_t)ns : KVL_TIME_MAX;
}

uint64_t kvl_costs_transfer_ns(const struct kvl_costs *c, uint64_t bytes)
{
  return scaled(bytes, 1000000000u, c->transfer_bytes_per_s);
}

uint64_t kvl_costs_history_ns(const struct kvl_costs *c, uint64_t bytes)
{
  return scaled(bytes, 1000000000u, c->history_bytes_per_s);
}
