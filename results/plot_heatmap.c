/* Picture: one metric over two keys of a sweep. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/plot_sweep.h"
#include "results/text.h"

#define NONE UINT32_MAX

struct heat {
  const struct kvl_sweep_table *table;
  struct kvl_sweep_axis_values x, y;
  uint32_t x_key, y_key, metric;
  uint32_t *cell; /* y.count x x.count: a point, or NONE */
  double low, high;
  uint32_t low_at, high_at; /* points */
  int any_missing;
};

static struct kvl_sweep_cell cell_at(const struct heat *h, uint32_t x, uint32_t y)
{
  uint32_t point = h->cell[(size_t)y * h->x.count + x];
  struct kvl_sweep_cell none = {.count = 0, .mean = NAN, .half = NAN};
  return point == NONE ? none : kvl_sweep_cell(h->table, point, h->metric);
}

static void write_numbers(FILE *out, const struct heat *h)
{
  char text[KVL_TEXT_NUMBER_MAX];
  (void)fprintf(out, "x_index\ty_index\t%s\t%s\t%s\thalf_95\trepeats\tlabel\tpoint\tvalues\truns\n", h->table->key[h->x_key], h->table->key[h->y_key],
                kvl_summary_key_at(h->metric)->name);
  for (uint32_t y = 0; y < h->y.count; y++) {
    for (uint32_t x = 0; x < h->x.count; x++) {
      struct kvl_sweep_cell cell = cell_at(h, x, y);
      uint32_t point = h->cell[(size_t)y * h->x.count + x];
      (void)fprintf(out, "%u\t%u\t", (unsigned)x, (unsigned)y);
      kvl_text_tsv_cell(out, h->x.text[x]);
      (void)fputc('\t', out);
      kvl_text_tsv_cell(out, h->y.text[y]);
      (void)fprintf(out, "\t%s", cell.count > 0 ? kvl_text_double(text, cell.mean) : "");
      (void)fprintf(out, "\t%s\t%u", cell.count > 1 ? kvl_text_double(text, cell.half) : "", (unsigned)cell.count);
      (void)fprintf(out, "\t%s", cell.count > 0 ? kvl_text_human(text, cell.mean, 0) : point == NONE ? "" : "none");
      if (point == NONE) {
        (void)fputs("\t\t\t", out);
      } else {
        kvl_sweep_put_traces(out, h->table, point);
      }
      (void)fputc('\n', out);
    }
  }
}

static void write_tics(FILE *script, char axis, const struct kvl_sweep_axis_values *values)
{
  uint32_t step = values->count > 24 ? (values->count + 23) / 24 : 1;
  (void)fprintf(script, "set %ctics (", axis);
  for (uint32_t i = 0; i < values->count; i += step) {
    (void)fputs(i == 0 ? "" : ", ", script);
    kvl_plot_quote(script, values->text[i]);
    (void)fprintf(script, " %u", (unsigned)i);
  }
  (void)fprintf(script, ") scale 0\nset %crange [-0.5:%u.5]\n", axis, (unsigned)values->count - 1);
}

static void place_text(const struct heat *h, uint32_t point, char *text, size_t size)
{
  char x[KVL_SWEEP_VALUE_TEXT], y[KVL_SWEEP_VALUE_TEXT];
  const char **value = (const char **)(void *)&h->table->value[(size_t)point * h->table->keys];
  (void)snprintf(text, size, "%s %.20s, %s %.20s", kvl_sweep_key_word(h->table->key[h->x_key]), kvl_sweep_value_text(x, value[h->x_key]),
                 kvl_sweep_key_word(h->table->key[h->y_key]), kvl_sweep_value_text(y, value[h->y_key]));
}

static void write_script(FILE *script, const char *numbers, const void *context)
{
  const struct heat *h = context;
  char metric[KVL_SWEEP_AXIS_TEXT], line[512], low[KVL_TEXT_NUMBER_MAX], high[KVL_TEXT_NUMBER_MAX], at_low[96], at_high[96];
  (void)kvl_text_human(low, h->low, 0);
  (void)kvl_text_human(high, h->high, 0);
  place_text(h, h->low_at, at_low, sizeof at_low);
  place_text(h, h->high_at, at_high, sizeof at_high);
  (void)kvl_sweep_metric_text(metric, h->metric);
  (void)fputs("set label 1 ", script);
  kvl_plot_quote(script, metric);
  (void)fputs(" at screen 0.02, screen 0.955 left font ',14'\nset label 2 ", script);
  (void)snprintf(line, sizeof line, "From %s (%s) to %s (%s).%s", low, at_low, high, at_high, h->any_missing ? " Grey: no complete run." : "");
  kvl_plot_quote(script, line);
  (void)fputs(" at screen 0.02, screen 0.9 left textcolor rgb '#444444' font ',11'\nset tmargin at screen 0.85\nset bmargin at screen 0.17\n"
              "set lmargin at screen 0.12\nset rmargin at screen 0.86\nunset key\nunset grid\nset xlabel ", script);
  kvl_plot_quote(script, h->table->key[h->x_key]);
  (void)fputs("\nset ylabel ", script);
  kvl_plot_quote(script, h->table->key[h->y_key]);
  (void)fputs("\n", script);
  write_tics(script, 'x', &h->x);
  write_tics(script, 'y', &h->y);
  double width = h->high > h->low ? h->high - h->low : h->high != 0 ? fabs(h->high) : 1.0;
  (void)fprintf(script, "set palette defined (0 '#f7fbff', 0.35 '#9ecae1', 0.7 '#3182bd', 1 '#08306b')\nset cbrange [%.9g:%.9g]\nset colorbox user origin "
                "screen 0.885, screen 0.17 size screen 0.025, screen 0.68\nset cbtics textcolor rgb '#222222'\n", h->low, h->low + width);
  (void)fputs("set style fill solid 1.0 noborder\nset object 1 rectangle from graph 0, graph 0 to graph 1, graph 1 fillcolor rgb '#cccccc' behind\nplot ", script);
  kvl_plot_quote_path(script, numbers);
  /* boxes, not an image: an image's cells would be blurred by viewers */
  (void)fputs(" skip 1 using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5):5 with boxxyerror linecolor palette", script);
  if (h->x.count <= 14 && h->y.count <= 24) {
    const double half = h->low + 0.55 * width;
    const char *const side[] = {"<", ">="}, *const colour[] = {"#111111", "#ffffff"};
    for (int s = 0; s < 2; s++) {
      (void)fputs(", ", script);
      kvl_plot_quote_path(script, numbers);
      (void)fprintf(script, " skip 1 using 1:($5 %s %.9g ? $2 : NaN):8 with labels textcolor rgb '%s' font ',%d'", side[s], half, colour[s],
                    h->x.count > 8 ? 9 : 11);
    }
  }
  (void)fputs("\n", script);
}

static int place(struct heat *h, const uint32_t *point, uint32_t points, struct kvl_err *err)
{
  for (size_t i = 0; i < (size_t)h->x.count * h->y.count; i++) {
    h->cell[i] = NONE;
  }
  h->low = INFINITY;
  h->high = -INFINITY;
  for (uint32_t i = 0; i < points; i++) {
    char x[KVL_SWEEP_VALUE_TEXT], y[KVL_SWEEP_VALUE_TEXT];
    uint32_t p = point[i];
    const char *vx = h->table->value[(size_t)p * h->table->keys + h->x_key], *vy = h->table->value[(size_t)p * h->table->keys + h->y_key];
    uint32_t *cell = &h->cell[(size_t)kvl_sweep_axis_find(&h->y, kvl_sweep_value_text(y, vy)) * h->x.count +
                              kvl_sweep_axis_find(&h->x, kvl_sweep_value_text(x, vx))];
    if (*cell != NONE) {
      return kvl_sweep_ambiguous(h->table, *cell, p, err);
    }
    *cell = p;
    struct kvl_sweep_cell value = kvl_sweep_cell(h->table, p, h->metric);
    if (value.count > 0 && value.mean < h->low) {
      h->low = value.mean;
      h->low_at = p;
    }
    if (value.count > 0 && value.mean > h->high) {
      h->high = value.mean;
      h->high_at = p;
    }
  }
  for (size_t i = 0; i < (size_t)h->x.count * h->y.count; i++) {
    h->any_missing |= h->cell[i] == NONE || kvl_sweep_cell(h->table, h->cell[i], h->metric).count == 0;
  }
  return h->high >= h->low ? 0 : kvl_err_set(err, -EINVAL, "sweep %s: none of these points has a complete run to draw", h->table->sweep->name);
}

int kvl_plot_heatmap(const struct kvl_plot *plot, const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t x, uint32_t y,
                     uint32_t metric, struct kvl_err *err)
{
  struct heat h = {.table = table, .x_key = x, .y_key = y, .metric = metric};
  struct kvl_plot_numbers numbers;
  if (x == y) {
    return kvl_err_set(err, -EINVAL, "a heatmap is over two keys, not %s twice", table->key[x]);
  }
  int code = kvl_sweep_axis_read(table, point, points, x, &h.x) != 0 || kvl_sweep_axis_read(table, point, points, y, &h.y) != 0 ? -ENOMEM : 0;
  if (code == 0 && (h.x.count > KVL_PLOT_HEAT_SIDE_MAX || h.y.count > KVL_PLOT_HEAT_SIDE_MAX)) {
    code = kvl_err_set(err, -EINVAL, "a heatmap has up to %d values a side; %s has %u: --where leaves fewer", (int)KVL_PLOT_HEAT_SIDE_MAX,
                       table->key[h.x.count > h.y.count ? x : y], (unsigned)(h.x.count > h.y.count ? h.x.count : h.y.count));
  }
  h.cell = code == 0 ? malloc((size_t)h.x.count * h.y.count * sizeof *h.cell) : NULL;
  if (code == -ENOMEM || (code == 0 && h.cell == NULL)) {
    code = kvl_err_set(err, -ENOMEM, "out of memory");
  }
  code = code != 0 ? code : place(&h, point, points, err);
  code = code != 0 ? code : kvl_plot_numbers_begin(&numbers, plot, err);
  if (code == 0) {
    write_numbers(numbers.file, &h);
    code = kvl_plot_numbers_finish(&numbers, 0, err);
    uint32_t rows = h.y.count < 4 ? 4 : h.y.count > 16 ? 16 : h.y.count;
    code = code != 0 ? code : kvl_plot_draw(plot, 900, 200 + 34 * (int)rows, numbers.path, write_script, &h, err);
    kvl_plot_numbers_free(&numbers);
  }
  free(h.cell);
  kvl_sweep_axis_free(&h.x);
  kvl_sweep_axis_free(&h.y);
  return code;
}
