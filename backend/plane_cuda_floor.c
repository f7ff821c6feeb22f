/* What a bare gather of a step's host rows takes: the floor under its look-ups and fetches. The rows are those of the step's own lists; where they go is read by
 * nobody. In stream order behind the step, so that nothing of the step waits for it. */
#include <errno.h>
#include <stdlib.h>

#include "backend/plane_cuda_state.h"

int kvl_cuda_floor(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  uint64_t first = (uint64_t)c->stamp_floor * 2;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < c->config.stage_count; i++) {
    if (c->stages[i].kind != KVL_STAGE_RESOLVE) {
      continue;
    }
    uint32_t p = c->stages[i].point, cache = g->point_host[p].cache;
    struct kvl_gather gather = {.entries = entries, .rows_max = c->queries_max * g->point_host[p].k, .row_bytes = c->config.device.cache[cache].row_bytes,
                                .bytes = kvl_cuda_fetch_bytes(c, p), .shape = (enum kvl_gather_shape)(g->floor_turn % KVL_GATHER_SHAPES),
                                .entry = g->entry[cache], .fetches = g->fetches[p], .count = g->fetch_counts[p], .to = g->gathered,
                                .stamp = g->stamps_device + first + 2 * (uint64_t)p};
    rc = kvl_gpu_launched(g->k->gather(&gather, g->main), "gather", err);
  }
  g->floor_turn++;
  g->floor_pending = rc == 0;
  rc = rc != 0 ? rc : kvl_gpu_copy(g->gpu, g->stamps + first, g->stamps_device + first, (uint64_t)c->config.device.points * 16, g->main, err);
  return rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->floor_done, g->main, err);
}

static struct floor_step *next_step(struct cuda_plane *c)
{
  if (c->floor_steps == c->floor_capacity) {
    uint32_t capacity = 2 * c->floor_capacity + 64;
    struct floor_step *grown = realloc(c->floor, capacity * sizeof *grown);
    c->floor = grown == NULL ? c->floor : grown;
    int64_t *sorted = grown == NULL ? NULL : realloc(c->floor_sorted, capacity * sizeof *sorted);
    c->floor_sorted = sorted == NULL ? c->floor_sorted : sorted;
    if (sorted == NULL) {
      return NULL;
    }
    c->floor_capacity = capacity;
  }
  return &c->floor[c->floor_steps];
}

int kvl_cuda_collect_floor(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  int rc = 0;
  if (!g->floor_pending || g->in_step) {
    return 0;
  }
  while (rc == 0) {
    rc = kvl_gpu_event_done(g->gpu, g->floor_done, err);
  }
  if (rc < 0) {
    return rc;
  }
  g->floor_pending = false;
  struct floor_step *step = next_step(c);
  if (step == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the gathers of %u steps", c->floor_steps + 1);
  }
  *step = (struct floor_step){.shape = (enum kvl_gather_shape)((g->floor_turn - 1) % KVL_GATHER_SHAPES),
                              .look_up_ns = g->result.stall_ns[KVL_STALL_RESOLVE] + g->result.stall_ns[KVL_STALL_FETCH]};
  uint64_t begin = UINT64_MAX, end = 0;
  for (uint32_t p = 0; p < c->config.device.points; p++) {
    const uint64_t *stamp = g->stamps + 2 * (c->stamp_floor + (uint64_t)p);
    uint64_t rows = g->outcome->counts[p].fetched;
    if (rows == 0 || stamp[0] > stamp[1]) { /* a launch for nothing is no part of a gather */
      continue;
    }
    step->rows += rows;
    step->bytes += rows * kvl_cuda_fetch_bytes(c, p);
    step->gather_ns += stamp[1] - stamp[0];
    begin = stamp[0] < begin ? stamp[0] : begin;
    end = stamp[1] > end ? stamp[1] : end;
  }
  if (step->rows != 0) {
    step->span_ns = end - begin;
    c->floor_steps++;
  }
  return 0;
}

static int by_value(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t look_up(const struct floor_step *s)
{
  return (int64_t)s->look_up_ns;
}

static int64_t gather(const struct floor_step *s)
{
  return (int64_t)s->gather_ns;
}

static int64_t span(const struct floor_step *s)
{
  return (int64_t)s->span_ns;
}

static int64_t over(const struct floor_step *s)
{
  return look_up(s) - gather(s);
}

static struct kvl_plane_spread spread(struct cuda_plane *c, enum kvl_gather_shape shape, int64_t (*value)(const struct floor_step *))
{
  struct kvl_plane_spread s = {0, 0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->floor_steps; i++) {
    if (c->floor[i].shape == shape) {
      c->floor_sorted[n] = value(&c->floor[i]);
      s.mean_ns += c->floor_sorted[n++];
    }
  }
  if (n != 0) {
    qsort(c->floor_sorted, n, sizeof *c->floor_sorted, by_value);
    s = (struct kvl_plane_spread){s.mean_ns / (int64_t)n, c->floor_sorted[(n - 1) / 2]};
  }
  return s;
}

void kvl_cuda_floor_summary(struct cuda_plane *c)
{
  for (int i = 0; i < KVL_GATHER_SHAPES; i++) {
    enum kvl_gather_shape shape = (enum kvl_gather_shape)i;
    struct kvl_plane_floor *floor = &c->measured.floor[i];
    *floor = (struct kvl_plane_floor){.gather = spread(c, shape, gather), .span = spread(c, shape, span),
                                      .look_up = spread(c, shape, look_up), .over = spread(c, shape, over)};
    for (uint32_t k = 0; k < c->floor_steps; k++) {
      if (c->floor[k].shape == shape) {
        floor->steps++;
        floor->rows += c->floor[k].rows;
        floor->bytes += c->floor[k].bytes;
      }
    }
  }
}
