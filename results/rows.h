/* A table of rows as TSV (a header line, then cells) or JSON (an array of objects): one writer, so that both always hold the same. */
#ifndef KVL_RESULTS_ROWS_H
#define KVL_RESULTS_ROWS_H

#include <stdint.h>
#include <stdio.h>

#include "results/summary.h"

struct kvl_rows {
  FILE *out;
  enum kvl_format format; /* TSV or JSON */
  const char *const *columns;
  uint32_t column_count, column;
  uint64_t row;
};

void kvl_rows_begin(struct kvl_rows *rows, FILE *out, enum kvl_format format, const char *const *columns, uint32_t column_count);
/* The next cell; a row begins with its first column and ends with its last. UINT64_MAX, NaN and NULL are "not there": null, or an empty cell. */
void kvl_rows_count(struct kvl_rows *rows, uint64_t value);
void kvl_rows_number(struct kvl_rows *rows, double value);
void kvl_rows_text(struct kvl_rows *rows, const char *text);
void kvl_rows_flag(struct kvl_rows *rows, int value); /* true, false */
/* A number already written out, as kvl_summary_value_text does. */
void kvl_rows_raw(struct kvl_rows *rows, const char *text);
void kvl_rows_end(struct kvl_rows *rows);

#endif
