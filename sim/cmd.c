#include "sim/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/summary.h"

int kvl_cmd_format(const char *subcommand, const char *word, int *format)
{
  static const char *const names[] = {"table", "json", "tsv"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(word, names[i]) == 0) {
      *format = i;
      return 0;
    }
  }
  fprintf(stderr, "kvloan %s: --format=%s: no such format; did you mean %s?\n", subcommand, word, kvl_nearest(word, names, 3));
  return -1;
}

int kvl_cmd_check(const char *subcommand, const char *word, int *check)
{
  static const char *const names[] = {"all", "sample", "none"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(word, names[i]) == 0) {
      *check = i;
      return 0;
    }
  }
  fprintf(stderr, "kvloan %s: --check=%s: no such choice; did you mean %s?\n", subcommand, word, kvl_nearest(word, names, 3));
  return -1;
}

int kvl_cmd_threads(const char *subcommand, const char *word, unsigned *threads)
{
  char *end;
  errno = 0;
  unsigned long n = strtoul(word, &end, 10);
  if (end == word || *end != '\0' || errno != 0 || n < 1 || n > 256) {
    fprintf(stderr, "kvloan %s: --threads=%s: not a number from 1 to 256\n", subcommand, word);
    return -1;
  }
  *threads = (unsigned)n;
  return 0;
}

int kvl_cmd_bad_option(const char *subcommand, int argc, char **argv, const struct option *options, int result)
{
  const char *names[64], *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
  size_t count = 0;
  while (options[count].name != NULL && count < 64) {
    names[count] = options[count].name;
    count++;
  }
  const char *name = word + strspn(word, "-");
  int length = (int)strcspn(name, "=");
  char bare[96];
  (void)snprintf(bare, sizeof bare, "%.*s", length, name);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(bare, names[i]) == 0) { /* it is there, but its value is not as it must be */
      bool wanting = result == ':' || options[i].has_arg == required_argument;
      fprintf(stderr, "kvloan %s: --%s %s%s%s\n", subcommand, bare, wanting ? "needs a value: --" : "takes no value", wanting ? bare : "",
              wanting ? "=VALUE" : "");
      return 2;
    }
  }
  if (strncmp(word, "--", 2) != 0) {
    fprintf(stderr, "kvloan %s: there is no option -%c (kvloan %s --help lists them)\n", subcommand, optopt != 0 ? optopt : '?', subcommand);
    return 2;
  }
  fprintf(stderr, "kvloan %s: there is no option --%s; did you mean --%s?\n", subcommand, bare, kvl_nearest(bare, names, count));
  return 2;
}

char *kvl_cmd_line(int argc, char **argv)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    return NULL;
  }
  (void)fputs("kvloan", out);
  for (int i = 0; i < argc; i++) {
    (void)fprintf(out, " %s", argv[i]);
  }
  if (fclose(out) != 0) {
    free(text);
    return NULL;
  }
  return text;
}
