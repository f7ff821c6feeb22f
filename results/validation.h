/* What `kvloan validate` found: measured on a plane, predicted by the model plane for the same steps (the recorded completions replayed) and by an
 * independent forecast of the same scenario. One list of rows drives the table, JSON, TSV and the store. */
#ifndef KVL_RESULTS_VALIDATION_H
#define KVL_RESULTS_VALIDATION_H

#include <stdint.h>
#include <stdio.h>

#include "backend/base/err.h"
#include "results/summary.h"

struct kvl_store;

enum kvl_verdict { KVL_VERDICT_NONE, KVL_VERDICT_OK, KVL_VERDICT_FAILED }; /* NONE: the row is for reading */
const char *kvl_verdict_name(enum kvl_verdict verdict); /* "", ok, FAILED */

enum { KVL_VALIDATION_ROWS = 192 };

struct kvl_validation_row {
  char section[16]; /* bytes, replay, selections, prefetch, times, link, device, floor */
  char key[48];     /* unique within its section; stable */
  char unit[8];     /* "" when a count */
  double measured, same_steps, forecast; /* NAN: there is none */
  /* Errors, predicted against measured, in %: selections, of all selections; else of the measured value. NAN: there is none. */
  double same_steps_error, forecast_error;
  double bound;     /* of the error (selections: the forecast's; same steps must be equal); counts: the largest that passes; NAN: none */
  enum kvl_verdict verdict;
};

struct kvl_validation {
  uint32_t count;
  struct kvl_validation_row row[KVL_VALIDATION_ROWS];
};

/* The next row, filled with "there is none"; a full list (a bug) asserts. */
struct kvl_validation_row *kvl_validation_add(struct kvl_validation *v, const char *section, const char *key, const char *unit);
/* Sets both errors, (predicted - measured) / measured in %, where the values are there and measured is not 0. */
void kvl_validation_errors(struct kvl_validation_row *row);
uint32_t kvl_validation_failed(const struct kvl_validation *v); /* rows whose verdict is FAILED */

void kvl_validation_write(FILE *out, enum kvl_format format, const char *title, const struct kvl_validation *v);

/* The rows of a run that has ended, in one transaction, in the table "validations" (created when it is missing). Errors as in results/store.h. */
int kvl_store_validation(struct kvl_store *store, int64_t run, const struct kvl_validation *v, struct kvl_err *err);
/* And back; 0 rows when the run has none. */
int kvl_store_read_validation(struct kvl_store *store, int64_t run, struct kvl_validation *v, struct kvl_err *err);

#endif
