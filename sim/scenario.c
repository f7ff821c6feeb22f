/* Loading a scenario: text, assignments, descriptors, values, checks. */
#include "sim/scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/file_kind.h"
#include "sim/scenario_doc.h"

/* Scenario files keep the part's name under "node"; the tree and the table keep it apart, as "hardware". */
static int lift_hardware(struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  struct kvl_json *node = kvl_json_member(doc->root, "node");
  struct kvl_json *hardware = node == NULL || node->kind != KVL_JSON_OBJECT ? NULL : kvl_json_take(node, "hardware");
  if (hardware == NULL) {
    return 0;
  }
  if (kvl_json_member(doc->root, "hardware") != NULL) {
    return kvl_scenario_bad(err, hardware, "node.hardware", "is given beside \"hardware\"; one of the two is enough");
  }
  kvl_json_put(doc->root, "hardware", hardware);
  return 0;
}

static void name_by_file(struct kvl_scenario_doc *doc)
{
  struct kvl_scenario *s = &doc->scenario;
  if (s->name[0] != '\0') {
    return;
  }
  const char *slash = strrchr(doc->file, '/'), *base = slash == NULL ? doc->file : slash + 1;
  size_t n = strlen(base);
  n = n > 5 && strcmp(base + n - 5, ".json") == 0 ? n - 5 : n;
  n = n < sizeof s->name ? n : sizeof s->name - 1;
  memcpy(s->name, base, n);
  for (size_t i = 0; i < n; i++) {
    s->name[i] = (unsigned char)s->name[i] < 0x20 ? '_' : s->name[i];
  }
}

static int locate_files(struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  static const char *const keys[2] = {"workload.file", "selection.file"};
  char *paths[2] = {doc->scenario.workload.path, doc->scenario.selection.path};
  for (int i = 0; i < 2; i++) {
    const struct kvl_origin *origin = &doc->origin[kvl_scenario_key(keys[i])];
    doc->typed_path[i] = kvl_arena_text(&doc->arena, paths[i], strlen(paths[i]));
    if (doc->typed_path[i] == NULL) {
      return kvl_err_set(err, -ENOMEM, "%s: out of memory", doc->file);
    }
    if (paths[i][0] != '\0') {
      char full[KVL_PATH_CAP];
      bool command = origin->text != NULL && strcmp(origin->text, "--set") == 0;
      if (kvl_scenario_locate(doc, doc->typed_path[i], command, full) != 0) {
        return kvl_err_set(err, -EINVAL, "%s: %s: the name is too long", doc->file, keys[i]);
      }
      memcpy(paths[i], full, strlen(full) + 1);
    }
  }
  return 0;
}

/* Fills everything that follows from text and assignments. */
static int resolve(struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  doc->origin = kvl_arena_take(&doc->arena, kvl_key_count * sizeof *doc->origin);
  if (doc->origin == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", doc->file);
  }
  int rc = kvl_file_parse(&doc->arena, doc->text, doc->size, doc->file, KVL_FILE_SCENARIO, &doc->root, err);
  if (rc == 0 && doc->root->kind != KVL_JSON_OBJECT) {
    rc = kvl_err_set(err, -EINVAL, "%s:%u: a scenario must be an object, is %s", doc->file, (unsigned)doc->root->line,
                     kvl_json_kind_name(doc->root->kind));
  }
  rc = rc == 0 ? kvl_file_check_kind(doc->root, doc->file, KVL_FILE_SCENARIO, err) : rc;
  rc = rc == 0 ? lift_hardware(doc, err) : rc;
  for (unsigned i = 0; i < doc->sets && rc == 0; i++) {
    rc = kvl_scenario_assign(doc, doc->set[i], err);
  }
  rc = rc == 0 ? kvl_scenario_expand(doc, "model", err) : rc;
  rc = rc == 0 ? kvl_scenario_expand(doc, "hardware", err) : rc;
  rc = rc == 0 ? kvl_scenario_expand(doc, "costs", err) : rc;
  rc = rc == 0 ? kvl_scenario_expand(doc, "speculation", err) : rc;
  rc = rc == 0 ? kvl_scenario_read(doc, err) : rc;
  if (rc == 0) {
    memcpy(doc->scenario.file, doc->file, sizeof doc->scenario.file);
    name_by_file(doc);
    rc = locate_files(doc, err);
    if (doc->scenario.policy.prefetch == KVL_PREFETCH_POOL) {
      (void)kvl_model_want_pool(&doc->scenario.model); /* whether it has one is checked */
    }
  }
  return rc == 0 ? kvl_scenario_check(doc, err) : rc;
}

static char *copy_bytes(const char *bytes, size_t size)
{
  char *copy = malloc(size + 1);
  if (copy != NULL) {
    memcpy(copy, bytes, size);
    copy[size] = '\0';
  }
  return copy;
}

int kvl_scenario_one_line(struct kvl_err *err, int rc)
{
  for (char *c = err == NULL || rc == 0 ? NULL : err->text; c != NULL && *c != '\0'; c++) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f) {
      *c = '?';
    }
  }
  return rc;
}

int kvl_scenario_parse(struct kvl_scenario_doc **out, const char *text, size_t size, const char *file, const char *const *sets,
                       unsigned set_count, struct kvl_err *err)
{
  *out = NULL;
  if (strlen(file) >= KVL_PATH_CAP) {
    return kvl_err_set(err, -EINVAL, "%.80s...: the name is too long", file);
  }
  struct kvl_scenario_doc *doc = calloc(1, sizeof *doc);
  if (doc == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", file);
  }
  memcpy(doc->file, file, strlen(file) + 1);
  const char *slash = strrchr(file, '/');
  size_t folder = slash == NULL ? 0 : slash == file ? 1 : (size_t)(slash - file);
  memcpy(doc->folder, folder == 0 ? "." : file, folder == 0 ? 1 : folder);
  doc->text = copy_bytes(text, size);
  doc->size = size;
  doc->set = calloc(set_count + 1u, sizeof *doc->set);
  bool copied = doc->text != NULL && doc->set != NULL;
  for (unsigned i = 0; i < set_count && copied; i++) {
    doc->set[i] = copy_bytes(sets[i], strlen(sets[i]));
    copied = doc->set[i] != NULL;
    doc->sets = i + 1;
  }
  int rc = copied ? resolve(doc, err) : kvl_err_set(err, -ENOMEM, "%s: out of memory", file);
  if (rc != 0) {
    kvl_scenario_free(doc);
    return kvl_scenario_one_line(err, rc);
  }
  *out = doc;
  return 0;
}

int kvl_scenario_load(struct kvl_scenario_doc **doc, const char *path, const char *const *sets, unsigned set_count, struct kvl_err *err)
{
  char *text = NULL;
  size_t size = 0;
  char file[KVL_PATH_CAP];
  *doc = NULL;
  int rc = kvl_scenario_find_scenario(path, file, err);
  rc = rc == 0 ? kvl_scenario_read_file(file, &text, &size, err) : rc;
  rc = rc == 0 ? kvl_scenario_parse(doc, text, size, file, sets, set_count, err) : rc;
  free(text);
  return kvl_scenario_one_line(err, rc);
}

int kvl_scenario_set(struct kvl_scenario_doc *doc, const char *assignment, struct kvl_err *err)
{
  const char **sets = malloc((doc->sets + 1u) * sizeof *sets);
  struct kvl_scenario_doc *changed = NULL;
  if (sets == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", doc->file);
  }
  for (unsigned i = 0; i < doc->sets; i++) {
    sets[i] = doc->set[i];
  }
  sets[doc->sets] = assignment;
  int rc = kvl_scenario_parse(&changed, doc->text, doc->size, doc->file, sets, doc->sets + 1, err);
  free(sets);
  if (rc == 0) {
    struct kvl_scenario_doc old = *doc; /* callers keep their pointer */
    *doc = *changed;
    *changed = old;
    kvl_scenario_free(changed);
  }
  return rc;
}

void kvl_scenario_free(struct kvl_scenario_doc *doc)
{
  if (doc == NULL) {
    return;
  }
  for (unsigned i = 0; i < doc->sets; i++) {
    free(doc->set[i]);
  }
  free(doc->set);
  free(doc->text);
  kvl_arena_free(&doc->arena);
  free(doc);
}

const struct kvl_scenario *kvl_scenario_of(const struct kvl_scenario_doc *doc)
{
  return &doc->scenario;
}
