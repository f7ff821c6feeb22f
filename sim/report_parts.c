/* Parts that every report of runs has. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/explain_write.h"
#include "sim/report_runs.h"

int kvl_report_picture_code(int code, int *no_pictures)
{
  if (code == -ENOENT) {
    *no_pictures = 1;
    return 0;
  }
  return code;
}

void kvl_report_cautions(struct kvl_report *r, const struct kvl_stored_run *run, const char *prefix)
{
  const struct kvl_summary *s = &run->summary;
  if (run->status != KVL_STORED_COMPLETE) {
    kvl_report_note(r, "%sThis run is %s: its numbers are those of its beginning.", prefix, kvl_stored_status_name(run->status));
  }
  if (s->compute_is_estimate != 0) {
    kvl_report_note(r, "%sCompute times are estimates from a roofline, not measurements: trust comparisons between runs more than the times themselves.", prefix);
  }
  if (s->is_extrapolated != 0) {
    kvl_report_note(r, "%sA table, a curve or a whole cost profile was used outside of what it was made for: times are extrapolated (the notes of kvloan run say which).", prefix);
  }
  if (s->requests_aborted > 0) {
    kvl_report_note(r, "%s%" PRIu64 " of %" PRIu64 " request%s %s aborted.", prefix, s->requests_aborted, s->requests_aborted + s->requests_completed,
                    kvl_text_s(s->requests_aborted + s->requests_completed), s->requests_aborted == 1 ? "was" : "were");
  }
}

bool kvl_report_stand_ins(const struct kvl_report_source *src, int64_t run, char *text, size_t size)
{
  struct kvl_scenario_doc *doc = NULL;
  char *json = NULL;
  bool noted = kvl_store_scenario(src->store, run, &json, NULL) == 0 && kvl_scenario_parse(&doc, json, strlen(json), "run", src->sets, src->set_count, NULL) == 0 &&
               kvl_scenario_note(doc, text, size);
  kvl_scenario_free(doc);
  free(json);
  return noted;
}

void kvl_report_definitions(struct kvl_report *r)
{
  static const char *const columns[] = {"word", "meaning"};
  static const char *const rows[][2] = {
    {"Output", "output tokens over the time from the first submission to the last token: ramp and tail count. Steady: between the first completion and the last submission."},
    {"First token", "from submission to the first token off the decode GPU; the wait for a decode slot is in it."},
    {"Rate of one request", "(output tokens - 1) / (last token - first token). Its p10 is the rate that nine requests in ten reach."},
    {"Per output token", "(end to end - first token) / (output tokens - 1)."},
    {"Goodput", "requests a second that met every target of the scenario; all of them when it has none."},
    {"Batch", "requests in one decode step of one GPU."},
    {"Tiers", "where a selected row was found, in order of look-up: scratch, fresh tail, borrowed page, candidate bank, hot cache, host memory. Each row counts once."},
    {"Causes", "parts of a decode step and of the gap before it. They add up to the time, to the nanosecond."},
  };
  kvl_report_fold(r, "What the words mean");
  kvl_report_table(r, columns, 2, "ll");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    kvl_report_row(r, rows[i]);
  }
}

/* Quoted for a shell, when it has to be. */
static void write_word(FILE *out, const char *word)
{
  if (word[0] != '\0' && word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./_-+=:,@%")] == '\0') {
    (void)fputs(word, out);
    return;
  }
  (void)fputc('\'', out);
  for (; *word != '\0'; word++) {
    (void)(*word == '\'' ? fputs("'\\''", out) : fputc(*word, out));
  }
  (void)fputc('\'', out);
}

void kvl_report_commands(struct kvl_report *r, const struct kvl_report_source *source)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  kvl_report_section(r, "To repeat it");
  if (out == NULL) {
    kvl_report_text(r, "(out of memory)");
    return;
  }
  for (uint32_t i = 0; i < source->count; i++) {
    const struct kvl_stored_run *run = source->run[i];
    if (i > 0) {
      (void)fputc('\n', out);
    }
    (void)fprintf(out, "# run %" PRId64 " was started as: %s\n", run->id, run->command);
    (void)fputs("kvloan results export --store=", out);
    write_word(out, source->store_path);
    (void)fprintf(out, " %" PRId64 " --what=scenario >run-%" PRId64 ".json\nkvloan run run-%" PRId64 ".json%s%s\n", run->id, run->id, run->id,
                  strcmp(run->plane, "model") == 0 ? "" : " --plane=", strcmp(run->plane, "model") == 0 ? "" : run->plane);
  }
  kvl_report_text(r, "One seed, one result: these commands give the same numbers again, with the build named at the top, byte for byte. The stored scenario needs no other file but "
                  "the workload and trace files that it names.");
  if (fclose(out) == 0) {
    kvl_report_code(r, text);
  }
  free(text);
}

void kvl_report_what_if(struct kvl_report *r, const struct kvl_what_if *w)
{
  const char *columns[2 + KVL_TRY_COLUMNS + 1] = {"changed", "kind"};
  char heads[KVL_TRY_COLUMNS][64], cells[KVL_TRY_COLUMNS][KVL_TEXT_NUMBER_MAX], verdict[KVL_TRY_VERDICT_MAX], advice[KVL_EXPLAIN_LINE];
  for (int c = 0; c < KVL_TRY_COLUMNS; c++) {
    (void)snprintf(heads[c], sizeof heads[c], "%s, %s", kvl_try_columns[c].name, kvl_try_columns[c].unit);
    columns[2 + c] = heads[c];
  }
  columns[2 + KVL_TRY_COLUMNS] = kvl_objective_name(w->objective);
  kvl_report_section(r, "What to turn next");
  kvl_what_if_advice(w, advice, sizeof advice);
  kvl_report_lead(r, "%s", advice);
  kvl_report_text(r, "Each line is a run of its own with one thing changed, not a rule of thumb; the last column is the gain in %s%s. Bounds are what nobody can buy: they say how much is "
                  "there to be had. A change that loses more elsewhere than it gains is a trade.", kvl_objective_meaning(w->objective), kvl_what_if_window(w));
  if (w->requests > 0) {
    kvl_report_note(r, "The re-runs are cut to %" PRIu64 " request%s, so the first line is not the stored run%s.", w->requests, kvl_text_s(w->requests),
                    w->pressed ? "" : ", nor are the gains those that it would have: the pool is not pressed as it was");
  }
  kvl_report_table(r, columns, 2 + KVL_TRY_COLUMNS + 1, "llrrrrrl");
  for (uint32_t i = 0; i < w->count; i++) {
    const struct kvl_try *t = &w->item[i];
    const char *row[2 + KVL_TRY_COLUMNS + 1] = {t->label, kvl_try_kind_name(t->kind)};
    for (uint32_t c = 0; c < KVL_TRY_COLUMNS; c++) {
      row[2 + c] = t->status == 0 ? kvl_text_human(cells[c], kvl_try_value(&t->summary, c), 0) : "-";
    }
    row[2 + KVL_TRY_COLUMNS] = kvl_try_verdict(verdict, w, i);
    kvl_report_row(r, row);
  }
  if (w->bound.known) {
    kvl_report_text(r, "Of the selections that reach the hot caches (%.1f %% of all), LRU misses %.2f %%; a policy that knows the future would miss %.2f %%, on the run's own selections.",
                    w->bound.reach_percent, w->bound.lru_percent, w->bound.clairvoyant_percent);
  }
}

void kvl_report_scenario(struct kvl_report *r, struct kvl_store *store, int64_t run, const char *title)
{
  char *json = NULL;
  if (run < 0 || kvl_store_scenario(store, run, &json, NULL) != 0) {
    return;
  }
  cJSON *tree = cJSON_Parse(json);
  char *text = tree == NULL ? NULL : cJSON_Print(tree);
  kvl_report_fold(r, title);
  kvl_report_code(r, text != NULL ? text : json);
  cJSON_free(text);
  cJSON_Delete(tree);
  free(json);
}
