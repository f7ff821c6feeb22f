/* "Did you mean": the candidate closest to a mistyped word. */
#ifndef KVL_BASE_NEAREST_H
#define KVL_BASE_NEAREST_H

#include <stddef.h>

/* Returns the candidate nearest to `word`, upper and lower case alike, or NULL when there are none: one that is a slip away or ends in ".word", then one that
 * begins with the word (itself or after its last dot), then the smallest edit distance (ties: the first). The caller decides whether to show it; the pointer is one of `candidates`. */
const char *kvl_nearest(const char *word, const char *const *candidates, size_t count);

#endif
