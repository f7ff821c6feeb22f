/* Who submits when: closed loop, open loop, workload files. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/load.h"
#include "tests/base/tap.h"

static struct kvl_scenario s;
static char path[64];

static void begin(enum kvl_workload_kind kind)
{
  memset(&s, 0, sizeof s);
  s.workload.kind = kind;
  s.workload.requests = 10;
  s.workload.input_tokens = 100;
  s.workload.output_tokens = 7;
  s.workload.rate_per_s = 100;
  s.workload.gamma_cv = 2;
  s.workload.time_scale = 1;
  s.workload.concurrency = 3;
  s.seed = 1;
  (void)snprintf(s.workload.format, sizeof s.workload.format, "auto");
}

static struct kvl_load *open_load(void)
{
  struct kvl_load *load = NULL;
  struct kvl_err err = {""};
  int rc = kvl_load_create(&load, &s, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  return load;
}

static void write_file(const char *text)
{
  (void)snprintf(path, sizeof path, "/tmp/kvl-load-XXXXXX");
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
  begin(KVL_WORK_FILE);
  s.workload.requests = 0;
  (void)snprintf(s.workload.path, sizeof s.workload.path, "%s", path);
}

/* Takes what is due at `at`; nothing is due before. */
static struct kvl_request_spec take(struct kvl_load *load, uint64_t at)
{
  struct kvl_request_spec spec = {0};
  struct kvl_err err = {""};
  ck_assert_uint_eq(kvl_load_next_ns(load), at);
  if (at != 0) {
    ck_assert_int_eq(kvl_load_take(load, at - 1, &spec, &err), 0);
  }
  int rc = kvl_load_take(load, at, &spec, &err);
  ck_assert_msg(rc == 1, "%d: %s", rc, err.text);
  ck_assert_uint_eq(spec.time_ns, at);
  return spec;
}

static void done(struct kvl_load *load, uint64_t session, uint32_t chain, uint64_t now)
{
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_load_done(load, session, chain, now, &err), 0);
}

START_TEST(closed_loop)
{
  begin(KVL_WORK_CLOSED);
  s.workload.requests = 5;
  struct kvl_load *load = open_load();
  ck_assert_uint_eq(kvl_load_total(load), 5);
  ck_assert_uint_eq(kvl_load_tokens_max(load), 107);
  for (uint64_t i = 0; i < 3; i++) {
    struct kvl_request_spec spec = take(load, 0);
    ck_assert_uint_eq(spec.session, i);
    ck_assert(spec.input_tokens == 100 && spec.output_tokens == 7 && spec.block_count == 0);
  }
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX); /* three in flight */
  done(load, 1, 0, 500);
  (void)take(load, 500);
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX);
  done(load, 0, 0, 700);
  done(load, 2, 0, 700);
  ck_assert(!kvl_load_exhausted(load));
  (void)take(load, 700);
  ck_assert(kvl_load_exhausted(load));
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX); /* there is no sixth */
  kvl_load_destroy(load);
}
END_TEST

/* Sessions open 100 ns apart; the first, served at 150, goes on at once and not behind the others. */
START_TEST(closed_loop_opens_one_by_one)
{
  begin(KVL_WORK_CLOSED);
  s.workload.open_interval_ns = 100;
  s.workload.requests = 6;
  struct kvl_load *load = open_load();
  (void)take(load, 0);
  (void)take(load, 100);
  done(load, 0, 0, 150);
  (void)take(load, 150);
  done(load, 1, 0, 200);
  (void)take(load, 200); /* the third opens as the second is served */
  (void)take(load, 200);
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX);
  done(load, 2, 0, 900);
  (void)take(load, 900);
  ck_assert(kvl_load_exhausted(load));
  kvl_load_destroy(load);
}
END_TEST

static double arrivals(uint64_t *hash, double *cv)
{
  struct kvl_load *load = open_load();
  double last = 0, sum = 0, squares = 0;
  *hash = 0;
  for (uint64_t i = 0; i < s.workload.requests; i++) {
    struct kvl_request_spec spec;
    struct kvl_err err;
    uint64_t at = kvl_load_next_ns(load);
    if (kvl_load_take(load, at, &spec, &err) != 1 || spec.time_ns != at) {
      ck_abort_msg("request %llu is not there when it is due", (unsigned long long)i);
    }
    double gap = (double)at - last;
    sum += gap;
    squares += gap * gap;
    last = (double)at;
    *hash = *hash * 31 + at;
  }
  double n = (double)s.workload.requests, mean = sum / n;
  *cv = sqrt(squares / n - mean * mean) / mean;
  kvl_load_destroy(load);
  return mean;
}

START_TEST(open_loops)
{
  uint64_t first, again, other;
  double cv;
  begin(KVL_WORK_POISSON);
  s.workload.requests = 20000;
  double mean = arrivals(&first, &cv);
  ck_assert_msg(fabs(mean / 1e7 - 1) < 0.02 && fabs(cv - 1) < 0.02, "mean %g, cv %g", mean, cv);
  (void)arrivals(&again, &cv);
  ck_assert_uint_eq(first, again);
  s.seed = 2;
  (void)arrivals(&other, &cv);
  ck_assert_uint_ne(first, other);
  begin(KVL_WORK_GAMMA);
  s.workload.requests = 20000;
  for (int i = 0; i < 3; i++) {
    s.workload.gamma_cv = (double[]){0.5, 1, 2}[i];
    mean = arrivals(&first, &cv);
    ck_assert_msg(fabs(mean / 1e7 - 1) < 0.03 && fabs(cv / s.workload.gamma_cv - 1) < 0.04, "gamma %g: mean %g, cv %g", s.workload.gamma_cv, mean, cv);
  }
}
END_TEST

static const char mooncake[] = "{\"timestamp\": 5, \"input_length\": 600, \"output_length\": 10, \"hash_ids\": [3, 4]}\n"
                               "{\"timestamp\": 5, \"input_length\": 40, \"output_length\": 0, \"hash_ids\": [3]}\n"
                               "{\"timestamp\": 25, \"input_length\": 1000, \"output_length\": 300, \"hash_ids\": [3, 9]}\n";

START_TEST(mooncake_times)
{
  write_file(mooncake);
  struct kvl_load *load = open_load();
  ck_assert_uint_eq(kvl_load_total(load), 3);
  ck_assert_uint_eq(kvl_load_tokens_max(load), 1300);
  ck_assert_uint_eq(kvl_load_block_tokens(load), 512);
  struct kvl_request_spec spec = take(load, 5000000);
  ck_assert(spec.input_tokens == 600 && spec.output_tokens == 10 && spec.block_count == 2 && spec.block[0] == 3 && spec.block[1] == 4);
  spec = take(load, 5000000);
  ck_assert(spec.input_tokens == 40 && spec.output_tokens == 0 && spec.block_count == 1 && spec.block[0] == 3 && spec.session == 1);
  spec = take(load, 25000000);
  ck_assert(spec.block_count == 2 && spec.block[1] == 9);
  ck_assert(kvl_load_exhausted(load));
  kvl_load_destroy(load);
  s.workload.time_scale = 0.5;
  s.workload.requests = 2;
  load = open_load();
  ck_assert_uint_eq(kvl_load_total(load), 2);
  (void)take(load, 2500000);
  (void)take(load, 2500000);
  ck_assert(kvl_load_exhausted(load));
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX);
  kvl_load_destroy(load);
  (void)unlink(path);
}
END_TEST

/* Session a: the main loop thinks 3 s before its second request, and a sub-agent starts at 1 s. Session b: one request. Session c: two. */
static const char agent[] = "trace,agent,t_s,type,in_tok,out_tok,blocks64,lcp_prev_blocks,seen_prefix_blocks,api_s,think_s,out_types\n"
                            "a,0,0,n,130,5,2,0,0,,0,x\n"
                            "a,0,9,n,200,6,3,2,2,,3,x\n"
                            "a,1,1,s,70,7,1,0,1,,0,x\n"
                            "b,0,0,n,64,8,1,0,0,,0,x\n"
                            "c,0,0,n,64,9,1,0,0,,0,x\n"
                            "c,0,2,n,65,10,1,1,1,,0.5,x\n";
#define SECOND UINT64_C(1000000000)

START_TEST(agent_chains_and_think_time)
{
  write_file(agent);
  s.workload.concurrency = 1;
  s.workload.prefix_store_bytes = 1000; /* block lists are kept */
  struct kvl_load *load = open_load();
  ck_assert_uint_eq(kvl_load_total(load), 6);
  ck_assert_uint_eq(kvl_load_block_tokens(load), 64);
  struct kvl_request_spec spec = take(load, 0);
  ck_assert(spec.input_tokens == 130 && spec.chain == 0 && spec.block_count == 2);
  uint64_t block = spec.block[0];
  spec = take(load, SECOND); /* the sub-agent, beside the main loop */
  ck_assert(spec.input_tokens == 70 && spec.chain == 1 && spec.block_count == 1);
  ck_assert_uint_eq(spec.block[0], block);
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX);
  done(load, 0, 0, 20 * SECOND);
  spec = take(load, 23 * SECOND); /* as late as it was served, plus think time */
  ck_assert(spec.input_tokens == 200 && spec.block_count == 3 && spec.block[0] == block);
  done(load, 0, 1, 24 * SECOND);
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX); /* one session at a time */
  done(load, 0, 0, 30 * SECOND);
  spec = take(load, 30 * SECOND);
  ck_assert(spec.session == 1 && spec.output_tokens == 8);
  done(load, 1, 0, 31 * SECOND);
  spec = take(load, 31 * SECOND);
  ck_assert(spec.session == 2 && spec.output_tokens == 9);
  done(load, 2, 0, 40 * SECOND);
  spec = take(load, 40 * SECOND + SECOND / 2);
  ck_assert(spec.output_tokens == 10);
  ck_assert(kvl_load_exhausted(load));
  done(load, 2, 0, 41 * SECOND);
  kvl_load_destroy(load);
  (void)unlink(path);
}
END_TEST

START_TEST(agent_sessions_side_by_side)
{
  write_file(agent);
  s.workload.concurrency = 0; /* all */
  s.workload.time_scale = 0.1;
  struct kvl_load *load = open_load();
  static const uint32_t output[] = {5, 8, 9};
  for (int i = 0; i < 3; i++) {
    ck_assert_uint_eq(take(load, 0).output_tokens, output[i]);
  }
  done(load, 2, 0, 7);
  ck_assert_uint_eq(take(load, 50000007).output_tokens, 10); /* half a second of think time, scaled */
  ck_assert_uint_eq(take(load, 100000000).output_tokens, 7);
  done(load, 0, 0, 200000000);
  ck_assert_uint_eq(take(load, 500000000).output_tokens, 6);
  ck_assert(kvl_load_exhausted(load));
  kvl_load_destroy(load);

  s.workload.requests = 4; /* the limit cuts sessions short */
  s.workload.concurrency = 2;
  s.workload.time_scale = 1;
  load = open_load();
  ck_assert_uint_eq(kvl_load_total(load), 4);
  (void)take(load, 0);
  ck_assert_uint_eq(take(load, 0).output_tokens, 8);
  done(load, 1, 0, 10);
  ck_assert_uint_eq(take(load, 10).output_tokens, 9); /* session c in b's place */
  (void)take(load, SECOND);
  ck_assert(kvl_load_exhausted(load));
  done(load, 0, 0, 2 * SECOND);
  done(load, 2, 0, 2 * SECOND);
  ck_assert_uint_eq(kvl_load_next_ns(load), UINT64_MAX);
  kvl_load_destroy(load);
  (void)unlink(path);
}
END_TEST

static int refused(struct kvl_err *err)
{
  struct kvl_load *load = NULL;
  int rc = kvl_load_create(&load, &s, err);
  ck_assert_ptr_null(strchr(err->text, '\n'));
  (void)unlink(path);
  return rc;
}

/* Past the end of simulated time: refused when due, never a time that wrapped. */
START_TEST(too_late)
{
  struct kvl_request_spec spec;
  struct kvl_err err = {""};
  begin(KVL_WORK_POISSON);
  s.workload.rate_per_s = 1e-18;
  struct kvl_load *load = open_load();
  ck_assert_uint_eq(kvl_load_next_ns(load), KVL_TIME_MAX);
  ck_assert_int_eq(kvl_load_take(load, KVL_TIME_MAX, &spec, &err), -ERANGE);
  ck_assert_ptr_nonnull(strstr(err.text, "request 1 of the workload"));
  kvl_load_destroy(load);
  begin(KVL_WORK_CLOSED);
  s.workload.open_interval_ns = UINT64_C(1) << 61;
  load = open_load();
  (void)take(load, 0);
  (void)take(load, UINT64_C(1) << 61);
  ck_assert_int_eq(kvl_load_take(load, KVL_TIME_MAX, &spec, &err), -ERANGE);
  kvl_load_destroy(load);
  write_file(mooncake);
  s.workload.time_scale = 1e15;
  load = open_load();
  ck_assert_int_eq(kvl_load_take(load, KVL_TIME_MAX, &spec, &err), -ERANGE);
  kvl_load_destroy(load);
  (void)unlink(path);
}
END_TEST

START_TEST(bad_files)
{
  struct kvl_err err = {""};
  write_file("");
  ck_assert_int_eq(refused(&err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, path));
  write_file("{\"timestamp\": 5, \"input_length\": 6, \"output_length\": 1, \"hash_ids\": []}\n{\"timestamp\": 4, \"input_length\": 6, \"output_length\": "
             "1, \"hash_ids\": []}\n");
  ck_assert_int_eq(refused(&err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, ":2"));
  begin(KVL_WORK_FILE);
  (void)snprintf(s.workload.path, sizeof s.workload.path, "/nowhere/at/all.jsonl");
  struct kvl_load *load = NULL;
  ck_assert_int_eq(kvl_load_create(&load, &s, &err), -ENOENT);
}
END_TEST

/* The file is cut short after it was looked through: the run ends with one line that names it. */
START_TEST(a_file_that_breaks_in_mid_run)
{
  write_file("");
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  for (int i = 0; i < 40000; i++) {
    fprintf(f, "{\"timestamp\": %d, \"input_length\": 600, \"output_length\": 10, \"hash_ids\": [3, 4]}\n", i);
  }
  ck_assert_int_eq(fclose(f), 0);
  struct kvl_load *load = open_load();
  ck_assert_int_eq(truncate(path, 1500013), 0);
  struct kvl_request_spec spec;
  struct kvl_err err = {""};
  int rc = 1, taken = 0;
  for (; rc == 1 && taken < 40000; taken++) {
    rc = kvl_load_take(load, UINT64_MAX - 1, &spec, &err);
  }
  ck_assert_msg(rc == -EINVAL, "%d after %d requests", rc, taken);
  ck_assert_msg(strstr(err.text, path) != NULL && strchr(err.text, '\n') == NULL, "%s", err.text);
  kvl_load_destroy(load);
  (void)unlink(path);
}
END_TEST

KVL_TAP_MAIN("load", closed_loop, closed_loop_opens_one_by_one, open_loops, mooncake_times, agent_chains_and_think_time, agent_sessions_side_by_side,
             too_late, bad_files, a_file_that_breaks_in_mid_run)
