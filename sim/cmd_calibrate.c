/* kvloan calibrate: a node's hardware descriptor, from measurement. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "sim/calibrate.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/scenario.h"
#include "sim/version.h"

static const char help[] =
  "usage: kvloan calibrate [OPTIONS]\n"
  "       kvloan calibrate --refit=FILE.json [OPTIONS]\n"
  "\n"
  "Measures a GPU and its host link in a minute or less and writes a hardware descriptor: put it in scenarios/hardware/ and name it in node.hardware, or give\n"
  "the file: --set=node.hardware=FILE.json. Copies both ways, alone and together; gathers of small rows over row size, row count, range of the pool and order,\n"
  "alone and beside the copy engine and a kernel that reads HBM; launches and graphs; look-ups over batch and misses; HBM; pinning. Every number is a\n"
  "median with its 10th and 90th percentile; the descriptor carries all of them, with machine, driver and date. Needs a machine that nobody else uses.\n"
  "  --out=FILE.json    write the descriptor there (default: nowhere, only what is printed)\n"
  "  --name=NAME        name of the descriptor (default: that of the file)\n"
  "  --from=NAME        descriptor that says what cannot be measured here, such as tflop_per_s (written as its \"from\")\n"
  "  --host-gib=N       pinned memory that gathers range over, at most (default: half of the machine's, 32 at most)\n"
  "  --quick            fewer points and samples\n"
  "  --gpu=I            which GPU (default: 0)\n"
  "  --refit=FILE.json  fit the points of an earlier calibration anew; needs no GPU\n"
  "  --format=FORMAT    table (what was measured, fits, residuals), json (the descriptor) or tsv (the points); default: table\n";

static void say(void *context, const char *what, uint32_t percent)
{
  (void)context;
  fprintf(stderr, "\r\033[K%3u %%  %s", percent, what);
}

static int put_descriptor(FILE *out, const void *calibration)
{
  kvl_calibrate_write(out, KVL_FORMAT_JSON, calibration);
  return 0;
}

/* A descriptor that no scenario takes is not written: what was measured or typed does not make one. */
static int check_descriptor(const struct kvl_calibration *c, const char *file, struct kvl_err *err)
{
  char *text = NULL;
  size_t size = 0;
  FILE *memory = open_memstream(&text, &size);
  if (memory != NULL) {
    kvl_calibrate_write(memory, KVL_FORMAT_JSON, c);
  }
  int rc = memory == NULL || fclose(memory) != 0 ? kvl_err_set(err, -ENOMEM, "%s: no memory for the descriptor", file)
                                                 : kvl_scenario_check_hardware(text, size, file, err);
  free(text);
  return rc;
}

/* A descriptor that would follow itself is none. */
static int check_from(const char *from, const char *out, struct kvl_err *err)
{
  struct stat a, b;
  if (out != NULL && stat(from, &a) == 0 && stat(out, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
    return kvl_err_set(err, -EINVAL, "--from=%s: is the file that --out writes", from);
  }
  return kvl_scenario_find_hardware(from, "--from", err);
}

/* Half of the machine's memory, a power of two of GiB, 32 at most. */
static uint64_t default_host_bytes(void)
{
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0, bytes = UINT64_C(32) << 30;
  while (bytes > UINT64_C(1) << 26 && bytes > memory / 2) {
    bytes /= 2;
  }
  return bytes;
}

static int host_bytes_of(const char *word, uint64_t *bytes)
{
  char *end;
  double gib = strtod(word, &end);
  if (end == word || *end != '\0' || !(gib >= 0.015625) || gib > 65536) {
    fprintf(stderr, "kvloan calibrate: --host-gib=%s: not a number of GiB from 0.015625 to 65536\n", word);
    return -1;
  }
  *bytes = (uint64_t)(gib * 1073741824.0);
  return 0;
}

/* scenarios/hardware/h200.measured.json: h200.measured */
static void name_of_file(char name[KVL_NAME_MAX], const char *path)
{
  const char *slash = strrchr(path, '/'), *base = slash == NULL ? path : slash + 1;
  size_t n = strlen(base);
  n -= n > 5 && strcmp(base + n - 5, ".json") == 0 ? 5 : 0;
  (void)snprintf(name, KVL_NAME_MAX, "%.*s", (int)(n < KVL_NAME_MAX ? n : KVL_NAME_MAX - 1), base);
}

static int measure(struct kvl_calibration *c, struct kvl_probe_config *config, struct kvl_err *err)
{
  bool terminal = isatty(STDERR_FILENO) == 1;
  config->say = terminal ? say : NULL;
  (void)snprintf(c->program, sizeof c->program, "kvloan %s", KVL_VERSION);
  kvl_calibrate_now(c->date);
  int rc = kvl_probe_run(&c->probe, config, err);
  if (terminal) {
    fprintf(stderr, "\r\033[K");
  }
  return rc;
}

static int take_host_bytes(void *to, const char *word)
{
  return host_bytes_of(word, to);
}

static int take_gpu(void *to, const char *word)
{
  char *end;
  unsigned long n = strtoul(word, &end, 10);
  if (end == word || *end != '\0' || n > 1023) {
    fprintf(stderr, "kvloan calibrate: --gpu=%s: not a number from 0 to 1023\n", word);
    return -1;
  }
  *(uint32_t *)to = (uint32_t)n;
  return 0;
}

int kvl_cmd_calibrate(int argc, char **argv)
{
  const char *out = NULL, *name = NULL, *from = NULL, *refit = NULL;
  struct kvl_probe_config config = {.seed = 1, .stop = &kvl_stop, .host_bytes = default_host_bytes()};
  int format = KVL_FORMAT_TABLE;
  bool measured_options = false;
  const struct kvl_option options[] = {
    {KVL_OPTION("out", TEXT, &out)},
    {KVL_OPTION("name", TEXT, &name)},
    {KVL_OPTION("from", TEXT, &from)},
    {KVL_OPTION("host-gib", OWN, &config.host_bytes), .read = take_host_bytes, .given = &measured_options},
    {KVL_OPTION("quick", FLAG, &config.quick), .given = &measured_options},
    {KVL_OPTION("gpu", OWN, &config.gpu), .read = take_gpu, .given = &measured_options},
    {KVL_OPTION("refit", TEXT, &refit)},
    {KVL_OPTION("format", FORMAT, &format)},
  };
  int code = kvl_cmd_options("calibrate", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  if (argc != optind) {
    fprintf(stderr, "kvloan calibrate: takes no argument '%s' (kvloan calibrate --help tells more)\n", argv[optind]);
    return 2;
  }
  if (refit != NULL && measured_options) {
    fprintf(stderr, "kvloan calibrate: --refit measures nothing: --host-gib, --quick and --gpu do not go with it\n");
    return 2;
  }
  if ((name != NULL && (name[0] == '\0' || strlen(name) >= KVL_NAME_MAX)) || (from != NULL && strlen(from) >= KVL_NAME_MAX)) {
    fprintf(stderr, "kvloan calibrate: a name has 1 to %d bytes\n", (int)KVL_NAME_MAX - 1);
    return 2;
  }
  kvl_stop_on_signals();
  struct kvl_err err;
  struct kvl_calibration *c = calloc(1, sizeof *c);
  int rc = c == NULL ? kvl_err_set(&err, -ENOMEM, "no memory") : out != NULL ? kvl_place_ready(out, &err) /* before minutes of measuring */ : 0;
  rc = rc != 0 || from == NULL || from[0] == '\0' ? rc : check_from(from, out, &err);
  rc = rc != 0 ? rc : refit != NULL ? kvl_calibrate_read(c, refit, &err) : measure(c, &config, &err);
  if (rc == 0) {
    if (from != NULL) {
      (void)snprintf(c->from, sizeof c->from, "%s", from);
    }
    if (name != NULL) {
      (void)snprintf(c->name, sizeof c->name, "%s", name);
    } else if (out != NULL) {
      name_of_file(c->name, out);
    } else if (c->name[0] == '\0') {
      (void)snprintf(c->name, sizeof c->name, "measured");
    }
    rc = kvl_calibrate_fit(c, &err);
    rc = rc != 0 ? rc : check_descriptor(c, out != NULL ? out : c->name, &err);
  }
  rc = rc != 0 || out == NULL ? rc : kvl_place_write(out, put_descriptor, c, &err);
  if (rc == 0) {
    kvl_calibrate_write(stdout, (enum kvl_format)format, c);
    if (out != NULL) {
      fprintf(stderr, "%s: written; use it with --set=node.hardware=%s\n", out, out);
    }
  } else {
    fprintf(stderr, "%s\n", err.text);
  }
  if (c != NULL) {
    kvl_calibrate_free(c);
  }
  free(c);
  return rc == 0 ? 0 : rc == -EINTR ? 130 : 1;
}
