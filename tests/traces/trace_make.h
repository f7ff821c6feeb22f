/* Made-up traces for tests: any step can be made again from (seed, session, step), so nothing has to be remembered for comparison. */
#ifndef KVL_TESTS_TRACES_TRACE_MAKE_H
#define KVL_TESTS_TRACES_TRACE_MAKE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "traces/trace.h"

enum { MADE_LISTS = 64, MADE_ITEMS = 8192 };

struct made_step {
  struct kvl_trace_step step;
  uint32_t boundary[KVL_TRACE_QUERIES_MAX];
  struct kvl_trace_list list[MADE_LISTS];
  int32_t item[MADE_ITEMS];
};

/* Two caches, three points, one pool; odd sizes on purpose. */
static inline struct kvl_trace_meta made_meta(uint64_t seed, bool pools)
{
  struct kvl_trace_meta meta;
  memset(&meta, 0, sizeof(meta));
  meta.shape.caches = 2;
  meta.shape.tokens_per_row[0] = 2;
  meta.shape.tokens_per_row[1] = 1;
  meta.shape.points = 3;
  meta.shape.point[0] = (struct kvl_selection_point){.cache = 0, .layer = 2, .k = 7};
  meta.shape.point[1] = (struct kvl_selection_point){.cache = 1, .layer = 20, .k = 33};
  meta.shape.point[2] = (struct kvl_selection_point){.cache = 1, .layer = 24, .k = 16};
  meta.pools = pools ? 1 : 0;
  if (pools)
    meta.pool[0] = (struct kvl_trace_pool){.cache = 1, .layer = 20, .rows_per_block = 8, .blocks_max = 12};
  meta.seed = seed;
  snprintf(meta.model, sizeof(meta.model), "made-up");
  snprintf(meta.origin, sizeof(meta.origin), "tests/traces/trace_make.h");
  return meta;
}

static inline uint32_t made_input(uint64_t seed, uint32_t session)
{
  return (uint32_t)(kvl_rng_mix(seed ^ session * 77u) % 300) + (session == 3 ? 5000 : 0);
}

static inline uint32_t made_steps(uint64_t seed, uint32_t session)
{
  return 1 + (uint32_t)(kvl_rng_mix(seed ^ session * 99u) % 40);
}

/* A number is in when its own hash says so (it stays from step to step), or by chance. */
static inline bool made_in(struct kvl_rng *rng, uint64_t stable, uint32_t number, uint32_t one_in)
{
  bool in = kvl_rng_mix(stable ^ number * 2654435761u) % one_in == 0;
  return kvl_rng_below(rng, 16) == 0 ? !in && kvl_rng_below(rng, 3) == 0 : in;
}

/* Distinct numbers below `below`, most often count_max of them, from the low end, the high end or both; ascending or shuffled. */
static inline uint32_t made_list(struct kvl_rng *rng, uint64_t stable, int32_t *item, uint32_t count_max, uint32_t below, bool shuffle)
{
  uint32_t halves = (uint32_t)(kvl_rng_mix(stable) % 3), count = 0, next = 0, low = count_max * halves / 2;
  uint32_t one_in = below / (halves == 0 ? count_max + count_max / 4 : 2 * count_max) + 1; /* the high end reaches far down */
  for (; next < below && count < low; next++) {
    if (made_in(rng, stable, next, one_in))
      item[count++] = (int32_t)next;
  }
  low = count;
  for (uint32_t i = below; i-- > next && count < count_max;) {
    if (made_in(rng, stable, i, one_in))
      item[count++] = (int32_t)i;
  }
  for (uint32_t i = low, j = count; i < j--; i++) {
    int32_t swap = item[i];
    item[i] = item[j];
    item[j] = swap;
  }
  for (uint32_t i = 1; shuffle && i < count; i++) {
    uint32_t j = kvl_rng_below(rng, i + 1);
    int32_t swap = item[i];
    item[i] = item[j];
    item[j] = swap;
  }
  return count;
}

static inline void make_step(struct made_step *made, const struct kvl_trace_meta *meta, uint64_t seed, uint32_t session, uint32_t step)
{
  struct kvl_rng rng;
  uint32_t used = 0, lists = 0, queries;
  bool boundary, pool;
  kvl_rng_init(&rng, seed, "made step", (uint64_t)session << 32 | step);
  memset(&made->step, 0, sizeof(made->step));
  made->step.queries = queries = kvl_rng_below(&rng, 3) == 0 ? 1 + kvl_rng_below(&rng, 5) : 1;
  made->step.tokens = made_input(seed, session) + step + (session % 2 ? 2 * (step / 3) : 0);
  boundary = queries > 1 || kvl_rng_below(&rng, 8) == 0;
  pool = meta->pools > 0 && kvl_rng_below(&rng, 4) != 0;
  for (uint32_t q = 0; q < queries; q++)
    made->boundary[q] = made->step.tokens + q;
  made->step.boundary = boundary ? made->boundary : NULL;
  made->step.selected = made->list;
  for (uint32_t kind = 0; kind < meta->shape.points + (pool ? meta->pools : 0); kind++) {
    for (uint32_t q = 0; q < queries; q++) {
      bool is_pool = kind >= meta->shape.points;
      uint32_t seen = boundary ? made->boundary[q] : made->step.tokens;
      uint32_t below = is_pool ? (seen + 7) / 8 : seen / meta->shape.tokens_per_row[meta->shape.point[kind].cache];
      uint32_t count = is_pool ? meta->pool[0].blocks_max : meta->shape.point[kind].k;
      if (is_pool && q == 0)
        made->step.pool = &made->list[lists];
      made->list[lists].item = made->item + used;
      made->list[lists].count = made_list(&rng, seed ^ kind ^ session * 31u, made->item + used, count, below, kvl_rng_below(&rng, 6) == 0);
      used += made->list[lists++].count;
    }
  }
}

/* Writes a whole trace; 0, or the code of the first call that failed (the writer is gone then). */
static inline int make_trace(const char *path, const struct kvl_trace_meta *meta, uint64_t seed, uint32_t sessions, struct kvl_err *err)
{
  static struct made_step made;
  struct kvl_trace_writer *writer;
  uint32_t id, step = 0;
  int code = kvl_trace_writer_create(&writer, path, meta, err);
  bool more = true;
  if (code)
    return code;
  for (uint32_t s = 0; code == 0 && s < sessions; s++)
    code = kvl_trace_writer_begin(writer, made_input(seed, s), &id, err);
  for (; code == 0 && more; step++) { /* sessions side by side, as a recorder meets them */
    more = false;
    for (uint32_t s = 0; code == 0 && s < sessions; s++) {
      if (step < made_steps(seed, s)) {
        make_step(&made, meta, seed, s, step);
        code = kvl_trace_writer_step(writer, s, &made.step, err);
        more = true;
      } else if (step == made_steps(seed, s) && s % 2) {
        code = kvl_trace_writer_end(writer, s, err); /* the others are ended by finish() */
      }
    }
  }
  if (code) {
    kvl_trace_writer_abort(writer);
    return code;
  }
  return kvl_trace_writer_finish(writer, err);
}

static inline bool same_lists(const struct kvl_trace_list *a, const struct kvl_trace_list *b, uint32_t lists)
{
  for (uint32_t i = 0; i < lists; i++) {
    if (a[i].count != b[i].count || (a[i].count > 0 && memcmp(a[i].item, b[i].item, a[i].count * sizeof(*a[i].item)) != 0))
      return false;
  }
  return true;
}

static inline bool same_step(const struct kvl_trace_meta *meta, const struct kvl_trace_step *a, const struct kvl_trace_step *b)
{
  return a->tokens == b->tokens && a->queries == b->queries && !a->boundary == !b->boundary && !a->pool == !b->pool &&
         (!a->boundary || memcmp(a->boundary, b->boundary, a->queries * sizeof(*a->boundary)) == 0) &&
         same_lists(a->selected, b->selected, meta->shape.points * a->queries) &&
         (!a->pool || same_lists(a->pool, b->pool, meta->pools * a->queries));
}

#endif
