/* The host link of one GPU, one direction. Three kinds of traffic meet in it: bulk copies (the copy engine, one after the other), copies beside a step (a
 * kernel on its own stream, one after the other) and demand gathers (the resolve kernel; one at a time). Those that want the link at the same moment
 * share it evenly (processor sharing: copy engine and kernels' reads meet in the same PCIe queue; nobody is held up by all of another's work).
 *
 * Service times come from the measured law (struct kvl_link): t = floor + max(bytes / bandwidth, rows / rate(range)); those of gathers from its table where the
 * descriptor has one (kvloan calibrate). */
#ifndef KVL_SIM_LINK_H
#define KVL_SIM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/model.h"

struct kvl_link_copy {
  uint64_t tag;
  uint64_t remaining_ns; /* service left at the link's full rate */
  uint64_t from_ns;      /* it waits until then, and its lane with it */
  uint64_t done_ns;      /* when it ends, as known now */
};

enum kvl_link_lane { KVL_LINK_BULK, KVL_LINK_BESIDE, KVL_LINK_LANES };
enum { KVL_LINK_BESIDE_MAX = 1024 }; /* copies beside a step */

struct kvl_link_queue {
  struct kvl_link_ring {
    struct kvl_link_copy *copy;
    uint32_t head, count, capacity;
    uint32_t ended;           /* copies from `head` on that have nothing remaining */
  } lane[KVL_LINK_LANES];
  uint64_t now_ns;            /* the queue is settled up to here */
  uint64_t busy_ns, bytes;
};

int kvl_link_init(struct kvl_link_queue *queue, uint32_t bulk_capacity); /* -ENOMEM */
void kvl_link_deinit(struct kvl_link_queue *queue);

uint64_t kvl_link_gather_ns(const struct kvl_link *link, uint64_t rows, uint64_t bytes, uint64_t range_bytes, bool *outside);
/* The same by a look-up, for the rows that it misses. */
uint64_t kvl_link_fetch_ns(const struct kvl_link *link, uint64_t rows, uint64_t bytes, uint64_t range_bytes, bool *outside);
uint64_t kvl_link_copy_ns(const struct kvl_link *link, uint64_t bytes);
uint64_t kvl_link_to_host_ns(const struct kvl_link *link, uint64_t bytes); /* the other way */
/* Bytes in pieces of `piece` bytes each by the kernel that copies pages, at the measured rate of such pieces (there is one), without the constant of a copy. */
uint64_t kvl_link_pieces_ns(const struct kvl_link *link, uint64_t piece, uint64_t bytes);

/* A copy joins its lane at time `at`. -EAGAIN when the ring is full. _from: and waits for something until `from_ns`. */
int kvl_link_copy_from(struct kvl_link_queue *queue, enum kvl_link_lane lane, uint64_t at, uint64_t from_ns, uint64_t service_ns, uint64_t bytes, uint64_t tag);
int kvl_link_copy(struct kvl_link_queue *queue, enum kvl_link_lane lane, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t tag);

/* A demand transfer of `service_ns` begins at `at`: returns when it ends; *wait_ns of that is due to sharing. */
uint64_t kvl_link_demand(struct kvl_link_queue *queue, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t *wait_ns);

/* The same while `other`, the link's other direction, may have copies beside: as long as it has, the demand's pace is 1,000 / permille of its own and that of the other's
 * lanes is 1,000 / other_permille (both at least 1,000). */
uint64_t kvl_link_demand_against(struct kvl_link_queue *queue, struct kvl_link_queue *other, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t permille,
                                 uint64_t other_permille, uint64_t *wait_ns);

/* When the copy beside the step with this tag ends, if nothing else happens; 0: there is none. */
uint64_t kvl_link_beside_done(const struct kvl_link_queue *queue, uint64_t tag);
void kvl_link_beside_retire(struct kvl_link_queue *queue, uint64_t now_ns); /* forgets those that have ended by then */
void kvl_link_beside_clear(struct kvl_link_queue *queue); /* forgets them: all have been waited for */

/* When the oldest bulk copy still in the queue ends, if nothing else happens; UINT64_MAX: none. */
uint64_t kvl_link_next_done(const struct kvl_link_queue *queue);
/* Removes the oldest bulk copy and returns its tag. */
uint64_t kvl_link_pop(struct kvl_link_queue *queue);

#endif
