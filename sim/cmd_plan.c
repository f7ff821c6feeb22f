/* kvloan plan PLAN.json */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/nearest.h"
#include "results/plan.h"
#include "results/text.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/cmd_sweep.h"
#include "sim/design_run.h"
#include "sim/explain.h"
#include "sim/plan.h"
#include "sim/plan_write.h"
#include "sim/version.h"

enum { SETS_MAX = 128, TARGETS_MAX = 16, JOBS_MAX = 1024 };

static const char help[] =
  "usage: kvloan plan PLAN.json --store=FILE [OPTIONS]\n"
  "       kvloan plan --scenario=NAME --target=TARGET=NUMBER --store=FILE [OPTIONS]\n"
  "       kvloan plan --store=FILE --show[=PLAN]\n"
  "\n"
  "Searches for the setting that serves a workload within a target at least cost, by simulation, and says how many sessions fit and why not more, the\n"
  "margin, the runner-up, how sure that is, what host memory and link to buy, and the nearest flags of the engines that people run. When the target\n"
  "cannot be met, it says so and by what it is missed. docs/plans.md has the format of a plan.\n"
  "  --store=FILE           the result store: every run that the answer rests on is in it; ended at any moment and started again, the same command goes on\n"
  "  --target=TARGET=NUMBER ttft_p90_s, rate_p10_tok_per_s, tpot_p90_ms (at most or at least this), concurrency (sessions held at once); repeat as you like\n"
  "  --scenario=NAME        model, node and workload, when there is no PLAN.json\n"
  "  --workload=FILE        a workload file in place of the scenario's workload (with --scenario)\n"
  "  --gpu-hour=NUMBER      price of a GPU hour, in any currency (with --scenario)\n"
  "  --set=KEY=VALUE        a scenario key for every run, which is then not searched; repeat as you like\n"
  "  --jobs=N               runs at once (default: as many as there are cores); no result depends on it\n"
  "  --threads=N            threads of one run (default 1); the same\n"
  "  --show=PLAN            print a plan of the store again: its number or its name (default: the newest)\n"
  "  --take-over            go on with a plan of a process on another machine that is gone\n"
  "  --format=table|json|tsv, --quiet\n";

struct call {
  const char *plan, *store, *scenario, *workload, *gpu_hour, *show;
  double price; /* --gpu-hour */
  const char *set[SETS_MAX], *target[TARGETS_MAX];
  unsigned sets, targets;
  uint32_t jobs, threads;
  bool quiet, take_over, showing;
  int format;
  const char *command;
};

static int complain(const char *text, const char *detail)
{
  fprintf(stderr, "kvloan plan: %s%s\n", text, detail);
  return 2;
}

static int take_price(void *to, const char *word)
{
  struct call *c = to;
  c->gpu_hour = word;
  if (kvl_plan_price(word, &c->price) != 0) {
    fprintf(stderr, "kvloan plan: --gpu-hour=%s: must be a price, a number from 1e-06 to 1e+15 (without the option, cost is in GPU hours)\n", word);
    return -1;
  }
  return 0;
}

static int take_text(void *to, const char *word)
{
  *(const char **)to = word;
  return 0;
}

static int take_target(void *to, const char *word)
{
  struct call *c = to;
  struct kvl_err err;
  if (c->targets == TARGETS_MAX) {
    return complain("more than 16 --target options", "");
  }
  c->target[c->targets++] = word;
  return kvl_plan_check_target(word, &err) != 0 ? complain(err.text, "") : 0;
}

/* 0, an exit code, or -1 after --help. */
static int parse(struct call *c, int argc, char **argv)
{
  const struct kvl_option options[] = {
    {KVL_OPTION("store", STORE, &c->store)},
    {KVL_OPTION("target", OWN, c), .read = take_target},
    {KVL_OPTION("scenario", TEXT, &c->scenario)},
    {KVL_OPTION("workload", TEXT, &c->workload)},
    {KVL_OPTION("gpu-hour", OWN, c), .read = take_price},
    {KVL_OPTION("set", SET, c->set), .count = &c->sets, .number = SETS_MAX},
    {KVL_OPTION("jobs", COUNT, &c->jobs), .number = JOBS_MAX},
    {KVL_OPTION("threads", COUNT, &c->threads), .number = 256},
    {KVL_OPTION("show", OWN_OR_NOTHING, &c->show), .read = take_text, .given = &c->showing},
    {KVL_OPTION("take-over", FLAG, &c->take_over)},
    {KVL_OPTION("format", FORMAT, &c->format)},
    {KVL_OPTION("quiet", FLAG, &c->quiet)},
  };
  int code = kvl_cmd_options("plan", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    return code;
  }
  int words = argc - optind;
  if (c->store == NULL) {
    return complain("where to? --store=FILE", " (kvloan plan --help tells more)");
  }
  if (c->showing && (c->sets > 0 || c->targets > 0 || c->jobs > 0 || c->take_over || c->workload != NULL || c->gpu_hour != NULL)) {
    return complain("--show prints a stored plan: it takes no other option but --store and --format", "");
  }
  if (c->showing ? words != 0 || c->scenario != NULL : (words == 1) == (c->scenario != NULL) || words > 1) {
    return complain(c->showing ? "--show prints a stored plan and takes no other" : words > 1 ? "one plan at a time" : words == 1 ? "a plan or --scenario, not both" : "which plan?",
                    " (kvloan plan --help tells more)");
  }
  if (c->scenario == NULL && (c->workload != NULL || c->gpu_hour != NULL)) {
    return complain(c->workload != NULL ? "--workload" : "--gpu-hour", " belongs to --scenario; a PLAN.json has its own");
  }
  c->plan = words == 1 ? argv[optind] : NULL;
  return 0;
}

/* ---- running a round ---- */

static void take_result(void *context, uint32_t at, const struct kvl_stored_task *task)
{
  struct kvl_plan_result *cell = context;
  cell[at] = (struct kvl_plan_result){.complete = task->state == KVL_TASK_COMPLETE && task->has_summary, .run = task->run, .summary = task->summary};
  (void)snprintf(cell[at].reason, sizeof cell[at].reason, "%.290s", task->reason != NULL ? task->reason : "");
}

static int run_round(void *context, const struct kvl_sweep *design, bool summary_only, struct kvl_plan_result *cell, struct kvl_err *err)
{
  const struct call *c = context;
  struct kvl_sweep_outcome outcome;
  struct kvl_sweep_call call = {.design = design->name, .store = c->store, .plane = "model", .command = c->command, .share = {0, 1}, .jobs = c->jobs,
                                .threads = c->threads, .summary_only = summary_only, .take_over = c->take_over, .stop = &kvl_stop,
                                .quiet = c->quiet || isatty(STDERR_FILENO) != 1};
  if (kvl_stop != 0) {
    return kvl_err_set(err, -EINTR, "interrupted; the same command goes on");
  }
  int rc = kvl_sweep_run_local(design, &call, &outcome, err);
  if (rc == 0 && outcome.interrupted) {
    rc = kvl_err_set(err, -EINTR, "interrupted with %u of %u run%s of %s stored; the same command goes on", (unsigned)(outcome.complete + outcome.failed),
                     (unsigned)outcome.tasks, kvl_text_s(outcome.tasks), design->name);
  }
  return rc != 0 ? rc : kvl_design_read(c->store, design, take_result, cell, err);
}

/* ---- the answer ---- */

/* Facts of the recommended run; *facts stays NULL when it has none. Its texts live as long as the list and the scenario. */
struct explained {
  struct kvl_explain_facts *facts;
  struct kvl_run_list list;
  struct kvl_scenario_doc *doc;
};

static int explain(const struct call *c, const struct kvl_plan_search *s, struct explained *x, struct kvl_err *err)
{
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_store *store = NULL;
  int rc = s->best < 0 ? 0 : kvl_store_open_with(&store, c->store, &reading, err);
  if (rc != 0 || store == NULL) {
    return rc;
  }
  int64_t run = s->candidate[s->best].result[0].run;
  rc = kvl_store_list(store, &x->list, err);
  rc = rc != 0 ? rc : kvl_scenario_parse(&x->doc, s->scenario_json[0], strlen(s->scenario_json[0]), "the recommendation", NULL, 0, err);
  for (uint32_t i = 0; rc == 0 && i < x->list.count; i++) {
    if (x->list.run[i].id == run && (x->facts = calloc(1, sizeof *x->facts)) != NULL) {
      rc = kvl_explain_read(x->facts, store, &x->list.run[i], kvl_scenario_of(x->doc), err);
    }
  }
  kvl_store_close(store);
  return rc;
}

static void tell_runs(const struct call *c, const struct kvl_plan_search *s, int64_t plan)
{
  if (c->quiet || s->best < 0) {
    return;
  }
  fprintf(stderr, "%s: the %s is run %" PRId64, s->plan->name, s->met ? "recommendation" : "closest", s->candidate[s->best].result[0].run);
  if (s->runner_up >= 0) {
    fprintf(stderr, ", the runner-up run %" PRId64, s->candidate[s->runner_up].result[0].run);
  }
  fprintf(stderr, " of %s; kvloan report --store=%s --plan=%" PRId64 " makes a page\n", c->store, c->store, plan);
}

/* The request as a text that is one plan; the caller frees. */
static char *request_text(const struct call *c)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  (void)fputs("{\"scenario\": ", out);
  kvl_text_json_string(out, c->scenario);
  if (c->workload != NULL) {
    (void)fputs(", \"workload\": ", out);
    kvl_text_json_string(out, c->workload);
  }
  if (c->gpu_hour != NULL) {
    char number[KVL_TEXT_NUMBER_MAX];
    (void)fprintf(out, ", \"gpu_hour\": %s", kvl_text_double(number, c->price));
  }
  (void)fputs("}\n", out);
  if (fclose(out) != 0) {
    free(text);
    return NULL;
  }
  return text;
}

static int load(const struct call *c, struct kvl_capacity_plan **plan, struct kvl_err *err)
{
  if (c->plan != NULL) {
    return kvl_plan_load(plan, c->plan, c->set, c->sets, c->target, c->targets, err);
  }
  char name[KVL_PLAN_NAME_MAX + 8];
  char *text = request_text(c);
  const char *slash = strrchr(c->scenario, '/');
  (void)snprintf(name, sizeof name, "%.60s", slash != NULL ? slash + 1 : c->scenario); /* its name; files begin in the current folder */
  int rc = text == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : kvl_plan_parse(plan, text, strlen(text), name, c->set, c->sets, c->target, c->targets, err);
  free(text);
  return rc;
}

static int plan_it(const struct call *c, struct kvl_err *err, bool *met)
{
  struct kvl_capacity_plan *plan = NULL;
  struct kvl_plan_search *search = NULL;
  struct explained x = {.facts = NULL};
  struct kvl_store *store = NULL;
  char *answer = NULL;
  int64_t number = 0;
  int rc = load(c, &plan, err);
  rc = rc != 0 ? rc : kvl_plan_find(&search, plan, run_round, (void *)(uintptr_t)c, err);
  rc = rc != 0 ? rc : explain(c, search, &x, err);
  if (rc == 0) {
    answer = kvl_plan_answer(search, x.facts);
    rc = answer == NULL ? kvl_err_set(err, -ENOMEM, "out of memory for the answer") : 0;
  }
  rc = rc != 0 ? rc : kvl_store_open(&store, c->store, err);
  rc = rc != 0 ? rc : kvl_store_plan(store, plan->name, plan->text, answer, KVL_VERSION, c->command, &number, err);
  kvl_store_close(store);
  rc = rc != 0 ? rc : kvl_plan_write(stdout, (enum kvl_format)c->format, answer, err);
  if (rc == 0) {
    tell_runs(c, search, number);
    *met = search->met;
  }
  free(x.facts);
  kvl_run_list_free(&x.list);
  kvl_scenario_free(x.doc);
  free(answer);
  kvl_plan_search_free(search);
  kvl_plan_free(plan);
  return rc;
}

static int show(const struct call *c, struct kvl_err *err)
{
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_store *store = NULL;
  struct kvl_plan_list list = {NULL, 0};
  uint32_t index = 0;
  int rc = kvl_store_open_with(&store, c->store, &reading, err);
  rc = rc != 0 ? rc : kvl_store_plans(store, &list, err);
  rc = rc != 0 ? rc : kvl_plan_select(&list, c->store, c->show == NULL || strcmp(c->show, "latest") == 0 ? NULL : c->show, &index, err);
  rc = rc != 0 ? rc : kvl_plan_write(stdout, (enum kvl_format)c->format, list.plan[index].answer, err);
  kvl_plan_list_free(&list);
  kvl_store_close(store);
  return rc;
}

int kvl_cmd_plan(int argc, char **argv)
{
  struct call *c = calloc(1, sizeof *c);
  struct kvl_err err = {""};
  bool met = true;
  if (c == NULL) {
    return complain("out of memory", "") - 1;
  }
  c->threads = 1;
  int code = parse(c, argc, argv);
  if (code != 0) {
    free(c);
    return code < 0 ? 0 : code;
  }
  char *command = kvl_cmd_line(argc, argv);
  c->command = command == NULL ? "" : command;
  kvl_stop_on_signals();
  int rc = c->showing ? show(c, &err) : plan_it(c, &err, &met);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
  }
  free(command);
  free(c);
  return rc == 0 ? 0 : rc == -EINTR ? 130 : 1;
}
