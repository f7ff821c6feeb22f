/* kvloan dspark-table: the table by which drafts are scheduled, from runs. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "sim/cmd.h"
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
  static const struct option options[] = {
    {"out", required_argument, NULL, 'o'},     {"name", required_argument, NULL, 'n'},  {"batch-max", required_argument, NULL, 'b'},
    {"set", required_argument, NULL, 's'},     {"plane", required_argument, NULL, 'p'}, {"threads", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
  };
  const char *sets[SETS_MAX], *out = NULL, *name = NULL;
  struct kvl_dspark_table_options o = {.sets = sets, .plane = "model", .stop = &kvl_stop};
  int option;
  optind = 1;
  opterr = 0;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    switch (option) {
    case 'o':
      out = optarg;
      break;
    case 'n':
      name = optarg;
      break;
    case 'b': {
      char *end;
      unsigned long n = strtoul(optarg, &end, 10);
      if (end == optarg || *end != '\0' || n < 1 || n > 512) {
        fprintf(stderr, "kvloan dspark-table: --batch-max=%s: not a number from 1 to 512\n", optarg);
        return 2;
      }
      o.batch_max = (uint32_t)n;
      break;
    }
    case 's':
      if (kvl_cmd_set("dspark-table", optarg, sets, &o.set_count, SETS_MAX) != 0) {
        return 2;
      }
      break;
    case 'p':
      if (kvl_cmd_plane("dspark-table", optarg, &o.plane) != 0) {
        return 2;
      }
      break;
    case 't':
      if (kvl_cmd_threads("dspark-table", optarg, &o.threads) != 0) {
        return 2;
      }
      break;
    case 'h':
      fputs(help, stdout);
      return 0;
    default:
      return kvl_cmd_bad_option("dspark-table", argc, argv, options, option);
    }
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
