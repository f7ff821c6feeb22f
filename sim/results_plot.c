/* kvloan results plot: which runs go into which picture. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/plot.h"
#include "results/text.h"
#include "sim/cmd_results.h"

static void note_names(const struct kvl_stored_run *const *runs, uint32_t count)
{
  for (uint32_t r = 1; r < count; r++) {
    if (strcmp(runs[r]->name, runs[0]->name) != 0) {
      fprintf(stderr, "note: runs of several scenarios in one picture (%s, %s); all:name=%s draws one of them\n", runs[0]->name, runs[r]->name,
              runs[0]->name);
      return;
    }
  }
}

int kvl_results_plot(const struct kvl_results_call *call)
{
  static const char *const pictures[] = {"timeline", "distributions", "modes"};
  uint32_t count = call->run_count, left_out = 0, picture = 0;
  while (picture < 3 && strcmp(call->what, pictures[picture]) != 0) {
    picture++;
  }
  if (picture == 3) {
    fprintf(stderr, "kvloan results plot: no picture '%s'; did you mean %s?\n", call->what, kvl_nearest(call->what, pictures, 3));
    return 2;
  }
  if (count == 0 || (picture == 0 && count != 1) || (picture == 1 && count > KVL_PLOT_RUNS_MAX)) {
    fprintf(stderr, "kvloan results plot %s: draws %s, not %u\n", call->what, picture == 0 ? "one run" : "1 to 8 runs", count);
    return 2;
  }
  struct kvl_err err = {"kvloan results plot: out of memory"};
  struct kvl_plot plot = {.out = call->out};
  char **labels = kvl_results_labels(call);
  const struct kvl_stored_run **runs = calloc(count, sizeof *runs);
  int code = labels == NULL || runs == NULL ? -ENOMEM : 0;
  for (uint32_t r = 0; r < count && code == 0; r++) {
    runs[r] = &call->list.run[call->runs[r]];
  }
  if (code == 0 && picture == 0) {
    char label[256];
    (void)snprintf(label, sizeof label, "%.100s, %.100s", runs[0]->name, runs[0]->mode);
    code = kvl_plot_timeline(&plot, call->store, runs[0], label, &err);
  } else if (code == 0 && picture == 1) {
    code = kvl_plot_distributions(&plot, call->store, runs, (const char *const *)labels, count, &err);
  } else if (code == 0) {
    code = kvl_plot_modes(&plot, runs, count, &left_out, &err);
    note_names(runs, code == 0 ? count : 0);
    if (code == 0 && left_out > 0) {
      fprintf(stderr, "note: %u of %u run%s left out: no concurrency, no summary, or a newer run of the same mode and concurrency\n", left_out, count, kvl_text_s(count));
    }
  }
  if (code != 0) {
    fprintf(stderr, "%s\n", err.text);
  }
  free(runs);
  kvl_results_labels_free(labels, labels != NULL ? count : 0);
  return code == 0 ? 0 : 1;
}
