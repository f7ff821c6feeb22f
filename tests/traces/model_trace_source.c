/* Replaying a trace file, against an oracle that reads the file through the reader and follows traces/selection.h word by word with plain arrays.
 * The seed is printed; another is taken from argv[1]. */
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "trace_make.h"
#include "traces/trace_format.h"

enum { SESSIONS = 5, ROWS_MAX = 8192, STEPS_MAX = 64, REQUESTS = 1024, THREADS = 4 };

static int failures;

static void complain(const char *what, uint64_t session, uint32_t step)
{
  printf("request %" PRIu64 ", step %u: %s\n", session, step, what);
  failures++;
}

struct oracle {
  struct kvl_trace *trace;
  uint32_t session, steps, tokens[STEPS_MAX], cursor, first_tokens;
  int64_t ahead, first_ahead;
  bool begun;
};

static void oracle_start(struct oracle *o, uint64_t seed, uint64_t request)
{
  struct kvl_rng rng;
  struct kvl_trace_step step;
  kvl_rng_init(&rng, seed, "trace offset", request);
  o->session = (uint32_t)(request % SESSIONS);
  o->steps = kvl_trace_session_of(o->trace, o->session)->steps;
  o->cursor = kvl_rng_below(&rng, o->steps);
  o->begun = false;
  kvl_trace_seek(o->trace, o->session, 0, NULL);
  for (uint32_t s = 0; s < o->steps; s++) {
    kvl_trace_next(o->trace, &step, NULL, NULL, NULL);
    o->tokens[s] = step.tokens;
  }
}

static void oracle_step(struct oracle *o, uint32_t tokens)
{
  if (!o->begun) {
    o->ahead = (int64_t)tokens - o->tokens[o->cursor];
    o->first_ahead = o->ahead;
    o->first_tokens = tokens;
    o->begun = true;
  }
  while (o->cursor + 1 < o->steps && o->tokens[o->cursor + 1] + o->ahead <= (int64_t)tokens)
    o->cursor++;
  if (o->cursor + 1 == o->steps && o->tokens[o->cursor] + o->ahead < (int64_t)tokens) {
    o->cursor = 0;
    o->ahead = (int64_t)tokens - o->tokens[0];
  }
}

static int64_t oracle_move(const struct oracle *o, int32_t row, uint32_t per_row, uint32_t tokens)
{
  int64_t ahead = (uint64_t)row < (tokens < 4096 ? 0 : (tokens - 4096) / per_row) ? o->first_ahead : o->ahead;
  int64_t shift = ahead >= 0 ? ahead / per_row : -((-ahead + per_row - 1) / per_row);
  return row < 4 ? row : row + shift;
}

static uint32_t oracle_rows(struct oracle *o, uint32_t tokens, uint32_t point, uint32_t query, int32_t *out)
{
  const struct kvl_trace_meta *meta = kvl_trace_meta_of(o->trace);
  uint32_t per_row = meta->shape.tokens_per_row[meta->shape.point[point].cache], there = tokens / per_row, k = meta->shape.point[point].k;
  uint32_t wanted = k < there ? k : there, from = o->cursor, q, count, begin = there > 4 ? 4 : 0, first = o->first_tokens / per_row, span;
  bool taken[ROWS_MAX] = {false};
  struct kvl_trace_step step;

  if (wanted == there) {
    for (uint32_t i = 0; i < there; i++)
      out[i] = (int32_t)i;
    return there;
  }
  kvl_trace_seek(o->trace, o->session, from, NULL);
  kvl_trace_next(o->trace, &step, NULL, NULL, NULL);
  q = query;
  if (query >= step.queries) {
    while (from + 1 < o->steps && o->tokens[from + 1] + o->ahead <= (int64_t)tokens + query)
      from++;
    kvl_trace_seek(o->trace, o->session, from, NULL);
    kvl_trace_next(o->trace, &step, NULL, NULL, NULL);
    q = 0;
  }
  const struct kvl_trace_list *list = &step.selected[point * step.queries + q];
  count = list->count < wanted ? list->count : wanted;
  span = first > begin ? first - begin : 1;
  while (2 * span <= there - begin)
    span *= 2;
  for (uint32_t i = 0; i < count; i++) {
    int64_t row = oracle_move(o, list->item[i], per_row, step.tokens);
    out[i] = -1;
    if (row < there && (list->item[i] < 4 || row >= begin) && !taken[row]) {
      taken[row] = true;
      out[i] = (int32_t)row;
    }
  }
  for (uint32_t i = 0; i < wanted; i++) {
    int64_t row = i < count ? oracle_move(o, list->item[i], per_row, step.tokens) : there;
    uint32_t place;
    bool room = false;
    if (i < count && out[i] >= 0)
      continue;
    for (uint32_t r = begin; r < there; r++)
      room = room || !taken[r];
    if (row < there && room) {
      place = begin + (uint32_t)(((row - begin) % span + span) % span);
      while (taken[place])
        place = place + 1 == there ? begin : place + 1;
    } else {
      place = there - 1;
      while (taken[place])
        place--;
    }
    taken[place] = true;
    out[i] = (int32_t)place;
  }
  return wanted;
}

static uint64_t hash_rows(uint64_t hash, const int32_t *rows, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    hash = kvl_rng_mix(hash ^ (uint32_t)rows[i]);
  return kvl_rng_mix(hash ^ count);
}

/* One request of up to 60 steps; its shape depends on (seed, request) only. Returns a hash of all rows; with an oracle, also compares. */
static uint64_t replay(struct kvl_selection_stream *stream, const struct kvl_trace_meta *meta, struct oracle *o, uint64_t seed, uint64_t request)
{
  struct kvl_rng rng;
  uint64_t hash = 0;
  uint32_t tokens, steps;
  kvl_rng_init(&rng, seed, "replay", request);
  tokens = kvl_rng_below(&rng, kvl_rng_below(&rng, 2) ? 900 : 90) + (kvl_rng_below(&rng, 4) == 0 ? kvl_rng_below(&rng, 6000) : 0);
  steps = 1 + kvl_rng_below(&rng, 60);
  kvl_stream_start(stream, request, tokens);
  if (o)
    oracle_start(o, seed, request);
  for (uint32_t s = 0; s < steps; s++) {
    uint32_t queries = kvl_rng_below(&rng, 3) ? 1 : 1 + kvl_rng_below(&rng, 6);
    kvl_stream_step(stream, tokens, queries);
    if (o)
      oracle_step(o, tokens);
    for (uint32_t p = 0; p < meta->shape.points; p++) {
      for (uint32_t q = 0; q < queries; q++) {
        const int32_t *rows;
        uint32_t count = kvl_stream_rows(stream, p, q, &rows);
        hash = hash_rows(hash, rows, count);
        if (o) {
          int32_t expected[64];
          uint32_t n = oracle_rows(o, tokens, p, q, expected);
          if (n != count || (n > 0 && memcmp(rows, expected, n * sizeof(*rows)) != 0))
            complain("the rows are not the oracle's", request, s);
          for (uint32_t i = 0; i < count; i++) {
            for (uint32_t j = 0; j < i; j++) {
              if (rows[i] == rows[j])
                complain("a row is there twice", request, s);
            }
            if (rows[i] < 0 || (uint32_t)rows[i] >= tokens / meta->shape.tokens_per_row[meta->shape.point[p].cache])
              complain("a row lies outside the history", request, s);
          }
        }
      }
    }
    tokens += kvl_rng_below(&rng, 20) == 0 ? kvl_rng_below(&rng, 50) : 1 + kvl_rng_below(&rng, 2);
  }
  return hash;
}

struct worker {
  pthread_t thread;
  struct kvl_selection_source *source;
  const struct kvl_trace_meta *meta;
  uint64_t seed, first, hash[REQUESTS / THREADS];
};

static void *work(void *argument)
{
  struct worker *w = argument;
  struct kvl_selection_stream *stream = kvl_stream_create(w->source, ROWS_MAX, 6);
  for (uint64_t r = 0; stream && r < REQUESTS / THREADS; r++)
    w->hash[r] = replay(stream, w->meta, NULL, w->seed, w->first + r);
  kvl_stream_destroy(stream);
  return NULL;
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261129, hash[REQUESTS];
  struct kvl_trace_meta meta = made_meta(seed, true);
  struct kvl_selection_source *source = NULL;
  struct kvl_selection_stream *stream;
  struct oracle oracle = {0};
  static struct worker worker[THREADS];
  struct kvl_err err = {""};
  char path[256];
  const char *folder = getenv("TMPDIR");

  printf("seed %" PRIu64 "\n", seed);
  snprintf(path, sizeof(path), "%s/kvl-%ld-source.kvt", folder ? folder : "/tmp", (long)getpid());
  if (make_trace(path, &meta, seed, SESSIONS, &err) || kvl_trace_open(&oracle.trace, path, &err) ||
      kvl_source_open_trace(&source, path, &meta.shape, seed, &err)) {
    printf("%s\n", err.text);
    return 1;
  }
  stream = kvl_stream_create(source, ROWS_MAX, 6);
  for (uint64_t r = 0; r < REQUESTS && failures < 10; r++)
    hash[r] = replay(stream, &meta, &oracle, seed, r);
  kvl_stream_destroy(stream);
  kvl_trace_source_cache(source, 0); /* now every chunk goes as soon as nobody reads it */
  if (kvl_trace_source_cached(source) != 0)
    complain("chunks stay though there is no room for them", 0, 0);
  for (unsigned w = 0; w < THREADS; w++) {
    worker[w] = (struct worker){.source = source, .meta = &meta, .seed = seed, .first = REQUESTS / THREADS * w};
    if (pthread_create(&worker[w].thread, NULL, work, &worker[w]))
      return 1;
  }
  for (unsigned w = 0; w < THREADS; w++) {
    pthread_join(worker[w].thread, NULL);
    for (unsigned r = 0; r < REQUESTS / THREADS && failures < 10; r++) {
      if (worker[w].hash[r] != hash[REQUESTS / THREADS * w + r])
        complain("four threads without room give other rows than one thread with", REQUESTS / THREADS * w + r, 0);
    }
  }
  if (kvl_source_status(source, &err))
    complain(err.text, 0, 0);
  if (kvl_trace_source_cached(source) != 0)
    complain("chunks stay after their streams", 0, 0);
  kvl_source_close(source);
  kvl_trace_close(oracle.trace);
  unlink(path);
  printf("%d requests agree%s\n", REQUESTS, failures ? ": no" : "");
  return failures ? 1 : 0;
}
