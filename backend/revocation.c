/* Revocation (I5): the need and no more, from each request in proportion to what it holds. */
#include <assert.h>
#include <errno.h>

#include "backend/residency_state.h"

/* Larger remainder first, then the lower id. */
static bool before(const struct kvl_share *a, const struct kvl_share *b)
{
  return a->remainder != b->remainder ? a->remainder > b->remainder : a->request < b->request;
}

static void sift_down(struct kvl_share *heap, uint32_t count, uint32_t at)
{
  struct kvl_share moving = heap[at];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= count) {
      break;
    }
    child += child + 1 < count && before(&heap[child + 1], &heap[child]);
    if (!before(&heap[child], &moving)) {
      break;
    }
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

/* Fills take[] of every holder. Both factors are below 2^32, so the products are exact in 64 bits. */
static void split(struct kvl_resid *resid, uint32_t frames)
{
  uint64_t total = resid->pool.lent_count;
  uint32_t rest = frames, count = 0;
  for (uint32_t r = kvl_bitset_first(&resid->holders); r != KVL_BITSET_NONE; r = kvl_bitset_next(&resid->holders, r + 1)) {
    uint64_t product = (uint64_t)frames * resid->request[r].table.held_count;
    resid->take[r] = (uint32_t)(product / total);
    rest -= resid->take[r];
    resid->shares[count++] = (struct kvl_share){.remainder = product % total, .request = r};
  }
  assert(rest <= count);
  for (uint32_t i = count / 2; i-- > 0;) {
    sift_down(resid->shares, count, i);
  }
  for (; rest > 0; rest--) { /* fewer than there are remainders above 0, so no request gives more than it holds */
    resid->take[resid->shares[0].request]++;
    resid->shares[0] = resid->shares[--count];
    if (count > 0) {
      sift_down(resid->shares, count, 0);
    }
  }
}

static void revoke_page(struct kvl_resid *resid, kvl_request request, struct kvl_plan *plan)
{
  struct kvl_resid_request *req = &resid->request[request];
  kvl_page page = kvl_page_table_victim(&req->table);
  kvl_frame frame = kvl_page_table_drop(&req->table, page);
  req->populating -= resid->pool.node[frame].populating;
  kvl_pool_release_lent(&resid->pool, frame);
  resid->pages_revoked++;
  kvl_plan_add(plan, (struct kvl_move){.kind = KVL_MOVE_REVOKE, .request = request, .page = page, .frame = frame});
}

void kvl_resid_revoke(struct kvl_resid *resid, uint32_t frames, struct kvl_plan *plan)
{
  if (frames == 0) {
    return;
  }
  split(resid, frames);
  for (uint32_t r = kvl_bitset_first(&resid->holders); r != KVL_BITSET_NONE; r = kvl_bitset_next(&resid->holders, r + 1)) {
    for (uint32_t left = resid->take[r]; left > 0; left--) {
      revoke_page(resid, r, plan);
    }
    kvl_resid_recount(resid, r);
  }
}

int kvl_resid_make_room(struct kvl_resid *resid, uint32_t frames, struct kvl_plan *plan)
{
  uint32_t coming = resid->pool.free_count + resid->pool.retiring_count;
  uint32_t need = kvl_min_u32(kvl_minus_u32(frames, coming), resid->pool.lent_count);
  if (!kvl_plan_has_room(plan, need)) {
    return -ENOBUFS;
  }
  kvl_resid_revoke(resid, need, plan);
  return 0;
}
