/* The residency policy's memory, accessors and the shared recount. Admission, lending, revocation and verification have files of their own. */
#include "backend/residency.h"

#include <assert.h>
#include <string.h>

#include "backend/residency_state.h"

static bool possible(const struct kvl_resid_config *config)
{
  return config->frames <= INT32_MAX && config->pages_max <= INT32_MAX && config->requests_max <= INT32_MAX && config->tokens_per_page > 0;
}

/* Only adaptive mode has page tables: in the others no page is ever lent. */
static void layout_requests(struct kvl_resid *resid, struct kvl_carve *carve, const struct kvl_resid_config *config)
{
  bool adaptive = config->mode == KVL_MODE_ADAPTIVE;
  struct kvl_resid_request *request = kvl_carve(carve, config->requests_max, sizeof *request);
  if (request != NULL) {
    memset(request, 0, config->requests_max * sizeof *request);
    resid->request = request;
  }
  if (adaptive) {
    for (uint32_t r = 0; r < config->requests_max && !carve->overflow; r++) {
      kvl_page_table_layout(request == NULL ? NULL : &request[r].table, carve, config->pages_max,
                            config->revoke_order == KVL_REVOKE_LEAST_SELECTED, config->give_order == KVL_GIVE_MOST_SELECTED);
    }
  }
}

static void layout_scratch(struct kvl_resid *resid, struct kvl_carve *carve, const struct kvl_resid_config *config)
{
  uint32_t *take = kvl_carve(carve, config->requests_max, sizeof *take);
  struct kvl_share *shares = kvl_carve(carve, config->requests_max, sizeof *shares);
  uint64_t *audit = kvl_carve(carve, (size_t)config->frames / 64 + 1, sizeof *audit);
  if (audit != NULL) {
    resid->take = take;
    resid->shares = shares;
    resid->audit = audit;
  }
}

static struct kvl_resid *layout(struct kvl_carve *carve, const struct kvl_resid_config *config)
{
  struct kvl_resid *resid = kvl_carve(carve, 1, sizeof *resid);
  if (resid != NULL) {
    memset(resid, 0, sizeof *resid);
    resid->config = *config;
  }
  kvl_pool_layout(resid == NULL ? NULL : &resid->pool, carve, config->frames);
  kvl_bitset_layout(resid == NULL ? NULL : &resid->idle, carve, config->requests_max);
  kvl_bitset_layout(resid == NULL ? NULL : &resid->holders, carve, config->requests_max);
  kvl_bitset_layout(resid == NULL ? NULL : &resid->wanting, carve, config->requests_max);
  layout_requests(resid, carve, config);
  layout_scratch(resid, carve, config);
  return resid;
}

size_t kvl_resid_bytes(const struct kvl_resid_config *config)
{
  struct kvl_carve carve = {0};
  if (!possible(config)) {
    return 0;
  }
  (void)layout(&carve, config);
  return carve.overflow ? 0 : carve.used;
}

struct kvl_resid *kvl_resid_init(void *memory, const struct kvl_resid_config *config)
{
  assert(possible(config) && (uintptr_t)memory % KVL_CARVE_ALIGN == 0);
  struct kvl_carve carve = {.base = memory};
  struct kvl_resid *resid = layout(&carve, config);
  kvl_bitset_add_range(&resid->idle, 0, config->requests_max);
  for (uint32_t r = 0; r < config->requests_max; r++) {
    resid->request[r].reserved = KVL_CHAIN_END;
  }
  return resid;
}

static void set_membership(struct kvl_bitset *set, uint32_t member, bool in)
{
  if (kvl_bitset_has(set, member) != in) {
    if (in) {
      kvl_bitset_add(set, member);
    } else {
      kvl_bitset_remove(set, member);
    }
  }
}

void kvl_resid_recount(struct kvl_resid *resid, kvl_request request)
{
  struct kvl_resid_request *req = &resid->request[request];
  uint32_t wanted = req->populated && req->populating == 0 ? kvl_page_table_missing(&req->table) : 0;
  resid->wanted_total = resid->wanted_total - req->wanted + wanted;
  req->wanted = wanted;
  set_membership(&resid->wanting, request, wanted > 0);
  set_membership(&resid->holders, request, req->table.held_count > 0);
}

void kvl_resid_step_begun(struct kvl_resid *resid, uint64_t step)
{
  kvl_pool_step_begun(&resid->pool, step);
}

void kvl_resid_step_done(struct kvl_resid *resid, uint64_t step)
{
  kvl_pool_step_done(&resid->pool, step);
}

void kvl_resid_note_selected(struct kvl_resid *resid, kvl_request request, kvl_page first, uint32_t *lanes, uint32_t count)
{
  kvl_page_table_note_selected(&resid->request[request].table, first, lanes, count);
}

const kvl_frame *kvl_resid_page_map(const struct kvl_resid *resid, kvl_request request, uint32_t *pages, int *whole)
{
  const struct kvl_page_table *table = &resid->request[request].table;
  *pages = table->pages > 0 ? table->complete : 0;
  *whole = table->mapped_count == table->complete;
  return table->map;
}

const uint64_t *kvl_resid_page_map_changes(const struct kvl_resid *resid, kvl_request request, uint64_t *version)
{
  const struct kvl_page_table *table = &resid->request[request].table;
  *version = table->version;
  return table->changed;
}

void kvl_resid_reserved(const struct kvl_resid *resid, kvl_request request, kvl_frame *frames, uint32_t count)
{
  const struct kvl_resid_request *req = &resid->request[request];
  kvl_pool_chain_frames(&resid->pool, req->reserved, req->fixed_frames, frames, count);
}

void kvl_resid_usage(const struct kvl_resid *resid, struct kvl_resid_usage *usage)
{
  const struct kvl_frame_pool *pool = &resid->pool;
  *usage = (struct kvl_resid_usage){
    .frames = pool->frames,
    .free = pool->free_count,
    .reserved = pool->reserved_count,
    .lent = pool->lent_count,
    .retiring = pool->retiring_count,
    .requests = resid->requests,
    .pages_lent = resid->pages_lent,
    .pages_revoked = resid->pages_revoked,
    .pages_given_back = resid->pages_given_back,
  };
}

uint32_t kvl_resid_held(const struct kvl_resid *resid, kvl_request request)
{
  return resid->request[request].table.held_count;
}
