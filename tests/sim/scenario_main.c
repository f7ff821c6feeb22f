/* `kvloan scenario` alone, for the tests of its command line. */
#include <stdio.h>

#include "sim/cmd.h"

int main(int argc, char **argv)
{
  int code = kvl_cmd_scenario(argc, argv);
  return fflush(stdout) != 0 || ferror(stdout) ? 1 : code;
}
