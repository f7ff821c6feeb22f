/* What a report says about stored runs: one, several beside each other, a sweep, or a plan. The page itself is results/report.h. */
#ifndef KVL_SIM_REPORT_RUNS_H
#define KVL_SIM_REPORT_RUNS_H

#include "results/plan.h"
#include "results/report.h"
#include "results/store.h"
#include "results/sweep.h"
#include "sim/explain.h"

enum { KVL_REPORT_NOTE_MAX = 512 };

struct kvl_report_source {
  struct kvl_store *store;
  const char *store_path;               /* for the commands that repeat the runs */
  const struct kvl_stored_run *const *run;
  uint32_t count;
  const char *title;                    /* NULL: made from the runs */
  const char *gnuplot;                  /* NULL: "gnuplot" */
  const char *const *sets;              /* applied to the scenarios before they are read: files that have moved */
  unsigned set_count;
  const struct kvl_explain_options *what_if; /* one run: NULL, or re-run it with one thing changed and say what that gives */
};

/* The report of one run, or of a comparison (count > 1). 0 and *report (the caller destroys it); errors of the store, -ENOMEM, -EINTR, -EINVAL (a run without
 * a summary). Without gnuplot there is a report without pictures, and *no_pictures says so. */
int kvl_report_of_run(struct kvl_report **report, const struct kvl_report_source *source, int *no_pictures, struct kvl_err *err);
int kvl_report_of_runs(struct kvl_report **report, const struct kvl_report_source *source, int *no_pictures, struct kvl_err *err);

/* The report of a sweep: `source` without runs. */
int kvl_report_of_sweep(struct kvl_report **report, const struct kvl_report_source *source, const struct kvl_sweep_table *table, int *no_pictures,
                        struct kvl_err *err);

/* The report of a plan: `source` without runs. */
int kvl_report_of_plan(struct kvl_report **report, const struct kvl_report_source *source, const struct kvl_stored_plan *plan, int *no_pictures,
                       struct kvl_err *err);

/* Parts that all have. */
void kvl_report_definitions(struct kvl_report *report);
void kvl_report_commands(struct kvl_report *report, const struct kvl_report_source *source);
void kvl_report_what_if(struct kvl_report *report, const struct kvl_what_if *what_if);
/* The complete scenario of a stored run, folded, under a title; nothing when the run is not there. */
void kvl_report_scenario(struct kvl_report *report, struct kvl_store *store, int64_t run, const char *title);
/* A word about a run that is not whole, estimated, or extrapolated; `prefix` names it among others ("A: "), "" when there is one. */
void kvl_report_cautions(struct kvl_report *report, const struct kvl_stored_run *run, const char *prefix);
/* What kvl_scenario_note says about the scenario of a stored run, without a full stop; false: nothing, or the scenario cannot be read any more. */
bool kvl_report_stand_ins(const struct kvl_report_source *source, int64_t run, char *text, size_t size);
/* The picture's code: -ENOENT (no gnuplot) sets *no_pictures and is no error. */
int kvl_report_picture_code(int code, int *no_pictures);

#endif
