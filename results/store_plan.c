#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/plan.h"
#include "results/store_sweep_internal.h"

static const char schema[] = "CREATE TABLE IF NOT EXISTS main.plans (plan INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, request TEXT NOT NULL, answer TEXT NOT NULL, "
                             "build TEXT NOT NULL, command TEXT NOT NULL)";

int kvl_store_plan(struct kvl_store *store, const char *name, const char *request, const char *answer, const char *build, const char *command, int64_t *plan,
                   struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  rc = rc != SQLITE_OK ? rc : kvl_store_exec(store, schema);
  rc = rc != SQLITE_OK ? rc
                       : kvl_sql_prepare(store, &q, "INSERT INTO plans (name, request, answer, build, command) SELECT ?1, ?2, ?3, ?4, ?5 "
                                                    "WHERE NOT EXISTS (SELECT 1 FROM plans WHERE name = ?1 AND request = ?2 AND answer = ?3)",
                                         "ttttt", name, request, answer, build, command);
  rc = kvl_sql_done(q, rc);
  rc = rc != SQLITE_OK ? rc : kvl_sql_prepare(store, &q, "SELECT plan FROM plans WHERE name = ?1 AND request = ?2 AND answer = ?3", "ttt", name, request, answer);
  if (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    *plan = sqlite3_column_int64(q, 0);
    rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  return kvl_store_finish(store, rc, 0, "store a plan", err);
}

int kvl_store_merge_plans(struct kvl_store *store, uint32_t *count)
{
  int64_t there = 0, before = 0, after = 0;
  int rc = kvl_sql_number(store, &there, "SELECT count(*) FROM other.sqlite_schema WHERE type = 'table' AND name = 'plans'", 0, 0);
  if (rc != SQLITE_OK || there == 0) {
    return rc;
  }
  rc = kvl_store_exec(store, schema);
  rc = rc != SQLITE_OK ? rc : kvl_sql_number(store, &before, "SELECT count(*) FROM main.plans", 0, 0);
  rc = rc != SQLITE_OK ? rc
                       : kvl_store_exec(store, "INSERT INTO main.plans (name, request, answer, build, command) SELECT name, request, answer, build, command FROM other.plans o "
                                               "WHERE NOT EXISTS (SELECT 1 FROM main.plans m WHERE m.name = o.name AND m.request = o.request AND m.answer = o.answer) ORDER BY o.plan");
  rc = rc != SQLITE_OK ? rc : kvl_sql_number(store, &after, "SELECT count(*) FROM main.plans", 0, 0);
  *count += (uint32_t)(after - before);
  return rc;
}

static char *text_at(sqlite3_stmt *q, int column)
{
  const unsigned char *text = sqlite3_column_text(q, column);
  return text == NULL ? NULL : strdup((const char *)text);
}

int kvl_store_plans(struct kvl_store *store, struct kvl_plan_list *list, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int64_t there = 0;
  int code = 0;
  *list = (struct kvl_plan_list){NULL, 0};
  int rc = kvl_sql_number(store, &there, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'plans'", 0, 0);
  if (rc == SQLITE_OK && there == 0) {
    return 0;
  }
  rc = rc != SQLITE_OK ? rc : kvl_store_prepare(store, &q, "SELECT plan, name, request, answer, build, command FROM plans ORDER BY plan");
  while (rc == SQLITE_OK && code == 0 && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    struct kvl_stored_plan *longer = realloc(list->plan, (list->count + 1u) * sizeof *longer);
    if (longer != NULL) {
      list->plan = longer;
      struct kvl_stored_plan *p = &longer[list->count++];
      *p = (struct kvl_stored_plan){sqlite3_column_int64(q, 0), text_at(q, 1), text_at(q, 2), text_at(q, 3), text_at(q, 4), text_at(q, 5)};
      longer = p->name == NULL || p->request == NULL || p->answer == NULL || p->build == NULL || p->command == NULL ? NULL : longer;
    }
    code = longer == NULL ? kvl_err_set(err, -ENOMEM, "%s: out of memory", store->path) : 0;
    rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  if (code == 0 && rc != SQLITE_DONE) {
    code = kvl_store_sql_error(store, rc, "list its plans", err);
  }
  if (code != 0) {
    kvl_plan_list_free(list);
  }
  return code;
}

void kvl_plan_list_free(struct kvl_plan_list *list)
{
  for (uint32_t i = 0; i < list->count; i++) {
    struct kvl_stored_plan *p = &list->plan[i];
    char *const texts[] = {p->name, p->request, p->answer, p->build, p->command};
    for (int t = 0; t < 5; t++) {
      free(texts[t]);
    }
  }
  free(list->plan);
  *list = (struct kvl_plan_list){NULL, 0};
}

int kvl_plan_select(const struct kvl_plan_list *list, const char *store, const char *word, uint32_t *index, struct kvl_err *err)
{
  if (list->count == 0) {
    return kvl_err_set(err, -ENOENT, "%s: holds no plans (kvloan plan --store=%s makes one)", store, store);
  }
  *index = list->count - 1;
  if (word == NULL) {
    return 0;
  }
  char *end = NULL;
  long long id = strtoll(word, &end, 10);
  const char **names = calloc(list->count, sizeof *names);
  for (uint32_t i = list->count; i-- > 0;) {
    if ((end != word && *end == '\0' && list->plan[i].id == id) || strcmp(list->plan[i].name, word) == 0) {
      *index = i;
      free(names);
      return 0;
    }
    if (names != NULL) {
      names[i] = list->plan[i].name;
    }
  }
  int rc = kvl_err_set(err, -ENOENT, "%s: holds no plan %s (nearest: %s)", store, word, names == NULL ? "latest" : kvl_nearest(word, names, list->count));
  free(names);
  return rc;
}
