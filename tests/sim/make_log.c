/* Records a scenario's decision log on the host plane with a clock like a wall clock's (plane_jitter): how the logs in recorded/ that no GPU made were made.
 *
 *   make_log SCENARIO.json FILE.log [SEED [STEP_US [COPY_US [LATE_US]]]] [--set=KEY=VALUE]...
 *   make_log --seal FILE.log      writes a log that was tampered with to stdout, with a last line that holds again: for tests */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "sim/run.h"
#include "sim/scenario.h"
#include "tests/sim/replaying.h"

static int seal(const char *path)
{
  static char text[1 << 24];
  FILE *file = fopen(path, "rb");
  size_t bytes = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file), lines = 0;
  if (file != NULL) {
    (void)fclose(file);
  }
  char *end = strstr(text, "\nend ");
  if (bytes == 0 || end == NULL) {
    fprintf(stderr, "%s: not a log\n", path);
    return 1;
  }
  bytes = (size_t)(end - text) + 1;
  for (size_t i = 0; i < bytes; i++) {
    lines += text[i] == '\n';
  }
  (void)fwrite(text, 1, bytes, stdout);
  printf("end complete %zu %016" PRIx64 "\n", lines - 4, (uint64_t)XXH64(text, bytes, 0));
  return 0;
}

int main(int argc, char **argv)
{
  if (argc == 3 && strcmp(argv[1], "--seal") == 0) {
    return seal(argv[2]);
  }
  const char *sets[64], *word[6];
  unsigned set_count = 0, words = 0;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--set=", 6) == 0 && set_count < 64) {
      sets[set_count++] = argv[i] + 6;
    } else if (words < 6) {
      word[words++] = argv[i];
    }
  }
  if (words < 2) {
    fprintf(stderr, "usage: make_log SCENARIO.json FILE.log [SEED [STEP_US [COPY_US [LATE_US]]]] [--set=KEY=VALUE]...\n");
    return 2;
  }
  uint64_t number[4] = {1, 3000, 2000, 50};
  for (unsigned i = 2; i < words; i++) {
    number[i - 2] = strtoull(word[i], NULL, 10);
  }
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  static struct kvl_run_result result;
  if (kvl_scenario_load(&doc, word[0], sets, set_count, &err) != 0) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  struct jittering j = {
    .config = {.seed = number[0], .step_ns = 1000 * number[1], .copy_ns = 1000 * number[2], .late_ns = 1000 * number[3]},
    .gpus = kvl_scenario_of(doc)->node.decode_gpus,
  };
  struct kvl_run_options o = {.plane = "host", .record = word[1], .wrap = wrap_jitter, .wrap_context = &j};
  int rc = kvl_run(doc, &o, &result, &err);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
  } else {
    const struct kvl_summary *s = &result.engine.summary;
    printf("%llu steps, pages: %llu lent, %llu revoked, %llu given back; %llu completed, %llu aborted; %llu of %llu rows differ\n", (unsigned long long)s->steps,
           (unsigned long long)s->pages_lent, (unsigned long long)s->pages_revoked, (unsigned long long)s->pages_given_back,
           (unsigned long long)s->requests_completed, (unsigned long long)s->requests_aborted, (unsigned long long)result.mismatches,
           (unsigned long long)result.rows_checked);
  }
  kvl_scenario_free(doc);
  return rc != 0 || result.mismatches != 0;
}
