#include "sim/dspark.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "sim/costs.h"

__extension__ typedef unsigned __int128 u128;

enum { SHAPE_POINTS = 5 };
#define ONE ((uint64_t)1 << 32)

/* ---- acceptance ---- */

static const struct {
  const char *name;
  uint32_t permille[SHAPE_POINTS];
} shapes[] = {
  {"maths", {905, 890, 888, 886, 888}},
  {"code", {885, 872, 860, 860, 858}},
  {"chat", {735, 738, 740, 745, 757}},
};

static uint32_t clamped(uint64_t q32)
{
  return q32 >= ONE ? UINT32_MAX : (uint32_t)q32;
}

int kvl_dspark_shape(struct kvl_dspark_curve *curve, const char *name, uint32_t drafts)
{
  for (uint32_t s = 0; drafts <= KVL_DRAFTS_MAX && s < sizeof shapes / sizeof shapes[0]; s++) {
    if (strcmp(shapes[s].name, name) == 0) {
      curve->drafts = drafts;
      for (uint32_t i = 0; i < drafts; i++) {
        curve->conditional[i] = clamped(ONE * shapes[s].permille[i < SHAPE_POINTS ? i : SHAPE_POINTS - 1] / 1000);
      }
      return 0;
    }
  }
  return -EINVAL;
}

uint64_t kvl_dspark_mean_milli(const struct kvl_dspark_curve *curve, uint32_t drafts)
{
  uint64_t survival = ONE, sum = ONE;
  for (uint32_t i = 0; i < drafts && i < curve->drafts; i++) {
    survival = (survival * curve->conditional[i] + ONE / 2) >> 32;
    sum += survival;
  }
  return (sum * 1000 + ONE / 2) >> 32;
}

/* `factor` is Q32. */
static struct kvl_dspark_curve scaled(const struct kvl_dspark_curve *curve, uint64_t factor)
{
  struct kvl_dspark_curve out = *curve;
  for (uint32_t i = 0; i < out.drafts; i++) {
    u128 c = (u128)curve->conditional[i] * factor >> 32;
    out.conditional[i] = c >= ONE ? UINT32_MAX : (uint32_t)c;
  }
  return out;
}

int kvl_dspark_scale(struct kvl_dspark_curve *curve, uint64_t mean_milli)
{
  if (mean_milli < 1000 || mean_milli > ((uint64_t)curve->drafts + 1) * 1000) {
    return -ERANGE;
  }
  uint64_t low = 0, high = 4 * ONE; /* the mean grows with the factor; at 4 every shape is certain */
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    struct kvl_dspark_curve tried = scaled(curve, middle);
    *(kvl_dspark_mean_milli(&tried, tried.drafts) < mean_milli ? &low : &high) = middle;
  }
  *curve = scaled(curve, high);
  return 0;
}

int kvl_dspark_lengths(struct kvl_dspark_curve *curve, const struct kvl_curve *lengths, uint32_t drafts)
{
  if (drafts > KVL_DRAFTS_MAX || lengths->n < drafts) {
    return -EINVAL;
  }
  uint64_t before = ONE, length = 1000; /* survival of the draft before; mean length so far */
  curve->drafts = drafts;
  for (uint32_t i = 0; i < drafts; i++) {
    if (lengths->x[i] != i + 1) {
      return -EINVAL;
    }
    uint64_t more = lengths->y[i] > length ? lengths->y[i] - length : 0, survival = more * ONE / 1000;
    survival = survival < before ? survival : before; /* no draft outlives the one before it */
    curve->conditional[i] = before == 0 ? 0 : clamped((uint64_t)((u128)survival * ONE / before));
    before = survival;
    length = lengths->y[i] > length ? lengths->y[i] : length;
  }
  return 0;
}

void kvl_dspark_luck_init(struct kvl_dspark_luck *luck, uint64_t seed, uint32_t spread_permille)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "acceptance", 0);
  luck->accept_key = kvl_rng_next(&rng);
  kvl_rng_init(&rng, seed, "confidence", 0);
  luck->confidence_key = kvl_rng_next(&rng);
  luck->spread_permille = spread_permille;
}

static uint32_t drawn(uint64_t key, uint64_t session, uint32_t token)
{
  return (uint32_t)(kvl_rng_mix(kvl_rng_mix(key ^ kvl_rng_mix(session)) + token) >> 32);
}

bool kvl_dspark_draw(const struct kvl_dspark_luck *luck, const struct kvl_dspark_curve *curve, uint64_t session, uint32_t token, uint32_t position,
                     uint32_t *confidence)
{
  uint32_t c = curve->conditional[position], room = c < UINT32_MAX - c ? c : UINT32_MAX - c;
  uint64_t w = (uint64_t)room * luck->spread_permille / 1000;
  *confidence = (uint32_t)(c - w + ((2 * w * drawn(luck->confidence_key, session, token)) >> 32));
  return drawn(luck->accept_key, session, token) < *confidence;
}

/* ---- the scheduler ---- */

static bool before(const struct kvl_dspark_slot *a, const struct kvl_dspark_slot *b)
{
  if (a->survival != b->survival) {
    return a->survival > b->survival;
  }
  return a->request != b->request ? a->request < b->request : a->position < b->position;
}

static void sift_down(struct kvl_dspark_slot *heap, uint32_t count, uint32_t at)
{
  struct kvl_dspark_slot moved = heap[at];
  for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && before(&heap[child + 1], &heap[child])) {
      child++;
    }
    if (!before(&heap[child], &moved)) {
      break;
    }
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

/* Admits up to `limit` drafts. One draft of each request is in the heap: the next one that it offers. Survival never grows along a block, so the order over all
 * is kept. Returns the length of the prefix with the highest rate; all that were admitted are in `verified`. */
static uint32_t admit(const struct kvl_dspark_request *request, uint32_t count, const uint64_t *step_ns, uint64_t draft_ns, bool best, uint32_t limit,
                      struct kvl_dspark_slot *heap, uint32_t *verified)
{
  uint32_t heads = 0;
  for (uint32_t r = 0; r < count; r++) {
    verified[r] = 0;
    if (request[r].drafts != 0) {
      heap[heads++] = (struct kvl_dspark_slot){.survival = request[r].confidence[0], .request = r, .position = 0};
    }
  }
  for (uint32_t i = heads / 2; i-- > 0;) {
    sift_down(heap, heads, i);
  }
  uint64_t tokens = ONE * count, best_tokens = tokens, best_ns = step_ns[count] + draft_ns;
  uint32_t best_n = 0;
  for (uint32_t n = 1; heads != 0 && n <= limit; n++) {
    struct kvl_dspark_slot top = heap[0];
    tokens += top.survival;
    uint64_t ns = step_ns[count + n] + draft_ns;
    bool grows = (u128)tokens * best_ns > (u128)best_tokens * ns;
    if (!grows && !best) {
      break;
    }
    verified[top.request]++;
    if (grows) {
      best_n = n;
      best_tokens = tokens;
      best_ns = ns;
    }
    const struct kvl_dspark_request *r = &request[top.request];
    if (++top.position < r->drafts) {
      top.survival = (uint32_t)(((uint64_t)top.survival * r->confidence[top.position]) >> 32);
      heap[0] = top;
    } else {
      heap[0] = heap[--heads];
    }
    if (heads != 0) {
      sift_down(heap, heads, 0);
    }
  }
  return best_n;
}

uint32_t kvl_dspark_plan(const struct kvl_dspark_request *request, uint32_t count, const uint64_t *step_ns, uint64_t draft_ns, bool best,
                         struct kvl_dspark_slot *heap, uint32_t *verified)
{
  uint32_t n = admit(request, count, step_ns, draft_ns, best, UINT32_MAX, heap, verified);
  if (best) { /* what lies behind the peak is let go again */
    (void)admit(request, count, step_ns, draft_ns, true, n, heap, verified);
  }
  return n;
}

/* ---- for the engine ---- */

int kvl_dspark_curve_of(struct kvl_dspark_curve *curve, const struct kvl_scenario *s, struct kvl_err *err)
{
  uint32_t drafts = s->speculation.drafts;
  if (s->speculation.accepted_lengths.n != 0) {
    if (kvl_dspark_lengths(curve, &s->speculation.accepted_lengths, drafts) != 0) {
      return kvl_err_set(err, -EINVAL, "%s: speculation.accepted_lengths: must give the lengths of 1, 2, .. %u drafts, without a gap", s->file, drafts);
    }
  } else if (kvl_dspark_shape(curve, s->speculation.shape, drafts) != 0) {
    return kvl_err_set(err, -EINVAL, "%s: speculation.shape: there is no shape \"%s\" of %u drafts", s->file, s->speculation.shape, drafts);
  }
  if (s->speculation.accepted_mean_milli != 0 && kvl_dspark_scale(curve, s->speculation.accepted_mean_milli) != 0) {
    return kvl_err_set(err, -EINVAL, "%s: speculation.accepted_mean: must be from 1 to %u, drafts + 1 (nearest: %u)", s->file, drafts + 1,
                       s->speculation.accepted_mean_milli < 1000 ? 1 : drafts + 1);
  }
  return 0;
}

int kvl_dspark_open(struct kvl_dspark *d, const struct kvl_scenario *s, uint32_t slots, struct kvl_err *err)
{
  memset(d, 0, sizeof *d);
  int rc = kvl_dspark_curve_of(&d->curve, s, err);
  if (rc != 0) {
    return rc;
  }
  kvl_dspark_luck_init(&d->luck, s->seed, s->speculation.confidence_spread_permille);
  d->best = s->speculation.stop == KVL_STOP_BEST;
  uint32_t tokens = slots * (d->curve.drafts + 1);
  d->step_ns = calloc(tokens + 1, sizeof *d->step_ns);
  d->draft_ns = calloc(slots + 1, sizeof *d->draft_ns);
  d->request = calloc(slots, sizeof *d->request);
  d->heap = calloc(slots, sizeof *d->heap);
  d->verified = calloc(slots, sizeof *d->verified);
  if (d->step_ns == NULL || d->draft_ns == NULL || d->request == NULL || d->heap == NULL || d->verified == NULL) {
    kvl_dspark_close(d);
    return kvl_err_set(err, -ENOMEM, "no memory for the speculation of %u requests", slots);
  }
  for (uint32_t n = 1; n <= tokens; n++) {
    d->step_ns[n] = s->speculation.cost_ns_by_tokens.n != 0 ? kvl_curve_at(&s->speculation.cost_ns_by_tokens, n, NULL)
                                                            : kvl_costs_compute_ns(s, n, 0, NULL);
  }
  for (uint32_t n = 1; n <= slots; n++) {
    d->draft_ns[n] = s->speculation.draft_cost_ns_by_requests.n != 0 ? kvl_curve_at(&s->speculation.draft_cost_ns_by_requests, n, NULL)
                                                                     : kvl_costs_draft_ns(s, n, NULL);
  }
  return 0;
}

void kvl_dspark_close(struct kvl_dspark *d)
{
  free(d->step_ns);
  free(d->draft_ns);
  free(d->request);
  free(d->heap);
  free(d->verified);
  memset(d, 0, sizeof *d);
}
