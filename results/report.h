/* A report: one self-contained HTML page that tells somebody who was not there what was asked, what the answer is, and why. No network, no script: a
 * browser is enough, a phone's will do, light or dark, and so will a printer.
 *
 * Sections are data. Whoever has something to tell (a run, a comparison, a sweep, a plan) appends headings, sentences, numbers, tables and pictures in
 * order, and writes the page once. All text is plain UTF-8 and escaped here, whoever it comes from: a scenario's name is anybody's text. The page has
 * nothing in it that changes from day to day: the same data gives the same bytes.
 *
 * Append calls copy what they are given. When memory is short the report remembers, and kvl_report_write says so: nothing else needs to be checked. */
#ifndef KVL_RESULTS_REPORT_H
#define KVL_RESULTS_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "backend/base/err.h"

#if defined(__GNUC__)
#define KVL_REPORT_PRINTF __attribute__((format(printf, 2, 3)))
#else
#define KVL_REPORT_PRINTF
#endif

struct kvl_report;

/* `kind` is a word on what this is ("Run", "Comparison"), `title` the heading, `subtitle` a line below it (may be NULL). NULL: no memory. */
struct kvl_report *kvl_report_create(const char *kind, const char *title, const char *subtitle);
void kvl_report_destroy(struct kvl_report *report); /* NULL is fine */

void kvl_report_section(struct kvl_report *report, const char *title);
void kvl_report_fold(struct kvl_report *report, const char *title); /* a section that is closed until somebody opens it; printed open */
void kvl_report_lead(struct kvl_report *report, const char *format, ...) KVL_REPORT_PRINTF; /* a sentence in large type: the answer */
void kvl_report_text(struct kvl_report *report, const char *format, ...) KVL_REPORT_PRINTF;
void kvl_report_note(struct kvl_report *report, const char *format, ...) KVL_REPORT_PRINTF; /* a caution, set apart */
void kvl_report_code(struct kvl_report *report, const char *text);                          /* verbatim */
/* A headline number; those that follow one another stand side by side. `remark` may be NULL. */
void kvl_report_number(struct kvl_report *report, const char *label, const char *value, const char *unit, const char *remark);
/* A table of `count` columns (up to KVL_REPORT_COLUMNS_MAX); `align` has a letter for each: l or r. Rows follow; a cell may be NULL. */
enum { KVL_REPORT_COLUMNS_MAX = 64 };
void kvl_report_table(struct kvl_report *report, const char *const *columns, uint32_t count, const char *align);
void kvl_report_row(struct kvl_report *report, const char *const *cells);

/* A picture, drawn twice: for a desk and for a phone. */
struct kvl_report_key {      /* one entry of its legend */
  const char *label, *colour; /* a colour of kvl_report_colour */
  int dash;                  /* 0: an area; 1: a solid line; 2 and more: as in gnuplot; -1: a point */
};
struct kvl_report_picture {
  const char *title;
  const char *see;           /* what to see, in a sentence or two */
  const struct kvl_report_key *key;
  uint32_t keys;
  int wide_height, narrow_height; /* pixels at 860 and 360 of width; 0: 300 and 250 */
  /* Writes gnuplot's commands: labels with units, plot commands; terminal and style are set. No legend: the page has its own. */
  void (*write)(FILE *script, int narrow, const void *context);
  const void *context;
};
/* 0; -ENOENT: gnuplot is not installed (the page says so, once); -EIO: it failed. `gnuplot`: program, NULL: "gnuplot". */
int kvl_report_draw(struct kvl_report *report, const char *gnuplot, const struct kvl_report_picture *picture, struct kvl_err *err);

/* Colours that the page knows, light and dark. Pictures use them and no others: 0 .. KVL_REPORT_COLOURS - 1 for series. */
enum { KVL_REPORT_COLOURS = 10 };
const char *kvl_report_colour(uint32_t index);

/* The page. 0, -ENOMEM (memory was short in an earlier call), -EIO (`out` says so). */
int kvl_report_write(const struct kvl_report *report, FILE *out);

#endif
