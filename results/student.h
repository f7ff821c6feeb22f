/* Student's t: how many standard errors an interval of the mean of few runs needs. */
#ifndef KVL_RESULTS_STUDENT_H
#define KVL_RESULTS_STUDENT_H

#include <stdint.h>

/* The t that a variable of Student's distribution with `freedom` degrees stays within, on both sides, with probability `confidence` (0.95: 12.7062 for one
 * degree, 1.96 for very many). By bisection of the regularized incomplete beta function (continued fraction, Abramowitz and Stegun 26.5.8 and 26.7.1), to some
 * 12 digits for few degrees, 8 for 100,000. NaN: no degree of freedom, or a confidence that is not between 0 and 1. */
double kvl_student_t(uint32_t freedom, double confidence);

#endif
