/* Replays the files named on the command line through a fuzz target: each as it is, then cut short and with a byte changed at every place of a
 * coarse grid. A little fuzzing on every run of the tests, the same every time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/base/fuzz.h"

enum { INPUT_MAX = 1 << 20, GRID = 24 };

static void replay(uint8_t *data, size_t size)
{
  (void)LLVMFuzzerTestOneInput(data, size);
  for (size_t i = 0; i < GRID && size > 0; i++) {
    size_t at = i * size / GRID;
    uint8_t kept = data[at];
    (void)LLVMFuzzerTestOneInput(data, at);
    data[at] = (uint8_t)(kept + 37 * (i + 1));
    (void)LLVMFuzzerTestOneInput(data, size);
    data[at] = kept;
  }
}

int main(int argc, char **argv)
{
  static uint8_t data[INPUT_MAX];
  for (int i = 1; i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    if (file == NULL) {
      fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
      return 1;
    }
    size_t size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    replay(data, size);
  }
  printf("%d files\n", argc - 1);
  return argc > 1 ? 0 : 1;
}
