/* A scenario back into text: canonical JSON, single values, the list of keys. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario_doc.h"
#include "sim/scenario_number.h"

static uint64_t load_integer(const struct kvl_key *key, const void *base)
{
  const char *from = (const char *)base + key->offset;
  uint32_t narrow;
  uint64_t value;
  if (key->width == 4) {
    memcpy(&narrow, from, sizeof narrow);
    return narrow;
  }
  memcpy(&value, from, sizeof value);
  return value;
}

static const char *quote(const char *text, char *buffer, size_t size)
{
  size_t used = 0;
  buffer[used++] = '"';
  for (; *text != '\0' && used + 4 < size; text++) {
    if (*text == '"' || *text == '\\') {
      buffer[used++] = '\\';
    }
    buffer[used++] = *text;
  }
  buffer[used++] = '"';
  buffer[used] = '\0';
  return buffer;
}

const char *kvl_scenario_value_text(const struct kvl_key *key, const void *base, char buffer[KVL_VALUE_TEXT_MAX])
{
  double real;
  switch (key->type) {
  case KVL_KEY_TEXT:
  case KVL_KEY_WORD:
    return quote((const char *)base + key->offset, buffer, KVL_VALUE_TEXT_MAX);
  case KVL_KEY_CHOICE:
    return quote(key->choices[load_integer(key, base)], buffer, KVL_VALUE_TEXT_MAX);
  case KVL_KEY_COUNT:
  case KVL_KEY_AMOUNT:
    return kvl_decimal_print(load_integer(key, base), key->scale, buffer);
  case KVL_KEY_REAL:
    memcpy(&real, (const char *)base + key->offset, sizeof real);
    return kvl_real_print(real, buffer);
  case KVL_KEY_CURVE:
  case KVL_KEY_GATHERS:
  case KVL_KEY_CACHES:
    break;
  }
  buffer[0] = '\0';
  return buffer;
}

/* Text that grows; `failed` once memory ran out. */
struct text {
  char *bytes;
  size_t used, capacity;
  int failed;
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void put(struct text *t, const char *format, ...)
{
  for (int round = 0; round < 2 && !t->failed; round++) {
    va_list args;
    va_start(args, format);
    size_t room = t->capacity - t->used;
    int n = vsnprintf(t->bytes == NULL ? NULL : t->bytes + t->used, room, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < room) {
      t->used += (size_t)n;
      return;
    }
    size_t capacity = (t->capacity + (size_t)(n < 0 ? 0 : n) + 64) * 2;
    char *grown = n < 0 ? NULL : realloc(t->bytes, capacity);
    t->failed = grown == NULL;
    if (grown != NULL) {
      t->bytes = grown;
      t->capacity = capacity;
    }
  }
}

static void put_value(struct text *t, const char *value, const char *origin)
{
  char quoted[KVL_VALUE_TEXT_MAX];
  if (origin == NULL) {
    put(t, "%s", value);
  } else {
    put(t, "{\"value\":%s,\"origin\":%s}", value, quote(origin, quoted, sizeof quoted));
  }
}

static const char *inner_origin(const struct kvl_scenario_doc *doc, const char *prefix, const char *name)
{
  char path[256];
  (void)snprintf(path, sizeof path, "%s.%s", prefix, name);
  for (const struct kvl_inner_origin *inner = doc->inner; inner != NULL; inner = inner->next) {
    if (strcmp(inner->path, path) == 0) {
      return inner->text;
    }
  }
  return NULL;
}

static void put_entry(struct text *t, const struct kvl_scenario_doc *doc, const struct kvl_key *keys, uint32_t count, const void *base,
                      const char *prefix)
{
  char value[KVL_VALUE_TEXT_MAX];
  for (uint32_t i = 0; i < count; i++) {
    uint32_t layers = strcmp(keys[i].path, "layers") == 0 ? *(const uint32_t *)(const void *)((const char *)base + keys[i].offset) : 1;
    if (keys[i].fallback == NULL || layers != 1) { /* repeat and every are spelled out */
      put(t, "%s\"%s\":", i > 0 ? "," : "", keys[i].path);
      put_value(t, kvl_scenario_value_text(&keys[i], base, value), inner_origin(doc, prefix, keys[i].path));
    }
  }
}

static void put_caches(struct text *t, const struct kvl_scenario_doc *doc)
{
  const struct kvl_model *model = &doc->scenario.model;
  put(t, "[");
  for (uint32_t c = 0; c < model->caches; c++) {
    struct kvl_cache_entry cache = {.written_layer = model->cache[c].written_layer, .tokens_per_row = model->cache[c].tokens_per_row,
                                    .row_bytes = model->cache[c].row_bytes, .index_key_bytes = model->cache[c].index_key_bytes,
                                    .layers = model->cache[c].layers};
    memcpy(cache.name, model->cache[c].name, sizeof cache.name);
    char prefix[64], below[96];
    (void)snprintf(prefix, sizeof prefix, "model.caches.%u", (unsigned)c);
    put(t, "%s{", c > 0 ? "," : "");
    put_entry(t, doc, kvl_cache_keys, kvl_cache_key_count, &cache, prefix);
    put(t, ",\"selections\":[");
    unsigned n = 0;
    for (uint32_t p = 0; p < model->selection.points; p++) {
      if (model->selection.point[p].cache == c) {
        struct kvl_selection_entry entry = {.layer = model->selection.point[p].layer, .k = model->selection.point[p].k,
                                            .readers = model->readers[p]};
        (void)snprintf(below, sizeof below, "%s.selections.%u", prefix, n);
        put(t, "%s{", n++ > 0 ? "," : "");
        put_entry(t, doc, kvl_selection_keys, kvl_selection_key_count, &entry, below);
        put(t, "}");
      }
    }
    put(t, "]}");
  }
  put(t, "]");
}

static void put_curve(struct text *t, const struct kvl_key *key, const void *base)
{
  const struct kvl_curve *curve = (const struct kvl_curve *)(const void *)((const char *)base + key->offset);
  char value[KVL_DECIMAL_MAX];
  put(t, "[");
  for (uint32_t i = 0; i < curve->n; i++) {
    put(t, "%s[%llu,%s]", i > 0 ? "," : "", (unsigned long long)curve->x[i], kvl_decimal_print(curve->y[i], key->scale, value));
  }
  put(t, "]");
}

static void put_gathers(struct text *t, const struct kvl_key *key, const void *base)
{
  const struct kvl_gather_table *g = (const struct kvl_gather_table *)(const void *)((const char *)base + key->offset);
  char value[KVL_DECIMAL_MAX];
  put(t, "[");
  for (uint32_t i = 0; i < g->sizes * g->ranges * g->counts; i++) {
    put(t, "%s[%llu,%llu,%llu,%s]", i > 0 ? "," : "", (unsigned long long)g->row_bytes[i / g->counts / g->ranges],
        (unsigned long long)g->range_bytes[i / g->counts % g->ranges], (unsigned long long)g->rows[i % g->counts],
        kvl_decimal_print(g->ns[i], key->scale, value));
  }
  put(t, "]");
}

static void put_key(struct text *t, const struct kvl_scenario_doc *doc, uint32_t index)
{
  const struct kvl_key *key = &kvl_keys[index];
  const char *origin = doc->origin[index].text;
  char value[KVL_VALUE_TEXT_MAX];
  if (key->type == KVL_KEY_CURVE || key->type == KVL_KEY_GATHERS || key->type == KVL_KEY_CACHES) {
    put(t, "%s", origin == NULL ? "" : "{\"value\":");
    if (key->type == KVL_KEY_CURVE) {
      put_curve(t, key, &doc->scenario);
    } else if (key->type == KVL_KEY_GATHERS) {
      put_gathers(t, key, &doc->scenario);
    } else {
      put_caches(t, doc);
    }
    if (origin != NULL) {
      put(t, ",\"origin\":%s}", quote(origin, value, sizeof value));
    }
    return;
  }
  for (int i = 0; i < 2; i++) { /* as typed, so that the text does not depend on the folder it was run from */
    if (strcmp(key->path, i == 0 ? "workload.file" : "selection.file") == 0) {
      put_value(t, quote(doc->typed_path[i], value, sizeof value), origin);
      return;
    }
  }
  put_value(t, kvl_scenario_value_text(key, &doc->scenario, value), origin);
}

/* Where a key stands in a scenario file: the part is under "node". */
static void file_path(const char *path, char *buffer, size_t size)
{
  (void)snprintf(buffer, size, "%s%s", strncmp(path, "hardware.", 9) == 0 ? "node." : "", path);
}

char *kvl_scenario_json(const struct kvl_scenario_doc *doc)
{
  struct text t = {0};
  char open[128] = "", path[128]; /* sections that are open now: "node.hardware.link." */
  int comma = 0;
  put(&t, "{");
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    file_path(kvl_keys[i].path, path, sizeof path);
    size_t same = 0; /* length of the open sections that go on */
    for (size_t at = 0; open[at] != '\0' && open[at] == path[at]; at++) {
      same = open[at] == '.' ? at + 1 : same;
    }
    for (size_t at = strlen(open); at > same; at--) {
      if (open[at - 1] == '.') {
        put(&t, "}");
        comma = 1;
      }
    }
    char *name = path + same;
    for (char *dot; (dot = strchr(name, '.')) != NULL; name = dot + 1) {
      put(&t, "%s\"%.*s\":{", comma ? "," : "", (int)(dot - name), name);
      comma = 0;
    }
    put(&t, "%s\"%s\":", comma ? "," : "", name);
    put_key(&t, doc, i);
    comma = 1;
    memcpy(open, path, (size_t)(name - path));
    open[name - path] = '\0';
  }
  for (size_t at = strlen(open); at > 0; at--) {
    put(&t, "%s", open[at - 1] == '.' ? "}" : "");
  }
  put(&t, "}");
  if (t.failed) {
    free(t.bytes);
    return NULL;
  }
  return t.bytes;
}

static void write_range(FILE *out, const struct kvl_key *key)
{
  char low[KVL_DECIMAL_MAX], high[KVL_DECIMAL_MAX];
  if (key->choices != NULL) {
    for (uint32_t i = 0; key->choices[i] != NULL; i++) {
      (void)fprintf(out, "%s`%s`", i > 0 ? " " : "", key->choices[i]);
    }
  } else if (key->type == KVL_KEY_COUNT || key->type == KVL_KEY_AMOUNT || key->type == KVL_KEY_REAL) {
    uint64_t scale = key->type == KVL_KEY_REAL ? 1000 : key->scale;
    (void)fprintf(out, "%s to %s", kvl_decimal_print(key->min, scale, low), kvl_decimal_print(key->max, scale, high));
  } else if (key->type == KVL_KEY_TEXT) {
    (void)fprintf(out, "up to %u bytes", (unsigned)key->width - 1);
  } else {
    (void)fprintf(out, "up to %d", key->type == KVL_KEY_CURVE     ? (int)KVL_CURVE_MAX
                                    : key->type == KVL_KEY_GATHERS ? (int)KVL_GATHER_POINTS_MAX
                                                                   : (int)KVL_CACHES_MAX);
  }
}

static void write_table(FILE *out, const struct kvl_key *keys, uint32_t count)
{
  static const char *const types[] = {"string", "whole number", "number", "number", "choice", "choice", "array of [x, y]", "array of [size, range, rows, y]",
                                     "array of caches"};
  (void)fputs("| key | type | unit | range | default | meaning |\n|---|---|---|---|---|---|\n", out);
  for (uint32_t i = 0; i < count; i++) {
    const struct kvl_key *key = &keys[i];
    (void)fprintf(out, "| `%s` | %s | %s | ", key->path, types[key->type], key->unit);
    write_range(out, key);
    if (key->fallback == NULL) {
      (void)fputs(" | required", out);
    } else if (*key->fallback == '\0') {
      (void)fputs(" | none", out);
    } else {
      (void)fprintf(out, " | `%s`", key->fallback);
    }
    (void)fprintf(out, " | %s |\n", key->meaning);
  }
}

void kvl_scenario_write_keys(FILE *out)
{
  (void)fputs(
    "# Scenario keys\n\n"
    "Written by `kvloan scenario keys`; do not edit. Units are in the key names. Any key can be given by path on the command line,\n"
    "`--set=policy.hot_rows=4096`, descriptors included: `--set=costs.law_fixed_ms=13.4`, `--set=model=glm-5.2`,\n"
    "`--set=model.caches.0.row_bytes=584`. Any value may be written as `{\"value\": 13.4, \"origin\": \"measured on ...\"}`; `kvloan scenario check` prints\n"
    "the origins. In a scenario file `model`, `node.hardware` and `costs` are names of descriptors (`models/`, `hardware/`, `costs/` beside the scenario,\n"
    "in a folder above it, in `$KVLOAN_SCENARIOS`, or in the installation), or objects with the keys below; an object may begin with\n"
    "`\"from\": \"NAME\"` and then changes single keys of that descriptor. `hardware.` keys stand under `node.hardware` in a file.\n\n",
    out);
  write_table(out, kvl_keys, kvl_key_count);
  (void)fputs("\n## An element of model.caches\n\n", out);
  write_table(out, kvl_cache_keys, kvl_cache_key_count);
  (void)fputs("| `selections` | array | | | required | the layers that select from the cache, keys below |\n\n## An element of selections\n\n", out);
  write_table(out, kvl_selection_keys, kvl_selection_key_count);
}
