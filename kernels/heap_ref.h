/* Heap sort in place, ascending: no memory, no recursion, never quadratic. Included by *_ref.c files only. */
#ifndef KVL_KERNELS_HEAP_REF_H
#define KVL_KERNELS_HEAP_REF_H

#include <stdint.h>

/* Defines static void name(type *a, uint32_t n). */
#define KVL_HEAP_SORT(name, type)                                       \
  static void name(type *a, uint32_t n)                                 \
  {                                                                     \
    for (uint32_t start = n / 2, end = n; end > 1;) {                   \
      if (start > 0) {                                                  \
        start--;                                                        \
      } else {                                                          \
        end--;                                                          \
        type top = a[0];                                                \
        a[0] = a[end];                                                  \
        a[end] = top;                                                   \
      }                                                                 \
      uint32_t root = start;                                            \
      for (uint32_t child; (child = 2 * root + 1) < end; root = child) { \
        if (child + 1 < end && a[child] < a[child + 1]) {               \
          child++;                                                      \
        }                                                               \
        if (a[root] >= a[child]) {                                      \
          break;                                                        \
        }                                                               \
        type top = a[root];                                             \
        a[root] = a[child];                                             \
        a[child] = top;                                                 \
      }                                                                 \
    }                                                                   \
  }

#endif
