/* A plane around a plane that writes the run's decision log (sim/decision_log.h). It changes nothing: every call goes on as it came. */
#ifndef KVL_SIM_PLANE_RECORD_H
#define KVL_SIM_PLANE_RECORD_H

#include "backend/plane.h"
#include "results/summary.h"

/* Takes `inner` over when it succeeds (closing the recorder closes it). `scenario_json` is one line. The log is written beside `path` under a name of
 * its own, and is there as `path` only after kvl_plane_record_finish. -ENOMEM; -ENOENT, -EACCES, -ENOSPC, ... for a file that cannot be written: one line that names it. */
int kvl_plane_record_create(struct kvl_plane **plane, struct kvl_plane *inner, const char *path, const char *scenario_json, const char *build,
                            struct kvl_err *err);

/* The run is over: complete or interrupted. Writes the last line and gives the file its name. Closing the plane without it leaves no file. */
int kvl_plane_record_finish(struct kvl_plane *plane, enum kvl_run_status status, struct kvl_err *err);

#endif
