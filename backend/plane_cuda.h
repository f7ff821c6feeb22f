/* The CUDA plane: decode steps with real kernels, real pinned host memory and real bytes, against the wall clock.
 *
 * Each row's content is a function of (session, cache, row) (kernels/pattern.h). A decode step is one graph: the model's own layers are stood in for by
 * kernels of the durations that `inputs` gives, resolves and their fetches are the real kernels, and at every reading layer a stand-in for attention
 * loads every selected row through the address that resolve wrote and folds it into a digest. Digests are compared with those of a copy of every session
 * that stays resident as a whole, addressed by row number alone. Prefill and transfer are stood in for when a request is opened: the rows
 * appear in host memory over the device-to-host direction of the link.
 *
 * Resident mode does the same with nothing on the host: a request's rows appear in its reserved frames, a step's accepted rows are copied from the scratch
 * into theirs, and the resolve kernel finds every row in the page map or the scratch. There it is what the block table is to any paged server, a part of
 * attention: its time counts as the layer's compute (and is taken off the stand-in, as the reader's is), and its look-ups are in no count of a step, so
 * that the mode's counts are the model plane's: none. A row that is anywhere else is an error.
 *
 * Its clock is the wall clock since creation, but stands still between two calls of wait_until, so that a run is fully told by what wait_until
 * returned (record and replay). What a policy decides never depends on which plane it is on. */
#ifndef KVL_BACKEND_PLANE_CUDA_H
#define KVL_BACKEND_PLANE_CUDA_H

#include <signal.h>

#include "backend/plane.h"
#include "backend/refdev.h"
#include "backend/stages.h"

/* What a step works on, from whoever knows: selections and pools travel with the step, compute times stand for the model's layers. */
struct kvl_plane_inputs {
  void *context;
  int (*open)(void *context, uint32_t gpu, kvl_request slot, uint64_t session, uint32_t input_tokens, struct kvl_err *err);
  void (*step)(void *context, uint32_t gpu, kvl_request slot, uint32_t tokens, uint32_t queries);
  uint32_t (*rows)(void *context, uint32_t gpu, kvl_request slot, uint32_t selection, uint32_t query, const int32_t **rows);
  /* Ascending blocks of the query's candidate pool; needed only when a stage announces. */
  uint32_t (*pool)(void *context, uint32_t gpu, kvl_request slot, uint32_t query, const int32_t **blocks);
  void (*close)(void *context); /* with the plane; not when its creation fails */
  uint64_t (*compute_ns)(void *context, uint32_t requests, uint32_t queries, uint64_t history_tokens); /* of a step, all layers */
};

struct kvl_plane_cuda_config {
  uint32_t gpus;                    /* decode GPUs; GPU i of the machine is decode GPU i */
  struct kvl_refdev_config device;  /* of each; `threads` is not used */
  uint32_t tokens_max;              /* longest request, output included */
  uint32_t layers;
  const struct kvl_stage *stages;   /* copied */
  uint32_t stage_count;
  uint32_t pool_blocks, pool_rows_per_block; /* largest pool of a query; 0: none */
  uint64_t compute_hbm_bytes;       /* what the model's own layers read from HBM in a step */
  uint64_t host_pool_bytes;         /* most pinned memory, all GPUs together; not looked at in resident mode */
  bool resident;                    /* resident mode: requests are opened with their policy; no hot rows, no bank, no prefetch in `device` and `stages` */
  enum kvl_check check;
  bool floor;                       /* host rows of each KVL_FLOOR_STRIDE-th step are gathered once more behind it (backend/plane.h); not in resident mode */
  struct kvl_plane_inputs inputs;
  const volatile sig_atomic_t *stop; /* non-zero: nobody waits any more for a time at which nothing is known to end; may be NULL */
};

/* -ENOSYS: built without CUDA; -ENODEV: no such GPU; -ENOMEM: the line says what was asked for and what is free; -EINVAL: beyond a kernel's limits; -EIO. */
int kvl_plane_cuda_create(struct kvl_plane **plane, const struct kvl_plane_cuda_config *config, struct kvl_err *err);

#endif
