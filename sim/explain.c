/* The facts: what a run's records say. */
#include "sim/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"

static void read_slices(struct kvl_explain_facts *f, const struct kvl_timeline *line)
{
  enum { EACH = KVL_TIMELINE_BINS / KVL_EXPLAIN_SLICES };
  double waiting = 0.0, resident = 0.0, batch = 0.0, time = 0.0;
  for (uint32_t i = 0; i < KVL_EXPLAIN_SLICES; i++) {
    double sum[KVL_LINES] = {0};
    for (uint32_t b = i * EACH; b < (i + 1) * EACH; b++) {
      for (int k = 0; k < KVL_LINES; k++) {
        sum[k] += line->bin[b][k];
      }
    }
    waiting += sum[KVL_LINE_WAITING];
    time += sum[KVL_LINE_TIME];
    resident += sum[KVL_LINE_RESIDENT];
    batch += sum[KVL_LINE_BATCH];
    if (!(sum[KVL_LINE_TIME] > 0.0)) {
      continue;
    }
    double part = 100.0 / kvl_timeline_frames(sum), each = (double)line->end_ns / 1e9 / KVL_EXPLAIN_SLICES;
    f->slice[f->slices++] = (struct kvl_explain_slice){
      .from_s = each * i, .to_s = each * (i + 1), .batch = sum[KVL_LINE_BATCH] / sum[KVL_LINE_TIME], .waiting = sum[KVL_LINE_WAITING] / sum[KVL_LINE_TIME],
      .reserved = part * sum[KVL_LINE_RESERVED], .lent = part * sum[KVL_LINE_LENT], .retiring = part * sum[KVL_LINE_RETIRING],
      .free = part * sum[KVL_LINE_FREE], .history = sum[KVL_LINE_BATCH] > 0.0 ? 100.0 * sum[KVL_LINE_RESIDENT] / sum[KVL_LINE_BATCH] : 0.0};
  }
  f->waiting_mean = time > 0.0 ? waiting / time : 0.0;
  f->history_mean = batch > 0.0 ? 100.0 * resident / batch : 0.0;
}

static int collect_point(void *context, const struct kvl_point_counter *p)
{
  struct kvl_explain_facts *f = context;
  if (p->point >= KVL_EXPLAIN_POINTS) {
    return 0;
  }
  struct kvl_explain_point *to = &f->point[p->point];
  f->points = p->point >= f->points ? p->point + 1 : f->points;
  to->layer = p->layer;
  to->cache = p->cache;
  to->fetched += p->fetched;
  for (int t = 0; t < KVL_REPORT_TIERS; t++) {
    to->lanes[t] += p->lanes[t];
  }
  return 0;
}

static int collect_move(void *context, const struct kvl_move_record *m)
{
  struct kvl_explain_facts *f = context;
  f->moved_pages[0] += m->revoked;
  f->moved_pages[1] += m->populated;
  f->moved_pages[2] += m->given_back;
  f->moved_pages[3] += m->kept;
  f->moved_bytes += m->bytes;
  return 0;
}

static void sum_link(struct kvl_explain_facts *f)
{
  const struct kvl_scenario *s = f->scenario;
  for (uint32_t p = 0; p < f->points; p++) {
    if (f->point[p].cache < s->model.caches) {
      f->link.demand += f->point[p].fetched * s->model.cache[f->point[p].cache].row_bytes;
    }
  }
  f->link.give_back = f->moved_pages[2] * f->page_bytes < f->moved_bytes ? f->moved_pages[2] * f->page_bytes : f->moved_bytes;
  f->link.population = f->moved_bytes - f->link.give_back;
  for (uint32_t p = 0; p < s->model.selection.points && s->policy.prefetch == KVL_PREFETCH_POOL; p++) {
    if (s->model.selection.point[p].layer == s->model.pool_layer) { /* the cache whose pool is announced */
      f->link.prefetch = f->run->summary.prefetch_copied * s->model.cache[s->model.selection.point[p].cache].row_bytes;
    }
  }
  uint64_t known = f->link.demand + f->link.population + f->link.give_back + f->link.prefetch, total = f->run->summary.host_link_bytes;
  f->link.other = total > known ? total - known : 0;
  double seconds = f->run->summary.simulated_s * s->node.decode_gpus;
  f->link_gb_per_s = seconds > 0.0 ? (double)total / seconds / 1e9 : 0.0;
}

/* Which limit the sessions of a decode GPU ran into, if any: of one size only, others fill a GPU in too many ways. */
static void find_limit(struct kvl_explain_facts *f)
{
  const struct kvl_scenario *s = f->scenario;
  struct kvl_session_bytes b;
  bool resident = s->mode == KVL_MODE_RESIDENT;
  uint64_t most = f->run->summary.sessions_per_decode_gpu_max;
  f->sessions_bound_by = "";
  if (s->node.sessions_per_gpu_max > 0 && !resident && most >= s->node.sessions_per_gpu_max) {
    f->sessions_fit = s->node.sessions_per_gpu_max;
    f->sessions_bound_by = "node.sessions_per_gpu_max";
  } else if (s->limits.batch_max > 0 && most >= s->limits.batch_max) {
    f->sessions_fit = s->limits.batch_max;
    f->sessions_bound_by = "limits.batch_max";
  }
  if (s->workload.kind == KVL_WORK_FILE) {
    return;
  }
  kvl_session_bytes(s, (uint64_t)s->workload.input_tokens + s->workload.output_tokens, &b);
  uint64_t pool = kvl_pool_bytes(s) / f->page_bytes * f->page_bytes, need = resident ? b.resident : b.fixed;
  uint64_t hbm = need > 0 ? pool / need : UINT64_MAX, host = resident || b.host == 0 ? UINT64_MAX : s->node.host_pool_bytes / b.host / s->node.decode_gpus;
  uint64_t fit = hbm < host ? hbm : host;
  if (f->sessions_bound_by[0] == '\0' || fit < f->sessions_fit) {
    f->sessions_fit = fit;
    f->sessions_bound_by = most < fit ? "" : hbm <= host ? (resident ? "the HBM pool: whole histories" : "the HBM pool: fixed parts") : "the host pool";
  }
}

static void find_binding(struct kvl_explain_facts *f)
{
  const struct kvl_summary *s = &f->run->summary;
  const double prefill = 100.0 * s->prefill_busy_share;
  double time = 0.0;
  for (int c = 0; c < KVL_STALLS; c++) {
    time += s->stall_ms_by_cause[c];
  }
  double link = time > 0.0 ? 100.0 * (s->stall_ms_by_cause[KVL_STALL_FETCH] + s->stall_ms_by_cause[KVL_STALL_LINK_WAIT] +
                                      s->stall_ms_by_cause[KVL_STALL_PREFETCH_WAIT] + s->stall_ms_by_cause[KVL_STALL_POPULATION]) / time : 0.0;
  double compute = time > 0.0 ? 100.0 * s->stall_ms_by_cause[KVL_STALL_COMPUTE] / time : 0.0;
  char *text = f->binding;
  size_t size = sizeof f->binding;
  if (s->steps == 0) {
    f->binds = KVL_BINDS_LOAD;
    (void)snprintf(text, size, "The run ended before its first decode step: there is nothing to say of what binds.");
  } else if (prefill >= 85.0 && f->waiting_mean < 1.0) {
    f->binds = KVL_BINDS_PREFILL;
    (void)snprintf(text, size, "Prefill is what binds: its GPUs are busy %.0f %% of the time, and hardly a request waits for a decode slot (%.2g on average). Nothing about "
                   "the decode GPUs' memory can help much.", prefill, f->waiting_mean);
  } else if (f->waiting_mean >= 1.0) {
    f->binds = KVL_BINDS_SESSIONS;
    int used = snprintf(text, size, "Decode slots are what binds: %.3g requests wait for one on average, with up to %" PRIu32 " sessions on a decode GPU", f->waiting_mean,
                        s->sessions_per_decode_gpu_max);
    if (f->sessions_bound_by[0] != '\0') {
      used += snprintf(text + used, size - (size_t)used, " (the limit is %s)", f->sessions_bound_by);
    }
    (void)snprintf(text + used, size - (size_t)used, ". More sessions at once would help, or shorter steps: misses and copies over the link take %.1f %% of the decode GPUs' "
                   "time%s.", link, prefill >= 85.0 ? "; prefill is nearly full as well" : "");
  } else if (link > 25.0) {
    f->binds = KVL_BINDS_LINK;
    (void)snprintf(text, size, "The host link is what binds: misses, waits and copies over it take %.0f %% of the decode GPUs' time.", link);
  } else if (s->decode_batch_p50 > 0 && time > 0.0 && f->scenario->workload.kind == KVL_WORK_CLOSED) {
    f->binds = KVL_BINDS_COMPUTE;
    (void)snprintf(text, size, "Nobody waits for memory or for prefill: the length of a decode step is what binds, %.0f %% of it the model's own compute, %.1f %% misses and "
                   "copies over the link.", compute, link);
  } else {
    f->binds = KVL_BINDS_LOAD;
    (void)snprintf(text, size, "Nothing binds: the load is what it is, and the node keeps up (prefill GPUs %.0f %% busy, %.2g requests wait for a decode slot on average).",
                   prefill, f->waiting_mean);
  }
}

int kvl_explain_read(struct kvl_explain_facts *f, struct kvl_store *store, const struct kvl_stored_run *run, const struct kvl_scenario *scenario,
                     struct kvl_err *err)
{
  memset(f, 0, sizeof *f);
  f->run = run;
  f->scenario = scenario;
  f->page_bytes = kvl_page_bytes(scenario);
  struct kvl_run_rows rows;
  int rc = kvl_store_rows(store, run->id, &rows, err);
  if (rc == 0 && rows.samples > 0) {
    struct kvl_timeline *line = malloc(sizeof *line);
    rc = line == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : kvl_timeline_read(line, store, run->id, err);
    if (rc == 0) {
      read_slices(f, line);
    }
    free(line);
  }
  rc = rc != 0 ? rc : kvl_store_each_point(store, run->id, collect_point, f, err);
  rc = rc != 0 ? rc : kvl_store_each_move(store, run->id, collect_move, f, err);
  rc = rc != 0 ? rc : kvl_explain_press(f, store, err);
  if (rc == 0) {
    sum_link(f);
    find_limit(f);
    find_binding(f);
  }
  return rc;
}

bool kvl_is_open_loop(const struct kvl_scenario *s)
{
  return s->workload.kind == KVL_WORK_FILE ? s->workload.concurrency == 0 : s->workload.kind != KVL_WORK_CLOSED;
}

double kvl_steady_ratio(const struct kvl_summary *s)
{
  enum { STAYS_MIN = 3 }; /* one until the first completes, one that drains, one between them at least */
  double whole = s->output_throughput_tok_per_s, steady = s->output_throughput_steady_tok_per_s;
  return whole > 0.0 && steady > 0.0 && s->e2e_s.p90 > 0.0 && s->simulated_s >= STAYS_MIN * s->e2e_s.p90 ? steady / whole : 0.0;
}

void kvl_explain_prefetch(const struct kvl_summary *s, char *text, size_t size)
{
  text[0] = '\0';
  if (s->prefetch_groups > 0) {
    char rows[KVL_TEXT_NUMBER_MAX], late[96] = "all of them";
    uint64_t ended = s->prefetch_used + s->prefetch_unused, waited = s->prefetch_groups - s->prefetch_landed;
    if (waited > 0) {
      (void)snprintf(late, sizeof late, "%.1f %% (the others were waited for %.3g ms on average)", 100.0 * (double)s->prefetch_landed / (double)s->prefetch_groups,
                     s->prefetch_wait_ms / (double)waited);
    }
    (void)snprintf(text, size, "Prefetch: of the announcements that had anything to copy, %s had landed when first asked; of %s rows copied, %.1f %% were named before they were given "
                   "up; %.2f %% of the rows selected at the later layers still came on demand.", late, kvl_text_count(rows, s->prefetch_copied),
                   ended > 0 ? 100.0 * (double)s->prefetch_used / (double)ended : 0.0,
                   s->prefetch_later_lanes > 0 ? 100.0 * (double)s->prefetch_later_demand / (double)s->prefetch_later_lanes : 0.0);
  }
}

void kvl_explain_speculation(const struct kvl_summary *s, char *text, size_t size)
{
  text[0] = '\0';
  if (s->drafts_verified > 0) {
    (void)snprintf(text, size, "Speculation: %.1f %% of the drafts that were verified were accepted, %.2f tokens a step and request; drafting takes %.1f %% of the steps' time.",
                   100.0 * (double)s->drafts_accepted / (double)s->drafts_verified, s->tokens_per_step_per_request, 100.0 * s->draft_time_share);
  }
}

void kvl_explain_workload(const struct kvl_scenario *s, char *text, size_t size)
{
  char in[KVL_TEXT_NUMBER_MAX], out[KVL_TEXT_NUMBER_MAX], cached[KVL_TEXT_NUMBER_MAX], n[KVL_TEXT_NUMBER_MAX], requests[KVL_TEXT_NUMBER_MAX];
  char sizes[256];
  (void)snprintf(sizes, sizeof sizes, "%s tokens in (%s of them cached) and %s out", kvl_text_count(in, s->workload.input_tokens),
                 kvl_text_count(cached, s->workload.cached_tokens), kvl_text_count(out, s->workload.output_tokens));
  (void)kvl_text_count(requests, s->workload.requests);
  switch (s->workload.kind) {
  case KVL_WORK_CLOSED:
    (void)snprintf(text, size, "%s request%s of %s, %s at a time", requests, kvl_text_s(s->workload.requests), sizes, kvl_text_count(n, s->workload.concurrency));
    return;
  case KVL_WORK_POISSON:
  case KVL_WORK_GAMMA:
    (void)snprintf(text, size, "%s request%s of %s, arriving %s a second (%s)", requests, kvl_text_s(s->workload.requests), sizes, kvl_text_human(n, s->workload.rate_per_s, 0),
                   s->workload.kind == KVL_WORK_POISSON ? "Poisson" : "gamma");
    return;
  case KVL_WORK_FILE: {
    const char *slash = strrchr(s->workload.path, '/');
    int used = snprintf(text, size, "the requests of %s", slash != NULL ? slash + 1 : s->workload.path);
    if (s->workload.requests > 0 && used > 0 && (size_t)used < size) {
      used += snprintf(text + used, size - (size_t)used, ", the first %s", requests);
    }
    if (s->workload.concurrency > 0 && used > 0 && (size_t)used < size) {
      (void)snprintf(text + used, size - (size_t)used, ", %s session%s at a time", kvl_text_count(n, s->workload.concurrency), kvl_text_s(s->workload.concurrency));
    }
    return;
  }
  }
}
