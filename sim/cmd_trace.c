/* kvloan trace: selection traces, made, looked at, verified. */
#include "sim/cmd_trace.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/nearest.h"
#include "sim/cmd.h"
#include "sim/scenario.h"
#include "traces/decimal.h"
#include "traces/gap.h"
#include "traces/preset.h"

static const char help[] =
  "usage: kvloan trace gen   --out=FILE --model=NAME|FILE.json [OPTIONS]   make a library of generated sessions\n"
  "       kvloan trace info  FILE [--format=table|json|tsv]                what is in a trace\n"
  "       kvloan trace check FILE                                          read and verify everything\n"
  "       kvloan trace cat   FILE [--session=N] [--step=N] [--limit=N]     steps as TSV\n"
  "       kvloan trace curve FILE | --preset=NAME [OPTIONS]                miss rate against hot size\n"
  "\n"
  "gen and curve:\n"
  "  --preset=NAME        hot-a, hot-b, cold-a, cold-b (gen: hot-a)\n"
  "  --model=NAME         a model descriptor (kvloan scenario list), or a file; without it a single cache of --k rows a selection\n"
  "  --k=ROWS             rows a selection (default: the model's; curve without a model: 2048)\n"
  "  --tokens-per-row=N   of the single cache (1)\n"
  "  --context=TOKENS     history before the first step (gen: 500000; curve: 65536)\n"
  "  --sessions=N         gen: 16; curve: 4, one alone is off by several per cent\n"
  "  --steps=N            decode steps a session (gen: 800; curve: 600)\n"
  "  --seed=N             (1)\n"
  "curve:\n"
  "  --sizes=LIST         hot rows over k (1,1.5,2,4,8)\n"
  "  --warm=STEPS         steps that warm the cache and are not counted (half of them)\n"
  "  --cache=N            one cache only (default: all of a file; one of each kind of a model)\n"
  "  --format=table|json|tsv\n";

enum { GEN = 1, INFO = 2, CHECK = 4, CAT = 8, CURVE = 16 };

static const struct {
  const char *name;
  int (*main)(const struct kvl_trace_call *call);
  unsigned bit;
} commands[] = {
  {"gen", kvl_trace_gen, GEN},  {"info", kvl_trace_info, INFO},    {"check", kvl_trace_verify, CHECK},
  {"cat", kvl_trace_cat, CAT},  {"curve", kvl_trace_curve, CURVE},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

enum kind { TEXT, NUMBER, SEED, FORMAT, SIZES };

static const struct {
  const char *name;
  enum kind kind;
  unsigned commands;
  size_t offset; /* in struct kvl_trace_call */
  uint32_t min, max;
} known[] = {
  {"out", TEXT, GEN, offsetof(struct kvl_trace_call, out), 0, 0},
  {"model", TEXT, GEN | CURVE, offsetof(struct kvl_trace_call, model), 0, 0},
  {"preset", TEXT, GEN | CURVE, offsetof(struct kvl_trace_call, preset), 0, 0},
  {"k", NUMBER, GEN | CURVE, offsetof(struct kvl_trace_call, k), 1, KVL_TRACE_K_MAX},
  {"tokens-per-row", NUMBER, GEN | CURVE, offsetof(struct kvl_trace_call, tokens_per_row), 1, 1 << 16},
  {"context", NUMBER, GEN | CURVE, offsetof(struct kvl_trace_call, context), 0, 1 << 30},
  {"sessions", NUMBER, GEN | CURVE, offsetof(struct kvl_trace_call, sessions), 1, KVL_TRACE_SESSIONS_MAX},
  {"steps", NUMBER, GEN | CURVE, offsetof(struct kvl_trace_call, steps), 1, KVL_TRACE_STEPS_MAX},
  {"seed", SEED, GEN | CURVE, offsetof(struct kvl_trace_call, seed), 0, 0},
  {"format", FORMAT, INFO | CURVE, offsetof(struct kvl_trace_call, format), 0, 0},
  {"sizes", SIZES, CURVE, 0, 0, 0},
  {"warm", NUMBER, CURVE, offsetof(struct kvl_trace_call, warm), 0, KVL_TRACE_STEPS_MAX},
  {"cache", NUMBER, CURVE, offsetof(struct kvl_trace_call, cache), 0, KVL_CACHES_MAX - 1},
  {"session", NUMBER, CAT, offsetof(struct kvl_trace_call, session), 0, KVL_TRACE_SESSIONS_MAX - 1},
  {"step", NUMBER, CAT, offsetof(struct kvl_trace_call, step), 0, KVL_TRACE_STEPS_MAX - 1},
  {"limit", NUMBER, CAT, offsetof(struct kvl_trace_call, limit), 1, UINT32_MAX},
};
enum { KNOWN = sizeof known / sizeof known[0], HELP = 1000 };

bool kvl_trace_stopped(void)
{
  return kvl_stop != 0;
}

int kvl_trace_complain(const struct kvl_trace_call *call, int code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  (void)fprintf(stderr, "kvloan trace %s: ", call->command);
  (void)vfprintf(stderr, format, arguments);
  (void)fputc('\n', stderr);
  va_end(arguments);
  return code;
}

bool kvl_trace_given(const struct kvl_trace_call *call, const char *name)
{
  for (unsigned i = 0; i < KNOWN; i++) {
    if (strcmp(known[i].name, name) == 0)
      return call->given >> i & 1;
  }
  return false;
}

void kvl_trace_progress(const char *what, uint64_t done, uint64_t total)
{
  static struct timespec shown;
  static bool any;
  struct timespec now;
  if (isatty(STDERR_FILENO) != 1)
    return;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  if (done < total && any && (now.tv_sec - shown.tv_sec) * 10 + (now.tv_nsec - shown.tv_nsec) / 100000000 < 1)
    return;
  (void)fprintf(stderr, "\r%s: %llu of %llu (%llu %%)\033[K%s", what, (unsigned long long)done, (unsigned long long)total,
                (unsigned long long)(total ? 100 * done / total : 100), done == total ? "\r\033[K" : "");
  any = done < total;
  shown = now;
}

/* "1,1.5,2" */
static int read_sizes(struct kvl_trace_call *call, const char *text)
{
  const char *p = text;
  call->sizes = 0;
  for (;;) {
    uint64_t milli;
    if (call->sizes == KVL_TRACE_SIZES_MAX || kvl_decimal_read(&p, 3, 1000000, &milli) != 0 || milli == 0 || (*p != ',' && *p != '\0'))
      return kvl_trace_complain(call, 2, "--sizes=%s: must be up to %d numbers above 0, such as 1,1.5,2,4", text, KVL_TRACE_SIZES_MAX);
    call->size_q10[call->sizes++] = (uint32_t)((milli * 1024 + 500) / 1000);
    if (*p++ == '\0')
      return 0;
  }
}

static int take_option(struct kvl_trace_call *call, unsigned option, const char *text)
{
  char *field = (char *)call + known[option].offset;
  const char *end = text;
  uint64_t number = 0;
  int format;

  call->given |= UINT64_C(1) << option;
  switch (known[option].kind) {
  case TEXT:
    memcpy(field, &text, sizeof text);
    return 0;
  case NUMBER:
  case SEED:
    if (kvl_decimal_read(&end, 0, UINT64_MAX, &number) != 0 || *end != '\0' ||
        (known[option].kind == NUMBER && (number < known[option].min || number > known[option].max))) {
      if (known[option].kind == SEED)
        return kvl_trace_complain(call, 2, "--%s=%s: must be a whole number below 2^64", known[option].name, text);
      return kvl_trace_complain(call, 2, "--%s=%s: must be a whole number from %u to %u", known[option].name, text, known[option].min,
                                known[option].max);
    }
    if (known[option].kind == SEED)
      memcpy(field, &number, sizeof number);
    else
      memcpy(field, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
    return 0;
  case FORMAT:
    if (kvl_cmd_format("trace", text, &format) != 0)
      return 2;
    call->format = (enum kvl_format)format;
    return 0;
  case SIZES:
    return read_sizes(call, text);
  }
  return 2;
}

static int unknown_option(const struct kvl_trace_call *call, unsigned command, const char *word)
{
  const char *names[KNOWN + 1];
  char name[64];
  unsigned count = 0;
  (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
  for (unsigned i = 0; i < KNOWN; i++) {
    if (known[i].commands & command)
      names[count++] = known[i].name;
  }
  names[count++] = "help";
  return kvl_trace_complain(call, 2, "there is no option --%s; did you mean --%s?", name, kvl_nearest(name, names, count));
}

/* 0; 2: usage; -1: --help. */
static int parse(struct kvl_trace_call *call, unsigned command, int argc, char **argv)
{
  struct option options[KNOWN + 2];
  unsigned count = 0;
  int option;

  for (unsigned i = 0; i < KNOWN; i++) {
    if (known[i].commands & command)
      options[count++] = (struct option){known[i].name, required_argument, NULL, (int)i};
  }
  options[count++] = (struct option){"help", no_argument, NULL, HELP};
  options[count] = (struct option){NULL, 0, NULL, 0};
  optind = 1;
  opterr = 0;
  while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
    if (option == HELP)
      return -1;
    if (option == ':')
      return kvl_trace_complain(call, 2, "%s needs a value", argv[optind - 1]);
    if (option == '?' && optopt == HELP)
      return kvl_trace_complain(call, 2, "--help takes no value");
    if (option == '?' && optopt != 0) /* of "-xy" getopt_long has not gone on to the next word yet: argv[optind - 1] is the word before */
      return kvl_trace_complain(call, 2, "there is no option -%c", optopt);
    if (option == '?')
      return unknown_option(call, command, argv[optind - 1]);
    int code = take_option(call, (unsigned)option, optarg);
    if (code)
      return code;
  }
  if (argc - optind > 1)
    return kvl_trace_complain(call, 2, "one file at a time, not also %s", argv[optind + 1]);
  call->file = optind < argc ? argv[optind] : NULL;
  return 0;
}

int kvl_trace_shape(const struct kvl_trace_call *call, struct kvl_selection_shape *shape, char model[KVL_TRACE_MODEL_MAX + 1])
{
  static struct kvl_model loaded; /* large */
  struct kvl_err err;
  memset(shape, 0, sizeof *shape);
  if (call->model == NULL) {
    shape->caches = shape->points = 1;
    shape->tokens_per_row[0] = call->tokens_per_row;
    shape->point[0].k = call->k;
    (void)snprintf(model, KVL_TRACE_MODEL_MAX + 1, "single-cache");
    return 0;
  }
  if (kvl_trace_given(call, "tokens-per-row"))
    return kvl_trace_complain(call, 2, "--tokens-per-row is for a single cache; the model has its own");
  if (kvl_scenario_load_model(call->model, &loaded, &err) != 0)
    return kvl_trace_complain(call, 1, "%s", err.text);
  (void)kvl_model_want_pool(&loaded);
  *shape = loaded.selection;
  for (uint32_t i = 0; i < shape->points && call->k > 0; i++)
    shape->point[i].k = call->k;
  if (shape->pool.blocks != 0 && shape->point[shape->pool.point].k > shape->pool.blocks)
    return kvl_trace_complain(call, 1, "--k=%u: the candidate pool of %s has %u blocks, one for each row that its layer selects at most", call->k, call->model,
                              shape->pool.blocks);
  (void)snprintf(model, KVL_TRACE_MODEL_MAX + 1, "%.*s", KVL_TRACE_MODEL_MAX, loaded.name);
  return 0;
}

int kvl_trace_fits(const struct kvl_trace_call *call, const struct kvl_selection_shape *shape, uint32_t steps, struct kvl_err *err)
{
  uint64_t tokens = (uint64_t)call->context + steps;
  if (tokens > KVL_TRACE_TOKENS_MAX)
    return kvl_err_set(err, -EINVAL, "--context=%u and %u steps: more tokens than a session may have (%d)", call->context, steps, KVL_TRACE_TOKENS_MAX);
  for (uint32_t p = 0; p < shape->points; p++) {
    uint32_t cache = shape->point[p].cache;
    if (tokens / shape->tokens_per_row[cache] > KVL_GAP_ROWS_MAX)
      return kvl_err_set(err, -EINVAL, "--context=%u: cache %u would have %llu rows; the generator holds up to %d", call->context, cache,
                         (unsigned long long)(tokens / shape->tokens_per_row[cache]), KVL_GAP_ROWS_MAX);
  }
  return 0;
}

static int run(unsigned command, int argc, char **argv)
{
  struct kvl_trace_call call = {.command = commands[command].name, .sessions = 0, .limit = UINT32_MAX, .seed = 1, .format = KVL_FORMAT_TABLE};
  int code = parse(&call, commands[command].bit, argc, argv);
  if (code)
    return code;
  if (call.file == NULL && commands[command].bit & (INFO | CHECK | CAT))
    return kvl_trace_complain(&call, 2, "which file? (kvloan trace --help tells more)");
  if (call.preset != NULL && kvl_preset_find(call.preset) < 0)
    return kvl_trace_complain(&call, 2, "--preset=%s: there is no such preset; did you mean %s?", call.preset,
                              kvl_nearest(call.preset, kvl_preset_names, KVL_PRESETS));
  kvl_stop_on_signals();
  return commands[command].main(&call);
}

int kvl_cmd_trace(int argc, char **argv)
{
  const char *names[COMMANDS];
  if (argc < 2) {
    (void)fputs(help, stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
    (void)fputs(help, stdout);
    return 0;
  }
  for (unsigned i = 0; i < COMMANDS; i++) {
    names[i] = commands[i].name;
    if (strcmp(argv[1], names[i]) == 0) {
      int code = run(i, argc - 1, argv + 1);
      if (code < 0) {
        (void)fputs(help, stdout);
        code = 0;
      }
      return code;
    }
  }
  (void)fprintf(stderr, "kvloan trace: no command '%s'; did you mean '%s'?\n", argv[1], kvl_nearest(argv[1], names, COMMANDS));
  return 2;
}
