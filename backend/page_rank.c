#include "backend/page_rank.h"

#include <string.h>

static size_t stale_words(uint32_t blocks)
{
  return (size_t)blocks / 64 + 1;
}

void kvl_page_rank_layout(struct kvl_page_rank *rank, struct kvl_carve *carve, uint32_t pages, bool most, const uint32_t *count,
                          const struct kvl_bitset *candidates)
{
  uint32_t blocks = pages / 64 + (pages % 64 != 0);
  kvl_page *best = kvl_carve(carve, blocks, sizeof *best);
  uint64_t *stale = kvl_carve(carve, stale_words(blocks), sizeof *stale);
  if (best == NULL || stale == NULL) {
    return;
  }
  rank->most = most;
  rank->blocks = blocks;
  rank->count = count;
  rank->candidates = candidates;
  rank->best = best;
  rank->stale = stale;
  kvl_page_rank_touch_all(rank);
}

void kvl_page_rank_touch_all(struct kvl_page_rank *rank)
{
  if (rank->count != NULL) {
    memset(rank->stale, 0xff, stale_words(rank->blocks) * sizeof rank->stale[0]);
  }
}

/* Pages are compared in ascending order, so "not better" keeps the lowest among equals and "not worse" the highest. */
static bool beats(const struct kvl_page_rank *rank, kvl_page page, kvl_page best)
{
  if (best == KVL_NONE) {
    return true;
  }
  return rank->most ? rank->count[page] >= rank->count[best] : rank->count[page] < rank->count[best];
}

static kvl_page best_of_block(const struct kvl_page_rank *rank, uint32_t block)
{
  kvl_page best = KVL_NONE;
  for (uint64_t left = rank->candidates->level[0][block]; left != 0; left &= left - 1) {
    kvl_page page = (kvl_page)(block * 64 + (uint32_t)__builtin_ctzll(left));
    best = beats(rank, page, best) ? page : best;
  }
  return best;
}

kvl_page kvl_page_rank_best(struct kvl_page_rank *rank)
{
  kvl_page best = KVL_NONE;
  for (uint32_t block = 0; block < rank->blocks; block++) {
    uint64_t *stale = &rank->stale[block / 64], mark = (uint64_t)1 << (block % 64);
    if ((*stale & mark) != 0) {
      rank->best[block] = best_of_block(rank, block);
      *stale &= ~mark;
    }
    kvl_page page = rank->best[block];
    best = page != KVL_NONE && beats(rank, page, best) ? page : best;
  }
  return best;
}

bool kvl_page_rank_audit(const struct kvl_page_rank *rank)
{
  for (uint32_t block = 0; rank->count != NULL && block < rank->blocks; block++) {
    bool stale = (rank->stale[block / 64] >> (block % 64) & 1) != 0;
    if (!stale && rank->best[block] != best_of_block(rank, block)) {
      return false;
    }
  }
  return true;
}
