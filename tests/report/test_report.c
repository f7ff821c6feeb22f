/* The page: escaping, structure, pictures, what is missing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/report_internal.h"
#include "tests/base/tap.h"
#include "wellformed.h"

/* What somebody could call a scenario. */
static const char hostile[] = "</title><script>alert(1)</script>\"' onload='x' & &amp; <!-- \x01\x7f\xff\xc0\xaf caf\xc3\xa9 ]]> %s %n";

static char *page(const struct kvl_report *r)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  ck_assert_int_eq(kvl_report_write(r, out), 0);
  ck_assert_int_eq(fclose(out), 0);
  return text;
}

static void check_page(const char *text)
{
  char why[160] = "";
  ck_assert_msg(wellformed(text, why, sizeof why) == 0, "%s", why);
}

static struct kvl_report *everything(const char *text)
{
  struct kvl_report *r = kvl_report_create(text, text, text);
  const char *columns[] = {text, text, "n"}, *row[] = {text, NULL, "1"};
  ck_assert_ptr_nonnull(r);
  kvl_report_section(r, text);
  kvl_report_lead(r, "%s", text);
  kvl_report_text(r, "%s %d", text, 7);
  kvl_report_note(r, "%s", text);
  kvl_report_number(r, text, text, text, text);
  kvl_report_number(r, text, text, "", NULL);
  kvl_report_table(r, columns, 3, "llr");
  kvl_report_row(r, row);
  kvl_report_row(r, row);
  kvl_report_table(r, columns, 2, "ll");
  kvl_report_row(r, row);
  kvl_report_fold(r, text);
  kvl_report_code(r, text);
  kvl_report_table(r, columns, 1, "l");
  return r;
}

START_TEST(every_text_is_escaped)
{
  struct kvl_report *r = everything(hostile);
  char *text = page(r);
  check_page(text);
  ck_assert_ptr_null(strstr(text, "<script"));
  ck_assert_ptr_nonnull(strstr(text, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=&#39;x&#39; &amp; &amp;amp; &lt;!--"));
  ck_assert_ptr_nonnull(strstr(text, "caf\xc3\xa9 ]]&gt; %s %n"));
  ck_assert_ptr_nonnull(strstr(text, "\xef\xbf\xbd")); /* bytes that are no UTF-8 */
  free(text);
  kvl_report_destroy(r);
}
END_TEST

START_TEST(the_same_data_gives_the_same_page)
{
  struct kvl_report *a = everything("a"), *b = everything("a");
  char *x = page(a), *y = page(b);
  check_page(x);
  ck_assert_str_eq(x, y);
  ck_assert_ptr_nonnull(strstr(x, "<table><thead>\n<tr><th scope=\"col\">a</th><th scope=\"col\">a</th><th scope=\"col\" class=\"r\">n</th></tr>\n</thead><tbody>\n"
                                  "<tr><th scope=\"row\">a</th><td></td><td class=\"r\">1</td></tr>\n"));
  ck_assert_ptr_nonnull(strstr(x, "default-src 'none'"));
  ck_assert_ptr_nonnull(strstr(x, "prefers-color-scheme:dark"));
  ck_assert_ptr_null(strstr(x, "http://") == strstr(x, "http://www.w3.org/1999/xhtml") ? NULL : x); /* a name space, and no other address */
  ck_assert_ptr_null(strstr(x, "https://"));
  free(x);
  free(y);
  kvl_report_destroy(a);
  kvl_report_destroy(b);
}
END_TEST

START_TEST(an_svg_loses_what_does_not_belong_in_a_page)
{
  static const char raw[] =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE svg>\n<svg \n width=\"400\" height=\"300\"\n viewBox=\"0 0 400 300\"\n xmlns=\"http://www.w3.org/2000/svg\"\n"
    " xmlns:xlink=\"http://www.w3.org/1999/xlink\"\n>\n<title>Gnuplot</title>\n<desc>x</desc>\n<!-- <b> -->\n<g id=\"gnuplot_canvas\">\n<defs>\n"
    "\t<circle id='gpPt5' stroke='currentColor'/>\n\t<filter id='t'><feFlood/></filter>\n</defs>\n"
    "<use xlink:href='#gpPt5' color='rgb(  0, 114, 178)'/>\n<path stroke='black' d='M1,2 L3,4'/><rect fill=\"#FFEEDD\"/>\n"
    "<text font-family=\"sans-serif\" fill=\"rgb(34,34,34)\">a &lt; b</text></g></svg>";
  char *clean = kvl_report_svg(raw, "p1w-", "a \"picture\" & more"), why[160] = "";
  ck_assert_ptr_nonnull(clean);
  ck_assert_msg(wellformed(clean, why, sizeof why) == 0, "%s in %s", why, clean);
  ck_assert_int_eq(strncmp(clean, "<svg role=\"img\" aria-label=\"a &quot;picture&quot; &amp; more\" viewBox=\"0 0 400 300\"", 76), 0);
  static const char *const there[] = {"id=\"p1w-gnuplot_canvas\"", "xlink:href=\"#p1w-gpPt5\"", "color=\"#0072b2\"", "stroke=\"#222222\"", "fill=\"#ffeedd\"",
                                      "fill=\"#222222\">a &lt; b</text>"};
  static const char *const gone[] = {"<title", "<desc", "<filter", "<!--", "font-family", "width=", "rgb("};
  for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
    ck_assert_msg(strstr(clean, there[i]) != NULL, "%s is missing in %s", there[i], clean);
  }
  for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
    ck_assert_msg(strstr(clean, gone[i]) == NULL, "%s is left in %s", gone[i], clean);
  }
  free(clean);
  ck_assert_ptr_null(kvl_report_svg("no picture", "p", "x"));
  ck_assert_ptr_null(kvl_report_svg("<svg width=", "p", "x"));
}
END_TEST

static void write_line(FILE *script, int narrow, const void *context)
{
  (void)context;
  (void)fprintf(script, "set xlabel 'time, s'\nset ylabel 'requests'\nplot x with lines linecolor rgb '%s' linewidth %d, x*x with points pointtype 7 linecolor rgb '%s'\n",
                kvl_report_colour(0), narrow ? 1 : 2, kvl_report_colour(3));
}

static void write_nonsense(FILE *script, int narrow, const void *context)
{
  (void)narrow;
  (void)context;
  (void)fputs("plot nothing with what\n", script);
}

START_TEST(pictures_are_drawn_twice_and_ids_stay_apart)
{
  struct kvl_report *r = kvl_report_create("Test", "pictures", NULL);
  struct kvl_report_key key[] = {{hostile, kvl_report_colour(0), 1}, {"b", kvl_report_colour(3), -1}, {"c", kvl_report_colour(1), 0}};
  struct kvl_report_picture p = {.title = hostile, .see = hostile, .key = key, .keys = 3, .write = write_line};
  struct kvl_err err = {""};
  if (kvl_report_draw(r, NULL, &p, &err) == -ENOENT) { /* no gnuplot here: the page says so, see below */
    kvl_report_destroy(r);
    return;
  }
  ck_assert_int_eq(kvl_report_draw(r, NULL, &p, &err), 0);
  char *text = page(r);
  check_page(text);
  int pictures = 0;
  for (const char *at = text; (at = strstr(at, "<svg role=")) != NULL; at++) {
    pictures++;
  }
  ck_assert_int_eq(pictures, 4);
  ck_assert_ptr_nonnull(strstr(text, "time, s"));
  p.write = write_nonsense;
  ck_assert_int_eq(kvl_report_draw(r, NULL, &p, &err), -EIO);
  ck_assert_msg(strstr(err.text, "failed") != NULL, "%s", err.text);
  free(text);
  kvl_report_destroy(r);
}
END_TEST

START_TEST(without_gnuplot_the_page_says_so_once)
{
  struct kvl_report *r = kvl_report_create("Test", "no pictures", NULL);
  struct kvl_report_picture p = {.title = "t", .see = "s", .write = write_line};
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_report_draw(r, "no-such-gnuplot", &p, &err), -ENOENT);
  ck_assert_int_eq(kvl_report_draw(r, "no-such-gnuplot", &p, &err), -ENOENT);
  char *text = page(r);
  check_page(text);
  const char *first = strstr(text, "There are no pictures");
  ck_assert_ptr_nonnull(first);
  ck_assert_ptr_null(strstr(first + 1, "There are no pictures"));
  free(text);
  kvl_report_destroy(r);
}
END_TEST

START_TEST(the_checker_finds_what_is_wrong)
{
  static const char *const bad[] = {"<p>", "<p></b>", "<p a=b></p>", "<p a=\"1\" a=\"2\"></p>", "<p>&nbsp;</p>", "<p><script></script></p>", "<a href=\"x\"></a>",
                                    "<p onclick=\"x\"></p>", "<p id=\"a\"></p><p id=\"a\"></p>", "x<p></p>", "<p>\x01</p>", ""};
  char why[160];
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ck_assert_msg(wellformed(bad[i], why, sizeof why) != 0, "%s", bad[i]);
  }
  ck_assert_int_eq(wellformed("<p id=\"a\"><br/>1 &lt; 2<a href=\"#a\">x</a></p>\n", why, sizeof why), 0);
}
END_TEST

KVL_TAP_MAIN("report", every_text_is_escaped, the_same_data_gives_the_same_page, an_svg_loses_what_does_not_belong_in_a_page,
             pictures_are_drawn_twice_and_ids_stay_apart, without_gnuplot_the_page_says_so_once, the_checker_finds_what_is_wrong)
