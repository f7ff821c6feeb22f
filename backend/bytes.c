#include "backend/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/memory.h"
#include "kernels/pattern.h"

struct bytes_slot {
  uint64_t session;
  unsigned char *host[KVL_REFDEV_CACHES]; /* complete history, row by row */
  uint64_t checked, mismatches;           /* one thread at a time works on a slot */
  uint32_t salt;                          /* of this step's rejected rows, which are those from `kept` tokens on */
  uint32_t kept;
  struct {
    uint64_t session;
    uint32_t cache;
    kvl_row row;
    kvl_addr address;
  } first;                                /* mismatch, if there is one */
};

struct kvl_bytes {
  struct kvl_refdev *dev;
  const struct kvl_refdev_config *config;
  unsigned char *arena;
  uint64_t arena_bytes;
  uint64_t frame_offset[KVL_REFDEV_CACHES]; /* of a cache's rows within a frame */
  uint32_t host_rows[KVL_REFDEV_CACHES];
  struct bytes_slot *slot;
};

static void pattern(unsigned char *out, uint32_t bytes, uint64_t session, uint32_t cache, kvl_row row, uint32_t salt)
{
  uint64_t x = kvl_pattern_seed(session, cache, row, salt);
  for (uint32_t at = 0; at < bytes; at += 8) {
    x = kvl_pattern_next(x);
    memcpy(out + at, &x, bytes - at < 8 ? bytes - at : 8);
  }
}

/* Bytes [from, to) of the same content, compared in place: rows may be long. */
static bool holds(const unsigned char *at, uint32_t from, uint32_t to, uint64_t seed)
{
  uint64_t x = from < 8 ? seed : kvl_pattern_word(seed, from / 8);
  bool same = true;
  for (uint32_t i = from / 8 * 8; i < to; i += 8) {
    x = kvl_pattern_next(x);
    uint32_t begin = i < from ? from : i, end = to - i < 8 ? to : i + 8;
    same = same && memcmp(at + begin, (const unsigned char *)&x + (begin - i), end - begin) == 0;
  }
  return same;
}

static unsigned char *at_addr(struct kvl_bytes *b, uint32_t cache, kvl_addr addr)
{
  return b->arena + (uint64_t)addr * b->config->cache[cache].row_bytes;
}

static unsigned char *host_row(struct kvl_bytes *b, kvl_request slot, uint32_t cache, kvl_row row)
{
  return b->slot[slot].host[cache] + (uint64_t)row * b->config->cache[cache].row_bytes;
}

static uint32_t host_rows(const struct kvl_refdev_config *config, uint32_t cache, uint32_t tokens_max)
{
  return tokens_max / config->cache[cache].tokens_per_row + 1;
}

uint64_t kvl_bytes_history(const struct kvl_refdev_config *config, uint32_t tokens_max)
{
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < config->caches; i++) {
    bytes += (uint64_t)host_rows(config, i, tokens_max) * config->cache[i].row_bytes;
  }
  return bytes;
}

int kvl_bytes_create(struct kvl_bytes **out, struct kvl_refdev *dev, uint32_t tokens_max, struct kvl_err *err)
{
  const struct kvl_refdev_config *config = kvl_refdev_config_of(dev);
  struct kvl_bytes *b = calloc(1, sizeof *b);
  if (b == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the host plane");
  }
  b->dev = dev;
  b->config = config;
  b->arena_bytes = kvl_refdev_arena_bytes(dev);
  uint64_t at = 0;
  for (uint32_t i = 0; i < config->caches; i++) {
    b->frame_offset[i] = at;
    at += (uint64_t)(config->page_tokens / config->cache[i].tokens_per_row) * config->cache[i].row_bytes;
    b->host_rows[i] = host_rows(config, i, tokens_max);
  }
  uint64_t available = kvl_memory_available(""); /* more than that would be given, and end the process as it is written to */
  b->slot = calloc(config->slots, sizeof *b->slot);
  b->arena = b->arena_bytes > available ? NULL : malloc(b->arena_bytes);
  if (b->slot == NULL || b->arena == NULL) {
    int rc = kvl_err_set(err, -ENOMEM, "the host plane wants %.2f GB (%llu bytes) for its HBM arena, %.2f GB are available: try a smaller node.kv_pool_bytes",
                         (double)b->arena_bytes / 1e9, (unsigned long long)b->arena_bytes, (double)available / 1e9);
    kvl_bytes_destroy(b);
    return rc;
  }
  memset(b->arena, 0xa5, b->arena_bytes); /* nothing that was never written can pass for a row */
  *out = b;
  return 0;
}

void kvl_bytes_destroy(struct kvl_bytes *b)
{
  if (b == NULL) {
    return;
  }
  for (uint32_t s = 0; b->slot != NULL && s < b->config->slots; s++) {
    for (uint32_t i = 0; i < b->config->caches; i++) {
      free(b->slot[s].host[i]);
    }
  }
  free(b->slot);
  free(b->arena);
  free(b);
}

/* The tail's copy of a row, if the tail has it. */
static unsigned char *tail_row(struct kvl_bytes *b, kvl_request slot, uint32_t cache, kvl_row row)
{
  kvl_addr addr = kvl_refdev_tail_addr(b->dev, slot, cache, row);
  return addr == KVL_NONE ? NULL : at_addr(b, cache, addr);
}

int kvl_bytes_open(struct kvl_bytes *b, kvl_request slot, uint64_t session, uint32_t tokens, struct kvl_err *err)
{
  struct bytes_slot *s = &b->slot[slot];
  s->session = session;
  s->kept = tokens;
  for (uint32_t i = 0; i < b->config->caches; i++) {
    uint32_t row_bytes = b->config->cache[i].row_bytes;
    if (s->host[i] == NULL) {
      uint64_t bytes = (uint64_t)b->host_rows[i] * row_bytes, available = kvl_memory_available("");
      s->host[i] = bytes > available ? NULL : malloc(bytes);
      if (s->host[i] == NULL) {
        return kvl_err_set(err, -ENOMEM, "the host plane wants %.2f GB (%llu bytes) of host pool for batch slot %u, %.2f GB are available: try shorter inputs, or fewer at once (limits.batch_max)",
                           (double)bytes / 1e9, (unsigned long long)bytes, slot, (double)available / 1e9);
      }
    }
    memset(s->host[i], 0x5a, (uint64_t)b->host_rows[i] * row_bytes);
    kvl_row rows = (kvl_row)(tokens / b->config->cache[i].tokens_per_row);
    for (kvl_row row = 0; row < rows; row++) {
      pattern(host_row(b, slot, i, row), row_bytes, session, i, row, 0);
      unsigned char *tail = tail_row(b, slot, i, row);
      if (tail != NULL) {
        memcpy(tail, host_row(b, slot, i, row), row_bytes);
      }
    }
  }
  return 0;
}

void kvl_bytes_close(struct kvl_bytes *b, kvl_request slot)
{
  for (uint32_t i = 0; i < b->config->caches; i++) { /* a row used after its request ended is a mismatch, not a lucky hit */
    memset(b->slot[slot].host[i], 0x5a, (uint64_t)b->host_rows[i] * b->config->cache[i].row_bytes);
  }
}

void kvl_bytes_step(struct kvl_bytes *b, const struct kvl_step_item *item)
{
  b->slot[item->slot].kept = item->tokens + item->commit;
  b->slot[item->slot].salt = 1 + (item->tokens & 0x7fffffu);
}

/* What the row holds in the step under way, wherever it is. */
static uint64_t seed_of(const struct kvl_bytes *b, kvl_request slot, uint32_t cache, kvl_row row)
{
  const struct bytes_slot *s = &b->slot[slot];
  bool stays = (uint32_t)row < s->kept / b->config->cache[cache].tokens_per_row;
  return kvl_pattern_seed(s->session, cache, row, stays ? 0 : s->salt);
}

static unsigned char *scratch_row(struct kvl_bytes *b, kvl_request slot, uint32_t cache, uint32_t place)
{
  return at_addr(b, cache, kvl_refdev_scratch_addr(b->dev, slot, cache, place));
}

void kvl_bytes_written(struct kvl_bytes *b, kvl_request slot, uint32_t cache, kvl_row first, uint32_t count)
{
  const struct bytes_slot *s = &b->slot[slot];
  uint32_t kept = s->kept / b->config->cache[cache].tokens_per_row;
  for (uint32_t i = 0; i < count; i++) {
    kvl_row row = first + (kvl_row)i;
    pattern(scratch_row(b, slot, cache, i), b->config->cache[cache].row_bytes, s->session, cache, row, (uint32_t)row < kept ? 0 : s->salt);
  }
}

void kvl_bytes_fetch(struct kvl_bytes *b, kvl_request slot, uint32_t cache, const struct kvl_fetch *fetches, uint32_t count, uint32_t part, uint32_t parts)
{
  uint32_t bytes = b->config->cache[cache].row_bytes / parts;
  for (uint32_t i = 0; i < count; i++) {
    memcpy(at_addr(b, cache, fetches[i].to) + part * bytes, host_row(b, slot, cache, fetches[i].row) + part * bytes, bytes);
  }
}

void kvl_bytes_poison(struct kvl_bytes *b, uint32_t cache, const struct kvl_fetch *fetches, uint32_t count, uint32_t part, uint32_t parts)
{
  uint32_t row_bytes = b->config->cache[cache].row_bytes, from = row_bytes / parts * part;
  for (uint32_t i = 0; i < count; i++) {
    memset(at_addr(b, cache, fetches[i].to) + from, 0xa5, row_bytes - from);
  }
}

void kvl_bytes_pages(struct kvl_bytes *b, const struct kvl_move *moves, uint32_t count)
{
  for (uint32_t m = 0; m < count; m++) {
    for (uint32_t i = 0; i < b->config->caches; i++) {
      uint32_t row_bytes = b->config->cache[i].row_bytes;
      uint32_t rows = b->config->page_tokens / b->config->cache[i].tokens_per_row;
      unsigned char *to = b->arena + (uint64_t)moves[m].frame * b->config->page_bytes + b->frame_offset[i];
      kvl_row first = (kvl_row)((uint32_t)moves[m].page * rows);
      for (uint32_t k = 0; k < rows; k++) {
        kvl_row row = first + (kvl_row)k;
        const unsigned char *tail = moves[m].kind == KVL_MOVE_KEEP ? tail_row(b, moves[m].request, i, row) : NULL;
        memcpy(to + (uint64_t)k * row_bytes, tail != NULL ? tail : host_row(b, moves[m].request, i, row), row_bytes);
      }
    }
  }
}

void kvl_bytes_commit(struct kvl_bytes *b, const struct kvl_step_item *item)
{
  for (uint32_t i = 0; i < b->config->caches; i++) {
    uint32_t tpr = b->config->cache[i].tokens_per_row, row_bytes = b->config->cache[i].row_bytes;
    uint32_t first = item->tokens / tpr, end = (item->tokens + item->commit) / tpr;
    for (uint32_t row = first; row < end; row++) {
      unsigned char *tail = tail_row(b, item->slot, i, (kvl_row)row);
      if (tail != NULL) {
        memcpy(tail, scratch_row(b, item->slot, i, row - first), row_bytes);
        memcpy(host_row(b, item->slot, i, (kvl_row)row), tail, row_bytes); /* the write-back */
      }
    }
  }
}

void kvl_bytes_check(struct kvl_bytes *b, kvl_request slot, uint32_t cache, const int32_t *rows, const kvl_addr *addresses, uint32_t lanes, uint32_t part,
                     uint32_t parts)
{
  uint32_t row_bytes = b->config->cache[cache].row_bytes, bytes = row_bytes / parts;
  struct bytes_slot *s = &b->slot[slot];
  for (uint32_t i = 0; i < lanes; i++) {
    bool same = (rows[i] == KVL_NONE) == (addresses[i] == KVL_NONE);
    if (same && addresses[i] != KVL_NONE) {
      same = (uint64_t)addresses[i] * row_bytes + row_bytes <= b->arena_bytes &&
             holds(at_addr(b, cache, addresses[i]), part * bytes, (part + 1) * bytes, seed_of(b, slot, cache, rows[i]));
    }
    s->checked += part == 0;
    if (!same && s->mismatches++ == 0) {
      s->first.session = s->session;
      s->first.cache = cache;
      s->first.row = rows[i];
      s->first.address = addresses[i];
    }
  }
}

void kvl_bytes_checked(const struct kvl_bytes *b, uint64_t *rows, uint64_t *mismatches)
{
  for (uint32_t s = 0; s < b->config->slots; s++) {
    *rows += b->slot[s].checked;
    *mismatches += b->slot[s].mismatches;
  }
}

void kvl_bytes_first_mismatch(const struct kvl_bytes *b, char *text, size_t size)
{
  text[0] = '\0';
  for (uint32_t i = 0; i < b->config->slots; i++) {
    const struct bytes_slot *s = &b->slot[i];
    if (s->mismatches != 0) {
      (void)snprintf(text, size, "session %llu, batch slot %u, cache %u: row %d through address %d holds other bytes", (unsigned long long)s->first.session,
                     i, s->first.cache, s->first.row, s->first.address);
      return;
    }
  }
}
