/* Subcommands of kvloan. Each takes its own argv (argv[0] is the subcommand's name), prints data on stdout and talk on stderr, and returns the exit
 * code: 0, 1 (it failed: one clear line on stderr), 2 (usage). */
#ifndef KVL_SIM_CMD_H
#define KVL_SIM_CMD_H

#include <stdio.h>

int kvl_cmd_run(int argc, char **argv);
int kvl_cmd_replay(int argc, char **argv);
int kvl_cmd_reproduce(int argc, char **argv);
int kvl_cmd_dspark_table(int argc, char **argv);
int kvl_cmd_calibrate(int argc, char **argv);
int kvl_cmd_scenario(int argc, char **argv);
int kvl_cmd_trace(int argc, char **argv);
int kvl_cmd_results(int argc, char **argv);
int kvl_cmd_explain(int argc, char **argv);
int kvl_cmd_report(int argc, char **argv);
int kvl_cmd_help(int argc, char **argv);
int kvl_cmd_completion(int argc, char **argv);

/* All of them (sim/main.c). `what` is one line for people. */
struct kvl_command {
  const char *name;
  int (*main)(int argc, char **argv);
  const char *what;
};
extern const struct kvl_command kvl_commands[];
extern const unsigned kvl_command_count;
void kvl_usage(FILE *out); /* what `kvloan --help` prints */
int kvl_cmd_sweep(int argc, char **argv);
int kvl_cmd_plan(int argc, char **argv);
int kvl_cmd_sensitivity(int argc, char **argv);
int kvl_cmd_validate(int argc, char **argv);

/* "table", "json" or "tsv" into *format (enum kvl_format); on anything else one line on stderr naming the nearest choice, and -1. */
int kvl_cmd_format(const char *subcommand, const char *word, int *format);
/* "all", "sample" or "none" into *check (enum kvl_check); otherwise one line on stderr and -1. */
int kvl_cmd_check(const char *subcommand, const char *word, int *check);
/* The command as it was typed, "kvloan" and all of argv, for a store to keep; to be asked for before getopt reorders argv. The caller frees it. NULL: no memory. */
char *kvl_cmd_line(int argc, char **argv);
/* A number of threads, 1 to 256, into *threads; otherwise one line on stderr and -1. */
int kvl_cmd_threads(const char *subcommand, const char *word, unsigned *threads);
/* What getopt_long refused (set opterr = 0 before): one line on stderr with the nearest option. `result` is what it returned ('?' or ':'). Returns 2. */
struct option;
int kvl_cmd_bad_option(const char *subcommand, int argc, char **argv, const struct option *options, int result);

#endif
