/* The raw points of a descriptor that kvloan calibrate wrote. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/calibrate.h"
#include "sim/scenario_doc.h"
#include "sim/scenario_number.h"

enum { COLUMNS = 13 };

static int copy_text(char *to, size_t room, const struct kvl_json *object, const char *key, struct kvl_err *err)
{
  const struct kvl_json *node = kvl_json_member(object, key);
  if (node == NULL || node->kind != KVL_JSON_STRING || strlen(node->text) >= room) {
    return kvl_scenario_bad(err, node == NULL ? object : node, key, "must be a string of less than %u bytes", (unsigned)room);
  }
  memcpy(to, node->text, strlen(node->text) + 1);
  return 0;
}

static int number(const struct kvl_json *node, uint64_t scale, uint64_t *value, struct kvl_err *err)
{
  bool exact;
  if (node == NULL || node->kind != KVL_JSON_NUMBER || kvl_decimal_parse(node->text, scale, value, &exact) != 0) {
    struct kvl_json nowhere = {.place = "calibration"};
    return kvl_scenario_bad(err, node == NULL ? &nowhere : node, "calibration", "a number is expected here");
  }
  return 0;
}

/* The columns behind "beside", and the most that each can be: what a node may ever have, so that no fit multiplies past 64 bits. Times are in us. */
static const struct {
  const char *name;
  uint64_t scale, max;
} columns[COLUMNS] = {
  {"beside", 1, 0},
  {"to_host", 1, 1},
  {"ascending", 1, 1},
  {"covered", 1, 1},
  {"count", 1, UINT64_C(1) << 32},
  {"bytes", 1, UINT64_C(1) << 48},
  {"range_bytes", 1, UINT64_C(1) << 56},
  {"batch", 1, UINT64_C(1) << 16},
  {"lanes", 1, UINT64_C(1) << 24},
  {"n", 1, UINT32_MAX},
  {"median_us", 1000000, UINT64_C(3600000000000000)},
  {"p10_us", 1000000, UINT64_C(3600000000000000)},
  {"p90_us", 1000000, UINT64_C(3600000000000000)},
};

static int column(const struct kvl_json *node, uint32_t i, uint64_t *value, struct kvl_err *err)
{
  bool exact;
  char text[KVL_DECIMAL_MAX];
  if (node->kind != KVL_JSON_NUMBER || kvl_decimal_parse(node->text, columns[i].scale, value, &exact) != 0 || *value > columns[i].max ||
      (columns[i].scale == 1 && !exact)) {
    return kvl_scenario_bad(err, node, "calibration.points", "column %s of a point is a %snumber from 0 to %s", columns[i].name,
                            columns[i].scale == 1 ? "whole " : "", kvl_decimal_print(columns[i].max, columns[i].scale, text));
  }
  return 0;
}

static int read_point(struct kvl_probe *probe, enum kvl_probe_kind kind, const struct kvl_json *row, struct kvl_err *err)
{
  uint64_t x[COLUMNS] = {0};
  uint32_t i = 0;
  struct kvl_probe_point p = {.kind = kind, .beside = KVL_BESIDES};
  for (const struct kvl_json *node = row->kind == KVL_JSON_ARRAY ? row->child : NULL; node != NULL; node = node->next, i++) {
    if (i == 0 && node->kind == KVL_JSON_STRING) {
      for (int b = 0; b < KVL_BESIDES; b++) {
        p.beside = strcmp(node->text, kvl_probe_beside_name((enum kvl_probe_beside)b)) == 0 ? (enum kvl_probe_beside)b : p.beside;
      }
      continue;
    }
    int rc = i < COLUMNS && i != 0 ? column(node, i, &x[i], err) : 0;
    if (rc != 0) {
      return rc;
    }
  }
  if (i != COLUMNS || p.beside == KVL_BESIDES) {
    return kvl_scenario_bad(err, row, "calibration.points", "a point has %d columns (calibration.columns names them)", (int)COLUMNS);
  }
  p.to_host = x[1] != 0;
  p.ascending = x[2] != 0;
  p.covered = x[3] != 0;
  p.count = x[4];
  p.bytes = x[5];
  p.range_bytes = x[6];
  p.batch = (uint32_t)x[7];
  p.lanes = (uint32_t)x[8];
  p.n = (uint32_t)x[9];
  p.median_ps = x[10];
  p.p10_ps = x[11];
  p.p90_ps = x[12];
  return kvl_probe_add(probe, &p) == 0 ? 0 : kvl_err_set(err, -ENOMEM, "no memory for the points");
}

static int read_tree(struct kvl_calibration *c, const struct kvl_json *root, struct kvl_err *err)
{
  const struct kvl_json *k = kvl_json_member(root, "calibration"), *points = kvl_json_member(k, "points");
  uint64_t value = 0, tenths = 0;
  if (points == NULL) {
    return kvl_scenario_bad(err, root, "calibration", "is missing: not a descriptor that kvloan calibrate wrote");
  }
  int rc = copy_text(c->name, sizeof c->name, root, "name", err);
  if (rc == 0 && kvl_json_member(root, "from") != NULL) {
    rc = copy_text(c->from, sizeof c->from, root, "from", err);
  }
  rc = rc != 0 ? rc : copy_text(c->probe.device, sizeof c->probe.device, k, "machine", err);
  rc = rc != 0 ? rc : copy_text(c->probe.driver, sizeof c->probe.driver, k, "driver", err);
  rc = rc != 0 ? rc : copy_text(c->date, sizeof c->date, k, "date", err);
  rc = rc != 0 ? rc : copy_text(c->program, sizeof c->program, k, "program", err);
  rc = rc != 0 ? rc : number(kvl_json_member(k, "multiprocessors"), 1, &value, err);
  c->probe.multiprocessors = (uint32_t)value;
  rc = rc != 0 ? rc : number(kvl_json_member(k, "seconds"), 10, &tenths, err);
  c->probe.wall_ns = tenths * 100000000;
  rc = rc != 0 ? rc : number(kvl_json_member(k, "hbm_bytes"), 1, &c->probe.hbm_bytes, err);
  rc = rc != 0 ? rc : number(kvl_json_member(k, "host_bytes"), 1, &c->probe.host_bytes, err);
  for (int kind = 0; rc == 0 && kind < KVL_PROBE_KINDS; kind++) {
    const struct kvl_json *list = kvl_json_member(points, kvl_probe_kind_name((enum kvl_probe_kind)kind));
    for (const struct kvl_json *row = list == NULL ? NULL : list->child; rc == 0 && row != NULL; row = row->next) {
      rc = read_point(&c->probe, (enum kvl_probe_kind)kind, row, err);
    }
  }
  return rc;
}

int kvl_calibrate_read(struct kvl_calibration *c, const char *path, struct kvl_err *err)
{
  char *text = NULL;
  size_t size = 0;
  struct kvl_arena arena = {0};
  struct kvl_json *root = NULL;
  memset(c, 0, sizeof *c);
  int rc = kvl_scenario_read_file(path, &text, &size, err);
  rc = rc != 0 ? rc : kvl_file_parse(&arena, text, size, path, KVL_FILE_HARDWARE, &root, err);
  rc = rc != 0 ? rc : read_tree(c, root, err);
  free(text);
  kvl_arena_free(&arena);
  if (rc != 0) {
    kvl_calibrate_free(c);
  }
  return rc;
}
