/* Files of a scenario: descriptors by name, workload and trace files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/nearest.h"
#include "sim/scenario_doc.h"

enum { FROM_DEPTH_MAX = 8 };

int kvl_scenario_read_file(const char *path, char **text, size_t *size, struct kvl_err *err)
{
  struct stat info;
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    int code = errno == ENOENT || errno == ENOTDIR ? -ENOENT : -EIO;
    return kvl_err_set(err, code, "%s: %s", path, strerror(errno));
  }
  if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
    (void)fclose(file);
    return kvl_err_set(err, -EIO, "%s: is a folder; name a file in it", path);
  }
  size_t capacity = 16384, used = 0;
  char *buffer = malloc(capacity);
  while (buffer != NULL) {
    used += fread(buffer + used, 1, capacity - used, file);
    if (used < capacity || capacity > KVL_JSON_BYTES_MAX) {
      break;
    }
    char *grown = realloc(buffer, capacity * 2);
    if (grown == NULL) {
      free(buffer);
    }
    buffer = grown;
    capacity *= 2;
  }
  bool failed = ferror(file) != 0;
  (void)fclose(file);
  if (buffer == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", path);
  }
  if (failed) {
    free(buffer);
    return kvl_err_set(err, -EIO, "%s: cannot be read", path);
  }
  *text = buffer;
  *size = used;
  return 0;
}

/* folder/name+ending into `path`; false when it does not fit. */
static bool join(char path[KVL_PATH_CAP], const char *folder, const char *name, const char *ending)
{
  size_t a = strlen(folder), b = strlen(name), c = strlen(ending);
  if (a + b + c + 2 > KVL_PATH_CAP) {
    return false;
  }
  memcpy(path, folder, a);
  path[a] = '/';
  memcpy(path + a + 1, name, b);
  memcpy(path + a + 1 + b, ending, c + 1);
  return true;
}

static void add_folder(char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP], unsigned *count, const char *base, const char *up, const char *kind)
{
  if (*count < KVL_FOLDERS_MAX && base != NULL && *base != '\0' &&
      snprintf(folders[*count], KVL_PATH_CAP, "%s%s%s%s", base, up, *kind != '\0' ? "/" : "", kind) < KVL_PATH_CAP) {
    (*count)++;
  }
}

unsigned kvl_scenario_folders(const struct kvl_scenario_doc *doc, const char *kind, char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP])
{
  unsigned count = 0;
  if (doc != NULL) {
    add_folder(folders, &count, doc->folder, "", kind);
    add_folder(folders, &count, doc->folder, "/..", kind);
    add_folder(folders, &count, doc->folder, "/../..", kind);
    add_folder(folders, &count, doc->folder, "/../../..", kind);
  }
  add_folder(folders, &count, getenv("KVLOAN_SCENARIOS"), "", kind);
  add_folder(folders, &count, KVL_SCENARIOS_SOURCE, "", kind);
  add_folder(folders, &count, KVL_SCENARIOS_INSTALLED, "", kind);
  return count;
}

bool kvl_scenario_readable(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool is_folder(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int kvl_scenario_find_scenario(const char *name, char path[KVL_PATH_CAP], struct kvl_err *err)
{
  char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP];
  size_t n = strlen(name);
  if (n >= KVL_PATH_CAP) {
    return kvl_err_set(err, -ENOENT, "%.80s...: the name is too long", name);
  }
  memcpy(path, name, n + 1);
  struct stat info;
  bool folder = is_folder(name); /* hides no scenario of its name, and is told as what it is when there is none */
  if (!folder && stat(name, &info) == 0) {
    return 0;
  }
  if (!folder && errno != ENOENT && errno != ENOTDIR) {
    return kvl_err_set(err, -EIO, "%s: %s", name, strerror(errno));
  }
  const char *slash = strrchr(name, '/');
  bool is_file = n > 5 && strcmp(name + n - 5, ".json") == 0, bare = slash == NULL && !is_file;
  int length = slash == NULL ? 0 : slash == name ? 1 : (int)(slash - name);
  (void)snprintf(folders[0], KVL_PATH_CAP, "%.*s", length == 0 ? 1 : length, length == 0 ? "." : name);
  /* A name with a folder is one of those that are listed, unless there is such a folder here or it leads elsewhere: then it is a mistyped file. */
  bool listed = !is_file && name[0] != '/' && name[0] != '.' && (bare || stat(folders[0], &info) != 0);
  unsigned count = listed ? kvl_scenario_folders(NULL, "", folders) : 1;
  struct kvl_arena arena = {0};
  const char **names, *nearest = NULL;
  unsigned found;
  for (unsigned i = 0; i < count && nearest == NULL; i++) {
    if (listed && join(path, folders[i], name, ".json") && kvl_scenario_readable(path)) {
      kvl_arena_free(&arena);
      return 0;
    }
    if (listed ? kvl_scenario_scenarios(&arena, folders[i], &names, &found, NULL) == 0 : kvl_scenario_names(&arena, folders[i], &names, &found, NULL) == 0) {
      nearest = kvl_scenario_nearest(&arena, slash == NULL || listed ? name : slash + 1, names, found);
    }
  }
  if (folder) { /* whoever opens it says so */
    memcpy(path, name, n + 1);
    kvl_arena_free(&arena);
    return 0;
  }
  int rc = bare ? kvl_file_check_name(name, KVL_FILE_SCENARIO, err) : 0;
  rc = rc != 0           ? rc
       : nearest == NULL ? kvl_err_set(err, -ENOENT, "%s: there is no such scenario", name)
       : listed          ? kvl_err_set(err, -ENOENT, "%s: there is no such scenario (nearest: %s)", name, nearest)
                         : kvl_err_set(err, -ENOENT, "%s: there is no such file (nearest: %s.json)", name, nearest);
  kvl_arena_free(&arena);
  return rc;
}

/* As a scenario file spells it. */
static const char *label_of(const char *section)
{
  return strcmp(section, "hardware") == 0 ? "node.hardware" : section;
}

static const char *kind_of(const char *section)
{
  return strcmp(section, "model") == 0 ? "models" : section;
}

/* Why the file that was named is none to read: a pipe is not waited for, and a descriptor may be looked at more than once. */
static int no_descriptor_file(const char *path, const char *section, const struct kvl_json *name, struct kvl_err *err)
{
  struct stat info;
  const char *label = label_of(section);
  if (stat(path, &info) == 0) {
    return S_ISDIR(info.st_mode) ? kvl_scenario_bad(err, name, label, "\"%s\" is a folder; name a file in it", name->text)
                                 : kvl_scenario_bad(err, name, label, "\"%s\" is a pipe or a device; a descriptor is a file", name->text);
  }
  return errno == ENOENT || errno == ENOTDIR ? kvl_scenario_bad(err, name, label, "there is no file \"%s\"", name->text)
                                             : kvl_scenario_bad(err, name, label, "\"%s\": %s", name->text, strerror(errno));
}

/* A name with a slash or .json is a file beside the scenario; others are looked up. */
static int find_descriptor(const struct kvl_scenario_doc *doc, const char *section, const struct kvl_json *name, char path[KVL_PATH_CAP],
                           struct kvl_err *err)
{
  size_t n = strlen(name->text);
  if (strchr(name->text, '/') != NULL || (n > 5 && strcmp(name->text + n - 5, ".json") == 0)) {
    int rc = kvl_scenario_locate(doc, name->text, name->line == 0, path);
    return rc == 0 && kvl_scenario_readable(path) ? 0 : no_descriptor_file(rc == 0 ? path : "", section, name, err);
  }
  char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP];
  unsigned count = kvl_scenario_folders(doc, kind_of(section), folders);
  for (unsigned i = 0; i < count; i++) {
    if (join(path, folders[i], name->text, ".json") && kvl_scenario_readable(path)) {
      return 0;
    }
  }
  struct kvl_arena arena = {0};
  const char *all[KVL_FOLDERS_MAX];
  unsigned found = 0;
  for (unsigned i = 0; i < count; i++) {
    const char **names;
    unsigned name_count;
    if (kvl_scenario_names(&arena, folders[i], &names, &name_count, NULL) == 0 && name_count > 0) {
      all[found++] = kvl_nearest(name->text, names, name_count);
    }
  }
  int rc = found > 0 ? kvl_scenario_bad(err, name, label_of(section), "there is no descriptor \"%s\" (nearest: \"%s\")", name->text,
                                        kvl_nearest(name->text, all, found))
                     : kvl_scenario_bad(err, name, label_of(section), "there is no descriptor \"%s\"; no %s folder was found near the scenario, in "
                                        "$KVLOAN_SCENARIOS or in the installation", name->text, kind_of(section));
  kvl_arena_free(&arena);
  return rc == -EINVAL ? -ENOENT : rc;
}

/* A part that takes its name from nobody is still the part that its descriptor says what it does not say itself: cost profiles made for that one suit it. */
static void merge(const char *section, struct kvl_json *base, struct kvl_json *over)
{
  bool renamed = strcmp(section, "hardware") == 0 && kvl_json_member(over, "name") != NULL;
  struct kvl_json *part = renamed ? kvl_json_take(base, "name") : NULL;
  if (part != NULL && kvl_json_member(base, "part") == NULL) {
    kvl_json_put(base, "part", part);
  }
  kvl_json_merge(base, over);
}

static int expand(struct kvl_scenario_doc *doc, const char *section, struct kvl_json *node, unsigned depth, struct kvl_json **out,
                  struct kvl_err *err)
{
  const struct kvl_json *name = node;
  struct kvl_json *over = NULL;
  if (depth > FROM_DEPTH_MAX) {
    return kvl_scenario_bad(err, node, label_of(section), "descriptors follow one another by \"from\" more than 8 times");
  }
  if (node->kind == KVL_JSON_OBJECT) {
    if (strcmp(section, "hardware") == 0) {
      (void)kvl_json_take(node, "calibration"); /* the raw points behind the numbers: for people and for kvloan calibrate --refit */
    }
    name = kvl_json_take(node, "from");
    over = node;
    if (name == NULL) {
      *out = node;
      return 0;
    }
  }
  if (name->kind != KVL_JSON_STRING) {
    return kvl_scenario_bad(err, name, label_of(section), "must be the name of a descriptor (a string) or an object, is %s",
                            kvl_json_kind_name(name->kind));
  }
  char path[KVL_PATH_CAP];
  char *text = NULL;
  size_t size = 0;
  struct kvl_json *base = NULL;
  int rc = find_descriptor(doc, section, name, path, err);
  if (rc == 0) {
    rc = kvl_scenario_read_file(path, &text, &size, err);
  }
  if (rc == 0) {
    rc = kvl_file_parse(&doc->arena, text, size, path, kvl_file_kind_of(kind_of(section)), &base, err);
  }
  free(text);
  if (rc != 0) {
    return rc;
  }
  if (base->kind != KVL_JSON_OBJECT) {
    return kvl_scenario_bad(err, base, label_of(section), "a descriptor must be an object, is %s", kvl_json_kind_name(base->kind));
  }
  rc = kvl_file_check_kind(base, path, kvl_file_kind_of(kind_of(section)), err);
  rc = rc != 0 ? rc : expand(doc, section, base, depth + 1, &base, err);
  if (rc == 0) {
    if (over != NULL) {
      merge(section, base, over);
    }
    *out = base;
  }
  return rc;
}

int kvl_scenario_expand(struct kvl_scenario_doc *doc, const char *section, struct kvl_err *err)
{
  struct kvl_json *node = kvl_json_member(doc->root, section), *full = NULL;
  if (node == NULL) {
    return 0;
  }
  int rc = expand(doc, section, node, 0, &full, err);
  if (rc == 0 && full != node) {
    kvl_json_put(doc->root, section, full);
  }
  return rc;
}

int kvl_scenario_locate(const struct kvl_scenario_doc *doc, const char *typed, bool from_command, char path[KVL_PATH_CAP])
{
  char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP];
  unsigned count = kvl_scenario_folders(doc, "", folders);
  if (strlen(typed) >= KVL_PATH_CAP) {
    return -ENAMETOOLONG;
  }
  if (typed[0] != '/' && !(from_command && kvl_scenario_readable(typed))) {
    for (unsigned i = 0; i < count; i++) {
      if (join(path, folders[i], typed, "") && kvl_scenario_readable(path)) {
        return 0;
      }
    }
    if (!from_command && !kvl_scenario_readable(typed) && join(path, doc->folder, typed, "")) {
      return 0; /* does not exist: whoever opens it says so, with this name */
    }
  }
  memcpy(path, typed, strlen(typed) + 1);
  return 0;
}

/* A file as it is; a bare name in the folders of its kind. */
int kvl_scenario_find_file(const char *name, enum kvl_file_kind kind, char path[KVL_PATH_CAP], struct kvl_err *err)
{
  char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP];
  size_t n = strlen(name);
  bool folder = is_folder(name);
  if ((!folder && access(name, F_OK) == 0) || strchr(name, '/') != NULL || (n > 5 && strcmp(name + n - 5, ".json") == 0)) {
    return n < KVL_PATH_CAP ? (memcpy(path, name, n + 1), 0) : kvl_err_set(err, -EINVAL, "%.80s...: the name is too long", name);
  }
  unsigned count = kvl_scenario_folders(NULL, kvl_file_folder(kind), folders);
  const char *nearest = NULL;
  struct kvl_arena arena = {0};
  int rc = -ENOENT;
  for (unsigned i = 0; i < count && rc != 0; i++) {
    const char **names;
    unsigned found = 0;
    if (join(path, folders[i], name, ".json") && kvl_scenario_readable(path)) {
      rc = 0;
    } else if (nearest == NULL && kvl_scenario_names(&arena, folders[i], &names, &found, NULL) == 0 && found > 0) {
      nearest = kvl_nearest(name, names, found);
    }
  }
  if (rc != 0 && folder && n < KVL_PATH_CAP) {
    memcpy(path, name, n + 1); /* whoever opens it says so */
    rc = 0;
  }
  if (rc != 0 && kvl_file_check_name(name, kind, err) == 0) {
    (void)kvl_err_set(err, rc, "%s: there is no such %s%s%s%s", name, kvl_file_name(kind), nearest == NULL ? "" : " (nearest: ", nearest == NULL ? "" : nearest,
                      nearest == NULL ? "" : ")");
  }
  kvl_arena_free(&arena);
  return rc;
}
