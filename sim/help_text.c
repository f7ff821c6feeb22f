#include "sim/help_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs `command --help` with its standard output in a temporary file: whatever it prints there is the help, however it is kept. */
char *kvl_help_print(const struct kvl_command *command, const char *subcommand)
{
  char name[32], second[32], option[] = "--help", *argv[] = {name, second, option, NULL}, *text = NULL;
  FILE *file = tmpfile();
  int saved = file == NULL ? -1 : dup(STDOUT_FILENO);
  (void)snprintf(name, sizeof name, "%s", command->name);
  (void)snprintf(second, sizeof second, "%s", subcommand != NULL ? subcommand : option);
  if (saved >= 0 && fflush(stdout) == 0 && dup2(fileno(file), STDOUT_FILENO) >= 0) {
    (void)command->main(subcommand != NULL ? 3 : 2, argv);
    (void)fflush(stdout);
    (void)dup2(saved, STDOUT_FILENO);
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    text = end < 0 ? NULL : malloc((size_t)end + 1);
    if (text != NULL) {
      rewind(file);
      text[fread(text, 1, (size_t)end, file)] = '\0';
    }
  }
  if (saved >= 0) {
    (void)close(saved);
  }
  if (file != NULL) {
    (void)fclose(file);
  }
  return text;
}

static char *copy(const char *text, size_t length)
{
  char *to = malloc(length + 1);
  if (to != NULL) {
    memcpy(to, text, length);
    to[length] = '\0';
  }
  return to;
}

static int add_part(struct kvl_help *h, enum kvl_help_kind kind, const char *term, size_t term_length, const char *text, size_t length)
{
  struct kvl_help_part *part = realloc(h->part, (h->count + 1u) * sizeof *part);
  if (part == NULL) {
    return -ENOMEM;
  }
  h->part = part;
  struct kvl_help_part *p = &part[h->count++];
  *p = (struct kvl_help_part){.kind = kind, .term = term == NULL ? NULL : copy(term, term_length), .text = copy(text, length)};
  return p->text == NULL || (term != NULL && p->term == NULL) ? -ENOMEM : 0;
}

/* Appends to the last part, with a blank between. */
static int go_on(struct kvl_help *h, const char *text, size_t length)
{
  struct kvl_help_part *p = &h->part[h->count - 1];
  size_t used = strlen(p->text);
  char *grown = realloc(p->text, used + length + 2);
  if (grown == NULL) {
    return -ENOMEM;
  }
  p->text = grown;
  (void)snprintf(grown + used, length + 2, "%s%.*s", used > 0 ? " " : "", (int)length, text);
  return 0;
}

/* Where a term ends: before two blanks, or at the end of the line when it is an option. 0: this is no item. */
static size_t term_length(const char *line, size_t length, size_t indent)
{
  const char *gap = NULL;
  for (size_t i = indent; i + 1 < length && gap == NULL; i++) {
    gap = line[i] == ' ' && line[i + 1] == ' ' ? line + i : NULL;
  }
  int option = strncmp(line + indent, "--", 2) == 0;
  if (gap == NULL) {
    return option && memchr(line + indent, ' ', length - indent) == NULL ? length - indent : 0;
  }
  return indent <= 4 ? (size_t)(gap - line) - indent : 0;
}

static int take_line(struct kvl_help *h, const char *line, size_t length, int usage, int after_blank)
{
  size_t indent = strspn(line, " ");
  struct kvl_help_part *last = h->count > 0 ? &h->part[h->count - 1] : NULL;
  if (usage) {
    if (strncmp(line, "usage: ", 7) == 0) {
      return add_part(h, KVL_HELP_USAGE, NULL, 0, line + 7, length - 7);
    }
    return strncmp(line + indent, "kvloan ", 7) == 0 || last == NULL ? add_part(h, KVL_HELP_USAGE, NULL, 0, line + indent, length - indent)
                                                                    : go_on(h, line + indent, length - indent);
  }
  if (indent >= 5 && last != NULL && last->kind == KVL_HELP_ITEM && !after_blank) {
    return go_on(h, line + indent, length - indent);
  }
  size_t term = term_length(line, length, indent);
  if (term > 0) {
    size_t text = indent + term + strspn(line + indent + term, " ");
    text = text < length ? text : length;
    return add_part(h, KVL_HELP_ITEM, line + indent, term, line + text, length - text);
  }
  if (length > 1 && length < 40 && indent == 0 && line[length - 1] == ':') {
    return add_part(h, KVL_HELP_HEADING, NULL, 0, line, length - 1);
  }
  return last != NULL && last->kind == KVL_HELP_TEXT && !after_blank ? go_on(h, line + indent, length - indent)
                                                                    : add_part(h, KVL_HELP_TEXT, NULL, 0, line + indent, length - indent);
}

int kvl_help_parse(struct kvl_help *h, const char *text)
{
  *h = (struct kvl_help){NULL, 0};
  int rc = 0, usage = 1, blank = 0;
  for (const char *line = text; rc == 0 && *line != '\0';) {
    size_t length = strcspn(line, "\n");
    if (length == 0) {
      usage = 0;
      blank = 1;
    } else {
      rc = take_line(h, line, length, usage, blank);
      blank = 0;
    }
    line += length + (line[length] == '\n' ? 1 : 0);
  }
  if (rc != 0) {
    kvl_help_free(h);
  }
  return rc;
}

int kvl_help_read(struct kvl_help *h, const struct kvl_command *command, const char *subcommand)
{
  *h = (struct kvl_help){NULL, 0};
  char *text = kvl_help_print(command, subcommand);
  int rc = text == NULL ? -EIO : kvl_help_parse(h, text);
  free(text);
  return rc;
}

const char *kvl_help_subcommand(const char *usage, size_t *length)
{
  const char *at = usage + strcspn(usage, " ");
  at += strspn(at, " ");
  at += strcspn(at, " ");
  at += strspn(at, " ");
  *length = 0;
  while (islower((unsigned char)at[*length])) {
    ++*length;
  }
  *length = at[*length] == ' ' || at[*length] == '\0' ? *length : 0;
  return at;
}

void kvl_help_free(struct kvl_help *h)
{
  for (uint32_t i = 0; i < h->count; i++) {
    free(h->part[i].term);
    free(h->part[i].text);
  }
  free(h->part);
  *h = (struct kvl_help){NULL, 0};
}
