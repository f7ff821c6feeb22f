#include "results/select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"

enum { WORD_MAX = 512, FILTERS_MAX = 8 };
static const char *const filter_keys[] = {"name", "mode", "plane", "seed", "status", "concurrency"};
enum { FILTER_NAME, FILTER_MODE, FILTER_PLANE, FILTER_SEED, FILTER_STATUS, FILTER_CONCURRENCY, FILTER_KEYS };

/* A word taken apart. */
struct query {
  char text[WORD_MAX];
  const char *base;                      /* before the colon */
  struct {
    int key;
    const char *value;
  } filter[FILTERS_MAX];
  unsigned filters;
  int names_status;
};

static const char *value_of(const struct kvl_stored_run *run, int key, char number[32])
{
  switch (key) {
  case FILTER_NAME:
    return run->name;
  case FILTER_MODE:
    return run->mode;
  case FILTER_PLANE:
    return run->plane;
  case FILTER_STATUS:
    return kvl_stored_status_name(run->status);
  case FILTER_SEED:
    (void)snprintf(number, 32, "%" PRIu64, run->seed);
    return number;
  default:
    (void)snprintf(number, 32, "%" PRId64, run->concurrency);
    return number;
  }
}

static int is_name(const struct kvl_run_list *list, const char *word)
{
  for (uint32_t i = 0; i < list->count; i++) {
    if (strcmp(list->run[i].name, word) == 0) {
      return 1;
    }
  }
  return 0;
}

static int parse(struct query *query, const struct kvl_run_list *list, const char *word, struct kvl_err *err)
{
  memset(query, 0, sizeof *query);
  if (strlen(word) >= WORD_MAX) {
    return kvl_err_set(err, -EINVAL, "run \"%.40s...\": too long", word);
  }
  memcpy(query->text, word, strlen(word) + 1);
  query->base = query->text;
  char *colon = is_name(list, word) ? NULL : strchr(query->text, ':'); /* a name may hold a colon itself */
  if (colon == NULL) {
    return 0;
  }
  *colon = '\0';
  char *rest = NULL;
  for (char *part = strtok_r(colon + 1, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
    char *equal = strchr(part, '=');
    if (equal == NULL) {
      return kvl_err_set(err, -EINVAL, "run \"%s\": \"%s\" is not KEY=VALUE (keys: name, mode, plane, seed, status, concurrency)", word, part);
    }
    *equal = '\0';
    int key = 0;
    while (key < FILTER_KEYS && strcmp(filter_keys[key], part) != 0) {
      key++;
    }
    if (key == FILTER_KEYS) {
      return kvl_err_set(err, -EINVAL, "run \"%s\": unknown key \"%s\"; nearest: %s", word, part, kvl_nearest(part, filter_keys, FILTER_KEYS));
    }
    if (query->filters == FILTERS_MAX) {
      return kvl_err_set(err, -EINVAL, "run \"%s\": more than %d filters", word, (int)FILTERS_MAX);
    }
    query->filter[query->filters].key = key;
    query->filter[query->filters++].value = equal + 1;
    query->names_status |= key == FILTER_STATUS;
  }
  return 0;
}

static int passes(const struct query *query, const struct kvl_stored_run *run)
{
  char number[32];
  for (unsigned f = 0; f < query->filters; f++) {
    if (strcmp(value_of(run, query->filter[f].key, number), query->filter[f].value) != 0) {
      return 0;
    }
  }
  return 1;
}

/* Says why nothing passed: the first filter whose value no run has, with the nearest value that one has; else that no run has them all. */
static int nothing_passes(const struct kvl_run_list *list, const char *store, const char *word, const struct query *query, struct kvl_err *err)
{
  for (unsigned f = 0; f < query->filters; f++) {
    int key = query->filter[f].key;
    char number[32];
    const char *wanted = query->filter[f].value, *best = NULL;
    char kept[128], value[128];
    for (uint32_t i = 0; i < list->count; i++) {
      (void)snprintf(value, sizeof value, "%.127s", value_of(&list->run[i], key, number));
      const char *const pair[] = {kept, value};
      if (best == NULL || kvl_nearest(wanted, pair, 2) == value) {
        best = memcpy(kept, value, sizeof kept);
      }
    }
    if (best != NULL && strcmp(best, wanted) != 0) {
      return kvl_err_set(err, -ENOENT, "%s: no run \"%s\": no run has %s %s; nearest: %s", store, word, filter_keys[key], wanted, best);
    }
  }
  return kvl_err_set(err, -ENOENT, "%s: no run \"%s\"", store, word);
}

/* Which runs does the base name? -1: every run. Else the length of the prefix of `name` to compare; *name is one of the list's. */
static int resolve_name(const struct kvl_run_list *list, const char *store, const char *word, const struct query *query, const char **name,
                        struct kvl_err *err)
{
  if (is_name(list, query->base)) {
    *name = query->base;
    return 0;
  }
  size_t length = strlen(query->base);
  const char *other = NULL;
  *name = NULL;
  for (uint32_t i = 0; i < list->count && length > 0; i++) {
    const char *candidate = list->run[i].name;
    if (strncmp(candidate, query->base, length) == 0) {
      *name = *name == NULL ? candidate : *name;
      other = strcmp(candidate, *name) != 0 ? candidate : other;
    }
  }
  if (other != NULL) {
    return kvl_err_set(err, -EINVAL, "%s: run \"%s\" could be %s or %s", store, word, *name, other);
  }
  if (*name == NULL) {
    const char **names = calloc(list->count + 2u, sizeof *names);
    if (names == NULL) {
      return kvl_err_set(err, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < list->count; i++) {
      names[i] = list->run[list->count - 1 - i].name;
    }
    names[list->count] = "latest";
    names[list->count + 1] = "all";
    int code = kvl_err_set(err, -ENOENT, "%s: no run \"%s\"; nearest: %s", store, word, kvl_nearest(query->base, names, list->count + 2u));
    free(names);
    return code;
  }
  return 0;
}

/* Appends the run, or with `all` the runs, that a word names. */
static int select_word(const struct kvl_run_list *list, const char *store, const char *word, int all_allowed, uint32_t *index, uint32_t *count,
                       struct kvl_err *err)
{
  struct query query;
  int code = parse(&query, list, word, err);
  if (code != 0) {
    return code;
  }
  if (list->count == 0) {
    return kvl_err_set(err, -ENOENT, "%s: no run \"%s\": the store holds no runs", store, word);
  }
  const char *name = NULL;
  int64_t id = 0;
  int all = strcmp(query.base, "all") == 0;
  if (all && !all_allowed) {
    return kvl_err_set(err, -EINVAL, "run \"%s\": this command takes one run; nearest: latest", word);
  }
  if (query.base[0] != '\0' && strspn(query.base, "0123456789") == strlen(query.base)) {
    id = strtoll(query.base, NULL, 10);
  } else if (!all && strcmp(query.base, "latest") != 0 && query.base[0] != '\0') {
    code = resolve_name(list, store, word, &query, &name, err);
    if (code != 0) {
      return code;
    }
  }
  uint32_t before = *count, fits = 0, fallback = 0;
  for (uint32_t i = list->count; i-- > 0;) {
    const struct kvl_stored_run *run = &list->run[i];
    if ((id != 0 && run->id != id) || (name != NULL && strcmp(run->name, name) != 0) || !passes(&query, run)) {
      continue;
    }
    fallback = fits == 0 ? i : fallback;
    fits++;
    if (id != 0 || query.names_status || run->status == KVL_STORED_COMPLETE) {
      index[(*count)++] = i;
      if (!all) {
        return 0;
      }
    }
  }
  if (id != 0 && fits == 0) {
    return kvl_err_set(err, -ENOENT, "%s: no run %s; runs %" PRId64 " to %" PRId64 " are there", store, query.base, list->run[0].id,
                       list->run[list->count - 1].id);
  }
  if (fits == 0) {
    return nothing_passes(list, store, word, &query, err);
  }
  if (*count == before) { /* none is complete: the newest will do */
    index[(*count)++] = fallback;
  }
  for (uint32_t a = before, b = *count; all && a + 1 < b; a++) { /* oldest first */
    uint32_t swap = index[a];
    index[a] = index[--b];
    index[b] = swap;
  }
  return 0;
}

int kvl_select_run(const struct kvl_run_list *list, const char *store, const char *word, uint32_t *index, struct kvl_err *err)
{
  uint32_t count = 0;
  return select_word(list, store, word, 0, index, &count, err);
}

int kvl_select_runs(const struct kvl_run_list *list, const char *store, const char *const *words, unsigned word_count, uint32_t *index,
                    uint32_t *count, struct kvl_err *err)
{
  *count = 0;
  uint32_t *found = calloc(list->count + 1u, sizeof *found);
  if (found == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  int code = 0;
  for (unsigned w = 0; w < word_count && code == 0; w++) {
    uint32_t new = 0;
    code = select_word(list, store, words[w], 1, found, &new, err);
    for (uint32_t n = 0; n < new && code == 0; n++) {
      uint32_t at = 0;
      while (at < *count && index[at] != found[n]) {
        at++;
      }
      index[at] = found[n];
      *count += at == *count;
    }
  }
  free(found);
  return code;
}
