/* A store while it is made: under a name of its own beside the store's (STORE.RANDOM.part), until it is whole and gets the store's name. */
#ifndef KVL_RESULTS_STORE_PART_H
#define KVL_RESULTS_STORE_PART_H

struct kvl_store_part {
  char *path; /* an empty file, to be opened as a store */
  int file;   /* holds a lock as long as the maker lives: a part that can be locked is left over */
};

/* Makes an empty part for the store at `store`. 0 or a negative errno; on 0, kvl_store_part_end belongs to it. */
int kvl_store_part_make(struct kvl_store_part *part, const char *store);
/* Removes what is still there under the part's name. When nobody in this process has the part open: it may be the store by now. */
void kvl_store_part_end(struct kvl_store_part *part);

/* Removes what killed makers of this store have left: parts that nobody holds, and that are empty or carry our application id. Called before the store is opened. Where files cannot
 * be locked, nobody can tell, and everything stays. */
void kvl_store_part_clear(const char *store);

/* Is there a log or journal for a store that is not there itself? SQLite throws it away beside an empty file, and would take it for that of a whole one. */
int kvl_store_part_has_log(const char *store);

#endif
