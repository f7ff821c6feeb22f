/* Record on one plane, replay in another: the same decisions, the same counts, the same summary. Scenarios drawn at random, on a plane whose clock is like a
 * wall clock's (plane_jitter), with real bytes every other time; replayed in the model plane.
 *
 *   model_replay [SEED [RUNS]]   plays other scenarios; the seed of a failing one is printed and plays it alone with RUNS = 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/replaying.h"
#include "tests/sim/tiny.h"

enum { RUNS = 300, TEXT = 16384 };

static uint64_t current;
static const char *note;

/* What happened in all runs together: a test in which nothing happens proves nothing. */
static struct {
  uint64_t runs, interrupted, decisions, populated, given, revoked, kept, timed_out, reordered;
} seen;

static bool fail(const char *what, const char *detail)
{
  printf("seed %llu: %s: %s\n  %s\n", (unsigned long long)current, what, detail, note);
  return false;
}

/* Do two logs hold the same decisions (the calls, without what the planes answered)? */
static bool same_decisions(const char *path, const char *other)
{
  struct kvl_log *log[2] = {NULL, NULL};
  struct kvl_err err;
  bool same = kvl_log_open(&log[0], path, &err) == 0 && kvl_log_open(&log[1], other, &err) == 0;
  size_t cursor[2] = {0, 0}, bytes[2] = {0, 0};
  uint64_t number[2];
  const char *line[2] = {NULL, NULL};
  for (bool more[2] = {same, same}; same && (more[0] || more[1]);) {
    for (int i = 0; i < 2; i++) {
      do {
        more[i] = kvl_log_next(log[i], &cursor[i], &line[i], &bytes[i], &number[i]);
      } while (more[i] && (memcmp(line[i], "idle", 4) == 0 || memcmp(line[i], "done", 4) == 0));
    }
    same = more[0] == more[1] && (!more[0] || (bytes[0] == bytes[1] && memcmp(line[0], line[1], bytes[0]) == 0));
  }
  kvl_log_free(log[0]);
  kvl_log_free(log[1]);
  return same;
}

/* Records `t` under `config`, then replays the log and records that: its events must be those of the log it came from, byte for byte. */
static bool record_and_replay(struct tiny *t, const struct jitter_config *config, const char *path)
{
  static struct tiny_result first, second;
  static char text[2][TEXT], again[600];
  struct jittering j = {.config = *config, .gpus = t->s.node.decode_gpus};
  volatile sig_atomic_t stop = 0;
  struct kvl_err err = {""};
  j.config.stop = &stop;
  t->record = path;
  t->wrap = wrap_jitter;
  t->wrap_context = &j;
  t->stop = &stop;
  int rc = tiny_run(t, &first, &err);
  if (rc != 0) {
    return fail("recording failed", err.text);
  }
  struct kvl_log *log = NULL;
  if (kvl_log_open(&log, path, &err) != 0) {
    return fail("the log cannot be read", err.text);
  }
  struct replaying r = {.log = log, .gpus = t->s.node.decode_gpus};
  bool was_bytes = t->bytes;
  (void)snprintf(again, sizeof again, "%s.again", path);
  t->record = again;
  t->wrap = wrap_replay;
  t->wrap_context = &r;
  t->stop = &r.stop;
  t->bytes = false;
  struct delay_config was = t->delay;
  t->delay.max_ns = 0; /* what is late is in the log */
  rc = tiny_run(t, &second, &err);
  t->bytes = was_bytes;
  t->delay = was;
  bool ok = rc == 0 || fail("the replay failed", err.text);
  ok = ok && (r.report.failed == 0 || fail("the replay ended early", r.report.why.text));
  ok = ok && (r.report.steps_differ == 0 || fail("counts differ", r.report.first_difference));
  ok = ok && (r.report.decisions + r.report.waits == kvl_log_events(log) || fail("events", "not all were compared"));
  tiny_summary_text(&first.engine.summary, text[0], TEXT);
  tiny_summary_text(&second.engine.summary, text[1], TEXT);
  ok = ok && (strcmp(text[0], text[1]) == 0 || fail("the summaries differ", text[1]));
  ok = ok && (first.engine.status == second.engine.status || fail("the status differs", ""));
  ok = ok && (kvl_log_interrupted(log) == (first.engine.status == KVL_RUN_INTERRUPTED) || fail("the log's end", "does not say how the run ended"));
  ok = ok && (first.mismatches == 0 || fail("mismatches", "bytes"));
  if (ok) {
    struct kvl_log *copy = NULL;
    ok = kvl_log_open(&copy, again, &err) == 0 || fail("the log of the replay cannot be read", err.text);
    const char *a, *b;
    size_t at = 0, bt = 0, an, bn;
    uint64_t number, other;
    while (ok && kvl_log_next(log, &at, &a, &an, &number)) {
      ok = kvl_log_next(copy, &bt, &b, &bn, &other) && an == bn && memcmp(a, b, an) == 0;
      ok = ok || fail("the log of the replay differs", "");
    }
    ok = ok && (kvl_log_interrupted(copy) == kvl_log_interrupted(log) || fail("the log of the replay", "ends otherwise"));
    kvl_log_free(copy);
  }
  seen.runs++;
  seen.interrupted += kvl_log_interrupted(log);
  seen.decisions += r.report.decisions;
  seen.populated += first.report.populated;
  seen.given += first.report.given;
  seen.kept += first.report.kept;
  seen.revoked += first.engine.summary.pages_revoked;
  seen.timed_out += t->s.limits.request_timeout_ns != 0 ? first.engine.summary.requests_aborted : 0;
  kvl_log_free(log);
  (void)unlink(again);
  return ok;
}

static struct jitter_config draw_jitter(uint64_t seed)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "how late", 0);
  struct jitter_config c = {.seed = seed};
  c.step_ns = UINT64_C(1) << kvl_rng_below(&rng, 20);
  c.copy_ns = UINT64_C(1) << kvl_rng_below(&rng, 22);
  c.late_ns = kvl_rng_below(&rng, 3) == 0 ? 0 : UINT64_C(1) << kvl_rng_below(&rng, 18);
  c.stop_after = kvl_rng_below(&rng, 8) == 0 ? 1 + kvl_rng_below(&rng, 300) : 0;
  return c;
}

static bool play(uint64_t seed, const char *folder)
{
  static struct tiny t, plain;
  char path[512];
  current = seed;
  note = t.note;
  tiny_random(&t, seed, folder);
  t.bytes = seed % 2 == 0;
  t.verify = seed % 5 == 0;
  struct jitter_config config = draw_jitter(seed);
  (void)snprintf(path, sizeof path, "%s/%llu.log", folder, (unsigned long long)seed);
  bool ok = record_and_replay(&t, &config, path);
  /* The jitter must matter: what is decided without it is something else. */
  char undisturbed[540];
  static struct tiny_result r;
  struct kvl_err err;
  (void)snprintf(undisturbed, sizeof undisturbed, "%s.plain", path);
  plain = t;
  plain.wrap = NULL;
  plain.record = undisturbed;
  plain.stop = NULL;
  ok = ok && (tiny_run(&plain, &r, &err) == 0 || fail("the undisturbed run failed", err.text));
  seen.reordered += ok && !same_decisions(path, undisturbed);
  (void)unlink(path);
  (void)unlink(undisturbed);
  if (t.s.workload.kind == KVL_WORK_FILE) {
    (void)unlink(t.s.workload.path);
  }
  return ok;
}

static bool enough(void)
{
  printf("%llu runs, %llu of them interrupted, %llu decided otherwise than undisturbed: %llu decisions; pages: %llu populated, %llu given back, %llu kept, %llu revoked; "
         "%llu requests timed out\n", (unsigned long long)seen.runs, (unsigned long long)seen.interrupted, (unsigned long long)seen.reordered,
         (unsigned long long)seen.decisions, (unsigned long long)seen.populated, (unsigned long long)seen.given, (unsigned long long)seen.kept,
         (unsigned long long)seen.revoked, (unsigned long long)seen.timed_out);
  return seen.interrupted != 0 && seen.populated != 0 && seen.given != 0 && seen.kept != 0 && seen.revoked != 0 && seen.timed_out != 0 &&
         3 * seen.reordered > seen.runs;
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint32_t runs = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : RUNS, failed = 0;
  char folder[] = "/tmp/kvl-replay-XXXXXX";
  if (mkdtemp(folder) == NULL) {
    perror("mkdtemp");
    return 1;
  }
  printf("seed %llu, %u scenarios\n", (unsigned long long)seed, runs);
  (void)fflush(stdout);
  for (uint32_t i = 0; i < runs; i++) {
    failed += !play(seed + i, folder);
  }
  (void)rmdir(folder);
  bool lively = enough() || runs < RUNS;
  printf("%u of %u failed%s\n", failed, runs, lively ? "" : "; and too little happened in them");
  return failed != 0 || !lively;
}
