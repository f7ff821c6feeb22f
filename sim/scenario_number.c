#include "sim/scenario_number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;
enum { DIGITS_MAX = 25 }; /* 10^25 x 10^12 fits 128 bits */

int kvl_decimal_parse(const char *text, uint64_t scale, uint64_t *value, bool *exact)
{
  bool negative = *text == '-';
  text += negative;
  wide digits = 0;
  int used = 0;
  long exponent = 0;
  bool fraction = false, lost = false;
  for (; (*text >= '0' && *text <= '9') || *text == '.'; text++) {
    if (*text == '.') {
      fraction = true;
      continue;
    }
    if (used < DIGITS_MAX) {
      digits = digits * 10 + (unsigned)(*text - '0');
      used += digits != 0;
      exponent -= fraction;
    } else {
      lost = lost || *text != '0';
      exponent += !fraction;
    }
  }
  if (*text == 'e' || *text == 'E') {
    long typed = strtol(text + 1, NULL, 10);
    exponent += typed > 1000 ? 1000 : typed < -1000 ? -1000 : typed;
  }
  *value = 0;
  *exact = true;
  if (digits == 0) {
    return 0;
  }
  if (negative) {
    return -EDOM;
  }
  wide scaled = digits * scale;
  for (; exponent > 0; exponent--) {
    scaled *= 10;
    if (scaled > (wide)UINT64_MAX) {
      break;
    }
  }
  bool half_up = false;
  for (; exponent < 0 && scaled != 0; exponent++) {
    unsigned digit = (unsigned)(scaled % 10);
    lost = lost || half_up || digit != 0;
    half_up = digit >= 5;
    scaled /= 10;
  }
  half_up = half_up && exponent == 0;
  scaled += half_up;
  *exact = !lost;
  if (scaled > (wide)UINT64_MAX) {
    *value = UINT64_MAX;
    return -ERANGE;
  }
  *value = (uint64_t)scaled;
  return 0;
}

const char *kvl_decimal_print(uint64_t value, uint64_t scale, char buffer[KVL_DECIMAL_MAX])
{
  char text[KVL_DECIMAL_MAX]; /* written here: gcc's sanitizer build cannot see that `buffer` is not NULL */
  int n = snprintf(text, sizeof text, "%" PRIu64, value / scale);
  uint64_t rest = value % scale;
  if (rest != 0) {
    text[n++] = '.';
  }
  while (rest != 0 && n < KVL_DECIMAL_MAX - 1) {
    rest *= 10;
    text[n++] = (char)('0' + rest / scale);
    rest %= scale;
  }
  text[n] = '\0';
  memcpy(buffer, text, (size_t)n + 1);
  return buffer;
}

/* Letters alike but for their case. */
static bool same_word(const char *a, const char *b)
{
  for (; *a != '\0' && *b != '\0' && (*a | 0x20) == (*b | 0x20); a++, b++) {
  }
  return *a == *b;
}

bool kvl_decimal_without_unit(const char *text, const char *unit, char plain[KVL_DECIMAL_MAX])
{
  static const char prefixes[] = "kmgtp";
  const char *dot = strchr(text, '.');
  size_t n = strspn(text, "0123456789.");
  if (n == 0 || n > 16 || text[0] == '.' || (text[0] == '0' && n > 1 && text[1] != '.') || text[n - 1] == '.' || (dot != NULL && strchr(dot + 1, '.') != NULL)) {
    return false;
  }
  const char *word = text + n + strspn(text + n, " ");
  bool bytes = strcmp(unit, "bytes") == 0;
  if (*word == '\0' || same_word(word, unit) || (bytes && same_word(word, "b"))) {
    (void)snprintf(plain, KVL_DECIMAL_MAX, "%.*s", (int)n, text);
    return true;
  }
  const char *prefix = bytes && *word != '\0' ? strchr(prefixes, *word | 0x20) : NULL;
  if (prefix == NULL || *prefix == '\0') {
    return false;
  }
  unsigned power = (unsigned)(prefix - prefixes) + 1;
  bool binary = word[1] == 'i';
  const char *rest = word + 1 + binary;
  if (*rest != '\0' && !same_word(rest, "b")) {
    return false;
  }
  if (!binary) {
    (void)snprintf(plain, KVL_DECIMAL_MAX, "%.*se%u", (int)n, text, 3 * power);
    return true;
  }
  char number[KVL_DECIMAL_MAX];
  uint64_t value;
  bool exact;
  (void)snprintf(number, sizeof number, "%.*s", (int)n, text);
  if (kvl_decimal_parse(number, (uint64_t)1 << (10 * power), &value, &exact) != 0) {
    return false;
  }
  (void)snprintf(plain, KVL_DECIMAL_MAX, "%" PRIu64, value);
  return true;
}

const char *kvl_real_print(double value, char buffer[KVL_DECIMAL_MAX])
{
  char text[KVL_DECIMAL_MAX] = "";
  for (int precision = 15; precision <= 17; precision++) {
    (void)snprintf(text, sizeof text, "%.*g", precision, value);
    double back = strtod(text, NULL);
    if (!(back < value) && !(back > value)) {
      break;
    }
  }
  memcpy(buffer, text, sizeof text);
  return buffer;
}
