/* Inside the residency policy; only its own files and its tests include this. */
#ifndef KVL_BACKEND_RESIDENCY_STATE_H
#define KVL_BACKEND_RESIDENCY_STATE_H

#include "backend/frame_pool.h"
#include "backend/page_table.h"
#include "backend/residency.h"

struct kvl_resid_request {
  bool active;
  bool populated;            /* kvl_resid_populate was called: pages may be lent from now on */
  uint32_t fixed_frames;
  uint32_t reserved;         /* chain of the fixed frames */
  uint32_t input_tokens, max_tokens;
  uint32_t host_tokens;      /* tokens [0, host_tokens) are complete on the host */
  uint32_t populating;       /* held pages whose population copy is in flight */
  uint32_t wanted;           /* pages a give-back may bring: those missing once the population is over, else 0 */
  struct kvl_page_table table;
};

/* A request's part of a revocation. */
struct kvl_share {
  uint64_t remainder;
  kvl_request request;
};

struct kvl_resid {
  struct kvl_resid_config config;
  struct kvl_frame_pool pool;
  struct kvl_resid_request *request;
  struct kvl_bitset idle;      /* batch slots without a request */
  struct kvl_bitset holders;   /* requests that hold a page */
  struct kvl_bitset wanting;   /* requests with wanted > 0 */
  uint64_t wanted_total;       /* sum of wanted: 0 makes a give-back O(1) */
  uint32_t requests;
  uint64_t pages_lent, pages_revoked, pages_given_back;
  uint32_t *take;              /* by request: pages to revoke */
  struct kvl_share *shares;    /* heap of the largest remainders */
  uint64_t *audit;             /* verify: one bit a frame */
};

/* Recounts `wanted` after the request's pages, population or life have changed. */
void kvl_resid_recount(struct kvl_resid *resid, kvl_request request);

/* Revokes exactly `frames` pages (as many are lent, and the plan has room). */
void kvl_resid_revoke(struct kvl_resid *resid, uint32_t frames, struct kvl_plan *plan);

/* Lends a missing page of the request; a frame is free, and the plan has room. */
void kvl_resid_lend(struct kvl_resid *resid, kvl_request request, kvl_page page, enum kvl_move_kind kind, struct kvl_plan *plan);

static inline bool kvl_plan_has_room(const struct kvl_plan *plan, uint32_t moves)
{
  return plan->capacity - plan->count >= moves;
}

static inline void kvl_plan_add(struct kvl_plan *plan, struct kvl_move move)
{
  plan->moves[plan->count++] = move;
}

#endif
