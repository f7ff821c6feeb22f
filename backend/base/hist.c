#include "backend/base/hist.h"

#include <string.h>

void kvl_hist_init(struct kvl_hist *h)
{
  memset(h, 0, sizeof *h);
  h->min = UINT64_MAX;
}

/* Values below 2^SUB_BITS are their own bucket; above, the leading SUB_BITS bits after the top one choose within the power of two. */
static unsigned bucket_of(uint64_t v)
{
  if (v < (1u << KVL_HIST_SUB_BITS)) {
    return (unsigned)v;
  }
  unsigned top = 63u - (unsigned)__builtin_clzll(v);
  unsigned shift = top - KVL_HIST_SUB_BITS;
  return ((shift + 1) << KVL_HIST_SUB_BITS) + (unsigned)((v >> shift) - (1u << KVL_HIST_SUB_BITS));
}

static uint64_t midpoint_of(unsigned b)
{
  if (b < (1u << KVL_HIST_SUB_BITS)) {
    return b;
  }
  unsigned shift = (b >> KVL_HIST_SUB_BITS) - 1;
  uint64_t low = ((uint64_t)(b & ((1u << KVL_HIST_SUB_BITS) - 1)) + (1u << KVL_HIST_SUB_BITS)) << shift;
  return low + ((((uint64_t)1 << shift) - 1) >> 1);
}

void kvl_hist_add(struct kvl_hist *h, uint64_t value, uint64_t times)
{
  if (times == 0) {
    return;
  }
  h->bucket[bucket_of(value)] += times;
  h->count += times;
  h->min = value < h->min ? value : h->min;
  h->max = value > h->max ? value : h->max;
  __extension__ typedef unsigned __int128 u128;
  u128 sum = ((u128)h->sum_hi << 64 | h->sum_lo) + (u128)value * times;
  h->sum_hi = (uint64_t)(sum >> 64);
  h->sum_lo = (uint64_t)sum;
}

uint64_t kvl_hist_percentile(const struct kvl_hist *h, unsigned permille)
{
  if (h->count == 0) {
    return 0;
  }
  __extension__ typedef unsigned __int128 u128;
  uint64_t rank = (uint64_t)(((u128)h->count * permille + 999) / 1000);
  rank = rank == 0 ? 1 : rank;
  uint64_t seen = 0;
  for (unsigned b = 0; b < KVL_HIST_BUCKETS; b++) {
    seen += h->bucket[b];
    if (seen >= rank) {
      uint64_t v = midpoint_of(b);
      v = v < h->min ? h->min : v;
      return v > h->max ? h->max : v;
    }
  }
  return h->max;
}

double kvl_hist_mean(const struct kvl_hist *h)
{
  if (h->count == 0) {
    return 0.0;
  }
  return ((double)h->sum_hi * 0x1p64 + (double)h->sum_lo) / (double)h->count;
}
