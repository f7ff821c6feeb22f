#include "sim/trace_note.h"

#include <stdio.h>

#include "traces/trace.h"

/* "65536" or "1000 to 65536". */
static void range_text(char text[48], uint32_t low, uint32_t high)
{
  (void)(low == high ? snprintf(text, 48, "%u", low) : snprintf(text, 48, "%u to %u", low, high));
}

/* NULL: no trace is replayed, or it cannot be read. */
static struct kvl_trace *replayed(const struct kvl_scenario *s, struct kvl_trace_totals *totals)
{
  struct kvl_trace *trace = NULL;
  if (s->selection.kind != KVL_SELECT_TRACE || s->mode == KVL_MODE_RESIDENT || kvl_trace_open(&trace, s->selection.path, NULL) != 0) {
    return NULL;
  }
  kvl_trace_totals_of(trace, totals);
  return trace;
}

bool kvl_trace_note(const struct kvl_scenario *s, uint64_t tokens_max, char *text, size_t size)
{
  uint64_t wanted = s->workload.kind == KVL_WORK_FILE ? tokens_max : s->workload.input_tokens;
  struct kvl_trace_totals totals;
  uint32_t low = UINT32_MAX, high = 0;
  struct kvl_trace *trace = wanted == 0 ? NULL : replayed(s, &totals);
  if (trace == NULL) {
    return false;
  }
  for (uint32_t i = 0; i < totals.sessions; i++) {
    uint32_t tokens = kvl_trace_session_of(trace, i)->input_tokens;
    low = tokens < low ? tokens : low;
    high = tokens > high ? tokens : high;
  }
  kvl_trace_close(trace);
  if (totals.sessions == 0 || (wanted * 10 >= (uint64_t)low * 9 && wanted * 10 <= (uint64_t)high * 11)) {
    return false;
  }
  char recorded[48];
  range_text(recorded, low, high);
  (void)snprintf(text, size, "note: the trace was recorded at histories of %s tokens and is replayed at %s%llu: its selections keep their distance from the "
                 "end, their spread over such a history is a guess", recorded, s->workload.kind == KVL_WORK_FILE ? "up to " : "",
                 (unsigned long long)wanted);
  return true;
}

bool kvl_trace_drafts_note(const struct kvl_scenario *s, char *text, size_t size)
{
  struct kvl_trace_totals totals;
  uint32_t queries = kvl_queries_max(s);
  struct kvl_trace *trace = queries == 1 ? NULL : replayed(s, &totals);
  if (trace == NULL) {
    return false;
  }
  kvl_trace_close(trace);
  if (totals.queries_max >= queries) {
    return false;
  }
  (void)snprintf(text, size, "note: steps of up to %u queries on a trace of up to %u: what was not recorded takes the rows of the recorded step that stands at the draft's token, "
                 "as if the draft were right; its rows not committed yet become the newest that are", queries, totals.queries_max);
  return true;
}
