/* Ending a sandbox from outside, and its share of the processors while nobody waits for it.
 *
 * Process 1 can end the others, but it lives among them: thousands of processes that fork compete with it. From here the kernel
 * ends all of them, process 1 too, without asking any: by `cgroup.kill` (version 2, also beside version 1), or frozen, killed and
 * thawed (version 1). Without either only process 1 is killed here, and the kernel kills the others when it exits. */
#define _GNU_SOURCE
#include "zygote.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FREEZE_ROUNDS 20 /* of a millisecond, in which the zygote serves nobody else */

static bool write_slot(int tree, int slot, const char *file, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "s%d/%s", slot, file);
    return !write_file(tree, path, text);
}

static FILE *read_slot(int tree, int slot, const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "s%d/%s", slot, file);
    int fd = openat(tree, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

/* An idle cgroup runs when no other wants to; where there is none, the lowest weight. Every cgroup begins with 1024 or 100. */
void ending_weigh(int slot, bool low)
{
    for (int i = 0; i < zygote.num_cgroups; i++) {
        int tree = zygote.cgroups[i];
        if (write_slot(tree, slot, "cpu.idle", low ? "1" : "0"))
            continue;
        write_slot(tree, slot, "cpu.shares", low ? "2" : "1024");
        write_slot(tree, slot, "cpu.weight", low ? "1" : "100");
    }
    zygote.slots[slot].is_low = low;
}

static bool is_frozen(int tree, int slot)
{
    FILE *file = read_slot(tree, slot, "freezer.state");
    bool frozen = file && fgetc(file) == 'F' && fgetc(file) == 'R' && fgetc(file) == 'O'; /* FROZEN, not FREEZING */
    if (file)
        fclose(file);
    return frozen;
}

/* The numbers that are listed belong to them for certain only while all of them are frozen. */
static bool kill_frozen(int tree, int slot)
{
    struct timespec pause = {0, 1000000};
    if (!write_slot(tree, slot, "freezer.state", "FROZEN"))
        return false;
    bool frozen = is_frozen(tree, slot);
    for (int round = 0; round < FREEZE_ROUNDS && !frozen; round++) {
        nanosleep(&pause, NULL);
        frozen = is_frozen(tree, slot);
    }
    FILE *list = frozen ? read_slot(tree, slot, "cgroup.procs") : NULL;
    int pid;
    while (list && fscanf(list, "%d", &pid) == 1)
        kill(pid, SIGKILL);
    if (list)
        fclose(list);
    write_slot(tree, slot, "freezer.state", "THAWED");
    return frozen;
}

/* What is killed still has to run to its end: at once, without the sandbox's limit. */
static void lift_limit(int slot)
{
    for (int i = 0; i < zygote.num_cgroups; i++) {
        write_slot(zygote.cgroups[i], slot, "cpu.cfs_quota_us", "-1");
        write_slot(zygote.cgroups[i], slot, "cpu.max", "max");
    }
    if (zygote.slots[slot].is_low)
        ending_weigh(slot, false);
}

/* The slot's folders are made anew for the next sandbox (`is_held`). */
void ending_end(int slot)
{
    bool killed = false;
    for (int i = 0; i < zygote.num_cgroups && !killed; i++)
        killed = write_slot(zygote.cgroups[i], slot, "cgroup.kill", "1") || kill_frozen(zygote.cgroups[i], slot);
    kill(zygote.slots[slot].pid, SIGKILL);
    lift_limit(slot);
    zygote.slots[slot].is_held = true;
}
