/* What whoever reads a run's times must know about the numbers that they hang on. */
#include <stdio.h>
#include <string.h>

#include "sim/scenario_doc.h"

bool kvl_scenario_note(const struct kvl_scenario_doc *doc, char *text, size_t size)
{
  static const char *const keys[] = {"costs.step_ms_by_tokens", "costs.law_fixed_ms",     "costs.law_token_ms",           "costs.draft_ms_by_requests",
                                     "costs.prefill_fixed_ms",  "costs.prefill_token_us", "costs.prefill_cached_token_us"};
  bool drafts_are_free = doc->scenario.speculation.method != KVL_SPECULATION_NONE && doc->scenario.costs.draft_ns_by_requests.n == 0;
  char names[256] = "";
  int used = 0;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const char *doubt = kvl_scenario_doubt(doc, kvl_scenario_key(keys[i]));
    if (doubt != NULL && strcmp(doubt, "stand-in") == 0 && kvl_scenario_reads(&doc->scenario, keys[i])) {
      used += snprintf(names + used, sizeof names - (size_t)used, "%s%s", used == 0 ? "" : ", ", keys[i]);
    }
  }
  if (used != 0) {
    (void)snprintf(text, size, "Stand-ins, neither measured nor fitted for this model on this part: %s; step times and times to first token hang on them (kvloan scenario "
                   "check says what they are)%s", names, drafts_are_free ? "; and drafting costs nothing in this profile (costs.draft_ms_by_requests has no points)" : "");
  } else if (drafts_are_free) {
    (void)snprintf(text, size, "Drafting costs nothing in this profile (costs.draft_ms_by_requests has no points): drafts gain less than is said here");
  }
  return used != 0 || drafts_are_free;
}
