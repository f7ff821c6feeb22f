/* The batch entry points over the C reference. */
#include <errno.h>
#include <string.h>

#include "kernels/resolve_batch.h"
#include "kernels/resolve_ref.h"

enum { QUERIES_MAX = 64 };

int kvl_resolve_batch_ref(const struct kvl_resolve_batch *batch, void *context)
{
  const struct kvl_resolve_host *host = context;
  size_t lanes = (size_t)batch->queries_max * batch->k;
  struct kvl_query queries[QUERIES_MAX];
  if (batch->queries_max > QUERIES_MAX || lanes > KVL_LANES_MAX || batch->row_bytes % 8 != 0 || batch->fetch_bytes % 8 != 0 ||
      batch->fetch_bytes > batch->row_bytes) {
    return -EINVAL;
  }
  for (uint32_t e = 0; e < batch->entries; e++) {
    const struct kvl_resolve_entry *entry = &batch->entry[e];
    kvl_addr *out = batch->addresses + e * lanes;
    for (size_t i = 0; i < lanes; i++) {
      out[i] = KVL_NONE;
    }
    batch->fetch_count[e] = 0;
    if (entry->request == KVL_NONE) {
      continue;
    }
    struct kvl_fetch *fetches = batch->fetches + e * lanes;
    size_t packed = 0;
    for (uint32_t q = 0; q < entry->query_count; q++) {
      const struct kvl_batch_query *from = &batch->query[e * batch->queries_max + q];
      queries[q] = (struct kvl_query){from->boundary, from->n, batch->rows + e * lanes + (size_t)q * batch->k};
      packed += from->n;
    }
    int err = kvl_resolve_ref(host->caches[entry->request], host->ws, entry->whole != 0, queries, entry->query_count, out, fetches,
                              &batch->fetch_count[e], &batch->counts[e]);
    if (err != 0) {
      return err;
    }
    for (uint32_t q = entry->query_count; q-- > 0;) { /* the reference packs the lanes of its queries: move each to its place, last first */
      packed -= queries[q].n;
      kvl_addr *to = out + (size_t)q * batch->k;
      memmove(to, out + packed, queries[q].n * sizeof *to);
      for (uint32_t i = queries[q].n; i < batch->k; i++) {
        to[i] = KVL_NONE;
      }
    }
    if (batch->arena != NULL) {
      for (uint32_t i = 0; i < batch->fetch_count[e]; i++) {
        memcpy(batch->arena + (size_t)fetches[i].to * batch->row_bytes, entry->host_rows + (size_t)fetches[i].row * batch->row_bytes,
               batch->fetch_bytes != 0 ? batch->fetch_bytes : batch->row_bytes);
      }
    }
  }
  return 0;
}

int kvl_announce_batch_ref(const struct kvl_announce_batch *batch, void *context)
{
  const struct kvl_resolve_host *host = context;
  size_t lanes = (size_t)batch->queries_max * batch->pool_max;
  struct kvl_query pools[QUERIES_MAX];
  if (batch->queries_max > QUERIES_MAX) {
    return -EINVAL;
  }
  for (uint32_t e = 0; e < batch->entries; e++) {
    const struct kvl_resolve_entry *entry = &batch->entry[e];
    batch->copy_count[e] = 0;
    batch->drop_count[e] = 0;
    if (entry->request == KVL_NONE) {
      continue;
    }
    for (uint32_t q = 0; q < entry->query_count; q++) {
      const struct kvl_batch_query *from = &batch->query[e * batch->queries_max + q];
      pools[q] = (struct kvl_query){from->boundary, from->n, batch->pools + e * lanes + (size_t)q * batch->pool_max};
    }
    int err = kvl_announce_ref(host->caches[entry->request], host->ws, pools, entry->query_count,
                               batch->copies + (size_t)e * batch->geometry.bank_rows, &batch->copy_count[e], batch->dropped + e * lanes,
                               &batch->drop_count[e]);
    if (err != 0) {
      return err;
    }
  }
  return 0;
}

int kvl_end_group_batch_ref(const struct kvl_announce_batch *batch, void *context)
{
  const struct kvl_resolve_host *host = context;
  for (uint32_t e = 0; e < batch->entries; e++) {
    if (batch->entry[e].request != KVL_NONE) {
      kvl_end_group_ref(host->caches[batch->entry[e].request]);
    }
  }
  return 0;
}
