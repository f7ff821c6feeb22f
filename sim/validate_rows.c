#include "sim/validate_rows.h"

#include <math.h>
#include <stdio.h>

#include "sim/validate.h"

static double *value_of(struct kvl_validation_row *row, int side)
{
  double *const values[KVL_SIDES] = {&row->measured, &row->same_steps, &row->forecast};
  return values[side];
}

/* A count that only the measured run has, and that must not pass `bound`. */
static void limit_row(struct kvl_validation *v, const char *section, const char *key, uint64_t value, double bound)
{
  struct kvl_validation_row *row = kvl_validation_add(v, section, key, "");
  row->measured = (double)value;
  row->bound = bound;
  row->verdict = row->measured <= bound ? KVL_VERDICT_OK : KVL_VERDICT_FAILED;
}

static void measured_row(struct kvl_validation *v, const char *section, const char *key, const char *unit, double value)
{
  kvl_validation_add(v, section, key, unit)->measured = value;
}

/* A plane that was asked to compare and did not must not pass: every selection is read by one layer at least. In resident mode a plane that reads counts
 * no selections, but reads some. */
static void bytes_rows(struct kvl_validation *v, const struct kvl_run_result *run, enum kvl_check check)
{
  struct kvl_validation_row *row = kvl_validation_add(v, "bytes", "rows_checked", "");
  uint64_t selections = run->engine.summary.selections_total, some = selections != 0 || (run->reads && run->engine.summary.steps != 0);
  uint64_t least = check == KVL_CHECK_ALL && selections != 0 ? selections : some;
  row->measured = (double)run->rows_checked;
  row->verdict = check == KVL_CHECK_NONE ? KVL_VERDICT_NONE : run->rows_checked >= least ? KVL_VERDICT_OK : KVL_VERDICT_FAILED;
  if (check == KVL_CHECK_NONE) { /* nothing was compared: neither a count nor a verdict */
    (void)kvl_validation_add(v, "bytes", "mismatches", "");
  } else {
    limit_row(v, "bytes", "mismatches", run->mismatches, 0);
  }
}

static void replay_rows(struct kvl_validation *v, const struct kvl_replay_report *replay)
{
  measured_row(v, "replay", "decisions_identical", "", (double)replay->decisions);
  limit_row(v, "replay", "decisions_differ", replay->failed != 0, 0);
  measured_row(v, "replay", "steps", "", (double)replay->steps);
  limit_row(v, "replay", "steps_differ", replay->steps_differ, 0);
}

/* Counts by tier. Replayed, they must be equal; forecast, each tier's share of all selections within the bound. */
static void selection_rows(struct kvl_validation *v, const struct kvl_validate_side *side, const struct kvl_replay_report *replay)
{
  const struct kvl_summary *m = side[KVL_SIDE_MEASURED].summary, *f = side[KVL_SIDE_FORECAST].summary;
  for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
    if (m->selections_by_tier[t] == 0 && f->selections_by_tier[t] == 0) {
      continue;
    }
    struct kvl_validation_row *row = kvl_validation_add(v, "selections", kvl_tier_name(t), "");
    row->measured = (double)m->selections_by_tier[t];
    row->same_steps = (double)replay->replayed.lanes[t];
    row->forecast = (double)f->selections_by_tier[t];
    double total = m->selections_total == 0 ? 1 : (double)m->selections_total, other = f->selections_total == 0 ? 1 : (double)f->selections_total;
    row->same_steps_error = 100.0 * (row->same_steps - row->measured) / total;
    row->forecast_error = 100.0 * (row->forecast / other - row->measured / total);
    row->bound = KVL_VALIDATE_TIERS_PERCENT;
    bool equal = replay->failed == 0 && replay->replayed.lanes[t] == m->selections_by_tier[t];
    row->verdict = equal && fabs(row->forecast_error) <= row->bound ? KVL_VERDICT_OK : KVL_VERDICT_FAILED;
  }
  struct kvl_validation_row *row = kvl_validation_add(v, "selections", "rows_fetched", "");
  row->measured = (double)m->rows_fetched;
  row->same_steps = (double)replay->replayed.fetched;
  row->forecast = (double)f->rows_fetched;
  kvl_validation_errors(row);
}

/* One row from a number of each side; NAN where a side has none. Nothing when no side has any. */
static void sides_row(struct kvl_validation *v, const char *section, const char *key, const char *unit, const double value[KVL_SIDES])
{
  if (isnan(value[0]) && isnan(value[1]) && isnan(value[2])) {
    return;
  }
  struct kvl_validation_row *row = kvl_validation_add(v, section, key, unit);
  for (int i = 0; i < KVL_SIDES; i++) {
    *value_of(row, i) = value[i];
  }
  kvl_validation_errors(row);
}

/* What the candidate prefetch did: rounds whose copies had landed when the first later selection asked, and what later selections still fetched on demand. */
static void prefetch_rows(struct kvl_validation *v, const struct kvl_validate_side *side)
{
  enum { CANDIDATES, RESIDENT, COPIED, DROPPED, ROUNDS, LANDED, MARGIN, LATER, DEMAND, KEYS };
  static const char *const keys[KEYS] = {"candidates", "resident", "copied", "dropped", "rounds", "rounds_landed", "landing_margin.mean", "later_selections",
                                         "later_selections_on_demand"};
  double value[KEYS][KVL_SIDES];
  bool any = false;
  for (int i = 0; i < KVL_SIDES; i++) {
    static const struct kvl_summary none;
    const struct kvl_summary *s = side[i].summary == NULL ? &none : side[i].summary;
    const double of[KEYS] = {(double)s->prefetch_candidates, (double)s->prefetch_resident, (double)s->prefetch_copied, (double)s->prefetch_dropped,
                             (double)s->prefetch_groups, (double)s->prefetch_landed,
                             s->prefetch_landed == 0 ? (double)NAN : 1e3 * s->prefetch_margin_ms / (double)s->prefetch_landed,
                             (double)s->prefetch_later_lanes, (double)s->prefetch_later_demand};
    for (int k = 0; k < KEYS; k++) {
      value[k][i] = side[i].summary == NULL ? (double)NAN : of[k];
    }
    any = any || s->prefetch_candidates != 0;
  }
  for (int k = 0; any && k < KEYS; k++) {
    sides_row(v, "prefetch", keys[k], k == MARGIN ? "us" : "", value[k]);
  }
}

static void time_rows(struct kvl_validation *v, const struct kvl_validate_side *side)
{
  for (int k = 0; k < KVL_WATCH_KINDS; k++) {
    double count[KVL_SIDES], mean[KVL_SIDES], median[KVL_SIDES];
    bool any = false;
    for (int i = 0; i < KVL_SIDES; i++) {
      const struct kvl_hist *h = &side[i].watch->ns[k];
      count[i] = (double)h->count;
      mean[i] = h->count == 0 ? (double)NAN : kvl_hist_mean(h) / 1e3;
      median[i] = h->count == 0 ? (double)NAN : (double)kvl_hist_percentile(h, 500) / 1e3;
      any = any || h->count != 0;
    }
    if (any) {
      char key[48];
      const char *name = kvl_watch_name((enum kvl_watch_kind)k);
      (void)snprintf(key, sizeof key, "%s.count", name);
      sides_row(v, "times", key, "", count);
      (void)snprintf(key, sizeof key, "%s.mean", name);
      sides_row(v, "times", key, "us", mean);
      (void)snprintf(key, sizeof key, "%s.p50", name);
      sides_row(v, "times", key, "us", median);
    }
  }
  double batch[KVL_SIDES];
  for (int i = 0; i < KVL_SIDES; i++) {
    batch[i] = kvl_hist_mean(&side[i].watch->batch);
  }
  sides_row(v, "times", "batch.mean", "", batch);
}

/* Bytes and rates: of all traffic, and of what was moved in a time that was watched. Bytes a nanosecond are GB/s. */
static void link_rows(struct kvl_validation *v, const struct kvl_validate_side *side)
{
  double bytes[KVL_SIDES], busy[KVL_SIDES];
  for (int i = 0; i < KVL_SIDES; i++) {
    bytes[i] = side[i].summary == NULL ? (double)NAN : (double)side[i].summary->host_link_bytes;
    busy[i] = side[i].summary == NULL || i == KVL_SIDE_SAME_STEPS ? (double)NAN : 100.0 * side[i].summary->host_link_busy_share;
  }
  sides_row(v, "link", "host_link_bytes", "B", bytes);
  sides_row(v, "link", "host_link_busy", "%", busy);
  for (int k = 0; k < KVL_WATCH_KINDS; k++) {
    double moved[KVL_SIDES], rate[KVL_SIDES];
    bool any = false;
    for (int i = 0; i < KVL_SIDES; i++) {
      const struct kvl_watch *w = side[i].watch;
      double ns = kvl_hist_mean(&w->ns[k]) * (double)w->ns[k].count;
      moved[i] = (double)w->bytes[k];
      rate[i] = w->bytes[k] == 0 || ns <= 0 ? (double)NAN : moved[i] / ns;
      any = any || w->bytes[k] != 0;
    }
    if (any) {
      char key[48];
      const char *name = kvl_watch_name((enum kvl_watch_kind)k);
      (void)snprintf(key, sizeof key, "%s.bytes", name);
      sides_row(v, "link", key, "B", moved);
      (void)snprintf(key, sizeof key, "%s.rate", name);
      sides_row(v, "link", key, "GB/s", rate);
    }
  }
}

/* What the model says beside a time of the device's own clock: its mean of the same thing. */
struct beside {
  const struct kvl_validate_side *side; /* NULL: it says nothing */
  enum kvl_watch_kind kind;
  double parts;                         /* launches that one duration stands for; 0: one */
};

static double predicted_us(const struct beside *b, int side)
{
  const struct kvl_hist *h = b->side == NULL ? NULL : &b->side[side].watch->ns[b->kind];
  return h == NULL || h->count == 0 ? (double)NAN : kvl_hist_mean(h) / (b->parts > 0 ? b->parts : 1) / 1e3;
}

static void timing_rows(struct kvl_validation *v, const char *name, const struct kvl_plane_times *t, const struct beside *b)
{
  char key[48];
  if (t->count == 0) {
    return;
  }
  (void)snprintf(key, sizeof key, "%s.launches", name);
  measured_row(v, "device", key, "", (double)t->count);
  (void)snprintf(key, sizeof key, "%s.mean", name);
  const double mean[KVL_SIDES] = {(double)t->sum_ns / (double)t->count / 1e3, predicted_us(b, KVL_SIDE_SAME_STEPS), predicted_us(b, KVL_SIDE_FORECAST)};
  sides_row(v, "device", key, "us", mean);
  (void)snprintf(key, sizeof key, "%s.min", name);
  measured_row(v, "device", key, "us", (double)t->min_ns / 1e3);
  (void)snprintf(key, sizeof key, "%s.max", name);
  measured_row(v, "device", key, "us", (double)t->max_ns / 1e3);
}

/* Launches of a stage in one step that selected: what the model's look-up time of a step is spread over. */
static double launches_a_step(const struct kvl_plane_measured *m, const struct kvl_watch *w)
{
  uint64_t steps = w->ns[KVL_WATCH_LOOK_UP].count;
  return steps == 0 ? 0 : (double)m->kernel[KVL_STAGE_RESOLVE].count / (double)steps;
}

/* What only the device's own clock knows: kernels by stage, copies by kind. */
static void device_rows(struct kvl_validation *v, const struct kvl_validate_side *side, const struct kvl_plane_measured *m)
{
  static const char *const stages[KVL_STAGE_KINDS] = {
    [KVL_STAGE_WRITE] = "kernel.write", [KVL_STAGE_WAIT] = "kernel.wait", [KVL_STAGE_RESOLVE] = "kernel.resolve", [KVL_STAGE_ANNOUNCE] = "kernel.announce",
    [KVL_STAGE_END_GROUP] = "kernel.end_group", [KVL_STAGE_REPLAY] = "kernel.replay", [KVL_STAGE_READ] = "kernel.read",
    [KVL_STAGE_COMPUTE] = "kernel.compute",
  };
  static const char *const traffic[KVL_TRAFFIC_KINDS] = {
    [KVL_TRAFFIC_POPULATION] = "copy.population", [KVL_TRAFFIC_PAGES] = "copy.pages", [KVL_TRAFFIC_WRITE_BACK] = "copy.write_back",
    [KVL_TRAFFIC_PREFETCH] = "copy.prefetch", [KVL_TRAFFIC_FETCH] = "copy.fetch",
  };
  const struct beside nothing = {.side = NULL}, look_up = {side, KVL_WATCH_LOOK_UP, launches_a_step(m, side[KVL_SIDE_MEASURED].watch)};
  const struct beside copies[KVL_TRAFFIC_KINDS] = {
    [KVL_TRAFFIC_POPULATION] = {side, KVL_WATCH_POPULATION, 0}, [KVL_TRAFFIC_PAGES] = {side, KVL_WATCH_GIVE_BACK, 0},
    [KVL_TRAFFIC_WRITE_BACK] = {side, KVL_WATCH_WRITE_BACK, 0},
  };
  for (int i = 0; i < KVL_STAGE_KINDS; i++) {
    if (stages[i] != NULL) {
      timing_rows(v, stages[i], &m->kernel[i], i == KVL_STAGE_RESOLVE ? &look_up : &nothing);
    }
  }
  for (int i = 0; i < KVL_TRAFFIC_KINDS; i++) {
    char key[48];
    if (m->traffic[i].bytes == 0) {
      continue;
    }
    (void)snprintf(key, sizeof key, "%s.bytes", traffic[i]);
    measured_row(v, "device", key, "B", (double)m->traffic[i].bytes);
    timing_rows(v, traffic[i], &m->traffic[i].times, &copies[i]);
    if (m->traffic[i].times.sum_ns != 0) {
      (void)snprintf(key, sizeof key, "%s.rate", traffic[i]);
      measured_row(v, "device", key, "GB/s", (double)m->traffic[i].bytes / (double)m->traffic[i].times.sum_ns);
    }
  }
}

static void floor_row(struct kvl_validation *v, const char *shape, const char *name, const char *unit, double value)
{
  char key[48];
  (void)snprintf(key, sizeof key, "%s%s", shape, name);
  measured_row(v, "floor", key, unit, value);
}

/* The steps whose rows this shape gathered: means, medians. */
static void shape_rows(struct kvl_validation *v, const char *shape, const struct kvl_plane_floor *f)
{
  const struct {
    const char *name;
    int64_t ns;
  } times[] = {{"gather.mean", f->gather.mean_ns}, {"gather.p50", f->gather.p50_ns}, {"span.mean", f->span.mean_ns}, {"span.p50", f->span.p50_ns},
               {"look_up.mean", f->look_up.mean_ns}, {"look_up.p50", f->look_up.p50_ns}, {"over.mean", f->over.mean_ns}, {"over.p50", f->over.p50_ns}};
  floor_row(v, shape, "steps", "", (double)f->steps);
  floor_row(v, shape, "rows.mean", "", (double)f->rows / (double)f->steps);
  floor_row(v, shape, "bytes.mean", "B", (double)f->bytes / (double)f->steps);
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    floor_row(v, shape, times[i].name, "us", (double)times[i].ns / 1e3);
  }
}

static double ns_a_row(const struct kvl_plane_floor *f)
{
  return (double)f->gather.mean_ns * (double)f->steps / (double)f->rows;
}

/* The steps' host rows by a bare gather, beside what the same steps spent on them: by the shape that takes least a row, then by each. */
static void floor_rows(struct kvl_validation *v, const struct kvl_plane_measured *m, bool asked)
{
  static const char *const shapes[KVL_GATHER_SHAPES] = {[KVL_GATHER_OWNED] = "owned.", [KVL_GATHER_ORDERED] = "ordered.", [KVL_GATHER_DEALT] = "dealt."};
  const struct kvl_plane_floor *best = NULL;
  for (int i = 0; i < KVL_GATHER_SHAPES; i++) {
    const struct kvl_plane_floor *f = &m->floor[i];
    best = f->steps != 0 && (best == NULL || ns_a_row(f) < ns_a_row(best)) ? f : best;
  }
  if (best != NULL) {
    shape_rows(v, "", best);
  } else if (asked) {
    floor_row(v, "", "steps", "", 0); /* none of those looked at had host rows */
  }
  for (int i = 0; i < KVL_GATHER_SHAPES; i++) {
    if (m->floor[i].steps != 0) {
      shape_rows(v, shapes[i], &m->floor[i]);
    }
  }
}

void kvl_validate_rows(struct kvl_validation *v, const struct kvl_validate_side side[KVL_SIDES], const struct kvl_run_result *run,
                       const struct kvl_replay_report *replay, enum kvl_check check, bool floor)
{
  bytes_rows(v, run, check);
  replay_rows(v, replay);
  selection_rows(v, side, replay);
  prefetch_rows(v, side);
  time_rows(v, side);
  link_rows(v, side);
  device_rows(v, side, &run->measured);
  floor_rows(v, &run->measured, floor);
}
