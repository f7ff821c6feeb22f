/* Pictures of sweeps, as results/plot.h draws: PNG, SVG or both, the numbers beside them as TSV, each row with its point and its runs.
 *
 * `point` lists the points that are drawn (kvl_sweep_where); keys are indices into table->key. Points without a complete run are left out, or marked.
 * -EINVAL also when several points fall on one place: the line names a key to tell them apart by. */
#ifndef KVL_RESULTS_PLOT_SWEEP_H
#define KVL_RESULTS_PLOT_SWEEP_H

#include "results/plot.h"
#include "results/sweep.h"

enum { KVL_PLOT_HEAT_SIDE_MAX = 64, KVL_PLOT_LINES_PANELS_MAX = 3, KVL_PLOT_SERIES_MAX = KVL_PLOT_RUNS_MAX };

/* One metric over two keys, each cell with its value. */
int kvl_plot_heatmap(const struct kvl_plot *plot, const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t x, uint32_t y,
                     uint32_t metric, struct kvl_err *err);
/* Up to three metrics over one key, side by side, one line for each value of key `by` (UINT32_MAX: one line), with the 95 % interval over repeats. */
int kvl_plot_lines(const struct kvl_plot *plot, const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t x, uint32_t by,
                   const uint32_t *metric, uint32_t metrics, struct kvl_err *err);
/* Output throughput against the rate of one request (p50): every point, and the front of those that no other beats in both; one colour for each value
 * of `by`. */
int kvl_plot_pareto(const struct kvl_plot *plot, const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t by,
                    struct kvl_err *err);

/* ---- shared by these pictures ---- */

/* The different values of a key among the points, numbers in order, words as they come. */
struct kvl_sweep_axis_values {
  char (*text)[KVL_SWEEP_VALUE_TEXT];
  double *number;
  uint32_t count;
  int numeric; /* every value is a number */
};
int kvl_sweep_axis_read(const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t key, struct kvl_sweep_axis_values *values);
void kvl_sweep_axis_free(struct kvl_sweep_axis_values *values);
uint32_t kvl_sweep_axis_find(const struct kvl_sweep_axis_values *values, const char *value);
/* Those of the points that have a complete run, into live[0 .. *count). -EINVAL: none has. */
int kvl_sweep_live(const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t *live, uint32_t *count, struct kvl_err *err);
/* -EINVAL: points a and b fall on one place; names the first other key in which they differ. */
int kvl_sweep_ambiguous(const struct kvl_sweep_table *table, uint32_t a, uint32_t b, struct kvl_err *err);
/* A point's values of all keys, "hot_rows=512, mode=fixed", and its runs, "3,7", as TSV cells. */
void kvl_sweep_put_traces(FILE *out, const struct kvl_sweep_table *table, uint32_t point);
/* A metric as an axis names it: "output throughput, tok/s". Returns `text`. */
enum { KVL_SWEEP_AXIS_TEXT = 128 };
const char *kvl_sweep_metric_text(char text[KVL_SWEEP_AXIS_TEXT], uint32_t metric);
const char *kvl_sweep_key_word(const char *key); /* its last word */

#endif
