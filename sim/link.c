#include "sim/link.h"

#include <errno.h>
#include <stdlib.h>

int kvl_link_init(struct kvl_link_queue *q, uint32_t bulk_capacity)
{
  static const uint32_t beside = KVL_LINK_BESIDE_MAX;
  *q = (struct kvl_link_queue){.lane = {[KVL_LINK_BULK] = {.capacity = bulk_capacity}, [KVL_LINK_BESIDE] = {.capacity = beside}}};
  for (int l = 0; l < KVL_LINK_LANES; l++) {
    q->lane[l].copy = calloc(q->lane[l].capacity, sizeof *q->lane[l].copy);
  }
  return q->lane[KVL_LINK_BULK].copy == NULL || q->lane[KVL_LINK_BESIDE].copy == NULL ? -ENOMEM : 0;
}

void kvl_link_deinit(struct kvl_link_queue *q)
{
  for (int l = 0; l < KVL_LINK_LANES; l++) {
    free(q->lane[l].copy);
    q->lane[l].copy = NULL;
  }
}

/* n x 10^9 / rate without overflow, rounded up. */
static uint64_t per_second(uint64_t n, uint64_t rate)
{
  __extension__ typedef unsigned __int128 u128;
  return rate == 0 ? 0 : (uint64_t)(((u128)n * 1000000000u + rate - 1) / rate);
}

__extension__ typedef unsigned __int128 wide;

/* y0 + (y1 - y0) x part / whole, rounded to the nearest; part <= whole. */
static uint64_t between(uint64_t y0, uint64_t y1, uint64_t part, uint64_t whole)
{
  uint64_t far = y1 > y0 ? y1 - y0 : y0 - y1, move = whole == 0 ? 0 : (uint64_t)(((wide)far * part + whole / 2) / whole);
  return y1 > y0 ? y0 + move : y0 - move;
}

/* The index of the last point at or below x, or of the last but one. */
static uint32_t below(const uint64_t *axis, uint32_t n, uint64_t x)
{
  uint32_t i = 0;
  while (i + 2 < n && axis[i + 1] <= x) {
    i++;
  }
  return i;
}

/* The logarithm to base 2 with 20 binary places, linear between powers of two: exact where it matters, and the same on every machine. */
static uint64_t logarithm(uint64_t x)
{
  uint32_t whole = 0;
  for (uint64_t rest = x; rest > 1; rest >>= 1) {
    whole++;
  }
  uint64_t over = x == 0 ? 0 : x - (UINT64_C(1) << whole);
  return ((uint64_t)whole << 20) + (uint64_t)(((wide)over << 20) >> whole);
}

static uint64_t by_rows(const struct kvl_gather_table *t, uint32_t size, uint32_t range, uint64_t rows)
{
  const uint64_t *ns = t->ns + ((uint64_t)size * t->ranges + range) * t->counts, *x = t->rows;
  if (rows <= x[0] || t->counts == 1) {
    return t->counts == 1 && rows > x[0] ? (uint64_t)((wide)ns[0] * rows / x[0]) : ns[0];
  }
  uint32_t i = below(x, t->counts, rows);
  if (rows <= x[i + 1]) {
    return between(ns[i], ns[i + 1], rows - x[i], x[i + 1] - x[i]);
  }
  return ns[i + 1] + (uint64_t)((wide)(ns[i + 1] - ns[i]) * (rows - x[i + 1]) / (x[i + 1] - x[i]));
}

static uint64_t by_range(const struct kvl_gather_table *t, uint32_t size, uint64_t range, uint64_t rows)
{
  const uint64_t *x = t->range_bytes;
  if (range <= x[0] || t->ranges == 1) {
    return by_rows(t, size, 0, rows);
  }
  if (range >= x[t->ranges - 1]) {
    return by_rows(t, size, t->ranges - 1, rows);
  }
  uint32_t i = below(x, t->ranges, range);
  uint64_t from = logarithm(x[i]);
  return between(by_rows(t, size, i, rows), by_rows(t, size, i + 1, rows), logarithm(range) - from, logarithm(x[i + 1]) - from);
}

static uint64_t table_ns(const struct kvl_gather_table *t, uint64_t rows, uint64_t bytes, uint64_t range, bool *outside)
{
  const uint64_t *x = t->row_bytes;
  uint64_t row_bytes = bytes / rows, largest = x[t->sizes - 1];
  if (outside != NULL && range > t->range_bytes[t->ranges - 1]) { /* over a smaller range than the least a gather is no slower: nothing is extrapolated */
    *outside = true;
  }
  if (row_bytes > largest) {
    return by_range(t, t->sizes - 1, range, (bytes + largest - 1) / largest);
  }
  if (row_bytes <= x[0] || t->sizes == 1) {
    return by_range(t, 0, range, rows);
  }
  uint32_t i = below(x, t->sizes, row_bytes);
  return between(by_range(t, i, range, rows), by_range(t, i + 1, range, rows), row_bytes - x[i], x[i + 1] - x[i]);
}

uint64_t kvl_link_gather_ns(const struct kvl_link *link, uint64_t rows, uint64_t bytes, uint64_t range_bytes, bool *outside)
{
  if (link->gathers.counts != 0 && rows != 0) {
    return table_ns(&link->gathers, rows, bytes, range_bytes, outside);
  }
  uint64_t by_bytes = per_second(bytes, link->gather_bytes_per_s);
  const struct kvl_curve *rate = &link->rows_per_s;
  if (outside != NULL && rate->n != 0 && range_bytes > rate->x[rate->n - 1]) {
    *outside = true;
  }
  uint64_t by_rows = per_second(rows, kvl_curve_at(rate, range_bytes, NULL));
  return link->gather_floor_ns + (by_bytes > by_rows ? by_bytes : by_rows);
}

uint64_t kvl_link_fetch_ns(const struct kvl_link *link, uint64_t rows, uint64_t bytes, uint64_t range_bytes, bool *outside)
{
  uint64_t ns = kvl_link_gather_ns(link, rows, bytes, range_bytes, outside);
  return link->fetch_permille.n == 0 ? ns : (uint64_t)((wide)ns * kvl_curve_at(&link->fetch_permille, rows, NULL) / 1000);
}

uint64_t kvl_link_copy_ns(const struct kvl_link *link, uint64_t bytes)
{
  return link->copy_floor_ns + per_second(bytes, link->copy_bytes_per_s);
}

uint64_t kvl_link_to_host_ns(const struct kvl_link *link, uint64_t bytes)
{
  return link->copy_floor_ns + per_second(bytes, link->to_host_bytes_per_s == 0 ? link->copy_bytes_per_s : link->to_host_bytes_per_s);
}

uint64_t kvl_link_pieces_ns(const struct kvl_link *link, uint64_t piece, uint64_t bytes)
{
  const struct kvl_curve *c = &link->pages_bytes_per_s;
  piece = piece < c->x[0] ? c->x[0] : piece > c->x[c->n - 1] ? c->x[c->n - 1] : piece;
  return per_second(bytes, kvl_curve_at(c, piece, NULL));
}

static struct kvl_link_copy *at_index(const struct kvl_link_ring *r, uint32_t i)
{
  return &r->copy[(r->head + i) % r->capacity];
}

/* The copy that its lane works on, or NULL. Ended ones keep their time and stay in the ring until they are taken out. */
static struct kvl_link_copy *running(struct kvl_link_ring *r)
{
  while (r->ended < r->count && at_index(r, r->ended)->remaining_ns == 0) {
    r->ended++;
  }
  return r->ended < r->count ? at_index(r, r->ended) : NULL;
}

/* The lanes work from `at` on, beside a demand of *demand_ns that has the same share (0: none), until `to` or until the demand is met. Returns when; what is left
 * of the demand stays in *demand_ns. */
static uint64_t work(struct kvl_link_queue *q, uint64_t at, uint64_t to, uint64_t *demand_ns)
{
  bool demand = *demand_ns != 0;
  while (at < to && (!demand || *demand_ns != 0)) {
    uint64_t sharers = demand, step = demand ? *demand_ns : UINT64_MAX, until = to;
    struct kvl_link_copy *head[KVL_LINK_LANES];
    for (int l = 0; l < KVL_LINK_LANES; l++) {
      head[l] = running(&q->lane[l]);
      if (head[l] != NULL && head[l]->from_ns > at) {
        until = head[l]->from_ns < until ? head[l]->from_ns : until;
        head[l] = NULL;
      }
      sharers += head[l] != NULL;
      step = head[l] != NULL && head[l]->remaining_ns < step ? head[l]->remaining_ns : step;
    }
    if (sharers == 0) {
      at = until;
      continue;
    }
    step = step < (until - at) / sharers ? step : (until - at) / sharers;
    uint64_t odd = step == 0 ? until - at : 0; /* what is left of the time does not part evenly: the first has it */
    at += odd != 0 ? odd : step * sharers;
    for (int l = 0; l < KVL_LINK_LANES; l++) {
      if (head[l] != NULL) {
        uint64_t run = odd != 0 ? odd : step;
        head[l]->remaining_ns -= run;
        head[l]->done_ns = head[l]->remaining_ns == 0 ? at : head[l]->done_ns;
        if (odd != 0) {
          break;
        }
      }
    }
    *demand_ns -= demand ? step : 0;
  }
  return at;
}

/* The lanes run until `to`. */
static void settle(struct kvl_link_queue *q, uint64_t to)
{
  if (to > q->now_ns) {
    uint64_t none = 0;
    (void)work(q, q->now_ns, to, &none);
    q->now_ns = to;
  }
}

/* When everything in the lanes ends, if nothing else happens. */
static void predict(struct kvl_link_queue *q)
{
  uint32_t next[KVL_LINK_LANES];
  uint64_t left[KVL_LINK_LANES] = {0}, at = q->now_ns;
  for (int l = 0; l < KVL_LINK_LANES; l++) {
    struct kvl_link_copy *c = running(&q->lane[l]);
    next[l] = q->lane[l].ended;
    left[l] = c == NULL ? 0 : c->remaining_ns;
  }
  while (left[KVL_LINK_BULK] != 0 || left[KVL_LINK_BESIDE] != 0) {
    uint64_t least = UINT64_MAX, until = UINT64_MAX, sharers = 0;
    bool runs[KVL_LINK_LANES];
    for (int l = 0; l < KVL_LINK_LANES; l++) {
      uint64_t from = left[l] == 0 ? 0 : at_index(&q->lane[l], next[l])->from_ns;
      runs[l] = left[l] != 0 && from <= at;
      until = left[l] != 0 && from > at && from < until ? from : until;
      least = runs[l] && left[l] < least ? left[l] : least;
      sharers += runs[l];
    }
    uint64_t step = sharers == 0 ? 0 : least < (until - at) / sharers ? least : (until - at) / sharers;
    at = step == 0 ? until : at + step * sharers; /* a nanosecond that does not part evenly is nobody's here */
    for (int l = 0; l < KVL_LINK_LANES; l++) {
      if (!runs[l] || (left[l] -= step) != 0) {
        continue;
      }
      at_index(&q->lane[l], next[l]++)->done_ns = at;
      while (next[l] < q->lane[l].count && (left[l] = at_index(&q->lane[l], next[l])->remaining_ns) == 0) {
        at_index(&q->lane[l], next[l]++)->done_ns = at;
      }
    }
  }
}

int kvl_link_copy(struct kvl_link_queue *q, enum kvl_link_lane lane, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t tag)
{
  return kvl_link_copy_from(q, lane, at, 0, service_ns, bytes, tag);
}

int kvl_link_copy_from(struct kvl_link_queue *q, enum kvl_link_lane lane, uint64_t at, uint64_t from_ns, uint64_t service_ns, uint64_t bytes, uint64_t tag)
{
  struct kvl_link_ring *r = &q->lane[lane];
  if (r->count == r->capacity) {
    return -EAGAIN;
  }
  settle(q, at);
  *at_index(r, r->count++) = (struct kvl_link_copy){.tag = tag, .remaining_ns = service_ns, .from_ns = from_ns, .done_ns = q->now_ns};
  q->busy_ns += service_ns;
  q->bytes += bytes;
  predict(q);
  return 0;
}

uint64_t kvl_link_demand(struct kvl_link_queue *q, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t *wait_ns)
{
  settle(q, at);
  q->busy_ns += service_ns;
  q->bytes += bytes;
  uint64_t left = service_ns, end = service_ns == 0 ? at : work(q, at, UINT64_MAX, &left);
  q->now_ns = end;
  predict(q);
  *wait_ns = end - at - service_ns;
  return end;
}

static uint64_t stretched(uint64_t ns, uint64_t permille)
{
  return (uint64_t)((wide)ns * permille / 1000);
}

static uint64_t shrunk(uint64_t ns, uint64_t permille)
{
  return (uint64_t)((wide)ns * 1000 / permille);
}

/* The lanes run from `from` to `to` at 1,000 / permille of their pace. */
static void run_slowly(struct kvl_link_queue *q, uint64_t from, uint64_t to, uint64_t permille)
{
  uint64_t none = 0;
  (void)work(q, from, from + shrunk(to - from, permille), &none);
  for (int l = 0; l < KVL_LINK_LANES; l++) {
    for (uint32_t i = 0; i < q->lane[l].count; i++) {
      struct kvl_link_copy *c = at_index(&q->lane[l], i);
      if (c->remaining_ns == 0 && c->done_ns > from) {
        c->done_ns = from + stretched(c->done_ns - from, permille);
      }
    }
  }
  q->now_ns = to;
  predict(q);
}

/* The last moment at which a copy beside is still to end, or 0. */
static uint64_t beside_end(const struct kvl_link_queue *q)
{
  const struct kvl_link_ring *r = &q->lane[KVL_LINK_BESIDE];
  return r->count == 0 ? 0 : r->copy[(r->head + r->count - 1) % r->capacity].done_ns;
}

uint64_t kvl_link_demand_against(struct kvl_link_queue *q, struct kvl_link_queue *other, uint64_t at, uint64_t service_ns, uint64_t bytes, uint64_t permille,
                                 uint64_t other_permille, uint64_t *wait_ns)
{
  settle(other, at);
  uint64_t busy_until = beside_end(other);
  if (busy_until <= at || other->now_ns > at || service_ns == 0) {
    return kvl_link_demand(q, at, service_ns, bytes, wait_ns);
  }
  settle(q, at);
  q->busy_ns += service_ns;
  q->bytes += bytes;
  uint64_t left = stretched(service_ns, permille), both_until = at + stretched(busy_until - at, other_permille);
  uint64_t end = work(q, at, both_until, &left);
  run_slowly(other, at, end, other_permille);
  left = shrunk(left, permille);
  end = left == 0 ? end : work(q, end, UINT64_MAX, &left);
  q->now_ns = end;
  predict(q);
  *wait_ns = end - at - service_ns;
  return end;
}

uint64_t kvl_link_beside_done(const struct kvl_link_queue *q, uint64_t tag)
{
  const struct kvl_link_ring *r = &q->lane[KVL_LINK_BESIDE];
  for (uint32_t i = 0; i < r->count; i++) {
    if (at_index(r, i)->tag == tag) {
      return at_index(r, i)->done_ns;
    }
  }
  return 0;
}

void kvl_link_beside_retire(struct kvl_link_queue *q, uint64_t now_ns)
{
  struct kvl_link_ring *r = &q->lane[KVL_LINK_BESIDE];
  settle(q, now_ns);
  while (running(r), r->ended != 0) {
    r->head = (r->head + 1) % r->capacity;
    r->count--;
    r->ended--;
  }
}

void kvl_link_beside_clear(struct kvl_link_queue *q)
{
  struct kvl_link_ring *r = &q->lane[KVL_LINK_BESIDE];
  r->head = r->count = r->ended = 0;
}

uint64_t kvl_link_next_done(const struct kvl_link_queue *q)
{
  const struct kvl_link_ring *r = &q->lane[KVL_LINK_BULK];
  return r->count == 0 ? UINT64_MAX : r->copy[r->head].done_ns;
}

uint64_t kvl_link_pop(struct kvl_link_queue *q)
{
  struct kvl_link_ring *r = &q->lane[KVL_LINK_BULK];
  uint64_t tag = r->copy[r->head].tag;
  r->head = (r->head + 1) % r->capacity;
  r->count--;
  r->ended -= r->ended != 0;
  return tag;
}
