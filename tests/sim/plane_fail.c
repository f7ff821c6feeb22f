#include "tests/sim/plane_fail.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/sim/plane_forward.h"

struct fail_plane {
  struct decorator d;
  struct fail_config *config;
};

static bool fails(struct kvl_plane *plane)
{
  struct fail_config *c = ((struct fail_plane *)plane)->config;
  if (c->calls++ != c->at) {
    return false;
  }
  c->fired = true;
  return true;
}

static int fail_request_open(struct kvl_plane *plane, const struct kvl_plane_request *request, struct kvl_err *err)
{
  return fails(plane) ? kvl_err_set(err, -EIO, "the device failed (opening a request)") : forward_request_open(plane, request, err);
}

static int fail_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  return fails(plane) ? kvl_err_set(err, -EIO, "the device failed (step)") : forward_step(plane, step, err);
}

static int fail_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  return fails(plane) ? kvl_err_set(err, -EIO, "the device failed (copy)") : forward_copy(plane, copy, err);
}

static int fail_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  return fails(plane) ? kvl_err_set(err, -EIO, "the device failed (keep)") : forward_keep(plane, gpu, move, err);
}

static int fail_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  return fails(plane) ? kvl_err_set(err, -EIO, "the device failed (waiting)")
                      : inner_of(plane)->ops->wait_until(inner_of(plane), time_ns, completion, err);
}

static void fail_close(struct kvl_plane *plane)
{
  inner_of(plane)->ops->close(inner_of(plane));
  free(plane);
}

static const struct kvl_plane_ops fail_ops = {
  .name = "fail",
  .close = fail_close,
  .now = forward_now,
  .request_open = fail_request_open,
  .request_close = forward_request_close,
  .step = fail_step,
  .copy = fail_copy,
  .keep = fail_keep,
  .wait_until = fail_wait_until,
  .point = forward_point,
  .link_busy_ns = forward_link_busy_ns,
  .link_bytes = forward_link_bytes,
  .verify = forward_verify,
};

struct kvl_plane *fail_plane_create(struct kvl_plane *inner, struct fail_config *config)
{
  struct fail_plane *f = calloc(1, sizeof *f);
  if (f == NULL) {
    return NULL;
  }
  f->d = (struct decorator){.plane = {.ops = &fail_ops}, .inner = inner};
  f->config = config;
  return &f->d.plane;
}
