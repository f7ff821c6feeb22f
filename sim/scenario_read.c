/* The tree into the struct, driven by the table of keys. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/text.h"
#include "sim/scenario_doc.h"
#include "sim/scenario_number.h"

enum { CANDIDATES_MAX = 128, PATH_TEXT_MAX = 256 };

int kvl_scenario_bad(struct kvl_err *err, const struct kvl_json *node, const char *path, const char *format, ...)
{
  char where[KVL_PATH_CAP + 16], reason[768];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  return kvl_err_set(err, -EINVAL, "%s: %s: %s", kvl_json_where(node, where, sizeof where), path, reason);
}

uint32_t kvl_scenario_key(const char *path)
{
  uint32_t i = 0;
  while (i < kvl_key_count && strcmp(kvl_keys[i].path, path) != 0) {
    i++;
  }
  assert(i < kvl_key_count);
  return i;
}

static void store_integer(void *base, const struct kvl_key *key, uint64_t value)
{
  char *to = (char *)base + key->offset;
  if (key->width == 4) {
    uint32_t narrow = (uint32_t)value;
    memcpy(to, &narrow, sizeof narrow);
  } else {
    memcpy(to, &value, sizeof value);
  }
}

static const char *describe(const struct kvl_json *node, char *buffer, size_t size)
{
  if (node->kind == KVL_JSON_STRING) {
    (void)snprintf(buffer, size, "the string \"%.60s\"", node->text);
  } else {
    (void)snprintf(buffer, size, "%s", kvl_json_kind_name(node->kind));
  }
  return buffer;
}

/* "100GB" is a number to whoever types it. */
static int not_a_number(const struct kvl_key *key, const struct kvl_json *node, const char *path, const char *wanted, struct kvl_err *err)
{
  char text[96], plain[KVL_DECIMAL_MAX];
  bool known = node->kind == KVL_JSON_STRING && kvl_decimal_without_unit(node->text, key->unit, plain);
  return kvl_scenario_bad(err, node, path, "must be a %s, is %s%s%s%s", wanted, describe(node, text, sizeof text), known ? " (nearest: " : "", known ? plain : "",
                          known ? ")" : "");
}

static int read_number(const struct kvl_key *key, void *base, const struct kvl_json *node, const char *path, struct kvl_err *err)
{
  char low[KVL_DECIMAL_MAX], high[KVL_DECIMAL_MAX];
  const char *unit = key->unit, *gap = *unit != '\0' ? " " : "";
  if (node->kind != KVL_JSON_NUMBER) {
    return not_a_number(key, node, path, key->type == KVL_KEY_COUNT ? "whole number" : "number", err);
  }
  uint64_t value;
  bool exact;
  int rc = kvl_decimal_parse(node->text, key->scale, &value, &exact);
  (void)kvl_decimal_print(key->min, key->scale, low);
  (void)kvl_decimal_print(key->max, key->scale, high);
  if (rc == -EDOM || value < key->min) {
    return kvl_scenario_bad(err, node, path, "must be at least %s%s%s, is %s (nearest: %s)", low, gap, unit, node->text, low);
  }
  if (rc == -ERANGE || value > key->max) {
    return kvl_scenario_bad(err, node, path, "must be at most %s%s%s, is %s (nearest: %s)", high, gap, unit, node->text, high);
  }
  if (key->type == KVL_KEY_COUNT && !exact) {
    return kvl_scenario_bad(err, node, path, "must be a whole number, is %s (nearest: %s)", node->text,
                            kvl_decimal_print(value, key->scale, low));
  }
  store_integer(base, key, value);
  return 0;
}

static int read_real(const struct kvl_key *key, void *base, const struct kvl_json *node, const char *path, struct kvl_err *err)
{
  char bound[KVL_DECIMAL_MAX];
  if (node->kind != KVL_JSON_NUMBER) {
    return not_a_number(key, node, path, "number", err);
  }
  double value = strtod(node->text, NULL), min = (double)key->min / 1000, max = (double)key->max / 1000;
  if (value < min || value > max || !isfinite(value)) {
    (void)kvl_decimal_print(value < min ? key->min : key->max, 1000, bound);
    return kvl_scenario_bad(err, node, path, "must be at %s %s, is %s (nearest: %s)", value < min ? "least" : "most", bound, node->text, bound);
  }
  memcpy((char *)base + key->offset, &value, sizeof value);
  return 0;
}

static int read_text(const struct kvl_key *key, void *base, const struct kvl_json *node, const char *path, struct kvl_err *err)
{
  char *to = (char *)base + key->offset;
  bool typed_number = node->line == 0 && node->kind == KVL_JSON_NUMBER; /* --set=name=12 needs no quotes */
  if (node->kind != KVL_JSON_STRING && !typed_number) {
    return kvl_scenario_bad(err, node, path, "must be a string, is %s", kvl_json_kind_name(node->kind));
  }
  if (strlen(node->text) >= key->width) {
    return kvl_scenario_bad(err, node, path, "is longer than %u bytes", (unsigned)key->width - 1);
  }
  for (const char *c = node->text; *c != '\0'; c++) {
    if ((unsigned char)*c < 0x20) {
      return kvl_scenario_bad(err, node, path, "holds a control character");
    }
  }
  memset(to, 0, key->width);
  memcpy(to, node->text, strlen(node->text));
  return 0;
}

static int read_choice(const struct kvl_key *key, void *base, const struct kvl_json *node, const char *path, struct kvl_err *err)
{
  char list[256] = "";
  uint32_t count = 0, used = 0;
  for (; key->choices[count] != NULL; count++) {
    used += (uint32_t)snprintf(list + used, sizeof list - used, "%s%s", count > 0 ? ", " : "", key->choices[count]);
  }
  if (node->kind != KVL_JSON_STRING) {
    return kvl_scenario_bad(err, node, path, "must be one of %s, is %s", list, kvl_json_kind_name(node->kind));
  }
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(node->text, key->choices[i]) == 0) {
      if (key->type == KVL_KEY_WORD) {
        return read_text(key, base, node, path, err);
      }
      store_integer(base, key, i);
      return 0;
    }
  }
  return kvl_scenario_bad(err, node, path, "must be one of %s, is \"%.60s\" (nearest: %s)", list, node->text,
                          kvl_nearest(node->text, key->choices, count));
}

static int read_curve(const struct kvl_key *key, void *base, const struct kvl_json *node, const char *path, struct kvl_err *err)
{
  struct kvl_curve *curve = (struct kvl_curve *)(void *)((char *)base + key->offset);
  memset(curve, 0, sizeof *curve);
  if (node->kind != KVL_JSON_ARRAY) {
    return kvl_scenario_bad(err, node, path, "must be an array of pairs [x, y] (%s), is %s", key->unit, kvl_json_kind_name(node->kind));
  }
  for (const struct kvl_json *pair = node->child; pair != NULL; pair = pair->next) {
    const struct kvl_json *x = pair->child, *y = x == NULL ? NULL : x->next;
    if (pair->kind != KVL_JSON_ARRAY || y == NULL || y->next != NULL || x->kind != KVL_JSON_NUMBER || y->kind != KVL_JSON_NUMBER) {
      return kvl_scenario_bad(err, pair, path, "must be a pair of numbers [x, y] (%s)", key->unit);
    }
    if (curve->n == KVL_CURVE_MAX) {
      return kvl_scenario_bad(err, pair, path, "has more than %d points", KVL_CURVE_MAX);
    }
    uint64_t at, value;
    bool exact;
    int rc = kvl_decimal_parse(x->text, 1, &at, &exact);
    if (rc != 0 || !exact) {
      return kvl_scenario_bad(err, x, path, "x must be a whole number of at least 0, is %s", x->text);
    }
    rc = kvl_decimal_parse(y->text, key->scale, &value, &exact);
    if (rc != 0 || value < key->min) {
      return kvl_scenario_bad(err, y, path, "y must be %s and fit 64 bits, is %s", key->min > 0 ? "more than 0" : "at least 0", y->text);
    }
    if (curve->n > 0 && at <= curve->x[curve->n - 1]) {
      return kvl_scenario_bad(err, x, path, "x must ascend: %s comes after %llu", x->text, (unsigned long long)curve->x[curve->n - 1]);
    }
    curve->x[curve->n] = at;
    curve->y[curve->n++] = value;
  }
  if (curve->n == 0 && key->fallback == NULL) {
    return kvl_scenario_bad(err, node, path, "has no points");
  }
  return 0;
}

/* Where a point's coordinate belongs on its axis: the place of an equal one, or behind the last. -1: before it, or no room. */
static int place_on(uint64_t *axis, uint32_t *n, uint64_t x)
{
  for (uint32_t i = 0; i < *n; i++) {
    if (axis[i] == x) {
      return (int)i;
    }
  }
  if (*n == KVL_GATHER_AXIS_MAX || (*n > 0 && x < axis[*n - 1])) {
    return -1;
  }
  axis[*n] = x;
  return (int)(*n)++;
}

static int read_gathers(const struct kvl_key *key, void *base, const struct kvl_json *node, const char *path, struct kvl_err *err)
{
  struct kvl_gather_table *t = (struct kvl_gather_table *)(void *)((char *)base + key->offset);
  memset(t, 0, sizeof *t);
  if (node->kind != KVL_JSON_ARRAY) {
    return kvl_scenario_bad(err, node, path, "must be an array of points [row bytes, range, rows, us], is %s", kvl_json_kind_name(node->kind));
  }
  uint32_t n = 0;
  const struct kvl_json *last = node;
  for (const struct kvl_json *point = node->child; point != NULL; point = point->next, n++) {
    uint64_t x[4] = {0};
    uint32_t numbers = 0;
    for (const struct kvl_json *number = point->kind == KVL_JSON_ARRAY ? point->child : NULL; number != NULL; number = number->next) {
      bool exact;
      int rc = numbers < 4 && number->kind == KVL_JSON_NUMBER ? kvl_decimal_parse(number->text, numbers == 3 ? key->scale : 1, &x[numbers], &exact) : -EDOM;
      if (rc != 0 || (numbers < 3 && (!exact || x[numbers] == 0))) {
        return kvl_scenario_bad(err, number, path, "a point is [row bytes, range, rows, us]: three whole numbers more than 0 and a time");
      }
      numbers++;
    }
    if (numbers != 4) {
      return kvl_scenario_bad(err, point, path, "a point is [row bytes, range, rows, us]: three whole numbers more than 0 and a time");
    }
    if (n == KVL_GATHER_POINTS_MAX) {
      return kvl_scenario_bad(err, point, path, "has more than %d points", (int)KVL_GATHER_POINTS_MAX);
    }
    int size = place_on(t->row_bytes, &t->sizes, x[0]), range = place_on(t->range_bytes, &t->ranges, x[1]), count = place_on(t->rows, &t->counts, x[2]);
    if (size < 0 || range < 0 || count < 0 || n != ((uint32_t)size * t->ranges + (uint32_t)range) * t->counts + (uint32_t)count) {
      return kvl_scenario_bad(err, point, path, "points must be a full grid in ascending order, rows first, then range, then row bytes (at most %d of each)",
                              (int)KVL_GATHER_AXIS_MAX);
    }
    if (count > 0 && x[3] < t->ns[n - 1]) {
      return kvl_scenario_bad(err, point, path, "more rows of the same size cannot take less time than fewer");
    }
    t->ns[n] = x[3];
    last = point;
  }
  if (n != t->sizes * t->ranges * t->counts) {
    return kvl_scenario_bad(err, last, path, "the grid is not full: %u points of %u x %u x %u", (unsigned)n, (unsigned)t->sizes, (unsigned)t->ranges,
                            (unsigned)t->counts);
  }
  return 0;
}

/* {"value": v, "origin": "..."} stands for v; *origin stays NULL when there is none. */
static int unwrap(const struct kvl_json **node, const char *path, const char **origin, struct kvl_err *err)
{
  if ((*node)->kind != KVL_JSON_OBJECT) {
    return 0;
  }
  const struct kvl_json *value = kvl_json_member(*node, "value"), *text = kvl_json_member(*node, "origin");
  if (value == NULL) {
    return kvl_scenario_bad(err, *node, path, "is an object without \"value\"");
  }
  for (const struct kvl_json *child = (*node)->child; child != NULL; child = child->next) {
    if (child != value && child != text) {
      return kvl_scenario_bad(err, child, path, "unknown key \"%s\" (beside \"value\" only \"origin\")", child->key);
    }
  }
  if (text != NULL && text->kind != KVL_JSON_STRING) {
    return kvl_scenario_bad(err, text, path, "\"origin\" must be a string, is %s", kvl_json_kind_name(text->kind));
  }
  if (text != NULL && strlen(text->text) > KVL_ORIGIN_MAX) {
    return kvl_scenario_bad(err, text, path, "\"origin\" is longer than %d bytes", (int)KVL_ORIGIN_MAX);
  }
  for (const char *c = text == NULL ? "" : text->text; *c != '\0'; c++) {
    if ((unsigned char)*c < 0x20) {
      return kvl_scenario_bad(err, text, path, "\"origin\" holds a control character");
    }
  }
  *origin = text == NULL ? NULL : text->text;
  *node = value;
  return 0;
}

static int read_caches(struct kvl_scenario_doc *doc, const struct kvl_json *node, struct kvl_err *err);

static int read_value(struct kvl_scenario_doc *doc, const struct kvl_key *key, void *base, const struct kvl_json *node, const char *path,
                      struct kvl_err *err)
{
  switch (key->type) {
  case KVL_KEY_TEXT:
    return read_text(key, base, node, path, err);
  case KVL_KEY_COUNT:
  case KVL_KEY_AMOUNT:
    return read_number(key, base, node, path, err);
  case KVL_KEY_REAL:
    return read_real(key, base, node, path, err);
  case KVL_KEY_CHOICE:
  case KVL_KEY_WORD:
    return read_choice(key, base, node, path, err);
  case KVL_KEY_CURVE:
    return read_curve(key, base, node, path, err);
  case KVL_KEY_GATHERS:
    return read_gathers(key, base, node, path, err);
  case KVL_KEY_CACHES:
    return read_caches(doc, node, err);
  }
  return -EINVAL;
}

static int read_default(struct kvl_scenario_doc *doc, const struct kvl_key *key, void *base, const char *path, struct kvl_err *err)
{
  struct kvl_json node = {.kind = KVL_JSON_NUMBER, .text = key->fallback, .place = "default"};
  if (key->type == KVL_KEY_CURVE || key->type == KVL_KEY_GATHERS) {
    node.kind = KVL_JSON_ARRAY;
  } else if (key->type == KVL_KEY_TEXT || key->type == KVL_KEY_CHOICE || key->type == KVL_KEY_WORD) {
    node.kind = KVL_JSON_STRING;
  }
  return read_value(doc, key, base, &node, path, err);
}

static int note_inner(struct kvl_scenario_doc *doc, const char *path, const char *text, struct kvl_err *err)
{
  struct kvl_inner_origin *inner = text == NULL ? NULL : kvl_arena_take(&doc->arena, sizeof *inner);
  if (text == NULL) {
    return 0;
  }
  if (inner == NULL || (inner->path = kvl_arena_text(&doc->arena, path, strlen(path))) == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", path);
  }
  inner->text = text;
  inner->next = doc->inner;
  doc->inner = inner;
  return 0;
}

/* One object inside model.caches: all keys of its table, and nothing else (`also`: one more key that the caller reads). */
static int read_entry(struct kvl_scenario_doc *doc, const struct kvl_key *keys, uint32_t count, void *base, const struct kvl_json *object,
                      const char *prefix, const char *also, struct kvl_err *err)
{
  char path[PATH_TEXT_MAX];
  if (object->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, object, prefix, "must be an object, is %s", kvl_json_kind_name(object->kind));
  }
  for (const struct kvl_json *child = object->child; child != NULL; child = child->next) {
    const char *names[16];
    uint32_t n = 0;
    bool known = false;
    for (; n < count; n++) {
      names[n] = keys[n].path;
      known = known || strcmp(names[n], child->key) == 0;
    }
    if (also != NULL) {
      names[n++] = also;
      known = known || strcmp(also, child->key) == 0;
    }
    if (!known) {
      (void)snprintf(path, sizeof path, "%s.%s", prefix, child->key);
      return kvl_scenario_bad(err, child, path, "unknown key (nearest: %s)", kvl_nearest(child->key, names, n));
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    const struct kvl_json *node = kvl_json_member(object, keys[i].path);
    const char *origin = NULL;
    (void)snprintf(path, sizeof path, "%s.%s", prefix, keys[i].path);
    int rc;
    if (node != NULL) {
      rc = unwrap(&node, path, &origin, err);
      rc = rc == 0 ? read_value(doc, &keys[i], base, node, path, err) : rc;
      rc = rc == 0 ? note_inner(doc, path, origin, err) : rc;
    } else if (keys[i].fallback == NULL) {
      rc = kvl_scenario_bad(err, object, path, "is missing");
    } else {
      rc = read_default(doc, &keys[i], base, path, err);
    }
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

/* Points are kept in order of layer; equal layers in order of cache. */
static uint32_t insert_point(struct kvl_model *model, uint32_t cache, const struct kvl_selection_entry *entry)
{
  struct kvl_selection_shape *shape = &model->selection;
  uint32_t at = shape->points++;
  for (; at > 0 && shape->point[at - 1].layer > entry->layer; at--) {
    shape->point[at] = shape->point[at - 1];
    model->readers[at] = model->readers[at - 1];
  }
  shape->point[at] = (struct kvl_selection_point){.cache = (uint16_t)cache, .layer = (uint16_t)entry->layer, .k = entry->k};
  model->readers[at] = entry->readers;
  return at;
}

static int add_selections(struct kvl_scenario_doc *doc, const struct kvl_json *object, const char *prefix, uint32_t cache, uint32_t shift,
                          struct kvl_err *err)
{
  struct kvl_model *model = &doc->scenario.model;
  const struct kvl_json *list = kvl_json_member(object, "selections");
  char path[PATH_TEXT_MAX];
  (void)snprintf(path, sizeof path, "%s.selections", prefix);
  if (list == NULL || list->kind != KVL_JSON_ARRAY || list->child == NULL) {
    return kvl_scenario_bad(err, list == NULL ? object : list, path,
                            "must list at least one selection, for example [{\"layer\": 2, \"k\": 512, \"readers\": 1}]");
  }
  uint32_t index = 0;
  for (const struct kvl_json *node = list->child; node != NULL; node = node->next, index++) {
    struct kvl_selection_entry entry = {0};
    (void)snprintf(path, sizeof path, "%s.selections.%u", prefix, (unsigned)index);
    int rc = read_entry(doc, kvl_selection_keys, kvl_selection_key_count, &entry, node, path, NULL, err);
    if (rc != 0) {
      return rc;
    }
    entry.layer += shift;
    if (entry.layer >= model->layers) {
      return kvl_scenario_bad(err, node, path, "layer %u is outside the model's %u layer%s", (unsigned)entry.layer, (unsigned)model->layers, kvl_text_s(model->layers));
    }
    if (entry.readers > model->layers - entry.layer) {
      return kvl_scenario_bad(err, node, path, "%u readers from layer %u on are more than the model's %u layer%s: at most %u", (unsigned)entry.readers, (unsigned)entry.layer,
                              (unsigned)model->layers, kvl_text_s(model->layers), (unsigned)(model->layers - entry.layer));
    }
    if (entry.layer < model->cache[cache].written_layer) {
      return kvl_scenario_bad(err, node, path, "layer %u selects from a cache that is first written at layer %u", (unsigned)entry.layer,
                              (unsigned)model->cache[cache].written_layer);
    }
    if (model->cache[cache].layers > 1 && index != 0) {
      return kvl_scenario_bad(err, node, path, "a second selection from a cache whose rows have a part for each of %u layers",
                              (unsigned)model->cache[cache].layers);
    }
    if (model->cache[cache].layers > 1 && entry.readers != model->cache[cache].layers) {
      return kvl_scenario_bad(err, node, path, "%u layers read a cache whose rows have a part for each of %u", (unsigned)entry.readers,
                              (unsigned)model->cache[cache].layers);
    }
    if (model->selection.points == KVL_POINTS_MAX) {
      return kvl_scenario_bad(err, node, path, "more than %d selections in the model", KVL_POINTS_MAX);
    }
    uint32_t at = insert_point(model, cache, &entry);
    if (at > 0 && model->selection.point[at - 1].layer == entry.layer && model->selection.point[at - 1].cache == cache) {
      return kvl_scenario_bad(err, node, path, "layer %u selects twice from one cache", (unsigned)entry.layer);
    }
  }
  return 0;
}

static int add_cache(struct kvl_scenario_doc *doc, const struct kvl_json *object, struct kvl_err *err)
{
  struct kvl_model *model = &doc->scenario.model;
  struct kvl_cache_entry entry = {.repeat = 1};
  for (uint32_t i = 0; i < entry.repeat; i++) {
    char prefix[64];
    uint32_t at = model->caches;
    (void)snprintf(prefix, sizeof prefix, "model.caches.%u", (unsigned)at);
    if (at == KVL_CACHES_MAX) {
      return kvl_scenario_bad(err, object, prefix, "more than %d caches in the model", KVL_CACHES_MAX);
    }
    int rc = read_entry(doc, kvl_cache_keys, kvl_cache_key_count, &entry, object, prefix, "selections", err);
    if (rc != 0) {
      return rc;
    }
    struct kvl_model_cache *cache = &model->cache[at];
    uint32_t layer = entry.written_layer + i * entry.every;
    *cache = (struct kvl_model_cache){.written_layer = layer, .tokens_per_row = entry.tokens_per_row, .row_bytes = entry.row_bytes,
                                      .index_key_bytes = entry.index_key_bytes, .layers = entry.layers};
    int length = entry.repeat == 1 ? snprintf(cache->name, sizeof cache->name, "%s", entry.name)
                                   : snprintf(cache->name, sizeof cache->name, "%.11s%u", entry.name, (unsigned)layer);
    if (length <= 0 || layer >= model->layers) {
      return kvl_scenario_bad(err, object, prefix, length <= 0 ? "needs a name" : "is written past the model's last layer");
    }
    if (entry.row_bytes % entry.layers != 0) {
      return kvl_scenario_bad(err, object, prefix, "a row of %u bytes does not part evenly into %u layers", (unsigned)entry.row_bytes,
                              (unsigned)entry.layers);
    }
    if ((entry.tokens_per_row & (entry.tokens_per_row - 1)) != 0) {
      uint32_t below = 1;
      for (; below * 2 < entry.tokens_per_row; below *= 2) {
      }
      return kvl_scenario_bad(err, object, prefix, "tokens_per_row must be a power of two, is %u (nearest: %u or %u)",
                              (unsigned)entry.tokens_per_row, (unsigned)below, (unsigned)below * 2);
    }
    for (uint32_t other = 0; other < at; other++) {
      if (strcmp(model->cache[other].name, cache->name) == 0) {
        return kvl_scenario_bad(err, object, prefix, "a second cache with the name \"%s\"", cache->name);
      }
    }
    model->selection.tokens_per_row[at] = entry.tokens_per_row;
    model->selection.caches = ++model->caches;
    rc = add_selections(doc, object, prefix, at, i * entry.every, err);
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

static int read_caches(struct kvl_scenario_doc *doc, const struct kvl_json *node, struct kvl_err *err)
{
  if (node->kind != KVL_JSON_ARRAY || node->child == NULL) {
    return kvl_scenario_bad(err, node, "model.caches", "must be an array of at least one cache");
  }
  int rc = 0;
  for (const struct kvl_json *object = node->child; object != NULL && rc == 0; object = object->next) {
    rc = add_cache(doc, object, err);
  }
  return rc;
}

/* Every key of the tree must be a key of the table or a section of it. */
static int check_known(const struct kvl_json *object, const char *prefix, struct kvl_err *err)
{
  size_t prefix_length = strlen(prefix);
  for (const struct kvl_json *child = object->child; child != NULL; child = child->next) {
    char path[PATH_TEXT_MAX];
    bool known = false, section = false;
    int length = snprintf(path, sizeof path, "%s%s", prefix, child->key);
    if (length >= (int)sizeof path) {
      return kvl_scenario_bad(err, child, prefix, "a key that is far too long");
    }
    for (uint32_t i = 0; i < kvl_key_count; i++) {
      known = known || strcmp(kvl_keys[i].path, path) == 0;
      section = section || (strncmp(kvl_keys[i].path, path, (size_t)length) == 0 && kvl_keys[i].path[length] == '.');
    }
    if (section) {
      if (child->kind != KVL_JSON_OBJECT) {
        return kvl_scenario_bad(err, child, path, "must be an object, is %s", kvl_json_kind_name(child->kind));
      }
      char below[PATH_TEXT_MAX + 1];
      (void)snprintf(below, sizeof below, "%s.", path);
      int rc = check_known(child, below, err);
      if (rc != 0) {
        return rc;
      }
    } else if (!known) {
      const char *names[CANDIDATES_MAX];
      char sections[CANDIDATES_MAX][32];
      uint32_t n = 0, copies = 0;
      for (uint32_t i = 0; i < kvl_key_count && n + 1 < CANDIDATES_MAX; i++) { /* keys and sections beside it, and the same word elsewhere */
        const char *rest = kvl_keys[i].path + prefix_length, *leaf = strrchr(kvl_keys[i].path, '.');
        bool beside = strncmp(kvl_keys[i].path, prefix, prefix_length) == 0;
        if (leaf != NULL && strcmp(leaf + 1, child->key) == 0) {
          return kvl_scenario_bad(err, child, path, "unknown key (nearest: %s)", kvl_keys[i].path);
        }
        if (!beside) {
          continue;
        }
        const char *dot = strchr(rest, '.');
        if (dot == NULL) {
          names[n++] = rest;
        } else {
          (void)snprintf(sections[copies], sizeof sections[copies], "%.*s", (int)(dot - rest), rest);
          names[n++] = sections[copies++];
        }
      }
      return kvl_scenario_bad(err, child, path, "unknown key (nearest: %s%s)", prefix, kvl_nearest(child->key, names, n));
    }
  }
  return 0;
}

static const struct kvl_json *find_node(const struct kvl_json *root, const char *path)
{
  char name[PATH_TEXT_MAX];
  const struct kvl_json *at = root;
  while (at != NULL && *path != '\0') {
    size_t length = strcspn(path, ".");
    (void)snprintf(name, sizeof name, "%.*s", (int)length, path);
    at = kvl_json_member(at, name);
    path += length + (path[length] == '.');
  }
  return at;
}

/* The keys whose paths begin with `prefix`. */
static int read_keys(struct kvl_scenario_doc *doc, const char *prefix, struct kvl_err *err)
{
  int rc = check_known(doc->root, "", err);
  for (uint32_t i = 0; i < kvl_key_count && rc == 0; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    if (strncmp(key->path, prefix, strlen(prefix)) != 0) {
      continue;
    }
    const struct kvl_json *node = find_node(doc->root, key->path);
    struct kvl_origin *origin = &doc->origin[i];
    if (node != NULL) {
      origin->place = node->place;
      origin->line = node->line;
      rc = unwrap(&node, key->path, &origin->text, err);
      if (origin->text == NULL && node->line == 0) {
        origin->text = "--set";
      }
      rc = rc == 0 ? read_value(doc, key, &doc->scenario, node, key->path, err) : rc;
    } else if (key->fallback != NULL) {
      rc = read_default(doc, key, &doc->scenario, key->path, err);
    } else {
      char section[32];
      (void)snprintf(section, sizeof section, "%.*s", (int)strcspn(key->path, "."), key->path);
      const struct kvl_json *parent = kvl_json_member(doc->root, section);
      rc = parent == NULL ? kvl_scenario_bad(err, doc->root, strcmp(section, "hardware") == 0 ? "node.hardware" : section, "is missing")
                          : kvl_scenario_bad(err, parent, key->path, "is missing (%s%s%s)", key->meaning, *key->unit != '\0' ? ", in " : "",
                                             key->unit);
    }
  }
  return rc;
}

int kvl_scenario_read(struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  return read_keys(doc, "", err);
}

int kvl_scenario_read_model(struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  return read_keys(doc, "model.", err);
}

int kvl_scenario_read_hardware(struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  return read_keys(doc, "hardware.", err);
}

static int unknown_path(const char *path, const struct kvl_json *node, struct kvl_err *err)
{
  const char *names[CANDIDATES_MAX + 3] = {"model", "costs", "node.hardware"}, *leaf = strrchr(path, '.');
  size_t n = 3;
  leaf = leaf == NULL ? path : leaf + 1;
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const char *dot = strrchr(kvl_keys[i].path, '.');
    if (strcmp(dot == NULL ? kvl_keys[i].path : dot + 1, leaf) == 0) { /* the right word in the wrong section */
      return kvl_scenario_bad(err, node, path, "unknown key (nearest: %s)", kvl_keys[i].path);
    }
    if (n < sizeof names / sizeof names[0]) {
      names[n++] = kvl_keys[i].path;
    }
  }
  return kvl_scenario_bad(err, node, path, "unknown key (nearest: %s)", kvl_nearest(path, names, n));
}

int kvl_scenario_check_value(const char *path, const struct kvl_json *value, struct kvl_err *err)
{
  const char *known = strncmp(path, "node.hardware", 13) == 0 && (path[13] == '\0' || path[13] == '.') ? path + 5 : path;
  if (strcmp(known, "model") == 0 || strcmp(known, "costs") == 0 || strcmp(known, "hardware") == 0 || strcmp(known, "speculation") == 0) {
    return value->kind == KVL_JSON_STRING || value->kind == KVL_JSON_OBJECT
             ? 0
             : kvl_scenario_bad(err, value, path, "must be the name of a descriptor (a string) or an object, is %s", kvl_json_kind_name(value->kind));
  }
  if (strncmp(known, "model.caches", 12) == 0 && (known[12] == '\0' || known[12] == '.') &&
      known[strspn(known, "abcdefghijklmnopqrstuvwxyz0123456789_.")] == '\0') {
    return 0;
  }
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    if (strcmp(kvl_keys[i].path, known) == 0) {
      struct kvl_scenario *scratch = calloc(1, sizeof *scratch);
      int rc = scratch == NULL ? kvl_err_set(err, -ENOMEM, "%s: out of memory", path)
                               : read_value(NULL, &kvl_keys[i], scratch, value, path, err); /* only model.caches needs a document */
      free(scratch);
      return rc;
    }
  }
  return unknown_path(path, value, err);
}
