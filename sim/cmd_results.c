/* kvloan results: what is in a store. */
#include "sim/cmd_results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/results_sweep.h"

static const char help[] =
  "usage: kvloan results list     --store=FILE [--format=table|json|tsv]\n"
  "       kvloan results show     --store=FILE RUN [--format=table|json|tsv]\n"
  "       kvloan results compare  --store=FILE RUN RUN... [--format=table|json|tsv]\n"
  "       kvloan results export   --store=FILE RUN [--what=WHAT] [--format=tsv|json]\n"
  "       kvloan results plot     --store=FILE PICTURE [RUN...] --out=FILE.png|FILE.svg|FILE\n"
  "       kvloan results sweeps   --store=FILE [--format=table|json|tsv]\n"
  "       kvloan results table    --store=FILE [SWEEP] [OPTIONS]\n"
  "       kvloan results merge    OUT IN...\n"
  "\n"
  "RUN      an id, a name or its start, or latest; with a filter: latest:mode=adaptive,status=complete (keys: name mode plane seed status\n"
  "         concurrency). compare and plot also take all and all:mode=fixed: every complete run that fits.\n"
  "WHAT     summary (default), requests, samples (the time line of decode steps), points (counters of each selecting layer), moves (of\n"
  "         pages), scenario (as it was run; always JSON), validation (what kvloan validate compared).\n"
  "PICTURE  timeline (one run: batch and residency over time), distributions (time to first token and per-request rate; up to 8 runs), modes\n"
  "         (throughput, per-request rate and time to first token over concurrency; all runs unless some are named). Needs gnuplot. The\n"
  "         numbers are written beside the picture as FILE.tsv; FILE without an ending makes both PNG and SVG.\n"
  "sweeps, table, merge, export --what=sweep and the pictures heatmap, lines and pareto are about sweeps: kvloan results table --help tells more.\n";

static const struct {
  const char *name;
  int (*main)(const struct kvl_results_call *call);
  uint32_t runs_min, runs_max;
  const char *needs;
} commands[] = {
  {"list", kvl_results_list, 0, 0, "takes no runs"},
  {"show", kvl_results_show, 1, 1, "needs one run: an id, a name, or latest"},
  {"export", kvl_results_export, 1, 1, "needs one run: an id, a name, or latest"},
  {"compare", kvl_results_compare, 2, UINT32_MAX, "needs two runs or more"},
  {"plot", kvl_results_plot, 0, UINT32_MAX, ""},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int find_command(const char *word)
{
  const char *names[COMMANDS];
  for (int i = 0; i < COMMANDS; i++) {
    names[i] = commands[i].name;
    if (strcmp(word, names[i]) == 0) {
      return i;
    }
  }
  fprintf(stderr, "kvloan results: no command '%s'; did you mean %s?\n", word, kvl_nearest(word, names, COMMANDS));
  return -1;
}

/* 0, or the exit code after a line; -1 after --help. Leaves the first positional argument in optind. */
static int parse_options(struct kvl_results_call *call, int argc, char **argv)
{
  int format = (int)call->format;
  bool given = false;
  const struct kvl_option options[] = {
    {KVL_OPTION("store", STORE, &call->store_path)},
    {KVL_OPTION("format", FORMAT, &format), .given = &given},
    {KVL_OPTION("what", TEXT, &call->what)},
    {KVL_OPTION("out", TEXT, &call->out)},
  };
  int code = kvl_cmd_options("results", help, KVL_OPTIONS(options), argc, argv);
  call->format = (enum kvl_format)format;
  call->format_given = given;
  return code;
}

static int check_usage(const struct kvl_results_call *call, int command, int positional)
{
  if (call->what != NULL && strcmp(call->command, "export") != 0) {
    fprintf(stderr, "kvloan results %s: --what belongs to export\n", call->command);
  } else if (call->out != NULL && strcmp(call->command, "plot") != 0) {
    fprintf(stderr, "kvloan results %s: --out belongs to plot; the others write on standard output\n", call->command);
  } else if (call->store_path == NULL) {
    fprintf(stderr, "kvloan results %s: which store? --store=FILE\n", call->command);
  } else if (strcmp(call->command, "plot") == 0 && positional == 0) {
    fprintf(stderr, "kvloan results plot: which picture? timeline, distributions or modes\n");
  } else if (strcmp(call->command, "plot") == 0 && call->out == NULL) {
    fprintf(stderr, "kvloan results plot: where to? --out=FILE.png, FILE.svg, or FILE for both\n");
  } else if (strcmp(call->command, "compare") != 0 &&
             ((uint32_t)positional < commands[command].runs_min || (uint32_t)positional > commands[command].runs_max)) {
    fprintf(stderr, "kvloan results %s: %s\n", call->command, commands[command].needs);
  } else if (strcmp(call->command, "compare") == 0 && positional == 0) {
    fprintf(stderr, "kvloan results compare: %s\n", commands[command].needs);
  } else {
    return 0;
  }
  return 2;
}

static int select_runs(struct kvl_results_call *call, int count, char **words, struct kvl_err *err)
{
  static const char *const everything[] = {"all"};
  const char *const *word = (const char *const *)words;
  if (strcmp(call->command, "plot") == 0) {
    call->what = words[0];
    word++;
    count--;
    if (count == 0 && strcmp(call->what, "modes") == 0) {
      word = everything;
      count = 1;
    }
  }
  call->runs = calloc(call->list.count + 1u, sizeof *call->runs);
  if (call->runs == NULL) {
    return kvl_err_set(err, -1, "kvloan results: out of memory");
  }
  if (strcmp(call->command, "show") == 0 || strcmp(call->command, "export") == 0) {
    call->run_count = 1;
    return kvl_select_run(&call->list, call->store_path, word[0], call->runs, err);
  }
  return kvl_select_runs(&call->list, call->store_path, word, (unsigned)count, call->runs, &call->run_count, err);
}

int kvl_cmd_results(int argc, char **argv)
{
  if (argc < 2) {
    fputs(help, stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    fputs(help, stdout);
    return 0;
  }
  if (kvl_results_is_sweep(argc, argv)) {
    return kvl_results_sweep(argc, argv);
  }
  int command = find_command(argv[1]);
  if (command < 0) {
    return 2;
  }
  struct kvl_results_call call = {.command = commands[command].name};
  int code = parse_options(&call, argc - 1, argv + 1);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  char **words = argv + 1 + optind;
  int word_count = argc - 1 - optind;
  code = check_usage(&call, command, word_count);
  if (code != 0) {
    return code;
  }
  struct kvl_err err = {""};
  struct kvl_store_options reading = {.read_only = 1};
  int failed = kvl_store_open_with(&call.store, call.store_path, &reading, &err);
  failed = failed != 0 ? failed : kvl_store_list(call.store, &call.list, &err);
  failed = failed != 0 ? failed : select_runs(&call, word_count, words, &err);
  if (failed != 0) {
    fprintf(stderr, "%s\n", err.text);
    code = 1;
  } else {
    code = commands[command].main(&call);
  }
  free(call.runs);
  kvl_run_list_free(&call.list);
  kvl_store_close(call.store);
  return code;
}
