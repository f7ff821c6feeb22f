#include "backend/base/memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 1024, LINE = 1280 };

/* The number behind `key` (with what follows it in the file), on a line of its own; key "": the file's first. */
static bool number(const char *path, const char *key, uint64_t *value)
{
  char line[LINE];
  size_t length = strlen(key);
  bool found = false;
  FILE *f = fopen(path, "r");
  while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
    found = strncmp(line, key, length) == 0 && sscanf(line + length, "%" SCNu64, value) == 1; /* "max": no number, no limit */
  }
  if (f != NULL) {
    (void)fclose(f);
  }
  return found;
}

struct group_files {
  const char *limit, *usage, *caches[2];
};
static const struct group_files version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file ", "total_active_file "}};
static const struct group_files version_2 = {"memory.max", "memory.current", {"inactive_file ", "active_file "}};

/* What the group in `folder` leaves. */
static uint64_t left_by_group(const char *folder, const struct group_files *g)
{
  char path[NAME + 64];
  uint64_t limit, usage = 0;
  (void)snprintf(path, sizeof path, "%s/%s", folder, g->limit);
  if (!number(path, "", &limit)) {
    return UINT64_MAX;
  }
  (void)snprintf(path, sizeof path, "%s/%s", folder, g->usage);
  (void)number(path, "", &usage);
  (void)snprintf(path, sizeof path, "%s/memory.stat", folder);
  for (int i = 0; i < 2; i++) { /* given up when memory is short */
    uint64_t cache = 0;
    (void)number(path, g->caches[i], &cache);
    usage -= cache < usage ? cache : usage;
  }
  return limit > usage ? limit - usage : 0;
}

/* The group and all above it: each may set a limit. In a container the upper ones are not to be seen, and its own is the root. */
static uint64_t left_by_groups(const char *mount, const char *group, const struct group_files *g)
{
  char folder[NAME];
  uint64_t least = UINT64_MAX;
  size_t bottom = strlen(mount);
  if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder) {
    return left_by_group(mount, g);
  }
  for (;;) {
    uint64_t left = left_by_group(folder, g);
    char *slash = strrchr(folder + bottom, '/');
    least = left < least ? left : least;
    if (slash == NULL) {
      return least;
    }
    *slash = '\0';
  }
}

uint64_t kvl_memory_available(const char *root)
{
  char path[NAME], line[LINE];
  uint64_t kb = 0, least = UINT64_MAX;
  (void)snprintf(path, sizeof path, "%s/proc/meminfo", root);
  if (number(path, "MemAvailable:", &kb)) {
    least = kb * 1024;
  }
  (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *f = fopen(path, "r"); /* "4:memory:/job/step" (version 1), "0::/job/step" (version 2) */
  while (f != NULL && fgets(line, sizeof line, f) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':'), *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL) {
      continue;
    }
    *group++ = '\0';
    bool second = controllers[1] == '\0';
    if (!second && strcmp(controllers + 1, "memory") != 0) {
      continue;
    }
    (void)snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, second ? "" : "/memory");
    uint64_t left = left_by_groups(path, group, second ? &version_2 : &version_1);
    least = left < least ? left : least;
  }
  if (f != NULL) {
    (void)fclose(f);
  }
  return least;
}
