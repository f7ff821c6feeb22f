/* The options of a subcommand as a table: what each is called, what its value must be, and where it goes. */
#ifndef KVL_SIM_CMD_OPTIONS_H
#define KVL_SIM_CMD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h> /* optind */

/* Beside each: what `to` points at. */
enum kvl_option_kind {
  KVL_OPTION_FLAG,    /* bool: becomes true; takes no value */
  KVL_OPTION_NO,      /* bool: becomes false; takes no value */
  KVL_OPTION_CHOSEN,  /* int: becomes `number`; takes no value */
  KVL_OPTION_TEXT,    /* const char * */
  KVL_OPTION_STORE,   /* the same: the name of a result store's file */
  KVL_OPTION_SET,     /* const char *[number], *count of them so far: KEY=VALUE */
  KVL_OPTION_SEED,    /* the same, as an assignment that is written to `text`, char[KVL_CMD_SEED_MAX] */
  KVL_OPTION_COUNT,   /* uint32_t: 1 to `number` */
  KVL_OPTION_THREADS, /* unsigned */
  KVL_OPTION_FORMAT,  /* int, enum kvl_format */
  KVL_OPTION_PLANE,   /* const char * */
  KVL_OPTION_CHECK,   /* int, enum kvl_check */
  KVL_OPTION_OWN,     /* whatever `read` takes */
  KVL_OPTION_OWN_OR_NOTHING /* the same; the value may be left out and is NULL then */
};

struct kvl_option {
  const char *name;
  enum kvl_option_kind kind;
  void *to;
  uint32_t number;
  unsigned *count;
  char *text;
  int (*read)(void *to, const char *value); /* 0; otherwise it has said in one line what is wrong */
  bool *given;                              /* NULL, or becomes true when the option is there */
};
/* The first three of a row; the others follow by name. */
#define KVL_OPTION(called, what, where) .name = (called), .kind = KVL_OPTION_##what, .to = (where)

/* The rows of --format where --json and --tsv stand for it too, and the line of help that says so. */
#define KVL_OPTION_FORMATS(where)                                   \
  {KVL_OPTION("format", FORMAT, where)},                            \
    {KVL_OPTION("json", CHOSEN, where), .number = KVL_FORMAT_JSON}, \
    {KVL_OPTION("tsv", CHOSEN, where), .number = KVL_FORMAT_TSV}
#define KVL_OPTION_FORMATS_HELP "  --format=table|json|tsv   (--json and --tsv for short)\n"

/* Reads the options of argv into their places; --help, which every subcommand has, prints `help`. 0: the first word that is no option is argv[optind].
 * 2: something is wrong, and one line on stderr says so. -1: --help was there, and nothing else is to be done. */
int kvl_cmd_options(const char *subcommand, const char *help, const struct kvl_option *options, unsigned count, int argc, char **argv);
#define KVL_OPTIONS(table) (table), sizeof(table) / sizeof(table)[0]

#endif
