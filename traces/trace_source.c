/* A trace file as a selection source: one library of sessions, replayed by many streams.
 *
 * Chunks are unpacked when a stream reaches them and shared by all streams; those that nobody reads stay until the room (KVL_TRACE_CACHE_BYTES) is
 * needed, least recently used first. What is kept when changes speed, never a result. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "traces/pool.h"
#include "traces/selection_impl.h"
#include "traces/trace_codec.h"

enum {
  SINKS = 4,         /* the first rows, which attention always wants: they keep their place whatever the history's length */
  NEAR_TOKENS = 4096 /* rows this close to the end keep their distance from it; rows further back keep their place, even at a seam */
};
#define NOBODY UINT32_MAX

struct cell { /* one chunk's place in the cache */
  struct kvl_trace_chunk *chunk; /* NULL: not there */
  uint32_t readers;
  uint32_t newer, older;         /* LRU list of chunks that are there and have no readers */
  bool loading;
};

struct trace_source {
  struct kvl_selection_source base;
  struct kvl_trace *trace;
  const struct kvl_trace_meta *meta;
  struct kvl_trace_totals totals;
  uint64_t seed;
  uint32_t pool_point, pool_blocks, pool_number; /* blocks 0: pools are not asked for; number: among those of the file */
  pthread_mutex_t lock; /* guards everything below */
  pthread_cond_t loaded;
  struct cell *cell;
  uint32_t newest, oldest;
  uint64_t bytes, bytes_max;
  int failure; /* of the first chunk that could not be read */
  struct kvl_err failure_text;
};

struct pin {
  uint32_t index;
  struct kvl_trace_chunk *chunk;
  bool wanted; /* a query of this step is taken from it */
};

struct trace_stream {
  struct kvl_selection_stream base;
  struct trace_source *source;
  uint32_t tokens_max, queries_max;
  struct pin *pin;
  uint32_t pins, pins_max;
  /* the replay */
  uint32_t session;      /* of the library */
  uint32_t cursor;       /* its step */
  int64_t ahead;         /* tokens of the request less tokens of the recording */
  int64_t first_ahead;   /* the same at the first step; less than `ahead` after a seam */
  uint32_t first_tokens; /* of the request, at its first step */
  bool begun, broken;
  /* the step */
  uint32_t tokens;
  struct {
    const struct kvl_trace_chunk *chunk;
    const struct kvl_trace_chunk_step *step;
    uint32_t query;
  } *at;                 /* per query: where it is taken from */
  uint32_t *out_start;   /* per point, times queries_max: place of its rows in out[] */
  int32_t *out;
  uint64_t *taken;       /* one bit a row; all clear between calls */
  struct kvl_pool pool;
  int32_t *blocks;       /* of the step's pools, query by query */
  uint32_t *block_count; /* UINT32_MAX: not asked for yet */
};

/* ---- the cache of unpacked chunks ---- */

static void unlink_cell(struct trace_source *s, uint32_t index)
{
  struct cell *c = &s->cell[index];
  if (c->newer != NOBODY)
    s->cell[c->newer].older = c->older;
  else
    s->newest = c->older;
  if (c->older != NOBODY)
    s->cell[c->older].newer = c->newer;
  else
    s->oldest = c->newer;
}

static void link_newest(struct trace_source *s, uint32_t index)
{
  struct cell *c = &s->cell[index];
  c->newer = NOBODY;
  c->older = s->newest;
  if (s->newest != NOBODY)
    s->cell[s->newest].newer = index;
  else
    s->oldest = index;
  s->newest = index;
}

static void make_room(struct trace_source *s)
{
  while (s->bytes > s->bytes_max && s->oldest != NOBODY) {
    uint32_t index = s->oldest;
    unlink_cell(s, index);
    s->bytes -= kvl_trace_chunk_bytes(s->cell[index].chunk);
    kvl_trace_chunk_free(s->cell[index].chunk);
    s->cell[index].chunk = NULL;
  }
}

/* A chunk to read until release(); NULL when it cannot be had (the source remembers why). */
static struct kvl_trace_chunk *acquire(struct trace_source *s, uint32_t index)
{
  struct cell *c = &s->cell[index];
  struct kvl_trace_chunk *chunk;
  pthread_mutex_lock(&s->lock);
  while (c->loading)
    pthread_cond_wait(&s->loaded, &s->lock);
  if (!c->chunk && s->failure == 0) {
    struct kvl_err err;
    int code;
    c->loading = true;
    pthread_mutex_unlock(&s->lock);
    code = kvl_trace_chunk_load(s->trace, index, &chunk, &err);
    pthread_mutex_lock(&s->lock);
    c->loading = false;
    pthread_cond_broadcast(&s->loaded);
    if (code && s->failure == 0) {
      s->failure = code;
      s->failure_text = err;
    }
    if (code == 0) {
      c->chunk = chunk;
      c->readers = 0;
      s->bytes += kvl_trace_chunk_bytes(chunk);
      link_newest(s, index);
    }
  }
  chunk = c->chunk;
  if (chunk && c->readers++ == 0)
    unlink_cell(s, index);
  make_room(s);
  pthread_mutex_unlock(&s->lock);
  return chunk;
}

static void release(struct trace_source *s, uint32_t index)
{
  pthread_mutex_lock(&s->lock);
  if (--s->cell[index].readers == 0) {
    link_newest(s, index);
    make_room(s);
  }
  pthread_mutex_unlock(&s->lock);
}

/* ---- the source ---- */

static const struct kvl_selection_ops trace_ops;

static void trace_close(struct kvl_selection_source *source)
{
  struct trace_source *s = (struct trace_source *)source;
  for (uint32_t i = 0; s->cell && i < s->totals.chunks; i++)
    kvl_trace_chunk_free(s->cell[i].chunk);
  free(s->cell);
  kvl_trace_close(s->trace);
  pthread_cond_destroy(&s->loaded);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* The file's pool that the model's announcing layer stands for. */
static int find_pool(struct trace_source *s, const struct kvl_selection_shape *shape, const char *path, struct kvl_err *err)
{
  const struct kvl_selection_point *point = &shape->point[shape->pool.point];
  for (uint32_t i = 0; i < s->meta->pools; i++) {
    const struct kvl_trace_pool *pool = &s->meta->pool[i];
    if (pool->cache != point->cache || pool->layer != point->layer)
      continue;
    if (pool->rows_per_block != shape->pool.rows_per_block || pool->blocks_max > shape->pool.blocks)
      return kvl_err_set(err, -EINVAL, "%s: pools of up to %u blocks of %u rows, the model's are %u blocks of %u", path, pool->blocks_max,
                         pool->rows_per_block, shape->pool.blocks, shape->pool.rows_per_block);
    if (point->k > shape->pool.blocks)
      return kvl_err_set(err, -EINVAL, "%s: a pool of %u blocks does not hold the %u rows that its announcing layer selects", path, shape->pool.blocks,
                         point->k);
    s->pool_point = shape->pool.point;
    s->pool_blocks = shape->pool.blocks;
    s->pool_number = i;
    return 0;
  }
  return kvl_err_set(err, -EINVAL, "%s: no candidate pools for cache %u, announced at layer %u, are recorded: policy.prefetch = pool needs them", path,
                     point->cache, point->layer);
}

int kvl_source_open_trace(struct kvl_selection_source **source, const char *path, const struct kvl_selection_shape *shape, uint64_t seed,
                          struct kvl_err *err)
{
  struct trace_source *s = calloc(1, sizeof(*s));
  struct kvl_err difference;
  int code;

  *source = NULL;
  if (!s)
    return kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->loaded, NULL);
  s->base.ops = &trace_ops;
  s->seed = seed;
  s->bytes_max = KVL_TRACE_CACHE_BYTES;
  s->newest = s->oldest = NOBODY;
  code = kvl_trace_open(&s->trace, path, err);
  if (code == 0) {
    s->meta = kvl_trace_meta_of(s->trace);
    kvl_trace_totals_of(s->trace, &s->totals);
    code = kvl_trace_same_shape(&s->meta->shape, shape, &difference);
    if (code)
      kvl_err_set(err, code, "%s: a trace of another shape (%s): %s", path, s->meta->model[0] ? s->meta->model : "no model named", difference.text);
  }
  if (code == 0 && shape->pool.blocks != 0)
    code = find_pool(s, shape, path, err);
  if (code == 0)
    code = kvl_trace_check_sums(s->trace, err);
  if (code == 0) {
    s->cell = calloc((size_t)s->totals.chunks + 1, sizeof(*s->cell));
    if (!s->cell)
      code = kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  }
  if (code) {
    trace_close(&s->base);
    return code;
  }
  *source = &s->base;
  return 0;
}

void kvl_trace_source_cache(struct kvl_selection_source *source, uint64_t bytes_max)
{
  struct trace_source *s = (struct trace_source *)source;
  pthread_mutex_lock(&s->lock);
  s->bytes_max = bytes_max;
  make_room(s);
  pthread_mutex_unlock(&s->lock);
}

uint64_t kvl_trace_source_cached(struct kvl_selection_source *source)
{
  struct trace_source *s = (struct trace_source *)source;
  uint64_t bytes;
  pthread_mutex_lock(&s->lock);
  bytes = s->bytes;
  pthread_mutex_unlock(&s->lock);
  return bytes;
}

int kvl_source_status(const struct kvl_selection_source *source, struct kvl_err *err)
{
  struct trace_source *s;
  int failure;
  if (source->ops != &trace_ops)
    return 0; /* generated selections cannot fail */
  memcpy(&s, &source, sizeof(s)); /* the lock is not const */
  pthread_mutex_lock(&s->lock);
  failure = s->failure;
  if (failure && err)
    *err = s->failure_text;
  pthread_mutex_unlock(&s->lock);
  return failure;
}

/* ---- streams ---- */

static void trace_destroy(struct kvl_selection_stream *stream)
{
  struct trace_stream *t = (struct trace_stream *)stream;
  for (uint32_t i = 0; i < t->pins; i++)
    release(t->source, t->pin[i].index);
  free(t->pin);
  free(t->at);
  free(t->out_start);
  free(t->out);
  free(t->taken);
  free(t->blocks);
  free(t->block_count);
  kvl_pool_deinit(&t->pool);
  free(t);
}

static struct kvl_selection_stream *trace_create(const struct kvl_selection_source *source, uint32_t tokens_max, uint32_t queries_max)
{
  struct trace_stream *t = calloc(1, sizeof(*t));
  const struct kvl_selection_shape *shape;
  size_t rows = 0;
  if (!t)
    return NULL;
  memcpy(&t->source, &source, sizeof(t->source)); /* shared, behind its lock */
  shape = &t->source->meta->shape;
  t->base.ops = &trace_ops;
  t->tokens_max = tokens_max;
  t->queries_max = queries_max ? queries_max : 1;
  t->pins_max = t->queries_max + 1; /* one for looking ahead */
  t->pin = malloc(t->pins_max * sizeof(*t->pin));
  t->at = malloc(t->queries_max * sizeof(*t->at));
  t->out_start = malloc(shape->points * sizeof(*t->out_start));
  for (uint32_t p = 0; t->out_start && p < shape->points; p++) {
    t->out_start[p] = (uint32_t)rows;
    rows += shape->point[p].k;
  }
  t->out = malloc(rows * t->queries_max * sizeof(*t->out));
  t->taken = calloc((size_t)tokens_max / 64 + 1, sizeof(*t->taken));
  if (t->source->pool_blocks != 0) {
    const struct kvl_trace_pool *pool = &t->source->meta->pool[t->source->pool_number];
    t->blocks = malloc((size_t)t->queries_max * t->source->pool_blocks * sizeof(*t->blocks));
    t->block_count = malloc(t->queries_max * sizeof(*t->block_count));
    if (!t->blocks || !t->block_count ||
        kvl_pool_init(&t->pool, tokens_max / shape->tokens_per_row[pool->cache], t->source->pool_blocks, pool->rows_per_block)) {
      trace_destroy(&t->base);
      return NULL;
    }
  }
  if (!t->pin || !t->at || !t->out_start || !t->out || !t->taken) {
    trace_destroy(&t->base);
    return NULL;
  }
  return &t->base;
}

static void trace_start(struct kvl_selection_stream *stream, uint64_t session, uint32_t input_tokens)
{
  struct trace_stream *t = (struct trace_stream *)stream;
  struct kvl_rng rng;
  for (; t->pins > 0; t->pins--)
    release(t->source, t->pin[t->pins - 1].index);
  (void)input_tokens; /* the first step says how long the history is */
  t->session = (uint32_t)(session % t->source->totals.sessions);
  kvl_rng_init(&rng, t->source->seed, "trace offset", session);
  t->cursor = kvl_rng_below(&rng, kvl_trace_session_of(t->source->trace, t->session)->steps);
  t->begun = t->broken = false;
}

/* A step of the library session. Valid until the next call, or, once its pin is `wanted`, until the next step of the stream. NULL: it cannot be read. */
static const struct kvl_trace_chunk_step *step_at(struct trace_stream *t, uint32_t step, struct pin **found)
{
  struct pin *pin = NULL;
  for (uint32_t i = 0; !pin && i < t->pins; i++) {
    const struct kvl_trace_chunk *c = t->pin[i].chunk;
    if (c->session == t->session && step >= c->first_step && step - c->first_step < c->steps)
      pin = &t->pin[i];
  }
  if (!pin) {
    uint32_t index = kvl_trace_chunk_of(t->source->trace, t->session, step);
    struct kvl_trace_chunk *c = acquire(t->source, index);
    if (!c)
      return NULL;
    if (t->pins < t->pins_max) {
      pin = &t->pin[t->pins++];
    } else {
      pin = t->pin;
      while (pin->wanted) /* at most one a query is */
        pin++;
      release(t->source, pin->index);
    }
    *pin = (struct pin){index, c, false};
  }
  *found = pin;
  return &pin->chunk->step[step - pin->chunk->first_step];
}

/* Moves *step on to the last one that had at most `tokens` tokens of the request. */
static bool advance(struct trace_stream *t, uint32_t *step, uint64_t tokens)
{
  uint32_t steps = kvl_trace_session_of(t->source->trace, t->session)->steps;
  while (*step + 1 < steps) {
    struct pin *pin;
    const struct kvl_trace_chunk_step *next = step_at(t, *step + 1, &pin);
    if (!next)
      return false;
    if (next->tokens + t->ahead > (int64_t)tokens)
      break;
    ++*step;
  }
  return true;
}

static bool place(struct trace_stream *t, uint32_t queries)
{
  uint32_t steps = kvl_trace_session_of(t->source->trace, t->session)->steps, step, of_cursor;
  struct pin *pin;
  const struct kvl_trace_chunk_step *s;

  if (!t->begun) {
    s = step_at(t, t->cursor, &pin);
    if (!s)
      return false;
    t->ahead = t->first_ahead = (int64_t)t->tokens - s->tokens;
    t->first_tokens = t->tokens;
    t->begun = true;
  } else if (!advance(t, &t->cursor, t->tokens)) {
    return false;
  }
  s = step_at(t, t->cursor, &pin);
  if (!s)
    return false;
  if (t->cursor + 1 == steps && (int64_t)t->tokens - t->ahead > s->tokens) { /* past the end: once more from the start */
    t->cursor = 0;
    s = step_at(t, 0, &pin);
    if (!s)
      return false;
    t->ahead = (int64_t)t->tokens - s->tokens;
  }
  step = t->cursor;
  of_cursor = s->queries;
  for (uint32_t q = 0; q < queries; q++) {
    if (q >= of_cursor && !advance(t, &step, (uint64_t)t->tokens + q))
      return false;
    s = step_at(t, step, &pin);
    if (!s)
      return false;
    pin->wanted = true;
    t->at[q].chunk = pin->chunk;
    t->at[q].step = s;
    t->at[q].query = q < of_cursor ? q : 0;
  }
  return true;
}

static void trace_step(struct kvl_selection_stream *stream, uint32_t tokens, uint32_t queries)
{
  struct trace_stream *t = (struct trace_stream *)stream;
  assert(tokens <= t->tokens_max && queries <= t->queries_max);
  t->tokens = tokens;
  for (uint32_t q = 0; t->block_count && q < t->queries_max; q++)
    t->block_count[q] = UINT32_MAX;
  for (uint32_t i = 0; i < t->pins; i++)
    t->pin[i].wanted = false;
  if (!t->broken && !place(t, queries))
    t->broken = true;
}

/* ---- rows ---- */

static int32_t floor_divide(int64_t a, uint32_t b)
{
  int64_t q = a / (int64_t)b;
  return (int32_t)(a % (int64_t)b < 0 ? q - 1 : q);
}

static bool is_taken(const struct trace_stream *t, uint32_t row)
{
  return t->taken[row / 64] >> row % 64 & 1;
}

static int32_t take(struct trace_stream *t, uint32_t row)
{
  t->taken[row / 64] |= UINT64_C(1) << row % 64;
  return (int32_t)row;
}

/* First free row at or after `row`, going round from `end` to `begin`; there must be one. */
static uint32_t free_after(const struct trace_stream *t, uint32_t row, uint32_t begin, uint32_t end)
{
  while (is_taken(t, row)) {
    uint64_t empty = ~t->taken[row / 64] >> row % 64;
    row += empty ? (uint32_t)__builtin_ctzll(empty) : 64 - row % 64;
    row = row >= end ? begin : row;
  }
  return row;
}

/* Last free row at or before `row`; there must be one. */
static uint32_t free_before(const struct trace_stream *t, uint32_t row)
{
  while (is_taken(t, row)) {
    uint64_t empty = ~t->taken[row / 64] << (63 - row % 64);
    row -= empty ? (uint32_t)__builtin_clzll(empty) : row % 64 + 1;
  }
  return row;
}

/* How far rows older than the history are folded back: the history at the first step, doubled as it grows, so that a row keeps its place. */
static uint32_t fold_span(const struct trace_stream *t, uint32_t tokens_per_row, uint32_t begin, uint32_t rows)
{
  uint32_t first = t->first_tokens / tokens_per_row;
  uint32_t span = first > begin ? first - begin : 1;
  while (span <= (rows - begin) / 2)
    span *= 2;
  return span;
}

/* How the recorded rows of one query at one point move. */
struct move {
  int32_t near;      /* rows from here on are near the end of the recorded history */
  int32_t near_shift, far_shift;
  uint32_t begin, there; /* rows that are not sinks lie in begin .. there - 1 */
};

static int64_t moved(const struct move *m, int32_t row)
{
  return row < SINKS ? row : (int64_t)row + (row < m->near ? m->far_shift : m->near_shift);
}

/* The rows that do not simply move: some fell off an end, or there are fewer than this history must give. */
static void place_slowly(struct trace_stream *t, const struct move *m, const int32_t *from, uint32_t count, uint32_t tokens_per_row,
                         uint32_t wanted, int32_t *out)
{
  uint32_t begin = m->begin, there = m->there, span = fold_span(t, tokens_per_row, begin, there), newest = there - 1;
  uint32_t room = there - begin; /* free rows besides the sinks */
  if (count > wanted)
    count = wanted;
  for (uint32_t i = 0; i < count; i++) {
    int64_t row = moved(m, from[i]);
    bool fits = row < there && (from[i] < SINKS || row >= begin) && !is_taken(t, (uint32_t)row);
    out[i] = fits ? take(t, (uint32_t)row) : -1;
    room -= fits && row >= begin;
  }
  for (uint32_t i = 0; i < wanted; i++) {
    int64_t row = i < count ? moved(m, from[i]) : there;
    if (i < count && out[i] >= 0)
      continue;
    if (row < there && room > 0) { /* older than the history */
      int64_t fold = (row - begin) % (int64_t)span;
      out[i] = take(t, free_after(t, begin + (uint32_t)(fold < 0 ? fold + span : fold), begin, there));
    } else { /* newer, or one too few */
      newest = free_before(t, newest);
      out[i] = take(t, newest);
    }
    room -= (uint32_t)out[i] >= begin;
  }
  for (uint32_t i = 0; i < wanted; i++)
    t->taken[(uint32_t)out[i] / 64] = 0;
}

static uint32_t trace_rows(struct kvl_selection_stream *stream, uint32_t point, uint32_t query, const int32_t **rows)
{
  struct trace_stream *t = (struct trace_stream *)stream;
  const struct kvl_selection_shape *shape = &t->source->meta->shape;
  uint32_t k = shape->point[point].k, tokens_per_row = shape->tokens_per_row[shape->point[point].cache];
  uint32_t there = t->tokens / tokens_per_row, wanted = k < there ? k : there, count;
  int32_t *out = t->out + (size_t)t->out_start[point] * t->queries_max + (size_t)query * k;
  const struct kvl_trace_chunk_step *step;
  const int32_t *from;
  struct move m;
  bool astray = false;

  *rows = out;
  if (t->broken || !t->begun)
    return 0;
  if (wanted == there) { /* the whole history */
    for (uint32_t i = 0; i < there; i++)
      out[i] = (int32_t)i;
    return there;
  }
  step = t->at[query].step;
  count = kvl_trace_chunk_list(t->at[query].chunk, step->list + point * step->queries + t->at[query].query, &from);
  m.near = step->tokens > NEAR_TOKENS ? (int32_t)((step->tokens - NEAR_TOKENS) / tokens_per_row) : 0;
  m.near_shift = floor_divide(t->ahead, tokens_per_row);
  m.far_shift = floor_divide(t->first_ahead, tokens_per_row);
  m.begin = there > SINKS ? SINKS : 0;
  m.there = there;
  if (count == wanted && there > SINKS) {
    /* In 32 bits without a sign, rows that fall off either end are out of range alike. */
    for (uint32_t i = 0; i < count; i++) {
      bool sink = from[i] < SINKS;
      uint32_t row = (uint32_t)from[i] + (uint32_t)(from[i] < m.near ? m.far_shift : m.near_shift);
      astray |= !sink & (row - SINKS >= there - SINKS);
      out[i] = sink ? from[i] : (int32_t)row;
    }
    if (!astray)
      return count;
  }
  place_slowly(t, &m, from, count, tokens_per_row, wanted, out);
  return wanted;
}

static bool holds_block(const int32_t *blocks, uint32_t count, int32_t block)
{
  uint32_t low = 0, all = count;
  while (count > 0) {
    uint32_t half = count / 2;
    bool right = blocks[low + half] < block;
    low = right ? low + half + 1 : low;
    count = right ? count - half - 1 : half;
  }
  return low < all && blocks[low] == block;
}

static int compare_blocks(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Blocks move with the rows in them, which need not move by whole blocks: rows that a later point selected from the recorded pool take their blocks along, the
 * other blocks go where their middle goes. */
static void move_pool(struct trace_stream *t, uint32_t query)
{
  const struct kvl_selection_shape *shape = &t->source->meta->shape;
  const struct kvl_trace_pool *pool = &t->source->meta->pool[t->source->pool_number];
  const struct kvl_trace_chunk_step *step = t->at[query].step;
  uint32_t tokens_per_row = shape->tokens_per_row[pool->cache], there = t->tokens / tokens_per_row, recorded = 0;
  const int32_t *list = NULL, *from, *rows;
  int32_t *ascending = NULL;
  if (step->has_pools)
    recorded = kvl_trace_chunk_list(t->at[query].chunk, step->list + (shape->points + t->source->pool_number) * step->queries + t->at[query].query, &list);
  for (uint32_t i = 1; i < recorded && !ascending; i++) {
    if (list[i - 1] >= list[i]) {
      ascending = malloc(recorded * sizeof(*ascending));
      if (ascending) {
        memcpy(ascending, list, recorded * sizeof(*ascending));
        qsort(ascending, recorded, sizeof(*ascending), compare_blocks);
        list = ascending;
      } else {
        recorded = 0; /* no memory: the pool is smaller */
      }
    }
  }
  for (uint32_t p = t->source->pool_point; p < shape->points; p++) {
    if (shape->point[p].cache != pool->cache)
      continue;
    uint32_t n = trace_rows(&t->base, p, query, &rows);
    if (p == t->source->pool_point || n == there) {
      kvl_pool_add_rows(&t->pool, rows, n);
      continue;
    }
    uint32_t count = kvl_trace_chunk_list(t->at[query].chunk, step->list + p * step->queries + t->at[query].query, &from);
    for (uint32_t i = 0; i < n && i < count && recorded != 0; i++) {
      if (holds_block(list, recorded, from[i] / (int32_t)pool->rows_per_block))
        kvl_pool_add_rows(&t->pool, &rows[i], 1);
    }
  }
  int32_t near = step->tokens > NEAR_TOKENS ? (int32_t)((step->tokens - NEAR_TOKENS) / tokens_per_row) : 0;
  int32_t near_shift = floor_divide(t->ahead, tokens_per_row), far_shift = floor_divide(t->first_ahead, tokens_per_row);
  for (uint32_t i = 0; i < recorded; i++) {
    int64_t middle = (int64_t)list[i] * pool->rows_per_block + pool->rows_per_block / 2;
    middle += middle < near ? far_shift : near_shift;
    if (middle >= 0 && middle < there)
      kvl_pool_add_block(&t->pool, middle / pool->rows_per_block);
  }
  free(ascending);
  t->block_count[query] = kvl_pool_take(&t->pool, t->blocks + (size_t)query * t->source->pool_blocks);
}

static uint32_t trace_pool(struct kvl_selection_stream *stream, uint32_t query, const int32_t **blocks)
{
  struct trace_stream *t = (struct trace_stream *)stream;
  if (!t->blocks || t->broken || !t->begun)
    return 0;
  if (t->block_count[query] == UINT32_MAX)
    move_pool(t, query);
  *blocks = t->blocks + (size_t)query * t->source->pool_blocks;
  return t->block_count[query];
}

static const struct kvl_selection_ops trace_ops = {trace_close, trace_create, trace_destroy, trace_start, trace_step, trace_rows, trace_pool};
