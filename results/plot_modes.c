/* Picture: the modes side by side over concurrency. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/text.h"

enum { MODES_MAX = KVL_PLOT_RUNS_MAX, POINTS_MAX = 256, PANELS = 3 };

struct modes {
  const char *mode[MODES_MAX];
  uint32_t mode_count;
  int64_t concurrency[POINTS_MAX]; /* ascending */
  uint32_t point_count;
  const struct kvl_stored_run *run[POINTS_MAX][MODES_MAX]; /* NULL: not run */
};

static const struct {
  const char *key, *axis;
} panels[PANELS] = {
  {"output_throughput_tok_per_s", "output throughput, tok/s"},
  {"request_rate_tok_per_s_p50", "rate of one request (p50), tok/s"},
  {"ttft_s_p90", "time to first token (p90), s"},
};

static double panel_value(const struct kvl_stored_run *run, int panel)
{
  const struct kvl_summary *s = &run->summary;
  return panel == 0 ? s->output_throughput_tok_per_s : panel == 1 ? s->request_rate_tok_per_s_p50 : s->ttft_s.p90;
}

static int find_mode(struct modes *m, const char *mode)
{
  for (uint32_t i = 0; i < m->mode_count; i++) {
    if (strcmp(m->mode[i], mode) == 0) {
      return (int)i;
    }
  }
  if (m->mode_count == MODES_MAX) {
    return -1;
  }
  m->mode[m->mode_count] = mode;
  return (int)m->mode_count++;
}

/* Position of a concurrency, which is put in order when it is new; -1 when there are too many. */
static int find_point(struct modes *m, int64_t concurrency)
{
  uint32_t at = 0;
  while (at < m->point_count && m->concurrency[at] < concurrency) {
    at++;
  }
  if (at < m->point_count && m->concurrency[at] == concurrency) {
    return (int)at;
  }
  if (m->point_count == POINTS_MAX) {
    return -1;
  }
  memmove(&m->concurrency[at + 1], &m->concurrency[at], (m->point_count - at) * sizeof m->concurrency[0]);
  memmove(m->run[at + 1], m->run[at], (m->point_count - at) * sizeof m->run[0]);
  memset(m->run[at], 0, sizeof m->run[0]);
  m->concurrency[at] = concurrency;
  m->point_count++;
  return (int)at;
}

static void write_numbers(FILE *out, const struct modes *m)
{
  (void)fputs("concurrency", out);
  for (uint32_t i = 0; i < m->mode_count; i++) {
    (void)fputs("\trun: ", out);
    kvl_text_tsv_cell(out, m->mode[i]);
    for (int p = 0; p < PANELS; p++) {
      (void)fprintf(out, "\t%s: ", panels[p].key);
      kvl_text_tsv_cell(out, m->mode[i]);
    }
  }
  (void)fputc('\n', out);
  for (uint32_t c = 0; c < m->point_count; c++) {
    (void)fprintf(out, "%" PRId64, m->concurrency[c]);
    for (uint32_t i = 0; i < m->mode_count; i++) {
      const struct kvl_stored_run *run = m->run[c][i];
      char text[KVL_TEXT_NUMBER_MAX];
      if (run == NULL) {
        (void)fputs("\t\t\t\t", out);
        continue;
      }
      (void)fprintf(out, "\t%" PRId64, run->id);
      for (int p = 0; p < PANELS; p++) {
        (void)fprintf(out, "\t%s", kvl_text_double(text, panel_value(run, p)));
      }
    }
    (void)fputc('\n', out);
  }
}

/* "Peak tok/s: resident 1,710 (at 64), adaptive 2,918 (at 256)" */
static void write_title(char *title, size_t size, const struct modes *m)
{
  (void)snprintf(title, size, "Peak tok/s:");
  for (uint32_t i = 0; i < m->mode_count; i++) {
    double best = -1.0;
    int64_t where = 0;
    for (uint32_t c = 0; c < m->point_count; c++) {
      if (m->run[c][i] != NULL && panel_value(m->run[c][i], 0) > best) {
        best = panel_value(m->run[c][i], 0);
        where = m->concurrency[c];
      }
    }
    size_t used = strlen(title);
    char number[KVL_TEXT_NUMBER_MAX];
    (void)snprintf(title + used, size - used, "%s %.24s %s (at %" PRId64 ")", i == 0 ? "" : ",", m->mode[i], kvl_text_human(number, best, 0), where);
  }
  if (kvl_text_columns(title) > KVL_PLOT_TITLE_MAX) {
    (void)snprintf(title, size, "Output, rate of each request and time to first token over concurrency");
  }
}

/* A logarithmic axis where the largest value is more than 20 times the smallest. */
static void write_axis(FILE *script, const struct modes *m, int panel)
{
  double low = INFINITY, high = 0.0;
  for (uint32_t c = 0; c < m->point_count; c++) {
    for (uint32_t i = 0; i < m->mode_count; i++) {
      if (m->run[c][i] != NULL) {
        double value = panel_value(m->run[c][i], panel);
        low = value < low ? value : low;
        high = value > high ? value : high;
      }
    }
  }
  if (low > 0.0 && high > 20.0 * low) {
    (void)fputs("set offsets graph 0.06, graph 0.06, 0, 0\n", script);
    kvl_plot_log_axis(script, 'y', low, high);
  } else {
    (void)fputs("unset logscale y\nset offsets graph 0.06, graph 0.06, graph 0.08, 0\nset ytics autofreq\nset yrange [0:*]\n", script);
  }
}

static void style_text(const struct modes *m, uint32_t mode, char *text, size_t size)
{
  struct kvl_plot_style style = kvl_plot_style_of_mode(m->mode[mode], mode);
  (void)snprintf(text, size, "linespoints linewidth 2 pointtype %d pointsize 0.9 linecolor rgb '%s'", style.point, style.colour);
}

static void write_script(FILE *script, const char *numbers, const void *context)
{
  const struct modes *m = context;
  char title[384];
  write_title(title, sizeof title, m);
  (void)fputs("set multiplot\nset label 1 ", script);
  kvl_plot_quote(script, title);
  (void)fputs(" at screen 0.01, screen 0.95 left font ',14'\nset tmargin at screen 0.81\nset bmargin at screen 0.23\n"
              "set logscale x 2\nset xlabel 'concurrent sessions' offset 0,0.4\nset xtics (", script);
  /* every concurrency that was run, as far as the labels do not touch */
  double labelled = 0.0;
  const char *separator = "";
  double span = m->point_count > 1 ? log2((double)m->concurrency[m->point_count - 1] / (double)m->concurrency[0]) : 1.0;
  for (uint32_t c = 0; c < m->point_count; c++) {
    double at = log2((double)m->concurrency[c]);
    if (c == 0 || at - labelled > span / 6.5) {
      (void)fprintf(script, "%s%" PRId64, separator, m->concurrency[c]);
      labelled = at;
      separator = ", ";
    }
  }
  (void)fputs(")\n", script);
  for (int p = 0; p < PANELS; p++) {
    double left = 0.075 + 0.335 * p;
    (void)fprintf(script, "set lmargin at screen %.3f\nset rmargin at screen %.3f\nset title '%s' offset 0,-0.4\n", left, left + 0.24,
                  panels[p].axis);
    write_axis(script, m, p);
    for (uint32_t i = 0; i < m->mode_count; i++) {
      char style[128];
      (void)fputs(i == 0 ? "plot " : ", ", script);
      kvl_plot_quote_path(script, numbers);
      style_text(m, i, style, sizeof style);
      (void)fprintf(script, " skip 1 using 1:%u with %s notitle", 3 + (PANELS + 1) * i + (unsigned)p, style);
    }
    (void)fputs("\nunset label 1\n", script);
  }
  kvl_plot_legend_begin(script, 1, 0.09);
  for (uint32_t i = 0; i < m->mode_count; i++) {
    char style[128];
    style_text(m, i, style, sizeof style);
    kvl_plot_legend_entry(script, i, style, m->mode[i]);
  }
  kvl_plot_legend_end(script);
  (void)fputs("unset multiplot\n", script);
}

int kvl_plot_modes(const struct kvl_plot *plot, const struct kvl_stored_run *const *runs, uint32_t count, uint32_t *left_out, struct kvl_err *err)
{
  struct modes *m = calloc(1, sizeof *m);
  if (m == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  uint32_t drawn = 0;
  int code = 0;
  /* the three modes first, in their order, whatever the order of the runs */
  static const char *const usual[] = {"resident", "fixed", "adaptive"};
  for (unsigned u = 0; u < 3; u++) {
    for (uint32_t r = 0; r < count; r++) {
      if (strcmp(runs[r]->mode, usual[u]) == 0 && runs[r]->has_summary && runs[r]->concurrency > 0) {
        (void)find_mode(m, usual[u]);
      }
    }
  }
  for (uint32_t r = 0; r < count && code == 0; r++) {
    if (!runs[r]->has_summary || runs[r]->concurrency <= 0) {
      continue;
    }
    int mode = find_mode(m, runs[r]->mode), point = find_point(m, runs[r]->concurrency);
    if (mode < 0 || point < 0) {
      code = kvl_err_set(err, -EINVAL, "modes draws up to %d modes and %d concurrencies", (int)MODES_MAX, (int)POINTS_MAX);
      break;
    }
    const struct kvl_stored_run **cell = &m->run[point][mode];
    if (*cell == NULL || runs[r]->id > (*cell)->id) {
      drawn += *cell == NULL;
      *cell = runs[r];
    }
  }
  if (code == 0 && drawn == 0) {
    code = kvl_err_set(err, -EINVAL, "none of the %u runs has a workload.concurrency and a summary to draw", count);
  }
  if (left_out != NULL) {
    *left_out = count - drawn;
  }
  struct kvl_plot_numbers numbers;
  code = code != 0 ? code : kvl_plot_numbers_begin(&numbers, plot, err);
  if (code == 0) {
    write_numbers(numbers.file, m);
    code = kvl_plot_numbers_finish(&numbers, 0, err);
    code = code != 0 ? code : kvl_plot_draw(plot, 900, 380, numbers.path, write_script, m, err);
    kvl_plot_numbers_free(&numbers);
  }
  free(m);
  return code;
}
