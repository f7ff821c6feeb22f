/* Names of what is there: descriptors of a folder, scenarios of a folder and of those in it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/base/nearest.h"
#include "results/text.h"
#include "sim/scenario_doc.h"

enum { NAMES_MAX = 1024 };

/* A folder in a folder of scenarios. */
struct inner {
  const char *name;
  dev_t device;
  ino_t inode;
  bool link; /* not its own name */
};
struct names {
  struct kvl_arena *arena;
  const char **name;
  unsigned count, passed; /* passed: over, because they are not printable */
  struct inner *inner;    /* NULL: folders are not looked for */
  unsigned inner_count;
};

static int by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_own_name(const void *a, const void *b)
{
  const struct inner *x = a, *y = b;
  return x->link != y->link ? (x->link ? 1 : -1) : strcmp(x->name, y->name);
}

static bool is_link(DIR *dir, const char *name)
{
  struct stat info;
  return fstatat(dirfd(dir), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

/* Adds prefix and name of each .json file of a folder, and its folders (whatever they are called) to `inner`. A folder that cannot be read has none; what is
 * neither, such as a pipe or a link that points nowhere, is not there. */
static int add_names(struct names *found, const char *folder, const char *prefix)
{
  DIR *dir = opendir(folder);
  int rc = 0;
  size_t before = strlen(prefix);
  for (struct dirent *entry; dir != NULL && rc == 0 && found->count < NAMES_MAX && (entry = readdir(dir)) != NULL;) {
    size_t n = strlen(entry->d_name);
    bool json = n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0, room = found->inner != NULL && found->inner_count < NAMES_MAX;
    struct stat info;
    if (entry->d_name[0] == '.' || (!json && !room) || fstatat(dirfd(dir), entry->d_name, &info, 0) != 0) {
      continue;
    }
    bool file = json && S_ISREG(info.st_mode);
    if (!file && !(room && S_ISDIR(info.st_mode))) {
      continue;
    }
    if (!kvl_text_printable(entry->d_name)) {
      found->passed++;
      continue;
    }
    char text[KVL_PATH_CAP];
    size_t length = file ? n - 5 : n;
    if (before + length >= sizeof text) {
      continue;
    }
    memcpy(text, prefix, before);
    memcpy(text + before, entry->d_name, length);
    char *name = kvl_arena_text(found->arena, text, before + length);
    rc = name == NULL ? -ENOMEM : 0;
    if (rc == 0 && file) {
      found->name[found->count++] = name;
    } else if (rc == 0) {
      found->inner[found->inner_count++] = (struct inner){name, info.st_dev, info.st_ino, is_link(dir, entry->d_name)};
    }
  }
  if (dir != NULL) {
    (void)closedir(dir);
  }
  return rc;
}

/* The names directly in the folder, in order. */
static int begin(struct names *found, const char *folder)
{
  found->name = kvl_arena_take(found->arena, NAMES_MAX * sizeof *found->name);
  int rc = found->name == NULL ? -ENOMEM : add_names(found, folder, "");
  if (found->name != NULL) {
    qsort(found->name, found->count, sizeof *found->name, by_name);
  }
  return rc;
}

static int hand_over(const struct names *found, const char ***names, unsigned *count, unsigned *passed, int rc)
{
  *names = found->name;
  *count = found->count;
  if (passed != NULL) {
    *passed += found->passed;
  }
  return rc;
}

int kvl_scenario_names(struct kvl_arena *arena, const char *folder, const char ***names, unsigned *count, unsigned *passed)
{
  struct names found = {.arena = arena};
  return hand_over(&found, names, count, passed, begin(&found, folder));
}

/* Folders of other kinds of files, and of the requests that workloads name. */
static bool is_of_scenarios(const char *folder)
{
  bool other = strcmp(folder, "workloads") == 0;
  for (int kind = 0; kind < KVL_FILE_KINDS; kind++) {
    other = other || strcmp(kvl_file_folder((enum kvl_file_kind)kind), folder) == 0;
  }
  return !other;
}

/* Is the folder `at` of those in `folder` that folder itself, or one before it? */
static bool seen(const struct names *found, unsigned at, const char *folder)
{
  const struct inner *one = &found->inner[at];
  struct stat info;
  bool same = stat(folder, &info) == 0 && info.st_dev == one->device && info.st_ino == one->inode;
  for (unsigned i = 0; i < at; i++) {
    same = same || (found->inner[i].device == one->device && found->inner[i].inode == one->inode);
  }
  return same;
}

int kvl_scenario_scenarios(struct kvl_arena *arena, const char *folder, const char ***names, unsigned *count, unsigned *passed)
{
  struct names found = {.arena = arena, .inner = kvl_arena_take(arena, NAMES_MAX * sizeof(struct inner))};
  int rc = found.inner == NULL ? -ENOMEM : begin(&found, folder);
  unsigned above = found.count;
  if (rc == 0) {
    qsort(found.inner, found.inner_count, sizeof *found.inner, by_own_name);
  }
  for (unsigned i = 0; i < found.inner_count && rc == 0; i++) {
    char path[KVL_PATH_CAP], prefix[KVL_PATH_CAP];
    const char *name = found.inner[i].name;
    if (is_of_scenarios(name) && !seen(&found, i, folder) && snprintf(path, sizeof path, "%s/%s", folder, name) < KVL_PATH_CAP &&
        snprintf(prefix, sizeof prefix, "%s/", name) < KVL_PATH_CAP) {
      struct names below = {.arena = arena, .name = found.name, .count = found.count, .passed = found.passed};
      rc = add_names(&below, path, prefix);
      found.count = below.count;
      found.passed = below.passed;
    }
  }
  if (rc == 0) {
    qsort(found.name + above, found.count - above, sizeof *found.name, by_name); /* those of folders last */
  }
  return hand_over(&found, names, count, passed, rc);
}

const char *kvl_scenario_nearest(struct kvl_arena *arena, const char *name, const char *const *names, unsigned count)
{
  const char **words = kvl_arena_take(arena, (2 * (size_t)count + 1) * sizeof *words);
  if (words == NULL || count == 0) {
    return NULL;
  }
  for (unsigned i = 0; i < count; i++) { /* with its folder, or as if it had none */
    const char *slash = strrchr(names[i], '/');
    words[2 * i] = names[i];
    words[2 * i + 1] = slash == NULL ? names[i] : slash + 1;
  }
  const char *nearest = kvl_nearest(name, words, 2 * (size_t)count);
  unsigned at = 0;
  while (at + 1 < count && words[2 * at] != nearest && words[2 * at + 1] != nearest) {
    at++;
  }
  return names[at];
}
