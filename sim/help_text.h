/* Help as data: what a command prints for --help, taken apart. The text that people read is the one source of the manual page and of shell completion, so
 * neither can say anything else.
 *
 * The form of a --help: usage lines to the first empty line; then paragraphs, headings (a short line that ends in ":"), and items (a term, two blanks or
 * more, its meaning; lines that go on are indented deeper). */
#ifndef KVL_SIM_HELP_TEXT_H
#define KVL_SIM_HELP_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "sim/cmd.h"

enum kvl_help_kind { KVL_HELP_USAGE, KVL_HELP_HEADING, KVL_HELP_ITEM, KVL_HELP_TEXT };

struct kvl_help_part {
  enum kvl_help_kind kind;
  char *term; /* items */
  char *text;
};

struct kvl_help {
  struct kvl_help_part *part;
  uint32_t count;
};

/* The whole text of `command --help`, or of `command subcommand --help`. NULL: no memory, or no temporary file. The caller frees. */
char *kvl_help_print(const struct kvl_command *command, const char *subcommand);
/* A text taken apart. -ENOMEM. */
int kvl_help_parse(struct kvl_help *help, const char *text);
/* Both. -ENOMEM, -EIO. */
int kvl_help_read(struct kvl_help *help, const struct kvl_command *command, const char *subcommand);
void kvl_help_free(struct kvl_help *help);

/* "kvloan results list --store=FILE": the subcommand of a usage line, *length letters; 0: it has none. */
const char *kvl_help_subcommand(const char *usage, size_t *length);

/* help_man.c: the manual page, in mdoc. -ENOMEM, -EIO. */
int kvl_help_man(FILE *out);

#endif
