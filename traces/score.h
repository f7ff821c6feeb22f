/* The score process: the slow, exact model of an indexer's selections that the fast generator (gap.h) is learned from and judged by.
 *
 * The score of position p at step t is a static normal term, plus two AR(1) terms, plus white noise (variances sum to 1), plus
 * rec * exp(-distance / rtau) where distance counts rows from the newest. Positions 0 to 3 (sinks) always win, and bursts: eps * k positions a step, drawn
 * uniformly, win for tb steps on average (geometric). The selection is the k highest scores. The parameters of hot-a and hot-b were fitted to published
 * curves of GLM-5.1 (arXiv 2608.07009: k 2048, 65,536 positions, steps 300 to 600); the cold presets have the hot variances of static and AR terms times
 * 0.80, the rest white. Costs one or more nanoseconds a position and step: for tools and tests, never for the engine. Uses double and libm. */
#ifndef KVL_TRACES_SCORE_H
#define KVL_TRACES_SCORE_H

#include <stdint.h>

enum { KVL_SCORE_SINKS = 4 };

struct kvl_score_params {
  double var_static, var_a, tau_a, var_b, tau_b, var_white; /* variances sum to 1; tau in steps */
  double rec, rtau;                                         /* recency: height, decay in rows */
  double eps, tb;                                           /* bursts: starts a step over k, mean length in steps */
  double block_corr;                                        /* correlation of the static term within blocks of 64 rows: to sweep, not calibrated; 0 */
};

void kvl_score_preset(unsigned preset, struct kvl_score_params *params); /* by index (traces/preset.h) */

struct kvl_score;

/* A process with `rows` positions before the first step, growing to at most rows_max. NULL: no memory. Positions whose static term is more than `prune`
 * standard deviations of the moving terms below the usual threshold are skipped (saves most of the time at large S; 0: none, 6.5 is out of sight). */
struct kvl_score *kvl_score_create(const struct kvl_score_params *params, uint32_t k, uint32_t rows, uint32_t rows_max, double prune,
                                   uint64_t seed);
void kvl_score_destroy(struct kvl_score *score);

/* Adds `rows_new` positions (a step of one token adds one, or one every tokens_per_row steps), advances a step and writes the selection, in ascending
 * order, to `selected` (room for k). Returns how many: k, or all positions when there are fewer. */
uint32_t kvl_score_step(struct kvl_score *score, uint32_t rows_new, int32_t *selected);

/* The lowest natural score selected in the last step. */
double kvl_score_threshold(const struct kvl_score *score);

/* Normal deviates by the ziggurat of Marsaglia and Tsang (2000), 256 layers: the same law as kvl_rng_normal, several times faster. */
struct kvl_rng;
struct kvl_ziggurat {
  double x[257], f[257];
};
void kvl_ziggurat_init(struct kvl_ziggurat *zig);
double kvl_ziggurat_normal(const struct kvl_ziggurat *zig, struct kvl_rng *rng);

#endif
