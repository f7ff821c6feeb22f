/* Faults seen in the field (semantics, section 7), as far as they concern pages: none of them may happen here. */
#include <errno.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/base/rng.h"
#include "tests/backend/pool_fixture.h"
#include "tests/base/tap.h"

static const struct kvl_resid_config small = {
  .mode = KVL_MODE_ADAPTIVE, .frames = 8, .requests_max = 4, .pages_max = 8, .tokens_per_page = 4, .give_back_pages_max = 4};

/* Runs `act` in a child: a programming error must stop the program, in every build. */
static bool aborts(void (*act)(struct pool *p), struct pool *p)
{
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    (void)close(STDERR_FILENO);
    act(p);
    _exit(0);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status);
}

static void end_first(struct pool *p)
{
  kvl_resid_end(p->resid, 0);
}

static void land_first(struct pool *p)
{
  kvl_resid_copy_done(p->resid, &p->plan.moves[0]);
}

static void complete_too_much(struct pool *p)
{
  (void)kvl_resid_host_complete(p->resid, 0, 33, &p->plan);
}

START_TEST(a_double_free_is_stopped)
{
  struct pool p = pool_open(small);
  kvl_request r = pool_admitted(&p, 1, 16, 32);
  pool_populate(&p, r, 0);
  ck_assert(aborts(complete_too_much, &p));
  ck_assert(!aborts(land_first, &p)); /* harmless once ... */
  pool_land(&p, &p.plan.moves[0]);
  ck_assert(aborts(land_first, &p)); /* ... and not twice */
  ck_assert(!aborts(end_first, &p));
  pool_end(&p, r);
  ck_assert(aborts(end_first, &p));
  pool_close(&p);
}
END_TEST

START_TEST(nothing_is_freed_under_a_reader)
{
  struct pool p = pool_open(small);
  kvl_request r = pool_running(&p, 2, 24, 32), next;
  pool_step_begun(&p, 1);
  pool_step_begun(&p, 2);
  pool_make_room(&p, 2);
  ck_assert_uint_eq(pool_usage(&p).retiring, 2);
  ck_assert_int_eq(pool_frame(&p, r, 0), KVL_NONE); /* step 3 will not see it */
  pool_step_begun(&p, 3);
  pool_end(&p, r);
  ck_assert_uint_eq(pool_usage(&p).retiring, 8);
  ck_assert_int_eq(pool_admit(&p, 1, 0, 0, 0, &next), -EAGAIN);
  pool_step_done(&p, 1);
  ck_assert_uint_eq(pool_usage(&p).free, 0);
  pool_step_done(&p, 2);
  ck_assert_uint_eq(pool_usage(&p).free, 2); /* revoked before step 3 began */
  pool_step_done(&p, 3);
  ck_assert_uint_eq(pool_usage(&p).free, 8);
  pool_close(&p);
}
END_TEST

START_TEST(nothing_is_freed_under_a_copy)
{
  struct pool p = pool_open(small);
  kvl_request r = pool_admitted(&p, 0, 32, 32), next;
  pool_populate(&p, r, 0);
  struct kvl_move late[8];
  memcpy(late, p.plan.moves, sizeof late);
  pool_end(&p, r); /* aborted in staging */
  ck_assert_uint_eq(pool_usage(&p).retiring, 8);
  ck_assert_int_eq(pool_admit(&p, 1, 32, 32, 0, &next), -EAGAIN);
  pool_land(&p, &late[5]);
  next = pool_admitted(&p, 0, 32, 32);
  ck_assert_uint_eq(next, r); /* the id is in use again */
  pool_populate(&p, next, 0);
  ck_assert_uint_eq(p.plan.count, 1);
  ck_assert_int_eq(p.plan.moves[0].frame, 5);
  for (int i = 0; i < 8; i++) {
    if (i != 5) {
      pool_land(&p, &late[i]); /* and the old copies enter nobody's map */
    }
  }
  for (kvl_page page = 0; page < 8; page++) {
    ck_assert_int_eq(pool_frame(&p, next, page), KVL_NONE);
  }
  pool_land_all(&p);
  ck_assert_int_eq(pool_frame(&p, next, 7), 5);
  ck_assert_uint_eq(pool_usage(&p).free, 7);
  pool_close(&p);
}
END_TEST

START_TEST(a_frame_waits_for_both_its_reader_and_its_copy)
{
  for (int copy_first = 0; copy_first < 2; copy_first++) {
    struct pool p = pool_open(small);
    kvl_request r = pool_admitted(&p, 0, 4, 4);
    pool_populate(&p, r, 0);
    pool_step_begun(&p, 1);
    pool_end(&p, r);
    if (copy_first) {
      pool_land_all(&p);
    } else {
      pool_step_done(&p, 1);
    }
    ck_assert_uint_eq(pool_usage(&p).retiring, 1);
    if (copy_first) {
      pool_step_done(&p, 1);
    } else {
      pool_land_all(&p);
    }
    ck_assert_uint_eq(pool_usage(&p).free, 8);
    pool_close(&p);
  }
}
END_TEST

START_TEST(a_page_is_readable_only_once_its_bytes_are_there)
{
  struct pool p = pool_open(small);
  kvl_request r = pool_admitted(&p, 0, 8, 12);
  pool_populate(&p, r, 0);
  ck_assert_int_eq(pool_frame(&p, r, 1), KVL_NONE);
  pool_land(&p, &p.plan.moves[0]);
  ck_assert_int_eq(pool_frame(&p, r, 1), 0);
  ck_assert_int_eq(pool_whole(&p, r), 0);
  pool_land(&p, &p.plan.moves[1]);
  ck_assert_int_eq(pool_whole(&p, r), 1);
  pool_host_complete(&p, r, 11);
  ck_assert_uint_eq(p.plan.count, 0); /* inside the page still */
  pool_host_complete(&p, r, 12);
  POOL_EXPECT(&p, {KVL_MOVE_KEEP, r, 2, 2});
  ck_assert_int_eq(pool_whole(&p, r), 0);
  pool_land_all(&p);
  ck_assert_int_eq(pool_whole(&p, r), 1);
  pool_close(&p);
}
END_TEST

/* Reclaimable means: the host copy is complete. */
START_TEST(only_pages_complete_on_the_host_are_lent)
{
  struct pool p = pool_open(small);
  kvl_request r = pool_admitted(&p, 0, 7, 32);
  pool_give_back(&p, 0);
  ck_assert_uint_eq(p.plan.count, 0); /* its history is still under way */
  pool_populate(&p, r, 0);
  POOL_EXPECT(&p, {KVL_MOVE_POPULATE, r, 0, 0});
  pool_give_back(&p, 0);
  ck_assert_uint_eq(p.plan.count, 0); /* its population is not over, and page 1 is not whole */
  pool_host_complete(&p, r, 3); /* known already */
  ck_assert_uint_eq(kvl_resid_held(p.resid, r), 1);
  pool_close(&p);
}
END_TEST

/* Every length: no token, one, one less than a page, a page, the last page. */
START_TEST(every_length_works)
{
  for (uint32_t tokens = 0; tokens <= 35; tokens++) {
    struct pool p = pool_open(small);
    kvl_request r;
    int code = pool_admit(&p, 0, tokens, tokens, 0, &r);
    ck_assert_int_eq(code, 0); /* 35: eight pages and three tokens */
    pool_populate(&p, r, 0);
    ck_assert_uint_eq(p.plan.count, tokens / 4);
    pool_land_all(&p);
    ck_assert_int_eq(pool_whole(&p, r), 1);
    pool_end(&p, r);
    ck_assert_uint_eq(pool_usage(&p).free, 8);
    ck_assert_int_eq(pool_admit(&p, 0, 0, 36, 0, &r), -E2BIG);
    pool_close(&p);
  }
}
END_TEST

START_TEST(many_steps_in_flight_only_delay)
{
  struct pool p = pool_open(small);
  kvl_request r = pool_running(&p, 0, 32, 32);
  for (uint64_t step = 1; step <= 300; step++) {
    pool_step_begun(&p, step);
    if (step % 40 == 0) {
      pool_make_room(&p, (uint32_t)(step / 40));
    }
  }
  for (uint64_t step = 1; step <= 300; step++) {
    pool_step_done(&p, step);
    ck_assert_uint_le(pool_usage(&p).free, step / 40); /* never early */
  }
  ck_assert_uint_eq(pool_usage(&p).free, 7);
  pool_end(&p, r);
  ck_assert_uint_eq(pool_usage(&p).free, 8);
  pool_close(&p);
}
END_TEST

START_TEST(more_steps_than_batches_never_free_early)
{
  struct kvl_resid_config c = small;
  c.frames = c.pages_max = 200;
  struct pool p = pool_open(c);
  (void)pool_running(&p, 0, 800, 800);
  for (uint32_t step = 1; step <= 200; step++) {
    pool_step_begun(&p, step);
    pool_make_room(&p, step);
  }
  ck_assert_uint_eq(pool_usage(&p).retiring, 200);
  for (uint32_t step = 1; step <= 200; step++) {
    pool_step_done(&p, step);
    ck_assert_uint_le(pool_usage(&p).free, step);
  }
  ck_assert_uint_eq(pool_usage(&p).free, 200);
  pool_close(&p);
}
END_TEST

/* One gap between steps, as the engine runs it; returns the moves. */
static uint32_t gap(struct pool *p, uint64_t step, uint32_t growth)
{
  uint32_t moves = 0;
  pool_make_room(p, growth);
  moves += p->plan.count;
  pool_give_back(p, growth);
  moves += p->plan.count;
  pool_land_all(p);
  pool_step_begun(p, step);
  pool_step_done(p, step);
  return moves;
}

/* I7, "flipped 72 times where once was enough". */
START_TEST(constant_load_moves_nothing)
{
  struct kvl_resid_config c = small;
  c.frames = 20;
  struct pool p = pool_open(c);
  for (int i = 0; i < 4; i++) {
    (void)pool_running(&p, 2, 32, 32); /* 8 pages each; 12 frames for 32 */
  }
  uint32_t first = 0, later = 0;
  for (uint64_t step = 1; step <= 500; step++) {
    uint32_t moves = gap(&p, step, 3);
    first += step <= 3 ? moves : 0;
    later += step > 3 ? moves : 0;
  }
  ck_assert_uint_eq(first, 3);
  ck_assert_uint_eq(later, 0);
  pool_close(&p);
}
END_TEST

/* Growing requests: each page that completes costs at most one other page its frame, and none comes back in vain. */
START_TEST(growth_moves_are_bounded_by_what_grows)
{
  enum { REQUESTS = 4, PAGES = 200 };
  struct kvl_resid_config c = small;
  c.frames = 100;
  c.pages_max = PAGES;
  struct pool p = pool_open(c);
  for (int i = 0; i < REQUESTS; i++) {
    (void)pool_running(&p, 2, 160, 4 * PAGES);
  }
  uint64_t moves = 0, grown = 0;
  for (uint32_t step = 1; step <= 4 * PAGES - 160; step++) {
    for (kvl_request r = 0; r < REQUESTS; r++) {
      pool_host_complete(&p, r, 160 + step);
      pool_land_all(&p);
      moves += p.plan.count;
      grown += (160 + step) % 4 == 0;
    }
    moves += gap(&p, step, 4);
  }
  ck_assert_uint_eq(grown, REQUESTS * (PAGES - 40));
  ck_assert_uint_le(moves, 2 * grown + 4);
  pool_close(&p);
}
END_TEST

/* I9: requests of any size that fit alone, in order, in a small pool with steps and copies always in flight: all are served. */
START_TEST(whatever_fits_alone_is_served)
{
  enum { WAITING = 400 };
  struct pool p = pool_open(small);
  struct kvl_rng rng;
  kvl_rng_init(&rng, 9, "queue", 0);
  uint32_t served = 0, left[4] = {0}, fixed = 1 + kvl_rng_below(&rng, 8), gaps = 0;
  for (uint64_t step = 1; served < WAITING; step++, gaps++) {
    kvl_request r;
    if (pool_admit(&p, fixed, 16, 32, 1, &r) == 0) {
      left[r] = 1 + kvl_rng_below(&rng, 20);
      fixed = 1 + kvl_rng_below(&rng, 8);
      served++;
      pool_populate(&p, r, 1);
    } else {
      pool_give_back(&p, fixed + 1); /* keeps what the admission waits for */
    }
    pool_step_begun(&p, step);
    pool_land_all(&p);
    for (r = 0; r < 4; r++) {
      if (left[r] > 0 && --left[r] == 0) {
        pool_end(&p, r);
      }
    }
    pool_step_done(&p, step);
    ck_assert_uint_lt(gaps, WAITING * 25);
  }
  pool_close(&p);
}
END_TEST

KVL_TAP_MAIN("residency_faults", a_double_free_is_stopped, nothing_is_freed_under_a_reader, nothing_is_freed_under_a_copy,
             a_frame_waits_for_both_its_reader_and_its_copy, a_page_is_readable_only_once_its_bytes_are_there,
             only_pages_complete_on_the_host_are_lent, every_length_works, many_steps_in_flight_only_delay,
             more_steps_than_batches_never_free_early, constant_load_moves_nothing, growth_moves_are_bounded_by_what_grows,
             whatever_fits_alone_is_served)
