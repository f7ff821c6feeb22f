/* A design's points, seeds and scenarios. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "results/sweep.h"
#include "sim/scenario_doc.h"
#include "sim/scenario_number.h"
#include "sim/sweep.h"

enum { DRAWS_MAX = 1000, SIGNIFICANT = 4 };

static int no_memory(const struct kvl_sweep *sweep, struct kvl_err *err)
{
  return kvl_err_set(err, -ENOMEM, "%s: out of memory", sweep->file);
}

/* ---- alike points: an open table of point numbers by their values ---- */

struct seen {
  uint32_t *slot; /* point + 1; 0: free */
  uint32_t mask;
};

static bool same_values(const struct kvl_sweep *sweep, uint32_t a, uint32_t b)
{
  for (unsigned k = 0; k < sweep->keys; k++) {
    const char *x = sweep->value[(size_t)a * sweep->keys + k], *y = sweep->value[(size_t)b * sweep->keys + k];
    if (x != y && (x == NULL || y == NULL || strcmp(x, y) != 0)) {
      return false;
    }
  }
  return true;
}

static uint32_t *find_slot(const struct seen *seen, const struct kvl_sweep *sweep, uint32_t point)
{
  uint64_t hash = 0;
  for (unsigned k = 0; k < sweep->keys; k++) {
    const char *text = sweep->value[(size_t)point * sweep->keys + k];
    for (hash = kvl_rng_mix(hash ^ k); text != NULL && *text != '\0'; text++) {
      hash = kvl_rng_mix(hash ^ (unsigned char)*text);
    }
  }
  for (uint32_t at = (uint32_t)hash & seen->mask;; at = (at + 1) & seen->mask) {
    if (seen->slot[at] == 0 || same_values(sweep, seen->slot[at] - 1, point)) {
      return &seen->slot[at];
    }
  }
}

static int make_seen(struct seen *seen, const struct kvl_sweep *sweep, uint32_t points, struct kvl_err *err)
{
  uint32_t size = 16;
  while (size < 2 * points) {
    size *= 2;
  }
  seen->slot = calloc(size, sizeof *seen->slot);
  seen->mask = size - 1;
  return seen->slot == NULL ? no_memory(sweep, err) : 0;
}

int kvl_sweep_check_distinct(const struct kvl_sweep *sweep, struct kvl_err *err)
{
  struct seen seen;
  int rc = make_seen(&seen, sweep, sweep->points, err);
  for (uint32_t p = 0; p < sweep->points && rc == 0; p++) {
    uint32_t *slot = find_slot(&seen, sweep, p);
    if (*slot != 0) {
      rc = kvl_err_set(err, -EINVAL, "%s: list: point %u is the same as point %u (\"repeats\" runs a point again)", sweep->file, (unsigned)p + 1, (unsigned)*slot);
    }
    *slot = p + 1;
  }
  free(seen.slot);
  return rc;
}

/* ---- grid ---- */

int kvl_sweep_expand_grid(struct kvl_sweep *sweep, const struct kvl_sweep_axis *axes, unsigned count, struct kvl_err *err)
{
  uint64_t points = 1;
  for (unsigned a = 0; a < count; a++) {
    points *= axes[a].values; /* both below 2^15: no overflow before the test */
    if (points > KVL_SWEEP_POINTS_MAX) {
      return kvl_scenario_bad(err, axes[a].node, axes[a].node->key, "the grid has more than %d points: fewer values, or a random design", (int)KVL_SWEEP_POINTS_MAX);
    }
  }
  sweep->value = kvl_arena_take(&sweep->arena, (size_t)points * sweep->keys * sizeof *sweep->value);
  if (sweep->value == NULL) {
    return no_memory(sweep, err);
  }
  sweep->points = (uint32_t)points;
  for (uint32_t p = 0; p < sweep->points; p++) {
    uint32_t rest = p;
    for (unsigned a = count; a-- > 0;) {
      uint32_t v = rest % axes[a].values;
      rest /= axes[a].values;
      for (unsigned k = 0; k < axes[a].keys; k++) {
        sweep->value[(size_t)p * sweep->keys + axes[a].first_key + k] = axes[a].value[(size_t)v * axes[a].keys + k];
      }
    }
  }
  return 0;
}

/* ---- random ---- */

/* low (high / low)^u by square roots and products alone: IEEE rounds those the same everywhere, which it does not promise for exp and log. */
static double between_log(double low, double high, uint32_t u)
{
  double root = high / low, factor = 1.0;
  for (int bit = 31; bit >= 0; bit--) {
    root = sqrt(root);
    factor *= (u >> bit & 1) != 0 ? root : 1.0;
  }
  return low * factor;
}

static const char *draw_range(struct kvl_sweep *sweep, const struct kvl_sweep_axis *axis, struct kvl_rng *rng)
{
  double low = strtod(axis->from, NULL), high = strtod(axis->to, NULL), value;
  char text[64];
  if (axis->log) {
    value = between_log(low, high, (uint32_t)(kvl_rng_next(rng) >> 32));
  } else {
    double width = (high - low) * kvl_rng_unit(rng);
    value = low + width;
  }
  if (axis->whole) {
    double m = (double)axis->multiple_of, first = ceil(low / m), last = floor(high / m), at = nearbyint(value / m);
    at = at < first ? first : at > last ? last : at;
    (void)snprintf(text, sizeof text, "%.0f", at * m);
  } else {
    (void)snprintf(text, sizeof text, "%.*g", (int)SIGNIFICANT, value);
    double rounded = strtod(text, NULL);
    if (rounded < low || rounded > high) { /* rounding must not leave the range */
      (void)snprintf(text, sizeof text, "%s", rounded < low ? axis->from : axis->to);
    }
  }
  return kvl_arena_text(&sweep->arena, text, strlen(text));
}

int kvl_sweep_expand_random(struct kvl_sweep *sweep, const struct kvl_sweep_axis *axes, unsigned count, uint32_t points, struct kvl_err *err)
{
  struct seen seen = {NULL, 0};
  sweep->value = kvl_arena_take(&sweep->arena, (size_t)points * sweep->keys * sizeof *sweep->value);
  int rc = sweep->value == NULL ? no_memory(sweep, err) : make_seen(&seen, sweep, points, err);
  for (uint32_t p = 0; p < points && rc == 0; p++) {
    uint32_t *slot = NULL;
    for (uint32_t attempt = 0; attempt < DRAWS_MAX && rc == 0; attempt++) {
      for (unsigned a = 0; a < count && rc == 0; a++) {
        struct kvl_rng rng; /* a stream a key: one key more does not move the others */
        kvl_rng_init(&rng, sweep->seed, sweep->key[axes[a].first_key], (uint64_t)p * DRAWS_MAX + attempt);
        const char **cell = &sweep->value[(size_t)p * sweep->keys + axes[a].first_key];
        uint32_t v = axes[a].values > 0 ? kvl_rng_below(&rng, axes[a].values) : 0;
        for (unsigned k = 0; k < axes[a].keys && rc == 0; k++) {
          cell[k] = axes[a].values > 0 ? axes[a].value[(size_t)v * axes[a].keys + k] : draw_range(sweep, &axes[a], &rng);
          rc = cell[k] == NULL ? no_memory(sweep, err) : 0;
        }
      }
      slot = rc == 0 ? find_slot(&seen, sweep, p) : NULL;
      if (slot == NULL || *slot == 0) {
        break;
      }
    }
    if (rc == 0 && *slot != 0) {
      rc = kvl_err_set(err, -EINVAL, "%s: random.points: %u different points were not found, only %u (nearest: %u)", sweep->file, (unsigned)points, (unsigned)p,
                       (unsigned)p);
    } else if (rc == 0) {
      *slot = p + 1;
      sweep->points = p + 1;
    }
  }
  free(seen.slot);
  return rc;
}

/* ---- tasks ---- */

uint64_t kvl_sweep_seed(const struct kvl_sweep *sweep, uint32_t task)
{
  if (!sweep->independent) {
    return sweep->seed + task % sweep->repeats;
  }
  struct kvl_rng rng;
  kvl_rng_init(&rng, sweep->seed, "sweep task", task);
  return kvl_rng_next(&rng) >> 11; /* below 2^53: exact in every JSON reader */
}

/* Messages name files as they were found; the scenario's folder differs between machines and says nothing about the point. */
static void drop_folder(struct kvl_err *err, const char *file)
{
  const char *slash = strrchr(file, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - file) + 1;
  for (char *at = err->text; length > 0 && *at != '\0';) {
    bool begins = at == err->text || strchr(" \"'(", at[-1]) != NULL;
    if (begins && strncmp(at, file, length) == 0) {
      memmove(at, at + length, strlen(at + length) + 1);
    } else {
      at++;
    }
  }
}

/* "--set=a.b=3: a.b: reason" is "a.b: reason": nobody typed --set. */
static void drop_set(struct kvl_err *err)
{
  const char *equals = strncmp(err->text, "--set=", 6) == 0 ? strchr(err->text + 6, '=') : NULL, *rest = equals == NULL ? NULL : strstr(equals, ": ");
  size_t length = equals == NULL ? 0 : (size_t)(equals - (err->text + 6));
  if (rest != NULL && strncmp(rest + 2, err->text + 6, length) == 0) {
    memmove(err->text, rest + 2, strlen(rest + 2) + 1);
  }
}

void kvl_sweep_plain_reason(const struct kvl_sweep *sweep, struct kvl_err *err)
{
  drop_folder(err, sweep->scenario_file);
  drop_set(err);
}

int kvl_sweep_scenario(const struct kvl_sweep *sweep, uint32_t task, struct kvl_scenario_doc **doc, struct kvl_err *err)
{
  uint32_t point = task / sweep->repeats;
  unsigned count = sweep->sets;
  const char **sets = calloc(sweep->sets + sweep->keys + 1u, sizeof *sets);
  char **own = calloc(sweep->keys + 1u, sizeof *own), seed[40];
  bool failed = sets == NULL || own == NULL;
  for (unsigned i = 0; i < sweep->sets && !failed; i++) {
    sets[i] = sweep->set[i];
  }
  for (unsigned k = 0; k < sweep->keys && !failed; k++) {
    const char *value = sweep->value[(size_t)point * sweep->keys + k];
    if (value != NULL) {
      size_t size = strlen(sweep->key[k]) + strlen(value) + 2;
      own[k] = malloc(size);
      failed = own[k] == NULL;
      if (!failed) {
        (void)snprintf(own[k], size, "%s=%s", sweep->key[k], value);
        sets[count++] = own[k];
      }
    }
  }
  int rc;
  if (failed) {
    rc = no_memory(sweep, err);
  } else {
    struct kvl_err cause = {""};
    (void)snprintf(seed, sizeof seed, "seed=%" PRIu64, kvl_sweep_seed(sweep, task));
    sets[count++] = seed;
    rc = kvl_scenario_parse(doc, sweep->base, sweep->base_size, sweep->scenario_file, sets, count, &cause);
    kvl_sweep_plain_reason(sweep, &cause);
    if (rc != 0 && err != NULL) {
      *err = cause;
    }
  }
  for (unsigned k = 0; k < sweep->keys && own != NULL; k++) {
    free(own[k]);
  }
  free(own);
  free(sets);
  return rc;
}

/* 'text' for a shell, quotes only where needed. */
static void put_shell(FILE *out, const char *text)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (*text != '\0' && strspn(text, plain) == strlen(text)) {
    (void)fputs(text, out);
    return;
  }
  (void)fputc('\'', out);
  for (; *text != '\0'; text++) {
    (void)(*text == '\'' ? fputs("'\\''", out) : fputc(*text, out));
  }
  (void)fputc('\'', out);
}

static void put_set(FILE *out, const char *key, const char *value)
{
  char *text = NULL;
  size_t size = 0, length = strlen(value);
  FILE *whole = open_memstream(&text, &size);
  /* a plain word needs no JSON quotes, which a shell would want quoted once more */
  bool word = length > 2 && value[0] == '"' && strcspn(value + 1, "\\\"") == length - 2 && strchr("{[-0123456789", value[1]) == NULL &&
              strcmp(value, "\"true\"") != 0 && strcmp(value, "\"false\"") != 0 && strcmp(value, "\"null\"") != 0;
  if (whole == NULL) {
    return;
  }
  (void)fprintf(whole, "--set=%s=%.*s", key, (int)(word ? length - 2 : length), word ? value + 1 : value);
  if (fclose(whole) == 0) {
    (void)fputc(' ', out);
    put_shell(out, text);
  }
  free(text);
}

char *kvl_sweep_command(const struct kvl_sweep *sweep, uint32_t task)
{
  char *text = NULL;
  size_t size = 0, n = strlen(sweep->scenario);
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  bool is_file = strchr(sweep->scenario, '/') != NULL || (n > 5 && strcmp(sweep->scenario + n - 5, ".json") == 0);
  (void)fputs("kvloan run ", out);
  put_shell(out, is_file ? sweep->scenario_file : sweep->scenario);
  for (unsigned i = 0; i < sweep->sets; i++) {
    const char *equals = strchr(sweep->set[i], '=');
    char key[256];
    (void)snprintf(key, sizeof key, "%.*s", equals == NULL ? 0 : (int)(equals - sweep->set[i]), sweep->set[i]);
    put_set(out, key, equals == NULL ? sweep->set[i] : equals + 1);
  }
  for (unsigned k = 0; k < sweep->keys; k++) {
    const char *value = sweep->value[(size_t)(task / sweep->repeats) * sweep->keys + k];
    if (value != NULL) {
      put_set(out, sweep->key[k], value);
    }
  }
  (void)fprintf(out, " --seed=%" PRIu64, kvl_sweep_seed(sweep, task));
  if (fclose(out) != 0) {
    free(text);
    return NULL;
  }
  return text;
}

int kvl_sweep_resolve(struct kvl_sweep *sweep, struct kvl_err *err)
{
  char *text = NULL;
  size_t size = 0;
  sweep->reason = kvl_arena_take(&sweep->arena, sweep->points * sizeof *sweep->reason);
  FILE *out = sweep->reason == NULL ? NULL : open_memstream(&text, &size);
  if (out == NULL) {
    return no_memory(sweep, err);
  }
  sweep->impossible = 0;
  (void)fprintf(out, "%s\n%u %u %d %" PRIu64 "\n", sweep->name, (unsigned)sweep->points, (unsigned)sweep->repeats, (int)sweep->independent, sweep->seed);
  int rc = 0;
  for (uint32_t p = 0; p < sweep->points && rc == 0; p++) {
    struct kvl_scenario_doc *doc = NULL;
    struct kvl_err cause = {""};
    for (unsigned k = 0; k < sweep->keys; k++) {
      const char *value = sweep->value[(size_t)p * sweep->keys + k];
      (void)fprintf(out, "%s=%s\n", sweep->key[k], value == NULL ? "" : value);
    }
    rc = kvl_sweep_scenario(sweep, p * sweep->repeats, &doc, &cause);
    if (rc == 0) {
      char *json = kvl_scenario_json(doc), hash[KVL_SWEEP_HASH];
      rc = json == NULL ? no_memory(sweep, err) : 0;
      kvl_store_text_hash(hash, json == NULL ? "" : json);
      (void)fprintf(out, "%s\n", hash);
      free(json);
    } else if (rc == -ENOMEM) {
      rc = no_memory(sweep, err);
    } else {
      (void)fprintf(out, "%s\n", cause.text);
      sweep->reason[p] = kvl_arena_text(&sweep->arena, cause.text, strlen(cause.text));
      sweep->impossible++;
      rc = sweep->reason[p] == NULL ? no_memory(sweep, err) : 0;
    }
    kvl_scenario_free(doc);
  }
  if (fclose(out) != 0 && rc == 0) {
    rc = no_memory(sweep, err);
  }
  if (rc == 0) {
    kvl_store_text_hash(sweep->hash, text);
  }
  free(text);
  if (rc == 0 && sweep->impossible == sweep->points) {
    rc = sweep->points == 1 ? kvl_err_set(err, -EINVAL, "%s: its one point cannot be run: %s", sweep->file, sweep->reason[0])
                            : kvl_err_set(err, -EINVAL, "%s: none of its %u points can be run; the first: %s", sweep->file, (unsigned)sweep->points, sweep->reason[0]);
  }
  return rc;
}
