/* The header of a trace file, and the rules for what it describes. */
#include "traces/trace_format.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

uint64_t kvl_trace_sum(const void *bytes, size_t count)
{
  return XXH64(bytes, count, 0);
}

void kvl_trace_chunk_seal(uint8_t *bytes, const struct kvl_trace_entry *entry)
{
  size_t count = KVL_TRACE_CHUNK_HEAD + (size_t)entry->packed_bytes;
  kvl_put32(bytes, KVL_TRACE_CHUNK_MAGIC);
  kvl_put32(bytes + 4, entry->session);
  kvl_put32(bytes + 8, entry->first_step);
  kvl_put32(bytes + 12, entry->steps);
  kvl_put32(bytes + 16, entry->items);
  kvl_put32(bytes + 20, entry->raw_bytes);
  kvl_put32(bytes + 24, entry->packed_bytes);
  kvl_put64(bytes + count, kvl_trace_sum(bytes, count));
}

const char *kvl_trace_chunk_wrong(const uint8_t *bytes, const struct kvl_trace_entry *entry)
{
  size_t count = KVL_TRACE_CHUNK_HEAD + (size_t)entry->packed_bytes;
  if (kvl_get32(bytes) != KVL_TRACE_CHUNK_MAGIC)
    return "its first bytes are not those of a chunk";
  if (kvl_get64(bytes + count) != kvl_trace_sum(bytes, count))
    return "its checksum differs";
  if (kvl_get32(bytes + 4) != entry->session || kvl_get32(bytes + 8) != entry->first_step || kvl_get32(bytes + 12) != entry->steps ||
      kvl_get32(bytes + 16) != entry->items || kvl_get32(bytes + 20) != entry->raw_bytes || kvl_get32(bytes + 24) != entry->packed_bytes)
    return "it is not the chunk that the index names";
  return NULL;
}

const char *kvl_trace_meta_wrong(const struct kvl_trace_meta *meta)
{
  const struct kvl_selection_shape *shape = &meta->shape;
  uint64_t items = 0;
  if (shape->caches == 0 || shape->caches > KVL_CACHES_MAX)
    return "the number of caches is not 1 to 128";
  for (uint32_t i = 0; i < shape->caches; i++) {
    if (shape->tokens_per_row[i] == 0 || shape->tokens_per_row[i] > 1 << 16)
      return "tokens_per_row is not 1 to 65536";
  }
  if (shape->points == 0 || shape->points > KVL_POINTS_MAX)
    return "the number of selection points is not 1 to 128";
  for (uint32_t i = 0; i < shape->points; i++) {
    if (shape->point[i].cache >= shape->caches)
      return "a selection point selects from a cache that is not there";
    if (shape->point[i].k == 0 || shape->point[i].k > KVL_TRACE_K_MAX)
      return "k is not 1 to 1048576";
    if (i > 0 && shape->point[i].layer < shape->point[i - 1].layer)
      return "the selection points are not in order of layer";
    items += shape->point[i].k;
  }
  if (meta->pools > KVL_TRACE_POOLS_MAX)
    return "more than 16 candidate pools";
  for (uint32_t i = 0; i < meta->pools; i++) {
    if (meta->pool[i].cache >= shape->caches)
      return "a candidate pool is for a cache that is not there";
    if (meta->pool[i].rows_per_block == 0 || meta->pool[i].rows_per_block > 1 << 16)
      return "rows_per_block is not 1 to 65536";
    if (meta->pool[i].blocks_max == 0 || meta->pool[i].blocks_max > KVL_TRACE_K_MAX)
      return "blocks_max is not 1 to 1048576";
    items += meta->pool[i].blocks_max;
  }
  if (items > KVL_TRACE_STEP_ITEMS_MAX)
    return "a query selects more than 16777216 rows and blocks";
  if (!memchr(meta->model, '\0', sizeof(meta->model)) || !memchr(meta->origin, '\0', sizeof(meta->origin)))
    return "the model's name or the origin does not end";
  return NULL;
}

size_t kvl_trace_header_write(uint8_t *bytes, const struct kvl_trace_meta *meta)
{
  const struct kvl_selection_shape *shape = &meta->shape;
  size_t model = strlen(meta->model), origin = strlen(meta->origin);
  uint8_t *p = bytes + KVL_TRACE_PREFIX_BYTES;

  kvl_put64(p, meta->seed);
  kvl_put32(p + 8, shape->caches);
  kvl_put32(p + 12, shape->points);
  kvl_put32(p + 16, meta->pools);
  kvl_put16(p + 20, (uint32_t)model);
  kvl_put16(p + 22, (uint32_t)origin);
  p += 24;
  for (uint32_t i = 0; i < shape->caches; i++, p += 4)
    kvl_put32(p, shape->tokens_per_row[i]);
  for (uint32_t i = 0; i < shape->points; i++, p += 8) {
    kvl_put16(p, shape->point[i].cache);
    kvl_put16(p + 2, shape->point[i].layer);
    kvl_put32(p + 4, shape->point[i].k);
  }
  for (uint32_t i = 0; i < meta->pools; i++, p += 12) {
    kvl_put16(p, meta->pool[i].cache);
    kvl_put16(p + 2, meta->pool[i].layer);
    kvl_put32(p + 4, meta->pool[i].rows_per_block);
    kvl_put32(p + 8, meta->pool[i].blocks_max);
  }
  memcpy(p, meta->model, model);
  memcpy(p + model, meta->origin, origin);
  p += model + origin;
  memcpy(bytes, KVL_TRACE_MAGIC, 8);
  kvl_put32(bytes + 8, KVL_TRACE_VERSION);
  kvl_put32(bytes + 12, (uint32_t)(p - bytes) - KVL_TRACE_PREFIX_BYTES);
  kvl_put64(p, kvl_trace_sum(bytes, (size_t)(p - bytes)));
  return (size_t)(p - bytes) + KVL_TRACE_SUM_BYTES;
}

const char *kvl_trace_header_read(const uint8_t *body, size_t count, struct kvl_trace_meta *meta)
{
  struct kvl_selection_shape *shape = &meta->shape;
  const uint8_t *p = body + 24;
  size_t model, origin;

  memset(meta, 0, sizeof(*meta));
  if (count < 24)
    return "it is too short";
  meta->seed = kvl_get64(body);
  shape->caches = kvl_get32(body + 8);
  shape->points = kvl_get32(body + 12);
  meta->pools = kvl_get32(body + 16);
  model = kvl_get16(body + 20);
  origin = kvl_get16(body + 22);
  if (shape->caches > KVL_CACHES_MAX || shape->points > KVL_POINTS_MAX || meta->pools > KVL_TRACE_POOLS_MAX || model > KVL_TRACE_MODEL_MAX ||
      origin > KVL_TRACE_ORIGIN_MAX)
    return "it counts more than there may be";
  if (count != 24 + (size_t)shape->caches * 4 + (size_t)shape->points * 8 + (size_t)meta->pools * 12 + model + origin)
    return "its length does not fit its contents";
  for (uint32_t i = 0; i < shape->caches; i++, p += 4)
    shape->tokens_per_row[i] = kvl_get32(p);
  for (uint32_t i = 0; i < shape->points; i++, p += 8) {
    shape->point[i].cache = (uint16_t)kvl_get16(p);
    shape->point[i].layer = (uint16_t)kvl_get16(p + 2);
    shape->point[i].k = kvl_get32(p + 4);
  }
  for (uint32_t i = 0; i < meta->pools; i++, p += 12) {
    meta->pool[i].cache = (uint16_t)kvl_get16(p);
    meta->pool[i].layer = (uint16_t)kvl_get16(p + 2);
    meta->pool[i].rows_per_block = kvl_get32(p + 4);
    meta->pool[i].blocks_max = kvl_get32(p + 8);
  }
  memcpy(meta->model, p, model);
  memcpy(meta->origin, p + model, origin);
  if (strlen(meta->model) != model || strlen(meta->origin) != origin)
    return "there is a zero byte in its texts";
  return kvl_trace_meta_wrong(meta);
}

int kvl_trace_same_shape(const struct kvl_selection_shape *trace, const struct kvl_selection_shape *model, struct kvl_err *err)
{
  if (trace->caches != model->caches)
    return kvl_err_set(err, -EINVAL, "the trace has %u caches, the model %u", trace->caches, model->caches);
  for (uint32_t i = 0; i < trace->caches; i++) {
    if (trace->tokens_per_row[i] != model->tokens_per_row[i])
      return kvl_err_set(err, -EINVAL, "cache %u has %u tokens a row in the trace, %u in the model", i, trace->tokens_per_row[i],
                         model->tokens_per_row[i]);
  }
  if (trace->points != model->points)
    return kvl_err_set(err, -EINVAL, "the trace has %u selection points, the model %u", trace->points, model->points);
  for (uint32_t i = 0; i < trace->points; i++) {
    const struct kvl_selection_point *t = &trace->point[i], *m = &model->point[i];
    if (t->cache != m->cache)
      return kvl_err_set(err, -EINVAL, "point %u selects from cache %u in the trace, from %u in the model", i, t->cache, m->cache);
    if (t->layer != m->layer)
      return kvl_err_set(err, -EINVAL, "point %u is at layer %u in the trace, at %u in the model", i, t->layer, m->layer);
    if (t->k != m->k)
      return kvl_err_set(err, -EINVAL, "point %u selects %u rows in the trace, %u in the model", i, t->k, m->k);
  }
  return 0;
}
