/* kvloan trace curve: miss rate against hot size, of a trace file or of a preset as it is generated.
 *
 * Every selection is a transaction of its own (semantics: section 2): a cache that several layers select from is replayed selection by selection through one
 * hot cache, in order of layer; the queries of a speculative step go together. Misses are counted after `warm` steps, summed over sessions. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/cmd_trace.h"
#include "traces/curve.h"

/* Published (arXiv 2608.07009): GLM-5.1, k 2,048, LongBenchV2, 100,000-token prompts. At hot size k every policy keeps the last selection. */
static const struct {
  uint32_t size_q10;
  enum kvl_miss_policy policy;
  double percent;
} published[] = {
  {1024, KVL_MISS_LRU, 30.0},  {1024, KVL_MISS_FIFO, 30.0}, {1024, KVL_MISS_RANDOM, 30.0},      {1024, KVL_MISS_CLAIRVOYANT, 30.0},
  {2048, KVL_MISS_LRU, 13.4},  {2048, KVL_MISS_FIFO, 17.2}, {2048, KVL_MISS_RANDOM, 16.1},      {2048, KVL_MISS_CLAIRVOYANT, 8.2},
  {4096, KVL_MISS_LRU, 6.7},
};

static double published_percent(uint32_t size_q10, enum kvl_miss_policy policy)
{
  for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
    if (published[i].size_q10 == size_q10 && published[i].policy == policy)
      return published[i].percent;
  }
  return 0;
}

struct cache_curve {
  uint32_t cache, like;  /* how many caches of the model are like it */
  uint32_t k;            /* of its largest selection */
  uint32_t points;
  uint32_t rows;         /* of its history, at most */
  bool comparable;       /* with the published points: of one layer of GLM-5.1, or of a preset fitted to them, at about their history */
  struct kvl_miss_count count[KVL_TRACE_SIZES_MAX][KVL_MISS_POLICIES];
};

struct curve {
  const struct kvl_trace_call *call;
  struct kvl_selection_shape shape;
  char source[2 * KVL_TRACE_MODEL_MAX + 4];
  bool generated;        /* by the score process, here or by `trace gen`; else recorded */
  struct cache_curve *cache;
  uint32_t caches, sessions, sessions_of, steps, warm;
};

static uint32_t hot_rows(const struct cache_curve *c, uint32_t size_q10)
{
  uint64_t rows = ((uint64_t)c->k * size_q10 + 512) >> 10;
  return rows > 0 ? (uint32_t)rows : 1;
}

static void describe(struct curve *v, struct cache_curve *c, uint32_t cache)
{
  *c = (struct cache_curve){.cache = cache, .like = 1};
  for (uint32_t p = 0; p < v->shape.points; p++) {
    if (v->shape.point[p].cache == cache) {
      c->points++;
      c->k = v->shape.point[p].k > c->k ? v->shape.point[p].k : c->k;
    }
  }
}

static void compare(const struct curve *v, struct cache_curve *c)
{
  c->comparable = c->points == 1 && c->k == 2048 && v->shape.tokens_per_row[c->cache] == 1 && c->rows >= 50000 && c->rows <= 150000 &&
                  !strstr(v->source, "cold-") && (!strncmp(v->source, "glm-5.1", 7) || (v->generated && !strncmp(v->source, "single-cache", 12)));
}

/* Counts one session of one cache at every size and policy. */
static int replay(struct curve *v, struct cache_curve *c, const struct kvl_miss_curve *steps, struct kvl_err *err)
{
  uint32_t transactions = kvl_miss_curve_steps(steps);
  uint32_t warm = v->warm < transactions / c->points ? v->warm * c->points : transactions;
  for (uint32_t s = 0; s < v->call->sizes; s++) {
    for (int p = 0; p < KVL_MISS_POLICIES; p++) {
      struct kvl_miss_count count;
      int code = kvl_miss_curve_replay(steps, (enum kvl_miss_policy)p, hot_rows(c, v->call->size_q10[s]), warm, v->call->seed, &count);
      if (code)
        return kvl_err_set(err, code, "no memory to replay cache %u", c->cache);
      c->count[s][p].misses += count.misses;
      c->count[s][p].accesses += count.accesses;
      if (kvl_trace_stopped())
        return kvl_err_set(err, -EINTR, "interrupted");
    }
  }
  return 0;
}

/* All queries of a selection as one transaction. */
static int add_selection(struct kvl_miss_curve *steps, const struct kvl_trace_list *lists, uint32_t queries, int32_t **joint, size_t *capacity)
{
  size_t count = 0;
  if (queries == 1)
    return kvl_miss_curve_add(steps, lists[0].item, lists[0].count);
  for (uint32_t q = 0; q < queries; q++) {
    if (count + lists[q].count > *capacity) {
      size_t wanted = 2 * (count + lists[q].count);
      int32_t *grown = realloc(*joint, wanted * sizeof *grown);
      if (grown == NULL)
        return -ENOMEM;
      *joint = grown;
      *capacity = wanted;
    }
    if (lists[q].count > 0)
      memcpy(*joint + count, lists[q].item, lists[q].count * sizeof **joint);
    count += lists[q].count;
  }
  return kvl_miss_curve_add(steps, *joint, (uint32_t)count);
}

/* One cache of one session of a file. */
static int file_session(struct curve *v, struct cache_curve *c, struct kvl_trace *trace, uint32_t session, struct kvl_err *err)
{
  struct kvl_miss_curve *steps = kvl_miss_curve_create();
  struct kvl_trace_step step;
  int32_t *joint = NULL;
  size_t capacity = 0;
  uint32_t n = kvl_trace_session_of(trace, session)->steps;
  int code = steps == NULL ? kvl_err_set(err, -ENOMEM, "no memory") : kvl_trace_seek(trace, session, 0, err);

  for (uint32_t s = 0; code == 0 && s < n; s++) {
    code = kvl_trace_next(trace, &step, NULL, NULL, err) == 1 ? 0 : -EIO;
    for (uint32_t p = 0; code == 0 && p < v->shape.points; p++) {
      if (v->shape.point[p].cache == c->cache && add_selection(steps, &step.selected[p * step.queries], step.queries, &joint, &capacity))
        code = kvl_err_set(err, -ENOMEM, "no memory for session %u", session);
    }
    if (code == 0 && step.tokens / v->shape.tokens_per_row[c->cache] > c->rows)
      c->rows = step.tokens / v->shape.tokens_per_row[c->cache];
  }
  if (code == 0)
    code = replay(v, c, steps, err);
  kvl_miss_curve_destroy(steps);
  free(joint);
  return code;
}

static int of_file(struct curve *v, struct kvl_err *err)
{
  static const char generated[] = "generated: "; /* what `trace gen` writes */
  struct kvl_trace *trace;
  struct kvl_trace_totals totals;
  uint32_t steps_min = UINT32_MAX;
  int code = kvl_trace_open(&trace, v->call->file, err);
  if (code)
    return code;
  kvl_trace_totals_of(trace, &totals);
  v->shape = kvl_trace_meta_of(trace)->shape;
  v->sessions_of = totals.sessions;
  v->sessions = v->call->sessions ? v->call->sessions : 4;
  v->sessions = v->sessions < totals.sessions ? v->sessions : totals.sessions;
  for (uint32_t s = 0; s < v->sessions; s++) {
    uint32_t steps = kvl_trace_session_of(trace, s)->steps;
    steps_min = steps < steps_min ? steps : steps_min;
  }
  v->steps = steps_min;
  v->warm = kvl_trace_given(v->call, "warm") ? v->call->warm : steps_min / 2;
  (void)snprintf(v->source, sizeof v->source, "%s, %.*s", kvl_trace_meta_of(trace)->model, KVL_TRACE_MODEL_MAX, kvl_trace_meta_of(trace)->origin);
  v->generated = !strncmp(kvl_trace_meta_of(trace)->origin, generated, sizeof generated - 1);
  for (char *c = v->source; *c; c++)
    *c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c; /* anybody's text */
  if (kvl_trace_given(v->call, "cache") && v->call->cache >= v->shape.caches)
    code = kvl_err_set(err, -EINVAL, "--cache=%u: the trace has caches 0 to %u", v->call->cache, v->shape.caches - 1);
  for (uint32_t i = 0; code == 0 && i < v->shape.caches; i++) {
    struct cache_curve *c = &v->cache[v->caches];
    describe(v, c, i);
    if (c->points == 0 || (kvl_trace_given(v->call, "cache") && i != v->call->cache))
      continue;
    v->caches++;
    for (uint32_t s = 0; code == 0 && s < v->sessions; s++) {
      kvl_trace_progress("sessions replayed", i * v->sessions + s, (uint64_t)v->shape.caches * v->sessions);
      code = file_session(v, c, trace, s, err);
    }
    compare(v, c);
  }
  kvl_trace_progress("", 1, 1);
  kvl_trace_close(trace);
  return code;
}

/* One cache alone: the same selections of the same points. */
static struct kvl_selection_shape only_cache(const struct kvl_selection_shape *shape, uint32_t cache)
{
  struct kvl_selection_shape one = {.caches = 1};
  one.tokens_per_row[0] = shape->tokens_per_row[cache];
  for (uint32_t p = 0; p < shape->points; p++) {
    if (shape->point[p].cache == cache) {
      one.point[one.points] = shape->point[p];
      one.point[one.points++].cache = 0;
    }
  }
  return one;
}

static bool alike(const struct kvl_selection_shape *shape, uint32_t a, uint32_t b)
{
  struct kvl_selection_shape x = only_cache(shape, a), y = only_cache(shape, b);
  bool same = x.tokens_per_row[0] == y.tokens_per_row[0] && x.points == y.points;
  for (uint32_t p = 0; same && p < x.points; p++)
    same = x.point[p].k == y.point[p].k;
  return same;
}

static int generated_session(struct curve *v, struct cache_curve *c, struct kvl_selection_stream *stream, uint32_t session, struct kvl_err *err)
{
  struct kvl_miss_curve *steps = kvl_miss_curve_create();
  int code = steps == NULL ? -ENOMEM : 0;
  kvl_stream_start(stream, session, v->call->context);
  for (uint32_t s = 0; code == 0 && s < v->steps; s++) {
    kvl_stream_step(stream, v->call->context + s, 1);
    for (uint32_t p = 0; code == 0 && p < c->points; p++) {
      const int32_t *rows;
      uint32_t count = kvl_stream_rows(stream, p, 0, &rows);
      code = kvl_miss_curve_add(steps, rows, count);
    }
  }
  code = code ? kvl_err_set(err, code, "no memory for %u steps", v->steps) : replay(v, c, steps, err);
  kvl_miss_curve_destroy(steps);
  return code;
}

static int generated_cache(struct curve *v, struct cache_curve *c, struct kvl_err *err)
{
  struct kvl_selection_shape shape = only_cache(&v->shape, c->cache);
  struct kvl_selection_source *source = NULL;
  struct kvl_selection_stream *stream;
  int code = kvl_source_open_preset(&source, v->call->preset, &shape, v->call->seed, err);
  if (code)
    return code;
  stream = kvl_stream_create(source, v->call->context + v->steps, 1);
  if (stream == NULL)
    code = kvl_err_set(err, -ENOMEM, "no memory for a session of %u tokens", v->call->context);
  for (uint32_t s = 0; code == 0 && s < v->sessions; s++) {
    kvl_trace_progress("sessions replayed", s, v->sessions);
    code = generated_session(v, c, stream, s, err);
  }
  kvl_trace_progress("", 1, 1);
  c->rows = (v->call->context + v->steps - 1) / shape.tokens_per_row[0];
  if (stream != NULL)
    kvl_stream_destroy(stream);
  kvl_source_close(source);
  return code;
}

static int of_preset(struct curve *v, struct kvl_err *err)
{
  char model[KVL_TRACE_MODEL_MAX + 1];
  int code = kvl_trace_shape(v->call, &v->shape, model);
  if (code) {
    err->text[0] = '\0'; /* said already */
    return code;
  }
  v->shape.pool.blocks = 0; /* curves are of selections */
  v->sessions = v->sessions_of = v->call->sessions ? v->call->sessions : 4;
  v->steps = v->call->steps ? v->call->steps : 600;
  v->warm = kvl_trace_given(v->call, "warm") ? v->call->warm : v->steps / 2;
  (void)snprintf(v->source, sizeof v->source, "%s, preset %s", model, v->call->preset);
  v->generated = true;
  code = kvl_trace_fits(v->call, &v->shape, v->steps, err);
  if (code)
    return code;
  if (kvl_trace_given(v->call, "cache") && v->call->cache >= v->shape.caches)
    return kvl_err_set(err, -EINVAL, "--cache=%u: the model has caches 0 to %u", v->call->cache, v->shape.caches - 1);
  for (uint32_t i = 0; code == 0 && i < v->shape.caches; i++) {
    struct cache_curve *c = &v->cache[v->caches];
    bool seen = false;
    describe(v, c, i);
    if (c->points == 0 || (kvl_trace_given(v->call, "cache") && i != v->call->cache))
      continue;
    for (uint32_t j = 0; !seen && j < v->caches; j++) { /* one of each kind stands for all: caches are independent of one another */
      seen = alike(&v->shape, i, v->cache[j].cache);
      v->cache[j].like += seen;
    }
    if (seen)
      continue;
    v->caches++;
    code = generated_cache(v, c, err);
    compare(v, c);
  }
  return code;
}

static double percent(const struct kvl_miss_count *count)
{
  return count->accesses ? 100.0 * (double)count->misses / (double)count->accesses : 0;
}

static void print_table(const struct curve *v)
{
  printf("%s; %u of %u session%s, steps %u to %u; misses in %% of selected rows\n", v->source, v->sessions, v->sessions_of, kvl_text_s(v->sessions_of), v->warm, v->steps);
  for (uint32_t i = 0; i < v->caches; i++) {
    const struct cache_curve *c = &v->cache[i];
    printf("\ncache %u%s: %u selection%s of %u rows a step, history of %u rows\n", c->cache, c->like > 1 ? " (and those like it)" : "", c->points,
           kvl_text_s(c->points), c->k, c->rows);
    printf("%8s %8s", "hot/k", "hot_rows");
    for (int p = 0; p < KVL_MISS_POLICIES; p++)
      printf(" %12s", kvl_miss_policy_name((enum kvl_miss_policy)p));
    putchar('\n');
    for (uint32_t s = 0; s < v->call->sizes; s++) {
      bool any = false;
      printf("%8.3g %8u", v->call->size_q10[s] / 1024.0, hot_rows(c, v->call->size_q10[s]));
      for (int p = 0; p < KVL_MISS_POLICIES; p++) {
        printf(" %12.2f", percent(&c->count[s][p]));
        any = any || published_percent(v->call->size_q10[s], (enum kvl_miss_policy)p) > 0;
      }
      putchar('\n');
      if (!any || !c->comparable)
        continue;
      printf("%17s", "published");
      for (int p = 0; p < KVL_MISS_POLICIES; p++) {
        double expected = published_percent(v->call->size_q10[s], (enum kvl_miss_policy)p);
        if (expected > 0)
          printf(" %5.1f %+5.1f%%", expected, 100 * (percent(&c->count[s][p]) / expected - 1));
        else
          printf(" %12s", "-");
      }
      putchar('\n');
    }
    if (c->comparable)
      printf("published: GLM-5.1, LongBenchV2, 100,000-token prompts (arXiv 2608.07009); behind it the difference in %% of the published value\n");
    else
      printf("nothing is published for this setting: %s\n", v->generated ? "an extrapolation of the score process" : "counted in the recorded selections");
  }
}

static void print_rows(const struct curve *v, bool json)
{
  bool first = true;
  printf(json ? "{\"source\":" : "cache\tlike\tselections\tk\thistory_rows\thot_rows\tpolicy\tmisses\taccesses\tmiss_percent\tpublished_percent\n");
  if (json) {
    kvl_text_json_string(stdout, v->source);
    printf(",\"sessions\":%u,\"steps\":%u,\"warm\":%u,\"curve\":[", v->sessions, v->steps, v->warm);
  }
  for (uint32_t i = 0; i < v->caches; i++) {
    const struct cache_curve *c = &v->cache[i];
    for (uint32_t s = 0; s < v->call->sizes; s++) {
      for (int p = 0; p < KVL_MISS_POLICIES; p++) {
        double expected = c->comparable ? published_percent(v->call->size_q10[s], (enum kvl_miss_policy)p) : 0;
        char text[32] = "";
        if (expected > 0)
          (void)snprintf(text, sizeof text, "%.1f", expected);
        else if (json)
          (void)snprintf(text, sizeof text, "null");
        printf(json ? "%s{\"cache\":%u,\"like\":%u,\"selections\":%u,\"k\":%u,\"history_rows\":%u,\"hot_rows\":%u,\"policy\":\"%s\",\"misses\":%" PRIu64
                      ",\"accesses\":%" PRIu64 ",\"miss_percent\":%.4f,\"published_percent\":%s}"
                    : "%s%u\t%u\t%u\t%u\t%u\t%u\t%s\t%" PRIu64 "\t%" PRIu64 "\t%.4f\t%s\n",
               json && !first ? "," : "", c->cache, c->like, c->points, c->k, c->rows, hot_rows(c, v->call->size_q10[s]),
               kvl_miss_policy_name((enum kvl_miss_policy)p), c->count[s][p].misses, c->count[s][p].accesses, percent(&c->count[s][p]), text);
        first = false;
      }
    }
  }
  if (json)
    printf("]}\n");
}

int kvl_trace_curve(const struct kvl_trace_call *given)
{
  static const char *const of_generated[] = {"model", "k", "tokens-per-row", "context", "steps"};
  struct kvl_trace_call call = *given;
  struct curve v = {.call = &call};
  struct kvl_err err = {""};
  int code;

  if ((call.file == NULL) == (call.preset == NULL))
    return kvl_trace_complain(&call, 2, "%s", call.file ? "a file or --preset, not both" : "which file, or which --preset?");
  for (size_t i = 0; call.file != NULL && i < sizeof of_generated / sizeof of_generated[0]; i++) {
    if (kvl_trace_given(&call, of_generated[i]))
      return kvl_trace_complain(&call, 2, "--%s goes with --preset; a file has its own", of_generated[i]);
  }
  if (call.sizes == 0) {
    static const uint32_t usual[] = {1024, 1536, 2048, 4096, 8192};
    memcpy(call.size_q10, usual, sizeof usual);
    call.sizes = sizeof usual / sizeof usual[0];
  }
  call.k = call.model == NULL && call.k == 0 ? 2048 : call.k;
  call.tokens_per_row = call.tokens_per_row ? call.tokens_per_row : 1;
  call.context = kvl_trace_given(&call, "context") ? call.context : 65536;
  v.cache = calloc(KVL_CACHES_MAX + 1, sizeof *v.cache);
  if (v.cache == NULL)
    return kvl_trace_complain(&call, 1, "no memory");
  code = call.file ? of_file(&v, &err) : of_preset(&v, &err);
  if (code == 0 && v.warm >= v.steps)
    code = kvl_err_set(&err, -EINVAL, "--warm=%u: nothing is left to count of %u steps", v.warm, v.steps);
  if (code == 0 && call.format == KVL_FORMAT_TABLE)
    print_table(&v);
  else if (code == 0)
    print_rows(&v, call.format == KVL_FORMAT_JSON);
  free(v.cache);
  if (code && err.text[0] != '\0')
    return kvl_trace_complain(&call, 1, "%s", err.text);
  return code == 0 ? 0 : code < 0 ? 1 : code;
}
