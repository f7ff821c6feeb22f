/* "Did you mean": the candidate closest to a mistyped word. */
#ifndef KVL_BASE_NEAREST_H
#define KVL_BASE_NEAREST_H

#include <stddef.h>

/* Returns the candidate with the smallest edit distance to `word`, upper and lower case alike (ties: the first), or NULL when there are none. The caller
 * decides whether to show it; the pointer is one of `candidates`. */
const char *kvl_nearest(const char *word, const char *const *candidates, size_t count);

#endif
