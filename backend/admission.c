/* Admission (I4) and the end of a request (I8). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "backend/residency_state.h"

/* Revocations that let `demand` in now or after what is retiring has become free; 0 when even all loans would not. */
static uint32_t need_of(const struct kvl_resid *resid, const struct kvl_demand *demand, uint32_t growth_frames)
{
  const struct kvl_frame_pool *pool = &resid->pool;
  uint32_t coming = pool->free_count + pool->retiring_count;
  if (demand->fixed_frames > coming + pool->lent_count) {
    return 0; /* not admissible in this gap: taking pages would help nobody */
  }
  uint64_t wanted = (uint64_t)demand->fixed_frames + growth_frames;
  uint64_t need = wanted > coming ? wanted - coming : 0;
  return need < pool->lent_count ? (uint32_t)need : pool->lent_count;
}

static void begin(struct kvl_resid *resid, kvl_request request, const struct kvl_demand *demand)
{
  struct kvl_resid_request *req = &resid->request[request];
  kvl_bitset_remove(&resid->idle, request);
  resid->requests++;
  req->active = true;
  req->fixed_frames = demand->fixed_frames;
  req->input_tokens = demand->input_tokens;
  req->max_tokens = demand->max_tokens;
  req->reserved = kvl_pool_reserve(&resid->pool, demand->fixed_frames);
}

int kvl_resid_admit(struct kvl_resid *resid, const struct kvl_demand *demand, uint32_t growth_frames, struct kvl_plan *plan, kvl_request *request)
{
  if (demand->input_tokens > demand->max_tokens) {
    return -EINVAL;
  }
  bool lends = resid->config.mode == KVL_MODE_ADAPTIVE;
  if (demand->fixed_frames > resid->config.frames ||
      (lends && demand->max_tokens / resid->config.tokens_per_page > resid->config.pages_max)) {
    return -E2BIG;
  }
  uint32_t slot = kvl_bitset_first(&resid->idle);
  if (slot == KVL_BITSET_NONE) {
    return -EUSERS;
  }
  uint32_t need = need_of(resid, demand, growth_frames);
  if (!kvl_plan_has_room(plan, need)) {
    return -ENOBUFS;
  }
  kvl_resid_revoke(resid, need, plan);
  if (resid->pool.free_count < demand->fixed_frames) {
    return -EAGAIN;
  }
  begin(resid, slot, demand);
  *request = slot;
  return 0;
}

void kvl_resid_end(struct kvl_resid *resid, kvl_request request)
{
  assert(request < resid->config.requests_max && resid->request[request].active);
  struct kvl_resid_request *req = &resid->request[request];
  struct kvl_page_table *table = &req->table;
  while (table->held_count > 0) {
    uint32_t page = kvl_bitset_first(&table->held);
    kvl_pool_release_lent(&resid->pool, kvl_page_table_drop(table, (kvl_page)page));
  }
  kvl_page_table_reset(table);
  kvl_pool_release_chain(&resid->pool, req->reserved, req->fixed_frames);
  req->reserved = KVL_CHAIN_END;
  req->fixed_frames = 0;
  req->input_tokens = req->max_tokens = req->host_tokens = 0;
  req->populating = 0;
  req->populated = req->active = false;
  kvl_resid_recount(resid, request);
  kvl_bitset_add(&resid->idle, request);
  resid->requests--;
}
