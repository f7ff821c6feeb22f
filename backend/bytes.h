/* Real bytes for the host plane: a host pool, an HBM arena (both in ordinary memory), and a pattern that says what every row must hold.
 *
 * The content of a row is a function of (session, cache, row), so a byte read through an address tells whether placement went wrong: a stale row, a
 * row of another session, a place overwritten too early. */
#ifndef KVL_BACKEND_BYTES_H
#define KVL_BACKEND_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "backend/refdev.h"

struct kvl_bytes;

/* Bytes of one batch slot's histories, all caches; tokens_max: longest request. */
uint64_t kvl_bytes_history(const struct kvl_refdev_config *config, uint32_t tokens_max);

/* tokens_max: longest request. Takes the arena; a slot's histories when it is first opened. -ENOMEM, here and there, says how much was asked for: what the
 * machine has not is not taken. */
int kvl_bytes_create(struct kvl_bytes **bytes, struct kvl_refdev *dev, uint32_t tokens_max, struct kvl_err *err);
void kvl_bytes_destroy(struct kvl_bytes *bytes);

/* The session's history of `tokens` tokens appears on the host, its open page's rows in the tail (open the slot in the device first). */
int kvl_bytes_open(struct kvl_bytes *bytes, kvl_request slot, uint64_t session, uint32_t tokens, struct kvl_err *err);
void kvl_bytes_close(struct kvl_bytes *bytes, kvl_request slot);

/* An item's step begins: which of its rows will stay, so that the others' bytes are told from theirs. */
void kvl_bytes_step(struct kvl_bytes *bytes, const struct kvl_step_item *item);
/* Rows of the step to the scratch; those of rejected drafts hold other bytes than the rows that will take their place. */
void kvl_bytes_written(struct kvl_bytes *bytes, kvl_request slot, uint32_t cache, kvl_row first, uint32_t count);
/* Part `part` of `parts` of each row (0 of 1: all of it) from the host. */
void kvl_bytes_fetch(struct kvl_bytes *bytes, kvl_request slot, uint32_t cache, const struct kvl_fetch *fetches, uint32_t count, uint32_t part,
                     uint32_t parts);
/* Where copies under way will land nothing can pass for a row until then: parts [part, parts) of the rows. */
void kvl_bytes_poison(struct kvl_bytes *bytes, uint32_t cache, const struct kvl_fetch *fetches, uint32_t count, uint32_t part, uint32_t parts);
void kvl_bytes_pages(struct kvl_bytes *bytes, const struct kvl_move *moves, uint32_t count); /* copies whole pages into their frames */
void kvl_bytes_commit(struct kvl_bytes *bytes, const struct kvl_step_item *item); /* accepted rows: scratch to tail, and the host copy */

/* Reads part `part` of `parts` of every selected row through its address, as attention would, and compares; -1 must stay -1. Counted once a row, by part 0. */
void kvl_bytes_check(struct kvl_bytes *bytes, kvl_request slot, uint32_t cache, const int32_t *rows, const kvl_addr *addresses, uint32_t lanes,
                     uint32_t part, uint32_t parts);
void kvl_bytes_checked(const struct kvl_bytes *bytes, uint64_t *rows, uint64_t *mismatches); /* added to */
/* The first mismatch of the lowest batch slot that has one, as a line; "" when there is none. */
void kvl_bytes_first_mismatch(const struct kvl_bytes *bytes, char *text, size_t size);

#endif
