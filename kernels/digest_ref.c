/* The C reference of attention's reads and of the witness: two ways to a row, one digest. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/step.h"

/* Whole words first: a copy of always 8 bytes is one load. */
static uint64_t row_hash(const unsigned char *row, uint32_t bytes)
{
  uint64_t h = 0, word;
  uint32_t words = bytes / 8;
  for (uint32_t j = 0; j < words; j++) {
    memcpy(&word, row + (size_t)j * 8, 8);
    h += (word ^ j) * UINT64_C(0x9e3779b97f4a7c15);
  }
  if (bytes % 8 != 0) {
    word = 0;
    memcpy(&word, row + (size_t)words * 8, bytes % 8);
    h += (word ^ words) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return h;
}

/* `rows_max`: a number past it is none, as a negative one is. */
static uint64_t digest(const int32_t *index, uint32_t n, const unsigned char *base, uint32_t row_bytes, uint32_t bytes, uint64_t rows_max)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    bool there = index[i] >= 0 && (uint64_t)index[i] < rows_max;
    uint64_t h = there ? row_hash(base + (size_t)index[i] * row_bytes, bytes) : KVL_DIGEST_NONE;
    sum += (2 * (uint64_t)i + 1) * h;
  }
  return sum;
}

/* What of a row is read: *bytes from *offset on. */
static bool beyond_limits(uint32_t queries_max, uint32_t row_bytes, uint32_t part_offset, uint32_t part_bytes, uint32_t *offset, uint32_t *bytes)
{
  *offset = part_bytes != 0 ? part_offset : 0;
  *bytes = part_bytes != 0 ? part_bytes : row_bytes;
  bool part = part_bytes != 0 && (part_bytes % 8 != 0 || part_offset % 8 != 0 || part_bytes > row_bytes || part_offset > row_bytes - part_bytes);
  return queries_max == 0 || queries_max > KVL_STEP_QUERIES || row_bytes == 0 || part;
}

int kvl_reader_ref(const struct kvl_reader *r, void *context)
{
  (void)context;
  uint32_t offset, bytes;
  if (beyond_limits(r->queries_max, r->row_bytes, r->part_offset, r->part_bytes, &offset, &bytes)) {
    return -EINVAL;
  }
  for (size_t at = 0; at < (size_t)r->entries * r->queries_max; at++) {
    const struct kvl_resolve_entry *entry = &r->entry[at / r->queries_max];
    bool used = entry->request != KVL_NONE && at % r->queries_max < entry->query_count;
    r->digest[at] = used ? digest(r->addresses + at * r->k, r->query[at].n, r->arena + offset, r->row_bytes, bytes, UINT64_MAX) : 0;
  }
  return 0;
}

int kvl_witness_ref(const struct kvl_witness *w, void *context)
{
  (void)context;
  uint32_t offset, bytes;
  if (beyond_limits(w->queries_max, w->row_bytes, w->part_offset, w->part_bytes, &offset, &bytes)) {
    return -EINVAL;
  }
  for (size_t at = 0; at < (size_t)w->entries * w->queries_max; at++) {
    const struct kvl_resolve_entry *entry = &w->entry[at / w->queries_max];
    bool used = entry->request != KVL_NONE && at % w->queries_max < entry->query_count;
    w->digest[at] = used ? digest(w->rows + at * w->k, w->query[at].n, w->resident + (uint64_t)entry->request * w->slot_bytes + offset,
                                  w->row_bytes, bytes, w->slot_bytes / w->row_bytes)
                         : 0;
  }
  return 0;
}
