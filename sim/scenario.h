/* Reading scenarios: JSON files, descriptors, --set overrides. One table of keys drives parsing, checking, docs and `scenario check`. */
#ifndef KVL_SIM_SCENARIO_H
#define KVL_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdio.h>

#include "backend/base/err.h"
#include "results/summary.h"
#include "sim/model.h"

/* Reads `path` (or, without a slash and .json, the scenario of that name in $KVLOAN_SCENARIOS or the installation), applies `sets` ("path.to.key=value", values as JSON or bare words), reads the named descriptors (scenarios/models/NAME.json,
 * scenarios/hardware/NAME.json, scenarios/costs/NAME.json: beside the scenario file, in its parent folder, or in the installed data folder), and
 * checks everything: unknown keys, wrong types, impossible values, a capacity that cannot hold one session. One line of error with file, line, key,
 * reason and the nearest valid choice; -EINVAL (or -ENOENT, -EIO). */
struct kvl_scenario_doc; /* the scenario with the origin of every value, for printing */
int kvl_scenario_load(struct kvl_scenario_doc **doc, const char *path, const char *const *sets, unsigned set_count, struct kvl_err *err);
/* The same from text (a stored run's JSON); `file` is its name for messages, and its folder is where relative names begin. */
int kvl_scenario_parse(struct kvl_scenario_doc **doc, const char *text, size_t size, const char *file, const char *const *sets,
                       unsigned set_count, struct kvl_err *err);
void kvl_scenario_free(struct kvl_scenario_doc *doc);
const struct kvl_scenario *kvl_scenario_of(const struct kvl_scenario_doc *doc);

/* Changes a loaded scenario and checks it again; as if --set had been given. */
int kvl_scenario_set(struct kvl_scenario_doc *doc, const char *assignment, struct kvl_err *err);

/* The whole resolved scenario (descriptors included, defaults filled in) as one line of canonical JSON; caller frees. Loading it again gives the
 * same scenario: a stored run can be repeated from it. */
char *kvl_scenario_json(const struct kvl_scenario_doc *doc);

/* `kvloan scenario check`: bytes per session by part, sessions that fit in each mode and what binds, host bytes, where each number comes from. */
int kvl_scenario_explain(FILE *out, enum kvl_format format, const struct kvl_scenario_doc *doc);

/* The rest of the capacity check, for workloads whose largest session is known only once their file is read: can the node hold one session of
 * `tokens` in the scenario's mode? -EINVAL says how much is missing. */
int kvl_scenario_check_tokens(const struct kvl_scenario_doc *doc, uint64_t tokens, struct kvl_err *err);

/* For what somebody typed as --set for one run: -EINVAL and a line when the scenario does not read such a key, because it is one of a kind (of workload, of
 * selections, of compute, of speculation) that it does not have. Sweeps and plans set the keys of several kinds together and do not ask. */
int kvl_scenario_check_sets(const struct kvl_scenario_doc *doc, struct kvl_err *err);

/* True, and a sentence without a full stop into text, when times of steps, of drafting or of prefill that the scenario reads are stand-ins by their origins, or when it
 * has drafts and drafting takes no time. */
bool kvl_scenario_note(const struct kvl_scenario_doc *doc, char *text, size_t size);

/* One model alone: by the name of a descriptor or by its file. -ENOENT or -EINVAL and a line that names the nearest. */
int kvl_scenario_load_model(const char *name, struct kvl_model *model, struct kvl_err *err);

/* Hardware alone. Is there a descriptor of that name (or file), with all that it follows by "from"? `option` is the word that it was typed with. -ENOENT or
 * -EINVAL and a line that names the nearest. */
int kvl_scenario_find_hardware(const char *name, const char *option, struct kvl_err *err);
/* Would a scenario take this text, which is to be `file`, as its hardware? -EINVAL and a line with file, line, key and reason. */
int kvl_scenario_check_hardware(const char *text, size_t size, const char *file, struct kvl_err *err);

/* Names and one line on each of the scenarios, of the parts that they name, and of the sweeps and plans in $KVLOAN_SCENARIOS or the installation. -ENOENT: none.
 * passed: how many are passed over because their name is not printable UTF-8; NULL: never mind. */
int kvl_scenario_list(FILE *out, enum kvl_format format, unsigned *passed);

/* Every key with type, unit, range, default and meaning, as Markdown. */
void kvl_scenario_write_keys(FILE *out);

#endif
