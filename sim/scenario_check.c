/* Checks across keys: what no single key can know. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "results/text.h"
#include "sim/scenario_doc.h"

enum { PAGE_TOKENS_MAX = 1 << 20 }; /* the key's upper end */

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static int wrong(const struct kvl_scenario_doc *doc, struct kvl_err *err, const char *path, const char *format, ...)
{
  const struct kvl_origin *origin = &doc->origin[kvl_scenario_key(path)];
  struct kvl_json at = {.place = origin->place == NULL ? doc->file : origin->place, .line = origin->line};
  char reason[768];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  return kvl_scenario_bad(err, &at, path, "%s", reason);
}

static int check_pages(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  uint32_t page = s->policy.page_tokens, row_max = 1;
  for (uint32_t i = 0; i < s->model.caches; i++) {
    row_max = s->model.cache[i].tokens_per_row > row_max ? s->model.cache[i].tokens_per_row : row_max;
  }
  if ((page & (page - 1)) != 0) {
    uint32_t below = 1;
    for (; below * 2 < page; below *= 2) {
    }
    return wrong(doc, err, "policy.page_tokens", "must be a power of two, is %u (nearest: %u or %u)", (unsigned)page, (unsigned)below,
                 (unsigned)below * 2);
  }
  if (page < row_max) {
    return wrong(doc, err, "policy.page_tokens", "is %u, but a row of %s covers %u tokens (nearest: %u)", (unsigned)page, s->model.name,
                 (unsigned)row_max, (unsigned)row_max);
  }
  if (s->mode != KVL_MODE_RESIDENT && s->policy.tail_tokens <= page) { /* it holds the open page, and what is not written back yet */
    return wrong(doc, err, "policy.tail_tokens", "is %u, but must be more than policy.page_tokens, %u (nearest: %u)", (unsigned)s->policy.tail_tokens,
                 (unsigned)page, (unsigned)page * 2);
  }
  uint64_t row_min = UINT64_MAX;
  for (uint32_t i = 0; i < s->model.caches; i++) {
    row_min = s->model.cache[i].row_bytes < row_min ? s->model.cache[i].row_bytes : row_min;
  }
  if (s->node.kv_pool_bytes / row_min > INT32_MAX) {
    return wrong(doc, err, "node.kv_pool_bytes", "holds more than 2^31 rows of %" PRIu64 " bytes, which an address cannot name (nearest: %" PRIu64 ")",
                 row_min, row_min * INT32_MAX);
  }
  return 0;
}

/* Addresses of a selection are good until its cache is selected from again: what it fetched may be replaced then. */
static int check_readers(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_model *m = &doc->scenario.model;
  for (uint32_t p = 0; p < m->selection.points; p++) {
    for (uint32_t next = p + 1; next < m->selection.points; next++) {
      const struct kvl_selection_point *a = &m->selection.point[p], *b = &m->selection.point[next];
      if (a->cache == b->cache && a->layer + m->readers[p] > b->layer) {
        return wrong(doc, err, "model.caches", "cache %s: %u layers read what layer %u selects, but layer %u selects anew before the last of them (nearest: %u)",
                     m->cache[a->cache].name, (unsigned)m->readers[p], (unsigned)a->layer, (unsigned)b->layer, (unsigned)(b->layer - a->layer));
      }
    }
  }
  return 0;
}

/* Each cache is addressed as an array of its own rows, frames one after the other (backend/layout.c): a frame, and each cache's part of it, begins at a whole row. */
static const struct kvl_model_cache *misfit(const struct kvl_scenario *s, uint64_t page_tokens)
{
  uint64_t page = kvl_page_bytes(s) * (page_tokens / s->policy.page_tokens), at = 0;
  for (uint32_t i = 0; i < s->model.caches; i++) {
    const struct kvl_model_cache *cache = &s->model.cache[i];
    uint32_t split = s->policy.layer_sharing == KVL_SHARING_OFF && cache->layers > 1 ? cache->layers : 1;
    if (page % (cache->row_bytes / split) != 0 || at % (cache->row_bytes / split) != 0) {
      return cache;
    }
    at += page_tokens / cache->tokens_per_row * cache->row_bytes;
  }
  return NULL;
}

static int check_rows(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  uint64_t page = s->policy.page_tokens;
  const struct kvl_model_cache *cache = s->mode == KVL_MODE_RESIDENT || s->selection.kind == KVL_SELECT_NONE ? NULL : misfit(s, page);
  if (cache == NULL) {
    return 0;
  }
  while (page < PAGE_TOKENS_MAX && misfit(s, page) != NULL) {
    page *= 2;
  }
  if (misfit(s, page) != NULL) {
    return wrong(doc, err, "model.caches", "cache %s: rows of %u bytes do not divide a page of %" PRIu64 " bytes into whole rows, nor any larger page "
                 "(nearest: rows whose sizes differ by a power of two)", cache->name, (unsigned)cache->row_bytes, kvl_page_bytes(s));
  }
  return wrong(doc, err, "policy.page_tokens", "is %u: rows of cache %s, %u bytes, do not divide a page of %" PRIu64 " bytes into whole rows (nearest: %u)",
               (unsigned)s->policy.page_tokens, cache->name, (unsigned)cache->row_bytes, kvl_page_bytes(s), (unsigned)page);
}

static int check_model(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  const struct kvl_model *model = &s->model;
  if (model->pool_blocks > 0) {
    bool found = false;
    for (uint32_t i = 0; i < model->selection.points; i++) {
      found = found || model->selection.point[i].layer == model->pool_layer;
    }
    if (!found) {
      return wrong(doc, err, "model.pool_layer", "layer %u selects nothing, so it cannot announce a pool", (unsigned)model->pool_layer);
    }
    if (model->pool_rows_per_block == 0) {
      return wrong(doc, err, "model.pool_rows_per_block", "must be at least 1 where pool_blocks is not 0 (nearest: 1)");
    }
  }
  switch (s->costs.compute) {
  case KVL_COMPUTE_TABLE:
    if (s->costs.step_ns_by_tokens.n == 0) {
      return wrong(doc, err, "costs.step_ms_by_tokens", "has no points, and costs.compute is \"table\"");
    }
    break;
  case KVL_COMPUTE_LAW:
    if (s->costs.law_fixed_ns == 0 && s->costs.law_token_ns == 0) {
      return wrong(doc, err, "costs.law_fixed_ms", "and law_token_ms are both 0, and costs.compute is \"law\": a step would take no time");
    }
    break;
  case KVL_COMPUTE_ROOFLINE:
    if (model->weights_bytes == 0 || model->active_flops_per_token == 0) {
      return wrong(doc, err, model->weights_bytes == 0 ? "model.weights_bytes" : "model.active_flops_per_token",
                   "is not known for %s, and costs.compute is \"roofline\"", model->name);
    }
    if (s->hardware.flops_per_s == 0) {
      return wrong(doc, err, "hardware.tflop_per_s", "is not known for %s, and costs.compute is \"roofline\"", s->hardware.name);
    }
    break;
  }
  return 0;
}

static int check_workload(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  bool sized = s->workload.kind != KVL_WORK_FILE;
  if (s->workload.kind == KVL_WORK_CLOSED && s->workload.concurrency == 0) {
    return wrong(doc, err, "workload.concurrency", "must be at least 1 for a closed loop (nearest: 1)");
  }
  if ((s->workload.kind == KVL_WORK_POISSON || s->workload.kind == KVL_WORK_GAMMA) && !(s->workload.rate_per_s > 0)) {
    return wrong(doc, err, "workload.rate_per_s", "must be more than 0 for an open loop");
  }
  if (sized && s->workload.requests == 0) {
    return wrong(doc, err, "workload.requests", "must be at least 1 (nearest: 1)");
  }
  if (sized && s->workload.input_tokens == 0) {
    return wrong(doc, err, "workload.input_tokens", "must be at least 1 (nearest: 1)");
  }
  if (sized && s->workload.output_tokens == 0) { /* a file's requests may well have no answer: others beside them do */
    return wrong(doc, err, "workload.output_tokens", "must be at least 1, or nothing at all is decoded (nearest: 1)");
  }
  if (s->workload.cached_tokens > s->workload.input_tokens && sized) {
    return wrong(doc, err, "workload.cached_tokens", "is %u, more than input_tokens (nearest: %u)", (unsigned)s->workload.cached_tokens,
                 (unsigned)s->workload.input_tokens);
  }
  if (!sized && s->workload.path[0] == '\0') {
    return wrong(doc, err, "workload.file", "is missing for kind \"file\" (in the scenario, or --set=workload.file=PATH)");
  }
  if (s->selection.kind == KVL_SELECT_TRACE && s->selection.path[0] == '\0') {
    return wrong(doc, err, "selection.file", "is missing for source \"trace\" (in the scenario, or --set=selection.file=PATH)");
  }
  return 0;
}

/* "85.26 MB (85264128 bytes)": to be read, and exact. */
enum { SIZE_MAX_TEXT = 80 };
static const char *size_text(char text[SIZE_MAX_TEXT], uint64_t bytes)
{
  char human[KVL_TEXT_NUMBER_MAX];
  if (bytes < 1000) {
    (void)snprintf(text, SIZE_MAX_TEXT, "%" PRIu64 " bytes", bytes);
  } else {
    (void)snprintf(text, SIZE_MAX_TEXT, "%s (%" PRIu64 " bytes)", kvl_text_bytes(human, (double)bytes), bytes);
  }
  return text;
}

int kvl_scenario_check_tokens(const struct kvl_scenario_doc *doc, uint64_t tokens, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  struct kvl_session_bytes bytes;
  kvl_session_bytes(s, tokens, &bytes);
  uint64_t page = kvl_page_bytes(s), pool = kvl_pool_bytes(s) / page * page;
  uint64_t need = s->mode == KVL_MODE_RESIDENT ? bytes.resident : bytes.fixed;
  char all[SIZE_MAX_TEXT], each[SIZE_MAX_TEXT], missing[SIZE_MAX_TEXT];
  if (need > pool) {
    return wrong(doc, err, "node.kv_pool_bytes",
                 "cannot hold one session of %" PRIu64 " tokens in %s mode: it needs %s in frames of %s, %s are missing (nearest: %" PRIu64 ")",
                 tokens, kvl_mode_name(s->mode), size_text(all, need), size_text(each, page), size_text(missing, need - pool),
                 need + kvl_speculation_bytes(s));
  }
  if (s->mode != KVL_MODE_RESIDENT && bytes.host > s->node.host_pool_bytes) {
    return wrong(doc, err, "node.host_pool_bytes",
                 "cannot hold the history of one session of %" PRIu64 " tokens in %s mode: it needs %s, %s are missing (nearest: %" PRIu64 ")", tokens,
                 kvl_mode_name(s->mode), size_text(all, bytes.host), size_text(missing, bytes.host - s->node.host_pool_bytes), bytes.host);
  }
  return 0;
}

static int check_capacity(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  if (s->node.kv_pool_bytes > s->hardware.hbm_bytes) {
    char pool[SIZE_MAX_TEXT], hbm[SIZE_MAX_TEXT];
    return wrong(doc, err, "node.kv_pool_bytes", "is %s, more than the %s HBM of %s (nearest: %" PRIu64 ")", size_text(pool, s->node.kv_pool_bytes),
                 size_text(hbm, s->hardware.hbm_bytes), s->hardware.name, s->hardware.hbm_bytes);
  }
  uint64_t tokens = s->workload.kind == KVL_WORK_FILE ? 1 : (uint64_t)s->workload.input_tokens + s->workload.output_tokens;
  return kvl_scenario_check_tokens(doc, tokens, err);
}

static int check_prefetch(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  const struct kvl_model *m = &s->model;
  bool parts = false;
  for (uint32_t i = 0; i < m->caches; i++) {
    parts = parts || m->cache[i].layers > 1;
  }
  if (s->policy.prefetch == KVL_PREFETCH_PLAN && !parts) {
    return wrong(doc, err, "policy.prefetch", "is \"plan\", but no cache of %s has a part of its rows for each of several layers (nearest: \"%s\")", m->name,
                 m->pool_blocks != 0 ? "pool" : "none");
  }
  if (s->policy.prefetch == KVL_PREFETCH_PLAN && s->policy.layer_sharing == KVL_SHARING_OFF) {
    return wrong(doc, err, "policy.prefetch", "is \"plan\", but without layer sharing no fetch list serves a second layer (nearest: \"none\")");
  }
  if (s->policy.prefetch != KVL_PREFETCH_POOL) {
    return 0;
  }
  if (m->selection.pool.blocks == 0) {
    return wrong(doc, err, "policy.prefetch", "is \"pool\", but %s announces no candidate pool that a later selection chooses from (nearest: \"%s\")", m->name,
                 parts ? "plan" : "none");
  }
  if (s->policy.bank_rows == 0) {
    return wrong(doc, err, "policy.bank_rows", "is 0, but policy.prefetch = pool copies into the bank (nearest: %" PRIu64 ", a pool's rows)",
                 (uint64_t)m->pool_blocks * m->pool_rows_per_block);
  }
  uint32_t k = m->selection.point[m->selection.pool.point].k;
  if (k > m->pool_blocks) {
    return wrong(doc, err, "model.pool_blocks", "must hold the %u rows that layer %u selects, a block each (nearest: %u)", (unsigned)k, (unsigned)m->pool_layer,
                 (unsigned)k);
  }
  return 0;
}

static int check_speculation(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  const struct kvl_scenario *s = &doc->scenario;
  if (s->speculation.method == KVL_SPECULATION_NONE) {
    return 0;
  }
  uint32_t drafts = s->speculation.drafts, tail = s->policy.page_tokens + drafts + 1;
  if (s->speculation.accepted_mean_milli != 0 && (s->speculation.accepted_mean_milli < 1000 || s->speculation.accepted_mean_milli > (drafts + 1) * 1000)) {
    return wrong(doc, err, "speculation.accepted_mean", "must be from 1 to %u: one token is the model's own, %u are drafts (nearest: %u)", (unsigned)drafts + 1,
                 (unsigned)drafts, s->speculation.accepted_mean_milli < 1000 ? 1 : (unsigned)drafts + 1);
  }
  const struct kvl_curve *lengths = &s->speculation.accepted_lengths;
  for (uint32_t i = 0; lengths->n != 0 && i < drafts; i++) {
    if (i >= lengths->n || lengths->x[i] != i + 1) {
      return wrong(doc, err, "speculation.accepted_lengths", "must give the lengths with 1, 2, .. %u drafts: %u is missing", (unsigned)drafts, (unsigned)i + 1);
    }
    if (lengths->y[i] < 1000 || lengths->y[i] > (i + 2) * 1000) {
      return wrong(doc, err, "speculation.accepted_lengths", "with %u drafts a step has from 1 to %u tokens", (unsigned)i + 1, (unsigned)i + 2);
    }
  }
  if (s->mode != KVL_MODE_RESIDENT && s->policy.tail_tokens < tail) { /* the open page, and what one step may commit */
    return wrong(doc, err, "policy.tail_tokens", "is %u, but must be at least policy.page_tokens and the %u tokens of a step together (nearest: %u)",
                 (unsigned)s->policy.tail_tokens, (unsigned)drafts + 1, (unsigned)tail);
  }
  char taken[SIZE_MAX_TEXT], pool[SIZE_MAX_TEXT];
  if (kvl_speculation_bytes(s) >= s->node.kv_pool_bytes) {
    return wrong(doc, err, "node.kv_pool_bytes", "is %s, and speculation alone takes %s of it", size_text(pool, s->node.kv_pool_bytes),
                 size_text(taken, kvl_speculation_bytes(s)));
  }
  return 0;
}

int kvl_scenario_check(const struct kvl_scenario_doc *doc, struct kvl_err *err)
{
  int rc = check_pages(doc, err);
  rc = rc == 0 ? check_model(doc, err) : rc;
  rc = rc == 0 ? check_readers(doc, err) : rc;
  rc = rc == 0 ? check_rows(doc, err) : rc;
  rc = rc == 0 ? check_workload(doc, err) : rc;
  rc = rc == 0 ? check_speculation(doc, err) : rc;
  rc = rc == 0 ? check_prefetch(doc, err) : rc;
  return rc == 0 ? check_capacity(doc, err) : rc;
}
