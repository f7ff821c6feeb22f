/* Every allocation that a report makes fails once: the page is either whole or refused with a line, and nothing is lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/report_internal.h"
#include "tests/base/fault_alloc.h"
#include "tests/base/tap.h"
#include "wellformed.h"

static struct kvl_report *build(void)
{
  struct kvl_report *r = kvl_report_create("Kind", "Title", "Subtitle");
  const char *columns[] = {"a", "b"}, *row[] = {"1", NULL}, *picture[] = {"t", "s", "<svg></svg>", "<svg></svg>", "key", "#0072b2", "1"};
  if (r == NULL) {
    return NULL;
  }
  kvl_report_section(r, "Section");
  kvl_report_lead(r, "%s", "lead");
  kvl_report_note(r, "%d", 1);
  kvl_report_number(r, "label", "1", "unit", "remark");
  kvl_report_table(r, columns, 2, "lr");
  for (int i = 0; i < 70; i++) { /* more blocks than fit at first */
    kvl_report_row(r, row);
  }
  kvl_report_append(r, KVL_BLOCK_PICTURE, picture, 7);
  kvl_report_fold(r, "Fold");
  kvl_report_code(r, "code");
  return r;
}

START_TEST(no_allocation_is_taken_for_granted)
{
  unsigned long n = 1;
  int whole = 0;
  for (; !whole; n++) {
    fault_alloc_arm((long)n - 1);
    struct kvl_report *r = build();
    whole = !fault_alloc_disarm();
    if (r == NULL) {
      ck_assert(!whole);
      continue;
    }
    char *text = NULL, why[160] = "";
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int rc = kvl_report_write(r, out);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_msg(whole ? rc == 0 : rc == -ENOMEM && size == 0, "allocation %lu: %d, %zu bytes", n, rc, size);
    ck_assert_msg(!whole || wellformed(text, why, sizeof why) == 0, "%s", why);
    free(text);
    kvl_report_destroy(r);
  }
  ck_assert_uint_gt(n, 100);
}
END_TEST

KVL_TAP_MAIN("report faults", no_allocation_is_taken_for_granted)
