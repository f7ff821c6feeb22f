/* The report of one run. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "results/report_pictures.h"
#include "results/summary_internal.h"
#include "results/text.h"
#include "sim/cmd_results.h"
#include "sim/explain_write.h"
#include "sim/report_runs.h"

static void asked(struct kvl_report *r, const struct kvl_scenario *s)
{
  char workload[KVL_EXPLAIN_LINE], pool[KVL_TEXT_NUMBER_MAX], host[KVL_TEXT_NUMBER_MAX], hot[KVL_TEXT_NUMBER_MAX], caches[96] = "";
  kvl_explain_workload(s, workload, sizeof workload);
  if (s->mode != KVL_MODE_RESIDENT) {
    (void)snprintf(caches, sizeof caches, ", %s of pinned host memory, hot caches of %s rows", kvl_text_bytes(host, (double)s->node.host_pool_bytes),
                   kvl_text_count(hot, s->policy.hot_rows));
  }
  kvl_report_section(r, "What was asked");
  kvl_report_text(r, "How does %s serve %s, in %s mode, on %u prefill and %u decode GPU%s (%s; %s of HBM for KV each%s)?", s->model.name, workload, kvl_mode_name(s->mode),
                  s->node.prefill_gpus, s->node.decode_gpus, kvl_text_s(s->node.decode_gpus), s->hardware.name, kvl_text_bytes(pool, (double)s->node.kv_pool_bytes), caches);
  if (s->note[0] != '\0') {
    kvl_report_text(r, "%s.", s->note);
  }
}

static void answer(struct kvl_report *r, const struct kvl_report_source *src, const struct kvl_explain_facts *f)
{
  const struct kvl_summary *s = &f->run->summary;
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], c[KVL_TEXT_NUMBER_MAX], remark[128];
  kvl_report_section(r, "The answer");
  kvl_report_lead(r, "%s output tokens a second. Nine requests in ten have their first token within %s s, and nine in ten then run at %s tok/s or faster.",
                  kvl_text_human(a, s->output_throughput_tok_per_s, 0), kvl_text_human(b, s->ttft_s.p90, 0), kvl_text_human(c, s->request_rate_tok_per_s_p10, 0));
  kvl_report_text(r, "%s", f->binding);
  kvl_report_cautions(r, f->run, "");
  char note[KVL_REPORT_NOTE_MAX];
  if (kvl_report_stand_ins(src, f->run->id, note, sizeof note)) {
    kvl_report_note(r, "%s.", note);
  }
  (void)snprintf(remark, sizeof remark, "%s in the steady window", kvl_text_human(b, s->output_throughput_steady_tok_per_s, 0));
  kvl_report_number(r, "Output", kvl_text_human(a, s->output_throughput_tok_per_s, 0), "tok/s", s->output_throughput_steady_tok_per_s > 0.0 ? remark : NULL);
  (void)snprintf(remark, sizeof remark, "p50 %s s", kvl_text_human(b, s->ttft_s.p50, 0));
  kvl_report_number(r, "First token, p90", kvl_text_human(a, s->ttft_s.p90, 0), "s", remark);
  (void)snprintf(remark, sizeof remark, "p50 %s tok/s", kvl_text_human(b, s->request_rate_tok_per_s_p50, 0));
  kvl_report_number(r, "Rate of one request, p10", kvl_text_human(a, s->request_rate_tok_per_s_p10, 0), "tok/s", remark);
  (void)snprintf(remark, sizeof remark, "up to %u", s->decode_batch_max);
  kvl_report_number(r, "Decode batch of a GPU, p50", kvl_text_human(a, s->decode_batch_p50, 1), "", remark);
  if (s->selections_total > 0) {
    (void)snprintf(a, sizeof a, "%.2f", 100.0 * (double)s->selections_by_tier[KVL_REPORT_TIERS - 1] / (double)s->selections_total);
    (void)snprintf(remark, sizeof remark, "of %s million", kvl_text_human(b, (double)s->selections_total / 1e6, 0));
    kvl_report_number(r, "Selected rows on the host", a, "%", remark);
  }
  (void)snprintf(a, sizeof a, "%.1f", 100.0 * s->host_link_busy_share);
  (void)snprintf(remark, sizeof remark, "%.3g GB/s a decode GPU", f->link_gb_per_s);
  kvl_report_number(r, "Host links busy", a, "%", remark);
  (void)snprintf(a, sizeof a, "%.0f", 100.0 * s->prefill_busy_share);
  kvl_report_number(r, "Prefill GPUs busy", a, "%", s->prefill_busy_share >= 0.85 ? "near its end" : NULL);
  (void)snprintf(remark, sizeof remark, "%s request%s", kvl_text_count(b, s->requests_completed), kvl_text_s(s->requests_completed));
  kvl_report_number(r, "Simulated", kvl_text_human(a, s->simulated_s, 0), "s", remark);
}

static int evidence(struct kvl_report *r, const struct kvl_report_source *src, int *no_pictures, struct kvl_err *err)
{
  const struct kvl_stored_run *run = src->run[0];
  struct kvl_run_rows rows;
  int rc = kvl_store_rows(src->store, run->id, &rows, err);
  kvl_report_section(r, "Over time");
  if (rc == 0 && rows.samples > 0) {
    struct kvl_timeline *line = malloc(sizeof *line);
    rc = line == NULL ? kvl_err_set(err, -ENOMEM, "out of memory for the report") : kvl_timeline_read(line, src->store, run->id, err);
    rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_sessions(r, src->gnuplot, line, err), no_pictures);
    rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_hbm(r, src->gnuplot, line, err), no_pictures);
    rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_time(r, src->gnuplot, line, err), no_pictures);
    free(line);
  } else if (rc == 0) {
    kvl_report_text(r, "This run has no time line.");
  }
  kvl_report_section(r, "Requests and look-ups");
  const char *const label[] = {"all requests"}, *const mark[] = {""};
  struct kvl_report_runs runs = {src->run, label, mark, 1};
  rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_distributions(r, src->gnuplot, src->store, &runs, err), no_pictures);
  rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_layers(r, src->gnuplot, src->store, run->id, err), no_pictures);
  char text[KVL_EXPLAIN_LINE];
  kvl_explain_prefetch(&run->summary, text, sizeof text);
  if (text[0] != '\0') {
    kvl_report_text(r, "%s", text);
  }
  kvl_explain_speculation(&run->summary, text, sizeof text);
  if (text[0] != '\0') {
    kvl_report_text(r, "%s", text);
  }
  return rc;
}

static void tables(struct kvl_report *r, const struct kvl_explain_facts *f)
{
  static const char *const latency[] = {"", "p50", "p90", "p95", "p99", "unit"}, *const link[] = {"what for", "moved", "share"},
                    *const time[] = {"cause", "ms a step", "share"};
  const struct kvl_summary *s = &f->run->summary;
  const struct {
    const char *name, *unit;
    const struct kvl_percentiles *p;
  } lines[] = {{"first token", "s", &s->ttft_s}, {"per output token", "ms", &s->tpot_ms}, {"end to end", "s", &s->e2e_s}, {"decode step", "ms", &s->step_ms}};
  char cell[4][KVL_TEXT_NUMBER_MAX];
  struct kvl_link_part parts[KVL_LINK_PARTS];
  double all = 0.0;
  kvl_report_section(r, "In numbers");
  kvl_report_table(r, latency, 6, "lrrrrl");
  for (int i = 0; i < 4; i++) {
    const double values[4] = {lines[i].p->p50, lines[i].p->p90, lines[i].p->p95, lines[i].p->p99};
    for (int p = 0; p < 4; p++) {
      (void)kvl_text_human(cell[p], values[p], 0);
    }
    kvl_report_row(r, (const char *const[]){lines[i].name, cell[0], cell[1], cell[2], cell[3], lines[i].unit});
  }
  for (int c = 0; c < KVL_STALLS; c++) {
    all += s->stall_ms_by_cause[c];
  }
  kvl_report_text(r, "Time of the decode GPUs, by cause:");
  kvl_report_table(r, time, 3, "lrr");
  for (int c = 0; c < KVL_STALLS; c++) {
    if (s->stall_ms_by_cause[c] > 0.0) {
      (void)kvl_text_human(cell[0], s->steps > 0 ? s->stall_ms_by_cause[c] / (double)s->steps : 0.0, 0);
      (void)snprintf(cell[1], sizeof cell[1], "%.1f %%", all > 0.0 ? 100.0 * s->stall_ms_by_cause[c] / all : 0.0);
      kvl_report_row(r, (const char *const[]){kvl_stall_name((enum kvl_stall)c), cell[0], cell[1]});
    }
  }
  if (s->host_link_bytes > 0) {
    kvl_explain_link(f, parts);
    kvl_report_text(r, "What the host links carried:");
    kvl_report_table(r, link, 3, "lrr");
    for (int i = 0; i < KVL_LINK_PARTS; i++) {
      if (parts[i].bytes > 0) {
        (void)kvl_text_bytes(cell[0], (double)parts[i].bytes);
        (void)snprintf(cell[1], sizeof cell[1], "%.1f %%", 100.0 * (double)parts[i].bytes / (double)s->host_link_bytes);
        kvl_report_row(r, (const char *const[]){parts[i].name, cell[0], cell[1]});
      }
    }
  }
}

static void every_key(struct kvl_report *r, const struct kvl_summary *s)
{
  static const char *const columns[] = {"key", "value", "unit"};
  kvl_report_fold(r, "Every number of the summary");
  kvl_report_table(r, columns, 3, "lrl");
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    char text[KVL_SUMMARY_TEXT_MAX];
    kvl_report_row(r, (const char *const[]){kvl_summary_key_at(i)->name, kvl_summary_value_text(text, s, i), kvl_summary_key_at(i)->unit});
  }
}

static int build(struct kvl_report *r, const struct kvl_report_source *src, const struct kvl_explain_facts *f, const struct kvl_what_if *w,
                 int *no_pictures, struct kvl_err *err)
{
  asked(r, f->scenario);
  answer(r, src, f);
  if (w != NULL) {
    kvl_report_what_if(r, w);
  }
  int rc = evidence(r, src, no_pictures, err);
  tables(r, f);
  kvl_report_commands(r, src);
  kvl_report_scenario(r, src->store, f->run->id, "The scenario, complete");
  every_key(r, &f->run->summary);
  kvl_report_definitions(r);
  return rc;
}

int kvl_report_of_run(struct kvl_report **report, const struct kvl_report_source *src, int *no_pictures, struct kvl_err *err)
{
  const struct kvl_stored_run *run = src->run[0];
  struct kvl_explain_facts *facts = malloc(sizeof *facts);
  struct kvl_what_if *what_if = calloc(1, sizeof *what_if);
  struct kvl_scenario_doc *doc = NULL;
  char *json = NULL, name[64], title[256], subtitle[512], when[KVL_WHEN_MAX];
  *report = NULL;
  int rc = facts == NULL || what_if == NULL ? kvl_err_set(err, -ENOMEM, "out of memory for the report") : kvl_store_scenario(src->store, run->id, &json, err);
  (void)snprintf(name, sizeof name, "scenario of run %" PRId64, run->id);
  rc = rc != 0 ? rc : kvl_scenario_parse(&doc, json, strlen(json), name, src->sets, src->set_count, err);
  rc = rc != 0 ? rc : kvl_explain_read(facts, src->store, run, kvl_scenario_of(doc), err);
  if (rc == 0 && src->what_if != NULL) {
    struct kvl_explain_options options = *src->what_if;
    options.objective = kvl_objective_of(kvl_scenario_of(doc));
    rc = kvl_explain_what_if(what_if, facts, json, name, &options, err);
  }
  if (rc == 0) {
    (void)snprintf(title, sizeof title, "%.150s, %.50s", run->name, run->mode);
    (void)snprintf(subtitle, sizeof subtitle, "Run %" PRId64 ", %s plane, %s, started %s, kvloan %.60s, seed %" PRIu64, run->id, run->plane, kvl_stored_status_name(run->status),
                   kvl_results_when(when, run->started_unix_ms), run->build, run->seed);
    *report = kvl_report_create("Run", src->title != NULL ? src->title : title, subtitle);
    rc = *report == NULL ? kvl_err_set(err, -ENOMEM, "out of memory for the report")
                         : build(*report, src, facts, src->what_if != NULL ? what_if : NULL, no_pictures, err);
  }
  if (rc != 0) {
    kvl_report_destroy(*report);
    *report = NULL;
  }
  if (what_if != NULL) {
    kvl_what_if_free(what_if);
  }
  free(what_if);
  free(facts);
  free(json);
  kvl_scenario_free(doc);
  return rc;
}
