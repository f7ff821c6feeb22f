/* What the fast generator knows of a preset: re-reference gaps by margin and memory, learned from the score process by traces/gap_fit.c and stored as
 * integers in traces/gap_table.inc.
 *
 * With thousands of rows selected the selection threshold hardly moves, so a position's life depends on one number: its margin, the distance from its static
 * term (and recency) up to the threshold, in standard deviations of the moving terms. Margins are a grid of classes; the same tables therefore serve
 * every history length and k. What a position remembers of its moving terms is a small state, updated from gap to gap by a fixed automaton. */
#ifndef KVL_TRACES_GAP_TABLE_H
#define KVL_TRACES_GAP_TABLE_H

#include <stdint.h>

enum {
  KVL_GAP_PER_SD = 4,       /* classes a standard deviation of the moving terms */
  KVL_GAP_CLASSES = 32,     /* live margins: class c has margin (c - KVL_GAP_ZERO) / KVL_GAP_PER_SD; a higher one is never selected */
  KVL_GAP_ZERO = 14,
  KVL_GAP_STATIC = 64,      /* classes a static term can have: recency may lift a position by 32 */
  KVL_GAP_STATES = 8,       /* memory: 0 just came back .. 7 selected for long */
  KVL_GAP_BINS = 24,        /* gaps 1 .. 8, then two bins an octave up to 2,048 */
  KVL_GAP_MAX = 2048,       /* longer gaps: "never"; the position returns to the unselected pool */
  KVL_GAP_REC = 64,         /* recency: cells of rtau / 8 rows */
  KVL_GAP_NORMAL = 256      /* half of a standard normal: cells of 1/32 */
};

struct kvl_gap_table {
  uint32_t ratio_q16;                                  /* standard deviation of the static term, in classes */
  uint32_t rtau;                                       /* recency decay, rows */
  uint32_t burst_starts_q32;                           /* eps: bursts a step, over k */
  uint32_t burst_end_q32;                              /* 1 / tb */
  uint32_t select_q32[KVL_GAP_CLASSES];                /* probability of being selected in a step */
  uint32_t mean_q16[KVL_GAP_CLASSES];                  /* mean gap, longer ones than KVL_GAP_MAX counted as 0 */
  uint16_t rec_q8[KVL_GAP_REC];                        /* classes gained from recency, by distance * 8 / rtau */
  uint16_t state_q16[KVL_GAP_CLASSES][KVL_GAP_STATES]; /* share of a class's selections made in each state; cumulative, the last is 65535 */
  uint16_t longer_q16[KVL_GAP_CLASSES][KVL_GAP_STATES][KVL_GAP_BINS]; /* P(gap is beyond the bin) */
};

extern const struct kvl_gap_table kvl_gap_tables[];            /* by preset (traces/preset.h) */
extern const uint32_t kvl_gap_normal_q32[KVL_GAP_NORMAL];      /* mass of the cells [i/32, (i+1)/32) */

/* First gap of a bin and how many it has. */
static inline uint32_t kvl_gap_bin_first(uint32_t bin)
{
  uint32_t half = bin - 8, octave = half / 2;
  return bin < 8 ? bin + 1 : (8u << octave) + (half & 1) * (4u << octave) + 1;
}

static inline uint32_t kvl_gap_bin_count(uint32_t bin)
{
  return bin < 8 ? 1 : 4u << ((bin - 8) / 2);
}

/* The bin of a gap; KVL_GAP_BINS when it is longer than KVL_GAP_MAX. */
static inline uint32_t kvl_gap_bin_of(uint32_t gap)
{
  if (gap <= 8) {
    return gap - 1;
  }
  uint32_t bin = 8;
  while (bin < KVL_GAP_BINS && gap >= kvl_gap_bin_first(bin) + kvl_gap_bin_count(bin)) {
    bin++;
  }
  return bin;
}

/* The automaton: the state after a gap of bin `bin` in state `state`; `random` is 8 fresh bits. A run of gaps of one climbs a step with probability
 * 1, 1, 1/2, 1/4, .. (so state 7 means some 60 steps in a row); an interruption drops by its length. */
static inline uint32_t kvl_gap_next_state(uint32_t state, uint32_t bin, uint32_t random)
{
  static const uint16_t climb[KVL_GAP_STATES] = {256, 256, 128, 64, 32, 16, 8, 0};
  static const uint8_t after[KVL_GAP_STATES][4] = { /* gap 2, 3-4, 5-8, more */
    {1, 0, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 0}, {2, 1, 1, 0}, {3, 2, 1, 0}, {4, 3, 2, 0}, {5, 3, 2, 1}, {5, 4, 3, 1},
  };
  if (bin == 0) {
    return state + (random < climb[state]);
  }
  return after[state][bin == 1 ? 0 : bin < 4 ? 1 : bin < 8 ? 2 : 3];
}

#endif
