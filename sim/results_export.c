/* kvloan results export: one run's records as TSV or JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/rows.h"
#include "results/validation.h"
#include "sim/cmd_results.h"

enum { COLUMNS_MAX = 40 };

/* Difference of two times in units of `unit_ns`; NaN ("not there") when one of them never happened. */
static double span(uint64_t from_ns, uint64_t to_ns, double unit_ns)
{
  return from_ns == UINT64_MAX || to_ns == UINT64_MAX ? NAN : (double)(int64_t)(to_ns - from_ns) / unit_ns;
}

static int request_row(void *context, const struct kvl_request_record *r)
{
  struct kvl_rows *rows = context;
  const uint64_t value[] = {r->id, r->session, r->gpu, r->input_tokens, r->cached_tokens, r->output_tokens, r->submit_ns, r->prefill_start_ns,
                            r->prefill_end_ns, r->admit_ns, r->first_token_ns, r->last_token_ns};
  for (unsigned v = 0; v < sizeof value / sizeof value[0]; v++) {
    kvl_rows_count(rows, value[v]);
  }
  kvl_rows_flag(rows, r->aborted != 0);
  double decode_s = span(r->first_token_ns, r->last_token_ns, 1e9), steps = r->output_tokens > 1 ? r->output_tokens - 1.0 : NAN;
  kvl_rows_number(rows, span(r->submit_ns, r->first_token_ns, 1e9));
  kvl_rows_number(rows, 1e3 * decode_s / steps);
  kvl_rows_number(rows, span(r->submit_ns, r->last_token_ns, 1e9));
  kvl_rows_number(rows, decode_s > 0.0 ? steps / decode_s : NAN);
  return 0;
}

static int sample_row(void *context, const struct kvl_step_sample *s)
{
  struct kvl_rows *rows = context;
  const uint64_t value[] = {s->time_ns, s->step_ns, s->gpu, s->batch, s->waiting, s->frames_free, s->frames_reserved, s->frames_lent,
                            s->frames_retiring};
  for (unsigned v = 0; v < sizeof value / sizeof value[0]; v++) {
    kvl_rows_count(rows, value[v]);
  }
  kvl_rows_number(rows, s->resident_share);
  for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
    kvl_rows_count(rows, s->lanes[t]);
  }
  for (unsigned t = 0; t < KVL_STALLS; t++) {
    kvl_rows_count(rows, s->stall_ns[t]);
  }
  return 0;
}

static int point_row(void *context, const struct kvl_point_counter *p)
{
  struct kvl_rows *rows = context;
  kvl_rows_count(rows, p->gpu);
  kvl_rows_count(rows, p->point);
  kvl_rows_count(rows, p->layer);
  kvl_rows_count(rows, p->cache);
  for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
    kvl_rows_count(rows, p->lanes[t]);
  }
  kvl_rows_count(rows, p->fetched);
  kvl_rows_count(rows, p->overflow);
  return 0;
}

static int move_row(void *context, const struct kvl_move_record *m)
{
  struct kvl_rows *rows = context;
  const uint64_t value[] = {m->time_ns, m->gpu, m->revoked, m->populated, m->given_back, m->kept, m->bytes};
  for (unsigned v = 0; v < sizeof value / sizeof value[0]; v++) {
    kvl_rows_count(rows, value[v]);
  }
  return 0;
}

/* Column names: `front`, then one a tier and one a stall where the records have them, then `back`. */
struct columns {
  const char *name[COLUMNS_MAX];
  char made[COLUMNS_MAX][40];
  uint32_t count;
};

static void add_columns(struct columns *columns, const char *const *names)
{
  for (unsigned i = 0; names[i] != NULL; i++) {
    columns->name[columns->count++] = names[i];
  }
}

static void add_tiers(struct columns *columns)
{
  for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
    (void)snprintf(columns->made[columns->count], sizeof columns->made[0], "lanes_%s", kvl_tier_name(t));
    columns->name[columns->count] = columns->made[columns->count];
    columns->count++;
  }
}

static void add_stalls(struct columns *columns)
{
  for (int t = 0; t < KVL_STALLS; t++) {
    (void)snprintf(columns->made[columns->count], sizeof columns->made[0], "stall_%s_ns", kvl_stall_name((enum kvl_stall)t));
    columns->name[columns->count] = columns->made[columns->count];
    columns->count++;
  }
}

static int export_records(const struct kvl_results_call *call, int64_t run, enum kvl_format format, const char *what, struct kvl_err *err)
{
  static const char *const request[] = {"id", "session", "gpu", "input_tokens", "cached_tokens", "output_tokens", "submit_ns", "prefill_start_ns",
                                        "prefill_end_ns", "admit_ns", "first_token_ns", "last_token_ns", "aborted", "ttft_s", "tpot_ms", "e2e_s",
                                        "rate_tok_per_s", NULL};
  static const char *const sample[] = {"time_ns", "step_ns", "gpu", "batch", "waiting", "frames_free", "frames_reserved", "frames_lent",
                                       "frames_retiring", "resident_share", NULL};
  static const char *const point[] = {"gpu", "point", "layer", "cache", NULL}, *const point_back[] = {"fetched", "overflow", NULL};
  static const char *const move[] = {"time_ns", "gpu", "revoked", "populated", "given_back", "kept", "bytes", NULL};
  struct columns columns = {.count = 0};
  struct kvl_rows rows;
  int code;
  if (strcmp(what, "requests") == 0) {
    add_columns(&columns, request);
    kvl_rows_begin(&rows, stdout, format, columns.name, columns.count);
    code = kvl_store_each_request(call->store, run, request_row, &rows, err);
  } else if (strcmp(what, "samples") == 0) {
    add_columns(&columns, sample);
    add_tiers(&columns);
    add_stalls(&columns);
    kvl_rows_begin(&rows, stdout, format, columns.name, columns.count);
    code = kvl_store_each_sample(call->store, run, sample_row, &rows, err);
  } else if (strcmp(what, "points") == 0) {
    add_columns(&columns, point);
    add_tiers(&columns);
    add_columns(&columns, point_back);
    kvl_rows_begin(&rows, stdout, format, columns.name, columns.count);
    code = kvl_store_each_point(call->store, run, point_row, &rows, err);
  } else {
    add_columns(&columns, move);
    kvl_rows_begin(&rows, stdout, format, columns.name, columns.count);
    code = kvl_store_each_move(call->store, run, move_row, &rows, err);
  }
  kvl_rows_end(&rows);
  return code;
}

int kvl_results_export(const struct kvl_results_call *call)
{
  static const char *const kinds[] = {"summary", "requests", "samples", "points", "moves", "scenario", "validation"};
  enum { KINDS = sizeof kinds / sizeof kinds[0] };
  const struct kvl_stored_run *run = &call->list.run[call->runs[0]];
  const char *what = call->what != NULL ? call->what : "summary";
  int known = 0;
  for (unsigned k = 0; k < KINDS; k++) {
    known |= strcmp(what, kinds[k]) == 0;
  }
  if (!known) {
    fprintf(stderr, "kvloan results export: --what=%s: no such part of a run; did you mean %s?\n", what, kvl_nearest(what, kinds, KINDS));
    return 2;
  }
  if (call->format_given && call->format == KVL_FORMAT_TABLE) {
    fprintf(stderr, "kvloan results export: --format=table: writes tsv or json (tables: kvloan results show)\n");
    return 2;
  }
  enum kvl_format format = call->format_given ? call->format : KVL_FORMAT_TSV;
  struct kvl_err err = {""};
  int code = 0;
  if (strcmp(what, "summary") == 0) {
    if (kvl_results_lacks_summary(call)) {
      return 1;
    }
    kvl_summary_write(stdout, format, run->name, &run->summary);
  } else if (strcmp(what, "scenario") == 0) {
    char *json = NULL;
    code = kvl_store_scenario(call->store, run->id, &json, &err);
    if (code == 0) {
      (void)printf("%s\n", json);
    }
    free(json);
  } else if (strcmp(what, "validation") == 0) {
    static struct kvl_validation validation;
    code = kvl_store_read_validation(call->store, run->id, &validation, &err);
    if (code == 0 && validation.count == 0) {
      fprintf(stderr, "kvloan results export: run %lld has no validation (kvloan validate --store makes one)\n", (long long)run->id);
      return 1;
    }
    if (code == 0) {
      kvl_validation_write(stdout, format, run->name, &validation);
    }
  } else {
    code = export_records(call, run->id, format, what, &err);
  }
  if (code != 0) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  if (run->status != KVL_STORED_COMPLETE) {
    fprintf(stderr, "note: run %lld is %s: its records may be a part only\n", (long long)run->id, kvl_stored_status_name(run->status));
  }
  return 0;
}
