#include "sim/plane_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/memory.h"
#include "backend/bytes.h"
#include "backend/gpu.h"
#include "backend/refdev.h"
#include "sim/costs.h"
#include "sim/link.h"
#include "sim/plane_memory.h"
#include "sim/plane_setup.h"
#include "sim/workers.h"

enum { COPIES_IN_FLIGHT_MAX = 8192 };

struct gpu_slot {
  struct kvl_selection_stream *stream;
  uint64_t host_bytes; /* what its rows take in the host pool: the range that gathers walk over */
  uint64_t history_tag; /* of its history on the way to the host; 0: it is there */
  /* Host plane: copies of the item under way that have begun and not landed, by cache. One thread at a time works on a slot. */
  struct copies {
    struct kvl_fetch *fetch;
    uint32_t count, capacity;
  } *copies;
  bool lost;           /* no memory to keep them */
};

struct gpu {
  struct kvl_refdev *dev;
  struct kvl_bytes *bytes; /* host plane only */
  struct gpu_slot *slot;
  struct kvl_link_queue to_gpu, to_host;
  uint64_t range_bytes;    /* of all open requests */
  uint64_t gap_ns;         /* the host's work since the last step, which the next one waits for */
  uint64_t histories;      /* tags given so far */
  bool step_in_flight;
  bool check_step;         /* the rows of the step being submitted are read back */
  bool plan;               /* rows are fetched part by part */
  uint16_t last_reader[KVL_REFDEV_POINTS];
  uint64_t step_number;
  struct kvl_step_result result;
  struct kvl_plane_point *point; /* totals */
};

struct model_plane {
  struct kvl_plane plane;
  struct kvl_plane_ops ops;    /* one table for both names */
  struct kvl_plane_model_config config;
  uint64_t page_bytes;
  uint64_t now_ns;
  struct kvl_plane_setup setup;
  uint32_t points;             /* of the scenario; 0 when rows are not resolved */
  uint64_t *bookkeeping_ns;    /* by batch */
  bool outside_compute, outside_link;
  struct gpu *gpu;
  struct kvl_workers *workers;
  struct kvl_refdev_counts *counts; /* by thread, of the step being submitted; the last element sums them up */
  const struct kvl_plane_step *submitting;
};

static struct model_plane *of(struct kvl_plane *plane)
{
  return (struct model_plane *)plane; /* the first member */
}

static uint64_t model_now(struct kvl_plane *plane)
{
  return of(plane)->now_ns;
}

static uint64_t per_token(uint64_t tokens, uint64_t ps)
{
  __extension__ typedef unsigned __int128 u128;
  return (uint64_t)((u128)tokens * ps / 1000);
}

/* The history begins its way to the host when the host has laid out the request's state. */
static int send_history(struct model_plane *m, struct gpu *g, const struct kvl_plane_request *r, struct kvl_err *err)
{
  const struct kvl_scenario *s = m->config.scenario;
  struct kvl_session_bytes bytes;
  kvl_session_bytes(s, r->input_tokens, &bytes);
  uint64_t at = m->now_ns + g->gap_ns, service = kvl_costs_history_ns(&s->costs, bytes.rows);
  g->slot[r->slot].history_tag = 0;
  if (service == 0) {
    return 0;
  }
  kvl_link_beside_retire(&g->to_host, m->now_ns);
  g->slot[r->slot].history_tag = ++g->histories;
  return kvl_link_copy_from(&g->to_host, KVL_LINK_BESIDE, m->now_ns, at, service, bytes.rows, g->histories) == 0
           ? 0
           : kvl_err_set(err, -EAGAIN, "more than %d histories on their way to the host", (int)KVL_LINK_BESIDE_MAX);
}

static int model_request_open(struct kvl_plane *plane, const struct kvl_plane_request *r, struct kvl_err *err)
{
  struct model_plane *m = of(plane);
  struct gpu *g = &m->gpu[r->gpu];
  struct gpu_slot *slot = &g->slot[r->slot];
  const struct kvl_costs *costs = &m->config.scenario->costs;
  struct kvl_session_bytes bytes;
  kvl_session_bytes(m->config.scenario, r->max_tokens, &bytes);
  slot->host_bytes = bytes.rows;
  g->range_bytes += bytes.rows;
  g->gap_ns += costs->reserve_ns;
  if (m->config.scenario->mode != KVL_MODE_RESIDENT) {
    g->gap_ns += per_token(r->input_tokens, costs->reserve_token_ps);
    int sent = send_history(m, g, r, err);
    if (sent != 0) {
      return sent;
    }
  }
  if (m->points == 0) {
    return 0;
  }
  int rc = kvl_refdev_open(g->dev, r->slot, r->input_tokens, err);
  if (rc == 0 && g->bytes != NULL) {
    rc = kvl_bytes_open(g->bytes, r->slot, r->session, r->input_tokens, err);
    slot->copies = slot->copies != NULL ? slot->copies : calloc(m->setup.device.caches, sizeof *slot->copies);
    rc = rc == 0 && slot->copies == NULL ? kvl_err_set(err, -ENOMEM, "no memory for batch slot %u", r->slot) : rc;
  }
  if (rc != 0) {
    return rc;
  }
  if (slot->stream == NULL) {
    slot->stream = kvl_stream_create(m->config.selections, m->config.tokens_max, m->config.queries_max == 0 ? 1 : m->config.queries_max);
    if (slot->stream == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for the selections of batch slot %u", r->slot);
    }
  }
  kvl_stream_start(slot->stream, r->session, r->input_tokens);
  return 0;
}

static void model_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot)
{
  struct model_plane *m = of(plane);
  struct gpu *g = &m->gpu[gpu];
  g->range_bytes -= g->slot[slot].host_bytes;
  g->slot[slot].host_bytes = g->slot[slot].history_tag = 0;
  g->gap_ns += m->config.scenario->mode == KVL_MODE_RESIDENT ? 0 : m->config.scenario->costs.release_ns;
  if (m->points != 0) {
    kvl_refdev_close(g->dev, slot);
    if (g->bytes != NULL) {
      kvl_bytes_close(g->bytes, slot);
    }
  }
}

static uint32_t rows_of(void *context, kvl_request slot, uint32_t selection, uint32_t query, const int32_t **rows)
{
  struct gpu *g = context;
  return kvl_stream_rows(g->slot[slot].stream, selection, query, rows);
}

static uint32_t pool_of(void *context, kvl_request slot, uint32_t query, const int32_t **blocks)
{
  struct gpu *g = context;
  return kvl_stream_pool(g->slot[slot].stream, query, blocks);
}

static void bytes_written(void *context, const struct kvl_step_item *item, uint32_t cache, kvl_row first, uint32_t count)
{
  struct gpu *g = context;
  kvl_bytes_written(g->bytes, item->slot, cache, first, count);
}

/* Copies under way: what they will overwrite is unreadable until they land. */
static void begin_copies(struct gpu *g, kvl_request id, uint32_t cache, const struct kvl_fetch *copies, uint32_t count, uint32_t part, uint32_t parts)
{
  struct copies *c = &g->slot[id].copies[cache];
  if (count > c->capacity) {
    struct kvl_fetch *grown = realloc(c->fetch, count * sizeof *grown);
    if (grown == NULL) {
      g->slot[id].lost = true;
      return;
    }
    c->fetch = grown;
    c->capacity = count;
  }
  c->count = count;
  if (count != 0) {
    memcpy(c->fetch, copies, count * sizeof *copies);
    kvl_bytes_poison(g->bytes, cache, copies, count, part, parts);
  }
}

static uint32_t parts_of(const struct gpu *g, uint32_t cache)
{
  uint32_t parts = kvl_refdev_config_of(g->dev)->cache[cache].parts;
  return parts == 0 ? 1 : parts;
}

static void bytes_fetch(void *context, kvl_request slot, uint32_t cache, const struct kvl_fetch *fetches, uint32_t count)
{
  struct gpu *g = context;
  uint32_t parts = g->plan ? parts_of(g, cache) : 1;
  kvl_bytes_fetch(g->bytes, slot, cache, fetches, count, 0, parts);
  if (parts > 1) {
    begin_copies(g, slot, cache, fetches, count, 1, parts);
  }
}

static void bytes_announced(void *context, kvl_request slot, uint32_t cache, const struct kvl_fetch *copies, uint32_t count)
{
  begin_copies(context, slot, cache, copies, count, 0, 1);
}

static void bytes_landed(void *context, kvl_request slot, const struct kvl_stage *stage)
{
  struct gpu *g = context;
  const struct copies *c = &g->slot[slot].copies[stage->cache];
  kvl_bytes_fetch(g->bytes, slot, stage->cache, c->fetch, c->count, stage->part, stage->part == 0 ? 1 : parts_of(g, stage->cache));
}

/* What attention reads, by the last layer that the addresses serve, when everything that may overwrite has done so. Rows with parts are read part by
 * part. */
static void bytes_read(void *context, const struct kvl_step_item *item, const struct kvl_stage *stage, const int32_t *rows, const kvl_addr *addresses,
                       uint32_t lanes)
{
  struct gpu *g = context;
  uint32_t parts = parts_of(g, stage->cache);
  if (g->check_step && (parts > 1 || g->last_reader[stage->point] == stage->layer)) {
    kvl_bytes_check(g->bytes, item->slot, stage->cache, rows, addresses, lanes, stage->part, parts);
  }
}

static void bytes_committed(void *context, const struct kvl_step_item *item)
{
  struct gpu *g = context;
  kvl_bytes_commit(g->bytes, item);
}

static const struct kvl_refdev_hooks model_hooks = {.rows = rows_of, .pool = pool_of};
static const struct kvl_refdev_hooks host_hooks = {.rows = rows_of, .pool = pool_of, .written = bytes_written, .fetch = bytes_fetch,
                                                   .announced = bytes_announced, .landed = bytes_landed, .read = bytes_read, .committed = bytes_committed};

static void resolve_item(void *context, uint32_t thread, uint32_t index)
{
  struct model_plane *m = context;
  const struct kvl_step_item *item = &m->submitting->items[index];
  struct gpu *g = &m->gpu[m->submitting->gpu];
  /* As many queries as any step may have: what a query selects must not depend on how many follow it, and a plane may ask before it is known. */
  kvl_stream_step(g->slot[item->slot].stream, item->tokens, m->config.queries_max == 0 ? 1 : m->config.queries_max);
  if (g->bytes != NULL) {
    kvl_bytes_step(g->bytes, item);
  }
  kvl_refdev_item(g->dev, thread, item, g->bytes != NULL ? &host_hooks : &model_hooks, g, &m->counts[thread]);
}

/* Sums do not depend on who resolved what. */
static const struct kvl_refdev_counts *resolve_items(struct model_plane *m, const struct kvl_plane_step *step)
{
  uint32_t threads = kvl_workers_count(m->workers), points = m->setup.model.points;
  struct kvl_refdev_counts *total = &m->counts[threads];
  memset(m->counts, 0, (threads + 1) * sizeof *m->counts);
  m->submitting = step;
  kvl_workers_run(m->workers, resolve_item, m, step->count);
  for (uint32_t w = 0; w < threads; w++) {
    const struct kvl_refdev_counts *c = &m->counts[w];
    for (uint32_t p = 0; p < points; p++) {
      for (int tier = 0; tier < KVL_TIERS; tier++) {
        total->point[p].lanes[tier] += c->point[p].lanes[tier];
      }
      total->point[p].fetched += c->point[p].fetched;
      total->point[p].overflow += c->point[p].overflow;
      total->point[p].violations += c->point[p].violations;
    }
    total->shared_lanes += c->shared_lanes;
    total->announced_runs += c->announced_runs;
    total->prefetch.candidates += c->prefetch.candidates;
    total->prefetch.resident += c->prefetch.resident;
    total->prefetch.copied += c->prefetch.copied;
    total->prefetch.dropped += c->prefetch.dropped;
    total->prefetch.used += c->prefetch.used;
    total->prefetch.unused += c->prefetch.unused;
    total->prefetch.unused_link_ns += c->prefetch.unused_link_ns;
    total->prefetch.later_lanes += c->prefetch.later_lanes;
    total->prefetch.later_demand += c->prefetch.later_demand;
  }
  return total;
}

/* A step on its way through the stages. */
struct time_line {
  struct model_plane *m;
  struct gpu *g;
  const struct kvl_plane_step *step;
  const struct kvl_refdev_counts *counts;
  struct kvl_step_result *r;
  uint64_t now_ns;
  uint64_t compute_ns, computed_ns;
  uint64_t pool_look_up_ns; /* of the announcing kernel, on the copies' stream */
  uint64_t pool_copied;
  struct {                  /* plan: how the parts of a point's fetch list came in */
    uint64_t slack_ns;
    bool late;
  } replay[KVL_REFDEV_POINTS];
};

/* Layers below this one have run. */
static void run_layers(struct time_line *l, uint32_t layer)
{
  uint64_t before = l->compute_ns * layer / l->m->config.scenario->model.layers;
  l->now_ns += before - l->computed_ns;
  l->computed_ns = before;
}

/* Gathers of `transfers` pieces beside the step. */
static void copy_beside(struct time_line *l, uint64_t tag, uint64_t transfers, uint64_t bytes)
{
  uint64_t service = kvl_link_gather_ns(&l->m->config.scenario->hardware.link, transfers, bytes, l->g->range_bytes, &l->m->outside_link);
  (void)kvl_link_copy(&l->g->to_gpu, KVL_LINK_BESIDE, l->now_ns, service, bytes, tag); /* the ring has a place for each stage of a step */
  l->r->prefetch.link_ns += service;
  l->r->link_bytes += bytes;
}

static void time_resolve(struct time_line *l, const struct kvl_stage *stage)
{
  struct model_plane *m = l->m;
  struct gpu *g = l->g;
  struct kvl_step_result *r = l->r;
  const struct kvl_scenario *s = m->config.scenario;
  const struct kvl_resolve_counts *c = &l->counts->point[stage->point];
  struct kvl_plane_point *totals = &g->point[m->setup.model.point[stage->point].selection];
  uint64_t lanes = 0, wait;
  run_layers(l, stage->layer);
  for (int tier = 0; tier < KVL_TIERS; tier++) {
    lanes += c->lanes[tier];
    r->lanes[tier] += c->lanes[tier];
    totals->lanes[tier] += c->lanes[tier];
  }
  uint64_t look_up = kvl_costs_look_up_ns(s, lanes);
  r->stall_ns[KVL_STALL_RESOLVE] += look_up;
  l->now_ns += look_up;
  if (c->fetched != 0) {
    uint64_t row_bytes = m->setup.device.cache[stage->cache].row_bytes;
    uint64_t bytes = c->fetched * (m->setup.model.plan ? row_bytes / parts_of(g, stage->cache) : row_bytes);
    uint64_t service = kvl_link_fetch_ns(&s->hardware.link, c->fetched, bytes, g->range_bytes, &m->outside_link);
    l->now_ns = kvl_link_demand(&g->to_gpu, l->now_ns, service, bytes, &wait);
    r->stall_ns[KVL_STALL_FETCH] += service;
    r->stall_ns[KVL_STALL_LINK_WAIT] += wait;
    r->link_bytes += bytes;
  }
  r->fetched += c->fetched;
  r->overflow += c->overflow;
  r->violations += c->violations;
  totals->fetched += c->fetched;
  totals->overflow += c->overflow;
}

enum { POOL_TAG = 0 }; /* of a part: part << 16 | point, never 0 */

static void time_announce(struct time_line *l, const struct kvl_stage *stage)
{
  const struct kvl_prefetch *counted = &l->counts->prefetch;
  run_layers(l, stage->layer);
  l->pool_copied = counted->copied;
  l->pool_look_up_ns = kvl_costs_resolve_ns(&l->m->config.scenario->costs, counted->candidates);
  if (counted->copied != 0) {
    uint64_t before = l->r->prefetch.link_ns;
    copy_beside(l, POOL_TAG, l->counts->announced_runs, counted->copied * l->m->setup.device.cache[stage->cache].row_bytes);
    l->r->prefetch.groups++;
    uint64_t row_ns = (l->r->prefetch.link_ns - before) / counted->copied;
    kvl_refdev_price_copies(l->g->dev, l->step->items, l->step->count, row_ns < UINT32_MAX ? (uint32_t)row_ns : UINT32_MAX - 1);
  }
}

static void time_replay(struct time_line *l, const struct kvl_stage *stage)
{
  const struct kvl_refdev_config *c = &l->m->setup.device;
  uint64_t fetched = l->counts->point[stage->point].fetched;
  uint32_t parts = parts_of(l->g, stage->cache);
  if (fetched == 0) {
    return;
  }
  for (uint32_t part = 1; part < parts; part++) {
    copy_beside(l, (uint64_t)part << 16 | stage->point, fetched, fetched * (c->cache[stage->cache].row_bytes / parts));
  }
  l->r->prefetch.groups++;
  l->r->prefetch.candidates += fetched * (parts - 1);
  l->r->prefetch.copied += fetched * (parts - 1);
  l->r->prefetch.used += fetched * (parts - 1);
  l->replay[stage->point].slack_ns = UINT64_MAX;
}

/* Until `done_ns` if that is to come. Returns how long the copies had been there. */
static uint64_t wait_for(struct time_line *l, uint64_t done_ns, bool *late)
{
  if (done_ns <= l->now_ns) {
    return l->now_ns - done_ns;
  }
  *late = true;
  l->r->prefetch.wait_ns += done_ns - l->now_ns;
  l->r->stall_ns[KVL_STALL_PREFETCH_WAIT] += done_ns - l->now_ns;
  l->now_ns = done_ns;
  return 0;
}

static void time_wait(struct time_line *l, const struct kvl_stage *stage)
{
  struct kvl_prefetch *sums = &l->r->prefetch;
  run_layers(l, stage->layer);
  if (stage->part == 0) {
    if (l->pool_copied != 0) {
      bool late = false;
      uint64_t margin = wait_for(l, kvl_link_beside_done(&l->g->to_gpu, POOL_TAG) + l->pool_look_up_ns, &late);
      sums->landed += !late;
      sums->margin_ns += margin;
    }
    return;
  }
  if (l->counts->point[stage->point].fetched != 0) {
    bool *late = &l->replay[stage->point].late;
    uint64_t *slack = &l->replay[stage->point].slack_ns;
    uint64_t margin = wait_for(l, kvl_link_beside_done(&l->g->to_gpu, (uint64_t)stage->part << 16 | stage->point), late);
    *slack = margin < *slack ? margin : *slack;
    if (stage->part + 1u == parts_of(l->g, stage->cache)) {
      sums->landed += !*late;
      sums->margin_ns += *late ? 0 : *slack;
    }
  }
}

static void run_stages(struct time_line *l)
{
  const struct kvl_plane_setup *setup = &l->m->setup;
  kvl_link_beside_clear(&l->g->to_gpu);
  for (uint32_t i = 0; l->m->points != 0 && i < setup->stage_count; i++) {
    const struct kvl_stage *stage = &setup->stages[i];
    switch (stage->kind) {
    case KVL_STAGE_RESOLVE:
      time_resolve(l, stage);
      break;
    case KVL_STAGE_ANNOUNCE:
      time_announce(l, stage);
      break;
    case KVL_STAGE_REPLAY:
      time_replay(l, stage);
      break;
    case KVL_STAGE_WAIT:
      time_wait(l, stage);
      break;
    case KVL_STAGE_WRITE:     /* part of the compute time */
    case KVL_STAGE_READ:
    case KVL_STAGE_COMPUTE:
    case KVL_STAGE_END_GROUP: /* a few words in the next look-up's kernel */
      break;
    }
  }
  run_layers(l, l->m->config.scenario->model.layers);
}

/* Pages to the GPU: by the kernel for small pieces where its rate is known, else as one bulk copy. */
static uint64_t pages_ns(const struct model_plane *m, uint64_t pages)
{
  const struct kvl_scenario *s = m->config.scenario;
  const struct kvl_link *link = &s->hardware.link;
  uint64_t ns = link->pages_floor_ns, least = UINT64_MAX;
  for (uint32_t i = 0; i < s->model.caches && link->pages_bytes_per_s.n != 0; i++) {
    uint64_t piece = (uint64_t)(s->policy.page_tokens / s->model.cache[i].tokens_per_row) * s->model.cache[i].row_bytes;
    least = piece < least ? piece : least;
    ns += kvl_link_pieces_ns(link, piece, pages * piece);
  }
  return least < KVL_GPU_PIECE_BYTES_MIN ? ns : kvl_link_copy_ns(link, pages * m->page_bytes);
}

/* When the history of this request is on the host, as known now; 0: it is there. */
static uint64_t history_done(const struct gpu *g, const struct gpu_slot *slot)
{
  return slot->history_tag == 0 ? 0 : kvl_link_beside_done(&g->to_host, slot->history_tag);
}

/* Requests whose history is still on its way are waited for: `t`, or when the last of them is there. */
static uint64_t histories_there(struct model_plane *m, struct gpu *g, const struct kvl_plane_step *step, uint64_t t)
{
  if (m->config.scenario->costs.history_bytes_per_s == 0) {
    return t;
  }
  for (uint32_t i = 0; i < step->count + step->serial_count; i++) {
    struct gpu_slot *slot = &g->slot[i < step->count ? step->items[i].slot : step->serial[i - step->count].request];
    uint64_t done = history_done(g, slot);
    slot->history_tag = 0;
    t = done > t ? done : t;
  }
  return t;
}

/* The same for pages that are copied beside the steps: they wait in their stream. */
static uint64_t histories_of_pages(struct gpu *g, const struct kvl_plane_copy *copy)
{
  uint64_t t = 0;
  for (uint32_t i = 0; i < copy->move_count && copy->kind == KVL_COPY_PAGES; i++) {
    uint64_t done = history_done(g, &g->slot[copy->moves[i].request]);
    t = done > t ? done : t;
  }
  return t;
}

/* Look-ups first (their outcome does not depend on time), then the time line: serialized work, then stage by stage. */
static int model_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct model_plane *m = of(plane);
  struct gpu *g = &m->gpu[step->gpu];
  const struct kvl_scenario *s = m->config.scenario;
  struct kvl_step_result *r = &g->result;
  memset(r, 0, sizeof *r);
  r->submit_ns = m->now_ns;
  uint64_t t = m->now_ns, wait;

  uint64_t admission = s->mode == KVL_MODE_RESIDENT ? s->costs.resident_admission_ns : s->costs.admission_ns;
  uint64_t gap = step->count == 0 ? 0 : g->gap_ns; /* without a batch nobody waits yet */
  g->gap_ns -= gap;
  r->stall_ns[KVL_STALL_ADMISSION] = admission * step->admissions;
  if (step->admissions != 0) { /* in a step that somebody joins, all of it is the joining's (as on the CUDA plane, which cannot tell) */
    r->stall_ns[KVL_STALL_ADMISSION] += gap;
    gap = 0;
    for (uint32_t i = 0; s->mode != KVL_MODE_RESIDENT && s->costs.admission_token_ps != 0 && i < step->admissions && i < step->count; i++) { /* who joins is last in the batch */
      r->stall_ns[KVL_STALL_ADMISSION] += per_token(step->items[step->count - 1 - i].tokens, s->costs.admission_token_ps);
    }
  }
  r->stall_ns[KVL_STALL_REVOCATION] = s->costs.revoke_page_ns * step->revoked_pages;
  t += r->stall_ns[KVL_STALL_ADMISSION] + r->stall_ns[KVL_STALL_REVOCATION];
  uint64_t there = histories_there(m, g, step, t);
  r->stall_ns[KVL_STALL_ADMISSION] += there - t;
  t = there;
  if (step->serial_count != 0) {
    uint64_t bytes = step->serial_count * m->page_bytes;
    const struct kvl_link *link = &s->hardware.link;
    uint64_t end = kvl_link_demand_against(&g->to_gpu, &g->to_host, t, pages_ns(m, step->serial_count), bytes, link->pages_both_permille,
                                           link->to_host_both_permille, &wait);
    r->stall_ns[KVL_STALL_POPULATION] = end - t;
    r->link_bytes += bytes;
    t = end;
    if (g->bytes != NULL) {
      kvl_bytes_pages(g->bytes, step->serial, step->serial_count);
    }
  }
  r->step_begin_ns = t;

  if (step->count != 0) {
    struct time_line line = {.m = m, .g = g, .step = step, .r = r};
    if (m->points != 0) {
      g->check_step = kvl_check_step(m->config.check, step->number);
      line.counts = resolve_items(m, step);
      r->prefetch = line.counts->prefetch;
      r->shared_lanes = line.counts->shared_lanes;
      kvl_refdev_given_up(g->dev, &r->prefetch);
    }
    uint64_t history = 0;
    uint32_t queries = 0;
    for (uint32_t i = 0; i < step->count; i++) {
      history += step->items[i].tokens;
      queries += step->items[i].queries;
    }
    line.compute_ns = kvl_costs_compute_ns(s, queries, history, &m->outside_compute);
    r->draft_ns = kvl_costs_draft_ns(s, step->count, &m->outside_compute);
    r->stall_ns[KVL_STALL_COMPUTE] = line.compute_ns + r->draft_ns;
    r->stall_ns[KVL_STALL_BOOKKEEPING] = m->bookkeeping_ns[step->count] + gap;
    line.now_ns = t + r->draft_ns + r->stall_ns[KVL_STALL_BOOKKEEPING]; /* drafts come first: their confidences say what is verified */
    run_stages(&line);
    t = line.now_ns;
    for (uint32_t i = 0; g->bytes != NULL && i < step->count; i++) {
      if (g->slot[step->items[i].slot].lost) {
        return kvl_err_set(err, -ENOMEM, "no memory for the copies of batch slot %u", step->items[i].slot);
      }
    }
  }
  r->end_ns = t;
  g->step_in_flight = true;
  g->step_number = step->number;
  return 0;
}

static int model_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  struct model_plane *m = of(plane);
  struct gpu *g = &m->gpu[copy->gpu];
  struct kvl_link_queue *queue = copy->kind == KVL_COPY_PAGES ? &g->to_gpu : &g->to_host;
  uint64_t service = copy->kind == KVL_COPY_PAGES ? pages_ns(m, copy->move_count) : kvl_link_to_host_ns(&m->config.scenario->hardware.link, copy->bytes);
  for (uint32_t i = 0; m->config.scenario->costs.give_page_ns != 0 && copy->kind == KVL_COPY_PAGES && i < copy->move_count; i++) {
    g->gap_ns += copy->moves[i].kind == KVL_MOVE_GIVE ? m->config.scenario->costs.give_page_ns : 0;
  }
  if (kvl_link_copy_from(queue, KVL_LINK_BULK, m->now_ns, histories_of_pages(g, copy), service, copy->bytes, copy->tag) != 0) {
    return kvl_err_set(err, -EAGAIN, "more than %d copies in flight on one link", COPIES_IN_FLIGHT_MAX);
  }
  if (g->bytes != NULL && copy->kind == KVL_COPY_PAGES) {
    kvl_bytes_pages(g->bytes, copy->moves, copy->move_count);
  }
  return 0;
}

static int model_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  (void)err;
  struct gpu *g = &of(plane)->gpu[gpu];
  g->gap_ns += of(plane)->config.scenario->costs.keep_page_ns;
  if (g->bytes != NULL) {
    kvl_bytes_pages(g->bytes, move, 1); /* the tail's bytes equal the host's: their copy is complete (checked there) */
  }
  return 0;
}

/* The earliest completion of all GPUs; ties go to the lower GPU, then copies before steps (a page that lands as a step ends is there). */
static int model_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  (void)err;
  struct model_plane *m = of(plane);
  uint64_t best = UINT64_MAX;
  uint32_t best_gpu = 0;
  int best_source = 0;
  for (uint32_t i = 0; i < m->config.scenario->node.decode_gpus; i++) {
    const struct gpu *g = &m->gpu[i];
    uint64_t source[3] = {kvl_link_next_done(&g->to_gpu), kvl_link_next_done(&g->to_host), g->step_in_flight ? g->result.end_ns : UINT64_MAX};
    for (int k = 0; k < 3; k++) {
      if (source[k] < best) {
        best = source[k];
        best_gpu = i;
        best_source = k;
      }
    }
  }
  if (best > time_ns || best == UINT64_MAX) {
    m->now_ns = time_ns > m->now_ns ? time_ns : m->now_ns;
    return 0;
  }
  struct gpu *g = &m->gpu[best_gpu];
  m->now_ns = best > m->now_ns ? best : m->now_ns;
  *completion = (struct kvl_completion){.gpu = best_gpu, .time_ns = m->now_ns};
  if (best_source == 2) {
    g->step_in_flight = false;
    completion->kind = KVL_DONE_STEP;
    completion->tag = g->step_number;
    completion->step = &g->result;
  } else {
    completion->kind = KVL_DONE_COPY;
    completion->tag = kvl_link_pop(best_source == 0 ? &g->to_gpu : &g->to_host);
  }
  return 1;
}

static void model_point(struct kvl_plane *plane, uint32_t gpu, uint32_t point, struct kvl_plane_point *totals)
{
  *totals = of(plane)->gpu[gpu].point[point];
}

static uint64_t model_link_busy_ns(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->gpu[gpu].to_gpu.busy_ns;
}

static uint64_t model_link_bytes(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->gpu[gpu].to_gpu.bytes;
}

static int model_verify(struct kvl_plane *plane, struct kvl_err *err)
{
  struct model_plane *m = of(plane);
  for (uint32_t i = 0; m->points != 0 && i < m->config.scenario->node.decode_gpus; i++) {
    int rc = kvl_refdev_verify(m->gpu[i].dev, err);
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

/* Host plane: no clock of its own, so nothing but what it compared. */
static void host_measured(struct kvl_plane *plane, struct kvl_plane_measured *measured)
{
  struct model_plane *m = of(plane);
  memset(measured, 0, sizeof *measured);
  for (uint32_t i = 0; i < m->config.scenario->node.decode_gpus; i++) {
    if (m->gpu[i].bytes == NULL) {
      continue;
    }
    kvl_bytes_checked(m->gpu[i].bytes, &measured->rows_checked, &measured->mismatches);
    if (measured->first_mismatch[0] == '\0') {
      kvl_bytes_first_mismatch(m->gpu[i].bytes, measured->first_mismatch, sizeof measured->first_mismatch);
    }
  }
}

static void model_close(struct kvl_plane *plane)
{
  struct model_plane *m = of(plane);
  for (uint32_t i = 0; m->gpu != NULL && i < m->config.scenario->node.decode_gpus; i++) {
    struct gpu *g = &m->gpu[i];
    kvl_bytes_destroy(g->bytes); /* knows the device */
    kvl_refdev_destroy(g->dev);
    for (uint32_t k = 0; g->slot != NULL && k < m->config.slots; k++) {
      kvl_stream_destroy(g->slot[k].stream);
      for (uint32_t c = 0; g->slot[k].copies != NULL && c < m->setup.device.caches; c++) {
        free(g->slot[k].copies[c].fetch);
      }
      free(g->slot[k].copies);
    }
    free(g->slot);
    free(g->point);
    kvl_link_deinit(&g->to_gpu);
    kvl_link_deinit(&g->to_host);
  }
  kvl_workers_destroy(m->workers);
  free(m->counts);
  free(m->bookkeeping_ns);
  free(m->gpu);
  free(m);
}

static const struct kvl_plane_ops model_ops = {
  .name = "model",
  .close = model_close,
  .now = model_now,
  .request_open = model_request_open,
  .request_close = model_request_close,
  .step = model_step,
  .copy = model_copy,
  .keep = model_keep,
  .wait_until = model_wait_until,
  .point = model_point,
  .link_busy_ns = model_link_busy_ns,
  .link_bytes = model_link_bytes,
  .verify = model_verify,
};

static struct kvl_refdev_config device_of(const struct model_plane *m)
{
  struct kvl_refdev_config c = m->setup.device;
  c.slots = m->config.slots;
  c.frames = m->config.frames;
  c.queries_max = m->config.queries_max;
  c.threads = kvl_workers_count(m->workers);
  return c;
}

static int open_gpu(struct model_plane *m, struct gpu *g, struct kvl_err *err)
{
  const struct kvl_scenario *s = m->config.scenario;
  g->slot = calloc(m->config.slots, sizeof *g->slot);
  g->point = calloc(m->points + 1, sizeof *g->point);
  if (g->slot == NULL || g->point == NULL || kvl_link_init(&g->to_gpu, COPIES_IN_FLIGHT_MAX) != 0 ||
      kvl_link_init(&g->to_host, COPIES_IN_FLIGHT_MAX) != 0) {
    return kvl_err_set(err, -ENOMEM, "no memory for a decode GPU of %u batch slots", m->config.slots);
  }
  if (m->points == 0) {
    return 0;
  }
  struct kvl_refdev_config c = device_of(m);
  g->plan = m->setup.model.plan;
  for (uint32_t p = 0; p < c.points; p++) {
    uint32_t end = (uint32_t)m->setup.model.point[p].layer + m->setup.model.point[p].readers;
    g->last_reader[p] = (uint16_t)((end < s->model.layers ? end : s->model.layers) - 1);
  }
  struct kvl_err reason;
  int rc = kvl_refdev_create(&g->dev, &c, &reason);
  if (rc != 0) { /* the device knows no files and keys */
    return rc == -EINVAL ? kvl_err_set(err, rc, "%s: model.caches: %s", s->file, reason.text) : kvl_err_set(err, rc, "%s", reason.text);
  }
  return m->config.bytes ? kvl_bytes_create(&g->bytes, g->dev, m->config.tokens_max, err) : 0;
}

int kvl_plane_model_create(struct kvl_plane **plane, const struct kvl_plane_model_config *config, struct kvl_err *err)
{
  const struct kvl_scenario *s = config->scenario;
  struct model_plane *m = calloc(1, sizeof *m);
  if (m == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the plane");
  }
  m->ops = model_ops;
  if (config->bytes) {
    m->ops.name = "host";
    m->ops.measured = host_measured;
  }
  m->plane.ops = &m->ops;
  m->config = *config;
  m->page_bytes = kvl_page_bytes(s);
  m->points = config->selections == NULL || s->mode == KVL_MODE_RESIDENT ? 0 : s->model.selection.points;
  m->workers = kvl_workers_create(m->points == 0 ? 1 : config->threads);
  m->gpu = calloc(s->node.decode_gpus, sizeof *m->gpu);
  m->bookkeeping_ns = calloc(KVL_COSTS_BATCH_MAX + 1, sizeof *m->bookkeeping_ns);
  m->counts = calloc((size_t)config->threads + 1, sizeof *m->counts);
  int rc = m->workers == NULL || m->gpu == NULL || m->bookkeeping_ns == NULL || m->counts == NULL
             ? kvl_err_set(err, -ENOMEM, "no memory for the plane")
             : 0;
  if (rc == 0) {
    kvl_costs_bookkeeping_table(s, m->bookkeeping_ns);
  }
  rc = rc != 0 ? rc : kvl_plane_setup_init(&m->setup, s, m->points != 0, err);
  if (rc == 0 && config->bytes && m->points != 0) {
    struct kvl_refdev_config c = device_of(m);
    rc = kvl_plane_memory_check(s, &c, config->tokens_max, kvl_memory_available(""), err);
  }
  for (uint32_t i = 0; rc == 0 && i < s->node.decode_gpus; i++) {
    rc = open_gpu(m, &m->gpu[i], err);
  }
  if (rc != 0) {
    model_close(&m->plane);
    return rc;
  }
  *plane = &m->plane;
  return 0;
}

unsigned kvl_plane_model_estimates(const struct kvl_plane *plane)
{
  const struct model_plane *m = (const struct model_plane *)plane;
  return (m->outside_compute ? KVL_ESTIMATE_COMPUTE_OUTSIDE : 0u) | (m->outside_link ? KVL_ESTIMATE_LINK_OUTSIDE : 0u) |
         (m->config.scenario->costs.compute == KVL_COMPUTE_ROOFLINE ? KVL_ESTIMATE_ROOFLINE : 0u) |
         (kvl_costs_suit_model(m->config.scenario) && kvl_costs_suit_hardware(m->config.scenario) ? 0u : KVL_ESTIMATE_FOREIGN_PROFILE);
}

void kvl_plane_model_checked(const struct kvl_plane *plane, uint64_t *rows, uint64_t *mismatches)
{
  const struct model_plane *m = (const struct model_plane *)plane;
  *rows = *mismatches = 0;
  for (uint32_t i = 0; i < m->config.scenario->node.decode_gpus; i++) {
    if (m->gpu[i].bytes != NULL) {
      kvl_bytes_checked(m->gpu[i].bytes, rows, mismatches);
    }
  }
}
