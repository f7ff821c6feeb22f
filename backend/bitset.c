#include "backend/bitset.h"

#include <string.h>

static uint32_t words_of(uint32_t bits)
{
  return bits == 0 ? 1 : (bits - 1) / 64 + 1;
}

size_t kvl_bitset_words(uint32_t bits)
{
  size_t total = 0;
  for (uint32_t n = bits;;) {
    n = words_of(n);
    total += n;
    if (n == 1) {
      return total;
    }
  }
}

void kvl_bitset_init(struct kvl_bitset *set, uint64_t *words, uint32_t bits)
{
  memset(set, 0, sizeof *set);
  set->bits = bits;
  for (uint32_t n = bits;;) {
    n = words_of(n);
    set->level[set->levels++] = words;
    words += n;
    if (n == 1) {
      break;
    }
  }
  kvl_bitset_clear_all(set);
}

void kvl_bitset_layout(struct kvl_bitset *set, struct kvl_carve *carve, uint32_t bits)
{
  uint64_t *words = kvl_carve(carve, kvl_bitset_words(bits), sizeof *words);
  if (words != NULL) {
    kvl_bitset_init(set, words, bits);
  }
}

void kvl_bitset_clear_all(struct kvl_bitset *set)
{
  memset(set->level[0], 0, kvl_bitset_words(set->bits) * sizeof(uint64_t)); /* the levels lie one after the other */
}

void kvl_bitset_give_word(struct kvl_bitset *set, uint32_t index, uint64_t mask)
{
  for (uint32_t l = 0; l < set->levels; l++) {
    uint64_t before = set->level[l][index];
    set->level[l][index] = before | mask;
    if (before != 0 || mask == 0) {
      return;
    }
    mask = (uint64_t)1 << (index % 64);
    index /= 64;
  }
}

static void take_bits(struct kvl_bitset *set, uint32_t index, uint64_t mask)
{
  for (uint32_t l = 0; l < set->levels; l++) {
    set->level[l][index] &= ~mask;
    if (set->level[l][index] != 0) {
      return;
    }
    mask = (uint64_t)1 << (index % 64);
    index /= 64;
  }
}

void kvl_bitset_add(struct kvl_bitset *set, uint32_t member)
{
  kvl_bitset_give_word(set, member / 64, (uint64_t)1 << (member % 64));
}

void kvl_bitset_remove(struct kvl_bitset *set, uint32_t member)
{
  take_bits(set, member / 64, (uint64_t)1 << (member % 64));
}

void kvl_bitset_add_range(struct kvl_bitset *set, uint32_t from, uint32_t to)
{
  for (uint32_t at = from; at < to;) {
    uint32_t low = at % 64, left = to - at, n = left < 64 - low ? left : 64 - low;
    uint64_t ones = n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    kvl_bitset_give_word(set, at / 64, ones << low);
    at += n;
  }
}

static uint32_t lowest(uint64_t word)
{
  return (uint32_t)__builtin_ctzll(word);
}

static uint32_t highest(uint64_t word)
{
  return 63 - (uint32_t)__builtin_clzll(word);
}

/* From a non-empty word at `level` down to its smallest member. */
static uint32_t descend(const struct kvl_bitset *set, uint32_t level, uint32_t index)
{
  for (;; level--) {
    index = index * 64 + lowest(set->level[level][index]);
    if (level == 0) {
      return index;
    }
  }
}

uint32_t kvl_bitset_first(const struct kvl_bitset *set)
{
  uint32_t top = set->levels - 1;
  return set->level[top][0] == 0 ? KVL_BITSET_NONE : descend(set, top, 0);
}

uint32_t kvl_bitset_last(const struct kvl_bitset *set)
{
  if (set->level[set->levels - 1][0] == 0) {
    return KVL_BITSET_NONE;
  }
  uint32_t index = 0;
  for (uint32_t l = set->levels; l-- > 0;) {
    index = index * 64 + highest(set->level[l][index]);
  }
  return index;
}

uint32_t kvl_bitset_next(const struct kvl_bitset *set, uint32_t from)
{
  if (from >= set->bits) {
    return KVL_BITSET_NONE;
  }
  uint32_t at = from;
  for (uint32_t l = 0; l < set->levels; l++) {
    uint32_t index = at / 64;
    uint64_t rest = set->level[l][index] & (UINT64_MAX << (at % 64));
    if (rest != 0) {
      uint32_t found = index * 64 + lowest(rest);
      return l == 0 ? found : descend(set, l - 1, found);
    }
    at = index + 1;
    if (l + 1 < set->levels && at > (words_of(set->bits) - 1) >> (6 * l)) { /* past the last word of this level */
      return KVL_BITSET_NONE;
    }
  }
  return KVL_BITSET_NONE;
}

uint32_t kvl_bitset_take_word(struct kvl_bitset *set, uint32_t max, uint64_t *mask)
{
  uint32_t index = kvl_bitset_first(set) / 64;
  uint64_t word = set->level[0][index], taken = word;
  if ((uint32_t)__builtin_popcountll(word) > max) {
    for (uint32_t i = 0; i < max; i++) {
      word &= word - 1;
    }
    taken &= ~word;
  }
  take_bits(set, index, taken);
  *mask = taken;
  return index;
}

uint32_t kvl_bitset_audit(const struct kvl_bitset *set)
{
  uint32_t members = 0, words = words_of(set->bits);
  uint32_t past = set->bits % 64;
  if ((past != 0 || set->bits == 0) && set->level[0][words - 1] >> past != 0) {
    return KVL_BITSET_NONE;
  }
  for (uint32_t i = 0; i < words; i++) {
    members += (uint32_t)__builtin_popcountll(set->level[0][i]);
  }
  for (uint32_t l = 1; l < set->levels; l++) {
    for (uint32_t i = 0; i < words; i++) {
      bool summary = (set->level[l][i / 64] >> (i % 64) & 1) != 0;
      if (summary != (set->level[l - 1][i] != 0)) {
        return KVL_BITSET_NONE;
      }
    }
    words = words_of(words);
  }
  return members;
}
