/* Names of what is there: descriptors of a folder, scenarios of a folder and of those in it. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/base/nearest.h"
#include "sim/scenario_doc.h"

enum { NAMES_MAX = 1024 };

static int by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds prefix and name of each .json file of a folder, and its folders (whatever they are called) to `inner` unless that is NULL. A folder that cannot be read
 * has none; what is neither, such as a pipe or a link that points nowhere, is passed over. */
static int add_names(struct kvl_arena *arena, const char *folder, const char *prefix, const char **names, unsigned *count, const char **inner, unsigned *inner_count)
{
  DIR *dir = opendir(folder);
  int rc = 0;
  size_t before = strlen(prefix);
  for (struct dirent *entry; dir != NULL && rc == 0 && *count < NAMES_MAX && (entry = readdir(dir)) != NULL;) {
    size_t n = strlen(entry->d_name);
    bool json = n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0, room = inner != NULL && *inner_count < NAMES_MAX;
    struct stat info;
    if (entry->d_name[0] == '.' || (!json && !room) || fstatat(dirfd(dir), entry->d_name, &info, 0) != 0) {
      continue;
    }
    bool file = json && S_ISREG(info.st_mode);
    if (!file && !(room && S_ISDIR(info.st_mode))) {
      continue;
    }
    char text[KVL_PATH_CAP];
    size_t length = file ? n - 5 : n;
    if (before + length >= sizeof text) {
      continue;
    }
    memcpy(text, prefix, before);
    memcpy(text + before, entry->d_name, length);
    char *name = kvl_arena_text(arena, text, before + length);
    rc = name == NULL ? -ENOMEM : 0;
    if (rc == 0) {
      *(file ? &names[(*count)++] : &inner[(*inner_count)++]) = name;
    }
  }
  if (dir != NULL) {
    (void)closedir(dir);
  }
  return rc;
}

int kvl_scenario_names(struct kvl_arena *arena, const char *folder, const char ***names, unsigned *count)
{
  *count = 0;
  *names = kvl_arena_take(arena, NAMES_MAX * sizeof **names);
  int rc = *names == NULL ? -ENOMEM : add_names(arena, folder, "", *names, count, NULL, NULL);
  if (*names != NULL) {
    qsort(*names, *count, sizeof **names, by_name);
  }
  return rc;
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

int kvl_scenario_scenarios(struct kvl_arena *arena, const char *folder, const char ***names, unsigned *count)
{
  unsigned inner_count = 0, above;
  const char **inner = kvl_arena_take(arena, NAMES_MAX * sizeof *inner);
  *count = 0;
  *names = kvl_arena_take(arena, NAMES_MAX * sizeof **names);
  int rc = *names == NULL || inner == NULL ? -ENOMEM : add_names(arena, folder, "", *names, count, inner, &inner_count);
  if (rc != 0) {
    return rc;
  }
  qsort(*names, *count, sizeof **names, by_name);
  above = *count;
  for (unsigned i = 0; i < inner_count && rc == 0; i++) {
    char path[KVL_PATH_CAP], prefix[KVL_PATH_CAP];
    if (is_of_scenarios(inner[i]) && snprintf(path, sizeof path, "%s/%s", folder, inner[i]) < KVL_PATH_CAP &&
        snprintf(prefix, sizeof prefix, "%s/", inner[i]) < KVL_PATH_CAP) {
      rc = add_names(arena, path, prefix, *names, count, NULL, NULL);
    }
  }
  qsort(*names + above, *count - above, sizeof **names, by_name); /* those of folders last */
  return rc;
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
