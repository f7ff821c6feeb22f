/* Allocations that fail when told to. A test that depends on fault_alloc_dep is linked with --wrap for malloc, calloc, realloc, aligned_alloc, strdup and
 * free: what the product's own code allocates is counted here; what libraries allocate is not, unless a test routes their hooks here too. One thread. */
#ifndef KVL_TESTS_FAULT_ALLOC_H
#define KVL_TESTS_FAULT_ALLOC_H

#include <stdbool.h>

/* From now on allocations are counted, and the n-th (from 0) fails, that one only. */
void fault_alloc_arm(long n);
/* Ends it. true: the n-th came, and failed. */
bool fault_alloc_disarm(void);
/* For hooks of libraries: counts one allocation; true: it is the one to fail. */
bool fault_alloc_now(void);
/* Blocks allocated since the last arming and not freed before the disarming. */
long fault_alloc_live(void);

#endif
