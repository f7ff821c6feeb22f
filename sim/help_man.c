/* The manual page, in mdoc: a frame that stands here, filled with what each command prints for --help. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/help_text.h"

/* Running text: one sentence a line, no line longer than the eye likes, nothing in it is a macro. */
enum { LINE_COLUMNS = 78 };

static void write_text(FILE *out, const char *text)
{
  size_t column = 0;
  for (const char *s = text; *s != '\0';) {
    size_t length = strcspn(s, " "), blank = strspn(s + length, " ");
    if (column > 0 && column + 1 + length > LINE_COLUMNS) {
      (void)fputc('\n', out);
      column = 0;
    }
    (void)fputs(column > 0 ? " " : *s == '.' || *s == '\'' ? "\\&" : "", out);
    for (size_t i = 0; i < length; i++) {
      (void)(s[i] == '\\' ? fputs("\\e", out) : s[i] == '-' && (i == 0 || s[i - 1] == '-') ? fputs("\\-", out) : fputc(s[i], out));
    }
    column += length + 1;
    if (length > 1 && (s[length - 1] == '.' || s[length - 1] == ':') && isupper((unsigned char)s[length + blank])) {
      (void)fputc('\n', out);
      column = 0;
    }
    s += length + blank;
  }
  (void)fputs(column > 0 ? "\n" : "", out);
}

/* An argument of a macro: a word that is not one itself. */
static void write_argument(FILE *out, const char *text, size_t length)
{
  (void)fputs("\\&", out);
  for (size_t i = 0; i < length; i++) {
    (void)(text[i] == '\\' ? fputs("\\e", out) : text[i] == ' ' ? fputs("\\ ", out) : text[i] == '"' ? fputs("\\(dq", out) : fputc(text[i], out));
  }
}

static void write_item(FILE *out, const char *term)
{
  size_t equals = strcspn(term, "=");
  if (strncmp(term, "--", 2) == 0 && strpbrk(term, " ,") == NULL) {
    (void)fprintf(out, ".It Fl -%.*s", (int)(equals - 2), term + 2);
    if (term[equals] == '=') {
      (void)fputs(" Ns = Ns Ar ", out);
      write_argument(out, term + equals + 1, strlen(term + equals + 1));
    }
    (void)fputc('\n', out);
    return;
  }
  (void)fputs(strncmp(term, "--", 2) == 0 ? ".It Li " : isupper((unsigned char)term[0]) ? ".It Ar " : ".It Cm ", out);
  write_argument(out, term, strlen(term));
  (void)fputc('\n', out);
}

static void write_usage(FILE *out, const char *text)
{
  (void)fputs(*text == '.' || *text == '\'' ? "\\&" : "", out);
  for (const char *s = text; *s != '\0'; s++) {
    (void)(*s == '\\' ? fputs("\\e", out) : *s == '-' ? fputs("\\-", out) : fputc(*s, out));
  }
  (void)fputc('\n', out);
}

/* One help text under its heading. */
static int write_help(FILE *out, const char *text, const char *command, const char *subcommand)
{
  struct kvl_help h;
  int rc = kvl_help_parse(&h, text), list = 0, literal = 0;
  if (rc != 0) {
    return rc;
  }
  (void)fprintf(out, ".Ss kvloan %s%s%s\n", command, subcommand[0] != '\0' ? " " : "", subcommand);
  for (uint32_t i = 0; i < h.count; i++) {
    const struct kvl_help_part *p = &h.part[i];
    if (p->kind != KVL_HELP_ITEM && list) {
      (void)fputs(".El\n", out);
      list = 0;
    }
    if (p->kind != KVL_HELP_USAGE && literal) {
      (void)fputs(".Ed\n", out);
      literal = 0;
    }
    switch (p->kind) {
    case KVL_HELP_USAGE:
      (void)fputs(literal ? "" : ".Bd -literal -compact\n", out);
      literal = 1;
      write_usage(out, p->text);
      break;
    case KVL_HELP_HEADING:
      (void)fputs(".Pp\n", out);
      write_text(out, p->text);
      break;
    case KVL_HELP_ITEM:
      (void)fputs(list ? "" : ".Bl -tag -width Ds\n", out);
      list = 1;
      write_item(out, p->term);
      if (p->text[0] != '\0') {
        write_text(out, p->text);
      }
      break;
    case KVL_HELP_TEXT:
      (void)fputs(".Pp\n", out);
      write_text(out, p->text);
      break;
    }
  }
  (void)fputs(list ? ".El\n" : literal ? ".Ed\n" : "", out);
  kvl_help_free(&h);
  return 0;
}

/* A command, and those of its subcommands that have a help of their own. */
static int write_command(FILE *out, const struct kvl_command *command)
{
  enum { TEXTS_MAX = 8 };
  char *text[TEXTS_MAX] = {kvl_help_print(command, NULL)};
  unsigned texts = 1;
  struct kvl_help h = {NULL, 0};
  int rc = text[0] == NULL ? -EIO : write_help(out, text[0], command->name, "");
  rc = rc != 0 ? rc : kvl_help_parse(&h, text[0]);
  for (uint32_t i = 0; rc == 0 && i < h.count && h.part[i].kind == KVL_HELP_USAGE; i++) {
    size_t length;
    const char *word = kvl_help_subcommand(h.part[i].text, &length);
    char name[32];
    (void)snprintf(name, sizeof name, "%.*s", (int)length, word);
    char *own = length > 0 && texts < TEXTS_MAX ? kvl_help_print(command, name) : NULL;
    bool known = own == NULL || own[0] == '\0';
    for (unsigned t = 0; t < texts && !known; t++) {
      known = strcmp(own, text[t]) == 0;
    }
    if (known) {
      free(own);
    } else {
      text[texts++] = own;
      rc = write_help(out, own, command->name, name);
    }
  }
  kvl_help_free(&h);
  for (unsigned t = 0; t < texts; t++) {
    free(text[t]);
  }
  return rc;
}

static const char head[] =
  ".\\\" Made by `kvloan help --man` from what each command prints for --help: edit those.\n"
  ".Dd November 29, 2026\n"
  ".Dt KVLOAN 1\n"
  ".Os\n"
  ".Sh NAME\n"
  ".Nm kvloan\n"
  ".Nd simulate elastic KV residency for sparse-attention serving\n"
  ".Sh SYNOPSIS\n"
  ".Nm\n"
  ".Ar command\n"
  ".Op Ar arguments\n"
  ".Nm\n"
  ".Ar command\n"
  ".Fl -help\n"
  ".Nm\n"
  ".Fl -version\n"
  ".Sh DESCRIPTION\n"
  "A sparse-attention model reads almost nothing of its own history.\n"
  ".Nm\n"
  "answers what happens when the complete history of every session lives in\n"
  "pinned host memory, and GPU memory that nobody needs is lent to running\n"
  "requests as history pages: how many sessions fit, how fast they are, what the\n"
  "host link carries, and which setting is worth turning.\n"
  "It replays the indexer's selections, one by one, through the allocator, the\n"
  "page maps and the hot caches that a serving engine would run.\n"
  ".Pp\n"
  "Data goes to standard output, talk to standard error.\n"
  "The commands are:\n"
  ".Pp\n"
  ".Bl -tag -width completion -compact\n";

static const char tail[] =
  ".Sh ENVIRONMENT\n"
  ".Bl -tag -width KVLOAN_SCENARIOS\n"
  ".It Ev KVLOAN_SCENARIOS\n"
  "Folder in which scenarios, models, hardware parts and cost profiles are\n"
  "looked for before those that are installed.\n"
  ".It Ev PATH\n"
  "Where gnuplot is looked for, which draws the pictures.\n"
  ".El\n"
  ".Sh EXIT STATUS\n"
  "0: it worked; 1: what the command names is wrong or could not be done, and one\n"
  "line on standard error says where and why; 2: the command line itself is wrong\n"
  "(an unknown option, a value of the wrong form); 130: interrupted.\n"
  ".Sh EXAMPLES\n"
  "The published experiment in two modes, compared, explained, and as a page for\n"
  "a browser:\n"
  ".Bd -literal -offset indent\n"
  "kvloan run published-256 \\-\\-set=mode=fixed \\-\\-store=runs.db\n"
  "kvloan run published-256 \\-\\-set=mode=adaptive \\-\\-store=runs.db\n"
  "kvloan results compare \\-\\-store=runs.db all\n"
  "kvloan explain \\-\\-store=runs.db latest\n"
  "kvloan report \\-\\-store=runs.db all \\-\\-out=report.html\n"
  ".Ed\n"
  ".Sh SEE ALSO\n"
  ".Xr gnuplot 1 ,\n"
  ".Xr sqlite3 1\n"
  ".Pp\n"
  "docs/tutorial.md, docs/scenarios.md and docs/scenario-keys.md of the source.\n";

int kvl_help_man(FILE *out)
{
  int rc = 0;
  (void)fputs(head, out);
  for (unsigned i = 0; i < kvl_command_count; i++) {
    (void)fprintf(out, ".It Cm %s\n", kvl_commands[i].name);
    write_text(out, kvl_commands[i].what);
  }
  (void)fputs(".El\n.Sh COMMANDS\n", out);
  for (unsigned i = 0; rc == 0 && i < kvl_command_count; i++) {
    rc = write_command(out, &kvl_commands[i]);
  }
  (void)fputs(tail, out);
  return rc;
}
