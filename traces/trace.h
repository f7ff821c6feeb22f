/* Selection traces: which rows the indexer picked, recorded. docs/trace-format.md describes the bytes.
 *
 * A trace is a library of sessions. A session is a row of decode steps; a step holds, for each of its queries, the rows selected at every selection
 * point of the model and, where the model announces them, the candidate pools. Steps are stored in chunks (some steps of one session), each compressed
 * (zstd) and checksummed (XXH64); an index at the end makes every (session, step) reachable. Nothing in a file depends on the machine or the time of
 * writing: the same steps give the same bytes (with the same zstd release; the digest does not depend on that either).
 *
 * Order: the rows of a query come back in the order in which they were given. Ascending lists cost a third of others, so a recorder whose indexer has
 * no meaningful order should sort. Rows of a query are distinct; lanes that select nothing (-1) are left out.
 *
 * Limits, all checked on both sides: below. Errors: negative errno and one line naming file, chunk, byte and reason.
 *   -EINVAL   not a trace, a malformed or impossible one, a newer version; a step that breaks the rules below
 *   -EBADMSG  a checksum differs
 *   -ENODATA  cut off, or never completed
 *   -EFBIG    a limit
 *   -ENOMEM, -EIO, -ENOSPC, -ENOENT, ... as the system says */
#ifndef KVL_TRACES_TRACE_H
#define KVL_TRACES_TRACE_H

#include <stdint.h>

#include "backend/base/err.h"
#include "traces/selection.h"

enum {
  KVL_TRACE_VERSION = 1,
  KVL_TRACE_MODEL_MAX = 95,              /* bytes of text */
  KVL_TRACE_ORIGIN_MAX = 4095,
  KVL_TRACE_POOLS_MAX = 16,
  KVL_TRACE_QUERIES_MAX = 64,            /* a step */
  KVL_TRACE_K_MAX = 1 << 20,             /* rows a query and point; blocks a query and pool */
  KVL_TRACE_STEP_ITEMS_MAX = 1 << 24,    /* rows and blocks a step */
  KVL_TRACE_SESSIONS_MAX = 1 << 20,
  KVL_TRACE_STEPS_MAX = 1 << 24,         /* a session */
  KVL_TRACE_CHUNKS_MAX = 1 << 24,
  KVL_TRACE_TOKENS_MAX = INT32_MAX - 64, /* a session */
};

struct kvl_trace_meta {
  struct kvl_selection_shape shape;
  uint32_t pools; /* candidate pools a query announces; 0: none are recorded */
  struct kvl_trace_pool {
    uint16_t cache, layer;   /* announced by this layer, for this cache */
    uint32_t rows_per_block;
    uint32_t blocks_max;     /* a query */
  } pool[KVL_TRACE_POOLS_MAX];
  uint64_t seed;                             /* of the generator; 0 for recordings */
  char model[KVL_TRACE_MODEL_MAX + 1];
  char origin[KVL_TRACE_ORIGIN_MAX + 1];     /* generator and its parameters, or engine, machine and date of a recording; UTF-8 */
};

struct kvl_trace_list {
  const int32_t *item;
  uint32_t count;
};

/* One decode step. Lists of query q at point p stand at [p * queries + q]. */
struct kvl_trace_step {
  uint32_t tokens;                       /* committed before the step; never falls within a session, never below its input */
  uint32_t queries;                      /* 1 ..; more than one: verification of drafts */
  const uint32_t *boundary;              /* per query, tokens it may see (tokens .. tokens + KVL_TRACE_QUERIES_MAX); NULL: `tokens` for each */
  const struct kvl_trace_list *selected; /* at most k rows each, below boundary / tokens_per_row */
  const struct kvl_trace_list *pool;     /* [pool * queries + q], blocks that begin below the boundary; NULL: none announced in this step */
};

/* ---- writing ---- */

/* Begins a trace that will stand at `path` when it is complete and not before: it is written beside it (PATH.partial-PID-N), synced, and renamed by
 * finish(). A `path` that is not a regular file (a pipe, a device) is written directly. Several sessions may be open at once. One thread at a time. */
struct kvl_trace_writer;
int kvl_trace_writer_create(struct kvl_trace_writer **writer, const char *path, const struct kvl_trace_meta *meta, struct kvl_err *err);
int kvl_trace_writer_begin(struct kvl_trace_writer *writer, uint32_t input_tokens, uint32_t *session, struct kvl_err *err);
int kvl_trace_writer_step(struct kvl_trace_writer *writer, uint32_t session, const struct kvl_trace_step *step, struct kvl_err *err);
int kvl_trace_writer_end(struct kvl_trace_writer *writer, uint32_t session, struct kvl_err *err); /* frees what the open session held */
/* Ends open sessions, writes the index, syncs, renames. The writer is gone afterwards, whether it worked or not; if not, so is the file. */
int kvl_trace_writer_finish(struct kvl_trace_writer *writer, struct kvl_err *err);
void kvl_trace_writer_abort(struct kvl_trace_writer *writer); /* NULL is fine; removes the unfinished file */

/* ---- reading ---- */

struct kvl_trace_session {
  uint32_t input_tokens, steps;
  uint32_t queries_max;     /* most queries of a step */
  uint32_t first_chunk, chunks;
  uint64_t items;           /* rows and blocks in all */
};

struct kvl_trace_totals {
  uint32_t sessions, chunks, queries_max;
  uint64_t steps, items, file_bytes, packed_bytes, raw_bytes;
};

/* Opens and checks header, index and footer, and that they cover the file without gaps. Chunks are checked as they are read. */
struct kvl_trace;
int kvl_trace_open(struct kvl_trace **trace, const char *path, struct kvl_err *err);
void kvl_trace_close(struct kvl_trace *trace); /* NULL is fine */
const char *kvl_trace_path(const struct kvl_trace *trace);
const struct kvl_trace_meta *kvl_trace_meta_of(const struct kvl_trace *trace);
const struct kvl_trace_session *kvl_trace_session_of(const struct kvl_trace *trace, uint32_t session);
void kvl_trace_totals_of(const struct kvl_trace *trace, struct kvl_trace_totals *totals);

/* The next step of next() is (session, step). -ERANGE when there is none such. After open: (0, 0). */
int kvl_trace_seek(struct kvl_trace *trace, uint32_t session, uint32_t step, struct kvl_err *err);
/* 1 and a step, sessions one after the other; 0 at the end. What *step points to is valid until the next call. `session` and `index` may be NULL. */
int kvl_trace_next(struct kvl_trace *trace, struct kvl_trace_step *step, uint32_t *session, uint32_t *index, struct kvl_err *err);

/* Reads and checks everything; *digest (may be NULL) is a hash of the contents: shape, seed, texts and every step, not of how they are packed. */
int kvl_trace_check(struct kvl_trace *trace, uint64_t *digest, struct kvl_err *err);
/* Checks the checksums of all chunks, without unpacking them. */
int kvl_trace_check_sums(const struct kvl_trace *trace, struct kvl_err *err);

/* 0, or -EINVAL and the first difference in words: "point 3 selects 512 rows, the model 2048". */
int kvl_trace_same_shape(const struct kvl_selection_shape *trace, const struct kvl_selection_shape *model, struct kvl_err *err);

#endif
