/* kvloan dspark-table: the table by which drafts are scheduled, from runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/dspark_table.h"

enum { SETS_MAX = 256 };

static const char help[] =
  "usage: kvloan dspark-table SCENARIO.json [OPTIONS]\n"
  "\n"
  "Builds the table of step times by which DSpark schedules drafts: runs the scenario at batches up to the largest that its mode makes possible, that one with\n"
  "none to all drafts verified, and prints the scenario's speculation with that table in it, as a descriptor. Use it with --set=speculation=FILE.json; the run\n"
  "carries the descriptor's name (adaptive+NAME), so it is a row of its own wherever runs are compared.\n"
  "  --out=FILE.json      write it there (default: standard output)\n"
  "  --name=NAME          name of the descriptor (default: the old one with -tuned-MODE)\n"
  "  --batch-max=N        largest batch (default: what fits a decode GPU)\n"
  "  --set=KEY=VALUE      change a scenario key in every run; repeat as you like\n"
  "  --plane=model|host|cuda   where the runs are timed (default: model)\n"
  "  --threads=N          default: all cores; the result does not depend on it\n";

static void say(void *context, const char *what)
{
  (void)context;
  fprintf(stderr, "\r\033[K%s ...", what);
}

int kvl_cmd_dspark_table(int argc, char **argv)
{
  const char *sets[SETS_MAX], *out = NULL, *name = NULL;
  struct kvl_dspark_table_options o = {.sets = sets, .plane = "model", .stop = &kvl_stop};
  const struct kvl_option options[] = {
    {KVL_OPTION("out", TEXT, &out)},
    {KVL_OPTION("name", TEXT, &name)},
    {KVL_OPTION("batch-max", COUNT, &o.batch_max), .number = 512},
    {KVL_OPTION("set", SET, sets), .count = &o.set_count, .number = SETS_MAX},
    {KVL_OPTION("plane", PLANE, &o.plane)},
    {KVL_OPTION("threads", THREADS, &o.threads)},
  };
  int code = kvl_cmd_options("dspark-table", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  if (argc - optind != 1) {
    fprintf(stderr, "kvloan dspark-table: %s (kvloan dspark-table --help tells more)\n", optind == argc ? "which scenario?" : "one scenario at a time");
    return 2;
  }
  o.scenario = argv[optind];
  kvl_stop_on_signals();
  bool terminal = isatty(STDERR_FILENO) == 1;
  o.say = terminal ? say : NULL;
  struct kvl_err err;
  struct kvl_dspark_table table;
  char *text = NULL;
  int rc = out == NULL ? 0 : kvl_place_ready(out, &err); /* before minutes of runs */
  rc = rc != 0 ? rc : kvl_dspark_table_build(&o, &table, &err);
  if (terminal) {
    fprintf(stderr, "\r\033[K");
  }
  rc = rc != 0 ? rc : kvl_dspark_table_descriptor(&o, &table, name, &text, &err);
  if (rc == 0 && out != NULL) {
    rc = kvl_place_write_text(out, text, &err);
  } else if (rc == 0) {
    fputs(text, stdout);
  }
  free(text);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
    return rc == -EINTR ? 130 : 1;
  }
  fprintf(stderr, "%u runs: step times over %u to %u verified tokens, drafting over 1 to %u requests\n", table.runs, (unsigned)table.step_ns.x[0],
          (unsigned)table.step_ns.x[table.step_ns.n - 1], table.batch_max);
  return 0;
}
