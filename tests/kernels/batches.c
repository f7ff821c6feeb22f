#include "tests/kernels/batches.h"

#include <limits.h>

#include "kernels/state_ref.h"

kvl_row batch_row(struct kvl_rng *rng, uint32_t top)
{
  uint32_t x = kvl_rng_below(rng, 1000);
  if (x < 30 || top == 0) {
    return KVL_NONE;
  }
  if (x < 40) {
    return (kvl_row)PICK(rng, top, top + 1, (uint32_t)-2, (uint32_t)INT32_MIN, INT32_MAX, top - 1);
  }
  if (x < 350) {
    return (kvl_row)kvl_rng_below(rng, top);
  }
  if (x < 700) {
    return (kvl_row)kvl_rng_below(rng, top < 100 ? top : 100);
  }
  uint32_t back = (uint32_t)(40.0 * kvl_rng_exponential(rng));
  return (kvl_row)(back < top ? top - 1 - back : 0);
}

uint32_t batch_entries(struct gpu *g, struct kvl_rng *rng)
{
  uint32_t n = 0;
  uint32_t keep = PICK(rng, 1000, 1000, 700, 100);
  for (uint32_t r = 0; r < g->c.requests; r++) {
    if (kvl_rng_below(rng, 1000) < keep) {
      g->entry[n++] = (struct kvl_resolve_entry){.request = kvl_rng_below(rng, 12) == 0 ? KVL_NONE : (int32_t)r,
                                                 .query_count = 1 + kvl_rng_below(rng, g->c.queries_max),
                                                 .whole = kvl_rng_below(rng, 4) == 0};
    }
  }
  if (n == 0) {
    g->entry[n++] = (struct kvl_resolve_entry){.request = 0, .query_count = 0};
  }
  for (uint32_t i = n; i-- > 1;) {
    uint32_t j = kvl_rng_below(rng, i + 1);
    struct kvl_resolve_entry t = g->entry[i];
    g->entry[i] = g->entry[j];
    g->entry[j] = t;
  }
  return n;
}

void batch_rows(struct gpu *g, struct kvl_rng *rng, uint32_t entries)
{
  for (uint32_t e = 0; e < entries; e++) {
    const struct kvl_cache *c = g->entry[e].request == KVL_NONE ? NULL : g->cache[g->entry[e].request];
    uint32_t top = c == NULL ? 100 : (uint32_t)kvl_cache_committed(c);
    for (uint32_t q = 0; q < g->c.queries_max; q++) {
      uint32_t n = kvl_rng_below(rng, 3) == 0 ? g->c.k : kvl_rng_below(rng, g->c.k + 1);
      kvl_row *rows = gpu_rows(g, e, q);
      g->query[e * g->c.queries_max + q] = (struct kvl_batch_query){
          (kvl_row)PICK(rng, top, top, top, top + 3, top / 2, 0, INT32_MAX, (uint32_t)-5), n};
      for (uint32_t i = 0; i < g->c.k; i++) {
        bool again = i + q > 0 && kvl_rng_below(rng, 8) == 0;
        rows[i] = !again ? batch_row(rng, top + 2) : q > 0 && i == 0 ? gpu_rows(g, e, q - 1)[0] : rows[kvl_rng_below(rng, i > 0 ? i : 1)];
      }
    }
  }
}

void batch_pools(struct gpu *g, struct kvl_rng *rng, uint32_t entries)
{
  for (uint32_t e = 0; e < entries; e++) {
    const struct kvl_cache *c = g->entry[e].request == KVL_NONE ? NULL : g->cache[g->entry[e].request];
    uint32_t top = c == NULL ? 100 : (uint32_t)kvl_cache_committed(c) + 2;
    for (uint32_t q = 0; q < g->c.queries_max; q++) {
      kvl_row *rows = gpu_pool(g, e, q);
      uint32_t n = kvl_rng_below(rng, g->c.pool_max + 1);
      uint32_t step = top / (n + 1) * 2;
      uint32_t at = kvl_rng_below(rng, step + 1);
      for (uint32_t i = 0; i < g->c.pool_max; i++) {
        rows[i] = (kvl_row)at;
        at += i % 8 == 7 ? 1 + kvl_rng_below(rng, step + 1) : 1;
      }
      g->query[e * g->c.queries_max + q] = (struct kvl_batch_query){0, n};
    }
  }
}

const char *batch_move_on(struct gpu *g, struct kvl_rng *rng)
{
  for (uint32_t r = 0; r < g->c.requests; r++) {
    struct kvl_cache *c = g->cache[r];
    uint32_t tail = kvl_cache_tail_rows(c);
    if (kvl_rng_below(rng, 3) == 0) { /* as if many transactions had touched nothing: stamps far apart */
      c->seq += PICK(rng, 1, 30, 900, 1022, 1023, 1024, 3000, 70000);
    }
    switch (kvl_rng_below(rng, 4)) {
    case 0:
      if ((uint32_t)kvl_cache_committed(c) + g->c.geometry.scratch_rows < g->c.rows_max) {
        kvl_cache_scratch(c, kvl_rng_below(rng, g->c.geometry.scratch_rows + 1));
      }
      break;
    case 1:
      for (uint32_t n = g->c.geometry.scratch_rows + 1; n-- > 0;) {
        if (kvl_cache_commit(c, kvl_rng_below(rng, n + 1)) == 0) {
          break;
        }
      }
      break;
    case 2: kvl_cache_written_back(c, kvl_rng_below(rng, tail + 1)); break;
    default: {
      uint32_t whole = ((uint32_t)kvl_cache_committed(c) - tail) >> g->c.geometry.page_shift;
      uint32_t share = PICK(rng, 0, 0, 30, 60, 100);
      for (uint32_t p = 0; p < g->c.pages_max; p++) {
        g->page_map[(size_t)r * g->c.pages_max + p] =
            p < whole && kvl_rng_below(rng, 100) < share ? (kvl_frame)kvl_rng_below(rng, g->c.frames) : KVL_NONE;
      }
    }
    }
  }
  return gpu_push(g);
}
