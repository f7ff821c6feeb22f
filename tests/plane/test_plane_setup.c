/* Stages and device shapes of the shipped models: who writes, selects, resolves and reads; with and without layer sharing; both forms of prefetch. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/plane_setup.h"
#include "sim/scenario.h"
#include "tests/base/tap.h"

static struct kvl_scenario scenario; /* large */
static struct kvl_plane_setup setup;
static struct kvl_err err;

static void load(const char *model)
{
  char set[64];
  const char *sets[] = {set, "node.hardware=b300", "node.kv_pool_bytes=70e9", "node.host_pool_bytes=1e13", "workload.input_tokens=100000",
                        "workload.cached_tokens=0", "policy.bank_rows=16384"};
  struct kvl_scenario_doc *doc = NULL;
  (void)snprintf(set, sizeof set, "model=%s", model);
  err.text[0] = '\0';
  int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, 7, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  scenario = *kvl_scenario_of(doc);
  kvl_scenario_free(doc);
}

static uint32_t count(enum kvl_stage_kind kind)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < setup.stage_count; i++) {
    n += setup.stages[i].kind == kind;
  }
  return n;
}

static void build(void)
{
  ck_assert_msg(kvl_plane_setup_init(&setup, &scenario, true, &err) == 0, "%s", err.text);
  ck_assert_uint_eq(count(KVL_STAGE_WRITE), setup.device.caches);
  ck_assert_uint_eq(count(KVL_STAGE_RESOLVE), setup.device.points);
  ck_assert_uint_eq(count(KVL_STAGE_COMPUTE), scenario.model.layers);
}

/* Addresses hold until the cache is selected from again, and rows are written before anyone looks for them. */
static void check_order(void)
{
  uint16_t served_by[KVL_REFDEV_CACHES];
  bool written[KVL_REFDEV_CACHES] = {false};
  memset(served_by, 0xff, sizeof served_by);
  uint32_t layer = 0;
  for (uint32_t i = 0; i < setup.stage_count; i++) {
    const struct kvl_stage *s = &setup.stages[i];
    ck_assert_uint_eq(s->layer, layer);
    switch (s->kind) {
    case KVL_STAGE_WRITE:
      written[s->cache] = true;
      break;
    case KVL_STAGE_RESOLVE:
      ck_assert(written[s->cache]);
      served_by[s->cache] = s->point;
      break;
    case KVL_STAGE_READ:
      ck_assert_uint_eq(served_by[s->cache], s->point);
      break;
    case KVL_STAGE_COMPUTE:
      layer++;
      break;
    case KVL_STAGE_WAIT:
    case KVL_STAGE_ANNOUNCE:
    case KVL_STAGE_END_GROUP:
    case KVL_STAGE_REPLAY:
      break;
    }
  }
}

static const struct {
  const char *name;
  uint32_t layers, caches, selections, readers, caches_off, points_off;
} models[] = {
  {"deepseek-v4.1-flash", 40, 4, 8, 38, 4, 38}, {"deepseek-v3.2", 61, 61, 61, 61, 61, 61}, {"deepseek-v4-flash", 43, 21, 21, 21, 21, 21},
  {"deepseek-v4-pro", 61, 30, 30, 30, 30, 30},  {"glm-5.1", 78, 78, 78, 78, 78, 78},       {"glm-5.2", 78, 21, 21, 78, 78, 78},
};
enum { MODELS = sizeof models / sizeof models[0] };

START_TEST(what_shares)
{
  for (int i = 0; i < MODELS; i++) {
    load(models[i].name);
    build();
    check_order();
    ck_assert_uint_eq(scenario.model.layers, models[i].layers);
    ck_assert_uint_eq(setup.device.caches, models[i].caches);
    ck_assert_uint_eq(setup.device.points, models[i].selections);
    ck_assert_uint_eq(count(KVL_STAGE_READ), models[i].readers);
    ck_assert_uint_eq(count(KVL_STAGE_WAIT) + count(KVL_STAGE_ANNOUNCE) + count(KVL_STAGE_END_GROUP) + count(KVL_STAGE_REPLAY), 0);
    uint64_t row_bytes = 0, off = 0;
    for (uint32_t c = 0; c < setup.device.caches; c++) {
      row_bytes += setup.device.cache[c].row_bytes / setup.device.cache[c].tokens_per_row;
    }
    scenario.policy.layer_sharing = KVL_SHARING_OFF;
    build();
    check_order();
    ck_assert_uint_eq(setup.device.caches, models[i].caches_off);
    ck_assert_uint_eq(setup.device.points, models[i].points_off);
    ck_assert_uint_eq(count(KVL_STAGE_READ), models[i].readers);
    for (uint32_t c = 0; c < setup.device.caches; c++) {
      off += setup.device.cache[c].row_bytes / setup.device.cache[c].tokens_per_row;
    }
    ck_assert_uint_eq(off, row_bytes); /* the same bytes in all */
    for (uint32_t p = 0; p < setup.device.points; p++) { /* each look-up has the rows of a selection that its layer reads */
      const struct kvl_selection_point *of = &scenario.model.selection.point[setup.device.point[p].selection];
      ck_assert_uint_eq(setup.device.point[p].k, of->k);
      ck_assert_uint_ge(setup.model.point[p].layer, of->layer);
      ck_assert_uint_lt(setup.model.point[p].layer, of->layer + scenario.model.readers[setup.device.point[p].selection]);
      ck_assert_uint_eq(setup.model.point[p].readers, 1);
    }
  }
}
END_TEST

static uint32_t find(enum kvl_stage_kind kind, uint32_t number)
{
  for (uint32_t i = 0; i < setup.stage_count; i++) {
    if (setup.stages[i].kind == kind && number-- == 0) {
      return i;
    }
  }
  return UINT32_MAX;
}

/* Resident mode: a page table's look-ups, one a selection, whatever the policy's keys say. */
START_TEST(resident_mode)
{
  for (int i = 0; i < MODELS; i++) {
    load(models[i].name);
    scenario.mode = KVL_MODE_RESIDENT;
    scenario.policy.layer_sharing = KVL_SHARING_OFF;
    scenario.policy.prefetch = KVL_PREFETCH_PLAN;
    build();
    check_order();
    ck_assert_uint_eq(setup.device.caches, models[i].caches);
    ck_assert_uint_eq(setup.device.points, models[i].selections);
    ck_assert_uint_eq(count(KVL_STAGE_READ), models[i].readers);
    ck_assert_uint_eq(count(KVL_STAGE_WAIT) + count(KVL_STAGE_ANNOUNCE) + count(KVL_STAGE_END_GROUP) + count(KVL_STAGE_REPLAY), 0);
    ck_assert_uint_eq(setup.device.hot_rows + setup.device.bank_rows, 0);
    ck_assert_uint_gt(scenario.policy.hot_rows, 0);
  }
}
END_TEST

/* Layer 20 selects, then announces; 24 waits before it selects; the group ends with 36. Only that cache has a bank. */
START_TEST(pool_of_v41)
{
  load("deepseek-v4.1-flash");
  ck_assert(kvl_model_want_pool(&scenario.model));
  scenario.policy.prefetch = KVL_PREFETCH_POOL;
  build();
  check_order();
  uint32_t announce = find(KVL_STAGE_ANNOUNCE, 0), wait = find(KVL_STAGE_WAIT, 0), end = find(KVL_STAGE_END_GROUP, 0);
  ck_assert_uint_eq(count(KVL_STAGE_ANNOUNCE), 1);
  ck_assert_uint_eq(count(KVL_STAGE_WAIT), 1);
  ck_assert_uint_eq(count(KVL_STAGE_END_GROUP), 1);
  ck_assert_uint_eq(setup.stages[announce].layer, 20);
  ck_assert_uint_eq(setup.stages[announce - 1].kind, KVL_STAGE_RESOLVE);
  ck_assert_uint_eq(setup.stages[announce - 1].point, setup.stages[announce].point);
  ck_assert_uint_eq(setup.stages[wait].layer, 24);
  ck_assert_uint_eq(setup.stages[wait + 1].kind, KVL_STAGE_RESOLVE);
  ck_assert_uint_eq(setup.stages[end].layer, 36);
  ck_assert_uint_eq(setup.stages[end - 1].kind, KVL_STAGE_RESOLVE);
  for (uint32_t c = 0; c < setup.device.caches; c++) {
    ck_assert_int_eq(setup.device.cache[c].bank, c == 3);
  }
  ck_assert_uint_eq(setup.device.pool_blocks, 2048);
  ck_assert_uint_eq(setup.device.pool_rows_per_block, 8);

  scenario.policy.layer_sharing = KVL_SHARING_OFF; /* layer 21 looks the announcing selection's rows up again: some may be on their way by then */
  build();
  ck_assert_uint_eq(setup.stages[find(KVL_STAGE_WAIT, 0)].layer, 21);
  ck_assert_uint_eq(setup.stages[find(KVL_STAGE_ANNOUNCE, 0)].layer, 20);
  ck_assert_uint_eq(setup.stages[find(KVL_STAGE_END_GROUP, 0)].layer, 39);
}
END_TEST

/* GLM-5.2: 19 groups of four layers, each with its own part of a row of 4 x 656 bytes. */
START_TEST(plan_of_glm)
{
  load("glm-5.2");
  scenario.policy.prefetch = KVL_PREFETCH_PLAN;
  build();
  check_order();
  ck_assert_uint_eq(count(KVL_STAGE_REPLAY), 19);
  ck_assert_uint_eq(count(KVL_STAGE_WAIT), 19 * 3);
  for (uint32_t i = 0; i < setup.stage_count; i++) {
    const struct kvl_stage *s = &setup.stages[i];
    uint32_t parts = setup.device.cache[s->cache].parts;
    if (s->kind == KVL_STAGE_WAIT) {
      ck_assert_uint_eq(setup.stages[i + 1].kind, KVL_STAGE_READ);
      ck_assert_uint_eq(setup.stages[i + 1].part, s->part);
      ck_assert_uint_eq(s->layer, setup.model.point[s->point].layer + s->part);
    } else if (s->kind == KVL_STAGE_REPLAY) {
      ck_assert_uint_eq(setup.stages[i - 1].kind, KVL_STAGE_RESOLVE);
      ck_assert_uint_eq(setup.stages[i - 1].point, s->point);
      ck_assert_uint_eq(parts, 4);
      ck_assert_uint_eq(setup.device.cache[s->cache].row_bytes / parts, 656);
    } else if (s->kind == KVL_STAGE_READ) {
      ck_assert_uint_eq(s->part, parts > 1 ? s->layer - setup.model.point[s->point].layer : 0);
    }
  }
}
END_TEST

static void refused(const char *says)
{
  ck_assert_int_eq(kvl_plane_setup_init(&setup, &scenario, true, &err), -EINVAL);
  ck_assert_msg(strstr(err.text, says) != NULL, "\"%s\" does not say \"%s\"", err.text, says);
}

START_TEST(what_cannot_be)
{
  load("deepseek-v3.2");
  scenario.policy.prefetch = KVL_PREFETCH_POOL;
  refused("announces no pool");
  scenario.policy.prefetch = KVL_PREFETCH_PLAN;
  refused("no cache of the model has a part");
  load("glm-5.2");
  scenario.policy.prefetch = KVL_PREFETCH_PLAN;
  scenario.policy.layer_sharing = KVL_SHARING_OFF;
  refused("without layer sharing");
  load("deepseek-v4.1-flash");
  ck_assert(kvl_model_want_pool(&scenario.model));
  scenario.policy.prefetch = KVL_PREFETCH_POOL;
  scenario.policy.bank_rows = 0;
  refused("there is no bank");
  scenario.policy.prefetch = KVL_PREFETCH_NONE;
  scenario.policy.layer_sharing = KVL_SHARING_OFF;
  scenario.model.layers = 256;
  scenario.model.readers[0] = 200;
  refused("more than 128 look-ups");
  load("glm-5.2");
  scenario.policy.layer_sharing = KVL_SHARING_OFF;
  scenario.model.layers = 256;
  for (uint32_t c = 0; c < scenario.model.caches; c++) {
    scenario.model.cache[c].layers = 8;
  }
  refused("more than 128 caches");
}
END_TEST

/* What a scenario file must not ask for gets one line that names the key. */
START_TEST(scenarios_refused)
{
  static const struct {
    const char *set[2];
    const char *says;
  } bad[] = {
    {{"policy.prefetch=pol", NULL}, "pool"},
    {{"policy.layer_sharing=none", NULL}, "on"},
    {{"policy.prefetch=pool", "policy.bank_rows=0"}, "policy.bank_rows: is 0, but policy.prefetch = pool copies into the bank (nearest: 16384"},
    {{"policy.prefetch=pool", "model=deepseek-v3.2"}, "deepseek-v3.2 announces no candidate pool"},
    {{"policy.prefetch=pool", "model=glm-5.2"}, "(nearest: \"plan\")"},
    {{"policy.prefetch=pool", "model.pool_layer=36"}, "announces no candidate pool that a later selection chooses from"},
    {{"policy.prefetch=pool", "model.pool_blocks=511"}, "model.pool_blocks: must hold the 512 rows that layer 20 selects"},
    {{"policy.prefetch=plan", NULL}, "no cache of deepseek-v4.1-flash has a part of its rows"},
    {{"model.caches.3.selections.1.readers=5", NULL}, "cache D: 5 layers read what layer 24 selects, but layer 28 selects anew"},
    {{"model.caches.0.layers=4", NULL}, "6 layers read a cache whose rows have a part for each of 4"},
    {{"model.caches.3.layers=4", NULL}, "a second selection from a cache whose rows have a part for each of 4"},
    {{"model.caches.0.layers=7", NULL}, "a row of 288 bytes does not part evenly into 7 layers"},
  };
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *sets[] = {bad[i].set[0], bad[i].set[1]};
    struct kvl_scenario_doc *doc = NULL;
    int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, bad[i].set[1] == NULL ? 1 : 2, &err);
    ck_assert_msg(rc == -EINVAL, "%s is taken", sets[0]);
    ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%s says \"%s\", not \"%s\"", sets[0], err.text, bad[i].says);
  }
}
END_TEST

/* A plane that resolves nothing has writes and compute only, whatever the policy says. */
START_TEST(without_selections)
{
  load("glm-5.2");
  scenario.policy.prefetch = KVL_PREFETCH_PLAN;
  ck_assert_int_eq(kvl_plane_setup_init(&setup, &scenario, false, &err), 0);
  ck_assert_uint_eq(setup.stage_count, 78 + 21);
}
END_TEST

KVL_TAP_MAIN("plane setup", what_shares, resident_mode, pool_of_v41, plan_of_glm, what_cannot_be, scenarios_refused, without_selections)
