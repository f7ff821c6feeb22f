#include "backend/layout.h"

#include <errno.h>

#include "backend/base/checked.h"

static uint64_t round_up(uint64_t n, uint64_t unit)
{
  return (n + unit - 1) / unit * unit;
}

static uint32_t log2_of(uint32_t n)
{
  return 31u - (uint32_t)__builtin_clz(n);
}

/* The arena, in bytes: frames first, then the private areas slot by slot. Each cache sees it as an array of its own rows, so every area
 * of a cache begins at a multiple of its row size. (The policy accounts the private areas in frames; here they only have addresses.) */
int kvl_layout_init(struct kvl_layout *l, const struct kvl_refdev_config *c, struct kvl_err *err)
{
  uint32_t queries = c->queries_max == 0 ? 1 : c->queries_max;
  uint64_t unit = 1;
  for (uint32_t i = 0; i < c->caches; i++) {
    unit = unit / kvl_common_divisor(unit, c->cache[i].row_bytes) * c->cache[i].row_bytes;
  }
  l->private_base = round_up((uint64_t)c->frames * c->page_bytes, unit);
  uint64_t in_frame = 0, in_slot = 0;
  for (uint32_t i = 0; i < c->caches; i++) {
    struct kvl_cache_geometry *g = &l->geometry[i];
    uint32_t row_bytes = c->cache[i].row_bytes;
    uint32_t rows_per_page = c->page_tokens / c->cache[i].tokens_per_row;
    uint32_t k = 0;
    for (uint32_t p = 0; p < c->points; p++) {
      k = c->point[p].cache == i && c->point[p].k > k ? c->point[p].k : k;
    }
    if (c->page_bytes % row_bytes != 0 || in_frame % row_bytes != 0) {
      return kvl_err_set(err, -EINVAL, "cache %u: rows of %u bytes do not divide a page of %llu bytes into whole rows", i, row_bytes,
                         (unsigned long long)c->page_bytes);
    }
    *g = (struct kvl_cache_geometry){
      .page_shift = log2_of(rows_per_page),
      .hot_rows = c->hot_rows,
      .bank_rows = c->cache[i].bank ? c->bank_rows : 0,
      .tail_rows = c->tail_tokens / c->cache[i].tokens_per_row,
      .scratch_rows = rows_per_page > 8 ? rows_per_page : 8,
      .frame_stride_rows = (uint32_t)(c->page_bytes / row_bytes),
      .frame_offset_rows = (uint32_t)(in_frame / row_bytes),
      .evict = c->evict,
    };
    in_frame += (uint64_t)rows_per_page * row_bytes;
    in_slot = round_up(in_slot, row_bytes);
    uint64_t at = in_slot / row_bytes;
    struct kvl_cache_bases *o = &l->offset[i];
    o->frames = 0;
    o->hot = (kvl_addr)at;
    o->bank = (kvl_addr)(at += g->hot_rows);
    o->tail = (kvl_addr)(at += g->bank_rows);
    o->scratch = (kvl_addr)(at += g->tail_rows);
    o->overflow = (kvl_addr)(at += g->scratch_rows);
    at += (uint64_t)k * queries; /* overflow: every lane of a transaction may find no victim */
    l->k_max[i] = k;
    in_slot = at * row_bytes;
  }
  l->private_bytes = round_up(in_slot, unit);
  l->arena_bytes = l->private_base + l->private_bytes * c->slots;
  for (uint32_t i = 0; i < c->caches; i++) {
    uint64_t rows = l->arena_bytes / c->cache[i].row_bytes;
    if (rows > INT32_MAX) {
      return kvl_err_set(err, -EINVAL, "cache %u: the arena has %llu rows of %u bytes, more than the %d that an address can name", i,
                         (unsigned long long)rows, c->cache[i].row_bytes, INT32_MAX);
    }
  }
  return 0;
}

void kvl_layout_bases(const struct kvl_layout *l, const struct kvl_refdev_config *c, kvl_request slot, uint32_t cache, struct kvl_cache_bases *bases)
{
  kvl_addr base = (kvl_addr)((l->private_base + l->private_bytes * (uint32_t)slot) / c->cache[cache].row_bytes);
  *bases = l->offset[cache];
  bases->hot += base;
  bases->bank += base;
  bases->tail += base;
  bases->scratch += base;
  bases->overflow += base;
}
