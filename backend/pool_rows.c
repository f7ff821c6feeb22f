#include "backend/pool_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int kvl_numbers_init(struct kvl_numbers *s, uint64_t numbers_max)
{
  uint32_t size = 64;
  while (size < 2 * numbers_max) {
    size *= 2;
  }
  *s = (struct kvl_numbers){.mask = size - 1, .epoch = 1, .number = calloc(size, sizeof *s->number)};
  return s->number == NULL ? -ENOMEM : 0;
}

void kvl_numbers_deinit(struct kvl_numbers *s)
{
  free(s->number);
  s->number = NULL;
}

void kvl_numbers_clear(struct kvl_numbers *s)
{
  if (++s->epoch == 0) {
    memset(s->number, 0, ((size_t)s->mask + 1) * sizeof *s->number);
    s->epoch = 1;
  }
}

static uint32_t seek(const struct kvl_numbers *s, int32_t value)
{
  uint32_t h = (uint32_t)value & s->mask; /* numbers come in runs and mostly ascend: neighbours in the table, too */
  while (s->number[h].epoch == s->epoch && s->number[h].value != value) {
    h = (h + 1) & s->mask;
  }
  return h;
}

bool kvl_numbers_has(const struct kvl_numbers *s, int32_t value)
{
  return s->number[seek(s, value)].epoch == s->epoch;
}

bool kvl_numbers_add(struct kvl_numbers *s, int32_t value)
{
  uint32_t h = seek(s, value);
  bool before = s->number[h].epoch == s->epoch;
  s->number[h] = (struct kvl_numbers_entry){s->epoch, value};
  return before;
}

int kvl_pool_rows_init(struct kvl_pool_rows *p, uint64_t blocks_max, uint64_t selected_max)
{
  memset(p, 0, sizeof *p);
  return kvl_numbers_init(&p->named, blocks_max) != 0 || kvl_numbers_init(&p->selected, selected_max) != 0 ? -ENOMEM : 0;
}

void kvl_pool_rows_deinit(struct kvl_pool_rows *p)
{
  kvl_numbers_deinit(&p->named);
  kvl_numbers_deinit(&p->selected);
}

void kvl_pool_rows_begin(struct kvl_pool_rows *p, uint32_t queries, uint32_t rows_per_block, uint32_t committed, uint32_t rows_max)
{
  p->alone = queries == 1;
  p->rows_per_block = rows_per_block;
  p->committed = committed;
  p->limit = rows_max == 0 ? UINT64_MAX : rows_max;
  p->announced = 0;
  kvl_numbers_clear(&p->named);
}

uint32_t kvl_pool_rows_add(struct kvl_pool_rows *p, const int32_t *blocks, uint32_t count, const int32_t *selected, uint32_t selected_count, int32_t *out)
{
  uint32_t n = 0;
  if (p->limit != UINT64_MAX) {
    kvl_numbers_clear(&p->selected);
    for (uint32_t i = 0; i < selected_count; i++) {
      if (selected[i] >= 0) {
        (void)kvl_numbers_add(&p->selected, selected[i] / (int32_t)p->rows_per_block);
      }
    }
  }
  for (uint32_t b = 0; b < count; b++) {
    uint64_t first = (uint64_t)(uint32_t)blocks[b] * p->rows_per_block;
    uint64_t left = first < p->committed ? p->committed - first : 0;
    uint32_t rows = left < p->rows_per_block ? (uint32_t)left : p->rows_per_block;
    bool fits = p->announced + rows <= p->limit || kvl_numbers_has(&p->selected, blocks[b]);
    if (!fits || rows == 0 || (!p->alone && kvl_numbers_add(&p->named, blocks[b]))) {
      continue;
    }
    for (uint32_t i = 0; i < rows; i++) {
      out[n++] = (int32_t)(first + i);
    }
    p->announced += rows;
  }
  return n;
}
