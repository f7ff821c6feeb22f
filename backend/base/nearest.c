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

/* 0: the word, or its last part after a dot, whatever the case; 1: it begins so; 2: neither. */
static int kinship(const char *word, const char *candidate)
{
  const char *dot = strrchr(candidate, '.');
  const char *const from[] = {candidate, dot != NULL ? dot + 1 : candidate};
  int best = 2;
  for (int i = 0; i < 2 && word[0] != '\0'; i++) {
    size_t n = 0;
    while (word[n] != '\0' && same(word[n], from[i][n])) {
      n++;
    }
    int is = word[n] != '\0' ? 2 : from[i][n] != '\0' ? 1 : 0;
    best = is < best ? is : best;
  }
  return best;
}

const char *kvl_nearest(const char *word, const char *const *candidates, size_t count)
{
  const char *best = NULL;
  unsigned best_distance = UINT32_MAX;
  int best_kin = 3;
  for (size_t i = 0; i < count; i++) {
    unsigned d = edit_distance(word, candidates[i]);
    int kin = d <= 1 ? 0 : kinship(word, candidates[i]); /* one slip is nearer than a word of which this is the beginning */
    if (kin < best_kin || (kin == best_kin && d < best_distance)) {
      best = candidates[i];
      best_distance = d;
      best_kin = kin;
    }
  }
  return best;
}
