/* Picture: one run over time. Samples of all decode GPUs become one time line of averages. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/text.h"

enum { BINS = 600, GPUS_MAX = 4096 };

/* What the picture needs of a sample. */
struct moment {
  uint64_t time_ns, order;
  uint32_t gpu, batch, waiting;
  double frames[4]; /* reserved, lent, retiring, free */
  double resident_share;
};

struct moments {
  struct moment *item;
  size_t count, capacity;
  uint32_t gpus;
};

enum { SUM_BATCH, SUM_WAITING, SUM_RESERVED, SUM_LENT, SUM_RETIRING, SUM_FREE, SUM_RESIDENT, SUM_TIME, SUMS };

struct timeline {
  double bin[BINS][SUMS]; /* times nanoseconds */
  uint64_t end_ns;
  uint32_t at;
  double batch_max, waiting_max, lent_max, lent_at_full, retiring_max; /* lent, retiring: percent of HBM */
  const char *label;
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
                          {s->frames_reserved, s->frames_lent, s->frames_retiring, s->frames_free}, s->resident_share};
  return add_moment(m, &moment);
}

static int by_time(const void *a, const void *b)
{
  const struct moment *x = a, *y = b;
  int order = (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
  return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

/* Where bin b ends. Integers: with doubles, an edge can round to the wrong side of itself. */
static uint64_t edge_ns(const struct timeline *line, uint32_t b)
{
  return b + 1 < BINS ? line->end_ns / BINS * (b + 1) + line->end_ns % BINS * (b + 1) / BINS : UINT64_MAX;
}

/* Adds what all GPUs show between two times, cut at the edges of bins. */
static void add_span(struct timeline *line, const double now[SUMS], uint64_t from_ns, uint64_t to_ns)
{
  while (from_ns < to_ns) {
    while (line->at < BINS - 1 && edge_ns(line, line->at) <= from_ns) { /* spans come in the order of time */
      line->at++;
    }
    uint64_t edge = edge_ns(line, line->at), end = edge < to_ns ? edge : to_ns;
    for (int s = 0; s < SUMS; s++) {
      line->bin[line->at][s] += now[s] * (double)(end - from_ns);
    }
    from_ns = end;
  }
}

static void sum_gpus(const struct moment *last, const unsigned char *seen, uint32_t gpus, double now[SUMS])
{
  memset(now, 0, SUMS * sizeof now[0]);
  now[SUM_TIME] = 1.0;
  for (uint32_t g = 0; g < gpus; g++) {
    if (seen[g]) {
      now[SUM_BATCH] += last[g].batch;
      for (int f = 0; f < 4; f++) {
        now[SUM_RESERVED + f] += last[g].frames[f];
      }
      now[SUM_RESIDENT] += last[g].resident_share * last[g].batch;
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

static double frames_of(const double *sums)
{
  double frames = sums[SUM_RESERVED] + sums[SUM_LENT] + sums[SUM_RETIRING] + sums[SUM_FREE];
  return frames > 0.0 ? frames : 1.0;
}

static int build(struct timeline *line, struct moments *m)
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
  double now[SUMS] = {0};
  for (size_t i = 0; i < m->count; i++) {
    const struct moment *s = &m->item[i];
    if (i > 0) {
      add_span(line, now, m->item[i - 1].time_ns, s->time_ns);
    }
    last[s->gpu] = *s;
    seen[s->gpu] = 1;
    sum_gpus(last, seen, m->gpus, now);
    now[SUM_WAITING] = s->waiting; /* one number for all GPUs */
    double lent = 100.0 * now[SUM_LENT] / frames_of(now);
    line->waiting_max = now[SUM_WAITING] > line->waiting_max ? now[SUM_WAITING] : line->waiting_max;
    double retiring = 100.0 * now[SUM_RETIRING] / frames_of(now);
    line->retiring_max = retiring > line->retiring_max ? retiring : line->retiring_max;
    line->lent_max = lent > line->lent_max ? lent : line->lent_max;
    if (now[SUM_BATCH] >= line->batch_max) { /* at the fullest moment; of equal ones the last */
      line->batch_max = now[SUM_BATCH];
      line->lent_at_full = lent;
    }
  }
  add_span(line, now, last_ns, last_ns > 0 ? last_ns + 1 : line->end_ns);
  free(last);
  free(seen);
  return 0;
}

static void write_numbers(FILE *out, const struct timeline *line)
{
  (void)fputs("time_s\tdecode_batch\twaiting\thbm_reserved_percent\thbm_lent_percent\thbm_retiring_percent\thbm_free_percent\t"
              "history_in_hbm_percent\n", out);
  for (uint32_t b = 0; b < BINS; b++) {
    const double *s = line->bin[b];
    if (!(s[SUM_TIME] > 0.0)) {
      continue;
    }
    double frames = frames_of(s);
    (void)fprintf(out, "%.6f\t%.3f\t%.3f\t%.4f\t%.4f\t%.4f\t%.4f\t", (b + 0.5) * (double)line->end_ns / 1e9 / BINS, s[SUM_BATCH] / s[SUM_TIME],
                  s[SUM_WAITING] / s[SUM_TIME], 100.0 * s[SUM_RESERVED] / frames, 100.0 * s[SUM_LENT] / frames, 100.0 * s[SUM_RETIRING] / frames,
                  100.0 * s[SUM_FREE] / frames);
    if (s[SUM_BATCH] > 0.0) {
      (void)fprintf(out, "%.4f", 100.0 * s[SUM_RESIDENT] / s[SUM_BATCH]);
    }
    (void)fputc('\n', out);
  }
}

static void write_script(FILE *script, const char *numbers, const void *context)
{
  const struct timeline *line = context;
  char message[192], title[384], number[KVL_TEXT_NUMBER_MAX];
  int used = snprintf(message, sizeof message, ": batch up to %s", kvl_text_human(number, line->batch_max, 1));
  if (line->waiting_max > 0.0) {
    used += snprintf(message + used, sizeof message - (size_t)used, ", %s wait", kvl_text_human(number, line->waiting_max, 1));
  }
  if (line->lent_max >= 0.05) {
    used += snprintf(message + used, sizeof message - (size_t)used, "; lent HBM from %.0f %% to %.0f %%", line->lent_max, line->lent_at_full);
  }
  int room = KVL_PLOT_TITLE_MAX - used;
  (void)snprintf(title, sizeof title, "%.*s%s", room > 0 ? room : 0, line->label, message);
  (void)fputs("set multiplot\nset lmargin at screen 0.09\nset rmargin at screen 0.79\n"
              "set key at screen 0.80, graph 1.02 left top Left reverse vertical\n"
              "set yrange [0:*]\nset offsets 0, 0, graph 0.05, 0\n", script);
  (void)fprintf(script, "set xrange [0:%.9g]\n", (double)line->end_ns / 1e9);
  (void)fputs("set label 1 ", script);
  kvl_plot_quote(script, title);
  (void)fputs(" at screen 0.01, screen 0.965 left font ',14'\n", script);
  (void)fputs("set tmargin at screen 0.90\nset bmargin at screen 0.56\nset ylabel 'requests'\nset format x ''\nplot ", script);
  kvl_plot_quote_path(script, numbers);
  (void)fputs(" skip 1 using 1:2 with lines linewidth 2.2 linecolor rgb '#0072B2' title 'decoding', "
              "'' skip 1 using 1:3 with lines linewidth 1.6 dashtype 2 linecolor rgb '#D55E00' title 'waiting'\n"
              "unset label 1\nset tmargin at screen 0.50\nset bmargin at screen 0.115\nset format x '%g'\nset xlabel 'simulated time, s' offset 0,0.4\n"
              "unset offsets\nset yrange [0:103]\nset ytics 0, 20, 100\nset ylabel 'share, %'\nset style fill solid 1.0 noborder\nset grid front\nplot ", script);
  kvl_plot_quote_path(script, numbers);
  (void)fputs(" skip 1 using 1:(0):4 with filledcurves linecolor rgb '#9ecae1' title 'HBM: reserved'", script);
  if (line->lent_max > 0.0) {
    (void)fputs(", '' skip 1 using 1:4:($4+$5) with filledcurves linecolor rgb '#009E73' title 'HBM: lent pages'", script);
  }
  if (line->retiring_max > 0.0) {
    (void)fputs(", '' skip 1 using 1:($4+$5):($4+$5+$6) with filledcurves linecolor rgb '#D55E00' title 'HBM: retiring'", script);
  }
  (void)fputs(", '' skip 1 using 1:($4+$5+$6):(100) with filledcurves linecolor rgb '#eeeeee' title 'HBM: free', "
              "'' skip 1 using 1:8 with lines linewidth 2.4 linecolor rgb '#000000' title 'history in HBM'\nunset multiplot\n", script);
}

int kvl_plot_timeline(const struct kvl_plot *plot, struct kvl_store *store, const struct kvl_stored_run *run, const char *label,
                      struct kvl_err *err)
{
  struct moments moments = {NULL, 0, 0, 0};
  struct timeline *line = calloc(1, sizeof *line);
  struct kvl_plot_numbers numbers;
  int code = line == NULL ? -ENOMEM : kvl_store_each_sample(store, run->id, collect, &moments, err);
  if (code == 0 && moments.count == 0) {
    code = kvl_err_set(err, -EINVAL, "run %lld has no time line to draw", (long long)run->id);
  } else if (code == 0) {
    code = build(line, &moments);
  }
  free(moments.item);
  if (code == -ENOMEM || code == -ERANGE) {
    (void)kvl_err_set(err, code, code == -ENOMEM ? "cannot draw run %lld: out of memory" : "cannot draw run %lld: too many decode GPUs",
                      (long long)run->id);
  }
  if (code == 0) {
    line->label = label;
    code = kvl_plot_numbers_begin(&numbers, plot, err);
    if (code == 0) {
      write_numbers(numbers.file, line);
      code = kvl_plot_numbers_finish(&numbers, 0, err);
      code = code != 0 ? code : kvl_plot_draw(plot, 900, 560, numbers.path, write_script, line, err);
      kvl_plot_numbers_free(&numbers);
    }
  }
  free(line);
  return code;
}
