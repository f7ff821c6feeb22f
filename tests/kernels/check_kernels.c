/* check_kernels: every variant of every kernel against the reference, all output and all state, bit for bit; exit 77 without a GPU.
 *
 *   check_kernels [--seed=N] [--rounds=N] [--large]   random structured batches; --large: a host pool beyond 4 GiB, 512 requests, k 4096 x
 *                                                     8, 70,000 slots
 *   check_kernels --step [--seed=N] [--rounds=N]      the kernels of a step alone (check_step.c)
 *   check_kernels --soak=N [--seed=N]                 at least N selections compared
 *   check_kernels --bench[=FILE] [--quick] [--only=peer|v41|copy|step|reader] [--pool-gib=N] [--pool=register|alloc]
 *                                                     times the call sites checked above (check_bench.c, bench_step.c); JSON lines to FILE.
 *                                                     --pool-gib: memory that the host rows of the V4.1 shape range over in all (8; 30 is real)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "backend/base/rng.h"
#include "tests/kernels/batches.h"
#include "tests/kernels/check_kernels.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/now.h"

static const char *resolve_all(struct gpu *g, struct kvl_rng *rng, uint32_t entries)
{
  static uint32_t order[1024];
  const char *bad = gpu_reference(g, entries);
  gpu_keep(g);
  for (const struct kvl_resolve_variant *v = kvl_resolve_cuda_variants; v->name != NULL && bad == NULL; v++) {
    if (v != kvl_resolve_cuda_variants) {
      gpu_restore(g);
    }
    for (uint32_t i = 0; i < entries; i++) { /* the batch in another order */
      uint32_t j = kvl_rng_below(rng, i + 1);
      order[i] = order[j];
      order[j] = i;
    }
    bad = gpu_device(g, v, entries, order);
    if (bad == NULL && (bad = gpu_compare(g, true)) != NULL) {
      static char text[400];
      snprintf(text, sizeof text, "%s: %s", v->name, bad);
      bad = text;
    }
  }
  return bad;
}

static struct gpu_config random_config(struct kvl_rng *rng)
{
  struct gpu_config c = {.requests = PICK(rng, 1, 2, 5, 9, 40, 90), .k = PICK(rng, 1, 31, 33, 64, 200, 512), .queries_max = PICK(rng, 1, 1, 2,
                                                                                                                             8)};
  c.geometry = (struct kvl_cache_geometry){.page_shift = PICK(rng, 0, 2, 4, 6),
                                           .hot_rows = PICK(rng, 0, 1, 2, 31, 32, 33, 200, 1024, 5000),
                                           .bank_rows = PICK(rng, 0, 1, 5, 64, 1000),
                                           .tail_rows = PICK(rng, 1, 16, 100),
                                           .scratch_rows = PICK(rng, 1, 6, 20)};
  c.geometry.frame_offset_rows = kvl_rng_below(rng, 3);
  c.geometry.frame_stride_rows = (1u << c.geometry.page_shift) + c.geometry.frame_offset_rows;
  c.frames = 16;
  c.rows_max = PICK(rng, 200, 1000, 5000);
  c.pages_max = PICK(rng, c.rows_max >> c.geometry.page_shift, (c.rows_max >> c.geometry.page_shift) / 2, 1);
  c.pool_max = PICK(rng, 1, 30, 300, 2000);
  c.row_bytes = PICK(rng, 8, 16, 288, 584, 656, 1152);
  c.stamped = kvl_rng_below(rng, 2) == 0;
  return c;
}

static const char *one_round(struct kvl_rng *rng, const struct gpu_config *config, uint64_t seed, uint32_t ops, uint64_t *selections)
{
  static char text[600];
  struct gpu *g = NULL;
  const char *bad = gpu_open(&g, config, seed);
  for (uint32_t r = 0; bad == NULL && r < config->requests; r++) {
    uint32_t most = config->rows_max - config->geometry.scratch_rows - 1;
    kvl_cache_load(g->cache[r], (kvl_row)PICK(rng, most, most / 2, 1, 0, most - 7));
  }
  bad = bad == NULL ? gpu_push(g) : bad;
  for (uint32_t op = 0; op < ops && bad == NULL; op++) {
    uint32_t x = kvl_rng_below(rng, 8);
    uint32_t entries = batch_entries(g, rng);
    if (x < 5) {
      batch_rows(g, rng, entries);
      gpu_in_graph(g, kvl_rng_below(rng, 3) == 0);
      gpu_fetch_bytes(g, kvl_rng_below(rng, 2) == 0 ? 0 : 8 * (1 + kvl_rng_below(rng, config->row_bytes / 8)));
      bad = resolve_all(g, rng, entries);
      *selections += (uint64_t)entries * config->k * config->queries_max;
    } else if (x == 5) {
      batch_pools(g, rng, entries);
      bad = gpu_announce(g, entries);
    } else if (x == 6) {
      bad = gpu_end_group(g, entries);
    } else {
      bad = batch_move_on(g, rng);
    }
    bad = bad == NULL ? gpu_compare(g, false) : bad;
    if (bad != NULL) {
      snprintf(text, sizeof text, "op %u: %s", op, bad);
      bad = text;
    }
  }
  gpu_close(g);
  return bad;
}

/* Many selections of the published shape: 64 requests, steps that keep 70 to 100 % of a selection, now and then a change of history and pages. Each eighth step is
 * of a small batch (large clusters), each 32nd goes back to an old selection: then the slots used longest ago are used now, and others must make room. */
static const char *soak(uint64_t seed, uint64_t wanted, uint64_t *selections)
{
  static char text[600];
  const struct gpu_config c = {.requests = 64,
                               .k = 2048,
                               .queries_max = 1,
                               .pool_max = 1024,
                               .rows_max = 40000,
                               .pages_max = 40000 / 64,
                               .frames = 128,
                               .row_bytes = 288,
                               .geometry = {.page_shift = 6, .hot_rows = 4096, .bank_rows = 2048, .tail_rows = 256, .scratch_rows = 8,
                                            .frame_stride_rows = 64}};
  struct gpu *g = NULL;
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "soak", 0);
  const char *bad = gpu_open(&g, &c, seed);
  for (uint32_t r = 0; bad == NULL && r < c.requests; r++) {
    kvl_cache_load(g->cache[r], (kvl_row)(30000 + kvl_rng_below(&rng, 1000)));
    g->entry[r] = (struct kvl_resolve_entry){.request = (int32_t)r, .query_count = 1};
  }
  bad = bad == NULL ? gpu_push(g) : bad;
  const struct kvl_resolve_variant *v = kvl_resolve_cuda_variants;
  kvl_row *old = malloc((size_t)c.requests * c.k * sizeof *old);
  bad = bad == NULL && old == NULL ? "no memory" : bad;
  for (uint64_t step = 0; bad == NULL && *selections < wanted; step++) {
    const uint32_t entries = step % 8 == 5 ? 1 + kvl_rng_below(&rng, 16) : c.requests;
    if (step % 16 == 15) {
      bad = batch_move_on(g, &rng);
    }
    if (step % 64 == 40) {
      batch_pools(g, &rng, c.requests);
      bad = bad == NULL ? gpu_announce(g, c.requests) : bad;
    }
    if (step % 64 == 50) {
      bad = bad == NULL ? gpu_end_group(g, c.requests) : bad;
    }
    for (uint32_t e = 0; e < entries && bad == NULL; e++) {
      uint32_t top = (uint32_t)kvl_cache_committed(g->cache[e]);
      kvl_row *rows = gpu_rows(g, e, 0);
      if (step % 32 == 16) {
        memcpy(&old[(size_t)e * c.k], rows, c.k * sizeof *rows);
      } else if (step % 32 == 21) {
        memcpy(rows, &old[(size_t)e * c.k], c.k * sizeof *rows);
      }
      uint32_t redraw = step == 0 ? c.k : c.k * PICK(&rng, 0, 5, 13, 30) / 100;
      g->query[e] = (struct kvl_batch_query){(kvl_row)top, c.k};
      for (uint32_t i = 0; i < redraw; i++) {
        rows[step == 0 ? i : kvl_rng_below(&rng, c.k)] = batch_row(&rng, top);
      }
    }
    bad = bad == NULL ? gpu_reference(g, entries) : bad;
    gpu_in_graph(g, step % 4 == 3); /* as planes launch it: set up while the node before it ends */
    bad = bad == NULL ? gpu_device(g, v, entries, NULL) : bad;
    if (bad == NULL && step % 64 == 63) {
      bad = gpu_compare(g, step % 1024 == 1023);
    }
    *selections += (uint64_t)entries * c.k;
    if (bad != NULL) {
      snprintf(text, sizeof text, "step %" PRIu64 ": %s", step, bad);
      bad = text;
    }
  }
  bad = bad == NULL ? gpu_compare(g, true) : bad;
  free(old);
  gpu_close(g);
  return bad;
}

static const char *large(struct kvl_rng *rng, uint64_t seed, uint64_t *selections)
{
  struct gpu_config c = {.requests = 3, .k = 4096, .queries_max = 8, .pool_max = 16384, .rows_max = 200000, .pages_max = 3000, .frames = 8,
                         .row_bytes = 584};
  c.pool_skip = UINT64_C(5) << 30; /* host rows beyond 4 GiB */
  c.geometry = (struct kvl_cache_geometry){.page_shift = 6, .hot_rows = 70000, .bank_rows = 20000, .tail_rows = 64, .scratch_rows = 8,
                                           .frame_stride_rows = 64};
  const char *bad = one_round(rng, &c, seed, 16, selections);
  for (uint32_t queries = 1; queries <= 2 && bad == NULL; queries++) { /* V4.1: a block a request, on more than half the multiprocessors */
    c = (struct gpu_config){.requests = 82, .k = 512, .queries_max = queries, .pool_max = 64, .rows_max = 20000, .pages_max = 50, .frames = 8,
                            .row_bytes = 288};
    c.geometry = (struct kvl_cache_geometry){.page_shift = 6, .hot_rows = queries == 1 ? 1024 : 5000, .bank_rows = 128, .tail_rows = 64,
                                             .scratch_rows = 8, .frame_stride_rows = 64};
    bad = one_round(rng, &c, seed, 16, selections);
  }
  c = (struct gpu_config){.requests = 512, .k = 512, .queries_max = 2, .pool_max = 64, .rows_max = 5000, .pages_max = 50, .frames = 8,
                          .row_bytes = 288};
  c.geometry = (struct kvl_cache_geometry){.page_shift = 6, .hot_rows = 1024, .bank_rows = 128, .tail_rows = 64, .scratch_rows = 8,
                                           .frame_stride_rows = 64};
  return bad != NULL ? bad : one_round(rng, &c, seed, 12, selections);
}

int main(int argc, char **argv)
{
  uint64_t seed = 1;
  uint64_t rounds = 40;
  uint64_t wanted = 0;
  bool with_large = false;
  bool bench = false;
  struct bench_options options = {.pool_gib = 0};
  bool step_alone = false;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--seed=", 7) == 0) {
      seed = strtoull(argv[i] + 7, NULL, 0);
    } else if (strncmp(argv[i], "--rounds=", 9) == 0) {
      rounds = strtoull(argv[i] + 9, NULL, 0);
    } else if (strncmp(argv[i], "--soak=", 7) == 0) {
      wanted = strtoull(argv[i] + 7, NULL, 0);
    } else if (strcmp(argv[i], "--large") == 0) {
      with_large = true;
    } else if (strcmp(argv[i], "--quick") == 0) {
      options.quick = true;
    } else if (strncmp(argv[i], "--pool-gib=", 11) == 0) {
      options.pool_gib = strtoull(argv[i] + 11, NULL, 0);
    } else if (strcmp(argv[i], "--pool=alloc") == 0 || strcmp(argv[i], "--pool=register") == 0) {
      options.pool_alloc = argv[i][7] == 'a';
    } else if (strcmp(argv[i], "--step") == 0) {
      step_alone = true;
    } else if (strncmp(argv[i], "--only=", 7) == 0) {
      options.only = argv[i] + 7;
    } else if (strncmp(argv[i], "--bench", 7) == 0 && (argv[i][7] == '\0' || argv[i][7] == '=')) {
      bench = true;
      options.file = argv[i][7] == '=' ? argv[i] + 8 : NULL;
    } else {
      fprintf(stderr, "usage: check_kernels [--seed=N] [--rounds=N] [--large] [--step] [--soak=N] [--bench[=FILE]] [--quick]"
                      " [--only=peer|v41|copy|step|reader] [--pool-gib=N] [--pool=register|alloc]\n");
      return 2;
    }
  }
  const char *absent = gpu_absent();
  if (absent != NULL) {
    fprintf(stderr, "check_kernels: skipped: %s\n", absent);
    return 77;
  }
  char name[256];
  printf("# %s; seed %" PRIu64 "\n", gpu_name(name, sizeof name), seed);
  if (bench) {
    options.seed = seed;
    return check_bench(&options);
  }
  const char *bad = NULL;
  uint64_t selections = 0;
  struct timespec t0;
  struct timespec t1;
  clock_gettime(CLOCK_MONOTONIC, &t0);
  struct kvl_rng rng;
  uint64_t r = 0;
  if (wanted > 0) {
    bad = soak(seed, wanted, &selections);
  } else {
    char where[64] = "";
    bad = check_step(seed, rounds, where, sizeof where);
    if (bad != NULL) {
      printf("DIFFERENT: seed %" PRIu64 " %s: %s\n", seed, where, bad);
      return 1;
    }
    if (step_alone) {
      printf("equal: kernels of a step, %" PRIu64 " rounds, 0 differences\n", rounds);
      return 0;
    }
    kvl_rng_init(&rng, seed, "segments", 0);
    bad = check_segments(&rng);
    for (; r < rounds && bad == NULL; r++) {
      kvl_rng_init(&rng, seed, "kernels", r);
      struct gpu_config c = random_config(&rng);
      bad = one_round(&rng, &c, seed, 24, &selections);
    }
    if (with_large && bad == NULL) {
      kvl_rng_init(&rng, seed, "kernels large", 0);
      bad = large(&rng, seed, &selections);
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &t1);
  double s = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
  if (bad != NULL) {
    printf("DIFFERENT: seed %" PRIu64 " round %" PRIu64 ": %s\n", seed, r > 0 ? r - 1 : 0, bad);
    return 1;
  }
  printf("equal: %" PRIu64 " selections, 0 differences, %.1f s\n", selections, s);
  return 0;
}
