#include "tests/sim/replaying.h"

#include <errno.h>

int wrap_jitter(void *context, struct kvl_plane **plane, struct kvl_err *err)
{
  const struct jittering *j = context;
  struct kvl_plane *jitter = jitter_plane_create(*plane, j->gpus, &j->config);
  if (jitter == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for a decorator");
  }
  *plane = jitter;
  return 0;
}

int wrap_replay(void *context, struct kvl_plane **plane, struct kvl_err *err)
{
  struct replaying *r = context;
  return kvl_plane_replay_create(plane, *plane, r->log, r->gpus, &r->report, &r->stop, err);
}
