#include "sim/cmd_options.h"

#include <getopt.h>
#include <stdio.h>

#include "sim/cmd.h"

enum { OPTIONS_MAX = 40, FIRST = 1000 }; /* FIRST: beyond any character */

static int take(const char *subcommand, const struct kvl_option *o, const char *value)
{
  switch (o->kind) {
  case KVL_OPTION_FLAG:
  case KVL_OPTION_NO:
    *(bool *)o->to = o->kind == KVL_OPTION_FLAG;
    return 0;
  case KVL_OPTION_CHOSEN:
    *(int *)o->to = (int)o->number;
    return 0;
  case KVL_OPTION_TEXT:
    *(const char **)o->to = value;
    return 0;
  case KVL_OPTION_STORE:
    return kvl_cmd_store(subcommand, value, o->to);
  case KVL_OPTION_SET:
    return kvl_cmd_set(subcommand, value, o->to, o->count, o->number);
  case KVL_OPTION_SEED:
    return kvl_cmd_seed(subcommand, value, o->text, o->to, o->count, o->number);
  case KVL_OPTION_COUNT:
    return kvl_cmd_count(subcommand, o->name, value, o->number, o->to);
  case KVL_OPTION_THREADS:
    return kvl_cmd_threads(subcommand, value, o->to);
  case KVL_OPTION_FORMAT:
    return kvl_cmd_format(subcommand, value, o->to);
  case KVL_OPTION_PLANE:
    return kvl_cmd_plane(subcommand, value, o->to);
  case KVL_OPTION_CHECK:
    return kvl_cmd_check(subcommand, value, o->to);
  case KVL_OPTION_OWN:
  case KVL_OPTION_OWN_OR_NOTHING:
    return o->read(o->to, value);
  }
  return -1;
}

static int has_value(enum kvl_option_kind kind)
{
  bool none = kind == KVL_OPTION_FLAG || kind == KVL_OPTION_NO || kind == KVL_OPTION_CHOSEN;
  return none ? no_argument : kind == KVL_OPTION_OWN_OR_NOTHING ? optional_argument : required_argument;
}

int kvl_cmd_options(const char *subcommand, const char *help, const struct kvl_option *options, unsigned count, int argc, char **argv)
{
  struct option known[OPTIONS_MAX + 2];
  int option;
  for (unsigned i = 0; i < count && i < OPTIONS_MAX; i++) {
    known[i] = (struct option){options[i].name, has_value(options[i].kind), NULL, FIRST + (int)i};
  }
  known[count] = (struct option){"help", no_argument, NULL, FIRST + OPTIONS_MAX};
  known[count + 1] = (struct option){NULL, 0, NULL, 0};
  optind = 1;
  opterr = 0;
  while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (option == FIRST + OPTIONS_MAX) {
      (void)fputs(help, stdout);
      return -1;
    }
    if (option < FIRST) {
      return kvl_cmd_bad_option(subcommand, argc, argv, known, option);
    }
    const struct kvl_option *o = &options[option - FIRST];
    if (take(subcommand, o, optarg) != 0) {
      return 2;
    }
    if (o->given != NULL) {
      *o->given = true;
    }
  }
  return 0;
}
