/* Keys of kinds that a scenario did not choose: it has a rate for open loops and a file's name for files, and reads what its own kind needs. A scenario file
 * may well have the others beside it, and a sweep over kinds sets them together; typed for one run, such a key is a mistake. */
#include <stdio.h>
#include <string.h>

#include "sim/scenario_doc.h"

#define KIND(of) (1u << KVL_##of)
#define OPEN_LOOPS (KIND(WORK_POISSON) | KIND(WORK_GAMMA))
#define SIZED (KIND(WORK_CLOSED) | OPEN_LOOPS)

/* The key `chooser` says which kind it is; `kinds`: those that read the key. A path that ends with a dot is a section. */
static const struct {
  const char *path, *chooser;
  unsigned kinds;
} rules[] = {
  {"workload.concurrency", "workload.kind", KIND(WORK_CLOSED) | KIND(WORK_FILE)},
  {"workload.open_interval_ms", "workload.kind", KIND(WORK_CLOSED)},
  {"workload.input_tokens", "workload.kind", SIZED},
  {"workload.cached_tokens", "workload.kind", SIZED},
  {"workload.output_tokens", "workload.kind", SIZED},
  {"workload.rate_per_s", "workload.kind", OPEN_LOOPS},
  {"workload.gamma_cv", "workload.kind", KIND(WORK_GAMMA)},
  {"workload.file", "workload.kind", KIND(WORK_FILE)},
  {"workload.format", "workload.kind", KIND(WORK_FILE)},
  {"workload.time_scale", "workload.kind", KIND(WORK_FILE)},
  {"workload.prefix_store_bytes", "workload.kind", KIND(WORK_FILE)},
  {"selection.preset", "selection.source", KIND(SELECT_PRESET)},
  {"selection.query_overlap", "selection.source", KIND(SELECT_PRESET)},
  {"selection.library_sessions", "selection.source", KIND(SELECT_PRESET)},
  {"selection.file", "selection.source", KIND(SELECT_TRACE)},
  {"speculation.method", "speculation.method", KIND(SPECULATION_NONE) | KIND(SPECULATION_DSPARK)},
  {"speculation.", "speculation.method", KIND(SPECULATION_DSPARK)},
  {"costs.draft_ms_by_requests", "speculation.method", KIND(SPECULATION_DSPARK)},
  {"costs.step_ms_by_tokens", "costs.compute", KIND(COMPUTE_TABLE)},
  {"costs.law_fixed_ms", "costs.compute", KIND(COMPUTE_LAW) | KIND(COMPUTE_ROOFLINE)},
  {"costs.law_token_ms", "costs.compute", KIND(COMPUTE_LAW)},
};
enum { RULES = sizeof rules / sizeof rules[0] };

static size_t rule_of(const char *path)
{
  size_t i = 0;
  for (; i < RULES; i++) {
    size_t n = strlen(rules[i].path);
    if (strncmp(path, rules[i].path, n) == 0 && (path[n] == '\0' || rules[i].path[n - 1] == '.')) {
      break;
    }
  }
  return i;
}

static unsigned kind_of(const struct kvl_scenario *s, const char *chooser)
{
  unsigned kind;
  memcpy(&kind, (const char *)s + kvl_keys[kvl_scenario_key(chooser)].offset, sizeof kind);
  return kind;
}

bool kvl_scenario_reads(const struct kvl_scenario *s, const char *path)
{
  size_t rule = rule_of(path);
  return rule == RULES || (rules[rule].kinds >> kind_of(s, rules[rule].chooser) & 1u) != 0;
}

int kvl_scenario_check_sets(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  static const char set[] = "--set=";
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const char *path = kvl_keys[i].path, *place = doc->origin[i].place;
    if (place == NULL || strncmp(place, set, sizeof set - 1) != 0 || kvl_scenario_reads(&doc->scenario, path)) {
      continue;
    }
    size_t rule = rule_of(path);
    const char *chooser = rules[rule].chooser, *const *choices = kvl_keys[kvl_scenario_key(chooser)].choices;
    char others[128] = "";
    int used = 0;
    for (unsigned kind = 0; choices[kind] != NULL; kind++) {
      if ((rules[rule].kinds >> kind & 1u) != 0) {
        used += snprintf(others + used, sizeof others - (size_t)used, "%s--set=%s=%s", used == 0 ? "" : " or ", chooser, choices[kind]);
      }
    }
    struct kvl_json at = {.place = place, .line = 0};
    return kvl_scenario_one_line(err, kvl_scenario_bad(err, &at, path, "is not read, because %s is \"%s\" (nearest: add %s)", chooser,
                                                       choices[kind_of(&doc->scenario, chooser)], others));
  }
  return 0;
}
