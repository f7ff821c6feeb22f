/* The decision log of a run: every call that the engine made of its plane, and what the plane answered when it was asked to wait. With the answers
 * a run is fully determined, so a log recorded on hardware replays on the model plane, line by line. docs/decision-log.md is the format.
 *
 * The lines of calls are written by one function each, for recording and for comparing alike: two runs decided the same if their lines are equal. */
#ifndef KVL_SIM_DECISION_LOG_H
#define KVL_SIM_DECISION_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "backend/plane.h"

enum { KVL_LOG_VERSION = 1, KVL_LOG_LINE_CAP = 2048 }; /* a line of the events, its end included */
#define KVL_LOG_FIRST_LINE "kvloan-log 1"

/* Calls. Each fills `line` (KVL_LOG_LINE_CAP bytes), without a newline. Lists are counts and an XXH64 (seed 0) of their members as little-endian 32-bit words. */
void kvl_log_line_open(char *line, const struct kvl_plane_request *request);
void kvl_log_line_close(char *line, uint32_t gpu, kvl_request slot);
void kvl_log_line_step(char *line, const struct kvl_plane_step *step);
void kvl_log_line_copy(char *line, const struct kvl_plane_copy *copy);
void kvl_log_line_keep(char *line, uint32_t gpu, const struct kvl_move *move);

/* The answer to one wait_until. */
struct kvl_log_wait {
  uint64_t asked_ns; /* UINT64_MAX: as long as it takes */
  uint64_t now_ns;   /* the clock afterwards */
  bool completed;    /* else: nothing until asked_ns */
  enum kvl_completion_kind kind;
  uint32_t gpu;
  uint64_t tag;
  struct kvl_step_result step; /* of a step */
};
void kvl_log_line_wait(char *line, const struct kvl_log_wait *wait);
/* A line (without its newline) back into *wait; false: it is not one. */
bool kvl_log_parse_wait(const char *line, size_t bytes, struct kvl_log_wait *wait);

/* ---- a log that has been read ---- */
struct kvl_log;

/* Reads a whole log and checks that it is one, that it is complete and that nobody changed it since it was written. One line of error with file and line;
 * -ENOENT, -EACCES, -EINVAL (not a log, another version, cut off, changed), -ENOMEM, -EIO. */
int kvl_log_open(struct kvl_log **log, const char *path, struct kvl_err *err);
/* The same from bytes, which are copied; `name` is for messages. */
int kvl_log_parse(struct kvl_log **log, const char *name, const void *bytes, size_t count, struct kvl_err *err);
void kvl_log_free(struct kvl_log *log); /* NULL is fine */

const char *kvl_log_name(const struct kvl_log *log);
const char *kvl_log_plane(const struct kvl_log *log);    /* what it was recorded on */
const char *kvl_log_build(const struct kvl_log *log);
const char *kvl_log_scenario(const struct kvl_log *log); /* JSON, one line */
bool kvl_log_interrupted(const struct kvl_log *log);     /* the run was ended from outside, after its last event */
uint64_t kvl_log_events(const struct kvl_log *log);
uint64_t kvl_log_waits(const struct kvl_log *log);       /* of those, answers to wait_until */

/* The event after `*cursor` (0: the first): its text (not ended by 0), length and line number; false: there is none. */
bool kvl_log_next(const struct kvl_log *log, size_t *cursor, const char **line, size_t *bytes, uint64_t *number);

#endif
