/* A decode step as data: what happens at each layer, in order. Derived once from the model; the model plane turns it into a time line, the CUDA
 * plane into a graph, so that neither can order a step differently.
 *
 * At layer L: rows of the step's tokens are written (caches that L writes), a selection that needs a prefetched row waits, selections made at L
 * are resolved, the candidate pool is announced, L's attention reads the rows of the selection that serves it, and the layer's own compute runs.
 *
 * Two forms of prefetch. `pool`: after the announcing layer's resolve the rows of the candidate pool that are in no GPU tier are copied into the bank,
 * beside the compute of the layers in between; the first later selection of that cache waits for what has not landed; after the last one the group ends.
 * `plan`: layers that share a selection and have their own rows of it (GLM-5.2: four layers, 656 bytes each) are one cache whose row is the layers' parts
 * one after the other, so one page map, one hot cache and one address serve all of them. Resolve fetches part 0 of the missing rows, for the layer that
 * selects. Its fetch list is replayed for parts 1, 2, ..: list and addresses as they are, only the byte range within the row differs; each part is one
 * copy beside compute, in order, and layer + part waits for its own. Without prefetch resolve fetches whole rows. Either way a fetched row is complete
 * before the step ends, so no state says which parts are there. A CUDA plane needs no kernel but the one that copies a fetch list into the bank, given
 * part offset and part bytes beside the row's; one event a part. */
#ifndef KVL_BACKEND_STAGES_H
#define KVL_BACKEND_STAGES_H

#include <stdbool.h>
#include <stdint.h>

enum kvl_stage_kind {
  KVL_STAGE_WRITE,     /* `cache`: rows completed by the step's tokens go to the scratch */
  KVL_STAGE_WAIT,      /* part 0: the bank copies of `cache` must have landed; part n: part n of the rows fetched for `point` */
  KVL_STAGE_RESOLVE,   /* `point` */
  KVL_STAGE_ANNOUNCE,  /* `cache`: the pool; its copies run beside what follows */
  KVL_STAGE_END_GROUP, /* `cache`: pinned hot slots are free again */
  KVL_STAGE_REPLAY,    /* `point`: its fetch list goes again over the link, for parts 1 .. of the rows, beside what follows */
  KVL_STAGE_READ,      /* `point`: attention of `layer` over its rows (their part `part`) */
  KVL_STAGE_COMPUTE    /* of `layer` */
};
enum { KVL_STAGE_KINDS = KVL_STAGE_COMPUTE + 1 };

struct kvl_stage {
  enum kvl_stage_kind kind;
  uint16_t layer, cache, point, part;
};

enum { KVL_STAGE_POINTS = 128, KVL_STAGE_CACHES = 128, KVL_STAGE_LAYERS = 256, KVL_STAGES_MAX = 8 * KVL_STAGE_LAYERS + 6 * KVL_STAGE_POINTS };

struct kvl_stage_model {
  uint32_t layers, caches, points;
  struct {
    uint16_t written_layer;
    uint16_t parts;   /* layers that have a part each of its rows; 0 or 1: the reading layers read the same bytes */
  } cache[KVL_STAGE_CACHES];
  struct {
    uint16_t cache, layer;
    uint16_t readers; /* layers [layer, layer + readers) read its rows; with parts, layer + n reads part n */
    uint16_t selection; /* whose rows it has: which of the query's selections, as traces count them. Points of one selection after the first
                         * resolve its rows again (layer sharing off) */
  } point[KVL_STAGE_POINTS]; /* in order of layer */
  uint32_t pool_selection; /* its layer announces the pool for the cache it selects from, if `pool` */
  bool pool, plan;         /* forms of prefetch */
};

/* Fills stages[KVL_STAGES_MAX]; returns how many. Fields that a kind does not use are 0. */
uint32_t kvl_stages_build(const struct kvl_stage_model *model, struct kvl_stage *stages);

#endif
