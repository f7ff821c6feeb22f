/* Candidates as the points of a sweep. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/plan.h"
#include "sim/scenario_doc.h"

enum { TAIL_ROOM = 8 }; /* tokens of one pass beyond the open page */

static const char *value_at(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c, unsigned axis, unsigned key)
{
  return c->at[axis] == KVL_PLAN_NOT ? NULL : plan->axis[axis].value[c->at[axis]][key];
}

static void put(FILE *out, bool *first, const char *key, const char *value)
{
  (void)fputs(*first ? "" : ", ", out);
  kvl_text_json_string(out, key);
  (void)fprintf(out, ": %s", value);
  *first = false;
}

static bool overruled(const struct kvl_plan_candidate *c, const char *key)
{
  for (unsigned i = 0; i < c->extras; i++) {
    if (strcmp(c->extra[i].key, key) == 0) {
      return true;
    }
  }
  return false;
}

static bool by_axis(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c, const char *key)
{
  for (unsigned a = 0; a < plan->axes; a++) {
    for (unsigned k = 0; k < plan->axis[a].keys; k++) {
      if (strcmp(plan->axis[a].key[k], key) == 0 && value_at(plan, c, a, k) != NULL) {
        return true;
      }
    }
  }
  return false;
}

static void put_point(FILE *out, const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c)
{
  const struct kvl_plan_node *node = &plan->node[c->node];
  bool first = true;
  (void)fputc('{', out);
  for (unsigned i = 0; i < node->sets; i++) {
    if (!overruled(c, node->set[i].key) && !by_axis(plan, c, node->set[i].key)) {
      put(out, &first, node->set[i].key, node->set[i].value);
    }
  }
  for (unsigned a = 0; a < plan->axes; a++) {
    for (unsigned k = 0; k < plan->axis[a].keys; k++) {
      const char *value = value_at(plan, c, a, k);
      if (value != NULL && !overruled(c, plan->axis[a].key[k])) {
        put(out, &first, plan->axis[a].key[k], value);
      }
    }
  }
  const char *page = value_at(plan, c, KVL_AXIS_PAGE, 0), tail_key[] = "policy.tail_tokens";
  bool tail_set = by_axis(plan, c, tail_key);
  for (unsigned i = 0; i < plan->sets; i++) {
    tail_set = tail_set || strcmp(plan->set[i].key, tail_key) == 0;
  }
  for (unsigned i = 0; i < node->sets; i++) {
    tail_set = tail_set || strcmp(node->set[i].key, tail_key) == 0;
  }
  if (page != NULL && !tail_set && strtoull(page, NULL, 10) + TAIL_ROOM > 256) { /* the open page must have its place in the tail */
    char tail[32];
    (void)snprintf(tail, sizeof tail, "%llu", strtoull(page, NULL, 10) + TAIL_ROOM);
    put(out, &first, tail_key, tail);
  }
  for (unsigned i = 0; i < c->extras; i++) {
    put(out, &first, c->extra[i].key, c->extra[i].value);
  }
  (void)fputc('}', out);
}

/* The text of each candidate's point, once; at[p]: which of them. The texts are the caller's to free. */
static int point_texts(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *const *point, uint32_t points, char **texts, uint32_t *count, uint32_t *at)
{
  *count = 0;
  for (uint32_t p = 0; p < points; p++) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
      return -ENOMEM;
    }
    put_point(out, plan, point[p]);
    if (fclose(out) != 0) {
      free(text);
      return -ENOMEM;
    }
    at[p] = 0;
    while (at[p] < *count && strcmp(texts[at[p]], text) != 0) {
      at[p]++;
    }
    if (at[p] < *count) {
      free(text);
    } else {
      texts[(*count)++] = text;
    }
  }
  return 0;
}

/* A key that a node or an axis sets must not stand in "set" as well as in a point in another order: points come after, so that is fine. */
int kvl_plan_design(struct kvl_sweep **design, const struct kvl_capacity_plan *plan, const char *round, const struct kvl_plan_candidate *const *point, uint32_t points,
                    uint32_t repeats, uint64_t seed, uint32_t *at, struct kvl_err *err)
{
  char *text = NULL, name[96], **texts = calloc(points + 1u, sizeof *texts);
  size_t size = 0;
  uint32_t different = 0;
  int rc = texts == NULL ? -ENOMEM : point_texts(plan, point, points, texts, &different, at);
  FILE *out = rc != 0 ? NULL : open_memstream(&text, &size);
  *design = NULL;
  if (out == NULL) {
    rc = kvl_err_set(err, -ENOMEM, "%s: out of memory", plan->file);
    goto free_texts;
  }
  (void)snprintf(name, sizeof name, "%.60s: %.24s", plan->name, round);
  (void)fputs("{\"name\": ", out);
  kvl_text_json_string(out, name);
  (void)fputs(", \"scenario\": ", out);
  kvl_text_json_string(out, plan->scenario);
  (void)fputs(", \"set\": {", out);
  bool first = true;
  for (unsigned i = 0; i < plan->sets; i++) {
    put(out, &first, plan->set[i].key, plan->set[i].value);
  }
  (void)fputs("},\n \"list\": [\n", out);
  for (uint32_t p = 0; p < different; p++) {
    (void)fprintf(out, "%s%s", p > 0 ? ",\n  " : "  ", texts[p]);
  }
  (void)fprintf(out, "],\n \"repeats\": %u, \"seed\": %" PRIu64 "}\n", (unsigned)repeats, seed);
  rc = fclose(out) != 0 ? kvl_err_set(err, -ENOMEM, "%s: out of memory", plan->file)
                        : kvl_sweep_parse(design, text, size, plan->file, plan->typed, plan->typed_count, err);
  free(text);
free_texts:
  for (uint32_t p = 0; p < different; p++) {
    free(texts[p]);
  }
  free(texts);
  return rc;
}

void kvl_plan_settings_text(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  if (plan->nodes > 1) {
    int n = snprintf(text, size, "%s", plan->node[c->node].name);
    used = n > 0 && (size_t)n < size ? (size_t)n : 0;
  }
  for (unsigned a = 0; a < plan->axes && used < size; a++) {
    const char *dot = strrchr(plan->axis[a].label, '.');
    char bank[48] = "", value[96];
    if (c->at[a] == KVL_PLAN_NOT) {
      continue;
    }
    const char *json = value_at(plan, c, a, 0);
    if (a == KVL_AXIS_SPECULATION && json == NULL) {
      json = plan->axis[a].values > 1 ? "\"none\"" : NULL;
    }
    if (json == NULL) {
      continue;
    }
    size_t length = strlen(json);
    bool quoted = json[0] == '"' && length > 1;
    (void)snprintf(value, sizeof value, "%.*s", (int)(quoted ? length - 2 : length), quoted ? json + 1 : json);
    if (a == KVL_AXIS_PREFETCH && value_at(plan, c, a, 1) != NULL) {
      (void)snprintf(bank, sizeof bank, " (bank %.20s)", value_at(plan, c, a, 1));
    }
    int n = snprintf(text + used, size - used, "%s%s %s%s", used > 0 ? ", " : "", dot != NULL ? dot + 1 : plan->axis[a].label, value, bank);
    used += n > 0 ? (size_t)n : 0;
  }
}
