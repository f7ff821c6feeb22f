/* Effects of the values that were run, and their ranks. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/repeats.h"
#include "sim/sensitivity.h"

uint32_t kvl_headline(unsigned index)
{
  static const char *const names[KVL_HEADLINES] = {"output_throughput_tok_per_s", "ttft_s_p90", "request_rate_tok_per_s_p10", "tpot_ms_p90"};
  uint32_t key = 0;
  assert(index < KVL_HEADLINES);
  while (key < kvl_summary_key_count() && strcmp(kvl_summary_key_at(key)->name, names[index]) != 0) {
    key++;
  }
  assert(key < kvl_summary_key_count());
  return key;
}

struct judge {
  const struct kvl_summary *const *summary;
  uint32_t repeats;
  double confidence;
  double *number; /* repeats */
};

/* One value's effect on one key. False: a run of it is missing. */
static bool judge_value(const struct judge *j, struct kvl_vary_value *value, unsigned headline, double base)
{
  uint32_t key = kvl_headline(headline);
  struct kvl_effect *e = &value->effect[headline];
  for (uint32_t r = 0; r < j->repeats; r++) {
    const struct kvl_summary *now = j->summary[(size_t)value->point * j->repeats + r];
    if (now == NULL) {
      return false;
    }
    j->number[r] = kvl_summary_value(now, key) - kvl_summary_value(j->summary[r], key);
  }
  struct kvl_repeats_cell cell = kvl_repeats_cell(j->number, j->repeats, j->confidence);
  double rounding = 1e-12 * (fabs(base) + fabs(cell.mean)); /* of subtracting nearly equal numbers: neither an effect nor noise */
  e->delta = fabs(cell.mean) <= rounding ? 0.0 : cell.mean;
  e->half = cell.half <= rounding ? 0.0 : cell.half;
  e->percent = base != 0.0 ? 100.0 * e->delta / base : NAN;
  e->half_percent = base != 0.0 ? 100.0 * e->half / base : NAN;
  e->inside = e->delta == 0.0 || fabs(e->delta) <= e->half;
  value->mean[headline] = base + e->delta;
  return true;
}

static void score(struct kvl_vary *v)
{
  double out = 0.0, in = 0.0;
  v->matters = false;
  for (uint32_t i = 0; i < v->values; i++) {
    for (unsigned h = 0; h < KVL_HEADLINES && v->value[i].known; h++) {
      const struct kvl_effect *e = &v->value[i].effect[h];
      double size = isnan(e->percent) ? 0.0 : fabs(e->percent);
      if (e->inside) {
        in = size > in ? size : in;
      } else {
        v->matters = true;
        out = size > out ? size : out;
      }
    }
  }
  v->score = v->matters ? out : in;
}

static int by_score(const void *a, const void *b)
{
  const struct kvl_vary *x = a, *y = b;
  if (x->matters != y->matters) {
    return x->matters ? -1 : 1;
  }
  if (x->score != y->score) {
    return x->score > y->score ? -1 : 1;
  }
  uint32_t first = x->values > 0 ? x->value[0].point : UINT32_MAX, second = y->values > 0 ? y->value[0].point : UINT32_MAX;
  return (first > second) - (first < second);
}

int kvl_sensitivity_judge(struct kvl_sensitivity *s, const struct kvl_summary *const *summary, uint32_t repeats, double confidence)
{
  struct judge j = {.summary = summary, .repeats = repeats, .confidence = confidence, .number = calloc(repeats + 1u, sizeof(double))};
  if (j.number == NULL) {
    return -ENOMEM;
  }
  for (unsigned h = 0; h < KVL_HEADLINES; h++) {
    for (uint32_t r = 0; r < repeats; r++) {
      j.number[r] = kvl_summary_value(summary[r], kvl_headline(h));
    }
    struct kvl_repeats_cell cell = kvl_repeats_cell(j.number, repeats, confidence);
    s->base[h] = cell.mean;
    s->base_half[h] = cell.half;
  }
  for (uint32_t i = 0; i < s->count; i++) {
    for (uint32_t v = 0; v < s->item[i].values; v++) {
      struct kvl_vary_value *value = &s->item[i].value[v];
      value->known = true;
      for (unsigned h = 0; h < KVL_HEADLINES && value->known; h++) {
        value->known = judge_value(&j, value, h, s->base[h]);
      }
    }
    score(&s->item[i]);
  }
  qsort(s->item, s->count, sizeof s->item[0], by_score);
  free(j.number);
  return 0;
}
