/* Inside traces/trace_*.c: steps to bytes and back. The bytes of a chunk, unpacked, are its steps one after the other; a step is
 *
 *   varint   tokens, less those of the step before in this chunk (first step: tokens itself)
 *   varint   queries
 *   varint   flags: 1 boundaries follow, 2 pools follow
 *   varints  boundary - tokens of each query (flag 1)
 *   lists    of each point, each query; then of each pool, each query (flag 2)
 *
 * and a list is a varint count << 2 | form, then
 *
 *   form 0   any order: each item as a zigzag varint of its difference from the one before (from 0 at first)
 *   form 1   ascending: the first item, then each gap less 1, as varints
 *   form 2   ascending, told from a reference list (ascending too): a bitmap of which items of the reference stay (bit i of byte i / 8), then those
 *            that are new, as in form 1
 *
 * The reference of query q > 0 is the list of query q - 1 of the same step and point; of query 0, that of query 0 of the step before in this chunk.
 * varint: 7 bits a byte, least significant first, high bit set in all but the last; at most 5 bytes. */
#ifndef KVL_TRACES_TRACE_CODEC_H
#define KVL_TRACES_TRACE_CODEC_H

#include "traces/trace_format.h"

/* ---- writing ---- */

struct kvl_trace_encoder {
  const struct kvl_trace_meta *meta;
  uint8_t *bytes;
  size_t count, capacity;
  uint32_t steps, items;
  uint32_t last_tokens;
  int32_t **previous;       /* per point and pool: list of query 0 in the step before */
  uint32_t *previous_count; /* UINT32_MAX: none, or not ascending */
  int32_t *scratch;         /* KVL_TRACE_K_MAX at most: as large as the largest list so far */
  size_t scratch_capacity;
};

int kvl_trace_encoder_init(struct kvl_trace_encoder *encoder, const struct kvl_trace_meta *meta);
void kvl_trace_encoder_deinit(struct kvl_trace_encoder *encoder);
void kvl_trace_encoder_reset(struct kvl_trace_encoder *encoder); /* begins a chunk */
/* Appends a step. -EINVAL and *reason in words, -EFBIG, -ENOMEM; the encoder is then only good for deinit. */
int kvl_trace_encoder_add(struct kvl_trace_encoder *encoder, const struct kvl_trace_step *step, char reason[256]);

/* ---- reading ---- */

struct kvl_trace_chunk {
  uint32_t session, first_step, steps;
  uint32_t points, pools;
  struct kvl_trace_chunk_step {
    uint32_t tokens, queries;
    uint32_t boundary; /* index of the first of its queries' boundaries */
    uint32_t list;     /* index of its first list */
    bool has_boundary, has_pools;
  } *step;
  uint32_t *boundary, boundaries;
  uint32_t *start, lists; /* items of list i: item[start[i]] .. item[start[i + 1] - 1] */
  int32_t *item;
  uint32_t items;
};

/* Decodes `count` bytes into a chunk of `steps` steps with `items` items. -EINVAL with *reason and the byte where it was noticed, -ENOMEM. */
int kvl_trace_decode(struct kvl_trace_chunk **chunk, const struct kvl_trace_meta *meta, uint32_t steps, uint32_t items, const uint8_t *bytes,
                     size_t count, size_t *at, const char **reason);
void kvl_trace_chunk_free(struct kvl_trace_chunk *chunk);
uint64_t kvl_trace_chunk_bytes(const struct kvl_trace_chunk *chunk); /* memory held */

static inline uint32_t kvl_trace_chunk_list(const struct kvl_trace_chunk *chunk, uint32_t list, const int32_t **item)
{
  *item = chunk->item + chunk->start[list];
  return chunk->start[list + 1] - chunk->start[list];
}

#endif
