/* What the readers of designs share: plans (sim/plan_read.c) and sweeps (sim/sweep_read.c) are JSON files that name scenario keys and values for them. Messages are
 * "file:line: member: reason (nearest: ...)"; errors are -EINVAL, -ENOENT, -ENOMEM. Private to the two. */
#ifndef KVL_SIM_DESIGN_JSON_H
#define KVL_SIM_DESIGN_JSON_H

#include "sim/file_kind.h"
#include "sim/scenario_doc.h"

/* `object` is one and has no members but the `count` known ones; `what` is it, for the message ("a plan"). */
int kvl_design_members(const struct kvl_json *object, const char *what, const char *const *known, unsigned count, struct kvl_err *err);
/* The root of a design's file: of this kind, without other members. */
int kvl_design_kind(const struct kvl_json *root, const char *file, enum kvl_file_kind kind, const char *what, struct kvl_err *err);
/* A string of `least` to `most` bytes (most 0: any) without control characters. `fallback` NULL: it must be there. */
int kvl_design_word(const struct kvl_json *object, const char *key, const char *fallback, unsigned least, unsigned most, const char **word, struct kvl_err *err);
/* A string that is one of `count` choices; the first is the default. */
int kvl_design_choice(const struct kvl_json *object, const char *key, const char *const *choices, unsigned count, unsigned *choice, struct kvl_err *err);
/* A whole number; `label` names it in messages. */
int kvl_design_count(const struct kvl_json *object, const char *label, const char *key, uint64_t fallback, uint64_t min, uint64_t max, uint64_t *count, struct kvl_err *err);
/* A number from `min` to `max`; NaN when it is not there. */
int kvl_design_amount(const struct kvl_json *object, const char *key, double min, double max, double *value, struct kvl_err *err);
/* A number as JSON writes it, with nothing before or behind it. -EINVAL: it is none. */
int kvl_design_number(const char *word, double *value);
/* Is `value` one that the scenario key may take? The seed is `owner`'s own ("the plan's"). */
int kvl_design_pair(const char *owner, const char *key, const struct kvl_json *value, struct kvl_err *err);
/* The same value, as JSON texts: 512, 512.0 and 5.12e2 are. */
bool kvl_design_same(const char *a, const char *b);
/* The file of the member "scenario" in `path`: a file's name begins in the folder of `file`, the design, or in the current one. */
int kvl_design_scenario(const char *file, const struct kvl_json *root, const char *scenario, char path[KVL_PATH_CAP], struct kvl_err *err);
/* What a design is called that does not say: its file's name without folder and .json, `most` bytes of it, in the arena; NULL: no memory. */
const char *kvl_design_name(struct kvl_arena *arena, const char *file, size_t most);
/* Does one of the assignments "KEY=VALUE" begin with `key`? Its index, or -1. */
int kvl_design_typed(const char *const *typed, unsigned count, const char *key);

#endif
