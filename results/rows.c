#include "results/rows.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "results/text.h"

void kvl_rows_begin(struct kvl_rows *rows, FILE *out, enum kvl_format format, const char *const *columns, uint32_t column_count)
{
  *rows = (struct kvl_rows){out, format, columns, column_count, 0, 0};
  if (format == KVL_FORMAT_JSON) {
    (void)fputc('[', out);
    return;
  }
  for (uint32_t c = 0; c < column_count; c++) {
    (void)fprintf(out, "%s%s", c == 0 ? "" : "\t", columns[c]);
  }
  (void)fputc('\n', out);
}

static void before_cell(struct kvl_rows *rows)
{
  if (rows->format != KVL_FORMAT_JSON) {
    (void)fputs(rows->column == 0 ? "" : "\t", rows->out);
    return;
  }
  if (rows->column == 0) {
    (void)fputs(rows->row == 0 ? "\n  {" : ",\n  {", rows->out);
  }
  (void)fprintf(rows->out, "%s\"%s\": ", rows->column == 0 ? "" : ", ", rows->columns[rows->column]);
}

static void after_cell(struct kvl_rows *rows)
{
  if (++rows->column < rows->column_count) {
    return;
  }
  (void)fputs(rows->format == KVL_FORMAT_JSON ? "}" : "\n", rows->out);
  rows->column = 0;
  rows->row++;
}

void kvl_rows_raw(struct kvl_rows *rows, const char *text)
{
  before_cell(rows);
  (void)fputs(rows->format != KVL_FORMAT_JSON && strcmp(text, "null") == 0 ? "" : text, rows->out);
  after_cell(rows);
}

void kvl_rows_count(struct kvl_rows *rows, uint64_t value)
{
  char text[KVL_TEXT_NUMBER_MAX];
  (void)snprintf(text, sizeof text, "%" PRIu64, value);
  kvl_rows_raw(rows, value == UINT64_MAX ? "null" : text);
}

void kvl_rows_number(struct kvl_rows *rows, double value)
{
  char text[KVL_TEXT_NUMBER_MAX];
  kvl_rows_raw(rows, kvl_text_double(text, value));
}

void kvl_rows_flag(struct kvl_rows *rows, int value)
{
  kvl_rows_raw(rows, value ? "true" : "false");
}

void kvl_rows_text(struct kvl_rows *rows, const char *text)
{
  before_cell(rows);
  if (rows->format == KVL_FORMAT_JSON) {
    kvl_text_json_string(rows->out, text);
  } else {
    kvl_text_tsv_cell(rows->out, text);
  }
  after_cell(rows);
}

void kvl_rows_end(struct kvl_rows *rows)
{
  assert(rows->column == 0);
  if (rows->format == KVL_FORMAT_JSON) {
    (void)fputs(rows->row == 0 ? "]\n" : "\n]\n", rows->out);
  }
}
