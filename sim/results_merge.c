/* kvloan results merge OUT IN...: stores into one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/text.h"
#include "sim/cmd_sweep.h"

enum { BUSY_MS = 60000 };

static void tell(const char *out, const struct kvl_merge_count *count)
{
  fprintf(stderr, "%s: %u run%s brought in", out, (unsigned)count->runs, kvl_text_s(count->runs));
  if (count->tasks > 0) {
    fprintf(stderr, ", with %u result%s of sweeps", (unsigned)count->tasks, kvl_text_s(count->tasks));
  }
  if (count->plans > 0) {
    fprintf(stderr, ", with %u answer%s of plans", (unsigned)count->plans, kvl_text_s(count->plans));
  }
  if (count->runs_there > 0) {
    fprintf(stderr, ", %u were there", (unsigned)count->runs_there);
  }
  if (count->tasks_replaced > 0) {
    fprintf(stderr, ", %u failed ones replaced", (unsigned)count->tasks_replaced);
  }
  if (count->runs_unfinished > 0) {
    fprintf(stderr, ", %u unfinished ones left out", (unsigned)count->runs_unfinished);
  }
  fprintf(stderr, "\n");
}

/* A new store grows under another name and is renamed when it is whole. */
int kvl_results_merge_into(const char *out, const char *const *in, uint32_t count, bool quiet, struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  struct kvl_store_options options = {.busy_ms = BUSY_MS};
  struct kvl_merge_count counted = {0};
  bool is_new = access(out, F_OK) != 0;
  size_t size = strlen(out) + 40;
  char *temporary = malloc(size);
  if (temporary == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  (void)snprintf(temporary, size, is_new ? "%s.%ld.tmp" : "%s", out, (long)getpid());
  int code = kvl_store_open_with(&store, temporary, &options, err);
  for (uint32_t i = 0; i < count && code == 0; i++) {
    code = kvl_store_merge(store, in[i], &counted, err);
  }
  kvl_store_close(store);
  if (is_new && code == 0 && rename(temporary, out) != 0) {
    code = kvl_err_set(err, -errno, "%s: cannot write: %s", out, strerror(errno));
  }
  if (is_new && code != 0) {
    kvl_store_remove(temporary);
  }
  free(temporary);
  if (code == 0 && !quiet) {
    tell(out, &counted);
  }
  return code;
}
