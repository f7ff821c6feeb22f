/* The report as data: blocks in order. */
#include "results/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/report_internal.h"

enum { WIDE = 860, NARROW = 360, WIDE_HEIGHT = 300, NARROW_HEIGHT = 250, WIDE_FONT = 14, NARROW_FONT = 12 };

/* Okabe and Ito's colours (2008) and two that keep apart from them; the style sheet lightens them for the dark. */
const char *kvl_report_colour(uint32_t index)
{
  static const char *const colours[KVL_REPORT_COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7",
                                                          "#56b4e9", "#8a7a00", "#7a5195", "#4d4d4d", "#b9bec5"};
  return colours[index % KVL_REPORT_COLOURS];
}

static char *copy_text(struct kvl_report *r, const char *text)
{
  char *copy = text == NULL ? NULL : strdup(text);
  if (text != NULL && copy == NULL) {
    r->status = -ENOMEM;
  }
  return copy;
}

struct kvl_report *kvl_report_create(const char *kind, const char *title, const char *subtitle)
{
  struct kvl_report *r = calloc(1, sizeof *r);
  if (r != NULL) {
    r->kind = copy_text(r, kind);
    r->title = copy_text(r, title);
    r->subtitle = copy_text(r, subtitle);
    if (r->status != 0) {
      kvl_report_destroy(r);
      return NULL;
    }
  }
  return r;
}

void kvl_report_destroy(struct kvl_report *r)
{
  if (r == NULL) {
    return;
  }
  for (uint32_t b = 0; b < r->blocks; b++) {
    for (uint32_t i = 0; i < r->block[b].count; i++) {
      free(r->block[b].text[i]);
    }
    free(r->block[b].text);
  }
  free(r->block);
  free(r->kind);
  free(r->title);
  free(r->subtitle);
  free(r);
}

void kvl_report_append(struct kvl_report *r, enum kvl_report_block_kind kind, const char *const *text, uint32_t count)
{
  if (r->blocks == r->capacity) {
    uint32_t capacity = r->capacity == 0 ? 64 : r->capacity * 2;
    struct kvl_report_block *block = realloc(r->block, capacity * sizeof *block);
    if (block == NULL) {
      r->status = -ENOMEM;
      return;
    }
    r->block = block;
    r->capacity = capacity;
  }
  struct kvl_report_block *block = &r->block[r->blocks];
  *block = (struct kvl_report_block){.kind = kind, .text = calloc(count + 1u, sizeof *block->text)};
  if (block->text == NULL) {
    r->status = -ENOMEM;
    return;
  }
  block->count = count;
  r->blocks++;
  for (uint32_t i = 0; i < count; i++) {
    block->text[i] = copy_text(r, text[i]);
  }
}

void kvl_report_section(struct kvl_report *r, const char *title)
{
  kvl_report_append(r, KVL_BLOCK_SECTION, &title, 1);
}

void kvl_report_fold(struct kvl_report *r, const char *title)
{
  kvl_report_append(r, KVL_BLOCK_FOLD, &title, 1);
}

void kvl_report_code(struct kvl_report *r, const char *text)
{
  kvl_report_append(r, KVL_BLOCK_CODE, &text, 1);
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 0)))
#endif
static void append_formatted(struct kvl_report *r, enum kvl_report_block_kind kind, const char *format, va_list arguments)
{
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1);
  if (text == NULL) {
    r->status = -ENOMEM;
    return;
  }
  (void)vsnprintf(text, (size_t)length + 1, format, arguments);
  kvl_report_append(r, kind, (const char *const[]){text}, 1);
  free(text);
}

void kvl_report_lead(struct kvl_report *r, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  append_formatted(r, KVL_BLOCK_LEAD, format, arguments);
  va_end(arguments);
}

void kvl_report_text(struct kvl_report *r, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  append_formatted(r, KVL_BLOCK_TEXT, format, arguments);
  va_end(arguments);
}

void kvl_report_note(struct kvl_report *r, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  append_formatted(r, KVL_BLOCK_NOTE, format, arguments);
  va_end(arguments);
}

void kvl_report_number(struct kvl_report *r, const char *label, const char *value, const char *unit, const char *remark)
{
  kvl_report_append(r, KVL_BLOCK_NUMBER, (const char *const[]){label, value, unit, remark}, 4);
}

void kvl_report_table(struct kvl_report *r, const char *const *columns, uint32_t count, const char *align)
{
  const char *text[KVL_REPORT_COLUMNS_MAX + 1] = {align};
  count = count < KVL_REPORT_COLUMNS_MAX ? count : KVL_REPORT_COLUMNS_MAX;
  memcpy(text + 1, columns, count * sizeof *columns);
  kvl_report_append(r, KVL_BLOCK_TABLE, text, count + 1);
  r->columns = count;
}

void kvl_report_row(struct kvl_report *r, const char *const *cells)
{
  kvl_report_append(r, KVL_BLOCK_ROW, cells, r->columns);
}

/* ---- pictures ---- */

struct drawing {
  const struct kvl_report_picture *picture;
  int narrow;
};

static void write_script(FILE *script, const void *context)
{
  const struct drawing *d = context;
  (void)fprintf(script, "unset key\nset border 3 linecolor rgb '#666666' linewidth 0.8\nset tics textcolor rgb '#222222'\nset xlabel textcolor rgb '#222222'\n"
                "set ylabel textcolor rgb '#222222'\nset style fill solid 1.0 noborder\nset rmargin %d\n", d->narrow ? 2 : 3);
  d->picture->write(script, d->narrow, d->picture->context);
}

static int draw_one(struct kvl_report *r, const char *gnuplot, const struct kvl_report_picture *p, int narrow, char **clean, struct kvl_err *err)
{
  struct drawing d = {p, narrow};
  char *raw, prefix[32];
  size_t size;
  int height = narrow ? (p->narrow_height > 0 ? p->narrow_height : NARROW_HEIGHT) : p->wide_height > 0 ? p->wide_height : WIDE_HEIGHT;
  int rc = kvl_plot_svg(gnuplot, narrow ? NARROW : WIDE, height, narrow ? NARROW_FONT : WIDE_FONT, write_script, &d, &raw, &size, err);
  if (rc != 0) {
    return rc;
  }
  (void)snprintf(prefix, sizeof prefix, "p%u%c-", r->pictures, narrow ? 'n' : 'w');
  *clean = kvl_report_svg(raw, prefix, p->title);
  free(raw);
  return *clean != NULL ? 0 : kvl_err_set(err, -ENOMEM, "out of memory for the picture '%s'", p->title);
}

int kvl_report_draw(struct kvl_report *r, const char *gnuplot, const struct kvl_report_picture *p, struct kvl_err *err)
{
  enum { KEYS_MAX = 24, DASH_TEXT = 8 };
  char *wide = NULL, *narrow = NULL, dash[KEYS_MAX][DASH_TEXT];
  const char *text[4 + 3 * KEYS_MAX] = {p->title, p->see};
  if (r->no_gnuplot) {
    return -ENOENT;
  }
  int rc = draw_one(r, gnuplot, p, 0, &wide, err);
  rc = rc != 0 ? rc : draw_one(r, gnuplot, p, 1, &narrow, err);
  if (rc == 0) {
    uint32_t count = 4;
    text[2] = wide;
    text[3] = narrow;
    for (uint32_t k = 0; k < p->keys && k < KEYS_MAX; k++) {
      (void)snprintf(dash[k], DASH_TEXT, "%d", p->key[k].dash);
      text[count++] = p->key[k].label;
      text[count++] = p->key[k].colour;
      text[count++] = dash[k];
    }
    kvl_report_append(r, KVL_BLOCK_PICTURE, text, count);
    r->pictures++;
  } else if (rc == -ENOENT) {
    r->no_gnuplot = 1;
    kvl_report_note(r, "There are no pictures: gnuplot was not installed where this page was made.");
  }
  free(wide);
  free(narrow);
  return rc;
}
