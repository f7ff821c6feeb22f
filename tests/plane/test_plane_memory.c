/* What the host plane says it will take: arenas of all GPUs, histories of all sessions of a closed loop; to the byte, refused in one line. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/bytes.h"
#include "sim/plane_memory.h"
#include "sim/scenario.h"
#include "tests/base/tap.h"

enum { SLOTS = 4, TOKENS = 1999 };
static struct kvl_scenario scenario; /* large */
static struct kvl_err err;

/* Frames of 6,400 bytes; slots of 500 hot, 128 tail, 64 scratch and 5 overflow rows of 100 bytes. */
static const struct kvl_refdev_config device = {
  .slots = SLOTS, .frames = 1000, .page_bytes = 6400, .page_tokens = 64, .caches = 1, .cache = {{.tokens_per_row = 1, .row_bytes = 100}},
  .points = 1, .point = {{.cache = 0, .k = 5}}, .hot_rows = 500, .tail_tokens = 128,
};
enum { ARENA = 1000 * 6400 + SLOTS * (500 + 128 + 64 + 5) * 100, HISTORY = (TOKENS + 1) * 100 };

static void load(const char *more)
{
  const char *sets[] = {"workload.concurrency=3", "workload.requests=9", "node.decode_gpus=1", "workload.rate_per_s=1", more};
  struct kvl_scenario_doc *doc = NULL;
  err.text[0] = '\0';
  int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, 5, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  scenario = *kvl_scenario_of(doc);
  kvl_scenario_free(doc);
}

static void wants(uint64_t bytes)
{
  ck_assert_msg(kvl_plane_memory_check(&scenario, &device, TOKENS, bytes, &err) == 0, "%s", err.text);
  ck_assert_int_eq(kvl_plane_memory_check(&scenario, &device, TOKENS, bytes - 1, &err), -ENOMEM);
}

START_TEST(all_of_it)
{
  ck_assert_uint_eq(kvl_bytes_history(&device, TOKENS), HISTORY);
  load("seed=1");
  wants(ARENA + 3 * HISTORY);
  load("node.decode_gpus=2");
  wants(2 * ARENA + 3 * HISTORY);
  load("workload.requests=2");
  wants(ARENA + 2 * HISTORY);
  load("workload.concurrency=100"); /* no more than there are slots */
  wants(ARENA + SLOTS * HISTORY);
  load("node.host_pool_bytes=800e6"); /* of 361 MB: two */
  wants(ARENA + 2 * HISTORY);
  load("workload.kind=poisson"); /* nobody knows */
  wants(ARENA + HISTORY);
}
END_TEST

START_TEST(one_line)
{
  load("node.decode_gpus=2");
  ck_assert_int_eq(kvl_plane_memory_check(&scenario, &device, TOKENS, 12000000, &err), -ENOMEM);
  ck_assert_msg(strstr(err.text, "published-256.json: the host plane wants 0.01 GB of memory (2 HBM arenas of 0.01 GB, histories of 3 sessions of 0.000 GB), 0.01 GB are "
                                 "available: try a smaller node.kv_pool_bytes, node.decode_gpus, limits.batch_max, workload.concurrency or workload.input_tokens") != NULL,
                "%s", err.text);
  ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

KVL_TAP_MAIN("plane memory", all_of_it, one_line)
