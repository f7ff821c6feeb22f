#define _XOPEN_SOURCE 700 /* nftw */
#include "tests/results/fixture.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/rng.h"

static uint64_t draw(uint64_t seed, uint64_t index, uint64_t column)
{
  return kvl_rng_mix(kvl_rng_mix(seed * 1000003 + index) + column);
}

static uint32_t small(uint64_t seed, uint64_t index, uint64_t column)
{
  return (uint32_t)(draw(seed, index, column) >> 40);
}

static double fraction(uint64_t seed, uint64_t index, uint64_t column)
{
  return (double)(draw(seed, index, column) >> 11) * 0x1p-53;
}

struct kvl_summary fixture_summary(uint64_t seed)
{
  struct kvl_summary summary;
  memset(&summary, 0, sizeof summary);
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    if (kvl_summary_is_integer(i)) {
      kvl_summary_set_count(&summary, i, draw(seed, i, 1) >> (i % 60));
    } else {
      kvl_summary_set_number(&summary, i, fraction(seed, i, 2) * 1000.0);
    }
  }
  return summary;
}

struct kvl_request_record fixture_request(uint64_t seed, uint64_t index)
{
  struct kvl_request_record r = {
    .id = index, .session = draw(seed, index, 3) >> 1, .gpu = small(seed, index, 4) % 4,
    .input_tokens = small(seed, index, 5), .cached_tokens = small(seed, index, 6), .output_tokens = small(seed, index, 7),
    .submit_ns = draw(seed, index, 8) >> 4, .prefill_start_ns = draw(seed, index, 9) >> 4, .prefill_end_ns = draw(seed, index, 10) >> 4,
    .admit_ns = draw(seed, index, 11) >> 4, .first_token_ns = draw(seed, index, 12) >> 4, .last_token_ns = draw(seed, index, 13) >> 4,
    .aborted = index % 7 == 3,
  };
  if (r.aborted) {
    r.first_token_ns = r.last_token_ns = UINT64_MAX; /* never */
  }
  return r;
}

struct kvl_step_sample fixture_sample(uint64_t seed, uint64_t index)
{
  struct kvl_step_sample s;
  memset(&s, 0, sizeof s);
  s.time_ns = index * 1000000 + 17;
  s.step_ns = draw(seed, index, 20) >> 20;
  s.gpu = (uint32_t)(index % 4);
  s.batch = small(seed, index, 21);
  s.waiting = small(seed, index, 22);
  s.frames_free = small(seed, index, 23);
  s.frames_reserved = small(seed, index, 24);
  s.frames_lent = small(seed, index, 25);
  s.frames_retiring = small(seed, index, 26);
  s.resident_share = fraction(seed, index, 27);
  for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
    s.lanes[t] = draw(seed, index, 30 + t) >> 2;
  }
  for (unsigned t = 0; t < KVL_STALLS; t++) {
    s.stall_ns[t] = draw(seed, index, 40 + t) >> 2;
  }
  return s;
}

struct kvl_point_counter fixture_point(uint64_t seed, uint64_t index)
{
  struct kvl_point_counter p;
  memset(&p, 0, sizeof p);
  p.gpu = (uint32_t)(index / 32);
  p.point = (uint32_t)(index % 32);
  p.layer = small(seed, index, 50);
  p.cache = small(seed, index, 51);
  for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
    p.lanes[t] = draw(seed, index, 60 + t) >> 2;
  }
  p.fetched = draw(seed, index, 70) >> 2;
  p.overflow = draw(seed, index, 71) >> 2;
  return p;
}

struct kvl_move_record fixture_move(uint64_t seed, uint64_t index)
{
  struct kvl_move_record m = {
    .time_ns = index * 2000000, .gpu = (uint32_t)(index % 4), .revoked = small(seed, index, 80), .populated = small(seed, index, 81),
    .given_back = small(seed, index, 82), .kept = small(seed, index, 83), .bytes = draw(seed, index, 84) >> 2,
  };
  return m;
}

struct kvl_run_info fixture_info(uint64_t seed)
{
  struct kvl_run_info info = {
    .name = "published-256", .mode = seed % 3 == 0 ? "resident" : seed % 3 == 1 ? "fixed" : "adaptive", .plane = "model",
    .scenario_json = "{\"workload\":{\"kind\":\"closed\",\"concurrency\":256},\"name\":\"it's \\\"quoted\\\"\"}", .build = "0.1.0 (test)",
    .command = "kvloan run it's; DROP TABLE runs;--", .seed = seed,
  };
  return info;
}

int fixture_write(struct kvl_store *store, const struct fixture *fixture, enum kvl_run_status status, int64_t *run, struct kvl_err *err)
{
  struct kvl_run_info info = fixture_info(fixture->seed);
  int code = kvl_store_run_begin(store, &info, run, err);
  uint32_t most = fixture->requests > fixture->samples ? fixture->requests : fixture->samples;
  most = fixture->points > most ? fixture->points : most;
  most = fixture->moves > most ? fixture->moves : most;
  for (uint32_t i = 0; i < most && code == 0; i++) {
    if (i < fixture->requests) { /* last first: a store must not depend on the order of ids */
      struct kvl_request_record r = fixture_request(fixture->seed, fixture->requests - 1 - i);
      code = kvl_store_add_request(store, &r, err);
    }
    if (i < fixture->samples && code == 0) {
      struct kvl_step_sample s = fixture_sample(fixture->seed, i);
      code = kvl_store_add_sample(store, &s, err);
    }
    if (i < fixture->points && code == 0) {
      struct kvl_point_counter p = fixture_point(fixture->seed, i);
      code = kvl_store_add_point(store, &p, err);
    }
    if (i < fixture->moves && code == 0) {
      struct kvl_move_record m = fixture_move(fixture->seed, i);
      code = kvl_store_add_move(store, &m, err);
    }
  }
  if (code == 0) {
    struct kvl_summary summary = fixture_summary(fixture->seed);
    code = kvl_store_run_end(store, *run, &summary, status, err);
  }
  return code;
}

struct check {
  uint64_t seed, next;
};

static int check_request(void *context, const struct kvl_request_record *record)
{
  struct check *check = context;
  struct kvl_request_record want = fixture_request(check->seed, check->next++);
  return record->id == want.id && record->session == want.session && record->gpu == want.gpu && record->input_tokens == want.input_tokens &&
         record->cached_tokens == want.cached_tokens && record->output_tokens == want.output_tokens && record->submit_ns == want.submit_ns &&
         record->prefill_start_ns == want.prefill_start_ns && record->prefill_end_ns == want.prefill_end_ns &&
         record->admit_ns == want.admit_ns && record->first_token_ns == want.first_token_ns && record->last_token_ns == want.last_token_ns &&
         record->aborted == want.aborted ? 0 : 1;
}

static int check_sample(void *context, const struct kvl_step_sample *s)
{
  struct check *check = context;
  struct kvl_step_sample want = fixture_sample(check->seed, check->next++);
  return s->time_ns == want.time_ns && s->step_ns == want.step_ns && s->gpu == want.gpu && s->batch == want.batch && s->waiting == want.waiting &&
         s->frames_free == want.frames_free && s->frames_reserved == want.frames_reserved && s->frames_lent == want.frames_lent &&
         s->frames_retiring == want.frames_retiring && memcmp(&s->resident_share, &want.resident_share, sizeof(double)) == 0 &&
         memcmp(s->lanes, want.lanes, sizeof want.lanes) == 0 && memcmp(s->stall_ns, want.stall_ns, sizeof want.stall_ns) == 0 ? 0 : 1;
}

static int check_point(void *context, const struct kvl_point_counter *p)
{
  struct check *check = context;
  struct kvl_point_counter want = fixture_point(check->seed, check->next++);
  return p->gpu == want.gpu && p->point == want.point && p->layer == want.layer && p->cache == want.cache && p->fetched == want.fetched &&
         p->overflow == want.overflow && memcmp(p->lanes, want.lanes, sizeof want.lanes) == 0 ? 0 : 1;
}

static int check_move(void *context, const struct kvl_move_record *m)
{
  struct check *check = context;
  struct kvl_move_record want = fixture_move(check->seed, check->next++);
  return m->time_ns == want.time_ns && m->gpu == want.gpu && m->revoked == want.revoked && m->populated == want.populated &&
         m->given_back == want.given_back && m->kept == want.kept && m->bytes == want.bytes ? 0 : 1;
}

static int verdict(const char *kind, int code, const struct check *check, uint32_t want, struct kvl_err *err)
{
  if (code < 0) {
    return code;
  }
  if (code > 0 || check->next != want) {
    return kvl_err_set(err, -EILSEQ, "%s: %s at record %llu of %u", kind, code > 0 ? "a difference" : "too few or too many",
                       (unsigned long long)check->next, want);
  }
  return 0;
}

int fixture_check(struct kvl_store *store, int64_t run, const struct fixture *fixture, struct kvl_err *err)
{
  struct check check = {fixture->seed, 0};
  int code = verdict("requests", kvl_store_each_request(store, run, check_request, &check, err), &check, fixture->requests, err);
  check.next = 0;
  code = code != 0 ? code : verdict("samples", kvl_store_each_sample(store, run, check_sample, &check, err), &check, fixture->samples, err);
  check.next = 0;
  code = code != 0 ? code : verdict("points", kvl_store_each_point(store, run, check_point, &check, err), &check, fixture->points, err);
  check.next = 0;
  code = code != 0 ? code : verdict("moves", kvl_store_each_move(store, run, check_move, &check, err), &check, fixture->moves, err);
  return code;
}

/* ---- the folder ---- */

static char folder[256];

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
  (void)info;
  (void)walk;
  if (flag == FTW_DP || flag == FTW_D) {
    return rmdir(path);
  }
  return unlink(path);
}

void fixture_folder_make(void)
{
  const char *base = getenv("TMPDIR");
  (void)snprintf(folder, sizeof folder, "%s/kvl-results-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
  if (mkdtemp(folder) == NULL) {
    perror(folder);
    exit(1);
  }
}

void fixture_folder_remove(void)
{
  (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fixture_folder(void)
{
  return folder;
}

const char *fixture_path(const char *name)
{
  static char ring[8][512];
  static unsigned next;
  char *path = ring[next++ % 8];
  (void)snprintf(path, sizeof ring[0], "%.255s/%s", folder, name);
  return path;
}
