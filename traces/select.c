/* The public functions of traces/selection.h: each kind of source brings its own table. */
#include "traces/selection_impl.h"

void kvl_source_close(struct kvl_selection_source *source)
{
  if (source != NULL) {
    source->ops->close(source);
  }
}

struct kvl_selection_stream *kvl_stream_create(const struct kvl_selection_source *source, uint32_t tokens_max, uint32_t queries_max)
{
  return source->ops->create(source, tokens_max, queries_max);
}

void kvl_stream_destroy(struct kvl_selection_stream *stream)
{
  if (stream != NULL) {
    stream->ops->destroy(stream);
  }
}

void kvl_stream_start(struct kvl_selection_stream *stream, uint64_t session, uint32_t input_tokens)
{
  stream->ops->start(stream, session, input_tokens);
}

void kvl_stream_step(struct kvl_selection_stream *stream, uint32_t tokens, uint32_t queries)
{
  stream->ops->step(stream, tokens, queries);
}

uint32_t kvl_stream_rows(struct kvl_selection_stream *stream, uint32_t point, uint32_t query, const int32_t **rows)
{
  return stream->ops->rows(stream, point, query, rows);
}

uint32_t kvl_stream_pool(struct kvl_selection_stream *stream, uint32_t query, const int32_t **blocks)
{
  return stream->ops->pool(stream, query, blocks);
}
