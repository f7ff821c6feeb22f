/* Speculative decoding as DSpark does it (arXiv 2607.05147): which drafts are verified, and which of them are accepted.
 *
 * Each request of a batch drafts a block of tokens and says for each how likely the model is to keep it, given that it kept those before: the
 * confidences. Their running product is the draft's chance to survive. Drafts of all requests together are admitted in order of survival while
 * the expected tokens a second of the step grow, by a table of step times that may be right or stale (M14).
 *
 * Probabilities are unsigned Q0.32 (UINT32_MAX stands for certainty); no double takes part in a decision. */
#ifndef KVL_SIM_DSPARK_H
#define KVL_SIM_DSPARK_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "sim/model.h"

/* How likely draft i is kept when those before it were: conditional[0 .. drafts - 1]. */
struct kvl_dspark_curve {
  uint32_t drafts;
  uint32_t conditional[KVL_DRAFTS_MAX];
};

/* Shapes read off a figure of the DSpark paper, of another model's drafts: maths, code, chat. Later positions than it has go on with its last value.
 * -EINVAL: no such shape, or drafts > KVL_DRAFTS_MAX. */
int kvl_dspark_shape(struct kvl_dspark_curve *curve, const char *name, uint32_t drafts);
/* Scales all conditionals by one factor (none above certainty) so that verifying every draft gives `mean` tokens a step on average, the one that the
 * model adds itself included; in thousandths. Exact to 0.001. -ERANGE: not between 1 and drafts + 1. */
int kvl_dspark_scale(struct kvl_dspark_curve *curve, uint64_t mean_milli);
/* From published accepted lengths (x: drafts a step, y: mean tokens a step, thousandths): what each further draft adds. A length that does not grow adds
 * nothing. -EINVAL: fewer points than drafts, or x not 1, 2, 3 ... */
int kvl_dspark_lengths(struct kvl_dspark_curve *curve, const struct kvl_curve *lengths, uint32_t drafts);
/* Mean tokens a step, thousandths, when `drafts` of them are verified. */
uint64_t kvl_dspark_mean_milli(const struct kvl_dspark_curve *curve, uint32_t drafts);

/* What becomes of the draft for token `token` (its position in the session) at place `position` of its block. Drawn from (seed, session, token) alone, so a
 * token meets the same luck in every mode and at every batch. The confidence varies by token around the curve, evenly between c - w and c + w with w =
 * spread x min(c, 1 - c); it is the probability with which the token is kept, so the mean is the curve's whatever the spread. */
struct kvl_dspark_luck {
  uint64_t accept_key, confidence_key;
  uint32_t spread_permille;
};
void kvl_dspark_luck_init(struct kvl_dspark_luck *luck, uint64_t seed, uint32_t spread_permille);
bool kvl_dspark_draw(const struct kvl_dspark_luck *luck, const struct kvl_dspark_curve *curve, uint64_t session, uint32_t token, uint32_t position,
                     uint32_t *confidence);

/* ---- the scheduler ---- */

struct kvl_dspark_request {
  uint32_t drafts;                     /* offered, at most KVL_DRAFTS_MAX */
  uint32_t confidence[KVL_DRAFTS_MAX];
};
struct kvl_dspark_slot {               /* a draft that may be next */
  uint32_t survival, request, position;
};

/* Chooses verified[i] <= request[i].drafts. Drafts are taken in order of survival (ties: request, then position). step_ns[n] is the table: duration of a
 * step that verifies n tokens, n up to count + all drafts; draft_ns is added to each. With `best` the prefix with the most expected tokens a second wins (the
 * shortest of equals); without, admission ends at the first draft that does not raise them. heap has room for `count`. Returns the sum of verified. */
uint32_t kvl_dspark_plan(const struct kvl_dspark_request *request, uint32_t count, const uint64_t *step_ns, uint64_t draft_ns, bool best,
                         struct kvl_dspark_slot *heap, uint32_t *verified);

/* ---- for the engine: all of the above, as a scenario says ---- */

struct kvl_dspark {
  struct kvl_dspark_curve curve;
  struct kvl_dspark_luck luck;
  bool best;
  uint64_t *step_ns, *draft_ns;        /* the scheduler's table: by verified tokens, by requests */
  struct kvl_dspark_request *request;  /* scratch of a plan, by place in the batch */
  struct kvl_dspark_slot *heap;
  uint32_t *verified;
};

/* For batches of up to `slots`. 0, -ENOMEM, or -EINVAL with a line that names the key. */
int kvl_dspark_open(struct kvl_dspark *d, const struct kvl_scenario *scenario, uint32_t slots, struct kvl_err *err);
void kvl_dspark_close(struct kvl_dspark *d);
/* The curve of a scenario; -EINVAL and a line naming the key. */
int kvl_dspark_curve_of(struct kvl_dspark_curve *curve, const struct kvl_scenario *scenario, struct kvl_err *err);

#endif
