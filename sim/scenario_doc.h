/* Inside of the scenario reader: what its files share. Nobody else includes this. */
#ifndef KVL_SIM_SCENARIO_DOC_H
#define KVL_SIM_SCENARIO_DOC_H

#include "sim/file_kind.h"
#include "sim/scenario.h"
#include "sim/scenario_json.h"
#include "sim/scenario_keys.h"

/* Where a value comes from. */
struct kvl_origin {
  const char *text;  /* as stated in the file ("origin"), "--set", or NULL */
  const char *place; /* file or --set argument; NULL: the default */
  uint32_t line;
};

/* The stated origin of a number inside model.caches. */
struct kvl_inner_origin {
  const char *path; /* "model.caches.3.row_bytes" */
  const char *text;
  struct kvl_inner_origin *next;
};

struct kvl_scenario_doc {
  struct kvl_scenario scenario;
  struct kvl_arena arena;
  struct kvl_json *root;
  struct kvl_origin *origin;      /* one a key, in the order of kvl_keys */
  struct kvl_inner_origin *inner; /* newest first */
  char file[KVL_PATH_CAP];        /* name for messages */
  char folder[KVL_PATH_CAP];      /* where relative names begin */
  const char *typed_path[2];      /* workload.file and selection.file as typed */
  char *text;                     /* of the scenario file */
  size_t size;
  char **set;                     /* assignments, in order */
  unsigned sets;
};

/* scenario_find.c */
int kvl_scenario_read_file(const char *path, char **text, size_t *size, struct kvl_err *err); /* -ENOENT, -EIO, -EINVAL, -ENOMEM */
/* The file of a scenario: a path as it is, a name ("agent-sample", "h200/half-revoked") looked up. -ENOENT names the nearest. */
int kvl_scenario_find_scenario(const char *name, char path[KVL_PATH_CAP], struct kvl_err *err);
bool kvl_scenario_readable(const char *path); /* a plain file, or a link to one */
/* The same for plans and sweeps. */
int kvl_scenario_find_file(const char *name, enum kvl_file_kind kind, char path[KVL_PATH_CAP], struct kvl_err *err);
enum { KVL_FOLDERS_MAX = 8 };
/* Folders that are searched for `kind` ("models", "hardware", "costs", "speculation", or "" for the scenarios themselves), in order. Returns how many. */
unsigned kvl_scenario_folders(const struct kvl_scenario_doc *doc, const char *kind, char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP]);
/* Names (without .json) in one folder, sorted, into the arena. Those that are not printable UTF-8 are passed over; `passed`, unless it is NULL, grows by how many. */
int kvl_scenario_names(struct kvl_arena *arena, const char *folder, const char ***names, unsigned *count, unsigned *passed);
/* The same of scenarios, those in folders of the folder last and with that folder's name: "h200/half-revoked". A folder that is there by several names (a link to it, a link
 * to the folder itself) is there once, by its own name when that is among them. */
int kvl_scenario_scenarios(struct kvl_arena *arena, const char *folder, const char ***names, unsigned *count, unsigned *passed);
/* The name that `name` was perhaps meant to be, with its folder or without; NULL when there are none (or no memory). */
const char *kvl_scenario_nearest(struct kvl_arena *arena, const char *name, const char *const *names, unsigned count);
/* Puts the descriptor's tree in the place of its name: reads files, follows "from". `section` is "model", "hardware", "costs" or "speculation". */
int kvl_scenario_expand(struct kvl_scenario_doc *doc, const char *section, struct kvl_err *err);
/* Full name of a file given in a scenario or on the command line. */
int kvl_scenario_locate(const struct kvl_scenario_doc *doc, const char *typed, bool from_command, char path[KVL_PATH_CAP]);

/* scenario_set.c: applies one assignment to the tree. */
int kvl_scenario_assign(struct kvl_scenario_doc *doc, const char *assignment, struct kvl_err *err);

/* scenario_read.c: the tree into the struct. */
int kvl_scenario_read(struct kvl_scenario_doc *doc, struct kvl_err *err);
int kvl_scenario_read_model(struct kvl_scenario_doc *doc, struct kvl_err *err); /* its model only */
int kvl_scenario_read_hardware(struct kvl_scenario_doc *doc, struct kvl_err *err);
/* Is there such a key, and is `value` one that it may take by itself? For designs that name keys before there is a scenario. "model", "costs",
 * "speculation" and "node.hardware" take a name or an object; what lies below model.caches is left to the scenario. -EINVAL: file, line, key, reason, nearest. */
int kvl_scenario_check_value(const char *path, const struct kvl_json *value, struct kvl_err *err);
/* "file:line: path: reason" into err; returns code. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
int kvl_scenario_bad(struct kvl_err *err, const struct kvl_json *node, const char *path, const char *format, ...);

/* scenario_check.c: what one key cannot know alone. */
int kvl_scenario_check(const struct kvl_scenario_doc *doc, struct kvl_err *err);

/* scenario_explain.c: how a value is known, when neither public nor measured: "calibrated", "estimate", "assumed", "stand-in", "open", "start value",
 * "not published", "chosen", from the first words of its origin. NULL: there is nothing to doubt, or nothing is said. */
const char *kvl_scenario_doubt(const struct kvl_scenario_doc *doc, uint32_t key);

/* scenario.c: messages quote what was typed: no line break or escape sequence in it reaches the terminal. Returns rc. */
int kvl_scenario_one_line(struct kvl_err *err, int rc);

/* scenario_unread.c: false for a key that belongs to another kind of workload, selections, compute or speculation than the scenario's. */
bool kvl_scenario_reads(const struct kvl_scenario *scenario, const char *path);

/* Index in kvl_keys; asserts that the path is there. */
uint32_t kvl_scenario_key(const char *path);
/* The value of a key as canonical JSON text (strings quoted); caches and curves have their own writers. */
enum { KVL_VALUE_TEXT_MAX = 2 * KVL_PATH_CAP + 16, KVL_ORIGIN_MAX = 512 };
const char *kvl_scenario_value_text(const struct kvl_key *key, const void *base, char buffer[KVL_VALUE_TEXT_MAX]);

#endif
