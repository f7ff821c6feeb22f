/* Generated selections against the published points of selection locality, and against the score process where nothing is published.
 *
 *     model_locality CURVES.tsv [SEED]
 *
 * Published (GLM-5.1: arXiv 2608.07009; V3.2: 2604.22312 and ESS, 2512.10576; retro-fitted indexers: 2603.13430): k 2048, 65,536 rows, steps 300 to 600 of
 * 600. The generator must meet each within 10 %, over a few sessions together: one session differs from the next by some 2 %, as in the score process, and
 * hot-b is near two edges at once (2 k clairvoyant, 4 k LRU). The score process is held to 14 %, because a single session of its hot-b has 4 k LRU 7 to 11 %
 * above the published value. CURVES.tsv holds means of the score process (traces/score_curve.c). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/curve.h"
#include "traces/preset.h"
#include "traces/score.h"
#include "traces/selection.h"

enum { STEPS = 600, WARM = 300, GLM_K = 2048, GLM_ROWS = 65536, SIZES = 7 };
static const uint32_t size_tenths[SIZES] = {10, 20, 31, 40, 80, 160, 320};
static int failures;

static void judge(const char *what, double value, double low, double high)
{
  bool good = value >= low && value <= high;
  printf("  %-58s %8.3f  in [%.3f, %.3f]%s\n", what, value, low, high, good ? "" : "  FAILED");
  failures += !good;
}

static struct kvl_miss_curve *generate(const char *preset, uint32_t k, uint32_t rows, uint64_t seed)
{
  struct kvl_selection_shape shape = {.caches = 1, .tokens_per_row = {1}, .points = 1, .point = {{.cache = 0, .layer = 0, .k = k}}};
  struct kvl_selection_source *source;
  struct kvl_err err;
  if (kvl_source_open_preset(&source, preset, &shape, seed, &err) != 0) {
    printf("%s\n", err.text);
    exit(1);
  }
  struct kvl_selection_stream *stream = kvl_stream_create(source, rows + STEPS, 1);
  struct kvl_miss_curve *curve = kvl_miss_curve_create();
  if (stream == NULL || curve == NULL) {
    exit(1);
  }
  kvl_stream_start(stream, 0, rows);
  for (uint32_t t = 0; t < STEPS; t++) {
    const int32_t *row;
    kvl_stream_step(stream, rows + t + 1, 1);
    uint32_t count = kvl_stream_rows(stream, 0, 0, &row); /* before the call: the order of arguments is the compiler's */
    if (kvl_miss_curve_add(curve, row, count) != 0) {
      exit(1);
    }
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
  return curve;
}

static struct kvl_miss_curve *score(unsigned preset, uint64_t seed)
{
  struct kvl_score_params params;
  kvl_score_preset(preset, &params);
  struct kvl_score *process = kvl_score_create(&params, GLM_K, GLM_ROWS, GLM_ROWS + STEPS, 5.5, seed);
  struct kvl_miss_curve *curve = kvl_miss_curve_create();
  static int32_t selected[GLM_K];
  if (process == NULL || curve == NULL) {
    exit(1);
  }
  for (uint32_t t = 0; t < STEPS; t++) {
    if (kvl_miss_curve_add(curve, selected, kvl_score_step(process, 1, selected)) != 0) {
      exit(1);
    }
  }
  kvl_score_destroy(process);
  return curve;
}

/* Curves of a few sessions; what follows is of all their accesses together. */
enum { SESSIONS_MAX = 8 };
struct sessions {
  int count;
  struct kvl_miss_curve *curve[SESSIONS_MAX];
};

static double miss(const struct sessions *s, enum kvl_miss_policy policy, uint32_t hot_rows)
{
  uint64_t misses = 0, accesses = 0;
  for (int i = 0; i < s->count; i++) {
    struct kvl_miss_count count;
    if (kvl_miss_curve_replay(s->curve[i], policy, hot_rows, WARM, 1, &count) != 0) {
      exit(1);
    }
    misses += count.misses;
    accesses += count.accesses;
  }
  return 100. * (double)misses / (double)accesses;
}

static void gaps(const struct sessions *s, double share[KVL_MISS_GAP_BINS])
{
  uint64_t sum[KVL_MISS_GAP_BINS] = {0}, total = 0;
  for (int i = 0; i < s->count; i++) {
    uint64_t count[KVL_MISS_GAP_BINS];
    if (kvl_miss_curve_gaps(s->curve[i], WARM, count) != 0) {
      exit(1);
    }
    for (int bin = 0; bin < KVL_MISS_GAP_BINS; bin++) {
      sum[bin] += count[bin];
      total += count[bin];
    }
  }
  for (int bin = 0; bin < KVL_MISS_GAP_BINS; bin++) {
    share[bin] = (double)sum[bin] / (double)total;
  }
}

static void drop(struct sessions *s)
{
  for (int i = 0; i < s->count; i++) {
    kvl_miss_curve_destroy(s->curve[i]);
  }
  s->count = 0;
}

static void published_hot(const struct sessions *sessions, double within)
{
  static const struct {
    const char *what;
    enum kvl_miss_policy policy;
    uint32_t tenths;
    double percent;
  } point[] = {{"1.0 k, any policy", KVL_MISS_LRU, 10, 30},    {"2.0 k, LRU", KVL_MISS_LRU, 20, 13.4},       {"2.0 k, FIFO", KVL_MISS_FIFO, 20, 17.2},
               {"2.0 k, random", KVL_MISS_RANDOM, 20, 16.1}, {"2.0 k, clairvoyant", KVL_MISS_CLAIRVOYANT, 20, 8.2}, {"4.0 k, LRU", KVL_MISS_LRU, 40, 6.7}};
  for (size_t i = 0; i < sizeof point / sizeof *point; i++) {
    judge(point[i].what, miss(sessions, point[i].policy, GLM_K * point[i].tenths / 10), (1 - within) * point[i].percent, (1 + within) * point[i].percent);
  }
  judge("3.1 k, LRU, rows a step (ESS)", miss(sessions, KVL_MISS_LRU, GLM_K * 31 / 10) * GLM_K / 100, 0, 200);
}

/* Shares of the two fits: 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64 steps, more, first touch. */
static void published_gaps(const struct sessions *sessions, unsigned fit)
{
  static const double expect[2][KVL_MISS_GAP_BINS] = {{.70, .085, .059, .041, .032, .026, .021, .028, .014},
                                                      {.69, .081, .064, .045, .029, .017, .013, .035, .021}};
  static const char *const name[KVL_MISS_GAP_BINS] = {"gap 1", "gap 2", "gaps 3-4", "gaps 5-8", "gaps 9-16", "gaps 17-32", "gaps 33-64", "longer", "first touch"};
  double share[KVL_MISS_GAP_BINS];
  gaps(sessions, share);
  for (int i = 0; i < KVL_MISS_GAP_BINS; i++) {
    judge(name[i], share[i], .9 * expect[fit][i] - .0005, 1.1 * expect[fit][i] + .0005); /* published to three digits */
  }
}

/* "mean 44 % kept"; "55 % new each step, mean run 1.82 steps". */
static void published_cold(const struct sessions *sessions)
{
  double share[KVL_MISS_GAP_BINS];
  gaps(sessions, share);
  judge("step overlap", share[0], .43, .46);
  judge("mean run, steps", 1 / (1 - share[0]), .95 * 1.82, 1.05 * 1.82);
}

/* One line of the stored curves against the generator, two sessions together: within 12 % and a percentage point. The population of static terms differs from seed to seed there, so even two runs
 * of the score process differ by a few percent. */
static int compare_line(const char *line, uint64_t seed)
{
  char preset[16];
  unsigned k, rows, seeds;
  double threshold, want[SIZES][KVL_MISS_POLICIES], have[SIZES][KVL_MISS_POLICIES] = {{0}};
  int used = 0;
  if (sscanf(line, "%15s %u %u %u %lf%n", preset, &k, &rows, &seeds, &threshold, &used) != 5) {
    return -EINVAL;
  }
  const char *at = line + used;
  for (int i = 0; i < KVL_MISS_GAP_BINS + SIZES * KVL_MISS_POLICIES; i++) {
    char *end;
    double value = strtod(at, &end);
    if (end == at) {
      return -EINVAL;
    }
    if (i >= KVL_MISS_GAP_BINS) {
      want[(i - KVL_MISS_GAP_BINS) / KVL_MISS_POLICIES][(i - KVL_MISS_GAP_BINS) % KVL_MISS_POLICIES] = value;
    }
    at = end;
  }
  struct sessions sessions = {0};
  while (sessions.count < 2) {
    sessions.curve[sessions.count] = generate(preset, k, rows, seed + (uint64_t)sessions.count);
    sessions.count++;
  }
  for (int i = 0; i < SIZES; i++) {
    for (int policy = 0; policy < KVL_MISS_POLICIES; policy++) {
      have[i][policy] = miss(&sessions, (enum kvl_miss_policy)policy, k * size_tenths[i] / 10);
    }
  }
  drop(&sessions);
  double worst = 0;
  for (int i = 0; i < SIZES; i++) {
    printf("%s k %u rows %6u, %4.1f k:", preset, k, rows, size_tenths[i] / 10.);
    for (int policy = 0; policy < KVL_MISS_POLICIES; policy++) {
      double off = fabs(have[i][policy] - want[i][policy]), allowed = (rows < 16 * k ? .15 : .12) * want[i][policy] + 1;
      printf("  %6.2f (%6.2f)", have[i][policy], want[i][policy]);
      worst = off / allowed > worst ? off / allowed : worst;
    }
    printf("\n");
  }
  judge("worst distance, of 12 % (histories below 16 k: 15 %) + 1", worst, 0, 1);
  return 0;
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
  if (file == NULL) {
    printf("usage: model_locality CURVES.tsv [SEED]\n");
    return 2;
  }
  printf("seed %" PRIu64 "\n", seed);
  for (unsigned preset = 0; preset < KVL_PRESETS; preset++) {
    for (int slow = 0; slow < 2; slow++) { /* the score process costs seconds a session, and cold-b tells nothing that cold-a does not */
      struct sessions sessions = {.count = 0};
      if (slow && preset == 3) {
        continue;
      }
      while (sessions.count < (slow || preset >= 2 ? 1 : SESSIONS_MAX)) {
        uint64_t session_seed = seed * SESSIONS_MAX + (uint64_t)sessions.count;
        sessions.curve[sessions.count++] = slow ? score(preset, session_seed) : generate(kvl_preset_names[preset], GLM_K, GLM_ROWS, session_seed);
      }
      printf("%s, %s, %d sessions\n", kvl_preset_names[preset], slow ? "score process" : "generated", sessions.count);
      if (preset < 2) {
        published_hot(&sessions, slow ? .14 : .10);
        published_gaps(&sessions, preset);
      } else {
        published_cold(&sessions);
      }
      drop(&sessions);
    }
  }
  char line[2048];
  int lines = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (line[0] != '#' && strncmp(line, "preset", 6) != 0) {
      lines++;
      if (compare_line(line, seed) != 0) {
        printf("%s: line not understood: %s", argv[1], line);
        failures++;
      }
    }
  }
  fclose(file);
  if (lines == 0) {
    printf("%s: no curves\n", argv[1]);
    failures++;
  }
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
