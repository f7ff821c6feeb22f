/* --set=path.to.key=value: one assignment applied to the tree, before the tree is read. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/scenario_doc.h"

/* Nodes of an assignment have no line, and are all "--set=..." to messages. */
static void mark_set(struct kvl_json *node, const char *place)
{
  for (; node != NULL; node = node->next) {
    node->line = 0;
    node->place = place;
    mark_set(node->child, place);
  }
}

static struct kvl_json *new_node(struct kvl_scenario_doc *doc, enum kvl_json_kind kind, const char *place)
{
  struct kvl_json *node = kvl_arena_take(&doc->arena, sizeof *node);
  if (node != NULL) {
    node->kind = kind;
    node->place = place;
  }
  return node;
}

/* The value as JSON; anything else is a bare word. */
static int parse_value(struct kvl_scenario_doc *doc, const char *text, const char *place, struct kvl_json **value, struct kvl_err *err)
{
  struct kvl_err json_err;
  int rc = kvl_json_parse(&doc->arena, text, strlen(text), place, value, &json_err);
  if (rc == 0) {
    mark_set(*value, place);
    return 0;
  }
  if (rc == -ENOMEM || strchr("{[\"", text[0]) != NULL) {
    if (text[0] != '\0') {
      const char *reason = json_err.text + strlen(place); /* ":1: reason" */
      reason = strncmp(reason, ":1: ", 4) == 0 ? reason + 4 : json_err.text;
      return kvl_err_set(err, rc, "%s: %s", place, reason);
    }
  }
  *value = new_node(doc, KVL_JSON_STRING, place);
  if (*value != NULL) {
    (*value)->text = kvl_arena_text(&doc->arena, text, strlen(text));
  }
  return *value == NULL || (*value)->text == NULL ? kvl_err_set(err, -ENOMEM, "%s: out of memory", place) : 0;
}

static struct kvl_json **element(struct kvl_json *array, const char *index)
{
  struct kvl_json **link = &array->child;
  unsigned at = 0;
  if (*index == '\0' || strlen(index) > 4 || strspn(index, "0123456789") != strlen(index)) {
    return NULL;
  }
  for (; *index != '\0'; index++) {
    at = at * 10 + (unsigned)(*index - '0');
  }
  for (; *link != NULL && at > 0; at--) {
    link = &(*link)->next;
  }
  return *link == NULL ? NULL : link;
}

static bool is_descriptor(const char *name)
{
  return strcmp(name, "model") == 0 || strcmp(name, "hardware") == 0 || strcmp(name, "costs") == 0 ||
         strcmp(name, "speculation") == 0;
}

int kvl_scenario_assign(struct kvl_scenario_doc *doc, const char *assignment, struct kvl_err *err)
{
  const char *equals = strchr(assignment, '=');
  char shown[200];
  if (snprintf(shown, sizeof shown, "--set=%s", assignment) >= (int)sizeof shown) {
    memcpy(shown + sizeof shown - 4, "...", 4); /* leave room for the reason */
  }
  const char *place = kvl_arena_text(&doc->arena, shown, strlen(shown));
  if (equals == NULL || equals == assignment) {
    return kvl_err_set(err, -EINVAL, "%s: must be KEY=VALUE, for example policy.hot_rows=4096", shown);
  }
  size_t length = (size_t)(equals - assignment);
  static const char hardware[] = "node.hardware";
  if (length >= sizeof hardware - 1 && strncmp(assignment, hardware, sizeof hardware - 1) == 0) {
    assignment += 5; /* the tree keeps it as "hardware" */
    length -= 5;
  }
  char *path = kvl_arena_text(&doc->arena, assignment, length);
  struct kvl_json *value = NULL;
  if (place == NULL || path == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", shown);
  }
  int rc = parse_value(doc, equals + 1, place, &value, err);
  struct kvl_json *at = doc->root;
  for (char *name = path; rc == 0; name += strlen(name) + 1) {
    char *dot = strchr(name, '.');
    if (dot != NULL) {
      *dot = '\0';
    }
    if (at->kind == KVL_JSON_OBJECT && at != doc->root && kvl_json_member(at, "value") != NULL && strcmp(name, "value") != 0) {
      at = kvl_json_member(at, "value"); /* a number or an array with its origin */
    }
    struct kvl_json **link = at->kind == KVL_JSON_ARRAY ? element(at, name) : NULL;
    if (at->kind == KVL_JSON_ARRAY && link == NULL) {
      return kvl_err_set(err, -EINVAL, "%s: the array has no element %s", place, name);
    }
    if (at->kind != KVL_JSON_ARRAY && at->kind != KVL_JSON_OBJECT) {
      return kvl_err_set(err, -EINVAL, "%s: there are no keys below a value that is %s", place, kvl_json_kind_name(at->kind));
    }
    if (dot == NULL) {
      if (link != NULL) {
        value->next = (*link)->next;
        *link = value;
      } else {
        kvl_json_put(at, name, value);
      }
      return 0;
    }
    if (at == doc->root && is_descriptor(name)) {
      rc = kvl_scenario_expand(doc, name, err);
    }
    struct kvl_json *next = rc != 0 ? NULL : link != NULL ? *link : kvl_json_member(at, name);
    if (rc == 0 && next == NULL) {
      next = new_node(doc, KVL_JSON_OBJECT, place);
      if (next == NULL) {
        return kvl_err_set(err, -ENOMEM, "%s: out of memory", place);
      }
      kvl_json_put(at, name, next);
    }
    at = next;
  }
  return rc;
}
