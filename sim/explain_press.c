/* From which request on a stored run's decode GPUs were as full as they got: a re-run of fewer requests does not press on the pool as the run did. */
#include <errno.h>
#include <stdlib.h>

#include "sim/explain.h"

/* So near to the most sessions that a GPU had is as full as it got: a maximum that one late request made would cut nothing short. */
static const double near_most = 0.95;

enum what { LEAVES, SUBMITTED, WAITS, DECODES }; /* of equal times in this order */

struct moment {
  uint64_t ns;
  uint32_t gpu;
  enum what what;
};

struct moments {
  struct moment *item;
  size_t count, capacity;
};

static int collect(void *context, const struct kvl_request_record *r)
{
  struct moments *m = context;
  if (m->capacity - m->count < 4) {
    size_t capacity = m->capacity > 0 ? 2 * m->capacity : 1024;
    struct moment *grown = realloc(m->item, capacity * sizeof *grown);
    if (grown == NULL) {
      return -ENOMEM;
    }
    m->item = grown;
    m->capacity = capacity;
  }
  m->item[m->count++] = (struct moment){r->submit_ns, 0, SUBMITTED};
  if (r->aborted == 0 && r->gpu < KVL_EXPLAIN_GPUS) {
    m->item[m->count++] = (struct moment){r->prefill_end_ns, r->gpu, WAITS};
    m->item[m->count++] = (struct moment){r->admit_ns, r->gpu, DECODES};
    m->item[m->count++] = (struct moment){r->last_token_ns, r->gpu, LEAVES};
  }
  return 0;
}

static int by_time(const void *a, const void *b)
{
  const struct moment *x = a, *y = b;
  int order = (x->ns > y->ns) - (x->ns < y->ns);
  order = order != 0 ? order : (x->what > y->what) - (x->what < y->what);
  return order != 0 ? order : (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

/* Goes through the moments until a GPU has `enough` sessions and `queue` requests wait, at once or one after the other: how many had been submitted by
 * then; 0: never. `most`: sessions of a GPU seen. */
static uint64_t walk(const struct moments *m, double enough, double queue, uint32_t *most)
{
  uint32_t sessions[KVL_EXPLAIN_GPUS] = {0};
  uint64_t submitted = 0, waiting = 0;
  bool full = false, queued = queue < 1.0; /* hardly anybody waited: the queue is no part of it */
  *most = 0;
  for (size_t i = 0; i < m->count; i++) {
    const struct moment *now = &m->item[i];
    submitted += now->what == SUBMITTED;
    waiting += now->what == WAITS;
    waiting -= now->what == DECODES;
    sessions[now->gpu] += now->what == DECODES;
    sessions[now->gpu] -= now->what == LEAVES;
    *most = sessions[now->gpu] > *most ? sessions[now->gpu] : *most;
    if (i + 1 < m->count && now[1].ns == now->ns) {
      continue; /* who is admitted at once does not wait */
    }
    full = full || *most >= enough;
    queued = queued || (double)waiting >= queue;
    if (full && queued) {
      return submitted;
    }
  }
  return 0;
}

int kvl_explain_press(struct kvl_explain_facts *f, struct kvl_store *store, struct kvl_err *err)
{
  struct moments m = {NULL, 0, 0};
  const struct kvl_scenario *s = f->scenario;
  int rc = kvl_store_each_request(store, f->run->id, collect, &m, err);
  rc = rc == -ENOMEM ? kvl_err_set(err, rc, "out of memory") : rc;
  if (rc == 0 && m.count > 0) {
    qsort(m.item, m.count, sizeof m.item[0], by_time);
    (void)walk(&m, 1e18, 0.0, &f->pressed_sessions);
    uint32_t seen;
    uint64_t had = f->run->summary.requests_completed + f->run->summary.requests_aborted;
    uint64_t least = kvl_is_open_loop(s) ? 1 : s->workload.concurrency; /* of a closed loop all are there from the start */
    f->pressed_requests = walk(&m, near_most * f->pressed_sessions, f->waiting_mean, &seen);
    f->pressed_requests = f->pressed_requests == 0 ? had : f->pressed_requests;
    f->pressed_requests = f->pressed_requests > least ? f->pressed_requests : least;
    f->pressed_requests = f->pressed_requests < had ? f->pressed_requests : had;
  }
  free(m.item);
  return rc;
}
