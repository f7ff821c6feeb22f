/* kvloan validate SCENARIO.json */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/cmd_progress.h"
#include "sim/validate.h"

enum { SETS_MAX = 256 };

static const char help[] =
  "usage: kvloan validate SCENARIO.json [OPTIONS]\n"
  "\n"
  "Runs the scenario on a plane with real bytes and compares the model plane with it, in two ways: the recorded completions are replayed (every decision must\n"
  "be the same, every count by tier equal), and the same scenario is forecast independently (each tier within 2 % of all selections). Times are printed with the\n"
  "model's error beside them. Exit 1 on any byte that differs, decision that differs, or tier past its bound.\n"
  "  --plane=cuda|host|model  what is measured (default: cuda); model has no bytes: --check=none\n"
  "  --check=all|sample|none  steps whose selected rows are read back and compared (default: sample, each 16th)\n"
  "  --floor              cuda: gather the host rows of each 4th step once more behind it, and nothing else: what look-ups and fetches take beyond that\n"
  "  --set=KEY=VALUE      change a scenario key by its path; repeat as you like\n"
  "  --store=FILE.db      keep the run and the comparison in a result store\n"
  "  --record=FILE        keep the decision log\n"
  "  --threads=N          that resolve selections (default: all cores)\n"
  KVL_OPTION_FORMATS_HELP;

/* What a reader should know beside the table. */
static void print_notes(const struct kvl_validate_result *r, const struct kvl_run_options *o, uint32_t failed)
{
  if (r->run.mismatches != 0) {
    fprintf(stderr, "the first row with other bytes: %s\n", r->run.measured.first_mismatch);
  }
  if (r->replay.failed != 0) {
    fprintf(stderr, "%s\n", r->replay.why.text);
  }
  if (r->replay.steps_differ != 0) {
    fprintf(stderr, "counts differ when replayed: %s\n", r->replay.first_difference);
  }
  if (strcmp(o->plane, "cuda") != 0) {
    fprintf(stderr, "note: times of the %s plane come from the cost model: nothing but the GPU measures them\n", o->plane);
  }
  if (o->store != NULL) {
    fprintf(stderr, "stored as run %" PRId64 " in %s\n", r->run.run, o->store);
  }
  fprintf(stderr, "validation %s: %" PRIu32 " of its rows failed\n", failed == 0 ? "passed" : "FAILED", failed);
}

static int validate(const char *path, const char *const *sets, unsigned set_count, const struct kvl_run_options *options, int format)
{
  struct kvl_err err = {""};
  struct kvl_scenario_doc *doc = NULL;
  static struct kvl_validate_result result;
  int code = 1;
  if (kvl_scenario_load(&doc, path, sets, set_count, &err) != 0 || kvl_scenario_check_sets(doc, &err) != 0) {
    fprintf(stderr, "%s\n", err.text);
    kvl_scenario_free(doc);
    return 1;
  }
  kvl_stop_on_signals();
  struct kvl_run_options o = *options;
  struct kvl_cmd_progress progress;
  kvl_cmd_progress_begin(&progress, "measured, then forecast: ");
  if (isatty(STDERR_FILENO) == 1) {
    o.progress = kvl_cmd_progress_show;
    o.progress_context = &progress;
  }
  int rc = kvl_validate(doc, &o, &result, &err);
  kvl_cmd_progress_end(&progress);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
    code = kvl_stop != 0 ? 130 : 1;
  } else {
    const struct kvl_scenario *s = kvl_scenario_of(doc);
    char title[KVL_NAME_MAX + 96];
    (void)snprintf(title, sizeof title, "%s, %s: %s plane against the model plane", s->name, kvl_mode_name(s->mode), options->plane);
    kvl_validation_write(stdout, (enum kvl_format)format, title, &result.validation);
    uint32_t failed = kvl_validation_failed(&result.validation);
    print_notes(&result, options, failed);
    code = failed != 0;
  }
  kvl_scenario_free(doc);
  return code;
}

int kvl_cmd_validate(int argc, char **argv)
{
  const char *sets[SETS_MAX];
  unsigned set_count = 0;
  struct kvl_run_options run = {.plane = "cuda", .stop = &kvl_stop};
  int format = KVL_FORMAT_TABLE, check = KVL_CHECK_SAMPLE;
  char *command = kvl_cmd_line(argc, argv); /* before getopt reorders them */
  const struct kvl_option options[] = {
    {KVL_OPTION("plane", PLANE, &run.plane)},
    {KVL_OPTION("check", CHECK, &check)},
    {KVL_OPTION("floor", FLAG, &run.floor)},
    {KVL_OPTION("set", SET, sets), .count = &set_count, .number = SETS_MAX},
    {KVL_OPTION("store", STORE, &run.store)},
    {KVL_OPTION("record", TEXT, &run.record)},
    {KVL_OPTION("threads", THREADS, &run.threads)},
    KVL_OPTION_FORMATS(&format),
  };
  int code = kvl_cmd_options("validate", help, KVL_OPTIONS(options), argc, argv);
  if (code < 0) {
    free(command);
    return 0;
  }
  if (code == 0 && argc - optind != 1) {
    fprintf(stderr, "kvloan validate: %s (kvloan validate --help tells more)\n", optind == argc ? "which scenario?" : "one scenario at a time");
    code = 2;
  }
  if (code == 0 && run.floor && strcmp(run.plane, "cuda") != 0) {
    fprintf(stderr, "kvloan validate: --floor: only --plane=cuda has a gather to time, not --plane=%s\n", run.plane);
    code = 2;
  }
  run.check = (enum kvl_check)check;
  run.command = command;
  code = code != 0 ? code : validate(argv[optind], sets, set_count, &run, format);
  free(command);
  return code;
}
