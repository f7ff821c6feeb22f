#include "sim/scenario_files.h"

static int named(const struct kvl_scenario *s, const char *key, int rc, const struct kvl_err *reason, struct kvl_err *err)
{
  return rc == 0 ? 0 : kvl_err_set(err, rc, "%s: %s: %s", s->file, key, reason->text);
}

int kvl_scenario_open_trace(const struct kvl_scenario *s, struct kvl_selection_source **source, struct kvl_err *err)
{
  struct kvl_err reason = {""};
  return named(s, "selection.file", kvl_source_open_trace(source, s->selection.path, &s->model.selection, s->seed, &reason), &reason, err);
}

int kvl_scenario_open_workload(const struct kvl_scenario *s, struct kvl_workload_file **file, struct kvl_err *err)
{
  struct kvl_err reason = {""};
  return named(s, "workload.file", kvl_workload_open(file, s->workload.path, s->workload.format, &reason), &reason, err);
}
