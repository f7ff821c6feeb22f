/* Sizes that cannot wrap: laying out several arrays in one block of the caller's memory.
 *
 * The same layout function runs twice, once with `base` NULL to learn the size and once to place the arrays. */
#ifndef KVL_BASE_CHECKED_H
#define KVL_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KVL_CARVE_ALIGN = 64 };

struct kvl_carve {
  char *base;     /* NULL: only measure */
  size_t used;
  bool overflow;  /* the size does not fit size_t */
};

/* The next `count` items of `size` bytes, aligned to 64; NULL while measuring or after an overflow. */
static inline void *kvl_carve(struct kvl_carve *carve, size_t count, size_t size)
{
  size_t at = 0, bytes = 0, end = 0;
  carve->overflow = carve->overflow || __builtin_add_overflow(carve->used, (size_t)KVL_CARVE_ALIGN - 1, &at) ||
                    __builtin_mul_overflow(count, size, &bytes);
  at &= ~((size_t)KVL_CARVE_ALIGN - 1);
  carve->overflow = carve->overflow || __builtin_add_overflow(at, bytes, &end);
  if (carve->overflow) {
    return NULL;
  }
  carve->used = end;
  return carve->base == NULL ? NULL : carve->base + at;
}

static inline uint32_t kvl_min_u32(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* a - b, or 0 when b is larger. */
static inline uint32_t kvl_minus_u32(uint32_t a, uint32_t b)
{
  return a > b ? a - b : 0;
}

/* The greatest common divisor; of a and 0 it is a. */
static inline uint64_t kvl_common_divisor(uint64_t a, uint64_t b)
{
  while (b != 0) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

#endif
