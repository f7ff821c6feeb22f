#include "traces/decimal.h"

#include <errno.h>
#include <stdbool.h>

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

int kvl_decimal_read(const char **text, unsigned scale, uint64_t max, uint64_t *value)
{
  const char *p = *text;
  bool negative = *p == '-', digits = false;
  uint64_t mantissa = 0;
  int64_t exponent = 0; /* the number is mantissa x 10^exponent */
  int64_t dropped = 0;  /* digits before the point that the mantissa has no room for */
  uint64_t rest = 0;    /* last digit cut off by a division, for rounding */
  bool inexact = false;

  if (negative)
    p++;
  for (int after_point = 0; after_point < 2; after_point++) {
    for (; is_digit(*p); p++) {
      digits = true;
      if (mantissa > (UINT64_MAX - (uint64_t)(*p - '0')) / 10) {
        inexact |= *p != '0';
        exponent += after_point ? 0 : 1;
        dropped += after_point ? 0 : 1;
      } else {
        mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        exponent -= after_point ? 1 : 0;
      }
    }
    if (after_point || !digits || *p != '.')
      break;
    p++;
  }
  if (!digits)
    return -EINVAL;
  if (*p == 'e' || *p == 'E') {
    const char *q = p + 1;
    bool down = *q == '-';
    int64_t e = 0;
    if (*q == '-' || *q == '+')
      q++;
    if (!is_digit(*q))
      return -EINVAL;
    for (; is_digit(*q); q++)
      e = e < 100000 ? e * 10 + (*q - '0') : e;
    exponent += down ? -e : e;
    p = q;
  }
  if (negative && mantissa != 0)
    return -EDOM;
  exponent += scale;
  if (dropped > 0 && exponent >= dropped)
    return -ERANGE;
  for (; exponent > 0 && mantissa != 0; exponent--) {
    if (mantissa > UINT64_MAX / 10)
      return -ERANGE;
    mantissa *= 10;
  }
  for (; exponent < 0 && (mantissa != 0 || rest != 0); exponent++) {
    inexact |= mantissa % 10 != 0;
    rest = mantissa % 10;
    mantissa /= 10;
  }
  if (scale == 0 && inexact)
    return -EINVAL;
  mantissa += rest >= 5 ? 1 : 0;
  if (mantissa > max)
    return -ERANGE;
  *value = mantissa;
  *text = p;
  return 0;
}
