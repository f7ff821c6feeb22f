#include "sim/replay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/scenario_doc.h"

struct wrapping {
  const struct kvl_log *log;
  uint32_t gpus;
  struct kvl_replay_report *report;
  const struct kvl_run_options *options;
  volatile sig_atomic_t stop;
};

static int wrap(void *context, struct kvl_plane **plane, struct kvl_err *err)
{
  struct wrapping *w = context;
  int rc = w->options->wrap == NULL ? 0 : w->options->wrap(w->options->wrap_context, plane, err);
  return rc != 0 ? rc : kvl_plane_replay_create(plane, *plane, w->log, w->gpus, w->report, &w->stop, err);
}

/* The scenario is line 4 of the log: a message about it must not send its reader to line 1. The folder of the name stays the log's, for files named in it. */
static int scenario_of(const struct kvl_log *log, struct kvl_scenario_doc **doc, struct kvl_err *err)
{
  const char *json = kvl_log_scenario(log);
  char name[KVL_PATH_CAP];
  int length = snprintf(name, sizeof name, "%s:4: the scenario in the log", kvl_log_name(log));
  if (length < 0 || (size_t)length >= sizeof name) {
    return kvl_err_set(err, -EINVAL, "%.80s...: the name is too long", kvl_log_name(log));
  }
  return kvl_scenario_parse(doc, json, strlen(json), name, NULL, 0, err);
}

int kvl_replay(const struct kvl_log *log, const struct kvl_run_options *options, struct kvl_replay_result *result, struct kvl_err *err)
{
  struct kvl_scenario_doc *doc;
  memset(result, 0, sizeof *result);
  int rc = scenario_of(log, &doc, err);
  if (rc != 0) {
    return rc;
  }
  struct wrapping w = {.log = log, .gpus = kvl_scenario_of(doc)->node.decode_gpus, .report = &result->report, .options = options};
  struct kvl_run_options o = *options;
  o.wrap = wrap;
  o.wrap_context = &w;
  o.stop = &w.stop;
  rc = kvl_run(doc, &o, &result->run, err);
  kvl_scenario_free(doc);
  if (rc == 0 && result->report.failed != 0) { /* the run ended well, and not where the log does */
    rc = kvl_err_set(err, result->report.failed, "%s", result->report.why.text);
  }
  return rc;
}
