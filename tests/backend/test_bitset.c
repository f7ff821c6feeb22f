/* Bitset against an array of booleans, at sizes around every power of 64; the memory has exactly the size asked for. */
#include <stdlib.h>

#include "backend/base/rng.h"
#include "backend/bitset.h"
#include "tests/base/tap.h"

struct world {
  struct kvl_bitset set;
  uint64_t *words;
  bool *has;
  uint32_t bits;
};

static struct world open_world(uint32_t bits)
{
  struct world w = {.bits = bits};
  w.words = malloc(kvl_bitset_words(bits) * sizeof w.words[0]);
  w.has = calloc(bits + 1, sizeof w.has[0]);
  ck_assert(w.words != NULL && w.has != NULL);
  kvl_bitset_init(&w.set, w.words, bits);
  return w;
}

static void close_world(struct world *w)
{
  free(w->words);
  free(w->has);
}

static uint32_t find(const struct world *w, uint32_t from, int direction)
{
  for (uint32_t i = from; i < w->bits; i += (uint32_t)direction) {
    if (w->has[i]) {
      return i;
    }
  }
  return KVL_BITSET_NONE;
}

static void compare(const struct world *w, uint32_t from)
{
  uint32_t members = 0, wrong = 0;
  for (uint32_t i = 0; i < w->bits; i++) {
    wrong += kvl_bitset_has(&w->set, i) != w->has[i];
    members += w->has[i];
  }
  ck_assert_uint_eq(wrong, 0);
  ck_assert_uint_eq(kvl_bitset_audit(&w->set), members);
  ck_assert_uint_eq(kvl_bitset_first(&w->set), find(w, 0, 1));
  ck_assert_uint_eq(kvl_bitset_last(&w->set), find(w, w->bits - 1, -1)); /* from UINT32_MAX for 0 bits: finds nothing */
  ck_assert_uint_eq(kvl_bitset_next(&w->set, from), find(w, from, 1));
}

static void change(struct world *w, struct kvl_rng *rng)
{
  uint32_t at = kvl_rng_below(rng, w->bits);
  switch (kvl_rng_below(rng, 5)) {
  case 0:
    if (!w->has[at]) {
      kvl_bitset_add(&w->set, at);
      w->has[at] = true;
    }
    break;
  case 1:
  case 2:
    if (w->has[at]) {
      kvl_bitset_remove(&w->set, at);
      w->has[at] = false;
    }
    break;
  case 3: {
    uint32_t to = at + kvl_rng_below(rng, w->bits - at + 1);
    kvl_bitset_add_range(&w->set, at, to);
    for (uint32_t i = at; i < to; i++) {
      w->has[i] = true;
    }
    break;
  }
  default:
    if (find(w, 0, 1) != KVL_BITSET_NONE) {
      uint64_t mask;
      uint32_t max = 1 + kvl_rng_below(rng, 70), word = kvl_bitset_take_word(&w->set, max, &mask), taken = 0;
      ck_assert_uint_eq(word, find(w, 0, 1) / 64);
      for (uint32_t i = word * 64; i < w->bits && i < word * 64 + 64; i++) { /* the lowest members of the word, and no others */
        bool due = w->has[i] && taken < max;
        ck_assert_msg((mask >> (i % 64) & 1) == due, "%u of %u, at most %u", i, w->bits, max);
        taken += due;
        w->has[i] = w->has[i] && !due;
      }
    }
  }
}

START_TEST(same_as_an_array_of_booleans)
{
  const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 5000};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    struct kvl_rng rng;
    kvl_rng_init(&rng, 1, "bitset", sizes[s]);
    struct world w = open_world(sizes[s]);
    for (int i = 0; i < 200; i++) {
      change(&w, &rng);
      compare(&w, kvl_rng_below(&rng, w.bits + 2));
    }
    close_world(&w);
  }
}
END_TEST

START_TEST(sparse_members_of_a_large_set_are_found)
{
  const uint32_t bits = 64 * 64 * 64 + 1, members[] = {0, 63, 64, 4095, 4096, 200000, 262143, 262144};
  struct world w = open_world(bits);
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    kvl_bitset_add(&w.set, members[i]);
  }
  uint32_t at = kvl_bitset_first(&w.set);
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    ck_assert_uint_eq(at, members[i]);
    at = kvl_bitset_next(&w.set, at + 1);
  }
  ck_assert_uint_eq(at, KVL_BITSET_NONE);
  ck_assert_uint_eq(kvl_bitset_last(&w.set), bits - 1);
  close_world(&w);
}
END_TEST

START_TEST(a_set_of_nothing_is_empty)
{
  struct world w = open_world(0);
  compare(&w, 0);
  close_world(&w);
}
END_TEST

START_TEST(audit_notices_a_wrong_summary_and_a_bit_past_the_end)
{
  struct world w = open_world(5000);
  kvl_bitset_add(&w.set, 700);
  w.set.level[1][0] = 0;
  ck_assert_uint_eq(kvl_bitset_audit(&w.set), KVL_BITSET_NONE);
  w.set.level[1][0] = (uint64_t)1 << 10;
  ck_assert_uint_eq(kvl_bitset_audit(&w.set), 1);
  kvl_bitset_give_word(&w.set, 5000 / 64, (uint64_t)1 << 63);
  ck_assert_uint_eq(kvl_bitset_audit(&w.set), KVL_BITSET_NONE);
  close_world(&w);
}
END_TEST

KVL_TAP_MAIN("bitset", same_as_an_array_of_booleans, sparse_members_of_a_large_set_are_found, a_set_of_nothing_is_empty,
             audit_notices_a_wrong_summary_and_a_bit_past_the_end)
