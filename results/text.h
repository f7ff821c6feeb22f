/* Small writers that every output of results/ shares: JSON strings and numbers, TSV cells, numbers for people. */
#ifndef KVL_RESULTS_TEXT_H
#define KVL_RESULTS_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { KVL_TEXT_NUMBER_MAX = 40 }; /* bytes that hold any number below, terminator included */

/* The shortest decimal that reads back as the same double ("0.1", not "0.10000000000000001"). Infinities and NaN are "null": JSON has no word
 * for them. Returns `text`. */
const char *kvl_text_double(char text[KVL_TEXT_NUMBER_MAX], double value);

/* Four significant digits, thousands separated: 2,918  291.8  29.18  0.0292. Whole numbers (`whole`) print in full: 838,860,800. */
const char *kvl_text_human(char text[KVL_TEXT_NUMBER_MAX], double value, int whole);
/* The same for an exact count. */
const char *kvl_text_count(char text[KVL_TEXT_NUMBER_MAX], uint64_t value);
/* "1.234 GB": powers of 1,000. */
const char *kvl_text_bytes(char text[KVL_TEXT_NUMBER_MAX], double bytes);

/* What a regular noun takes after that many: "" after 1, else "s". */
const char *kvl_text_s(uint64_t count);

/* Length of the well-formed UTF-8 sequence at `text` (Unicode 15, table 3-7), 1 to 4; 0 when there is none. */
size_t kvl_text_utf8_length(const char *text);
/* Is it all well-formed UTF-8 without control characters (C0, DEL, C1)? A terminal may take any of those for a command, and a line end breaks a row. */
int kvl_text_printable(const char *text);

/* A JSON string with its quotes. Control characters are escaped; bytes that are not UTF-8 become U+FFFD. NULL writes null. */
void kvl_text_json_string(FILE *out, const char *text);

/* One TSV cell: tab, newline and other control characters become spaces, so that a row stays a row. NULL writes nothing. */
void kvl_text_tsv_cell(FILE *out, const char *text);

/* Columns that `text` takes on a terminal (one for each UTF-8 code point). */
size_t kvl_text_columns(const char *text);
/* `text` padded to `columns`: on the left when `right` (right-aligned), else on the right. Longer text is written whole. Control
 * characters become spaces. */
void kvl_text_pad(FILE *out, const char *text, size_t columns, int right);

#endif
