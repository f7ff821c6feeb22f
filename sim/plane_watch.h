/* A plane around a plane that watches how long things take: what validation compares between planes. It changes nothing. */
#ifndef KVL_SIM_PLANE_WATCH_H
#define KVL_SIM_PLANE_WATCH_H

#include "backend/base/hist.h"
#include "backend/plane.h"

/* Durations. Those of steps are of steps with a batch, as the plane accounts for them; copies are from submission to completion. */
enum kvl_watch_kind {
  KVL_WATCH_STEP,
  KVL_WATCH_COMPUTE,
  KVL_WATCH_BOOKKEEPING,
  KVL_WATCH_RESOLVE,       /* steps that selected */
  KVL_WATCH_FETCH,         /* steps that fetched */
  KVL_WATCH_LINK_WAIT,     /* the same steps */
  KVL_WATCH_LOOK_UP,       /* steps that selected: resolve, fetch and waiting for the link together (one fused launch does all of it) */
  KVL_WATCH_PREFETCH_WAIT, /* steps that prefetched */
  KVL_WATCH_ADMISSION,     /* steps that requests joined with */
  KVL_WATCH_POPULATION,    /* steps that waited for page copies */
  KVL_WATCH_REVOCATION,    /* steps before which pages were unmapped */
  KVL_WATCH_GIVE_BACK,     /* copies of pages given back */
  KVL_WATCH_SIDE_POPULATION, /* population copies beside the steps */
  KVL_WATCH_WRITE_BACK,    /* copies of tail rows */
  KVL_WATCH_KINDS
};
const char *kvl_watch_name(enum kvl_watch_kind kind); /* a key: "step", "look_up", ... */

struct kvl_watch {
  struct kvl_hist ns[KVL_WATCH_KINDS];
  uint64_t bytes[KVL_WATCH_KINDS];  /* moved in that time: fetch, population, give-back, write-back; else 0 */
  uint64_t pages[KVL_WATCH_KINDS];  /* of population, revocation, give-back */
  struct kvl_hist batch;
};

/* 3 MB. NULL: no memory. */
struct kvl_watch *kvl_watch_create(void);
void kvl_watch_destroy(struct kvl_watch *watch); /* NULL is fine */

/* Takes `inner` over when it succeeds; `watch` must outlive it. -ENOMEM. */
int kvl_plane_watch_create(struct kvl_plane **plane, struct kvl_plane *inner, struct kvl_watch *watch, uint32_t gpus, uint64_t page_bytes,
                           struct kvl_err *err);

#endif
