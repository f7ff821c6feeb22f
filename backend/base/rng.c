#include "backend/base/rng.h"

#include <math.h>

void kvl_rng_init(struct kvl_rng *rng, uint64_t seed, const char *purpose, uint64_t index)
{
  uint64_t x = kvl_rng_mix(seed);
  for (const char *p = purpose; *p != '\0'; p++) {
    x = kvl_rng_mix(x ^ (uint64_t)(unsigned char)*p);
  }
  x = kvl_rng_mix(x ^ kvl_rng_mix(index));
  for (int i = 0; i < 4; i++) {
    x = kvl_rng_mix(x);
    rng->s[i] = x;
  }
}

double kvl_rng_normal(struct kvl_rng *rng)
{
  for (;;) {
    double u = 2.0 * kvl_rng_unit(rng) - 1.0;
    double v = 2.0 * kvl_rng_unit(rng) - 1.0;
    double s = u * u + v * v;
    if (s > 0.0 && s < 1.0) {
      return u * sqrt(-2.0 * log(s) / s);
    }
  }
}

double kvl_rng_exponential(struct kvl_rng *rng)
{
  return -log1p(-kvl_rng_unit(rng));
}

double kvl_rng_gamma(struct kvl_rng *rng, double shape)
{
  if (shape < 1.0) { /* boost: gamma(a) = gamma(a + 1) * U^(1/a) */
    return kvl_rng_gamma(rng, shape + 1.0) * pow(1.0 - kvl_rng_unit(rng), 1.0 / shape);
  }
  double d = shape - 1.0 / 3.0;
  double c = 1.0 / sqrt(9.0 * d);
  for (;;) {
    double x = kvl_rng_normal(rng);
    double v = 1.0 + c * x;
    if (v <= 0.0) {
      continue;
    }
    v = v * v * v;
    double u = 1.0 - kvl_rng_unit(rng);
    if (log(u) < 0.5 * x * x + d - d * v + d * log(v)) {
      return d * v;
    }
  }
}
