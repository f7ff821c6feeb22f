#include "backend/base/err.h"

#include <stdarg.h>
#include <stdio.h>

int kvl_err_set(struct kvl_err *err, int code, const char *format, ...)
{
  if (err != NULL) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
  }
  return code;
}
