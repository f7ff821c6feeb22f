#include "sim/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

int kvl_cmd_threads(const char *subcommand, const char *word, unsigned *threads)
{
  char *end;
  errno = 0;
  unsigned long n = strtoul(word, &end, 10);
  if (end == word || *end != '\0' || errno != 0 || n < 1 || n > 256) {
    fprintf(stderr, "kvloan %s: --threads=%s: not a number from 1 to 256\n", subcommand, word);
    return -1;
  }
  *threads = (unsigned)n;
  return 0;
}
