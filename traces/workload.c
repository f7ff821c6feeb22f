#include "traces/workload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "traces/workload_impl.h"

static const struct kvl_workload_ops *const formats[] = {&kvl_workload_mooncake, &kvl_workload_agent};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

struct kvl_workload_file {
  struct kvl_lines lines;
  const struct kvl_workload_ops *ops;
  void *state;
};

/* Messages quote the file; what it holds must not reach a terminal as a control sequence. */
static int one_line(struct kvl_err *err, int code)
{
  for (char *c = err && code < 0 ? err->text : NULL; c && *c; c++)
    *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
  return code;
}

/* The first line that is not blank. */
static int first_line(struct kvl_lines *lines, char **text, size_t *length, struct kvl_err *err)
{
  int code;
  do
    code = kvl_lines_next(lines, text, length, err);
  while (code == 1 && *length == 0);
  return code;
}

const char *kvl_workload_format_of(const char *text, size_t size)
{
  char line[4096]; /* of a longer one its beginning says enough */
  size_t at = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, length = 0;

  while (at < size && (text[at] == '\n' || text[at] == '\r'))
    at++;
  while (at + length < size && length < sizeof(line) - 1 && text[at + length] != '\n' && text[at + length] != '\r')
    length++;
  memcpy(line, text + at, length);
  line[length] = '\0';
  if (!kvl_workload_agent.refuses(line, length))
    return kvl_workload_agent.name;
  return !kvl_workload_mooncake.refuses(line, length) && strstr(line, "\"timestamp\"") && strstr(line, "\"input_length\"") ? kvl_workload_mooncake.name : NULL;
}

/* Chooses the reader, and says no to a file that is something else. */
static int choose_format(struct kvl_workload_file *file, const char *path, const char *format, struct kvl_err *err)
{
  char *text = NULL;
  size_t length = 0;
  const char *looks, *reason;
  int code = first_line(&file->lines, &text, &length, err);

  if (code == -EINVAL) { /* no text line at all: say what it is instead, if we know */
    looks = kvl_lines_looks_like(file->lines.buffer, file->lines.end);
    return looks ? kvl_err_set(err, -EINVAL, "%s: not a workload file: looks like %s", path, looks) : code;
  }
  if (code < 0)
    return code;
  if (code == 0)
    return kvl_err_set(err, -EINVAL, "%s: the file is empty", path);
  looks = kvl_lines_looks_like(text, length);
  if (looks)
    return kvl_err_set(err, -EINVAL, "%s: not a workload file: looks like %s", path, looks);
  for (size_t i = 0; !file->ops && i < FORMATS; i++) {
    if (!formats[i]->refuses(text, length))
      file->ops = formats[i];
  }
  if (!file->ops)
    return kvl_err_set(err, -EINVAL, "%s: not a workload file: as mooncake, %s; as agent, %s", path,
                       kvl_workload_mooncake.refuses(text, length), kvl_workload_agent.refuses(text, length));
  if (format && strcmp(format, "auto") != 0 && strcmp(format, file->ops->name) != 0) {
    for (size_t i = 0; i < FORMATS; i++) {
      reason = formats[i]->refuses(text, length);
      if (strcmp(formats[i]->name, format) == 0)
        return kvl_err_set(err, -EINVAL, "%s: not a workload of format %s: %s (looks like %s)", path, format, reason ? reason : "",
                           file->ops->name);
    }
  }
  return 0;
}

int kvl_workload_open(struct kvl_workload_file **result, const char *path, const char *format, struct kvl_err *err)
{
  static const char *const names[] = {"auto", "mooncake", "agent"};
  struct kvl_workload_file *file;
  struct kvl_request_spec spec;
  int code;
  bool known = !format;

  *result = NULL;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    known = known || strcmp(format, names[i]) == 0;
  if (!known)
    return kvl_err_set(err, -EINVAL, "%s: unknown workload format '%s'; did you mean '%s'? (auto, mooncake, agent)", path, format,
                       kvl_nearest(format, names, sizeof(names) / sizeof(names[0])));
  file = calloc(1, sizeof(*file));
  if (!file)
    return kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  code = kvl_lines_open(&file->lines, path, err);
  if (code == 0)
    code = choose_format(file, path, format, err);
  if (code == 0) {
    file->state = file->ops->create();
    code = file->state ? kvl_lines_rewind(&file->lines, err) : kvl_err_set(err, -ENOMEM, "%s: no memory", path);
  }
  if (code == 0) {
    code = kvl_workload_next(file, &spec, err);
    if (code == 0)
      code = kvl_err_set(err, -EINVAL, "%s: there is a header but no request", path);
    else if (code == 1)
      code = 0;
  }
  if (code == 0) {
    file->ops->rewind(file->state);
    code = kvl_lines_rewind(&file->lines, err);
  }
  if (code) {
    kvl_workload_close(file);
    return one_line(err, code);
  }
  *result = file;
  return 0;
}

void kvl_workload_close(struct kvl_workload_file *file)
{
  if (!file)
    return;
  if (file->state)
    file->ops->destroy(file->state);
  kvl_lines_close(&file->lines);
  free(file);
}

int kvl_workload_next(struct kvl_workload_file *file, struct kvl_request_spec *spec, struct kvl_err *err)
{
  return one_line(err, file->ops->next(file->state, &file->lines, spec, err));
}

int kvl_workload_rewind(struct kvl_workload_file *file, struct kvl_err *err)
{
  file->ops->rewind(file->state);
  return kvl_lines_rewind(&file->lines, err);
}

int kvl_workload_extent(struct kvl_workload_file *file, struct kvl_workload_extent *extent, struct kvl_err *err)
{
  struct kvl_request_spec spec;
  int code = kvl_workload_rewind(file, err);

  memset(extent, 0, sizeof(*extent));
  if (code)
    return code;
  while ((code = kvl_workload_next(file, &spec, err)) == 1) {
    uint32_t tokens = spec.input_tokens + spec.output_tokens;
    extent->requests++;
    extent->sessions = spec.session + 1; /* sessions are numbered in order */
    extent->tokens_max = tokens > extent->tokens_max ? tokens : extent->tokens_max;
    extent->input_tokens += spec.input_tokens;
    extent->output_tokens += spec.output_tokens;
  }
  return code < 0 ? code : kvl_workload_rewind(file, err);
}
