/* Several runs beside each other, each with its difference against the first, and which keys are equal. */
#ifndef KVL_RESULTS_COMPARE_H
#define KVL_RESULTS_COMPARE_H

#include <stdio.h>

#include "results/summary.h"

/* 100 (value - first) / |first|; NaN when the first is 0 and the other is not. */
double kvl_compare_difference(double first, double value);
/* Whether all `count` summaries hold the same value of a key, to the last bit. */
int kvl_compare_equal(const struct kvl_summary *const *summaries, uint32_t count, uint32_t key);

/* The table for people: values as kvl_summary_write_many shows them, "=" where a run equals the first. count >= 2. */
void kvl_compare_write_table(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count);
/* Rows: key, unit, measured (differs from run to run by nature), equal, values, differences in %. TSV: columns value_1 .. value_N and
 * difference_percent_2 .. N; JSON: an array of objects with arrays "values" and "difference_percent" (null: no ratio to 0). */
void kvl_compare_write_tsv(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count);
void kvl_compare_write_json(FILE *out, const struct kvl_summary *const *summaries, uint32_t count, const char *indent);

#endif
