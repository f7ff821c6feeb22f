/* The report of a comparison: several runs beside each other. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "results/compare.h"
#include "results/report_pictures.h"
#include "results/summary_internal.h"
#include "results/text.h"
#include "sim/report_runs.h"
#include "sim/scenario_diff.h"

enum { LABEL_MAX = 160, MARK_MAX = 16, VALUE_MAX = 48, COLUMNS_MAX = 12 };

struct runs {
  const struct kvl_report_source *src;
  struct kvl_settings settings;
  const char **value;                 /* room for one a run */
  char (*label)[LABEL_MAX], (*mark)[MARK_MAX];
  const char **labels, **marks;
  uint32_t differing;                 /* keys */
};

static const struct kvl_summary *summary_of(const struct runs *v, uint32_t r)
{
  return &v->src->run[r]->summary;
}

/* "A" to "Z", then by number. */
static void make_mark(char mark[MARK_MAX], uint32_t r)
{
  if (r < 26) {
    (void)snprintf(mark, MARK_MAX, "%c", (char)('A' + (char)r));
  } else {
    (void)snprintf(mark, MARK_MAX, "%" PRIu32, r + 1);
  }
}

static int is_remark(const char *key)
{
  return strcmp(key, "note") == 0 || strcmp(key, "name") == 0;
}

/* What tells runs apart: their mode and the few keys that differ, else their names. */
static void make_labels(struct runs *v)
{
  for (size_t at = 0; at < v->settings.count;) {
    const char *key = v->settings.item[at].key;
    at = kvl_settings_at(&v->settings, at, v->value, v->src->count);
    v->differing += !kvl_settings_same(v->value, v->src->count) && !is_remark(key);
  }
  for (uint32_t r = 0; r < v->src->count; r++) {
    const struct kvl_stored_run *run = v->src->run[r];
    int used = snprintf(v->label[r], LABEL_MAX, "%s: ", v->mark[r]);
    if (v->differing == 0 || v->differing > 2) {
      (void)snprintf(v->label[r] + used, LABEL_MAX - (size_t)used, "%.80s, %.40s", run->name, run->mode);
    }
  }
  const char *separator = "";
  for (size_t at = 0; at < v->settings.count && v->differing > 0 && v->differing <= 2;) {
    const char *key = v->settings.item[at].key, *dot = strrchr(key, '.');
    at = kvl_settings_at(&v->settings, at, v->value, v->src->count);
    if (kvl_settings_same(v->value, v->src->count) || is_remark(key)) {
      continue;
    }
    for (uint32_t r = 0; r < v->src->count; r++) {
      size_t used = strlen(v->label[r]);
      const char *text = v->value[r] != NULL ? v->value[r] : "-";
      int quoted = text[0] == '"' && strlen(text) > 1;
      int length = (int)strlen(text) - (quoted ? 2 : 0);
      (void)snprintf(v->label[r] + used, LABEL_MAX - used, "%s%s%s%.*s", separator, strcmp(key, "mode") == 0 ? "" : dot != NULL ? dot + 1 : key,
                     strcmp(key, "mode") == 0 ? "" : " ", length < 40 ? length : 40, text + quoted);
    }
    separator = ", ";
  }
}

static uint32_t best_of(const struct runs *v, double (*figure)(const struct kvl_summary *), int most)
{
  uint32_t best = 0;
  for (uint32_t r = 1; r < v->src->count; r++) {
    double now = figure(summary_of(v, r)), then = figure(summary_of(v, best));
    best = (most ? now > then : now < then) ? r : best;
  }
  return best;
}

static double output_of(const struct kvl_summary *s)
{
  return s->output_throughput_tok_per_s;
}

static double ttft_of(const struct kvl_summary *s)
{
  return s->ttft_s.p90;
}

static double rate_of(const struct kvl_summary *s)
{
  return s->request_rate_tok_per_s_p10;
}

/* Once for all runs that it is true of: "A, B: Stand-ins, ...". */
static void stand_ins(struct kvl_report *r, const struct runs *v)
{
  char text[2][KVL_REPORT_NOTE_MAX], marks[256];
  for (uint32_t i = 0; i < v->src->count; i++) {
    bool told = !kvl_report_stand_ins(v->src, v->src->run[i]->id, text[0], sizeof text[0]);
    for (uint32_t j = 0; j < i && !told; j++) {
      told = kvl_report_stand_ins(v->src, v->src->run[j]->id, text[1], sizeof text[1]) && strcmp(text[0], text[1]) == 0;
    }
    int used = told ? 0 : snprintf(marks, sizeof marks, "%s", v->marks[i]);
    for (uint32_t j = i + 1; j < v->src->count && !told && (size_t)used < sizeof marks - MARK_MAX - 2; j++) {
      if (kvl_report_stand_ins(v->src, v->src->run[j]->id, text[1], sizeof text[1]) && strcmp(text[0], text[1]) == 0) {
        used += snprintf(marks + used, sizeof marks - (size_t)used, ", %s", v->marks[j]);
      }
    }
    if (!told) {
      kvl_report_note(r, "%s: %s.", marks, text[0]);
    }
  }
}

static void answer(struct kvl_report *r, const struct runs *v)
{
  uint32_t output = best_of(v, output_of, 1), ttft = best_of(v, ttft_of, 0), rate = best_of(v, rate_of, 1);
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], against[128] = "";
  kvl_report_section(r, "The answer");
  if (output != 0) {
    (void)snprintf(against, sizeof against, ", %+.1f %% against %.80s", kvl_compare_difference(output_of(summary_of(v, 0)), output_of(summary_of(v, output))), v->labels[0]);
  }
  kvl_report_lead(r, "Most output: %s, %s tok/s%s.", v->labels[output], kvl_text_human(a, output_of(summary_of(v, output)), 0), against);
  kvl_report_text(r, "Shortest wait for the first token (p90): %s, %s s. Fastest answers (the rate that nine requests in ten reach): %s, %s tok/s. %s", v->labels[ttft],
                  kvl_text_human(a, ttft_of(summary_of(v, ttft)), 0), v->labels[rate], kvl_text_human(b, rate_of(summary_of(v, rate)), 0),
                  output == ttft && ttft == rate ? "One run is best in all three." : "No run is best in all three: it is a trade.");
  for (uint32_t i = 0; i < v->src->count; i++) {
    char prefix[MARK_MAX + 4];
    (void)snprintf(prefix, sizeof prefix, "%s: ", v->marks[i]);
    kvl_report_cautions(r, v->src->run[i], prefix);
  }
  stand_ins(r, v);
  static const char *const columns[] = {"run", "id", "output, tok/s", "against A", "request p10, tok/s", "first token p90, s", "batch p50", "batch max",
                                        "rows on the host, %", "links busy, %", "prefill busy, %"};
  kvl_report_table(r, columns, sizeof columns / sizeof columns[0], "lrrrrrrrrrr");
  for (uint32_t i = 0; i < v->src->count; i++) {
    const struct kvl_summary *s = summary_of(v, i);
    char cell[COLUMNS_MAX][KVL_TEXT_NUMBER_MAX];
    (void)snprintf(cell[1], sizeof cell[1], "%" PRId64, v->src->run[i]->id);
    (void)kvl_text_human(cell[2], s->output_throughput_tok_per_s, 0);
    (void)snprintf(cell[3], sizeof cell[3], "%+.1f %%", kvl_compare_difference(output_of(summary_of(v, 0)), s->output_throughput_tok_per_s));
    (void)kvl_text_human(cell[4], s->request_rate_tok_per_s_p10, 0);
    (void)kvl_text_human(cell[5], s->ttft_s.p90, 0);
    (void)kvl_text_human(cell[6], s->decode_batch_p50, 1);
    (void)kvl_text_human(cell[7], s->decode_batch_max, 1);
    (void)snprintf(cell[8], sizeof cell[8], "%.2f", s->selections_total > 0 ? 100.0 * (double)s->selections_by_tier[KVL_REPORT_TIERS - 1] / (double)s->selections_total : 0.0);
    (void)snprintf(cell[9], sizeof cell[9], "%.1f", 100.0 * s->host_link_busy_share);
    (void)snprintf(cell[10], sizeof cell[10], "%.0f", 100.0 * s->prefill_busy_share);
    kvl_report_row(r, (const char *const[]){v->labels[i], cell[1], cell[2], i == 0 ? "" : cell[3], cell[4], cell[5], cell[6], cell[7], s->selections_total > 0 ? cell[8] : "-",
                                            cell[9], cell[10]});
  }
}

static void shorten(char text[VALUE_MAX], const char *value)
{
  size_t length = value != NULL ? strlen(value) : 0;
  if (length > 1 && value[0] == '"' && value[length - 1] == '"') { /* a JSON string, for reading */
    value++;
    length -= 2;
  }
  (void)snprintf(text, VALUE_MAX, "%.*s%s", length < VALUE_MAX - 4 ? (int)length : VALUE_MAX - 4, value != NULL ? value : "-", length < VALUE_MAX - 4 ? "" : "...");
}

static void asked(struct kvl_report *r, const struct runs *v)
{
  const char *columns[KVL_REPORT_COLUMNS_MAX] = {"key"};
  const char *cells[KVL_REPORT_COLUMNS_MAX];
  char align[KVL_REPORT_COLUMNS_MAX + 1], text[KVL_REPORT_COLUMNS_MAX][VALUE_MAX];
  uint32_t shown = v->src->count < KVL_REPORT_COLUMNS_MAX - 1 ? v->src->count : KVL_REPORT_COLUMNS_MAX - 1;
  kvl_report_section(r, "What was asked");
  if (v->differing == 0) {
    kvl_report_text(r, "How do %u runs of the same scenario compare? Their scenarios do not differ: neither may their results, unless their builds do.", v->src->count);
    return;
  }
  kvl_report_text(r, "How do %u runs compare whose scenarios differ in %s?", v->src->count, v->differing == 1 ? "one key" : "the keys below");
  memset(align, 'l', sizeof align);
  align[shown + 1] = '\0';
  for (uint32_t i = 0; i < shown; i++) {
    columns[i + 1] = v->marks[i];
  }
  kvl_report_table(r, columns, shown + 1, align);
  for (size_t at = 0; at < v->settings.count;) {
    cells[0] = v->settings.item[at].key;
    at = kvl_settings_at(&v->settings, at, v->value, v->src->count);
    if (kvl_settings_same(v->value, v->src->count) || is_remark(cells[0])) {
      continue;
    }
    for (uint32_t i = 0; i < shown; i++) {
      shorten(text[i], v->value[i]);
      cells[i + 1] = text[i];
    }
    kvl_report_row(r, cells);
  }
}

static int evidence(struct kvl_report *r, const struct runs *v, int *no_pictures, struct kvl_err *err)
{
  const struct kvl_report_source *src = v->src;
  struct kvl_report_runs runs = {src->run, v->labels, v->marks, src->count};
  kvl_report_section(r, "Beside each other");
  int rc = kvl_report_picture_code(kvl_report_tradeoff(r, src->gnuplot, src->run, v->marks, src->count, err), no_pictures);
  if (src->count > KVL_REPORT_RUNS_MAX) {
    kvl_report_text(r, "Curves and bars would be too many for %u runs: they are drawn for up to %d.", src->count, (int)KVL_REPORT_RUNS_MAX);
    return rc;
  }
  rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_distributions(r, src->gnuplot, src->store, &runs, err), no_pictures);
  rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_steps(r, src->gnuplot, &runs, err), no_pictures);
  return rc != 0 ? rc : kvl_report_picture_code(kvl_report_tiers(r, src->gnuplot, &runs, err), no_pictures);
}

static void every_key(struct kvl_report *r, const struct runs *v)
{
  const char *columns[KVL_REPORT_COLUMNS_MAX] = {"key", "unit"}, *cells[KVL_REPORT_COLUMNS_MAX];
  char align[KVL_REPORT_COLUMNS_MAX + 1], text[KVL_REPORT_COLUMNS_MAX][KVL_SUMMARY_TEXT_MAX];
  uint32_t shown = v->src->count < KVL_REPORT_COLUMNS_MAX - 2 ? v->src->count : KVL_REPORT_COLUMNS_MAX - 2;
  memset(align, 'r', sizeof align);
  align[0] = align[1] = 'l';
  align[shown + 2] = '\0';
  for (uint32_t i = 0; i < shown; i++) {
    columns[i + 2] = v->marks[i];
  }
  kvl_report_fold(r, "Every number of the summaries");
  kvl_report_table(r, columns, shown + 2, align);
  for (uint32_t k = 0; k < kvl_summary_key_count(); k++) {
    cells[0] = kvl_summary_key_at(k)->name;
    for (uint32_t i = 0; i < shown; i++) {
      const char *unit;
      char cell[KVL_TEXT_NUMBER_MAX];
      (void)snprintf(text[i], KVL_SUMMARY_TEXT_MAX, "%s", kvl_summary_cell(cell, summary_of(v, i), k, 1, &unit));
      cells[1] = unit;
      cells[i + 2] = text[i];
    }
    kvl_report_row(r, cells);
  }
}

static int build(struct kvl_report **report, struct runs *v, int *no_pictures, struct kvl_err *err)
{
  const struct kvl_report_source *src = v->src;
  char title[256], subtitle[256];
  int same = 1;
  for (uint32_t i = 1; i < src->count; i++) {
    same &= strcmp(src->run[i]->name, src->run[0]->name) == 0;
  }
  make_labels(v);
  (void)snprintf(title, sizeof title, "%u runs of %.150s", src->count, same ? src->run[0]->name : "several scenarios");
  (void)snprintf(subtitle, sizeof subtitle, "Runs %" PRId64 " to %" PRId64 " of one store, kvloan %.60s", src->run[0]->id, src->run[src->count - 1]->id, src->run[0]->build);
  *report = kvl_report_create("Comparison", src->title != NULL ? src->title : title, subtitle);
  if (*report == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory for the report");
  }
  asked(*report, v);
  answer(*report, v);
  int rc = evidence(*report, v, no_pictures, err);
  kvl_report_commands(*report, src);
  every_key(*report, v);
  kvl_report_scenario(*report, src->store, src->run[0]->id, "The scenario of the first run, complete");
  kvl_report_definitions(*report);
  return rc;
}

int kvl_report_of_runs(struct kvl_report **report, const struct kvl_report_source *src, int *no_pictures, struct kvl_err *err)
{
  struct runs v = {.src = src};
  int64_t *ids = calloc(src->count, sizeof *ids);
  v.value = calloc(src->count, sizeof *v.value);
  v.label = calloc(src->count, sizeof *v.label);
  v.mark = calloc(src->count, sizeof *v.mark);
  v.labels = calloc(src->count, sizeof *v.labels);
  v.marks = calloc(src->count, sizeof *v.marks);
  *report = NULL;
  int rc = ids == NULL || v.value == NULL || v.label == NULL || v.mark == NULL || v.labels == NULL || v.marks == NULL ? -ENOMEM : 0;
  if (rc != 0) {
    (void)kvl_err_set(err, rc, "out of memory for the report");
  }
  for (uint32_t r = 0; rc == 0 && r < src->count; r++) {
    ids[r] = src->run[r]->id;
    make_mark(v.mark[r], r);
    v.marks[r] = v.mark[r];
    v.labels[r] = v.label[r];
  }
  rc = rc != 0 ? rc : kvl_settings_read(&v.settings, src->store, ids, src->count, err);
  rc = rc != 0 ? rc : build(report, &v, no_pictures, err);
  if (rc != 0) {
    kvl_report_destroy(*report);
    *report = NULL;
  }
  kvl_settings_free(&v.settings);
  free(ids);
  free(v.value);
  free(v.label);
  free(v.mark);
  free(v.labels);
  free(v.marks);
  return rc;
}
