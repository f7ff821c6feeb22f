/* How an explanation is printed. */
#ifndef KVL_SIM_EXPLAIN_WRITE_H
#define KVL_SIM_EXPLAIN_WRITE_H

#include <stdio.h>

#include "sim/explain.h"

/* `what_if` may be NULL: the facts alone. Output errors: ferror(out). TSV: rows of part, item, key, value, unit. */
void kvl_explain_write(FILE *out, enum kvl_format format, const struct kvl_explain_facts *facts, const struct kvl_what_if *what_if);

/* "bound", "setting", "hardware", "base". */
const char *kvl_try_kind_name(enum kvl_try_kind kind);
/* The columns of the table of re-runs, shared with the report: name, unit, value. */
enum { KVL_TRY_COLUMNS = 5 };
struct kvl_try_column {
  const char *name, *key, *unit;
};
extern const struct kvl_try_column kvl_try_columns[KVL_TRY_COLUMNS];
double kvl_try_value(const struct kvl_summary *summary, uint32_t column);
/* "+3.2 %", "a trade: +3.2 %, loses 5.1 %", or why it did not run. */
enum { KVL_TRY_VERDICT_MAX = 480 };
const char *kvl_try_verdict(char text[KVL_TRY_VERDICT_MAX], const struct kvl_what_if *what_if, uint32_t index);
/* What the link's bytes were for. */
struct kvl_link_part {
  const char *name, *key;
  uint64_t bytes;
};
enum { KVL_LINK_PARTS = 5 };
void kvl_explain_link(const struct kvl_explain_facts *facts, struct kvl_link_part parts[KVL_LINK_PARTS]);

#endif
