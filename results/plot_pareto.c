/* Picture: output throughput against the rate of one request, the two ends of what is traded, and the front between them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/plot_sweep.h"
#include "results/text.h"

#define NONE UINT32_MAX

struct place {
  uint32_t point, series;
  double rate, throughput;
  int on_front;
};

struct pareto {
  const struct kvl_sweep_table *table;
  struct kvl_sweep_axis_values series;
  uint32_t by_key;
  struct place *place; /* by rate, ascending; then by throughput, descending */
  struct kvl_plot_mark *mark; /* where the number of each stands */
  uint32_t count, on_front;
};

static int by_rate(const void *a, const void *b)
{
  const struct place *x = a, *y = b;
  if (x->rate != y->rate) {
    return x->rate < y->rate ? -1 : 1;
  }
  if (x->throughput != y->throughput) {
    return x->throughput > y->throughput ? -1 : 1;
  }
  return x->point < y->point ? -1 : 1;
}

/* From the fastest down: on the front is who has more throughput than everybody faster. */
static void find_front(struct pareto *p)
{
  double best = -INFINITY;
  for (uint32_t i = p->count; i > 0;) {
    uint32_t first = i - 1; /* equal rates: only the first of them, with the most throughput, can be on it */
    while (first > 0 && p->place[first - 1].rate == p->place[i - 1].rate) {
      first--;
    }
    if (p->place[first].throughput > best) {
      best = p->place[first].throughput;
      p->place[first].on_front = 1;
      p->on_front++;
    }
    i = first;
  }
}

static void write_numbers(FILE *out, const struct pareto *p)
{
  char text[KVL_TEXT_NUMBER_MAX];
  (void)fputs("series_index\trequest_rate_tok_per_s_p50\toutput_throughput_tok_per_s\ton_front\tseries\tlabel\tpoint\tvalues\truns\n", out);
  for (uint32_t i = 0; i < 2 * p->count; i++) { /* the front first, in one piece, so that it can be drawn as a line */
    const struct place *at = &p->place[i % p->count];
    if (at->on_front != (i < p->count)) {
      continue;
    }
    (void)fprintf(out, "%u\t%s", (unsigned)at->series, kvl_text_double(text, at->rate));
    (void)fprintf(out, "\t%s\t%d\t", kvl_text_double(text, at->throughput), at->on_front);
    kvl_text_tsv_cell(out, p->by_key == NONE ? "" : p->series.text[at->series]);
    (void)fprintf(out, "\t%u", (unsigned)at->point + 1);
    kvl_sweep_put_traces(out, p->table, at->point);
    (void)fputc('\n', out);
  }
}

static struct kvl_plot_style style_of(const struct pareto *p, uint32_t s)
{
  int modes = p->by_key != NONE && strcmp(p->table->key[p->by_key], "mode") == 0;
  return modes ? kvl_plot_style_of_mode(p->series.text[s], s) : kvl_plot_style_at(s);
}

/* The numbers of the front's points; the axes end at a tic, so that the area is a little less than filled. */
static void number_front(FILE *script, const struct pareto *p)
{
  const double width = 780, height = 340, filled = 0.8;
  double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
  for (uint32_t i = 0; i < p->count; i++) {
    low[0] = fmin(low[0], p->place[i].rate);
    high[0] = fmax(high[0], p->place[i].rate);
    low[1] = fmin(low[1], p->place[i].throughput);
    high[1] = fmax(high[1], p->place[i].throughput);
  }
  for (uint32_t i = 0; i < p->count; i++) {
    const struct place *at = &p->place[i];
    p->mark[i] = (struct kvl_plot_mark){.x = width * (0.1 + (high[0] > low[0] ? filled * (at->rate - low[0]) / (high[0] - low[0]) : 0.4)),
                                        .y = height * (0.1 + (high[1] > low[1] ? filled * (at->throughput - low[1]) / (high[1] - low[1]) : 0.4)),
                                        .columns = !at->on_front ? 0 : at->point < 9 ? 1 : at->point < 99 ? 2 : at->point < 999 ? 3 : 5};
  }
  kvl_plot_place_marks(p->mark, p->count, width, height, 10);
  for (uint32_t i = 0; i < p->count; i++) {
    if (p->place[i].on_front) {
      (void)fprintf(script, "set label '%u' at %.9g, %.9g center offset graph %.4f, graph %.4f font ',10' textcolor rgb '#222222' front\n", (unsigned)p->place[i].point + 1,
                    p->place[i].rate, p->place[i].throughput, p->mark[i].dx / width, p->mark[i].dy / height);
    }
  }
}

static void write_script(FILE *script, const char *numbers, const void *context)
{
  const struct pareto *p = context;
  const struct place *fast = NULL, *much = NULL;
  char title[256], a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], c[KVL_TEXT_NUMBER_MAX], d[KVL_TEXT_NUMBER_MAX];
  for (uint32_t i = 0; i < p->count; i++) {
    if (p->place[i].on_front) {
      much = much == NULL ? &p->place[i] : much;
      fast = &p->place[i];
    }
  }
  (void)snprintf(title, sizeof title, "The front goes from %s tok/s at %s tok/s a request to %s at %s", kvl_text_human(a, much->throughput, 0),
                 kvl_text_human(b, much->rate, 0), kvl_text_human(c, fast->throughput, 0), kvl_text_human(d, fast->rate, 0));
  (void)fputs("set label 1 ", script);
  kvl_plot_quote(script, title);
  (void)fputs(" at screen 0.01, screen 0.955 left font ',14'\nset label 2 ", script);
  (void)snprintf(title, sizeof title, "%u of %u points are not beaten in both; their numbers are those of the sweep's table.", (unsigned)p->on_front, (unsigned)p->count);
  kvl_plot_quote(script, title);
  (void)fputs(" at screen 0.01, screen 0.905 left textcolor rgb '#444444' font ',11'\nset tmargin at screen 0.86\nset bmargin at screen 0.2\n"
              "set lmargin at screen 0.1\nset rmargin at screen 0.97\nset grid xtics ytics\nset offsets graph 0.05, graph 0.05, graph 0.08, graph 0.05\n"
              "set xlabel 'rate of one request (p50), tok/s' offset 0,0.3\nset ylabel 'output throughput, tok/s'\n", script);
  if (p->on_front <= 20) {
    number_front(script, p);
  }
  (void)fprintf(script, "set key at screen 0.5, screen 0.035 center center horizontal maxrows %u Left reverse samplen 1.5\nplot ", p->series.count > 4 ? 2u : 1u);
  kvl_plot_quote_path(script, numbers);
  (void)fputs(" skip 1 using ($4==1?$2:1/0):3 with lines linewidth 1.5 dashtype 2 linecolor rgb '#666666' title 'front'", script);
  for (uint32_t s = 0; s < p->series.count; s++) {
    struct kvl_plot_style style = style_of(p, s);
    char entry[KVL_SWEEP_VALUE_TEXT + 64];
    (void)fputs(", ", script);
    kvl_plot_quote_path(script, numbers);
    (void)fprintf(script, " skip 1 using ($1==%u?$2:1/0):3 with points pointtype %d pointsize 1 linecolor rgb '%s' title ", (unsigned)s, style.point, style.colour);
    if (p->by_key == NONE) {
      (void)snprintf(entry, sizeof entry, "points of the sweep");
    } else {
      const char *key = p->table->key[p->by_key];
      (void)snprintf(entry, sizeof entry, strcmp(key, "mode") == 0 ? "%.0s%s" : "%.60s %s", kvl_sweep_key_word(key), p->series.text[s]);
    }
    kvl_plot_quote(script, entry);
  }
  (void)fputs("\n", script);
}

int kvl_plot_pareto(const struct kvl_plot *plot, const struct kvl_sweep_table *table, const uint32_t *asked, uint32_t asked_count, uint32_t by,
                    struct kvl_err *err)
{
  struct pareto p = {.table = table, .by_key = by};
  struct kvl_plot_numbers numbers;
  uint32_t rate, throughput, *point = calloc(asked_count + 1u, sizeof *point), points = 0;
  int code = point == NULL ? -ENOMEM : kvl_sweep_live(table, asked, asked_count, point, &points, err);
  code = code != 0 ? code : kvl_sweep_metric("request_rate_tok_per_s_p50", &rate, err);
  code = code != 0 ? code : kvl_sweep_metric("output_throughput_tok_per_s", &throughput, err);
  if (code == 0 && by != NONE) {
    code = kvl_sweep_axis_read(table, point, points, by, &p.series);
  } else {
    p.series.count = 1;
  }
  p.place = code == 0 ? calloc(points, sizeof *p.place) : NULL;
  p.mark = code == 0 ? calloc(points, sizeof *p.mark) : NULL;
  if (code == -ENOMEM || (code == 0 && (p.place == NULL || p.mark == NULL))) {
    code = kvl_err_set(err, -ENOMEM, "out of memory");
  }
  if (code == 0 && p.series.count > KVL_PLOT_SERIES_MAX) {
    code = kvl_err_set(err, -EINVAL, "up to %d colours are told apart; %s has %u values: --where leaves fewer", (int)KVL_PLOT_SERIES_MAX, table->key[by],
                       (unsigned)p.series.count);
  }
  for (uint32_t i = 0; i < points && code == 0; i++) {
    struct kvl_sweep_cell x = kvl_sweep_cell(table, point[i], rate), y = kvl_sweep_cell(table, point[i], throughput);
    char text[KVL_SWEEP_VALUE_TEXT];
    if (x.count > 0) {
      uint32_t s = by == NONE ? 0 : kvl_sweep_axis_find(&p.series, kvl_sweep_value_text(text, table->value[(size_t)point[i] * table->keys + by]));
      p.place[p.count++] = (struct place){.point = point[i], .series = s, .rate = x.mean, .throughput = y.mean};
    }
  }
  code = code != 0 ? code : kvl_plot_numbers_begin(&numbers, plot, err);
  if (code == 0) {
    qsort(p.place, p.count, sizeof *p.place, by_rate);
    find_front(&p);
    write_numbers(numbers.file, &p);
    code = kvl_plot_numbers_finish(&numbers, 0, err);
    code = code != 0 ? code : kvl_plot_draw(plot, 900, 520, numbers.path, write_script, &p, err);
    kvl_plot_numbers_free(&numbers);
  }
  free(point);
  free(p.place);
  free(p.mark);
  if (by != NONE) {
    kvl_sweep_axis_free(&p.series);
  }
  return code;
}
