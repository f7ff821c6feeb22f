/* kvloan reproduce: the published experiment's rows, simulated. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cmd.h"
#include "sim/cmd_options.h"
#include "sim/reproduce.h"

static const char help[] =
  "usage: kvloan reproduce [OPTIONS]\n"
  "\n"
  "Runs the published experiment (DeepSeek-V4.1-Flash, four B300, 256 sessions of 500,000 tokens) and prints each published row beside the\n"
  "simulated one, without speculation and with it. Eight rows were used to find eight numbers (calibration); the verdict is on the others: within 5 %, or in\n"
  "their range (a range is missed by so many per cent of its nearer end).\n"
  "  --refit              find the eight numbers again and print them\n"
  "  --leave-out=Pnn      refit without a calibration row and show what it then predicts\n"
  "  --set=KEY=VALUE      change a scenario key in every run (what does the verdict hang on?); repeat as you like\n"
  "  --no-controls        skip the negative controls, and what row P19 hangs on\n"
  "  --scenario=FILE      default: the scenario published-256; published.csv is read from its folder\n"
  "  --store=FILE.db      keep the runs\n"
  "  --format=table|json|tsv\n"
  "  --threads=N          default: all cores; the result does not depend on it\n"
  "Exit code 0: every row of the verdict is within its bound; 1: not so, or an error.\n";

static void say(void *context, const char *what)
{
  (void)context;
  fprintf(stderr, "\r\033[K%s ...", what);
}

static const char *const use_name[] = {[KVL_ROW_CALIBRATION] = "calibration", [KVL_ROW_VERDICT] = "predicted", [KVL_ROW_LEFT_OUT] = "left out",
                                       [KVL_ROW_PRINTED] = "printed"};

static void range(char *text, size_t size, double low, double high)
{
  (void)(low == high ? snprintf(text, size, "%.4g", low) : snprintf(text, size, "%.3g..%.3g", low, high));
}

static void print_row(enum kvl_format format, const struct kvl_reproduced_row *r, bool last)
{
  char published[48], simulated[48], repeat[24] = "", difference[32];
  range(published, sizeof published, r->published->low, r->published->high);
  range(simulated, sizeof simulated, r->simulated_low, r->simulated_high);
  if (r->published->repeat != 0) {
    (void)snprintf(repeat, sizeof repeat, "%.4g", r->published->repeat);
  }
  switch (format) {
  case KVL_FORMAT_TABLE:
    (void)snprintf(difference, sizeof difference, r->published->low != r->published->high && r->within ? "in range" : "%+.1f %%", r->difference_percent);
    printf("%-4s %-9s %-30s %-9s %10s %8s %12s %11s  %-12s %s\n", r->published->id, r->published->mode, r->published->metric, r->published->unit,
           published, repeat, simulated, difference, use_name[r->use], r->within ? "" : r->use == KVL_ROW_VERDICT ? "FAILS" : "off");
    break;
  case KVL_FORMAT_TSV:
    printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%s\t%d\n", r->published->id, r->published->mode, r->published->metric, r->published->unit, published,
           repeat, simulated, r->difference_percent, use_name[r->use], r->within);
    break;
  case KVL_FORMAT_JSON:
    printf("    {\"id\": \"%s\", \"mode\": \"%s\", \"metric\": \"%s\", \"unit\": \"%s\", \"published_low\": %.17g, \"published_high\": %.17g, "
           "\"simulated_low\": %.17g, \"simulated_high\": %.17g, \"difference_percent\": %.4f, \"use\": \"%s\", \"within\": %s}%s\n",
           r->published->id, r->published->mode, r->published->metric, r->published->unit, r->published->low, r->published->high, r->simulated_low,
           r->simulated_high, r->difference_percent, use_name[r->use], r->within ? "true" : "false", last ? "" : ",");
    break;
  }
}

static const struct {
  const char *row, *key;
  size_t offset;
} fitted[] = {
  {"P01", "node.kv_pool_bytes", offsetof(struct kvl_fit, kv_pool_bytes)},
  {"P02", "node.sessions_per_gpu_max", offsetof(struct kvl_fit, sessions_per_gpu_max)},
  {"P05", "workload.requests / workload.concurrency", offsetof(struct kvl_fit, requests_per_session)},
  {"P07", "costs.law_fixed_ms", offsetof(struct kvl_fit, law_fixed_ms)},
  {"P08", "costs.law_token_ms", offsetof(struct kvl_fit, law_token_ms)},
  {"P16", "costs.bookkeeping_ms_at_44", offsetof(struct kvl_fit, bookkeeping_ms_at_44)},
  {"P17", "costs.admission_ms", offsetof(struct kvl_fit, admission_ms)},
  {"P13", "speculation.state_bytes_per_token", offsetof(struct kvl_fit, state_bytes_per_token)},
};
enum { FITTED = sizeof fitted / sizeof fitted[0] };

static double fitted_value(const struct kvl_fit *fit, int i)
{
  double value;
  memcpy(&value, (const char *)fit + fitted[i].offset, sizeof value);
  return value;
}

static void print_table(const struct kvl_reproduction *r, const char *leave_out)
{
  static const char *const parts[] = {[KVL_ROW_CALIBRATION] = "Rows used for calibration", [KVL_ROW_VERDICT] = "Verdict: rows not used",
                                      [KVL_ROW_LEFT_OUT] = "Left out of the fit", [KVL_ROW_PRINTED] = "Printed, no verdict"};
  for (int use = 0; use <= (int)KVL_ROW_PRINTED; use++) {
    bool any = false;
    for (uint32_t i = 0; i < r->rows; i++) {
      if ((int)r->row[i].use != use) {
        continue;
      }
      if (!any) {
        printf("%s%s\n%-4s %-9s %-30s %-9s %10s %8s %12s %11s  %s\n", use == 0 ? "" : "\n", parts[use], "id", "mode", "metric", "unit", "published", "repeat",
               "simulated", "difference", "use");
      }
      any = true;
      print_row(KVL_FORMAT_TABLE, &r->row[i], false);
    }
  }
  printf("\n%s: the worst row of the verdict is off by %.1f %%\n", r->passed ? "PASSED" : "FAILED", r->worst_percent);
  if (r->controls != 0) {
    printf("\nNegative controls, adaptive run changed in one thing (256 concurrent)\n");
    for (uint32_t i = 0; i < r->controls; i++) {
      printf("%-32s %8.0f tok/s  %+5.1f %% against adaptive%s\n", r->control[i].name, r->control[i].throughput_tok_per_s,
             r->control[i].against_adaptive_percent, r->control[i].drafts ? " with drafts" : "");
    }
  }
  if (r->demands != 0) {
    printf("\nRow P19 where something is otherwise that is not published\n");
    for (uint32_t i = 0; i < r->demands; i++) {
      printf("%-32s %8.3g %%\n", r->demand[i].name, r->demand[i].percent);
    }
  }
  printf("\n%s numbers\n", r->refitted ? "Fitted" : "Calibrated");
  for (int i = 0; i < FITTED; i++) {
    bool out = leave_out != NULL && strcmp(leave_out, fitted[i].row) == 0;
    printf("%-42s %16.9g  on %s%s\n", fitted[i].key, fitted_value(&r->fit, i), fitted[i].row, out ? ", which was left out: its prior" : "");
  }
}

static void print_json(const struct kvl_reproduction *r)
{
  printf("{\n  \"rows\": [\n");
  for (uint32_t i = 0; i < r->rows; i++) {
    print_row(KVL_FORMAT_JSON, &r->row[i], i + 1 == r->rows);
  }
  printf("  ],\n  \"controls\": [\n");
  for (uint32_t i = 0; i < r->controls; i++) {
    printf("    {\"name\": \"%s\", \"drafts\": %s, \"output_throughput_tok_per_s\": %.17g, \"against_adaptive_percent\": %.4f}%s\n", r->control[i].name,
           r->control[i].drafts ? "true" : "false", r->control[i].throughput_tok_per_s, r->control[i].against_adaptive_percent, i + 1 == r->controls ? "" : ",");
  }
  printf("  ],\n  \"later_layer_demand\": [\n");
  for (uint32_t i = 0; i < r->demands; i++) {
    printf("    {\"name\": \"%s\", \"percent\": %.17g}%s\n", r->demand[i].name, r->demand[i].percent, i + 1 == r->demands ? "" : ",");
  }
  printf("  ],\n  \"numbers\": {\n");
  for (int i = 0; i < FITTED; i++) {
    printf("    \"%s\": {\"value\": %.17g, \"row\": \"%s\"}%s\n", fitted[i].key, fitted_value(&r->fit, i), fitted[i].row, i + 1 == FITTED ? "" : ",");
  }
  printf("  },\n  \"refitted\": %s,\n  \"worst_percent\": %.4f,\n  \"passed\": %s\n}\n", r->refitted ? "true" : "false", r->worst_percent,
         r->passed ? "true" : "false");
}

/* published.csv lies beside the scenario. */
static int rows_path(const char *scenario, char *path, size_t size, struct kvl_err *err)
{
  struct kvl_scenario_doc *doc;
  int rc = kvl_scenario_load(&doc, scenario, NULL, 0, err);
  if (rc != 0) {
    return rc;
  }
  const char *file = kvl_scenario_of(doc)->file, *slash = strrchr(file, '/');
  int n = snprintf(path, size, "%.*spublished.csv", slash == NULL ? 0 : (int)(slash - file + 1), file);
  kvl_scenario_free(doc);
  return n < 0 || (size_t)n >= size ? kvl_err_set(err, -ENAMETOOLONG, "%s: name too long", scenario) : 0;
}

int kvl_cmd_reproduce(int argc, char **argv)
{
  int format = KVL_FORMAT_TABLE;
  struct kvl_reproduce_options o = {.scenario = "published-256", .controls = true, .stop = &kvl_stop};
  const struct kvl_option options[] = {
    {KVL_OPTION("set", SET, o.sets), .count = &o.set_count, .number = KVL_REPRODUCE_SETS_MAX},
    {KVL_OPTION("refit", FLAG, &o.refit)},
    {KVL_OPTION("leave-out", TEXT, &o.leave_out)},
    {KVL_OPTION("no-controls", NO, &o.controls)},
    {KVL_OPTION("scenario", TEXT, &o.scenario)},
    {KVL_OPTION("store", STORE, &o.store)},
    {KVL_OPTION("format", FORMAT, &format)},
    {KVL_OPTION("threads", THREADS, &o.threads)},
  };
  int code = kvl_cmd_options("reproduce", help, KVL_OPTIONS(options), argc, argv);
  if (code != 0) {
    return code < 0 ? 0 : code;
  }
  if (optind != argc) {
    fprintf(stderr, "kvloan reproduce: takes no argument '%s' (kvloan reproduce --help tells more)\n", argv[optind]);
    return 2;
  }
  char rows[KVL_PATH_CAP + 16];
  struct kvl_err err;
  int rc = rows_path(o.scenario, rows, sizeof rows, &err);
  o.rows = rows;
  kvl_stop_on_signals();
  bool terminal = isatty(STDERR_FILENO) == 1;
  o.say = terminal ? say : NULL;
  struct kvl_reproduction result;
  rc = rc != 0 ? rc : kvl_reproduce(&o, &result, &err);
  if (terminal) {
    fprintf(stderr, "\r\033[K");
  }
  if (rc != 0) {
    fprintf(stderr, "%s\n", err.text);
    return rc == -EINTR ? 130 : 1;
  }
  if (format == KVL_FORMAT_TABLE) {
    print_table(&result, o.leave_out);
  } else if (format == KVL_FORMAT_JSON) {
    print_json(&result);
  } else {
    printf("id\tmode\tmetric\tunit\tpublished\trepeat\tsimulated\tdifference_percent\tuse\twithin\n");
    for (uint32_t i = 0; i < result.rows; i++) {
      print_row(KVL_FORMAT_TSV, &result.row[i], false);
    }
  }
  return result.passed ? 0 : 1;
}
