/* A sweep on Slurm: an array of shards, each into a store of its own; then one merge. Everything that a restart needs lies in one folder. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "results/text.h"
#include "sim/cmd_sweep.h"

extern char **environ;

enum { SHARDS_DEFAULT = 16, RETRIES = 2, SILENCE_MAX = 60, POLL_MS = 1000, POLL_MS_MAX = 10000, LIST_BYTES = 1 << 16 };

struct slurm {
  const struct kvl_sweep *sweep;
  const struct kvl_sweep_call *call;
  char folder[PATH_MAX]; /* absolute */
  char program[PATH_MAX], design[PATH_MAX];
  uint32_t shards;
  char job[32];
};

/* ---- other programs ---- */

/* Runs argv[0] from PATH, its output (and what it complains) in *text, which the caller frees. 0, or a negative errno: -ENOENT no such program. */
static int capture(const char *const *argv, char **text, int *status)
{
  int ends[2], rc;
  size_t used = 0, room = 4096;
  pid_t child = 0;
  posix_spawn_file_actions_t actions;
  *text = malloc(room);
  if (*text == NULL || pipe(ends) != 0) {
    return -ENOMEM;
  }
  (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  rc = posix_spawn_file_actions_init(&actions);
  rc = rc != 0 ? rc : posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  rc = rc != 0 ? rc : posix_spawn_file_actions_addclose(&actions, ends[1]);
  char *words[64] = {NULL};
  for (unsigned i = 0; rc == 0 && argv[i] != NULL && i < 63; i++) {
    words[i] = strdup(argv[i]);
    rc = words[i] == NULL ? ENOMEM : 0;
  }
  rc = rc != 0 ? rc : posix_spawnp(&child, argv[0], &actions, NULL, words, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)close(ends[1]);
  for (unsigned i = 0; words[i] != NULL; i++) {
    free(words[i]);
  }
  while (rc == 0) {
    ssize_t n = read(ends[0], *text + used, room - used - 1);
    if (n == 0 || (n < 0 && errno != EINTR)) {
      break;
    }
    used += n > 0 ? (size_t)n : 0;
    if (room - used < 2) {
      char *longer = realloc(*text, room *= 2);
      if (longer == NULL) {
        rc = ENOMEM;
        break;
      }
      *text = longer;
    }
  }
  (*text)[used] = '\0';
  (void)close(ends[0]);
  while (child != 0 && waitpid(child, status, 0) < 0 && errno == EINTR) {
  }
  return -rc;
}

static bool ended_well(int status)
{
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int no_slurm(const char *program, int code, struct kvl_err *err)
{
  return code == -ENOENT ? kvl_err_set(err, code, "--engine=slurm: there is no %s here (Debian: slurm-wlm); --engine=local, or --shard=I/N by other means", program)
                         : kvl_err_set(err, code, "%s cannot be run: %s", program, strerror(-code));
}

static void first_line(char *text)
{
  text[strcspn(text, "\n")] = '\0';
}

/* The largest array that this cluster takes; 1,000 when it does not say. */
static int array_max(uint32_t *max, struct kvl_err *err)
{
  static const char *const argv[] = {"scontrol", "show", "config", NULL};
  char *text = NULL;
  int status = 0, code = capture(argv, &text, &status);
  *max = 1000;
  if (code != 0) {
    code = no_slurm("scontrol", code, err);
  } else if (!ended_well(status)) {
    first_line(text);
    code = kvl_err_set(err, -EIO, "--engine=slurm: the controller does not answer: %.300s", text);
  } else {
    const char *at = strstr(text, "MaxArraySize");
    at = at == NULL ? NULL : strchr(at, '=');
    unsigned long value = at == NULL ? 0 : strtoul(at + 1, NULL, 10);
    *max = value > 1 && value <= UINT32_MAX ? (uint32_t)value - 1 : *max;
  }
  free(text);
  return code;
}

/* ---- shards ---- */

static void shard_store(const struct slurm *s, uint32_t shard, char path[PATH_MAX])
{
  (void)snprintf(path, PATH_MAX, "%.4000s/shard-%u.db", s->folder, (unsigned)shard + 1);
}

/* Tasks of a shard that its store lacks; all of them when there is no store yet. */
static int missing_of(const struct slurm *s, uint32_t shard, uint32_t *missing, bool *exists, struct kvl_err *err)
{
  char path[PATH_MAX];
  uint32_t tasks = kvl_sweep_tasks(s->sweep);
  struct kvl_store *store = NULL;
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_sweep_list list = {NULL, 0};
  uint8_t *state = calloc(tasks, 1);
  shard_store(s, shard, path);
  *exists = access(path, F_OK) == 0;
  int code = state == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : 0;
  if (code == 0 && *exists) {
    code = kvl_store_open_with(&store, path, &reading, err);
    code = code != 0 ? code : kvl_store_sweeps(store, &list, err);
    for (uint32_t i = 0; i < list.count && code == 0; i++) {
      if (strcmp(list.sweep[i].hash, s->sweep->hash) == 0) {
        code = kvl_store_sweep_states(store, list.sweep[i].id, state, tasks, err);
      }
    }
    if (code == -EINVAL) { /* killed while it was being made: as good as none */
      code = 0;
      *exists = false;
    }
  }
  *missing = 0;
  for (uint32_t t = shard; t < tasks && state != NULL; t += s->shards) {
    *missing += state[t] == KVL_TASK_MISSING || (s->call->retry_failed && state[t] == KVL_TASK_FAILED);
  }
  kvl_sweep_list_free(&list);
  kvl_store_close(store);
  free(state);
  return code;
}

/* "1-4,7" of the shards that lack something. */
static int shards_to_run(const struct slurm *s, char *list, size_t size, uint32_t *count, struct kvl_err *err)
{
  size_t used = 0;
  uint32_t first = 0, length = 0;
  *count = 0;
  list[0] = '\0';
  for (uint32_t i = 0; i <= s->shards; i++) {
    uint32_t missing = 0;
    bool exists;
    int code = i == s->shards ? 0 : missing_of(s, i, &missing, &exists, err);
    if (code != 0) {
      return code;
    }
    if (missing > 0) {
      first = length == 0 ? i : first;
      length++;
      (*count)++;
    } else if (length > 0 && used < size) {
      used += (size_t)snprintf(list + used, size - used, length > 1 ? "%s%u-%u" : "%s%u", used > 0 ? "," : "", (unsigned)first + 1, (unsigned)(first + length));
      length = 0;
    }
  }
  return used < size ? 0 : kvl_err_set(err, -E2BIG, "too many shards to name");
}

/* ---- the job ---- */

static void put_quoted(FILE *out, const char *text)
{
  (void)fputc('\'', out);
  for (; *text != '\0'; text++) {
    (void)(*text == '\'' ? fputs("'\\''", out) : fputc(*text, out));
  }
  (void)fputc('\'', out);
}

static int put_script(FILE *out, const void *context)
{
  const struct slurm *s = context;
  (void)fputs("#!/bin/sh\n# Written by kvloan sweep --engine=slurm: an array task runs one shard into its own store, and goes on with it when it is requeued.\n"
              "i=$SLURM_ARRAY_TASK_ID\ncode=0\n", out);
  put_quoted(out, s->program);
  (void)fputs(" sweep ", out);
  put_quoted(out, s->design);
  for (unsigned i = 0; i < s->call->sets; i++) {
    (void)fputs(" --set=", out);
    put_quoted(out, s->call->set[i]);
  }
  (void)fputs(" --store=", out);
  put_quoted(out, s->folder);
  (void)fprintf(out, "/shard-$i.db --shard=$i/%u --jobs=\"${SLURM_CPUS_PER_TASK:-1}\" --threads=%u --plane=%s%s%s --take-over --failed-ok --quiet --format=tsv "
                     ">/dev/null || code=$?\n", (unsigned)s->shards, (unsigned)s->call->threads, s->call->plane, s->call->summary_only ? " --keep=summary" : "",
                s->call->retry_failed ? " --retry-failed" : "");
  /* 2 is a mistake in the call: the same again would not help */
  (void)fprintf(out, "[ $code -eq 0 ] || [ $code -eq 2 ] || [ \"${SLURM_RESTART_COUNT:-0}\" -ge %d ] || scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$i\"\nexit $code\n",
                (int)RETRIES);
  return 0;
}

static void job_file(const struct slurm *s, char path[PATH_MAX])
{
  (void)snprintf(path, PATH_MAX, "%.4000s/job.id", s->folder);
}

static int submit(struct slurm *s, const char *list, struct kvl_err *err)
{
  char script[PATH_MAX], path[PATH_MAX], array[LIST_BYTES + 16], name[160], log[PATH_MAX + 32];
  (void)snprintf(script, sizeof script, "%.4000s/job.sh", s->folder);
  int code = kvl_place_write(script, put_script, s, err), status = 0;
  if (code != 0) {
    return code;
  }
  (void)snprintf(array, sizeof array, "--array=%s", list);
  (void)snprintf(name, sizeof name, "--job-name=kvloan-%.96s", s->sweep->name);
  (void)snprintf(log, sizeof log, "--output=%.4000s/shard-%%a.log", s->folder);
  const char *argv[16 + KVL_SWEEP_SBATCH_MAX] = {"sbatch", "--parsable", "--requeue", "--open-mode=append", array, name, log};
  unsigned n = 7;
  for (unsigned i = 0; i < s->call->sbatches; i++) {
    argv[n++] = s->call->sbatch[i];
  }
  argv[n++] = script;
  argv[n] = NULL;
  char *text = NULL;
  code = capture(argv, &text, &status);
  if (code != 0) {
    code = no_slurm("sbatch", code, err);
  } else if (!ended_well(status) || strtoull(text, NULL, 10) == 0) {
    first_line(text);
    code = kvl_err_set(err, -EIO, "sbatch refused the job: %.400s", text);
  } else {
    (void)snprintf(s->job, sizeof s->job, "%llu", strtoull(text, NULL, 10)); /* "ID" or "ID;CLUSTER" */
    job_file(s, path);
    char line[sizeof s->job + 1];
    struct kvl_err why = {""};
    (void)snprintf(line, sizeof line, "%s\n", s->job);
    code = kvl_place_write_text(path, line, &why);
    if (code != 0) {
      (void)kvl_err_set(err, code, "%.900s (job %s is submitted)", why.text, s->job);
    }
  }
  free(text);
  return code;
}

/* Tasks of the job that are not over: 0 also when Slurm has forgotten it. -EAGAIN: no answer. */
static int queued(const struct slurm *s, uint32_t *running, uint32_t *waiting)
{
  const char *argv[] = {"squeue", "-h", "-r", "-o", "%t", "-j", s->job, NULL};
  char *text = NULL;
  int status = 0, code = capture(argv, &text, &status);
  *running = *waiting = 0;
  if (code == 0 && !ended_well(status)) {
    code = strstr(text, "Invalid job id") != NULL ? 0 : -EAGAIN;
  } else if (code == 0) {
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
      *(strncmp(line, "R\n", 2) == 0 || strncmp(line, "CG", 2) == 0 ? running : waiting) += 1;
    }
  }
  free(text);
  return code;
}

static void pause_ms(long ms)
{
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  (void)nanosleep(&time, NULL);
}

static int wait_for_job(const struct slurm *s, struct kvl_err *err)
{
  bool terminal = !s->call->quiet && isatty(STDERR_FILENO) == 1;
  int silence = 0, quiet_twice = 0;
  for (long ms = POLL_MS; *s->call->stop == 0; ms = ms < POLL_MS_MAX ? ms + ms / 8 : POLL_MS_MAX) {
    uint32_t running, waiting;
    int code = queued(s, &running, &waiting);
    if (code == -EAGAIN && ++silence < SILENCE_MAX) {
      pause_ms(ms);
      continue;
    }
    if (code != 0) {
      return code == -EAGAIN ? kvl_err_set(err, -EIO, "the controller has not answered %d times; job %s may go on: the same command waits for it again", (int)SILENCE_MAX, s->job)
                             : no_slurm("squeue", code, err);
    }
    silence = 0;
    if (terminal) {
      fprintf(stderr, "\r%.40s, job %s: %u shard%s running, %u waiting\033[K", s->sweep->name, s->job, (unsigned)running, kvl_text_s(running), (unsigned)waiting);
    }
    /* a task that is being requeued can be out of sight for a moment */
    quiet_twice = running + waiting == 0 ? quiet_twice + 1 : 0;
    if (quiet_twice == 2) {
      break;
    }
    pause_ms(quiet_twice == 1 ? POLL_MS : ms);
  }
  if (terminal) {
    fprintf(stderr, "\r\033[K");
  }
  return *s->call->stop == 0 ? 0 : kvl_err_set(err, -EINTR, "job %s goes on without us: the same command waits for it again, scancel %s ends it", s->job, s->job);
}

/* Brings what the shards have into the store. -EIO when something is missing. */
static int gather(const struct slurm *s, struct kvl_err *err)
{
  char (*path)[PATH_MAX] = malloc(s->shards * sizeof *path);
  const char **in = calloc(s->shards, sizeof *in);
  uint32_t stores = 0, missing_all = 0, first_missing = 0, shards_missing = 0;
  int code = path == NULL || in == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : 0;
  for (uint32_t i = 0; i < s->shards && code == 0; i++) {
    uint32_t missing;
    bool exists;
    code = missing_of(s, i, &missing, &exists, err);
    if (code == 0 && exists) {
      shard_store(s, i, path[stores]);
      in[stores] = path[stores];
      stores++;
    }
    if (code == 0 && missing > 0) {
      first_missing = shards_missing++ == 0 ? i : first_missing;
      missing_all += missing;
    }
  }
  if (code == 0 && stores > 0) {
    code = kvl_results_merge_into(s->call->store, in, stores, s->call->quiet, err);
  }
  if (code == 0 && missing_all > 0) {
    code = kvl_err_set(err, -EIO, "%u run%s of %u shard%s not there; the first of them says why in %s/shard-%u.log; the same command submits what is missing",
                       (unsigned)missing_all, kvl_text_s(missing_all), (unsigned)shards_missing, kvl_text_s(shards_missing), s->folder, (unsigned)first_missing + 1);
  }
  free(in);
  free(path);
  return code;
}

/* ---- */

static int absolute(const char *path, char full[PATH_MAX], struct kvl_err *err)
{
  char here[PATH_MAX];
  int length = path[0] == '/' ? snprintf(full, PATH_MAX, "%s", path) : getcwd(here, sizeof here) == NULL ? -1 : snprintf(full, PATH_MAX, "%s/%s", here, path);
  return length >= 0 && length < PATH_MAX - 100 ? 0 : kvl_err_set(err, -ENAMETOOLONG, "%s: the name is too long", path);
}

static int prepare(struct slurm *s, struct kvl_err *err)
{
  char store[PATH_MAX];
  uint32_t max, tasks = kvl_sweep_tasks(s->sweep);
  int code = array_max(&max, err);
  if (code != 0) {
    return code;
  }
  s->shards = s->call->shards != 0 ? s->call->shards : SHARDS_DEFAULT < max ? SHARDS_DEFAULT : max;
  s->shards = s->shards > tasks ? tasks : s->shards;
  if (s->shards > max) {
    return kvl_err_set(err, -EINVAL, "--shards=%u: this cluster takes arrays of up to %u tasks (MaxArraySize); nearest: --shards=%u", (unsigned)s->shards, (unsigned)max,
                       (unsigned)max);
  }
  ssize_t length = readlink("/proc/self/exe", s->program, sizeof s->program - 1);
  if (length <= 0) {
    return kvl_err_set(err, -EIO, "the program's own path is not known: %s", strerror(errno));
  }
  s->program[length] = '\0';
  code = absolute(s->sweep->file, s->design, err);
  code = code != 0 ? code : absolute(s->call->store, store, err);
  if (code != 0) {
    return code;
  }
  (void)snprintf(s->folder, sizeof s->folder, "%.3900s.slurm-%s-of-%u", store, s->sweep->hash, (unsigned)s->shards);
  if (mkdir(s->folder, 0777) != 0 && errno != EEXIST) {
    return kvl_err_set(err, -errno, "%s: cannot make this folder for the shards: %s", s->folder, strerror(errno));
  }
  return 0;
}

/* The job of an earlier call, when Slurm still has it. */
static bool earlier_job(struct slurm *s)
{
  char path[PATH_MAX];
  job_file(s, path);
  FILE *in = fopen(path, "re");
  bool read = in != NULL && fgets(s->job, sizeof s->job, in) != NULL && strspn(s->job, "0123456789") > 0;
  if (in != NULL) {
    (void)fclose(in);
  }
  s->job[read ? strspn(s->job, "0123456789") : 0] = '\0';
  uint32_t running = 0, waiting = 0;
  return read && queued(s, &running, &waiting) == 0 && running + waiting > 0;
}

int kvl_sweep_run_slurm(const struct kvl_sweep *sweep, const struct kvl_sweep_call *call, bool *merged, struct kvl_err *err)
{
  struct slurm *s = calloc(1, sizeof *s);
  char *list = malloc(LIST_BYTES);
  uint32_t count = 0;
  *merged = false;
  int code = s == NULL || list == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : 0;
  if (code == 0) {
    s->sweep = sweep;
    s->call = call;
    code = prepare(s, err);
  }
  if (code == 0 && earlier_job(s)) {
    fprintf(stderr, "job %s of this sweep is still with Slurm%s\n", s->job, call->wait ? ": waiting for it" : "");
    count = 1;
  } else if (code == 0) {
    code = shards_to_run(s, list, LIST_BYTES, &count, err);
    if (code == 0 && count > 0) {
      code = submit(s, list, err);
      if (code == 0 && !call->quiet) {
        fprintf(stderr, "job %s: %u of %u shard%s submitted, logs in %s\n", s->job, (unsigned)count, (unsigned)s->shards, kvl_text_s(s->shards), s->folder);
      }
    }
  }
  if (code == 0 && count > 0 && !call->wait) {
    printf("job\t%s\nmerge\tkvloan results merge ", s->job);
    put_quoted(stdout, call->store);
    printf(" ");
    put_quoted(stdout, s->folder);
    printf("/shard-*.db\n");
  } else if (code == 0) {
    code = count > 0 ? wait_for_job(s, err) : 0;
    code = code != 0 ? code : gather(s, err);
    *merged = code == 0;
  }
  free(list);
  free(s);
  return code;
}
