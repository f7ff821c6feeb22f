/* kvloan help: the help of a command, or the manual page. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "sim/cmd.h"
#include "sim/help_text.h"

enum { COMMANDS_MAX = 64 };

static const char help[] =
  "usage: kvloan help [COMMAND]\n"
  "       kvloan help --man\n"
  "\n"
  "Prints the help of a command, the same as kvloan COMMAND --help.\n"
  "  --man    the manual page in mdoc, for man -l and for packagers (an installation has it: man kvloan)\n";

int kvl_cmd_help(int argc, char **argv)
{
  const char *names[COMMANDS_MAX];
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    fputs(help, stdout);
    return 0;
  }
  if (argc > 2) {
    fprintf(stderr, "kvloan help: one command at a time\n");
    return 2;
  }
  if (argc == 1) {
    kvl_usage(stdout);
    return 0;
  }
  if (strcmp(argv[1], "--man") == 0) {
    int rc = kvl_help_man(stdout);
    if (rc != 0) {
      fprintf(stderr, "kvloan help: %s\n", strerror(-rc));
    }
    return rc == 0 ? 0 : 1;
  }
  if (strncmp(argv[1], "--", 2) == 0) {
    fprintf(stderr, "kvloan help: there is no option %s; did you mean --man?\n", argv[1]);
    return 2;
  }
  for (unsigned i = 0; i < kvl_command_count && i < COMMANDS_MAX; i++) {
    char option[] = "--help", *words[] = {argv[1], option, NULL};
    names[i] = kvl_commands[i].name;
    if (strcmp(argv[1], names[i]) == 0) {
      return kvl_commands[i].main(2, words);
    }
  }
  fprintf(stderr, "kvloan help: no command '%s'; did you mean '%s'?\n", argv[1], kvl_nearest(argv[1], names, kvl_command_count));
  return 2;
}
