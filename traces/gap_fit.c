/* gap_fit: learns traces/gap_table.inc from the score process (traces/score.h).
 *
 *     ninja -C BUILD traces/gap_fit && BUILD/traces/gap_fit > traces/gap_table.inc
 *
 * One long path of the moving terms (two AR(1) and white noise) is cut by every margin at once; gaps are counted by margin class and automaton state. Takes some
 * seconds; the output depends on the arguments only: gap_fit [STEPS [SEED]], defaults 20000000 and 1. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "traces/gap_table.h"
#include "traces/preset.h"
#include "traces/score.h"

/* Margins are learned on a grid four times finer than the classes: a class is what the margins around it look like together, weighted by their distance
 * and by how many rows have them, because that is how rows are dealt to classes. */
enum { SUB = 4, MARGINS = KVL_GAP_CLASSES * SUB };

struct counts {
  uint64_t selected, gap_sum;
  uint64_t state[KVL_GAP_STATES];
  uint64_t gap[KVL_GAP_STATES][KVL_GAP_BINS + 1];
};

struct mixture {
  double select, selected, gap_sum;
  double state[KVL_GAP_STATES];
  double gap[KVL_GAP_STATES][KVL_GAP_BINS + 1];
};

static void learn(const struct kvl_score_params *p, uint64_t steps, uint64_t seed, struct counts *counts)
{
  static struct kvl_ziggurat zig;
  struct kvl_rng rng, coin;
  double moving = sqrt(p->var_a + p->var_b + p->var_white);
  double rho_a = exp(-1 / p->tau_a), rho_b = exp(-1 / p->tau_b);
  double sd_a = sqrt(p->var_a * (1 - rho_a * rho_a)), sd_b = sqrt(p->var_b * (1 - rho_b * rho_b)), sd_w = sqrt(p->var_white);
  static uint64_t last[MARGINS];
  static uint32_t state[MARGINS];
  memset(last, 0, sizeof last);
  memset(state, 0, sizeof state);
  kvl_ziggurat_init(&zig);
  kvl_rng_init(&rng, seed, "gap fit path", 0);
  kvl_rng_init(&coin, seed, "gap fit coin", 0);
  double a = sqrt(p->var_a) * kvl_ziggurat_normal(&zig, &rng), b = sqrt(p->var_b) * kvl_ziggurat_normal(&zig, &rng);
  for (uint64_t t = 1; t <= steps; t++) {
    a = rho_a * a + sd_a * kvl_ziggurat_normal(&zig, &rng);
    b = rho_b * b + sd_b * kvl_ziggurat_normal(&zig, &rng);
    double margin = SUB * (KVL_GAP_PER_SD * (a + b + sd_w * kvl_ziggurat_normal(&zig, &rng)) / moving + KVL_GAP_ZERO);
    for (int c = 0; c < MARGINS && margin > c; c++) {
      struct counts *n = &counts[c];
      if (last[c] != 0) {
        uint64_t gap = t - last[c];
        uint32_t bin = gap > KVL_GAP_MAX ? KVL_GAP_BINS : kvl_gap_bin_of((uint32_t)gap);
        n->gap[state[c]][bin]++;
        n->gap_sum += bin < KVL_GAP_BINS ? gap : 0;
        state[c] = bin == KVL_GAP_BINS ? 0 : kvl_gap_next_state(state[c], bin, (uint32_t)(kvl_rng_next(&coin) >> 56));
      }
      n->selected++;
      n->state[state[c]]++;
      last[c] = t;
    }
  }
}

static void mix(const struct counts *counts, int c, double slope, struct mixture *m)
{
  double weights = 0;
  memset(m, 0, sizeof *m);
  for (int j = -SUB + 1; j < SUB; j++) {
    int at = c * SUB + j;
    if (at < 0 || at >= MARGINS) {
      continue;
    }
    const struct counts *n = &counts[at];
    double away = (double)j / SUB, w = (1 - fabs(away)) * exp(slope * away);
    weights += w;
    m->select += w * .5 * erfc((c + away - KVL_GAP_ZERO) / KVL_GAP_PER_SD * sqrt(.5));
    m->selected += w * (double)n->selected;
    m->gap_sum += w * (double)n->gap_sum;
    for (int s = 0; s < KVL_GAP_STATES; s++) {
      m->state[s] += w * (double)n->state[s];
      for (int bin = 0; bin <= KVL_GAP_BINS; bin++) {
        m->gap[s][bin] += w * (double)n->gap[s][bin];
      }
    }
  }
  m->select /= weights;
}

/* The counts to use for a state: its own, or those of the nearest state that was seen often enough (recency moves rows to states that a fixed margin
 * never shows). */
static const double *usable(const struct mixture *m, int state)
{
  for (int away = 0; away < KVL_GAP_STATES; away++) {
    for (int sign = -1; sign <= 1; sign += 2) {
      int s = state + sign * away;
      if (s >= 0 && s < KVL_GAP_STATES && m->state[s] >= 400) {
        return m->gap[s];
      }
    }
  }
  return m->gap[0];
}

static double q(double x, double scale)
{
  double v = floor(x * scale + .5);
  return v < 0 ? 0 : v > scale - 1 ? scale - 1 : v;
}

static void print_preset(unsigned preset, uint64_t steps, uint64_t seed)
{
  static struct counts counts[MARGINS];
  static struct mixture mixture[KVL_GAP_CLASSES];
  struct kvl_score_params p;
  kvl_score_preset(preset, &p);
  memset(counts, 0, sizeof counts);
  learn(&p, steps, seed, counts);
  double step = 1. / KVL_GAP_PER_SD * sqrt(p.var_a + p.var_b + p.var_white), ratio = sqrt(p.var_static) / step;
  for (int c = 0; c < KVL_GAP_CLASSES; c++) {
    mix(counts, c, 2.5 / ratio, &mixture[c]); /* thresholds lie 2 to 3 standard deviations up */
  }
  printf("  { /* %s */\n", kvl_preset_names[preset]);
  printf("    .ratio_q16 = %.0f, .rtau = %.0f, .burst_starts_q32 = %.0f, .burst_end_q32 = %.0f,\n", floor(65536 * ratio + .5), p.rtau,
         q(p.eps, 0x1p32), q(1 / p.tb, 0x1p32));
  printf("    .select_q32 = {");
  for (int c = 0; c < KVL_GAP_CLASSES; c++) {
    printf("%s%.0f", c ? ", " : "", q(mixture[c].select, 0x1p32));
  }
  printf("},\n    .mean_q16 = {");
  for (int c = 0; c < KVL_GAP_CLASSES; c++) {
    printf("%s%.0f", c ? ", " : "", floor(65536 * mixture[c].gap_sum / mixture[c].selected + .5));
  }
  printf("},\n    .rec_q8 = {");
  for (int i = 0; i < KVL_GAP_REC; i++) {
    printf("%s%.0f", i ? ", " : "", floor(256 * p.rec * exp(-(i + .5) / 8) / step + .5));
  }
  printf("},\n    .state_q16 = {\n");
  for (int c = 0; c < KVL_GAP_CLASSES; c++) {
    double sum = 0;
    printf("      {");
    for (int s = 0; s < KVL_GAP_STATES; s++) {
      sum += mixture[c].state[s];
      printf("%s%.0f", s ? ", " : "", q(sum / mixture[c].selected, 65536));
    }
    printf("},\n");
  }
  printf("    },\n    .longer_q16 = {\n");
  for (int c = 0; c < KVL_GAP_CLASSES; c++) {
    for (int s = 0; s < KVL_GAP_STATES; s++) {
      const double *n = usable(&mixture[c], s);
      double total = 0, sum = 0;
      for (int bin = 0; bin <= KVL_GAP_BINS; bin++) {
        total += n[bin];
      }
      printf("      %s{", s ? " " : "{");
      for (int bin = 0; bin < KVL_GAP_BINS; bin++) {
        sum += n[bin];
        printf("%s%.0f", bin ? "," : "", total > 0 ? q(1 - sum / total, 65536) : 0);
      }
      printf("}%s\n", s == KVL_GAP_STATES - 1 ? "}," : ",");
    }
  }
  printf("    },\n  },\n");
}

int main(int argc, char **argv)
{
  uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000, seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  if (steps < 1000000) {
    fprintf(stderr, "gap_fit: steps must be at least 1000000\n");
    return 2;
  }
  printf("/* Written by traces/gap_fit.c: gap_fit %llu %llu. Do not edit. */\n", (unsigned long long)steps, (unsigned long long)seed);
  printf("const uint32_t kvl_gap_normal_q32[KVL_GAP_NORMAL] = {");
  for (int i = 0; i < KVL_GAP_NORMAL; i++) {
    double mass = .5 * (erfc(i / 32. * sqrt(.5)) - erfc((i + 1) / 32. * sqrt(.5)));
    printf("%s%.0f%s", i % 16 ? " " : "\n  ", q(mass, 0x1p32), i < KVL_GAP_NORMAL - 1 ? "," : "\n");
  }
  printf("};\n\nconst struct kvl_gap_table kvl_gap_tables[KVL_PRESETS] = {\n");
  for (unsigned preset = 0; preset < KVL_PRESETS; preset++) {
    print_preset(preset, steps, seed);
  }
  printf("};\n");
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "gap_fit: standard output: %s\n", strerror(errno));
    return 1;
  }
  return 0;
}
