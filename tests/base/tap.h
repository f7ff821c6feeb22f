/* Runs a suite of Check tests and prints TAP: what every unit test's main() does. */
#ifndef KVL_TESTS_BASE_TAP_H
#define KVL_TESTS_BASE_TAP_H

#include <check.h>
#include <stddef.h>

/* A case with fixtures, loops or a time limit of its own, made by tcase_create; 0, or 1 when a test failed. */
static inline int kvl_tap_run_case(const char *name, TCase *tcase)
{
  Suite *suite = suite_create(name);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

static inline int kvl_tap_run(const char *name, const TTest *const *tests, size_t count)
{
  TCase *tcase = tcase_create(name);
  for (size_t i = 0; i < count; i++) {
    tcase_add_test(tcase, tests[i]);
  }
  return kvl_tap_run_case(name, tcase);
}

#define KVL_TAP_MAIN(name, ...)                                                   \
  int main(void)                                                                  \
  {                                                                               \
    const TTest *const tests[] = {__VA_ARGS__};                                   \
    return kvl_tap_run(name, tests, sizeof tests / sizeof tests[0]);              \
  }

#endif
