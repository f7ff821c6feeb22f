#include "tests/sim/plane_jitter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "tests/sim/plane_forward.h"

#define WRITE_BACK ((uint64_t)1 << 63)

struct late {
  uint64_t due_ns;
  struct kvl_completion completion;
};

struct jitter_plane {
  struct decorator d;
  struct jitter_config config;
  struct kvl_rng rng;
  uint64_t waits;
  uint64_t *last_due;             /* GPU x direction: copies of one direction stay in order */
  struct kvl_step_result *result; /* by GPU */
  struct late *late;              /* earliest first, ties in order of arrival */
  uint32_t count, capacity;
};

static uint64_t up_to(struct jitter_plane *j, uint64_t max)
{
  return max == 0 ? 0 : kvl_rng_next(&j->rng) % (max + 1);
}

static int push(struct jitter_plane *j, const struct kvl_completion *c, struct kvl_err *err)
{
  if (j->count == j->capacity) {
    uint32_t capacity = j->capacity == 0 ? 64 : 2 * j->capacity;
    struct late *grown = realloc(j->late, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for what is late");
    }
    j->late = grown;
    j->capacity = capacity;
  }
  struct late item = {.due_ns = c->time_ns, .completion = *c};
  if (c->kind == KVL_DONE_STEP) {
    item.due_ns += up_to(j, j->config.step_ns);
  } else {
    uint64_t *last = &j->last_due[2 * c->gpu + ((c->tag & WRITE_BACK) != 0)];
    item.due_ns += up_to(j, j->config.copy_ns);
    item.due_ns = *last = item.due_ns > *last ? item.due_ns : *last;
  }
  uint32_t i = j->count++;
  for (; i > 0 && j->late[i - 1].due_ns > item.due_ns; i--) {
    j->late[i] = j->late[i - 1];
  }
  j->late[i] = item;
  return 0;
}

/* The inner plane as far as `time_ns`; what completes there is late from now on. Stops early when something comes due before. */
static int advance(struct jitter_plane *j, uint64_t time_ns, struct kvl_err *err)
{
  struct kvl_completion c;
  for (;;) {
    uint64_t due = j->count == 0 ? UINT64_MAX : j->late[0].due_ns;
    int rc = j->d.inner->ops->wait_until(j->d.inner, due < time_ns ? due : time_ns, &c, err);
    if (rc <= 0) {
      return rc;
    }
    rc = push(j, &c, err);
    if (rc != 0) {
      return rc;
    }
  }
}

/* A step that ends late took that much longer to compute. */
static void deliver(struct jitter_plane *j, struct kvl_completion *completion)
{
  uint64_t now = forward_now(&j->d.plane);
  *completion = j->late[0].completion;
  completion->time_ns = now;
  if (completion->kind == KVL_DONE_STEP) {
    struct kvl_step_result *r = &j->result[completion->gpu];
    *r = *completion->step;
    r->stall_ns[KVL_STALL_COMPUTE] += now - r->end_ns;
    r->end_ns = now;
    completion->step = r;
  }
  memmove(j->late, j->late + 1, --j->count * sizeof *j->late);
}

static int jitter_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct jitter_plane *j = (struct jitter_plane *)plane;
  if (++j->waits == j->config.stop_after) {
    *j->config.stop = 1;
  }
  int rc = advance(j, time_ns, err);
  if (rc != 0) {
    return rc;
  }
  uint64_t now = forward_now(plane);
  if (j->count != 0 && j->late[0].due_ns <= (time_ns > now ? time_ns : now)) {
    deliver(j, completion);
    return 1;
  }
  if (time_ns != UINT64_MAX && now <= time_ns) { /* nothing came; it took a moment to see it */
    uint64_t to = time_ns + up_to(j, j->config.late_ns);
    while (rc == 0 && forward_now(plane) < to) {
      struct kvl_completion c;
      rc = j->d.inner->ops->wait_until(j->d.inner, to, &c, err);
      rc = rc == 1 ? push(j, &c, err) : rc;
    }
  }
  return rc;
}

static void jitter_close(struct kvl_plane *plane)
{
  struct jitter_plane *j = (struct jitter_plane *)plane;
  j->d.inner->ops->close(j->d.inner);
  free(j->last_due);
  free(j->result);
  free(j->late);
  free(j);
}

static const struct kvl_plane_ops jitter_ops = {
  .name = "jitter",
  .close = jitter_close,
  .now = forward_now,
  .request_open = forward_request_open,
  .request_close = forward_request_close,
  .step = forward_step,
  .copy = forward_copy,
  .keep = forward_keep,
  .wait_until = jitter_wait_until,
  .point = forward_point,
  .link_busy_ns = forward_link_busy_ns,
  .link_bytes = forward_link_bytes,
  .verify = forward_verify,
};

struct kvl_plane *jitter_plane_create(struct kvl_plane *inner, uint32_t gpus, const struct jitter_config *config)
{
  struct jitter_plane *j = calloc(1, sizeof *j);
  uint64_t *last = calloc(2 * (size_t)gpus, sizeof *last);
  struct kvl_step_result *result = calloc(gpus, sizeof *result);
  if (j == NULL || last == NULL || result == NULL) {
    free(j);
    free(last);
    free(result);
    return NULL;
  }
  j->d = (struct decorator){.plane = {.ops = &jitter_ops}, .inner = inner};
  j->config = *config;
  j->last_due = last;
  j->result = result;
  kvl_rng_init(&j->rng, config->seed, "jitter", 0);
  return &j->d.plane;
}
