/* Arrays that grow by doubling. */
#ifndef KVL_TRACES_GROW_H
#define KVL_TRACES_GROW_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Grows *array (of elements of `size` bytes) to hold at least `count`; -ENOMEM leaves it as it was. */
static inline int kvl_grow(void **array, size_t *capacity, size_t count, size_t size)
{
  size_t wanted = *capacity ? *capacity : 64;
  void *grown;
  if (count <= *capacity)
    return 0;
  while (wanted < count)
    wanted *= 2;
  grown = realloc(*array, wanted * size);
  if (!grown)
    return -ENOMEM;
  *array = grown;
  *capacity = wanted;
  return 0;
}

#endif
