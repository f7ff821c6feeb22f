#include "sim/events.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static bool before(const struct kvl_event *a, const struct kvl_event *b)
{
  return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->sequence < b->sequence;
}

int kvl_events_push(struct kvl_events *e, uint64_t time_ns, enum kvl_event_kind kind, uint32_t request, uint64_t id)
{
  if (e->count == e->capacity) {
    uint32_t capacity = e->capacity == 0 ? 256 : 2 * e->capacity;
    struct kvl_event *grown = realloc(e->heap, capacity * sizeof *grown);
    if (grown == NULL) {
      return -ENOMEM;
    }
    e->heap = grown;
    e->capacity = capacity;
  }
  struct kvl_event event = {.time_ns = time_ns, .sequence = e->sequence++, .kind = kind, .request = request, .id = id};
  uint32_t i = e->count++;
  while (i != 0 && before(&event, &e->heap[(i - 1) / 2])) {
    e->heap[i] = e->heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  e->heap[i] = event;
  return 0;
}

uint64_t kvl_events_next_ns(const struct kvl_events *e)
{
  return e->count == 0 ? UINT64_MAX : e->heap[0].time_ns;
}

struct kvl_event kvl_events_pop(struct kvl_events *e)
{
  struct kvl_event first = e->heap[0], last = e->heap[--e->count];
  uint32_t i = 0;
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= e->count) {
      break;
    }
    if (child + 1 < e->count && before(&e->heap[child + 1], &e->heap[child])) {
      child++;
    }
    if (!before(&e->heap[child], &last)) {
      break;
    }
    e->heap[i] = e->heap[child];
    i = child;
  }
  e->heap[i] = last;
  return first;
}

void kvl_events_deinit(struct kvl_events *e)
{
  free(e->heap);
  *e = (struct kvl_events){0};
}
