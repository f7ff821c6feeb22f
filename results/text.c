#include "results/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *kvl_text_double(char text[KVL_TEXT_NUMBER_MAX], double value)
{
  char number[KVL_TEXT_NUMBER_MAX] = "null";
  for (int digits = 15; digits <= 17 && isfinite(value); digits++) {
    (void)snprintf(number, sizeof number, "%.*g", digits, value);
    double back = strtod(number, NULL);
    if (!(back < value) && !(back > value)) {
      break;
    }
  }
  memcpy(text, number, sizeof number);
  return text;
}

/* Puts a comma between every three digits of the leading whole part of `text`. */
static void separate_thousands(char text[KVL_TEXT_NUMBER_MAX])
{
  size_t start = text[0] == '-' ? 1 : 0;
  size_t digits = strspn(text + start, "0123456789");
  size_t length = strlen(text);
  for (size_t at = digits; at > 3 && length + 1 < KVL_TEXT_NUMBER_MAX; at -= 3) {
    char *gap = text + start + at - 3;
    memmove(gap + 1, gap, length - (start + at - 3) + 1);
    *gap = ',';
    length++;
  }
}

const char *kvl_text_count(char text[KVL_TEXT_NUMBER_MAX], uint64_t value)
{
  (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%" PRIu64, value);
  separate_thousands(text);
  return text;
}

const char *kvl_text_human(char text[KVL_TEXT_NUMBER_MAX], double value, int whole)
{
  double size = fabs(value);
  if (!isfinite(value)) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "-");
  } else if (size >= 1e15) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.4g", value);
  } else if (whole || size >= 999.95 || !(size > 0.0)) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.0f", value);
    separate_thousands(text);
  } else if (size < 1e-5) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.2e", value);
  } else {
    int decimals = size >= 99.995 ? 1 : size >= 9.9995 ? 2 : size >= 0.99995 ? 3 : 4;
    while (decimals < 9 && size < pow(10.0, 2 - decimals)) { /* below 0.01: keep at least three significant digits */
      decimals++;
    }
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.*f", decimals, value);
  }
  return text;
}

const char *kvl_text_s(uint64_t count)
{
  return count == 1 ? "" : "s";
}

const char *kvl_text_bytes(char text[KVL_TEXT_NUMBER_MAX], double bytes)
{
  static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  unsigned u = 0;
  while (bytes >= 999.95 && u + 1 < sizeof unit / sizeof unit[0]) {
    bytes /= 1000.0;
    u++;
  }
  char number[KVL_TEXT_NUMBER_MAX];
  (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.30s %s", kvl_text_human(number, bytes, u == 0), unit[u]);
  return text;
}

size_t kvl_text_utf8_length(const char *text)
{
  const unsigned char *s = (const unsigned char *)text;
  if (s[0] < 0x80) {
    return 1;
  }
  size_t n = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) { /* also stops at the terminator */
      return 0;
    }
  }
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) {
    return 0;
  }
  return n;
}

int kvl_text_printable(const char *text)
{
  const unsigned char *s = (const unsigned char *)text;
  for (size_t n; *s != '\0'; s += n) {
    n = kvl_text_utf8_length((const char *)s);
    if (n == 0 || *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) { /* C1 is 0xc2 0x80 to 0xc2 0x9f */
      return 0;
    }
  }
  return 1;
}

void kvl_text_json_string(FILE *out, const char *text)
{
  if (text == NULL) {
    (void)fputs("null", out);
    return;
  }
  (void)fputc('"', out);
  for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
    size_t n = kvl_text_utf8_length((const char *)s);
    if (n == 0) {
      (void)fputs("\\ufffd", out);
      s++;
      continue;
    }
    if (*s == '"' || *s == '\\') {
      (void)fprintf(out, "\\%c", *s);
    } else if (*s == '\n') {
      (void)fputs("\\n", out);
    } else if (*s == '\t') {
      (void)fputs("\\t", out);
    } else if (*s < 0x20 || *s == 0x7f) {
      (void)fprintf(out, "\\u%04x", *s);
    } else {
      (void)fwrite(s, 1, n, out);
    }
    s += n;
  }
  (void)fputc('"', out);
}

void kvl_text_tsv_cell(FILE *out, const char *text)
{
  for (const unsigned char *s = (const unsigned char *)text; s != NULL && *s != '\0'; s++) {
    (void)fputc(*s < 0x20 || *s == 0x7f ? ' ' : *s, out);
  }
}

size_t kvl_text_columns(const char *text)
{
  size_t n = 0;
  for (const char *s = text; *s != '\0'; s++) {
    n += ((unsigned char)*s & 0xc0) != 0x80;
  }
  return n;
}

void kvl_text_pad(FILE *out, const char *text, size_t columns, int right)
{
  size_t used = kvl_text_columns(text);
  size_t pad = used < columns ? columns - used : 0;
  if (right) {
    (void)fprintf(out, "%*s", (int)pad, "");
  }
  kvl_text_tsv_cell(out, text);
  if (!right) {
    (void)fprintf(out, "%*s", (int)pad, "");
  }
}
