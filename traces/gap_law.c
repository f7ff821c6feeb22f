/* Stored tables of the presets, and what is derived from one when a source opens. */
#include <stdbool.h>
#include <string.h>

#include "traces/gap.h"
#include "traces/preset.h"

#include "traces/gap_table.inc"

static void init_class(struct kvl_gap_law *law, uint32_t c)
{
  const struct kvl_gap_table *t = law->table;
  uint64_t weight[KVL_GAP_STATES * KVL_GAP_BINS], total = 0, never = 0, width = 0;
  for (uint32_t s = 0; s < KVL_GAP_STATES; s++) {
    uint64_t share = t->state_q16[c][s] - (s > 0 ? t->state_q16[c][s - 1] : 0u);
    for (uint32_t bin = 0; bin < KVL_GAP_BINS; bin++) {
      uint64_t p = (bin > 0 ? t->longer_q16[c][s][bin - 1] : 65536u) - t->longer_q16[c][s][bin];
      uint64_t *w = &weight[s * KVL_GAP_BINS + bin];
      *w = share * p * (2 * kvl_gap_bin_first(bin) + kvl_gap_bin_count(bin) - 1); /* twice the mean gap if flat; below 2^45 */
      total += *w;
      width += bin >= 8 ? share * p * kvl_gap_bin_count(bin) : 0;
    }
    never += share * t->longer_q16[c][s][KVL_GAP_BINS - 1];
  }
  law->never_q32[c] = (uint32_t)(never < UINT32_MAX ? never : UINT32_MAX);
  uint64_t flat_q16 = total >> 17;
  if (flat_q16 > t->mean_q16[c] && width >> 16 > 0) { /* gaps in a bin thin out: tilt by `skew` takes skew / 6 of the bin's width from the mean */
    uint64_t skew = (flat_q16 - t->mean_q16[c]) * 6 * 256 / (width >> 16);
    law->skew_q8[c] = (uint32_t)(skew < 256 ? skew : 256);
  }
  uint64_t scheduled = ((uint64_t)t->mean_q16[c] * t->select_q32[c]) >> 32;
  law->scheduled_q16[c] = (uint32_t)(scheduled < 65536 ? scheduled : 65536);
  uint64_t sum = 0, unit = total / UINT32_MAX + 1;
  for (uint32_t i = 0; i < KVL_GAP_STATES * KVL_GAP_BINS; i++) {
    sum += weight[i];
    law->biased_q32[c][i] = (uint32_t)(sum / unit);
  }
}

/* expect[i]: threshold (i - 256) / 4 classes above the mean static term (which is class KVL_GAP_ZERO when the threshold is 0). */
static void init_expect(struct kvl_gap_law *law)
{
  const struct kvl_gap_table *t = law->table;
  for (int32_t i = 0; i < 512; i++) {
    uint64_t sum = 0;
    for (int32_t cell = -KVL_GAP_NORMAL; cell < KVL_GAP_NORMAL; cell++) {
      uint64_t mass = kvl_gap_normal_q32[cell >= 0 ? cell : -cell - 1];
      int64_t at_q16 = (int64_t)(i - 256) * 16384 + KVL_GAP_ZERO * 65536 - (int64_t)(2 * cell + 1) * t->ratio_q16 / 64;
      if (at_q16 >= KVL_GAP_CLASSES * 65536) {
        continue;
      }
      if (at_q16 < 0) {
        at_q16 = 0;
      }
      uint32_t c = (uint32_t)(at_q16 >> 16), part = (uint32_t)(at_q16 & 65535);
      uint64_t above = c + 1 < KVL_GAP_CLASSES ? t->select_q32[c + 1] : 0;
      uint64_t p = ((uint64_t)t->select_q32[c] * (65536 - part) + above * part) >> 16;
      sum += (mass * p) >> 16;
    }
    sum >>= 16;
    law->expect_q32[i] = (uint32_t)(sum < UINT32_MAX ? sum : UINT32_MAX);
  }
}

/* Columns for the bins' probabilities (P(longer), Q16). Each column holds the rest of a small bin, topped up from a large one. */
static void init_alias(uint32_t *alias, const uint16_t *longer)
{
  enum { COLUMN = 65536 };
  uint32_t mass[KVL_GAP_ALIAS] = {0}; /* times KVL_GAP_ALIAS, so that a column is 65536 */
  uint32_t before = 65536;
  for (uint32_t bin = 0; bin < KVL_GAP_BINS; bin++) {
    mass[bin] = (before - longer[bin]) * KVL_GAP_ALIAS;
    before = longer[bin];
  }
  mass[KVL_GAP_BINS] = before * KVL_GAP_ALIAS;
  bool filled[KVL_GAP_ALIAS] = {false};
  for (uint32_t i = 0; i < KVL_GAP_ALIAS; i++) {
    uint32_t small = KVL_GAP_ALIAS, large = 0;
    for (uint32_t j = 0; j < KVL_GAP_ALIAS; j++) {
      if (!filled[j] && (small == KVL_GAP_ALIAS || mass[j] < mass[small])) {
        small = j;
      }
      if (!filled[j] && (filled[large] || mass[j] > mass[large])) {
        large = j;
      }
    }
    filled[small] = true;
    uint32_t below = mass[small] < COLUMN ? mass[small] >> (16 - KVL_GAP_ALIAS_BITS) : 1u << KVL_GAP_ALIAS_BITS;
    alias[i] = below << 16 | small << 8 | large;
    if (mass[small] < COLUMN) {
      mass[large] -= COLUMN - mass[small];
    }
  }
}

static void init_draws(struct kvl_gap_law *law)
{
  uint16_t never[KVL_GAP_BINS];
  memset(never, 0xff, sizeof never);
  for (uint32_t c = 0; c < KVL_GAP_STATIC; c++) {
    for (uint32_t s = 0; s < KVL_GAP_STATES; s++) {
      if (c <= KVL_GAP_CLASSES) {
        init_alias(law->alias[c][s], c < KVL_GAP_CLASSES ? law->table->longer_q16[c][s] : never);
      } else {
        memcpy(law->alias[c][s], law->alias[KVL_GAP_CLASSES][s], sizeof law->alias[c][s]);
      }
    }
  }
  for (uint32_t bin = 0; bin <= KVL_GAP_BINS; bin++) {
    law->bin_first[bin] = bin < KVL_GAP_BINS ? kvl_gap_bin_first(bin) : KVL_GAP_MAX + 1;
    law->bin_count[bin] = bin < KVL_GAP_BINS ? kvl_gap_bin_count(bin) : 1;
    for (uint32_t s = 0; s < KVL_GAP_STATES; s++) {
      uint32_t odds = 0, state = bin == 0 ? s : kvl_gap_next_state(s, bin, 0);
      while (bin == 0 && odds < 128 && kvl_gap_next_state(s, 0, 2 * odds) > s) {
        odds++;
      }
      law->after[s][bin] = (uint16_t)(odds << 8 | state);
    }
  }
  uint64_t longer = UINT64_C(1) << 32;
  for (uint32_t i = 0; i < KVL_GAP_BURST_MAX; i++) {
    longer -= longer * law->table->burst_end_q32 >> 32;
    law->burst_longer_q32[i] = (uint32_t)longer;
  }
}

void kvl_gap_law_init(struct kvl_gap_law *law, const struct kvl_gap_table *table)
{
  memset(law, 0, sizeof *law);
  law->table = table;
  law->differ_permille = KVL_GAP_DIFFER_PERMILLE;
  for (uint32_t c = 0; c < KVL_GAP_CLASSES; c++) {
    init_class(law, c);
  }
  init_expect(law);
  init_draws(law);
}

/* P(selected) at a threshold theta_q16 classes above the mean static term. */
static uint64_t expect_at(const struct kvl_gap_law *law, int64_t theta_q16)
{
  int64_t at = theta_q16 + 64 * 65536;
  if (at < 0) {
    at = 0;
  }
  if (at >= 511 * 16384) {
    at = 511 * 16384 - 1;
  }
  uint64_t i = (uint64_t)at / 16384, part = (uint64_t)at % 16384;
  return ((uint64_t)law->expect_q32[i] * (16384 - part) + (uint64_t)law->expect_q32[i + 1] * part) / 16384;
}

/* Rows selected a step on average, Q16, apart from sinks and bursts. */
static uint64_t expect_rows_q16(const struct kvl_gap_law *law, uint32_t rows, int64_t theta_q16)
{
  const struct kvl_gap_table *t = law->table;
  uint64_t sum = 0, near = 0;
  for (uint32_t cell = 0; cell < KVL_GAP_REC && near < rows; cell++) {
    uint64_t end = (uint64_t)(cell + 1) * t->rtau / 8, count = (end < rows ? end : rows) - near;
    sum += count * expect_at(law, theta_q16 - (int64_t)t->rec_q8[cell] * 256);
    near += count;
  }
  return (sum + (rows - near) * expect_at(law, theta_q16)) >> 16;
}

void kvl_gap_balance(const struct kvl_gap_law *law, uint32_t k, uint32_t rows, struct kvl_gap_balance *balance)
{
  const struct kvl_gap_table *t = law->table;
  uint64_t bursts_q16 = (uint64_t)k * t->burst_starts_q32 / (t->burst_end_q32 >> 16);
  uint64_t taken = bursts_q16 + ((uint64_t)KVL_GAP_SINKS << 16), want = (uint64_t)k << 16;
  want = want > taken ? want - taken : 0;
  want += want * (bursts_q16 >> 16) / (rows > 0 ? rows : 1); /* a burst may hit a row that is due anyway */
  int64_t low = -45 * 65536, high = 62 * 65536; /* expected rows fall as the threshold rises */
  while (high - low > 16) {
    int64_t mid = (low + high) / 2;
    if (expect_rows_q16(law, rows, mid) > want) {
      low = mid;
    } else {
      high = mid;
    }
  }
  balance->theta_q16 = (int32_t)low;
  balance->newest_q32 = (uint32_t)expect_at(law, low - (int64_t)t->rec_q8[0] * 256);
  memset(balance->weight_q32, 0, sizeof balance->weight_q32);
  for (int32_t cell = -KVL_GAP_NORMAL; cell < KVL_GAP_NORMAL; cell++) {
    uint64_t mass = kvl_gap_normal_q32[cell >= 0 ? cell : -cell - 1];
    int64_t at_q16 = low + KVL_GAP_ZERO * 65536 - (int64_t)(2 * cell + 1) * t->ratio_q16 / 64;
    at_q16 = at_q16 < 0 ? 0 : at_q16 > (KVL_GAP_STATIC - 1) * 65536 - 1 ? (KVL_GAP_STATIC - 1) * 65536 - 1 : at_q16;
    uint32_t c = (uint32_t)(at_q16 >> 16);
    uint64_t upper = (mass * (uint64_t)(at_q16 & 65535)) >> 16;
    balance->weight_q32[c] += mass - upper;
    balance->weight_q32[c + 1] += upper;
  }
  uint64_t flow[KVL_GAP_CLASSES], total = 0, sum = 0;
  for (uint32_t c = 0; c < KVL_GAP_CLASSES; c++) { /* fresh rows of a class replace those that never return */
    flow[c] = ((balance->weight_q32[c] * t->select_q32[c]) >> 32) * law->never_q32[c] >> 8;
    total += flow[c];
  }
  for (uint32_t c = 0; c < KVL_GAP_CLASSES; c++) {
    sum += flow[c];
    balance->first_q32[c] = total > 0 ? (uint32_t)(sum / (total / UINT32_MAX + 1)) : UINT32_MAX;
  }
  uint64_t unit = total > 0 ? total / (total / UINT32_MAX + 1) : UINT32_MAX;
  balance->first_unit = (uint32_t)unit;
}
