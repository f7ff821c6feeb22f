#include "sim/plane_setup.h"

#include <errno.h>
#include <string.h>

/* In resident mode a look-up is a page table's, and no policy decides how many there are. */
static bool shares_nothing(const struct kvl_scenario *s)
{
  return s->policy.layer_sharing == KVL_SHARING_OFF && s->mode != KVL_MODE_RESIDENT;
}

/* Caches as the device has them; *first: of each cache of the model. */
static int fill_caches(struct kvl_plane_setup *p, const struct kvl_scenario *s, uint32_t *first, struct kvl_err *err)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->model.caches; i++) {
    const struct kvl_model_cache *cache = &s->model.cache[i];
    uint32_t layers = cache->layers == 0 ? 1 : cache->layers;
    uint32_t split = shares_nothing(s) ? layers : 1;
    if (n + split > KVL_REFDEV_CACHES) {
      return kvl_err_set(err, -EINVAL, "%s: policy.layer_sharing = off makes more than %d caches of this model: leave it on", s->file, KVL_REFDEV_CACHES);
    }
    first[i] = n;
    for (uint32_t k = 0; k < split; k++, n++) {
      p->model.cache[n].written_layer = (uint16_t)(cache->written_layer + k);
      p->model.cache[n].parts = (uint16_t)(layers / split);
      p->device.cache[n].tokens_per_row = cache->tokens_per_row;
      p->device.cache[n].row_bytes = cache->row_bytes / split;
      p->device.cache[n].parts = layers / split;
    }
  }
  p->model.caches = p->device.caches = n;
  return 0;
}

/* In order of layer: the points of a selection move up past earlier ones that start later. */
static void insert_point(struct kvl_plane_setup *p, uint32_t cache, uint32_t layer, uint32_t readers, uint32_t selection, uint32_t k)
{
  uint32_t at = p->model.points++;
  for (; at > 0 && p->model.point[at - 1].layer > layer; at--) {
    p->model.point[at] = p->model.point[at - 1];
    p->device.point[at] = p->device.point[at - 1];
  }
  p->model.point[at].cache = (uint16_t)cache;
  p->model.point[at].layer = (uint16_t)layer;
  p->model.point[at].readers = (uint16_t)readers;
  p->model.point[at].selection = (uint16_t)selection;
  p->device.point[at].cache = cache;
  p->device.point[at].k = k;
  p->device.point[at].selection = selection;
  p->device.points = p->model.points;
}

static int fill_points(struct kvl_plane_setup *p, const struct kvl_scenario *s, const uint32_t *first, struct kvl_err *err)
{
  bool off = shares_nothing(s);
  for (uint32_t i = 0; i < s->model.selection.points; i++) {
    const struct kvl_selection_point *point = &s->model.selection.point[i];
    uint32_t readers = s->model.readers[i], cache = first[point->cache];
    uint32_t last = point->layer + readers < s->model.layers ? point->layer + readers : s->model.layers;
    bool own_parts = s->model.cache[point->cache].layers > 1;
    for (uint32_t layer = point->layer; layer < (off ? last : point->layer + 1u); layer++) {
      if (p->model.points == KVL_REFDEV_POINTS) {
        return kvl_err_set(err, -EINVAL, "%s: policy.layer_sharing = off makes more than %d look-ups of this model: leave it on", s->file,
                           KVL_REFDEV_POINTS);
      }
      insert_point(p, off && own_parts ? cache + layer - point->layer : cache, layer, off ? 1 : readers, i, point->k);
    }
  }
  return 0;
}

static int fill_prefetch(struct kvl_plane_setup *p, const struct kvl_scenario *s, struct kvl_err *err)
{
  p->model.pool_selection = s->model.selection.pool.point;
  p->device.pool_blocks = s->model.selection.pool.blocks;
  p->device.pool_rows_per_block = s->model.selection.pool.rows_per_block;
  p->device.pool_rows_max = s->policy.pool_rows_max;
  if (s->policy.prefetch == KVL_PREFETCH_PLAN) {
    bool any = false;
    for (uint32_t i = 0; i < p->model.caches; i++) {
      any = any || p->model.cache[i].parts > 1;
    }
    if (!any) {
      return kvl_err_set(err, -EINVAL, "%s: policy.prefetch = plan: %s", s->file, s->policy.layer_sharing == KVL_SHARING_OFF
                           ? "without layer sharing no fetch list serves a second layer"
                           : "no cache of the model has a part of its rows for each of several layers; try pool");
    }
    p->model.plan = true;
  }
  if (s->policy.prefetch == KVL_PREFETCH_POOL) {
    if (s->model.selection.pool.blocks == 0) {
      return kvl_err_set(err, -EINVAL, "%s: policy.prefetch = pool: the model announces no pool", s->file);
    }
    if (s->policy.bank_rows == 0) {
      return kvl_err_set(err, -EINVAL, "%s: policy.prefetch = pool: there is no bank (policy.bank_rows is 0; a pool has %llu rows)", s->file,
                         (unsigned long long)s->model.pool_blocks * s->model.pool_rows_per_block);
    }
    p->model.pool = true;
  }
  return 0;
}

/* Reads and their waits are what a model can have any number of. */
static bool too_many_stages(const struct kvl_stage_model *m)
{
  uint64_t reads = 0;
  for (uint32_t i = 0; i < m->points; i++) {
    reads += m->point[i].readers;
  }
  return m->layers + m->caches + 2 * reads + 6u * m->points > KVL_STAGES_MAX;
}

int kvl_plane_setup_init(struct kvl_plane_setup *p, const struct kvl_scenario *s, bool selections, struct kvl_err *err)
{
  uint32_t first[KVL_CACHES_MAX];
  memset(p, 0, sizeof *p);
  p->model.layers = s->model.layers;
  p->device.page_bytes = kvl_page_bytes(s);
  p->device.page_tokens = s->policy.page_tokens;
  bool resident = s->mode == KVL_MODE_RESIDENT;
  uint32_t tail_min = s->policy.page_tokens + KVL_STEP_QUERIES_MAX; /* resident mode takes any policy.tail_tokens: it has no use for it, but rows pass through */
  p->device.hot_rows = resident ? 0 : s->policy.hot_rows; /* every row is on a page */
  p->device.bank_rows = resident ? 0 : s->policy.bank_rows;
  p->device.tail_tokens = resident && s->policy.tail_tokens < tail_min ? tail_min : s->policy.tail_tokens;
  p->device.evict = s->policy.eviction;
  p->device.seed = s->seed;
  int rc = fill_caches(p, s, first, err);
  rc = rc != 0 || !selections ? rc : fill_points(p, s, first, err);
  rc = rc != 0 || !selections || resident ? rc : fill_prefetch(p, s, err);
  if (rc == 0 && too_many_stages(&p->model)) {
    rc = kvl_err_set(err, -EINVAL, "%s: model.caches: more than %d stages in a step: fewer selections, or fewer readers of each", s->file, KVL_STAGES_MAX);
  }
  if (rc != 0) {
    return rc;
  }
  p->stage_count = kvl_stages_build(&p->model, p->stages);
  p->device.stages = p->stages;
  p->device.stage_count = p->stage_count;
  bool announced = false;
  for (uint32_t i = 0; i < p->stage_count; i++) {
    if (p->stages[i].kind == KVL_STAGE_ANNOUNCE) {
      p->device.cache[p->stages[i].cache].bank = announced = true;
    }
  }
  if (p->model.pool && !announced) {
    return kvl_err_set(err, -EINVAL, "%s: policy.prefetch = pool: no selection comes after layer %u, which announces the pool", s->file,
                       s->model.pool_layer);
  }
  return 0;
}
