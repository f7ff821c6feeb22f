/* Who writes a run. A process id alone proves nothing: ids are reused, reset by a boot, and mean different processes in different containers. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "results/store_internal.h"

/* First line of a small file, without its end; empty when it cannot be read. */
static void first_line(const char *path, char *text, size_t size)
{
  text[0] = '\0';
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    return;
  }
  if (fgets(text, (int)size, file) != NULL) {
    text[strcspn(text, "\n")] = '\0';
  }
  (void)fclose(file);
}

/* Field 22 of /proc/PID/stat: the start time in clock ticks since boot. The command's name, field 2, may hold spaces and brackets, so count
 * from its last bracket. 0: no such process; -1: it exists (or may), start not known. */
static int64_t process_start(int64_t process)
{
  char path[64], line[1024];
  (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
  first_line(path, line, sizeof line);
  char *at = strrchr(line, ')');
  if (at != NULL && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0)) {
    return 0; /* dead, waiting for its parent to notice */
  }
  for (int field = 2; at != NULL && field < 22; field++) {
    at = strchr(at + 1, ' ');
  }
  if (at != NULL) {
    return strtoll(at, NULL, 10);
  }
  return kill((pid_t)process, 0) != 0 && errno == ESRCH ? 0 : -1;
}

void kvl_store_owner_self(struct kvl_store_owner *owner)
{
  memset(owner, 0, sizeof *owner);
  struct utsname name;
  if (uname(&name) == 0) {
    (void)snprintf(owner->host, sizeof owner->host, "%.71s", name.nodename);
  }
  first_line("/proc/sys/kernel/random/boot_id", owner->boot, sizeof owner->boot);
  ssize_t length = readlink("/proc/self/ns/pid", owner->space, sizeof owner->space - 1);
  owner->space[length > 0 ? length : 0] = '\0';
  owner->process = getpid();
  owner->process_start = process_start(owner->process);
}

enum kvl_stored_status kvl_store_owner_status(const struct kvl_store_owner *owner, const struct kvl_store_owner *self)
{
  if (strcmp(owner->boot, self->boot) != 0) {
    return strcmp(owner->host, self->host) == 0 ? KVL_STORED_INCOMPLETE : KVL_STORED_UNKNOWN;
  }
  if (strcmp(owner->space, self->space) != 0 || (self->space[0] == '\0' && strcmp(owner->host, self->host) != 0)) {
    return KVL_STORED_UNKNOWN;
  }
  int64_t start = process_start(owner->process);
  int same = start != 0 && (start == owner->process_start || start < 0 || owner->process_start <= 0);
  return same ? KVL_STORED_RUNNING : KVL_STORED_INCOMPLETE;
}

void kvl_store_machine(char *text, size_t size)
{
  struct utsname name;
  char line[256], cpu[160] = "";
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
      (void)snprintf(cpu, sizeof cpu, ", %.150s", colon + 1 + strspn(colon + 1, " \t"));
      cpu[strcspn(cpu, "\n")] = '\0';
      break;
    }
  }
  if (file != NULL) {
    (void)fclose(file);
  }
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (uname(&name) != 0) {
    (void)snprintf(text, size, "unknown%s", cpu);
    return;
  }
  (void)snprintf(text, size, "%s %s %s, %ld CPU%s%s", name.sysname, name.release, name.machine, cpus, cpus == 1 ? "" : "s", cpu);
}
