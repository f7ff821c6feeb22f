/* kvloan trace info, check and cat. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "results/text.h"
#include "sim/cmd_trace.h"

static int open_trace(const struct kvl_trace_call *call, struct kvl_trace **trace)
{
  struct kvl_err err;
  return kvl_trace_open(trace, call->file, &err) ? kvl_trace_complain(call, 1, "%s", err.text) : 0;
}

static void info_table(const struct kvl_trace *trace, const struct kvl_trace_meta *meta, const struct kvl_trace_totals *t)
{
  const struct kvl_selection_shape *shape = &meta->shape;
  printf("file       %s\nversion    %d\nmodel      ", kvl_trace_path(trace), KVL_TRACE_VERSION);
  kvl_text_tsv_cell(stdout, meta->model); /* texts of a file are anybody's: no control character of theirs reaches a terminal */
  printf("\norigin     ");
  kvl_text_tsv_cell(stdout, meta->origin);
  printf("\nseed       %" PRIu64 "\n", meta->seed);
  printf("sessions   %u\nsteps      %" PRIu64 "\nrows       %" PRIu64 "\nqueries    up to %u a step\n", t->sessions, t->steps, t->items, t->queries_max);
  printf("size       %" PRIu64 " bytes in %u chunk%s, %.2f bytes a row (%.2f before compression)\n\n", t->file_bytes, t->chunks, kvl_text_s(t->chunks),
         (double)t->file_bytes / (double)(t->items ? t->items : 1), (double)t->raw_bytes / (double)(t->items ? t->items : 1));
  printf("%-6s %6s %6s %8s %15s\n", "point", "layer", "cache", "k", "tokens_per_row");
  for (uint32_t i = 0; i < shape->points; i++)
    printf("%-6u %6u %6u %8u %15u\n", i, shape->point[i].layer, shape->point[i].cache, shape->point[i].k,
           shape->tokens_per_row[shape->point[i].cache]);
  for (uint32_t i = 0; i < meta->pools; i++)
    printf("%s%-6u %6u %6u %8u %15u\n", i == 0 ? "\npool    layer  cache   blocks  rows_per_block\n" : "", i, meta->pool[i].layer, meta->pool[i].cache,
           meta->pool[i].blocks_max, meta->pool[i].rows_per_block);
  printf("\n%-8s %13s %8s %12s %8s\n", "session", "input_tokens", "steps", "rows", "chunks");
  for (uint32_t i = 0; i < t->sessions; i++) {
    const struct kvl_trace_session *s = kvl_trace_session_of(trace, i);
    if (i == 32 && t->sessions > 40) {
      printf("...      (%u more; --format=tsv lists all)\n", t->sessions - i);
      break;
    }
    printf("%-8u %13u %8u %12" PRIu64 " %8u\n", i, s->input_tokens, s->steps, s->items, s->chunks);
  }
}

static void info_json(const struct kvl_trace *trace, const struct kvl_trace_meta *meta, const struct kvl_trace_totals *t)
{
  const struct kvl_selection_shape *shape = &meta->shape;
  printf("{\"file\":");
  kvl_text_json_string(stdout, kvl_trace_path(trace));
  printf(",\"version\":%d,\"model\":", KVL_TRACE_VERSION);
  kvl_text_json_string(stdout, meta->model);
  printf(",\"origin\":");
  kvl_text_json_string(stdout, meta->origin);
  printf(",\"seed\":%" PRIu64 ",\"sessions\":%u,\"steps\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"queries_max\":%u,\"chunks\":%u,\"file_bytes\":%" PRIu64
         ",\"packed_bytes\":%" PRIu64 ",\"raw_bytes\":%" PRIu64 ",\"points\":[",
         meta->seed, t->sessions, t->steps, t->items, t->queries_max, t->chunks, t->file_bytes, t->packed_bytes, t->raw_bytes);
  for (uint32_t i = 0; i < shape->points; i++)
    printf("%s{\"cache\":%u,\"layer\":%u,\"k\":%u,\"tokens_per_row\":%u}", i ? "," : "", shape->point[i].cache, shape->point[i].layer,
           shape->point[i].k, shape->tokens_per_row[shape->point[i].cache]);
  printf("],\"pools\":[");
  for (uint32_t i = 0; i < meta->pools; i++)
    printf("%s{\"cache\":%u,\"layer\":%u,\"rows_per_block\":%u,\"blocks_max\":%u}", i ? "," : "", meta->pool[i].cache, meta->pool[i].layer,
           meta->pool[i].rows_per_block, meta->pool[i].blocks_max);
  printf("],\"session\":[");
  for (uint32_t i = 0; i < t->sessions; i++) {
    const struct kvl_trace_session *s = kvl_trace_session_of(trace, i);
    printf("%s{\"input_tokens\":%u,\"steps\":%u,\"rows\":%" PRIu64 ",\"queries_max\":%u,\"chunks\":%u}", i ? "," : "", s->input_tokens, s->steps,
           s->items, s->queries_max, s->chunks);
  }
  printf("]}\n");
}

int kvl_trace_info(const struct kvl_trace_call *call)
{
  struct kvl_trace *trace;
  struct kvl_trace_totals totals;
  int code = open_trace(call, &trace);
  if (code)
    return code;
  kvl_trace_totals_of(trace, &totals);
  switch (call->format) {
  case KVL_FORMAT_TABLE:
    info_table(trace, kvl_trace_meta_of(trace), &totals);
    break;
  case KVL_FORMAT_JSON:
    info_json(trace, kvl_trace_meta_of(trace), &totals);
    break;
  case KVL_FORMAT_TSV:
    printf("session\tinput_tokens\tsteps\trows\tqueries_max\tchunks\n");
    for (uint32_t i = 0; i < totals.sessions; i++) {
      const struct kvl_trace_session *s = kvl_trace_session_of(trace, i);
      printf("%u\t%u\t%u\t%" PRIu64 "\t%u\t%u\n", i, s->input_tokens, s->steps, s->items, s->queries_max, s->chunks);
    }
    break;
  }
  kvl_trace_close(trace);
  return 0;
}

int kvl_trace_verify(const struct kvl_trace_call *call)
{
  struct kvl_trace *trace;
  struct kvl_trace_totals totals;
  struct kvl_err err;
  uint64_t digest = 0;
  int code = open_trace(call, &trace);
  if (code)
    return code;
  kvl_trace_totals_of(trace, &totals);
  code = kvl_trace_check(trace, &digest, &err);
  if (code)
    code = kvl_trace_complain(call, 1, "%s", err.text);
  else
    printf("%s: good: %u session%s, %" PRIu64 " step%s, %" PRIu64 " row%s, contents %016" PRIx64 "\n", call->file, totals.sessions, kvl_text_s(totals.sessions), totals.steps,
           kvl_text_s(totals.steps), totals.items, kvl_text_s(totals.items), digest);
  kvl_trace_close(trace);
  return code;
}

static void cat_lists(const struct kvl_trace_step *step, const struct kvl_trace_list *lists, const char *place, const char *kind, uint32_t number,
                      uint32_t cache, uint32_t layer)
{
  for (uint32_t q = 0; q < step->queries; q++) {
    const struct kvl_trace_list *list = &lists[(size_t)number * step->queries + q];
    printf("%s\t%u\t%u\t%s\t%u\t%u\t%u\t%u\t", place, q, step->boundary ? step->boundary[q] : step->tokens, kind, number, cache, layer, list->count);
    for (uint32_t i = 0; i < list->count; i++)
      printf(i ? " %d" : "%d", list->item[i]);
    putchar('\n');
  }
}

int kvl_trace_cat(const struct kvl_trace_call *call)
{
  struct kvl_trace *trace;
  struct kvl_trace_step step;
  struct kvl_err err;
  uint32_t session, index, shown = 0;
  const struct kvl_trace_meta *meta;
  int code = open_trace(call, &trace);

  if (code)
    return code;
  meta = kvl_trace_meta_of(trace);
  code = kvl_trace_seek(trace, call->session, call->step, &err);
  if (code == 0)
    printf("session\tstep\ttokens\tquery\tboundary\tkind\tnumber\tcache\tlayer\tcount\titems\n");
  while (code == 0 && shown < call->limit && !kvl_trace_stopped() && !ferror(stdout)) {
    char place[64];
    code = kvl_trace_next(trace, &step, &session, &index, &err);
    if (code <= 0 || (session != call->session && kvl_trace_given(call, "session")))
      break;
    code = 0;
    shown++;
    (void)snprintf(place, sizeof place, "%u\t%u\t%u", session, index, step.tokens);
    for (uint32_t i = 0; i < meta->shape.points; i++)
      cat_lists(&step, step.selected, place, "point", i, meta->shape.point[i].cache, meta->shape.point[i].layer);
    for (uint32_t i = 0; step.pool && i < meta->pools; i++)
      cat_lists(&step, step.pool, place, "pool", i, meta->pool[i].cache, meta->pool[i].layer);
  }
  kvl_trace_close(trace);
  return code < 0 ? kvl_trace_complain(call, 1, "%s", err.text) : 0;
}
