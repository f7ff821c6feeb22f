/* Fails one allocation after the other. For tests that depend on check_dep and fault_alloc_dep. */
#ifndef KVL_TESTS_FAULT_EACH_H
#define KVL_TESTS_FAULT_EACH_H

#include <check.h>
#include <errno.h>
#include <string.h>

#include "backend/base/err.h"
#include "tests/base/fault_alloc.h"

static inline void check_one_line(const struct kvl_err *err)
{
  ck_assert_msg(err->text[0] != '\0' && strchr(err->text, '\n') == NULL, "not one clear line: '%s'", err->text);
}

/* Runs the job with its n-th allocation failing, for every n until none is left: each time it must return -ENOMEM with one clear line, the last time 0, and
 * every time all that it allocated is freed. It met more than 20. `after` (or NULL) sees each
 * outcome; its own allocations do not count. */
static inline void fault_each_allocation(int (*job)(void *context, struct kvl_err *err), void (*after)(int rc), void *context)
{
  for (long n = 0;; n++) {
    struct kvl_err err = {""};
    fault_alloc_arm(n);
    int rc = job(context, &err);
    bool fired = fault_alloc_disarm();
    ck_assert_msg(fault_alloc_live() == 0, "allocation %ld: %ld lost", n, fault_alloc_live());
    if (after != NULL) {
      after(rc);
    }
    if (!fired) {
      ck_assert_msg(rc == 0, "%s", err.text);
      ck_assert_int_gt(n, 20);
      return;
    }
    ck_assert_msg(rc == -ENOMEM, "allocation %ld: %d, %s", n, rc, err.text);
    check_one_line(&err);
  }
}

#endif
