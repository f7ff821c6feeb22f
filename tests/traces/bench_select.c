/* Speed of generated selections in the published adaptive setting: DeepSeek-V4.1-Flash, sessions of 500,000 tokens, 16 streams in turn.
 *
 *     bench_select [PRESET [STREAMS [STEPS]]]
 *
 * A drawn position is a row some process selects in a step (2,304 a step); a lane is a row a selection returns (4,096 a step). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "traces/selection.h"

static double cpu_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
  enum { TOKENS = 500000, STREAMS_MAX = 1024 };
  const char *preset = argc > 1 ? argv[1] : "hot-a";
  uint32_t streams = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 16, steps = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 400;
  static const uint16_t layer[8] = {2, 8, 14, 20, 24, 28, 32, 36}, cache[8] = {0, 1, 2, 3, 3, 3, 3, 3};
  struct kvl_selection_shape shape = {.caches = 4, .tokens_per_row = {2, 2, 2, 1}, .points = 8};
  for (uint32_t i = 0; i < 8; i++) {
    shape.point[i] = (struct kvl_selection_point){.cache = cache[i], .layer = layer[i], .k = 512};
  }
  struct kvl_selection_source *source;
  struct kvl_err err;
  static struct kvl_selection_stream *stream[STREAMS_MAX];
  if (streams < 1 || streams > STREAMS_MAX || kvl_source_open_preset(&source, preset, &shape, 1, &err) != 0) {
    fprintf(stderr, "usage: bench_select [hot-a|hot-b|cold-a|cold-b [STREAMS up to %d [STEPS]]]\n", STREAMS_MAX);
    return 2;
  }
  for (uint32_t i = 0; i < streams; i++) {
    stream[i] = kvl_stream_create(source, TOKENS + steps, 1);
    if (stream[i] == NULL) {
      fprintf(stderr, "bench_select: no memory\n");
      return 1;
    }
  }
  uint64_t sum = 0, lanes = 0;
  double begin = cpu_s();
  for (uint32_t i = 0; i < streams; i++) {
    kvl_stream_start(stream[i], i, TOKENS);
    kvl_stream_step(stream[i], TOKENS + 1, 1);
  }
  double started = cpu_s();
  for (uint32_t step = 1; step < steps; step++) {
    for (uint32_t i = 0; i < streams; i++) {
      kvl_stream_step(stream[i], TOKENS + 1 + step, 1);
      for (uint32_t point = 0; point < 8; point++) {
        const int32_t *rows;
        uint32_t n = kvl_stream_rows(stream[i], point, 0, &rows);
        lanes += n;
        sum += (uint64_t)rows[0] + (uint64_t)rows[n - 1];
      }
    }
  }
  double spent = cpu_s() - started, drawn = 2304. * (steps - 1) * streams;
  printf("preset\tstreams\tsteps\tstart_us\tns_per_position\tns_per_lane\tchecksum\n");
  printf("%s\t%u\t%u\t%.1f\t%.2f\t%.2f\t%llu\n", preset, streams, steps, 1e6 * (started - begin) / streams, 1e9 * spent / drawn,
         1e9 * spent / (double)lanes, (unsigned long long)sum);
  for (uint32_t i = 0; i < streams; i++) {
    kvl_stream_destroy(stream[i]);
  }
  kvl_source_close(source);
  return 0;
}
