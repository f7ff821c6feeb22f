#include "traces/preset.h"

#include <errno.h>
#include <string.h>

const char *const kvl_preset_names[KVL_PRESETS] = {"hot-a", "hot-b", "cold-a", "cold-b"};

int kvl_preset_find(const char *name)
{
  for (int i = 0; i < KVL_PRESETS; i++) {
    if (strcmp(name, kvl_preset_names[i]) == 0) {
      return i;
    }
  }
  return -EINVAL;
}
