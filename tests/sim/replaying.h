/* For tests of record and replay: what goes around a tiny run's plane. */
#ifndef KVL_TESTS_SIM_REPLAYING_H
#define KVL_TESTS_SIM_REPLAYING_H

#include "sim/plane_replay.h"
#include "tests/sim/plane_jitter.h"

struct jittering {
  struct jitter_config config;
  uint32_t gpus;
};
int wrap_jitter(void *context, struct kvl_plane **plane, struct kvl_err *err); /* context: struct jittering */

struct replaying {
  const struct kvl_log *log;
  uint32_t gpus;
  struct kvl_replay_report report;
  volatile sig_atomic_t stop;
};
int wrap_replay(void *context, struct kvl_plane **plane, struct kvl_err *err); /* context: struct replaying */

#endif
