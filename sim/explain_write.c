#include "sim/explain_write.h"

#include <inttypes.h>
#include <string.h>

#include "results/text.h"

static const char *const binding_names[] = {[KVL_BINDS_PREFILL] = "prefill", [KVL_BINDS_SESSIONS] = "decode_slots", [KVL_BINDS_LINK] = "host_link",
                                            [KVL_BINDS_COMPUTE] = "compute", [KVL_BINDS_LOAD] = "nothing"};

const char *kvl_try_kind_name(enum kvl_try_kind kind)
{
  static const char *const names[] = {[KVL_TRY_BASE] = "base", [KVL_TRY_BOUND] = "bound", [KVL_TRY_SETTING] = "setting", [KVL_TRY_HARDWARE] = "hardware"};
  return names[kind];
}

const struct kvl_try_column kvl_try_columns[KVL_TRY_COLUMNS] = {
  {"output", "output_throughput_tok_per_s", "tok/s"}, {"request p10", "request_rate_tok_per_s_p10", "tok/s"}, {"first token p90", "ttft_s_p90", "s"},
  {"end to end p90", "e2e_s_p90", "s"},               {"goodput", "goodput_req_per_s", "req/s"},
};

double kvl_try_value(const struct kvl_summary *s, uint32_t column)
{
  const double values[KVL_TRY_COLUMNS] = {s->output_throughput_tok_per_s, s->request_rate_tok_per_s_p10, s->ttft_s.p90, s->e2e_s.p90, s->goodput_req_per_s};
  return values[column];
}

const char *kvl_try_verdict(char text[KVL_TRY_VERDICT_MAX], const struct kvl_what_if *w, uint32_t index)
{
  const struct kvl_try *t = &w->item[index];
  if (t->status != 0) {
    (void)snprintf(text, KVL_TRY_VERDICT_MAX, "could not run: %s", t->why);
  } else if (t->kind == KVL_TRY_BASE) {
    (void)snprintf(text, KVL_TRY_VERDICT_MAX, "%s", w->base_is_stored ? "the stored run" : w->requests > 0 ? "run again, shorter" : "run again");
  } else if (t->kind == KVL_TRY_BOUND || (t->gain_percent < 1.0 && t->gain_percent > -1.0) || t->gain_percent < 0.0 || t->worst_percent < 0.05) {
    (void)snprintf(text, KVL_TRY_VERDICT_MAX, "%+.1f %%%s", t->gain_percent, (int)index == w->best || (int)index == w->best_hardware ? "  <- best" : "");
  } else {
    (void)snprintf(text, KVL_TRY_VERDICT_MAX, "%+.1f %%, %s %.1f %% of %s%s", t->gain_percent,
                   t->worst_percent > t->gain_percent ? "a trade: loses" : "loses", t->worst_percent, kvl_objective_name(t->worst),
                   (int)index == w->best || (int)index == w->best_hardware ? "  <- best" : "");
  }
  return text;
}

void kvl_explain_link(const struct kvl_explain_facts *f, struct kvl_link_part parts[KVL_LINK_PARTS])
{
  const struct kvl_link_part all[KVL_LINK_PARTS] = {{"demand misses", "demand", f->link.demand}, {"population of new sessions", "population", f->link.population},
                                                    {"give-back", "give_back", f->link.give_back}, {"prefetch", "prefetch", f->link.prefetch},
                                                    {"other", "other", f->link.other}};
  memcpy(parts, all, sizeof all);
}

static double stall_sum(const struct kvl_summary *s)
{
  double sum = 0.0;
  for (int c = 0; c < KVL_STALLS; c++) {
    sum += s->stall_ms_by_cause[c];
  }
  return sum;
}

static uint64_t lanes_of(const struct kvl_explain_point *p)
{
  uint64_t sum = 0;
  for (int t = 0; t < KVL_REPORT_TIERS; t++) {
    sum += p->lanes[t];
  }
  return sum;
}

static const char *cache_name(const struct kvl_explain_facts *f, uint32_t cache)
{
  return cache < f->scenario->model.caches ? f->scenario->model.cache[cache].name : "?";
}

/* ---- table ---- */

static void table_time(FILE *out, const struct kvl_summary *s)
{
  double all = stall_sum(s);
  char number[KVL_TEXT_NUMBER_MAX];
  (void)fprintf(out, "\n%-30s %12s %9s\n", "Time of the decode GPUs", "ms a step", "share");
  for (int c = 0; c < KVL_STALLS; c++) {
    if (s->stall_ms_by_cause[c] > 0.0) {
      (void)fprintf(out, "  %-28s %12s %7.1f %%\n", kvl_stall_name((enum kvl_stall)c), kvl_text_human(number, s->steps > 0 ? s->stall_ms_by_cause[c] / (double)s->steps : 0.0, 0),
                    all > 0.0 ? 100.0 * s->stall_ms_by_cause[c] / all : 0.0);
    }
  }
}

static void table_hbm(FILE *out, const struct kvl_explain_facts *f)
{
  if (f->slices == 0) {
    return;
  }
  (void)fprintf(out, "\n%-20s %9s %9s | %9s %9s %9s %9s | %9s\n", "Who holds the HBM, %", "decoding", "waiting", "reserved", "lent", "retiring", "free", "history");
  for (uint32_t i = 0; i < f->slices; i++) {
    const struct kvl_explain_slice *s = &f->slice[i];
    char span[48];
    (void)snprintf(span, sizeof span, "%.4g - %.4g s", s->from_s, s->to_s);
    (void)fprintf(out, "  %-18s %9.1f %9.1f | %9.1f %9.1f %9.1f %9.1f | %9.1f\n", span, s->batch, s->waiting, s->reserved, s->lent, s->retiring, s->free, s->history);
  }
  (void)fprintf(out, "  history: of the running sessions, the share in HBM (%.1f %% on average)\n", f->history_mean);
}

static void table_link(FILE *out, const struct kvl_explain_facts *f)
{
  struct kvl_link_part parts[KVL_LINK_PARTS];
  const struct kvl_summary *s = &f->run->summary;
  char number[KVL_TEXT_NUMBER_MAX];
  kvl_explain_link(f, parts);
  (void)fprintf(out, "\nThe host links carried %s: %.3g GB/s a decode GPU, busy %.1f %% of the time\n", kvl_text_bytes(number, (double)s->host_link_bytes), f->link_gb_per_s,
                100.0 * s->host_link_busy_share);
  for (int i = 0; i < KVL_LINK_PARTS; i++) {
    if (parts[i].bytes > 0) {
      (void)fprintf(out, "  %-28s %12s %7.1f %%\n", parts[i].name, kvl_text_bytes(number, (double)parts[i].bytes),
                    s->host_link_bytes > 0 ? 100.0 * (double)parts[i].bytes / (double)s->host_link_bytes : 0.0);
    }
  }
}

static void table_extras(FILE *out, const struct kvl_summary *s)
{
  char text[KVL_EXPLAIN_LINE];
  kvl_explain_prefetch(s, text, sizeof text);
  (void)fprintf(out, "%s%s%s", text[0] != '\0' ? "\n" : "", text, text[0] != '\0' ? "\n" : "");
  kvl_explain_speculation(s, text, sizeof text);
  (void)fprintf(out, "%s%s%s", text[0] != '\0' ? "\n" : "", text, text[0] != '\0' ? "\n" : "");
}

static void table_layer(FILE *out, const char *layer, const char *cache, const uint64_t lanes[KVL_REPORT_TIERS], uint64_t all)
{
  (void)fprintf(out, "  %-8s %-19s", layer, cache);
  for (int t = 0; t < KVL_REPORT_TIERS; t++) {
    (void)fprintf(out, " %9.2f", 100.0 * (double)lanes[t] / (double)all);
  }
  (void)fputc('\n', out);
}

static void table_layers(FILE *out, const struct kvl_explain_facts *f)
{
  uint64_t sum[KVL_REPORT_TIERS] = {0}, all = 0;
  for (uint32_t p = 0; p < f->points; p++) {
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      sum[t] += f->point[p].lanes[t];
      all += f->point[p].lanes[t];
    }
  }
  if (all == 0) {
    return;
  }
  (void)fprintf(out, "\nWhere layers find their rows, %%");
  for (int t = 0; t < KVL_REPORT_TIERS; t++) {
    (void)fprintf(out, " %9s", kvl_tier_name((unsigned)t));
  }
  (void)fputc('\n', out);
  for (uint32_t p = 0; p < f->points; p++) {
    char layer[16];
    uint64_t lanes = lanes_of(&f->point[p]);
    (void)snprintf(layer, sizeof layer, "%u", f->point[p].layer);
    if (lanes > 0) {
      table_layer(out, layer, cache_name(f, f->point[p].cache), f->point[p].lanes, lanes);
    }
  }
  table_layer(out, "all", "", sum, all);
}

static void table_tries(FILE *out, const struct kvl_what_if *w)
{
  char number[KVL_TEXT_NUMBER_MAX], verdict[KVL_TRY_VERDICT_MAX], advice[KVL_EXPLAIN_LINE];
  enum kvl_try_kind kind = KVL_TRY_BASE;
  (void)fprintf(out, "\nWhat would change it: the model plane run again with one thing changed%s; gains in %s%s\n",
                w->requests > 0 ? ", cut to fewer requests" : "", kvl_objective_meaning(w->objective), kvl_what_if_window(w));
  if (kvl_what_if_window(w)[0] != '\0') {
    (void)fputs("  (from the first completion to the last submission; the columns are of whole runs, where the last answers of an open loop count as well)\n", out);
  }
  if (w->requests > 0) {
    (void)fprintf(out, "  (%" PRIu64 " request%s each, so the first line is not the stored run%s)\n", w->requests, kvl_text_s(w->requests),
                  w->pressed ? "" : ", nor are the gains those that it would have: the pool is not pressed as it was");
  }
  (void)fprintf(out, "  %-40s", "");
  for (uint32_t c = 0; c < KVL_TRY_COLUMNS; c++) {
    (void)fprintf(out, " %15s", kvl_try_columns[c].name);
  }
  (void)fprintf(out, "\n  %-40s", "");
  for (uint32_t c = 0; c < KVL_TRY_COLUMNS; c++) {
    (void)fprintf(out, " %15s", kvl_try_columns[c].unit);
  }
  (void)fputc('\n', out);
  for (uint32_t i = 0; i < w->count; i++) {
    const struct kvl_try *t = &w->item[i];
    static const char *const headings[] = {[KVL_TRY_BASE] = "", [KVL_TRY_BOUND] = "Bounds: what nobody can buy", [KVL_TRY_SETTING] = "Settings", [KVL_TRY_HARDWARE] = "Hardware"};
    if (t->kind != kind) {
      kind = t->kind;
      (void)fprintf(out, "  %s\n", headings[kind]);
    }
    (void)fprintf(out, "  %s", kind == KVL_TRY_BASE ? "" : "  ");
    kvl_text_pad(out, t->label, kind == KVL_TRY_BASE ? 40 : 38, 0);
    for (uint32_t c = 0; c < KVL_TRY_COLUMNS; c++) {
      (void)fprintf(out, " %15s", t->status == 0 ? kvl_text_human(number, kvl_try_value(&t->summary, c), 0) : "-");
    }
    (void)fprintf(out, "  %s\n", kvl_try_verdict(verdict, w, i));
  }
  if (w->bound.known) {
    (void)fprintf(out, "  Of the selections that reach the hot caches (%.1f %% of all), LRU misses %.2f %% and a clairvoyant policy %.2f %%, on the run's own selections.\n",
                  w->bound.reach_percent, w->bound.lru_percent, w->bound.clairvoyant_percent);
  }
  kvl_what_if_advice(w, advice, sizeof advice);
  (void)fprintf(out, "\n%s\n", advice);
}

static void write_table(FILE *out, const struct kvl_explain_facts *f, const struct kvl_what_if *w)
{
  char workload[KVL_EXPLAIN_LINE];
  kvl_explain_workload(f->scenario, workload, sizeof workload);
  kvl_text_pad(out, f->run->name, 0, 0);
  (void)fputs(", ", out);
  kvl_text_pad(out, f->run->mode, 0, 0);
  (void)fprintf(out, " (run %" PRId64 "): ", f->run->id);
  kvl_text_pad(out, workload, 0, 0);
  (void)fprintf(out, "\n\n%s\n", f->binding);
  table_time(out, &f->run->summary);
  table_hbm(out, f);
  table_link(out, f);
  table_layers(out, f);
  table_extras(out, &f->run->summary);
  if (w != NULL) {
    table_tries(out, w);
  }
}

/* ---- JSON ---- */

static void json_number(FILE *out, const char *separator, const char *key, double value)
{
  char number[KVL_TEXT_NUMBER_MAX];
  (void)fprintf(out, "%s\"%s\": %s", separator, key, kvl_text_double(number, value));
}

static void json_text(FILE *out, const char *separator, const char *key, const char *text)
{
  (void)fprintf(out, "%s\"%s\": ", separator, key);
  kvl_text_json_string(out, text);
}

static void json_tries(FILE *out, const struct kvl_what_if *w)
{
  char advice[KVL_EXPLAIN_LINE];
  (void)fprintf(out, ",\n  \"what_if\": {\"objective\": \"%s\", \"requests\": %" PRIu64 ", \"base_is_stored\": %s, \"steady_window\": %s, \"pressed_as_stored\": %s, \"requests_at_least\": %" PRIu64,
                kvl_objective_name(w->objective), w->requests, w->base_is_stored ? "true" : "false", w->steady ? "true" : "false", w->pressed ? "true" : "false",
                w->requests_at_least);
  if (w->bound.known) {
    (void)fputs(",\n    \"hot_caches\": {", out);
    json_number(out, "", "reach_percent", w->bound.reach_percent);
    json_number(out, ", ", "lru_miss_percent", w->bound.lru_percent);
    json_number(out, ", ", "clairvoyant_miss_percent", w->bound.clairvoyant_percent);
    (void)fputc('}', out);
  }
  (void)fputs(",\n    \"tries\": [", out);
  for (uint32_t i = 0; i < w->count; i++) {
    const struct kvl_try *t = &w->item[i];
    (void)fprintf(out, "%s\n      {\"kind\": \"%s\"", i == 0 ? "" : ",", kvl_try_kind_name(t->kind));
    json_text(out, ", ", "label", t->label);
    (void)fputs(", \"set\": [", out);
    for (uint32_t s = 0; s < t->sets; s++) {
      (void)fputs(s == 0 ? "" : ", ", out);
      kvl_text_json_string(out, t->set[s]);
    }
    (void)fputc(']', out);
    if (t->status != 0) {
      json_text(out, ", ", "error", t->why);
    } else {
      for (uint32_t c = 0; c < KVL_TRY_COLUMNS; c++) {
        json_number(out, ", ", kvl_try_columns[c].key, kvl_try_value(&t->summary, c));
      }
      json_number(out, ", ", "gain_percent", t->gain_percent);
      json_number(out, ", ", "worst_loss_percent", t->worst_percent);
    }
    (void)fputc('}', out);
  }
  (void)fputs("\n    ]", out);
  if (w->best >= 0) {
    json_text(out, ",\n    ", "best_setting", w->item[w->best].label);
  } else {
    (void)fputs(",\n    \"best_setting\": null", out);
  }
  if (w->best_hardware >= 0) {
    json_text(out, ",\n    ", "best_hardware", w->item[w->best_hardware].label);
  } else {
    (void)fputs(",\n    \"best_hardware\": null", out);
  }
  kvl_what_if_advice(w, advice, sizeof advice);
  json_text(out, ",\n    ", "advice", advice);
  (void)fputc('}', out);
}

static void write_json(FILE *out, const struct kvl_explain_facts *f, const struct kvl_what_if *w)
{
  const struct kvl_summary *s = &f->run->summary;
  struct kvl_link_part parts[KVL_LINK_PARTS];
  double all = stall_sum(s);
  (void)fprintf(out, "{\n  \"run\": %" PRId64, f->run->id);
  json_text(out, ",\n  ", "name", f->run->name);
  json_text(out, ",\n  ", "mode", f->run->mode);
  json_text(out, ",\n  ", "binds", binding_names[f->binds]);
  json_text(out, ",\n  ", "binding", f->binding);
  json_number(out, ",\n  ", "prefill_busy_share", s->prefill_busy_share);
  json_number(out, ",\n  ", "waiting_mean", f->waiting_mean);
  (void)fputs(",\n  \"time_by_cause\": {", out);
  for (int c = 0; c < KVL_STALLS; c++) {
    (void)fprintf(out, "%s\n    \"%s\": {", c == 0 ? "" : ",", kvl_stall_name((enum kvl_stall)c));
    json_number(out, "", "ms_per_step", s->steps > 0 ? s->stall_ms_by_cause[c] / (double)s->steps : 0.0);
    json_number(out, ", ", "share", all > 0.0 ? s->stall_ms_by_cause[c] / all : 0.0);
    (void)fputc('}', out);
  }
  (void)fputs("\n  },\n  \"hbm\": [", out);
  for (uint32_t i = 0; i < f->slices; i++) {
    const struct kvl_explain_slice *h = &f->slice[i];
    (void)fprintf(out, "%s\n    {", i == 0 ? "" : ",");
    json_number(out, "", "from_s", h->from_s);
    json_number(out, ", ", "to_s", h->to_s);
    json_number(out, ", ", "decoding", h->batch);
    json_number(out, ", ", "waiting", h->waiting);
    json_number(out, ", ", "reserved_percent", h->reserved);
    json_number(out, ", ", "lent_percent", h->lent);
    json_number(out, ", ", "retiring_percent", h->retiring);
    json_number(out, ", ", "free_percent", h->free);
    json_number(out, ", ", "history_in_hbm_percent", h->history);
    (void)fputc('}', out);
  }
  kvl_explain_link(f, parts);
  (void)fprintf(out, "\n  ],\n  \"host_link\": {\"bytes\": %" PRIu64, s->host_link_bytes);
  json_number(out, ", ", "busy_share", s->host_link_busy_share);
  json_number(out, ", ", "gb_per_s_per_gpu", f->link_gb_per_s);
  for (int i = 0; i < KVL_LINK_PARTS; i++) {
    (void)fprintf(out, ", \"%s_bytes\": %" PRIu64, parts[i].key, parts[i].bytes);
  }
  (void)fputs("}", out);
  if (s->prefetch_groups > 0) {
    json_number(out, ",\n  ", "prefetch_landed_share", (double)s->prefetch_landed / (double)s->prefetch_groups);
  }
  if (s->drafts_verified > 0) {
    json_number(out, ",\n  ", "drafts_accepted_share", (double)s->drafts_accepted / (double)s->drafts_verified);
    json_number(out, ",\n  ", "tokens_per_step_per_request", s->tokens_per_step_per_request);
  }
  (void)fputs(",\n  \"layers\": [", out);
  for (uint32_t p = 0; p < f->points; p++) {
    (void)fprintf(out, "%s\n    {\"layer\": %u, \"cache\": ", p == 0 ? "" : ",", f->point[p].layer);
    kvl_text_json_string(out, cache_name(f, f->point[p].cache));
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      (void)fprintf(out, ", \"%s\": %" PRIu64, kvl_tier_name((unsigned)t), f->point[p].lanes[t]);
    }
    (void)fprintf(out, ", \"fetched\": %" PRIu64 "}", f->point[p].fetched);
  }
  (void)fputs("\n  ]", out);
  if (w != NULL) {
    json_tries(out, w);
  }
  (void)fputs("\n}\n", out);
}

/* ---- TSV ---- */

static void tsv_row(FILE *out, const char *part, const char *item, const char *key, const char *value, const char *unit)
{
  const char *const cells[] = {part, item, key, value, unit};
  for (int i = 0; i < 5; i++) {
    kvl_text_tsv_cell(out, cells[i]);
    (void)fputc(i < 4 ? '\t' : '\n', out);
  }
}

static void tsv_number(FILE *out, const char *part, const char *item, const char *key, double value, const char *unit)
{
  char number[KVL_TEXT_NUMBER_MAX];
  tsv_row(out, part, item, key, kvl_text_double(number, value), unit);
}

static void write_tsv(FILE *out, const struct kvl_explain_facts *f, const struct kvl_what_if *w)
{
  const struct kvl_summary *s = &f->run->summary;
  struct kvl_link_part parts[KVL_LINK_PARTS];
  char item[64];
  (void)fputs("part\titem\tkey\tvalue\tunit\n", out);
  tsv_row(out, "binding", binding_names[f->binds], "text", f->binding, "");
  for (int c = 0; c < KVL_STALLS; c++) {
    tsv_number(out, "time", kvl_stall_name((enum kvl_stall)c), "ms_per_step", s->steps > 0 ? s->stall_ms_by_cause[c] / (double)s->steps : 0.0, "ms");
  }
  for (uint32_t i = 0; i < f->slices; i++) {
    const struct kvl_explain_slice *h = &f->slice[i];
    (void)snprintf(item, sizeof item, "%.6g", h->from_s);
    tsv_number(out, "hbm", item, "decoding", h->batch, "requests");
    tsv_number(out, "hbm", item, "waiting", h->waiting, "requests");
    tsv_number(out, "hbm", item, "reserved", h->reserved, "%");
    tsv_number(out, "hbm", item, "lent", h->lent, "%");
    tsv_number(out, "hbm", item, "retiring", h->retiring, "%");
    tsv_number(out, "hbm", item, "free", h->free, "%");
    tsv_number(out, "hbm", item, "history_in_hbm", h->history, "%");
  }
  kvl_explain_link(f, parts);
  for (int i = 0; i < KVL_LINK_PARTS; i++) {
    tsv_number(out, "host_link", parts[i].key, "bytes", (double)parts[i].bytes, "B");
  }
  tsv_number(out, "host_link", "all", "busy_share", s->host_link_busy_share, "share");
  for (uint32_t p = 0; p < f->points; p++) {
    uint64_t all = lanes_of(&f->point[p]);
    (void)snprintf(item, sizeof item, "%u", f->point[p].layer);
    for (int t = 0; t < KVL_REPORT_TIERS && all > 0; t++) {
      tsv_number(out, "layer", item, kvl_tier_name((unsigned)t), 100.0 * (double)f->point[p].lanes[t] / (double)all, "%");
    }
  }
  for (uint32_t i = 0; w != NULL && i < w->count; i++) {
    const struct kvl_try *t = &w->item[i];
    if (t->status != 0) {
      tsv_row(out, kvl_try_kind_name(t->kind), t->label, "error", t->why, "");
      continue;
    }
    for (uint32_t c = 0; c < KVL_TRY_COLUMNS; c++) {
      tsv_number(out, kvl_try_kind_name(t->kind), t->label, kvl_try_columns[c].key, kvl_try_value(&t->summary, c), kvl_try_columns[c].unit);
    }
    tsv_number(out, kvl_try_kind_name(t->kind), t->label, "gain", t->gain_percent, "%");
    tsv_number(out, kvl_try_kind_name(t->kind), t->label, "worst_loss", t->worst_percent, "%");
  }
  if (w != NULL) {
    char advice[KVL_EXPLAIN_LINE];
    kvl_what_if_advice(w, advice, sizeof advice);
    tsv_row(out, "what_if", "", "pressed_as_stored", w->pressed ? "true" : "false", "");
    tsv_number(out, "what_if", "", "requests_at_least", (double)w->requests_at_least, "requests");
    tsv_row(out, "advice", w->best >= 0 ? w->item[w->best].label : "", "text", advice, "");
  }
}

void kvl_explain_write(FILE *out, enum kvl_format format, const struct kvl_explain_facts *facts, const struct kvl_what_if *what_if)
{
  switch (format) {
  case KVL_FORMAT_TABLE:
    write_table(out, facts, what_if);
    break;
  case KVL_FORMAT_JSON:
    write_json(out, facts, what_if);
    break;
  case KVL_FORMAT_TSV:
    write_tsv(out, facts, what_if);
    break;
  }
}
