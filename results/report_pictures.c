/* Pictures of a report: numbers into gnuplot's commands, and into the sentence below the heading. */
#include "results/report_pictures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/text.h"

enum { SEE_MAX = 640, WIDE_BINS = 300, NARROW_BINS = 120 };

/* Colours of causes and tiers, the same in every picture. */
static const uint32_t stall_colour[KVL_STALLS] = {
  [KVL_STALL_COMPUTE] = 9,    [KVL_STALL_BOOKKEEPING] = 5,   [KVL_STALL_RESOLVE] = 6,    [KVL_STALL_FETCH] = 3,      [KVL_STALL_LINK_WAIT] = 4,
  [KVL_STALL_PREFETCH_WAIT] = 7, [KVL_STALL_ADMISSION] = 1,  [KVL_STALL_POPULATION] = 0, [KVL_STALL_REVOCATION] = 8, [KVL_STALL_GIVE_BACK] = 2,
};
static const uint32_t tier_colour[KVL_REPORT_TIERS] = {8, 5, 2, 7, 1, 3}; /* scratch, tail, borrowed, bank, hot, host */

static const char *const stall_label[KVL_STALLS] = {
  [KVL_STALL_COMPUTE] = "compute",        [KVL_STALL_BOOKKEEPING] = "bookkeeping",        [KVL_STALL_RESOLVE] = "look-up",
  [KVL_STALL_FETCH] = "fetching misses",  [KVL_STALL_LINK_WAIT] = "waiting for the link", [KVL_STALL_PREFETCH_WAIT] = "waiting for prefetch",
  [KVL_STALL_ADMISSION] = "admission",    [KVL_STALL_POPULATION] = "population copies",   [KVL_STALL_REVOCATION] = "revocation",
  [KVL_STALL_GIVE_BACK] = "give-back",
};
static const char *const tier_label[KVL_REPORT_TIERS] = {"scratch", "fresh tail", "borrowed pages", "candidate bank", "hot cache", "host memory"};

/* ---- over time ---- */

struct over_time {
  const struct kvl_timeline *line;
  unsigned causes; /* bit c: cause c is worth a band; compute is what the bands leave of 100 % */
};

/* Adds `step` bins from b on. */
static void sum_bins(const double *bins, uint32_t columns, uint32_t b, uint32_t step, double *sums)
{
  memset(sums, 0, columns * sizeof *sums);
  for (uint32_t i = b; i < b + step; i++) {
    for (uint32_t c = 0; c < columns; c++) {
      sums[c] += bins[i * columns + c];
    }
  }
}

static uint32_t bins_of(int narrow)
{
  return KVL_TIMELINE_BINS / (uint32_t)(narrow ? NARROW_BINS : WIDE_BINS);
}

static double middle_s(const struct kvl_timeline *line, uint32_t b, uint32_t step)
{
  return ((double)b + (double)step / 2.0) * (double)line->end_ns / 1e9 / KVL_TIMELINE_BINS;
}

static void time_axis(FILE *script, const struct kvl_timeline *line)
{
  (void)fprintf(script, "set xrange [0:%.9g]\nset xlabel 'simulated time, s'\n", (double)line->end_ns / 1e9);
}

static void write_sessions(FILE *script, int narrow, const void *context)
{
  const struct over_time *o = context;
  double sums[KVL_LINES];
  (void)fputs("$d << EOD\n", script);
  for (uint32_t b = 0, step = bins_of(narrow); b < KVL_TIMELINE_BINS; b += step) {
    sum_bins(o->line->bin[0], KVL_LINES, b, step, sums);
    if (sums[KVL_LINE_TIME] > 0.0) {
      (void)fprintf(script, "%.6g\t%.4g\t%.4g\n", middle_s(o->line, b, step), sums[KVL_LINE_BATCH] / sums[KVL_LINE_TIME],
                    sums[KVL_LINE_WAITING] / sums[KVL_LINE_TIME]);
    }
  }
  (void)fputs("EOD\n", script);
  time_axis(script, o->line);
  (void)fprintf(script, "set yrange [0:*]\nset offsets 0, 0, graph 0.05, 0\nset ylabel 'requests'\nplot $d using 1:2 with lines linewidth 2 linecolor rgb '%s'",
                kvl_report_colour(0));
  (void)fprintf(script, ", $d using 1:3 with lines linewidth 1.7 dashtype 2 linecolor rgb '%s'\n", kvl_report_colour(3));
}

int kvl_report_sessions(struct kvl_report *report, const char *gnuplot, const struct kvl_timeline *line, struct kvl_err *err)
{
  struct over_time o = {line, 0};
  char see[SEE_MAX], most[KVL_TEXT_NUMBER_MAX], wait[KVL_TEXT_NUMBER_MAX];
  const struct kvl_report_key key[] = {{"decoding, all decode GPUs", kvl_report_colour(0), 1}, {"waiting for a decode slot", kvl_report_colour(3), 2}};
  const char *decode = line->batch_max == 1.0 ? " decodes" : "s decode";
  if (line->waiting_max > 0.0) {
    (void)snprintf(see, sizeof see, "Up to %s request%s at once on %u decode GPU%s, and up to %s wait for a slot: where the dashed line is above zero, "
                   "memory or a limit on sessions holds requests back.", kvl_text_human(most, line->batch_max, 1), decode, line->gpus, kvl_text_s(line->gpus),
                   kvl_text_human(wait, line->waiting_max, 1));
  } else {
    (void)snprintf(see, sizeof see, "Up to %s request%s at once on %u decode GPU%s, and none ever waits for a slot: whatever makes requests wait is not the "
                   "decode GPUs' memory.", kvl_text_human(most, line->batch_max, 1), decode, line->gpus, kvl_text_s(line->gpus));
  }
  struct kvl_report_picture p = {.title = "Requests decoding and waiting", .see = see, .key = key, .keys = 2, .write = write_sessions, .context = &o};
  return kvl_report_draw(report, gnuplot, &p, err);
}

static void write_hbm(FILE *script, int narrow, const void *context)
{
  const struct over_time *o = context;
  double s[KVL_LINES];
  (void)fputs("$d << EOD\n", script);
  for (uint32_t b = 0, step = bins_of(narrow); b < KVL_TIMELINE_BINS; b += step) {
    sum_bins(o->line->bin[0], KVL_LINES, b, step, s);
    if (s[KVL_LINE_TIME] > 0.0) {
      double part = 100.0 / kvl_timeline_frames(s), reserved = part * s[KVL_LINE_RESERVED], lent = reserved + part * s[KVL_LINE_LENT];
      (void)fprintf(script, "%.6g\t%.4g\t%.4g\t%.4g\t", middle_s(o->line, b, step), reserved, lent, lent + part * s[KVL_LINE_RETIRING]);
      if (s[KVL_LINE_BATCH] > 0.0) {
        (void)fprintf(script, "%.4g", 100.0 * s[KVL_LINE_RESIDENT] / s[KVL_LINE_BATCH]);
      }
      (void)fputc('\n', script);
    }
  }
  (void)fputs("EOD\n", script);
  time_axis(script, o->line);
  (void)fprintf(script, "set yrange [0:100]\nset ytics 0, 20, 100\nset ylabel 'share, %%'\nset grid front\nplot $d using 1:(0):2 with filledcurves linecolor rgb '%s'",
                kvl_report_colour(5));
  if (o->line->lent_max > 0.0) {
    (void)fprintf(script, ", $d using 1:2:3 with filledcurves linecolor rgb '%s'", kvl_report_colour(2));
  }
  if (o->line->retiring_max > 0.0) {
    (void)fprintf(script, ", $d using 1:3:4 with filledcurves linecolor rgb '%s'", kvl_report_colour(3));
  }
  (void)fputs(", $d using 1:4:(100) with filledcurves linecolor rgb '#eeeeee', $d using 1:5 with lines linewidth 2.2 linecolor rgb '#222222'\n", script);
}

int kvl_report_hbm(struct kvl_report *report, const char *gnuplot, const struct kvl_timeline *line, struct kvl_err *err)
{
  struct over_time o = {line, 0};
  struct kvl_report_key key[5];
  char see[SEE_MAX];
  uint32_t keys = 0;
  key[keys++] = (struct kvl_report_key){"reserved for sessions", kvl_report_colour(5), 0};
  if (line->lent_max > 0.0) {
    key[keys++] = (struct kvl_report_key){"lent as history pages", kvl_report_colour(2), 0};
  }
  if (line->retiring_max > 0.0) {
    key[keys++] = (struct kvl_report_key){"retiring", kvl_report_colour(3), 0};
  }
  key[keys++] = (struct kvl_report_key){"free", "#eeeeee", 0};
  key[keys++] = (struct kvl_report_key){"share of the running histories in HBM", "#222222", 1};
  if (line->lent_max > 0.0) {
    (void)snprintf(see, sizeof see, "Who holds the pool. Lent pages take up to %.0f %% of it, and %.0f %% while the batch was at its largest: what new sessions reserve comes out "
                   "of the loans, and what ended sessions leave goes back into them. The line says how much of the running sessions' history attention finds "
                   "in HBM.", line->lent_max, line->lent_at_full);
  } else {
    (void)snprintf(see, sizeof see, "Who holds the pool. Nothing is lent in this mode: what is not reserved stays free. The line says how much of the running "
                   "sessions' history attention finds in HBM as whole pages.");
  }
  struct kvl_report_picture p = {.title = "Who holds the HBM", .see = see, .key = key, .keys = keys, .write = write_hbm, .context = &o};
  return kvl_report_draw(report, gnuplot, &p, err);
}

static void write_time(FILE *script, int narrow, const void *context)
{
  const struct over_time *o = context;
  double s[KVL_STALLS];
  uint32_t step = 2 * bins_of(narrow); /* steps are sampled: fewer bins, smoother bands */
  (void)fputs("$d << EOD\n", script);
  for (uint32_t b = 0; b < KVL_TIMELINE_BINS; b += step) {
    double all = 0.0, below = 0.0;
    sum_bins(o->line->stall_ns[0], KVL_STALLS, b, step, s);
    for (int c = 0; c < KVL_STALLS; c++) {
      all += s[c];
    }
    if (!(all > 0.0)) {
      (void)fputc('\n', script);
      continue;
    }
    (void)fprintf(script, "%.6g\t0", middle_s(o->line, b, step));
    for (int c = 0; c < KVL_STALLS; c++) {
      below += c == KVL_STALL_COMPUTE ? 0.0 : 100.0 * s[c] / all;
      (void)fprintf(script, "\t%.4g", below);
    }
    (void)fputc('\n', script);
  }
  (void)fputs("EOD\n", script);
  time_axis(script, o->line);
  (void)fputs("set yrange [0:*]\nset ylabel 'not compute, % of time'\nset grid front\nplot ", script);
  const char *separator = "";
  for (int c = 0; c < KVL_STALLS; c++) {
    if (o->causes >> c & 1u) {
      (void)fprintf(script, "%s$d using 1:%d:%d with filledcurves linecolor rgb '%s'", separator, c + 2, c + 3, kvl_report_colour(stall_colour[c]));
      separator = ", ";
    }
  }
  (void)fputc('\n', script);
}

int kvl_report_time(struct kvl_report *report, const char *gnuplot, const struct kvl_timeline *line, struct kvl_err *err)
{
  struct over_time o = {line, 0};
  struct kvl_report_key key[KVL_STALLS];
  double sums[KVL_STALLS], all = 0.0;
  uint32_t keys = 0;
  int worst = KVL_STALL_BOOKKEEPING;
  char see[SEE_MAX];
  sum_bins(line->stall_ns[0], KVL_STALLS, 0, KVL_TIMELINE_BINS, sums);
  for (int c = 0; c < KVL_STALLS; c++) {
    all += sums[c];
    worst = c != KVL_STALL_COMPUTE && sums[c] > sums[worst] ? c : worst;
  }
  if (!(all > 0.0) || !(all > sums[KVL_STALL_COMPUTE])) { /* all of it is compute: the table says so */
    return 0;
  }
  for (int c = 0; c < KVL_STALLS; c++) {
    if (c != KVL_STALL_COMPUTE && sums[c] > 0.0005 * all) {
      o.causes |= 1u << c;
      key[keys++] = (struct kvl_report_key){stall_label[c], kvl_report_colour(stall_colour[c]), 0};
    }
  }
  (void)snprintf(see, sizeof see, "%.1f %% of the time of decode steps and the gaps between them is the model's own compute; the bands are the rest, above all %s (%.1f %%). A band "
                 "that swells tells when something holds the batch up.", 100.0 * sums[KVL_STALL_COMPUTE] / all, stall_label[worst],
                 100.0 * sums[worst] / all);
  struct kvl_report_picture p = {.title = "What a decode GPU's time goes into besides compute", .see = see, .key = key, .keys = keys, .write = write_time, .context = &o};
  return kvl_report_draw(report, gnuplot, &p, err);
}

/* ---- stacked bars ---- */

enum { BARS_MAX = 128, PARTS_MAX = 16 };

struct bars {
  uint32_t bars, parts;
  double part[BARS_MAX][PARTS_MAX];
  char name[BARS_MAX][32];
  uint32_t colour[PARTS_MAX];
  unsigned shown; /* bit p: part p is worth a patch */
  const char *x, *y;
  int percent;
};

static void write_bars(FILE *script, int narrow, const void *context)
{
  const struct bars *b = context;
  uint32_t labels = narrow ? 10 : 24, every = (b->bars + labels - 1) / labels;
  (void)fputs("$d << EOD\n", script);
  for (uint32_t i = 0; i < b->bars; i++) {
    double below = 0.0;
    (void)fprintf(script, "%u\t0", i);
    for (uint32_t p = 0; p < b->parts; p++) {
      below += b->part[i][p];
      (void)fprintf(script, "\t%.6g", below);
    }
    (void)fputc('\n', script);
  }
  (void)fputs("EOD\nset xlabel ", script);
  kvl_plot_quote(script, b->x);
  (void)fputs("\nset ylabel ", script);
  kvl_plot_quote(script, b->y);
  (void)fprintf(script, "\nset xrange [-0.6:%.1f]\nset yrange [0:%s]\nset xtics (", (double)b->bars - 0.4, b->percent ? "100" : "*");
  for (uint32_t i = 0; i < b->bars; i += every) {
    (void)fputs(i == 0 ? "" : ", ", script);
    kvl_plot_quote(script, b->name[i]);
    (void)fprintf(script, " %u", i);
  }
  (void)fprintf(script, ") scale 0\nset grid front\nhalf = %g\nplot ", b->bars > 12 ? 0.42 : 0.32);
  const char *separator = "";
  for (uint32_t p = 0; p < b->parts; p++) {
    if (b->shown >> p & 1u) {
      (void)fprintf(script, "%s$d using 1:%u:($1-half):($1+half):%u:%u with boxxyerror linecolor rgb '%s'", separator, p + 3, p + 2, p + 3,
                    kvl_report_colour(b->colour[p]));
      separator = ", ";
    }
  }
  (void)fputc('\n', script);
}

/* Which parts anybody can see, and the legend for them. */
static uint32_t bars_legend(struct bars *b, const char *const *labels, struct kvl_report_key key[PARTS_MAX])
{
  uint32_t keys = 0;
  double all = 0.0;
  for (uint32_t i = 0; i < b->bars; i++) {
    for (uint32_t p = 0; p < b->parts; p++) {
      all = b->part[i][p] > all ? b->part[i][p] : all;
    }
  }
  for (uint32_t p = 0; p < b->parts; p++) {
    double most = 0.0;
    for (uint32_t i = 0; i < b->bars; i++) {
      most = b->part[i][p] > most ? b->part[i][p] : most;
    }
    if (most > 0.001 * all) {
      b->shown |= 1u << p;
      key[keys++] = (struct kvl_report_key){labels[p], kvl_report_colour(b->colour[p]), 0};
    }
  }
  return keys;
}

struct layers {
  struct kvl_point_counter point[BARS_MAX];
  uint32_t count;
};

static int collect_point(void *context, const struct kvl_point_counter *p)
{
  struct layers *l = context;
  if (p->point >= BARS_MAX) {
    return 0;
  }
  struct kvl_point_counter *to = &l->point[p->point];
  l->count = p->point >= l->count ? p->point + 1 : l->count;
  to->layer = p->layer;
  for (int t = 0; t < KVL_REPORT_TIERS; t++) {
    to->lanes[t] += p->lanes[t];
  }
  return 0;
}

int kvl_report_layers(struct kvl_report *report, const char *gnuplot, struct kvl_store *store, int64_t run, struct kvl_err *err)
{
  struct layers *l = calloc(1, sizeof *l);
  struct bars *b = calloc(1, sizeof *b);
  int rc = l == NULL || b == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : kvl_store_each_point(store, run, collect_point, l, err);
  uint32_t worst = 0;
  double worst_share = -1.0;
  for (uint32_t i = 0; rc == 0 && i < l->count; i++) {
    double all = 0.0;
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      all += (double)l->point[i].lanes[t];
    }
    if (!(all > 0.0)) {
      continue;
    }
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      b->part[b->bars][t] = 100.0 * (double)l->point[i].lanes[t] / all;
    }
    (void)snprintf(b->name[b->bars], sizeof b->name[0], "%u", l->point[i].layer);
    double share = b->part[b->bars][KVL_REPORT_TIERS - 1];
    worst = share > worst_share ? b->bars : worst;
    worst_share = share > worst_share ? share : worst_share;
    b->bars++;
  }
  if (rc == 0 && b->bars > 0) {
    struct kvl_report_key key[PARTS_MAX];
    char see[SEE_MAX];
    b->parts = KVL_REPORT_TIERS;
    b->percent = 1;
    b->x = "layer that selects";
    b->y = "selected rows, %";
    memcpy(b->colour, tier_colour, sizeof tier_colour);
    uint32_t keys = bars_legend(b, tier_label, key);
    (void)snprintf(see, sizeof see, "Each bar is a layer that selects rows; its parts say in which tier they were found. Only the part in host memory crosses the link: at "
                   "most %.2f %%, at layer %s.", worst_share, b->name[worst]);
    struct kvl_report_picture p = {.title = "Where each layer finds its rows", .see = see, .key = key, .keys = keys, .write = write_bars, .context = b};
    rc = kvl_report_draw(report, gnuplot, &p, err);
  }
  free(l);
  free(b);
  return rc;
}

int kvl_report_steps(struct kvl_report *report, const char *gnuplot, const struct kvl_report_runs *runs, struct kvl_err *err)
{
  struct bars *b = calloc(1, sizeof *b);
  if (b == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  struct kvl_report_key key[PARTS_MAX];
  char see[SEE_MAX];
  double low = INFINITY, high = 0.0;
  const char *least = "", *most = "";
  b->parts = KVL_STALLS;
  b->x = "run";
  b->y = "ms a decode step";
  memcpy(b->colour, stall_colour, sizeof stall_colour);
  for (uint32_t r = 0; r < runs->count && r < KVL_REPORT_RUNS_MAX; r++) {
    const struct kvl_summary *s = &runs->run[r]->summary;
    double all = 0.0;
    for (int c = 0; c < KVL_STALLS; c++) {
      b->part[r][c] = s->steps > 0 ? s->stall_ms_by_cause[c] / (double)s->steps : 0.0;
      all += b->part[r][c];
    }
    least = all < low ? runs->labels[r] : least;
    low = all < low ? all : low;
    most = all > high ? runs->labels[r] : most;
    high = all > high ? all : high;
    (void)snprintf(b->name[r], sizeof b->name[0], "%s", runs->marks[r]);
    b->bars++;
  }
  uint32_t keys = bars_legend(b, stall_label, key);
  (void)snprintf(see, sizeof see, "How long a decode step takes, with the gap before it, and why: from %.4g ms (%.80s) to %.4g ms (%.80s). Larger batches take longer steps, so "
                 "a taller bar is not a worse run.", low, least, high, most);
  struct kvl_report_picture p = {.title = "A decode step by cause", .see = see, .key = key, .keys = keys, .write = write_bars, .context = b};
  int rc = high > 0.0 ? kvl_report_draw(report, gnuplot, &p, err) : 0;
  free(b);
  return rc;
}

int kvl_report_tiers(struct kvl_report *report, const char *gnuplot, const struct kvl_report_runs *runs, struct kvl_err *err)
{
  struct bars *b = calloc(1, sizeof *b);
  if (b == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  struct kvl_report_key key[PARTS_MAX];
  char see[SEE_MAX];
  b->parts = KVL_REPORT_TIERS;
  b->percent = 1;
  b->x = "run";
  b->y = "selected rows, %";
  memcpy(b->colour, tier_colour, sizeof tier_colour);
  for (uint32_t r = 0; r < runs->count && r < KVL_REPORT_RUNS_MAX; r++) {
    const struct kvl_summary *s = &runs->run[r]->summary;
    if (s->selections_total == 0) {
      continue;
    }
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      b->part[b->bars][t] = 100.0 * (double)s->selections_by_tier[t] / (double)s->selections_total;
    }
    (void)snprintf(b->name[b->bars], sizeof b->name[0], "%s", runs->marks[r]);
    b->bars++;
  }
  uint32_t keys = bars_legend(b, tier_label, key);
  (void)snprintf(see, sizeof see, "In which tier the selected rows were found. Rows in host memory cross the link on demand and hold up their step%s.",
                 b->bars < runs->count ? "; runs that resolve no selections have no bar" : "");
  struct kvl_report_picture p = {.title = "Where selected rows are found", .see = see, .key = key, .keys = keys, .write = write_bars, .context = b};
  int rc = b->bars > 0 ? kvl_report_draw(report, gnuplot, &p, err) : 0;
  free(b);
  return rc;
}

/* ---- distributions ---- */

struct curves {
  double (*value)[KVL_PLOT_QUANTILES + 1]; /* one a run */
  uint32_t count;
  const char *x;
};

static void write_curves(FILE *script, int narrow, const void *context)
{
  const struct curves *c = context;
  double low = INFINITY, high = 0.0;
  uint32_t step = narrow ? 4 : 2;
  for (uint32_t r = 0; r < c->count; r++) {
    (void)fprintf(script, "$d%u << EOD\n", r);
    for (uint32_t q = 0; q <= KVL_PLOT_QUANTILES; q += step) {
      double v = c->value[r][q];
      if (!isnan(v)) {
        (void)fprintf(script, "%.6g\t%.4g\n", v, 100.0 * q / KVL_PLOT_QUANTILES);
        low = v < low ? v : low;
        high = v > high ? v : high;
      }
    }
    (void)fputs("EOD\n", script);
  }
  if (low > 0.0 && high > 20.0 * low) {
    kvl_plot_log_axis(script, 'x', low, high);
  } else {
    (void)fputs("set xrange [0:*]\n", script);
  }
  (void)fputs("set yrange [0:100]\nset ytics 0, 25, 100\nset grid xtics\nset ylabel 'requests up to here, %'\nset xlabel ", script);
  kvl_plot_quote(script, c->x);
  const char *separator = "\nplot ";
  for (uint32_t r = 0; r < c->count; r++) {
    if (!isnan(c->value[r][0])) {
      (void)fprintf(script, "%s$d%u using 1:2 with lines linewidth 2 dashtype %d linecolor rgb '%s'", separator, r, kvl_plot_style_at(r).dash, kvl_report_colour(r));
      separator = ", ";
    }
  }
  (void)fputc('\n', script);
}

static int draw_curves(struct kvl_report *report, const char *gnuplot, struct curves *c, const struct kvl_report_runs *runs, const char *title,
                       const char *see, struct kvl_err *err)
{
  struct kvl_report_key key[KVL_REPORT_RUNS_MAX];
  int any = 0;
  for (uint32_t r = 0; r < c->count; r++) {
    key[r] = (struct kvl_report_key){runs->labels[r], kvl_report_colour(r), kvl_plot_style_at(r).dash};
    any |= !isnan(c->value[r][0]);
  }
  struct kvl_report_picture p = {.title = title, .see = see, .key = key, .keys = c->count > 1 ? c->count : 0, .write = write_curves, .context = c};
  return any ? kvl_report_draw(report, gnuplot, &p, err) : 0;
}

int kvl_report_distributions(struct kvl_report *report, const char *gnuplot, struct kvl_store *store, const struct kvl_report_runs *runs,
                             struct kvl_err *err)
{
  uint32_t count = runs->count < KVL_REPORT_RUNS_MAX ? runs->count : KVL_REPORT_RUNS_MAX;
  double (*ttft)[KVL_PLOT_QUANTILES + 1] = calloc(count, sizeof *ttft), (*rate)[KVL_PLOT_QUANTILES + 1] = calloc(count, sizeof *rate);
  int rc = ttft == NULL || rate == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : 0;
  for (uint32_t r = 0; r < count && rc == 0; r++) {
    rc = kvl_plot_quantiles(store, runs->run[r]->id, ttft[r], rate[r], err);
  }
  if (rc == 0) {
    char see[SEE_MAX], a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX];
    struct curves t = {ttft, count, "time to first token, s"}, v = {rate, count, "tokens a second of one request, after its first"};
    if (count == 1) {
      (void)snprintf(see, sizeof see, "How long clients wait for their first token, from submission on: half of them less than %s s, nine in ten less than %s s.",
                     kvl_text_human(a, runs->run[0]->summary.ttft_s.p50, 0), kvl_text_human(b, runs->run[0]->summary.ttft_s.p90, 0));
    } else {
      (void)snprintf(see, sizeof see, "How long clients wait for their first token, from submission on: a curve further to the left is better. Read off nine in ten "
                     "requests at 90 %%.");
    }
    rc = draw_curves(report, gnuplot, &t, runs, "Time to first token", see, err);
    if (count == 1) {
      (void)snprintf(see, sizeof see, "How fast answers run once they have begun: half of the requests faster than %s tok/s, nine in ten faster than %s tok/s.",
                     kvl_text_human(a, runs->run[0]->summary.request_rate_tok_per_s_p50, 0),
                     kvl_text_human(b, runs->run[0]->summary.request_rate_tok_per_s_p10, 0));
    } else {
      (void)snprintf(see, sizeof see, "How fast answers run once they have begun: a curve further to the right is better. Read off the slowest tenth of the requests at 10 %%.");
    }
    rc = rc != 0 ? rc : draw_curves(report, gnuplot, &v, runs, "Rate of one request", see, err);
  }
  free(ttft);
  free(rate);
  return rc;
}

/* ---- the trade ---- */

struct tradeoff {
  const struct kvl_stored_run *const *run;
  const char *const *marks;
  uint32_t count;
  struct kvl_plot_mark *place;
};

static uint32_t mode_colour(const char *mode)
{
  return strcmp(mode, "resident") == 0 ? 0 : strcmp(mode, "fixed") == 0 ? 1 : strcmp(mode, "adaptive") == 0 ? 2 : 3;
}

static void write_tradeoff(FILE *script, int narrow, const void *context)
{
  const struct tradeoff *t = context;
  double x_max = 0.0, y_max = 0.0;
  for (uint32_t r = 0; r < t->count; r++) {
    const struct kvl_summary *s = &t->run[r]->summary;
    x_max = s->request_rate_tok_per_s_p10 > x_max ? s->request_rate_tok_per_s_p10 : x_max;
    y_max = s->output_throughput_tok_per_s > y_max ? s->output_throughput_tok_per_s : y_max;
  }
  x_max = x_max > 0.0 ? 1.12 * x_max : 1.0;
  y_max = y_max > 0.0 ? 1.1 * y_max : 1.0;
  /* the area inside of the margins, as they come out with these fonts */
  double width = narrow ? 285 : 760, height = narrow ? 222 : 265, font = narrow ? 12 : 14;
  for (uint32_t r = 0; r < t->count; r++) {
    const struct kvl_summary *s = &t->run[r]->summary;
    t->place[r] = (struct kvl_plot_mark){.x = width * s->request_rate_tok_per_s_p10 / x_max, .y = height * s->output_throughput_tok_per_s / y_max,
                                         .columns = (uint32_t)kvl_text_columns(t->marks[r])};
  }
  kvl_plot_place_marks(t->place, t->count, width, height, font);
  for (uint32_t r = 0; r < t->count; r++) {
    const struct kvl_summary *s = &t->run[r]->summary;
    (void)fprintf(script, "set label %u ", r + 1);
    kvl_plot_quote(script, t->marks[r]);
    (void)fprintf(script, " at %.9g, %.9g center offset graph %.4f, graph %.4f textcolor rgb '#222222' front\n", s->request_rate_tok_per_s_p10,
                  s->output_throughput_tok_per_s, t->place[r].dx / width, t->place[r].dy / height);
    if (hypot(t->place[r].dx, t->place[r].dy) > 1.8 * font) { /* whose it is */
      (void)fprintf(script, "set arrow from %.9g, %.9g to %.9g, %.9g nohead linecolor rgb '#999999' back\n", s->request_rate_tok_per_s_p10, s->output_throughput_tok_per_s,
                    s->request_rate_tok_per_s_p10 + 0.75 * t->place[r].dx / width * x_max, s->output_throughput_tok_per_s + 0.7 * t->place[r].dy / height * y_max);
    }
  }
  (void)fprintf(script, "set xrange [0:%.9g]\nset yrange [0:%.9g]\nset grid xtics\nset xlabel 'rate of one request, the slowest tenth, tok/s'\n"
                "set ylabel 'output, tok/s'\n", x_max, y_max);
  const char *separator = "";
  for (uint32_t c = 0; c < 4; c++) {
    (void)fprintf(script, "$m%u << EOD\n", c);
    for (uint32_t r = 0; r < t->count; r++) {
      const struct kvl_summary *s = &t->run[r]->summary;
      if (mode_colour(t->run[r]->mode) == c) {
        (void)fprintf(script, "%.9g\t%.9g\n", s->request_rate_tok_per_s_p10, s->output_throughput_tok_per_s);
      }
    }
    (void)fputs("EOD\n", script);
  }
  (void)fputs("plot ", script);
  for (uint32_t c = 0; c < 4; c++) {
    for (uint32_t r = 0; r < t->count; r++) {
      if (mode_colour(t->run[r]->mode) == c) {
        (void)fprintf(script, "%s$m%u using 1:2 with points pointtype 7 pointsize 1.1 linecolor rgb '%s'", separator, c, kvl_report_colour(c));
        separator = ", ";
        break;
      }
    }
  }
  (void)fputc('\n', script);
}

int kvl_report_tradeoff(struct kvl_report *report, const char *gnuplot, const struct kvl_stored_run *const *runs, const char *const *marks,
                        uint32_t count, struct kvl_err *err)
{
  static const char *const names[] = {"resident", "fixed", "adaptive", "other"};
  struct tradeoff t = {runs, marks, count, calloc(count + 1u, sizeof *t.place)};
  if (t.place == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory for the picture of the trade");
  }
  struct kvl_report_key key[4];
  uint32_t keys = 0;
  for (uint32_t c = 0; c < 4; c++) {
    for (uint32_t r = 0; r < count; r++) {
      if (mode_colour(runs[r]->mode) == c) {
        key[keys++] = (struct kvl_report_key){names[c], kvl_report_colour(c), -1};
        break;
      }
    }
  }
  struct kvl_report_picture p = {.title = "The trade: throughput against the rate of one request", .see = "Up is more output for the whole node, right is a faster answer for each "
                                 "client (nine requests in ten are at least as fast). A run below and to the left of another loses on both.",
                                 .key = key, .keys = keys, .write = write_tradeoff, .context = &t, .wide_height = 340, .narrow_height = 290};
  int rc = kvl_report_draw(report, gnuplot, &p, err);
  free(t.place);
  return rc;
}
