#include "wellformed.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, NAME_CAP = 64, IDS_MAX = 4096 };

struct state {
  char open[DEPTH_MAX][NAME_CAP];
  int depth, elements;
  char *id[IDS_MAX];
  int ids;
  char *why;
  size_t size;
};

static int complain(struct state *s, const char *what, const char *at)
{
  (void)snprintf(s->why, s->size, "%s at '%.60s'", what, at);
  return -1;
}

static int is_name(const char *at, size_t length)
{
  for (size_t i = 0; i < length; i++) {
    if (!isalnum((unsigned char)at[i]) && strchr(":-_", at[i]) == NULL) {
      return 0;
    }
  }
  return length > 0 && length < NAME_CAP;
}

/* Text or the value of an attribute: entities are known, no bare < or &, no control character. */
static int check_text(struct state *s, const char *at, size_t length)
{
  static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
  for (size_t i = 0; i < length; i++) {
    int known = at[i] != '&';
    for (size_t e = 0; e < sizeof entities / sizeof entities[0] && !known; e++) {
      known = strncmp(at + i, entities[e], strlen(entities[e])) == 0;
    }
    if (!known || at[i] == '<' || ((unsigned char)at[i] < 0x20 && at[i] != '\n' && at[i] != '\t')) {
      return complain(s, "a character that must be escaped", at + i);
    }
  }
  return 0;
}

static int take_id(struct state *s, const char *value, size_t length)
{
  for (int i = 0; i < s->ids; i++) {
    if (strlen(s->id[i]) == length && strncmp(s->id[i], value, length) == 0) {
      return complain(s, "an id that is there twice", value);
    }
  }
  if (s->ids < IDS_MAX) {
    s->id[s->ids] = strndup(value, length);
    s->ids += s->id[s->ids] != NULL;
  }
  return 0;
}

static int check_attribute(struct state *s, const char *name, size_t name_length, const char *value, size_t length)
{
  if (check_text(s, value, length) != 0) {
    return -1;
  }
  if (name_length == 2 && strncmp(name, "id", 2) == 0) {
    return take_id(s, value, length);
  }
  if (strncmp(name, "on", 2) == 0) {
    return complain(s, "a handler", name);
  }
  int refers = (name_length == 4 && strncmp(name, "href", 4) == 0) || (name_length == 10 && strncmp(name, "xlink:href", 10) == 0) ||
               (name_length == 3 && strncmp(name, "src", 3) == 0);
  return refers && (length == 0 || value[0] != '#') ? complain(s, "a reference out of the page", value) : 0;
}

/* The attributes of a tag; *at is moved to its end, > or />. */
static int take_attributes(struct state *s, const char **at)
{
  char seen[32][NAME_CAP];
  int count = 0;
  for (;;) {
    const char *p = *at + strspn(*at, " \t\r\n");
    if (*p == '>' || *p == '/') {
      *at = p;
      return 0;
    }
    size_t name = strcspn(p, "= \t\r\n>");
    const char *value = p + name + 1, *end = p[name] == '=' && *value == '"' ? strchr(value + 1, '"') : NULL;
    if (p == *at || end == NULL || !is_name(p, name)) {
      return complain(s, "an attribute that is none", p);
    }
    for (int i = 0; i < count; i++) {
      if (strlen(seen[i]) == name && strncmp(seen[i], p, name) == 0) {
        return complain(s, "an attribute that is there twice", p);
      }
    }
    if (count < 32) {
      (void)snprintf(seen[count++], NAME_CAP, "%.*s", (int)name, p);
    }
    if (check_attribute(s, p, name, value + 1, (size_t)(end - value) - 1) != 0) {
      return -1;
    }
    *at = end + 1;
  }
}

static int take_tag(struct state *s, const char **at)
{
  const char *p = *at + 1;
  int closing = *p == '/';
  p += closing;
  size_t length = strcspn(p, " \t\r\n/>");
  if (!is_name(p, length)) {
    return complain(s, "a tag that is none", *at);
  }
  char name[NAME_CAP];
  (void)snprintf(name, sizeof name, "%.*s", (int)length, p);
  p += length;
  if (strcmp(name, "script") == 0 || strcmp(name, "iframe") == 0 || strcmp(name, "link") == 0) {
    return complain(s, "an element that a page must not have", *at);
  }
  if (closing) {
    if (s->depth == 0 || strcmp(s->open[s->depth - 1], name) != 0 || *p != '>') {
      return complain(s, "an end that does not match", *at);
    }
    s->depth--;
    *at = p + 1;
    return 0;
  }
  if (take_attributes(s, &p) != 0) {
    return -1;
  }
  s->elements++;
  if (*p == '/' && p[1] == '>') {
    *at = p + 2;
    return 0;
  }
  if (*p != '>' || s->depth == DEPTH_MAX) {
    return complain(s, "a tag that does not end", *at);
  }
  memcpy(s->open[s->depth++], name, sizeof name);
  *at = p + 1;
  return 0;
}

int wellformed(const char *text, char *why, size_t size)
{
  struct state *s = calloc(1, sizeof *s);
  if (s == NULL) {
    return -1;
  }
  s->why = why;
  s->size = size;
  const char *at = strncmp(text, "<!DOCTYPE html>\n", 16) == 0 ? text + 16 : text;
  int rc = 0;
  while (rc == 0 && *at != '\0') {
    if (*at == '<') {
      rc = take_tag(s, &at);
    } else {
      size_t length = strcspn(at, "<");
      rc = check_text(s, at, length);
      if (rc == 0 && s->depth == 0 && strspn(at, " \n") < length) {
        rc = complain(s, "text outside of everything", at);
      }
      at += length;
    }
  }
  if (rc == 0 && (s->depth != 0 || s->elements == 0)) {
    rc = complain(s, s->depth != 0 ? "an element that does not end" : "nothing", s->depth != 0 ? s->open[s->depth - 1] : "");
  }
  for (int i = 0; i < s->ids; i++) {
    free(s->id[i]);
  }
  free(s);
  return rc;
}
