#include "sim/plane_real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plane_cuda.h"
#include "sim/costs.h"
#include "sim/plane_setup.h"

/* What the plane asks for, step by step; it goes with the plane. */
struct inputs {
  struct kvl_plane_model_config config;
  struct kvl_plane_setup setup;
  struct kvl_selection_stream **stream; /* [gpu][slot] */
};

static struct kvl_selection_stream **stream_of(struct inputs *r, uint32_t gpu, kvl_request slot)
{
  return &r->stream[(size_t)gpu * r->config.slots + slot];
}

static int input_open(void *context, uint32_t gpu, kvl_request slot, uint64_t session, uint32_t input_tokens, struct kvl_err *err)
{
  struct inputs *r = context;
  struct kvl_selection_stream **stream = stream_of(r, gpu, slot);
  if (r->setup.device.points == 0) {
    return 0;
  }
  if (*stream == NULL) {
    *stream = kvl_stream_create(r->config.selections, r->config.tokens_max, r->config.queries_max == 0 ? 1 : r->config.queries_max);
    if (*stream == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for the selections of batch slot %u", slot);
    }
  }
  kvl_stream_start(*stream, session, input_tokens);
  return 0;
}

static void input_step(void *context, uint32_t gpu, kvl_request slot, uint32_t tokens, uint32_t queries)
{
  kvl_stream_step(*stream_of(context, gpu, slot), tokens, queries);
}

static uint32_t input_rows(void *context, uint32_t gpu, kvl_request slot, uint32_t selection, uint32_t query, const int32_t **rows)
{
  return kvl_stream_rows(*stream_of(context, gpu, slot), selection, query, rows);
}

static uint32_t input_pool(void *context, uint32_t gpu, kvl_request slot, uint32_t query, const int32_t **blocks)
{
  return kvl_stream_pool(*stream_of(context, gpu, slot), query, blocks);
}

static uint64_t input_compute_ns(void *context, uint32_t requests, uint32_t queries, uint64_t history_tokens)
{
  const struct inputs *r = context;
  bool outside = false;
  return kvl_costs_compute_ns(r->config.scenario, queries, history_tokens, &outside) + kvl_costs_draft_ns(r->config.scenario, requests, &outside);
}

static void input_close(void *context)
{
  struct inputs *r = context;
  for (size_t i = 0; r->stream != NULL && i < (size_t)r->config.scenario->node.decode_gpus * r->config.slots; i++) {
    kvl_stream_destroy(r->stream[i]);
  }
  free(r->stream);
  free(r);
}

int kvl_plane_real_create(struct kvl_plane **plane, const struct kvl_plane_model_config *config, struct kvl_err *err)
{
  const struct kvl_scenario *s = config->scenario;
  struct inputs *r = calloc(1, sizeof *r);
  if (r == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the plane");
  }
  r->config = *config;
  r->stream = calloc((size_t)s->node.decode_gpus * config->slots, sizeof(struct kvl_selection_stream *));
  int rc = r->stream == NULL ? kvl_err_set(err, -ENOMEM, "no memory for the plane") : 0;
  if (rc == 0 && config->floor && s->mode == KVL_MODE_RESIDENT) {
    rc = kvl_err_set(err, -EINVAL, "%s: mode = resident: no row comes from the host, so --floor has none to gather", s->file);
  }
  rc = rc != 0 ? rc : kvl_plane_setup_init(&r->setup, s, config->selections != NULL, err);
  if (rc == 0) {
    struct kvl_plane_cuda_config c = {
      .gpus = s->node.decode_gpus,
      .device = r->setup.device,
      .tokens_max = config->tokens_max,
      .layers = s->model.layers,
      .stages = r->setup.stages,
      .stage_count = r->setup.stage_count,
      .pool_blocks = s->model.pool_blocks,
      .pool_rows_per_block = s->model.pool_rows_per_block,
      .compute_hbm_bytes = s->costs.compute_hbm_bytes,
      .host_pool_bytes = s->node.host_pool_bytes,
      .resident = s->mode == KVL_MODE_RESIDENT,
      .check = config->check,
      .floor = config->floor,
      .stop = config->stop,
      .inputs = {.context = r, .open = input_open, .step = input_step, .rows = input_rows, .pool = input_pool, .compute_ns = input_compute_ns, .close = input_close},
    };
    c.device.slots = config->slots;
    c.device.frames = config->frames;
    c.device.queries_max = config->queries_max;
    struct kvl_err reason;
    rc = kvl_plane_cuda_create(plane, &c, &reason);
    rc = rc != 0 ? kvl_err_set(err, rc, "%s: --plane=cuda: %s", s->file, reason.text) : 0;
  }
  if (rc != 0) {
    input_close(r);
  }
  return rc;
}

unsigned kvl_plane_real_estimates(const struct kvl_plane_model_config *config)
{
  return (config->scenario->costs.compute == KVL_COMPUTE_ROOFLINE ? KVL_ESTIMATE_ROOFLINE : 0u) |
         (kvl_costs_suit_model(config->scenario) && kvl_costs_suit_hardware(config->scenario) ? 0u : KVL_ESTIMATE_FOREIGN_PROFILE);
}
