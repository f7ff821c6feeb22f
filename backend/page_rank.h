/* The page selected least, or most, often among a set of candidate pages: for the access-aware orders of revocation and give-back.
 *
 * Counting must be cheap (it happens for every selected page of every step), choosing happens per moved page. So a count only marks its block of
 * 64 pages; choosing refreshes the best page of the marked blocks and compares the blocks. Exact, ties to the lowest page (least) or the
 * highest (most). */
#ifndef KVL_BACKEND_PAGE_RANK_H
#define KVL_BACKEND_PAGE_RANK_H

#include "backend/base/checked.h"
#include "backend/base/ids.h"
#include "backend/bitset.h"

struct kvl_page_rank {
  bool most;
  uint32_t blocks;
  const uint32_t *count;               /* selections by page; NULL: this rank is not in use */
  const struct kvl_bitset *candidates;
  kvl_page *best;                      /* by block; valid where `stale` has no mark */
  uint64_t *stale;                     /* one bit a block */
};

/* `count` and `candidates` cover the same pages and outlive the rank. */
void kvl_page_rank_layout(struct kvl_page_rank *rank, struct kvl_carve *carve, uint32_t pages, bool most, const uint32_t *count,
                          const struct kvl_bitset *candidates);

/* The count of `page`, or whether it is a candidate, has changed. */
static inline void kvl_page_rank_touch(struct kvl_page_rank *rank, uint32_t page)
{
  if (rank->count != NULL) {
    rank->stale[page / 4096] |= (uint64_t)1 << (page / 64 % 64);
  }
}

void kvl_page_rank_touch_all(struct kvl_page_rank *rank);

/* KVL_NONE when there is no candidate. */
kvl_page kvl_page_rank_best(struct kvl_page_rank *rank);

/* O(pages): every block without a mark has its best page. */
bool kvl_page_rank_audit(const struct kvl_page_rank *rank);

#endif
