/* The fast generator of selections: a learned renewal process that draws re-reference gaps, O(k) a step however long the history is.
 *
 * Every selected row draws the number of steps to its next selection from a table (gap_table.h) and is put into a calendar at that step. Rows that will not
 * return within KVL_GAP_MAX steps go back to the unselected pool; what a step lacks of k is filled with fresh rows from that pool, whose margins are drawn so
 * that the population stays in balance. Sinks (rows 0 to 3) and bursts are as in the score process. New rows draw their delay to the first selection
 * when they appear. The first step starts from the stationary state, never cold. Integers only: same seed, same rows, everywhere.
 *
 * Several selections of one cache: its segments are independent processes over disjoint rows; a selection is a window of consecutive segments. */
#ifndef KVL_TRACES_GAP_H
#define KVL_TRACES_GAP_H

#include <stddef.h>
#include <stdint.h>

#include "traces/gap_table.h"

enum {
  KVL_GAP_SINKS = 4,
  KVL_GAP_ROWS_MAX = 1 << 23,
  KVL_GAP_BURST_MAX = 96,   /* steps; longer ones are one in millions */
  KVL_GAP_WINDOW = 4,       /* segments of a selection, where a cache has several */
  KVL_GAP_SHARES = 2,       /* how far the last selection's window lies from the first's */
  KVL_GAP_SEGMENTS_MAX = KVL_GAP_WINDOW + KVL_GAP_SHARES
};

/* Walker's alias method: a column, then one of its two bins. KVL_GAP_BINS: never. */
enum { KVL_GAP_ALIAS = 32, KVL_GAP_ALIAS_BITS = 13 };

/* A table prepared for use: derived sums, computed once a source and shared by its streams. A margin between two classes is played by either at random, in
 * proportion to its distance from the other; the tables were learned that way. */
struct kvl_gap_law {
  const struct kvl_gap_table *table;
  /* Bin of the next gap, by class, state and column: the first bin's part of the column in 2^13ths << 16 | first << 8 | second. Static classes that are out
   * of reach never return. */
  uint32_t alias[KVL_GAP_STATIC][KVL_GAP_STATES][KVL_GAP_ALIAS];
  uint16_t after[KVL_GAP_STATES][KVL_GAP_ALIAS];                       /* the automaton: odds of a step up in 128ths << 8 | state, by state and bin */
  uint32_t bin_first[KVL_GAP_BINS + 1], bin_count[KVL_GAP_BINS + 1];   /* the last: beyond KVL_GAP_MAX */
  uint32_t burst_longer_q32[KVL_GAP_BURST_MAX];                        /* P(a burst lasts more than i + 1 steps) */
  uint32_t skew_q8[KVL_GAP_CLASSES + 1];                                 /* how far gaps lean to the short end of their bin; 256: a triangle */
  uint32_t scheduled_q16[KVL_GAP_CLASSES];                             /* probability that a row of the class has a place in the calendar */
  uint32_t never_q32[KVL_GAP_CLASSES];                                 /* probability that a gap is longer than KVL_GAP_MAX */
  uint32_t biased_q32[KVL_GAP_CLASSES][KVL_GAP_STATES * KVL_GAP_BINS]; /* cumulative: (state before, bin) of the gap that covers a random moment */
  uint32_t differ_permille;                                            /* rows that a query of a step replaces of the one before it, of 1,000 */
  uint32_t expect_q32[512];                                            /* P(selected) of a row by threshold: (i - 256) / 4 classes above the mean */
};

enum { KVL_GAP_DIFFER_PERMILLE = 30 }; /* published: neighbouring queries share more than 90 % */

/* With that many per thousand in differ_permille, which may be changed before the first kvl_gap_create. */
void kvl_gap_law_init(struct kvl_gap_law *law, const struct kvl_gap_table *table);

/* Where the threshold lies when k of `rows` rows are selected, and what follows from it. */
struct kvl_gap_balance {
  int32_t theta_q16;                          /* classes above the mean static term */
  uint64_t weight_q32[KVL_GAP_STATIC];        /* share of rows in each static class */
  uint32_t first_q32[KVL_GAP_CLASSES];        /* class of a fresh row, cumulative up to first_unit */
  uint32_t first_unit;
  uint32_t newest_q32;                        /* P(selected) of the newest row */
};

void kvl_gap_balance(const struct kvl_gap_law *law, uint32_t k, uint32_t rows, struct kvl_gap_balance *balance);

/* One cache of one request. */
struct kvl_gap;

/* `points` selections of k rows a step over at most rows_max rows (<= KVL_GAP_ROWS_MAX; more is NULL), queries_max variants of each. NULL: no memory. */
struct kvl_gap *kvl_gap_create(const struct kvl_gap_law *law, uint32_t k, uint32_t points, uint32_t rows_max, uint32_t queries_max);
void kvl_gap_destroy(struct kvl_gap *gap);
size_t kvl_gap_bytes(const struct kvl_gap *gap); /* memory it holds */
uint64_t kvl_gap_forgotten(const struct kvl_gap *gap); /* rows dropped since the start because the calendar was full: 0 unless its sizing is wrong */

void kvl_gap_start(struct kvl_gap *gap, uint64_t seed, uint64_t stream);

/* A step over `rows` rows (never fewer than in the step before, clamped to rows_max) for `queries` queries. Query 0 has the step's selection; query q > 0 has
 * that of query q - 1 with law->differ_permille of its rows replaced by rows that are due soon. What follows does not depend on the number of queries. */
void kvl_gap_step(struct kvl_gap *gap, uint32_t rows, uint32_t queries);

/* After a step: query `query` (1 .. queries - 1) also sees rows up to `rows`, which the step before it wrote and nobody has accepted yet. Some of them are
 * selected, as often as the newest rows are; they take the places of others. Later queries with as many rows or more have the same ones. */
void kvl_gap_lengthen(struct kvl_gap *gap, uint32_t query, uint32_t rows);

/* The rows of a point (0 .. points - 1), distinct; k of them, or all when the history is shorter. Valid until the next step. */
uint32_t kvl_gap_rows(const struct kvl_gap *gap, uint32_t point, uint32_t query, const int32_t **rows);

#endif
