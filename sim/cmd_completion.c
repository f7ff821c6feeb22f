/* kvloan completion: scripts for shells, and the words that they ask for.
 *
 * The scripts are thin: they hand the words of the line to `kvloan completion --words`, which knows the commands, takes options from each command's own
 * --help, keys from the table that parses scenarios, and names from the folders. What a new command prints for --help is completed at once. */
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/store.h"
#include "sim/cmd.h"
#include "sim/help_text.h"
#include "sim/scenario.h"
#include "sim/scenario_keys.h"
#include "traces/preset.h"

static const char help[] =
  "usage: kvloan completion bash|zsh|fish\n"
  "       kvloan completion --words WORD...\n"
  "\n"
  "Prints a script that makes a shell complete commands, options, scenarios, runs of a store, and the keys of --set. An installation brings them along;\n"
  "for the current shell alone:\n"
  "  bash     eval \"$(kvloan completion bash)\"\n"
  "  zsh      eval \"$(kvloan completion zsh)\", after compinit\n"
  "  fish     kvloan completion fish | source\n"
  "  --words  for the scripts: what the last of the words after kvloan can become, one a line, a tab and a remark behind it\n";

/* ---- the words ---- */

enum { SEEN_MAX = 512 };

struct offer {
  const char *typed;         /* what stands there so far */
  uint64_t seen[SEEN_MAX];   /* hashes of what was offered: nothing twice (FNV-1a) */
  uint32_t count;
};

static bool is_new(struct offer *o, const char *text)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (const char *s = text; *s != '\0'; s++) {
    hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
  }
  for (uint32_t i = 0; i < o->count; i++) {
    if (o->seen[i] == hash) {
      return false;
    }
  }
  if (o->count < SEEN_MAX) {
    o->seen[o->count++] = hash;
  }
  return true;
}

/* Offers prefix + word, when that continues what is typed. */
static void offer(struct offer *o, const char *prefix, const char *word, const char *suffix, const char *remark)
{
  char text[512];
  if (snprintf(text, sizeof text, "%s%s%s", prefix, word, suffix) >= (int)sizeof text || strncmp(text, o->typed, strlen(o->typed)) != 0 || !is_new(o, text)) {
    return;
  }
  for (const char *s = text; *s != '\0'; s++) {
    (void)putchar((unsigned char)*s < 0x20 ? ' ' : *s);
  }
  if (remark != NULL && remark[0] != '\0') {
    (void)putchar('\t');
    for (const char *s = remark; *s != '\0' && s - remark < 72; s++) {
      (void)putchar((unsigned char)*s < 0x20 ? ' ' : *s);
    }
  }
  (void)putchar('\n');
}

/* Files are the shell's business. */
static void offer_files(void)
{
  (void)fputs(":files\n", stdout);
}

/* Names of a kind ("scenarios", "models", "hardware", "costs") from the folders that are searched. */
static void offer_names(struct offer *o, const char *prefix, const char *kind)
{
  char *text = NULL;
  size_t size = 0;
  FILE *list = open_memstream(&text, &size);
  if (list == NULL) {
    return;
  }
  (void)kvl_scenario_list(list, KVL_FORMAT_TSV, NULL);
  if (fclose(list) == 0) {
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
      char *end = strchr(line, '\n'), *name = strchr(line, '\t'), *about = name == NULL ? NULL : strchr(name + 1, '\t');
      next = end == NULL ? NULL : end + 1;
      if (end != NULL && about != NULL && about < end) {
        *end = *name = *about = '\0';
        if (strcmp(line, kind) == 0) {
          offer(o, prefix, name + 1, "", about + 1);
        }
      }
    }
  }
  free(text);
}

static void offer_choices(struct offer *o, const char *prefix, const char *const *choices)
{
  for (; choices != NULL && *choices != NULL; choices++) {
    offer(o, prefix, *choices, "", NULL);
  }
}

/* --set=KEY=VALUE: keys first, then what a key can be. */
static void offer_settings(struct offer *o)
{
  const char *typed = o->typed + strlen("--set="), *equals = strchr(typed, '=');
  static const struct {
    const char *key, *kind;
  } named[] = {{"model", "models"}, {"node.hardware", "hardware"}, {"costs", "costs"}, {"speculation", "speculation"}};
  for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
    char prefix[64];
    (void)snprintf(prefix, sizeof prefix, "--set=%s=", named[i].key);
    if (equals == NULL) {
      offer(o, "--set=", named[i].key, "=", "a descriptor by its name");
    } else if (strncmp(o->typed, prefix, strlen(prefix)) == 0) {
      offer_names(o, prefix, named[i].kind);
    }
  }
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *k = &kvl_keys[i];
    if (equals == NULL) {
      offer(o, "--set=", k->path, "=", k->meaning);
    } else if (strlen(k->path) == (size_t)(equals - typed) && strncmp(k->path, typed, (size_t)(equals - typed)) == 0) {
      char prefix[128];
      (void)snprintf(prefix, sizeof prefix, "--set=%s=", k->path);
      offer_choices(o, prefix, k->choices);
      if (strcmp(k->path, "workload.file") == 0 || strcmp(k->path, "selection.file") == 0) {
        offer_files();
      }
    }
  }
}

/* Runs of the store that the line names. */
static void offer_runs(struct offer *o, int argc, char **argv)
{
  const char *path = NULL;
  for (int i = 0; i < argc - 1; i++) {
    path = strncmp(argv[i], "--store=", 8) == 0 ? argv[i] + 8 : path;
  }
  offer(o, "", "latest", "", "the newest complete run");
  offer(o, "", "all", "", "every complete run");
  struct kvl_store *store = NULL;
  struct kvl_store_options reading = {.read_only = 1, .busy_ms = 100};
  struct kvl_run_list list = {NULL, 0};
  if (path != NULL && kvl_store_open_with(&store, path, &reading, NULL) == 0 && kvl_store_list(store, &list, NULL) == 0) {
    for (uint32_t r = 0; r < list.count; r++) {
      char id[24], remark[160];
      (void)snprintf(id, sizeof id, "%" PRId64, list.run[r].id);
      (void)snprintf(remark, sizeof remark, "%.80s, %.40s", list.run[r].name, list.run[r].mode);
      offer(o, "", id, "", remark);
    }
  }
  kvl_run_list_free(&list);
  kvl_store_close(store);
}

/* A word of the usage line's form: lower case, nothing else. */
static bool is_word(const char *text, size_t length)
{
  for (size_t i = 0; i < length; i++) {
    if (!islower((unsigned char)text[i])) {
      return false;
    }
  }
  return length > 0;
}

/* Does the heading ("gen and curve") name the subcommand? One that names none of them is about all. */
static bool in_scope(const struct kvl_help *h, const char *heading, const char *subcommand)
{
  bool named = false;
  if (heading == NULL || subcommand == NULL) {
    return true;
  }
  for (const char *at = heading; *at != '\0';) {
    size_t length = strcspn(at, " ,"), other;
    if (length == strlen(subcommand) && strncmp(at, subcommand, length) == 0) {
      return true;
    }
    for (uint32_t i = 0; i < h->count; i++) {
      const char *word = h->part[i].kind == KVL_HELP_USAGE ? kvl_help_subcommand(h->part[i].text, &other) : NULL;
      named |= word != NULL && other == length && strncmp(word, at, length) == 0;
    }
    at += length + strspn(at + length, " ,");
  }
  return !named;
}

/* One option as help writes it: "--format=table|json|tsv", "--quiet". Values that are words separated by | are offered. */
static void offer_option(struct offer *o, const char *term, size_t length, const char *remark)
{
  char text[256], name[128];
  (void)snprintf(text, sizeof text, "%.*s", (int)length, term);
  char *equals = strchr(text, '=');
  if (equals == NULL) {
    offer(o, "", text, "", remark);
    return;
  }
  (void)snprintf(name, sizeof name, "%.*s=", (int)(equals - text), text);
  if (strncmp(o->typed, name, strlen(name)) != 0) {
    offer(o, "", name, "", remark);
    return;
  }
  if (strcmp(name, "--preset=") == 0) {
    for (int i = 0; i < KVL_PRESETS; i++) {
      offer(o, name, kvl_preset_names[i], "", NULL);
    }
  } else if (strcmp(name, "--model=") == 0) {
    offer_names(o, name, "models");
    offer_files();
  } else if (strcmp(name, "--scenario=") == 0) {
    offer_names(o, name, "scenarios");
    offer_files();
  } else if (strchr(equals, '|') != NULL) {
    for (char *at = equals + 1; at != NULL && *at != '\0';) {
      size_t word = strcspn(at, "|");
      bool last = at[word] == '\0';
      at[word] = '\0';
      if (is_word(at, word)) {
        offer(o, name, at, "", NULL);
      } else {
        offer_files();
      }
      at = last ? NULL : at + word + 1;
    }
  } else if (strstr(equals, "FILE") != NULL || strstr(equals, "FOLDER") != NULL || strstr(equals, "DIR") != NULL) {
    offer_files();
  }
}

/* Options in a usage line; returns whether it says [OPTIONS]. */
static bool offer_usage_options(struct offer *o, const char *usage)
{
  for (const char *at = strstr(usage, "--"); at != NULL; at = strstr(at + 2, "--")) {
    offer_option(o, at, strcspn(at, " ]"), NULL);
  }
  return strstr(usage, "[OPTIONS]") != NULL || strstr(usage, "--") == NULL;
}

static void offer_options(struct offer *o, const struct kvl_help *h, const char *subcommand)
{
  bool listed = false;
  const char *heading = NULL;
  for (uint32_t i = 0; i < h->count; i++) {
    size_t length;
    const char *word = h->part[i].kind == KVL_HELP_USAGE ? kvl_help_subcommand(h->part[i].text, &length) : NULL;
    if (word != NULL && (subcommand == NULL || length == 0 || (strlen(subcommand) == length && strncmp(word, subcommand, length) == 0))) {
      listed |= offer_usage_options(o, h->part[i].text);
    }
  }
  for (uint32_t i = 0; i < h->count && listed; i++) {
    heading = h->part[i].kind == KVL_HELP_HEADING ? h->part[i].text : heading;
    if (h->part[i].kind == KVL_HELP_ITEM && strncmp(h->part[i].term, "--", 2) == 0 && in_scope(h, heading, subcommand)) {
      offer_option(o, h->part[i].term, strcspn(h->part[i].term, " ,"), h->part[i].text);
    }
  }
  offer(o, "", "--help", "", NULL);
}

/* What stands in the place of a word that is no option: a scenario, a run, a file, by the usage line. */
static void offer_operand(struct offer *o, const struct kvl_help *h, const char *command, const char *subcommand, int argc, char **argv)
{
  bool files = true;
  for (uint32_t i = 0; i < h->count; i++) {
    size_t length;
    const char *word = h->part[i].kind == KVL_HELP_USAGE ? kvl_help_subcommand(h->part[i].text, &length) : NULL;
    if (word == NULL || (subcommand != NULL && length > 0 && (strlen(subcommand) != length || strncmp(word, subcommand, length) != 0))) {
      continue;
    }
    if (strstr(h->part[i].text, " RUN") != NULL || strstr(h->part[i].text, "[RUN") != NULL) {
      offer_runs(o, argc, argv);
      files = false;
    }
    if (strstr(h->part[i].text, " SCENARIO") != NULL || strcmp(command, "scenario") == 0) {
      offer_names(o, "", "scenarios");
    }
    if (strstr(h->part[i].text, " PICTURE") != NULL) {
      static const char *const pictures[] = {"timeline", "distributions", "modes", "heatmap", "lines", "pareto", NULL};
      offer_choices(o, "", pictures);
    }
    if (strchr(h->part[i].text, '|') != NULL && strcmp(command, "completion") == 0) {
      static const char *const shells[] = {"bash", "zsh", "fish", NULL};
      offer_choices(o, "", shells);
      files = false;
    }
  }
  if (files && strcmp(command, "help") != 0) {
    offer_files();
  }
}

static void offer_commands(struct offer *o)
{
  for (unsigned i = 0; i < kvl_command_count; i++) {
    offer(o, "", kvl_commands[i].name, "", kvl_commands[i].what);
  }
}

static void offer_subcommands(struct offer *o, const struct kvl_help *h)
{
  for (uint32_t i = 0; i < h->count; i++) {
    size_t length;
    const char *word = h->part[i].kind == KVL_HELP_USAGE ? kvl_help_subcommand(h->part[i].text, &length) : NULL;
    if (word != NULL && length > 0) {
      char text[64], *about = NULL;
      (void)snprintf(text, sizeof text, "%.*s", (int)length, word);
      for (uint32_t j = 0; j < h->count && about == NULL; j++) {
        about = h->part[j].kind == KVL_HELP_ITEM && strcmp(h->part[j].term, text) == 0 ? h->part[j].text : NULL;
      }
      offer(o, "", text, "", about);
    }
  }
}

static bool has_subcommands(const struct kvl_help *h)
{
  size_t length = 0;
  for (uint32_t i = 0; i < h->count && length == 0; i++) {
    if (h->part[i].kind == KVL_HELP_USAGE) {
      (void)kvl_help_subcommand(h->part[i].text, &length);
    }
  }
  return length > 0;
}

/* argv: the words behind "kvloan"; the last one is being typed. */
static int words(int argc, char **argv)
{
  struct offer o = {.typed = argc > 0 ? argv[argc - 1] : ""};
  const struct kvl_command *command = NULL;
  if (argc <= 1) {
    offer_commands(&o);
    offer(&o, "", "--help", "", NULL);
    offer(&o, "", "--version", "", NULL);
    return 0;
  }
  for (unsigned i = 0; i < kvl_command_count; i++) {
    command = strcmp(kvl_commands[i].name, argv[0]) == 0 ? &kvl_commands[i] : command;
  }
  if (command == NULL) {
    return 0;
  }
  struct kvl_help h;
  if (kvl_help_read(&h, command, NULL) != 0) {
    return 1;
  }
  bool subcommands = has_subcommands(&h);
  const char *subcommand = subcommands && argc > 2 ? argv[1] : NULL;
  struct kvl_help own;
  if (subcommand != NULL && kvl_help_read(&own, command, subcommand) == 0 && own.count > 0) { /* some have a help of their own */
    kvl_help_free(&h);
    h = own;
  }
  if (strcmp(command->name, "help") == 0 && o.typed[0] != '-') {
    offer_commands(&o);
  } else if (subcommands && argc == 2) {
    offer_subcommands(&o, &h);
    offer(&o, "", "--help", "", NULL);
  } else if (strncmp(o.typed, "--set=", 6) == 0) {
    offer_settings(&o);
  } else if (o.typed[0] == '-') {
    offer_options(&o, &h, subcommand);
  } else {
    offer_operand(&o, &h, command->name, subcommand, argc, argv);
  }
  kvl_help_free(&h);
  return 0;
}

/* ---- the scripts ---- */

/* bash takes words apart at = and :, and puts only what is behind the last of them in the place of the word: what stands before is cut off. */
static const char bash_script[] =
  "# bash completion for kvloan; made by `kvloan completion bash`\n"
  "_kvloan()\n"
  "{\n"
  "  local line=${COMP_LINE:0:COMP_POINT} typed head word\n"
  "  local -a words\n"
  "  read -ra words <<<\"$line\"\n"
  "  [[ $line == *[[:space:]] ]] && words+=('')\n"
  "  typed=${words[${#words[@]}-1]}\n"
  "  head=\n"
  "  case $typed in\n"
  "  *[=:]*) head=${typed%\"${typed##*[=:]}\"} ;;\n"
  "  esac\n"
  "  COMPREPLY=()\n"
  "  while IFS= read -r word; do\n"
  "    word=${word%%$'\\t'*}\n"
  "    if [[ $word == :files ]]; then\n"
  "      while IFS= read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen -f -- \"${typed#\"$head\"}\")\n"
  "      compopt -o filenames 2>/dev/null\n"
  "    else\n"
  "      COMPREPLY+=(\"${word#\"$head\"}\")\n"
  "      [[ $word == *= ]] && compopt -o nospace 2>/dev/null\n"
  "    fi\n"
  "  done < <(\"${words[0]}\" completion --words \"${words[@]:1}\" 2>/dev/null)\n"
  "}\n"
  "complete -F _kvloan kvloan\n";

static const char zsh_script[] =
  "#compdef kvloan\n"
  "# zsh completion for kvloan; made by `kvloan completion zsh`\n"
  "_kvloan()\n"
  "{\n"
  "  local line files=\n"
  "  local -a plain described open\n"
  "  for line in \"${(@f)$(${words[1]} completion --words \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
  "    [[ -z $line ]] && continue\n"
  "    if [[ $line == :files ]]; then\n"
  "      files=yes\n"
  "    elif [[ ${line%%$'\\t'*} == *= ]]; then\n"
  "      open+=(\"${line%%$'\\t'*}\")\n"
  "    else\n"
  "      plain+=(\"${line%%$'\\t'*}\")\n"
  "      described+=(\"${line/$'\\t'/  -- }\")\n"
  "    fi\n"
  "  done\n"
  "  (( ${#open} )) && compadd -Q -S '' -a open\n"
  "  (( ${#plain} )) && compadd -Q -d described -a plain\n"
  "  if [[ -n $files ]]; then\n"
  "    compset -P '*='\n"
  "    _files\n"
  "  fi\n"
  "}\n"
  "if [[ $funcstack[1] == _kvloan ]]; then\n"
  "  _kvloan \"$@\"\n"
  "else\n"
  "  compdef _kvloan kvloan\n"
  "fi\n";

static const char fish_script[] =
  "# fish completion for kvloan; made by `kvloan completion fish`\n"
  "function __kvloan_complete\n"
  "  set -l words (commandline -opc)\n"
  "  set -l typed (commandline -ct)\n"
  "  for word in ($words[1] completion --words $words[2..-1] \"$typed\" 2>/dev/null)\n"
  "    if test \"$word\" = ':files'\n"
  "      set -l head (string match -r '^--[^=]*=(?:[^=]*=)?' -- $typed)\n"
  "      for file in (__fish_complete_path (string replace -- \"$head\" '' \"$typed\"))\n"
  "        echo \"$head$file\"\n"
  "      end\n"
  "    else\n"
  "      echo $word\n"
  "    end\n"
  "  end\n"
  "end\n"
  "complete -c kvloan -f -a '(__kvloan_complete)'\n";

int kvl_cmd_completion(int argc, char **argv)
{
  static const char *const names[] = {"bash", "zsh", "fish"};
  static const char *const scripts[] = {bash_script, zsh_script, fish_script};
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    fputs(help, stdout);
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "--words") == 0) {
    return words(argc - 2, argv + 2);
  }
  if (argc != 2) {
    fprintf(stderr, "kvloan completion: %s: bash, zsh or fish (kvloan completion --help tells more)\n", argc < 2 ? "for which shell?" : "one shell at a time");
    return 2;
  }
  for (int i = 0; i < 3; i++) {
    if (strcmp(argv[1], names[i]) == 0) {
      fputs(scripts[i], stdout);
      return 0;
    }
  }
  fprintf(stderr, "kvloan completion: no script for '%s'; did you mean %s?\n", argv[1], kvl_nearest(argv[1], names, 3));
  return 2;
}
