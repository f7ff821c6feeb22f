/* What every decorator passes on unchanged. Each begins with struct decorator. */
#ifndef KVL_TESTS_SIM_PLANE_FORWARD_H
#define KVL_TESTS_SIM_PLANE_FORWARD_H

#include "backend/plane.h"

struct decorator {
  struct kvl_plane plane;
  struct kvl_plane *inner;
};

static inline struct kvl_plane *inner_of(struct kvl_plane *plane)
{
  return ((struct decorator *)plane)->inner;
}

static inline uint64_t forward_now(struct kvl_plane *plane)
{
  return inner_of(plane)->ops->now(inner_of(plane));
}

static inline void forward_point(struct kvl_plane *plane, uint32_t gpu, uint32_t point, struct kvl_plane_point *totals)
{
  inner_of(plane)->ops->point(inner_of(plane), gpu, point, totals);
}

static inline uint64_t forward_link_busy_ns(struct kvl_plane *plane, uint32_t gpu)
{
  return inner_of(plane)->ops->link_busy_ns(inner_of(plane), gpu);
}

static inline uint64_t forward_link_bytes(struct kvl_plane *plane, uint32_t gpu)
{
  return inner_of(plane)->ops->link_bytes(inner_of(plane), gpu);
}

static inline int forward_verify(struct kvl_plane *plane, struct kvl_err *err)
{
  return inner_of(plane)->ops->verify == NULL ? 0 : inner_of(plane)->ops->verify(inner_of(plane), err);
}

static inline int forward_request_open(struct kvl_plane *plane, const struct kvl_plane_request *request, struct kvl_err *err)
{
  return inner_of(plane)->ops->request_open(inner_of(plane), request, err);
}

static inline void forward_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot)
{
  inner_of(plane)->ops->request_close(inner_of(plane), gpu, slot);
}

static inline int forward_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  return inner_of(plane)->ops->step(inner_of(plane), step, err);
}

static inline int forward_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  return inner_of(plane)->ops->copy(inner_of(plane), copy, err);
}

static inline int forward_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  return inner_of(plane)->ops->keep(inner_of(plane), gpu, move, err);
}

#endif
