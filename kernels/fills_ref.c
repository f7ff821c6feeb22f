/* Rows written with the pattern, one word after the other. */
#include <errno.h>
#include <string.h>

#include "kernels/pattern.h"
#include "kernels/step.h"

int kvl_fills_ref(const struct kvl_fills *fills, void *context)
{
  (void)context;
  for (uint32_t i = 0; i < *fills->count && i < fills->fills_max; i++) {
    const struct kvl_fill *f = &fills->fill[i];
    if (f->row_bytes % 8 != 0) {
      return -EINVAL;
    }
    for (uint32_t r = 0; r < f->rows; r++) {
      uint64_t x = kvl_pattern_seed(f->session, f->cache, (kvl_row)((uint32_t)f->first_row + r), f->salt);
      unsigned char *to = f->to + (size_t)r * f->row_bytes;
      for (uint32_t at = 0; at < f->row_bytes; at += 8) {
        x = kvl_pattern_next(x);
        memcpy(to + at, &x, 8);
      }
    }
  }
  return 0;
}
