/* Bytes from anywhere through every parser of traces/. The first byte chooses: 0 workload by content, 1 mooncake, 2 agent, 3 a whole trace file,
 * 4 a trace file whose checksums are put right first, 5 the steps of a chunk. Nothing may crash, hang or pass what its own rules forbid; what a reader
 * accepts must survive being written and read again.
 *
 * Built with -Dfuzzing=libfuzzer it is a libFuzzer target; otherwise it replays the files named on the command line, each also cut short and with bytes
 * changed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/rng.h"
#include "tests/traces/trace_make.h"
#include "traces/trace_codec.h"
#include "traces/workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t touched;

static void demand(int holds, const char *what)
{
  if (!holds) {
    fprintf(stderr, "fuzz_traces: %s\n", what);
    abort();
  }
}

static const char *scratch(void)
{
  static char path[256];
  const char *folder = getenv("TMPDIR");
  if (!path[0])
    snprintf(path, sizeof(path), "%s/kvl-%ld-fuzz", folder ? folder : "/tmp", (long)getpid());
  return path;
}

static void put_file(const uint8_t *data, size_t size)
{
  int fd = open(scratch(), O_WRONLY | O_CREAT, 0600); /* no O_TRUNC: some file systems sync a file that was emptied and closed */
  demand(fd >= 0 && write(fd, data, size) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0, "the scratch file cannot be written");
  close(fd);
}

static void one_line(const struct kvl_err *err)
{
  demand(err->text[0] != '\0', "an error without words");
  for (const char *c = err->text; *c; c++)
    demand((unsigned char)*c >= 0x20 && *c != 0x7f, "an error with control characters");
}

static void workload(const uint8_t *data, size_t size, const char *format)
{
  struct kvl_workload_file *file;
  struct kvl_request_spec spec;
  struct kvl_err err = {""};
  uint64_t last_session = 0;
  int code;
  put_file(data, size);
  code = kvl_workload_open(&file, scratch(), format, &err);
  if (code == 0) {
    while ((code = kvl_workload_next(file, &spec, &err)) == 1) {
      uint64_t sum = 0;
      demand(spec.session == last_session || spec.session == last_session + 1, "sessions are not numbered in order");
      demand(spec.input_tokens > 0 && spec.input_tokens <= 100000000 && spec.output_tokens <= 100000000, "absurd tokens");
      demand((uint64_t)spec.block_count * spec.block_tokens < (uint64_t)spec.input_tokens + spec.block_tokens, "more blocks than prompt");
      for (uint32_t i = 0; i < spec.block_count; i++)
        sum = kvl_rng_mix(sum ^ spec.block[i]);
      touched ^= sum; /* the whole list can be read */
      last_session = spec.session;
    }
    kvl_workload_close(file);
  }
  if (code < 0)
    one_line(&err);
}

/* Writes what was read and reads that: the contents must be the same. */
static void copy_trace(struct kvl_trace *trace, uint64_t digest)
{
  char path[300];
  struct kvl_trace_writer *writer;
  struct kvl_trace_totals totals;
  struct kvl_trace_step step;
  struct kvl_trace *copy;
  struct kvl_err err;
  uint32_t session, index, id;
  uint64_t again = 0;
  snprintf(path, sizeof(path), "%s-copy", scratch());
  kvl_trace_totals_of(trace, &totals);
  demand(kvl_trace_writer_create(&writer, path, kvl_trace_meta_of(trace), &err) == 0, "what was read cannot be written: header");
  for (uint32_t s = 0; s < totals.sessions; s++)
    demand(kvl_trace_writer_begin(writer, kvl_trace_session_of(trace, s)->input_tokens, &id, &err) == 0, "what was read cannot be written: session");
  while (kvl_trace_next(trace, &step, &session, &index, &err) == 1)
    demand(kvl_trace_writer_step(writer, session, &step, &err) == 0, "what was read cannot be written: step");
  demand(kvl_trace_writer_finish(writer, &err) == 0, "what was read cannot be written: end");
  demand(kvl_trace_open(&copy, path, &err) == 0 && kvl_trace_check(copy, &again, &err) == 0 && again == digest, "a copy differs");
  kvl_trace_close(copy);
  unlink(path);
}

static void whole_trace(const uint8_t *data, size_t size)
{
  struct kvl_trace *trace;
  struct kvl_err err = {""};
  uint64_t digest;
  int code;
  put_file(data, size);
  code = kvl_trace_open(&trace, scratch(), &err);
  if (code == 0) {
    code = kvl_trace_check(trace, &digest, &err);
    if (code == 0 && digest % 8 == 0) /* not each: writing syncs, which takes milliseconds */
      copy_trace(trace, digest);
    kvl_trace_close(trace);
  }
  if (code)
    one_line(&err);
}

static void fix_sum(uint8_t *data, uint64_t begin, uint64_t end, size_t size)
{
  if (begin <= end && end + KVL_TRACE_SUM_BYTES <= size)
    kvl_put64(data + end, kvl_trace_sum(data + begin, (size_t)(end - begin)));
}

/* Without this, a fuzzer never gets past a checksum. */
static void fixed_trace(const uint8_t *bytes, size_t size)
{
  uint8_t *data = malloc(size + 1);
  uint64_t at, index, end;
  demand(data != NULL, "no memory");
  memcpy(data, bytes, size);
  if (size >= KVL_TRACE_PREFIX_BYTES + KVL_TRACE_FOOTER_BYTES) {
    uint64_t footer = size - KVL_TRACE_FOOTER_BYTES;
    at = KVL_TRACE_PREFIX_BYTES + (uint64_t)kvl_get32(data + 12);
    fix_sum(data, 0, at, size);
    at += KVL_TRACE_SUM_BYTES;
    index = kvl_get64(data + footer);
    fix_sum(data, footer, footer + 24, size);
    if (index < footer && footer - index >= KVL_TRACE_SUM_BYTES)
      fix_sum(data, index, footer - KVL_TRACE_SUM_BYTES, size);
    while (at + KVL_TRACE_CHUNK_HEAD + KVL_TRACE_SUM_BYTES <= index && index <= size) {
      end = at + KVL_TRACE_CHUNK_HEAD + kvl_get32(data + at + 24);
      fix_sum(data, at, end, size);
      at = end + KVL_TRACE_SUM_BYTES;
    }
  }
  whole_trace(data, size);
  free(data);
}

static void chunk(const uint8_t *data, size_t size)
{
  struct kvl_trace_meta meta = made_meta(0, true);
  struct kvl_trace_chunk *c;
  const char *reason;
  size_t at;
  if (size < 3)
    return;
  if (kvl_trace_decode(&c, &meta, 1u + data[0] % 64u, kvl_get16(data + 1), data + 3, size - 3, &at, &reason) == 0) {
    for (uint32_t l = 0; l < c->lists; l++) {
      const int32_t *item;
      uint32_t count = kvl_trace_chunk_list(c, l, &item);
      for (uint32_t i = 0; i < count; i++)
        demand(item[i] >= 0, "a negative item");
    }
    kvl_trace_chunk_free(c);
  } else {
    demand(reason != NULL && at <= size - 3, "no reason, or a place outside");
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0)
    return 0;
  switch (data[0]) {
  case 0: workload(data + 1, size - 1, "auto"); break;
  case 1: workload(data + 1, size - 1, "mooncake"); break;
  case 2: workload(data + 1, size - 1, "agent"); break;
  case 3: whole_trace(data + 1, size - 1); break;
  case 4: fixed_trace(data + 1, size - 1); break;
  case 5: chunk(data + 1, size - 1); break;
  default: break;
  }
  return 0;
}

#ifndef KVL_LIBFUZZER
static void replay(const uint8_t *data, size_t size, uint64_t seed, unsigned rounds)
{
  uint8_t *changed = malloc(size + 1);
  struct kvl_rng rng;
  demand(changed != NULL, "no memory");
  LLVMFuzzerTestOneInput(data, size);
  kvl_rng_init(&rng, seed, "fuzz", size);
  for (unsigned n = 0; n < rounds && size > 1; n++) {
    size_t length = kvl_rng_below(&rng, 4) ? size : 1 + kvl_rng_below(&rng, (uint32_t)size);
    memcpy(changed, data, size);
    for (unsigned changes = kvl_rng_below(&rng, 6); changes > 0; changes--) {
      size_t at = 1 + kvl_rng_below(&rng, (uint32_t)size - 1);
      static const char nasty[] = {0, 1, '-', '9', '"', ',', '\n', '{', '}', '[', ']', '.', 'e', 127, -128, -1};
      switch (kvl_rng_below(&rng, 3)) {
      case 0: changed[at] = (uint8_t)(changed[at] ^ 1u << kvl_rng_below(&rng, 8)); break;
      case 1: changed[at] = (uint8_t)nasty[kvl_rng_below(&rng, sizeof(nasty))]; break;
      default: changed[at] = (uint8_t)kvl_rng_next(&rng); break;
      }
    }
    LLVMFuzzerTestOneInput(changed, length);
  }
  free(changed);
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 2 && strncmp(argv[1], "seed=", 5) == 0 ? strtoull(argv[1] + 5, NULL, 0) : 1;
  int first = argc > 1 && strncmp(argv[1], "seed=", 5) == 0 ? 2 : 1;
  for (int i = first; i < argc; i++) {
    FILE *f = fopen(argv[i], "rb");
    uint8_t *data = malloc(1 << 20);
    size_t size = f && data ? fread(data, 1, 1 << 20, f) : 0;
    demand(f != NULL && data != NULL && size > 0, "a corpus file cannot be read");
    fclose(f);
    replay(data, size, seed, 400);
    free(data);
  }
  unlink(scratch());
  printf("%d corpus files, seed %" PRIu64 "\n", argc - first, seed);
  return argc > first ? 0 : 1;
}
#endif
