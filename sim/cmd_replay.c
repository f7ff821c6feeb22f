/* kvloan replay FILE */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "results/text.h"
#include "sim/cmd.h"
#include "sim/cmd_checked.h"
#include "sim/cmd_options.h"
#include "sim/replay.h"

static const char help[] =
  "usage: kvloan replay FILE [OPTIONS]\n"
  "\n"
  "Replays a decision log (kvloan run --record=FILE) in the model plane: completions come when and in the order in which they were recorded, look-ups are\n"
  "done anew, every decision must be the recorded one. Exit 0: identical, 1: not.\n"
  "  --plane=model|host   what does the look-ups (default: model); host moves and compares real bytes as well\n"
  "  --threads=N          that resolve selections (default: all cores)\n"
  "  --verify             check every invariant after every event (slow)\n"
  KVL_OPTION_FORMATS_HELP;

/* What was compared: a count on both sides. */
struct row {
  char name[48];
  uint64_t recorded, replayed;
};
enum { ROWS_MAX = KVL_TIERS + 16 };

static uint32_t rows_of(const struct kvl_replay_report *r, struct row rows[ROWS_MAX])
{
  uint32_t n = 0;
  for (unsigned t = 0; t < KVL_TIERS; t++, n++) {
    (void)snprintf(rows[n].name, sizeof rows[n].name, "selections_by_tier.%s", kvl_tier_name(t));
    rows[n].recorded = r->recorded.lanes[t];
    rows[n].replayed = r->replayed.lanes[t];
  }
  const struct row more[] = {
    {"rows_fetched", r->recorded.fetched, r->replayed.fetched},
    {"rows_overflow", r->recorded.overflow, r->replayed.overflow},
    {"violations", r->recorded.violations, r->replayed.violations},
    {"shared_lanes", r->recorded.shared_lanes, r->replayed.shared_lanes},
    {"prefetch.candidates", r->recorded_prefetch.candidates, r->replayed_prefetch.candidates},
    {"prefetch.copied", r->recorded_prefetch.copied, r->replayed_prefetch.copied},
    {"prefetch.dropped", r->recorded_prefetch.dropped, r->replayed_prefetch.dropped},
    {"prefetch.used", r->recorded_prefetch.used, r->replayed_prefetch.used},
    {"prefetch.later_demand", r->recorded_prefetch.later_demand, r->replayed_prefetch.later_demand},
  };
  memcpy(&rows[n], more, sizeof more);
  return n + sizeof more / sizeof more[0];
}

static void write_table(const struct kvl_log *log, const struct kvl_replay_report *r, const char *plane, const struct row *rows, uint32_t count)
{
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX];
  printf("%s: recorded on the %s plane by kvloan %s, replayed on the %s plane\n\n", kvl_log_name(log), kvl_log_plane(log), kvl_log_build(log), plane);
  printf("%-28s%18s\n", "decisions, all identical", kvl_text_count(a, r->decisions));
  printf("%-28s%18s\n", "answers of the plane", kvl_text_count(a, r->waits));
  printf("%-28s%18s\n", "  steps", kvl_text_count(a, r->steps));
  printf("%-28s%18s\n", "  copies", kvl_text_count(a, r->copies));
  printf("%-28s%18s\n\n", "steps with other counts", kvl_text_count(a, r->steps_differ));
  printf("%-28s%18s%18s\n", "", "recorded", "replayed");
  for (uint32_t i = 0; i < count; i++) {
    if (rows[i].recorded != 0 || rows[i].replayed != 0) {
      printf("%-28s%18s%18s\n", rows[i].name, kvl_text_count(a, rows[i].recorded), kvl_text_count(b, rows[i].replayed));
    }
  }
}

static void write_json(const struct kvl_log *log, const struct kvl_replay_report *r, const char *plane, const struct row *rows, uint32_t count)
{
  fputs("{\n  \"log\": ", stdout);
  kvl_text_json_string(stdout, kvl_log_name(log));
  fputs(",\n  \"recorded_on\": ", stdout);
  kvl_text_json_string(stdout, kvl_log_plane(log));
  fputs(",\n  \"recorded_by\": ", stdout);
  kvl_text_json_string(stdout, kvl_log_build(log));
  fputs(",\n  \"replayed_on\": ", stdout);
  kvl_text_json_string(stdout, plane);
  printf(",\n  \"identical\": %s,\n  \"decisions\": %" PRIu64 ",\n  \"answers\": %" PRIu64 ",\n  \"steps\": %" PRIu64 ",\n  \"copies\": %" PRIu64
         ",\n  \"steps_differ\": %" PRIu64 ",\n  \"counts\": {", r->steps_differ == 0 ? "true" : "false", r->decisions, r->waits, r->steps, r->copies,
         r->steps_differ);
  for (uint32_t i = 0; i < count; i++) {
    printf("%s\n    \"%s\": {\"recorded\": %" PRIu64 ", \"replayed\": %" PRIu64 "}", i == 0 ? "" : ",", rows[i].name, rows[i].recorded, rows[i].replayed);
  }
  printf("\n  }\n}\n");
}

static void write_tsv(const struct kvl_replay_report *r, const struct row *rows, uint32_t count)
{
  printf("key\trecorded\treplayed\ndecisions\t%" PRIu64 "\t%" PRIu64 "\nsteps\t%" PRIu64 "\t%" PRIu64 "\ncopies\t%" PRIu64 "\t%" PRIu64 "\n", r->decisions,
         r->decisions, r->steps, r->steps, r->copies, r->copies);
  for (uint32_t i = 0; i < count; i++) {
    printf("%s\t%" PRIu64 "\t%" PRIu64 "\n", rows[i].name, rows[i].recorded, rows[i].replayed);
  }
}

static int replay(const char *path, const struct kvl_run_options *options, int format)
{
  struct kvl_err err = {""};
  struct kvl_log *log = NULL;
  static struct kvl_replay_result result;
  int rc = kvl_log_open(&log, path, &err);
  rc = rc != 0 ? rc : kvl_replay(log, options, &result, &err);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
    kvl_log_free(log);
    return 1;
  }
  struct row rows[ROWS_MAX];
  uint32_t count = rows_of(&result.report, rows);
  if (format == KVL_FORMAT_TABLE) {
    write_table(log, &result.report, options->plane, rows, count);
  } else if (format == KVL_FORMAT_JSON) {
    write_json(log, &result.report, options->plane, rows, count);
  } else {
    write_tsv(&result.report, rows, count);
  }
  if (result.report.steps_differ != 0) {
    fprintf(stderr, "%s: %" PRIu64 " step%s other counts; %s\n", path, result.report.steps_differ, result.report.steps_differ == 1 ? " has" : "s have", result.report.first_difference);
  }
  kvl_cmd_tell_checked(&result.run);
  kvl_log_free(log);
  return result.report.steps_differ != 0 || result.run.mismatches != 0;
}

int kvl_cmd_replay(int argc, char **argv)
{
  struct kvl_run_options run = {.plane = "model"};
  int format = KVL_FORMAT_TABLE;
  const struct kvl_option options[] = {
    {KVL_OPTION("plane", TEXT, &run.plane)},
    {KVL_OPTION("threads", THREADS, &run.threads)},
    {KVL_OPTION("verify", FLAG, &run.verify)},
    KVL_OPTION_FORMATS(&format),
  };
  int code = kvl_cmd_options("replay", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  if (argc - optind != 1) {
    fprintf(stderr, "kvloan replay: %s (kvloan replay --help tells more)\n", optind == argc ? "which log?" : "one log at a time");
    return 2;
  }
  return replay(argv[optind], &run, format);
}
