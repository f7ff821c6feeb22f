/* What if: the model plane run again with one thing changed, as many at once as there are cores. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/text.h"
#include "sim/explain.h"
#include "sim/run.h"
#include "sim/version.h"
#include "sim/workers.h"
#include "traces/workload.h"

/* More selections than this, and the re-runs are cut to fewer requests: some 40 s of one core each. */
#define SELECTIONS_MAX 4e9

const char *kvl_objective_name(enum kvl_objective objective)
{
  static const char *const names[KVL_OBJECTIVES] = {"throughput", "goodput", "ttft", "rate", "latency"};
  return (unsigned)objective < KVL_OBJECTIVES ? names[objective] : "?";
}

const char *kvl_objective_meaning(enum kvl_objective objective)
{
  static const char *const meanings[KVL_OBJECTIVES] = {"output tokens a second", "requests a second that meet the targets", "time to first token at p90",
                                                       "rate of one request at p10", "end-to-end latency at p90"};
  return (unsigned)objective < KVL_OBJECTIVES ? meanings[objective] : "?";
}

double kvl_objective_value(enum kvl_objective objective, const struct kvl_summary *s, bool in_window)
{
  double scale = in_window ? kvl_steady_ratio(s) : 1.0;
  switch (objective) {
  case KVL_FOR_THROUGHPUT:
    return s->output_throughput_tok_per_s * scale;
  case KVL_FOR_GOODPUT:
    return s->goodput_req_per_s * scale;
  case KVL_FOR_TTFT:
    return s->ttft_s.p90;
  case KVL_FOR_RATE:
    return s->request_rate_tok_per_s_p10;
  case KVL_FOR_LATENCY:
    return s->e2e_s.p90;
  case KVL_OBJECTIVES:
    break;
  }
  return 0.0;
}

enum kvl_objective kvl_objective_of(const struct kvl_scenario *s)
{
  if (s->limits.ttft_target_ns > 0 || s->limits.tpot_target_ns > 0) {
    return KVL_FOR_GOODPUT;
  }
  return s->workload.kind == KVL_WORK_CLOSED ? KVL_FOR_THROUGHPUT : KVL_FOR_LATENCY;
}

/* By how much `value` is better than `base`, in percent. */
static double gain(enum kvl_objective objective, const struct kvl_summary *base, const struct kvl_summary *now, bool steady)
{
  double a = kvl_objective_value(objective, base, steady), b = kvl_objective_value(objective, now, steady);
  bool less_is_better = objective == KVL_FOR_TTFT || objective == KVL_FOR_LATENCY;
  if (!(a > 0.0)) {
    return b > 0.0 ? (less_is_better ? -100.0 : 100.0) : 0.0;
  }
  return (less_is_better ? a - b : b - a) / a * 100.0;
}

/* ---- what to try ---- */

static struct kvl_try *add_try(struct kvl_what_if *w, enum kvl_try_kind kind, const char *label)
{
  if (w->count == KVL_TRIES_MAX) {
    return NULL;
  }
  struct kvl_try *t = &w->item[w->count++];
  memset(t, 0, sizeof *t);
  t->kind = kind;
  (void)snprintf(t->label, sizeof t->label, "%s", label);
  return t;
}

/* Keeps the assignment; a try without memory for it fails when it is run. */
static void add_set(struct kvl_try *t, const char *assignment)
{
  if (t != NULL && t->sets < KVL_TRY_SETS) {
    t->set[t->sets] = strdup(assignment);
    t->status = t->set[t->sets] == NULL ? -ENOMEM : t->status;
    t->sets += t->set[t->sets] != NULL;
  }
}

static void add_knob(struct kvl_what_if *w, enum kvl_try_kind kind, const char *assignment)
{
  add_set(add_try(w, kind, assignment), assignment);
}

static void add_number(struct kvl_what_if *w, enum kvl_try_kind kind, const char *key, unsigned long long value)
{
  char text[128];
  (void)snprintf(text, sizeof text, "%s=%llu", key, value);
  add_knob(w, kind, text);
}

/* Gathers that cost `ratio` of what they do. */
static void scale_gathers(struct kvl_try *t, const struct kvl_scenario *s, double ratio)
{
  char text[KVL_TRY_SET_MAX];
  double by = ratio > 1e-3 ? 1.0 / ratio : 1e3, gather = (double)s->hardware.link.gather_bytes_per_s / 1e9 * by;
  const struct kvl_curve *rows = &s->hardware.link.rows_per_s;
  (void)snprintf(text, sizeof text, "hardware.link.gather_gb_per_s=%.9g", gather < 100000.0 ? gather : 100000.0);
  add_set(t, text);
  int used = snprintf(text, sizeof text, "hardware.link.rows_per_s_by_pool_bytes=[");
  for (uint32_t i = 0; i < rows->n && used > 0 && (size_t)used < sizeof text - 64; i++) {
    used += snprintf(text + used, sizeof text - (size_t)used, "%s[%llu,%.0f]", i > 0 ? "," : "", (unsigned long long)rows->x[i], (double)rows->y[i] * by);
  }
  (void)snprintf(text + used, sizeof text - (size_t)used, "]");
  add_set(t, text);
  if (s->hardware.link.gathers.counts != 0) { /* the law, not the table, is what was scaled: near, not the same */
    add_set(t, "hardware.link.gather_us=[]");
  }
}

static void add_bounds(struct kvl_what_if *w, const struct kvl_explain_facts *f)
{
  const struct kvl_scenario *s = f->scenario;
  struct kvl_try *t = add_try(w, KVL_TRY_BOUND, "a host link that costs nothing");
  add_set(t, "hardware.link.gather_gb_per_s=100000");
  add_set(t, "hardware.link.copy_gb_per_s=100000");
  add_set(t, "hardware.link.gather_floor_us=0");
  add_set(t, "hardware.link.copy_floor_us=0");
  add_set(t, "hardware.link.rows_per_s_by_pool_bytes=[[1,1e15]]");
  if (s->hardware.link.gathers.counts != 0) {
    add_set(t, "hardware.link.gather_us=[]");
  }
  if (s->hardware.link.pages_bytes_per_s.n != 0) {
    add_set(t, "hardware.link.pages_gb_per_s_by_piece=[]");
  }
  if (w->bound.known && w->bound.ratio < 0.999) {
    scale_gathers(add_try(w, KVL_TRY_BOUND, "hot caches that know the future"), s, w->bound.ratio);
  }
  if (f->run->summary.prefill_busy_share > 0.5) {
    t = add_try(w, KVL_TRY_BOUND, "prefill that takes no time");
    add_set(t, "costs.prefill_fixed_ms=0");
    add_set(t, "costs.prefill_token_us=0");
    add_set(t, "costs.prefill_cached_token_us=0");
  }
}

/* Settings that could matter to this run, the likely ones first: `knobs` of them are turned. */
static void add_settings(struct kvl_what_if *w, const struct kvl_explain_facts *f)
{
  const struct kvl_scenario *s = f->scenario;
  const struct kvl_summary *sum = &f->run->summary;
  bool resident = s->mode == KVL_MODE_RESIDENT, adaptive = s->mode == KVL_MODE_ADAPTIVE, selects = s->selection.kind != KVL_SELECT_NONE;
  double time = 0.0;
  for (int c = 0; c < KVL_STALLS; c++) {
    time += sum->stall_ms_by_cause[c];
  }
  if (!adaptive) {
    add_knob(w, KVL_TRY_SETTING, "mode=adaptive");
  }
  if (!resident && s->node.sessions_per_gpu_max > 0 && strcmp(f->sessions_bound_by, "node.sessions_per_gpu_max") == 0) {
    add_number(w, KVL_TRY_SETTING, "node.sessions_per_gpu_max", (s->node.sessions_per_gpu_max * 3ull + 1) / 2);
  }
  if (s->limits.batch_max > 0 && strcmp(f->sessions_bound_by, "limits.batch_max") == 0) {
    add_number(w, KVL_TRY_SETTING, "limits.batch_max", (s->limits.batch_max * 3ull + 1) / 2);
  }
  if (!resident && selects) {
    add_number(w, KVL_TRY_SETTING, "policy.hot_rows", 2ull * s->policy.hot_rows);
    add_number(w, KVL_TRY_SETTING, "policy.hot_rows", s->policy.hot_rows / 2u);
  }
  if (s->speculation.method != KVL_SPECULATION_NONE) {
    add_knob(w, KVL_TRY_SETTING, "speculation.method=none");
  } else { /* a descriptor made for this model, where there is one */
    static const char *const kinds[] = {"dspark", "mtp"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
      char text[128];
      (void)snprintf(text, sizeof text, "speculation=%.80s.%s", s->model.name, kinds[i]);
      add_knob(w, KVL_TRY_SETTING, text);
    }
  }
  if (adaptive) {
    add_knob(w, KVL_TRY_SETTING, "mode=fixed");
  }
  if (!resident) {
    add_knob(w, KVL_TRY_SETTING, "mode=resident");
  }
  if (!resident && selects && s->model.pool_blocks > 0) {
    add_knob(w, KVL_TRY_SETTING, "policy.prefetch=pool");
  }
  if (time > 0.0 && sum->stall_ms_by_cause[KVL_STALL_POPULATION] > 0.01 * time && s->policy.admission_copy == KVL_COPY_SERIAL) {
    add_knob(w, KVL_TRY_SETTING, "policy.admission_copy=side_stream");
  }
  if (adaptive && sum->pages_revoked > 0 && selects) {
    add_knob(w, KVL_TRY_SETTING, s->policy.revoke_order == KVL_REVOKE_OLDEST ? "policy.revoke_order=least_selected" : "policy.revoke_order=oldest");
  }
  if (adaptive && sum->pages_given_back > 0) {
    add_number(w, KVL_TRY_SETTING, "policy.give_back_bytes_max", 4ull * s->policy.give_back_bytes_max);
  }
  if (adaptive) {
    add_number(w, KVL_TRY_SETTING, "policy.page_tokens", 2ull * s->policy.page_tokens);
  }
}

static void add_hardware(struct kvl_what_if *w, const struct kvl_explain_facts *f)
{
  const struct kvl_scenario *s = f->scenario;
  if (f->run->summary.prefill_busy_share > 0.5) {
    add_number(w, KVL_TRY_HARDWARE, "node.prefill_gpus", s->node.prefill_gpus + 1ull);
  }
  add_number(w, KVL_TRY_HARDWARE, "node.decode_gpus", s->node.decode_gpus + 1ull);
  uint64_t pool = s->node.kv_pool_bytes + s->node.kv_pool_bytes / 4;
  if (pool <= s->hardware.hbm_bytes) {
    add_number(w, KVL_TRY_HARDWARE, "node.kv_pool_bytes", pool);
  }
}

/* ---- running them ---- */

struct batch {
  struct kvl_what_if *what_if;
  const char *json, *name;
  const struct kvl_explain_options *options;
  const char *requests_set; /* NULL: all of them */
  char *base_json;          /* to tell a knob that changes nothing */
  uint32_t first, threads;
  pthread_mutex_t lock;
  uint32_t done, total;
  double running; /* of the re-runs that are not through, what is: a re-run counts 1 */
};

/* One re-run's own progress. */
struct try_progress {
  struct batch *batch;
  double share;
};

/* With the lock: what a re-run has done now counts. */
static void tell(struct batch *b, double more)
{
  b->running += more;
  if (b->options->progress != NULL) {
    double share = (b->done + b->running) / b->total;
    b->options->progress(b->options->progress_context, b->done, b->total, share < 0 ? 0 : share > 1 ? 1 : share);
  }
}

static void run_progress(void *context, uint64_t now_ns, uint64_t done, uint64_t total)
{
  struct try_progress *p = context;
  double share = total == 0 ? 0 : (double)done / (double)total;
  (void)now_ns;
  (void)pthread_mutex_lock(&p->batch->lock); /* also when no more is done: the first answers come late, and time passes */
  tell(p->batch, share - p->share);
  (void)pthread_mutex_unlock(&p->batch->lock);
  p->share = share;
}

/* The scenario of a try. */
static int load_try(const struct batch *b, const struct kvl_try *t, struct kvl_scenario_doc **doc, struct kvl_err *err)
{
  enum { SETS_MAX = 256 };
  const char *sets[SETS_MAX];
  unsigned count = 0;
  for (unsigned i = 0; i < b->options->set_count && count < SETS_MAX - KVL_TRY_SETS - 1; i++) {
    sets[count++] = b->options->sets[i];
  }
  if (b->requests_set != NULL) {
    sets[count++] = b->requests_set;
  }
  for (uint32_t i = 0; i < t->sets; i++) {
    sets[count++] = t->set[i];
  }
  return kvl_scenario_parse(doc, b->json, strlen(b->json), b->name, sets, count, err);
}

static void run_try(void *context, uint32_t thread, uint32_t item)
{
  struct batch *b = context;
  struct kvl_try *t = &b->what_if->item[b->first + item];
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_run_result *result = malloc(sizeof *result);
  struct kvl_err err = {"out of memory"};
  struct try_progress progress = {b, 0};
  (void)thread;
  t->status = result == NULL ? -ENOMEM : load_try(b, t, &doc, &err);
  if (t->status == 0 && b->options->stop != NULL && *b->options->stop != 0) {
    t->status = -EINTR;
  }
  if (t->status == 0) {
    struct kvl_run_options run = {.plane = "model", .threads = b->threads, .stop = b->options->stop, .progress = run_progress, .progress_context = &progress};
    t->status = kvl_run(doc, &run, result, &err);
    if (t->status == 0 && result->engine.status != KVL_RUN_COMPLETE && b->options->stop != NULL && *b->options->stop != 0) {
      t->status = -EINTR;
    }
  }
  if (t->status == 0) {
    t->summary = result->engine.summary;
  } else {
    (void)snprintf(t->why, sizeof t->why, "%.*s", (int)sizeof t->why - 1, err.text);
  }
  kvl_scenario_free(doc);
  free(result);
  (void)pthread_mutex_lock(&b->lock);
  b->done++;
  tell(b, -progress.share);
  (void)pthread_mutex_unlock(&b->lock);
}

static void drop_try(struct kvl_what_if *w, uint32_t index)
{
  for (uint32_t i = 0; i < w->item[index].sets; i++) {
    free(w->item[index].set[i]);
  }
  memmove(&w->item[index], &w->item[index + 1], (w->count - index - 1) * sizeof w->item[0]);
  w->count--;
}

/* Leaves out what cannot be tried on this scenario (a key it does not know, a mode that does not fit: parsing says so) or changes nothing. */
static int weed(struct batch *b, uint32_t knobs)
{
  struct kvl_what_if *w = b->what_if;
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err;
  int rc = load_try(b, &w->item[0], &doc, &err);
  b->base_json = rc == 0 ? kvl_scenario_json(doc) : NULL;
  kvl_scenario_free(doc);
  if (rc == 0 && b->base_json == NULL) {
    rc = -ENOMEM;
  }
  uint32_t settings = 0;
  for (uint32_t i = 1; rc == 0 && i < w->count;) {
    char *json = NULL;
    doc = NULL;
    bool keep = load_try(b, &w->item[i], &doc, &err) == 0;
    json = keep ? kvl_scenario_json(doc) : NULL;
    kvl_scenario_free(doc);
    keep = keep && json != NULL && strcmp(json, b->base_json) != 0;
    free(json);
    settings += keep && w->item[i].kind == KVL_TRY_SETTING;
    if (!keep || (w->item[i].kind == KVL_TRY_SETTING && settings > knobs)) {
      drop_try(w, i);
    } else {
      i++;
    }
  }
  return rc;
}

/* Runs at once: a core each, and half of the machine's memory for all. */
static uint32_t runs_at_once(const struct kvl_explain_facts *f, uint32_t cores, uint32_t runs)
{
  uint32_t n = cores < runs ? cores : runs;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0 && f->run->summary.peak_memory_bytes > 0) {
    uint64_t fit = (uint64_t)pages * (uint64_t)page / 2 / (f->run->summary.peak_memory_bytes + f->run->summary.peak_memory_bytes / 2);
    n = fit < n ? (uint32_t)fit : n;
  }
  return n < 1 ? 1 : n;
}

/* As few requests as press on the pool as the stored run did; 0: not known. */
static uint64_t requests_at_least(const struct kvl_explain_facts *f, const struct kvl_explain_options *o)
{
  bool other = f->pressed_requests == 0;
  for (unsigned i = 0; i < o->set_count; i++) { /* another load than the stored run's; a file that has moved is the same */
    other = other || (strncmp(o->sets[i], "workload.", 9) == 0 && strncmp(o->sets[i], "workload.file=", 14) != 0);
  }
  return !other ? f->pressed_requests : kvl_is_open_loop(f->scenario) ? 0 : f->scenario->workload.concurrency;
}

/* How many requests a re-run may have: UINT64_MAX for all. */
static uint64_t requests_of(const struct kvl_explain_facts *f, const struct kvl_explain_options *o)
{
  const struct kvl_scenario *s = f->scenario;
  const struct kvl_summary *sum = &f->run->summary;
  uint64_t had = sum->requests_completed + sum->requests_aborted;
  if (o->requests > 0) {
    return o->requests < had ? o->requests : UINT64_MAX;
  }
  if ((double)sum->selections_total <= SELECTIONS_MAX) {
    return UINT64_MAX;
  }
  uint64_t cut = (uint64_t)((double)had * SELECTIONS_MAX / (double)sum->selections_total), least = 2ull * s->workload.concurrency;
  least = least > requests_at_least(f, o) ? least : requests_at_least(f, o);
  cut = cut > least ? cut : least;
  return cut < had ? (cut > 0 ? cut : 1) : UINT64_MAX;
}

static int by_gain(const void *a, const void *b)
{
  const struct kvl_try *x = a, *y = b;
  if (x->kind != y->kind) {
    return (x->kind > y->kind) - (x->kind < y->kind);
  }
  if ((x->status == 0) != (y->status == 0)) {
    return x->status == 0 ? -1 : 1;
  }
  if (x->kind == KVL_TRY_BOUND || x->status != 0) {
    return strcmp(x->label, y->label);
  }
  int order = (x->gain_percent < y->gain_percent) - (x->gain_percent > y->gain_percent);
  return order != 0 ? order : strcmp(x->label, y->label);
}

static void judge(struct kvl_what_if *w)
{
  static const enum kvl_objective merits[] = {KVL_FOR_THROUGHPUT, KVL_FOR_TTFT, KVL_FOR_RATE};
  const struct kvl_summary *base = &w->item[0].summary;
  w->best = w->best_hardware = -1;
  for (uint32_t i = 1; i < w->count; i++) {
    struct kvl_try *t = &w->item[i];
    if (t->status != 0) {
      continue;
    }
    t->gain_percent = gain(w->objective, base, &t->summary, w->steady);
    for (size_t m = 0; m < sizeof merits / sizeof merits[0]; m++) {
      double loss = merits[m] == w->objective ? 0.0 : -gain(merits[m], base, &t->summary, w->steady);
      if (loss > t->worst_percent) {
        t->worst_percent = loss;
        t->worst = merits[m];
      }
    }
  }
  qsort(w->item + 1, w->count - 1, sizeof w->item[0], by_gain);
  for (uint32_t i = 1; i < w->count; i++) {
    const struct kvl_try *t = &w->item[i];
    int *best = t->kind == KVL_TRY_SETTING ? &w->best : t->kind == KVL_TRY_HARDWARE ? &w->best_hardware : NULL;
    if (w->pressed && best != NULL && *best < 0 && t->status == 0 && t->gain_percent >= 1.0 && t->gain_percent > t->worst_percent) {
      *best = (int)i;
    }
  }
}

/* The files that a re-run reads are where the scenario says. */
static int check_files(const struct kvl_scenario *s, const char *name, struct kvl_err *err)
{
  struct kvl_workload_file *file = NULL;
  struct kvl_err cause = {""};
  int rc = s->workload.kind == KVL_WORK_FILE ? kvl_workload_open(&file, s->workload.path, s->workload.format, &cause) : 0;
  if (rc == 0) {
    kvl_workload_close(file);
    return 0;
  }
  return kvl_err_set(err, rc, "%s: cannot be run again: %s%s", name, cause.text, rc == -ENOENT ? " (--set=workload.file=PATH says where it is now)" : "");
}

int kvl_explain_what_if(struct kvl_what_if *w, const struct kvl_explain_facts *f, const char *json, const char *name,
                        const struct kvl_explain_options *o, struct kvl_err *err)
{
  memset(w, 0, sizeof *w);
  w->objective = o->objective;
  uint64_t requests = requests_of(f, o);
  char requests_set[64];
  (void)snprintf(requests_set, sizeof requests_set, "workload.requests=%llu", (unsigned long long)requests);
  w->requests = requests == UINT64_MAX ? 0 : requests;
  w->requests_at_least = requests_at_least(f, o);
  w->pressed = w->requests == 0 || w->requests >= w->requests_at_least;
  w->stored_sessions = f->pressed_sessions;
  struct batch b = {.what_if = w, .json = json, .name = name, .options = o, .requests_set = w->requests > 0 ? requests_set : NULL};
  int rc = check_files(f->scenario, name, err);
  rc = rc != 0 ? rc : kvl_explain_clairvoyant(f->scenario, f->history_mean, &w->bound, err);
  if (rc != 0) {
    return rc;
  }
  (void)add_try(w, KVL_TRY_BASE, "as it was run");
  add_bounds(w, f);
  add_settings(w, f);
  add_hardware(w, f);
  rc = weed(&b, o->knobs);
  if (rc != 0) {
    free(b.base_json);
    return kvl_err_set(err, rc, "%s: cannot be run again", name);
  }
  w->base_is_stored = w->requests == 0 && o->set_count == 0 && f->run->status == KVL_STORED_COMPLETE && strcmp(f->run->plane, "model") == 0 &&
                      strcmp(f->run->build, KVL_VERSION) == 0 && strstr(f->run->build, "dirty") == NULL;
  if (w->base_is_stored) {
    w->item[0].summary = f->run->summary;
  }
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t threads = o->threads != 0 ? o->threads : cores < 1 ? 1 : (uint32_t)cores;
  b.first = w->base_is_stored ? 1 : 0;
  b.total = w->count - b.first;
  uint32_t at_once = runs_at_once(f, threads, b.total);
  b.threads = threads / at_once > 0 ? threads / at_once : 1;
  struct kvl_workers *workers = kvl_workers_create(at_once);
  if (workers == NULL || pthread_mutex_init(&b.lock, NULL) != 0) {
    kvl_workers_destroy(workers);
    free(b.base_json);
    return kvl_err_set(err, -ENOMEM, "no memory for %u threads", at_once);
  }
  if (o->progress != NULL) {
    o->progress(o->progress_context, 0, b.total, 0);
  }
  kvl_workers_run(workers, run_try, &b, b.total);
  kvl_workers_destroy(workers);
  (void)pthread_mutex_destroy(&b.lock);
  free(b.base_json);
  if (o->stop != NULL && *o->stop != 0) {
    return kvl_err_set(err, -EINTR, "interrupted");
  }
  if (w->item[0].status != 0) {
    return kvl_err_set(err, w->item[0].status, "%s: cannot be run again: %s", name, w->item[0].why);
  }
  w->steady = kvl_is_open_loop(f->scenario);
  for (uint32_t i = 0; i < w->count; i++) {
    w->steady = w->steady && (w->item[i].status != 0 || kvl_steady_ratio(&w->item[i].summary) > 0.0);
  }
  judge(w);
  return 0;
}

void kvl_what_if_free(struct kvl_what_if *w)
{
  for (uint32_t i = 0; i < w->count; i++) {
    for (uint32_t s = 0; s < w->item[i].sets; s++) {
      free(w->item[i].set[s]);
    }
  }
  w->count = 0;
}

/* The setting that gains most, though it loses more elsewhere; NULL: there is none. */
static const struct kvl_try *best_trade(const struct kvl_what_if *w)
{
  for (uint32_t i = 1; i < w->count; i++) { /* best first */
    if (w->item[i].kind == KVL_TRY_SETTING && w->item[i].status == 0 && w->item[i].gain_percent >= 1.0) {
      return &w->item[i];
    }
  }
  return NULL;
}

/* Where the figures of an objective come from the steady window, that. */
const char *kvl_what_if_window(const struct kvl_what_if *w)
{
  return w->steady && (w->objective == KVL_FOR_GOODPUT || w->objective == KVL_FOR_THROUGHPUT) ? " in the steady window" : "";
}

void kvl_what_if_advice(const struct kvl_what_if *w, char *text, size_t size)
{
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], trade[256] = "";
  const struct kvl_try *t = best_trade(w);
  if (!w->pressed) {
    char pressure[96] = "";
    if (w->stored_sessions > 0) {
      (void)snprintf(pressure, sizeof pressure, " (up to %u session%s on a decode GPU)", w->stored_sessions, kvl_text_s(w->stored_sessions));
    }
    (void)snprintf(text, size, "No setting is named, nor hardware: %llu request%s not press on the pool as the stored run did%s, and what helps %s may do harm there. "
                   "--requests=%llu is the least that would do.", (unsigned long long)w->requests, w->requests == 1 ? " does" : "s do",
                   pressure, w->requests == 1 ? "it" : "them", (unsigned long long)w->requests_at_least);
    return;
  }
  if (w->best < 0 && t != NULL) {
    (void)snprintf(trade, sizeof trade, " (%s would gain %.1f %%, but lose %.1f %% of %s: a trade)", t->label, t->gain_percent, t->worst_percent,
                   kvl_objective_meaning(t->worst));
  }
  if (w->best < 0 && w->best_hardware < 0) {
    (void)snprintf(text, size, "Leave the settings as they are: none of those tried improves %s by 1 %% without losing as much elsewhere%s.",
                   kvl_objective_meaning(w->objective), trade);
    return;
  }
  t = &w->item[w->best >= 0 ? w->best : w->best_hardware];
  double before = kvl_objective_value(w->objective, &w->item[0].summary, w->steady), after = kvl_objective_value(w->objective, &t->summary, w->steady);
  int used = snprintf(text, size, "%s%s%s%s takes %s%s from %s to %s (%+.1f %%)", w->best >= 0 ? "Turn " : "No setting is worth turning", trade,
                      w->best >= 0 ? t->label : "; more hardware would help: ", w->best >= 0 ? " next: it" : t->label, kvl_objective_meaning(w->objective), kvl_what_if_window(w),
                      kvl_text_human(a, before, 0), kvl_text_human(b, after, 0), before > 0.0 ? 100.0 * (after / before - 1.0) : 0.0);
  if (used > 0 && (size_t)used < size && t->worst_percent >= 0.05) {
    used += snprintf(text + used, size - (size_t)used, "; it loses %.1f %% of %s", t->worst_percent, kvl_objective_meaning(t->worst));
  }
  if (used > 0 && (size_t)used < size) {
    (void)snprintf(text + used, size - (size_t)used, ".");
  }
}
