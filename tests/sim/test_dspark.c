/* Acceptance of drafts: curves, scaling, published lengths, luck. The scheduler has a model test. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/dspark.h"
#include "sim/scenario.h"
#include "tests/base/tap.h"

static void within(double got, double want, double share)
{
  ck_assert_msg(fabs(got - want) <= share * fabs(want), "%.6g, not %.6g within %.3g", got, want, share);
}

START_TEST(shapes_are_the_figure)
{
  struct kvl_dspark_curve c;
  ck_assert_int_eq(kvl_dspark_shape(&c, "maths", 5), 0);
  within(c.conditional[0] * 0x1p-32, .905, 1e-6);
  within(c.conditional[4] * 0x1p-32, .888, 1e-6);
  ck_assert_int_eq(kvl_dspark_shape(&c, "chat", 7), 0);
  ck_assert_uint_eq(c.conditional[5], c.conditional[4]);
  double mean = 1, survival = 1;
  static const double chat[] = {.735, .738, .74, .745, .757, .757, .757};
  for (int i = 0; i < 7; i++) {
    survival *= chat[i];
    mean += survival;
  }
  within((double)kvl_dspark_mean_milli(&c, 7) / 1000, mean, 1e-3);
  ck_assert_uint_eq(kvl_dspark_mean_milli(&c, 0), 1000);
  ck_assert_int_eq(kvl_dspark_shape(&c, "poetry", 5), -EINVAL);
  ck_assert_int_eq(kvl_dspark_shape(&c, "code", KVL_DRAFTS_MAX + 1), -EINVAL);
}
END_TEST

START_TEST(scaling_meets_every_mean)
{
  static const char *const names[] = {"maths", "code", "chat"};
  for (uint32_t s = 0; s < 3; s++) {
    for (uint32_t drafts = 1; drafts <= KVL_DRAFTS_MAX; drafts++) {
      for (uint64_t mean = 1000; mean <= (drafts + 1) * 1000; mean += 137) {
        struct kvl_dspark_curve c, before;
        ck_assert_int_eq(kvl_dspark_shape(&c, names[s], drafts), 0);
        before = c;
        ck_assert_int_eq(kvl_dspark_scale(&c, mean), 0);
        ck_assert_uint_eq(kvl_dspark_mean_milli(&c, drafts), mean);
        for (uint32_t i = 1; i < drafts; i++) { /* its shape is kept: the order of any two positions */
          ck_assert((before.conditional[i] >= before.conditional[i - 1]) == (c.conditional[i] >= c.conditional[i - 1]) ||
                    c.conditional[i] == c.conditional[i - 1]);
        }
      }
      struct kvl_dspark_curve c;
      ck_assert_int_eq(kvl_dspark_shape(&c, names[s], drafts), 0);
      ck_assert_int_eq(kvl_dspark_scale(&c, 999), -ERANGE);
      ck_assert_int_eq(kvl_dspark_scale(&c, (drafts + 1) * 1000 + 1), -ERANGE);
      ck_assert_int_eq(kvl_dspark_scale(&c, (drafts + 1) * 1000), 0);
    }
  }
}
END_TEST

START_TEST(published_lengths)
{
  const struct kvl_curve kimi = {.n = 8, .x = {1, 2, 3, 4, 5, 6, 7, 8}, .y = {1840, 2450, 2870, 3220, 3440, 3540, 3780, 3880}};
  struct kvl_dspark_curve c;
  ck_assert_int_eq(kvl_dspark_lengths(&c, &kimi, 4), 0);
  for (uint32_t n = 1; n <= 4; n++) {
    ck_assert_uint_eq(kvl_dspark_mean_milli(&c, n), kimi.y[n - 1]);
  }
  ck_assert_int_eq(kvl_dspark_lengths(&c, &kimi, 7), 0);
  within((double)kvl_dspark_mean_milli(&c, 7), 3640, 0.001); /* what draft 7 adds beyond what draft 6 had does not exist: 0.1 and not 0.24 */
  const struct kvl_curve falls = {.n = 7, .x = {1, 2, 3, 4, 5, 6, 7}, .y = {1840, 2510, 3010, 3360, 3610, 3770, 3730}};
  ck_assert_int_eq(kvl_dspark_lengths(&c, &falls, 7), 0);
  ck_assert_uint_eq(c.conditional[6], 0);
  ck_assert_uint_eq(kvl_dspark_mean_milli(&c, 7), 3770);
  ck_assert_int_eq(kvl_dspark_lengths(&c, &falls, KVL_DRAFTS_MAX + 1), -EINVAL);
  const struct kvl_curve hole = {.n = 3, .x = {1, 3, 4}, .y = {1840, 2510, 3010}};
  ck_assert_int_eq(kvl_dspark_lengths(&c, &hole, 2), -EINVAL);
  ck_assert_int_eq(kvl_dspark_lengths(&c, &hole, 4), -EINVAL);
}
END_TEST

/* Tokens a step of sessions that verify everything, played by hand. */
static double played(const struct kvl_dspark_curve *curve, uint32_t spread, uint64_t seed, uint32_t sessions, double *confidence)
{
  struct kvl_dspark_luck luck;
  kvl_dspark_luck_init(&luck, seed, spread);
  uint64_t steps = 0, tokens = 0, drafts = 0;
  double sum = 0;
  for (uint32_t session = 0; session < sessions; session++) {
    for (uint32_t at = 500000; at < 500800; steps++) {
      uint32_t kept = 0, c;
      for (uint32_t k = 0; k < curve->drafts; k++) {
        bool ok = kvl_dspark_draw(&luck, curve, session, at + 1 + k, k, &c);
        kept += ok && kept == k;
        sum += c * 0x1p-32;
        drafts++;
      }
      at += kept + 1;
      tokens += kept + 1;
    }
  }
  *confidence = sum / (double)drafts;
  return (double)tokens / (double)steps;
}

START_TEST(the_mean_is_met)
{
  static const uint32_t spreads[] = {0, 300, 500, 1000};
  struct kvl_dspark_curve c;
  ck_assert_int_eq(kvl_dspark_shape(&c, "code", 5), 0);
  ck_assert_int_eq(kvl_dspark_scale(&c, 3100), 0);
  double mean = 0;
  for (uint32_t k = 0; k < 5; k++) {
    mean += c.conditional[k] * 0x1p-32 / 5;
  }
  for (int i = 0; i < 4; i++) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
      double confidence;
      within(played(&c, spreads[i], seed, 32, &confidence), 3.1, 0.03);
      within(confidence, mean, 0.01);
    }
  }
}
END_TEST

START_TEST(luck_belongs_to_the_token)
{
  struct kvl_dspark_curve c = {.drafts = 5, .conditional = {1u << 31, 1u << 31, 1u << 31, 1u << 31, 1u << 31}};
  struct kvl_dspark_luck luck, again, other;
  kvl_dspark_luck_init(&luck, 7, 400);
  kvl_dspark_luck_init(&again, 7, 400);
  kvl_dspark_luck_init(&other, 8, 400);
  uint32_t a, b, same = 0, kept = 0;
  for (uint32_t token = 0; token < 4000; token++) {
    bool first = kvl_dspark_draw(&luck, &c, 3, token, 0, &a), later = kvl_dspark_draw(&again, &c, 3, token, 4, &b);
    ck_assert(first == later && a == b);
    same += first == kvl_dspark_draw(&other, &c, 3, token, 0, &b);
    kept += first;
    ck_assert_uint_ge(a, (uint32_t)(0.299 * 0x1p32));
    ck_assert_uint_le(a, (uint32_t)(0.701 * 0x1p32));
  }
  within(kept, 2000, 0.06);
  within(same, 2000, 0.08); /* another seed is another luck */
  const struct kvl_dspark_curve edges = {.drafts = 2, .conditional = {0, UINT32_MAX}};
  for (uint32_t token = 0; token < 1000; token++) {
    ck_assert(!kvl_dspark_draw(&luck, &edges, 1, token, 0, &a));
    ck_assert(kvl_dspark_draw(&luck, &edges, 1, token, 1, &a));
  }
}
END_TEST

START_TEST(a_scenario_says_it)
{
  static struct kvl_scenario s;
  struct kvl_dspark d;
  struct kvl_err err;
  memset(&s, 0, sizeof s);
  s.speculation.method = KVL_SPECULATION_DSPARK;
  s.speculation.drafts = 5;
  s.speculation.accepted_mean_milli = 3100;
  memcpy(s.speculation.shape, "chat", 5);
  s.costs.compute = KVL_COMPUTE_LAW;
  s.costs.law_fixed_ns = 1000;
  s.costs.law_token_ns = 10;
  s.costs.draft_ns_by_requests = (struct kvl_curve){.n = 2, .x = {1, 3}, .y = {100, 300}};
  ck_assert_int_eq(kvl_dspark_open(&d, &s, 4, &err), 0);
  ck_assert_uint_eq(kvl_dspark_mean_milli(&d.curve, 5), 3100);
  ck_assert_uint_eq(d.step_ns[24], 1240); /* its own times when there is no table */
  ck_assert_uint_eq(d.draft_ns[2], 200);
  kvl_dspark_close(&d);
  s.speculation.cost_ns_by_tokens = (struct kvl_curve){.n = 2, .x = {1, 11}, .y = {500, 600}};
  s.speculation.draft_cost_ns_by_requests = (struct kvl_curve){.n = 1, .x = {1}, .y = {7}};
  ck_assert_int_eq(kvl_dspark_open(&d, &s, 4, &err), 0);
  ck_assert_uint_eq(d.step_ns[6], 550);
  ck_assert_uint_eq(d.step_ns[21], 700); /* past its end as its last stretch */
  ck_assert_uint_eq(d.draft_ns[4], 7);
  kvl_dspark_close(&d);
  s.speculation.accepted_mean_milli = 6001;
  ck_assert_int_eq(kvl_dspark_open(&d, &s, 4, &err), -EINVAL);
  memcpy(s.speculation.shape, "prose", 6);
  ck_assert_int_eq(kvl_dspark_open(&d, &s, 4, &err), -EINVAL);
}
END_TEST

KVL_TAP_MAIN("dspark", shapes_are_the_figure, scaling_meets_every_mean, published_lengths, the_mean_is_met, luck_belongs_to_the_token, a_scenario_says_it)
