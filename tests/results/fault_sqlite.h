/* SQLite's own allocations fail with the others: its memory hooks count through tests/base/fault_alloc.h. */
#ifndef KVL_TESTS_FAULT_SQLITE_H
#define KVL_TESTS_FAULT_SQLITE_H

#include <stdbool.h>

/* Before the first use of SQLite. lookaside: small pieces may come from its lookaside memory, as in the product; without, each of them counts.
 * false: SQLite refused. */
bool fault_sqlite_install(bool lookaside);

#endif
