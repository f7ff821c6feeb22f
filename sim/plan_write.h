/* The answer of a plan for people and programs; made of its JSON, which a store keeps. */
#ifndef KVL_SIM_PLAN_WRITE_H
#define KVL_SIM_PLAN_WRITE_H

#include <stdio.h>

#include "results/summary.h"
#include "sim/scenario_json.h"

/* Table: what was asked, the answer, why, how sure, what to buy, flags. JSON: the text as it is. TSV: one row a value: key (parts and places joined by dots),
 * value. -ENOMEM, -EINVAL (not the answer of a plan). Output errors: ferror(out). */
int kvl_plan_write(FILE *out, enum kvl_format format, const char *answer, struct kvl_err *err);

/* Values of the tree; "a.b.0.c". NULL, NaN, "": there is none. */
const struct kvl_json *kvl_plan_part(const struct kvl_json *node, const char *path);
double kvl_plan_number(const struct kvl_json *node, const char *path);
const char *kvl_plan_word(const struct kvl_json *node, const char *path);
int kvl_plan_true(const struct kvl_json *node, const char *path);

/* A margin for people, "+12.5 %"; returns text. */
enum { KVL_PLAN_MARGIN_TEXT = 32 };
const char *kvl_plan_margin(char text[KVL_PLAN_MARGIN_TEXT], double percent);
/* What became of the candidates, in one line: the counts add up; returns text. */
const char *kvl_plan_fates(char *text, size_t size, const struct kvl_json *root);

#endif
