/* The engine's own future: a binary heap of events by (time, sequence), so that ties keep the order in which they were planned. */
#ifndef KVL_SIM_EVENTS_H
#define KVL_SIM_EVENTS_H

#include <stdint.h>

enum kvl_event_kind { KVL_EVENT_PREFILL_DONE, KVL_EVENT_TRANSFER_DONE, KVL_EVENT_TIMEOUT };

struct kvl_event {
  uint64_t time_ns, sequence;
  enum kvl_event_kind kind;
  uint32_t request; /* index of the engine's request */
  uint64_t id;      /* its number: indices are reused */
};

struct kvl_events {
  struct kvl_event *heap;
  uint32_t count, capacity;
  uint64_t sequence;
};

int kvl_events_push(struct kvl_events *events, uint64_t time_ns, enum kvl_event_kind kind, uint32_t request, uint64_t id); /* 0, -ENOMEM */
uint64_t kvl_events_next_ns(const struct kvl_events *events);                                                 /* UINT64_MAX: none */
struct kvl_event kvl_events_pop(struct kvl_events *events);                                                   /* not when empty */
void kvl_events_deinit(struct kvl_events *events);

#endif
