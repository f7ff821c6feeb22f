/* In what the scenarios of several runs differ: their keys, flattened, side by side. */
#ifndef KVL_SIM_SCENARIO_DIFF_H
#define KVL_SIM_SCENARIO_DIFF_H

#include <stddef.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "results/store.h"

/* One key of one scenario: "policy.hot_rows" and its value as JSON. */
struct kvl_setting {
  char *key, *value;
  uint32_t run; /* position among the compared runs */
};

struct kvl_settings {
  struct kvl_setting *item; /* by key, then run */
  size_t count, capacity;
};

/* The scenarios of runs[0 .. count). Free in any case. -ENOMEM, errors of the store. */
int kvl_settings_read(struct kvl_settings *settings, struct kvl_store *store, const int64_t *runs, uint32_t count, struct kvl_err *err);
void kvl_settings_free(struct kvl_settings *settings);

/* What the key at `at` says in each of `runs` runs (NULL: nothing); returns where the next key begins. */
size_t kvl_settings_at(const struct kvl_settings *settings, size_t at, const char **value, uint32_t runs);
int kvl_settings_same(const char *const *value, uint32_t runs);

#endif
