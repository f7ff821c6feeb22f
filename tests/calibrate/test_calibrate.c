/* A descriptor from made-up nodes whose law is known: a PCIe 4 part, an H200-like one, an NVLink-C2C one. The fits must find the law, whatever the link is. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/rng.h"
#include "sim/calibrate.h"
#include "sim/link.h"
#include "tests/base/tap.h"

#define GIB (UINT64_C(1) << 30)

struct node {
  const char *name;
  double copy_gb, back_gb, gather_gb, copy_floor_us, gather_floor_us, node_us, hbm_gb;
  double rows_m[3]; /* over 1, 4, 16 GiB */
};
static const struct node nodes[] = {
  {"pcie4", 25, 24, 21, 5, 3, 1.2, 1500, {60, 30, 15}},
  {"pcie5", 55, 54, 50, 4, 2, 0.5, 4200, {80, 45, 32}},
  {"c2c", 420, 410, 380, 2, 1, 0.4, 7000, {1500, 900, 700}},
};
static const uint64_t sizes[] = {288, 1152}, ranges[] = {GIB, 4 * GIB, 16 * GIB}, counts[] = {16, 256, 4096, 65536};
enum { BATCHES = 3, MISSES = 3 };
static const uint32_t batches[BATCHES] = {1, 16, 64}, misses[MISSES] = {0, 32, 128};

static void add(struct kvl_calibration *c, struct kvl_probe_point p, double us)
{
  p.n = 5;
  p.covered = true;
  p.median_ps = (uint64_t)(us * 1e6 + 0.5);
  p.p10_ps = p.median_ps * 99 / 100;
  p.p90_ps = p.median_ps * 101 / 100;
  ck_assert_int_eq(kvl_probe_add(&c->probe, &p), 0);
}

static double gather_us(const struct node *n, int range, uint64_t rows, uint64_t size)
{
  return n->gather_floor_us + fmax((double)(rows * size) / n->gather_gb / 1e3, (double)rows / n->rows_m[range]);
}

/* `noise`: a share of each time; what runs beside takes twice as long. */
static struct kvl_calibration *measure(const struct node *n, double noise, uint64_t seed)
{
  struct kvl_calibration *c = calloc(1, sizeof *c);
  struct kvl_rng rng;
  ck_assert_ptr_nonnull(c);
  kvl_rng_init(&rng, seed, "calibrate", 0);
#define NOISY(us) ((us) * (1 + noise * ((double)kvl_rng_below(&rng, 2001) / 1000 - 1)))
  (void)snprintf(c->name, sizeof c->name, "%s", n->name);
  (void)snprintf(c->probe.device, sizeof c->probe.device, "a \"%s\" part", n->name);
  (void)snprintf(c->probe.driver, sizeof c->probe.driver, "1.2.3");
  (void)snprintf(c->program, sizeof c->program, "kvloan test");
  kvl_calibrate_now(c->date);
  c->probe.hbm_bytes = 80 * GIB;
  c->probe.host_bytes = 16 * GIB;
  add(c, (struct kvl_probe_point){.kind = KVL_PROBE_PIN, .count = 1, .bytes = 16 * GIB}, 2e6);
  add(c, (struct kvl_probe_point){.kind = KVL_PROBE_UNPIN, .count = 1, .bytes = 16 * GIB}, 5e5);
  add(c, (struct kvl_probe_point){.kind = KVL_PROBE_EVENTS}, 1.25);
  add(c, (struct kvl_probe_point){.kind = KVL_PROBE_KERNEL, .count = 1}, 1.5);
  for (uint64_t k = 1; k <= 64; k *= 4) {
    add(c, (struct kvl_probe_point){.kind = KVL_PROBE_GRAPH, .count = k}, NOISY(0.8 + n->node_us * (double)k));
  }
  add(c, (struct kvl_probe_point){.kind = KVL_PROBE_HBM_COPY, .count = 1, .bytes = GIB}, (double)GIB / n->hbm_gb / 1e3 * 2.2);
  add(c, (struct kvl_probe_point){.kind = KVL_PROBE_HBM_READ, .count = 1, .bytes = GIB}, (double)GIB / n->hbm_gb / 1e3);
  for (uint64_t bytes = 4096; bytes <= GIB / 4; bytes *= 8) {
    add(c, (struct kvl_probe_point){.kind = KVL_PROBE_COPY, .count = 1, .bytes = bytes}, NOISY(n->copy_floor_us + (double)bytes / n->copy_gb / 1e3));
    add(c, (struct kvl_probe_point){.kind = KVL_PROBE_COPY, .count = 1, .bytes = bytes, .to_host = true},
        NOISY(n->copy_floor_us + (double)bytes / n->back_gb / 1e3));
  }
  for (uint64_t piece = 2304; piece <= 262144; piece *= 4) { /* small pieces at half the rate */
    double rate = n->gather_gb * (piece < 9216 ? 0.5 : 1);
    for (uint64_t total = 2 << 20; total <= 32 << 20; total *= 16) {
      struct kvl_probe_point p = {.kind = KVL_PROBE_PAGES, .bytes = piece, .count = total / piece, .range_bytes = 16 * GIB};
      double us = 7 + (double)(p.count * piece) / rate / 1e3;
      add(c, p, NOISY(us));
      p.beside = KVL_BESIDE_COPY_OUT;
      if (total > 2 << 20) {
        add(c, p, us * 1.5);
      }
    }
  }
  add(c, (struct kvl_probe_point){.kind = KVL_PROBE_COPY, .beside = KVL_BESIDE_PAGES, .count = 1, .bytes = GIB / 16, .to_host = true},
      1.25 * (double)(GIB / 16) / n->back_gb / 1e3);
  for (int s = 0; s < 2; s++) {
    for (int r = 0; r < 3; r++) {
      for (int k = 0; k < 4; k++) {
        struct kvl_probe_point p = {.kind = KVL_PROBE_GATHER, .bytes = sizes[s], .range_bytes = ranges[r], .count = counts[k]};
        double us = n->node_us + gather_us(n, r, counts[k], sizes[s]);
        add(c, p, NOISY(us));
        p.ascending = true;
        add(c, p, us * 0.9);
        p.ascending = false;
        p.beside = KVL_BESIDE_COPY_IN;
        add(c, p, us * 2);
      }
    }
  }
  for (int b = 0; b < BATCHES; b++) {
    for (int m = 0; m < MISSES; m++) {
      uint64_t rows = (uint64_t)batches[b] * misses[m];
      struct kvl_probe_point p = {.kind = KVL_PROBE_RESOLVE, .batch = batches[b], .lanes = 512, .count = misses[m], .bytes = 288, .range_bytes = 4 * GIB};
      add(c, p, 4 + 0.001 * batches[b] + (rows == 0 ? 0 : 1.25 * gather_us(n, 1, rows, 288)));
    }
  }
#undef NOISY
  return c;
}

static bool near(double a, double b, double share)
{
  return fabs(a - b) <= share * fabs(b);
}

static const struct kvl_calibrate_fit *fit_of(const struct kvl_calibration *c, const char *what)
{
  for (uint32_t i = 0; i < c->fits; i++) {
    if (strncmp(c->fit[i].what, what, strlen(what)) == 0) {
      return &c->fit[i];
    }
  }
  ck_abort_msg("there is no fit of %s", what);
  return NULL;
}

START_TEST(the_law_is_found)
{
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    const struct node *n = &nodes[i];
    struct kvl_calibration *c = measure(n, 0, 1);
    struct kvl_err err;
    ck_assert_msg(kvl_calibrate_fit(c, &err) == 0, "%s", err.text);
    ck_assert(near((double)c->link.copy_bytes_per_s, n->copy_gb * 1e9, 1e-3));
    ck_assert(near((double)c->to_host_bytes_per_s, n->back_gb * 1e9, 1e-3));
    ck_assert(near((double)c->link.copy_floor_ns, n->copy_floor_us * 1e3, 1e-2));
    ck_assert(near((double)c->hbm_read_bytes_per_s, n->hbm_gb * 1e9, 1e-3));
    ck_assert(near((double)c->node_ps, n->node_us * 1e6, 1e-2));
    ck_assert(near((double)c->link.gather_bytes_per_s, n->gather_gb * 1e9, 1e-2));
    ck_assert(near((double)c->link.gather_floor_ns, n->gather_floor_us * 1e3, 1e-2));
    ck_assert_uint_eq(c->link.rows_per_s.n, 3);
    for (int r = 0; r < 3; r++) { /* or what the smallest rows' bytes allow */
      ck_assert(near((double)c->link.rows_per_s.y[r], fmin(n->rows_m[r] * 1e6, n->gather_gb * 1e9 / 288), 1e-2));
    }
    ck_assert_uint_eq(c->link.gathers.sizes * c->link.gathers.ranges * c->link.gathers.counts, 24);
    for (int s = 0; s < 2; s++) {
      for (int r = 0; r < 3; r++) {
        for (int k = 0; k < 4; k++) {
          uint64_t ns = kvl_link_gather_ns(&c->link, counts[k], counts[k] * sizes[s], ranges[r], NULL);
          ck_assert(near((double)ns, 1e3 * gather_us(n, r, counts[k], sizes[s]), 1e-3));
        }
      }
    }
    ck_assert(near(c->slow_copy_in, 2, 1e-3) && near(c->ascending_gain, 0.9, 1e-3));
    ck_assert(c->slow_hbm == 0); /* not measured */
    ck_assert_uint_eq(c->link.pages_bytes_per_s.n, 4);
    ck_assert(near((double)c->link.pages_bytes_per_s.y[0], n->gather_gb * 0.5e9, 1e-3));
    ck_assert(near((double)c->link.pages_bytes_per_s.y[3], n->gather_gb * 1e9, 1e-3));
    ck_assert(near((double)c->link.pages_floor_ns, 7e3, 1e-2));
    ck_assert(near((double)c->link.pages_both_permille, 1500, 1e-3) && near((double)c->link.to_host_both_permille, 1250, 2e-3));
    ck_assert(fit_of(c, "pages by a kernel")->residuals.worst < 1e-3);
    ck_assert_uint_eq(kvl_link_pieces_ns(&c->link, 1, 1 << 20), kvl_link_pieces_ns(&c->link, 2304, 1 << 20)); /* held past the ends */
    ck_assert_uint_eq(kvl_link_pieces_ns(&c->link, 1 << 30, 1 << 20), kvl_link_pieces_ns(&c->link, c->link.pages_bytes_per_s.x[3], 1 << 20));
    ck_assert_uint_eq(c->resolve_ns_by_lanes.n, BATCHES);
    ck_assert_uint_eq(c->resolve_ns_by_lanes.x[2], 64 * 512);
    for (uint32_t k = 0; k < c->link.fetch_permille.n; k++) { /* between the table's points the law has a bend */
      ck_assert(near((double)c->link.fetch_permille.y[k], 1250, 0.15));
    }
    ck_assert_uint_eq(c->link.fetch_permille.x[0], 32);
    ck_assert_uint_eq(c->link.fetch_permille.n, 6); /* 32, 128, 512, 2,048, 8,192 rows, and the end */
    ck_assert(fit_of(c, "gathers: the table")->residuals.worst < 1e-3);
    ck_assert(fit_of(c, "gathers: the law")->residuals.worst < 2e-2);
    ck_assert(fit_of(c, "copies to the GPU")->residuals.worst < 1e-3);
    kvl_calibrate_free(c);
    free(c);
  }
}
END_TEST

/* 3 % of noise: near the law, and monotone all the same. */
START_TEST(noise_is_smoothed)
{
  for (uint64_t seed = 1; seed <= 20; seed++) {
    const struct node *n = &nodes[seed % 3];
    struct kvl_calibration *c = measure(n, 0.03, seed);
    struct kvl_err err;
    ck_assert_msg(kvl_calibrate_fit(c, &err) == 0, "%s", err.text);
    ck_assert(near((double)c->link.copy_bytes_per_s, n->copy_gb * 1e9, 0.05));
    const struct kvl_gather_table *t = &c->link.gathers;
    for (uint32_t i = 0; i < t->sizes * t->ranges * t->counts; i++) {
      ck_assert(i % t->counts == 0 || t->ns[i] >= t->ns[i - 1]);
      ck_assert(i / t->counts % t->ranges == 0 || t->ns[i] >= t->ns[i - t->counts]);
      double law = 1e3 * gather_us(n, (int)(i / t->counts % t->ranges), t->rows[i % t->counts], t->row_bytes[i / t->counts / t->ranges]);
      ck_assert(near((double)t->ns[i], law, 0.12));
    }
    for (uint32_t r = 1; r < c->link.rows_per_s.n; r++) {
      ck_assert_uint_le(c->link.rows_per_s.y[r], c->link.rows_per_s.y[r - 1]);
    }
    kvl_calibrate_free(c);
    free(c);
  }
}
END_TEST

/* A copy that something came between is left out, and the table says so. */
START_TEST(outliers_are_named)
{
  struct kvl_calibration *c = measure(&nodes[1], 0, 1);
  struct kvl_err err;
  for (uint32_t i = 0; i < c->probe.count; i++) {
    struct kvl_probe_point *p = &c->probe.point[i];
    if (p->kind == KVL_PROBE_COPY && !p->to_host && p->bytes == 4096u * 64) {
      p->median_ps *= 3;
    }
  }
  ck_assert_int_eq(kvl_calibrate_fit(c, &err), 0);
  ck_assert(near((double)c->link.copy_bytes_per_s, 55e9, 1e-3));
  ck_assert_uint_eq(fit_of(c, "copies to the GPU")->outliers, 1);
  ck_assert(fit_of(c, "copies to the GPU")->residuals.worst > 0.5); /* it is not hidden */
  kvl_calibrate_free(c);
  free(c);
}
END_TEST

START_TEST(missing_points_are_refused)
{
  static const enum kvl_probe_kind kinds[] = {KVL_PROBE_COPY, KVL_PROBE_GATHER};
  for (int k = 0; k < 2; k++) {
    struct kvl_calibration *c = measure(&nodes[1], 0, 1);
    struct kvl_err err;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->probe.count; i++) {
      if (c->probe.point[i].kind != kinds[k]) {
        c->probe.point[kept++] = c->probe.point[i];
      }
    }
    c->probe.count = kept;
    ck_assert_int_eq(kvl_calibrate_fit(c, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, k == 0 ? "copy" : "gathers"));
    kvl_calibrate_free(c);
    free(c);
  }
  /* a row count that is not there for every size leaves the table, not the others */
  struct kvl_calibration *c = measure(&nodes[1], 0, 1);
  struct kvl_err err;
  for (uint32_t i = 0; i < c->probe.count; i++) {
    struct kvl_probe_point *p = &c->probe.point[i];
    if (p->kind == KVL_PROBE_GATHER && p->bytes == 1152 && p->count == 65536) {
      p->kind = KVL_PROBE_SUBMIT;
    }
  }
  ck_assert_int_eq(kvl_calibrate_fit(c, &err), 0);
  ck_assert_uint_eq(c->link.gathers.counts, 3);
  kvl_calibrate_free(c);
  free(c);
}
END_TEST

START_TEST(written_and_read_again)
{
  struct kvl_calibration *c = measure(&nodes[2], 0.02, 9), *again = calloc(1, sizeof *again);
  struct kvl_err err;
  char path[] = "/tmp/kvl-calibrate-XXXXXX";
  int fd = mkstemp(path);
  ck_assert_ptr_nonnull(again);
  ck_assert_int_ge(fd, 0);
  FILE *out = fdopen(fd, "w");
  ck_assert_ptr_nonnull(out);
  ck_assert_int_eq(kvl_calibrate_fit(c, &err), 0);
  kvl_calibrate_write(out, KVL_FORMAT_JSON, c);
  ck_assert_int_eq(fclose(out), 0);
  int rc = kvl_calibrate_read(again, path, &err);
  (void)remove(path);
  ck_assert_msg(rc == 0, "%s", err.text);
  ck_assert_str_eq(again->name, "c2c");
  ck_assert_str_eq(again->probe.device, "a \"c2c\" part");
  ck_assert_str_eq(again->date, c->date);
  ck_assert_uint_eq(strlen(c->date), 20);
  ck_assert_uint_eq(again->probe.count, c->probe.count);
  ck_assert_int_eq(kvl_calibrate_fit(again, &err), 0);
  ck_assert_mem_eq(&again->link, &c->link, sizeof c->link);
  ck_assert_mem_eq(&again->resolve_ns_by_lanes, &c->resolve_ns_by_lanes, sizeof c->resolve_ns_by_lanes);
  kvl_calibrate_free(c);
  kvl_calibrate_free(again);
  free(c);
  free(again);
}
END_TEST

KVL_TAP_MAIN("calibrate", the_law_is_found, noise_is_smoothed, outliers_are_named, missing_points_are_refused, written_and_read_again)
