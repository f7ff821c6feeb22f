#include "backend/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FULL = 16384 }; /* a few paths of the longest kind and what is said about them */

int kvl_err_set(struct kvl_err *err, int code, const char *format, ...)
{
  if (err != NULL) {
    char full[FULL];
    va_list args;
    va_start(args, format);
    int written = vsnprintf(full, sizeof full, format, args);
    va_end(args);
    size_t length = written < 0 ? 0 : strlen(full), half = (sizeof err->text - sizeof "...") / 2; /* 510 of each end */
    if (length < sizeof err->text) {
      memcpy(err->text, full, length + 1);
    } else { /* a long name must not push the reason out */
      memcpy(err->text, full, half);
      memcpy(err->text + half, "...", 3);
      memcpy(err->text + half + 3, full + length - half, half + 1);
    }
    for (char *c = err->text; *c != '\0'; c++) { /* names of files are anybody's */
      *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
    }
  }
  return code;
}
