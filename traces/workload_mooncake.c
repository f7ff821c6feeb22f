/* Mooncake's JSON lines (kvcache-ai/Mooncake, FAST25-release/traces): one request a line,
 * {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [one id per 512-token prefix block]}.
 *
 * A scanner of its own rather than a JSON library: no allocation per line, and a place in the line for every complaint. Keys come in any order;
 * unknown keys are stepped over, whatever they hold. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "traces/decimal.h"
#include "traces/grow.h"
#include "traces/workload_impl.h"

enum { BLOCK_TOKENS = 512, DEPTH_MAX = 64 };

struct mooncake {
  uint64_t requests;
  uint64_t last_ns;
  void *block; /* uint64_t */
  size_t block_capacity;
};

struct cursor {
  const char *start, *p;
  struct kvl_lines *lines;
  struct kvl_err *err;
};

static int complain(const struct cursor *c, const char *reason)
{
  if (*c->p == '\0' && !c->lines->newline)
    return kvl_err_set(c->err, -EINVAL, "%s:%llu: the last line is cut off after %zu bytes", c->lines->path,
                       (unsigned long long)c->lines->number, (size_t)(c->p - c->start));
  return kvl_err_set(c->err, -EINVAL, "%s:%llu:%zu: %s", c->lines->path, (unsigned long long)c->lines->number,
                     (size_t)(c->p - c->start) + 1, reason);
}

static void skip_space(struct cursor *c)
{
  while (*c->p == ' ' || *c->p == '\t')
    c->p++;
}

/* Steps over a string; *text and *length are what stands between the quotes, escapes untouched. */
static int read_string(struct cursor *c, const char **text, size_t *length)
{
  if (*c->p != '"')
    return complain(c, "a string in double quotes is expected here");
  *text = ++c->p;
  while (*c->p != '"') {
    if (*c->p == '\\' && c->p[1] != '\0')
      c->p++;
    if (*c->p == '\0')
      return complain(c, "the string does not end");
    c->p++;
  }
  *length = (size_t)(c->p++ - *text);
  return 0;
}

/* Steps over any JSON value, loosely: brackets must match, the rest is taken as it comes. */
static int skip_value(struct cursor *c)
{
  char open[DEPTH_MAX];
  unsigned depth = 0;
  const char *text;
  size_t length;
  int code;

  for (;;) {
    skip_space(c);
    if (*c->p == '\0')
      return complain(c, "the value does not end");
    if (*c->p == '"') {
      code = read_string(c, &text, &length);
      if (code)
        return code;
    } else if (*c->p == '{' || *c->p == '[') {
      if (depth == DEPTH_MAX)
        return complain(c, "too many brackets inside one another");
      open[depth++] = *c->p++;
    } else if (*c->p == '}' || *c->p == ']') {
      if (depth == 0 || open[--depth] != (*c->p == '}' ? '{' : '['))
        return complain(c, "a bracket without its partner");
      c->p++;
    } else if (depth > 0 && (*c->p == ',' || *c->p == ':')) {
      c->p++;
      continue;
    } else {
      const char *begin = c->p;
      while (*c->p && !strchr(",:{}[]\" \t", *c->p))
        c->p++;
      if (c->p == begin)
        return complain(c, "a value is expected here");
    }
    skip_space(c);
    if (depth == 0)
      return 0;
  }
}

static int read_number(struct cursor *c, const char *name, unsigned scale, uint64_t max, uint64_t *value)
{
  char reason[160];
  int code = kvl_decimal_read(&c->p, scale, max, value);
  if (code == 0)
    return 0;
  snprintf(reason, sizeof(reason), "%s %s", name,
           code == -EDOM     ? "is negative"
           : code == -ERANGE ? "is absurdly large"
           : scale == 0      ? "must be a whole number"
                             : "must be a number");
  return complain(c, reason);
}

static int read_ids(struct cursor *c, struct mooncake *m, uint32_t *count)
{
  uint32_t n = 0;
  int code;
  if (*c->p != '[')
    return complain(c, "hash_ids must be an array");
  c->p++;
  skip_space(c);
  while (*c->p != ']') {
    if (n > 0) {
      if (*c->p != ',')
        return complain(c, "',' or ']' is expected in hash_ids");
      c->p++;
      skip_space(c);
    }
    if (n == m->block_capacity && kvl_grow(&m->block, &m->block_capacity, (size_t)n + 1, sizeof(uint64_t)))
      return kvl_err_set(c->err, -ENOMEM, "%s:%llu: no memory for hash_ids", c->lines->path, (unsigned long long)c->lines->number);
    code = read_number(c, "an id in hash_ids", 0, UINT64_MAX, (uint64_t *)m->block + n);
    if (code)
      return code;
    n++;
    skip_space(c);
  }
  c->p++;
  *count = n;
  return 0;
}

enum { TIMESTAMP, INPUT, OUTPUT, IDS, FIELDS };
static const char *const field_name[FIELDS] = {"timestamp", "input_length", "output_length", "hash_ids"};

static int read_object(struct cursor *c, struct mooncake *m, uint64_t value[FIELDS])
{
  unsigned seen = 0;
  char stranger[32] = ""; /* the first unknown key: likely the misspelt one */
  char reason[160];
  int code;

  skip_space(c);
  if (*c->p != '{')
    return complain(c, "a JSON object ('{') is expected here");
  c->p++;
  skip_space(c);
  for (unsigned pairs = 0; *c->p != '}'; pairs++) {
    const char *key = "";
    size_t length = 0;
    unsigned field = 0;
    if (pairs > 0) {
      if (*c->p != ',')
        return complain(c, "',' or '}' is expected here");
      c->p++;
      skip_space(c);
    }
    code = read_string(c, &key, &length);
    if (code)
      return code;
    skip_space(c);
    if (*c->p != ':')
      return complain(c, "':' is expected here");
    c->p++;
    skip_space(c);
    while (field < FIELDS && (strlen(field_name[field]) != length || memcmp(field_name[field], key, length) != 0))
      field++;
    if (field < FIELDS && (seen & 1u << field)) {
      snprintf(reason, sizeof(reason), "%s is there twice", field_name[field]);
      return complain(c, reason);
    }
    seen |= field < FIELDS ? 1u << field : 0;
    if (field == TIMESTAMP) {
      code = read_number(c, "timestamp", 6, KVL_WORKLOAD_NS_MAX, &value[TIMESTAMP]);
    } else if (field == INPUT || field == OUTPUT) {
      code = read_number(c, field_name[field], 0, KVL_WORKLOAD_TOKENS_MAX, &value[field]);
    } else if (field == IDS) {
      uint32_t count = 0;
      code = read_ids(c, m, &count);
      value[IDS] = count;
    } else {
      if (!stranger[0])
        snprintf(stranger, sizeof(stranger), "%.*s", (int)(length < 31 ? length : 31), key);
      code = skip_value(c);
    }
    if (code)
      return code;
    skip_space(c);
  }
  c->p++;
  skip_space(c);
  if (*c->p != '\0')
    return complain(c, "there is more after the object; one request a line");
  for (unsigned field = 0; field < FIELDS; field++) {
    if (!(seen & 1u << field))
      return kvl_err_set(c->err, -EINVAL, "%s:%llu: %s is missing%s%s%s", c->lines->path, (unsigned long long)c->lines->number,
                         field_name[field], stranger[0] ? " (there is '" : "", stranger, stranger[0] ? "')" : "");
  }
  return 0;
}

static int mooncake_next(void *state, struct kvl_lines *lines, struct kvl_request_spec *spec, struct kvl_err *err)
{
  struct mooncake *m = state;
  struct cursor c = {NULL, NULL, lines, err};
  uint64_t value[FIELDS], blocks;
  char *text;
  size_t length;
  int code;

  do {
    code = kvl_lines_next(lines, &text, &length, err);
    if (code <= 0)
      return code;
  } while (length == 0);
  c.start = c.p = text;
  code = read_object(&c, m, value);
  if (code)
    return code;
  if (value[INPUT] == 0)
    return kvl_err_set(err, -EINVAL, "%s:%llu: input_length is 0", lines->path, (unsigned long long)lines->number);
  blocks = (value[INPUT] + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
  if (value[IDS] > blocks)
    return kvl_err_set(err, -EINVAL, "%s:%llu: hash_ids has %llu ids, but input_length %llu makes %llu blocks of %d tokens", lines->path,
                       (unsigned long long)lines->number, (unsigned long long)value[IDS], (unsigned long long)value[INPUT],
                       (unsigned long long)blocks, BLOCK_TOKENS);
  if (value[TIMESTAMP] < m->last_ns)
    return kvl_err_set(err, -EINVAL, "%s:%llu: timestamp goes backwards, from %llu to %llu ms", lines->path,
                       (unsigned long long)lines->number, (unsigned long long)(m->last_ns / 1000000),
                       (unsigned long long)(value[TIMESTAMP] / 1000000));
  m->last_ns = value[TIMESTAMP];
  *spec = (struct kvl_request_spec){
    .session = m->requests++,
    .chain = 0,
    .arrival = KVL_ARRIVAL_AT,
    .time_ns = value[TIMESTAMP],
    .input_tokens = (uint32_t)value[INPUT],
    .output_tokens = (uint32_t)value[OUTPUT],
    .block_tokens = BLOCK_TOKENS,
    .block_count = (uint32_t)value[IDS],
    .block = m->block,
  };
  return 1;
}

static const char *mooncake_refuses(const char *line, size_t length)
{
  (void)length;
  while (*line == ' ' || *line == '\t')
    line++;
  if (*line == '[')
    return "the file is one JSON array, not one JSON object a line";
  if (*line != '{')
    return "the first line is not a JSON object";
  if (!strchr(line, '}') && !strstr(line, "\"timestamp\""))
    return "the first line is not a whole JSON object (a scenario, perhaps?)";
  return NULL;
}

static void *mooncake_create(void)
{
  return calloc(1, sizeof(struct mooncake));
}

static void mooncake_destroy(void *state)
{
  struct mooncake *m = state;
  free(m->block);
  free(m);
}

static void mooncake_rewind(void *state)
{
  struct mooncake *m = state;
  m->requests = 0;
  m->last_ns = 0;
}

const struct kvl_workload_ops kvl_workload_mooncake = {
  "mooncake", mooncake_refuses, mooncake_create, mooncake_destroy, mooncake_rewind, mooncake_next,
};
