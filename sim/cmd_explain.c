/* kvloan explain RUN: why a stored run behaves as it does, and what to turn next. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "results/select.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/cmd_progress.h"
#include "sim/explain_write.h"
#include "traces/decimal.h"

enum { SETS_MAX = 128, KNOBS = 8 };

static const char help[] =
  "usage: kvloan explain --store=FILE RUN [OPTIONS]\n"
  "\n"
  "Why a stored run behaves as it does: what binds, time by cause, who holds the HBM over time, what the host link carried, where each layer finds its\n"
  "rows. Then the model plane is run again with one thing changed at a time: a link that costs nothing and hot caches that know the future (bounds),\n"
  "settings, and more hardware; and the single setting worth turning next is named.\n"
  "  --for=FIGURE         what is to improve: throughput, goodput, ttft, rate (of the slowest tenth of the requests), latency (end to end);\n"
  "                       default: goodput where the scenario has targets, throughput in a closed loop, else latency\n"
  "  --knobs=N            most settings to turn (8); 0: none, nor bounds, nor hardware: nothing is run again\n"
  "  --requests=N         requests of each re-run (default: all; fewer when the run resolved more than 4 billion selections); with too few to press\n"
  "                       on the pool as the run did no setting is named, but the least number that would do\n"
  "  --set=KEY=VALUE      change the run's scenario first, for instance workload.file when it has moved; repeat as you like\n"
  "  --format=table|json|tsv\n"
  "  --threads=N          re-runs at once (default: all cores)\n"
  "  --quiet              no progress line\n"
  "\n"
  "RUN is an id, a name or its start, or latest; latest:mode=fixed and the like choose among runs (kvloan results --help).\n";

struct call {
  const char *store, *word;
  const char *sets[SETS_MAX];
  int format;
  bool quiet;
  struct kvl_explain_options options;
  int objective; /* -1: by the scenario */
};

static int number_of(const char *option, const char *word, uint64_t most, uint64_t *value)
{
  const char *end = word;
  if (kvl_decimal_read(&end, 0, most, value) != 0 || *end != '\0') {
    fprintf(stderr, "kvloan explain: --%s=%s: not a whole number up to %llu\n", option, word, (unsigned long long)most);
    return -1;
  }
  return 0;
}

static int objective_of(const char *word, int *objective)
{
  const char *names[KVL_OBJECTIVES];
  for (int i = 0; i < KVL_OBJECTIVES; i++) {
    names[i] = kvl_objective_name((enum kvl_objective)i);
  }
  int choice = kvl_cmd_choice("explain", "for", "figure", word, names, KVL_OBJECTIVES);
  *objective = choice < 0 ? *objective : choice;
  return choice < 0 ? -1 : 0;
}

static int take_objective(void *to, const char *word)
{
  return objective_of(word, to);
}

static int take_knobs(void *to, const char *word)
{
  uint64_t number = 0;
  int rc = number_of("knobs", word, 20, &number);
  *(uint32_t *)to = (uint32_t)number;
  return rc;
}

static int take_requests(void *to, const char *word)
{
  return number_of("requests", word, UINT64_C(1) << 40, to);
}

/* 0; 2: usage, said; -1: --help. */
static int parse(struct call *c, int argc, char **argv)
{
  const struct kvl_option options[] = {
    {KVL_OPTION("store", STORE, &c->store)},
    {KVL_OPTION("for", OWN, &c->objective), .read = take_objective},
    {KVL_OPTION("knobs", OWN, &c->options.knobs), .read = take_knobs},
    {KVL_OPTION("requests", OWN, &c->options.requests), .read = take_requests},
    {KVL_OPTION("set", SET, c->sets), .count = &c->options.set_count, .number = SETS_MAX},
    {KVL_OPTION("format", FORMAT, &c->format)},
    {KVL_OPTION("threads", THREADS, &c->options.threads)},
    {KVL_OPTION("quiet", FLAG, &c->quiet)},
  };
  int code = kvl_cmd_options("explain", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    return code;
  }
  if (c->store == NULL || argc - optind != 1) {
    fprintf(stderr, "kvloan explain: %s (kvloan explain --help tells more)\n",
            c->store == NULL ? "which store? --store=FILE" : optind == argc ? "which run? an id, a name, or latest" : "one run at a time");
    return 2;
  }
  c->word = argv[optind];
  return 0;
}

/* The scenario of the run, as it was run or changed by --set. */
static int load_scenario(struct kvl_store *store, const struct kvl_stored_run *run, const struct call *c, char **json, char *name, size_t name_size,
                         struct kvl_scenario_doc **doc, struct kvl_err *err)
{
  int rc = kvl_store_scenario(store, run->id, json, err);
  (void)snprintf(name, name_size, "scenario of run %lld", (long long)run->id);
  return rc != 0 ? rc : kvl_scenario_parse(doc, *json, strlen(*json), name, c->sets, c->options.set_count, err);
}

static int explain(const struct call *call, struct kvl_store *store, const struct kvl_stored_run *run, struct kvl_err *err)
{
  struct kvl_explain_facts *facts = malloc(sizeof *facts);
  struct kvl_what_if *what_if = calloc(1, sizeof *what_if);
  struct kvl_scenario_doc *doc = NULL;
  struct call c = *call;
  struct kvl_cmd_progress progress;
  char *json = NULL, name[64];
  int rc = facts == NULL || what_if == NULL ? kvl_err_set(err, -ENOMEM, "kvloan explain: out of memory") : 0;
  if (rc == 0 && !run->has_summary) {
    rc = kvl_err_set(err, -EINVAL, "%s: run %lld is %s and has no summary to explain", c.store, (long long)run->id, kvl_stored_status_name(run->status));
  }
  if (rc == 0 && run->summary.steps == 0) {
    rc = kvl_err_set(err, -EINVAL, "%s: run %lld is %s and ended before its first decode step: there is nothing to explain", c.store, (long long)run->id,
                     kvl_stored_status_name(run->status));
  }
  rc = rc != 0 ? rc : load_scenario(store, run, &c, &json, name, sizeof name, &doc, err);
  rc = rc != 0 ? rc : kvl_explain_read(facts, store, run, kvl_scenario_of(doc), err);
  if (rc == 0 && c.options.knobs > 0) {
    c.options.objective = c.objective >= 0 ? (enum kvl_objective)c.objective : kvl_objective_of(kvl_scenario_of(doc));
    c.options.sets = c.sets;
    c.options.stop = &kvl_stop;
    c.options.progress = !c.quiet && isatty(STDERR_FILENO) == 1 ? kvl_cmd_progress_reruns : NULL;
    c.options.progress_context = &progress;
    kvl_cmd_progress_begin(&progress, "");
    rc = kvl_explain_what_if(what_if, facts, json, name, &c.options, err);
    kvl_cmd_progress_end(&progress);
  }
  if (rc == 0) {
    kvl_explain_write(stdout, (enum kvl_format)c.format, facts, c.options.knobs > 0 ? what_if : NULL);
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

int kvl_cmd_explain(int argc, char **argv)
{
  struct call c = {.format = KVL_FORMAT_TABLE, .objective = -1, .options = {.knobs = KNOBS}};
  int code = parse(&c, argc, argv);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  kvl_stop_on_signals();
  struct kvl_err err = {""};
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_store *store = NULL;
  struct kvl_run_list list = {NULL, 0};
  uint32_t index;
  int rc = kvl_store_open_with(&store, c.store, &reading, &err);
  rc = rc != 0 ? rc : kvl_store_list(store, &list, &err);
  rc = rc != 0 ? rc : kvl_select_run(&list, c.store, c.word, &index, &err);
  rc = rc != 0 ? rc : explain(&c, store, &list.run[index], &err);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
  }
  kvl_run_list_free(&list);
  kvl_store_close(store);
  return rc == 0 ? 0 : rc == -EINTR ? 130 : 1;
}
