/* Random numbers: small, fast, splittable, the same on every machine.
 *
 * One stream per purpose, split from the run's seed by name and number, so that a new consumer never shifts another's draws.
 * Generator: xoshiro256** (Blackman and Vigna, 2018, public domain); seeding: splitmix64. */
#ifndef KVL_BASE_RNG_H
#define KVL_BASE_RNG_H

#include <stdint.h>

struct kvl_rng {
  uint64_t s[4];
};

static inline uint64_t kvl_rng_mix(uint64_t x) /* splitmix64's output function */
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Starts the stream `purpose`, number `index`, of `seed`. */
void kvl_rng_init(struct kvl_rng *rng, uint64_t seed, const char *purpose, uint64_t index);

static inline uint64_t kvl_rng_next(struct kvl_rng *rng)
{
  uint64_t *s = rng->s;
  uint64_t x = s[1] * 5;
  uint64_t result = ((x << 7) | (x >> 57)) * 9;
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = (s[3] << 45) | (s[3] >> 19);
  return result;
}

/* Uniform in [0, n), n >= 1, by multiplication (bias below 2^-32 for n < 2^32). */
static inline uint32_t kvl_rng_below(struct kvl_rng *rng, uint32_t n)
{
  return (uint32_t)(((kvl_rng_next(rng) >> 32) * n) >> 32);
}

/* Uniform in [0, 1): 53 bits. */
static inline double kvl_rng_unit(struct kvl_rng *rng)
{
  return (double)(kvl_rng_next(rng) >> 11) * 0x1p-53;
}

double kvl_rng_normal(struct kvl_rng *rng);                 /* mean 0, variance 1 (polar method, no cached value) */
double kvl_rng_exponential(struct kvl_rng *rng);            /* mean 1 */
double kvl_rng_gamma(struct kvl_rng *rng, double shape);    /* mean `shape`, scale 1, shape > 0 (Marsaglia and Tsang, 2000) */

#endif
