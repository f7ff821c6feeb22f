#include "sim/plane_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/bytes.h"
#include "backend/refdev.h"
#include "sim/costs.h"
#include "sim/link.h"
#include "sim/workers.h"

enum { COPIES_IN_FLIGHT_MAX = 8192 };

struct gpu_slot {
  struct kvl_selection_stream *stream;
  uint64_t host_bytes; /* what its rows take in the host pool: the range that gathers walk over */
};

struct gpu {
  struct kvl_refdev *dev;
  struct kvl_bytes *bytes; /* host plane only */
  struct gpu_slot *slot;
  struct kvl_link_queue to_gpu, to_host;
  uint64_t range_bytes;    /* of all open requests */
  bool step_in_flight;
  bool check_step;         /* the rows of the step being submitted are read back */
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
  uint32_t points;             /* 0 when rows are not resolved */
  uint64_t *bookkeeping_ns;    /* by batch */
  bool outside_compute, outside_link;
  struct gpu *gpu;
  struct kvl_workers *workers;
  struct kvl_resolve_counts *counts; /* thread x point, of the step being submitted */
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

static int model_request_open(struct kvl_plane *plane, const struct kvl_plane_request *r, struct kvl_err *err)
{
  struct model_plane *m = of(plane);
  struct gpu *g = &m->gpu[r->gpu];
  struct gpu_slot *slot = &g->slot[r->slot];
  struct kvl_session_bytes bytes;
  kvl_session_bytes(m->config.scenario, r->max_tokens, &bytes);
  slot->host_bytes = bytes.rows;
  g->range_bytes += bytes.rows;
  if (m->points == 0) {
    return 0;
  }
  int rc = kvl_refdev_open(g->dev, r->slot, r->input_tokens, err);
  if (rc == 0 && g->bytes != NULL) {
    rc = kvl_bytes_open(g->bytes, r->slot, r->session, r->input_tokens, err);
  }
  if (rc != 0) {
    return rc;
  }
  if (slot->stream == NULL) {
    slot->stream = kvl_stream_create(m->config.selections, m->config.tokens_max, 1);
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
  g->slot[slot].host_bytes = 0;
  if (m->points != 0) {
    kvl_refdev_close(g->dev, slot);
    if (g->bytes != NULL) {
      kvl_bytes_close(g->bytes, slot);
    }
  }
}

static uint32_t rows_of(void *context, kvl_request slot, uint32_t point, const int32_t **rows)
{
  struct gpu *g = context;
  return kvl_stream_rows(g->slot[slot].stream, point, 0, rows);
}

static void read_back(void *context, kvl_request slot, uint32_t point, const int32_t *rows, const kvl_addr *addresses, uint32_t lanes,
                      const struct kvl_fetch *fetches, uint32_t fetch_count)
{
  struct gpu *g = context;
  kvl_bytes_fetch(g->bytes, slot, point, fetches, fetch_count);
  if (g->check_step) {
    kvl_bytes_check(g->bytes, slot, point, rows, addresses, lanes);
  }
}

static void resolve_item(void *context, uint32_t thread, uint32_t index)
{
  struct model_plane *m = context;
  const struct kvl_step_item *item = &m->submitting->items[index];
  struct gpu *g = &m->gpu[m->submitting->gpu];
  kvl_stream_step(g->slot[item->slot].stream, item->tokens, 1);
  kvl_refdev_item(g->dev, thread, item, rows_of, g->bytes != NULL ? read_back : NULL, g, &m->counts[thread * m->points]);
  if (g->bytes != NULL) {
    kvl_bytes_commit(g->bytes, item->slot, item->tokens);
  }
}

/* Look-ups first (their outcome does not depend on time), then the time line: serialized work, then layer by layer. */
static int model_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  (void)err;
  struct model_plane *m = of(plane);
  struct gpu *g = &m->gpu[step->gpu];
  const struct kvl_scenario *s = m->config.scenario;
  struct kvl_step_result *r = &g->result;
  memset(r, 0, sizeof *r);
  r->submit_ns = m->now_ns;
  uint64_t t = m->now_ns, wait;

  uint64_t admission = s->mode == KVL_MODE_RESIDENT ? s->costs.resident_admission_ns : s->costs.admission_ns;
  r->stall_ns[KVL_STALL_ADMISSION] = admission * step->admissions;
  r->stall_ns[KVL_STALL_REVOCATION] = s->costs.revoke_page_ns * step->revoked_pages;
  t += r->stall_ns[KVL_STALL_ADMISSION] + r->stall_ns[KVL_STALL_REVOCATION];
  if (step->serial_count != 0) {
    uint64_t bytes = step->serial_count * m->page_bytes;
    uint64_t end = kvl_link_demand(&g->to_gpu, t, kvl_link_copy_ns(&s->hardware.link, bytes), bytes, &wait);
    r->stall_ns[KVL_STALL_POPULATION] = end - t;
    r->link_bytes += bytes;
    t = end;
    if (g->bytes != NULL) {
      kvl_bytes_pages(g->bytes, step->serial, step->serial_count);
    }
  }
  r->step_begin_ns = t;

  struct kvl_resolve_counts total[KVL_POINTS_MAX];
  memset(total, 0, sizeof total);
  if (m->points != 0 && step->count != 0) {
    uint32_t threads = kvl_workers_count(m->workers);
    memset(m->counts, 0, (size_t)threads * m->points * sizeof *m->counts);
    m->submitting = step;
    g->check_step = kvl_check_step(m->config.check, step->number);
    kvl_workers_run(m->workers, resolve_item, m, step->count);
    for (uint32_t p = 0; p < m->points; p++) {
      for (uint32_t w = 0; w < threads; w++) { /* sums do not depend on who resolved what */
        const struct kvl_resolve_counts *c = &m->counts[w * m->points + p];
        for (int tier = 0; tier < KVL_TIERS; tier++) {
          total[p].lanes[tier] += c->lanes[tier];
        }
        total[p].fetched += c->fetched;
        total[p].overflow += c->overflow;
        total[p].violations += c->violations;
      }
    }
  }

  if (step->count != 0) {
    uint64_t history = 0;
    for (uint32_t i = 0; i < step->count; i++) {
      history += step->items[i].tokens;
    }
    uint64_t compute = kvl_costs_compute_ns(s, step->count, history, &m->outside_compute);
    r->stall_ns[KVL_STALL_COMPUTE] = compute;
    r->stall_ns[KVL_STALL_BOOKKEEPING] = m->bookkeeping_ns[step->count];
    t += r->stall_ns[KVL_STALL_BOOKKEEPING];
    uint64_t computed = 0;
    for (uint32_t p = 0; p < m->points; p++) {
      const struct kvl_selection_point *point = &s->model.selection.point[p];
      uint64_t before = compute * point->layer / s->model.layers; /* layers below this one have run */
      t += before - computed;
      computed = before;
      uint64_t lanes = 0;
      for (int tier = 0; tier < KVL_TIERS; tier++) {
        lanes += total[p].lanes[tier];
        r->lanes[tier] += total[p].lanes[tier];
        g->point[p].lanes[tier] += total[p].lanes[tier];
      }
      uint64_t look_up = kvl_costs_resolve_ns(&s->costs, lanes);
      r->stall_ns[KVL_STALL_RESOLVE] += look_up;
      t += look_up;
      if (total[p].fetched != 0) {
        uint64_t bytes = total[p].fetched * s->model.cache[point->cache].row_bytes;
        uint64_t service = kvl_link_gather_ns(&s->hardware.link, total[p].fetched, bytes, g->range_bytes, &m->outside_link);
        t = kvl_link_demand(&g->to_gpu, t, service, bytes, &wait);
        r->stall_ns[KVL_STALL_FETCH] += service;
        r->stall_ns[KVL_STALL_LINK_WAIT] += wait;
        r->link_bytes += bytes;
      }
      r->fetched += total[p].fetched;
      r->overflow += total[p].overflow;
      r->violations += total[p].violations;
      g->point[p].fetched += total[p].fetched;
      g->point[p].overflow += total[p].overflow;
    }
    t += compute - computed;
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
  uint64_t service = kvl_link_copy_ns(&m->config.scenario->hardware.link, copy->bytes);
  if (kvl_link_copy(queue, m->now_ns, service, copy->bytes, copy->tag) != 0) {
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
  struct kvl_refdev_config c = {
    .slots = m->config.slots,
    .frames = m->config.frames,
    .page_bytes = m->page_bytes,
    .page_tokens = s->policy.page_tokens,
    .caches = s->model.caches,
    .points = m->points,
    .hot_rows = s->policy.hot_rows,
    .bank_rows = s->policy.bank_rows,
    .tail_tokens = s->policy.tail_tokens,
    .evict = s->policy.eviction,
    .threads = kvl_workers_count(m->workers),
    .seed = s->seed,
  };
  for (uint32_t i = 0; i < c.caches; i++) {
    c.cache[i].tokens_per_row = s->model.cache[i].tokens_per_row;
    c.cache[i].row_bytes = s->model.cache[i].row_bytes;
  }
  for (uint32_t p = 0; p < c.points; p++) {
    c.point[p].cache = s->model.selection.point[p].cache;
    c.point[p].k = s->model.selection.point[p].k;
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
  m->counts = calloc((size_t)config->threads * (m->points + 1), sizeof *m->counts);
  int rc = m->workers == NULL || m->gpu == NULL || m->bookkeeping_ns == NULL || m->counts == NULL
             ? kvl_err_set(err, -ENOMEM, "no memory for the plane")
             : 0;
  if (rc == 0) {
    kvl_costs_bookkeeping_table(s, m->bookkeeping_ns);
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
