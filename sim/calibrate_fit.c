/* From points to what the model plane reads. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/calibrate.h"
#include "sim/link.h"

typedef bool choose_fn(const struct kvl_probe_point *p);

static double seconds(const struct kvl_probe_point *p)
{
  return (double)p->median_ps / 1e12;
}

/* The first point of this kind with this count. NULL: none. */
static const struct kvl_probe_point *point_with(const struct kvl_probe *probe, enum kvl_probe_kind kind, uint64_t count)
{
  for (uint32_t i = 0; i < probe->count; i++) {
    if (probe->point[i].kind == kind && probe->point[i].count == count) {
      return &probe->point[i];
    }
  }
  return NULL;
}

static void add_fit(struct kvl_calibration *c, const double *fit, const double *measured, uint32_t n, uint32_t outliers, const char *what)
{
  if (c->fits < KVL_CALIBRATE_FITS && n > 0) {
    struct kvl_calibrate_fit *f = &c->fit[c->fits++];
    (void)snprintf(f->what, sizeof f->what, "%s", what);
    kvl_fit_residuals(fit, measured, n < KVL_FIT_MAX ? n : KVL_FIT_MAX, &f->residuals);
    f->outliers = outliers;
  }
}

static uint64_t rounded(double value)
{
  return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

/* ---- launches, HBM, pinning ---- */

static uint64_t median_ns(const struct kvl_probe_point *p)
{
  return p == NULL ? 0 : (p->median_ps + 500) / 1000;
}

static void fit_constants(struct kvl_calibration *c)
{
  double x[KVL_FIT_MAX], y[KVL_FIT_MAX], fit[KVL_FIT_MAX];
  uint32_t n = 0;
  struct kvl_fit_line line;
  for (uint32_t i = 0; i < c->probe.count && n < KVL_FIT_MAX; i++) {
    if (c->probe.point[i].kind == KVL_PROBE_GRAPH) {
      x[n] = (double)c->probe.point[i].count;
      y[n++] = (double)c->probe.point[i].median_ps / 1e3;
    }
  }
  kvl_fit_line(x, y, n, &line);
  c->graph_launch_ns = rounded(line.constant);
  c->node_ns = rounded(line.slope);
  c->node_ps = rounded(line.slope * 1e3);
  for (uint32_t i = 0; i < n; i++) {
    fit[i] = line.constant + line.slope * x[i];
  }
  add_fit(c, fit, y, n, line.outliers, "graphs of empty nodes: a line over nodes");
  c->events_ns = median_ns(point_with(&c->probe, KVL_PROBE_EVENTS, 0));
  c->kernel_ns = median_ns(point_with(&c->probe, KVL_PROBE_KERNEL, 1));
  for (uint32_t i = 0; i < c->probe.count; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    double rate = p->median_ps == 0 ? 0 : (double)p->bytes / seconds(p);
    if (p->kind == KVL_PROBE_HBM_READ) {
      c->hbm_read_bytes_per_s = rounded(rate);
    } else if (p->kind == KVL_PROBE_HBM_COPY) {
      c->hbm_copy_bytes_per_s = rounded(2 * rate);
    } else if (p->kind == KVL_PROBE_PIN) { /* the last is the largest */
      c->pin_bytes_per_s = rounded(rate);
    } else if (p->kind == KVL_PROBE_UNPIN) {
      c->unpin_bytes_per_s = rounded(rate);
    }
  }
  if (c->hbm_read_bytes_per_s == 0) { /* a device whose stand-in layers take no time */
    c->hbm_read_bytes_per_s = c->hbm_copy_bytes_per_s;
  }
}

/* ---- the copy engine ---- */

static void fit_copies(struct kvl_calibration *c)
{
  double x[KVL_FIT_MAX], y[KVL_FIT_MAX], fit[KVL_FIT_MAX];
  for (int to_host = 0; to_host < 2; to_host++) {
    uint32_t n = 0;
    const struct kvl_probe_point *alone = NULL, *both = NULL;
    for (uint32_t i = 0; i < c->probe.count && n < KVL_FIT_MAX; i++) {
      const struct kvl_probe_point *p = &c->probe.point[i];
      if (p->kind != KVL_PROBE_COPY || p->to_host != (to_host == 1)) {
        continue;
      }
      if (p->beside == KVL_BESIDE_NOTHING) {
        x[n] = (double)p->bytes;
        y[n++] = (double)p->median_ps / 1e3;
        alone = alone == NULL || p->bytes > alone->bytes ? p : alone;
      } else if (p->covered) {
        both = both == NULL || p->bytes > both->bytes ? p : both;
      }
    }
    struct kvl_fit_line line;
    kvl_fit_line(x, y, n, &line);
    for (uint32_t i = 0; i < n; i++) {
      fit[i] = line.constant + line.slope * x[i];
    }
    add_fit(c, fit, y, n, line.outliers, to_host == 1 ? "copies to the host: floor + bytes / bandwidth" : "copies to the GPU: floor + bytes / bandwidth");
    uint64_t rate = line.slope > 0 ? rounded(1e9 / line.slope) : 0;
    if (to_host == 0) {
      c->link.copy_bytes_per_s = rate;
      c->link.copy_floor_ns = rounded(line.constant);
    } else {
      c->to_host_bytes_per_s = rate;
    }
    c->both_ways[to_host] = alone != NULL && both != NULL && alone->bytes == both->bytes && alone->median_ps != 0
                              ? (double)both->median_ps / (double)alone->median_ps
                              : 0;
  }
}

/* ---- pages by a kernel ---- */

static const struct kvl_probe_point *pages_at(const struct kvl_probe *probe, uint64_t bytes, enum kvl_probe_beside beside, bool most)
{
  const struct kvl_probe_point *found = NULL;
  for (uint32_t i = 0; i < probe->count; i++) {
    const struct kvl_probe_point *p = &probe->point[i];
    if (p->kind == KVL_PROBE_PAGES && p->bytes == bytes && p->beside == beside && (found == NULL || (p->count > found->count) == most)) {
      found = p;
    }
  }
  return found;
}

/* Few and many pieces of each size: what the second has more is the rate, the rest the floor, of which there is one for all. Rates rise with the piece. */
static void fit_pages(struct kvl_calibration *c)
{
  struct kvl_link *l = &c->link;
  double rate[KVL_CURVE_MAX], floor_ns[KVL_CURVE_MAX], slow[KVL_CURVE_MAX], fit[KVL_FIT_MAX], measured[KVL_FIT_MAX];
  uint32_t n = 0, slows = 0;
  l->pages_bytes_per_s = (struct kvl_curve){.n = 0};
  for (uint32_t i = 0; i < c->probe.count && n < KVL_CURVE_MAX; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i], *few = NULL, *many = NULL, *both = NULL;
    if (p->kind != KVL_PROBE_PAGES || p->beside != KVL_BESIDE_NOTHING || (n > 0 && p->bytes <= l->pages_bytes_per_s.x[n - 1])) {
      continue;
    }
    few = pages_at(&c->probe, p->bytes, KVL_BESIDE_NOTHING, false);
    many = pages_at(&c->probe, p->bytes, KVL_BESIDE_NOTHING, true);
    both = pages_at(&c->probe, p->bytes, KVL_BESIDE_COPY_OUT, true);
    double more = (double)((many->count - few->count) * p->bytes), took = (double)many->median_ps / 1e3 - (double)few->median_ps / 1e3;
    if (more <= 0 || took <= 0) {
      more = (double)(many->count * p->bytes);
      took = fmax((double)many->median_ps / 1e3, 1);
    }
    rate[n] = fmax(more * 1e9 / took, 1e6);
    floor_ns[n] = fmax((double)few->median_ps / 1e3 - (double)(few->count * p->bytes) * 1e9 / rate[n], 0);
    if (both != NULL && both->covered && both->count == many->count && many->median_ps != 0) {
      slow[slows++] = (double)both->median_ps / (double)many->median_ps;
    }
    l->pages_bytes_per_s.x[n++] = p->bytes;
  }
  kvl_fit_monotone(rate, NULL, n, true);
  l->pages_bytes_per_s.n = n;
  for (uint32_t i = 0; i < n; i++) {
    l->pages_bytes_per_s.y[i] = rounded(fmin(rate[i], 1e14));
  }
  l->pages_floor_ns = rounded(kvl_fit_median(floor_ns, n));
  l->pages_both_permille = rounded(fmin(fmax(1000 * kvl_fit_median(slow, slows), 1000), 100000));
  uint32_t points = 0;
  l->to_host_both_permille = 1000;
  for (uint32_t i = 0; i < c->probe.count && points < KVL_FIT_MAX; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    if (p->kind == KVL_PROBE_PAGES && p->beside == KVL_BESIDE_NOTHING) {
      fit[points] = (double)kvl_link_pieces_ns(l, p->bytes, p->count * p->bytes) + (double)l->pages_floor_ns;
      measured[points++] = (double)p->median_ps / 1e3;
    } else if (p->kind == KVL_PROBE_COPY && p->to_host && p->beside == KVL_BESIDE_PAGES && p->covered && c->to_host_bytes_per_s != 0) {
      double alone = (double)p->bytes * 1e9 / (double)c->to_host_bytes_per_s;
      l->to_host_both_permille = rounded(fmin(fmax((double)p->median_ps / alone, 1000), 100000));
    }
  }
  l->to_host_bytes_per_s = c->to_host_bytes_per_s;
  add_fit(c, fit, measured, points, 0, "pages by a kernel: floor + bytes / rate of the piece");
}

/* ---- gathers ---- */

static bool plain(const struct kvl_probe_point *p)
{
  return p->kind == KVL_PROBE_GATHER && p->beside == KVL_BESIDE_NOTHING && !p->ascending;
}

static void put_on(uint64_t *axis, uint32_t *n, uint64_t x)
{
  uint32_t at = 0;
  while (at < *n && axis[at] < x) {
    at++;
  }
  if ((at == *n || axis[at] != x) && *n < KVL_GATHER_AXIS_MAX) {
    memmove(&axis[at + 1], &axis[at], (*n - at) * sizeof *axis);
    axis[at] = x;
    ++*n;
  }
}

static const struct kvl_probe_point *gather_at(const struct kvl_probe *probe, uint64_t size, uint64_t range, uint64_t rows, bool ascending)
{
  for (uint32_t i = 0; i < probe->count; i++) {
    const struct kvl_probe_point *p = &probe->point[i];
    if (p->kind == KVL_PROBE_GATHER && p->beside == KVL_BESIDE_NOTHING && p->ascending == ascending && p->bytes == size && p->range_bytes == range &&
        p->count == rows) {
      return p;
    }
  }
  return NULL;
}

/* Times without what an empty node costs, rising with rows and with range. The grid is what was measured at all points of: a row count that did not fit at one
 * size is left out. */
static int fit_table(struct kvl_calibration *c, struct kvl_err *err)
{
  struct kvl_gather_table *t = &c->link.gathers;
  static const struct kvl_gather_table none;
  double y[KVL_FIT_MAX], fit[KVL_GATHER_POINTS_MAX], measured[KVL_GATHER_POINTS_MAX];
  *t = none;
  for (uint32_t i = 0; i < c->probe.count; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    if (plain(p)) {
      put_on(t->row_bytes, &t->sizes, p->bytes);
      put_on(t->range_bytes, &t->ranges, p->range_bytes);
      put_on(t->rows, &t->counts, p->count);
    }
  }
  for (uint32_t k = 0; k < t->counts; k++) { /* all there? */
    bool there = true;
    for (uint32_t s = 0; s < t->sizes; s++) {
      for (uint32_t r = 0; r < t->ranges; r++) {
        there = there && gather_at(&c->probe, t->row_bytes[s], t->range_bytes[r], t->rows[k], false) != NULL;
      }
    }
    if (!there) {
      memmove(&t->rows[k], &t->rows[k + 1], (t->counts - k - 1) * sizeof *t->rows);
      t->counts--;
      k--;
    }
  }
  uint32_t points = t->sizes * t->ranges * t->counts, n = 0;
  if (points == 0 || points > KVL_GATHER_POINTS_MAX) {
    return kvl_err_set(err, -EINVAL, "the gathers that were measured make no grid of 1 to %d points", (int)KVL_GATHER_POINTS_MAX);
  }
  for (uint32_t s = 0; s < t->sizes; s++) {
    uint32_t first = n;
    for (uint32_t i = 0; i < t->ranges * t->counts; i++) {
      double ps = (double)gather_at(&c->probe, t->row_bytes[s], t->range_bytes[i / t->counts], t->rows[i % t->counts], false)->median_ps;
      y[i] = fmax(ps - (double)c->node_ps, 0);
    }
    for (uint32_t i = 0; i < t->ranges * t->counts; i++) {
      measured[n++] = y[i];
    }
    kvl_fit_monotone_table(y, t->ranges, t->counts);
    for (uint32_t i = 0; i < t->ranges * t->counts; i++) {
      fit[first + i] = y[i];
      t->ns[first + i] = rounded(y[i] / 1e3);
    }
  }
  add_fit(c, fit, measured, n, 0, "gathers: the table, rising with rows and range");
  return 0;
}

/* What the table says between its points: each inner row count from its neighbours. Rows grow by powers of four, so this is the worst place. */
static void check_between(struct kvl_calibration *c)
{
  const struct kvl_gather_table *t = &c->link.gathers;
  struct kvl_link *without = malloc(sizeof *without);
  double fit[KVL_FIT_MAX], measured[KVL_FIT_MAX];
  uint32_t n = 0;
  for (uint32_t k = 1; without != NULL && k + 1 < t->counts; k++) {
    for (uint32_t s = 0; s < t->sizes; s++) {
      for (uint32_t r = 0; r < t->ranges && n < KVL_FIT_MAX; r++) {
        struct kvl_gather_table *w = &without->gathers;
        *w = (struct kvl_gather_table){.sizes = 1, .ranges = 1, .counts = 2, .row_bytes = {t->row_bytes[s]}, .range_bytes = {t->range_bytes[r]},
                                       .rows = {t->rows[k - 1], t->rows[k + 1]}};
        const uint64_t *ns = t->ns + ((uint64_t)s * t->ranges + r) * t->counts;
        w->ns[0] = ns[k - 1];
        w->ns[1] = ns[k + 1];
        fit[n] = (double)kvl_link_gather_ns(without, t->rows[k], t->rows[k] * t->row_bytes[s], t->range_bytes[r], NULL);
        measured[n++] = (double)ns[k];
      }
    }
  }
  free(without);
  add_fit(c, fit, measured, n, 0, "gathers: a row count left out, from its neighbours");
}

/* The four numbers of the law: rows a second by range from many of the smallest rows, bytes a second from many of the largest, the floor that leaves the least error. */
static void fit_law(struct kvl_calibration *c)
{
  struct kvl_link *l = &c->link;
  const struct kvl_gather_table *t = &l->gathers;
  double rate[KVL_GATHER_AXIS_MAX], best = INFINITY, floor_ns = 0;
  double measured[KVL_GATHER_POINTS_MAX], law[KVL_GATHER_POINTS_MAX], fit[KVL_GATHER_POINTS_MAX];
  uint32_t points = t->sizes * t->ranges * t->counts;
  const uint64_t *last = t->ns + ((uint64_t)(t->sizes - 1) * t->ranges) * t->counts;
  for (uint32_t r = 0; r < t->ranges; r++) {
    const uint64_t *ns = t->ns + (uint64_t)r * t->counts;
    double rows = (double)t->rows[t->counts - 1], took = (double)ns[t->counts - 1];
    if (t->counts > 1) { /* the slope of the last piece: no floor in it */
      rows -= (double)t->rows[t->counts - 2];
      took -= (double)ns[t->counts - 2];
    }
    rate[r] = rows * 1e9 / fmax(took, 1);
  }
  kvl_fit_monotone(rate, NULL, t->ranges, false);
  l->rows_per_s = (struct kvl_curve){.n = t->ranges};
  for (uint32_t r = 0; r < t->ranges; r++) {
    l->rows_per_s.x[r] = t->range_bytes[r];
    l->rows_per_s.y[r] = rounded(fmax(rate[r], 1));
  }
  double bytes = (double)(t->rows[t->counts - 1] * t->row_bytes[t->sizes - 1]), took = (double)last[t->counts - 1];
  if (t->counts > 1) {
    bytes -= (double)(t->rows[t->counts - 2] * t->row_bytes[t->sizes - 1]);
    took -= (double)last[t->counts - 2];
  }
  l->gather_bytes_per_s = rounded(fmax(bytes * 1e9 / fmax(took, 1), 1e6));
  l->gather_floor_ns = 0;
  struct kvl_gather_table table = *t;
  l->gathers.counts = 0; /* the law, not the table */
  for (uint32_t i = 0; i < points; i++) {
    uint64_t rows = table.rows[i % table.counts], size = table.row_bytes[i / table.counts / table.ranges];
    law[i] = (double)kvl_link_gather_ns(l, rows, rows * size, table.range_bytes[i / table.counts % table.ranges], NULL);
    measured[i] = (double)table.ns[i];
  }
  l->gathers = table;
  for (uint32_t k = 0; k < points; k++) { /* the best floor leaves one of the points exact */
    double candidate = fmax(measured[k] - law[k], 0), error = 0;
    for (uint32_t i = 0; i < points; i++) {
      error += measured[i] > 0 ? fabs((law[i] + candidate) / measured[i] - 1) : 0;
    }
    if (error < best) {
      best = error;
      floor_ns = candidate;
    }
  }
  l->gather_floor_ns = rounded(floor_ns);
  for (uint32_t i = 0; i < points; i++) {
    fit[i] = law[i] + floor_ns;
  }
  add_fit(c, fit, measured, points, 0, "gathers: the law (floor + max(bytes, rows)), for who reads no table");
}

static void fit_order_and_company(struct kvl_calibration *c)
{
  double gain[KVL_FIT_MAX], slow[KVL_BESIDES][KVL_FIT_MAX];
  uint32_t gains = 0, slows[KVL_BESIDES] = {0};
  for (uint32_t i = 0; i < c->probe.count; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    if (p->kind != KVL_PROBE_GATHER) {
      continue;
    }
    const struct kvl_probe_point *other = gather_at(&c->probe, p->bytes, p->range_bytes, p->count, false);
    if (other == NULL || other->median_ps == 0) {
      continue;
    }
    double ratio = (double)p->median_ps / (double)other->median_ps;
    if (p->beside == KVL_BESIDE_NOTHING && p->ascending && p->count >= 1024 && gains < KVL_FIT_MAX) {
      gain[gains++] = ratio;
    } else if (p->beside != KVL_BESIDE_NOTHING && p->covered && slows[p->beside] < KVL_FIT_MAX) {
      slow[p->beside][slows[p->beside]++] = ratio;
    }
  }
  c->ascending_gain = kvl_fit_median(gain, gains);
  c->slow_copy_in = kvl_fit_median(slow[KVL_BESIDE_COPY_IN], slows[KVL_BESIDE_COPY_IN]);
  c->slow_copy_out = kvl_fit_median(slow[KVL_BESIDE_COPY_OUT], slows[KVL_BESIDE_COPY_OUT]);
  c->slow_hbm = kvl_fit_median(slow[KVL_BESIDE_HBM], slows[KVL_BESIDE_HBM]);
}

/* ---- look-ups ---- */

static int by_rows(const void *a, const void *b)
{
  const struct kvl_probe_point *x = *(const struct kvl_probe_point *const *)a, *y = *(const struct kvl_probe_point *const *)b;
  uint64_t m = x->count * x->batch, n = y->count * y->batch;
  return (m > n) - (m < n);
}

/* What a look-up's fetches take beyond a gather of the same rows: medians of the points between one power of four and the next. */
static void fit_fetches(struct kvl_calibration *c)
{
  enum { FAR = 1 << 20 };
  struct kvl_curve *curve = &c->link.fetch_permille;
  const struct kvl_probe_point *point[KVL_FIT_MAX];
  double ratio[KVL_FIT_MAX];
  uint32_t points = 0;
  *curve = (struct kvl_curve){.n = 0};
  for (uint32_t i = 0; i < c->probe.count && points < KVL_FIT_MAX; i++) {
    if (c->probe.point[i].kind == KVL_PROBE_RESOLVE && c->probe.point[i].count != 0) {
      point[points++] = &c->probe.point[i];
    }
  }
  qsort(point, points, sizeof point[0], by_rows);
  uint64_t end = 4;
  for (uint32_t first = 0, i = 0; first < points && curve->n + 2 <= KVL_CURVE_MAX; first = i) {
    uint32_t n = 0;
    while (point[first]->count * point[first]->batch >= end) {
      end *= 4;
    }
    for (i = first; i < points && point[i]->count * point[i]->batch < end; i++) {
      const struct kvl_probe_point *p = point[i];
      uint64_t rows = p->count * p->batch, gather = kvl_link_gather_ns(&c->link, rows, rows * p->bytes, p->range_bytes, NULL);
      double more = (double)p->median_ps / 1e3 - (double)kvl_curve_at(&c->resolve_ns_by_lanes, (uint64_t)p->batch * p->lanes, NULL);
      if (gather != 0 && more > 0) {
        ratio[n++] = more / (double)gather;
      }
    }
    if (n != 0) {
      const struct kvl_probe_point *middle = point[first + (i - first) / 2];
      curve->x[curve->n] = middle->count * middle->batch;
      curve->y[curve->n++] = rounded(fmax(1000 * kvl_fit_median(ratio, n), 1));
    }
  }
  if (curve->n != 0) { /* a curve's last slope goes on: held instead */
    curve->x[curve->n] = curve->x[curve->n - 1] + FAR;
    curve->y[curve->n] = curve->y[curve->n - 1];
    curve->n++;
  }
}

static void fit_look_ups(struct kvl_calibration *c)
{
  double y[KVL_CURVE_MAX], raw[KVL_CURVE_MAX], fit[KVL_FIT_MAX], measured[KVL_FIT_MAX];
  struct kvl_curve *curve = &c->resolve_ns_by_lanes;
  *curve = (struct kvl_curve){.n = 0};
  for (uint32_t i = 0; i < c->probe.count && curve->n < KVL_CURVE_MAX; i++) { /* measured in order of batch */
    const struct kvl_probe_point *p = &c->probe.point[i];
    uint64_t lanes = (uint64_t)p->batch * p->lanes;
    if (p->kind == KVL_PROBE_RESOLVE && p->count == 0 && (curve->n == 0 || lanes > curve->x[curve->n - 1])) {
      curve->x[curve->n] = lanes;
      raw[curve->n] = y[curve->n] = (double)p->median_ps / 1e3;
      curve->n++;
    }
  }
  kvl_fit_monotone(y, NULL, curve->n, true);
  for (uint32_t i = 0; i < curve->n; i++) {
    curve->y[i] = rounded(y[i]);
  }
  add_fit(c, y, raw, curve->n, 0, "look-ups without misses, rising with rows selected");
  fit_fetches(c);
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->probe.count && n < KVL_FIT_MAX; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    if (p->kind == KVL_PROBE_RESOLVE && p->count != 0) {
      uint64_t rows = p->count * p->batch;
      fit[n] = (double)(kvl_curve_at(curve, (uint64_t)p->batch * p->lanes, NULL) +
                        kvl_link_fetch_ns(&c->link, rows, rows * p->bytes, p->range_bytes, NULL));
      measured[n++] = (double)p->median_ps / 1e3;
    }
  }
  add_fit(c, fit, measured, n, 0, "look-ups with misses: look-up + fetches, as the model plane adds them");
}

int kvl_calibrate_fit(struct kvl_calibration *c, struct kvl_err *err)
{
  c->fits = 0;
  fit_constants(c);
  fit_copies(c);
  fit_pages(c);
  if (c->link.copy_bytes_per_s == 0 || c->hbm_read_bytes_per_s == 0) {
    return kvl_err_set(err, -EINVAL, "%s: the points of %s are missing", c->name, c->hbm_read_bytes_per_s == 0 ? "hbm_read" : "copy");
  }
  int rc = fit_table(c, err);
  if (rc == 0) {
    check_between(c);
    fit_law(c);
    fit_order_and_company(c);
    fit_look_ups(c);
  }
  return rc;
}
