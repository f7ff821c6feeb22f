/* Fails the n-th allocation of loading a scenario, for every n until it succeeds: -ENOMEM each time, nothing lost. Linked with --wrap. */
#include <check.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario.h"
#include "tests/base/fault_each.h"
#include "tests/base/tap.h"

static const char *const sets[] = {"policy.hot_rows=512", "hardware.link.copy_gb_per_s=50", "model=deepseek-v4-pro-key132",
                                   "model.caches.0.row_bytes={\"value\": 600, \"origin\": \"a try\"}"};

static int load_and_write(void *context, struct kvl_err *err)
{
  (void)context;
  struct kvl_scenario_doc *doc = NULL;
  char *text = NULL;
  int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, 4, err);
  if (rc == 0) {
    text = kvl_scenario_json(doc);
    rc = text == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : 0;
  }
  free(text);
  kvl_scenario_free(doc);
  return rc;
}

START_TEST(loading_and_writing)
{
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = malloc, .free_fn = free});
  fault_each_allocation(load_and_write, NULL, NULL);
}
END_TEST

START_TEST(a_failed_set_changes_nothing)
{
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = malloc, .free_fn = free});
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, 3, &err), 0);
  char *before = kvl_scenario_json(doc);
  for (long n = 0;; n++) {
    fault_alloc_arm(n);
    int rc = kvl_scenario_set(doc, "policy.hot_rows=77", &err);
    bool fired = fault_alloc_disarm();
    char *after = kvl_scenario_json(doc);
    if (!fired) {
      ck_assert_int_eq(rc, 0);
      ck_assert_uint_eq(kvl_scenario_of(doc)->policy.hot_rows, 77);
      free(after);
      break;
    }
    ck_assert_int_eq(rc, -ENOMEM);
    ck_assert_int_eq(fault_alloc_live(), 0);
    ck_assert_str_eq(before, after);
    free(after);
  }
  free(before);
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(looking_for_the_nearest_name)
{
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = malloc, .free_fn = free});
  static const char *const typo[] = {"model=deepseek-v4"};
  for (long n = 0;; n++) {
    struct kvl_scenario_doc *doc = NULL;
    struct kvl_err err = {""};
    fault_alloc_arm(n);
    int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", typo, 1, &err);
    bool fired = fault_alloc_disarm();
    ck_assert_ptr_null(doc);
    ck_assert_int_eq(fault_alloc_live(), 0);
    ck_assert_msg(rc == -ENOENT || (fired && rc == -ENOMEM), "%d", rc);
    if (!fired) {
      break;
    }
  }
}
END_TEST

KVL_TAP_MAIN("scenario_faults", loading_and_writing, a_failed_set_changes_nothing, looking_for_the_nearest_name)
