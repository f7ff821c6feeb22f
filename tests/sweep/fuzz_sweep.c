/* Any bytes as a design: one clear line of error, or a design whose points can be listed and which is the same when it is read again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sweep.h"
#include "tests/base/fuzz.h"

static void fail(const char *what, const char *text)
{
  fprintf(stderr, "fuzz_sweep: %s: %s\n", what, text);
  abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct kvl_sweep *sweep = NULL, *again = NULL;
  struct kvl_err err = {""};
  const char *text = size == 0 ? "" : (const char *)data;
  int rc = kvl_sweep_parse(&sweep, text, size, KVL_TESTS "/fuzz.json", NULL, 0, &err);
  if (rc != 0) {
    if ((rc != -EINVAL && rc != -ENOENT && rc != -EIO) || err.text[0] == '\0' || strchr(err.text, '\n') != NULL || sweep != NULL) {
      fail("not one line of an error in the list", err.text);
    }
    return 0;
  }
  if (kvl_sweep_parse(&again, text, size, KVL_TESTS "/fuzz.json", NULL, 0, &err) != 0 || again->points != sweep->points || again->keys != sweep->keys) {
    fail("another design the second time", err.text);
  }
  for (size_t i = 0; i < (size_t)sweep->points * sweep->keys; i++) {
    const char *a = sweep->value[i], *b = again->value[i];
    if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0)) {
      fail("another value the second time", a == NULL ? "" : a);
    }
  }
  uint32_t last = kvl_sweep_tasks(sweep) - 1;
  char *command = kvl_sweep_command(sweep, last);
  struct kvl_scenario_doc *doc = NULL;
  if (command == NULL || kvl_sweep_seed(sweep, last) != kvl_sweep_seed(again, last)) {
    fail("no command, or another seed", text);
  }
  if (kvl_sweep_scenario(sweep, last, &doc, &err) != 0 && (err.text[0] == '\0' || strchr(err.text, '\n') != NULL)) {
    fail("a point's reason is not one line", err.text);
  }
  kvl_scenario_free(doc);
  free(command);
  kvl_sweep_free(sweep);
  kvl_sweep_free(again);
  return 0;
}
