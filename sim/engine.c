#include "sim/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/costs.h"
#include "sim/engine_state.h"

enum { PROGRESS_EVENTS = 32 }; /* an event of a large scenario takes milliseconds: who shows progress goes by the clock */

static int verify(struct engine *e)
{
  uint64_t host = 0;
  uint32_t sessions = 0;
  for (uint32_t i = 0; i < e->s->node.decode_gpus; i++) {
    int code = kvl_resid_verify(e->gpu[i].resid);
    if (code != 0) {
      return kvl_err_set(e->err, -EPROTO, "decode GPU %u at %llu ns: %s", i, (unsigned long long)kvl_engine_now(e), kvl_resid_verify_text(code));
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
  for (uint32_t i = 0; e->active == 0 && i < e->s->node.decode_gpus; i++) { /* who is gone owns nothing (I8) */
    struct kvl_resid_usage u;
    kvl_resid_usage(e->gpu[i].resid, &u);
    if (e->host_used != 0 || u.reserved != 0 || u.lent != 0 || e->gpu[i].sessions != 0 || e->gpu[i].joining != 0) {
      return kvl_err_set(e->err, -EPROTO, "decode GPU %u: no request is active, and %u frames are reserved, %u lent, %llu host bytes taken", i, u.reserved,
                         u.lent, (unsigned long long)e->host_used);
    }
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
    return completion.kind == KVL_DONE_STEP ? kvl_engine_step_done(e, &completion) : kvl_engine_copy_done(e, &completion);
  }
  if (next == UINT64_MAX) {
    *idle = true;
    return 0;
  }
  if (kvl_engine_now(e) < next) { /* the plane was told to stop, as this loop will be */
    return 0;
  }
  if (planned <= next) { /* planned events before arrivals of the same time: room is made before it is asked for */
    struct kvl_event event = kvl_events_pop(&e->events);
    return kvl_engine_event_due(e, &event);
  }
  struct kvl_request_spec spec;
  rc = kvl_load_take(e->config->load, next, &spec, e->err);
  return rc == 1 ? kvl_engine_submit(e, &spec) : rc;
}

static int loop(struct engine *e, enum kvl_run_status *status)
{
  const struct kvl_engine_config *c = e->config;
  uint64_t events = 0, total = kvl_load_total(c->load);
  *status = KVL_RUN_COMPLETE;
  for (;;) {
    bool idle = false;
    int rc = one_event(e, &idle);
    rc = rc != 0 ? rc : kvl_engine_run_gaps(e);
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
    if (kvl_engine_now(e) >= KVL_TIME_MAX) {
      return kvl_err_set(e->err, -ERANGE, "%s: the run has passed 146 years of simulated time, %llu requests done: a cost or a rate is out of reason",
                         e->s->file, (unsigned long long)e->tally.completed);
    }
    if ((c->stop != NULL && *c->stop != 0) || (e->s->limits.simulated_ns_max != 0 && kvl_engine_now(e) >= e->s->limits.simulated_ns_max)) {
      *status = KVL_RUN_INTERRUPTED;
      return 0;
    }
    if (c->progress != NULL && events++ % PROGRESS_EVENTS == 0) {
      c->progress(c->progress_context, kvl_engine_now(e), e->tally.completed, total);
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
  g->bounded = g->landed_first = NONE;
  g->period_ns = kvl_costs_compute_ns(s, 1, 0, NULL); /* until a step tells: growth must not be taken for infinite */
  g->step_tokens = g->step_items = 1;
  if (s->mode != KVL_MODE_RESIDENT) {
    g->commit_steps = s->policy.tail_tokens < WRITE_BACKS_MAX ? s->policy.tail_tokens : WRITE_BACKS_MAX;
    g->commits = calloc((size_t)c->slots * g->commit_steps, sizeof *g->commits);
    if (g->commits == NULL) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for the write-backs of %u batch slots", c->slots);
    }
  }
  g->resid_memory = aligned_alloc(64, (kvl_resid_bytes(&rc) + 63) / 64 * 64);
  g->plan.capacity = KVL_PLAN_MOVES(&rc);
  g->plan.moves = malloc(g->plan.capacity * sizeof *g->plan.moves);
  g->items = calloc(c->slots, sizeof *g->items);
  g->batch = calloc(c->slots, sizeof *g->batch);
  if (c->store != NULL) {
    uint32_t share = SAMPLES_MAX / s->node.decode_gpus;
    g->sample_capacity = share < SAMPLES_MIN ? SAMPLES_MIN : share;
    g->sample = malloc(g->sample_capacity * sizeof *g->sample);
    g->sample_stride = 1;
    if (g->sample == NULL) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for the time line");
    }
  }
  bool by_selection = s->policy.revoke_order == KVL_REVOKE_LEAST_SELECTED || s->policy.give_order == KVL_GIVE_MOST_SELECTED;
  if (by_selection && s->mode == KVL_MODE_ADAPTIVE) {
    g->selected = calloc(c->slots, sizeof *g->selected);
    if (g->selected == NULL) {
      return kvl_err_set(e->err, -ENOMEM, "no memory for selection counts");
    }
  }
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
  static_assert((int)KVL_DRAFTS_MAX + 1 == (int)KVL_STEP_QUERIES_MAX, "a query for each draft and one more");
  e->write_back_bytes_per_token = e->page_bytes / s->policy.page_tokens;
  uint32_t limit = s->mode == KVL_MODE_RESIDENT ? 0 : s->node.sessions_per_gpu_max; /* the published limit is one of the other two modes */
  limit = limit == 0 || limit > e->config->slots ? e->config->slots : limit;
  e->sessions_max = s->limits.batch_max != 0 && s->limits.batch_max < limit ? s->limits.batch_max : limit;
  kvl_tally_init(&e->tally);
  e->tally.matched_batch = e->config->matched_batch;
  e->tally.matched_queries = e->config->matched_queries;
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
  int rc = s->speculation.method == KVL_SPECULATION_NONE ? 0 : kvl_dspark_open(&e->dspark, s, e->config->slots, e->err);
  for (uint32_t i = 0; rc == 0 && i < s->node.decode_gpus; i++) {
    rc = open_gpu(e, &e->gpu[i]);
  }
  if (rc == 0 && s->workload.prefix_store_bytes != 0) {
    struct kvl_session_bytes token;
    kvl_session_bytes(s, 65536, &token);
    uint64_t block_tokens = kvl_load_block_tokens(e->config->load);
    uint64_t block_bytes = (token.rows + token.index + token.whole) * block_tokens / 65536;
    uint64_t blocks = block_bytes == 0 ? 0 : s->workload.prefix_store_bytes / block_bytes;
    blocks = blocks < KVL_PREFIX_BLOCKS_MAX ? blocks : KVL_PREFIX_BLOCKS_MAX; /* it grows with what is put in, and nothing puts in as much */
    e->prefix = block_bytes == 0 ? NULL : kvl_prefix_store_create(blocks);
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
    free(g->commits);
    for (uint32_t k = 0; g->selected != NULL && k < e->config->slots; k++) {
      free(g->selected[k]);
    }
    free(g->selected);
    free(g->sample);
  }
  for (uint32_t i = 0; i < e->copy_capacity; i++) {
    free(e->copy[i].moves);
  }
  free(e->copy);
  free(e->waiting);
  free(e->prefill);
  free(e->gpu);
  free(e->request);
  kvl_dspark_close(&e->dspark);
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
  double prefill_ns = (double)kvl_engine_now(e) * (double)e->s->node.prefill_gpus; /* an interrupted run ends in the middle of work that counts whole */
  summary->prefill_busy_share = (double)e->prefill_busy_ns < prefill_ns ? (double)e->prefill_busy_ns / prefill_ns : prefill_ns > 0 ? 1.0 : 0.0;
  summary->simulated_s = (double)kvl_engine_now(e) / 1e9;
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
  summary->host_link_busy_share = kvl_engine_now(e) == 0 ? 0.0 : (double)busy / (double)kvl_engine_now(e) / (double)e->s->node.decode_gpus;
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
  rc = rc != 0 || config->store == NULL ? rc : kvl_engine_flush_samples(e);
  for (uint32_t i = 0; rc == 0 && i < e->s->node.decode_gpus; i++) {
    rc = kvl_engine_record_moves(e, i);
  }
  rc = rc != 0 || config->store == NULL ? rc : store_points(e);
  if (rc == 0 && e->prefix != NULL) {
    rc = kvl_prefix_store_status(e->prefix) == 0 ? 0 : kvl_err_set(err, -ENOMEM, "no memory for the prefix store");
  }
  if (rc == 0) {
    summarize(e, &result->summary);
    result->matched_steps = e->tally.matched_steps;
    result->matched_step_ns = e->tally.matched_steps == 0 ? 0 : e->tally.matched_ns / e->tally.matched_steps;
    result->matched_draft_ns = e->tally.matched_steps == 0 ? 0 : e->tally.matched_draft_ns / e->tally.matched_steps;
  }
  close_engine(e);
  free(e);
  return rc;
}
