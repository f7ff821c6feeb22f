/* Host-side prefix store: a hash map over block ids and an LRU list threaded through the entries, both by 32-bit index.
 *
 * Entries live in arrays that double up to blocks_max; the map is open addressing with linear probing, at most half full, deletion by shifting back,
 * so nothing degrades with age. 24 bytes a block in all. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backend/base/rng.h"
#include "traces/workload.h"

enum { FIRST_CAPACITY = 1024 };
#define NOTHING UINT32_MAX

struct kvl_prefix_store {
  uint64_t blocks_max;
  uint32_t count, capacity;
  uint32_t newest, oldest;
  uint64_t *id;
  uint32_t *newer, *older; /* neighbours in the LRU list */
  uint32_t *map;           /* entry per cell, NOTHING: free */
  uint32_t mask;
  bool starved;
};

static uint32_t home(const struct kvl_prefix_store *s, uint64_t id)
{
  return (uint32_t)(kvl_rng_mix(id) >> 32) & s->mask;
}

/* The cell of an id, or the free cell where it would go. */
static uint32_t find_cell(const struct kvl_prefix_store *s, uint64_t id)
{
  uint32_t cell = home(s, id);
  while (s->map[cell] != NOTHING && s->id[s->map[cell]] != id)
    cell = (cell + 1) & s->mask;
  return cell;
}

static bool grow_array(void *array_pointer, size_t count, size_t size)
{
  void **array = array_pointer;
  void *grown = realloc(*array, count * size);
  if (grown)
    *array = grown;
  return grown != NULL;
}

/* Room for `capacity` entries and a map twice that, a power of two. On failure the store stays as it was. */
static bool grow(struct kvl_prefix_store *s, uint64_t capacity)
{
  uint64_t cells = FIRST_CAPACITY;
  uint32_t *map;
  while (cells < 2 * capacity)
    cells *= 2;
  if (!grow_array(&s->id, capacity, sizeof(*s->id)) || !grow_array(&s->newer, capacity, sizeof(*s->newer)) ||
      !grow_array(&s->older, capacity, sizeof(*s->older)))
    return false;
  map = malloc(cells * sizeof(*map));
  if (!map)
    return false;
  free(s->map);
  s->map = map;
  s->mask = (uint32_t)(cells - 1);
  for (uint64_t i = 0; i < cells; i++)
    map[i] = NOTHING;
  for (uint32_t entry = 0; entry < s->count; entry++)
    map[find_cell(s, s->id[entry])] = entry;
  s->capacity = (uint32_t)capacity;
  return true;
}

struct kvl_prefix_store *kvl_prefix_store_create(uint64_t blocks_max)
{
  struct kvl_prefix_store *s;
  if (blocks_max > KVL_PREFIX_BLOCKS_MAX)
    return NULL;
  s = calloc(1, sizeof(*s));
  if (!s)
    return NULL;
  s->blocks_max = blocks_max;
  s->newest = s->oldest = NOTHING;
  if (!grow(s, blocks_max < FIRST_CAPACITY ? (blocks_max ? blocks_max : 1) : FIRST_CAPACITY)) {
    kvl_prefix_store_destroy(s);
    return NULL;
  }
  return s;
}

void kvl_prefix_store_destroy(struct kvl_prefix_store *s)
{
  if (!s)
    return;
  free(s->id);
  free(s->newer);
  free(s->older);
  free(s->map);
  free(s);
}

static void unlink_entry(struct kvl_prefix_store *s, uint32_t entry)
{
  uint32_t newer = s->newer[entry], older = s->older[entry];
  if (newer != NOTHING)
    s->older[newer] = older;
  else
    s->newest = older;
  if (older != NOTHING)
    s->newer[older] = newer;
  else
    s->oldest = newer;
}

static void link_newest(struct kvl_prefix_store *s, uint32_t entry)
{
  s->newer[entry] = NOTHING;
  s->older[entry] = s->newest;
  if (s->newest != NOTHING)
    s->newer[s->newest] = entry;
  else
    s->oldest = entry;
  s->newest = entry;
}

/* Frees a cell and moves later ones back so that every entry can still be reached from its home. */
static void remove_cell(struct kvl_prefix_store *s, uint32_t cell)
{
  uint32_t hole = cell;
  for (uint32_t at = (cell + 1) & s->mask; s->map[at] != NOTHING; at = (at + 1) & s->mask) {
    uint32_t from = home(s, s->id[s->map[at]]);
    if (((at - from) & s->mask) >= ((at - hole) & s->mask)) {
      s->map[hole] = s->map[at];
      hole = at;
    }
  }
  s->map[hole] = NOTHING;
}

/* Makes `id` the newest; true when it was there. */
static void touch(struct kvl_prefix_store *s, uint64_t id)
{
  uint32_t cell = find_cell(s, id), entry = s->map[cell];
  if (entry != NOTHING) {
    if (entry != s->newest) {
      unlink_entry(s, entry);
      link_newest(s, entry);
    }
    return;
  }
  if (s->count == s->capacity && s->count < s->blocks_max && !s->starved) {
    uint64_t capacity = 2 * (uint64_t)s->capacity;
    s->starved = !grow(s, capacity < s->blocks_max ? capacity : s->blocks_max);
    cell = find_cell(s, id);
  }
  if (s->count < s->capacity) {
    entry = s->count++;
  } else {
    entry = s->oldest;
    unlink_entry(s, entry);
    remove_cell(s, find_cell(s, s->id[entry]));
    cell = find_cell(s, id);
  }
  s->id[entry] = id;
  s->map[cell] = entry;
  link_newest(s, entry);
}

uint32_t kvl_prefix_store_use(struct kvl_prefix_store *s, const uint64_t *block, uint32_t block_count)
{
  uint32_t present = 0, kept = block_count;
  if (s->blocks_max == 0)
    return 0;
  while (present < block_count && s->map[find_cell(s, block[present])] != NOTHING)
    present++;
  if (kept > s->blocks_max)
    kept = (uint32_t)s->blocks_max;
  for (uint32_t i = kept; i-- > 0;) /* from the back: the head of a prefix is worth most, so it is touched last */
    touch(s, block[i]);
  return present;
}

uint64_t kvl_prefix_store_blocks(const struct kvl_prefix_store *s)
{
  return s->count;
}

int kvl_prefix_store_status(const struct kvl_prefix_store *s)
{
  return s->starved ? -ENOMEM : 0;
}
