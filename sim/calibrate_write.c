/* A calibration as a table, as a descriptor, as TSV of its points. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "results/text.h"
#include "sim/calibrate.h"
#include "sim/scenario_number.h"

static void put_text(FILE *out, const char *text)
{
  (void)fputc('"', out);
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      (void)fputc('\\', out);
    }
    (void)fputc(c < 0x20 ? ' ' : c, out);
  }
  (void)fputc('"', out);
}

/* Nanoseconds as microseconds, picoseconds too: exact. */
static const char *us_of_ns(uint64_t ns, char text[KVL_DECIMAL_MAX])
{
  return kvl_decimal_print(ns, 1000, text);
}

static const char *us_of_ps(uint64_t ps, char text[KVL_DECIMAL_MAX])
{
  return kvl_decimal_print(ps, 1000000, text);
}

static void put_points(FILE *out, const struct kvl_calibration *c)
{
  char a[KVL_DECIMAL_MAX], b[KVL_DECIMAL_MAX], d[KVL_DECIMAL_MAX];
  for (int kind = 0; kind < KVL_PROBE_KINDS; kind++) {
    int n = 0;
    (void)fprintf(out, "%s      \"%s\": [", kind > 0 ? ",\n" : "", kvl_probe_kind_name((enum kvl_probe_kind)kind));
    for (uint32_t i = 0; i < c->probe.count; i++) {
      const struct kvl_probe_point *p = &c->probe.point[i];
      if ((int)p->kind == kind) {
        (void)fprintf(out, "%s\n        [\"%s\",%d,%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%s,%s,%s]", n++ > 0 ? "," : "",
                      kvl_probe_beside_name(p->beside), p->to_host, p->ascending, p->covered, p->count, p->bytes, p->range_bytes, p->batch, p->lanes, p->n,
                      us_of_ps(p->median_ps, a), us_of_ps(p->p10_ps, b), us_of_ps(p->p90_ps, d));
      }
    }
    (void)fputs("]", out);
  }
}

static void put_origin(FILE *out, const struct kvl_calibration *c, const char *how)
{
  char text[768];
  (void)snprintf(text, sizeof text, "measured by kvloan calibrate, %s, %.10s: %s", c->probe.device, c->date, how);
  (void)fputs("\"origin\": ", out);
  put_text(out, text);
}

static void put_number(FILE *out, const struct kvl_calibration *c, const char *key, uint64_t value, uint64_t scale, const char *how)
{
  char text[KVL_DECIMAL_MAX];
  (void)fprintf(out, "\"%s\": {\"value\": %s, ", key, kvl_decimal_print(value, scale, text));
  put_origin(out, c, how);
  (void)fputs("}", out);
}

/* To the nearest 10 MB/s: more digits are noise. No more than a descriptor takes. */
static uint64_t coarse(uint64_t rate)
{
  rate = rate < UINT64_C(100000000000000) ? rate : UINT64_C(100000000000000);
  return rate < 100000000 ? rate : (rate + 5000000) / 10000000 * 10000000;
}

static void put_link(FILE *out, const struct kvl_calibration *c)
{
  const struct kvl_link *l = &c->link;
  const struct kvl_gather_table *t = &l->gathers;
  char text[KVL_DECIMAL_MAX];
  (void)fputs("  \"link\": {\n    ", out);
  put_number(out, c, "gather_gb_per_s", coarse(l->gather_bytes_per_s), 1000000000, "the largest rows, many of them, over the least range");
  (void)fputs(",\n    ", out);
  put_number(out, c, "copy_gb_per_s", coarse(l->copy_bytes_per_s), 1000000000, "copy engine, host to GPU");
  (void)fputs(",\n    ", out);
  put_number(out, c, "gather_floor_us", l->gather_floor_ns, 1000, "constant of a gather inside a graph, an empty node's time taken off");
  (void)fputs(",\n    ", out);
  put_number(out, c, "copy_floor_us", l->copy_floor_ns, 1000, "constant of one copy of several back to back, events taken off");
  (void)fputs(",\n    \"rows_per_s_by_pool_bytes\": {\"value\": [", out);
  for (uint32_t i = 0; i < l->rows_per_s.n; i++) {
    (void)fprintf(out, "%s[%" PRIu64 ", %" PRIu64 "]", i > 0 ? ", " : "", l->rows_per_s.x[i], l->rows_per_s.y[i]);
  }
  (void)fputs("], ", out);
  put_origin(out, c, "many of the smallest rows, falling with the range");
  (void)fputs("},\n    \"gather_us\": {\"value\": [", out);
  for (uint32_t i = 0; i < t->sizes * t->ranges * t->counts; i++) {
    (void)fprintf(out, "%s%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %s]", i > 0 ? "," : "", i % t->counts == 0 ? "\n      " : " ",
                  t->row_bytes[i / t->counts / t->ranges], t->range_bytes[i / t->counts % t->ranges], t->rows[i % t->counts], us_of_ns(t->ns[i], text));
  }
  (void)fputs("], ", out);
  put_origin(out, c, "random rows, a node of a graph, an empty node's time taken off; made rising with rows and range");
  (void)fputs("}", out);
  if (l->fetch_permille.n != 0) {
    (void)fputs(",\n    \"fetch_percent_by_rows\": {\"value\": [", out);
    for (uint32_t i = 0; i < l->fetch_permille.n; i++) {
      (void)fprintf(out, "%s[%" PRIu64 ", %s]", i > 0 ? ", " : "", l->fetch_permille.x[i], kvl_decimal_print(l->fetch_permille.y[i], 10, text));
    }
    (void)fputs("], ", out);
    put_origin(out, c, "look-ups with misses less look-ups without, against gathers; medians of rows alike; held past the last that was measured");
    (void)fputs("}", out);
  }
  if (l->pages_bytes_per_s.n != 0) {
    (void)fputs(",\n    \"pages_gb_per_s_by_piece\": {\"value\": [", out);
    for (uint32_t i = 0; i < l->pages_bytes_per_s.n; i++) {
      (void)fprintf(out, "%s[%" PRIu64 ", %s]", i > 0 ? ", " : "", l->pages_bytes_per_s.x[i],
                    kvl_decimal_print(coarse(l->pages_bytes_per_s.y[i]), 1000000000, text));
    }
    (void)fputs("], ", out);
    put_origin(out, c, "pieces anywhere in the pool, a kernel on a few multiprocessors; rising with the piece");
    (void)fputs("},\n    ", out);
    put_number(out, c, "pages_floor_us", l->pages_floor_ns, 1000, "what few pieces take beyond that rate, events taken off");
    (void)fputs(",\n    ", out);
    put_number(out, c, "pages_both_ways_percent", l->pages_both_permille, 10, "the same while the copy engine writes to the host");
    (void)fputs(",\n    ", out);
    put_number(out, c, "to_host_both_ways_percent", l->to_host_both_permille, 10, "a copy to the host while pages come in");
    (void)fputs(",\n    ", out);
    put_number(out, c, "to_host_gb_per_s", coarse(l->to_host_bytes_per_s), 1000000000, "copy engine, GPU to host");
  }
  (void)fputs("\n  }", out);
}

static void write_json(FILE *out, const struct kvl_calibration *c)
{
  char text[512], number[KVL_DECIMAL_MAX];
  (void)fputs("{\n", out);
  if (c->from[0] != '\0') {
    (void)fputs("  \"from\": ", out);
    put_text(out, c->from);
    (void)fputs(",\n", out);
  }
  (void)fputs("  \"name\": ", out);
  put_text(out, c->name);
  (void)snprintf(text, sizeof text, "kvloan calibrate on %s, driver %s, %.10s, gathers over up to %.4g GiB of pinned memory", c->probe.device, c->probe.driver,
                 c->date, (double)c->probe.host_bytes / 1073741824.0);
  (void)fputs(",\n  \"source\": ", out);
  put_text(out, text);
  uint64_t hbm = c->probe.hbm_bytes < UINT64_C(1) << 49 ? c->probe.hbm_bytes : UINT64_C(1) << 49;
  (void)fprintf(out, ",\n  \"hbm_gb\": {\"value\": %s, ", kvl_decimal_print(hbm / 1000000 * 1000000, 1000000000, number));
  put_origin(out, c, "what the driver says");
  (void)fputs("},\n  ", out);
  (void)snprintf(text, sizeof text, "a kernel that reads; a copy reads and writes %" PRIu64 " GB/s", c->hbm_copy_bytes_per_s / 1000000000);
  put_number(out, c, "hbm_gb_per_s", coarse(c->hbm_read_bytes_per_s), 1000000000, text);
  if (c->resolve_ns_by_lanes.n != 0) {
    (void)fputs(",\n  \"resolve_us_by_lanes\": {\"value\": [", out);
    for (uint32_t i = 0; i < c->resolve_ns_by_lanes.n; i++) {
      (void)fprintf(out, "%s[%" PRIu64 ", %s]", i > 0 ? ", " : "", c->resolve_ns_by_lanes.x[i], us_of_ns(c->resolve_ns_by_lanes.y[i], number));
    }
    (void)fputs("], ", out);
    put_origin(out, c, "a node of a graph, its launch included");
    (void)fputs("}", out);
  }
  (void)fputs(",\n", out);
  put_link(out, c);
  (void)fputs(",\n  \"calibration\": {\n    \"machine\": ", out);
  put_text(out, c->probe.device);
  (void)fprintf(out, ",\n    \"multiprocessors\": %u,\n    \"driver\": ", c->probe.multiprocessors);
  put_text(out, c->probe.driver);
  (void)fputs(",\n    \"date\": ", out);
  put_text(out, c->date);
  (void)fputs(",\n    \"program\": ", out);
  put_text(out, c->program);
  (void)fprintf(out, ",\n    \"seconds\": %.1f,\n    \"hbm_bytes\": %" PRIu64 ",\n    \"host_bytes\": %" PRIu64 ",\n    \"fits\": [", (double)c->probe.wall_ns / 1e9,
                c->probe.hbm_bytes, c->probe.host_bytes);
  for (uint32_t i = 0; i < c->fits; i++) {
    const struct kvl_calibrate_fit *f = &c->fit[i];
    (void)fprintf(out, "%s\n      {\"what\": ", i > 0 ? "," : "");
    put_text(out, f->what);
    (void)fprintf(out, ", \"points\": %u, \"outliers\": %u, \"median_error\": %.4f, \"p95_error\": %.4f, \"worst_error\": %.4f}", f->residuals.n, f->outliers,
                  f->residuals.median, f->residuals.p95, f->residuals.worst);
  }
  (void)fputs("],\n    \"columns\": [\"beside\",\"to_host\",\"ascending\",\"covered\",\"count\",\"bytes\",\"range_bytes\",\"batch\",\"lanes\",\"n\",\"median_us\","
              "\"p10_us\",\"p90_us\"],\n    \"points\": {\n", out);
  put_points(out, c);
  (void)fputs("\n    }\n  }\n}\n", out);
}

static void write_tsv(FILE *out, const struct kvl_calibration *c)
{
  char a[KVL_DECIMAL_MAX], b[KVL_DECIMAL_MAX], d[KVL_DECIMAL_MAX];
  (void)fputs("kind\tbeside\tto_host\tascending\tcovered\tcount\tbytes\trange_bytes\tbatch\tlanes\tn\tmedian_us\tp10_us\tp90_us\n", out);
  for (uint32_t i = 0; i < c->probe.count; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    (void)fprintf(out, "%s\t%s\t%d\t%d\t%d\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%u\t%s\t%s\t%s\n", kvl_probe_kind_name(p->kind),
                  kvl_probe_beside_name(p->beside), p->to_host, p->ascending, p->covered, p->count, p->bytes, p->range_bytes, p->batch, p->lanes, p->n,
                  us_of_ps(p->median_ps, a), us_of_ps(p->p10_ps, b), us_of_ps(p->p90_ps, d));
  }
}

/* ---- for people ---- */

static double gb(uint64_t rate)
{
  return (double)rate / 1e9;
}

static void spread(FILE *out, const struct kvl_probe_point *p)
{
  (void)fprintf(out, "%12.2f %12.2f %12.2f %4u", (double)p->median_ps / 1e6, (double)p->p10_ps / 1e6, (double)p->p90_ps / 1e6, p->n);
}

static void size_text(char text[32], uint64_t bytes)
{
  double b = (double)bytes;
  (void)snprintf(text, 32, b >= 1073741824.0 ? "%.4g GiB" : b >= 1048576.0 ? "%.4g MiB" : b >= 1024.0 ? "%.4g KiB" : "%.4g B",
                 b >= 1073741824.0 ? b / 1073741824.0 : b >= 1048576.0 ? b / 1048576.0 : b >= 1024.0 ? b / 1024.0 : b);
}

static void write_small(FILE *out, const struct kvl_calibration *c)
{
  (void)fprintf(out, "\n%-34s %12s %12s %12s %4s\n", "launches, HBM, memory, copies", "median us", "p10", "p90", "n");
  for (uint32_t i = 0; i < c->probe.count; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    char what[128], size[32];
    size_text(size, p->bytes);
    if (p->kind == KVL_PROBE_GATHER || p->kind == KVL_PROBE_RESOLVE) {
      continue;
    }
    if (p->kind == KVL_PROBE_GRAPH || p->kind == KVL_PROBE_SUBMIT) {
      (void)snprintf(what, sizeof what, "%s of %" PRIu64 " empty nodes", kvl_probe_kind_name(p->kind), p->count);
    } else if (p->kind == KVL_PROBE_COPY) {
      (void)snprintf(what, sizeof what, "copy %s %s%s", size, p->to_host ? "to host" : "to GPU",
                     p->beside == KVL_BESIDE_NOTHING ? "" : p->covered ? ", both ways" : ", both ways (partly)");
    } else if (p->kind == KVL_PROBE_PAGES) {
      (void)snprintf(what, sizeof what, "pages, %" PRIu64 " x %s%s", p->count, size,
                     p->beside == KVL_BESIDE_NOTHING ? "" : p->covered ? ", both ways" : ", both ways (partly)");
    } else {
      (void)snprintf(what, sizeof what, "%s %s", kvl_probe_kind_name(p->kind), p->bytes == 0 ? "" : size);
    }
    (void)fprintf(out, "%-34s ", what);
    spread(out, p);
    if (p->bytes != 0 && p->median_ps != 0) {
      (void)fprintf(out, "  %.1f GB/s", (double)p->bytes * (p->kind == KVL_PROBE_HBM_COPY ? 2 : p->kind == KVL_PROBE_PAGES ? (double)p->count : 1) * 1e3 / (double)p->median_ps);
    }
    (void)fputc('\n', out);
  }
}

static void write_rows(FILE *out, const struct kvl_calibration *c)
{
  (void)fprintf(out, "\n%-34s %12s %12s %12s %4s\n", "gathers (a node of a graph)", "median us", "p10", "p90", "n");
  for (uint32_t i = 0; i < c->probe.count; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    char what[160], range[32];
    if (p->kind != KVL_PROBE_GATHER) {
      continue;
    }
    size_text(range, p->range_bytes);
    (void)snprintf(what, sizeof what, "%" PRIu64 " x %" PRIu64 " B, %s%s%s%s%s", p->count, p->bytes, range, p->ascending ? ", in order" : "",
                   p->beside == KVL_BESIDE_NOTHING ? "" : ", ", p->beside == KVL_BESIDE_NOTHING ? "" : kvl_probe_beside_name(p->beside),
                   p->covered ? "" : " (partly)");
    (void)fprintf(out, "%-34s ", what);
    spread(out, p);
    (void)fprintf(out, "  %.1f M rows/s, %.1f GB/s\n", p->median_ps == 0 ? 0 : (double)p->count * 1e6 / (double)p->median_ps,
                  p->median_ps == 0 ? 0 : (double)(p->count * p->bytes) * 1e3 / (double)p->median_ps);
  }
  (void)fprintf(out, "\n%-34s %12s %12s %12s %4s\n", "look-ups (a node of a graph)", "median us", "p10", "p90", "n");
  for (uint32_t i = 0; i < c->probe.count; i++) {
    const struct kvl_probe_point *p = &c->probe.point[i];
    char what[96];
    if (p->kind == KVL_PROBE_RESOLVE) {
      (void)snprintf(what, sizeof what, "%u request%s x %u, %" PRIu64 " miss%s each", p->batch, kvl_text_s(p->batch), p->lanes, p->count, p->count == 1 ? "" : "es");
      (void)fprintf(out, "%-34s ", what);
      spread(out, p);
      (void)fputc('\n', out);
    }
  }
}

static void ratio(FILE *out, const char *what, double value)
{
  if (value > 0) {
    (void)fprintf(out, "%-68s %6.2f times\n", what, value);
  }
}

static void write_table(FILE *out, const struct kvl_calibration *c)
{
  (void)fprintf(out, "%s, driver %s, %s, %.1f s, %.4g GiB of pinned memory\n", c->probe.device, c->probe.driver, c->date, (double)c->probe.wall_ns / 1e9,
                (double)c->probe.host_bytes / 1073741824.0);
  write_small(out, c);
  write_rows(out, c);
  (void)fprintf(out, "\nfits\n%-68s %.1f us + %.2f us a node\n", "a graph: launch + nodes", (double)c->graph_launch_ns / 1e3, (double)c->node_ps / 1e6);
  (void)fprintf(out, "%-68s %.1f us + bytes / %.1f GB/s (to the host %.1f)\n", "a copy to the GPU", (double)c->link.copy_floor_ns / 1e3,
                gb(c->link.copy_bytes_per_s), gb(c->to_host_bytes_per_s));
  (void)fprintf(out, "%-68s %.2f us + max(bytes / %.1f GB/s, rows / R)\n", "a gather, as a law", (double)c->link.gather_floor_ns / 1e3,
                gb(c->link.gather_bytes_per_s));
  for (uint32_t i = 0; i < c->link.rows_per_s.n; i++) {
    char range[32];
    size_text(range, c->link.rows_per_s.x[i]);
    (void)fprintf(out, "  R over %-59s %.1f M rows/s\n", range, (double)c->link.rows_per_s.y[i] / 1e6);
  }
  (void)fprintf(out, "%-68s %.0f GB/s read, %.0f copied (read and written)\n", "HBM", gb(c->hbm_read_bytes_per_s), gb(c->hbm_copy_bytes_per_s));
  (void)fprintf(out, "%-68s %.1f GB/s, given back %.1f\n", "memory pinned", gb(c->pin_bytes_per_s), gb(c->unpin_bytes_per_s));
  ratio(out, "a gather in order of address, against random order", c->ascending_gain);
  ratio(out, "a gather beside a copy to the GPU, against alone", c->slow_copy_in);
  ratio(out, "a gather beside a copy to the host", c->slow_copy_out);
  ratio(out, "a gather beside a kernel that reads HBM", c->slow_hbm);
  ratio(out, "a copy to the GPU while the other way is busy", c->both_ways[0]);
  ratio(out, "a copy to the host while the other way is busy", c->both_ways[1]);
  if (c->link.pages_bytes_per_s.n != 0) {
    ratio(out, "pages by a kernel while a copy goes to the host", (double)c->link.pages_both_permille / 1000);
    ratio(out, "a copy to the host while pages come in", (double)c->link.to_host_both_permille / 1000);
  }
  (void)fprintf(out, "\n%-80s %6s %8s %8s %8s %8s\n", "residuals: |fit / measured - 1|", "points", "outliers", "median", "p95", "worst");
  for (uint32_t i = 0; i < c->fits; i++) {
    const struct kvl_calibrate_fit *f = &c->fit[i];
    (void)fprintf(out, "%-80s %6u %8u %7.1f%% %7.1f%% %7.1f%%\n", f->what, f->residuals.n, f->outliers, 100 * f->residuals.median, 100 * f->residuals.p95,
                  100 * f->residuals.worst);
  }
}

void kvl_calibrate_write(FILE *out, enum kvl_format format, const struct kvl_calibration *c)
{
  switch (format) {
  case KVL_FORMAT_TABLE:
    write_table(out, c);
    break;
  case KVL_FORMAT_JSON:
    write_json(out, c);
    break;
  case KVL_FORMAT_TSV:
    write_tsv(out, c);
    break;
  }
}
