/* Screening: how long a step takes with its misses, from miss curves of the scenario's own selections. An estimate of the order of candidates, at a thousandth
 * of the work of a run in full; the plan prints by how much it was off.
 *
 * A step of `batch` requests fetches, for each cache, batch x misses(hot rows, held share) rows over the law of the host link; held is the newest share of the
 * history that the pool's free pages hold at that batch (adaptive mode). The curves come from one session of generated or recorded selections, replayed through
 * caches of the candidate's size. With candidate prefetch the later selections of a group count as hits; further queries of a request add what does not
 * overlap with the first. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/costs.h"
#include "sim/link.h"
#include "sim/plan.h"
#include "sim/scenario_files.h"
#include "traces/curve.h"
#include "traces/selection.h"
#include "traces/workload.h"

enum { STEPS_MAX = 160, STEPS_MIN = 8, SAMPLE = 4, HELD = 5, KEPT_MAX = 64, BATCHES = 18 };
static const double held_share[HELD] = {0.0, 0.25, 0.5, 0.75, 0.95};
#define QUERY_NEW 0.08 /* of a further query's rows, not among those of the query before: neighbours overlap by more than 90 % */

/* Misses a step of one request, by cache and held share. */
struct kept {
  char model[KVL_NAME_MAX], selection[KVL_PATH_CAP];
  uint64_t input;
  uint32_t hot;
  double misses[KVL_CACHES_MAX][HELD];
};

struct kvl_plan_screen {
  struct kept *kept;
  unsigned count;
};

struct kvl_plan_screen *kvl_plan_screen_create(void)
{
  struct kvl_plan_screen *screen = calloc(1, sizeof *screen);
  if (screen != NULL && (screen->kept = calloc(KEPT_MAX, sizeof *screen->kept)) == NULL) {
    free(screen);
    return NULL;
  }
  return screen;
}

void kvl_plan_screen_destroy(struct kvl_plan_screen *screen)
{
  if (screen != NULL) {
    free(screen->kept);
    free(screen);
  }
}

int kvl_plan_tokens(const struct kvl_scenario *s, uint64_t *input, uint64_t *output, uint64_t *most, struct kvl_err *err)
{
  *input = s->workload.input_tokens;
  *output = s->workload.output_tokens;
  *most = *input + *output;
  if (s->workload.kind != KVL_WORK_FILE) {
    return 0;
  }
  struct kvl_workload_file *file = NULL;
  struct kvl_workload_extent extent;
  int rc = kvl_scenario_open_workload(s, &file, err);
  if (rc == 0) {
    rc = kvl_workload_extent(file, &extent, err);
    kvl_workload_close(file);
  }
  if (rc == 0) {
    *input = extent.requests > 0 ? extent.input_tokens / extent.requests : 0;
    *output = extent.requests > 0 ? extent.output_tokens / extent.requests : 0;
    *most = extent.tokens_max;
  }
  return rc;
}

static int collect(const struct kvl_scenario *s, struct kvl_selection_stream *stream, uint32_t input, uint32_t steps, double held, uint32_t caches, double *misses)
{
  const struct kvl_selection_shape *shape = &s->model.selection;
  struct kvl_miss_curve *curve[SAMPLE] = {NULL};
  uint32_t transactions[SAMPLE] = {0}, k_max = 1;
  int rc = 0;
  for (uint32_t c = 0; c < caches && rc == 0; c++) {
    curve[c] = kvl_miss_curve_create();
    rc = curve[c] == NULL ? -ENOMEM : 0;
  }
  for (uint32_t p = 0; p < shape->points; p++) {
    k_max = shape->point[p].k > k_max ? shape->point[p].k : k_max;
  }
  int32_t *rows_left = malloc(k_max * sizeof *rows_left);
  rc = rows_left == NULL ? -ENOMEM : rc;
  kvl_stream_start(stream, 0, input);
  for (uint32_t step = 0; step < steps && rc == 0; step++) {
    kvl_stream_step(stream, input + step, 1);
    for (uint32_t p = 0; p < shape->points && rc == 0; p++) {
      const int32_t *rows;
      uint32_t c = shape->point[p].cache, count, n = 0;
      if (c >= caches) {
        continue;
      }
      count = kvl_stream_rows(stream, p, 0, &rows);
      uint32_t history = (input + step) / shape->tokens_per_row[c], tail = s->policy.tail_tokens / shape->tokens_per_row[c];
      uint32_t held_rows = (uint32_t)llround(held * history);
      held_rows = held_rows > tail ? held_rows : tail;
      int32_t from = held_rows < history ? (int32_t)(history - held_rows) : 0;
      for (uint32_t i = 0; i < count && n < k_max; i++) {
        if (rows[i] >= 0 && rows[i] < from) {
          rows_left[n++] = rows[i];
        }
      }
      rc = kvl_miss_curve_add(curve[c], rows_left, n);
      transactions[c]++;
    }
  }
  for (uint32_t c = 0; c < caches && rc == 0; c++) {
    struct kvl_miss_count count = {0, 0};
    uint32_t warm = transactions[c] / 2;
    if (transactions[c] > 0) {
      rc = kvl_miss_curve_replay(curve[c], KVL_MISS_LRU, s->policy.hot_rows > 0 ? s->policy.hot_rows : 1, warm, s->seed, &count);
      misses[c] = (double)(s->policy.hot_rows > 0 ? count.misses : count.accesses) / (double)(steps - steps / 2);
    }
  }
  for (uint32_t c = 0; c < caches; c++) {
    kvl_miss_curve_destroy(curve[c]);
  }
  free(rows_left);
  return rc;
}

static int curves_of(struct kvl_plan_screen *screen, const struct kvl_scenario *s, uint64_t input, uint64_t output, const struct kept **found, struct kvl_err *err)
{
  const char *selection = s->selection.kind == KVL_SELECT_TRACE ? s->selection.path : s->selection.preset;
  for (unsigned i = 0; i < screen->count; i++) {
    struct kept *k = &screen->kept[i];
    if (k->input == input && k->hot == s->policy.hot_rows && strcmp(k->model, s->model.name) == 0 && strcmp(k->selection, selection) == 0) {
      *found = k;
      return 0;
    }
  }
  struct kept *k = &screen->kept[screen->count < KEPT_MAX ? screen->count++ : KEPT_MAX - 1];
  memset(k, 0, sizeof *k);
  (void)snprintf(k->model, sizeof k->model, "%s", s->model.name);
  (void)snprintf(k->selection, sizeof k->selection, "%s", selection);
  k->input = input;
  k->hot = s->policy.hot_rows;
  uint32_t steps = output > STEPS_MAX ? STEPS_MAX : output < STEPS_MIN ? STEPS_MIN : (uint32_t)output;
  uint32_t caches = s->model.selection.caches < SAMPLE ? s->model.selection.caches : SAMPLE;
  struct kvl_selection_source *source = NULL;
  int rc = s->selection.kind == KVL_SELECT_TRACE ? kvl_scenario_open_trace(s, &source, err)
                                                 : kvl_source_open_preset(&source, s->selection.preset, &s->model.selection, s->seed, err);
  if (rc != 0) {
    screen->count--;
    return rc;
  }
  struct kvl_selection_stream *stream = kvl_stream_create(source, (uint32_t)input + steps, 1);
  rc = stream == NULL ? -ENOMEM : 0;
  for (int h = 0; h < HELD && rc == 0; h++) {
    double misses[SAMPLE] = {0};
    rc = collect(s, stream, (uint32_t)input, steps, held_share[h], caches, misses);
    for (uint32_t c = 0; c < s->model.selection.caches; c++) {
      k->misses[c][h] = misses[c % caches]; /* models with many caches have them alike */
    }
  }
  if (stream != NULL) {
    kvl_stream_destroy(stream);
  }
  kvl_source_close(source);
  *found = k;
  return rc != 0 ? kvl_err_set(err, rc, "no memory for miss curves") : 0;
}

static double at_share(const double *misses, double share)
{
  int h = 0;
  while (h + 2 < HELD && share > held_share[h + 1]) {
    h++;
  }
  double part = (share - held_share[h]) / (held_share[h + 1] - held_share[h]), value = misses[h] + (misses[h + 1] - misses[h]) * (part > 1.3 ? 1.3 : part);
  return value > 0 && share < 0.999 ? value : 0;
}

int kvl_plan_screen_table(struct kvl_plan_screen *screen, const struct kvl_scenario *s, char **json, struct kvl_err *err)
{
  static const uint32_t batches[BATCHES] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 44, 56, 72, 96, 128, 192, 256, 384, 512};
  const struct kvl_selection_shape *shape = &s->model.selection;
  const struct kept *kept = NULL;
  struct kvl_session_bytes bytes;
  uint64_t input, output, most;
  size_t size = 0;
  *json = NULL;
  int rc = kvl_plan_tokens(s, &input, &output, &most, err);
  rc = rc != 0 ? rc : curves_of(screen, s, input, output, &kept, err);
  FILE *out = rc != 0 ? NULL : open_memstream(json, &size);
  if (rc != 0 || out == NULL) {
    return rc != 0 ? rc : kvl_err_set(err, -ENOMEM, "out of memory");
  }
  kvl_session_bytes(s, input + output / 2, &bytes);
  uint32_t drafts = s->speculation.method == KVL_SPECULATION_NONE ? 0 : s->speculation.drafts, points[KVL_CACHES_MAX] = {0}, pool_cache = KVL_CACHES_MAX;
  for (uint32_t p = 0; p < shape->points; p++) {
    points[shape->point[p].cache]++;
  }
  if (s->policy.prefetch == KVL_PREFETCH_POOL && shape->pool.blocks > 0) {
    pool_cache = shape->point[shape->pool.point].cache;
  }
  (void)fputc('[', out);
  for (int i = 0; i < BATCHES; i++) {
    uint64_t batch = batches[i], queries = batch * (1 + drafts), ns;
    uint64_t pool = kvl_pool_bytes(s), taken = batch * bytes.fixed;
    double share = 0.0, fetch = 0.0;
    bool outside = false;
    if (s->mode == KVL_MODE_ADAPTIVE && bytes.rows > 0 && pool > taken) {
      share = (double)(pool - taken) / ((double)batch * (double)bytes.rows);
      share = share > 1 ? 1 : share;
    }
    for (uint32_t c = 0; c < shape->caches; c++) {
      double rows = at_share(kept->misses[c], share) * (double)batch * (1 + QUERY_NEW * drafts);
      uint32_t asks = points[c] == 0 ? 1 : points[c];
      if (rows < 0.5) {
        continue;
      }
      uint64_t each = (uint64_t)(rows / asks + 0.5), range = batch * bytes.rows;
      uint64_t gather = kvl_link_gather_ns(&s->hardware.link, each > 0 ? each : 1, (each > 0 ? each : 1) * s->model.cache[c].row_bytes, range, &outside);
      fetch += (double)gather * (c == pool_cache ? 1 : asks);
    }
    uint64_t lanes = 0;
    for (uint32_t p = 0; p < shape->points; p++) {
      lanes += shape->point[p].k * queries;
    }
    ns = kvl_costs_compute_ns(s, (uint32_t)queries, batch * (input + output / 2), &outside) + (uint64_t)fetch + shape->points * kvl_costs_resolve_ns(&s->costs, lanes / (shape->points > 0 ? shape->points : 1));
    (void)fprintf(out, "%s[%llu,%.6f]", i > 0 ? "," : "", (unsigned long long)queries, (double)ns / 1e6);
  }
  (void)fputc(']', out);
  if (fclose(out) != 0) {
    free(*json);
    *json = NULL;
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  return 0;
}
