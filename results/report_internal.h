/* Between the files of the report. */
#ifndef KVL_RESULTS_REPORT_INTERNAL_H
#define KVL_RESULTS_REPORT_INTERNAL_H

#include "results/report.h"

enum kvl_report_block_kind {
  KVL_BLOCK_SECTION, /* title */
  KVL_BLOCK_FOLD,    /* title */
  KVL_BLOCK_LEAD,    /* text */
  KVL_BLOCK_TEXT,
  KVL_BLOCK_NOTE,
  KVL_BLOCK_CODE,
  KVL_BLOCK_NUMBER,  /* label, value, unit, remark */
  KVL_BLOCK_TABLE,   /* align, then the columns' names */
  KVL_BLOCK_ROW,     /* cells */
  KVL_BLOCK_PICTURE  /* title, see, wide SVG, narrow SVG (clean already), then label, colour and dash of each key */
};

struct kvl_report_block {
  enum kvl_report_block_kind kind;
  uint32_t count;
  char **text; /* `count` of them; NULL: nothing there */
};

struct kvl_report {
  char *kind, *title, *subtitle;
  struct kvl_report_block *block;
  uint32_t blocks, capacity;
  uint32_t pictures;
  uint32_t columns; /* of the last table */
  int no_gnuplot;   /* said already */
  int status;       /* -ENOMEM once memory was short */
};

/* Appends a block whose `count` texts are copied. */
void kvl_report_append(struct kvl_report *report, enum kvl_report_block_kind kind, const char *const *text, uint32_t count);

/* report_svg.c: gnuplot's SVG made fit to stand in a page: no prolog, no size of its own, ids that begin with `prefix`, colours as "#rrggbb". `label` is
 * what a screen reader says. NULL: no memory, or not an SVG. */
char *kvl_report_svg(const char *raw, const char *prefix, const char *label);

/* report_html.c */
void kvl_report_escape(FILE *out, const char *text); /* for content and double-quoted attributes; control characters become blanks */
void kvl_report_style(FILE *out);                    /* the style sheet */

#endif
