/* Between the files of `kvloan results`: the call as parsed, and its subcommands. */
#ifndef KVL_SIM_CMD_RESULTS_H
#define KVL_SIM_CMD_RESULTS_H

#include "results/select.h"

struct kvl_results_call {
  const char *command;      /* list, show, export, compare, plot */
  const char *store_path;
  struct kvl_store *store;
  struct kvl_run_list list;
  uint32_t *runs;           /* indices into list.run, in the order asked for */
  uint32_t run_count;
  enum kvl_format format;
  int format_given;
  const char *what;         /* export: what of the run; plot: which picture */
  const char *out;          /* plot: where to */
};

/* Each returns the exit code; 1 after one line on stderr. */
int kvl_results_list(const struct kvl_results_call *call);
int kvl_results_show(const struct kvl_results_call *call);
int kvl_results_export(const struct kvl_results_call *call);
int kvl_results_compare(const struct kvl_results_call *call);
int kvl_results_plot(const struct kvl_results_call *call);

/* "2026-11-29 18:41:49Z", "-" for a negative time. */
enum { KVL_WHEN_MAX = 32 };
const char *kvl_results_when(char text[KVL_WHEN_MAX], int64_t unix_ms);

/* Names for columns and legends that tell the chosen runs apart: the id, and what differs of name and mode. Free with kvl_results_labels_free. */
char **kvl_results_labels(const struct kvl_results_call *call);
void kvl_results_labels_free(char **labels, uint32_t count);

/* 1, with a line on stderr, when one of the chosen runs has no summary. */
int kvl_results_lacks_summary(const struct kvl_results_call *call);

#endif
