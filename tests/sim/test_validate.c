/* Validation: what it finds right when a plane is right, and wrong when a plane lies, forgets or is slow; and the durations that it compares. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/plane_watch.h"
#include "sim/scenario.h"
#include "sim/validate.h"
#include "sim/validate_rows.h"
#include "tests/base/tap.h"
#include "tests/sim/plane_forward.h"
#include "tests/sim/replaying.h"
#include "tests/sim/tiny.h"

static const char *const sets[] = { /* pages are revoked, and come back */
  "workload.concurrency=6", "workload.requests=10", "workload.input_tokens=1800", "workload.cached_tokens=0", "workload.output_tokens=50",
  "workload.open_interval_ms=80", "costs.prefill_fixed_ms=20", "costs.prefill_token_us=1", "policy.hot_rows=600", "policy.bank_rows=0",
  "selection.library_sessions=0", "node.decode_gpus=1", "node.kv_pool_bytes=24000000", "node.host_pool_bytes=60000000", "policy.horizon_ms=100",
  "policy.give_back_bytes_max=300000", "policy.revoke_order=least_selected", "policy.give_back_order=most_selected", "costs.resolve_fixed_us=1.5",
  "costs.revoke_page_us=0.1",
};

/* A plane that is wrong in one way. */
enum wrong { LIES, FORGETS };
struct wrong_plane {
  struct decorator d;
  struct kvl_plane_ops ops;
  enum wrong how;
  struct kvl_step_result result;
  struct kvl_step_item item[512];
};

static int wrong_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct wrong_plane *w = (struct wrong_plane *)plane;
  struct kvl_plane_step changed = *step;
  if (w->how == FORGETS) { /* which pages were selected: the policy goes by it */
    for (uint32_t i = 0; i < step->count; i++) {
      w->item[i] = step->items[i];
      w->item[i].selected_by_page = NULL;
    }
    changed.items = w->item;
  }
  return forward_step(plane, &changed, err);
}

static int wrong_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct wrong_plane *w = (struct wrong_plane *)plane;
  int rc = inner_of(plane)->ops->wait_until(inner_of(plane), time_ns, completion, err);
  if (rc == 1 && completion->kind == KVL_DONE_STEP && w->how == LIES && completion->tag == 20) {
    w->result = *completion->step;
    w->result.lanes[KVL_TIER_HOT]++; /* one selection of all */
    completion->step = &w->result;
  }
  return rc;
}

static void wrong_measured(struct kvl_plane *plane, struct kvl_plane_measured *measured)
{
  inner_of(plane)->ops->measured(inner_of(plane), measured);
}

static void wrong_close(struct kvl_plane *plane)
{
  inner_of(plane)->ops->close(inner_of(plane));
  free(plane);
}

static int wrap_wrong(void *context, struct kvl_plane **plane, struct kvl_err *err)
{
  struct wrong_plane *w = calloc(1, sizeof *w);
  if (w == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory");
  }
  w->ops = (struct kvl_plane_ops){
    .name = "wrong", .close = wrong_close, .now = forward_now, .request_open = forward_request_open, .request_close = forward_request_close,
    .step = wrong_step, .copy = forward_copy, .keep = forward_keep, .wait_until = wrong_wait_until, .point = forward_point,
    .link_busy_ns = forward_link_busy_ns, .link_bytes = forward_link_bytes, .verify = forward_verify, .measured = wrong_measured,
  };
  w->d = (struct decorator){.plane = {.ops = &w->ops}, .inner = *plane};
  w->how = *(const enum wrong *)context;
  *plane = &w->d.plane;
  return 0;
}

static struct kvl_validate_result result;

static void validate(kvl_plane_wrap_fn *wrap, void *context)
{
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  ck_assert_msg(kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", sets, sizeof sets / sizeof sets[0], &err) == 0, "%s", err.text);
  struct kvl_run_options o = {.plane = "host", .threads = 1, .wrap = wrap, .wrap_context = context};
  ck_assert_msg(kvl_validate(doc, &o, &result, &err) == 0, "%s", err.text);
  kvl_scenario_free(doc);
}

static const struct kvl_validation_row *row(const char *section, const char *key)
{
  const struct kvl_validation *v = &result.validation;
  for (uint32_t i = 0; i < v->count; i++) {
    if (strcmp(v->row[i].section, section) == 0 && strcmp(v->row[i].key, key) == 0) {
      return &v->row[i];
    }
  }
  ck_abort_msg("no row %s %s", section, key);
  return NULL;
}

START_TEST(right)
{
  validate(NULL, NULL);
  ck_assert_uint_eq(kvl_validation_failed(&result.validation), 0);
  ck_assert_int_eq(row("bytes", "rows_checked")->verdict, KVL_VERDICT_OK);
  ck_assert_int_eq(row("replay", "decisions_differ")->verdict, KVL_VERDICT_OK);
  ck_assert_int_eq(row("replay", "steps_differ")->verdict, KVL_VERDICT_OK);
  const char *const tiers[] = {"tail", "borrowed", "hot", "host"};
  for (int i = 0; i < 4; i++) {
    const struct kvl_validation_row *r = row("selections", tiers[i]);
    ck_assert(r->measured > 0 && r->measured == r->same_steps && r->measured == r->forecast && r->verdict == KVL_VERDICT_OK);
  }
  const char *const times[] = {"step.mean", "resolve.mean", "fetch.mean", "population.mean", "revocation.mean", "give_back.mean", "write_back.p50"};
  for (int i = 0; i < 7; i++) { /* the host plane has the model's times; replayed, no step waits for another one's copies */
    const struct kvl_validation_row *r = row("times", times[i]);
    ck_assert_msg(r->forecast == r->measured && r->forecast_error == 0, "%s: %g, forecast %g", r->key, r->measured, r->forecast);
    ck_assert_msg(fabs(r->same_steps_error) < 1, "%s: %g, replayed %g", r->key, r->measured, r->same_steps);
  }
}
END_TEST

START_TEST(a_plane_that_lies)
{
  enum wrong how = LIES;
  validate(wrap_wrong, &how);
  ck_assert_int_eq(row("replay", "decisions_differ")->verdict, KVL_VERDICT_OK);
  ck_assert_int_eq(row("replay", "steps_differ")->verdict, KVL_VERDICT_FAILED);
  ck_assert(row("replay", "steps_differ")->measured == 1);
  ck_assert_int_eq(row("selections", "hot")->verdict, KVL_VERDICT_FAILED);
  ck_assert_int_eq(row("selections", "host")->verdict, KVL_VERDICT_OK);
  ck_assert_ptr_nonnull(strstr(result.replay.first_difference, "step 20 of GPU 0"));
}
END_TEST

START_TEST(a_plane_that_forgets)
{
  enum wrong how = FORGETS;
  validate(wrap_wrong, &how);
  ck_assert_int_eq(row("replay", "decisions_differ")->verdict, KVL_VERDICT_FAILED);
  ck_assert_ptr_nonnull(strstr(result.replay.why.text, ": the decisions differ: recorded '"));
  ck_assert_ptr_null(strchr(result.replay.why.text, '\n'));
}
END_TEST

/* Late completions: the same decisions when they are replayed, and a forecast that cannot know of them. */
/* In resident mode a plane counts no selections, but one that was given some and has run steps has rows to compare. */
START_TEST(a_plane_that_compares_nothing)
{
  static struct kvl_validation v;
  static struct kvl_run_result run;
  static const struct kvl_replay_report replay;
  static const struct {
    bool reads;
    enum kvl_check check;
    uint64_t steps, rows;
    enum kvl_verdict verdict;
  } cases[] = {
    {true, KVL_CHECK_SAMPLE, 3, 0, KVL_VERDICT_FAILED}, {true, KVL_CHECK_ALL, 3, 0, KVL_VERDICT_FAILED}, {true, KVL_CHECK_ALL, 3, 1, KVL_VERDICT_OK},
    {true, KVL_CHECK_NONE, 3, 0, KVL_VERDICT_NONE},     {true, KVL_CHECK_ALL, 0, 0, KVL_VERDICT_OK},     {false, KVL_CHECK_ALL, 3, 0, KVL_VERDICT_OK},
  };
  struct kvl_validate_side side[KVL_SIDES];
  for (int i = 0; i < KVL_SIDES; i++) {
    side[i] = (struct kvl_validate_side){.watch = kvl_watch_create(), .summary = &run.engine.summary};
    ck_assert_ptr_nonnull(side[i].watch);
  }
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    memset(&v, 0, sizeof v);
    run.reads = cases[i].reads;
    run.rows_checked = cases[i].rows;
    run.engine.summary.steps = cases[i].steps;
    kvl_validate_rows(&v, side, &run, &replay, cases[i].check, false);
    ck_assert_str_eq(v.row[0].key, "rows_checked");
    ck_assert_int_eq(v.row[0].verdict, cases[i].verdict);
  }
  for (int i = 0; i < KVL_SIDES; i++) {
    kvl_watch_destroy(side[i].watch);
  }
}
END_TEST

START_TEST(floors)
{
  static struct kvl_validation v;
  static struct kvl_run_result run;
  static struct kvl_replay_report replay;
  struct kvl_validate_side side[KVL_SIDES];
  for (int i = 0; i < KVL_SIDES; i++) {
    side[i] = (struct kvl_validate_side){.watch = kvl_watch_create(), .summary = &run.engine.summary};
    ck_assert_ptr_nonnull(side[i].watch);
  }
  kvl_validate_rows(&v, side, &run, &replay, KVL_CHECK_NONE, false); /* none was asked for */
  for (uint32_t i = 0; i < v.count; i++) {
    ck_assert_str_ne(v.row[i].section, "floor");
  }
  memset(&v, 0, sizeof v);
  kvl_validate_rows(&v, side, &run, &replay, KVL_CHECK_NONE, true); /* no step that was looked at missed anything */
  ck_assert_str_eq(v.row[v.count - 1].section, "floor");
  ck_assert_str_eq(v.row[v.count - 1].key, "steps");
  ck_assert(v.row[v.count - 1].measured == 0);
  memset(&v, 0, sizeof v);
  /* The second takes longer a step, for more rows, and less a row. The third gathered nothing. */
  run.measured.floor[KVL_GATHER_OWNED] = (struct kvl_plane_floor){
    .steps = 4, .rows = 400, .bytes = 115200, .gather = {20000, 19000}, .span = {30000, 29000}, .look_up = {18000, 17500}, .over = {-2000, -1500}};
  run.measured.floor[KVL_GATHER_ORDERED] = (struct kvl_plane_floor){
    .steps = 2, .rows = 302, .bytes = 86976, .gather = {24000, 24000}, .span = {34000, 33000}, .look_up = {25500, 25600}, .over = {1500, 1600}};
  kvl_validate_rows(&v, side, &run, &replay, KVL_CHECK_NONE, true);
  static const struct {
    const char *key, *unit;
    double value;
  } want[] = {{"steps", "", 2}, {"rows.mean", "", 151}, {"bytes.mean", "B", 43488}, {"gather.mean", "us", 24}, {"gather.p50", "us", 24}, {"span.mean", "us", 34},
              {"span.p50", "us", 33}, {"look_up.mean", "us", 25.5}, {"look_up.p50", "us", 25.6}, {"over.mean", "us", 1.5}, {"over.p50", "us", 1.6},
              {"owned.steps", "", 4}, {"owned.rows.mean", "", 100}, {"owned.bytes.mean", "B", 28800}, {"owned.gather.mean", "us", 20},
              {"owned.gather.p50", "us", 19}, {"owned.span.mean", "us", 30}, {"owned.span.p50", "us", 29}, {"owned.look_up.mean", "us", 18},
              {"owned.look_up.p50", "us", 17.5}, {"owned.over.mean", "us", -2}, {"owned.over.p50", "us", -1.5}, {"ordered.steps", "", 2}};
  uint32_t at = 0;
  while (at < v.count && strcmp(v.row[at].section, "floor") != 0) {
    at++;
  }
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++, at++) {
    ck_assert_str_eq(v.row[at].section, "floor");
    ck_assert_str_eq(v.row[at].key, want[i].key);
    ck_assert_str_eq(v.row[at].unit, want[i].unit);
    ck_assert_msg(v.row[at].measured == want[i].value, "%s: %g", want[i].key, v.row[at].measured);
    ck_assert_int_eq(v.row[at].verdict, KVL_VERDICT_NONE);
  }
  ck_assert_str_eq(v.row[v.count - 1].key, "ordered.over.p50");
  for (int i = 0; i < KVL_SIDES; i++) {
    kvl_watch_destroy(side[i].watch);
  }
}
END_TEST

START_TEST(a_plane_that_is_slow)
{
  struct jittering j = {.config = {.seed = 3, .step_ns = 60000000, .copy_ns = 9000000}, .gpus = 1};
  validate(wrap_jitter, &j);
  ck_assert_int_eq(row("replay", "decisions_differ")->verdict, KVL_VERDICT_OK);
  ck_assert_int_eq(row("replay", "steps_differ")->verdict, KVL_VERDICT_OK);
  const struct kvl_validation_row *step = row("times", "step.mean");
  ck_assert_msg(step->same_steps_error < -30 && step->forecast_error < -30, "%g, %g", step->same_steps_error, step->forecast_error);
  const struct kvl_validation_row *borrowed = row("selections", "borrowed");
  ck_assert(borrowed->measured == borrowed->same_steps && borrowed->measured != borrowed->forecast);
  ck_assert((fabs(borrowed->forecast_error) > KVL_VALIDATE_TIERS_PERCENT) == (borrowed->verdict == KVL_VERDICT_FAILED));
}
END_TEST

/* ---- what is watched adds up to what the engine counted ---- */

struct watching {
  struct kvl_watch *watch;
  uint32_t gpus;
  uint64_t page_bytes;
};

static int wrap_watch(void *context, struct kvl_plane **plane, struct kvl_err *err)
{
  const struct watching *w = context;
  return kvl_plane_watch_create(plane, *plane, w->watch, w->gpus, w->page_bytes, err);
}

static double sum_of(const struct kvl_watch *w, enum kvl_watch_kind kind)
{
  return kvl_hist_mean(&w->ns[kind]) * (double)w->ns[kind].count;
}

static void close_to(double a, double b, const char *what)
{
  ck_assert_msg(fabs(a - b) <= 1e-6 * (a > b ? a : b) + 1e-3, "%s: %.9g and %.9g", what, a, b);
}

START_TEST(watched)
{
  static struct tiny t;
  static struct tiny_result r;
  struct kvl_err err = {""};
  tiny_init(&t);
  t.s.node.decode_gpus = 1 + (uint32_t)_i % 2;
  t.s.policy.admission_copy = (enum kvl_admission_copy)(_i % 3);
  struct watching w = {kvl_watch_create(), t.s.node.decode_gpus, kvl_page_bytes(&t.s)};
  ck_assert_ptr_nonnull(w.watch);
  t.wrap = wrap_watch;
  t.wrap_context = &w;
  ck_assert_msg(tiny_run(&t, &r, &err) == 0, "%s", err.text);
  const struct kvl_summary *s = &r.engine.summary;
  ck_assert_uint_eq(w.watch->ns[KVL_WATCH_STEP].count, s->steps);
  ck_assert_uint_eq(w.watch->batch.count, s->steps);
  close_to(sum_of(w.watch, KVL_WATCH_STEP), (double)r.report.in_step_ns, "step");
  close_to(sum_of(w.watch, KVL_WATCH_COMPUTE), s->stall_ms_by_cause[KVL_STALL_COMPUTE] * 1e6, "compute");
  close_to(sum_of(w.watch, KVL_WATCH_FETCH), s->stall_ms_by_cause[KVL_STALL_FETCH] * 1e6, "fetch");
  close_to(sum_of(w.watch, KVL_WATCH_LINK_WAIT), s->stall_ms_by_cause[KVL_STALL_LINK_WAIT] * 1e6, "link wait");
  close_to(sum_of(w.watch, KVL_WATCH_POPULATION), s->stall_ms_by_cause[KVL_STALL_POPULATION] * 1e6, "population");
  close_to(sum_of(w.watch, KVL_WATCH_REVOCATION), s->stall_ms_by_cause[KVL_STALL_REVOCATION] * 1e6, "revocation");
  close_to(sum_of(w.watch, KVL_WATCH_ADMISSION), s->stall_ms_by_cause[KVL_STALL_ADMISSION] * 1e6, "admission");
  close_to(sum_of(w.watch, KVL_WATCH_LOOK_UP),
           (s->stall_ms_by_cause[KVL_STALL_RESOLVE] + s->stall_ms_by_cause[KVL_STALL_FETCH] + s->stall_ms_by_cause[KVL_STALL_LINK_WAIT]) * 1e6, "look-up");
  uint64_t page = kvl_page_bytes(&t.s);
  ck_assert_uint_eq(w.watch->pages[KVL_WATCH_POPULATION] + w.watch->pages[KVL_WATCH_SIDE_POPULATION], r.report.populated); /* requests wait for theirs */
  ck_assert_uint_le(w.watch->bytes[KVL_WATCH_GIVE_BACK], r.report.given * page); /* what is still under way at the end was not watched to its end */
  ck_assert_uint_eq(w.watch->pages[KVL_WATCH_REVOCATION], s->pages_revoked);
  ck_assert_uint_gt(w.watch->ns[KVL_WATCH_WRITE_BACK].count, 0);
  ck_assert_uint_eq(w.watch->bytes[KVL_WATCH_POPULATION] + w.watch->bytes[KVL_WATCH_SIDE_POPULATION] + r.report.given * page +
                      w.watch->bytes[KVL_WATCH_FETCH], s->host_link_bytes);
  kvl_watch_destroy(w.watch);
}
END_TEST

/* ---- rows in the store ---- */

START_TEST(stored)
{
  static struct kvl_validation v, back;
  char path[] = "/tmp/kvl-validation-XXXXXX";
  struct kvl_store *store = NULL;
  struct kvl_err err = {""};
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  (void)close(fd);
  v.count = 0;
  for (int i = 0; i < 5; i++) {
    struct kvl_validation_row *r = kvl_validation_add(&v, i < 2 ? "times" : "link", i % 2 == 0 ? "a.mean" : "b.rate", i == 3 ? "GB/s" : "us");
    r->measured = i == 1 ? (double)NAN : 0.1 * i;
    r->same_steps = 1.0 / 3;
    r->forecast = i == 2 ? (double)NAN : 1e300;
    r->verdict = (enum kvl_verdict)(i % 3);
    kvl_validation_errors(r);
  }
  ck_assert_uint_eq(kvl_validation_failed(&v), 1);
  ck_assert_msg(kvl_store_open(&store, path, &err) == 0, "%s", err.text);
  ck_assert_msg(kvl_store_read_validation(store, 7, &back, &err) == 0 && back.count == 0, "%s", err.text); /* there is no such table yet */
  ck_assert_msg(kvl_store_validation(store, 7, &v, &err) == 0, "%s", err.text);
  ck_assert_msg(kvl_store_validation(store, 8, &v, &err) == 0, "%s", err.text);
  ck_assert_int_ne(kvl_store_validation(store, 8, &v, &err), 0); /* twice is an error, and changes nothing */
  ck_assert_msg(strstr(err.text, path) != NULL && strchr(err.text, '\n') == NULL, "%s", err.text);
  kvl_store_close(store);
  struct kvl_store_options read_only = {.read_only = 1};
  ck_assert_msg(kvl_store_open_with(&store, path, &read_only, &err) == 0, "%s", err.text);
  for (int64_t run = 7; run <= 8; run++) {
    ck_assert_msg(kvl_store_read_validation(store, run, &back, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(back.count, v.count);
    for (uint32_t i = 0; i < v.count; i++) {
      const struct kvl_validation_row *a = &v.row[i], *b = &back.row[i];
      ck_assert_str_eq(a->section, b->section);
      ck_assert_str_eq(a->key, b->key);
      ck_assert_str_eq(a->unit, b->unit);
      const double x[] = {a->measured, a->same_steps, a->forecast, a->same_steps_error, a->forecast_error, a->bound};
      const double y[] = {b->measured, b->same_steps, b->forecast, b->same_steps_error, b->forecast_error, b->bound};
      for (int k = 0; k < 6; k++) {
        ck_assert(x[k] == y[k] || (isnan(x[k]) && isnan(y[k])));
      }
      ck_assert_int_eq(a->verdict, b->verdict);
    }
  }
  ck_assert_msg(kvl_store_read_validation(store, 9, &back, &err) == 0 && back.count == 0, "%s", err.text);
  kvl_store_close(store);
  (void)unlink(path);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("validate");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, right);
  tcase_add_test(tcase, a_plane_that_lies);
  tcase_add_test(tcase, a_plane_that_forgets);
  tcase_add_test(tcase, a_plane_that_compares_nothing);
  tcase_add_test(tcase, floors);
  tcase_add_test(tcase, a_plane_that_is_slow);
  tcase_add_loop_test(tcase, watched, 0, 6);
  tcase_add_test(tcase, stored);
  return kvl_tap_run_case("validate", tcase);
}
