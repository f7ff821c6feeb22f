/* Explanations: facts add up, bounds bound, and what is recommended has been run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/explain_write.h"
#include "sim/run.h"
#include "sim/scenario_rates.h"
#include "sim/trace_note.h"
#include "tests/base/tap.h"

/* A small closed loop; the rest of the object goes where %s stands. */
static const char small[] =
  "{\"name\": \"small\", \"model\": \"deepseek-v4.1-flash\", \"mode\": \"adaptive\", \"costs\": \"deepseek-v4.1-flash.b300\","
  " \"node\": {\"hardware\": \"b300\", \"prefill_gpus\": 8, \"decode_gpus\": 1, \"kv_pool_bytes\": 200000000, \"host_pool_bytes\": 2000000000},"
  " \"policy\": {\"hot_rows\": 1024},"
  " \"workload\": {\"kind\": \"closed\", \"concurrency\": 12, \"requests\": 24, \"input_tokens\": 12000, \"cached_tokens\": 11936, \"output_tokens\": 20},"
  " \"selection\": {\"source\": \"preset\", \"preset\": \"hot-a\"}}";

struct fixture {
  char path[64];
  struct kvl_store *store;
  struct kvl_run_list list;
  char *json;
  struct kvl_scenario_doc *doc;
  struct kvl_explain_facts *facts;
};

/* Runs `small` with `sets` into a store of its own, and reads it back. */
static void begin(struct fixture *f, const char *const *sets, unsigned count)
{
  struct kvl_err err = {""};
  struct kvl_run_result *result = malloc(sizeof *result);
  struct kvl_scenario_doc *doc = NULL;
  memset(f, 0, sizeof *f);
  (void)snprintf(f->path, sizeof f->path, "explain-%ld.db", (long)getpid());
  (void)unlink(f->path);
  ck_assert_msg(kvl_scenario_parse(&doc, small, strlen(small), KVL_SCENARIOS "/small.json", sets, count, &err) == 0, "%s", err.text);
  struct kvl_run_options run = {.plane = "model", .store = f->path, .threads = 1, .command = "test"};
  ck_assert_msg(kvl_run(doc, &run, result, &err) == 0, "%s", err.text);
  kvl_scenario_free(doc);
  free(result);
  ck_assert_int_eq(kvl_store_open(&f->store, f->path, &err), 0);
  ck_assert_int_eq(kvl_store_list(f->store, &f->list, &err), 0);
  ck_assert_int_eq(kvl_store_scenario(f->store, f->list.run[0].id, &f->json, &err), 0);
  ck_assert_msg(kvl_scenario_parse(&f->doc, f->json, strlen(f->json), "run", NULL, 0, &err) == 0, "%s", err.text);
  f->facts = malloc(sizeof *f->facts);
  ck_assert_msg(kvl_explain_read(f->facts, f->store, &f->list.run[0], kvl_scenario_of(f->doc), &err) == 0, "%s", err.text);
}

static void end(struct fixture *f)
{
  free(f->facts);
  free(f->json);
  kvl_scenario_free(f->doc);
  kvl_run_list_free(&f->list);
  kvl_store_close(f->store);
  (void)unlink(f->path);
}

START_TEST(facts_add_up_to_the_summary)
{
  struct fixture f;
  begin(&f, NULL, 0);
  const struct kvl_summary *s = &f.list.run[0].summary;
  uint64_t lanes = 0, fetched = 0;
  for (uint32_t p = 0; p < f.facts->points; p++) {
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      lanes += f.facts->point[p].lanes[t];
    }
    fetched += f.facts->point[p].fetched;
  }
  ck_assert_uint_eq(lanes, s->selections_total);
  ck_assert_uint_eq(fetched, s->rows_fetched);
  struct kvl_link_part parts[KVL_LINK_PARTS];
  uint64_t bytes = 0;
  kvl_explain_link(f.facts, parts);
  for (int i = 0; i < KVL_LINK_PARTS; i++) {
    bytes += parts[i].bytes;
  }
  ck_assert_uint_eq(bytes, s->host_link_bytes);
  ck_assert_uint_gt(f.facts->slices, 0);
  for (uint32_t i = 0; i < f.facts->slices; i++) {
    const struct kvl_explain_slice *h = &f.facts->slice[i];
    double all = h->reserved + h->lent + h->retiring + h->free;
    ck_assert_msg(fabs(all - 100.0) < 1e-6, "slice %u adds up to %g", i, all);
    ck_assert(h->history >= 0.0 && h->history <= 100.0 + 1e-9);
  }
  ck_assert_uint_gt(strlen(f.facts->binding), 20);
  end(&f);
}
END_TEST

START_TEST(what_binds_is_named)
{
  static const struct {
    const char *set[4];
    unsigned sets;
    enum kvl_binding binds;
    const char *words;
  } cases[] = {
    {{"node.sessions_per_gpu_max=3"}, 1, KVL_BINDS_SESSIONS, "node.sessions_per_gpu_max"},
    {{"limits.batch_max=2"}, 1, KVL_BINDS_SESSIONS, "limits.batch_max"},
    {{"node.prefill_gpus=1", "costs.prefill_fixed_ms=400"}, 2, KVL_BINDS_PREFILL, "Prefill is what binds"},
    {{"workload.concurrency=2"}, 1, KVL_BINDS_COMPUTE, "the length of a decode step"},
    {{"mode=resident", "node.kv_pool_bytes=40000000"}, 2, KVL_BINDS_SESSIONS, "the HBM pool: whole histories"},
    {{"workload.kind=poisson", "workload.rate_per_s=1"}, 2, KVL_BINDS_LOAD, "Nothing binds"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture f;
    begin(&f, cases[i].set, cases[i].sets);
    ck_assert_msg(f.facts->binds == cases[i].binds && strstr(f.facts->binding, cases[i].words) != NULL, "case %zu: %d: %s", i, (int)f.facts->binds,
                  f.facts->binding);
    end(&f);
  }
}
END_TEST

static const struct kvl_try *find_try(const struct kvl_what_if *w, const char *label)
{
  for (uint32_t i = 0; i < w->count; i++) {
    if (strcmp(w->item[i].label, label) == 0) {
      return &w->item[i];
    }
  }
  return NULL;
}

START_TEST(the_knob_that_is_recommended_has_been_run)
{
  static const char *const sets[] = {"node.sessions_per_gpu_max=2", "hardware.link.pages_gb_per_s_by_piece=[[1024,20]]"};
  struct fixture f;
  struct kvl_err err = {""};
  begin(&f, sets, 2);
  struct kvl_what_if *w = calloc(1, sizeof *w);
  struct kvl_explain_options o = {.objective = kvl_objective_of(kvl_scenario_of(f.doc)), .threads = 2, .knobs = 4};
  ck_assert_int_eq(o.objective, KVL_FOR_THROUGHPUT);
  ck_assert_msg(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err) == 0, "%s", err.text);
  ck_assert(!w->steady); /* a closed loop */
  /* The base, run again, is the stored run: one seed, one result. */
  ck_assert(fabs(w->item[0].summary.output_throughput_tok_per_s - f.list.run[0].summary.output_throughput_tok_per_s) < 1e-9);
  /* Two sessions where twelve wait: the limit is what to turn, unless it costs more elsewhere than it gains; it must gain in any case. */
  const struct kvl_try *limit = find_try(w, "node.sessions_per_gpu_max=3");
  ck_assert_ptr_nonnull(limit);
  ck_assert_int_eq(limit->status, 0);
  ck_assert_msg(limit->gain_percent > 20.0, "%g", limit->gain_percent);
  ck_assert_int_ge(w->best, 0);
  ck_assert_int_eq(w->item[w->best].kind, KVL_TRY_SETTING);
  /* What a try says is what a run with that setting gives. */
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_run_result *result = malloc(sizeof *result);
  struct kvl_run_options run = {.plane = "model", .threads = 1};
  const char *set[] = {"node.sessions_per_gpu_max=3"};
  ck_assert_int_eq(kvl_scenario_parse(&doc, f.json, strlen(f.json), "run", set, 1, &err), 0);
  ck_assert_int_eq(kvl_run(doc, &run, result, &err), 0);
  ck_assert(fabs(limit->summary.output_throughput_tok_per_s - result->engine.summary.output_throughput_tok_per_s) < 1e-9);
  /* A link that costs nothing leaves no time for it. */
  const struct kvl_try *bound = find_try(w, "a host link that costs nothing");
  ck_assert_ptr_nonnull(bound);
  ck_assert_int_eq(bound->status, 0);
  double population = w->item[0].summary.stall_ms_by_cause[KVL_STALL_POPULATION];
  ck_assert(population > 0 && bound->summary.stall_ms_by_cause[KVL_STALL_POPULATION] <= 0.01 * population);
  ck_assert(bound->summary.stall_ms_by_cause[KVL_STALL_FETCH] <= 0.01 * w->item[0].summary.stall_ms_by_cause[KVL_STALL_FETCH] + 1e-3);
  uint32_t settings = 0;
  for (uint32_t i = 0; i < w->count; i++) {
    settings += w->item[i].kind == KVL_TRY_SETTING;
    ck_assert_msg(i == 0 || w->item[i].kind >= w->item[i - 1].kind, "order");
  }
  ck_assert_uint_eq(settings, 4);
  char text[KVL_EXPLAIN_LINE];
  kvl_what_if_advice(w, text, sizeof text);
  ck_assert_msg(strstr(text, w->item[w->best].label) != NULL, "%s", text);
  kvl_scenario_free(doc);
  free(result);
  kvl_what_if_free(w);
  free(w);
  end(&f);
}
END_TEST

/* An open loop's output is given: what ends the last answers sooner gains nothing by it. */
START_TEST(open_loops_are_compared_in_their_steady_window)
{
  static const char *const sets[] = {"workload.kind=poisson", "workload.rate_per_s=4", "workload.requests=60"};
  struct fixture f;
  struct kvl_err err = {""};
  begin(&f, sets, 3);
  struct kvl_what_if *w = calloc(1, sizeof *w);
  struct kvl_explain_options o = {.objective = KVL_FOR_THROUGHPUT, .threads = 2, .knobs = 2};
  ck_assert_msg(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err) == 0, "%s", err.text);
  ck_assert(w->steady);
  double base = w->item[0].summary.output_throughput_steady_tok_per_s;
  ck_assert(base > 0 && fabs(base - w->item[0].summary.output_throughput_tok_per_s) > 1e-3);
  for (uint32_t i = 1; i < w->count; i++) {
    double gain = 100 * (w->item[i].summary.output_throughput_steady_tok_per_s / base - 1);
    ck_assert_msg(w->item[i].status != 0 || fabs(w->item[i].gain_percent - gain) < 1e-6, "%s: %g, not %g", w->item[i].label, w->item[i].gain_percent, gain);
  }
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  kvl_explain_write(out, KVL_FORMAT_TABLE, f.facts, w);
  ck_assert_int_eq(fclose(out), 0);
  ck_assert_ptr_nonnull(strstr(text, "gains in output tokens a second in the steady window"));
  free(text);
  kvl_what_if_free(w);
  free(w);
  end(&f);
}
END_TEST

/* Too few requests: what helps when nobody waits may do harm when somebody does, so nothing is recommended. */
START_TEST(a_cut_that_eases_the_load_recommends_nothing)
{
  static const struct {
    const char *set[4];
    unsigned sets;
  } cases[] = {
    {{"node.sessions_per_gpu_max=5", "workload.concurrency=12"}, 2},                              /* a closed loop: fewer requests than sessions */
    {{"workload.kind=poisson", "workload.rate_per_s=40", "node.sessions_per_gpu_max=5"}, 3}, /* an open loop whose queue is long at the end */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fixture f;
    struct kvl_err err = {""};
    begin(&f, cases[i].set, cases[i].sets);
    uint64_t least = f.facts->pressed_requests;
    ck_assert_uint_eq(f.facts->pressed_sessions, f.list.run[0].summary.sessions_per_decode_gpu_max);
    ck_assert_msg(f.facts->waiting_mean >= 1.0 && least > 5 && least < 24, "%g wait, %llu", f.facts->waiting_mean, (unsigned long long)least);
    for (uint64_t n = least - 1; n <= least; n++) {
      struct kvl_what_if *w = calloc(1, sizeof *w);
      struct kvl_explain_options o = {.objective = KVL_FOR_TTFT, .threads = 2, .knobs = 2, .requests = n};
      char advice[KVL_EXPLAIN_LINE], words[64], *text[3] = {NULL, NULL, NULL};
      ck_assert_msg(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err) == 0, "%s", err.text);
      ck_assert_uint_eq(w->requests_at_least, least);
      ck_assert(w->pressed == (n == least));
      kvl_what_if_advice(w, advice, sizeof advice);
      for (int format = KVL_FORMAT_TABLE; format <= KVL_FORMAT_TSV; format++) {
        size_t size = 0;
        FILE *out = open_memstream(&text[format], &size);
        kvl_explain_write(out, (enum kvl_format)format, f.facts, w);
        ck_assert_int_eq(fclose(out), 0);
        ck_assert_ptr_nonnull(strstr(text[format], advice));
      }
      (void)snprintf(words, sizeof words, "--requests=%llu is the least", (unsigned long long)least);
      if (n < least) {
        ck_assert(w->best == -1 && w->best_hardware == -1 && strstr(advice, "No setting is named") == advice && strstr(advice, words) != NULL);
        ck_assert(strstr(text[KVL_FORMAT_TABLE], "the pool is not pressed as it was") != NULL && strstr(text[KVL_FORMAT_TABLE], "<- best") == NULL);
        ck_assert_ptr_nonnull(strstr(text[KVL_FORMAT_JSON], "\"best_setting\": null"));
      } else { /* sessions as in the stored run, and more of them would help */
        ck_assert_uint_eq(w->item[0].summary.sessions_per_decode_gpu_max, f.facts->pressed_sessions);
        ck_assert_int_ge(w->best, 0);
        ck_assert_ptr_null(strstr(text[KVL_FORMAT_TABLE], "not pressed"));
      }
      (void)snprintf(words, sizeof words, "\"pressed_as_stored\": %s, \"requests_at_least\": %llu", n < least ? "false" : "true", (unsigned long long)least);
      ck_assert_ptr_nonnull(strstr(text[KVL_FORMAT_JSON], words));
      ck_assert_ptr_nonnull(strstr(text[KVL_FORMAT_TSV], n < least ? "pressed_as_stored\tfalse" : "pressed_as_stored\ttrue"));
      for (int format = 0; format < 3; format++) {
        free(text[format]);
      }
      kvl_what_if_free(w);
      free(w);
    }
    end(&f);
  }
}
END_TEST

/* A lighter load that is asked for is not a cut. */
START_TEST(a_load_that_was_changed_is_its_own_measure)
{
  static const char *const sets[] = {"node.sessions_per_gpu_max=5"}, *const load[] = {"workload.concurrency=4"}, *const file[] = {"workload.file=moved.jsonl"};
  struct fixture f;
  struct kvl_err err = {""};
  begin(&f, sets, 1);
  struct kvl_what_if *w = calloc(1, sizeof *w);
  struct kvl_explain_options o = {.objective = KVL_FOR_TTFT, .threads = 2, .knobs = 1, .requests = 6, .sets = load, .set_count = 1};
  struct kvl_scenario_doc *doc = NULL;
  ck_assert_int_eq(kvl_scenario_parse(&doc, f.json, strlen(f.json), "run", load, 1, &err), 0);
  ck_assert_msg(kvl_explain_read(f.facts, f.store, &f.list.run[0], kvl_scenario_of(doc), &err) == 0, "%s", err.text);
  ck_assert_msg(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err) == 0, "%s", err.text);
  ck_assert(w->pressed && w->requests == 6);
  ck_assert_uint_eq(w->requests_at_least, 4);
  kvl_what_if_free(w);
  o.sets = file; /* where the same requests are now: the closed loop reads none */
  ck_assert_msg(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err) == 0, "%s", err.text);
  ck_assert(!w->pressed);
  kvl_what_if_free(w);
  free(w);
  kvl_scenario_free(doc);
  end(&f);
}
END_TEST

START_TEST(threads_and_order_do_not_matter)
{
  struct fixture f;
  struct kvl_err err = {""};
  begin(&f, NULL, 0);
  char *text[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    struct kvl_what_if *w = calloc(1, sizeof *w);
    struct kvl_explain_options o = {.objective = KVL_FOR_TTFT, .threads = i == 0 ? 1 : 3, .knobs = 3, .requests = 14};
    size_t size = 0;
    FILE *out = open_memstream(&text[i], &size);
    ck_assert_msg(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(w->requests, 14);
    ck_assert(!w->base_is_stored);
    ck_assert_uint_eq(w->item[0].summary.requests_completed, 14);
    kvl_explain_write(out, KVL_FORMAT_JSON, f.facts, w);
    ck_assert_int_eq(fclose(out), 0);
    kvl_what_if_free(w);
    free(w);
  }
  ck_assert_str_eq(text[0], text[1]);
  free(text[0]);
  free(text[1]);
  end(&f);
}
END_TEST

struct progress {
  uint32_t done, total, between, before; /* between: calls that told more than the number of re-runs that are through; before: those while no request was done */
  double share;
};

static void see_progress(void *context, uint32_t done, uint32_t total, double share)
{
  struct progress *p = context;
  ck_assert(share > p->share - 1e-9 && share <= 1 && done >= p->done && done <= total);
  p->between += share > (double)done / total + 1e-9;
  p->before += share <= 0;
  *p = (struct progress){done, total, p->between, p->before, share};
}

START_TEST(progress_is_told_within_the_re_runs)
{
  static const char *const sets[] = {"workload.requests=600", "workload.output_tokens=40", "selection.source=none"};
  struct fixture f;
  struct kvl_err err = {""};
  begin(&f, sets, 3);
  struct kvl_what_if *w = calloc(1, sizeof *w);
  for (uint32_t threads = 1; threads <= 2; threads++) {
    struct progress seen = {0, 0, 0, 0, 0};
    struct kvl_explain_options o = {.objective = KVL_FOR_TTFT, .threads = threads, .knobs = 2, .progress = see_progress, .progress_context = &seen};
    ck_assert_msg(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err) == 0, "%s", err.text);
    ck_assert(seen.total > 2 && seen.done == seen.total && seen.share > 1 - 1e-9);
    ck_assert_uint_gt(seen.between, seen.total);
    if (threads == 1) {
      ck_assert_uint_gt(seen.before, 2); /* signs of life before the first answer: more than the first line, and one as the first re-run begins */
    }
    kvl_what_if_free(w);
  }
  free(w);
  end(&f);
}
END_TEST

START_TEST(a_stop_ends_the_re_runs)
{
  static volatile sig_atomic_t stop = 1;
  struct fixture f;
  struct kvl_err err = {""};
  begin(&f, NULL, 0);
  struct kvl_what_if *w = calloc(1, sizeof *w);
  struct kvl_explain_options o = {.objective = KVL_FOR_TTFT, .threads = 1, .knobs = 2, .stop = &stop};
  ck_assert_int_eq(kvl_explain_what_if(w, f.facts, f.json, "run", &o, &err), -EINTR);
  kvl_what_if_free(w);
  free(w);
  end(&f);
}
END_TEST

START_TEST(clairvoyance_bounds_lru)
{
  struct fixture f;
  struct kvl_explain_bound b;
  struct kvl_err err = {""};
  begin(&f, NULL, 0);
  const struct kvl_scenario *s = kvl_scenario_of(f.doc);
  double last = 1e9;
  for (int held = 0; held <= 60; held += 30) {
    ck_assert_int_eq(kvl_explain_clairvoyant(s, held, &b, &err), 0);
    ck_assert(b.known);
    ck_assert_msg(b.clairvoyant_percent <= b.lru_percent && b.ratio > 0.0 && b.ratio <= 1.0, "%g %g", b.clairvoyant_percent, b.lru_percent);
    ck_assert_msg(b.reach_percent < last, "the more is held, the less reaches the hot caches: %g", b.reach_percent);
    last = b.reach_percent;
  }
  ck_assert_int_eq(kvl_explain_clairvoyant(s, 100.0, &b, &err), 0);
  ck_assert(!b.known); /* nothing reaches them */
  end(&f);
}
END_TEST

START_TEST(prefetch_and_speculation_are_told)
{
  static const char *const sets[] = {"policy.prefetch=pool", "policy.bank_rows=4096", "speculation=deepseek-v4.1-flash.dspark", "speculation.weights_bytes=0",
                                     "speculation.graph_bytes=0", "speculation.scratch_bytes=0", "node.kv_pool_bytes=120000000"};
  struct fixture f;
  char text[KVL_EXPLAIN_LINE];
  begin(&f, NULL, 0);
  kvl_explain_prefetch(&f.list.run[0].summary, text, sizeof text);
  ck_assert_str_eq(text, "");
  kvl_explain_speculation(&f.list.run[0].summary, text, sizeof text);
  ck_assert_str_eq(text, "");
  end(&f);
  begin(&f, sets, sizeof sets / sizeof sets[0]);
  const struct kvl_summary *s = &f.list.run[0].summary;
  kvl_explain_speculation(s, text, sizeof text);
  ck_assert_msg(strstr(text, "of the drafts that were verified were accepted") != NULL, "%s", text);
  ck_assert_uint_gt(s->prefetch_groups, 0);
  kvl_explain_prefetch(s, text, sizeof text);
  ck_assert_msg(strstr(text, "had landed when first asked") != NULL && strlen(text) < sizeof text - 1, "%s", text);
  ck_assert_uint_gt(f.facts->link.prefetch, 0);
  ck_assert_uint_eq(f.facts->link.demand + f.facts->link.population + f.facts->link.give_back + f.facts->link.prefetch, s->host_link_bytes);
  ck_assert_uint_eq(f.facts->link.other, 0);
  end(&f);
}
END_TEST

START_TEST(rates_of_stages)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  struct kvl_rates r;
  const char *sets[] = {"costs.prefill_fixed_ms=100", "costs.prefill_token_us=10", "costs.prefill_cached_token_us=0", "node.prefill_gpus=2"};
  ck_assert_int_eq(kvl_scenario_parse(&doc, small, strlen(small), KVL_SCENARIOS "/small.json", sets, 4, &err), 0);
  kvl_rates_of(kvl_scenario_of(doc), 4, 0, 0, &r);
  ck_assert(fabs(r.prefill_ms - 100.64) < 1e-9); /* 64 tokens are not cached */
  ck_assert(fabs(r.per_s[KVL_RATE_PREFILL] - 2.0 / 0.10064) < 1e-6);
  ck_assert(fabs(r.per_s[KVL_RATE_DECODE] - 4.0 * 1000.0 / (20.0 * r.step_ms)) < 1e-6);
  for (int stage = 0; stage < KVL_RATE_STAGES; stage++) {
    ck_assert(r.per_s[r.least] <= r.per_s[stage]);
  }
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(a_trace_of_another_history_is_noted)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  char text[512];
  ck_assert_int_eq(kvl_scenario_parse(&doc, small, strlen(small), KVL_SCENARIOS "/small.json", NULL, 0, &err), 0);
  ck_assert(!kvl_trace_note(kvl_scenario_of(doc), 0, text, sizeof text)); /* generated: nothing to say */
  ck_assert_int_eq(kvl_scenario_set(doc, "selection.source=trace", &err), -EINVAL);
  ck_assert_int_eq(kvl_scenario_set(doc, "selection={\"source\": \"trace\", \"file\": \"nowhere.kvt\"}", &err), 0);
  ck_assert(!kvl_trace_note(kvl_scenario_of(doc), 0, text, sizeof text)); /* whoever runs it says that it is not there */
  kvl_scenario_free(doc);
}
END_TEST

KVL_TAP_MAIN("explain", facts_add_up_to_the_summary, what_binds_is_named, the_knob_that_is_recommended_has_been_run, open_loops_are_compared_in_their_steady_window,
             a_cut_that_eases_the_load_recommends_nothing, a_load_that_was_changed_is_its_own_measure, threads_and_order_do_not_matter,
             progress_is_told_within_the_re_runs, a_stop_ends_the_re_runs, clairvoyance_bounds_lru, prefetch_and_speculation_are_told, rates_of_stages, a_trace_of_another_history_is_noted)
