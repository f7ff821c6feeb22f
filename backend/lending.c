/* Lending: population at admission, give-back between steps (I6), and pages that grow out of the tail. Only pages that are complete on
 * the host are ever in a table's `missing` set, so nothing else can be lent (I2). */
#include <assert.h>
#include <errno.h>

#include "backend/residency_state.h"

void kvl_resid_lend(struct kvl_resid *resid, kvl_request request, kvl_page page, enum kvl_move_kind kind, struct kvl_plan *plan)
{
  struct kvl_resid_request *req = &resid->request[request];
  kvl_frame frame = kvl_pool_lend(&resid->pool, request, page, kind == KVL_MOVE_POPULATE);
  kvl_page_table_lend(&req->table, page, frame);
  if (req->table.held_count == 1) {
    kvl_bitset_add(&resid->holders, request);
  }
  req->populating += kind == KVL_MOVE_POPULATE;
  resid->pages_lent++;
  kvl_plan_add(plan, (struct kvl_move){.kind = kind, .request = request, .page = page, .frame = frame});
}

static struct kvl_resid_request *active(struct kvl_resid *resid, kvl_request request)
{
  assert(request < resid->config.requests_max && resid->request[request].active);
  return &resid->request[request];
}

/* The newest `count` missing pages, which the caller has counted. */
static void lend_newest(struct kvl_resid *resid, kvl_request request, uint32_t count, enum kvl_move_kind kind, struct kvl_plan *plan)
{
  for (; count > 0; count--) {
    kvl_resid_lend(resid, request, kvl_page_table_newest_missing(&resid->request[request].table), kind, plan);
  }
}

int kvl_resid_populate(struct kvl_resid *resid, kvl_request request, uint32_t keep_free, struct kvl_plan *plan)
{
  struct kvl_resid_request *req = active(resid, request);
  uint32_t tokens = req->input_tokens > req->host_tokens ? req->input_tokens : req->host_tokens;
  uint32_t complete = resid->config.mode == KVL_MODE_RESIDENT ? 0 : tokens / resid->config.tokens_per_page;
  uint32_t missing = req->table.pages == 0 ? 0 : complete - req->table.held_count;
  uint32_t count = kvl_min_u32(missing, kvl_minus_u32(resid->pool.free_count, keep_free));
  if (!kvl_plan_has_room(plan, count)) {
    return -ENOBUFS;
  }
  req->populated = true;
  req->host_tokens = tokens;
  kvl_page_table_grow(&req->table, complete);
  lend_newest(resid, request, count, KVL_MOVE_POPULATE, plan);
  kvl_resid_recount(resid, request);
  return 0;
}

int kvl_resid_host_complete(struct kvl_resid *resid, kvl_request request, uint32_t tokens, struct kvl_plan *plan)
{
  struct kvl_resid_request *req = active(resid, request);
  assert(tokens <= req->max_tokens); /* I4: admission has counted no more */
  if (tokens <= req->host_tokens) {
    return 0;
  }
  if (!req->populated || resid->config.mode == KVL_MODE_RESIDENT) {
    req->host_tokens = tokens;
    return 0;
  }
  uint32_t complete = tokens / resid->config.tokens_per_page;
  uint32_t fresh = req->table.pages == 0 ? 0 : complete - req->table.complete;
  uint32_t count = kvl_min_u32(fresh, resid->pool.free_count);
  if (!kvl_plan_has_room(plan, count)) {
    return -ENOBUFS;
  }
  req->host_tokens = tokens;
  kvl_page_table_grow(&req->table, complete);
  lend_newest(resid, request, count, KVL_MOVE_KEEP, plan); /* fresh pages are missing and the newest, so these are they */
  kvl_resid_recount(resid, request);
  return 0;
}

static void give_one(struct kvl_resid *resid, kvl_request request, struct kvl_plan *plan)
{
  kvl_resid_lend(resid, request, kvl_page_table_wanted(&resid->request[request].table), KVL_MOVE_GIVE, plan);
  resid->pages_given_back++;
  kvl_resid_recount(resid, request);
}

/* One page to each request in turn, lowest id first. */
static void give_in_turn(struct kvl_resid *resid, uint32_t budget, struct kvl_plan *plan)
{
  for (uint32_t r = 0; budget > 0; budget--, r++) {
    r = kvl_bitset_next(&resid->wanting, r);
    r = r == KVL_BITSET_NONE ? kvl_bitset_first(&resid->wanting) : r;
    give_one(resid, r, plan);
  }
}

static kvl_request closest_to_complete(const struct kvl_resid *resid)
{
  uint32_t best = kvl_bitset_first(&resid->wanting);
  for (uint32_t r = best; r != KVL_BITSET_NONE; r = kvl_bitset_next(&resid->wanting, r + 1)) {
    best = resid->request[r].wanted < resid->request[best].wanted ? r : best;
  }
  return best;
}

static void give_closest(struct kvl_resid *resid, uint32_t budget, struct kvl_plan *plan)
{
  while (budget > 0) {
    kvl_request request = closest_to_complete(resid);
    uint32_t count = kvl_min_u32(budget, resid->request[request].wanted);
    budget -= count;
    for (; count > 0; count--) {
      give_one(resid, request, plan);
    }
  }
}

int kvl_resid_give_back(struct kvl_resid *resid, uint32_t keep_free, struct kvl_plan *plan)
{
  uint32_t room = kvl_minus_u32(resid->pool.free_count, keep_free);
  uint32_t budget = kvl_min_u32(room, resid->config.give_back_pages_max);
  budget = resid->wanted_total < budget ? (uint32_t)resid->wanted_total : budget;
  if (!kvl_plan_has_room(plan, budget)) {
    return -ENOBUFS;
  }
  if (resid->config.give_order == KVL_GIVE_CLOSEST_COMPLETE) {
    give_closest(resid, budget, plan);
  } else {
    give_in_turn(resid, budget, plan);
  }
  return 0;
}

void kvl_resid_copy_done(struct kvl_resid *resid, const struct kvl_move *move)
{
  struct kvl_frame_node *node = &resid->pool.node[move->frame];
  bool populating = node->populating;
  if (kvl_pool_copy_done(&resid->pool, move->frame)) {
    struct kvl_resid_request *req = active(resid, move->request);
    assert(node->of.loan.request == move->request && node->of.loan.page == move->page);
    kvl_page_table_arrive(&req->table, move->page);
    req->populating -= populating;
    kvl_resid_recount(resid, move->request);
  }
}
