#include "sim/calibrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

void kvl_calibrate_free(struct kvl_calibration *c)
{
  kvl_probe_free(&c->probe);
}

/* Days since 1970-01-01 to a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms"): gmtime has hidden state. */
void kvl_calibrate_now(char date[KVL_CALIBRATE_DATE])
{
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  uint64_t seconds = now.tv_sec < 0 ? 0 : (uint64_t)now.tv_sec, days = seconds / 86400 + 719468;
  uint64_t era = days / 146097, day_of_era = days % 146097;
  uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100), month = (5 * day_of_year + 2) / 153;
  unsigned day = (unsigned)(day_of_year - (153 * month + 2) / 5 + 1), m = (unsigned)(month < 10 ? month + 3 : month - 9);
  unsigned year = (unsigned)(year_of_era + era * 400 + (m <= 2)), rest = (unsigned)(seconds % 86400);
  (void)snprintf(date, KVL_CALIBRATE_DATE, "%04u-%02u-%02uT%02u:%02u:%02uZ", year % 10000, m % 100, day % 100, rest / 3600, rest / 60 % 60, rest % 60);
}
