#include "sim/load.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "sim/scenario_files.h"

/* A session of a session file that is active: its requests, in order of the file; each chain moves on when its last request completes. */
struct pending {
  struct kvl_request_spec spec; /* block: own copy */
  uint64_t due_ns;              /* UINT64_MAX: waits for the chain's previous request */
  bool taken;
};

struct active_session {
  bool used;
  uint64_t session;
  struct pending *request;
  uint32_t count, capacity, left; /* left: not completed yet */
};

struct kvl_load {
  const struct kvl_scenario *scenario;
  uint64_t total;             /* requests in all */
  uint64_t taken, completed;
  uint32_t tokens_max;
  /* closed and open loops */
  struct kvl_rng arrivals;
  uint64_t next_ns;           /* open loop and plain files: the next arrival */
  uint64_t opened;            /* closed loop: sessions opened so far */
  uint64_t free_places;       /* and places of requests that completed, not taken again yet */
  uint64_t free_since_ns;
  /* files */
  struct kvl_workload_file *file;
  uint32_t block_tokens;
  bool sessions;              /* requests of a session follow one another */
  bool have_ahead, file_ended;
  struct kvl_request_spec ahead;
  struct active_session *active;
  uint32_t active_count;
  struct pending *first;      /* earliest(), kept: NULL when it has to be looked for again */
  uint64_t *blocks_given;     /* block list of the request taken last: valid until the next take */
};

/* Times past the end of simulated time stay there: such a request is refused when it would be taken. */
static uint64_t whole_ns(double ns)
{
  return ns < (double)KVL_TIME_MAX ? (uint64_t)llround(ns) : KVL_TIME_MAX;
}

static uint64_t later(uint64_t now_ns, uint64_t ns)
{
  uint64_t sum;
  return __builtin_add_overflow(now_ns, ns, &sum) || sum > KVL_TIME_MAX ? KVL_TIME_MAX : sum;
}

static uint64_t scaled_ns(const struct kvl_load *load, uint64_t ns)
{
  double scale = load->scenario->workload.time_scale;
  return scale == 1.0 && ns < KVL_TIME_MAX ? ns : whole_ns((double)ns * scale);
}

/* Time to the next arrival of an open loop: exponential, or gamma with the given coefficient of variation (shape = 1 / cv^2). */
static uint64_t gap_ns(struct kvl_load *load)
{
  const struct kvl_scenario *s = load->scenario;
  double mean = 1e9 / s->workload.rate_per_s;
  if (s->workload.kind == KVL_WORK_POISSON) {
    return whole_ns(mean * kvl_rng_exponential(&load->arrivals));
  }
  double shape = 1.0 / (s->workload.gamma_cv * s->workload.gamma_cv);
  return whole_ns(mean * kvl_rng_gamma(&load->arrivals, shape) / shape);
}

/* Reads one record ahead, so that the end of a session is seen before the next begins. */
static int read_ahead(struct kvl_load *load, struct kvl_err *err)
{
  if (load->have_ahead || load->file_ended) {
    return 0;
  }
  int rc = kvl_workload_next(load->file, &load->ahead, err);
  load->have_ahead = rc == 1;
  load->file_ended = rc == 0;
  return rc < 0 ? rc : 0;
}

/* Fills a free place with the next session of the file; its first requests are due from `now` on. */
static int start_session(struct kvl_load *load, struct active_session *a, uint64_t now_ns, struct kvl_err *err)
{
  int rc = read_ahead(load, err);
  if (rc != 0 || !load->have_ahead || load->taken + a->left >= load->total) {
    return rc;
  }
  a->used = true;
  a->session = load->ahead.session;
  a->count = a->left = 0;
  while (load->have_ahead && load->ahead.session == a->session) {
    if (a->count == a->capacity) {
      uint32_t capacity = a->capacity == 0 ? 64 : 2 * a->capacity;
      struct pending *grown = realloc(a->request, capacity * sizeof *grown);
      if (grown == NULL) {
        return kvl_err_set(err, -ENOMEM, "no memory for a session of %u requests", a->count);
      }
      a->request = grown;
      a->capacity = capacity;
    }
    struct pending *p = &a->request[a->count++];
    *p = (struct pending){.spec = load->ahead, .due_ns = UINT64_MAX};
    p->spec.block = NULL;
    if (load->scenario->workload.prefix_store_bytes != 0 && p->spec.block_count != 0) {
      uint64_t *copy = malloc(p->spec.block_count * sizeof *copy);
      if (copy == NULL) {
        return kvl_err_set(err, -ENOMEM, "no memory for a prompt of %u blocks", p->spec.block_count);
      }
      memcpy(copy, load->ahead.block, p->spec.block_count * sizeof *copy);
      p->spec.block = copy;
    }
    if (p->spec.arrival == KVL_ARRIVAL_AT) {
      p->due_ns = later(now_ns, scaled_ns(load, p->spec.time_ns));
    }
    load->have_ahead = false;
    rc = read_ahead(load, err);
    if (rc != 0) {
      return rc;
    }
  }
  a->left = a->count;
  return 0;
}

static int open_file(struct kvl_load *load, struct kvl_err *err)
{
  const struct kvl_scenario *s = load->scenario;
  int rc = kvl_scenario_open_workload(s, &load->file, err);
  struct kvl_workload_extent extent;
  rc = rc != 0 ? rc : kvl_workload_extent(load->file, &extent, err);
  if (rc != 0) {
    return rc;
  }
  load->total = s->workload.requests != 0 && s->workload.requests < extent.requests ? s->workload.requests : extent.requests;
  load->tokens_max = extent.tokens_max;
  rc = read_ahead(load, err);
  load->block_tokens = load->have_ahead ? load->ahead.block_tokens : 0;
  load->sessions = load->have_ahead && load->ahead.block_tokens == 64; /* agent files: see traces/workload.h */
  if (rc != 0 || !load->have_ahead) {
    return rc != 0 ? rc : kvl_err_set(err, -EINVAL, "%s: no requests", s->workload.path);
  }
  if (!load->sessions) {
    load->next_ns = scaled_ns(load, load->ahead.time_ns);
    return 0;
  }
  load->active_count = s->workload.concurrency == 0 || s->workload.concurrency > extent.sessions ? (uint32_t)extent.sessions : s->workload.concurrency;
  load->active = calloc(load->active_count, sizeof *load->active);
  if (load->active == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for %u sessions", load->active_count);
  }
  for (uint32_t i = 0; i < load->active_count && rc == 0; i++) {
    rc = start_session(load, &load->active[i], 0, err);
  }
  return rc;
}

int kvl_load_create(struct kvl_load **out, const struct kvl_scenario *s, struct kvl_err *err)
{
  struct kvl_load *load = calloc(1, sizeof *load);
  if (load == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the load");
  }
  load->scenario = s;
  load->next_ns = UINT64_MAX;
  kvl_rng_init(&load->arrivals, s->seed, "arrivals", 0);
  int rc = 0;
  if (s->workload.kind == KVL_WORK_FILE) {
    rc = open_file(load, err);
  } else {
    load->total = s->workload.requests;
    load->tokens_max = s->workload.input_tokens + s->workload.output_tokens;
    if (s->workload.kind != KVL_WORK_CLOSED) {
      load->next_ns = gap_ns(load);
    }
  }
  if (rc != 0) {
    kvl_load_destroy(load);
    return rc;
  }
  *out = load;
  return 0;
}

static void free_session(struct active_session *a)
{
  for (uint32_t i = 0; i < a->count; i++) {
    free((void *)(uintptr_t)a->request[i].spec.block);
  }
  a->count = a->left = 0;
  a->used = false;
}

void kvl_load_destroy(struct kvl_load *load)
{
  if (load == NULL) {
    return;
  }
  for (uint32_t i = 0; load->active != NULL && i < load->active_count; i++) {
    free_session(&load->active[i]);
    free(load->active[i].request);
  }
  free(load->active);
  free(load->blocks_given);
  kvl_workload_close(load->file);
  free(load);
}

bool kvl_load_exhausted(const struct kvl_load *load)
{
  return load->taken >= load->total;
}

uint64_t kvl_load_total(const struct kvl_load *load)
{
  return load->total;
}

uint32_t kvl_load_tokens_max(const struct kvl_load *load)
{
  return load->tokens_max;
}

uint32_t kvl_load_block_tokens(const struct kvl_load *load)
{
  return load->block_tokens;
}

/* The earliest request of all active sessions; ties by place, then by order in the session. */
static struct pending *earliest(struct kvl_load *load)
{
  struct pending *best = load->first;
  for (uint32_t i = 0; load->first == NULL && i < load->active_count; i++) {
    struct active_session *a = &load->active[i];
    for (uint32_t k = 0; a->used && k < a->count; k++) {
      if (!a->request[k].taken && a->request[k].due_ns < (best == NULL ? UINT64_MAX : best->due_ns)) {
        best = &a->request[k];
      }
    }
  }
  load->first = best;
  return best;
}

/* Closed loop: the first requests open their sessions one by one; whoever is served meanwhile goes on at once. */
static uint64_t opening_ns(const struct kvl_load *load)
{
  uint64_t ns;
  if (load->opened >= load->scenario->workload.concurrency) {
    return UINT64_MAX;
  }
  return __builtin_mul_overflow(load->scenario->workload.open_interval_ns, load->opened, &ns) || ns > KVL_TIME_MAX ? KVL_TIME_MAX : ns;
}

uint64_t kvl_load_next_ns(struct kvl_load *load)
{
  if (kvl_load_exhausted(load)) {
    return UINT64_MAX;
  }
  if (load->sessions) {
    const struct pending *p = earliest(load);
    return p == NULL ? UINT64_MAX : p->due_ns;
  }
  if (load->scenario->workload.kind == KVL_WORK_CLOSED) {
    uint64_t opening = opening_ns(load), again = load->free_places != 0 ? load->free_since_ns : UINT64_MAX;
    return opening < again ? opening : again;
  }
  return load->next_ns;
}

static void take_fixed(const struct kvl_load *load, struct kvl_request_spec *spec)
{
  const struct kvl_scenario *s = load->scenario;
  *spec = (struct kvl_request_spec){
    .session = load->taken,
    .input_tokens = s->workload.input_tokens,
    .output_tokens = s->workload.output_tokens,
  };
}

int kvl_load_take(struct kvl_load *load, uint64_t now_ns, struct kvl_request_spec *spec, struct kvl_err *err)
{
  uint64_t due = kvl_load_next_ns(load);
  if (due > now_ns) {
    return 0;
  }
  if (due >= KVL_TIME_MAX) {
    return kvl_err_set(err, -ERANGE, "%s: request %llu of the workload would come after 146 years of simulated time", load->scenario->file,
                       (unsigned long long)load->taken + 1);
  }
  free(load->blocks_given);
  load->blocks_given = NULL;
  if (load->sessions) {
    struct pending *p = earliest(load);
    load->first = NULL;
    *spec = p->spec;
    load->blocks_given = (uint64_t *)(uintptr_t)p->spec.block; /* handed over: freed at the next take */
    p->spec.block = NULL;
    p->taken = true;
    spec->time_ns = p->due_ns;
  } else if (load->scenario->workload.kind == KVL_WORK_FILE) {
    *spec = load->ahead;
    spec->time_ns = load->next_ns;
    if (spec->block_count != 0) { /* the reader's list dies with the read ahead */
      load->blocks_given = malloc(spec->block_count * sizeof *load->blocks_given);
      if (load->blocks_given == NULL) {
        return kvl_err_set(err, -ENOMEM, "no memory for a prompt of %u blocks", spec->block_count);
      }
      memcpy(load->blocks_given, spec->block, spec->block_count * sizeof *load->blocks_given);
      spec->block = load->blocks_given;
    }
    load->have_ahead = false;
    int rc = read_ahead(load, err);
    if (rc != 0) {
      return rc;
    }
    load->next_ns = load->have_ahead ? scaled_ns(load, load->ahead.time_ns) : UINT64_MAX;
  } else {
    take_fixed(load, spec);
    spec->time_ns = load->scenario->workload.kind == KVL_WORK_CLOSED ? kvl_load_next_ns(load) : load->next_ns;
    if (load->scenario->workload.kind != KVL_WORK_CLOSED) {
      load->next_ns = later(load->next_ns, gap_ns(load));
    } else if (opening_ns(load) == spec->time_ns) {
      load->opened++;
    } else {
      load->free_places--;
    }
  }
  load->taken++;
  return 1;
}

int kvl_load_done(struct kvl_load *load, uint64_t session, uint32_t chain, uint64_t now_ns, struct kvl_err *err)
{
  load->completed++;
  if (load->scenario->workload.kind == KVL_WORK_CLOSED) {
    load->free_places++;
    load->free_since_ns = now_ns;
    return 0;
  }
  for (uint32_t i = 0; load->sessions && i < load->active_count; i++) {
    struct active_session *a = &load->active[i];
    if (!a->used || a->session != session) {
      continue;
    }
    load->first = NULL;
    for (uint32_t k = 0; k < a->count; k++) { /* the chain's next request comes after the user's (or the tool's) think time */
      struct pending *p = &a->request[k];
      if (!p->taken && p->spec.chain == chain && p->due_ns == UINT64_MAX) {
        p->due_ns = later(now_ns, scaled_ns(load, p->spec.time_ns));
        break;
      }
    }
    if (--a->left == 0) {
      free_session(a);
      return start_session(load, a, now_ns, err);
    }
    break;
  }
  return 0;
}
