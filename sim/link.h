/* The host link of one GPU, one direction: bulk copies queue in order, and share the link half and half with a demand gather while both
 * want it (processor sharing: the copy engine and the resolve kernel's reads meet in the same PCIe queue; neither is held up by all of the other).
 *
 * Service times come from the measured law (struct kvl_link): t = floor + max(bytes / bandwidth, rows / rate(range)). */
#ifndef KVL_SIM_LINK_H
#define KVL_SIM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/model.h"

struct kvl_link_copy {
  uint64_t tag;
  uint64_t remaining_ns; /* service left at the link's full rate */
  uint64_t done_ns;      /* when it ends, as known now */
};

struct kvl_link_queue {
  struct kvl_link_copy *copy; /* ring */
  uint32_t head, count, capacity;
  uint64_t now_ns;            /* the queue is settled up to here */
  uint64_t busy_ns, bytes;
};

int kvl_link_init(struct kvl_link_queue *queue, uint32_t capacity); /* -ENOMEM */
void kvl_link_deinit(struct kvl_link_queue *queue);

uint64_t kvl_link_gather_ns(const struct kvl_link *link, uint64_t rows, uint64_t bytes, uint64_t range_bytes, bool *outside);
uint64_t kvl_link_copy_ns(const struct kvl_link *link, uint64_t bytes);

/* A bulk copy joins the queue at time `at`. -EAGAIN when the ring is full. */
int kvl_link_copy(struct kvl_link_queue *queue, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t tag);

/* A demand transfer of `service_ns` begins at `at`: returns when it ends; *wait_ns of that is due to sharing. */
uint64_t kvl_link_demand(struct kvl_link_queue *queue, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t *wait_ns);

/* When the oldest copy still in the queue ends, if nothing else happens; UINT64_MAX: none. */
uint64_t kvl_link_next_done(const struct kvl_link_queue *queue);
/* Removes the oldest copy and returns its tag. */
uint64_t kvl_link_pop(struct kvl_link_queue *queue);

#endif
