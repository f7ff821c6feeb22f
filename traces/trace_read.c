/* Reading a trace. After open, every byte of the file is accounted for: header, chunks without gaps, index, footer; each under a checksum. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "traces/lines.h"
#include "traces/trace_codec.h"

struct kvl_trace {
  int fd;
  char *path;
  struct kvl_trace_meta meta;
  struct kvl_trace_session *session;
  struct kvl_trace_entry *entry; /* sorted by (session, first step) */
  struct kvl_trace_totals totals;
  uint64_t chunks_begin, index_offset;
  /* where next() stands */
  uint32_t next_session, next_step;
  struct kvl_trace_chunk *chunk;
  struct kvl_trace_list *list; /* of the step returned last */
  uint32_t list_capacity;
};

static int read_at(const struct kvl_trace *t, void *bytes, size_t count, uint64_t offset, struct kvl_err *err)
{
  char *p = bytes;
  while (count > 0) {
    ssize_t n = pread(t->fd, p, count, (off_t)offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      int code = errno;
      return kvl_err_set(err, -code, "%s: cannot be read at byte %llu: %s", t->path, (unsigned long long)offset, strerror(code));
    }
    if (n == 0)
      return kvl_err_set(err, -ENODATA, "%s: ends at byte %llu: it was cut off while being read", t->path, (unsigned long long)offset);
    p += n;
    count -= (size_t)n;
    offset += (uint64_t)n;
  }
  return 0;
}

static int read_header(struct kvl_trace *t, struct kvl_err *err)
{
  uint8_t prefix[KVL_TRACE_PREFIX_BYTES + 16], *bytes;
  size_t there = t->totals.file_bytes < sizeof(prefix) ? (size_t)t->totals.file_bytes : sizeof(prefix);
  const char *looks, *wrong;
  uint32_t version, body;
  size_t count;
  int code = read_at(t, prefix, there, 0, err);

  if (code)
    return code;
  if (there == 0)
    return kvl_err_set(err, -ENODATA, "%s: the file is empty", t->path);
  if (memcmp(prefix, KVL_TRACE_MAGIC, there < 8 ? there : 8) != 0) {
    looks = kvl_lines_looks_like((const char *)prefix, there);
    if (!looks && (prefix[0] == '{' || prefix[0] == '['))
      looks = "JSON";
    if (!looks && there >= 6 && memcmp(prefix, "trace,", 6) == 0)
      looks = "an agent workload";
    return kvl_err_set(err, -EINVAL, "%s: not a selection trace%s%s", t->path, looks ? ": looks like " : "", looks ? looks : "");
  }
  if (there < KVL_TRACE_PREFIX_BYTES)
    return kvl_err_set(err, -ENODATA, "%s: cut off in its header, at byte %zu", t->path, there);
  version = kvl_get32(prefix + 8);
  body = kvl_get32(prefix + 12);
  if (version > KVL_TRACE_VERSION && version < 1000)
    return kvl_err_set(err, -EINVAL, "%s: the trace is of version %u; this program reads versions up to %d: a newer kvloan is needed", t->path,
                       version, KVL_TRACE_VERSION);
  if (version != KVL_TRACE_VERSION)
    return kvl_err_set(err, -EINVAL, "%s: header, byte 8: there is no version %u", t->path, version);
  if (body > KVL_TRACE_BODY_MAX)
    return kvl_err_set(err, -EINVAL, "%s: header, byte 12: %u bytes are more than a header has", t->path, body);
  count = KVL_TRACE_PREFIX_BYTES + (size_t)body + KVL_TRACE_SUM_BYTES;
  if (count > t->totals.file_bytes)
    return kvl_err_set(err, -ENODATA, "%s: cut off in its header, at byte %llu", t->path, (unsigned long long)t->totals.file_bytes);
  bytes = malloc(count);
  if (!bytes)
    return kvl_err_set(err, -ENOMEM, "%s: no memory", t->path);
  code = read_at(t, bytes, count, 0, err);
  if (code == 0 && kvl_get64(bytes + count - KVL_TRACE_SUM_BYTES) != kvl_trace_sum(bytes, count - KVL_TRACE_SUM_BYTES))
    code = kvl_err_set(err, -EBADMSG, "%s: header, bytes 0 to %zu: the checksum differs; the file is damaged", t->path, count - 1);
  if (code == 0) {
    wrong = kvl_trace_header_read(bytes + KVL_TRACE_PREFIX_BYTES, body, &t->meta);
    if (wrong)
      code = kvl_err_set(err, -EINVAL, "%s: header: %s", t->path, wrong);
  }
  free(bytes);
  t->chunks_begin = count;
  return code;
}

static int read_footer(struct kvl_trace *t, uint64_t *index_bytes, struct kvl_err *err)
{
  uint8_t bytes[KVL_TRACE_FOOTER_BYTES];
  uint64_t size = t->totals.file_bytes, at;
  int code;

  if (size < t->chunks_begin + KVL_TRACE_INDEX_HEAD + KVL_TRACE_SUM_BYTES + KVL_TRACE_FOOTER_BYTES)
    return kvl_err_set(err, -ENODATA, "%s: cut off at byte %llu, or never completed: there is no footer", t->path, (unsigned long long)size);
  at = size - KVL_TRACE_FOOTER_BYTES;
  code = read_at(t, bytes, sizeof(bytes), at, err);
  if (code)
    return code;
  if (memcmp(bytes + 32, KVL_TRACE_END_MAGIC, 8) != 0)
    return kvl_err_set(err, -ENODATA, "%s: cut off at byte %llu, or never completed: there is no footer", t->path, (unsigned long long)size);
  if (kvl_get64(bytes + 24) != kvl_trace_sum(bytes, 24))
    return kvl_err_set(err, -EBADMSG, "%s: footer, bytes %llu to %llu: the checksum differs; the file is damaged", t->path,
                       (unsigned long long)at, (unsigned long long)size - 1);
  t->index_offset = kvl_get64(bytes);
  *index_bytes = kvl_get64(bytes + 8);
  if (kvl_get32(bytes + 16) != KVL_TRACE_VERSION || kvl_get32(bytes + 20) != 0)
    return kvl_err_set(err, -EINVAL, "%s: footer, byte %llu: the version is not that of the header", t->path, (unsigned long long)at + 16);
  if (t->index_offset < t->chunks_begin || t->index_offset > at || *index_bytes != at - t->index_offset ||
      *index_bytes < KVL_TRACE_INDEX_HEAD + KVL_TRACE_SUM_BYTES)
    return kvl_err_set(err, -EINVAL, "%s: footer, byte %llu: the index does not end where the footer begins: bytes are missing or too many",
                       t->path, (unsigned long long)at);
  return 0;
}

static int by_offset(const void *a, const void *b)
{
  uint64_t x = ((const struct kvl_trace_entry *)a)->offset, y = ((const struct kvl_trace_entry *)b)->offset;
  return (x > y) - (x < y);
}

/* Do the chunks follow one another from the header to the index? */
static int check_cover(const struct kvl_trace *t, struct kvl_err *err)
{
  uint32_t count = t->totals.chunks;
  struct kvl_trace_entry *sorted = malloc((count + 1) * sizeof(*sorted));
  uint64_t at = t->chunks_begin;
  int code = 0;
  if (!sorted)
    return kvl_err_set(err, -ENOMEM, "%s: no memory", t->path);
  memcpy(sorted, t->entry, count * sizeof(*sorted));
  qsort(sorted, count, sizeof(*sorted), by_offset);
  for (uint32_t i = 0; code == 0 && i < count; i++) {
    if (sorted[i].offset != at)
      code = kvl_err_set(err, -EINVAL, "%s: index: no chunk begins at byte %llu, where one must", t->path, (unsigned long long)at);
    at += KVL_TRACE_CHUNK_HEAD + (uint64_t)sorted[i].packed_bytes + KVL_TRACE_SUM_BYTES;
  }
  if (code == 0 && at != t->index_offset)
    code = kvl_err_set(err, -EINVAL, "%s: index: the chunks end at byte %llu, the index begins at %llu", t->path, (unsigned long long)at,
                       (unsigned long long)t->index_offset);
  free(sorted);
  return code;
}

/* Fills sessions and entries; checks that the chunks of each session are its steps, one after the other. */
static int parse_index(struct kvl_trace *t, const uint8_t *bytes, struct kvl_err *err)
{
  const uint8_t *p = bytes + KVL_TRACE_INDEX_HEAD;
  uint32_t chunk = 0;

  for (uint32_t i = 0; i < t->totals.chunks; i++) {
    const uint8_t *q = p + (size_t)t->totals.sessions * KVL_TRACE_SESSION_BYTES + (size_t)i * KVL_TRACE_ENTRY_BYTES;
    struct kvl_trace_entry *e = &t->entry[i];
    *e = (struct kvl_trace_entry){kvl_get64(q),      kvl_get32(q + 8),  kvl_get32(q + 12), kvl_get32(q + 16),
                                  kvl_get32(q + 20), kvl_get32(q + 24), kvl_get32(q + 28)};
    if (e->steps == 0 || e->steps > KVL_TRACE_CHUNK_STEPS || e->items > KVL_TRACE_CHUNK_ITEMS_MAX || e->raw_bytes > KVL_TRACE_CHUNK_RAW_MAX ||
        e->packed_bytes > ZSTD_compressBound(KVL_TRACE_CHUNK_RAW_MAX))
      return kvl_err_set(err, -EINVAL, "%s: index: chunk %u has impossible sizes", t->path, i);
    t->totals.items += e->items;
    t->totals.raw_bytes += e->raw_bytes;
    t->totals.packed_bytes += e->packed_bytes;
  }
  for (uint32_t i = 0; i < t->totals.sessions; i++, p += KVL_TRACE_SESSION_BYTES) {
    struct kvl_trace_session *s = &t->session[i];
    uint32_t step = 0;
    uint64_t items = 0;
    *s = (struct kvl_trace_session){kvl_get32(p),      kvl_get32(p + 4),  kvl_get32(p + 8),
                                    kvl_get32(p + 12), kvl_get32(p + 16), kvl_get64(p + 20)};
    if (s->steps == 0 || s->steps > KVL_TRACE_STEPS_MAX || s->input_tokens > KVL_TRACE_TOKENS_MAX || s->queries_max == 0 ||
        s->queries_max > KVL_TRACE_QUERIES_MAX)
      return kvl_err_set(err, -EINVAL, "%s: index: session %u has impossible numbers", t->path, i);
    if (s->first_chunk != chunk || s->chunks > t->totals.chunks - chunk)
      return kvl_err_set(err, -EINVAL, "%s: index: the chunks of session %u are not where they must be", t->path, i);
    for (uint32_t end = chunk + s->chunks; chunk < end; chunk++) {
      const struct kvl_trace_entry *e = &t->entry[chunk];
      if (e->session != i || e->first_step != step)
        return kvl_err_set(err, -EINVAL, "%s: index: step %u of session %u is missing", t->path, step, i);
      step += e->steps;
      items += e->items;
    }
    if (step != s->steps || items != s->items)
      return kvl_err_set(err, -EINVAL, "%s: index: session %u has %u steps, its chunks %u", t->path, i, s->steps, step);
    t->totals.steps += s->steps;
    t->totals.queries_max = s->queries_max > t->totals.queries_max ? s->queries_max : t->totals.queries_max;
  }
  if (chunk != t->totals.chunks)
    return kvl_err_set(err, -EINVAL, "%s: index: chunk %u belongs to no session", t->path, chunk);
  return check_cover(t, err);
}

static int read_index(struct kvl_trace *t, uint64_t index_bytes, struct kvl_err *err)
{
  uint8_t head[KVL_TRACE_INDEX_HEAD], *bytes;
  uint64_t expected;
  int code = read_at(t, head, sizeof(head), t->index_offset, err);

  if (code)
    return code;
  t->totals.sessions = kvl_get32(head + 4);
  t->totals.chunks = kvl_get32(head + 8);
  expected = KVL_TRACE_INDEX_HEAD + (uint64_t)t->totals.sessions * KVL_TRACE_SESSION_BYTES +
             (uint64_t)t->totals.chunks * KVL_TRACE_ENTRY_BYTES + KVL_TRACE_SUM_BYTES;
  if (kvl_get32(head) != KVL_TRACE_INDEX_MAGIC || expected != index_bytes || t->totals.sessions == 0 ||
      t->totals.sessions > KVL_TRACE_SESSIONS_MAX || t->totals.chunks > KVL_TRACE_CHUNKS_MAX)
    return kvl_err_set(err, -EBADMSG, "%s: index, byte %llu: it does not begin as an index of its length must; the file is damaged", t->path,
                       (unsigned long long)t->index_offset);
  bytes = malloc((size_t)index_bytes);
  t->session = calloc(t->totals.sessions, sizeof(*t->session));
  t->entry = calloc((size_t)t->totals.chunks + 1, sizeof(*t->entry));
  if (!bytes || !t->session || !t->entry) {
    free(bytes);
    return kvl_err_set(err, -ENOMEM, "%s: no memory for the index", t->path);
  }
  code = read_at(t, bytes, (size_t)index_bytes, t->index_offset, err);
  if (code == 0 && kvl_get64(bytes + index_bytes - KVL_TRACE_SUM_BYTES) != kvl_trace_sum(bytes, (size_t)index_bytes - KVL_TRACE_SUM_BYTES))
    code = kvl_err_set(err, -EBADMSG, "%s: index, bytes %llu to %llu: the checksum differs; the file is damaged", t->path,
                       (unsigned long long)t->index_offset, (unsigned long long)(t->index_offset + index_bytes - 1));
  if (code == 0)
    code = parse_index(t, bytes, err);
  free(bytes);
  return code;
}

int kvl_trace_open(struct kvl_trace **trace, const char *path, struct kvl_err *err)
{
  struct kvl_trace *t = calloc(1, sizeof(*t));
  struct stat status;
  uint64_t index_bytes = 0;
  int code;

  *trace = NULL;
  if (!t)
    return kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  t->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below, not waited for */
  t->path = malloc(strlen(path) + 1);
  if (t->fd < 0) {
    code = -errno;
    kvl_err_set(err, code, "%s: %s", path, strerror(-code));
  } else if (!t->path) {
    code = kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  } else if (fstat(t->fd, &status) != 0) {
    code = -errno;
    kvl_err_set(err, code, "%s: %s", path, strerror(-code));
  } else if (!S_ISREG(status.st_mode)) {
    code = kvl_err_set(err, S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL, "%s: is %s; a trace must be a file", path,
                       S_ISDIR(status.st_mode) ? "a folder" : "a pipe or a device");
  } else {
    memcpy(t->path, path, strlen(path) + 1);
    t->totals.file_bytes = (uint64_t)status.st_size;
    code = read_header(t, err);
    if (code == 0)
      code = read_footer(t, &index_bytes, err);
    if (code == 0)
      code = read_index(t, index_bytes, err);
  }
  if (code) {
    kvl_trace_close(t);
    return code;
  }
  *trace = t;
  return 0;
}

void kvl_trace_close(struct kvl_trace *t)
{
  if (!t)
    return;
  if (t->fd >= 0)
    close(t->fd);
  kvl_trace_chunk_free(t->chunk);
  free(t->list);
  free(t->entry);
  free(t->session);
  free(t->path);
  free(t);
}

const char *kvl_trace_path(const struct kvl_trace *t)
{
  return t->path;
}

const struct kvl_trace_meta *kvl_trace_meta_of(const struct kvl_trace *t)
{
  return &t->meta;
}

const struct kvl_trace_session *kvl_trace_session_of(const struct kvl_trace *t, uint32_t session)
{
  return session < t->totals.sessions ? &t->session[session] : NULL;
}

void kvl_trace_totals_of(const struct kvl_trace *t, struct kvl_trace_totals *totals)
{
  *totals = t->totals;
}

static int chunk_wrong(const struct kvl_trace *t, uint32_t index, int code, const char *what, struct kvl_err *err)
{
  const struct kvl_trace_entry *e = &t->entry[index];
  return kvl_err_set(err, code, "%s: chunk %u (session %u, steps %u to %u), byte %llu: %s", t->path, index, e->session, e->first_step,
                     e->first_step + e->steps - 1, (unsigned long long)e->offset, what);
}

/* Reads a whole chunk and checks its checksum; *bytes is to be freed. */
static int chunk_read(const struct kvl_trace *t, uint32_t index, uint8_t **bytes, struct kvl_err *err)
{
  const struct kvl_trace_entry *e = &t->entry[index];
  size_t count = KVL_TRACE_CHUNK_HEAD + (size_t)e->packed_bytes + KVL_TRACE_SUM_BYTES;
  const char *wrong;
  int code;
  *bytes = malloc(count);
  if (!*bytes)
    return chunk_wrong(t, index, -ENOMEM, "no memory to read it", err);
  code = read_at(t, *bytes, count, e->offset, err);
  if (code == 0) {
    wrong = kvl_trace_chunk_wrong(*bytes, e);
    if (wrong)
      code = chunk_wrong(t, index, -EBADMSG, wrong, err);
  }
  if (code) {
    free(*bytes);
    *bytes = NULL;
  }
  return code;
}

int kvl_trace_chunk_load(const struct kvl_trace *t, uint32_t index, struct kvl_trace_chunk **chunk, struct kvl_err *err)
{
  const struct kvl_trace_entry *e = &t->entry[index];
  uint8_t *packed = NULL, *raw;
  size_t got, at;
  const char *reason;
  char what[256];
  int code = chunk_read(t, index, &packed, err);

  *chunk = NULL;
  if (code)
    return code;
  raw = malloc((size_t)e->raw_bytes + 1);
  if (!raw) {
    free(packed);
    return chunk_wrong(t, index, -ENOMEM, "no memory to unpack it", err);
  }
  got = ZSTD_decompress(raw, e->raw_bytes, packed + KVL_TRACE_CHUNK_HEAD, e->packed_bytes);
  free(packed);
  if (ZSTD_isError(got)) {
    snprintf(what, sizeof(what), "cannot be unpacked: %s", ZSTD_getErrorName(got));
    code = chunk_wrong(t, index, -EINVAL, what, err);
  } else if (got != e->raw_bytes) {
    code = chunk_wrong(t, index, -EINVAL, "it unpacks to fewer bytes than it says", err);
  } else {
    code = kvl_trace_decode(chunk, &t->meta, e->steps, e->items, raw, e->raw_bytes, &at, &reason);
    if (code) {
      snprintf(what, sizeof(what), "malformed at byte %zu of what it unpacks to: %s", at, reason);
      code = chunk_wrong(t, index, code, what, err);
    }
  }
  free(raw);
  if (code == 0) {
    (*chunk)->session = e->session;
    (*chunk)->first_step = e->first_step;
    for (uint32_t s = 0; s < e->steps && code == 0; s++) {
      if ((*chunk)->step[s].tokens < t->session[e->session].input_tokens)
        code = chunk_wrong(t, index, -EINVAL, "a step has fewer committed tokens than its session began with", err);
      else if ((*chunk)->step[s].queries > t->session[e->session].queries_max)
        code = chunk_wrong(t, index, -EINVAL, "a step has more queries than the index says", err);
    }
    if (code) {
      kvl_trace_chunk_free(*chunk);
      *chunk = NULL;
    }
  }
  return code;
}

uint32_t kvl_trace_chunk_of(const struct kvl_trace *t, uint32_t session, uint32_t step)
{
  uint32_t low = t->session[session].first_chunk, high = low + t->session[session].chunks - 1;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (t->entry[middle].first_step <= step)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

int kvl_trace_seek(struct kvl_trace *t, uint32_t session, uint32_t step, struct kvl_err *err)
{
  if (session >= t->totals.sessions)
    return kvl_err_set(err, -ERANGE, "%s: there is no session %u; the last is %u", t->path, session, t->totals.sessions - 1);
  if (step >= t->session[session].steps)
    return kvl_err_set(err, -ERANGE, "%s: there is no step %u in session %u; the last is %u", t->path, step, session,
                       t->session[session].steps - 1);
  t->next_session = session;
  t->next_step = step;
  return 0;
}

int kvl_trace_next(struct kvl_trace *t, struct kvl_trace_step *step, uint32_t *session, uint32_t *index, struct kvl_err *err)
{
  const struct kvl_trace_chunk *c = t->chunk;
  const struct kvl_trace_chunk_step *s;
  uint32_t lists;

  if (t->next_session == t->totals.sessions)
    return 0;
  if (!c || c->session != t->next_session || t->next_step < c->first_step || t->next_step - c->first_step >= c->steps) {
    uint32_t wanted = kvl_trace_chunk_of(t, t->next_session, t->next_step);
    bool follows = c && c->session == t->next_session && c->first_step + c->steps == t->next_step;
    uint32_t tokens = follows ? c->step[c->steps - 1].tokens : 0;
    int code;
    kvl_trace_chunk_free(t->chunk);
    t->chunk = NULL;
    code = kvl_trace_chunk_load(t, wanted, &t->chunk, err);
    if (code)
      return code;
    c = t->chunk;
    if (c->step[0].tokens < tokens)
      return chunk_wrong(t, wanted, -EINVAL, "it begins with fewer committed tokens than the chunk before ended with", err);
  }
  s = &c->step[t->next_step - c->first_step];
  lists = s->queries * (c->points + (s->has_pools ? c->pools : 0));
  if (lists > t->list_capacity) {
    struct kvl_trace_list *grown = realloc(t->list, lists * sizeof(*grown));
    if (!grown)
      return kvl_err_set(err, -ENOMEM, "%s: no memory", t->path);
    t->list = grown;
    t->list_capacity = lists;
  }
  for (uint32_t i = 0; i < lists; i++)
    t->list[i].count = kvl_trace_chunk_list(c, s->list + i, &t->list[i].item);
  step->tokens = s->tokens;
  step->queries = s->queries;
  step->boundary = s->has_boundary ? c->boundary + s->boundary : NULL;
  step->selected = t->list;
  step->pool = s->has_pools ? t->list + (size_t)s->queries * c->points : NULL;
  if (session)
    *session = t->next_session;
  if (index)
    *index = t->next_step;
  if (++t->next_step == t->session[t->next_session].steps) {
    t->next_session++;
    t->next_step = 0;
  }
  return 1;
}

int kvl_trace_check_sums(const struct kvl_trace *t, struct kvl_err *err)
{
  for (uint32_t i = 0; i < t->totals.chunks; i++) {
    uint8_t *bytes;
    int code = chunk_read(t, i, &bytes, err);
    if (code)
      return code;
    free(bytes);
  }
  return 0;
}

/* Hashes 32-bit numbers as little-endian bytes, on any machine. */
static void hash_words(XXH64_state_t *hash, const void *words, size_t count)
{
  const uint32_t *word = words;
  uint8_t bytes[1024];
  while (count > 0) {
    size_t n = count < sizeof(bytes) / 4 ? count : sizeof(bytes) / 4;
    for (size_t i = 0; i < n; i++)
      kvl_put32(bytes + 4 * i, word[i]);
    XXH64_update(hash, bytes, 4 * n);
    word += n;
    count -= n;
  }
}

static void hash_step(XXH64_state_t *hash, const struct kvl_trace_meta *meta, const struct kvl_trace_step *step, uint32_t session, uint32_t index)
{
  uint32_t head[5] = {session, index, step->tokens, step->queries, (step->boundary ? 1u : 0u) | (step->pool ? 2u : 0u)};
  hash_words(hash, head, 5);
  if (step->boundary)
    hash_words(hash, step->boundary, step->queries);
  for (uint32_t i = 0; i < meta->shape.points * step->queries; i++) {
    hash_words(hash, &step->selected[i].count, 1);
    hash_words(hash, step->selected[i].item, step->selected[i].count);
  }
  for (uint32_t i = 0; step->pool && i < meta->pools * step->queries; i++) {
    hash_words(hash, &step->pool[i].count, 1);
    hash_words(hash, step->pool[i].item, step->pool[i].count);
  }
}

int kvl_trace_check(struct kvl_trace *t, uint64_t *digest, struct kvl_err *err)
{
  XXH64_state_t *hash = XXH64_createState();
  uint8_t *header = malloc(KVL_TRACE_PREFIX_BYTES + KVL_TRACE_BODY_MAX + KVL_TRACE_SUM_BYTES);
  struct kvl_trace_step step;
  uint32_t session, index;
  int code = 0;

  if (!hash || !header) {
    code = kvl_err_set(err, -ENOMEM, "%s: no memory", t->path);
  } else {
    XXH64_reset(hash, 0);
    XXH64_update(hash, header, kvl_trace_header_write(header, &t->meta));
    for (uint32_t i = 0; i < t->totals.sessions; i++)
      hash_words(hash, &t->session[i].input_tokens, 1);
    code = kvl_trace_seek(t, 0, 0, err);
    while (code == 0) {
      code = kvl_trace_next(t, &step, &session, &index, err);
      if (code <= 0)
        break;
      hash_step(hash, &t->meta, &step, session, index);
      code = 0;
    }
    if (code == 0) {
      if (digest)
        *digest = XXH64_digest(hash);
      code = kvl_trace_seek(t, 0, 0, err);
    }
  }
  free(header);
  XXH64_freeState(hash);
  return code;
}
