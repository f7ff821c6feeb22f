#include "tests/backend/naive_residency.h"

#include <errno.h>
#include <string.h>

void naive_init(struct naive_world *w, const struct kvl_resid_config *config)
{
  memset(w, 0, sizeof *w);
  w->config = *config;
  memset(w->frame_of, 0xff, sizeof w->frame_of);
}

uint32_t naive_count(const struct naive_world *w, enum naive_state state)
{
  uint32_t n = 0;
  for (uint32_t f = 0; f < w->config.frames; f++) {
    n += w->frame[f].state == state;
  }
  return n;
}

uint32_t naive_held(const struct naive_world *w, kvl_request request)
{
  uint32_t n = 0;
  for (uint32_t f = 0; f < w->config.frames; f++) {
    n += w->frame[f].state == NAIVE_LENT && w->frame[f].request == request;
  }
  return n;
}

uint32_t naive_complete(const struct naive_world *w, kvl_request request)
{
  const struct naive_request *r = &w->request[request];
  bool paged = r->active && r->populated && w->config.mode != KVL_MODE_RESIDENT;
  return paged ? r->host_tokens / w->config.tokens_per_page : 0;
}

int naive_frame_of(const struct naive_world *w, kvl_request request, kvl_page page)
{
  return w->frame_of[request][page];
}

static void settle(struct naive_world *w)
{
  for (uint32_t f = 0; f < w->config.frames; f++) {
    struct naive_frame *frame = &w->frame[f];
    if (frame->state == NAIVE_RETIRING && frame->last_reader <= w->done && !frame->copying) {
      frame->state = NAIVE_FREE;
    }
  }
}

static void give_up(struct naive_world *w, struct naive_frame *frame)
{
  if (frame->state == NAIVE_LENT) {
    w->frame_of[frame->request][frame->page] = -1;
  }
  frame->state = NAIVE_RETIRING;
  frame->last_reader = w->begun;
}

static void record(struct naive_world *w, enum kvl_move_kind kind, kvl_request request, kvl_page page, int frame)
{
  w->moves[w->move_count++] = (struct kvl_move){kind, request, page, frame};
}

static void lend(struct naive_world *w, kvl_request request, kvl_page page, enum kvl_move_kind kind)
{
  uint32_t f = 0;
  while (w->frame[f].state != NAIVE_FREE) {
    f++;
  }
  w->frame[f] = (struct naive_frame){.state = NAIVE_LENT, .request = request, .page = page, .copying = true, .copy_kind = kind};
  w->frame_of[request][page] = (int)f;
  w->pages_lent++;
  w->pages_given_back += kind == KVL_MOVE_GIVE;
  record(w, kind, request, page, (int)f);
}

/* -1: every complete page is held. */
static kvl_page newest_missing(const struct naive_world *w, kvl_request request)
{
  kvl_page page = (kvl_page)naive_complete(w, request) - 1;
  while (page >= 0 && naive_frame_of(w, request, page) >= 0) {
    page--;
  }
  return page;
}

static kvl_page wanted_page(const struct naive_world *w, kvl_request request)
{
  kvl_page best = newest_missing(w, request);
  for (kvl_page page = best; page >= 0 && w->config.give_order == KVL_GIVE_MOST_SELECTED; page--) {
    bool more = w->request[request].selected[page] > w->request[request].selected[best];
    best = more && naive_frame_of(w, request, page) < 0 ? page : best;
  }
  return best;
}

static kvl_page victim_page(const struct naive_world *w, kvl_request request)
{
  kvl_page best = -1;
  for (kvl_page page = 0; page < (kvl_page)naive_complete(w, request); page++) {
    if (naive_frame_of(w, request, page) >= 0) {
      bool less = best >= 0 && w->request[request].selected[page] < w->request[request].selected[best];
      best = best < 0 || (less && w->config.revoke_order == KVL_REVOKE_LEAST_SELECTED) ? page : best;
    }
  }
  return best;
}

static void revoke(struct naive_world *w, uint64_t need)
{
  uint64_t held[NAIVE_REQUESTS_MAX], take[NAIVE_REQUESTS_MAX], total = 0, rest = need;
  bool rounded_up[NAIVE_REQUESTS_MAX] = {false};
  for (uint32_t r = 0; r < w->config.requests_max; r++) {
    held[r] = naive_held(w, r);
    total += held[r];
  }
  for (uint32_t r = 0; need > 0 && r < w->config.requests_max; r++) {
    take[r] = need * held[r] / total;
    rest -= take[r];
  }
  for (; rest > 0; rest--) {
    uint32_t best = NAIVE_REQUESTS_MAX;
    for (uint32_t r = 0; r < w->config.requests_max; r++) {
      bool larger = best == NAIVE_REQUESTS_MAX || need * held[r] % total > need * held[best] % total;
      best = larger && !rounded_up[r] && take[r] < held[r] ? r : best;
    }
    rounded_up[best] = true;
    take[best]++;
  }
  for (uint32_t r = 0; need > 0 && r < w->config.requests_max; r++) {
    for (; take[r] > 0; take[r]--) {
      kvl_page page = victim_page(w, r);
      int f = naive_frame_of(w, r, page);
      give_up(w, &w->frame[f]);
      w->pages_revoked++;
      record(w, KVL_MOVE_REVOKE, r, page, f);
    }
  }
  settle(w);
}

static uint64_t need_for(const struct naive_world *w, uint64_t frames)
{
  uint64_t coming = naive_count(w, NAIVE_FREE) + naive_count(w, NAIVE_RETIRING);
  uint64_t lent = naive_count(w, NAIVE_LENT);
  uint64_t need = frames > coming ? frames - coming : 0;
  return need < lent ? need : lent;
}

int naive_admit(struct naive_world *w, const struct kvl_demand *demand, uint32_t growth, kvl_request *request)
{
  w->move_count = 0;
  if (demand->input_tokens > demand->max_tokens) {
    return -EINVAL;
  }
  uint32_t pages = w->config.mode != KVL_MODE_ADAPTIVE ? 0 : demand->max_tokens / w->config.tokens_per_page;
  if (demand->fixed_frames > w->config.frames || pages > w->config.pages_max) {
    return -E2BIG;
  }
  uint32_t slot = 0;
  while (slot < w->config.requests_max && w->request[slot].active) {
    slot++;
  }
  if (slot == w->config.requests_max) {
    return -EUSERS;
  }
  if (demand->fixed_frames <= w->config.frames - naive_count(w, NAIVE_RESERVED)) {
    revoke(w, need_for(w, (uint64_t)demand->fixed_frames + growth));
  }
  if (naive_count(w, NAIVE_FREE) < demand->fixed_frames) {
    return -EAGAIN;
  }
  for (uint32_t f = 0, n = 0; n < demand->fixed_frames; f++) {
    if (w->frame[f].state == NAIVE_FREE) {
      w->frame[f] = (struct naive_frame){.state = NAIVE_RESERVED, .request = slot};
      n++;
    }
  }
  w->request[slot] = (struct naive_request){.active = true, .input_tokens = demand->input_tokens, .max_tokens = demand->max_tokens};
  *request = slot;
  return 0;
}

static uint32_t spare(const struct naive_world *w, uint32_t keep_free)
{
  uint32_t free = naive_count(w, NAIVE_FREE);
  return free > keep_free ? free - keep_free : 0;
}

void naive_populate(struct naive_world *w, kvl_request request, uint32_t keep_free)
{
  struct naive_request *r = &w->request[request];
  w->move_count = 0;
  r->populated = true;
  r->host_tokens = r->host_tokens > r->input_tokens ? r->host_tokens : r->input_tokens;
  while (w->config.mode == KVL_MODE_ADAPTIVE && spare(w, keep_free) > 0 && newest_missing(w, request) >= 0) {
    lend(w, request, newest_missing(w, request), KVL_MOVE_POPULATE);
  }
}

void naive_host_complete(struct naive_world *w, kvl_request request, uint32_t tokens)
{
  struct naive_request *r = &w->request[request];
  uint32_t before = naive_complete(w, request);
  w->move_count = 0;
  r->host_tokens = r->host_tokens > tokens ? r->host_tokens : tokens;
  for (kvl_page page = (kvl_page)naive_complete(w, request) - 1; page >= (kvl_page)before; page--) {
    if (w->config.mode == KVL_MODE_ADAPTIVE && spare(w, 0) > 0) {
      lend(w, request, page, KVL_MOVE_KEEP);
    }
  }
}

static bool populating(const struct naive_world *w, kvl_request request)
{
  for (uint32_t f = 0; f < w->config.frames; f++) {
    const struct naive_frame *frame = &w->frame[f];
    if (frame->state == NAIVE_LENT && frame->request == request && frame->copying && frame->copy_kind == KVL_MOVE_POPULATE) {
      return true;
    }
  }
  return false;
}

static bool takes_part(const struct naive_world *w, kvl_request request)
{
  const struct naive_request *r = &w->request[request];
  return w->config.mode == KVL_MODE_ADAPTIVE && r->active && r->populated && !populating(w, request) && newest_missing(w, request) >= 0;
}

static uint32_t missing_count(const struct naive_world *w, kvl_request request)
{
  return naive_complete(w, request) - naive_held(w, request);
}

void naive_give_back(struct naive_world *w, uint32_t keep_free)
{
  w->move_count = 0;
  for (bool turn = true; turn;) {
    turn = false;
    for (uint32_t r = 0; r < w->config.requests_max; r++) {
      bool room = spare(w, keep_free) > 0 && w->move_count < w->config.give_back_pages_max;
      bool chosen = takes_part(w, r);
      for (uint32_t o = 0; chosen && w->config.give_order == KVL_GIVE_CLOSEST_COMPLETE && o < w->config.requests_max; o++) {
        bool closer = missing_count(w, o) < missing_count(w, r) || (missing_count(w, o) == missing_count(w, r) && o < r);
        chosen = !(takes_part(w, o) && closer);
      }
      if (room && chosen) {
        lend(w, r, wanted_page(w, r), KVL_MOVE_GIVE);
        turn = true;
      }
    }
  }
}

void naive_make_room(struct naive_world *w, uint32_t frames)
{
  w->move_count = 0;
  revoke(w, need_for(w, frames));
}

void naive_copy_done(struct naive_world *w, const struct kvl_move *move)
{
  w->frame[move->frame].copying = false;
  settle(w);
}

void naive_step_begun(struct naive_world *w, uint64_t step)
{
  w->begun = step;
}

void naive_step_done(struct naive_world *w, uint64_t step)
{
  w->done = step;
  settle(w);
}

void naive_end(struct naive_world *w, kvl_request request)
{
  for (uint32_t f = 0; f < w->config.frames; f++) {
    struct naive_frame *frame = &w->frame[f];
    if ((frame->state == NAIVE_LENT || frame->state == NAIVE_RESERVED) && frame->request == request) {
      give_up(w, frame);
    }
  }
  w->request[request] = (struct naive_request){.active = false};
  settle(w);
}

void naive_note_selected(struct naive_world *w, kvl_request request, kvl_page page, uint32_t lanes)
{
  uint64_t sum = (uint64_t)w->request[request].selected[page] + lanes;
  w->request[request].selected[page] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}
