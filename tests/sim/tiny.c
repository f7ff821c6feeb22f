#include "tests/sim/tiny.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plane_record.h"

static uint64_t frames_of(const struct kvl_scenario *s)
{
  return kvl_pool_bytes(s) / kvl_page_bytes(s);
}

static void add_cache(struct kvl_scenario *s, uint32_t tokens_per_row, uint32_t row_bytes, uint32_t key_bytes)
{
  uint32_t i = s->model.caches++;
  s->model.cache[i] = (struct kvl_model_cache){.tokens_per_row = tokens_per_row, .row_bytes = row_bytes, .index_key_bytes = key_bytes};
  s->model.selection.caches = s->model.caches;
  s->model.selection.tokens_per_row[i] = tokens_per_row;
}

static void add_point(struct kvl_scenario *s, uint16_t cache, uint16_t layer, uint32_t k)
{
  uint32_t p = s->model.selection.points++;
  s->model.selection.point[p] = (struct kvl_selection_point){.cache = cache, .layer = layer, .k = k};
  s->model.readers[p] = 1;
}

void tiny_init(struct tiny *t)
{
  memset(t, 0, sizeof *t);
  struct kvl_scenario *s = &t->s;
  (void)snprintf(s->name, sizeof s->name, "tiny");
  (void)snprintf(s->file, sizeof s->file, "tiny.json");
  s->model.layers = 4;
  add_cache(s, 1, 24, 4);
  add_point(s, 0, 1, 6);
  s->hardware.hbm_bytes = 1u << 30;
  s->hardware.hbm_bytes_per_s = 1000000000000u;
  s->hardware.flops_per_s = 1000000000000u;
  s->hardware.link.gather_bytes_per_s = 100000000;
  s->hardware.link.copy_bytes_per_s = 100000000;
  s->hardware.link.gather_floor_ns = 100;
  s->hardware.link.copy_floor_ns = 200;
  s->hardware.link.rows_per_s = (struct kvl_curve){.n = 2, .x = {1, 1u << 30}, .y = {20000000, 10000000}};
  s->costs.compute = KVL_COMPUTE_LAW;
  s->costs.law_fixed_ns = 10000;
  s->costs.law_token_ns = 700;
  s->costs.bookkeeping_ns_at_44 = 3000;
  s->costs.bookkeeping_exponent_permille = 500;
  s->costs.resolve_fixed_ns = 50;
  s->costs.resolve_lane_ps = 300;
  s->costs.admission_ns = 1500;
  s->costs.resident_admission_ns = 500;
  s->costs.revoke_page_ns = 20;
  s->costs.prefill_fixed_ns = 1000;
  s->costs.prefill_token_ps = 100000;
  s->costs.prefill_cached_token_ps = 1000;
  s->costs.transfer_bytes_per_s = 1000000000;
  s->costs.transfer_fixed_ns = 300;
  s->node.prefill_gpus = 1;
  s->node.decode_gpus = 1;
  s->mode = KVL_MODE_ADAPTIVE;
  s->policy.hot_rows = 12;
  s->policy.page_tokens = 8;
  s->policy.tail_tokens = 24;
  s->policy.horizon_ns = 50000;
  s->policy.give_back_bytes_max = 8 * 8 * 24;
  s->policy.admission_chunk_bytes = 4 * 8 * 24;
  s->workload.kind = KVL_WORK_CLOSED;
  s->workload.concurrency = 4;
  s->workload.requests = 12;
  s->workload.input_tokens = 61;
  s->workload.output_tokens = 20;
  s->workload.rate_per_s = 10000;
  s->workload.gamma_cv = 2;
  s->workload.time_scale = 1;
  (void)snprintf(s->workload.format, sizeof s->workload.format, "auto");
  s->selection.kind = KVL_SELECT_PRESET;
  (void)snprintf(s->selection.preset, sizeof s->selection.preset, "hot-a");
  s->seed = 1;
  t->slots = 8;
  t->threads = 1;
  t->verify = true;
  tiny_pools(t, 81, 3, 10, 4);
}

void tiny_pools(struct tiny *t, uint32_t tokens, uint32_t sessions, uint32_t spare, uint32_t host)
{
  struct kvl_session_bytes b;
  kvl_session_bytes(&t->s, tokens, &b);
  uint64_t page = kvl_page_bytes(&t->s), one = t->s.mode == KVL_MODE_RESIDENT ? b.resident : b.fixed;
  t->s.node.kv_pool_bytes = ((one + page - 1) / page * sessions + spare) * page + kvl_speculation_bytes(&t->s);
  t->s.node.host_pool_bytes = b.host * host;
}

/* ---- drawn at random ---- */

static uint32_t below(struct kvl_rng *rng, uint32_t n)
{
  return kvl_rng_below(rng, n);
}

static uint32_t between(struct kvl_rng *rng, uint32_t low, uint32_t high)
{
  return low + kvl_rng_below(rng, high - low + 1);
}

static void draw_model(struct kvl_scenario *s, struct kvl_rng *rng)
{
  memset(&s->model, 0, sizeof s->model);
  s->model.layers = between(rng, 4, 9);
  s->model.window_bytes = below(rng, 300);
  s->model.whole_bytes_per_token_q8 = below(rng, 3) * 333;
  switch (below(rng, 4)) {
  case 0: /* one cache, rows no multiple of 16 bytes */
    add_cache(s, 4, 584, 7);
    break;
  case 1:
    add_cache(s, 1, 24, 4);
    break;
  case 2: /* two row sizes in one page */
    add_cache(s, 1, 16, 4);
    add_cache(s, 2, 32, 6);
    break;
  default:
    add_cache(s, 2, 8, 4);
    add_cache(s, 2, 8, 4);
    add_cache(s, 1, 8, 3);
  }
  uint16_t layer = 0;
  for (uint16_t c = 0; c < s->model.caches; c++) {
    for (uint32_t points = between(rng, 1, c + 1u == s->model.caches ? 3 : 1); points > 0 && layer < s->model.layers; points--) {
      add_point(s, c, layer++, below(rng, 4) == 0 ? 1 : between(rng, 2, 14));
    }
  }
}

static void draw_policy(struct tiny *t, struct kvl_rng *rng)
{
  static const uint32_t hot[] = {0, 1, 3, 7, 14, 33, 200};
  struct kvl_scenario *s = &t->s;
  s->mode = (enum kvl_mode)(below(rng, 6) < 4 ? KVL_MODE_ADAPTIVE : below(rng, 2) == 0 ? KVL_MODE_FIXED : KVL_MODE_RESIDENT);
  s->policy.page_tokens = 4u << below(rng, 4);
  s->policy.tail_tokens = s->policy.page_tokens + between(rng, 1, 3 * s->policy.page_tokens);
  s->policy.hot_rows = hot[below(rng, 7)];
  s->policy.bank_rows = below(rng, 2) * 16;
  s->policy.eviction = (enum kvl_evict)below(rng, 3);
  s->policy.revoke_order = (enum kvl_revoke_order)below(rng, 2);
  s->policy.give_order = (enum kvl_give_order)below(rng, 3);
  s->policy.admission_copy = (enum kvl_admission_copy)below(rng, 3);
  s->policy.give_back_bytes_max = below(rng, 5) == 0 ? 0 : kvl_page_bytes(s) * between(rng, 1, 9);
  s->policy.admission_chunk_bytes = below(rng, 4) == 0 ? 1 : kvl_page_bytes(s) * between(rng, 1, 6);
  s->policy.horizon_ns = (uint64_t)below(rng, 3) * 100000;
}

/* Any number of drafts, luck, tables that are right, stale or absurd; groups of up to 128 tokens, so that drafts begin, complete and reopen them. */
static void draw_speculation(struct tiny *t, struct kvl_rng *rng)
{
  static const char *const shapes[] = {"maths", "code", "chat"};
  struct kvl_scenario *s = &t->s;
  s->speculation.method = KVL_SPECULATION_DSPARK;
  s->speculation.drafts = between(rng, 1, KVL_DRAFTS_MAX);
  (void)snprintf(s->speculation.shape, sizeof s->speculation.shape, "%s", shapes[below(rng, 3)]);
  s->speculation.accepted_mean_milli = below(rng, 3) == 0 ? 0 : between(rng, 1000, (s->speculation.drafts + 1) * 1000);
  s->speculation.confidence_spread_permille = below(rng, 3) * 500;
  s->speculation.stop = (enum kvl_speculation_stop)below(rng, 2);
  if (below(rng, 2) == 0) {
    s->speculation.cost_ns_by_tokens = (struct kvl_curve){.n = 2, .x = {1, 40}, .y = {between(rng, 1, 20000), between(rng, 1, 40000)}};
  }
  s->costs.draft_ns_by_requests = (struct kvl_curve){.n = 2, .x = {1, 8}, .y = {between(rng, 0, 3000), between(rng, 0, 9000)}};
  s->speculation.weights_bytes = below(rng, 5000);
  s->speculation.graph_bytes = below(rng, 5000);
  s->speculation.state_bytes = below(rng, 300);
  s->speculation.state_bytes_per_token_q8 = below(rng, 1000);
  if (below(rng, 4) == 0) {
    memset(&s->model, 0, sizeof s->model);
    s->model.layers = 4;
    add_cache(s, 128, 32, 4);
    add_cache(s, 1, 8, 2);
    add_point(s, 0, 0, between(rng, 1, 3));
    add_point(s, 1, 2, between(rng, 1, 14));
    s->policy.page_tokens = 128u << below(rng, 2);
    s->policy.tail_tokens = s->policy.page_tokens + between(rng, 1, 20);
  }
}

/* Steps that are often held back by their tail, so that gaps last while pages come, go and grow. */
/* How many layers read a selection, whether they share the look-up, and the two forms of prefetch. */
static void draw_sharing(struct tiny *t, struct kvl_rng *rng)
{
  struct kvl_scenario *s = &t->s;
  struct kvl_selection_shape *shape = &s->model.selection;
  s->policy.layer_sharing = below(rng, 4) == 0 ? KVL_SHARING_OFF : KVL_SHARING_ON;
  uint32_t last = shape->points - 1u, above = s->model.layers - 1u - shape->point[last].layer;
  if (above != 0 && below(rng, 3) != 0) { /* a second selection from a cache, so that a pool can be announced */
    add_point(s, shape->point[last].cache, (uint16_t)(shape->point[last].layer + between(rng, 1, above)), shape->point[last].k);
  }
  for (uint32_t p = 0; p < shape->points; p++) {
    uint32_t apart = s->model.layers - shape->point[p].layer, others = 0;
    for (uint32_t next = 0; next < shape->points; next++) {
      bool same = next != p && shape->point[next].cache == shape->point[p].cache;
      others += same;
      if (same && shape->point[next].layer > shape->point[p].layer && (uint32_t)(shape->point[next].layer - shape->point[p].layer) < apart) {
        apart = shape->point[next].layer - shape->point[p].layer;
      }
    }
    s->model.readers[p] = between(rng, 1, apart);
    struct kvl_model_cache *cache = &s->model.cache[shape->point[p].cache];
    if (others == 0 && cache->row_bytes % s->model.readers[p] == 0 && below(rng, 4) != 0) {
      cache->layers = s->model.readers[p];
      if (cache->layers > 1 && s->policy.layer_sharing == KVL_SHARING_ON && below(rng, 3) != 0) {
        s->policy.prefetch = KVL_PREFETCH_PLAN;
      }
    }
  }
  uint32_t announcing = below(rng, 2) == 0 ? below(rng, shape->points) : last;
  s->model.pool_layer = shape->point[announcing].layer;
  s->model.pool_blocks = shape->point[announcing].k + below(rng, 20);
  s->model.pool_rows_per_block = 1u << below(rng, 4);
  bool pool = s->policy.prefetch == KVL_PREFETCH_NONE && below(rng, 4) != 0 && kvl_model_want_pool(&s->model);
  if (!pool || shape->point[shape->pool.point].k > s->model.pool_blocks) {
    s->model.pool_blocks = 0;
    memset(&shape->pool, 0, sizeof shape->pool);
    return;
  }
  s->policy.prefetch = KVL_PREFETCH_POOL;
  s->policy.bank_rows = between(rng, 1, 80);
  s->policy.pool_rows_max = below(rng, 2) == 0 ? 0 : between(rng, 1, 100);
}

static void draw_held_back(struct tiny *t, struct kvl_rng *rng)
{
  struct kvl_scenario *s = &t->s;
  s->mode = KVL_MODE_ADAPTIVE;
  s->policy.page_tokens = 4u << below(rng, 2);
  s->policy.tail_tokens = s->policy.page_tokens + between(rng, 1, 4);
  s->policy.horizon_ns = (uint64_t)below(rng, 60) * 10000;
  t->delay = (struct delay_config){.seed = kvl_rng_next(rng), .max_ns = UINT64_C(1) << between(rng, 12, 18)};
}

static void draw_costs(struct tiny *t, struct kvl_rng *rng)
{
  struct kvl_scenario *s = &t->s;
  uint64_t speed[] = {1000000, 10000000, 1000000000}; /* copies far longer than a step, about as long, negligible */
  s->hardware.link.copy_bytes_per_s = speed[below(rng, 3)];
  s->hardware.link.gather_bytes_per_s = speed[below(rng, 3)];
  s->costs.transfer_bytes_per_s = speed[below(rng, 3)];
  s->costs.prefill_token_ps = below(rng, 3) * 200000;
  s->costs.admission_ns = below(rng, 2) * 5000;
  s->node.prefill_gpus = between(rng, 1, 3);
  s->node.decode_gpus = between(rng, 1, 3);
  s->node.prefill_start = (enum kvl_prefill_start)below(rng, 2);
  s->node.routing = (enum kvl_routing)below(rng, 3);
  s->node.sessions_per_gpu_max = below(rng, 4) == 0 ? between(rng, 1, 4) : 0;
  s->limits.batch_max = below(rng, 5) == 0 ? between(rng, 1, 4) : 0;
  if (below(rng, 2) == 0) {
    t->delay = (struct delay_config){.seed = kvl_rng_next(rng), .max_ns = UINT64_C(1) << between(rng, 8, 20)};
  }
  s->limits.simulated_ns_max = below(rng, 10) == 0 ? UINT64_C(1) << between(rng, 12, 23) : 0;
  s->limits.request_timeout_ns = below(rng, 4) == 0 ? UINT64_C(1) << between(rng, 12, 24) : 0;
}

static uint32_t draw_tokens(struct kvl_rng *rng, uint32_t max)
{
  return below(rng, 5) == 0 ? between(rng, 1, 3) : between(rng, 1, max);
}

/* Writes a workload file; returns the longest request. */
static uint32_t draw_file(struct tiny *t, struct kvl_rng *rng, uint64_t seed, const char *folder)
{
  struct kvl_scenario *s = &t->s;
  bool agent = below(rng, 2) == 0;
  (void)snprintf(s->workload.path, sizeof s->workload.path, "%s/%llu.%s", folder, (unsigned long long)seed, agent ? "csv" : "jsonl");
  FILE *f = fopen(s->workload.path, "w");
  uint32_t longest = 1;
  if (f == NULL) {
    return longest;
  }
  if (!agent) {
    uint64_t ms = 0;
    for (uint32_t i = 0, n = between(rng, 1, 20); i < n; i++) {
      uint32_t input = draw_tokens(rng, 150), output = below(rng, 6) == 0 ? 0 : between(rng, 1, 30);
      ms += below(rng, 3);
      fprintf(f, "{\"timestamp\": %llu, \"input_length\": %u, \"output_length\": %u, \"hash_ids\": [%u]}\n", (unsigned long long)ms, input, output,
              below(rng, 5));
      longest = input + output > longest ? input + output : longest;
    }
  } else {
    fprintf(f, "trace,agent,t_s,type,in_tok,out_tok,blocks64,lcp_prev_blocks,seen_prefix_blocks,api_s,think_s,out_types\n");
    for (uint32_t session = 0, sessions = between(rng, 1, 5); session < sessions; session++) {
      for (uint32_t a = 0, agents = between(rng, 1, 3); a < agents; a++) {
        uint32_t blocks = 0;
        for (uint32_t i = 0, n = between(rng, 1, 4); i < n; i++) {
          uint32_t input = draw_tokens(rng, 150), output = below(rng, 6) == 0 ? 0 : between(rng, 1, 30), had = blocks;
          blocks = input / 64;
          uint32_t lcp = i == 0 ? 0 : below(rng, (had < blocks ? had : blocks) + 1);
          fprintf(f, "s%u,%u,0.00%u,n,%u,%u,%u,%u,%u,,%s,x\n", session, a, i, input, output, blocks, lcp, lcp, i == 0 ? "" : "0.001");
          longest = input + output > longest ? input + output : longest;
        }
      }
    }
    s->workload.concurrency = below(rng, 4);
  }
  s->workload.kind = KVL_WORK_FILE;
  s->workload.requests = below(rng, 3) == 0 ? between(rng, 1, 10) : 0;
  s->workload.time_scale = below(rng, 2) == 0 ? 1 : 0.01;
  s->workload.prefix_store_bytes = below(rng, 2) * 5000000u;
  (void)fclose(f);
  return longest;
}

void tiny_random(struct tiny *t, uint64_t seed, const char *folder)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "tiny scenarios", 0);
  tiny_init(t);
  struct kvl_scenario *s = &t->s;
  s->seed = seed;
  draw_model(s, &rng);
  draw_policy(t, &rng);
  draw_costs(t, &rng);
  if (seed % 4 == 3) {
    draw_held_back(t, &rng);
  }
  struct kvl_rng speculation; /* of its own: the other draws of a seed are what they were */
  kvl_rng_init(&speculation, seed, "tiny speculation", 0);
  if (below(&speculation, 2) == 0) {
    draw_speculation(t, &speculation);
  }
  struct kvl_rng sharing;
  kvl_rng_init(&sharing, seed, "tiny sharing", 0);
  if (below(&sharing, 4) != 0) {
    draw_sharing(t, &sharing);
  }
  s->workload.input_tokens = draw_tokens(&rng, 150);
  if (s->policy.page_tokens >= 128) {
    s->workload.input_tokens += below(&speculation, 400);
  }
  s->workload.cached_tokens = below(&rng, s->workload.input_tokens + 1);
  s->workload.output_tokens = below(&rng, 8) == 0 ? below(&rng, 2) : between(&rng, 1, 60);
  s->workload.requests = between(&rng, 1, 24);
  s->workload.concurrency = between(&rng, 1, 9);
  s->workload.open_interval_ns = below(&rng, 3) * 20000u;
  s->workload.rate_per_s = (double)between(&rng, 1, 50) * 500;
  uint32_t kind = below(&rng, 5), longest = s->workload.input_tokens + s->workload.output_tokens;
  s->workload.kind = kind == 0 ? KVL_WORK_POISSON : kind == 1 ? KVL_WORK_GAMMA : KVL_WORK_CLOSED;
  if (kind >= 3) {
    longest = draw_file(t, &rng, seed, folder);
  }
  s->selection.query_overlap_permille = 1000 - (uint32_t)(s->seed % 4) * 50;
  s->selection.library_sessions = kind < 3 && s->workload.output_tokens != 0 && below(&rng, 3) == 0 ? between(&rng, 1, 5) : 0;
  static const char *const presets[] = {"hot-a", "hot-b", "cold-a", "cold-b"};
  (void)snprintf(s->selection.preset, sizeof s->selection.preset, "%s", presets[below(&rng, 4)]);
  t->slots = between(&rng, 1, 8);
  t->threads = 1;
  tiny_pools(t, longest, between(&rng, 1, 4), below(&rng, 2 * longest / s->policy.page_tokens + 4), between(&rng, 1, 6));
  static const char *const mode[] = {"resident", "fixed", "adaptive"}, *const copy[] = {"serial", "side_stream", "bounded"};
  (void)snprintf(t->note, sizeof t->note, "%s, %s, %u GPUs of %llu frames, %u slots, %u caches, page %u, tail %u, hot %u, longest %u, workload %d, late %llu, drafts %u",
                 mode[s->mode], copy[s->policy.admission_copy], s->node.decode_gpus, (unsigned long long)frames_of(s), t->slots, s->model.caches,
                 s->policy.page_tokens, s->policy.tail_tokens, s->policy.hot_rows, longest, (int)s->workload.kind,
                 (unsigned long long)t->delay.max_ns, s->speculation.method == KVL_SPECULATION_NONE ? 0 : s->speculation.drafts);
}

/* ---- a run ---- */

/* Generated, or (workloads of one size, when the scenario says so) from a library. */
static int open_source(const struct kvl_scenario *s, struct kvl_selection_source **source, struct kvl_err *err)
{
  int rc = kvl_source_open_preset(source, s->selection.preset, &s->model.selection, s->seed, err);
  if (rc == 0) {
    kvl_source_set_query_overlap(*source, s->selection.query_overlap_permille);
  }
  if (rc != 0 || s->selection.library_sessions == 0 || s->workload.kind == KVL_WORK_FILE) {
    return rc;
  }
  struct kvl_selection_source *generator = *source;
  rc = kvl_source_open_library(source, generator, s->model.selection.points, s->selection.library_sessions, s->workload.input_tokens,
                               s->workload.output_tokens, kvl_queries_max(s), err);
  kvl_source_close(generator);
  return rc;
}

/* Puts a decorator around *plane; its creation may have failed. */
static int around(struct kvl_plane **plane, struct kvl_plane *decorated, struct kvl_err *err)
{
  if (decorated == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for a decorator");
  }
  *plane = decorated;
  return 0;
}

int tiny_run(const struct tiny *t, struct tiny_result *result, struct kvl_err *err)
{
  const struct kvl_scenario *s = &t->s;
  memset(result, 0, sizeof *result);
  struct kvl_load *load = NULL;
  struct kvl_selection_source *source = NULL;
  struct kvl_plane *plane = NULL, *model = NULL, *record = NULL;
  bool rows = !t->resident_rows && s->mode != KVL_MODE_RESIDENT;
  uint32_t frames = (uint32_t)frames_of(s);
  int rc = kvl_load_create(&load, s, err);
  if (rc == 0 && rows) {
    rc = open_source(s, &source, err);
  }
  if (rc == 0) {
    struct kvl_plane_model_config pc = {.scenario = s, .selections = source, .slots = t->slots, .frames = frames,
                                        .tokens_max = kvl_load_tokens_max(load), .queries_max = kvl_queries_max(s), .threads = t->threads, .bytes = t->bytes};
    rc = kvl_plane_model_create(&model, &pc, err);
    plane = model;
  }
  if (rc == 0 && t->delay.max_ns != 0) {
    rc = around(&plane, delay_plane_create(plane, s->node.decode_gpus, &t->delay), err);
  }
  rc = rc != 0 || t->wrap == NULL ? rc : t->wrap(t->wrap_context, &plane, err);
  if (rc == 0 && t->record != NULL) {
    rc = kvl_plane_record_create(&record, plane, t->record, "{}", "test", err);
    plane = rc == 0 ? record : plane;
  }
  if (rc == 0 && !t->no_check) {
    rc = around(&plane, check_plane_create(plane, s, t->slots, frames, rows, &result->report), err);
  }
  if (rc == 0 && t->fail != NULL) {
    rc = around(&plane, fail_plane_create(plane, t->fail), err);
  }
  if (rc == 0) {
    result->total = kvl_load_total(load);
    struct kvl_engine_config ec = {.scenario = s, .plane = plane, .load = load, .slots = t->slots, .frames = frames, .store = t->store,
                                   .verify = t->verify, .stop = t->stop, .progress = t->progress, .progress_context = t->progress_context};
    rc = kvl_engine_run(&ec, &result->engine, err);
    rc = rc != 0 || record == NULL ? rc : kvl_plane_record_finish(record, result->engine.status, err);
    kvl_plane_model_checked(model, &result->rows_checked, &result->mismatches);
  }
  if (plane != NULL) {
    plane->ops->close(plane);
  }
  kvl_source_close(source);
  kvl_load_destroy(load);
  return rc;
}

void tiny_summary_text(const struct kvl_summary *summary, char *text, size_t size)
{
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < kvl_summary_key_count() && at < size; i++) {
    char value[KVL_SUMMARY_TEXT_MAX];
    if (!kvl_summary_is_measured(i)) {
      at += (size_t)snprintf(text + at, size - at, "%s %s\n", kvl_summary_key_at(i)->name, kvl_summary_value_text(value, summary, i));
    }
  }
}
