/* The clairvoyant bound: the run's own selections through hot caches that know the future. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/explain.h"
#include "sim/scenario_files.h"
#include "traces/curve.h"

enum { SESSIONS = 2, STEPS_MAX = 400 };

struct totals {
  double lru, clairvoyant, reached, selected;
};

/* The selections of one cache that reach its hot cache: not those of the newest rows, which the run held. */
static int add_step(struct kvl_miss_curve *steps, const int32_t *rows, uint32_t count, int32_t held_from, int32_t *kept, double *selected)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (rows[i] >= 0 && rows[i] < held_from) {
      kept[n++] = rows[i];
    }
  }
  *selected += count;
  return kvl_miss_curve_add(steps, kept, n);
}

/* One session: each cache's own sequence of transactions, then both policies at the run's size. */
static int one_session(const struct kvl_scenario *s, struct kvl_selection_stream *stream, uint32_t session, uint32_t input, uint32_t steps, double held,
                       struct totals *t)
{
  const struct kvl_selection_shape *shape = &s->model.selection;
  struct kvl_miss_curve **curve = calloc(shape->caches, sizeof *curve);
  uint32_t transactions[KVL_CACHES_MAX] = {0}, k_max = 1;
  double selected[KVL_CACHES_MAX] = {0};
  int rc = curve == NULL ? -ENOMEM : 0;
  for (uint32_t c = 0; rc == 0 && c < shape->caches; c++) {
    curve[c] = kvl_miss_curve_create();
    rc = curve[c] == NULL ? -ENOMEM : 0;
  }
  for (uint32_t p = 0; p < shape->points; p++) {
    k_max = shape->point[p].k > k_max ? shape->point[p].k : k_max;
  }
  int32_t *kept = malloc(k_max * sizeof *kept);
  rc = kept == NULL ? -ENOMEM : rc;
  kvl_stream_start(stream, session, input);
  for (uint32_t step = 0; rc == 0 && step < steps; step++) {
    kvl_stream_step(stream, input + step, 1);
    for (uint32_t p = 0; rc == 0 && p < shape->points; p++) {
      const int32_t *rows;
      uint32_t c = shape->point[p].cache, count = kvl_stream_rows(stream, p, 0, &rows), history = (input + step) / shape->tokens_per_row[c];
      uint32_t tail = s->policy.tail_tokens / shape->tokens_per_row[c], held_rows = (uint32_t)llround(held * history);
      held_rows = held_rows > tail ? held_rows : tail;
      double discard = 0.0;
      rc = add_step(curve[c], rows, count < k_max ? count : k_max, held_rows < history ? (int32_t)(history - held_rows) : 0, kept,
                    step >= steps / 2 ? &selected[c] : &discard);
      transactions[c]++;
    }
  }
  for (uint32_t c = 0; rc == 0 && c < shape->caches; c++) {
    struct kvl_miss_count lru, clairvoyant;
    uint32_t warm = transactions[c] / 2, hot = s->policy.hot_rows;
    if (transactions[c] == 0 || hot == 0) {
      continue;
    }
    rc = kvl_miss_curve_replay(curve[c], KVL_MISS_LRU, hot, warm, s->seed, &lru);
    rc = rc != 0 ? rc : kvl_miss_curve_replay(curve[c], KVL_MISS_CLAIRVOYANT, hot, warm, s->seed, &clairvoyant);
    if (rc == 0) {
      t->lru += (double)lru.misses;
      t->clairvoyant += (double)clairvoyant.misses;
      t->reached += (double)lru.accesses;
      t->selected += selected[c];
    }
  }
  for (uint32_t c = 0; curve != NULL && c < shape->caches; c++) {
    kvl_miss_curve_destroy(curve[c]);
  }
  free(curve);
  free(kept);
  return rc;
}

static int open_source(const struct kvl_scenario *s, struct kvl_selection_source **source, struct kvl_err *err)
{
  return s->selection.kind == KVL_SELECT_TRACE ? kvl_scenario_open_trace(s, source, err)
                                               : kvl_source_open_preset(source, s->selection.preset, &s->model.selection, s->seed, err);
}

int kvl_explain_clairvoyant(const struct kvl_scenario *s, double history_percent, struct kvl_explain_bound *bound, struct kvl_err *err)
{
  memset(bound, 0, sizeof *bound);
  if (s->selection.kind == KVL_SELECT_NONE || s->mode == KVL_MODE_RESIDENT || s->policy.hot_rows == 0) {
    return 0;
  }
  /* Sizes of a file's requests vary: a middling one stands for them. */
  uint32_t input = s->workload.kind == KVL_WORK_FILE ? 16384 : s->workload.input_tokens;
  uint32_t steps = s->workload.kind == KVL_WORK_FILE || s->workload.output_tokens > STEPS_MAX ? STEPS_MAX : s->workload.output_tokens;
  if (steps < 8) {
    return 0;
  }
  struct kvl_selection_source *source = NULL;
  struct totals t = {0, 0, 0, 0};
  int rc = open_source(s, &source, err);
  if (rc != 0) {
    return rc;
  }
  struct kvl_selection_stream *stream = kvl_stream_create(source, input + steps, 1);
  rc = stream == NULL ? -ENOMEM : 0;
  for (uint32_t session = 0; rc == 0 && session < SESSIONS; session++) {
    rc = one_session(s, stream, session, input, steps, history_percent / 100.0, &t);
  }
  if (stream != NULL) {
    kvl_stream_destroy(stream);
  }
  kvl_source_close(source);
  if (rc != 0) {
    return kvl_err_set(err, rc, "no memory for the clairvoyant bound");
  }
  if (t.reached > 0.0 && t.lru > 0.0) {
    bound->known = true;
    bound->lru_percent = 100.0 * t.lru / t.reached;
    bound->clairvoyant_percent = 100.0 * t.clairvoyant / t.reached;
    bound->reach_percent = t.selected > 0.0 ? 100.0 * t.reached / t.selected : 0.0;
    bound->ratio = t.clairvoyant / t.lru;
  }
  return 0;
}
