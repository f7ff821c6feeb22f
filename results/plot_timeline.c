/* Picture: one run over time. Samples of all decode GPUs become one time line of averages. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot_internal.h"
#include "results/text.h"
#include "results/timeline.h"

enum { BINS = KVL_TIMELINE_BINS };

struct picture {
  struct kvl_timeline line;
  const char *label;
};

static void write_numbers(FILE *out, const struct kvl_timeline *line)
{
  (void)fputs("time_s\tdecode_batch\twaiting\thbm_reserved_percent\thbm_lent_percent\thbm_retiring_percent\thbm_free_percent\t"
              "history_in_hbm_percent\n", out);
  for (uint32_t b = 0; b < BINS; b++) {
    const double *s = line->bin[b];
    if (!(s[KVL_LINE_TIME] > 0.0)) {
      continue;
    }
    double frames = kvl_timeline_frames(s);
    (void)fprintf(out, "%.6f\t%.3f\t%.3f\t%.4f\t%.4f\t%.4f\t%.4f\t", (b + 0.5) * (double)line->end_ns / 1e9 / BINS, s[KVL_LINE_BATCH] / s[KVL_LINE_TIME],
                  s[KVL_LINE_WAITING] / s[KVL_LINE_TIME], 100.0 * s[KVL_LINE_RESERVED] / frames, 100.0 * s[KVL_LINE_LENT] / frames, 100.0 * s[KVL_LINE_RETIRING] / frames,
                  100.0 * s[KVL_LINE_FREE] / frames);
    if (s[KVL_LINE_BATCH] > 0.0) {
      (void)fprintf(out, "%.4f", 100.0 * s[KVL_LINE_RESIDENT] / s[KVL_LINE_BATCH]);
    }
    (void)fputc('\n', out);
  }
}

static void write_script(FILE *script, const char *numbers, const void *context)
{
  const struct picture *picture = context;
  const struct kvl_timeline *line = &picture->line;
  char message[192], title[384], number[KVL_TEXT_NUMBER_MAX];
  int used = snprintf(message, sizeof message, ": batch up to %s", kvl_text_human(number, line->batch_max, 1));
  if (line->waiting_max > 0.0) {
    used += snprintf(message + used, sizeof message - (size_t)used, ", %s wait", kvl_text_human(number, line->waiting_max, 1));
  }
  if (line->lent_max >= 0.05) {
    used += snprintf(message + used, sizeof message - (size_t)used, "; lent: up to %.0f %% of HBM, %.0f %% at batch %s", line->lent_max, line->lent_at_full,
                     kvl_text_human(number, line->batch_max, 1));
  }
  int room = KVL_PLOT_TITLE_MAX - used;
  (void)snprintf(title, sizeof title, "%.*s%s", room > 0 ? room : 0, picture->label, message);
  (void)fputs("set multiplot\nset lmargin at screen 0.09\nset rmargin at screen 0.79\n"
              "set key at screen 0.80, graph 1.02 left top Left reverse vertical\n"
              "set yrange [0:*]\nset offsets 0, 0, graph 0.05, 0\n", script);
  (void)fprintf(script, "set xrange [0:%.9g]\n", (double)line->end_ns / 1e9);
  (void)fputs("set label 1 ", script);
  kvl_plot_quote(script, title);
  (void)fputs(" at screen 0.01, screen 0.965 left font ',14'\n", script);
  (void)fputs("set tmargin at screen 0.90\nset bmargin at screen 0.56\nset ylabel 'requests'\nset format x ''\nplot ", script);
  kvl_plot_quote_path(script, numbers);
  (void)fputs(" skip 1 using 1:2 with lines linewidth 2.2 linecolor rgb '#0072B2' title 'decoding', "
              "'' skip 1 using 1:3 with lines linewidth 1.6 dashtype 2 linecolor rgb '#D55E00' title 'waiting'\n"
              "unset label 1\nset tmargin at screen 0.50\nset bmargin at screen 0.115\nset format x '%g'\nset xlabel 'simulated time, s' offset 0,0.4\n"
              "unset offsets\nset yrange [0:103]\nset ytics 0, 20, 100\nset ylabel 'share, %'\nset style fill solid 1.0 noborder\nset grid front\nplot ", script);
  kvl_plot_quote_path(script, numbers);
  (void)fputs(" skip 1 using 1:(0):4 with filledcurves linecolor rgb '#9ecae1' title 'HBM: reserved'", script);
  if (line->lent_max > 0.0) {
    (void)fputs(", '' skip 1 using 1:4:($4+$5) with filledcurves linecolor rgb '#009E73' title 'HBM: lent pages'", script);
  }
  if (line->retiring_max > 0.0) {
    (void)fputs(", '' skip 1 using 1:($4+$5):($4+$5+$6) with filledcurves linecolor rgb '#D55E00' title 'HBM: retiring'", script);
  }
  (void)fputs(", '' skip 1 using 1:($4+$5+$6):(100) with filledcurves linecolor rgb '#eeeeee' title 'HBM: free', "
              "'' skip 1 using 1:8 with lines linewidth 2.4 linecolor rgb '#000000' title 'history in HBM'\nunset multiplot\n", script);
}

int kvl_plot_timeline(const struct kvl_plot *plot, struct kvl_store *store, const struct kvl_stored_run *run, const char *label,
                      struct kvl_err *err)
{
  struct picture *picture = malloc(sizeof *picture);
  struct kvl_plot_numbers numbers;
  if (picture == NULL) {
    return kvl_err_set(err, -ENOMEM, "cannot draw run %lld: out of memory", (long long)run->id);
  }
  int code = kvl_timeline_read(&picture->line, store, run->id, err);
  picture->label = label;
  code = code != 0 ? code : kvl_plot_numbers_begin(&numbers, plot, err);
  if (code == 0) {
    write_numbers(numbers.file, &picture->line);
    code = kvl_plot_numbers_finish(&numbers, 0, err);
    code = code != 0 ? code : kvl_plot_draw(plot, 900, 560, numbers.path, write_script, picture, err);
    kvl_plot_numbers_free(&numbers);
  }
  free(picture);
  return code;
}
