/* Workloads: who asks for what, when. One streaming reader interface over the real formats; memory does not grow with the file. */
#ifndef KVL_TRACES_WORKLOAD_H
#define KVL_TRACES_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "backend/base/err.h"

/* How the next request of a chain is timed. */
enum kvl_arrival {
  KVL_ARRIVAL_AT,   /* at time_ns after the workload's (or, for agent files, the session's) start */
  KVL_ARRIVAL_AFTER /* time_ns after the previous request of the same chain completed (think time; where an agent file does not know it: the time
                     * between the two starts less the recorded service time) */
};

/* One request. Output may be 0 tokens, input may not. `block` lists ids of the prompt's prefix blocks (equal id = same content and same prefix), the last one may be partial; it points into
 * the reader and is valid until the next call. */
struct kvl_request_spec {
  uint64_t session;       /* sessions are admitted by the closed loop; 0, 1, 2, ... */
  uint32_t chain;         /* requests of one (session, chain) follow one another; chains of a session run side by side */
  enum kvl_arrival arrival;
  uint64_t time_ns;
  uint32_t input_tokens, output_tokens;
  uint32_t block_tokens;  /* tokens a block; 0: no block list */
  uint32_t block_count;
  const uint64_t *block;
};

struct kvl_workload_file;

/* `format`: "mooncake" (JSON lines; timestamp ms, input_length, output_length, hash_ids of 512 tokens) or "agent" (CSV: trace,agent,t_s,type,in_tok,
 * out_tok,blocks64,lcp_prev_blocks,seen_prefix_blocks,api_s,think_s,out_types), or "auto" (by content). Opening checks the first record (agent: the
 * first session). -ENOENT and the like as the system says, -EISDIR, -EINVAL (unknown format, not such a file, a bad record), -ENOMEM, -ESPIPE. */
int kvl_workload_open(struct kvl_workload_file **file, const char *path, const char *format, struct kvl_err *err);
void kvl_workload_close(struct kvl_workload_file *file); /* NULL is fine */

/* The format whose files begin like these bytes, "mooncake" or "agent"; NULL: none. Stricter than opening: a JSON object alone makes no workload. */
const char *kvl_workload_format_of(const char *text, size_t size);

/* 1 and *spec; 0 at the end; negative errno and a line naming file, line number and reason (times going backwards, a field that is missing or
 * negative or absurd, a truncated last line). After an error the only legal calls are rewind and close.
 *
 * Mooncake: each request is a session of its own, chain 0; time_ns is its timestamp. Unknown keys are stepped over; hash_ids may be shorter than the
 * prompt, not longer.
 * Agent: sessions come one after the other, the requests of a session in order of t_s (ties: of the file), whatever agent they belong to: in the file
 * the requests of a sub-agent often stand together. The first request of a chain is KVL_ARRIVAL_AT, relative to its session's start, the others
 * KVL_ARRIVAL_AFTER. The blocks (whole ones only) carry made-up ids: the leading lcp_prev_blocks are those of the agent's previous request, the
 * leading seen_prefix_blocks those of a request that stands earlier in the session, the others new; no id occurs in two sessions. A session is held in
 * memory, some 64 bytes a request. */
int kvl_workload_next(struct kvl_workload_file *file, struct kvl_request_spec *spec, struct kvl_err *err);

/* Back to the first request. */
int kvl_workload_rewind(struct kvl_workload_file *file, struct kvl_err *err);

/* Largest input + output over the whole file, number of requests and sessions: one pass, then rewinds. */
struct kvl_workload_extent {
  uint64_t requests, sessions;
  uint32_t tokens_max;
  uint64_t input_tokens, output_tokens;
};
int kvl_workload_extent(struct kvl_workload_file *file, struct kvl_workload_extent *extent, struct kvl_err *err);

/* Host-side prefix store: LRU over blocks of a given capacity. Looks up the leading blocks of a prompt, then inserts them all (evicting the least
 * recently used). Within a prompt the first block counts as the most recently used, so prefixes are worn down from their ends; of a prompt longer than
 * the store the leading blocks_max blocks are kept. Memory grows with the blocks held, 24 bytes each (the arrays double), never with the number of
 * requests. Deterministic. */
#define KVL_PREFIX_BLOCKS_MAX UINT64_C(1073741824)
struct kvl_prefix_store;
struct kvl_prefix_store *kvl_prefix_store_create(uint64_t blocks_max); /* NULL: no memory, or more than KVL_PREFIX_BLOCKS_MAX. 0 blocks: legal */
void kvl_prefix_store_destroy(struct kvl_prefix_store *store);         /* NULL is fine */
/* Returns how many leading blocks were present. Blocks before the last are whole: the cached tokens are min(blocks x block_tokens, input_tokens). */
uint32_t kvl_prefix_store_use(struct kvl_prefix_store *store, const uint64_t *block, uint32_t block_count);
uint64_t kvl_prefix_store_blocks(const struct kvl_prefix_store *store);
/* 0, or -ENOMEM when the store could not grow as far as it was allowed to: hit rates since then are those of a smaller store. To be checked after a run. */
int kvl_prefix_store_status(const struct kvl_prefix_store *store);

#endif
