/* Pictures: what is written beside them, what gnuplot makes of it, and what happens without gnuplot or with names that mean to do harm. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "results/plot_internal.h"
#include "tests/base/tap.h"
#include "tests/results/fixture.h"

static struct kvl_err err;
static struct kvl_store *store;
static struct kvl_run_list list;

/* Two decode GPUs, 10 s, numbers that can be added up by hand: GPU 0 decodes 10 from 1 s on, GPU 1 30 from 3 s on; 100 frames each. */
static void write_samples(void)
{
  for (uint32_t i = 0; i <= 20; i++) {
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
      struct kvl_step_sample s;
      memset(&s, 0, sizeof s);
      s.time_ns = 500000000ull * i;
      s.gpu = gpu;
      s.batch = gpu == 0 ? (i >= 2 ? 10 : 0) : (i >= 6 ? 30 : 0);
      s.waiting = 5;
      s.frames_reserved = gpu == 0 ? 40 : 20;
      s.frames_lent = gpu == 0 ? 50 : 10;
      s.frames_retiring = gpu == 0 ? 10 : 0;
      s.frames_free = 100 - s.frames_reserved - s.frames_lent - s.frames_retiring;
      s.resident_share = gpu == 0 ? 1.0 : 0.5;
      ck_assert_int_eq(kvl_store_add_sample(store, &s, &err), 0);
    }
  }
}

static int64_t write_run(const char *name, const char *mode, uint32_t concurrency, double throughput)
{
  char scenario[128];
  (void)snprintf(scenario, sizeof scenario, concurrency == 16 ? "{\"workload\":{\"concurrency\":{\"value\":%u,\"origin\":\"--set\"}}}"
                                                              : "{\"workload\":{\"concurrency\":%u}}", concurrency);
  struct kvl_run_info info = {.name = name, .mode = mode, .plane = "model", .scenario_json = scenario, .seed = 1};
  int64_t run = 0;
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), 0);
  write_samples();
  for (uint64_t i = 0; i < 100; i++) { /* first tokens after 1, 2 .. 100 s; 101 tokens at 10 a second; one aborted */
    struct kvl_request_record r = {.id = i, .output_tokens = 101, .submit_ns = 1000000000u, .first_token_ns = 1000000000u * (i + 2),
                                   .last_token_ns = 1000000000u * (i + 12)};
    ck_assert_int_eq(kvl_store_add_request(store, &r, &err), 0);
  }
  struct kvl_request_record aborted = {.id = 100, .submit_ns = 1, .first_token_ns = UINT64_MAX, .last_token_ns = UINT64_MAX, .aborted = 1};
  ck_assert_int_eq(kvl_store_add_request(store, &aborted, &err), 0);
  struct kvl_summary summary = fixture_summary(1);
  summary.output_throughput_tok_per_s = throughput;
  ck_assert_int_eq(kvl_store_run_end(store, run, &summary, KVL_RUN_COMPLETE, &err), 0);
  return run;
}

static void setup(void)
{
  fixture_folder_make();
  ck_assert_int_eq(kvl_store_open(&store, fixture_path("a.db"), &err), 0);
  (void)write_run("it's `touch x`; \"$(touch x)\" \xc3\xa9 \xff\n|", "adaptive", 64, 300.0);
  (void)write_run("b", "resident", 16, 100.0);
  (void)write_run("b", "resident", 64, 150.0);
  (void)write_run("b", "adaptive", 16, 90.0);
  (void)write_run("b", "resident", 64, 155.0);
  ck_assert_int_eq(kvl_store_list(store, &list, &err), 0);
}

static void teardown(void)
{
  kvl_run_list_free(&list);
  kvl_store_close(store);
  store = NULL;
  fixture_folder_remove();
}

static int have_gnuplot(void)
{
  const char *path = getenv("PATH");
  char *copy = strdup(path != NULL ? path : ""), *rest = NULL;
  int found = 0;
  for (char *folder = strtok_r(copy, ":", &rest); folder != NULL && !found; folder = strtok_r(NULL, ":", &rest)) {
    char name[4096];
    (void)snprintf(name, sizeof name, "%s/gnuplot", folder);
    found = access(name, X_OK) == 0;
  }
  free(copy);
  return found;
}

static int draw(int picture, const struct kvl_plot *plot, uint32_t *left_out)
{
  const struct kvl_stored_run *runs[8];
  const char *labels[8];
  for (uint32_t r = 0; r < list.count; r++) {
    runs[r] = &list.run[r];
    labels[r] = list.run[r].name;
  }
  err.text[0] = '\0';
  return picture == 0   ? kvl_plot_timeline(plot, store, runs[0], labels[0], &err)
         : picture == 1 ? kvl_plot_distributions(plot, store, runs, labels, list.count, &err)
                        : kvl_plot_modes(plot, runs, list.count, left_out, &err);
}

static char *slurp(const char *path, size_t *length)
{
  static char text[400000];
  FILE *in = fopen(path, "rb");
  ck_assert_msg(in != NULL, "no %s", path);
  *length = fread(text, 1, sizeof text - 1, in);
  text[*length] = '\0';
  (void)fclose(in);
  return text;
}

/* The cell of a TSV file: row 0 is the header. */
static const char *cell(const char *path, unsigned row, unsigned column)
{
  static char text[256];
  size_t length;
  const char *at = slurp(path, &length);
  for (unsigned r = 0; r < row; r++) {
    at = strchr(at, '\n');
    ck_assert_msg(at != NULL, "%s has no row %u", path, row);
    at++;
  }
  for (unsigned c = 0; c < column; c++) {
    at += strcspn(at, "\t\n");
    ck_assert_msg(*at == '\t', "%s row %u has no column %u", path, row, column);
    at++;
  }
  (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(at, "\t\n"), at);
  return text;
}

static void near(const char *path, unsigned row, unsigned column, double want)
{
  const char *text = cell(path, row, column);
  double value = strtod(text, NULL);
  ck_assert_msg(text[0] != '\0' && fabs(value - want) < 1e-4, "%s row %u column %u: %s, not %g", path, row, column, text, want);
}

START_TEST(numbers_are_right_even_without_gnuplot)
{
  char out[512], tsv[600];
  (void)snprintf(out, sizeof out, "%s", fixture_path("p.png"));
  (void)snprintf(tsv, sizeof tsv, "%s", fixture_path("p.tsv"));
  struct kvl_plot plot = {.out = out, .gnuplot = "no-such-gnuplot-anywhere"};
  uint32_t left_out = 0;
  for (int picture = 0; picture < 3; picture++) {
    int code = draw(picture, &plot, &left_out);
    ck_assert_msg(code == -ENOENT, "%d: %s", code, err.text);
    ck_assert_msg(strstr(err.text, "not installed") != NULL && strstr(err.text, "p.tsv") != NULL && strchr(err.text, '\n') == NULL, "%s", err.text);
    ck_assert_int_ne(access(out, F_OK), 0);
    if (picture == 0) {
      /* 10 s in 600 bins: row 301 is the time from 5.0 s on */
      near(tsv, 301, 0, 5.00833);
      near(tsv, 301, 1, 40.0);                    /* decoding */
      near(tsv, 301, 2, 5.0);                     /* waiting */
      near(tsv, 301, 3, 30.0);                    /* reserved: 60 of 200 */
      near(tsv, 301, 4, 30.0);                    /* lent */
      near(tsv, 301, 5, 5.0);                     /* retiring */
      near(tsv, 301, 6, 35.0);                    /* free */
      near(tsv, 301, 7, 62.5);                    /* (10 x 1 + 30 x 0.5) / 40 */
      near(tsv, 1, 1, 0.0);                             /* nothing decodes at first */
      ck_assert_str_eq(cell(tsv, 1, 7), "");
      near(tsv, 121, 1, 10.0);                    /* from 2.0 s: one GPU only */
    } else if (picture == 1) {
      ck_assert_str_eq(cell(tsv, 101, 0), "50.0");
      ck_assert_str_eq(cell(tsv, 101, 1), "50");                                         /* half of 1 .. 100 s */
      ck_assert_str_eq(cell(tsv, 101, 2), "10");
      ck_assert_str_eq(cell(tsv, 181, 1), "90");
      ck_assert_str_eq(cell(tsv, 201, 1), "100");
      ck_assert_str_eq(cell(tsv, 1, 1), "1");
    } else {
      ck_assert_uint_eq(left_out, 1);                                                    /* run 3: superseded by run 5 */
      ck_assert_str_eq(cell(tsv, 0, 2), "output_throughput_tok_per_s: resident");        /* the usual order, not that of the runs */
      ck_assert_str_eq(cell(tsv, 1, 0), "16");
      ck_assert_str_eq(cell(tsv, 1, 2), "100");
      ck_assert_str_eq(cell(tsv, 2, 0), "64");
      ck_assert_str_eq(cell(tsv, 2, 1), "5");
      ck_assert_str_eq(cell(tsv, 2, 2), "155");
      ck_assert_str_eq(cell(tsv, 2, 6), "300");
    }
  }
}
END_TEST

/* Names in which a shell, or gnuplot, would see commands, pipes and options. */
START_TEST(draws_png_and_svg_whatever_the_names)
{
  static const char *const bases[] = {"plain", "it's a \"name\"", "|touch harm", "<touch harm", "-x", "`touch harm`", "$(touch harm)", "a%d b\\n", "~x",
                                      "two\nlines", "no UTF-8 \xff", "9.5"};
  if (!have_gnuplot()) {
    return;
  }
  char *back = getcwd(NULL, 0);
  ck_assert_int_eq(chdir(fixture_folder()), 0);
  for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++) {
    int pictures = b == 0 ? 3 : 1; /* starting gnuplot is what takes time */
    for (int picture = 0; picture < pictures; picture++) {
      struct kvl_plot plot = {.out = bases[b]};
      uint32_t left_out;
      int code = draw(b == 0 ? picture : 2, &plot, &left_out);
      ck_assert_msg(code == 0, "%s, picture %d: %d, %s", bases[b], picture, code, err.text);
      char path[600];
      size_t length;
      (void)snprintf(path, sizeof path, "./%s.png", bases[b]);
      const char *bytes = slurp(path, &length);
      ck_assert_msg(length > 5000 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0, "%s: %zu bytes, no PNG", path, length);
      ck_assert_msg((unsigned char)bytes[18] == 1800 >> 8 && (unsigned char)bytes[19] == (1800 & 255), "%s is not 1800 wide", path);
      ck_assert_int_eq(unlink(path), 0);
      (void)snprintf(path, sizeof path, "./%s.svg", bases[b]);
      bytes = slurp(path, &length);
      ck_assert_msg(strstr(bytes, "<svg") != NULL && strstr(bytes, "</svg>") != NULL, "%s: no SVG", path);
      ck_assert_int_eq(unlink(path), 0);
      (void)snprintf(path, sizeof path, "./%s.tsv", bases[b]);
      ck_assert_int_eq(unlink(path), 0);
    }
  }
  ck_assert_msg(access("harm", F_OK) != 0 && access("x", F_OK) != 0, "a name was run as a command");
  ck_assert_int_eq(unlink("a.db"), 0); /* and nothing else is left */
  (void)unlink("a.db-wal");
  (void)unlink("a.db-shm");
  ck_assert_msg(rmdir(fixture_folder()) == 0, "files are left behind: %s", strerror(errno));
  ck_assert_int_eq(mkdir(fixture_folder(), 0700), 0);
  ck_assert_int_eq(chdir(back), 0);
  free(back);
}
END_TEST

START_TEST(labels_reach_the_picture)
{
  if (!have_gnuplot()) {
    return;
  }
  struct kvl_plot plot = {.out = fixture_path("d.svg")};
  const struct kvl_stored_run *runs[] = {&list.run[0], &list.run[1]};
  const char *labels[] = {"<b>&'it''s'\\n%d", "plain"};
  ck_assert_msg(kvl_plot_distributions(&plot, store, runs, labels, 2, &err) == 0, "%s", err.text);
  size_t length;
  const char *svg = slurp(fixture_path("d.svg"), &length);
  ck_assert_msg(strstr(svg, "&lt;b>&amp;'it''s'\\n%d</text>") != NULL && strstr(svg, ">plain</text>") != NULL, "labels are missing");
  ck_assert_int_ne(access(fixture_path("d.png"), F_OK), 0); /* only what was asked for */
  plot.out = fixture_path("l.svg");
  ck_assert_msg(kvl_plot_timeline(&plot, store, runs[0], "one", &err) == 0, "%s", err.text);
  svg = slurp(fixture_path("l.svg"), &length);
  ck_assert_ptr_nonnull(strstr(svg, "one: batch up to 40, 5 wait; lent: up to 50 % of HBM, 30 % at batch 40</text>"));
}
END_TEST

/* Of `count` points with marks of `columns` letters, those whose mark covers a point or another mark, by the same measure of a letter in pixels. */
static int covered(struct kvl_plot_mark *mark, uint32_t count, uint32_t columns)
{
  const double font = 14;
  int bad = 0;
  for (uint32_t i = 0; i < count; i++) {
    mark[i].columns = columns;
  }
  kvl_plot_place_marks(mark, count, 760, 265, font);
  for (uint32_t i = 0; i < count; i++) {
    double x = mark[i].x + mark[i].dx, y = mark[i].y + mark[i].dy, half = 0.3 * font * columns;
    int here = x < half || x > 760 - half || y < font / 2 || y > 265 - font / 2;
    for (uint32_t j = 0; j < count; j++) {
      here = here || (fabs(x - mark[j].x) < half + 0.3 * font && fabs(y - mark[j].y) < 0.8 * font);
      here = here || (j != i && fabs(x - mark[j].x - mark[j].dx) < 2 * half && fabs(y - mark[j].y - mark[j].dy) < font);
    }
    bad += here;
  }
  return bad;
}

START_TEST(marks_lie_on_nothing)
{
  struct kvl_plot_mark row[] = {{.x = 350, .y = 130}, {.x = 367, .y = 129}, {.x = 384, .y = 131}}, corner[] = {{.x = 758, .y = 263}, {.x = 1, .y = 1}}, heap[8], many[40];
  ck_assert_int_eq(covered(row, 3, 1), 0); /* three modes of nearly the same rate */
  ck_assert_int_eq(covered(row, 3, 3), 0);
  ck_assert_int_eq(covered(corner, 2, 2), 0);
  for (int i = 0; i < 8; i++) {
    heap[i] = (struct kvl_plot_mark){.x = 300, .y = 100}; /* the same run eight times */
  }
  ck_assert_int_eq(covered(heap, 8, 1), 0);
  for (uint32_t i = 0; i < 40; i++) {
    many[i] = (struct kvl_plot_mark){.x = 20 + i * 271 % 720, .y = 20 + i * 89 % 225};
  }
  ck_assert_int_eq(covered(many, 40, 2), 0);
  struct kvl_plot_mark again[40];
  memcpy(again, many, sizeof again);
  kvl_plot_place_marks(again, 40, 760, 265, 14);
  ck_assert_int_eq(memcmp(again, many, sizeof again), 0);
}
END_TEST

START_TEST(refuses_what_it_cannot_draw)
{
  static const struct {
    const char *name;
    const char *says;
  } cases[] = {{"p.pdf", "nearest: "}, {"p.jpeg", ".svg"}};
  uint32_t left_out;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    struct kvl_plot plot = {.out = fixture_path(cases[c].name)};
    int code = draw(2, &plot, &left_out);
    ck_assert_msg(code == -EINVAL && strstr(err.text, cases[c].says) != NULL, "%d: %s", code, err.text);
  }
  char folder[600];
  (void)snprintf(folder, sizeof folder, "%s/", fixture_folder());
  struct kvl_plot plot = {.out = folder};
  ck_assert_int_eq(draw(2, &plot, &left_out), -EINVAL);
  plot.out = fixture_path("no/such/p.png");
  ck_assert_int_eq(draw(2, &plot, &left_out), -ENOENT);
  ck_assert_msg(strstr(err.text, "no/such/p.tsv") != NULL, "%s", err.text);

  plot.out = fixture_path("q.png"); /* a program that fails, one that says it did not */
  plot.gnuplot = "false";
  int code = draw(2, &plot, &left_out);
  ck_assert_msg(code == -EIO && strstr(err.text, "false failed") != NULL, "%d: %s", code, err.text);
  plot.gnuplot = "true";
  code = draw(2, &plot, &left_out);
  ck_assert_msg(code == -EIO && strstr(err.text, "drew nothing") != NULL, "%d: %s", code, err.text);
  ck_assert_int_ne(access(fixture_path("q.png"), F_OK), 0);

  struct kvl_stored_run empty = list.run[1];
  empty.id = 999;
  ck_assert_int_eq(kvl_plot_timeline(&plot, store, &empty, "x", &err), -EINVAL);
  ck_assert_msg(strstr(err.text, "no time line") != NULL, "%s", err.text);
  const struct kvl_stored_run *none[] = {&empty};
  const char *label[] = {"x"};
  ck_assert_int_eq(kvl_plot_distributions(&plot, store, none, label, 1, &err), -EINVAL);
  ck_assert_int_eq(kvl_plot_distributions(&plot, store, none, label, 9, &err), -EINVAL);
  empty.concurrency = -1;
  ck_assert_int_eq(kvl_plot_modes(&plot, none, 1, &left_out, &err), -EINVAL);
}
END_TEST

START_TEST(one_sample_and_one_request_are_enough)
{
  struct kvl_run_info info = {.name = "tiny", .mode = "fixed", .plane = "model", .scenario_json = "{\"workload\":{\"concurrency\":1}}"};
  int64_t run = 0;
  struct kvl_step_sample s;
  memset(&s, 0, sizeof s);
  struct kvl_request_record r = {.id = 0, .output_tokens = 1, .submit_ns = 0, .first_token_ns = 0, .last_token_ns = 0};
  struct kvl_summary summary;
  memset(&summary, 0, sizeof summary);
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), 0);
  ck_assert_int_eq(kvl_store_add_sample(store, &s, &err), 0);
  ck_assert_int_eq(kvl_store_add_request(store, &r, &err), 0);
  ck_assert_int_eq(kvl_store_run_end(store, run, &summary, KVL_RUN_COMPLETE, &err), 0);
  struct kvl_run_list all;
  ck_assert_int_eq(kvl_store_list(store, &all, &err), 0);
  const struct kvl_stored_run *tiny[] = {&all.run[all.count - 1]};
  const char *label[] = {"tiny"};
  struct kvl_plot plot = {.out = fixture_path("t.svg"), .gnuplot = have_gnuplot() ? NULL : "true"};
  int want = have_gnuplot() ? 0 : -EIO;
  uint32_t left_out;
  ck_assert_msg(kvl_plot_timeline(&plot, store, tiny[0], label[0], &err) == want, "%s", err.text);
  ck_assert_msg(kvl_plot_distributions(&plot, store, tiny, label, 1, &err) == want, "%s", err.text);
  ck_assert_msg(kvl_plot_modes(&plot, tiny, 1, &left_out, &err) == want, "%s", err.text);
  kvl_run_list_free(&all);
}
END_TEST

/* A GPU without requests takes no samples: its last one must not stand for the time until the next. */
START_TEST(a_gpu_without_requests_is_idle)
{
  struct kvl_run_info info = {.name = "idle", .mode = "adaptive", .plane = "model", .scenario_json = "{\"workload\":{\"concurrency\":1}}"};
  int64_t run = 0;
  struct kvl_summary summary;
  memset(&summary, 0, sizeof summary);
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), 0);
  for (uint64_t i = 0; i < 40; i++) { /* two seconds of work, six of nothing, two of work */
    struct kvl_step_sample s = {.time_ns = (i < 20 ? i : 60 + i) * 100000000u, .batch = 3, .frames_lent = 5, .frames_free = 5, .resident_share = 1};
    ck_assert_int_eq(kvl_store_add_sample(store, &s, &err), 0);
  }
  ck_assert_int_eq(kvl_store_run_end(store, run, &summary, KVL_RUN_COMPLETE, &err), 0);
  struct kvl_run_list all;
  ck_assert_int_eq(kvl_store_list(store, &all, &err), 0);
  struct kvl_plot plot = {.out = fixture_path("i.svg"), .gnuplot = "true"}; /* the numbers are written first */
  (void)kvl_plot_timeline(&plot, store, &all.run[all.count - 1], "idle", &err);
  kvl_run_list_free(&all);
  FILE *numbers = fopen(fixture_path("i.tsv"), "r");
  ck_assert_ptr_nonnull(numbers);
  char line[512];
  int busy = 0, idle = 0;
  ck_assert_ptr_nonnull(fgets(line, sizeof line, numbers));
  while (fgets(line, sizeof line, numbers) != NULL) {
    double time_s = strtod(line, NULL), batch = strtod(strchr(line, '\t') + 1, NULL);
    if (time_s > 2.5 && time_s < 7.5) {
      idle++;
      ck_assert_double_eq(batch, 0);
    }
    busy += batch == 3;
  }
  (void)fclose(numbers);
  ck_assert_int_gt(busy, 100);
  ck_assert_int_gt(idle, 100);
}
END_TEST

START_TEST(two_drawings_of_one_name_do_not_meet)
{
  struct kvl_plot plot = {.out = fixture_path("two.png")};
  struct kvl_plot_numbers first, second;
  ck_assert_int_eq(kvl_plot_numbers_begin(&first, &plot, &err), 0);
  ck_assert_int_eq(kvl_plot_numbers_begin(&second, &plot, &err), 0);
  ck_assert_msg(kvl_plot_numbers_finish(&second, 0, &err) == 0, "%s", err.text);
  ck_assert_msg(kvl_plot_numbers_finish(&first, 0, &err) == 0, "%s", err.text);
  kvl_plot_numbers_free(&first);
  kvl_plot_numbers_free(&second);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("plot");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, numbers_are_right_even_without_gnuplot);
  tcase_add_test(tcase, draws_png_and_svg_whatever_the_names);
  tcase_add_test(tcase, labels_reach_the_picture);
  tcase_add_test(tcase, marks_lie_on_nothing);
  tcase_add_test(tcase, refuses_what_it_cannot_draw);
  tcase_add_test(tcase, one_sample_and_one_request_are_enough);
  tcase_add_test(tcase, a_gpu_without_requests_is_idle);
  tcase_add_test(tcase, two_drawings_of_one_name_do_not_meet);
  return kvl_tap_run_case("plot", tcase);
}
