/* A residency policy with its memory and plan, for unit tests; every call of the policy is followed by verify. */
#ifndef KVL_TESTS_POOL_FIXTURE_H
#define KVL_TESTS_POOL_FIXTURE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backend/residency.h"

struct pool {
  struct kvl_resid_config config;
  struct kvl_resid *resid;
  void *memory;
  size_t bytes;
  struct kvl_plan plan;
};

static inline struct pool pool_open(struct kvl_resid_config config)
{
  struct pool p = {.config = config};
  p.bytes = (kvl_resid_bytes(&config) + 63) / 64 * 64;
  p.memory = aligned_alloc(64, p.bytes);
  ck_assert_ptr_nonnull(p.memory);
  memset(p.memory, 0x5a, p.bytes);
  p.resid = kvl_resid_init(p.memory, &config);
  p.plan.capacity = KVL_PLAN_MOVES(&config);
  p.plan.moves = malloc(p.plan.capacity * sizeof p.plan.moves[0]);
  ck_assert_ptr_nonnull(p.plan.moves);
  return p;
}

static inline void pool_close(struct pool *p)
{
  free(p->plan.moves);
  free(p->memory);
}

static inline void pool_check(const struct pool *p)
{
  int fault = kvl_resid_verify(p->resid);
  ck_assert_msg(fault == 0, "%s", kvl_resid_verify_text(fault));
}

static inline struct kvl_resid_usage pool_usage(const struct pool *p)
{
  struct kvl_resid_usage usage;
  pool_check(p);
  kvl_resid_usage(p->resid, &usage);
  ck_assert_uint_eq(usage.free + usage.reserved + usage.lent + usage.retiring, usage.frames);
  return usage;
}

/* The calls below clear the plan first. */
static inline int pool_admit(struct pool *p, uint32_t fixed, uint32_t input, uint32_t max, uint32_t growth, kvl_request *request)
{
  p->plan.count = 0;
  int code = kvl_resid_admit(p->resid, &(struct kvl_demand){fixed, input, max}, growth, &p->plan, request);
  pool_check(p);
  return code;
}

static inline kvl_request pool_admitted(struct pool *p, uint32_t fixed, uint32_t input, uint32_t max)
{
  kvl_request request;
  ck_assert_int_eq(pool_admit(p, fixed, input, max, 0, &request), 0);
  return request;
}

static inline void pool_populate(struct pool *p, kvl_request request, uint32_t keep_free)
{
  p->plan.count = 0;
  ck_assert_int_eq(kvl_resid_populate(p->resid, request, keep_free, &p->plan), 0);
  pool_check(p);
}

static inline void pool_give_back(struct pool *p, uint32_t keep_free)
{
  p->plan.count = 0;
  ck_assert_int_eq(kvl_resid_give_back(p->resid, keep_free, &p->plan), 0);
  pool_check(p);
}

static inline void pool_make_room(struct pool *p, uint32_t frames)
{
  p->plan.count = 0;
  ck_assert_int_eq(kvl_resid_make_room(p->resid, frames, &p->plan), 0);
  pool_check(p);
}

static inline void pool_host_complete(struct pool *p, kvl_request request, uint32_t tokens)
{
  p->plan.count = 0;
  ck_assert_int_eq(kvl_resid_host_complete(p->resid, request, tokens, &p->plan), 0);
  pool_check(p);
}

static inline void pool_land(struct pool *p, const struct kvl_move *move)
{
  kvl_resid_copy_done(p->resid, move);
  pool_check(p);
}

/* All copies of the last plan are done. */
static inline void pool_land_all(struct pool *p)
{
  for (uint32_t i = 0; i < p->plan.count; i++) {
    if (p->plan.moves[i].kind != KVL_MOVE_REVOKE) {
      pool_land(p, &p->plan.moves[i]);
    }
  }
}

static inline void pool_end(struct pool *p, kvl_request request)
{
  kvl_resid_end(p->resid, request);
  pool_check(p);
}

static inline void pool_step_begun(struct pool *p, uint64_t step)
{
  kvl_resid_step_begun(p->resid, step);
  pool_check(p);
}

static inline void pool_step_done(struct pool *p, uint64_t step)
{
  kvl_resid_step_done(p->resid, step);
  pool_check(p);
}

/* Lets the request in, populates what room allows and lands the copies. */
static inline kvl_request pool_running(struct pool *p, uint32_t fixed, uint32_t tokens, uint32_t max)
{
  kvl_request request = pool_admitted(p, fixed, tokens, max);
  pool_populate(p, request, 0);
  pool_land_all(p);
  return request;
}

static inline kvl_frame pool_frame(const struct pool *p, kvl_request request, kvl_page page)
{
  uint32_t pages;
  int whole;
  const kvl_frame *map = kvl_resid_page_map(p->resid, request, &pages, &whole);
  return (uint32_t)page < pages ? map[page] : KVL_NONE;
}

static inline int pool_whole(const struct pool *p, kvl_request request)
{
  uint32_t pages;
  int whole;
  (void)kvl_resid_page_map(p->resid, request, &pages, &whole);
  return whole;
}

/* The plan holds exactly these moves. */
static inline void pool_expect(const struct pool *p, const struct kvl_move *moves, size_t count)
{
  ck_assert_uint_eq(p->plan.count, count);
  for (size_t i = 0; i < count; i++) {
    const struct kvl_move *got = &p->plan.moves[i];
    ck_assert_msg(got->kind == moves[i].kind && got->request == moves[i].request && got->page == moves[i].page && got->frame == moves[i].frame,
                  "move %zu: kind %d, request %u, page %d, frame %d", i, (int)got->kind, got->request, got->page, got->frame);
  }
}
#define POOL_EXPECT(p, ...)                                                                    \
  do {                                                                                         \
    const struct kvl_move expected_moves[] = {__VA_ARGS__};                                    \
    pool_expect((p), expected_moves, sizeof expected_moves / sizeof expected_moves[0]);        \
  } while (0)

#endif
