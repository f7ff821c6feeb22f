/* What may be taken of the memory: the system's word, and that of the control groups that a container or a batch job runs in, from made-up trees. */
#define _XOPEN_SOURCE 700 /* nftw */
#include <check.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/memory.h"
#include "tests/base/tap.h"

static char root[64];

/* A file and the folders it lies in. */
static void put(const char *name, const char *text)
{
  char path[512];
  (void)snprintf(path, sizeof path, "%s/%s", root, name);
  for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
  }
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  (void)fputs(text, f);
  ck_assert_int_eq(fclose(f), 0);
}

static void begin(void)
{
  (void)snprintf(root, sizeof root, "/tmp/kvl-memory-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(root));
}

static int forget(const char *path, const struct stat *info, int kind, struct FTW *at)
{
  (void)info;
  (void)kind;
  (void)at;
  return remove(path);
}

static void end(void)
{
  ck_assert_int_eq(nftw(root, forget, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static const char meminfo[] = "MemTotal:       1000000 kB\nMemFree: 5 kB\nMemAvailable:    500000 kB\n";
enum { AVAILABLE = 512000000 };

START_TEST(without_groups)
{
  begin();
  ck_assert_uint_eq(kvl_memory_available(root), UINT64_MAX);
  put("proc/meminfo", meminfo);
  ck_assert_uint_eq(kvl_memory_available(root), AVAILABLE);
  put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memoryless:/\nnonsense\n0::/\n");
  ck_assert_uint_eq(kvl_memory_available(root), AVAILABLE);
  end();
}
END_TEST

/* The least of the group and those above it; caches of files are given up. */
START_TEST(version_2)
{
  begin();
  put("proc/meminfo", meminfo);
  put("proc/self/cgroup", "0::/batch/job_7/step_0\n");
  put("sys/fs/cgroup/batch/job_7/step_0/memory.max", "max\n");
  put("sys/fs/cgroup/batch/job_7/memory.max", "100000\n");
  put("sys/fs/cgroup/batch/job_7/memory.current", "60000\n");
  ck_assert_uint_eq(kvl_memory_available(root), 40000);
  put("sys/fs/cgroup/batch/job_7/memory.stat", "anon 30000\ninactive_file 10000\nactive_file 5000\nfile 20000\n");
  ck_assert_uint_eq(kvl_memory_available(root), 55000);
  put("sys/fs/cgroup/batch/memory.max", "30000\n");
  put("sys/fs/cgroup/batch/memory.current", "10000\n");
  ck_assert_uint_eq(kvl_memory_available(root), 20000);
  put("sys/fs/cgroup/batch/memory.current", "40000\n");
  ck_assert_uint_eq(kvl_memory_available(root), 0);
  put("sys/fs/cgroup/batch/memory.max", "9000000000000\n");
  put("sys/fs/cgroup/batch/job_7/memory.max", "9000000000000\n");
  ck_assert_uint_eq(kvl_memory_available(root), AVAILABLE);
  end();
}
END_TEST

/* A container: the group's own name is not to be seen, its limit is that of the root. */
START_TEST(version_1)
{
  begin();
  put("proc/meminfo", meminfo);
  put("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/0123\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "200000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "150000\n");
  put("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\ntotal_active_file 0\n");
  ck_assert_uint_eq(kvl_memory_available(root), 70000);
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
  ck_assert_uint_eq(kvl_memory_available(root), AVAILABLE);
  end();
}
END_TEST

START_TEST(this_machine)
{
  ck_assert_uint_gt(kvl_memory_available(""), 0);
}
END_TEST

KVL_TAP_MAIN("memory", without_groups, version_2, version_1, this_machine)
