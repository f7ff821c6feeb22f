/* The scheduler of drafts against an oracle that sorts all drafts and tries all prefixes, on requests, confidences and tables drawn at random.
 *
 *   model_dspark [SEED [ROUNDS]]   plays others; the seed and round of a failing one are printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "sim/dspark.h"

__extension__ typedef unsigned __int128 u128;

enum { ROUNDS = 20000, REQUESTS = 12, DRAFTS = REQUESTS * KVL_DRAFTS_MAX };

struct draft {
  uint32_t survival, request, position;
};

static int in_order(const void *a, const void *b)
{
  const struct draft *x = a, *y = b;
  if (x->survival != y->survival) {
    return x->survival > y->survival ? -1 : 1;
  }
  if (x->request != y->request) {
    return x->request < y->request ? -1 : 1;
  }
  return x->position < y->position ? -1 : 1;
}

/* Whole rate of the first n drafts against the first m: > 0 when n is better. Everything is summed anew each time. */
static int compare_prefixes(const struct draft *draft, uint32_t n, uint32_t m, uint32_t count, const uint64_t *step_ns, uint64_t draft_ns)
{
  u128 tokens_n = (u128)count << 32, tokens_m = tokens_n;
  for (uint32_t i = 0; i < n; i++) {
    tokens_n += draft[i].survival;
  }
  for (uint32_t i = 0; i < m; i++) {
    tokens_m += draft[i].survival;
  }
  u128 left = tokens_n * (step_ns[count + m] + draft_ns), right = tokens_m * (step_ns[count + n] + draft_ns);
  return left > right ? 1 : left < right ? -1 : 0;
}

static uint32_t oracle(const struct kvl_dspark_request *request, uint32_t count, const uint64_t *step_ns, uint64_t draft_ns, bool best, uint32_t *verified)
{
  struct draft draft[DRAFTS];
  uint32_t drafts = 0, chosen = 0;
  for (uint32_t r = 0; r < count; r++) {
    verified[r] = 0;
    uint64_t survival = UINT64_C(1) << 32;
    for (uint32_t k = 0; k < request[r].drafts; k++) {
      survival = k == 0 ? request[r].confidence[0] : (survival * request[r].confidence[k]) >> 32;
      draft[drafts++] = (struct draft){(uint32_t)survival, r, k};
    }
  }
  qsort(draft, drafts, sizeof draft[0], in_order);
  for (uint32_t n = 1; n <= drafts; n++) {
    int c = compare_prefixes(draft, n, chosen, count, step_ns, draft_ns);
    if (c > 0) {
      chosen = n;
    } else if (!best) {
      break;
    }
  }
  for (uint32_t i = 0; i < chosen; i++) {
    verified[draft[i].request]++;
  }
  return chosen;
}

static uint32_t draw_confidence(struct kvl_rng *rng)
{
  static const uint32_t edges[] = {0, 1, UINT32_MAX, UINT32_MAX - 1, 1u << 31, 3u << 30};
  return kvl_rng_below(rng, 3) == 0 ? edges[kvl_rng_below(rng, 6)] : (uint32_t)(kvl_rng_next(rng) >> 32);
}

/* Flat, steps, straight, falling in places, huge: anything that a table may be. */
static void draw_table(struct kvl_rng *rng, uint64_t *step_ns, uint32_t tokens)
{
  uint32_t kind = kvl_rng_below(rng, 5), step = 1 + kvl_rng_below(rng, 9);
  uint64_t base = 1 + kvl_rng_below(rng, 1000000), slope = kvl_rng_below(rng, 50000), big = UINT64_C(1) << (20 + kvl_rng_below(rng, 40));
  step_ns[0] = 0;
  for (uint32_t n = 1; n <= tokens; n++) {
    step_ns[n] = kind == 0   ? base
                 : kind == 1 ? base + slope * ((n + step - 1) / step)
                 : kind == 2 ? base + slope * n
                 : kind == 3 ? 1 + kvl_rng_below(rng, 1000000)
                             : big + slope * n;
  }
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : ROUNDS, drafts = 0;
  printf("seed %llu, %llu rounds\n", (unsigned long long)seed, (unsigned long long)rounds);
  for (uint64_t round = 0; round < rounds; round++) {
    struct kvl_rng rng;
    kvl_rng_init(&rng, seed, "dspark", round);
    uint32_t count = 1 + kvl_rng_below(&rng, REQUESTS);
    bool alike = kvl_rng_below(&rng, 4) == 0, best = kvl_rng_below(&rng, 2) == 0;
    struct kvl_dspark_request request[REQUESTS];
    for (uint32_t r = 0; r < count; r++) {
      request[r].drafts = kvl_rng_below(&rng, KVL_DRAFTS_MAX + 1);
      for (uint32_t k = 0; k < request[r].drafts; k++) {
        request[r].confidence[k] = alike ? 3u << 30 : draw_confidence(&rng);
      }
    }
    uint64_t step_ns[DRAFTS + REQUESTS + 1], draft_ns = kvl_rng_below(&rng, 2) * kvl_rng_below(&rng, 500000);
    draw_table(&rng, step_ns, DRAFTS + REQUESTS);
    struct kvl_dspark_slot heap[REQUESTS];
    uint32_t got[REQUESTS], want[REQUESTS];
    uint32_t n = kvl_dspark_plan(request, count, step_ns, draft_ns, best, heap, got), m = oracle(request, count, step_ns, draft_ns, best, want);
    if (n != m || memcmp(got, want, count * sizeof got[0]) != 0) {
      printf("seed %llu, round %llu (%u requests, %s): %u drafts, the oracle takes %u\n", (unsigned long long)seed, (unsigned long long)round, count,
             best ? "best" : "first", n, m);
      return 1;
    }
    drafts += n;
  }
  printf("%llu drafts admitted\n", (unsigned long long)drafts);
  return drafts == 0;
}
