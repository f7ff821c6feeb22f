/* A few threads that run the items of one loop; results must not depend on who runs what. One thread: everything runs in the caller. */
#ifndef KVL_SIM_WORKERS_H
#define KVL_SIM_WORKERS_H

#include <stdint.h>

struct kvl_workers;
typedef void kvl_work_fn(void *context, uint32_t thread, uint32_t item);

struct kvl_workers *kvl_workers_create(uint32_t threads); /* NULL: no memory or no threads */
void kvl_workers_destroy(struct kvl_workers *workers);
uint32_t kvl_workers_count(const struct kvl_workers *workers);
/* Runs fn for items 0 .. count - 1, each once, and returns when all are done. */
void kvl_workers_run(struct kvl_workers *workers, kvl_work_fn *fn, void *context, uint32_t count);

#endif
