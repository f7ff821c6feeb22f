/* PLAN.json into a plan. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/nearest.h"
#include "results/text.h"
#include "sim/design_json.h"
#include "sim/plan.h"

enum { SETS_MAX = 160 };

static const struct {
  const char *name, *meaning, *unit;
} targets[KVL_PLAN_TARGETS] = {
  {"ttft_p90_s", "time to first token, p90", "s"},
  {"rate_p10_tok_per_s", "rate of a request, p10", "tok/s"},
  {"tpot_p90_ms", "time per output token, p90", "ms"},
  {"concurrency", "sessions held on the decode GPUs at once", "sessions"},
};

const char *kvl_plan_target_name(enum kvl_plan_target target)
{
  return (unsigned)target < KVL_PLAN_TARGETS ? targets[target].name : "?";
}

const char *kvl_plan_target_meaning(enum kvl_plan_target target)
{
  return (unsigned)target < KVL_PLAN_TARGETS ? targets[target].meaning : "?";
}

const char *kvl_plan_target_unit(enum kvl_plan_target target)
{
  return (unsigned)target < KVL_PLAN_TARGETS ? targets[target].unit : "?";
}

static int no_memory(const struct kvl_capacity_plan *plan, struct kvl_err *err)
{
  return kvl_err_set(err, -ENOMEM, "%s: out of memory", plan->file);
}

/* ---- settings ---- */

static int add_text(struct kvl_capacity_plan *plan, const char *key, const char *value, struct kvl_err *err)
{
  if (plan->sets == SETS_MAX) {
    return kvl_err_set(err, -EINVAL, "%s: more than %d settings", plan->file, (int)SETS_MAX);
  }
  for (unsigned i = 0; i < plan->sets; i++) {
    if (strcmp(plan->set[i].key, key) == 0) { /* the later one holds; a design may name a key once */
      plan->set[i].value = value;
      return value == NULL ? no_memory(plan, err) : 0;
    }
  }
  plan->set[plan->sets++] = (struct kvl_plan_pair){key, value};
  return value == NULL || key == NULL ? no_memory(plan, err) : 0;
}

static int add_node_value(struct kvl_capacity_plan *plan, const char *key, const struct kvl_json *value, struct kvl_err *err)
{
  int rc = kvl_design_pair("the plan's", key, value, err);
  return rc != 0 ? rc : add_text(plan, key, kvl_sweep_json_text(&plan->arena, "", value), err);
}

static int read_set(struct kvl_capacity_plan *plan, const struct kvl_json *object, const char *label, struct kvl_plan_pair **pairs, unsigned *count, struct kvl_err *err)
{
  *pairs = NULL;
  *count = 0;
  if (object == NULL) {
    return 0;
  }
  if (object->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, object, label, "must be an object of scenario keys and values, is %s", kvl_json_kind_name(object->kind));
  }
  unsigned n = 0;
  for (const struct kvl_json *child = object->child; child != NULL; child = child->next) {
    n++;
  }
  *pairs = kvl_arena_take(&plan->arena, (n + 1u) * sizeof **pairs);
  int rc = *pairs == NULL ? no_memory(plan, err) : 0;
  for (const struct kvl_json *child = object->child; child != NULL && rc == 0; child = child->next) {
    rc = kvl_design_pair("the plan's", child->key, child, err);
    const char *value = rc != 0 ? NULL : kvl_sweep_json_text(&plan->arena, "", child);
    rc = rc == 0 && value == NULL ? no_memory(plan, err) : rc;
    (*pairs)[(*count)++] = (struct kvl_plan_pair){child->key, value};
  }
  return rc;
}

/* A name of a file in the plan begins in the plan's folder, as in a scenario. */
static int add_file(struct kvl_capacity_plan *plan, const char *name, struct kvl_err *err)
{
  char path[KVL_PATH_CAP], *text = NULL;
  size_t size = 0;
  const char *slash = strrchr(plan->file, '/');
  int n = slash != NULL && name[0] != '/' ? snprintf(path, sizeof path, "%.*s/%s", (int)(slash - plan->file), plan->file, name) : snprintf(path, sizeof path, "%s", name);
  if (n < 0 || n >= (int)sizeof path) {
    return kvl_err_set(err, -EINVAL, "%s: workload: the name of the file is too long", plan->file);
  }
  if (access(path, R_OK) != 0 && access(name, R_OK) == 0) {
    (void)snprintf(path, sizeof path, "%s", name);
  }
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return no_memory(plan, err);
  }
  kvl_text_json_string(out, path);
  const char *kept = fclose(out) == 0 ? kvl_arena_text(&plan->arena, text, size) : NULL;
  free(text);
  return add_text(plan, "workload.file", kept, err);
}

/* A workload of the plan's own replaces the scenario's whole: keys that it does not name have their defaults. */
static int read_workload(struct kvl_capacity_plan *plan, const struct kvl_json *node, struct kvl_err *err)
{
  int rc = 0;
  if (node->kind != KVL_JSON_STRING && node->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, node, "workload", "must be the name of a file or a scenario's workload section, is %s", kvl_json_kind_name(node->kind));
  }
  for (uint32_t i = 0; i < kvl_key_count && rc == 0; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    if (strncmp(key->path, "workload.", 9) == 0 && strcmp(key->path, "workload.file") != 0 && key->fallback != NULL) {
      const char *value = key->fallback;
      bool word = key->type == KVL_KEY_TEXT || key->type == KVL_KEY_WORD || key->type == KVL_KEY_CHOICE;
      char quoted[64];
      if (word && value[0] != '"') {
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", value);
        value = kvl_arena_text(&plan->arena, quoted, strlen(quoted));
      }
      rc = add_text(plan, key->path, value, err);
    }
  }
  if (rc == 0 && node->kind == KVL_JSON_STRING) {
    rc = add_text(plan, "workload.kind", "\"file\"", err);
    return rc != 0 ? rc : add_file(plan, node->text, err);
  }
  for (const struct kvl_json *child = node->child; child != NULL && rc == 0; child = child->next) {
    char key[96];
    const char *kept = snprintf(key, sizeof key, "workload.%s", child->key) < (int)sizeof key ? kvl_arena_text(&plan->arena, key, strlen(key)) : NULL;
    if (kept == NULL) {
      return kvl_scenario_bad(err, child, "workload", "a key that is far too long");
    }
    const struct kvl_json *inner = child->kind == KVL_JSON_OBJECT ? kvl_json_member(child, "value") : NULL;
    rc = strcmp(kept, "workload.file") == 0 && child->kind == KVL_JSON_STRING ? add_file(plan, child->text, err)
                                                                               : add_node_value(plan, kept, inner != NULL ? inner : child, err);
  }
  if (rc == 0 && kvl_json_member(node, "kind") == NULL) {
    rc = kvl_scenario_bad(err, node, "workload.kind", "is missing");
  }
  return rc;
}

static int read_descriptor(struct kvl_capacity_plan *plan, const struct kvl_json *root, const char *key, struct kvl_err *err)
{
  const struct kvl_json *node = kvl_json_member(root, key);
  return node == NULL ? 0 : add_node_value(plan, key, node, err);
}

/* ---- nodes ---- */

static int read_nodes(struct kvl_capacity_plan *plan, const struct kvl_json *root, struct kvl_err *err)
{
  static const char *const known[] = {"name", "set", "gpu_hour"};
  const struct kvl_json *array = kvl_json_member(root, "nodes");
  double price;
  int rc = kvl_design_amount(root, "gpu_hour", KVL_PLAN_PRICE_MIN, KVL_PLAN_PRICE_MAX, &price, err);
  if (rc != 0) {
    return rc;
  }
  if (array == NULL) {
    plan->node[plan->nodes++] = (struct kvl_plan_node){.name = "as in the scenario", .gpu_hour = price};
    return 0;
  }
  if (array->kind != KVL_JSON_ARRAY || array->child == NULL) {
    return kvl_scenario_bad(err, array, "nodes", "must be an array of {\"name\", \"set\", \"gpu_hour\"}, with one at least");
  }
  for (const struct kvl_json *node = array->child; node != NULL && rc == 0; node = node->next) {
    if (plan->nodes == KVL_PLAN_NODES_MAX) {
      return kvl_scenario_bad(err, node, "nodes", "up to %d nodes can be compared", (int)KVL_PLAN_NODES_MAX);
    }
    struct kvl_plan_node *to = &plan->node[plan->nodes++];
    rc = kvl_design_members(node, "a node", known, 3, err);
    rc = rc != 0 ? rc : kvl_design_word(node, "name", NULL, 1, KVL_PLAN_NAME_MAX, &to->name, err);
    rc = rc != 0 ? rc : read_set(plan, kvl_json_member(node, "set"), "set", &to->set, &to->sets, err);
    rc = rc != 0 ? rc : kvl_design_amount(node, "gpu_hour", KVL_PLAN_PRICE_MIN, KVL_PLAN_PRICE_MAX, &to->gpu_hour, err);
    to->gpu_hour = isnan(to->gpu_hour) ? price : to->gpu_hour;
    for (unsigned i = 0; rc == 0 && i + 1 < plan->nodes; i++) {
      if (strcmp(plan->node[i].name, to->name) == 0) {
        rc = kvl_scenario_bad(err, node, "nodes", "two are named %s", to->name);
      }
    }
  }
  for (unsigned i = 1; i < plan->nodes && rc == 0; i++) {
    if (isnan(plan->node[i].gpu_hour) != isnan(plan->node[0].gpu_hour)) {
      rc = kvl_scenario_bad(err, array, "nodes", "gpu_hour is given for some nodes and not for others: they could not be compared (nearest: for all, or for none)");
    }
  }
  return rc;
}

/* ---- target ---- */

static int target_of(const char *key)
{
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    if (strcmp(key, targets[t].name) == 0) {
      return t;
    }
  }
  return -1;
}

static const char *nearest_target(const char *key)
{
  const char *names[KVL_PLAN_TARGETS];
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    names[t] = targets[t].name;
  }
  return kvl_nearest(key, names, KVL_PLAN_TARGETS);
}

/* "TARGET=NUMBER" */
static int read_typed_target(const char *typed, int *target, double *value, struct kvl_err *err)
{
  char key[64];
  const char *equals = strchr(typed, '=');
  if (equals == NULL || kvl_design_number(equals + 1, value) != 0 || *value < KVL_PLAN_TARGET_MIN || *value > KVL_PLAN_TARGET_MAX) {
    return kvl_err_set(err, -EINVAL, "--target=%s: must be TARGET=NUMBER, the number from %.10g to %.10g, for example ttft_p90_s=2", typed, KVL_PLAN_TARGET_MIN, KVL_PLAN_TARGET_MAX);
  }
  (void)snprintf(key, sizeof key, "%.*s", (int)(equals - typed), typed);
  *target = target_of(key);
  if (*target < 0) {
    return kvl_err_set(err, -EINVAL, "--target=%s: no such target (nearest: %s)", typed, nearest_target(key));
  }
  return *target != KVL_PLAN_HOLD || *value == floor(*value) ? 0 : kvl_err_set(err, -EINVAL, "--target=%s: must be a whole number of sessions", typed);
}

int kvl_plan_check_target(const char *typed, struct kvl_err *err)
{
  int target;
  double value;
  return read_typed_target(typed, &target, &value, err);
}

int kvl_plan_price(const char *word, double *price)
{
  return kvl_design_number(word, price) == 0 && *price >= KVL_PLAN_PRICE_MIN && *price <= KVL_PLAN_PRICE_MAX ? 0 : -EINVAL;
}

static int read_targets(struct kvl_capacity_plan *plan, const struct kvl_json *root, const char *const *typed, unsigned count, struct kvl_err *err)
{
  const struct kvl_json *object = kvl_json_member(root, "target");
  bool any = false;
  int rc = 0, t;
  for (t = 0; t < KVL_PLAN_TARGETS; t++) {
    plan->target[t] = NAN;
  }
  if (object != NULL && object->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, object, "target", "must be an object such as {\"ttft_p90_s\": 2}, is %s", kvl_json_kind_name(object->kind));
  }
  for (const struct kvl_json *child = object == NULL ? NULL : object->child; child != NULL && rc == 0; child = child->next) {
    t = target_of(child->key);
    rc = t < 0 ? kvl_scenario_bad(err, child, child->key, "no such target (nearest: %s)", nearest_target(child->key))
               : kvl_design_amount(object, child->key, KVL_PLAN_TARGET_MIN, KVL_PLAN_TARGET_MAX, &plan->target[t], err);
    if (rc == 0 && t == KVL_PLAN_HOLD && plan->target[t] != floor(plan->target[t])) {
      rc = kvl_scenario_bad(err, child, child->key, "must be a whole number of sessions, is %s", child->text);
    }
  }
  for (unsigned i = 0; i < count && rc == 0; i++) {
    double value;
    rc = read_typed_target(typed[i], &t, &value, err);
    if (rc == 0) {
      plan->target[t] = value;
    }
  }
  for (t = 0; t < KVL_PLAN_TARGETS; t++) {
    any = any || !isnan(plan->target[t]);
  }
  return rc != 0 || any ? rc : kvl_scenario_bad(err, root, "target", "is missing: a plan needs at least one (nearest: {\"ttft_p90_s\": 2}, or --target=ttft_p90_s=2)");
}

/* ---- axes ---- */

/* Setting this key decides the axis: its own first key. speculation.method says whether there are drafts at all, as the name of a descriptor does. */
static bool decides(const char *key, const char *axis)
{
  return strcmp(key, axis) == 0 || (strcmp(axis, "speculation") == 0 && strcmp(key, "speculation.method") == 0);
}

static bool decided(const struct kvl_plan_pair *set, unsigned sets, const char *axis)
{
  unsigned i = 0;
  while (i < sets && !decides(set[i].key, axis)) {
    i++;
  }
  return i < sets;
}

/* A key is set or searched. What the command line sets is not searched, whatever the plan says of it; what the plan sets as well is a mistake. */
static int check_searched(const struct kvl_capacity_plan *plan, const struct kvl_json *root, const struct kvl_json *array, struct kvl_err *err)
{
  bool by_plan = (strcmp(array->key, "model") == 0 || strcmp(array->key, "costs") == 0) && kvl_json_member(root, array->key) != NULL;
  by_plan = by_plan || (strncmp(array->key, "workload.", 9) == 0 && kvl_json_member(kvl_json_member(root, "workload"), array->key + 9) != NULL);
  const struct kvl_json *object = kvl_json_member(root, "set");
  for (const struct kvl_json *set = object == NULL ? NULL : object->child; set != NULL; set = set->next) {
    by_plan = by_plan || decides(set->key, array->key);
  }
  if (by_plan) {
    return kvl_scenario_bad(err, array, array->key, "is searched and set (in \"set\", \"workload\", \"model\" or \"costs\"): one of the two");
  }
  for (unsigned n = 0; n < plan->nodes; n++) {
    if (decided(plan->node[n].set, plan->node[n].sets, array->key)) {
      return kvl_scenario_bad(err, array, array->key, "is searched and set by node %s: one of the two", plan->node[n].name);
    }
  }
  return 0;
}

/* --set holds for every run: a node that sets the key too would win. */
static int check_typed(const struct kvl_capacity_plan *plan, struct kvl_err *err)
{
  for (unsigned i = 0; i < plan->typed_count; i++) {
    const char *typed = plan->typed[i];
    if (strncmp(typed, "seed=", 5) == 0) {
      return kvl_err_set(err, -EINVAL, "--set=%s: a plan's seeds come from its own \"seed\" and \"repeats\"", typed);
    }
    for (unsigned n = 0; n < plan->nodes; n++) {
      for (unsigned k = 0; k < plan->node[n].sets; k++) {
        if (kvl_design_typed(&typed, 1, plan->node[n].set[k].key) == 0) {
          return kvl_err_set(err, -EINVAL, "--set=%s: node %s of %s sets that itself", typed, plan->node[n].name, plan->file);
        }
      }
    }
  }
  return 0;
}

static const struct {
  const char *label, *key[KVL_PLAN_AXIS_KEYS];
  unsigned keys;
} own[KVL_AXES_OWN] = {
  {"node.decode_gpus", {"node.decode_gpus", NULL, NULL}, 1},
  {"node.prefill_gpus", {"node.prefill_gpus", NULL, NULL}, 1},
  {"mode", {"mode", NULL, NULL}, 1},
  {"policy.hot_rows", {"policy.hot_rows", NULL, NULL}, 1},
  {"policy.prefetch", {"policy.prefetch", "policy.bank_rows", NULL}, 2},
  {"speculation", {"speculation", "speculation.method", NULL}, 2},
  {"policy.page_tokens", {"policy.page_tokens", NULL, NULL}, 1},
  {"policy.give_back_bytes_max", {"policy.give_back_bytes_max", NULL, NULL}, 1},
};

static int read_axis(struct kvl_capacity_plan *plan, struct kvl_plan_axis *axis, const struct kvl_json *array, struct kvl_err *err)
{
  if (array->kind != KVL_JSON_ARRAY || array->child == NULL) {
    return kvl_scenario_bad(err, array, array->key, "must be an array of values%s", array->kind == KVL_JSON_ARRAY ? ", with one at least" : "");
  }
  axis->values = 0;
  axis->given = true;
  for (const struct kvl_json *value = array->child; value != NULL; value = value->next) {
    bool none = strcmp(array->key, "speculation") == 0 && value->kind == KVL_JSON_STRING && strcmp(value->text, "none") == 0;
    int rc = none ? 0 : kvl_design_pair("the plan's", array->key, value, err);
    if (rc != 0) {
      return rc;
    }
    if (axis->values == KVL_PLAN_VALUES_MAX) {
      return kvl_scenario_bad(err, value, array->key, "up to %d values", (int)KVL_PLAN_VALUES_MAX);
    }
    const char *text = kvl_sweep_json_text(&plan->arena, "", value), **to = axis->value[axis->values];
    if (text == NULL) {
      return no_memory(plan, err);
    }
    for (uint32_t v = 0; v < axis->values; v++) {
      if (kvl_design_same(axis->value[v][0] != NULL ? axis->value[v][0] : "\"none\"", text)) {
        return kvl_scenario_bad(err, value, array->key, "%s is given twice", text);
      }
    }
    to[0] = none ? NULL : text;
    to[1] = none ? "\"none\"" : NULL;
    axis->values++;
  }
  return 0;
}

static int read_search(struct kvl_capacity_plan *plan, const struct kvl_json *root, struct kvl_err *err)
{
  const struct kvl_json *object = kvl_json_member(root, "search");
  for (int a = 0; a < KVL_AXES_OWN; a++) {
    struct kvl_plan_axis *axis = &plan->axis[plan->axes++];
    axis->label = own[a].label;
    axis->keys = own[a].keys;
    memcpy(axis->key, own[a].key, sizeof axis->key);
  }
  if (object != NULL && object->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, object, "search", "must be an object of scenario keys, each with an array of values, is %s", kvl_json_kind_name(object->kind));
  }
  for (const struct kvl_json *child = object == NULL ? NULL : object->child; child != NULL; child = child->next) {
    struct kvl_plan_axis *axis = NULL;
    for (unsigned a = 0; a < KVL_AXES_OWN; a++) {
      axis = strcmp(plan->axis[a].label, child->key) == 0 ? &plan->axis[a] : axis;
    }
    if (axis == NULL && plan->axes == KVL_PLAN_AXES_MAX) {
      return kvl_scenario_bad(err, child, "search", "up to %d axes", (int)KVL_PLAN_AXES_MAX);
    }
    if (axis == NULL) {
      axis = &plan->axis[plan->axes++];
      axis->label = axis->key[0] = child->key;
      axis->keys = 1;
    }
    int rc = check_searched(plan, root, child, err);
    if (rc == 0 && strcmp(child->key, "speculation.method") == 0 && kvl_json_member(object, "speculation") != NULL) {
      rc = kvl_scenario_bad(err, child, child->key, "is searched, and so is speculation, whose \"none\" sets it: one of the two (nearest: \"none\" among the values of speculation)");
    }
    rc = rc != 0 ? rc : read_axis(plan, axis, child, err);
    if (rc != 0) {
      return rc;
    }
    bool typed = false;
    for (unsigned i = 0; i < plan->typed_count; i++) {
      char key[96];
      (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(plan->typed[i], "="), plan->typed[i]);
      typed = typed || decides(key, child->key);
    }
    if (typed) {
      axis->given = false;
      axis->values = 0;
      plan->axes -= axis == &plan->axis[plan->axes - 1] && plan->axes > KVL_AXES_OWN;
    }
  }
  return 0;
}

/* ---- the whole ---- */

static int read_all(struct kvl_capacity_plan *plan, const char *text, size_t size, const char *const *typed_targets, unsigned target_count, struct kvl_err *err)
{
  static const char *const efforts[] = {"normal", "quick", "thorough"};
  static const double rows[] = {32e9, 8e9, 128e9};
  struct kvl_json *root;
  struct kvl_plan_pair *pairs;
  unsigned count, effort = 0;
  uint64_t repeats;
  char path[KVL_PATH_CAP];
  plan->text = kvl_arena_text(&plan->arena, text, size);
  int rc = plan->text == NULL ? no_memory(plan, err) : kvl_file_parse(&plan->arena, text, size, plan->file, KVL_FILE_PLAN, &root, err);
  rc = rc != 0 ? rc : root->kind != KVL_JSON_OBJECT
                        ? kvl_err_set(err, -EINVAL, "%s:%u: a plan must be an object, is %s", plan->file, (unsigned)root->line, kvl_json_kind_name(root->kind))
                        : kvl_design_kind(root, plan->file, KVL_FILE_PLAN, "a plan", err);
  const char *by_file = kvl_design_name(&plan->arena, plan->file, KVL_PLAN_NAME_MAX);
  plan->set = kvl_arena_take(&plan->arena, SETS_MAX * sizeof *plan->set);
  rc = rc != 0 ? rc : by_file == NULL || plan->set == NULL ? no_memory(plan, err) : kvl_design_word(root, "name", by_file, 1, KVL_PLAN_NAME_MAX, &plan->name, err);
  rc = rc != 0 ? rc : kvl_design_word(root, "note", "", 0, 0, &plan->note, err);
  rc = rc != 0 ? rc : kvl_design_word(root, "scenario", NULL, 1, KVL_PATH_CAP - 1, &plan->scenario, err);
  rc = rc != 0 ? rc : kvl_design_scenario(plan->file, root, plan->scenario, path, err); /* as the rounds will look for it */
  rc = rc != 0 ? rc : kvl_design_choice(root, "effort", efforts, 3, &effort, err);
  plan->effort_name = efforts[effort % 3];
  plan->effort = rows[effort % 3];
  rc = rc != 0 ? rc : kvl_design_count(root, "repeats", "repeats", 3, 1, KVL_PLAN_REPEATS_MAX, &repeats, err);
  rc = rc != 0 ? rc : kvl_design_count(root, "seed", "seed", 1, 0, UINT64_C(1) << 53, &plan->seed, err);
  plan->repeats = rc != 0 ? 1 : (uint32_t)repeats;
  rc = rc != 0 ? rc : read_descriptor(plan, root, "model", err);
  rc = rc != 0 ? rc : read_descriptor(plan, root, "costs", err);
  const struct kvl_json *workload = rc != 0 ? NULL : kvl_json_member(root, "workload");
  rc = workload == NULL ? rc : read_workload(plan, workload, err);
  rc = rc != 0 ? rc : read_set(plan, kvl_json_member(root, "set"), "set", &pairs, &count, err);
  for (unsigned i = 0; rc == 0 && i < count; i++) {
    rc = add_text(plan, pairs[i].key, pairs[i].value, err);
  }
  rc = rc != 0 ? rc : read_nodes(plan, root, err);
  rc = rc != 0 ? rc : read_targets(plan, root, typed_targets, target_count, err);
  rc = rc != 0 ? rc : read_search(plan, root, err);
  rc = rc != 0 ? rc : check_typed(plan, err);
  /* goodput counts what the plan asks for, unless its settings say otherwise */
  static const char *const limit[] = {"limits.ttft_target_s", "limits.tpot_target_ms"};
  double goal[] = {plan->target[KVL_PLAN_TTFT], plan->target[KVL_PLAN_TPOT]};
  if (rc == 0 && !isnan(plan->target[KVL_PLAN_RATE]) && !(goal[1] < 1000 / plan->target[KVL_PLAN_RATE])) {
    goal[1] = 1000 / plan->target[KVL_PLAN_RATE];
  }
  for (int g = 0; rc == 0 && g < 2; g++) {
    if (!isnan(goal[g]) && !decided(plan->set, plan->sets, limit[g])) {
      char number[40];
      (void)snprintf(number, sizeof number, "%.6f", goal[g] > 1e-6 ? goal[g] : 1e-6); /* 0 would be no target */
      rc = add_text(plan, limit[g], kvl_arena_text(&plan->arena, number, strlen(number)), err);
    }
  }
  return rc;
}

int kvl_plan_parse(struct kvl_capacity_plan **out, const char *text, size_t size, const char *file, const char *const *typed, unsigned typed_count,
                   const char *const *typed_targets, unsigned target_count, struct kvl_err *err)
{
  *out = NULL;
  if (strlen(file) >= KVL_PATH_CAP) {
    return kvl_err_set(err, -EINVAL, "%.80s...: the name is too long", file);
  }
  struct kvl_capacity_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL || (plan->file = kvl_arena_text(&plan->arena, file, strlen(file))) == NULL) {
    kvl_plan_free(plan);
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", file);
  }
  plan->typed = typed;
  plan->typed_count = typed_count;
  int rc = read_all(plan, text, size, typed_targets, target_count, err);
  if (rc != 0) {
    kvl_plan_free(plan);
    return rc;
  }
  *out = plan;
  return 0;
}

int kvl_plan_load(struct kvl_capacity_plan **plan, const char *path, const char *const *typed, unsigned typed_count, const char *const *typed_targets,
                  unsigned target_count, struct kvl_err *err)
{
  char file[KVL_PATH_CAP], *text = NULL;
  size_t size = 0;
  *plan = NULL;
  int rc = kvl_scenario_find_file(path, KVL_FILE_PLAN, file, err);
  rc = rc != 0 ? rc : kvl_scenario_read_file(file, &text, &size, err);
  rc = rc != 0 ? rc : kvl_plan_parse(plan, text, size, file, typed, typed_count, typed_targets, target_count, err);
  free(text);
  return rc;
}

void kvl_plan_free(struct kvl_capacity_plan *plan)
{
  if (plan != NULL) {
    kvl_arena_free(&plan->arena);
    free(plan);
  }
}
