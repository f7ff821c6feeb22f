/* The n-th allocation fails: one line, nothing kept, and the next try is whole. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/repeats.h"
#include "sim/sensitivity.h"
#include "tests/base/fault_alloc.h"
#include "tests/base/tap.h"

START_TEST(picking_survives_the_lack_of_memory)
{
  static struct kvl_sensitivity s;
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  static const char keys[] = "costs.law_fixed_ms,hardware.link.rows_per_s_by_pool_bytes,selection.preset=hot-b,policy.hot_rows=512:2048";
  ck_assert_int_eq(setenv("KVLOAN_SCENARIOS", KVL_SCENARIOS, 1), 0);
  ck_assert_msg(kvl_scenario_load(&doc, KVL_TESTS "/tiny.json", NULL, 0, &err) == 0, "%s", err.text);
  long n = 1, failed = 0;
  for (int rc = -1; rc != 0; n += n < 400 ? 1 : 37) { /* every one of the first, then some */
    err.text[0] = '\0';
    fault_alloc_arm(n - 1);
    rc = kvl_sensitivity_pick(&s, doc, KVL_TESTS "/tiny.json", NULL, 0, keys, 0.1, &err);
    bool reached = fault_alloc_disarm();
    if (rc != 0) {
      ck_assert_msg(reached && err.text[0] != '\0' && strchr(err.text, '\n') == NULL, "allocation %ld: %s", n, err.text);
      ck_assert_msg(rc == -ENOMEM, "allocation %ld: %d, %s", n, rc, err.text);
      ck_assert_uint_eq(s.count, 0);
      failed++;
    } else {
      ck_assert_uint_eq(s.count, 4);
      ck_assert_uint_eq(s.points, 8);
      kvl_sensitivity_free(&s);
      rc = reached ? -1 : 0; /* an allocation that nobody needs: go on */
    }
    ck_assert_int_lt(n, 100000);
  }
  ck_assert_int_gt(failed, 100);
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(judging_and_writing_survive_it_too)
{
  static struct kvl_sensitivity s;
  struct kvl_summary summary = {.steps = 1};
  const struct kvl_summary *at[] = {&summary};
  s.points = 1;
  fault_alloc_arm(0);
  ck_assert_int_eq(kvl_sensitivity_judge(&s, at, 1, 0.95), -ENOMEM);
  fault_alloc_arm(0);
  ck_assert_int_eq(kvl_repeats_write(stderr, KVL_FORMAT_TSV, "x", at, 1, 0.95), -ENOMEM);
  ck_assert(fault_alloc_disarm());
}
END_TEST

KVL_TAP_MAIN("sensitivity faults", picking_survives_the_lack_of_memory, judging_and_writing_survive_it_too)
