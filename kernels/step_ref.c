/* The C reference of begin, the stand-in, end and the bank's copies (step.h). */
#include <errno.h>
#include <string.h>

#include "kernels/step.h"

int kvl_step_begin_ref(const struct kvl_step_begin *b, void *context)
{
  (void)context;
  if (b->queries_max == 0 || b->queries_max > KVL_STEP_QUERIES || b->caches > KVL_STEP_CACHES || b->points > KVL_STEP_POINTS) {
    return -EINVAL;
  }
  for (uint32_t i = 0; b->stamps != NULL && i < b->stamp_pairs; i++) {
    b->stamps[2 * i] = UINT64_MAX;
    b->stamps[2 * i + 1] = 0;
  }
  for (uint32_t e = 0; e < b->entries; e++) {
    const struct kvl_gpu_item *item = &b->item[e];
    for (uint32_t c = 0; c < b->caches; c++) {
      struct kvl_resolve_entry *to = &b->entry[c][e];
      if (item->slot == KVL_NONE) {
        memset(to, 0, sizeof *to);
        to->request = KVL_NONE;
        continue;
      }
      *to = b->slot_entry[c][item->slot];
      to->request = item->slot;
      to->query_count = item->queries;
      to->whole = item->whole;
      to->pages = item->pages;
    }
    for (uint32_t p = 0; p < b->points; p++) {
      const struct kvl_gpu_point *point = &b->point[p];
      const uint32_t *selection = NULL;
      if (item->slot != KVL_NONE) {
        selection = b->selections + ((uint64_t)item->slot * 2 + item->half) * b->selection_words + point->selection_offset;
      }
      memset(&point->counts[e], 0, sizeof point->counts[e]);
      for (uint32_t q = 0; q < b->queries_max; q++) {
        size_t at = (size_t)e * b->queries_max + q;
        kvl_row *rows = point->rows + at * point->k;
        uint32_t n = 0;
        uint32_t boundary = 0;
        if (selection != NULL && q < item->queries) {
          n = selection[q] < point->k ? selection[q] : point->k;
          boundary = (item->tokens + q) / b->tokens_per_row[point->cache];
          memcpy(rows, selection + b->queries_max + (size_t)q * point->k, n * sizeof *rows);
        }
        point->query[at] = (struct kvl_batch_query){(kvl_row)boundary, n};
        for (uint32_t i = n; i < point->k; i++) {
          rows[i] = KVL_NONE;
        }
      }
    }
  }
  return 0;
}

int kvl_standin_ref(const struct kvl_standin *standin, void *context)
{
  (void)standin;
  (void)context;
  return 0;
}

int kvl_step_end_ref(const struct kvl_step_end *end, void *context)
{
  (void)context;
  struct kvl_step_outcome *o = end->outcome;
  if (end->queries_max == 0 || end->queries_max > KVL_STEP_QUERIES || end->points > KVL_STEP_POINTS) {
    return -EINVAL;
  }
  memset(o, 0, sizeof *o);
  o->first_reader = o->first_entry = o->first_query = UINT32_MAX;
  for (uint32_t p = 0; p < end->points; p++) {
    struct kvl_resolve_counts *sum = &o->counts[p];
    for (uint32_t e = 0; e < end->entries; e++) {
      const struct kvl_resolve_counts *c = &end->point[p].counts[e];
      for (int t = 0; t < KVL_TIERS; t++) {
        sum->lanes[t] += c->lanes[t];
      }
      sum->violations += c->violations;
      sum->fetched += c->fetched;
      sum->overflow += c->overflow;
    }
  }
  for (uint32_t e = 0; e < end->entries; e++) {
    o->copies += end->copy_count != NULL ? end->copy_count[e] : 0;
    o->dropped += end->drop_count != NULL ? end->drop_count[e] : 0;
  }
  for (uint32_t r = 0; *end->check != 0 && r < end->readers; r++) {
    uint32_t p = end->point_of_reader[r], w = end->witness_of_reader != NULL ? end->witness_of_reader[r] : p;
    for (uint32_t e = 0; e < end->entries; e++) {
      for (uint32_t q = 0; end->entry[e].request != KVL_NONE && q < end->queries_max && q < end->entry[e].query_count; q++) {
        size_t at = (size_t)e * end->queries_max + q;
        size_t each = (size_t)end->entries * end->queries_max;
        o->digests++;
        o->rows_checked += end->point[p].query[at].n;
        if (end->digest[r * each + at] != end->witness[w * each + at] && o->mismatches++ == 0) {
          o->first_reader = r;
          o->first_entry = e;
          o->first_query = q;
        }
      }
    }
  }
  return 0;
}

int kvl_bank_copy_ref(const struct kvl_bank_copy *copy, void *context)
{
  (void)context;
  uint32_t bytes = copy->part_bytes != 0 ? copy->part_bytes : copy->row_bytes, offset = copy->part_bytes != 0 ? copy->part_offset : 0;
  if (copy->row_bytes == 0 || copy->row_bytes % 8 != 0 || bytes % 8 != 0 || offset % 8 != 0 || bytes > copy->row_bytes || offset > copy->row_bytes - bytes) {
    return -EINVAL;
  }
  for (uint32_t e = 0; e < copy->entries; e++) {
    for (uint32_t i = 0; copy->entry[e].request != KVL_NONE && i < copy->copy_count[e] && i < copy->bank_rows; i++) {
      const struct kvl_fetch *f = &copy->copies[(size_t)e * copy->bank_rows + i];
      memcpy(copy->arena + (size_t)f->to * copy->row_bytes + offset, copy->entry[e].host_rows + (size_t)f->row * copy->row_bytes + offset, bytes);
    }
  }
  return 0;
}
