/* The engine's inside: its state, and what its files call of one another. Nobody else includes this.
 *
 * engine.c          opening, the loop, checks, the summary
 * engine_request.c  requests and their queues, arrival, prefill, the end of a request
 * engine_admit.c    who gets a decode slot; release
 * engine_gap.c      what happens between two steps of a GPU
 * engine_done.c     what happens when a step, a copy or a planned event is over */
#ifndef KVL_SIM_ENGINE_STATE_H
#define KVL_SIM_ENGINE_STATE_H

#include "backend/base/rng.h"
#include "sim/dspark.h"
#include "sim/engine.h"
#include "sim/events.h"

#define NONE UINT32_MAX                          /* no request, GPU or copy */
#define WRITE_BACK_TAG ((uint64_t)1 << 63)      /* tags of write-backs carry the step's number, others index page_copy */
enum { WRITE_BACKS_MAX = 4096 };                 /* steps whose rows may be on their way to the host at once */
enum { SAMPLES_MAX = 2048, SAMPLES_MIN = 64 }; /* of all GPUs together; of one */

enum request_state { OVER, IN_PREFILL, WAITING, IN_TRANSFER, READY, POPULATING, DECODING };

struct request {
  struct kvl_request_record record;
  enum request_state state;
  uint32_t chain;
  uint32_t next;             /* in whichever queue it is */
  uint32_t max_tokens;
  uint32_t prefill_route, decode_route; /* index of the queue it waits in */
  kvl_request slot;
  uint32_t tokens, produced; /* committed tokens; output tokens so far */
  uint32_t pages_complete;   /* whole pages the policy knows to be on the host */
  bool client_gone;          /* timed out: released at the next point where nobody reads or writes for it (I8) */
  uint64_t joined_step;
  uint64_t returned_step;    /* up to this step its rows are on the host, as far as anybody looked */
  uint32_t unwritten;        /* tokens committed since */
  uint64_t host_bytes;
};

struct queue {
  uint32_t first, last, count;
};

/* Pages on their way beside the steps, or population in bounded pieces. */
struct page_copy {
  struct kvl_move *moves;
  uint32_t count, capacity;
  uint32_t request; /* whose population it is; NONE: give-back */
  uint32_t done;    /* bounded: pages copied so far */
  uint32_t next;    /* of those that landed during a step */
  bool used;
};

struct decode_gpu {
  struct kvl_resid *resid;
  void *resid_memory;
  struct kvl_plan plan;
  struct kvl_move *serial;       /* population to finish before the next step */
  uint32_t serial_count, serial_capacity;
  struct kvl_step_item *items;
  uint32_t **selected;           /* by batch slot and page: rows selected in the step in flight; NULL: no order asks for it */
  uint32_t *batch;               /* requests that decode, in order of joining */
  uint32_t batch_count;
  struct queue ready;            /* transferred, join at the next gap */
  struct queue populated;        /* their population ended beside a step: join at the next gap */
  uint32_t bounded;              /* page_copy of the population under way in pieces; NONE */
  uint32_t landed_first, landed_last; /* page_copies that landed during the step: the page maps change between steps only; NONE */
  uint32_t sessions;             /* admitted and not ended */
  uint32_t joining;              /* of those, not yet decoding */
  uint32_t joined_now, revoked_now;
  bool gave;                     /* pages back since the last step (I6: a gap that waits for a write-back is still one gap) */
  uint8_t *commits;              /* by batch slot and step (modulo commit_steps): tokens committed; NULL in resident mode */
  uint32_t commit_steps;
  uint32_t step_queries, step_tokens, step_items; /* of the step in flight or the last one: verified, committed, requests */
  uint64_t step, written_back;   /* numbers of the last step begun and of the last whose rows are on the host */
  bool in_step;
  bool full;                     /* the head of the waiting queue did not fit at the last try */
  uint64_t ingress_free_ns;      /* the link from the prefill node */
  uint64_t period_ns;            /* of the last step, its gap included */
  struct kvl_resid_usage reported; /* page moves that were in the store already */
  uint32_t kept_now, copied_now;   /* since then: pages kept from the tail; pages copied over the host link */
  struct kvl_step_sample *sample;  /* the time line, thinned: every sample_stride-th step of this GPU; NULL: not wanted */
  uint32_t sample_count, sample_capacity;
  uint64_t sample_stride, sample_skip;
};

/* Prefill GPUs that share a queue: all of them, or one each when requests are routed as they come. */
struct prefill_group {
  struct queue queue;
  uint32_t gpus, busy;
};

struct engine {
  const struct kvl_engine_config *config;
  const struct kvl_scenario *s;
  struct kvl_plane *plane;
  struct kvl_events events;
  struct request *request;
  uint32_t request_capacity, request_free; /* free list through next */
  uint32_t active;
  struct prefill_group *prefill;
  uint64_t prefill_busy_ns;        /* of all prefill GPUs, as far as their work has begun */
  struct queue *waiting;           /* for a decode slot: one queue for all, or one a GPU */
  uint32_t waiting_total;
  bool routed;                     /* a queue for each GPU */
  struct kvl_rng route;
  struct decode_gpu *gpu;
  struct page_copy *copy;
  uint32_t copy_capacity;
  struct kvl_prefix_store *prefix;
  uint64_t host_used;
  uint64_t page_bytes, write_back_bytes_per_token;
  uint32_t sessions_max;           /* of one decode GPU */
  struct kvl_dspark dspark;        /* with speculation only */
  uint64_t next_id;
  struct kvl_tally tally;
  struct kvl_err *err;
};

/* engine_request.c */
void kvl_engine_push(struct engine *e, struct queue *q, uint32_t r);
uint32_t kvl_engine_pop(struct engine *e, struct queue *q);
uint64_t kvl_engine_now(const struct engine *e);
bool kvl_engine_adaptive(const struct engine *e);
int kvl_engine_new_page_copy(struct engine *e, const struct kvl_move *moves, uint32_t count, uint32_t request, uint32_t *out);
int kvl_engine_start_prefills(struct engine *e, uint32_t group);
int kvl_engine_enter_prefill(struct engine *e, uint32_t r);
void kvl_engine_wait_for_slot(struct engine *e, uint32_t r);
struct queue *kvl_engine_waiting_of(const struct engine *e, uint32_t gpu);
int kvl_engine_submit(struct engine *e, const struct kvl_request_spec *spec);
int kvl_engine_finish(struct engine *e, uint32_t r);
int kvl_engine_timeout(struct engine *e, uint32_t r);

/* engine_admit.c */
void kvl_engine_demand_of(const struct engine *e, const struct request *q, struct kvl_demand *demand, uint64_t *host_bytes);
uint32_t kvl_engine_growth_frames(const struct engine *e, const struct decode_gpu *g);
void kvl_engine_account_plan(struct decode_gpu *g);
int kvl_engine_start_transfer(struct engine *e, struct decode_gpu *g, uint32_t r);
int kvl_engine_admit_waiting(struct engine *e, uint32_t gpu);
void kvl_engine_release(struct engine *e, uint32_t r);
int kvl_engine_abandon(struct engine *e, uint32_t r); /* a request that is not decoding yet and whose client has gone */

/* engine_gap.c */
void kvl_engine_join(struct engine *e, struct decode_gpu *g, uint32_t r);
int kvl_engine_run_gaps(struct engine *e);
uint32_t kvl_engine_unwritten(const struct decode_gpu *g, struct request *q);
int kvl_engine_record_moves(struct engine *e, uint32_t gpu);

/* engine_done.c */
int kvl_engine_step_done(struct engine *e, const struct kvl_completion *c);
int kvl_engine_copy_done(struct engine *e, const struct kvl_completion *c);
int kvl_engine_event_due(struct engine *e, const struct kvl_event *event);
int kvl_engine_flush_samples(struct engine *e);

#endif
