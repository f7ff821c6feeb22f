/* kvloan scenario check|json|keys|list */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/text.h"
#include "sim/cmd.h"
#include "sim/scenario.h"
#include "sim/scenario_files.h"
#include "sim/trace_note.h"
#include "traces/workload.h"

enum { SETS_MAX = 256 };

static const char help[] =
  "usage: kvloan scenario check FILE [--set=KEY=VALUE]... [--format=table|json|tsv]\n"
  "       kvloan scenario json FILE [--set=KEY=VALUE]...\n"
  "       kvloan scenario keys\n"
  "       kvloan scenario list [--format=table|json|tsv]\n"
  "\n"
  "  check   explain what a scenario resolves to: bytes of a session by part, sessions that fit in each mode and what binds,\n"
  "          and every value with its origin\n"
  "  json    the same scenario as one line of self-contained JSON: descriptors and defaults written out\n"
  "  keys    every key with its unit, range, default and meaning\n"
  "  list    what there is: scenarios, the models, hardware parts, cost profiles and speculation that one can name, sweeps and plans\n"
  "\n"
  "FILE is a scenario file, or the name of a listed scenario.\n";

struct arguments {
  const char *file;
  const char *sets[SETS_MAX];
  unsigned set_count;
  int format;
};

/* 0; 2: usage; -1: --help was asked for. */
static int parse(int argc, char **argv, bool takes_file, bool takes_format, struct arguments *a)
{
  static const struct option options[] = {
    {"set", required_argument, NULL, 's'}, {"format", required_argument, NULL, 'f'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
  int option;
  *a = (struct arguments){.format = KVL_FORMAT_TABLE};
  optind = 1;
  opterr = 0;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    if (option == 'h') {
      return -1;
    }
    if (option == 's' && takes_file) {
      if (kvl_cmd_set("scenario", optarg, a->sets, &a->set_count, SETS_MAX) != 0) {
        return 2;
      }
    } else if (option == 'f' && takes_format) {
      if (kvl_cmd_format("scenario", optarg, &a->format) != 0) {
        return 2;
      }
    } else {
      if (option == 's' || option == 'f') {
        (void)fprintf(stderr, "kvloan scenario %s takes no --%s (kvloan scenario --help tells more)\n", argv[0], option == 's' ? "set" : "format");
        return 2;
      }
      return kvl_cmd_bad_option("scenario", argc, argv, options, option);
    }
  }
  int wanted = takes_file ? 1 : 0;
  if (argc - optind != wanted) {
    (void)fprintf(stderr, "kvloan scenario %s: %s (kvloan scenario --help tells more)\n", argv[0],
                  argc - optind < wanted ? "which scenario?" : takes_file ? "one scenario at a time" : "takes no file");
    return 2;
  }
  a->file = takes_file ? argv[optind] : NULL;
  return 0;
}

static int load(const struct arguments *a, struct kvl_scenario_doc **doc)
{
  struct kvl_err err;
  if (kvl_scenario_load(doc, a->file, a->sets, a->set_count, &err) != 0) {
    (void)fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  return 0;
}

/* What only the files can tell: the workload can be read to its end and its largest request fits; the trace is one of this model. */
static int check_files(const struct kvl_scenario_doc *doc)
{
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  struct kvl_selection_source *trace = NULL;
  struct kvl_workload_file *file = NULL;
  struct kvl_workload_extent extent = {.tokens_max = 0};
  struct kvl_err err;
  char note[512];
  int rc = kvl_scenario_check_sets(doc, &err); /* not for json: what it prints may be a sweep's base, with the keys of several kinds */
  if (rc == 0 && s->workload.kind == KVL_WORK_FILE) {
    rc = kvl_scenario_open_workload(s, &file, &err);
    if (rc == 0) {
      rc = kvl_workload_extent(file, &extent, &err);
      kvl_workload_close(file);
    }
    rc = rc == 0 ? kvl_scenario_check_tokens(doc, extent.tokens_max, &err) : rc;
  }
  if (rc == 0 && s->selection.kind == KVL_SELECT_TRACE) {
    rc = kvl_scenario_open_trace(s, &trace, &err);
    kvl_source_close(trace);
  }
  if (rc != 0) {
    (void)fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  if (kvl_trace_note(s, extent.tokens_max, note, sizeof note)) {
    (void)fprintf(stderr, "%s\n", note);
  }
  if (kvl_trace_drafts_note(s, note, sizeof note)) {
    (void)fprintf(stderr, "%s\n", note);
  }
  if (kvl_scenario_note(doc, note, sizeof note)) {
    (void)fprintf(stderr, "note: %s\n", note);
  }
  return 0;
}

static int check(int argc, char **argv)
{
  struct arguments a;
  struct kvl_scenario_doc *doc = NULL;
  int code = parse(argc, argv, true, true, &a);
  code = code == 0 ? load(&a, &doc) : code;
  code = code == 0 ? check_files(doc) : code;
  if (code == 0 && kvl_scenario_explain(stdout, (enum kvl_format)a.format, doc) != 0) {
    if (ferror(stdout) == 0) { /* else main() says it */
      (void)fprintf(stderr, "kvloan scenario: out of memory\n");
    }
    code = 1;
  }
  kvl_scenario_free(doc);
  return code;
}

static int json(int argc, char **argv)
{
  struct arguments a;
  struct kvl_scenario_doc *doc = NULL;
  int code = parse(argc, argv, true, false, &a);
  code = code == 0 ? load(&a, &doc) : code;
  if (code == 0) {
    char *text = kvl_scenario_json(doc);
    if (text == NULL) {
      (void)fprintf(stderr, "kvloan scenario: out of memory\n");
      code = 1;
    } else {
      (void)printf("%s\n", text);
    }
    free(text);
  }
  kvl_scenario_free(doc);
  return code;
}

static int keys(int argc, char **argv)
{
  struct arguments a;
  int code = parse(argc, argv, false, false, &a);
  if (code == 0) {
    kvl_scenario_write_keys(stdout);
  }
  return code;
}

static int list(int argc, char **argv)
{
  struct arguments a;
  int code = parse(argc, argv, false, true, &a);
  unsigned passed;
  if (code == 0 && kvl_scenario_list(stdout, (enum kvl_format)a.format, &passed) != 0) {
    (void)fprintf(stderr, "kvloan scenario: no scenarios folder was found; KVLOAN_SCENARIOS can name one\n");
    code = 1;
  } else if (code == 0 && passed > 0) {
    (void)fprintf(stderr, "note: %u name%s of files and folders there: passed over, not printable UTF-8 (ls -b shows what is)\n", passed, kvl_text_s(passed));
  }
  return code;
}

int kvl_cmd_scenario(int argc, char **argv)
{
  static const char *const names[] = {"check", "json", "keys", "list"};
  static int (*const run[])(int, char **) = {check, json, keys, list};
  enum { COUNT = 4 };
  if (argc < 2) {
    (void)fputs(help, stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
    (void)fputs(help, stdout);
    return 0;
  }
  for (int i = 0; i < COUNT; i++) {
    if (strcmp(argv[1], names[i]) == 0) {
      int code = run[i](argc - 1, argv + 1);
      if (code < 0) {
        (void)fputs(help, stdout);
        code = 0;
      }
      return code;
    }
  }
  (void)fprintf(stderr, "kvloan scenario: no command '%s'; did you mean '%s'?\n", argv[1], kvl_nearest(argv[1], names, COUNT));
  return 2;
}
