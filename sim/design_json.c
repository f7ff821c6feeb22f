#include "sim/design_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/nearest.h"
#include "results/text.h"
#include "sim/scenario_number.h"

int kvl_design_members(const struct kvl_json *object, const char *what, const char *const *known, unsigned count, struct kvl_err *err)
{
  if (object->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, object, what, "must be an object, is %s", kvl_json_kind_name(object->kind));
  }
  for (const struct kvl_json *child = object->child; child != NULL; child = child->next) {
    bool found = false;
    for (unsigned i = 0; i < count; i++) {
      found = found || strcmp(known[i], child->key) == 0;
    }
    if (!found) {
      return kvl_scenario_bad(err, child, child->key, "not a part of %s (nearest: %s)", what, kvl_nearest(child->key, known, count));
    }
  }
  return 0;
}

int kvl_design_kind(const struct kvl_json *root, const char *file, enum kvl_file_kind kind, const char *what, struct kvl_err *err)
{
  unsigned count;
  const char *const *known = kvl_file_members(kind, &count);
  int rc = kvl_file_check_kind(root, file, kind, err);
  return rc != 0 ? rc : kvl_design_members(root, what, known, count, err);
}

int kvl_design_word(const struct kvl_json *object, const char *key, const char *fallback, unsigned least, unsigned most, const char **word, struct kvl_err *err)
{
  const struct kvl_json *node = kvl_json_member(object, key);
  *word = fallback;
  if (node == NULL && fallback == NULL) {
    return kvl_scenario_bad(err, object, key, "is missing");
  }
  if (node == NULL) {
    return 0;
  }
  if (node->kind != KVL_JSON_STRING) {
    return kvl_scenario_bad(err, node, key, "must be a string, is %s", kvl_json_kind_name(node->kind));
  }
  if (!kvl_text_printable(node->text)) { /* JSON is UTF-8: it can be nothing else */
    return kvl_scenario_bad(err, node, key, "holds a control character");
  }
  size_t length = strlen(node->text);
  if (most > 0 && (length < least || length > most)) {
    return kvl_scenario_bad(err, node, key, "must be %u to %u bytes long", least, most);
  }
  *word = node->text;
  return 0;
}

int kvl_design_choice(const struct kvl_json *object, const char *key, const char *const *choices, unsigned count, unsigned *choice, struct kvl_err *err)
{
  const char *word;
  int rc = kvl_design_word(object, key, choices[0], 0, 0, &word, err);
  for (*choice = 0; rc == 0 && *choice < count; (*choice)++) {
    if (strcmp(word, choices[*choice]) == 0) {
      return 0;
    }
  }
  char all[128] = "";
  for (unsigned i = 0, used = 0; i < count && used < sizeof all; i++) {
    int n = snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", choices[i]);
    used += n > 0 ? (unsigned)n : 0;
  }
  return rc != 0 ? rc : kvl_scenario_bad(err, kvl_json_member(object, key), key, "must be %s, is \"%.60s\" (nearest: %s)", all, word, kvl_nearest(word, choices, count));
}

int kvl_design_count(const struct kvl_json *object, const char *label, const char *key, uint64_t fallback, uint64_t min, uint64_t max, uint64_t *count, struct kvl_err *err)
{
  const struct kvl_json *node = kvl_json_member(object, key);
  bool exact;
  *count = fallback;
  if (node == NULL) {
    return 0;
  }
  if (node->kind != KVL_JSON_NUMBER) {
    return kvl_scenario_bad(err, node, label, "must be a whole number, is %s", kvl_json_kind_name(node->kind));
  }
  int rc = kvl_decimal_parse(node->text, 1, count, &exact);
  if (rc == -EDOM || *count < min) {
    return kvl_scenario_bad(err, node, label, "must be at least %llu, is %s (nearest: %llu)", (unsigned long long)min, node->text, (unsigned long long)min);
  }
  if (rc != 0 || *count > max) {
    return kvl_scenario_bad(err, node, label, "must be at most %llu, is %s (nearest: %llu)", (unsigned long long)max, node->text, (unsigned long long)max);
  }
  return exact ? 0 : kvl_scenario_bad(err, node, label, "must be a whole number, is %s (nearest: %llu)", node->text, (unsigned long long)*count);
}

int kvl_design_amount(const struct kvl_json *object, const char *key, double min, double max, double *value, struct kvl_err *err)
{
  const struct kvl_json *node = kvl_json_member(object, key);
  *value = NAN;
  if (node == NULL) {
    return 0;
  }
  if (node->kind != KVL_JSON_NUMBER) {
    return kvl_scenario_bad(err, node, key, "must be a number, is %s", kvl_json_kind_name(node->kind));
  }
  *value = strtod(node->text, NULL);
  if (*value >= min && *value <= max) {
    return 0;
  }
  if (!(*value > 0) && min > 0) {
    return kvl_scenario_bad(err, node, key, "must be more than 0, is %s", node->text);
  }
  return kvl_scenario_bad(err, node, key, "must be at %s %.10g, is %s (nearest: %.10g)", *value < min ? "least" : "most", *value < min ? min : max, node->text,
                          *value < min ? min : max);
}

int kvl_design_number(const char *word, double *value)
{
  char *end = NULL;
  if (strspn(word, "0123456789.eE+-") != strlen(word) || word[strspn(word, "-")] < '0' || word[strspn(word, "-")] > '9') {
    return -EINVAL;
  }
  *value = strtod(word, &end);
  return *end == '\0' && isfinite(*value) ? 0 : -EINVAL;
}

int kvl_design_pair(const char *owner, const char *key, const struct kvl_json *value, struct kvl_err *err)
{
  if (strcmp(key, "seed") == 0) {
    return kvl_scenario_bad(err, value, key, "comes from %s own \"seed\" and \"repeats\"", owner);
  }
  return kvl_scenario_check_value(key, value, err);
}

bool kvl_design_same(const char *a, const char *b)
{
  double x, y;
  return strcmp(a, b) == 0 || (kvl_design_number(a, &x) == 0 && kvl_design_number(b, &y) == 0 && !(x < y) && !(x > y));
}

int kvl_design_scenario(const char *file, const struct kvl_json *root, const char *scenario, char path[KVL_PATH_CAP], struct kvl_err *err)
{
  const char *slash = strrchr(file, '/');
  size_t n = strlen(scenario);
  bool is_file = strchr(scenario, '/') != NULL || (n > 5 && strcmp(scenario + n - 5, ".json") == 0);
  int length = slash != NULL && is_file && scenario[0] != '/' ? snprintf(path, KVL_PATH_CAP, "%.*s/%s", (int)(slash - file), file, scenario) : 0;
  struct kvl_err cause = {""};
  if (length < 0 || length >= KVL_PATH_CAP) {
    return kvl_scenario_bad(err, kvl_json_member(root, "scenario"), "scenario", "the name is too long");
  }
  if (length > 0 && access(path, F_OK) == 0) {
    return 0;
  }
  int rc = kvl_scenario_find_scenario(scenario, path, &cause);
  if (rc != 0) {
    (void)kvl_scenario_bad(err, kvl_json_member(root, "scenario"), "scenario", "%s", cause.text);
  }
  return rc;
}

const char *kvl_design_name(struct kvl_arena *arena, const char *file, size_t most)
{
  const char *slash = strrchr(file, '/'), *base = slash == NULL ? file : slash + 1;
  size_t length = strlen(base);
  length = length > 5 && strcmp(base + length - 5, ".json") == 0 ? length - 5 : length;
  length = length < most ? length : most;
  while (length > 0 && length == most && ((unsigned char)base[length] & 0xc0) == 0x80) {
    length--; /* whole characters */
  }
  return kvl_arena_text(arena, base, length);
}

int kvl_design_typed(const char *const *typed, unsigned count, const char *key)
{
  size_t length = strlen(key);
  for (unsigned i = count; i-- > 0;) { /* the last one holds */
    if (strncmp(typed[i], key, length) == 0 && typed[i][length] == '=') {
      return (int)i;
    }
  }
  return -1;
}
