/* The report of a plan: what was asked, the answer, the margin, why not more, how sure, what to buy, and every run that it rests on. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/report_pictures.h"
#include "results/text.h"
#include "results/timeline.h"
#include "sim/plan_write.h"
#include "sim/report_runs.h"

enum { CELL = 64, POINTS_MAX = 256 };

static const char *number(char text[KVL_TEXT_NUMBER_MAX], const struct kvl_json *node, const char *path)
{
  double value = kvl_plan_number(node, path);
  return isnan(value) ? "-" : kvl_text_human(text, value, value == floor(value) && fabs(value) < 1e9);
}

/* The run that `sweep "NAME", point N` is in this store; -1: it is not there. */
static int64_t run_of(struct kvl_store *store, const struct kvl_json *root, const char *where)
{
  char name[128];
  const char *hash = "";
  unsigned point = 0;
  int64_t run = -1;
  struct kvl_sweep_list list = {NULL, 0};
  struct kvl_sweep_table table;
  struct kvl_err ignored;
  uint32_t at = 0;
  const char *end = strrchr(where, '"');
  memset(&table, 0, sizeof table);
  if (strncmp(where, "sweep \"", 7) != 0 || end == where + 6 || sscanf(end, "\", point %u", &point) != 1 || point == 0) {
    return -1;
  }
  (void)snprintf(name, sizeof name, "%.*s", (int)(end - where - 7), where + 7);
  const struct kvl_json *rounds = kvl_plan_part(root, "search.rounds");
  for (const struct kvl_json *round = rounds == NULL ? NULL : rounds->child; round != NULL; round = round->next) {
    hash = strcmp(kvl_plan_word(round, "sweep"), name) == 0 ? kvl_plan_word(round, "hash") : hash;
  }
  if (kvl_store_sweeps(store, &list, &ignored) == 0) {
    while (at < list.count && strcmp(list.sweep[at].hash, hash) != 0) {
      at++;
    }
    if (at < list.count && kvl_sweep_table_read(store, &list.sweep[at], &table, &ignored) == 0 && point <= table.points) {
      run = table.task[(size_t)(point - 1) * table.repeats].run;
    }
  }
  kvl_sweep_table_free(&table);
  kvl_sweep_list_free(&list);
  return run;
}

static const char *run_text(char text[CELL], struct kvl_store *store, const struct kvl_json *root, const struct kvl_json *node)
{
  int64_t run = run_of(store, root, kvl_plan_word(node, "run"));
  if (run >= 0) {
    (void)snprintf(text, CELL, "%" PRId64, run);
  } else {
    (void)snprintf(text, CELL, "-");
  }
  return text;
}

static void asked(struct kvl_report *r, const struct kvl_json *root)
{
  static const char *const columns[] = {"target", "asked"}, *const axes[] = {"searched", "values"};
  char cell[CELL];
  kvl_report_section(r, "What was asked");
  kvl_report_text(r, "Which setting of %s serves this at least cost: %s?%s%s", kvl_plan_word(root, "asked.model"), kvl_plan_word(root, "asked.workload"),
                  kvl_plan_word(root, "note")[0] != '\0' ? " " : "", kvl_plan_word(root, "note"));
  const struct kvl_json *list = kvl_plan_part(root, "asked.target");
  kvl_report_table(r, columns, 2, "lr");
  for (const struct kvl_json *t = list == NULL ? NULL : list->child; t != NULL; t = t->next) {
    (void)snprintf(cell, sizeof cell, "%s", t->text == NULL ? "" : t->text);
    kvl_report_row(r, (const char *const[]){t->key, cell});
  }
  list = kvl_plan_part(root, "asked.nodes");
  if (list != NULL && list->child != NULL && list->child->next != NULL) {
    static const char *const nodes[] = {"node", "price of a GPU hour"};
    kvl_report_table(r, nodes, 2, "lr");
    for (const struct kvl_json *n = list->child; n != NULL; n = n->next) {
      kvl_report_row(r, (const char *const[]){kvl_plan_word(n, "name"), isnan(kvl_plan_number(n, "gpu_hour")) ? "-" : kvl_plan_word(n, "gpu_hour")});
    }
  }
  list = kvl_plan_part(root, "asked.searched");
  kvl_report_table(r, axes, 2, "ll");
  for (const struct kvl_json *a = list == NULL ? NULL : list->child; a != NULL; a = a->next) {
    const struct kvl_json *pinned = kvl_json_member(kvl_plan_part(root, "asked.pinned"), a->key);
    char values[800] = "";
    size_t used = 0;
    for (const struct kvl_json *v = a->child; v != NULL && used < sizeof values - 1; v = v->next) {
      int n = snprintf(values + used, sizeof values - used, "%s%s", used > 0 ? ", " : "", v->text == NULL ? "-" : v->text);
      used += n > 0 ? (size_t)n : 0;
    }
    if (pinned != NULL && used < sizeof values) {
      (void)snprintf(values + used, sizeof values - used, " (pinned by %s)", pinned->text);
    }
    kvl_report_row(r, (const char *const[]){a->key, values});
  }
}

static void candidate(struct kvl_report *r, struct kvl_store *store, const struct kvl_json *root, const struct kvl_json *c)
{
  static const char *const columns[] = {"target", "is", "asked", "margin", ""};
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], run[CELL];
  bool priced = kvl_plan_part(c, "figures.cost_per_million_output_tokens") != NULL;
  kvl_report_text(r, "%s.", kvl_plan_word(c, "what"));
  kvl_report_number(r, "output", number(a, c, "figures.output_throughput_tok_per_s"), "tok/s", NULL);
  kvl_report_number(r, "first token, p90", number(a, c, "figures.ttft_s_p90"), "s", NULL);
  kvl_report_number(r, "request rate, p10", number(a, c, "figures.request_rate_tok_per_s_p10"), "tok/s", NULL);
  kvl_report_number(r, "per output token, p90", number(a, c, "figures.tpot_ms_p90"), "ms", NULL);
  kvl_report_number(r, "a million output tokens", number(a, c, priced ? "figures.cost_per_million_output_tokens" : "figures.gpu_hours_per_million_output_tokens"),
                    priced ? "" : "GPU hours", priced ? "at the prices given" : "no price was given");
  kvl_report_number(r, "GPUs", number(a, c, "gpus"), "", NULL);
  kvl_report_table(r, columns, 5, "lrrrl");
  const struct kvl_json *list = kvl_plan_part(c, "targets");
  for (const struct kvl_json *t = list == NULL ? NULL : list->child; t != NULL; t = t->next) {
    char is[CELL], want[CELL], margin[KVL_PLAN_MARGIN_TEXT];
    (void)snprintf(is, sizeof is, "%s %s", number(a, t, "is"), kvl_plan_word(t, "unit"));
    (void)snprintf(want, sizeof want, "%s %s", number(b, t, "asked"), kvl_plan_word(t, "unit"));
    (void)kvl_plan_margin(margin, kvl_plan_number(t, "margin_percent"));
    kvl_report_row(r, (const char *const[]){kvl_plan_word(t, "target"), is, want, margin, kvl_plan_true(t, "met") ? "met" : "missed"});
  }
  char d[KVL_TEXT_NUMBER_MAX];
  kvl_report_text(r, "%s seed%s, met by %s of %s. From run %s of the store (%s).", number(a, c, "seeds.runs"), kvl_plan_number(c, "seeds.runs") == 1 ? "" : "s", number(b, c, "seeds.met"), number(d, c, "seeds.complete"),
                  run_text(run, store, root, c), kvl_plan_word(c, "run"));
}

static void reach(struct kvl_report *r, const struct kvl_json *root)
{
  static const char *const columns[] = {"target, by itself", "asked", "best in full", "best without a single miss"};
  const struct kvl_json *list = kvl_plan_part(root, "reach");
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], c[KVL_TEXT_NUMBER_MAX];
  kvl_report_text(r, "What can be reached at all:");
  kvl_report_table(r, columns, 4, "lrrr");
  for (const struct kvl_json *t = list == NULL ? NULL : list->child; t != NULL; t = t->next) {
    kvl_report_row(r, (const char *const[]){kvl_plan_word(t, "target"), number(a, t, "asked"), number(b, t, "best_in_full"), number(c, t, "best_without_a_miss")});
  }
}

/* ---- the picture ---- */

struct dots {
  struct {
    double margin, cost;
    int kind; /* 0: met, in full; 1: missed, in full; 2: screened */
  } dot[POINTS_MAX];
  uint32_t count;
  double best_margin, best_cost;
  bool priced;
};

static void add_dots(struct dots *d, const struct kvl_json *list, int full)
{
  for (const struct kvl_json *c = list == NULL ? NULL : list->child; c != NULL && d->count < POINTS_MAX; c = c->next) {
    double margin = kvl_plan_number(c, "worst_margin_percent"), cost = kvl_plan_number(c, "cost");
    if (!isnan(margin) && !isnan(cost)) {
      d->dot[d->count].margin = margin < -100 ? -100 : margin; /* what is worse stands at the edge */
      d->dot[d->count].cost = cost;
      d->dot[d->count++].kind = full ? (kvl_plan_true(c, "met") ? 0 : 1) : 2;
    }
  }
}

static void write_dots(FILE *script, int narrow, const void *context)
{
  static const uint32_t colour[] = {2, 1, 7};
  const struct dots *d = context;
  bool any[3] = {false, false, false};
  double top = 0;
  (void)narrow;
  for (int k = 0; k < 3; k++) {
    (void)fprintf(script, "$k%d << EOD\n", k);
    for (uint32_t i = 0; i < d->count; i++) {
      if (d->dot[i].kind == k) {
        (void)fprintf(script, "%.9g\t%.9g\n", d->dot[i].margin, d->dot[i].cost);
        any[k] = true;
        top = d->dot[i].cost > top ? d->dot[i].cost : top;
      }
    }
    (void)fputs("EOD\n", script);
  }
  (void)fprintf(script, "set xrange [-105:*]\nset yrange [0:%.9g]\nset grid xtics\nset xlabel 'margin to the target that is hardest to meet, %%'\nset ylabel '%s'\n", top > 0 ? 1.1 * top : 1.0,
                d->priced ? "cost of a million output tokens" : "GPU hours for a million output tokens");
  (void)fprintf(script, "$zero << EOD\n0\t0\n0\t%.9g\nEOD\nplot $zero using 1:2 with lines linewidth 1.4 dashtype 2 linecolor rgb '#666666'", top > 0 ? 1.1 * top : 1.0);
  for (int k = 2; k >= 0; k--) {
    if (any[k]) {
      (void)fprintf(script, ", $k%d using 1:2 with points pointtype 7 pointsize %s linecolor rgb '%s'", k, k == 2 ? "0.5" : "0.9", kvl_report_colour(colour[k]));
    }
  }
  (void)fputc('\n', script);
}

static int draw_dots(struct kvl_report *r, const char *gnuplot, const struct kvl_json *root, struct kvl_err *err)
{
  struct dots *d = calloc(1, sizeof *d);
  if (d == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory for the report");
  }
  const struct kvl_report_key key[] = {{"in full, meets the target", kvl_report_colour(2), -1}, {"in full, misses it", kvl_report_colour(1), -1},
                                       {"screened, an estimate", kvl_report_colour(7), -1}, {"the target", "#666666", 2}};
  d->priced = kvl_plan_part(root, "recommendation.figures.cost_per_million_output_tokens") != NULL;
  if (kvl_plan_true(root, "met")) {
    kvl_report_text(r, "In the picture the recommendation is the lowest large dot right of the dashed line, one per cent of cost counting as the same.");
  }
  add_dots(d, kvl_plan_part(root, "in_full"), 1);
  add_dots(d, kvl_plan_part(root, "not_in_full"), 0);
  struct kvl_report_picture p = {.title = "Cost against margin", .see = "Each dot is a candidate. Right of the dashed line every target is met; down is cheaper. Small dots were judged from miss curves alone.",
                                 .key = key, .keys = 4, .write = write_dots, .context = d, .wide_height = 360, .narrow_height = 300};
  int rc = d->count == 0 ? 0 : kvl_report_draw(r, gnuplot, &p, err);
  free(d);
  return rc;
}

static int draw_run(struct kvl_report *r, const struct kvl_report_source *src, const struct kvl_json *root, const struct kvl_json *c, int *no_pictures, struct kvl_err *err)
{
  int64_t run = run_of(src->store, root, kvl_plan_word(c, "run"));
  struct kvl_run_rows rows = {0, 0, 0, 0};
  if (run < 0 || kvl_store_rows(src->store, run, &rows, err) != 0 || rows.samples == 0) {
    return 0;
  }
  struct kvl_timeline *line = malloc(sizeof *line);
  int rc = line == NULL ? kvl_err_set(err, -ENOMEM, "out of memory for the report") : kvl_timeline_read(line, src->store, run, err);
  rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_sessions(r, src->gnuplot, line, err), no_pictures);
  rc = rc != 0 ? rc : kvl_report_picture_code(kvl_report_time(r, src->gnuplot, line, err), no_pictures);
  free(line);
  return rc;
}

/* ---- tables ---- */

static void full_runs(struct kvl_report *r, struct kvl_store *store, const struct kvl_json *root)
{
  static const char *const columns[] = {"setting", "met", "margin", "cost", "output, tok/s", "first token p90, s", "rate p10, tok/s", "from host, %", "run"};
  const struct kvl_json *list = kvl_plan_part(root, "in_full");
  kvl_report_section(r, "Every run in full");
  kvl_report_text(r, "The first seed of each. Run numbers are those of the store: kvloan results show, explain and report take them.");
  kvl_report_table(r, columns, 9, "llrrrrrrr");
  for (const struct kvl_json *c = list == NULL ? NULL : list->child; c != NULL; c = c->next) {
    char margin[KVL_PLAN_MARGIN_TEXT], cost[KVL_TEXT_NUMBER_MAX], out[KVL_TEXT_NUMBER_MAX], ttft[KVL_TEXT_NUMBER_MAX], rate[KVL_TEXT_NUMBER_MAX], host[KVL_TEXT_NUMBER_MAX], run[CELL];
    if (kvl_plan_part(c, "reason") != NULL) {
      kvl_report_row(r, (const char *const[]){kvl_plan_word(c, "what"), "failed", kvl_plan_word(c, "reason"), "", "", "", "", "", run_text(run, store, root, c)});
      continue;
    }
    (void)kvl_plan_margin(margin, kvl_plan_number(c, "worst_margin_percent"));
    kvl_report_row(r, (const char *const[]){kvl_plan_word(c, "what"), kvl_plan_true(c, "met") ? "yes" : "no", margin, number(cost, c, "cost"),
                                            number(out, c, "output_throughput_tok_per_s"), number(ttft, c, "ttft_s_p90"), number(rate, c, "request_rate_tok_per_s_p10"),
                                            number(host, c, "host_percent"), run_text(run, store, root, c)});
  }
}

static void how_sure(struct kvl_report *r, struct kvl_store *store, const struct kvl_json *root)
{
  static const char *const columns[] = {"changed", "target", "margin", "output, tok/s", "first token p90, s", "rate p10, tok/s", "run"};
  const struct kvl_json *list = kvl_plan_part(root, "sensitivity");
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], c[KVL_TEXT_NUMBER_MAX];
  kvl_report_section(r, "How sure");
  char line[400];
  kvl_report_text(r, "%s.", kvl_plan_fates(line, sizeof line, root));
  if (kvl_plan_number(root, "search.screening_off_by_percent.compared") > 0) {
    kvl_report_text(r, "Screening only orders candidates. Against the runs in full it was off by %.1f %% in output, %.1f %% in first token p90 and %.1f %% in rate p10 (medians).",
                    kvl_plan_number(root, "search.screening_off_by_percent.output_throughput"), kvl_plan_number(root, "search.screening_off_by_percent.ttft_p90"),
                    kvl_plan_number(root, "search.screening_off_by_percent.rate_p10"));
  }
  if (kvl_plan_true(root, "search.left_out_for_effort")) {
    kvl_report_note(r, "Some runs were left out for the plan's effort (%s); \"effort\": \"thorough\" makes them.", kvl_plan_word(root, "search.effort"));
  }
  if (list == NULL || list->child == NULL) {
    return;
  }
  kvl_report_text(r, "The %s with one thing changed, each a run in full:", kvl_plan_true(root, "met") ? "recommendation" : "closest candidate");
  kvl_report_table(r, columns, 7, "llrrrrr");
  for (const struct kvl_json *v = list->child; v != NULL; v = v->next) {
    char margin[KVL_PLAN_MARGIN_TEXT], run[CELL];
    (void)kvl_plan_margin(margin, kvl_plan_number(v, "worst_margin_percent"));
    kvl_report_row(r, (const char *const[]){kvl_plan_word(v, "changed"), kvl_plan_part(v, "reason") != NULL ? kvl_plan_word(v, "reason") : kvl_plan_true(v, "met") ? "met" : "missed",
                                            margin, number(a, v, "output_throughput_tok_per_s"), number(b, v, "ttft_s_p90"), number(c, v, "request_rate_tok_per_s_p10"),
                                            run_text(run, store, root, v)});
  }
}

static void engines(struct kvl_report *r, const struct kvl_json *root)
{
  const struct kvl_json *list = kvl_plan_part(root, "engines");
  kvl_report_section(r, "The nearest flags");
  for (const struct kvl_json *e = list == NULL ? NULL : list->child; e != NULL; e = e->next) {
    kvl_report_text(r, "%s:", kvl_plan_word(e, "engine"));
    kvl_report_code(r, kvl_plan_word(e, "flags"));
    kvl_report_text(r, "It cannot express: %s. Checked: %s.", kvl_plan_word(e, "cannot"), kvl_plan_word(e, "checked"));
  }
}

static void rest(struct kvl_report *r, const struct kvl_report_source *src, const struct kvl_json *root, const struct kvl_stored_plan *plan)
{
  static const char *const columns[] = {"setting", "why not in full", "margin", "cost"};
  char command[1600], a[KVL_TEXT_NUMBER_MAX];
  const struct kvl_json *list = kvl_plan_part(root, "not_in_full");
  kvl_report_fold(r, "Candidates that were not run in full");
  uint32_t listed = 0;
  for (const struct kvl_json *c = list == NULL ? NULL : list->child; c != NULL; c = c->next) {
    listed++;
  }
  if (kvl_plan_number(root, "not_in_full_count") > listed) {
    kvl_report_text(r, "The first %u of %.0f.", (unsigned)listed, kvl_plan_number(root, "not_in_full_count"));
  }
  kvl_report_table(r, columns, 4, "llrr");
  for (const struct kvl_json *c = list == NULL ? NULL : list->child; c != NULL; c = c->next) {
    char margin[KVL_PLAN_MARGIN_TEXT];
    bool known = kvl_plan_part(c, "reason") == NULL;
    (void)kvl_plan_margin(margin, kvl_plan_number(c, "worst_margin_percent"));
    kvl_report_row(r, (const char *const[]){kvl_plan_word(c, "what"), known ? kvl_plan_word(c, "why") : kvl_plan_word(c, "reason"), known ? margin : "",
                                            known ? number(a, c, "cost") : ""});
  }
  kvl_report_section(r, "To repeat it");
  kvl_report_text(r, "The plan goes on where it was, or says that everything is there; the same plan gives the same answer, byte for byte.");
  (void)snprintf(command, sizeof command, "%.1000s\nkvloan results sweeps --store=%.300s\n", plan->command, src->store_path);
  kvl_report_code(r, command);
  kvl_report_scenario(r, src->store, run_of(src->store, root, kvl_plan_word(kvl_plan_part(root, "recommendation"), "run")),
                      kvl_plan_true(root, "met") ? "The scenario of the recommendation, complete" : "The scenario of the closest, complete");
  kvl_report_definitions(r);
}

int kvl_report_of_plan(struct kvl_report **report, const struct kvl_report_source *src, const struct kvl_stored_plan *plan, int *no_pictures, struct kvl_err *err)
{
  struct kvl_arena arena = {0};
  struct kvl_json *root = NULL;
  char title[256], subtitle[320];
  *report = NULL;
  int rc = kvl_json_parse(&arena, plan->answer, strlen(plan->answer), "the plan's answer", &root, err);
  if (rc == 0) {
    (void)snprintf(title, sizeof title, "Plan: %.200s", plan->name);
    (void)snprintf(subtitle, sizeof subtitle, "Plan %" PRId64 ", kvloan %.60s", plan->id, plan->build);
    *report = kvl_report_create("Plan", src->title != NULL ? src->title : title, subtitle);
    rc = *report == NULL ? kvl_err_set(err, -ENOMEM, "out of memory for the report") : 0;
  }
  if (rc == 0) {
    struct kvl_report *r = *report;
    const struct kvl_json *best = kvl_plan_part(root, "recommendation"), *second = kvl_plan_part(root, "runner_up");
    bool any = best != NULL && best->kind == KVL_JSON_OBJECT;
    asked(r, root);
    kvl_report_section(r, "The answer");
    kvl_report_lead(r, "%s", kvl_plan_word(root, "sentence"));
    const struct kvl_json *notes = kvl_plan_part(root, "notes");
    for (const struct kvl_json *n = notes == NULL ? NULL : notes->child; n != NULL; n = n->next) {
      kvl_report_note(r, "%s", n->text == NULL ? "" : n->text);
    }
    if (any && !kvl_plan_true(root, "met")) {
      reach(r, root);
    }
    if (any) {
      candidate(r, src->store, root, best);
      kvl_report_section(r, "Why not more");
      kvl_report_text(r, "What binds: %s. %s.", kvl_plan_word(root, "why.binds"), kvl_plan_word(root, "why.sessions"));
      kvl_report_text(r, "%s", kvl_plan_word(root, "why.run"));
      if (kvl_plan_word(root, "headroom.sentence")[0] != '\0') {
        kvl_report_text(r, "%s.", kvl_plan_word(root, "headroom.sentence"));
      }
      kvl_report_section(r, "To buy");
      kvl_report_text(r, "Host memory: %s. Host link: %s.", kvl_plan_word(root, "buy.host_memory"), kvl_plan_word(root, "buy.link"));
      kvl_report_section(r, "In pictures");
      rc = kvl_report_picture_code(draw_dots(r, src->gnuplot, root, err), no_pictures);
      rc = rc != 0 ? rc : draw_run(r, src, root, best, no_pictures, err);
    }
    if (rc == 0 && second != NULL && second->kind == KVL_JSON_OBJECT) {
      kvl_report_section(r, "The runner-up");
      candidate(r, src->store, root, second);
    }
    if (any) {
      how_sure(r, src->store, root);
      engines(r, root);
    }
    full_runs(r, src->store, root);
    rest(r, src, root, plan);
  }
  kvl_arena_free(&arena);
  if (rc != 0) {
    kvl_report_destroy(*report);
    *report = NULL;
  }
  return rc;
}
