/* The search of a plan: rounds, and what is decided between them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/design_json.h"
#include "sim/explain.h"
#include "sim/plan.h"
#include "sim/scenario_doc.h"

/* A screened candidate that misses by more than this is not promising; one that is not promising is run in full only when nothing better is left. */
#define SCREEN_SLACK 0.10
#define SAME_COST 0.01
enum { FINALISTS = 4, BATCHES_MAX = 3, CLASS_MAX = 1, ROUND_POINTS_MAX = 4000, PINNED_TEXT = 400 };

struct finder {
  struct kvl_plan_search *s;
  const struct kvl_capacity_plan *plan;
  struct kvl_capacity_plan *own;  /* the same, its axes filled in */
  kvl_plan_run_fn *run;
  void *context;
  struct kvl_plan_screen *screen;
  struct kvl_arena arena; /* values of axes and variants */
  struct kvl_err *err;
};

static int no_memory(const struct finder *f)
{
  return kvl_err_set(f->err, -ENOMEM, "%s: out of memory", f->plan->file);
}

/* ---- judging ---- */

void kvl_plan_judge(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c, const struct kvl_summary *sum, bool priced, struct kvl_plan_figures *f)
{
  static const bool more_is_better[KVL_PLAN_TARGETS] = {[KVL_PLAN_RATE] = true, [KVL_PLAN_HOLD] = true};
  memset(f, 0, sizeof *f);
  f->known = true;
  f->throughput = sum->output_throughput_tok_per_s;
  f->value[KVL_PLAN_TTFT] = sum->ttft_s.p90;
  f->value[KVL_PLAN_RATE] = sum->request_rate_tok_per_s_p10;
  f->value[KVL_PLAN_TPOT] = sum->tpot_ms.p90;
  f->value[KVL_PLAN_HOLD] = (double)c->fit_all;
  f->worst = -INFINITY;
  for (int t = 0; t < KVL_PLAN_TARGETS; t++) {
    double asked = plan->target[t], is = f->value[t];
    f->missed[t] = isnan(asked) ? NAN : more_is_better[t] ? (is > 0 ? asked / is - 1 : 1e6) : is / asked - 1;
    f->worst = !isnan(f->missed[t]) && f->missed[t] > f->worst ? f->missed[t] : f->worst;
  }
  if (sum->requests_aborted > 0 || sum->requests_completed == 0) { /* clients that go away are no service */
    f->worst = f->worst > 1 ? f->worst : 1;
  }
  f->steady = c->open && kvl_steady_ratio(sum) > 0;
  double output = f->steady ? f->throughput * kvl_steady_ratio(sum) : f->throughput, hours = output > 0 ? 1e6 / output / 3600 : INFINITY;
  f->cost = hours * (priced ? c->price : (double)c->gpus);
}

unsigned kvl_plan_parts(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c)
{
  const char *mode = plan->axis[KVL_AXIS_MODE].value[c->at[KVL_AXIS_MODE]][0];
  const char *prefetch = c->at[KVL_AXIS_PREFETCH] == KVL_PLAN_NOT ? NULL : plan->axis[KVL_AXIS_PREFETCH].value[c->at[KVL_AXIS_PREFETCH]][0];
  const char *speculation = c->at[KVL_AXIS_SPECULATION] == KVL_PLAN_NOT ? NULL : plan->axis[KVL_AXIS_SPECULATION].value[c->at[KVL_AXIS_SPECULATION]][0];
  unsigned parts = mode == NULL || strcmp(mode, "\"resident\"") == 0 ? 0 : strcmp(mode, "\"fixed\"") == 0 ? 1 : 2;
  parts += prefetch != NULL && strcmp(prefetch, "\"none\"") != 0 ? 2 : 0;
  return parts + (speculation != NULL ? 2 : 0);
}

int kvl_plan_compare(const struct kvl_plan_figures *a, unsigned a_parts, const struct kvl_plan_figures *b, unsigned b_parts)
{
  bool met_a = a->known && a->worst <= 0, met_b = b->known && b->worst <= 0;
  if (a->known != b->known || met_a != met_b) {
    return a->known != b->known ? (a->known ? -1 : 1) : (met_a ? -1 : 1);
  }
  if (!a->known) {
    return 0;
  }
  if (!met_a) { /* near enough alike: the simpler, then the cheaper */
    double x = 1 + a->worst, y = 1 + b->worst;
    if (x < y * (1 - SAME_COST) || y < x * (1 - SAME_COST)) {
      return x < y ? -1 : 1;
    }
    return a_parts != b_parts ? (a_parts < b_parts ? -1 : 1) : (a->cost > b->cost) - (a->cost < b->cost);
  }
  if (a->cost < b->cost * (1 - SAME_COST) || b->cost < a->cost * (1 - SAME_COST)) {
    return a->cost < b->cost ? -1 : 1;
  }
  if (a_parts != b_parts) {
    return a_parts < b_parts ? -1 : 1;
  }
  return (a->worst > b->worst) - (a->worst < b->worst);
}

/* What several seeds say together: the worst of each. */
static struct kvl_plan_figures together(const struct kvl_plan_candidate *c)
{
  struct kvl_plan_figures sum = c->full[0];
  uint32_t n = 0;
  double cost = 0.0;
  for (uint32_t r = 0; r < c->seeds; r++) {
    const struct kvl_plan_figures *f = &c->full[r];
    if (!f->known) {
      sum.known = r == 0 ? false : sum.known;
      continue;
    }
    n++;
    cost += f->cost;
    sum.worst = f->worst > sum.worst ? f->worst : sum.worst;
  }
  sum.cost = n > 0 ? cost / n : INFINITY;
  return sum;
}

/* Another way, not the same with other sizes: node, decode GPUs, mode, prefetch, speculation, or an axis of the plan's own. */
static bool differ(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *a, const struct kvl_plan_candidate *b)
{
  static const char none[] = "\"none\"";
  const char *kind[2];
  const struct kvl_plan_candidate *const both[] = {a, b};
  for (int i = 0; i < 2; i++) {
    uint8_t at = both[i]->at[KVL_AXIS_PREFETCH];
    const char *is = at == KVL_PLAN_NOT ? NULL : plan->axis[KVL_AXIS_PREFETCH].value[at][0];
    kind[i] = is == NULL ? none : is;
  }
  bool other = a->node != b->node || strcmp(kind[0], kind[1]) != 0;
  for (unsigned x = 0; x < plan->axes; x++) {
    bool size = x == KVL_AXIS_PREFILL || x == KVL_AXIS_HOT || x == KVL_AXIS_PREFETCH || x == KVL_AXIS_PAGE || x == KVL_AXIS_GIVE_BACK;
    other = other || (!size && a->at[x] != b->at[x]);
  }
  return other;
}

static bool same_class(const struct kvl_plan_candidate *a, const struct kvl_plan_candidate *b)
{
  return a->node == b->node && a->at[KVL_AXIS_GPUS] == b->at[KVL_AXIS_GPUS] && a->at[KVL_AXIS_PREFILL] == b->at[KVL_AXIS_PREFILL] && a->at[KVL_AXIS_MODE] == b->at[KVL_AXIS_MODE] &&
         a->at[KVL_AXIS_SPECULATION] == b->at[KVL_AXIS_SPECULATION];
}

/* The best of those that were run in full with `seeds` at least; with `but`, the best other than that one, `ways`: in another way. -1: none. */
static int best_with(const struct kvl_plan_search *s, const struct kvl_capacity_plan *plan, int but, bool ways, uint32_t seeds)
{
  int best = -1;
  struct kvl_plan_figures at;
  for (uint32_t i = 0; i < s->candidates; i++) {
    struct kvl_plan_candidate *c = &s->candidate[i];
    if (c->seeds < seeds || !c->full[0].known || (but >= 0 && ((int)i == but || (ways && !differ(plan, c, &s->candidate[but]))))) {
      continue;
    }
    struct kvl_plan_figures now = together(c);
    if (best < 0 || kvl_plan_compare(&now, kvl_plan_parts(plan, c), &at, kvl_plan_parts(plan, &s->candidate[best])) < 0) {
      best = (int)i;
      at = now;
    }
  }
  return best;
}

/* Once repeats are done, one that was run with one seed and is a shade cheaper does not take the place of one that meets the target with all of its own. */
static int best_of(const struct kvl_plan_search *s, const struct kvl_capacity_plan *plan, int but, bool ways)
{
  uint32_t most = 1;
  for (uint32_t i = 0; i < s->candidates && s->settled; i++) {
    most = s->candidate[i].seeds > most ? s->candidate[i].seeds : most;
  }
  int best = most > 1 ? best_with(s, plan, but, ways, most) : -1;
  return best >= 0 && together(&s->candidate[best]).worst <= 0 ? best : best_with(s, plan, but, ways, 1);
}

static int best_full(const struct kvl_plan_search *s, const struct kvl_capacity_plan *plan, int but)
{
  int found = best_of(s, plan, but, but >= 0);
  return found < 0 && but >= 0 ? best_of(s, plan, but, false) : found;
}

/* ---- a round ---- */

static int run_round(struct finder *f, const char *name, struct kvl_plan_candidate *const *point, uint32_t points, uint32_t repeats, uint64_t seed,
                     bool summary_only, struct kvl_plan_result **cells)
{
  struct kvl_sweep *design = NULL;
  uint32_t tasks = points * repeats;
  struct kvl_plan_result *cell = calloc(tasks + 1u, sizeof *cell), *got = calloc(tasks + 1u, sizeof *got); /* of the candidates; of the design's points */
  const struct kvl_plan_candidate **view = calloc(points + 1u, sizeof *view);
  uint32_t *at = calloc(points + 1u, sizeof *at);
  *cells = cell;
  if (cell == NULL || got == NULL || view == NULL || at == NULL || f->s->rounds == KVL_PLAN_ROUNDS_MAX) {
    free(at);
    free(got);
    free(view);
    return no_memory(f);
  }
  for (uint32_t p = 0; p < points; p++) {
    view[p] = point[p];
  }
  int rc = kvl_plan_design(&design, f->own, name, view, points, repeats, seed, at, f->err);
  if (rc == 0) {
    rc = kvl_sweep_resolve(design, f->err);
    if (rc == -EINVAL && design->reason != NULL && design->impossible == design->points) { /* an answer too */
      for (uint32_t t = 0; t < kvl_sweep_tasks(design); t++) {
        (void)snprintf(got[t].reason, sizeof got[t].reason, "%.290s", design->reason[t / repeats]);
      }
      rc = 0;
    } else if (rc == 0) {
      rc = f->run(f->context, design, summary_only, got, f->err);
    }
  }
  for (uint32_t t = 0; t < tasks && rc == 0; t++) {
    cell[t] = got[at[t / repeats] * repeats + t % repeats];
    cell[t].point = at[t / repeats] + 1;
  }
  struct kvl_plan_round *round = &f->s->round[f->s->rounds++];
  (void)snprintf(round->name, sizeof round->name, "%s", name);
  round->points = rc == 0 ? design->points : points;
  round->repeats = repeats;
  (void)snprintf(round->hash, sizeof round->hash, "%s", design != NULL ? design->hash : "");
  for (uint32_t t = 0; rc == 0 && t < kvl_sweep_tasks(design); t++) {
    round->failed += !got[t].complete;
  }
  kvl_sweep_free(design);
  free(at);
  free(got);
  free(view);
  return rc;
}

/* The scenario of a candidate. */
static int scenario_of(struct finder *f, const struct kvl_plan_candidate *c, struct kvl_scenario_doc **doc, struct kvl_err *err)
{
  struct kvl_sweep *design = NULL;
  uint32_t at;
  int rc = kvl_plan_design(&design, f->own, "one", &c, 1, 1, f->plan->seed, &at, err);
  rc = rc != 0 ? rc : kvl_sweep_scenario(design, 0, doc, err);
  kvl_sweep_free(design);
  return rc;
}

/* ---- axes and candidates ---- */

static const char *keep(struct finder *f, unsigned long long number)
{
  char text[64];
  (void)snprintf(text, sizeof text, "%llu", number);
  return kvl_arena_text(&f->arena, text, strlen(text));
}

static void add_number(struct finder *f, struct kvl_plan_axis *axis, uint64_t number)
{
  const char *text = keep(f, number);
  for (uint32_t v = 0; v < axis->values && text != NULL; v++) {
    text = axis->value[v][0] != NULL && strcmp(axis->value[v][0], text) == 0 ? NULL : text;
  }
  if (text != NULL && axis->values < KVL_PLAN_VALUES_MAX) {
    axis->value[axis->values++][0] = text;
  }
}

/* Half of it, a quarter, ..., 1. */
static void add_halves(struct finder *f, struct kvl_plan_axis *axis, uint32_t number)
{
  while ((number /= 2) >= 1) {
    add_number(f, axis, number);
  }
}

static void add_pair(struct kvl_plan_axis *axis, const char *first, const char *second)
{
  axis->value[axis->values][0] = first;
  axis->value[axis->values++][1] = second;
}

/* What is wrong with the scenario of a node, with its place: the option that says so, or the plan and the node. */
static int misplaced(struct finder *f, unsigned node, int code, const char *why)
{
  for (unsigned i = f->plan->typed_count; i-- > 0;) {
    const char *typed = f->plan->typed[i];
    size_t length = strcspn(typed, "=");
    if (strncmp(why, typed, length) == 0 && why[length] == ':') {
      return kvl_err_set(f->err, code, "--set=%s: %s", typed, why);
    }
  }
  return kvl_err_set(f->err, code, "%s: %s%s%s%s", f->plan->file, f->plan->nodes > 1 ? "node " : "", f->plan->nodes > 1 ? f->plan->node[node].name : "",
                     f->plan->nodes > 1 ? ": " : "", why);
}

static const struct kvl_plan_pair *pair_of(const struct kvl_plan_pair *set, unsigned sets, const char *key)
{
  unsigned i = 0;
  while (i < sets && strcmp(set[i].key, key) != 0) {
    i++;
  }
  return i < sets ? &set[i] : NULL;
}

static const char *quoted(struct finder *f, const char *word)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  kvl_text_json_string(out, word);
  const char *kept = fclose(out) == 0 ? kvl_arena_text(&f->arena, text, size) : NULL;
  free(text);
  return kept;
}

/* A descriptor by the name that it was given by, as the search lists them; by its own name otherwise. */
static const char *speculation_of(struct finder *f, unsigned node, const struct kvl_scenario *s)
{
  const struct kvl_capacity_plan *plan = f->plan;
  const struct kvl_plan_pair *pair = pair_of(plan->node[node].set, plan->node[node].sets, "speculation");
  int typed = kvl_design_typed(plan->typed, plan->typed_count, "speculation");
  pair = pair != NULL ? pair : pair_of(plan->set, plan->sets, "speculation");
  if (s->speculation.method == KVL_SPECULATION_NONE) {
    return "\"none\"";
  }
  if (typed >= 0 && strchr("{\"", plan->typed[typed][12]) == NULL) {
    return quoted(f, plan->typed[typed] + 12);
  }
  return typed < 0 && pair != NULL && pair->value[0] == '"' ? pair->value : quoted(f, s->speculation.name);
}

/* What the scenario of a node has on each axis: shown where an axis leaves it as it is. */
static void note_own(struct finder *f, unsigned node, const struct kvl_scenario *s)
{
  static const char *const prefetches[] = {"\"none\"", "\"pool\"", "\"plan\""};
  const char *own[KVL_AXES_OWN] = {
    [KVL_AXIS_GPUS] = keep(f, s->node.decode_gpus),
    [KVL_AXIS_PREFILL] = keep(f, s->node.prefill_gpus),
    [KVL_AXIS_MODE] = quoted(f, kvl_mode_name(s->mode)),
    [KVL_AXIS_HOT] = keep(f, s->policy.hot_rows),
    [KVL_AXIS_PREFETCH] = prefetches[s->policy.prefetch],
    [KVL_AXIS_SPECULATION] = speculation_of(f, node, s),
    [KVL_AXIS_PAGE] = keep(f, s->policy.page_tokens),
    [KVL_AXIS_GIVE_BACK] = keep(f, s->policy.give_back_bytes_max),
  };
  for (int a = 0; a < KVL_AXES_OWN; a++) {
    struct kvl_plan_axis *axis = &f->own->axis[a];
    bool new = own[a] != NULL;
    for (unsigned i = 0; i < axis->owns && new; i++) {
      new = strcmp(axis->own[i], own[a]) != 0;
    }
    if (new) {
      axis->own[axis->owns++] = own[a];
    }
  }
}

/* A scenario that can be read, of the first node and in the first mode that has one. What is not there at all (a descriptor, a file) is an error whichever node names it. */
static int probe(struct finder *f, struct kvl_scenario_doc **doc)
{
  static const char *const modes[] = {NULL, "\"adaptive\"", "\"fixed\"", "\"resident\""};
  int rc = 0;
  bool found = false;
  for (unsigned node = 0; node < f->plan->nodes; node++) {
    struct kvl_scenario_doc *one = NULL;
    struct kvl_err first = {""};
    int code = -EINVAL;
    for (int m = 0; m < (pair_of(f->plan->set, f->plan->sets, "mode") != NULL ? 1 : 4) && code != 0; m++) { /* a mode that is set is the one that must do */
      struct kvl_plan_candidate c = {.node = (uint8_t)node};
      struct kvl_err err = {""};
      memset(c.at, KVL_PLAN_NOT, sizeof c.at);
      if (modes[m] != NULL) {
        c.extra[c.extras++] = (struct kvl_plan_pair){"mode", modes[m]};
      }
      code = scenario_of(f, &c, &one, &err);
      if (code == -ENOENT || code == -ENOMEM) {
        kvl_scenario_free(found ? *doc : NULL);
        *doc = NULL;
        return code == -ENOMEM ? no_memory(f) : misplaced(f, node, code, err.text);
      }
      first = m == 0 ? err : first;
    }
    if (code == 0) {
      note_own(f, node, kvl_scenario_of(one));
    }
    if (code == 0 && !found) {
      *doc = one;
      found = true;
    } else if (code == 0) {
      kvl_scenario_free(one);
    } else if (rc == 0) {
      rc = misplaced(f, node, code, first.text);
    }
  }
  return found ? 0 : rc;
}

static bool can_speculate(struct finder *f, const char *name)
{
  static const char *const modes[] = {"\"adaptive\"", "\"resident\""}; /* a node without a host pool has the second alone */
  bool can = false;
  for (int m = 0; m < 2 && !can; m++) {
    struct kvl_plan_candidate c = {.node = 0};
    struct kvl_scenario_doc *doc = NULL;
    struct kvl_err ignored;
    memset(c.at, KVL_PLAN_NOT, sizeof c.at);
    c.extra[c.extras++] = (struct kvl_plan_pair){"speculation", name};
    c.extra[c.extras++] = (struct kvl_plan_pair){"mode", modes[m]};
    can = scenario_of(f, &c, &doc, &ignored) == 0;
    kvl_scenario_free(doc);
  }
  return can;
}

/* Does setting this key take the axis out of the search? Its own key does, and any key of a speculation: a descriptor would write over it. */
static bool concerns(const char *key, size_t length, int axis, const char *axis_key)
{
  size_t n = strlen(axis_key);
  return strncmp(key, axis_key, n) == 0 && (length == n || (axis == KVL_AXIS_SPECULATION && length > n && key[n] == '.'));
}

static const struct kvl_plan_pair *pair_that_concerns(const struct kvl_plan_pair *set, unsigned sets, int axis, const char *axis_key)
{
  for (unsigned i = sets; i-- > 0;) {
    if (concerns(set[i].key, strlen(set[i].key), axis, axis_key)) {
      return &set[i];
    }
  }
  return NULL;
}

/* Is the key given by anyone: the plan, a node, the command line, an axis of the plan's own? Then the search writes no value of its own over it. */
static bool is_given(const struct kvl_capacity_plan *plan, const char *key)
{
  bool given = pair_of(plan->set, plan->sets, key) != NULL || kvl_design_typed(plan->typed, plan->typed_count, key) >= 0;
  for (unsigned n = 0; n < plan->nodes; n++) {
    given = given || pair_of(plan->node[n].set, plan->node[n].sets, key) != NULL;
  }
  for (unsigned a = KVL_AXES_OWN; a < plan->axes; a++) {
    given = given || strcmp(plan->axis[a].label, key) == 0;
  }
  return given;
}

/* In words, what takes the axis out of the search; "": nothing does. What is typed holds over the file. */
static void pinned_by(const struct finder *f, int a, bool by_node, char text[PINNED_TEXT])
{
  const struct kvl_capacity_plan *plan = f->plan;
  const char *key = f->own->axis[a].key[0];
  const struct kvl_plan_pair *set = pair_that_concerns(plan->set, plan->sets, a, key);
  text[0] = '\0';
  if (by_node) {
    (void)snprintf(text, PINNED_TEXT, "the nodes of the plan");
  } else if (set != NULL) {
    (void)snprintf(text, PINNED_TEXT, "\"set\": {\"%s\": %s} in the plan", set->key, set->value);
  } else if (a == KVL_AXIS_SPECULATION && is_given(plan, "speculation.method")) {
    (void)snprintf(text, PINNED_TEXT, "speculation.method, which is given or searched by itself");
  }
  for (unsigned i = 0; i < plan->typed_count; i++) {
    if (concerns(plan->typed[i], strcspn(plan->typed[i], "="), a, key)) {
      (void)snprintf(text, PINNED_TEXT, "--set=%s", plan->typed[i]);
    }
  }
}

/* What the plan sets is not searched: the axis has the one value, or, where nodes differ in it, each node's own. */
static void pin(struct finder *f)
{
  for (int a = 0; a < KVL_AXES_OWN; a++) {
    struct kvl_plan_axis *axis = &f->own->axis[a];
    bool by_node = false;
    char by[PINNED_TEXT];
    for (unsigned n = 0; n < f->plan->nodes; n++) {
      by_node = by_node || pair_that_concerns(f->plan->node[n].set, f->plan->node[n].sets, a, axis->key[0]) != NULL;
    }
    pinned_by(f, a, by_node, by);
    if (axis->given || by[0] == '\0') {
      continue;
    }
    axis->given = true;
    axis->pinned = kvl_arena_text(&f->arena, by, strlen(by));
    add_pair(axis, by_node || a == KVL_AXIS_SPECULATION || axis->owns == 0 ? NULL : axis->own[0], NULL);
  }
}

static int fill_axes(struct finder *f, const struct kvl_scenario *s)
{
  static const char *const kinds[] = {"dspark", "mtp"};
  struct kvl_plan_axis *axis = f->own->axis;
  uint32_t k = 1, gpus = s->node.decode_gpus;
  bool parts = false, selects = s->selection.kind != KVL_SELECT_NONE;
  pin(f);
  for (uint32_t p = 0; p < s->model.selection.points; p++) {
    k = s->model.selection.point[p].k > k ? s->model.selection.point[p].k : k;
  }
  for (uint32_t c = 0; c < s->model.caches; c++) {
    parts = parts || s->model.cache[c].layers > 1;
  }
  if (!axis[KVL_AXIS_GPUS].given) {
    add_number(f, &axis[KVL_AXIS_GPUS], gpus);
    if (gpus > 1) {
      add_number(f, &axis[KVL_AXIS_GPUS], gpus - 1);
    }
    add_number(f, &axis[KVL_AXIS_GPUS], gpus + 1u);
    add_number(f, &axis[KVL_AXIS_GPUS], 2ull * gpus);
    add_halves(f, &axis[KVL_AXIS_GPUS], gpus);
  }
  if (!axis[KVL_AXIS_PREFILL].given) {
    uint32_t prefill = s->node.prefill_gpus;
    add_number(f, &axis[KVL_AXIS_PREFILL], prefill);
    add_number(f, &axis[KVL_AXIS_PREFILL], prefill > 1 ? prefill - 1 : 1);
    add_number(f, &axis[KVL_AXIS_PREFILL], prefill + 1u);
    add_halves(f, &axis[KVL_AXIS_PREFILL], prefill);
  }
  if (!axis[KVL_AXIS_MODE].given) {
    add_pair(&axis[KVL_AXIS_MODE], "\"resident\"", NULL);
    add_pair(&axis[KVL_AXIS_MODE], "\"fixed\"", NULL);
    add_pair(&axis[KVL_AXIS_MODE], "\"adaptive\"", NULL);
  }
  if (!axis[KVL_AXIS_HOT].given) {
    for (uint32_t n = 1; n <= 8 && selects; n *= 2) {
      add_number(f, &axis[KVL_AXIS_HOT], (uint64_t)n * k);
    }
    if (!selects) {
      add_number(f, &axis[KVL_AXIS_HOT], s->policy.hot_rows);
    }
  }
  if (!axis[KVL_AXIS_PREFETCH].given) {
    const char *rows = keep(f, (unsigned long long)s->model.pool_blocks * s->model.pool_rows_per_block);
    bool bank_set = is_given(f->plan, "policy.bank_rows");
    rows = bank_set ? NULL : rows;
    add_pair(&axis[KVL_AXIS_PREFETCH], "\"none\"", !bank_set && (s->model.pool_blocks > 0 || s->policy.bank_rows > 0) ? "0" : NULL);
    if (s->model.pool_blocks > 0 && selects) {
      add_pair(&axis[KVL_AXIS_PREFETCH], "\"pool\"", rows);
    }
    if (parts && selects) {
      add_pair(&axis[KVL_AXIS_PREFETCH], "\"plan\"", !bank_set && s->policy.bank_rows > 0 ? "0" : NULL);
    }
  }
  if (!axis[KVL_AXIS_SPECULATION].given) {
    add_pair(&axis[KVL_AXIS_SPECULATION], NULL, s->speculation.method != KVL_SPECULATION_NONE ? "\"none\"" : NULL);
    for (int i = 0; i < 2; i++) {
      char name[KVL_NAME_MAX + 16];
      (void)snprintf(name, sizeof name, "\"%s.%s\"", s->model.name, kinds[i]);
      const char *kept = kvl_arena_text(&f->arena, name, strlen(name));
      if (kept != NULL && can_speculate(f, kept)) {
        add_pair(&axis[KVL_AXIS_SPECULATION], kept, NULL);
      }
    }
  }
  if (!axis[KVL_AXIS_PAGE].given) {
    add_number(f, &axis[KVL_AXIS_PAGE], s->policy.page_tokens);
  }
  if (!axis[KVL_AXIS_GIVE_BACK].given) {
    add_number(f, &axis[KVL_AXIS_GIVE_BACK], s->policy.give_back_bytes_max);
  }
  f->s->priced = !isnan(f->plan->node[0].gpu_hour);
  return 0;
}

static bool is_mode(const struct kvl_capacity_plan *plan, const struct kvl_plan_candidate *c, const char *mode)
{
  const char *is = plan->axis[KVL_AXIS_MODE].value[c->at[KVL_AXIS_MODE]][0];
  return is != NULL && strcmp(is, mode) == 0; /* NULL: each node's own */
}

/* Axes that mean nothing in a mode are left out, so that no two candidates are the same. */
static bool is_redundant(const struct kvl_capacity_plan *plan, struct kvl_plan_candidate *c)
{
  bool resident = is_mode(plan, c, "\"resident\""), fixed = is_mode(plan, c, "\"fixed\"");
  static const int rows[] = {KVL_AXIS_HOT, KVL_AXIS_PREFETCH};
  for (int i = 0; i < 2 && resident; i++) {
    if (c->at[rows[i]] != 0) {
      return true;
    }
    c->at[rows[i]] = KVL_PLAN_NOT;
  }
  if (resident || fixed) {
    if (c->at[KVL_AXIS_GIVE_BACK] != 0) {
      return true;
    }
    c->at[KVL_AXIS_GIVE_BACK] = KVL_PLAN_NOT;
  }
  return false;
}

static struct kvl_plan_candidate *add_candidate(struct finder *f, const struct kvl_plan_candidate *c)
{
  struct kvl_plan_search *s = f->s;
  for (uint32_t i = 0; i < s->candidates; i++) {
    if (s->candidate[i].node == c->node && memcmp(s->candidate[i].at, c->at, sizeof c->at) == 0) {
      return NULL;
    }
  }
  if (s->candidates == KVL_PLAN_CANDIDATES_MAX) {
    return NULL;
  }
  s->candidate[s->candidates] = *c;
  return &s->candidate[s->candidates++];
}

static int enumerate(struct finder *f)
{
  struct kvl_capacity_plan *plan = f->own;
  uint64_t combinations = plan->nodes;
  struct kvl_plan_axis *prefill = &plan->axis[KVL_AXIS_PREFILL];
  for (unsigned a = 0; a < plan->axes && combinations <= KVL_PLAN_CANDIDATES_MAX; a++) {
    combinations *= plan->axis[a].values;
  }
  if (combinations > KVL_PLAN_CANDIDATES_MAX && !prefill->given) { /* nobody asked for this one */
    prefill->values = 1;
    f->s->prefill_left_out = true;
  }
  combinations = plan->nodes;
  for (unsigned a = 0; a < plan->axes; a++) {
    combinations *= plan->axis[a].values;
    if (combinations > KVL_PLAN_CANDIDATES_MAX) {
      return kvl_err_set(f->err, -EINVAL, "%s: search: more than %d candidates (nearest: fewer values of %s)", plan->file, (int)KVL_PLAN_CANDIDATES_MAX, plan->axis[a].label);
    }
  }
  for (uint64_t i = 0; i < combinations; i++) {
    struct kvl_plan_candidate c;
    uint64_t rest = i;
    memset(&c, 0, sizeof c);
    memset(c.at, KVL_PLAN_NOT, sizeof c.at);
    for (unsigned a = plan->axes; a-- > 0;) {
      c.at[a] = (uint8_t)(rest % plan->axis[a].values);
      rest /= plan->axis[a].values;
    }
    c.node = (uint8_t)rest;
    if (!is_redundant(plan, &c)) {
      (void)add_candidate(f, &c);
    }
  }
  return 0;
}

/* ---- what a candidate's scenario says before it is run ---- */

static void find_fit(struct kvl_plan_candidate *c, const struct kvl_scenario *s, uint64_t tokens)
{
  struct kvl_session_bytes b;
  kvl_session_bytes(s, tokens, &b);
  bool resident = s->mode == KVL_MODE_RESIDENT;
  uint64_t page = kvl_page_bytes(s), pool = kvl_pool_bytes(s) / page * page, need = resident ? b.resident : b.fixed;
  c->fit = need > 0 ? pool / need : 0;
  c->bound_by = resident ? "HBM pool: whole histories" : "HBM fixed part";
  if (!resident && s->node.sessions_per_gpu_max > 0 && s->node.sessions_per_gpu_max < c->fit) {
    c->fit = s->node.sessions_per_gpu_max;
    c->bound_by = "admission: node.sessions_per_gpu_max";
  }
  if (s->limits.batch_max > 0 && s->limits.batch_max < c->fit) {
    c->fit = s->limits.batch_max;
    c->bound_by = "admission: limits.batch_max";
  }
  uint64_t host = resident || b.host == 0 ? UINT64_MAX : s->node.host_pool_bytes / b.host; /* one pool for all GPUs */
  c->fit_all = c->fit * s->node.decode_gpus;
  if (host < c->fit_all) {
    c->fit = host < c->fit ? host : c->fit;
    c->fit_all = host;
    c->bound_by = "host memory";
  }
}

static int describe(struct finder *f, struct kvl_plan_candidate *c, char **table)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err why = {""};
  uint64_t input, output, most;
  int rc = scenario_of(f, c, &doc, &why);
  if (rc != 0) {
    if (rc == -ENOMEM || rc == -ENOENT) {
      return rc == -ENOMEM ? no_memory(f) : misplaced(f, c->node, rc, why.text);
    }
    c->impossible = true;
    (void)snprintf(c->reason, sizeof c->reason, "%.290s", why.text);
    f->s->impossible++;
    return 0;
  }
  const struct kvl_scenario *s = kvl_scenario_of(doc);
  rc = kvl_plan_tokens(s, &input, &output, &most, f->err);
  if (rc == 0) {
    c->decode_gpus = s->node.decode_gpus;
    c->gpus = s->node.decode_gpus + s->node.prefill_gpus;
    c->open = kvl_is_open_loop(s);
    c->price = f->plan->node[c->node].gpu_hour * c->gpus;
    find_fit(c, s, s->workload.kind == KVL_WORK_FILE ? input + output : most);
  }
  if (rc == 0 && table != NULL && s->mode != KVL_MODE_RESIDENT && s->selection.kind != KVL_SELECT_NONE) {
    rc = kvl_plan_screen_table(f->screen, s, table, f->err);
  }
  kvl_scenario_free(doc);
  return rc;
}

/* ---- bound and screen ---- */

static int bound_round(struct finder *f)
{
  struct kvl_plan_search *s = f->s;
  struct kvl_plan_candidate **point = calloc(s->candidates + 1u, sizeof(struct kvl_plan_candidate *));
  struct kvl_plan_result *cell = NULL;
  uint32_t n = 0;
  int rc = point == NULL ? no_memory(f) : 0;
  for (uint32_t i = 0; i < s->candidates && rc == 0; i++) {
    rc = describe(f, &s->candidate[i], NULL);
    if (rc == 0 && !s->candidate[i].impossible) {
      point[n] = &s->candidate[i];
      point[n]->extra[0] = (struct kvl_plan_pair){"selection.source", "\"none\""};
      point[n++]->extras = 1;
    }
  }
  rc = rc != 0 || n == 0 ? rc : run_round(f, "bound", point, n, 1, f->plan->seed, true, &cell);
  for (uint32_t p = 0; p < n && rc == 0; p++) {
    struct kvl_plan_candidate *c = point[p];
    c->extras = 0;
    if (!cell[p].complete) {
      c->impossible = true;
      memcpy(c->reason, cell[p].reason, sizeof c->reason);
      s->impossible++;
      continue;
    }
    kvl_plan_judge(f->plan, c, &cell[p].summary, s->priced, &c->bound);
    c->hopeless = c->bound.worst > 0;
    s->hopeless += c->hopeless;
  }
  free(cell);
  free(point);
  return rc;
}

static int screen_round(struct finder *f)
{
  struct kvl_plan_search *s = f->s;
  struct kvl_plan_candidate **point = calloc(s->candidates + 1u, sizeof(struct kvl_plan_candidate *));
  struct kvl_plan_result *cell = NULL;
  uint32_t n = 0;
  bool all_hopeless = s->hopeless + s->impossible == s->candidates; /* then the least bad are sought among all */
  s->all_hopeless = all_hopeless;
  int rc = point == NULL ? no_memory(f) : 0;
  for (uint32_t i = 0; i < s->candidates && rc == 0; i++) {
    struct kvl_plan_candidate *c = &s->candidate[i];
    char *table = NULL;
    if (c->impossible || (c->hopeless && !all_hopeless)) {
      continue;
    }
    rc = describe(f, c, &table);
    if (rc == 0 && table == NULL) { /* nothing can miss: the bound is what it does */
      c->screen = c->bound;
      c->screened = true;
      s->screened++;
    } else if (rc == 0) {
      const char *kept = kvl_arena_text(&f->arena, table, strlen(table));
      rc = kept == NULL ? no_memory(f) : 0;
      c->extra[0] = (struct kvl_plan_pair){"selection.source", "\"none\""};
      c->extra[1] = (struct kvl_plan_pair){"costs.compute", "\"table\""};
      c->extra[2] = (struct kvl_plan_pair){"costs.step_ms_by_tokens", kept};
      c->extras = 3;
      point[n++] = c;
    }
    free(table);
  }
  rc = rc != 0 || n == 0 ? rc : run_round(f, "screen", point, n, 1, f->plan->seed, true, &cell);
  for (uint32_t p = 0; p < n && rc == 0; p++) {
    struct kvl_plan_candidate *c = point[p];
    c->extras = 0;
    if (cell[p].complete) {
      kvl_plan_judge(f->plan, c, &cell[p].summary, s->priced, &c->screen);
      c->screened = true;
      s->screened++;
    }
  }
  free(cell);
  free(point);
  return rc;
}

/* ---- in full ---- */

static void take_cell(struct finder *f, struct kvl_plan_candidate *c, uint32_t repeat, const struct kvl_plan_result *cell)
{
  c->result[repeat] = *cell;
  if (cell->complete) {
    kvl_plan_judge(f->plan, c, &cell->summary, f->s->priced, &c->full[repeat]);
    f->s->work += (double)cell->summary.selections_total + (double)cell->summary.prefetch_candidates;
  }
  c->seeds = repeat + 1 > c->seeds ? repeat + 1 : c->seeds;
}

static double work_of(const struct kvl_plan_candidate *c)
{
  return (double)c->result[0].summary.selections_total + (double)c->result[0].summary.prefetch_candidates;
}

static int full_round(struct finder *f, const char *name, struct kvl_plan_candidate *const *point, uint32_t n)
{
  struct kvl_plan_result *cell = NULL;
  int rc = n == 0 ? 0 : run_round(f, name, point, n, 1, f->plan->seed, false, &cell);
  for (uint32_t p = 0; p < n && rc == 0; p++) {
    point[p]->full_asked = true;
    point[p]->round = f->s->rounds;
    point[p]->point = cell[p].point;
    take_cell(f, point[p], 0, &cell[p]);
    f->s->fulls++;
  }
  free(cell);
  return rc;
}

static struct kvl_plan_candidate *most_promising(struct finder *f, struct kvl_plan_candidate *const *taken, uint32_t n)
{
  struct kvl_plan_search *s = f->s;
  struct kvl_plan_candidate *best = NULL;
  struct kvl_plan_figures at;
  for (uint32_t i = 0; i < s->candidates; i++) {
    struct kvl_plan_candidate *c = &s->candidate[i];
    uint32_t alike = 0;
    bool is_taken = false;
    for (uint32_t t = 0; t < n; t++) {
      alike += same_class(taken[t], c);
      is_taken = is_taken || taken[t] == c;
    }
    if (!c->screened || c->full_asked || is_taken || alike >= CLASS_MAX) {
      continue;
    }
    struct kvl_plan_figures now = c->screen;
    now.worst -= SCREEN_SLACK; /* an estimate: near enough counts as met */
    if (best == NULL || kvl_plan_compare(&now, kvl_plan_parts(f->own, c), &at, kvl_plan_parts(f->own, best)) < 0) {
      best = c;
      at = now;
    }
  }
  return best;
}

static int full_rounds(struct finder *f)
{
  for (uint32_t batch = 0; batch < BATCHES_MAX; batch++) {
    struct kvl_plan_candidate *point[FINALISTS];
    char name[24];
    uint32_t n = 0;
    while (n < FINALISTS) {
      struct kvl_plan_candidate *c = most_promising(f, point, n);
      if (c == NULL || (batch > 0 && c->screen.worst > SCREEN_SLACK)) { /* later batches are for what could still meet it */
        break;
      }
      point[n++] = c;
    }
    if (batch > 0 && f->s->work > 0.6 * f->plan->effort && n > 0) {
      f->s->short_of_effort = true;
      return 0;
    }
    (void)snprintf(name, sizeof name, batch == 0 ? "full" : "full %u", (unsigned)batch + 1);
    int rc = full_round(f, name, point, n);
    if (rc != 0 || n == 0) {
      return rc;
    }
    int best = best_full(f->s, f->own, -1);
    if (best >= 0 && f->s->candidate[best].full[0].worst <= 0) {
      return 0;
    }
  }
  return 0;
}

/* ---- fine ---- */

/* A neighbour of the best: one axis at `number`, the bank's rows in the case of prefetch. */
static void add_neighbour(struct finder *f, const struct kvl_plan_candidate *from, int axis, uint64_t number, struct kvl_plan_candidate **point, uint32_t *n)
{
  struct kvl_plan_axis *a = &f->own->axis[axis];
  struct kvl_plan_candidate c;
  memset(&c, 0, sizeof c);
  c.node = from->node;
  memcpy(c.at, from->at, sizeof c.at);
  bool bank = axis == KVL_AXIS_PREFETCH;
  if (c.at[axis] == KVL_PLAN_NOT || a->given || (bank && is_given(f->plan, "policy.bank_rows"))) { /* the plan says what it may be: those values are candidates already */
    return;
  }
  const char *text = keep(f, number), *kind = bank ? a->value[c.at[axis]][0] : NULL;
  uint32_t v = 0;
  while (text != NULL && v < a->values &&
         (bank ? kind == NULL || strcmp(a->value[v][0], kind) != 0 || a->value[v][1] == NULL || strcmp(a->value[v][1], text) != 0 : strcmp(a->value[v][0], text) != 0)) {
    v++;
  }
  if (text == NULL || v == KVL_PLAN_VALUES_MAX) {
    return;
  }
  if (v == a->values) {
    add_pair(a, bank ? kind : text, bank ? text : NULL);
  }
  c.at[axis] = (uint8_t)v;
  struct kvl_plan_candidate *added = add_candidate(f, &c);
  if (added == NULL) { /* it is a candidate already: run it if it was not */
    for (uint32_t i = 0; i < f->s->candidates; i++) {
      struct kvl_plan_candidate *other = &f->s->candidate[i];
      if (other->node == c.node && memcmp(other->at, c.at, sizeof c.at) == 0 && !other->full_asked && !other->impossible) {
        added = other;
      }
    }
  }
  if (added != NULL) {
    point[(*n)++] = added;
  }
}

static int fine_round(struct finder *f)
{
  enum { NEIGHBOURS = 12 };
  struct kvl_plan_candidate *point[NEIGHBOURS];
  struct kvl_scenario_doc *doc = NULL;
  uint32_t n = 0;
  int best = best_full(f->s, f->own, -1);
  if (best < 0) {
    return 0;
  }
  const struct kvl_plan_candidate *c = &f->s->candidate[best];
  double work = work_of(c), left = 0.45 * (f->plan->effort - f->s->work);
  uint32_t room = !(work > 0) || left / work > NEIGHBOURS ? NEIGHBOURS : left / work < 0 ? 0 : (uint32_t)(left / work);
  int rc = scenario_of(f, c, &doc, f->err);
  if (rc == 0) {
    const struct kvl_scenario *s = kvl_scenario_of(doc);
    if (s->selection.kind != KVL_SELECT_NONE) {
      add_neighbour(f, c, KVL_AXIS_HOT, s->policy.hot_rows + s->policy.hot_rows / 2, point, &n);
      add_neighbour(f, c, KVL_AXIS_HOT, s->policy.hot_rows / 4 * 3, point, &n);
    }
    if (s->policy.prefetch == KVL_PREFETCH_POOL) {
      add_neighbour(f, c, KVL_AXIS_PREFETCH, s->policy.bank_rows / 2, point, &n);
      add_neighbour(f, c, KVL_AXIS_PREFETCH, s->policy.bank_rows / 4, point, &n);
      add_neighbour(f, c, KVL_AXIS_PREFETCH, s->policy.bank_rows / 4 * 3, point, &n);
      add_neighbour(f, c, KVL_AXIS_PREFETCH, s->policy.bank_rows / 8, point, &n);
    }
    add_neighbour(f, c, KVL_AXIS_PAGE, 2ull * s->policy.page_tokens, point, &n);
    add_neighbour(f, c, KVL_AXIS_GIVE_BACK, 4 * s->policy.give_back_bytes_max, point, &n);
    if (s->policy.page_tokens >= 32) {
      add_neighbour(f, c, KVL_AXIS_PAGE, s->policy.page_tokens / 2, point, &n);
    }
    add_neighbour(f, c, KVL_AXIS_GIVE_BACK, s->policy.give_back_bytes_max / 4, point, &n);
  }
  kvl_scenario_free(doc);
  f->s->short_of_effort = f->s->short_of_effort || n > room;
  n = n < room ? n : room;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n && rc == 0; i++) {
    rc = describe(f, point[i], NULL);
    if (!point[i]->impossible) {
      point[kept++] = point[i];
    }
  }
  return rc != 0 ? rc : full_round(f, "fine", point, kept);
}

/* ---- repeats ---- */

static int repeat_round(struct finder *f)
{
  struct kvl_plan_search *s = f->s;
  /* The best may turn out to miss the target with another seed: then the next is looked at as closely. */
  for (int turn = 0; turn < 3; turn++) {
    struct kvl_plan_candidate *point[2];
    uint32_t n = 0, extra = f->plan->repeats - 1;
    char name[24];
    s->best = best_full(s, f->own, -1);
    s->runner_up = s->best < 0 ? -1 : best_full(s, f->own, s->best);
    int both[] = {s->best, s->runner_up};
    for (int i = 0; i < 2; i++) {
      if (both[i] >= 0 && s->candidate[both[i]].seeds < f->plan->repeats) {
        point[n++] = &s->candidate[both[i]];
      }
    }
    double work = 0.0, left = f->plan->effort - s->work;
    for (uint32_t i = 0; i < n; i++) {
      work += work_of(point[i]);
    }
    if (work * extra > left) {
      extra = turn == 0 ? 1 : 0; /* the answer is worth one repeat whatever it costs */
      s->short_of_effort = true;
    }
    if (n == 0 || extra == 0 || f->plan->repeats == 1) {
      return 0;
    }
    struct kvl_plan_result *cell = NULL;
    (void)snprintf(name, sizeof name, turn == 0 ? "repeat" : "repeat %d", turn + 1);
    int rc = run_round(f, name, point, n, extra, f->plan->seed + 1, true, &cell);
    for (uint32_t p = 0; p < n && rc == 0; p++) {
      for (uint32_t r = 0; r < extra; r++) {
        take_cell(f, point[p], r + 1, &cell[p * extra + r]);
      }
    }
    free(cell);
    if (rc != 0) {
      return rc;
    }
    int now = best_full(s, f->own, -1);
    if (now == s->best && best_full(s, f->own, now) == s->runner_up) {
      return 0;
    }
  }
  return 0;
}

/* ---- headroom ---- */

static int headroom_round(struct finder *f)
{
  static const double factor[KVL_PLAN_HEADROOM] = {1.1, 1.2, 1.35, 1.5, 1.75, 2, 3};
  struct kvl_plan_search *s = f->s;
  struct kvl_plan_candidate more[KVL_PLAN_HEADROOM], *point[KVL_PLAN_HEADROOM];
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_plan_result *cell = NULL;
  char *table = NULL;
  int rc = scenario_of(f, &s->candidate[s->best], &doc, f->err);
  const struct kvl_scenario *sc = rc == 0 ? kvl_scenario_of(doc) : NULL;
  bool closed = rc == 0 && sc->workload.kind == KVL_WORK_CLOSED;
  if (rc == 0 && sc->workload.kind != KVL_WORK_FILE) {
    s->load_key = closed ? "workload.concurrency" : "workload.rate_per_s";
    rc = sc->mode != KVL_MODE_RESIDENT && sc->selection.kind != KVL_SELECT_NONE ? kvl_plan_screen_table(f->screen, sc, &table, f->err) : 0;
  }
  const char *kept = table == NULL ? NULL : kvl_arena_text(&f->arena, table, strlen(table));
  free(table);
  for (int i = 0; i < KVL_PLAN_HEADROOM && rc == 0 && s->load_key != NULL; i++) {
    struct kvl_plan_candidate *c = &more[s->headrooms];
    char number[40];
    double load = closed ? floor(sc->workload.concurrency * factor[i] + 0.5) : sc->workload.rate_per_s * factor[i];
    if (closed && load <= (s->headrooms > 0 ? s->headroom[s->headrooms - 1].load : sc->workload.concurrency)) { /* whole sessions: a tenth of four is none */
      continue;
    }
    *c = s->candidate[s->best];
    c->extras = 0;
    s->headroom[s->headrooms].load = load;
    (void)snprintf(number, sizeof number, closed ? "%.0f" : "%.9g", load);
    c->extra[c->extras++] = (struct kvl_plan_pair){s->load_key, kvl_arena_text(&f->arena, number, strlen(number))};
    if (closed) { /* as many rounds of the concurrency as before */
      c->extra[c->extras++] = (struct kvl_plan_pair){"workload.requests", keep(f, (unsigned long long)((double)sc->workload.requests * factor[i] + 0.5))};
    }
    c->extra[c->extras++] = (struct kvl_plan_pair){"selection.source", "\"none\""};
    if (kept != NULL) {
      c->extra[c->extras++] = (struct kvl_plan_pair){"costs.compute", "\"table\""};
      c->extra[c->extras++] = (struct kvl_plan_pair){"costs.step_ms_by_tokens", kept};
    }
    for (unsigned e = 0; e < c->extras; e++) {
      rc = c->extra[e].value == NULL ? no_memory(f) : rc;
    }
    point[s->headrooms++] = c;
  }
  kvl_scenario_free(doc);
  rc = rc != 0 || s->headrooms == 0 ? rc : run_round(f, "headroom", point, s->headrooms, 1, f->plan->seed, true, &cell);
  for (uint32_t i = 0; i < s->headrooms && rc == 0; i++) {
    if (cell[i].complete) {
      kvl_plan_judge(f->plan, point[i], &cell[i].summary, s->priced, &s->headroom[i].figures);
    }
  }
  free(cell);
  return rc;
}

/* ---- sensitivity ---- */

static void add_variant(struct finder *f, struct kvl_plan_candidate *variants, const char *label)
{
  struct kvl_plan_search *s = f->s;
  if (s->variants < KVL_PLAN_VARIANTS_MAX) {
    (void)snprintf(s->variant[s->variants].label, sizeof s->variant[0].label, "%s", label);
    variants[s->variants] = s->candidate[s->best];
    variants[s->variants++].extras = 0;
  }
}

static void add_extra(struct kvl_plan_candidate *c, const char *key, const char *value)
{
  if (c->extras < KVL_PLAN_EXTRA && value != NULL) {
    c->extra[c->extras++] = (struct kvl_plan_pair){key, value};
  }
}

/* The measured gathers, if there are any, as JSON at `factor` of their speed. */
static const char *scaled_gathers(struct finder *f, const struct kvl_gather_table *g, double factor)
{
  char *text = NULL;
  size_t size = 0;
  const char *kept = NULL;
  FILE *out = g->counts == 0 ? NULL : open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  for (uint32_t i = 0; i < g->sizes * g->ranges * g->counts; i++) {
    (void)fprintf(out, "%s[%llu,%llu,%llu,%.3f]", i > 0 ? "," : "[", (unsigned long long)g->row_bytes[i / g->counts / g->ranges],
                  (unsigned long long)g->range_bytes[i / g->counts % g->ranges], (unsigned long long)g->rows[i % g->counts], (double)g->ns[i] / 1e3 / factor);
  }
  (void)fputc(']', out);
  if (fclose(out) == 0) {
    kept = kvl_arena_text(&f->arena, text, size);
  }
  free(text);
  return kept;
}

/* The host link at `factor` of what it carries. */
static void add_link(struct finder *f, struct kvl_plan_candidate *variants, const struct kvl_scenario *s, const char *label, double factor)
{
  uint32_t at = f->s->variants;
  char number[40], *text = NULL;
  size_t size = 0;
  const struct kvl_curve *rows = &s->hardware.link.rows_per_s;
  add_variant(f, variants, label);
  if (f->s->variants == at) {
    return;
  }
  (void)snprintf(number, sizeof number, "%.9g", (double)s->hardware.link.gather_bytes_per_s / 1e9 * factor);
  add_extra(&variants[at], "hardware.link.gather_gb_per_s", kvl_arena_text(&f->arena, number, strlen(number)));
  (void)snprintf(number, sizeof number, "%.9g", (double)s->hardware.link.copy_bytes_per_s / 1e9 * factor);
  add_extra(&variants[at], "hardware.link.copy_gb_per_s", kvl_arena_text(&f->arena, number, strlen(number)));
  FILE *out = open_memstream(&text, &size);
  if (out != NULL) {
    (void)fputc('[', out);
    for (uint32_t i = 0; i < rows->n; i++) {
      (void)fprintf(out, "%s[%llu,%.0f]", i > 0 ? "," : "", (unsigned long long)rows->x[i], (double)rows->y[i] * factor);
    }
    (void)fputc(']', out);
    if (fclose(out) == 0 && rows->n > 0) {
      add_extra(&variants[at], "hardware.link.rows_per_s_by_pool_bytes", kvl_arena_text(&f->arena, text, size));
    }
    free(text);
  }
  add_extra(&variants[at], "hardware.link.gather_us", scaled_gathers(f, &s->hardware.link.gathers, factor));
}

static int sensitive_round(struct finder *f)
{
  static const char *const presets[] = {"hot-a", "hot-b", "cold-a", "cold-b"};
  struct kvl_plan_search *s = f->s;
  struct kvl_plan_candidate variants[KVL_PLAN_VARIANTS_MAX], *point[KVL_PLAN_VARIANTS_MAX];
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_plan_result *cell = NULL;
  int rc = scenario_of(f, &s->candidate[s->best], &doc, f->err);
  if (rc != 0) {
    return rc;
  }
  const struct kvl_scenario *sc = kvl_scenario_of(doc);
  if (sc->mode != KVL_MODE_RESIDENT && sc->selection.kind == KVL_SELECT_PRESET) {
    static const int order[] = {3, 1, 2, 0}; /* the farthest first */
    for (int i = 0; i < 4; i++) {
      const char *preset = presets[order[i]];
      char label[96], quoted[24];
      if (strcmp(preset, sc->selection.preset) != 0) {
        uint32_t at = s->variants;
        (void)snprintf(label, sizeof label, "selections %s instead of %s", preset, sc->selection.preset);
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", preset);
        add_variant(f, variants, label);
        add_extra(&variants[at], "selection.preset", kvl_arena_text(&f->arena, quoted, strlen(quoted)));
      }
    }
  }
  if (sc->mode != KVL_MODE_RESIDENT) {
    add_link(f, variants, sc, "half the host link (rows, bytes and copies)", 0.5);
    add_link(f, variants, sc, "twice the host link", 2);
  }
  double work = work_of(&s->candidate[s->best]), left = f->plan->effort - s->work;
  uint32_t room = !(work > 0) || left / work > KVL_PLAN_VARIANTS_MAX ? KVL_PLAN_VARIANTS_MAX : left / work < 2 ? 2 : (uint32_t)(left / work), n = 0;
  if (s->variants > room) { /* what is left out is told; the link's half and the coldest selections stay */
    s->short_of_effort = true;
    uint32_t link = s->variants - 2;
    if (room < s->variants && link >= 1 && room >= 2) {
      variants[room - 1] = variants[link];
      s->variant[room - 1] = s->variant[link];
    }
    s->variants = room;
  }
  for (uint32_t v = 0; v < s->variants; v++) {
    point[n++] = &variants[v];
  }
  rc = n == 0 ? 0 : run_round(f, "sensitive", point, n, 1, f->plan->seed, true, &cell);
  s->variant_round = s->rounds;
  for (uint32_t v = 0; v < n && rc == 0; v++) {
    s->variant[v].result = cell[v];
    s->variant[v].point = cell[v].point;
    if (cell[v].complete) {
      kvl_plan_judge(f->plan, &variants[v], &cell[v].summary, s->priced, &s->variant[v].figures);
      s->work += (double)cell[v].summary.selections_total + (double)cell[v].summary.prefetch_candidates;
    }
  }
  kvl_scenario_free(doc);
  free(cell);
  return rc;
}

/* ---- how far screening was off ---- */

static int by_value(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void measure_screening(struct kvl_plan_search *s)
{
  double off[3][64];
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->candidates && n < 64; i++) {
    const struct kvl_plan_candidate *c = &s->candidate[i];
    if (c->screened && c->seeds > 0 && c->full[0].known && c->screen.known) {
      const struct kvl_plan_figures *a = &c->screen, *b = &c->full[0];
      off[0][n] = b->throughput > 0 ? fabs(a->throughput / b->throughput - 1) : 0;
      off[1][n] = b->value[KVL_PLAN_TTFT] > 0 ? fabs(a->value[KVL_PLAN_TTFT] / b->value[KVL_PLAN_TTFT] - 1) : 0;
      off[2][n++] = b->value[KVL_PLAN_RATE] > 0 ? fabs(a->value[KVL_PLAN_RATE] / b->value[KVL_PLAN_RATE] - 1) : 0;
    }
  }
  s->screen_compared = n;
  for (int k = 0; k < 3; k++) {
    qsort(off[k], n, sizeof off[k][0], by_value);
    s->screen_error[k] = n > 0 ? off[k][n / 2] : NAN;
  }
}

/* ---- the whole ---- */

static int keep_scenarios(struct finder *f)
{
  int both[] = {f->s->best, f->s->runner_up}, rc = 0;
  for (int i = 0; i < 2 && rc == 0; i++) {
    struct kvl_scenario_doc *doc = NULL;
    if (both[i] >= 0) {
      rc = scenario_of(f, &f->s->candidate[both[i]], &doc, f->err);
      f->s->scenario_json[i] = rc == 0 ? kvl_scenario_json(doc) : NULL;
      rc = rc == 0 && f->s->scenario_json[i] == NULL ? no_memory(f) : rc;
      kvl_scenario_free(doc);
    }
  }
  return rc;
}

static int search_all(struct finder *f)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_plan_search *s = f->s;
  int rc = probe(f, &doc);
  if (rc == 0) {
    kvl_explain_workload(kvl_scenario_of(doc), s->workload, sizeof s->workload);
    (void)snprintf(s->model, sizeof s->model, "%s", kvl_scenario_of(doc)->model.name);
    rc = fill_axes(f, kvl_scenario_of(doc));
  }
  kvl_scenario_free(doc);
  rc = rc != 0 ? rc : enumerate(f);
  rc = rc != 0 ? rc : bound_round(f);
  rc = rc != 0 ? rc : screen_round(f);
  rc = rc != 0 ? rc : full_rounds(f);
  rc = rc != 0 ? rc : fine_round(f);
  rc = rc != 0 ? rc : repeat_round(f);
  s->settled = true;
  s->best = best_full(s, f->own, -1);
  s->runner_up = s->best < 0 ? -1 : best_full(s, f->own, s->best);
  if (rc == 0 && s->best >= 0) {
    struct kvl_plan_figures all = together(&s->candidate[s->best]);
    s->met = all.worst <= 0;
    rc = s->met ? headroom_round(f) : 0;
    rc = rc != 0 ? rc : sensitive_round(f);
  }
  measure_screening(s);
  return rc != 0 ? rc : keep_scenarios(f);
}

int kvl_plan_find(struct kvl_plan_search **out, const struct kvl_capacity_plan *plan, kvl_plan_run_fn *run, void *context, struct kvl_err *err)
{
  struct kvl_plan_search *s = calloc(1, sizeof *s);
  struct finder f = {.s = s, .plan = plan, .run = run, .context = context, .err = err};
  *out = NULL;
  f.own = calloc(1, sizeof *f.own);
  f.screen = kvl_plan_screen_create();
  if (s != NULL) {
    s->candidate = calloc(KVL_PLAN_CANDIDATES_MAX, sizeof *s->candidate);
    s->best = s->runner_up = -1;
  }
  int rc = s == NULL || f.own == NULL || f.screen == NULL || s->candidate == NULL ? kvl_err_set(err, -ENOMEM, "%s: out of memory", plan->file) : 0;
  if (rc == 0) {
    *f.own = *plan; /* shares its texts; its axes are filled in */
    s->plan = f.own;
    rc = search_all(&f);
  }
  kvl_plan_screen_destroy(f.screen);
  if (s != NULL) {
    s->own = f.own;
    s->arena = f.arena;
  } else {
    free(f.own);
  }
  if (rc != 0) {
    kvl_plan_search_free(s);
    return rc;
  }
  *out = s;
  return 0;
}

void kvl_plan_search_free(struct kvl_plan_search *s)
{
  if (s != NULL) {
    free(s->scenario_json[0]);
    free(s->scenario_json[1]);
    free(s->candidate);
    free(s->own);
    kvl_arena_free(&s->arena);
    free(s);
  }
}
