/* Any bytes as a decision log: one clear line of error, or a log whose every line can be walked and whose answers print as they were read. The bytes are
 * tried as they are and, since no fuzzer finds a checksum, with the right last line put behind them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "sim/decision_log.h"
#include "tests/base/fuzz.h"

static void fail(const char *what, const char *text)
{
  fprintf(stderr, "fuzz_decision_log: %s: %s\n", what, text);
  abort();
}

static void walk(const struct kvl_log *log)
{
  size_t cursor = 0, bytes;
  const char *line;
  uint64_t number, events = 0, waits = 0;
  while (kvl_log_next(log, &cursor, &line, &bytes, &number)) {
    struct kvl_log_wait wait;
    events++;
    if (number != 4 + events) {
      fail("line numbers", "not one after the other");
    }
    if (kvl_log_parse_wait(line, bytes, &wait)) {
      char again[KVL_LOG_LINE_CAP];
      kvl_log_line_wait(again, &wait);
      waits++;
      if (strlen(again) != bytes || memcmp(again, line, bytes) != 0) {
        fail("an answer prints otherwise", again);
      }
    }
  }
  if (events != kvl_log_events(log) || waits != kvl_log_waits(log)) {
    fail("events", "miscounted");
  }
}

static void parse(const void *bytes, size_t size)
{
  struct kvl_log *log = NULL;
  struct kvl_err err = {""};
  int rc = kvl_log_parse(&log, "fuzz.log", bytes, size, &err);
  if (rc == 0) {
    walk(log);
    kvl_log_free(log);
  } else if (rc != -EINVAL || err.text[0] == '\0' || strchr(err.text, '\n') != NULL || strncmp(err.text, "fuzz.log:", 9) != 0) {
    fail("not one line of error with its place", err.text);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  parse(data, size);
  char *text = malloc(size + 96);
  if (text == NULL) {
    return 0;
  }
  size_t lines = 0;
  for (size_t i = 0; i < size; i++) {
    text[i] = (char)data[i];
    lines += data[i] == '\n';
  }
  int n = snprintf(text + size, 96, "end complete %zu %016" PRIx64 "\n", lines < 4 ? 0 : lines - 4, (uint64_t)XXH64(text, size, 0));
  parse(text, size + (size_t)n);
  free(text);
  return 0;
}
