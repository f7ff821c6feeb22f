/* What a row must hold: a function of (session, cache, row), so that one byte read through a wrong address tells. `salt` is 0 for history and for
 * accepted tokens; rows of a draft that will be rejected carry another one, so that they cannot pass for the row that takes their place.
 *
 * Row content: 8-byte words x1, x2, ..., each a step of a linear congruential generator from a hash of what the row belongs to; the last word is cut
 * when the row is no multiple of eight. For C and CUDA alike. */
#ifndef KVL_KERNELS_PATTERN_H
#define KVL_KERNELS_PATTERN_H

#include <stdint.h>

#ifdef __CUDACC__
#define KVL_BOTH static inline __host__ __device__
#else
#define KVL_BOTH static inline
#endif

KVL_BOTH uint64_t kvl_pattern_mix(uint64_t x) /* splitmix64's finalizer */
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* The state before the first word. */
KVL_BOTH uint64_t kvl_pattern_seed(uint64_t session, uint32_t cache, int32_t row, uint32_t salt)
{
  return kvl_pattern_mix(session ^ kvl_pattern_mix(((uint64_t)cache << 32 | (uint32_t)row) ^ ((uint64_t)salt << 40)));
}

KVL_BOTH uint64_t kvl_pattern_next(uint64_t x)
{
  return x * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
}

/* x1, x2, ... jump ahead: word `n` (from 1) is a(n) * seed + b(n), both from this recurrence; for kernels that write words in parallel. */
KVL_BOTH uint64_t kvl_pattern_word(uint64_t seed, uint32_t n)
{
  uint64_t a = 1, b = 0, step_a = 0x5851f42d4c957f2du, step_b = 0x14057b7ef767814fu;
  for (; n != 0; n >>= 1) { /* square and multiply on x -> step_a * x + step_b */
    if (n & 1) {
      b = step_a * b + step_b;
      a = step_a * a;
    }
    step_b = step_a * step_b + step_b;
    step_a = step_a * step_a;
  }
  return a * seed + b;
}

#endif
