/* page_check FILE...: is each a page that kvloan report could have made? Exit 1 and a line for the first that is not. */
#include <stdio.h>
#include <stdlib.h>

#include "wellformed.h"

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    FILE *file = fopen(argv[i], "r");
    long end = file == NULL || fseek(file, 0, SEEK_END) != 0 ? -1 : ftell(file);
    char *text = end < 0 ? NULL : malloc((size_t)end + 1), why[160] = "cannot be read";
    int rc = -1;
    if (text != NULL) {
      rewind(file);
      text[fread(text, 1, (size_t)end, file)] = '\0';
      rc = wellformed(text, why, sizeof why);
    }
    if (file != NULL) {
      (void)fclose(file);
    }
    free(text);
    if (rc != 0) {
      (void)fprintf(stderr, "%s: %s\n", argv[i], why);
      return 1;
    }
  }
  return 0;
}
