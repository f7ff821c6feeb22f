/* The CUDA plane: opening and closing, the clock, completions. */
#include "backend/plane_cuda.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/plane_cuda_state.h"

static uint64_t monotonic_ns(void)
{
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t kvl_cuda_wall_ns(const struct cuda_plane *c)
{
  return monotonic_ns() - c->start_wall_ns;
}

void kvl_cuda_count(struct kvl_plane_times *t, uint64_t ns)
{
  t->min_ns = t->count == 0 || ns < t->min_ns ? ns : t->min_ns;
  t->max_ns = ns > t->max_ns ? ns : t->max_ns;
  t->sum_ns += ns;
  t->count++;
}

static uint64_t cuda_now(struct kvl_plane *plane)
{
  return kvl_cuda_of(plane)->now_ns;
}

/* Polls until something is done or the wall clock reaches `time_ns`. The clock that the engine sees is that of the return. */
enum { NAP_NS = 50000000 };

static int cuda_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct cuda_plane *c = kvl_cuda_of(plane);
  for (;;) {
    bool busy = false;
    uint64_t wall = kvl_cuda_wall_ns(c);
    for (uint32_t i = 0; wall <= time_ns && i < c->config.gpus; i++) {
      struct cuda_gpu *g = &c->gpu[i];
      int rc = g->in_step ? 0 : kvl_cuda_write_back(g, err); /* no step has taken it along */
      rc = rc != 0 ? rc : kvl_cuda_copies_poll(g, completion, err); /* copies before steps: a page that landed before a step's end is there */
      rc = rc != 0 ? rc : kvl_cuda_step_poll(g, completion, err);
      if (rc < 0) {
        return rc;
      }
      if (rc == 1) {
        wall = kvl_cuda_wall_ns(c);
        c->now_ns = wall > c->now_ns ? wall : c->now_ns;
        if (completion->kind == KVL_DONE_STEP) { /* to the nanosecond: a step ends when it is seen to have ended */
          g->result.stall_ns[KVL_STALL_BOOKKEEPING] += c->now_ns - g->result.end_ns;
          g->result.end_ns = c->now_ns;
        }
        completion->time_ns = c->now_ns;
        return 1;
      }
      rc = g->in_step ? kvl_cuda_look_ahead(g, err) : 0;
      if (rc < 0) {
        return rc;
      }
      busy = busy || g->in_step || g->flight_count[0] != 0 || g->flight_count[1] != 0;
    }
    if (wall > time_ns || (!busy && time_ns == UINT64_MAX)) {
      c->now_ns = time_ns != UINT64_MAX && time_ns > c->now_ns ? time_ns : c->now_ns;
      return 0;
    }
    if (!busy) { /* nothing can end before the time asked for: sleep most of the way, in naps, because it may be hours and a signal may have gone to another thread */
      uint64_t ns = time_ns - wall;
      if (c->config.stop != NULL && *c->config.stop != 0) {
        c->now_ns = wall > c->now_ns ? wall : c->now_ns;
        return 0;
      }
      if (ns > 200000) {
        struct timespec t = {.tv_nsec = ns < NAP_NS ? (long)(ns - 100000) : NAP_NS};
        (void)nanosleep(&t, NULL);
      }
    }
  }
}

static void cuda_point(struct kvl_plane *plane, uint32_t gpu, uint32_t point, struct kvl_plane_point *totals)
{
  *totals = kvl_cuda_of(plane)->gpu[gpu].totals[point];
}

static uint64_t cuda_link_busy_ns(struct kvl_plane *plane, uint32_t gpu)
{
  return kvl_cuda_of(plane)->gpu[gpu].link_busy_ns;
}

static uint64_t cuda_link_bytes(struct kvl_plane *plane, uint32_t gpu)
{
  return kvl_cuda_of(plane)->gpu[gpu].link_bytes;
}

/* The comparison of the last step may still be under way: it is waited for, so that nothing is left out. */
static void cuda_measured(struct kvl_plane *plane, struct kvl_plane_measured *measured)
{
  struct cuda_plane *c = kvl_cuda_of(plane);
  for (uint32_t i = 0; i < c->config.gpus; i++) {
    struct kvl_err err;
    if (kvl_cuda_collect_check(&c->gpu[i], &err) != 0 && c->measured.mismatches == 0) {
      c->measured.mismatches = 1; /* what could not be compared must not pass for equal */
      (void)snprintf(c->measured.first_mismatch, sizeof c->measured.first_mismatch, "the last step of decode GPU %u, not compared: %.100s", i, err.text);
    }
  }
  for (uint32_t i = 0; i < c->config.gpus; i++) { /* a gather whose end nobody sees is not counted */
    struct kvl_err ignored;
    (void)kvl_cuda_collect_floor(&c->gpu[i], &ignored);
  }
  kvl_cuda_floor_summary(c);
  *measured = c->measured;
}

static void close_gpu(struct cuda_gpu *g)
{
  if (g->gpu == NULL) {
    return;
  }
  struct cuda_plane *c = g->plane;
  kvl_gpu_stream streams[] = {g->main, g->copy, g->write_back, g->fill, g->upload, g->side};
  for (uint32_t i = 0; i < sizeof streams / sizeof streams[0]; i++) { /* what is in flight ends first; after a device error there is nothing to wait for */
    struct kvl_err ignored;
    if (streams[i] != NULL) {
      (void)kvl_gpu_synchronize(g->gpu, streams[i], &ignored);
    }
  }
  kvl_cuda_steps_close(g);
  kvl_cuda_slots_close(g);
  kvl_cuda_lists_close(g);
  kvl_gpu_free(g->gpu, g->arena);
  kvl_gpu_free(g->gpu, g->witness);
  kvl_gpu_free(g->gpu, g->staging);
  kvl_gpu_unpin(g->gpu, g->host, c->host_slot_bytes * c->config.device.slots, c->host_slot_bytes);
  for (uint32_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
    kvl_gpu_stream_close(g->gpu, streams[i]);
  }
  free(g->flight[0]);
  free(g->flight[1]);
  kvl_gpu_close(g->gpu);
}

static void cuda_close(struct kvl_plane *plane)
{
  struct cuda_plane *c = kvl_cuda_of(plane);
  for (uint32_t i = 0; c->gpu != NULL && i < c->config.gpus; i++) {
    close_gpu(&c->gpu[i]);
  }
  if (c->opened && c->config.inputs.close != NULL) {
    c->config.inputs.close(c->config.inputs.context);
  }
  free(c->gpu);
  free(c->floor);
  free(c->floor_sorted);
  free(c->stages);
  free(c);
}

static const struct kvl_plane_ops cuda_ops = {
  .name = "cuda",
  .close = cuda_close,
  .now = cuda_now,
  .request_open = kvl_cuda_request_open,
  .request_close = kvl_cuda_request_close,
  .step = kvl_cuda_step,
  .copy = kvl_cuda_copy,
  .keep = kvl_cuda_keep,
  .wait_until = cuda_wait_until,
  .point = cuda_point,
  .link_busy_ns = cuda_link_busy_ns,
  .link_bytes = cuda_link_bytes,
  .measured = cuda_measured,
};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
  return (n + unit - 1) / unit * unit;
}

/* Readers of one selection and part of the rows have one witness. */
static void number_witness(struct cuda_plane *c, uint32_t at)
{
  uint32_t reader = 0;
  bool parts = c->config.device.cache[c->stages[at].cache].parts > 1;
  for (uint32_t i = 0; i < at; i++) {
    if (c->stages[i].kind == KVL_STAGE_READ) {
      if (c->stages[i].point == c->stages[at].point && (!parts || c->stages[i].part == c->stages[at].part)) {
        c->witness_of_reader[c->readers++] = c->witness_of_reader[reader];
        return;
      }
      reader++;
    }
  }
  c->witness_of_reader[c->readers++] = c->witnesses++;
}

/* Sizes and offsets, the same for every GPU. */
static int measure(struct cuda_plane *c, struct kvl_err *err)
{
  const struct kvl_refdev_config *d = &c->config.device;
  int rc = kvl_layout_init(&c->layout, d, err);
  if (rc != 0) {
    return rc;
  }
  c->queries_max = d->queries_max == 0 ? 1 : d->queries_max;
  c->pages_max = c->config.tokens_max / d->page_tokens + 1;
  c->points_all = d->points;
  for (uint32_t i = 0; i < c->config.stage_count; i++) {
    const struct kvl_stage *stage = &c->stages[i];
    if (stage->kind == KVL_STAGE_READ) {
      number_witness(c, i);
    }
    if (stage->kind == KVL_STAGE_REPLAY) {
      c->replayed[stage->point] = true;
      c->parts_max = d->cache[stage->cache].parts > c->parts_max ? d->cache[stage->cache].parts : c->parts_max;
    }
    if (c->stages[i].kind == KVL_STAGE_ANNOUNCE) {
      c->pool_cache = c->stages[i].cache;
      c->pool_point = c->stages[i].point;
      c->points_all = d->points + 1;
    }
  }
  uint64_t at = 0, host = 0, words = 0, frame = 0;
  for (uint32_t i = 0; i < d->caches; i++) {
    const struct kvl_cache_geometry *g = &c->layout.geometry[i];
    if (d->cache[i].row_bytes % 8 != 0) {
      return kvl_err_set(err, -EINVAL, "cache %u: rows of %u bytes: the kernels take multiples of 8", i, d->cache[i].row_bytes);
    }
    if (g->evict != KVL_EVICT_LRU) {
      return kvl_err_set(err, -EINVAL, "policy.eviction: the kernels evict by lru; other policies run in the model plane");
    }
    c->mirror_geometry[i] = *g;
    c->mirror_geometry[i].hot_rows = c->mirror_geometry[i].bank_rows = 0;
    c->rows_max[i] = c->config.tokens_max / d->cache[i].tokens_per_row + 1 + KVL_STEP_QUERIES_MAX;
    c->host_offset[i] = host;
    host = round_up(host + (uint64_t)c->rows_max[i] * d->cache[i].row_bytes, 16);
    c->frame_offset[i] = frame;
    frame += (uint64_t)(d->page_tokens / d->cache[i].tokens_per_row) * d->cache[i].row_bytes;
    c->head_at[i] = at;
    c->place_at[i] = at = round_up(at + sizeof(struct kvl_cache_head) / 4, 4);
    c->stamp_at[i] = at = round_up(at + c->rows_max[i], 4);
    c->row_at[i] = at = round_up(at + g->hot_rows, 4);
    c->pinned_at[i] = at = round_up(at + g->hot_rows + g->bank_rows, 4);
    c->tail_at[i] = at = round_up(at + (g->hot_rows + 31) / 32, 4);
    at = round_up(at + g->tail_rows, 4);
  }
  c->map_at = at;
  c->state_words = round_up(at + c->pages_max, 64);
  c->host_slot_bytes = round_up(host, 4096);
  for (uint32_t p = 0; p < c->points_all; p++) {
    uint32_t k = p < d->points ? d->point[p].k : c->config.pool_blocks * c->config.pool_rows_per_block;
    c->k_max = p < d->points && k > c->k_max ? k : c->k_max;
    words = kvl_cuda_aligned_selection(words, c->queries_max) + (uint64_t)c->queries_max * (1 + k);
  }
  c->selection_words = round_up(words, 4);
  c->stamp_layer = 1;           /* pair 0: the step's first moment */
  c->stamp_reader = c->stamp_layer + c->config.layers;
  c->stamp_resolve = c->stamp_reader + c->readers;
  c->stamp_replay = c->stamp_resolve + d->points;
  c->stamp_bank = c->stamp_replay + d->points;
  c->stamp_floor = c->stamp_bank + 1;
  c->stamp_pairs = c->stamp_floor + (c->config.floor ? d->points : 0);
  if ((uint64_t)c->queries_max * c->k_max > KVL_LANES_MAX || d->points > KVL_STEP_POINTS || d->slots > 65535) {
    return kvl_err_set(err, -EINVAL, "%u queries of %u rows, %u selections a step: the kernels take %d rows a transaction and %d selections", c->queries_max,
                       c->k_max, d->points, KVL_LANES_MAX, KVL_STEP_POINTS);
  }
  uint64_t pinned = c->host_slot_bytes * d->slots * c->config.gpus;
  if (!c->config.resident && pinned > c->config.host_pool_bytes) {
    return kvl_err_set(err, -EINVAL, "node.host_pool_bytes: %u batch slots of %.2f GB each want %.2f GB of pinned memory, the pool has %.2f GB; "
                       "limits.batch_max bounds the slots", d->slots * c->config.gpus, (double)c->host_slot_bytes / 1e9, (double)pinned / 1e9,
                       (double)c->config.host_pool_bytes / 1e9);
  }
  return 0;
}

static int open_gpu(struct cuda_plane *c, struct cuda_gpu *g, struct kvl_err *err)
{
  const struct kvl_refdev_config *d = &c->config.device;
  int rc = kvl_gpu_open(&g->gpu, g->index, err);
  if (rc != 0) {
    return rc;
  }
  g->k = kvl_gpu_kernels(g->gpu);
  struct {
    kvl_gpu_stream *stream;
    bool urgent;
  } streams[] = {{&g->main, true}, {&g->side, true}, {&g->copy, false}, {&g->write_back, false}, {&g->fill, false}, {&g->upload, true}};
  for (uint32_t i = 0; rc == 0 && i < sizeof streams / sizeof streams[0]; i++) {
    rc = kvl_gpu_stream_open(g->gpu, streams[i].urgent, streams[i].stream, err);
  }
  struct {
    struct kvl_gpu_event **event;
    bool timed;
  } events[] = {{&g->side_fork, false},  {&g->side_join, false},   {&g->step_done, false}, {&g->check_done, false}, {&g->uploaded, false},
                {&g->serial_begin, true}, {&g->serial_end, true},  {&g->wrote_back, false}, {&g->kept, false}};
  for (uint32_t i = 0; rc == 0 && i < sizeof events / sizeof events[0]; i++) {
    rc = kvl_gpu_event_get(g->gpu, events[i].timed, events[i].event, err);
  }
  for (uint32_t i = 1; rc == 0 && i < c->parts_max; i++) {
    rc = kvl_gpu_event_get(g->gpu, false, &g->part_done[i], err);
  }
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, c->layout.arena_bytes, 0xa5, "the KV arena (node.kv_pool_bytes and the batch slots' private rows)",
                                    (void **)&g->arena, err);
  if (rc == 0 && c->config.check != KVL_CHECK_NONE) {
    rc = kvl_gpu_alloc(g->gpu, c->host_slot_bytes * d->slots, 0x96, "the resident copy that reads are checked against (--check=none does without)",
                       (void **)&g->witness, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, c->host_slot_bytes, 0x69,
                                    c->config.resident ? "a session's rows on their way to its frames" : "a session's rows on their way to the host",
                                    (void **)&g->staging, err);
  rc = rc != 0 || c->config.resident ? rc : kvl_gpu_pin(g->gpu, c->host_slot_bytes * d->slots, c->host_slot_bytes, "the pool of complete histories", (void **)&g->host, err);
  rc = rc != 0 ? rc : kvl_cuda_lists_open(g, err);
  rc = rc != 0 ? rc : kvl_cuda_slots_open(g, err);
  rc = rc != 0 ? rc : kvl_cuda_steps_open(g, err);
  g->duration = (uint64_t *)(void *)(g->state + c->state_words * 4 * d->slots); /* behind the last slot's state */
  return rc;
}

int kvl_plane_cuda_create(struct kvl_plane **out, const struct kvl_plane_cuda_config *config, struct kvl_err *err)
{
  struct cuda_plane *c = calloc(1, sizeof *c);
  if (c == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the CUDA plane");
  }
  c->plane.ops = &cuda_ops;
  c->config = *config;
  c->start_wall_ns = monotonic_ns();
  c->stages = malloc((config->stage_count + 1) * sizeof *c->stages);
  c->gpu = calloc(config->gpus, sizeof *c->gpu);
  int rc = c->stages == NULL || c->gpu == NULL ? kvl_err_set(err, -ENOMEM, "no memory for the CUDA plane") : 0;
  if (rc == 0) {
    memcpy(c->stages, config->stages, config->stage_count * sizeof *c->stages);
    c->config.stages = c->stages;
    rc = measure(c, err);
    uint32_t present = 0; /* before the first of them is opened and fills */
    rc = rc != 0 ? rc : kvl_gpu_count(&present, err);
    if (rc == 0 && config->gpus > present) {
      rc = kvl_err_set(err, -ENODEV, "%u GPUs are asked for (node.decode_gpus), this machine has %u", config->gpus, present);
    }
  }
  for (uint32_t i = 0; rc == 0 && i < config->gpus; i++) {
    c->gpu[i].plane = c;
    c->gpu[i].index = i;
    rc = open_gpu(c, &c->gpu[i], err);
  }
  if (rc != 0) {
    cuda_close(&c->plane);
    return rc;
  }
  c->start_wall_ns = monotonic_ns(); /* opening is no part of the run */
  c->opened = true;
  *out = &c->plane;
  return 0;
}
