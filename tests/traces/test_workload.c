/* Workload readers: what they make of real rows, and what they say to bad ones. */
#include <errno.h>
#include <inttypes.h>

#include <sys/stat.h>

#include "test_util.h"
#include "traces/decimal.h"
#include "traces/workload.h"

#define MOONCAKE KVL_WORKLOADS "/mooncake-sample.jsonl"
#define AGENT KVL_WORKLOADS "/agent-sample.csv"
#define HEADER "trace,agent,t_s,type,in_tok,out_tok,blocks64,lcp_prev_blocks,seen_prefix_blocks,api_s,think_s,out_types\n"

static struct kvl_workload_file *open_good(const char *path, const char *format)
{
  struct kvl_workload_file *file = NULL;
  struct kvl_err err = {""};
  int code = kvl_workload_open(&file, path, format, &err);
  ck_assert_msg(code == 0, "%s", err.text);
  return file;
}

START_TEST(decimals)
{
  static const struct {
    const char *text;
    unsigned scale;
    int code;
    uint64_t value;
    unsigned used;
  } table[] = {
    {"0", 0, 0, 0, 1},
    {"7.34", 9, 0, UINT64_C(7340000000), 4},
    {"440383.797,", 9, 0, UINT64_C(440383797000000), 10},
    {"007x", 0, 0, 7, 3},
    {"5.", 0, 0, 5, 2},
    {"500.0", 0, 0, 500, 5},
    {"1e3", 0, 0, 1000, 3},
    {"1.5E+3]", 0, 0, 1500, 6},
    {"25e-1", 1, 0, 25, 5},
    {"2.5", 0, -EINVAL, 0, 0},
    {"0.00000000049", 9, 0, 0, 13},
    {"0.0000000005", 9, 0, 1, 12},
    {"18446744073709551615", 0, 0, UINT64_MAX, 20},
    {"18446744073709551616", 0, -ERANGE, 0, 0},
    {"99999999999999999999999", 0, -ERANGE, 0, 0},
    {"100000000000000000000000e-20", 0, 0, 1000, 28},
    {"1e999999999999", 9, -ERANGE, 0, 0},
    {"0e999999999999", 9, 0, 0, 14},
    {"1e-999999999999", 9, 0, 0, 15},
    {"-1", 0, -EDOM, 0, 0},
    {"-0", 0, 0, 0, 2},
    {"-", 0, -EINVAL, 0, 0},
    {"", 0, -EINVAL, 0, 0},
    {".5", 1, -EINVAL, 0, 0},
    {"1e", 0, -EINVAL, 0, 0},
    {"nan", 0, -EINVAL, 0, 0},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    const char *p = table[i].text;
    uint64_t value = 0;
    int code = kvl_decimal_read(&p, table[i].scale, UINT64_MAX, &value);
    ck_assert_msg(code == table[i].code, "'%s': code %d", table[i].text, code);
    ck_assert_msg(value == table[i].value, "'%s': %" PRIu64, table[i].text, value);
    ck_assert_msg(p == table[i].text + table[i].used, "'%s': stopped at %td", table[i].text, p - table[i].text);
  }
  const char *p = "101";
  uint64_t value;
  ck_assert_int_eq(kvl_decimal_read(&p, 0, 100, &value), -ERANGE);
}
END_TEST

START_TEST(mooncake_sample)
{
  struct kvl_workload_file *file = open_good(MOONCAKE, "mooncake");
  struct kvl_workload_extent extent;
  struct kvl_request_spec spec;
  struct kvl_err err;
  for (int pass = 0; pass < 2; pass++) {
    ck_assert_int_eq(kvl_workload_extent(file, &extent, &err), 0);
    ck_assert_uint_eq(extent.requests, 200);
    ck_assert_uint_eq(extent.sessions, 200);
    ck_assert_uint_eq(extent.input_tokens, 2782179);
    ck_assert_uint_eq(extent.output_tokens, 71379);
    ck_assert_uint_eq(extent.tokens_max, 121213);
    ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 1);
    ck_assert_uint_eq(spec.session, 0);
    ck_assert_uint_eq(spec.input_tokens, 6758);
    ck_assert_uint_eq(spec.output_tokens, 500);
    ck_assert_uint_eq(spec.block_tokens, 512);
    ck_assert_uint_eq(spec.block_count, 14);
    ck_assert_uint_eq(spec.block[13], 13);
    ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 1);
    ck_assert_uint_eq(spec.session, 1);
    ck_assert_uint_eq(spec.block[0], 0);
    ck_assert_uint_eq(spec.block[1], 14);
    ck_assert_int_eq(spec.arrival, KVL_ARRIVAL_AT);
  }
  kvl_workload_close(file);
}
END_TEST

START_TEST(mooncake_forms)
{
  /* Any order of keys, unknown keys with anything in them, CRLF, blank lines, a mark at the start, a fraction of a millisecond, no final newline. */
  static const char text[] = "\xef\xbb\xbf\n"
                             "{\"hash_ids\":[],\"x\":{\"a\":[1,\"]}\\\"\",null]},\"output_length\":0,\"timestamp\":12.5,\"input_length\":1}\r\n"
                             "\n"
                             " { \"timestamp\" : 13 , \"y\":-1.5e-3, \"input_length\" : 1024 , \"output_length\" : 7 , \"hash_ids\" : [ 9 , 8 ] } ";
  const char *path = temp_name("forms");
  struct kvl_workload_file *file;
  struct kvl_request_spec spec;
  struct kvl_err err = {""};
  write_bytes(path, text, sizeof(text) - 1);
  file = open_good(path, "auto");
  ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 1);
  ck_assert_uint_eq(spec.time_ns, 12500000);
  ck_assert_uint_eq(spec.block_count, 0);
  ck_assert_uint_eq(spec.output_tokens, 0);
  ck_assert_msg(kvl_workload_next(file, &spec, &err) == 1, "%s", err.text);
  ck_assert_uint_eq(spec.input_tokens, 1024);
  ck_assert_uint_eq(spec.block[1], 8);
  ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 0);
  kvl_workload_close(file);
  unlink(path);
}
END_TEST

START_TEST(agent_sample)
{
  struct kvl_workload_file *file = open_good(AGENT, "agent");
  struct kvl_workload_extent extent;
  struct kvl_request_spec spec;
  struct kvl_err err;
  uint64_t first_block = 0;
  ck_assert_int_eq(kvl_workload_extent(file, &extent, &err), 0);
  ck_assert_uint_eq(extent.requests, 257);
  ck_assert_uint_eq(extent.sessions, 10);
  ck_assert_uint_eq(extent.input_tokens, 21176104);
  ck_assert_uint_eq(extent.tokens_max, 260358 + 0);
  ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 1);
  ck_assert_uint_eq(spec.input_tokens, 71175);
  ck_assert_int_eq(spec.arrival, KVL_ARRIVAL_AT);
  ck_assert_uint_eq(spec.time_ns, 0);
  ck_assert_uint_eq(spec.block_count, 1112);
  first_block = spec.block[1111];
  ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 1);
  ck_assert_int_eq(spec.arrival, KVL_ARRIVAL_AFTER);
  ck_assert_uint_eq(spec.time_ns, UINT64_C(12000000000));
  ck_assert_uint_eq(spec.block_count, 1136);
  ck_assert_uint_eq(spec.block[1111], first_block);
  ck_assert_uint_gt(spec.block[1112], first_block);
  kvl_workload_close(file);
}
END_TEST

/* The sharing that the file states is the sharing of the made-up ids: against a naive re-reading, with block lists written out. */
START_TEST(agent_sharing)
{
  struct row {
    unsigned session, agent, blocks, lcp, seen;
    uint64_t *block;
    bool done;
  } *row = calloc(300, sizeof(*row));
  unsigned rows = 0, session = 0, last_trace = 0, reordered = 0, expected = 0;
  struct kvl_workload_file *file = open_good(AGENT, "agent");
  struct kvl_request_spec spec;
  struct kvl_err err;
  size_t size;
  char *text = read_bytes(AGENT, &size);

  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    unsigned trace, agent, blocks, lcp, seen;
    if (sscanf(line, "%u,%u,%*[^,],%*[^,],%*u,%*u,%u,%u,%u", &trace, &agent, &blocks, &lcp, &seen) != 5)
      continue;
    session += rows > 0 && trace != last_trace;
    last_trace = trace;
    row[rows++] = (struct row){session, agent, blocks, lcp, seen, NULL, false};
  }
  ck_assert_uint_eq(rows, 257);
  for (unsigned n = 0; n < rows; n++) {
    unsigned i = 0;
    ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 1);
    while (row[i].done || row[i].session != spec.session || row[i].agent != spec.chain)
      i++;
    reordered += i != expected;
    while (row[expected].done || expected == i)
      expected++;
    row[i].done = true;
    ck_assert_uint_eq(row[i].blocks, spec.block_count);
    row[i].block = malloc((spec.block_count + 1) * sizeof(uint64_t));
    memcpy(row[i].block, spec.block, spec.block_count * sizeof(uint64_t));
  }
  ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 0);
  ck_assert_uint_gt(reordered, 0); /* the sample has a session whose sub-agent's rows stand apart from their time */
  for (unsigned i = 0; i < rows; i++) {
    unsigned lcp = 0, seen = 0;
    bool previous = true;
    for (unsigned j = i; j-- > 0;) {
      unsigned common = 0;
      while (common < row[i].blocks && common < row[j].blocks && row[i].block[common] == row[j].block[common])
        common++;
      if (row[j].session != row[i].session) {
        ck_assert_uint_eq(common, 0);
        continue;
      }
      seen = common > seen ? common : seen;
      if (row[j].agent == row[i].agent && previous) {
        lcp = common;
        previous = false;
      }
    }
    ck_assert_uint_eq(lcp, row[i].lcp);
    ck_assert_uint_eq(seen, row[i].seen);
  }
  for (unsigned i = 0; i < rows; i++)
    free(row[i].block);
  free(row);
  free(text);
  kvl_workload_close(file);
}
END_TEST

START_TEST(agent_think_time_unknown)
{
  /* Empty think_s: start to start less the service time, never below 0. */
  static const char text[] = HEADER "a,0,0,n,640,5,10,0,0,4,0,x\n"
                                    "a,0,10.25,s,640,5,10,10,10,,,x\n"
                                    "a,0,11,s,640,5,10,10,10,3,,x\n"
                                    "a,0,12,s,640,5,10,10,10,3,,x\n";
  static const uint64_t expected[] = {0, UINT64_C(6250000000), UINT64_C(750000000), 0};
  const char *path = temp_name("think");
  struct kvl_workload_file *file;
  struct kvl_request_spec spec;
  struct kvl_err err;
  write_bytes(path, text, sizeof(text) - 1);
  file = open_good(path, NULL);
  for (unsigned i = 0; i < 4; i++) {
    ck_assert_int_eq(kvl_workload_next(file, &spec, &err), 1);
    ck_assert_uint_eq(spec.time_ns, expected[i]);
  }
  kvl_workload_close(file);
  unlink(path);
}
END_TEST

static const struct {
  const char *content;
  const char *format; /* NULL: auto */
  const char *says;   /* after the file name */
} bad[] = {
  {"", NULL, ": the file is empty"},
  {"\n\n", NULL, ": the file is empty"},
  {HEADER, NULL, ": there is a header but no request"},
  {"hello\n", NULL, ": not a workload file: as mooncake, "},
  {"SQLite format 3", NULL, "looks like an SQLite database"},
  {"\x1f\x8b\x08", NULL, "looks like gzip data"},
  {"{}", "csv", ": unknown workload format 'csv'; did you mean '"},
  {"{}", "agents", "did you mean 'agent'?"},
  {"{}\n", "agent", ": not a workload of format agent: the first line is not the header trace,agent,t_s,... (looks like mooncake)"},
  {HEADER, "mooncake", ": not a workload of format mooncake: the first line is not a JSON object (looks like agent)"},
  {"{}\n", NULL, ":1: timestamp is missing"},
  {"[\n", NULL, "one JSON array"},
  {"{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n", NULL, ":1: hash_ids is missing"},
  {"{\"timestamp\":0,\"input_len\":1,\"output_length\":1,\"hash_ids\":[]}\n", NULL, ":1: input_length is missing (there is 'input_len')"},
  {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}\n", NULL, ":1:14: timestamp is negative"},
  {"{\"timestamp\":0,\"input_length\":-5,\"output_length\":1,\"hash_ids\":[]}\n", NULL, "input_length is negative"},
  {"{\"timestamp\":0,\"input_length\":0,\"output_length\":1,\"hash_ids\":[]}\n", NULL, "input_length is 0"},
  {"{\"timestamp\":0,\"input_length\":1e12,\"output_length\":1,\"hash_ids\":[]}\n", NULL, "input_length is absurdly large"},
  {"{\"timestamp\":0,\"input_length\":\"5\",\"output_length\":1,\"hash_ids\":[]}\n", NULL, "input_length must be a whole number"},
  {"{\"timestamp\":0,\"input_length\":1.5,\"output_length\":1,\"hash_ids\":[]}\n", NULL, "input_length must be a whole number"},
  {"{\"timestamp\":0,\"input_length\":512,\"output_length\":1,\"hash_ids\":[1,2]}\n", NULL,
   ":1: hash_ids has 2 ids, but input_length 512 makes 1 blocks of 512 tokens"},
  {"{\"timestamp\":0,\"input_length\":512,\"output_length\":1,\"hash_ids\":[1;2]}\n", NULL, "',' or ']' is expected in hash_ids"},
  {"{\"timestamp\":0,\"input_length\":512,\"output_length\":1,\"hash_ids\":7}\n", NULL, "hash_ids must be an array"},
  {"{\"timestamp\":0,\"timestamp\":0}\n", NULL, "timestamp is there twice"},
  {"{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]} x\n", NULL, "there is more after the object"},
  {"{\"timestamp\":0,\"input_length\":1,\"output_len", NULL, ":1: the last line is cut off after 43 bytes"},
  {"{\"timestamp\":0,\"x\":[1,{\"y\":2]}\n", NULL, "a bracket without its partner"},
  {"{\"timestamp\":9,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}\n"
   "{\"timestamp\":7,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}\n",
   NULL, ":2: timestamp goes backwards, from 9 to 7 ms"},
  {"{\"timestamp\":9,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}\n{\"timestamp\"", NULL, ":2: the last line is cut off"},
  {"trace,agent,t_s,type\n1,0,0,n\n", NULL, "columns differ"},
  {"1,0,0,n,640,5,10,0,0,1,0,x\n", "agent", "the first line is not the header"},
  {HEADER "1,0,0,n,640,5,10,0,0,1,0,x\n" HEADER, NULL, ":3: the header again"},
  {HEADER "1,0,0,n,640,5,10,0,0,1,0\n", NULL, ":2: out_types is missing: 11 fields, not 12"},
  {HEADER "1,0,0,n,640,5,10,0,0,1,0", NULL, ":2: the last line is cut off: 11 fields of 12"},
  {HEADER "1,0,0,n,640,5,10,0,0,1,0,x,y\n", NULL, ":2: 13 fields, not 12"},
  {HEADER ",0,0,n,640,5,10,0,0,1,0,x\n", NULL, ":2: trace is empty"},
  {HEADER "1,0,0,q,640,5,10,0,0,1,0,x\n", NULL, ":2: type must be n or s, not 'q'"},
  {HEADER "1,-1,0,n,640,5,10,0,0,1,0,x\n", NULL, ":2: agent is negative: -1"},
  {HEADER "1,70000,0,n,640,5,10,0,0,1,0,x\n", NULL, ":2: agent is absurdly large: 70000"},
  {HEADER "1,0,zero,n,640,5,10,0,0,1,0,x\n", NULL, ":2: t_s must be a number, not 'zero'"},
  {HEADER "1,0,0,n,640x,5,10,0,0,1,0,x\n", NULL, ":2: in_tok must be a whole number, not '640x'"},
  {HEADER "1,0,0,n,,5,10,0,0,1,0,x\n", NULL, ":2: in_tok is empty"},
  {HEADER "1,0,0,n,0,5,0,0,0,1,0,x\n", NULL, ":2: in_tok is 0"},
  {HEADER "1,0,0,n,640,5,10,0,0,1,-3,x\n", NULL, ":2: think_s is negative: -3"},
  {HEADER "1,0,0,n,640,5,12,0,0,1,0,x\n", NULL, ":2: blocks64 is 12, but in_tok 640 makes 10 blocks of 64"},
  {HEADER "1,0,0,n,640,5,10,3,3,1,0,x\n", NULL, ":2: lcp_prev_blocks is 3 in the first request of agent 0"},
  {HEADER "1,0,0,n,640,5,10,0,11,1,0,x\n", NULL, ":2: seen_prefix_blocks (11) is more than blocks64 (10)"},
  {HEADER "1,0,0,n,640,5,10,3,2,1,0,x\n", NULL, ":2: lcp_prev_blocks (3) is more than seen_prefix_blocks (2)"},
  {HEADER "1,0,0,n,640,5,10,0,4,1,0,x\n", NULL, ":2: seen_prefix_blocks is 4, but no earlier request of session 1 can have these blocks"},
  {HEADER "1,0,0,n,640,5,10,0,0,1,0,x\n1,0,1,n,1280,5,20,11,11,1,0,x\n", NULL,
   ":3: lcp_prev_blocks is 11, but the previous request of agent 0 has 10 blocks"},
  {HEADER "1,0,5,n,640,5,10,0,0,1,0,x\n1,0,4.5,n,640,5,10,10,10,1,0,x\n", NULL,
   ":3: t_s goes backwards within agent 0 of session 1, from 5.000 to 4.500"},
  {HEADER "1,0,0,n,640,5,10,0,0,1,0,x\n2,0,0,n,640,5,10,0,0,1,0,x\n1,0,9,n,640,5,10,0,0,1,0,x\n", NULL,
   ":4: session 1 comes a second time"},
};

START_TEST(says_what_is_wrong)
{
  const char *path = temp_name("bad");
  struct kvl_workload_file *file = NULL;
  struct kvl_workload_extent extent;
  struct kvl_err err = {""};
  int code;
  write_bytes(path, bad[_i].content, strlen(bad[_i].content));
  code = kvl_workload_open(&file, path, bad[_i].format ? bad[_i].format : "auto", &err);
  if (code == 0)
    code = kvl_workload_extent(file, &extent, &err);
  ck_assert_msg(code == -EINVAL, "case %d: code %d", _i, code);
  ck_assert_msg(strncmp(err.text, path, strlen(path)) == 0, "case %d: the file is not named: %s", _i, err.text);
  ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "case %d: '%s' lacks '%s'", _i, err.text, bad[_i].says);
  ck_assert_msg(strchr(err.text, '\n') == NULL, "case %d: more than one line", _i);
  kvl_workload_close(file);
  unlink(path);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
  struct kvl_workload_file *file = NULL;
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_workload_open(&file, "/nonexistent/x.jsonl", "auto", &err), -ENOENT);
  ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/x.jsonl: No such file"));
  ck_assert_int_eq(kvl_workload_open(&file, "/", "auto", &err), -EISDIR);
  ck_assert_ptr_null(file);
  static const char binary[] = "{\"timestamp\":0,\0\"input_length\":1}\n";
  const char *path = temp_name("binary");
  write_bytes(path, binary, sizeof(binary) - 1);
  ck_assert_int_eq(kvl_workload_open(&file, path, "auto", &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "zero byte"));
  unlink(path);
}
END_TEST

START_TEST(endless_line)
{
  enum { SIZE = 17 << 20 };
  const char *path = temp_name("endless");
  struct kvl_workload_file *file = NULL;
  struct kvl_err err = {""};
  char *bytes = malloc(SIZE);
  ck_assert_ptr_nonnull(bytes);
  memset(bytes, ' ', SIZE);
  bytes[0] = '{';
  write_bytes(path, bytes, SIZE);
  ck_assert_int_eq(kvl_workload_open(&file, path, "auto", &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, ":1: the line is longer than 16 MiB"));
  free(bytes);
  unlink(path);
}
END_TEST

START_TEST(pipe_cannot_be_read_twice)
{
  const char *path = temp_name("pipe");
  struct kvl_workload_file *file = NULL;
  struct kvl_err err = {""};
  ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody writes: refused without waiting */
  ck_assert_int_eq(kvl_workload_open(&file, path, "auto", &err), -ESPIPE);
  ck_assert_ptr_nonnull(strstr(err.text, "give a file, not a pipe"));
  unlink(path);
}
END_TEST

START_TEST(messages_stay_on_one_line)
{
  static const char text[] = HEADER "1,0,0,\x1b[2J\tq,640,5,10,0,0,1,0,x\n";
  const char *path = temp_name("escape");
  struct kvl_workload_file *file = NULL;
  struct kvl_err err = {""};
  write_bytes(path, text, sizeof(text) - 1);
  ck_assert_int_eq(kvl_workload_open(&file, path, "auto", &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, ":2: type must be n or s, not '?[2J?q'"));
  unlink(path);
}
END_TEST

/* A file cut anywhere gives the requests before the cut, then the end or an error: never a request that is not in the whole file. */
static void cut_everywhere(const char *source)
{
  struct summary {
    uint64_t session, time_ns;
    uint32_t chain, input, output, blocks;
  } whole[32], part;
  unsigned count = 0, errors = 0;
  size_t size;
  char *bytes = read_bytes(source, &size);
  const char *path = temp_name("cut");
  struct kvl_workload_file *file = open_good(source, "auto");
  struct kvl_request_spec spec;
  struct kvl_err err;

  memset(whole, 0, sizeof(whole));
  while (kvl_workload_next(file, &spec, &err) == 1) {
    ck_assert_uint_lt(count, 32);
    whole[count].session = spec.session;
    whole[count].time_ns = spec.time_ns;
    whole[count].chain = spec.chain;
    whole[count].input = spec.input_tokens;
    whole[count].output = spec.output_tokens;
    whole[count++].blocks = spec.block_count;
  }
  kvl_workload_close(file);
  write_bytes(path, bytes, size);
  for (size_t length = size; length-- > 0;) { /* shorter and shorter */
    unsigned n = 0;
    int code;
    ck_assert_int_eq(truncate(path, (off_t)length), 0);
    code = kvl_workload_open(&file, path, "auto", &err);
    while (code == 0 && (code = kvl_workload_next(file, &spec, &err)) == 1) {
      ck_assert_uint_lt(n, count);
      memset(&part, 0, sizeof(part));
      part.session = spec.session;
      part.time_ns = spec.time_ns;
      part.chain = spec.chain;
      part.input = spec.input_tokens;
      part.output = spec.output_tokens;
      part.blocks = spec.block_count;
      ck_assert_int_eq(memcmp(&part, &whole[n++], sizeof(part)), 0);
      code = 0;
    }
    errors += code < 0;
    kvl_workload_close(file);
    file = NULL;
  }
  ck_assert_uint_gt(errors, (unsigned)size / 2);
  free(bytes);
  unlink(path);
}

START_TEST(cut_mooncake)
{
  cut_everywhere(KVL_DATA "/mooncake-small.jsonl");
}
END_TEST

START_TEST(cut_agent)
{
  cut_everywhere(KVL_DATA "/agent-small.csv");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("workload");
  TCase *tcase = tcase_create("workload");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, decimals);
  tcase_add_test(tcase, mooncake_sample);
  tcase_add_test(tcase, mooncake_forms);
  tcase_add_test(tcase, agent_sample);
  tcase_add_test(tcase, agent_sharing);
  tcase_add_test(tcase, agent_think_time_unknown);
  tcase_add_loop_test(tcase, says_what_is_wrong, 0, (int)(sizeof(bad) / sizeof(bad[0])));
  tcase_add_test(tcase, files_that_cannot_be_read);
  tcase_add_test(tcase, endless_line);
  tcase_add_test(tcase, pipe_cannot_be_read_twice);
  tcase_add_test(tcase, messages_stay_on_one_line);
  tcase_add_test(tcase, cut_mooncake);
  tcase_add_test(tcase, cut_agent);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
