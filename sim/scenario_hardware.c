/* A hardware descriptor without a scenario around it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario_doc.h"

static struct kvl_scenario_doc *empty(const char *file)
{
  struct kvl_scenario_doc *doc = calloc(1, sizeof *doc);
  struct kvl_err ignored;
  if (doc != NULL) {
    (void)snprintf(doc->file, sizeof doc->file, "%.200s", file);
    (void)snprintf(doc->folder, sizeof doc->folder, ".");
    doc->origin = kvl_arena_take(&doc->arena, kvl_key_count * sizeof *doc->origin);
    if (doc->origin == NULL || kvl_json_parse(&doc->arena, "{}", 2, file, &doc->root, &ignored) != 0) {
      kvl_scenario_free(doc);
      doc = NULL;
    }
  }
  return doc;
}

int kvl_scenario_find_hardware(const char *name, const char *option, struct kvl_err *err)
{
  char typed[KVL_PATH_CAP];
  (void)snprintf(typed, sizeof typed, "%s=%.200s", option, name);
  struct kvl_scenario_doc *doc = empty(typed);
  struct kvl_json *node = doc == NULL ? NULL : kvl_arena_take(&doc->arena, sizeof *node);
  if (node == NULL) {
    kvl_scenario_free(doc);
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", typed);
  }
  node->kind = KVL_JSON_STRING;
  node->text = name;
  node->place = typed;
  kvl_json_put(doc->root, "hardware", node);
  int rc = kvl_scenario_expand(doc, "hardware", err);
  kvl_scenario_free(doc);
  return rc;
}

int kvl_scenario_check_hardware(const char *text, size_t size, const char *file, struct kvl_err *err)
{
  struct kvl_scenario_doc *doc = empty(file);
  struct kvl_json *node = NULL;
  if (doc == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", file);
  }
  int rc = kvl_json_parse(&doc->arena, text, size, file, &node, err);
  if (rc == 0) {
    kvl_json_put(doc->root, "hardware", node);
    rc = kvl_scenario_expand(doc, "hardware", err);
  }
  rc = rc != 0 ? rc : kvl_scenario_read_hardware(doc, err);
  kvl_scenario_free(doc);
  return rc;
}
