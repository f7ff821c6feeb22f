/* The copy engine: sizes, both ways, alone and while the other way is busy too. */
#include <errno.h>

#include "backend/probe_state.h"

struct copies {
  struct kvl_prober *p;
  uint64_t bytes, at;
  uint32_t each; /* copies of a sample, back to back */
  bool to_host;
};

static int sample(void *context, uint32_t index, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct copies *c = context;
  struct kvl_prober *p = c->p;
  uint64_t pieces = p->pool_bytes / p->copy_max;
  int rc = 0;
  (void)index;
  for (uint32_t i = 0; rc == 0 && i < c->each; i++) { /* other host memory each time */
    unsigned char *host = p->pool + c->at++ % pieces * p->copy_max;
    rc = kvl_gpu_copy(p->gpu, c->to_host ? host : p->arena, c->to_host ? p->arena : host, c->bytes, stream, err);
  }
  return rc;
}

int kvl_probe_copies_beside(struct kvl_prober *p, uint64_t bytes, bool to_host, enum kvl_probe_beside beside, struct kvl_err *err)
{
  int64_t ps[KVL_PROBE_SAMPLES_MAX];
  struct copies c = {.p = p, .bytes = bytes, .to_host = to_host, .each = bytes <= UINT64_C(1) << 20 ? 8 : 2};
  uint32_t n = p->samples;
  uint64_t alone_ns = p->copy_bytes_per_s == 0 ? 0 : (uint64_t)((double)bytes * n * c.each * 1e9 / (double)p->copy_bytes_per_s);
  struct kvl_probe_point point = {.kind = KVL_PROBE_COPY, .to_host = to_host, .bytes = bytes, .count = 1, .beside = beside};
  int rc = kvl_probe_next(p, to_host ? "copies to the host" : "copies to the GPU", err);
  rc = rc != 0 ? rc : kvl_probe_sequence(p, n, sample, &c, point.beside, 2 * alone_ns + 2000000, ps, &point.covered, err);
  return rc != 0 ? rc : kvl_probe_point_of(p, &point, ps, n, p->events_ps, c.each, err);
}

static int one(struct kvl_prober *p, uint64_t bytes, bool to_host, bool both, struct kvl_err *err)
{
  return kvl_probe_copies_beside(p, bytes, to_host, !both ? KVL_BESIDE_NOTHING : to_host ? KVL_BESIDE_COPY_IN : KVL_BESIDE_COPY_OUT, err);
}

int kvl_probe_copies(struct kvl_prober *p, struct kvl_err *err)
{
  int rc = one(p, p->copy_max, false, false, err); /* the largest first: the rest is sized by it */
  if (rc == 0) {
    uint64_t took = p->out->point[p->out->count - 1].median_ps;
    p->copy_bytes_per_s = took == 0 ? 0 : (uint64_t)((double)p->copy_max * 1e12 / (double)took);
  }
  rc = rc != 0 ? rc : one(p, p->copy_max, true, false, err);
  for (int way = 0; rc == 0 && way < 2; way++) {
    for (uint64_t bytes = 4096; rc == 0 && bytes < p->copy_max; bytes *= p->config->quick ? 64 : 8) {
      rc = one(p, bytes, way == 1, false, err);
    }
    rc = rc != 0 ? rc : one(p, p->copy_max / 4, way == 1, true, err);
    rc = rc != 0 ? rc : one(p, p->copy_max, way == 1, true, err);
  }
  return rc;
}
