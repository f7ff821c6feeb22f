#include "results/summary.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>

#include "results/summary_internal.h"
#include "results/text.h"

const char *kvl_stall_name(enum kvl_stall stall)
{
  static const char *const name[KVL_STALLS] = {
    [KVL_STALL_COMPUTE] = "compute",           [KVL_STALL_BOOKKEEPING] = "bookkeeping", [KVL_STALL_RESOLVE] = "resolve",
    [KVL_STALL_FETCH] = "fetch",               [KVL_STALL_LINK_WAIT] = "link_wait",     [KVL_STALL_PREFETCH_WAIT] = "prefetch_wait",
    [KVL_STALL_ADMISSION] = "admission",       [KVL_STALL_POPULATION] = "population",   [KVL_STALL_REVOCATION] = "revocation",
    [KVL_STALL_GIVE_BACK] = "give_back",
  };
  return (unsigned)stall < KVL_STALLS ? name[stall] : "?";
}

const char *kvl_tier_name(unsigned tier)
{
  static const char *const name[KVL_REPORT_TIERS] = {"scratch", "tail", "borrowed", "bank", "hot", "host"};
  return tier < KVL_REPORT_TIERS ? name[tier] : "?";
}

/* ---- the one list of keys ---- */

enum kind { KIND_DOUBLE, KIND_U32, KIND_U64 };

struct key {
  struct kvl_summary_key public;
  const char *group; /* heading in tables */
  const char *label; /* row in tables */
  enum kind kind;
  int measured;
  size_t offset;
};

#define AT(member) offsetof(struct kvl_summary, member)
#define NUMBER(member, unit, group, label) {{#member, unit}, group, label, KIND_DOUBLE, 0, AT(member)}
#define COUNT32(member, group, label) {{#member, ""}, group, label, KIND_U32, 0, AT(member)}
#define FLAG(member, group, label) {{#member, "flag"}, group, label, KIND_U32, 0, AT(member)}
#define COUNT64(member, unit, group, label) {{#member, unit}, group, label, KIND_U64, 0, AT(member)}
#define PERCENTILE(member, p, unit, label) {{#member "_" #p, unit}, "Latency", label " " #p, KIND_DOUBLE, 0, AT(member.p)}
#define PERCENTILES(member, unit, label) \
  PERCENTILE(member, p50, unit, label), PERCENTILE(member, p90, unit, label), PERCENTILE(member, p95, unit, label), \
  PERCENTILE(member, p99, unit, label)
#define TIER(name, index) {{"selections_by_tier." name, ""}, "Selections", name, KIND_U64, 0, AT(selections_by_tier[index])}
#define STALL(name, label, index) {{"stall_ms_by_cause." name, "ms"}, "Time", label, KIND_DOUBLE, 0, AT(stall_ms_by_cause[index])}
#define MEASURED(member, unit, label, kind) {{#member, unit}, "Run", label, kind, 1, AT(member)}

static const struct key keys[] = {
  NUMBER(output_throughput_tok_per_s, "tok/s", "Throughput", "output"),
  NUMBER(output_throughput_steady_tok_per_s, "tok/s", "Throughput", "output, steady window"),
  NUMBER(request_rate_tok_per_s_p10, "tok/s", "Throughput", "per request p10"),
  NUMBER(request_rate_tok_per_s_p50, "tok/s", "Throughput", "per request p50"),
  NUMBER(goodput_req_per_s, "req/s", "Throughput", "goodput"),
  COUNT32(decode_batch_p50, "Batch", "decode batch p50"),
  COUNT32(decode_batch_max, "Batch", "decode batch max"),
  COUNT32(sessions_per_decode_gpu_max, "Batch", "sessions a decode GPU max"),
  PERCENTILES(ttft_s, "s", "first token"),
  PERCENTILES(tpot_ms, "ms", "per output token"),
  PERCENTILES(e2e_s, "s", "end to end"),
  PERCENTILES(step_ms, "ms", "decode step"),
  COUNT64(selections_total, "", "Selections", "total"),
  TIER("scratch", 0),
  TIER("tail", 1),
  TIER("borrowed", 2),
  TIER("bank", 3),
  TIER("hot", 4),
  TIER("host", 5),
  COUNT64(rows_fetched, "", "Host link", "rows fetched on demand"),
  COUNT64(host_link_bytes, "B", "Host link", "bytes moved"),
  NUMBER(host_link_busy_share, "share", "Host link", "busy"),
  STALL("compute", "compute", KVL_STALL_COMPUTE),
  STALL("bookkeeping", "bookkeeping", KVL_STALL_BOOKKEEPING),
  STALL("resolve", "resolve", KVL_STALL_RESOLVE),
  STALL("fetch", "fetch", KVL_STALL_FETCH),
  STALL("link_wait", "link wait", KVL_STALL_LINK_WAIT),
  STALL("prefetch_wait", "prefetch wait", KVL_STALL_PREFETCH_WAIT),
  STALL("admission", "admission", KVL_STALL_ADMISSION),
  STALL("population", "population", KVL_STALL_POPULATION),
  STALL("revocation", "revocation", KVL_STALL_REVOCATION),
  STALL("give_back", "give back", KVL_STALL_GIVE_BACK),
  COUNT64(pages_lent, "", "Pages", "lent"),
  COUNT64(pages_revoked, "", "Pages", "revoked"),
  COUNT64(pages_given_back, "", "Pages", "given back"),
  COUNT64(drafts_verified, "", "Speculation", "drafts verified"),
  COUNT64(drafts_accepted, "", "Speculation", "drafts accepted"),
  NUMBER(tokens_per_step_per_request, "tok", "Speculation", "tokens a step and request"),
  COUNT32(verified_tokens_per_step_p50, "Speculation", "tokens verified a step p50"),
  NUMBER(draft_time_share, "share", "Speculation", "drafting, of step time"),
  COUNT64(shared_lanes, "", "Speculation", "rows named twice or more"),
  COUNT64(prefetch_groups, "", "Prefetch", "groups that copied"),
  COUNT64(prefetch_landed, "", "Prefetch", "groups landed in time"),
  COUNT64(prefetch_candidates, "", "Prefetch", "candidate rows"),
  COUNT64(prefetch_resident, "", "Prefetch", "resident already"),
  COUNT64(prefetch_copied, "", "Prefetch", "copied"),
  COUNT64(prefetch_dropped, "", "Prefetch", "without room"),
  COUNT64(prefetch_used, "", "Prefetch", "copied and used"),
  COUNT64(prefetch_unused, "", "Prefetch", "copied, never used"),
  COUNT64(prefetch_later_lanes, "", "Prefetch", "later selections"),
  COUNT64(prefetch_later_demand, "", "Prefetch", "later, on demand"),
  NUMBER(prefetch_link_ms, "ms", "Prefetch", "link time of copies"),
  NUMBER(prefetch_unused_link_ms, "ms", "Prefetch", "for rows never used"),
  NUMBER(prefetch_margin_ms, "ms", "Prefetch", "landing margin, sum"),
  NUMBER(prefetch_wait_ms, "ms", "Prefetch", "waiting after asked, sum"),
  COUNT64(requests_completed, "", "Requests", "completed"),
  COUNT64(requests_aborted, "", "Requests", "aborted"),
  NUMBER(prefix_hit_rate, "share", "Requests", "prefix hits"),
  NUMBER(prefill_busy_share, "share", "Requests", "prefill GPUs busy"),
  COUNT64(steps, "", "Run", "decode steps"),
  NUMBER(simulated_s, "s", "Run", "simulated time"),
  FLAG(compute_is_estimate, "Run", "compute is an estimate"),
  FLAG(is_extrapolated, "Run", "extrapolated"),
  COUNT64(seed, "", "Run", "seed"),
  MEASURED(wall_s, "s", "wall time", KIND_DOUBLE),
  MEASURED(selections_per_wall_s, "1/s", "selections a wall second", KIND_DOUBLE),
  MEASURED(peak_memory_bytes, "B", "peak memory", KIND_U64),
};
enum { KEYS = (int)(sizeof keys / sizeof keys[0]) };

uint32_t kvl_summary_key_count(void)
{
  return KEYS;
}

const struct kvl_summary_key *kvl_summary_key_at(uint32_t index)
{
  assert(index < KEYS);
  return &keys[index].public;
}

static const void *field(const struct kvl_summary *summary, uint32_t index)
{
  return (const char *)summary + keys[index].offset;
}

uint64_t kvl_summary_count(const struct kvl_summary *summary, uint32_t index)
{
  assert(index < KEYS && keys[index].kind != KIND_DOUBLE);
  return keys[index].kind == KIND_U32 ? *(const uint32_t *)field(summary, index) : *(const uint64_t *)field(summary, index);
}

double kvl_summary_value(const struct kvl_summary *summary, uint32_t index)
{
  assert(index < KEYS);
  return kvl_summary_is_integer(index) ? (double)kvl_summary_count(summary, index) : *(const double *)field(summary, index);
}

int kvl_summary_is_integer(uint32_t index)
{
  assert(index < KEYS);
  return keys[index].kind != KIND_DOUBLE;
}

int kvl_summary_is_measured(uint32_t index)
{
  assert(index < KEYS);
  return keys[index].measured;
}

const char *kvl_summary_value_text(char text[KVL_SUMMARY_TEXT_MAX], const struct kvl_summary *summary, uint32_t index)
{
  static_assert((int)KVL_SUMMARY_TEXT_MAX >= (int)KVL_TEXT_NUMBER_MAX, "a number fits");
  if (kvl_summary_is_integer(index)) {
    (void)snprintf(text, KVL_SUMMARY_TEXT_MAX, "%" PRIu64, kvl_summary_count(summary, index));
    return text;
  }
  return kvl_text_double(text, kvl_summary_value(summary, index));
}

void kvl_summary_set_number(struct kvl_summary *summary, uint32_t index, double value)
{
  assert(index < KEYS && keys[index].kind == KIND_DOUBLE);
  *(double *)((char *)summary + keys[index].offset) = value;
}

void kvl_summary_set_count(struct kvl_summary *summary, uint32_t index, uint64_t value)
{
  assert(index < KEYS && keys[index].kind != KIND_DOUBLE);
  void *at = (char *)summary + keys[index].offset;
  if (keys[index].kind == KIND_U32) {
    *(uint32_t *)at = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
  } else {
    *(uint64_t *)at = value;
  }
}

const char *kvl_summary_group(uint32_t index)
{
  return keys[index].group;
}

const char *kvl_summary_label(uint32_t index)
{
  return keys[index].label;
}
