/* `kvloan results` alone, so that its tests need nothing else of the program: argv[1] is its first argument. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/cmd.h"

int main(int argc, char **argv)
{
  char name[] = "results";
  char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
  if (arguments == NULL) {
    return 1;
  }
  arguments[0] = name;
  for (int i = 1; i < argc; i++) {
    arguments[i] = argv[i];
  }
  int code = kvl_cmd_results(argc, arguments);
  free(arguments);
  return fflush(stdout) != 0 || ferror(stdout) ? 1 : code;
}
