/* The residency rules once more, as plainly as possible: one array of frames, searched from end to end. Slow, and without a pointer, so
 * that a world can be copied and compared. Written from the semantics page, not from the product. */
#ifndef KVL_TESTS_NAIVE_RESIDENCY_H
#define KVL_TESTS_NAIVE_RESIDENCY_H

#include <stdbool.h>

#include "backend/residency.h"

enum { NAIVE_FRAMES_MAX = 6000, NAIVE_REQUESTS_MAX = 9, NAIVE_PAGES_MAX = 900, NAIVE_MOVES_MAX = 2 * NAIVE_FRAMES_MAX };

enum naive_state { NAIVE_FREE, NAIVE_RESERVED, NAIVE_LENT, NAIVE_RETIRING };

struct naive_frame {
  enum naive_state state;
  kvl_request request; /* of a reserved or lent frame */
  kvl_page page;       /* of a lent frame */
  bool copying;
  enum kvl_move_kind copy_kind;
  uint64_t last_reader; /* of a retiring frame: the step that may still read it */
};

struct naive_request {
  bool active, populated;
  uint32_t input_tokens, max_tokens, host_tokens;
  uint32_t selected[NAIVE_PAGES_MAX];
};

struct naive_world {
  struct kvl_resid_config config;
  struct naive_frame frame[NAIVE_FRAMES_MAX];
  struct naive_request request[NAIVE_REQUESTS_MAX];
  int frame_of[NAIVE_REQUESTS_MAX][NAIVE_PAGES_MAX]; /* -1: none */
  uint64_t begun, done;
  uint64_t pages_lent, pages_revoked, pages_given_back;
  struct kvl_move moves[NAIVE_MOVES_MAX]; /* of the last call */
  uint32_t move_count;
};

void naive_init(struct naive_world *w, const struct kvl_resid_config *config);
int naive_admit(struct naive_world *w, const struct kvl_demand *demand, uint32_t growth, kvl_request *request);
void naive_populate(struct naive_world *w, kvl_request request, uint32_t keep_free);
void naive_give_back(struct naive_world *w, uint32_t keep_free);
void naive_make_room(struct naive_world *w, uint32_t frames);
void naive_host_complete(struct naive_world *w, kvl_request request, uint32_t tokens);
void naive_copy_done(struct naive_world *w, const struct kvl_move *move);
void naive_step_begun(struct naive_world *w, uint64_t step);
void naive_step_done(struct naive_world *w, uint64_t step);
void naive_end(struct naive_world *w, kvl_request request);
void naive_note_selected(struct naive_world *w, kvl_request request, kvl_page page, uint32_t lanes);

uint32_t naive_count(const struct naive_world *w, enum naive_state state);
uint32_t naive_held(const struct naive_world *w, kvl_request request);
uint32_t naive_complete(const struct naive_world *w, kvl_request request); /* whole pages that may be lent */
int naive_frame_of(const struct naive_world *w, kvl_request request, kvl_page page); /* -1 when the page has none */

#endif
