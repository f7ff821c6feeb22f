/* The C reference of resolve, and the state it works on. See resolve.h for the rules. No allocation, no I/O, no clock. */
#ifndef KVL_KERNELS_RESOLVE_REF_H
#define KVL_KERNELS_RESOLVE_REF_H

#include <stdbool.h>

#include "kernels/resolve.h"

/* Limits: transactions and announcements of one cache are counted in 32 bits (kvl_resolve_ref and kvl_announce_ref return -EOVERFLOW after
 * 2^32 - 1 of them, some 200 days of decoding at five selections every 20 ms); an announcement has at most KVL_POOLS_MAX pools. */
enum { KVL_POOLS_MAX = 64 };

/* State of one cache of one request. Public so that tests can look; only resolve_ref.c writes it. */
struct kvl_cache;

/* Scratch memory of a call, one a thread; sized for the largest transaction (queries x k). */
struct kvl_resolve_ws;

/* Memory for one cache's state, or for a workspace; the caller provides it, aligned to 64 bytes. */
size_t kvl_cache_bytes(const struct kvl_cache_geometry *geometry);
size_t kvl_resolve_ws_bytes(uint32_t lanes_max);

/* Both return the object laid out at the start of `memory` (of the size given above). The cache starts with no history. `geometry` must
 * outlive it. `random_seed` is used by KVL_EVICT_RANDOM only. */
struct kvl_cache *kvl_cache_init(void *memory, const struct kvl_cache_geometry *geometry, const struct kvl_cache_bases *bases,
                                 uint64_t random_seed);
struct kvl_resolve_ws *kvl_resolve_ws_init(void *memory, uint32_t lanes_max);

/* The request's page map: frame_of_page[page] is a frame or -1; owned and changed by the policy (between calls); shared by all caches of
 * the request. Pages at or past `pages` are not lent. */
void kvl_cache_set_page_map(struct kvl_cache *cache, const kvl_frame *frame_of_page, uint32_t pages);

/* History. `commit` makes rows [0, rows) of the current scratch history and puts them in the tail (lowest free places) and clears the
 * scratch; `load` declares rows [0, committed) as history that is complete on the host (admission). `written_back` drops the oldest `rows`
 * rows of the tail, whose host copies are complete. `scratch` declares that a verification pass writes `rows` rows past the committed ones.
 * 0, or -ENOSPC when the tail or scratch is too small (nothing changed), or -EINVAL for more rows than there are; `load` also returns it
 * when rows are in the tail or scratch, or for fewer rows than are committed. */
int kvl_cache_load(struct kvl_cache *cache, kvl_row committed);
int kvl_cache_scratch(struct kvl_cache *cache, uint32_t rows);
int kvl_cache_commit(struct kvl_cache *cache, uint32_t rows);
int kvl_cache_written_back(struct kvl_cache *cache, uint32_t rows);
kvl_row kvl_cache_committed(const struct kvl_cache *cache);
uint32_t kvl_cache_tail_rows(const struct kvl_cache *cache); /* rows in the tail now */

/* One transaction. addresses: one per lane, queries one after the other, in lane order. fetches: room for all lanes (or NULL when not
 * wanted); *fetch_count gets the distinct misses. counts are added to. `whole`: the request holds all its history (every committed row is
 * in the tail or on a lent page): no hot look-up, no replacement, no host read (the direct path; same result, checked by tests). It is a
 * hint: a row that is in neither after all (the end of a history that fills no page, say) takes the common path and nothing goes wrong.
 * Returns 0, or -EOVERFLOW when the lanes do not fit the workspace or the transactions are used up (nothing changed). */
int kvl_resolve_ref(struct kvl_cache *cache, struct kvl_resolve_ws *ws, bool whole, const struct kvl_query *queries, uint32_t query_count,
                    kvl_addr *addresses, struct kvl_fetch *fetches, uint32_t *fetch_count, struct kvl_resolve_counts *counts);

/* Prefetch (semantics: section 5). Pools: one list of rows a query. copies: rows that get a bank slot, in order; dropped: rows without
 * room. Both have room for the distinct rows of all pools. Pins the hot slots that hold pool rows until end_group.
 * The workspace must be sized for the rows of all pools together. 0, or -EOVERFLOW when it is not, or there are too many pools (nothing
 * changed). */
int kvl_announce_ref(struct kvl_cache *cache, struct kvl_resolve_ws *ws, const struct kvl_query *pools, uint32_t pool_count,
                     struct kvl_fetch *copies, uint32_t *copy_count, kvl_row *dropped, uint32_t *drop_count);
void kvl_end_group_ref(struct kvl_cache *cache);

/* Logical state, for comparison: the row (or -1) and stamp of a hot slot, the row (or -1) of a bank slot, the place of a tail row (or -1). */
kvl_row kvl_cache_hot_row(const struct kvl_cache *cache, kvl_slot slot);
uint64_t kvl_cache_hot_stamp(const struct kvl_cache *cache, kvl_slot slot);
kvl_row kvl_cache_bank_row(const struct kvl_cache *cache, kvl_slot slot);
kvl_slot kvl_cache_tail_place(const struct kvl_cache *cache, kvl_row row);

/* Which tier an address lies in, and the place within it (frame and row within the cache's part of the frame for pages). Overflow is
 * reported as KVL_TIER_HOST with *overflow set. Frames and overflow have no upper end here: an address in none of the bounded areas belongs
 * to whichever of the two has the larger base at or below it. `addr` must not be negative. */
enum kvl_tier kvl_addr_decode(const struct kvl_cache *cache, kvl_addr addr, kvl_slot *place, kvl_slot *row_in_frame, bool *overflow);

/* O(n) check of every internal invariant; 0 or a line number of the failed check (for tests and --verify). */
int kvl_cache_verify(const struct kvl_cache *cache);

#endif
