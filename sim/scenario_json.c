#include "sim/scenario_json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kvl_arena_block {
  struct kvl_arena_block *next;
  size_t used, size;
};
enum { BLOCK_BYTES = 16 << 10, BLOCK_HEAD = 32 };

void *kvl_arena_take(struct kvl_arena *arena, size_t bytes)
{
  bytes = (bytes + 15u) & ~(size_t)15u;
  struct kvl_arena_block *block = arena->head;
  if (block == NULL || block->size - block->used < bytes) {
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    block = calloc(1, BLOCK_HEAD + size);
    if (block == NULL) {
      return NULL;
    }
    block->size = size;
    block->next = arena->head;
    arena->head = block;
  }
  void *memory = (char *)block + BLOCK_HEAD + block->used;
  block->used += bytes;
  return memory;
}

char *kvl_arena_text(struct kvl_arena *arena, const char *text, size_t length)
{
  char *copy = kvl_arena_take(arena, length + 1);
  if (copy != NULL) {
    memcpy(copy, text, length);
  }
  return copy;
}

void kvl_arena_free(struct kvl_arena *arena)
{
  while (arena->head != NULL) {
    struct kvl_arena_block *next = arena->head->next;
    free(arena->head);
    arena->head = next;
  }
}

const char *kvl_json_kind_name(enum kvl_json_kind kind)
{
  static const char *const names[] = {"null", "false", "true", "a number", "a string", "an array", "an object"};
  return names[kind];
}

/* The walk: strict JSON grammar; one mark for every value, in the order of the text. */
struct mark {
  enum kvl_json_kind kind;
  uint32_t line;
  size_t begin, end;
};
struct walk {
  const char *text;
  size_t size, at;
  uint32_t line;
  struct mark *mark;
  size_t marks, capacity;
  const char *place;
  struct kvl_err *err;
};

static int bad(const struct walk *w, const char *reason)
{
  return kvl_err_set(w->err, -EINVAL, "%s:%u: %s", w->place, (unsigned)w->line, reason);
}

static int peek(const struct walk *w)
{
  return w->at < w->size ? (unsigned char)w->text[w->at] : -1;
}

static void skip_space(struct walk *w)
{
  for (; w->at < w->size; w->at++) {
    char c = w->text[w->at];
    if (c == '\n') {
      w->line++;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

static bool is_digit(int c)
{
  return c >= '0' && c <= '9';
}

static int walk_digits(struct walk *w)
{
  if (!is_digit(peek(w))) {
    return bad(w, "a number lacks a digit");
  }
  while (is_digit(peek(w))) {
    w->at++;
  }
  return 0;
}

static int walk_number(struct walk *w)
{
  size_t begin = w->at;
  if (peek(w) == '-') {
    w->at++;
  }
  bool zero = peek(w) == '0';
  int rc = walk_digits(w);
  if (rc == 0 && zero && w->at - begin > (w->text[begin] == '-' ? 2u : 1u)) {
    rc = bad(w, "a number begins with a needless 0");
  }
  if (rc == 0 && peek(w) == '.') {
    w->at++;
    rc = walk_digits(w);
  }
  if (rc == 0 && (peek(w) == 'e' || peek(w) == 'E')) {
    w->at++;
    if (peek(w) == '+' || peek(w) == '-') {
      w->at++;
    }
    rc = walk_digits(w);
  }
  if (rc == 0 && w->at - begin > KVL_JSON_NUMBER_MAX) {
    rc = bad(w, "a number is longer than 48 characters");
  }
  return rc;
}

/* Four hexadecimal digits at `at`; -1 when there are none. */
static long hex4(const struct walk *w, size_t at)
{
  long value = 0;
  for (size_t i = at; i < at + 4; i++) {
    int c = i < w->size ? (unsigned char)w->text[i] : 0;
    int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

/* At the character after a backslash; leaves the last character of the escape. */
static int walk_escape(struct walk *w)
{
  int c = peek(w);
  if (c != 'u') {
    return c != -1 && c != 0 && strchr("\"\\/bfnrt", c) != NULL ? 0 : bad(w, "a string holds an unknown \\ escape");
  }
  long unit = hex4(w, w->at + 1);
  w->at += 4;
  if (unit < 0) {
    return bad(w, "\\u needs four hexadecimal digits");
  }
  if (unit == 0) {
    return bad(w, "a string holds \\u0000");
  }
  if (unit >= 0xd800 && unit <= 0xdfff) { /* two units make one character */
    bool pair = unit < 0xdc00 && w->size - w->at >= 7 && w->text[w->at + 1] == '\\' && w->text[w->at + 2] == 'u';
    long low = pair ? hex4(w, w->at + 3) : -1;
    if (low < 0xdc00 || low > 0xdfff) {
      return bad(w, "a string holds half a \\u surrogate pair");
    }
    w->at += 6;
  }
  return 0;
}

/* A character outside ASCII: leaves its last byte. Shortest forms only, no surrogates. */
static int walk_utf8(struct walk *w, unsigned char lead)
{
  unsigned more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  uint32_t code = lead & (0x3fu >> more);
  bool valid = lead >= 0xc2 && lead <= 0xf4;
  for (unsigned i = 0; i < more && valid; i++) {
    w->at++;
    int c = peek(w);
    valid = c >= 0x80 && c < 0xc0;
    code = code << 6 | ((uint32_t)c & 0x3fu);
  }
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  valid = valid && code >= least[more] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return valid ? 0 : bad(w, "a string is not UTF-8");
}

static int walk_string(struct walk *w)
{
  for (w->at++; w->at < w->size; w->at++) {
    unsigned char c = (unsigned char)w->text[w->at];
    int rc = 0;
    if (c == '"') {
      w->at++;
      return 0;
    }
    if (c < 0x20) {
      return bad(w, "a string is not closed on its line");
    }
    if (c == '\\') {
      w->at++;
      rc = walk_escape(w);
    } else if (c >= 0x80) {
      rc = walk_utf8(w, c);
    }
    if (rc != 0) {
      return rc;
    }
  }
  return bad(w, "the text ends inside a string");
}

static int walk_value(struct walk *w, unsigned depth);

static int walk_members(struct walk *w, unsigned depth, bool object)
{
  const char close = object ? '}' : ']';
  w->at++;
  skip_space(w);
  if (peek(w) == close) {
    w->at++;
    return 0;
  }
  for (unsigned members = 1;; members++) {
    if (members > (object ? (unsigned)KVL_JSON_MEMBERS_MAX : (unsigned)KVL_JSON_ELEMENTS_MAX)) { /* members are compared with one another, elements are not */
      return bad(w, object ? "more than 1,024 members in one object" : "more than 20,000 elements in one array");
    }
    skip_space(w);
    if (object) {
      if (peek(w) != '"') {
        return bad(w, peek(w) == '}' ? "a comma before the closing }" : "a key in quotes is expected here");
      }
      int rc = walk_string(w);
      if (rc != 0) {
        return rc;
      }
      skip_space(w);
      if (peek(w) != ':') {
        return bad(w, "a : is expected after the key");
      }
      w->at++;
    }
    int rc = walk_value(w, depth + 1);
    if (rc != 0) {
      return rc;
    }
    skip_space(w);
    if (peek(w) == close) {
      w->at++;
      return 0;
    }
    if (peek(w) == -1) {
      return bad(w, object ? "the text ends inside an object" : "the text ends inside an array");
    }
    if (peek(w) != ',') {
      return bad(w, object ? "a , or } is expected here" : "a , or ] is expected here");
    }
    w->at++;
  }
}

static int walk_word(struct walk *w, const char *word)
{
  size_t n = strlen(word);
  if (w->size - w->at < n || memcmp(w->text + w->at, word, n) != 0) {
    return bad(w, "not a JSON value (strings need quotes)");
  }
  w->at += n;
  return 0;
}

static int walk_value(struct walk *w, unsigned depth)
{
  if (depth > KVL_JSON_DEPTH_MAX) {
    return bad(w, "nested deeper than 32 levels");
  }
  skip_space(w);
  if (w->marks == w->capacity) {
    size_t capacity = w->capacity == 0 ? 256 : w->capacity * 2;
    struct mark *grown = realloc(w->mark, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(w->err, -ENOMEM, "%s: out of memory", w->place);
    }
    w->mark = grown;
    w->capacity = capacity;
  }
  size_t index = w->marks++;
  w->mark[index] = (struct mark){.kind = KVL_JSON_NULL, .line = w->line, .begin = w->at, .end = w->at};
  enum kvl_json_kind kind = KVL_JSON_NULL;
  int c = peek(w);
  int rc;
  if (c == '{' || c == '[') {
    kind = c == '{' ? KVL_JSON_OBJECT : KVL_JSON_ARRAY;
    rc = walk_members(w, depth, c == '{');
  } else if (c == '"') {
    kind = KVL_JSON_STRING;
    rc = walk_string(w);
  } else if (c == '-' || is_digit(c)) {
    kind = KVL_JSON_NUMBER;
    rc = walk_number(w);
  } else if (c == 't') {
    kind = KVL_JSON_TRUE;
    rc = walk_word(w, "true");
  } else if (c == 'f') {
    kind = KVL_JSON_FALSE;
    rc = walk_word(w, "false");
  } else if (c == 'n') {
    rc = walk_word(w, "null");
  } else {
    rc = bad(w, c == -1 ? "the text ends where a value is expected" : "not a JSON value (strings need quotes)");
  }
  w->mark[index].kind = kind;
  w->mark[index].end = w->at;
  return rc;
}

/* Joins cJSON's tree with the marks: both list the values in the order of the text. */
struct join {
  struct kvl_arena *arena;
  const struct walk *walk;
  const char *place;
  size_t next;
};

static enum kvl_json_kind cjson_kind(const cJSON *item)
{
  return cJSON_IsObject(item)   ? KVL_JSON_OBJECT
         : cJSON_IsArray(item)  ? KVL_JSON_ARRAY
         : cJSON_IsString(item) ? KVL_JSON_STRING
         : cJSON_IsNumber(item) ? KVL_JSON_NUMBER
         : cJSON_IsTrue(item)   ? KVL_JSON_TRUE
         : cJSON_IsFalse(item)  ? KVL_JSON_FALSE
                                : KVL_JSON_NULL;
}

static int join_value(struct join *j, const cJSON *item, struct kvl_json **out)
{
  struct kvl_json *node = kvl_arena_take(j->arena, sizeof *node);
  if (node == NULL) {
    return kvl_err_set(j->walk->err, -ENOMEM, "%s: out of memory", j->place);
  }
  if (j->next >= j->walk->marks || j->walk->mark[j->next].kind != cjson_kind(item)) {
    return kvl_err_set(j->walk->err, -EINVAL, "%s: not valid JSON", j->place);
  }
  const struct mark *mark = &j->walk->mark[j->next++];
  node->kind = mark->kind;
  node->line = mark->line;
  node->place = j->place;
  if (node->kind == KVL_JSON_NUMBER) {
    node->text = kvl_arena_text(j->arena, j->walk->text + mark->begin, mark->end - mark->begin);
  } else if (node->kind == KVL_JSON_STRING) {
    node->text = kvl_arena_text(j->arena, item->valuestring, strlen(item->valuestring));
  }
  if (item->string != NULL) {
    node->key = kvl_arena_text(j->arena, item->string, strlen(item->string));
  }
  if ((node->key == NULL && item->string != NULL) ||
      (node->text == NULL && (node->kind == KVL_JSON_NUMBER || node->kind == KVL_JSON_STRING))) {
    return kvl_err_set(j->walk->err, -ENOMEM, "%s: out of memory", j->place);
  }
  struct kvl_json **tail = &node->child;
  for (const cJSON *child = item->child; child != NULL; child = child->next) {
    int rc = join_value(j, child, tail);
    if (rc != 0) {
      return rc;
    }
    for (const struct kvl_json *other = node->child; node->kind == KVL_JSON_OBJECT && other != *tail; other = other->next) {
      if (strcmp(other->key, (*tail)->key) == 0) {
        return kvl_err_set(j->walk->err, -EINVAL, "%s:%u: %s: given twice (first on line %u)", j->place, (unsigned)(*tail)->line, other->key,
                           (unsigned)other->line);
      }
    }
    tail = &(*tail)->next;
  }
  *out = node;
  return 0;
}

int kvl_json_parse(struct kvl_arena *arena, const char *text, size_t size, const char *place, struct kvl_json **root, struct kvl_err *err)
{
  static const char mark[] = "\xef\xbb\xbf"; /* some editors begin UTF-8 with it, others write UTF-16 */
  bool marked = size >= 3 && memcmp(text, mark, 3) == 0;
  text += marked ? 3 : 0;
  size -= marked ? 3 : 0;
  struct walk w = {.text = text, .size = size, .line = 1, .place = place, .err = err};
  if (size > KVL_JSON_BYTES_MAX) {
    return kvl_err_set(err, -EINVAL, "%s: larger than 4 MiB, not a scenario", place);
  }
  if (size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
    return kvl_err_set(err, -EINVAL, "%s:1: the file is UTF-16; save it as UTF-8", place);
  }
  int rc = walk_value(&w, 0);
  if (rc == 0) {
    skip_space(&w);
    if (w.at != size) {
      rc = bad(&w, "text after the end of the JSON value");
    }
  }
  cJSON *tree = NULL;
  if (rc == 0 && (tree = cJSON_ParseWithLength(text, size)) == NULL) {
    rc = kvl_err_set(err, -ENOMEM, "%s: out of memory", place); /* the walk has found the text valid */
  }
  if (rc == 0) {
    struct join j = {.arena = arena, .walk = &w, .place = kvl_arena_text(arena, place, strlen(place))};
    rc = j.place == NULL ? kvl_err_set(err, -ENOMEM, "%s: out of memory", place) : join_value(&j, tree, root);
  }
  cJSON_Delete(tree);
  free(w.mark);
  return rc;
}

struct kvl_json *kvl_json_member(const struct kvl_json *object, const char *key)
{
  if (object == NULL || object->kind != KVL_JSON_OBJECT) {
    return NULL;
  }
  for (struct kvl_json *child = object->child; child != NULL; child = child->next) {
    if (strcmp(child->key, key) == 0) {
      return child;
    }
  }
  return NULL;
}

void kvl_json_put(struct kvl_json *object, const char *key, struct kvl_json *value)
{
  struct kvl_json **link = &object->child;
  while (*link != NULL && strcmp((*link)->key, key) != 0) {
    link = &(*link)->next;
  }
  value->key = key;
  value->next = *link == NULL ? NULL : (*link)->next;
  *link = value;
}

struct kvl_json *kvl_json_take(struct kvl_json *object, const char *key)
{
  for (struct kvl_json **link = &object->child; *link != NULL; link = &(*link)->next) {
    if (strcmp((*link)->key, key) == 0) {
      struct kvl_json *found = *link;
      *link = found->next;
      found->next = NULL;
      return found;
    }
  }
  return NULL;
}

void kvl_json_merge(struct kvl_json *base, struct kvl_json *over)
{
  struct kvl_json *next;
  for (struct kvl_json *child = over->child; child != NULL; child = next) {
    next = child->next;
    struct kvl_json *old = kvl_json_member(base, child->key);
    bool sections = old != NULL && old->kind == KVL_JSON_OBJECT && child->kind == KVL_JSON_OBJECT &&
                    kvl_json_member(old, "value") == NULL && kvl_json_member(child, "value") == NULL;
    if (sections) {
      kvl_json_merge(old, child);
    } else {
      kvl_json_put(base, child->key, child);
    }
  }
}

const char *kvl_json_where(const struct kvl_json *node, char *buffer, size_t size)
{
  if (node->line == 0) {
    (void)snprintf(buffer, size, "%s", node->place);
  } else {
    (void)snprintf(buffer, size, "%s:%u", node->place, (unsigned)node->line);
  }
  return buffer;
}
