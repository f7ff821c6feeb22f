/* kvloan sweep SWEEP.json */
#include "sim/cmd_sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/rows.h"
#include "results/text.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/results_sweep.h"

enum { SETS_MAX = 256, SHARES_MAX = 100000 };

static const char help[] =
  "usage: kvloan sweep SWEEP.json --store=FILE [OPTIONS]\n"
  "       kvloan sweep SWEEP.json --list [--format=tsv|json]\n"
  "\n"
  "Runs every point of a design (docs/sweeps.md has the format) and prints its table. Each point is stored as it ends; ended at any moment and started\n"
  "again, the same command goes on where it was. A point that fails is stored with its reason and stops nothing.\n"
  "  --store=FILE           the result store that holds the sweep\n"
  "  --list                 the points, their seeds and the command of each, without running any\n"
  "  --set=KEY=VALUE        a scenario key for every point, as if it stood in the design's \"set\"; repeat as you like\n"
  "  --jobs=N               points at once (default: as many as there are cores)\n"
  "  --threads=N            threads of one point (default 1); no result depends on either\n"
  "  --shard=I/N            only every N-th run, from the I-th; kvloan results merge brings the stores of the shards together\n"
  "  --keep=all|summary     what of each run: also its requests, time line and counters (default), or its summary alone\n"
  "  --retry-failed         run failed points again\n"
  "  --failed-ok            exit with 0 although points failed\n"
  "  --take-over            go on with a sweep of a process on another machine that is gone; one that lives on this machine is waited for\n"
  "  --plane=model|host     as in kvloan run\n"
  "  --format=table|json|tsv, --quiet\n"
  "On a cluster:\n"
  "  --engine=local|slurm   slurm: submit an array of shards with sbatch\n"
  "  --shards=N             tasks of that array (default 16)\n"
  "  --wait                 wait for the array, then merge its stores into FILE; without it, the command that merges is printed\n"
  "  --sbatch=OPTION        passed on to sbatch, for example --sbatch=--cpus-per-task=8; repeat as you like\n";

struct options {
  struct kvl_sweep_call call;
  const char *set[SETS_MAX];
  const char *engine;
  int format;
  bool format_given, list;
};

static int complain(const char *text, const char *detail)
{
  fprintf(stderr, "kvloan sweep: %s%s\n", text, detail);
  return 2;
}

/* A whole number from 1 to `max`; 0: it is none. */
static uint32_t number(const char *word, uint32_t max, const char **rest)
{
  char *end;
  unsigned long value = word[0] >= '0' && word[0] <= '9' ? strtoul(word, &end, 10) : 0;
  *rest = value == 0 ? word : end;
  return value >= 1 && value <= max ? (uint32_t)value : 0;
}

static int take_shard(void *to, const char *word)
{
  struct kvl_sweep_share *share = to;
  const char *rest;
  uint32_t index = number(word, SHARES_MAX, &rest), count = index != 0 && *rest == '/' ? number(rest + 1, SHARES_MAX, &rest) : 0;
  if (count == 0 || *rest != '\0') {
    fprintf(stderr, "kvloan sweep: --shard=%s: must be I/N, for example 1/4\n", word);
    return 2;
  }
  if (index > count) {
    fprintf(stderr, "kvloan sweep: --shard=%s: there %s %u shard%s (nearest: --shard=%u/%u)\n", word, count == 1 ? "is" : "are", (unsigned)count, kvl_text_s(count), (unsigned)count, (unsigned)count);
    return 2;
  }
  *share = (struct kvl_sweep_share){index - 1, count};
  return 0;
}

static int take_keep(void *to, const char *word)
{
  static const char *const keeps[] = {"all", "summary"};
  int choice = kvl_cmd_choice("sweep", "keep", "choice", word, keeps, 2);
  *(bool *)to = choice == 1;
  return choice < 0 ? -1 : 0;
}

static int take_plane(void *to, const char *word)
{
  static const char *const planes[] = {"model", "host"};
  *(const char **)to = word;
  return kvl_cmd_choice("sweep", "plane", "choice", word, planes, 2) < 0 ? -1 : 0;
}

static int take_engine(void *to, const char *word)
{
  static const char *const engines[] = {"local", "slurm"};
  *(const char **)to = word;
  return kvl_cmd_choice("sweep", "engine", "choice", word, engines, 2) < 0 ? -1 : 0;
}

static int take_sbatch(void *to, const char *word)
{
  struct kvl_sweep_call *c = to;
  if (c->sbatches == KVL_SWEEP_SBATCH_MAX) {
    return complain("more than 32 --sbatch options", "");
  }
  c->sbatch[c->sbatches++] = word;
  return 0;
}

/* 0, an exit code, or -1 after --help. */
static int parse(struct options *o, int argc, char **argv)
{
  struct kvl_sweep_call *c = &o->call;
  const struct kvl_option options[] = {
    {KVL_OPTION("store", STORE, &c->store)},
    {KVL_OPTION("list", FLAG, &o->list)},
    {KVL_OPTION("set", SET, o->set), .count = &c->sets, .number = SETS_MAX},
    {KVL_OPTION("jobs", COUNT, &c->jobs), .number = 1024},
    {KVL_OPTION("threads", COUNT, &c->threads), .number = 256},
    {KVL_OPTION("shard", OWN, &c->share), .read = take_shard},
    {KVL_OPTION("keep", OWN, &c->summary_only), .read = take_keep},
    {KVL_OPTION("retry-failed", FLAG, &c->retry_failed)},
    {KVL_OPTION("failed-ok", FLAG, &c->failed_ok)},
    {KVL_OPTION("take-over", FLAG, &c->take_over)},
    {KVL_OPTION("plane", OWN, &c->plane), .read = take_plane},
    {KVL_OPTION("format", FORMAT, &o->format), .given = &o->format_given},
    {KVL_OPTION("quiet", FLAG, &c->quiet)},
    {KVL_OPTION("engine", OWN, &o->engine), .read = take_engine},
    {KVL_OPTION("shards", COUNT, &c->shards), .number = SHARES_MAX},
    {KVL_OPTION("wait", FLAG, &c->wait)},
    {KVL_OPTION("sbatch", OWN, c), .read = take_sbatch},
  };
  return kvl_cmd_options("sweep", help, KVL_OPTIONS(options), argc, argv);
}

static int check(const struct options *o, int positional)
{
  const struct kvl_sweep_call *c = &o->call;
  bool slurm = strcmp(o->engine, "slurm") == 0;
  if (positional != 1) {
    return complain(positional == 0 ? "which design?" : "one design at a time", " (kvloan sweep --help tells more)");
  }
  if (o->list && o->format_given && o->format == KVL_FORMAT_TABLE) {
    return complain("--list writes tsv or json", "");
  }
  if (!o->list && c->store == NULL) {
    return complain("where to? --store=FILE", " (or --list to see the points)");
  }
  if (!slurm && (c->wait || c->shards != 0 || c->sbatches > 0)) {
    return complain(c->wait ? "--wait" : c->shards != 0 ? "--shards" : "--sbatch", " belongs to --engine=slurm");
  }
  if (slurm && c->share.count > 1) {
    return complain("--shard", " is what --engine=slurm gives its tasks; --shards=N says how many");
  }
  return 0;
}

/* ---- --list ---- */

static int list_tasks(const struct kvl_sweep *s, const struct options *o)
{
  static const char *const front[] = {"task", "point", "repeat", "seed"}, *const back[] = {"reason", "command"};
  const char *columns[KVL_SWEEP_KEYS_MAX + 8];
  uint32_t n = 0;
  struct kvl_rows rows;
  for (unsigned i = 0; i < 4; i++) {
    columns[n++] = front[i];
  }
  for (unsigned k = 0; k < s->keys; k++) {
    columns[n++] = s->key[k];
  }
  columns[n++] = back[0];
  columns[n++] = back[1];
  kvl_rows_begin(&rows, stdout, o->format_given ? (enum kvl_format)o->format : KVL_FORMAT_TSV, columns, n);
  for (uint32_t t = 0; t < kvl_sweep_tasks(s); t++) {
    if (t % o->call.share.count != o->call.share.index) {
      continue;
    }
    char *command = kvl_sweep_command(s, t), seed[24];
    if (command == NULL) {
      fprintf(stderr, "kvloan sweep: out of memory\n");
      return 1;
    }
    (void)snprintf(seed, sizeof seed, "%" PRIu64, kvl_sweep_seed(s, t));
    kvl_rows_count(&rows, t + 1);
    kvl_rows_count(&rows, t / s->repeats + 1);
    kvl_rows_count(&rows, t % s->repeats + 1);
    kvl_rows_raw(&rows, seed);
    for (unsigned k = 0; k < s->keys; k++) {
      char text[KVL_SWEEP_VALUE_TEXT];
      const char *value = s->value[(size_t)(t / s->repeats) * s->keys + k];
      if (value != NULL && (value[0] == '-' || (value[0] >= '0' && value[0] <= '9'))) {
        kvl_rows_raw(&rows, value);
      } else {
        kvl_rows_text(&rows, value == NULL ? NULL : kvl_sweep_value_text(text, value));
      }
    }
    kvl_rows_text(&rows, s->reason[t / s->repeats]);
    kvl_rows_text(&rows, command);
    free(command);
  }
  kvl_rows_end(&rows);
  return 0;
}

/* ---- running ---- */

static void tell_end(const struct kvl_sweep *s, const struct kvl_sweep_call *c, const struct kvl_sweep_outcome *out)
{
  uint32_t done = out->complete + out->failed;
  if (out->interrupted) {
    fprintf(stderr, "kvloan sweep: ended early with %u of %u run%s stored; the same command goes on\n", (unsigned)done, (unsigned)out->tasks, kvl_text_s(out->tasks));
  } else if (!c->quiet) {
    fprintf(stderr, "%s: %u of %u run%s complete", s->name, (unsigned)out->complete, (unsigned)out->tasks, kvl_text_s(out->tasks));
    if (out->failed > 0) {
      fprintf(stderr, ", %u failed", (unsigned)out->failed);
    }
    fprintf(stderr, "; sweep %" PRId64 " in %s\n", out->sweep, c->store);
  }
}

static int run(const struct kvl_sweep *s, const struct options *o)
{
  const struct kvl_sweep_call *c = &o->call;
  struct kvl_sweep_outcome out = {.sweep = 0};
  struct kvl_err err = {""};
  bool slurm = strcmp(o->engine, "slurm") == 0, stored = true;
  if (s->impossible > 0 && !c->quiet) {
    uint32_t p = 0;
    while (s->reason[p] == NULL) {
      p++;
    }
    fprintf(stderr, "note: %u of %u point%s cannot be run; point %u: %s\n", (unsigned)s->impossible, (unsigned)s->points, kvl_text_s(s->points), (unsigned)p + 1, s->reason[p]);
  }
  int rc = slurm ? kvl_sweep_run_slurm(s, c, &stored, &err) : kvl_sweep_run_local(s, c, &out, &err);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
    return rc == -EINTR ? 130 : 1;
  }
  if (!stored) {
    return 0;
  }
  if (!slurm) {
    tell_end(s, c, &out);
  }
  uint32_t failed = out.failed;
  rc = kvl_results_print_sweep(c->store, s->hash, (enum kvl_format)o->format, slurm ? &failed : NULL);
  if (rc == 0 && out.interrupted) {
    return 130;
  }
  if (rc == 0 && failed > 0 && !c->failed_ok) {
    fprintf(stderr, "kvloan sweep: %u run%s failed: the table says why; --retry-failed runs %s again\n", (unsigned)failed, kvl_text_s(failed), failed == 1 ? "it" : "them");
    return 1;
  }
  return rc;
}

int kvl_cmd_sweep(int argc, char **argv)
{
  struct options *o = calloc(1, sizeof *o);
  struct kvl_sweep *sweep = NULL;
  struct kvl_err err = {""};
  if (o == NULL) {
    return complain("out of memory", "") - 1;
  }
  o->engine = "local";
  o->call = (struct kvl_sweep_call){.plane = "model", .share = {0, 1}, .threads = 1, .stop = &kvl_stop, .set = o->set};
  int code = parse(o, argc, argv);
  code = code != 0 ? code : check(o, argc - optind);
  if (code == 0) {
    o->call.design = argv[optind];
    code = kvl_sweep_load(&sweep, o->call.design, o->set, o->call.sets, &err) != 0 || kvl_sweep_resolve(sweep, &err) != 0;
    if (code != 0) {
      fprintf(stderr, "%s\n", err.text);
    }
  }
  if (code == 0 && o->list) {
    code = list_tasks(sweep, o);
  } else if (code == 0) {
    kvl_stop_on_signals();
    char *command = kvl_cmd_line(argc, argv);
    o->call.command = command == NULL ? "" : command;
    code = run(sweep, o);
    free(command);
  }
  kvl_sweep_free(sweep);
  free(o);
  return code < 0 ? 0 : code;
}
