/* Pages by a kernel: a list of pieces anywhere in the pool to the GPU, with the few multiprocessors that the CUDA plane gives it (population, give-back); alone,
 * and while the copy engine writes to the host. And what that costs the copies to the host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "backend/probe_state.h"

#define MIB (UINT64_C(1) << 20)

struct pages {
  struct kvl_prober *p;
  uint64_t bytes;  /* a piece */
  uint32_t pieces; /* a sample */
};

static uint64_t list_bytes(const struct pages *g)
{
  return 16 + g->pieces * sizeof(struct kvl_segment);
}

static int launch(const struct pages *g, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  const unsigned char *list = g->p->list + sample * list_bytes(g);
  struct kvl_segments s = {.from = g->p->pool, .to = g->p->arena, .segment = (const struct kvl_segment *)(const void *)(list + 16),
                           .count = (const uint32_t *)(const void *)list, .segments_max = g->pieces, .blocks_max = KVL_GPU_COPY_BLOCKS};
  return kvl_gpu_launched(g->p->k->segments(&s, stream), "segments", err);
}

static int one_list(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  return launch(context, sample, stream, err);
}

/* Lists of as many samples as there is room for. The last piece of the last one gets a word that no other has. */
static int upload(struct pages *g, uint32_t samples, uint64_t *last_from, struct kvl_err *err)
{
  struct kvl_prober *p = g->p;
  struct kvl_rng rng;
  uint64_t places = p->pool_bytes / g->bytes;
  *last_from = 0;
  kvl_rng_init(&rng, p->config->seed, "probe pages", p->done);
  for (uint32_t s = 0; s < samples; s++) {
    unsigned char *list = p->stage + s * list_bytes(g);
    struct kvl_segment *segment = (struct kvl_segment *)(void *)(list + 16);
    *(uint32_t *)(void *)list = g->pieces;
    for (uint32_t i = 0; i < g->pieces; i++) {
      uint64_t place = kvl_rng_below(&rng, places < UINT32_MAX ? (uint32_t)places : UINT32_MAX);
      segment[i] = (struct kvl_segment){.from = place * g->bytes, .to = (uint64_t)i * g->bytes, .bytes = g->bytes};
      *last_from = segment[i].from;
    }
  }
  uint64_t word = kvl_rng_next(&rng);
  memcpy(p->pool + *last_from, &word, sizeof word);
  int rc = kvl_gpu_copy(p->gpu, p->list, p->stage, samples * list_bytes(g), p->work, err);
  return rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
}

static int check(const struct pages *g, uint64_t from, struct kvl_err *err)
{
  struct kvl_prober *p = g->p;
  uint64_t word = 0;
  int rc = kvl_gpu_copy(p->gpu, &word, p->arena + (uint64_t)(g->pieces - 1) * g->bytes, sizeof word, p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
  if (rc == 0 && memcmp(&word, p->pool + from, sizeof word) != 0) {
    rc = kvl_err_set(err, -EIO, "a copy of %u pieces of %llu bytes brought other bytes than the pool's", g->pieces, (unsigned long long)g->bytes);
  }
  return rc;
}

static int cell(struct pages *g, uint64_t bytes, uint64_t total, enum kvl_probe_beside beside, struct kvl_err *err)
{
  struct kvl_prober *p = g->p;
  int64_t ps[KVL_PROBE_SAMPLES_MAX];
  uint64_t last = 0;
  total = total < p->arena_bytes ? total : p->arena_bytes;
  g->bytes = bytes;
  g->pieces = (uint32_t)(total / bytes);
  uint32_t samples = p->samples;
  while (samples > 1 && samples * list_bytes(g) > p->list_bytes) {
    samples--;
  }
  if (g->pieces == 0 || samples * list_bytes(g) > p->list_bytes) {
    return 0; /* there is no such point */
  }
  struct kvl_probe_point point = {.kind = KVL_PROBE_PAGES, .beside = beside, .count = g->pieces, .bytes = bytes, .range_bytes = p->pool_bytes};
  uint64_t cover_ns = 1000000 + samples * (total / 8); /* room for 8 GB/s */
  int rc = kvl_probe_next(p, "pages by a kernel", err);
  rc = rc != 0 ? rc : upload(g, samples, &last, err);
  rc = rc != 0 ? rc : launch(g, 0, p->work, err); /* a kernel's first launch takes longer */
  rc = rc != 0 ? rc : kvl_probe_sequence(p, samples, one_list, g, beside, cover_ns, ps, &point.covered, err);
  rc = rc != 0 ? rc : kvl_probe_point_of(p, &point, ps, samples, p->events_ps, 1, err);
  return rc != 0 || beside == KVL_BESIDE_COPY_OUT ? rc : check(g, last, err); /* those copies write to the pool */
}

/* What runs beside when KVL_BESIDE_PAGES is asked for: the list that was uploaded last, again and again. */
int kvl_probe_load_pages(struct kvl_prober *p, uint64_t cover_ns, struct kvl_err *err)
{
  struct pages g = {.p = p, .bytes = p->load_piece_bytes, .pieces = *(const uint32_t *)(const void *)p->stage};
  uint64_t each = (uint64_t)g.pieces * g.bytes, total = (uint64_t)((double)cover_ns / 1e9 * (double)p->copy_bytes_per_s);
  int rc = 0;
  for (uint64_t done = 0; rc == 0 && done <= total; done += each == 0 ? total + 1 : each) {
    rc = launch(&g, 0, p->beside, err);
  }
  return rc;
}

int kvl_probe_pages(struct kvl_prober *p, struct kvl_err *err)
{
  static const uint64_t all[] = {2304, 9216, 18432, 65536, 262144}, quick[] = {9216, 65536};
  const uint64_t *size = p->config->quick ? quick : all;
  uint32_t sizes = p->config->quick ? 2 : 5;
  struct pages g = {.p = p};
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < sizes; i++) {
    rc = cell(&g, size[i], 2 * MIB, KVL_BESIDE_NOTHING, err);
    rc = rc != 0 ? rc : cell(&g, size[i], 32 * MIB, KVL_BESIDE_NOTHING, err);
    rc = rc != 0 ? rc : cell(&g, size[i], 32 * MIB, KVL_BESIDE_COPY_OUT, err);
  }
  uint64_t last = 0;
  g.bytes = p->load_piece_bytes = size[1] < p->arena_bytes ? size[1] : p->arena_bytes; /* then the other way round */
  g.pieces = (uint32_t)((32 * MIB < p->arena_bytes ? 32 * MIB : p->arena_bytes) / g.bytes);
  rc = rc != 0 ? rc : upload(&g, 1, &last, err);
  return rc != 0 ? rc : kvl_probe_copies_beside(p, p->copy_max / 4, true, KVL_BESIDE_PAGES, err);
}
