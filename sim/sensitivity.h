/* What a forecast hangs on: each number of a scenario that is calibrated or open is moved by itself, and its effect on the headline keys is measured by runs.
 *
 * Which numbers: every key whose origin begins with calibrated, estimate, assumed, stand-in, open, "start value", "not published" or chosen (kvl_scenario_doubt); and, as
 * nothing settles them for a node that was not measured: the preset of the selections, the law of the host link, the acceptance of speculation.
 * Which values: the range that the origin states ("2.8 to 3.3", in the key's own unit and around its value), else 10 % less and more; a curve or a table as a
 * whole; all other choices of a key of choices. A value that the scenario cannot have gives way to half or twice, and else is left out.
 *
 * A point and the base run with the same seeds, so an effect is the mean of differences between two runs of one seed, and its noise the interval of that
 * mean (Student's t). */
#ifndef KVL_SIM_SENSITIVITY_H
#define KVL_SIM_SENSITIVITY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "results/summary.h"
#include "sim/scenario.h"

enum { KVL_VARY_VALUES = 4, KVL_VARIES_MAX = 60, KVL_VARY_LABEL = 48, KVL_VARY_ORIGIN = 256, KVL_HEADLINES = 4, KVL_VARY_REASON = 300 };

/* output_throughput_tok_per_s, ttft_s_p90, request_rate_tok_per_s_p10, tpot_ms_p90: indices of summary keys. */
uint32_t kvl_headline(unsigned index);

struct kvl_effect {
  double delta;   /* value less base, mean over the seeds */
  double half;    /* half-width of its interval; NaN: one repeat */
  double percent, half_percent; /* of the base's mean; NaN: the base is 0 */
  bool inside;    /* the interval holds 0, or there is no difference at all */
};

struct kvl_vary_value {
  char label[KVL_VARY_LABEL]; /* "0.9 x", "11.93", "cold-a" */
  char *json;                 /* owned */
  uint32_t point;             /* of the design; the base is point 0 */
  bool known;                 /* its runs are complete */
  char reason[KVL_VARY_REASON];
  double mean[KVL_HEADLINES];
  struct kvl_effect effect[KVL_HEADLINES];
};

struct kvl_vary {
  char key[96];
  const char *unit;
  char why[24];                 /* "calibrated", "open", ...; "choice", "law": varied without a word in its origin; "asked": by --keys */
  char origin[KVL_VARY_ORIGIN]; /* "" when none is stated */
  char base[KVL_VARY_LABEL];
  bool stated;                  /* the values are a stated range */
  uint32_t values;              /* 0: none could be tried */
  struct kvl_vary_value value[KVL_VARY_VALUES];
  double score;                 /* largest |percent| outside the noise; of one that has none, the largest inside */
  bool matters;                 /* some effect is outside the noise */
};

struct kvl_sensitivity {
  struct kvl_vary item[KVL_VARIES_MAX]; /* in the order of the keys; ranked by kvl_sensitivity_judge */
  uint32_t count, points;               /* points: values of all, and the base */
  uint32_t idle;                        /* keys in doubt that no value was found for (0, or it changes nothing): left out */
  double base[KVL_HEADLINES], base_half[KVL_HEADLINES];
};

/* Finds the parameters. `scenario`, `sets`: as typed, of `doc`. `keys`: NULL for all, else "KEY", "KEY=LOW:HIGH" (up to four values) or "SECTION" (costs,
 * hardware.link), with commas between. `change`: 0.1 for 10 %. -EINVAL and a line: an unknown key (nearest), one that cannot be varied. -ENOENT: nothing to
 * vary. -ENOMEM. */
int kvl_sensitivity_pick(struct kvl_sensitivity *s, const struct kvl_scenario_doc *doc, const char *scenario, const char *const *sets, unsigned set_count,
                         const char *keys, double change, struct kvl_err *err);
/* The points of the design as JSON, the base first; the caller frees. NULL: no memory. */
char *kvl_sensitivity_points(const struct kvl_sensitivity *s);
/* summary[point * repeats + repeat], NULL: that run failed. Fills effects and ranks: what is outside the noise first, then by score, then by the order of
 * the keys. The base must be complete. -ENOMEM. */
int kvl_sensitivity_judge(struct kvl_sensitivity *s, const struct kvl_summary *const *summary, uint32_t repeats, double confidence);
void kvl_sensitivity_free(struct kvl_sensitivity *s);

/* A range "A to B" (or "between A and B") that a text states, with A < B and `value` within; *from and *to are the numbers as written, in `text`. */
bool kvl_stated_range(const char *text, double value, const char **from, size_t *from_length, const char **to, size_t *to_length);

/* sensitivity_write.c. The ranked result; `title`: "NAME, adaptive". */
void kvl_sensitivity_write(FILE *out, enum kvl_format format, const char *title, const struct kvl_sensitivity *s, uint32_t repeats, uint64_t seed,
                           double confidence);
/* The parameters and their values, before anything is run. */
void kvl_sensitivity_list(FILE *out, enum kvl_format format, const struct kvl_sensitivity *s);

#endif
