/* Admission: who gets a decode slot, and what is given back when a request is over. */
#include "sim/engine_state.h"

#include <errno.h>
#include <stdlib.h>

#include "sim/costs.h"

void kvl_engine_demand_of(const struct engine *e, const struct request *q, struct kvl_demand *demand, uint64_t *host_bytes)
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
uint32_t kvl_engine_growth_frames(const struct engine *e, const struct decode_gpu *g)
{
  if (!kvl_engine_adaptive(e) || g->batch_count == 0) {
    return 0;
  }
  uint64_t steps = e->s->policy.horizon_ns / (g->period_ns + 1) + 1;
  uint64_t tokens = (g->batch_count * steps * g->step_tokens + g->step_items - 1) / g->step_items; /* a request commits as many a step as in the last */
  return (uint32_t)((tokens + e->s->policy.page_tokens - 1) / e->s->policy.page_tokens);
}

/* A page that is taken back before its population was copied is not copied any more: its frame may be another's by then. */
static void forget_serial(struct decode_gpu *g, const struct kvl_move *revoked)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g->serial_count; i++) {
    if (g->serial[i].frame != revoked->frame) {
      g->serial[kept++] = g->serial[i];
    }
  }
  g->serial_count = kept;
}

/* Notes what a plan revoked and clears it; other moves must have been used by the caller. */
void kvl_engine_account_plan(struct decode_gpu *g)
{
  for (uint32_t i = 0; i < g->plan.count; i++) {
    if (g->plan.moves[i].kind == KVL_MOVE_REVOKE) {
      g->revoked_now++;
      forget_serial(g, &g->plan.moves[i]);
    }
  }
  g->plan.count = 0;
}

/* The transfer goes over the decode GPU's ingress link, one after the other; the hand-over before it does not occupy the link. */
int kvl_engine_start_transfer(struct engine *e, struct decode_gpu *g, uint32_t r)
{
  struct request *q = &e->request[r];
  struct kvl_session_bytes b;
  kvl_session_bytes(e->s, q->record.input_tokens, &b);
  uint64_t bytes = b.rows + b.index + b.whole + b.window; /* the same bytes in every mode; where they land differs */
  uint64_t start = kvl_engine_now(e) + e->s->costs.transfer_fixed_ns;
  start = start > g->ingress_free_ns ? start : g->ingress_free_ns;
  g->ingress_free_ns = start + kvl_costs_transfer_ns(&e->s->costs, bytes);
  q->state = IN_TRANSFER;
  return kvl_events_push(&e->events, g->ingress_free_ns, KVL_EVENT_TRANSFER_DONE, r, q->record.id) == 0
           ? 0
           : kvl_err_set(e->err, -ENOMEM, "no memory for events");
}

/* Gives the head of the waiting queue to this GPU if it fits and no other GPU that could take it has fewer sessions. */
int kvl_engine_admit_waiting(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  struct queue *waiting = kvl_engine_waiting_of(e, gpu);
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
    kvl_engine_demand_of(e, q, &demand, &host_bytes);
    if (e->host_used + host_bytes > e->s->node.host_pool_bytes && host_bytes != 0) {
      g->full = true;
      return 0;
    }
    int rc = kvl_resid_admit(g->resid, &demand, kvl_engine_growth_frames(e, g), &g->plan, &q->slot);
    kvl_engine_account_plan(g);
    if (rc == -EAGAIN || rc == -EUSERS) {
      g->full = true;
      return 0;
    }
    if (rc != 0) {
      return kvl_err_set(e->err, rc, "request %llu (%u tokens) wants %u frames, a decode GPU has %u", (unsigned long long)q->record.id,
                         q->max_tokens, demand.fixed_frames, e->config->frames);
    }
    (void)kvl_engine_pop(e, waiting);
    e->waiting_total--;
    struct kvl_plane_request pr = {.gpu = gpu, .slot = q->slot, .session = q->record.session,
                                   .input_tokens = q->record.input_tokens, .max_tokens = q->max_tokens};
    if (e->s->mode == KVL_MODE_RESIDENT) {
      pr.pages = q->max_tokens / e->s->policy.page_tokens + (q->max_tokens % e->s->policy.page_tokens != 0);
      pr.resid = g->resid;
    }
    rc = e->plane->ops->request_open(e->plane, &pr, e->err);
    if (rc != 0) {
      return rc;
    }
    if (g->selected != NULL && g->selected[q->slot] == NULL) { /* all zero between steps */
      g->selected[q->slot] = calloc(kvl_load_tokens_max(e->config->load) / e->s->policy.page_tokens + 2, sizeof **g->selected);
      if (g->selected[q->slot] == NULL) {
        return kvl_err_set(e->err, -ENOMEM, "no memory for selection counts");
      }
    }
    q->record.gpu = gpu;
    q->record.admit_ns = kvl_engine_now(e);
    q->tokens = q->record.input_tokens;
    q->host_bytes = host_bytes;
    e->host_used += host_bytes;
    g->sessions++;
    g->joining++;
    e->tally.sessions_max = g->sessions > e->tally.sessions_max ? g->sessions : e->tally.sessions_max;
    if (e->s->node.prefill_start == KVL_PREFILL_ON_RESERVATION) {
      rc = kvl_engine_enter_prefill(e, r);
    } else {
      rc = kvl_engine_start_transfer(e, g, r);
    }
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

void kvl_engine_release(struct engine *e, uint32_t r)
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

int kvl_engine_abandon(struct engine *e, uint32_t r)
{
  e->gpu[e->request[r].record.gpu].joining--;
  kvl_engine_release(e, r);
  return kvl_engine_finish(e, r);
}
