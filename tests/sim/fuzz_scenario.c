/* Any bytes as a scenario file, and any line after a 0 byte as a --set: one clear line of error, or a scenario that survives its own JSON. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario.h"
#include "tests/base/fuzz.h"

static void fail(const char *what, const char *text)
{
  fprintf(stderr, "fuzz_scenario: %s: %s\n", what, text);
  abort();
}

static void check_error(int rc, const struct kvl_err *err)
{
  if (rc != -EINVAL && rc != -ENOENT && rc != -EIO) {
    fail("not an error of the header's list", err->text);
  }
  if (err->text[0] == '\0' || strchr(err->text, '\n') != NULL) {
    fail("not one line", err->text);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *end = size == 0 ? NULL : memchr(data, 0, size);
  size_t text_size = end == NULL ? size : (size_t)(end - data);
  char *set = calloc(1, size + 1);
  if (set == NULL) {
    return 0;
  }
  if (end != NULL) {
    memcpy(set, end + 1, size - text_size - 1);
  }
  const char *sets[] = {set};
  struct kvl_scenario_doc *doc = NULL, *again = NULL;
  struct kvl_err err = {""};
  const char *text = size == 0 ? "" : (const char *)data;
  int rc = kvl_scenario_parse(&doc, text, text_size, KVL_SCENARIOS "/fuzz.json", sets, *set != '\0', &err);
  if (rc != 0) {
    check_error(rc, &err);
  } else {
    char *json = kvl_scenario_json(doc);
    if (json == NULL || kvl_scenario_parse(&again, json, strlen(json), KVL_SCENARIOS "/fuzz.json", NULL, 0, &err) != 0) {
      fail("canonical JSON does not load", err.text);
    }
    char *same = kvl_scenario_json(again);
    if (same == NULL || strcmp(json, same) != 0) {
      fail("canonical JSON changes", json);
    }
    free(same);
    free(json);
    kvl_scenario_free(again);
    kvl_scenario_free(doc);
  }
  free(set);
  return 0;
}
