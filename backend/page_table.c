#include "backend/page_table.h"

#include <assert.h>
#include <string.h>

void kvl_page_table_layout(struct kvl_page_table *table, struct kvl_carve *carve, uint32_t pages, bool rank_held, bool rank_missing)
{
  bool measuring = carve->base == NULL;
  struct kvl_page_table unused;
  struct kvl_page_table *to = measuring ? &unused : table;
  memset(to, 0, sizeof *to);
  if (pages == 0) {
    return;
  }
  to->pages = pages;
  to->frame = kvl_carve(carve, pages, sizeof *to->frame);
  to->map = kvl_carve(carve, pages, sizeof *to->map);
  to->changed = kvl_carve(carve, (size_t)pages / KVL_MAP_STRETCH + 1, sizeof *to->changed);
  kvl_bitset_layout(&to->held, carve, pages);
  kvl_bitset_layout(&to->missing, carve, pages);
  if (rank_held || rank_missing) {
    to->selected = kvl_carve(carve, pages, sizeof *to->selected);
  }
  if (rank_held) {
    kvl_page_rank_layout(&to->coldest_held, carve, pages, false, to->selected, &to->held);
  }
  if (rank_missing) {
    kvl_page_rank_layout(&to->hottest_missing, carve, pages, true, to->selected, &to->missing);
  }
  if (to->selected != NULL) {
    memset(to->selected, 0, pages * sizeof *to->selected);
  }
}

static void map_changed(struct kvl_page_table *table, uint32_t page)
{
  table->changed[page / KVL_MAP_STRETCH] = table->version;
}

void kvl_page_table_grow(struct kvl_page_table *table, uint32_t complete)
{
  assert(complete >= table->complete);
  table->version++;
  if (table->pages > 0) {
    assert(complete <= table->pages);
    for (uint32_t page = table->complete; page < complete; page++) {
      table->frame[page] = KVL_NONE;
      table->map[page] = KVL_NONE;
      kvl_page_rank_touch(&table->hottest_missing, page);
      map_changed(table, page);
    }
    kvl_bitset_add_range(&table->missing, table->complete, complete);
  }
  table->complete = complete;
}

void kvl_page_table_reset(struct kvl_page_table *table)
{
  assert(table->held_count == 0 && table->mapped_count == 0);
  table->complete = 0;
  table->version++;
  if (table->pages > 0) {
    kvl_bitset_clear_all(&table->missing);
    kvl_page_rank_touch_all(&table->coldest_held);
    kvl_page_rank_touch_all(&table->hottest_missing);
  }
  if (table->selected != NULL) {
    memset(table->selected, 0, table->pages * sizeof table->selected[0]);
  }
}

static void touch(struct kvl_page_table *table, uint32_t page)
{
  kvl_page_rank_touch(&table->coldest_held, page);
  kvl_page_rank_touch(&table->hottest_missing, page);
}

void kvl_page_table_lend(struct kvl_page_table *table, kvl_page page, kvl_frame frame)
{
  uint32_t p = (uint32_t)page;
  kvl_bitset_remove(&table->missing, p);
  kvl_bitset_add(&table->held, p);
  touch(table, p);
  table->frame[p] = frame;
  table->held_count++;
}

void kvl_page_table_arrive(struct kvl_page_table *table, kvl_page page)
{
  table->map[page] = table->frame[page];
  table->version++;
  map_changed(table, (uint32_t)page);
  table->mapped_count++;
}

kvl_frame kvl_page_table_drop(struct kvl_page_table *table, kvl_page page)
{
  uint32_t p = (uint32_t)page;
  kvl_frame frame = table->frame[p];
  assert(frame != KVL_NONE);
  kvl_bitset_remove(&table->held, p);
  kvl_bitset_add(&table->missing, p);
  touch(table, p);
  table->held_count--;
  table->mapped_count -= table->map[p] != KVL_NONE;
  table->frame[p] = KVL_NONE;
  table->map[p] = KVL_NONE;
  table->version++;
  map_changed(table, p);
  return frame;
}

kvl_page kvl_page_table_victim(struct kvl_page_table *table)
{
  if (table->coldest_held.count != NULL) {
    return kvl_page_rank_best(&table->coldest_held);
  }
  return (kvl_page)kvl_bitset_first(&table->held);
}

kvl_page kvl_page_table_newest_missing(const struct kvl_page_table *table)
{
  return (kvl_page)kvl_bitset_last(&table->missing);
}

kvl_page kvl_page_table_wanted(struct kvl_page_table *table)
{
  if (table->hottest_missing.count != NULL) {
    return kvl_page_rank_best(&table->hottest_missing);
  }
  return kvl_page_table_newest_missing(table);
}

/* A block of the ranks at a time: most pages of a long history are in no selection of a step, and a block is touched once. */
void kvl_page_table_note_selected(struct kvl_page_table *table, kvl_page first, uint32_t *lanes, uint32_t count)
{
  for (uint32_t i = 0, end; i < count; i = end) {
    uint32_t page = (uint32_t)first + i, any = 0;
    end = i + 64 - page % 64;
    end = end < count ? end : count;
    for (uint32_t k = i; k < end; k++) {
      any |= lanes[k];
    }
    if (any == 0) {
      continue;
    }
    for (uint32_t k = i, p = page; k < end && table->selected != NULL && p < table->pages; k++, p++) {
      table->selected[p] += kvl_min_u32(lanes[k], UINT32_MAX - table->selected[p]);
    }
    if (table->selected != NULL && page < table->pages) {
      touch(table, page);
    }
    memset(&lanes[i], 0, (end - i) * sizeof *lanes);
  }
}
