#include "sim/plane_replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/tally.h"

struct early { /* a copy that the inner plane completed before the log says so */
  uint32_t gpu;
  uint64_t tag;
};

struct gpu_state {
  bool begun, inner_done;        /* a step is in flight; the inner plane is through with it */
  uint64_t number;
  struct kvl_step_result inner;  /* its result there */
  struct kvl_step_result result; /* what the engine gets */
};

struct replay_plane {
  struct kvl_plane plane;
  struct kvl_plane_ops ops;
  struct kvl_plane *inner;
  const struct kvl_log *log;
  uint32_t gpus;
  size_t cursor;
  uint64_t number;               /* line, of the last event taken */
  uint64_t now_ns;
  volatile sig_atomic_t *stop;
  struct gpu_state *gpu;
  struct early *early;
  uint32_t early_count, early_capacity;
  struct kvl_replay_report *report;
  char line[KVL_LOG_LINE_CAP];
};

static struct replay_plane *of(struct kvl_plane *plane)
{
  return (struct replay_plane *)plane;
}

static int fail_as_before(struct replay_plane *r, struct kvl_err *err)
{
  return kvl_err_set(err, r->report->failed, "%s", r->report->why.text);
}

static int differ(struct replay_plane *r, const char *recorded, size_t bytes, const char *replayed, struct kvl_err *err)
{
  r->report->failed = kvl_err_set(&r->report->why, -EPROTO, "%s:%" PRIu64 ": the decisions differ: recorded '%.*s', replayed '%s'", kvl_log_name(r->log), r->number,
                          bytes < 360 ? (int)bytes : 360, recorded, replayed);
  return fail_as_before(r, err);
}

/* The call in `line` against the next line of the log. */
static int compare(struct replay_plane *r, struct kvl_err *err)
{
  const char *recorded;
  size_t bytes;
  if (r->report->failed != 0) {
    return fail_as_before(r, err);
  }
  if (!kvl_log_next(r->log, &r->cursor, &recorded, &bytes, &r->number)) {
    r->number++;
    return differ(r, "end", 3, r->line, err);
  }
  if (strlen(r->line) != bytes || memcmp(recorded, r->line, bytes) != 0) {
    return differ(r, recorded, bytes, r->line, err);
  }
  r->report->decisions++;
  return 0;
}

static uint64_t replay_now(struct kvl_plane *plane)
{
  return of(plane)->now_ns;
}

static int replay_request_open(struct kvl_plane *plane, const struct kvl_plane_request *request, struct kvl_err *err)
{
  struct replay_plane *r = of(plane);
  kvl_log_line_open(r->line, request);
  int rc = compare(r, err);
  return rc != 0 ? rc : r->inner->ops->request_open(r->inner, request, err);
}

static void replay_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot)
{
  struct replay_plane *r = of(plane);
  kvl_log_line_close(r->line, gpu, slot);
  (void)compare(r, NULL); /* told at the next call, or at the end */
  r->inner->ops->request_close(r->inner, gpu, slot);
}

static int replay_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct replay_plane *r = of(plane);
  kvl_log_line_step(r->line, step);
  int rc = compare(r, err);
  if (rc == 0) {
    r->gpu[step->gpu].begun = true;
    r->gpu[step->gpu].inner_done = false;
    r->gpu[step->gpu].number = step->number;
    rc = r->inner->ops->step(r->inner, step, err);
  }
  return rc;
}

static int replay_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  struct replay_plane *r = of(plane);
  kvl_log_line_copy(r->line, copy);
  int rc = compare(r, err);
  return rc != 0 ? rc : r->inner->ops->copy(r->inner, copy, err);
}

static int replay_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  struct replay_plane *r = of(plane);
  kvl_log_line_keep(r->line, gpu, move);
  int rc = compare(r, err);
  return rc != 0 ? rc : r->inner->ops->keep(r->inner, gpu, move, err);
}

/* ---- completions ---- */

static bool take_early(struct replay_plane *r, uint32_t gpu, uint64_t tag)
{
  for (uint32_t i = 0; i < r->early_count; i++) {
    if (r->early[i].gpu == gpu && r->early[i].tag == tag) {
      memmove(&r->early[i], &r->early[i + 1], (--r->early_count - i) * sizeof *r->early);
      return true;
    }
  }
  return false;
}

static int add_early(struct replay_plane *r, uint32_t gpu, uint64_t tag, struct kvl_err *err)
{
  if (r->early_count == r->early_capacity) {
    uint32_t capacity = r->early_capacity == 0 ? 64 : 2 * r->early_capacity;
    struct early *grown = realloc(r->early, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for %u copies", capacity);
    }
    r->early = grown;
    r->early_capacity = capacity;
  }
  r->early[r->early_count++] = (struct early){gpu, tag};
  return 0;
}

/* Lets the inner plane go on, in its own time and order, until the completion that the log names is behind it. */
static int catch_up(struct replay_plane *r, const struct kvl_log_wait *w, struct kvl_err *err)
{
  for (;;) {
    if (w->kind == KVL_DONE_STEP ? r->gpu[w->gpu].inner_done : take_early(r, w->gpu, w->tag)) {
      return 0;
    }
    struct kvl_completion c;
    int rc = r->inner->ops->wait_until(r->inner, UINT64_MAX, &c, err);
    if (rc < 0) {
      return rc;
    }
    if (rc == 0) {
      r->report->failed = kvl_err_set(&r->report->why, -EPROTO, "%s:%" PRIu64 ": the log completes %s %" PRIu64 " of GPU %u, which was not begun", kvl_log_name(r->log),
                              r->number, w->kind == KVL_DONE_STEP ? "step" : "copy", w->tag, w->gpu);
      return fail_as_before(r, err);
    }
    if (c.kind == KVL_DONE_STEP) {
      r->gpu[c.gpu].inner = *c.step;
      r->gpu[c.gpu].inner_done = true;
    } else {
      rc = add_early(r, c.gpu, c.tag, err);
      if (rc != 0) {
        return rc;
      }
    }
  }
}

static void count(struct kvl_replay_counts *sum, const struct kvl_step_result *step)
{
  for (int t = 0; t < KVL_TIERS; t++) {
    sum->lanes[t] += step->lanes[t];
  }
  sum->fetched += step->fetched;
  sum->overflow += step->overflow;
  sum->violations += step->violations;
  sum->shared_lanes += step->shared_lanes;
}

/* Of a prefetch only what does not depend on time can be compared, and only that is the inner plane's. */
static struct kvl_prefetch prefetch_counts(const struct kvl_prefetch *p)
{
  return (struct kvl_prefetch){.groups = p->groups, .candidates = p->candidates, .resident = p->resident, .copied = p->copied, .dropped = p->dropped,
                               .used = p->used, .unused = p->unused, .later_lanes = p->later_lanes, .later_demand = p->later_demand};
}

/* The counts of a step that differ, each by its name. */
static void note_difference(struct replay_plane *r, const struct kvl_log_wait *w, const struct kvl_step_result *a, const struct kvl_step_result *b,
                            const struct kvl_prefetch *recorded, const struct kvl_prefetch *replayed)
{
  struct kvl_replay_report *report = r->report;
  report->steps_differ++;
  if (report->first_difference[0] != '\0') {
    return;
  }
  const struct {
    const char *name;
    uint64_t recorded, replayed;
  } count[] = {
    {"scratch", a->lanes[KVL_TIER_SCRATCH], b->lanes[KVL_TIER_SCRATCH]},
    {"tail", a->lanes[KVL_TIER_TAIL], b->lanes[KVL_TIER_TAIL]},
    {"borrowed", a->lanes[KVL_TIER_PAGE], b->lanes[KVL_TIER_PAGE]},
    {"bank", a->lanes[KVL_TIER_BANK], b->lanes[KVL_TIER_BANK]},
    {"hot", a->lanes[KVL_TIER_HOT], b->lanes[KVL_TIER_HOT]},
    {"host", a->lanes[KVL_TIER_HOST], b->lanes[KVL_TIER_HOST]},
    {"fetched", a->fetched, b->fetched},
    {"overflow", a->overflow, b->overflow},
    {"violations", a->violations, b->violations},
    {"shared lanes", a->shared_lanes, b->shared_lanes},
    {"prefetch groups", recorded->groups, replayed->groups},
    {"prefetch candidates", recorded->candidates, replayed->candidates},
    {"prefetch resident", recorded->resident, replayed->resident},
    {"prefetch copied", recorded->copied, replayed->copied},
    {"prefetch dropped", recorded->dropped, replayed->dropped},
    {"prefetch used", recorded->used, replayed->used},
    {"prefetch unused", recorded->unused, replayed->unused},
    {"prefetch later lanes", recorded->later_lanes, replayed->later_lanes},
    {"prefetch later demand", recorded->later_demand, replayed->later_demand},
  };
  size_t size = sizeof report->first_difference;
  int n = snprintf(report->first_difference, size, "line %" PRIu64 ", step %" PRIu64 " of GPU %u: recorded (replayed)", r->number, w->tag, w->gpu);
  for (size_t i = 0, used = n < 0 ? 0 : (size_t)n; i < sizeof count / sizeof count[0] && used < size; i++) {
    if (count[i].recorded != count[i].replayed) {
      n = snprintf(report->first_difference + used, size - used, " %s %" PRIu64 " (%" PRIu64 ")", count[i].name, count[i].recorded, count[i].replayed);
      used += n < 0 ? 0 : (size_t)n;
    }
  }
}

/* The counts are the inner plane's, the times the log's. */
static void step_result(struct replay_plane *r, const struct kvl_log_wait *w)
{
  struct gpu_state *g = &r->gpu[w->gpu];
  struct kvl_prefetch recorded = prefetch_counts(&w->step.prefetch), replayed = prefetch_counts(&g->inner.prefetch);
  const struct kvl_step_result *a = &w->step, *b = &g->inner;
  if (strcmp(kvl_log_plane(r->log), "cuda") == 0) { /* kernels do not keep which rows of the bank have been named (backend/plane.h) */
    recorded.used = replayed.used;
    recorded.unused = replayed.unused;
  }
  if (memcmp(a->lanes, b->lanes, sizeof a->lanes) != 0 || a->fetched != b->fetched || a->overflow != b->overflow || a->violations != b->violations ||
      a->shared_lanes != b->shared_lanes || memcmp(&recorded, &replayed, sizeof recorded) != 0) {
    note_difference(r, w, a, b, &recorded, &replayed);
  }
  count(&r->report->recorded, a);
  count(&r->report->replayed, b);
  kvl_tally_prefetch(&r->report->recorded_prefetch, &recorded);
  kvl_tally_prefetch(&r->report->replayed_prefetch, &replayed);
  g->result = *a;
  memcpy(g->result.lanes, b->lanes, sizeof b->lanes);
  g->result.fetched = b->fetched;
  g->result.overflow = b->overflow;
  g->result.violations = b->violations;
  g->result.shared_lanes = b->shared_lanes;
  replayed.landed = a->prefetch.landed;
  replayed.link_ns = a->prefetch.link_ns;
  replayed.unused_link_ns = a->prefetch.unused_link_ns;
  replayed.margin_ns = a->prefetch.margin_ns;
  replayed.wait_ns = a->prefetch.wait_ns;
  g->result.prefetch = replayed;
}

static int replay_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct replay_plane *r = of(plane);
  const char *line;
  size_t bytes;
  struct kvl_log_wait w;
  if (r->report->failed != 0) {
    return fail_as_before(r, err);
  }
  if (time_ns == UINT64_MAX) {
    (void)snprintf(r->line, sizeof r->line, "wait for as long as it takes");
  } else {
    (void)snprintf(r->line, sizeof r->line, "wait until %" PRIu64, time_ns);
  }
  if (!kvl_log_next(r->log, &r->cursor, &line, &bytes, &r->number)) {
    r->number++;
    return differ(r, "end", 3, r->line, err);
  }
  if (!kvl_log_parse_wait(line, bytes, &w) || w.asked_ns != time_ns) {
    return differ(r, line, bytes, r->line, err);
  }
  bool last = r->report->waits + 1 == kvl_log_waits(r->log) && kvl_log_interrupted(r->log); /* who is interrupted waits no longer */
  if (w.now_ns < r->now_ns || (!w.completed && !last && time_ns != UINT64_MAX && w.now_ns < time_ns)) {
    r->report->failed = kvl_err_set(&r->report->why, -EPROTO, "%s:%" PRIu64 ": the clock reads %" PRIu64 " ns after %" PRIu64 " ns", kvl_log_name(r->log), r->number, w.now_ns,
                            r->now_ns);
    return fail_as_before(r, err);
  }
  if (w.completed) {
    if (w.gpu >= r->gpus || (w.kind == KVL_DONE_STEP && (!r->gpu[w.gpu].begun || r->gpu[w.gpu].number != w.tag))) {
      r->report->failed = kvl_err_set(&r->report->why, -EPROTO, "%s:%" PRIu64 ": the log completes %s %" PRIu64 " of GPU %u, which is not in flight", kvl_log_name(r->log),
                              r->number, w.kind == KVL_DONE_STEP ? "step" : "copy", w.tag, w.gpu);
      return fail_as_before(r, err);
    }
    int rc = catch_up(r, &w, err);
    if (rc != 0) {
      return rc;
    }
    *completion = (struct kvl_completion){.kind = w.kind, .gpu = w.gpu, .tag = w.tag, .time_ns = w.now_ns};
    if (w.kind == KVL_DONE_STEP) {
      step_result(r, &w);
      r->gpu[w.gpu].begun = false;
      completion->step = &r->gpu[w.gpu].result;
      r->report->steps++;
    } else {
      r->report->copies++;
    }
  }
  r->now_ns = w.now_ns;
  r->report->waits++;
  if (last) {
    *r->stop = 1;
  }
  return w.completed;
}

static void replay_point(struct kvl_plane *plane, uint32_t gpu, uint32_t point, struct kvl_plane_point *totals)
{
  of(plane)->inner->ops->point(of(plane)->inner, gpu, point, totals);
}

static uint64_t replay_link_busy_ns(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->inner->ops->link_busy_ns(of(plane)->inner, gpu);
}

static uint64_t replay_link_bytes(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->inner->ops->link_bytes(of(plane)->inner, gpu);
}

static int replay_verify(struct kvl_plane *plane, struct kvl_err *err)
{
  return of(plane)->inner->ops->verify(of(plane)->inner, err);
}

static void replay_measured(struct kvl_plane *plane, struct kvl_plane_measured *measured)
{
  of(plane)->inner->ops->measured(of(plane)->inner, measured);
}

static void replay_close(struct kvl_plane *plane)
{
  struct replay_plane *r = of(plane);
  struct kvl_plane *inner = r->inner;
  const char *line;
  size_t bytes;
  if (r->report->failed == 0 && kvl_log_next(r->log, &r->cursor, &line, &bytes, &r->number)) {
    (void)differ(r, line, bytes, "the end of the run", NULL);
  }
  inner->ops->close(inner);
  free(r->gpu);
  free(r->early);
  free(r);
}

static const struct kvl_plane_ops replay_ops = {
  .name = "replay",
  .close = replay_close,
  .now = replay_now,
  .request_open = replay_request_open,
  .request_close = replay_request_close,
  .step = replay_step,
  .copy = replay_copy,
  .keep = replay_keep,
  .wait_until = replay_wait_until,
  .point = replay_point,
  .link_busy_ns = replay_link_busy_ns,
  .link_bytes = replay_link_bytes,
};

int kvl_plane_replay_create(struct kvl_plane **plane, struct kvl_plane *inner, const struct kvl_log *log, uint32_t gpus, struct kvl_replay_report *report,
                            volatile sig_atomic_t *stop, struct kvl_err *err)
{
  struct replay_plane *r = calloc(1, sizeof *r);
  struct gpu_state *gpu = calloc((size_t)gpus + 1, sizeof *gpu);
  if (r == NULL || gpu == NULL) {
    free(r);
    free(gpu);
    return kvl_err_set(err, -ENOMEM, "no memory to replay the log");
  }
  r->ops = replay_ops;
  r->ops.verify = inner->ops->verify == NULL ? NULL : replay_verify;
  r->ops.measured = inner->ops->measured == NULL ? NULL : replay_measured;
  r->plane.ops = &r->ops;
  r->inner = inner;
  r->log = log;
  r->gpus = gpus;
  r->gpu = gpu;
  r->stop = stop;
  r->report = report;
  memset(report, 0, sizeof *report);
  *plane = &r->plane;
  return 0;
}
