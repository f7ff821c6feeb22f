/* Lists in pinned memory that kernels read; page copies, write-back, completed pages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plane_cuda_state.h"

enum { LIST_HEAD = 16, PAGES_AT_ONCE = 2048 };

int kvl_cuda_lists_open(struct cuda_gpu *g, struct kvl_err *err)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < LISTS; i++) {
    rc = kvl_gpu_pin(g->gpu, LIST_BYTES, 0, "a list for the GPU", &g->list[i].memory, err);
    rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, LIST_BYTES, 0, "a list for the GPU", (void **)&g->list[i].device, err);
    rc = rc != 0 ? rc : kvl_gpu_event_get(g->gpu, false, &g->list[i].done, err);
  }
  return rc;
}

void kvl_cuda_lists_close(struct cuda_gpu *g)
{
  for (uint32_t i = 0; i < LISTS; i++) {
    kvl_gpu_unpin(g->gpu, g->list[i].memory, LIST_BYTES, 0);
    kvl_gpu_free(g->gpu, g->list[i].device);
  }
}

/* The next list; waits when the GPU has not read it yet. */
static int take(struct cuda_gpu *g, struct list **list, struct kvl_err *err)
{
  struct list *l = &g->list[g->list_next];
  g->list_next = (g->list_next + 1) % LISTS;
  int rc = l->busy ? 0 : 1;
  while (rc == 0) {
    rc = kvl_gpu_event_done(g->gpu, l->done, err);
  }
  l->busy = false;
  *list = l;
  return rc < 0 ? rc : 0;
}

static int give(struct cuda_gpu *g, struct list *l, kvl_gpu_stream stream, struct kvl_err *err)
{
  l->busy = true;
  return kvl_gpu_event_record(g->gpu, l->done, stream, err);
}

/* As many entries as fit, on their way to the device: every block of a kernel reads the whole list, which from host memory would cost more than the copy. */
static int put(struct cuda_gpu *g, struct list *l, const void *entries, uint32_t count, size_t size, kvl_gpu_stream stream, uint32_t *put, struct kvl_err *err)
{
  uint32_t room = (LIST_BYTES - LIST_HEAD) / (uint32_t)size, n = count < room ? count : room;
  memcpy((unsigned char *)l->memory + LIST_HEAD, entries, n * size);
  *(uint32_t *)l->memory = n;
  *put = n;
  return kvl_gpu_copy(g->gpu, l->device, l->memory, LIST_HEAD + n * size, stream, err);
}

int kvl_cuda_segments(struct cuda_gpu *g, const struct kvl_segment *segments, uint32_t count, const unsigned char *from, unsigned char *to,
                      uint32_t blocks_max, kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = 0;
  for (uint32_t n = 0; rc == 0 && n < count;) {
    struct list *l;
    rc = take(g, &l, err);
    if (rc != 0) {
      break;
    }
    uint32_t now;
    rc = put(g, l, segments + n, count - n, sizeof *segments, stream, &now, err);
    struct kvl_segments s = {.from = from, .to = to, .segment = (const struct kvl_segment *)(const void *)(l->device + LIST_HEAD),
                             .count = (const uint32_t *)(const void *)l->device, .segments_max = now, .blocks_max = blocks_max};
    rc = rc != 0 ? rc : kvl_gpu_launched(g->k->segments(&s, stream), "segments", err);
    rc = rc != 0 ? rc : give(g, l, stream, err);
    n += now;
  }
  return rc;
}

int kvl_cuda_pokes(struct cuda_gpu *g, const struct kvl_poke *pokes, uint32_t count, kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = 0;
  for (uint32_t n = 0; rc == 0 && n < count;) {
    struct list *l;
    rc = take(g, &l, err);
    if (rc != 0) {
      break;
    }
    uint32_t now;
    rc = put(g, l, pokes + n, count - n, sizeof *pokes, stream, &now, err);
    struct kvl_pokes p = {.base = (uint32_t *)(void *)g->state, .poke = (const struct kvl_poke *)(const void *)(l->device + LIST_HEAD),
                          .count = (const uint32_t *)(const void *)l->device, .pokes_max = now};
    rc = rc != 0 ? rc : kvl_gpu_launched(g->k->pokes(&p, stream), "pokes", err);
    rc = rc != 0 ? rc : give(g, l, stream, err);
    n += now;
  }
  return rc;
}

uint64_t kvl_cuda_host_offset(const struct cuda_plane *c, kvl_request slot, uint32_t cache, kvl_row row)
{
  return c->host_slot_bytes * (uint32_t)slot + c->host_offset[cache] + (uint64_t)row * c->config.device.cache[cache].row_bytes;
}

uint64_t kvl_cuda_frame_offset(const struct cuda_plane *c, kvl_frame frame, uint32_t cache)
{
  return (uint64_t)(uint32_t)frame * c->config.device.page_bytes + c->frame_offset[cache];
}

/* ---- pages ---- */

static uint64_t piece_bytes(const struct cuda_plane *c, uint32_t cache) /* a cache's part of a page */
{
  const struct kvl_refdev_config *d = &c->config.device;
  return (uint64_t)(d->page_tokens / d->cache[cache].tokens_per_row) * d->cache[cache].row_bytes;
}

/* Pages from `first` on that follow one another in history and in the arena alike: +1 each, or -1 each. */
static uint32_t run_of(const struct kvl_move *moves, uint32_t first, uint32_t count)
{
  uint32_t n = 1;
  if (first + 1 < count && moves[first + 1].request == moves[first].request) {
    int step = moves[first + 1].page - moves[first].page;
    while ((step == 1 || step == -1) && first + n < count && moves[first + n].request == moves[first].request &&
           moves[first + n].page - moves[first + n - 1].page == step && moves[first + n].frame - moves[first + n - 1].frame == step) {
      n++;
    }
  }
  return n;
}

static int pages_by_engine(struct cuda_gpu *g, const struct kvl_move *moves, uint32_t count, kvl_gpu_stream stream, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  int rc = 0;
  for (uint32_t i = 0, n; rc == 0 && i < count; i += n) {
    n = run_of(moves, i, count);
    const struct kvl_move *low = n > 1 && moves[i + 1].page < moves[i].page ? &moves[i + n - 1] : &moves[i];
    for (uint32_t k = 0; rc == 0 && k < c->config.device.caches; k++) {
      uint64_t piece = piece_bytes(c, k);
      rc = kvl_gpu_copy_2d(g->gpu, g->arena + kvl_cuda_frame_offset(c, low->frame, k), c->config.device.page_bytes,
                           g->host + kvl_cuda_host_offset(c, low->request, k, 0) + (uint64_t)(uint32_t)low->page * piece, piece, piece, n, stream, err);
    }
  }
  return rc;
}

/* A part of the list at a time: the GPU copies while the rest is written. */
static int pages_by_kernel(struct cuda_gpu *g, const struct kvl_move *moves, uint32_t count, kvl_gpu_stream stream, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  uint32_t caches = c->config.device.caches, at_once = PAGES_AT_ONCE < count ? PAGES_AT_ONCE : count;
  struct kvl_segment *s = malloc((size_t)at_once * caches * sizeof *s);
  if (s == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for %u page moves", count);
  }
  int rc = 0;
  for (uint32_t first = 0; rc == 0 && first < count; first += at_once) {
    uint32_t here = count - first < at_once ? count - first : at_once;
    for (uint32_t i = 0; i < here; i++) {
      const struct kvl_move *move = &moves[first + i];
      for (uint32_t k = 0; k < caches; k++) {
        uint64_t piece = piece_bytes(c, k);
        s[(size_t)i * caches + k] = (struct kvl_segment){
          .from = kvl_cuda_host_offset(c, move->request, k, 0) + (uint64_t)(uint32_t)move->page * piece,
          .to = kvl_cuda_frame_offset(c, move->frame, k),
          .bytes = piece,
        };
      }
    }
    rc = kvl_cuda_segments(g, s, here * caches, g->host, g->arena, COPY_BLOCKS, stream, err);
  }
  free(s);
  return rc;
}

/* The rows of `tokens` tokens, an open page's too: as few lists as hold them, because many requests may be opened at once. */
int kvl_cuda_history_to_frames(struct cuda_gpu *g, kvl_request slot, uint32_t tokens, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  uint32_t pages = tokens / d->page_tokens + (tokens % d->page_tokens != 0), count = 0;
  struct kvl_segment *s = malloc(((size_t)pages * d->caches + 1) * sizeof *s);
  if (s == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for a history of %u pages", pages);
  }
  for (uint32_t p = 0; p < pages; p++) {
    for (uint32_t k = 0; k < d->caches; k++) {
      uint64_t piece = piece_bytes(c, k), from = p * piece, end = (uint64_t)(tokens / d->cache[k].tokens_per_row) * d->cache[k].row_bytes;
      if (from < end) {
        s[count++] = (struct kvl_segment){.from = c->host_offset[k] + from, .to = kvl_cuda_frame_offset(c, g->slot[slot].page_map[p], k),
                                          .bytes = end - from < piece ? end - from : piece};
      }
    }
  }
  int rc = kvl_cuda_segments(g, s, count, g->staging, g->arena, COPY_BLOCKS, g->fill, err);
  free(s);
  return rc;
}

/* Host -> frames. Long runs of large pages go through the copy engine, one copy a cache and run; others through a kernel on a few multiprocessors, because
 * the engine takes microseconds a call, and in a strided copy of pieces of 9 and 18 KB reaches 37 GB/s where the kernel reaches 50 (one H200). */
int kvl_cuda_pages(struct cuda_gpu *g, const struct kvl_move *moves, uint32_t count, kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = 0;
  uint32_t runs = 0;
  for (uint32_t i = 0; rc == 0 && i < count; runs++) {
    uint32_t n = run_of(moves, i, count);
    rc = kvl_cuda_wait_filled(g, moves[i].request, stream, err);
    i += n;
  }
  if (rc != 0 || count == 0) {
    return rc;
  }
  bool engine = count * g->plane->config.device.page_bytes / runs >= RUN_BYTES_MIN;
  for (uint32_t i = 0; i < g->plane->config.device.caches; i++) {
    engine = engine && piece_bytes(g->plane, i) >= PIECE_BYTES_MIN;
  }
  return engine ? pages_by_engine(g, moves, count, stream, err) : pages_by_kernel(g, moves, count, stream, err);
}

/* Tail rows of a step -> host. Asked for as a step ends, begun once the next one is on its way: nobody waits for it, and the GPU would. */
int kvl_cuda_write_back(struct cuda_gpu *g, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  if (!g->leaving_due) {
    return 0;
  }
  g->leaving_due = false;
  struct kvl_segment *s = malloc((g->leaving_count + 1) * sizeof *s);
  if (s == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for %u rows on their way to the host", g->leaving_count);
  }
  uint32_t count = 0;
  for (uint32_t i = 0; i < g->leaving_count; i++) {
    const struct committed *row = &g->leaving[i];
    struct kvl_cache_bases bases;
    kvl_layout_bases(&c->layout, &c->config.device, row->slot, row->cache, &bases);
    uint32_t row_bytes = c->config.device.cache[row->cache].row_bytes;
    uint64_t from = (uint64_t)(uint32_t)(bases.tail + row->place) * row_bytes, to = kvl_cuda_host_offset(c, row->slot, row->cache, row->row);
    if (count != 0 && s[count - 1].from + s[count - 1].bytes == from && s[count - 1].to + s[count - 1].bytes == to) {
      s[count - 1].bytes += row_bytes;
    } else {
      s[count++] = (struct kvl_segment){.from = from, .to = to, .bytes = row_bytes};
    }
  }
  struct page_copy_event *f = &g->flight[1][(g->flight_first[1] + g->flight_count[1] - 1) % g->flight_capacity[1]];
  int rc = kvl_gpu_event_record(g->gpu, f->begin, g->write_back, err);
  rc = rc != 0 ? rc : kvl_cuda_segments(g, s, count, g->arena, g->host, 2, g->write_back, err);
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, f->end, g->write_back, err);
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->wrote_back, g->write_back, err);
  free(s);
  return rc;
}

/* The rings hold what is in flight, in order; they grow when all their places are taken. */
static int add_flight(struct cuda_gpu *g, int direction, struct page_copy_event **out, struct kvl_err *err)
{
  if (g->flight_count[direction] == g->flight_capacity[direction]) {
    uint32_t old = g->flight_capacity[direction], capacity = old == 0 ? 64 : 2 * old;
    struct page_copy_event *grown = calloc(capacity, sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for %u copies in flight", capacity);
    }
    for (uint32_t i = 0; i < g->flight_count[direction]; i++) {
      grown[i] = g->flight[direction][(g->flight_first[direction] + i) % old];
    }
    free(g->flight[direction]);
    g->flight[direction] = grown;
    g->flight_first[direction] = 0;
    g->flight_capacity[direction] = capacity;
  }
  *out = &g->flight[direction][(g->flight_first[direction] + g->flight_count[direction]++) % g->flight_capacity[direction]];
  memset(*out, 0, sizeof **out);
  return 0;
}

int kvl_cuda_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  struct cuda_gpu *g = &kvl_cuda_of(plane)->gpu[copy->gpu];
  int direction = copy->kind == KVL_COPY_PAGES ? 0 : 1;
  struct page_copy_event *f = NULL;
  int rc = direction == 0 ? 0 : kvl_cuda_write_back(g, err); /* one waits at most */
  rc = rc != 0 ? rc : add_flight(g, direction, &f, err);
  if (rc != 0) {
    return rc;
  }
  f->tag = copy->tag;
  f->bytes = copy->bytes;
  f->kind = copy->kind;
  rc = kvl_gpu_event_get(g->gpu, true, &f->begin, err);
  rc = rc != 0 ? rc : kvl_gpu_event_get(g->gpu, true, &f->end, err);
  if (rc == 0 && direction == 1) {
    struct committed *rows = g->leaving;
    g->leaving = g->committed;
    g->leaving_count = g->committed_count;
    g->leaving_due = true;
    g->committed = rows;
    g->committed_count = 0;
    return 0;
  }
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, f->begin, g->copy, err);
  rc = rc != 0 ? rc : kvl_gpu_stream_wait(g->gpu, g->copy, g->kept, err);
  rc = rc != 0 ? rc : kvl_cuda_pages(g, copy->moves, copy->move_count, g->copy, err);
  return rc != 0 ? rc : kvl_gpu_event_record(g->gpu, f->end, g->copy, err);
}

int kvl_cuda_copies_poll(struct cuda_gpu *g, struct kvl_completion *completion, struct kvl_err *err)
{
  for (int direction = 0; direction < 2; direction++) {
    if (g->flight_count[direction] == 0 || (direction == 1 && g->leaving_due && g->flight_count[direction] == 1)) {
      continue;
    }
    struct page_copy_event *f = &g->flight[direction][g->flight_first[direction]];
    int done = kvl_gpu_event_done(g->gpu, f->end, err);
    if (done < 0) {
      return done;
    }
    if (done == 0) {
      continue;
    }
    uint64_t ns = 0;
    int rc = kvl_gpu_event_ns(g->gpu, f->begin, f->end, &ns, err);
    if (rc != 0) {
      return rc;
    }
    enum kvl_traffic traffic = direction == 0 ? KVL_TRAFFIC_PAGES : KVL_TRAFFIC_WRITE_BACK;
    g->plane->measured.traffic[traffic].count++;
    g->plane->measured.traffic[traffic].bytes += f->bytes;
    kvl_cuda_count(&g->plane->measured.traffic[traffic].times, ns);
    if (direction == 0) {
      g->link_busy_ns += ns;
      g->link_bytes += f->bytes;
    }
    *completion = (struct kvl_completion){.kind = KVL_DONE_COPY, .gpu = g->index, .tag = f->tag};
    kvl_gpu_event_put(g->gpu, f->begin);
    kvl_gpu_event_put(g->gpu, f->end);
    g->flight_first[direction] = (g->flight_first[direction] + 1) % g->flight_capacity[direction];
    g->flight_count[direction]--;
    return 1;
  }
  return 0;
}

/* The page's rows lie in the tail, a place each; those that have left it are on the host. At once and in the main stream, so before the next step;
 * page copies beside the steps wait for it, because the frame may be another page's soon. */
int kvl_cuda_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  struct cuda_plane *c = kvl_cuda_of(plane);
  struct cuda_gpu *g = &c->gpu[gpu];
  const struct kvl_refdev_config *d = &c->config.device;
  uint32_t rows_max = d->caches * d->page_tokens, tail = 0, host = 0;
  struct kvl_segment *from_tail = malloc(2 * rows_max * sizeof *from_tail), *from_host = from_tail + rows_max;
  if (from_tail == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the rows of a completed page");
  }
  for (uint32_t i = 0; i < d->caches; i++) {
    uint32_t row_bytes = d->cache[i].row_bytes, rows = d->page_tokens / d->cache[i].tokens_per_row;
    struct kvl_cache_bases bases;
    kvl_layout_bases(&c->layout, d, move->request, i, &bases);
    uint64_t to = kvl_cuda_frame_offset(c, move->frame, i);
    kvl_row first = (kvl_row)((uint32_t)move->page * rows);
    for (uint32_t k = 0; k < rows; k++, to += row_bytes) {
      kvl_slot place = kvl_cache_tail_place(g->slot[move->request].mirror[i], first + (kvl_row)k);
      bool in_tail = place != KVL_NONE;
      uint64_t from = in_tail ? (uint64_t)(uint32_t)(bases.tail + place) * row_bytes : kvl_cuda_host_offset(c, move->request, i, first + (kvl_row)k);
      struct kvl_segment *list = in_tail ? from_tail : from_host;
      uint32_t *count = in_tail ? &tail : &host;
      if (*count != 0 && list[*count - 1].from + list[*count - 1].bytes == from && list[*count - 1].to + list[*count - 1].bytes == to) {
        list[*count - 1].bytes += row_bytes;
      } else {
        list[(*count)++] = (struct kvl_segment){.from = from, .to = to, .bytes = row_bytes};
      }
    }
  }
  int rc = kvl_cuda_wait_filled(g, move->request, g->main, err);
  rc = rc != 0 ? rc : kvl_cuda_segments(g, from_tail, tail, g->arena, g->arena, COPY_BLOCKS, g->main, err);
  rc = rc != 0 ? rc : kvl_cuda_segments(g, from_host, host, g->host, g->arena, COPY_BLOCKS, g->main, err);
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->kept, g->main, err);
  free(from_tail);
  return rc;
}
