/* How fast traces/ reads and writes: workload files, the prefix store, trace files and their replay. Prints; judges nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/rng.h"
#include "traces/trace.h"
#include "traces/workload.h"

enum { POINTS = 8, K = 512, ROWS = 250000, STEPS = 800, SESSIONS = 4 };

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show(const char *what, double count, const char *unit, double seconds)
{
  printf("%-34s %10.3f million %-9s in %7.3f s  %9.2f million/s\n", what, count / 1e6, unit, seconds, count / seconds / 1e6);
}

static int stop(const struct kvl_err *err)
{
  printf("%s\n", err->text);
  return 1;
}

static int bench_workload(const char *path)
{
  struct kvl_workload_file *file;
  struct kvl_workload_extent extent = {0};
  struct kvl_prefix_store *store = kvl_prefix_store_create(1000000);
  struct kvl_request_spec spec;
  struct kvl_err err = {""};
  uint64_t requests = 0, blocks = 0;
  double start = now();
  if (!store || kvl_workload_open(&file, path, "auto", &err))
    return stop(&err);
  for (unsigned n = 0; n < 20; n++) {
    if (kvl_workload_extent(file, &extent, &err))
      return stop(&err);
    requests += extent.requests;
  }
  show(strrchr(path, '/') + 1, (double)requests, "requests", now() - start);
  start = now();
  while (kvl_workload_next(file, &spec, &err) == 1) {
    kvl_prefix_store_use(store, spec.block, spec.block_count);
    blocks += spec.block_count;
  }
  show("  the same through a prefix store", (double)blocks, "blocks", now() - start);
  kvl_prefix_store_destroy(store);
  kvl_workload_close(file);
  return 0;
}

/* Selections of which 30 % change a step. */
static int write_trace(const char *path, struct kvl_trace_meta *meta)
{
  static unsigned char member[ROWS + STEPS];
  static int32_t row[POINTS][K];
  struct kvl_trace_list list[POINTS];
  struct kvl_trace_step step = {.queries = 1, .selected = list};
  struct kvl_trace_writer *writer;
  struct kvl_rng rng;
  struct kvl_err err = {""};
  uint32_t id;
  double writing = 0;
  kvl_rng_init(&rng, 1, "bench", 0);
  if (kvl_trace_writer_create(&writer, path, meta, &err))
    return stop(&err);
  for (uint32_t s = 0; s < SESSIONS; s++) {
    if (kvl_trace_writer_begin(writer, ROWS, &id, &err))
      return stop(&err);
    memset(row, 0, sizeof(row));
    for (uint32_t t = 0; t < STEPS; t++) {
      for (uint32_t p = 0; p < POINTS; p++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < K; i++) {
          uint32_t r = t > 0 && kvl_rng_below(&rng, 10) < 7 ? (uint32_t)row[p][i] : kvl_rng_below(&rng, ROWS);
          while (member[r])
            r = kvl_rng_below(&rng, ROWS);
          member[r] = 1;
          row[p][i] = (int32_t)r;
        }
        for (uint32_t r = 0; r < ROWS && count < K; r++) {
          if (member[r]) {
            member[r] = 0;
            row[p][count++] = (int32_t)r;
          }
        }
        list[p] = (struct kvl_trace_list){row[p], K};
      }
      step.tokens = ROWS + t;
      double start = now();
      if (kvl_trace_writer_step(writer, id, &step, &err))
        return stop(&err);
      writing += now() - start;
    }
  }
  double start = now();
  if (kvl_trace_writer_finish(writer, &err))
    return stop(&err);
  show("trace, written", (double)SESSIONS * STEPS * POINTS * K, "rows", writing + now() - start);
  return 0;
}

static int bench_trace(const char *path)
{
  static struct kvl_trace_meta meta;
  struct kvl_trace *trace;
  struct kvl_trace_totals totals;
  struct kvl_selection_source *source;
  struct kvl_selection_stream *stream;
  struct kvl_err err = {""};
  uint64_t rows = 0, sum = 0;
  double start;
  meta.shape.caches = 1;
  meta.shape.tokens_per_row[0] = 1;
  meta.shape.points = POINTS;
  for (uint16_t p = 0; p < POINTS; p++)
    meta.shape.point[p] = (struct kvl_selection_point){.cache = 0, .layer = p, .k = K};
  if (write_trace(path, &meta))
    return 1;
  start = now();
  if (kvl_trace_open(&trace, path, &err) || kvl_trace_check(trace, NULL, &err))
    return stop(&err);
  kvl_trace_totals_of(trace, &totals);
  show("trace, read and verified", (double)totals.items, "rows", now() - start);
  printf("%-34s %10.3f bytes a row\n", "trace, on disk", (double)totals.file_bytes / (double)totals.items);
  kvl_trace_close(trace);
  if (kvl_source_open_trace(&source, path, &meta.shape, 1, &err))
    return stop(&err);
  stream = kvl_stream_create(source, 2 * ROWS, 1);
  if (!stream)
    return 1;
  start = now();
  for (uint64_t request = 0; request < 32; request++) {
    kvl_stream_start(stream, request, ROWS + 5000);
    for (uint32_t t = 0; t < STEPS; t++) {
      kvl_stream_step(stream, ROWS + 5000 + t, 1);
      for (uint32_t p = 0; p < POINTS; p++) {
        const int32_t *row;
        uint32_t count = kvl_stream_rows(stream, p, 0, &row);
        rows += count;
        sum += (uint64_t)row[count - 1];
      }
    }
  }
  show("trace, replayed", (double)rows, "rows", now() - start);
  kvl_stream_destroy(stream);
  kvl_source_close(source);
  return sum == 0;
}

int main(int argc, char **argv)
{
  char path[256];
  const char *folder = getenv("TMPDIR");
  int code = 0;
  snprintf(path, sizeof(path), "%s/kvl-%ld-bench.kvt", folder ? folder : "/tmp", (long)getpid());
  for (int i = 1; i < argc; i++)
    code |= bench_workload(argv[i]);
  code |= bench_trace(path);
  unlink(path);
  return code;
}
