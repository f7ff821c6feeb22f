/* What a process may still take of the machine's memory, so that pinning too much is refused in words and not ended by the system. */
#ifndef KVL_BASE_MEMORY_H
#define KVL_BASE_MEMORY_H

#include <stdint.h>

/* Bytes: what the system calls available, or less where a control group (a container's, a batch job's) leaves less: its limit less what it uses, caches of
 * files not counted. `root` stands before /proc and /sys ("" but in tests). UINT64_MAX: the system does not say. */
uint64_t kvl_memory_available(const char *root);

#endif
