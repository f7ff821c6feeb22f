/* check_vectors [--plane=ref|cuda] FILE...: replays vectors (one JSON object a line: {"config", "ops", "expect"}) through the C reference
 * and names the first difference. Frames, lending and revocation are a small world of this file's own. Exit 0: all equal; 1: a difference
 * or an unreadable file; 77:
 * --plane=cuda without a GPU. With --plane=cuda every variant of the kernels runs each operation too; results are the GPU's, and after each
 * operation all its state is compared with the reference's.
 *
 * Compared: addresses, fetch lists, counters, stamps, hot rows, bank, pages, tail places, copies and dropped rows of announcements. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/resolve_ref.h"
#include "tests/kernels/vectors_gpu.h"

enum { LANES = 1 << 16, TAIL = 4096, SCRATCH = 1024, REQUESTS = 4096, QUERIES = 64 };

struct request {
  long id;
  void *memory;
  struct kvl_cache *cache;
  struct vectors_gpu *gpu; /* NULL: the reference alone */
  kvl_frame *pages;
  uint32_t page_count, held;
};

struct world {
  struct kvl_cache_geometry g;
  struct kvl_cache_bases b;
  bool cuda;
  uint32_t frames;
  unsigned char *frame_free;
  struct request requests[REQUESTS]; /* in order of id: ids are admitted in any order, so sorted on insertion */
  uint32_t request_count;
  struct kvl_resolve_ws *ws;
  void *ws_memory;
  kvl_row rows[LANES];
  struct kvl_query queries[QUERIES];
  uint32_t query_count;
  kvl_addr addresses[LANES];
  struct kvl_fetch fetches[LANES];
  kvl_row dropped[LANES];
};

static const char *complaint; /* set by fail() */

static cJSON *fail(const char *text)
{
  complaint = text;
  return NULL;
}

static void *must(void *p)
{
  if (p == NULL) {
    fprintf(stderr, "check_vectors: out of memory\n");
    exit(1);
  }
  return p;
}

static void *aligned(size_t bytes)
{
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes) != 0) {
    p = NULL;
  }
  return must(p);
}

static bool number(const cJSON *object, const char *key, long low, long high, long *value)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  if (!cJSON_IsNumber(item) || item->valuedouble < (double)low || item->valuedouble > (double)high) {
    return false;
  }
  *value = (long)item->valuedouble;
  return true;
}

static cJSON *place(const char *tier, long at)
{
  cJSON *a = must(cJSON_CreateArray());
  cJSON_AddItemToArray(a, cJSON_CreateString(tier));
  cJSON_AddItemToArray(a, cJSON_CreateNumber((double)at));
  return a;
}

static cJSON *address(const struct world *w, const struct kvl_cache *c, kvl_addr addr)
{
  static const char *const names[KVL_TIERS] = {"scratch", "tail", "page", "bank", "hot", "overflow"};
  kvl_slot at;
  kvl_slot in_frame;
  bool overflow;
  (void)w;
  if (addr == KVL_NONE) {
    return must(cJSON_CreateNumber(-1));
  }
  enum kvl_tier tier = kvl_addr_decode(c, addr, &at, &in_frame, &overflow);
  cJSON *a = place(names[tier], at);
  if (tier == KVL_TIER_PAGE) {
    cJSON_AddItemToArray(a, cJSON_CreateNumber(in_frame));
  }
  return a;
}

static void add_numbers(cJSON *array, long a, long b)
{
  const double v[2] = {(double)a, (double)b};
  cJSON_AddItemToArray(array, must(cJSON_CreateDoubleArray(v, 2)));
}

static void add_three(cJSON *array, long a, long b, long c)
{
  const double v[3] = {(double)a, (double)b, (double)c};
  cJSON_AddItemToArray(array, must(cJSON_CreateDoubleArray(v, 3)));
}

static struct request *find_request(struct world *w, const cJSON *op)
{
  long id;
  if (number(op, "request", 0, INT32_MAX, &id)) {
    for (uint32_t i = 0; i < w->request_count; i++) {
      if (w->requests[i].id == id) {
        return &w->requests[i];
      }
    }
  }
  return NULL;
}

static uint32_t free_frames(const struct world *w)
{
  uint32_t n = 0;
  for (uint32_t f = 0; f < w->frames; f++) {
    n += w->frame_free[f];
  }
  return n;
}

static uint32_t whole_pages(const struct world *w, const struct request *r)
{
  return ((uint32_t)kvl_cache_committed(r->cache) - kvl_cache_tail_rows(r->cache)) >> w->g.page_shift;
}

static cJSON *op_admit(struct world *w, const cJSON *op)
{
  long id;
  long rows;
  if (!number(op, "request", 0, INT32_MAX, &id) || !number(op, "rows", 0, INT32_MAX / 2, &rows) || w->request_count == REQUESTS) {
    return fail("bad admit");
  }
  uint32_t at = w->request_count++;
  for (; at > 0 && w->requests[at - 1].id > id; at--) {
    w->requests[at] = w->requests[at - 1];
  }
  struct request *r = &w->requests[at];
  *r = (struct request){.id = id};
  r->page_count = ((uint32_t)rows + TAIL + SCRATCH) >> w->g.page_shift;
  if (w->cuda) {
    const char *bad = vectors_gpu_admit(&w->g, (uint32_t)rows + TAIL + SCRATCH, r->page_count, &r->gpu, &r->cache, &r->pages);
    if (bad != NULL) {
      return fail(bad);
    }
  } else {
    r->memory = aligned(kvl_cache_bytes(&w->g));
    r->cache = kvl_cache_init(r->memory, &w->g, &w->b, 0);
    r->pages = must(malloc((r->page_count + 1) * sizeof r->pages[0]));
  }
  for (uint32_t p = 0; p < r->page_count; p++) {
    r->pages[p] = KVL_NONE;
  }
  kvl_cache_set_page_map(r->cache, r->pages, r->page_count);
  return kvl_cache_load(r->cache, (kvl_row)rows) == 0 ? cJSON_CreateObject() : fail("load refused");
}

static void drop_request(struct world *w, struct request *r)
{
  if (r->gpu != NULL) { /* the cache and its page map are its own */
    vectors_gpu_end(r->gpu);
  } else {
    free(r->memory);
    free(r->pages);
  }
  size_t at = (size_t)(r - w->requests);
  memmove(r, r + 1, (w->request_count - at - 1) * sizeof *r);
  w->request_count--;
}

static cJSON *op_end(struct world *w, struct request *r)
{
  for (uint32_t p = 0; p < r->page_count; p++) {
    if (r->pages[p] != KVL_NONE) {
      w->frame_free[r->pages[p]] = 1;
    }
  }
  drop_request(w, r);
  cJSON *result = must(cJSON_CreateObject());
  cJSON_AddNumberToObject(result, "free", free_frames(w));
  return result;
}

static cJSON *op_lend(struct world *w, const cJSON *op)
{
  long pages;
  if (!number(op, "pages", 0, INT32_MAX, &pages)) {
    return fail("bad lend");
  }
  cJSON *result = must(cJSON_CreateObject());
  cJSON *given = must(cJSON_AddArrayToObject(result, "given"));
  for (bool turn = true; turn && pages > 0;) {
    turn = false;
    for (uint32_t i = 0; i < w->request_count && pages > 0; i++) {
      struct request *r = &w->requests[i];
      uint32_t page = whole_pages(w, r);
      while (page > 0 && r->pages[page - 1] != KVL_NONE) {
        page--;
      }
      uint32_t frame = 0;
      while (frame < w->frames && !w->frame_free[frame]) {
        frame++;
      }
      if (page > 0 && frame < w->frames) {
        w->frame_free[frame] = 0;
        r->pages[page - 1] = (kvl_frame)frame;
        r->held++;
        add_three(given, r->id, (long)page - 1, (long)frame);
        pages--;
        turn = true;
      }
    }
  }
  return result;
}

/* Proportional to what each holds, largest remainder, ties by lower id; oldest page first. */
static cJSON *op_revoke(struct world *w, const cJSON *op)
{
  long frames;
  if (!number(op, "frames", 0, INT32_MAX, &frames)) {
    return fail("bad revoke");
  }
  static uint64_t take[REQUESTS];
  static uint64_t remainder[REQUESTS];
  uint64_t total = 0;
  for (uint32_t i = 0; i < w->request_count; i++) {
    total += w->requests[i].held;
  }
  uint64_t need = (uint64_t)frames < total ? (uint64_t)frames : total;
  uint64_t rest = need;
  for (uint32_t i = 0; i < w->request_count; i++) {
    take[i] = total > 0 ? need * w->requests[i].held / total : 0;
    remainder[i] = total > 0 ? need * w->requests[i].held % total : 0;
    rest -= take[i];
  }
  for (; rest > 0; rest--) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < w->request_count; i++) {
      if (take[i] < w->requests[i].held && remainder[i] != UINT64_MAX && (best == UINT32_MAX || remainder[i] > remainder[best])) {
        best = i;
      }
    }
    take[best]++;
    remainder[best] = UINT64_MAX; /* had its share */
  }
  cJSON *result = must(cJSON_CreateObject());
  cJSON *gone = must(cJSON_AddArrayToObject(result, "revoked"));
  for (uint32_t i = 0; i < w->request_count; i++) {
    struct request *r = &w->requests[i];
    for (uint32_t p = 0; take[i] > 0; p++) {
      if (r->pages[p] != KVL_NONE) {
        add_three(gone, r->id, (long)p, (long)r->pages[p]);
        w->frame_free[r->pages[p]] = 1;
        r->pages[p] = KVL_NONE;
        r->held--;
        take[i]--;
      }
    }
  }
  return result;
}

static bool read_rows(struct world *w, const cJSON *array, uint32_t *lanes, struct kvl_query *query)
{
  *query = (struct kvl_query){.boundary = INT32_MAX, .rows = w->rows + *lanes};
  const cJSON *row;
  if (!cJSON_IsArray(array)) {
    return false;
  }
  cJSON_ArrayForEach(row, array)
  {
    if (*lanes == LANES || !cJSON_IsNumber(row) || row->valuedouble < (double)INT32_MIN || row->valuedouble > (double)INT32_MAX) {
      return false;
    }
    w->rows[(*lanes)++] = (kvl_row)row->valuedouble;
    query->n++;
  }
  return true;
}

static bool read_queries(struct world *w, const cJSON *list, bool pools)
{
  uint32_t lanes = 0;
  const cJSON *item;
  w->query_count = 0;
  if (!cJSON_IsArray(list)) {
    return false;
  }
  cJSON_ArrayForEach(item, list)
  {
    struct kvl_query *query = &w->queries[w->query_count];
    long boundary = INT32_MAX;
    if (w->query_count == QUERIES || !read_rows(w, pools ? item : cJSON_GetObjectItemCaseSensitive(item, "rows"), &lanes, query) ||
        (!pools && !number(item, "boundary", INT32_MIN, INT32_MAX, &boundary))) {
      return false;
    }
    query->boundary = (kvl_row)boundary;
    w->query_count++;
  }
  return true;
}

static cJSON *op_resolve(struct world *w, const cJSON *op, struct request *r)
{
  struct kvl_resolve_counts counts = {0};
  uint32_t fetched;
  if (!read_queries(w, cJSON_GetObjectItemCaseSensitive(op, "queries"), false)) {
    return fail("bad queries");
  }
  if (r->gpu != NULL) {
    const char *bad = vectors_gpu_resolve(r->gpu, w->queries, w->query_count, w->addresses, w->fetches, &fetched, &counts);
    if (bad != NULL) {
      return fail(bad);
    }
  } else if (kvl_resolve_ref(r->cache, w->ws, false, w->queries, w->query_count, w->addresses, w->fetches, &fetched, &counts) != 0) {
    return fail("resolve refused");
  }
  cJSON *result = must(cJSON_CreateObject());
  cJSON *lines = must(cJSON_AddArrayToObject(result, "addresses"));
  uint32_t lane = 0;
  for (uint32_t q = 0; q < w->query_count; q++) {
    cJSON *line = must(cJSON_CreateArray());
    for (uint32_t i = 0; i < w->queries[q].n; i++) {
      cJSON_AddItemToArray(line, address(w, r->cache, w->addresses[lane++]));
    }
    cJSON_AddItemToArray(lines, line);
  }
  cJSON *list = must(cJSON_AddArrayToObject(result, "fetched"));
  for (uint32_t i = 0; i < fetched; i++) {
    cJSON *pair = must(cJSON_CreateArray());
    cJSON_AddItemToArray(pair, cJSON_CreateNumber(w->fetches[i].row));
    cJSON_AddItemToArray(pair, address(w, r->cache, w->fetches[i].to));
    cJSON_AddItemToArray(list, pair);
  }
  static const char *const names[KVL_TIERS] = {"scratch", "tail", "page", "bank", "hot", "host"};
  cJSON *count = must(cJSON_AddObjectToObject(result, "count"));
  for (int t = 0; t < KVL_TIERS; t++) {
    cJSON_AddNumberToObject(count, names[t], (double)counts.lanes[t]);
  }
  cJSON_AddNumberToObject(count, "violations", (double)counts.violations);
  return counts.fetched == fetched ? result : fail("the fetch counter disagrees with the fetch list");
}

static cJSON *op_announce(struct world *w, const cJSON *op, struct request *r)
{
  uint32_t copies;
  uint32_t drops;
  if (!read_queries(w, cJSON_GetObjectItemCaseSensitive(op, "pools"), true)) {
    return fail("bad pools");
  }
  if (r->gpu != NULL) {
    const char *bad = vectors_gpu_announce(r->gpu, w->queries, w->query_count, w->fetches, &copies, w->dropped, &drops);
    if (bad != NULL) {
      return fail(bad);
    }
  } else if (kvl_announce_ref(r->cache, w->ws, w->queries, w->query_count, w->fetches, &copies, w->dropped, &drops) != 0) {
    return fail("announce refused");
  }
  cJSON *result = must(cJSON_CreateObject());
  cJSON *list = must(cJSON_AddArrayToObject(result, "copies"));
  for (uint32_t i = 0; i < copies; i++) {
    kvl_slot slot;
    kvl_slot in_frame;
    bool overflow;
    if (kvl_addr_decode(r->cache, w->fetches[i].to, &slot, &in_frame, &overflow) != KVL_TIER_BANK) {
      cJSON_Delete(result);
      return fail("a copy does not go to the bank");
    }
    add_numbers(list, w->fetches[i].row, slot);
  }
  list = must(cJSON_AddArrayToObject(result, "dropped"));
  for (uint32_t i = 0; i < drops; i++) {
    cJSON_AddItemToArray(list, cJSON_CreateNumber(w->dropped[i]));
  }
  return result;
}

static cJSON *op_commit(const cJSON *op, struct request *r)
{
  long rows;
  if (!number(op, "rows", 0, INT32_MAX, &rows) || kvl_cache_commit(r->cache, (uint32_t)rows) != 0) {
    return fail("commit refused");
  }
  cJSON *result = must(cJSON_CreateObject());
  cJSON *list = must(cJSON_AddArrayToObject(result, "tail"));
  for (kvl_row row = kvl_cache_committed(r->cache) - (kvl_row)kvl_cache_tail_rows(r->cache); row < kvl_cache_committed(r->cache); row++) {
    add_numbers(list, row, kvl_cache_tail_place(r->cache, row));
  }
  return result;
}

static cJSON *op_rows(const cJSON *op, struct request *r, int (*call)(struct kvl_cache *, uint32_t))
{
  long rows;
  return number(op, "rows", 0, INT32_MAX, &rows) && call(r->cache, (uint32_t)rows) == 0 ? cJSON_CreateObject() : fail("refused");
}

static cJSON *op_state(const struct world *w, const struct request *r)
{
  cJSON *result = must(cJSON_CreateObject());
  cJSON *hot = must(cJSON_AddArrayToObject(result, "hot"));
  cJSON *stamp = must(cJSON_AddArrayToObject(result, "stamp"));
  cJSON *bank = must(cJSON_AddArrayToObject(result, "bank"));
  cJSON *pages = must(cJSON_AddArrayToObject(result, "pages"));
  for (uint32_t s = 0; s < w->g.hot_rows; s++) {
    cJSON_AddItemToArray(hot, cJSON_CreateNumber(kvl_cache_hot_row(r->cache, (kvl_slot)s)));
    cJSON_AddItemToArray(stamp, cJSON_CreateNumber((double)kvl_cache_hot_stamp(r->cache, (kvl_slot)s)));
  }
  for (uint32_t s = 0; s < w->g.bank_rows; s++) {
    cJSON_AddItemToArray(bank, cJSON_CreateNumber(kvl_cache_bank_row(r->cache, (kvl_slot)s)));
  }
  for (uint32_t p = 0; p < r->page_count; p++) {
    if (r->pages[p] != KVL_NONE) {
      add_numbers(pages, (long)p, (long)r->pages[p]);
    }
  }
  return result;
}

static cJSON *do_op(struct world *w, const cJSON *op)
{
  const cJSON *kind = cJSON_GetObjectItemCaseSensitive(op, "op");
  if (!cJSON_IsString(kind)) {
    return fail("an operation without a name");
  }
  const char *k = kind->valuestring;
  if (strcmp(k, "admit") == 0) {
    return op_admit(w, op);
  }
  if (strcmp(k, "lend") == 0) {
    return op_lend(w, op);
  }
  if (strcmp(k, "revoke") == 0) {
    return op_revoke(w, op);
  }
  struct request *r = find_request(w, op);
  if (r == NULL) {
    return fail("no such request");
  }
  if (strcmp(k, "resolve") == 0) {
    return op_resolve(w, op, r);
  }
  if (strcmp(k, "announce") == 0) {
    return op_announce(w, op, r);
  }
  if (strcmp(k, "commit") == 0) {
    return op_commit(op, r);
  }
  if (strcmp(k, "scratch") == 0) {
    return op_rows(op, r, kvl_cache_scratch);
  }
  if (strcmp(k, "written_back") == 0) {
    return op_rows(op, r, kvl_cache_written_back);
  }
  if (strcmp(k, "state") == 0) {
    return op_state(w, r);
  }
  if (strcmp(k, "end_group") == 0) {
    const char *bad = NULL;
    if (r->gpu != NULL) {
      bad = vectors_gpu_end_group(r->gpu);
    } else {
      kvl_end_group_ref(r->cache);
    }
    return bad == NULL ? cJSON_CreateObject() : fail(bad);
  }
  if (strcmp(k, "end") == 0) {
    return op_end(w, r);
  }
  return fail("unknown operation");
}

/* The first place where two results differ, as a path; NULL when they are equal. */
static bool differ(const cJSON *got, const cJSON *want, char *path, size_t room)
{
  size_t used = strlen(path);
  if (cJSON_IsArray(got) && cJSON_IsArray(want)) {
    const cJSON *a = got->child;
    const cJSON *b = want->child;
    for (int i = 0; a != NULL && b != NULL; a = a->next, b = b->next, i++) {
      snprintf(path + used, room - used, "[%d]", i);
      if (differ(a, b, path, room)) {
        return true;
      }
    }
    path[used] = '\0';
    if (a != b) {
      snprintf(path + used, room - used, " (length %d, want %d)", cJSON_GetArraySize(got), cJSON_GetArraySize(want));
      return true;
    }
    return false;
  }
  if (cJSON_IsObject(got) && cJSON_IsObject(want)) {
    for (const cJSON *b = want->child; b != NULL; b = b->next) {
      const cJSON *a = cJSON_GetObjectItemCaseSensitive(got, b->string);
      snprintf(path + used, room - used, ".%s", b->string);
      if (a == NULL || differ(a, b, path, room)) {
        return true;
      }
    }
    path[used] = '\0';
    return cJSON_GetArraySize(got) != cJSON_GetArraySize(want);
  }
  return !cJSON_Compare(got, want, true);
}

static bool start(struct world *w, const cJSON *config)
{
  long rows_per_page;
  long hot;
  long bank;
  long frames;
  if (!number(config, "rows_per_page", 1, 1 << 20, &rows_per_page) || !number(config, "hot_rows", 0, 1 << 20, &hot) ||
      !number(config, "bank_rows", 0, 1 << 20, &bank) || !number(config, "frames", 0, 1 << 20, &frames)) {
    return false;
  }
  uint32_t shift = 0;
  while (1L << shift < rows_per_page) {
    shift++;
  }
  if (1L << shift != rows_per_page) {
    return false;
  }
  w->g = (struct kvl_cache_geometry){.page_shift = shift,
                                     .hot_rows = (uint32_t)hot,
                                     .bank_rows = (uint32_t)bank,
                                     .tail_rows = TAIL,
                                     .scratch_rows = SCRATCH,
                                     .frame_stride_rows = (uint32_t)rows_per_page};
  w->b = (struct kvl_cache_bases){.hot = 0, .bank = 1 << 20, .tail = 2 << 20, .scratch = 3 << 20, .overflow = 4 << 20, .frames = 8 << 20};
  w->frames = (uint32_t)frames;
  w->frame_free = must(malloc((size_t)frames + 1));
  memset(w->frame_free, 1, (size_t)frames + 1);
  return true;
}

/* 0, or 1 after saying what is wrong. */
static int check_line(struct world *w, const char *file, unsigned long line, const char *text)
{
  cJSON *vector = cJSON_Parse(text);
  const cJSON *op = cJSON_GetObjectItemCaseSensitive(vector, "ops");
  const cJSON *want = cJSON_GetObjectItemCaseSensitive(vector, "expect");
  w->request_count = 0;
  w->frame_free = NULL;
  int failed = 0;
  if (!cJSON_IsArray(op) || !cJSON_IsArray(want) || cJSON_GetArraySize(op) != cJSON_GetArraySize(want)) {
    fprintf(stderr, "%s:%lu: not a vector (an object with config, ops and as many expect)\n", file, line);
    failed = 1;
  } else if (!start(w, cJSON_GetObjectItemCaseSensitive(vector, "config"))) {
    fprintf(stderr, "%s:%lu: bad config (rows_per_page must be a power of two)\n", file, line);
    failed = 1;
  } else {
    op = op->child;
    want = want->child;
    for (unsigned long i = 0; op != NULL && !failed; op = op->next, want = want->next, i++) {
      char path[512] = "";
      complaint = NULL;
      cJSON *got = do_op(w, op);
      const cJSON *kind = cJSON_GetObjectItemCaseSensitive(op, "op");
      const char *name = cJSON_IsString(kind) ? kind->valuestring : "?";
      int broken = 0;
      for (uint32_t r = 0; r < w->request_count && broken == 0; r++) {
        broken = kvl_cache_verify(w->requests[r].cache);
      }
      if (got == NULL || differ(got, want, path, sizeof path)) {
        char *have = cJSON_PrintUnformatted(got);
        char *need = cJSON_PrintUnformatted(want);
        fprintf(stderr, "%s:%lu: op %lu %s: %s%s\n  got  %.2000s\n  want %.2000s\n", file, line, i, name,
                complaint != NULL ? complaint : "first difference at ", complaint != NULL ? "" : path, have != NULL ? have : "-", need);
        free(have);
        free(need);
        failed = 1;
      } else if (broken != 0) {
        fprintf(stderr, "%s:%lu: op %lu %s: invariant at line %d of the reference does not hold\n", file, line, i, name, broken);
        failed = 1;
      }
      cJSON_Delete(got);
    }
  }
  while (w->request_count > 0) {
    drop_request(w, &w->requests[w->request_count - 1]);
  }
  free(w->frame_free);
  cJSON_Delete(vector);
  return failed;
}

static int check_file(struct world *w, const char *file, unsigned long *vectors)
{
  FILE *f = fopen(file, "r");
  if (f == NULL) {
    fprintf(stderr, "check_vectors: %s: %s\n", file, strerror(errno));
    return 1;
  }
  char *text = NULL;
  size_t room = 0;
  unsigned long line = 0;
  int failed = 0;
  while (!failed && getline(&text, &room, f) >= 0) {
    line++;
    if (text[strspn(text, " \t\r\n")] != '\0') {
      failed = check_line(w, file, line, text);
      *vectors += 1;
    }
  }
  if (ferror(f)) {
    fprintf(stderr, "check_vectors: %s: %s\n", file, strerror(errno));
    failed = 1;
  }
  free(text);
  fclose(f);
  return failed;
}

int main(int argc, char **argv)
{
  bool cuda = argc > 1 && strcmp(argv[1], "--plane=cuda") == 0;
  int first = cuda || (argc > 1 && strcmp(argv[1], "--plane=ref") == 0) ? 2 : 1;
  if (argc <= first || strncmp(argv[first], "--", 2) == 0) {
    fprintf(stderr, "usage: check_vectors [--plane=ref|cuda] FILE...\n");
    return 2;
  }
  const char *absent = cuda ? vectors_gpu_absent() : NULL;
  if (absent != NULL) {
    fprintf(stderr, "check_vectors: skipped: %s\n", absent);
    return 77;
  }
  struct world *w = must(calloc(1, sizeof *w));
  w->cuda = cuda;
  w->ws_memory = aligned(kvl_resolve_ws_bytes(LANES));
  w->ws = kvl_resolve_ws_init(w->ws_memory, LANES);
  unsigned long vectors = 0;
  int failed = 0;
  for (int i = first; i < argc && !failed; i++) {
    failed = check_file(w, argv[i], &vectors);
  }
  if (!failed && vectors == 0) {
    fprintf(stderr, "check_vectors: no vectors in the files given\n");
    failed = 1;
  }
  if (!failed) {
    printf("%lu vectors equal\n", vectors);
  }
  free(w->ws_memory);
  free(w);
  return failed;
}
