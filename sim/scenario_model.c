/* A model without a scenario around it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario_doc.h"

/* Messages say where a name was typed; here that was an option of its own. */
static void name_the_option(struct kvl_err *err)
{
  static const char typed[] = "--set=model=", option[] = "--model=";
  if (err != NULL && strncmp(err->text, typed, sizeof typed - 1) == 0) {
    memmove(err->text + sizeof option - 1, err->text + sizeof typed - 1, strlen(err->text + sizeof typed - 1) + 1);
    memcpy(err->text, option, sizeof option - 1);
  }
}

int kvl_scenario_load_model(const char *name, struct kvl_model *model, struct kvl_err *err)
{
  struct kvl_scenario_doc *doc = calloc(1, sizeof *doc);
  size_t size = strlen(name) + sizeof "model=";
  char *assignment = malloc(size);
  int rc = doc == NULL || assignment == NULL ? kvl_err_set(err, -ENOMEM, "--model=%s: out of memory", name) : 0;
  if (rc == 0) {
    (void)snprintf(assignment, size, "model=%s", name);
    (void)snprintf(doc->file, sizeof doc->file, "--model");
    (void)snprintf(doc->folder, sizeof doc->folder, ".");
    doc->origin = kvl_arena_take(&doc->arena, kvl_key_count * sizeof *doc->origin);
    rc = doc->origin == NULL ? kvl_err_set(err, -ENOMEM, "--model=%s: out of memory", name) : 0;
    rc = rc == 0 ? kvl_json_parse(&doc->arena, "{}", 2, "--model", &doc->root, err) : rc;
    rc = rc == 0 ? kvl_scenario_assign(doc, assignment, err) : rc;
    rc = rc == 0 ? kvl_scenario_expand(doc, "model", err) : rc;
    rc = rc == 0 ? kvl_scenario_read_model(doc, err) : rc;
  }
  if (rc == 0) {
    *model = doc->scenario.model;
  } else {
    name_the_option(err);
  }
  free(assignment);
  kvl_scenario_free(doc);
  return rc;
}
