/* Residency policy of one decode GPU: who holds which HBM frame, who may borrow, who gives back.
 *
 * Pure C: no I/O, no clock, no allocation after init, no knowledge of planes. The engine tells it events (admit, populate, commit, copy done,
 * step begun or done, end); it updates its state and appends what must physically happen to a plan. The same code runs in the simulator and on
 * the GPU.
 *
 * Every frame is in exactly one state: free, reserved for a request, lent to (request, page), or retiring (revoked or released while a step
 * or copy that may touch it has not completed). Invariants I1-I10 of the semantics page are checked by kvl_resid_verify(). */
#ifndef KVL_BACKEND_RESIDENCY_H
#define KVL_BACKEND_RESIDENCY_H

#include <stddef.h>
#include <stdint.h>

#include "backend/base/ids.h"

typedef uint32_t kvl_request; /* a batch slot of this GPU, 0 .. requests_max - 1; ids are reused after end */

enum kvl_mode { KVL_MODE_RESIDENT, KVL_MODE_FIXED, KVL_MODE_ADAPTIVE };
enum kvl_revoke_order { KVL_REVOKE_OLDEST, KVL_REVOKE_LEAST_SELECTED };
enum kvl_give_order { KVL_GIVE_NEWEST_MISSING, KVL_GIVE_CLOSEST_COMPLETE, KVL_GIVE_MOST_SELECTED };

struct kvl_resid_config {
  enum kvl_mode mode;
  uint32_t frames;                /* HBM for KV of this GPU, in frames */
  uint32_t requests_max;          /* batch slots */
  uint32_t pages_max;             /* pages of the longest request; adaptive mode only */
  uint32_t tokens_per_page;
  uint32_t give_back_pages_max;   /* I6: a gap */
  enum kvl_revoke_order revoke_order;
  enum kvl_give_order give_order;
};

/* What one request needs. Fixed frames: index keys through the maximum output, window, maps, hot cache, tail, scratch, bank; in resident mode also
 * the history through the maximum output. */
struct kvl_demand {
  uint32_t fixed_frames;
  uint32_t input_tokens;    /* history that is complete on the host when the transfer ends */
  uint32_t max_tokens;      /* input + maximum output */
};

enum kvl_move_kind {
  KVL_MOVE_REVOKE,   /* unmap page from frame; bytes stay on the host */
  KVL_MOVE_POPULATE, /* copy page host -> frame, at admission */
  KVL_MOVE_GIVE,     /* copy page host -> frame, give-back */
  KVL_MOVE_KEEP      /* copy a page just completed from the tail into frame (no host link) */
};

struct kvl_move {
  enum kvl_move_kind kind;
  kvl_request request;
  kvl_page page;
  kvl_frame frame;
};

/* Filled by the calls below; the caller provides the array and clears `count`. A call whose moves do not fit returns -ENOBUFS before changing
 * anything (KVL_PLAN_MOVES(config) is always enough for one gap). */
struct kvl_plan {
  struct kvl_move *moves;
  uint32_t count, capacity;
};

struct kvl_resid; /* opaque; memory from the caller */

/* Bytes for the state, 0 when the configuration is impossible (tokens_per_page 0, or a count above INT32_MAX). Memory is touched as
 * requests use it: an idle batch slot costs address space only. */
size_t kvl_resid_bytes(const struct kvl_resid_config *config);
struct kvl_resid *kvl_resid_init(void *memory, const struct kvl_resid_config *config); /* memory aligned to 64 bytes */

/* Admission (I4, I5). Reserves the fixed frames of `demand` for the lowest free batch slot, revoking borrowed pages if need be: need = fixed
 * frames + growth_frames - free - already retiring, and nothing when even all loans would not make room. Nothing is half taken.
 * 0 and *request; -EAGAIN: not now (revocations may have been planned; try again at the next gap, and until then let give-back keep what
 * this admission waits for, or the same pages travel twice); -E2BIG: not even in an empty pool, or more than pages_max pages;
 * -EUSERS: no batch slot is free; -EINVAL: input_tokens > max_tokens. */
int kvl_resid_admit(struct kvl_resid *resid, const struct kvl_demand *demand, uint32_t growth_frames, struct kvl_plan *plan, kvl_request *request);

/* The request's history is complete on the host (I2): its whole pages may be lent. Lends as many as free frames allow beyond `keep_free`,
 * newest first (M8), as KVL_MOVE_POPULATE. Each lent frame is "arriving": it counts as lent, is in the page map only after copy_done. */
int kvl_resid_populate(struct kvl_resid *resid, kvl_request request, uint32_t keep_free, struct kvl_plan *plan);

/* Give-back (I6) of free frames beyond `keep_free`, at most give_back_pages_max: one page to each request in turn, lowest id first, newest missing
 * page first (or the configured order). Only requests whose population is over (all its copies done) take part. O(1) when there is nothing to do. */
int kvl_resid_give_back(struct kvl_resid *resid, uint32_t keep_free, struct kvl_plan *plan);

/* Frees room for growth (I5): revokes until free + retiring >= frames, or nothing is left to revoke. */
int kvl_resid_make_room(struct kvl_resid *resid, uint32_t frames, struct kvl_plan *plan);

/* Tokens [0, tokens) of the request are committed and their host copies complete; at most its max_tokens. Pages completed by this are lent, newest
 * first, while a frame is free (KVL_MOVE_KEEP; adaptive mode), else they live on the host only. Before kvl_resid_populate nothing is lent. */
int kvl_resid_host_complete(struct kvl_resid *resid, kvl_request request, uint32_t tokens, struct kvl_plan *plan);

/* The copy of a POPULATE, GIVE or KEEP move is complete: the page enters the page map (or, when it was revoked meanwhile, its frame is released). */
void kvl_resid_copy_done(struct kvl_resid *resid, const struct kvl_move *move);

/* Readers (I3). A frame revoked while step s is the last begun becomes free when step s is done. Steps are numbered from 1 and complete in order. */
void kvl_resid_step_begun(struct kvl_resid *resid, uint64_t step);
void kvl_resid_step_done(struct kvl_resid *resid, uint64_t step);

/* The request ends, is aborted or pre-empted, in any state (I8): everything it owns is released exactly once; frames with a copy in flight or a
 * reader retire first. The id is free for reuse at once. A transfer into the reserved frames (index keys) is not known here: end after it. */
void kvl_resid_end(struct kvl_resid *resid, kvl_request request);

/* Access counts for the *_SELECTED orders: page first + i was selected lanes[i] more times, for `count` pages (those past the history count for nothing); the
 * array is zero afterwards. No effect on the other orders. */
void kvl_resid_note_selected(struct kvl_resid *resid, kvl_request request, kvl_page first, uint32_t *lanes, uint32_t count);

/* The page map of a request: frame or -1 by page, `*pages` entries; valid until the request ends. *whole: every whole page complete on the host
 * is mapped. The other modes have no map (NULL, 0 pages): resident, all history is in the reserved frames (kvl_resid_reserved) and *whole is 1; fixed,
 * *whole is 1 only before the first page is complete. */
const kvl_frame *kvl_resid_page_map(const struct kvl_resid *resid, kvl_request request, uint32_t *pages, int *whole);
/* For who keeps a copy of a map, which has thousands of entries: its version, which rises with every change whoever has the slot, and by stretches of
 * KVL_MAP_STRETCH pages of those in the map the version of the last change. A copy of version v is still good where that is at most v; to a new request's map
 * everything is new (v = 0). Valid as long as the map; NULL where there is none. */
const uint64_t *kvl_resid_page_map_changes(const struct kvl_resid *resid, kvl_request request, uint64_t *version);

/* The `count` lowest of a live request's reserved frames, ascending (at most its fixed_frames): the same from admission to end, and no other request's
 * meanwhile. In resident mode page p of the history, the output's pages and an open page too, lies in the p-th of them, so nothing has to be kept: the map
 * is made from the reservation, once, by who needs it. */
void kvl_resid_reserved(const struct kvl_resid *resid, kvl_request request, kvl_frame *frames, uint32_t count);

struct kvl_resid_usage {
  uint32_t frames, free, reserved, lent, retiring; /* free + reserved + lent + retiring == frames */
  uint32_t requests;
  uint64_t pages_lent, pages_revoked, pages_given_back; /* totals since init; pages_lent counts every lend, population included */
};
void kvl_resid_usage(const struct kvl_resid *resid, struct kvl_resid_usage *usage);
uint32_t kvl_resid_held(const struct kvl_resid *resid, kvl_request request); /* pages held now, arriving included */

/* What kvl_resid_verify found; it returns the number negated. */
enum kvl_resid_fault {
  KVL_FAULT_SUM = 1,     /* I1: the states do not add up to the pool */
  KVL_FAULT_FREE_SET,    /* I1: the free set contradicts its count or its own summary */
  KVL_FAULT_TWO_OWNERS,  /* I1: a frame belongs to two */
  KVL_FAULT_CHAIN,       /* I1: a list of frames leads to one that is not on it */
  KVL_FAULT_EARLY_LOAN,  /* I2: a page is lent that is not complete on the host */
  KVL_FAULT_HOST_TOKENS, /* I2, I10: the whole pages are not those of the tokens on the host, or there are more than was admitted */
  KVL_FAULT_RETIRING,    /* I3: a frame retires for a step that is done or has not begun, or for a copy that is done */
  KVL_FAULT_RESERVED,    /* I4: a request's reserved frames are not what its admission counted */
  KVL_FAULT_LOAN,        /* page and frame disagree about the loan */
  KVL_FAULT_MAP,         /* the map shows a page whose bytes are not there, or hides one */
  KVL_FAULT_PAGE_SETS,   /* held and missing are not the complete pages in two parts */
  KVL_FAULT_COUNTS,      /* a request's counters contradict its pages */
  KVL_FAULT_GIVE_BACK,   /* I6, I9: a request would be forgotten by give-back or revocation */
  KVL_FAULT_ENDED,       /* I8: an ended request owns something */
  KVL_FAULT_SLOTS,       /* the batch slots in use are not counted right */
  KVL_FAULT_MODE,        /* a page is lent in a mode without loans */
  KVL_FAULT_RANK         /* a cached choice by access count is out of date */
};

/* O(n) check of all invariants; 0, or a negated enum kvl_resid_fault (text in kvl_resid_verify_text, for either sign). */
int kvl_resid_verify(const struct kvl_resid *resid);
const char *kvl_resid_verify_text(int code);

#define KVL_PLAN_MOVES(config) ((config)->frames + (config)->give_back_pages_max)

#endif
