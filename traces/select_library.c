/* A library of sessions in memory: generated once, read by every request of that size. Read-only after opening, so streams need no locks. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "traces/selection_impl.h"

struct library_step {
  int32_t *rows;                    /* own memory */
  uint32_t offset[KVL_POINTS_MAX];  /* of a point's rows; points of one cache overlap (they share most of their rows) */
  uint32_t count[KVL_POINTS_MAX];
  uint8_t *pool;                    /* gaps between its blocks, 7 bits a byte, high bit: more follow; NULL: none */
  uint32_t pool_count;
};

struct library_source {
  struct kvl_selection_source base;
  uint32_t points, sessions, steps, pool_max;
  struct library_step *step;        /* session by session */
};

struct library_stream {
  struct kvl_selection_stream base;
  const struct library_source *source;
  const struct library_step *first, *now; /* of this request's session */
  uint32_t input_tokens;
  const struct library_step *unpacked; /* whose pool lies in blocks */
  int32_t *blocks;
};

static void library_close(struct kvl_selection_source *source)
{
  struct library_source *l = (struct library_source *)source;
  for (size_t i = 0; l->step != NULL && i < (size_t)l->sessions * l->steps; i++) {
    free(l->step[i].rows);
    free(l->step[i].pool);
  }
  free(l->step);
  free(l);
}

static const struct kvl_selection_ops library_ops;

static struct kvl_selection_stream *library_create(const struct kvl_selection_source *source, uint32_t tokens_max, uint32_t queries_max)
{
  (void)tokens_max;
  (void)queries_max;
  struct library_stream *s = calloc(1, sizeof *s);
  if (s != NULL) {
    s->base.ops = &library_ops;
    s->source = (const struct library_source *)source;
    s->blocks = calloc((size_t)s->source->pool_max + 1, sizeof *s->blocks);
  }
  if (s != NULL && s->blocks == NULL) {
    free(s);
    s = NULL;
  }
  return s == NULL ? NULL : &s->base;
}

static void library_destroy(struct kvl_selection_stream *stream)
{
  free(((struct library_stream *)stream)->blocks);
  free(stream);
}

static void library_start(struct kvl_selection_stream *stream, uint64_t session, uint32_t input_tokens)
{
  struct library_stream *s = (struct library_stream *)stream;
  s->first = s->now = &s->source->step[session % s->source->sessions * s->source->steps];
  s->input_tokens = input_tokens;
}

static void library_step(struct kvl_selection_stream *stream, uint32_t tokens, uint32_t queries)
{
  struct library_stream *s = (struct library_stream *)stream;
  (void)queries; /* one: see selection.h */
  uint32_t step = tokens - s->input_tokens;
  s->now = s->first + (step < s->source->steps ? step : s->source->steps - 1);
}

static uint32_t library_rows(struct kvl_selection_stream *stream, uint32_t point, uint32_t query, const int32_t **rows)
{
  const struct library_stream *s = (const struct library_stream *)stream;
  (void)query;
  *rows = s->now->rows + s->now->offset[point];
  return s->now->count[point];
}

static uint32_t library_pool(struct kvl_selection_stream *stream, uint32_t query, const int32_t **blocks)
{
  struct library_stream *s = (struct library_stream *)stream;
  (void)query;
  if (s->now->pool != NULL && s->unpacked != s->now) {
    const uint8_t *at = s->now->pool;
    int32_t block = -1;
    for (uint32_t i = 0; i < s->now->pool_count; i++) {
      uint32_t gap = 0, shift = 0;
      do {
        gap |= (uint32_t)(*at & 127) << shift;
        shift += 7;
      } while (*at++ & 128);
      s->blocks[i] = block += (int32_t)gap;
    }
    s->unpacked = s->now;
  }
  *blocks = s->blocks;
  return s->now->pool_count;
}

static const struct kvl_selection_ops library_ops = {
  .close = library_close,
  .create = library_create,
  .destroy = library_destroy,
  .start = library_start,
  .step = library_step,
  .rows = library_rows,
  .pool = library_pool,
};

/* Keeps the stream's rows of this step. Where a point's rows lie inside those of the point before (one array, a moving window), they are kept once. */
static int keep_step(struct kvl_selection_stream *from, uint32_t points, struct library_step *to)
{
  const int32_t *rows[KVL_POINTS_MAX], *end = NULL;
  uint32_t total = 0;
  for (uint32_t p = 0; p < points; p++) {
    to->count[p] = kvl_stream_rows(from, p, 0, &rows[p]);
    bool window = p != 0 && rows[p] >= rows[p - 1] && rows[p] <= end && rows[p] + to->count[p] >= end;
    to->offset[p] = window ? to->offset[p - 1] + (uint32_t)(rows[p] - rows[p - 1]) : total;
    end = rows[p] + to->count[p];
    total = to->offset[p] + to->count[p];
  }
  to->rows = malloc((total == 0 ? 1 : total) * sizeof *to->rows);
  for (uint32_t p = 0; to->rows != NULL && p < points; p++) {
    memcpy(to->rows + to->offset[p], rows[p], to->count[p] * sizeof *to->rows);
  }
  return to->rows == NULL ? -ENOMEM : 0;
}

static int keep_pool(struct kvl_selection_stream *from, struct library_step *to)
{
  enum { VARINT_MAX = 5 };
  const int32_t *blocks;
  uint32_t n = kvl_stream_pool(from, 0, &blocks);
  if (n == 0) {
    return 0;
  }
  uint8_t *packed = malloc((size_t)n * VARINT_MAX), *end = packed;
  int32_t before = -1;
  for (uint32_t i = 0; packed != NULL && i < n; i++) {
    uint32_t gap = (uint32_t)(blocks[i] - before);
    for (before = blocks[i]; gap > 127; gap >>= 7) {
      *end++ = (uint8_t)(gap | 128);
    }
    *end++ = (uint8_t)gap;
  }
  if (packed == NULL) {
    return -ENOMEM;
  }
  uint8_t *fitting = realloc(packed, (size_t)(end - packed));
  to->pool = fitting != NULL ? fitting : packed;
  to->pool_count = n;
  return 0;
}

int kvl_source_open_library(struct kvl_selection_source **source, const struct kvl_selection_source *from, uint32_t points, uint32_t sessions,
                            uint32_t input_tokens, uint32_t steps, struct kvl_err *err)
{
  *source = NULL;
  struct library_source *l = calloc(1, sizeof *l);
  struct kvl_selection_stream *stream = kvl_stream_create(from, input_tokens + steps, 1);
  int rc = l == NULL || stream == NULL || sessions == 0 || steps == 0 ? -ENOMEM : 0;
  if (rc == 0) {
    *l = (struct library_source){.base = {.ops = &library_ops}, .points = points, .sessions = sessions, .steps = steps};
    l->step = calloc((size_t)sessions * steps, sizeof *l->step);
    rc = l->step == NULL ? -ENOMEM : 0;
  }
  for (uint32_t s = 0; rc == 0 && s < sessions; s++) {
    kvl_stream_start(stream, s, input_tokens);
    for (uint32_t t = 0; rc == 0 && t < steps; t++) {
      kvl_stream_step(stream, input_tokens + t, 1);
      struct library_step *step = &l->step[(size_t)s * steps + t];
      rc = keep_step(stream, points, step);
      rc = rc != 0 ? rc : keep_pool(stream, step);
      l->pool_max = step->pool_count > l->pool_max ? step->pool_count : l->pool_max;
    }
  }
  kvl_stream_destroy(stream);
  if (rc != 0) {
    if (l != NULL) {
      library_close(&l->base);
    }
    return kvl_err_set(err, rc, "no memory for a library of %u sessions of %u steps: fewer sessions (selection.library_sessions) help", sessions, steps);
  }
  *source = &l->base;
  return 0;
}
