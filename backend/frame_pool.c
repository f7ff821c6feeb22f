#include "backend/frame_pool.h"

#include <assert.h>
#include <string.h>

void kvl_pool_layout(struct kvl_frame_pool *pool, struct kvl_carve *carve, uint32_t frames)
{
  if (pool != NULL) {
    memset(pool, 0, sizeof *pool);
  }
  kvl_bitset_layout(pool == NULL ? NULL : &pool->free, carve, frames);
  struct kvl_frame_node *node = kvl_carve(carve, frames, sizeof *node);
  if (node == NULL) {
    return;
  }
  kvl_bitset_add_range(&pool->free, 0, frames);
  pool->node = node;
  pool->frames = frames;
  pool->free_count = frames;
}

/* A frame of this word is taken: the node of its lead, or its own, is one. */
static void set_up_nodes(struct kvl_frame_pool *pool, uint32_t word)
{
  uint32_t end = kvl_min_u32(pool->frames, word * 64 + 64);
  if (end > pool->nodes) {
    memset(&pool->node[pool->nodes], 0, (end - pool->nodes) * sizeof *pool->node);
    pool->nodes = end;
  }
}

uint32_t kvl_pool_reserve(struct kvl_frame_pool *pool, uint32_t count)
{
  assert(count <= pool->free_count);
  pool->free_count -= count;
  pool->reserved_count += count;
  uint32_t head = KVL_CHAIN_END;
  while (count > 0) {
    uint64_t mask;
    uint32_t word = kvl_bitset_take_word(&pool->free, count, &mask);
    uint32_t lead = word * 64 + (uint32_t)__builtin_ctzll(mask);
    set_up_nodes(pool, word);
    struct kvl_frame_node *node = &pool->node[lead];
    assert(node->state == KVL_NODE_IDLE);
    node->state = KVL_NODE_RESERVED;
    node->of.mask = mask;
    node->next = head;
    head = lead;
    count -= kvl_chunk_frames(mask);
  }
  return head;
}

/* Words are taken lowest first and put in front, so a chain descends. */
void kvl_pool_chain_frames(const struct kvl_frame_pool *pool, uint32_t head, uint32_t all, kvl_frame *frames, uint32_t count)
{
  assert(count <= all);
  for (uint32_t lead = head, above = all; lead != KVL_CHAIN_END; lead = pool->node[lead].next) {
    uint64_t mask = pool->node[lead].of.mask;
    above -= kvl_chunk_frames(mask);
    for (uint32_t at = above; mask != 0 && at < count; at++, mask &= mask - 1) {
      frames[at] = (kvl_frame)(lead / 64 * 64 + (uint32_t)__builtin_ctzll(mask));
    }
  }
}

/* The batch of the last step begun. A full ring grows its newest batch instead: its frames wait for the later step, too. */
static struct kvl_retiring_batch *newest_batch(struct kvl_frame_pool *pool)
{
  struct kvl_retiring_batch *newest = &pool->batch[(pool->batch_first + pool->batch_count - 1) % KVL_BATCHES_MAX];
  if (pool->batch_count == 0 || (newest->step != pool->step_begun && pool->batch_count < KVL_BATCHES_MAX)) {
    newest = &pool->batch[(pool->batch_first + pool->batch_count++) % KVL_BATCHES_MAX];
    newest->head = KVL_CHAIN_END;
  }
  newest->step = pool->step_begun;
  return newest;
}

static void retire(struct kvl_frame_pool *pool, uint32_t lead)
{
  struct kvl_retiring_batch *batch = newest_batch(pool);
  pool->node[lead].state = KVL_NODE_RETIRING;
  pool->node[lead].next = batch->head;
  batch->head = lead;
}

static void free_chunk(struct kvl_frame_pool *pool, uint32_t lead, uint64_t mask)
{
  pool->node[lead].state = KVL_NODE_IDLE;
  pool->free_count += kvl_chunk_frames(mask);
  kvl_bitset_give_word(&pool->free, lead / 64, mask);
}

void kvl_pool_release_chain(struct kvl_frame_pool *pool, uint32_t head, uint32_t count)
{
  bool readers = pool->step_done < pool->step_begun;
  assert(count <= pool->reserved_count);
  pool->reserved_count -= count;
  pool->retiring_count += readers ? count : 0;
  while (head != KVL_CHAIN_END) {
    struct kvl_frame_node *node = &pool->node[head];
    uint32_t next = node->next;
    assert(node->state == KVL_NODE_RESERVED);
    if (readers) {
      retire(pool, head);
    } else {
      free_chunk(pool, head, node->of.mask);
    }
    head = next;
  }
}

kvl_frame kvl_pool_lend(struct kvl_frame_pool *pool, uint32_t request, kvl_page page, bool populating)
{
  uint32_t frame = kvl_bitset_first(&pool->free);
  assert(frame != KVL_BITSET_NONE);
  kvl_bitset_remove(&pool->free, frame);
  set_up_nodes(pool, frame / 64);
  struct kvl_frame_node *node = &pool->node[frame];
  assert(node->state == KVL_NODE_IDLE && !node->copying);
  node->state = KVL_NODE_LENT;
  node->copying = true;
  node->populating = populating;
  node->of.loan.request = request;
  node->of.loan.page = page;
  pool->free_count--;
  pool->lent_count++;
  return (kvl_frame)frame;
}

static void drain(struct kvl_frame_pool *pool, struct kvl_frame_node *node)
{
  node->state = KVL_NODE_DRAINING;
  pool->draining_count++;
}

void kvl_pool_release_lent(struct kvl_frame_pool *pool, kvl_frame frame)
{
  uint32_t lead = (uint32_t)frame;
  struct kvl_frame_node *node = &pool->node[lead];
  assert(node->state == KVL_NODE_LENT);
  node->populating = false;
  node->of.mask = (uint64_t)1 << (lead % 64);
  pool->lent_count--;
  if (pool->step_done < pool->step_begun) {
    pool->retiring_count++;
    retire(pool, lead);
  } else if (node->copying) {
    pool->retiring_count++;
    drain(pool, node);
  } else {
    free_chunk(pool, lead, node->of.mask);
  }
}

bool kvl_pool_copy_done(struct kvl_frame_pool *pool, kvl_frame frame)
{
  struct kvl_frame_node *node = &pool->node[frame];
  assert(node->copying);
  node->copying = false;
  node->populating = false;
  if (node->state == KVL_NODE_DRAINING) {
    pool->draining_count--;
    pool->retiring_count--;
    free_chunk(pool, (uint32_t)frame, node->of.mask);
  }
  return node->state == KVL_NODE_LENT;
}

void kvl_pool_step_begun(struct kvl_frame_pool *pool, uint64_t step)
{
  assert(step > pool->step_begun);
  pool->step_begun = step;
}

void kvl_pool_step_done(struct kvl_frame_pool *pool, uint64_t step)
{
  assert(step > pool->step_done && step <= pool->step_begun);
  pool->step_done = step;
  while (pool->batch_count > 0 && pool->batch[pool->batch_first].step <= step) {
    uint32_t lead = pool->batch[pool->batch_first].head;
    pool->batch_first = (pool->batch_first + 1) % KVL_BATCHES_MAX;
    pool->batch_count--;
    while (lead != KVL_CHAIN_END) {
      struct kvl_frame_node *node = &pool->node[lead];
      uint32_t next = node->next;
      if (node->copying) {
        drain(pool, node);
      } else {
        pool->retiring_count -= kvl_chunk_frames(node->of.mask);
        free_chunk(pool, lead, node->of.mask);
      }
      lead = next;
    }
  }
}
