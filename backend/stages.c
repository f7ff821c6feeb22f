#include "backend/stages.h"

#include <assert.h>

struct list {
  struct kvl_stage *stage;
  uint32_t count;
};

static struct kvl_stage *add(struct list *l, enum kvl_stage_kind kind, uint32_t layer, uint32_t cache, uint32_t point)
{
  assert(l->count < KVL_STAGES_MAX);
  struct kvl_stage *stage = &l->stage[l->count++];
  *stage = (struct kvl_stage){.kind = kind, .layer = (uint16_t)layer, .cache = (uint16_t)cache, .point = (uint16_t)point};
  return stage;
}

/* The pool's group: which cache, the announcing selection, the first and the last that come after it. */
struct group {
  int cache; /* -1: no pool, or nobody chooses from it: it is not announced */
  uint32_t announcing, first_later, last;
};

static struct group find_group(const struct kvl_stage_model *m)
{
  struct group g = {.cache = -1, .announcing = UINT32_MAX, .first_later = UINT32_MAX, .last = UINT32_MAX};
  for (uint32_t p = 0; m->pool && p < m->points; p++) {
    if (m->point[p].selection == m->pool_selection && g.announcing == UINT32_MAX) {
      g.announcing = p;
    }
  }
  for (uint32_t p = 0; g.announcing != UINT32_MAX && p < m->points; p++) {
    if (m->point[p].cache == m->point[g.announcing].cache && m->point[p].layer > m->point[g.announcing].layer) {
      g.cache = m->point[p].cache;
      g.first_later = g.first_later == UINT32_MAX ? p : g.first_later;
      g.last = p;
    }
  }
  return g;
}

static void add_resolve(struct list *l, const struct kvl_stage_model *m, const struct group *g, uint32_t p)
{
  uint32_t layer = m->point[p].layer, cache = m->point[p].cache;
  bool grouped = g->cache >= 0;
  if (grouped && p == g->first_later) {
    add(l, KVL_STAGE_WAIT, layer, cache, 0);
  }
  add(l, KVL_STAGE_RESOLVE, layer, cache, p);
  if (grouped && p == g->announcing) {
    add(l, KVL_STAGE_ANNOUNCE, layer, cache, p);
  }
  if (grouped && p == g->last) {
    add(l, KVL_STAGE_END_GROUP, layer, cache, 0);
  }
  if (m->plan && m->cache[cache].parts > 1 && m->point[p].readers > 1) {
    add(l, KVL_STAGE_REPLAY, layer, cache, p);
  }
}

static void add_read(struct list *l, const struct kvl_stage_model *m, uint32_t layer, uint32_t p)
{
  uint32_t cache = m->point[p].cache;
  uint16_t part = m->cache[cache].parts > 1 ? (uint16_t)(layer - m->point[p].layer) : 0;
  if (m->plan && part != 0) {
    add(l, KVL_STAGE_WAIT, layer, cache, p)->part = part;
  }
  add(l, KVL_STAGE_READ, layer, cache, p)->part = part;
}

uint32_t kvl_stages_build(const struct kvl_stage_model *m, struct kvl_stage *stages)
{
  struct list l = {.stage = stages, .count = 0};
  struct group g = find_group(m);
  for (uint32_t layer = 0; layer < m->layers; layer++) {
    for (uint32_t c = 0; c < m->caches; c++) {
      if (m->cache[c].written_layer == layer) {
        add(&l, KVL_STAGE_WRITE, layer, c, 0);
      }
    }
    for (uint32_t p = 0; p < m->points; p++) {
      if (m->point[p].layer == layer) {
        add_resolve(&l, m, &g, p);
      }
    }
    for (uint32_t p = 0; p < m->points; p++) {
      if (m->point[p].layer <= layer && layer < (uint32_t)m->point[p].layer + m->point[p].readers) {
        add_read(&l, m, layer, p);
      }
    }
    add(&l, KVL_STAGE_COMPUTE, layer, 0, 0);
  }
  return l.count;
}
