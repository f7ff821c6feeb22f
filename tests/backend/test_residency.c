/* Residency policy: the worked example, the orders, and admission's edges. */
#include <errno.h>

#include "tests/backend/pool_fixture.h"
#include "tests/base/tap.h"

static const struct kvl_resid_config small = {
  .mode = KVL_MODE_ADAPTIVE, .frames = 5, .requests_max = 3, .pages_max = 8, .tokens_per_page = 4, .give_back_pages_max = 5};

/* Semantics, section 8: lend 5 pages to requests of 22 and 12 rows, then revoke 3 frames. */
START_TEST(the_worked_example)
{
  struct pool p = pool_open(small);
  kvl_request a = pool_admitted(&p, 0, 22, 32), b = pool_admitted(&p, 0, 12, 32);
  pool_populate(&p, a, 5);
  pool_populate(&p, b, 5);
  ck_assert_uint_eq(p.plan.count, 0);
  pool_give_back(&p, 0);
  POOL_EXPECT(&p, {KVL_MOVE_GIVE, 0, 4, 0}, {KVL_MOVE_GIVE, 1, 2, 1}, {KVL_MOVE_GIVE, 0, 3, 2}, {KVL_MOVE_GIVE, 1, 1, 3}, {KVL_MOVE_GIVE, 0, 2, 4});
  pool_land_all(&p);
  pool_make_room(&p, 3);
  POOL_EXPECT(&p, {KVL_MOVE_REVOKE, 0, 2, 4}, {KVL_MOVE_REVOKE, 0, 3, 2}, {KVL_MOVE_REVOKE, 1, 1, 3});
  ck_assert_uint_eq(pool_usage(&p).free, 3);
  pool_close(&p);
}
END_TEST

/* Held 5, 4, 4, 1 of 14; take 5: 1.79, 1.43, 1.43, .36: the largest remainders are those of request 0 and, of two equals, request 1. */
START_TEST(revocation_is_proportional_with_the_largest_remainder)
{
  struct kvl_resid_config c = small;
  c.frames = 14;
  c.requests_max = 4;
  struct pool p = pool_open(c);
  (void)pool_running(&p, 0, 20, 20);
  (void)pool_running(&p, 0, 16, 16);
  (void)pool_running(&p, 0, 16, 16);
  (void)pool_running(&p, 0, 4, 4);
  pool_make_room(&p, 5);
  const uint32_t left[] = {3, 2, 3, 1};
  for (kvl_request r = 0; r < 4; r++) {
    ck_assert_uint_eq(kvl_resid_held(p.resid, r), left[r]);
  }
  pool_close(&p);
}
END_TEST

START_TEST(equal_shares_go_to_the_lower_id)
{
  struct kvl_resid_config c = small;
  c.frames = 6;
  struct pool p = pool_open(c);
  for (int i = 0; i < 3; i++) {
    (void)pool_running(&p, 0, 8, 8);
  }
  pool_make_room(&p, 2);
  POOL_EXPECT(&p, {KVL_MOVE_REVOKE, 0, 0, 1}, {KVL_MOVE_REVOKE, 1, 0, 3});
  pool_make_room(&p, 2); /* done already */
  ck_assert_uint_eq(p.plan.count, 0);
  pool_make_room(&p, 100); /* all there is, and no more */
  ck_assert_uint_eq(p.plan.count, 4);
  ck_assert_uint_eq(pool_usage(&p).free, 6);
  pool_close(&p);
}
END_TEST

START_TEST(least_selected_pages_go_first_and_most_selected_come_first)
{
  struct kvl_resid_config c = small;
  c.revoke_order = KVL_REVOKE_LEAST_SELECTED;
  c.give_order = KVL_GIVE_MOST_SELECTED;
  struct pool p = pool_open(c);
  kvl_request r = pool_running(&p, 0, 20, 20); /* pages 4..0 in frames 0..4 */
  uint32_t lanes[] = {9, 1, 5, 1, 7}, more = 5;
  kvl_resid_note_selected(p.resid, r, 0, lanes, 5);
  pool_make_room(&p, 3);
  POOL_EXPECT(&p, {KVL_MOVE_REVOKE, r, 1, 3}, {KVL_MOVE_REVOKE, r, 3, 1}, {KVL_MOVE_REVOKE, r, 2, 2});
  kvl_resid_note_selected(p.resid, r, 3, &more, 1); /* 6 now, past page 2 */
  pool_give_back(&p, 1);
  POOL_EXPECT(&p, {KVL_MOVE_GIVE, r, 3, 1}, {KVL_MOVE_GIVE, r, 2, 2});
  pool_close(&p);
}
END_TEST

START_TEST(closest_to_complete_is_finished_first)
{
  struct kvl_resid_config c = small;
  c.frames = 8;
  c.give_order = KVL_GIVE_CLOSEST_COMPLETE;
  c.give_back_pages_max = 4;
  struct pool p = pool_open(c);
  kvl_request far = pool_admitted(&p, 0, 20, 20), near = pool_admitted(&p, 0, 8, 8), nearest = pool_admitted(&p, 0, 4, 4);
  for (kvl_request r = 0; r < 3; r++) {
    pool_populate(&p, r, 8);
  }
  pool_give_back(&p, 0);
  POOL_EXPECT(&p, {KVL_MOVE_GIVE, nearest, 0, 0}, {KVL_MOVE_GIVE, near, 1, 1}, {KVL_MOVE_GIVE, near, 0, 2}, {KVL_MOVE_GIVE, far, 4, 3});
  pool_close(&p);
}
END_TEST

START_TEST(admission_takes_all_or_nothing)
{
  struct pool p = pool_open(small);
  kvl_request r, other;
  ck_assert_int_eq(pool_admit(&p, 6, 4, 8, 0, &r), -E2BIG);
  ck_assert_int_eq(pool_admit(&p, 1, 4, 36, 0, &r), -E2BIG); /* 9 pages */
  ck_assert_int_eq(pool_admit(&p, 1, 9, 8, 0, &r), -EINVAL);
  ck_assert_int_eq(pool_admit(&p, 3, 4, 8, 0, &r), 0);
  ck_assert_uint_eq(pool_usage(&p).reserved, 3);
  ck_assert_int_eq(pool_admit(&p, 3, 4, 8, 0, &other), -EAGAIN);
  ck_assert_uint_eq(pool_usage(&p).reserved, 3);
  ck_assert_uint_eq(pool_usage(&p).free, 2);
  ck_assert_int_eq(pool_admit(&p, 0, 0, 0, 0, &other), 0);
  ck_assert_int_eq(pool_admit(&p, 0, 0, 0, 0, &other), 0);
  ck_assert_int_eq(pool_admit(&p, 0, 0, 0, 0, &other), -EUSERS);
  pool_end(&p, r);
  ck_assert_int_eq(pool_admit(&p, 5, 4, 8, 0, &other), 0);
  ck_assert_uint_eq(other, r); /* the lowest free slot */
  pool_close(&p);
}
END_TEST

START_TEST(admission_revokes_what_it_needs_and_growth)
{
  struct pool p = pool_open(small);
  kvl_request first = pool_running(&p, 0, 20, 20), r;
  ck_assert_uint_eq(kvl_resid_held(p.resid, first), 5);
  ck_assert_int_eq(pool_admit(&p, 2, 4, 8, 1, &r), 0);
  POOL_EXPECT(&p, {KVL_MOVE_REVOKE, first, 0, 4}, {KVL_MOVE_REVOKE, first, 1, 3}, {KVL_MOVE_REVOKE, first, 2, 2});
  ck_assert_uint_eq(pool_usage(&p).free, 1);
  pool_close(&p);
}
END_TEST

/* While frames retire for it, a waiting admission must not take more. */
START_TEST(a_waiting_admission_revokes_once)
{
  struct pool p = pool_open(small);
  kvl_request first = pool_running(&p, 0, 20, 20), r;
  pool_step_begun(&p, 1);
  ck_assert_int_eq(pool_admit(&p, 2, 4, 8, 0, &r), -EAGAIN);
  ck_assert_uint_eq(p.plan.count, 2);
  for (int gap = 0; gap < 10; gap++) {
    ck_assert_int_eq(pool_admit(&p, 2, 4, 8, 0, &r), -EAGAIN);
    ck_assert_uint_eq(p.plan.count, 0);
  }
  pool_step_done(&p, 1);
  ck_assert_int_eq(pool_admit(&p, 2, 4, 8, 0, &r), 0);
  ck_assert_uint_eq(p.plan.count, 0);
  ck_assert_uint_eq(kvl_resid_held(p.resid, first), 3);
  pool_close(&p);
}
END_TEST

START_TEST(an_inadmissible_request_takes_nobodys_pages)
{
  struct pool p = pool_open(small);
  (void)pool_running(&p, 3, 20, 20);
  kvl_request r;
  ck_assert_int_eq(pool_admit(&p, 3, 4, 8, 0, &r), -EAGAIN);
  ck_assert_uint_eq(p.plan.count, 0);
  ck_assert_uint_eq(pool_usage(&p).lent, 2);
  pool_close(&p);
}
END_TEST

static void expect_unchanged(const struct pool *p, const void *before, int code)
{
  ck_assert_int_eq(code, -ENOBUFS);
  ck_assert_uint_eq(p->plan.count, 0);
  ck_assert_mem_eq(p->memory, before, p->bytes);
}

START_TEST(a_plan_without_room_changes_nothing)
{
  struct pool p = pool_open(small);
  void *before = malloc(p.bytes);
  kvl_request a = pool_admitted(&p, 0, 8, 12), b = pool_admitted(&p, 0, 8, 8), c;
  pool_populate(&p, b, 5);
  pool_populate(&p, a, 3);
  pool_land_all(&p);
  p.plan.count = 0;
  p.plan.capacity = 0;
  memcpy(before, p.memory, p.bytes);
  expect_unchanged(&p, before, kvl_resid_give_back(p.resid, 0, &p.plan));
  expect_unchanged(&p, before, kvl_resid_make_room(p.resid, 5, &p.plan));
  expect_unchanged(&p, before, kvl_resid_populate(p.resid, b, 0, &p.plan));
  expect_unchanged(&p, before, kvl_resid_host_complete(p.resid, a, 12, &p.plan));
  expect_unchanged(&p, before, kvl_resid_admit(p.resid, &(struct kvl_demand){5, 4, 4}, 0, &p.plan, &c));
  free(before);
  pool_close(&p);
}
END_TEST

START_TEST(fixed_mode_lends_nothing)
{
  struct kvl_resid_config c = small;
  c.mode = KVL_MODE_FIXED;
  c.pages_max = 0; /* does not matter */
  struct pool p = pool_open(c);
  kvl_request r = pool_running(&p, 1, 3, 1000);
  ck_assert_int_eq(pool_whole(&p, r), 1); /* nothing has left the tail */
  pool_host_complete(&p, r, 16);
  pool_give_back(&p, 0);
  ck_assert_uint_eq(p.plan.count, 0);
  uint32_t pages;
  int whole;
  (void)kvl_resid_page_map(p.resid, r, &pages, &whole);
  ck_assert_uint_eq(pages, 0);
  ck_assert_int_eq(whole, 0);
  pool_close(&p);
}
END_TEST

START_TEST(resident_mode_has_no_pages)
{
  struct kvl_resid_config c = small;
  c.mode = KVL_MODE_RESIDENT;
  struct pool p = pool_open(c);
  kvl_request r = pool_running(&p, 4, 10, 1000); /* pages_max does not matter */
  pool_host_complete(&p, r, 11);
  uint32_t pages;
  int whole;
  (void)kvl_resid_page_map(p.resid, r, &pages, &whole);
  ck_assert_uint_eq(pages, 0);
  ck_assert_int_eq(whole, 1);
  ck_assert_uint_eq(pool_usage(&p).free, 1);
  pool_close(&p);
}
END_TEST

START_TEST(impossible_configurations_have_no_size)
{
  struct kvl_resid_config c = small;
  c.tokens_per_page = 0;
  ck_assert_uint_eq(kvl_resid_bytes(&c), 0);
  c = small;
  c.frames = (uint32_t)INT32_MAX + 1;
  ck_assert_uint_eq(kvl_resid_bytes(&c), 0);
  c = small;
  c.requests_max = (uint32_t)INT32_MAX + 1;
  ck_assert_uint_eq(kvl_resid_bytes(&c), 0);
  c = small;
  c.pages_max = (uint32_t)INT32_MAX + 1;
  ck_assert_uint_eq(kvl_resid_bytes(&c), 0);
}
END_TEST

/* Bytes that are still what pool_open filled the memory with. */
static size_t untouched(const struct pool *p)
{
  size_t count = 0;
  for (size_t i = 0; i < p->bytes; i++) {
    count += ((const unsigned char *)p->memory)[i] == 0x5a;
  }
  return count;
}

START_TEST(memory_is_touched_as_frames_are_used)
{
  struct kvl_resid_config c = small;
  c.mode = KVL_MODE_RESIDENT;
  c.frames = 1000000;
  c.pages_max = 0;
  c.give_back_pages_max = 0;
  struct pool p = pool_open(c);
  ck_assert_uint_ge(untouched(&p), p.bytes / 10 * 9);
  kvl_request r;
  ck_assert_int_eq(pool_admit(&p, 10000, 4, 8, 0, &r), 0);
  ck_assert_uint_ge(untouched(&p), p.bytes / 10 * 9);
  ck_assert_uint_eq(pool_usage(&p).free, 990000);
  ck_assert_int_eq(pool_admit(&p, 990000, 4, 8, 0, &r), 0); /* and all of it can be */
  ck_assert_uint_eq(pool_usage(&p).free, 0);
  pool_close(&p);
}
END_TEST

KVL_TAP_MAIN("residency", the_worked_example, revocation_is_proportional_with_the_largest_remainder, equal_shares_go_to_the_lower_id,
             least_selected_pages_go_first_and_most_selected_come_first, closest_to_complete_is_finished_first, admission_takes_all_or_nothing,
             admission_revokes_what_it_needs_and_growth, a_waiting_admission_revokes_once, an_inadmissible_request_takes_nobodys_pages,
             a_plan_without_room_changes_nothing, fixed_mode_lends_nothing, resident_mode_has_no_pages, memory_is_touched_as_frames_are_used, impossible_configurations_have_no_size)
