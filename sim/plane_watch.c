#include "sim/plane_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct flight { /* a copy on its way */
  uint32_t gpu;
  uint64_t tag, bytes, submit_ns;
  uint32_t pages;
  enum kvl_watch_kind kind;
};

struct watched_gpu { /* of its step in flight */
  uint32_t count, admissions, serial_count, revoked_pages;
};

struct watch_plane {
  struct kvl_plane plane;
  struct kvl_plane_ops ops;
  struct kvl_plane *inner;
  struct kvl_watch *watch;
  uint64_t page_bytes;
  struct watched_gpu *gpu;
  struct flight *flight; /* in order of submission */
  uint32_t flights, capacity;
};

const char *kvl_watch_name(enum kvl_watch_kind kind)
{
  static const char *const names[KVL_WATCH_KINDS] = {
    [KVL_WATCH_STEP] = "step", [KVL_WATCH_COMPUTE] = "compute", [KVL_WATCH_BOOKKEEPING] = "bookkeeping", [KVL_WATCH_RESOLVE] = "resolve",
    [KVL_WATCH_FETCH] = "fetch", [KVL_WATCH_LINK_WAIT] = "link_wait", [KVL_WATCH_LOOK_UP] = "look_up", [KVL_WATCH_PREFETCH_WAIT] = "prefetch_wait",
    [KVL_WATCH_ADMISSION] = "admission", [KVL_WATCH_POPULATION] = "population", [KVL_WATCH_REVOCATION] = "revocation",
    [KVL_WATCH_GIVE_BACK] = "give_back", [KVL_WATCH_SIDE_POPULATION] = "side_population", [KVL_WATCH_WRITE_BACK] = "write_back",
  };
  return names[kind];
}

struct kvl_watch *kvl_watch_create(void)
{
  struct kvl_watch *watch = calloc(1, sizeof *watch);
  for (int i = 0; watch != NULL && i < KVL_WATCH_KINDS; i++) {
    kvl_hist_init(&watch->ns[i]);
  }
  if (watch != NULL) {
    kvl_hist_init(&watch->batch);
  }
  return watch;
}

void kvl_watch_destroy(struct kvl_watch *watch)
{
  free(watch);
}

static struct watch_plane *of(struct kvl_plane *plane)
{
  return (struct watch_plane *)plane;
}

static void note(struct kvl_watch *watch, enum kvl_watch_kind kind, uint64_t ns, uint64_t bytes, uint32_t pages)
{
  kvl_hist_add(&watch->ns[kind], ns, 1);
  watch->bytes[kind] += bytes;
  watch->pages[kind] += pages;
}

static uint64_t watch_now(struct kvl_plane *plane)
{
  return of(plane)->inner->ops->now(of(plane)->inner);
}

static int watch_request_open(struct kvl_plane *plane, const struct kvl_plane_request *request, struct kvl_err *err)
{
  return of(plane)->inner->ops->request_open(of(plane)->inner, request, err);
}

static void watch_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot)
{
  of(plane)->inner->ops->request_close(of(plane)->inner, gpu, slot);
}

static int watch_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct watch_plane *w = of(plane);
  w->gpu[step->gpu] = (struct watched_gpu){step->count, step->admissions, step->serial_count, step->revoked_pages};
  return w->inner->ops->step(w->inner, step, err);
}

static int watch_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  struct watch_plane *w = of(plane);
  if (w->flights == w->capacity) {
    uint32_t capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
    struct flight *grown = realloc(w->flight, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory to watch %u copies", capacity);
    }
    w->flight = grown;
    w->capacity = capacity;
  }
  enum kvl_watch_kind kind = copy->kind == KVL_COPY_WRITE_BACK                                     ? KVL_WATCH_WRITE_BACK
                             : copy->move_count != 0 && copy->moves[0].kind == KVL_MOVE_POPULATE ? KVL_WATCH_SIDE_POPULATION
                                                                                                   : KVL_WATCH_GIVE_BACK;
  w->flight[w->flights++] = (struct flight){copy->gpu, copy->tag, copy->bytes, watch_now(plane), copy->move_count, kind};
  return w->inner->ops->copy(w->inner, copy, err);
}

static int watch_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  return of(plane)->inner->ops->keep(of(plane)->inner, gpu, move, err);
}

static void step_done(struct watch_plane *w, const struct kvl_completion *c)
{
  struct kvl_watch *watch = w->watch;
  const struct watched_gpu *g = &w->gpu[c->gpu];
  const struct kvl_step_result *r = c->step;
  uint64_t lanes = 0, serial_bytes = g->serial_count * w->page_bytes;
  for (int t = 0; t < KVL_TIERS; t++) {
    lanes += r->lanes[t];
  }
  if (g->admissions != 0) {
    note(watch, KVL_WATCH_ADMISSION, r->stall_ns[KVL_STALL_ADMISSION], 0, 0);
  }
  if (g->serial_count != 0) {
    note(watch, KVL_WATCH_POPULATION, r->stall_ns[KVL_STALL_POPULATION], serial_bytes, g->serial_count);
  }
  if (g->revoked_pages != 0) {
    note(watch, KVL_WATCH_REVOCATION, r->stall_ns[KVL_STALL_REVOCATION], 0, g->revoked_pages);
  }
  if (g->count == 0) {
    return;
  }
  kvl_hist_add(&watch->batch, g->count, 1);
  note(watch, KVL_WATCH_STEP, r->end_ns - r->step_begin_ns, 0, 0);
  note(watch, KVL_WATCH_COMPUTE, r->stall_ns[KVL_STALL_COMPUTE], 0, 0);
  note(watch, KVL_WATCH_BOOKKEEPING, r->stall_ns[KVL_STALL_BOOKKEEPING], 0, 0);
  if (lanes != 0) {
    note(watch, KVL_WATCH_RESOLVE, r->stall_ns[KVL_STALL_RESOLVE], 0, 0);
    note(watch, KVL_WATCH_LOOK_UP, r->stall_ns[KVL_STALL_RESOLVE] + r->stall_ns[KVL_STALL_FETCH] + r->stall_ns[KVL_STALL_LINK_WAIT], 0, 0);
  }
  if (r->fetched != 0) { /* bank copies share the count of bytes: with them the rate of fetches alone is not known */
    uint64_t bytes = r->prefetch.copied == 0 && r->link_bytes > serial_bytes ? r->link_bytes - serial_bytes : 0;
    note(watch, KVL_WATCH_FETCH, r->stall_ns[KVL_STALL_FETCH], bytes, 0);
    note(watch, KVL_WATCH_LINK_WAIT, r->stall_ns[KVL_STALL_LINK_WAIT], 0, 0);
  }
  if (r->prefetch.candidates != 0) {
    note(watch, KVL_WATCH_PREFETCH_WAIT, r->stall_ns[KVL_STALL_PREFETCH_WAIT], 0, 0);
  }
}

static void copy_done(struct watch_plane *w, const struct kvl_completion *c)
{
  uint32_t i = 0;
  while (i < w->flights && (w->flight[i].gpu != c->gpu || w->flight[i].tag != c->tag)) {
    i++;
  }
  if (i < w->flights) {
    const struct flight *f = &w->flight[i];
    note(w->watch, f->kind, c->time_ns - f->submit_ns, f->bytes, f->pages);
    memmove(&w->flight[i], &w->flight[i + 1], (--w->flights - i) * sizeof *f);
  }
}

static int watch_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct watch_plane *w = of(plane);
  int rc = w->inner->ops->wait_until(w->inner, time_ns, completion, err);
  if (rc == 1 && completion->kind == KVL_DONE_STEP) {
    step_done(w, completion);
  } else if (rc == 1) {
    copy_done(w, completion);
  }
  return rc;
}

static void watch_point(struct kvl_plane *plane, uint32_t gpu, uint32_t point, struct kvl_plane_point *totals)
{
  of(plane)->inner->ops->point(of(plane)->inner, gpu, point, totals);
}

static uint64_t watch_link_busy_ns(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->inner->ops->link_busy_ns(of(plane)->inner, gpu);
}

static uint64_t watch_link_bytes(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->inner->ops->link_bytes(of(plane)->inner, gpu);
}

static int watch_verify(struct kvl_plane *plane, struct kvl_err *err)
{
  return of(plane)->inner->ops->verify(of(plane)->inner, err);
}

static void watch_measured(struct kvl_plane *plane, struct kvl_plane_measured *measured)
{
  of(plane)->inner->ops->measured(of(plane)->inner, measured);
}

static void watch_close(struct kvl_plane *plane)
{
  struct watch_plane *w = of(plane);
  w->inner->ops->close(w->inner);
  free(w->gpu);
  free(w->flight);
  free(w);
}

static const struct kvl_plane_ops watch_ops = {
  .close = watch_close,
  .now = watch_now,
  .request_open = watch_request_open,
  .request_close = watch_request_close,
  .step = watch_step,
  .copy = watch_copy,
  .keep = watch_keep,
  .wait_until = watch_wait_until,
  .point = watch_point,
  .link_busy_ns = watch_link_busy_ns,
  .link_bytes = watch_link_bytes,
};

int kvl_plane_watch_create(struct kvl_plane **plane, struct kvl_plane *inner, struct kvl_watch *watch, uint32_t gpus, uint64_t page_bytes,
                           struct kvl_err *err)
{
  struct watch_plane *w = calloc(1, sizeof *w);
  struct watched_gpu *gpu = calloc((size_t)gpus + 1, sizeof *gpu);
  if (w == NULL || gpu == NULL) {
    free(w);
    free(gpu);
    return kvl_err_set(err, -ENOMEM, "no memory to watch the plane");
  }
  w->ops = watch_ops;
  w->ops.name = inner->ops->name;
  w->ops.verify = inner->ops->verify == NULL ? NULL : watch_verify;
  w->ops.measured = inner->ops->measured == NULL ? NULL : watch_measured;
  w->plane.ops = &w->ops;
  w->inner = inner;
  w->watch = watch;
  w->page_bytes = page_bytes;
  w->gpu = gpu;
  *plane = &w->plane;
  return 0;
}
