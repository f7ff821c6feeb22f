/* Selections: which rows the indexer picks, step by step. One pull interface for generated and recorded selections.
 *
 * A source is shared and read-only after opening; a stream belongs to one active request and may be used by one thread at a time. The engine
 * calls kvl_stream_step() once a decode step and then kvl_stream_rows() for each selection point in order of layer. */
#ifndef KVL_TRACES_SELECTION_H
#define KVL_TRACES_SELECTION_H

#include <stddef.h>
#include <stdint.h>

#include "backend/base/err.h"

enum { KVL_CACHES_MAX = 128, KVL_POINTS_MAX = 128 };

/* The part of a model that selections depend on. */
struct kvl_selection_shape {
  uint32_t caches;
  uint32_t tokens_per_row[KVL_CACHES_MAX];
  uint32_t points;                     /* selections a query makes, in order of layer */
  struct kvl_selection_point {
    uint16_t cache;                    /* which cache it selects from */
    uint16_t layer;
    uint32_t k;                        /* rows a query */
  } point[KVL_POINTS_MAX];
  struct {
    uint16_t point;                    /* the announcing selection; later ones from the same cache choose from the pool */
    uint32_t blocks;                   /* most blocks of a query's pool; 0: pools are not asked for */
    uint32_t rows_per_block;
  } pool;
};

struct kvl_selection_source;
struct kvl_selection_stream;

/* Generated selections: `preset` is hot-a, hot-b, cold-a or cold-b. Deterministic in (seed, session). -EINVAL names the nearest preset. */
int kvl_source_open_preset(struct kvl_selection_source **source, const char *preset, const struct kvl_selection_shape *shape,
                           uint64_t seed, struct kvl_err *err);
/* Of a source that kvl_source_open_preset made, before its first stream: of 1,000 rows that a query of a step selects, how many the query before it selected
 * too (0 to 1,000; 970 unless set). */
void kvl_source_set_query_overlap(struct kvl_selection_source *preset, uint32_t permille);

/* Recorded selections from a trace file (traces/trace.h): a library of sessions. Request `session` replays session (session mod n) of the library,
 * beginning at a step drawn from (seed, session); the first step of a stream lies over that step, and from there on the recording advances with the
 * request's committed tokens (not with its steps, so a speculative request may replay a recording made without speculation). At the recording's end it
 * goes on from its first step: a seam.
 * Rows are moved by the difference of the two histories at the first step: a row keeps its distance from the end and, from step to step, its identity. At a
 * seam the rows of the last 4,096 tokens keep their distance from the end, all others their identity; it costs a request the misses of its newest rows. Rows 0 to 3
 * (attention sinks) keep their place. Rows that would lie before the history are folded back into it (modulo the history's length, so that they keep
 * their place from step to step), rows of drafts that are not committed here become the newest rows not selected yet, and a query always gets
 * min(k, history) distinct rows. Query q of a step is query q of the recorded step; where that had fewer, the recorded step q tokens further on.
 * Opening reads the whole file once and verifies every checksum; unpacked chunks are shared by all streams and kept, up to KVL_TRACE_CACHE_BYTES (more
 * when the chunks in use alone need more; 16 sessions x 800 steps x 4,096 rows and 2,048 blocks are 315 MB). Streams may run in different threads.
 * Errors name the file, the place and the reason; a trace of another shape is -EINVAL and says which part differs. */
#define KVL_TRACE_CACHE_BYTES UINT64_C(350000000)
int kvl_source_open_trace(struct kvl_selection_source **source, const char *path, const struct kvl_selection_shape *shape,
                          uint64_t seed, struct kvl_err *err);
/* 0, or why streams of this source have given no rows: a chunk that could not be read or unpacked after all (-EIO, -EINVAL, -ENOMEM, ...). To be asked at
 * the end of a run: its numbers are void then. */
int kvl_source_status(const struct kvl_selection_source *source, struct kvl_err *err);
/* A library in memory: `sessions` sessions of `steps` steps, one a token, taken from another source once (session 0, 1, ...), for requests that all have
 * `input_tokens` tokens before their first step and at most `steps` after it, at most `queries` queries a step. Request `session` replays session
 * (session mod n) and goes on with its committed tokens. Streams of it cost next to nothing, where generating costs as much as resolving. Pools are kept if
 * `from` has them. `from` may be closed afterwards. -ENOMEM. */
int kvl_source_open_library(struct kvl_selection_source **source, const struct kvl_selection_source *from, uint32_t points, uint32_t sessions,
                            uint32_t input_tokens, uint32_t steps, uint32_t queries, struct kvl_err *err);
void kvl_source_close(struct kvl_selection_source *source); /* NULL is fine; close its streams first */

/* A stream with room for requests of up to tokens_max tokens and queries_max queries a step; reused from request to request. NULL: no memory,
 * or more rows a cache than a source can name (presets: 8,388,608). */
struct kvl_selection_stream *kvl_stream_create(const struct kvl_selection_source *source, uint32_t tokens_max, uint32_t queries_max);
void kvl_stream_destroy(struct kvl_selection_stream *stream);

/* Begins a request: `session` seeds it, `input_tokens` is its history before the first step. */
void kvl_stream_start(struct kvl_selection_stream *stream, uint64_t session, uint32_t input_tokens);

/* Begins a step of `queries` queries; `tokens` tokens are committed. Rows that query q selects are below (tokens + q) / tokens_per_row of the cache: a draft sees
 * the rows that are written for the tokens before it, which the step may reject. */
void kvl_stream_step(struct kvl_selection_stream *stream, uint32_t tokens, uint32_t queries);

/* Blocks (of rows_per_block rows) of one query's candidate pool, ascending, each once; 0 when the shape asks for none. They cover the rows that the query
 * selected at the announcing point: addresses of rows in the bank are being read while the pool's copies run. Selections do not depend on whether pools
 * are asked for. Presets: the pool covers what the query selects at every later point too, and is filled up with blocks of a process of their own; each
 * block stands for one row that scores high, so that a pool changes from step to step as the blocks that hold the highest scores do. Traces: the
 * recorded pool, moved as the rows are. The pointer is valid until the next step. */
uint32_t kvl_stream_pool(struct kvl_selection_stream *stream, uint32_t query, const int32_t **blocks);

/* Selected rows of one query at one point, distinct; fewer than k when the history is shorter. The pointer is valid until the next step. */
uint32_t kvl_stream_rows(struct kvl_selection_stream *stream, uint32_t point, uint32_t query, const int32_t **rows);

#endif
