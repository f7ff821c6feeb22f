/* Picture: cumulative distributions of several runs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/text.h"

enum { QUANTILES = KVL_PLOT_QUANTILES }; /* half a percent each */
enum { PANEL_HEIGHT = 330, FOOT_HEIGHT = 66, LEGEND_HEIGHT = 21, LABEL_MAX = 44 }; /* pixels; bytes of a label in the legend */

struct values {
  double *item;
  size_t count, capacity;
};

enum { TTFT, RATE, KINDS };

struct distributions {
  struct values values[KVL_PLOT_RUNS_MAX][KINDS];
  const struct kvl_stored_run *const *runs;
  const char *const *labels;
  uint32_t count;
};

static int add_value(struct values *values, double value)
{
  if (values->count == values->capacity) {
    size_t capacity = values->capacity == 0 ? 1024 : values->capacity * 2;
    double *item = realloc(values->item, capacity * sizeof *item);
    if (item == NULL) {
      return -ENOMEM;
    }
    values->item = item;
    values->capacity = capacity;
  }
  values->item[values->count++] = value;
  return 0;
}

static int collect(void *context, const struct kvl_request_record *r)
{
  struct values *values = context;
  if (r->aborted || r->first_token_ns == UINT64_MAX || r->submit_ns == UINT64_MAX) {
    return 0;
  }
  int code = add_value(&values[TTFT], (double)(r->first_token_ns - r->submit_ns) / 1e9);
  if (code == 0 && r->last_token_ns != UINT64_MAX && r->output_tokens > 1 && r->last_token_ns > r->first_token_ns) {
    code = add_value(&values[RATE], (r->output_tokens - 1.0) * 1e9 / (double)(r->last_token_ns - r->first_token_ns));
  }
  return code;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Nearest rank; `values` is sorted. NaN when there are none. */
static double quantile(const struct values *values, uint32_t of_quantiles)
{
  if (values->count == 0) {
    return NAN;
  }
  size_t rank = (values->count * of_quantiles + QUANTILES - 1) / QUANTILES;
  return values->item[rank == 0 ? 0 : rank - 1];
}

int kvl_plot_quantiles(struct kvl_store *store, int64_t run, double ttft_s[KVL_PLOT_QUANTILES + 1], double rate_tok_per_s[KVL_PLOT_QUANTILES + 1],
                       struct kvl_err *err)
{
  struct values values[KINDS] = {{NULL, 0, 0}, {NULL, 0, 0}};
  int code = kvl_store_each_request(store, run, collect, values, err);
  if (code == -ENOMEM) {
    (void)kvl_err_set(err, code, "out of memory");
  }
  for (int k = 0; k < KINDS; k++) {
    double *to = k == TTFT ? ttft_s : rate_tok_per_s;
    if (values[k].count > 0) {
      qsort(values[k].item, values[k].count, sizeof(double), ascending);
    }
    for (uint32_t q = 0; q <= QUANTILES; q++) {
      to[q] = quantile(&values[k], q);
    }
    free(values[k].item);
  }
  return code;
}

static void write_numbers(FILE *out, const struct distributions *d)
{
  static const char *const name[KINDS] = {"ttft_s", "request_rate_tok_per_s"};
  (void)fputs("share_percent", out);
  for (uint32_t r = 0; r < d->count; r++) {
    for (int k = 0; k < KINDS; k++) {
      (void)fprintf(out, "\t%s: ", name[k]);
      kvl_text_tsv_cell(out, d->labels[r]);
    }
  }
  (void)fputc('\n', out);
  for (uint32_t q = 0; q <= QUANTILES; q++) {
    (void)fprintf(out, "%.1f", 100.0 * q / QUANTILES);
    for (uint32_t r = 0; r < d->count; r++) {
      for (int k = 0; k < KINDS; k++) {
        char text[KVL_TEXT_NUMBER_MAX];
        double value = quantile(&d->values[r][k], q);
        (void)fprintf(out, "\t%s", isnan(value) ? "" : kvl_text_double(text, value));
      }
    }
    (void)fputc('\n', out);
  }
}

/* A logarithmic axis where the runs are more than a factor of 20 apart. */
static void write_axis(FILE *script, const struct distributions *d, int kind)
{
  double low = INFINITY, high = 0.0;
  for (uint32_t r = 0; r < d->count; r++) {
    const struct values *v = &d->values[r][kind];
    if (v->count > 0) {
      low = v->item[0] < low ? v->item[0] : low;
      high = v->item[v->count - 1] > high ? v->item[v->count - 1] : high;
    }
  }
  if (low > 0.0 && high > 20.0 * low) {
    kvl_plot_log_axis(script, 'x', low, high);
  } else {
    (void)fputs("unset logscale x\nset xtics autofreq\nset xrange [0:*]\n", script);
  }
}

static int modes_differ(const struct distributions *d)
{
  for (uint32_t r = 0; r < d->count; r++) {
    for (uint32_t s = 0; s < r; s++) {
      if (strcmp(d->runs[r]->mode, d->runs[s]->mode) == 0) {
        return 0;
      }
    }
  }
  return 1;
}

static void style_text(const struct distributions *d, uint32_t run, char *text, size_t size)
{
  struct kvl_plot_style style = modes_differ(d) ? kvl_plot_style_of_mode(d->runs[run]->mode, run) : kvl_plot_style_at(run);
  (void)snprintf(text, size, "lines linewidth 2.2 dashtype %d linecolor rgb '%s'", style.dash, style.colour);
}

static void write_curves(FILE *script, const char *numbers, const struct distributions *d, int kind)
{
  char style[128];
  size_t values = 0;
  for (uint32_t r = 0; r < d->count; r++) {
    values += d->values[r][kind].count;
  }
  if (values == 0) { /* requests of one token have no rate */
    (void)fputs("set xrange [0:1]\nset label 2 'nothing to show' at graph 0.5, graph 0.5 center\nplot NaN notitle\nunset label 2\n", script);
    return;
  }
  for (uint32_t r = 0; r < d->count; r++) {
    (void)fputs(r == 0 ? "plot " : ", ", script);
    kvl_plot_quote_path(script, numbers);
    style_text(d, r, style, sizeof style);
    (void)fprintf(script, " skip 1 using %u:1 with %s notitle", 2 + KINDS * r + (unsigned)kind, style);
  }
  (void)fputc('\n', script);
}

/* Rows of the legend under the panels, from how many labels fit beside each other. */
static unsigned legend_rows(const struct distributions *d)
{
  size_t longest = 1;
  for (uint32_t r = 0; r < d->count; r++) {
    size_t length = strlen(d->labels[r]);
    longest = length > longest ? length : longest;
  }
  longest = longest < LABEL_MAX ? longest : LABEL_MAX;
  uint32_t columns = (uint32_t)(104 / (longest + 7));
  columns = columns < 1 ? 1 : columns;
  return (d->count + columns - 1) / columns;
}

static int height_of(const struct distributions *d)
{
  return PANEL_HEIGHT + FOOT_HEIGHT + (int)(LEGEND_HEIGHT * legend_rows(d));
}

static void write_script(FILE *script, const char *numbers, const void *context)
{
  const struct distributions *d = context;
  char title[512] = "Time to first token (p90):";
  for (uint32_t r = 0; r < d->count; r++) {
    size_t used = strlen(title);
    char number[KVL_TEXT_NUMBER_MAX];
    (void)snprintf(title + used, sizeof title - used, "%s %.24s %s s", r == 0 ? "" : ",", modes_differ(d) ? d->runs[r]->mode : d->labels[r],
                   kvl_text_human(number, quantile(&d->values[r][TTFT], QUANTILES * 9 / 10), 0));
  }
  if (kvl_text_columns(title) > KVL_PLOT_TITLE_MAX) {
    (void)snprintf(title, sizeof title, "Time to first token and rate of each request, %u run%s", d->count, kvl_text_s(d->count));
  }
  double height = height_of(d);
  (void)fputs("set multiplot\nset label 1 ", script);
  kvl_plot_quote(script, title);
  (void)fprintf(script, " at screen 0.01, screen %.4f left font ',14'\nset tmargin at screen %.4f\nset bmargin at screen %.4f\nset grid xtics ytics\n",
                1.0 - 20.0 / height, 1.0 - 48.0 / height, (FOOT_HEIGHT + LEGEND_HEIGHT * legend_rows(d)) / height);
  (void)fputs("set yrange [0:100]\nset ytics 0, 25, 100\nset ylabel 'requests up to here, %' offset 1\n"
              "set lmargin at screen 0.085\nset rmargin at screen 0.50\nset xlabel 'time to first token, s' offset 0,0.3\n", script);
  write_axis(script, d, TTFT);
  write_curves(script, numbers, d, TTFT);
  (void)fputs("unset label 1\nunset ylabel\nset format y ''\nset lmargin at screen 0.56\nset rmargin at screen 0.975\n"
              "set xlabel 'rate of one request after its first token, tok/s' offset 0,0.3\n", script);
  write_axis(script, d, RATE);
  write_curves(script, numbers, d, RATE);
  kvl_plot_legend_begin(script, legend_rows(d), (LEGEND_HEIGHT * legend_rows(d) + 8) / height);
  for (uint32_t r = 0; r < d->count; r++) {
    char style[128], label[LABEL_MAX + 1];
    style_text(d, r, style, sizeof style);
    (void)snprintf(label, sizeof label, "%s", d->labels[r]);
    kvl_plot_legend_entry(script, r, style, label);
  }
  kvl_plot_legend_end(script);
  (void)fputs("unset multiplot\n", script);
}

int kvl_plot_distributions(const struct kvl_plot *plot, struct kvl_store *store, const struct kvl_stored_run *const *runs,
                           const char *const *labels, uint32_t count, struct kvl_err *err)
{
  if (count == 0 || count > KVL_PLOT_RUNS_MAX) {
    return kvl_err_set(err, -EINVAL, "distributions draws 1 to %d runs, not %u", (int)KVL_PLOT_RUNS_MAX, count);
  }
  struct distributions *d = calloc(1, sizeof *d);
  if (d == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  d->runs = runs;
  d->labels = labels;
  d->count = count;
  int code = 0;
  for (uint32_t r = 0; r < count && code == 0; r++) {
    code = kvl_store_each_request(store, runs[r]->id, collect, d->values[r], err);
    if (code == -ENOMEM) {
      (void)kvl_err_set(err, code, "out of memory");
    } else if (code == 0 && d->values[r][TTFT].count == 0) {
      code = kvl_err_set(err, -EINVAL, "run %lld has no finished request to draw", (long long)runs[r]->id);
    }
    for (int k = 0; k < KINDS && code == 0; k++) {
      if (d->values[r][k].count > 0) {
        qsort(d->values[r][k].item, d->values[r][k].count, sizeof(double), ascending);
      }
    }
  }
  struct kvl_plot_numbers numbers;
  code = code != 0 ? code : kvl_plot_numbers_begin(&numbers, plot, err);
  if (code == 0) {
    write_numbers(numbers.file, d);
    code = kvl_plot_numbers_finish(&numbers, 0, err);
    code = code != 0 ? code : kvl_plot_draw(plot, 900, height_of(d), numbers.path, write_script, d, err);
    kvl_plot_numbers_free(&numbers);
  }
  for (uint32_t r = 0; r < count; r++) {
    for (int k = 0; k < KINDS; k++) {
      free(d->values[r][k].item);
    }
  }
  free(d);
  return code;
}
