/* `kvloan scenario check`: what a scenario resolves to, and where every number comes from. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/scenario_doc.h"
#include "sim/scenario_number.h"
#include "sim/scenario_rates.h"
#include "traces/workload.h"

enum { TOKENS_WHEN_UNKNOWN = 131072, SMALL_TEXT = 48 };

struct facts {
  uint64_t tokens;           /* of the session that sizes are given for */
  char tokens_why[KVL_PATH_CAP + 128];
  struct kvl_session_bytes bytes;
  uint64_t page_bytes, frames;
  struct {
    uint64_t hbm, host, limit, fit; /* sessions of one decode GPU; UINT64_MAX: does not bind */
    uint64_t plain_fit;             /* without speculation */
    const char *bound_by;
  } mode[3];
  uint64_t row_bytes_q8, index_bytes_q8; /* bytes a token times 256 */
  uint64_t mean_in, mean_out;            /* of a file's requests; 0: not a file, or one that cannot be read */
  struct kvl_rates rates;                /* of the scenario's mode, at the sessions that fit */
};

static void find_tokens(const struct kvl_scenario *s, struct facts *f)
{
  if (s->workload.kind != KVL_WORK_FILE) {
    f->tokens = (uint64_t)s->workload.input_tokens + s->workload.output_tokens;
    (void)snprintf(f->tokens_why, sizeof f->tokens_why, "%u in + %u out", (unsigned)s->workload.input_tokens,
                   (unsigned)s->workload.output_tokens);
    return;
  }
  struct kvl_workload_file *file = NULL;
  struct kvl_workload_extent extent;
  struct kvl_err err = {""};
  int rc = kvl_workload_open(&file, s->workload.path, s->workload.format, &err);
  if (rc == 0) {
    rc = kvl_workload_extent(file, &extent, &err);
    kvl_workload_close(file);
  }
  f->tokens = rc == 0 ? extent.tokens_max : TOKENS_WHEN_UNKNOWN;
  if (rc == 0) {
    (void)snprintf(f->tokens_why, sizeof f->tokens_why, "the largest of %" PRIu64 " request%s in %s", extent.requests, kvl_text_s(extent.requests), s->workload.path);
    f->mean_in = extent.requests > 0 ? extent.input_tokens / extent.requests : 0;
    f->mean_out = extent.requests > 0 ? extent.output_tokens / extent.requests : 0;
  } else {
    (void)snprintf(f->tokens_why, sizeof f->tokens_why, "as an example; the file cannot be read: %s", err.text);
  }
}

/* How many sessions fit a decode GPU in a mode, and what binds. */
static void find_capacity(const struct kvl_scenario *s, struct facts *f, int mode)
{
  bool resident = mode == KVL_MODE_RESIDENT;
  uint64_t pool = f->frames * f->page_bytes, need = resident ? f->bytes.resident : f->bytes.fixed;
  f->mode[mode].hbm = need == 0 ? UINT64_MAX : pool / need;
  f->mode[mode].host = resident || f->bytes.host == 0 ? UINT64_MAX : s->node.host_pool_bytes / f->bytes.host / s->node.decode_gpus;
  f->mode[mode].limit = resident || s->node.sessions_per_gpu_max == 0 ? UINT64_MAX : s->node.sessions_per_gpu_max;
  uint64_t fit = f->mode[mode].hbm;
  bool draft = f->bytes.draft != 0;
  f->mode[mode].bound_by = resident ? draft ? "HBM pool: whole histories, draft state" : "HBM pool: whole histories"
                           : draft  ? "HBM pool: fixed part, draft state"
                                    : "HBM pool: fixed part";
  if (f->mode[mode].host < fit) {
    fit = f->mode[mode].host;
    f->mode[mode].bound_by = "host pool";
  }
  if (f->mode[mode].limit < fit) {
    fit = f->mode[mode].limit;
    f->mode[mode].bound_by = "sessions_per_gpu_max";
  }
  if (s->limits.batch_max > 0 && s->limits.batch_max < fit) {
    fit = s->limits.batch_max;
    f->mode[mode].bound_by = "limits.batch_max";
  }
  f->mode[mode].fit = fit;
}

static void find_facts(const struct kvl_scenario *s, struct facts *f)
{
  memset(f, 0, sizeof *f);
  find_tokens(s, f);
  kvl_session_bytes(s, f->tokens, &f->bytes);
  f->page_bytes = kvl_page_bytes(s);
  f->frames = kvl_pool_bytes(s) / f->page_bytes;
  for (int mode = 0; mode < 3; mode++) {
    find_capacity(s, f, mode);
  }
  if (s->speculation.method != KVL_SPECULATION_NONE) {
    struct kvl_scenario plain = *s;
    struct facts without = {.tokens = f->tokens};
    plain.speculation.method = KVL_SPECULATION_NONE;
    kvl_session_bytes(&plain, f->tokens, &without.bytes);
    without.page_bytes = f->page_bytes;
    without.frames = kvl_pool_bytes(&plain) / f->page_bytes;
    for (int mode = 0; mode < 3; mode++) {
      find_capacity(&plain, &without, mode);
      f->mode[mode].plain_fit = without.mode[mode].fit;
    }
  }
  uint64_t batch = f->mode[s->mode].fit;
  if (s->workload.kind == KVL_WORK_CLOSED && s->workload.concurrency / s->node.decode_gpus < batch) {
    batch = (s->workload.concurrency + s->node.decode_gpus - 1) / s->node.decode_gpus;
  }
  kvl_rates_of(s, batch, f->mean_in, f->mean_out, &f->rates);
  for (uint32_t i = 0; i < s->model.caches; i++) {
    const struct kvl_model_cache *cache = &s->model.cache[i];
    f->row_bytes_q8 += (uint64_t)cache->row_bytes * 256 / cache->tokens_per_row;
    f->index_bytes_q8 += (uint64_t)cache->index_key_bytes * 256 / cache->tokens_per_row;
  }
}

/* 12345678 as "12,345,678". */
static const char *grouped(uint64_t value, char buffer[SMALL_TEXT])
{
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRIu64, value), used = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) {
      buffer[used++] = ',';
    }
    buffer[used++] = digits[i];
  }
  buffer[used] = '\0';
  return buffer;
}

/* Decimal units, four digits: "360.6 MB". */
static const char *amount(uint64_t bytes, char buffer[SMALL_TEXT])
{
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  uint64_t scale = 1;
  unsigned unit = 0;
  while (unit < 5 && bytes / scale >= 1000) {
    scale *= 1000;
    unit++;
  }
  if (unit == 0) {
    (void)snprintf(buffer, SMALL_TEXT, "%" PRIu64 " B", bytes);
  } else {
    (void)snprintf(buffer, SMALL_TEXT, "%.*f %s", bytes / scale >= 100 ? 1 : 2, (double)bytes / (double)scale, units[unit]);
  }
  return buffer;
}

static const char *count_or_dash(uint64_t value, char buffer[SMALL_TEXT])
{
  return value == UINT64_MAX ? "-" : grouped(value, buffer);
}

static bool begins(const char *text, const char *word)
{
  for (; *word != '\0'; text++, word++) {
    if ((*text | 0x20) != *word) {
      return false;
    }
  }
  return true;
}

const char *kvl_scenario_doubt(const struct kvl_scenario_doc *doc, uint32_t key)
{
  static const char *const words[][2] = {{"calibrated", "calibrated"}, {"estimate", "estimate"},           {"assumed", "assumed"}, {"open:", "open"}, {"stand-in", "stand-in"},
                                         {"start value", "start value"}, {"not published", "not published"}, {"chosen", "chosen"}};
  const char *origin = doc->origin[key].text;
  for (size_t i = 0; origin != NULL && i < sizeof words / sizeof words[0]; i++) {
    if (begins(origin, words[i][0])) {
      return words[i][1];
    }
  }
  bool costs = strncmp(kvl_keys[key].path, "costs.", 6) == 0;
  return origin == NULL && costs && doc->origin[key].place != NULL && begins(doc->scenario.costs.source, "estimate") ? "estimate" : NULL;
}

/* Neither public nor measured nor fitted nor derived from such: to be read with care. */
static bool is_estimate(const struct kvl_scenario_doc *doc, uint32_t key)
{
  const char *doubt = kvl_scenario_doubt(doc, key);
  return doubt != NULL && strcmp(doubt, "calibrated") != 0;
}

static const char *origin_text(const struct kvl_scenario_doc *doc, uint32_t key, char buffer[KVL_PATH_CAP + 16])
{
  const struct kvl_origin *origin = &doc->origin[key];
  if (origin->text != NULL) {
    return origin->text;
  }
  if (origin->place == NULL) {
    return "default";
  }
  struct kvl_json at = {.place = origin->place, .line = origin->line};
  return kvl_json_where(&at, buffer, KVL_PATH_CAP + 16);
}

static const char *value_text(const struct kvl_scenario_doc *doc, uint32_t key, char buffer[KVL_VALUE_TEXT_MAX])
{
  const struct kvl_key *k = &kvl_keys[key];
  const struct kvl_scenario *s = &doc->scenario;
  if (k->type == KVL_KEY_CACHES) {
    (void)snprintf(buffer, KVL_VALUE_TEXT_MAX, "%u", (unsigned)s->model.caches);
    return buffer;
  }
  if (k->type == KVL_KEY_CURVE) {
    const struct kvl_curve *curve = (const struct kvl_curve *)(const void *)((const char *)s + k->offset);
    (void)snprintf(buffer, KVL_VALUE_TEXT_MAX, "%u point%s", (unsigned)curve->n, kvl_text_s(curve->n));
    return buffer;
  }
  if (k->type == KVL_KEY_GATHERS) {
    const struct kvl_gather_table *g = (const struct kvl_gather_table *)(const void *)((const char *)s + k->offset);
    (void)snprintf(buffer, KVL_VALUE_TEXT_MAX, "%u point%s", (unsigned)(g->sizes * g->ranges * g->counts), kvl_text_s((uint64_t)g->sizes * g->ranges * g->counts));
    return buffer;
  }
  const char *text = kvl_scenario_value_text(k, s, buffer);
  size_t n = strlen(text);
  if (n >= 2 && text[0] == '"') { /* for reading: no quotes */
    memmove(buffer, buffer + 1, n - 2);
    buffer[n - 2] = '\0';
  } else if (k->type == KVL_KEY_COUNT) {
    char plain[SMALL_TEXT];
    (void)grouped(strtoull(text, NULL, 10), plain);
    memcpy(buffer, plain, strlen(plain) + 1);
  }
  return buffer;
}

static bool is_text(const struct kvl_key *key)
{
  return key->type == KVL_KEY_TEXT || key->type == KVL_KEY_WORD || key->type == KVL_KEY_CHOICE;
}

/* Caches alike in everything but name and layer are one line. */
static bool alike(const struct kvl_model *m, uint32_t a, uint32_t b)
{
  if (m->cache[a].tokens_per_row != m->cache[b].tokens_per_row || m->cache[a].row_bytes != m->cache[b].row_bytes ||
      m->cache[a].index_key_bytes != m->cache[b].index_key_bytes) {
    return false;
  }
  uint32_t found[2] = {0, 0}, sum[2] = {0, 0};
  for (uint32_t p = 0; p < m->selection.points; p++) {
    for (int i = 0; i < 2; i++) {
      if (m->selection.point[p].cache == (i == 0 ? a : b)) {
        found[i]++;
        sum[i] += m->selection.point[p].k * 1000 + m->readers[p];
      }
    }
  }
  return found[0] == found[1] && sum[0] == sum[1];
}

static void table_caches(FILE *out, const struct kvl_model *m)
{
  (void)fprintf(out, "  %-18s %6s %12s %10s %12s  selections\n", "cache", "count", "tokens/row", "row", "index key");
  for (uint32_t first = 0, last; first < m->caches; first = last + 1) {
    for (last = first; last + 1 < m->caches && alike(m, first, last + 1); last++) {
    }
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s%s", m->cache[first].name, last > first ? " .. " : "", last > first ? m->cache[last].name : "");
    (void)fprintf(out, "  %-18s %6u %12u %8u B %10u B  ", name, (unsigned)(last - first + 1), (unsigned)m->cache[first].tokens_per_row,
                  (unsigned)m->cache[first].row_bytes, (unsigned)m->cache[first].index_key_bytes);
    unsigned points = 0, readers = 0, k = 0, layer_first = 0, layer_last = 0;
    for (uint32_t p = 0; p < m->selection.points; p++) {
      if (m->selection.point[p].cache >= first && m->selection.point[p].cache <= last) {
        layer_first = points == 0 ? m->selection.point[p].layer : layer_first;
        layer_last = m->selection.point[p].layer;
        k = m->selection.point[p].k;
        readers += m->readers[p];
        points++;
      }
    }
    if (points == 1) {
      (void)fprintf(out, "%u row%s at layer %u", k, kvl_text_s(k), layer_first);
    } else {
      (void)fprintf(out, "%u row%s at %u layers %u .. %u", k, kvl_text_s(k), points, layer_first, layer_last);
    }
    (void)fprintf(out, ", read by %u\n", readers);
  }
}

/* Stated origins of numbers inside the caches, each text once, oldest first. */
static void table_inner(FILE *out, const struct kvl_scenario_doc *doc, const struct kvl_inner_origin *inner)
{
  if (inner == NULL) {
    return;
  }
  table_inner(out, doc, inner->next);
  for (const struct kvl_inner_origin *older = inner->next; older != NULL; older = older->next) {
    if (strcmp(older->text, inner->text) == 0) {
      return;
    }
  }
  (void)fprintf(out, "  %s: %s\n", inner->path, inner->text);
}

static void table_part(FILE *out, const char *name, uint64_t small, uint64_t resident, const char *note)
{
  char a[SMALL_TEXT], b[SMALL_TEXT];
  (void)fprintf(out, "  %-24s %16s %14s%s%s\n", name, small == UINT64_MAX ? "-" : amount(small, a),
                resident == UINT64_MAX ? "-" : amount(resident, b), *note != '\0' ? "  " : "", note);
}

static bool is_remark(const char *path)
{
  const char *dot = strrchr(path, '.');
  return strcmp(path, "note") == 0 || (dot != NULL && strcmp(dot, ".source") == 0 && strncmp(path, "selection", 9) != 0);
}

static void table_numbers(FILE *out, const struct kvl_scenario_doc *doc)
{
  char value[KVL_VALUE_TEXT_MAX], where[KVL_PATH_CAP + 16], section[32] = "";
  (void)fputs("\nEvery value and its origin\n", out);
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    char now[32] = "";
    if (strchr(key->path, '.') != NULL) {
      (void)snprintf(now, sizeof now, "%.*s", (int)strcspn(key->path, "."), key->path);
    }
    if (strcmp(now, section) != 0) {
      (void)fputc('\n', out);
      memcpy(section, now, sizeof now);
    }
    (void)value_text(doc, i, value);
    if (value[0] == '\0' || is_remark(key->path)) {
      continue; /* not given, or shown at the top */
    }
    (void)fprintf(out, "%s %-40s %18s %-13s %s\n", is_estimate(doc, i) ? "~" : " ", key->path, value, key->unit, origin_text(doc, i, where));
  }
  (void)fputs("\n~ estimated, assumed, to be calibrated or open: neither public nor measured on this part\n", out);
}

/* Which stage of a request's way carries least. */
static void table_rates(FILE *out, const struct kvl_scenario *s, const struct facts *f)
{
  const struct kvl_rates *r = &f->rates;
  static const char *const what[KVL_RATE_STAGES] = {"one prefill at a time on each prefill GPU", "history to the decode node",
                                                     "serialized work besides the population copy", "compute and bookkeeping, full batches"};
  char a[SMALL_TEXT], b[SMALL_TEXT];
  if (r->input_tokens == 0) {
    return; /* a file that cannot be read */
  }
  (void)fprintf(out, "\nRequests a second of %s tokens in (%s) and %s out that each stage carries in %s mode, at best\n", grouped(r->input_tokens, a),
                s->workload.kind == KVL_WORK_FILE ? "the mean, none cached" : r->cached_tokens > 0 ? "most of them cached, as given" : "none cached",
                grouped(r->output_tokens, b), kvl_mode_names[s->mode]);
  for (int stage = 0; stage < KVL_RATE_STAGES; stage++) {
    bool none = r->per_s[stage] > 1e300;
    (void)fprintf(out, "%s %-12s", stage == (int)r->least ? "*" : " ", kvl_rate_stage_name((enum kvl_rate_stage)stage));
    (void)(none ? fprintf(out, "%12s  takes no time in this cost profile", "-") : fprintf(out, "%12.4g  %s", r->per_s[stage], what[stage]));
    if (stage == KVL_RATE_PREFILL && !none) {
      (void)fprintf(out, ": %.4g ms each, %u GPU%s", r->prefill_ms, (unsigned)s->node.prefill_gpus, kvl_text_s(s->node.prefill_gpus));
    } else if (stage == KVL_RATE_DECODE && !none) {
      (void)fprintf(out, " of %s: %.4g ms a step, ", grouped(r->batch, a), r->step_ms);
      (void)(s->speculation.method == KVL_SPECULATION_NONE ? fprintf(out, "one token each") : fprintf(out, "%.3g tokens each", r->tokens_per_step));
      (void)fprintf(out, ", %u GPU%s", (unsigned)s->node.decode_gpus, kvl_text_s(s->node.decode_gpus));
    }
    (void)fputc('\n', out);
  }
  (void)fprintf(out, "  %s binds first", kvl_rate_stage_name(r->least));
  if (r->asked_per_s > 0) {
    bool more = r->asked_per_s > r->per_s[r->least];
    (void)fprintf(out, "; the workload asks for %.4g a second%s", r->asked_per_s, more ? ": MORE than that, so its queue only grows" : "");
  }
  (void)fputs("; misses, waits and shared links only lower these\n", out);
}

static void table_capacity(FILE *out, const struct kvl_scenario *s, const struct facts *f)
{
  char a[SMALL_TEXT], b[SMALL_TEXT], c[SMALL_TEXT], d[SMALL_TEXT], e[SMALL_TEXT];
  bool drafts = s->speculation.method != KVL_SPECULATION_NONE;
  (void)fprintf(out, "\nSessions of that size on one decode GPU (pool %s: %s frames; host pool %s for %u)\n", amount(kvl_pool_bytes(s), a),
                grouped(f->frames, b), amount(s->node.host_pool_bytes, c), (unsigned)s->node.decode_gpus);
  if (drafts) {
    (void)fprintf(out, "  speculation takes %s of the pool of %s on each GPU: draft weights %s, graphs %s, scratch %s\n", amount(kvl_speculation_bytes(s), a),
                  amount(s->node.kv_pool_bytes, b), amount(s->speculation.weights_bytes, c), amount(s->speculation.graph_bytes, d),
                  amount(s->speculation.scratch_bytes, e));
  }
  (void)fprintf(out, "  %-10s %8s %8s %8s %8s%s  %s\n", "mode", "HBM", "host", "limit", "fit", drafts ? "  without drafts" : "", "what binds in memory");
  for (int mode = 0; mode < 3; mode++) {
    (void)fprintf(out, "%s %-10s %8s %8s %8s %8s", mode == (int)s->mode ? "*" : " ", kvl_mode_names[mode], count_or_dash(f->mode[mode].hbm, a),
                  count_or_dash(f->mode[mode].host, b), count_or_dash(f->mode[mode].limit, c), count_or_dash(f->mode[mode].fit, d));
    if (drafts) {
      (void)fprintf(out, "%16s", count_or_dash(f->mode[mode].plain_fit, e));
    }
    (void)fprintf(out, "  %s\n", f->mode[mode].bound_by);
  }
}

/* Who shares a look-up, and what is fetched ahead. */
static void table_look_ups(FILE *out, const struct kvl_scenario *s)
{
  const struct kvl_model *m = &s->model;
  uint32_t readers = 0;
  char bank[SMALL_TEXT], rows[SMALL_TEXT];
  for (uint32_t p = 0; p < m->selection.points; p++) {
    uint32_t there = m->layers - m->selection.point[p].layer;
    readers += m->readers[p] < there ? m->readers[p] : there;
  }
  bool off = s->policy.layer_sharing == KVL_SHARING_OFF;
  (void)fprintf(out, "  look-ups  %u a query for %u reading layers%s\n", (unsigned)(off ? readers : m->selection.points), (unsigned)readers,
                off ? ": layer sharing is off" : "");
  switch (s->policy.prefetch) {
  case KVL_PREFETCH_NONE:
    break;
  case KVL_PREFETCH_POOL:
    (void)fprintf(out, "  prefetch  the pool that layer %u announces (%s rows a query) into a bank of %s rows\n", (unsigned)m->pool_layer,
                  grouped((uint64_t)m->pool_blocks * m->pool_rows_per_block, rows), grouped(s->policy.bank_rows, bank));
    break;
  case KVL_PREFETCH_PLAN:
    (void)fputs("  prefetch  a selecting layer's fetch list goes again for the layers that share it, beside compute\n", out);
    break;
  }
}

static void write_table(FILE *out, const struct kvl_scenario_doc *doc, const struct facts *f)
{
  const struct kvl_scenario *s = &doc->scenario;
  const struct kvl_model *m = &s->model;
  char a[SMALL_TEXT], b[SMALL_TEXT], c[SMALL_TEXT], per_token[KVL_DECIMAL_MAX], rows[KVL_DECIMAL_MAX], index[KVL_DECIMAL_MAX];
  (void)fprintf(out, "%s%s%s\n\n", s->name, s->note[0] != '\0' ? ": " : "", s->note);
  (void)fprintf(out, "  model     %s: %u layer%s, %u selection%s a query\n            %s\n", m->name, (unsigned)m->layers, kvl_text_s(m->layers),
                (unsigned)m->selection.points, kvl_text_s(m->selection.points), m->source);
  (void)fprintf(out, "  node      %u prefill + %u decode GPU%s, %s: %s\n", (unsigned)s->node.prefill_gpus, (unsigned)s->node.decode_gpus, kvl_text_s(s->node.decode_gpus),
                s->hardware.name, s->hardware.source);
  (void)fprintf(out, "  costs     %s: %s\n", s->costs.name, s->costs.source);
  if (s->costs.compute == KVL_COMPUTE_ROOFLINE) {
    (void)fputs("            compute times are an ESTIMATE: a roofline, not a measurement\n", out);
  }
  if (!kvl_costs_suit_model(s)) {
    (void)fprintf(out, "            made for %s: with %s every time is an EXTRAPOLATION\n", s->costs.model, m->name);
  }
  if (!kvl_costs_suit_hardware(s)) {
    (void)fprintf(out, "            made for %s: on %s every time is an EXTRAPOLATION\n", s->costs.hardware, s->hardware.name);
  }
  if (s->speculation.method != KVL_SPECULATION_NONE) {
    (void)fprintf(out, "  drafts    %s, %u a step: %s\n", s->speculation.name[0] != '\0' ? s->speculation.name : "dspark", (unsigned)s->speculation.drafts,
                  s->speculation.source);
  }
  (void)fprintf(out, "  mode      %s\n", kvl_mode_names[s->mode]);
  table_look_ups(out, s);
  (void)fputc('\n', out);
  table_caches(out, m);
  table_inner(out, doc, doc->inner);
  uint64_t token_q8 = f->row_bytes_q8 + f->index_bytes_q8 + m->whole_bytes_per_token_q8;
  (void)fprintf(out, "  %s bytes a token: %s of rows may leave HBM, %s of index keys stay", kvl_decimal_print(token_q8, 256, per_token),
                kvl_decimal_print(f->row_bytes_q8, 256, rows), kvl_decimal_print(f->index_bytes_q8, 256, index));
  if (m->whole_bytes_per_token_q8 > 0) {
    (void)fprintf(out, ", %s are read whole and stay", kvl_decimal_print(m->whole_bytes_per_token_q8, 256, per_token));
  }
  (void)fprintf(out, "\n\nOne session of %s tokens (%s)\n", grouped(f->tokens, a), f->tokens_why);
  (void)fprintf(out, "  %-24s %16s %14s\n", "HBM, by part", "fixed, adaptive", "resident");
  table_part(out, "history rows", UINT64_MAX, f->bytes.rows, "");
  table_part(out, "index keys", f->bytes.index, f->bytes.index, "");
  if (f->bytes.whole > 0) {
    table_part(out, "caches read whole", f->bytes.whole, f->bytes.whole, "");
  }
  table_part(out, "sliding window", f->bytes.window, f->bytes.window, "");
  table_part(out, "maps and stamps", f->bytes.maps, UINT64_MAX, "4 B a page and a row, 8 B a hot slot");
  table_part(out, "hot caches", f->bytes.hot, UINT64_MAX, "");
  table_part(out, "candidate bank", f->bytes.bank, UINT64_MAX,
             m->pool_blocks == 0 && s->policy.bank_rows > 0 ? "the model announces no pool" : "");
  table_part(out, "fresh tail", f->bytes.tail, UINT64_MAX, "");
  table_part(out, "commit, overflow scratch", f->bytes.scratch, UINT64_MAX, "");
  if (f->bytes.draft > 0) {
    table_part(out, "draft state", f->bytes.draft, f->bytes.draft, "speculation");
  }
  table_part(out, "reserved", f->bytes.fixed, f->bytes.resident, "each part in whole frames");
  table_part(out, "pinned on the host", f->bytes.host, UINT64_MAX, "");
  (void)fprintf(out, "  a frame is one page: %u tokens, %s B\n", (unsigned)s->policy.page_tokens, grouped(f->page_bytes, a));

  table_capacity(out, s, f);
  uint64_t fit = f->mode[KVL_MODE_ADAPTIVE].fit;
  if (fit > 0 && fit != UINT64_MAX && f->bytes.rows > 0) {
    uint64_t left = f->frames * f->page_bytes - fit * f->bytes.fixed;
    double share = (double)left / ((double)fit * (double)f->bytes.rows);
    (void)fprintf(out, "  adaptive with %s: %s of HBM left to lend, %.1f %% of their history; host %s a GPU\n", grouped(fit, a), amount(left, b),
                  share > 1 ? 100.0 : 100 * share, amount(fit * f->bytes.host, c));
  }
  if (m->weights_bytes + s->node.kv_pool_bytes > s->hardware.hbm_bytes) {
    (void)fprintf(out, "  note: weights of %s and this pool do not fit the %s of %s together\n", amount(m->weights_bytes, a),
                  amount(s->hardware.hbm_bytes, b), s->hardware.name);
  }
  table_rates(out, s, f);
  table_numbers(out, doc);
}

static void json_text(FILE *out, const char *text)
{
  (void)fputc('"', out);
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') {
      (void)fputc('\\', out);
    }
    if ((unsigned char)*text >= 0x20) {
      (void)fputc(*text, out);
    }
  }
  (void)fputc('"', out);
}

struct part {
  const char *name;
  uint64_t bytes;
};
enum { PARTS = 14 };

static void list_parts(const struct facts *f, struct part parts[PARTS])
{
  const struct kvl_session_bytes *b = &f->bytes;
  const struct part all[PARTS] = {{"rows", b->rows}, {"index", b->index}, {"whole", b->whole}, {"window", b->window}, {"maps", b->maps},
                                  {"hot", b->hot}, {"bank", b->bank}, {"tail", b->tail}, {"scratch", b->scratch}, {"draft", b->draft}, {"fixed", b->fixed},
                                  {"resident", b->resident}, {"host", b->host}, {"frame", f->page_bytes}};
  memcpy(parts, all, sizeof all);
}

static void json_count(FILE *out, const char *name, uint64_t value)
{
  if (value == UINT64_MAX) {
    (void)fprintf(out, "\"%s\":null,", name);
  } else {
    (void)fprintf(out, "\"%s\":%" PRIu64 ",", name, value);
  }
}

static void write_json(FILE *out, const struct kvl_scenario_doc *doc, const struct facts *f)
{
  struct part parts[PARTS];
  char value[KVL_VALUE_TEXT_MAX], where[KVL_PATH_CAP + 16];
  list_parts(f, parts);
  (void)fputs("{\"name\":", out);
  json_text(out, doc->scenario.name);
  (void)fprintf(out, ",\"session_tokens\":%" PRIu64 ",\"session_bytes\":{", f->tokens);
  for (int i = 0; i < PARTS; i++) {
    (void)fprintf(out, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", parts[i].name, parts[i].bytes);
  }
  (void)fputs("},\"sessions_per_decode_gpu\":{", out);
  for (int mode = 0; mode < 3; mode++) {
    (void)fprintf(out, "%s\"%s\":{", mode > 0 ? "," : "", kvl_mode_names[mode]);
    json_count(out, "hbm", f->mode[mode].hbm);
    json_count(out, "host", f->mode[mode].host);
    json_count(out, "limit", f->mode[mode].limit);
    json_count(out, "fit", f->mode[mode].fit);
    if (doc->scenario.speculation.method != KVL_SPECULATION_NONE) {
      json_count(out, "fit_without_speculation", f->mode[mode].plain_fit);
    }
    (void)fprintf(out, "\"bound_by\":\"%s\"}", f->mode[mode].bound_by);
  }
  (void)fputs("},\"requests_per_s_at_best\":{", out);
  for (int stage = 0; stage < KVL_RATE_STAGES; stage++) {
    char number[KVL_TEXT_NUMBER_MAX];
    (void)fprintf(out, "\"%s\":%s,", kvl_rate_stage_name((enum kvl_rate_stage)stage), kvl_text_double(number, f->rates.per_s[stage]));
  }
  (void)fprintf(out, "\"bound_by\":\"%s\"", kvl_rate_stage_name(f->rates.least));
  (void)fputs("},\"values\":[", out);
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    (void)fprintf(out, "%s{\"key\":\"%s\",\"value\":", i > 0 ? "," : "", key->path);
    if (key->type == KVL_KEY_CACHES || key->type == KVL_KEY_CURVE || key->type == KVL_KEY_GATHERS) {
      json_text(out, value_text(doc, i, value));
    } else {
      (void)fputs(kvl_scenario_value_text(key, &doc->scenario, value), out);
    }
    (void)fprintf(out, ",\"unit\":\"%s\",\"origin\":", key->unit);
    json_text(out, origin_text(doc, i, where));
    (void)fprintf(out, ",\"estimate\":%s}", is_estimate(doc, i) ? "true" : "false");
  }
  (void)fputs("]}\n", out);
}

static void write_tsv(FILE *out, const struct kvl_scenario_doc *doc, const struct facts *f)
{
  struct part parts[PARTS];
  char value[KVL_VALUE_TEXT_MAX], where[KVL_PATH_CAP + 16];
  list_parts(f, parts);
  (void)fprintf(out, "key\tvalue\tunit\torigin\testimate\nsession.tokens\t%" PRIu64 "\ttokens\t%s\t0\n", f->tokens, f->tokens_why);
  for (int i = 0; i < PARTS; i++) {
    (void)fprintf(out, "session.%s_bytes\t%" PRIu64 "\tbytes\tderived\t0\n", parts[i].name, parts[i].bytes);
  }
  for (int mode = 0; mode < 3; mode++) {
    (void)fprintf(out, "sessions_per_decode_gpu.%s\t%" PRIu64 "\tsessions\t%s\t0\n", kvl_mode_names[mode], f->mode[mode].fit, f->mode[mode].bound_by);
    if (doc->scenario.speculation.method != KVL_SPECULATION_NONE) {
      (void)fprintf(out, "sessions_per_decode_gpu_without_speculation.%s\t%" PRIu64 "\tsessions\tderived\t0\n", kvl_mode_names[mode], f->mode[mode].plain_fit);
    }
  }
  for (int stage = 0; stage < KVL_RATE_STAGES; stage++) {
    char number[KVL_TEXT_NUMBER_MAX];
    (void)fprintf(out, "requests_per_s_at_best.%s\t%s\trequests/s\t%s\t0\n", kvl_rate_stage_name((enum kvl_rate_stage)stage),
                  kvl_text_double(number, f->rates.per_s[stage]), stage == (int)f->rates.least ? "binds first" : "derived");
  }
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    const char *text = is_text(key) || key->type == KVL_KEY_CURVE || key->type == KVL_KEY_GATHERS || key->type == KVL_KEY_CACHES
                         ? value_text(doc, i, value)
                         : kvl_scenario_value_text(key, &doc->scenario, value);
    (void)fprintf(out, "%s\t%s\t%s\t%s\t%d\n", key->path, text, key->unit, origin_text(doc, i, where), is_estimate(doc, i));
  }
}

int kvl_scenario_explain(FILE *out, enum kvl_format format, const struct kvl_scenario_doc *doc)
{
  struct facts *facts = malloc(sizeof *facts);
  if (facts == NULL) {
    return -1;
  }
  find_facts(&doc->scenario, facts);
  switch (format) {
  case KVL_FORMAT_TABLE:
    write_table(out, doc, facts);
    break;
  case KVL_FORMAT_JSON:
    write_json(out, doc, facts);
    break;
  case KVL_FORMAT_TSV:
    write_tsv(out, doc, facts);
    break;
  }
  free(facts);
  return ferror(out) ? -1 : 0;
}
