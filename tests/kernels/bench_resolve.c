/* bench_resolve [--json] [--draw=gaps|uniform] [--bank=ROWS] [--requests=N] [--steps=N] [--seed=N]: selected positions a second of the C
 * reference on one core.
 *
 * The published adaptive setting: requests of 500,000 tokens; four caches (three of 250,000 rows, one of 500,000), eight selections of 512
 * rows a step (one each for the first three, five for the last), the newest 45 % of the pages lent, 70 % of a selection kept from step to
 * step. The rest is drawn with the published re-reference gaps (`gaps`: 0.085 from two steps back, ... 0.042 new) or anew (`uniform`: the
 * worst case). With --bank the fourth layer announces 2,048 blocks of 8 rows (10 % of them new each step) and the last four selections come
 * from them; announcing is timed apart. Drawing is not timed; a step's resolves are, request by request, as the engine runs them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/base/rng.h"
#include "kernels/resolve_ref.h"

enum { CACHES = 4, SELECTIONS = 8, K = 512, PAGE_TOKENS = 256, TOKENS = 500000, DEPTH = 64, WARM = 40, BLOCKS = 2048, BLOCK = 8,
      POOL = BLOCKS * BLOCK };

static const uint32_t cache_rows[CACHES] = {250000, 250000, 250000, 500000};
static const uint32_t cache_hot[CACHES] = {1024, 1024, 1024, 2048};
static const uint32_t cache_shift[CACHES] = {7, 7, 7, 8};
static const uint32_t selection_cache[SELECTIONS] = {0, 1, 2, 3, 3, 3, 3, 3};

struct stream {
  kvl_row past[DEPTH][K]; /* selections of the last steps */
};

struct bench {
  uint32_t requests, steps, bank;
  kvl_row *pool;                /* [requests][POOL], ascending */
  bool uniform;
  struct kvl_cache_geometry g[CACHES];
  struct kvl_cache **cache;     /* [requests][CACHES] */
  kvl_frame *pages;             /* [requests][page_count] */
  struct stream *stream;        /* [requests][SELECTIONS] */
  struct kvl_resolve_ws *ws;
  size_t state_bytes;
};

static void *aligned(size_t bytes)
{
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes) != 0) {
    fprintf(stderr, "bench_resolve: out of memory\n");
    exit(1);
  }
  return p;
}

/* CPU time of this process: other programs on the machine then only disturb the caches. */
static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Steps back of a re-reference that is not from the last step, in 1/10000 of those: 2, 3-4, 5-8, 9-16, 17-32, 33-63, new. */
static uint32_t draw_gap(struct kvl_rng *rng)
{
  static const uint32_t share[] = {2833, 1967, 1367, 1067, 867, 700};
  static const uint32_t from[] = {2, 3, 5, 9, 17, 33};
  static const uint32_t width[] = {1, 2, 4, 8, 16, 31};
  uint32_t x = kvl_rng_below(rng, 10000);
  for (uint32_t i = 0; i < 6; i++) {
    if (x < share[i]) {
      return from[i] + kvl_rng_below(rng, width[i]);
    }
    x -= share[i];
  }
  return 0;
}

static void draw(struct stream *s, uint32_t step, uint32_t rows, bool uniform, struct kvl_rng *rng)
{
  kvl_row *now = s->past[step % DEPTH];
  const kvl_row *last = s->past[(step + DEPTH - 1) % DEPTH];
  for (uint32_t i = 0; i < K; i++) {
    now[i] = last[i];
    if (step == 0 || kvl_rng_below(rng, 1000) >= 700) {
      uint32_t gap = uniform ? 0 : draw_gap(rng);
      now[i] = gap > 0 && gap <= step ? s->past[(step - gap) % DEPTH][kvl_rng_below(rng, K)] : (kvl_row)kvl_rng_below(rng, rows);
    }
  }
}

static int ascending(const void *a, const void *b)
{
  return (*(const kvl_row *)a > *(const kvl_row *)b) - (*(const kvl_row *)a < *(const kvl_row *)b);
}

/* Replaces a share of the blocks of a pool; blocks stay distinct and ascending. */
static void renew_pool(kvl_row *pool, uint32_t permille, struct kvl_rng *rng)
{
  static unsigned char taken[TOKENS / BLOCK];
  static kvl_row blocks[BLOCKS];
  for (uint32_t i = 0; i < BLOCKS; i++) {
    blocks[i] = pool[i * BLOCK] / BLOCK;
    taken[blocks[i]] = 1;
  }
  for (uint32_t i = 0; i < BLOCKS; i++) {
    if (kvl_rng_below(rng, 1000) < permille) {
      kvl_row fresh;
      do {
        fresh = (kvl_row)kvl_rng_below(rng, TOKENS / BLOCK);
      } while (taken[fresh]);
      taken[fresh] = 1;
      taken[blocks[i]] = 0;
      blocks[i] = fresh;
    }
  }
  qsort(blocks, BLOCKS, sizeof blocks[0], ascending);
  for (uint32_t i = 0; i < POOL; i++) {
    pool[i] = blocks[i / BLOCK] * BLOCK + (kvl_row)(i % BLOCK);
  }
  memset(taken, 0, sizeof taken);
}

/* A selection from the pool: what is still in it of the last one, the rest anew. */
static void draw_pool(struct stream *s, uint32_t step, const kvl_row *pool, struct kvl_rng *rng)
{
  static unsigned char in_pool[TOKENS];
  kvl_row *now = s->past[step % DEPTH];
  const kvl_row *last = s->past[(step + DEPTH - 1) % DEPTH];
  for (uint32_t i = 0; i < POOL; i++) {
    in_pool[pool[i]] = 1;
  }
  for (uint32_t i = 0; i < K; i++) {
    bool keep = step > 0 && kvl_rng_below(rng, 1000) < 700 && in_pool[last[i]];
    now[i] = keep ? last[i] : pool[kvl_rng_below(rng, POOL)];
  }
  for (uint32_t i = 0; i < POOL; i++) {
    in_pool[pool[i]] = 0;
  }
}

static void build(struct bench *b)
{
  uint32_t page_count = (TOKENS + PAGE_TOKENS - 1) / PAGE_TOKENS;
  uint32_t lent = page_count * 45 / 100;
  b->cache = aligned(b->requests * CACHES * sizeof b->cache[0]);
  b->pages = aligned((size_t)b->requests * page_count * sizeof b->pages[0]);
  b->stream = aligned((size_t)b->requests * SELECTIONS * sizeof b->stream[0]);
  b->ws = kvl_resolve_ws_init(aligned(kvl_resolve_ws_bytes(POOL)), POOL);
  b->pool = aligned((size_t)b->requests * POOL * sizeof b->pool[0]);
  for (size_t i = 0; i < (size_t)b->requests * POOL; i++) {
    b->pool[i] = (kvl_row)(i % POOL);
  }
  for (int c = 0; c < CACHES; c++) {
    b->g[c] = (struct kvl_cache_geometry){.page_shift = cache_shift[c],
                                          .hot_rows = cache_hot[c],
                                          .bank_rows = c == 3 ? b->bank : 0,
                                          .tail_rows = 1024,
                                          .scratch_rows = 16,
                                          .frame_stride_rows = 640,
                                          .frame_offset_rows = (uint32_t)c * 128};
  }
  for (uint32_t r = 0; r < b->requests; r++) {
    kvl_frame *pages = b->pages + (size_t)r * page_count;
    for (uint32_t p = 0; p < page_count; p++) {
      pages[p] = p >= page_count - lent ? (kvl_frame)(r * lent + p - (page_count - lent)) : KVL_NONE;
    }
    for (uint32_t c = 0; c < CACHES; c++) {
      struct kvl_cache_bases bases = {.overflow = 0, .hot = 4096, .tail = 8192, .scratch = 9500, .bank = 10000, .frames = 1 << 20};
      size_t bytes = kvl_cache_bytes(&b->g[c]);
      struct kvl_cache *cache = kvl_cache_init(aligned(bytes), &b->g[c], &bases, 0);
      b->state_bytes += bytes;
      kvl_cache_set_page_map(cache, pages, page_count);
      if (kvl_cache_load(cache, (kvl_row)cache_rows[c]) != 0) {
        abort();
      }
      b->cache[r * CACHES + c] = cache;
    }
  }
}

int main(int argc, char **argv)
{
  struct bench b = {.requests = 82, .steps = 100};
  uint64_t seed = 1;
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (strcmp(argv[i], "--draw=uniform") == 0) {
      b.uniform = true;
    } else if (strncmp(argv[i], "--bank=", 7) == 0) {
      b.bank = (uint32_t)strtoul(argv[i] + 7, NULL, 0);
    } else if (strncmp(argv[i], "--requests=", 11) == 0) {
      b.requests = (uint32_t)strtoul(argv[i] + 11, NULL, 0);
    } else if (strncmp(argv[i], "--steps=", 8) == 0) {
      b.steps = (uint32_t)strtoul(argv[i] + 8, NULL, 0);
    } else if (strncmp(argv[i], "--seed=", 7) == 0) {
      seed = strtoull(argv[i] + 7, NULL, 0);
    } else if (strcmp(argv[i], "--draw=gaps") != 0) {
      fprintf(stderr, "usage: bench_resolve [--json] [--draw=gaps|uniform] [--bank=ROWS] [--requests=N] [--steps=N] [--seed=N]\n");
      return 2;
    }
  }
  build(&b);
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "bench resolve", 0);
  struct kvl_resolve_counts counts = {0};
  static kvl_addr addresses[K];
  static struct kvl_fetch fetches[K];
  uint64_t sum = 0;
  double spent = 0;
  double announcing = 0;
  static struct kvl_fetch copies[POOL];
  static kvl_row dropped[POOL];
  uint64_t copied = 0;
  for (uint32_t step = 0; step < WARM + b.steps; step++) {
    for (uint32_t r = 0; r < b.requests && b.bank > 0; r++) {
      renew_pool(b.pool + (size_t)r * POOL, step == 0 ? 1000 : 100, &rng);
    }
    for (uint32_t i = 0; i < b.requests * SELECTIONS; i++) {
      if (b.bank > 0 && i % SELECTIONS > 3) {
        draw_pool(&b.stream[i], step, b.pool + (size_t)(i / SELECTIONS) * POOL, &rng);
        continue;
      }
      draw(&b.stream[i], step, cache_rows[selection_cache[i % SELECTIONS]], b.uniform, &rng);
    }
    if (step == WARM) {
      memset(&counts, 0, sizeof counts);
    }
    double from = seconds();
    for (uint32_t r = 0; r < b.requests; r++) {
      for (uint32_t s = 0; s < SELECTIONS; s++) {
        uint32_t c = selection_cache[s];
        struct kvl_query q = {.boundary = (kvl_row)cache_rows[c], .n = K, .rows = b.stream[r * SELECTIONS + s].past[step % DEPTH]};
        uint32_t n;
        if (kvl_resolve_ref(b.cache[r * CACHES + c], b.ws, false, &q, 1, addresses, fetches, &n, &counts) != 0) {
          abort();
        }
        sum += (uint64_t)(uint32_t)addresses[step % K] + n;
        if (b.bank > 0 && s == 3) {
          double start = seconds();
          uint32_t drops;
          struct kvl_query pool = {.n = POOL, .rows = b.pool + (size_t)r * POOL};
          if (kvl_announce_ref(b.cache[r * CACHES + c], b.ws, &pool, 1, copies, &n, dropped, &drops) != 0) {
            abort();
          }
          double took = seconds() - start;
          announcing += step >= WARM ? took : 0;
          from += took;
          copied += step >= WARM ? n : 0;
        }
      }
      if (b.bank > 0) {
        kvl_end_group_ref(b.cache[r * CACHES + 3]);
      }
    }
    spent += step >= WARM ? seconds() - from : 0;
  }
  uint64_t lanes = (uint64_t)b.steps * b.requests * SELECTIONS * K;
  double rate = (double)lanes / spent;
  double page = 100.0 * (double)counts.lanes[KVL_TIER_PAGE] / (double)lanes;
  double hot = 100.0 * (double)counts.lanes[KVL_TIER_HOT] / (double)lanes;
  double host = 100.0 * (double)counts.lanes[KVL_TIER_HOST] / (double)lanes;
  double pool_rate = announcing > 0 ? (double)b.steps * b.requests * POOL / announcing : 0;
  if (json) {
    printf("{\"positions\":%" PRIu64 ",\"positions_per_s\":%.0f,\"draw\":\"%s\",\"requests\":%u,\"steps\":%u,\"seed\":%" PRIu64
           ",\"borrowed_percent\":%.2f,\"hot_percent\":%.2f,\"host_percent\":%.2f,\"state_bytes\":%zu,\"bank_rows\":%u,\"pool_rows_per_s\":%.0f,\"checksum\":%" PRIu64 "}\n",
           lanes, rate, b.uniform ? "uniform" : "gaps", b.requests, b.steps, seed, page, hot, host, b.state_bytes, b.bank, pool_rate, sum);
  } else {
    printf("%.1f million positions/s (%u requests, %s: %.1f %% borrowed, %.1f %% hot, "
           "%.1f %% host; state %.1f MiB; checksum %" PRIu64 ")\n",
           rate / 1e6, b.requests, b.uniform ? "uniform" : "gaps", page, hot, host, (double)b.state_bytes / 1048576.0, sum);
    if (b.bank > 0) {
      printf("announcing: %.1f million pool rows/s, %.1f us an announcement, %.1f copies each\n", pool_rate / 1e6,
             1e6 * announcing / b.steps / b.requests, (double)copied / b.steps / b.requests);
    }
  }
  return 0;
}
