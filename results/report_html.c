/* The page: HTML that is well-formed XML as well, so that any parser can check it. */
#include <errno.h>
#include <string.h>

#include "results/report_internal.h"
#include "results/text.h"

void kvl_report_escape(FILE *out, const char *text)
{
  for (const char *s = text; s != NULL && *s != '\0';) {
    size_t n = kvl_text_utf8_length(s);
    unsigned char c = (unsigned char)*s;
    if (n == 0) {
      (void)fputs("\xef\xbf\xbd", out); /* U+FFFD */
      s++;
      continue;
    }
    if (c == '<') {
      (void)fputs("&lt;", out);
    } else if (c == '>') {
      (void)fputs("&gt;", out);
    } else if (c == '&') {
      (void)fputs("&amp;", out);
    } else if (c == '"') {
      (void)fputs("&quot;", out);
    } else if (c == '\'') {
      (void)fputs("&#39;", out);
    } else if (c == '\n') {
      (void)fputc('\n', out);
    } else if (c < 0x20 || c == 0x7f || (c == 0xef && n == 3 && (unsigned char)s[1] == 0xbf && (unsigned char)s[2] >= 0xbe)) {
      (void)fputc(' ', out); /* XML has no control characters, and no U+FFFE, U+FFFF */
    } else {
      (void)fwrite(s, 1, n, out);
    }
    s += n;
  }
}

static const char *text_at(const struct kvl_report_block *block, uint32_t index)
{
  return index < block->count && block->text[index] != NULL ? block->text[index] : "";
}

static void element(FILE *out, const char *open, const char *text, const char *close)
{
  (void)fputs(open, out);
  kvl_report_escape(out, text);
  (void)fputs(close, out);
}

/* A line or a patch in the colour of the series, so that the legend needs no colour names. */
static void write_key(FILE *out, const char *label, const char *colour, const char *dash)
{
  static const char *const dashes[] = {"", "", "5 3", "2 2", "6 2 2 2", "8 3 2 3"};
  size_t d = (size_t)(dash[0] >= '0' && dash[0] <= '5' ? dash[0] - '0' : 1);
  (void)fputs("<li><svg width=\"22\" height=\"12\" viewBox=\"0 0 22 12\" aria-hidden=\"true\">", out);
  if (dash[0] == '0') {
    element(out, "<rect x=\"1\" y=\"1\" width=\"20\" height=\"10\" fill=\"", colour, "\"/>");
  } else if (dash[0] == '-') {
    element(out, "<circle cx=\"11\" cy=\"6\" r=\"4\" fill=\"", colour, "\"/>");
  } else {
    element(out, "<path d=\"M0,6 H22\" fill=\"none\" stroke-width=\"2.6\" stroke=\"", colour, "\"");
    if (dashes[d][0] != '\0') {
      (void)fprintf(out, " stroke-dasharray=\"%s\"", dashes[d]);
    }
    (void)fputs("/>", out);
  }
  element(out, "</svg>", label, "</li>\n");
}

static void write_picture(FILE *out, const struct kvl_report_block *b)
{
  element(out, "<figure>\n<h3>", text_at(b, 0), "</h3>\n");
  element(out, "<figcaption>", text_at(b, 1), "</figcaption>\n");
  if (b->count > 4) {
    (void)fputs("<ul class=\"key\">\n", out);
    for (uint32_t k = 4; k + 2 < b->count; k += 3) {
      write_key(out, text_at(b, k), text_at(b, k + 1), text_at(b, k + 2));
    }
    (void)fputs("</ul>\n", out);
  }
  (void)fprintf(out, "<div class=\"wide\">%s</div>\n<div class=\"narrow\">%s</div>\n</figure>\n", text_at(b, 2), text_at(b, 3));
}

static void write_cells(FILE *out, const struct kvl_report_block *b, uint32_t first, const char *align, int head)
{
  (void)fputs("<tr>", out);
  for (uint32_t i = first; i < b->count; i++) {
    uint32_t column = i - first;
    const char *tag = head || column == 0 ? "th" : "td";
    int right = column < strlen(align) && align[column] == 'r';
    (void)fprintf(out, "<%s%s%s>", tag, head ? " scope=\"col\"" : column == 0 ? " scope=\"row\"" : "", right ? " class=\"r\"" : "");
    kvl_report_escape(out, text_at(b, i));
    (void)fprintf(out, "</%s>", tag);
  }
  (void)fputs("</tr>\n", out);
}

/* Consecutive numbers share a grid, rows belong to the table before them: what is open, and has to be closed before something else begins. */
enum open { OPEN_NOTHING, OPEN_NUMBERS, OPEN_TABLE };

static void close_group(FILE *out, enum open *open)
{
  switch (*open) {
  case OPEN_NUMBERS:
    (void)fputs("</dl>\n", out);
    break;
  case OPEN_TABLE:
    (void)fputs("</tbody></table></div>\n", out);
    break;
  case OPEN_NOTHING:
    break;
  }
  *open = OPEN_NOTHING;
}

static void write_number(FILE *out, const struct kvl_report_block *b)
{
  element(out, "<div><dt>", text_at(b, 0), "</dt><dd>");
  element(out, "<b>", text_at(b, 1), "</b>");
  if (text_at(b, 2)[0] != '\0') {
    element(out, " <span>", text_at(b, 2), "</span>");
  }
  if (text_at(b, 3)[0] != '\0') {
    element(out, "<small>", text_at(b, 3), "</small>");
  }
  (void)fputs("</dd></div>\n", out);
}

/* Where a section stands: "s1" and so on. */
static void write_contents(FILE *out, const struct kvl_report *r)
{
  (void)fputs("<nav aria-label=\"Contents\">", out);
  for (uint32_t b = 0, section = 0; b < r->blocks; b++) {
    if (r->block[b].kind == KVL_BLOCK_SECTION || r->block[b].kind == KVL_BLOCK_FOLD) {
      (void)fprintf(out, "<a href=\"#s%u\">", ++section);
      element(out, "", text_at(&r->block[b], 0), "</a>\n");
    }
  }
  (void)fputs("</nav>\n", out);
}

static void write_blocks(FILE *out, const struct kvl_report *r)
{
  enum open open = OPEN_NOTHING;
  const char *end_section = "", *align = "";
  uint32_t section = 0;
  for (uint32_t i = 0; i < r->blocks; i++) {
    const struct kvl_report_block *b = &r->block[i];
    enum open wanted = b->kind == KVL_BLOCK_NUMBER ? OPEN_NUMBERS : b->kind == KVL_BLOCK_ROW ? OPEN_TABLE : OPEN_NOTHING;
    if (open != wanted) {
      close_group(out, &open);
    }
    switch (b->kind) {
    case KVL_BLOCK_SECTION:
      (void)fprintf(out, "%s<section id=\"s%u\">\n", end_section, ++section);
      element(out, "<h2>", text_at(b, 0), "</h2>\n");
      end_section = "</section>\n";
      break;
    case KVL_BLOCK_FOLD:
      (void)fprintf(out, "%s<details id=\"s%u\">\n", end_section, ++section);
      element(out, "<summary>", text_at(b, 0), "</summary>\n");
      end_section = "</details>\n";
      break;
    case KVL_BLOCK_LEAD:
      element(out, "<p class=\"lead\">", text_at(b, 0), "</p>\n");
      break;
    case KVL_BLOCK_TEXT:
      element(out, "<p>", text_at(b, 0), "</p>\n");
      break;
    case KVL_BLOCK_NOTE:
      element(out, "<p class=\"note\">", text_at(b, 0), "</p>\n");
      break;
    case KVL_BLOCK_CODE:
      element(out, "<pre>", text_at(b, 0), "</pre>\n");
      break;
    case KVL_BLOCK_NUMBER:
      (void)fputs(open == OPEN_NUMBERS ? "" : "<dl class=\"numbers\">\n", out);
      open = OPEN_NUMBERS;
      write_number(out, b);
      break;
    case KVL_BLOCK_TABLE:
      align = text_at(b, 0);
      (void)fputs("<div class=\"scroll\" tabindex=\"0\"><table><thead>\n", out);
      write_cells(out, b, 1, align, 1);
      (void)fputs("</thead><tbody>\n", out);
      open = OPEN_TABLE;
      break;
    case KVL_BLOCK_ROW:
      write_cells(out, b, 0, align, 0);
      break;
    case KVL_BLOCK_PICTURE:
      write_picture(out, b);
      break;
    }
  }
  close_group(out, &open);
  (void)fputs(end_section, out);
}

int kvl_report_write(const struct kvl_report *r, FILE *out)
{
  if (r->status != 0) {
    return r->status;
  }
  (void)fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n", out);
  element(out, "<title>", r->title, "</title>\n");
  kvl_report_style(out);
  (void)fputs("</head>\n<body>\n<header>\n", out);
  element(out, "<p class=\"kind\">", r->kind, "</p>\n");
  element(out, "<h1>", r->title, "</h1>\n");
  if (r->subtitle != NULL) {
    element(out, "<p class=\"subtitle\">", r->subtitle, "</p>\n");
  }
  write_contents(out, r);
  (void)fputs("</header>\n<main>\n", out);
  write_blocks(out, r);
  (void)fputs("</main>\n</body>\n</html>\n", out);
  return ferror(out) ? -EIO : 0;
}
