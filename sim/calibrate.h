/* A hardware descriptor from measured points (backend/probe.h): fits, and the file.
 *
 * The descriptor's own keys are what the model plane reads; beside them it carries, under "calibration", the machine, driver and date, the residuals of every fit
 * and the raw points, which the scenario reader passes over and kvl_calibrate_read takes up again. */
#ifndef KVL_SIM_CALIBRATE_H
#define KVL_SIM_CALIBRATE_H

#include <stdio.h>

#include "backend/probe.h"
#include "results/summary.h"
#include "sim/fit.h"
#include "sim/model.h"

enum { KVL_CALIBRATE_FITS = 16, KVL_CALIBRATE_DATE = 24 };

struct kvl_calibrate_fit {
  char what[96];
  struct kvl_fit_residuals residuals;
  uint32_t outliers;
};

struct kvl_calibration {
  char name[KVL_NAME_MAX];            /* of the descriptor */
  char from[KVL_NAME_MAX];            /* descriptor that says what was not measured (tflop_per_s); "": none */
  char date[KVL_CALIBRATE_DATE];      /* 2026-11-29T23:01:02Z */
  char program[64];                   /* the version that measured */
  struct kvl_probe probe;

  /* fits */
  struct kvl_link link;
  struct kvl_curve resolve_ns_by_lanes;
  uint64_t hbm_read_bytes_per_s, hbm_copy_bytes_per_s, to_host_bytes_per_s;
  uint64_t graph_launch_ns, node_ns, node_ps, events_ns, kernel_ns;
  uint64_t pin_bytes_per_s, unpin_bytes_per_s;
  double slow_copy_in, slow_copy_out, slow_hbm; /* a gather's time beside those, as a multiple of its time alone: medians; 0: not measured */
  double both_ways[2];                /* a copy's time to the GPU, to the host, while the other way is busy: multiples; 0: not measured */
  double ascending_gain;              /* median time in order of address over random order */
  struct kvl_calibrate_fit fit[KVL_CALIBRATE_FITS];
  uint32_t fits;
};

/* Fits everything to calibration->probe. -EINVAL: points are missing that a descriptor cannot be without. */
int kvl_calibrate_fit(struct kvl_calibration *calibration, struct kvl_err *err);
void kvl_calibrate_free(struct kvl_calibration *calibration);

/* The time of now, in UTC. */
void kvl_calibrate_now(char date[KVL_CALIBRATE_DATE]);

/* table: for people; JSON: the descriptor; TSV: the raw points. Write errors are the stream's. */
void kvl_calibrate_write(FILE *out, enum kvl_format format, const struct kvl_calibration *calibration);

/* The raw points of a descriptor, to be fitted anew. -ENOENT, -EIO, -EINVAL (file, line, reason), -ENOMEM. */
int kvl_calibrate_read(struct kvl_calibration *calibration, const char *path, struct kvl_err *err);

#endif
