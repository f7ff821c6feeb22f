#include "results/student.h"

#include <math.h>

/* The continued fraction of the incomplete beta function (modified Lentz). */
static double fraction(double a, double b, double x)
{
  const double tiny = 1e-300;
  double c = 1.0, d = 1.0 - (a + b) * x / (a + 1.0);
  d = 1.0 / (fabs(d) < tiny ? tiny : d);
  double h = d;
  for (int m = 1; m <= 500; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1.0 + even * d;
    c = 1.0 + even / c;
    d = 1.0 / (fabs(d) < tiny ? tiny : d);
    c = fabs(c) < tiny ? tiny : c;
    h *= d * c;
    d = 1.0 + odd * d;
    c = 1.0 + odd / c;
    d = 1.0 / (fabs(d) < tiny ? tiny : d);
    c = fabs(c) < tiny ? tiny : c;
    h *= d * c;
    if (fabs(d * c - 1.0) < 1e-15) {
      break;
    }
  }
  return h;
}

/* Probability of being further out than t, both sides together: I_x(freedom / 2, 1/2) at x = freedom / (freedom + t^2). */
static double outside(double freedom, double t)
{
  double a = freedom / 2.0, b = 0.5, x = freedom / (freedom + t * t), y = t * t / (freedom + t * t); /* y = 1 - x, without its rounding */
  if (!(y > 0.0)) {
    return 1.0;
  }
  double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
  return x < (a + 1.0) / (a + b + 2.0) ? front * fraction(a, b, x) / a : 1.0 - front * fraction(b, a, y) / b;
}

double kvl_student_t(uint32_t freedom, double confidence)
{
  if (freedom == 0 || !(confidence > 0.0 && confidence < 1.0)) {
    return NAN;
  }
  double low = 0.0, high = 1.0;
  while (outside(freedom, high) > 1.0 - confidence && high < 1e15) {
    high *= 2.0;
  }
  for (int i = 0; i < 100; i++) {
    double middle = (low + high) / 2.0;
    *(outside(freedom, middle) > 1.0 - confidence ? &low : &high) = middle;
  }
  return (low + high) / 2.0;
}
