/* The pages of one request: which are complete on the host, which hold a frame, and the map that resolve reads.
 *
 * Three arrays of one row a page: `frame` (held, arriving included), `map` (readable: what resolve sees) and the two sets `held` and
 * `missing` that find the oldest held and the newest missing page at once. Only pages below `complete` have entries. */
#ifndef KVL_BACKEND_PAGE_TABLE_H
#define KVL_BACKEND_PAGE_TABLE_H

#include "backend/base/checked.h"
#include "backend/base/ids.h"
#include "backend/bitset.h"
#include "backend/page_rank.h"

struct kvl_page_table {
  uint32_t pages;        /* capacity; 0 when nothing is ever lent */
  uint32_t complete;     /* pages 0 .. complete - 1 are whole, committed and on the host (I2) */
  uint32_t held_count, mapped_count;
  uint64_t version;  /* of the map: rises with every change; goes on from request to request */
  uint64_t *changed; /* by KVL_MAP_STRETCH pages of the complete ones: the version with which an entry of the stretch changed last */
  kvl_frame *frame, *map;
  struct kvl_bitset held, missing;
  uint32_t *selected;    /* selections by page, saturating; NULL unless an order needs them */
  struct kvl_page_rank coldest_held, hottest_missing;
};

void kvl_page_table_layout(struct kvl_page_table *table, struct kvl_carve *carve, uint32_t pages, bool rank_held, bool rank_missing);

/* Pages up to `complete` (not below the present number) are whole and on the host now; the new ones are missing. */
void kvl_page_table_grow(struct kvl_page_table *table, uint32_t complete);
void kvl_page_table_reset(struct kvl_page_table *table); /* nothing may be held */

void kvl_page_table_lend(struct kvl_page_table *table, kvl_page page, kvl_frame frame); /* a missing page */
void kvl_page_table_arrive(struct kvl_page_table *table, kvl_page page);                /* a held page becomes readable */
kvl_frame kvl_page_table_drop(struct kvl_page_table *table, kvl_page page);             /* a held page */

static inline uint32_t kvl_page_table_missing(const struct kvl_page_table *table)
{
  return table->pages == 0 ? 0 : table->complete - table->held_count;
}

/* The page to revoke next and the page to lend next: by count where the table ranks, else by age. There must be one. */
kvl_page kvl_page_table_victim(struct kvl_page_table *table);
kvl_page kvl_page_table_newest_missing(const struct kvl_page_table *table);
kvl_page kvl_page_table_wanted(struct kvl_page_table *table);

void kvl_page_table_note_selected(struct kvl_page_table *table, kvl_page first, uint32_t *lanes, uint32_t count);

#endif
