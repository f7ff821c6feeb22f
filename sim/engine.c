#include "sim/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "sim/costs.h"
#include "sim/events.h"

enum { NONE = UINT32_MAX, SAMPLES_MAX = 2048, PROGRESS_EVENTS = 2048 };
static const uint64_t WRITE_BACK_TAG = (uint64_t)1 << 63; /* tags of write-backs carry the step's number, others index page_copy */

enum request_state { IN_PREFILL, WAITING, IN_TRANSFER, READY, POPULATING, DECODING };

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
  uint64_t joined_step;
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
  bool used;
};

struct decode_gpu {
  struct kvl_resid *resid;
  void *resid_memory;
  struct kvl_plan plan;
  struct kvl_move *serial;       /* population to finish before the next step */
  uint32_t serial_count, serial_capacity;
  struct kvl_step_item *items;
  uint32_t *batch;               /* requests that decode, in order of joining */
  uint32_t batch_count;
  struct queue ready;            /* transferred, join at the next gap */
  uint32_t bounded;              /* page_copy of the population under way in pieces; NONE */
  uint32_t sessions;             /* admitted and not ended */
  uint32_t joining;              /* of those, not yet decoding */
  uint32_t joined_now, revoked_now;
  uint64_t step, written_back;   /* numbers of the last step begun and of the last whose rows are on the host */
  bool in_step;
  bool full;                     /* the head of the waiting queue did not fit at the last try */
  uint64_t ingress_free_ns;      /* the link from the prefill node */
  uint64_t period_ns;            /* of the last step, its gap included */
  struct kvl_resid_usage reported; /* page moves that were in the store already */
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
  uint64_t next_id;
  struct kvl_tally tally;
  struct kvl_step_sample *sample;  /* thinned: every sample_stride-th step */
  uint32_t sample_count;
  uint64_t sample_stride, sample_skip;
  struct kvl_err *err;
};

/* ---- queues and pools ---- */

static void push(struct engine *e, struct queue *q, uint32_t r)
{
  e->request[r].next = NONE;
  if (q->count++ == 0) {
    q->first = r;
  } else {
    e->request[q->last].next = r;
  }
  q->last = r;
}

static uint32_t pop(struct engine *e, struct queue *q)
{
  uint32_t r = q->first;
  q->first = e->request[r].next;
  q->count--;
  return r;
}

static int new_request(struct engine *e, uint32_t *out)
{
  if (e->request_free == NONE) {
    uint32_t capacity = e->request_capacity == 0 ? 256 : 2 * e->request_capacity;
    struct request *grown = realloc(e->request, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for %u active requests", capacity);
    }
    e->request = grown;
    for (uint32_t i = capacity; i-- > e->request_capacity;) {
      grown[i].next = e->request_free;
      e->request_free = i;
    }
    e->request_capacity = capacity;
  }
  *out = e->request_free;
  e->request_free = e->request[*out].next;
  memset(&e->request[*out], 0, sizeof e->request[*out]);
  e->active++;
  return 0;
}

static void free_request(struct engine *e, uint32_t r)
{
  e->request[r].next = e->request_free;
  e->request_free = r;
  e->active--;
}

/* A record for pages in flight, with a copy of the moves. */
static int new_page_copy(struct engine *e, const struct kvl_move *moves, uint32_t count, uint32_t request, uint32_t *out)
{
  uint32_t i = 0;
  while (i < e->copy_capacity && e->copy[i].used) {
    i++;
  }
  if (i == e->copy_capacity) {
    uint32_t capacity = e->copy_capacity == 0 ? 16 : 2 * e->copy_capacity;
    struct page_copy *grown = realloc(e->copy, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for %u page copies", capacity);
    }
    memset(grown + e->copy_capacity, 0, (capacity - e->copy_capacity) * sizeof *grown);
    e->copy = grown;
    e->copy_capacity = capacity;
  }
  struct page_copy *c = &e->copy[i];
  if (c->capacity < count) {
    struct kvl_move *grown = realloc(c->moves, count * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for %u page moves", count);
    }
    c->moves = grown;
    c->capacity = count;
  }
  memcpy(c->moves, moves, count * sizeof *moves);
  c->count = count;
  c->done = 0;
  c->request = request;
  c->used = true;
  *out = i;
  return 0;
}

static uint64_t now(const struct engine *e)
{
  return e->plane->ops->now(e->plane);
}

static bool adaptive(const struct engine *e)
{
  return e->s->mode == KVL_MODE_ADAPTIVE;
}

/* ---- arrival and prefill ---- */

static int start_prefills(struct engine *e, uint32_t group)
{
  struct prefill_group *p = &e->prefill[group];
  while (p->queue.count != 0 && p->busy < p->gpus) {
    uint32_t r = pop(e, &p->queue);
    struct kvl_request_record *rec = &e->request[r].record;
    rec->prefill_start_ns = now(e);
    uint64_t ns = kvl_costs_prefill_ns(&e->s->costs, rec->input_tokens - rec->cached_tokens, rec->cached_tokens);
    p->busy++;
    if (kvl_events_push(&e->events, now(e) + ns, KVL_EVENT_PREFILL_DONE, r) != 0) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for events");
    }
  }
  return 0;
}

static int enter_prefill(struct engine *e, uint32_t r)
{
  e->request[r].state = IN_PREFILL;
  push(e, &e->prefill[e->request[r].prefill_route].queue, r);
  return start_prefills(e, e->request[r].prefill_route);
}

static void wait_for_slot(struct engine *e, uint32_t r)
{
  e->request[r].state = WAITING;
  push(e, &e->waiting[e->request[r].decode_route], r);
  e->waiting_total++;
}

/* The queue that a decode GPU is served from. */
static struct queue *waiting_of(const struct engine *e, uint32_t gpu)
{
  return &e->waiting[e->routed ? gpu : 0];
}

static uint32_t route(struct engine *e, uint32_t gpus, uint64_t turn)
{
  switch (e->s->node.routing) {
  case KVL_ROUTE_LEAST_LOADED:
    return 0;
  case KVL_ROUTE_ROUND_ROBIN:
    return (uint32_t)(turn % gpus);
  case KVL_ROUTE_RANDOM:
    return kvl_rng_below(&e->route, gpus);
  }
  return 0;
}

static int submit(struct engine *e, const struct kvl_request_spec *spec)
{
  uint32_t r = NONE;
  int rc = new_request(e, &r);
  if (rc != 0) {
    return rc;
  }
  struct request *q = &e->request[r];
  uint32_t cached = 0;
  if (spec->block_count != 0 && e->prefix != NULL) {
    uint64_t hit = (uint64_t)kvl_prefix_store_use(e->prefix, spec->block, spec->block_count) * spec->block_tokens;
    cached = (uint32_t)(hit < spec->input_tokens ? hit : spec->input_tokens);
  } else if (e->s->workload.kind != KVL_WORK_FILE) {
    cached = e->s->workload.cached_tokens;
  }
  q->chain = spec->chain;
  q->prefill_route = route(e, e->s->node.prefill_gpus, e->next_id);
  q->decode_route = route(e, e->s->node.decode_gpus, e->next_id);
  q->max_tokens = spec->input_tokens + spec->output_tokens;
  q->record = (struct kvl_request_record){
    .id = e->next_id++,
    .session = spec->session,
    .gpu = NONE,
    .input_tokens = spec->input_tokens,
    .cached_tokens = cached,
    .output_tokens = spec->output_tokens,
    .submit_ns = spec->time_ns,
  };
  kvl_tally_submitted(&e->tally, spec->time_ns);
  if (e->s->node.prefill_start == KVL_PREFILL_ON_RESERVATION && spec->output_tokens != 0) {
    wait_for_slot(e, r);
    return 0;
  }
  return enter_prefill(e, r);
}

/* The request is over: recorded, its place in the load's loop is free. Memory was released before. */
static int finish(struct engine *e, uint32_t r)
{
  struct request *q = &e->request[r];
  kvl_tally_request(&e->tally, e->s, &q->record);
  int rc = e->config->store == NULL ? 0 : kvl_store_add_request(e->config->store, &q->record, e->err);
  rc = rc != 0 ? rc : kvl_load_done(e->config->load, q->record.session, q->chain, now(e), e->err);
  free_request(e, r);
  return rc;
}

/* ---- admission: who gets a decode slot ---- */

static void demand_of(const struct engine *e, const struct request *q, struct kvl_demand *demand, uint64_t *host_bytes)
{
  struct kvl_session_bytes b;
  kvl_session_bytes(e->s, q->max_tokens, &b);
  bool resident = e->s->mode == KVL_MODE_RESIDENT;
  uint64_t fixed = resident ? b.resident : b.fixed;
  *demand = (struct kvl_demand){
    .fixed_frames = (uint32_t)((fixed + e->page_bytes - 1) / e->page_bytes),
    .input_tokens = q->record.input_tokens,
    .max_tokens = q->max_tokens,
  };
  *host_bytes = resident ? 0 : b.host;
}

/* Frames that the batch's new pages will take within the horizon (I5). */
static uint32_t growth_frames(const struct engine *e, const struct decode_gpu *g)
{
  if (!adaptive(e) || g->batch_count == 0) {
    return 0;
  }
  uint64_t tokens = g->batch_count * (e->s->policy.horizon_ns / (g->period_ns + 1) + 1);
  return (uint32_t)((tokens + e->s->policy.page_tokens - 1) / e->s->policy.page_tokens);
}

/* Notes what a plan revoked and clears it; other moves must have been used by the caller. */
static void account_plan(struct decode_gpu *g)
{
  for (uint32_t i = 0; i < g->plan.count; i++) {
    g->revoked_now += g->plan.moves[i].kind == KVL_MOVE_REVOKE;
  }
  g->plan.count = 0;
}

/* The transfer goes over the decode GPU's ingress link, one after the other; the hand-over before it does not occupy the link. */
static int start_transfer(struct engine *e, struct decode_gpu *g, uint32_t r)
{
  struct request *q = &e->request[r];
  struct kvl_session_bytes b;
  kvl_session_bytes(e->s, q->record.input_tokens, &b);
  uint64_t bytes = b.rows + b.index + b.whole + b.window; /* the same bytes in every mode; where they land differs */
  uint64_t start = now(e) + e->s->costs.transfer_fixed_ns;
  start = start > g->ingress_free_ns ? start : g->ingress_free_ns;
  g->ingress_free_ns = start + kvl_costs_transfer_ns(&e->s->costs, bytes);
  q->state = IN_TRANSFER;
  return kvl_events_push(&e->events, g->ingress_free_ns, KVL_EVENT_TRANSFER_DONE, r) == 0
           ? 0
           : kvl_err_set(e->err, -ENOMEM, "no memory for events");
}

/* Gives the head of the waiting queue to this GPU if it fits and no other GPU that could take it has fewer sessions. */
static int admit_waiting(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  struct queue *waiting = waiting_of(e, gpu);
  while (waiting->count != 0 && g->sessions < e->sessions_max) {
    for (uint32_t i = 0; !e->routed && i < e->s->node.decode_gpus; i++) {
      const struct decode_gpu *other = &e->gpu[i];
      if (i != gpu && !other->full && other->sessions < e->sessions_max && other->sessions < g->sessions) {
        return 0;
      }
    }
    uint32_t r = waiting->first;
    struct request *q = &e->request[r];
    struct kvl_demand demand;
    uint64_t host_bytes;
    demand_of(e, q, &demand, &host_bytes);
    if (e->host_used + host_bytes > e->s->node.host_pool_bytes && host_bytes != 0) {
      g->full = true;
      return 0;
    }
    int rc = kvl_resid_admit(g->resid, &demand, growth_frames(e, g), &g->plan, &q->slot);
    account_plan(g);
    if (rc == -EAGAIN || rc == -EUSERS) {
      g->full = true;
      return 0;
    }
    if (rc != 0) {
      return kvl_err_set(e->err, rc, "request %llu (%u tokens) wants %u frames, a decode GPU has %u", (unsigned long long)q->record.id,
                         q->max_tokens, demand.fixed_frames, e->config->frames);
    }
    (void)pop(e, waiting);
    e->waiting_total--;
    struct kvl_plane_request pr = {.gpu = gpu, .slot = q->slot, .session = q->record.session,
                                   .input_tokens = q->record.input_tokens, .max_tokens = q->max_tokens};
    rc = e->plane->ops->request_open(e->plane, &pr, e->err);
    if (rc != 0) {
      return rc;
    }
    q->record.gpu = gpu;
    q->record.admit_ns = now(e);
    q->tokens = q->record.input_tokens;
    q->host_bytes = host_bytes;
    e->host_used += host_bytes;
    g->sessions++;
    g->joining++;
    e->tally.sessions_max = g->sessions > e->tally.sessions_max ? g->sessions : e->tally.sessions_max;
    if (e->s->node.prefill_start == KVL_PREFILL_ON_RESERVATION) {
      rc = enter_prefill(e, r);
    } else {
      rc = start_transfer(e, g, r);
    }
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

static void release(struct engine *e, uint32_t r)
{
  struct request *q = &e->request[r];
  struct decode_gpu *g = &e->gpu[q->record.gpu];
  e->plane->ops->request_close(e->plane, q->record.gpu, q->slot);
  kvl_resid_end(g->resid, q->slot);
  e->host_used -= q->host_bytes;
  g->sessions--;
  for (uint32_t i = 0; i < e->s->node.decode_gpus; i++) { /* host rows are shared: every GPU may have room now */
    e->gpu[i].full = false;
  }
}

/* ---- the gap between two steps of a GPU ---- */

/* Pages that the batch completed since the last gap and whose rows are on the host: kept on the GPU if a frame is free. */
static int keep_completed_pages(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  for (uint32_t i = 0; i < g->batch_count; i++) {
    struct request *q = &e->request[g->batch[i]];
    uint64_t behind = g->step - g->written_back, own = g->step - q->joined_step + 1;
    uint32_t tokens = q->tokens - (uint32_t)(behind < own ? behind : own);
    if (tokens / e->s->policy.page_tokens == q->pages_complete) {
      continue;
    }
    q->pages_complete = tokens / e->s->policy.page_tokens;
    int rc = kvl_resid_host_complete(g->resid, q->slot, tokens, &g->plan);
    for (uint32_t m = 0; rc == 0 && m < g->plan.count; m++) {
      rc = e->plane->ops->keep(e->plane, gpu, &g->plan.moves[m], e->err);
      kvl_resid_copy_done(g->resid, &g->plan.moves[m]);
    }
    g->plan.count = 0;
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

/* Frames to leave alone when pages are given away: what the batch will grow by, what the next in line needs, and a fair share for those whose
 * population is still to come (I7: need is projected, so that nothing is lent that would be called back at once). */
static uint32_t frames_spoken_for(const struct engine *e, uint32_t gpu, bool for_population)
{
  const struct decode_gpu *g = &e->gpu[gpu];
  const struct queue *waiting = waiting_of(e, gpu);
  uint64_t keep = growth_frames(e, g);
  if (waiting->count != 0 && g->sessions < e->sessions_max) {
    struct kvl_demand demand;
    uint64_t host_bytes;
    demand_of(e, &e->request[waiting->first], &demand, &host_bytes);
    keep += demand.fixed_frames;
  }
  if (!for_population && g->joining != 0) {
    struct kvl_resid_usage u;
    kvl_resid_usage(g->resid, &u);
    keep += (uint64_t)(u.frames - u.reserved) / (g->sessions == 0 ? 1 : g->sessions) * g->joining;
  }
  return keep < UINT32_MAX ? (uint32_t)keep : UINT32_MAX;
}

static int add_serial(struct engine *e, struct decode_gpu *g, const struct kvl_move *moves, uint32_t count)
{
  if (g->serial_count + count > g->serial_capacity) {
    uint32_t capacity = 2 * (g->serial_count + count);
    struct kvl_move *grown = realloc(g->serial, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for %u page moves", capacity);
    }
    g->serial = grown;
    g->serial_capacity = capacity;
  }
  memcpy(g->serial + g->serial_count, moves, count * sizeof *moves);
  g->serial_count += count;
  return 0;
}

static void join(struct engine *e, struct decode_gpu *g, uint32_t r)
{
  struct request *q = &e->request[r];
  q->state = DECODING;
  q->joined_step = g->step + 1;
  g->batch[g->batch_count++] = r;
  g->joining--;
  g->joined_now++;
}

/* One transferred request: population by the configured way of copying (M8). */
static int begin_population(struct engine *e, uint32_t gpu, uint32_t r)
{
  struct decode_gpu *g = &e->gpu[gpu];
  struct request *q = &e->request[r];
  q->pages_complete = q->tokens / e->s->policy.page_tokens;
  if (e->s->mode == KVL_MODE_RESIDENT) {
    join(e, g, r);
    return 0;
  }
  int rc = kvl_resid_populate(g->resid, q->slot, frames_spoken_for(e, gpu, true), &g->plan);
  if (rc != 0) {
    return kvl_err_set(e->err, rc, "population of request %llu failed", (unsigned long long)q->record.id);
  }
  uint32_t count = g->plan.count;
  g->plan.count = 0;
  if (count == 0 || e->s->policy.admission_copy == KVL_COPY_SERIAL) {
    rc = add_serial(e, g, g->plan.moves, count);
    for (uint32_t i = 0; i < count; i++) { /* done before the step that first reads them */
      kvl_resid_copy_done(g->resid, &g->plan.moves[i]);
    }
    join(e, g, r);
    return rc;
  }
  uint32_t copy;
  rc = new_page_copy(e, g->plan.moves, count, r, &copy);
  if (rc != 0) {
    return rc;
  }
  q->state = POPULATING;
  if (e->s->policy.admission_copy == KVL_COPY_BOUNDED) {
    g->bounded = copy;
    return 0;
  }
  struct kvl_plane_copy pc = {.gpu = gpu, .kind = KVL_COPY_PAGES, .bytes = count * e->page_bytes, .tag = copy,
                              .moves = e->copy[copy].moves, .move_count = count};
  return e->plane->ops->copy(e->plane, &pc, e->err);
}

/* The next piece of a bounded population; the request joins after the last. */
static int continue_bounded(struct engine *e, struct decode_gpu *g)
{
  struct page_copy *c = &e->copy[g->bounded];
  uint64_t pages = e->s->policy.admission_chunk_bytes / e->page_bytes;
  pages = pages == 0 ? 1 : pages;
  uint32_t piece = c->count - c->done < pages ? c->count - c->done : (uint32_t)pages;
  int rc = add_serial(e, g, c->moves + c->done, piece);
  for (uint32_t i = 0; i < piece; i++) {
    kvl_resid_copy_done(g->resid, &c->moves[c->done + i]);
  }
  c->done += piece;
  if (c->done == c->count) {
    c->used = false;
    g->bounded = NONE;
    if (c->request != NONE) {
      join(e, g, c->request);
    }
  }
  return rc;
}

static int join_ready(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  int rc = 0;
  if (g->bounded != NONE) {
    rc = continue_bounded(e, g);
  }
  while (rc == 0 && g->ready.count != 0 && g->bounded == NONE) {
    rc = begin_population(e, gpu, pop(e, &g->ready));
    if (rc == 0 && g->bounded != NONE) {
      rc = continue_bounded(e, g);
    }
  }
  return rc;
}

static int give_back(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  uint32_t growth = growth_frames(e, g);
  int rc = kvl_resid_make_room(g->resid, growth, &g->plan);
  account_plan(g);
  rc = rc != 0 ? rc : kvl_resid_give_back(g->resid, frames_spoken_for(e, gpu, false), &g->plan);
  if (rc != 0) {
    return kvl_err_set(e->err, rc, "give-back failed");
  }
  uint32_t count = g->plan.count, copy;
  g->plan.count = 0;
  if (count == 0) {
    return 0;
  }
  rc = new_page_copy(e, g->plan.moves, count, NONE, &copy);
  if (rc != 0) {
    return rc;
  }
  struct kvl_plane_copy pc = {.gpu = gpu, .kind = KVL_COPY_PAGES, .bytes = count * e->page_bytes, .tag = copy,
                              .moves = e->copy[copy].moves, .move_count = count};
  return e->plane->ops->copy(e->plane, &pc, e->err);
}

static int record_moves(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  if (e->config->store == NULL || (g->serial_count == 0 && g->revoked_now == 0)) {
    return 0;
  }
  struct kvl_resid_usage u;
  kvl_resid_usage(g->resid, &u);
  struct kvl_move_record record = {
    .time_ns = now(e),
    .gpu = gpu,
    .revoked = (uint32_t)(u.pages_revoked - g->reported.pages_revoked),
    .populated = g->serial_count,
    .given_back = (uint32_t)(u.pages_given_back - g->reported.pages_given_back),
    .bytes = g->serial_count * e->page_bytes,
  };
  g->reported = u;
  return kvl_store_add_move(e->config->store, &record, e->err);
}

static int begin_step(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  if (g->batch_count == 0 && g->serial_count == 0) {
    return 0;
  }
  /* A tail row's place is reused only after its host copy is complete: hold the step back while the tail could run over. */
  if (e->s->mode != KVL_MODE_RESIDENT && g->step - g->written_back + e->s->policy.page_tokens >= e->s->policy.tail_tokens) {
    return 0;
  }
  int rc = record_moves(e, gpu);
  if (rc != 0) {
    return rc;
  }
  for (uint32_t i = 0; i < g->batch_count; i++) {
    const struct request *q = &e->request[g->batch[i]];
    struct kvl_step_item *item = &g->items[i];
    *item = (struct kvl_step_item){.slot = q->slot, .tokens = q->tokens};
    if (adaptive(e)) {
      int whole;
      item->page_map = kvl_resid_page_map(g->resid, q->slot, &item->pages, &whole);
      item->whole = whole != 0;
    }
  }
  struct kvl_plane_step step = {
    .gpu = gpu,
    .number = ++g->step,
    .admissions = g->joined_now,
    .revoked_pages = g->revoked_now,
    .serial = g->serial,
    .serial_count = g->serial_count,
    .items = g->items,
    .count = g->batch_count,
  };
  kvl_resid_step_begun(g->resid, g->step);
  rc = e->plane->ops->step(e->plane, &step, e->err);
  g->in_step = true;
  g->joined_now = g->revoked_now = g->serial_count = 0;
  return rc;
}

/* Everything that happens between two steps, in this order: completed pages, admissions, joining, growth and give-back, the next step. */
static int gap(struct engine *e, uint32_t gpu)
{
  int rc = adaptive(e) ? keep_completed_pages(e, gpu) : 0;
  rc = rc != 0 ? rc : admit_waiting(e, gpu);
  rc = rc != 0 ? rc : join_ready(e, gpu);
  rc = rc != 0 || !adaptive(e) ? rc : give_back(e, gpu);
  return rc != 0 ? rc : begin_step(e, gpu);
}

static bool has_gap_work(const struct engine *e, uint32_t gpu)
{
  const struct decode_gpu *g = &e->gpu[gpu];
  return !g->in_step && (g->batch_count != 0 || g->ready.count != 0 || g->bounded != NONE || (waiting_of(e, gpu)->count != 0 && !g->full));
}

static int run_gaps(struct engine *e)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < e->s->node.decode_gpus; i++) {
    if (has_gap_work(e, i)) {
      rc = gap(e, i);
    }
  }
  return rc;
}

/* ---- completions ---- */

static int flush_samples(struct engine *e)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && e->config->store != NULL && i < e->sample_count; i++) {
    rc = kvl_store_add_sample(e->config->store, &e->sample[i], e->err);
  }
  return rc;
}

/* The time line keeps at most SAMPLES_MAX steps: when full, every other one goes and the stride doubles. */
static void sample_step(struct engine *e, uint32_t gpu, const struct kvl_step_result *step)
{
  if (e->sample == NULL || e->sample_skip-- != 0) {
    return;
  }
  if (e->sample_count == SAMPLES_MAX) {
    for (uint32_t i = 0; i < SAMPLES_MAX / 2; i++) {
      e->sample[i] = e->sample[2 * i];
    }
    e->sample_count = SAMPLES_MAX / 2;
    e->sample_stride *= 2;
  }
  e->sample_skip = e->sample_stride - 1;
  const struct decode_gpu *g = &e->gpu[gpu];
  struct kvl_resid_usage u;
  kvl_resid_usage(g->resid, &u);
  uint64_t held = 0, pages = 0;
  for (uint32_t i = 0; i < g->batch_count; i++) {
    const struct request *q = &e->request[g->batch[i]];
    held += adaptive(e) ? kvl_resid_held(g->resid, q->slot) : 0;
    pages += q->tokens / e->s->policy.page_tokens;
  }
  struct kvl_step_sample *s = &e->sample[e->sample_count++];
  *s = (struct kvl_step_sample){
    .time_ns = step->end_ns,
    .step_ns = step->end_ns - step->step_begin_ns,
    .gpu = gpu,
    .batch = g->batch_count,
    .waiting = e->waiting_total,
    .frames_free = u.free,
    .frames_reserved = u.reserved,
    .frames_lent = u.lent,
    .frames_retiring = u.retiring,
    .resident_share = e->s->mode == KVL_MODE_RESIDENT ? 1.0 : pages == 0 ? 0.0 : (double)held / (double)pages,
  };
  memcpy(s->lanes, step->lanes, sizeof s->lanes);
  memcpy(s->stall_ns, step->stall_ns, sizeof s->stall_ns);
}

static int step_done(struct engine *e, const struct kvl_completion *c)
{
  struct decode_gpu *g = &e->gpu[c->gpu];
  const struct kvl_step_result *step = c->step;
  g->in_step = false;
  g->period_ns = step->end_ns - step->submit_ns;
  kvl_resid_step_done(g->resid, c->tag);
  kvl_tally_step(&e->tally, g->batch_count, step);
  sample_step(e, c->gpu, step);
  if (step->violations != 0) {
    return kvl_err_set(e->err, -EPROTO, "step %llu of decode GPU %u selected %llu rows that its queries may not see", (unsigned long long)c->tag,
                       c->gpu, (unsigned long long)step->violations);
  }
  if (e->s->mode == KVL_MODE_RESIDENT) {
    g->written_back = g->step;
  } else if (g->batch_count != 0) {
    struct kvl_plane_copy wb = {.gpu = c->gpu, .kind = KVL_COPY_WRITE_BACK, .bytes = g->batch_count * e->write_back_bytes_per_token,
                                .tag = WRITE_BACK_TAG | g->step};
    int rc = e->plane->ops->copy(e->plane, &wb, e->err);
    if (rc != 0) {
      return rc;
    }
  } else {
    g->written_back = g->step;
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g->batch_count; i++) {
    uint32_t r = g->batch[i];
    struct request *q = &e->request[r];
    q->tokens++;
    if (q->produced++ == 0) {
      q->record.first_token_ns = step->end_ns;
    }
    if (q->produced < q->record.output_tokens) {
      g->batch[kept++] = r;
      continue;
    }
    q->record.last_token_ns = step->end_ns;
    release(e, r);
    int rc = finish(e, r);
    if (rc != 0) {
      return rc;
    }
  }
  g->batch_count = kept;
  return 0;
}

static int copy_done(struct engine *e, const struct kvl_completion *c)
{
  struct decode_gpu *g = &e->gpu[c->gpu];
  if ((c->tag & WRITE_BACK_TAG) != 0) {
    g->written_back = c->tag & ~WRITE_BACK_TAG;
    return 0;
  }
  struct page_copy *copy = &e->copy[c->tag];
  for (uint32_t i = 0; i < copy->count; i++) {
    kvl_resid_copy_done(g->resid, &copy->moves[i]);
  }
  copy->used = false;
  if (copy->request != NONE) {
    join(e, g, copy->request);
  }
  return 0;
}

static int event_due(struct engine *e, const struct kvl_event *event)
{
  struct request *q = &e->request[event->request];
  if (event->kind == KVL_EVENT_TRANSFER_DONE) {
    q->state = READY;
    push(e, &e->gpu[q->record.gpu].ready, event->request);
    return 0;
  }
  e->prefill[q->prefill_route].busy--;
  q->record.prefill_end_ns = now(e);
  if (q->record.output_tokens == 0) { /* nothing to decode: over with its prefill */
    q->record.admit_ns = q->record.first_token_ns = q->record.last_token_ns = now(e);
    uint32_t group = q->prefill_route;
    int rc = finish(e, event->request);
    return rc != 0 ? rc : start_prefills(e, group);
  }
  int rc = 0;
  if (e->s->node.prefill_start == KVL_PREFILL_ON_RESERVATION) {
    rc = start_transfer(e, &e->gpu[q->record.gpu], event->request);
  } else {
    wait_for_slot(e, event->request);
  }
  return rc != 0 ? rc : start_prefills(e, q->prefill_route);
}

/* ---- checks ---- */

static int verify(struct engine *e)
{
  uint64_t host = 0;
  uint32_t sessions = 0;
  for (uint32_t i = 0; i < e->s->node.decode_gpus; i++) {
    int code = kvl_resid_verify(e->gpu[i].resid);
    if (code != 0) {
      return kvl_err_set(e->err, -EPROTO, "decode GPU %u at %llu ns: %s", i, (unsigned long long)now(e), kvl_resid_verify_text(code));
    }
    sessions += e->gpu[i].sessions;
    for (uint32_t k = 0; k < e->gpu[i].batch_count; k++) {
      host += e->request[e->gpu[i].batch[k]].host_bytes;
    }
  }
  if (host > e->host_used || e->host_used > e->s->node.host_pool_bytes || sessions > e->active) {
    return kvl_err_set(e->err, -EPROTO, "host pool: %llu bytes reserved, %llu held by the batches, %llu in all", (unsigned long long)e->host_used,
                       (unsigned long long)host, (unsigned long long)e->s->node.host_pool_bytes);
  }
  return e->plane->ops->verify == NULL ? 0 : e->plane->ops->verify(e->plane, e->err);
}

/* ---- the loop ---- */

static int one_event(struct engine *e, bool *idle)
{
  uint64_t arrival = kvl_load_next_ns(e->config->load), planned = kvl_events_next_ns(&e->events);
  uint64_t next = arrival < planned ? arrival : planned;
  if (e->s->limits.simulated_ns_max != 0 && next != UINT64_MAX && next > e->s->limits.simulated_ns_max) {
    next = e->s->limits.simulated_ns_max;
  }
  struct kvl_completion completion;
  int rc = e->plane->ops->wait_until(e->plane, next, &completion, e->err);
  if (rc < 0) {
    return rc;
  }
  if (rc == 1) {
    return completion.kind == KVL_DONE_STEP ? step_done(e, &completion) : copy_done(e, &completion);
  }
  if (next == UINT64_MAX) {
    *idle = true;
    return 0;
  }
  if (planned <= next) { /* planned events before arrivals of the same time: room is made before it is asked for */
    struct kvl_event event = kvl_events_pop(&e->events);
    return event_due(e, &event);
  }
  struct kvl_request_spec spec;
  rc = kvl_load_take(e->config->load, next, &spec, e->err);
  return rc == 1 ? submit(e, &spec) : rc;
}

static int loop(struct engine *e, enum kvl_run_status *status)
{
  const struct kvl_engine_config *c = e->config;
  uint64_t events = 0, total = kvl_load_total(c->load);
  *status = KVL_RUN_COMPLETE;
  for (;;) {
    bool idle = false;
    int rc = one_event(e, &idle);
    rc = rc != 0 ? rc : run_gaps(e);
    rc = rc != 0 || !c->verify ? rc : verify(e);
    if (rc != 0) {
      return rc;
    }
    if (e->active == 0 && kvl_load_exhausted(c->load)) {
      return 0;
    }
    if (idle) {
      return kvl_err_set(e->err, -EPROTO, "nothing moves: %u requests are active, %u of them waiting for a decode slot (a bug)", e->active,
                         e->waiting_total);
    }
    if ((c->stop != NULL && *c->stop != 0) || (e->s->limits.simulated_ns_max != 0 && now(e) >= e->s->limits.simulated_ns_max)) {
      *status = KVL_RUN_INTERRUPTED;
      return 0;
    }
    if (c->progress != NULL && events++ % PROGRESS_EVENTS == 0) {
      c->progress(c->progress_context, now(e), e->tally.completed, total);
    }
  }
}

/* Requests that an interruption cut short count as aborted. Their memory goes with the planes and policies. */
static int abort_active(struct engine *e)
{
  bool *is_free = calloc(e->request_capacity + 1, sizeof *is_free);
  if (is_free == NULL) {
    return kvl_err_set(e->err, -ENOMEM, "no memory to close the run");
  }
  for (uint32_t i = e->request_free; i != NONE; i = e->request[i].next) {
    is_free[i] = true;
  }
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < e->request_capacity; i++) {
    if (!is_free[i]) {
      e->request[i].record.aborted = 1;
      kvl_tally_request(&e->tally, e->s, &e->request[i].record);
      rc = e->config->store == NULL ? 0 : kvl_store_add_request(e->config->store, &e->request[i].record, e->err);
    }
  }
  free(is_free);
  return rc;
}

static int open_gpu(struct engine *e, struct decode_gpu *g)
{
  const struct kvl_engine_config *c = e->config;
  const struct kvl_scenario *s = e->s;
  uint32_t page_tokens = s->policy.page_tokens;
  uint64_t give = s->policy.give_back_bytes_max / e->page_bytes;
  struct kvl_resid_config rc = {
    .mode = s->mode,
    .frames = c->frames,
    .requests_max = c->slots,
    .pages_max = s->mode == KVL_MODE_ADAPTIVE ? kvl_load_tokens_max(c->load) / page_tokens + 1 : 0,
    .tokens_per_page = page_tokens,
    .give_back_pages_max = (uint32_t)(give < c->frames ? give : c->frames),
    .revoke_order = s->policy.revoke_order,
    .give_order = s->policy.give_order,
  };
  g->bounded = NONE;
  g->resid_memory = aligned_alloc(64, (kvl_resid_bytes(&rc) + 63) / 64 * 64);
  g->plan.capacity = KVL_PLAN_MOVES(&rc);
  g->plan.moves = malloc(g->plan.capacity * sizeof *g->plan.moves);
  g->items = calloc(c->slots, sizeof *g->items);
  g->batch = calloc(c->slots, sizeof *g->batch);
  if (g->resid_memory == NULL || g->plan.moves == NULL || g->items == NULL || g->batch == NULL) {
    return kvl_err_set(e->err, -ENOMEM, "no memory for a decode GPU of %u frames", c->frames);
  }
  g->resid = kvl_resid_init(g->resid_memory, &rc);
  return 0;
}

static int open_engine(struct engine *e)
{
  const struct kvl_scenario *s = e->s;
  e->request_free = NONE;
  e->page_bytes = kvl_page_bytes(s);
  e->write_back_bytes_per_token = e->page_bytes / s->policy.page_tokens;
  uint32_t limit = s->mode == KVL_MODE_RESIDENT ? 0 : s->node.sessions_per_gpu_max; /* the published limit is one of the other two modes */
  limit = limit == 0 || limit > e->config->slots ? e->config->slots : limit;
  e->sessions_max = s->limits.batch_max != 0 && s->limits.batch_max < limit ? s->limits.batch_max : limit;
  kvl_tally_init(&e->tally);
  e->tally.matched_batch = e->config->matched_batch;
  e->routed = s->node.routing != KVL_ROUTE_LEAST_LOADED;
  kvl_rng_init(&e->route, s->seed, "routing", 0);
  uint32_t groups = e->routed ? s->node.prefill_gpus : 1;
  e->gpu = calloc(s->node.decode_gpus, sizeof *e->gpu);
  e->waiting = calloc(s->node.decode_gpus, sizeof *e->waiting);
  e->prefill = calloc(groups, sizeof *e->prefill);
  for (uint32_t i = 0; e->prefill != NULL && i < groups; i++) {
    e->prefill[i].gpus = e->routed ? 1 : s->node.prefill_gpus;
  }
  if (e->gpu == NULL || e->waiting == NULL || e->prefill == NULL) {
    return kvl_err_set(e->err, -ENOMEM, "no memory for %u decode GPUs", s->node.decode_gpus);
  }
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < s->node.decode_gpus; i++) {
    rc = open_gpu(e, &e->gpu[i]);
  }
  if (rc == 0 && e->config->store != NULL) {
    e->sample = malloc(SAMPLES_MAX * sizeof *e->sample);
    e->sample_stride = 1;
    rc = e->sample == NULL ? kvl_err_set(e->err, -ENOMEM, "no memory for the time line") : 0;
  }
  if (rc == 0 && s->workload.prefix_store_bytes != 0) {
    struct kvl_session_bytes token;
    kvl_session_bytes(s, 65536, &token);
    uint64_t block_tokens = kvl_load_block_tokens(e->config->load);
    uint64_t block_bytes = (token.rows + token.index + token.whole) * block_tokens / 65536;
    e->prefix = block_bytes == 0 ? NULL : kvl_prefix_store_create(s->workload.prefix_store_bytes / block_bytes);
    rc = block_bytes != 0 && e->prefix == NULL ? kvl_err_set(e->err, -ENOMEM, "no memory for the prefix store") : 0;
  }
  return rc;
}

static void close_engine(struct engine *e)
{
  for (uint32_t i = 0; e->gpu != NULL && i < e->s->node.decode_gpus; i++) {
    struct decode_gpu *g = &e->gpu[i];
    free(g->resid_memory);
    free(g->plan.moves);
    free(g->serial);
    free(g->items);
    free(g->batch);
  }
  for (uint32_t i = 0; i < e->copy_capacity; i++) {
    free(e->copy[i].moves);
  }
  free(e->copy);
  free(e->waiting);
  free(e->prefill);
  free(e->gpu);
  free(e->request);
  free(e->sample);
  kvl_prefix_store_destroy(e->prefix);
  kvl_events_deinit(&e->events);
}

static int store_points(struct engine *e)
{
  int rc = 0;
  uint32_t points = e->tally.fetched + e->tally.lanes[KVL_TIER_PAGE] + e->tally.lanes[KVL_TIER_TAIL] == 0 ? 0 : e->s->model.selection.points;
  for (uint32_t i = 0; rc == 0 && i < e->s->node.decode_gpus; i++) {
    for (uint32_t p = 0; rc == 0 && p < points; p++) {
      struct kvl_plane_point t;
      e->plane->ops->point(e->plane, i, p, &t);
      struct kvl_point_counter counter = {.gpu = i, .point = p, .layer = e->s->model.selection.point[p].layer,
                                          .cache = e->s->model.selection.point[p].cache, .fetched = t.fetched, .overflow = t.overflow};
      memcpy(counter.lanes, t.lanes, sizeof counter.lanes);
      rc = kvl_store_add_point(e->config->store, &counter, e->err);
    }
  }
  return rc;
}

static void summarize(struct engine *e, struct kvl_summary *summary)
{
  kvl_tally_summary(&e->tally, summary);
  summary->simulated_s = (double)now(e) / 1e9;
  uint64_t busy = 0;
  for (uint32_t i = 0; i < e->s->node.decode_gpus; i++) {
    struct kvl_resid_usage u;
    kvl_resid_usage(e->gpu[i].resid, &u);
    summary->pages_lent += u.pages_lent;
    summary->pages_revoked += u.pages_revoked;
    summary->pages_given_back += u.pages_given_back;
    summary->host_link_bytes += e->plane->ops->link_bytes(e->plane, i);
    busy += e->plane->ops->link_busy_ns(e->plane, i);
  }
  summary->host_link_busy_share = now(e) == 0 ? 0.0 : (double)busy / (double)now(e) / (double)e->s->node.decode_gpus;
}

int kvl_engine_run(const struct kvl_engine_config *config, struct kvl_engine_result *result, struct kvl_err *err)
{
  struct engine *e = calloc(1, sizeof *e);
  if (e == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the engine");
  }
  e->config = config;
  e->s = config->scenario;
  e->plane = config->plane;
  e->err = err;
  int rc = open_engine(e);
  rc = rc != 0 ? rc : loop(e, &result->status);
  if (rc == 0 && result->status == KVL_RUN_INTERRUPTED) {
    rc = abort_active(e);
  }
  rc = rc != 0 || config->store == NULL ? rc : flush_samples(e);
  rc = rc != 0 || config->store == NULL ? rc : store_points(e);
  if (rc == 0 && e->prefix != NULL) {
    rc = kvl_prefix_store_status(e->prefix) == 0 ? 0 : kvl_err_set(err, -ENOMEM, "no memory for the prefix store");
  }
  if (rc == 0) {
    summarize(e, &result->summary);
    result->matched_steps = e->tally.matched_steps;
    result->matched_step_ns = e->tally.matched_steps == 0 ? 0 : e->tally.matched_ns / e->tally.matched_steps;
  }
  close_engine(e);
  free(e);
  return rc;
}
