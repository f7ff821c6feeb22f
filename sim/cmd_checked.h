/* What run and replay say of the bytes that a plane read back. */
#ifndef KVL_SIM_CMD_CHECKED_H
#define KVL_SIM_CMD_CHECKED_H

#include "sim/run.h"

/* One line on stderr; nothing where nothing was read back. */
void kvl_cmd_tell_checked(const struct kvl_run_result *result);

#endif
