/* The reference device and the host plane's bytes against a naive oracle (tests/kernels/oracle.c), item by item: random models (groups of 1, 2, 4 and 128
 * tokens a row), random drafts and acceptances, pools, page maps, ends and aborts at any point. After every step each place of each tier is compared: which
 * row it holds, and which bytes. `model_refdev SEED WORLDS` plays others. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "backend/bytes.h"
#include "backend/layout.h"
#include "kernels/resolve_ref.h"
#include "tests/kernels/oracle.h"

enum { CACHES = 3, POINTS = 6, SLOTS = 3, LAYERS = 12, K = 12, Q = KVL_STEP_QUERIES_MAX, BLOCKS = 24, PAGES = 64, STEPS = 40, FRAMES = 24 };

struct test_slot {
  bool open;
  uint32_t tokens;
  kvl_frame map[PAGES];
  struct oracle oracle[CACHES];
  int32_t rows[POINTS][Q][K];
  uint32_t n[POINTS][Q];
  int32_t blocks[Q][BLOCKS];
  uint32_t block_count[Q];
  kvl_addr address[POINTS][Q * K];
  uint32_t next_resolve;        /* among the stages */
  bool unnamed[512];            /* bank slots copied and never named since */
  struct kvl_fetch copies[Q * BLOCKS * 8];
  uint32_t copy_count;
};

struct world {
  struct kvl_rng rng;
  uint64_t seed, next_session;
  struct kvl_stage_model model;
  struct kvl_stage stages[KVL_STAGES_MAX];
  struct kvl_refdev_config config;
  struct kvl_layout layout;
  struct kvl_refdev *dev;
  struct kvl_bytes *bytes;
  struct test_slot slot[SLOTS];
  bool frame_used[FRAMES];
  struct kvl_refdev_counts wanted;
  int failed;
};

static uint32_t below(struct world *w, uint32_t n)
{
  return kvl_rng_below(&w->rng, n);
}

#define EXPECT(condition) expect(w, condition, #condition, __LINE__)
static void expect(struct world *w, bool good, const char *what, int line)
{
  if (!good && w->failed++ < 3) {
    printf("seed %llu, line %d: %s\n", (unsigned long long)w->seed, line, what);
  }
}

/* ---- what the queries select ---- */

static void draw_rows(struct world *w, struct test_slot *s, const struct kvl_step_item *item, uint32_t p)
{
  uint32_t tpr = w->config.cache[w->config.point[p].cache].tokens_per_row;
  for (uint32_t q = 0; q < item->queries; q++) {
    uint32_t visible = (item->tokens + q) / tpr, n = 0;
    for (uint32_t i = 0; i < w->config.point[p].k; i++) {
      int32_t row = visible == 0 || below(w, 9) == 0 ? -1 : (int32_t)below(w, visible);
      if (row >= 0 && below(w, 3) == 0) { /* recent rows, which may be in the scratch or tail */
        row = (int32_t)(visible - 1 - below(w, visible < 6 ? visible : 6));
      }
      if (q > 0 && i < s->n[p][q - 1] && below(w, 4) != 0) { /* neighbours share most */
        row = s->rows[p][q - 1][i];
      }
      for (uint32_t j = 0; row >= 0 && j < n; j++) {
        row = s->rows[p][q][j] == row ? -1 : row;
      }
      s->rows[p][q][n++] = row;
    }
    s->n[p][q] = n;
  }
}

static void draw_pools(struct world *w, struct test_slot *s, const struct kvl_step_item *item, uint32_t announcing)
{
  uint32_t per_block = w->config.pool_rows_per_block, tpr = w->config.cache[w->config.point[announcing].cache].tokens_per_row;
  uint32_t there = item->tokens / tpr / per_block + 2;
  for (uint32_t q = 0; q < item->queries; q++) {
    bool in[4096] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n[announcing][q]; i++) {
      int32_t row = s->rows[announcing][q][i];
      uint32_t block = row < 0 ? 0 : (uint32_t)row / per_block;
      if (row >= 0 && !in[block]) {
        in[block] = true;
        n++;
      }
    }
    for (uint32_t i = below(w, BLOCKS); n < w->config.pool_blocks && i > 0; i--) {
      uint32_t block = below(w, there < 4096 ? there : 4096);
      n += !in[block];
      in[block] = true;
    }
    s->block_count[q] = 0;
    for (int32_t b = 0; b < 4096; b++) {
      if (in[b]) {
        s->blocks[q][s->block_count[q]++] = b;
      }
    }
  }
}

/* ---- the hooks: bytes move, the oracle goes along ---- */

static uint32_t rows_hook(void *context, kvl_request slot, uint32_t selection, uint32_t query, const int32_t **rows)
{
  struct world *w = context;
  *rows = w->slot[slot].rows[selection][query];
  return w->slot[slot].n[selection][query];
}

static uint32_t pool_hook(void *context, kvl_request slot, uint32_t query, const int32_t **blocks)
{
  struct world *w = context;
  *blocks = w->slot[slot].blocks[query];
  return w->slot[slot].block_count[query];
}

static void written_hook(void *context, const struct kvl_step_item *item, uint32_t cache, kvl_row first, uint32_t count)
{
  struct world *w = context;
  uint32_t tpr = w->config.cache[cache].tokens_per_row;
  EXPECT(first == (kvl_row)(item->tokens / tpr) && count == (item->tokens + item->queries) / tpr - item->tokens / tpr);
  EXPECT(oracle_scratch(&w->slot[item->slot].oracle[cache], count) == 0);
  kvl_bytes_written(w->bytes, item->slot, cache, first, count);
}

static uint32_t queries_now;    /* of the item in the device */
static const struct kvl_step_item *item_now;
static uint64_t tiers_but_scratch(const struct kvl_resolve_counts *c)
{
  return c->lanes[KVL_TIER_TAIL] + c->lanes[KVL_TIER_PAGE] + c->lanes[KVL_TIER_BANK] + c->lanes[KVL_TIER_HOT] + c->lanes[KVL_TIER_HOST];
}

static void fetch_hook(void *context, kvl_request id, uint32_t cache, const struct kvl_fetch *fetches, uint32_t count)
{
  struct world *w = context;
  struct test_slot *s = &w->slot[id];
  bool later = false;
  for (; w->stages[s->next_resolve].kind != KVL_STAGE_RESOLVE; s->next_resolve++) {
  }
  for (uint32_t i = 0; i < s->next_resolve; i++) {
    later = (later || w->stages[i].kind == KVL_STAGE_ANNOUNCE) && w->stages[i].kind != KVL_STAGE_END_GROUP;
  }
  uint32_t p = w->stages[s->next_resolve++].point, wanted_count = 0, lanes = 0;
  struct kvl_query query[Q];
  struct kvl_fetch wanted[Q * K];
  struct kvl_resolve_counts counts = {.violations = 0};
  EXPECT(cache == w->config.point[p].cache);
  for (uint32_t q = 0; q < queries_now; q++) {
    uint32_t tpr = w->config.cache[cache].tokens_per_row;
    query[q] = (struct kvl_query){.boundary = (kvl_row)((item_now->tokens + q) / tpr), .n = s->n[p][q], .rows = s->rows[p][q]};
    for (uint32_t i = 0; i < query[q].n; i++) {
      bool before = false;
      for (uint32_t e = 0; e < q; e++) {
        for (uint32_t j = 0; j < query[e].n; j++) {
          before = before || query[e].rows[j] == query[q].rows[i];
        }
      }
      w->wanted.shared_lanes += query[q].rows[i] >= 0 && before;
    }
    lanes += query[q].n;
  }
  (void)oracle_resolve(&s->oracle[cache], query, queries_now, NULL, 0, s->address[p], wanted, &wanted_count, &counts);
  EXPECT(wanted_count == count && (count == 0 || memcmp(wanted, fetches, count * sizeof *fetches) == 0));
  for (int tier = 0; tier < KVL_TIERS; tier++) {
    w->wanted.point[p].lanes[tier] += counts.lanes[tier];
  }
  w->wanted.point[p].fetched += counts.fetched;
  w->wanted.point[p].overflow += counts.overflow;
  EXPECT(counts.violations == 0);
  if (w->config.cache[cache].bank) {
    if (later) {
      w->wanted.prefetch.later_lanes += tiers_but_scratch(&counts);
      w->wanted.prefetch.later_demand += counts.lanes[KVL_TIER_HOST];
    }
    for (uint32_t i = 0; i < lanes; i++) {
      uint32_t place = (uint32_t)(s->address[p][i] - s->oracle[cache].b.bank);
      if (s->address[p][i] >= s->oracle[cache].b.bank && place < w->config.bank_rows && s->unnamed[place]) {
        s->unnamed[place] = false;
        w->wanted.prefetch.used++;
      }
    }
  }
  kvl_bytes_fetch(w->bytes, id, cache, fetches, count, 0, 1);
}

static void announced_hook(void *context, kvl_request id, uint32_t cache, const struct kvl_fetch *copies, uint32_t count)
{
  struct world *w = context;
  struct test_slot *s = &w->slot[id];
  struct kvl_query pool[Q];
  int32_t rows[Q][BLOCKS * 8];
  uint32_t copy_count = 0, drop_count = 0, limit = w->config.pool_rows_max == 0 ? UINT32_MAX : w->config.pool_rows_max, candidates = 0, per_block = w->config.pool_rows_per_block;
  kvl_row dropped[Q * BLOCKS * 8];
  kvl_row committed = s->oracle[cache].committed;
  bool taken[4096] = {false};
  uint32_t announcing = 0;
  for (uint32_t i = 0; w->stages[i].kind != KVL_STAGE_ANNOUNCE || (announcing = w->stages[i].point, false); i++) {
  }
  for (uint32_t q = 0; q < queries_now; q++) { /* blocks not taken before, as many as may be announced, and those that are being read */
    uint32_t n = 0;
    for (uint32_t b = 0; b < s->block_count[q]; b++) {
      int32_t block = s->blocks[q][b], first = block * (int32_t)per_block, fits = 0;
      bool read = false;
      for (uint32_t i = 0; i < per_block; i++) {
        fits += first + (int32_t)i < committed;
      }
      for (uint32_t i = 0; i < s->n[announcing][q]; i++) {
        read = read || (s->rows[announcing][q][i] >= first && s->rows[announcing][q][i] < first + (int32_t)per_block);
      }
      if (taken[block] || (!read && candidates + (uint32_t)fits > limit)) {
        continue;
      }
      taken[block] = true;
      for (int32_t i = 0; i < fits; i++) {
        rows[q][n++] = first + i;
      }
      candidates += (uint32_t)fits;
    }
    pool[q] = (struct kvl_query){.boundary = INT32_MAX, .n = n, .rows = rows[q]};
  }
  oracle_announce(&s->oracle[cache], pool, queries_now, s->copies, &copy_count, dropped, &drop_count);
  EXPECT(copy_count == count && (count == 0 || memcmp(s->copies, copies, count * sizeof *copies) == 0));
  s->copy_count = copy_count;
  struct kvl_prefetch *sums = &w->wanted.prefetch;
  sums->candidates += candidates;
  sums->copied += copy_count;
  sums->dropped += drop_count;
  sums->resident += candidates - copy_count - drop_count;
  for (uint32_t i = 0; i < copy_count; i++) {
    uint32_t place = (uint32_t)(s->copies[i].to - s->oracle[cache].b.bank);
    sums->unused += s->unnamed[place];
    s->unnamed[place] = true;
    bool follows = i > 0 && s->copies[i].row == s->copies[i - 1].row + 1 && (uint32_t)s->copies[i].row / per_block == (uint32_t)s->copies[i - 1].row / per_block;
    w->wanted.announced_runs += !follows;
  }
  kvl_bytes_poison(w->bytes, cache, copies, count, 0, 1);
}

static void landed_hook(void *context, kvl_request id, const struct kvl_stage *stage)
{
  struct world *w = context;
  kvl_bytes_fetch(w->bytes, id, stage->cache, w->slot[id].copies, w->slot[id].copy_count, 0, 1);
}

static void read_hook(void *context, const struct kvl_step_item *item, const struct kvl_stage *stage, const int32_t *rows, const kvl_addr *addresses,
                      uint32_t lanes)
{
  struct world *w = context;
  struct test_slot *s = &w->slot[item->slot];
  uint32_t at = 0;
  for (uint32_t q = 0; q < item->queries; q++) {
    EXPECT(memcmp(rows + at, s->rows[stage->point][q], s->n[stage->point][q] * sizeof *rows) == 0);
    at += s->n[stage->point][q];
  }
  EXPECT(lanes == at && memcmp(addresses, s->address[stage->point], lanes * sizeof *addresses) == 0);
  kvl_bytes_check(w->bytes, item->slot, stage->cache, rows, addresses, lanes, 0, 1);
}

static void committed_hook(void *context, const struct kvl_step_item *item)
{
  struct world *w = context;
  kvl_bytes_commit(w->bytes, item);
}

static const struct kvl_refdev_hooks hooks = {rows_hook, pool_hook, written_hook, fetch_hook, announced_hook, landed_hook, read_hook, committed_hook};

/* ---- every place of a request, row and bytes ---- */

static void check_place(struct world *w, kvl_request id, uint32_t cache, kvl_row row, kvl_addr address)
{
  if (row != KVL_NONE) {
    EXPECT(row < w->slot[id].oracle[cache].committed); /* nothing of a rejected draft stays */
    kvl_bytes_check(w->bytes, id, cache, &row, &address, 1, 0, 1);
  }
}

static void check_slot(struct world *w, kvl_request id)
{
  struct test_slot *s = &w->slot[id];
  for (uint32_t c = 0; c < w->config.caches; c++) {
    const struct kvl_cache *cache = kvl_refdev_cache(w->dev, id, c);
    const struct oracle *o = &s->oracle[c];
    const struct kvl_cache_geometry *g = &w->layout.geometry[c];
    EXPECT(kvl_cache_committed(cache) == o->committed && o->committed == (kvl_row)(s->tokens / w->config.cache[c].tokens_per_row));
    for (uint32_t i = 0; i < g->hot_rows; i++) {
      EXPECT(kvl_cache_hot_row(cache, (kvl_slot)i) == o->hot[i] && kvl_cache_hot_stamp(cache, (kvl_slot)i) == o->stamp[i]);
      check_place(w, id, c, o->hot[i], o->b.hot + (kvl_addr)i);
    }
    for (uint32_t i = 0; i < g->bank_rows; i++) {
      EXPECT(kvl_cache_bank_row(cache, (kvl_slot)i) == o->bank[i]);
      check_place(w, id, c, o->bank[i], o->b.bank + (kvl_addr)i);
    }
    for (uint32_t i = 0; i < g->tail_rows; i++) {
      EXPECT(o->tail[i] == KVL_NONE || kvl_cache_tail_place(cache, o->tail[i]) == (kvl_slot)i);
      check_place(w, id, c, o->tail[i], o->b.tail + (kvl_addr)i);
    }
    uint32_t per_page = 1u << g->page_shift;
    for (uint32_t page = 0; page < PAGES; page++) {
      for (uint32_t i = 0; s->map[page] != KVL_NONE && i < per_page; i++) {
        check_place(w, id, c, (kvl_row)(page * per_page + i),
                    o->b.frames + (kvl_addr)((uint32_t)s->map[page] * g->frame_stride_rows + g->frame_offset_rows + i));
      }
    }
  }
}

/* ---- a world ---- */

static void draw_model(struct world *w)
{
  static const uint32_t groups[] = {1, 2, 4, 128};
  static const uint32_t sizes[] = {8, 24, 584};
  struct kvl_refdev_config *c = &w->config;
  uint32_t widest = 1, row_bytes = sizes[below(w, 3)];
  c->caches = w->model.caches = 1 + below(w, CACHES);
  w->model.layers = LAYERS;
  for (uint32_t i = 0; i < c->caches; i++) {
    c->cache[i].tokens_per_row = groups[below(w, 4)];
    c->cache[i].row_bytes = row_bytes;
    widest = c->cache[i].tokens_per_row > widest ? c->cache[i].tokens_per_row : widest;
    w->model.cache[i].written_layer = (uint16_t)below(w, 3);
  }
  c->page_tokens = widest << below(w, 3);
  c->page_tokens = c->page_tokens < 4 ? 4 : c->page_tokens;
  for (uint32_t i = 0; i < c->caches; i++) {
    c->page_bytes += (uint64_t)(c->page_tokens / c->cache[i].tokens_per_row) * row_bytes;
  }
  for (uint32_t layer = 3, p = 0; layer < LAYERS && p < POINTS; layer += 1 + below(w, 2), p++) {
    c->points = w->model.points = p + 1;
    c->point[p].selection = p;
    c->point[p].cache = below(w, c->caches);
    c->point[p].k = 1 + below(w, K);
    w->model.point[p].selection = (uint16_t)p;
    w->model.point[p].cache = (uint16_t)c->point[p].cache;
    w->model.point[p].layer = (uint16_t)layer;
    w->model.point[p].readers = (uint16_t)(1 + below(w, 3));
  }
  for (uint32_t p = 0; p < c->points; p++) { /* addresses are read until the cache's next selection at most */
    for (uint32_t next = p + 1; next < c->points; next++) {
      uint16_t apart = (uint16_t)(w->model.point[next].layer - w->model.point[p].layer);
      if (c->point[next].cache == c->point[p].cache && w->model.point[p].readers > apart) {
        w->model.point[p].readers = apart;
      }
    }
  }
  c->hot_rows = below(w, 3) == 0 ? 0 : below(w, 40);
  c->bank_rows = 1 + below(w, 60);
  c->tail_tokens = c->page_tokens + Q * widest + below(w, 3) * widest;
  c->queries_max = Q;
  c->threads = 1;
  c->slots = SLOTS;
  c->frames = FRAMES;
  w->model.pool = below(w, 3) != 0;
  w->model.pool_selection = below(w, w->model.points);
  c->pool_blocks = K + below(w, BLOCKS - K + 1);
  c->pool_rows_per_block = 1u << below(w, 4);
  c->pool_rows_max = below(w, 2) == 0 ? 0 : 1 + below(w, 200);
  c->stage_count = kvl_stages_build(&w->model, w->stages);
  c->stages = w->stages;
  for (uint32_t i = 0; i < c->stage_count; i++) {
    c->cache[w->stages[i].cache].bank |= w->stages[i].kind == KVL_STAGE_ANNOUNCE;
  }
}

static void open_slot(struct world *w, kvl_request id)
{
  struct test_slot *s = &w->slot[id];
  struct kvl_err err;
  uint32_t most = 12 * w->config.page_tokens;
  most = most < 500 ? most : 500;
  s->open = true;
  s->tokens = below(w, most);
  memset(s->unnamed, 0, sizeof s->unnamed);
  for (uint32_t page = 0; page < PAGES; page++) {
    s->map[page] = KVL_NONE;
  }
  EXPECT(kvl_refdev_open(w->dev, id, s->tokens, &err) == 0);
  EXPECT(kvl_bytes_open(w->bytes, id, ++w->next_session, s->tokens, &err) == 0);
  for (uint32_t c = 0; c < w->config.caches; c++) {
    struct kvl_cache_bases bases;
    kvl_layout_bases(&w->layout, &w->config, id, c, &bases);
    oracle_init(&s->oracle[c], &w->layout.geometry[c], &bases);
    uint32_t tpr = w->config.cache[c].tokens_per_row, whole = s->tokens / w->config.page_tokens * (w->config.page_tokens / tpr);
    EXPECT(oracle_load(&s->oracle[c], (kvl_row)whole) == 0);
    EXPECT(oracle_scratch(&s->oracle[c], s->tokens / tpr - whole) == 0);
    EXPECT(oracle_commit(&s->oracle[c], s->tokens / tpr - whole) == 0);
    s->oracle[c].frame_of_page = s->map;
    s->oracle[c].pages = PAGES;
  }
}

static void close_slot(struct world *w, kvl_request id)
{
  struct test_slot *s = &w->slot[id];
  s->open = false;
  for (uint32_t page = 0; page < PAGES; page++) {
    if (s->map[page] != KVL_NONE) {
      w->frame_used[s->map[page]] = false;
    }
  }
  for (uint32_t i = 0; i < w->config.bank_rows; i++) {
    w->wanted.prefetch.unused += s->unnamed[i];
  }
  for (uint32_t c = 0; c < w->config.caches; c++) {
    oracle_deinit(&s->oracle[c]);
  }
  kvl_refdev_close(w->dev, id);
  kvl_bytes_close(w->bytes, id);
}

/* Pages come and go; their frames hold what the host has. */
static void change_map(struct world *w, kvl_request id)
{
  struct test_slot *s = &w->slot[id];
  uint32_t whole = s->tokens / w->config.page_tokens;
  for (uint32_t n = below(w, 4); whole > 0 && n > 0; n--) {
    uint32_t page = below(w, whole < PAGES ? whole : PAGES), frame = below(w, FRAMES);
    if (s->map[page] != KVL_NONE) {
      w->frame_used[s->map[page]] = false;
      s->map[page] = KVL_NONE;
    } else if (!w->frame_used[frame]) {
      struct kvl_move move = {.kind = below(w, 2) == 0 ? KVL_MOVE_GIVE : KVL_MOVE_KEEP, .request = id, .page = (kvl_page)page, .frame = (kvl_frame)frame};
      kvl_bytes_pages(w->bytes, &move, 1);
      w->frame_used[frame] = true;
      s->map[page] = (kvl_frame)frame;
    }
  }
}

static void step_slot(struct world *w, kvl_request id)
{
  struct test_slot *s = &w->slot[id];
  struct kvl_step_item item = {.slot = id, .tokens = s->tokens, .queries = 1 + below(w, Q), .page_map = s->map, .pages = PAGES, .whole = below(w, 4) == 0};
  item.commit = 1 + below(w, item.queries);
  for (uint32_t p = 0; p < w->config.points; p++) {
    draw_rows(w, s, &item, p);
  }
  for (uint32_t i = 0; i < w->config.stage_count; i++) {
    if (w->stages[i].kind == KVL_STAGE_ANNOUNCE) {
      draw_pools(w, s, &item, w->stages[i].point);
    }
  }
  s->next_resolve = 0;
  queries_now = item.queries;
  item_now = &item;
  static struct kvl_refdev_counts counts;
  memset(&counts, 0, sizeof counts);
  memset(&w->wanted.point, 0, sizeof w->wanted.point);
  kvl_bytes_step(w->bytes, &item);
  kvl_refdev_item(w->dev, 0, &item, &hooks, w, &counts);
  kvl_refdev_price_copies(w->dev, &item, 1, 10);
  for (uint32_t c = 0; c < w->config.caches; c++) { /* the group's end was before; the commit comes last */
    struct oracle *o = &s->oracle[c];
    uint32_t tpr = w->config.cache[c].tokens_per_row, rows = (item.tokens + item.commit) / tpr - item.tokens / tpr, in_tail = 0;
    if (w->config.cache[c].bank) {
      oracle_end_group(o);
    }
    for (uint32_t i = 0; i < o->g.tail_rows; i++) {
      in_tail += o->tail[i] != KVL_NONE;
    }
    if (in_tail + rows > o->g.tail_rows) {
      EXPECT(oracle_written_back(o, in_tail + rows - o->g.tail_rows) == 0);
    }
    EXPECT(oracle_commit(o, rows) == 0);
  }
  s->tokens += item.commit;
  for (uint32_t p = 0; p < w->config.points; p++) {
    EXPECT(memcmp(counts.point[p].lanes, w->wanted.point[p].lanes, sizeof counts.point[p].lanes) == 0);
    EXPECT(counts.point[p].fetched == w->wanted.point[p].fetched && counts.point[p].overflow == w->wanted.point[p].overflow);
    EXPECT(counts.point[p].violations == 0);
  }
  kvl_refdev_given_up(w->dev, &counts.prefetch);
  EXPECT(counts.prefetch.unused_link_ns == 10 * counts.prefetch.unused);
  counts.prefetch.unused_link_ns = 0;
  EXPECT(counts.shared_lanes == w->wanted.shared_lanes && counts.announced_runs == w->wanted.announced_runs);
  EXPECT(memcmp(&counts.prefetch, &w->wanted.prefetch, sizeof counts.prefetch) == 0);
  memset(&w->wanted, 0, sizeof w->wanted);
}

static int play(uint64_t seed, uint64_t *rows, uint64_t *copied)
{
  struct world *w = calloc(1, sizeof *w);
  struct kvl_err err = {""};
  if (w == NULL) {
    abort();
  }
  w->seed = seed;
  kvl_rng_init(&w->rng, seed, "refdev", 0);
  draw_model(w);
  if (kvl_layout_init(&w->layout, &w->config, &err) != 0 || kvl_refdev_create(&w->dev, &w->config, &err) != 0 ||
      kvl_bytes_create(&w->bytes, w->dev, 2048, &err) != 0) {
    printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
    abort();
  }
  for (uint32_t step = 0; step < STEPS; step++) {
    kvl_request id = below(w, SLOTS);
    if (!w->slot[id].open) {
      open_slot(w, id);
      check_slot(w, id);
    }
    change_map(w, id);
    uint64_t before = w->wanted.prefetch.copied;
    step_slot(w, id);
    *copied += w->slot[id].copy_count - before;
    w->slot[id].copy_count = 0;
    check_slot(w, id);
    if (below(w, 8) == 0 || w->slot[id].tokens + Q >= PAGES * w->config.page_tokens) {
      close_slot(w, id); /* an end or an abort: no difference to the device */
    }
    EXPECT(kvl_refdev_verify(w->dev, &err) == 0);
  }
  for (kvl_request id = 0; id < SLOTS; id++) {
    if (w->slot[id].open) {
      close_slot(w, id);
    }
  }
  uint64_t checked = 0, mismatches = 0;
  kvl_bytes_checked(w->bytes, &checked, &mismatches);
  EXPECT(mismatches == 0);
  *rows += checked;
  int failed = w->failed != 0;
  kvl_bytes_destroy(w->bytes);
  kvl_refdev_destroy(w->dev);
  free(w);
  return failed;
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, worlds = argc > 2 ? strtoull(argv[2], NULL, 10) : 400, rows = 0, copied = 0;
  int failed = 0;
  printf("seed %llu, %llu worlds\n", (unsigned long long)seed, (unsigned long long)worlds);
  for (uint64_t i = 0; i < worlds; i++) {
    failed += play(seed + i, &rows, &copied);
  }
  printf("%d of %llu failed; %llu rows read back, %llu copied into banks\n", failed, (unsigned long long)worlds, (unsigned long long)rows,
         (unsigned long long)copied);
  return failed == 0 && copied != 0 ? 0 : 1;
}
