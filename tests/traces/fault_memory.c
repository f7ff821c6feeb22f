/* Fails the n-th allocation, for every n until nothing fails: each run ends in -ENOMEM (or a missing object) and a line of words, leaves no file behind, and
 * with the sanitizers on, no byte. Allocations of traces/ are counted by the linker's --wrap. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "tests/base/fault_alloc.h"
#include "trace_make.h"
#include "traces/trace_codec.h"
#include "traces/workload.h"

static char path[256];
static struct kvl_trace_meta meta;

static int write_trace(struct kvl_err *err)
{
  return make_trace(path, &meta, 31, 3, err);
}

static int read_trace(struct kvl_err *err)
{
  struct kvl_trace *trace;
  int code = kvl_trace_open(&trace, path, err);
  if (code == 0)
    code = kvl_trace_check(trace, NULL, err);
  kvl_trace_close(trace);
  return code;
}

static int replay_trace(struct kvl_err *err)
{
  struct kvl_selection_source *source;
  struct kvl_selection_stream *stream = NULL;
  int code = kvl_source_open_trace(&source, path, &meta.shape, 1, err);
  if (code)
    return code;
  stream = kvl_stream_create(source, 1000, 2);
  if (stream) {
    for (uint64_t request = 0; request < 3; request++) {
      kvl_stream_start(stream, request, 500);
      for (uint32_t s = 0; s < 50; s++) {
        const int32_t *rows;
        kvl_stream_step(stream, 500 + s, 2);
        kvl_stream_rows(stream, 1, 1, &rows);
      }
    }
    code = kvl_source_status(source, err);
  } else {
    code = kvl_err_set(err, -ENOMEM, "%s: no stream", path);
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
  return code;
}

static int read_workload(const char *name, struct kvl_err *err)
{
  struct kvl_workload_file *file;
  struct kvl_workload_extent extent;
  int code = kvl_workload_open(&file, name, "auto", err);
  if (code == 0)
    code = kvl_workload_extent(file, &extent, err);
  kvl_workload_close(file);
  return code;
}

static int read_mooncake(struct kvl_err *err)
{
  return read_workload(KVL_DATA "/mooncake-small.jsonl", err);
}

static int read_agent(struct kvl_err *err)
{
  return read_workload(KVL_WORKLOADS "/agent-sample.csv", err);
}

static int use_store(struct kvl_err *err)
{
  struct kvl_prefix_store *store = kvl_prefix_store_create(100000);
  uint64_t block[64];
  int code;
  if (!store)
    return kvl_err_set(err, -ENOMEM, "no store at all");
  for (uint64_t n = 0; n < 200; n++) {
    for (uint64_t i = 0; i < 64; i++)
      block[i] = n * 64 + i;
    kvl_prefix_store_use(store, block, 64);
    if (kvl_prefix_store_use(store, block, 64) != 64) { /* short of memory it is smaller, not wrong */
      kvl_prefix_store_destroy(store);
      return kvl_err_set(err, -EPROTO, "what was just stored is gone");
    }
  }
  code = kvl_prefix_store_status(store);
  if (code)
    kvl_err_set(err, code, "a store that could not grow");
  kvl_prefix_store_destroy(store);
  return code;
}

static const struct {
  const char *name;
  int (*run)(struct kvl_err *err);
} jobs[] = {
  {"write a trace", write_trace},       {"read a trace", read_trace},       {"replay a trace", replay_trace},
  {"read mooncake", read_mooncake},     {"read agent sessions", read_agent}, {"prefix store", use_store},
};

int main(void)
{
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof(path), "%s/kvl-%ld-memory.kvt", folder ? folder : "/tmp", (long)getpid());
  meta = made_meta(31, true);
  for (size_t j = 0; j < sizeof(jobs) / sizeof(jobs[0]); j++) {
    long n = 0;
    for (;; n++) {
      struct kvl_err err = {""};
      int code;
      if (jobs[j].run == write_trace)
        unlink(path);
      fault_alloc_arm(n);
      code = jobs[j].run(&err);
      bool failed = fault_alloc_disarm();
      if (!failed && code == 0)
        break;
      if (!failed || code != -ENOMEM || err.text[0] == '\0') {
        printf("%s, allocation %ld: code %d, '%s'\n", jobs[j].name, n, code, err.text);
        return 1;
      }
      if (jobs[j].run == write_trace && access(path, F_OK) == 0) {
        printf("%s, allocation %ld: a file was left\n", jobs[j].name, n);
        return 1;
      }
    }
    printf("%s: each of %ld allocations may fail\n", jobs[j].name, n);
    if (n < 2)
      return 1;
  }
  unlink(path);
  return 0;
}
