/* Coding-agent sessions as CSV (derived from callanjfox/kv-cache-tester, traces/trace_*.json): one request a row,
 *
 *   trace, agent         session; 0 is the main loop, k > 0 the k-th sub-agent
 *   t_s, think_s         seconds from the session's start; pause before this request (empty: not known)
 *   in_tok, out_tok      prompt and output
 *   blocks64             whole prompt blocks of 64 tokens
 *   lcp_prev_blocks      leading blocks equal to the previous request of the same agent
 *   seen_prefix_blocks   leading blocks seen anywhere earlier in the session
 *   type, api_s, out_types  (n or s; service time at the client; what the output was made of): api_s only where think_s is empty
 *
 * The file keeps the lengths of shared prefixes, not their contents, so block ids are made up with the same sharing: a request is a prefix of an
 * earlier one (its parent) followed by blocks that nobody has had before. One session is held at a time, some 64 bytes a request; block lists are
 * written out only for the request being returned. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "traces/decimal.h"
#include "traces/grow.h"
#include "traces/workload_impl.h"

enum { BLOCK_TOKENS = 64, SESSION_REQUESTS_MAX = 1 << 20, AGENT_MAX = 65535, LOOK_BACK = 4096, SESSION_NAME_MAX = 64 };
enum { TRACE, AGENT, T, TYPE, IN, OUT, BLOCKS, LCP, SEEN, API, THINK, OUT_TYPES, COLUMNS };
static const char header[] = "trace,agent,t_s,type,in_tok,out_tok,blocks64,lcp_prev_blocks,seen_prefix_blocks,api_s,think_s,out_types";
static const char *const column_name[COLUMNS] = {"trace",    "agent",           "t_s",                "type",  "in_tok",  "out_tok",
                                                 "blocks64", "lcp_prev_blocks", "seen_prefix_blocks", "api_s", "think_s", "out_types"};
#define NOBODY UINT32_MAX

struct request {
  uint64_t t_ns, think_ns, api_ns;
  uint64_t fresh;          /* id of its first own block */
  uint32_t agent, input, output;
  uint32_t blocks, shared; /* the first `shared` blocks are the parent's, the others its own */
  uint32_t parent;         /* index in file order, NOBODY with shared == 0 */
  bool first;              /* of its agent */
};

struct row {
  const char *field[COLUMNS];
  size_t length[COLUMNS];
};

struct agent_reader {
  uint64_t sessions;      /* started so far */
  uint64_t next_block;    /* ids are never used twice in a file */
  bool header_read, pending, ended;
  char name[SESSION_NAME_MAX + 1];         /* of the session being read */
  char pending_name[SESSION_NAME_MAX + 1]; /* of the row that began the next one */
  struct request pending_request;
  uint32_t pending_lcp, pending_seen;
  uint64_t pending_line;
  void *request; /* struct request, in file order */
  size_t request_capacity;
  void *order; /* uint32_t: requests in order of time, ties in file order */
  size_t order_capacity;
  uint32_t requests, returned;
  void *last; /* uint32_t: last request of each agent, NOBODY: none */
  size_t last_capacity;
  uint32_t agents;
  void *block; /* uint64_t: the list of the request returned last */
  size_t block_capacity;
  void *known; /* uint64_t: open-addressing set of the hashes of session names; 0: free */
  size_t known_capacity;
};

static int no_memory(const struct kvl_lines *lines, struct kvl_err *err)
{
  return kvl_err_set(err, -ENOMEM, "%s:%llu: no memory for the session", lines->path, (unsigned long long)lines->number);
}

static int read_field(const struct kvl_lines *lines, const struct row *row, unsigned column, unsigned scale, uint64_t max, uint64_t *value,
                      struct kvl_err *err)
{
  const char *p = row->field[column];
  int code = row->length[column] == 0 ? -ENODATA : kvl_decimal_read(&p, scale, max, value);
  if (code == 0 && p != row->field[column] + row->length[column])
    code = -EINVAL;
  if (code == 0)
    return 0;
  return kvl_err_set(err, -EINVAL, "%s:%llu: %s %s%.*s%s", lines->path, (unsigned long long)lines->number, column_name[column],
                     code == -ENODATA  ? "is empty"
                     : code == -EDOM   ? "is negative: "
                     : code == -ERANGE ? "is absurdly large: "
                     : scale == 0      ? "must be a whole number, not '"
                                       : "must be a number, not '",
                     row->length[column] > 40 ? 40 : (int)row->length[column], row->field[column], code == -EINVAL ? "'" : "");
}

/* Splits the line at its commas. */
static int split(const struct kvl_lines *lines, const char *text, size_t length, struct row *row, struct kvl_err *err)
{
  unsigned column = 0;
  const char *begin = text;
  for (const char *p = text;; p++) {
    if (*p != ',' && p != text + length)
      continue;
    if (column < COLUMNS) {
      row->field[column] = begin;
      row->length[column] = (size_t)(p - begin);
    }
    column++;
    begin = p + 1;
    if (p == text + length)
      break;
  }
  if (column == COLUMNS)
    return 0;
  if (column < COLUMNS && !lines->newline)
    return kvl_err_set(err, -EINVAL, "%s:%llu: the last line is cut off: %u fields of %d", lines->path, (unsigned long long)lines->number,
                       column, COLUMNS);
  if (column < COLUMNS)
    return kvl_err_set(err, -EINVAL, "%s:%llu: %s is missing: %u fields, not %d", lines->path, (unsigned long long)lines->number,
                       column_name[column], column, COLUMNS);
  return kvl_err_set(err, -EINVAL, "%s:%llu: %u fields, not %d", lines->path, (unsigned long long)lines->number, column, COLUMNS);
}

/* Reads one row into the pending request. 1, 0 at the end, negative errno. */
static int read_row(struct agent_reader *a, struct kvl_lines *lines, struct kvl_err *err)
{
  struct request *r = &a->pending_request;
  struct row row;
  uint64_t value[COLUMNS];
  char *text;
  size_t length;
  int code;

  for (;;) {
    code = kvl_lines_next(lines, &text, &length, err);
    if (code <= 0)
      return code;
    if (length == 0)
      continue;
    if (length == sizeof(header) - 1 && memcmp(text, header, length) == 0) {
      if (a->header_read)
        return kvl_err_set(err, -EINVAL, "%s:%llu: the header again", lines->path, (unsigned long long)lines->number);
      a->header_read = true;
      continue;
    }
    break;
  }
  if (!a->header_read)
    return kvl_err_set(err, -EINVAL, "%s:%llu: the header is missing (%s)", lines->path, (unsigned long long)lines->number, header);
  code = split(lines, text, length, &row, err);
  if (code)
    return code;
  if (row.length[TRACE] == 0 || row.length[TRACE] > SESSION_NAME_MAX)
    return kvl_err_set(err, -EINVAL, "%s:%llu: trace %s", lines->path, (unsigned long long)lines->number,
                       row.length[TRACE] ? "has more than 64 characters" : "is empty");
  if (row.length[TYPE] != 1 || (row.field[TYPE][0] != 'n' && row.field[TYPE][0] != 's'))
    return kvl_err_set(err, -EINVAL, "%s:%llu: type must be n or s, not '%.*s'", lines->path, (unsigned long long)lines->number,
                       row.length[TYPE] > 40 ? 40 : (int)row.length[TYPE], row.field[TYPE]);
  static const struct {
    unsigned column, scale;
    uint64_t max;
    bool optional;
  } number[] = {
    {AGENT, 0, AGENT_MAX, false},
    {T, 9, KVL_WORKLOAD_NS_MAX, false},
    {IN, 0, KVL_WORKLOAD_TOKENS_MAX, false},
    {OUT, 0, KVL_WORKLOAD_TOKENS_MAX, false},
    {BLOCKS, 0, KVL_WORKLOAD_TOKENS_MAX, false},
    {LCP, 0, KVL_WORKLOAD_TOKENS_MAX, false},
    {SEEN, 0, KVL_WORKLOAD_TOKENS_MAX, false},
    {API, 9, KVL_WORKLOAD_NS_MAX, true},
    {THINK, 9, KVL_WORKLOAD_NS_MAX, true},
  };
  for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++) {
    unsigned column = number[i].column;
    value[column] = 0;
    if (number[i].optional && row.length[column] == 0)
      continue;
    code = read_field(lines, &row, column, number[i].scale, number[i].max, &value[column], err);
    if (code)
      return code;
  }
  if (value[IN] == 0)
    return kvl_err_set(err, -EINVAL, "%s:%llu: in_tok is 0", lines->path, (unsigned long long)lines->number);
  if (value[BLOCKS] != value[IN] / BLOCK_TOKENS && value[BLOCKS] != (value[IN] + BLOCK_TOKENS - 1) / BLOCK_TOKENS)
    return kvl_err_set(err, -EINVAL, "%s:%llu: blocks64 is %llu, but in_tok %llu makes %llu blocks of %d", lines->path,
                       (unsigned long long)lines->number, (unsigned long long)value[BLOCKS], (unsigned long long)value[IN],
                       (unsigned long long)(value[IN] / BLOCK_TOKENS), BLOCK_TOKENS);
  if (value[LCP] > value[SEEN])
    return kvl_err_set(err, -EINVAL, "%s:%llu: lcp_prev_blocks (%llu) is more than seen_prefix_blocks (%llu)", lines->path,
                       (unsigned long long)lines->number, (unsigned long long)value[LCP], (unsigned long long)value[SEEN]);
  if (value[SEEN] > value[BLOCKS])
    return kvl_err_set(err, -EINVAL, "%s:%llu: seen_prefix_blocks (%llu) is more than blocks64 (%llu)", lines->path,
                       (unsigned long long)lines->number, (unsigned long long)value[SEEN], (unsigned long long)value[BLOCKS]);
  memcpy(a->pending_name, row.field[TRACE], row.length[TRACE]);
  a->pending_name[row.length[TRACE]] = '\0';
  *r = (struct request){
    .t_ns = value[T],
    .think_ns = row.length[THINK] ? value[THINK] : UINT64_MAX, /* not known; see place() */
    .api_ns = value[API],
    .agent = (uint32_t)value[AGENT],
    .input = (uint32_t)value[IN],
    .output = (uint32_t)value[OUT],
    .blocks = (uint32_t)value[BLOCKS],
    .parent = NOBODY,
  };
  a->pending_lcp = (uint32_t)value[LCP];
  a->pending_seen = (uint32_t)value[SEEN];
  a->pending_line = lines->number;
  a->pending = true;
  return 1;
}

/* The id of a request's block. Ids are born once, so equal ids at one place mean equal prefixes up to there. */
static uint64_t block_at(const struct request *all, uint32_t index, uint32_t position)
{
  while (position < all[index].shared)
    index = all[index].parent;
  return all[index].fresh + (position - all[index].shared);
}

/* Whom does a request share its first `seen` blocks with, given that it shares exactly `lcp` with `previous` (NOBODY: first of its agent)? The
 * latest earlier request that has them and leaves `previous` where it should; failing that, later than it should. */
static uint32_t find_parent(const struct request *all, uint32_t count, uint32_t previous, uint32_t lcp, uint32_t seen)
{
  uint32_t second = NOBODY;
  for (uint32_t back = 1; back <= count && back <= LOOK_BACK; back++) {
    uint32_t i = count - back;
    if (i == previous || all[i].blocks < seen)
      continue;
    if (previous != NOBODY && lcp > 0 && block_at(all, i, lcp - 1) != block_at(all, previous, lcp - 1))
      continue;
    if (previous == NOBODY || all[previous].blocks <= lcp || block_at(all, i, lcp) != block_at(all, previous, lcp))
      return i;
    second = second == NOBODY ? i : second;
  }
  return second;
}

/* Adds the pending request to the session: checks it against those before it and decides whose prefix it has. */
static int place(struct agent_reader *a, const struct kvl_lines *lines, struct kvl_err *err)
{
  struct request *all, r = a->pending_request;
  uint32_t *last, previous, lcp = a->pending_lcp, seen = a->pending_seen;
  unsigned long long line = a->pending_line;

  if (a->requests == SESSION_REQUESTS_MAX)
    return kvl_err_set(err, -EINVAL, "%s:%llu: session %s has more than %d requests", lines->path, line, a->name, SESSION_REQUESTS_MAX);
  if (kvl_grow(&a->request, &a->request_capacity, (size_t)a->requests + 1, sizeof(struct request)) ||
      kvl_grow(&a->order, &a->order_capacity, (size_t)a->requests + 1, sizeof(uint32_t)) ||
      kvl_grow(&a->last, &a->last_capacity, (size_t)r.agent + 1, sizeof(uint32_t)))
    return no_memory(lines, err);
  all = a->request;
  last = a->last;
  for (; a->agents <= r.agent; a->agents++)
    last[a->agents] = NOBODY;
  previous = last[r.agent];
  r.first = previous == NOBODY;
  if (r.first && lcp > 0)
    return kvl_err_set(err, -EINVAL, "%s:%llu: lcp_prev_blocks is %u in the first request of agent %u", lines->path, line, lcp, r.agent);
  if (!r.first && r.t_ns < all[previous].t_ns)
    return kvl_err_set(err, -EINVAL, "%s:%llu: t_s goes backwards within agent %u of session %s, from %.3f to %.3f", lines->path, line, r.agent,
                       a->name, (double)all[previous].t_ns * 1e-9, (double)r.t_ns * 1e-9);
  if (!r.first && lcp > all[previous].blocks)
    return kvl_err_set(err, -EINVAL, "%s:%llu: lcp_prev_blocks is %u, but the previous request of agent %u has %u blocks", lines->path, line,
                       lcp, r.agent, all[previous].blocks);
  if (r.think_ns == UINT64_MAX) { /* not known: what is left of the time between the two starts */
    uint64_t busy_ns = r.first ? 0 : all[previous].t_ns + all[previous].api_ns;
    r.think_ns = r.first || busy_ns > r.t_ns ? 0 : r.t_ns - busy_ns;
  }
  r.parent = lcp > 0 ? previous : NOBODY;
  r.shared = lcp;
  if (seen > lcp) {
    uint32_t parent = find_parent(all, a->requests, previous, lcp, seen);
    if (parent == NOBODY)
      return kvl_err_set(err, -EINVAL, "%s:%llu: seen_prefix_blocks is %u, but no earlier request of session %s can have these blocks",
                         lines->path, line, seen, a->name);
    r.parent = parent;
    r.shared = seen;
  }
  while (r.shared > 0 && r.shared <= all[r.parent].shared) /* straight to who brought the last shared block: keeps ancestries short */
    r.parent = all[r.parent].parent;
  r.fresh = a->next_block;
  a->next_block += r.blocks - r.shared;
  last[r.agent] = a->requests;
  all[a->requests++] = r;
  a->pending = false;
  return 0;
}

/* 1 when the session's name is new, 0 when it has been there, negative errno. */
static int register_name(struct agent_reader *a)
{
  uint64_t hash = 0, *set = a->known;
  size_t mask;
  for (const char *c = a->name; *c; c++)
    hash = kvl_rng_mix(hash ^ (unsigned char)*c);
  hash |= 1;
  if (a->sessions * 2 >= a->known_capacity) {
    size_t capacity = a->known_capacity ? a->known_capacity * 2 : 256;
    uint64_t *grown = calloc(capacity, sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    for (size_t i = 0; i < a->known_capacity; i++) {
      size_t at = set[i] >> 1 & (capacity - 1);
      while (set[i] && grown[at])
        at = (at + 1) & (capacity - 1);
      if (set[i])
        grown[at] = set[i];
    }
    free(a->known);
    a->known = set = grown;
    a->known_capacity = capacity;
  }
  mask = a->known_capacity - 1;
  for (size_t at = hash >> 1 & mask;; at = (at + 1) & mask) {
    if (set[at] == hash)
      return 0;
    if (set[at] == 0) {
      set[at] = hash;
      return 1;
    }
  }
}

/* Stable merge sort by time: qsort promises no order of equals. `spare` has room for as many. */
static void sort_by_time(const struct request *all, uint32_t *order, uint32_t *spare, uint32_t count)
{
  for (uint32_t width = 1; width < count; width *= 2) {
    for (uint32_t begin = 0; begin < count; begin += 2 * width) {
      uint32_t middle = begin + width < count ? begin + width : count, end = begin + 2 * width < count ? begin + 2 * width : count;
      uint32_t i = begin, j = middle, out = begin;
      while (i < middle || j < end) {
        bool left = j == end || (i < middle && all[order[i]].t_ns <= all[order[j]].t_ns);
        spare[out++] = left ? order[i++] : order[j++];
      }
    }
    memcpy(order, spare, count * sizeof(*order));
  }
}

/* Reads the rows of one session. 1, 0 at the end of the file, negative errno. */
static int read_session(struct agent_reader *a, struct kvl_lines *lines, struct kvl_err *err)
{
  uint32_t *order, *spare;
  int code;

  a->requests = a->returned = a->agents = 0;
  if (!a->pending && !a->ended) {
    code = read_row(a, lines, err);
    if (code < 0)
      return code;
    a->ended = code == 0;
  }
  if (a->ended && !a->pending)
    return 0;
  memcpy(a->name, a->pending_name, sizeof(a->name));
  code = register_name(a);
  if (code < 0)
    return no_memory(lines, err);
  if (code == 0)
    return kvl_err_set(err, -EINVAL, "%s:%llu: session %s comes a second time; the rows of a session must stand together", lines->path,
                       (unsigned long long)a->pending_line, a->name);
  do {
    code = place(a, lines, err);
    if (code)
      return code;
    code = read_row(a, lines, err);
    if (code < 0)
      return code;
    a->ended = code == 0;
  } while (!a->ended && strcmp(a->name, a->pending_name) == 0);
  a->sessions++;
  order = a->order;
  for (uint32_t i = 0; i < a->requests; i++)
    order[i] = i;
  spare = malloc(a->requests * sizeof(*spare));
  if (!spare)
    return no_memory(lines, err);
  sort_by_time(a->request, order, spare, a->requests);
  free(spare);
  return 1;
}

static int agent_next(void *state, struct kvl_lines *lines, struct kvl_request_spec *spec, struct kvl_err *err)
{
  struct agent_reader *a = state;
  const struct request *all, *r;
  uint64_t *block;
  uint32_t end, index;

  if (a->returned == a->requests) {
    int code = read_session(a, lines, err);
    if (code <= 0)
      return code;
  }
  all = a->request;
  index = ((const uint32_t *)a->order)[a->returned];
  r = &all[index];
  if (kvl_grow(&a->block, &a->block_capacity, r->blocks, sizeof(uint64_t)))
    return no_memory(lines, err);
  block = a->block;
  for (end = r->blocks; end > 0;) { /* from the end: own blocks, then the parent's below, and so on */
    const struct request *owner = &all[index];
    for (; end > owner->shared; end--)
      block[end - 1] = owner->fresh + (end - 1 - owner->shared);
    index = owner->parent;
  }
  a->returned++;
  *spec = (struct kvl_request_spec){
    .session = a->sessions - 1,
    .chain = r->agent,
    .arrival = r->first ? KVL_ARRIVAL_AT : KVL_ARRIVAL_AFTER,
    .time_ns = r->first ? r->t_ns : r->think_ns,
    .input_tokens = r->input,
    .output_tokens = r->output,
    .block_tokens = BLOCK_TOKENS,
    .block_count = r->blocks,
    .block = block,
  };
  return 1;
}

static const char *agent_refuses(const char *line, size_t length)
{
  if (length == sizeof(header) - 1 && memcmp(line, header, length) == 0)
    return NULL;
  if (strncmp(line, "trace,", 6) == 0)
    return "the first line is not the header of agent_requests (columns differ)";
  return "the first line is not the header trace,agent,t_s,...";
}

static void *agent_create(void)
{
  return calloc(1, sizeof(struct agent_reader));
}

static void agent_destroy(void *state)
{
  struct agent_reader *a = state;
  free(a->request);
  free(a->order);
  free(a->last);
  free(a->block);
  free(a->known);
  free(a);
}

static void agent_rewind(void *state)
{
  struct agent_reader *a = state;
  a->sessions = a->next_block = 0;
  a->header_read = a->pending = a->ended = false;
  a->requests = a->returned = a->agents = 0;
  if (a->known)
    memset(a->known, 0, a->known_capacity * sizeof(uint64_t));
}

const struct kvl_workload_ops kvl_workload_agent = {
  "agent", agent_refuses, agent_create, agent_destroy, agent_rewind, agent_next,
};
