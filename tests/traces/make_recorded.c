/* make_recorded IN.kvt OUT.kvt QUERIES: the same selections as if an engine had been recorded, each step with so many queries that select alike. */
#include <stdio.h>
#include <stdlib.h>

#include "traces/trace.h"

static int copy_step(struct kvl_trace_writer *to, uint32_t session, const struct kvl_trace_step *from, uint32_t points, uint32_t queries, struct kvl_err *err)
{
  struct kvl_trace_step step = {.tokens = from->tokens, .queries = queries};
  struct kvl_trace_list *list = calloc((size_t)points * queries, sizeof *list);
  for (uint32_t i = 0; list != NULL && i < points * queries; i++) {
    list[i] = from->selected[i / queries * from->queries];
  }
  step.selected = list;
  int rc = list == NULL ? -1 : kvl_trace_writer_step(to, session, &step, err);
  free(list);
  return rc;
}

int main(int argc, char **argv)
{
  struct kvl_err err = {""};
  struct kvl_trace *from = NULL;
  struct kvl_trace_writer *to = NULL;
  struct kvl_trace_step step;
  uint32_t session, open = UINT32_MAX, written = 0;
  static struct kvl_trace_meta meta; /* large */
  int rc = argc != 4 ? -1 : kvl_trace_open(&from, argv[1], &err), more = 1;
  if (rc == 0) {
    meta = *kvl_trace_meta_of(from);
    meta.pools = 0;
    meta.seed = 0;
    (void)snprintf(meta.origin, sizeof meta.origin, "an engine, a machine, a date");
    rc = kvl_trace_writer_create(&to, argv[2], &meta, &err);
  }
  while (rc == 0 && (more = kvl_trace_next(from, &step, &session, NULL, &err)) == 1) {
    if (session != open) {
      open = session;
      rc = kvl_trace_writer_begin(to, kvl_trace_session_of(from, session)->input_tokens, &written, &err);
    }
    rc = rc != 0 ? rc : copy_step(to, written, &step, meta.shape.points, (uint32_t)strtoul(argv[3], NULL, 10), &err);
  }
  rc = more < 0 ? more : rc;
  if (rc == 0) {
    rc = kvl_trace_writer_finish(to, &err);
  } else {
    kvl_trace_writer_abort(to);
  }
  kvl_trace_close(from);
  if (rc != 0) {
    fprintf(stderr, "make_recorded: %s\n", err.text);
  }
  return rc != 0;
}
