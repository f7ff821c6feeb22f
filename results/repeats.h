/* The same scenario with several seeds: what each key of the summary is on average, how much it scatters, and how sure the average is.
 *
 * Every key is taken from each run as that run reports it: the ttft_s_p90 below is the mean of the runs' own 90th percentiles, not the 90th percentile of all
 * their requests together. Runs are what is independent; requests of one run are not. */
#ifndef KVL_RESULTS_REPEATS_H
#define KVL_RESULTS_REPEATS_H

#include "results/summary.h"

struct kvl_repeats_cell {
  double mean, min, max;
  double deviation; /* of the sample, with count - 1; NaN below two runs */
  double half;      /* half-width of the interval of the mean: Student's t times deviation / sqrt(count); NaN below two runs */
};
/* `value`: count numbers; confidence between 0 and 1. No numbers: all NaN. */
struct kvl_repeats_cell kvl_repeats_cell(const double *value, uint32_t count, double confidence);

/* The report of `count` runs (at least 1) with their seeds in order. JSON and TSV have every key but the seed, those measured on this machine (wall_s ...) as
 * well; the table leaves out mechanisms that no run used. -ENOMEM; output errors: ferror(out). */
int kvl_repeats_write(FILE *out, enum kvl_format format, const char *name, const struct kvl_summary *const *summaries, uint32_t count, double confidence);

#endif
