/* A file system for SQLite that fails when told to: the platform's own one with a counter in front of everything that changes a file. */
#ifndef KVL_TESTS_RESULTS_FAULT_VFS_H
#define KVL_TESTS_RESULTS_FAULT_VFS_H

struct fault_vfs {
  long countdown;  /* the change that fails: 1 is the next one; 0: none */
  int sticky;      /* all changes after it fail too, as on a disk that stays full */
  int kill;        /* instead of failing, the process is killed */
  int no_shared;   /* no shared memory: SQLite cannot have its write-ahead log */
  int no_sync;     /* do not wait for the disk; a test that dies with the process needs no more */
  long changes;    /* seen so far */
  long failed;     /* failed so far */
};
extern struct fault_vfs fault_vfs;

/* Makes it SQLite's default. */
void fault_vfs_install(void);

#endif
