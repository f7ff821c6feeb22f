/* Inside traces/: how kinds of selection sources plug into traces/selection.h.
 *
 * A kind is one static table of functions. Its own source and stream structs begin with the structs below, so a pointer converts both ways.
 * Kinds: presets (select_preset.c) and trace files (trace_source.c). traces/select.c holds the public functions; they call through `ops`. */
#ifndef KVL_TRACES_SELECTION_IMPL_H
#define KVL_TRACES_SELECTION_IMPL_H

#include "traces/selection.h"

struct kvl_selection_ops {
  void (*close)(struct kvl_selection_source *source);                          /* never NULL */
  struct kvl_selection_stream *(*create)(const struct kvl_selection_source *source, uint32_t tokens_max, uint32_t queries_max);
  void (*destroy)(struct kvl_selection_stream *stream);                        /* never NULL */
  void (*start)(struct kvl_selection_stream *stream, uint64_t session, uint32_t input_tokens);
  void (*step)(struct kvl_selection_stream *stream, uint32_t tokens, uint32_t queries);
  uint32_t (*rows)(struct kvl_selection_stream *stream, uint32_t point, uint32_t query, const int32_t **rows);
  uint32_t (*pool)(struct kvl_selection_stream *stream, uint32_t query, const int32_t **blocks);
};

struct kvl_selection_source {
  const struct kvl_selection_ops *ops;
};

struct kvl_selection_stream {
  const struct kvl_selection_ops *ops;
};

#endif
