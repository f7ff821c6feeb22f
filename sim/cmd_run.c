/* kvloan run SCENARIO.json */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cmd.h"
#include "sim/cmd_checked.h"
#include "sim/cmd_options.h"
#include "sim/cmd_progress.h"
#include "sim/plane_model.h"
#include "sim/run.h"
#include "sim/run_repeats.h"
#include "sim/trace_note.h"

enum { SETS_MAX = 256 };

static const char help[] =
  "usage: kvloan run SCENARIO.json [OPTIONS]\n"
  "\n"
  "Replays the scenario and prints its summary.\n"
  "  --set=KEY=VALUE      change a scenario key by its path (kvloan scenario keys lists them); repeat as you like\n"
  "  --seed=N             the same as --set=seed=N\n"
  "  --plane=model|host|cuda  model: time from the cost model (default); host: real bytes are moved and compared as well; cuda: on the GPU, against the\n"
  "                       wall clock\n"
  "  --check=all|sample|none  host, cuda: steps whose selected rows are read back and compared (default: all)\n"
  "  --store=FILE.db      keep the run in a result store\n"
  "  --repeats=N          N runs with the seeds seed, seed + 1, ..., on all cores: mean, deviation and interval of every key (percentiles are taken within a\n"
  "                       run, not pooled); in a store each run is one of its own, and the same command goes on where it was ended\n"
  "  --confidence=PERCENT of that interval, Student's t (default: 95)\n"
  "  --record=FILE        write the decision log: every answer of the plane and every decision (kvloan replay FILE)\n"
  "  --format=table|json|tsv\n"
  "  --threads=N          that resolve selections (default: all cores); the result does not depend on it\n"
  "  --verify             check every invariant after every event (slow)\n"
  "  --quiet              no progress line\n";

static void print_notes(const struct kvl_scenario_doc *doc, const struct kvl_run_result *r, const char *store)
{
  const struct kvl_summary *s = &r->engine.summary;
  char note[512];
  if (kvl_trace_note(kvl_scenario_of(doc), 0, note, sizeof note)) {
    fprintf(stderr, "%s\n", note);
  }
  if (kvl_trace_drafts_note(kvl_scenario_of(doc), note, sizeof note)) {
    fprintf(stderr, "%s\n", note);
  }
  if (kvl_scenario_note(doc, note, sizeof note)) {
    fprintf(stderr, "note: %s\n", note);
  }
  if (r->engine.status == KVL_RUN_INTERRUPTED) {
    fprintf(stderr, "kvloan run: ended early at %.3f s of simulated time; %" PRIu64 " request%s cut short\n", s->simulated_s, s->requests_aborted, s->requests_aborted == 1 ? " was" : "s were");
  }
  if ((r->estimates & KVL_ESTIMATE_ROOFLINE) != 0) {
    fprintf(stderr, "note: compute times are roofline estimates, not measurements\n");
  }
  if ((r->estimates & KVL_ESTIMATE_COMPUTE_OUTSIDE) != 0) {
    fprintf(stderr, "note: step times were extrapolated past the ends of the compute table\n");
  }
  if ((r->estimates & KVL_ESTIMATE_FOREIGN_PROFILE) != 0) {
    fprintf(stderr, "note: the cost profile was made for another model or part: every time is an extrapolation (kvloan scenario check says which)\n");
  }
  if ((r->estimates & KVL_ESTIMATE_LINK_OUTSIDE) != 0) {
    fprintf(stderr, "note: some host gathers range over less or more memory than the link's curve was measured for\n");
  }
  kvl_cmd_tell_checked(r);
  if (store != NULL) {
    fprintf(stderr, "stored as run %" PRId64 " in %s\n", r->run, store);
  }
  fprintf(stderr, "%.2f s of wall time, %.0f MB at most", s->wall_s, (double)s->peak_memory_bytes / 1e6);
  if (s->selections_total != 0) {
    fprintf(stderr, ", %.1f million selected positions a second", s->selections_per_wall_s / 1e6);
  }
  fprintf(stderr, "\n");
}

static int take_repeats(void *to, const char *word)
{
  return kvl_repeats_count("run", word, to);
}

static int take_confidence(void *to, const char *word)
{
  return kvl_repeats_confidence("run", word, to);
}

int kvl_cmd_run(int argc, char **argv)
{
  const char *sets[SETS_MAX];
  unsigned set_count = 0;
  char seed[KVL_CMD_SEED_MAX];
  int format = KVL_FORMAT_TABLE, check = 0;
  bool quiet = false;
  uint32_t repeats = 1;
  double confidence = 0.0;
  char *command = kvl_cmd_line(argc, argv);
  struct kvl_run_options run = {.plane = "model", .command = command, .stop = &kvl_stop};
  const struct kvl_option options[] = {
    {KVL_OPTION("set", SET, sets), .count = &set_count, .number = SETS_MAX},
    {KVL_OPTION("seed", SEED, sets), .count = &set_count, .number = SETS_MAX, .text = seed},
    {KVL_OPTION("plane", PLANE, &run.plane)},
    {KVL_OPTION("check", CHECK, &check)},
    {KVL_OPTION("record", TEXT, &run.record)},
    {KVL_OPTION("store", STORE, &run.store)},
    {KVL_OPTION("format", FORMAT, &format)},
    {KVL_OPTION("threads", THREADS, &run.threads)},
    {KVL_OPTION("repeats", OWN, &repeats), .read = take_repeats},
    {KVL_OPTION("confidence", OWN, &confidence), .read = take_confidence},
    {KVL_OPTION("verify", FLAG, &run.verify)},
    {KVL_OPTION("quiet", FLAG, &quiet)},
  };
  int code = kvl_cmd_options("run", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    code = code < 0 ? 0 : code;
    goto out;
  }
  code = 2;
  run.check = (enum kvl_check)check;
  if (argc - optind != 1) {
    fprintf(stderr, "kvloan run: %s (kvloan run --help tells more)\n", optind == argc ? "which scenario?" : "one scenario at a time");
    goto out;
  }
  if (repeats < 2 && confidence > 0.0) {
    fprintf(stderr, "kvloan run: an interval needs at least 2 runs (--repeats=2)\n");
    goto out;
  }
  if (repeats > 1 && (run.record != NULL || strcmp(run.plane, "cuda") == 0)) {
    fprintf(stderr, "kvloan run: %s; leave --repeats out\n", run.record != NULL ? "--record writes the log of one run" : "--plane=cuda has one GPU for one run at a time");
    goto out;
  }

  code = 1;
  struct kvl_err err;
  struct kvl_scenario_doc *doc = NULL;
  if (kvl_scenario_load(&doc, argv[optind], sets, set_count, &err) != 0 || kvl_scenario_check_sets(doc, &err) != 0) {
    fprintf(stderr, "%s\n", err.text);
    kvl_scenario_free(doc);
    goto out;
  }
  kvl_stop_on_signals();
  if (repeats > 1) {
    struct kvl_run_repeats several = {.scenario = argv[optind], .sets = sets, .set_count = set_count, .doc = doc, .run = &run, .repeats = repeats,
                                      .confidence = confidence > 0.0 ? confidence : 0.95, .format = (enum kvl_format)format, .quiet = quiet};
    code = kvl_run_repeats(&several);
    kvl_scenario_free(doc);
    goto out;
  }
  struct kvl_cmd_progress progress;
  kvl_cmd_progress_begin(&progress, "");
  if (!quiet && isatty(STDERR_FILENO) == 1) {
    run.progress = kvl_cmd_progress_show;
    run.progress_context = &progress;
  }
  struct kvl_run_result result;
  int rc = kvl_run(doc, &run, &result, &err);
  kvl_cmd_progress_end(&progress);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
  } else {
    const struct kvl_scenario *s = kvl_scenario_of(doc);
    char label[KVL_LABEL_MAX], title[KVL_NAME_MAX + KVL_LABEL_MAX + 2];
    (void)snprintf(title, sizeof title, "%s, %s", s->name, kvl_mode_label(s, label));
    kvl_summary_write(stdout, (enum kvl_format)format, format == KVL_FORMAT_TABLE ? title : s->name, &result.engine.summary);
    print_notes(doc, &result, run.store);
    code = result.mismatches != 0 ? 1 : kvl_stop != 0 && result.engine.status == KVL_RUN_INTERRUPTED ? 130 : 0;
  }
  kvl_scenario_free(doc);
out:
  free(command);
  return code;
}
