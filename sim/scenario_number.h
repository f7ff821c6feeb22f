/* Decimal text to scaled integers and back, exactly: 13.4 at scale 1,000,000 is 13,400,000 on every machine. */
#ifndef KVL_SIM_SCENARIO_NUMBER_H
#define KVL_SIM_SCENARIO_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text x scale, rounded half up; `text` is a JSON number, scale at most 10^12. *exact: nothing was rounded.
 * 0; -EDOM: negative; -ERANGE: more than 64 bits (*value is then UINT64_MAX). */
int kvl_decimal_parse(const char *text, uint64_t scale, uint64_t *value, bool *exact);

/* value / scale as decimal text, shortest exact form; scale's only prime factors are 2 and 5. Buffer of 64. Returns it. */
enum { KVL_DECIMAL_MAX = 64 };
const char *kvl_decimal_print(uint64_t value, uint64_t scale, char buffer[KVL_DECIMAL_MAX]);

/* What a JSON number must look like for a text such as "100GB", "64 GiB" (keys in bytes) or "13.4 ms" (keys in ms): "100e9", "68719476736", "13.4". False: no
 * number, or a unit that is not the key's. */
bool kvl_decimal_without_unit(const char *text, const char *unit, char plain[KVL_DECIMAL_MAX]);

/* The shortest decimal that reads back as the same double. */
const char *kvl_real_print(double value, char buffer[KVL_DECIMAL_MAX]);

#endif
