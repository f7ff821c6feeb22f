/* What a plan found, as JSON. Nothing in it depends on how or when the runs were made: no run numbers, no times of the clock, no versions. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/explain.h"
#include "sim/link.h"
#include "sim/plan.h"

enum { DEPTH_MAX = 12, LINE = 900, SHOWN_MAX = 60 };

struct pen {
  FILE *out;
  bool first[DEPTH_MAX];
  int depth;
};

static void lead(struct pen *p, const char *key)
{
  if (p->depth > 0) {
    (void)fprintf(p->out, "%s\n%*s", p->first[p->depth] ? "" : ",", 2 * p->depth, "");
    p->first[p->depth] = false;
  }
  if (key != NULL) {
    kvl_text_json_string(p->out, key);
    (void)fputs(": ", p->out);
  }
}

static void open_part(struct pen *p, const char *key, char bracket)
{
  lead(p, key);
  (void)fputc(bracket, p->out);
  p->first[++p->depth] = true;
}

static void close_part(struct pen *p, char bracket)
{
  bool empty = p->first[p->depth--];
  if (!empty) {
    (void)fprintf(p->out, "\n%*s", 2 * p->depth, "");
  }
  (void)fputc(bracket, p->out);
}

static void put_text(struct pen *p, const char *key, const char *text)
{
  lead(p, key);
  kvl_text_json_string(p->out, text);
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void put_line(struct pen *p, const char *key, const char *format, ...)
{
  char text[LINE];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  put_text(p, key, text);
}

static void put_raw(struct pen *p, const char *key, const char *json)
{
  lead(p, key);
  (void)fputs(json, p->out);
}

static void put_number(struct pen *p, const char *key, double value)
{
  char text[KVL_TEXT_NUMBER_MAX];
  put_raw(p, key, kvl_text_double(text, value));
}

static void put_count(struct pen *p, const char *key, uint64_t value)
{
  lead(p, key);
  (void)fprintf(p->out, "%" PRIu64, value);
}

static void put_flag(struct pen *p, const char *key, bool value)
{
  put_raw(p, key, value ? "true" : "false");
}

/* ---- a candidate ---- */

static void put_settings(struct pen *p, const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c)
{
  char text[LINE];
  kvl_plan_settings_text(plan, c, text, sizeof text);
  put_text(p, "what", text);
  open_part(p, "settings", '{');
  if (plan->nodes > 1) {
    put_text(p, "node", plan->node[c->node].name);
  }
  for (unsigned a = 0; a < plan->axes; a++) {
    for (unsigned k = 0; k < plan->axis[a].keys && c->at[a] != KVL_PLAN_NOT; k++) {
      const char *value = plan->axis[a].value[c->at[a]][k];
      if (value != NULL) {
        put_raw(p, plan->axis[a].key[k], value);
      }
    }
  }
  close_part(p, '}');
}

static void put_against_targets(struct pen *p, const struct kvl_capacity_plan *plan, const struct kvl_plan_figures *f)
{
  open_part(p, "targets", '[');
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    if (!isnan(plan->target[t])) {
      open_part(p, NULL, '{');
      put_text(p, "target", kvl_plan_target_name((enum kvl_plan_target)t));
      put_number(p, "asked", plan->target[t]);
      put_number(p, "is", f->value[t]);
      put_text(p, "unit", kvl_plan_target_unit((enum kvl_plan_target)t));
      put_number(p, "margin_percent", -100 * f->missed[t]);
      put_flag(p, "met", f->missed[t] <= 0);
      close_part(p, '}');
    }
  }
  close_part(p, ']');
}

static void put_figures(struct pen *p, const struct kvl_plan_search *s, const struct kvl_summary *sum, const struct kvl_plan_figures *f)
{
  open_part(p, "figures", '{');
  put_number(p, "output_throughput_tok_per_s", sum->output_throughput_tok_per_s);
  put_number(p, "goodput_req_per_s", sum->goodput_req_per_s);
  put_number(p, "ttft_s_p50", sum->ttft_s.p50);
  put_number(p, "ttft_s_p90", sum->ttft_s.p90);
  put_number(p, "ttft_s_p99", sum->ttft_s.p99);
  put_number(p, "tpot_ms_p50", sum->tpot_ms.p50);
  put_number(p, "tpot_ms_p90", sum->tpot_ms.p90);
  put_number(p, "tpot_ms_p99", sum->tpot_ms.p99);
  put_number(p, "e2e_s_p90", sum->e2e_s.p90);
  put_number(p, "request_rate_tok_per_s_p10", sum->request_rate_tok_per_s_p10);
  put_number(p, "request_rate_tok_per_s_p50", sum->request_rate_tok_per_s_p50);
  put_count(p, "decode_batch_p50", sum->decode_batch_p50);
  put_count(p, "sessions_per_decode_gpu_max", sum->sessions_per_decode_gpu_max);
  put_number(p, "prefill_busy_share", sum->prefill_busy_share);
  put_number(p, "host_link_busy_share", sum->host_link_busy_share);
  put_count(p, "requests_completed", sum->requests_completed);
  put_number(p, s->priced ? "cost_per_million_output_tokens" : "gpu_hours_per_million_output_tokens", f->cost);
  if (f->steady) {
    put_number(p, "output_throughput_steady_tok_per_s", sum->output_throughput_steady_tok_per_s);
    put_text(p, "cost_over", "the steady window");
  }
  close_part(p, '}');
}

static void put_seeds(struct pen *p, const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c)
{
  uint32_t met = 0, n = 0;
  open_part(p, "seeds", '{');
  for (uint32_t r = 0; r < c->seeds; r++) {
    n += c->full[r].known;
    met += c->full[r].known && c->full[r].worst <= 0;
  }
  put_count(p, "runs", c->seeds);
  put_count(p, "complete", n);
  put_count(p, "met", met);
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    char key[64];
    double low = INFINITY, high = -INFINITY;
    if (isnan(plan->target[t]) || t == KVL_PLAN_HOLD) {
      continue;
    }
    for (uint32_t r = 0; r < c->seeds; r++) {
      low = c->full[r].known && c->full[r].value[t] < low ? c->full[r].value[t] : low;
      high = c->full[r].known && c->full[r].value[t] > high ? c->full[r].value[t] : high;
    }
    (void)snprintf(key, sizeof key, "%s_least", kvl_plan_target_name((enum kvl_plan_target)t));
    put_number(p, key, low);
    (void)snprintf(key, sizeof key, "%s_most", kvl_plan_target_name((enum kvl_plan_target)t));
    put_number(p, key, high);
  }
  close_part(p, '}');
}

static void put_candidate(struct pen *p, const char *key, const struct kvl_plan_search *s, int index)
{
  if (index < 0) {
    put_raw(p, key, "null");
    return;
  }
  const struct kvl_plan_candidate *c = &s->candidate[index];
  open_part(p, key, '{');
  put_settings(p, s->plan, c);
  put_count(p, "gpus", c->gpus);
  put_count(p, "decode_gpus", c->decode_gpus);
  if (s->priced) {
    put_number(p, "price_per_hour", c->price);
  }
  put_count(p, "sessions_per_decode_gpu", c->fit);
  put_text(p, "sessions_bound_by", c->bound_by);
  put_against_targets(p, s->plan, &c->full[0]);
  put_seeds(p, s->plan, c);
  put_figures(p, s, &c->result[0].summary, &c->full[0]);
  put_line(p, "run", "sweep \"%s: %s\", point %u", s->plan->name, s->round[c->round - 1].name, (unsigned)c->point);
  close_part(p, '}');
}

/* ---- in words ---- */

/* "time to first token, p90: 22.6 s, 9.5 % better than the 25 s asked for" */
static void target_text(const struct kvl_capacity_plan *plan, const struct kvl_plan_figures *f, int t, char *text, size_t size)
{
  char is[KVL_TEXT_NUMBER_MAX], asked[KVL_TEXT_NUMBER_MAX];
  double by = 100 * fabs(f->missed[t]);
  if (f->missed[t] > 2) {
    (void)snprintf(text, size, "%s is %s %s, and %s %s were asked for: short by a factor of %.3g", kvl_plan_target_meaning((enum kvl_plan_target)t),
                   kvl_text_human(is, f->value[t], t == KVL_PLAN_HOLD), kvl_plan_target_unit((enum kvl_plan_target)t), kvl_text_human(asked, plan->target[t], t == KVL_PLAN_HOLD),
                   kvl_plan_target_unit((enum kvl_plan_target)t), 1 + f->missed[t]);
    return;
  }
  (void)snprintf(text, size, "%s is %s %s, %.1f %% %s the %s %s asked for", kvl_plan_target_meaning((enum kvl_plan_target)t),
                 kvl_text_human(is, f->value[t], t == KVL_PLAN_HOLD), kvl_plan_target_unit((enum kvl_plan_target)t), by, f->missed[t] <= 0 ? "better than" : "short of",
                 kvl_text_human(asked, plan->target[t], t == KVL_PLAN_HOLD), kvl_plan_target_unit((enum kvl_plan_target)t));
}

static int worst_target(const struct kvl_plan_figures *f)
{
  int worst = -1;
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    if (!isnan(f->missed[t]) && (worst < 0 || f->missed[t] > f->missed[worst])) {
      worst = t;
    }
  }
  return worst;
}

/* Figures of the seed that does worst. */
static struct kvl_plan_figures worst_seed(const struct kvl_plan_candidate *c)
{
  struct kvl_plan_figures worst = c->full[0];
  for (uint32_t r = 1; r < c->seeds; r++) {
    worst = c->full[r].known && c->full[r].worst > worst.worst ? c->full[r] : worst;
  }
  return worst;
}

static void put_verdict(struct pen *p, const struct kvl_plan_search *s)
{
  char what[LINE / 2], how[LINE / 3];
  put_flag(p, "met", s->met);
  if (s->best < 0) {
    const char *why = "";
    for (uint32_t i = 0; i < s->candidates && why[0] == '\0'; i++) {
      why = s->candidate[i].reason;
    }
    put_line(p, "sentence", "No candidate can be run at all. The first one: %s", why);
    return;
  }
  const struct kvl_plan_candidate *c = &s->candidate[s->best];
  const struct kvl_plan_figures worst = worst_seed(c);
  kvl_plan_settings_text(s->plan, c, what, sizeof what);
  int t = worst_target(&worst);
  if (t >= 0) {
    target_text(s->plan, &worst, t, how, sizeof how);
  } else {
    (void)snprintf(how, sizeof how, "requests were aborted");
  }
  if (s->met) {
    put_line(p, "sentence", "Use %s. It meets every target with every seed; the closest: %s.", what, how);
  } else {
    char tried[40];
    (void)snprintf(tried, sizeof tried, s->candidates == 1 ? "the one candidate" : "any of the %u candidates", (unsigned)s->candidates);
    put_line(p, "sentence", "The target cannot be met by %s%s. The closest is %s: its %s%s.", tried,
             s->all_hopeless ? ", not even with a host link that carries everything in no time" : "", what, how,
             c->seeds > 1 && c->full[0].worst <= 0 ? " with one of the seeds" : "");
  }
}

static const char *limit_name(const struct kvl_plan_candidate *c, const struct kvl_explain_facts *f, const struct kvl_scenario *s)
{
  if (f == NULL) {
    return c->bound_by;
  }
  switch (f->binds) {
  case KVL_BINDS_PREFILL:
    return "prefill";
  case KVL_BINDS_SESSIONS:
    return c->bound_by;
  case KVL_BINDS_LINK: {
    /* a gather of as many rows of next to no bytes: when it takes nearly as long, rows bind */
    uint64_t row = s->model.caches > 0 ? s->model.cache[0].row_bytes : 1, rows = 65536;
    bool outside = false;
    uint64_t as_is = kvl_link_gather_ns(&s->hardware.link, rows, rows * row, s->node.host_pool_bytes, &outside);
    uint64_t thin = kvl_link_gather_ns(&s->hardware.link, rows, rows, s->node.host_pool_bytes, &outside);
    return thin * 10 >= as_is * 9 ? "link rows" : "link bytes";
  }
  case KVL_BINDS_COMPUTE:
    return "compute";
  case KVL_BINDS_LOAD:
    return "nothing: the load is served";
  }
  return "?";
}

/* When the target is missed though the run is not short of anything, or of decode time where the first token is what is late: what the miss is made of. Both
 * texts are kept as they are where what binds explains the miss. */
static void explain_miss(const struct kvl_plan_search *s, const struct kvl_explain_facts *f, const char **binds, char *text, size_t size)
{
  const struct kvl_plan_candidate *c = &s->candidate[s->best];
  const struct kvl_plan_figures worst = worst_seed(c);
  const struct kvl_summary *sum = &c->result[0].summary;
  const int t = worst_target(&worst);
  if (s->met || f == NULL || (f->binds != KVL_BINDS_LOAD && (f->binds != KVL_BINDS_COMPUTE || t != KVL_PLAN_TTFT))) {
    return;
  }
  double waited = sum->requests_completed > 0 ? f->waiting_mean * sum->simulated_s / (double)sum->requests_completed : 0.0, all = 0.0, link = 0.0;
  for (int i = 0; i < KVL_STALLS; i++) {
    all += sum->stall_ms_by_cause[i];
    link += i == KVL_STALL_COMPUTE ? 0.0 : sum->stall_ms_by_cause[i];
  }
  if (t < 0 || !(worst.missed[t] > 0)) {
    *binds = "requests were aborted, no target is missed";
  } else if (t == KVL_PLAN_HOLD) {
    *binds = c->bound_by;
  } else if (t != KVL_PLAN_TTFT) {
    *binds = link > 0.25 * all ? "misses and waits in the decode steps, which miss the target" : "the length of a decode step, which misses the target";
    (void)snprintf(text, size, "No request is kept waiting for long, and the steps are too long all the same: %.0f %% of their time is the model's own compute.",
                   all > 0.0 ? 100.0 * (1.0 - link / all) : 0.0);
  } else if (waited > 0.05 * worst.value[t]) { /* where one request in ten waits for half of it, this is the mean */
    *binds = "the wait for a decode slot, which misses the target";
    (void)snprintf(text, size, "The wait for a decode slot is %.3g s on average, of a time to first token of %.3g s at p90.", waited, worst.value[t]);
  } else {
    *binds = "prefill, which misses the target";
    (void)snprintf(text, size, "Prefill is what misses the target: a request hardly waits for a decode slot (%.2g s on average), so the time to its first token is that of its prefill and "
                   "the wait for it (prefill GPUs %.0f %% busy)%s.", waited, 100.0 * sum->prefill_busy_share,
                   sum->prefill_busy_share < 0.5 ? ". More GPUs for prefill shorten the wait, not a prefill by itself" : "");
  }
}

static void put_why(struct pen *p, const struct kvl_plan_search *s, const struct kvl_explain_facts *f, const struct kvl_scenario *sc)
{
  if (s->best < 0 || sc == NULL) {
    return;
  }
  const struct kvl_plan_candidate *c = &s->candidate[s->best];
  struct kvl_session_bytes b;
  uint64_t input, output, most;
  struct kvl_err ignored;
  char a[KVL_TEXT_NUMBER_MAX], d[KVL_TEXT_NUMBER_MAX];
  open_part(p, "why", '{');
  const char *binds = limit_name(c, f, sc);
  char run[LINE];
  (void)snprintf(run, sizeof run, "%s", f != NULL ? f->binding : "not explained: the run has no records in the store");
  explain_miss(s, f, &binds, run, sizeof run);
  put_text(p, "binds", binds);
  if (kvl_plan_tokens(sc, &input, &output, &most, &ignored) == 0) {
    uint64_t tokens = sc->workload.kind == KVL_WORK_FILE ? input + output : most;
    kvl_session_bytes(sc, tokens, &b);
    bool resident = sc->mode == KVL_MODE_RESIDENT;
    put_line(p, "sessions", "%" PRIu64 " session%s of %" PRIu64 " tokens %s a decode GPU, %" PRIu64 " in all; the limit is %s (a session takes %s of the %s that a decode GPU has for KV%s)",
             c->fit, kvl_text_s(c->fit), tokens, c->fit == 1 ? "fits" : "fit", c->fit_all, c->bound_by, kvl_text_bytes(a, (double)(resident ? b.resident : b.fixed)),
             kvl_text_bytes(d, (double)kvl_pool_bytes(sc)), resident ? "" : "; what is left is lent in adaptive mode");
  }
  put_text(p, "run", run);
  close_part(p, '}');
}

static void put_buy(struct pen *p, const struct kvl_plan_search *s, const struct kvl_scenario *sc)
{
  uint64_t input, output, most;
  struct kvl_session_bytes b;
  struct kvl_err ignored;
  if (s->best < 0 || sc == NULL || kvl_plan_tokens(sc, &input, &output, &most, &ignored) != 0) {
    return;
  }
  const struct kvl_plan_candidate *c = &s->candidate[s->best];
  const struct kvl_summary *sum = &c->result[0].summary;
  bool resident = sc->mode == KVL_MODE_RESIDENT;
  kvl_session_bytes(sc, sc->workload.kind == KVL_WORK_FILE ? input + output : most, &b);
  uint64_t held = (uint64_t)sum->sessions_per_decode_gpu_max * c->decode_gpus, bytes = resident ? 0 : held * b.host;
  double seconds = sum->simulated_s * c->decode_gpus;
  char a[KVL_TEXT_NUMBER_MAX], d[KVL_TEXT_NUMBER_MAX];
  open_part(p, "buy", '{');
  put_count(p, "decode_gpus", c->decode_gpus);
  put_count(p, "gpus", c->gpus);
  put_count(p, "host_memory_bytes", bytes);
  if (resident) {
    put_text(p, "host_memory", "none for KV: every history stays in HBM");
  } else {
    put_line(p, "host_memory", "%s pinned for the %" PRIu64 " session%s held at once (%s each%s)", kvl_text_bytes(a, (double)bytes), held, kvl_text_s(held), kvl_text_bytes(d, (double)b.host),
             sc->workload.kind == KVL_WORK_FILE ? ", of the mean size" : "");
  }
  put_number(p, "link_gb_per_s_mean", seconds > 0 ? (double)sum->host_link_bytes / seconds / 1e9 : 0);
  put_number(p, "link_busy_share", sum->host_link_busy_share);
  const char *half = NULL, *twice = NULL;
  for (uint32_t v = 0; v < s->variants; v++) {
    const struct kvl_plan_variant *x = &s->variant[v];
    const char *verdict = !x->figures.known ? "not known" : x->figures.worst <= 0 ? "meets the target" : "misses it";
    half = strncmp(x->label, "half the host link", 18) == 0 ? verdict : half;
    twice = strncmp(x->label, "twice the host link", 19) == 0 ? verdict : twice;
  }
  put_line(p, "link", "%s: %.3g GB/s on average over each decode GPU's link, busy %.0f %% of the time%s%s%s%s", sc->hardware.name,
           seconds > 0 ? (double)sum->host_link_bytes / seconds / 1e9 : 0.0, 100 * sum->host_link_busy_share, half != NULL ? "; half of this link " : "",
           half != NULL ? half : "", twice != NULL ? ", twice " : "", twice != NULL ? twice : "");
  close_part(p, '}');
}

/* ---- flags of the engines ---- */

static void put_engines(struct pen *p, const struct kvl_plan_search *s, const struct kvl_scenario *sc)
{
  uint64_t input, output, most;
  struct kvl_session_bytes b;
  struct kvl_err ignored;
  if (s->best < 0 || sc == NULL || kvl_plan_tokens(sc, &input, &output, &most, &ignored) != 0) {
    return;
  }
  const struct kvl_plan_candidate *c = &s->candidate[s->best];
  bool resident = sc->mode == KVL_MODE_RESIDENT, adaptive = sc->mode == KVL_MODE_ADAPTIVE, prefetch = sc->policy.prefetch != KVL_PREFETCH_NONE,
       drafts = sc->speculation.method != KVL_SPECULATION_NONE;
  uint32_t k = 1;
  for (uint32_t i = 0; i < sc->model.selection.points; i++) {
    k = sc->model.selection.point[i].k > k ? sc->model.selection.point[i].k : k;
  }
  uint64_t buffer = sc->policy.hot_rows > k ? sc->policy.hot_rows : k, running = c->fit < 1 ? 1 : c->fit, pool = kvl_pool_bytes(sc);
  kvl_session_bytes(sc, sc->workload.kind == KVL_WORK_FILE ? input + output : most, &b);
  uint64_t host = running * b.host, ratio = pool > 0 ? (host + pool - 1) / pool : 1, gib = (host + (UINT64_C(1) << 30) - 1) >> 30;
  ratio = ratio < 1 ? 1 : ratio;
  open_part(p, "engines", '[');
  open_part(p, NULL, '{');
  put_text(p, "engine", "SGLang");
  if (resident) {
    put_line(p, "flags", "--max-running-requests %" PRIu64, running);
    put_text(p, "cannot", "nothing: plain serving");
  } else {
    put_line(p, "flags", "--disaggregation-mode decode --disable-radix-cache --enable-hisparse --hisparse-config '{\"top_k\": %u, \"device_buffer_size\": %" PRIu64
             ", \"host_to_device_ratio\": %" PRIu64 "}' --max-running-requests %" PRIu64, (unsigned)k, buffer, ratio, running);
    put_line(p, "cannot", "%s%s%sone buffer size for all caches; on the decode instance only", adaptive ? "no elastic tier: free HBM is not lent, so misses are those of fixed mode; " : "",
             prefetch ? "no candidate pool: only the plan of layers that share a selection is replayed; " : "",
             drafts ? "speculation beside it takes one position or its CLOCK variant; " : "");
  }
  put_text(p, "checked", "names as in SGLang's HiSparse guide of 2026, sizes for one decode GPU; not run here (--max-running-requests counts for all data-parallel ranks together)");
  close_part(p, '}');
  open_part(p, NULL, '{');
  put_text(p, "engine", "vLLM");
  if (resident) {
    put_line(p, "flags", "--max-num-seqs %" PRIu64, running);
    put_text(p, "cannot", "nothing: plain serving");
  } else {
    put_line(p, "flags", "--kv-transfer-config '{\"kv_connector\": \"HiSparseConnector\", \"kv_role\": \"kv_both\", \"kv_connector_extra_config\": {\"host_pool_gib\": %" PRIu64
             "}}' --attention-config '{\"hisparse_config\": {\"device_buffer_size\": %" PRIu64 "}}' --max-num-seqs %" PRIu64, gib, buffer, running);
    put_line(p, "cannot", "%s%s%s", adaptive ? "resident pages are spilled tail first and not given back while a request keeps its hot region; " : "resident pages stay until they are spilled: more than fixed mode has; ",
             prefetch ? "prefetch is the leaders' plan, no candidate pool; " : "", "page size is the engine's block size");
  }
  put_text(p, "checked", "host_pool_gib and device_buffer_size as in vLLM's sources of 2026, where both have moved between releases (attention config, connector), sizes for one decode GPU; not run here");
  close_part(p, '}');
  close_part(p, ']');
}

/* The best that any candidate reaches, each target by itself. */
static void put_reach(struct pen *p, const struct kvl_plan_search *s)
{
  open_part(p, "reach", '[');
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    double full = NAN, bound = NAN;
    bool more = t == KVL_PLAN_RATE || t == KVL_PLAN_HOLD;
    if (isnan(s->plan->target[t])) {
      continue;
    }
    for (uint32_t i = 0; i < s->candidates; i++) {
      const struct kvl_plan_candidate *c = &s->candidate[i];
      double a = c->full[0].known ? c->full[0].value[t] : NAN, b = c->bound.known ? c->bound.value[t] : NAN;
      full = isnan(full) || (more ? a > full : a < full) ? (isnan(a) ? full : a) : full;
      bound = isnan(bound) || (more ? b > bound : b < bound) ? (isnan(b) ? bound : b) : bound;
    }
    bound = more ? (full > bound ? full : bound) : (full < bound ? full : bound); /* sizes found in the fine round had no bound of their own */
    open_part(p, NULL, '{');
    put_text(p, "target", kvl_plan_target_name((enum kvl_plan_target)t));
    put_number(p, "asked", s->plan->target[t]);
    put_number(p, "best_in_full", full);
    put_number(p, "best_without_a_miss", bound);
    put_text(p, "unit", kvl_plan_target_unit((enum kvl_plan_target)t));
    close_part(p, '}');
  }
  close_part(p, ']');
}

static void put_headroom(struct pen *p, const struct kvl_plan_search *s)
{
  char text[LINE] = "", edge[LINE / 3];
  double last = NAN;
  if (s->headrooms == 0) {
    put_raw(p, "headroom", "null");
    return;
  }
  open_part(p, "headroom", '{');
  put_text(p, "key", s->load_key);
  open_part(p, "steps", '[');
  for (uint32_t i = 0; i < s->headrooms; i++) {
    const struct kvl_plan_figures *f = &s->headroom[i].figures;
    open_part(p, NULL, '{');
    put_number(p, "load", s->headroom[i].load);
    put_raw(p, "met", f->known && f->worst <= 0 ? "true" : "false");
    put_number(p, "worst_margin_percent", f->known ? -100 * f->worst : NAN);
    close_part(p, '}');
    if (text[0] == '\0' && f->known && f->worst <= 0) {
      last = s->headroom[i].load;
    } else if (text[0] == '\0') {
      int t = f->known ? worst_target(f) : -1;
      if (t >= 0) {
        target_text(s->plan, f, t, edge, sizeof edge);
      } else {
        (void)snprintf(edge, sizeof edge, "it cannot be run");
      }
      (void)snprintf(text, sizeof text, "at %.6g it does not: %s", s->headroom[i].load, edge);
    }
  }
  close_part(p, ']');
  if (isnan(last)) {
    put_line(p, "sentence", "No more load than asked for (screened, steps of a tenth at first): %s", text);
  } else {
    put_line(p, "sentence", "Up to %s = %.6g it still meets the target (screened from miss curves, not run in full)%s%s", s->load_key, last, text[0] != '\0' ? "; " : "", text);
  }
  close_part(p, '}');
}

/* ---- how sure ---- */

static void put_sensitivity(struct pen *p, const struct kvl_plan_search *s)
{
  open_part(p, "sensitivity", '[');
  for (uint32_t v = 0; v < s->variants; v++) {
    const struct kvl_plan_variant *x = &s->variant[v];
    open_part(p, NULL, '{');
    put_text(p, "changed", x->label);
    if (!x->figures.known) {
      put_text(p, "reason", x->result.reason);
    } else {
      put_flag(p, "met", x->figures.worst <= 0);
      put_number(p, "worst_margin_percent", -100 * x->figures.worst);
      put_number(p, "output_throughput_tok_per_s", x->figures.throughput);
      put_number(p, "ttft_s_p90", x->figures.value[KVL_PLAN_TTFT]);
      put_number(p, "request_rate_tok_per_s_p10", x->figures.value[KVL_PLAN_RATE]);
      put_number(p, "tpot_ms_p90", x->figures.value[KVL_PLAN_TPOT]);
      put_line(p, "run", "sweep \"%s: %s\", point %u", s->plan->name, s->round[s->variant_round - 1].name, (unsigned)x->point);
    }
    close_part(p, '}');
  }
  close_part(p, ']');
}

/* Each candidate once: what became of it in the end. */
struct fates {
  uint32_t impossible, hopeless, estimated, full;
};

static struct fates count_fates(const struct kvl_plan_search *s)
{
  struct fates n = {0, 0, 0, 0};
  for (uint32_t i = 0; i < s->candidates; i++) {
    const struct kvl_plan_candidate *c = &s->candidate[i];
    n.full += c->seeds > 0;
    n.impossible += c->seeds == 0 && c->impossible;
    n.hopeless += c->seeds == 0 && !c->impossible && c->hopeless;
    n.estimated += c->seeds == 0 && !c->impossible && !c->hopeless;
  }
  return n;
}

static void put_search(struct pen *p, const struct kvl_plan_search *s)
{
  static const char *const how[] = {"without a single miss: what misses the target so is dropped", "an estimate from miss curves, labelled as such and never an answer", "runs in full"};
  open_part(p, "search", '{');
  put_count(p, "candidates", s->candidates);
  put_count(p, "impossible", s->impossible);
  put_count(p, "hopeless", s->hopeless);
  put_count(p, "screened", s->screened);
  put_count(p, "in_full", s->fulls);
  struct fates fates = count_fates(s);
  open_part(p, "fates", '{'); /* adds up to the candidates */
  put_count(p, "cannot_be_run", fates.impossible);
  put_count(p, "hopeless", fates.hopeless);
  put_count(p, "estimated", fates.estimated);
  put_count(p, "in_full", fates.full);
  close_part(p, '}');
  put_text(p, "effort", s->plan->effort_name);
  put_flag(p, "left_out_for_effort", s->short_of_effort);
  open_part(p, "screening_off_by_percent", '{');
  put_count(p, "compared", s->screen_compared);
  put_number(p, "output_throughput", 100 * s->screen_error[0]);
  put_number(p, "ttft_p90", 100 * s->screen_error[1]);
  put_number(p, "rate_p10", 100 * s->screen_error[2]);
  close_part(p, '}');
  open_part(p, "rounds", '[');
  for (uint32_t r = 0; r < s->rounds; r++) {
    const struct kvl_plan_round *round = &s->round[r];
    open_part(p, NULL, '{');
    put_line(p, "sweep", "%s: %s", s->plan->name, round->name);
    put_text(p, "hash", round->hash);
    put_count(p, "points", round->points);
    put_count(p, "repeats", round->repeats);
    put_count(p, "failed", round->failed);
    put_text(p, "how", how[strcmp(round->name, "bound") == 0 ? 0 : strcmp(round->name, "screen") == 0 || strcmp(round->name, "headroom") == 0 ? 1 : 2]);
    close_part(p, '}');
  }
  close_part(p, ']');
  close_part(p, '}');
}

static void put_axes(struct pen *p, const struct kvl_capacity_plan *plan)
{
  open_part(p, "searched", '{');
  for (unsigned a = 0; a < plan->axes; a++) {
    open_part(p, plan->axis[a].label, '[');
    for (uint32_t v = 0; v < plan->axis[a].values; v++) {
      const char *const *value = plan->axis[a].value[v];
      for (unsigned n = 0; value[0] == NULL && value[1] == NULL && n < plan->axis[a].owns; n++) {
        put_raw(p, NULL, plan->axis[a].own[n]);
      }
      if (value[0] != NULL || value[1] != NULL) {
        put_raw(p, NULL, value[0] != NULL ? value[0] : value[1]);
      }
    }
    close_part(p, ']');
  }
  close_part(p, '}');
  open_part(p, "pinned", '{'); /* not searched after all: by what */
  for (unsigned a = 0; a < plan->axes; a++) {
    if (plan->axis[a].pinned != NULL) {
      put_text(p, plan->axis[a].label, plan->axis[a].pinned);
    }
  }
  close_part(p, '}');
}

/* Why none of a node's candidates can be run; NULL: one can. */
static const char *node_reason(const struct kvl_plan_search *s, unsigned node)
{
  const char *why = NULL;
  for (uint32_t i = 0; i < s->candidates; i++) {
    if (s->candidate[i].node == node) {
      if (!s->candidate[i].impossible) {
        return NULL;
      }
      why = why == NULL ? s->candidate[i].reason : why;
    }
  }
  return why;
}

/* The smallest number that an axis was searched at is the recommendation's, and smaller ones were not asked about. */
static bool at_the_edge(const struct kvl_plan_search *s, int axis, uint64_t *value)
{
  const struct kvl_plan_axis *a = &s->plan->axis[axis];
  const struct kvl_plan_candidate *c = &s->candidate[s->best];
  if (c->at[axis] == KVL_PLAN_NOT || a->given || a->values < 2) {
    return false;
  }
  *value = strtoull(a->value[c->at[axis]][0], NULL, 10);
  for (uint32_t v = 0; v < a->values; v++) {
    if (strtoull(a->value[v][0], NULL, 10) < *value) {
      return false;
    }
  }
  return *value > 1;
}

/* What a reader must know beside the figures. */
/* doc: the recommendation's scenario; NULL where there is none. */
static void put_notes(struct pen *p, const struct kvl_plan_search *s, const struct kvl_scenario_doc *doc)
{
  static const int gpus[] = {KVL_AXIS_GPUS, KVL_AXIS_PREFILL};
  open_part(p, "notes", '[');
  for (unsigned n = 0; n < s->plan->nodes && s->best >= 0; n++) {
    const char *why = node_reason(s, n);
    if (why != NULL) {
      put_line(p, NULL, "Node %s cannot be run with any setting that was searched. The first: %s", s->plan->node[n].name, why);
    }
  }
  if (s->best >= 0) {
    const struct kvl_summary *sum = &s->candidate[s->best].result[0].summary;
    uint64_t value;
    if (sum->compute_is_estimate) {
      put_text(p, NULL, "Step times are an estimate (a roofline over descriptors), neither measured nor fitted, and so is every figure that rests on them.");
    }
    char stand_ins[512];
    if (doc != NULL && kvl_scenario_note(doc, stand_ins, sizeof stand_ins)) {
      put_line(p, NULL, "%s.", stand_ins);
    }
    if (s->candidate[s->best].open) {
      put_text(p, NULL, s->candidate[s->best].full[0].steady
                          ? "Cost is that of the steady window, from the first completion to the last submission: an open loop's output is given, and over the whole run a setting that "
                            "ends the last answers sooner would look cheaper."
                          : "Cost is that of the whole run, its ramp and its drain included: the run is shorter than three stays of a request, so it has no steady window to go by. "
                            "More requests make one.");
    }
    if (sum->is_extrapolated) {
      put_text(p, NULL, "A table, a curve or the cost profile was used outside of what it was made for: times are extrapolated (the notes of kvloan run say which).");
    }
    for (int i = 0; i < 2; i++) {
      if (at_the_edge(s, gpus[i], &value)) {
        put_line(p, NULL, "Fewer than %" PRIu64 " GPU%s for %s were not searched: \"search\": {\"%s\": [...]} in the plan does that.", value, kvl_text_s(value), i == 0 ? "decoding" : "prefill",
                 s->plan->axis[gpus[i]].label);
      }
    }
  }
  if (s->prefill_left_out) {
    put_text(p, NULL, "The number of GPUs for prefill is the scenario's and was not searched, because there are too many candidates as it is: "
                      "\"search\": {\"node.prefill_gpus\": [...]} does that, with fewer values of something else.");
  }
  close_part(p, ']');
}

/* Every run in full, best first as they were ranked; then the screened ones that were not, for the picture. */
static void put_candidates(struct pen *p, const struct kvl_plan_search *s)
{
  open_part(p, "in_full", '[');
  for (uint32_t i = 0; i < s->candidates; i++) {
    const struct kvl_plan_candidate *c = &s->candidate[i];
    if (c->seeds == 0) {
      continue;
    }
    open_part(p, NULL, '{');
    put_settings(p, s->plan, c);
    put_line(p, "run", "sweep \"%s: %s\", point %u", s->plan->name, s->round[c->round - 1].name, (unsigned)c->point);
    if (!c->full[0].known) {
      put_text(p, "reason", c->result[0].reason);
    } else {
      put_flag(p, "met", c->full[0].worst <= 0);
      put_number(p, "worst_margin_percent", -100 * c->full[0].worst);
      put_number(p, "cost", c->full[0].cost);
      put_count(p, "gpus", c->gpus);
      put_number(p, "output_throughput_tok_per_s", c->full[0].throughput);
      put_number(p, "ttft_s_p90", c->full[0].value[KVL_PLAN_TTFT]);
      put_number(p, "request_rate_tok_per_s_p10", c->full[0].value[KVL_PLAN_RATE]);
      put_number(p, "tpot_ms_p90", c->full[0].value[KVL_PLAN_TPOT]);
      put_number(p, "host_percent", c->result[0].summary.selections_total > 0 ? 100.0 * (double)c->result[0].summary.selections_by_tier[KVL_REPORT_TIERS - 1] /
                                                                               (double)c->result[0].summary.selections_total : 0);
    }
    close_part(p, '}');
  }
  close_part(p, ']');
  put_count(p, "not_in_full_count", s->candidates - count_fates(s).full);
  open_part(p, "not_in_full", '['); /* the first of them */
  uint32_t shown = 0;
  for (uint32_t i = 0; i < s->candidates && shown < SHOWN_MAX; i++) {
    const struct kvl_plan_candidate *c = &s->candidate[i];
    if (c->seeds > 0) {
      continue;
    }
    const struct kvl_plan_figures *f = c->screened ? &c->screen : &c->bound;
    char text[LINE];
    kvl_plan_settings_text(s->plan, c, text, sizeof text);
    open_part(p, NULL, '{');
    put_text(p, "what", text);
    put_text(p, "why", c->impossible ? "cannot be run" : c->hopeless ? "hopeless" : "screened");
    if (c->impossible) {
      put_text(p, "reason", c->reason);
    } else {
      put_number(p, "worst_margin_percent", -100 * f->worst);
      put_number(p, "cost", f->cost);
    }
    close_part(p, '}');
    shown++;
  }
  close_part(p, ']');
}

char *kvl_plan_answer(const struct kvl_plan_search *s, const struct kvl_explain_facts *facts)
{
  const struct kvl_capacity_plan *plan = s->plan;
  char *text = NULL;
  size_t size = 0;
  struct pen p = {.out = open_memstream(&text, &size)};
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err ignored;
  if (p.out == NULL) {
    return NULL;
  }
  if (s->scenario_json[0] != NULL) {
    (void)kvl_scenario_parse(&doc, s->scenario_json[0], strlen(s->scenario_json[0]), "the recommendation", NULL, 0, &ignored);
  }
  const struct kvl_scenario *sc = doc == NULL ? NULL : kvl_scenario_of(doc);
  open_part(&p, NULL, '{');
  put_text(&p, "plan", plan->name);
  put_text(&p, "note", plan->note);
  put_text(&p, "scenario", plan->scenario);
  open_part(&p, "asked", '{');
  put_text(&p, "model", s->model);
  put_text(&p, "workload", s->workload);
  open_part(&p, "nodes", '[');
  for (unsigned n = 0; n < plan->nodes; n++) {
    open_part(&p, NULL, '{');
    put_text(&p, "name", plan->node[n].name);
    put_number(&p, "gpu_hour", plan->node[n].gpu_hour);
    if (node_reason(s, n) != NULL) {
      put_text(&p, "cannot_be_run", node_reason(s, n));
    }
    close_part(&p, '}');
  }
  close_part(&p, ']');
  open_part(&p, "target", '{');
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    if (!isnan(plan->target[t])) {
      put_number(&p, kvl_plan_target_name((enum kvl_plan_target)t), plan->target[t]);
    }
  }
  close_part(&p, '}');
  put_axes(&p, plan);
  close_part(&p, '}');
  put_verdict(&p, s);
  put_notes(&p, s, doc);
  put_candidate(&p, "recommendation", s, s->best);
  put_candidate(&p, "runner_up", s, s->runner_up);
  put_reach(&p, s);
  put_why(&p, s, facts, sc);
  put_headroom(&p, s);
  put_buy(&p, s, sc);
  put_sensitivity(&p, s);
  put_engines(&p, s, sc);
  put_search(&p, s);
  put_candidates(&p, s);
  close_part(&p, '}');
  (void)fputc('\n', p.out);
  kvl_scenario_free(doc);
  if (fclose(p.out) != 0) {
    free(text);
    return NULL;
  }
  return text;
}
