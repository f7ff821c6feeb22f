/* Plans in a result store: what was asked and what was answered, beside the sweeps that the answer rests on. The table is made when the first plan is stored.
 * Errors are those of results/store.h. */
#ifndef KVL_RESULTS_PLAN_H
#define KVL_RESULTS_PLAN_H

#include "results/store.h"

struct kvl_stored_plan {
  int64_t id;
  char *name, *request, *answer, *build, *command; /* request: the plan's text; answer: JSON (sim/plan.h) */
};
struct kvl_plan_list {
  struct kvl_stored_plan *plan; /* by id */
  uint32_t count;
};

/* Enters an answer; the same name, request and answer again are one plan. *plan: its number. */
int kvl_store_plan(struct kvl_store *store, const char *name, const char *request, const char *answer, const char *build, const char *command, int64_t *plan,
                   struct kvl_err *err);
int kvl_store_plans(struct kvl_store *store, struct kvl_plan_list *list, struct kvl_err *err);
void kvl_plan_list_free(struct kvl_plan_list *list);
/* The plan that a word names: a number, a name (the newest of it), or NULL for the newest. -ENOENT with the nearest. */
int kvl_plan_select(const struct kvl_plan_list *list, const char *store, const char *word, uint32_t *index, struct kvl_err *err);

#endif
