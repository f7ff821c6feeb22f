/* kvloan sensitivity SCENARIO.json */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/text.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/design_run.h"
#include "sim/run_repeats.h"
#include "sim/sensitivity.h"

enum { SETS_MAX = 256 };

static const char help[] =
  "usage: kvloan sensitivity SCENARIO.json [OPTIONS]\n"
  "       kvloan sensitivity SCENARIO.json --list [OPTIONS]\n"
  "\n"
  "Moves each number of a scenario that is calibrated or open by itself (its origin says so; the preset of the selections, the law of the host link and the\n"
  "acceptance of speculation always), runs the model plane with each value, and ranks the numbers by their largest effect, in percent, on output\n"
  "throughput, time to first token p90, request rate p10 and time per output token p90. Percentiles are taken within a run. An effect is the mean of the\n"
  "differences from the base between runs of one seed; one that its interval cannot tell from 0 is marked as inside the noise.\n"
  "  --keys=KEY,...         only these: keys, sections (costs, hardware.link), or a key with its values (policy.hot_rows=1024:4096)\n"
  "  --change=PERCENT       how far a number is moved down and up when its origin states no range (default 10%)\n"
  "  --repeats=N            seeds of each value: seed, seed + 1, ... (default 3; 1: no noise is known)\n"
  "  --confidence=PERCENT   of the intervals, Student's t (default 95)\n"
  "  --list                 the numbers and their values, without running any\n"
  "  --set=KEY=VALUE        change a scenario key for every run; repeat as you like\n"
  "  --seed=N               the same as --set=seed=N\n"
  "  --store=FILE           keep the summary of each run in a result store; ended at any moment and started again, the same command goes on\n"
  "  --threads=N            in all (default: as many as there are cores); no result depends on it\n"
  "  --format=table|json|tsv, --quiet\n";

struct call {
  const char *scenario, *store, *keys, *command;
  const char *set[SETS_MAX];
  char seed[KVL_CMD_SEED_MAX];
  unsigned sets;
  uint32_t repeats, threads;
  double change, confidence;
  bool list, quiet, confidence_given;
  int format;
};

static int take_change(void *to, const char *word)
{
  char *end = NULL;
  double percent = word[0] >= '0' && word[0] <= '9' ? strtod(word, &end) : 0.0;
  end = end != NULL && *end == '%' ? end + 1 : end;
  if (!(percent >= 0.01 && percent <= 90.0) || *end != '\0') {
    fprintf(stderr, "kvloan sensitivity: --change=%s: not a percentage from 0.01 to 90 (nearest: --change=10%%)\n", word);
    return 2;
  }
  *(double *)to = percent / 100.0;
  return 0;
}

static int take_repeats(void *to, const char *word)
{
  return kvl_repeats_count("sensitivity", word, to);
}

static int take_confidence(void *to, const char *word)
{
  return kvl_repeats_confidence("sensitivity", word, to);
}

/* 0, an exit code, or -1 after --help. */
static int parse(struct call *c, int argc, char **argv)
{
  const struct kvl_option options[] = {
    {KVL_OPTION("keys", TEXT, &c->keys)},
    {KVL_OPTION("change", OWN, &c->change), .read = take_change},
    {KVL_OPTION("repeats", OWN, &c->repeats), .read = take_repeats},
    {KVL_OPTION("confidence", OWN, &c->confidence), .read = take_confidence, .given = &c->confidence_given},
    {KVL_OPTION("list", FLAG, &c->list)},
    {KVL_OPTION("set", SET, c->set), .count = &c->sets, .number = SETS_MAX},
    {KVL_OPTION("seed", SEED, c->set), .count = &c->sets, .number = SETS_MAX, .text = c->seed},
    {KVL_OPTION("store", STORE, &c->store)},
    {KVL_OPTION("threads", THREADS, &c->threads)},
    {KVL_OPTION("format", FORMAT, &c->format)},
    {KVL_OPTION("quiet", FLAG, &c->quiet)},
  };
  int code = kvl_cmd_options("sensitivity", help, KVL_OPTIONS(options), argc, argv);
  if (code == 0 && argc - optind != 1) {
    fprintf(stderr, "kvloan sensitivity: %s (kvloan sensitivity --help tells more)\n", optind == argc ? "which scenario?" : "one scenario at a time");
    return 2;
  }
  if (code == 0 && c->repeats < 2 && c->confidence_given) {
    fprintf(stderr, "kvloan sensitivity: an interval needs at least 2 runs (--repeats=2)\n");
    return 2;
  }
  c->scenario = code == 0 ? argv[optind] : NULL;
  return code;
}

/* Reasons of what failed, and the summaries of what did not. */
static int collect(struct kvl_sensitivity *s, const struct call *c, const struct kvl_design_cell *cell, const struct kvl_summary **summary, struct kvl_err *err)
{
  for (uint32_t t = 0; t < s->points * c->repeats; t++) {
    summary[t] = cell[t].complete ? &cell[t].summary : NULL;
    if (!cell[t].complete && t < c->repeats) {
      return kvl_err_set(err, -EIO, "%s: the run that all others are compared with failed: %.300s", c->scenario, cell[t].reason);
    }
  }
  for (uint32_t i = 0; i < s->count; i++) {
    for (uint32_t v = 0; v < s->item[i].values; v++) {
      struct kvl_vary_value *value = &s->item[i].value[v];
      for (uint32_t r = 0; r < c->repeats && value->reason[0] == '\0'; r++) {
        (void)snprintf(value->reason, sizeof value->reason, "%s", cell[(size_t)value->point * c->repeats + r].reason);
      }
    }
  }
  return 0;
}

static int study(struct kvl_sensitivity *s, const struct call *c, const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *scenario = kvl_scenario_of(doc);
  uint32_t tasks = s->points * c->repeats;
  struct kvl_sweep *design = NULL;
  struct kvl_design_cell *cell = calloc(tasks, sizeof *cell);
  const struct kvl_summary **summary = calloc(tasks, sizeof *summary);
  char *points = kvl_sensitivity_points(s), name[KVL_NAME_MAX + 16];
  struct kvl_sweep_call call = {.store = c->store, .plane = "model", .command = c->command, .summary_only = true, .share = {0, 1}, .stop = &kvl_stop,
                                .quiet = c->quiet || isatty(STDERR_FILENO) != 1};
  (void)snprintf(name, sizeof name, "%.70s, sensitivity", scenario->name);
  call.design = name;
  kvl_repeats_share(c->threads, tasks, &call.jobs, &call.threads);
  int rc = cell == NULL || summary == NULL || points == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : 0;
  if (rc == 0 && scenario->seed > UINT64_MAX - KVL_SWEEP_REPEATS_MAX) {
    rc = kvl_err_set(err, -EINVAL, "seed: %" PRIu64 " leaves no room for %u seed%s above it", scenario->seed, (unsigned)c->repeats, kvl_text_s(c->repeats));
  }
  rc = rc != 0 ? rc : kvl_design_parse(&design, name, c->scenario, points, c->set, c->sets, scenario->seed, c->repeats, err);
  rc = rc != 0 ? rc : kvl_design_run(design, &call, cell, NULL, err);
  rc = rc != 0 ? rc : collect(s, c, cell, summary, err);
  if (rc == 0 && kvl_sensitivity_judge(s, summary, c->repeats, c->confidence) != 0) {
    rc = kvl_err_set(err, -ENOMEM, "out of memory");
  }
  kvl_sweep_free(design);
  free(points);
  free(summary);
  free(cell);
  return rc;
}

static int run(const struct call *c)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_sensitivity *s = calloc(1, sizeof *s);
  struct kvl_err err = {"out of memory"};
  int rc = s == NULL ? -ENOMEM : kvl_scenario_load(&doc, c->scenario, c->set, c->sets, &err);
  rc = rc != 0 ? rc : kvl_scenario_check_sets(doc, &err);
  rc = rc != 0 ? rc : kvl_sensitivity_pick(s, doc, c->scenario, c->set, c->sets, c->keys, c->change, &err);
  if (rc == 0 && c->list) {
    kvl_sensitivity_list(stdout, (enum kvl_format)c->format, s);
  } else if (rc == 0) {
    kvl_stop_on_signals();
    rc = study(s, c, doc, &err);
    if (rc == 0) {
      char label[KVL_LABEL_MAX], title[KVL_NAME_MAX + KVL_LABEL_MAX + 2];
      const struct kvl_scenario *scenario = kvl_scenario_of(doc);
      (void)snprintf(title, sizeof title, "%s, %s", scenario->name, kvl_mode_label(scenario, label));
      kvl_sensitivity_write(stdout, (enum kvl_format)c->format, title, s, c->repeats, scenario->seed, c->confidence);
    }
  }
  if (rc != 0) {
    fprintf(stderr, "%s%s\n", rc == -EINTR ? "kvloan sensitivity: " : "", err.text);
  }
  if (s != NULL) {
    kvl_sensitivity_free(s);
  }
  free(s);
  kvl_scenario_free(doc);
  return rc == 0 ? 0 : rc == -EINTR ? 130 : 1;
}

int kvl_cmd_sensitivity(int argc, char **argv)
{
  struct call *c = calloc(1, sizeof *c);
  char *command = kvl_cmd_line(argc, argv);
  int code = 1;
  if (c == NULL || command == NULL) {
    fprintf(stderr, "kvloan sensitivity: out of memory\n");
  } else {
    c->repeats = 3;
    c->change = 0.1;
    c->confidence = 0.95;
    c->command = command;
    code = parse(c, argc, argv);
    code = code == 0 ? run(c) : code < 0 ? 0 : code;
  }
  free(command);
  free(c);
  return code;
}
