/* gnuplot's SVG, made fit to stand inside a page. One pass over its tags: what is copied is what we know. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "results/report_internal.h"

/* A colour as gnuplot writes it into "#rrggbb"; anything else stays. */
static void write_colour(FILE *out, const char *value, size_t length)
{
  unsigned red, green, blue;
  char text[40];
  (void)snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), value);
  if (sscanf(text, "rgb( %u , %u , %u )", &red, &green, &blue) == 3) {
    (void)fprintf(out, "#%02x%02x%02x", red & 255u, green & 255u, blue & 255u);
  } else if (strcmp(text, "black") == 0) {
    (void)fputs("#222222", out);
  } else {
    for (size_t i = 0; i < length; i++) {
      (void)fputc(value[0] == '#' ? tolower((unsigned char)value[i]) : value[i], out);
    }
  }
}

static int is(const char *name, size_t length, const char *word)
{
  return strlen(word) == length && strncmp(name, word, length) == 0;
}

/* One attribute; `root`: of the svg element itself. */
static void write_attribute(FILE *out, const char *name, size_t name_length, const char *value, size_t length, const char *prefix, int root)
{
  if (is(name, name_length, "font-family") || (root && (is(name, name_length, "width") || is(name, name_length, "height")))) {
    return;
  }
  (void)fprintf(out, " %.*s=\"", (int)name_length, name);
  if (is(name, name_length, "fill") || is(name, name_length, "stroke") || is(name, name_length, "color")) {
    if (length > 5 && strncmp(value, "url(#", 5) == 0) {
      (void)fprintf(out, "url(#%s%.*s", prefix, (int)(length - 5), value + 5);
    } else {
      write_colour(out, value, length);
    }
  } else if (is(name, name_length, "id")) {
    (void)fprintf(out, "%s%.*s", prefix, (int)length, value);
  } else if (is(name, name_length, "xlink:href") && length > 0 && value[0] == '#') {
    (void)fprintf(out, "#%s%.*s", prefix, (int)(length - 1), value + 1);
  } else {
    (void)fwrite(value, 1, length, out);
  }
  (void)fputc('"', out);
}

/* From "<" to behind ">"; NULL when the tag does not end. */
static const char *write_tag(FILE *out, const char *at, const char *prefix, const char *label)
{
  size_t name = 1 + strcspn(at + 1, " \t\r\n>/");
  if (at[1] == '/') {
    name = 1 + strcspn(at + 1, " \t\r\n>");
  }
  int root = is(at + 1, name - 1, "svg");
  (void)fwrite(at, 1, name, out);
  at += name;
  if (root) {
    (void)fputs(" role=\"img\" aria-label=\"", out);
    kvl_report_escape(out, label);
    (void)fputc('"', out);
  }
  for (;;) {
    at += strspn(at, " \t\r\n");
    if (*at == '>' || (at[0] == '/' && at[1] == '>')) {
      (void)fputs(*at == '>' ? ">" : "/>", out);
      return at + (*at == '>' ? 1 : 2);
    }
    size_t length = strcspn(at, "= \t\r\n>");
    const char *quote = at + length;
    quote += strspn(quote, " \t\r\n=");
    const char *end = *quote == '"' || *quote == '\'' ? strchr(quote + 1, *quote) : NULL;
    if (length == 0 || end == NULL) {
      return NULL;
    }
    write_attribute(out, at, length, quote + 1, (size_t)(end - quote) - 1, prefix, root);
    at = end + 1;
  }
}

/* Behind the end of the element that begins at `at`, when it is one that is left out. */
static const char *skip_element(const char *at, int keep_shapes)
{
  static const char *const left_out[] = {"title", "desc", "filter", "defs"};
  for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
    size_t length = strlen(left_out[i]);
    if (strncmp(at + 1, left_out[i], length) == 0 && strchr(" >\t\r\n", at[1 + length]) != NULL && (i < 3 || !keep_shapes)) {
      char end[16];
      (void)snprintf(end, sizeof end, "</%s>", left_out[i]);
      const char *found = strstr(at, end);
      return found == NULL ? NULL : found + strlen(end);
    }
  }
  return NULL;
}

char *kvl_report_svg(const char *raw, const char *prefix, const char *label)
{
  char *text = NULL;
  size_t size = 0;
  const char *at = strstr(raw, "<svg");
  FILE *out = at == NULL ? NULL : open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  const char *defs = strstr(raw, "</defs>");
  int shapes = defs != NULL && strstr(defs, "#gp") != NULL; /* point shapes are used */
  while (at != NULL && *at != '\0') {
    const char *behind = *at == '<' ? skip_element(at, shapes) : NULL;
    if (behind != NULL) {
      at = behind;
    } else if (strncmp(at, "<!--", 4) == 0) {
      at = strstr(at, "-->");
      at = at == NULL ? NULL : at + 3;
    } else if (*at == '<') {
      at = write_tag(out, at, prefix, label);
    } else {
      size_t length = strcspn(at, "<");
      size_t blank = strspn(at, " \t\r\n");
      (void)(blank >= length ? fwrite("\n", 1, 1, out) : fwrite(at, 1, length, out)); /* indentation */
      at += length;
    }
  }
  int failed = ferror(out);
  if (fclose(out) != 0 || failed != 0 || at == NULL) {
    free(text);
    return NULL;
  }
  return text;
}
