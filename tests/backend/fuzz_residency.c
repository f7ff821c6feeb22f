/* Fuzz target: the input's bytes choose the operations that the driver plays on the residency policy and the naive one. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/backend/residency_driver.h"
#include "tests/base/fuzz.h"

struct bytes {
  const uint8_t *data;
  size_t size, at;
};

/* As many bytes as n needs; zeros when the input has ended. */
static uint32_t below(void *source, uint32_t n)
{
  struct bytes *b = source;
  uint32_t value = 0;
  for (uint32_t span = n - 1; span > 0; span >>= 8) {
    value = value << 8 | (b->at < b->size ? b->data[b->at] : 0u);
    b->at++;
  }
  return value % n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct bytes bytes = {.data = data, .size = size};
  struct kvl_chooser chooser = {below, &bytes};
  struct kvl_driver *driver = kvl_driver_create(chooser, below(&bytes, 4) == 0 ? KVL_WORLD_SMALL : KVL_WORLD_TINY);
  const char *difference = driver == NULL ? "out of memory" : NULL;
  while (difference == NULL && bytes.at < bytes.size) {
    difference = kvl_driver_operate(driver);
  }
  difference = difference == NULL ? kvl_driver_wind_down(driver) : difference;
  if (difference != NULL) {
    fprintf(stderr, "byte %zu, %s\n", bytes.at, difference);
    abort();
  }
  kvl_driver_destroy(driver);
  return 0;
}
