/* A list of points: what needs no device. */
#include <errno.h>
#include <stdlib.h>

#include "backend/probe.h"

int kvl_probe_add(struct kvl_probe *p, const struct kvl_probe_point *point)
{
  if (p->count == p->capacity) {
    uint32_t capacity = p->capacity == 0 ? 512 : 2 * p->capacity;
    struct kvl_probe_point *grown = realloc(p->point, capacity * sizeof *grown);
    if (grown == NULL) {
      return -ENOMEM;
    }
    p->point = grown;
    p->capacity = capacity;
  }
  p->point[p->count++] = *point;
  return 0;
}

void kvl_probe_free(struct kvl_probe *p)
{
  free(p->point);
  *p = (struct kvl_probe){.point = NULL};
}

const char *kvl_probe_kind_name(enum kvl_probe_kind kind)
{
  static const char *const names[KVL_PROBE_KINDS] = {"pin", "unpin", "events", "kernel", "graph", "submit", "hbm_copy", "hbm_read", "copy", "gather", "pages", "resolve"};
  return names[kind];
}

const char *kvl_probe_beside_name(enum kvl_probe_beside beside)
{
  static const char *const names[KVL_BESIDES] = {"nothing", "copy_in", "copy_out", "pages", "hbm"};
  return names[beside];
}
