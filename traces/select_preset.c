/* Generated selections: one gap process a cache (traces/gap.h), caches independent of each other. */
#include <errno.h>
#include <stdlib.h>

#include "backend/base/nearest.h"
#include "traces/gap.h"
#include "traces/pool.h"
#include "traces/preset.h"
#include "traces/selection_impl.h"

struct preset_source {
  struct kvl_selection_source base;
  struct kvl_selection_shape shape;
  struct kvl_gap_law law;
  uint64_t seed;
  uint32_t cache_k[KVL_CACHES_MAX];      /* largest k of the cache's points */
  uint32_t cache_points[KVL_CACHES_MAX];
  uint32_t point_index[KVL_POINTS_MAX];  /* which of its cache's points */
  uint32_t pool_fill;                    /* rows whose blocks fill the pool up */
};

struct preset_stream {
  struct kvl_selection_stream base;
  const struct preset_source *source;
  struct kvl_gap *gap[KVL_CACHES_MAX];   /* NULL: nothing selects from the cache */
  struct kvl_gap *fill;                  /* NULL: no pool, or the selections fill it */
  struct kvl_pool pool;
  int32_t *blocks;                       /* of the step's pools, query by query */
  uint32_t *block_count;                 /* UINT32_MAX: not asked for yet */
  uint32_t queries_max;
  uint32_t tokens;                       /* of the last step; 0: none yet */
};

static void preset_close(struct kvl_selection_source *source)
{
  free(source);
}

static void preset_destroy(struct kvl_selection_stream *stream)
{
  struct preset_stream *s = (struct preset_stream *)stream;
  for (uint32_t c = 0; c < s->source->shape.caches; c++) {
    kvl_gap_destroy(s->gap[c]);
  }
  kvl_gap_destroy(s->fill);
  kvl_pool_deinit(&s->pool);
  free(s->blocks);
  free(s->block_count);
  free(s);
}

static uint32_t rows_of(const struct preset_stream *s, uint32_t cache, uint32_t tokens)
{
  return tokens / s->source->shape.tokens_per_row[cache];
}

static const struct kvl_selection_ops preset_ops;

static uint32_t pool_cache(const struct preset_source *p)
{
  return p->shape.point[p->shape.pool.point].cache;
}

static int create_pool(struct preset_stream *s, uint32_t tokens_max)
{
  const struct preset_source *p = s->source;
  uint32_t rows_max = rows_of(s, pool_cache(p), tokens_max);
  if (p->pool_fill != 0) {
    s->fill = kvl_gap_create(&p->law, p->pool_fill, 1, rows_max, s->queries_max);
  }
  s->blocks = calloc((size_t)s->queries_max * p->shape.pool.blocks, sizeof *s->blocks);
  s->block_count = calloc(s->queries_max, sizeof *s->block_count);
  return (p->pool_fill != 0 && s->fill == NULL) || s->blocks == NULL || s->block_count == NULL
           ? -ENOMEM
           : kvl_pool_init(&s->pool, rows_max, p->shape.pool.blocks, p->shape.pool.rows_per_block);
}

static struct kvl_selection_stream *preset_create(const struct kvl_selection_source *source, uint32_t tokens_max, uint32_t queries_max)
{
  const struct preset_source *p = (const struct preset_source *)source;
  struct preset_stream *s = calloc(1, sizeof *s);
  if (s == NULL) {
    return NULL;
  }
  s->base.ops = &preset_ops;
  s->source = p;
  s->queries_max = queries_max > 0 ? queries_max : 1;
  for (uint32_t c = 0; c < p->shape.caches; c++) {
    if (p->cache_points[c] == 0) {
      continue;
    }
    s->gap[c] = kvl_gap_create(&p->law, p->cache_k[c], p->cache_points[c], rows_of(s, c, tokens_max), queries_max);
    if (s->gap[c] == NULL) {
      preset_destroy(&s->base);
      return NULL;
    }
  }
  if (p->shape.pool.blocks != 0 && create_pool(s, tokens_max) != 0) {
    preset_destroy(&s->base);
    return NULL;
  }
  return &s->base;
}

static void preset_start(struct kvl_selection_stream *stream, uint64_t session, uint32_t input_tokens)
{
  struct preset_stream *s = (struct preset_stream *)stream;
  (void)input_tokens; /* the first step knows how long the history is */
  s->tokens = 0;
  for (uint32_t c = 0; c < s->source->shape.caches; c++) {
    if (s->gap[c] != NULL) {
      kvl_gap_start(s->gap[c], s->source->seed, session * KVL_CACHES_MAX + c);
    }
  }
  if (s->fill != NULL) { /* a stream of random numbers of its own */
    kvl_gap_start(s->fill, s->source->seed, UINT64_MAX - session);
  }
}

static void step_processes(struct preset_stream *s, uint32_t tokens, uint32_t queries)
{
  for (uint32_t c = 0; c < s->source->shape.caches; c++) {
    if (s->gap[c] != NULL) {
      kvl_gap_step(s->gap[c], rows_of(s, c, tokens), queries);
    }
  }
  if (s->fill != NULL) {
    kvl_gap_step(s->fill, rows_of(s, pool_cache(s->source), tokens), queries);
  }
  for (uint32_t q = 1; q < queries; q++) { /* a draft sees the rows of the tokens before it */
    for (uint32_t c = 0; c < s->source->shape.caches; c++) {
      if (s->gap[c] != NULL) {
        kvl_gap_lengthen(s->gap[c], q, rows_of(s, c, tokens + q));
      }
    }
  }
}

/* The processes go on by a step for each token since the last, as libraries and traces do: what is selected at a token does not depend on how many drafts
 * were accepted on the way to it. */
static void preset_step(struct kvl_selection_stream *stream, uint32_t tokens, uint32_t queries)
{
  enum { TOKENS_MAX = 64 }; /* more than any step commits: somebody skips, and selections need not be continuous */
  struct preset_stream *s = (struct preset_stream *)stream;
  uint32_t passed = s->tokens != 0 && tokens > s->tokens ? tokens - s->tokens : 1;
  for (uint32_t left = passed <= TOKENS_MAX ? passed - 1 : 0; left > 0; left--) {
    step_processes(s, tokens - left, 1);
  }
  step_processes(s, tokens, queries);
  s->tokens = tokens;
  for (uint32_t q = 0; s->block_count != NULL && q < s->queries_max; q++) {
    s->block_count[q] = UINT32_MAX;
  }
}

static uint32_t preset_rows(struct kvl_selection_stream *stream, uint32_t point, uint32_t query, const int32_t **rows)
{
  struct preset_stream *s = (struct preset_stream *)stream;
  const struct kvl_selection_point *p = &s->source->shape.point[point];
  uint32_t n = kvl_gap_rows(s->gap[p->cache], s->source->point_index[point], query, rows);
  return n < p->k ? n : p->k; /* points of one cache with different k: the smaller has the front of its window */
}

/* What the query selects first, then the filling, as far as there is room. */
static uint32_t preset_pool(struct kvl_selection_stream *stream, uint32_t query, const int32_t **blocks)
{
  struct preset_stream *s = (struct preset_stream *)stream;
  const struct kvl_selection_shape *shape = &s->source->shape;
  const int32_t *rows;
  uint32_t q = query < s->queries_max ? query : s->queries_max - 1;
  if (shape->pool.blocks == 0) {
    return 0;
  }
  *blocks = s->blocks + (size_t)q * shape->pool.blocks;
  if (s->block_count[q] == UINT32_MAX) {
    for (uint32_t p = shape->pool.point; p < shape->points; p++) {
      if (shape->point[p].cache == pool_cache(s->source)) {
        uint32_t n = preset_rows(stream, p, query, &rows);
        kvl_pool_add_rows(&s->pool, rows, n);
      }
    }
    if (s->fill != NULL) {
      uint32_t n = kvl_gap_rows(s->fill, 0, query, &rows);
      kvl_pool_add_rows(&s->pool, rows, n);
    }
    s->block_count[q] = kvl_pool_take(&s->pool, s->blocks + (size_t)q * shape->pool.blocks);
  }
  return s->block_count[q];
}

static const struct kvl_selection_ops preset_ops = {
  .close = preset_close,
  .create = preset_create,
  .destroy = preset_destroy,
  .start = preset_start,
  .step = preset_step,
  .rows = preset_rows,
  .pool = preset_pool,
};

/* Distinct rows that the selections from a pool can name: as many as the cache's points together, which overlap (gap.h). */
static uint32_t pooled_rows(const struct preset_source *p)
{
  uint32_t cache = pool_cache(p), k = p->cache_k[cache], points = p->cache_points[cache];
  uint32_t spread = points < 2 || k < KVL_GAP_WINDOW ? 0 : points - 1 < KVL_GAP_SHARES ? points - 1 : KVL_GAP_SHARES;
  return k + (k * spread + KVL_GAP_WINDOW - 1) / KVL_GAP_WINDOW;
}

int kvl_source_open_preset(struct kvl_selection_source **source, const char *preset, const struct kvl_selection_shape *shape,
                           uint64_t seed, struct kvl_err *err)
{
  *source = NULL;
  int index = kvl_preset_find(preset);
  if (index < 0) {
    return kvl_err_set(err, -EINVAL, "selection preset \"%s\" is not known; did you mean \"%s\"? (hot-a, hot-b, cold-a, cold-b)", preset,
                       kvl_nearest(preset, kvl_preset_names, KVL_PRESETS));
  }
  if (shape->caches == 0 || shape->caches > KVL_CACHES_MAX || shape->points == 0 || shape->points > KVL_POINTS_MAX) {
    return kvl_err_set(err, -EINVAL, "selection shape: %u caches and %u points; each must be 1 to %d", shape->caches, shape->points, KVL_CACHES_MAX);
  }
  struct preset_source *p = calloc(1, sizeof *p);
  if (p == NULL) {
    return kvl_err_set(err, -ENOMEM, "selection preset %s: no memory", preset);
  }
  for (uint32_t i = 0; i < shape->points; i++) {
    const struct kvl_selection_point *point = &shape->point[i];
    uint32_t cache = point->cache;
    if (cache >= shape->caches || point->k == 0 || point->k > KVL_GAP_ROWS_MAX || shape->tokens_per_row[cache] == 0) {
      free(p);
      return kvl_err_set(err, -EINVAL, "selection shape: point %u (layer %u) selects %u rows of cache %u; need 1 to %d rows of a cache below %u", i,
                         point->layer, point->k, cache, KVL_GAP_ROWS_MAX, shape->caches);
    }
    p->point_index[i] = p->cache_points[cache]++;
    p->cache_k[cache] = point->k > p->cache_k[cache] ? point->k : p->cache_k[cache];
  }
  p->base.ops = &preset_ops;
  p->shape = *shape;
  p->seed = seed;
  if (shape->pool.blocks != 0) {
    if (shape->pool.point >= shape->points || shape->pool.rows_per_block == 0 || shape->point[shape->pool.point].k > shape->pool.blocks) {
      free(p);
      return kvl_err_set(err, -EINVAL, "selection shape: a pool of %u blocks of %u rows does not hold the rows that its announcing layer selects",
                         shape->pool.blocks, shape->pool.rows_per_block);
    }
    uint32_t left = shape->pool.blocks > pooled_rows(p) ? shape->pool.blocks - pooled_rows(p) : 0;
    p->pool_fill = left + left / 8; /* some share their block with another row */
  }
  kvl_gap_law_init(&p->law, &kvl_gap_tables[index]);
  *source = &p->base;
  return 0;
}

void kvl_source_set_query_overlap(struct kvl_selection_source *source, uint32_t permille)
{
  struct preset_source *p = (struct preset_source *)source;
  p->law.differ_permille = 1000 - permille;
}
