/* From a script to a picture: temporary names, quoting, one child process. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "results/plot_internal.h"
#include "results/text.h"

extern char **environ;

/* ---- colours ---- */

static const struct kvl_plot_style styles[KVL_PLOT_RUNS_MAX] = {
  {"#0072B2", 1, 5}, {"#E69F00", 2, 9}, {"#009E73", 1, 7}, {"#D55E00", 4, 11}, {"#CC79A7", 1, 13}, {"#56B4E9", 2, 4}, {"#000000", 3, 6}, {"#8A7A00", 5, 8},
};

struct kvl_plot_style kvl_plot_style_at(uint32_t index)
{
  return styles[index % KVL_PLOT_RUNS_MAX];
}

struct kvl_plot_style kvl_plot_style_of_mode(const char *mode, uint32_t index)
{
  static const char *const modes[] = {"resident", "fixed", "adaptive"};
  for (uint32_t m = 0; m < 3; m++) {
    if (strcmp(mode, modes[m]) == 0) {
      return styles[m];
    }
  }
  return styles[3 + index % 5];
}

/* ---- names ---- */

/* The ending of `out`, "" when it is a base. An ending that looks like a picture's but is none of ours is refused. */
static int ending_of(const char *out, const char **ending, struct kvl_err *err)
{
  const char *slash = strrchr(out, '/'), *name = slash != NULL ? slash + 1 : out, *dot = strrchr(name, '.');
  *ending = "";
  if (name[0] == '\0') {
    return kvl_err_set(err, -EINVAL, "--out=%s: names a folder; name a file (FILE.png, FILE.svg, or FILE for both)", out);
  }
  if (dot == NULL || dot == name) {
    return 0;
  }
  if (strcmp(dot, ".png") == 0 || strcmp(dot, ".svg") == 0) {
    *ending = dot;
    return 0;
  }
  size_t letters = 0;
  while (isalpha((unsigned char)dot[1 + letters])) {
    letters++;
  }
  if (dot[1 + letters] == '\0' && letters >= 1 && letters <= 4) {
    return kvl_err_set(err, -EINVAL, "--out=%s: cannot draw %s; nearest: %.*s.svg", out, dot, (int)(dot - out), out);
  }
  return 0;
}

/* "./" in front of a relative name: gnuplot reads "<x", "|x", "-" and "~x" at the start of a name as something else. */
static char *name_with(const char *out, size_t base, const char *ending)
{
  size_t size = base + strlen(ending) + sizeof "./";
  char *name = malloc(size);
  if (name != NULL) {
    (void)snprintf(name, size, "%s%.*s%s", out[0] == '/' ? "" : "./", (int)base, out, ending);
  }
  return name;
}

/* ---- the numbers ---- */

int kvl_plot_numbers_begin(struct kvl_plot_numbers *numbers, const struct kvl_plot *plot, struct kvl_err *err)
{
  memset(numbers, 0, sizeof *numbers);
  const char *ending;
  int code = ending_of(plot->out, &ending, err);
  if (code != 0) {
    return code;
  }
  numbers->path = name_with(plot->out, strlen(plot->out) - strlen(ending), ".tsv");
  if (numbers->path == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  int file = kvl_place_part(numbers->path, 0666, &numbers->temporary);
  code = file < 0 ? file : 0;
  if (code == 0 && (numbers->file = fdopen(file, "w")) == NULL) {
    code = -errno;
    (void)close(file);
    (void)unlink(numbers->temporary);
  }
  if (code != 0) {
    (void)kvl_err_set(err, code, "%s: cannot write: %s", numbers->path, strerror(-code));
    kvl_plot_numbers_free(numbers);
  }
  return code;
}

int kvl_plot_numbers_finish(struct kvl_plot_numbers *numbers, int code, struct kvl_err *err)
{
  int failed = ferror(numbers->file);
  failed |= fclose(numbers->file);
  numbers->file = NULL;
  if (code == 0 && failed != 0) {
    code = kvl_err_set(err, -EIO, "%s: cannot write: %s", numbers->path, strerror(errno));
  }
  if (code == 0 && rename(numbers->temporary, numbers->path) != 0) {
    code = kvl_err_set(err, -errno, "%s: cannot write: %s", numbers->path, strerror(errno));
  }
  if (code != 0) {
    (void)unlink(numbers->temporary);
  }
  return code;
}

void kvl_plot_numbers_free(struct kvl_plot_numbers *numbers)
{
  free(numbers->path);
  free(numbers->temporary);
  numbers->path = numbers->temporary = NULL;
}

/* ---- the script ---- */

/* In double quotes gnuplot reads \ooo as the byte with that octal number; written so, no byte can end the string or be a command. It reads as many
 * digits as follow, so digits are written so too. (In single quotes, two quotes in a row are not read as documented.) */
static void quote_byte(FILE *script, char byte)
{
  if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) {
    (void)fputc(byte, script);
  } else {
    (void)fprintf(script, "\\%03o", (unsigned)(unsigned char)byte);
  }
}

void kvl_plot_quote(FILE *script, const char *text)
{
  (void)fputc('"', script);
  for (const char *s = text; *s != '\0';) {
    size_t n = kvl_text_utf8_length(s);
    for (size_t i = 0; i < n && (unsigned char)*s >= 0x20 && *s != 0x7f; i++) {
      quote_byte(script, s[i]);
    }
    if (n == 0 || (unsigned char)*s < 0x20 || *s == 0x7f) {
      quote_byte(script, n == 0 ? '?' : ' ');
    }
    s += n == 0 ? 1 : n;
  }
  (void)fputc('"', script);
}

void kvl_plot_quote_path(FILE *script, const char *path)
{
  (void)fputc('"', script);
  for (const char *s = path; *s != '\0'; s++) {
    quote_byte(script, *s);
  }
  (void)fputc('"', script);
}

void kvl_plot_log_axis(FILE *script, char axis, double low, double high)
{
  static const double step[] = {1.0, 2.0, 5.0};
  low /= 1.25;
  high *= 1.25;
  int first = (int)floor(log10(low)), last = (int)ceil(log10(high)), dense = high / low < 3000.0;
  (void)fprintf(script, "set logscale %c 10\nset %crange [%.9g:%.9g]\nset %ctics (", axis, axis, low, high, axis);
  const char *separator = "";
  for (int decade = first; decade <= last; decade++) {
    for (int s = 0; s < (dense ? 3 : 1); s++) {
      double at = step[s] * pow(10.0, decade);
      if (at >= low && at <= high) {
        (void)fprintf(script, "%s%.9g", separator, at);
        separator = ", ";
      }
    }
  }
  (void)fputs(")\n", script);
}

void kvl_plot_legend_begin(FILE *script, unsigned rows, double top)
{
  (void)fprintf(script, "unset label 1\nunset border\nunset tics\nunset title\nunset xlabel\nunset ylabel\nunset grid\nunset logscale\nunset offsets\n"
                "set xrange [0:1]\nset yrange [0:1]\nset lmargin at screen 0.02\nset rmargin at screen 0.98\nset bmargin at screen 0.005\n"
                "set tmargin at screen %.4f\nset key at graph 0.5, graph 0.5 center center horizontal maxrows %u Left reverse samplen 2.5\n", top, rows);
}

void kvl_plot_legend_entry(FILE *script, unsigned index, const char *with, const char *title)
{
  (void)fprintf(script, "%s NaN with %s title ", index == 0 ? "plot" : ",", with);
  kvl_plot_quote(script, title);
}

void kvl_plot_legend_end(FILE *script)
{
  (void)fputs("\n", script);
}

static void write_style(FILE *script)
{
  (void)fputs("set encoding utf8\nset datafile separator tab\nset datafile missing ''\n"
              "set format '%g'\nset border 3 linecolor rgb '#444444' linewidth 0.8\nset tics nomirror textcolor rgb '#222222'\n"
              "set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6\n"
              "set key textcolor rgb '#222222' samplen 2\n", script);
}

static void write_preamble(FILE *script, const char *ending, int width, int height, const char *output)
{
  if (strcmp(ending, ".png") == 0) {
    (void)fprintf(script, "set terminal pngcairo noenhanced size %d,%d font 'sans,13' fontscale 1.7 linewidth 2 dashlength 0.6 pointscale 2 background '#ffffff'\n",
                  2 * width, 2 * height);
  } else {
    (void)fprintf(script, "set terminal svg noenhanced size %d,%d font 'sans-serif,14' linewidth 1.3 dashlength 0.7 background '#ffffff'\n", width, height);
  }
  (void)fputs("set output ", script);
  kvl_plot_quote_path(script, output);
  (void)fputc('\n', script);
  write_style(script);
}

/* First line of what gnuplot said, without its position marks. */
static void first_complaint(FILE *talk, char *text, size_t size)
{
  char line[512];
  text[0] = '\0';
  rewind(talk);
  while (fgets(line, sizeof line, talk) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const char *at = line + strspn(line, " \t^");
    if (*at != '\0') {
      (void)snprintf(text, size, "%s", at);
      if (strstr(at, "line ") != NULL || strstr(at, "annot") != NULL) {
        return;
      }
    }
  }
}

/* Is there such a program, in PATH when its name has no slash? Asked first, because what posix_spawnp says depends on the system. */
static int is_installed(const char *program)
{
  const char *path = getenv("PATH");
  if (strchr(program, '/') != NULL) {
    return access(program, X_OK) == 0;
  }
  for (const char *at = path != NULL ? path : ""; *at != '\0';) {
    size_t length = strcspn(at, ":");
    char name[4096];
    int size = snprintf(name, sizeof name, "%.*s%s/%s", (int)length, at, length > 0 ? "" : ".", program);
    if (size > 0 && (size_t)size < sizeof name && access(name, X_OK) == 0) {
      return 1;
    }
    at += length + (at[length] == ':' ? 1 : 0);
  }
  return 0;
}

/* Runs gnuplot with `script` as its input; what it says goes to `talk`, what it prints to `out`. 0, or a negative errno (-ENOENT: no such program). */
static int run_gnuplot(const char *program, FILE *script, FILE *out, FILE *talk)
{
  posix_spawn_file_actions_t actions;
  if (!is_installed(program)) {
    return -ENOENT;
  }
  if (posix_spawn_file_actions_init(&actions) != 0) {
    return -ENOMEM;
  }
  /* -d: no start-up files; "-" would be our script anyway */
  static char option[] = "-d";
  char *name = strdup(program);
  char *argv[] = {name, option, NULL};
  pid_t child = 0;
  int rc = name == NULL ? ENOMEM : posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
  rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
  rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, fileno(talk), STDERR_FILENO);
  rc = rc != 0 ? rc : posix_spawnp(&child, program, &actions, NULL, argv, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  free(name);
  if (rc != 0) {
    return -rc;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return -errno;
    }
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int draw_one(const struct kvl_plot *plot, const char *final, const char *temporary, const char *numbers, FILE *script, struct kvl_err *err)
{
  const char *program = plot->gnuplot != NULL ? plot->gnuplot : "gnuplot";
  FILE *talk = tmpfile();
  if (talk == NULL) {
    int code = kvl_err_set(err, -errno, "%s: no temporary file: %s", final, strerror(errno));
    (void)unlink(temporary);
    return code;
  }
  int code = fflush(script) != 0 || ferror(script) ? -EIO : 0;
  if (code != 0) {
    (void)kvl_err_set(err, code, "%s: cannot write gnuplot's script: %s", final, strerror(errno));
  } else {
    (void)lseek(fileno(script), 0, SEEK_SET);
    code = run_gnuplot(program, script, talk, talk);
    struct stat info;
    char said[512];
    first_complaint(talk, said, sizeof said);
    if (code == -ENOENT) {
      (void)kvl_err_set(err, code, "%s: %s is not installed (Debian: gnuplot-nox); the numbers are in %s", final, program, numbers);
    } else if (code != 0) {
      (void)kvl_err_set(err, code, "%s: %s failed: %s", final, program, said[0] != '\0' ? said : strerror(-code));
    } else if (stat(temporary, &info) != 0 || info.st_size == 0) {
      code = kvl_err_set(err, -EIO, "%s: %s drew nothing: %s", final, program, said[0] != '\0' ? said : "it did not say why");
    } else if (rename(temporary, final) != 0) {
      code = kvl_err_set(err, -errno, "%s: cannot write: %s", final, strerror(errno));
    }
  }
  if (code != 0) {
    (void)unlink(temporary);
  }
  (void)fclose(talk);
  return code;
}

int kvl_plot_draw(const struct kvl_plot *plot, int width, int height, const char *numbers,
                  void (*write_script)(FILE *script, const char *numbers, const void *context), const void *context, struct kvl_err *err)
{
  static const char *const endings[] = {".png", ".svg"};
  const char *ending;
  int code = ending_of(plot->out, &ending, err);
  size_t base = strlen(plot->out) - strlen(ending);
  for (unsigned e = 0; e < 2 && code == 0; e++) {
    if (ending[0] != '\0' && strcmp(ending, endings[e]) != 0) {
      continue;
    }
    char *final = name_with(plot->out, base, endings[e]), *temporary = NULL;
    FILE *script = tmpfile();
    int file = final != NULL && script != NULL ? kvl_place_part(final, 0666, &temporary) : -ENOMEM;
    if (final == NULL || script == NULL) {
      code = kvl_err_set(err, -ENOMEM, "%s: cannot draw: out of memory or temporary files", plot->out);
    } else if (file < 0) {
      code = kvl_err_set(err, file, "%s: cannot write: %s", final, strerror(-file));
    } else {
      (void)close(file); /* gnuplot opens it by its name */
      write_preamble(script, endings[e], width, height, temporary);
      write_script(script, numbers, context);
      code = draw_one(plot, final, temporary, numbers, script, err);
    }
    if (script != NULL) {
      (void)fclose(script);
    }
    free(final);
    free(temporary);
  }
  return code;
}

/* Everything of `file`, with a terminator. */
static int slurp(FILE *file, char **text, size_t *size)
{
  long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  *text = end < 0 ? NULL : malloc((size_t)end + 1);
  if (*text == NULL) {
    return end < 0 ? -EIO : -ENOMEM;
  }
  rewind(file);
  *size = fread(*text, 1, (size_t)end, file);
  (*text)[*size] = '\0';
  return 0;
}

int kvl_plot_svg(const char *gnuplot, int width, int height, int font, void (*write_script)(FILE *script, const void *context),
                 const void *context, char **svg, size_t *size, struct kvl_err *err)
{
  const char *program = gnuplot != NULL ? gnuplot : "gnuplot";
  FILE *script = tmpfile(), *out = tmpfile(), *talk = tmpfile();
  char said[512] = "";
  int code = script == NULL || out == NULL || talk == NULL ? -errno : 0;
  *svg = NULL;
  *size = 0;
  if (code == 0) {
    (void)fprintf(script, "set terminal svg noenhanced size %d,%d font 'sans-serif,%d' linewidth 1.3 dashlength 0.7\n", width, height, font);
    write_style(script);
    write_script(script, context);
    code = fflush(script) != 0 || ferror(script) ? -EIO : 0;
    (void)lseek(fileno(script), 0, SEEK_SET);
    code = code != 0 ? code : run_gnuplot(program, script, out, talk);
    code = code != 0 ? code : slurp(out, svg, size);
    first_complaint(talk, said, sizeof said);
    if (code == 0 && strstr(*svg, "</svg>") == NULL) {
      code = -EIO;
    }
  }
  if (code == -ENOENT) {
    (void)kvl_err_set(err, code, "%s is not installed (Debian: gnuplot-nox): the report has no pictures", program);
  } else if (code != 0) {
    (void)kvl_err_set(err, code, "%s failed: %s", program, said[0] != '\0' ? said : strerror(-code));
  }
  if (code != 0) {
    free(*svg);
    *svg = NULL;
  }
  for (int i = 0; i < 3; i++) {
    FILE *file = i == 0 ? script : i == 1 ? out : talk;
    if (file != NULL) {
      (void)fclose(file);
    }
  }
  return code;
}
