/* A plane around a plane that checks both sides of the seam: what the engine asks for, and what the plane answers.
 *
 * It keeps its own picture of every frame (whose page its bytes are), of every request (tokens committed, tokens written back) and of what is in
 * flight, and compares: pages are mapped only where their bytes are, nothing is written under a reader, nothing is lent that the host does not have,
 * give-back keeps its bound, times add up to the nanosecond. The first fault is kept as one line, and the call fails with -EPROTO. */
#ifndef KVL_TESTS_SIM_PLANE_CHECK_H
#define KVL_TESTS_SIM_PLANE_CHECK_H

#include "backend/plane.h"
#include "sim/model.h"

struct check_report {
  char fault[512];          /* "": none */
  uint64_t steps, batch;    /* steps with a batch; sum of their batches */
  uint64_t queries, commits; /* of all steps begun */
  uint64_t stall_ns[KVL_STALLS], in_step_ns, gap_ns;
  uint64_t lanes[KVL_TIERS], lanes_expected, fetched, violations;
  uint64_t opened, closed;  /* requests */
  uint64_t opened_twice;    /* of one session */
  uint64_t populated, given, kept;
  uint64_t lent_again_max;  /* most times that one page of one request was brought */
};

/* The inner plane is closed with it. NULL: no memory. `report` outlives it. */
struct kvl_plane *check_plane_create(struct kvl_plane *inner, const struct kvl_scenario *scenario, uint32_t slots, uint32_t frames, bool rows,
                                     struct check_report *report);

#endif
