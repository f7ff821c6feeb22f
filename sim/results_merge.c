/* kvloan results merge OUT IN...: stores into one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/store_part.h"
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

static int merge_all(const char *to, const char *const *in, uint32_t count, struct kvl_merge_count *counted, struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  struct kvl_store_options options = {.busy_ms = BUSY_MS};
  *counted = (struct kvl_merge_count){0};
  int code = kvl_store_open_with(&store, to, &options, err);
  for (uint32_t i = 0; i < count && code == 0; i++) {
    code = kvl_store_merge(store, in[i], counted, err);
  }
  kvl_store_close(store);
  return code;
}

/* A new store grows under another name and gets its own when it is whole, by a link, which replaces nothing. *taken: another process was faster. */
static int merge_new(const char *out, const char *const *in, uint32_t count, struct kvl_merge_count *counted, bool *taken, struct kvl_err *err)
{
  struct kvl_store_part part;
  kvl_store_part_clear(out);
  int code = kvl_store_part_make(&part, out);
  if (code != 0) {
    return kvl_err_set(err, code, "%s: cannot write: %s", out, strerror(-code));
  }
  code = merge_all(part.path, in, count, counted, err);
  if (code == 0 && link(part.path, out) != 0) {
    *taken = errno == EEXIST;
    if (!*taken && rename(part.path, out) != 0) { /* there are no links here */
      code = kvl_err_set(err, -errno, "%s: cannot write: %s", out, strerror(errno));
    }
  }
  kvl_store_part_end(&part);
  return code;
}

int kvl_results_merge_into(const char *out, const char *const *in, uint32_t count, bool quiet, struct kvl_err *err)
{
  struct kvl_merge_count counted;
  bool there = access(out, F_OK) == 0 || kvl_store_part_has_log(out), taken = false;
  int code = there ? 0 : merge_new(out, in, count, &counted, &taken, err);
  if (code == 0 && (there || taken)) {
    code = merge_all(out, in, count, &counted, err);
  }
  if (code == 0 && !quiet) {
    tell(out, &counted);
  }
  return code;
}
