/* Every invariant that is a state, checked from scratch: each frame must be found once, free or with an owner, and every count, set and summary
 * must follow from what is found. No frame is found twice, each kind is found as often as it is counted, and the counts add up to the pool: so
 * none is lost. */
#include <string.h>

#include "backend/residency_state.h"

/* Marks the frames as found; they must be in the pool and not found before. */
static int claim(const struct kvl_resid *resid, uint32_t lead, uint64_t mask)
{
  uint64_t *word = &resid->audit[lead / 64];
  uint32_t top = lead / 64 * 64 + 63 - (uint32_t)__builtin_clzll(mask | 1);
  if ((*word & mask) != 0 || top >= resid->pool.frames) {
    return KVL_FAULT_TWO_OWNERS;
  }
  *word |= mask;
  return 0;
}

static int claim_chain(const struct kvl_resid *resid, uint32_t head, enum kvl_node_state state, uint32_t *frames)
{
  for (uint32_t lead = head; lead != KVL_CHAIN_END; lead = resid->pool.node[lead].next) {
    if (lead >= resid->pool.nodes || resid->pool.node[lead].state != state || resid->pool.node[lead].of.mask == 0) {
      return KVL_FAULT_CHAIN;
    }
    int fault = claim(resid, lead, resid->pool.node[lead].of.mask);
    if (fault != 0) {
      return fault;
    }
    *frames += kvl_chunk_frames(resid->pool.node[lead].of.mask);
  }
  return 0;
}

static int verify_free(const struct kvl_resid *resid)
{
  const struct kvl_frame_pool *pool = &resid->pool;
  if (kvl_bitset_audit(&pool->free) != pool->free_count) {
    return KVL_FAULT_FREE_SET;
  }
  memcpy(resid->audit, pool->free.level[0], ((size_t)pool->frames + 63) / 64 * sizeof resid->audit[0]);
  uint64_t sum = (uint64_t)pool->free_count + pool->reserved_count + pool->lent_count + pool->retiring_count;
  return sum == pool->frames ? 0 : KVL_FAULT_SUM;
}

/* One page that the table says it holds. */
static int verify_loan(const struct kvl_resid *resid, uint32_t request, uint32_t page, uint32_t *mapped, uint32_t *populating)
{
  const struct kvl_page_table *table = &resid->request[request].table;
  kvl_frame frame = table->frame[page];
  if (frame < 0 || (uint32_t)frame >= resid->pool.nodes) {
    return KVL_FAULT_LOAN;
  }
  const struct kvl_frame_node *node = &resid->pool.node[frame];
  if (node->state != KVL_NODE_LENT || node->of.loan.request != request || node->of.loan.page != (kvl_page)page) {
    return KVL_FAULT_LOAN;
  }
  if (table->map[page] != (node->copying ? KVL_NONE : frame)) {
    return KVL_FAULT_MAP;
  }
  *mapped += !node->copying;
  *populating += node->populating;
  return claim(resid, (uint32_t)frame, (uint64_t)1 << (frame % 64));
}

/* Held and missing are the complete pages in two parts, and a missing page is nowhere. */
static int verify_page_sets(const struct kvl_page_table *table)
{
  if (kvl_bitset_audit(&table->held) != table->held_count || kvl_bitset_audit(&table->missing) == KVL_BITSET_NONE) {
    return KVL_FAULT_PAGE_SETS;
  }
  for (uint32_t first = 0; first < table->pages; first += 64) {
    uint64_t held = table->held.level[0][first / 64], missing = table->missing.level[0][first / 64];
    uint32_t complete = kvl_minus_u32(table->complete, first);
    uint64_t all = complete >= 64 ? UINT64_MAX : ((uint64_t)1 << complete) - 1;
    if ((held & ~all) != 0) {
      return KVL_FAULT_EARLY_LOAN;
    }
    if ((held & missing) != 0 || (held | missing) != all) {
      return KVL_FAULT_PAGE_SETS;
    }
    for (; missing != 0; missing &= missing - 1) {
      uint32_t page = first + (uint32_t)__builtin_ctzll(missing);
      if (table->frame[page] != KVL_NONE || table->map[page] != KVL_NONE) {
        return KVL_FAULT_MAP;
      }
    }
  }
  return 0;
}

static int verify_pages(const struct kvl_resid *resid, uint32_t request)
{
  const struct kvl_resid_request *req = &resid->request[request];
  const struct kvl_page_table *table = &req->table;
  uint32_t mapped = 0, populating = 0;
  int fault = verify_page_sets(table);
  for (uint32_t first = 0; first < table->complete && fault == 0; first += 64) {
    for (uint64_t held = table->held.level[0][first / 64]; held != 0 && fault == 0; held &= held - 1) {
      fault = verify_loan(resid, request, first + (uint32_t)__builtin_ctzll(held), &mapped, &populating);
    }
  }
  if (fault == 0 && (mapped != table->mapped_count || populating != req->populating)) {
    fault = KVL_FAULT_COUNTS;
  }
  if (fault == 0 && !(kvl_page_rank_audit(&table->coldest_held) && kvl_page_rank_audit(&table->hottest_missing))) {
    fault = KVL_FAULT_RANK;
  }
  return fault;
}

static int verify_ended(const struct kvl_resid *resid, uint32_t request)
{
  const struct kvl_resid_request *req = &resid->request[request];
  const struct kvl_page_table *table = &req->table;
  bool empty = req->fixed_frames == 0 && req->reserved == KVL_CHAIN_END && req->host_tokens == 0 && req->max_tokens == 0 && req->populating == 0 &&
               req->wanted == 0 && !req->populated && table->complete == 0 && table->held_count == 0 && table->mapped_count == 0;
  if (empty && table->pages > 0) {
    empty = kvl_bitset_first(&table->held) == KVL_BITSET_NONE && kvl_bitset_first(&table->missing) == KVL_BITSET_NONE;
  }
  return empty ? 0 : KVL_FAULT_ENDED;
}

static int verify_tokens(const struct kvl_resid *resid, const struct kvl_resid_request *req)
{
  bool paged = req->populated && resid->config.mode != KVL_MODE_RESIDENT;
  uint32_t complete = paged ? req->host_tokens / resid->config.tokens_per_page : 0;
  return req->table.complete == complete && req->host_tokens <= req->max_tokens ? 0 : KVL_FAULT_HOST_TOKENS;
}

static int verify_active(const struct kvl_resid *resid, uint32_t request)
{
  const struct kvl_resid_request *req = &resid->request[request];
  uint32_t reserved = 0;
  int fault = claim_chain(resid, req->reserved, KVL_NODE_RESERVED, &reserved);
  if (fault == 0 && reserved != req->fixed_frames) {
    fault = KVL_FAULT_RESERVED;
  }
  if (fault == 0 && req->table.pages > 0) {
    fault = verify_pages(resid, request);
  }
  return fault == 0 ? verify_tokens(resid, req) : fault;
}

static int verify_requests(const struct kvl_resid *resid)
{
  uint32_t active = 0;
  uint64_t reserved = 0, held = 0, wanted_total = 0;
  for (uint32_t r = 0; r < resid->config.requests_max; r++) {
    const struct kvl_resid_request *req = &resid->request[r];
    int fault = req->active ? verify_active(resid, r) : verify_ended(resid, r);
    if (fault != 0) {
      return fault;
    }
    if (kvl_bitset_has(&resid->idle, r) == req->active) {
      return KVL_FAULT_SLOTS;
    }
    uint32_t wanted = req->populated && req->populating == 0 ? kvl_page_table_missing(&req->table) : 0;
    if (req->wanted != wanted || kvl_bitset_has(&resid->wanting, r) != (wanted > 0) ||
        kvl_bitset_has(&resid->holders, r) != (req->table.held_count > 0)) {
      return KVL_FAULT_GIVE_BACK;
    }
    active += req->active;
    reserved += req->fixed_frames;
    held += req->table.held_count;
    wanted_total += wanted;
  }
  if (active != resid->requests || kvl_bitset_audit(&resid->idle) != resid->config.requests_max - active) {
    return KVL_FAULT_SLOTS;
  }
  if (wanted_total != resid->wanted_total || kvl_bitset_audit(&resid->wanting) == KVL_BITSET_NONE ||
      kvl_bitset_audit(&resid->holders) == KVL_BITSET_NONE) {
    return KVL_FAULT_GIVE_BACK;
  }
  if (held > 0 && resid->config.mode != KVL_MODE_ADAPTIVE) {
    return KVL_FAULT_MODE;
  }
  return reserved == resid->pool.reserved_count && held == resid->pool.lent_count ? 0 : KVL_FAULT_SUM;
}

/* Frames that wait for their copy only are in no chain: they are found by a walk over the pool, when there are any. */
static int claim_draining(const struct kvl_resid *resid, uint32_t *frames)
{
  uint32_t draining = 0;
  for (uint32_t f = 0; resid->pool.draining_count > 0 && f < resid->pool.nodes; f++) {
    if (resid->pool.node[f].state == KVL_NODE_DRAINING) {
      int fault = resid->pool.node[f].copying ? claim(resid, f, (uint64_t)1 << (f % 64)) : KVL_FAULT_RETIRING;
      if (fault != 0) {
        return fault;
      }
      draining++;
    }
  }
  *frames += draining;
  return draining == resid->pool.draining_count ? 0 : KVL_FAULT_RETIRING;
}

static int verify_retiring(const struct kvl_resid *resid)
{
  const struct kvl_frame_pool *pool = &resid->pool;
  uint64_t before = pool->step_done;
  uint32_t frames = 0;
  for (uint32_t i = 0; i < pool->batch_count; i++) {
    const struct kvl_retiring_batch *batch = &pool->batch[(pool->batch_first + i) % KVL_BATCHES_MAX];
    if (batch->step <= before || batch->step > pool->step_begun) {
      return KVL_FAULT_RETIRING;
    }
    before = batch->step;
    int fault = claim_chain(resid, batch->head, KVL_NODE_RETIRING, &frames);
    if (fault != 0) {
      return fault;
    }
  }
  int fault = claim_draining(resid, &frames);
  if (fault != 0) {
    return fault;
  }
  return frames == pool->retiring_count ? 0 : KVL_FAULT_SUM;
}

int kvl_resid_verify(const struct kvl_resid *resid)
{
  int (*const checks[])(const struct kvl_resid *) = {verify_free, verify_requests, verify_retiring};
  for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
    int fault = checks[i](resid);
    if (fault != 0) {
      return -fault;
    }
  }
  return 0;
}

const char *kvl_resid_verify_text(int code)
{
  static const char *const text[] = {
    [0] = "no fault",
    [KVL_FAULT_SUM] = "I1: the frames' states do not add up to the pool",
    [KVL_FAULT_FREE_SET] = "I1: the set of free frames contradicts its count or summary",
    [KVL_FAULT_TWO_OWNERS] = "I1: a frame belongs to two owners",
    [KVL_FAULT_CHAIN] = "I1: a list of frames leads to one that is not on it",
    [KVL_FAULT_EARLY_LOAN] = "I2: a page is lent that is not complete on the host",
    [KVL_FAULT_HOST_TOKENS] = "I2, I10: a request's whole pages are not those of its tokens on the host",
    [KVL_FAULT_RETIRING] = "I3: a frame retires for a step or copy that is done or has not begun",
    [KVL_FAULT_RESERVED] = "I4: a request's reserved frames are not what its admission counted",
    [KVL_FAULT_LOAN] = "a page and its frame disagree about the loan",
    [KVL_FAULT_MAP] = "a page map shows a page whose bytes are not there, or hides one",
    [KVL_FAULT_PAGE_SETS] = "a request's held and missing pages are not its complete pages in two parts",
    [KVL_FAULT_COUNTS] = "a request's counters contradict its pages",
    [KVL_FAULT_GIVE_BACK] = "I6, I9: give-back or revocation would forget a request",
    [KVL_FAULT_ENDED] = "I8: an ended request owns something",
    [KVL_FAULT_SLOTS] = "the batch slots in use are not counted right",
    [KVL_FAULT_MODE] = "a page is lent in a mode without loans",
    [KVL_FAULT_RANK] = "a cached choice by access count is out of date",
  };
  long long n = code < 0 ? -(long long)code : code;
  return n < (long long)(sizeof text / sizeof text[0]) ? text[n] : "unknown fault";
}
