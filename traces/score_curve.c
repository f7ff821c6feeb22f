/* score_curve: miss curves of the score process, the judge of the fast generator where nothing is published.
 *
 *     ninja -C BUILD traces/score_curve && BUILD/traces/score_curve > traces/score_curves.tsv
 *
 * Every preset at k 2,048 and 65,536 rows, and at k 512 and 2,048 to 500,000 rows (extrapolated: the fits are of the first setting). 600 steps, counted from step
 * 300 on, growing by a row a step; means over several seeds, because one population of static terms differs from the next by a few percent. Takes
 * ten minutes or so. Positions more than 5.5 standard deviations below the threshold are skipped. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/curve.h"
#include "traces/preset.h"
#include "traces/score.h"

enum { STEPS = 600, WARM = 300, SIZES = 7 };
static const uint32_t size_tenths[SIZES] = {10, 20, 31, 40, 80, 160, 320};

static int one_seed(unsigned preset, uint32_t k, uint32_t rows, uint64_t seed, uint64_t gap[KVL_MISS_GAP_BINS],
                    struct kvl_miss_count count[SIZES][KVL_MISS_POLICIES], double *threshold)
{
  struct kvl_score_params params;
  kvl_score_preset(preset, &params);
  struct kvl_score *score = kvl_score_create(&params, k, rows, rows + STEPS, 5.5, seed);
  struct kvl_miss_curve *curve = kvl_miss_curve_create();
  int32_t *selected = malloc(k * sizeof *selected);
  int rc = score == NULL || curve == NULL || selected == NULL ? -ENOMEM : 0;
  for (uint32_t t = 0; t < STEPS && rc == 0; t++) {
    uint32_t n = kvl_score_step(score, 1, selected);
    rc = kvl_miss_curve_add(curve, selected, n);
    *threshold += kvl_score_threshold(score) / STEPS;
  }
  uint64_t share[KVL_MISS_GAP_BINS];
  if (rc == 0) {
    rc = kvl_miss_curve_gaps(curve, WARM, share);
  }
  for (int i = 0; i < KVL_MISS_GAP_BINS && rc == 0; i++) {
    gap[i] += share[i];
  }
  for (int i = 0; i < SIZES; i++) {
    for (int policy = 0; policy < KVL_MISS_POLICIES && rc == 0; policy++) {
      struct kvl_miss_count c;
      rc = kvl_miss_curve_replay(curve, (enum kvl_miss_policy)policy, k * size_tenths[i] / 10, WARM, seed, &c);
      count[i][policy].misses += c.misses;
      count[i][policy].accesses += c.accesses;
    }
  }
  kvl_score_destroy(score);
  kvl_miss_curve_destroy(curve);
  free(selected);
  return rc;
}

static int setting(unsigned preset, uint32_t k, uint32_t rows, uint32_t seeds)
{
  uint64_t gap[KVL_MISS_GAP_BINS] = {0}, accesses = 0;
  struct kvl_miss_count count[SIZES][KVL_MISS_POLICIES];
  double threshold = 0;
  memset(count, 0, sizeof count);
  for (uint32_t seed = 1; seed <= seeds; seed++) {
    int rc = one_seed(preset, k, rows, seed, gap, count, &threshold);
    if (rc != 0) {
      return rc;
    }
  }
  printf("%s\t%u\t%u\t%u\t%.4f", kvl_preset_names[preset], k, rows, seeds, threshold / seeds);
  for (int i = 0; i < KVL_MISS_GAP_BINS; i++) {
    accesses += gap[i];
  }
  for (int i = 0; i < KVL_MISS_GAP_BINS; i++) {
    printf("\t%.4f", (double)gap[i] / (double)accesses);
  }
  for (int i = 0; i < SIZES; i++) {
    for (int policy = 0; policy < KVL_MISS_POLICIES; policy++) {
      printf("\t%.3f", 100. * (double)count[i][policy].misses / (double)count[i][policy].accesses);
    }
  }
  printf("\n");
  return fflush(stdout) == 0 ? 0 : -errno;
}

int main(void)
{
  static const struct {
    uint32_t k, rows, seeds;
  } settings[] = {{2048, 65536, 4}, {512, 2048, 4}, {512, 8192, 4}, {512, 32768, 4}, {512, 131072, 4}, {512, 250000, 4}, {512, 500000, 6}};
  static const char *const gaps[KVL_MISS_GAP_BINS] = {"1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "more", "first"};
  printf("# Written by traces/score_curve.c. Gaps: share of accesses; then miss percent by hot rows over k and policy.\n");
  printf("preset\tk\trows\tseeds\tthreshold");
  for (int i = 0; i < KVL_MISS_GAP_BINS; i++) {
    printf("\tgap_%s", gaps[i]);
  }
  for (int i = 0; i < SIZES; i++) {
    for (int policy = 0; policy < KVL_MISS_POLICIES; policy++) {
      printf("\t%u.%u_%s", size_tenths[i] / 10, size_tenths[i] % 10, kvl_miss_policy_name((enum kvl_miss_policy)policy));
    }
  }
  printf("\n");
  for (unsigned preset = 0; preset < KVL_PRESETS; preset++) {
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
      int rc = setting(preset, settings[i].k, settings[i].rows, settings[i].seeds);
      if (rc != 0) {
        fprintf(stderr, "score_curve: %s\n", strerror(-rc));
        return 1;
      }
    }
  }
  return 0;
}
