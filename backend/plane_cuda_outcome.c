/* What came of a step: its time line from the stamps, its counters, its comparison. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/plane_cuda_state.h"

enum { READER_SMOOTH = 16 }; /* steps */

static uint64_t span(uint64_t from, uint64_t to)
{
  return to > from ? to - from : 0;
}

/* The step's time line from its stamps: layer by layer, what each moment was spent on. In resident mode look-ups are a part of attention, but the graph's first
 * kernel (up to the second stamp) is not. */
static void account(struct cuda_gpu *g, uint64_t *stall)
{
  struct cuda_plane *c = g->plane;
  const uint64_t *stamp = g->stamps;
  uint64_t at = c->config.resident ? stamp[1] : g->outcome->begin_ns, looked_up = 0;
  struct {
    uint64_t ns, count;
  } alone = {0, 0}, behind = {0, 0}; /* reads of layers by themselves; of layers that look up first */
  uint32_t reader = 0, fetched = 0;
  bool resolving = false, waited = false, translating = false;
  for (uint32_t i = 0; i < c->config.stage_count; i++) {
    const struct kvl_stage *stage = &c->stages[i];
    if (stage->kind == KVL_STAGE_WAIT && stage->part != 0) {
      waited = g->outcome->counts[stage->point].fetched != 0;
      if (waited && stage->part + 1u == c->config.device.cache[stage->cache].parts) {
        const uint64_t *replay = stamp + 2 * (c->stamp_replay + stage->point);
        struct kvl_prefetch *prefetch = &g->result.prefetch;
        uint64_t rows = g->outcome->counts[stage->point].fetched * stage->part;
        prefetch->groups++;
        prefetch->landed += replay[1] <= at;
        prefetch->candidates += rows;
        prefetch->copied += rows;
        prefetch->used += rows;
        prefetch->margin_ns += span(replay[1], at);
        prefetch->wait_ns += span(at, replay[1]);
        prefetch->link_ns += span(replay[0], replay[1]);
        c->measured.traffic[KVL_TRAFFIC_PREFETCH].count++;
        c->measured.traffic[KVL_TRAFFIC_PREFETCH].bytes += rows * kvl_cuda_part_bytes(c, stage->cache);
        kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_PREFETCH].times, span(replay[0], replay[1]));
      }
    } else if (stage->kind == KVL_STAGE_WAIT && stage->part == 0 && g->outcome->copies != 0) {
      const uint64_t *bank = stamp + 2 * c->stamp_bank;
      struct kvl_prefetch *prefetch = &g->result.prefetch;
      prefetch->groups = 1;
      prefetch->landed = bank[1] <= at;
      prefetch->margin_ns = span(bank[1], at);
      prefetch->wait_ns = span(at, bank[1]);
      prefetch->link_ns = span(bank[0], bank[1]);
      stall[KVL_STALL_PREFETCH_WAIT] += span(at, bank[1]);
      at = bank[1] > at ? bank[1] : at;
    } else if (stage->kind == KVL_STAGE_RESOLVE && c->config.resident) {
      translating = true;
    } else if (stage->kind == KVL_STAGE_RESOLVE) {
      uint64_t first = stamp[2 * (c->stamp_resolve + stage->point)]; /* the first request that had looked up and began to wait for the host */
      looked_up = resolving && looked_up < first ? looked_up : first;
      fetched += (uint32_t)g->outcome->counts[stage->point].fetched;
      resolving = true;
    } else if (stage->kind == KVL_STAGE_READ || stage->kind == KVL_STAGE_COMPUTE) {
      const uint64_t *s = stamp + 2 * (stage->kind == KVL_STAGE_READ ? c->stamp_reader + reader : c->stamp_layer + stage->layer);
      if (s[0] > s[1]) { /* never stamped: a device without a timer */
        reader += stage->kind == KVL_STAGE_READ;
        continue;
      }
      if (stage->kind == KVL_STAGE_READ && waited) { /* a launch's gap, and whatever had not landed */
        stall[KVL_STALL_PREFETCH_WAIT] += span(at, s[0]);
        at = s[0] > at ? s[0] : at;
        waited = false;
      } else if (stage->kind == KVL_STAGE_READ && !resolving) { /* with the gap before it, which a layer without this stand-in would not have */
        alone.ns += span(at, s[1]);
        alone.count++;
      } else if (stage->kind == KVL_STAGE_READ) {
        behind.ns += span(s[0], s[1]);
        behind.count++;
      }
      if (resolving) {
        uint64_t turn = fetched == 0 || looked_up < at || looked_up > s[0] ? s[0] : looked_up;
        stall[KVL_STALL_RESOLVE] += span(at, turn);
        stall[KVL_STALL_FETCH] += span(turn, s[0]);
        kvl_cuda_count(&c->measured.kernel[KVL_STAGE_RESOLVE], span(at, s[0]));
        if (fetched != 0) {
          kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_FETCH].times, span(turn, s[0]));
          c->measured.traffic[KVL_TRAFFIC_FETCH].count++;
        }
        resolving = false;
        looked_up = 0;
        fetched = 0;
      }
      if (translating) {
        kvl_cuda_count(&c->measured.kernel[KVL_STAGE_RESOLVE], span(at, s[0]));
        stall[KVL_STALL_COMPUTE] += span(at, s[0]);
        translating = false;
      }
      stall[KVL_STALL_COMPUTE] += span(s[0], s[1]);
      kvl_cuda_count(&c->measured.kernel[stage->kind], span(s[0], s[1]));
      at = s[1] > at ? s[1] : at;
      reader += stage->kind == KVL_STAGE_READ;
    }
  }
  if (alone.count + behind.count != 0) { /* where every layer looks up, there are none of the former */
    uint64_t mean = alone.count != 0 ? alone.ns / alone.count : behind.ns / behind.count;
    g->reader_ns = g->reader_ns == 0 ? mean : (g->reader_ns * (READER_SMOOTH - 1) + mean) / READER_SMOOTH;
  }
}

static void sum_counts(struct cuda_gpu *g)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  struct kvl_step_result *r = &g->result;
  r->shared_lanes = g->shared_lanes;
  uint32_t pool_layer = 0, announcing = 0;
  for (uint32_t i = 0; i < c->config.stage_count; i++) {
    if (c->stages[i].kind == KVL_STAGE_ANNOUNCE) {
      pool_layer = c->stages[i].layer;
      announcing = d->point[c->stages[i].point].selection;
    }
  }
  for (uint32_t i = 0; i < c->config.stage_count; i++) {
    if (c->stages[i].kind != KVL_STAGE_RESOLVE) {
      continue;
    }
    uint32_t p = c->stages[i].point;
    const struct kvl_resolve_counts *n = &g->outcome->counts[p];
    uint64_t bytes = n->fetched * kvl_cuda_fetch_bytes(c, p);
    r->link_bytes += c->replayed[p] ? n->fetched * d->cache[d->point[p].cache].row_bytes - bytes : 0;
    /* Without layer sharing the announcing selection is looked up again by its other readers: none of them chooses from the pool. */
    bool later = c->points_all != d->points && d->point[p].cache == c->pool_cache && c->stages[i].layer > pool_layer && d->point[p].selection != announcing;
    for (int tier = 0; tier < KVL_TIERS; tier++) {
      r->lanes[tier] += n->lanes[tier];
      g->totals[d->point[p].selection].lanes[tier] += n->lanes[tier];
      r->prefetch.later_lanes += later && tier != KVL_TIER_SCRATCH ? n->lanes[tier] : 0;
    }
    r->prefetch.later_demand += later ? n->lanes[KVL_TIER_HOST] : 0;
    r->fetched += n->fetched;
    r->overflow += n->overflow;
    r->violations += n->violations;
    g->totals[d->point[p].selection].fetched += n->fetched;
    g->totals[d->point[p].selection].overflow += n->overflow;
    r->link_bytes += bytes;
    c->measured.traffic[KVL_TRAFFIC_FETCH].bytes += bytes;
  }
  if (c->points_all != d->points) {
    r->prefetch.copied = g->outcome->copies;
    r->prefetch.dropped = g->outcome->dropped;
    r->prefetch.candidates = g->candidates;
    r->prefetch.resident = g->candidates - g->outcome->copies - g->outcome->dropped;
    uint64_t bytes = (uint64_t)g->outcome->copies * d->cache[c->pool_cache].row_bytes;
    r->link_bytes += bytes;
    c->measured.traffic[KVL_TRAFFIC_PREFETCH].bytes += bytes;
    c->measured.traffic[KVL_TRAFFIC_PREFETCH].count += g->outcome->copies != 0;
    if (g->outcome->copies != 0) {
      kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_PREFETCH].times, r->prefetch.link_ns);
    }
  }
}

/* Resident mode counts nothing, but every row must have been in its frame or in the scratch. */
static int check_resident(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  uint64_t lost = 0;
  for (uint32_t p = 0; p < c->config.device.points; p++) {
    const struct kvl_resolve_counts *n = &g->outcome->counts[p];
    g->result.violations += n->violations;
    for (int tier = 0; tier < KVL_TIERS; tier++) {
      lost += tier == KVL_TIER_PAGE || tier == KVL_TIER_SCRATCH ? 0 : n->lanes[tier];
    }
  }
  return lost == 0 ? 0 : kvl_err_set(err, -EPROTO, "step %llu of decode GPU %u: %llu selected rows of resident mode are not in their requests' frames",
                                     (unsigned long long)g->number, g->index, (unsigned long long)lost);
}

int kvl_cuda_step_poll(struct cuda_gpu *g, struct kvl_completion *completion, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  int rc = g->in_step ? kvl_gpu_event_done(g->gpu, g->step_done, err) : 0;
  if (rc <= 0) {
    return rc;
  }
  struct kvl_step_result *r = &g->result;
  memset(r, 0, sizeof *r);
  r->submit_ns = g->submit_ns;
  r->end_ns = kvl_cuda_wall_ns(c);
  uint64_t population = 0, total = span(r->submit_ns, r->end_ns);
  if (g->had_serial) {
    rc = kvl_gpu_event_ns(g->gpu, g->serial_begin, g->serial_end, &population, err);
    if (rc != 0) {
      return rc;
    }
    c->measured.traffic[KVL_TRAFFIC_POPULATION].count++;
    c->measured.traffic[KVL_TRAFFIC_POPULATION].bytes += g->serial_bytes;
    kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_POPULATION].times, population);
    r->link_bytes += g->serial_bytes;
    g->link_busy_ns += population;
  }
  /* Before the graph's first moment: copies, updates of page maps, and, in a step that somebody joins, everything else. */
  uint64_t *stall = r->stall_ns, graph = g->items == 0 ? 0 : span(g->outcome->begin_ns, g->outcome->end_ns);
  uint64_t rest = span(population + g->revoked + graph, total);
  uint64_t between[] = {population, g->revoked, g->joined ? rest : 0};
  static const enum kvl_stall cause[] = {KVL_STALL_POPULATION, KVL_STALL_REVOCATION, KVL_STALL_ADMISSION};
  for (int i = 0; i < 3; i++) {
    stall[cause[i]] = between[i] < total ? between[i] : total;
    total -= stall[cause[i]];
  }
  r->step_begin_ns = r->end_ns - total;
  if (g->items != 0) {
    account(g, stall);
    if (c->config.resident) {
      rc = check_resident(g, err);
      if (rc != 0) {
        return rc;
      }
    } else {
      sum_counts(g);
    }
  }
  uint64_t known = 0;
  for (int i = 0; i < KVL_STALLS_IN_STEP; i++) { /* stamps and the host's clock may differ by a microsecond: the causes still add up */
    stall[i] = stall[i] < total - known ? stall[i] : total - known;
    known += stall[i];
  }
  stall[KVL_STALL_BOOKKEEPING] += total - known;
  g->link_busy_ns += stall[KVL_STALL_FETCH] + r->prefetch.link_ns;
  g->link_bytes += r->link_bytes;
  g->in_step = false;
  *completion = (struct kvl_completion){.kind = KVL_DONE_STEP, .gpu = g->index, .tag = g->number, .step = r};
  return 1;
}

int kvl_cuda_collect_check(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  int rc = g->check_pending ? 0 : 1;
  while (rc == 0) {
    rc = kvl_gpu_event_done(g->gpu, g->check_done, err);
  }
  if (rc < 0 || !g->check_pending) {
    return rc < 0 ? rc : 0;
  }
  g->check_pending = false;
  const struct kvl_step_outcome *o = g->checked;
  struct cuda_block b = kvl_cuda_block(c, g->items);
  struct kvl_plane_measured *m = &c->measured;
  m->rows_checked += o->rows_checked;
  if (o->mismatches != 0 && m->mismatches == 0) {
    uint32_t reader = 0;
    for (uint32_t i = 0; i < c->config.stage_count; i++) {
      if (c->stages[i].kind == KVL_STAGE_READ && reader++ == o->first_reader) {
        (void)snprintf(m->first_mismatch, sizeof m->first_mismatch, "decode GPU %u, step %llu, layer %u reads selection %u of batch slot %d, query %u",
                       g->index, (unsigned long long)g->number, c->stages[i].layer, c->stages[i].point, kvl_cuda_items_at(g->block, &b)[o->first_entry].slot, o->first_query);
      }
    }
  }
  m->mismatches += o->mismatches;
  return 0;
}
