#include "sim/tally.h"

#include <string.h>

void kvl_tally_init(struct kvl_tally *t)
{
  memset(t, 0, sizeof *t);
  kvl_hist_init(&t->ttft_ns);
  kvl_hist_init(&t->tpot_ns);
  kvl_hist_init(&t->e2e_ns);
  kvl_hist_init(&t->step_ns);
  kvl_hist_init(&t->batch);
  kvl_hist_init(&t->verified);
  kvl_hist_init(&t->rate_micro);
  t->first_submit_ns = UINT64_MAX;
}

void kvl_tally_submitted(struct kvl_tally *t, uint64_t now_ns)
{
  t->first_submit_ns = now_ns < t->first_submit_ns ? now_ns : t->first_submit_ns;
  t->steady_to_ns = now_ns;
  t->steady_to_tokens = t->output_tokens;
}

void kvl_tally_request(struct kvl_tally *t, const struct kvl_scenario *s, const struct kvl_request_record *r)
{
  if (r->aborted) {
    t->aborted++;
    return;
  }
  if (t->completed++ == 0) {
    t->steady_from_ns = r->last_token_ns;
    t->steady_from_tokens = t->output_tokens;
  }
  t->prompt_tokens += r->input_tokens;
  t->cached_tokens += r->cached_tokens;
  uint64_t e2e = r->last_token_ns - r->submit_ns;
  kvl_hist_add(&t->e2e_ns, e2e, 1);
  if (r->output_tokens == 0) { /* no token to wait for: its prefill is what counts */
    t->met_targets += s->limits.ttft_target_ns == 0 || e2e <= s->limits.ttft_target_ns;
    return;
  }
  uint64_t ttft = r->first_token_ns - r->submit_ns;
  kvl_hist_add(&t->ttft_ns, ttft, 1);
  uint64_t tpot = 0;
  if (r->output_tokens > 1) {
    uint64_t span = r->last_token_ns - r->first_token_ns;
    tpot = span / (r->output_tokens - 1);
    kvl_hist_add(&t->tpot_ns, tpot, 1);
    if (span != 0) {
      kvl_hist_add(&t->rate_micro, (uint64_t)(((double)(r->output_tokens - 1)) * 1e15 / (double)span), 1);
    }
  }
  bool met = (s->limits.ttft_target_ns == 0 || ttft <= s->limits.ttft_target_ns) && (s->limits.tpot_target_ns == 0 || tpot <= s->limits.tpot_target_ns);
  t->met_targets += met;
}

void kvl_tally_prefetch(struct kvl_prefetch *sum, const struct kvl_prefetch *p)
{
  sum->groups += p->groups;
  sum->landed += p->landed;
  sum->candidates += p->candidates;
  sum->resident += p->resident;
  sum->copied += p->copied;
  sum->dropped += p->dropped;
  sum->used += p->used;
  sum->unused += p->unused;
  sum->later_lanes += p->later_lanes;
  sum->later_demand += p->later_demand;
  sum->link_ns += p->link_ns;
  sum->unused_link_ns += p->unused_link_ns;
  sum->margin_ns += p->margin_ns;
  sum->wait_ns += p->wait_ns;
}

void kvl_tally_step(struct kvl_tally *t, uint32_t batch, uint32_t queries, uint32_t tokens, const struct kvl_step_result *step)
{
  uint64_t ns = step->end_ns - step->step_begin_ns;
  if (batch != 0) {
    t->steps++;
    kvl_hist_add(&t->step_ns, ns, 1);
    kvl_hist_add(&t->batch, batch, 1);
    kvl_hist_add(&t->verified, queries, 1);
    t->output_tokens += tokens;
    t->items += batch;
    t->queries += queries;
    t->step_sum_ns += ns;
    t->draft_ns += step->draft_ns;
    t->last_token_ns = step->end_ns;
    if (batch == t->matched_batch && (t->matched_queries == 0 || queries == t->matched_queries)) {
      t->matched_steps++;
      t->matched_ns += ns;
      t->matched_draft_ns += step->draft_ns;
    }
  }
  for (int i = 0; i < KVL_STALLS; i++) {
    t->stall_ns[i] += step->stall_ns[i];
  }
  for (int i = 0; i < KVL_TIERS; i++) {
    t->lanes[i] += step->lanes[i];
  }
  t->fetched += step->fetched;
  t->overflow += step->overflow;
  t->violations += step->violations;
  t->shared_lanes += step->shared_lanes;
  kvl_tally_prefetch(&t->prefetch, &step->prefetch);
}

static struct kvl_percentiles percentiles(const struct kvl_hist *h, double unit)
{
  return (struct kvl_percentiles){
    .p50 = (double)kvl_hist_percentile(h, 500) / unit,
    .p90 = (double)kvl_hist_percentile(h, 900) / unit,
    .p95 = (double)kvl_hist_percentile(h, 950) / unit,
    .p99 = (double)kvl_hist_percentile(h, 990) / unit,
  };
}

static void speculation(const struct kvl_tally *t, struct kvl_summary *s)
{
  s->drafts_verified = t->queries - t->items;
  s->drafts_accepted = t->output_tokens - t->items;
  s->tokens_per_step_per_request = t->items != 0 ? (double)t->output_tokens / (double)t->items : 0.0;
  s->verified_tokens_per_step_p50 = (uint32_t)kvl_hist_percentile(&t->verified, 500);
  s->draft_time_share = t->step_sum_ns != 0 ? (double)t->draft_ns / (double)t->step_sum_ns : 0.0;
  s->shared_lanes = t->shared_lanes;
}

static void prefetch(const struct kvl_prefetch *p, struct kvl_summary *s)
{
  s->prefetch_groups = p->groups;
  s->prefetch_landed = p->landed;
  s->prefetch_candidates = p->candidates;
  s->prefetch_resident = p->resident;
  s->prefetch_copied = p->copied;
  s->prefetch_dropped = p->dropped;
  s->prefetch_used = p->used;
  s->prefetch_unused = p->unused;
  s->prefetch_later_lanes = p->later_lanes;
  s->prefetch_later_demand = p->later_demand;
  s->prefetch_link_ms = (double)p->link_ns / 1e6;
  s->prefetch_unused_link_ms = (double)p->unused_link_ns / 1e6;
  s->prefetch_margin_ms = (double)p->margin_ns / 1e6;
  s->prefetch_wait_ms = (double)p->wait_ns / 1e6;
}

void kvl_tally_summary(const struct kvl_tally *t, struct kvl_summary *s)
{
  memset(s, 0, sizeof *s);
  double span_s = t->last_token_ns > t->first_submit_ns ? (double)(t->last_token_ns - t->first_submit_ns) / 1e9 : 0.0;
  s->output_throughput_tok_per_s = span_s > 0 ? (double)t->output_tokens / span_s : 0.0;
  if (t->steady_to_ns > t->steady_from_ns && t->steady_from_ns != 0) {
    s->output_throughput_steady_tok_per_s =
      (double)(t->steady_to_tokens - t->steady_from_tokens) * 1e9 / (double)(t->steady_to_ns - t->steady_from_ns);
  }
  s->goodput_req_per_s = span_s > 0 ? (double)t->met_targets / span_s : 0.0;
  s->decode_batch_p50 = (uint32_t)kvl_hist_percentile(&t->batch, 500);
  s->decode_batch_max = (uint32_t)t->batch.max;
  s->request_rate_tok_per_s_p10 = (double)kvl_hist_percentile(&t->rate_micro, 100) / 1e6;
  s->request_rate_tok_per_s_p50 = (double)kvl_hist_percentile(&t->rate_micro, 500) / 1e6;
  s->ttft_s = percentiles(&t->ttft_ns, 1e9);
  s->tpot_ms = percentiles(&t->tpot_ns, 1e6);
  s->e2e_s = percentiles(&t->e2e_ns, 1e9);
  s->step_ms = percentiles(&t->step_ns, 1e6);
  s->sessions_per_decode_gpu_max = t->sessions_max;
  for (int i = 0; i < KVL_TIERS; i++) {
    s->selections_by_tier[i] = t->lanes[i];
    s->selections_total += t->lanes[i];
  }
  s->rows_fetched = t->fetched;
  for (int i = 0; i < KVL_STALLS; i++) {
    s->stall_ms_by_cause[i] = (double)t->stall_ns[i] / 1e6;
  }
  speculation(t, s);
  prefetch(&t->prefetch, s);
  s->prefix_hit_rate = t->prompt_tokens != 0 ? (double)t->cached_tokens / (double)t->prompt_tokens : 0.0;
  s->requests_completed = t->completed;
  s->requests_aborted = t->aborted;
  s->steps = t->steps;
}
