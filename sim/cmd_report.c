/* kvloan report: one self-contained HTML page about stored runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "results/select.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/cmd_progress.h"
#include "sim/report_runs.h"

enum { SETS_MAX = 128, KNOBS = 8 };

static const char help[] =
  "usage: kvloan report --store=FILE RUN [RUN...] --out=FILE.html [OPTIONS]\n"
  "       kvloan report --store=FILE --sweep=SWEEP --out=FILE.html [OPTIONS]\n"
  "       kvloan report --store=FILE --plan=PLAN --out=FILE.html [OPTIONS]\n"
  "\n"
  "Writes one self-contained HTML page: what was asked, the answer, the evidence in pictures and tables, the scenario, and the commands that repeat it. It\n"
  "needs no network and no script, and reads well on a desk, a phone and paper, light and dark. One run gives its story; several are compared; a sweep\n"
  "shows its best points, the front between throughput and rate, and every point with its runs; a plan its recommendation, the margin, why not more and how\n"
  "sure that is.\n"
  "  --out=FILE.html      where to; without it the page goes to standard output\n"
  "  --sweep=SWEEP        a sweep of the store: its number, its name, or latest\n"
  "  --plan=PLAN          a plan of the store: its number, its name, or latest\n"
  "  --title=TEXT         the heading (default: made from the runs)\n"
  "  --explain            one run: also run the model plane again with one thing changed at a time (kvloan explain), and say what to turn next\n"
  "  --set=KEY=VALUE      change the scenario first, for instance workload.file when it has moved; repeat as you like\n"
  "  --threads=N          re-runs at once (default: all cores)\n"
  "  --quiet              no progress line\n"
  "\n"
  "RUN is an id, a name or its start, latest, or all; latest:mode=fixed and the like choose among runs (kvloan results --help).\n"
  "Pictures are drawn by gnuplot; without it the page has none, and says so.\n";

struct call {
  const char *store, *out, *title, *sweep, *plan;
  const char *sets[SETS_MAX];
  unsigned set_count, threads;
  bool explain, quiet;
  char **words;
  int word_count;
};

/* 0; 2: usage, said; -1: --help. */
static int parse(struct call *c, int argc, char **argv)
{
  const struct kvl_option options[] = {
    {KVL_OPTION("store", STORE, &c->store)},
    {KVL_OPTION("out", TEXT, &c->out)},
    {KVL_OPTION("title", TEXT, &c->title)},
    {KVL_OPTION("explain", FLAG, &c->explain)},
    {KVL_OPTION("set", SET, c->sets), .count = &c->set_count, .number = SETS_MAX},
    {KVL_OPTION("threads", THREADS, &c->threads)},
    {KVL_OPTION("quiet", FLAG, &c->quiet)},
    {KVL_OPTION("sweep", TEXT, &c->sweep)},
    {KVL_OPTION("plan", TEXT, &c->plan)},
  };
  int code = kvl_cmd_options("report", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    return code;
  }
  c->words = argv + optind;
  c->word_count = argc - optind;
  int asked = (c->word_count > 0) + (c->sweep != NULL) + (c->plan != NULL);
  if (c->store == NULL || asked != 1) {
    fprintf(stderr, "kvloan report: %s (kvloan report --help tells more)\n",
            c->store == NULL ? "which store? --store=FILE" : asked > 1 ? "runs, a sweep or a plan: one of them" : "which runs? an id, a name, latest, or all");
    return 2;
  }
  if (c->out == NULL && isatty(STDOUT_FILENO) == 1) {
    fprintf(stderr, "kvloan report: where to? --out=FILE.html\n");
    return 2;
  }
  return 0;
}

static int put_page(FILE *out, const void *report)
{
  return kvl_report_write(report, out);
}

/* To the file or to standard output, and what is to be said about it. */
static int deliver(const struct call *c, const struct kvl_report *report, int no_pictures, struct kvl_err *err)
{
  int rc = 0;
  if (c->out != NULL) {
    rc = kvl_place_write(c->out, put_page, report, err);
  } else if (kvl_report_write(report, stdout) == -ENOMEM) { /* what standard output does not take is told by main */
    rc = kvl_err_set(err, -ENOMEM, "kvloan report: out of memory");
  }
  if (rc == 0 && no_pictures) {
    fprintf(stderr, "note: no pictures: gnuplot is not installed (Debian: gnuplot-nox)\n");
  }
  return rc;
}

static int report_on(const struct call *c, struct kvl_store *store, const struct kvl_stored_run *const *runs, uint32_t count, struct kvl_err *err)
{
  struct kvl_report_source source = {.store = store, .store_path = c->store, .run = runs, .count = count, .title = c->title, .sets = c->sets,
                                     .set_count = c->set_count};
  struct kvl_explain_options what_if = {.knobs = KNOBS, .threads = c->threads, .sets = c->sets, .set_count = c->set_count, .stop = &kvl_stop};
  struct kvl_report *report = NULL;
  int no_pictures = 0;
  for (uint32_t r = 0; r < count; r++) {
    if (!runs[r]->has_summary) {
      return kvl_err_set(err, -EINVAL, "%s: run %lld is %s and has no summary to report", c->store, (long long)runs[r]->id, kvl_stored_status_name(runs[r]->status));
    }
  }
  struct kvl_cmd_progress progress;
  kvl_cmd_progress_begin(&progress, "");
  what_if.progress = !c->quiet && isatty(STDERR_FILENO) == 1 ? kvl_cmd_progress_reruns : NULL;
  what_if.progress_context = &progress;
  source.what_if = c->explain && count == 1 ? &what_if : NULL;
  int rc = count == 1 ? kvl_report_of_run(&report, &source, &no_pictures, err) : kvl_report_of_runs(&report, &source, &no_pictures, err);
  kvl_cmd_progress_end(&progress);
  rc = rc != 0 ? rc : deliver(c, report, no_pictures, err);
  if (rc == 0 && c->explain && count > 1) {
    fprintf(stderr, "note: --explain is for one run; the comparison has no re-runs\n");
  }
  kvl_report_destroy(report);
  return rc;
}

static int report_on_sweep(const struct call *c, struct kvl_store *store, struct kvl_err *err)
{
  struct kvl_report_source source = {.store = store, .store_path = c->store, .title = c->title};
  struct kvl_sweep_list list = {NULL, 0};
  struct kvl_sweep_table table;
  struct kvl_report *report = NULL;
  uint32_t index = 0;
  int no_pictures = 0;
  memset(&table, 0, sizeof table);
  int rc = kvl_store_sweeps(store, &list, err);
  rc = rc != 0 ? rc : kvl_sweep_select(&list, c->store, strcmp(c->sweep, "latest") == 0 ? NULL : c->sweep, &index, err);
  rc = rc != 0 ? rc : kvl_sweep_table_read(store, &list.sweep[index], &table, err);
  rc = rc != 0 ? rc : kvl_report_of_sweep(&report, &source, &table, &no_pictures, err);
  rc = rc != 0 ? rc : deliver(c, report, no_pictures, err);
  kvl_report_destroy(report);
  kvl_sweep_table_free(&table);
  kvl_sweep_list_free(&list);
  return rc;
}

static int report_on_plan(const struct call *c, struct kvl_store *store, struct kvl_err *err)
{
  struct kvl_report_source source = {.store = store, .store_path = c->store, .title = c->title};
  struct kvl_plan_list list = {NULL, 0};
  struct kvl_report *report = NULL;
  uint32_t index = 0;
  int no_pictures = 0;
  int rc = kvl_store_plans(store, &list, err);
  rc = rc != 0 ? rc : kvl_plan_select(&list, c->store, strcmp(c->plan, "latest") == 0 ? NULL : c->plan, &index, err);
  rc = rc != 0 ? rc : kvl_report_of_plan(&report, &source, &list.plan[index], &no_pictures, err);
  rc = rc != 0 ? rc : deliver(c, report, no_pictures, err);
  kvl_report_destroy(report);
  kvl_plan_list_free(&list);
  return rc;
}

int kvl_cmd_report(int argc, char **argv)
{
  struct call c = {.store = NULL};
  int code = parse(&c, argc, argv);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  kvl_stop_on_signals();
  struct kvl_err err = {"kvloan report: out of memory"};
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_store *store = NULL;
  struct kvl_run_list list = {NULL, 0};
  uint32_t *index = NULL, count = 0;
  const struct kvl_stored_run **runs = NULL;
  int rc = kvl_store_open_with(&store, c.store, &reading, &err);
  rc = rc != 0 ? rc : kvl_store_list(store, &list, &err);
  if (rc == 0 && c.sweep != NULL) {
    rc = report_on_sweep(&c, store, &err);
  } else if (rc == 0 && c.plan != NULL) {
    rc = report_on_plan(&c, store, &err);
  } else if (rc == 0) {
    index = calloc(list.count + 1u, sizeof *index);
    runs = calloc(list.count + 1u, sizeof *runs);
    rc = index == NULL || runs == NULL ? -ENOMEM : kvl_select_runs(&list, c.store, (const char *const *)c.words, (unsigned)c.word_count, index, &count, &err);
  }
  for (uint32_t r = 0; rc == 0 && r < count; r++) {
    runs[r] = &list.run[index[r]];
  }
  rc = rc != 0 || c.sweep != NULL || c.plan != NULL ? rc : report_on(&c, store, runs, count, &err);
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
  }
  free(index);
  free(runs);
  kvl_run_list_free(&list);
  kvl_store_close(store);
  return rc == 0 ? 0 : rc == -EINTR ? 130 : 1;
}
