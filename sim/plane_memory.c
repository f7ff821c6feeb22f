#include "sim/plane_memory.h"

#include <errno.h>

#include "backend/bytes.h"
#include "backend/layout.h"
#include "results/text.h"

/* Sessions whose histories will be there at once, on all GPUs together. Of arrivals from outside nobody knows before the run: one is certain. */
static uint64_t sessions_at_once(const struct kvl_scenario *s, uint32_t slots)
{
  if (s->workload.kind != KVL_WORK_CLOSED) {
    return 1;
  }
  struct kvl_session_bytes b;
  kvl_session_bytes(s, (uint64_t)s->workload.input_tokens + s->workload.output_tokens, &b);
  const uint64_t limits[] = {(uint64_t)s->node.decode_gpus * slots, s->workload.concurrency, s->workload.requests,
                             b.host == 0 ? UINT64_MAX : s->node.host_pool_bytes / b.host};
  uint64_t sessions = UINT64_MAX;
  for (uint32_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    sessions = limits[i] < sessions ? limits[i] : sessions;
  }
  return sessions == 0 ? 1 : sessions;
}

int kvl_plane_memory_check(const struct kvl_scenario *s, const struct kvl_refdev_config *device, uint32_t tokens_max, uint64_t available, struct kvl_err *err)
{
  struct kvl_layout layout;
  struct kvl_err reason;
  int rc = kvl_layout_init(&layout, device, &reason);
  if (rc != 0) {
    return kvl_err_set(err, rc, "%s: model.caches: %s", s->file, reason.text);
  }
  uint64_t sessions = sessions_at_once(s, device->slots), history = kvl_bytes_history(device, tokens_max);
  double wanted = (double)layout.arena_bytes * s->node.decode_gpus + (double)history * (double)sessions;
  if (wanted <= (double)available) {
    return 0;
  }
  return kvl_err_set(err, -ENOMEM, "%s: the host plane wants %.2f GB of memory (%u HBM arena%s of %.2f GB, histories of %llu session%s of %.3f GB), %.2f GB are "
                     "available: try a smaller node.kv_pool_bytes, node.decode_gpus, limits.batch_max, workload.concurrency or workload.input_tokens",
                     s->file, wanted / 1e9, s->node.decode_gpus, kvl_text_s(s->node.decode_gpus), (double)layout.arena_bytes / 1e9, (unsigned long long)sessions,
                     kvl_text_s(sessions), (double)history / 1e9, (double)available / 1e9);
}
