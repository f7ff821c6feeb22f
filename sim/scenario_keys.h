/* The one table of scenario keys: it drives parsing, --set, checking, docs, canonical JSON and `scenario check`. */
#ifndef KVL_SIM_SCENARIO_KEYS_H
#define KVL_SIM_SCENARIO_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kvl_key_type {
  KVL_KEY_TEXT,   /* char[width] */
  KVL_KEY_COUNT,  /* whole number, uint32_t or uint64_t (width 4 or 8) */
  KVL_KEY_AMOUNT, /* decimal number, stored times `scale` in an integer of `width` bytes */
  KVL_KEY_REAL,   /* double */
  KVL_KEY_CHOICE, /* one of `choices`, stored as the index (an enum) */
  KVL_KEY_WORD,   /* one of `choices`, stored as text */
  KVL_KEY_CURVE,  /* [[x, y], ...], x ascending: struct kvl_curve; y times `scale` */
  KVL_KEY_GATHERS, /* [[row bytes, range, rows, y], ...], a full grid in ascending order: struct kvl_gather_table; y times `scale` */
  KVL_KEY_CACHES  /* the caches of a model and their selections */
};

struct kvl_key {
  const char *path;       /* "policy.hot_rows"; keys of descriptors begin with model., hardware. and costs. */
  enum kvl_key_type type;
  const char *unit;       /* "" when it has none */
  uint64_t scale;         /* stored = typed x scale */
  size_t offset;
  uint32_t width;
  uint64_t min, max;      /* as stored, before scaling back for messages; reals: in thousandths */
  const char *fallback;   /* default as typed in JSON; NULL: required */
  const char *const *choices; /* ends with NULL */
  const char *meaning;
};

/* In the order in which canonical JSON writes them: keys of a section are together. */
extern const struct kvl_key kvl_keys[];
extern const uint32_t kvl_key_count;

/* Keys of one element of model.caches and of its selections; offsets into the structs below. */
struct kvl_cache_entry {
  char name[16];
  uint32_t written_layer, tokens_per_row, row_bytes, index_key_bytes, layers, repeat, every;
};
struct kvl_selection_entry {
  uint32_t layer, k, readers;
};
extern const struct kvl_key kvl_cache_keys[];
extern const uint32_t kvl_cache_key_count;
extern const struct kvl_key kvl_selection_keys[];
extern const uint32_t kvl_selection_key_count;

#endif
