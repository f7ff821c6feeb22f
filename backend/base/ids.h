/* One id type a space (semantics: an index of one space never travels as a bare integer into another). -1 is "none" in each
 * and can never match anything. */
#ifndef KVL_BASE_IDS_H
#define KVL_BASE_IDS_H

#include <stdint.h>

typedef int32_t kvl_row;   /* one KV entry of one cache of one request, counted from the session's start */
typedef int32_t kvl_page;  /* the rows of all caches of one request for tokens_per_page tokens: the unit of lending */
enum { KVL_MAP_STRETCH = 256 }; /* pages whose entries of a page map are followed together: changed or not */
typedef int32_t kvl_frame; /* a physical page in HBM */
typedef int32_t kvl_slot;  /* a physical row in a hot cache, bank, tail or scratch area */
typedef int32_t kvl_addr;  /* flat row index into the KV arena of one GPU, in rows of the cache's own size, whatever tier the row is in */
enum { KVL_NONE = -1 };

#endif
