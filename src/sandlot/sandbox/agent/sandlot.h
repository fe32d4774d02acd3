/* Declarations shared by the files of this program. Read zygote.c first, then root.c, confine.c, agent.c. */
#ifndef SANDLOT_H
#define SANDLOT_H

#include "wire.h"

#include <sys/types.h>

#define MAX_TREES 8
#define MAX_LAYERS 128
#define MAX_WRITES 16
#define MAX_CGROUPS 8

/* One folder of a layer in the zygote's own mount namespace. */
struct layer {
    char path[48];
    bool image; /* part of the image; else frozen from an earlier sandbox */
    bool mapped; /* its owners, ids from 0 on, are to be shown as the sandbox's */
};

/* One overlay of the sandbox's root: its mount point and its layers, topmost first. */
struct tree {
    char *mountpoint;
    int num_layers;
    struct layer layers[MAX_LAYERS];
};

/* A line written into a cgroup folder before the sandbox's first process joins. */
struct cgroup_write {
    int cgroup;
    char *file, *value;
};

/* Everything about one sandbox that the host decides. */
struct spec {
    uint64_t number; /* by which the host asks about it later */
    char *hostname;
    uint64_t disk_bytes, inodes, data_bytes;
    uint32_t open_files, pids;
    int num_trees;
    struct tree trees[MAX_TREES];
    int num_writes;
    struct cgroup_write writes[MAX_WRITES];
    uint32_t seats; /* users who must not see each other's processes, nor take each other's share of them; 0: none */
};

/* Who the sandbox's root is outside. In `privileged` mode 65536 ids from `first_id` belong to sandboxes, or so many to each one if
 * `ranges` says so; else those that are mapped in the zygote's own user namespace: the user's own as 0, and what it was lent
 * (/etc/subuid) from 1 on. */
struct identity {
    bool privileged;
    bool ranges; /* the kernel can show a tmpfs with other owners (6.3), so what sandboxes write has ids from 0 on */
    uint32_t first_id, num_users, num_groups;
};

/* Directories the agent keeps open for `LIST changed`: they have no path inside the sandbox. */
struct root_view {
    int num_trees;
    struct {
        char mountpoint[256];
        int num_layers, num_images;
        int layers[MAX_LAYERS]; /* the upper first, then frozen layers, then the image's */
    } trees[MAX_TREES];
    uint32_t open_files; /* what a command may open; the agent itself needs more to walk deep folders. 0: as it is */
    uint32_t user_pids;  /* how many processes each user but root may have; 0: as many as all */
    int upper_mount; /* a detached mount of the uppers, handed to the host so that others can be stacked on it */
    int settings;    /* a detached, writable mount of /proc/sys; closed before the first command */
    int oom_score;   /* this process's own oom_score_adj, to be written; -1: none */
    int oom_base;    /* what it holds */
    bool count_sockets; /* no memory cgroup: the sockets of all commands are counted instead (guard.c) */
};

/* Each returns NULL, or the step that failed with errno set. */
const char *root_enter(struct spec *spec, const struct identity *identity, struct root_view *view, int user_namespace);
void hold_oom_score(struct root_view *view);
const char *confine(const struct spec *spec, const struct root_view *view, int user_namespace);
void filter_prepare(void);
const char *filter_install(void);
const char *guard_core_limit(void);

int zygote_run(int control);
void agent_run(int source, int sink, struct root_view *view, bool is_init) __attribute__((noreturn));

#endif
