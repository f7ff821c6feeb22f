/* Subcommands of kvloan. Each takes its own argv (argv[0] is the subcommand's name), prints data on stdout and talk on stderr, and returns the exit
 * code. 2: the command line itself is wrong, whatever files there are (an unknown option, a word missing, a value of the wrong form, a choice that does not exist).
 * 1: the command was understood, and what it names is wrong or could not be done (a file, a scenario, a key or value of one, a store, a run). 130: interrupted. One
 * clear line on stderr in each case. */
#ifndef KVL_SIM_CMD_H
#define KVL_SIM_CMD_H

#include <signal.h>
#include <stdint.h>
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
/* The value of --OPTION, a whole number from 1 to `max`, into *value; otherwise one line on stderr and -1. */
int kvl_cmd_count(const char *subcommand, const char *option, const char *word, uint32_t max, uint32_t *value);
/* Which of `count` choices the value of --OPTION is; otherwise one line on stderr naming the nearest `what` ("plane"), and -1. */
int kvl_cmd_choice(const char *subcommand, const char *option, const char *what, const char *word, const char *const *choices, unsigned count);
/* Appends the value of --set, KEY=VALUE, to `sets`, which has room for `max`; otherwise one line on stderr and -1. Whether there is such a key is the scenario's affair. */
int kvl_cmd_set(const char *subcommand, const char *word, const char **sets, unsigned *count, unsigned max);
/* The value of --seed as an assignment, "seed=7", in *text and appended to `sets` likewise. */
enum { KVL_CMD_SEED_MAX = 32 };
int kvl_cmd_seed(const char *subcommand, const char *word, char text[KVL_CMD_SEED_MAX], const char **sets, unsigned *count, unsigned max);
/* A result store's file name into *store; one that ends in a slash is a folder's. */
int kvl_cmd_store(const char *subcommand, const char *word, const char **store);
/* A plane's name into *plane: model, host or cuda. */
int kvl_cmd_plane(const char *subcommand, const char *word, const char **plane);

/* Set by INT, TERM and HUP once kvl_stop_on_signals was called: what is under way is to end in order. */
extern volatile sig_atomic_t kvl_stop;
void kvl_stop_on_signals(void);
/* What getopt_long refused (set opterr = 0 before): one line on stderr with the nearest option. `result` is what it returned ('?' or ':'). Returns 2. */
struct option;
int kvl_cmd_bad_option(const char *subcommand, int argc, char **argv, const struct option *options, int result);

#endif
