/* Failing devices, failing allocations, failing disks: every n until the run succeeds. One clear line each time, nothing lost, nothing half written
 * that looks whole. Linked with --wrap for the allocations. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/run.h"
#include "sim/scenario.h"
#include "tests/base/fault_each.h"
#include "tests/base/tap.h"
#include "tests/results/fault_vfs.h"
#include "tests/sim/tiny.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument);

static long threads_left = -1; /* that can still be started; -1: no limit */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument)
{
  if (threads_left == 0) {
    threads_left = -1;
    return EAGAIN;
  }
  threads_left -= threads_left > 0;
  return __real_pthread_create(thread, attributes, main, argument);
}

/* Small, and everything happens in it: lending, revocation, give-back, waiting, pages kept from the tail. */
static void small(struct tiny *t, int variant)
{
  tiny_init(t);
  t->s.workload.requests = 6;
  t->s.workload.concurrency = 3;
  t->s.workload.input_tokens = 40;
  t->s.workload.output_tokens = 12;
  t->s.policy.admission_copy = (enum kvl_admission_copy)(variant % 3);
  t->s.node.decode_gpus = 1 + (uint32_t)variant / 3;
  t->bytes = variant == 2;
  if (variant != 0 && variant != 3) { /* several tokens a step, some of them rejected */
    t->s.speculation.method = KVL_SPECULATION_DSPARK;
    t->s.speculation.drafts = 3;
    t->s.speculation.accepted_mean_milli = 2000;
    (void)snprintf(t->s.speculation.shape, sizeof t->s.speculation.shape, "chat");
    t->s.workload.output_tokens = 24;
  }
  t->verify = false;
  tiny_pools(t, t->s.workload.input_tokens + t->s.workload.output_tokens, 2, 3, 3);
}

START_TEST(device)
{
  static struct tiny t;
  static struct tiny_result r;
  struct fail_config f = {.at = 0};
  small(&t, _i);
  t.fail = &f;
  for (;; f.at++) {
    struct kvl_err err = {""};
    f.calls = 0;
    f.fired = false;
    int rc = tiny_run(&t, &r, &err);
    ck_assert_str_eq(r.report.fault, "");
    if (!f.fired) {
      ck_assert_msg(rc == 0, "%s", err.text);
      break;
    }
    ck_assert_msg(rc == -EIO && strncmp(err.text, "the device failed", 17) == 0, "call %llu: %d, %s", (unsigned long long)f.at, rc, err.text);
  }
  ck_assert_uint_gt(f.at, 100);
  ck_assert_uint_gt(r.engine.summary.pages_revoked + r.engine.summary.pages_given_back, 0);
}
END_TEST

static void write_mooncake(struct tiny *t)
{
  (void)snprintf(t->s.workload.path, sizeof t->s.workload.path, "/tmp/kvl-fault-XXXXXX");
  int fd = mkstemp(t->s.workload.path);
  ck_assert_int_ge(fd, 0);
  static const char text[] = "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 6, \"hash_ids\": [1]}\n"
                             "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 12, \"hash_ids\": [2]}\n"
                             "{\"timestamp\": 1, \"input_length\": 33, \"output_length\": 0, \"hash_ids\": [1]}\n";
  ck_assert_int_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
  (void)close(fd);
  t->s.workload.kind = KVL_WORK_FILE;
  t->s.workload.requests = 0;
  t->s.workload.prefix_store_bytes = 1u << 20;
}

static void write_agent(struct tiny *t)
{
  write_mooncake(t);
  FILE *f = fopen(t->s.workload.path, "w");
  ck_assert_ptr_nonnull(f);
  fputs("trace,agent,t_s,type,in_tok,out_tok,blocks64,lcp_prev_blocks,seen_prefix_blocks,api_s,think_s,out_types\n"
        "a,0,0,n,40,5,0,0,0,,0,x\na,0,1,n,130,4,2,0,0,,0,x\nb,0,0,n,70,6,1,0,0,,0,x\nb,1,0,s,9,3,0,0,0,,0,x\n", f);
  ck_assert_int_eq(fclose(f), 0);
  tiny_pools(t, 134, 2, 3, 3);
}

/* Helpers that cannot be started, one after the other. */
START_TEST(thread)
{
  static struct tiny t;
  static struct tiny_result r;
  small(&t, 0);
  t.threads = 4;
  for (threads_left = 0; threads_left < 3; threads_left++) {
    long n = threads_left;
    struct kvl_err err = {""};
    fault_alloc_arm(1L << 40);
    int rc = tiny_run(&t, &r, &err);
    (void)fault_alloc_disarm();
    ck_assert_msg(rc == -ENOMEM && fault_alloc_live() == 0, "thread %ld: %d, %ld lost: %s", n, rc, fault_alloc_live(), err.text);
    check_one_line(&err);
    threads_left = n;
  }
  struct kvl_err err = {""};
  ck_assert_int_eq(tiny_run(&t, &r, &err), 0);
}
END_TEST

static int run_tiny(void *context, struct kvl_err *err)
{
  static struct tiny_result r;
  return tiny_run(context, &r, err);
}

START_TEST(allocation)
{
  static struct tiny t;
  small(&t, _i);
  t.threads = 2;
  t.no_check = true; /* its own allocations are of no interest */
  if (_i == 1) {
    write_mooncake(&t);
  } else if (_i == 3) {
    write_agent(&t);
  }
  fault_each_allocation(run_tiny, NULL, &t);
  if (t.s.workload.path[0] != '\0') {
    (void)unlink(t.s.workload.path);
  }
}
END_TEST

/* The whole of kvl_run, store included: a scenario from a file. Allocations of SQLite are its own and not failed here. */
static const char *const sets[] = {"workload.kind=closed", "workload.requests=4", "workload.concurrency=2", "workload.input_tokens=600",
                                   "workload.cached_tokens=0", "workload.output_tokens=3", "policy.hot_rows=64", "node.kv_pool_bytes=20000000",
                                   "node.host_pool_bytes=100000000"};

static struct kvl_scenario_doc *load_scenario(void)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, sizeof sets / sizeof sets[0], &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  return doc;
}

static void store_name(char name[64])
{
  (void)snprintf(name, 64, "/tmp/kvl-fault-%ld.db", (long)getpid());
}

static void remove_store(const char *name)
{
  char other[80];
  (void)unlink(name);
  (void)snprintf(other, sizeof other, "%s-wal", name);
  (void)unlink(other);
  (void)snprintf(other, sizeof other, "%s-shm", name);
  (void)unlink(other);
  (void)snprintf(other, sizeof other, "%s-journal", name);
  (void)unlink(other);
}

START_TEST(allocation_in_a_stored_run)
{
  char name[64];
  store_name(name);
  struct kvl_scenario_doc *doc = load_scenario();
  struct kvl_run_options o = {.plane = "model", .store = name, .threads = 1};
  fault_vfs = (struct fault_vfs){.no_sync = 1};
  fault_vfs_install();
  long n = 0, runs = 0;
  for (bool more = true; more; n += n < 60 ? 1 : 5) {
    struct kvl_err err = {""};
    struct kvl_run_result result;
    remove_store(name);
    fault_alloc_arm(n);
    int rc = kvl_run(doc, &o, &result, &err);
    bool fired = more = fault_alloc_disarm();
    runs++;
    ck_assert_msg(fault_alloc_live() == 0, "allocation %ld: %ld lost", n, fault_alloc_live());
    if (fired) {
      ck_assert_msg(rc == -ENOMEM, "allocation %ld: %d, %s", n, rc, err.text);
      check_one_line(&err);
    }
    ck_assert_msg(fired || rc == 0, "%s", err.text);
  }
  ck_assert_int_gt(runs, 30);
  kvl_scenario_free(doc);
  remove_store(name);
}
END_TEST

/* A disk that is full from the n-th write on. A run in the store never reads "complete" then. */
START_TEST(disk)
{
  char name[64];
  store_name(name);
  struct kvl_scenario_doc *doc = load_scenario();
  struct kvl_run_options o = {.plane = "model", .store = name, .threads = 1};
  fault_vfs_install();
  long n = 1;
  for (;; n++) {
    struct kvl_err err = {""};
    struct kvl_run_result result;
    remove_store(name);
    fault_vfs = (struct fault_vfs){.no_sync = 1, .countdown = n, .sticky = 1};
    int rc = kvl_run(doc, &o, &result, &err);
    long failed = fault_vfs.failed;
    fault_vfs.countdown = 0;
    if (rc != 0) {
      check_one_line(&err);
      ck_assert_msg(strstr(err.text, name) != NULL, "write %ld: no file name in '%s'", n, err.text);
    }
    struct kvl_store *store = NULL;
    struct kvl_run_list list = {0};
    struct kvl_store_options read_only = {.read_only = 1};
    struct kvl_err list_err = {""};
    if (kvl_store_open_with(&store, name, &read_only, &list_err) == 0) {
      ck_assert_msg(kvl_store_list(store, &list, &list_err) == 0, "write %ld: %s", n, list_err.text);
      ck_assert_uint_le(list.count, 1);
      if (list.count != 0 && rc != 0 && list.run[0].status == KVL_STORED_COMPLETE) { /* the commit was written, only its sync failed: then it is whole */
        struct kvl_run_rows rows = {0};
        ck_assert_int_eq(kvl_store_rows(store, list.run[0].id, &rows, &list_err), 0);
        ck_assert_msg(list.run[0].has_summary && rows.requests == 4 && kvl_store_check(store, &list_err) == 0, "write %ld: '%s', half of it is there, and it reads complete", n, err.text);
      }
      ck_assert_msg(rc != 0 || (list.count == 1 && list.run[0].status == KVL_STORED_COMPLETE), "write %ld: went well, and is not there", n);
      kvl_run_list_free(&list);
    }
    kvl_store_close(store);
    if (failed == 0) {
      ck_assert_msg(rc == 0, "%s", err.text);
      break;
    }
  }
  ck_assert_int_gt(n, 10);
  kvl_scenario_free(doc);
  remove_store(name);
}
END_TEST

/* ---- the workload file breaks, and the user stops, in mid-run ---- */

struct saboteur {
  const char *path;
  volatile sig_atomic_t stop;
  uint64_t calls;
};

static void cut_the_file(void *context, uint64_t now_ns, uint64_t done, uint64_t total)
{
  struct saboteur *s = context;
  (void)now_ns;
  (void)total;
  if (done >= 20 && s->calls++ == 0) {
    ck_assert_int_eq(truncate(s->path, 300001), 0);
  }
}

START_TEST(workload_breaks)
{
  static struct tiny t;
  static struct tiny_result r;
  small(&t, 0);
  write_mooncake(&t);
  FILE *f = fopen(t.s.workload.path, "w");
  ck_assert_ptr_nonnull(f);
  for (int i = 0; i < 6000; i++) {
    fprintf(f, "{\"timestamp\": %d, \"input_length\": 40, \"output_length\": 2, \"hash_ids\": [1]}\n", i);
  }
  ck_assert_int_eq(fclose(f), 0);
  struct saboteur s = {.path = t.s.workload.path};
  t.progress = cut_the_file;
  t.progress_context = &s;
  struct kvl_err err = {""};
  int rc = tiny_run(&t, &r, &err);
  ck_assert_uint_gt(s.calls, 0);
  ck_assert_int_eq(rc, -EINVAL);
  check_one_line(&err);
  ck_assert_msg(strstr(err.text, s.path) != NULL, "%s", err.text);
  (void)unlink(s.path);
}
END_TEST

static void raise_stop(void *context, uint64_t now_ns, uint64_t done, uint64_t total)
{
  struct saboteur *s = context;
  (void)now_ns;
  (void)total;
  s->stop = done >= 30;
}

static int count_requests(void *context, const struct kvl_request_record *r)
{
  uint64_t *count = context;
  count[r->aborted != 0]++;
  ck_assert_msg(r->aborted || r->last_token_ns >= r->first_token_ns, "request %llu", (unsigned long long)r->id);
  ck_assert_msg(r->last_token_ns != 0 && r->first_token_ns != 0, "request %llu has a time that never was", (unsigned long long)r->id);
  return 0;
}

/* Ends at the next event; every request taken is recorded once; the sums of stored page moves are the summary's. */
START_TEST(stopped)
{
  static struct tiny t;
  static struct tiny_result r;
  char name[64];
  store_name(name);
  remove_store(name);
  small(&t, 1);
  t.s.workload.requests = 100000;
  struct saboteur s = {.stop = 0};
  t.progress = raise_stop;
  t.progress_context = &s;
  t.stop = &s.stop;
  struct kvl_err err = {""};
  int64_t run = 0;
  const struct kvl_run_info info = {.name = "x", .mode = "adaptive", .plane = "model", .scenario_json = "{}", .build = "b", .command = "c"};
  ck_assert_msg(kvl_store_open(&t.store, name, &err) == 0 && kvl_store_run_begin(t.store, &info, &run, &err) == 0, "%s", err.text);
  int rc = tiny_run(&t, &r, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  const struct kvl_summary *sum = &r.engine.summary;
  ck_assert_int_eq(r.engine.status, KVL_RUN_INTERRUPTED);
  ck_assert_uint_ge(sum->requests_completed, 30);
  ck_assert_uint_eq(sum->requests_aborted, 3); /* those in the loop */
  ck_assert_msg(kvl_store_run_end(t.store, run, sum, r.engine.status, &err) == 0, "%s", err.text);
  uint64_t count[2] = {0, 0};
  ck_assert_int_eq(kvl_store_each_request(t.store, run, count_requests, count, &err), 0);
  ck_assert_uint_eq(count[0], sum->requests_completed);
  ck_assert_uint_eq(count[1], sum->requests_aborted);
  kvl_store_close(t.store);
  remove_store(name);
}
END_TEST

static int add_moves(void *context, const struct kvl_move_record *m)
{
  uint64_t *sum = context;
  sum[0] += m->revoked;
  sum[1] += m->populated;
  sum[2] += m->given_back;
  sum[3] += m->kept;
  sum[4] += m->bytes;
  return 0;
}

static int add_points(void *context, const struct kvl_point_counter *p)
{
  uint64_t *lanes = context;
  for (int i = 0; i < KVL_REPORT_TIERS; i++) {
    lanes[i] += p->lanes[i];
  }
  lanes[KVL_REPORT_TIERS] += p->fetched;
  return 0;
}

struct samples {
  uint64_t count, last_ns[8], tokens;
  uint32_t frames;
};

static int check_sample(void *context, const struct kvl_step_sample *s)
{
  struct samples *all = context;
  ck_assert_uint_lt(s->gpu, 8);
  ck_assert_uint_ge(s->time_ns, all->last_ns[s->gpu]);
  ck_assert_uint_eq(s->frames_free + s->frames_reserved + s->frames_lent + s->frames_retiring, all->frames);
  ck_assert(s->resident_share >= 0 && s->resident_share <= 1);
  all->last_ns[s->gpu] = s->time_ns;
  all->tokens += s->batch;
  all->count++;
  return 0;
}

START_TEST(stored_moves_add_up)
{
  static struct tiny t;
  static struct tiny_result r;
  char name[64];
  store_name(name);
  remove_store(name);
  small(&t, _i);
  struct kvl_err err = {""};
  int64_t run = 0;
  const struct kvl_run_info info = {.name = "x", .mode = "adaptive", .plane = "model", .scenario_json = "{}", .build = "b", .command = "c"};
  ck_assert_msg(kvl_store_open(&t.store, name, &err) == 0 && kvl_store_run_begin(t.store, &info, &run, &err) == 0, "%s", err.text);
  ck_assert_msg(tiny_run(&t, &r, &err) == 0, "%s", err.text);
  const struct kvl_summary *sum = &r.engine.summary;
  ck_assert_msg(kvl_store_run_end(t.store, run, sum, r.engine.status, &err) == 0, "%s", err.text);
  uint64_t moves[5] = {0};
  ck_assert_int_eq(kvl_store_each_move(t.store, run, add_moves, moves, &err), 0);
  ck_assert_uint_eq(moves[0], sum->pages_revoked);
  ck_assert_uint_eq(moves[1] + moves[2] + moves[3], sum->pages_lent);
  ck_assert_uint_eq(moves[2], sum->pages_given_back);
  ck_assert_uint_eq(moves[3], r.report.kept);
  ck_assert_uint_eq(moves[4], (r.report.populated + r.report.given) * kvl_page_bytes(&t.s));
  uint64_t lanes[KVL_REPORT_TIERS + 1] = {0};
  ck_assert_int_eq(kvl_store_each_point(t.store, run, add_points, lanes, &err), 0);
  for (int i = 0; i < KVL_REPORT_TIERS; i++) {
    ck_assert_uint_eq(lanes[i], sum->selections_by_tier[i]);
  }
  ck_assert_uint_eq(lanes[KVL_REPORT_TIERS], sum->rows_fetched);
  struct samples samples = {.frames = (uint32_t)(t.s.node.kv_pool_bytes / kvl_page_bytes(&t.s))};
  ck_assert_int_eq(kvl_store_each_sample(t.store, run, check_sample, &samples, &err), 0);
  ck_assert_uint_ge(samples.count, sum->steps); /* few enough to be kept one by one, steps of population alone among them */
  ck_assert_uint_eq(samples.tokens + r.engine.summary.drafts_accepted, t.s.workload.requests * t.s.workload.output_tokens);
  kvl_store_close(t.store);
  remove_store(name);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("engine faults");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, device, 0, 6);
  tcase_add_loop_test(tcase, allocation, 0, 4);
  tcase_add_test(tcase, thread);
  tcase_add_test(tcase, allocation_in_a_stored_run);
  tcase_add_test(tcase, disk);
  tcase_add_test(tcase, workload_breaks);
  tcase_add_test(tcase, stopped);
  tcase_add_loop_test(tcase, stored_moves_add_up, 0, 6);
  return kvl_tap_run_case("engine faults", tcase);
}
