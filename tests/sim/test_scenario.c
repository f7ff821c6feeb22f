/* Scenario files: lines in messages, assignments, descriptors, checks across keys, canonical JSON. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/scenario_doc.h"
#include "tests/base/tap.h"

static const char small[] =
  "{\n"
  "  \"model\": \"deepseek-v4.1-flash\",\n"
  "  \"mode\": \"adaptive\",\n"
  "  \"costs\": \"deepseek-v4.1-flash.b300\",\n"
  "  \"node\": {\"hardware\": \"b300\", \"decode_gpus\": 2,\n"
  "    \"kv_pool_bytes\": 1000000000, \"host_pool_bytes\": 1000000000},\n"
  "  \"policy\": {\n"
  "    \"page_tokens\": 64\n"
  "  },\n"
  "  \"workload\": {\"kind\": \"closed\", \"concurrency\": 2, \"requests\": 4, \"input_tokens\": 1000, \"output_tokens\": 10}\n"
  "}\n";

static struct kvl_scenario_doc *parse(const char *text, const char *set)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  int rc = kvl_scenario_parse(&doc, text, strlen(text), KVL_SCENARIOS "/small.json", &set, set != NULL, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  return doc;
}

/* `small` with its first `from` replaced. */
static void replaced(const char *from, const char *to, char *buffer, size_t size)
{
  const char *at = strstr(small, from);
  ck_assert_ptr_nonnull(at);
  (void)snprintf(buffer, size, "%.*s%s%s", (int)(at - small), small, to, at + strlen(from));
}

/* Two caches with rows of 288 bytes and of another size. */
#define TWO_CACHES(row_bytes) \
  "{\"from\": \"deepseek-v4.1-flash\", \"pool_blocks\": 0, \"caches\": [" \
  "{\"name\": \"a\", \"written_layer\": 0, \"tokens_per_row\": 2, \"row_bytes\": 288, \"index_key_bytes\": 0, \"selections\": [{\"layer\": 0, \"k\": 4, \"readers\": 1}]}, " \
  "{\"name\": \"b\", \"written_layer\": 1, \"tokens_per_row\": 2, \"row_bytes\": " row_bytes ", \"index_key_bytes\": 0, \"selections\": [{\"layer\": 1, \"k\": 4, \"readers\": 1}]}]}," \
  " \"selection\": {\"source\": \"preset\"}"

static const struct {
  const char *from, *to, *message;
} wrong[] = {
  {"\"deepseek-v4.1-flash\"", TWO_CACHES("18432"), "small.json:8: policy.page_tokens: is 64: rows of cache b, 18432 bytes, do not divide a page of 599040 bytes into whole rows (nearest: 128)"},
  {"\"deepseek-v4.1-flash\"", TWO_CACHES("584"), "small.json:2: model.caches: cache a: rows of 288 bytes do not divide a page of 27904 bytes into whole rows, nor any larger page"},
  {"\"page_tokens\": 64", "\"page_tokens\": 65", "small.json:8: policy.page_tokens: must be a power of two, is 65 (nearest: 64 or 128)"},
  {"\"page_tokens\": 64", "\"page_token\": 64", "small.json:8: policy.page_token: unknown key (nearest: policy.page_tokens)"},
  {"\"page_tokens\": 64", "\"page_tokens\": 1", "small.json:8: policy.page_tokens: is 1, but a row of deepseek-v4.1-flash covers 2 tokens (nearest: 2)"},
  {"\"page_tokens\": 64", "\"page_tokens\": 64,\n\"page_tokens\": 64", "small.json:9: page_tokens: given twice (first on line 8)"},
  {"\"policy\"", "\"polici\"", "small.json:7: polici: unknown key (nearest: policy)"},
  {"deepseek-v4.1-flash\"", "deepseek-v4.1-flsh\"", "small.json:2: model: there is no descriptor \"deepseek-v4.1-flsh\" (nearest: \"deepseek-v4.1-flash\")"},
  {"\"deepseek-v4.1-flash\"", "17", "small.json:2: model: must be the name of a descriptor (a string) or an object, is a number"},
  {"\"b300\"", "\"b301\"", "small.json:5: node.hardware: there is no descriptor \"b301\" (nearest: \"b300\")"},
  {"  \"model\": \"deepseek-v4.1-flash\",\n", "", "small.json:1: model: is missing"},
  {"\"hardware\": \"b300\", ", "", "small.json:1: node.hardware: is missing"},
  {"\"hardware\": \"b300\"", "\"hardware\": {\"name\": \"x\"}", "small.json:5: hardware.source: is missing"},
  {"\"kv_pool_bytes\": 1000000000, ", "", "small.json:5: node.kv_pool_bytes: is missing (HBM for KV of one decode GPU, in bytes)"},
  {"\"kv_pool_bytes\": 1000000000", "\"kv_pool_bytes\": 5000000",
   "small.json:6: node.kv_pool_bytes: cannot hold one session of 1010 tokens in adaptive mode: it needs "},
  {"\"host_pool_bytes\": 1000000000", "\"host_pool_bytes\": 700000",
   "small.json:6: node.host_pool_bytes: cannot hold the history of one session of 1010 tokens in adaptive mode: it needs 727.2 kB (727200 bytes), "
   "27.20 kB (27200 bytes) are missing (nearest: 727200)"},
  {"\"kv_pool_bytes\": 1000000000", "\"kv_pool_bytes\": 300000000000",
   "small.json:6: node.kv_pool_bytes: is 300.0 GB (300000000000 bytes), more than the 288.0 GB (288000000000 bytes) HBM of b300 (nearest: 288000000000)"},
  {"\"concurrency\": 2, ", "", "small.json: workload.concurrency: must be at least 1 for a closed loop (nearest: 1)"},
  {"\"requests\": 4", "\"requests\": 0", "small.json:10: workload.requests: must be at least 1 (nearest: 1)"},
  {"\"output_tokens\": 10", "\"output_tokens\": 0", "small.json:10: workload.output_tokens: must be at least 1, or nothing at all is decoded (nearest: 1)"},
  {"\"kind\": \"closed\"", "\"kind\": \"poisson\"", "small.json: workload.rate_per_s: must be more than 0 for an open loop"},
  {"\"kind\": \"closed\"", "\"kind\": \"file\"", "small.json: workload.file: is missing for kind \"file\""},
  {"\"input_tokens\": 1000", "\"input_tokens\": 1000, \"cached_tokens\": 1001", "small.json:10: workload.cached_tokens: is 1001, more than input_tokens (nearest: 1000)"},
  {"\"policy\"", "\"selection\": {\"source\": \"trace\"}, \"policy\"", "small.json: selection.file: is missing for source \"trace\""},
  {"\"costs\": \"deepseek-v4.1-flash.b300\"", "\"costs\": {\"from\": \"deepseek-v4.1-flash.b300\", \"law_fixed_ms\": 0, \"law_token_ms\": 0}",
   "small.json:4: costs.law_fixed_ms: and law_token_ms are both 0"},
  {"\"costs\": \"deepseek-v4.1-flash.b300\"", "\"costs\": {\"from\": \"deepseek-v4.1-flash.b300\", \"compute\": \"table\"}",
   "costs.step_ms_by_tokens: has no points, and costs.compute is \"table\""},
  {"\"deepseek-v4.1-flash\"", "{\"from\": \"deepseek-v4.1-flash\", \"pool_layer\": 3}", "small.json:2: model.pool_layer: layer 3 selects nothing"},
  {"\"deepseek-v4.1-flash\"", "{\"from\": 3}", "small.json:2: model: must be the name of a descriptor"},
  {"\"mode\"", "\"mo\\nde\\u001b\"", "small.json:3: mo?de?: unknown key (nearest: mode"},
  {"\"mode\": \"adaptive\"", "\"mode\": [\"adaptive\"]", "small.json:3: mode: must be one of resident, fixed, adaptive, is an array"},
  {"\"mode\": \"adaptive\"", "\"mode\": \"elastic\"", "small.json:3: mode: must be one of resident, fixed, adaptive, is \"elastic\" (nearest: "},
};

START_TEST(errors_name_file_line_key_and_choice)
{
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char text[2048];
    struct kvl_scenario_doc *doc = NULL;
    struct kvl_err err = {""};
    replaced(wrong[i].from, wrong[i].to, text, sizeof text);
    int rc = kvl_scenario_parse(&doc, text, strlen(text), KVL_SCENARIOS "/small.json", NULL, 0, &err);
    ck_assert_msg(rc == (strstr(err.text, "there is no ") != NULL ? -ENOENT : -EINVAL), "%s: %d", wrong[i].to, rc);
    ck_assert_ptr_null(doc);
    ck_assert_msg(strstr(err.text, wrong[i].message) != NULL, "%s says %s", wrong[i].to, err.text);
    ck_assert_ptr_null(strchr(err.text, '\n'));
  }
}
END_TEST

START_TEST(defaults_and_name)
{
  struct kvl_scenario_doc *doc = parse(small, NULL);
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  ck_assert_str_eq(s->name, "small");
  ck_assert_str_eq(s->file, KVL_SCENARIOS "/small.json");
  ck_assert_uint_eq(s->mode, KVL_MODE_ADAPTIVE);
  ck_assert_uint_eq(s->node.decode_gpus, 2);
  ck_assert_uint_eq(s->node.prefill_gpus, 1);
  ck_assert_uint_eq(s->policy.eviction, KVL_EVICT_LRU);
  ck_assert_uint_eq(s->policy.horizon_ns, 1000000000);
  ck_assert_uint_eq(s->selection.kind, KVL_SELECT_NONE);
  ck_assert_str_eq(s->workload.format, "auto");
  ck_assert_uint_eq(s->seed, 1);
  ck_assert_uint_eq(s->costs.law_fixed_ns, doc->scenario.costs.law_fixed_ns);
  ck_assert_uint_gt(s->costs.law_fixed_ns, 0);
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(assignments)
{
  struct kvl_scenario_doc *doc = parse(small, "costs.law_fixed_ms=13.4");
  struct kvl_err err = {""};
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  ck_assert_uint_eq(s->costs.law_fixed_ns, 13400000);
  ck_assert_str_eq(s->costs.name, "deepseek-v4.1-flash.b300");
  static const char *const good[] = {"hardware.link.gather_gb_per_s=45", "node.hardware.hbm_gb=300", "mode=fixed", "seed=18446744073709551615",
                                     "name=12", "workload.gamma_cv={\"value\": 2.5, \"origin\": \"a guess\"}", "policy={\"hot_rows\": 7}",
                                     "hardware.link.copy_gb_per_s.value=46"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    ck_assert_msg(kvl_scenario_set(doc, good[i], &err) == 0, "%s", err.text);
  }
  ck_assert_ptr_eq(kvl_scenario_of(doc), s); /* the pointer stays */
  ck_assert_uint_eq(s->hardware.link.gather_bytes_per_s, 45000000000);
  ck_assert_uint_eq(s->hardware.link.copy_bytes_per_s, 46000000000);
  ck_assert_uint_eq(s->hardware.hbm_bytes, 300000000000);
  ck_assert_uint_eq(s->mode, KVL_MODE_FIXED);
  ck_assert_uint_eq(s->seed, UINT64_MAX);
  ck_assert_str_eq(s->name, "12");
  ck_assert(s->workload.gamma_cv > 2.4 && s->workload.gamma_cv < 2.6);
  ck_assert_str_eq(doc->origin[kvl_scenario_key("workload.gamma_cv")].text, "a guess");
  ck_assert_uint_eq(s->policy.hot_rows, 7);
  ck_assert_uint_eq(s->policy.page_tokens, 64); /* the whole section was replaced: its default */
  /* a refused assignment changes nothing */
  char *before = kvl_scenario_json(doc);
  ck_assert_int_eq(kvl_scenario_set(doc, "policy.page_tokens=3", &err), -EINVAL);
  ck_assert_int_eq(kvl_scenario_set(doc, "policy.page_tokens", &err), -EINVAL);
  ck_assert_int_eq(kvl_scenario_set(doc, "=3", &err), -EINVAL);
  ck_assert_int_eq(kvl_scenario_set(doc, "policy.hot_rows.x=3", &err), -EINVAL);
  ck_assert_int_eq(kvl_scenario_set(doc, "policy.hot_rows=[3", &err), -EINVAL);
  ck_assert_str_eq(err.text, "--set=policy.hot_rows=[3: the text ends inside an array");
  char *after = kvl_scenario_json(doc);
  ck_assert_str_eq(before, after);
  free(before);
  free(after);
  /* a new model takes the assignments to the old one with it */
  ck_assert_int_eq(kvl_scenario_set(doc, "model.window_bytes=5", &err), 0);
  ck_assert_int_eq(kvl_scenario_set(doc, "model=deepseek-v4-flash", &err), 0);
  ck_assert_str_eq(s->model.name, "deepseek-v4-flash");
  ck_assert_uint_eq(s->model.window_bytes, 43 * 128 * 584);
  kvl_scenario_free(doc);
}
END_TEST

/* Both scenarios equal in every value of the table. */
static void assert_same(const struct kvl_scenario_doc *a, const struct kvl_scenario_doc *b)
{
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    ck_assert_msg(memcmp((const char *)&a->scenario + kvl_keys[i].offset, (const char *)&b->scenario + kvl_keys[i].offset, kvl_keys[i].width) == 0,
                  "%s differs", kvl_keys[i].path);
  }
  ck_assert_mem_eq(&a->scenario.model.selection, &b->scenario.model.selection, sizeof a->scenario.model.selection);
  ck_assert_mem_eq(a->scenario.model.readers, b->scenario.model.readers, sizeof a->scenario.model.readers);
  ck_assert_uint_eq(a->scenario.model.caches, b->scenario.model.caches);
}

static void assert_round_trip(const struct kvl_scenario_doc *doc, const char *file)
{
  char *text = kvl_scenario_json(doc);
  struct kvl_scenario_doc *again = NULL;
  struct kvl_err err = {""};
  ck_assert_ptr_nonnull(text);
  ck_assert_ptr_null(strchr(text, '\n'));
  int rc = kvl_scenario_parse(&again, text, strlen(text), file, NULL, 0, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  assert_same(doc, again);
  char *same = kvl_scenario_json(again);
  ck_assert_str_eq(text, same);
  free(same);
  free(text);
  kvl_scenario_free(again);
}

START_TEST(canonical_json_gives_the_same_scenario)
{
  static const char *const scenarios[] = {"published-256", "mooncake-sample", "agent-sample", "workload-f", "mooncake-hour"};
  static const char *const models[] = {"deepseek-v4.1-flash", "deepseek-v3.2", "deepseek-v4-flash-key132", "glm-5.1-bf16", "glm-5.2"};
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
    char model[64], path[KVL_PATH_CAP];
    (void)snprintf(model, sizeof model, "model=%s", models[i]);
    const char *sets[] = {model, "node.kv_pool_bytes=270e9", "node.host_pool_bytes=1e13", "workload.file=workloads/mooncake-sample.jsonl",
                          "limits.tpot_target_ms=0.000001", "workload.rate_per_s=0.1"};
    struct kvl_scenario_doc *doc = NULL;
    struct kvl_err err = {""};
    (void)snprintf(path, sizeof path, "%s/%s.json", KVL_SCENARIOS, scenarios[i]);
    int rc = kvl_scenario_load(&doc, path, sets, 6, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    assert_round_trip(doc, path);
    kvl_scenario_free(doc);
  }
}
END_TEST

START_TEST(canonical_json_needs_no_descriptor_files)
{
  struct kvl_scenario_doc *doc = parse(small, "costs.name={\"value\": \"a \\\"b\\\" \\\\ \\u00e9\", \"origin\": \"\\\"q\\\"\"}");
  char *text = kvl_scenario_json(doc), *same;
  struct kvl_scenario_doc *again = NULL;
  struct kvl_err err = {""};
  ck_assert_str_eq(kvl_scenario_of(doc)->costs.name, "a \"b\" \\ \xc3\xa9");
  ck_assert_int_eq(kvl_scenario_parse(&again, text, strlen(text), "/nowhere/at/all/x.json", NULL, 0, &err), 0);
  same = kvl_scenario_json(again);
  ck_assert_str_eq(text, same);
  free(text);
  free(same);
  kvl_scenario_free(again);
  kvl_scenario_free(doc);
}
END_TEST

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
}

START_TEST(descriptors_beside_and_above_the_scenario)
{
  char folder[] = "scenario-test-XXXXXX", path[256], text[2048];
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  ck_assert_ptr_nonnull(mkdtemp(folder));
  static const char *const made[] = {"models", "a", "a/costs", "a/b", "a/b/files"};
  for (int i = 0; i < 5; i++) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, made[i]);
    ck_assert_int_eq(mkdir(path, 0777), 0);
  }
  (void)snprintf(path, sizeof path, "%s/models/mine.json", folder);
  write_file(path, "{\"from\": \"deepseek-v4.1-flash\",\n \"name\": \"mine\", \"window_bytes\": 99}");
  (void)snprintf(path, sizeof path, "%s/a/costs/cheap.json", folder);
  write_file(path, "{\"from\": \"deepseek-v4.1-flash.b300\", \"name\": \"cheap\", \"admission_ms\": {\"value\": 1, \"origin\": \"ours\"}}");
  replaced("\"deepseek-v4.1-flash\"", "\"mine\"", text, sizeof text);
  (void)snprintf(path, sizeof path, "%s/a/b/s.json", folder);
  write_file(path, text);
  const char *sets[] = {"costs=cheap", "selection.file=files/t.trace", "selection.source=trace"};
  int rc = kvl_scenario_load(&doc, path, sets, 3, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  ck_assert_str_eq(s->model.name, "mine");
  ck_assert_uint_eq(s->model.window_bytes, 99);
  ck_assert_uint_eq(s->model.caches, 4);
  ck_assert_uint_eq(s->costs.admission_ns, 1000000);
  ck_assert_str_eq(doc->origin[kvl_scenario_key("costs.admission_ms")].text, "ours");
  ck_assert_str_eq(s->selection.path, "files/t.trace"); /* from the command line: this folder */
  kvl_scenario_free(doc);
  /* a file that is beside the scenario is found there, whatever the current folder is */
  (void)snprintf(path, sizeof path, "%s/a/b/files/t.trace", folder);
  write_file(path, "x");
  (void)snprintf(path, sizeof path, "%s/a/b/s.json", folder);
  ck_assert_int_eq(kvl_scenario_load(&doc, path, sets, 3, &err), 0);
  (void)snprintf(text, sizeof text, "%s/a/b/files/t.trace", folder);
  ck_assert_str_eq(kvl_scenario_of(doc)->selection.path, text);
  kvl_scenario_free(doc);
  /* descriptors that name one another for ever, are no objects, or are broken */
  static const char *const bad[][2] = {{"{\"from\": \"mine\"}", "more than 8 times"}, {"[1]", "a descriptor must be an object, is an array"}, {"{\n\n!", "mine.json:3: "}};
  for (int i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof path, "%s/models/mine.json", folder);
    write_file(path, bad[i][0]);
    (void)snprintf(path, sizeof path, "%s/a/b/s.json", folder);
    ck_assert_int_eq(kvl_scenario_load(&doc, path, NULL, 0, &err), -EINVAL);
    ck_assert_msg(strstr(err.text, bad[i][1]) != NULL, "%s", err.text);
  }
  static const char *const files[] = {"models/mine.json", "a/costs/cheap.json", "a/b/files/t.trace", "a/b/s.json"};
  for (int i = 0; i < 4; i++) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    ck_assert_int_eq(unlink(path), 0);
  }
  for (int i = 4; i >= 0; i--) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, made[i]);
    ck_assert_int_eq(rmdir(path), 0);
  }
  ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(environment_names_a_folder)
{
  char folder[] = "scenario-test-XXXXXX", path[256];
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  ck_assert_ptr_nonnull(mkdtemp(folder));
  (void)snprintf(path, sizeof path, "%s/elsewhere.json", folder);
  write_file(path, small);
  ck_assert_int_eq(setenv("KVLOAN_SCENARIOS", folder, 1), 0);
  int rc = kvl_scenario_load(&doc, "elsewhere", NULL, 0, &err); /* its descriptors are in the installation */
  ck_assert_msg(rc == 0, "%s", err.text);
  ck_assert_str_eq(kvl_scenario_of(doc)->file, path);
  kvl_scenario_free(doc);
  ck_assert_int_eq(kvl_scenario_load(&doc, "elsewher", NULL, 0, &err), -ENOENT);
  ck_assert_ptr_nonnull(strstr(err.text, "(nearest: elsewhere)"));
  ck_assert_int_eq(unsetenv("KVLOAN_SCENARIOS"), 0);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_scenario_load(&doc, KVL_SCENARIOS "/published-265.json", NULL, 0, &err), -ENOENT);
  ck_assert_ptr_nonnull(strstr(err.text, "there is no such file (nearest: published-256.json)"));
  ck_assert_int_eq(kvl_scenario_load(&doc, KVL_SCENARIOS, NULL, 0, &err), -EIO);
  ck_assert_int_eq(kvl_scenario_load(&doc, "/no/such/folder/x.json", NULL, 0, &err), -ENOENT);
  char longer[2000];
  memset(longer, 'x', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  ck_assert_int_eq(kvl_scenario_load(&doc, longer, NULL, 0, &err), -ENOENT);
  ck_assert_int_eq(kvl_scenario_parse(&doc, "[]", 2, "x.json", NULL, 0, &err), -EINVAL);
  ck_assert_str_eq(err.text, "x.json:1: a scenario must be an object, is an array");
  ck_assert_ptr_null(doc);
}
END_TEST

START_TEST(largest_session_of_a_file)
{
  struct kvl_scenario_doc *doc = parse(small, "mode=resident");
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_scenario_check_tokens(doc, 1000000, &err), 0);
  ck_assert_int_eq(kvl_scenario_check_tokens(doc, 2000000, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "small.json:6: node.kv_pool_bytes: cannot hold one session of 2000000 tokens in resident mode"));
  kvl_scenario_free(doc);
}
END_TEST

START_TEST(explanations)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", NULL, 0, &err), 0);
  for (int format = KVL_FORMAT_TABLE; format <= KVL_FORMAT_TSV; format++) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_int_eq(kvl_scenario_explain(out, (enum kvl_format)format, doc), 0);
    ck_assert_int_eq(fclose(out), 0);
    for (uint32_t i = 0; i < kvl_key_count; i++) { /* every value with its origin */
      bool given = kvl_keys[i].type != KVL_KEY_TEXT || *((const char *)kvl_scenario_of(doc) + kvl_keys[i].offset) != '\0';
      const char *dot = strrchr(kvl_keys[i].path, '.');
      bool remark = strcmp(kvl_keys[i].path, "note") == 0 || (dot != NULL && strcmp(dot, ".source") == 0);
      ck_assert_msg(strstr(text, kvl_keys[i].path) != NULL || (format == KVL_FORMAT_TABLE && (!given || remark)), "%s", kvl_keys[i].path);
    }
    ck_assert_ptr_nonnull(strstr(text, "calibrated on row P02"));
    if (format == KVL_FORMAT_JSON) {
      struct kvl_arena arena = {0};
      struct kvl_json *root = NULL;
      ck_assert_int_eq(kvl_json_parse(&arena, text, size, "out", &root, &err), 0);
      const struct kvl_json *fits = kvl_json_member(root, "sessions_per_decode_gpu");
      ck_assert_str_eq(kvl_json_member(kvl_json_member(fits, "resident"), "fit")->text, "46");
      ck_assert_str_eq(kvl_json_member(kvl_json_member(fits, "adaptive"), "fit")->text, "82");
      ck_assert_str_eq(kvl_json_member(kvl_json_member(fits, "adaptive"), "bound_by")->text, "sessions_per_gpu_max");
      ck_assert_str_eq(kvl_json_member(kvl_json_member(root, "session_bytes"), "rows")->text, "360576000");
      kvl_arena_free(&arena);
    }
    free(text);
  }
  kvl_scenario_free(doc);
}
END_TEST

KVL_TAP_MAIN("scenario", errors_name_file_line_key_and_choice, defaults_and_name, assignments, canonical_json_gives_the_same_scenario,
             canonical_json_needs_no_descriptor_files, descriptors_beside_and_above_the_scenario, environment_names_a_folder,
             files_that_cannot_be_read, largest_session_of_a_file, explanations)
