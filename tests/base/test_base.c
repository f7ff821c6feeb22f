/* Did-you-mean, one-line errors, and laying out arrays in one block. */
#include <errno.h>
#include <string.h>

#include "backend/base/checked.h"
#include "backend/base/err.h"
#include "backend/base/nearest.h"
#include "tests/base/tap.h"

START_TEST(nearest_finds_the_smallest_edit_distance)
{
  const char *const keys[] = {"mode", "model", "node", "seed", "hot_rows", "bank_rows"};
  const struct {
    const char *word, *want;
  } cases[] = {
    {"mode", "mode"}, {"mod", "mode"}, {"modle", "mode"}, {"modell", "model"}, {"nodes", "node"}, {"hotrows", "hot_rows"},
    {"hot_row", "hot_rows"}, {"rank_rows", "bank_rows"}, {"sead", "seed"}, {"NODE", "node"}, {"Hot-Rows", "hot_rows"}, {"MODLE", "mode"}, {"", "mode"}, /* 4 for three of them: the first */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_assert_str_eq(kvl_nearest(cases[i].word, keys, sizeof keys / sizeof keys[0]), cases[i].want);
  }
}
END_TEST

START_TEST(nearest_knows_beginnings_and_last_parts)
{
  const char *const names[] = {"agent-sample", "mooncake-hour", "published-256", "workload-f", "policy.hot_rows", "node.host_pool_bytes", "mode", "model"};
  const struct {
    const char *word, *want;
  } cases[] = {
    {"pub", "published-256"}, {"moon", "mooncake-hour"}, {"PUBLISHED", "published-256"}, {"hot_rows", "policy.hot_rows"}, {"host", "node.host_pool_bytes"},
    {"mod", "mode"}, {"mdoe", "mode"}, {"modl", "mode"}, {"w", "workload-f"}, {"workloads-f", "workload-f"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_assert_str_eq(kvl_nearest(cases[i].word, names, sizeof names / sizeof names[0]), cases[i].want);
  }
}
END_TEST

START_TEST(nearest_of_nothing_is_nothing)
{
  ck_assert_ptr_null(kvl_nearest("word", NULL, 0));
}
END_TEST

START_TEST(nearest_survives_long_words)
{
  char word[4096];
  memset(word, 'x', sizeof word - 1);
  word[sizeof word - 1] = '\0';
  const char *const keys[] = {"short", word};
  ck_assert_ptr_eq(kvl_nearest(word, keys, 2), word);
}
END_TEST

START_TEST(errors_are_one_line_and_fit)
{
  struct kvl_err err;
  char longer[2 * sizeof err.text];
  memset(longer, 'y', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  ck_assert_int_eq(kvl_err_set(&err, -EINVAL, "%s:%d: unknown key '%s'", "a.json", 7, "mdoe"), -EINVAL);
  ck_assert_str_eq(err.text, "a.json:7: unknown key 'mdoe'");
  ck_assert_int_eq(kvl_err_set(&err, -EIO, "%s", longer), -EIO);
  ck_assert_uint_ge(strlen(err.text), sizeof err.text - 4);
  ck_assert_uint_lt(strlen(err.text), sizeof err.text);
  ck_assert_int_eq(kvl_err_set(&err, -EIO, "%s: the reason", longer), -EIO);
  ck_assert_uint_le(strlen(err.text), sizeof err.text - 1);
  ck_assert_ptr_nonnull(strstr(err.text, "yyy...yyy"));
  ck_assert_ptr_nonnull(strstr(err.text, "y: the reason"));
  ck_assert_int_eq(kvl_err_set(&err, -EIO, "%s: gone", "a\nb\x1b[2J.json"), -EIO);
  ck_assert_str_eq(err.text, "a?b?[2J.json: gone");
  ck_assert_int_eq(kvl_err_set(NULL, -ENOENT, "nobody listens"), -ENOENT);
}
END_TEST

START_TEST(carving_measures_and_places_alike)
{
  _Alignas(64) char block[1024];
  struct kvl_carve measure = {0}, place = {.base = block};
  ck_assert_ptr_null(kvl_carve(&measure, 3, 5));
  ck_assert_ptr_null(kvl_carve(&measure, 10, 8));
  ck_assert_ptr_eq(kvl_carve(&place, 3, 5), block);
  ck_assert_ptr_eq(kvl_carve(&place, 10, 8), block + 64);
  ck_assert_uint_eq(measure.used, 64 + 80);
  ck_assert_uint_eq(place.used, measure.used);
  ck_assert(!measure.overflow);
}
END_TEST

START_TEST(carving_notices_an_overflow)
{
  struct kvl_carve carve = {0};
  (void)kvl_carve(&carve, SIZE_MAX / 4, 8);
  ck_assert(carve.overflow);
  (void)kvl_carve(&carve, 1, 1);
  ck_assert(carve.overflow);
  struct kvl_carve sum = {0};
  (void)kvl_carve(&sum, SIZE_MAX / 2 + 1, 1);
  ck_assert(!sum.overflow);
  (void)kvl_carve(&sum, SIZE_MAX / 2 + 1, 1);
  ck_assert(sum.overflow);
}
END_TEST

KVL_TAP_MAIN("base", nearest_finds_the_smallest_edit_distance, nearest_knows_beginnings_and_last_parts, nearest_of_nothing_is_nothing, nearest_survives_long_words,
             errors_are_one_line_and_fit, carving_measures_and_places_alike, carving_notices_an_overflow)
