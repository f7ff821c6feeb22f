#include "traces/gap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/checked.h"
#include "backend/base/rng.h"

/* A scheduled row is one word: row << ROW_SHIFT | static class << STATE_BITS | state. */
enum { STATE_BITS = 3, ROW_SHIFT = 9, CHUNK = 32, NEAR = 128, BLOCK = 64, FAR = 64, FRESH = 48, OVERLAP = 1 << 30, FILTER_WORDS = 64 };

/* A calendar bucket: a stack of chunks, newest entry on top, so that short gaps come first and those that find no lane are the longest. Word 0 of a chunk
 * links. */
struct bucket {
  uint32_t head, fill; /* chunk (0: none) and entries in it; an empty bucket is "full" so that a push has one test */
};

struct segment {
  uint32_t k, sinks, lane;   /* rows a step; sinks among them; its first lane in the output */
  struct kvl_rng rng;
  uint32_t *next, next_count; /* entries due in the next step with a gap of one: about half of all */
  struct bucket near[NEAR], far[FAR]; /* by step, for this block of steps and the next; then by block */
  uint32_t *late, late_first, late_count, late_max; /* ring: due, but there was no lane */
  uint32_t *burst, burst_count, burst_max; /* row, or row | OVERLAP: the row also has a place in the calendar */
  uint32_t *burst_end;       /* first step without it */
  uint32_t fresh[FRESH], fresh_count; /* random rows drawn early so that their bits are on the way from memory */
  uint32_t burst_debt;       /* fraction of a burst start carried over, Q32 */
  uint32_t lanes_filled, drawn_count; /* this step */
  uint32_t *drawn;           /* .. and its entries: selected, not filed again yet */
};

struct kvl_gap {
  const struct kvl_gap_law *law;
  uint32_t k, points, rows_max, queries_max, lanes, segments;
  uint32_t rows, queries, step, refit_rows;
  bool running;              /* false: history still too short for the process */
  uint32_t near_rows, near_scale; /* recency reaches this far; cell = distance * near_scale >> 24 */
  int32_t drift_q8;          /* classes the threshold has moved since the start */
  struct kvl_gap_balance balance; /* of the start (static classes are relative to it); first_q32 is refitted */
  uint64_t *used;            /* rows that have a place in the calendar or are bursting, and the sinks */
  uint64_t *bursting;
  uint64_t *mark;            /* a window of mark_rows rows; all zero between uses */
  uint32_t mark_rows;
  uint64_t filter[FILTER_WORDS]; /* Bloom-like: rows that burst and are scheduled too */
  uint32_t (*chunk)[CHUNK];
  uint32_t chunk_free, chunk_count;
  int32_t *out;              /* queries_max x lanes */
  int32_t *stand_in;         /* rows that stand in for others in the queries after the first */
  uint32_t stand_ins_max;
  uint64_t unaccepted;       /* says which of a step's new rows its later queries select */
  uint32_t drawn_max;        /* rows that one segment can draw gaps for in a step */
  uint32_t *later;           /* entries with a gap above one .. */
  uint8_t *later_bin;        /* .. and their gaps' bins */
  uint32_t out_rows;         /* rows of a selection while the history is short */
  uint32_t *released, released_count, released_max; /* rows that leave the calendar; not free before the step ends */
  uint64_t forgotten;
  uint32_t overlaps;         /* bursts of scheduled rows, this step; `filter` is empty without */
  bool overlap_allowed;
  size_t bytes;
  struct segment segment[KVL_GAP_SEGMENTS_MAX];
};

static bool bit_get(const uint64_t *bits, uint32_t i)
{
  return bits[i >> 6] >> (i & 63) & 1;
}

static void bit_set(uint64_t *bits, uint32_t i)
{
  bits[i >> 6] |= (uint64_t)1 << (i & 63);
}

static void bit_clear(uint64_t *bits, uint32_t i)
{
  bits[i >> 6] &= ~((uint64_t)1 << (i & 63));
}

/* Points share segments: neighbours 3 of 4, the farthest 2 of 4 (arXiv 2603.12201: adjacent layers 70 to 100 %, far ones 40 to 60 %). */
static uint32_t point_shift(const struct kvl_gap *g, uint32_t point)
{
  return g->points <= KVL_GAP_SHARES + 1 ? point : point * (KVL_GAP_SHARES + 1) / g->points;
}

static uint32_t segment_k(const struct kvl_gap *g, uint32_t i) /* any KVL_GAP_WINDOW in a row add up to k */
{
  uint32_t m = i % KVL_GAP_WINDOW;
  return (m + 1) * g->k / KVL_GAP_WINDOW - m * g->k / KVL_GAP_WINDOW;
}

static void *take(struct kvl_gap *g, size_t count, size_t size)
{
  g->bytes += count * size;
  return calloc(count > 0 ? count : 1, size);
}

/* Entries the calendar holds when the process is stationary: rows a step times the mean time to the next. */
static uint64_t calendar_entries(const struct kvl_gap *g, uint32_t rows)
{
  struct kvl_gap_balance balance;
  kvl_gap_balance(g->law, g->k, rows, &balance);
  uint64_t entries = 0;
  for (uint32_t c = 0; c < KVL_GAP_CLASSES; c++) {
    entries += ((balance.weight_q32[c] * rows >> 16) * g->law->scheduled_q16[c]) >> 32;
  }
  entries = entries * g->lanes / g->k;
  return entries < rows ? entries : rows;
}

struct kvl_gap *kvl_gap_create(const struct kvl_gap_law *law, uint32_t k, uint32_t points, uint32_t rows_max, uint32_t queries_max)
{
  if (k == 0 || points == 0 || rows_max > KVL_GAP_ROWS_MAX || k > KVL_GAP_ROWS_MAX) {
    return NULL;
  }
  struct kvl_gap *g = calloc(1, sizeof *g);
  if (g == NULL) {
    return NULL;
  }
  g->bytes = sizeof *g;
  g->law = law;
  g->k = k;
  g->points = k >= KVL_GAP_WINDOW ? points : 1; /* too few rows to cut: all points are equal */
  g->rows_max = rows_max;
  g->queries_max = queries_max > 0 ? queries_max : 1;
  g->segments = g->points > 1 ? KVL_GAP_WINDOW + point_shift(g, g->points - 1) : 1;
  g->near_rows = 8 * law->table->rtau;
  g->near_scale = (8u << 24) / law->table->rtau;
  bool ok = true;
  for (uint32_t i = 0; i < g->segments; i++) {
    struct segment *s = &g->segment[i];
    s->k = g->segments > 1 ? segment_k(g, i) : k;
    s->lane = g->lanes;
    g->lanes += s->k;
    s->burst_max = s->k / 2;
    s->next = take(g, 2 * (size_t)s->k, sizeof *s->next);
    s->late_max = 4 * s->k; /* where rows hardly ever return to the pool, this evens out hundreds of steps */
    s->late = take(g, s->late_max, sizeof *s->late);
    s->drawn = take(g, 2 * (size_t)s->k, sizeof *s->drawn);
    s->burst = take(g, s->burst_max, sizeof *s->burst);
    s->burst_end = take(g, s->burst_max, sizeof *s->burst_end);
    ok = ok && s->next != NULL && s->late != NULL && s->drawn != NULL && s->burst != NULL && s->burst_end != NULL;
    g->drawn_max = 2 * s->k > g->drawn_max ? 2 * s->k : g->drawn_max;
  }
  struct segment *common = &g->segment[g->segments > 1 ? g->segments - KVL_GAP_WINDOW : 0]; /* in every point's window */
  common->sinks = common->k < KVL_GAP_SINKS ? common->k : KVL_GAP_SINKS;
  uint64_t entries = calendar_entries(g, g->rows_max);
  uint64_t spread = (uint64_t)g->segments * (NEAR + FAR / 2); /* each bucket may have a chunk that is nearly empty */
  g->chunk_count = (uint32_t)((entries + entries / 8) / (CHUNK - 1) + spread + 64);
  size_t words = (size_t)rows_max / 64 + 2;
  g->used = take(g, words, sizeof *g->used);
  g->bursting = take(g, words, sizeof *g->bursting);
  g->mark_rows = 4 * g->lanes;
  g->mark = take(g, (size_t)g->mark_rows / 64 + 1, sizeof *g->mark);
  g->chunk = aligned_alloc(64, g->chunk_count * sizeof *g->chunk); /* a chunk is two cache lines */
  g->bytes += g->chunk_count * sizeof *g->chunk;
  g->out = take(g, (size_t)g->lanes * g->queries_max, sizeof *g->out);
  g->stand_ins_max = (uint32_t)((uint64_t)k * law->differ_permille / 1000 + 1) * (g->queries_max - 1);
  g->stand_in = take(g, g->stand_ins_max, sizeof *g->stand_in);
  g->released_max = 2 * g->lanes;
  g->released = take(g, g->released_max, sizeof *g->released);
  g->later = take(g, g->drawn_max, sizeof *g->later);
  g->later_bin = take(g, g->drawn_max, sizeof *g->later_bin);
  if (!ok || g->later == NULL || g->later_bin == NULL || g->released == NULL ||
      g->used == NULL || g->bursting == NULL || g->mark == NULL || g->chunk == NULL || g->out == NULL || g->stand_in == NULL) {
    kvl_gap_destroy(g);
    return NULL;
  }
  return g;
}

void kvl_gap_destroy(struct kvl_gap *gap)
{
  if (gap == NULL) {
    return;
  }
  for (uint32_t i = 0; i < gap->segments; i++) {
    free(gap->segment[i].next);
    free(gap->segment[i].late);
    free(gap->segment[i].drawn);
    free(gap->segment[i].burst);
    free(gap->segment[i].burst_end);
  }
  free(gap->used);
  free(gap->bursting);
  free(gap->mark);
  free(gap->chunk);
  free(gap->out);
  free(gap->stand_in);
  free(gap->released);
  free(gap->later);
  free(gap->later_bin);
  free(gap);
}

size_t kvl_gap_bytes(const struct kvl_gap *gap)
{
  return gap->bytes;
}

/* The row is both scheduled and bursting: the burst has its lane. */
static bool masked(const struct kvl_gap *g, uint32_t row)
{
  return (g->filter[row >> 6 & (FILTER_WORDS - 1)] >> (row & 63) & 1) && bit_get(g->bursting, row);
}

uint64_t kvl_gap_forgotten(const struct kvl_gap *gap)
{
  return gap->forgotten;
}

/* A row leaves the calendar for good, unless a burst holds it: then the burst becomes its only owner. The row may be in this step's selection, so it can be
 * chosen afresh from the next step on only. */
static void release(struct kvl_gap *g, uint32_t row)
{
  if (!masked(g, row)) {
    if (g->released_count < g->released_max) { /* as many as can be drawn in a step; full only if forgotten ones pile up */
      g->released[g->released_count++] = row;
    }
    return;
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    struct segment *s = &g->segment[i];
    for (uint32_t j = 0; j < s->burst_count; j++) {
      if (s->burst[j] == (row | OVERLAP)) {
        s->burst[j] = row;
      }
    }
  }
}

static void push(struct kvl_gap *g, struct bucket *b, uint32_t entry)
{
  if (b->fill == CHUNK - 1) {
    uint32_t fresh = g->chunk_free;
    if (fresh == 0) { /* more rows than the calendar was made for */
      g->forgotten++;
      release(g, entry >> ROW_SHIFT);
      return;
    }
    g->chunk_free = g->chunk[fresh][0];
    g->chunk[fresh][0] = b->head;
    b->head = fresh;
    b->fill = 0;
  }
  g->chunk[b->head][++b->fill] = entry;
}

static inline void fetch_chunk(const struct kvl_gap *g, uint32_t chunk)
{
  __builtin_prefetch(&g->chunk[chunk][0]);
  __builtin_prefetch(&g->chunk[chunk][CHUNK / 2]);
}

static void drop_empty(struct kvl_gap *g, struct bucket *b)
{
  if (b->fill == 0) {
    uint32_t empty = b->head;
    b->head = g->chunk[empty][0];
    b->fill = CHUNK - 1;
    g->chunk[empty][0] = g->chunk_free;
    g->chunk_free = empty;
  }
}

static bool pop(struct kvl_gap *g, struct bucket *b, uint32_t *entry)
{
  if (b->head == 0) {
    return false;
  }
  *entry = g->chunk[b->head][b->fill--];
  drop_empty(g, b);
  return true;
}

static void schedule(struct kvl_gap *g, struct segment *s, uint32_t step, uint32_t entry)
{
  if (step / BLOCK <= g->step / BLOCK + 1) {
    push(g, &s->near[step % NEAR], entry);
  } else {
    push(g, &s->far[step / BLOCK % FAR], entry);
  }
}

/* The class a row plays now: its static one, moved by the threshold's drift and by recency. KVL_GAP_CLASSES or more: out of reach. */
static inline int32_t class_now(const struct kvl_gap *g, uint32_t row, uint32_t fixed, uint32_t random)
{
  uint32_t distance = g->rows - 1 - row;
  int32_t at_q8 = (int32_t)(fixed << 8) + g->drift_q8;
  if (distance < g->near_rows) {
    at_q8 -= g->law->table->rec_q8[(uint64_t)distance * g->near_scale >> 24];
  }
  if (at_q8 < 0) {
    return 0;
  }
  return (at_q8 + (int32_t)random) >> 8;
}

/* Where draws go: gaps of one to `next`, the others to `later` until a second pass files them. */
struct draws {
  uint32_t *next, *later, next_count, later_count;
  uint8_t *later_bin;
  uint32_t newest, near;
};

/* One draw from 32 random bits: 5 choose a column, 13 a bin of it, 7 dither the class, 7 climb. No unpredictable branch. */
static inline void draw_gap(const struct kvl_gap *g, struct draws *d, uint32_t entry, uint32_t random)
{
  enum { STATE = KVL_GAP_STATES - 1, CLASS_STATE = (1 << ROW_SHIFT) - 1 };
  uint32_t state = entry & STATE, at = entry & CLASS_STATE;
  if (d->newest - (entry >> ROW_SHIFT) < d->near) {
    int32_t c = class_now(g, entry >> ROW_SHIFT, at >> STATE_BITS, (random >> 18 & 127) * 2);
    at = (uint32_t)(c < KVL_GAP_STATIC ? c : KVL_GAP_STATIC - 1) << STATE_BITS | state;
  }
  uint32_t column = (&g->law->alias[0][0][0])[at * KVL_GAP_ALIAS + (random & (KVL_GAP_ALIAS - 1))];
  uint32_t first = (random >> 5 & ((1u << KVL_GAP_ALIAS_BITS) - 1)) < column >> 16;
  uint32_t bin = column >> 8 * first & 255;
  uint32_t step = (&g->law->after[0][0])[state * KVL_GAP_ALIAS + bin];
  uint32_t after = (entry & ~(uint32_t)STATE) | ((step & 255) + (random >> 25 < step >> 8));
  d->next[d->next_count] = after; /* overwritten if the gap is longer */
  d->later[d->later_count] = after;
  d->later_bin[d->later_count] = (uint8_t)bin;
  d->next_count += bin == 0;
  d->later_count += bin != 0;
}

/* Draws the next gap of every entry in s->drawn and files it. */
static void draw_gaps(struct kvl_gap *g, struct segment *s)
{
  struct draws d = {.next = s->next, .later = g->later, .later_bin = g->later_bin, .newest = g->rows - 1};
  d.near = g->drift_q8 == 0 ? g->near_rows : UINT32_MAX;
  const uint32_t *drawn = s->drawn;
  uint32_t count = s->drawn_count;
  struct kvl_rng rng = s->rng; /* a copy stays in registers */
  for (uint32_t i = 0; i + 1 < count; i += 2) {
    uint64_t random = kvl_rng_next(&rng);
    draw_gap(g, &d, drawn[i], (uint32_t)random);
    draw_gap(g, &d, drawn[i + 1], (uint32_t)(random >> 32));
  }
  if (count % 2 != 0) {
    draw_gap(g, &d, drawn[count - 1], (uint32_t)kvl_rng_next(&rng));
  }
  uint32_t later_count = d.later_count;
  s->next_count = d.next_count;
  for (uint32_t i = 0; i < later_count; i++) {
    uint32_t entry = g->later[i], bin = g->later_bin[i];
    if (bin < 8) { /* mostly; and these never cross into a far block */
      push(g, &s->near[(g->step + 1 + bin) % NEAR], entry);
      continue;
    }
    if (bin == KVL_GAP_BINS) {
      release(g, entry >> ROW_SHIFT);
      continue;
    }
    uint32_t part = (uint32_t)(kvl_rng_next(&rng) >> 48);
    uint32_t c = entry >> STATE_BITS & (KVL_GAP_STATIC - 1);
    part -= ((part * (65536 - part)) >> 16) * g->law->skew_q8[c < KVL_GAP_CLASSES ? c : KVL_GAP_CLASSES] >> 8;
    schedule(g, s, g->step + g->law->bin_first[bin] + (part * g->law->bin_count[bin] >> 16), entry);
  }
  s->rng = rng;
}

static uint32_t draw_static(const struct kvl_gap *g, struct segment *s)
{
  uint64_t r = kvl_rng_next(&s->rng) >> 32;
  uint32_t c = 0;
  for (uint64_t sum = g->balance.weight_q32[0]; c < KVL_GAP_STATIC - 1 && r >= sum;) {
    sum += g->balance.weight_q32[++c];
  }
  return c;
}

/* Puts a row with a known static class into the calendar as if the process had always run; its next selection is at or after this step. */
static void settle(struct kvl_gap *g, struct segment *s, uint32_t row, uint32_t fixed, uint32_t cell)
{
  uint64_t random = kvl_rng_next(&s->rng);
  uint32_t bin = cell % KVL_GAP_BINS;
  uint32_t gap = kvl_gap_bin_first(bin) + (uint32_t)((random >> 32) * kvl_gap_bin_count(bin) >> 32);
  uint32_t ahead = (uint32_t)((random & 0xffffff) * gap >> 24);
  uint32_t state = kvl_gap_next_state(cell / KVL_GAP_BINS, bin, (uint32_t)(random >> 24) & 255);
  bit_set(g->used, row);
  schedule(g, s, g->step + ahead, row << ROW_SHIFT | fixed << STATE_BITS | state);
}

/* A row that recency can lift: new ones, and those near the end at the start. */
static void settle_near(struct kvl_gap *g, uint32_t row)
{
  struct segment *s = &g->segment[0];
  if (g->segments > 1) { /* a window has the rows of one selection, so all segments have segments / KVL_GAP_WINDOW as many */
    s = &g->segment[kvl_rng_below(&s->rng, g->segments)];
  }
  uint32_t fixed = draw_static(g, s);
  uint64_t random = kvl_rng_next(&s->rng);
  int32_t c = class_now(g, row, fixed, random & 255);
  if (c >= KVL_GAP_CLASSES || bit_get(g->used, row)) {
    return;
  }
  uint64_t chance = (uint64_t)g->law->scheduled_q16[c];
  chance = g->segments > 1 ? chance * g->segments / KVL_GAP_WINDOW : chance;
  if ((random >> 8 & 65535) >= chance) {
    return;
  }
  const uint32_t *biased = g->law->biased_q32[c];
  uint32_t pick = (uint32_t)((random >> 32) * (biased[KVL_GAP_STATES * KVL_GAP_BINS - 1] + (uint64_t)1) >> 32);
  uint32_t low = 0, high = KVL_GAP_STATES * KVL_GAP_BINS - 1;
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    if (biased[mid] > pick) {
      high = mid;
    } else {
      low = mid + 1;
    }
  }
  settle(g, s, row, fixed, low);
}

/* A row with no place in the calendar, uniform over rows below `rows`; KVL_GAP_ROWS_MAX when there is none. */
static uint32_t unused_row(struct kvl_gap *g, struct segment *s, uint32_t rows)
{
  for (int i = 0; i < 48; i++) {
    uint32_t row = s->fresh_count > 0 ? s->fresh[--s->fresh_count] : kvl_rng_below(&s->rng, rows);
    if (!bit_get(g->used, row)) {
      return row;
    }
  }
  uint32_t words = (rows + 63) / 64, first = kvl_rng_below(&s->rng, words);
  for (uint32_t i = 0; i < words; i++) {
    uint32_t w = first + i < words ? first + i : first + i - words;
    uint64_t open = ~g->used[w];
    if (w == rows / 64) {
      open &= ((uint64_t)1 << (rows & 63)) - 1;
    }
    if (open != 0) {
      return w * 64 + (uint32_t)__builtin_ctzll(open);
    }
  }
  return KVL_GAP_ROWS_MAX;
}

/* Everything far from the end: cell by cell of (class, state, bin), as many rows as the stationary process has there. */
static void settle_far(struct kvl_gap *g, struct segment *s, uint32_t rows)
{
  uint64_t carry = kvl_rng_next(&s->rng) >> 32;
  for (uint32_t c = 0; c < KVL_GAP_CLASSES; c++) {
    const uint32_t *biased = g->law->biased_q32[c];
    uint64_t unit = biased[KVL_GAP_STATES * KVL_GAP_BINS - 1];
    uint64_t count_q32 = (((g->balance.weight_q32[c] * rows >> 8) * g->law->scheduled_q16[c] >> 16) * s->k / g->k) << 8;
    if (unit == 0) {
      continue;
    }
    uint32_t before = 0;
    for (uint32_t cell = 0; cell < KVL_GAP_STATES * KVL_GAP_BINS; cell++) {
      uint64_t part = (uint64_t)(biased[cell] - before) * 0xffffffffu / unit; /* share of the class in this cell, Q32 */
      before = biased[cell];
      carry += (count_q32 >> 20) * part >> 12;
      for (; carry >> 32 != 0; carry -= (uint64_t)1 << 32) {
        uint32_t row = unused_row(g, s, rows);
        if (row == KVL_GAP_ROWS_MAX) {
          return;
        }
        settle(g, s, row, c, cell);
      }
    }
  }
}

static void start_burst(struct kvl_gap *g, struct segment *s, uint32_t row)
{
  if (s->burst_count == s->burst_max || bit_get(g->bursting, row)) {
    return;
  }
  if (!g->overlap_allowed && bit_get(g->used, row)) { /* one in eight at most: not worth a test of every lane */
    row = unused_row(g, s, g->rows);
  }
  if (row == KVL_GAP_ROWS_MAX) {
    return;
  }
  uint32_t u = (uint32_t)(kvl_rng_next(&s->rng) >> 32), length = 1;
  while (length < KVL_GAP_BURST_MAX && u < g->law->burst_longer_q32[length - 1]) {
    length++;
  }
  s->burst_end[s->burst_count] = g->step + length;
  s->burst[s->burst_count++] = row | (bit_get(g->used, row) ? OVERLAP : 0);
  bit_set(g->bursting, row);
  bit_set(g->used, row);
}

static void start_process(struct kvl_gap *g)
{
  uint32_t near = g->near_rows < g->rows ? g->near_rows : g->rows;
  g->running = true;
  g->step = 0;
  g->overlap_allowed = calendar_entries(g, g->rows) > g->rows / 8;
  g->drift_q8 = 0;
  kvl_gap_balance(g->law, g->k, g->rows, &g->balance);
  g->refit_rows = g->rows + g->rows / 32 + 1;
  for (uint32_t row = 0; row < KVL_GAP_SINKS; row++) {
    bit_set(g->used, row);
    bit_set(g->bursting, row);
  }
  for (uint32_t row = g->rows - near; row < g->rows; row++) {
    settle_near(g, row);
  }
  if (g->rows - near > KVL_GAP_SINKS) {
    for (uint32_t i = 0; i < g->segments; i++) {
      settle_far(g, &g->segment[i], g->rows - near);
    }
  }
  for (uint32_t i = 0; i < g->segments; i++) { /* bursts under way */
    struct segment *s = &g->segment[i];
    uint64_t mean = (uint64_t)s->k * g->law->table->burst_starts_q32 / g->law->table->burst_end_q32;
    for (uint64_t j = 0; j < mean; j++) {
      start_burst(g, s, kvl_rng_below(&s->rng, g->rows)); /* lengths have no memory */
    }
  }
}

/* The history has grown by a few percent: the threshold rises with it. */
static void refit(struct kvl_gap *g)
{
  struct kvl_gap_balance now;
  kvl_gap_balance(g->law, g->k, g->rows, &now);
  g->drift_q8 = (now.theta_q16 - g->balance.theta_q16) / 256;
  memcpy(g->balance.first_q32, now.first_q32, sizeof now.first_q32);
  g->balance.first_unit = now.first_unit;
  g->refit_rows = g->rows + g->rows / 32 + 1;
}

void kvl_gap_start(struct kvl_gap *g, uint64_t seed, uint64_t stream)
{
  size_t words = (size_t)g->rows_max / 64 + 2;
  g->unaccepted = kvl_rng_mix(seed ^ kvl_rng_mix(stream));
  memset(g->used, 0, words * sizeof *g->used);
  memset(g->bursting, 0, words * sizeof *g->bursting);
  g->rows = 0;
  g->queries = 1;
  g->out_rows = 0; /* no selection before the first step */
  g->released_count = 0;
  g->forgotten = 0;
  memset(g->filter, 0, sizeof g->filter);
  g->overlaps = 0;
  g->step = 0;
  g->running = false;
  for (uint32_t i = 1; i < g->chunk_count; i++) {
    g->chunk[i][0] = i + 1 < g->chunk_count ? i + 1 : 0;
  }
  g->chunk_free = g->chunk_count > 1 ? 1 : 0;
  for (uint32_t i = 0; i < g->segments; i++) {
    struct segment *s = &g->segment[i];
    kvl_rng_init(&s->rng, seed, "gap segment", stream * KVL_GAP_SEGMENTS_MAX + i);
    s->next_count = 0;
    s->late_first = 0;
    s->late_count = 0;
    s->burst_count = 0;
    s->fresh_count = 0;
    s->burst_debt = (uint32_t)(kvl_rng_next(&s->rng) >> 32);
    for (uint32_t j = 0; j < NEAR; j++) {
      s->near[j] = (struct bucket){0, CHUNK - 1};
    }
    for (uint32_t j = 0; j < FAR; j++) {
      s->far[j] = (struct bucket){0, CHUNK - 1};
    }
  }
}

/* Entries of the block after this one move from their common bucket to a step each. */
static void cascade(struct kvl_gap *g, struct segment *s)
{
  uint32_t block = g->step / BLOCK + 1, entry;
  struct bucket *far = &s->far[block % FAR];
  while (pop(g, far, &entry)) {
    push(g, &s->near[(block * BLOCK + kvl_rng_below(&s->rng, BLOCK)) % NEAR], entry);
  }
}

/* How many bursts start in this step, and the rows for them and for what the calendar may lack. */
static uint32_t draw_fresh(struct kvl_gap *g, struct segment *s)
{
  uint64_t starts = (uint64_t)s->k * g->law->table->burst_starts_q32 + s->burst_debt;
  s->burst_debt = (uint32_t)starts;
  starts >>= 32;
  uint64_t count = starts + s->k / 20 + 1;
  s->fresh_count = (uint32_t)(count < FRESH ? count : FRESH);
  fetch_chunk(g, s->near[g->step % NEAR].head);
  for (uint32_t i = 0; i < NEAR; i += 8) { /* a stream is cold when its turn comes: many others were stepped in between */
    __builtin_prefetch(&s->near[i]);
  }
  for (uint32_t i = 0; i < 64; i += 16) {
    __builtin_prefetch(&s->burst[i]);
    __builtin_prefetch(&s->burst_end[i]);
    __builtin_prefetch(&s->next[s->next_count - (i < s->next_count ? i : s->next_count)]);
  }
  for (uint32_t i = 0; i < s->fresh_count; i++) {
    s->fresh[i] = kvl_rng_below(&s->rng, g->rows);
    __builtin_prefetch(&g->used[s->fresh[i] >> 6]);
    __builtin_prefetch(&g->bursting[s->fresh[i] >> 6]);
  }
  return (uint32_t)starts;
}

static void step_bursts(struct kvl_gap *g, struct segment *s, uint32_t starts)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->burst_count; i++) {
    uint32_t row = s->burst[i] & ~(uint32_t)OVERLAP;
    if (s->burst_end[i] > g->step) {
      s->burst_end[kept] = s->burst_end[i];
      s->burst[kept++] = s->burst[i];
      continue;
    }
    bit_clear(g->bursting, row);
    if (s->burst[i] == row) {
      bit_clear(g->used, row);
    }
  }
  s->burst_count = kept;
  for (; starts > 0; starts--) {
    start_burst(g, s, s->fresh_count > 0 ? s->fresh[--s->fresh_count] : kvl_rng_below(&s->rng, g->rows));
  }
  for (uint32_t i = 0; i < s->burst_count; i++) {
    if (s->burst[i] & OVERLAP) {
      g->overlaps++;
      g->filter[s->burst[i] >> 6 & (FILTER_WORDS - 1)] |= (uint64_t)1 << (s->burst[i] & 63);
    }
  }
}

/* Rows that are not selected now, those due soonest first: they stand in for others in the queries after the first. */
static uint32_t stand_ins(const struct kvl_gap *g, const struct segment *s, int32_t *row, uint32_t max)
{
  uint32_t n = 0;
  for (uint32_t ahead = 1; ahead <= BLOCK && n < max; ahead++) { /* further on buckets are not filled yet */
    const struct bucket *b = &s->near[(g->step + ahead) % NEAR];
    uint32_t chunk = b->head, fill = b->fill;
    while (chunk != 0 && n < max) {
      uint32_t candidate = g->chunk[chunk][fill] >> ROW_SHIFT;
      if (!bit_get(g->bursting, candidate)) {
        row[n++] = (int32_t)candidate;
      }
      if (--fill == 0) {
        chunk = g->chunk[chunk][0];
        fill = CHUNK - 1;
      }
    }
  }
  return n;
}

static inline bool has_room(const struct segment *s)
{
  return s->lanes_filled < s->k && s->drawn_count < 2 * s->k;
}

/* Entries are selected, the last of the array first: each takes the next lane, unless a burst of the same row has one already. Returns how many are left. */
static inline uint32_t select_some(const struct kvl_gap *g, struct segment *s, const uint32_t *entry, uint32_t count, bool may_be_masked)
{
  uint32_t *drawn = s->drawn, drawn_count = s->drawn_count, lanes_filled = s->lanes_filled, lanes = s->k;
  int32_t *out = g->out + s->lane;
  while (count > 0 && lanes_filled < lanes && drawn_count < 2 * lanes) {
    uint32_t e = entry[--count], row = e >> ROW_SHIFT;
    drawn[drawn_count++] = e;
    out[lanes_filled] = (int32_t)row;
    lanes_filled += !may_be_masked || !masked(g, row);
  }
  s->drawn_count = drawn_count;
  s->lanes_filled = lanes_filled;
  return count;
}

static uint32_t select_entries(const struct kvl_gap *g, struct segment *s, const uint32_t *entry, uint32_t count)
{
  return g->overlaps > 0 ? select_some(g, s, entry, count, true) : select_some(g, s, entry, count, false);
}

static void select_bucket(struct kvl_gap *g, struct segment *s, struct bucket *b)
{
  while (b->head != 0 && has_room(s)) {
    const uint32_t *chunk = g->chunk[b->head];
    fetch_chunk(g, chunk[0]);
    b->fill = select_entries(g, s, chunk + 1, b->fill);
    drop_empty(g, b);
  }
}

/* Sinks, bursts, then what is due, shortest gaps first, then what was due before. A surplus stays in today's bucket. */
static void select_due(struct kvl_gap *g, struct segment *s)
{
  s->drawn_count = 0;
  s->lanes_filled = 0;
  int32_t *out = g->out + s->lane;
  for (uint32_t row = 0; row < s->sinks; row++) {
    out[s->lanes_filled++] = (int32_t)row;
  }
  for (uint32_t i = 0; i < s->burst_count && s->lanes_filled < s->k; i++) {
    out[s->lanes_filled++] = (int32_t)(s->burst[i] & ~(uint32_t)OVERLAP);
  }
  struct bucket *today = &s->near[g->step % NEAR];
  uint32_t left = s->next_count, ahead = today->head;
  while (left > 0 && has_room(s)) { /* in parts, fetching a chunk of today's bucket between two of them */
    uint32_t part = left < CHUNK ? left : CHUNK;
    fetch_chunk(g, ahead);
    left = left - part + select_entries(g, s, s->next + left - part, part);
    ahead = ahead != 0 ? g->chunk[ahead][0] : 0;
  }
  while (left > 0) { /* bursts took the room */
    push(g, today, s->next[--left]);
  }
  select_bucket(g, s, today);
  while (s->late_count > 0 && has_room(s)) {
    select_entries(g, s, &s->late[s->late_first], 1);
    s->late_first = s->late_first + 1 < s->late_max ? s->late_first + 1 : 0;
    s->late_count--;
  }
}

/* Rows that found no lane wait behind those with short gaps: a long gap becomes a little longer. Too many, and the last go back to the pool. */
static void keep_late(struct kvl_gap *g, struct segment *s)
{
  uint32_t entry;
  while (pop(g, &s->near[g->step % NEAR], &entry)) {
    if (s->late_count == s->late_max) {
      release(g, entry >> ROW_SHIFT);
      continue;
    }
    uint32_t at = s->late_first + s->late_count++;
    s->late[at < s->late_max ? at : at - s->late_max] = entry;
  }
}

/* Fills the lanes that are left: with the surplus of other segments, so that small segments fluctuate no more than a large one, then with fresh rows. */
static void select_more(struct kvl_gap *g, uint32_t index)
{
  struct segment *s = &g->segment[index];
  for (uint32_t i = 1; i < g->segments && has_room(s); i++) {
    select_bucket(g, s, &g->segment[(index + i) % g->segments].near[g->step % NEAR]);
  }
  while (has_room(s)) {
    uint32_t row = unused_row(g, s, g->rows);
    if (row == KVL_GAP_ROWS_MAX) {
      break;
    }
    uint64_t random = kvl_rng_next(&s->rng);
    uint32_t pick = (uint32_t)((random >> 32) * (g->balance.first_unit + (uint64_t)1) >> 32);
    int32_t c = (int32_t)KVL_GAP_CLASSES - 1;
    while (c > 0 && g->balance.first_q32[c - 1] > pick) { /* fresh rows are mostly of high classes */
      c--;
    }
    c -= (g->drift_q8 + (int32_t)(random & 255)) >> 8; /* classes in entries are relative to the start */
    c = c < 0 ? 0 : c > KVL_GAP_STATIC - 1 ? KVL_GAP_STATIC - 1 : c;
    bit_set(g->used, row);
    uint32_t entry = row << ROW_SHIFT | (uint32_t)c << STATE_BITS;
    select_entries(g, s, &entry, 1);
  }
}

/* The queries after the first, each the one before with a few rows replaced, so that two share the less the further apart they are. Lanes are taken in
 * strides, each once before any comes again. Nothing is drawn: what is selected later does not depend on how many queries a step has. */
static void copy_queries(struct kvl_gap *g, struct segment *s)
{
  uint32_t lanes = s->lanes_filled, stride = 1;
  uint64_t differ = g->law->differ_permille;
  int32_t *out = g->out + s->lane;
  uint32_t others = stand_ins(g, s, g->stand_in, g->stand_ins_max);
  for (stride = lanes * 5 / 8 | 1; lanes > 1 && kvl_common_divisor(lanes, stride) != 1;) {
    stride += 2;
  }
  for (uint32_t q = 1; q < g->queries; q++) {
    int32_t *copy = out + (size_t)q * g->lanes;
    uint32_t end = (uint32_t)(q * s->k * differ / 1000);
    memcpy(copy, copy - g->lanes, lanes * sizeof *copy);
    for (uint32_t j = (uint32_t)((q - 1) * s->k * differ / 1000); j < end && j < others && lanes != 0; j++) {
      uint32_t lane = (uint32_t)(((uint64_t)j + g->step) * stride % lanes);
      if (copy[lane] >= KVL_GAP_SINKS) {
        copy[lane] = g->stand_in[j];
      }
    }
  }
}

/* The rows of a query that lie in the window [base, base + window). */
static void mark_query(struct kvl_gap *g, uint32_t q, uint32_t base, uint32_t window)
{
  for (uint32_t i = 0; i < g->segments; i++) {
    const struct segment *s = &g->segment[i];
    for (uint32_t lane = s->lane; lane < s->lane + s->lanes_filled; lane++) {
      uint32_t at = (uint32_t)g->out[(size_t)q * g->lanes + lane] - base;
      if (at < window) {
        bit_set(g->mark, at);
      }
    }
  }
}

/* The last lanes of queries first .. end - 1 with rows that are not marked; there must be enough. */
static void fill_lanes(struct kvl_gap *g, uint32_t first, uint32_t end, uint32_t base, uint32_t window, uint32_t at)
{
  for (uint32_t i = 0; i < g->segments; i++) {
    const struct segment *s = &g->segment[i];
    for (uint32_t lane = s->lane + s->lanes_filled; lane < s->lane + s->k; lane++) {
      while (bit_get(g->mark, at)) {
        at = at + 1 < window ? at + 1 : 0;
      }
      bit_set(g->mark, at);
      for (uint32_t q = first; q < end; q++) {
        g->out[(size_t)q * g->lanes + lane] = (int32_t)(base + at);
      }
    }
  }
}

static void clear_marks(struct kvl_gap *g)
{
  memset(g->mark, 0, ((size_t)g->mark_rows / 64 + 1) * sizeof *g->mark);
}

/* No unscheduled row is left: fills the last lanes with any rows that no segment and no query has in this step, from a window of rows. Queries of a step
 * that drift apart over a short history may have all of them together: then each is filled with rows that it has not itself, and one query never has more
 * than the lanes, of which the window holds some more. */
static void fill_up(struct kvl_gap *g)
{
  uint32_t window = g->mark_rows < g->rows ? g->mark_rows : g->rows;
  uint32_t base = kvl_rng_below(&g->segment[0].rng, g->rows - window + 1);
  uint32_t at = kvl_rng_below(&g->segment[0].rng, window), wanted = 0, taken = 0;
  for (uint32_t q = 0; q < g->queries; q++) {
    mark_query(g, q, base, window);
  }
  for (uint32_t word = 0; word <= g->mark_rows / 64; word++) {
    taken += (uint32_t)__builtin_popcountll(g->mark[word]);
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    wanted += g->segment[i].k - g->segment[i].lanes_filled;
  }
  if (window - taken >= wanted) {
    fill_lanes(g, 0, g->queries, base, window, at);
  } else {
    for (uint32_t q = 0; q < g->queries; q++) {
      clear_marks(g);
      mark_query(g, q, base, window);
      fill_lanes(g, q, q + 1, base, window, at);
    }
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    g->segment[i].lanes_filled = g->segment[i].k;
  }
  clear_marks(g);
}

/* History little longer than the lanes: a window that moves round the rows; every row while there are no more than k. */
static void step_short(struct kvl_gap *g)
{
  g->out_rows = g->rows < g->k ? g->rows : g->k;
  uint32_t lanes = g->rows <= g->k ? g->rows : g->lanes;
  uint32_t spare = g->rows - g->out_rows, first = spare > 0 ? (uint32_t)((uint64_t)g->step * (spare / 4 + 1) % g->rows) : 0;
  for (uint32_t q = 0; q < g->queries; q++) {
    for (uint32_t i = 0; i < lanes; i++) {
      g->out[(size_t)q * g->lanes + i] = (int32_t)((first + i) % g->rows);
    }
  }
}

void kvl_gap_step(struct kvl_gap *g, uint32_t rows, uint32_t queries)
{
  uint32_t before = g->rows;
  rows = rows < g->rows_max ? rows : g->rows_max;
  g->rows = rows > before ? rows : before;
  g->queries = queries < 1 ? 1 : queries < g->queries_max ? queries : g->queries_max;
  if (!g->running && g->rows < g->lanes + g->lanes / 8 + 2 * KVL_GAP_SINKS) {
    step_short(g);
    g->step++;
    return;
  }
  if (!g->running) {
    start_process(g);
  } else {
    if (g->rows >= g->refit_rows) {
      refit(g);
    }
    uint32_t first = g->rows - before > g->near_rows ? g->rows - g->near_rows : before;
    for (uint32_t row = first; row < g->rows; row++) {
      settle_near(g, row);
    }
  }
  if (g->overlaps > 0) {
    memset(g->filter, 0, sizeof g->filter);
    g->overlaps = 0;
  }
  bool full = true;
  uint32_t starts[KVL_GAP_SEGMENTS_MAX];
  for (uint32_t i = 0; i < g->segments; i++) {
    if (g->step % BLOCK == 0) {
      cascade(g, &g->segment[i]);
    }
    starts[i] = draw_fresh(g, &g->segment[i]);
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    step_bursts(g, &g->segment[i], starts[i]);
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    select_due(g, &g->segment[i]);
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    select_more(g, (i + g->step) % g->segments);
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    struct segment *s = &g->segment[i];
    keep_late(g, s);
    if (g->queries > 1) {
      copy_queries(g, s); /* before new gaps are filed, when whatever is due next is not selected now */
    }
  }
  for (uint32_t i = 0; i < g->segments; i++) {
    draw_gaps(g, &g->segment[i]);
    full = full && g->segment[i].lanes_filled == g->segment[i].k;
  }
  if (!full) {
    fill_up(g);
  }
  for (uint32_t i = 0; i < g->released_count; i++) {
    bit_clear(g->used, g->released[i]);
  }
  g->released_count = 0;
  g->out_rows = g->k;
  g->step++;
}

void kvl_gap_lengthen(struct kvl_gap *g, uint32_t query, uint32_t rows)
{
  rows = rows < g->rows_max ? rows : g->rows_max;
  for (uint32_t row = g->rows; g->running && query < g->queries && row < rows; row++) {
    uint64_t random = kvl_rng_mix(g->unaccepted ^ row); /* not drawn: see copy_queries */
    uint32_t at = (uint32_t)((random & 0xffff) * g->segments >> 16), chance = g->balance.newest_q32;
    uint64_t scaled = g->segments > 1 ? (uint64_t)chance * g->segments / KVL_GAP_WINDOW : chance; /* a row is of one segment, a window has some of them */
    const struct segment *s = &g->segment[at];
    if (random >> 32 >= scaled || s->k == 0) {
      continue;
    }
    int32_t *lane = g->out + (size_t)query * g->lanes + s->lane + (random >> 16 & 0xffff) * s->k / 65536;
    if (*lane >= KVL_GAP_SINKS) {
      *lane = (int32_t)row;
    }
  }
}

uint32_t kvl_gap_rows(const struct kvl_gap *g, uint32_t point, uint32_t query, const int32_t **rows)
{
  uint32_t q = query < g->queries ? query : g->queries - 1;
  uint32_t lane = g->segments > 1 && g->rows > g->k ? g->segment[point_shift(g, point)].lane : 0;
  *rows = g->out + (size_t)q * g->lanes + lane;
  return g->out_rows;
}
