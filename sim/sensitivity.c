/* Which numbers of a scenario are varied, and to what. */
#include "sim/sensitivity.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/text.h"
#include "sim/scenario_doc.h"
#include "sim/scenario_number.h"

struct pick {
  struct kvl_sensitivity *s;
  const struct kvl_scenario_doc *doc;
  const char *scenario;
  const char *const *sets;
  unsigned set_count;
  double change;
  struct kvl_err cause; /* why the last value could not be had */
};

/* ---- a stated range ---- */

static size_t number_length(const char *text)
{
  size_t n = strspn(text, "0123456789.");
  while (n > 0 && text[n - 1] == '.') { /* the end of a sentence */
    n--;
  }
  return n;
}

bool kvl_stated_range(const char *text, double value, const char **from, size_t *from_length, const char **to, size_t *to_length)
{
  for (const char *at = text; *at != '\0'; at++) {
    size_t n = number_length(at);
    if (n == 0 || (at > text && (isalnum((unsigned char)at[-1]) || strchr(".,-", at[-1]) != NULL))) {
      continue;
    }
    const char *next = at + n;
    bool pair = strncmp(next, " to ", 4) == 0;
    bool between = !pair && at - text >= 8 && strncmp(at - 8, "between ", 8) == 0 && strncmp(next, " and ", 5) == 0;
    next += pair ? 4 : between ? 5 : 0;
    size_t m = pair || between ? number_length(next) : 0;
    double low = strtod(at, NULL), high = m > 0 ? strtod(next, NULL) : 0.0;
    if (m > 0 && low < high && low <= value && value <= high) {
      *from = at;
      *from_length = n;
      *to = next;
      *to_length = m;
      return true;
    }
    at += n - 1;
  }
  return false;
}

/* ---- values ---- */

static const void *field(const struct kvl_scenario_doc *doc, const struct kvl_key *key)
{
  return (const char *)&doc->scenario + key->offset;
}

static void put_scaled(FILE *out, uint64_t stored, uint64_t scale, double by)
{
  char text[KVL_DECIMAL_MAX];
  (void)fputs(kvl_decimal_print((uint64_t)llround((double)stored * by), scale, text), out);
}

/* The value as JSON, numbers times `by`; the caller frees. NULL: no memory. */
static char *value_json(const struct kvl_scenario_doc *doc, const struct kvl_key *key, double by)
{
  char *text = NULL, number[KVL_VALUE_TEXT_MAX];
  size_t size = 0;
  const void *at = field(doc, key);
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  switch (key->type) {
  case KVL_KEY_COUNT:
  case KVL_KEY_AMOUNT:
    put_scaled(out, key->width == 4 ? *(const uint32_t *)at : *(const uint64_t *)at, key->scale, by);
    break;
  case KVL_KEY_REAL:
    (void)fputs(kvl_real_print(*(const double *)at * by, number), out);
    break;
  case KVL_KEY_CURVE: {
    const struct kvl_curve *c = at;
    for (uint32_t i = 0; i < c->n; i++) {
      (void)fprintf(out, "%s%" PRIu64 ",", i == 0 ? "[[" : "],[", c->x[i]);
      put_scaled(out, c->y[i], key->scale, by);
    }
    (void)fputs(c->n > 0 ? "]]" : "[]", out);
    break;
  }
  case KVL_KEY_GATHERS: {
    const struct kvl_gather_table *g = at;
    uint32_t points = g->sizes * g->ranges * g->counts;
    for (uint32_t i = 0; i < points; i++) {
      (void)fprintf(out, "%s%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", i == 0 ? "[[" : "],[", g->row_bytes[i / g->counts / g->ranges],
                    g->range_bytes[i / g->counts % g->ranges], g->rows[i % g->counts]);
      put_scaled(out, g->ns[i], key->scale, by);
    }
    (void)fputs(points > 0 ? "]]" : "[]", out);
    break;
  }
  case KVL_KEY_TEXT:
  case KVL_KEY_CHOICE:
  case KVL_KEY_WORD:
    (void)fputs(kvl_scenario_value_text(key, &doc->scenario, number), out);
    break;
  case KVL_KEY_CACHES: /* never varied */
    break;
  }
  if (fclose(out) != 0) {
    free(text);
    return NULL;
  }
  return text;
}

/* Does the scenario exist with that value, and is it another one? 1, 0, or -ENOMEM. */
static int is_other(struct pick *p, const struct kvl_key *key, const char *json)
{
  size_t size = strlen(key->path) + strlen(json) + 2;
  char *assignment = malloc(size);
  const char **sets = calloc(p->set_count + 1u, sizeof *sets);
  struct kvl_scenario_doc *doc = NULL;
  int rc = assignment == NULL || sets == NULL ? -ENOMEM : 0;
  if (rc == 0) {
    (void)snprintf(assignment, size, "%s=%s", key->path, json);
    for (unsigned i = 0; i < p->set_count; i++) {
      sets[i] = p->sets[i];
    }
    sets[p->set_count] = assignment;
    rc = kvl_scenario_load(&doc, p->scenario, sets, p->set_count + 1, &p->cause);
  }
  char *now = rc == 0 ? value_json(doc, key, 1.0) : NULL, *base = value_json(p->doc, key, 1.0);
  int other = rc == -ENOMEM || base == NULL || (rc == 0 && now == NULL) ? -ENOMEM : rc != 0 ? 0 : strcmp(now, base) != 0;
  if (other == 0 && rc == 0) {
    (void)kvl_err_set(&p->cause, -EINVAL, "%s=%s changes nothing", key->path, json);
  }
  kvl_scenario_free(doc);
  free(now);
  free(base);
  free(sets);
  free(assignment);
  return other;
}

/* Adds a value unless the scenario cannot have it or does already. 1 when added, 0, -ENOMEM. */
static int add_value(struct pick *p, struct kvl_vary *v, const struct kvl_key *key, const char *label, const char *json)
{
  for (uint32_t i = 0; i < v->values; i++) {
    if (strcmp(v->value[i].json, json) == 0) {
      return 0;
    }
  }
  int other = v->values == KVL_VARY_VALUES ? 0 : is_other(p, key, json);
  if (other <= 0) {
    return other;
  }
  struct kvl_vary_value *value = &v->value[v->values];
  memset(value, 0, sizeof *value);
  value->json = strdup(json);
  (void)snprintf(value->label, sizeof value->label, "%s", label);
  v->values += value->json != NULL;
  return value->json == NULL ? -ENOMEM : 1;
}

static bool is_table(const struct kvl_key *key)
{
  return key->type == KVL_KEY_CURVE || key->type == KVL_KEY_GATHERS;
}

/* One side: the value times `by`, or, where the scenario cannot have that, times `else_by`. */
static int add_side(struct pick *p, struct kvl_vary *v, const struct kvl_key *key, double by, double else_by)
{
  const double factor[2] = {by, else_by};
  int added = 0;
  for (int i = 0; i < 2 && added == 0; i++) {
    char *json = value_json(p->doc, key, factor[i]), label[KVL_VARY_LABEL], number[KVL_DECIMAL_MAX];
    if (json == NULL) {
      return -ENOMEM;
    }
    if (is_table(key)) {
      (void)snprintf(label, sizeof label, "%s x", kvl_text_double(number, round(factor[i] * 1e6) / 1e6));
    } else {
      (void)snprintf(label, sizeof label, "%.40s", json);
    }
    added = add_value(p, v, key, label, json);
    free(json);
  }
  return added < 0 ? added : 0;
}

static int add_word(struct pick *p, struct kvl_vary *v, const struct kvl_key *key, const char *word, size_t length, bool quote)
{
  char json[KVL_VARY_LABEL + 2], label[KVL_VARY_LABEL];
  (void)snprintf(label, sizeof label, "%.*s", (int)length, word);
  (void)snprintf(json, sizeof json, quote ? "\"%s\"" : "%s", label);
  int added = add_value(p, v, key, label, json);
  return added < 0 ? added : 0;
}

static double number_of(const struct pick *p, const struct kvl_key *key)
{
  char text[KVL_VALUE_TEXT_MAX];
  return strtod(kvl_scenario_value_text(key, &p->doc->scenario, text), NULL);
}

static int add_values(struct pick *p, struct kvl_vary *v, const struct kvl_key *key, const char *origin)
{
  const char *from, *to;
  size_t from_length, to_length;
  int rc = 0;
  if (key->type == KVL_KEY_CHOICE || key->type == KVL_KEY_WORD) {
    for (const char *const *choice = key->choices; *choice != NULL && rc == 0; choice++) {
      rc = add_word(p, v, key, *choice, strlen(*choice), true);
    }
    return rc;
  }
  if (!is_table(key) && origin != NULL && kvl_stated_range(origin, number_of(p, key), &from, &from_length, &to, &to_length)) {
    rc = add_word(p, v, key, from, from_length, false);
    rc = rc != 0 ? rc : add_word(p, v, key, to, to_length, false);
    v->stated = v->values > 0;
    if (rc != 0 || v->stated) {
      return rc;
    }
  }
  rc = add_side(p, v, key, 1.0 - p->change, 0.5);
  return rc != 0 ? rc : add_side(p, v, key, 1.0 + p->change, 2.0);
}

/* ---- parameters ---- */

static void base_label(const struct pick *p, const struct kvl_key *key, char label[KVL_VARY_LABEL])
{
  char text[KVL_VALUE_TEXT_MAX];
  if (key->type == KVL_KEY_CURVE) {
    (void)snprintf(label, KVL_VARY_LABEL, "%u point%s", (unsigned)((const struct kvl_curve *)field(p->doc, key))->n, kvl_text_s(((const struct kvl_curve *)field(p->doc, key))->n));
  } else if (key->type == KVL_KEY_GATHERS) {
    const struct kvl_gather_table *g = field(p->doc, key);
    (void)snprintf(label, KVL_VARY_LABEL, "%u point%s", (unsigned)(g->sizes * g->ranges * g->counts), kvl_text_s((uint64_t)g->sizes * g->ranges * g->counts));
  } else {
    const char *value = kvl_scenario_value_text(key, &p->doc->scenario, text);
    size_t n = strlen(value), quoted = n >= 2 && value[0] == '"' ? 1 : 0;
    (void)snprintf(label, KVL_VARY_LABEL, "%.*s", (int)(n - 2 * quoted < 40 ? n - 2 * quoted : 40), value + quoted);
  }
}

/* Keys that this scenario reads, as far as its mechanisms say. */
static bool is_read(const struct kvl_scenario *s, const char *path)
{
  bool host = s->mode != KVL_MODE_RESIDENT;
  if (!kvl_scenario_reads(s, path) || strcmp(path, "costs.compute_hbm_bytes") == 0) { /* only the CUDA plane reads those bytes */
    return false;
  }
  if (strcmp(path, "selection.query_overlap") == 0) {
    return s->speculation.method != KVL_SPECULATION_NONE && host;
  }
  if (strncmp(path, "costs.resident_", 15) == 0) {
    return !host;
  }
  if (strcmp(path, "model.weights_bytes") == 0 || strcmp(path, "model.active_flops_per_token") == 0) {
    return s->costs.compute == KVL_COMPUTE_ROOFLINE;
  }
  if (strcmp(path, "costs.bookkeeping_exponent") == 0 && s->costs.bookkeeping_ns_at_44 == 0) {
    return false;
  }
  static const char *const of_hosted[] = {"hardware.link.", "hardware.resolve_us_by_lanes", "policy.", "selection.", "costs.bookkeeping_", "costs.resolve_",
                                          "costs.admission_", "costs.revoke_page_us", "costs.reserve_token_ns", "costs.release_ms", "costs.keep_page_us",
                                          "costs.give_page_us", "costs.history_gb_per_s", "node.host_pool_bytes", "node.sessions_per_gpu_max"};
  for (size_t i = 0; i < sizeof of_hosted / sizeof of_hosted[0] && !host; i++) {
    if (strncmp(path, of_hosted[i], strlen(of_hosted[i])) == 0 && strcmp(path, "policy.page_tokens") != 0) {
      return false;
    }
  }
  return true;
}

/* Varied whatever their origins say: "law", "choice", or NULL. */
static const char *always(const struct kvl_scenario *s, const char *path)
{
  bool table = s->hardware.link.gathers.counts != 0, lengths = s->speculation.accepted_lengths.n > 0, mean = s->speculation.accepted_mean_milli > 0;
  if (!is_read(s, path)) {
    return NULL;
  }
  if (strcmp(path, "selection.preset") == 0) {
    return s->selection.kind == KVL_SELECT_PRESET ? "choice" : NULL;
  }
  if (strcmp(path, "hardware.link.gather_us") == 0) {
    return table ? "law" : NULL;
  }
  if (strcmp(path, "hardware.link.gather_gb_per_s") == 0 || strcmp(path, "hardware.link.gather_floor_us") == 0 ||
      strcmp(path, "hardware.link.rows_per_s_by_pool_bytes") == 0) {
    return table ? NULL : "law";
  }
  if (strcmp(path, "hardware.link.copy_gb_per_s") == 0) {
    return "law";
  }
  if (strcmp(path, "hardware.link.pages_gb_per_s_by_piece") == 0) {
    return s->hardware.link.pages_bytes_per_s.n != 0 ? "law" : NULL;
  }
  if (strcmp(path, "speculation.accepted_mean") == 0) {
    return mean ? "law" : NULL;
  }
  if (strcmp(path, "speculation.accepted_lengths") == 0) {
    return lengths && !mean ? "law" : NULL;
  }
  return strcmp(path, "speculation.shape") == 0 && !lengths ? "choice" : NULL;
}

static struct kvl_vary *begin_vary(struct pick *p, uint32_t index, const char *why, struct kvl_err *err)
{
  const struct kvl_key *key = &kvl_keys[index];
  if (p->s->count == KVL_VARIES_MAX) {
    (void)kvl_err_set(err, -EINVAL, "%s: more than %d numbers to vary (--keys=... chooses)", p->scenario, (int)KVL_VARIES_MAX);
    return NULL;
  }
  struct kvl_vary *v = &p->s->item[p->s->count++];
  memset(v, 0, sizeof *v);
  (void)snprintf(v->key, sizeof v->key, "%s", key->path);
  (void)snprintf(v->why, sizeof v->why, "%s", why);
  (void)snprintf(v->origin, sizeof v->origin, "%.250s", p->doc->origin[index].text == NULL ? "" : p->doc->origin[index].text);
  v->unit = is_table(key) ? "" : key->unit;
  base_label(p, key, v->base);
  return v;
}

/* Takes the last parameter back when it has no value. */
static void drop_idle(struct pick *p)
{
  if (p->s->item[p->s->count - 1].values == 0) {
    p->s->count--;
    p->s->idle++;
  }
}

static int add_doubted(struct pick *p, const char *section, struct kvl_err *err)
{
  size_t length = section == NULL ? 0 : strlen(section);
  int rc = 0;
  for (uint32_t i = 0; i < kvl_key_count && rc == 0; i++) {
    const char *path = kvl_keys[i].path, *doubt = kvl_scenario_doubt(p->doc, i), *why = doubt != NULL ? doubt : always(&p->doc->scenario, path);
    if (why == NULL || !is_read(&p->doc->scenario, path) || kvl_keys[i].type == KVL_KEY_TEXT || kvl_keys[i].type == KVL_KEY_CACHES ||
        (section != NULL && (strncmp(path, section, length) != 0 || path[length] != '.'))) {
      continue;
    }
    struct kvl_vary *v = begin_vary(p, i, why, err);
    rc = v == NULL ? -EINVAL : add_values(p, v, &kvl_keys[i], p->doc->origin[i].text);
    if (rc == 0) {
      drop_idle(p);
    }
  }
  return rc;
}

/* "LOW:HIGH" */
static int add_asked(struct pick *p, struct kvl_vary *v, const struct kvl_key *key, const char *values, struct kvl_err *err)
{
  int rc = 0;
  if (is_table(key)) {
    return kvl_err_set(err, -EINVAL, "--keys=%s: is a table; it is varied as a whole by --change", v->key);
  }
  v->stated = true;
  for (const char *at = values; rc == 0; at++) {
    size_t n = strcspn(at, ":");
    uint32_t before = v->values;
    if (n == 0 || n >= KVL_VARY_LABEL || before == KVL_VARY_VALUES) {
      return kvl_err_set(err, -EINVAL, "--keys=%s=%s: must be one to %d values with colons between, for example LOW:HIGH", v->key, values, (int)KVL_VARY_VALUES);
    }
    rc = add_word(p, v, key, at, n, key->type == KVL_KEY_CHOICE || key->type == KVL_KEY_WORD);
    if (rc == 0 && v->values == before) {
      return kvl_err_set(err, -EINVAL, "%s", p->cause.text[0] != '\0' ? p->cause.text : "--keys: a value is given twice");
    }
    at += n;
    if (*at == '\0') {
      break;
    }
  }
  return rc;
}

static bool is_section(const char *word)
{
  size_t n = strlen(word);
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    if (strncmp(kvl_keys[i].path, word, n) == 0 && kvl_keys[i].path[n] == '.') {
      return true;
    }
  }
  return false;
}

static int add_named(struct pick *p, const char *word, struct kvl_err *err)
{
  const char *equals = strchr(word, '=');
  char name[96];
  uint32_t at = 0;
  (void)snprintf(name, sizeof name, "%.*s", (int)(equals == NULL ? strlen(word) : (size_t)(equals - word)), word);
  if (strncmp(name, "node.hardware", 13) == 0) {
    memmove(name, name + 5, strlen(name + 5) + 1);
  }
  if (equals == NULL && is_section(name)) {
    uint32_t before = p->s->count;
    int rc = add_doubted(p, name, err);
    return rc != 0 || p->s->count > before ? rc : kvl_err_set(err, -EINVAL, "--keys=%s: nothing there is calibrated or open; name a key to vary it all the same", name);
  }
  while (at < kvl_key_count && strcmp(kvl_keys[at].path, name) != 0) {
    at++;
  }
  if (at == kvl_key_count) {
    const char **paths = calloc(kvl_key_count, sizeof *paths);
    for (uint32_t i = 0; i < kvl_key_count && paths != NULL; i++) {
      paths[i] = kvl_keys[i].path;
    }
    int rc = kvl_err_set(err, -EINVAL, "--keys=%s: no such key; did you mean %s?", name, paths == NULL ? "?" : kvl_nearest(name, paths, kvl_key_count));
    free(paths);
    return rc;
  }
  for (uint32_t i = 0; i < p->s->count; i++) {
    if (strcmp(p->s->item[i].key, name) == 0) {
      return kvl_err_set(err, -EINVAL, "--keys=%s: is named twice", name);
    }
  }
  if (kvl_keys[at].type == KVL_KEY_TEXT || kvl_keys[at].type == KVL_KEY_CACHES || strcmp(name, "seed") == 0) {
    return kvl_err_set(err, -EINVAL, "--keys=%s: %s", name, strcmp(name, "seed") == 0 ? "seeds are what --repeats varies" : "cannot be varied");
  }
  const char *doubt = kvl_scenario_doubt(p->doc, at);
  struct kvl_vary *v = begin_vary(p, at, doubt != NULL ? doubt : "asked", err);
  int rc = v == NULL ? -EINVAL : equals != NULL ? add_asked(p, v, &kvl_keys[at], equals + 1, err) : add_values(p, v, &kvl_keys[at], p->doc->origin[at].text);
  if (rc == 0 && v->values == 0) {
    return kvl_err_set(err, -EINVAL, "--keys=%s: is %s, and no other value was found (--keys=%s=LOW:HIGH gives them): %.300s", name, v->base, name, p->cause.text);
  }
  return rc;
}

static int add_all_named(struct pick *p, const char *keys, struct kvl_err *err)
{
  int rc = 0;
  for (const char *at = keys; rc == 0; at++) {
    size_t n = strcspn(at, ",");
    char word[256];
    if (n == 0 || n >= sizeof word) {
      return kvl_err_set(err, -EINVAL, "--keys=%.80s: must be keys with commas between", keys);
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)n, at);
    rc = add_named(p, word, err);
    at += n;
    if (*at == '\0') {
      break;
    }
  }
  return rc;
}

int kvl_sensitivity_pick(struct kvl_sensitivity *s, const struct kvl_scenario_doc *doc, const char *scenario, const char *const *sets, unsigned set_count,
                         const char *keys, double change, struct kvl_err *err)
{
  struct pick p = {.s = s, .doc = doc, .scenario = scenario, .sets = sets, .set_count = set_count, .change = change};
  memset(s, 0, sizeof *s);
  int rc = keys == NULL ? add_doubted(&p, NULL, err) : add_all_named(&p, keys, err);
  if (rc == -ENOMEM) {
    (void)kvl_err_set(err, rc, "%s: out of memory", scenario);
  } else if (rc == 0 && s->count == 0) {
    rc = kvl_err_set(err, -ENOENT, "%s: none of its numbers is calibrated or open; --keys=KEY varies one all the same", scenario);
  }
  s->points = 1;
  for (uint32_t i = 0; i < s->count; i++) {
    for (uint32_t v = 0; v < s->item[i].values; v++) {
      s->item[i].value[v].point = s->points++;
    }
  }
  if (rc != 0) {
    kvl_sensitivity_free(s);
  }
  return rc;
}

char *kvl_sensitivity_points(const struct kvl_sensitivity *s)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  (void)fputs("[{}", out);
  for (uint32_t i = 0; i < s->count; i++) {
    for (uint32_t v = 0; v < s->item[i].values; v++) {
      (void)fprintf(out, ",\n{\"%s\": %s}", s->item[i].key, s->item[i].value[v].json);
    }
  }
  (void)fputs("]", out);
  if (fclose(out) != 0) {
    free(text);
    return NULL;
  }
  return text;
}

void kvl_sensitivity_free(struct kvl_sensitivity *s)
{
  for (uint32_t i = 0; i < s->count; i++) {
    for (uint32_t v = 0; v < s->item[i].values; v++) {
      free(s->item[i].value[v].json);
    }
  }
  memset(s, 0, sizeof *s);
}
