#include "traces/curve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"

struct kvl_miss_curve {
  int32_t *row;      /* all selections, step after step */
  size_t *end;       /* end[t]: where step t's selection ends */
  size_t rows, rows_cap;
  uint32_t steps, steps_cap;
  int32_t row_max;
};

enum { NIL = -1 };

struct kvl_miss_curve *kvl_miss_curve_create(void)
{
  struct kvl_miss_curve *curve = calloc(1, sizeof *curve);
  if (curve != NULL) {
    curve->row_max = -1;
  }
  return curve;
}

void kvl_miss_curve_destroy(struct kvl_miss_curve *curve)
{
  if (curve == NULL) {
    return;
  }
  free(curve->row);
  free(curve->end);
  free(curve);
}

int kvl_miss_curve_add(struct kvl_miss_curve *curve, const int32_t *rows, uint32_t count)
{
  if (curve->rows + count > curve->rows_cap) {
    size_t cap = 2 * curve->rows_cap + count + 1024;
    int32_t *grown = realloc(curve->row, cap * sizeof *grown);
    if (grown == NULL) {
      return -ENOMEM;
    }
    curve->row = grown;
    curve->rows_cap = cap;
  }
  if (curve->steps == curve->steps_cap) {
    uint32_t cap = 2 * curve->steps_cap + 64;
    size_t *grown = realloc(curve->end, cap * sizeof *grown);
    if (grown == NULL) {
      return -ENOMEM;
    }
    curve->end = grown;
    curve->steps_cap = cap;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (rows[i] >= 0) {
      curve->row[curve->rows++] = rows[i];
      curve->row_max = rows[i] > curve->row_max ? rows[i] : curve->row_max;
    }
  }
  curve->end[curve->steps++] = curve->rows;
  return 0;
}

uint32_t kvl_miss_curve_steps(const struct kvl_miss_curve *curve)
{
  return curve->steps;
}

const char *kvl_miss_policy_name(enum kvl_miss_policy policy)
{
  static const char *const names[KVL_MISS_POLICIES] = {"lru", "fifo", "random", "clairvoyant"};
  return policy < KVL_MISS_POLICIES ? names[policy] : "?";
}

/* Cached rows hang in rings, one a bucket, through slots 0 .. hot_rows - 1; ring heads follow at hot_rows + bucket. LRU and FIFO have one bucket with
 * the next victim first; the clairvoyant policy has one a step (rows whose next use is that step) and one for "never". */
struct replay {
  const struct kvl_miss_curve *curve;
  enum kvl_miss_policy policy;
  uint32_t hot_rows, used, buckets;
  int32_t *slot_of;      /* by row; NIL: not cached */
  int32_t *row_of;       /* by slot */
  uint32_t *stamp;       /* by slot: last step that used it, plus 1 */
  int32_t *next, *prev;  /* by slot, then by ring head */
  uint32_t *next_use;    /* clairvoyant: by access; the step of the row's next use, or `steps` */
  uint32_t far;          /* clairvoyant: no bucket above this one holds a row */
  int32_t at;            /* ring policies: where the step's search for victims has come to, in `bucket`; NIL: not begun */
  uint32_t bucket;
  struct kvl_rng rng;
};

static void unlink_slot(struct replay *r, int32_t slot)
{
  r->next[r->prev[slot]] = r->next[slot];
  r->prev[r->next[slot]] = r->prev[slot];
}

static void append_slot(struct replay *r, uint32_t bucket, int32_t slot)
{
  int32_t head = (int32_t)(r->hot_rows + bucket);
  r->prev[slot] = r->prev[head];
  r->next[slot] = head;
  r->next[r->prev[head]] = slot;
  r->prev[head] = slot;
  r->far = bucket > r->far ? bucket : r->far;
}

/* A slot whose row this step does not use, or NIL when all are in use. */
static int32_t victim(struct replay *r, uint32_t stamp)
{
  if (r->policy == KVL_MISS_RANDOM) {
    uint32_t first = kvl_rng_below(&r->rng, r->hot_rows);
    for (uint32_t i = 0; i < r->hot_rows; i++) { /* rejection first, a scan when nearly all are in use */
      uint32_t slot = i < 64 ? kvl_rng_below(&r->rng, r->hot_rows) : (first + i) % r->hot_rows;
      if (r->stamp[slot] != stamp) {
        return (int32_t)slot;
      }
    }
    for (uint32_t slot = 0; slot < r->hot_rows; slot++) {
      if (r->stamp[slot] != stamp) {
        return (int32_t)slot;
      }
    }
    return NIL;
  }
  /* Whatever the search has passed is in use until the step ends, and so is what is appended meanwhile: it never goes back. */
  if (r->at == NIL) {
    while (r->far > 0 && r->next[r->hot_rows + r->far] == (int32_t)(r->hot_rows + r->far)) {
      r->far--;
    }
    r->bucket = r->far;
    r->at = r->next[r->hot_rows + r->far];
  }
  for (;;) {
    int32_t slot = r->at;
    if (slot != (int32_t)(r->hot_rows + r->bucket)) {
      r->at = r->next[slot];
      if (r->stamp[slot] != stamp) {
        return slot;
      }
    } else if (r->bucket > 0) {
      r->bucket--;
      r->at = r->next[r->hot_rows + r->bucket];
    } else {
      return NIL;
    }
  }
}

static void evict(struct replay *r, int32_t slot)
{
  unlink_slot(r, slot);
  r->slot_of[r->row_of[slot]] = NIL;
}

static uint64_t replay_step(struct replay *r, uint32_t step, uint64_t *accesses)
{
  const struct kvl_miss_curve *curve = r->curve;
  size_t begin = step > 0 ? curve->end[step - 1] : 0, end = curve->end[step];
  uint32_t stamp = step + 1;
  uint64_t misses = 0;
  *accesses = 0;
  for (size_t i = begin; i < end; i++) { /* look everything up against the state before the step */
    int32_t slot = r->slot_of[curve->row[i]];
    if (slot == NIL || r->stamp[slot] == stamp) {
      continue;
    }
    r->stamp[slot] = stamp;
    ++*accesses;
    if (r->policy != KVL_MISS_FIFO) {
      unlink_slot(r, slot);
      append_slot(r, r->policy == KVL_MISS_CLAIRVOYANT ? r->next_use[i] : 0, slot);
    }
  }
  r->at = NIL;
  for (size_t i = begin; i < end; i++) {
    int32_t row = curve->row[i], slot = r->slot_of[row];
    if (slot != NIL) {
      continue; /* a hit, or a repeat of a row just admitted */
    }
    misses++;
    ++*accesses;
    if (r->used < r->hot_rows) {
      slot = (int32_t)r->used++;
    } else {
      slot = victim(r, stamp);
      if (slot == NIL) {
        continue;
      }
      evict(r, slot);
    }
    r->slot_of[row] = slot;
    r->row_of[slot] = row;
    r->stamp[slot] = stamp;
    append_slot(r, r->policy == KVL_MISS_CLAIRVOYANT ? r->next_use[i] : 0, slot);
  }
  return misses;
}

static int fill_next_use(struct replay *r)
{
  const struct kvl_miss_curve *curve = r->curve;
  size_t rows = (size_t)(curve->row_max + 1);
  uint32_t *seen = malloc((rows + 1) * sizeof *seen);
  r->next_use = malloc((curve->rows + 1) * sizeof *r->next_use);
  if (seen == NULL || r->next_use == NULL) {
    free(seen);
    return -ENOMEM;
  }
  for (size_t i = 0; i < rows; i++) {
    seen[i] = curve->steps;
  }
  for (uint32_t step = curve->steps; step-- > 0;) {
    size_t begin = step > 0 ? curve->end[step - 1] : 0;
    for (size_t i = begin; i < curve->end[step]; i++) {
      r->next_use[i] = seen[curve->row[i]];
    }
    for (size_t i = begin; i < curve->end[step]; i++) {
      seen[curve->row[i]] = step;
    }
  }
  free(seen);
  return 0;
}

int kvl_miss_curve_replay(const struct kvl_miss_curve *curve, enum kvl_miss_policy policy, uint32_t hot_rows, uint32_t warm_steps,
                          uint64_t seed, struct kvl_miss_count *count)
{
  *count = (struct kvl_miss_count){0, 0};
  if (hot_rows == 0 || hot_rows > INT32_MAX / 2 || (unsigned)policy >= KVL_MISS_POLICIES) {
    return -EINVAL;
  }
  struct replay r = {.curve = curve, .policy = policy, .hot_rows = hot_rows};
  r.buckets = policy == KVL_MISS_CLAIRVOYANT ? curve->steps + 1 : 1;
  size_t rows = (size_t)(curve->row_max + 1), links = (size_t)hot_rows + r.buckets;
  kvl_rng_init(&r.rng, seed, "miss curve", hot_rows);
  r.slot_of = malloc((rows + 1) * sizeof *r.slot_of);
  r.row_of = calloc(hot_rows, sizeof *r.row_of);
  r.stamp = calloc(hot_rows, sizeof *r.stamp);
  r.next = malloc(links * sizeof *r.next);
  r.prev = malloc(links * sizeof *r.prev);
  int rc = -ENOMEM;
  if (r.slot_of != NULL && r.row_of != NULL && r.stamp != NULL && r.next != NULL && r.prev != NULL) {
    rc = policy == KVL_MISS_CLAIRVOYANT ? fill_next_use(&r) : 0;
  }
  if (rc == 0) {
    for (size_t i = 0; i < rows; i++) {
      r.slot_of[i] = NIL;
    }
    for (uint32_t bucket = 0; bucket < r.buckets; bucket++) {
      r.next[hot_rows + bucket] = r.prev[hot_rows + bucket] = (int32_t)(hot_rows + bucket);
    }
    for (uint32_t step = 0; step < curve->steps; step++) {
      uint64_t accesses, misses = replay_step(&r, step, &accesses);
      if (step >= warm_steps) {
        count->misses += misses;
        count->accesses += accesses;
      }
    }
  }
  free(r.slot_of);
  free(r.row_of);
  free(r.stamp);
  free(r.next);
  free(r.prev);
  free(r.next_use);
  return rc;
}

int kvl_miss_curve_gaps(const struct kvl_miss_curve *curve, uint32_t warm_steps, uint64_t share[KVL_MISS_GAP_BINS])
{
  memset(share, 0, KVL_MISS_GAP_BINS * sizeof *share);
  uint32_t *last = calloc((size_t)(curve->row_max + 2), sizeof *last); /* step of the last use plus 1 */
  if (last == NULL) {
    return -ENOMEM;
  }
  for (uint32_t step = 0; step < curve->steps; step++) {
    for (size_t i = step > 0 ? curve->end[step - 1] : 0; i < curve->end[step]; i++) {
      uint32_t *seen = &last[curve->row[i]];
      if (*seen == step + 1) {
        continue; /* a repeat in the same step */
      }
      unsigned bin = KVL_MISS_GAP_BINS - 1;
      if (*seen != 0) {
        uint32_t gap = step + 1 - *seen;
        for (bin = 0; bin < KVL_MISS_GAP_BINS - 2 && gap > 1u << bin; bin++) {
        }
      }
      share[bin] += step >= warm_steps;
      *seen = step + 1;
    }
  }
  free(last);
  return 0;
}
