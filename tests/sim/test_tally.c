/* What a run adds up to, against brute force over the same records. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "sim/tally.h"
#include "tests/base/tap.h"

enum { REQUESTS = 500 };

static int ascending(const void *a, const void *b)
{
  const uint64_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* Nearest rank, as defined. */
static double rank(uint64_t *value, uint32_t count, unsigned permille)
{
  qsort(value, count, sizeof *value, ascending);
  uint32_t at = (count * permille + 999) / 1000;
  return (double)value[at == 0 ? 0 : at - 1];
}

static void close_to(double got, double want)
{
  ck_assert_msg(got >= want * 0.999 - 1e-12 && got <= want * 1.001 + 1e-12, "%.9g, not %.9g", got, want);
}

START_TEST(percentiles_and_goodput)
{
  static struct kvl_tally t;
  static struct kvl_scenario s;
  static uint64_t ttft[REQUESTS], tpot[REQUESTS], e2e[REQUESTS], rate[REQUESTS];
  struct kvl_rng rng;
  kvl_rng_init(&rng, 5, "tally", 0);
  s.limits.ttft_target_ns = 2000000000;
  s.limits.tpot_target_ns = 20000000;
  kvl_tally_init(&t);
  uint64_t met = 0, last = 0, prompt = 0, cached = 0;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    struct kvl_request_record r = {.id = i, .input_tokens = 1 + kvl_rng_below(&rng, 5000), .output_tokens = 2 + kvl_rng_below(&rng, 300)};
    r.cached_tokens = kvl_rng_below(&rng, r.input_tokens);
    r.submit_ns = 1000 + i * UINT64_C(1000000);
    r.first_token_ns = r.submit_ns + kvl_rng_below(&rng, 4000000000u);
    uint64_t each = 1000000 + kvl_rng_below(&rng, 40000000);
    r.last_token_ns = r.first_token_ns + each * (r.output_tokens - 1);
    ttft[i] = r.first_token_ns - r.submit_ns;
    tpot[i] = each;
    e2e[i] = r.last_token_ns - r.submit_ns;
    rate[i] = UINT64_C(1000000000000000) / each;
    met += ttft[i] <= 2000000000 && each <= 20000000;
    last = r.last_token_ns > last ? r.last_token_ns : last;
    prompt += r.input_tokens;
    cached += r.cached_tokens;
    kvl_tally_submitted(&t, r.submit_ns);
    kvl_tally_request(&t, &s, &r);
  }
  struct kvl_step_result step = {.step_begin_ns = last - 1000000, .end_ns = last};
  kvl_tally_step(&t, 7, 7, 7, &step);
  struct kvl_summary sum;
  kvl_tally_summary(&t, &sum);
  close_to(sum.ttft_s.p50, rank(ttft, REQUESTS, 500) / 1e9);
  close_to(sum.ttft_s.p90, rank(ttft, REQUESTS, 900) / 1e9);
  close_to(sum.ttft_s.p99, rank(ttft, REQUESTS, 990) / 1e9);
  close_to(sum.tpot_ms.p50, rank(tpot, REQUESTS, 500) / 1e6);
  close_to(sum.tpot_ms.p95, rank(tpot, REQUESTS, 950) / 1e6);
  close_to(sum.e2e_s.p90, rank(e2e, REQUESTS, 900) / 1e9);
  close_to(sum.request_rate_tok_per_s_p10, rank(rate, REQUESTS, 100) / 1e6);
  close_to(sum.request_rate_tok_per_s_p50, rank(rate, REQUESTS, 500) / 1e6);
  close_to(sum.goodput_req_per_s, (double)met / ((double)(last - 1000) / 1e9));
  close_to(sum.prefix_hit_rate, (double)cached / (double)prompt);
  close_to(sum.output_throughput_tok_per_s, 7 / ((double)(last - 1000) / 1e9));
  ck_assert_uint_eq(sum.requests_completed, REQUESTS);
}
END_TEST

START_TEST(no_target_is_met_by_all)
{
  static struct kvl_tally t;
  static struct kvl_scenario s;
  kvl_tally_init(&t);
  const struct kvl_request_record none = {.input_tokens = 9, .output_tokens = 0, .submit_ns = 10, .first_token_ns = 20, .last_token_ns = 20};
  const struct kvl_request_record one = {.input_tokens = 9, .output_tokens = 1, .submit_ns = 10, .first_token_ns = 30, .last_token_ns = 30};
  const struct kvl_request_record gone = {.input_tokens = 9, .output_tokens = 5, .submit_ns = 10, .first_token_ns = UINT64_MAX,
                                          .last_token_ns = UINT64_MAX, .aborted = 1};
  kvl_tally_submitted(&t, 10);
  kvl_tally_request(&t, &s, &none);
  kvl_tally_request(&t, &s, &one);
  kvl_tally_request(&t, &s, &gone);
  struct kvl_step_result step = {.step_begin_ns = 20, .end_ns = 30};
  kvl_tally_step(&t, 1, 1, 1, &step);
  struct kvl_summary sum;
  kvl_tally_summary(&t, &sum);
  ck_assert_uint_eq(sum.requests_completed, 2);
  ck_assert_uint_eq(sum.requests_aborted, 1);
  close_to(sum.goodput_req_per_s, 2 / 20e-9);
  close_to(sum.e2e_s.p50, 10e-9);
  close_to(sum.ttft_s.p50, 20e-9);   /* the one that had a token */
  close_to(sum.tpot_ms.p50, 0);      /* nobody had two */
  close_to(sum.request_rate_tok_per_s_p50, 0);
}
END_TEST

/* Two submissions at 0, steps of batch 2 that end at 100, 200, ...; the first request ends at 300, a third is submitted then; last submission at 500. */
START_TEST(the_steady_window)
{
  static struct kvl_tally t;
  static struct kvl_scenario s;
  kvl_tally_init(&t);
  kvl_tally_submitted(&t, 0);
  kvl_tally_submitted(&t, 0);
  for (uint64_t at = 100; at <= 1000; at += 100) {
    struct kvl_step_result step = {.submit_ns = at - 100, .step_begin_ns = at - 90, .end_ns = at};
    step.stall_ns[KVL_STALL_COMPUTE] = 90;
    step.stall_ns[KVL_STALL_ADMISSION] = 10;
    step.lanes[KVL_TIER_HOT] = 5;
    step.fetched = 2;
    kvl_tally_step(&t, 2, 2, 2, &step);
    if (at == 300 || at == 500) {
      const struct kvl_request_record r = {.input_tokens = 1, .output_tokens = 3, .first_token_ns = 100, .last_token_ns = at};
      kvl_tally_request(&t, &s, &r);
      kvl_tally_submitted(&t, at);
    }
  }
  struct kvl_step_result empty = {.submit_ns = 1000, .step_begin_ns = 1070, .end_ns = 1070}; /* a population alone: no step, no token, but time */
  empty.stall_ns[KVL_STALL_POPULATION] = 70;
  kvl_tally_step(&t, 0, 0, 0, &empty);
  struct kvl_summary sum;
  kvl_tally_summary(&t, &sum);
  close_to(sum.output_throughput_tok_per_s, 20 / 1000e-9);
  close_to(sum.output_throughput_steady_tok_per_s, 4 / 200e-9);
  ck_assert_uint_eq(sum.steps, 10);
  ck_assert_uint_eq(sum.decode_batch_p50, 2);
  ck_assert_uint_eq(sum.selections_total, 50);
  ck_assert_uint_eq(sum.rows_fetched, 20);
  close_to(sum.stall_ms_by_cause[KVL_STALL_COMPUTE], 900e-6);
  close_to(sum.stall_ms_by_cause[KVL_STALL_POPULATION], 70e-6);
  close_to(sum.step_ms.p50, 90e-6);
}
END_TEST

START_TEST(matched_steps)
{
  static struct kvl_tally t;
  kvl_tally_init(&t);
  t.matched_batch = 44;
  for (uint32_t batch = 40; batch < 50; batch++) {
    struct kvl_step_result step = {.end_ns = batch};
    kvl_tally_step(&t, batch, batch, batch, &step);
    kvl_tally_step(&t, batch, batch, batch, &step);
  }
  ck_assert_uint_eq(t.matched_steps, 2);
  ck_assert_uint_eq(t.matched_ns, 88);
}
END_TEST

/* Three steps of two requests: 5 queries and 4 tokens each; drafting takes a quarter of the step. */
START_TEST(speculation_and_prefetch)
{
  static struct kvl_tally t;
  kvl_tally_init(&t);
  for (uint64_t i = 1; i <= 3; i++) {
    struct kvl_step_result step = {.submit_ns = i * 100, .step_begin_ns = i * 100 + 20, .end_ns = i * 100 + 100, .draft_ns = 20, .shared_lanes = 7};
    step.prefetch = (struct kvl_prefetch){.groups = 1, .landed = 2, .candidates = 3, .resident = 4, .copied = 5, .dropped = 6, .used = 7, .unused = 8,
                                          .later_lanes = 9, .later_demand = 10, .link_ns = 11, .unused_link_ns = 12, .margin_ns = 13, .wait_ns = 14};
    kvl_tally_step(&t, 2, 5, 4, &step);
  }
  struct kvl_summary sum;
  kvl_tally_summary(&t, &sum);
  ck_assert_uint_eq(sum.drafts_verified, 9);
  ck_assert_uint_eq(sum.drafts_accepted, 6);
  close_to(sum.tokens_per_step_per_request, 2);
  ck_assert_uint_eq(sum.verified_tokens_per_step_p50, 5);
  close_to(sum.draft_time_share, 0.25);
  ck_assert_uint_eq(sum.shared_lanes, 21);
  const uint64_t counts[] = {sum.prefetch_groups, sum.prefetch_landed, sum.prefetch_candidates, sum.prefetch_resident, sum.prefetch_copied,
                             sum.prefetch_dropped, sum.prefetch_used, sum.prefetch_unused, sum.prefetch_later_lanes, sum.prefetch_later_demand};
  for (uint64_t i = 0; i < 10; i++) {
    ck_assert_uint_eq(counts[i], 3 * (i + 1));
  }
  close_to(sum.prefetch_link_ms, 33e-6);
  close_to(sum.prefetch_unused_link_ms, 36e-6);
  close_to(sum.prefetch_margin_ms, 39e-6);
  close_to(sum.prefetch_wait_ms, 42e-6);
}
END_TEST

KVL_TAP_MAIN("tally", percentiles_and_goodput, no_target_is_met_by_all, the_steady_window, matched_steps, speculation_and_prefetch)
