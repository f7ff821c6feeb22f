/* kvloan results sweeps, table, merge, export --what=sweep, plot heatmap|lines|pareto. */
#include "sim/results_sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/plot_sweep.h"
#include "results/rows.h"
#include "results/text.h"
#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/cmd_results.h"
#include "sim/cmd_sweep.h"

enum { WHERE_MAX = 16 };

static const char help[] =
  "usage: kvloan results sweeps --store=FILE [--format=table|json|tsv]\n"
  "       kvloan results table  --store=FILE [SWEEP] [--metric=KEY[,KEY...]] [--where=KEY=VALUE]... [--format=table|json|tsv]\n"
  "       kvloan results export --store=FILE [SWEEP] --what=sweep [--format=tsv|json]\n"
  "       kvloan results plot   --store=FILE heatmap [SWEEP] --x=KEY --y=KEY [--metric=KEY] [--where=KEY=VALUE]... --out=FILE\n"
  "       kvloan results plot   --store=FILE lines   [SWEEP] --x=KEY [--by=KEY] [--metric=KEY[,KEY...]] [--where=KEY=VALUE]... --out=FILE\n"
  "       kvloan results plot   --store=FILE pareto  [SWEEP] [--by=KEY] [--where=KEY=VALUE]... --out=FILE\n"
  "       kvloan results merge  OUT IN...\n"
  "\n"
  "SWEEP    its number or name; the newest when left out. KEY for --x, --y, --by and --where: a key that the sweep changes, or the last word of it.\n"
  "table    one row a point: values, the mean of each metric over the repeats with its 95 % interval, run numbers, reasons of failures.\n"
  "export   --what=sweep: one row a run in the order of the design, without anything measured: equal bytes mean equal results.\n"
  "heatmap  one metric over two keys; lines: metrics over one key, one line a value of --by, bars for the interval; pareto: output throughput\n"
  "         against the rate of one request, with the front. Points that differ in other keys must be told apart with --where.\n"
  "merge    brings stores together into OUT, which may exist; merging twice, or in another order, changes nothing.\n";

static const char *const pictures[] = {"heatmap", "lines", "pareto"};

struct call {
  const char *command, *picture;
  const char *store, *what, *out, *metrics, *x, *y, *by;
  const char *where[WHERE_MAX];
  uint32_t wheres;
  int format;
  bool format_given;
};

static bool is_picture(const char *word)
{
  return strcmp(word, pictures[0]) == 0 || strcmp(word, pictures[1]) == 0 || strcmp(word, pictures[2]) == 0;
}

bool kvl_results_is_sweep(int argc, char **argv)
{
  if (argc < 2) {
    return false;
  }
  if (strcmp(argv[1], "sweeps") == 0 || strcmp(argv[1], "table") == 0 || strcmp(argv[1], "merge") == 0) {
    return true;
  }
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[1], "plot") == 0 && is_picture(argv[i]) && (argv[i - 1][0] != '-' || strchr(argv[i - 1], '=') != NULL)) {
      return true;
    }
    if (strcmp(argv[1], "export") == 0 &&
        (strcmp(argv[i], "--what=sweep") == 0 || (strcmp(argv[i], "--what") == 0 && i + 1 < argc && strcmp(argv[i + 1], "sweep") == 0))) {
      return true;
    }
  }
  return false;
}

static int complain(const struct call *c, const char *text)
{
  fprintf(stderr, "kvloan results %s: %s\n", c->command, text);
  return 2;
}

static int take_where(void *to, const char *word)
{
  struct call *c = to;
  if (c->wheres == WHERE_MAX) {
    return complain(c, "more than 16 --where options");
  }
  c->where[c->wheres++] = word;
  return 0;
}

static int parse(struct call *c, int argc, char **argv)
{
  const struct kvl_option options[] = {
    {KVL_OPTION("store", STORE, &c->store)},
    {KVL_OPTION("format", FORMAT, &c->format), .given = &c->format_given},
    {KVL_OPTION("what", TEXT, &c->what)},
    {KVL_OPTION("out", TEXT, &c->out)},
    {KVL_OPTION("metric", TEXT, &c->metrics)},
    {KVL_OPTION("where", OWN, c), .read = take_where},
    {KVL_OPTION("x", TEXT, &c->x)},
    {KVL_OPTION("y", TEXT, &c->y)},
    {KVL_OPTION("by", TEXT, &c->by)},
  };
  return kvl_cmd_options("results", help, KVL_OPTIONS(options), argc, argv);
}

/* "a,b" into indices of summary keys; the usual ones when NULL. */
static int parse_metrics(const char *word, const char *const *usual, uint32_t *metric, uint32_t *count, struct kvl_err *err)
{
  char text[1024];
  int code = 0;
  *count = 0;
  for (uint32_t i = 0; word == NULL && usual[i] != NULL && code == 0; i++) {
    code = kvl_sweep_metric(usual[i], &metric[(*count)++], err);
  }
  if (word != NULL && snprintf(text, sizeof text, "%s", word) >= (int)sizeof text) {
    return kvl_err_set(err, -1, "--metric: too long");
  }
  char *rest = NULL;
  for (char *name = word == NULL ? NULL : strtok_r(text, ",", &rest); name != NULL && code == 0; name = strtok_r(NULL, ",", &rest)) {
    if (*count == KVL_SWEEP_METRICS_MAX) {
      return kvl_err_set(err, -1, "--metric: more than %d", (int)KVL_SWEEP_METRICS_MAX);
    }
    code = kvl_sweep_metric(name, &metric[(*count)++], err);
  }
  return code == 0 && *count == 0 ? kvl_err_set(err, -1, "--metric: names no key of the summary") : code;
}

static int check(const struct call *c, int words)
{
  bool plot = c->picture != NULL, table = strcmp(c->command, "table") == 0;
  if (c->store == NULL) {
    return complain(c, "which store? --store=FILE");
  }
  if (words > (strcmp(c->command, "sweeps") == 0 ? 0 : 1)) {
    return complain(c, words > 1 ? "one sweep at a time" : "takes no sweep; kvloan results table shows one");
  }
  if (!plot && (c->x != NULL || c->y != NULL || c->by != NULL || c->out != NULL)) {
    return complain(c, "--x, --y, --by and --out belong to plot");
  }
  if (!plot && !table && (c->metrics != NULL || c->wheres > 0)) {
    return complain(c, "--metric and --where belong to table and plot");
  }
  if (plot && c->out == NULL) {
    return complain(c, "where to? --out=FILE.png, FILE.svg, or FILE for both");
  }
  if (plot && strcmp(c->picture, "heatmap") == 0 && (c->x == NULL || c->y == NULL)) {
    return complain(c, "a heatmap is over two keys: --x=KEY --y=KEY");
  }
  if (plot && strcmp(c->picture, "lines") == 0 && c->x == NULL) {
    return complain(c, "lines are over a key: --x=KEY");
  }
  uint32_t metric[KVL_SWEEP_METRICS_MAX], metrics;
  struct kvl_err err;
  if (c->metrics != NULL && parse_metrics(c->metrics, NULL, metric, &metrics, &err) != 0) {
    return complain(c, err.text);
  }
  for (uint32_t i = 0; i < c->wheres; i++) {
    if (strchr(c->where[i], '=') == NULL) {
      fprintf(stderr, "kvloan results %s: --where=%s: must be KEY=VALUE\n", c->command, c->where[i]);
      return 2;
    }
  }
  if (c->what != NULL && strcmp(c->what, "sweep") != 0) {
    return complain(c, "--what belongs to export");
  }
  if (strcmp(c->command, "export") == 0 && c->format_given && c->format == KVL_FORMAT_TABLE) {
    return complain(c, "--format=table: writes tsv or json (tables: kvloan results table)");
  }
  return 0;
}

/* ---- sweeps ---- */

static const char *state_of(const struct kvl_stored_sweep *s)
{
  return s->running ? "running" : s->complete + s->failed < s->points * s->repeats ? "unfinished" : s->failed > 0 ? "with failures" : "complete";
}

static void list_sweeps(const struct kvl_sweep_list *list, enum kvl_format format)
{
  static const char *const columns[] = {"sweep", "name", "scenario", "points", "repeats", "complete", "failed", "state", "created", "hash", "note"};
  enum { COLUMNS = 11, SHOWN = 9 };
  struct kvl_rows rows;
  char when[KVL_WHEN_MAX];
  if (format != KVL_FORMAT_TABLE) {
    kvl_rows_begin(&rows, stdout, format, columns, COLUMNS);
    for (uint32_t i = 0; i < list->count; i++) {
      const struct kvl_stored_sweep *s = &list->sweep[i];
      kvl_rows_count(&rows, (uint64_t)s->id);
      kvl_rows_text(&rows, s->name);
      kvl_rows_text(&rows, s->scenario);
      kvl_rows_count(&rows, s->points);
      kvl_rows_count(&rows, s->repeats);
      kvl_rows_count(&rows, s->complete);
      kvl_rows_count(&rows, s->failed);
      kvl_rows_text(&rows, state_of(s));
      kvl_rows_text(&rows, kvl_results_when(when, s->created_unix_ms));
      kvl_rows_text(&rows, s->hash);
      kvl_rows_text(&rows, s->note);
    }
    kvl_rows_end(&rows);
    return;
  }
  size_t width[SHOWN] = {0};
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i <= list->count; i++) {
      char cell[SHOWN][128];
      for (int c = 0; c < SHOWN; c++) {
        (void)snprintf(cell[c], sizeof cell[c], "%s", columns[c]);
      }
      if (i > 0) {
        const struct kvl_stored_sweep *s = &list->sweep[i - 1];
        const uint32_t number[] = {s->points, s->repeats, s->complete, s->failed};
        (void)snprintf(cell[0], sizeof cell[0], "%" PRId64, s->id);
        (void)snprintf(cell[1], sizeof cell[1], "%.120s", s->name);
        (void)snprintf(cell[2], sizeof cell[2], "%.120s", s->scenario);
        for (int c = 0; c < 4; c++) {
          (void)snprintf(cell[3 + c], sizeof cell[0], "%u", (unsigned)number[c]);
        }
        (void)snprintf(cell[7], sizeof cell[7], "%s", state_of(s));
        (void)snprintf(cell[8], sizeof cell[8], "%s", kvl_results_when(when, s->created_unix_ms));
      }
      for (int c = 0; c < SHOWN; c++) {
        size_t columns_taken = kvl_text_columns(cell[c]);
        width[c] = columns_taken > width[c] ? columns_taken : width[c];
        if (pass == 1) {
          kvl_text_pad(stdout, cell[c], c == SHOWN - 1 ? 0 : width[c], c == 0 || (c >= 3 && c <= 6));
          (void)fputs(c == SHOWN - 1 ? "\n" : "  ", stdout);
        }
      }
    }
  }
}

/* ---- table, export, plot ---- */

static int draw(const struct call *c, const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, struct kvl_err *err)
{
  static const char *const heat[] = {"output_throughput_tok_per_s", NULL};
  static const char *const usual[] = {"output_throughput_tok_per_s", "request_rate_tok_per_s_p50", "ttft_s_p90", NULL};
  struct kvl_plot plot = {.out = c->out};
  uint32_t metric[KVL_SWEEP_METRICS_MAX], metrics = 0, x = 0, y = 0, by = UINT32_MAX;
  int code = parse_metrics(c->metrics, strcmp(c->picture, "heatmap") == 0 ? heat : usual, metric, &metrics, err);
  code = code != 0 || c->x == NULL ? code : kvl_sweep_key(table, c->x, &x, err);
  code = code != 0 || c->y == NULL ? code : kvl_sweep_key(table, c->y, &y, err);
  code = code != 0 || c->by == NULL ? code : kvl_sweep_key(table, c->by, &by, err);
  if (code != 0) {
    return code;
  }
  if (strcmp(c->picture, "heatmap") == 0) {
    return kvl_plot_heatmap(&plot, table, point, points, x, y, metric[0], err);
  }
  if (strcmp(c->picture, "lines") == 0) {
    return kvl_plot_lines(&plot, table, point, points, x, by, metric, metrics, err);
  }
  return kvl_plot_pareto(&plot, table, point, points, by, err);
}

static const char *const usual_metrics[] = {"output_throughput_tok_per_s", "request_rate_tok_per_s_p50", "ttft_s_p90", "decode_batch_p50", NULL};

static int with_table(const struct call *c, const struct kvl_sweep_table *table, struct kvl_err *err)
{
  uint32_t *point = calloc(table->points, sizeof *point), points = 0, metric[KVL_SWEEP_METRICS_MAX], metrics = 0;
  int code = point == NULL ? kvl_err_set(err, -1, "out of memory") : kvl_sweep_where(table, c->where, c->wheres, point, &points, err);
  if (code == 0 && c->picture != NULL) {
    code = draw(c, table, point, points, err);
  } else if (code == 0 && strcmp(c->command, "export") == 0) {
    code = kvl_sweep_write_tasks(stdout, c->format_given ? (enum kvl_format)c->format : KVL_FORMAT_TSV, table);
  } else if (code == 0) {
    code = parse_metrics(c->metrics, usual_metrics, metric, &metrics, err);
    code = code != 0 ? code : kvl_sweep_write_points(stdout, (enum kvl_format)c->format, table, metric, metrics, point, points);
  }
  free(point);
  return code;
}

/* Opens, finds the sweep by word (or by hash, when that is given), and goes on with its table. */
static int with_sweep(const struct call *c, const char *word, const char *hash, uint32_t *failed, struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_sweep_list list = {NULL, 0};
  struct kvl_sweep_table table;
  uint32_t index = 0;
  int code = kvl_store_open_with(&store, c->store, &reading, err);
  code = code != 0 ? code : kvl_store_sweeps(store, &list, err);
  if (code == 0 && strcmp(c->command, "sweeps") == 0) {
    if (list.count == 0 && c->format == KVL_FORMAT_TABLE) {
      fprintf(stderr, "%s: no sweeps yet\n", c->store);
    } else {
      list_sweeps(&list, (enum kvl_format)c->format);
    }
  } else if (code == 0) {
    if (hash == NULL) {
      code = kvl_sweep_select(&list, c->store, word, &index, err);
    }
    for (uint32_t i = 0; i < list.count && hash != NULL; i++) {
      index = strcmp(list.sweep[i].hash, hash) == 0 ? i : index;
    }
    code = code != 0 ? code : kvl_sweep_table_read(store, &list.sweep[index], &table, err);
    if (code == 0) {
      code = with_table(c, &table, err);
      kvl_sweep_table_free(&table);
    }
    if (code == 0 && failed != NULL) {
      *failed = list.sweep[index].failed;
    }
  }
  kvl_sweep_list_free(&list);
  kvl_store_close(store);
  return code;
}

int kvl_results_print_sweep(const char *store, const char *hash, enum kvl_format format, uint32_t *failed)
{
  struct call c = {.command = "table", .store = store, .format = (int)format};
  struct kvl_err err = {""};
  if (with_sweep(&c, NULL, hash, failed, &err) != 0) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  return 0;
}

int kvl_results_sweep(int argc, char **argv)
{
  struct call c = {.command = argv[1], .format = KVL_FORMAT_TABLE};
  struct kvl_err err = {""};
  int code = parse(&c, argc - 1, argv + 1);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  char **word = argv + 1 + optind;
  int words = argc - 1 - optind;
  if (strcmp(c.command, "merge") == 0) {
    if (words < 2) {
      return complain(&c, "needs OUT and at least one IN");
    }
    code = kvl_results_merge_into(word[0], (const char *const *)word + 1, (uint32_t)words - 1, false, &err);
  } else {
    if (strcmp(c.command, "plot") == 0) {
      c.picture = word[0];
      word++;
      words--;
    }
    code = check(&c, words);
    if (code != 0) {
      return code;
    }
    code = with_sweep(&c, words > 0 ? word[0] : NULL, NULL, NULL, &err);
  }
  if (code != 0) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  return 0;
}
