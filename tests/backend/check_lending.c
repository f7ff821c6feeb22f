/* check_lending FILE...: replays what vectors (one JSON object a line: {"config", "ops", "expect"}) say about pages - admit, end, lend, revoke,
 * written_back and each request's pages - through the residency policy. Exit 0: all equal; 1: a difference, named, or an unreadable file.
 *
 * The vectors number requests in order of admission for ever, the policy takes the lowest free slot: a slot that ends is taken at once by a
 * request without pages. They lend when told, the policy also when a page becomes whole: a request that holds all free frames prevents that. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/residency.h"

enum { REQUESTS = 128, TOKENS_MORE = 1024, LINE_MAX_BYTES = 1 << 24 };

struct replay {
  struct kvl_resid_config config;
  struct kvl_resid *resid;
  void *memory;
  struct kvl_plan plan;
  uint32_t committed[REQUESTS], tail[REQUESTS], scratch[REQUESTS]; /* rows */
  char text[256];
};

__attribute__((format(printf, 2, 3))) static const char *differ(struct replay *r, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  (void)vsnprintf(r->text, sizeof r->text, format, args);
  va_end(args);
  return r->text;
}

static uint32_t number(const cJSON *object, const char *key)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) && item->valuedouble >= 0 ? (uint32_t)item->valuedouble : UINT32_MAX;
}

static uint32_t free_frames(const struct replay *r)
{
  struct kvl_resid_usage usage;
  kvl_resid_usage(r->resid, &usage);
  return usage.free;
}

static void land(struct replay *r)
{
  for (uint32_t i = 0; i < r->plan.count; i++) {
    if (r->plan.moves[i].kind != KVL_MOVE_REVOKE) {
      kvl_resid_copy_done(r->resid, &r->plan.moves[i]);
    }
  }
}

/* -1, or an errno, as a request number that no vector expects. */
static kvl_request admit(struct replay *r, uint32_t fixed, uint32_t tokens)
{
  kvl_request request = UINT32_MAX;
  struct kvl_demand demand = {.fixed_frames = fixed, .input_tokens = tokens, .max_tokens = tokens + TOKENS_MORE};
  (void)kvl_resid_admit(r->resid, &demand, 0, &r->plan, &request);
  return request;
}

static const char *do_admit(struct replay *r, const cJSON *op, const cJSON *expect)
{
  (void)expect;
  uint32_t request = number(op, "request"), rows = number(op, "rows");
  if (admit(r, 0, rows) != request) {
    return differ(r, "request %u does not get the next slot", request);
  }
  r->committed[request] = rows;
  r->tail[request] = r->scratch[request] = 0;
  return kvl_resid_populate(r->resid, request, r->config.frames, &r->plan) == 0 ? NULL : "populate failed";
}

static const char *do_end(struct replay *r, const cJSON *op, const cJSON *expect)
{
  uint32_t request = number(op, "request");
  kvl_resid_end(r->resid, request);
  if (admit(r, 0, 0) != request) {
    return differ(r, "slot %u is not the lowest free one", request);
  }
  return free_frames(r) == number(expect, "free") ? NULL : differ(r, "%u frames are free", free_frames(r));
}

/* The plan against a list of [request, page, frame]. */
static const char *compare_moves(struct replay *r, const cJSON *list)
{
  if ((uint32_t)cJSON_GetArraySize(list) != r->plan.count) {
    return differ(r, "%u moves, not %d", r->plan.count, cJSON_GetArraySize(list));
  }
  uint32_t i = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, list)
  {
    const struct kvl_move *move = &r->plan.moves[i];
    int got[3] = {(int)move->request, move->page, move->frame};
    for (int k = 0; k < 3; k++) {
      if (cJSON_GetArrayItem(item, k) == NULL || cJSON_GetArrayItem(item, k)->valueint != got[k]) {
        return differ(r, "move %u is request %d page %d frame %d", i, got[0], got[1], got[2]);
      }
    }
    i++;
  }
  land(r);
  return NULL;
}

static const char *do_lend(struct replay *r, const cJSON *op, const cJSON *expect)
{
  uint32_t pages = number(op, "pages"), free = free_frames(r);
  (void)kvl_resid_give_back(r->resid, free > pages ? free - pages : 0, &r->plan);
  return compare_moves(r, cJSON_GetObjectItemCaseSensitive(expect, "given"));
}

static const char *do_revoke(struct replay *r, const cJSON *op, const cJSON *expect)
{
  (void)kvl_resid_make_room(r->resid, free_frames(r) + number(op, "frames"), &r->plan);
  return compare_moves(r, cJSON_GetObjectItemCaseSensitive(expect, "revoked"));
}

static const char *do_written_back(struct replay *r, const cJSON *op, const cJSON *expect)
{
  (void)expect;
  uint32_t request = number(op, "request");
  r->tail[request] -= number(op, "rows");
  kvl_request holder = admit(r, free_frames(r), 0);
  int code = holder == UINT32_MAX ? -EAGAIN : kvl_resid_host_complete(r->resid, request, r->committed[request] - r->tail[request], &r->plan);
  if (code != 0 || r->plan.count != 0) {
    return differ(r, "host_complete returned %d with %u moves", code, r->plan.count);
  }
  kvl_resid_end(r->resid, holder);
  return NULL;
}

static const char *do_commit(struct replay *r, const cJSON *op, const cJSON *expect)
{
  (void)expect;
  uint32_t request = number(op, "request");
  r->committed[request] += number(op, "rows");
  r->tail[request] += number(op, "rows");
  return NULL;
}

static const char *do_state(struct replay *r, const cJSON *op, const cJSON *expect)
{
  uint32_t pages, held = 0;
  int whole;
  const kvl_frame *map = kvl_resid_page_map(r->resid, number(op, "request"), &pages, &whole);
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(expect, "pages"), *item;
  cJSON_ArrayForEach(item, list)
  {
    int page = cJSON_GetArrayItem(item, 0)->valueint, frame = cJSON_GetArrayItem(item, 1)->valueint;
    if ((uint32_t)page >= pages || map[page] != frame) {
      return differ(r, "page %d is not in frame %d", page, frame);
    }
    held++;
  }
  return kvl_resid_held(r->resid, number(op, "request")) == held ? NULL : differ(r, "%u pages held, not %u", held, cJSON_GetArraySize(list));
}

static const struct {
  const char *name;
  const char *(*operate)(struct replay *r, const cJSON *op, const cJSON *expect);
} operations_on_pages[] = {
  {"admit", do_admit}, {"end", do_end}, {"lend", do_lend}, {"revoke", do_revoke},
  {"written_back", do_written_back}, {"commit", do_commit}, {"state", do_state},
};

static const char *operate(struct replay *r, const cJSON *op, const cJSON *expect)
{
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(op, "op");
  if (cJSON_GetObjectItemCaseSensitive(op, "request") != NULL && number(op, "request") >= REQUESTS - 1) {
    return "more requests than this program takes";
  }
  r->plan.count = 0;
  for (size_t i = 0; i < sizeof operations_on_pages / sizeof operations_on_pages[0]; i++) {
    if (cJSON_IsString(name) && strcmp(name->valuestring, operations_on_pages[i].name) == 0) {
      return operations_on_pages[i].operate(r, op, expect);
    }
  }
  return NULL; /* the others concern rows */
}

static const char *open_replay(struct replay *r, const cJSON *config)
{
  memset(r, 0, sizeof *r);
  r->config = (struct kvl_resid_config){
    .mode = KVL_MODE_ADAPTIVE,
    .frames = number(config, "frames"),
    .requests_max = REQUESTS,
    .tokens_per_page = number(config, "rows_per_page"),
    .give_back_pages_max = UINT32_MAX / 2,
    .pages_max = 1 << 13,
  };
  size_t bytes = kvl_resid_bytes(&r->config);
  if (bytes == 0) {
    return "no such configuration";
  }
  r->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  r->plan.capacity = 2 * r->config.frames + 1;
  r->plan.moves = malloc(r->plan.capacity * sizeof r->plan.moves[0]);
  if (r->memory == NULL || r->plan.moves == NULL) {
    return "out of memory";
  }
  r->resid = kvl_resid_init(r->memory, &r->config);
  return NULL;
}

/* 0 when all operations of the vector give what they must. */
static int check_vector(const char *file, unsigned line, const cJSON *vector, unsigned *operations)
{
  static struct replay r;
  const cJSON *op = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(vector, "ops"), 0);
  const cJSON *expect = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(vector, "expect"), 0);
  const char *difference = open_replay(&r, cJSON_GetObjectItemCaseSensitive(vector, "config"));
  unsigned i = 0;
  for (; difference == NULL && op != NULL && expect != NULL; op = op->next, expect = expect->next, i++) {
    difference = operate(&r, op, expect);
    if (difference == NULL && kvl_resid_verify(r.resid) != 0) {
      difference = kvl_resid_verify_text(kvl_resid_verify(r.resid));
    }
  }
  if (difference != NULL) {
    printf("%s:%u: operation %u: %s\n", file, line, i == 0 ? 0 : i - 1, difference);
  }
  free(r.plan.moves);
  free(r.memory);
  *operations += i;
  return difference == NULL ? 0 : 1;
}

static int check_file(const char *file, unsigned *vectors, unsigned *operations)
{
  static char text[LINE_MAX_BYTES];
  FILE *in = fopen(file, "rb");
  int status = in == NULL;
  if (in == NULL) {
    printf("%s: %s\n", file, strerror(errno));
  }
  for (unsigned line = 1; status == 0 && fgets(text, sizeof text, in) != NULL; line++) {
    cJSON *vector = cJSON_Parse(text);
    if (vector == NULL) {
      printf("%s:%u: not JSON\n", file, line);
      status = 1;
    } else {
      status = check_vector(file, line, vector, operations);
      (*vectors)++;
    }
    cJSON_Delete(vector);
  }
  if (in != NULL) {
    (void)fclose(in);
  }
  return status;
}

int main(int argc, char **argv)
{
  unsigned vectors = 0, operations = 0;
  int status = argc < 2;
  for (int i = 1; i < argc; i++) {
    status |= check_file(argv[i], &vectors, &operations);
  }
  printf("%u vectors, %u operations\n", vectors, operations);
  return status != 0 || operations == 0 ? 1 : 0;
}
