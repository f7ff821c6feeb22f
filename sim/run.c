#include "sim/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/nearest.h"
#include "sim/plane_model.h"
#include "sim/plane_real.h"
#include "sim/plane_record.h"
#include "sim/scenario_files.h"
#include "sim/version.h"

enum { SLOTS_MAX = 512 }; /* the largest decode batch of one GPU (the kernels' limit) */

static uint64_t wall_ns(void)
{
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t peak_memory_bytes(void)
{
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_maxrss * 1024;
}

/* Batch slots that can be in use at once: the lowest free one is taken, so the plane needs no more, and the host plane has memory for each. */
static uint32_t slots_in_use(const struct kvl_scenario *s, const struct kvl_load *load, uint64_t frames)
{
  struct kvl_session_bytes b;
  kvl_session_bytes(s, s->workload.kind == KVL_WORK_FILE ? 1 : (uint64_t)s->workload.input_tokens + s->workload.output_tokens, &b);
  bool resident = s->mode == KVL_MODE_RESIDENT;
  uint64_t page = kvl_page_bytes(s), frames_each = ((resident ? b.resident : b.fixed) + page - 1) / page, slots = SLOTS_MAX;
  uint64_t limits[] = {
    frames_each == 0 ? SLOTS_MAX : frames / frames_each,
    kvl_load_total(load),
    s->workload.kind == KVL_WORK_CLOSED ? s->workload.concurrency : SLOTS_MAX,
    s->limits.batch_max == 0 ? SLOTS_MAX : s->limits.batch_max,
    resident || s->node.sessions_per_gpu_max == 0 ? SLOTS_MAX : s->node.sessions_per_gpu_max,
  };
  for (uint32_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    slots = limits[i] < slots ? limits[i] : slots;
  }
  return slots == 0 ? 1 : (uint32_t)slots;
}

/* Generated selections; requests of one size share a library of them when the scenario says so. */
static int open_preset(const struct kvl_scenario *s, struct kvl_selection_source **source, struct kvl_err *err)
{
  int rc = kvl_source_open_preset(source, s->selection.preset, &s->model.selection, s->seed, err);
  if (rc == 0) {
    kvl_source_set_query_overlap(*source, s->selection.query_overlap_permille);
  }
  if (rc != 0 || s->selection.library_sessions == 0 || s->workload.output_tokens == 0 || s->workload.kind == KVL_WORK_FILE) {
    return rc;
  }
  struct kvl_selection_source *generator = *source;
  uint64_t sessions = s->workload.requests < s->selection.library_sessions ? s->workload.requests : s->selection.library_sessions;
  rc = kvl_source_open_library(source, generator, s->model.selection.points, (uint32_t)sessions, s->workload.input_tokens, s->workload.output_tokens,
                               kvl_queries_max(s), err);
  kvl_source_close(generator);
  return rc;
}

static int open_selections(const struct kvl_scenario *s, const char *plane, struct kvl_selection_source **source, struct kvl_err *err)
{
  *source = NULL;
  if (s->mode == KVL_MODE_RESIDENT && strcmp(plane, "cuda") != 0) { /* every row is in HBM: there is nothing to resolve, but on a GPU something to read */
    return 0;
  }
  switch (s->selection.kind) {
  case KVL_SELECT_NONE:
    return 0;
  case KVL_SELECT_PRESET:
    return open_preset(s, source, err);
  case KVL_SELECT_TRACE:
    return kvl_scenario_open_trace(s, source, err);
  }
  return 0;
}

static int open_plane(const struct kvl_run_options *o, const struct kvl_plane_model_config *config, struct kvl_plane **plane, struct kvl_err *err)
{
  static const char *const planes[] = {"model", "host", "cuda"};
  struct kvl_plane_model_config c = *config;
  c.check = o->check;
  c.floor = o->floor;
  if (strcmp(o->plane, "model") == 0 || strcmp(o->plane, "host") == 0) {
    c.bytes = strcmp(o->plane, "host") == 0;
    return kvl_plane_model_create(plane, &c, err);
  }
  if (strcmp(o->plane, "cuda") == 0) {
    return kvl_plane_real_create(plane, &c, err);
  }
  return kvl_err_set(err, -EINVAL, "--plane=%s: no such plane; did you mean %s?", o->plane, kvl_nearest(o->plane, planes, 3));
}

static int open_record(const struct kvl_scenario_doc *doc, const char *path, struct kvl_plane **plane, struct kvl_plane **record, struct kvl_err *err)
{
  char *json = kvl_scenario_json(doc);
  if (json == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the scenario's text");
  }
  int rc = kvl_plane_record_create(record, *plane, path, json, KVL_VERSION, err);
  if (rc == 0) {
    *plane = *record;
  }
  free(json);
  return rc;
}

static int begin_store(const struct kvl_scenario_doc *doc, const struct kvl_run_options *o, struct kvl_store **store, int64_t *run, struct kvl_err *err)
{
  *store = NULL;
  if (o->store == NULL) {
    return 0;
  }
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  char *json = kvl_scenario_json(doc);
  if (json == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the scenario's text");
  }
  char label[KVL_LABEL_MAX];
  struct kvl_run_info info = {.name = s->name, .mode = kvl_mode_label(s, label), .plane = o->plane, .scenario_json = json,
                              .build = KVL_VERSION, .command = o->command == NULL ? "" : o->command, .seed = s->seed};
  int rc = kvl_store_open(store, o->store, err);
  rc = rc != 0 ? rc : kvl_store_run_begin(*store, &info, run, err);
  free(json);
  return rc;
}

int kvl_run(const struct kvl_scenario_doc *doc, const struct kvl_run_options *o, struct kvl_run_result *result, struct kvl_err *err)
{
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  uint64_t started = wall_ns();
  memset(result, 0, sizeof *result);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  struct kvl_load *load = NULL;
  struct kvl_selection_source *source = NULL;
  struct kvl_plane *base = NULL, *plane = NULL, *record = NULL; /* what does the work; that with what was put around it; the recorder, if any */
  struct kvl_store *store = NULL;

  int rc = kvl_load_create(&load, s, err);
  uint64_t frames = kvl_pool_bytes(s) / kvl_page_bytes(s);
  if (rc == 0 && frames > INT32_MAX) {
    rc = kvl_err_set(err, -EINVAL, "%s: policy.page_tokens: the pool has %llu pages, more than %d; a larger page helps", s->file,
                     (unsigned long long)frames, INT32_MAX);
  }
  /* Every request must fit an empty node (I9: what fits alone is served in the end; what does not is refused now, not in mid-run). */
  rc = rc != 0 ? rc : kvl_scenario_check_tokens(doc, kvl_load_tokens_max(load), err);
  rc = rc != 0 ? rc : open_selections(s, o->plane, &source, err);
  struct kvl_plane_model_config pc;
  if (rc == 0) {
    pc = (struct kvl_plane_model_config){
      .scenario = s,
      .selections = source,
      .slots = slots_in_use(s, load, frames),
      .frames = (uint32_t)frames,
      .tokens_max = kvl_load_tokens_max(load),
      .queries_max = kvl_queries_max(s),
      .threads = o->threads != 0 ? o->threads : cores < 1 ? 1 : (uint32_t)cores,
      .stop = o->stop,
    };
    rc = open_plane(o, &pc, &base, err);
    plane = base;
  }
  rc = rc != 0 || o->wrap == NULL ? rc : o->wrap(o->wrap_context, &plane, err);
  rc = rc != 0 || o->record == NULL ? rc : open_record(doc, o->record, &plane, &record, err);
  rc = rc != 0 ? rc : begin_store(doc, o, &store, &result->run, err);
  bool ran = rc == 0;
  if (ran) {
    struct kvl_engine_config ec = {
      .scenario = s,
      .plane = plane,
      .load = load,
      .slots = SLOTS_MAX,
      .frames = (uint32_t)frames,
      .store = store,
      .verify = o->verify,
      .matched_batch = o->matched_batch,
      .matched_queries = o->matched_queries,
      .stop = o->stop,
      .progress = o->progress,
      .progress_context = o->progress_context,
    };
    rc = kvl_engine_run(&ec, &result->engine, err);
    if (rc == 0 && source != NULL) { /* a trace file that could not be read to its end makes the numbers void */
      rc = kvl_source_status(source, err);
    }
    struct kvl_summary *sum = &result->engine.summary;
    sum->seed = s->seed;
    sum->wall_s = (double)(wall_ns() - started) / 1e9;
    sum->selections_per_wall_s = sum->wall_s > 0 ? (double)sum->selections_total / sum->wall_s : 0.0;
    sum->peak_memory_bytes = peak_memory_bytes();
    rc = rc != 0 || record == NULL ? rc : kvl_plane_record_finish(record, result->engine.status, err);
    result->estimates = strcmp(o->plane, "cuda") == 0 ? kvl_plane_real_estimates(&pc) : kvl_plane_model_estimates(base);
    sum->compute_is_estimate = (result->estimates & KVL_ESTIMATE_ROOFLINE) != 0;
    sum->is_extrapolated = (result->estimates & (KVL_ESTIMATE_COMPUTE_OUTSIDE | KVL_ESTIMATE_LINK_OUTSIDE | KVL_ESTIMATE_FOREIGN_PROFILE)) != 0;
    if (base->ops->measured != NULL) {
      base->ops->measured(base, &result->measured);
    }
    result->reads = source != NULL;
    result->rows_checked = result->measured.rows_checked;
    result->mismatches = result->measured.mismatches;
    if (store != NULL) {
      struct kvl_err end_err;
      int end = kvl_store_run_end(store, result->run, sum, rc != 0 ? KVL_RUN_FAILED : result->engine.status, rc != 0 ? &end_err : err);
      rc = rc != 0 ? rc : end;
    }
  }
  kvl_store_close(store);
  if (plane != NULL) {
    plane->ops->close(plane);
  }
  kvl_source_close(source);
  kvl_load_destroy(load);
  return rc;
}
