#include "sim/reproduce.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/link.h"

/* Seven numbers are fitted to seven rows of the runs without speculation, one more to one row with it; the verdict is on the others. */
static const struct {
  const char *id;
  enum kvl_row_use use;
  const char *mode, *metric, *unit; /* what is simulated for it: a row that says another is another row */
} row_uses[] = {
  {"P01", KVL_ROW_CALIBRATION, "resident", "sessions_per_decode_gpu_max", "sessions"},
  {"P02", KVL_ROW_CALIBRATION, "adaptive", "batch_max", "requests"},
  {"P03", KVL_ROW_VERDICT, "resident", "output_throughput", "tok/s"},
  {"P04", KVL_ROW_VERDICT, "adaptive", "output_throughput", "tok/s"},
  {"P05", KVL_ROW_CALIBRATION, "resident", "batch_median", "requests"},
  {"P06", KVL_ROW_VERDICT, "adaptive", "batch_median", "requests"},
  {"P07", KVL_ROW_CALIBRATION, "resident", "request_rate_median", "tok/s"},
  {"P08", KVL_ROW_CALIBRATION, "adaptive", "request_rate_median", "tok/s"},
  {"P09", KVL_ROW_VERDICT, "resident", "ttft_p90", "s"},
  {"P10", KVL_ROW_VERDICT, "adaptive", "ttft_p90", "s"},
  {"P11", KVL_ROW_VERDICT, "resident", "output_throughput", "tok/s"},
  {"P12", KVL_ROW_VERDICT, "adaptive", "output_throughput", "tok/s"},
  {"P13", KVL_ROW_CALIBRATION, "resident", "batch_median", "requests"},
  {"P14", KVL_ROW_VERDICT, "adaptive", "batch_median", "requests"},
  {"P15", KVL_ROW_VERDICT, "adaptive", "throughput_vs_resident", "%"},
  {"P16", KVL_ROW_CALIBRATION, "adaptive", "step_added_at_matched_batch", "ms"},
  {"P17", KVL_ROW_CALIBRATION, "adaptive", "admission_serialized", "ms"},
  {"P18", KVL_ROW_PRINTED, "adaptive", "later_layer_demand_misses", "selections"},
  {"P19", KVL_ROW_VERDICT, "adaptive", "later_layer_demand_miss_share", "%"},
  {"P20", KVL_ROW_PRINTED, "adaptive", "prefetch_rounds_landed_in_time", "rounds"},
};
enum { ALSO_MAX = 8 };
enum { USED_ROWS = sizeof row_uses / sizeof row_uses[0] };

enum { TOP = 256, MATCHED = 44, LOW_RUNS = 3 };
static const uint32_t low_concurrency[LOW_RUNS] = {16, 32, 64};
enum { FULL_RUNS = 2 };
static const uint32_t full_concurrency[FULL_RUNS] = {64, 256};
static const char drafts_on[] = "speculation=deepseek-v4.1-flash.dspark";

/* Rounds of the prefetch at full batches: whole runs of it take minutes, and what a round does does not depend on how the batch came to be full. So all
 * sessions are opened at once, prefill does not hold them up, and each decodes for 100 tokens. Nothing but the bank limits what is announced. */
#define FULL_ROUNDS "policy.prefetch=pool", "workload.open_interval_ms=0", "node.prefill_gpus=64", "workload.output_tokens=100"
static const char *const full_rounds[] = {FULL_ROUNDS, NULL};

/* What row P19 hangs on and nobody published: how far the queries of a step differ (only the bound is), how many there are (another model's are), and the hot
 * cache (other systems have k + 64 rows and more). */
#define EDGE_OVERLAP "selection.query_overlap=0.9"
#define EVERY_DRAFT "speculation.cost_table=[[1,1]]"
static const struct {
  const char *name, *also[ALSO_MAX];
} demands[KVL_DEMANDS] = {
  {"queries share 90 % of their rows", {FULL_ROUNDS, EDGE_OVERLAP, NULL}},
  {"every draft verified", {FULL_ROUNDS, EVERY_DRAFT, NULL}},
  {"both", {FULL_ROUNDS, EDGE_OVERLAP, EVERY_DRAFT, NULL}},
  {"90 %, and a hot cache of 576", {FULL_ROUNDS, EDGE_OVERLAP, "policy.hot_rows=576", NULL}},
};

/* What a number is when the row that it is fitted to is left out: the plainest assumption, not a second fit. */
static const struct kvl_fit prior = {
  .kv_pool_bytes = 0,            /* from P05 then: a median batch of 44 in 46 slots is what the prior cannot know; see fit_pool */
  .sessions_per_gpu_max = 0,     /* no limit but memory */
  .requests_per_session = 1.5,   /* also what is nearest to this wins when P05 cannot tell lengths apart */
  .law_fixed_ms = 0,             /* nothing but what tokens cost */
  .law_token_ms = 0,             /* nothing but a constant */
  .bookkeeping_ms_at_44 = 0,     /* the mode costs its fetches only */
  .admission_ms = 0,             /* an admission costs its copy only */
  .state_bytes_per_token = 0,    /* speculation takes its weights, graphs and scratch only */
};

/* One run: what differs from the scenario. */
struct variant {
  const char *mode;
  uint32_t concurrency;
  bool drafts;
  const char *const *also;       /* settings, ends with NULL; NULL: none */
  uint32_t requests;             /* 0: as many rounds of the concurrency as are fitted */
};

struct bench {
  const struct kvl_reproduce_options *o;
  struct kvl_reproduction *out;
  struct kvl_err *err;
  const struct kvl_published_row *by_id[USED_ROWS];
};

struct measured {
  struct kvl_summary s;
  uint64_t matched_ns;
};

static double published(const struct bench *b, const char *id)
{
  for (uint32_t i = 0; i < USED_ROWS; i++) {
    if (strcmp(row_uses[i].id, id) == 0) {
      return (b->by_id[i]->low + b->by_id[i]->high) / 2;
    }
  }
  return 0;
}

static bool left_out(const struct bench *b, const char *id)
{
  return b->o->leave_out != NULL && strcmp(b->o->leave_out, id) == 0;
}

static int set_number(struct kvl_scenario_doc *doc, const char *key, double value, struct kvl_err *err)
{
  char text[128];
  (void)snprintf(text, sizeof text, "%s=%.17g", key, value);
  return kvl_scenario_set(doc, text, err);
}

/* Loads the scenario with the fitted numbers put in (those that were refitted). */
static int load(struct bench *b, struct kvl_scenario_doc **doc, const struct variant *v)
{
  char mode_set[64];
  (void)snprintf(mode_set, sizeof mode_set, "mode=%s", v->mode);
  const char *sets[KVL_REPRODUCE_SETS_MAX + 2 + ALSO_MAX] = {mode_set};
  unsigned count = 1;
  if (v->drafts) {
    sets[count++] = drafts_on;
  }
  for (unsigned i = 0; i < b->o->set_count; i++) {
    sets[count++] = b->o->sets[i];
  }
  for (unsigned i = 0; v->also != NULL && v->also[i] != NULL && i < ALSO_MAX; i++) {
    sets[count++] = v->also[i];
  }
  int rc = kvl_scenario_load(doc, b->o->scenario, sets, count, b->err);
  const struct kvl_fit *f = &b->out->fit;
  if (rc == 0 && b->out->refitted) {
    rc = set_number(*doc, "node.kv_pool_bytes", floor(f->kv_pool_bytes), b->err);
    rc = rc != 0 ? rc : set_number(*doc, "node.sessions_per_gpu_max", f->sessions_per_gpu_max, b->err);
    rc = rc != 0 ? rc : set_number(*doc, "costs.law_fixed_ms", floor(f->law_fixed_ms * 1e6) / 1e6, b->err);
    rc = rc != 0 ? rc : set_number(*doc, "costs.law_token_ms", floor(f->law_token_ms * 1e6) / 1e6, b->err);
    rc = rc != 0 ? rc : set_number(*doc, "costs.bookkeeping_ms_at_44", floor(f->bookkeeping_ms_at_44 * 1e6) / 1e6, b->err);
    rc = rc != 0 ? rc : set_number(*doc, "costs.admission_ms", floor(f->admission_ms * 1e6) / 1e6, b->err);
    rc = rc != 0 || !v->drafts ? rc : set_number(*doc, "speculation.state_bytes_per_token", f->state_bytes_per_token, b->err);
  }
  rc = rc != 0 ? rc : set_number(*doc, "workload.concurrency", v->concurrency, b->err);
  rc = rc != 0 ? rc : set_number(*doc, "workload.requests", v->requests != 0 ? v->requests : floor(f->requests_per_session * v->concurrency), b->err);
  if (rc != 0) {
    kvl_scenario_free(*doc);
    *doc = NULL;
  }
  return rc;
}

static int run_variant(struct bench *b, const struct variant *v, struct measured *m)
{
  memset(m, 0, sizeof *m);
  if (b->o->say != NULL) {
    char what[160];
    bool also = v->also != NULL && v->also[0] != NULL;
    (void)snprintf(what, sizeof what, "%s%s, %u concurrent%s%s", v->mode, v->drafts ? " with drafts" : "", v->concurrency, also ? ", " : "",
                   also ? v->also[0] : "");
    b->o->say(b->o->say_context, what);
  }
  struct kvl_scenario_doc *doc;
  int rc = load(b, &doc, v);
  if (rc != 0) {
    return rc;
  }
  struct kvl_run_options options = {.plane = "model", .store = b->o->store, .command = "kvloan reproduce", .threads = b->o->threads,
                                    .matched_batch = MATCHED, .stop = b->o->stop};
  struct kvl_run_result result;
  rc = kvl_run(doc, &options, &result, b->err);
  kvl_scenario_free(doc);
  if (rc == 0 && result.engine.status == KVL_RUN_INTERRUPTED) {
    rc = kvl_err_set(b->err, -EINTR, "interrupted");
  }
  m->s = result.engine.summary;
  m->matched_ns = result.engine.matched_step_ns;
  return rc;
}

static int run(struct bench *b, const char *mode, uint32_t concurrency, struct measured *m)
{
  const struct variant v = {.mode = mode, .concurrency = concurrency};
  return run_variant(b, &v, m);
}

/* ---- the fit: rows P01, P02, P05, P07, P08, P13, P16, P17 and nothing else ---- */

/* P01: the pool holds that many resident sessions and half of one more. */
static int fit_pool(struct bench *b, struct kvl_fit *f)
{
  struct kvl_scenario_doc *doc;
  const struct variant v = {.mode = "resident", .concurrency = TOP};
  int rc = load(b, &doc, &v);
  if (rc != 0) {
    return rc;
  }
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  struct kvl_session_bytes bytes;
  kvl_session_bytes(s, s->workload.input_tokens + s->workload.output_tokens, &bytes);
  double sessions = left_out(b, "P01") ? published(b, "P05") : published(b, "P01"); /* without P01 the median batch is all that is known */
  f->kv_pool_bytes = (sessions + 0.5) * (double)bytes.resident;
  /* P17: what is left of the serialized work when the copy of a whole session is taken off. */
  double copy_ms = (double)kvl_link_copy_ns(&s->hardware.link, s->workload.input_tokens / s->policy.page_tokens * kvl_page_bytes(s)) / 1e6;
  f->admission_ms = left_out(b, "P17") ? prior.admission_ms : fmax(0.0, published(b, "P17") - copy_ms);
  kvl_scenario_free(doc);
  return 0;
}

/* P05: the run's length, in whole and half rounds of the concurrency, whose median batch is nearest. The median hardly depends on it (once the slots
 * are full it is what the hand-over leaves of them), so several lengths are equal: of those the one nearest to the prior. */
static int fit_requests(struct bench *b, struct kvl_fit *f)
{
  if (left_out(b, "P05")) {
    f->requests_per_session = prior.requests_per_session;
    return 0;
  }
  double best = 0, best_off = INFINITY;
  for (double rounds = 1; rounds <= 4; rounds += 0.5) {
    struct measured m;
    f->requests_per_session = rounds;
    int rc = run(b, "resident", TOP, &m);
    if (rc != 0) {
      return rc;
    }
    double off = fabs(m.s.decode_batch_p50 - published(b, "P05"));
    bool nearer = fabs(rounds - prior.requests_per_session) < fabs(best - prior.requests_per_session);
    if (off < best_off || (off == best_off && nearer)) {
      best = rounds;
      best_off = off;
    }
  }
  f->requests_per_session = best;
  return 0;
}

/* P07, P08, P16: Newton steps on a nearly linear problem. The median request's time a token is fixed + batch x token + what the mode adds. */
static int fit_times(struct bench *b, struct kvl_fit *f)
{
  f->bookkeeping_ms_at_44 = left_out(b, "P16") ? prior.bookkeeping_ms_at_44 : f->bookkeeping_ms_at_44;
  f->law_fixed_ms = left_out(b, "P07") ? prior.law_fixed_ms : f->law_fixed_ms; /* one row for two numbers: the other is taken to be nothing */
  f->law_token_ms = left_out(b, "P08") ? prior.law_token_ms : f->law_token_ms;
  for (int round = 0; round < 8; round++) {
    struct measured resident, adaptive, matched_resident, matched_adaptive;
    int rc = run(b, "resident", TOP, &resident);
    rc = rc != 0 ? rc : run(b, "adaptive", TOP, &adaptive);
    rc = rc != 0 ? rc : run(b, "resident", 2 * MATCHED, &matched_resident);
    rc = rc != 0 ? rc : run(b, "adaptive", 2 * MATCHED, &matched_adaptive);
    if (rc != 0) {
      return rc;
    }
    double need_resident = 1000 / published(b, "P07") - 1000 / resident.s.request_rate_tok_per_s_p50;
    double need_adaptive = 1000 / published(b, "P08") - 1000 / adaptive.s.request_rate_tok_per_s_p50;
    double added = ((double)matched_adaptive.matched_ns - (double)matched_resident.matched_ns) / 1e6;
    double need_added = left_out(b, "P16") ? 0 : published(b, "P16") - added;
    double batch_resident = published(b, "P01"), batch_adaptive = published(b, "P02");
    f->bookkeeping_ms_at_44 = fmax(0.0, f->bookkeeping_ms_at_44 + need_added);
    if (left_out(b, "P07")) {
      need_resident = 0;
      f->law_token_ms += need_adaptive / batch_adaptive;
    } else if (left_out(b, "P08")) {
      need_adaptive = 0;
      f->law_fixed_ms += need_resident;
    } else {
      double slope = (need_adaptive - need_added * sqrt(batch_adaptive / MATCHED) - need_resident) / (batch_adaptive - batch_resident);
      f->law_token_ms = fmax(0.0, f->law_token_ms + slope);
      f->law_fixed_ms = fmax(0.0, f->law_fixed_ms + need_resident - slope * batch_resident);
    }
    if (fabs(need_resident) < 0.01 && fabs(need_adaptive) < 0.02 && fabs(need_added) < 0.01) {
      break;
    }
  }
  return 0;
}

/* P13: what is left of the pool beside the speculation's weights, graphs and scratch holds that many resident sessions with their draft state, and half of
 * one more. */
static int fit_speculation(struct bench *b, struct kvl_fit *f)
{
  if (left_out(b, "P13")) {
    f->state_bytes_per_token = prior.state_bytes_per_token;
    return 0;
  }
  const struct variant v = {.mode = "resident", .concurrency = TOP, .drafts = true};
  struct kvl_scenario_doc *doc;
  f->state_bytes_per_token = 0;
  int rc = load(b, &doc, &v);
  if (rc != 0) {
    return rc;
  }
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  uint64_t tokens = (uint64_t)s->workload.input_tokens + s->workload.output_tokens;
  struct kvl_session_bytes bytes;
  kvl_session_bytes(s, tokens, &bytes);
  double each = (double)kvl_pool_bytes(s) / (published(b, "P13") + 0.5) - (double)bytes.resident;
  f->state_bytes_per_token = fmax(0.0, floor(each / (double)tokens * 256) / 256);
  kvl_scenario_free(doc);
  return 0;
}

static int refit(struct bench *b)
{
  struct kvl_fit *f = &b->out->fit;
  int rc = fit_pool(b, f);
  if (rc != 0) {
    return rc;
  }
  f->sessions_per_gpu_max = left_out(b, "P02") ? prior.sessions_per_gpu_max : published(b, "P02");
  b->out->refitted = true;
  rc = fit_requests(b, f);
  rc = rc != 0 ? rc : fit_times(b, f);
  return rc != 0 ? rc : fit_speculation(b, f);
}

/* ---- the rows ---- */

double kvl_range_miss_percent(double low, double high, double simulated_low, double simulated_high)
{
  double below = simulated_low - low, above = simulated_high - high;
  double miss = below < 0 && -below >= above ? below : above > 0 ? above : 0, end = miss < 0 ? fabs(low) : fabs(high);
  return 100 * miss / (end != 0 ? end : fmax(fabs(low), fabs(high)));
}

static void put(struct bench *b, const char *id, double low, double high)
{
  for (uint32_t i = 0; i < USED_ROWS; i++) {
    if (strcmp(row_uses[i].id, id) != 0) {
      continue;
    }
    const struct kvl_published_row *p = b->by_id[i];
    struct kvl_reproduced_row *r = &b->out->row[b->out->rows++];
    *r = (struct kvl_reproduced_row){.published = p, .use = left_out(b, id) ? KVL_ROW_LEFT_OUT : row_uses[i].use,
                                     .simulated = (low + high) / 2, .simulated_low = low, .simulated_high = high};
    if (r->use == KVL_ROW_PRINTED) { /* shown as they are */
      r->difference_percent = p->low + p->high == 0 ? 0 : 100 * (r->simulated / ((p->low + p->high) / 2) - 1);
      r->within = low >= p->low && high <= p->high;
    } else if (p->low == p->high) {
      r->difference_percent = 100 * (r->simulated / p->low - 1);
      r->within = fabs(r->difference_percent) <= 5;
    } else {
      r->difference_percent = kvl_range_miss_percent(p->low, p->high, low, high);
      r->within = low >= p->low && high <= p->high;
    }
  }
}

static double demand_percent(const struct kvl_summary *s)
{
  return s->prefetch_later_lanes == 0 ? 0 : 100 * (double)s->prefetch_later_demand / (double)s->prefetch_later_lanes;
}

static int run_demands(struct bench *b)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < KVL_DEMANDS; i++) {
    const struct variant v = {.mode = "adaptive", .concurrency = TOP, .requests = TOP, .drafts = true, .also = demands[i].also};
    struct measured m;
    rc = run_variant(b, &v, &m);
    b->out->demand[b->out->demands++] = (struct kvl_later_demand){demands[i].name, demand_percent(&m.s)};
  }
  return rc;
}

/* With drafts: P11 to P14 from whole runs; P18 to P20 from rounds at full batches. */
static int run_draft_rows(struct bench *b, double *throughput)
{
  const struct variant resident = {.mode = "resident", .concurrency = TOP, .drafts = true}, adaptive = {.mode = "adaptive", .concurrency = TOP, .drafts = true};
  struct measured r, a;
  int rc = run_variant(b, &resident, &r);
  rc = rc != 0 ? rc : run_variant(b, &adaptive, &a);
  double demand = 0;
  struct measured rounds;
  struct variant full = {.mode = "adaptive", .also = full_rounds};
  for (int i = 0; rc == 0 && i < FULL_RUNS; i++) {
    full.concurrency = full.requests = full_concurrency[i];
    rc = run_variant(b, &full, &rounds);
    demand += (double)rounds.s.prefetch_later_demand;
  }
  double landed = rc != 0 || rounds.s.prefetch_groups == 0 ? 0 : (double)rounds.s.prefetch_landed / (double)rounds.s.prefetch_groups;
  full.drafts = true;
  rc = rc != 0 ? rc : run_variant(b, &full, &rounds);
  if (rc != 0) {
    return rc;
  }
  put(b, "P11", r.s.output_throughput_tok_per_s, r.s.output_throughput_tok_per_s);
  put(b, "P12", a.s.output_throughput_tok_per_s, a.s.output_throughput_tok_per_s);
  put(b, "P13", r.s.decode_batch_p50, r.s.decode_batch_p50);
  put(b, "P14", a.s.decode_batch_p50, a.s.decode_batch_p50);
  put(b, "P18", demand, demand);
  double share = demand_percent(&rounds.s);
  put(b, "P19", share, share); /* where all histories fit nothing is fetched: the row can only speak of full batches */
  put(b, "P20", landed * published(b, "P20"), landed * published(b, "P20"));
  *throughput = a.s.output_throughput_tok_per_s;
  return 0;
}

/* What was tried without gain, and what a table that knows nothing or another model does: base[0] without drafts, base[1] with. */
static int run_controls(struct bench *b, const double base[2])
{
  static const struct {
    const char *name, *mode;
    bool drafts;
    const char *also[2];
  } controls[] = {
    {"fixed mode", "fixed", false, {NULL}},
    {"population on a side stream", "adaptive", false, {"policy.admission_copy=side_stream", NULL}},
    {"population in bounded pieces", "adaptive", false, {"policy.admission_copy=bounded", NULL}},
    {"every draft verified", "adaptive", true, {EVERY_DRAFT, NULL}},
    {"step times of V4-Flash at 8K", "adaptive", true, {"speculation.cost_table=[[1,5.1],[64,7.9],[256,11.5],[576,16.2]]", NULL}},
  };
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < sizeof controls / sizeof controls[0]; i++) {
    const struct variant v = {.mode = controls[i].mode, .concurrency = TOP, .drafts = controls[i].drafts, .also = controls[i].also};
    struct measured m;
    rc = run_variant(b, &v, &m);
    b->out->control[b->out->controls++] = (struct kvl_control){
      .name = controls[i].name,
      .drafts = controls[i].drafts,
      .throughput_tok_per_s = m.s.output_throughput_tok_per_s,
      .against_adaptive_percent = 100 * (m.s.output_throughput_tok_per_s / base[controls[i].drafts] - 1),
    };
  }
  return rc;
}

static int run_rows(struct bench *b)
{
  struct measured resident, adaptive, matched_resident, matched_adaptive;
  int rc = run(b, "resident", TOP, &resident);
  rc = rc != 0 ? rc : run(b, "adaptive", TOP, &adaptive);
  rc = rc != 0 ? rc : run(b, "resident", 2 * MATCHED, &matched_resident);
  rc = rc != 0 ? rc : run(b, "adaptive", 2 * MATCHED, &matched_adaptive);
  double low = INFINITY, high = -INFINITY, admission_ms = 0;
  for (int i = 0; rc == 0 && i < LOW_RUNS; i++) {
    struct measured r, a;
    rc = run(b, "resident", low_concurrency[i], &r);
    rc = rc != 0 ? rc : run(b, "adaptive", low_concurrency[i], &a);
    if (rc != 0) {
      break;
    }
    double loss = 100 * (a.s.output_throughput_tok_per_s / r.s.output_throughput_tok_per_s - 1);
    low = fmin(low, loss);
    high = fmax(high, loss);
    if (i == 0) { /* everything fits here, so every admission copies a whole session */
      admission_ms = (a.s.stall_ms_by_cause[KVL_STALL_ADMISSION] + a.s.stall_ms_by_cause[KVL_STALL_POPULATION]) / (double)a.s.requests_completed;
    }
  }
  if (rc != 0) {
    return rc;
  }
  double added_ms = ((double)matched_adaptive.matched_ns - (double)matched_resident.matched_ns) / 1e6;
  put(b, "P01", resident.s.sessions_per_decode_gpu_max, resident.s.sessions_per_decode_gpu_max);
  put(b, "P02", adaptive.s.decode_batch_max, adaptive.s.decode_batch_max);
  put(b, "P03", resident.s.output_throughput_tok_per_s, resident.s.output_throughput_tok_per_s);
  put(b, "P04", adaptive.s.output_throughput_tok_per_s, adaptive.s.output_throughput_tok_per_s);
  put(b, "P05", resident.s.decode_batch_p50, resident.s.decode_batch_p50);
  put(b, "P06", adaptive.s.decode_batch_p50, adaptive.s.decode_batch_p50);
  put(b, "P07", resident.s.request_rate_tok_per_s_p50, resident.s.request_rate_tok_per_s_p50);
  put(b, "P08", adaptive.s.request_rate_tok_per_s_p50, adaptive.s.request_rate_tok_per_s_p50);
  put(b, "P09", resident.s.ttft_s.p90, resident.s.ttft_s.p90);
  put(b, "P10", adaptive.s.ttft_s.p90, adaptive.s.ttft_s.p90);
  put(b, "P15", low, high);
  put(b, "P16", added_ms, added_ms);
  put(b, "P17", admission_ms, admission_ms);

  double base[2] = {adaptive.s.output_throughput_tok_per_s, 0};
  rc = run_draft_rows(b, &base[1]);
  rc = rc != 0 || !b->o->controls ? rc : run_controls(b, base);
  return rc != 0 || !b->o->controls ? rc : run_demands(b);
}

int kvl_reproduce(const struct kvl_reproduce_options *options, struct kvl_reproduction *out, struct kvl_err *err)
{
  memset(out, 0, sizeof *out);
  struct bench b = {.o = options, .out = out, .err = err};
  uint32_t count = 0;
  int rc = kvl_published_read(options->rows, out->published, &count, err);
  for (uint32_t i = 0; rc == 0 && i < USED_ROWS; i++) {
    for (uint32_t k = 0; k < count; k++) {
      if (strcmp(out->published[k].id, row_uses[i].id) == 0) {
        b.by_id[i] = &out->published[k];
      }
    }
    if (b.by_id[i] == NULL) {
      rc = kvl_err_set(err, -EINVAL, "%s: row %s is missing", options->rows, row_uses[i].id);
    } else if (strcmp(b.by_id[i]->mode, row_uses[i].mode) != 0 || strcmp(b.by_id[i]->metric, row_uses[i].metric) != 0 ||
               strcmp(b.by_id[i]->unit, row_uses[i].unit) != 0) {
      rc = kvl_err_set(err, -EINVAL, "%s: row %s: is %s, %s in %s; what is simulated for it is %s, %s in %s", options->rows, row_uses[i].id, b.by_id[i]->mode,
                       b.by_id[i]->metric, b.by_id[i]->unit, row_uses[i].mode, row_uses[i].metric, row_uses[i].unit);
    } else if (b.by_id[i]->low < 0 && strcmp(row_uses[i].unit, "%") != 0) {
      rc = kvl_err_set(err, -EINVAL, "%s: row %s: %s is not less than 0", options->rows, row_uses[i].id, row_uses[i].metric);
    } else if (b.by_id[i]->low + b.by_id[i]->high == 0 && row_uses[i].use != KVL_ROW_PRINTED) {
      rc = kvl_err_set(err, -EINVAL, "%s: row %s: nothing differs from 0 by so many per cent", options->rows, row_uses[i].id);
    }
  }
  bool known = options->leave_out == NULL;
  for (uint32_t i = 0; i < USED_ROWS; i++) {
    known = known || (left_out(&b, row_uses[i].id) && row_uses[i].use == KVL_ROW_CALIBRATION);
  }
  if (rc == 0 && !known) {
    rc = kvl_err_set(err, -EINVAL, "--leave-out=%s: not a row that calibration uses (P01, P02, P05, P07, P08, P13, P16, P17)", options->leave_out);
  }
  struct kvl_scenario_doc *doc = NULL;
  rc = rc != 0 ? rc : kvl_scenario_load(&doc, options->scenario, options->sets, options->set_count, err);
  if (rc != 0) {
    return rc;
  }
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  if (s->workload.kind != KVL_WORK_CLOSED) {
    rc = kvl_err_set(err, -EINVAL, "%s: workload.kind: the published experiment is a closed loop (nearest: closed)", options->scenario);
    kvl_scenario_free(doc);
    return rc;
  }
  out->fit = (struct kvl_fit){
    .kv_pool_bytes = (double)s->node.kv_pool_bytes,
    .sessions_per_gpu_max = s->node.sessions_per_gpu_max,
    .requests_per_session = (double)s->workload.requests / s->workload.concurrency,
    .law_fixed_ms = (double)s->costs.law_fixed_ns / 1e6,
    .law_token_ms = (double)s->costs.law_token_ns / 1e6,
    .bookkeeping_ms_at_44 = (double)s->costs.bookkeeping_ns_at_44 / 1e6,
    .admission_ms = (double)s->costs.admission_ns / 1e6,
  };
  kvl_scenario_free(doc);
  const struct variant drafts = {.mode = "resident", .concurrency = TOP, .drafts = true};
  rc = load(&b, &doc, &drafts);
  if (rc != 0) {
    return rc;
  }
  out->fit.state_bytes_per_token = (double)kvl_scenario_of(doc)->speculation.state_bytes_per_token_q8 / 256;
  kvl_scenario_free(doc);
  if (options->refit || options->leave_out != NULL) {
    rc = refit(&b);
  }
  rc = rc != 0 ? rc : run_rows(&b);
  for (uint32_t i = 1; rc == 0 && i < out->rows; i++) { /* in the order of their names */
    struct kvl_reproduced_row row = out->row[i];
    uint32_t at = i;
    for (; at > 0 && strcmp(out->row[at - 1].published->id, row.published->id) > 0; at--) {
      out->row[at] = out->row[at - 1];
    }
    out->row[at] = row;
  }
  for (uint32_t i = 0; rc == 0 && i < out->rows; i++) {
    const struct kvl_reproduced_row *r = &out->row[i];
    if (!isfinite(r->simulated_low) || !isfinite(r->simulated_high)) {
      rc = kvl_err_set(err, -EINVAL, "%s: row %s: runs in which no token is decoded have nothing to compare", options->scenario, r->published->id);
    }
  }
  out->passed = rc == 0;
  for (uint32_t i = 0; i < out->rows; i++) {
    if (out->row[i].use == KVL_ROW_VERDICT) {
      out->worst_percent = fmax(out->worst_percent, fabs(out->row[i].difference_percent));
      out->passed = out->passed && out->row[i].within;
    }
  }
  return rc;
}
