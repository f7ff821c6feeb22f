#include "tests/base/fault_alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);

static struct {
  bool armed, fired;
  long left; /* allocations that still succeed */
  long live;
} alloc;

void fault_alloc_arm(long n)
{
  alloc.armed = true;
  alloc.fired = false;
  alloc.left = n;
  alloc.live = 0;
}

bool fault_alloc_disarm(void)
{
  alloc.armed = false;
  return alloc.fired;
}

long fault_alloc_live(void)
{
  return alloc.live;
}

bool fault_alloc_now(void)
{
  if (!alloc.armed || alloc.fired || alloc.left-- > 0) {
    return false;
  }
  alloc.fired = true;
  errno = ENOMEM;
  return true;
}

/* Counts a block that came to be. */
static void *counted(void *memory)
{
  alloc.live += alloc.armed && memory != NULL;
  return memory;
}

void *__wrap_malloc(size_t size)
{
  return counted(fault_alloc_now() ? NULL : __real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
  return counted(fault_alloc_now() ? NULL : __real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
  void *grown = fault_alloc_now() ? NULL : __real_realloc(memory, size);
  return memory == NULL ? counted(grown) : grown;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
  return counted(fault_alloc_now() ? NULL : __real_aligned_alloc(alignment, size));
}

char *__wrap_strdup(const char *text)
{
  size_t bytes = strlen(text) + 1;
  char *copy = __wrap_malloc(bytes);
  return copy == NULL ? NULL : memcpy(copy, text, bytes);
}

void __wrap_free(void *memory)
{
  alloc.live -= alloc.armed && memory != NULL;
  __real_free(memory);
}
