/* Miss rate against hot-cache size: what a sequence of selections costs under LRU, FIFO, random and clairvoyant replacement.
 *
 * Feed the selections of one cache (or one selection point) step by step, then ask. A step is one transaction: its rows are looked up together, then
 * the misses take victims that the step itself does not use, so at a size of k every policy keeps exactly the last selection.
 * A selection that is larger than the cache keeps its first `hot_rows` rows. Repeated rows in a step count once. The clairvoyant policy evicts the row whose
 * next use is farthest away (Belady, 1966; optimal where every miss must be admitted). Everything is kept in memory: 4 bytes a selected row. */
#ifndef KVL_TRACES_CURVE_H
#define KVL_TRACES_CURVE_H

#include <stdint.h>

enum kvl_miss_policy { KVL_MISS_LRU, KVL_MISS_FIFO, KVL_MISS_RANDOM, KVL_MISS_CLAIRVOYANT, KVL_MISS_POLICIES };

struct kvl_miss_count {
  uint64_t misses, accesses; /* over steps warm_steps .. steps - 1 */
};

struct kvl_miss_curve;

struct kvl_miss_curve *kvl_miss_curve_create(void); /* NULL: no memory */
void kvl_miss_curve_destroy(struct kvl_miss_curve *curve);

/* Appends one step. Negative rows are ignored. -ENOMEM. */
int kvl_miss_curve_add(struct kvl_miss_curve *curve, const int32_t *rows, uint32_t count);
uint32_t kvl_miss_curve_steps(const struct kvl_miss_curve *curve);

/* Replays all steps through a cache of hot_rows rows; counts from step `warm_steps` on. `seed` is for KVL_MISS_RANDOM. -ENOMEM, -EINVAL (hot_rows 0). */
int kvl_miss_curve_replay(const struct kvl_miss_curve *curve, enum kvl_miss_policy policy, uint32_t hot_rows, uint32_t warm_steps,
                          uint64_t seed, struct kvl_miss_count *count);

/* Re-reference gaps of the accesses in steps warm_steps ..: bins 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64, more; the last bin counts first touches. */
enum { KVL_MISS_GAP_BINS = 9 };
int kvl_miss_curve_gaps(const struct kvl_miss_curve *curve, uint32_t warm_steps, uint64_t share[KVL_MISS_GAP_BINS]);

const char *kvl_miss_policy_name(enum kvl_miss_policy policy); /* "lru", "fifo", "random", "clairvoyant" */

#endif
