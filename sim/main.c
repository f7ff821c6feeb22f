/* kvloan: elastic KV residency for sparse-attention serving, simulated through the code that would run it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "sim/cmd.h"
#include "sim/version.h"

const struct kvl_command kvl_commands[] = {
  {"run", kvl_cmd_run, "replay a scenario and print its summary"},
  {"replay", kvl_cmd_replay, "replay a recorded run in the model plane and demand the same decisions"},
  {"reproduce", kvl_cmd_reproduce, "run the published experiment's rows and compare"},
  {"dspark-table", kvl_cmd_dspark_table, "measure the step times by which drafts are scheduled"},
  {"calibrate", kvl_cmd_calibrate, "measure this node's GPU and host link for the model"},
  {"validate", kvl_cmd_validate, "run a scenario on a GPU and compare the model with it"},
  {"sweep", kvl_cmd_sweep, "run a design of many points, resume it, spread it over machines"},
  {"sensitivity", kvl_cmd_sensitivity, "which calibrated or open numbers a forecast hangs on"},
  {"plan", kvl_cmd_plan, "which setting serves a workload within a target at least cost"},
  {"scenario", kvl_cmd_scenario, "check a scenario and explain what it resolves to"},
  {"trace", kvl_cmd_trace, "make, inspect and check selection traces"},
  {"results", kvl_cmd_results, "list, show, export, compare and plot stored runs"},
  {"explain", kvl_cmd_explain, "why a stored run behaves as it does, and what to turn next"},
  {"report", kvl_cmd_report, "one HTML page about a run, a comparison, a sweep or a plan"},
  {"help", kvl_cmd_help, "the help of a command, or the manual page"},
  {"completion", kvl_cmd_completion, "scripts that make a shell complete all this"},
};
enum { COMMANDS = sizeof kvl_commands / sizeof kvl_commands[0] };
const unsigned kvl_command_count = COMMANDS;

void kvl_usage(FILE *out)
{
  fprintf(out, "usage: kvloan COMMAND [ARGUMENTS]   (kvloan COMMAND --help tells more)\n\n");
  for (int i = 0; i < COMMANDS; i++) {
    fprintf(out, "  %-13s %s\n", kvl_commands[i].name, kvl_commands[i].what);
  }
}

/* A full disk or a closed pipe must not pass for success. */
static int finish(int code)
{
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "kvloan: standard output could not be written\n");
    return 1;
  }
  return code;
}

int main(int argc, char **argv)
{
  (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a write that fails, with a line that says so */
  if (argc < 2) {
    kvl_usage(stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    kvl_usage(stdout);
    return finish(0);
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("kvloan %s\n", KVL_VERSION);
    return finish(0);
  }
  const char *names[COMMANDS];
  for (int i = 0; i < COMMANDS; i++) {
    names[i] = kvl_commands[i].name;
    if (strcmp(argv[1], kvl_commands[i].name) == 0) {
      return finish(kvl_commands[i].main(argc - 1, argv + 1));
    }
  }
  fprintf(stderr, "kvloan: no command '%s'; did you mean '%s'?\n", argv[1], kvl_nearest(argv[1], names, COMMANDS));
  return 2;
}
