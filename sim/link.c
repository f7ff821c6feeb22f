#include "sim/link.h"

#include <errno.h>
#include <stdlib.h>

int kvl_link_init(struct kvl_link_queue *queue, uint32_t capacity)
{
  *queue = (struct kvl_link_queue){.capacity = capacity, .copy = calloc(capacity, sizeof *queue->copy)};
  return queue->copy == NULL ? -ENOMEM : 0;
}

void kvl_link_deinit(struct kvl_link_queue *queue)
{
  free(queue->copy);
  queue->copy = NULL;
}

/* n x 10^9 / rate without overflow, rounded up. */
static uint64_t per_second(uint64_t n, uint64_t rate)
{
  __extension__ typedef unsigned __int128 u128;
  return rate == 0 ? 0 : (uint64_t)(((u128)n * 1000000000u + rate - 1) / rate);
}

uint64_t kvl_link_gather_ns(const struct kvl_link *link, uint64_t rows, uint64_t bytes, uint64_t range_bytes, bool *outside)
{
  uint64_t by_bytes = per_second(bytes, link->gather_bytes_per_s);
  uint64_t by_rows = per_second(rows, kvl_curve_at(&link->rows_per_s, range_bytes, outside));
  return link->gather_floor_ns + (by_bytes > by_rows ? by_bytes : by_rows);
}

uint64_t kvl_link_copy_ns(const struct kvl_link *link, uint64_t bytes)
{
  return link->copy_floor_ns + per_second(bytes, link->copy_bytes_per_s);
}

static struct kvl_link_copy *at_index(const struct kvl_link_queue *q, uint32_t i)
{
  return &q->copy[(q->head + i) % q->capacity];
}

/* Copies run alone until `to`. Those that end keep their time and stay in the ring, with nothing remaining, until popped. */
static void settle(struct kvl_link_queue *q, uint64_t to)
{
  uint64_t at = q->now_ns;
  for (uint32_t i = 0; i < q->count && at < to; i++) {
    struct kvl_link_copy *c = at_index(q, i);
    uint64_t run = c->remaining_ns < to - at ? c->remaining_ns : to - at;
    c->remaining_ns -= run;
    at += run;
  }
  q->now_ns = to > q->now_ns ? to : q->now_ns;
}

int kvl_link_copy(struct kvl_link_queue *q, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t tag)
{
  if (q->count == q->capacity) {
    return -EAGAIN;
  }
  settle(q, at);
  uint64_t start = q->now_ns;
  for (uint32_t i = 0; i < q->count; i++) {
    start += at_index(q, i)->remaining_ns;
  }
  *at_index(q, q->count++) = (struct kvl_link_copy){.tag = tag, .remaining_ns = service_ns, .done_ns = start + service_ns};
  q->busy_ns += service_ns;
  q->bytes += bytes;
  return 0;
}

uint64_t kvl_link_demand(struct kvl_link_queue *q, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t *wait_ns)
{
  settle(q, at);
  q->busy_ns += service_ns;
  q->bytes += bytes;
  /* While both are there each runs at half rate, so the demand is held up by what the copies get done meanwhile, and the copies by the same. */
  uint64_t shared = 0;
  for (uint32_t i = 0; i < q->count && shared < service_ns; i++) {
    struct kvl_link_copy *c = at_index(q, i);
    uint64_t run = c->remaining_ns < service_ns - shared ? c->remaining_ns : service_ns - shared;
    c->remaining_ns -= run;
    shared += run;
    if (c->remaining_ns == 0 && run != 0) {
      c->done_ns = at + 2 * shared;
    }
  }
  uint64_t end = at + service_ns + shared;
  q->now_ns = end;
  uint64_t done = end;
  for (uint32_t i = 0; i < q->count; i++) {
    struct kvl_link_copy *c = at_index(q, i);
    if (c->remaining_ns != 0) {
      done += c->remaining_ns;
      c->done_ns = done;
    }
  }
  *wait_ns = shared;
  return end;
}

uint64_t kvl_link_next_done(const struct kvl_link_queue *q)
{
  return q->count == 0 ? UINT64_MAX : q->copy[q->head].done_ns;
}

uint64_t kvl_link_pop(struct kvl_link_queue *q)
{
  uint64_t tag = q->copy[q->head].tag;
  q->head = (q->head + 1) % q->capacity;
  q->count--;
  return tag;
}
