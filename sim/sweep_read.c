/* SWEEP.json into a design. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/text.h"
#include "sim/design_json.h"
#include "sim/sweep.h"

enum { AXES_MAX = KVL_SWEEP_KEYS_MAX, NAME_MAX_BYTES = 96, VALUES_MAX = 1024 };

static int no_memory(const struct kvl_sweep *sweep, struct kvl_err *err)
{
  return kvl_err_set(err, -ENOMEM, "%s: out of memory", sweep->file);
}

/* ---- values as text ---- */

static void put_json(FILE *out, const struct kvl_json *node)
{
  const char *separator = "";
  switch (node->kind) {
  case KVL_JSON_NULL:
    (void)fputs("null", out);
    return;
  case KVL_JSON_FALSE:
  case KVL_JSON_TRUE:
    (void)fputs(node->kind == KVL_JSON_TRUE ? "true" : "false", out);
    return;
  case KVL_JSON_NUMBER:
    (void)fputs(node->text, out);
    return;
  case KVL_JSON_STRING:
    kvl_text_json_string(out, node->text);
    return;
  case KVL_JSON_ARRAY:
  case KVL_JSON_OBJECT:
    (void)fputc(node->kind == KVL_JSON_ARRAY ? '[' : '{', out);
    for (const struct kvl_json *child = node->child; child != NULL; child = child->next) {
      (void)fputs(separator, out);
      if (node->kind == KVL_JSON_OBJECT) {
        kvl_text_json_string(out, child->key);
        (void)fputc(':', out);
      }
      put_json(out, child);
      separator = ",";
    }
    (void)fputc(node->kind == KVL_JSON_ARRAY ? ']' : '}', out);
    return;
  }
}

const char *kvl_sweep_json_text(struct kvl_arena *arena, const char *prefix, const struct kvl_json *node)
{
  char *text = NULL, *kept = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  (void)fputs(prefix, out);
  put_json(out, node);
  if (fclose(out) == 0) {
    kept = kvl_arena_text(arena, text, size);
  }
  free(text);
  return kept;
}

/* ---- what holds for every point ---- */

static int read_sets(struct kvl_sweep *sweep, const struct kvl_json *root, const char *const *sets, unsigned set_count, struct kvl_err *err)
{
  const struct kvl_json *object = kvl_json_member(root, "set");
  unsigned count = set_count;
  if (object != NULL && object->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, object, "set", "must be an object of scenario keys and values, is %s", kvl_json_kind_name(object->kind));
  }
  for (const struct kvl_json *child = object == NULL ? NULL : object->child; child != NULL; child = child->next) {
    count++;
  }
  sweep->set = kvl_arena_take(&sweep->arena, (count + 1u) * sizeof *sweep->set);
  if (sweep->set == NULL) {
    return no_memory(sweep, err);
  }
  for (const struct kvl_json *child = object == NULL ? NULL : object->child; child != NULL; child = child->next) {
    char prefix[256];
    int rc = kvl_design_pair("the sweep's", child->key, child, err);
    if (rc != 0) {
      return rc;
    }
    if (snprintf(prefix, sizeof prefix, "%s=", child->key) >= (int)sizeof prefix) {
      return kvl_scenario_bad(err, child, "set", "a key that is far too long");
    }
    if ((sweep->set[sweep->sets++] = kvl_sweep_json_text(&sweep->arena, prefix, child)) == NULL) {
      return no_memory(sweep, err);
    }
  }
  sweep->typed = set_count;
  for (unsigned i = 0; i < set_count; i++) {
    if (strncmp(sets[i], "seed=", 5) == 0) {
      return kvl_err_set(err, -EINVAL, "--set=%s: a sweep's seeds come from its own \"seed\" and \"repeats\"", sets[i]);
    }
    if ((sweep->set[sweep->sets++] = kvl_arena_text(&sweep->arena, sets[i], strlen(sets[i]))) == NULL) {
      return no_memory(sweep, err);
    }
  }
  return 0;
}

/* Whether the points are scenarios at all; what else is wrong with their base, the first point that is made of it says. */
static int check_base(struct kvl_sweep *sweep, const char *path, const char *text, struct kvl_err *err)
{
  struct kvl_json *base;
  int rc = kvl_json_parse(&sweep->arena, text, sweep->base_size, path, &base, NULL);
  return rc != 0 ? 0 : kvl_file_check_kind(base, path, KVL_FILE_SCENARIO, err);
}

static int find_base(struct kvl_sweep *sweep, const struct kvl_json *root, struct kvl_err *err)
{
  char path[KVL_PATH_CAP], *text = NULL;
  int rc = kvl_design_scenario(sweep->file, root, sweep->scenario, path, err);
  rc = rc != 0 ? rc : kvl_scenario_read_file(path, &text, &sweep->base_size, err);
  rc = rc != 0 ? rc : check_base(sweep, path, text, err);
  if (rc == 0) {
    sweep->base = kvl_arena_text(&sweep->arena, text, sweep->base_size);
    sweep->scenario_file = kvl_arena_text(&sweep->arena, path, strlen(path));
    rc = sweep->base == NULL || sweep->scenario_file == NULL ? no_memory(sweep, err) : 0;
  }
  free(text);
  return rc;
}

/* ---- keys and axes ---- */

/* A key of the design; -EINVAL when it is there already. */
static int add_key(struct kvl_sweep *sweep, const char *key, const struct kvl_json *node, struct kvl_err *err)
{
  for (unsigned i = 0; i < sweep->keys; i++) {
    if (strcmp(sweep->key[i], key) == 0) {
      return kvl_scenario_bad(err, node, key, "is changed by two parts of the design");
    }
  }
  if (sweep->keys == KVL_SWEEP_KEYS_MAX) {
    return kvl_scenario_bad(err, node, key, "a design may change up to %d keys", (int)KVL_SWEEP_KEYS_MAX);
  }
  int set = sweep->kind == KVL_SWEEP_LIST ? -1 : kvl_design_typed(sweep->set, sweep->sets, key); /* a list's points may leave a key out */
  if (set >= 0) {
    bool typed = (unsigned)set >= sweep->sets - sweep->typed;
    return kvl_scenario_bad(err, node, key, "is changed by the design and set as well (%s%s): one of the two", typed ? "--set=" : "in its \"set\": ", sweep->set[set]);
  }
  sweep->key[sweep->keys++] = key;
  return 0;
}

static bool all_objects(const struct kvl_json *array)
{
  for (const struct kvl_json *child = array->child; child != NULL; child = child->next) {
    if (child->kind != KVL_JSON_OBJECT) {
      return false;
    }
  }
  return array->child != NULL;
}

static uint32_t count_children(const struct kvl_json *node)
{
  uint32_t count = 0;
  for (const struct kvl_json *child = node->child; child != NULL; child = child->next) {
    count++;
  }
  return count;
}

/* An axis of objects: each sets the same keys. */
static int read_bundle(struct kvl_sweep *sweep, struct kvl_sweep_axis *axis, const struct kvl_json *array, struct kvl_err *err)
{
  int rc = 0;
  for (const struct kvl_json *pair = array->child->child; pair != NULL && rc == 0; pair = pair->next) {
    rc = add_key(sweep, pair->key, pair, err);
    axis->keys++;
  }
  if (rc == 0 && axis->keys == 0) {
    rc = kvl_scenario_bad(err, array->child, array->key, "an object that sets no keys");
  }
  axis->value = rc != 0 ? NULL : kvl_arena_take(&sweep->arena, (size_t)axis->values * axis->keys * sizeof *axis->value);
  if (rc == 0 && axis->value == NULL) {
    return no_memory(sweep, err);
  }
  uint32_t v = 0;
  for (const struct kvl_json *object = array->child; object != NULL && rc == 0; object = object->next, v++) {
    if (count_children(object) != axis->keys) {
      return kvl_scenario_bad(err, object, array->key, "sets %u keys, the first of its axis %u: all must set the same", (unsigned)count_children(object),
                              axis->keys);
    }
    for (unsigned k = 0; k < axis->keys && rc == 0; k++) {
      const char *key = sweep->key[axis->first_key + k];
      const struct kvl_json *value = kvl_json_member(object, key);
      rc = value == NULL ? kvl_scenario_bad(err, object, array->key, "does not set %s, as the first of its axis does", key) : kvl_design_pair("the sweep's", key, value, err);
      if (rc == 0 && (axis->value[(size_t)v * axis->keys + k] = kvl_sweep_json_text(&sweep->arena, "", value)) == NULL) {
        rc = no_memory(sweep, err);
      }
    }
    for (uint32_t other = 0; other < v && rc == 0; other++) {
      unsigned alike = 0;
      while (alike < axis->keys && kvl_design_same(axis->value[(size_t)other * axis->keys + alike], axis->value[(size_t)v * axis->keys + alike])) {
        alike++;
      }
      rc = alike == axis->keys ? kvl_scenario_bad(err, object, array->key, "object %u sets the same values as object %u", (unsigned)v + 1, (unsigned)other + 1) : 0;
    }
  }
  return rc;
}

static int read_values(struct kvl_sweep *sweep, struct kvl_sweep_axis *axis, const struct kvl_json *array, struct kvl_err *err)
{
  *axis = (struct kvl_sweep_axis){.node = array, .first_key = sweep->keys, .values = count_children(array)};
  if (array->kind != KVL_JSON_ARRAY || array->child == NULL) {
    return kvl_scenario_bad(err, array, array->key, array->kind == KVL_JSON_ARRAY ? "has no values" : "must be an array of values, is %s",
                            kvl_json_kind_name(array->kind));
  }
  if (axis->values > VALUES_MAX) { /* they are compared with one another */
    return kvl_scenario_bad(err, array, array->key, "up to %d values of one key; a list of points may have %d", (int)VALUES_MAX, (int)KVL_SWEEP_POINTS_MAX);
  }
  struct kvl_err cause = {""};
  int rc = kvl_design_pair("the sweep's", array->key, array->child, &cause);
  if (rc == -EINVAL && all_objects(array)) {
    return read_bundle(sweep, axis, array, err);
  }
  axis->keys = 1;
  rc = add_key(sweep, array->key, array, err);
  axis->value = rc != 0 ? NULL : kvl_arena_take(&sweep->arena, axis->values * sizeof *axis->value);
  if (rc == 0 && axis->value == NULL) {
    return no_memory(sweep, err);
  }
  uint32_t v = 0;
  for (const struct kvl_json *value = array->child; value != NULL && rc == 0; value = value->next, v++) {
    rc = kvl_design_pair("the sweep's", array->key, value, err);
    if (rc == 0 && (axis->value[v] = kvl_sweep_json_text(&sweep->arena, "", value)) == NULL) {
      rc = no_memory(sweep, err);
    }
    for (uint32_t other = 0; other < v && rc == 0; other++) {
      if (kvl_design_same(axis->value[other], axis->value[v])) {
        rc = kvl_scenario_bad(err, value, array->key, "%s is given twice", axis->value[v]);
      }
    }
  }
  return rc;
}

/* {"from": A, "to": B, ...} of a random design. */
static int read_range(struct kvl_sweep *sweep, struct kvl_sweep_axis *axis, const struct kvl_json *range, struct kvl_err *err)
{
  static const char *const known[] = {"from", "to", "scale", "multiple_of"}, *const scales[] = {"linear", "log"};
  const struct kvl_json *from = kvl_json_member(range, "from"), *to = kvl_json_member(range, "to"), *scale = kvl_json_member(range, "scale");
  *axis = (struct kvl_sweep_axis){.node = range, .first_key = sweep->keys, .keys = 1};
  int rc = kvl_design_members(range, "a range", known, 4, err);
  if (rc == 0 && (from == NULL || to == NULL)) {
    rc = kvl_scenario_bad(err, range, range->key, "a range needs \"from\" and \"to\"");
  }
  rc = rc != 0 ? rc : kvl_design_pair("the sweep's", range->key, from, err);
  rc = rc != 0 ? rc : kvl_design_pair("the sweep's", range->key, to, err);
  if (rc == 0 && (from->kind != KVL_JSON_NUMBER || to->kind != KVL_JSON_NUMBER)) {
    rc = kvl_scenario_bad(err, range, range->key, "a range is for numbers; give the choices as an array");
  }
  if (rc == 0 && scale != NULL &&
      (scale->kind != KVL_JSON_STRING || (strcmp(scale->text, scales[0]) != 0 && strcmp(scale->text, scales[1]) != 0))) {
    rc = kvl_scenario_bad(err, scale, "scale", "must be linear or log (nearest: %s)",
                          scale->kind == KVL_JSON_STRING ? kvl_nearest(scale->text, scales, 2) : "linear");
  }
  rc = rc != 0 ? rc : kvl_design_count(range, "multiple_of", "multiple_of", 1, 1, UINT32_MAX, &axis->multiple_of, err);
  if (rc != 0) {
    return rc;
  }
  axis->log = scale != NULL && strcmp(scale->text, "log") == 0;
  axis->from = from->text;
  axis->to = to->text;
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const char *path = strncmp(range->key, "node.hardware.", 14) == 0 ? range->key + 5 : range->key;
    axis->whole = axis->whole || (strcmp(kvl_keys[i].path, path) == 0 && kvl_keys[i].type == KVL_KEY_COUNT);
  }
  double low = strtod(axis->from, NULL), high = strtod(axis->to, NULL);
  if (low > high || (axis->log && !(low > 0))) {
    return kvl_scenario_bad(err, range, range->key, low > high ? "\"from\" is above \"to\"" : "a log scale begins above 0");
  }
  if (axis->multiple_of > 1 && (!axis->whole || (double)axis->multiple_of * (double)(uint64_t)(high / (double)axis->multiple_of) < low)) {
    return kvl_scenario_bad(err, range, range->key, axis->whole ? "no multiple of %llu lies between \"from\" and \"to\"" : "\"multiple_of\" %llu is for whole numbers",
                            (unsigned long long)axis->multiple_of);
  }
  return add_key(sweep, range->key, range, err);
}

static int read_axes(struct kvl_sweep *sweep, const struct kvl_json *object, const char *what, bool ranges, struct kvl_sweep_axis *axes, unsigned *count,
                     struct kvl_err *err)
{
  *count = 0;
  if (object == NULL || object->kind != KVL_JSON_OBJECT || object->child == NULL) {
    return kvl_scenario_bad(err, object, what, "must be an object of scenario keys, each with an array of values%s", ranges ? " or a range" : "");
  }
  for (const struct kvl_json *child = object->child; child != NULL; child = child->next) {
    if (*count == AXES_MAX) {
      return kvl_scenario_bad(err, child, what, "more than %d axes", (int)AXES_MAX);
    }
    int rc = ranges && child->kind == KVL_JSON_OBJECT ? read_range(sweep, &axes[*count], child, err) : read_values(sweep, &axes[*count], child, err);
    if (rc != 0) {
      return rc;
    }
    (*count)++;
  }
  return 0;
}

static int read_random(struct kvl_sweep *sweep, const struct kvl_json *object, struct kvl_sweep_axis *axes, struct kvl_err *err)
{
  static const char *const known[] = {"points", "keys"};
  uint64_t points;
  unsigned count;
  if (object->kind != KVL_JSON_OBJECT || kvl_json_member(object, "points") == NULL || kvl_json_member(object, "keys") == NULL) {
    return kvl_scenario_bad(err, object, "random", "must be {\"points\": N, \"keys\": {...}}");
  }
  int rc = kvl_design_members(object, "a random design", known, 2, err);
  rc = rc != 0 ? rc : kvl_design_count(object, "random.points", "points", 0, 1, KVL_SWEEP_POINTS_MAX, &points, err);
  rc = rc != 0 ? rc : read_axes(sweep, kvl_json_member(object, "keys"), "random.keys", true, axes, &count, err);
  return rc != 0 ? rc : kvl_sweep_expand_random(sweep, axes, count, (uint32_t)points, err);
}

static int read_list(struct kvl_sweep *sweep, const struct kvl_json *list, struct kvl_err *err)
{
  if (list->kind != KVL_JSON_ARRAY || !all_objects(list)) {
    return kvl_scenario_bad(err, list, "list", "must be an array of objects, one a point");
  }
  int rc = 0;
  for (const struct kvl_json *point = list->child; point != NULL; point = point->next) {
    for (const struct kvl_json *pair = point->child; pair != NULL && rc == 0; pair = pair->next) {
      bool seen = false;
      for (unsigned k = 0; k < sweep->keys; k++) {
        seen = seen || strcmp(sweep->key[k], pair->key) == 0;
      }
      rc = kvl_design_pair("the sweep's", pair->key, pair, err);
      rc = rc != 0 || seen ? rc : add_key(sweep, pair->key, pair, err);
    }
    sweep->points++;
  }
  sweep->value = rc != 0 ? NULL : kvl_arena_take(&sweep->arena, (size_t)sweep->points * (sweep->keys + 1u) * sizeof *sweep->value);
  if (rc == 0 && sweep->value == NULL) {
    return no_memory(sweep, err);
  }
  uint32_t p = 0;
  for (const struct kvl_json *point = list->child; point != NULL && rc == 0; point = point->next, p++) {
    for (unsigned k = 0; k < sweep->keys && rc == 0; k++) {
      const struct kvl_json *value = kvl_json_member(point, sweep->key[k]);
      const char **cell = &sweep->value[(size_t)p * sweep->keys + k];
      if (value != NULL && (*cell = kvl_sweep_json_text(&sweep->arena, "", value)) == NULL) {
        rc = no_memory(sweep, err);
      }
    }
  }
  return rc != 0 ? rc : kvl_sweep_check_distinct(sweep, err);
}

/* ---- the whole ---- */

static int read_design(struct kvl_sweep *sweep, const struct kvl_json *root, struct kvl_err *err)
{
  struct kvl_sweep_axis *axes = kvl_arena_take(&sweep->arena, AXES_MAX * sizeof *axes);
  sweep->key = kvl_arena_take(&sweep->arena, KVL_SWEEP_KEYS_MAX * sizeof *sweep->key);
  if (axes == NULL || sweep->key == NULL) {
    return no_memory(sweep, err);
  }
  static const char *const kinds[] = {"grid", "list", "random"};
  const struct kvl_json *found = NULL;
  for (int k = 0; k < 3; k++) {
    const struct kvl_json *node = kvl_json_member(root, kinds[k]);
    if (node != NULL && found != NULL) {
      return kvl_scenario_bad(err, node, kinds[k], "is given beside \"%s\": a design is one of grid, list and random", found->key);
    }
    if (node != NULL) {
      found = node;
      sweep->kind = (enum kvl_sweep_kind)k;
    }
  }
  if (found == NULL) {
    return kvl_scenario_bad(err, root, "grid", "is missing: a design is one of grid, list and random");
  }
  unsigned count;
  int rc;
  switch (sweep->kind) {
  case KVL_SWEEP_LIST:
    return read_list(sweep, found, err);
  case KVL_SWEEP_RANDOM:
    return read_random(sweep, found, axes, err);
  case KVL_SWEEP_GRID:
    rc = read_axes(sweep, found, "grid", false, axes, &count, err);
    return rc != 0 ? rc : kvl_sweep_expand_grid(sweep, axes, count, err);
  }
  return -EINVAL;
}

static int read_all(struct kvl_sweep *sweep, const char *text, size_t size, const char *const *sets, unsigned set_count, struct kvl_err *err)
{
  static const char *const rules[] = {"common", "independent"};
  struct kvl_json *root;
  unsigned rule;
  uint64_t repeats;
  int rc = kvl_file_parse(&sweep->arena, text, size, sweep->file, KVL_FILE_SWEEP, &root, err);
  if (rc == 0 && root->kind != KVL_JSON_OBJECT) {
    rc = kvl_err_set(err, -EINVAL, "%s:%u: a sweep must be an object, is %s", sweep->file, (unsigned)root->line, kvl_json_kind_name(root->kind));
  }
  rc = rc != 0 ? rc : kvl_design_kind(root, sweep->file, KVL_FILE_SWEEP, "a sweep", err);
  const char *by_file = kvl_design_name(&sweep->arena, sweep->file, NAME_MAX_BYTES);
  rc = rc != 0 ? rc : by_file == NULL ? no_memory(sweep, err) : kvl_design_word(root, "name", by_file, 1, NAME_MAX_BYTES, &sweep->name, err);
  rc = rc != 0 ? rc : kvl_design_word(root, "note", "", 0, 0, &sweep->note, err);
  rc = rc != 0 ? rc : kvl_design_word(root, "scenario", NULL, 1, KVL_PATH_CAP - 1, &sweep->scenario, err);
  rc = rc != 0 ? rc : kvl_design_choice(root, "seeds", rules, 2, &rule, err);
  rc = rc != 0 ? rc : kvl_design_count(root, "repeats", "repeats", 1, 1, KVL_SWEEP_REPEATS_MAX, &repeats, err);
  rc = rc != 0 ? rc : kvl_design_count(root, "seed", "seed", 1, 0, UINT64_MAX - KVL_SWEEP_REPEATS_MAX, &sweep->seed, err);
  if (rc == 0) {
    sweep->repeats = (uint32_t)repeats;
    sweep->independent = rule == 1;
  }
  rc = rc != 0 ? rc : read_sets(sweep, root, sets, set_count, err);
  rc = rc != 0 ? rc : read_design(sweep, root, err);
  if (rc == 0 && kvl_sweep_tasks(sweep) > KVL_SWEEP_TASKS_MAX) {
    rc = kvl_scenario_bad(err, root, "repeats", "%u points x %u repeats are more than %d runs (nearest: %u repeats)", (unsigned)sweep->points,
                          (unsigned)sweep->repeats, (int)KVL_SWEEP_TASKS_MAX, (unsigned)KVL_SWEEP_TASKS_MAX / sweep->points);
  }
  return rc != 0 ? rc : find_base(sweep, root, err);
}

int kvl_sweep_parse(struct kvl_sweep **out, const char *text, size_t size, const char *file, const char *const *sets, unsigned set_count,
                    struct kvl_err *err)
{
  *out = NULL;
  if (strlen(file) >= KVL_PATH_CAP) {
    return kvl_err_set(err, -EINVAL, "%.80s...: the name is too long", file);
  }
  struct kvl_sweep *sweep = calloc(1, sizeof *sweep);
  if (sweep == NULL || (sweep->file = kvl_arena_text(&sweep->arena, file, strlen(file))) == NULL) {
    kvl_sweep_free(sweep);
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", file);
  }
  int rc = read_all(sweep, text, size, sets, set_count, err);
  if (rc != 0) {
    kvl_sweep_free(sweep);
    return rc;
  }
  *out = sweep;
  return 0;
}

int kvl_sweep_load(struct kvl_sweep **sweep, const char *path, const char *const *sets, unsigned set_count, struct kvl_err *err)
{
  char file[KVL_PATH_CAP], *text = NULL;
  size_t size = 0;
  *sweep = NULL;
  int rc = kvl_scenario_find_file(path, KVL_FILE_SWEEP, file, err);
  rc = rc != 0 ? rc : kvl_scenario_read_file(file, &text, &size, err);
  rc = rc != 0 ? rc : kvl_sweep_parse(sweep, text, size, file, sets, set_count, err);
  free(text);
  return rc;
}

void kvl_sweep_free(struct kvl_sweep *sweep)
{
  if (sweep != NULL) {
    kvl_arena_free(&sweep->arena);
    free(sweep);
  }
}
