#include "results/summary.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "results/text.h"

const char *kvl_stall_name(enum kvl_stall stall)
{
  static const char *const name[KVL_STALLS] = {
    [KVL_STALL_COMPUTE] = "compute",           [KVL_STALL_BOOKKEEPING] = "bookkeeping", [KVL_STALL_RESOLVE] = "resolve",
    [KVL_STALL_FETCH] = "fetch",               [KVL_STALL_LINK_WAIT] = "link_wait",     [KVL_STALL_PREFETCH_WAIT] = "prefetch_wait",
    [KVL_STALL_ADMISSION] = "admission",       [KVL_STALL_POPULATION] = "population",   [KVL_STALL_REVOCATION] = "revocation",
    [KVL_STALL_GIVE_BACK] = "give_back",
  };
  return (unsigned)stall < KVL_STALLS ? name[stall] : "?";
}

const char *kvl_tier_name(unsigned tier)
{
  static const char *const name[KVL_REPORT_TIERS] = {"scratch", "tail", "borrowed", "bank", "hot", "host"};
  return tier < KVL_REPORT_TIERS ? name[tier] : "?";
}

/* ---- the one list of keys ---- */

enum kind { KIND_DOUBLE, KIND_U32, KIND_U64 };

struct key {
  struct kvl_summary_key public;
  const char *group; /* heading in tables */
  const char *label; /* row in tables */
  enum kind kind;
  int measured;
  size_t offset;
};

#define AT(member) offsetof(struct kvl_summary, member)
#define NUMBER(member, unit, group, label) {{#member, unit}, group, label, KIND_DOUBLE, 0, AT(member)}
#define COUNT32(member, group, label) {{#member, ""}, group, label, KIND_U32, 0, AT(member)}
#define COUNT64(member, unit, group, label) {{#member, unit}, group, label, KIND_U64, 0, AT(member)}
#define PERCENTILE(member, p, unit, label) {{#member "_" #p, unit}, "Latency", label " " #p, KIND_DOUBLE, 0, AT(member.p)}
#define PERCENTILES(member, unit, label) \
  PERCENTILE(member, p50, unit, label), PERCENTILE(member, p90, unit, label), PERCENTILE(member, p95, unit, label), \
  PERCENTILE(member, p99, unit, label)
#define TIER(name, index) {{"selections_by_tier." name, ""}, "Selections", name, KIND_U64, 0, AT(selections_by_tier[index])}
#define STALL(name, label, index) {{"stall_ms_by_cause." name, "ms"}, "Time", label, KIND_DOUBLE, 0, AT(stall_ms_by_cause[index])}
#define MEASURED(member, unit, label, kind) {{#member, unit}, "Run", label, kind, 1, AT(member)}

static const struct key keys[] = {
  NUMBER(output_throughput_tok_per_s, "tok/s", "Throughput", "output"),
  NUMBER(output_throughput_steady_tok_per_s, "tok/s", "Throughput", "output, steady window"),
  NUMBER(request_rate_tok_per_s_p10, "tok/s", "Throughput", "per request p10"),
  NUMBER(request_rate_tok_per_s_p50, "tok/s", "Throughput", "per request p50"),
  NUMBER(goodput_req_per_s, "req/s", "Throughput", "goodput"),
  COUNT32(decode_batch_p50, "Batch", "decode batch p50"),
  COUNT32(decode_batch_max, "Batch", "decode batch max"),
  COUNT32(sessions_per_decode_gpu_max, "Batch", "sessions a decode GPU max"),
  PERCENTILES(ttft_s, "s", "first token"),
  PERCENTILES(tpot_ms, "ms", "per output token"),
  PERCENTILES(e2e_s, "s", "end to end"),
  PERCENTILES(step_ms, "ms", "decode step"),
  COUNT64(selections_total, "", "Selections", "total"),
  TIER("scratch", 0),
  TIER("tail", 1),
  TIER("borrowed", 2),
  TIER("bank", 3),
  TIER("hot", 4),
  TIER("host", 5),
  COUNT64(rows_fetched, "", "Host link", "rows fetched on demand"),
  COUNT64(host_link_bytes, "B", "Host link", "bytes moved"),
  NUMBER(host_link_busy_share, "share", "Host link", "busy"),
  STALL("compute", "compute", KVL_STALL_COMPUTE),
  STALL("bookkeeping", "bookkeeping", KVL_STALL_BOOKKEEPING),
  STALL("resolve", "resolve", KVL_STALL_RESOLVE),
  STALL("fetch", "fetch", KVL_STALL_FETCH),
  STALL("link_wait", "link wait", KVL_STALL_LINK_WAIT),
  STALL("prefetch_wait", "prefetch wait", KVL_STALL_PREFETCH_WAIT),
  STALL("admission", "admission", KVL_STALL_ADMISSION),
  STALL("population", "population", KVL_STALL_POPULATION),
  STALL("revocation", "revocation", KVL_STALL_REVOCATION),
  STALL("give_back", "give back", KVL_STALL_GIVE_BACK),
  COUNT64(pages_lent, "", "Pages", "lent"),
  COUNT64(pages_revoked, "", "Pages", "revoked"),
  COUNT64(pages_given_back, "", "Pages", "given back"),
  COUNT64(requests_completed, "", "Requests", "completed"),
  COUNT64(requests_aborted, "", "Requests", "aborted"),
  NUMBER(prefix_hit_rate, "share", "Requests", "prefix hits"),
  COUNT64(steps, "", "Run", "decode steps"),
  NUMBER(simulated_s, "s", "Run", "simulated time"),
  COUNT64(seed, "", "Run", "seed"),
  MEASURED(wall_s, "s", "wall time", KIND_DOUBLE),
  MEASURED(selections_per_wall_s, "1/s", "selections a wall second", KIND_DOUBLE),
  MEASURED(peak_memory_bytes, "B", "peak memory", KIND_U64),
};
enum { KEYS = (int)(sizeof keys / sizeof keys[0]) };

uint32_t kvl_summary_key_count(void)
{
  return KEYS;
}

const struct kvl_summary_key *kvl_summary_key_at(uint32_t index)
{
  assert(index < KEYS);
  return &keys[index].public;
}

static const void *field(const struct kvl_summary *summary, uint32_t index)
{
  return (const char *)summary + keys[index].offset;
}

uint64_t kvl_summary_count(const struct kvl_summary *summary, uint32_t index)
{
  assert(index < KEYS && keys[index].kind != KIND_DOUBLE);
  return keys[index].kind == KIND_U32 ? *(const uint32_t *)field(summary, index) : *(const uint64_t *)field(summary, index);
}

double kvl_summary_value(const struct kvl_summary *summary, uint32_t index)
{
  assert(index < KEYS);
  return kvl_summary_is_integer(index) ? (double)kvl_summary_count(summary, index) : *(const double *)field(summary, index);
}

int kvl_summary_is_integer(uint32_t index)
{
  assert(index < KEYS);
  return keys[index].kind != KIND_DOUBLE;
}

int kvl_summary_is_measured(uint32_t index)
{
  assert(index < KEYS);
  return keys[index].measured;
}

const char *kvl_summary_value_text(char text[KVL_SUMMARY_TEXT_MAX], const struct kvl_summary *summary, uint32_t index)
{
  static_assert((int)KVL_SUMMARY_TEXT_MAX >= (int)KVL_TEXT_NUMBER_MAX, "a number fits");
  if (kvl_summary_is_integer(index)) {
    (void)snprintf(text, KVL_SUMMARY_TEXT_MAX, "%" PRIu64, kvl_summary_count(summary, index));
    return text;
  }
  return kvl_text_double(text, kvl_summary_value(summary, index));
}

void kvl_summary_set_number(struct kvl_summary *summary, uint32_t index, double value)
{
  assert(index < KEYS && keys[index].kind == KIND_DOUBLE);
  *(double *)((char *)summary + keys[index].offset) = value;
}

void kvl_summary_set_count(struct kvl_summary *summary, uint32_t index, uint64_t value)
{
  assert(index < KEYS && keys[index].kind != KIND_DOUBLE);
  void *at = (char *)summary + keys[index].offset;
  if (keys[index].kind == KIND_U32) {
    *(uint32_t *)at = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
  } else {
    *(uint64_t *)at = value;
  }
}

/* ---- JSON and TSV: every key, exact ---- */

/* "selections_by_tier.hot" is member "hot" of the object "selections_by_tier". */
static void write_json(FILE *out, const char *name, const struct kvl_summary *summary, const char *indent)
{
  char number[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("{", out);
  const char *separator = "";
  if (name != NULL) {
    (void)fprintf(out, "\n%s  \"name\": ", indent);
    kvl_text_json_string(out, name);
    separator = ",";
  }
  size_t object = 0; /* length of the open object's name, dot included */
  const char *object_name = "";
  for (uint32_t i = 0; i < KEYS; i++) {
    const char *key = keys[i].public.name;
    if (object != 0 && strncmp(key, object_name, object) != 0) {
      (void)fputs("}", out);
      object = 0;
    }
    const char *dot = strchr(key, '.');
    if (dot == NULL) {
      (void)fprintf(out, "%s\n%s  \"%s\": ", separator, indent, key);
    } else if (object == 0) {
      object = (size_t)(dot - key) + 1;
      object_name = key;
      (void)fprintf(out, "%s\n%s  \"%.*s\": {\"%s\": ", separator, indent, (int)(dot - key), key, dot + 1);
    } else {
      (void)fprintf(out, ", \"%s\": ", dot + 1);
    }
    (void)fputs(kvl_summary_value_text(number, summary, i), out);
    separator = ",";
  }
  (void)fprintf(out, "%s\n%s}", object != 0 ? "}" : "", indent);
}

static void write_tsv_rows(FILE *out, const char *name, const struct kvl_summary *summary)
{
  char number[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("key\tvalue\tunit\n", out);
  if (name != NULL) {
    (void)fputs("name\t", out);
    kvl_text_tsv_cell(out, name);
    (void)fputs("\t\n", out);
  }
  for (uint32_t i = 0; i < KEYS; i++) {
    (void)fprintf(out, "%s\t%s\t%s\n", keys[i].public.name, kvl_summary_value_text(number, summary, i), keys[i].public.unit);
  }
}

static void write_tsv_columns(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  char number[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("name", out);
  for (uint32_t i = 0; i < KEYS; i++) {
    (void)fprintf(out, "\t%s", keys[i].public.name);
  }
  for (uint32_t r = 0; r < count; r++) {
    (void)fputc('\n', out);
    kvl_text_tsv_cell(out, names[r]);
    for (uint32_t i = 0; i < KEYS; i++) {
      (void)fprintf(out, "\t%s", kvl_summary_value_text(number, summaries[r], i));
    }
  }
  (void)fputc('\n', out);
}

/* ---- tables: grouped, for people ---- */

enum { GROUP_COLUMNS = 12, LABEL_COLUMNS = 26, VALUE_COLUMNS = 15 };

static int is_tier(uint32_t i)
{
  return strncmp(keys[i].public.name, "selections_by_tier.", 19) == 0;
}

static int is_stall(uint32_t i)
{
  return strncmp(keys[i].public.name, "stall_ms_by_cause.", 18) == 0;
}

/* One cell as people read it. *unit goes with it. Tiers as a share of all selections, times as milliseconds a decode step, when `relative`. */
static const char *cell(char text[KVL_TEXT_NUMBER_MAX], const struct kvl_summary *summary, uint32_t i, int relative, const char **unit)
{
  const struct key *key = &keys[i];
  double value = kvl_summary_value(summary, i);
  *unit = key->public.unit;
  if (relative && is_tier(i)) {
    *unit = "%";
    value = summary->selections_total > 0 ? 100.0 * value / (double)summary->selections_total : 0.0;
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.2f", value);
  } else if (relative && is_stall(i)) {
    *unit = "ms a step";
    (void)kvl_text_human(text, summary->steps > 0 ? value / (double)summary->steps : 0.0, 0);
  } else if (strcmp(key->public.unit, "share") == 0) {
    *unit = "%";
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.1f", 100.0 * value);
  } else if (strcmp(key->public.unit, "B") == 0) {
    *unit = "";
    (void)kvl_text_bytes(text, value);
  } else if (key->offset == AT(seed)) {
    (void)kvl_summary_value_text(text, summary, i); /* to be typed again: no commas */
  } else if (kvl_summary_is_integer(i)) {
    (void)kvl_text_count(text, kvl_summary_count(summary, i));
  } else {
    (void)kvl_text_human(text, value, 0);
  }
  return text;
}

static void group_column(FILE *out, uint32_t i)
{
  int first = i == 0 || strcmp(keys[i].group, keys[i - 1].group) != 0;
  kvl_text_pad(out, first ? keys[i].group : "", GROUP_COLUMNS, 0);
}

/* p50, p90, p95 and p99 of one quantity on one line. Returns the keys it took. */
static uint32_t latency_line(FILE *out, const struct kvl_summary *summary, uint32_t i)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit;
  if (strcmp(keys[i].group, keys[i - 1].group) != 0) {
    kvl_text_pad(out, keys[i].group, GROUP_COLUMNS + LABEL_COLUMNS, 0);
    (void)fprintf(out, "%*s%*s%*s%*s\n", VALUE_COLUMNS, "p50", VALUE_COLUMNS - 4, "p90", VALUE_COLUMNS - 4, "p95", VALUE_COLUMNS - 4, "p99");
  }
  const char *label = keys[i].label;
  kvl_text_pad(out, "", GROUP_COLUMNS, 0);
  (void)fprintf(out, "%-*.*s", LABEL_COLUMNS, (int)(strrchr(label, ' ') - label), label);
  for (uint32_t p = 0; p < 4; p++) {
    kvl_text_pad(out, cell(text, summary, i + p, 0, &unit), p == 0 ? VALUE_COLUMNS : VALUE_COLUMNS - 4, 1);
  }
  (void)fprintf(out, " %s\n", unit);
  return 4;
}

static void write_table(FILE *out, const char *name, const struct kvl_summary *summary)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit;
  double time_ms = 0.0;
  for (unsigned s = 0; s < KVL_STALLS; s++) {
    time_ms += summary->stall_ms_by_cause[s];
  }
  if (name != NULL) {
    kvl_text_pad(out, name, 0, 0);
    (void)fputs("\n\n", out);
  }
  for (uint32_t i = 0; i < KEYS;) {
    if (i > 0 && strcmp(keys[i].group, "Latency") == 0) {
      i += latency_line(out, summary, i);
      continue;
    }
    group_column(out, i);
    kvl_text_pad(out, keys[i].label, LABEL_COLUMNS, 0);
    kvl_text_pad(out, cell(text, summary, i, 0, &unit), VALUE_COLUMNS, 1);
    (void)fprintf(out, "%s%s", unit[0] != '\0' ? " " : "", unit);
    if (is_tier(i) && summary->selections_total > 0) {
      (void)fprintf(out, "%11s %%", cell(text, summary, i, 1, &unit));
    }
    if (is_stall(i) && time_ms > 0.0) {
      (void)fprintf(out, "%8.1f %%%15s", 100.0 * kvl_summary_value(summary, i) / time_ms, cell(text, summary, i, 1, &unit));
      (void)fprintf(out, " %s", unit);
    }
    (void)fputc('\n', out);
    i++;
  }
}

static void write_table_columns(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit = "";
  size_t width = 0; /* one for all columns: the widest name or cell */
  for (uint32_t r = 0; r < count; r++) {
    size_t columns = kvl_text_columns(names[r]);
    width = columns > width ? columns : width;
    for (uint32_t i = 0; i < KEYS; i++) {
      columns = kvl_text_columns(cell(text, summaries[r], i, 1, &unit));
      width = columns > width ? columns : width;
    }
  }
  kvl_text_pad(out, "", GROUP_COLUMNS + LABEL_COLUMNS + 10, 0);
  for (uint32_t r = 0; r < count; r++) {
    (void)fputs("  ", out);
    kvl_text_pad(out, names[r], width, 1);
  }
  (void)fputc('\n', out);
  for (uint32_t i = 0; i < KEYS; i++) {
    group_column(out, i);
    kvl_text_pad(out, keys[i].label, LABEL_COLUMNS, 0);
    (void)cell(text, summaries[0], i, 1, &unit);
    kvl_text_pad(out, unit, 10, 0);
    for (uint32_t r = 0; r < count; r++) {
      (void)fputs("  ", out);
      kvl_text_pad(out, cell(text, summaries[r], i, 1, &unit), width, 1);
    }
    (void)fputc('\n', out);
  }
}

void kvl_summary_write(FILE *out, enum kvl_format format, const char *name, const struct kvl_summary *summary)
{
  switch (format) {
  case KVL_FORMAT_TABLE:
    write_table(out, name, summary);
    break;
  case KVL_FORMAT_JSON:
    write_json(out, name, summary, "");
    (void)fputc('\n', out);
    break;
  case KVL_FORMAT_TSV:
    write_tsv_rows(out, name, summary);
    break;
  }
}

void kvl_summary_write_many(FILE *out, enum kvl_format format, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  switch (format) {
  case KVL_FORMAT_TABLE:
    if (count > 0) {
      write_table_columns(out, names, summaries, count);
    }
    break;
  case KVL_FORMAT_JSON:
    (void)fputs("[", out);
    for (uint32_t r = 0; r < count; r++) {
      (void)fputs(r == 0 ? "\n  " : ",\n  ", out);
      write_json(out, names[r], summaries[r], "  ");
    }
    (void)fputs(count > 0 ? "\n]\n" : "]\n", out);
    break;
  case KVL_FORMAT_TSV:
    write_tsv_columns(out, names, summaries, count);
    break;
  }
}
