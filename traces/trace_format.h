/* Inside traces/trace_*.c: the bytes of a trace file. All integers are little-endian, whatever the machine. docs/trace-format.md says the same in words. */
#ifndef KVL_TRACES_TRACE_FORMAT_H
#define KVL_TRACES_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traces/trace.h"

#define KVL_TRACE_MAGIC "KVLTRACE"
#define KVL_TRACE_END_MAGIC "KVLTREND"
#define KVL_TRACE_CHUNK_MAGIC UINT32_C(0x4b48434b) /* "KCHK" */
#define KVL_TRACE_INDEX_MAGIC UINT32_C(0x5844494b) /* "KIDX" */

enum {
  KVL_TRACE_PREFIX_BYTES = 16,  /* magic, version, body bytes */
  KVL_TRACE_BODY_MAX = 1 << 16,
  KVL_TRACE_CHUNK_HEAD = 28,    /* magic, session, first step, steps, items, raw bytes, packed bytes */
  KVL_TRACE_INDEX_HEAD = 12,    /* magic, sessions, chunks */
  KVL_TRACE_SESSION_BYTES = 28, /* input tokens, steps, most queries, first chunk, chunks, items (8) */
  KVL_TRACE_ENTRY_BYTES = 32,   /* offset (8), session, first step, steps, items, raw bytes, packed bytes */
  KVL_TRACE_FOOTER_BYTES = 40,  /* index offset (8), index bytes (8), version, 0, XXH64 of these, end magic */
  KVL_TRACE_SUM_BYTES = 8,
  /* A writer ends a chunk once it has this many items or steps: about 1 MiB unpacked. */
  KVL_TRACE_CHUNK_ITEMS = 1 << 18,
  KVL_TRACE_CHUNK_STEPS = 256,
  /* A reader takes chunks up to this size. */
  KVL_TRACE_CHUNK_ITEMS_MAX = KVL_TRACE_CHUNK_ITEMS + KVL_TRACE_STEP_ITEMS_MAX,
  KVL_TRACE_CHUNK_RAW_MAX = 1 << 28,
};

struct kvl_trace_entry {
  uint64_t offset;
  uint32_t session, first_step, steps, items, raw_bytes, packed_bytes;
};

static inline void kvl_put16(uint8_t *p, uint32_t x)
{
  p[0] = (uint8_t)x;
  p[1] = (uint8_t)(x >> 8);
}

static inline void kvl_put32(uint8_t *p, uint32_t x)
{
  kvl_put16(p, x);
  kvl_put16(p + 2, x >> 16);
}

static inline void kvl_put64(uint8_t *p, uint64_t x)
{
  kvl_put32(p, (uint32_t)x);
  kvl_put32(p + 4, (uint32_t)(x >> 32));
}

static inline uint32_t kvl_get16(const uint8_t *p)
{
  return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t kvl_get32(const uint8_t *p)
{
  return kvl_get16(p) | kvl_get16(p + 2) << 16;
}

static inline uint64_t kvl_get64(const uint8_t *p)
{
  return kvl_get32(p) | (uint64_t)kvl_get32(p + 4) << 32;
}

uint64_t kvl_trace_sum(const void *bytes, size_t count); /* XXH64, seed 0 */

/* The header as bytes (prefix, body, checksum); returns how many, at most KVL_TRACE_PREFIX_BYTES + KVL_TRACE_BODY_MAX + KVL_TRACE_SUM_BYTES. */
size_t kvl_trace_header_write(uint8_t *bytes, const struct kvl_trace_meta *meta);
/* Reads the body. NULL, or what is wrong with it. */
const char *kvl_trace_header_read(const uint8_t *body, size_t count, struct kvl_trace_meta *meta);
/* NULL, or which rule the shape, the pools or the texts break. Used on both sides. */
const char *kvl_trace_meta_wrong(const struct kvl_trace_meta *meta);

/* A chunk is KVL_TRACE_CHUNK_HEAD bytes, the packed bytes, a checksum of both. This writes the first and the last around the second. */
void kvl_trace_chunk_seal(uint8_t *bytes, const struct kvl_trace_entry *entry);
/* NULL, or what is wrong with a chunk that the index describes as `entry`. */
const char *kvl_trace_chunk_wrong(const uint8_t *bytes, const struct kvl_trace_entry *entry);

struct kvl_trace_chunk;
uint32_t kvl_trace_chunk_of(const struct kvl_trace *trace, uint32_t session, uint32_t step); /* the chunk that holds a step; both must exist */
/* Reads, checks and unpacks a chunk into *chunk (to be freed by kvl_trace_chunk_free). Thread-safe: touches nothing in `trace`. */
int kvl_trace_chunk_load(const struct kvl_trace *trace, uint32_t index, struct kvl_trace_chunk **chunk, struct kvl_err *err);

/* Of a source opened by kvl_source_open_trace: the room for unpacked chunks, and what is used of it. For tests: the room changes no result. */
void kvl_trace_source_cache(struct kvl_selection_source *source, uint64_t bytes_max);
uint64_t kvl_trace_source_cached(struct kvl_selection_source *source);

#endif
