/* A decode step as data: what happens at each layer, in order. Derived once from the model; the model plane turns it into a time line, the CUDA
 * plane into a graph, so that neither can order a step differently.
 *
 * At layer L: rows of the step's tokens are written (caches that L writes), a selection that needs a prefetched row waits, selections made at L
 * are resolved, the candidate pool is announced, L's attention reads the rows of the selection that serves it, and the layer's own compute runs. */
#ifndef KVL_BACKEND_STAGES_H
#define KVL_BACKEND_STAGES_H

#include <stdint.h>

enum kvl_stage_kind {
  KVL_STAGE_WRITE,     /* `cache`: rows completed by the step's tokens go to the scratch */
  KVL_STAGE_WAIT,      /* `cache`: bank copies that the next selection names must have landed */
  KVL_STAGE_RESOLVE,   /* `point` */
  KVL_STAGE_ANNOUNCE,  /* `cache`: the pool; its copies run beside what follows */
  KVL_STAGE_END_GROUP, /* `cache`: pinned hot slots are free again */
  KVL_STAGE_READ,      /* `point`: attention of `layer` over its rows */
  KVL_STAGE_COMPUTE    /* of `layer` */
};
enum { KVL_STAGE_KINDS = KVL_STAGE_COMPUTE + 1 };

struct kvl_stage {
  enum kvl_stage_kind kind;
  uint16_t layer, cache, point;
};

enum { KVL_STAGE_POINTS = 128, KVL_STAGE_CACHES = 128, KVL_STAGE_LAYERS = 256, KVL_STAGES_MAX = 3 * KVL_STAGE_LAYERS + 6 * KVL_STAGE_POINTS };

struct kvl_stage_model {
  uint32_t layers, caches, points;
  uint16_t written_layer[KVL_STAGE_CACHES];
  struct {
    uint16_t cache, layer;
    uint16_t readers; /* layers [layer, layer + readers) read its rows */
  } point[KVL_STAGE_POINTS]; /* in order of layer */
  uint32_t pool_layer;  /* announces the pool for the cache it selects from, if `pool` */
  int pool;
};

/* Fills stages[KVL_STAGES_MAX]; returns how many. Fields that a kind does not use are 0. */
uint32_t kvl_stages_build(const struct kvl_stage_model *model, struct kvl_stage *stages);

#endif
