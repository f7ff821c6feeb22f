#include "sim/model.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

uint64_t kvl_page_bytes(const struct kvl_scenario *scenario)
{
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < scenario->model.caches; i++) {
    const struct kvl_model_cache *cache = &scenario->model.cache[i];
    bytes += (uint64_t)(scenario->policy.page_tokens / cache->tokens_per_row) * cache->row_bytes;
  }
  return bytes;
}

uint32_t kvl_queries_max(const struct kvl_scenario *s)
{
  return s->speculation.method == KVL_SPECULATION_NONE ? 1 : s->speculation.drafts + 1;
}

uint64_t kvl_speculation_bytes(const struct kvl_scenario *s)
{
  return s->speculation.method == KVL_SPECULATION_NONE ? 0
                                                       : s->speculation.weights_bytes + s->speculation.graph_bytes + s->speculation.scratch_bytes;
}

uint64_t kvl_pool_bytes(const struct kvl_scenario *s)
{
  uint64_t taken = kvl_speculation_bytes(s);
  return s->node.kv_pool_bytes > taken ? s->node.kv_pool_bytes - taken : 0;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
  return unit == 0 ? value : (value + unit - 1) / unit * unit;
}

void kvl_session_bytes(const struct kvl_scenario *scenario, uint64_t tokens, struct kvl_session_bytes *bytes)
{
  const struct kvl_model *model = &scenario->model;
  uint64_t page = kvl_page_bytes(scenario);
  uint64_t pages = (tokens + scenario->policy.page_tokens - 1) / scenario->policy.page_tokens;
  *bytes = (struct kvl_session_bytes){.window = model->window_bytes,
                                      .whole = (tokens * model->whole_bytes_per_token_q8 + 255) / 256,
                                      .maps = pages * KVL_MAP_ENTRY_BYTES};
  uint32_t k_max[KVL_CACHES_MAX] = {0};
  uint32_t bank_cache = KVL_CACHES_MAX;
  for (uint32_t i = 0; i < model->selection.points; i++) {
    const struct kvl_selection_point *point = &model->selection.point[i];
    k_max[point->cache] = point->k > k_max[point->cache] ? point->k : k_max[point->cache];
    if (model->pool_blocks > 0 && point->layer == model->pool_layer) {
      bank_cache = point->cache;
    }
  }
  for (uint32_t i = 0; i < model->caches; i++) {
    const struct kvl_model_cache *cache = &model->cache[i];
    uint64_t per_row = cache->tokens_per_row;
    uint64_t rows = (tokens + per_row - 1) / per_row; /* a group that is still open has its place */
    uint64_t bank_rows = i == bank_cache ? scenario->policy.bank_rows : 0;
    uint64_t commit_rows = (KVL_VERIFY_TOKENS_MAX + per_row - 1) / per_row + 1;
    bytes->rows += rows * cache->row_bytes;
    bytes->index += rows * cache->index_key_bytes;
    bytes->maps += rows * KVL_MAP_ENTRY_BYTES + (uint64_t)scenario->policy.hot_rows * KVL_HOT_STATE_BYTES + bank_rows * KVL_MAP_ENTRY_BYTES;
    bytes->hot += (uint64_t)scenario->policy.hot_rows * cache->row_bytes;
    bytes->bank += bank_rows * cache->row_bytes;
    bytes->tail += (scenario->policy.tail_tokens + per_row - 1) / per_row * cache->row_bytes;
    bytes->scratch += (commit_rows + (uint64_t)k_max[i] * kvl_queries_max(scenario)) * cache->row_bytes;
  }
  bytes->host = bytes->rows;
  if (scenario->speculation.method != KVL_SPECULATION_NONE) {
    bytes->draft = scenario->speculation.state_bytes + (tokens * scenario->speculation.state_bytes_per_token_q8 + 255) / 256;
  }
  uint64_t both = round_up(bytes->index, page) + round_up(bytes->whole, page) + round_up(bytes->window, page) + round_up(bytes->draft, page);
  bytes->fixed = both + round_up(bytes->maps, page) + round_up(bytes->hot, page) + round_up(bytes->bank, page) + round_up(bytes->tail, page) +
                 round_up(bytes->scratch, page);
  bytes->resident = both + pages * page;
}

uint64_t kvl_curve_at(const struct kvl_curve *curve, uint64_t x, bool *outside)
{
  if (curve->n == 0) {
    return 0;
  }
  bool low = x < curve->x[0], high = x > curve->x[curve->n - 1];
  if (outside != NULL && (low || high)) {
    *outside = true;
  }
  if (low || curve->n == 1) {
    return curve->y[0];
  }
  uint32_t i = 1;
  while (i + 1 < curve->n && x > curve->x[i]) {
    i++;
  }
  uint64_t width = curve->x[i] - curve->x[i - 1], way = x - curve->x[i - 1];
  uint64_t from = curve->y[i - 1], to = curve->y[i];
  if (to >= from) {
    wide y = from + ((wide)(to - from) * way + width / 2) / width;
    return y > UINT64_MAX ? UINT64_MAX : (uint64_t)y;
  }
  wide fall = ((wide)(from - to) * way + width / 2) / width;
  return fall >= from ? 1 : from - (uint64_t)fall; /* past the end a falling curve stops at 1: rates divide */
}

bool kvl_costs_suit_model(const struct kvl_scenario *s)
{
  return strncmp(s->model.name, s->costs.model, strlen(s->costs.model)) == 0;
}

/* `name` is `part`, or `part` and more after a point. */
static bool is_part(const char *name, const char *part)
{
  size_t length = strlen(part);
  char after = strncmp(name, part, length) == 0 ? name[length] : 'x';
  return length == 0 || after == '\0' || after == '.';
}

bool kvl_costs_suit_hardware(const struct kvl_scenario *s)
{
  return is_part(s->hardware.name, s->costs.hardware) || is_part(s->hardware.part, s->costs.hardware);
}

bool kvl_model_want_pool(struct kvl_model *m)
{
  uint32_t announcing = KVL_POINTS_MAX;
  bool later = false;
  for (uint32_t i = 0; i < m->selection.points; i++) {
    const struct kvl_selection_point *point = &m->selection.point[i];
    if (point->layer == m->pool_layer && announcing == KVL_POINTS_MAX) {
      announcing = i;
    }
    later = later || (announcing != KVL_POINTS_MAX && point->layer > m->pool_layer && point->cache == m->selection.point[announcing].cache);
  }
  if (!later || m->pool_blocks == 0 || m->pool_rows_per_block == 0) {
    return false;
  }
  m->selection.pool.point = (uint16_t)announcing;
  m->selection.pool.blocks = m->pool_blocks;
  m->selection.pool.rows_per_block = m->pool_rows_per_block;
  return true;
}

const char *kvl_mode_label(const struct kvl_scenario *s, char text[KVL_LABEL_MAX])
{
  bool drafts = s->speculation.method != KVL_SPECULATION_NONE;
  (void)snprintf(text, KVL_LABEL_MAX, "%s%s%s", kvl_mode_name(s->mode), drafts ? "+" : "",
                 !drafts ? "" : s->speculation.name[0] != '\0' ? s->speculation.name : "dspark");
  return text;
}

const char *const kvl_mode_names[] = {[KVL_MODE_RESIDENT] = "resident", [KVL_MODE_FIXED] = "fixed", [KVL_MODE_ADAPTIVE] = "adaptive", NULL};

const char *kvl_mode_name(enum kvl_mode mode)
{
  return kvl_mode_names[mode];
}
