/* Reading a decision log: the whole file at once, checked before anything is done with it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "sim/decision_log.h"
#include "traces/lines.h"

#define LOG_BYTES_MAX ((uint64_t)4 << 30)

struct kvl_log {
  char *name;
  char *text;                /* the file, ended by 0 */
  size_t bytes;
  char *plane, *build, *scenario; /* each ended by 0, copies */
  size_t events_at, events_end;
  uint64_t first_number;     /* line number of the first event */
  uint64_t events, waits;
  bool interrupted;
};

const char *kvl_log_name(const struct kvl_log *log)
{
  return log->name;
}

const char *kvl_log_plane(const struct kvl_log *log)
{
  return log->plane;
}

const char *kvl_log_build(const struct kvl_log *log)
{
  return log->build;
}

const char *kvl_log_scenario(const struct kvl_log *log)
{
  return log->scenario;
}

bool kvl_log_interrupted(const struct kvl_log *log)
{
  return log->interrupted;
}

uint64_t kvl_log_events(const struct kvl_log *log)
{
  return log->events;
}

uint64_t kvl_log_waits(const struct kvl_log *log)
{
  return log->waits;
}

void kvl_log_free(struct kvl_log *log)
{
  if (log != NULL) {
    free(log->name);
    free(log->text);
    free(log->plane);
    free(log->build);
    free(log->scenario);
    free(log);
  }
}

bool kvl_log_next(const struct kvl_log *log, size_t *cursor, const char **line, size_t *bytes, uint64_t *number)
{
  size_t at = log->events_at + *cursor;
  if (*cursor == 0) {
    *number = log->first_number - 1;
  }
  if (at >= log->events_end) {
    return false;
  }
  const char *end = memchr(log->text + at, '\n', log->events_end - at);
  *line = log->text + at;
  *bytes = (size_t)(end - *line);
  *cursor += *bytes + 1;
  *number += 1;
  return true;
}

static int bad(const struct kvl_log *log, uint64_t number, struct kvl_err *err, const char *what)
{
  return kvl_err_set(err, -EINVAL, "%s:%" PRIu64 ": %s", log->name, number, what);
}

static char *copy_of(const char *text, size_t bytes)
{
  char *copy = malloc(bytes + 1);
  if (copy != NULL) {
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
  }
  return copy;
}

/* Line `number` must be "WORD text"; moves *at behind it. */
static int header(struct kvl_log *log, size_t *at, uint64_t number, const char *word, char **out, struct kvl_err *err)
{
  const char *line = log->text + *at, *end = memchr(line, '\n', log->bytes - *at);
  size_t length = strlen(word);
  if (end == NULL) {
    return bad(log, number, err, "cut off: the log ends here");
  }
  if ((size_t)(end - line) <= length || memcmp(line, word, length) != 0 || line[length] != ' ') {
    return kvl_err_set(err, -EINVAL, "%s:%" PRIu64 ": the line '%s ...' must stand here", log->name, number, word);
  }
  *out = copy_of(line + length + 1, (size_t)(end - line) - length - 1);
  *at = (size_t)(end - log->text) + 1;
  return *out != NULL ? 0 : kvl_err_set(err, -ENOMEM, "%s: no memory for the log", log->name);
}

static bool is_call(const char *line, size_t bytes)
{
  static const char *const words[] = {"open ", "close ", "step ", "copy ", "keep "};
  for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    size_t length = strlen(words[i]);
    if (bytes > length && memcmp(line, words[i], length) == 0) {
      return true;
    }
  }
  return false;
}

/* Last line: "end complete|interrupted EVENTS HASH", the XXH64 of every byte before it. */
static int read_end(struct kvl_log *log, size_t at, uint64_t number, struct kvl_err *err)
{
  char expected[96];
  uint64_t hash = XXH64(log->text, at, 0);
  for (int i = 0; i < 2; i++) {
    int n = snprintf(expected, sizeof expected, "end %s %" PRIu64 " %016" PRIx64 "\n", i == 0 ? "complete" : "interrupted", log->events, hash);
    if (log->bytes - at == (size_t)n && memcmp(log->text + at, expected, (size_t)n) == 0) {
      log->interrupted = i == 1;
      return 0;
    }
  }
  const char *end = memchr(log->text + at, '\n', log->bytes - at);
  if (end != NULL && (size_t)(end - log->text) + 1 < log->bytes) {
    return bad(log, number + 1, err, "lines after the end");
  }
  return bad(log, number, err, end == NULL ? "cut off: the last line has no end" : "the log was changed since it was written (its checksum does not hold)");
}

static int read_events(struct kvl_log *log, size_t at, uint64_t number, struct kvl_err *err)
{
  log->events_at = at;
  log->first_number = number;
  for (; at < log->bytes; number++) {
    const char *line = log->text + at, *end = memchr(line, '\n', log->bytes - at);
    size_t bytes = end == NULL ? log->bytes - at : (size_t)(end - line);
    if (bytes >= 4 && memcmp(line, "end ", 4) == 0) {
      log->events_end = at;
      return read_end(log, at, number, err);
    }
    if (end == NULL) {
      return bad(log, number, err, "cut off: the log ends within a line");
    }
    struct kvl_log_wait wait;
    bool call = is_call(line, bytes);
    if (bytes + 1 > KVL_LOG_LINE_CAP || (!call && !kvl_log_parse_wait(line, bytes, &wait))) {
      return kvl_err_set(err, -EINVAL, "%s:%" PRIu64 ": '%.*s' is not a line of a log", log->name, number, bytes < 80 ? (int)bytes : 80, line);
    }
    log->events++;
    log->waits += !call;
    at += bytes + 1;
  }
  return bad(log, number, err, "cut off: there is no line 'end'");
}

static int parse(struct kvl_log *log, struct kvl_err *err)
{
  static const char first[] = KVL_LOG_FIRST_LINE "\n", magic[] = "kvloan-log ";
  if (log->bytes < sizeof magic - 1 || memcmp(log->text, magic, sizeof magic - 1) != 0) {
    const char *looks = kvl_lines_looks_like(log->text, log->bytes);
    return looks != NULL ? kvl_err_set(err, -EINVAL, "%s: not a decision log: looks like %s", log->name, looks)
                         : bad(log, 1, err, "not a decision log (kvloan run --record=FILE makes one)");
  }
  if (log->bytes < sizeof first - 1 || memcmp(log->text, first, sizeof first - 1) != 0) {
    return kvl_err_set(err, -EINVAL, "%s:1: a decision log of another version; this is version %d", log->name, KVL_LOG_VERSION);
  }
  if (memchr(log->text, '\0', log->bytes) != NULL) {
    return kvl_err_set(err, -EINVAL, "%s: not a text file", log->name);
  }
  size_t at = sizeof first - 1;
  int rc = header(log, &at, 2, "plane", &log->plane, err);
  rc = rc != 0 ? rc : header(log, &at, 3, "build", &log->build, err);
  rc = rc != 0 ? rc : header(log, &at, 4, "scenario", &log->scenario, err);
  return rc != 0 ? rc : read_events(log, at, 5, err);
}

/* Takes `text` over, also when it fails. */
static int parse_text(struct kvl_log **out, const char *name, char *text, size_t bytes, struct kvl_err *err)
{
  struct kvl_log *log = calloc(1, sizeof *log);
  char *copy = copy_of(name, strlen(name));
  if (log == NULL || copy == NULL) {
    free(log);
    free(copy);
    free(text);
    return kvl_err_set(err, -ENOMEM, "%s: no memory for the log", name);
  }
  log->name = copy;
  log->text = text;
  log->bytes = bytes;
  int rc = parse(log, err);
  if (rc != 0) {
    kvl_log_free(log);
    return rc;
  }
  *out = log;
  return 0;
}

int kvl_log_parse(struct kvl_log **log, const char *name, const void *bytes, size_t count, struct kvl_err *err)
{
  char *text = copy_of(count == 0 ? "" : bytes, count);
  return text == NULL ? kvl_err_set(err, -ENOMEM, "%s: no memory for the log", name) : parse_text(log, name, text, count, err);
}

int kvl_log_open(struct kvl_log **log, const char *path, struct kvl_err *err)
{
  struct stat info;
  FILE *file = stat(path, &info) == 0 && !S_ISREG(info.st_mode) ? (errno = EINVAL, NULL) : fopen(path, "rb");
  if (file == NULL) {
    int code = errno == EINVAL || errno == ENOMEM || errno == ENOENT || errno == EACCES ? -errno : -EIO;
    return kvl_err_set(err, code, "%s: cannot read the log: %s", path, code == -EINVAL ? "it is not a plain file" : strerror(errno));
  }
  if (fstat(fileno(file), &info) != 0 || (uint64_t)info.st_size > LOG_BYTES_MAX) {
    (void)fclose(file);
    return kvl_err_set(err, -EINVAL, "%s: cannot read the log: it is larger than 4 GiB", path);
  }
  size_t bytes = (size_t)info.st_size;
  char *text = malloc(bytes + 1);
  size_t got = text == NULL ? 0 : fread(text, 1, bytes, file);
  bool failed = text == NULL || ferror(file) != 0;
  (void)fclose(file);
  if (failed) {
    free(text);
    return text == NULL ? kvl_err_set(err, -ENOMEM, "%s: no memory for a log of %zu bytes", path, bytes)
                        : kvl_err_set(err, -EIO, "%s: cannot read the log", path);
  }
  text[got] = '\0';
  return parse_text(log, path, text, got, err);
}
