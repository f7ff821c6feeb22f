/* The seam between the engine and whatever carries its decisions out.
 *
 * A plane stands for the decode GPUs of one node: it holds the requests' device state (hot caches, tails), runs decode steps and copies, and owns
 * the clock. The model plane (sim/plane_model.c) computes when things end; the host plane adds real bytes; a CUDA plane does it on hardware. The engine
 * and the policy never ask which one it is.
 *
 * A decode step is one submission: serialized work first (admissions, population copies), then the stages of backend/stages.h, layer by layer. Steps and copies complete later; wait_until hands out completions in order of time, or moves the clock to the time asked for. */
#ifndef KVL_BACKEND_PLANE_H
#define KVL_BACKEND_PLANE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "backend/base/stall.h"
#include "backend/residency.h"
#include "backend/stages.h"
#include "kernels/gather.h"
#include "kernels/resolve.h"

struct kvl_plane_request {
  uint32_t gpu;
  kvl_request slot;
  uint64_t session;      /* whose selections and bytes these are */
  uint32_t input_tokens; /* history, complete on the host */
  uint32_t max_tokens;   /* input + maximum output */
  uint32_t pages;        /* resident mode: of max_tokens, an open one too; else 0 */
  /* Resident mode: the policy, which says in which frames those pages lie from first to last (kvl_resid_reserved), to whom asks during the call; no step's
   * item has a map then. Other modes: NULL. A map made for every request would add half to what simulating this mode takes. */
  const struct kvl_resid *resid;
};

/* One request of a decode step. Query q (0 .. queries - 1) stands at token `tokens + q` and sees the rows that the tokens before it complete: the
 * committed ones, and the step's own in the scratch. Afterwards `commit` tokens are history: the request's next token and the accepted drafts; what
 * follows leaves no trace. How many are accepted is an input of the step, as its selections are: a plane must not use it before the step's end. */
struct kvl_step_item {
  kvl_request slot;
  uint32_t tokens;           /* committed before the step */
  uint32_t queries;          /* 1 + drafts to verify, at most KVL_STEP_QUERIES_MAX */
  uint32_t commit;           /* 1 .. queries */
  const kvl_frame *page_map; /* the policy's, adaptive mode; stays valid and unchanged until the step completes */
  const uint64_t *page_map_changes; /* kvl_resid_page_map_changes: which parts are as they were in the last step of this slot */
  uint64_t page_map_version;
  uint32_t pages;
  bool whole;                /* direct path: every whole page is mapped */
  uint32_t *selected_by_page; /* the plane adds the selected rows of each page, all caches together; NULL: not wanted. Room for max_tokens */
};

struct kvl_plane_step {
  uint32_t gpu;
  uint64_t number;            /* from 1, per GPU */
  uint32_t admissions;        /* requests that join with this step: serialized work of each */
  uint32_t revoked_pages;     /* pages unmapped since the last step */
  const struct kvl_move *serial; /* page copies to finish before the step (population); their pages are in the page maps already */
  uint32_t serial_count;
  const struct kvl_step_item *items; /* valid until the step completes; empty: only the serialized work is done */
  uint32_t count;
};

enum { KVL_STEP_QUERIES_MAX = 8 };

/* What the candidate prefetch of a step did (semantics, section 5); all zero without it. Also summed over a run. The CUDA plane leaves `used`, `unused` and
 * unused_link_ns at 0: its kernels do not keep which rows of the bank have been named; a replay in the model plane counts them.
 * pool: a group is a step's announcement, all requests together. plan (backend/stages.h): a group is a fetch list that is replayed, all requests together;
 * candidates, copied and used are its rows times the parts after the first, each of which is read. It has landed if no layer waited for its part; its
 * margin is then the smallest of its layers', wait is the sum over them. */
struct kvl_prefetch {
  uint64_t groups;           /* announcements that had anything to copy */
  uint64_t landed;           /* of those, whose copies were complete when the first later selection asked */
  uint64_t candidates;       /* distinct committed rows of the pools, by request */
  uint64_t resident;         /* of those, in a GPU tier already */
  uint64_t copied, dropped;  /* rows copied into the bank; rows without room */
  uint64_t used;             /* copied rows that some selection named, each copy counted once, when first named */
  uint64_t unused;           /* copied rows that were overwritten or given up without ever being named; of a request that ended: with the next step */
  uint64_t later_lanes;      /* selected rows at the later selections of the groups, scratch excluded */
  uint64_t later_demand;     /* of those, fetched from the host on demand */
  uint64_t link_ns, unused_link_ns; /* link time of the copies; the share of it spent on rows of `unused` */
  uint64_t margin_ns;        /* sum over landed groups: from the last copy's end to the first later selection */
  uint64_t wait_ns;          /* sum over the others: from the first later selection to the last copy's end */
};

/* What a step was. Owned by the plane, valid until the GPU's next step. step_begin - submit is the sum of the causes between steps,
 * end - step_begin the sum of the causes within (both to the nanosecond). */
struct kvl_step_result {
  uint64_t submit_ns, step_begin_ns, end_ns;
  uint64_t stall_ns[KVL_STALLS];
  uint64_t lanes[KVL_TIERS];
  uint64_t fetched, overflow, violations;
  uint64_t link_bytes;
  uint64_t draft_ns;         /* of the compute time: what drafting took; 0 without speculation */
  uint64_t shared_lanes;     /* lanes that name a row which an earlier query of the same request and selection named too: fetched once at most */
  struct kvl_prefetch prefetch;
};

/* A copy that runs beside the steps. */
enum kvl_copy_kind {
  KVL_COPY_PAGES,     /* host -> frames: give-back, population on a side stream */
  KVL_COPY_WRITE_BACK /* tail rows -> host */
};
struct kvl_plane_copy {
  uint32_t gpu;
  enum kvl_copy_kind kind;
  uint64_t bytes;
  uint64_t tag;                /* returned with the completion */
  const struct kvl_move *moves; /* pages; valid during the call */
  uint32_t move_count;
};

enum kvl_completion_kind { KVL_DONE_STEP, KVL_DONE_COPY };
struct kvl_completion {
  enum kvl_completion_kind kind;
  uint32_t gpu;
  uint64_t tag;     /* copy: its tag; step: its number */
  uint64_t time_ns;
  const struct kvl_step_result *step; /* steps only */
};

/* Totals of one selection point of one GPU, since the start. */
struct kvl_plane_point {
  uint64_t lanes[KVL_TIERS];
  uint64_t fetched, overflow;
};

/* What a plane reads back and compares with the bytes that must be there. The first value checks everything: who forgets to choose checks too much. */
enum kvl_check {
  KVL_CHECK_ALL,    /* every selected row of every step */
  KVL_CHECK_SAMPLE, /* every selected row of the first step of a GPU and of each KVL_CHECK_STRIDE-th after it */
  KVL_CHECK_NONE
};
enum { KVL_CHECK_STRIDE = 16 };
static inline bool kvl_check_step(enum kvl_check check, uint64_t number) /* is this step (number from 1) checked? */
{
  return check == KVL_CHECK_ALL || (check == KVL_CHECK_SAMPLE && number % KVL_CHECK_STRIDE == 1);
}

/* Durations of one kind, as the device's own clock has them. count 0: not measured. */
struct kvl_plane_times {
  uint64_t count, sum_ns, min_ns, max_ns;
};

enum kvl_traffic {
  KVL_TRAFFIC_POPULATION, /* pages copied before a step */
  KVL_TRAFFIC_PAGES,      /* pages copied beside the steps: give-back, population on a side stream */
  KVL_TRAFFIC_WRITE_BACK, /* tail rows to the host */
  KVL_TRAFFIC_PREFETCH,   /* candidate rows into the bank */
  KVL_TRAFFIC_FETCH,      /* demand misses, fetched by resolve itself: bytes only */
  KVL_TRAFFIC_KINDS
};

/* The host rows of some steps gathered once more behind the step, by a kernel that does nothing else (kernels/gather.h), beside what those very steps spent on
 * look-ups and fetches. The next step waits for it, as it does for a comparison. Steps without misses are not among them. Nanoseconds, of a step. */
enum { KVL_FLOOR_STRIDE = 4 }; /* each so many-th step of a GPU, each shape in turn: the second gather of the same rows would find the first one's translations */
struct kvl_plane_spread {
  int64_t mean_ns, p50_ns;
};
struct kvl_plane_floor {
  uint64_t steps, rows, bytes;          /* rows and bytes of all of them */
  struct kvl_plane_spread gather;       /* a launch a selection with misses: their own times, without what lies between them */
  struct kvl_plane_spread span;         /* from the first launch's first moment to the last one's last */
  struct kvl_plane_spread look_up;      /* what the step spent on look-ups, fetches included */
  struct kvl_plane_spread over;         /* that less the gather of the same step */
};

/* What a plane measured and checked beyond its steps' results, since the start, all GPUs together. What it did not measure is zero. */
struct kvl_plane_measured {
  uint64_t rows_checked, mismatches;
  char first_mismatch[160];                      /* one line; "" when there is none */
  struct {
    uint64_t count, bytes;                       /* copies; launches of the kernel that does it, if a kernel does it */
    struct kvl_plane_times times;                /* of each on the device */
  } traffic[KVL_TRAFFIC_KINDS];
  struct kvl_plane_times kernel[KVL_STAGE_KINDS]; /* by kind of stage */
  struct kvl_plane_floor floor[KVL_GATHER_SHAPES]; /* by shape */
};

struct kvl_plane;

struct kvl_plane_ops {
  const char *name; /* model, host, cuda */
  void (*close)(struct kvl_plane *plane); /* ends what is in flight, frees everything */
  uint64_t (*now)(struct kvl_plane *plane);

  /* Device state of one request; open before its first step, close after its last has completed. 0, -ENOMEM, -EIO with a line. Synchronous. */
  int (*request_open)(struct kvl_plane *plane, const struct kvl_plane_request *request, struct kvl_err *err);
  void (*request_close)(struct kvl_plane *plane, uint32_t gpu, kvl_request slot);

  /* One step in flight per GPU. Completes later. */
  int (*step)(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err);
  /* Any number in flight; those of one GPU and direction complete in order. */
  int (*copy)(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err);
  /* A page just completed is copied from the tail into its frame; done when the GPU's next step begins. Synchronous to the engine. */
  int (*keep)(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err);

  /* 1: the next completion, at or before `time_ns`; 0: none, the clock stands at time_ns, or before it when a plane on the wall
   * clock has been told to stop waiting (nothing is under way then); negative errno: the device failed. */
  int (*wait_until)(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err);

  void (*point)(struct kvl_plane *plane, uint32_t gpu, uint32_t point, struct kvl_plane_point *totals);
  uint64_t (*link_busy_ns)(struct kvl_plane *plane, uint32_t gpu);
  uint64_t (*link_bytes)(struct kvl_plane *plane, uint32_t gpu);
  /* Optional (NULL): deep check of the device state, for --verify. 0 or -EPROTO with a line. */
  int (*verify)(struct kvl_plane *plane, struct kvl_err *err);
  /* Optional (NULL: it neither measures nor checks). Fills all of *measured. */
  void (*measured)(struct kvl_plane *plane, struct kvl_plane_measured *measured);
};

/* Every plane begins with this. */
struct kvl_plane {
  const struct kvl_plane_ops *ops;
};

#endif
