/* What a decode step on a GPU needs beside resolve: its inputs put in order, rows written, the model's own layers stood in for, attention's reads, and
 * their proof. Each is one launch, capturable in a graph, without allocation or synchronisation. What changes from step to step (items, lists, durations)
 * lies in memory the kernels read, so that one graph serves every step of a batch size. Pointers are valid on the device: device memory, or pinned
 * host memory where a comment says so. `context`: a cudaStream_t, not used by the references. 0, -EINVAL (a limit), -EIO (the launch was refused).
 *
 * Time stamps are the GPU's global timer in nanoseconds (references: not written). `stamp` is NULL or two words, [0] lowered to the launch's first
 * moment, [1] raised to its last; kvl_step_begin sets all of them to {UINT64_MAX, 0}. */
#ifndef KVL_KERNELS_STEP_H
#define KVL_KERNELS_STEP_H

#include "kernels/resolve_batch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVL_STEP_CACHES = 128, KVL_STEP_POINTS = 128, KVL_STEP_QUERIES = 8 };

/* ---- begin: from per-slot state to the arrays of a batch ---- */

/* One request of the step, in pinned host memory. */
struct kvl_gpu_item {
  int32_t slot;      /* KVL_NONE: padding */
  uint32_t tokens;   /* committed; query q sees (tokens + q) / tokens_per_row rows */
  uint32_t queries;
  uint32_t whole, pages;
  uint32_t half;     /* which of the slot's two selection buffers holds this step's rows */
};

/* What kvl_step_begin lays out for one selection point; pointers to device memory. */
struct kvl_gpu_point {
  uint32_t cache, k;
  uint64_t selection_offset;     /* of this point in a selection buffer, in 32-bit words: n[queries_max], then rows [queries_max][k] */
  struct kvl_batch_query *query; /* [entries_max][queries_max] */
  kvl_row *rows;                 /* [entries_max][queries_max][k]; lanes past n are set to -1 */
  struct kvl_resolve_counts *counts; /* [entries_max], set to zero */
};

struct kvl_step_begin {
  uint32_t entries, queries_max, caches, points;
  const struct kvl_gpu_item *item;                     /* [entries], pinned host memory */
  uint32_t tokens_per_row[KVL_STEP_CACHES];
  const struct kvl_resolve_entry *slot_entry[KVL_STEP_CACHES]; /* [slots]: what never changes while the slot is open */
  struct kvl_resolve_entry *entry[KVL_STEP_CACHES];    /* [entries]: written */
  const struct kvl_gpu_point *point;                   /* [points], device memory */
  const uint32_t *selections;                          /* [slots][2][selection_words] */
  uint64_t selection_words;
  uint64_t *stamps;                                    /* [2 * stamp_pairs] or NULL; pair 0 becomes this launch's own */
  uint32_t stamp_pairs;
};
typedef int kvl_step_begin_fn(const struct kvl_step_begin *begin, void *context); /* the struct is copied at the call */
kvl_step_begin_fn kvl_step_begin_ref, kvl_step_begin_cuda;

/* ---- rows written with the pattern of kernels/pattern.h ---- */

struct kvl_fill {
  unsigned char *to; /* row first_row + i at to + i * row_bytes; aligned to 8; any memory the device reaches */
  uint64_t session;
  uint32_t cache, row_bytes; /* row_bytes a multiple of 8 */
  kvl_row first_row;
  uint32_t rows;
  uint32_t salt, unused;
};
struct kvl_fills {
  const struct kvl_fill *fill; /* [fills_max], device or pinned host memory (which costs each block that reads it some 30 ns, one after the other) */
  const uint32_t *count;
  uint32_t fills_max;
  uint32_t blocks_max;         /* CUDA: 0 for all */
};
typedef int kvl_fills_fn(const struct kvl_fills *fills, void *context);
kvl_fills_fn kvl_fills_ref, kvl_fills_cuda;

/* ---- the model's own layers: a kernel that takes a given time and reads a given number of bytes ----
 * Occupies every multiprocessor (one block each, half of its threads free for copies beside it) for `*duration_ns` from its first block's start, streaming
 * `bytes` bytes from `from` meanwhile, evenly over the time; if the bytes take longer, it takes longer. */
struct kvl_standin {
  const uint64_t *duration_ns; /* device or pinned memory */
  const unsigned char *from;   /* [from_bytes], read round and round; may be NULL when bytes is 0 */
  uint64_t from_bytes, bytes;
  uint64_t from_offset;        /* where this launch begins to read, so that layers read different memory */
  uint64_t *sink;              /* one word that keeps the compiler from dropping the reads */
  uint64_t *start;             /* one word of device memory, of this launch alone; 0 before the launch and after it */
  uint64_t *stamp;
};
typedef int kvl_standin_fn(const struct kvl_standin *standin, void *context);
kvl_standin_fn kvl_standin_ref, kvl_standin_cuda; /* the reference takes no time */

/* ---- attention's reads, and the witness ----
 * digest of a query: the sum (modulo 2^64) over its lanes i < n of (2 i + 1) * h, where h of a row is the sum over its 8-byte words j of
 * (word ^ j) * 0x9e3779b97f4a7c15, and of a -1 is KVL_DIGEST_NONE. Bytes after the last whole word count as a word of their own, padded with zeros. */
#define KVL_DIGEST_NONE UINT64_C(0xd1b54a32d192ed03)

struct kvl_reader {
  uint32_t entries, queries_max, k, row_bytes;
  const struct kvl_resolve_entry *entry; /* [entries]: request, query_count */
  const struct kvl_batch_query *query;   /* n */
  const kvl_addr *addresses;             /* [entries][queries_max][k] */
  const unsigned char *arena;
  uint64_t *digest;                      /* [entries][queries_max]; unused queries 0 */
  uint64_t *stamp;
  uint32_t part_offset, part_bytes;      /* bytes of each row that are read, multiples of 8; part_bytes 0: all of it */
};
typedef int kvl_reader_fn(const struct kvl_reader *reader, void *context);
kvl_reader_fn kvl_reader_ref, kvl_reader_cuda;

/* The same digest from a copy of every session's whole history that never moves: row r of slot s at resident + s * slot_bytes + r * row_bytes. */
struct kvl_witness {
  uint32_t entries, queries_max, k, row_bytes;
  const struct kvl_resolve_entry *entry;
  const struct kvl_batch_query *query;
  const kvl_row *rows;                   /* [entries][queries_max][k] */
  const unsigned char *resident;
  uint64_t slot_bytes;
  uint64_t *digest;
  uint32_t part_offset, part_bytes;      /* as the reader's */
};
typedef int kvl_witness_fn(const struct kvl_witness *witness, void *context);
kvl_witness_fn kvl_witness_ref, kvl_witness_cuda;

/* ---- end: counters summed, digests compared, all in one launch ---- */

struct kvl_step_outcome { /* pinned host memory; written whole */
  uint64_t begin_ns, end_ns;                           /* first moment of begin's stamp pair 0; when this launch ran */
  uint64_t digests, mismatches;                        /* digests compared and how many differed */
  uint64_t rows_checked;                               /* selected rows behind them, each reading layer counted */
  uint32_t first_reader, first_entry, first_query, unused; /* the first mismatch, in order of (reader, entry, query); UINT32_MAX: none */
  struct kvl_resolve_counts counts[KVL_STEP_POINTS];   /* by point, all entries */
  uint32_t copies, dropped;                            /* of announce, all entries */
};

struct kvl_step_end {
  uint32_t entries, queries_max, points, readers;
  const struct kvl_gpu_point *point;
  const struct kvl_resolve_entry *entry;               /* of any cache: request, query_count */
  const uint64_t *digest;                              /* [readers][entries][queries_max] */
  const uint64_t *witness;                             /* [witnesses][entries][queries_max] */
  const uint32_t *point_of_reader;                     /* [readers], device memory */
  const uint32_t *check;                               /* pinned: 0: digests are not compared in this step */
  const uint32_t *copy_count, *drop_count;             /* of announce, [entries], or NULL */
  const uint64_t *stamps;
  struct kvl_step_outcome *outcome;
  const uint32_t *witness_of_reader;                   /* [readers], device memory; NULL: its point is */
};
typedef int kvl_step_end_fn(const struct kvl_step_end *end, void *context);
kvl_step_end_fn kvl_step_end_ref, kvl_step_end_cuda;

/* ---- candidate bank: the copies that announce listed, from each request's host rows to its bank slots; and a fetch list again, for another part of the rows ---- */
struct kvl_bank_copy {
  uint32_t entries, bank_rows, row_bytes; /* bank_rows: room of a list */
  const struct kvl_resolve_entry *entry;
  const struct kvl_fetch *copies;      /* [entries][bank_rows] */
  const uint32_t *copy_count;          /* [entries] */
  unsigned char *arena;
  uint32_t blocks_max;
  uint64_t *stamp;
  uint32_t part_offset, part_bytes;       /* bytes of each row that are copied, multiples of 8; part_bytes 0: all of it */
};
typedef int kvl_bank_copy_fn(const struct kvl_bank_copy *copy, void *context);
kvl_bank_copy_fn kvl_bank_copy_ref, kvl_bank_copy_cuda;

#ifdef __cplusplus
}
#endif

#endif
