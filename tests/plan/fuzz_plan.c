/* Any bytes as a plan: one clear line of error, or a plan that is the same when it is read again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plan.h"
#include "tests/base/fuzz.h"

static void fail(const char *what, const char *text)
{
  fprintf(stderr, "fuzz_plan: %s: %s\n", what, text);
  abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct kvl_capacity_plan *plan = NULL, *again = NULL;
  struct kvl_err err = {""};
  const char *text = size == 0 ? "" : (const char *)data;
  int rc = kvl_plan_parse(&plan, text, size, KVL_TESTS "/fuzz.json", NULL, 0, NULL, 0, &err);
  if (rc != 0) {
    if ((rc != -EINVAL && rc != -ENOENT && rc != -EIO) || err.text[0] == '\0' || strchr(err.text, '\n') != NULL || plan != NULL) {
      fail("not one line of an error in the list", err.text);
    }
    return 0;
  }
  if (kvl_plan_parse(&again, text, size, KVL_TESTS "/fuzz.json", NULL, 0, NULL, 0, &err) != 0 || again->axes != plan->axes || again->nodes != plan->nodes || again->sets != plan->sets) {
    fail("another plan the second time", err.text);
  }
  for (unsigned i = 0; i < plan->sets; i++) {
    if (strcmp(plan->set[i].key, again->set[i].key) != 0 || strcmp(plan->set[i].value, again->set[i].value) != 0) {
      fail("another setting the second time", plan->set[i].key);
    }
  }
  for (unsigned a = 0; a < plan->axes; a++) {
    if (plan->axis[a].given != again->axis[a].given || plan->axis[a].values != again->axis[a].values || (plan->axis[a].given && plan->axis[a].values == 0)) {
      fail("another axis the second time", plan->axis[a].label);
    }
  }
  kvl_plan_free(plan);
  kvl_plan_free(again);
  return 0;
}
