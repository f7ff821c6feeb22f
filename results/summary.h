/* The summary of a run: the one list of keys that tables, JSON, TSV and the store share. Key names are stable. */
#ifndef KVL_RESULTS_SUMMARY_H
#define KVL_RESULTS_SUMMARY_H

#include <stdint.h>
#include <stdio.h>

#include "backend/base/stall.h"

const char *kvl_stall_name(enum kvl_stall stall);

/* Tiers as reported: scratch, tail, borrowed, bank, hot, host. Same order as enum kvl_tier. */
enum { KVL_REPORT_TIERS = 6 };
const char *kvl_tier_name(unsigned tier);

struct kvl_percentiles {
  double p50, p90, p95, p99;
};

enum kvl_run_status { KVL_RUN_RUNNING, KVL_RUN_COMPLETE, KVL_RUN_INTERRUPTED, KVL_RUN_FAILED };

struct kvl_summary {
  double output_throughput_tok_per_s;        /* output tokens / (last token - first submission): ramp and tail included */
  double output_throughput_steady_tok_per_s; /* over the middle window in which no decode GPU waited for work (0: no such window) */
  double goodput_req_per_s;                  /* requests per second that met every target; all of them when no target is set */
  uint32_t decode_batch_p50, decode_batch_max; /* over decode steps of all decode GPUs */
  double request_rate_tok_per_s_p10, request_rate_tok_per_s_p50; /* (output - 1) / (last - first token) */
  struct kvl_percentiles ttft_s;             /* submission to first token off the decode GPU, wait for a decode slot included */
  struct kvl_percentiles tpot_ms;            /* (e2e - ttft) / (output - 1) */
  struct kvl_percentiles e2e_s;
  struct kvl_percentiles step_ms;            /* duration of decode steps */
  uint32_t sessions_per_decode_gpu_max;      /* most sessions that held a decode GPU's memory at once */
  uint64_t selections_total;
  uint64_t selections_by_tier[KVL_REPORT_TIERS];
  uint64_t rows_fetched;                     /* distinct rows brought on demand */
  uint64_t host_link_bytes;
  double host_link_busy_share;               /* busy time of the host links / simulated time, mean over decode GPUs */
  double stall_ms_by_cause[KVL_STALLS];
  uint64_t pages_lent, pages_revoked, pages_given_back;
  uint64_t drafts_verified, drafts_accepted; /* of all requests; accepted ones became output tokens */
  double tokens_per_step_per_request;        /* mean of accepted drafts + 1, over the requests of all decode steps */
  uint32_t verified_tokens_per_step_p50;     /* queries of a decode step, all requests together */
  double draft_time_share;                   /* drafting / duration of the decode steps */
  uint64_t shared_lanes;                     /* selected rows that an earlier query of the same request and selection named too */
  uint64_t prefetch_groups, prefetch_landed; /* announcements with anything to copy; of those, complete when first asked */
  uint64_t prefetch_candidates, prefetch_resident, prefetch_copied, prefetch_dropped; /* rows: of the pools; in a GPU tier already; copied; without room */
  uint64_t prefetch_used, prefetch_unused;   /* of the copied rows: named by a selection; given up without */
  uint64_t prefetch_later_lanes, prefetch_later_demand; /* selected rows at later selections of a group; of those, fetched on demand */
  double prefetch_link_ms, prefetch_unused_link_ms;     /* link time of the copies; the share of it for rows never named */
  double prefetch_margin_ms, prefetch_wait_ms;          /* sums: landed before the first later selection by; waited for after it */
  double prefill_busy_share;                 /* busy time of the prefill GPUs / simulated time, mean over them: near 1, prefill is what binds */
  double prefix_hit_rate;                    /* cached prompt tokens / prompt tokens */
  uint64_t requests_completed, requests_aborted;
  uint64_t steps;
  uint32_t compute_is_estimate;              /* 1: compute times came from a roofline, not from a measurement or a fit */
  uint32_t is_extrapolated;                  /* 1: a measured table or curve was read past its ends */
  double simulated_s, wall_s;
  double selections_per_wall_s;
  uint64_t peak_memory_bytes;
  uint64_t seed;
};

enum kvl_format { KVL_FORMAT_TABLE, KVL_FORMAT_JSON, KVL_FORMAT_TSV };

/* One key of the summary, flattened: "ttft_s_p90", "selections_by_tier.hot". Drives every output and the store. */
struct kvl_summary_key {
  const char *name;
  const char *unit; /* "" when a count; "flag": 1 or 0 */
};
uint32_t kvl_summary_key_count(void);
const struct kvl_summary_key *kvl_summary_key_at(uint32_t index);
double kvl_summary_value(const struct kvl_summary *summary, uint32_t index);
int kvl_summary_is_integer(uint32_t index); /* printed without a fraction (uint64 counts stay exact up to 2^53) */
int kvl_summary_is_measured(uint32_t index); /* wall_s, peak memory and the like: differ from run to run; left out of comparisons and golden files */

uint64_t kvl_summary_count(const struct kvl_summary *summary, uint32_t index); /* an integer key, exact over the whole range */

enum { KVL_SUMMARY_TEXT_MAX = 40 };
/* The value as JSON and TSV print it: counts exact, doubles as the shortest decimal that reads back the same (NaN, infinity: "null"). Returns `text`. */
const char *kvl_summary_value_text(char text[KVL_SUMMARY_TEXT_MAX], const struct kvl_summary *summary, uint32_t index);
/* For readers of stored summaries; the index must be of the right kind (kvl_summary_is_integer). 32-bit counts saturate. */
void kvl_summary_set_number(struct kvl_summary *summary, uint32_t index, double value);
void kvl_summary_set_count(struct kvl_summary *summary, uint32_t index, uint64_t value);

/* Writes one run (JSON: an object with selections_by_tier and stall_ms_by_cause nested; TSV: key, value, unit rows; table: grouped for reading). `name` may be NULL. Output errors: ferror(out). */
void kvl_summary_write(FILE *out, enum kvl_format format, const char *name, const struct kvl_summary *summary);
/* Several runs side by side, times as milliseconds a step and tiers in % in the table (table: one column a run; TSV: one row a run; JSON: an array). */
void kvl_summary_write_many(FILE *out, enum kvl_format format, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count);

#endif
