#include "sim/cmd_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "results/text.h"

static double seconds_between(const struct timespec *a, const struct timespec *b)
{
  return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) * 1e-9;
}

void kvl_cmd_progress_begin(struct kvl_cmd_progress *p, const char *what)
{
  memset(p, 0, sizeof *p);
  p->what = what;
  (void)clock_gettime(CLOCK_MONOTONIC, &p->started);
}

/* Ten times a second at most. What is shown is shown as of *now. */
static bool is_due(struct kvl_cmd_progress *p, struct timespec *now)
{
  (void)clock_gettime(CLOCK_MONOTONIC, now);
  if (p->any && seconds_between(&p->shown, now) < 0.1) {
    return false;
  }
  p->any = true;
  p->shown = *now;
  return true;
}

void kvl_cmd_progress_show(void *context, uint64_t now_ns, uint64_t done, uint64_t total)
{
  struct kvl_cmd_progress *p = context;
  struct timespec t;
  if (!is_due(p, &t)) {
    return;
  }
  if (done < p->last_done) {
    p->started = t;
  }
  p->last_done = done;
  double elapsed = seconds_between(&p->started, &t);
  fprintf(stderr, "\r%s%8.1f s simulated, %" PRIu64 " of %" PRIu64 " request%s done", p->what, (double)now_ns / 1e9, done, total, kvl_text_s(total));
  if (done != 0 && total != 0) {
    fprintf(stderr, ", %.0f s to go   ", elapsed / (double)done * (double)(total - done));
  }
}

void kvl_cmd_progress_reruns(void *context, uint32_t done, uint32_t total, double share)
{
  struct kvl_cmd_progress *p = context;
  struct timespec t;
  if (!is_due(p, &t)) {
    return;
  }
  fprintf(stderr, "\r\033[K%s%u of %u re-runs done", p->what, done, total);
  double elapsed = seconds_between(&p->started, &t);
  if (share > 0.02 && share < 1) { /* the first answers come late: an estimate by them is far too long */
    fprintf(stderr, ", %.0f s to go", elapsed * (1 - share) / share);
  } else if (elapsed >= 1) {
    fprintf(stderr, ", %.0f s so far", elapsed);
  }
}

void kvl_cmd_progress_end(const struct kvl_cmd_progress *p)
{
  if (p->any) {
    fprintf(stderr, "\r\033[K");
  }
}
