#include "sim/scenario_keys.h"

#include "sim/model.h"

#define AT(member) offsetof(struct kvl_scenario, member), (uint32_t)sizeof(((struct kvl_scenario *)NULL)->member)
#define ENTRY(type, member) offsetof(struct type, member), (uint32_t)sizeof(((struct type *)NULL)->member)

enum { K = 1000, M = 1000000, G = 1000000000 };
#define T 1000000000000u
#define HOUR_NS (3600ull * G)
#define BYTES_MAX (1ull << 50)

static const char *const computes[] = {"table", "law", "roofline", NULL};
static const char *const evictions[] = {"lru", "fifo", "random", NULL};
static const char *const revoke_orders[] = {"oldest", "least_selected", NULL};
static const char *const give_orders[] = {"newest_missing", "closest_complete", "most_selected", NULL};
static const char *const admission_copies[] = {"serial", "side_stream", "bounded", NULL};
static const char *const sharings[] = {"on", "off", NULL};
static const char *const prefetches[] = {"none", "pool", "plan", NULL};
static const char *const prefill_starts[] = {"arrival", "reservation", NULL};
static const char *const routings[] = {"least_loaded", "round_robin", "random", NULL};
static const char *const workload_kinds[] = {"closed", "poisson", "gamma", "file", NULL};
static const char *const formats[] = {"auto", "mooncake", "agent", NULL};
static const char *const speculations[] = {"none", "dspark", NULL};
static const char *const stops[] = {"first", "best", NULL};
static const char *const acceptance_shapes[] = {"maths", "code", "chat", NULL};
static const char *const selection_sources[] = {"none", "preset", "trace", NULL};
static const char *const presets[] = {"hot-a", "hot-b", "cold-a", "cold-b", NULL};

const struct kvl_key kvl_keys[] = {
  {"name", KVL_KEY_TEXT, "", 1, AT(name), 0, 0, "", NULL, "name of the scenario; the file's name when it is not given"},
  {"note", KVL_KEY_TEXT, "", 1, AT(note), 0, 0, "", NULL, "what the scenario is for, in one line"},

  {"model.name", KVL_KEY_TEXT, "", 1, AT(model.name), 0, 0, NULL, NULL, "name of the model"},
  {"model.source", KVL_KEY_TEXT, "", 1, AT(model.source), 0, 0, NULL, NULL, "where the model's numbers come from"},
  {"model.layers", KVL_KEY_COUNT, "layers", 1, AT(model.layers), 1, KVL_LAYERS_MAX, NULL, NULL, "layers of the model"},
  {"model.caches", KVL_KEY_CACHES, "", 1, AT(model.caches), 0, 0, NULL, NULL,
   "the caches whose rows are selected, each with its selections (keys below)"},
  {"model.window_bytes", KVL_KEY_COUNT, "bytes", 1, AT(model.window_bytes), 0, BYTES_MAX, "0", NULL,
   "sliding-window state of a session: always in HBM"},
  {"model.whole_bytes_per_token", KVL_KEY_AMOUNT, "bytes a token", 256, AT(model.whole_bytes_per_token_q8), 0, 256u * 65536u, "0", NULL,
   "caches that are read whole: always in HBM, never lent"},
  {"model.weights_bytes", KVL_KEY_COUNT, "bytes", 1, AT(model.weights_bytes), 0, BYTES_MAX, "0", NULL,
   "roofline: parameters that one decode GPU reads in a step; 0: not known"},
  {"model.active_flops_per_token", KVL_KEY_COUNT, "operations", 1, AT(model.active_flops_per_token), 0, UINT64_MAX, "0", NULL,
   "roofline: operations of one decode GPU for a token; 0: not known"},
  {"model.pool_layer", KVL_KEY_COUNT, "layer", 1, AT(model.pool_layer), 0, KVL_LAYERS_MAX - 1, "0", NULL,
   "layer that announces the candidate pool"},
  {"model.pool_blocks", KVL_KEY_COUNT, "blocks", 1, AT(model.pool_blocks), 0, 1u << 20, "0", NULL,
   "blocks of the candidate pool of a query; 0: no pool"},
  {"model.pool_rows_per_block", KVL_KEY_COUNT, "rows", 1, AT(model.pool_rows_per_block), 0, 1u << 16, "0", NULL,
   "rows of a block of the candidate pool"},

  {"costs.name", KVL_KEY_TEXT, "", 1, AT(costs.name), 0, 0, NULL, NULL, "name of the cost profile"},
  {"costs.source", KVL_KEY_TEXT, "", 1, AT(costs.source), 0, 0, NULL, NULL, "where the profile's numbers come from"},
  {"costs.model", KVL_KEY_TEXT, "", 1, AT(costs.model), 0, 0, "", NULL,
   "the model that the profile was made for; `scenario check` says when another one is used"},
  {"costs.hardware", KVL_KEY_TEXT, "", 1, AT(costs.hardware), 0, 0, "", NULL, "the part that the profile was made for"},
  {"costs.compute", KVL_KEY_CHOICE, "", 1, AT(costs.compute), 0, 0, NULL, computes,
   "how the compute time of a step is found: from step_ms_by_tokens, from law_fixed_ms + tokens x law_token_ms, or (an estimate) from the model's and the "
   "hardware's roofline"},
  {"costs.step_ms_by_tokens", KVL_KEY_CURVE, "tokens, ms", M, AT(costs.step_ns_by_tokens), 0, 0, "[]", NULL,
   "table: duration of a step over the tokens it verifies"},
  {"costs.draft_ms_by_requests", KVL_KEY_CURVE, "requests, ms", M, AT(costs.draft_ns_by_requests), 0, 0, "[]", NULL,
   "speculation: time of drafting over the requests of the batch, spent in every step; no points: none"},
  {"costs.law_fixed_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.law_fixed_ns), 0, HOUR_NS, "0", NULL, "law: constant of a step"},
  {"costs.law_token_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.law_token_ns), 0, HOUR_NS, "0", NULL, "law: per token of the batch"},
  {"costs.compute_hbm_bytes", KVL_KEY_COUNT, "bytes", 1, AT(costs.compute_hbm_bytes), 0, BYTES_MAX, "0", NULL,
   "CUDA plane: bytes that the stand-ins for the model's own layers read from HBM in a step; 0: they only take the time"},
  {"costs.bookkeeping_ms_at_44", KVL_KEY_AMOUNT, "ms", M, AT(costs.bookkeeping_ns_at_44), 0, HOUR_NS, "0", NULL,
   "what fixed and adaptive mode add to a step at a batch of 44"},
  {"costs.resident_bookkeeping_ms_at_44", KVL_KEY_AMOUNT, "ms", M, AT(costs.resident_bookkeeping_ns_at_44), 0, HOUR_NS, "0", NULL,
   "what resident mode adds to the profile's compute time at a batch of 44"},
  {"costs.bookkeeping_exponent", KVL_KEY_AMOUNT, "", K, AT(costs.bookkeeping_exponent_permille), 0, 4 * K, "0.5", NULL,
   "how that grows: with batch / 44 to this power"},
  {"costs.resolve_fixed_us", KVL_KEY_AMOUNT, "us", K, AT(costs.resolve_fixed_ns), 0, HOUR_NS, "0", NULL,
   "one look-up kernel inside the step's graph"},
  {"costs.resolve_lane_ns", KVL_KEY_AMOUNT, "ns", K, AT(costs.resolve_lane_ps), 0, G, "0", NULL, "per selected row of a look-up"},
  {"costs.admission_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.admission_ns), 0, HOUR_NS, "0", NULL,
   "serialized work of an admission besides its copy, fixed and adaptive mode"},
  {"costs.resident_admission_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.resident_admission_ns), 0, HOUR_NS, "0", NULL, "the same in resident mode"},
  {"costs.admission_token_ns", KVL_KEY_AMOUNT, "ns", K, AT(costs.admission_token_ps), 0, G, "0", NULL,
   "and per token of the history, fixed and adaptive mode: entries of its page map"},
  {"costs.reserve_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.reserve_ns), 0, HOUR_NS, "0", NULL,
   "the host's work between two steps when a request gets its batch slot, every mode"},
  {"costs.reserve_token_ns", KVL_KEY_AMOUNT, "ns", K, AT(costs.reserve_token_ps), 0, G, "0", NULL, "and per token of its history, fixed and adaptive mode"},
  {"costs.release_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.release_ns), 0, HOUR_NS, "0", NULL, "the same when a request's slot is given up, fixed and adaptive mode"},
  {"costs.keep_page_us", KVL_KEY_AMOUNT, "us", K, AT(costs.keep_page_ns), 0, HOUR_NS, "0", NULL, "the same for a page that is completed and kept on the GPU"},
  {"costs.give_page_us", KVL_KEY_AMOUNT, "us", K, AT(costs.give_page_ns), 0, HOUR_NS, "0", NULL, "the same for a page that is lent beside the steps"},
  {"costs.history_gb_per_s", KVL_KEY_AMOUNT, "GB/s", G, AT(costs.history_bytes_per_s), 0, 100 * T, "0", NULL,
   "histories of new requests leave over the decode GPU's own link for the host, from the reservation on, and a request joins when its own is there (as the CUDA "
   "plane makes them); 0: they come another way"},
  {"costs.revoke_page_us", KVL_KEY_AMOUNT, "us", K, AT(costs.revoke_page_ns), 0, HOUR_NS, "0", NULL, "unmapping one borrowed page"},
  {"costs.prefill_fixed_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.prefill_fixed_ns), 0, HOUR_NS, "0", NULL, "constant of one prefill"},
  {"costs.prefill_token_us", KVL_KEY_AMOUNT, "us", M, AT(costs.prefill_token_ps), 0, HOUR_NS, "0", NULL, "prefill of one uncached token"},
  {"costs.prefill_cached_token_us", KVL_KEY_AMOUNT, "us", M, AT(costs.prefill_cached_token_ps), 0, HOUR_NS, "0", NULL,
   "bringing one cached token to the prefill GPU"},
  {"costs.transfer_gb_per_s", KVL_KEY_AMOUNT, "GB/s", G, AT(costs.transfer_bytes_per_s), M, 100 * T, "50", NULL,
   "prefill GPU to decode node, per decode GPU"},
  {"costs.transfer_fixed_ms", KVL_KEY_AMOUNT, "ms", M, AT(costs.transfer_fixed_ns), 0, HOUR_NS, "0", NULL,
   "hand-over: from a free decode slot to the start of the transfer"},

  {"hardware.name", KVL_KEY_TEXT, "", 1, AT(hardware.name), 0, 0, NULL, NULL, "name of the part"},
  {"hardware.part", KVL_KEY_TEXT, "", 1, AT(hardware.part), 0, 0, "", NULL,
   "the part that this descriptor measured, where it has a name of its own: cost profiles made for that part suit it; a descriptor with \"from\" says the name of that one"},
  {"hardware.source", KVL_KEY_TEXT, "", 1, AT(hardware.source), 0, 0, NULL, NULL, "where the part's numbers come from"},
  {"hardware.hbm_gb", KVL_KEY_AMOUNT, "GB", G, AT(hardware.hbm_bytes), M, BYTES_MAX, NULL, NULL, "HBM of one GPU"},
  {"hardware.hbm_gb_per_s", KVL_KEY_AMOUNT, "GB/s", G, AT(hardware.hbm_bytes_per_s), M, 1000 * T, NULL, NULL, "bandwidth of the HBM"},
  {"hardware.tflop_per_s", KVL_KEY_AMOUNT, "10^12/s", T, AT(hardware.flops_per_s), 0, 1000000ull * T, "0", NULL,
   "roofline: dense operations a second at the weights' precision; 0: not known"},
  {"hardware.resolve_us_by_lanes", KVL_KEY_CURVE, "rows, us", K, AT(hardware.resolve_ns_by_lanes), 0, 0, "[]", NULL,
   "measured: one look-up that finds every row on the GPU, over the rows selected; where costs.resolve_fixed_us and resolve_lane_ns say less, but not 0, this holds"},
  {"hardware.link.gather_gb_per_s", KVL_KEY_AMOUNT, "GB/s", G, AT(hardware.link.gather_bytes_per_s), M, 100 * T, NULL, NULL,
   "host link, gathers of small rows: bandwidth bound"},
  {"hardware.link.copy_gb_per_s", KVL_KEY_AMOUNT, "GB/s", G, AT(hardware.link.copy_bytes_per_s), M, 100 * T, NULL, NULL,
   "host link, bulk copies"},
  {"hardware.link.gather_floor_us", KVL_KEY_AMOUNT, "us", K, AT(hardware.link.gather_floor_ns), 0, HOUR_NS, NULL, NULL,
   "constant of one gather inside a step"},
  {"hardware.link.copy_floor_us", KVL_KEY_AMOUNT, "us", K, AT(hardware.link.copy_floor_ns), 0, HOUR_NS, NULL, NULL, "constant of one bulk copy"},
  {"hardware.link.rows_per_s_by_pool_bytes", KVL_KEY_CURVE, "bytes, rows/s", 1, AT(hardware.link.rows_per_s), 1, 0, NULL, NULL,
   "rows a second that a gather can reach, over the bytes that the rows range over"},
  {"hardware.link.gather_us", KVL_KEY_GATHERS, "bytes, bytes, rows, us", K, AT(hardware.link.gathers), 0, 0, "[]", NULL,
   "measured: times of gathers over row size, range and rows, a full grid; stands for the law of the other keys"},
  {"hardware.link.fetch_percent_by_rows", KVL_KEY_CURVE, "rows, %", 10, AT(hardware.link.fetch_permille), 1, 0, "[]", NULL,
   "measured: time of the fetches of a look-up against a gather of the same rows, over rows fetched; no points: 100"},
  {"hardware.link.pages_gb_per_s_by_piece", KVL_KEY_CURVE, "bytes, GB/s", G, AT(hardware.link.pages_bytes_per_s), M, 0, "[]", NULL,
   "measured: pages to the GPU by a kernel, over the bytes of a piece (a cache's part of a page), held past its ends; no points: pages go as bulk copies do"},
  {"hardware.link.pages_floor_us", KVL_KEY_AMOUNT, "us", K, AT(hardware.link.pages_floor_ns), 0, HOUR_NS, "0", NULL, "constant of such a copy"},
  {"hardware.link.to_host_gb_per_s", KVL_KEY_AMOUNT, "GB/s", G, AT(hardware.link.to_host_bytes_per_s), 0, 100 * T, "0", NULL,
   "bulk copies GPU to host; 0: as to the GPU"},
  {"hardware.link.pages_both_ways_percent", KVL_KEY_AMOUNT, "%", 10, AT(hardware.link.pages_both_permille), 1000, 100000, "100", NULL,
   "measured: time of pages to the GPU by a kernel while a bulk copy goes to the host, against alone"},
  {"hardware.link.to_host_both_ways_percent", KVL_KEY_AMOUNT, "%", 10, AT(hardware.link.to_host_both_permille), 1000, 100000, "100", NULL,
   "measured: time of that bulk copy, against alone"},

  {"node.prefill_gpus", KVL_KEY_COUNT, "GPUs", 1, AT(node.prefill_gpus), 1, 4096, "1", NULL, "GPUs that run prefill"},
  {"node.decode_gpus", KVL_KEY_COUNT, "GPUs", 1, AT(node.decode_gpus), 1, 4096, "1", NULL, "GPUs that decode, each with its own pool"},
  {"node.kv_pool_bytes", KVL_KEY_COUNT, "bytes", 1, AT(node.kv_pool_bytes), 1, BYTES_MAX, NULL, NULL, "HBM for KV of one decode GPU"},
  {"node.host_pool_bytes", KVL_KEY_COUNT, "bytes", 1, AT(node.host_pool_bytes), 0, 1ull << 56, NULL, NULL,
   "pinned host memory of the decode node, shared by its GPUs"},
  {"node.sessions_per_gpu_max", KVL_KEY_COUNT, "sessions", 1, AT(node.sessions_per_gpu_max), 0, 1u << 20, "0", NULL,
   "fixed and adaptive mode: most sessions that a decode GPU takes, whatever fits; 0: no limit"},

  {"node.prefill_starts", KVL_KEY_CHOICE, "", 1, AT(node.prefill_start), 0, 0, "arrival", prefill_starts,
   "when a request may be prefilled: as it arrives, or once a decode GPU has reserved its memory"},

  {"node.routing", KVL_KEY_CHOICE, "", 1, AT(node.routing), 0, 0, "least_loaded", routings,
   "who gets a request: the first GPU with room (decode: the one with the fewest sessions), or one chosen at submission in turn or by chance, for "
   "prefill and decode alike"},

  {"mode", KVL_KEY_CHOICE, "", 1, AT(mode), 0, 0, "adaptive", kvl_mode_names,
   "resident: every history in HBM; fixed: a hot cache of fixed size; adaptive: the same plus borrowed pages"},

  {"policy.hot_rows", KVL_KEY_COUNT, "rows", 1, AT(policy.hot_rows), 0, 1u << 24, "2048", NULL, "hot cache of one cache of one session"},
  {"policy.bank_rows", KVL_KEY_COUNT, "rows", 1, AT(policy.bank_rows), 0, 1u << 24, "0", NULL,
   "candidate bank of a session, for the cache whose pool is announced; in HBM whether policy.prefetch uses it or not"},
  {"policy.page_tokens", KVL_KEY_COUNT, "tokens", 1, AT(policy.page_tokens), 1, 1u << 20, "64", NULL,
   "tokens of a page, the unit of lending: a power of two, at least every cache's tokens_per_row"},
  {"policy.tail_tokens", KVL_KEY_COUNT, "tokens", 1, AT(policy.tail_tokens), 1, 1u << 20, "256", NULL,
   "newest tokens kept in HBM until their host copy is complete"},
  {"policy.give_back_bytes_max", KVL_KEY_COUNT, "bytes", 1, AT(policy.give_back_bytes_max), 0, BYTES_MAX, "33554432", NULL,
   "most bytes given back between two steps"},
  {"policy.horizon_ms", KVL_KEY_AMOUNT, "ms", M, AT(policy.horizon_ns), 0, HOUR_NS, "1000", NULL,
   "how far tail growth is projected when room is made"},
  {"policy.eviction", KVL_KEY_CHOICE, "", 1, AT(policy.eviction), 0, 0, "lru", evictions, "victim choice in the hot cache"},
  {"policy.revoke_order", KVL_KEY_CHOICE, "", 1, AT(policy.revoke_order), 0, 0, "oldest", revoke_orders,
   "which pages of a session are taken back first"},
  {"policy.give_back_order", KVL_KEY_CHOICE, "", 1, AT(policy.give_order), 0, 0, "newest_missing", give_orders,
   "which pages are given back first"},
  {"policy.admission_copy", KVL_KEY_CHOICE, "", 1, AT(policy.admission_copy), 0, 0, "serial", admission_copies,
   "how the population copy of an admission runs: before the next step, beside the steps, or in chunks between them"},
  {"policy.admission_chunk_bytes", KVL_KEY_COUNT, "bytes", 1, AT(policy.admission_chunk_bytes), 1, BYTES_MAX, "33554432", NULL,
   "bounded: most population bytes between two steps"},
  {"policy.layer_sharing", KVL_KEY_CHOICE, "", 1, AT(policy.layer_sharing), 0, 0, "on", sharings,
   "layers that read the same rows resolve once; off: each layer for itself, for comparison"},
  {"policy.prefetch", KVL_KEY_CHOICE, "", 1, AT(policy.prefetch), 0, 0, "none", prefetches,
   "pool: copy the announced candidate pool into the bank beside compute; plan: a fetch list goes again for the layers that share it, beside compute"},
  {"policy.pool_rows_max", KVL_KEY_COUNT, "rows", 1, AT(policy.pool_rows_max), 0, 1u << 24, "0", NULL,
   "pool: rows that are announced for a session in a step, all its queries together, the first query's pool first (blocks of rows that the announcing "
   "layer selected are always among them); 0: no limit"},

  {"speculation.method", KVL_KEY_CHOICE, "", 1, AT(speculation.method), 0, 0, "none", speculations,
   "speculative decoding: none, or drafts scheduled by their confidence (DSpark)"},
  {"speculation.name", KVL_KEY_TEXT, "", 1, AT(speculation.name), 0, 0, "", NULL, "name of the speculation; runs are labelled with it"},
  {"speculation.source", KVL_KEY_TEXT, "", 1, AT(speculation.source), 0, 0, "", NULL, "where its numbers come from"},
  {"speculation.drafts", KVL_KEY_COUNT, "tokens", 1, AT(speculation.drafts), 1, KVL_DRAFTS_MAX, "5", NULL, "tokens that a request drafts a step"},
  {"speculation.shape", KVL_KEY_WORD, "", 1, AT(speculation.shape), 0, 0, "code", acceptance_shapes,
   "how acceptance falls with the position of a draft"},
  {"speculation.accepted_lengths", KVL_KEY_CURVE, "drafts, tokens", K, AT(speculation.accepted_lengths), 0, 0, "[]", NULL,
   "measured instead of a shape: mean tokens a step with 1, 2, ... drafts, the model's own token included"},
  {"speculation.accepted_mean", KVL_KEY_AMOUNT, "tokens", K, AT(speculation.accepted_mean_milli), 0, (KVL_DRAFTS_MAX + 1) * K, "0", NULL,
   "mean tokens a step when every draft is verified, the model's own token included: the shape is scaled to it; 0: as the shape or the lengths are"},
  {"speculation.confidence_spread", KVL_KEY_AMOUNT, "", K, AT(speculation.confidence_spread_permille), 0, K, "0.5", NULL,
   "how much confidences differ from token to token; 0: all drafts of a position alike, 1: as far as 0 or certainty"},
  {"speculation.stop", KVL_KEY_CHOICE, "", 1, AT(speculation.stop), 0, 0, "first", stops,
   "how many drafts are verified: up to the first that does not raise the expected tokens a second, or whatever number raises them most"},
  {"speculation.cost_table", KVL_KEY_CURVE, "tokens, ms", M, AT(speculation.cost_ns_by_tokens), 1, 0, "[]", NULL,
   "what the scheduler believes: duration of a step without drafting, over verified tokens; no points: the cost profile's own times, never stale"},
  {"speculation.draft_cost_table", KVL_KEY_CURVE, "requests, ms", M, AT(speculation.draft_cost_ns_by_requests), 0, 0, "[]", NULL,
   "what the scheduler believes: time of drafting over requests; no points: the cost profile's own"},
  {"speculation.weights_bytes", KVL_KEY_COUNT, "bytes", 1, AT(speculation.weights_bytes), 0, BYTES_MAX, "0", NULL,
   "weights of the draft model on a decode GPU: taken from the KV pool"},
  {"speculation.graph_bytes", KVL_KEY_COUNT, "bytes", 1, AT(speculation.graph_bytes), 0, BYTES_MAX, "0", NULL,
   "captured graphs of drafting and verification on a decode GPU: taken from the KV pool"},
  {"speculation.scratch_bytes", KVL_KEY_COUNT, "bytes", 1, AT(speculation.scratch_bytes), 0, BYTES_MAX, "0", NULL,
   "scratch of drafting and verification on a decode GPU (activations, logits): taken from the KV pool"},
  {"speculation.state_bytes", KVL_KEY_COUNT, "bytes", 1, AT(speculation.state_bytes), 0, BYTES_MAX, "0", NULL,
   "state of the draft model for a session, in HBM in every mode"},
  {"speculation.state_bytes_per_token", KVL_KEY_AMOUNT, "bytes a token", 256, AT(speculation.state_bytes_per_token_q8), 0, 256u * 65536u, "0", NULL,
   "the same, as far as it grows with the session"},

  {"workload.kind", KVL_KEY_CHOICE, "", 1, AT(workload.kind), 0, 0, NULL, workload_kinds,
   "closed loop at a concurrency, open loop (poisson, gamma), or a workload file"},
  {"workload.concurrency", KVL_KEY_COUNT, "sessions", 1, AT(workload.concurrency), 0, 1u << 24, "0", NULL,
   "closed: requests in flight; file of sessions: sessions active at once, 0: all"},
  {"workload.open_interval_ms", KVL_KEY_AMOUNT, "ms", M, AT(workload.open_interval_ns), 0, HOUR_NS, "0", NULL,
   "closed: the first requests are submitted this far apart (a client opens its sessions one by one); 0: all at once"},
  {"workload.requests", KVL_KEY_COUNT, "requests", 1, AT(workload.requests), 0, 1ull << 40, "0", NULL,
   "requests in all; 0: all of the file"},
  {"workload.input_tokens", KVL_KEY_COUNT, "tokens", 1, AT(workload.input_tokens), 0, 1u << 28, "0", NULL, "prompt of every request"},
  {"workload.cached_tokens", KVL_KEY_COUNT, "tokens", 1, AT(workload.cached_tokens), 0, 1u << 28, "0", NULL,
   "of these, tokens that hit the prefix cache"},
  {"workload.output_tokens", KVL_KEY_COUNT, "tokens", 1, AT(workload.output_tokens), 0, 1u << 28, "0", NULL, "answer of every request"},
  {"workload.rate_per_s", KVL_KEY_REAL, "requests/s", 1, AT(workload.rate_per_s), 0, 1000000000, "0", NULL, "open loop: mean arrival rate"},
  {"workload.gamma_cv", KVL_KEY_REAL, "", 1, AT(workload.gamma_cv), 10, 100000, "1", NULL,
   "gamma: coefficient of variation of the gaps; 1 is Poisson"},
  {"workload.file", KVL_KEY_TEXT, "", 1, AT(workload.path), 0, 0, "", NULL,
   "workload file; relative to the scenario's folder, on the command line to the current one"},
  {"workload.format", KVL_KEY_WORD, "", 1, AT(workload.format), 0, 0, "auto", formats, "format of the workload file; auto: by its content"},
  {"workload.time_scale", KVL_KEY_REAL, "", 1, AT(workload.time_scale), 0, 1000000000, "1", NULL,
   "arrival and think times of a file are multiplied by it"},
  {"workload.prefix_store_bytes", KVL_KEY_COUNT, "bytes", 1, AT(workload.prefix_store_bytes), 0, 1ull << 56, "0", NULL,
   "host-side prefix store, least recently used blocks go first; 0: none"},

  {"selection.source", KVL_KEY_CHOICE, "", 1, AT(selection.kind), 0, 0, "none", selection_sources,
   "which rows the indexer picks: not simulated, generated from a preset, or a recorded trace"},
  {"selection.preset", KVL_KEY_WORD, "", 1, AT(selection.preset), 0, 0, "hot-a", presets, "preset of generated selections"},
  {"selection.query_overlap", KVL_KEY_AMOUNT, "", K, AT(selection.query_overlap_permille), 0, K, "0.97", NULL,
   "preset, with drafts: share of its rows that a query has in common with the query before it in the same step (published: more than 0.9)"},
  {"selection.library_sessions", KVL_KEY_COUNT, "sessions", 1, AT(selection.library_sessions), 0, 1u << 16, "0", NULL,
   "preset and requests of one size: so many sessions are generated once and shared by the requests in turn; 0: every request has selections of its own"},
  {"selection.file", KVL_KEY_TEXT, "", 1, AT(selection.path), 0, 0, "", NULL, "trace file; relative as workload.file is. Drafts beyond the queries that a step was recorded with take the rows recorded for their tokens later on"},

  {"limits.simulated_s_max", KVL_KEY_AMOUNT, "s", G, AT(limits.simulated_ns_max), 0, 1ull << 62, "0", NULL,
   "ends the run after this simulated time; 0: no limit"},
  {"limits.request_timeout_s", KVL_KEY_AMOUNT, "s", G, AT(limits.request_timeout_ns), 0, HOUR_NS, "0", NULL,
   "a client goes away when its answer is not complete this long after submission: the request is aborted wherever it is; 0: never"},
  {"limits.batch_max", KVL_KEY_COUNT, "sessions", 1, AT(limits.batch_max), 0, 1u << 20, "0", NULL, "largest decode batch of a GPU; 0: no limit"},
  {"limits.ttft_target_s", KVL_KEY_AMOUNT, "s", G, AT(limits.ttft_target_ns), 0, 1ull << 62, "0", NULL,
   "goodput: time to first token to meet; 0: no target"},
  {"limits.tpot_target_ms", KVL_KEY_AMOUNT, "ms", M, AT(limits.tpot_target_ns), 0, 1ull << 62, "0", NULL,
   "goodput: time per output token to meet; 0: no target"},

  {"seed", KVL_KEY_COUNT, "", 1, AT(seed), 0, UINT64_MAX, "1", NULL, "seed of every random stream"},
};
const uint32_t kvl_key_count = sizeof kvl_keys / sizeof kvl_keys[0];

const struct kvl_key kvl_cache_keys[] = {
  {"name", KVL_KEY_TEXT, "", 1, ENTRY(kvl_cache_entry, name), 0, 0, NULL, NULL, "name of the cache; with repeat, the layer is appended"},
  {"written_layer", KVL_KEY_COUNT, "layer", 1, ENTRY(kvl_cache_entry, written_layer), 0, KVL_LAYERS_MAX - 1, NULL, NULL, "first layer that writes it"},
  {"tokens_per_row", KVL_KEY_COUNT, "tokens", 1, ENTRY(kvl_cache_entry, tokens_per_row), 1, 1024, NULL, NULL,
   "tokens that a row covers: a power of two"},
  {"row_bytes", KVL_KEY_COUNT, "bytes", 1, ENTRY(kvl_cache_entry, row_bytes), 1, 1u << 20, NULL, NULL,
   "one row; layers that always share a selection are one cache: the sum of their rows"},
  {"index_key_bytes", KVL_KEY_COUNT, "bytes", 1, ENTRY(kvl_cache_entry, index_key_bytes), 0, 1u << 16, NULL, NULL,
   "index keys of a row: always in HBM"},
  {"layers", KVL_KEY_COUNT, "layers", 1, ENTRY(kvl_cache_entry, layers), 1, KVL_LAYERS_MAX, "1", NULL,
   "layers that have a part each of its rows, one after the other, and read it in turn: the readers of each of its selections"},
  {"repeat", KVL_KEY_COUNT, "caches", 1, ENTRY(kvl_cache_entry, repeat), 1, KVL_CACHES_MAX, "1", NULL, "stands for that many caches"},
  {"every", KVL_KEY_COUNT, "layers", 1, ENTRY(kvl_cache_entry, every), 1, KVL_LAYERS_MAX, "1", NULL, "layers from one of them to the next"},
};
const uint32_t kvl_cache_key_count = sizeof kvl_cache_keys / sizeof kvl_cache_keys[0];

const struct kvl_key kvl_selection_keys[] = {
  {"layer", KVL_KEY_COUNT, "layer", 1, ENTRY(kvl_selection_entry, layer), 0, KVL_LAYERS_MAX - 1, NULL, NULL, "layer that selects"},
  {"k", KVL_KEY_COUNT, "rows", 1, ENTRY(kvl_selection_entry, k), 1, 1u << 16, NULL, NULL, "rows a query selects"},
  {"readers", KVL_KEY_COUNT, "layers", 1, ENTRY(kvl_selection_entry, readers), 1, KVL_LAYERS_MAX, NULL, NULL,
   "layers that read the selected rows, the selecting one included"},
};
const uint32_t kvl_selection_key_count = sizeof kvl_selection_keys / sizeof kvl_selection_keys[0];
