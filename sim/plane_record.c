#include "sim/plane_record.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY /* a state that is a member, not allocated */
#include <xxhash.h>

#include "backend/base/place.h"
#include "sim/decision_log.h"

struct record_plane {
  struct kvl_plane plane;
  struct kvl_plane_ops ops; /* optional ones only where the inner plane has them */
  struct kvl_plane *inner;
  FILE *file;
  char *path, *partial;
  XXH64_state_t hash;
  uint64_t events;
  int failed;               /* first errno of writing; reported by the next call that can */
  char line[KVL_LOG_LINE_CAP];
};

static struct record_plane *of(struct kvl_plane *plane)
{
  return (struct record_plane *)plane;
}

static int status_of(const struct record_plane *r, struct kvl_err *err)
{
  return r->failed == 0 ? 0 : kvl_err_set(err, r->failed, "%s: the log cannot be written: %s", r->path, strerror(-r->failed));
}

static void write_text(struct record_plane *r, const char *text, size_t bytes)
{
  if (r->failed == 0) {
    (void)XXH64_update(&r->hash, text, bytes);
    errno = EIO;
    if (fwrite(text, 1, bytes, r->file) != bytes) {
      r->failed = -errno;
    }
  }
}

/* What is in `line`, as an event. */
static int write_event(struct record_plane *r, struct kvl_err *err)
{
  size_t bytes = strlen(r->line);
  r->line[bytes] = '\n';
  write_text(r, r->line, bytes + 1);
  r->events++;
  return status_of(r, err);
}

static uint64_t record_now(struct kvl_plane *plane)
{
  return of(plane)->inner->ops->now(of(plane)->inner);
}

static int record_request_open(struct kvl_plane *plane, const struct kvl_plane_request *request, struct kvl_err *err)
{
  struct record_plane *r = of(plane);
  kvl_log_line_open(r->line, request);
  int rc = write_event(r, err);
  return rc != 0 ? rc : r->inner->ops->request_open(r->inner, request, err);
}

static void record_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot)
{
  struct record_plane *r = of(plane);
  kvl_log_line_close(r->line, gpu, slot);
  (void)write_event(r, NULL);
  r->inner->ops->request_close(r->inner, gpu, slot);
}

static int record_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct record_plane *r = of(plane);
  int rc = r->inner->ops->step(r->inner, step, err); /* first: on hardware it runs while its line is made */
  kvl_log_line_step(r->line, step);
  return rc != 0 ? rc : write_event(r, err);
}

static int record_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  struct record_plane *r = of(plane);
  int rc = r->inner->ops->copy(r->inner, copy, err);
  kvl_log_line_copy(r->line, copy);
  return rc != 0 ? rc : write_event(r, err);
}

static int record_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  struct record_plane *r = of(plane);
  kvl_log_line_keep(r->line, gpu, move);
  int rc = write_event(r, err);
  return rc != 0 ? rc : r->inner->ops->keep(r->inner, gpu, move, err);
}

static int record_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct record_plane *r = of(plane);
  int rc = r->inner->ops->wait_until(r->inner, time_ns, completion, err);
  if (rc < 0) {
    return rc;
  }
  struct kvl_log_wait wait = {.asked_ns = time_ns, .now_ns = record_now(plane), .completed = rc == 1};
  if (rc == 1) {
    wait.kind = completion->kind;
    wait.gpu = completion->gpu;
    wait.tag = completion->tag;
    if (completion->kind == KVL_DONE_STEP) {
      wait.step = *completion->step;
    }
  }
  kvl_log_line_wait(r->line, &wait);
  int written = write_event(r, err);
  return written != 0 ? written : rc;
}

static void record_point(struct kvl_plane *plane, uint32_t gpu, uint32_t point, struct kvl_plane_point *totals)
{
  of(plane)->inner->ops->point(of(plane)->inner, gpu, point, totals);
}

static uint64_t record_link_busy_ns(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->inner->ops->link_busy_ns(of(plane)->inner, gpu);
}

static uint64_t record_link_bytes(struct kvl_plane *plane, uint32_t gpu)
{
  return of(plane)->inner->ops->link_bytes(of(plane)->inner, gpu);
}

static int record_verify(struct kvl_plane *plane, struct kvl_err *err)
{
  return of(plane)->inner->ops->verify(of(plane)->inner, err);
}

static void record_measured(struct kvl_plane *plane, struct kvl_plane_measured *measured)
{
  of(plane)->inner->ops->measured(of(plane)->inner, measured);
}

static void release(struct record_plane *r)
{
  if (r->file != NULL) {
    (void)fclose(r->file);
    (void)unlink(r->partial);
  }
  free(r->path);
  free(r->partial);
  free(r);
}

static void record_close(struct kvl_plane *plane)
{
  struct kvl_plane *inner = of(plane)->inner;
  inner->ops->close(inner);
  release(of(plane));
}

static const struct kvl_plane_ops record_ops = {
  .close = record_close,
  .now = record_now,
  .request_open = record_request_open,
  .request_close = record_request_close,
  .step = record_step,
  .copy = record_copy,
  .keep = record_keep,
  .wait_until = record_wait_until,
  .point = record_point,
  .link_busy_ns = record_link_busy_ns,
  .link_bytes = record_link_bytes,
};

/* Beside the log, so that the rename stays on one file system. */
static int open_partial(struct record_plane *r)
{
  int fd = mkstemp(r->partial);
  if (fd < 0) {
    return -errno;
  }
  mode_t mask = umask(0);
  (void)umask(mask);
  (void)fchmod(fd, 0666 & ~mask); /* as any file that the user makes */
  r->file = fdopen(fd, "w");
  if (r->file == NULL) {
    int code = -errno;
    (void)close(fd);
    (void)unlink(r->partial);
    return code;
  }
  return 0;
}

int kvl_plane_record_create(struct kvl_plane **plane, struct kvl_plane *inner, const char *path, const char *scenario_json, const char *build,
                            struct kvl_err *err)
{
  struct record_plane *r = calloc(1, sizeof *r);
  size_t bytes = strlen(path);
  if (r != NULL) {
    r->path = malloc(bytes + 1);
    r->partial = malloc(bytes + sizeof ".XXXXXX");
  }
  if (r == NULL || r->path == NULL || r->partial == NULL) {
    if (r != NULL) {
      release(r);
    }
    return kvl_err_set(err, -ENOMEM, "no memory to record the run");
  }
  struct kvl_err why;
  int place = kvl_place_check(path, &why);
  if (place != 0) {
    release(r);
    return kvl_err_set(err, place, "%s: the log cannot be written: %s", path[0] == '\0' ? "--record=" : path, why.text);
  }
  memcpy(r->path, path, bytes + 1);
  memcpy(r->partial, path, bytes);
  memcpy(r->partial + bytes, ".XXXXXX", sizeof ".XXXXXX");
  r->failed = open_partial(r);
  (void)XXH64_reset(&r->hash, 0);
  const char *const header[] = {KVL_LOG_FIRST_LINE "\nplane ", inner->ops->name, "\nbuild ", build, "\nscenario ", scenario_json, "\n"};
  for (uint32_t i = 0; i < sizeof header / sizeof header[0]; i++) {
    write_text(r, header[i], strlen(header[i]));
  }
  if (r->failed != 0) {
    int code = status_of(r, err);
    release(r);
    return code;
  }
  r->ops = record_ops;
  r->ops.name = inner->ops->name; /* whoever asks means the plane that does the work */
  r->ops.verify = inner->ops->verify == NULL ? NULL : record_verify;
  r->ops.measured = inner->ops->measured == NULL ? NULL : record_measured;
  r->plane.ops = &r->ops;
  r->inner = inner;
  *plane = &r->plane;
  return 0;
}

int kvl_plane_record_finish(struct kvl_plane *plane, enum kvl_run_status status, struct kvl_err *err)
{
  struct record_plane *r = of(plane);
  assert(r->file != NULL && (status == KVL_RUN_COMPLETE || status == KVL_RUN_INTERRUPTED));
  int n = snprintf(r->line, sizeof r->line, "end %s %" PRIu64 " %016" PRIx64 "\n", status == KVL_RUN_COMPLETE ? "complete" : "interrupted", r->events,
                   (uint64_t)XXH64_digest(&r->hash));
  write_text(r, r->line, (size_t)n);
  if (r->failed == 0 && (fflush(r->file) != 0 || fsync(fileno(r->file)) != 0)) {
    r->failed = -errno;
  }
  if (r->failed != 0) {
    return status_of(r, err); /* closing removes what was written */
  }
  int closed = fclose(r->file);
  r->file = NULL;
  if (closed != 0 || rename(r->partial, r->path) != 0) {
    r->failed = -errno;
    (void)unlink(r->partial);
  }
  return status_of(r, err);
}
