/* Log-linear histogram of uint64 values in bounded memory: percentiles of step times and latencies without keeping every sample.
 *
 * HdrHistogram's scheme (Debian 12 ships no C development package of it): 2^9 linear sub-buckets a power of two, so a value
 * is known to better than 0.1 % either way; values below 512 are exact. 225 KiB each. */
#ifndef KVL_BASE_HIST_H
#define KVL_BASE_HIST_H

#include <stdint.h>

enum { KVL_HIST_SUB_BITS = 9, KVL_HIST_BUCKETS = (64 - KVL_HIST_SUB_BITS + 1) << KVL_HIST_SUB_BITS };

struct kvl_hist {
  uint64_t count;
  uint64_t min, max;
  uint64_t sum_hi, sum_lo; /* 128-bit sum */
  uint64_t bucket[KVL_HIST_BUCKETS];
};

void kvl_hist_init(struct kvl_hist *h);
void kvl_hist_add(struct kvl_hist *h, uint64_t value, uint64_t times);

/* Nearest-rank percentile, `permille` in [0, 1000]; the midpoint of the bucket, clamped to [min, max]; 0 when empty. */
uint64_t kvl_hist_percentile(const struct kvl_hist *h, unsigned permille);
double kvl_hist_mean(const struct kvl_hist *h);

#endif
