/* Student's t against printed tables, and the statistics of repeated runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/repeats.h"
#include "results/student.h"
#include "tests/base/tap.h"

START_TEST(quantiles_are_those_of_the_tables)
{
  /* two-sided: NIST/SEMATECH e-Handbook, 1.3.6.7.2; the first row has closed forms: tan(pi/2 x confidence) */
  static const struct {
    uint32_t freedom;
    double confidence, t, within;
  } known[] = {
    {1, 0.95, 12.7062047362, 1e-9}, {1, 0.5, 1.0, 1e-12},      {1, 0.99, 63.6567411629, 1e-8}, {2, 0.95, 4.3026527297, 1e-9}, {2, 0.99, 9.9248432009, 1e-9},
    {3, 0.9, 2.353, 5e-4},          {4, 0.95, 2.776, 5e-4},    {5, 0.99, 4.032, 5e-4},        {9, 0.95, 2.262, 5e-4},        {10, 0.8, 1.372, 5e-4},
    {19, 0.95, 2.093, 5e-4},        {29, 0.99, 2.756, 5e-4},   {30, 0.95, 2.042, 5e-4},       {60, 0.95, 2.000, 5e-4},       {100, 0.999, 3.390, 6e-4},
    {999, 0.95, 1.9623, 1e-4},      {10, 0.998, 4.144, 5e-4},
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    ck_assert_double_eq_tol(kvl_student_t(known[i].freedom, known[i].confidence), known[i].t, known[i].within);
  }
  for (double confidence = 0.05; confidence < 0.999; confidence += 0.013) { /* one and two degrees: closed forms */
    double p = confidence;
    ck_assert_double_eq_tol(kvl_student_t(1, p), tan(acos(-1.0) / 2 * p), 1e-9 * (1 + tan(acos(-1.0) / 2 * p)));
    ck_assert_double_eq_tol(kvl_student_t(2, p), p * sqrt(2 / (1 - p * p)), 1e-9 * (1 + p * sqrt(2 / (1 - p * p))));
  }
  ck_assert_double_eq_tol(kvl_student_t(100000, 0.95), 1.959963985 + 2.3722712 / 100000, 1e-8); /* Fisher's expansion */
}
END_TEST

START_TEST(quantiles_fall_with_freedom_and_rise_with_confidence)
{
  for (uint32_t f = 1; f < 400; f++) {
    ck_assert_double_gt(kvl_student_t(f, 0.95), kvl_student_t(f + 1, 0.95));
    ck_assert_double_lt(kvl_student_t(f, 0.95), kvl_student_t(f, 0.96));
  }
  ck_assert(isnan(kvl_student_t(0, 0.95)) && isnan(kvl_student_t(3, 0.0)) && isnan(kvl_student_t(3, 1.0)) && isnan(kvl_student_t(3, NAN)));
}
END_TEST

START_TEST(a_cell_is_mean_deviation_and_interval)
{
  const double value[] = {2, 4, 4, 4, 5, 5, 7, 9}, same[] = {0.1, 0.1, 0.1};
  struct kvl_repeats_cell c = kvl_repeats_cell(value, 8, 0.95);
  ck_assert_double_eq_tol(c.mean, 5.0, 1e-15);
  ck_assert_double_eq_tol(c.deviation, sqrt(32.0 / 7), 1e-15);
  ck_assert_double_eq_tol(c.half, 2.364624252 * sqrt(32.0 / 7 / 8), 1e-8);
  ck_assert(c.min == 2 && c.max == 9);
  c = kvl_repeats_cell(same, 3, 0.95);
  ck_assert(c.mean == 0.1 && c.deviation == 0 && c.half == 0); /* no rounding makes noise out of nothing */
  c = kvl_repeats_cell(value, 1, 0.95);
  ck_assert(c.mean == 2 && isnan(c.deviation) && isnan(c.half));
  ck_assert(isnan(kvl_repeats_cell(value, 0, 0.95).mean));
}
END_TEST

START_TEST(a_report_has_every_key)
{
  struct kvl_summary a = {.output_throughput_tok_per_s = 100, .steps = 7, .seed = 1}, b = {.output_throughput_tok_per_s = 110, .steps = 9, .seed = 2};
  const struct kvl_summary *both[] = {&a, &b};
  for (int f = 0; f < 3; f++) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kvl_repeats_write(out, (enum kvl_format)f, "x", both, 2, 0.95), 0);
    ck_assert_int_eq(fclose(out), 0);
    for (uint32_t k = 0; k < kvl_summary_key_count() && f > 0; k++) {
      char name[128];
      (void)snprintf(name, sizeof name, f == 1 ? "\"%s\": {" : "\n%s\t", kvl_summary_key_at(k)->name);
      ck_assert_msg((strstr(text, name) != NULL) == (strcmp(kvl_summary_key_at(k)->name, "seed") != 0), "%s", name);
    }
    ck_assert_ptr_nonnull(strstr(text, f == 0 ? "105.0" : f == 1 ? "\"mean\": 105, \"deviation\": 7.07" : "\n" "output_throughput_tok_per_s\t105\t7.07"));
    ck_assert_msg(f == 2 || strstr(text, "not pooled") != NULL, "%s", text);
    free(text);
  }
}
END_TEST

KVL_TAP_MAIN("student", quantiles_are_those_of_the_tables, quantiles_fall_with_freedom_and_rise_with_confidence, a_cell_is_mean_deviation_and_interval,
             a_report_has_every_key)
