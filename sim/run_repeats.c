#include "results/text.h"
#include "sim/run_repeats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/repeats.h"
#include "sim/design_run.h"
#include "sim/trace_note.h"

int kvl_repeats_count(const char *subcommand, const char *word, uint32_t *repeats)
{
  char *end = NULL;
  unsigned long n = word[0] >= '0' && word[0] <= '9' ? strtoul(word, &end, 10) : 0;
  if (n < 1 || n > KVL_SWEEP_REPEATS_MAX || *end != '\0') {
    fprintf(stderr, "kvloan %s: --repeats=%s: not a number from 1 to %d\n", subcommand, word, (int)KVL_SWEEP_REPEATS_MAX);
    return -1;
  }
  *repeats = (uint32_t)n;
  return 0;
}

int kvl_repeats_confidence(const char *subcommand, const char *word, double *confidence)
{
  char *end = NULL;
  double percent = word[0] >= '0' && word[0] <= '9' ? strtod(word, &end) : 0.0;
  end = end != NULL && *end == '%' ? end + 1 : end;
  if (!(percent > 0.0 && percent < 100.0) || *end != '\0') {
    fprintf(stderr, "kvloan %s: --confidence=%s: not a percentage above 0 and below 100 (nearest: --confidence=95)\n", subcommand, word);
    return -1;
  }
  *confidence = percent / 100.0;
  return 0;
}

void kvl_repeats_share(uint32_t threads, uint32_t runs, uint32_t *jobs, uint32_t *each)
{
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t all = threads != 0 ? threads : cores < 1 ? 1 : (uint32_t)cores;
  *jobs = all < runs ? all : runs;
  *jobs = *jobs < 1 ? 1 : *jobs;
  *each = all / *jobs;
}

static void tell(const struct kvl_run_repeats *c, const struct kvl_design_cell *cell, int64_t sweep)
{
  char note[512];
  const struct kvl_summary *s = &cell[0].summary;
  if (kvl_trace_note(kvl_scenario_of(c->doc), 0, note, sizeof note)) {
    fprintf(stderr, "%s\n", note);
  }
  if (kvl_trace_drafts_note(kvl_scenario_of(c->doc), note, sizeof note)) {
    fprintf(stderr, "%s\n", note);
  }
  if (kvl_scenario_note(c->doc, note, sizeof note)) {
    fprintf(stderr, "note: %s\n", note);
  }
  if (s->compute_is_estimate != 0) {
    fprintf(stderr, "note: compute times are roofline estimates, not measurements\n");
  }
  if (s->is_extrapolated != 0) {
    fprintf(stderr, "note: a measured table or curve was read past its ends\n");
  }
  if (c->run->store != NULL) {
    fprintf(stderr, "stored as runs");
    for (uint32_t r = 0; r < c->repeats; r++) {
      fprintf(stderr, "%s%" PRId64, r == 0 ? " " : ", ", cell[r].run);
    }
    fprintf(stderr, " of sweep %" PRId64 " in %s\n", sweep, c->run->store);
  }
}

static int report(const struct kvl_run_repeats *c, const struct kvl_design_cell *cell, struct kvl_err *err)
{
  const struct kvl_scenario *s = kvl_scenario_of(c->doc);
  const struct kvl_summary **summary = calloc(c->repeats, sizeof *summary);
  char label[KVL_LABEL_MAX], title[KVL_NAME_MAX + KVL_LABEL_MAX + 2];
  int rc = summary == NULL ? -ENOMEM : 0;
  for (uint32_t r = 0; r < c->repeats && rc == 0; r++) {
    summary[r] = &cell[r].summary;
  }
  (void)snprintf(title, sizeof title, "%s, %s", s->name, kvl_mode_label(s, label));
  rc = rc != 0 ? rc : kvl_repeats_write(stdout, c->format, c->format == KVL_FORMAT_TABLE ? title : s->name, summary, c->repeats, c->confidence);
  free(summary);
  return rc != 0 ? kvl_err_set(err, rc, "out of memory") : 0;
}

int kvl_run_repeats(const struct kvl_run_repeats *c)
{
  const struct kvl_scenario *s = kvl_scenario_of(c->doc);
  struct kvl_sweep *design = NULL;
  struct kvl_design_cell *cell = calloc(c->repeats, sizeof *cell);
  struct kvl_err err = {"out of memory"};
  char name[KVL_NAME_MAX + 16];
  int64_t sweep = 0;
  struct kvl_sweep_call call = {.store = c->run->store, .plane = c->run->plane, .command = c->run->command == NULL ? "" : c->run->command,
                                .check = (int)c->run->check, .verify = c->run->verify, .share = {0, 1}, .stop = c->run->stop,
                                .quiet = c->quiet || isatty(STDERR_FILENO) != 1};
  (void)snprintf(name, sizeof name, "%.80s, repeats", s->name);
  call.design = name;
  kvl_repeats_share(c->run->threads, c->repeats, &call.jobs, &call.threads);
  int rc = cell == NULL ? -ENOMEM : 0;
  if (rc == 0 && s->seed > UINT64_MAX - KVL_SWEEP_REPEATS_MAX) {
    rc = kvl_err_set(&err, -EINVAL, "seed: %" PRIu64 " leaves no room for %u seed%s above it", s->seed, (unsigned)c->repeats, kvl_text_s(c->repeats));
  }
  rc = rc != 0 ? rc : kvl_design_parse(&design, name, c->scenario, "[{}]", c->sets, c->set_count, s->seed, c->repeats, &err);
  rc = rc != 0 ? rc : kvl_design_run(design, &call, cell, &sweep, &err);
  for (uint32_t r = 0; r < c->repeats && rc == 0; r++) {
    if (!cell[r].complete) {
      rc = kvl_err_set(&err, -EIO, "the run with seed %" PRIu64 " failed: %.300s", s->seed + r, cell[r].reason);
    }
  }
  rc = rc != 0 ? rc : report(c, cell, &err);
  if (rc != 0) {
    fprintf(stderr, "kvloan run: %s\n", err.text);
  } else {
    tell(c, cell, sweep);
  }
  kvl_sweep_free(design);
  free(cell);
  return rc == 0 ? 0 : rc == -EINTR ? 130 : 1;
}
