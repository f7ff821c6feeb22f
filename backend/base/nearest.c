#include "backend/base/nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 96 };

static int same(char a, char b)
{
  return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Levenshtein distance over the first WORD_MAX characters, whatever their case: one row of the table is enough. */
static unsigned edit_distance(const char *a, const char *b)
{
  size_t n = strlen(a), m = strlen(b);
  n = n < WORD_MAX ? n : WORD_MAX;
  m = m < WORD_MAX ? m : WORD_MAX;
  unsigned row[WORD_MAX + 1];
  for (size_t j = 0; j <= m; j++) {
    row[j] = (unsigned)j;
  }
  for (size_t i = 1; i <= n; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      unsigned change = diagonal + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      unsigned insert = row[j - 1] + 1, erase = row[j] + 1;
      diagonal = row[j];
      unsigned best = change < insert ? change : insert;
      row[j] = best < erase ? best : erase;
    }
  }
  return row[m];
}

const char *kvl_nearest(const char *word, const char *const *candidates, size_t count)
{
  const char *best = NULL;
  unsigned best_distance = UINT32_MAX;
  for (size_t i = 0; i < count; i++) {
    unsigned d = edit_distance(word, candidates[i]);
    if (d < best_distance) {
      best = candidates[i];
      best_distance = d;
    }
  }
  return best;
}
