#include "results/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = KVL_TIMELINE_BINS, GPUS_MAX = 4096 };

/* What the picture needs of a sample. */
struct moment {
  uint64_t time_ns, order;
  uint32_t gpu, batch, waiting;
  double frames[4]; /* reserved, lent, retiring, free */
  double resident_share;
  uint64_t stall_ns[KVL_STALLS], lanes[KVL_REPORT_TIERS];
};

struct moments {
  struct moment *item;
  size_t count, capacity;
  uint32_t gpus;
};

static int add_moment(struct moments *m, const struct moment *moment)
{
  if (m->count == m->capacity) {
    size_t capacity = m->capacity == 0 ? 4096 : m->capacity * 2;
    struct moment *item = realloc(m->item, capacity * sizeof *item);
    if (item == NULL) {
      return -ENOMEM;
    }
    m->item = item;
    m->capacity = capacity;
  }
  m->item[m->count] = *moment;
  m->item[m->count].order = m->count;
  m->count++;
  return 0;
}

static int collect(void *context, const struct kvl_step_sample *s)
{
  struct moments *m = context;
  if (s->gpu >= GPUS_MAX) {
    return -ERANGE;
  }
  m->gpus = s->gpu >= m->gpus ? s->gpu + 1 : m->gpus;
  struct moment moment = {s->time_ns, 0, s->gpu, s->batch, s->waiting,
                          {s->frames_reserved, s->frames_lent, s->frames_retiring, s->frames_free}, s->resident_share, {0}, {0}};
  memcpy(moment.stall_ns, s->stall_ns, sizeof moment.stall_ns);
  memcpy(moment.lanes, s->lanes, sizeof moment.lanes);
  return add_moment(m, &moment);
}

static int by_time(const void *a, const void *b)
{
  const struct moment *x = a, *y = b;
  int order = (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
  return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

/* Where bin b ends. Integers: with doubles, an edge can round to the wrong side of itself. */
static uint64_t edge_ns(const struct kvl_timeline *line, uint32_t b)
{
  return b + 1 < BINS ? line->end_ns / BINS * (b + 1) + line->end_ns % BINS * (b + 1) / BINS : UINT64_MAX;
}

/* Adds what all GPUs show between two times, cut at the edges of bins. */
static void add_span(struct kvl_timeline *line, const double now[KVL_LINES], uint64_t from_ns, uint64_t to_ns)
{
  while (from_ns < to_ns) {
    while (line->at < BINS - 1 && edge_ns(line, line->at) <= from_ns) { /* spans come in the order of time */
      line->at++;
    }
    uint64_t edge = edge_ns(line, line->at), end = edge < to_ns ? edge : to_ns;
    for (int s = 0; s < KVL_LINES; s++) {
      line->bin[line->at][s] += now[s] * (double)(end - from_ns);
    }
    from_ns = end;
  }
}

/* A step's causes and look-ups go to the bin in which it ended. */
static void add_step(struct kvl_timeline *line, const struct moment *m)
{
  uint32_t b = (uint32_t)((double)m->time_ns / (double)line->end_ns * BINS);
  b = b < BINS ? b : BINS - 1;
  for (int s = 0; s < KVL_STALLS; s++) {
    line->stall_ns[b][s] += (double)m->stall_ns[s];
  }
  for (int t = 0; t < KVL_REPORT_TIERS; t++) {
    line->lanes[b][t] += (double)m->lanes[t];
  }
}

static void sum_gpus(const struct moment *last, const unsigned char *seen, uint32_t gpus, double now[KVL_LINES])
{
  memset(now, 0, KVL_LINES * sizeof now[0]);
  now[KVL_LINE_TIME] = 1.0;
  for (uint32_t g = 0; g < gpus; g++) {
    if (seen[g]) {
      now[KVL_LINE_BATCH] += last[g].batch;
      for (int f = 0; f < 4; f++) {
        now[KVL_LINE_RESERVED + f] += last[g].frames[f];
      }
      now[KVL_LINE_RESIDENT] += last[g].resident_share * last[g].batch;
    }
  }
}

static int by_size(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* A GPU without requests makes no steps, so no samples: where its next sample is IDLE_GAPS times later than they usually follow one another, it has
 * been idle in between (or to the end of the run), and its last sample must not stand for that time. Items are in order of time. */
static int add_idle(struct moments *m)
{
  enum { IDLE_GAPS = 8 };
  size_t count = m->count;
  uint64_t end_ns = m->item[count - 1].time_ns;
  uint64_t *gap = malloc((count + 1) * sizeof *gap);
  int rc = gap == NULL ? -ENOMEM : 0;
  for (uint32_t g = 0; rc == 0 && g < m->gpus; g++) {
    size_t gaps = 0, before = count;
    for (size_t i = 0; i < count; i++) {
      if (m->item[i].gpu == g) {
        if (before != count) {
          gap[gaps++] = m->item[i].time_ns - m->item[before].time_ns;
        }
        before = i;
      }
    }
    if (gaps < 2) {
      continue; /* too few samples to say what is usual */
    }
    qsort(gap, gaps, sizeof *gap, by_size);
    uint64_t usual = gap[gaps / 2];
    before = count;
    for (size_t i = 0; rc == 0 && i <= count; i++) {
      if (i < count && m->item[i].gpu != g) {
        continue;
      }
      uint64_t at = i < count ? m->item[i].time_ns : end_ns;
      if (before != count && at - m->item[before].time_ns > IDLE_GAPS * (usual + 1)) {
        struct moment idle = m->item[before];
        double frames = idle.frames[0] + idle.frames[1] + idle.frames[2] + idle.frames[3];
        idle.time_ns += usual + 1;
        memset(idle.stall_ns, 0, sizeof idle.stall_ns);
        memset(idle.lanes, 0, sizeof idle.lanes);
        idle.batch = 0;
        idle.frames[0] = idle.frames[1] = idle.frames[2] = 0;
        idle.frames[3] = frames;
        rc = add_moment(m, &idle);
      }
      before = i;
    }
  }
  free(gap);
  return rc;
}

double kvl_timeline_frames(const double sums[KVL_LINES])
{
  double frames = sums[KVL_LINE_RESERVED] + sums[KVL_LINE_LENT] + sums[KVL_LINE_RETIRING] + sums[KVL_LINE_FREE];
  return frames > 0.0 ? frames : 1.0;
}

static int build(struct kvl_timeline *line, struct moments *m)
{
  struct moment *last = calloc(m->gpus, sizeof *last);
  unsigned char *seen = calloc(m->gpus, 1);
  if (last == NULL || seen == NULL) {
    free(last);
    free(seen);
    return -ENOMEM;
  }
  qsort(m->item, m->count, sizeof *m->item, by_time);
  if (add_idle(m) != 0) {
    free(last);
    free(seen);
    return -ENOMEM;
  }
  qsort(m->item, m->count, sizeof *m->item, by_time);
  uint64_t last_ns = m->item[m->count - 1].time_ns;
  line->end_ns = last_ns > 0 ? last_ns : 1000000000; /* one sample at time 0 is drawn as a second */
  double now[KVL_LINES] = {0};
  for (size_t i = 0; i < m->count; i++) {
    const struct moment *s = &m->item[i];
    if (i > 0) {
      add_span(line, now, m->item[i - 1].time_ns, s->time_ns);
    }
    add_step(line, s);
    last[s->gpu] = *s;
    seen[s->gpu] = 1;
    sum_gpus(last, seen, m->gpus, now);
    now[KVL_LINE_WAITING] = s->waiting; /* one number for all GPUs */
    double lent = 100.0 * now[KVL_LINE_LENT] / kvl_timeline_frames(now);
    line->waiting_max = now[KVL_LINE_WAITING] > line->waiting_max ? now[KVL_LINE_WAITING] : line->waiting_max;
    double retiring = 100.0 * now[KVL_LINE_RETIRING] / kvl_timeline_frames(now);
    line->retiring_max = retiring > line->retiring_max ? retiring : line->retiring_max;
    line->lent_max = lent > line->lent_max ? lent : line->lent_max;
    if (now[KVL_LINE_BATCH] >= line->batch_max) { /* at the fullest moment; of equal ones the last */
      line->batch_max = now[KVL_LINE_BATCH];
      line->lent_at_full = lent;
    }
  }
  add_span(line, now, last_ns, last_ns > 0 ? last_ns + 1 : line->end_ns);
  free(last);
  free(seen);
  return 0;
}

int kvl_timeline_read(struct kvl_timeline *line, struct kvl_store *store, int64_t run, struct kvl_err *err)
{
  struct moments moments = {NULL, 0, 0, 0};
  memset(line, 0, sizeof *line);
  int code = kvl_store_each_sample(store, run, collect, &moments, err);
  if (code == 0 && moments.count == 0) {
    code = kvl_err_set(err, -EINVAL, "run %lld has no time line", (long long)run);
  } else if (code == 0) {
    code = build(line, &moments);
  }
  line->gpus = moments.gpus;
  free(moments.item);
  if (code == -ENOMEM || code == -ERANGE) {
    (void)kvl_err_set(err, code, code == -ENOMEM ? "run %lld: out of memory" : "run %lld: too many decode GPUs", (long long)run);
  }
  return code;
}
