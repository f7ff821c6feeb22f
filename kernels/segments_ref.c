#include "kernels/segments.h"

#include <string.h>

int kvl_segments_ref(const struct kvl_segments *segments, void *context)
{
  (void)context;
  for (uint32_t i = 0; i < *segments->count; i++) {
    const struct kvl_segment *s = &segments->segment[i];
    memcpy(segments->to + s->to, segments->from + s->from, s->bytes);
  }
  return 0;
}
