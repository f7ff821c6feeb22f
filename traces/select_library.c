/* A library of sessions in memory: generated once, read by every request of that size. Read-only after opening, so streams need no locks. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "traces/selection_impl.h"

/* How a later query of a step differs from the first. */
struct library_query {
  uint32_t *lane;                   /* of all points, one after the other; the rows follow in the same memory, then the blocks */
  int32_t *row;
  int32_t *block;                   /* its pool's that the first has not, then the first's that it has not; each ascending */
  uint32_t end[KVL_POINTS_MAX];     /* of a point's lanes */
  uint32_t added, removed;          /* blocks */
};

struct library_step {
  int32_t *rows;                    /* own memory */
  uint32_t offset[KVL_POINTS_MAX];  /* of a point's rows; points of one cache overlap (they share most of their rows) */
  uint32_t count[KVL_POINTS_MAX];
  uint8_t *pool;                    /* gaps between its blocks, 7 bits a byte, high bit: more follow; NULL: none */
  uint32_t pool_count;
  struct library_query *query;      /* [queries - 1] */
};

struct library_source {
  struct kvl_selection_source base;
  uint32_t points, sessions, steps, queries, pool_max;
  uint32_t start[KVL_POINTS_MAX], lanes; /* places of the points' rows, as long as they get */
  struct library_step *step;        /* session by session */
};

struct library_stream {
  struct kvl_selection_stream base;
  const struct library_source *source;
  const struct library_step *first, *now; /* of this request's session */
  uint32_t input_tokens;
  const struct library_step *unpacked; /* whose pool lies in blocks */
  int32_t *blocks;      /* of the first query, then one after the other */
  int32_t *rows;        /* of later queries */
};

static void library_close(struct kvl_selection_source *source)
{
  struct library_source *l = (struct library_source *)source;
  for (size_t i = 0; l->step != NULL && i < (size_t)l->sessions * l->steps; i++) {
    free(l->step[i].rows);
    free(l->step[i].pool);
    for (uint32_t q = 1; l->step[i].query != NULL && q < l->queries; q++) {
      free(l->step[i].query[q - 1].lane);
    }
    free(l->step[i].query);
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
    s->blocks = calloc(((size_t)s->source->pool_max + 1) * s->source->queries, sizeof *s->blocks);
    s->rows = calloc((size_t)s->source->lanes * s->source->queries + 1, sizeof *s->rows);
  }
  if (s != NULL && (s->blocks == NULL || s->rows == NULL)) {
    free(s->blocks);
    free(s->rows);
    free(s);
    s = NULL;
  }
  return s == NULL ? NULL : &s->base;
}

static void library_destroy(struct kvl_selection_stream *stream)
{
  free(((struct library_stream *)stream)->blocks);
  free(((struct library_stream *)stream)->rows);
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
  (void)queries;
  uint32_t step = tokens - s->input_tokens;
  s->now = s->first + (step < s->source->steps ? step : s->source->steps - 1);
}

static uint32_t library_rows(struct kvl_selection_stream *stream, uint32_t point, uint32_t query, const int32_t **rows)
{
  const struct library_stream *s = (const struct library_stream *)stream;
  const struct library_source *l = s->source;
  uint32_t n = s->now->count[point];
  *rows = s->now->rows + s->now->offset[point];
  if (query == 0 || l->queries == 1) {
    return n;
  }
  const struct library_query *other = &s->now->query[(query < l->queries ? query : l->queries - 1) - 1];
  int32_t *copy = s->rows + (size_t)query % l->queries * l->lanes + l->start[point];
  memcpy(copy, *rows, n * sizeof *copy);
  for (uint32_t i = point == 0 ? 0 : other->end[point - 1]; i < other->end[point]; i++) {
    copy[other->lane[i]] = other->row[i];
  }
  *rows = copy;
  return n;
}

static uint32_t library_pool(struct kvl_selection_stream *stream, uint32_t query, const int32_t **blocks)
{
  struct library_stream *s = (struct library_stream *)stream;
  uint32_t q = query < s->source->queries ? query : s->source->queries - 1;
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
  if (q == 0) {
    return s->now->pool_count;
  }
  const struct library_query *other = &s->now->query[q - 1];
  const int32_t *added = other->block, *removed = other->block + other->added;
  int32_t *out = s->blocks + (size_t)q * (s->source->pool_max + 1);
  uint32_t n = 0, a = 0, r = 0;
  for (uint32_t i = 0; i < s->now->pool_count; i++) {
    for (; a < other->added && added[a] < s->blocks[i]; a++) {
      out[n++] = added[a];
    }
    bool gone = r < other->removed && removed[r] == s->blocks[i];
    r += gone;
    out[n] = s->blocks[i];
    n += !gone;
  }
  for (; a < other->added; a++) {
    out[n++] = added[a];
  }
  *blocks = out;
  return n;
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

/* Blocks of `a` that `b` has not; both ascend. */
static uint32_t missing_blocks(const int32_t *a, uint32_t a_count, const int32_t *b, uint32_t b_count, int32_t *out)
{
  uint32_t n = 0, j = 0;
  for (uint32_t i = 0; i < a_count; i++) {
    while (j < b_count && b[j] < a[i]) {
      j++;
    }
    if (j == b_count || b[j] != a[i]) {
      out[n++] = a[i];
    }
  }
  return n;
}

static int keep_query(struct kvl_selection_stream *from, uint32_t points, uint32_t number, const struct library_step *step, struct library_query *to)
{
  const int32_t *rows[2], *blocks[2];
  uint32_t lanes = 0, blocks_count[2] = {kvl_stream_pool(from, 0, &blocks[0]), kvl_stream_pool(from, number, &blocks[1])};
  for (uint32_t p = 0; p < points; p++) {
    lanes += step->count[p];
  }
  size_t room = 2 * (size_t)lanes + blocks_count[0] + blocks_count[1] + 1;
  uint32_t *memory = malloc(room * sizeof *memory);
  if (memory == NULL) {
    return -ENOMEM;
  }
  uint32_t n = 0;
  for (uint32_t p = 0; p < points; p++) { /* lanes and rows in pairs first, parted below */
    uint32_t count = kvl_stream_rows(from, p, 0, &rows[0]);
    (void)kvl_stream_rows(from, p, number, &rows[1]);
    for (uint32_t i = 0; i < count; i++) {
      if (rows[0][i] != rows[1][i]) {
        memory[n] = i;
        memory[lanes + n++] = (uint32_t)rows[1][i];
      }
    }
    to->end[p] = n;
  }
  memmove(memory + n, memory + lanes, n * sizeof *memory);
  int32_t *block = (int32_t *)(void *)(memory + 2 * (size_t)n);
  to->added = missing_blocks(blocks[1], blocks_count[1], blocks[0], blocks_count[0], block);
  to->removed = missing_blocks(blocks[0], blocks_count[0], blocks[1], blocks_count[1], block + to->added);
  uint32_t *fitting = realloc(memory, (2 * (size_t)n + to->added + to->removed + 1) * sizeof *memory);
  to->lane = fitting != NULL ? fitting : memory;
  to->row = (int32_t *)(void *)(to->lane + n);
  to->block = to->row + n;
  return 0;
}

static int keep_queries(struct kvl_selection_stream *from, uint32_t points, uint32_t queries, struct library_step *to)
{
  if (queries == 1) {
    return 0;
  }
  to->query = calloc(queries - 1, sizeof *to->query);
  int rc = to->query == NULL ? -ENOMEM : 0;
  for (uint32_t q = 1; rc == 0 && q < queries; q++) {
    rc = keep_query(from, points, q, to, &to->query[q - 1]);
  }
  return rc;
}

int kvl_source_open_library(struct kvl_selection_source **source, const struct kvl_selection_source *from, uint32_t points, uint32_t sessions,
                            uint32_t input_tokens, uint32_t steps, uint32_t queries, struct kvl_err *err)
{
  *source = NULL;
  struct library_source *l = calloc(1, sizeof *l);
  struct kvl_selection_stream *stream = kvl_stream_create(from, input_tokens + steps, queries);
  int rc = l == NULL || stream == NULL || sessions == 0 || steps == 0 || queries == 0 ? -ENOMEM : 0;
  if (rc == 0) {
    *l = (struct library_source){.base = {.ops = &library_ops}, .points = points, .sessions = sessions, .steps = steps, .queries = queries};
    l->step = calloc((size_t)sessions * steps, sizeof *l->step);
    rc = l->step == NULL ? -ENOMEM : 0;
  }
  for (uint32_t s = 0; rc == 0 && s < sessions; s++) {
    kvl_stream_start(stream, s, input_tokens);
    for (uint32_t t = 0; rc == 0 && t < steps; t++) {
      kvl_stream_step(stream, input_tokens + t, queries);
      struct library_step *step = &l->step[(size_t)s * steps + t];
      rc = keep_step(stream, points, step);
      rc = rc != 0 ? rc : keep_pool(stream, step);
      rc = rc != 0 ? rc : keep_queries(stream, points, queries, step);
      for (uint32_t q = 0; q < queries; q++) {
        uint32_t blocks = q == 0 || step->query == NULL ? step->pool_count : step->pool_count + step->query[q - 1].added;
        l->pool_max = blocks > l->pool_max ? blocks : l->pool_max;
      }
      for (uint32_t p = 0; p < points; p++) {
        l->start[p] = step->count[p] > l->start[p] ? step->count[p] : l->start[p]; /* lengths, until all are known */
      }
    }
  }
  kvl_stream_destroy(stream);
  for (uint32_t p = 0; rc == 0 && p < points; p++) {
    uint32_t length = l->start[p];
    l->start[p] = l->lanes;
    l->lanes += length;
  }
  if (rc != 0) {
    if (l != NULL) {
      library_close(&l->base);
    }
    return kvl_err_set(err, rc, "no memory for a library of %u sessions of %u steps: fewer sessions (selection.library_sessions) help", sessions, steps);
  }
  *source = &l->base;
  return 0;
}
