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
