/* Inside of the CUDA plane; included by its files only.
 *
 * plane_cuda.c        opening and closing, the clock, completions
 * plane_cuda_slot.c   a request's device state: opened, mirrored, its bytes made
 * plane_cuda_memory.c what steps work on
 * plane_cuda_graph.c  a decode step as a graph; the comparison after it
 * plane_cuda_step.c   a decode step submitted
 * plane_cuda_outcome.c what came of it
 * plane_cuda_floor.c  what a bare gather of a step's host rows takes
 * plane_cuda_copy.c   lists in pinned memory that kernels read; page copies, write-back */
#ifndef KVL_BACKEND_PLANE_CUDA_STATE_H
#define KVL_BACKEND_PLANE_CUDA_STATE_H

#include "backend/gpu.h"
#include "backend/layout.h"
#include "backend/plane_cuda.h"
#include "backend/pool_rows.h"
#include "kernels/resolve_ref.h"

enum {
  LISTS = 32,                   /* lists in flight; more wait for the oldest */
  LIST_BYTES = 1 << 20,
  COPY_BLOCKS = KVL_GPU_COPY_BLOCKS,
  RUN_BYTES_MIN = 256 * 1024,   /* page copies whose runs are shorter on average, or whose pieces are smaller, go through a kernel */
  PIECE_BYTES_MIN = KVL_GPU_PIECE_BYTES_MIN /* instead of the copy engine */
};

#define KVL_CUDA_WEIGHTS_BYTES (UINT64_C(1) << 30) /* that the stand-in layers read round and round: far more than any L2 */

/* A list that a kernel reads while the next ones are made. */
struct list {
  void *memory;                 /* pinned: the count, then from byte 16 the entries */
  unsigned char *device;        /* the same, where kernels read it */
  struct kvl_gpu_event *done;
  bool busy;
};

/* Tail rows that a step committed, for their way to the host. */
struct committed {
  kvl_request slot;
  uint16_t cache;
  kvl_slot place;
  kvl_row row;
};

struct cuda_slot {
  bool open, filling;           /* filling: its rows are still being made (the event below) */
  uint64_t session;
  struct kvl_gpu_event *filled;
  struct kvl_cache **mirror;    /* [caches] committed, tail and scratch as the reference keeps them; no hot rows */
  void *mirror_memory;
  kvl_frame *page_map;          /* [pages_max] as on the device, as of version (resident mode: as of the opening) */
  uint64_t page_map_version;
  uint32_t pages;               /* resident mode: of the map, which is then as it was when the request was opened */
  uint32_t prepared_tokens, prepared_half; /* what its selection buffer holds; tokens UINT32_MAX: nothing */
  uint32_t candidates[KVL_STEP_QUERIES_MAX]; /* rows announced by the queries so far, of its pools in that buffer */
  struct kvl_fill *fill;        /* in the GPU's `fills`: the fills of its opening, at most 3 a cache */
  uint32_t *fill_count;         /* there too: [2] of the two launches */
};

/* Selections to make while a step runs: those of the batch's next step. */
struct ahead {
  kvl_request slot;
  uint32_t tokens;
};

struct page_copy_event {
  uint64_t tag, bytes;
  enum kvl_copy_kind kind;
  struct kvl_gpu_event *begin, *end;
};

struct graph {
  struct cuda_gpu *gpu;
  uint32_t entries;
  struct kvl_gpu_graph *graph;
};

struct cuda_gpu {
  struct cuda_plane *plane;
  uint32_t index;
  struct kvl_gpu *gpu;
  const struct kvl_gpu_kernels *k;
  kvl_gpu_stream main, copy, write_back, fill, upload, side; /* side: forked from the main one inside a graph */
  struct kvl_gpu_event *side_fork, *side_join;

  unsigned char *arena;         /* HBM */
  unsigned char *witness;       /* HBM, NULL when nothing is checked */
  unsigned char *staging;       /* HBM: one session's rows on their way to the host (resident mode: to their frames) */
  unsigned char *weights;       /* HBM that the stand-in layers read */
  unsigned char *host;          /* pinned: the complete histories, slot by slot; NULL in resident mode */
  unsigned char *state, *blank; /* HBM: slots' state; a blank one */
  struct kvl_resolve_entry *slot_entry[KVL_REFDEV_CACHES], *entry[KVL_REFDEV_CACHES];
  struct kvl_gpu_point *point;  /* device */
  struct kvl_gpu_point *point_host; /* the same, in ordinary memory */
  kvl_addr **addresses;         /* [points], device */
  struct kvl_fetch *fetches[KVL_REFDEV_POINTS]; /* device: lists that are read again (kvl_cuda_keeps_list) */
  uint32_t *fetch_counts[KVL_REFDEV_POINTS];
  struct kvl_gpu_event *part_done[KVL_STAGE_LAYERS];
  uint32_t *fetch_count, *work;
  uint64_t *digest, *witness_digest;
  uint32_t *point_of_reader, *witness_of_reader;
  uint64_t *stamps_device, *stamps; /* the latter pinned */
  uint64_t *duration;           /* device: [0] of a layer without reads, [1] with */
  uint64_t *sink, *starts;      /* device */
  uint32_t *selections_device, *selections; /* [slots][2][words]; the latter pinned */
  unsigned char *block, *block_device; /* a step's lists (plane_cuda_step.c): pinned, and on the device */
  uint32_t *check;              /* pinned */
  struct kvl_step_outcome *outcome, *checked; /* pinned: of the graph; of the comparison after it */
  struct kvl_pool_rows pools;   /* which rows of the pools are announced */
  unsigned char *gathered;      /* HBM, NULL without --floor: where a bare gather puts rows */
  struct kvl_gpu_event *floor_done;
  bool floor_pending;
  uint32_t floor_turn;          /* gathers so far: the shape of the next */
  struct kvl_fetch *bank_copies;
  kvl_row *bank_dropped;
  uint32_t *bank_copy_count, *bank_drop_count, *bank_work;

  struct list list[LISTS];
  uint32_t list_next;
  struct cuda_slot *slot;
  unsigned char *fills;         /* pinned: of all slots */
  struct graph *graph;          /* [slots + 1] by entries */

  /* page copies in flight, oldest first; ring of `copies_max` */
  struct page_copy_event *flight[2];
  uint32_t flight_first[2], flight_count[2], flight_capacity[2];

  /* the step in flight or just done */
  struct ahead *ahead;          /* [slots] */
  uint32_t ahead_count, ahead_next, ahead_slots; /* of them: made; slots made and not uploaded */
  bool ahead_uploaded;
  bool in_step;
  struct kvl_gpu_event *step_done, *check_done, *uploaded, *serial_begin, *serial_end, *wrote_back, *kept;
  bool check_pending, had_serial;
  uint64_t number, submit_ns, serial_bytes;
  uint32_t items;
  uint64_t compute_ns, revoked; /* revoked: host time spent on page maps in a step with revocations, ns */
  bool joined;
  uint32_t *seen, epoch;        /* [largest rows_max]: rows that the queries before named */
  uint64_t shared_lanes, candidates;
  uint64_t reader_ns;           /* mean of a reading layer so far: the stand-in's share of the layer is the rest */
  struct committed *committed;  /* by the last step */
  uint32_t committed_count;
  struct committed *leaving;    /* by the step before, asked to be written back; leaving_due: not begun yet */
  uint32_t leaving_count;
  bool leaving_due;
  struct kvl_poke *poke;        /* for the next step: tail places of rows that the last one committed */
  uint32_t poke_count, poke_capacity;
  struct kvl_step_result result;
  struct kvl_plane_point *totals;
  uint64_t link_busy_ns, link_bytes;
};

/* One step whose host rows were gathered again. */
struct floor_step {
  enum kvl_gather_shape shape;
  uint64_t rows, bytes, gather_ns, span_ns, look_up_ns;
};

struct cuda_plane {
  struct kvl_plane plane;
  struct kvl_plane_cuda_config config;
  struct kvl_stage *stages;
  bool opened;                  /* created as a whole: the inputs are ours to close */
  struct kvl_layout layout;
  struct kvl_cache_geometry mirror_geometry[KVL_REFDEV_CACHES];
  uint32_t witness_of_reader[KVL_STAGES_MAX], witnesses; /* which (selection, part) a reader reads */
  bool replayed[KVL_REFDEV_POINTS];
  uint32_t parts_max;
  uint32_t readers, pages_max, queries_max, k_max;
  uint32_t points_all;          /* selections, and the pool as one more */
  uint32_t pool_cache, pool_point; /* whose pool is announced, and after which selection */
  uint64_t frame_offset[KVL_REFDEV_CACHES];  /* bytes of a cache's rows within a frame */
  uint64_t host_offset[KVL_REFDEV_CACHES];   /* bytes of a cache's rows within a slot's history */
  uint32_t rows_max[KVL_REFDEV_CACHES];
  uint64_t host_slot_bytes;
  uint64_t selection_words;
  /* word offsets within a slot's state */
  uint64_t head_at[KVL_REFDEV_CACHES], place_at[KVL_REFDEV_CACHES], stamp_at[KVL_REFDEV_CACHES], row_at[KVL_REFDEV_CACHES],
    pinned_at[KVL_REFDEV_CACHES], tail_at[KVL_REFDEV_CACHES], map_at, state_words;
  uint32_t stamp_pairs, stamp_layer, stamp_reader, stamp_resolve, stamp_replay, stamp_bank, stamp_floor; /* first pair of each kind */
  uint64_t start_wall_ns, now_ns;
  struct cuda_gpu *gpu;
  struct kvl_plane_measured measured;
  struct floor_step *floor;
  int64_t *floor_sorted;        /* room for as many */
  uint32_t floor_steps, floor_capacity;
};

/* Where a selection may begin in a buffer, so that its rows (after a count for each query) lie on 16 bytes. */
static inline uint64_t kvl_cuda_aligned_selection(uint64_t at, uint32_t queries_max)
{
  return (at + queries_max + 3) / 4 * 4 - queries_max;
}

static inline struct cuda_plane *kvl_cuda_of(struct kvl_plane *plane)
{
  return (struct cuda_plane *)plane; /* the first member */
}

uint64_t kvl_cuda_wall_ns(const struct cuda_plane *c); /* since creation */
void kvl_cuda_count(struct kvl_plane_times *times, uint64_t ns);

/* plane_cuda_copy.c */
int kvl_cuda_lists_open(struct cuda_gpu *g, struct kvl_err *err);
void kvl_cuda_lists_close(struct cuda_gpu *g);
int kvl_cuda_segments(struct cuda_gpu *g, const struct kvl_segment *segments, uint32_t count, const unsigned char *from, unsigned char *to,
                      uint32_t blocks_max, kvl_gpu_stream stream, struct kvl_err *err);
int kvl_cuda_pokes(struct cuda_gpu *g, const struct kvl_poke *pokes, uint32_t count, kvl_gpu_stream stream, struct kvl_err *err);
int kvl_cuda_pages(struct cuda_gpu *g, const struct kvl_move *moves, uint32_t count, kvl_gpu_stream stream, struct kvl_err *err);
int kvl_cuda_history_to_frames(struct cuda_gpu *g, kvl_request slot, uint32_t tokens, struct kvl_err *err); /* resident mode: from the staging, fill stream */
uint64_t kvl_cuda_frame_offset(const struct cuda_plane *c, kvl_frame frame, uint32_t cache); /* bytes into the arena: a frame's first row of the cache */
int kvl_cuda_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err);
int kvl_cuda_write_back(struct cuda_gpu *g, struct kvl_err *err); /* begins what was asked for, if anything waits */
int kvl_cuda_copies_poll(struct cuda_gpu *g, struct kvl_completion *completion, struct kvl_err *err); /* 1: one is done */
int kvl_cuda_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err);
uint64_t kvl_cuda_host_offset(const struct cuda_plane *c, kvl_request slot, uint32_t cache, kvl_row row); /* bytes into the host pool, and the witness */

/* plane_cuda_slot.c */
int kvl_cuda_slots_open(struct cuda_gpu *g, struct kvl_err *err);
void kvl_cuda_slots_close(struct cuda_gpu *g);
int kvl_cuda_request_open(struct kvl_plane *plane, const struct kvl_plane_request *request, struct kvl_err *err);
void kvl_cuda_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot);
int kvl_cuda_wait_filled(struct cuda_gpu *g, kvl_request slot, kvl_gpu_stream stream, struct kvl_err *err);
int kvl_cuda_add_poke(struct cuda_gpu *g, uint64_t word, uint32_t value, struct kvl_err *err);
int kvl_cuda_poke_head(struct cuda_gpu *g, kvl_request slot, uint32_t cache, uint32_t scratch, struct kvl_err *err);

/* A step's lists: items, rows to write and rows to commit lie in one block of pinned memory, which the graph's first node copies to the device: kernels that
 * read lists from host memory would wait a microsecond or more each. Its size and offsets depend on the batch size, as the graph does. */
struct cuda_block {
  uint64_t write_count, commit_count, poke_count, item, write, commit, poke, bytes; /* offsets; item: struct kvl_gpu_item [entries] */
  uint32_t writes_max, commits_max, pokes_max;                                      /* of one cache; of all; of all */
};

/* plane_cuda_memory.c */
int kvl_cuda_steps_open(struct cuda_gpu *g, struct kvl_err *err);
void kvl_cuda_steps_close(struct cuda_gpu *g);
struct cuda_block kvl_cuda_block(const struct cuda_plane *c, uint32_t entries);
uint32_t *kvl_cuda_word_at(unsigned char *block, uint64_t offset);
struct kvl_gpu_item *kvl_cuda_items_at(unsigned char *block, const struct cuda_block *b);
struct kvl_fill *kvl_cuda_writes_at(unsigned char *block, const struct cuda_block *b, uint32_t cache);

/* plane_cuda_graph.c */
int kvl_cuda_launch(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err);
int kvl_cuda_check(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err); /* compares the digests of the step just launched */
uint32_t kvl_cuda_part_bytes(const struct cuda_plane *c, uint32_t cache);      /* bytes of a row that one layer reads */

bool kvl_cuda_keeps_list(const struct cuda_plane *c, uint32_t point);          /* resolve writes its list of fetches */
uint32_t kvl_cuda_fetch_bytes(const struct cuda_plane *c, uint32_t point);     /* of a missing row, that resolve itself brings */

/* plane_cuda_floor.c */
int kvl_cuda_floor(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err); /* gathers what the step just launched will have fetched */
int kvl_cuda_collect_floor(struct cuda_gpu *g, struct kvl_err *err);           /* of the last step, if one is pending: waits for it */
void kvl_cuda_floor_summary(struct cuda_plane *c);                             /* into `measured` */

/* plane_cuda_step.c */
int kvl_cuda_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err);
int kvl_cuda_look_ahead(struct cuda_gpu *g, struct kvl_err *err); /* 1: something was done, there may be more; 0: nothing is left */

/* plane_cuda_outcome.c */
int kvl_cuda_step_poll(struct cuda_gpu *g, struct kvl_completion *completion, struct kvl_err *err); /* 1: it is done */
int kvl_cuda_collect_check(struct cuda_gpu *g, struct kvl_err *err); /* of the last step, if one is pending */

#endif
