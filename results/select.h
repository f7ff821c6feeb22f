/* Naming stored runs on a command line.
 *
 *   7                          the run with that id
 *   latest                     the newest complete run
 *   all                        every complete run
 *   published-256              the newest complete run of that name; the start of a name will do when only one name starts so
 *   latest:mode=adaptive       with a filter: KEY=VALUE[,KEY=VALUE...], keys name mode plane seed status concurrency
 *
 * "Complete" is what counts unless the filter names a status, or no run that fits is complete. */
#ifndef KVL_RESULTS_SELECT_H
#define KVL_RESULTS_SELECT_H

#include "results/store.h"

/* One run: *index into list->run. -ENOENT, -EINVAL with one line: what was asked, and the nearest that exists. `store` names the file. */
int kvl_select_run(const struct kvl_run_list *list, const char *store, const char *word, uint32_t *index, struct kvl_err *err);

/* Several words, "all" included, in order, each run once: fills index[0 .. *count), at most list->count of them. */
int kvl_select_runs(const struct kvl_run_list *list, const char *store, const char *const *words, unsigned word_count, uint32_t *index,
                    uint32_t *count, struct kvl_err *err);

#endif
