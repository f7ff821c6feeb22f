/* Decimal text to scaled integers and back. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "sim/scenario_number.h"
#include "tests/base/tap.h"

static const struct {
  const char *text;
  uint64_t scale, value;
  int rc;
  bool exact;
} cases[] = {
  {"0", 1, 0, 0, true},
  {"-0", 1, 0, 0, true},
  {"-0.0e5", 1000, 0, 0, true},
  {"1", 1, 1, 0, true},
  {"13.4", 1000000, 13400000, 0, true},
  {"0.193", 1000000, 193000, 0, true},
  {"20.8e9", 1, 20800000000, 0, true},
  {"208E+8", 1, 20800000000, 0, true},
  {"1e-3", 1000, 1, 0, true},
  {"91.25", 256, 23360, 0, true},
  {"141.4375", 256, 36208, 0, true},
  {"2.5", 1, 3, 0, false},
  {"2.4999999", 1, 2, 0, false},
  {"0.5", 1, 1, 0, false},
  {"0.49", 1, 0, 0, false},
  {"0.05", 1, 0, 0, false},
  {"1e-30", 1, 0, 0, false},
  {"9e-1000000", 1, 0, 0, false},
  {"18446744073709551615", 1, UINT64_MAX, 0, true},
  {"18446744073709551616", 1, UINT64_MAX, -ERANGE, true},
  {"1e19", 1, 10000000000000000000u, 0, true},
  {"1e20", 1, UINT64_MAX, -ERANGE, true},
  {"1e1000000", 1, UINT64_MAX, -ERANGE, true},
  {"0e1000000", 1, 0, 0, true},
  {"-1", 1, 0, -EDOM, true},
  {"-1e-9", 1, 0, -EDOM, true},
  {"100000000000000000000000000000000000000000", 1, UINT64_MAX, -ERANGE, true},
  {"0.1000000000000000000000000000000000000000", 10, 1, 0, true},
  {"1.0000000000000000000000000000000000000001", 1, 1, 0, false},
};

START_TEST(numbers_lose_their_units)
{
  static const struct {
    const char *text, *unit, *plain; /* NULL: nothing to offer */
  } words[] = {
    {"100GB", "bytes", "100e9"}, {"1.5 tb", "bytes", "1.5e12"}, {"64GiB", "bytes", "68719476736"}, {"1.5k", "bytes", "1.5e3"}, {"7B", "bytes", "7"},
    {"7 bytes", "bytes", "7"},   {"17", "", "17"},              {"13.4ms", "ms", "13.4"},          {"80GB", "GB", "80"},        {"0.5 GB/s", "GB/s", "0.5"},
    {"13.4s", "ms", NULL},       {"80GiB", "GB", NULL},         {"GB", "bytes", NULL},             {"1.2.3GB", "bytes", NULL},  {"1.GB", "bytes", NULL},
    {".5GB", "bytes", NULL},     {"007", "", NULL},             {"100XB", "bytes", NULL},          {"100GBs", "bytes", NULL},   {"", "bytes", NULL},
    {"-1GB", "bytes", NULL},     {"99999999999999PiB", "bytes", NULL},
  };
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    char plain[KVL_DECIMAL_MAX] = "";
    bool known = kvl_decimal_without_unit(words[i].text, words[i].unit, plain);
    ck_assert_msg(known == (words[i].plain != NULL), "%s", words[i].text);
    ck_assert_msg(!known || strcmp(plain, words[i].plain) == 0, "%s: %s", words[i].text, plain);
  }
}
END_TEST

START_TEST(parses_exactly)
{
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint64_t value = 77;
    bool exact = false;
    int rc = kvl_decimal_parse(cases[i].text, cases[i].scale, &value, &exact);
    ck_assert_msg(rc == cases[i].rc, "%s: %d", cases[i].text, rc);
    ck_assert_msg(value == cases[i].value, "%s: %llu", cases[i].text, (unsigned long long)value);
    ck_assert_msg(rc != 0 || exact == cases[i].exact, "%s: exact", cases[i].text);
  }
}
END_TEST

START_TEST(prints_what_it_parses)
{
  static const uint64_t scales[] = {1, 256, 1000, 1000000, 1000000000, 1000000000000};
  struct kvl_rng rng;
  kvl_rng_init(&rng, 7, "number", 0);
  char text[KVL_DECIMAL_MAX];
  for (int i = 0; i < 20000; i++) {
    uint64_t value = kvl_rng_next(&rng) >> kvl_rng_below(&rng, 64), back;
    uint64_t scale = scales[kvl_rng_below(&rng, 6)];
    bool exact;
    kvl_decimal_print(value, scale, text);
    ck_assert_int_eq(kvl_decimal_parse(text, scale, &back, &exact), 0);
    ck_assert_uint_eq(back, value);
    ck_assert(exact);
  }
  ck_assert_str_eq(kvl_decimal_print(13400000, 1000000, text), "13.4");
  ck_assert_str_eq(kvl_decimal_print(193000, 1000000, text), "0.193");
  ck_assert_str_eq(kvl_decimal_print(UINT64_MAX, 1, text), "18446744073709551615");
}
END_TEST

START_TEST(reals_read_back)
{
  static const double values[] = {0, 1, 0.1, 20, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456.789};
  char text[KVL_DECIMAL_MAX];
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    double back = strtod(kvl_real_print(values[i], text), NULL);
    ck_assert_mem_eq(&back, &values[i], sizeof back);
  }
  ck_assert_str_eq(kvl_real_print(0.1, text), "0.1");
  ck_assert_str_eq(kvl_real_print(20, text), "20");
}
END_TEST

KVL_TAP_MAIN("scenario_number", parses_exactly, prints_what_it_parses, reals_read_back, numbers_lose_their_units)
