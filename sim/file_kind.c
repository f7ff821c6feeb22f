#include "sim/file_kind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/scenario_doc.h"
#include "traces/lines.h"
#include "traces/workload.h"

static const char *const plan_members[] = {"name",  "note",     "scenario", "set",    "model",  "costs",   "workload",
                                           "nodes", "gpu_hour", "target",   "search", "effort", "repeats", "seed"};
static const char *const sweep_members[] = {"name", "note", "scenario", "set", "grid", "list", "random", "repeats", "seeds", "seed"};

static const struct {
  const char *name, *folder, *use; /* use: what takes such a file, which follows */
  const char *section;             /* its members are the keys below this; NULL: they are listed */
  const char *const *member;
  unsigned members;
} kinds[KVL_FILE_KINDS] = {
  [KVL_FILE_SCENARIO] = {"scenario", "", "kvloan run ", "", NULL, 0},
  [KVL_FILE_PLAN] = {"plan", "plans", "kvloan plan ", NULL, plan_members, sizeof plan_members / sizeof plan_members[0]},
  [KVL_FILE_SWEEP] = {"sweep", "sweeps", "kvloan sweep ", NULL, sweep_members, sizeof sweep_members / sizeof sweep_members[0]},
  [KVL_FILE_MODEL] = {"model descriptor", "models", "--set=model=", "model.", NULL, 0},
  [KVL_FILE_HARDWARE] = {"hardware descriptor", "hardware", "--set=node.hardware=", "hardware.", NULL, 0},
  [KVL_FILE_COSTS] = {"cost profile", "costs", "--set=costs=", "costs.", NULL, 0},
  [KVL_FILE_SPECULATION] = {"speculation descriptor", "speculation", "--set=speculation=", "speculation.", NULL, 0},
};

const char *kvl_file_folder(enum kvl_file_kind kind)
{
  return kinds[kind].folder;
}

const char *kvl_file_name(enum kvl_file_kind kind)
{
  return kinds[kind].name;
}

enum kvl_file_kind kvl_file_kind_of(const char *folder)
{
  int kind = KVL_FILE_KINDS - 1;
  while (kind > 0 && strcmp(kinds[kind].folder, folder) != 0) {
    kind--;
  }
  return (enum kvl_file_kind)kind;
}

const char *const *kvl_file_members(enum kvl_file_kind kind, unsigned *count)
{
  *count = kinds[kind].members;
  return kinds[kind].member;
}

static bool begins(const char *text, size_t size, size_t at, const char *with)
{
  size_t length = strlen(with);
  return size >= at + length && memcmp(text + at, with, length) == 0;
}

static int check_bytes(const char *text, size_t size, const char *file, enum kvl_file_kind wanted, struct kvl_err *err)
{
  const char *name = NULL, *use = NULL, *looks = NULL;
  if (begins(text, size, 0, "kvloan-log ")) {
    name = "decision log";
    use = "kvloan replay ";
  } else if (begins(text, size, 0, "KVLTRACE")) {
    name = "selection trace";
    use = "--set=selection.source=trace --set=selection.file=";
  } else if (begins(text, size, 0, "SQLite format 3") && begins(text, size, 68, "kvln")) { /* the application id of our stores */
    name = "result store";
    use = "kvloan results list --store=";
  } else if (kvl_workload_format_of(text, size) != NULL) {
    name = "workload";
    use = "--set=workload.kind=file --set=workload.file=";
  } else if ((looks = kvl_lines_looks_like(text, size)) != NULL) {
    return kvl_err_set(err, -EINVAL, "%s: not a %s: looks like %s", file, kinds[wanted].name, looks);
  }
  return name == NULL ? 0 : kvl_err_set(err, -EINVAL, "%s: this is a %s, not a %s (nearest: %s%s)", file, name, kinds[wanted].name, use, file);
}

int kvl_file_parse(struct kvl_arena *arena, const char *text, size_t size, const char *file, enum kvl_file_kind wanted, struct kvl_json **root, struct kvl_err *err)
{
  int rc = check_bytes(text, size, file, wanted, err);
  return rc != 0 ? rc : kvl_json_parse(arena, text, size, file, root, err);
}

static bool knows(enum kvl_file_kind kind, const char *member)
{
  bool known = false;
  for (unsigned i = 0; i < kinds[kind].members; i++) {
    known = known || strcmp(kinds[kind].member[i], member) == 0;
  }
  size_t section = kinds[kind].section == NULL ? 0 : strlen(kinds[kind].section), length = strlen(member);
  for (uint32_t i = 0; kinds[kind].section != NULL && i < kvl_key_count && !known; i++) {
    const char *rest = kvl_keys[i].path + section;
    known = strncmp(kvl_keys[i].path, kinds[kind].section, section) == 0 && strncmp(rest, member, length) == 0 && (rest[length] == '\0' || rest[length] == '.');
  }
  return known;
}

/* The kind that alone has such a member; -1: several have, or none. */
static int owner(const char *member)
{
  int found = -1;
  for (int kind = 0; kind < KVL_FILE_KINDS; kind++) {
    if (knows((enum kvl_file_kind)kind, member)) {
      if (found >= 0) {
        return -1;
      }
      found = kind;
    }
  }
  return found;
}

int kvl_file_check_kind(const struct kvl_json *root, const char *file, enum kvl_file_kind wanted, struct kvl_err *err)
{
  const struct kvl_json *first[KVL_FILE_KINDS] = {NULL};
  unsigned own[KVL_FILE_KINDS] = {0};
  int most = -1;
  for (const struct kvl_json *child = root->child; child != NULL; child = child->next) {
    int kind = owner(child->key);
    if (kind == (int)wanted) {
      return 0;
    }
    if (kind >= 0) {
      first[kind] = first[kind] != NULL ? first[kind] : child;
      own[kind]++;
      most = most < 0 || own[kind] > own[most] ? kind : most;
    }
  }
  return most < 0 ? 0
                  : kvl_scenario_bad(err, first[most], first[most]->key, "this is a %s, not a %s (nearest: %s%s)", kinds[most].name, kinds[wanted].name, kinds[most].use, file);
}

int kvl_file_check_name(const char *name, enum kvl_file_kind wanted, struct kvl_err *err)
{
  for (int kind = 0; kind < KVL_FILE_KINDS; kind++) {
    char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP], path[KVL_PATH_CAP];
    unsigned count = kvl_scenario_folders(NULL, kinds[kind].folder, folders);
    for (unsigned i = 0; kind != (int)wanted && i < count; i++) {
      if (snprintf(path, sizeof path, "%s/%s.json", folders[i], name) < (int)sizeof path && kvl_scenario_readable(path)) {
        return kvl_err_set(err, -ENOENT, "%s: this is a %s, not a %s (nearest: %s%s)", name, kinds[kind].name, kinds[wanted].name, kinds[kind].use, name);
      }
    }
  }
  return 0;
}
