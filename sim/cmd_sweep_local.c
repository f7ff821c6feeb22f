/* A sweep on this machine: one process a point, one writer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "results/text.h"
#include "sim/cmd_sweep.h"
#include "sim/run.h"
#include "sim/version.h"

enum { JOBS_MAX = 1024, BUSY_MS = 60000 };

/* What a child says before it ends; its run is in its own store. */
struct report {
  int32_t rc;
  int32_t has_run;
  char reason[1000]; /* with the rest below PIPE_BUF: arrives whole or not at all */
};

struct job {
  pid_t child; /* 0: free */
  int pipe;
  uint32_t task, attempt;
  size_t received;
  struct report report;
};

struct local {
  const struct kvl_sweep *sweep;
  const struct kvl_sweep_call *call;
  struct kvl_store *store;
  char *folder; /* of the children's stores */
  uint8_t *state, *attempts;
  uint32_t tasks, next, running, jobs;
  struct job *job;
  struct timespec started, shown;
  bool any_shown;
  struct kvl_sweep_outcome *out;
};

static double seconds_since(const struct timespec *then)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) * 1e-9;
}

/* ---- the child ---- */

static char *task_store(const struct local *l, uint32_t task)
{
  size_t size = strlen(l->folder) + 40;
  char *path = malloc(size);
  if (path != NULL) {
    (void)snprintf(path, size, "%s/task-%u.db", l->folder, (unsigned)task + 1);
  }
  return path;
}

static int run_task(const struct local *l, uint32_t task, bool *has_run, struct kvl_err *err)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_run_result result = {.run = 0};
  char *path = task_store(l, task), *command = kvl_sweep_command(l->sweep, task);
  int rc = path == NULL || command == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : kvl_sweep_scenario(l->sweep, task, &doc, err);
  if (rc == 0) {
    struct kvl_run_options options = {.plane = l->call->plane, .store = path, .command = command, .threads = l->call->threads,
                                      .check = (enum kvl_check)l->call->check, .verify = l->call->verify};
    rc = kvl_run(doc, &options, &result, err);
  }
  if (rc == 0 && result.mismatches != 0) {
    rc = kvl_err_set(err, -EIO, "%" PRIu64 " of %" PRIu64 " selected rows differ from what they must be", result.mismatches, result.rows_checked);
  }
  *has_run = result.run > 0;
  kvl_scenario_free(doc);
  free(command);
  free(path);
  return rc;
}

static _Noreturn void child(const struct local *l, uint32_t task, int out, pid_t parent)
{
  /* Ctrl-C is for the parent, which then ends its children; TERM and KILL are for whoever means this one. */
  (void)signal(SIGINT, SIG_IGN);
  (void)signal(SIGHUP, SIG_IGN);
  (void)signal(SIGTERM, SIG_DFL);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  struct report report;
  struct kvl_err err = {""};
  bool has_run = false;
  memset(&report, 0, sizeof report);
  report.rc = run_task(l, task, &has_run, &err);
  kvl_sweep_plain_reason(l->sweep, &err);
  report.has_run = has_run;
  (void)snprintf(report.reason, sizeof report.reason, "%.990s", err.text);
  ssize_t written = write(out, &report, sizeof report);
  _exit(written == (ssize_t)sizeof report ? 0 : 1);
}

/* ---- the folder of the children's stores ---- */

static void empty_folder(const char *path)
{
  DIR *dir = opendir(path);
  struct dirent *entry;
  while (dir != NULL && (entry = readdir(dir)) != NULL) {
    char name[PATH_MAX];
    if (strncmp(entry->d_name, "task-", 5) == 0 && snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name) {
      (void)unlink(name);
    }
  }
  if (dir != NULL) {
    (void)closedir(dir);
  }
}

static int make_folder(struct local *l, struct kvl_err *err)
{
  size_t size = strlen(l->call->store) + 80;
  l->folder = malloc(size);
  if (l->folder == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  (void)snprintf(l->folder, size, "%s.tasks-%s-%u-of-%u", l->call->store, l->sweep->hash, (unsigned)l->call->share.index + 1, (unsigned)l->call->share.count);
  if (mkdir(l->folder, 0777) != 0 && errno != EEXIST) {
    return kvl_err_set(err, -errno, "%s: cannot make this folder for the points' own stores: %s", l->folder, strerror(errno));
  }
  empty_folder(l->folder); /* what a killed sweep left; its children died with it */
  return 0;
}

static void remove_store(const struct local *l, uint32_t task)
{
  static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
  char *path = task_store(l, task);
  for (int e = 0; e < 4 && path != NULL; e++) {
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%s%s", path, endings[e]) < (int)sizeof name) {
      (void)unlink(name);
    }
  }
  free(path);
}

/* ---- the parent ---- */

static int record(struct local *l, uint32_t task, const char *reason, bool has_run, struct kvl_err *err)
{
  char *path = has_run ? task_store(l, task) : NULL;
  struct kvl_task_result result = {.task = task, .point = task / l->sweep->repeats, .repeat = task % l->sweep->repeats,
                                   .seed = kvl_sweep_seed(l->sweep, task), .reason = reason, .from = path, .summary_only = l->call->summary_only};
  int rc = has_run && path == NULL ? kvl_err_set(err, -ENOMEM, "out of memory")
                                   : kvl_store_sweep_add(l->store, l->out->sweep, &l->call->share, &result, err);
  if (rc == 0) {
    l->state[task] = reason == NULL ? KVL_TASK_COMPLETE : KVL_TASK_FAILED;
    l->out->ran++;
    *(reason == NULL ? &l->out->complete : &l->out->failed) += 1;
    remove_store(l, task);
  }
  free(path);
  return rc;
}

static int start(struct local *l, struct job *job, uint32_t task, struct kvl_err *err)
{
  int ends[2];
  pid_t parent = getpid();
  remove_store(l, task); /* an attempt that was cut off */
  if (pipe(ends) != 0) {
    return kvl_err_set(err, -errno, "a point cannot be started: %s", strerror(errno));
  }
  (void)fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    (void)close(ends[0]);
    child(l, task, ends[1], parent);
  }
  (void)close(ends[1]);
  if (pid < 0) {
    int code = -errno;
    (void)close(ends[0]);
    return kvl_err_set(err, code, "a point cannot be started: %s", strerror(-code));
  }
  *job = (struct job){.child = pid, .pipe = ends[0], .task = task, .attempt = ++l->attempts[task]};
  l->running++;
  return 0;
}

/* A child has closed its pipe: it has ended, or will at once. */
static int finish(struct local *l, struct job *job, struct kvl_err *err)
{
  int status = 0;
  while (waitpid(job->child, &status, 0) < 0 && errno == EINTR) {
  }
  (void)close(job->pipe);
  uint32_t task = job->task;
  bool whole = job->received == sizeof job->report && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  job->child = 0;
  l->running--;
  if (whole) {
    job->report.reason[sizeof job->report.reason - 1] = '\0';
    if (job->report.rc != 0 && strncmp(job->report.reason, l->folder, strlen(l->folder)) == 0) {
      return kvl_err_set(err, job->report.rc, "%s", job->report.reason); /* its own store: the disk is to blame, not the point */
    }
    return record(l, task, job->report.rc == 0 ? NULL : job->report.reason, job->report.has_run != 0, err);
  }
  if (*l->call->stop != 0) {
    return 0;
  }
  if (l->attempts[task] < KVL_SWEEP_ATTEMPTS) {
    l->next = task < l->next ? task : l->next; /* comes again at its turn */
    l->state[task] = KVL_TASK_MISSING;
    return 0;
  }
  char reason[120];
  if (WIFSIGNALED(status)) {
    (void)snprintf(reason, sizeof reason, "ended by signal %d in each of %d attempts%s", WTERMSIG(status), (int)KVL_SWEEP_ATTEMPTS,
                   WTERMSIG(status) == SIGKILL ? " (out of memory? fewer --jobs help)" : "");
  } else {
    (void)snprintf(reason, sizeof reason, "ended without a result in each of %d attempts", (int)KVL_SWEEP_ATTEMPTS);
  }
  return record(l, task, reason, false, err);
}

static void kill_all(struct local *l)
{
  for (uint32_t j = 0; j < l->jobs; j++) {
    struct job *job = &l->job[j];
    if (job->child != 0) {
      (void)kill(job->child, SIGKILL);
      while (waitpid(job->child, NULL, 0) < 0 && errno == EINTR) {
      }
      (void)close(job->pipe);
      remove_store(l, job->task);
      job->child = 0;
      l->running--;
    }
  }
}

static void show(struct local *l, bool last)
{
  if (l->call->quiet || isatty(STDERR_FILENO) != 1 || (l->any_shown && !last && seconds_since(&l->shown) < 0.1)) {
    return;
  }
  (void)clock_gettime(CLOCK_MONOTONIC, &l->shown);
  l->any_shown = true;
  if (last) {
    fprintf(stderr, "\r\033[K");
    return;
  }
  uint32_t done = l->out->complete + l->out->failed;
  fprintf(stderr, "\r%.40s: %u of %u run%s, %u at work", l->sweep->name, (unsigned)done, (unsigned)l->out->tasks, kvl_text_s(l->out->tasks), (unsigned)l->running);
  if (l->out->failed > 0) {
    fprintf(stderr, ", %u failed", (unsigned)l->out->failed);
  }
  if (l->out->ran > 0) {
    double left = seconds_since(&l->started) / l->out->ran * (l->out->tasks - done);
    fprintf(stderr, left < 100 ? ", %.0f s to go" : ", %.0f min to go", left < 100 ? left : left / 60);
  }
  fprintf(stderr, "\033[K");
}

/* State of a task while it is with a child. */
enum { AT_WORK = 255 };

static bool is_ours(const struct local *l, uint32_t task)
{
  return task % l->call->share.count == l->call->share.index;
}

static int start_what_fits(struct local *l, struct kvl_err *err)
{
  int rc = 0;
  for (; rc == 0 && l->running < l->jobs && l->next < l->tasks; l->next++) {
    uint32_t task = l->next, point = task / l->sweep->repeats, j = 0;
    if (!is_ours(l, task) || l->state[task] != KVL_TASK_MISSING) {
      continue;
    }
    if (l->sweep->reason[point] != NULL) {
      rc = record(l, task, l->sweep->reason[point], false, err);
      continue;
    }
    while (l->job[j].child != 0) {
      j++;
    }
    rc = start(l, &l->job[j], task, err);
    if (rc == 0) {
      l->state[task] = AT_WORK;
    }
  }
  return rc;
}

static int wait_for_one(struct local *l, struct kvl_err *err)
{
  struct pollfd *poll_for = calloc(l->jobs, sizeof *poll_for);
  if (poll_for == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  for (uint32_t j = 0; j < l->jobs; j++) {
    poll_for[j] = (struct pollfd){.fd = l->job[j].child != 0 ? l->job[j].pipe : -1, .events = POLLIN};
  }
  int rc = 0, ready = poll(poll_for, l->jobs, 200);
  for (uint32_t j = 0; j < l->jobs && ready > 0 && rc == 0; j++) {
    struct job *job = &l->job[j];
    if (poll_for[j].fd < 0 || poll_for[j].revents == 0) {
      continue;
    }
    char *to = (char *)&job->report + job->received;
    char beyond;
    bool full = job->received == sizeof job->report;
    ssize_t n = read(job->pipe, full ? &beyond : to, full ? 1 : sizeof job->report - job->received);
    if (n > 0 && !full) {
      job->received += (size_t)n;
    } else if (n == 0 || (n < 0 && errno != EINTR)) {
      rc = finish(l, job, err);
    }
  }
  free(poll_for);
  return rc;
}

static int run_all(struct local *l, struct kvl_err *err)
{
  int rc = 0;
  (void)clock_gettime(CLOCK_MONOTONIC, &l->started);
  while (rc == 0 && *l->call->stop == 0) {
    rc = start_what_fits(l, err);
    if (rc == 0 && l->running == 0) {
      break;
    }
    show(l, false);
    rc = rc != 0 ? rc : wait_for_one(l, err);
  }
  kill_all(l);
  show(l, true);
  l->out->interrupted = rc == 0 && *l->call->stop != 0 && l->out->complete + l->out->failed < l->out->tasks;
  return rc;
}

static int begin(struct local *l, struct kvl_err *err)
{
  const struct kvl_sweep *s = l->sweep;
  const struct kvl_sweep_call *call = l->call;
  struct kvl_store_options options = {.busy_ms = BUSY_MS};
  struct kvl_sweep_plan plan = {.name = s->name, .note = s->note, .scenario = s->scenario, .hash = s->hash, .build = KVL_VERSION, .command = call->command,
                                .key = s->key, .keys = s->keys, .value = s->value, .points = s->points, .repeats = s->repeats};
  uint32_t others = 0, forgotten = 0;
  int rc = kvl_store_open_with(&l->store, call->store, &options, err);
  rc = rc != 0 ? rc : kvl_store_sweep_begin(l->store, &plan, &call->share, call->take_over, &l->out->sweep, &others, err);
  for (unsigned second = 0; rc == -EBUSY && call->take_over && *call->stop == 0; second++) { /* a requeued job, whose first process lives on */
    struct timespec pause = {1, 0};
    if (second == 0) {
      fprintf(stderr, "waiting: %s\n", err->text);
    }
    (void)nanosleep(&pause, NULL);
    rc = kvl_store_sweep_begin(l->store, &plan, &call->share, call->take_over, &l->out->sweep, &others, err);
  }
  if (rc != 0) {
    return rc;
  }
  if (others > 0 && !call->quiet) {
    fprintf(stderr, "note: %s holds %u sweep%s named %s of another design; this one is number %" PRId64 "\n", call->store, (unsigned)others, others == 1 ? "" : "s",
            s->name, l->out->sweep);
  }
  if (call->retry_failed) {
    rc = kvl_store_sweep_forget_failed(l->store, l->out->sweep, &call->share, &forgotten, err);
  }
  rc = rc != 0 ? rc : kvl_store_sweep_states(l->store, l->out->sweep, l->state, l->tasks, err);
  for (uint32_t t = 0; t < l->tasks && rc == 0; t++) {
    if (is_ours(l, t)) {
      l->out->tasks++;
      l->out->complete += l->state[t] == KVL_TASK_COMPLETE;
      l->out->failed += l->state[t] == KVL_TASK_FAILED;
    }
  }
  if (rc == 0 && !call->quiet && l->out->complete + l->out->failed > 0) {
    fprintf(stderr, "%s: %u of %u run%s %s in %s already\n", s->name, (unsigned)(l->out->complete + l->out->failed), (unsigned)l->out->tasks, kvl_text_s(l->out->tasks),
            l->out->complete + l->out->failed == 1 ? "is" : "are", call->store);
  }
  return rc != 0 ? rc : make_folder(l, err);
}

int kvl_sweep_run_local(const struct kvl_sweep *sweep, const struct kvl_sweep_call *call, struct kvl_sweep_outcome *outcome, struct kvl_err *err)
{
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  struct local l = {.sweep = sweep, .call = call, .out = outcome, .tasks = kvl_sweep_tasks(sweep)};
  memset(outcome, 0, sizeof *outcome);
  l.jobs = call->jobs != 0 ? call->jobs : cores < 1 ? 1 : (uint32_t)cores;
  l.jobs = l.jobs > JOBS_MAX ? JOBS_MAX : l.jobs;
  l.state = calloc(l.tasks, 1);
  l.attempts = calloc(l.tasks, 1);
  l.job = calloc(l.jobs, sizeof *l.job);
  int rc = l.state == NULL || l.attempts == NULL || l.job == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : begin(&l, err);
  if (rc == 0) {
    rc = run_all(&l, err);
    empty_folder(l.folder);
    (void)rmdir(l.folder);
  }
  if (l.store != NULL && outcome->sweep != 0) {
    struct kvl_err ignored;
    (void)kvl_store_sweep_end(l.store, outcome->sweep, &call->share, rc == 0 ? err : &ignored);
  }
  kvl_store_close(l.store);
  free(l.folder);
  free(l.job);
  free(l.attempts);
  free(l.state);
  return rc;
}
