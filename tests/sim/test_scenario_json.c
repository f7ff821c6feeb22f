/* The JSON tree: positions, reasons, duplicates. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario_json.h"
#include "tests/base/tap.h"

static const struct {
  const char *text;
  const char *message; /* what the error says, after "f.json:" */
} broken[] = {
  {"", "1: the text ends where a value is expected"},
  {"{", "1: a key in quotes is expected here"},
  {"{\n\"a\": 1\n\"b\": 2}", "3: a , or } is expected here"},
  {"{\"a\" 1}", "1: a : is expected after the key"},
  {"{\"a\": 1,}", "1: a comma before the closing }"},
  {"[1, 2", "1: the text ends inside an array"},
  {"{\"a\": 1", "1: the text ends inside an object"},
  {"[1 2]", "1: a , or ] is expected here"},
  {"{\"a\": resident}", "1: not a JSON value (strings need quotes)"},
  {"{\"a\": NaN}", "1: not a JSON value (strings need quotes)"},
  {"{\"a\": -}", "1: a number lacks a digit"},
  {"{\"a\": 01}", "1: a number begins with a needless 0"},
  {"{\"a\": 1.}", "1: a number lacks a digit"},
  {"{\"a\": 1e}", "1: a number lacks a digit"},
  {"[1111111111111111111111111111111111111111111111111111111]", "1: a number is longer than 48 characters"},
  {"{\"a\": \"b\n\"}", "1: a string is not closed on its line"},
  {"{\"a\": \"b", "1: the text ends inside a string"},
  {"[\"\\x\"]", "1: a string holds an unknown \\ escape"},
  {"[\"\\u12g4\"]", "1: \\u needs four hexadecimal digits"},
  {"[\"\\u0000\"]", "1: a string holds \\u0000"},
  {"[\"\\ud800\"]", "1: a string holds half a \\u surrogate pair"},
  {"[\"\\udc00\\ud800\"]", "1: a string holds half a \\u surrogate pair"},
  {"[\"\xff\"]", "1: a string is not UTF-8"},
  {"[\"\xc0\xaf\"]", "1: a string is not UTF-8"},
  {"[\"\xed\xa0\x80\"]", "1: a string is not UTF-8"},
  {"{} {}", "1: text after the end of the JSON value"},
  {"tru", "1: not a JSON value (strings need quotes)"},
  {"{\n\"a\": 1,\n\"b\": {\"c\": 1,\n\"c\": 2}}", "4: c: given twice (first on line 3)"},
};

START_TEST(broken_text_is_named)
{
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    struct kvl_arena arena = {0};
    struct kvl_json *root = NULL;
    struct kvl_err err = {""};
    char expected[256];
    int rc = kvl_json_parse(&arena, broken[i].text, strlen(broken[i].text), "f.json", &root, &err);
    kvl_arena_free(&arena);
    (void)snprintf(expected, sizeof expected, "f.json:%s", broken[i].message);
    ck_assert_msg(rc == -EINVAL, "%s: %d", broken[i].text, rc);
    ck_assert_str_eq(err.text, expected);
  }
}
END_TEST

START_TEST(every_value_knows_its_line)
{
  static const char text[] = "{\n  \"a\": [1,\n    -2.50e1,\n    true],\n\n  \"b\\u0041\": {\"c\": \"x\\ny\\ud83d\\ude00\"}, \"d\": null, \"e\": false\r\n}\n";
  struct kvl_arena arena = {0};
  struct kvl_json *root = NULL;
  struct kvl_err err;
  char where[64];
  ck_assert_int_eq(kvl_json_parse(&arena, text, sizeof text - 1, "f.json", &root, &err), 0);
  const struct kvl_json *a = kvl_json_member(root, "a");
  ck_assert_uint_eq(a->line, 2);
  ck_assert_uint_eq(a->child->next->line, 3);
  ck_assert_str_eq(a->child->next->text, "-2.50e1");
  ck_assert_uint_eq(a->child->next->next->kind, KVL_JSON_TRUE);
  const struct kvl_json *c = kvl_json_member(kvl_json_member(root, "bA"), "c");
  ck_assert_str_eq(c->text, "x\ny\xf0\x9f\x98\x80");
  ck_assert_str_eq(kvl_json_where(c, where, sizeof where), "f.json:6");
  ck_assert_uint_eq(kvl_json_member(root, "d")->kind, KVL_JSON_NULL);
  ck_assert_uint_eq(kvl_json_member(root, "e")->kind, KVL_JSON_FALSE);
  ck_assert_ptr_null(kvl_json_member(root, "f"));
  ck_assert_ptr_null(kvl_json_member(a, "a"));
  kvl_arena_free(&arena);
}
END_TEST

/* `count` times `open`, then `middle`, then `count` times `close`. */
static int parse_nested(int count, const char *open, const char *middle, const char *close)
{
  char text[8192] = "";
  size_t used = 0;
  for (int i = 0; i < 2 * count + 1; i++) {
    const char *part = i < count ? open : i == count ? middle : close;
    memcpy(text + used, part, strlen(part));
    used += strlen(part);
  }
  struct kvl_arena arena = {0};
  struct kvl_json *root = NULL;
  int rc = kvl_json_parse(&arena, text, used, "f.json", &root, NULL);
  kvl_arena_free(&arena);
  return rc;
}

START_TEST(depth_and_members_are_bounded)
{
  ck_assert_int_eq(parse_nested(KVL_JSON_DEPTH_MAX, "[", "1", "]"), 0);
  ck_assert_int_eq(parse_nested(KVL_JSON_DEPTH_MAX + 1, "[", "1", "]"), -EINVAL);
  ck_assert_int_eq(parse_nested(2000, "[", "1", "]"), -EINVAL);
  char *many = malloc(2 * KVL_JSON_ELEMENTS_MAX + 64);
  size_t used = 0;
  many[used++] = '[';
  for (int i = 0; i < KVL_JSON_ELEMENTS_MAX + 1; i++) {
    memcpy(many + used, i > 0 ? ",1" : "1", 2);
    used += i > 0 ? 2 : 1;
  }
  many[used++] = ']';
  struct kvl_arena arena = {0};
  struct kvl_json *root = NULL;
  ck_assert_int_eq(kvl_json_parse(&arena, many, used, "f.json", &root, NULL), -EINVAL);
  memmove(many + 1, many + 3, used - 3); /* one element less is fine */
  ck_assert_int_eq(kvl_json_parse(&arena, many, used - 2, "f.json", &root, NULL), 0);
  kvl_arena_free(&arena);
  free(many);
  for (int more = 0; more < 2; more++) {
    char *object = NULL;
    FILE *out = open_memstream(&object, &used);
    ck_assert_ptr_nonnull(out);
    (void)fputs("{\"k\":1", out);
    for (int i = 1; i < KVL_JSON_MEMBERS_MAX + more; i++) {
      (void)fprintf(out, ",\"k%d\":1", i);
    }
    (void)fputs("}", out);
    ck_assert_int_eq(fclose(out), 0);
    struct kvl_arena other = {0};
    ck_assert_int_eq(kvl_json_parse(&other, object, used, "f.json", &root, NULL), more == 0 ? 0 : -EINVAL);
    kvl_arena_free(&other);
    free(object);
  }
}
END_TEST

START_TEST(merging_keeps_sections_and_replaces_values)
{
  static const char base_text[] = "{\"link\": {\"a\": 1, \"b\": 2}, \"n\": {\"value\": 1, \"origin\": \"x\"}, \"l\": [1, 2]}";
  static const char over_text[] = "{\"link\": {\"b\": 3, \"c\": 4}, \"n\": {\"value\": 5}, \"l\": [7]}";
  struct kvl_arena arena = {0};
  struct kvl_json *base = NULL, *over = NULL;
  ck_assert_int_eq(kvl_json_parse(&arena, base_text, sizeof base_text - 1, "base", &base, NULL), 0);
  ck_assert_int_eq(kvl_json_parse(&arena, over_text, sizeof over_text - 1, "over", &over, NULL), 0);
  kvl_json_merge(base, over);
  const struct kvl_json *link = kvl_json_member(base, "link");
  ck_assert_str_eq(kvl_json_member(link, "a")->text, "1");
  ck_assert_str_eq(kvl_json_member(link, "b")->text, "3");
  ck_assert_str_eq(kvl_json_member(link, "c")->text, "4");
  ck_assert_str_eq(kvl_json_member(link, "b")->place, "over");
  ck_assert_ptr_null(kvl_json_member(kvl_json_member(base, "n"), "origin"));
  ck_assert_str_eq(kvl_json_member(base, "l")->child->text, "7");
  ck_assert_ptr_null(kvl_json_member(base, "l")->child->next);
  ck_assert_str_eq(kvl_json_take(base, "n")->key, "n");
  ck_assert_ptr_null(kvl_json_take(base, "n"));
  kvl_arena_free(&arena);
}
END_TEST

KVL_TAP_MAIN("scenario_json", broken_text_is_named, every_value_knows_its_line, depth_and_members_are_bounded,
             merging_keeps_sections_and_replaces_values)
