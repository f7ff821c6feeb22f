#include "sim/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/summary.h"
#include "sim/file_kind.h"
#include "sim/scenario_keys.h"
#include "traces/decimal.h"

volatile sig_atomic_t kvl_stop;

static void on_signal(int number)
{
  (void)number;
  kvl_stop = 1;
}

void kvl_stop_on_signals(void)
{
  struct sigaction action = {.sa_handler = on_signal};
  (void)sigaction(SIGINT, &action, NULL);
  (void)sigaction(SIGTERM, &action, NULL);
  (void)sigaction(SIGHUP, &action, NULL);
}

int kvl_cmd_choice(const char *subcommand, const char *option, const char *what, const char *word, const char *const *choices, unsigned count)
{
  for (unsigned i = 0; i < count; i++) {
    if (strcmp(word, choices[i]) == 0) {
      return (int)i;
    }
  }
  fprintf(stderr, "kvloan %s: --%s=%s: no such %s; did you mean %s?\n", subcommand, option, word, what, kvl_nearest(word, choices, count));
  return -1;
}

int kvl_cmd_format(const char *subcommand, const char *word, int *format)
{
  static const char *const names[] = {"table", "json", "tsv"};
  int choice = kvl_cmd_choice(subcommand, "format", "format", word, names, 3);
  *format = choice < 0 ? *format : choice;
  return choice < 0 ? -1 : 0;
}

int kvl_cmd_check(const char *subcommand, const char *word, int *check)
{
  static const char *const names[] = {"all", "sample", "none"};
  int choice = kvl_cmd_choice(subcommand, "check", "choice", word, names, 3);
  *check = choice < 0 ? 0 : choice;
  return choice < 0 ? -1 : 0;
}

int kvl_cmd_plane(const char *subcommand, const char *word, const char **plane)
{
  static const char *const names[] = {"model", "host", "cuda"};
  int choice = kvl_cmd_choice(subcommand, "plane", "plane", word, names, 3);
  *plane = choice < 0 ? *plane : names[choice];
  return choice < 0 ? -1 : 0;
}

/* SQLite takes the slash for nothing, and the file would have another name than the one that is told. */
int kvl_cmd_store(const char *subcommand, const char *word, const char **store)
{
  size_t length = strlen(word);
  if (length > 0 && word[length - 1] == '/') {
    fprintf(stderr, "kvloan %s: --store=%s: that is a folder's name, for it ends in a slash; name a file\n", subcommand, word);
    return -1;
  }
  *store = word;
  return 0;
}

int kvl_cmd_count(const char *subcommand, const char *option, const char *word, uint32_t max, uint32_t *value)
{
  const char *end = word;
  uint64_t number = 0;
  if (kvl_decimal_read(&end, 0, max, &number) != 0 || *end != '\0' || number < 1) {
    fprintf(stderr, "kvloan %s: --%s=%s: not a number from 1 to %u\n", subcommand, option, word, (unsigned)max);
    return -1;
  }
  *value = (uint32_t)number;
  return 0;
}

int kvl_cmd_threads(const char *subcommand, const char *word, unsigned *threads)
{
  uint32_t number = 0;
  int rc = kvl_cmd_count(subcommand, "threads", word, 256, &number);
  *threads = rc == 0 ? number : *threads;
  return rc;
}

int kvl_cmd_set(const char *subcommand, const char *word, const char **sets, unsigned *count, unsigned max)
{
  if (word[0] == '=' || strchr(word, '=') == NULL) {
    fprintf(stderr, "kvloan %s: --set=%s: must be KEY=VALUE, for example policy.hot_rows=4096\n", subcommand, word);
    return -1;
  }
  if (*count == max) {
    fprintf(stderr, "kvloan %s: more than %u --set options\n", subcommand, max);
    return -1;
  }
  sets[(*count)++] = word;
  return 0;
}

int kvl_cmd_seed(const char *subcommand, const char *word, char text[KVL_CMD_SEED_MAX], const char **sets, unsigned *count, unsigned max)
{
  const char *end = word;
  uint64_t seed = 0;
  if (kvl_decimal_read(&end, 0, UINT64_MAX, &seed) != 0 || *end != '\0') {
    fprintf(stderr, "kvloan %s: --seed=%s: not a whole number from 0 to %llu\n", subcommand, word, (unsigned long long)UINT64_MAX);
    return -1;
  }
  (void)snprintf(text, KVL_CMD_SEED_MAX, "seed=%llu", (unsigned long long)seed);
  return kvl_cmd_set(subcommand, text, sets, count, max);
}

/* What is no option but may be said elsewhere: a member of the file that the command reads, or a scenario key. True when it was told. */
static bool tell_where(const char *subcommand, const char *bare, const char *value, bool has_set)
{
  bool plan = strcmp(subcommand, "plan") == 0, sweep = strcmp(subcommand, "sweep") == 0;
  unsigned members = 0;
  const char *const *member = plan || sweep ? kvl_file_members(plan ? KVL_FILE_PLAN : KVL_FILE_SWEEP, &members) : NULL;
  for (unsigned i = 0; i < members; i++) {
    if (strcmp(member[i], bare) == 0) {
      fprintf(stderr, "kvloan %s: there is no option --%s; it is a member of the %s file: \"%s\": ... (docs/%ss.md)\n", subcommand, bare, subcommand, bare, subcommand);
      return true;
    }
  }
  for (uint32_t i = 0; has_set && i < kvl_key_count; i++) {
    if (strcmp(kvl_keys[i].path, bare) == 0) {
      fprintf(stderr, "kvloan %s: there is no option --%s; it is a scenario key: --set=%s%s\n", subcommand, bare, bare, value[0] == '=' ? value : "=VALUE");
      return true;
    }
  }
  return false;
}

int kvl_cmd_bad_option(const char *subcommand, int argc, char **argv, const struct option *options, int result)
{
  const char *names[64], *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
  size_t count = 0;
  bool has_set = false, letter = optopt != 0; /* -x: getopt_long names the letter, and of "-xy" it has not gone on to the next word yet */
  while (options[count].name != NULL && count < 64) {
    names[count] = options[count].name;
    has_set = has_set || strcmp(names[count], "set") == 0;
    letter = letter && options[count].val != optopt;
    count++;
  }
  if (letter || strncmp(word, "--", 2) != 0) {
    fprintf(stderr, "kvloan %s: there is no option -%c (kvloan %s --help lists them)\n", subcommand, optopt != 0 ? optopt : '?', subcommand);
    return 2;
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
  if (!tell_where(subcommand, bare, name + length, has_set)) {
    fprintf(stderr, "kvloan %s: there is no option --%s; did you mean --%s?\n", subcommand, bare, kvl_nearest(bare, names, count));
  }
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
