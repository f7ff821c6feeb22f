/* kvloan results list, show; and what the other subcommands share. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "results/rows.h"
#include "results/text.h"
#include "sim/cmd_results.h"

const char *kvl_results_when(char text[KVL_WHEN_MAX], int64_t unix_ms)
{
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm tm;
  if (unix_ms < 0 || gmtime_r(&seconds, &tm) == NULL || strftime(text, KVL_WHEN_MAX, "%Y-%m-%d %H:%M:%SZ", &tm) == 0) {
    (void)snprintf(text, KVL_WHEN_MAX, "-");
  }
  return text;
}

static const struct kvl_stored_run *chosen(const struct kvl_results_call *call, uint32_t at)
{
  return &call->list.run[call->runs[at]];
}

char **kvl_results_labels(const struct kvl_results_call *call)
{
  char **labels = calloc(call->run_count + 1u, sizeof *labels);
  int names = 0, modes = 0, loads = 0;
  for (uint32_t r = 1; r < call->run_count; r++) {
    names |= strcmp(chosen(call, r)->name, chosen(call, 0)->name) != 0;
    modes |= strcmp(chosen(call, r)->mode, chosen(call, 0)->mode) != 0;
    loads |= chosen(call, r)->concurrency != chosen(call, 0)->concurrency;
  }
  for (uint32_t r = 0; r < call->run_count && labels != NULL; r++) {
    const struct kvl_stored_run *run = chosen(call, r);
    char text[512];
    (void)snprintf(text, sizeof text, "%" PRId64 ": %.200s%s%.200s", run->id, names || !modes ? run->name : "", names && modes ? " " : "",
                   modes ? run->mode : "");
    size_t used = strlen(text);
    if (loads && run->concurrency > 0) {
      (void)snprintf(text + used, sizeof text - used, " at %" PRId64, run->concurrency);
    }
    labels[r] = strdup(text);
    if (labels[r] == NULL) {
      kvl_results_labels_free(labels, r);
      return NULL;
    }
  }
  return labels;
}

void kvl_results_labels_free(char **labels, uint32_t count)
{
  for (uint32_t r = 0; r < count; r++) {
    free(labels[r]);
  }
  free(labels);
}

int kvl_results_lacks_summary(const struct kvl_results_call *call)
{
  for (uint32_t r = 0; r < call->run_count; r++) {
    if (!chosen(call, r)->has_summary) {
      fprintf(stderr, "%s: run %" PRId64 " has no summary: it is %s\n", call->store_path, chosen(call, r)->id,
              kvl_stored_status_name(chosen(call, r)->status));
      return 1;
    }
  }
  return 0;
}

/* ---- list ---- */

static void list_rows(const struct kvl_results_call *call)
{
  static const char *const columns[] = {"id", "name", "mode", "plane", "seed", "status", "started", "concurrency", "output_throughput_tok_per_s"};
  struct kvl_rows rows;
  char text[KVL_WHEN_MAX];
  kvl_rows_begin(&rows, stdout, call->format, columns, sizeof columns / sizeof columns[0]);
  for (uint32_t i = 0; i < call->list.count; i++) {
    const struct kvl_stored_run *r = &call->list.run[i];
    char seed[KVL_TEXT_NUMBER_MAX];
    (void)snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    kvl_rows_count(&rows, (uint64_t)r->id);
    kvl_rows_text(&rows, r->name);
    kvl_rows_text(&rows, r->mode);
    kvl_rows_text(&rows, r->plane);
    kvl_rows_raw(&rows, seed);
    kvl_rows_text(&rows, kvl_stored_status_name(r->status));
    kvl_rows_text(&rows, kvl_results_when(text, r->started_unix_ms));
    kvl_rows_count(&rows, r->concurrency > 0 ? (uint64_t)r->concurrency : UINT64_MAX);
    kvl_rows_raw(&rows, r->has_summary ? kvl_text_double(seed, r->summary.output_throughput_tok_per_s) : "null");
  }
  kvl_rows_end(&rows);
}

static void list_table(const struct kvl_results_call *call)
{
  static const char *const heading[] = {"id", "name", "mode", "plane", "seed", "status", "started", "concurrency", "tok/s"};
  enum { COLUMNS = sizeof heading / sizeof heading[0] };
  size_t width[COLUMNS];
  char cell[COLUMNS][128];
  for (int c = 0; c < COLUMNS; c++) {
    width[c] = strlen(heading[c]);
  }
  for (int pass = 0; pass < 2; pass++) { /* measure, then print */
    for (uint32_t i = 0; i <= call->list.count; i++) {
      const struct kvl_stored_run *r = i == 0 ? NULL : &call->list.run[i - 1];
      char number[KVL_TEXT_NUMBER_MAX], when[KVL_WHEN_MAX];
      for (int c = 0; c < COLUMNS; c++) {
        (void)snprintf(cell[c], sizeof cell[c], "%s", heading[c]);
      }
      if (r != NULL) {
        (void)snprintf(cell[0], sizeof cell[0], "%" PRId64, r->id);
        (void)snprintf(cell[1], sizeof cell[1], "%.120s", r->name);
        (void)snprintf(cell[2], sizeof cell[2], "%.120s", r->mode);
        (void)snprintf(cell[3], sizeof cell[3], "%.120s", r->plane);
        (void)snprintf(cell[4], sizeof cell[4], "%" PRIu64, r->seed);
        (void)snprintf(cell[5], sizeof cell[5], "%s", kvl_stored_status_name(r->status));
        (void)snprintf(cell[6], sizeof cell[6], "%s", kvl_results_when(when, r->started_unix_ms));
        (void)snprintf(cell[7], sizeof cell[7], "%s", r->concurrency > 0 ? kvl_text_count(number, (uint64_t)r->concurrency) : "-");
        (void)snprintf(cell[8], sizeof cell[8], "%s",
                       r->has_summary ? kvl_text_human(number, r->summary.output_throughput_tok_per_s, 0) : "-");
      }
      for (int c = 0; c < COLUMNS; c++) {
        size_t columns = kvl_text_columns(cell[c]);
        width[c] = columns > width[c] ? columns : width[c];
        if (pass == 1) {
          (void)fputs(c == 0 ? "" : "  ", stdout);
          kvl_text_pad(stdout, cell[c], width[c], c == 0 || c == 4 || c >= 7);
        }
      }
      if (pass == 1) {
        (void)fputc('\n', stdout);
      }
    }
  }
}

int kvl_results_list(const struct kvl_results_call *call)
{
  if (call->format != KVL_FORMAT_TABLE) {
    list_rows(call);
  } else if (call->list.count == 0) {
    fprintf(stderr, "%s: no runs yet\n", call->store_path);
  } else {
    list_table(call);
  }
  return 0;
}

/* ---- show ---- */

struct fact {
  const char *key;
  char text[KVL_WHEN_MAX];
  const char *value;
  int is_number;
};

int kvl_results_show(const struct kvl_results_call *call)
{
  const struct kvl_stored_run *r = chosen(call, 0);
  struct kvl_err err;
  struct kvl_run_rows rows;
  if (kvl_store_rows(call->store, r->id, &rows, &err) != 0) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  struct fact facts[] = {
    {"id", "", NULL, 1}, {"name", "", r->name, 0}, {"mode", "", r->mode, 0}, {"plane", "", r->plane, 0}, {"seed", "", NULL, 1},
    {"status", "", kvl_stored_status_name(r->status), 0}, {"started", "", NULL, 0}, {"ended", "", NULL, 0}, {"process", "", NULL, 1},
    {"command", "", r->command, 0}, {"build", "", r->build, 0}, {"machine", "", r->machine, 0}, {"scenario_hash", "", r->scenario_hash, 0},
    {"requests", "", NULL, 1}, {"samples", "", NULL, 1}, {"points", "", NULL, 1}, {"moves", "", NULL, 1},
  };
  enum { FACTS = sizeof facts / sizeof facts[0] };
  const uint64_t numbers[] = {(uint64_t)r->id, r->seed, (uint64_t)r->process, rows.requests, rows.samples, rows.points, rows.moves};
  unsigned number = 0;
  (void)kvl_results_when(facts[6].text, r->started_unix_ms);
  (void)kvl_results_when(facts[7].text, r->ended_unix_ms);
  for (unsigned f = 0; f < FACTS; f++) {
    if (facts[f].is_number) {
      (void)snprintf(facts[f].text, sizeof facts[f].text, "%" PRIu64, numbers[number++]);
    }
    facts[f].value = facts[f].value == NULL ? facts[f].text : facts[f].value;
  }

  if (call->format == KVL_FORMAT_JSON) {
    (void)fputs("{\"run\": {", stdout);
    for (unsigned f = 0; f < FACTS; f++) {
      (void)printf("%s\n  \"%s\": ", f == 0 ? "" : ",", facts[f].key);
      if (facts[f].is_number) {
        (void)fputs(facts[f].value, stdout);
      } else {
        kvl_text_json_string(stdout, strcmp(facts[f].value, "-") == 0 ? NULL : facts[f].value);
      }
    }
    (void)fputs("\n}, \"summary\": ", stdout);
    if (r->has_summary) {
      kvl_summary_write(stdout, KVL_FORMAT_JSON, r->name, &r->summary);
    } else {
      (void)fputs("null", stdout);
    }
    (void)fputs("}\n", stdout);
  } else if (call->format == KVL_FORMAT_TSV) {
    for (unsigned f = 0; f < FACTS; f++) {
      (void)printf("run.%s\t", facts[f].key);
      kvl_text_tsv_cell(stdout, facts[f].value);
      (void)fputs("\t\n", stdout);
    }
    if (r->has_summary) {
      kvl_summary_write(stdout, KVL_FORMAT_TSV, NULL, &r->summary);
    }
  } else {
    for (unsigned f = 0; f < FACTS; f++) {
      kvl_text_pad(stdout, facts[f].key, 15, 0);
      kvl_text_pad(stdout, facts[f].value, 0, 0);
      (void)fputc('\n', stdout);
    }
    (void)fputc('\n', stdout);
    if (r->has_summary) {
      kvl_summary_write(stdout, KVL_FORMAT_TABLE, NULL, &r->summary);
    } else {
      (void)printf("No summary: the run is %s.\n", kvl_stored_status_name(r->status));
    }
  }
  return 0;
}
