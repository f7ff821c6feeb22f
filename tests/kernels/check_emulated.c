/* check_emulated: the CUDA kernels, run on the CPU (emulate/), against the reference: all output and all state, bit for bit.
 *
 *   check_emulated [SEED [ROUNDS]]   clusters of 1, 2, 4 and 8 blocks; the seed decides the batches and in which order threads run
 *
 * A cluster is emulated thread by thread, so shapes are small; what a run cannot show is memory that is seen late, and time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backend/base/rng.h"
#include "kernels/state_ref.h"
#include "tests/kernels/batches.h"
#include "tests/kernels/check_kernels.h"

/* Ages as no short run makes them: some stamps, near and far apart, mixed or in runs, some slots never used; some slots pinned. `wanted`:
 * how many stamps, or 0. */
static const char *make_ages(struct gpu *g, struct kvl_rng *rng, uint32_t wanted)
{
  for (uint32_t r = 0; r < g->c.requests; r++) {
    struct kvl_cache *c = g->cache[r];
    uint32_t kinds = wanted > 0 ? wanted : PICK(rng, 1, 2, 4, 5, 64, 65, 68, 69, 130, 300);
    uint32_t span = wanted > 100 ? PICK(rng, 1023, 1500) : PICK(rng, 0, 500, 1022, 1023, 1024, 5000);
    uint32_t pins = wanted > 0 ? 1 : PICK(rng, 0, 0, 10, 90);
    uint32_t never = PICK(rng, 0, 0, 2);
    bool runs = kvl_rng_below(rng, 2) == 0;
    uint32_t kind = 0;
    span = span < kinds ? kinds : span;
    c->seq += span + 1;
    c->pins = 0;
    for (uint32_t s = 0; s < g->c.geometry.hot_rows; s++) {
      if (!runs || kvl_rng_below(rng, 32) == 0) {
        kind = kvl_rng_below(rng, kinds);
      }
      uint64_t pin = kvl_rng_below(rng, 100) < pins;
      bool used = c->row_of_place[s] != KVL_NONE && kvl_rng_below(rng, 100) >= never;
      c->stamp[s] = used ? c->seq - (uint32_t)((uint64_t)kind * span / (kinds > 1 ? kinds - 1 : 1)) : 0;
      c->pinned[s >> 6] = (c->pinned[s >> 6] & ~(UINT64_C(1) << (s & 63))) | pin << (s & 63);
      c->pins += (uint32_t)pin;
    }
    c->order_next = c->order_end = c->order_seq = 0; /* sorted anew */
    c->order_skipped = UINT32_MAX;
  }
  return gpu_upload_state(g);
}

/* Selections of rows that are held - or, `again`, those of the last batch - but for some; `all`: drawn anew, evenly. */
static void keep_rows(struct gpu *g, struct kvl_rng *rng, uint32_t entries, bool again, bool all)
{
  const uint32_t lanes = g->c.k * g->c.queries_max;
  const uint32_t hot_rows = g->c.geometry.hot_rows;
  for (uint32_t e = 0; e < entries; e++) {
    const struct kvl_cache *c = g->cache[e];
    uint32_t top = (uint32_t)kvl_cache_committed(c);
    uint32_t redraw = again ? PICK(rng, 0, 1, 5, 30) : PICK(rng, 1, 5, 30, 100);
    g->entry[e] = (struct kvl_resolve_entry){.request = (int32_t)e, .query_count = g->c.queries_max};
    for (uint32_t q = 0; q < g->c.queries_max; q++) {
      g->query[e * g->c.queries_max + q] = (struct kvl_batch_query){(kvl_row)top, g->c.k};
    }
    for (uint32_t i = 0; i < lanes; i++) {
      kvl_row *row = gpu_rows(g, e, 0) + i;
      if (all) {
        *row = (kvl_row)kvl_rng_below(rng, top);
      } else if (kvl_rng_below(rng, 100) < redraw || hot_rows == 0) {
        *row = batch_row(rng, top);
      } else if (!again) {
        *row = kvl_cache_hot_row(c, (kvl_slot)kvl_rng_below(rng, hot_rows));
      }
    }
  }
}

/* Those that differ in how victims are picked: batches take them in turn, those of many ages both. */
static const struct kvl_resolve_variant *pickers[2];

static const struct kvl_resolve_variant *variant(const char *name)
{
  const struct kvl_resolve_variant *v = kvl_resolve_cuda_variants;
  while (v->name != NULL && strcmp(v->name, name) != 0) {
    v++;
  }
  return v;
}

static const char *one_batch(struct gpu *g, struct kvl_rng *rng, uint32_t n)
{
  const char *bad = NULL;
  uint32_t entries = g->c.requests;
  const uint32_t kinds = n == 4 ? 300 : n == 6 ? 5 : 0; /* once in every shape: so many ages, and misses of them all */
  uint32_t x = n < 2 ? 0 : kinds > 0 ? 8 : kvl_rng_below(rng, 12);
  if (x == 11) {
    entries = batch_entries(g, rng);
    batch_pools(g, rng, entries);
    bad = gpu_announce(g, entries);
    return bad != NULL ? bad : gpu_compare(g, false);
  }
  if (x == 10) {
    bad = gpu_end_group(g, batch_entries(g, rng));
    return bad != NULL ? bad : gpu_compare(g, false);
  }
  if (x == 9) {
    bad = batch_move_on(g, rng);
  }
  if (x < 3) {
    entries = batch_entries(g, rng);
    batch_rows(g, rng, entries);
  } else if (x < 6 || x == 9) {
    keep_rows(g, rng, entries, x < 6, false);
  } else {
    bad = make_ages(g, rng, kinds);
    keep_rows(g, rng, entries, false, kinds > 0);
  }
  gpu_in_graph(g, kvl_rng_below(rng, 3) == 0);
  gpu_fetch_bytes(g, kvl_rng_below(rng, 2) == 0 ? 0 : 8 * (1 + kvl_rng_below(rng, g->c.row_bytes / 8)));
  bad = bad != NULL ? bad : gpu_reference(g, entries);
  gpu_keep(g);
  for (int first = kinds > 0 ? 0 : (int)n % 2, v = first; bad == NULL && v < (kinds > 0 ? 2 : first + 1); v++) {
    if (v > first) {
      gpu_restore(g);
    }
    bad = gpu_device(g, pickers[v], entries, NULL);
    bad = bad != NULL ? bad : gpu_compare(g, true);
  }
  return bad;
}

static const struct {
  uint32_t requests, k, queries, hot_rows, rows, row_bytes;
} shapes[] = {
    {2, 2048, 1, 4096, 9000, 288}, /* the published shape */
    {9, 320, 1, 512, 1500, 584},   /* more requests than are few */
    {2, 1024, 1, 1024, 5000, 16},
    {1, 4096, 1, 5000, 20000, 16}, /* more slots than registers hold */
    {2, 256, 1, 33, 2000, 656},    /* more misses than victims */
    {1, 512, 8, 4000, 9000, 8},    /* several queries */
    {1, 4096, 2, 4096, 20000, 16}, /* lists in memory */
    {2, 600, 1, 0, 1000, 1152},
};

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
  uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 12;
  uint64_t selections = 0;
  emulated_seed(seed);
  printf("# seed %" PRIu64 "\n", seed);
  pickers[0] = variant("overlap");
  pickers[1] = variant("prepared");
  for (emulated_device = 0; emulated_device < 4; emulated_device++) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
      struct gpu_config c = {.requests = shapes[i].requests, .k = shapes[i].k, .queries_max = shapes[i].queries, .pool_max = 200,
                             .rows_max = shapes[i].rows, .pages_max = shapes[i].rows / 64, .frames = 16, .row_bytes = shapes[i].row_bytes,
                             .stamped = true};
      c.geometry = (struct kvl_cache_geometry){.page_shift = 6, .hot_rows = shapes[i].hot_rows, .bank_rows = 100, .tail_rows = 64,
                                               .scratch_rows = 8, .frame_stride_rows = 64};
      struct gpu *g = NULL;
      struct kvl_rng rng;
      kvl_rng_init(&rng, seed, "emulated", (uint64_t)emulated_device * 100 + i);
      const char *bad = gpu_open(&g, &c, seed);
      for (uint32_t r = 0; bad == NULL && r < c.requests; r++) {
        kvl_cache_load(g->cache[r], (kvl_row)(c.rows_max - 100 - kvl_rng_below(&rng, 20)));
      }
      bad = bad != NULL ? bad : gpu_push(g);
      for (uint32_t n = 0; n < rounds; n++) {
        bad = bad != NULL ? bad : one_batch(g, &rng, n);
        if (bad != NULL) {
          printf("DIFFERENT: seed %" PRIu64 ", clusters of up to %d, shape %zu, round %u: %s\n", seed, 1 << emulated_device, i, n, bad);
          return 1;
        }
        selections += (uint64_t)c.requests * c.k * c.queries_max;
      }
      gpu_close(g);
    }
  }
  emulated_device = 3;
  char where[64] = "segments";
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "segments", 0);
  const char *bad = check_segments(&rng);
  bad = bad != NULL ? bad : check_step(seed, (rounds + 1) / 2, where, sizeof where);
  if (bad != NULL) {
    printf("DIFFERENT: seed %" PRIu64 ", %s: %s\n", seed, where, bad);
    return 1;
  }
  for (uint32_t blocks = 1; blocks <= 8; blocks *= 2) {
    printf("%" PRIu64 " clusters of %u\n", emulated_clusters[blocks], blocks);
    if (emulated_clusters[blocks] == 0) {
      printf("none of this size ran\n");
      return 1;
    }
  }
  printf("equal: %" PRIu64 " selections, 0 differences\n", selections);
  return 0;
}
