/* The files that a scenario names, opened. Whoever runs a stored scenario or replays a log may never have heard of them: a failure names the scenario and the
 * key before the file and the reason. */
#ifndef KVL_SIM_SCENARIO_FILES_H
#define KVL_SIM_SCENARIO_FILES_H

#include "backend/base/err.h"
#include "sim/model.h"
#include "traces/selection.h"
#include "traces/workload.h"

int kvl_scenario_open_trace(const struct kvl_scenario *scenario, struct kvl_selection_source **source, struct kvl_err *err); /* kvl_source_open_trace */
int kvl_scenario_open_workload(const struct kvl_scenario *scenario, struct kvl_workload_file **file, struct kvl_err *err);   /* kvl_workload_open */

#endif
