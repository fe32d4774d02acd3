/* Layers: read-only folders in the zygote's own mount namespace that sandboxes are stacked on. */
#define _GNU_SOURCE
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int umount2(const char *target, int flags);
#define DETACH 2 /* MNT_DETACH */

/* Files of an image belong to root on disk; inside they shall belong to the sandbox's root. Each sandbox maps them for itself
 * (root.c); here it is tried, on a copy, whether this file system can. */
bool layer_can_map(const char *path)
{
    int copy = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int fd = slot_user_namespace(zygote.identity.first_id, zygote.identity.first_id);
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)fd};
    bool can = copy >= 0 && fd >= 0 && !syscall(SYS_mount_setattr, copy, "", AT_EMPTY_PATH, &attributes, sizeof attributes);
    if (copy >= 0)
        close(copy);
    if (fd >= 0)
        close(fd);
    return can;
}

void layer_attach(int tree, bool is_image)
{
    uint32_t folder = 0;
    while (folder < MAX_FOLDERS && zygote.folders[folder])
        folder++;
    char path[32];
    snprintf(path, sizeof path, "/l/%u", folder);
    if (folder == MAX_FOLDERS || (mkdir(path, 0755) && errno != EEXIST) ||
        syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH)) {
        reply_failed("attach the layer");
        return;
    }
    bool mapped = is_image ? zygote.identity.privileged && layer_can_map(path) : zygote.identity.ranges;
    zygote.folders[folder] = mapped ? TO_BE_MAPPED : AS_IT_IS;
    reply_done(folder | (mapped ? 1ull << 32 : 0));
}

void layer_add_folder(struct reader *in)
{
    char *path = take_text(in);
    int tree = -1;
    if (!in->bad && !setns(zygote.host_mounts, CLONE_NEWNS)) {
        tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        int error = errno;
        if (setns(zygote.own_mounts, CLONE_NEWNS))
            _exit(1); /* a zygote in the wrong place must not make sandboxes */
        errno = error;
    }
    if (tree < 0) {
        reply_failed("open the image's folder");
    } else {
        struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
        if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &read_only, sizeof read_only))
            reply_failed("make the layer read-only");
        else
            layer_attach(tree, true);
        close(tree);
    }
    free(path);
}

void layer_drop(uint32_t folder)
{
    char path[32];
    snprintf(path, sizeof path, "/l/%u", folder);
    if (folder >= MAX_FOLDERS || !zygote.folders[folder] || umount2(path, DETACH)) {
        reply_failed("drop the layer");
        return;
    }
    zygote.folders[folder] = FREE;
    reply_done(folder);
}
