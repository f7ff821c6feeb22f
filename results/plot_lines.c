/* Picture: metrics over one key of a sweep. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/plot_sweep.h"
#include "results/text.h"

#define NONE UINT32_MAX

struct lines {
  const struct kvl_sweep_table *table;
  struct kvl_sweep_axis_values x, series;
  uint32_t x_key, by_key; /* by_key: NONE when there is one line */
  uint32_t metric[KVL_PLOT_LINES_PANELS_MAX], metrics;
  uint32_t *cell; /* series x x.count */
  int log_x, intervals;
};

static double x_at(const struct lines *l, uint32_t i)
{
  return l->x.numeric ? l->x.number[i] : i;
}

static void write_numbers(FILE *out, const struct lines *l)
{
  char text[KVL_TEXT_NUMBER_MAX];
  (void)fprintf(out, "series_index\tx\t%s\tseries", l->table->key[l->x_key]);
  for (uint32_t m = 0; m < l->metrics; m++) {
    const char *name = kvl_summary_key_at(l->metric[m])->name;
    (void)fprintf(out, "\t%s\t%s.low_95\t%s.high_95", name, name, name);
  }
  (void)fputs("\tpoint\tvalues\truns\n", out);
  for (uint32_t s = 0; s < l->series.count; s++) {
    for (uint32_t i = 0; i < l->x.count; i++) {
      uint32_t point = l->cell[(size_t)s * l->x.count + i];
      if (point == NONE || kvl_sweep_cell(l->table, point, l->metric[0]).count == 0) {
        continue;
      }
      (void)fprintf(out, "%u\t%s\t", (unsigned)s, kvl_text_double(text, x_at(l, i)));
      kvl_text_tsv_cell(out, l->x.text[i]);
      (void)fputc('\t', out);
      kvl_text_tsv_cell(out, l->by_key == NONE ? "" : l->series.text[s]);
      for (uint32_t m = 0; m < l->metrics; m++) {
        struct kvl_sweep_cell cell = kvl_sweep_cell(l->table, point, l->metric[m]);
        double half = cell.count > 1 ? cell.half : 0;
        (void)fprintf(out, "\t%s", kvl_text_double(text, cell.mean));
        (void)fprintf(out, "\t%s", kvl_text_double(text, cell.mean - half));
        (void)fprintf(out, "\t%s", kvl_text_double(text, cell.mean + half));
      }
      kvl_sweep_put_traces(out, l->table, point);
      (void)fputc('\n', out);
    }
  }
}

static void style_text(const struct lines *l, uint32_t s, int bars, char *text, size_t size)
{
  int modes = l->by_key != NONE && strcmp(l->table->key[l->by_key], "mode") == 0;
  struct kvl_plot_style style = modes ? kvl_plot_style_of_mode(l->series.text[s], s) : kvl_plot_style_at(s);
  if (bars) {
    (void)snprintf(text, size, "yerrorbars linewidth 1.2 pointtype 0 linecolor rgb '%s'", style.colour);
  } else {
    (void)snprintf(text, size, "linespoints linewidth 2 pointtype %d pointsize 0.8 linecolor rgb '%s'", style.point, style.colour);
  }
}

/* The best point of the first metric that reads best when high (or low, for times). */
static void write_title(const struct lines *l, char *text, size_t size)
{
  const char *name = kvl_summary_key_at(l->metric[0])->name;
  int low_is_best = strncmp(name, "ttft", 4) == 0 || strncmp(name, "tpot", 4) == 0 || strncmp(name, "e2e", 3) == 0 || strncmp(name, "step_", 5) == 0 ||
                    strncmp(name, "stall", 5) == 0;
  double best = NAN;
  uint32_t at = 0, of = 0;
  for (uint32_t s = 0; s < l->series.count; s++) {
    for (uint32_t i = 0; i < l->x.count; i++) {
      uint32_t point = l->cell[(size_t)s * l->x.count + i];
      struct kvl_sweep_cell cell = point == NONE ? (struct kvl_sweep_cell){.count = 0} : kvl_sweep_cell(l->table, point, l->metric[0]);
      if (cell.count > 0 && (isnan(best) || (low_is_best ? cell.mean < best : cell.mean > best))) {
        best = cell.mean;
        at = i;
        of = s;
      }
    }
  }
  char number[KVL_TEXT_NUMBER_MAX], metric[KVL_SWEEP_AXIS_TEXT];
  (void)kvl_sweep_metric_text(metric, l->metric[0]);
  const char *by = l->by_key == NONE ? "" : kvl_sweep_key_word(l->table->key[l->by_key]);
  int named = by[0] != '\0' && strcmp(by, "mode") != 0;
  (void)snprintf(text, size, "%s %s: %s at %s %.24s%s%s%s%.24s", low_is_best ? "Lowest" : "Highest", metric, kvl_text_human(number, best, 0),
                 kvl_sweep_key_word(l->table->key[l->x_key]), l->x.text[at], by[0] == '\0' ? "" : ", ", named ? by : "", named ? " " : "",
                 by[0] == '\0' ? "" : l->series.text[of]);
  if (kvl_text_columns(text) > KVL_PLOT_TITLE_MAX) {
    (void)snprintf(text, size, "%.60s over %.30s", metric, l->table->key[l->x_key]);
  }
}

static void write_x(FILE *script, const struct lines *l)
{
  double low = x_at(l, 0), high = x_at(l, l->x.count - 1);
  const char *separator = "";
  (void)fputs("set xtics (", script);
  double last = 0;
  for (uint32_t i = 0; i < l->x.count; i++) { /* every value, as far as the labels do not touch */
    double at = l->log_x ? log(x_at(l, i)) : x_at(l, i), span = l->log_x ? log(high / low) : high - low;
    if (i == 0 || !(span > 0) || at - last > span / 7) {
      (void)fputs(separator, script);
      kvl_plot_quote(script, l->x.text[i]);
      (void)fprintf(script, " %.9g", x_at(l, i));
      separator = ", ";
      last = at;
    }
  }
  (void)fputs(")\n", script);
  if (l->log_x) {
    (void)fprintf(script, "set logscale x 2\nset xrange [%.9g:%.9g]\n", low / pow(high / low, 0.06), high * pow(high / low, 0.06));
  } else {
    double margin = high > low ? 0.06 * (high - low) : 0.5;
    (void)fprintf(script, "set xrange [%.9g:%.9g]\n", low - margin, high + margin);
  }
}

static void write_script(FILE *script, const char *numbers, const void *context)
{
  const struct lines *l = context;
  char title[384], style[160], metric[KVL_SWEEP_AXIS_TEXT];
  int legend = l->by_key != NONE;
  write_title(l, title, sizeof title);
  (void)fputs("set multiplot\nset label 1 ", script);
  kvl_plot_quote(script, title);
  (void)fprintf(script, " at screen 0.01, screen 0.95 left font ',14'\nset tmargin at screen 0.81\nset bmargin at screen %s\nset xlabel ", legend ? "0.23" : "0.16");
  kvl_plot_quote(script, l->table->key[l->x_key]);
  (void)fputs(" offset 0,0.4\nunset key\n", script);
  write_x(script, l);
  for (uint32_t m = 0; m < l->metrics; m++) {
    double width = 1.0 / l->metrics, left = 0.075 + (width - 0.005) * m, right = left + width - 0.09;
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < (size_t)l->series.count * l->x.count; i++) {
      struct kvl_sweep_cell cell = l->cell[i] == NONE ? (struct kvl_sweep_cell){.count = 0} : kvl_sweep_cell(l->table, l->cell[i], l->metric[m]);
      low = cell.count > 0 && cell.mean < low ? cell.mean : low;
      high = cell.count > 0 && cell.mean > high ? cell.mean : high;
    }
    (void)fprintf(script, "set lmargin at screen %.3f\nset rmargin at screen %.3f\nset title ", left, right);
    kvl_plot_quote(script, kvl_sweep_metric_text(metric, l->metric[m]));
    (void)fputs(" offset 0,-0.4\n", script);
    if (low > 0 && high > 20 * low) {
      kvl_plot_log_axis(script, 'y', low, high);
    } else {
      (void)fputs("unset logscale y\nset offsets 0, 0, graph 0.08, 0\nset ytics autofreq\nset yrange [0:*]\n", script);
    }
    const char *separator = "plot ";
    for (uint32_t s = 0; s < l->series.count; s++) {
      for (int bars = l->intervals; bars >= 0; bars--) {
        unsigned column = 5 + 3 * m;
        (void)fputs(separator, script);
        kvl_plot_quote_path(script, numbers);
        style_text(l, s, bars, style, sizeof style);
        (void)fprintf(script, " skip 1 using ($1==%u?$2:NaN):%u", (unsigned)s, column);
        if (bars) {
          (void)fprintf(script, ":%u:%u", column + 1, column + 2);
        }
        (void)fprintf(script, " with %s notitle", style);
        separator = ", ";
      }
    }
    (void)fputs("\nunset label 1\n", script);
  }
  if (legend) {
    (void)fputs("set key\n", script);
    kvl_plot_legend_begin(script, 1, 0.09);
    for (uint32_t s = 0; s < l->series.count; s++) {
      char entry[KVL_SWEEP_VALUE_TEXT + 64];
      const char *key = l->table->key[l->by_key];
      style_text(l, s, 0, style, sizeof style);
      (void)snprintf(entry, sizeof entry, strcmp(key, "mode") == 0 ? "%.0s%s" : "%.60s %s", kvl_sweep_key_word(key), l->series.text[s]);
      kvl_plot_legend_entry(script, s, style, entry);
    }
    kvl_plot_legend_end(script);
  }
  (void)fputs("unset multiplot\n", script);
}

static int place(struct lines *l, const uint32_t *point, uint32_t points, struct kvl_err *err)
{
  for (size_t i = 0; i < (size_t)l->series.count * l->x.count; i++) {
    l->cell[i] = NONE;
  }
  for (uint32_t i = 0; i < points; i++) {
    char x[KVL_SWEEP_VALUE_TEXT], by[KVL_SWEEP_VALUE_TEXT];
    const char *const *value = (const char *const *)&l->table->value[(size_t)point[i] * l->table->keys];
    uint32_t s = l->by_key == NONE ? 0 : kvl_sweep_axis_find(&l->series, kvl_sweep_value_text(by, value[l->by_key]));
    uint32_t *cell = &l->cell[(size_t)s * l->x.count + kvl_sweep_axis_find(&l->x, kvl_sweep_value_text(x, value[l->x_key]))];
    if (*cell != NONE) {
      return kvl_sweep_ambiguous(l->table, *cell, point[i], err);
    }
    *cell = point[i];
  }
  return 0;
}

int kvl_plot_lines(const struct kvl_plot *plot, const struct kvl_sweep_table *table, const uint32_t *asked, uint32_t asked_count, uint32_t x, uint32_t by,
                   const uint32_t *metric, uint32_t metrics, struct kvl_err *err)
{
  struct lines l = {.table = table, .x_key = x, .by_key = by, .metrics = metrics, .intervals = table->repeats > 1};
  struct kvl_plot_numbers numbers;
  if (metrics == 0 || metrics > KVL_PLOT_LINES_PANELS_MAX || x == by) {
    return x == by ? kvl_err_set(err, -EINVAL, "--x and --by are the same key, %s", table->key[x])
                   : kvl_err_set(err, -EINVAL, "lines are drawn of one to %d metrics, not of %u", (int)KVL_PLOT_LINES_PANELS_MAX, (unsigned)metrics);
  }
  memcpy(l.metric, metric, metrics * sizeof *metric);
  uint32_t *point = calloc(asked_count + 1u, sizeof *point), points = 0;
  int code = point == NULL ? -ENOMEM : kvl_sweep_live(table, asked, asked_count, point, &points, err);
  code = code != 0 ? code : kvl_sweep_axis_read(table, point, points, x, &l.x);
  if (code == 0 && by != NONE) {
    code = kvl_sweep_axis_read(table, point, points, by, &l.series);
  } else if (code == 0) {
    l.series.count = 1;
  }
  if (code == 0 && l.series.count > KVL_PLOT_SERIES_MAX) {
    code = kvl_err_set(err, -EINVAL, "up to %d lines are told apart; %s has %u values: --where leaves fewer", (int)KVL_PLOT_SERIES_MAX, table->key[by],
                       (unsigned)l.series.count);
  } else if (code == 0) {
    l.cell = malloc((size_t)l.x.count * l.series.count * sizeof *l.cell);
    l.log_x = l.x.numeric && l.x.number[0] > 0 && l.x.number[l.x.count - 1] >= 8 * l.x.number[0];
    code = l.cell == NULL ? -ENOMEM : 0;
  }
  if (code == -ENOMEM) {
    (void)kvl_err_set(err, code, "out of memory");
  }
  code = code != 0 ? code : place(&l, point, points, err);
  code = code != 0 ? code : kvl_plot_numbers_begin(&numbers, plot, err);
  if (code == 0) {
    write_numbers(numbers.file, &l);
    code = kvl_plot_numbers_finish(&numbers, 0, err);
    code = code != 0 ? code : kvl_plot_draw(plot, 900, 380, numbers.path, write_script, &l, err);
    kvl_plot_numbers_free(&numbers);
  }
  free(point);
  free(l.cell);
  kvl_sweep_axis_free(&l.x);
  if (by != NONE) {
    kvl_sweep_axis_free(&l.series);
  }
  return code;
}
