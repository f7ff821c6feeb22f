#include "traces/trace_codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORM_ANY, FORM_ASCENDING, FORM_FROM_REFERENCE };
enum { FLAG_BOUNDARY = 1, FLAG_POOLS = 2 };
#define NO_REFERENCE UINT32_MAX

/* How many rows of a point's cache, or blocks of a pool, a query with this boundary sees: a row must be complete, a block need only begin. */
static uint32_t items_seen(const struct kvl_trace_meta *meta, uint32_t kind, uint32_t boundary)
{
  uint32_t points = meta->shape.points, cache, rows, per_block;
  if (kind < points)
    return boundary / meta->shape.tokens_per_row[meta->shape.point[kind].cache];
  cache = meta->pool[kind - points].cache;
  per_block = meta->pool[kind - points].rows_per_block;
  rows = boundary / meta->shape.tokens_per_row[cache];
  return rows / per_block + (rows % per_block != 0);
}

static uint32_t items_max(const struct kvl_trace_meta *meta, uint32_t kind)
{
  uint32_t points = meta->shape.points;
  return kind < points ? meta->shape.point[kind].k : meta->pool[kind - points].blocks_max;
}

/* ---- writing ---- */

int kvl_trace_encoder_init(struct kvl_trace_encoder *e, const struct kvl_trace_meta *meta)
{
  uint32_t kinds = meta->shape.points + meta->pools;
  memset(e, 0, sizeof(*e));
  e->meta = meta;
  e->previous = calloc(kinds, sizeof(*e->previous));
  e->previous_count = malloc(kinds * sizeof(*e->previous_count));
  if (!e->previous || !e->previous_count) {
    kvl_trace_encoder_deinit(e);
    return -ENOMEM;
  }
  kvl_trace_encoder_reset(e);
  return 0;
}

void kvl_trace_encoder_deinit(struct kvl_trace_encoder *e)
{
  if (e->previous) {
    for (uint32_t i = 0; i < e->meta->shape.points + e->meta->pools; i++)
      free(e->previous[i]);
  }
  free(e->previous);
  free(e->previous_count);
  free(e->bytes);
  free(e->scratch);
  memset(e, 0, sizeof(*e));
}

void kvl_trace_encoder_reset(struct kvl_trace_encoder *e)
{
  e->count = 0;
  e->steps = e->items = 0;
  for (uint32_t i = 0; i < e->meta->shape.points + e->meta->pools; i++)
    e->previous_count[i] = NO_REFERENCE;
}

static int reserve(struct kvl_trace_encoder *e, size_t more)
{
  size_t capacity = e->capacity ? e->capacity : 4096;
  uint8_t *grown;
  if (e->capacity - e->count >= more)
    return 0;
  while (capacity - e->count < more)
    capacity *= 2;
  grown = realloc(e->bytes, capacity);
  if (!grown)
    return -ENOMEM;
  e->bytes = grown;
  e->capacity = capacity;
  return 0;
}

static void put_varint(struct kvl_trace_encoder *e, uint32_t x)
{
  while (x >= 128) {
    e->bytes[e->count++] = (uint8_t)(x | 128);
    x >>= 7;
  }
  e->bytes[e->count++] = (uint8_t)x;
}

static void put_gaps(struct kvl_trace_encoder *e, const int32_t *item, uint32_t count)
{
  uint32_t last = 0;
  for (uint32_t i = 0; i < count; i++) {
    put_varint(e, (uint32_t)item[i] - last);
    last = (uint32_t)item[i] + 1;
  }
}

static int compare_items(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Room for twice `count` items in `scratch`. */
static int reserve_scratch(struct kvl_trace_encoder *e, uint32_t count)
{
  int32_t *grown;
  if (e->scratch_capacity >= 2 * (size_t)count)
    return 0;
  grown = realloc(e->scratch, 2 * (size_t)count * sizeof(*grown));
  if (!grown)
    return -ENOMEM;
  e->scratch = grown;
  e->scratch_capacity = 2 * (size_t)count;
  return 0;
}

/* Checks a list of items below `seen`: 1 ascending, 0 distinct in another order, negative: broken, with a reason. */
static int check_list(struct kvl_trace_encoder *e, const struct kvl_trace_list *list, uint32_t kind, uint32_t query, uint32_t seen,
                      char reason[256])
{
  uint32_t points = e->meta->shape.points;
  const char *what = kind < points ? "point" : "pool";
  uint32_t number = kind < points ? kind : kind - points;
  bool ascending = true;
  if (list->count > items_max(e->meta, kind)) {
    snprintf(reason, 256, "%s %u, query %u: %u items, at most %u are possible", what, number, query, list->count, items_max(e->meta, kind));
    return -EINVAL;
  }
  for (uint32_t i = 0; i < list->count; i++) {
    if (list->item[i] < 0 || (uint32_t)list->item[i] >= seen) {
      snprintf(reason, 256, "%s %u, query %u: item %u is %d, the query sees %u", what, number, query, i, list->item[i], seen);
      return -EINVAL;
    }
    ascending = ascending && (i == 0 || list->item[i] > list->item[i - 1]);
  }
  if (ascending)
    return 1;
  if (reserve_scratch(e, list->count))
    return -ENOMEM;
  memcpy(e->scratch, list->item, list->count * sizeof(*list->item));
  qsort(e->scratch, list->count, sizeof(*e->scratch), compare_items);
  for (uint32_t i = 1; i < list->count; i++) {
    if (e->scratch[i] == e->scratch[i - 1]) {
      snprintf(reason, 256, "%s %u, query %u: item %d is there twice", what, number, query, e->scratch[i]);
      return -EINVAL;
    }
  }
  return 0;
}

/* Tells `list` from `reference` if that is shorter; true when it did. Both ascend. */
static bool put_from_reference(struct kvl_trace_encoder *e, const struct kvl_trace_list *list, const int32_t *reference, uint32_t reference_count)
{
  size_t start = e->count, bitmap;
  uint32_t kept = 0, added = 0, i = 0;
  put_varint(e, list->count << 2 | FORM_FROM_REFERENCE);
  bitmap = e->count;
  memset(e->bytes + bitmap, 0, (reference_count + 7) / 8);
  for (uint32_t r = 0; r < reference_count; r++) {
    while (i < list->count && list->item[i] < reference[r])
      e->scratch[added++] = list->item[i++];
    if (i < list->count && list->item[i] == reference[r]) {
      e->bytes[bitmap + r / 8] = (uint8_t)(e->bytes[bitmap + r / 8] | 1u << r % 8);
      kept++;
      i++;
    }
  }
  if (kept <= reference_count / 8) { /* each item kept saves a byte or more, the bitmap costs an eighth */
    e->count = start;
    return false;
  }
  while (i < list->count)
    e->scratch[added++] = list->item[i++];
  e->count = bitmap + (reference_count + 7) / 8;
  put_gaps(e, e->scratch, added);
  return true;
}

static int put_list(struct kvl_trace_encoder *e, const struct kvl_trace_list *list, bool ascending, const int32_t *reference,
                    uint32_t reference_count)
{
  if (reserve(e, 10 + 5 * (size_t)list->count + (reference_count == NO_REFERENCE ? 0 : reference_count / 8 + 1)) ||
      reserve_scratch(e, list->count))
    return -ENOMEM;
  if (ascending) {
    if (reference_count == NO_REFERENCE || reference_count == 0 || !put_from_reference(e, list, reference, reference_count)) {
      put_varint(e, list->count << 2 | FORM_ASCENDING);
      put_gaps(e, list->item, list->count);
    }
  } else {
    int32_t last = 0;
    put_varint(e, list->count << 2 | FORM_ANY);
    for (uint32_t i = 0; i < list->count; i++) {
      int32_t difference = list->item[i] - last; /* both in 0 .. INT32_MAX */
      put_varint(e, (uint32_t)difference << 1 ^ (difference < 0 ? UINT32_MAX : 0));
      last = list->item[i];
    }
  }
  e->items += list->count;
  return 0;
}

/* The lists of one point or pool: `kind` counts points first, then pools. */
static int put_lists(struct kvl_trace_encoder *e, const struct kvl_trace_step *step, uint32_t kind, char reason[256])
{
  uint32_t points = e->meta->shape.points;
  const struct kvl_trace_list *lists = kind < points ? step->selected + (size_t)kind * step->queries
                                                     : step->pool + (size_t)(kind - points) * step->queries;
  const int32_t *reference = e->previous[kind];
  uint32_t reference_count = e->previous_count[kind];

  for (uint32_t q = 0; q < step->queries; q++) {
    uint32_t boundary = step->boundary ? step->boundary[q] : step->tokens;
    int ascending = check_list(e, &lists[q], kind, q, items_seen(e->meta, kind, boundary), reason);
    if (ascending < 0)
      return ascending;
    if (put_list(e, &lists[q], ascending, reference, reference_count))
      return -ENOMEM;
    reference = lists[q].item;
    reference_count = ascending ? lists[q].count : NO_REFERENCE;
    if (q == 0) { /* kept as the reference of the next step */
      int32_t *copy = realloc(e->previous[kind], (lists[q].count + 1) * sizeof(*copy));
      if (!copy)
        return -ENOMEM;
      if (lists[q].count > 0)
        memcpy(copy, lists[q].item, lists[q].count * sizeof(*copy));
      e->previous[kind] = copy;
      e->previous_count[kind] = reference_count;
    }
  }
  return 0;
}

/* NULL, or what is wrong with the numbers of a step. */
static const char *step_wrong(uint32_t tokens, uint32_t queries, const uint32_t *boundary)
{
  if (tokens > KVL_TRACE_TOKENS_MAX)
    return "more committed tokens than a session may have";
  if (queries == 0)
    return "a step without queries";
  if (queries > KVL_TRACE_QUERIES_MAX)
    return "more queries than a step may have";
  for (uint32_t q = 0; boundary && q < queries; q++) {
    if (boundary[q] < tokens || boundary[q] - tokens > KVL_TRACE_QUERIES_MAX)
      return "a query's boundary is below the committed tokens or too far above them";
  }
  return NULL;
}

int kvl_trace_encoder_add(struct kvl_trace_encoder *e, const struct kvl_trace_step *step, char reason[256])
{
  const struct kvl_trace_meta *meta = e->meta;
  const char *wrong = step_wrong(step->tokens, step->queries, step->boundary);
  uint32_t pools = step->pool ? meta->pools : 0, before = e->items;
  uint64_t items = 0;
  int code;

  if (!wrong && step->pool && meta->pools == 0)
    wrong = "candidate pools in a trace that has none";
  if (!wrong && e->steps > 0 && step->tokens < e->last_tokens)
    wrong = "fewer committed tokens than in the step before";
  for (uint32_t i = 0; !wrong && i < meta->shape.points * step->queries; i++)
    items += step->selected[i].count;
  for (uint32_t i = 0; !wrong && i < pools * step->queries; i++)
    items += step->pool[i].count;
  if (wrong) {
    snprintf(reason, 256, "%s", wrong);
    return -EINVAL;
  }
  if (items > KVL_TRACE_STEP_ITEMS_MAX) {
    snprintf(reason, 256, "%llu rows and blocks in one step, at most %d are possible", (unsigned long long)items, KVL_TRACE_STEP_ITEMS_MAX);
    return -EFBIG;
  }
  if (reserve(e, 15 + 5 * (size_t)step->queries))
    return -ENOMEM;
  put_varint(e, e->steps > 0 ? step->tokens - e->last_tokens : step->tokens);
  put_varint(e, step->queries);
  put_varint(e, (step->boundary ? FLAG_BOUNDARY : 0) | (step->pool ? FLAG_POOLS : 0));
  for (uint32_t q = 0; step->boundary && q < step->queries; q++)
    put_varint(e, step->boundary[q] - step->tokens);
  for (uint32_t kind = 0; kind < meta->shape.points + pools; kind++) {
    code = put_lists(e, step, kind, reason);
    if (code)
      return code;
  }
  for (uint32_t kind = meta->shape.points + pools; kind < meta->shape.points + meta->pools; kind++)
    e->previous_count[kind] = NO_REFERENCE;
  e->last_tokens = step->tokens;
  e->steps++;
  return e->items - before == items ? 0 : -EINVAL;
}

/* ---- reading ---- */

struct decoder {
  const struct kvl_trace_meta *meta;
  const uint8_t *p, *end;
  const char *reason;
  struct kvl_trace_chunk *chunk;
  uint32_t boundary_capacity, list_capacity;
  uint32_t reference[KVL_POINTS_MAX + KVL_TRACE_POOLS_MAX]; /* list of query 0 in the step before; NO_REFERENCE: none, or not ascending */
};

static uint32_t get_varint(struct decoder *d)
{
  uint32_t x = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    uint8_t byte;
    if (d->p == d->end) {
      d->reason = "the bytes end in the middle of a number";
      return 0;
    }
    byte = *d->p++;
    if (shift == 28 && byte > 15)
      break;
    x |= (uint32_t)(byte & 127) << shift;
    if (byte < 128)
      return x;
  }
  d->reason = "a number is longer than 32 bits";
  return 0;
}

/* Reads `count` ascending items below `limit`. */
static void get_gaps(struct decoder *d, int32_t *item, uint32_t count, uint32_t limit)
{
  uint64_t next = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (d->p < d->end && *d->p < 128)
      next += *d->p++;
    else
      next += get_varint(d);
    if (next >= limit || d->reason) {
      d->reason = d->reason ? d->reason : "an item lies past what its query sees";
      return;
    }
    item[i] = (int32_t)next++;
  }
}

/* Merges what stays of the reference with the `added` new items that stand at the end of the list's place. */
static void get_from_reference(struct decoder *d, int32_t *item, uint32_t count, const int32_t *reference, uint32_t reference_count, uint32_t limit)
{
  const uint8_t *bitmap = d->p;
  uint32_t bytes = (reference_count + 7) / 8, kept = 0, added, n = 0, i;
  int32_t *fresh;
  if ((size_t)(d->end - d->p) < bytes) {
    d->reason = "the bytes end in the middle of a bitmap";
    return;
  }
  if (reference_count % 8 && bitmap[bytes - 1] >> reference_count % 8) {
    d->reason = "a bitmap has bits past its reference";
    return;
  }
  d->p += bytes;
  for (uint32_t b = 0; b < bytes; b++)
    kept += (uint32_t)__builtin_popcount(bitmap[b]);
  if (kept > count) {
    d->reason = "a bitmap keeps more items than the list has";
    return;
  }
  added = count - kept;
  fresh = item + kept; /* written from the front, the new ones are read before they are overtaken: n <= kept + those taken */
  get_gaps(d, fresh, added, limit);
  if (d->reason)
    return;
  i = 0;
  for (uint32_t r = 0; r < reference_count; r++) {
    if (!(bitmap[r / 8] >> r % 8 & 1))
      continue;
    while (i < added && fresh[i] < reference[r])
      item[n++] = fresh[i++];
    if ((i < added && fresh[i] == reference[r]) || (uint32_t)reference[r] >= limit) {
      d->reason = i < added && fresh[i] == reference[r] ? "an item is there twice" : "an item lies past what its query sees";
      return;
    }
    item[n++] = reference[r];
  }
  /* What is left of the new ones already stands in place. */
}

/* Items in any order: within the limit, and distinct. */
static void get_any(struct decoder *d, int32_t *item, uint32_t count, uint32_t limit)
{
  uint32_t last = 0;
  int32_t *sorted;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t z = get_varint(d);
    last += z >> 1 ^ (z & 1 ? UINT32_MAX : 0);
    if (d->reason || last >= limit) {
      d->reason = d->reason ? d->reason : "an item lies past what its query sees";
      return;
    }
    item[i] = (int32_t)last;
  }
  sorted = malloc((count + 1) * sizeof(*sorted));
  if (!sorted) {
    d->reason = "no memory";
    return;
  }
  memcpy(sorted, item, count * sizeof(*sorted));
  qsort(sorted, count, sizeof(*sorted), compare_items);
  for (uint32_t i = 1; i < count; i++) {
    if (sorted[i] == sorted[i - 1])
      d->reason = "an item is there twice";
  }
  free(sorted);
}

static void *grow(struct decoder *d, void *array, uint32_t *capacity, uint32_t count, size_t size)
{
  void *grown;
  if (count <= *capacity)
    return array;
  while (*capacity < count)
    *capacity = *capacity ? *capacity * 2 : 256;
  grown = realloc(array, *capacity * size);
  if (!grown)
    d->reason = "no memory";
  return grown ? grown : array;
}

/* The lists of one point or pool; `limit` items at most are left in the chunk. */
static void get_lists(struct decoder *d, uint32_t kind, const struct kvl_trace_chunk_step *step, uint32_t items)
{
  struct kvl_trace_chunk *c = d->chunk;
  uint32_t reference = d->reference[kind];
  for (uint32_t q = 0; q < step->queries && !d->reason; q++) {
    uint32_t boundary = step->has_boundary ? c->boundary[step->boundary + q] : step->tokens;
    uint32_t head = get_varint(d), count = head >> 2, form = head & 3, seen = items_seen(d->meta, kind, boundary);
    int32_t *item = c->item + c->items;
    if (d->reason)
      return;
    if (count > items_max(d->meta, kind) || count > items - c->items) {
      d->reason = count > items - c->items ? "more items than the chunk says it has" : "a list is longer than its point or pool allows";
      return;
    }
    if (form == FORM_ASCENDING) {
      get_gaps(d, item, count, seen);
    } else if (form == FORM_ANY) {
      get_any(d, item, count, seen);
    } else if (form == FORM_FROM_REFERENCE && reference != NO_REFERENCE) {
      const int32_t *from;
      uint32_t from_count = kvl_trace_chunk_list(c, reference, &from);
      get_from_reference(d, item, count, from, from_count, seen);
    } else {
      d->reason = form == FORM_FROM_REFERENCE ? "a list refers to one that is not there or does not ascend" : "an unknown form of list";
    }
    c->items += count;
    reference = form == FORM_ANY ? NO_REFERENCE : c->lists;
    if (q == 0)
      d->reference[kind] = reference;
    c->start[++c->lists] = c->items;
  }
}

static void get_step(struct decoder *d, struct kvl_trace_chunk_step *step, const struct kvl_trace_chunk_step *before, uint32_t items)
{
  struct kvl_trace_chunk *c = d->chunk;
  const struct kvl_trace_meta *meta = d->meta;
  uint32_t tokens = get_varint(d), flags, kinds;
  if (before && tokens > KVL_TRACE_TOKENS_MAX)
    d->reason = "more committed tokens than a session may have";
  step->tokens = before ? before->tokens + tokens : tokens;
  step->queries = get_varint(d);
  flags = get_varint(d);
  if (d->reason)
    return;
  d->reason = step_wrong(step->tokens, step->queries, NULL);
  if (!d->reason && (flags & ~(uint32_t)(FLAG_BOUNDARY | FLAG_POOLS)))
    d->reason = "an unknown flag";
  if (!d->reason && flags & FLAG_POOLS && meta->pools == 0)
    d->reason = "candidate pools in a trace that has none";
  if (d->reason)
    return;
  step->has_boundary = flags & FLAG_BOUNDARY;
  step->has_pools = flags & FLAG_POOLS;
  step->boundary = c->boundaries;
  step->list = c->lists;
  if (step->has_boundary) {
    c->boundary = grow(d, c->boundary, &d->boundary_capacity, c->boundaries + step->queries, sizeof(*c->boundary));
    for (uint32_t q = 0; q < step->queries && !d->reason; q++) {
      uint32_t ahead = get_varint(d);
      if (ahead > KVL_TRACE_QUERIES_MAX)
        d->reason = "a query's boundary is too far above the committed tokens";
      else
        c->boundary[c->boundaries++] = step->tokens + ahead;
    }
  }
  kinds = meta->shape.points + (step->has_pools ? meta->pools : 0);
  c->start = grow(d, c->start, &d->list_capacity, c->lists + kinds * step->queries + 1, sizeof(*c->start));
  for (uint32_t kind = 0; kind < kinds && !d->reason; kind++)
    get_lists(d, kind, step, items);
  for (uint32_t kind = kinds; kind < meta->shape.points + meta->pools; kind++)
    d->reference[kind] = NO_REFERENCE;
}

int kvl_trace_decode(struct kvl_trace_chunk **chunk, const struct kvl_trace_meta *meta, uint32_t steps, uint32_t items, const uint8_t *bytes,
                     size_t count, size_t *at, const char **reason)
{
  struct decoder d = {.meta = meta, .p = bytes, .end = bytes + count};
  struct kvl_trace_chunk *c = calloc(1, sizeof(*c));

  *chunk = NULL;
  *at = 0;
  *reason = "no memory";
  if (!c)
    return -ENOMEM;
  d.chunk = c;
  c->points = meta->shape.points;
  c->pools = meta->pools;
  c->steps = steps;
  c->step = calloc((size_t)steps + 1, sizeof(*c->step));
  c->item = malloc(((size_t)items + 1) * sizeof(*c->item));
  c->start = grow(&d, NULL, &d.list_capacity, 1, sizeof(*c->start));
  if (!c->step || !c->item || d.reason) {
    kvl_trace_chunk_free(c);
    return -ENOMEM;
  }
  c->start[0] = 0;
  for (uint32_t kind = 0; kind < meta->shape.points + meta->pools; kind++)
    d.reference[kind] = NO_REFERENCE;
  for (uint32_t s = 0; s < steps && !d.reason; s++)
    get_step(&d, &c->step[s], s > 0 ? &c->step[s - 1] : NULL, items);
  if (!d.reason && d.p != d.end)
    d.reason = "bytes are left over after the last step";
  if (!d.reason && c->items != items)
    d.reason = "fewer items than the chunk says it has";
  if (d.reason) {
    bool memory = strcmp(d.reason, "no memory") == 0;
    *at = (size_t)(d.p - bytes);
    *reason = d.reason;
    kvl_trace_chunk_free(c);
    return memory ? -ENOMEM : -EINVAL;
  }
  *chunk = c;
  return 0;
}

void kvl_trace_chunk_free(struct kvl_trace_chunk *c)
{
  if (!c)
    return;
  free(c->step);
  free(c->boundary);
  free(c->start);
  free(c->item);
  free(c);
}

uint64_t kvl_trace_chunk_bytes(const struct kvl_trace_chunk *c)
{
  return sizeof(*c) + (uint64_t)c->steps * sizeof(*c->step) + (uint64_t)c->boundaries * sizeof(*c->boundary) +
         ((uint64_t)c->lists + 1) * sizeof(*c->start) + (uint64_t)c->items * sizeof(*c->item);
}
