/* Is a text well-formed XML, as far as a page needs? Tags balance, attributes are quoted and not twice there, entities are known, ids are unique, nothing
 * refers to the network or to a script. */
#ifndef KVL_TESTS_WELLFORMED_H
#define KVL_TESTS_WELLFORMED_H

#include <stddef.h>

/* 0, or -1 and why. */
int wellformed(const char *text, char *why, size_t size);

#endif
