/* `kvloan scenario list`: what a scenario can name, from the folders that are always searched. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"
#include "sim/scenario_doc.h"

struct kind {
  const char *title, *folder, *text; /* text: the member that says what it is */
};

/* The first line on a descriptor or scenario: its note or source; what is not JSON is said to be so. */
static const char *describe(struct kvl_arena *arena, const char *folder, const char *name, const char *member)
{
  char path[KVL_PATH_CAP];
  char *text = NULL;
  size_t size = 0;
  struct kvl_json *root = NULL;
  if (snprintf(path, sizeof path, "%s/%s.json", folder, name) >= (int)sizeof path || kvl_scenario_read_file(path, &text, &size, NULL) != 0) {
    return "(cannot be read)";
  }
  int rc = kvl_json_parse(arena, text, size, path, &root, NULL);
  free(text);
  if (rc != 0) {
    return "(not valid JSON)";
  }
  const struct kvl_json *node = kvl_json_member(root, member);
  return node == NULL || node->kind != KVL_JSON_STRING ? "" : node->text;
}

int kvl_scenario_list(FILE *out, enum kvl_format format, unsigned *passed)
{
  static const struct kind kinds[] = {{"scenarios", "", "note"}, {"models", "models", "source"}, {"hardware", "hardware", "source"}, {"costs", "costs", "source"},
                                      {"speculation", "speculation", "source"},
                                      {"sweeps", "sweeps", "note"}, {"plans", "plans", "note"}};
  struct kvl_arena arena = {0};
  unsigned total = 0;
  if (passed != NULL) {
    *passed = 0;
  }
  if (format == KVL_FORMAT_TSV) {
    (void)fputs("kind\tname\tabout\n", out);
  } else if (format == KVL_FORMAT_JSON) {
    (void)fputc('{', out);
  }
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    char folders[KVL_FOLDERS_MAX][KVL_PATH_CAP];
    unsigned count = kvl_scenario_folders(NULL, kinds[k].folder, folders), shown = 0;
    if (format == KVL_FORMAT_TABLE) {
      (void)fprintf(out, "%s%s\n", k > 0 ? "\n" : "", kinds[k].title);
    } else if (format == KVL_FORMAT_JSON) {
      (void)fprintf(out, "%s\"%s\":{", k > 0 ? "," : "", kinds[k].title);
    }
    for (unsigned f = 0; f < count && shown == 0; f++) { /* the first folder that has any: the others are hidden by it */
      const char **names;
      unsigned n;
      int rc = kinds[k].folder[0] == '\0' ? kvl_scenario_scenarios(&arena, folders[f], &names, &n, passed)
                                           : kvl_scenario_names(&arena, folders[f], &names, &n, passed);
      if (rc != 0) {
        break;
      }
      for (unsigned i = 0; i < n; i++, shown++) {
        const char *about = describe(&arena, folders[f], names[i], kinds[k].text);
        if (format == KVL_FORMAT_TABLE) {
          (void)fputs("  ", out);
          kvl_text_pad(out, names[i], 36, 0);
          (void)fputc(' ', out);
          kvl_text_tsv_cell(out, about);
          (void)fputc('\n', out);
        } else if (format == KVL_FORMAT_TSV) {
          (void)fprintf(out, "%s\t%s\t", kinds[k].title, names[i]);
          kvl_text_tsv_cell(out, about);
          (void)fputc('\n', out);
        } else {
          (void)fputs(shown > 0 ? "," : "", out);
          kvl_text_json_string(out, names[i]);
          (void)fputc(':', out);
          kvl_text_json_string(out, about);
        }
      }
    }
    if (format == KVL_FORMAT_JSON) {
      (void)fputc('}', out);
    }
    total += shown;
  }
  if (format == KVL_FORMAT_JSON) {
    (void)fputs("}\n", out);
  }
  kvl_arena_free(&arena);
  return total > 0 ? 0 : -ENOENT;
}
