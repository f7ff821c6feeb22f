/* Decimal numbers from text into scaled integers, without a detour over floating point: "7.34" seconds are 7,340,000,000 ns, exactly. */
#ifndef KVL_TRACES_DECIMAL_H
#define KVL_TRACES_DECIMAL_H

#include <stdint.h>

/* Reads a number as JSON writes it (also "007" and "5.") at *text, and moves *text behind it. *value is the number times 10^scale, rounded half up.
 * 0; -EINVAL: no number here, or scale is 0 and the number is not whole; -EDOM: below zero; -ERANGE: *value would exceed `max`.
 * After an error *text is unchanged. */
int kvl_decimal_read(const char **text, unsigned scale, uint64_t max, uint64_t *value);

#endif
