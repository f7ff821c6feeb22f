/* The model plane: real look-ups through the C reference, time from the cost model. With bytes (the host plane) every copy also moves real
 * bytes between real buffers, and every selected row is read back through its address and compared. */
#ifndef KVL_SIM_PLANE_MODEL_H
#define KVL_SIM_PLANE_MODEL_H

#include <signal.h>

#include "backend/plane.h"
#include "sim/model.h"
#include "traces/selection.h"

struct kvl_plane_model_config {
  const struct kvl_scenario *scenario;
  const struct kvl_selection_source *selections; /* NULL: none; rows are not resolved */
  uint32_t slots;        /* batch slots of a decode GPU */
  uint32_t frames;       /* of a decode GPU */
  uint32_t tokens_max;   /* longest request, output included */
  uint32_t queries_max;  /* of a step's item; 0 counts as 1 */
  uint32_t threads;      /* that resolve; 1: all in the caller */
  bool bytes;            /* the host plane */
  enum kvl_check check;  /* host plane: steps whose rows are read back */
  bool floor;            /* CUDA plane: host rows of some steps are gathered once more (backend/plane.h) */
  const volatile sig_atomic_t *stop; /* planes on the wall clock: non-zero ends their waiting; may be NULL */
};

int kvl_plane_model_create(struct kvl_plane **plane, const struct kvl_plane_model_config *config, struct kvl_err *err);

/* What the cost model had to guess so far: 0, or a mask of KVL_ESTIMATE_*. */
enum { KVL_ESTIMATE_COMPUTE_OUTSIDE = 1, KVL_ESTIMATE_LINK_OUTSIDE = 2, KVL_ESTIMATE_ROOFLINE = 4, KVL_ESTIMATE_FOREIGN_PROFILE = 8 };
unsigned kvl_plane_model_estimates(const struct kvl_plane *plane);

/* Host plane: rows compared so far, and how many of them differed. */
void kvl_plane_model_checked(const struct kvl_plane *plane, uint64_t *rows, uint64_t *mismatches);

#endif
