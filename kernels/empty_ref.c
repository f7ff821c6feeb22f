#include "kernels/empty.h"

int kvl_empty_ref(void *context)
{
  (void)context;
  return 0;
}
