/* Made-up runs for the tests of results/: every value follows from a seed, so that what comes back can be checked to the last digit. */
#ifndef KVL_TESTS_RESULTS_FIXTURE_H
#define KVL_TESTS_RESULTS_FIXTURE_H

#include "results/store.h"

struct fixture {
  uint64_t seed;
  uint32_t requests, samples, points, moves;
};

struct kvl_summary fixture_summary(uint64_t seed);
struct kvl_request_record fixture_request(uint64_t seed, uint64_t index);
struct kvl_step_sample fixture_sample(uint64_t seed, uint64_t index);
struct kvl_point_counter fixture_point(uint64_t seed, uint64_t index);
struct kvl_move_record fixture_move(uint64_t seed, uint64_t index);
struct kvl_run_info fixture_info(uint64_t seed);

/* Writes a whole run, kinds interleaved; the first error ends it. */
int fixture_write(struct kvl_store *store, const struct fixture *fixture, enum kvl_run_status status, int64_t *run, struct kvl_err *err);
/* 0 when `run` holds exactly what fixture_write wrote; else a line in err. */
int fixture_check(struct kvl_store *store, int64_t run, const struct fixture *fixture, struct kvl_err *err);

/* A fresh folder under $TMPDIR or /tmp, and its removal with everything in it. Paths into it come from fixture_path (a ring of buffers). */
void fixture_folder_make(void);
void fixture_folder_remove(void);
const char *fixture_folder(void);
const char *fixture_path(const char *name);

#endif
