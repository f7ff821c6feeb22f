/* The frames of one GPU: which are free, and the lists of those that are reserved or retiring. Lowest free frame first, always.
 *
 * A frame is free, reserved (in some request's chain), lent (to one page) or retiring (given up while a step or a copy may still touch it).
 * Reserved and retiring frames are kept as chains of chunks: a chunk is a set of frames of one 64-bit word of the free bitmap, recorded in the
 * node of its lowest frame. An admission that reserves 10,000 neighbouring frames so costs 160 chunk operations. */
#ifndef KVL_BACKEND_FRAME_POOL_H
#define KVL_BACKEND_FRAME_POOL_H

#include "backend/base/checked.h"
#include "backend/base/ids.h"
#include "backend/bitset.h"

#define KVL_CHAIN_END UINT32_MAX

enum kvl_node_state {
  KVL_NODE_IDLE,      /* free, or not the lowest frame of its chunk */
  KVL_NODE_RESERVED,  /* head of a chunk in a request's chain */
  KVL_NODE_LENT,      /* request and page say to whom */
  KVL_NODE_RETIRING,  /* head of a chunk that waits for a step */
  KVL_NODE_DRAINING   /* waits for its copy only */
};

struct kvl_frame_node {
  uint32_t next;      /* next chunk of the chain, as its lowest frame */
  uint8_t state;      /* enum kvl_node_state */
  bool copying;       /* a copy into this frame is in flight */
  bool populating;    /* that copy belongs to an admission */
  union {
    uint64_t mask;    /* of a chunk: its frames within the word */
    struct {
      uint32_t request;
      kvl_page page;
    } loan;
  } of;
};

/* Frames given up while `step` was the last begun: free once it is done. */
struct kvl_retiring_batch {
  uint64_t step;
  uint32_t head;
};
enum { KVL_BATCHES_MAX = 64 };

struct kvl_frame_pool {
  struct kvl_bitset free;
  struct kvl_frame_node *node;
  uint32_t nodes; /* set up so far: the lowest free frame is taken first, so no frame from here on was ever taken, and its memory is not touched */
  uint32_t frames, free_count, reserved_count, lent_count, retiring_count, draining_count; /* draining is part of retiring */
  uint64_t step_begun, step_done;
  struct kvl_retiring_batch batch[KVL_BATCHES_MAX]; /* a ring, oldest first */
  uint32_t batch_first, batch_count;
};

void kvl_pool_layout(struct kvl_frame_pool *pool, struct kvl_carve *carve, uint32_t frames);

/* Takes `count` free frames (there must be as many) and returns the head of their chain. */
uint32_t kvl_pool_reserve(struct kvl_frame_pool *pool, uint32_t count);
void kvl_pool_release_chain(struct kvl_frame_pool *pool, uint32_t head, uint32_t count);

/* The lowest `count` frames of a chain that has `all`, ascending. */
void kvl_pool_chain_frames(const struct kvl_frame_pool *pool, uint32_t head, uint32_t all, kvl_frame *frames, uint32_t count);

/* Lends the lowest free frame (there must be one); its copy is in flight until kvl_pool_copy_done. */
kvl_frame kvl_pool_lend(struct kvl_frame_pool *pool, uint32_t request, kvl_page page, bool populating);
void kvl_pool_release_lent(struct kvl_frame_pool *pool, kvl_frame frame);

/* True: the frame is still lent, to the page it was. False: it was given up meanwhile, and is free now unless a step still reads it. */
bool kvl_pool_copy_done(struct kvl_frame_pool *pool, kvl_frame frame);

/* `step` grows from call to call; a step counts as done with all before it. With more than KVL_BATCHES_MAX steps in flight, frames
 * may stay retiring for longer than they must, never for shorter. */
void kvl_pool_step_begun(struct kvl_frame_pool *pool, uint64_t step);
void kvl_pool_step_done(struct kvl_frame_pool *pool, uint64_t step);

static inline uint32_t kvl_chunk_frames(uint64_t mask)
{
  return (uint32_t)__builtin_popcountll(mask);
}

#endif
