#include "sim/cmd.h"

#include <stdio.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/summary.h"

int kvl_cmd_format(const char *subcommand, const char *word, int *format)
{
  static const char *const names[] = {"table", "json", "tsv"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(word, names[i]) == 0) {
      *format = i;
      return 0;
    }
  }
  fprintf(stderr, "kvloan %s: --format=%s: no such format; did you mean %s?\n", subcommand, word, kvl_nearest(word, names, 3));
  return -1;
}
