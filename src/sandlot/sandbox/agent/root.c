/* The sandbox's file system: overlays over read-only layers, with everything it writes in one small tmpfs.
 *
 * Runs as the first process of a new mount and pid namespace, while it still has the zygote's power over mounts. The zygote's own
 * root is a bare tmpfs (see zygote.c), so the paths that remain visible in /proc/mounts (/l/3, /s/u0) say nothing of the host:
 *
 *   /l/N   layers, read-only        /s   this sandbox's tmpfs: u0 w0 (upper, work) for tree 0, ..., shm
 *   /m     the new root             /d   a ready /dev         /e   an empty folder
 *
 * When the last process dies the kernel drops mounts and tmpfs: there is nothing to clean up on the host.
 */
#define _GNU_SOURCE
#include "sandlot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* sys/mount.h and linux/mount.h collide in older libcs; these two are all that is needed of the former. */
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
int umount2(const char *target, int flags);
#define DETACH 2 /* MNT_DETACH */

#define MAX_TERMINALS 64 /* of the few thousand that all sandboxes and the host share */

static const char *const HIDDEN_FILES[] = {
    "/m/proc/kcore", "/m/proc/keys", "/m/proc/timer_list", "/m/proc/sched_debug", "/m/proc/interrupts", "/m/proc/kallsyms",
    "/m/proc/sysrq-trigger", "/m/proc/kmsg", "/m/proc/config.gz", "/m/proc/vmallocinfo", "/m/proc/modules", "/m/proc/kpagecount",
    /* which machine this is, its disks and how it was started */
    "/m/proc/cmdline", "/m/proc/bootconfig", "/m/proc/partitions", "/m/proc/diskstats", "/m/proc/swaps", "/m/proc/mdstat",
    "/m/proc/iomem", "/m/proc/ioports", "/m/proc/slabinfo", "/m/proc/pagetypeinfo", "/m/proc/key-users",
    "/m/proc/sys/kernel/random/boot_id",
    /* what its other sandboxes do; meminfo, stat and loadavg tell too, but programs need them */
    "/m/proc/vmstat", "/m/proc/zoneinfo",
};
static const char *const HIDDEN_FOLDERS[] = {"/m/proc/acpi", "/m/proc/asound", "/m/proc/scsi", "/m/proc/driver", "/m/proc/pressure"};
static const char *const READ_ONLY[] = {"/m/proc/sys", "/m/proc/irq", "/m/proc/bus", "/m/proc/fs"};

/* An image may have a link where a mount belongs; following it would put the mount somewhere else. */
static bool is_folder(const char *path)
{
    struct stat about;
    if (lstat(path, &about))
        return false;
    errno = ENOTDIR;
    return S_ISDIR(about.st_mode);
}

static int remount_read_only(const char *path)
{
    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL))
        return errno == ENOENT ? 0 : -1;
    return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* A mount of a folder whose owners, ids from 0 on, appear as the sandbox's. */
static int mount_mapped(const char *folder, const char *target, int user_namespace)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user_namespace};
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int failed = tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes) ||
                 syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
    int error = errno;
    if (tree >= 0)
        close(tree);
    errno = error;
    return failed ? -1 : 0;
}

static const char *map_layers(struct spec *spec, int user_namespace)
{
    int count = 0;
    for (int i = 0; i < spec->num_trees; i++)
        for (int j = 0; j < spec->trees[i].num_layers; j++) {
            struct layer *layer = &spec->trees[i].layers[j];
            char target[32];
            snprintf(target, sizeof target, "/i/%d", count++);
            if (!layer->mapped)
                continue;
            if ((mkdir(target, 0755) && errno != EEXIST) || mount_mapped(layer->path, target, user_namespace))
                return "give the image's files to the sandbox";
            snprintf(layer->path, sizeof layer->path, "%s", target);
        }
    return NULL;
}

static const char *make_storage(const struct spec *spec, const struct identity *identity, struct root_view *view, int user_namespace)
{
    char options[128];
    snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=755", (unsigned long long)spec->disk_bytes,
             (unsigned long long)spec->inodes);
    if (mount("tmpfs", "/s", "tmpfs", MS_NOSUID | MS_NODEV, options))
        return "mount the sandbox's tmpfs";
    uint32_t owner = identity->privileged && !identity->ranges ? identity->first_id : 0;
    for (int i = 0; i < spec->num_trees; i++) {
        char upper[16], work[16];
        snprintf(upper, sizeof upper, "/s/u%d", i);
        snprintf(work, sizeof work, "/s/w%d", i);
        if (mkdir(upper, 0755) || mkdir(work, 0755) || chown(upper, owner, owner))
            return "make the upper folders";
    }
    if (mkdir("/s/shm", 01777) || chmod("/s/shm", 01777) || chown("/s/shm", owner, owner))
        return "make /dev/shm";
    view->upper_mount = (int)syscall(SYS_open_tree, AT_FDCWD, "/s", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (view->upper_mount < 0)
        return "hold the upper layer";
    return identity->ranges && mount_mapped("/s", "/s", user_namespace) ? "give the written files to the sandbox" : NULL;
}

static const char *mount_tree(const struct spec *spec, int index, const struct identity *identity)
{
    const struct tree *tree = &spec->trees[index];
    char options[4096], target[300];
    int at = snprintf(options, sizeof options, "%supperdir=/s/u%d,workdir=/s/w%d,volatile,redirect_dir=nofollow,lowerdir=",
                      identity->privileged ? "" : "userxattr,", index, index);
    if (!identity->privileged) /* redirects are never followed with userxattr, and naming the option is refused */
        at = snprintf(options, sizeof options, "userxattr,upperdir=/s/u%d,workdir=/s/w%d,volatile,lowerdir=", index, index);
    for (int i = 0; i < tree->num_layers && at < (int)sizeof options; i++)
        at += snprintf(options + at, sizeof options - (size_t)at, "%s%s", i ? ":" : "", tree->layers[i].path);
    if (at >= (int)sizeof options) {
        errno = E2BIG;
        return "stack so many layers";
    }
    snprintf(target, sizeof target, "/m%s", strcmp(tree->mountpoint, "/") ? tree->mountpoint : "");
    if (!is_folder(target))
        return "find a real folder in the image to mount an overlay on";
    return mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options) ? "mount the overlay" : NULL;
}

static int open_folder(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); }

static const char *open_view(const struct spec *spec, struct root_view *view)
{
    view->num_trees = spec->num_trees;
    view->open_files = spec->open_files;
    view->count_sockets = spec->data_bytes != 0;
    view->user_pids = spec->seats ? spec->pids / (spec->seats + 1) : 0;
    for (int i = 0; i < spec->num_trees; i++) {
        const struct tree *tree = &spec->trees[i];
        char upper[16];
        snprintf(upper, sizeof upper, "/s/u%d", i);
        snprintf(view->trees[i].mountpoint, sizeof view->trees[i].mountpoint, "%s", tree->mountpoint);
        view->trees[i].layers[0] = open_folder(upper);
        view->trees[i].num_layers = 1;
        view->trees[i].num_images = 0;
        for (int j = 0; j < tree->num_layers && j < MAX_LAYERS - 1; j++) {
            view->trees[i].layers[j + 1] = open_folder(tree->layers[j].path);
            view->trees[i].num_images += tree->layers[j].image;
            if (view->trees[i].layers[view->trees[i].num_layers++] < 0)
                return "open a layer";
        }
    }
    return NULL;
}

static const char *mount_devices(const struct identity *identity)
{
    char options[112];
    uint32_t tty_group = identity->privileged ? identity->first_id + 5 : 0;
    snprintf(options, sizeof options, "newinstance,ptmxmode=0666,mode=0620,gid=%u,max=%d", tty_group, MAX_TERMINALS);
    if (!is_folder("/m/dev"))
        return "find a real /dev in the image";
    if (mount("/d", "/m/dev", NULL, MS_BIND | MS_REC, NULL))
        return "mount /dev";
    if (mount("devpts", "/m/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options))
        return "mount /dev/pts";
    return mount("/s/shm", "/m/dev/shm", NULL, MS_BIND, NULL) ? "mount /dev/shm" : NULL;
}

/* System V shared memory, semaphores and messages live on without a process. They would fill the memory limit with no process left
 * that could be killed for it: so shared memory ends with its processes, and there are few of the others. */
static const char *limit_ipc(const struct spec *spec)
{
    char pages[32];
    snprintf(pages, sizeof pages, "%llu", (unsigned long long)spec->data_bytes / (unsigned long long)getpagesize());
    const char *const settings[][2] = {
        {"/m/proc/sys/kernel/shm_rmid_forced", "1"},
        {"/m/proc/sys/kernel/sem", "250 32000 100 128"},
        {"/m/proc/sys/kernel/msgmni", "128"},
        {spec->data_bytes ? "/m/proc/sys/kernel/shmall" : NULL, pages}, /* with a memory cgroup it is counted there */
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!settings[i][0])
            continue;
        int fd = open(settings[i][0], O_WRONLY | O_CLOEXEC);
        ssize_t written = fd >= 0 ? write(fd, settings[i][1], strlen(settings[i][1])) : -1;
        if (fd >= 0)
            close(fd);
        if (written < 0)
            return "limit shared memory, semaphores and messages";
    }
    return NULL;
}

/* Most of these are out of reach already, because the sandbox's root is not their owner. Hiding them is a second protection. */
static const char *mount_proc(const struct spec *spec, const struct identity *identity, struct root_view *view)
{
    char options[48]; /* seats see their own processes only; the sandbox's root, and so process 1, sees all */
    snprintf(options, sizeof options, "hidepid=2,gid=%u", identity->privileged ? identity->first_id : 0);
    if (!is_folder("/m/proc"))
        return "find a real /proc in the image";
    if (mount("proc", "/m/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, spec->seats ? options : NULL))
        return "mount /proc";
    for (size_t i = 0; i < sizeof HIDDEN_FILES / sizeof *HIDDEN_FILES; i++)
        if (mount("/d/null", HIDDEN_FILES[i], NULL, MS_BIND, NULL) && errno != ENOENT)
            return "hide a file of /proc";
    for (size_t i = 0; i < sizeof HIDDEN_FOLDERS / sizeof *HIDDEN_FOLDERS; i++)
        if (mount("/e", HIDDEN_FOLDERS[i], NULL, MS_BIND, NULL) && errno != ENOENT)
            return "hide a folder of /proc";
    const char *failed = limit_ipc(spec);
    if (failed)
        return failed;
    view->settings = (int)syscall(SYS_open_tree, AT_FDCWD, "/m/proc/sys", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (view->settings < 0)
        return "hold /proc/sys";
    for (size_t i = 0; i < sizeof READ_ONLY / sizeof *READ_ONLY; i++)
        if (remount_read_only(READ_ONLY[i]))
            return "make /proc/sys read-only";
    /* Nothing here may be written, a process's own oom_score_adj above all: see process.c. */
    return mount(NULL, "/m/proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)
               ? "make /proc read-only" : NULL;
}

/* Natively through the host's /proc, while it is still there: in the sandbox's own this file cannot be written. */
void hold_oom_score(struct root_view *view)
{
    char text[16] = "";
    view->oom_score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (view->oom_score >= 0 && read(view->oom_score, text, sizeof text - 1) > 0)
        view->oom_base = atoi(text);
}

/* An overlay makes whiteouts and parent folders with the id of the process that mounted it. In a sandbox with its own range of ids
 * that must be the sandbox's root. Only the id changes; the capabilities stay. */
static const char *mount_trees(const struct spec *spec, const struct identity *identity)
{
    const char *failed = NULL;
    if (identity->ranges && (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) || setfsuid(identity->first_id) < 0 ||
                             setfsgid(identity->first_id) < 0))
        return "mount as the sandbox's root";
    for (int i = 0; !failed && i < spec->num_trees; i++)
        failed = mount_tree(spec, i, identity);
    int error = errno;
    if (identity->ranges) {
        setfsgid(0);
        setfsuid(0);
        if (prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) && !failed)
            return "stop mounting as the sandbox's root";
    }
    errno = error;
    return failed;
}

const char *root_enter(struct spec *spec, const struct identity *identity, struct root_view *view, int user_namespace)
{
    if (unshare(CLONE_NEWIPC)) /* here and not in confine.c: its settings are made while /proc/sys can still be written */
        return "make an IPC namespace";
    hold_oom_score(view);
    const char *failed = make_storage(spec, identity, view, user_namespace);
    if (!failed)
        failed = map_layers(spec, user_namespace);
    if (!failed)
        failed = mount_trees(spec, identity);
    if (!failed)
        failed = open_view(spec, view);
    if (!failed)
        failed = mount_proc(spec, identity, view);
    if (!failed)
        failed = mount_devices(identity);
    if (failed)
        return failed;
    if (chdir("/m") || syscall(SYS_pivot_root, ".", ".") || umount2(".", DETACH) || chdir("/"))
        return "enter the new root";
    return NULL;
}
