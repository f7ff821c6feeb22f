/* Where a decode GPU's time goes: the one list of causes that planes fill and reports print. */
#ifndef KVL_BASE_STALL_H
#define KVL_BASE_STALL_H

/* Within a step: compute .. prefetch_wait add up to the step's duration exactly. Between steps: admission .. give_back add up to the gap. */
enum kvl_stall {
  KVL_STALL_COMPUTE,       /* the model's own layers */
  KVL_STALL_BOOKKEEPING,   /* cost of the mode per step: index maintenance, metadata, launches */
  KVL_STALL_RESOLVE,       /* look-up kernels */
  KVL_STALL_FETCH,         /* demand misses: link service time */
  KVL_STALL_LINK_WAIT,     /* demand misses: sharing the link with other traffic */
  KVL_STALL_PREFETCH_WAIT, /* waiting for a bank copy in flight */
  KVL_STALL_ADMISSION,     /* serialized admission work */
  KVL_STALL_POPULATION,    /* population copies that hold up the batch */
  KVL_STALL_REVOCATION,    /* unmapping pages, waiting for readers */
  KVL_STALL_GIVE_BACK,     /* give-back copies that hold up the batch */
  KVL_STALLS
};
enum { KVL_STALLS_IN_STEP = KVL_STALL_PREFETCH_WAIT + 1 };

#endif
