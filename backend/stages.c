#include "backend/stages.h"

#include <assert.h>

struct list {
  struct kvl_stage *stage;
  uint32_t count;
};

static void add(struct list *l, enum kvl_stage_kind kind, uint32_t layer, uint32_t cache, uint32_t point)
{
  assert(l->count < KVL_STAGES_MAX);
  l->stage[l->count++] = (struct kvl_stage){.kind = kind, .layer = (uint16_t)layer, .cache = (uint16_t)cache, .point = (uint16_t)point};
}

/* The cache whose pool is announced: that of the selection made at the announcing layer; the layers after it choose from the pool. */
static int pool_cache(const struct kvl_stage_model *m, uint32_t *first_later, uint32_t *last)
{
  int cache = -1;
  *first_later = *last = UINT32_MAX;
  for (uint32_t p = 0; m->pool && p < m->points; p++) {
    if (m->point[p].layer == m->pool_layer) {
      cache = m->point[p].cache;
    }
  }
  for (uint32_t p = 0; cache >= 0 && p < m->points; p++) {
    if (m->point[p].cache == cache && m->point[p].layer > m->pool_layer) {
      *first_later = *first_later == UINT32_MAX ? p : *first_later;
      *last = p;
    }
  }
  return *last == UINT32_MAX ? -1 : cache; /* nobody chooses from it: it is not announced */
}

uint32_t kvl_stages_build(const struct kvl_stage_model *m, struct kvl_stage *stages)
{
  struct list l = {.stage = stages, .count = 0};
  uint32_t first_later, last;
  int pool = pool_cache(m, &first_later, &last);
  for (uint32_t layer = 0; layer < m->layers; layer++) {
    for (uint32_t c = 0; c < m->caches; c++) {
      if (m->written_layer[c] == layer) {
        add(&l, KVL_STAGE_WRITE, layer, c, 0);
      }
    }
    for (uint32_t p = 0; p < m->points; p++) {
      if (m->point[p].layer != layer) {
        continue;
      }
      if (pool >= 0 && p == first_later) {
        add(&l, KVL_STAGE_WAIT, layer, m->point[p].cache, 0);
      }
      add(&l, KVL_STAGE_RESOLVE, layer, m->point[p].cache, p);
      if (pool >= 0 && layer == m->pool_layer && m->point[p].cache == pool) {
        add(&l, KVL_STAGE_ANNOUNCE, layer, m->point[p].cache, p);
      }
      if (pool >= 0 && p == last) {
        add(&l, KVL_STAGE_END_GROUP, layer, m->point[p].cache, 0);
      }
    }
    for (uint32_t p = 0; p < m->points; p++) {
      if (m->point[p].layer <= layer && layer < (uint32_t)m->point[p].layer + m->point[p].readers) {
        add(&l, KVL_STAGE_READ, layer, m->point[p].cache, p);
      }
    }
    add(&l, KVL_STAGE_COMPUTE, layer, 0, 0);
  }
  return l.count;
}
