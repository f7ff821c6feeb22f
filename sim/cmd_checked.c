#include "sim/cmd_checked.h"

#include <inttypes.h>
#include <stdio.h>

void kvl_cmd_tell_checked(const struct kvl_run_result *r)
{
  if (r->rows_checked != 0) {
    fprintf(stderr, "%" PRIu64 " selected rows read back through their addresses, %" PRIu64 " differ%s%s\n", r->rows_checked, r->mismatches,
            r->mismatches != 0 ? "; the first: " : "", r->measured.first_mismatch);
  }
}
