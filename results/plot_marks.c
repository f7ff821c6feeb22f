/* Where the marks of points stand, so that they lie on no point and on no other mark. */
#include <math.h>
#include <stdbool.h>

#include "results/plot_internal.h"

struct box {
  double x, y, half_width, half_height;
};

static bool overlap(const struct box *a, const struct box *b)
{
  return fabs(a->x - b->x) < a->half_width + b->half_width && fabs(a->y - b->y) < a->half_height + b->half_height;
}

/* Glyphs of a sans-serif font; a point is as large as its mark is high. */
static struct box text_box(const struct kvl_plot_mark *mark, double font)
{
  return (struct box){mark->x + mark->dx, mark->y + mark->dy, 0.31 * font * mark->columns, 0.55 * font};
}

static struct box point_box(const struct kvl_plot_mark *mark, double font)
{
  return (struct box){mark->x, mark->y, 0.4 * font, 0.4 * font};
}

/* How much the mark `m` covers where it stands; marks behind it are not placed yet. */
static uint32_t covers(const struct kvl_plot_mark *mark, uint32_t count, uint32_t m, double width, double height, double font)
{
  struct box is = text_box(&mark[m], font);
  bool outside = is.x - is.half_width < 0 || is.x + is.half_width > width || is.y - is.half_height < 0 || is.y + is.half_height > height;
  uint32_t covered = outside ? 2 * count : 0;
  for (uint32_t i = 0; i < count; i++) {
    struct box point = point_box(&mark[i], font), text = text_box(&mark[i], font);
    covered += overlap(&is, &point);
    covered += i < m && mark[i].columns > 0 && overlap(&is, &text);
  }
  return covered;
}

void kvl_plot_place_marks(struct kvl_plot_mark *mark, uint32_t count, double width, double height, double font)
{
  enum { DIRECTIONS = 8, RINGS = 3, SEARCHED_MAX = 400 };
  static const int direction[DIRECTIONS][2] = {{1, 1}, {0, 1}, {1, 0}, {1, -1}, {0, -1}, {-1, 0}, {-1, 1}, {-1, -1}};
  for (uint32_t m = 0; m < count; m++) {
    uint32_t least = UINT32_MAX;
    double dx = 0, dy = 0;
    for (int t = 0; t < DIRECTIONS * RINGS && mark[m].columns > 0 && least > 0 && (t == 0 || count <= SEARCHED_MAX); t++) {
      const int *to = direction[t % DIRECTIONS];
      double far = (t / DIRECTIONS) * font; /* the next ring is a line further out */
      mark[m].dx = to[0] * (0.31 * font * mark[m].columns + 0.6 * font + far);
      mark[m].dy = to[1] * ((to[0] == 0 ? 1.1 : 0.7) * font + far);
      uint32_t covered = count <= SEARCHED_MAX ? covers(mark, count, m, width, height, font) : 0;
      if (covered < least) {
        least = covered;
        dx = mark[m].dx;
        dy = mark[m].dy;
      }
    }
    mark[m].dx = dx;
    mark[m].dy = dy;
  }
}
