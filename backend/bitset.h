/* A set of small integers with first, last and next in constant time: 64-ary bitmaps, each level summing up the one below.
 *
 * 7,813 pages take three levels, 450,000 frames four. Whole words can be taken and given back, so that moving thousands of
 * neighbouring frames costs a few dozen operations. */
#ifndef KVL_BACKEND_BITSET_H
#define KVL_BACKEND_BITSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/base/checked.h"

enum { KVL_BITSET_LEVELS_MAX = 6 }; /* 64^6 > 2^32 */
#define KVL_BITSET_NONE UINT32_MAX

struct kvl_bitset {
  uint32_t bits, levels;
  uint64_t *level[KVL_BITSET_LEVELS_MAX]; /* level[0] holds the members; bit i of level[n + 1] says that word i of level[n] is not 0 */
};

/* Words of memory for members 0 .. bits - 1; bits < UINT32_MAX. */
size_t kvl_bitset_words(uint32_t bits);
void kvl_bitset_init(struct kvl_bitset *set, uint64_t *words, uint32_t bits); /* empty */
void kvl_bitset_layout(struct kvl_bitset *set, struct kvl_carve *carve, uint32_t bits); /* the words come from the block being carved */
void kvl_bitset_clear_all(struct kvl_bitset *set);

void kvl_bitset_add(struct kvl_bitset *set, uint32_t member);
void kvl_bitset_remove(struct kvl_bitset *set, uint32_t member);
void kvl_bitset_add_range(struct kvl_bitset *set, uint32_t from, uint32_t to); /* [from, to) */

static inline bool kvl_bitset_has(const struct kvl_bitset *set, uint32_t member)
{
  return (set->level[0][member / 64] >> (member % 64) & 1) != 0;
}

/* The smallest, the largest, the smallest at or after `from`; KVL_BITSET_NONE when there is none. */
uint32_t kvl_bitset_first(const struct kvl_bitset *set);
uint32_t kvl_bitset_last(const struct kvl_bitset *set);
uint32_t kvl_bitset_next(const struct kvl_bitset *set, uint32_t from);

/* Removes the smallest members that share the first non-empty word, at most `max`: returns the word's index, *mask says which
 * (member = index * 64 + bit). The set must not be empty and max not 0. */
uint32_t kvl_bitset_take_word(struct kvl_bitset *set, uint32_t max, uint64_t *mask);
void kvl_bitset_give_word(struct kvl_bitset *set, uint32_t index, uint64_t mask);

/* O(bits / 64): the number of members, or KVL_BITSET_NONE when a summary contradicts the level below or a bit lies past the end. */
uint32_t kvl_bitset_audit(const struct kvl_bitset *set);

#endif
