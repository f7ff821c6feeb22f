/* What is to be said of a run on a trace file, each of it one line.
 *
 * A recorded trace says where it was recorded: at which history. Replayed over another one, rows keep their distance from the end (traces/selection.h), but how
 * the indexer spreads its selections over that history is not what was recorded. */
#ifndef KVL_SIM_TRACE_NOTE_H
#define KVL_SIM_TRACE_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/model.h"

/* True, and one line into text, when the scenario replays a trace whose sessions began at histories more than a tenth away from those that the
 * workload asks for (fixed-size workloads: its input; files: `tokens_max`, the largest request, if not 0). False where nothing is to be said, or the trace
 * cannot be read (whoever opens it for the run says so). */
bool kvl_trace_note(const struct kvl_scenario *scenario, uint64_t tokens_max, char *text, size_t size);

/* True, and one line, when steps with drafts have more queries than any that was recorded: where the rows of the others come from (kvl_source_open_trace). */
bool kvl_trace_drafts_note(const struct kvl_scenario *scenario, char *text, size_t size);

#endif
