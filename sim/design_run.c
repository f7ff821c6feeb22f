#include "sim/design_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/text.h"

int kvl_design_parse(struct kvl_sweep **design, const char *name, const char *scenario, const char *list, const char *const *sets, unsigned set_count,
                     uint64_t seed, uint32_t repeats, struct kvl_err *err)
{
  char *text = NULL;
  size_t size = 0;
  const char *slash = strrchr(scenario, '/'), *file = slash != NULL ? slash + 1 : scenario; /* without a folder: names begin in the current one */
  const char **kept = calloc(set_count + 1u, sizeof *kept);
  unsigned count = 0;
  FILE *out = kept == NULL ? NULL : open_memstream(&text, &size);
  *design = NULL;
  if (out == NULL) {
    free(kept);
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", scenario);
  }
  for (unsigned i = 0; i < set_count; i++) {
    if (strncmp(sets[i], "seed=", 5) != 0) {
      kept[count++] = sets[i];
    }
  }
  (void)fputs("{\"name\": ", out);
  kvl_text_json_string(out, name);
  (void)fputs(", \"scenario\": ", out);
  kvl_text_json_string(out, scenario);
  (void)fprintf(out, ", \"list\": %s, \"repeats\": %u, \"seed\": %" PRIu64 "}", list, (unsigned)repeats, seed);
  int rc = fclose(out) != 0 ? kvl_err_set(err, -ENOMEM, "%s: out of memory", scenario) : kvl_sweep_parse(design, text, size, file, kept, count, err);
  rc = rc != 0 ? rc : kvl_sweep_resolve(*design, err);
  if (rc != 0) {
    kvl_sweep_free(*design);
    *design = NULL;
  }
  free(text);
  free(kept);
  return rc;
}

int kvl_design_read(const char *path, const struct kvl_sweep *design, kvl_design_task_fn *take, void *context, struct kvl_err *err)
{
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_store *store = NULL;
  struct kvl_sweep_list list = {NULL, 0};
  struct kvl_sweep_table table;
  uint32_t at = 0;
  memset(&table, 0, sizeof table);
  int rc = kvl_store_open_with(&store, path, &reading, err);
  rc = rc != 0 ? rc : kvl_store_sweeps(store, &list, err);
  while (rc == 0 && at < list.count && strcmp(list.sweep[at].hash, design->hash) != 0) {
    at++;
  }
  if (rc == 0 && at == list.count) {
    rc = kvl_err_set(err, -ENOENT, "%s: the runs of %s are gone", path, design->name);
  }
  rc = rc != 0 ? rc : kvl_sweep_table_read(store, &list.sweep[at], &table, err);
  for (uint32_t t = 0; rc == 0 && t < table.points * table.repeats; t++) {
    take(context, t, &table.task[t]);
  }
  kvl_sweep_table_free(&table);
  kvl_sweep_list_free(&list);
  kvl_store_close(store);
  return rc;
}

static void take_cell(void *context, uint32_t at, const struct kvl_stored_task *task)
{
  struct kvl_design_cell *cell = context;
  cell[at] = (struct kvl_design_cell){.complete = task->state == KVL_TASK_COMPLETE && task->has_summary, .run = task->run, .summary = task->summary};
  (void)snprintf(cell[at].reason, sizeof cell[at].reason, "%.290s", task->reason != NULL ? task->reason : "");
}

/* A folder of its own for a store that nobody asked for. */
static int make_folder(char folder[256], struct kvl_err *err)
{
  const char *base = getenv("TMPDIR");
  int n = snprintf(folder, 256, "%s/kvloan-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
  if (n < 0 || n >= 256) {
    return kvl_err_set(err, -ENAMETOOLONG, "TMPDIR: the name is too long");
  }
  return mkdtemp(folder) == NULL ? kvl_err_set(err, -errno, "%s: cannot make this folder: %s", folder, strerror(errno)) : 0;
}

static void remove_folder(const char *folder)
{
  static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
  for (int e = 0; e < 4; e++) {
    char name[300];
    (void)snprintf(name, sizeof name, "%.256s/runs.db%s", folder, endings[e]);
    (void)unlink(name);
  }
  (void)rmdir(folder);
}

int kvl_design_run(const struct kvl_sweep *design, const struct kvl_sweep_call *asked, struct kvl_design_cell *cell, int64_t *sweep, struct kvl_err *err)
{
  struct kvl_sweep_call call = *asked;
  struct kvl_sweep_outcome outcome;
  char folder[256] = "", path[300];
  int rc = call.store == NULL ? make_folder(folder, err) : 0;
  if (rc != 0) {
    return rc;
  }
  if (call.store == NULL) {
    (void)snprintf(path, sizeof path, "%s/runs.db", folder);
    call.store = path;
    call.summary_only = true;
  }
  rc = kvl_sweep_run_local(design, &call, &outcome, err);
  if (rc == 0 && outcome.interrupted) {
    rc = folder[0] != '\0' ? kvl_err_set(err, -EINTR, "ended early after %u of %u run%s (with --store=FILE the same command goes on)",
                                         (unsigned)(outcome.complete + outcome.failed), (unsigned)outcome.tasks, kvl_text_s(outcome.tasks))
                           : kvl_err_set(err, -EINTR, "ended early with %u of %u run%s stored; the same command goes on",
                                         (unsigned)(outcome.complete + outcome.failed), (unsigned)outcome.tasks, kvl_text_s(outcome.tasks));
  }
  rc = rc != 0 ? rc : kvl_design_read(call.store, design, take_cell, cell, err);
  if (sweep != NULL) {
    *sweep = outcome.sweep;
  }
  if (folder[0] != '\0') {
    remove_folder(folder);
  }
  return rc;
}
