/* Which of kvloan's files a file is: JSON by the members that only its kind has, the others by how they begin. A plan given to a command that takes scenarios is answered
 * with the command that takes plans, a workload with the key that takes workloads. */
#ifndef KVL_SIM_FILE_KIND_H
#define KVL_SIM_FILE_KIND_H

#include "sim/scenario_json.h"

enum kvl_file_kind {
  KVL_FILE_SCENARIO,
  KVL_FILE_PLAN,
  KVL_FILE_SWEEP,
  KVL_FILE_MODEL,
  KVL_FILE_HARDWARE,
  KVL_FILE_COSTS,
  KVL_FILE_SPECULATION,
  KVL_FILE_KINDS
};

const char *kvl_file_name(enum kvl_file_kind kind); /* "plan" */

/* The folder of the kind's files below scenarios/: "" for the scenarios themselves. */
const char *kvl_file_folder(enum kvl_file_kind kind);
enum kvl_file_kind kvl_file_kind_of(const char *folder);

/* The members that a plan or a sweep may have; NULL and 0 for the other kinds, which follow from kvl_keys. */
const char *const *kvl_file_members(enum kvl_file_kind kind, unsigned *count);

/* Reads the JSON of a file of the wanted kind: kvl_json_parse, but what is none of our JSON files is named. -EINVAL: "file: this is a workload, not a scenario (nearest:
 * --set=workload.kind=file --set=workload.file=file)" (selection traces, decision logs, result stores), or "file: not a scenario: looks like gzip data: unpack it first". */
int kvl_file_parse(struct kvl_arena *arena, const char *text, size_t size, const char *file, enum kvl_file_kind wanted, struct kvl_json **root, struct kvl_err *err);

/* -EINVAL when `root`, an object out of `file`, has no member that is the wanted kind's alone but has one that is another's: "file:line: member: this is a plan,
 * not a scenario (nearest: kvloan plan file)". 0 otherwise: what else is wrong with it, its reader says. */
int kvl_file_check_kind(const struct kvl_json *root, const char *file, enum kvl_file_kind wanted, struct kvl_err *err);

/* The same for a name that was looked up among the wanted kind and not found: -ENOENT with the kind that has one of this name, or 0. */
int kvl_file_check_name(const char *name, enum kvl_file_kind wanted, struct kvl_err *err);

#endif
