/* Whole runs of scenarios drawn at random, on the model plane and with real bytes, under the checking decorator:
 *
 *   model_engine [SEED [RUNS]]   plays other scenarios; the seed of a failing one is printed and plays it alone with RUNS = 1. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/scenario.h"
#include "tests/sim/tiny.h"

enum { RUNS = 200, TEXT = 16384 };

static uint64_t current;
static const char *note;

static bool fail(const char *what, const char *detail)
{
  printf("seed %llu: %s: %s\n  %s\n", (unsigned long long)current, what, detail, note);
  return false;
}

static bool equal(const char *what, uint64_t a, uint64_t b)
{
  char text[96];
  (void)snprintf(text, sizeof text, "%llu and %llu", (unsigned long long)a, (unsigned long long)b);
  return a == b || fail(what, text);
}

/* What must hold at the end of a run that nothing disturbed. */
static bool check_result(const struct tiny *t, const struct tiny_result *r)
{
  const struct kvl_summary *s = &r->engine.summary;
  const struct check_report *c = &r->report;
  uint64_t lanes = 0, ns = 0;
  for (int i = 0; i < KVL_TIERS; i++) {
    lanes += c->lanes[i];
    if (!equal("lanes by tier", s->selections_by_tier[i], c->lanes[i])) {
      return false;
    }
  }
  for (int i = 0; i < KVL_STALLS; i++) {
    ns += c->stall_ns[i];
  }
  bool once = t->s.workload.kind != KVL_WORK_FILE || strstr(t->s.workload.path, ".jsonl") != NULL;
  bool ended = r->engine.status == KVL_RUN_COMPLETE;
  if (!ended && t->s.limits.simulated_ns_max == 0) {
    return fail("ended early", "without a limit");
  }
  if (s->requests_completed + s->requests_aborted > r->total || (ended && s->requests_completed + s->requests_aborted != r->total)) {
    return equal("requests over", s->requests_completed + s->requests_aborted, r->total);
  }
  return (!ended || t->s.limits.request_timeout_ns != 0 || equal("requests aborted", s->requests_aborted, 0)) &&
         (!ended || equal("requests opened and closed", c->opened, c->closed)) && (!once || equal("sessions served twice", c->opened_twice, 0)) &&
         equal("violations", c->violations, 0) && equal("mismatches", r->mismatches, 0) && (!ended || equal("lanes", lanes, c->lanes_expected)) &&
         (!ended || equal("tokens", s->drafts_accepted, c->commits - c->batch)) && (!ended || equal("drafts", s->drafts_verified, c->queries - c->batch)) &&
         equal("selections_total", s->selections_total, lanes) && (!ended || equal("rows read back", r->rows_checked, t->bytes ? lanes : 0)) &&
         equal("rows fetched", s->rows_fetched, c->fetched) && equal("steps", s->steps, c->steps) &&
         equal("causes add up", ns, c->in_step_ns + c->gap_ns) && equal("pages given back", s->pages_given_back, c->given) &&
         (s->pages_revoked <= s->pages_lent || fail("pages", "more revoked than lent")) &&
         (s->pages_lent >= c->populated + c->given + c->kept || fail("pages", "more copied than lent")) &&
         (!ended || s->pages_lent <= c->populated + c->given + c->kept + s->pages_revoked || fail("pages", "lent, not copied and not revoked"));
}

static bool run_once(const struct tiny *t, char *text)
{
  struct kvl_err err = {""};
  static struct tiny_result r;
  int rc = tiny_run(t, &r, &err);
  if (rc != 0) {
    return fail("the run failed", err.text);
  }
  tiny_summary_text(&r.engine.summary, text, TEXT);
  return check_result(t, &r);
}

static bool play(uint64_t seed, const char *folder)
{
  static char text[5][TEXT];
  static const uint32_t threads[5] = {1, 1, 2, 5, 1};
  static struct tiny t;
  current = seed;
  tiny_random(&t, seed, folder);
  note = t.note;
  for (int i = 0; i < 5; i++) {
    t.threads = threads[i];
    t.bytes = i == 0 || i == 2;
    t.verify = i == 0;
    if (i > 2 && seed % 4 != 0) {
      break; /* the rest on every fourth */
    }
    if (!run_once(&t, text[i])) {
      return false;
    }
    if (strcmp(text[0], text[i]) != 0) {
      return fail("two runs of one seed differ", i == 1 ? "model and host plane" : "threads");
    }
  }
  if (t.s.workload.kind == KVL_WORK_FILE) {
    (void)unlink(t.s.workload.path);
  }
  return true;
}

/* I7: four requests join, nobody comes or goes for 300 tokens, then they end. The pool is short of their pages by all or by nothing. A page travels when the
 * batch has settled and a few times more as the others grow or end, never to and fro (in some 300 steps). */
static bool constant_load(uint64_t seed)
{
  static struct tiny t;
  static struct tiny_result r;
  for (uint32_t i = 0; i < 3 * 3 * 2 * 8 * 3; i++) {
    current = seed;
    note = t.note;
    tiny_init(&t);
    t.s.seed = seed;
    t.s.policy.admission_copy = (enum kvl_admission_copy)(i % 3);
    t.s.policy.give_order = (enum kvl_give_order)(i / 3 % 3);
    t.s.policy.revoke_order = (enum kvl_revoke_order)(i / 9 % 2);
    t.s.policy.horizon_ns = (uint64_t[]){0, 50000, 5000000}[i / 144];
    t.s.workload.requests = t.s.workload.concurrency = 4;
    t.s.workload.input_tokens = 200;
    t.s.workload.output_tokens = 300;
    t.verify = false;
    uint32_t spare = i / 18 % 8 * 20;
    tiny_pools(&t, 500, 4, spare, 5);
    (void)snprintf(t.note, sizeof t.note, "constant load, case %u: %u frames to lend", i, spare);
    struct kvl_err err = {""};
    if (tiny_run(&t, &r, &err) != 0) {
      return fail("the run failed", err.text);
    }
    uint64_t pages = 4 * 500 / t.s.policy.page_tokens;
    if (r.report.lent_again_max > 6 || r.report.given > pages || r.engine.summary.pages_revoked > 2 * pages) {
      char text[128];
      (void)snprintf(text, sizeof text, "one page was brought %llu times; of %llu pages %llu were given back, %llu taken",
                     (unsigned long long)r.report.lent_again_max, (unsigned long long)pages, (unsigned long long)r.report.given,
                     (unsigned long long)r.engine.summary.pages_revoked);
      return fail("pages go to and fro", text);
    }
  }
  return true;
}

/* A token's luck is its own: with every draft verified, requests take the same steps in every mode, at every batch, and however late copies are. */
static bool same_luck(uint64_t seed)
{
  static struct tiny t;
  static struct tiny_result r;
  uint64_t verified = 0, accepted = 0;
  for (uint32_t i = 0; i < 12; i++) {
    current = seed;
    note = t.note;
    tiny_init(&t);
    t.s.seed = seed;
    t.s.mode = (enum kvl_mode)(i % 3);
    t.s.speculation.method = KVL_SPECULATION_DSPARK;
    t.s.speculation.drafts = 4;
    t.s.speculation.accepted_mean_milli = 2700;
    (void)snprintf(t.s.speculation.shape, sizeof t.s.speculation.shape, "chat");
    t.s.speculation.confidence_spread_permille = 600;
    t.s.speculation.cost_ns_by_tokens = (struct kvl_curve){.n = 1, .x = {1}, .y = {1}};
    t.s.policy.tail_tokens = 128;
    t.s.workload.output_tokens = 90;
    t.s.workload.concurrency = i < 6 ? 6 : 1;
    t.s.node.decode_gpus = 1 + i % 2;
    t.bytes = true;
    tiny_pools(&t, 151, 3, 10, 6);
    t.delay = (struct delay_config){.seed = seed + i, .max_ns = i % 4 == 3 ? 1u << 12 : 0};
    (void)snprintf(t.note, sizeof t.note, "same luck, case %u", i);
    struct kvl_err err = {""};
    if (tiny_run(&t, &r, &err) != 0) {
      return fail("the run failed", err.text);
    }
    verified = i == 0 ? r.engine.summary.drafts_verified : verified;
    accepted = i == 0 ? r.engine.summary.drafts_accepted : accepted;
    if (!check_result(&t, &r) || !equal("drafts verified", r.engine.summary.drafts_verified, verified) ||
        !equal("drafts accepted", r.engine.summary.drafts_accepted, accepted)) {
      return false;
    }
  }
  return accepted != 0 || fail("no draft", "was accepted");
}

/* The project's own scenarios, shortened and short of memory, with copies that land late. */
static bool real_scenario(uint64_t seed, const char *name, const char *const *sets, unsigned count, uint32_t slots, bool bytes)
{
  static struct tiny t;
  static char text[TEXT];
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  char path[512];
  current = seed;
  note = name;
  (void)snprintf(path, sizeof path, "%s/%s.json", KVL_SCENARIOS, name);
  if (kvl_scenario_load(&doc, path, sets, count, &err) != 0) {
    return fail("the scenario does not load", err.text);
  }
  memset(&t, 0, sizeof t);
  t.s = *kvl_scenario_of(doc);
  t.s.seed = seed;
  t.slots = slots;
  t.threads = 2;
  t.bytes = bytes;
  t.delay = (struct delay_config){.seed = seed, .max_ns = 40000000};
  bool ok = run_once(&t, text);
  kvl_scenario_free(doc);
  return ok;
}

static bool real_scenarios(uint64_t seed)
{
  static const char *const mooncake[] = {"workload.requests=25", "node.kv_pool_bytes=150000000"};
  static const char *const agent[] = {"workload.requests=15", "node.kv_pool_bytes=150000000", "workload.time_scale=0.02"};
  static const char *const published[] = {"workload.concurrency=10", "workload.requests=20", "workload.input_tokens=4001", "workload.cached_tokens=4000",
                                          "workload.output_tokens=70", "workload.open_interval_ms=1", "policy.hot_rows=700", "policy.bank_rows=0",
                                          "node.kv_pool_bytes=40000000", "node.host_pool_bytes=50000000", "policy.admission_copy=side_stream",
                                          "policy.revoke_order=least_selected", "selection.preset=cold-a", "selection.library_sessions=0"};
  return real_scenario(seed, "mooncake-sample", mooncake, 2, 64, false) && real_scenario(seed, "agent-sample", agent, 3, 64, false) &&
         real_scenario(seed, "published-256", published, sizeof published / sizeof published[0], 8, true);
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint32_t runs = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : RUNS;
  char folder[] = "/tmp/kvl-engine-XXXXXX";
  if (mkdtemp(folder) == NULL) {
    perror("mkdtemp");
    return 1;
  }
  printf("seed %llu, %u scenarios\n", (unsigned long long)seed, runs);
  (void)fflush(stdout);
  uint32_t failed = (uint32_t)!constant_load(seed) + (uint32_t)!same_luck(seed) + (uint32_t)!real_scenarios(seed);
  static const uint64_t rare[] = {909, 5792, 7446}; /* a page is taken back between its admission and the copy, and its frame lent anew in the same gap */
  for (uint32_t i = 0; i < sizeof rare / sizeof rare[0] && runs != 1; i++) {
    failed += !play(rare[i], folder);
  }
  for (uint32_t i = 0; i < runs; i++) {
    failed += !play(seed + i, folder);
  }
  (void)rmdir(folder);
  printf("%u of %u failed\n", failed, runs);
  return failed != 0;
}
