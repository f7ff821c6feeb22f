#include "sim/dspark_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/run.h"
#include "sim/scenario.h"

enum { BATCHES_MAX = 16, SETS_MAX = 320, TEXT_MAX = 160, OUTPUT_TOKENS = 64, POINTS_MAX = BATCHES_MAX * (KVL_DRAFTS_MAX + 1) };
_Static_assert((int)POINTS_MAX <= (int)KVL_CURVE_MAX, "a table has room for all points");

/* Sessions of the workload's size on one decode GPU; answers as long as those of the runs below, at least. */
static uint32_t sessions_that_fit(const struct kvl_scenario *s)
{
  struct kvl_session_bytes b;
  uint32_t output = s->workload.output_tokens < OUTPUT_TOKENS ? OUTPUT_TOKENS : s->workload.output_tokens;
  kvl_session_bytes(s, (uint64_t)s->workload.input_tokens + output, &b);
  bool resident = s->mode == KVL_MODE_RESIDENT;
  uint64_t page = kvl_page_bytes(s), need = resident ? b.resident : b.fixed;
  uint64_t limits[] = {
    need == 0 ? UINT32_MAX : kvl_pool_bytes(s) / page * page / need,
    resident || b.host == 0 ? UINT32_MAX : s->node.host_pool_bytes / b.host / s->node.decode_gpus,
    resident || s->node.sessions_per_gpu_max == 0 ? UINT32_MAX : s->node.sessions_per_gpu_max,
    s->limits.batch_max == 0 ? UINT32_MAX : s->limits.batch_max,
    512, /* the largest decode batch of one GPU (sim/run.c) */
  };
  uint64_t fit = UINT32_MAX;
  for (uint32_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    fit = limits[i] < fit ? limits[i] : fit;
  }
  return (uint32_t)fit;
}

/* 1, 2, 4, 8, then half again and double, ending with the largest. */
static uint32_t batches_up_to(uint32_t largest, uint32_t batch[BATCHES_MAX])
{
  static const uint32_t grid[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};
  uint32_t n = 0;
  while (n < sizeof grid / sizeof grid[0] && grid[n] < largest) {
    batch[n] = grid[n];
    n++;
  }
  batch[n++] = largest;
  return n;
}

/* One run: `batch` sessions at once on one GPU, `verified` drafts of each in every step. */
static int measure(const struct kvl_dspark_table_options *o, uint32_t batch, uint32_t verified, uint64_t *step_ns, uint64_t *draft_ns, struct kvl_err *err)
{
  char text[6][TEXT_MAX];
  const char *sets[SETS_MAX];
  unsigned count = 0;
  for (; count < o->set_count; count++) {
    sets[count] = o->sets[count];
  }
  static const char *const fixed[] = {"workload.kind=closed", "workload.open_interval_ms=0", "node.decode_gpus=1", "node.prefill_gpus=4096", "node.routing=least_loaded",
                                      "limits.simulated_s_max=0", "limits.request_timeout_s=0", "speculation.accepted_lengths=[]",
                                      "speculation.accepted_mean=0", "speculation.stop=first", "speculation.draft_cost_table=[]"};
  for (unsigned i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
    sets[count++] = fixed[i];
  }
  (void)snprintf(text[0], TEXT_MAX, "workload.concurrency=%u", batch);
  (void)snprintf(text[1], TEXT_MAX, "workload.requests=%u", batch);
  (void)snprintf(text[2], TEXT_MAX, "workload.output_tokens=%d", OUTPUT_TOKENS);
  (void)snprintf(text[3], TEXT_MAX, "speculation.drafts=%u", verified == 0 ? 1 : verified);
  /* A flat table admits whatever is offered, one that explodes admits nothing. */
  (void)snprintf(text[4], TEXT_MAX, verified == 0 ? "speculation.cost_table=[[%u,0.001],[%u,1000000000]]" : "speculation.cost_table=[[%u,1],[%u,1]]", batch, batch + 1);
  for (unsigned i = 0; i < 5; i++) {
    sets[count++] = text[i];
  }
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_run_options run = {.plane = o->plane, .command = "kvloan dspark-table", .threads = o->threads, .matched_batch = batch,
                                .matched_queries = batch * (verified + 1), .stop = o->stop};
  struct kvl_run_result result;
  int rc = kvl_scenario_load(&doc, o->scenario, sets, count, err);
  rc = rc != 0 ? rc : kvl_run(doc, &run, &result, err);
  kvl_scenario_free(doc);
  if (rc != 0) {
    return rc;
  }
  const struct kvl_engine_result *r = &result.engine;
  if (r->status == KVL_RUN_INTERRUPTED) {
    return kvl_err_set(err, -EINTR, "interrupted");
  }
  if (r->matched_steps == 0 || r->matched_step_ns <= r->matched_draft_ns) {
    return kvl_err_set(err, -EINVAL, "%s: no step of %u requests that verify %u drafts each came about", o->scenario, batch, verified);
  }
  *step_ns = r->matched_step_ns - r->matched_draft_ns;
  *draft_ns = r->matched_draft_ns;
  return 0;
}

struct point {
  uint64_t tokens, sum_ns, weight;
};

static void add_point(struct point *point, uint32_t *count, uint64_t tokens, uint64_t ns)
{
  uint32_t at = *count;
  while (at > 0 && point[at - 1].tokens >= tokens) {
    at--;
  }
  if (at < *count && point[at].tokens == tokens) {
    point[at].sum_ns += ns;
    point[at].weight++;
    return;
  }
  memmove(&point[at + 1], &point[at], (*count - at) * sizeof *point);
  point[at] = (struct point){tokens, ns, 1};
  ++*count;
}

/* Pool adjacent violators: neighbours that fall are replaced by their mean. */
static void ascend(const struct point *point, uint32_t count, struct kvl_curve *curve)
{
  struct point block[POINTS_MAX]; /* tokens: points in the block */
  uint32_t blocks = 0;
  for (uint32_t i = 0; i < count; i++) {
    block[blocks++] = (struct point){1, point[i].sum_ns, point[i].weight};
    while (blocks > 1 && block[blocks - 2].sum_ns / block[blocks - 2].weight > block[blocks - 1].sum_ns / block[blocks - 1].weight) {
      block[blocks - 2].tokens += block[blocks - 1].tokens;
      block[blocks - 2].sum_ns += block[blocks - 1].sum_ns;
      block[blocks - 2].weight += block[blocks - 1].weight;
      blocks--;
    }
  }
  curve->n = 0;
  for (uint32_t b = 0; b < blocks; b++) {
    for (uint64_t k = 0; k < block[b].tokens; k++, curve->n++) {
      curve->x[curve->n] = point[curve->n].tokens;
      curve->y[curve->n] = block[b].sum_ns / block[b].weight;
    }
  }
}

int kvl_dspark_table_build(const struct kvl_dspark_table_options *o, struct kvl_dspark_table *table, struct kvl_err *err)
{
  memset(table, 0, sizeof *table);
  struct kvl_scenario_doc *doc = NULL;
  if (o->set_count + 32 > SETS_MAX) {
    return kvl_err_set(err, -EINVAL, "%s: more than %d settings", o->scenario, SETS_MAX - 32);
  }
  int rc = kvl_scenario_load(&doc, o->scenario, o->sets, o->set_count, err);
  if (rc != 0) {
    return rc;
  }
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  uint32_t drafts = s->speculation.drafts, fit = sessions_that_fit(s);
  if (s->speculation.method == KVL_SPECULATION_NONE) {
    rc = kvl_err_set(err, -EINVAL, "%s: speculation.method: without speculation there is nothing to schedule (--set=speculation=NAME; kvloan scenario list has them)",
                     s->file);
  } else if (s->workload.kind == KVL_WORK_FILE) {
    rc = kvl_err_set(err, -EINVAL, "%s: workload.kind: the table needs requests of one size (nearest: closed)", s->file);
  } else if (o->batch_max > fit) {
    rc = kvl_err_set(err, -EINVAL, "%s: a batch of %u does not fit a decode GPU in %s mode (nearest: %u)", s->file, o->batch_max, kvl_mode_name(s->mode), fit);
  }
  table->batch_max = o->batch_max != 0 ? o->batch_max : fit;
  (void)snprintf(table->mode, sizeof table->mode, "%s", kvl_mode_name(s->mode));
  (void)snprintf(table->plane, sizeof table->plane, "%s", o->plane);
  memcpy(table->old_name, s->speculation.name, sizeof table->old_name);
  kvl_scenario_free(doc);
  struct point step[POINTS_MAX + 1], draft[BATCHES_MAX + 1];
  uint32_t steps = 0, requests = 0, batch[BATCHES_MAX], batches = rc != 0 ? 0 : batches_up_to(table->batch_max, batch);
  for (uint32_t b = 0; rc == 0 && b < batches; b++) {
    for (uint32_t k = 0; rc == 0 && k <= (batch[b] == table->batch_max ? drafts : 0); k++) {
      uint64_t step_ns = 0, draft_ns = 0;
      if (o->say != NULL) {
        char what[96];
        (void)snprintf(what, sizeof what, "%u request%s, %u of %u draft%s verified", batch[b], kvl_text_s(batch[b]), k, drafts, kvl_text_s(drafts));
        o->say(o->say_context, what);
      }
      rc = measure(o, batch[b], k, &step_ns, &draft_ns, err);
      if (rc == 0) {
        add_point(step, &steps, (uint64_t)batch[b] * (k + 1), step_ns);
        add_point(draft, &requests, batch[b], draft_ns);
        table->runs++;
      }
    }
  }
  if (rc == 0) {
    ascend(step, steps, &table->step_ns);
    ascend(draft, requests, &table->draft_ns);
  }
  return rc;
}

/* "[[1,5.109],[2,5.162]]", milliseconds. Returns the length. */
static size_t print_curve(char *text, size_t size, const struct kvl_curve *curve)
{
  size_t used = (size_t)snprintf(text, size, "[");
  for (uint32_t i = 0; i < curve->n && used < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%s[%" PRIu64 ",%" PRIu64 ".%06" PRIu64 "]", i > 0 ? "," : "", curve->x[i], curve->y[i] / 1000000,
                             curve->y[i] % 1000000);
  }
  return used + (size_t)snprintf(text + used, size - used, "]");
}

/* The object that is the member `key` of canonical JSON, braces included. */
static char *take_object(const char *json, const char *key)
{
  const char *at = strstr(json, key);
  if (at == NULL) {
    return NULL;
  }
  at += strlen(key);
  int depth = 0;
  bool quoted = false;
  size_t n = 0;
  do {
    char c = at[n];
    if (c == '\\' && quoted) {
      n++;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth += (c == '{') - (c == '}');
    }
    n++;
  } while (depth > 0 && at[n - 1] != '\0');
  char *object = malloc(n + 2);
  if (object != NULL) {
    memcpy(object, at, n);
    object[n] = '\n';
    object[n + 1] = '\0';
  }
  return object;
}

int kvl_dspark_table_descriptor(const struct kvl_dspark_table_options *o, const struct kvl_dspark_table *table, const char *name, char **text,
                                struct kvl_err *err)
{
  enum { VALUE_MAX = KVL_CURVE_MAX * 40 + 512 };
  struct kvl_scenario_doc *doc = NULL;
  char *value = malloc(VALUE_MAX), *json = NULL, origin[256];
  *text = NULL;
  int rc = value == NULL ? kvl_err_set(err, -ENOMEM, "no memory for the table") : kvl_scenario_load(&doc, o->scenario, o->sets, o->set_count, err);
  (void)snprintf(origin, sizeof origin, "kvloan dspark-table: %u runs on the %s plane, %s mode, batches of 1 to %u", table->runs, table->plane, table->mode,
                 table->batch_max);
  for (int i = 0; rc == 0 && i < 2; i++) {
    size_t used = (size_t)snprintf(value, VALUE_MAX, "speculation.%s={\"value\":", i == 0 ? "cost_table" : "draft_cost_table");
    used += print_curve(value + used, VALUE_MAX - used, i == 0 ? &table->step_ns : &table->draft_ns);
    (void)snprintf(value + used, VALUE_MAX - used, ",\"origin\":\"%s\"}", origin);
    rc = kvl_scenario_set(doc, value, err);
  }
  if (rc == 0) {
    if (name != NULL) {
      (void)snprintf(value, VALUE_MAX, "speculation.name=%s", name);
    } else {
      (void)snprintf(value, VALUE_MAX, "speculation.name=%.60s-tuned-%s", table->old_name[0] != '\0' ? table->old_name : "dspark", table->mode);
    }
    rc = kvl_scenario_set(doc, value, err);
  }
  if (rc == 0) {
    json = kvl_scenario_json(doc);
    *text = json == NULL ? NULL : take_object(json, "\"speculation\":");
    rc = *text == NULL ? kvl_err_set(err, -ENOMEM, "no memory for the table") : 0;
  }
  free(json);
  free(value);
  kvl_scenario_free(doc);
  return rc;
}
