/* Derived sizes of a session, and curves. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario.h"
#include "tests/base/tap.h"

static struct kvl_scenario_doc *load(const char *const *sets, unsigned count)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, count, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  return doc;
}

START_TEST(published_session)
{
  struct kvl_scenario_doc *doc = load(NULL, 0);
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  struct kvl_session_bytes b;
  kvl_session_bytes(s, 500800, &b);
  ck_assert_uint_eq(kvl_page_bytes(s), 64 * 720);
  ck_assert_uint_eq(b.rows, 500800ull * 720);
  ck_assert_uint_eq(b.index, 500800ull * 170);
  ck_assert_uint_eq(b.whole, 0);
  ck_assert_uint_eq(b.window, 40ull * 128 * 528);
  ck_assert_uint_eq(b.host, b.rows);
  ck_assert_uint_eq(b.maps, 7825ull * 4 + (3 * 250400ull + 500800) * 4 + 4ull * s->policy.hot_rows * 8 + s->policy.bank_rows * 4ull);
  ck_assert_uint_eq(b.hot, 4ull * s->policy.hot_rows * 288);
  ck_assert_uint_eq(b.bank, s->policy.bank_rows * 288ull);
  ck_assert_uint_eq(b.tail, (3 * 128ull + 256) * 288);
  ck_assert_uint_eq(b.scratch, (3 * (4 + 1 + 512ull) + 8 + 1 + 512) * 288);
  /* P01: 46 resident sessions fit one decode GPU, and no more */
  uint64_t frames = s->node.kv_pool_bytes / kvl_page_bytes(s);
  ck_assert_uint_eq(frames / (b.resident / kvl_page_bytes(s)), 46);
  /* the fixed parts would let in more than twice the published 82 */
  ck_assert_uint_ge(frames / (b.fixed / kvl_page_bytes(s)), 164);
  kvl_scenario_free(doc);
}
END_TEST

/* What speculation takes: once a GPU, of every session in every mode, and room for the rows that six queries may miss. */
START_TEST(session_with_drafts)
{
  static const char *const sets[] = {"speculation.method=dspark", "speculation.weights_bytes=1000000", "speculation.graph_bytes=200000", "speculation.scratch_bytes=30000",
                                     "speculation.state_bytes=4000", "speculation.state_bytes_per_token=100.5"};
  struct kvl_scenario_doc *plain = load(NULL, 0), *doc = load(sets, 6);
  const struct kvl_scenario *s = kvl_scenario_of(doc), *without = kvl_scenario_of(plain);
  struct kvl_session_bytes b, p;
  kvl_session_bytes(s, 1001, &b);
  kvl_session_bytes(without, 1001, &p);
  uint64_t page = kvl_page_bytes(s);
  ck_assert_uint_eq(kvl_queries_max(s), 6);
  ck_assert_uint_eq(kvl_queries_max(without), 1);
  ck_assert_uint_eq(kvl_speculation_bytes(s), 1230000);
  ck_assert_uint_eq(kvl_speculation_bytes(without), 0);
  ck_assert_uint_eq(kvl_pool_bytes(s), s->node.kv_pool_bytes - 1230000);
  ck_assert_uint_eq(kvl_pool_bytes(without), s->node.kv_pool_bytes);
  ck_assert_uint_eq(b.draft, 4000 + 100601); /* 100,600.5 */
  ck_assert_uint_eq(p.draft, 0);
  ck_assert_uint_eq(b.scratch, p.scratch + 4 * 5 * 512 * 288);
  ck_assert_uint_eq(b.resident, p.resident + (b.draft + page - 1) / page * page);
  ck_assert_uint_eq(b.host, p.host);
  char label[KVL_LABEL_MAX];
  ck_assert_str_eq(kvl_mode_label(s, label), "adaptive+dspark");
  ck_assert_str_eq(kvl_mode_label(without, label), "adaptive");
  kvl_scenario_free(doc);
  kvl_scenario_free(plain);
}
END_TEST

START_TEST(reservations_are_whole_frames)
{
  static const char *const sets[] = {"policy.page_tokens=2", "policy.hot_rows=1", "policy.bank_rows=0", "policy.tail_tokens=3"};
  struct kvl_scenario_doc *doc = load(sets, 4);
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  uint64_t page = kvl_page_bytes(s), before[2] = {0, 0};
  ck_assert_uint_eq(page, 3 * 288 + 2 * 288);
  for (uint64_t tokens = 0; tokens < 300; tokens++) {
    struct kvl_session_bytes b;
    kvl_session_bytes(s, tokens, &b);
    uint64_t pairs = (tokens + 1) / 2;
    ck_assert_uint_eq(b.rows, (3 * pairs + tokens) * 288);
    ck_assert_uint_eq(b.index, (3 * pairs + tokens) * 68);
    const uint64_t small[] = {b.index, b.whole, b.window, b.maps, b.hot, b.bank, b.tail, b.scratch};
    uint64_t fixed = 0;
    for (int i = 0; i < 8; i++) {
      fixed += (small[i] + page - 1) / page * page;
    }
    ck_assert_uint_eq(b.fixed, fixed);
    ck_assert_uint_eq(b.resident, pairs * page + (b.index + page - 1) / page * page + (b.window + page - 1) / page * page);
    ck_assert_uint_ge(b.resident, b.rows);
    ck_assert(b.fixed >= before[0] && b.resident >= before[1]); /* never less for one token more */
    before[0] = b.fixed;
    before[1] = b.resident;
  }
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(bank_belongs_to_the_announcing_cache)
{
  static const char *const none[] = {"policy.bank_rows=100", "model.pool_blocks=0"};
  static const char *const first[] = {"policy.bank_rows=100", "model.pool_layer=2", "model.caches.0.row_bytes=576"};
  struct kvl_session_bytes b;
  struct kvl_scenario_doc *doc = load(none, 2);
  kvl_session_bytes(kvl_scenario_of(doc), 1000, &b);
  ck_assert_uint_eq(b.bank, 0);
  kvl_scenario_free(doc);
  doc = load(first, 3);
  kvl_session_bytes(kvl_scenario_of(doc), 1000, &b);
  ck_assert_uint_eq(b.bank, 100 * 576);
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(curve)
{
  struct kvl_curve c = {.n = 3, .x = {10, 20, 40}, .y = {100, 200, 160}};
  bool outside = false;
  ck_assert_uint_eq(kvl_curve_at(&c, 10, &outside), 100);
  ck_assert_uint_eq(kvl_curve_at(&c, 15, &outside), 150);
  ck_assert_uint_eq(kvl_curve_at(&c, 20, &outside), 200);
  ck_assert_uint_eq(kvl_curve_at(&c, 21, &outside), 198);
  ck_assert_uint_eq(kvl_curve_at(&c, 40, &outside), 160);
  ck_assert(!outside);
  ck_assert_uint_eq(kvl_curve_at(&c, 50, &outside), 140); /* last slope */
  ck_assert(outside);
  ck_assert_uint_eq(kvl_curve_at(&c, 50, NULL), 140);
  ck_assert_uint_eq(kvl_curve_at(&c, 1000000, NULL), 1); /* never 0: rates divide */
  outside = false;
  ck_assert_uint_eq(kvl_curve_at(&c, 9, &outside), 100); /* flat */
  ck_assert(outside);
  ck_assert_uint_eq(kvl_curve_at(&c, 0, NULL), 100);
  c.n = 1;
  outside = false;
  ck_assert_uint_eq(kvl_curve_at(&c, 10, &outside), 100);
  ck_assert(!outside);
  ck_assert_uint_eq(kvl_curve_at(&c, 99, &outside), 100);
  ck_assert(outside);
  c.n = 0;
  ck_assert_uint_eq(kvl_curve_at(&c, 5, NULL), 0);
  c = (struct kvl_curve){.n = 2, .x = {0, UINT64_MAX}, .y = {0, UINT64_MAX}};
  ck_assert_uint_eq(kvl_curve_at(&c, UINT64_MAX - 3, NULL), UINT64_MAX - 3);
  c = (struct kvl_curve){.n = 2, .x = {0, 1}, .y = {0, UINT64_MAX}};
  ck_assert_uint_eq(kvl_curve_at(&c, 9, NULL), UINT64_MAX);
}
END_TEST

KVL_TAP_MAIN("model", published_session, session_with_drafts, reservations_are_whole_frames, bank_belongs_to_the_announcing_cache, curve)
