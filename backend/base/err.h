/* One-line errors for whoever typed the input.
 *
 * Functions return 0 or a negative errno; those that read input also fill a struct kvl_err with one line:
 * where (file, line or key), what is wrong, and the nearest valid choice where there is one. Libraries never print. */
#ifndef KVL_BASE_ERR_H
#define KVL_BASE_ERR_H

struct kvl_err {
  char text[1024];
};

/* Formats the line (control characters become ?, what is too long loses its middle) and returns `code`, so that callers can write `return kvl_err_set(err, -EINVAL, ...)`.
 * `err` may be NULL. `code` is a negative errno. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int kvl_err_set(struct kvl_err *err, int code, const char *format, ...);

#endif
