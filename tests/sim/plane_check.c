#include "tests/sim/plane_check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "tests/sim/plane_forward.h"

struct seen_request {
  bool open;
  uint64_t session, life;      /* counts the requests that a slot has had */
  uint32_t input, max;
  uint32_t tokens, written;    /* committed; of these, complete on the host */
  uint16_t *lent;              /* by page: how often */
};

enum frame_state { EMPTY, WRITING, FULL };
struct seen_frame {
  enum frame_state state;
  kvl_request slot;
  uint64_t life;
  kvl_page page;
  uint64_t read_by;            /* step in flight that may read it */
  uint64_t mapped_at;          /* last step whose maps were looked through, to find frames in two maps */
};

struct seen_item {
  struct kvl_step_item item;
  uint64_t life, map_hash;
};

/* A copy in flight: pages, or (moves NULL) the rows that a step wrote. */
struct flight {
  uint64_t tag;
  uint32_t gpu, count;
  enum kvl_copy_kind kind;
  struct kvl_move *moves;
  struct seen_item *rows;
};

struct check_gpu {
  struct seen_request *request;
  struct seen_frame *frame;
  struct seen_item *item;
  uint32_t count;
  uint64_t step;
  bool in_step;
  uint64_t submit_ns;
  uint64_t given;              /* since the last step */
};

struct check_plane {
  struct decorator d;
  const struct kvl_scenario *s;
  uint32_t slots, frames;
  bool rows;
  struct check_gpu *gpu;
  struct flight *flight;
  uint32_t flights, flight_capacity;
  uint64_t life, last_ns;
  unsigned char *session_seen;
  uint64_t session_capacity;
  struct check_report *report;
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void fault(struct check_plane *c, const char *format, ...)
{
  if (c->report->fault[0] != '\0') {
    return;
  }
  int n = snprintf(c->report->fault, sizeof c->report->fault, "%llu ns: ", (unsigned long long)forward_now(&c->d.plane));
  va_list args;
  va_start(args, format);
  (void)vsnprintf(c->report->fault + n, sizeof c->report->fault - (size_t)n, format, args);
  va_end(args);
}

static int verdict(const struct check_plane *c, int rc, struct kvl_err *err)
{
  return rc >= 0 && c->report->fault[0] != '\0' ? kvl_err_set(err, -EPROTO, "%s", c->report->fault) : rc;
}

static struct check_plane *of(struct kvl_plane *plane)
{
  return (struct check_plane *)plane;
}

/* ---- requests ---- */

static bool note_session(struct check_plane *c, uint64_t session)
{
  if (session >= c->session_capacity) {
    uint64_t capacity = 2 * session + 64;
    unsigned char *grown = realloc(c->session_seen, capacity);
    if (grown == NULL) {
      fault(c, "no memory");
      return false;
    }
    memset(grown + c->session_capacity, 0, capacity - c->session_capacity);
    c->session_seen = grown;
    c->session_capacity = capacity;
  }
  bool again = c->session_seen[session] != 0;
  c->session_seen[session] = 1;
  return again;
}

/* Resident mode: a frame for each page, none of them another request's that is open. The other modes: no map. */
static void check_resident_map(struct check_plane *c, const struct kvl_plane_request *r)
{
  struct check_gpu *g = &c->gpu[r->gpu];
  uint32_t page = c->s->policy.page_tokens, pages = c->s->mode == KVL_MODE_RESIDENT ? (r->max_tokens + page - 1) / page : 0;
  if (r->pages != pages || (r->resid == NULL) != (c->s->mode != KVL_MODE_RESIDENT)) {
    fault(c, "GPU %u: slot %u opened with %u pages, not %u", r->gpu, r->slot, r->pages, pages);
    return;
  }
  kvl_frame *map = pages == 0 ? NULL : malloc(pages * sizeof *map);
  if (map != NULL) {
    kvl_resid_reserved(r->resid, r->slot, map, pages);
  }
  for (uint32_t p = 0; map != NULL && p < pages; p++) {
    kvl_frame frame = map[p];
    if (frame < 0 || (uint32_t)frame >= c->frames) {
      fault(c, "GPU %u: page %u of slot %u is in frame %d of %u", r->gpu, p, r->slot, frame, c->frames);
      break;
    }
    struct seen_frame *f = &g->frame[frame];
    const struct seen_request *owner = &g->request[f->slot];
    if (f->state == FULL && owner->open && owner->life == f->life) {
      fault(c, "GPU %u: frame %d for page %u of slot %u holds page %d of slot %u", r->gpu, frame, p, r->slot, f->page, f->slot);
    }
    *f = (struct seen_frame){.state = FULL, .slot = r->slot, .life = g->request[r->slot].life, .page = (kvl_page)p};
  }
  free(map);
}

static int check_request_open(struct kvl_plane *plane, const struct kvl_plane_request *r, struct kvl_err *err)
{
  struct check_plane *c = of(plane);
  struct seen_request *q = &c->gpu[r->gpu].request[r->slot];
  if (r->slot >= c->slots || q->open) {
    fault(c, "GPU %u: slot %u opened twice", r->gpu, r->slot);
    return verdict(c, 0, err);
  }
  c->report->opened++;
  c->report->opened_twice += note_session(c, r->session);
  int rc = forward_request_open(plane, r, err);
  if (rc == 0) {
    free(q->lent);
    *q = (struct seen_request){.open = true, .session = r->session, .life = ++c->life, .input = r->input_tokens, .max = r->max_tokens,
                               .tokens = r->input_tokens, .written = r->input_tokens};
    q->lent = calloc(r->max_tokens / c->s->policy.page_tokens + 1, sizeof *q->lent);
    if (q->lent == NULL) {
      fault(c, "no memory");
    }
    check_resident_map(c, r);
  }
  return verdict(c, rc, err);
}

static void check_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot)
{
  struct check_plane *c = of(plane);
  struct check_gpu *g = &c->gpu[gpu];
  struct seen_request *q = &g->request[slot];
  if (!q->open) {
    fault(c, "GPU %u: slot %u closed, but it is not open", gpu, slot);
  }
  if (q->tokens != q->max && c->s->limits.request_timeout_ns == 0) {
    fault(c, "GPU %u: slot %u closed at %u tokens of %u", gpu, slot, q->tokens, q->max);
  }
  for (uint32_t i = 0; g->in_step && i < g->count; i++) {
    if (g->item[i].item.slot == slot) {
      fault(c, "GPU %u: slot %u closed under step %llu", gpu, slot, (unsigned long long)g->step);
    }
  }
  q->open = false;
  c->report->closed++;
  forward_request_close(plane, gpu, slot);
}

/* ---- frames ---- */

/* Nobody else writes the frame, nobody reads it, and the host has the page (I2, I3). */
static void check_target(struct check_plane *c, uint32_t gpu, const struct kvl_move *m, const char *what)
{
  struct check_gpu *g = &c->gpu[gpu];
  const struct seen_frame *f = &g->frame[m->frame];
  const struct seen_request *q = &g->request[m->request];
  if (q->open && q->lent != NULL) {
    uint64_t times = ++q->lent[m->page];
    c->report->lent_again_max = times > c->report->lent_again_max ? times : c->report->lent_again_max;
  }
  if (f->state == WRITING) {
    fault(c, "GPU %u: %s writes frame %d while another copy into it is in flight", gpu, what, m->frame);
  }
  if (g->in_step && f->read_by == g->step) {
    fault(c, "GPU %u: %s writes frame %d under step %llu", gpu, what, m->frame, (unsigned long long)g->step);
  }
  if (!q->open) {
    fault(c, "GPU %u: %s for slot %u, which is not open", gpu, what, m->request);
  }
  if (((uint64_t)m->page + 1) * c->s->policy.page_tokens > q->written) {
    fault(c, "GPU %u: %s of page %d of slot %u, which has %u tokens on the host", gpu, what, m->page, m->request, q->written);
  }
}

static void fill(struct check_gpu *g, const struct kvl_move *m, enum frame_state state)
{
  struct seen_frame *f = &g->frame[m->frame];
  *f = (struct seen_frame){.state = state, .slot = m->request, .life = g->request[m->request].life, .page = m->page, .read_by = f->read_by,
                           .mapped_at = f->mapped_at};
}

static uint64_t hash_map(const struct kvl_step_item *item)
{
  uint64_t h = item->pages;
  for (uint32_t i = 0; i < item->pages; i++) {
    h = kvl_rng_mix(h ^ (uint32_t)item->page_map[i]);
  }
  return h;
}

static void check_map(struct check_plane *c, uint32_t gpu, const struct kvl_plane_step *step, const struct kvl_step_item *item)
{
  struct check_gpu *g = &c->gpu[gpu];
  const struct seen_request *q = &g->request[item->slot];
  uint32_t complete = q->written / c->s->policy.page_tokens;
  for (uint32_t p = 0; p < item->pages; p++) {
    kvl_frame frame = item->page_map[p];
    if (frame == KVL_NONE) {
      if (item->whole && p < complete) {
        fault(c, "GPU %u step %llu: slot %u counts as whole, page %u is not mapped", gpu, (unsigned long long)step->number, item->slot, p);
      }
      continue;
    }
    if (frame < 0 || (uint32_t)frame >= c->frames) {
      fault(c, "GPU %u: page %u of slot %u is mapped to frame %d of %u", gpu, p, item->slot, frame, c->frames);
      return;
    }
    struct seen_frame *f = &g->frame[frame];
    if (f->mapped_at == step->number) {
      fault(c, "GPU %u step %llu: frame %d is in two maps", gpu, (unsigned long long)step->number, frame);
    }
    f->mapped_at = f->read_by = step->number;
    if (f->state != FULL || f->slot != item->slot || f->life != q->life || f->page != (kvl_page)p) {
      fault(c, "GPU %u step %llu: page %u of slot %u is mapped to frame %d, which holds page %d of slot %u%s%s", gpu,
            (unsigned long long)step->number, p, item->slot, frame, f->page, f->slot, f->state == WRITING ? " (still being written)" : "",
            f->slot == item->slot && f->life != q->life ? " (an earlier request)" : "");
    }
  }
}

/* ---- steps ---- */

static int check_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct check_plane *c = of(plane);
  struct check_gpu *g = &c->gpu[step->gpu];
  unsigned long long number = step->number;
  if (g->in_step || step->number != g->step + 1) {
    fault(c, "GPU %u: step %llu begun after %llu%s", step->gpu, number, (unsigned long long)g->step, g->in_step ? ", which is in flight" : "");
  }
  g->step = step->number;
  for (uint32_t i = 0; i < step->serial_count; i++) {
    check_target(c, step->gpu, &step->serial[i], "population");
    fill(g, &step->serial[i], FULL);
    c->report->populated++;
  }
  uint64_t chunk = c->s->policy.admission_chunk_bytes / kvl_page_bytes(c->s);
  if (c->s->policy.admission_copy == KVL_COPY_BOUNDED && step->serial_count > (chunk == 0 ? 1 : chunk)) {
    fault(c, "GPU %u step %llu: %u pages are copied before it, the bound is %llu", step->gpu, number, step->serial_count, (unsigned long long)chunk);
  }
  if (c->s->policy.admission_copy == KVL_COPY_SIDE_STREAM && step->serial_count != 0) {
    fault(c, "GPU %u step %llu: it waits for pages that should come beside it", step->gpu, number);
  }
  uint32_t joined = 0;
  for (uint32_t i = 0; i < step->count; i++) {
    const struct kvl_step_item *item = &step->items[i];
    const struct seen_request *q = &g->request[item->slot];
    for (uint32_t k = 0; k < i; k++) {
      if (step->items[k].slot == item->slot) {
        fault(c, "GPU %u step %llu: slot %u is in the batch twice", step->gpu, number, item->slot);
      }
    }
    if (!q->open || item->tokens != q->tokens || q->tokens >= q->max) {
      fault(c, "GPU %u step %llu: slot %u %s, %u tokens committed of %u, the batch says %u", step->gpu, number, item->slot,
            q->open ? "is open" : "is not open", q->tokens, q->max, item->tokens);
    }
    joined += q->tokens == q->input;
    if (item->queries < 1 || item->queries > kvl_queries_max(c->s) || item->queries > q->max - q->tokens || item->commit < 1 || item->commit > item->queries) {
      fault(c, "GPU %u step %llu: slot %u has %u queries and commits %u at %u tokens of %u", step->gpu, number, item->slot, item->queries, item->commit,
            q->tokens, q->max);
    }
    c->report->queries += item->queries;
    c->report->commits += item->commit;
    /* The places of the oldest tail rows are taken by this step's. */
    if (c->s->mode != KVL_MODE_RESIDENT && (uint64_t)q->written + c->s->policy.tail_tokens < q->tokens + item->queries) {
      fault(c, "GPU %u step %llu: slot %u has %u tokens, %u on the host, a tail of %u", step->gpu, number, item->slot, q->tokens, q->written,
            c->s->policy.tail_tokens);
    }
    check_map(c, step->gpu, step, item);
    g->item[i] = (struct seen_item){.item = *item, .life = q->life, .map_hash = hash_map(item)};
    for (uint32_t p = 0; c->rows && p < c->s->model.selection.points; p++) {
      const struct kvl_selection_point *point = &c->s->model.selection.point[p];
      uint32_t history = item->tokens / c->s->model.cache[point->cache].tokens_per_row;
      uint32_t last = c->s->model.layers - point->layer, readers = c->s->model.readers[p] < last ? c->s->model.readers[p] : last;
      uint32_t look_ups = c->s->policy.layer_sharing == KVL_SHARING_OFF ? readers : 1;
      c->report->lanes_expected += (uint64_t)item->queries * look_ups * (history < point->k ? history : point->k);
    }
  }
  if (joined != step->admissions) {
    fault(c, "GPU %u step %llu: %u requests join, %u are new in the batch", step->gpu, number, step->admissions, joined);
  }
  g->count = step->count;
  g->in_step = true;
  g->submit_ns = forward_now(plane);
  g->given = 0;
  int rc = c->report->fault[0] == '\0' ? forward_step(plane, step, err) : 0;
  return verdict(c, rc, err);
}

static void step_done(struct check_plane *c, const struct kvl_completion *done)
{
  struct check_gpu *g = &c->gpu[done->gpu];
  const struct kvl_step_result *r = done->step;
  struct check_report *report = c->report;
  uint64_t in_step = 0, gap = 0;
  for (int i = 0; i < KVL_STALLS; i++) {
    *(i < KVL_STALLS_IN_STEP ? &in_step : &gap) += r->stall_ns[i];
    report->stall_ns[i] += r->stall_ns[i];
  }
  if (!g->in_step || done->tag != g->step) {
    fault(c, "GPU %u: step %llu completes, %llu is in flight", done->gpu, (unsigned long long)done->tag, (unsigned long long)g->step);
  }
  if (r->submit_ns != g->submit_ns || done->time_ns != r->end_ns) {
    fault(c, "GPU %u step %llu: submitted at %llu not %llu, completes at %llu not %llu", done->gpu, (unsigned long long)done->tag,
          (unsigned long long)r->submit_ns, (unsigned long long)g->submit_ns, (unsigned long long)done->time_ns, (unsigned long long)r->end_ns);
  }
  if (r->step_begin_ns - r->submit_ns != gap || r->end_ns - r->step_begin_ns != in_step) {
    fault(c, "GPU %u step %llu: gap %llu, its causes %llu; step %llu, its causes %llu", done->gpu, (unsigned long long)done->tag,
          (unsigned long long)(r->step_begin_ns - r->submit_ns), (unsigned long long)gap, (unsigned long long)(r->end_ns - r->step_begin_ns),
          (unsigned long long)in_step);
  }
  for (uint32_t i = 0; i < g->count; i++) {
    const struct seen_item *item = &g->item[i];
    if (hash_map(&item->item) != item->map_hash) {
      fault(c, "GPU %u step %llu: the page map of slot %u changed under the step", done->gpu, (unsigned long long)done->tag, item->item.slot);
    }
    g->request[item->item.slot].tokens += item->item.commit;
  }
  uint64_t lanes = 0;
  for (int t = 0; t < KVL_TIERS; t++) {
    lanes += r->lanes[t];
    report->lanes[t] += r->lanes[t];
  }
  if (r->fetched > r->lanes[KVL_TIER_HOST] || r->overflow > r->fetched || (g->count == 0 && lanes != 0)) {
    fault(c, "GPU %u step %llu: %llu rows fetched (%llu overflow) for %llu lanes on the host", done->gpu, (unsigned long long)done->tag,
          (unsigned long long)r->fetched, (unsigned long long)r->overflow, (unsigned long long)r->lanes[KVL_TIER_HOST]);
  }
  if (r->draft_ns > r->stall_ns[KVL_STALL_COMPUTE] || r->shared_lanes > lanes) {
    fault(c, "GPU %u step %llu: %llu ns of drafting, %llu lanes shared of %llu", done->gpu, (unsigned long long)done->tag,
          (unsigned long long)r->draft_ns, (unsigned long long)r->shared_lanes, (unsigned long long)lanes);
  }
  report->fetched += r->fetched;
  report->violations += r->violations;
  report->in_step_ns += in_step;
  report->gap_ns += gap;
  report->steps += g->count != 0;
  report->batch += g->count;
  g->in_step = false;
}

/* ---- copies ---- */

static struct flight *new_flight(struct check_plane *c)
{
  if (c->flights == c->flight_capacity) {
    uint32_t capacity = c->flight_capacity == 0 ? 64 : 2 * c->flight_capacity;
    struct flight *grown = realloc(c->flight, capacity * sizeof *grown);
    if (grown == NULL) {
      fault(c, "no memory");
      return NULL;
    }
    c->flight = grown;
    c->flight_capacity = capacity;
  }
  struct flight *f = &c->flight[c->flights++];
  memset(f, 0, sizeof *f);
  return f;
}

static int check_copy(struct kvl_plane *plane, const struct kvl_plane_copy *copy, struct kvl_err *err)
{
  struct check_plane *c = of(plane);
  struct check_gpu *g = &c->gpu[copy->gpu];
  uint64_t page_bytes = kvl_page_bytes(c->s);
  struct flight *f = new_flight(c);
  if (f == NULL) {
    return verdict(c, 0, err);
  }
  *f = (struct flight){.tag = copy->tag, .gpu = copy->gpu, .kind = copy->kind};
  if (copy->kind == KVL_COPY_WRITE_BACK) { /* the rows of the step that just ended */
    f->rows = malloc((g->count + 1) * sizeof *f->rows);
    f->count = g->count;
    if (f->rows == NULL || g->in_step) {
      fault(c, g->in_step ? "GPU %u: write-back during a step" : "no memory (GPU %u)", copy->gpu);
      return verdict(c, 0, err);
    }
    memcpy(f->rows, g->item, g->count * sizeof *f->rows);
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < g->count; i++) {
      tokens += g->item[i].item.commit;
    }
    if (copy->bytes != tokens * (page_bytes / c->s->policy.page_tokens)) {
      fault(c, "GPU %u: %llu committed tokens are written back as %llu bytes", copy->gpu, (unsigned long long)tokens, (unsigned long long)copy->bytes);
    }
  } else {
    if (copy->bytes != copy->move_count * page_bytes || copy->move_count == 0) {
      fault(c, "GPU %u: %u pages of %llu bytes are copied as %llu bytes", copy->gpu, copy->move_count, (unsigned long long)page_bytes,
            (unsigned long long)copy->bytes);
    }
    f->moves = malloc((copy->move_count + 1) * sizeof *f->moves);
    f->count = copy->move_count;
    if (f->moves == NULL) {
      fault(c, "no memory");
      return verdict(c, 0, err);
    }
    memcpy(f->moves, copy->moves, copy->move_count * sizeof *f->moves);
    for (uint32_t i = 0; i < copy->move_count; i++) {
      const struct kvl_move *m = &copy->moves[i];
      check_target(c, copy->gpu, m, "copy");
      fill(g, m, WRITING);
      g->given += m->kind == KVL_MOVE_GIVE;
      c->report->given += m->kind == KVL_MOVE_GIVE;
      c->report->populated += m->kind == KVL_MOVE_POPULATE;
    }
    if (g->given * page_bytes > c->s->policy.give_back_bytes_max) {
      fault(c, "GPU %u: %llu pages of %llu bytes given back between two steps, the bound is %llu bytes", copy->gpu, (unsigned long long)g->given,
            (unsigned long long)page_bytes, (unsigned long long)c->s->policy.give_back_bytes_max);
    }
  }
  return verdict(c, c->report->fault[0] == '\0' ? forward_copy(plane, copy, err) : 0, err);
}

static void copy_done(struct check_plane *c, const struct kvl_completion *done)
{
  uint32_t i = 0;
  while (i < c->flights && (c->flight[i].gpu != done->gpu || c->flight[i].tag != done->tag)) {
    i++;
  }
  if (i == c->flights) {
    fault(c, "GPU %u: a copy completes that nobody began", done->gpu);
    return;
  }
  struct flight f = c->flight[i];
  for (uint32_t k = 0; k < i; k++) {
    if (c->flight[k].gpu == f.gpu && c->flight[k].kind == f.kind) {
      fault(c, "GPU %u: copies of one direction complete out of order", f.gpu);
    }
  }
  memmove(&c->flight[i], &c->flight[i + 1], (--c->flights - i) * sizeof f);
  struct check_gpu *g = &c->gpu[f.gpu];
  for (uint32_t k = 0; k < f.count && f.kind == KVL_COPY_WRITE_BACK; k++) {
    struct seen_request *q = &g->request[f.rows[k].item.slot];
    if (q->life == f.rows[k].life) {
      q->written = f.rows[k].item.tokens + f.rows[k].item.commit;
    }
  }
  for (uint32_t k = 0; k < f.count && f.kind == KVL_COPY_PAGES; k++) {
    g->frame[f.moves[k].frame].state = FULL;
  }
  free(f.rows);
  free(f.moves);
}

static int check_keep(struct kvl_plane *plane, uint32_t gpu, const struct kvl_move *move, struct kvl_err *err)
{
  struct check_plane *c = of(plane);
  check_target(c, gpu, move, "keep");
  fill(&c->gpu[gpu], move, FULL);
  c->report->kept++;
  return verdict(c, c->report->fault[0] == '\0' ? forward_keep(plane, gpu, move, err) : 0, err);
}

static int check_wait_until(struct kvl_plane *plane, uint64_t time_ns, struct kvl_completion *completion, struct kvl_err *err)
{
  struct check_plane *c = of(plane);
  uint64_t before = forward_now(plane);
  int rc = inner_of(plane)->ops->wait_until(inner_of(plane), time_ns, completion, err);
  if (rc == 1) {
    if (completion->time_ns < c->last_ns || (completion->time_ns > time_ns && completion->time_ns > before)) {
      fault(c, "a completion of %llu ns after one of %llu, asked for until %llu", (unsigned long long)completion->time_ns,
            (unsigned long long)c->last_ns, (unsigned long long)time_ns);
    }
    c->last_ns = completion->time_ns;
    if (completion->kind == KVL_DONE_STEP) {
      step_done(c, completion);
    } else {
      copy_done(c, completion);
    }
  }
  if (forward_now(plane) < before || (rc == 1 && forward_now(plane) != completion->time_ns)) {
    fault(c, "the clock reads %llu after %llu", (unsigned long long)forward_now(plane), (unsigned long long)before);
  }
  return verdict(c, rc, err);
}

static void check_close(struct kvl_plane *plane)
{
  struct check_plane *c = of(plane);
  inner_of(plane)->ops->close(inner_of(plane));
  for (uint32_t i = 0; i < c->flights; i++) {
    free(c->flight[i].moves);
    free(c->flight[i].rows);
  }
  for (uint32_t i = 0; c->gpu != NULL && i < c->s->node.decode_gpus; i++) {
    for (uint32_t k = 0; c->gpu[i].request != NULL && k < c->slots; k++) {
      free(c->gpu[i].request[k].lent);
    }
    free(c->gpu[i].request);
    free(c->gpu[i].frame);
    free(c->gpu[i].item);
  }
  free(c->gpu);
  free(c->flight);
  free(c->session_seen);
  free(c);
}

static const struct kvl_plane_ops check_ops = {
  .name = "check",
  .close = check_close,
  .now = forward_now,
  .request_open = check_request_open,
  .request_close = check_request_close,
  .step = check_step,
  .copy = check_copy,
  .keep = check_keep,
  .wait_until = check_wait_until,
  .point = forward_point,
  .link_busy_ns = forward_link_busy_ns,
  .link_bytes = forward_link_bytes,
  .verify = forward_verify,
};

struct kvl_plane *check_plane_create(struct kvl_plane *inner, const struct kvl_scenario *scenario, uint32_t slots, uint32_t frames, bool rows,
                                     struct check_report *report)
{
  struct check_plane *c = calloc(1, sizeof *c);
  if (c == NULL) {
    return NULL;
  }
  c->d = (struct decorator){.plane = {.ops = &check_ops}, .inner = inner};
  c->s = scenario;
  c->slots = slots;
  c->frames = frames;
  c->rows = rows;
  c->report = report;
  memset(report, 0, sizeof *report);
  c->gpu = calloc(scenario->node.decode_gpus, sizeof *c->gpu);
  bool ok = c->gpu != NULL;
  for (uint32_t i = 0; ok && i < scenario->node.decode_gpus; i++) {
    struct check_gpu *g = &c->gpu[i];
    g->request = calloc(slots, sizeof *g->request);
    g->frame = calloc((size_t)frames + 1, sizeof *g->frame);
    g->item = calloc(slots, sizeof *g->item);
    ok = g->request != NULL && g->frame != NULL && g->item != NULL;
  }
  if (!ok) {
    c->d.inner = NULL;
    for (uint32_t i = 0; c->gpu != NULL && i < scenario->node.decode_gpus; i++) {
      free(c->gpu[i].request);
      free(c->gpu[i].frame);
      free(c->gpu[i].item);
    }
    free(c->gpu);
    free(c);
    return NULL;
  }
  return &c->d.plane;
}
