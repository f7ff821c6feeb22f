/* Replays the files named on the command line through a fuzz target: each as it is, then cut short and with a byte changed, to another and to a
 * mark of a text, at every place of a coarse grid. A little fuzzing on every run of the tests, the same every time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/base/fuzz.h"

enum { INPUT_MAX = 1 << 20, GRID = 40 };

/* In a block of its size, so that a sanitizer sees what reads past it. */
static void try_one(const uint8_t *data, size_t size)
{
  uint8_t *copy = malloc(size > 0 ? size : 1);
  if (copy == NULL) {
    abort();
  }
  memcpy(copy, data, size);
  (void)LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static void replay(uint8_t *data, size_t size)
{
  static const uint8_t marks[] = {0, '"', '{', '}', '-', '9', ',', ':', '\\', 0xff};
  try_one(data, size);
  for (size_t i = 0; i < GRID && size > 0; i++) {
    size_t at = i * size / GRID;
    uint8_t kept = data[at];
    try_one(data, at);
    data[at] = (uint8_t)(kept + 37 * (i + 1));
    try_one(data, size);
    data[at] = marks[i % sizeof marks];
    try_one(data, size);
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
