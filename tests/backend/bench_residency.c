/* bench_residency [--json]: what the policy's bookkeeping costs at the published size: 450,000 frames of 64 tokens, 82 sessions of 500,000 tokens that
 * come and go (46 in resident mode), ten gaps an admission. Best of five; one core. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/residency.h"

enum { ADMISSIONS = 1000, GAPS = 10, TOKENS = 500000, REPEATS = 5 };

struct pool {
  struct kvl_resid *resid;
  struct kvl_plan plan;
  uint64_t moves, step;
  kvl_request queue[ADMISSIONS];
};

static double now_s(void)
{
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void land(struct pool *p)
{
  for (uint32_t i = 0; i < p->plan.count; i++) {
    if (p->plan.moves[i].kind != KVL_MOVE_REVOKE) {
      kvl_resid_copy_done(p->resid, &p->plan.moves[i]);
    }
  }
  p->moves += p->plan.count;
  p->plan.count = 0;
}

/* One session in for one out, then a few gaps. */
static int turn_over(struct pool *p, enum kvl_mode mode, uint32_t i, uint32_t sessions)
{
  struct kvl_demand demand = {.fixed_frames = mode == KVL_MODE_RESIDENT ? 9700 : 2500, .input_tokens = TOKENS, .max_tokens = TOKENS + 800};
  if (i >= sessions) {
    kvl_resid_end(p->resid, p->queue[i - sessions]);
  }
  int code = kvl_resid_admit(p->resid, &demand, 100, &p->plan, &p->queue[i]);
  code = code != 0 ? code : kvl_resid_populate(p->resid, p->queue[i], 100, &p->plan);
  land(p);
  for (int gap = 0; code == 0 && gap < GAPS; gap++) {
    code = kvl_resid_make_room(p->resid, 100, &p->plan);
    code = code != 0 ? code : kvl_resid_give_back(p->resid, 100, &p->plan);
    land(p);
    kvl_resid_step_begun(p->resid, ++p->step);
    kvl_resid_step_done(p->resid, p->step);
  }
  return code;
}

/* Seconds for all admissions, or a negative number. */
static double play(enum kvl_mode mode, enum kvl_revoke_order order, uint64_t *moves)
{
  struct kvl_resid_config config = {
    .mode = mode, .frames = 450000, .requests_max = 100, .pages_max = 8000, .tokens_per_page = 64, .give_back_pages_max = 400, .revoke_order = order,
    .give_order = order == KVL_REVOKE_OLDEST ? KVL_GIVE_NEWEST_MISSING : KVL_GIVE_MOST_SELECTED};
  static struct pool p;
  memset(&p, 0, sizeof p);
  void *memory = aligned_alloc(64, (kvl_resid_bytes(&config) + 63) / 64 * 64);
  p.plan.capacity = 2 * KVL_PLAN_MOVES(&config);
  p.plan.moves = malloc(p.plan.capacity * sizeof p.plan.moves[0]);
  double seconds = -1.0;
  if (memory != NULL && p.plan.moves != NULL) {
    p.resid = kvl_resid_init(memory, &config);
    int code = 0;
    double start = now_s();
    for (uint32_t i = 0; code == 0 && i < ADMISSIONS; i++) {
      code = turn_over(&p, mode, i, mode == KVL_MODE_RESIDENT ? 46 : 82);
    }
    seconds = code == 0 ? now_s() - start : -1.0;
  }
  *moves = p.moves;
  free(p.plan.moves);
  free(memory);
  return seconds;
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    enum kvl_mode mode;
    enum kvl_revoke_order order;
  } cases[] = {
    {"resident", KVL_MODE_RESIDENT, KVL_REVOKE_OLDEST},
    {"fixed", KVL_MODE_FIXED, KVL_REVOKE_OLDEST},
    {"adaptive, by age", KVL_MODE_ADAPTIVE, KVL_REVOKE_OLDEST},
    {"adaptive, by access", KVL_MODE_ADAPTIVE, KVL_REVOKE_LEAST_SELECTED},
  };
  bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double best = -1.0;
    uint64_t moves = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
      double seconds = play(cases[i].mode, cases[i].order, &moves);
      if (seconds < 0.0) {
        fprintf(stderr, "bench_residency: %s: out of memory, or an admission failed\n", cases[i].name);
        return 1;
      }
      best = best < 0.0 || seconds < best ? seconds : best;
    }
    printf(json ? "{\"case\": \"%s\", \"admission_us\": %.2f, \"moves_per_admission\": %.0f, \"move_ns\": %.1f}\n"
                : "%-20s %8.2f us an admission and %.0f moves, %.1f ns a move\n",
           cases[i].name, best / ADMISSIONS * 1e6, (double)moves / ADMISSIONS, moves == 0 ? 0.0 : best / (double)moves * 1e9);
  }
  return 0;
}
