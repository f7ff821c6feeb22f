/* Between the pictures and what writes and draws them. */
#ifndef KVL_RESULTS_PLOT_INTERNAL_H
#define KVL_RESULTS_PLOT_INTERNAL_H

#include <stdio.h>

#include "results/plot.h"

/* A colour for everybody's eyes (Okabe and Ito, 2008), with the dash and point that go with it in grey. */
struct kvl_plot_style {
  const char *colour;
  int dash, point;
};
/* Modes always look the same; other series take what is left in order. */
struct kvl_plot_style kvl_plot_style_of_mode(const char *mode, uint32_t index);
struct kvl_plot_style kvl_plot_style_at(uint32_t index);

/* The numbers: opens a temporary file beside the final one; finish renames it into place (or removes it when `code` or the file is bad). */
struct kvl_plot_numbers {
  FILE *file;
  char *path, *temporary; /* path: base.tsv, fit for a script */
};
int kvl_plot_numbers_begin(struct kvl_plot_numbers *numbers, const struct kvl_plot *plot, struct kvl_err *err);
int kvl_plot_numbers_finish(struct kvl_plot_numbers *numbers, int code, struct kvl_err *err);
void kvl_plot_numbers_free(struct kvl_plot_numbers *numbers);

enum { KVL_PLOT_TITLE_MAX = 96 }; /* characters of a title that fit into 900 pixels at its font */

/* "text" as gnuplot reads it: nothing in it is special. Control characters become blanks, bytes that are not UTF-8 question marks. */
void kvl_plot_quote(FILE *script, const char *text);
/* The same for a file's name: byte for byte. */
void kvl_plot_quote_path(FILE *script, const char *path);

/* A logarithmic axis ('x' or 'y') a little wider than [low, high], 0 < low <= high, with tics at 1, 2, 5 of each decade while there are few. */
void kvl_plot_log_axis(FILE *script, char axis, double low, double high);

/* A point of a picture and the mark that stands beside it, in pixels of the drawing area, y upwards. */
struct kvl_plot_mark {
  double x, y;
  uint32_t columns; /* of the mark's text; 0: a point without one */
  double dx, dy;    /* filled in: the text's centre from the point */
};
/* Finds each mark a place in an area of width x height pixels where it covers no point and no other mark, or as few as can be; in order, the first place that
 * will do. With more than a few hundred points each stands to the upper right of its own. */
void kvl_plot_place_marks(struct kvl_plot_mark *mark, uint32_t count, double width, double height, double font);

/* A legend of its own over the whole width, `rows` high, at the bottom of a picture: gnuplot's key would be as narrow as one panel. Between begin
 * and end, one entry a series; `with` is a plot style such as "lines dashtype 2 linecolor rgb '#000000'". */
void kvl_plot_legend_begin(FILE *script, unsigned rows, double top);
void kvl_plot_legend_entry(FILE *script, unsigned index, const char *with, const char *title);
void kvl_plot_legend_end(FILE *script);

/* Draws: `write_script` gets the script after the terminal, output and common style are set, for each format asked for. Sizes are for a README
 * 900 pixels wide; PNG has twice the pixels. `numbers` is the path of the TSV file. */
int kvl_plot_draw(const struct kvl_plot *plot, int width, int height, const char *numbers,
                  void (*write_script)(FILE *script, const char *numbers, const void *context), const void *context, struct kvl_err *err);

/* Quantiles of a run's finished requests, q / KVL_PLOT_QUANTILES each, nearest rank: time to first token, and rate after it. NaN: there are none. */
enum { KVL_PLOT_QUANTILES = 200 };
int kvl_plot_quantiles(struct kvl_store *store, int64_t run, double ttft_s[KVL_PLOT_QUANTILES + 1], double rate_tok_per_s[KVL_PLOT_QUANTILES + 1],
                       struct kvl_err *err);

/* One picture as SVG text, in memory: nothing is written to a file; the script brings its numbers along ($name << EOD). The caller frees *svg. -ENOENT:
 * gnuplot is not installed; -EIO: it failed; -ENOMEM. */
int kvl_plot_svg(const char *gnuplot, int width, int height, int font, void (*write_script)(FILE *script, const void *context),
                 const void *context, char **svg, size_t *size, struct kvl_err *err);

#endif
