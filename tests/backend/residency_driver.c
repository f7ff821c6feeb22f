#include "tests/backend/residency_driver.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/residency_state.h"
#include "tests/backend/naive_residency.h"

enum { STEPS_IN_FLIGHT_MAX = 5 };

struct kvl_driver {
  struct kvl_chooser chooser;
  struct kvl_resid_config config;
  struct kvl_resid *real;
  void *memory;
  struct naive_world naive, before;
  struct kvl_move moves[NAIVE_MOVES_MAX];
  struct kvl_move copies[NAIVE_FRAMES_MAX]; /* in flight */
  uint32_t copy_count;
  uint8_t real_state[NAIVE_FRAMES_MAX];
  struct { /* of each request's map, as a plane keeps one: brought up to date by what is said to have changed */
    uint64_t version;
    kvl_frame frame[NAIVE_PAGES_MAX];
  } copy[NAIVE_REQUESTS_MAX];
  uint32_t operations;
  const char *operation;
  char text[256];
};

static uint32_t choose(struct kvl_driver *d, uint32_t n)
{
  return d->chooser.below(d->chooser.source, n);
}

__attribute__((format(printf, 2, 3))) static const char *differ(struct kvl_driver *d, const char *format, ...)
{
  int n = snprintf(d->text, sizeof d->text, "after %s: ", d->operation);
  va_list args;
  va_start(args, format);
  (void)vsnprintf(d->text + n, sizeof d->text - (size_t)n, format, args);
  va_end(args);
  return d->text;
}

static struct kvl_resid_config random_config(struct kvl_driver *d, enum kvl_world_size size)
{
  static const uint32_t frames_max[] = {12, 200, NAIVE_FRAMES_MAX}, pages_max[] = {8, 140, NAIVE_PAGES_MAX};
  bool others = choose(d, 6) == 0;
  struct kvl_resid_config c = {
    .mode = others ? (choose(d, 2) ? KVL_MODE_FIXED : KVL_MODE_RESIDENT) : KVL_MODE_ADAPTIVE,
    .frames = size == KVL_WORLD_LARGE ? frames_max[size] - choose(d, 1500) : choose(d, frames_max[size] + 1),
    .requests_max = 1 + choose(d, NAIVE_REQUESTS_MAX),
    .pages_max = choose(d, pages_max[size] + 1),
    .tokens_per_page = 1 + choose(d, 6),
    .give_back_pages_max = choose(d, size == KVL_WORLD_LARGE ? 400 : 12),
    .revoke_order = choose(d, 2) ? KVL_REVOKE_LEAST_SELECTED : KVL_REVOKE_OLDEST,
    .give_order = (enum kvl_give_order)choose(d, 3),
  };
  return c;
}

struct kvl_driver *kvl_driver_create(struct kvl_chooser chooser, enum kvl_world_size size)
{
  struct kvl_driver *d = calloc(1, sizeof *d);
  if (d == NULL) {
    return NULL;
  }
  d->chooser = chooser;
  d->config = random_config(d, size);
  size_t bytes = (kvl_resid_bytes(&d->config) + 63) / 64 * 64;
  d->memory = aligned_alloc(64, bytes);
  if (d->memory == NULL) {
    free(d);
    return NULL;
  }
  memset(d->memory, 0xa5, bytes);
  d->real = kvl_resid_init(d->memory, &d->config);
  naive_init(&d->naive, &d->config);
  return d;
}

void kvl_driver_destroy(struct kvl_driver *driver)
{
  if (driver != NULL) {
    free(driver->memory);
    free(driver);
  }
}

/* Which state the policy has each frame in, from its own lists. */
static void mark_chain(struct kvl_driver *d, uint32_t head, enum naive_state state)
{
  for (uint32_t lead = head; lead != KVL_CHAIN_END; lead = d->real->pool.node[lead].next) {
    for (uint32_t bit = 0; bit < 64; bit++) {
      if (d->real->pool.node[lead].of.mask >> bit & 1) {
        d->real_state[lead / 64 * 64 + bit] = (uint8_t)state;
      }
    }
  }
}

static const char *compare_frames(struct kvl_driver *d)
{
  const struct kvl_frame_pool *pool = &d->real->pool;
  for (uint32_t f = 0; f < pool->frames; f++) {
    enum kvl_node_state state = (enum kvl_node_state)pool->node[f].state;
    d->real_state[f] = kvl_bitset_has(&pool->free, f) ? NAIVE_FREE : state == KVL_NODE_LENT ? NAIVE_LENT : NAIVE_RETIRING;
  }
  for (uint32_t r = 0; r < d->config.requests_max; r++) {
    mark_chain(d, d->real->request[r].reserved, NAIVE_RESERVED);
  }
  for (uint32_t f = 0; f < pool->frames; f++) {
    if (d->real_state[f] != d->naive.frame[f].state) {
      return differ(d, "frame %u is in state %u, not %u", f, d->real_state[f], (unsigned)d->naive.frame[f].state);
    }
  }
  return NULL;
}

static const char *compare_request(struct kvl_driver *d, kvl_request r)
{
  uint32_t pages, complete = naive_complete(&d->naive, r);
  bool mapped = d->config.mode == KVL_MODE_ADAPTIVE;
  int whole, all = mapped || complete == 0;
  const kvl_frame *map = kvl_resid_page_map(d->real, r, &pages, &whole);
  if (pages != (mapped ? complete : 0) || kvl_resid_held(d->real, r) != naive_held(&d->naive, r)) {
    return differ(d, "request %u: %u pages of which %u held, not %u and %u", r, pages, kvl_resid_held(d->real, r), complete,
                  naive_held(&d->naive, r));
  }
  for (uint32_t page = 0; page < pages; page++) {
    int frame = naive_frame_of(&d->naive, r, (kvl_page)page);
    int readable = frame >= 0 && !d->naive.frame[frame].copying ? frame : KVL_NONE;
    all = all && readable >= 0;
    if (map[page] != readable) {
      return differ(d, "request %u page %u is mapped to %d, not %d", r, page, map[page], readable);
    }
  }
  return whole == all ? NULL : differ(d, "request %u: whole is %d", r, whole);
}

/* The copy lags behind some operations, as a plane's does between steps. */
static const char *compare_copy(struct kvl_driver *d, kvl_request r)
{
  uint32_t pages;
  int whole;
  uint64_t version, seen = d->copy[r].version;
  const kvl_frame *map = kvl_resid_page_map(d->real, r, &pages, &whole);
  const uint64_t *changed = kvl_resid_page_map_changes(d->real, r, &version);
  if (pages == 0) { /* ended, or not begun: the next map is a new one */
    d->copy[r].version = 0;
    memset(d->copy[r].frame, 0xff, sizeof d->copy[r].frame);
    return NULL;
  }
  if ((d->operations + r) % 3 != 0) {
    return NULL;
  }
  for (uint32_t page = 0; page < pages; page++) {
    kvl_frame *kept = &d->copy[r].frame[page];
    *kept = changed[page / KVL_MAP_STRETCH] > seen ? map[page] : *kept;
    if (*kept != map[page]) {
      return differ(d, "request %u page %u: the map changed to %d, and its stretch is said to be as in version %llu", r, page, map[page], (unsigned long long)seen);
    }
  }
  d->copy[r].version = version;
  return NULL;
}

/* All of the reserved frames, and some: the lowest ones, ascending. */
static const char *compare_reserved(struct kvl_driver *d, kvl_request r)
{
  kvl_frame got[NAIVE_FRAMES_MAX];
  uint32_t all = 0;
  for (uint32_t f = 0; f < d->config.frames; f++) {
    all += d->naive.frame[f].state == NAIVE_RESERVED && d->naive.frame[f].request == r;
  }
  const uint32_t counts[] = {all, all / 2};
  for (size_t i = 0; all != 0 && i < sizeof counts / sizeof counts[0]; i++) {
    uint32_t n = 0;
    kvl_resid_reserved(d->real, r, got, counts[i]);
    for (uint32_t f = 0; f < d->config.frames && n < counts[i]; f++) {
      if (d->naive.frame[f].state == NAIVE_RESERVED && d->naive.frame[f].request == r && got[n++] != (kvl_frame)f) {
        return differ(d, "request %u: reserved frame %u of %u is %d, not %u", r, n - 1, counts[i], got[n - 1], f);
      }
    }
  }
  return NULL;
}

static const char *compare_usage(struct kvl_driver *d)
{
  struct kvl_resid_usage u;
  const struct naive_world *n = &d->naive;
  uint32_t requests = 0;
  for (uint32_t r = 0; r < d->config.requests_max; r++) {
    requests += n->request[r].active;
  }
  kvl_resid_usage(d->real, &u);
  bool states = u.frames == d->config.frames && u.free == naive_count(n, NAIVE_FREE) && u.reserved == naive_count(n, NAIVE_RESERVED) &&
                u.lent == naive_count(n, NAIVE_LENT) && u.retiring == naive_count(n, NAIVE_RETIRING);
  bool totals = u.requests == requests && u.pages_lent == n->pages_lent && u.pages_revoked == n->pages_revoked &&
                u.pages_given_back == n->pages_given_back;
  return states && totals ? NULL : differ(d, "usage differs (free %u, reserved %u, lent %u, retiring %u)", u.free, u.reserved, u.lent, u.retiring);
}

static const char *compare(struct kvl_driver *d)
{
  d->operations++;
  int fault = kvl_resid_verify(d->real);
  const char *difference = fault != 0 ? differ(d, "verify: %s", kvl_resid_verify_text(fault)) : compare_frames(d);
  for (uint32_t r = 0; difference == NULL && r < d->config.requests_max; r++) {
    difference = compare_request(d, r);
    difference = difference != NULL ? difference : compare_copy(d, r);
    difference = difference != NULL ? difference : compare_reserved(d, r);
  }
  return difference != NULL ? difference : compare_usage(d);
}

/* Mostly room for everything, now and then for a few moves only: then nothing may change. */
static struct kvl_plan random_plan(struct kvl_driver *d)
{
  uint32_t capacity = choose(d, 8) == 0 ? choose(d, 6) : NAIVE_MOVES_MAX;
  if (capacity < NAIVE_MOVES_MAX) {
    d->before = d->naive;
  }
  return (struct kvl_plan){.moves = d->moves, .capacity = capacity};
}

static const char *compare_plan(struct kvl_driver *d, const struct kvl_plan *plan, int got, int want)
{
  if (d->naive.move_count > plan->capacity) {
    want = -ENOBUFS;
    d->naive = d->before;
    d->naive.move_count = 0;
  }
  if (got != want || plan->count != d->naive.move_count) {
    return differ(d, "returned %d with %u moves, not %d with %u", got, plan->count, want, d->naive.move_count);
  }
  for (uint32_t i = 0; i < plan->count; i++) {
    const struct kvl_move *a = &plan->moves[i], *b = &d->naive.moves[i];
    if (a->kind != b->kind || a->request != b->request || a->page != b->page || a->frame != b->frame) {
      return differ(d, "move %u is kind %d of request %u page %d frame %d, not %d, %u, %d, %d", i, (int)a->kind, a->request, a->page, a->frame,
                    (int)b->kind, b->request, b->page, b->frame);
    }
    if (a->kind != KVL_MOVE_REVOKE) {
      d->copies[d->copy_count++] = *a;
    }
  }
  return NULL;
}

static const char *do_admit(struct kvl_driver *d)
{
  d->operation = "admit";
  uint32_t share = d->config.frames / d->config.requests_max;
  uint32_t longest = d->config.pages_max * d->config.tokens_per_page + d->config.tokens_per_page - 1;
  struct kvl_demand demand = {.fixed_frames = choose(d, choose(d, 10) == 0 ? d->config.frames + 2 : share + 1)};
  demand.max_tokens = choose(d, longest + (choose(d, 20) == 0 ? 2 : 1));
  demand.input_tokens = choose(d, 30) == 0 ? demand.max_tokens + 1 : choose(d, demand.max_tokens + 1);
  uint32_t growth = choose(d, 2) ? choose(d, 6) : 0;
  kvl_request got = UINT32_MAX, want = UINT32_MAX;
  struct kvl_plan plan = random_plan(d);
  int got_code = kvl_resid_admit(d->real, &demand, growth, &plan, &got);
  int want_code = naive_admit(&d->naive, &demand, growth, &want);
  const char *difference = compare_plan(d, &plan, got_code, want_code);
  return difference != NULL || got_code != 0 || got == want ? difference : differ(d, "slot %u, not %u", got, want);
}

/* A live request, or requests_max when there is none. */
static kvl_request random_request(struct kvl_driver *d)
{
  uint32_t at = choose(d, d->config.requests_max);
  for (uint32_t i = 0; i < d->config.requests_max; i++) {
    kvl_request r = (at + i) % d->config.requests_max;
    if (d->naive.request[r].active) {
      return r;
    }
  }
  return d->config.requests_max;
}

static uint32_t random_keep(struct kvl_driver *d)
{
  return choose(d, 3) ? choose(d, 4) : choose(d, d->config.frames + 2);
}

static const char *do_populate(struct kvl_driver *d, kvl_request r)
{
  d->operation = "populate";
  uint32_t keep = random_keep(d);
  struct kvl_plan plan = random_plan(d);
  int code = kvl_resid_populate(d->real, r, keep, &plan);
  naive_populate(&d->naive, r, keep);
  return compare_plan(d, &plan, code, 0);
}

static const char *do_give_back(struct kvl_driver *d)
{
  d->operation = "give_back";
  uint32_t keep = random_keep(d);
  struct kvl_plan plan = random_plan(d);
  int code = kvl_resid_give_back(d->real, keep, &plan);
  naive_give_back(&d->naive, keep);
  return compare_plan(d, &plan, code, 0);
}

static const char *do_make_room(struct kvl_driver *d)
{
  d->operation = "make_room";
  uint32_t frames = choose(d, 3) ? choose(d, 8) : choose(d, d->config.frames + 3);
  struct kvl_plan plan = random_plan(d);
  int code = kvl_resid_make_room(d->real, frames, &plan);
  naive_make_room(&d->naive, frames);
  return compare_plan(d, &plan, code, 0);
}

static const char *do_host_complete(struct kvl_driver *d, kvl_request r)
{
  d->operation = "host_complete";
  const struct naive_request *req = &d->naive.request[r];
  uint32_t left = req->max_tokens - req->host_tokens;
  uint32_t tokens = choose(d, 10) == 0 ? choose(d, req->max_tokens + 1) : req->host_tokens + choose(d, (left < 12 ? left : 12) + 1);
  struct kvl_plan plan = random_plan(d);
  int code = kvl_resid_host_complete(d->real, r, tokens, &plan);
  naive_host_complete(&d->naive, r, tokens);
  return compare_plan(d, &plan, code, 0);
}

static void finish_copy(struct kvl_driver *d, uint32_t i)
{
  struct kvl_move move = d->copies[i];
  d->copies[i] = d->copies[--d->copy_count];
  kvl_resid_copy_done(d->real, &move);
  naive_copy_done(&d->naive, &move);
}

/* In any order, and some much later than others. */
static void do_copies(struct kvl_driver *d)
{
  d->operation = "copy_done";
  uint32_t n = choose(d, 3) ? 1 + choose(d, 4) : d->copy_count;
  for (; n > 0 && d->copy_count > 0; n--) {
    finish_copy(d, choose(d, d->copy_count));
  }
}

static void do_step_begun(struct kvl_driver *d)
{
  d->operation = "step_begun";
  if (d->naive.begun - d->naive.done < STEPS_IN_FLIGHT_MAX) {
    uint64_t step = d->naive.begun + 1;
    kvl_resid_step_begun(d->real, step);
    naive_step_begun(&d->naive, step);
  }
}

static void do_step_done(struct kvl_driver *d)
{
  d->operation = "step_done";
  if (d->naive.done < d->naive.begun) {
    uint64_t step = d->naive.done + 1 + choose(d, (uint32_t)(d->naive.begun - d->naive.done));
    kvl_resid_step_done(d->real, step);
    naive_step_done(&d->naive, step);
  }
}

static void do_end(struct kvl_driver *d, kvl_request r)
{
  d->operation = "end";
  kvl_resid_end(d->real, r);
  naive_end(&d->naive, r);
}

static void do_note_selected(struct kvl_driver *d, kvl_request r)
{
  d->operation = "note_selected";
  uint32_t lanes[200] = {0}, count = 1 + choose(d, 200), first = d->config.pages_max == 0 ? 0 : choose(d, d->config.pages_max);
  for (uint32_t n = 1 + choose(d, 8); n > 0; n--) { /* some pages of a stretch that may end past the history */
    lanes[choose(d, count)] = choose(d, 40) == 0 ? UINT32_MAX - choose(d, 3) : choose(d, 4);
  }
  for (uint32_t i = 0; i < count && first + i < d->config.pages_max; i++) {
    naive_note_selected(&d->naive, r, (kvl_page)(first + i), lanes[i]);
  }
  kvl_resid_note_selected(d->real, r, (kvl_page)first, lanes, count);
  for (uint32_t i = 0; i < count; i++) {
    if (lanes[i] != 0) {
      abort(); /* what was noted is cleared */
    }
  }
}

static const char *operate_on(struct kvl_driver *d, kvl_request r, uint32_t operation)
{
  if (operation < 4) {
    return do_populate(d, r);
  }
  if (operation < 8) {
    return do_host_complete(d, r);
  }
  if (operation < 11) {
    do_note_selected(d, r);
  } else {
    do_end(d, r);
  }
  return NULL;
}

const char *kvl_driver_operate(struct kvl_driver *driver)
{
  struct kvl_driver *d = driver;
  uint32_t operation = choose(d, 32);
  kvl_request r = random_request(d);
  const char *difference = NULL;
  if (operation < 6 || (operation < 18 && r == d->config.requests_max)) {
    difference = do_admit(d);
  } else if (operation < 18) {
    difference = operate_on(d, r, operation - 6);
  } else if (operation < 21) {
    difference = do_give_back(d);
  } else if (operation < 23) {
    difference = do_make_room(d);
  } else if (operation < 27) {
    do_copies(d);
  } else if (operation < 30) {
    do_step_begun(d);
  } else {
    do_step_done(d);
  }
  return difference != NULL ? difference : compare(d);
}

const char *kvl_driver_wind_down(struct kvl_driver *driver)
{
  struct kvl_driver *d = driver;
  for (uint32_t r = 0; r < d->config.requests_max; r++) {
    if (d->naive.request[r].active) {
      do_end(d, r);
    }
  }
  while (d->copy_count > 0) {
    finish_copy(d, d->copy_count - 1);
  }
  while (d->naive.done < d->naive.begun) {
    do_step_done(d);
  }
  d->operation = "winding down";
  const char *difference = compare(d);
  bool all_free = naive_count(&d->naive, NAIVE_FREE) == d->config.frames;
  return difference != NULL || all_free ? difference : differ(d, "not every frame is free");
}
