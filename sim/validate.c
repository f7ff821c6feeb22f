#include "sim/validate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/plane_watch.h"
#include "sim/replay.h"
#include "sim/validate_rows.h"

struct watching {
  const struct kvl_run_options *around; /* its wrap goes inside; NULL: none */
  struct kvl_watch *watch;
  uint32_t gpus;
  uint64_t page_bytes;
};

static int wrap(void *context, struct kvl_plane **plane, struct kvl_err *err)
{
  const struct watching *w = context;
  int rc = w->around == NULL || w->around->wrap == NULL ? 0 : w->around->wrap(w->around->wrap_context, plane, err);
  return rc != 0 ? rc : kvl_plane_watch_create(plane, *plane, w->watch, w->gpus, w->page_bytes, err);
}

/* The three runs, and what was watched of each. */
struct runs {
  struct kvl_validate_side side[KVL_SIDES];
  struct watching watching[KVL_SIDES];
  struct kvl_run_result replay, forecast;
};

static int open_runs(struct runs *runs, const struct kvl_scenario *s, struct kvl_err *err)
{
  for (int i = 0; i < KVL_SIDES; i++) {
    runs->side[i].watch = kvl_watch_create();
    runs->watching[i] = (struct watching){NULL, runs->side[i].watch, s->node.decode_gpus, kvl_page_bytes(s)};
    if (runs->side[i].watch == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory to watch three runs");
    }
  }
  return 0;
}

static void close_runs(struct runs *runs)
{
  for (int i = 0; i < KVL_SIDES; i++) {
    kvl_watch_destroy(runs->side[i].watch);
  }
}

/* A name for a log that nobody asked for. */
static int temporary_log(char *path, size_t size, struct kvl_err *err)
{
  const char *folder = getenv("TMPDIR");
  folder = folder == NULL || folder[0] == '\0' ? "/tmp" : folder;
  int n = snprintf(path, size, "%s/kvloan-validate-XXXXXX", folder);
  int fd = n < 0 || (size_t)n >= size ? -1 : mkstemp(path);
  if (fd < 0) {
    return kvl_err_set(err, -EIO, "%s: no temporary file can be made there for the log: %s", folder, strerror(errno));
  }
  (void)close(fd);
  return 0;
}

static int measure(const struct kvl_scenario_doc *doc, const struct kvl_run_options *options, const char *log_path, struct runs *runs,
                   struct kvl_run_result *result, struct kvl_err *err)
{
  struct kvl_run_options o = *options;
  o.record = log_path;
  runs->watching[KVL_SIDE_MEASURED].around = options;
  o.wrap = wrap;
  o.wrap_context = &runs->watching[KVL_SIDE_MEASURED];
  int rc = kvl_run(doc, &o, result, err);
  if (rc == 0 && options->stop != NULL && *options->stop != 0) {
    rc = kvl_err_set(err, -EINTR, "validation was interrupted");
  }
  runs->side[KVL_SIDE_MEASURED].summary = &result->engine.summary;
  return rc;
}

/* A decision that differs is a finding, not an error: its line is in the report. */
static int replay(const struct kvl_run_options *options, const char *log_path, struct runs *runs, struct kvl_replay_report *report, struct kvl_err *err)
{
  struct kvl_log *log = NULL;
  struct kvl_replay_result result;
  struct kvl_run_options o = {.plane = "model", .threads = options->threads, .verify = options->verify, .wrap = wrap,
                              .wrap_context = &runs->watching[KVL_SIDE_SAME_STEPS]};
  int rc = kvl_log_open(&log, log_path, err);
  rc = rc != 0 ? rc : kvl_replay(log, &o, &result, err);
  if (rc == 0 || result.report.failed != 0) {
    *report = result.report;
    runs->replay = result.run;
    runs->side[KVL_SIDE_SAME_STEPS].summary = rc == 0 ? &runs->replay.engine.summary : NULL;
    rc = 0;
  }
  kvl_log_free(log);
  return rc;
}

static int forecast(const struct kvl_scenario_doc *doc, const struct kvl_run_options *options, struct runs *runs, struct kvl_err *err)
{
  struct kvl_run_options o = {.plane = "model", .threads = options->threads, .stop = options->stop, .progress = options->progress,
                              .progress_context = options->progress_context, .verify = options->verify, .wrap = wrap,
                              .wrap_context = &runs->watching[KVL_SIDE_FORECAST]};
  int rc = kvl_run(doc, &o, &runs->forecast, err);
  if (rc == 0 && options->stop != NULL && *options->stop != 0) {
    rc = kvl_err_set(err, -EINTR, "validation was interrupted");
  }
  runs->side[KVL_SIDE_FORECAST].summary = &runs->forecast.engine.summary;
  return rc;
}

static int store_rows(const char *path, int64_t run, const struct kvl_validation *v, struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  int rc = kvl_store_open(&store, path, err);
  rc = rc != 0 ? rc : kvl_store_validation(store, run, v, err);
  kvl_store_close(store);
  return rc;
}

int kvl_validate(const struct kvl_scenario_doc *doc, const struct kvl_run_options *options, struct kvl_validate_result *result, struct kvl_err *err)
{
  struct runs runs;
  char path[4096];
  memset(&runs, 0, sizeof runs);
  memset(result, 0, sizeof *result);
  int rc = open_runs(&runs, kvl_scenario_of(doc), err);
  if (rc == 0 && options->record == NULL) {
    rc = temporary_log(path, sizeof path, err);
  }
  bool temporary = rc == 0 && options->record == NULL;
  const char *log_path = options->record != NULL ? options->record : path;
  rc = rc != 0 ? rc : measure(doc, options, log_path, &runs, &result->run, err);
  rc = rc != 0 ? rc : replay(options, log_path, &runs, &result->replay, err);
  rc = rc != 0 ? rc : forecast(doc, options, &runs, err);
  if (rc == 0) {
    kvl_validate_rows(&result->validation, runs.side, &result->run, &result->replay, options->check, options->floor);
  }
  if (rc == 0 && options->store != NULL) {
    rc = store_rows(options->store, result->run.run, &result->validation, err);
  }
  if (temporary) {
    (void)unlink(path);
  }
  close_runs(&runs);
  return rc;
}
