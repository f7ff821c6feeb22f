/* The gap between two steps of a decode GPU: completed pages, admissions, joining, growth and give-back, the next step. */
#include "sim/engine_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of a decoding request whose rows are not on the host yet. */
uint32_t kvl_engine_unwritten(const struct decode_gpu *g, struct request *q)
{
  const uint8_t *commits = &g->commits[(size_t)q->slot * g->commit_steps];
  for (; q->returned_step < g->written_back; q->returned_step++) {
    q->unwritten -= commits[(q->returned_step + 1) % g->commit_steps];
  }
  return q->unwritten;
}

/* Pages that the batch completed since the last gap and whose rows are on the host: kept on the GPU if a frame is free. */
static int keep_completed_pages(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  for (uint32_t i = 0; i < g->batch_count; i++) {
    struct request *q = &e->request[g->batch[i]];
    uint32_t tokens = q->tokens - kvl_engine_unwritten(g, q);
    if (tokens / e->s->policy.page_tokens == q->pages_complete) {
      continue;
    }
    q->pages_complete = tokens / e->s->policy.page_tokens;
    int rc = kvl_resid_host_complete(g->resid, q->slot, tokens, &g->plan);
    for (uint32_t m = 0; rc == 0 && m < g->plan.count; m++) {
      g->kept_now++;
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
  const struct queue *waiting = kvl_engine_waiting_of(e, gpu);
  uint64_t keep = kvl_engine_growth_frames(e, g);
  if (waiting->count != 0 && g->sessions < e->sessions_max) {
    struct kvl_demand demand;
    uint64_t host_bytes;
    kvl_engine_demand_of(e, &e->request[waiting->first], &demand, &host_bytes);
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
  if (count == 0) {
    return 0;
  }
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

void kvl_engine_join(struct engine *e, struct decode_gpu *g, uint32_t r)
{
  struct request *q = &e->request[r];
  q->state = DECODING;
  q->joined_step = g->step + 1;
  q->returned_step = g->step;
  g->batch[g->batch_count++] = r;
  g->joining--;
  g->joined_now++;
}

/* The pages of a record go over the link beside the steps. */
static int send_pages(struct engine *e, uint32_t gpu, uint32_t copy)
{
  const struct page_copy *c = &e->copy[copy];
  e->gpu[gpu].copied_now += c->count;
  struct kvl_plane_copy pc = {.gpu = gpu, .kind = KVL_COPY_PAGES, .bytes = c->count * e->page_bytes, .tag = copy,
                              .moves = c->moves, .move_count = c->count};
  return e->plane->ops->copy(e->plane, &pc, e->err);
}

/* One transferred request: population by the configured way of copying (M8). */
static int begin_population(struct engine *e, uint32_t gpu, uint32_t r)
{
  struct decode_gpu *g = &e->gpu[gpu];
  struct request *q = &e->request[r];
  q->pages_complete = q->tokens / e->s->policy.page_tokens;
  if (e->s->mode == KVL_MODE_RESIDENT) {
    kvl_engine_join(e, g, r);
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
    kvl_engine_join(e, g, r);
    return rc;
  }
  uint32_t copy;
  rc = kvl_engine_new_page_copy(e, g->plan.moves, count, r, &copy);
  if (rc != 0) {
    return rc;
  }
  q->state = POPULATING;
  if (e->s->policy.admission_copy == KVL_COPY_BOUNDED) {
    g->bounded = copy;
    return 0;
  }
  return send_pages(e, gpu, copy);
}

/* The next piece of a bounded population, in all no more than the bound between two steps; the request joins after the last. */
static int continue_bounded(struct engine *e, struct decode_gpu *g)
{
  struct page_copy *c = &e->copy[g->bounded];
  uint64_t pages = e->s->policy.admission_chunk_bytes / e->page_bytes;
  pages = pages == 0 ? 1 : pages;
  int rc = 0;
  for (; rc == 0 && g->serial_count < pages && c->done < c->count; c->done++) {
    const struct kvl_move *m = &c->moves[c->done];
    uint32_t map_pages;
    int whole;
    kvl_resid_copy_done(g->resid, m);
    if (kvl_resid_page_map(g->resid, m->request, &map_pages, &whole)[m->page] == m->frame) { /* else it was taken back while it waited */
      rc = add_serial(e, g, m, 1);
    }
  }
  if (c->done == c->count) {
    c->used = false;
    g->bounded = NONE;
    if (c->request != NONE) {
      kvl_engine_join(e, g, c->request);
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
  while (rc == 0 && g->populated.count != 0) {
    uint32_t r = kvl_engine_pop(e, &g->populated);
    if (e->request[r].client_gone) {
      rc = kvl_engine_abandon(e, r);
    } else {
      kvl_engine_join(e, g, r);
    }
  }
  while (rc == 0 && g->ready.count != 0 && g->bounded == NONE) {
    uint32_t r = kvl_engine_pop(e, &g->ready);
    if (e->request[r].client_gone) {
      rc = kvl_engine_abandon(e, r);
      continue;
    }
    rc = begin_population(e, gpu, r);
    if (rc == 0 && g->bounded != NONE) {
      rc = continue_bounded(e, g);
    }
  }
  return rc;
}

static int give_back(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  uint32_t growth = kvl_engine_growth_frames(e, g);
  int rc = kvl_resid_make_room(g->resid, growth, &g->plan);
  kvl_engine_account_plan(g);
  rc = rc != 0 || g->gave ? rc : kvl_resid_give_back(g->resid, frames_spoken_for(e, gpu, false), &g->plan);
  if (rc != 0) {
    return kvl_err_set(e->err, rc, "give-back failed");
  }
  uint32_t count = g->plan.count, copy;
  g->plan.count = 0;
  if (count == 0) {
    return 0;
  }
  g->gave = true;
  rc = kvl_engine_new_page_copy(e, g->plan.moves, count, NONE, &copy);
  if (rc != 0) {
    return rc;
  }
  return send_pages(e, gpu, copy);
}

/* What happened to pages since the last record; the sums over a run are the summary's. */
int kvl_engine_record_moves(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  if (e->config->store == NULL || !kvl_engine_adaptive(e)) {
    return 0;
  }
  struct kvl_resid_usage u;
  kvl_resid_usage(g->resid, &u);
  uint32_t lent = (uint32_t)(u.pages_lent - g->reported.pages_lent), given = (uint32_t)(u.pages_given_back - g->reported.pages_given_back);
  struct kvl_move_record record = {
    .time_ns = kvl_engine_now(e),
    .gpu = gpu,
    .revoked = (uint32_t)(u.pages_revoked - g->reported.pages_revoked),
    .populated = lent - given - g->kept_now,
    .given_back = given,
    .kept = g->kept_now,
    .bytes = (g->serial_count + g->copied_now) * e->page_bytes,
  };
  if (lent == 0 && record.revoked == 0 && record.bytes == 0) {
    return 0;
  }
  g->reported = u;
  g->kept_now = g->copied_now = 0;
  return kvl_store_add_move(e->config->store, &record, e->err);
}

/* Tokens that a request may commit now: a tail row's place is reused only after its host copy is complete. */
static uint32_t tail_room(const struct engine *e, const struct decode_gpu *g, struct request *q)
{
  if (e->s->mode == KVL_MODE_RESIDENT) {
    return UINT32_MAX;
  }
  uint32_t taken = kvl_engine_unwritten(g, q) + e->s->policy.page_tokens;
  return taken >= e->s->policy.tail_tokens || g->step - q->returned_step >= g->commit_steps ? 0 : e->s->policy.tail_tokens - taken;
}

/* How many drafts of each request are verified, and how many of those will be accepted (the step's end will tell the engine, not before). No draft is
 * verified past the end of the answer, nor past what the tail can hold. */
static void schedule_drafts(struct engine *e, struct decode_gpu *g)
{
  struct kvl_dspark *d = &e->dspark;
  for (uint32_t i = 0; i < g->batch_count; i++) {
    struct request *q = &e->request[g->batch[i]];
    uint32_t left = q->record.output_tokens - q->produced, room = tail_room(e, g, q), kept = 0;
    uint32_t offered = left < room ? left - 1 : room - 1;
    offered = offered < d->curve.drafts ? offered : d->curve.drafts;
    d->request[i].drafts = offered;
    for (uint32_t k = 0; k < offered; k++) {
      bool accepted = kvl_dspark_draw(&d->luck, &d->curve, q->record.session, q->tokens + 1 + k, k, &d->request[i].confidence[k]);
      kept += accepted && kept == k;
    }
    g->items[i].commit = kept;
  }
  (void)kvl_dspark_plan(d->request, g->batch_count, d->step_ns, d->draft_ns[g->batch_count], d->best, d->heap, d->verified);
  for (uint32_t i = 0; i < g->batch_count; i++) {
    struct kvl_step_item *item = &g->items[i];
    item->queries = d->verified[i] + 1;
    item->commit = (item->commit < d->verified[i] ? item->commit : d->verified[i]) + 1;
  }
}

static int begin_step(struct engine *e, uint32_t gpu)
{
  struct decode_gpu *g = &e->gpu[gpu];
  if (g->batch_count == 0 && g->serial_count == 0) {
    return 0;
  }
  for (uint32_t i = 0; i < g->batch_count; i++) { /* hold the step back while a tail could run over */
    if (tail_room(e, g, &e->request[g->batch[i]]) == 0) {
      return 0;
    }
  }
  int rc = kvl_engine_record_moves(e, gpu);
  if (rc != 0) {
    return rc;
  }
  for (uint32_t i = 0; i < g->batch_count; i++) {
    const struct request *q = &e->request[g->batch[i]];
    struct kvl_step_item *item = &g->items[i];
    *item = (struct kvl_step_item){.slot = q->slot, .tokens = q->tokens, .queries = 1, .commit = 1};
    if (kvl_engine_adaptive(e)) {
      int whole;
      item->page_map = kvl_resid_page_map(g->resid, q->slot, &item->pages, &whole);
      item->whole = whole != 0;
      item->page_map_changes = kvl_resid_page_map_changes(g->resid, q->slot, &item->page_map_version);
      item->selected_by_page = g->selected == NULL ? NULL : g->selected[q->slot];
    }
  }
  if (e->s->speculation.method != KVL_SPECULATION_NONE) {
    schedule_drafts(e, g);
  }
  if (g->batch_count != 0) {
    g->step_items = g->batch_count;
    g->step_queries = g->step_tokens = 0;
    for (uint32_t i = 0; i < g->batch_count; i++) {
      g->step_queries += g->items[i].queries;
      g->step_tokens += g->items[i].commit;
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
  g->gave = false;
  g->joined_now = g->revoked_now = g->serial_count = 0;
  return rc;
}

/* Everything that happens between two steps, in this order: completed pages, admissions, joining, growth and give-back, the next step. */
static int gap(struct engine *e, uint32_t gpu)
{
  int rc = kvl_engine_adaptive(e) ? keep_completed_pages(e, gpu) : 0;
  rc = rc != 0 ? rc : kvl_engine_admit_waiting(e, gpu);
  rc = rc != 0 ? rc : join_ready(e, gpu);
  rc = rc != 0 || !kvl_engine_adaptive(e) ? rc : give_back(e, gpu);
  return rc != 0 ? rc : begin_step(e, gpu);
}

static bool has_gap_work(const struct engine *e, uint32_t gpu)
{
  const struct decode_gpu *g = &e->gpu[gpu];
  bool may_admit = kvl_engine_waiting_of(e, gpu)->count != 0 && !g->full;
  return !g->in_step && (g->batch_count != 0 || g->ready.count != 0 || g->populated.count != 0 || g->bounded != NONE || may_admit);
}

int kvl_engine_run_gaps(struct engine *e)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < e->s->node.decode_gpus; i++) {
    if (has_gap_work(e, i)) {
      rc = gap(e, i);
    }
  }
  return rc;
}
