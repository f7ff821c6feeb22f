#include "sim/scenario_rates.h"

#include <math.h>
#include <string.h>

#include "sim/costs.h"
#include "sim/dspark.h"

enum { BATCH_MAX = 512 }; /* the largest decode batch of one GPU (sim/run.c) */

const char *kvl_rate_stage_name(enum kvl_rate_stage stage)
{
  static const char *const names[KVL_RATE_STAGES] = {"prefill", "transfer", "admission", "decode"};
  return (unsigned)stage < KVL_RATE_STAGES ? names[stage] : "?";
}

static double per_second(uint64_t gpus, double each_ns)
{
  return each_ns > 0 ? (double)gpus * 1e9 / each_ns : INFINITY;
}

/* What the scheduler does with a batch whose drafts all have the mean confidence of their position: queries of a step, and tokens of one request. */
static uint64_t expected_queries(const struct kvl_scenario *s, uint32_t batch, double *tokens)
{
  struct kvl_dspark d;
  if (kvl_dspark_open(&d, s, batch, NULL) != 0) { /* no memory: as without */
    return batch;
  }
  for (uint32_t i = 0; i < batch; i++) {
    d.request[i].drafts = d.curve.drafts;
    memcpy(d.request[i].confidence, d.curve.conditional, sizeof d.curve.conditional);
  }
  uint32_t drafts = kvl_dspark_plan(d.request, batch, d.step_ns, d.draft_ns[batch], d.best, d.heap, d.verified);
  uint64_t milli = 0;
  for (uint32_t i = 0; i < batch; i++) {
    milli += kvl_dspark_mean_milli(&d.curve, d.verified[i]);
  }
  *tokens = (double)milli / 1000 / batch;
  kvl_dspark_close(&d);
  return (uint64_t)batch + drafts;
}

void kvl_rates_of(const struct kvl_scenario *s, uint64_t batch, uint64_t input_tokens, uint64_t output_tokens, struct kvl_rates *r)
{
  memset(r, 0, sizeof *r);
  bool file = s->workload.kind == KVL_WORK_FILE, resident = s->mode == KVL_MODE_RESIDENT, outside = false;
  r->input_tokens = file ? input_tokens : s->workload.input_tokens;
  r->output_tokens = file ? output_tokens : s->workload.output_tokens;
  r->cached_tokens = file ? 0 : s->workload.cached_tokens;
  r->batch = batch < 1 ? 1 : batch > BATCH_MAX ? BATCH_MAX : batch;
  r->asked_per_s = s->workload.kind == KVL_WORK_POISSON || s->workload.kind == KVL_WORK_GAMMA ? s->workload.rate_per_s : 0;

  uint64_t uncached = r->input_tokens - r->cached_tokens, history_bytes = 0;
  uint64_t prefill_ns = kvl_costs_prefill_ns(&s->costs, (uint32_t)uncached, (uint32_t)r->cached_tokens);
  r->prefill_ms = (double)prefill_ns / 1e6;
  r->per_s[KVL_RATE_PREFILL] = per_second(s->node.prefill_gpus, (double)prefill_ns);

  struct kvl_session_bytes bytes;
  kvl_session_bytes(s, r->input_tokens, &bytes);
  history_bytes = bytes.rows + bytes.index + bytes.whole;
  r->per_s[KVL_RATE_TRANSFER] = per_second(s->node.decode_gpus, (double)kvl_costs_transfer_ns(&s->costs, history_bytes));
  r->per_s[KVL_RATE_ADMISSION] = per_second(s->node.decode_gpus, (double)(resident ? s->costs.resident_admission_ns : s->costs.admission_ns));

  uint64_t queries = r->batch;
  r->tokens_per_step = 1;
  if (s->speculation.method != KVL_SPECULATION_NONE) {
    queries = expected_queries(s, (uint32_t)r->batch, &r->tokens_per_step);
  }
  uint64_t step_ns = kvl_costs_compute_ns(s, (uint32_t)queries, r->batch * r->input_tokens, &outside) +
                     kvl_costs_draft_ns(s, (uint32_t)r->batch, &outside);
  if (!resident) { /* the same law as kvl_costs_bookkeeping_table, which fills a whole table */
    step_ns += (uint64_t)((double)s->costs.bookkeeping_ns_at_44 * pow((double)r->batch / 44.0, (double)s->costs.bookkeeping_exponent_permille / 1000.0));
  }
  r->step_ms = (double)step_ns / 1e6;
  double steps = r->output_tokens > 1 ? (double)r->output_tokens / r->tokens_per_step : 1;
  r->per_s[KVL_RATE_DECODE] = per_second(s->node.decode_gpus, (double)step_ns * steps / (double)r->batch);
  for (int stage = 1; stage < KVL_RATE_STAGES; stage++) {
    r->least = r->per_s[stage] < r->per_s[r->least] ? (enum kvl_rate_stage)stage : r->least;
  }
}
