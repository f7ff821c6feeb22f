/* Completions: of steps, copies, prefills and transfers; and the time line that is sampled from the steps. */
#include "sim/engine_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* In order of time over all GPUs. */
int kvl_engine_flush_samples(struct engine *e)
{
  uint32_t *at = calloc(e->s->node.decode_gpus, sizeof *at);
  if (at == NULL) {
    return kvl_err_set(e->err, -ENOMEM, "no memory for the time line");
  }
  int rc = 0;
  while (rc == 0) {
    const struct kvl_step_sample *first = NULL;
    uint32_t from = 0;
    for (uint32_t i = 0; i < e->s->node.decode_gpus; i++) {
      const struct decode_gpu *g = &e->gpu[i];
      if (at[i] < g->sample_count && (first == NULL || g->sample[at[i]].time_ns < first->time_ns)) {
        first = &g->sample[at[i]];
        from = i;
      }
    }
    if (first == NULL) {
      break;
    }
    at[from]++;
    rc = kvl_store_add_sample(e->config->store, first, e->err);
  }
  free(at);
  return rc;
}

/* A GPU's time line has a bounded number of steps: when it is full, every other one goes and the stride doubles. */
static void sample_step(struct engine *e, uint32_t gpu, const struct kvl_step_result *step)
{
  struct decode_gpu *g = &e->gpu[gpu];
  if (g->sample == NULL || g->sample_skip-- != 0) {
    return;
  }
  if (g->sample_count == g->sample_capacity) {
    g->sample_count /= 2;
    for (uint32_t i = 0; i < g->sample_count; i++) {
      g->sample[i] = g->sample[2 * i];
    }
    g->sample_stride *= 2;
  }
  g->sample_skip = g->sample_stride - 1;
  struct kvl_resid_usage u;
  kvl_resid_usage(g->resid, &u);
  uint64_t held = 0, pages = 0;
  for (uint32_t i = 0; i < g->batch_count; i++) {
    const struct request *q = &e->request[g->batch[i]];
    held += kvl_engine_adaptive(e) ? kvl_resid_held(g->resid, q->slot) : 0;
    pages += q->tokens / e->s->policy.page_tokens;
  }
  struct kvl_step_sample *s = &g->sample[g->sample_count++];
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

static void pages_landed(struct engine *e, struct decode_gpu *g, struct page_copy *copy)
{
  for (uint32_t i = 0; i < copy->count; i++) {
    kvl_resid_copy_done(g->resid, &copy->moves[i]);
  }
  copy->used = false;
  if (copy->request != NONE) { /* the batch changes in the gap */
    kvl_engine_push(e, &g->populated, copy->request);
  }
}

/* What the step selected, page by page, for the lending orders that go by it. */
static void note_selected(const struct engine *e, struct decode_gpu *g)
{
  for (uint32_t i = 0; g->selected != NULL && i < g->batch_count; i++) {
    const struct request *q = &e->request[g->batch[i]];
    kvl_resid_note_selected(g->resid, q->slot, 0, g->selected[q->slot], q->tokens / e->s->policy.page_tokens + 1);
  }
}

int kvl_engine_step_done(struct engine *e, const struct kvl_completion *c)
{
  struct decode_gpu *g = &e->gpu[c->gpu];
  const struct kvl_step_result *step = c->step;
  g->in_step = false;
  if (g->batch_count != 0) {
    g->period_ns = step->end_ns - step->submit_ns;
  }
  kvl_resid_step_done(g->resid, c->tag);
  kvl_tally_step(&e->tally, g->batch_count, g->batch_count == 0 ? 0 : g->step_queries, g->batch_count == 0 ? 0 : g->step_tokens, step);
  sample_step(e, c->gpu, step);
  note_selected(e, g);
  if (step->violations != 0) {
    return kvl_err_set(e->err, -EPROTO, "step %llu of decode GPU %u selected %llu rows that its queries may not see", (unsigned long long)c->tag,
                       c->gpu, (unsigned long long)step->violations);
  }
  if (e->s->mode == KVL_MODE_RESIDENT) {
    g->written_back = g->step;
  } else if (g->batch_count != 0) {
    struct kvl_plane_copy wb = {.gpu = c->gpu, .kind = KVL_COPY_WRITE_BACK, .bytes = g->step_tokens * e->write_back_bytes_per_token,
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
    uint32_t commit = g->items[i].commit;
    if (q->produced == 0) {
      q->record.first_token_ns = step->end_ns;
    }
    q->tokens += commit;
    q->produced += commit;
    if (g->commits != NULL) {
      g->commits[(size_t)q->slot * g->commit_steps + g->step % g->commit_steps] = (uint8_t)commit;
      q->unwritten += commit;
    }
    if (q->produced < q->record.output_tokens && !q->client_gone) {
      g->batch[kept++] = r;
      continue;
    }
    q->record.last_token_ns = step->end_ns;
    kvl_engine_release(e, r);
    int rc = kvl_engine_finish(e, r);
    if (rc != 0) {
      return rc;
    }
  }
  g->batch_count = kept;
  for (; g->landed_first != NONE; g->landed_first = e->copy[g->landed_first].next) {
    pages_landed(e, g, &e->copy[g->landed_first]);
  }
  return 0;
}

int kvl_engine_copy_done(struct engine *e, const struct kvl_completion *c)
{
  struct decode_gpu *g = &e->gpu[c->gpu];
  if ((c->tag & WRITE_BACK_TAG) != 0) {
    g->written_back = c->tag & ~WRITE_BACK_TAG;
    return 0;
  }
  struct page_copy *copy = &e->copy[c->tag];
  if (!g->in_step) {
    pages_landed(e, g, copy);
    return 0;
  }
  copy->next = NONE;
  if (g->landed_first == NONE) {
    g->landed_first = (uint32_t)c->tag;
  } else {
    e->copy[g->landed_last].next = (uint32_t)c->tag;
  }
  g->landed_last = (uint32_t)c->tag;
  return 0;
}

int kvl_engine_event_due(struct engine *e, const struct kvl_event *event)
{
  struct request *q = &e->request[event->request];
  if (event->kind == KVL_EVENT_TIMEOUT) {
    return q->state == OVER || q->record.id != event->id ? 0 : kvl_engine_timeout(e, event->request);
  }
  if (event->kind == KVL_EVENT_TRANSFER_DONE) {
    q->state = READY;
    kvl_engine_push(e, &e->gpu[q->record.gpu].ready, event->request);
    return 0;
  }
  e->prefill[q->prefill_route].busy--;
  q->record.prefill_end_ns = kvl_engine_now(e);
  if (q->record.output_tokens == 0) { /* nothing to decode: over with its prefill */
    q->record.admit_ns = q->record.first_token_ns = q->record.last_token_ns = kvl_engine_now(e);
    uint32_t group = q->prefill_route;
    int rc = kvl_engine_finish(e, event->request);
    return rc != 0 ? rc : kvl_engine_start_prefills(e, group);
  }
  int rc = 0;
  uint32_t group = q->prefill_route;
  if (q->client_gone) {
    rc = e->s->node.prefill_start == KVL_PREFILL_ON_RESERVATION ? kvl_engine_abandon(e, event->request) : kvl_engine_finish(e, event->request);
  } else if (e->s->node.prefill_start == KVL_PREFILL_ON_RESERVATION) {
    rc = kvl_engine_start_transfer(e, &e->gpu[q->record.gpu], event->request);
  } else {
    kvl_engine_wait_for_slot(e, event->request);
  }
  return rc != 0 ? rc : kvl_engine_start_prefills(e, group);
}
