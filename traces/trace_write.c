/* Writing a trace: a chunk is one write; nothing stands under the final name before the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "traces/grow.h"
#include "traces/trace_codec.h"

enum { ZSTD_LEVEL = 3 };

struct session {
  uint32_t input_tokens, steps, queries_max, last_tokens;
  uint64_t items;
  uint32_t chunk_first_step;
  struct kvl_trace_encoder *encoder; /* NULL once ended */
};

struct kvl_trace_writer {
  struct kvl_trace_meta meta;
  int fd;
  char *path, *partial; /* partial NULL: `path` itself is written */
  uint64_t offset;
  bool failed;
  struct session *session;
  uint32_t sessions;
  size_t session_capacity;
  struct kvl_trace_entry *entry;
  uint32_t entries;
  size_t entry_capacity;
  uint8_t *packed;
  size_t packed_capacity;
  ZSTD_CCtx *zstd;
};

static int fail(struct kvl_trace_writer *w, struct kvl_err *err, int code, const char *what)
{
  w->failed = true;
  return kvl_err_set(err, code, "%s: %s", w->path, what);
}

static int write_all(struct kvl_trace_writer *w, const void *bytes, size_t count, struct kvl_err *err)
{
  const char *p = bytes;
  while (count > 0) {
    ssize_t n = write(w->fd, p, count);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      int code = errno;
      w->failed = true;
      return kvl_err_set(err, -code, "%s: cannot be written, at byte %llu: %s", w->path, (unsigned long long)w->offset, strerror(code));
    }
    p += n;
    count -= (size_t)n;
    w->offset += (uint64_t)n;
  }
  return 0;
}

/* Opens the file beside the final one, or the final one itself where renaming over it would destroy a device. */
static int open_output(struct kvl_trace_writer *w, struct kvl_err *err)
{
  struct stat status;
  int code;
  if (stat(w->path, &status) == 0 && S_ISDIR(status.st_mode))
    return kvl_err_set(err, -EISDIR, "%s: is a folder, not a file", w->path);
  if (stat(w->path, &status) == 0 && !S_ISREG(status.st_mode)) {
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
  } else {
    size_t length = strlen(w->path) + 40;
    w->partial = malloc(length);
    if (!w->partial)
      return kvl_err_set(err, -ENOMEM, "%s: no memory", w->path);
    for (unsigned attempt = 0; attempt < 1000; attempt++) { /* others may write the same trace, or have died doing so */
      snprintf(w->partial, length, "%s.partial-%ld-%u", w->path, (long)getpid(), attempt);
      w->fd = open(w->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (w->fd >= 0 || errno != EEXIST)
        break;
    }
  }
  if (w->fd < 0) {
    code = errno;
    free(w->partial);
    w->partial = NULL;
    return kvl_err_set(err, -code, "%s: cannot be made: %s", w->path, strerror(code));
  }
  return 0;
}

int kvl_trace_writer_create(struct kvl_trace_writer **writer, const char *path, const struct kvl_trace_meta *meta, struct kvl_err *err)
{
  struct kvl_trace_writer *w;
  uint8_t *header;
  const char *wrong = kvl_trace_meta_wrong(meta);
  int code;

  *writer = NULL;
  if (wrong)
    return kvl_err_set(err, -EINVAL, "%s: %s", path, wrong);
  w = calloc(1, sizeof(*w));
  if (!w)
    return kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  w->meta = *meta;
  w->fd = -1;
  w->path = malloc(strlen(path) + 1);
  w->zstd = ZSTD_createCCtx();
  header = malloc(KVL_TRACE_PREFIX_BYTES + KVL_TRACE_BODY_MAX + KVL_TRACE_SUM_BYTES);
  if (!w->path || !w->zstd || !header) {
    code = kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  } else {
    memcpy(w->path, path, strlen(path) + 1);
    code = open_output(w, err);
  }
  if (code == 0)
    code = write_all(w, header, kvl_trace_header_write(header, meta), err);
  free(header);
  if (code) {
    kvl_trace_writer_abort(w);
    return code;
  }
  *writer = w;
  return 0;
}

void kvl_trace_writer_abort(struct kvl_trace_writer *w)
{
  if (!w)
    return;
  if (w->fd >= 0)
    close(w->fd);
  if (w->partial && w->fd >= 0)
    unlink(w->partial);
  for (uint32_t i = 0; i < w->sessions; i++) {
    if (w->session[i].encoder)
      kvl_trace_encoder_deinit(w->session[i].encoder);
    free(w->session[i].encoder);
  }
  ZSTD_freeCCtx(w->zstd);
  free(w->packed);
  free(w->entry);
  free(w->session);
  free(w->partial);
  free(w->path);
  free(w);
}

int kvl_trace_writer_begin(struct kvl_trace_writer *w, uint32_t input_tokens, uint32_t *session, struct kvl_err *err)
{
  void *array = w->session;
  struct session *s;
  if (w->failed)
    return fail(w, err, -EINVAL, "writing has failed before");
  if (w->sessions == KVL_TRACE_SESSIONS_MAX)
    return fail(w, err, -EFBIG, "more sessions than a trace may have");
  if (input_tokens > KVL_TRACE_TOKENS_MAX)
    return fail(w, err, -EFBIG, "more tokens than a session may have");
  if (kvl_grow(&array, &w->session_capacity, (size_t)w->sessions + 1, sizeof(*w->session)))
    return fail(w, err, -ENOMEM, "no memory");
  w->session = array;
  s = &w->session[w->sessions];
  *s = (struct session){.input_tokens = input_tokens, .last_tokens = input_tokens};
  s->encoder = malloc(sizeof(*s->encoder));
  if (!s->encoder || kvl_trace_encoder_init(s->encoder, &w->meta)) {
    free(s->encoder);
    return fail(w, err, -ENOMEM, "no memory");
  }
  *session = w->sessions++;
  return 0;
}

static int flush_chunk(struct kvl_trace_writer *w, uint32_t session, struct kvl_err *err)
{
  struct session *s = &w->session[session];
  struct kvl_trace_encoder *e = s->encoder;
  struct kvl_trace_entry *entry;
  void *array = w->entry;
  size_t bound = ZSTD_compressBound(e->count), packed;

  if (e->steps == 0)
    return 0;
  if (w->entries == KVL_TRACE_CHUNKS_MAX)
    return fail(w, err, -EFBIG, "more chunks than a trace may have");
  if (kvl_grow(&array, &w->entry_capacity, (size_t)w->entries + 1, sizeof(*w->entry)))
    return fail(w, err, -ENOMEM, "no memory");
  w->entry = array;
  if (w->packed_capacity < KVL_TRACE_CHUNK_HEAD + bound + KVL_TRACE_SUM_BYTES) {
    uint8_t *grown = realloc(w->packed, KVL_TRACE_CHUNK_HEAD + bound + KVL_TRACE_SUM_BYTES);
    if (!grown)
      return fail(w, err, -ENOMEM, "no memory");
    w->packed = grown;
    w->packed_capacity = KVL_TRACE_CHUNK_HEAD + bound + KVL_TRACE_SUM_BYTES;
  }
  packed = ZSTD_compressCCtx(w->zstd, w->packed + KVL_TRACE_CHUNK_HEAD, bound, e->bytes, e->count, ZSTD_LEVEL);
  if (ZSTD_isError(packed))
    return fail(w, err, -ENOMEM, ZSTD_getErrorName(packed));
  entry = &w->entry[w->entries++];
  *entry = (struct kvl_trace_entry){
    .offset = w->offset,
    .session = session,
    .first_step = s->chunk_first_step,
    .steps = e->steps,
    .items = e->items,
    .raw_bytes = (uint32_t)e->count,
    .packed_bytes = (uint32_t)packed,
  };
  kvl_trace_chunk_seal(w->packed, entry);
  s->items += e->items;
  s->chunk_first_step += e->steps;
  kvl_trace_encoder_reset(e);
  return write_all(w, w->packed, KVL_TRACE_CHUNK_HEAD + packed + KVL_TRACE_SUM_BYTES, err);
}

int kvl_trace_writer_step(struct kvl_trace_writer *w, uint32_t session, const struct kvl_trace_step *step, struct kvl_err *err)
{
  struct session *s;
  char reason[256];
  int code;

  if (w->failed)
    return fail(w, err, -EINVAL, "writing has failed before");
  if (session >= w->sessions || !w->session[session].encoder)
    return fail(w, err, -EINVAL, "a step of a session that is not open");
  s = &w->session[session];
  if (s->steps == KVL_TRACE_STEPS_MAX)
    return fail(w, err, -EFBIG, "more steps than a session may have");
  snprintf(reason, sizeof(reason), "no memory");
  if (step->tokens < s->last_tokens) {
    snprintf(reason, sizeof(reason), "%u committed tokens, %u before", step->tokens, s->last_tokens);
    code = -EINVAL;
  } else {
    code = kvl_trace_encoder_add(s->encoder, step, reason);
  }
  if (code) {
    w->failed = true;
    return kvl_err_set(err, code, "%s: session %u, step %u: %s", w->path, session, s->steps, reason);
  }
  s->steps++;
  s->last_tokens = step->tokens;
  s->queries_max = step->queries > s->queries_max ? step->queries : s->queries_max;
  if (s->encoder->items >= KVL_TRACE_CHUNK_ITEMS || s->encoder->steps >= KVL_TRACE_CHUNK_STEPS)
    return flush_chunk(w, session, err);
  return 0;
}

int kvl_trace_writer_end(struct kvl_trace_writer *w, uint32_t session, struct kvl_err *err)
{
  struct session *s;
  int code;
  if (w->failed)
    return fail(w, err, -EINVAL, "writing has failed before");
  if (session >= w->sessions || !w->session[session].encoder)
    return fail(w, err, -EINVAL, "the end of a session that is not open");
  s = &w->session[session];
  if (s->steps == 0)
    return fail(w, err, -EINVAL, "a session without steps");
  code = flush_chunk(w, session, err);
  kvl_trace_encoder_deinit(s->encoder);
  free(s->encoder);
  s->encoder = NULL;
  return code;
}

static int by_session(const void *a, const void *b)
{
  const struct kvl_trace_entry *x = a, *y = b;
  if (x->session != y->session)
    return x->session < y->session ? -1 : 1;
  return (x->first_step > y->first_step) - (x->first_step < y->first_step);
}

static int write_index(struct kvl_trace_writer *w, struct kvl_err *err)
{
  size_t count = KVL_TRACE_INDEX_HEAD + (size_t)w->sessions * KVL_TRACE_SESSION_BYTES + (size_t)w->entries * KVL_TRACE_ENTRY_BYTES;
  uint8_t *bytes = malloc(count + KVL_TRACE_SUM_BYTES + KVL_TRACE_FOOTER_BYTES), *p = bytes;
  uint64_t index_offset = w->offset;
  uint32_t at = 0;
  int code;

  if (!bytes)
    return fail(w, err, -ENOMEM, "no memory");
  if (w->entries > 0)
    qsort(w->entry, w->entries, sizeof(*w->entry), by_session);
  kvl_put32(p, KVL_TRACE_INDEX_MAGIC);
  kvl_put32(p + 4, w->sessions);
  kvl_put32(p + 8, w->entries);
  p += KVL_TRACE_INDEX_HEAD;
  for (uint32_t i = 0; i < w->sessions; i++, p += KVL_TRACE_SESSION_BYTES) {
    const struct session *s = &w->session[i];
    uint32_t first = at;
    while (at < w->entries && w->entry[at].session == i)
      at++;
    kvl_put32(p, s->input_tokens);
    kvl_put32(p + 4, s->steps);
    kvl_put32(p + 8, s->queries_max);
    kvl_put32(p + 12, first);
    kvl_put32(p + 16, at - first);
    kvl_put64(p + 20, s->items);
  }
  for (uint32_t i = 0; i < w->entries; i++, p += KVL_TRACE_ENTRY_BYTES) {
    const struct kvl_trace_entry *e = &w->entry[i];
    kvl_put64(p, e->offset);
    kvl_put32(p + 8, e->session);
    kvl_put32(p + 12, e->first_step);
    kvl_put32(p + 16, e->steps);
    kvl_put32(p + 20, e->items);
    kvl_put32(p + 24, e->raw_bytes);
    kvl_put32(p + 28, e->packed_bytes);
  }
  kvl_put64(p, kvl_trace_sum(bytes, count));
  p += KVL_TRACE_SUM_BYTES;
  kvl_put64(p, index_offset);
  kvl_put64(p + 8, count + KVL_TRACE_SUM_BYTES);
  kvl_put32(p + 16, KVL_TRACE_VERSION);
  kvl_put32(p + 20, 0);
  kvl_put64(p + 24, kvl_trace_sum(p, 24));
  memcpy(p + 32, KVL_TRACE_END_MAGIC, 8);
  code = write_all(w, bytes, count + KVL_TRACE_SUM_BYTES + KVL_TRACE_FOOTER_BYTES, err);
  free(bytes);
  return code;
}

/* Makes a rename last: the folder's entry is synced too. Best effort: some file systems do not let a folder be synced. */
static void sync_folder(const char *path)
{
  char folder[4096];
  const char *slash = strrchr(path, '/');
  int fd;
  snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
  fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
}

int kvl_trace_writer_finish(struct kvl_trace_writer *w, struct kvl_err *err)
{
  int code = w->failed ? fail(w, err, -EINVAL, "writing has failed before") : 0, fd;

  if (code == 0 && w->sessions == 0)
    code = fail(w, err, -EINVAL, "a trace without sessions");
  for (uint32_t i = 0; code == 0 && i < w->sessions; i++) {
    if (w->session[i].encoder)
      code = kvl_trace_writer_end(w, i, err);
  }
  if (code == 0)
    code = write_index(w, err);
  if (code == 0 && w->partial && fsync(w->fd) != 0) {
    code = -errno;
    kvl_err_set(err, code, "%s: cannot be written: %s", w->path, strerror(-code));
  }
  if (code == 0) {
    fd = w->fd;
    if (close(fd) != 0) { /* some file systems say only now that the disk is full */
      code = -errno;
      kvl_err_set(err, code, "%s: cannot be written: %s", w->path, strerror(-code));
      if (w->partial)
        unlink(w->partial);
    }
    w->fd = -1;
  }
  if (code == 0 && w->partial) {
    if (rename(w->partial, w->path) != 0) {
      code = -errno;
      kvl_err_set(err, code, "%s: cannot be put in place: %s", w->path, strerror(-code));
      unlink(w->partial);
    } else {
      sync_folder(w->path);
    }
  }
  kvl_trace_writer_abort(w);
  return code;
}
