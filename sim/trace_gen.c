/* kvloan trace gen: a preset's selections into a file. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cmd_trace.h"

/* Sorts rows by bytes, least significant first: a selection is a set (a top-k has no order of its own), and ascending lists are stored in a third of the
 * space. `spare` has room for as many. */
static void sort_rows(int32_t *rows, int32_t *spare, uint32_t count, uint32_t below)
{
  int32_t *from = rows, *to = spare;
  for (unsigned shift = 0; shift < 32 && below >> shift > 0; shift += 8) {
    uint32_t place[256] = {0}, next = 0;
    for (uint32_t i = 0; i < count; i++)
      place[(uint32_t)from[i] >> shift & 255]++;
    for (unsigned b = 0; b < 256; b++) {
      uint32_t here = place[b];
      place[b] = next;
      next += here;
    }
    for (uint32_t i = 0; i < count; i++)
      to[place[(uint32_t)from[i] >> shift & 255]++] = from[i];
    int32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != rows)
    memcpy(rows, from, count * sizeof *rows);
}

struct buffers {
  struct kvl_trace_list list[KVL_POINTS_MAX], pool;
  int32_t *rows;  /* of all points, one after the other */
  int32_t *spare;
};

static int write_session(const struct kvl_trace_call *call, const struct kvl_trace_meta *meta, struct kvl_selection_stream *stream,
                         struct buffers *b, struct kvl_trace_writer *writer, uint32_t session, struct kvl_err *err)
{
  const struct kvl_selection_shape *shape = &meta->shape;
  uint32_t id;
  int code = kvl_trace_writer_begin(writer, call->context, &id, err);

  kvl_stream_start(stream, session, call->context);
  for (uint32_t s = 0; code == 0 && s < call->steps; s++) {
    struct kvl_trace_step step = {.tokens = call->context + s, .queries = 1, .selected = b->list};
    int32_t *to = b->rows;
    kvl_stream_step(stream, step.tokens, 1);
    for (uint32_t p = 0; p < shape->points; p++) {
      const int32_t *rows;
      uint32_t count = kvl_stream_rows(stream, p, 0, &rows);
      memcpy(to, rows, count * sizeof *to);
      sort_rows(to, b->spare, count, step.tokens / shape->tokens_per_row[shape->point[p].cache]);
      b->list[p] = (struct kvl_trace_list){to, count};
      to += count;
    }
    if (meta->pools != 0) {
      b->pool.count = kvl_stream_pool(stream, 0, &b->pool.item);
      step.pool = &b->pool;
    }
    code = kvl_trace_writer_step(writer, id, &step, err);
    kvl_trace_progress("steps written", (uint64_t)session * call->steps + s, (uint64_t)call->sessions * call->steps);
    if (code == 0 && kvl_trace_stopped())
      code = kvl_err_set(err, -EINTR, "%s: interrupted; nothing was kept", call->out);
  }
  return code == 0 ? kvl_trace_writer_end(writer, id, err) : code;
}

static int generate(const struct kvl_trace_call *call, const struct kvl_trace_meta *meta, struct kvl_err *err)
{
  struct kvl_selection_source *source = NULL;
  struct kvl_selection_stream *stream = NULL;
  struct kvl_trace_writer *writer = NULL;
  struct buffers b = {.rows = NULL};
  size_t rows = 0;
  uint32_t k_max = 0;
  int code;

  for (uint32_t p = 0; p < meta->shape.points; p++) {
    rows += meta->shape.point[p].k;
    k_max = meta->shape.point[p].k > k_max ? meta->shape.point[p].k : k_max;
  }
  b.rows = malloc(rows * sizeof *b.rows);
  b.spare = malloc(k_max * sizeof *b.spare);
  code = kvl_trace_fits(call, &meta->shape, call->steps, err);
  if (code == 0)
    code = kvl_source_open_preset(&source, call->preset, &meta->shape, call->seed, err);
  if (code == 0) {
    stream = kvl_stream_create(source, call->context + call->steps, 1);
    if (stream == NULL || b.rows == NULL || b.spare == NULL)
      code = kvl_err_set(err, -ENOMEM, "no memory for a session of %u tokens", call->context);
  }
  if (code == 0)
    code = kvl_trace_writer_create(&writer, call->out, meta, err);
  for (uint32_t s = 0; code == 0 && s < call->sessions; s++)
    code = write_session(call, meta, stream, &b, writer, s, err);
  kvl_trace_progress("steps written", 1, 1);
  if (code == 0)
    code = kvl_trace_writer_finish(writer, err);
  else
    kvl_trace_writer_abort(writer);
  if (stream != NULL)
    kvl_stream_destroy(stream);
  kvl_source_close(source);
  free(b.rows);
  free(b.spare);
  return code;
}

int kvl_trace_gen(const struct kvl_trace_call *given)
{
  static struct kvl_trace_meta meta; /* large */
  struct kvl_trace_call call = *given;
  struct kvl_err err;
  int code;

  if (call.file != NULL)
    return kvl_trace_complain(&call, 2, "takes no file; did you mean --out=%s?", call.file);
  if (call.out == NULL)
    return kvl_trace_complain(&call, 2, "--out=FILE is missing");
  if (call.model == NULL && call.k == 0)
    return kvl_trace_complain(&call, 2, "--model=NAME is missing (or --k=ROWS, for a single cache)");
  call.preset = call.preset ? call.preset : "hot-a";
  call.tokens_per_row = call.tokens_per_row ? call.tokens_per_row : 1;
  call.sessions = call.sessions ? call.sessions : 16;
  call.steps = call.steps ? call.steps : 800;
  call.context = kvl_trace_given(&call, "context") ? call.context : 500000;
  memset(&meta, 0, sizeof meta);
  code = kvl_trace_shape(&call, &meta.shape, meta.model);
  if (code)
    return code;
  meta.seed = call.seed;
  if (meta.shape.pool.blocks != 0) {
    const struct kvl_selection_point *announcing = &meta.shape.point[meta.shape.pool.point];
    meta.pools = 1;
    meta.pool[0] = (struct kvl_trace_pool){.cache = announcing->cache, .layer = announcing->layer, .rows_per_block = meta.shape.pool.rows_per_block,
                                           .blocks_max = meta.shape.pool.blocks};
  }
  (void)snprintf(meta.origin, sizeof meta.origin, "generated: preset %s, context %u tokens", call.preset, call.context);
  code = generate(&call, &meta, &err);
  return code ? kvl_trace_complain(&call, 1, "%s", err.text) : 0;
}
