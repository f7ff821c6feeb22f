/* Verify must notice: one corruption after the other is planted in a busy pool, and each must be named. */
#include "backend/residency_state.h"
#include "tests/backend/pool_fixture.h"
#include "tests/base/tap.h"

/* Request 0 runs (3 reserved, 8 pages of which some were revoked), 1 is populating, 2 has ended under a step and a copy, slot 3 is idle. */
static struct pool busy_pool(void)
{
  static const struct kvl_resid_config config = {.mode = KVL_MODE_ADAPTIVE, .frames = 140, .requests_max = 4, .pages_max = 70,
    .tokens_per_page = 4, .give_back_pages_max = 4, .revoke_order = KVL_REVOKE_LEAST_SELECTED, .give_order = KVL_GIVE_MOST_SELECTED};
  struct pool p = pool_open(config);
  (void)pool_running(&p, 3, 32, 64);
  kvl_request second = pool_admitted(&p, 5, 16, 64), third = pool_admitted(&p, 70, 8, 8);
  pool_populate(&p, second, 0);
  pool_populate(&p, third, 0);
  pool_end(&p, third); /* two frames drain */
  pool_step_begun(&p, 7);
  pool_make_room(&p, pool_usage(&p).free + pool_usage(&p).retiring + 2);
  ck_assert_uint_eq(p.plan.count, 2);
  ck_assert_uint_eq(pool_usage(&p).retiring, 4);
  return p;
}

static uint32_t held_page(struct kvl_resid *r)
{
  return kvl_bitset_first(&r->request[0].table.held);
}

static struct kvl_frame_node *held_node(struct kvl_resid *r)
{
  return &r->pool.node[r->request[0].table.frame[held_page(r)]];
}

static struct kvl_frame_node *retiring_node(struct kvl_resid *r)
{
  return &r->pool.node[r->pool.batch[r->pool.batch_first].head];
}

static struct kvl_frame_node *draining_node(struct kvl_resid *r)
{
  uint32_t f = 0;
  while (r->pool.node[f].state != KVL_NODE_DRAINING) {
    f++;
  }
  return &r->pool.node[f];
}

static void lose_a_free_frame(struct kvl_resid *r)
{
  kvl_bitset_remove(&r->pool.free, kvl_bitset_first(&r->pool.free));
  r->pool.free_count--;
}

static void lose_it_quietly(struct kvl_resid *r)
{
  lose_a_free_frame(r);
  r->pool.retiring_count++;
}

static void miscount_free(struct kvl_resid *r)
{
  r->pool.free_count++;
}

static void wrong_free_summary(struct kvl_resid *r)
{
  r->pool.free.level[1][0] = 0;
}

static void miscount_lent(struct kvl_resid *r)
{
  r->pool.lent_count++;
  r->pool.retiring_count--;
}

static void free_a_lent_frame(struct kvl_resid *r)
{
  kvl_bitset_add(&r->pool.free, (uint32_t)(held_node(r) - r->pool.node));
  r->pool.free_count++;
  r->pool.retiring_count--;
}

static void free_a_reserved_frame(struct kvl_resid *r)
{
  kvl_bitset_add(&r->pool.free, r->request[0].reserved);
  r->pool.free_count++;
  r->pool.retiring_count--;
}

static void forget_retiring(struct kvl_resid *r)
{
  r->pool.batch[r->pool.batch_first].head = KVL_CHAIN_END;
}

static void cut_a_chain(struct kvl_resid *r)
{
  r->request[1].reserved = KVL_CHAIN_END;
}

static void loop_a_chain(struct kvl_resid *r)
{
  r->pool.node[r->request[0].reserved].next = r->request[0].reserved;
}

static void break_a_chain(struct kvl_resid *r)
{
  r->pool.node[r->request[0].reserved].next = 1000000;
}

static void reserve_less(struct kvl_resid *r)
{
  r->request[0].fixed_frames--;
  r->pool.reserved_count--;
  r->pool.retiring_count++;
}

static void lend_early(struct kvl_resid *r)
{
  struct kvl_page_table *t = &r->request[0].table;
  uint32_t page = held_page(r);
  kvl_frame frame = t->frame[page];
  kvl_bitset_remove(&t->held, page);
  kvl_bitset_add(&t->held, 20); /* complete are 8 */
  t->frame[20] = t->map[20] = frame;
  r->pool.node[frame].of.loan.page = 20;
}

static void forget_tokens(struct kvl_resid *r)
{
  r->request[0].host_tokens -= 4;
}

static void exceed_admission(struct kvl_resid *r)
{
  r->request[0].max_tokens = 31;
}

static void retire_for_a_done_step(struct kvl_resid *r)
{
  r->pool.step_done = 7;
}

static void retire_for_the_future(struct kvl_resid *r)
{
  r->pool.batch[r->pool.batch_first].step = 8;
}

static void finish_a_drained_copy(struct kvl_resid *r)
{
  draining_node(r)->copying = false;
}

static void retiring_counts_as_lent(struct kvl_resid *r)
{
  retiring_node(r)->state = KVL_NODE_LENT;
}

static void lend_to_another(struct kvl_resid *r)
{
  held_node(r)->of.loan.request = 1;
}

static void lend_outside(struct kvl_resid *r)
{
  r->request[0].table.frame[held_page(r)] = 140;
}

static void map_an_arriving_page(struct kvl_resid *r)
{
  struct kvl_page_table *t = &r->request[1].table;
  uint32_t page = kvl_bitset_first(&t->held);
  t->map[page] = t->frame[page];
}

static void map_a_revoked_page(struct kvl_resid *r)
{
  struct kvl_page_table *t = &r->request[0].table;
  t->map[kvl_bitset_first(&t->missing)] = 1;
}

static void hide_a_page(struct kvl_resid *r)
{
  r->request[0].table.map[held_page(r)] = KVL_NONE;
}

static void miss_nothing(struct kvl_resid *r)
{
  kvl_bitset_clear_all(&r->request[0].table.missing);
}

static void hold_and_miss(struct kvl_resid *r)
{
  struct kvl_page_table *t = &r->request[0].table;
  kvl_bitset_remove(&t->missing, kvl_bitset_first(&t->missing));
  kvl_bitset_add(&t->missing, held_page(r));
}

static void miscount_held(struct kvl_resid *r)
{
  r->request[0].table.held_count++;
}

static void miscount_mapped(struct kvl_resid *r)
{
  r->request[0].table.mapped_count++;
}

static void miscount_populating(struct kvl_resid *r)
{
  r->request[1].populating = 0;
}

static void forget_to_give_back(struct kvl_resid *r)
{
  r->request[0].wanted = 0;
  r->wanted_total = 0;
  kvl_bitset_remove(&r->wanting, 0);
}

static void miscount_wanted(struct kvl_resid *r)
{
  r->wanted_total++;
}

static void forget_a_holder(struct kvl_resid *r)
{
  kvl_bitset_remove(&r->holders, 1);
}

static void leave_something(struct kvl_resid *r)
{
  r->request[2].table.complete = 1;
}

static void idle_and_active(struct kvl_resid *r)
{
  kvl_bitset_add(&r->idle, 0);
}

static void miscount_requests(struct kvl_resid *r)
{
  r->requests++;
}

static void lend_in_fixed_mode(struct kvl_resid *r)
{
  r->config.mode = KVL_MODE_FIXED;
}

static void count_quietly(struct kvl_resid *r)
{
  struct kvl_page_table *t = &r->request[0].table;
  (void)kvl_page_table_victim(t); /* the cache is fresh now */
  t->selected[held_page(r)] = 1000;
}

static const struct corruption {
  const char *name;
  void (*plant)(struct kvl_resid *r);
  int fault;
} corruptions[] = {
  {"a free frame vanishes", lose_a_free_frame, KVL_FAULT_SUM},
  {"a free frame vanishes and is counted elsewhere", lose_it_quietly, KVL_FAULT_SUM},
  {"free is miscounted", miscount_free, KVL_FAULT_FREE_SET},
  {"the free set's summary is wrong", wrong_free_summary, KVL_FAULT_FREE_SET},
  {"lent is miscounted", miscount_lent, KVL_FAULT_SUM},
  {"a lent frame is free", free_a_lent_frame, KVL_FAULT_TWO_OWNERS},
  {"a reserved frame is free", free_a_reserved_frame, KVL_FAULT_TWO_OWNERS},
  {"retiring frames are forgotten", forget_retiring, KVL_FAULT_SUM},
  {"reserved frames are forgotten", cut_a_chain, KVL_FAULT_RESERVED},
  {"a chain loops", loop_a_chain, KVL_FAULT_TWO_OWNERS},
  {"a chain leaves the pool", break_a_chain, KVL_FAULT_CHAIN},
  {"less is reserved than was admitted", reserve_less, KVL_FAULT_RESERVED},
  {"a page is lent before it is on the host", lend_early, KVL_FAULT_EARLY_LOAN},
  {"a page's tokens are not on the host", forget_tokens, KVL_FAULT_HOST_TOKENS},
  {"more tokens than admitted", exceed_admission, KVL_FAULT_HOST_TOKENS},
  {"a frame waits for a done step", retire_for_a_done_step, KVL_FAULT_RETIRING},
  {"a frame waits for a step to come", retire_for_the_future, KVL_FAULT_RETIRING},
  {"a frame waits for a done copy", finish_a_drained_copy, KVL_FAULT_RETIRING},
  {"a retiring frame looks lent", retiring_counts_as_lent, KVL_FAULT_CHAIN},
  {"a frame is lent to another", lend_to_another, KVL_FAULT_LOAN},
  {"a page is lent outside the pool", lend_outside, KVL_FAULT_LOAN},
  {"a page is readable before its copy", map_an_arriving_page, KVL_FAULT_MAP},
  {"a revoked page is readable", map_a_revoked_page, KVL_FAULT_MAP},
  {"a held page is not readable", hide_a_page, KVL_FAULT_MAP},
  {"a missing page is forgotten", miss_nothing, KVL_FAULT_PAGE_SETS},
  {"a page is held and missing", hold_and_miss, KVL_FAULT_PAGE_SETS},
  {"held is miscounted", miscount_held, KVL_FAULT_PAGE_SETS},
  {"mapped is miscounted", miscount_mapped, KVL_FAULT_COUNTS},
  {"populating is miscounted", miscount_populating, KVL_FAULT_COUNTS},
  {"give-back forgets a request", forget_to_give_back, KVL_FAULT_GIVE_BACK},
  {"give-back miscounts", miscount_wanted, KVL_FAULT_GIVE_BACK},
  {"revocation forgets a request", forget_a_holder, KVL_FAULT_GIVE_BACK},
  {"an ended request keeps pages", leave_something, KVL_FAULT_ENDED},
  {"a slot is idle and active", idle_and_active, KVL_FAULT_SLOTS},
  {"requests are miscounted", miscount_requests, KVL_FAULT_SLOTS},
  {"pages are lent in fixed mode", lend_in_fixed_mode, KVL_FAULT_MODE},
  {"a cached choice is out of date", count_quietly, KVL_FAULT_RANK},
};

START_TEST(every_corruption_is_named)
{
  bool seen[KVL_FAULT_RANK + 1] = {false};
  for (size_t i = 0; i < sizeof corruptions / sizeof corruptions[0]; i++) {
    struct pool p = busy_pool();
    corruptions[i].plant(p.resid);
    int fault = kvl_resid_verify(p.resid);
    ck_assert_msg(fault == -corruptions[i].fault, "%s: '%s'", corruptions[i].name, kvl_resid_verify_text(fault));
    seen[corruptions[i].fault] = true;
    pool_close(&p);
  }
  for (int fault = 1; fault <= KVL_FAULT_RANK; fault++) {
    ck_assert_msg(seen[fault], "no corruption gives '%s'", kvl_resid_verify_text(fault));
  }
}
END_TEST

START_TEST(every_fault_has_a_text)
{
  for (int fault = 0; fault <= KVL_FAULT_RANK; fault++) {
    ck_assert_str_eq(kvl_resid_verify_text(fault), kvl_resid_verify_text(-fault));
    ck_assert_str_ne(kvl_resid_verify_text(fault), "unknown fault");
    for (int other = 0; other < fault; other++) {
      ck_assert_str_ne(kvl_resid_verify_text(fault), kvl_resid_verify_text(other));
    }
  }
  ck_assert_str_eq(kvl_resid_verify_text(KVL_FAULT_RANK + 1), "unknown fault");
  ck_assert_str_eq(kvl_resid_verify_text(INT32_MIN), "unknown fault");
}
END_TEST

KVL_TAP_MAIN("residency_verify", every_corruption_is_named, every_fault_has_a_text)
