/* The pictures of a report about stored runs. Each appends one to the report, with units and a sentence that says what to see, made from the numbers.
 *
 * 0; -ENOENT: gnuplot is not installed; -EIO: it failed; errors of the store. A picture that has nothing to show is left out: 0. */
#ifndef KVL_RESULTS_REPORT_PICTURES_H
#define KVL_RESULTS_REPORT_PICTURES_H

#include "results/report.h"
#include "results/store.h"
#include "results/timeline.h"

/* One run over time. */
int kvl_report_sessions(struct kvl_report *report, const char *gnuplot, const struct kvl_timeline *line, struct kvl_err *err);
int kvl_report_hbm(struct kvl_report *report, const char *gnuplot, const struct kvl_timeline *line, struct kvl_err *err);
int kvl_report_time(struct kvl_report *report, const char *gnuplot, const struct kvl_timeline *line, struct kvl_err *err);

/* Where each selecting layer of a run found its rows. */
int kvl_report_layers(struct kvl_report *report, const char *gnuplot, struct kvl_store *store, int64_t run, struct kvl_err *err);

/* Runs beside each other, up to KVL_REPORT_RUNS_MAX; `labels` name them in legends ("A: fixed"), `marks` in pictures ("A"). */
enum { KVL_REPORT_RUNS_MAX = 8 };
struct kvl_report_runs {
  const struct kvl_stored_run *const *run;
  const char *const *labels, *const *marks;
  uint32_t count;
};
int kvl_report_distributions(struct kvl_report *report, const char *gnuplot, struct kvl_store *store, const struct kvl_report_runs *runs,
                             struct kvl_err *err); /* two pictures: time to first token, rate of a request */
int kvl_report_steps(struct kvl_report *report, const char *gnuplot, const struct kvl_report_runs *runs, struct kvl_err *err);
int kvl_report_tiers(struct kvl_report *report, const char *gnuplot, const struct kvl_report_runs *runs, struct kvl_err *err);

/* Throughput against the rate of one request, any number of runs; those of one mode share a colour. */
int kvl_report_tradeoff(struct kvl_report *report, const char *gnuplot, const struct kvl_stored_run *const *runs, const char *const *marks,
                        uint32_t count, struct kvl_err *err);

#endif
