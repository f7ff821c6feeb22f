/* A JSON tree whose nodes know where they were written. cJSON checks and decodes the text; a walk over the same text adds what cJSON does not
 * keep: the line of every value, numbers as they were typed (so that 13.4 ms is exactly 13,400,000 ns), and duplicate keys. */
#ifndef KVL_SIM_SCENARIO_JSON_H
#define KVL_SIM_SCENARIO_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "backend/base/err.h"

/* Memory of a tree: everything is freed at once. Start with {0}. */
struct kvl_arena {
  struct kvl_arena_block *head;
};
void *kvl_arena_take(struct kvl_arena *arena, size_t bytes); /* zeroed, aligned to 16; NULL: no memory */
char *kvl_arena_text(struct kvl_arena *arena, const char *text, size_t length); /* a terminated copy; NULL: no memory */
void kvl_arena_free(struct kvl_arena *arena);

enum kvl_json_kind { KVL_JSON_NULL, KVL_JSON_FALSE, KVL_JSON_TRUE, KVL_JSON_NUMBER, KVL_JSON_STRING, KVL_JSON_ARRAY, KVL_JSON_OBJECT };
const char *kvl_json_kind_name(enum kvl_json_kind kind); /* "a number", "an object" */

struct kvl_json {
  enum kvl_json_kind kind;
  uint32_t line;          /* 1-based; 0: not from a file (--set) */
  const char *place;      /* the file's name, or the --set argument */
  const char *key;        /* name within its object; NULL for elements and the root */
  const char *text;       /* string: decoded; number: as typed */
  struct kvl_json *child; /* first member or element, in order of the text */
  struct kvl_json *next;
};

enum { KVL_JSON_BYTES_MAX = 4 << 20, KVL_JSON_DEPTH_MAX = 32, KVL_JSON_MEMBERS_MAX = 1024, KVL_JSON_ELEMENTS_MAX = 20000, KVL_JSON_NUMBER_MAX = 48 };

/* Parses `text` (`size` bytes; need not be terminated). `place` is copied. -EINVAL with file, line and reason; -ENOMEM. */
int kvl_json_parse(struct kvl_arena *arena, const char *text, size_t size, const char *place, struct kvl_json **root, struct kvl_err *err);

struct kvl_json *kvl_json_member(const struct kvl_json *object, const char *key); /* NULL: none, or not an object */

/* Puts `value` under `key` of `object`, in the place of what was there (at the end otherwise). `key` must live as long as the tree. */
void kvl_json_put(struct kvl_json *object, const char *key, struct kvl_json *value);

/* Takes the member out of the object and returns it (NULL: none). */
struct kvl_json *kvl_json_take(struct kvl_json *object, const char *key);

/* Writes a copy of `over`'s members into `base`: objects are merged, all else is replaced. An object that holds "value" is a value, not a section. */
void kvl_json_merge(struct kvl_json *base, struct kvl_json *over);

/* "file:12" or "--set=a=b" into `buffer`; returns it. */
const char *kvl_json_where(const struct kvl_json *node, char *buffer, size_t size);

#endif
