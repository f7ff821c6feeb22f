/* The load: who submits what, when. Closed loop, open loop (Poisson, gamma) and workload files behind one interface, in simulated time. */
#ifndef KVL_SIM_LOAD_H
#define KVL_SIM_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "sim/model.h"
#include "traces/workload.h"

struct kvl_load;

int kvl_load_create(struct kvl_load **load, const struct kvl_scenario *scenario, struct kvl_err *err);
void kvl_load_destroy(struct kvl_load *load);

/* When the next request is due; UINT64_MAX: none until some request completes, or none at all. */
uint64_t kvl_load_next_ns(struct kvl_load *load);

/* Takes the request that is due at or before `now`: 1 and *spec (block list valid until the next call), 0: none is due, negative: the file is bad, or
 * (-ERANGE) the request comes after the end of simulated time. */
int kvl_load_take(struct kvl_load *load, uint64_t now_ns, struct kvl_request_spec *spec, struct kvl_err *err);

/* A request that was taken has completed or was aborted. */
int kvl_load_done(struct kvl_load *load, uint64_t session, uint32_t chain, uint64_t now_ns, struct kvl_err *err);

/* All requests have been taken. */
bool kvl_load_exhausted(const struct kvl_load *load);
uint64_t kvl_load_total(const struct kvl_load *load); /* requests in all, 0 when not known */
uint32_t kvl_load_tokens_max(const struct kvl_load *load); /* longest input + output */
uint32_t kvl_load_block_tokens(const struct kvl_load *load); /* tokens of a prefix block; 0: the workload names none */

#endif
