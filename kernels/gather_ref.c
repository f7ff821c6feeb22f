/* The C reference of the bare gather (gather.h). */
#include "kernels/gather.h"

#include <errno.h>
#include <string.h>

int kvl_gather_ref(const struct kvl_gather *g, void *context)
{
  (void)context;
  if (g->bytes == 0 || g->row_bytes % 8 != 0 || g->bytes % 8 != 0 || g->bytes > g->row_bytes || g->entries > UINT16_MAX) {
    return -EINVAL;
  }
  for (uint32_t e = 0; e < g->entries; e++) {
    for (uint32_t i = 0; g->entry[e].request != KVL_NONE && i < g->count[e] && i < g->rows_max; i++) {
      size_t at = (size_t)e * g->rows_max + i;
      memcpy(g->to + at * g->bytes, g->entry[e].host_rows + (size_t)g->fetches[at].row * g->row_bytes, g->bytes);
    }
  }
  return 0;
}
