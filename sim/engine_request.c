/* Requests and their queues: arrival, prefill, the end of a request. */
#include "sim/engine_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/costs.h"

void kvl_engine_push(struct engine *e, struct queue *q, uint32_t r)
{
  e->request[r].next = NONE;
  if (q->count++ == 0) {
    q->first = r;
  } else {
    e->request[q->last].next = r;
  }
  q->last = r;
}

uint32_t kvl_engine_pop(struct engine *e, struct queue *q)
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
  e->request[r].state = OVER;
  e->request[r].next = e->request_free;
  e->request_free = r;
  e->active--;
}

/* A record for pages in flight, with a copy of the moves. */
int kvl_engine_new_page_copy(struct engine *e, const struct kvl_move *moves, uint32_t count, uint32_t request, uint32_t *out)
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

uint64_t kvl_engine_now(const struct engine *e)
{
  return e->plane->ops->now(e->plane);
}

bool kvl_engine_adaptive(const struct engine *e)
{
  return e->s->mode == KVL_MODE_ADAPTIVE;
}

/* ---- arrival and prefill ---- */

int kvl_engine_start_prefills(struct engine *e, uint32_t group)
{
  struct prefill_group *p = &e->prefill[group];
  while (p->queue.count != 0 && p->busy < p->gpus) {
    uint32_t r = kvl_engine_pop(e, &p->queue);
    struct kvl_request_record *rec = &e->request[r].record;
    rec->prefill_start_ns = kvl_engine_now(e);
    uint64_t ns = kvl_costs_prefill_ns(&e->s->costs, rec->input_tokens - rec->cached_tokens, rec->cached_tokens);
    p->busy++;
    e->prefill_busy_ns += ns;
    if (kvl_events_push(&e->events, kvl_engine_now(e) + ns, KVL_EVENT_PREFILL_DONE, r, rec->id) != 0) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for events");
    }
  }
  return 0;
}

int kvl_engine_enter_prefill(struct engine *e, uint32_t r)
{
  e->request[r].state = IN_PREFILL;
  kvl_engine_push(e, &e->prefill[e->request[r].prefill_route].queue, r);
  return kvl_engine_start_prefills(e, e->request[r].prefill_route);
}

void kvl_engine_wait_for_slot(struct engine *e, uint32_t r)
{
  e->request[r].state = WAITING;
  kvl_engine_push(e, &e->waiting[e->request[r].decode_route], r);
  e->waiting_total++;
}

/* The queue that a decode GPU is served from. */
struct queue *kvl_engine_waiting_of(const struct engine *e, uint32_t gpu)
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

int kvl_engine_submit(struct engine *e, const struct kvl_request_spec *spec)
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
    .prefill_start_ns = UINT64_MAX, /* never, until it comes */
    .prefill_end_ns = UINT64_MAX,
    .admit_ns = UINT64_MAX,
    .first_token_ns = UINT64_MAX,
    .last_token_ns = UINT64_MAX,
  };
  kvl_tally_submitted(&e->tally, spec->time_ns);
  if (e->s->limits.request_timeout_ns != 0 &&
      kvl_events_push(&e->events, spec->time_ns + e->s->limits.request_timeout_ns, KVL_EVENT_TIMEOUT, r, q->record.id) != 0) {
    return kvl_err_set(e->err, -ENOMEM, "no memory for events");
  }
  if (e->s->node.prefill_start == KVL_PREFILL_ON_RESERVATION && spec->output_tokens != 0) {
    kvl_engine_wait_for_slot(e, r);
    return 0;
  }
  return kvl_engine_enter_prefill(e, r);
}

/* The request is over: recorded, its place in the load's loop is free. Memory was released before. */
int kvl_engine_finish(struct engine *e, uint32_t r)
{
  struct request *q = &e->request[r];
  kvl_tally_request(&e->tally, e->s, &q->record);
  int rc = e->config->store == NULL ? 0 : kvl_store_add_request(e->config->store, &q->record, e->err);
  rc = rc != 0 ? rc : kvl_load_done(e->config->load, q->record.session, q->chain, kvl_engine_now(e), e->err);
  free_request(e, r);
  return rc;
}

static void take_out(struct engine *e, struct queue *q, uint32_t r)
{
  uint32_t before = NONE;
  for (uint32_t i = q->first; i != r; i = e->request[i].next) {
    before = i;
  }
  if (before == NONE) {
    q->first = e->request[r].next;
  } else {
    e->request[before].next = e->request[r].next;
  }
  q->last = q->last == r ? before : q->last;
  q->count--;
}

/* The client has gone. Who only waits leaves at once; whoever is being computed or copied for leaves when that is over, so that nothing is
 * released under a reader or writer (I8). */
int kvl_engine_timeout(struct engine *e, uint32_t r)
{
  struct request *q = &e->request[r];
  q->client_gone = true;
  q->record.aborted = 1;
  if (q->state == IN_PREFILL && q->record.prefill_start_ns == UINT64_MAX) {
    take_out(e, &e->prefill[q->prefill_route].queue, r);
    return q->record.gpu == NONE ? kvl_engine_finish(e, r) : kvl_engine_abandon(e, r);
  }
  if (q->state == WAITING) {
    take_out(e, &e->waiting[q->decode_route], r);
    e->waiting_total--;
    for (uint32_t i = 0; i < e->s->node.decode_gpus; i++) { /* another may be at the head now, and fit */
      e->gpu[i].full = false;
    }
    return kvl_engine_finish(e, r);
  }
  return 0;
}
