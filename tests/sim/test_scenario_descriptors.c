/* Every shipped descriptor: it loads, and its bytes a token are the published ones. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "sim/dspark.h"
#include "sim/scenario_doc.h"
#include "tests/base/tap.h"

static struct kvl_scenario_doc *load(const char *model, const char *hardware, const char *costs)
{
  char sets[3][128];
  const char *list[] = {sets[0], sets[1], sets[2], "node.kv_pool_bytes=70e9", "node.host_pool_bytes=1e13", "workload.input_tokens=100000",
                        "workload.cached_tokens=0"};
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  (void)snprintf(sets[0], sizeof sets[0], "model=%s", model);
  (void)snprintf(sets[1], sizeof sets[1], "node.hardware=%s", hardware);
  (void)snprintf(sets[2], sizeof sets[2], "costs=%s", costs);
  int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", list, 7, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  return doc;
}

static const struct {
  const char *name;
  uint32_t layers, caches, points, k, readers; /* readers: reading layers in all */
  uint64_t bytes_per_token;                    /* rounded down as published */
} models[] = {
  {"deepseek-v4.1-flash", 40, 4, 8, 512, 38, 890},
  {"deepseek-v3.2", 61, 61, 61, 2048, 61, 48068},
  {"deepseek-v4-flash", 43, 21, 21, 512, 21, 3514},
  {"deepseek-v4-flash-key132", 43, 21, 21, 512, 21, 3850},
  {"deepseek-v4-pro", 61, 30, 30, 1024, 30, 5031},
  {"deepseek-v4-pro-key132", 61, 30, 30, 1024, 30, 5511},
  {"glm-5.1", 78, 78, 78, 2048, 78, 61464},
  {"glm-5.1-bf16", 78, 78, 78, 2048, 78, 78 * (1152 + 132)},
  {"glm-5.2", 78, 21, 21, 2048, 78, 53940},
  {"glm-5.3", 78, 21, 21, 2048, 78, 53940},
};
enum { MODELS = sizeof models / sizeof models[0] };

START_TEST(bytes_per_token)
{
  for (int i = 0; i < MODELS; i++) {
    struct kvl_scenario_doc *doc = load(models[i].name, "b300", "deepseek-v4.1-flash.b300");
    const struct kvl_model *m = &kvl_scenario_of(doc)->model;
    uint64_t q8 = m->whole_bytes_per_token_q8;
    uint32_t readers = 0;
    for (uint32_t c = 0; c < m->caches; c++) {
      q8 += (uint64_t)(m->cache[c].row_bytes + m->cache[c].index_key_bytes) * 256 / m->cache[c].tokens_per_row;
    }
    ck_assert_msg(q8 / 256 == models[i].bytes_per_token, "%s: %llu", models[i].name, (unsigned long long)(q8 / 256));
    ck_assert_str_eq(m->name, models[i].name);
    ck_assert_uint_eq(m->layers, models[i].layers);
    ck_assert_uint_eq(m->caches, models[i].caches);
    ck_assert_uint_eq(m->selection.caches, models[i].caches);
    ck_assert_uint_eq(m->selection.points, models[i].points);
    for (uint32_t p = 0; p < m->selection.points; p++) {
      const struct kvl_selection_point *point = &m->selection.point[p];
      ck_assert_uint_eq(point->k, models[i].k);
      ck_assert(p == 0 || point[-1].layer < point->layer);
      ck_assert_uint_ge(point->layer, m->cache[point->cache].written_layer);
      ck_assert_uint_eq(m->selection.tokens_per_row[point->cache], m->cache[point->cache].tokens_per_row);
      readers += m->readers[p];
    }
    ck_assert_uint_eq(readers, models[i].readers);
    ck_assert_uint_gt(strlen(m->source), 10);
    kvl_scenario_free(doc);
  }
}
END_TEST

START_TEST(glm_groups_of_four)
{
  struct kvl_scenario_doc *doc = load("glm-5.2", "b300", "glm-5.2.roofline");
  const struct kvl_model *m = &kvl_scenario_of(doc)->model;
  for (uint32_t p = 0; p < 21; p++) {
    uint32_t layer = p < 2 ? p : 2 + 4 * (p - 2);
    ck_assert_uint_eq(m->selection.point[p].layer, layer);
    ck_assert_uint_eq(m->readers[p], p < 2 ? 1 : 4);
    ck_assert_uint_eq(m->cache[m->selection.point[p].cache].row_bytes, p < 2 ? 656 : 4 * 656);
  }
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(v4_1_flash_points)
{
  static const uint32_t layers[] = {2, 8, 14, 20, 24, 28, 32, 36}, caches[] = {0, 1, 2, 3, 3, 3, 3, 3}, readers[] = {6, 6, 6, 4, 4, 4, 4, 4};
  struct kvl_scenario_doc *doc = load("deepseek-v4.1-flash", "b300", "deepseek-v4.1-flash.b300");
  const struct kvl_model *m = &kvl_scenario_of(doc)->model;
  for (uint32_t p = 0; p < 8; p++) {
    ck_assert_uint_eq(m->selection.point[p].layer, layers[p]);
    ck_assert_uint_eq(m->selection.point[p].cache, caches[p]);
    ck_assert_uint_eq(m->readers[p], readers[p]);
  }
  ck_assert_str_eq(m->cache[3].name, "D");
  ck_assert_uint_eq(m->window_bytes, 40 * 128 * 528);
  ck_assert_uint_eq(m->pool_layer, 20);
  ck_assert_uint_eq(m->pool_blocks * m->pool_rows_per_block, 16384);
  kvl_scenario_free(doc);
}
END_TEST

/* Whatever lies in the folders loads: also what somebody adds later. */
START_TEST(every_file_loads)
{
  static const char *const kinds[] = {"models", "hardware", "costs"};
  struct kvl_arena arena = {0};
  for (int kind = 0; kind < 3; kind++) {
    char folder[KVL_PATH_CAP];
    const char **names;
    unsigned count;
    (void)snprintf(folder, sizeof folder, "%s/%s", KVL_SCENARIOS, kinds[kind]);
    ck_assert_int_eq(kvl_scenario_names(&arena, folder, &names, &count, NULL), 0);
    ck_assert_uint_ge(count, kind == 0 ? MODELS : 5);
    for (unsigned i = 0; i < count; i++) {
      struct kvl_scenario_doc *doc = load(kind == 0 ? names[i] : "deepseek-v4.1-flash", kind == 1 ? names[i] : "b300",
                                          kind == 2 ? names[i] : "deepseek-v4.1-flash.b300");
      const struct kvl_scenario *s = kvl_scenario_of(doc);
      ck_assert_str_eq(kind == 0 ? s->model.name : kind == 1 ? s->hardware.name : s->costs.name, names[i]);
      kvl_scenario_free(doc);
    }
  }
  kvl_arena_free(&arena);
}
END_TEST

/* Every speculation, in its model's place or not: it loads, takes no more than the pool, and its curve gives what it says. */
START_TEST(every_speculation_loads)
{
  struct kvl_arena arena = {0};
  const char **names;
  unsigned count;
  ck_assert_int_eq(kvl_scenario_names(&arena, KVL_SCENARIOS "/speculation", &names, &count, NULL), 0);
  ck_assert_uint_ge(count, 4);
  for (unsigned i = 0; i < count; i++) {
    char set[128];
    const char *sets[] = {set};
    struct kvl_scenario_doc *doc = NULL;
    struct kvl_err err = {""};
    struct kvl_dspark_curve curve;
    (void)snprintf(set, sizeof set, "speculation=%s", names[i]);
    ck_assert_msg(kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, 1, &err) == 0, "%s", err.text);
    const struct kvl_scenario *s = kvl_scenario_of(doc);
    ck_assert_int_eq(s->speculation.method, KVL_SPECULATION_DSPARK);
    ck_assert_uint_gt(strlen(s->speculation.name), 0);
    ck_assert_uint_gt(strlen(s->speculation.source), 10);
    ck_assert_uint_lt(kvl_speculation_bytes(s), s->node.kv_pool_bytes / 10);
    ck_assert_msg(kvl_dspark_curve_of(&curve, s, &err) == 0, "%s", err.text);
    uint64_t mean = kvl_dspark_mean_milli(&curve, s->speculation.drafts), want = s->speculation.accepted_mean_milli;
    want = want != 0 ? want : s->speculation.accepted_lengths.n != 0 ? s->speculation.accepted_lengths.y[s->speculation.drafts - 1] : mean;
    ck_assert_uint_eq(mean, want);
    kvl_scenario_free(doc);
  }
  kvl_arena_free(&arena);
}
END_TEST

START_TEST(hardware_values)
{
  static const struct {
    const char *name;
    uint64_t hbm_gb, hbm_gb_per_s;
  } parts[] = {{"h100", 80, 3350}, {"h200", 141, 4800}, {"b200", 180, 7700}, {"b300", 288, 7750}, {"gb300", 288, 8000}};
  for (int i = 0; i < 5; i++) {
    struct kvl_scenario_doc *doc = load("deepseek-v4.1-flash", parts[i].name, "deepseek-v4.1-flash.roofline");
    const struct kvl_hardware *h = &kvl_scenario_of(doc)->hardware;
    ck_assert_uint_eq(h->hbm_bytes, parts[i].hbm_gb * 1000000000);
    ck_assert_uint_eq(h->hbm_bytes_per_s, parts[i].hbm_gb_per_s * 1000000000);
    ck_assert_uint_eq(kvl_curve_at(&h->link.rows_per_s, 8ull << 30, NULL), 41000000);
    ck_assert_uint_eq(kvl_curve_at(&h->link.rows_per_s, 1ull << 42, NULL), 32000000);
    kvl_scenario_free(doc);
  }
}
END_TEST

KVL_TAP_MAIN("scenario_descriptors", bytes_per_token, glm_groups_of_four, v4_1_flash_points, every_file_loads, every_speculation_loads, hardware_values)
