#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/rows.h"
#include "results/text.h"
#include "sim/sensitivity.h"

enum { KEY_COLUMNS = 46, VALUE_COLUMNS = 18, EFFECT_COLUMNS = 21, HEAD = 7, EACH = 5 };

static const char *const headline_names[KVL_HEADLINES] = {"output tok/s", "first token p90", "request rate p10", "per token p90"};

/* Two places, or one digit of what is smaller than a tenth. */
static const char *percent_text(char text[24], double value, bool sign)
{
  bool small = fabs(value) < 0.095;
  (void)snprintf(text, 24, sign ? small ? "%+.1g" : "%+.2f" : small ? "%.1g" : "%.2f", value);
  return text;
}

/* "-3.2 +- 0.4 ~" */
static void effect_text(char text[64], const struct kvl_effect *e)
{
  char effect[24], half[24];
  if (e->delta == 0.0 && !(e->half > 0.0)) {
    (void)snprintf(text, 64, "0  ");
  } else if (isnan(e->percent)) {
    (void)snprintf(text, 64, "from 0  ");
  } else if (isnan(e->half)) {
    (void)snprintf(text, 64, "%s  ", percent_text(effect, e->percent, true));
  } else {
    (void)snprintf(text, 64, "%s +- %s%s", percent_text(effect, e->percent, true), percent_text(half, fabs(e->half_percent), false), e->inside ? " ~" : "  ");
  }
}

static void write_idle(FILE *out, const struct kvl_sensitivity *s)
{
  if (s->idle > 0) {
    (void)fprintf(out, "\n%u more in doubt %s left out, being 0 or without another value; --keys=KEY=LOW:HIGH varies one\n", (unsigned)s->idle,
                  s->idle == 1 ? "is" : "are");
  }
}

static void write_heads(FILE *out, const struct kvl_sensitivity *s, uint32_t repeats)
{
  char text[KVL_TEXT_NUMBER_MAX], cell[100], half[KVL_TEXT_NUMBER_MAX];
  (void)fprintf(out, "%4s  %-*s%-*s", "rank", KEY_COLUMNS, "key", VALUE_COLUMNS, "value");
  for (unsigned h = 0; h < KVL_HEADLINES; h++) {
    (void)fprintf(out, "%*s  ", EFFECT_COLUMNS - 2, headline_names[h]);
  }
  (void)fprintf(out, "\n%4s  %-*s%-*s", "", KEY_COLUMNS, "as it is", VALUE_COLUMNS, "");
  for (unsigned h = 0; h < KVL_HEADLINES; h++) {
    const char *unit = kvl_summary_key_at(kvl_headline(h))->unit;
    if (repeats > 1) {
      (void)snprintf(cell, sizeof cell, "%s +- %s %s", kvl_text_human(text, s->base[h], 0), kvl_text_human(half, s->base_half[h], 0), h == 0 ? "" : unit);
    } else {
      (void)snprintf(cell, sizeof cell, "%s %s", kvl_text_human(text, s->base[h], 0), h == 0 ? "" : unit);
    }
    size_t n = strlen(cell);
    while (n > 0 && cell[n - 1] == ' ') {
      cell[--n] = '\0';
    }
    (void)fprintf(out, " %*s  ", EFFECT_COLUMNS - 3, cell);
  }
  (void)fputc('\n', out);
}

static void write_table(FILE *out, const char *title, const struct kvl_sensitivity *s, uint32_t repeats, uint64_t seed, double confidence)
{
  char number[KVL_TEXT_NUMBER_MAX], text[64];
  bool any_inside = false;
  (void)fprintf(out, "%s: %u number%s calibrated or open, each moved by itself\n", title, (unsigned)s->count, s->count == 1 ? " that is" : "s that are");
  (void)fprintf(out, "%u run%s of each value, seed%s %" PRIu64, (unsigned)repeats, kvl_text_s(repeats), kvl_text_s(repeats), seed);
  if (repeats > 1) {
    (void)fprintf(out, " to %" PRIu64 "; effects in %% of the base, +- the %s %% interval of the differences seed by seed", seed + repeats - 1,
                  kvl_text_double(number, 100.0 * confidence));
  } else {
    (void)fputs("; effects in % of the base; the noise is not known (--repeats=3 tells)", out);
  }
  (void)fputs("\n\n", out);
  write_heads(out, s, repeats);
  for (uint32_t i = 0; i < s->count; i++) {
    const struct kvl_vary *v = &s->item[i];
    char why[140];
    (void)snprintf(why, sizeof why, "  %s%s%s%s (%s%s)", v->base, v->unit[0] != '\0' ? " " : "", v->unit, "", v->why, v->stated ? ", given range" : "");
    for (uint32_t n = 0; n < v->values || n < 2; n++) {
      if (n == 0) {
        (void)fprintf(out, "%4u  ", (unsigned)i + 1);
      } else {
        (void)fputs("      ", out);
      }
      kvl_text_pad(out, n == 0 ? v->key : n == 1 ? why : "", KEY_COLUMNS, 0);
      if (n >= v->values) {
        (void)fputs("\n", out);
        continue;
      }
      const struct kvl_vary_value *value = &v->value[n];
      (void)fputc(' ', out);
      kvl_text_pad(out, value->label, VALUE_COLUMNS - 1, 0);
      for (unsigned h = 0; h < KVL_HEADLINES && value->known; h++) {
        effect_text(text, &value->effect[h]);
        any_inside = any_inside || (value->effect[h].inside && strchr(text, '~') != NULL);
        (void)fprintf(out, "%*s", EFFECT_COLUMNS, text);
      }
      (void)fprintf(out, "%s%s\n", value->known ? "" : "failed: ", value->known ? "" : value->reason);
    }
  }
  if (any_inside) {
    (void)fputs("\n~ inside the noise: the interval holds 0\n", out);
  }
  write_idle(out, s);
}

/* An interval to nine digits: its last ones are those of a library's logarithm, not of the runs. */
static double nine(double value)
{
  char text[40];
  (void)snprintf(text, sizeof text, "%.9g", value);
  return isnan(value) ? value : strtod(text, NULL);
}

static void rows_effect(struct kvl_rows *rows, const struct kvl_vary_value *value, unsigned h)
{
  const struct kvl_effect *e = &value->effect[h];
  if (!value->known) {
    for (int i = 0; i < EACH; i++) {
      kvl_rows_text(rows, NULL);
    }
    return;
  }
  kvl_rows_number(rows, value->mean[h]);
  kvl_rows_number(rows, e->delta);
  kvl_rows_number(rows, nine(e->half));
  kvl_rows_number(rows, e->percent);
  kvl_rows_flag(rows, e->inside);
}

static void rows_vary(struct kvl_rows *rows, uint64_t rank, const struct kvl_vary *v, const char *label)
{
  kvl_rows_count(rows, rank);
  kvl_rows_text(rows, v == NULL ? NULL : v->key);
  kvl_rows_text(rows, v == NULL ? NULL : v->unit);
  kvl_rows_text(rows, v == NULL ? "base" : v->why);
  kvl_rows_text(rows, v == NULL || v->origin[0] == '\0' ? NULL : v->origin);
  kvl_rows_text(rows, v == NULL ? NULL : v->base);
  kvl_rows_text(rows, label);
}

static void write_rows(FILE *out, enum kvl_format format, const struct kvl_sensitivity *s)
{
  static const char *const head[HEAD] = {"rank", "key", "unit", "why", "origin", "base", "value"};
  static const char *const each[EACH] = {"mean", "effect", "half", "effect_percent", "inside_noise"};
  char names[KVL_HEADLINES * EACH][64];
  const char *columns[HEAD + KVL_HEADLINES * EACH + 1];
  uint32_t n = HEAD;
  struct kvl_rows rows;
  memcpy(columns, head, sizeof head);
  for (unsigned h = 0; h < KVL_HEADLINES; h++) {
    for (unsigned e = 0; e < EACH; e++) {
      (void)snprintf(names[h * EACH + e], sizeof names[0], "%s.%s", kvl_summary_key_at(kvl_headline(h))->name, each[e]);
      columns[n++] = names[h * EACH + e];
    }
  }
  columns[n++] = "reason";
  kvl_rows_begin(&rows, out, format, columns, n);
  rows_vary(&rows, 0, NULL, NULL);
  for (unsigned h = 0; h < KVL_HEADLINES; h++) {
    kvl_rows_number(&rows, s->base[h]);
    kvl_rows_number(&rows, 0.0);
    kvl_rows_number(&rows, nine(s->base_half[h]));
    kvl_rows_number(&rows, 0.0);
    kvl_rows_text(&rows, NULL);
  }
  kvl_rows_text(&rows, NULL);
  for (uint32_t i = 0; i < s->count; i++) {
    for (uint32_t v = 0; v < s->item[i].values; v++) {
      const struct kvl_vary_value *value = &s->item[i].value[v];
      rows_vary(&rows, i + 1, &s->item[i], value->label);
      for (unsigned h = 0; h < KVL_HEADLINES; h++) {
        rows_effect(&rows, value, h);
      }
      kvl_rows_text(&rows, value->known ? NULL : value->reason);
    }
  }
  kvl_rows_end(&rows);
}

void kvl_sensitivity_write(FILE *out, enum kvl_format format, const char *title, const struct kvl_sensitivity *s, uint32_t repeats, uint64_t seed,
                           double confidence)
{
  if (format == KVL_FORMAT_TABLE) {
    write_table(out, title, s, repeats, seed, confidence);
  } else {
    write_rows(out, format, s);
  }
}

void kvl_sensitivity_list(FILE *out, enum kvl_format format, const struct kvl_sensitivity *s)
{
  static const char *const columns[] = {"key", "unit", "why", "base", "value", "origin"};
  struct kvl_rows rows;
  if (format != KVL_FORMAT_TABLE) {
    kvl_rows_begin(&rows, out, format, columns, sizeof columns / sizeof columns[0]);
  }
  for (uint32_t i = 0; i < s->count; i++) {
    const struct kvl_vary *v = &s->item[i];
    for (uint32_t n = 0; n < v->values && format != KVL_FORMAT_TABLE; n++) {
      kvl_rows_text(&rows, v->key);
      kvl_rows_text(&rows, v->unit);
      kvl_rows_text(&rows, v->why);
      kvl_rows_text(&rows, v->base);
      kvl_rows_text(&rows, v->value[n].label);
      kvl_rows_text(&rows, v->origin[0] != '\0' ? v->origin : NULL);
    }
    if (format == KVL_FORMAT_TABLE) {
      kvl_text_pad(out, v->key, KEY_COLUMNS, 0);
      kvl_text_pad(out, v->base, VALUE_COLUMNS, 0);
      (void)fputs("->", out);
      for (uint32_t n = 0; n < v->values; n++) {
        (void)fprintf(out, "%s %s", n > 0 ? "," : "", v->value[n].label);
      }
      (void)fprintf(out, " %s (%s%s)\n", v->unit, v->origin[0] != '\0' ? v->origin : v->why, v->stated ? "; given range" : "");
    }
  }
  if (format != KVL_FORMAT_TABLE) {
    kvl_rows_end(&rows);
  } else {
    write_idle(out, s);
  }
}
