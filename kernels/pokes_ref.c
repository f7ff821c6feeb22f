#include "kernels/pokes.h"

int kvl_pokes_ref(const struct kvl_pokes *pokes, void *context)
{
  (void)context;
  for (uint32_t i = 0; i < *pokes->count; i++) {
    pokes->base[pokes->poke[i].word] = pokes->poke[i].value;
  }
  return 0;
}
