/* Reading scenarios/published.csv: id,mode,speculation,concurrency,metric,unit,value,repeat,note (the note may be missing or hold commas). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/reproduce.h"

enum { FIELDS = 9 };

/* Printed in three formats later: no quotes, no control characters. */
static bool copy_field(char *to, size_t size, const char *from)
{
  size_t n = strlen(from);
  if (n >= size || strpbrk(from, "\"\\") != NULL) {
    return false;
  }
  for (size_t i = 0; i < n; i++) {
    if ((unsigned char)from[i] < 0x20 || from[i] == 0x7f) {
      return false;
    }
  }
  memcpy(to, from, n + 1);
  return true;
}

/* "46", "1.2..1.4", "-3..-7", "24/24" (the first number counts). */
static bool parse_value(char *text, double *low, double *high)
{
  char *dots = strstr(text, ".."), *end;
  if (dots != NULL) { /* cut here first: strtod would take the first dot for its own */
    *dots = '\0';
  }
  *low = *high = strtod(text, &end);
  if (end == text || (*end != '\0' && *end != '/')) {
    return false;
  }
  if (dots != NULL) {
    *high = strtod(dots + 2, &end);
    if (end == dots + 2 || *end != '\0') {
      return false;
    }
  }
  if (!isfinite(*low) || !isfinite(*high)) {
    return false;
  }
  if (*high < *low) {
    double swap = *low;
    *low = *high;
    *high = swap;
  }
  return true;
}

int kvl_published_read(const char *path, struct kvl_published_row *rows, uint32_t *count, struct kvl_err *err)
{
  FILE *f = fopen(path, "r");
  if (f == NULL) {
    int code = errno;
    return kvl_err_set(err, -code, "%s: %s", path, strerror(code));
  }
  char line[1024];
  int rc = 0;
  unsigned number = 0;
  *count = 0;
  while (rc == 0 && fgets(line, sizeof line, f) != NULL) {
    number++;
    line[strcspn(line, "\r\n")] = '\0';
    if (number == 1 || line[0] == '\0') {
      continue;
    }
    char *field[FIELDS] = {NULL};
    char *at = line;
    int fields = 0;
    while (fields < FIELDS) {
      field[fields++] = at;
      char *comma = fields < FIELDS ? strchr(at, ',') : NULL;
      if (comma == NULL) {
        break;
      }
      *comma = '\0';
      at = comma + 1;
    }
    struct kvl_published_row row = {.repeat = 0};
    if (*count == KVL_PUBLISHED_ROWS_MAX) {
      rc = kvl_err_set(err, -EINVAL, "%s:%u: more than %d rows", path, number, KVL_PUBLISHED_ROWS_MAX);
    } else if (fields < 7 || !copy_field(row.id, sizeof row.id, field[0]) || !copy_field(row.mode, sizeof row.mode, field[1]) ||
               !copy_field(row.metric, sizeof row.metric, field[4]) || !copy_field(row.unit, sizeof row.unit, field[5])) {
      rc = kvl_err_set(err, -EINVAL, "%s:%u: not a row of id,mode,speculation,concurrency,metric,unit,value,repeat,note", path, number);
    } else if (!parse_value(field[6], &row.low, &row.high)) {
      rc = kvl_err_set(err, -EINVAL, "%s:%u: value '%s' is neither a number nor a range low..high", path, number, field[6]);
    } else {
      char *end = "";
      row.repeat = fields > 7 && field[7][0] != '\0' ? strtod(field[7], &end) : 0.0;
      rc = *end != '\0' || !isfinite(row.repeat) ? kvl_err_set(err, -EINVAL, "%s:%u: repeat '%s' is not a number", path, number, field[7]) : 0;
      for (uint32_t i = 0; i < *count && rc == 0; i++) {
        rc = strcmp(rows[i].id, row.id) == 0 ? kvl_err_set(err, -EINVAL, "%s:%u: row %s is there twice", path, number, row.id) : 0;
      }
      rows[*count] = row;
      *count += rc == 0;
    }
  }
  if (rc == 0 && ferror(f)) {
    rc = kvl_err_set(err, -EIO, "%s: could not be read to its end", path);
  }
  (void)fclose(f);
  if (rc == 0 && *count == 0) {
    rc = kvl_err_set(err, -EINVAL, "%s: no rows", path);
  }
  return rc;
}
