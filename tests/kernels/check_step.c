/* The kernels of a step (kernels/step.h) against their references: every output, the bytes around it, and nothing else written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backend/base/rng.h"
#include "kernels/gather.h"
#include "kernels/pattern.h"
#include "kernels/step.h"
#include "tests/kernels/check_kernels.h"
#include "tests/kernels/now.h"

#define PICK(rng, ...) ((const uint32_t[]){__VA_ARGS__})[kvl_rng_below(rng, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))]

enum { RED = 256, RED_BYTE = 0x5a, BUFFERS = 700 };

/* The same bytes twice: `host` for the reference, `device` for CUDA, both between red zones. */
struct both {
  size_t bytes;
  unsigned char *host, *device;
  bool pinned; /* `device` is host memory that the device reaches */
};

static struct both buffer[BUFFERS];
static uint32_t buffers;
static const char *trouble;
static char text[400];

#define TRY(call) \
  do { \
    if (trouble == NULL) { \
      int err_ = (int)(call); \
      if (err_ != 0) { \
        snprintf(text, sizeof text, "%s: %d (%s)", #call, err_, cudaGetErrorString(cudaGetLastError())); \
        trouble = text; \
      } \
    } \
  } while (0)

#define EXPECT(condition, ...) \
  do { \
    if (trouble == NULL && !(condition)) { \
      snprintf(text, sizeof text, __VA_ARGS__); \
      trouble = text; \
    } \
  } while (0)

/* Poisoned memory for `bytes` bytes. NULL when there is trouble. */
static struct both *take(size_t bytes, bool pinned)
{
  if (trouble != NULL || buffers == BUFFERS) {
    trouble = trouble == NULL ? "too many buffers" : trouble;
    return NULL;
  }
  struct both *b = &buffer[buffers++];
  *b = (struct both){.bytes = bytes, .pinned = pinned};
  unsigned char *host = NULL;
  unsigned char *device = NULL;
  if (posix_memalign((void **)&host, 256, bytes + 2 * RED) != 0) {
    trouble = "out of memory";
    return NULL;
  }
  b->host = host + RED;
  TRY(pinned ? cudaHostAlloc((void **)&device, bytes + 2 * RED, cudaHostAllocDefault) : cudaMalloc((void **)&device, bytes + 2 * RED));
  if (trouble != NULL) {
    return NULL;
  }
  b->device = device + RED;
  memset(host, RED_BYTE, bytes + 2 * RED);
  TRY(fill_now(device, RED_BYTE, bytes + 2 * RED));
  return trouble == NULL ? b : NULL;
}

static void give_all_back(void)
{
  while (buffers > 0) {
    struct both *b = &buffer[--buffers];
    free(b->host != NULL ? b->host - RED : NULL);
    if (b->device != NULL && b->pinned) {
      cudaFreeHost(b->device - RED);
    } else if (b->device != NULL) {
      cudaFree(b->device - RED);
    }
  }
}

/* Host bytes to the device. */
static void send(const struct both *b)
{
  if (trouble == NULL) {
    TRY(copy_now(b->device - RED, b->host - RED, b->bytes + 2 * RED));
  }
}

static void same(const struct both *b, const char *what)
{
  if (trouble != NULL) {
    return;
  }
  unsigned char *got = malloc(b->bytes + 2 * RED);
  if (got == NULL) {
    trouble = "out of memory";
    return;
  }
  TRY(copy_now(got, b->device - RED, b->bytes + 2 * RED));
  for (size_t i = 0; trouble == NULL && i < b->bytes + 2 * RED; i++) {
    EXPECT(got[i] == (b->host - RED)[i], "%s: byte %lld of %zu is %02x, want %02x", what, (long long)i - RED, b->bytes, got[i],
           (b->host - RED)[i]);
  }
  free(got);
}

static void random_bytes(struct kvl_rng *rng, unsigned char *to, size_t bytes)
{
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t x = kvl_rng_next(rng);
    memcpy(to + i, &x, bytes - i < 8 ? bytes - i : 8);
  }
}

static void *on(const struct both *b, bool device)
{
  return device ? b->device : b->host;
}

/* ---- begin ---- */

static void check_begin(struct kvl_rng *rng)
{
  struct kvl_step_begin host = {.entries = PICK(rng, 0, 1, 2, 7, 44, 82, 300), .queries_max = PICK(rng, 1, 1, 2, 3, 8),
                                .caches = PICK(rng, 1, 4, 5, 31), .points = PICK(rng, 1, 8, 9, 40, 128), .stamp_pairs = PICK(rng, 0, 1, 5, 700)};
  const uint32_t slots = host.entries + 1 + kvl_rng_below(rng, 5);
  struct kvl_gpu_point point[2][KVL_STEP_POINTS];
  struct both *query[KVL_STEP_POINTS], *rows[KVL_STEP_POINTS], *counts[KVL_STEP_POINTS], *entry[KVL_STEP_CACHES], *state[KVL_STEP_CACHES];
  size_t words = kvl_rng_below(rng, 7);
  for (;;) { /* fewer points when they are large */
    uint64_t lanes = 0;
    words = kvl_rng_below(rng, 7);
    bool even = kvl_rng_below(rng, 2) == 0; /* as a real model: vectors can be used */
    for (uint32_t p = 0; p < host.points; p++) {
      point[0][p].cache = kvl_rng_below(rng, host.caches);
      point[0][p].k = even ? 512 : PICK(rng, 1, 31, 64, 128, 129, 512, 516, 2048);
      words += even ? (8 - host.queries_max % 4 - words % 4) % 4 : kvl_rng_below(rng, 3);
      point[0][p].selection_offset = words;
      words += (size_t)host.queries_max * (1 + point[0][p].k);
      lanes += (uint64_t)host.queries_max * point[0][p].k * slots;
    }
    words += even ? (4 - words % 4) % 4 : 0;
    if (lanes <= 3000000 || host.points == 1) {
      break;
    }
    host.points = (host.points + 1) / 2;
  }
  struct both *item = take((host.entries + 1) * sizeof(struct kvl_gpu_item), true);
  struct both *selections = take((size_t)slots * 2 * words * 4, false);
  struct both *points = take(host.points * sizeof point[0][0], false);
  struct both *stamps = take((size_t)host.stamp_pairs * 16, false);
  for (uint32_t c = 0; trouble == NULL && c < host.caches; c++) {
    entry[c] = take(host.entries * sizeof(struct kvl_resolve_entry), false);
    state[c] = take(slots * sizeof(struct kvl_resolve_entry), false);
    if (trouble == NULL) {
      random_bytes(rng, state[c]->host, state[c]->bytes);
      send(state[c]);
    }
    host.tokens_per_row[c] = PICK(rng, 1, 2, 4, 128);
  }
  for (uint32_t p = 0; trouble == NULL && p < host.points; p++) {
    size_t all = (size_t)host.entries * host.queries_max;
    query[p] = take(all * sizeof(struct kvl_batch_query), false);
    rows[p] = take(all * point[0][p].k * 4, false);
    counts[p] = take(host.entries * sizeof(struct kvl_resolve_counts), false);
  }
  if (trouble != NULL) {
    return;
  }
  random_bytes(rng, selections->host, selections->bytes);
  struct kvl_gpu_item *items = (void *)item->host;
  for (uint32_t e = 0; e < host.entries; e++) {
    items[e] = (struct kvl_gpu_item){.slot = kvl_rng_below(rng, 6) == 0 ? KVL_NONE : (int32_t)((e * 7 + 3) % slots),
                                     .tokens = kvl_rng_below(rng, 1 << 20),
                                     .queries = kvl_rng_below(rng, host.queries_max + 1),
                                     .whole = kvl_rng_below(rng, 2),
                                     .pages = kvl_rng_below(rng, 5000),
                                     .half = kvl_rng_below(rng, 2)};
  }
  for (uint32_t s = 0; s < slots * 2; s++) {
    for (uint32_t p = 0; p < host.points; p++) {
      uint32_t *n = (uint32_t *)(void *)selections->host + (size_t)s * words + point[0][p].selection_offset;
      for (uint32_t q = 0; q < host.queries_max; q++) {
        n[q] = kvl_rng_below(rng, 3) == 0 ? kvl_rng_below(rng, point[0][p].k + 9) : point[0][p].k;
      }
    }
  }
  struct kvl_step_begin cuda = host;
  for (int device = 0; device < 2; device++) {
    struct kvl_step_begin *b = device ? &cuda : &host;
    for (uint32_t c = 0; c < host.caches; c++) {
      b->entry[c] = on(entry[c], device);
      b->slot_entry[c] = on(state[c], device);
    }
    for (uint32_t p = 0; p < host.points; p++) {
      point[device][p] = point[0][p];
      point[device][p].query = on(query[p], device);
      point[device][p].rows = on(rows[p], device);
      point[device][p].counts = on(counts[p], device);
    }
    memcpy(points->host, point[device], host.points * sizeof point[0][0]);
    if (device) {
      send(points);
      memcpy(points->host, point[0], host.points * sizeof point[0][0]);
    }
    b->item = on(item, device);
    b->point = on(points, device);
    b->selections = on(selections, device);
    b->selection_words = words;
    b->stamps = host.stamp_pairs > 0 ? on(stamps, device) : NULL;
  }
  send(item);
  send(selections);
  TRY(kvl_step_begin_ref(&host, NULL));
  TRY(kvl_step_begin_cuda(&cuda, NULL));
  TRY(cudaDeviceSynchronize());
  if (trouble == NULL && host.stamp_pairs > 0) { /* the first pair is the launch's own */
    uint64_t got[2] = {0, 0};
    TRY(copy_now(got, stamps->device, sizeof got));
    EXPECT(got[0] > 0 && got[0] <= got[1] && got[1] < UINT64_MAX, "begin: stamps %" PRIu64 " and %" PRIu64, got[0], got[1]);
    memcpy(stamps->host, got, sizeof got);
  }
  same(stamps, "begin: stamps");
  for (uint32_t c = 0; trouble == NULL && c < host.caches; c++) {
    same(entry[c], "begin: entries");
  }
  for (uint32_t p = 0; trouble == NULL && p < host.points; p++) {
    same(query[p], "begin: queries");
    same(rows[p], "begin: rows");
    same(counts[p], "begin: counts");
  }
}

/* ---- fills ---- */

static void check_fills(struct kvl_rng *rng)
{
  enum { FILLS_MAX = 800 };
  const uint32_t n = PICK(rng, 0, 1, 3, 32, 33, 200, 700);
  const size_t most = n <= 3 ? 12 << 20 : n <= 33 ? 300000 : 20000; /* of one fill */
  const bool to_host = kvl_rng_below(rng, 4) == 0;
  static struct kvl_fill list[FILLS_MAX];
  size_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t row_bytes = PICK(rng, 8, 16, 24, 40, 288, 288, 584, 656, 2624, 4104);
    uint32_t rows = PICK(rng, 0, 1, 1, 2, 5, 40, (uint32_t)(most / row_bytes), kvl_rng_below(rng, (uint32_t)(most / row_bytes) + 1));
    at += 8 * (size_t)kvl_rng_below(rng, 4);
    list[i] = (struct kvl_fill){.to = (unsigned char *)at, .session = kvl_rng_next(rng), .cache = kvl_rng_below(rng, 9), .row_bytes = row_bytes,
                                .first_row = (kvl_row)kvl_rng_below(rng, 1 << 20), .rows = rows,
                                .salt = kvl_rng_below(rng, 2) == 0 ? 0 : kvl_rng_below(rng, 1 << 20)};
    at += (size_t)rows * row_bytes;
  }
  struct both *memory = take(at + 8, to_host);
  struct both *fills = take(FILLS_MAX * sizeof list[0], kvl_rng_below(rng, 2) == 0);
  struct both *count = take(4, kvl_rng_below(rng, 2) == 0);
  if (trouble != NULL) {
    return;
  }
  memcpy(count->host, &n, 4);
  send(count);
  for (int device = 1; device >= 0; device--) {
    for (uint32_t i = 0; i < n; i++) {
      struct kvl_fill f = list[i];
      f.to = (unsigned char *)on(memory, device) + (size_t)(uintptr_t)list[i].to;
      memcpy(fills->host + i * sizeof f, &f, sizeof f);
    }
    if (device) {
      send(fills);
    }
  }
  struct kvl_fills host = {(void *)fills->host, (void *)count->host, FILLS_MAX, 0};
  struct kvl_fills cuda = {(void *)fills->device, (void *)count->device, FILLS_MAX, PICK(rng, 0, 0, 1, 8)};
  TRY(kvl_fills_ref(&host, NULL));
  TRY(kvl_fills_cuda(&cuda, NULL));
  TRY(cudaDeviceSynchronize());
  same(memory, "fills");
}

/* ---- reader and witness ---- */

/* All of a row, or the n-th of a few equal parts. */
static void draw_part(struct kvl_rng *rng, uint32_t row_bytes, uint32_t *offset, uint32_t *bytes)
{
  uint32_t parts = PICK(rng, 1, 1, 2, 3, 4);
  *bytes = parts == 1 || row_bytes % 8 != 0 || row_bytes / parts < 8 ? 0 : row_bytes / parts / 8 * 8;
  *offset = *bytes == 0 ? 0 : *bytes * kvl_rng_below(rng, parts);
}

static void check_digests(struct kvl_rng *rng)
{
  const uint32_t queries_max = PICK(rng, 1, 1, 2, 5, 8);
  const uint32_t k = PICK(rng, 1, 15, 16, 17, 100, 512, 513, 2048);
  const uint32_t row_bytes = PICK(rng, 8, 16, 24, 40, 288, 288, 584, 656, 2624, 12, 289);
  const uint32_t rows = PICK(rng, 1, 10, 100, 300);
  uint32_t entries = PICK(rng, 1, 2, 9, 44, 82, 150);
  while (entries > 1 && ((uint64_t)entries * rows * row_bytes > 12 << 20 || (uint64_t)entries * queries_max * k > 600000)) {
    entries = (entries + 1) / 2;
  }
  const uint32_t slots = entries + 2;
  const size_t queries = (size_t)entries * queries_max;
  const size_t slot_bytes = (size_t)rows * row_bytes + (row_bytes % 8 == 0 ? 8 * (size_t)kvl_rng_below(rng, 3) : 0); /* less than a row more */
  struct both *entry = take(entries * sizeof(struct kvl_resolve_entry), false);
  struct both *query = take(queries * sizeof(struct kvl_batch_query), false);
  struct both *row = take(queries * k * 4, false);
  struct both *address = take(queries * k * 4, false);
  struct both *resident = take(slots * slot_bytes, false);
  struct both *arena = take((size_t)slots * rows * row_bytes, false);
  struct both *read = take(queries * 8, false);
  struct both *seen = take(queries * 8, false);
  struct both *stamp = take(16, false);
  if (trouble != NULL) {
    return;
  }
  random_bytes(rng, resident->host, resident->bytes);
  for (uint32_t s = 0; s < slots; s++) { /* row r of slot s is at address r * slots + s: neighbours lie apart */
    for (uint32_t r = 0; r < rows; r++) {
      memcpy(arena->host + ((size_t)r * slots + s) * row_bytes, resident->host + s * slot_bytes + (size_t)r * row_bytes, row_bytes);
    }
  }
  const uint32_t real_max = (uint32_t)(slot_bytes / row_bytes); /* small rows: what follows the last one may make another */
  struct kvl_resolve_entry *entries_of = (void *)entry->host;
  for (uint32_t e = 0; e < entries; e++) {
    memset(&entries_of[e], 0x33, sizeof entries_of[e]);
    entries_of[e].request = kvl_rng_below(rng, 8) == 0 ? KVL_NONE : (int32_t)((e * 5 + 1) % slots);
    entries_of[e].query_count = kvl_rng_below(rng, 4) == 0 ? kvl_rng_below(rng, queries_max + 1) : queries_max;
    for (uint32_t q = 0; q < queries_max; q++) {
      size_t at = (size_t)e * queries_max + q;
      uint32_t n = kvl_rng_below(rng, 3) == 0 ? kvl_rng_below(rng, k + 1) : k;
      ((struct kvl_batch_query *)(void *)query->host)[at] = (struct kvl_batch_query){1, n};
      for (uint32_t i = 0; i < k; i++) {
        int32_t r = kvl_rng_below(rng, 20) == 0 ? (int32_t)PICK(rng, (uint32_t)-1, (uint32_t)-7, real_max, real_max + 100, INT32_MAX)
                                                : (int32_t)kvl_rng_below(rng, rows);
        bool none = r < 0 || (uint32_t)r >= rows;
        int32_t a = none ? KVL_NONE : r * (int32_t)slots + entries_of[e].request;
        memcpy(row->host + (at * k + i) * 4, &r, 4);
        memcpy(address->host + (at * k + i) * 4, &a, 4);
      }
    }
  }
  uint64_t times[2] = {UINT64_MAX, 0};
  memcpy(stamp->host, times, sizeof times);
  const struct both *inputs[] = {entry, query, row, address, resident, arena, stamp};
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
    send(inputs[i]);
  }
  bool stamped = kvl_rng_below(rng, 2) == 0;
  uint32_t part_offset, part_bytes;
  draw_part(rng, row_bytes, &part_offset, &part_bytes);
  for (int device = 0; device < 2; device++) {
    struct kvl_reader r = {entries, queries_max, k, row_bytes, on(entry, device), on(query, device), on(address, device), on(arena, device),
                           on(read, device), stamped ? on(stamp, device) : NULL, part_offset, part_bytes};
    struct kvl_witness w = {entries, queries_max, k, row_bytes, on(entry, device), on(query, device), on(row, device), on(resident, device),
                            slot_bytes, on(seen, device), part_offset, part_bytes};
    TRY(device ? kvl_reader_cuda(&r, NULL) : kvl_reader_ref(&r, NULL));
    TRY(device ? kvl_witness_cuda(&w, NULL) : kvl_witness_ref(&w, NULL));
  }
  TRY(cudaDeviceSynchronize());
  same(read, "reader");
  same(seen, "witness");
  EXPECT(memcmp(read->host, seen->host, queries * 8) == 0, "reader and witness disagree in the reference");
  if (trouble == NULL && stamped) {
    TRY(copy_now(times, stamp->device, sizeof times));
    EXPECT(times[0] > 0 && times[0] <= times[1] && times[1] < UINT64_MAX, "reader: stamps %" PRIu64 " and %" PRIu64, times[0], times[1]);
  }
}

/* ---- end ---- */

static void check_end(struct kvl_rng *rng)
{
  struct kvl_step_end host = {.entries = PICK(rng, 0, 1, 3, 44, 82, 500), .queries_max = PICK(rng, 1, 1, 2, 8), .points = PICK(rng, 0, 1, 8, 50, 128),
                              .readers = PICK(rng, 0, 1, 38, 90)};
  host.readers = host.points == 0 ? 0 : host.readers;
  const size_t each = (size_t)host.entries * host.queries_max;
  struct kvl_gpu_point point[2][KVL_STEP_POINTS];
  struct both *points = take((host.points + 1) * sizeof point[0][0], false);
  struct both *entry = take(host.entries * sizeof(struct kvl_resolve_entry), false);
  struct both *digest = take(host.readers * each * 8, false);
  struct both *witness = take(host.points * each * 8, false);
  struct both *point_of_reader = take(host.readers * 4, false);
  struct both *check = take(4, true);
  struct both *copied = take(host.entries * 4, false);
  struct both *dropped = take(host.entries * 4, false);
  struct both *stamps = take(16, false);
  struct both *outcome = take(sizeof(struct kvl_step_outcome), true);
  struct both *query[KVL_STEP_POINTS], *counts[KVL_STEP_POINTS];
  for (uint32_t p = 0; p < host.points && trouble == NULL; p++) {
    query[p] = take(each * sizeof(struct kvl_batch_query), false);
    counts[p] = take(host.entries * sizeof(struct kvl_resolve_counts), false);
  }
  if (trouble != NULL) {
    return;
  }
  random_bytes(rng, witness->host, witness->bytes);
  random_bytes(rng, copied->host, copied->bytes);
  random_bytes(rng, dropped->host, dropped->bytes);
  random_bytes(rng, stamps->host, stamps->bytes);
  uint32_t checked = kvl_rng_below(rng, 5) > 0;
  memcpy(check->host, &checked, 4);
  for (uint32_t e = 0; e < host.entries; e++) {
    struct kvl_resolve_entry *to = (struct kvl_resolve_entry *)(void *)entry->host + e;
    memset(to, 0, sizeof *to);
    to->request = kvl_rng_below(rng, 8) == 0 ? KVL_NONE : (int32_t)e;
    to->query_count = kvl_rng_below(rng, 4) == 0 ? kvl_rng_below(rng, host.queries_max + 1) : host.queries_max;
  }
  for (uint32_t p = 0; p < host.points; p++) {
    for (size_t i = 0; i < each; i++) {
      ((struct kvl_batch_query *)(void *)query[p]->host)[i] = (struct kvl_batch_query){7, kvl_rng_below(rng, 513)};
    }
    random_bytes(rng, counts[p]->host, counts[p]->bytes);
    send(query[p]);
    send(counts[p]);
  }
  uint32_t wrong = PICK(rng, 0, 0, 1, 3, 300); /* of 1,000 digests, or a single one */
  for (uint32_t r = 0; r < host.readers; r++) {
    uint32_t p = kvl_rng_below(rng, host.points);
    memcpy(point_of_reader->host + (size_t)r * 4, &p, 4);
    memcpy(digest->host + r * each * 8, witness->host + p * each * 8, each * 8);
    for (size_t i = 0; i < each; i++) {
      if (wrong > 1 && kvl_rng_below(rng, 1000) < wrong) {
        digest->host[(r * each + i) * 8 + kvl_rng_below(rng, 8)] ^= (unsigned char)(1 + kvl_rng_below(rng, 255));
      }
    }
  }
  if (wrong == 1 && digest->bytes > 0) {
    digest->host[kvl_rng_below(rng, (uint32_t)digest->bytes)] ^= 1;
  }
  for (int device = 1; device >= 0; device--) {
    for (uint32_t p = 0; p < host.points; p++) {
      point[device][p] = (struct kvl_gpu_point){.cache = 1, .k = 512, .query = on(query[p], device), .counts = on(counts[p], device)};
    }
    memcpy(points->host, point[device], host.points * sizeof point[0][0]);
    if (device) {
      send(points);
    }
  }
  const struct both *inputs[] = {entry, digest, witness, point_of_reader, check, copied, dropped, stamps};
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
    send(inputs[i]);
  }
  bool announced = kvl_rng_below(rng, 2) == 0;
  for (int device = 0; device < 2; device++) {
    struct kvl_step_end s = host;
    s.point = on(points, device);
    s.entry = on(entry, device);
    s.digest = on(digest, device);
    s.witness = on(witness, device);
    s.point_of_reader = on(point_of_reader, device);
    s.check = on(check, device);
    s.copy_count = announced ? on(copied, device) : NULL;
    s.drop_count = announced ? on(dropped, device) : NULL;
    s.stamps = on(stamps, device);
    s.outcome = on(outcome, device);
    TRY(device ? kvl_step_end_cuda(&s, NULL) : kvl_step_end_ref(&s, NULL));
  }
  TRY(cudaDeviceSynchronize());
  if (trouble == NULL) { /* times are the GPU's */
    struct kvl_step_outcome *got = (void *)outcome->device;
    uint64_t began;
    memcpy(&began, stamps->host, 8);
    EXPECT(got->begin_ns == began && got->end_ns > 0, "end: times %" PRIu64 " and %" PRIu64, got->begin_ns, got->end_ns);
    got->begin_ns = 0;
    got->end_ns = 0;
  }
  same(outcome, "end: outcome");
}

/* ---- bank ---- */

static void check_bank(struct kvl_rng *rng)
{
  const uint32_t row_bytes = PICK(rng, 8, 24, 288, 288, 584, 656, 2624);
  const uint32_t bank_rows = PICK(rng, 1, 5, 64, 300, 2048);
  const uint32_t history = PICK(rng, 1, 100, 4000);
  uint32_t entries = PICK(rng, 0, 1, 3, 44, 82, 1500);
  while (entries > 1 && (uint64_t)entries * (bank_rows + history) * row_bytes > 24 << 20) {
    entries = (entries + 1) / 2;
  }
  struct both *pool = take((size_t)(entries + 1) * history * row_bytes + 16 * (size_t)entries, true);
  struct both *arena = take((size_t)(entries + 1) * bank_rows * row_bytes, false);
  struct both *copies = take((size_t)(entries + 1) * bank_rows * sizeof(struct kvl_fetch), false);
  struct both *count = take((entries + 1) * 4, false);
  struct both *entry = take((entries + 1) * sizeof(struct kvl_resolve_entry), false);
  struct both *stamp = take(16, false);
  if (trouble != NULL) {
    return;
  }
  random_bytes(rng, pool->host, pool->bytes);
  uint64_t times[2] = {UINT64_MAX, 0};
  memcpy(stamp->host, times, sizeof times);
  for (uint32_t e = 0; e < entries; e++) {
    uint32_t n = kvl_rng_below(rng, 3) == 0 ? bank_rows : kvl_rng_below(rng, bank_rows + 1);
    uint32_t row = 0;
    bool taken[2048] = {false}; /* no address twice */
    memcpy(count->host + (size_t)e * 4, &n, 4);
    for (uint32_t i = 0; i < n; i++) { /* runs of neighbours */
      row = i == 0 || kvl_rng_below(rng, 8) == 0 ? kvl_rng_below(rng, history) : (row + 1) % history;
      uint32_t slot = kvl_rng_below(rng, 2) == 0 ? i : bank_rows - 1 - i;
      while (taken[slot]) {
        slot = (slot + 1) % bank_rows;
      }
      taken[slot] = true;
      struct kvl_fetch f = {(kvl_row)row, (kvl_addr)(e * bank_rows + slot)};
      memcpy(copies->host + ((size_t)e * bank_rows + i) * sizeof f, &f, sizeof f);
    }
  }
  bool padding = kvl_rng_below(rng, 2) == 0;
  for (int device = 1; device >= 0; device--) {
    for (uint32_t e = 0; e < entries; e++) {
      struct kvl_resolve_entry x = {.request = padding && e % 5 == 3 ? KVL_NONE : (int32_t)e,
                                    .host_rows = (unsigned char *)on(pool, device) + (size_t)e * (history * (size_t)row_bytes + 15) / 16 * 16};
      memcpy(entry->host + e * sizeof x, &x, sizeof x);
    }
    if (device) {
      send(entry);
    }
  }
  send(pool);
  send(copies);
  send(count);
  send(stamp);
  bool stamped = kvl_rng_below(rng, 2) == 0;
  uint32_t blocks_max = PICK(rng, 0, 1, 16), part_offset, part_bytes;
  draw_part(rng, row_bytes, &part_offset, &part_bytes);
  for (int device = 0; device < 2; device++) {
    struct kvl_bank_copy b = {entries, bank_rows, row_bytes, on(entry, device), on(copies, device), on(count, device), on(arena, device), blocks_max,
                              stamped ? on(stamp, device) : NULL, part_offset, part_bytes};
    TRY(device ? kvl_bank_copy_cuda(&b, NULL) : kvl_bank_copy_ref(&b, NULL));
  }
  TRY(cudaDeviceSynchronize());
  same(arena, "bank");
  if (trouble == NULL && stamped && entries > 0) {
    TRY(copy_now(times, stamp->device, sizeof times));
    EXPECT(times[0] > 0 && times[0] <= times[1] && times[1] < UINT64_MAX, "bank: stamps %" PRIu64 " and %" PRIu64, times[0], times[1]);
  }
}

/* ---- gather ---- */

static void check_gather(struct kvl_rng *rng)
{
  const uint32_t row_bytes = PICK(rng, 8, 24, 288, 288, 584, 656, 2624);
  const uint32_t bytes = kvl_rng_below(rng, 3) == 0 ? 8 * (1 + kvl_rng_below(rng, row_bytes / 8)) : row_bytes;
  const uint32_t rows_max = PICK(rng, 1, 5, 64, 512, KVL_GATHER_ORDERED_MAX, KVL_GATHER_ORDERED_MAX + 1, 3000);
  const uint32_t history = rows_max + kvl_rng_below(rng, 3000);
  uint32_t entries = PICK(rng, 0, 1, 3, 44, 82, 500);
  while (entries > 1 && (uint64_t)entries * (rows_max + history) * row_bytes > 24 << 20) {
    entries = (entries + 1) / 2;
  }
  struct both *pool = take((size_t)(entries + 1) * history * row_bytes + 16 * (size_t)entries, true);
  struct both *to = take((size_t)(entries + 1) * rows_max * bytes, false);
  struct both *fetches = take((size_t)(entries + 1) * rows_max * sizeof(struct kvl_fetch), false);
  struct both *count = take((entries + 1) * 4, false);
  struct both *entry = take((entries + 1) * sizeof(struct kvl_resolve_entry), false);
  struct both *stamp = take(16, false);
  if (trouble != NULL) {
    return;
  }
  random_bytes(rng, pool->host, pool->bytes);
  uint64_t times[2] = {UINT64_MAX, 0};
  memcpy(stamp->host, times, sizeof times);
  for (uint32_t e = 0; e < entries; e++) {
    uint32_t n = kvl_rng_below(rng, 3) == 0 ? rows_max : kvl_rng_below(rng, rows_max + 1), stride = PICK(rng, 1, 7, 101, 2999);
    stride = history % stride == 0 ? 1 : stride; /* a prime that does not divide it: no row twice */
    memcpy(count->host + (size_t)e * 4, &n, 4);
    for (uint32_t i = 0; i < n; i++) {
      struct kvl_fetch f = {(kvl_row)((uint64_t)i * stride % history), KVL_NONE};
      memcpy(fetches->host + ((size_t)e * rows_max + i) * sizeof f, &f, sizeof f);
    }
  }
  bool padding = kvl_rng_below(rng, 2) == 0;
  for (int device = 1; device >= 0; device--) {
    for (uint32_t e = 0; e < entries; e++) {
      struct kvl_resolve_entry x = {.request = padding && e % 5 == 3 ? KVL_NONE : (int32_t)e,
                                    .host_rows = (unsigned char *)on(pool, device) + (size_t)e * (history * (size_t)row_bytes + 15) / 16 * 16};
      memcpy(entry->host + e * sizeof x, &x, sizeof x);
    }
    if (device) {
      send(entry);
    }
  }
  send(pool);
  send(fetches);
  send(count);
  send(stamp);
  bool stamped = kvl_rng_below(rng, 2) == 0;
  for (int device = 0; device < 2; device++) {
    struct kvl_gather g = {entries, rows_max, row_bytes, bytes, (enum kvl_gather_shape)kvl_rng_below(rng, KVL_GATHER_SHAPES), on(entry, device),
                           on(fetches, device), on(count, device), on(to, device), stamped ? on(stamp, device) : NULL};
    TRY(device ? kvl_gather_cuda(&g, NULL) : kvl_gather_ref(&g, NULL));
  }
  TRY(cudaDeviceSynchronize());
  same(to, "gather");
  if (trouble == NULL && stamped && entries > 0) {
    TRY(copy_now(times, stamp->device, sizeof times));
    EXPECT(times[0] > 0 && times[0] <= times[1] && times[1] < UINT64_MAX, "gather: stamps %" PRIu64 " and %" PRIu64, times[0], times[1]);
  }
}

/* ---- stand-in: it takes its time, leaves `start` 0, and writes nothing else ---- */

static void check_standin(struct kvl_rng *rng)
{
  struct both *from = take(1 << 20, false);
  struct both *word = take(32, false); /* start, sink */
  struct both *duration = take(8, kvl_rng_below(rng, 2) == 0);
  struct both *stamp = take(16, false);
  if (trouble != NULL) {
    return;
  }
  random_bytes(rng, from->host, from->bytes);
  uint64_t ns = PICK(rng, 0, 1000, 20000, 300000);
  uint64_t zero[4] = {0, 0, 0, 0};
  memcpy(word->host, zero, sizeof zero);
  memcpy(duration->host, &ns, 8);
  send(from);
  send(word);
  send(duration);
  for (int i = 0; i < 3 && trouble == NULL; i++) {
    uint64_t times[2] = {UINT64_MAX, 0};
    memcpy(stamp->host, times, sizeof times);
    send(stamp);
    uint64_t bytes = PICK(rng, 0, 5000, 1 << 20, 40 << 20);
    struct kvl_standin s = {(void *)duration->device, from->device, PICK(rng, 100, 4096, 1 << 20), bytes, 16 * (uint64_t)kvl_rng_below(rng, 90000),
                            (uint64_t *)(void *)word->device + 2, (void *)word->device, (void *)stamp->device};
    s.from = bytes == 0 ? NULL : s.from;
    TRY(kvl_standin_cuda(&s, NULL));
    TRY(cudaDeviceSynchronize());
    TRY(copy_now(times, stamp->device, sizeof times));
    EXPECT(times[1] - times[0] >= ns && times[1] - times[0] < ns + 2000000000, "stand-in: %" PRIu64 " ns, asked for %" PRIu64, times[1] - times[0],
           ns);
    TRY(copy_now(zero, word->device, sizeof zero));
    EXPECT(zero[0] == 0 && zero[1] == 0 && zero[3] == 0, "stand-in: `start` is not 0 afterwards, or its neighbour was written");
  }
}

const char *check_step(uint64_t seed, uint64_t rounds, char *where, size_t room)
{
  static const struct {
    const char *name;
    void (*check)(struct kvl_rng *);
    uint64_t times; /* a round: what is cheap, more often */
  } checks[] = {{"begin", check_begin, 1}, {"fills", check_fills, 2}, {"digests", check_digests, 1}, {"end", check_end, 30}, {"bank", check_bank, 1},
                {"gather", check_gather, 1}, {"stand-in", check_standin, 1}};
  trouble = NULL;
  for (uint64_t r = 0; r < rounds && trouble == NULL; r++) {
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
      for (uint64_t n = r * checks[i].times; n < (r + 1) * checks[i].times && trouble == NULL; n++) {
        struct kvl_rng rng;
        kvl_rng_init(&rng, seed, checks[i].name, n);
        checks[i].check(&rng);
        give_all_back();
        if (trouble != NULL) {
          snprintf(where, room, "%s, batch %" PRIu64, checks[i].name, n);
        }
      }
    }
  }
  return trouble;
}
