#include "sim/decision_log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* states that are members, not allocated */
#include <xxhash.h>

#define NEVER UINT64_MAX

/* ---- hashes of lists ---- */

enum { WORDS = 512 };

struct hash {
  XXH64_state_t state;
  unsigned char bytes[4 * WORDS];
  size_t used;
};

static void hash_begin(struct hash *h)
{
  (void)XXH64_reset(&h->state, 0);
  h->used = 0;
}

static void hash_word(struct hash *h, uint32_t word)
{
  if (h->used == sizeof h->bytes) {
    (void)XXH64_update(&h->state, h->bytes, h->used);
    h->used = 0;
  }
  for (int i = 0; i < 4; i++) {
    h->bytes[h->used++] = (unsigned char)(word >> (8 * i));
  }
}

static void hash_frames(struct hash *h, const kvl_frame *frame, uint32_t count)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ /* as they lie: a step's page maps are a megabyte and more */
  (void)XXH64_update(&h->state, h->bytes, h->used);
  h->used = 0;
  (void)XXH64_update(&h->state, frame, count * sizeof *frame);
#else
  for (uint32_t i = 0; i < count; i++) {
    hash_word(h, (uint32_t)frame[i]);
  }
#endif
}

static uint64_t hash_end(struct hash *h)
{
  (void)XXH64_update(&h->state, h->bytes, h->used);
  return XXH64_digest(&h->state);
}

static uint64_t hash_moves(const struct kvl_move *moves, uint32_t count)
{
  struct hash h;
  hash_begin(&h);
  for (uint32_t i = 0; i < count; i++) {
    hash_word(&h, (uint32_t)moves[i].kind);
    hash_word(&h, moves[i].request);
    hash_word(&h, (uint32_t)moves[i].page);
    hash_word(&h, (uint32_t)moves[i].frame);
  }
  return hash_end(&h);
}

/* ---- lines ---- */

struct line {
  char *text;
  size_t used;
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void put(struct line *l, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  int n = vsnprintf(l->text + l->used, KVL_LOG_LINE_CAP - l->used, format, args);
  va_end(args);
  assert(n >= 0 && l->used + (size_t)n + 1 < KVL_LOG_LINE_CAP); /* the longest line, all numbers at their largest, fits */
  l->used += (size_t)n;
}

/* " WORD a,b,c": zeros at the end of the list are left out, a list of zeros is one 0. */
static void put_list(struct line *l, const char *word, const uint64_t *value, uint32_t count)
{
  while (count > 1 && value[count - 1] == 0) {
    count--;
  }
  put(l, " %s", word);
  for (uint32_t i = 0; i < count; i++) {
    put(l, "%c%" PRIu64, i == 0 ? ' ' : ',', value[i]);
  }
}

void kvl_log_line_open(char *line, const struct kvl_plane_request *r)
{
  struct line l = {line, 0};
  put(&l, "open %u %u session %" PRIu64 " tokens %u,%u", r->gpu, r->slot, r->session, r->input_tokens, r->max_tokens);
}

void kvl_log_line_close(char *line, uint32_t gpu, kvl_request slot)
{
  struct line l = {line, 0};
  put(&l, "close %u %u", gpu, slot);
}

void kvl_log_line_step(char *line, const struct kvl_plane_step *step)
{
  struct line l = {line, 0};
  struct hash items, maps;
  uint64_t tokens = 0, queries = 0, commit = 0, pages = 0;
  hash_begin(&items);
  hash_begin(&maps);
  for (uint32_t i = 0; i < step->count; i++) {
    const struct kvl_step_item *item = &step->items[i];
    tokens += item->tokens;
    queries += item->queries;
    commit += item->commit;
    pages += item->pages;
    hash_word(&items, item->slot);
    hash_word(&items, item->tokens);
    hash_word(&items, item->queries);
    hash_word(&items, item->commit);
    hash_word(&items, item->pages);
    hash_word(&items, item->whole);
    if (item->pages != 0) {
      hash_frames(&maps, item->page_map, item->pages);
    }
  }
  put(&l, "step %u %" PRIu64 " join %u revoked %u serial %u %016" PRIx64, step->gpu, step->number, step->admissions, step->revoked_pages,
      step->serial_count, hash_moves(step->serial, step->serial_count));
  put(&l, " items %u %016" PRIx64 " tokens %" PRIu64 ",%" PRIu64 ",%" PRIu64, step->count, hash_end(&items), tokens, queries, commit);
  put(&l, " maps %" PRIu64 " %016" PRIx64, pages, hash_end(&maps));
}

static const char *copy_kind(enum kvl_copy_kind kind)
{
  return kind == KVL_COPY_PAGES ? "pages" : "write_back";
}

void kvl_log_line_copy(char *line, const struct kvl_plane_copy *copy)
{
  struct line l = {line, 0};
  put(&l, "copy %u %s tag %" PRIu64 " bytes %" PRIu64 " moves %u %016" PRIx64, copy->gpu, copy_kind(copy->kind), copy->tag, copy->bytes,
      copy->move_count, hash_moves(copy->moves, copy->move_count));
}

void kvl_log_line_keep(char *line, uint32_t gpu, const struct kvl_move *move)
{
  struct line l = {line, 0};
  put(&l, "keep %u slot %u page %d frame %d", gpu, move->request, move->page, move->frame);
}

/* ---- what the plane answered ---- */

enum { TIMES = 4, ROWS = 5, PREFETCH = sizeof(struct kvl_prefetch) / sizeof(uint64_t) };
static_assert(PREFETCH * sizeof(uint64_t) == sizeof(struct kvl_prefetch), "all members are 64-bit counts");
static_assert((TIMES + KVL_STALLS + KVL_TIERS + ROWS + PREFETCH) * sizeof(uint64_t) == sizeof(struct kvl_step_result), "a line has every member");

static void put_time(struct line *l, uint64_t ns)
{
  if (ns == NEVER) {
    put(l, " -");
  } else {
    put(l, " %" PRIu64, ns);
  }
}

void kvl_log_line_wait(char *line, const struct kvl_log_wait *w)
{
  struct line l = {line, 0};
  put(&l, "%s", w->completed ? "done" : "idle");
  put_time(&l, w->asked_ns);
  put_time(&l, w->now_ns);
  if (!w->completed) {
    return;
  }
  put(&l, " %s %u %" PRIu64, w->kind == KVL_DONE_STEP ? "step" : "copy", w->gpu, w->tag);
  if (w->kind != KVL_DONE_STEP) {
    return;
  }
  const struct kvl_step_result *r = &w->step;
  const uint64_t times[TIMES] = {r->submit_ns, r->step_begin_ns, r->end_ns, r->draft_ns};
  const uint64_t rows[ROWS] = {r->fetched, r->overflow, r->violations, r->link_bytes, r->shared_lanes};
  uint64_t prefetch[PREFETCH];
  memcpy(prefetch, &r->prefetch, sizeof prefetch);
  put_list(&l, "times", times, TIMES);
  put_list(&l, "stall", r->stall_ns, KVL_STALLS);
  put_list(&l, "lanes", r->lanes, KVL_TIERS);
  put_list(&l, "rows", rows, ROWS);
  put_list(&l, "prefetch", prefetch, PREFETCH);
}

/* ---- and back ---- */

struct cursor {
  const char *at, *end;
  bool bad;
};

static void take_word(struct cursor *c, const char *word)
{
  size_t length = strlen(word);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) {
    c->bad = true;
    return;
  }
  c->at += length;
}

static bool starts(const struct cursor *c, const char *word)
{
  size_t length = strlen(word);
  return (size_t)(c->end - c->at) >= length && memcmp(c->at, word, length) == 0;
}

/* A decimal number, no more than `max`, without sign, leading zeros or anything else that would print differently. */
static uint64_t take_number(struct cursor *c, uint64_t max)
{
  const char *from = c->at;
  uint64_t value = 0;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
    uint64_t digit = (uint64_t)(*c->at++ - '0');
    if (value > (max - digit) / 10 || digit > max) {
      c->bad = true;
      return 0;
    }
    value = 10 * value + digit;
  }
  c->bad = c->bad || c->at == from || (*from == '0' && c->at - from > 1);
  return value;
}

static uint64_t take_time(struct cursor *c)
{
  take_word(c, " ");
  if (starts(c, "-")) {
    take_word(c, "-");
    return NEVER;
  }
  return take_number(c, NEVER - 1);
}

static void take_list(struct cursor *c, const char *word, uint64_t *value, uint32_t count)
{
  memset(value, 0, count * sizeof *value);
  take_word(c, word);
  for (uint32_t i = 0; i < count && !c->bad; i++) {
    value[i] = take_number(c, UINT64_MAX);
    if (!starts(c, ",")) {
      c->bad = c->bad || (i > 0 && value[i] == 0);
      return;
    }
    if (i + 1 < count) {
      take_word(c, ",");
    }
  }
}

bool kvl_log_parse_wait(const char *line, size_t bytes, struct kvl_log_wait *w)
{
  struct cursor c = {line, line + bytes, false};
  memset(w, 0, sizeof *w);
  w->completed = starts(&c, "done");
  take_word(&c, w->completed ? "done" : "idle");
  w->asked_ns = take_time(&c);
  w->now_ns = take_time(&c);
  if (!w->completed) {
    return !c.bad && c.at == c.end && w->now_ns != NEVER;
  }
  w->kind = starts(&c, " step ") ? KVL_DONE_STEP : KVL_DONE_COPY;
  take_word(&c, w->kind == KVL_DONE_STEP ? " step " : " copy ");
  w->gpu = (uint32_t)take_number(&c, UINT32_MAX);
  take_word(&c, " ");
  w->tag = take_number(&c, UINT64_MAX);
  if (w->kind == KVL_DONE_STEP) {
    struct kvl_step_result *r = &w->step;
    uint64_t times[TIMES], rows[ROWS], prefetch[PREFETCH];
    take_list(&c, " times ", times, TIMES);
    take_list(&c, " stall ", r->stall_ns, KVL_STALLS);
    take_list(&c, " lanes ", r->lanes, KVL_TIERS);
    take_list(&c, " rows ", rows, ROWS);
    take_list(&c, " prefetch ", prefetch, PREFETCH);
    r->submit_ns = times[0];
    r->step_begin_ns = times[1];
    r->end_ns = times[2];
    r->draft_ns = times[3];
    r->fetched = rows[0];
    r->overflow = rows[1];
    r->violations = rows[2];
    r->link_bytes = rows[3];
    r->shared_lanes = rows[4];
    memcpy(&r->prefetch, prefetch, sizeof prefetch);
  }
  return !c.bad && c.at == c.end && w->now_ns != NEVER;
}
