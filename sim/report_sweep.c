/* The report of a sweep: which points are best, what they trade, and every point with its runs. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/report_pictures.h"
#include "results/text.h"
#include "sim/report_runs.h"
#include "sim/scenario_keys.h"

enum { NAME_CAP = 200, CELL_MAX = 64, RUNS_TEXT = 96, FAILED_SHOWN = 50, SERIES_MAX = 8 };

/* The figures that a sweep is judged by. */
enum figure { OUTPUT, RATE, TTFT, FIGURES };
static const struct {
  const char *key, *name;
  int more_is_better;
} figures[FIGURES] = {{"output_throughput_tok_per_s", "output, tok/s", 1}, {"request_rate_tok_per_s_p10", "request p10, tok/s", 1}, {"ttft_s_p90", "first token p90, s", 0}};

struct view {
  const struct kvl_sweep_table *table;
  uint32_t metric[FIGURES];
  double (*mean)[FIGURES], (*half)[FIGURES]; /* one a point; NaN: no complete run */
  bool *front;                               /* no other point beats it in output and rate */
  uint32_t complete, failed, missing;        /* tasks */
  uint32_t colour_key;                       /* UINT32_MAX: none */
};

/* "mode fixed, hot_rows 512". */
static const char *point_name(char text[NAME_CAP], const struct kvl_sweep_table *t, uint32_t point)
{
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t k = 0; k < t->keys && used < NAME_CAP - 1; k++) {
    char value[KVL_SWEEP_VALUE_TEXT];
    const char *dot = strrchr(t->key[k], '.');
    int n = snprintf(text + used, NAME_CAP - used, "%s%s %.40s", k > 0 ? ", " : "", dot != NULL ? dot + 1 : t->key[k],
                     kvl_sweep_value_text(value, t->value[(size_t)point * t->keys + k]));
    used += n > 0 ? (size_t)n : 0;
  }
  return text;
}

static void count_tasks(struct view *v)
{
  for (uint32_t i = 0; i < v->table->points * v->table->repeats; i++) {
    enum kvl_task_state state = v->table->task[i].state;
    v->complete += state == KVL_TASK_COMPLETE;
    v->failed += state == KVL_TASK_FAILED;
    v->missing += state == KVL_TASK_MISSING;
  }
}

static int read_view(struct view *v, struct kvl_err *err)
{
  const struct kvl_sweep_table *t = v->table;
  v->mean = calloc(t->points + 1u, sizeof *v->mean);
  v->half = calloc(t->points + 1u, sizeof *v->half);
  v->front = calloc(t->points + 1u, sizeof *v->front);
  if (v->mean == NULL || v->half == NULL || v->front == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory for the report");
  }
  for (int f = 0; f < FIGURES; f++) {
    int rc = kvl_sweep_metric(figures[f].key, &v->metric[f], err);
    if (rc != 0) {
      return rc;
    }
    for (uint32_t p = 0; p < t->points; p++) {
      struct kvl_sweep_cell cell = kvl_sweep_cell(t, p, v->metric[f]);
      v->mean[p][f] = cell.count > 0 ? cell.mean : NAN;
      v->half[p][f] = cell.count > 0 ? cell.half : NAN;
    }
  }
  for (uint32_t p = 0; p < t->points; p++) {
    v->front[p] = !isnan(v->mean[p][OUTPUT]);
    for (uint32_t q = 0; q < t->points && v->front[p]; q++) {
      bool beaten = v->mean[q][OUTPUT] >= v->mean[p][OUTPUT] && v->mean[q][RATE] >= v->mean[p][RATE] &&
                   (v->mean[q][OUTPUT] > v->mean[p][OUTPUT] || v->mean[q][RATE] > v->mean[p][RATE]);
      v->front[p] = !beaten;
    }
  }
  v->colour_key = UINT32_MAX;
  for (uint32_t k = 0; k < t->keys; k++) {
    v->colour_key = strcmp(t->key[k], "mode") == 0 ? k : v->colour_key;
  }
  count_tasks(v);
  return 0;
}

static uint32_t best_of(const struct view *v, enum figure f)
{
  uint32_t best = UINT32_MAX;
  for (uint32_t p = 0; p < v->table->points; p++) {
    double now = v->mean[p][f];
    if (!isnan(now) && (best == UINT32_MAX || (figures[f].more_is_better ? now > v->mean[best][f] : now < v->mean[best][f]))) {
      best = p;
    }
  }
  return best;
}

static void asked(struct kvl_report *r, const struct view *v)
{
  static const char *const columns[] = {"key", "values"};
  const struct kvl_sweep_table *t = v->table;
  kvl_report_section(r, "What was asked");
  kvl_report_text(r, "Which of %u point%s of %s is best, each run %u time%s?%s%s%s", t->points, kvl_text_s(t->points), t->sweep->scenario, t->repeats, kvl_text_s(t->repeats),
                  t->sweep->note[0] != '\0' ? " " : "", t->sweep->note, t->sweep->note[0] != '\0' ? "." : "");
  kvl_report_table(r, columns, 2, "ll");
  for (uint32_t k = 0; k < t->keys; k++) {
    char values[512] = "", value[KVL_SWEEP_VALUE_TEXT];
    size_t used = 0;
    for (uint32_t p = 0; p < t->points && used < sizeof values - KVL_SWEEP_VALUE_TEXT - 8; p++) {
      const char *now = t->value[(size_t)p * t->keys + k];
      uint32_t seen = 0;
      while (seen < p) {
        const char *then = t->value[(size_t)seen * t->keys + k];
        if (then == now || (then != NULL && now != NULL && strcmp(then, now) == 0)) {
          break;
        }
        seen++;
      }
      if (seen == p) {
        int n = snprintf(values + used, sizeof values - used, "%s%s", used > 0 ? ", " : "", kvl_sweep_value_text(value, now));
        used += n > 0 ? (size_t)n : 0;
      }
    }
    kvl_report_row(r, (const char *const[]){t->key[k], values});
  }
}

/* Of the point with the most output. */
static void stand_ins(struct kvl_report *r, const struct kvl_report_source *src, const struct view *v, uint32_t point)
{
  char note[KVL_REPORT_NOTE_MAX], name[NAME_CAP];
  for (uint32_t i = 0; i < v->table->repeats; i++) {
    const struct kvl_stored_task *task = &v->table->task[(size_t)point * v->table->repeats + i];
    if (task->state == KVL_TASK_COMPLETE) {
      if (kvl_report_stand_ins(src, task->run, note, sizeof note)) {
        kvl_report_note(r, "%s: %s.", point_name(name, v->table, point), note);
      }
      return;
    }
  }
}

static void answer(struct kvl_report *r, const struct kvl_report_source *src, const struct view *v)
{
  uint32_t output = best_of(v, OUTPUT), rate = best_of(v, RATE), ttft = best_of(v, TTFT), front = 0;
  char name[NAME_CAP], a[KVL_TEXT_NUMBER_MAX];
  kvl_report_section(r, "The answer");
  if (output == UINT32_MAX) {
    kvl_report_lead(r, "No point is complete.");
  } else {
    for (uint32_t p = 0; p < v->table->points; p++) {
      front += v->front[p];
    }
    kvl_report_lead(r, "Most output: %s, %s tok/s.", point_name(name, v->table, output), kvl_text_human(a, v->mean[output][OUTPUT], 0));
    kvl_report_text(r, "Fastest answers (the rate that nine requests in ten reach): %s, %s tok/s.", point_name(name, v->table, rate),
                    kvl_text_human(a, v->mean[rate][RATE], 0));
    kvl_report_text(r, "Shortest wait for the first token (p90): %s, %s s.", point_name(name, v->table, ttft), kvl_text_human(a, v->mean[ttft][TTFT], 0));
    if (v->table->points > 1) {
      kvl_report_text(r, "%u of the %u points %s on the front between output and rate: no other point is better in both.", front, v->table->points,
                      front == 1 ? "is" : "are");
    }
  }
  uint32_t estimates = 0, outside = 0, runs = v->table->points * v->table->repeats;
  for (uint32_t i = 0; i < runs; i++) {
    const struct kvl_stored_task *task = &v->table->task[i];
    estimates += task->has_summary && task->summary.compute_is_estimate;
    outside += task->has_summary && task->summary.is_extrapolated;
  }
  if (estimates > 0) {
    kvl_report_note(r, "In %u of %u run%s step times are an estimate (a roofline over descriptors), neither measured nor fitted.", estimates, runs, kvl_text_s(runs));
  }
  if (outside > 0) {
    kvl_report_note(r, "In %u of %u run%s a table, a curve or the cost profile was used outside of what it was made for: times are extrapolated.", outside,
                    runs, kvl_text_s(runs));
  }
  if (output != UINT32_MAX) {
    stand_ins(r, src, v, output);
  }
  if (v->failed > 0) {
    kvl_report_note(r, "%u of %u run%s failed; the reasons are at the end.", v->failed, runs, kvl_text_s(runs));
  }
  if (v->missing > 0) {
    kvl_report_note(r, "%u of %u run%s %s not there yet: kvloan sweep goes on where it was.", v->missing, runs, kvl_text_s(runs), v->missing == 1 ? "is" : "are");
  }
}

/* ---- pictures ---- */

/* Colour classes: the values of the key `mode`, or one for all. */
static uint32_t class_of(const struct view *v, uint32_t point)
{
  char value[KVL_SWEEP_VALUE_TEXT];
  if (v->colour_key == UINT32_MAX) {
    return 0;
  }
  (void)kvl_sweep_value_text(value, v->table->value[(size_t)point * v->table->keys + v->colour_key]);
  for (uint32_t m = 0; m < 3; m++) {
    if (strcmp(value, kvl_mode_names[m]) == 0) {
      return m;
    }
  }
  return 3;
}

static int by_rate(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return (x[0] > y[0]) - (x[0] < y[0]);
}

static void write_front(FILE *script, int narrow, const void *context)
{
  const struct view *v = context;
  double x_max = 0.0, y_max = 0.0;
  (void)narrow;
  double (*front)[2] = calloc(v->table->points + 1u, sizeof *front);
  uint32_t count = 0;
  for (uint32_t c = 0; c < 4; c++) {
    (void)fprintf(script, "$m%u << EOD\n", c);
    for (uint32_t p = 0; p < v->table->points; p++) {
      if (!isnan(v->mean[p][OUTPUT]) && class_of(v, p) == c) {
        (void)fprintf(script, "%.9g\t%.9g\n", v->mean[p][RATE], v->mean[p][OUTPUT]);
        x_max = v->mean[p][RATE] > x_max ? v->mean[p][RATE] : x_max;
        y_max = v->mean[p][OUTPUT] > y_max ? v->mean[p][OUTPUT] : y_max;
        if (v->front[p] && front != NULL) {
          front[count][0] = v->mean[p][RATE];
          front[count++][1] = v->mean[p][OUTPUT];
        }
      }
    }
    (void)fputs("EOD\n", script);
  }
  if (front != NULL) {
    qsort(front, count, sizeof *front, by_rate);
  }
  (void)fputs("$front << EOD\n", script);
  for (uint32_t i = 0; front != NULL && i < count; i++) {
    (void)fprintf(script, "%.9g\t%.9g\n", front[i][0], front[i][1]);
  }
  free(front);
  (void)fprintf(script, "EOD\nset xrange [0:%.9g]\nset yrange [0:%.9g]\nset grid xtics\nset xlabel 'rate of one request, the slowest tenth, tok/s'\nset ylabel 'output, tok/s'\n"
                "plot $front using 1:2 with lines linewidth 1.4 dashtype 2 linecolor rgb '#666666'", x_max > 0.0 ? 1.08 * x_max : 1.0, y_max > 0.0 ? 1.1 * y_max : 1.0);
  for (uint32_t c = 0; c < 4; c++) {
    for (uint32_t p = 0; p < v->table->points; p++) {
      if (!isnan(v->mean[p][OUTPUT]) && class_of(v, p) == c) {
        (void)fprintf(script, ", $m%u using 1:2 with points pointtype 7 pointsize 0.9 linecolor rgb '%s'", c, kvl_report_colour(c));
        break;
      }
    }
  }
  (void)fputc('\n', script);
}

static int draw_front(struct kvl_report *r, const char *gnuplot, const struct view *v, struct kvl_err *err)
{
  static const char *const names[] = {"resident", "fixed", "adaptive", "other"};
  struct kvl_report_key key[5];
  uint32_t keys = 0;
  for (uint32_t c = 0; c < 4; c++) {
    for (uint32_t p = 0; p < v->table->points; p++) {
      if (!isnan(v->mean[p][OUTPUT]) && class_of(v, p) == c) {
        key[keys++] = (struct kvl_report_key){v->colour_key == UINT32_MAX ? "points" : names[c], kvl_report_colour(c), -1};
        break;
      }
    }
  }
  key[keys++] = (struct kvl_report_key){"the front", "#666666", 2};
  struct kvl_report_picture p = {.title = "The trade: throughput against the rate of one request", .see = "Each dot is a point of the sweep, the mean of its repeats. Up is more output, "
                                 "right is faster answers; dots on the dashed line are beaten by none in both.", .key = key, .keys = keys, .write = write_front, .context = v,
                                 .wide_height = 360, .narrow_height = 300};
  return kvl_report_draw(r, gnuplot, &p, err);
}

/* One figure over one key of numbers: the line of each combination of the other keys. */
struct lines {
  const struct view *v;
  uint32_t x;
  enum figure figure;
  uint32_t series[SERIES_MAX]; /* a point of each */
  uint32_t count;
};

static int same_but(const struct kvl_sweep_table *t, uint32_t a, uint32_t b, uint32_t x)
{
  for (uint32_t k = 0; k < t->keys; k++) {
    const char *p = t->value[(size_t)a * t->keys + k], *q = t->value[(size_t)b * t->keys + k];
    if (k != x && p != q && (p == NULL || q == NULL || strcmp(p, q) != 0)) {
      return 0;
    }
  }
  return 1;
}

static double number_at(const struct kvl_sweep_table *t, uint32_t point, uint32_t key)
{
  const char *text = t->value[(size_t)point * t->keys + key];
  char *end = NULL;
  double value = text == NULL ? NAN : strtod(text, &end);
  return text != NULL && end != text && *end == '\0' ? value : NAN;
}

/* The first key of numbers with the most values, if the others make few enough lines. */
static int find_lines(struct lines *l)
{
  const struct kvl_sweep_table *t = l->v->table;
  uint32_t most = 2;
  l->x = UINT32_MAX;
  for (uint32_t k = 0; k < t->keys; k++) {
    uint32_t values = 0;
    bool fine = true;
    for (uint32_t p = 0; p < t->points; p++) {
      uint32_t seen = 0;
      fine = fine && !isnan(number_at(t, p, k));
      while (seen < p && strcmp(t->value[(size_t)seen * t->keys + k] != NULL ? t->value[(size_t)seen * t->keys + k] : "",
                                t->value[(size_t)p * t->keys + k] != NULL ? t->value[(size_t)p * t->keys + k] : "") != 0) {
        seen++;
      }
      values += seen == p;
    }
    if (fine && values > most) {
      most = values;
      l->x = k;
    }
  }
  for (uint32_t p = 0; l->x != UINT32_MAX && p < t->points; p++) {
    uint32_t s = 0;
    while (s < l->count && !same_but(t, l->series[s], p, l->x)) {
      s++;
    }
    if (s == SERIES_MAX) {
      return 0; /* too many */
    }
    if (s == l->count) {
      l->series[l->count++] = p;
    }
  }
  return l->x != UINT32_MAX;
}

static int by_x(const void *a, const void *b)
{
  return by_rate(a, b);
}

/* The unit of a scenario key, "" when it has none. */
static const char *unit_of(const char *key)
{
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    if (strcmp(kvl_keys[i].path, key) == 0) {
      return kvl_keys[i].unit;
    }
  }
  return "";
}

static void write_lines(FILE *script, int narrow, const void *context)
{
  const struct lines *l = context;
  const struct kvl_sweep_table *t = l->v->table;
  const char *dot = strrchr(t->key[l->x], '.');
  double low = INFINITY, high = 0.0;
  char label[128];
  (void)narrow;
  double (*at)[2] = calloc(t->points + 1u, sizeof *at);
  for (uint32_t s = 0; s < l->count; s++) {
    uint32_t n = 0;
    for (uint32_t p = 0; at != NULL && p < t->points; p++) {
      if (!isnan(l->v->mean[p][l->figure]) && same_but(t, l->series[s], p, l->x)) {
        at[n][0] = number_at(t, p, l->x);
        low = at[n][0] < low ? at[n][0] : low;
        high = at[n][0] > high ? at[n][0] : high;
        at[n++][1] = l->v->mean[p][l->figure];
      }
    }
    if (at != NULL) {
      qsort(at, n, sizeof *at, by_x);
    }
    (void)fprintf(script, "$d%u << EOD\n", s);
    for (uint32_t i = 0; i < n; i++) {
      (void)fprintf(script, "%.9g\t%.9g\n", at[i][0], at[i][1]);
    }
    (void)fputs("EOD\n", script);
  }
  free(at);
  (void)fprintf(script, "set yrange [0:*]\nset offsets graph 0.03, graph 0.03, graph 0.05, 0\n%sset xlabel ",
                low > 0.0 && high > 30.0 * low ? "set logscale x 2\n" : "");
  (void)snprintf(label, sizeof label, "%.60s%s%.30s", dot != NULL ? dot + 1 : t->key[l->x], unit_of(t->key[l->x])[0] != '\0' ? ", " : "", unit_of(t->key[l->x]));
  kvl_plot_quote(script, label);
  (void)fprintf(script, "\nset ylabel '%s'\nplot ", figures[l->figure].name);
  for (uint32_t s = 0; s < l->count; s++) {
    (void)fprintf(script, "%s$d%u using 1:2 with linespoints linewidth 1.8 pointtype 7 pointsize 0.6 linecolor rgb '%s'", s > 0 ? ", " : "", s, kvl_report_colour(s));
  }
  (void)fputc('\n', script);
}

static int draw_lines(struct kvl_report *r, const char *gnuplot, const struct view *v, int *no_pictures, struct kvl_err *err)
{
  struct lines l = {.v = v};
  if (!find_lines(&l)) {
    return 0;
  }
  const struct kvl_sweep_table *t = v->table;
  struct kvl_report_key key[SERIES_MAX];
  char name[SERIES_MAX][NAME_CAP], see[NAME_CAP * 2], title[NAME_CAP];
  int rc = 0;
  for (uint32_t s = 0; s < l.count; s++) {
    size_t used = 0;
    name[s][0] = '\0';
    for (uint32_t k = 0; k < t->keys; k++) {
      char value[KVL_SWEEP_VALUE_TEXT];
      const char *dot = strrchr(t->key[k], '.');
      if (k != l.x && used < NAME_CAP - 1) {
        int n = snprintf(name[s] + used, NAME_CAP - used, "%s%s %.40s", used > 0 ? ", " : "", dot != NULL ? dot + 1 : t->key[k],
                         kvl_sweep_value_text(value, t->value[(size_t)l.series[s] * t->keys + k]));
        used += n > 0 ? (size_t)n : 0;
      }
    }
    key[s] = (struct kvl_report_key){used > 0 ? name[s] : "all points", kvl_report_colour(s), 1};
  }
  for (int f = 0; rc == 0 && f < FIGURES; f++) {
    l.figure = (enum figure)f;
    (void)snprintf(title, sizeof title, "%.60s over %.100s", figures[f].name, t->key[l.x]);
    (void)snprintf(see, sizeof see, "What %.100s does to it, means of the repeats%s: %s is better. A flat line says that the key does not matter here.", t->key[l.x],
                   l.count > 1 ? ", a line for each of the other keys' values" : "", figures[f].more_is_better ? "up" : "down");
    struct kvl_report_picture p = {.title = title, .see = see, .key = key, .keys = l.count > 1 ? l.count : 0, .write = write_lines, .context = &l};
    rc = kvl_report_picture_code(kvl_report_draw(r, gnuplot, &p, err), no_pictures);
  }
  return rc;
}

/* ---- tables ---- */

static void value_cell(char text[CELL_MAX], double mean, double half)
{
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX];
  if (isnan(mean)) {
    (void)snprintf(text, CELL_MAX, "-");
  } else if (isnan(half)) {
    (void)snprintf(text, CELL_MAX, "%s", kvl_text_human(a, mean, 0));
  } else {
    (void)snprintf(text, CELL_MAX, "%s \xc2\xb1 %s", kvl_text_human(a, mean, 0), kvl_text_human(b, half, 0));
  }
}

static void every_point(struct kvl_report *r, const struct view *v)
{
  const struct kvl_sweep_table *t = v->table;
  const char *columns[KVL_REPORT_COLUMNS_MAX], *cells[KVL_REPORT_COLUMNS_MAX];
  uint32_t keys = t->keys < KVL_REPORT_COLUMNS_MAX - FIGURES - 2 ? t->keys : KVL_REPORT_COLUMNS_MAX - FIGURES - 2, n = 0;
  char align[KVL_REPORT_COLUMNS_MAX + 1], (*value)[KVL_SWEEP_VALUE_TEXT] = calloc(keys + 1u, sizeof *value), figure[FIGURES][CELL_MAX], runs[RUNS_TEXT];
  if (value == NULL) {
    kvl_report_text(r, "(out of memory)");
    return;
  }
  memset(align, 'r', sizeof align);
  for (uint32_t k = 0; k < keys; k++) {
    align[n] = 'l';
    columns[n++] = t->key[k];
  }
  for (int f = 0; f < FIGURES; f++) {
    columns[n++] = figures[f].name;
  }
  columns[n++] = "front";
  align[n] = 'l';
  columns[n++] = "runs";
  align[n] = '\0';
  kvl_report_section(r, "Every point");
  kvl_report_text(r, "Means of the repeats%s; the run numbers are those of the store: kvloan results show, explain and report take them.",
                  t->repeats > 1 ? " with the half-width of their 95 % interval" : "");
  kvl_report_table(r, columns, n, align);
  for (uint32_t p = 0; p < t->points; p++) {
    size_t used = 0;
    runs[0] = '\0';
    n = 0;
    for (uint32_t k = 0; k < keys; k++) {
      cells[n++] = kvl_sweep_value_text(value[k], t->value[(size_t)p * t->keys + k]);
    }
    for (int f = 0; f < FIGURES; f++) {
      value_cell(figure[f], v->mean[p][f], v->half[p][f]);
      cells[n++] = figure[f];
    }
    cells[n++] = v->front[p] ? "yes" : "";
    for (uint32_t i = 0; i < t->repeats && used < RUNS_TEXT - 24; i++) {
      const struct kvl_stored_task *task = &t->task[(size_t)p * t->repeats + i];
      int written = task->run >= 0 && task->state == KVL_TASK_COMPLETE ? snprintf(runs + used, RUNS_TEXT - used, "%s%" PRId64, used > 0 ? ", " : "", task->run)
                    : task->state == KVL_TASK_FAILED ? snprintf(runs + used, RUNS_TEXT - used, "%sfailed", used > 0 ? ", " : "") : 0;
      used += written > 0 ? (size_t)written : 0;
    }
    cells[n++] = runs;
    kvl_report_row(r, cells);
  }
  free(value);
}

static void failures(struct kvl_report *r, const struct view *v)
{
  static const char *const columns[] = {"point", "reason"};
  uint32_t shown = 0;
  if (v->failed == 0) {
    return;
  }
  kvl_report_section(r, "What failed");
  kvl_report_table(r, columns, 2, "ll");
  for (uint32_t i = 0; i < v->table->points * v->table->repeats && shown < FAILED_SHOWN; i++) {
    const struct kvl_stored_task *task = &v->table->task[i];
    char name[NAME_CAP];
    if (task->state == KVL_TASK_FAILED) {
      kvl_report_row(r, (const char *const[]){point_name(name, v->table, task->point), task->reason != NULL ? task->reason : "-"});
      shown++;
    }
  }
  if (shown < v->failed) {
    kvl_report_text(r, "%u more failed.", v->failed - shown);
  }
}

int kvl_report_of_sweep(struct kvl_report **report, const struct kvl_report_source *src, const struct kvl_sweep_table *table, int *no_pictures,
                        struct kvl_err *err)
{
  struct view v = {.table = table};
  char title[256], subtitle[320], command[1400];
  *report = NULL;
  int rc = read_view(&v, err);
  if (rc == 0) {
    (void)snprintf(title, sizeof title, "%.200s: %u point%s", table->sweep->name, table->points, kvl_text_s(table->points));
    (void)snprintf(subtitle, sizeof subtitle, "Sweep %" PRId64 ", %u of %u run%s complete, kvloan %.60s", table->sweep->id, v.complete, table->points * table->repeats,
                   kvl_text_s((uint64_t)table->points * table->repeats), table->sweep->build);
    *report = kvl_report_create("Sweep", src->title != NULL ? src->title : title, subtitle);
    rc = *report == NULL ? kvl_err_set(err, -ENOMEM, "out of memory for the report") : 0;
  }
  if (rc == 0) {
    asked(*report, &v);
    answer(*report, src, &v);
    kvl_report_section(*report, "In pictures");
    rc = v.complete == 0 ? 0 : kvl_report_picture_code(draw_front(*report, src->gnuplot, &v, err), no_pictures);
    rc = rc != 0 || v.complete == 0 ? rc : draw_lines(*report, src->gnuplot, &v, no_pictures, err);
    every_point(*report, &v);
    failures(*report, &v);
    kvl_report_section(*report, "To repeat it");
    (void)snprintf(command, sizeof command, "%.1000s\nkvloan results table --store=%.300s %" PRId64 "\n", table->sweep->command, src->store_path, table->sweep->id);
    kvl_report_text(*report, "The sweep goes on where it was, or says that everything is there; the order of execution does not change a result.");
    kvl_report_code(*report, command);
    uint32_t best = best_of(&v, OUTPUT);
    for (uint32_t i = 0; best != UINT32_MAX && i < table->repeats; i++) {
      const struct kvl_stored_task *task = &table->task[(size_t)best * table->repeats + i];
      if (task->state == KVL_TASK_COMPLETE) {
        kvl_report_scenario(*report, src->store, task->run, "The scenario of the point with the most output, complete");
        break;
      }
    }
    kvl_report_definitions(*report);
  }
  if (rc != 0) {
    kvl_report_destroy(*report);
    *report = NULL;
  }
  free(v.mean);
  free(v.half);
  free(v.front);
  return rc;
}
