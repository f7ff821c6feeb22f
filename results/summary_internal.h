/* Shared by the files that print summaries. */
#ifndef KVL_RESULTS_SUMMARY_INTERNAL_H
#define KVL_RESULTS_SUMMARY_INTERNAL_H

#include "results/summary.h"
#include "results/text.h"

/* Where a key stands in tables: "Latency", "first token p90". */
const char *kvl_summary_group(uint32_t index);
const char *kvl_summary_label(uint32_t index);

enum { KVL_GROUP_COLUMNS = 12, KVL_LABEL_COLUMNS = 26, KVL_UNIT_COLUMNS = 10 };
/* The group's name in front of its first key, blanks in front of the others. */
void kvl_summary_group_column(FILE *out, uint32_t index);

/* Of a mechanism (speculation, prefetch) that none of the runs used: tables leave its keys out. */
int kvl_summary_is_idle(const struct kvl_summary *const *summaries, uint32_t count, uint32_t index);

/* The run has no such number, and 0 stands for that: the steady window's output where there is no window. Tables have "-"; JSON, TSV and stores the 0. */
int kvl_summary_is_none(const struct kvl_summary *summary, uint32_t index);

/* The value that `relative` shows below, as a number. */
double kvl_summary_relative(const struct kvl_summary *summary, uint32_t index);

/* One cell as people read it, and the unit that goes with it. With `relative`, tiers are a share of all selections and times are milliseconds a
 * decode step: what can be compared between runs. Returns `text`. */
const char *kvl_summary_cell(char text[KVL_TEXT_NUMBER_MAX], const struct kvl_summary *summary, uint32_t index, int relative, const char **unit);

#endif
