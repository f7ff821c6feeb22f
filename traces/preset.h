/* Names of the selection presets. hot: about 70 % of a step's selection is kept in the next; cold: 45 %. a and b are two fits of the same published points
 * that differ in the tail, where nothing is published. */
#ifndef KVL_TRACES_PRESET_H
#define KVL_TRACES_PRESET_H

enum { KVL_PRESETS = 4 };
extern const char *const kvl_preset_names[KVL_PRESETS]; /* hot-a, hot-b, cold-a, cold-b */

int kvl_preset_find(const char *name); /* its index, or -EINVAL */

#endif
