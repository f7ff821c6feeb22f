#include "tests/results/fault_sqlite.h"

#include <sqlite3.h>
#include <stddef.h>

#include "tests/base/fault_alloc.h"

static sqlite3_mem_methods own;

static void *malloc_or_not(int size)
{
  return fault_alloc_now() ? NULL : own.xMalloc(size);
}

static void *realloc_or_not(void *memory, int size)
{
  return fault_alloc_now() ? NULL : own.xRealloc(memory, size);
}

bool fault_sqlite_install(bool lookaside)
{
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &own) != SQLITE_OK) {
    return false;
  }
  sqlite3_mem_methods hooked = own;
  hooked.xMalloc = malloc_or_not;
  hooked.xRealloc = realloc_or_not;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &hooked) == SQLITE_OK && (lookaside || sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
}
