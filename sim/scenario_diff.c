#include "sim/scenario_diff.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Takes both strings. 0 when memory is short. */
static int add_setting(struct kvl_settings *settings, char *key, char *value, uint32_t run)
{
  if (key != NULL && value != NULL && settings->count == settings->capacity) {
    size_t capacity = settings->capacity == 0 ? 256 : settings->capacity * 2;
    struct kvl_setting *item = realloc(settings->item, capacity * sizeof *item);
    if (item != NULL) {
      settings->item = item;
      settings->capacity = capacity;
    }
  }
  if (key == NULL || value == NULL || settings->count == settings->capacity) {
    free(key);
    free(value);
    return 0;
  }
  settings->item[settings->count++] = (struct kvl_setting){key, value, run};
  return 1;
}

/* Objects are walked; everything else, arrays included, is a value. {"value": v, "origin": text} is the value v. */
static int flatten(struct kvl_settings *settings, const char *prefix, const cJSON *json, uint32_t run)
{
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, "value");
  if (value != NULL && cJSON_HasObjectItem(json, "origin")) {
    json = value;
  }
  if (!cJSON_IsObject(json)) {
    return add_setting(settings, strdup(prefix), cJSON_PrintUnformatted(json), run);
  }
  const cJSON *child = NULL;
  cJSON_ArrayForEach(child, json) {
    size_t front = strlen(prefix), dot = front > 0 ? 1 : 0, back = strlen(child->string);
    char *key = malloc(front + dot + back + 1);
    if (key == NULL) {
      return 0;
    }
    memcpy(key, prefix, front);
    memcpy(key + front, ".", dot);
    memcpy(key + front + dot, child->string, back + 1);
    int fine = flatten(settings, key, child, run);
    free(key);
    if (!fine) {
      return 0;
    }
  }
  return 1;
}

static int by_key_then_run(const void *a, const void *b)
{
  const struct kvl_setting *x = a, *y = b;
  int order = strcmp(x->key, y->key);
  return order != 0 ? order : (x->run > y->run) - (x->run < y->run);
}

/* What one key says in each run (NULL: nothing), and where the next key begins. */
size_t kvl_settings_at(const struct kvl_settings *settings, size_t at, const char **value, uint32_t runs)
{
  const char *key = settings->item[at].key;
  memset(value, 0, runs * sizeof *value);
  for (; at < settings->count && strcmp(settings->item[at].key, key) == 0; at++) {
    value[settings->item[at].run] = settings->item[at].value;
  }
  return at;
}

int kvl_settings_same(const char *const *value, uint32_t runs)
{
  for (uint32_t r = 1; r < runs; r++) {
    if ((value[r] == NULL) != (value[0] == NULL) || (value[r] != NULL && strcmp(value[r], value[0]) != 0)) {
      return 0;
    }
  }
  return 1;
}

int kvl_settings_read(struct kvl_settings *settings, struct kvl_store *store, const int64_t *runs, uint32_t count, struct kvl_err *err)
{
  *settings = (struct kvl_settings){NULL, 0, 0};
  for (uint32_t r = 0; r < count; r++) {
    char *text = NULL;
    int code = kvl_store_scenario(store, runs[r], &text, err);
    if (code != 0) {
      return code;
    }
    cJSON *json = cJSON_Parse(text);
    int fine = json == NULL || flatten(settings, "", json, r); /* a scenario that is no JSON has no keys to compare */
    cJSON_Delete(json);
    free(text);
    if (!fine) {
      return kvl_err_set(err, -ENOMEM, "out of memory to compare scenarios");
    }
  }
  if (settings->count > 0) {
    qsort(settings->item, settings->count, sizeof *settings->item, by_key_then_run);
  }
  return 0;
}

void kvl_settings_free(struct kvl_settings *settings)
{
  for (size_t i = 0; i < settings->count; i++) {
    free(settings->item[i].key);
    free(settings->item[i].value);
  }
  free(settings->item);
  *settings = (struct kvl_settings){NULL, 0, 0};
}
