#include "traces/score.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backend/base/rng.h"

void kvl_score_preset(unsigned preset, struct kvl_score_params *params)
{
  static const struct kvl_score_params hot[2] = {
    {.var_static = .765, .var_a = .157, .tau_a = 7.7, .var_b = .035, .tau_b = 5.2, .var_white = .043,
     .rec = 2.14, .rtau = 307, .eps = .0172, .tb = 6.0, .block_corr = 0},
    {.var_static = .558, .var_a = .362, .tau_a = 70, .var_b = .068, .tau_b = .95, .var_white = .012,
     .rec = 1.85, .rtau = 74, .eps = .035, .tb = 3.7, .block_corr = 0},
  };
  *params = hot[preset & 1];
  if (preset >= 2) { /* cold: less memory, more white noise */
    params->var_static *= .80;
    params->var_a *= .80;
    params->var_b *= .80;
    params->var_white = 1 - params->var_static - params->var_a - params->var_b;
  }
}

/* Ziggurat: layers of equal area v under exp(-x^2/2), x[0] is the base layer's pseudo-width. */
static const double zig_r = 3.6541528853610088, zig_v = 4.92867323399e-3;

void kvl_ziggurat_init(struct kvl_ziggurat *zig)
{
  double f = exp(-.5 * zig_r * zig_r);
  zig->x[0] = zig_v / f;
  zig->x[1] = zig_r;
  zig->f[0] = 0; /* not used: layer 0 goes to the tail */
  zig->f[1] = f;
  for (int i = 2; i < 256; i++) {
    zig->x[i] = sqrt(-2 * log(zig_v / zig->x[i - 1] + zig->f[i - 1]));
    zig->f[i] = exp(-.5 * zig->x[i] * zig->x[i]);
  }
  zig->x[256] = 0;
  zig->f[256] = 1;
}

double kvl_ziggurat_normal(const struct kvl_ziggurat *zig, struct kvl_rng *rng)
{
  for (;;) {
    uint64_t bits = kvl_rng_next(rng);
    unsigned layer = (unsigned)(bits & 255);
    double sign = bits & 256 ? -1 : 1;
    double x = (double)(bits >> 11) * 0x1p-53 * zig->x[layer];
    if (x < zig->x[layer + 1]) {
      return sign * x;
    }
    if (layer == 0) { /* tail beyond r (Marsaglia, 1964) */
      double u, v;
      do {
        u = kvl_rng_exponential(rng) / zig_r;
        v = kvl_rng_exponential(rng);
      } while (v + v < u * u);
      return sign * (zig_r + u);
    }
    if (zig->f[layer] + kvl_rng_unit(rng) * (zig->f[layer + 1] - zig->f[layer]) < exp(-.5 * x * x)) {
      return sign * x;
    }
  }
}

struct kvl_score {
  struct kvl_score_params params;
  struct kvl_ziggurat zig;
  struct kvl_rng rng;
  uint32_t k, rows, rows_max;
  double rho_a, rho_b, sd_a, sd_b, sd_white; /* AR(1): x' = rho x + sd e */
  double static_floor;                       /* pruning: static terms below it are never scored */
  double block_term;
  float threshold;                           /* of the last step */
  float cut;                                 /* candidates this step: scores above it */
  float *fixed, *a, *b;                      /* by position; `live` says which positions are scored at all */
  uint32_t *live, live_count;
  uint16_t *burst;                           /* steps left; 0: none */
  uint32_t *burst_list, burst_count;
  float *candidate;                          /* scores, then their positions */
  uint32_t *candidate_row, candidate_count;
  float *scratch;
};

static double normal(struct kvl_score *s)
{
  return kvl_ziggurat_normal(&s->zig, &s->rng);
}

static void add_row(struct kvl_score *s)
{
  uint32_t row = s->rows++;
  if (row % 64 == 0) {
    s->block_term = normal(s);
  }
  double c = s->params.block_corr;
  double term = c > 0 ? sqrt(c) * s->block_term + sqrt(1 - c) * normal(s) : normal(s);
  term *= sqrt(s->params.var_static);
  s->fixed[row] = (float)term;
  s->a[row] = (float)(sqrt(s->params.var_a) * normal(s));
  s->b[row] = (float)(sqrt(s->params.var_b) * normal(s));
  s->burst[row] = 0;
  if (row >= KVL_SCORE_SINKS && term > s->static_floor) {
    s->live[s->live_count++] = row;
  }
}

/* Upper-tail quantile of a standard normal: bisection on erfc, far from any hot path. */
static double upper_quantile(double tail)
{
  double low = -9, high = 9;
  for (int i = 0; i < 80; i++) {
    double mid = .5 * (low + high);
    if (.5 * erfc(mid * 0.70710678118654752) > tail) {
      low = mid;
    } else {
      high = mid;
    }
  }
  return low;
}

struct kvl_score *kvl_score_create(const struct kvl_score_params *params, uint32_t k, uint32_t rows, uint32_t rows_max, double prune,
                                   uint64_t seed)
{
  struct kvl_score *s = calloc(1, sizeof *s);
  if (s == NULL) {
    return NULL;
  }
  size_t n = rows_max > 0 ? rows_max : 1;
  s->fixed = malloc(n * sizeof *s->fixed);
  s->a = malloc(n * sizeof *s->a);
  s->b = malloc(n * sizeof *s->b);
  s->live = malloc(n * sizeof *s->live);
  s->burst = malloc(n * sizeof *s->burst);
  s->burst_list = malloc(n * sizeof *s->burst_list);
  s->candidate = malloc(n * sizeof *s->candidate);
  s->candidate_row = malloc(n * sizeof *s->candidate_row);
  s->scratch = malloc(n * sizeof *s->scratch);
  if (s->fixed == NULL || s->a == NULL || s->b == NULL || s->live == NULL || s->burst == NULL || s->burst_list == NULL ||
      s->candidate == NULL || s->candidate_row == NULL || s->scratch == NULL) {
    kvl_score_destroy(s);
    return NULL;
  }
  s->params = *params;
  kvl_ziggurat_init(&s->zig);
  kvl_rng_init(&s->rng, seed, "score", 0);
  s->k = k;
  s->rows_max = rows_max;
  s->rho_a = exp(-1 / params->tau_a);
  s->rho_b = exp(-1 / params->tau_b);
  s->sd_a = sqrt(params->var_a * (1 - s->rho_a * s->rho_a));
  s->sd_b = sqrt(params->var_b * (1 - s->rho_b * s->rho_b));
  s->sd_white = sqrt(params->var_white);
  s->static_floor = -1e9;
  if (prune > 0 && rows > 2 * k) {
    double moving = sqrt(params->var_a + params->var_b + params->var_white);
    s->static_floor = upper_quantile(.8 * k / rows) - prune * moving - params->rec;
  }
  s->cut = -1e9f;
  while (s->rows < rows) {
    add_row(s);
  }
  return s;
}

void kvl_score_destroy(struct kvl_score *score)
{
  if (score == NULL) {
    return;
  }
  free(score->fixed);
  free(score->a);
  free(score->b);
  free(score->live);
  free(score->burst);
  free(score->burst_list);
  free(score->candidate);
  free(score->candidate_row);
  free(score->scratch);
  free(score);
}

/* The n-th largest (n >= 1) of count values; reorders them. */
static float nth_largest(float *v, uint32_t count, uint32_t n)
{
  uint32_t low = 0, high = count - 1, want = n - 1;
  while (low < high) {
    float pivot = v[low + (high - low) / 2];
    uint32_t i = low, j = high;
    for (;;) {
      while (v[i] > pivot) {
        i++;
      }
      while (v[j] < pivot) {
        j--;
      }
      if (i >= j) {
        break;
      }
      float swap = v[i];
      v[i++] = v[j];
      v[j--] = swap;
    }
    if (want <= j) {
      high = j;
    } else {
      low = j + 1;
    }
  }
  return v[want];
}

static void start_bursts(struct kvl_score *s)
{
  double starts = s->params.eps * s->k;
  uint32_t n = (uint32_t)starts;
  n += kvl_rng_unit(&s->rng) < starts - n;
  for (uint32_t i = 0; i < n && s->rows > KVL_SCORE_SINKS; i++) {
    uint32_t row = KVL_SCORE_SINKS + kvl_rng_below(&s->rng, s->rows - KVL_SCORE_SINKS);
    if (s->burst[row] != 0) {
      continue;
    }
    double length = 1 + floor(log(1 - kvl_rng_unit(&s->rng)) / log(1 - 1 / s->params.tb)); /* geometric, mean tb */
    s->burst[row] = (uint16_t)(length < 60000 ? length : 60000);
    s->burst_list[s->burst_count++] = row;
  }
}

static void score_all(struct kvl_score *s)
{
  float rho_a = (float)s->rho_a, rho_b = (float)s->rho_b, sd_a = (float)s->sd_a, sd_b = (float)s->sd_b;
  float sd_white = (float)s->sd_white;
  float reach = (float)(12 * s->params.rtau);
  uint32_t found = 0;
  for (uint32_t i = 0; i < s->live_count; i++) {
    uint32_t row = s->live[i];
    float a = rho_a * s->a[row] + sd_a * (float)normal(s);
    float b = rho_b * s->b[row] + sd_b * (float)normal(s);
    s->a[row] = a;
    s->b[row] = b;
    float score = s->fixed[row] + a + b + sd_white * (float)normal(s);
    float distance = (float)(s->rows - 1 - row);
    if (distance < reach) {
      score += (float)s->params.rec * expf(-distance / (float)s->params.rtau);
    }
    s->scratch[i] = score;
    if (score > s->cut && s->burst[row] == 0) {
      s->candidate_row[found++] = i;
    }
  }
  s->candidate_count = found;
}

static int compare_rows(const void *a, const void *b)
{
  const int32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

uint32_t kvl_score_step(struct kvl_score *s, uint32_t rows_new, int32_t *selected)
{
  for (uint32_t i = 0; i < rows_new && s->rows < s->rows_max; i++) {
    add_row(s);
  }
  if (s->rows <= s->k) {
    for (uint32_t i = 0; i < s->rows; i++) {
      selected[i] = (int32_t)i;
    }
    return s->rows;
  }
  start_bursts(s);
  uint32_t n = 0;
  for (uint32_t i = 0; i < KVL_SCORE_SINKS && n < s->k; i++) {
    selected[n++] = (int32_t)i;
  }
  uint32_t kept = 0;
  score_all(s); /* before bursts end: a raised position is no natural candidate in its last step */
  for (uint32_t i = 0; i < s->burst_count; i++) {
    uint32_t row = s->burst_list[i];
    if (n < s->k) {
      selected[n++] = (int32_t)row;
    }
    if (--s->burst[row] != 0) {
      s->burst_list[kept++] = row;
    }
  }
  uint32_t want = s->k - n;
  s->burst_count = kept;
  if (want > 0 && s->candidate_count < want) { /* the cut was too high: take everything */
    s->candidate_count = 0;
    for (uint32_t i = 0; i < s->live_count; i++) {
      bool taken = false;
      for (uint32_t j = KVL_SCORE_SINKS; j < n && !taken; j++) {
        taken = selected[j] == (int32_t)s->live[i];
      }
      if (!taken) {
        s->candidate_row[s->candidate_count++] = i;
      }
    }
  }
  if (want > s->candidate_count) {
    want = s->candidate_count;
  }
  if (want > 0) {
    for (uint32_t i = 0; i < s->candidate_count; i++) {
      s->candidate[i] = s->scratch[s->candidate_row[i]];
    }
    s->threshold = nth_largest(s->candidate, s->candidate_count, want);
    uint32_t above = 0;
    for (uint32_t i = 0; i < s->candidate_count; i++) {
      above += s->scratch[s->candidate_row[i]] > s->threshold;
    }
    uint32_t ties = want - above; /* equal scores: the earliest positions win */
    for (uint32_t i = 0; i < s->candidate_count; i++) {
      float score = s->scratch[s->candidate_row[i]];
      if (score > s->threshold || (score == s->threshold && ties > 0 && ties--)) {
        selected[n++] = (int32_t)s->live[s->candidate_row[i]];
      }
    }
    s->cut = s->threshold - .15f;
  }
  qsort(selected, n, sizeof *selected, compare_rows);
  return n;
}

double kvl_score_threshold(const struct kvl_score *score)
{
  return (double)score->threshold;
}
