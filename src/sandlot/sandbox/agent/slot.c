/* Slots: what is expensive to make and safe to reuse, a user namespace and cgroup folders. One sandbox at a time uses a slot. */
#define _GNU_SOURCE
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each slot's user namespace is made by an id of its own, so that per-user quotas are not shared. */
#define OWNER_OFFSET (65536u * MAX_SLOTS)

/* The host's id of root in a slot's sandboxes. Ranges of their own keep what the kernel counts by user apart. */
uint32_t slot_first_id(int slot)
{
    return zygote.identity.first_id + (zygote.identity.ranges ? 65536u * (uint32_t)slot : 0);
}

int write_file(int folder, const char *path, const char *text)
{
    int fd = openat(folder, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t count = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return count < 0 ? -1 : 0;
}

static int write_map(pid_t pid, const char *file, uint32_t first_id, uint32_t count)
{
    char path[48], map[96];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    if (zygote.identity.privileged)
        snprintf(map, sizeof map, "0 %u %u", first_id, count);
    else if (count > 1) /* a line must lie within one line of the zygote's own map: its own id, and those it was lent */
        snprintf(map, sizeof map, "0 0 1\n1 1 %u", count - 1);
    else
        snprintf(map, sizeof map, "0 0 1");
    return write_file(AT_FDCWD, path, map);
}

static int map_ids(pid_t pid, uint32_t first_id)
{
    bool failed = write_map(pid, "uid_map", first_id, zygote.identity.num_users) ||
                  write_map(pid, "gid_map", first_id, zygote.identity.num_groups);
    return failed ? -1 : 0;
}

/* A user namespace is born with a process; this one only lives until the namespace is held by a file descriptor. */
int slot_user_namespace(uint32_t owner, uint32_t first_id)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC))
        return -1;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        if (zygote.identity.privileged && (setresgid(owner, owner, owner) || setresuid(owner, owner, owner)))
            _exit(1);
        /* The signal is set after the last change of credentials, which clears it; the zygote may have been killed before that. */
        if (unshare(CLONE_NEWUSER) || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
            _exit(1);
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) || write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char byte, path[48];
    close(ready[1]);
    int fd = -1;
    if (pid > 0 && read(ready[0], &byte, 1) == 1 && map_ids(pid, first_id) == 0) {
        snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    int error = errno;
    close(ready[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    errno = error;
    return fd;
}

void slot_remove(int slot)
{
    char name[16];
    snprintf(name, sizeof name, "s%d", slot);
    for (int i = 0; i < zygote.num_cgroups; i++)
        unlinkat(zygote.cgroups[i], name, AT_REMOVEDIR);
    free(zygote.slots[slot].limits);
    zygote.slots[slot].limits = NULL;
}

/* The number in a file of one of this slot's cgroups: the one after `key`, or the first if there is none. 0 without the file. */
static uint64_t read_count(int slot, const char *file, const char *key)
{
    for (int i = 0; i < zygote.num_cgroups; i++) {
        char path[48], text[512] = "\n";
        snprintf(path, sizeof path, "s%d/%s", slot, file);
        int fd = openat(zygote.cgroups[i], path, O_RDONLY | O_CLOEXEC);
        ssize_t count = fd >= 0 ? read(fd, text + 1, sizeof text - 2) : -1;
        if (fd >= 0)
            close(fd);
        if (count <= 0)
            continue;
        const char *found = strstr(text, key);
        return found ? strtoull(found + strlen(key), NULL, 10) : 0;
    }
    return 0;
}

static struct memory_count count_memory(int slot)
{
    return (struct memory_count){
        .kills = read_count(slot, "memory.oom_control", "\noom_kill ") + read_count(slot, "memory.events", "\noom_kill "),
        .at_limit = read_count(slot, "memory.events", "\noom "),
    };
}

/* Version 1 has no count of its own limit that every kernel keeps, but the highest use, which can be reset. */
static bool was_full(int slot)
{
    uint64_t limit = read_count(slot, "memory.limit_in_bytes", "\n");
    return limit && read_count(slot, "memory.max_usage_in_bytes", "\n") >= limit - limit / 16;
}

void slot_begin_count(int slot)
{
    char path[48];
    snprintf(path, sizeof path, "s%d/memory.max_usage_in_bytes", slot);
    for (int i = 0; i < zygote.num_cgroups; i++)
        write_file(zygote.cgroups[i], path, "0");
    zygote.slots[slot].before = count_memory(slot);
    if (zygote.slots[slot].is_low)
        ending_weigh(slot, false);
}

/* True if the kernel killed a process of this sandbox at the sandbox's own limit. It also kills when the memory of a cgroup above,
 * or of the whole machine, runs out: that is not what the agent did. */
bool slot_was_out_of_memory(int slot)
{
    const struct memory_count before = zygote.slots[slot].before, now = count_memory(slot);
    return now.kills > before.kills && (now.at_limit > before.at_limit || was_full(slot));
}

int slot_find(uint64_t sandbox)
{
    for (int slot = 0; slot < zygote.num_slots; slot++)
        if (zygote.slots[slot].pid && zygote.slots[slot].sandbox == sandbox)
            return slot;
    return -1;
}

const char *slot_limit(int slot, const struct spec *spec)
{
    struct buffer lines = {0};
    for (int i = 0; i < spec->num_writes; i++) {
        put_u32(&lines, (uint32_t)spec->writes[i].cgroup);
        put_text(&lines, spec->writes[i].file);
        put_text(&lines, spec->writes[i].value);
    }
    char *limits = calloc(1, 2 * (lines.end + 1));
    for (size_t i = 0; limits && i < lines.end; i++)
        sprintf(limits + 2 * i, "%02x", lines.data[i]);
    free(lines.data);
    if (zygote.slots[slot].limits && limits && !strcmp(zygote.slots[slot].limits, limits)) {
        free(limits);
        return NULL;
    }
    slot_remove(slot);
    char path[160];
    for (int i = 0; i < zygote.num_cgroups; i++) {
        snprintf(path, sizeof path, "s%d", slot);
        if (mkdirat(zygote.cgroups[i], path, 0755) && errno != EEXIST)
            return "make a cgroup";
    }
    for (int i = 0; i < spec->num_writes; i++) {
        snprintf(path, sizeof path, "s%d/%s", slot, spec->writes[i].file);
        if (write_file(zygote.cgroups[spec->writes[i].cgroup], path, spec->writes[i].value))
            return "set a cgroup limit";
    }
    zygote.slots[slot].limits = limits;
    return NULL;
}

/* The arguments of clone3, which older headers lack. */
struct clone_request {
    uint64_t flags, pidfd, child, parent, signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
#define INTO_CGROUP 0x200000000ull /* CLONE_INTO_CGROUP */

static int open_version_2(int slot)
{
    char path[48];
    for (int i = 0; i < zygote.num_cgroups; i++) {
        snprintf(path, sizeof path, "s%d/tasks", slot);
        if (!faccessat(zygote.cgroups[i], path, F_OK, 0))
            continue;
        snprintf(path, sizeof path, "s%d", slot);
        return openat(zygote.cgroups[i], path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return -1;
}

/* The first process of a sandbox. Born in a cgroup of version 2, it need not join it later, which takes milliseconds: joining by
 * `cgroup.procs` waits for every processor. `joined` says whether that was possible. */
pid_t slot_clone(int slot, bool *joined)
{
    int cgroup = open_version_2(slot);
    struct clone_request request = {.flags = CLONE_NEWNS | CLONE_NEWPID | INTO_CGROUP, .signal = SIGCHLD, .cgroup = (uint64_t)cgroup};
    *joined = true; /* before the clone: the new process must find it */
    pid_t pid = cgroup < 0 ? -1 : (pid_t)syscall(SYS_clone3, &request, sizeof request);
    if (cgroup >= 0 && pid)
        close(cgroup);
    if (pid >= 0)
        return pid;
    *joined = false;
    return (pid_t)syscall(SYS_clone, CLONE_NEWNS | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
}

/* `tasks` (version 1) moves one thread, and skips the global lock that `cgroup.procs` waits for. */
const char *slot_join(int slot, bool joined)
{
    char path[48];
    for (int i = 0; i < zygote.num_cgroups; i++) {
        snprintf(path, sizeof path, "s%d/tasks", slot);
        if (!write_file(zygote.cgroups[i], path, "0"))
            continue;
        snprintf(path, sizeof path, "s%d/cgroup.procs", slot);
        if (errno != ENOENT || (!joined && write_file(zygote.cgroups[i], path, "0")))
            return "join a cgroup";
    }
    return NULL;
}

int slot_take(void)
{
    int slot = 0;
    while (slot < zygote.num_slots && zygote.slots[slot].pid)
        slot++;
    if (slot == MAX_SLOTS) {
        errno = EAGAIN;
        return -1;
    }
    if (slot == zygote.num_slots) {
        int fd = slot_user_namespace(zygote.identity.first_id + OWNER_OFFSET + (uint32_t)slot, slot_first_id(slot));
        if (fd < 0)
            return -1;
        zygote.slots[zygote.num_slots++] = (struct slot){.user_namespace = fd};
    }
    return slot;
}
