#include "tests/sim/plane_delay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "tests/sim/plane_forward.h"

#define WRITE_BACK ((uint64_t)1 << 63) /* any tag will do to tell the two directions apart: the copies' kinds are noted by tag */

struct late {
  uint64_t due_ns, sequence;
  struct kvl_completion completion;
};

struct delay_plane {
  struct decorator d;
  struct kvl_rng rng;
  uint64_t max_ns, sequence;
  uint64_t *last_due;   /* GPU x direction */
  struct late *late;    /* by (due, sequence), earliest first */
  uint32_t count, capacity;
};

static int push(struct delay_plane *d, const struct kvl_completion *c, struct kvl_err *err)
{
  if (d->count == d->capacity) {
    uint32_t capacity = d->capacity == 0 ? 64 : 2 * d->capacity;
    struct late *grown = realloc(d->late, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for copies that are late");
    }
    d->late = grown;
    d->capacity = capacity;
  }
  uint64_t *last = &d->last_due[2 * c->gpu + ((c->tag & WRITE_BACK) != 0)];
  uint64_t due = c->time_ns + kvl_rng_next(&d->rng) % (d->max_ns + 1);
  *last = due > *last ? due : *last;
  struct late item = {.due_ns = *last, .sequence = d->sequence++, .completion = *c};
  uint32_t i = d->count++;
  while (i > 0 && d->late[i - 1].due_ns > item.due_ns) {
    d->late[i] = d->late[i - 1];
    i--;
  }
  d->late[i] = item;
  return 0;
}

static int delay_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct delay_plane *d = (struct delay_plane *)plane;
  for (;;) {
    uint64_t due = d->count == 0 ? UINT64_MAX : d->late[0].due_ns;
    uint64_t to = due < time_ns ? due : time_ns;
    int rc = d->d.inner->ops->wait_until(d->d.inner, to, completion, err);
    if (rc < 0 || (rc == 1 && completion->kind == KVL_DONE_STEP)) {
      return rc;
    }
    if (rc == 1) {
      rc = push(d, completion, err);
      if (rc != 0) {
        return rc;
      }
      continue;
    }
    if (d->count == 0 || due > time_ns) {
      return 0;
    }
    *completion = d->late[0].completion;
    completion->time_ns = due;
    memmove(d->late, d->late + 1, --d->count * sizeof *d->late);
    return 1;
  }
}

static void delay_close(struct kvl_plane *plane)
{
  struct delay_plane *d = (struct delay_plane *)plane;
  d->d.inner->ops->close(d->d.inner);
  free(d->last_due);
  free(d->late);
  free(d);
}

static const struct kvl_plane_ops delay_ops = {
  .name = "delay",
  .close = delay_close,
  .now = forward_now,
  .request_open = forward_request_open,
  .request_close = forward_request_close,
  .step = forward_step,
  .copy = forward_copy,
  .keep = forward_keep,
  .wait_until = delay_wait_until,
  .point = forward_point,
  .link_busy_ns = forward_link_busy_ns,
  .link_bytes = forward_link_bytes,
  .verify = forward_verify,
};

struct kvl_plane *delay_plane_create(struct kvl_plane *inner, uint32_t gpus, const struct delay_config *config)
{
  struct delay_plane *d = calloc(1, sizeof *d);
  uint64_t *last = calloc(2 * (size_t)gpus, sizeof *last);
  if (d == NULL || last == NULL) {
    free(d);
    free(last);
    return NULL;
  }
  d->d = (struct decorator){.plane = {.ops = &delay_ops}, .inner = inner};
  d->last_due = last;
  d->max_ns = config->max_ns;
  kvl_rng_init(&d->rng, config->seed, "late copies", 0);
  return &d->d.plane;
}
