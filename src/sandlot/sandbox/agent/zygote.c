/* The zygote: a small process that makes sandboxes by cloning itself.
 *
 * It serves the host over one SEQPACKET socket. When that closes it exits, and every sandbox with it. As root it has root's
 * privileges; as an ordinary user it first enters its own user namespace, in which it is root, and then does the same. It runs in a
 * bare mount namespace, because every sandbox starts as a copy of it: what is not there cannot leak, and need not be copied. A
 * second mount namespace keeps the host's view, from which layers are taken.
 */
#define _GNU_SOURCE
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
int umount2(const char *target, int flags);
#define DETACH 2 /* MNT_DETACH */

struct zygote zygote;

static void reply(struct buffer *out)
{
    send(zygote.control, out->data + out->start, out->end - out->start, MSG_NOSIGNAL);
    free(out->data);
}

void reply_failed(const char *what)
{
    struct buffer out = {0};
    frame_failed(&out, 0, errno, what);
    reply(&out);
}

void reply_done(uint64_t value)
{
    struct buffer out = {0};
    frame_done(&out, 0, value);
    reply(&out);
}

/* -- its own place ------------------------------------------------------------------------------------------------ */

/* One /dev for all sandboxes, read-only: real nodes where they may be made, the host's own nodes bound where not. */
static const char *make_devices(void)
{
    static const struct { const char *name; int minor; int major; } NODES[] = {
        {"null", 3, 1}, {"zero", 5, 1}, {"full", 7, 1}, {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5},
    };
    static const char *const LINKS[][2] = {
        {"/proc/self/fd", "d/fd"}, {"/proc/self/fd/0", "d/stdin"}, {"/proc/self/fd/1", "d/stdout"},
        {"/proc/self/fd/2", "d/stderr"}, {"pts/ptmx", "d/ptmx"},
    };
    if (mkdir("d", 0755) || mount("tmpfs", "d", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k"))
        return "make /dev";
    if (mkdir("d/pts", 0755) || mkdir("d/shm", 01777))
        return "make folders in /dev";
    for (size_t i = 0; i < sizeof NODES / sizeof *NODES; i++) {
        char path[32], host[32];
        snprintf(path, sizeof path, "d/%s", NODES[i].name);
        snprintf(host, sizeof host, "/dev/%s", NODES[i].name);
        if (!mknod(path, S_IFCHR | 0666, makedev((unsigned)NODES[i].major, (unsigned)NODES[i].minor)) && !chmod(path, 0666))
            continue;
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0 || close(fd) || mount(host, path, NULL, MS_BIND, NULL))
            return "put a device into /dev";
    }
    for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++)
        if (symlink(LINKS[i][0], LINKS[i][1]))
            return "put a link into /dev";
    return mount(NULL, "d", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) ? "seal /dev" : NULL;
}

static const char *make_own_place(void)
{
    zygote.user = geteuid();
    zygote.group = getegid();
    zygote.identity.privileged = zygote.user == 0 && unshare(CLONE_NEWNS) == 0;
    zygote.identity.num_users = zygote.identity.num_groups = 65536;
    if (zygote.identity.privileged && setgroups(0, NULL))
        return "drop groups";
    const char *failed = zygote.identity.privileged ? NULL : loan_enter_user_namespace();
    if (failed)
        return failed;
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL)) /* slave: what the host mounts later can still become a layer */
        return "detach from the host's mounts";
    zygote.host_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return "make the zygote's mount namespace";
    zygote.own_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    zygote.itself = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (zygote.host_mounts < 0 || zygote.own_mounts < 0)
        return "hold the mount namespaces";
    if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID, "mode=755,size=1m") || chdir("/tmp"))
        return "make the zygote's root";
    if (mkdir("l", 0755) || mkdir("i", 0755) || mkdir("s", 0755) || mkdir("m", 0755) || mkdir("e", 0555) || mkdir("proc", 0555))
        return "make the zygote's folders";
    if (mount("e", "e", NULL, MS_BIND, NULL) || mount(NULL, "e", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL))
        return "seal the empty folder";
    if (mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL))
        return "keep /proc";
    failed = make_devices();
    if (failed)
        return failed;
    if (syscall(SYS_pivot_root, ".", ".") || umount2(".", DETACH) || chdir("/"))
        return "enter the zygote's root";
    zygote.identity.ranges = zygote.identity.privileged && layer_can_map("/e");
    return NULL;
}

/* -- sandboxes ---------------------------------------------------------------------------------------------------- */

static bool take_spec(struct reader *in, struct spec *spec)
{
    spec->number = take_u64(in);
    spec->hostname = take_text(in);
    spec->disk_bytes = take_u64(in);
    spec->inodes = take_u64(in);
    spec->data_bytes = take_u64(in);
    spec->open_files = take_u32(in);
    spec->pids = take_u32(in);
    spec->num_trees = (int)take_u32(in);
    for (int i = 0; i < spec->num_trees && i < MAX_TREES && !in->bad; i++) {
        struct tree *tree = &spec->trees[i];
        tree->mountpoint = take_text(in);
        tree->num_layers = (int)take_u32(in);
        for (int j = 0; j < tree->num_layers && j < MAX_LAYERS - 1 && !in->bad; j++) {
            uint32_t folder = take_u32(in);
            tree->layers[j].image = take_u8(in);
            char upper[16] = "";
            if (!tree->layers[j].image)
                snprintf(upper, sizeof upper, "/u%d", i);
            snprintf(tree->layers[j].path, sizeof tree->layers[j].path, "/l/%u%s", folder, upper);
            in->bad |= folder >= MAX_FOLDERS || zygote.folders[folder] == FREE;
            tree->layers[j].mapped = !in->bad && zygote.folders[folder] == TO_BE_MAPPED;
        }
        in->bad |= tree->num_layers < 1 || tree->num_layers >= MAX_LAYERS;
    }
    spec->num_writes = (int)take_u32(in);
    for (int i = 0; i < spec->num_writes && i < MAX_WRITES && !in->bad; i++) {
        spec->writes[i].cgroup = (int)take_u32(in);
        spec->writes[i].file = take_text(in);
        spec->writes[i].value = take_text(in);
        in->bad |= spec->writes[i].cgroup < 0 || spec->writes[i].cgroup >= zygote.num_cgroups;
    }
    spec->seats = take_u32(in);
    return !in->bad && spec->num_trees >= 1 && spec->num_trees <= MAX_TREES && spec->num_writes <= MAX_WRITES;
}

static void free_spec(struct spec *spec)
{
    free(spec->hostname);
    for (int i = 0; i < spec->num_trees && i < MAX_TREES; i++)
        free(spec->trees[i].mountpoint);
    for (int i = 0; i < spec->num_writes && i < MAX_WRITES; i++) {
        free(spec->writes[i].file);
        free(spec->writes[i].value);
    }
}

static void send_failed(int socket, const char *what)
{
    struct buffer out = {0};
    frame_failed(&out, 0, errno, what);
    send(socket, out.data, out.end, MSG_NOSIGNAL);
    free(out.data);
}

/* It ends with the zygote by a signal, which is set last; the zygote may have been killed before that. Process 1 of a namespace
 * has no number of its parent to look at, but its descriptor tells. */
static void require_zygote(int itself)
{
    struct pollfd over = {.fd = itself, .events = POLLIN};
    if (poll(&over, 1, 0))
        _exit(1);
    close(itself);
}

/* The first process of a sandbox: builds its world, gives up its power, and becomes the agent. */
static void become_sandbox(struct spec *spec, int slot, bool joined, int socket)
{
    static struct root_view view;
    struct identity identity = zygote.identity;
    identity.first_id = slot_first_id(slot);
    const char *failed = slot_join(slot, joined);
    int user_namespace = fcntl(zygote.slots[slot].user_namespace, F_DUPFD_CLOEXEC, 64);
    int itself = zygote.itself < 0 ? -1 : fcntl(zygote.itself, F_DUPFD_CLOEXEC, 64);
    /* Everything else the zygote holds is closed before anything of the sandbox exists. Its control socket is descriptor 0. */
    if (dup2(1, 0) < 0 || dup2(socket, 3) < 0 || dup2(user_namespace, 4) < 0 || (itself >= 0 && dup2(itself, 5) < 0) ||
        syscall(SYS_close_range, itself < 0 ? 5u : 6u, ~0u, 0u))
        _exit(1);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(4, F_SETFD, FD_CLOEXEC);
    if (!failed)
        failed = root_enter(spec, &identity, &view, 4);
    if (!failed)
        failed = confine(spec, &view, 4);
    if (failed) {
        send_failed(3, failed);
        _exit(1);
    }
    if (itself >= 0)
        require_zygote(5);
    close(4);
    close(view.settings);
    agent_run(3, 3, &view, true);
}

static void start(struct reader *in, int socket)
{
    static struct spec spec; /* too large for the stack of a process that is copied for every sandbox */
    memset(&spec, 0, sizeof spec);
    const char *failed = NULL;
    int slot = -1;
    if (!take_spec(in, &spec)) {
        errno = EINVAL;
        failed = "read the specification";
    } else if ((slot = slot_take()) < 0) {
        failed = "make a user namespace";
    } else {
        failed = slot_limit(slot, &spec);
        slot_begin_count(slot);
    }
    if (!failed) {
        bool joined;
        pid_t pid = slot_clone(slot, &joined);
        if (pid == 0) /* descriptors 3 and 4 are about to be replaced: the socket must not be one of them */
            become_sandbox(&spec, slot, joined, fcntl(socket, F_DUPFD_CLOEXEC, 64));
        if (pid > 0) {
            zygote.slots[slot].pid = pid;
            zygote.slots[slot].sandbox = spec.number;
            zygote.num_running++;
        } else {
            failed = "clone";
        }
    }
    if (failed)
        send_failed(socket, failed);
    free_spec(&spec);
}

/* A slot's cgroup is used again by the next sandbox, unless memory stays charged to it: what was written, where others stand on
 * it or where it was too much. Without the folder the kernel charges that to the folder above. */
static void free_slot(int index, int status)
{
    struct slot *slot = &zygote.slots[index];
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool out_of_memory = killed && slot_was_out_of_memory(index);
    if (out_of_memory)
        zygote.out_of_memory[zygote.num_out_of_memory++ % MAX_FATES] = slot->sandbox;
    if (out_of_memory || slot->is_held)
        slot_remove(index);
    slot->pid = 0;
    slot->is_held = false;
    zygote.num_running--;
}

static void reap(void)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int slot = 0; slot < zygote.num_slots; slot++)
            if (zygote.slots[slot].pid == pid) {
                free_slot(slot, status);
                break;
            }
}

static void tell_fate(uint64_t sandbox)
{
    reap();
    enum fate fate = slot_find(sandbox) < 0 ? ENDED : LIVES;
    for (size_t i = 0; i < MAX_FATES && i < zygote.num_out_of_memory; i++)
        if (zygote.out_of_memory[i] == sandbox)
            fate = OUT_OF_MEMORY;
    reply_done(fate);
}

static void end_sandbox(uint64_t sandbox)
{
    int slot = slot_find(sandbox);
    if (slot >= 0)
        ending_end(slot);
    reply_done(0);
}

/* There is no answer: nobody waits for it. */
static void weigh(struct reader *in)
{
    int slot = slot_find(take_u64(in));
    bool low = take_u8(in);
    if (slot >= 0 && !in->bad)
        ending_weigh(slot, low);
}

static void add_upper(struct reader *in, int tree)
{
    int slot = slot_find(take_u64(in));
    if (slot >= 0)
        zygote.slots[slot].is_held = true;
    layer_attach(tree, false);
}

/* -- the road ----------------------------------------------------------------------------------------------------- */

static void take_loan(struct reader *in, struct loan *loan)
{
    loan->program = take_text(in);
    loan->first = take_u32(in);
    loan->count = take_u32(in);
}

static void configure(struct reader *in)
{
    zygote.identity.first_id = take_u32(in);
    zygote.num_cgroups = (int)take_u32(in);
    for (int i = 0; i < zygote.num_cgroups && i < MAX_CGROUPS && !in->bad; i++) {
        char *path = take_text(in);
        zygote.cgroups[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (zygote.cgroups[i] < 0)
            in->bad = true;
        else
            zygote.cgroup_names[i] = strdup(strrchr(path, '/') + 1);
        free(path);
    }
    take_loan(in, &zygote.users);
    take_loan(in, &zygote.groups);
    if (in->bad || zygote.num_cgroups > MAX_CGROUPS) {
        reply_failed("open the cgroups");
        _exit(1);
    }
    const char *failed = make_own_place();
    if (failed) {
        reply_failed(failed);
        _exit(1);
    }
    uint32_t users = zygote.identity.num_users, groups = zygote.identity.num_groups;
    reply_done(zygote.identity.privileged | (uint64_t)(users < groups ? users : groups) << 1);
}

static void serve_one(const uint8_t *frame, size_t count, int fd)
{
    struct reader in = {frame, frame + count, false};
    take_u32(&in);
    uint8_t kind = take_u8(&in);
    take_u32(&in);
    switch (kind) {
    case CONFIGURE: configure(&in); break;
    case START: start(&in, fd); break;
    case ADD_FOLDER: layer_add_folder(&in); break;
    case ADD_UPPER: add_upper(&in, fd); break;
    case DROP_LAYER: layer_drop(take_u32(&in)); break;
    case FATE: tell_fate(take_u64(&in)); break;
    case END: end_sandbox(take_u64(&in)); break;
    case WEIGH: weigh(&in); break;
    case COUNT: reap(); reply_done((uint64_t)zygote.num_running); break;
    default: _exit(1);
    }
}

static bool receive(void)
{
    static uint8_t frame[128 << 10];
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {frame, sizeof frame};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t count = recvmsg(zygote.control, &message, MSG_CMSG_CLOEXEC);
    if (count <= 0)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int fd = -1;
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    serve_one(frame, (size_t)count, fd);
    if (fd >= 0)
        close(fd);
    return true;
}

static void end_everything(void)
{
    for (int slot = 0; slot < zygote.num_slots; slot++)
        if (zygote.slots[slot].pid)
            kill(zygote.slots[slot].pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    for (int slot = 0; slot < zygote.num_slots; slot++)
        slot_remove(slot);
    /* The host made these folders, but it may have been killed: its paths lead nowhere from here, a parent always does. */
    for (int i = 0; i < zygote.num_cgroups; i++) {
        char path[300];
        snprintf(path, sizeof path, "../%s", zygote.cgroup_names[i]);
        unlinkat(zygote.cgroups[i], path, AT_REMOVEDIR);
    }
}

int zygote_run(int control)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    zygote.control = control;
    filter_prepare();
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) { /* one for every slot */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct rlimit core = {1, 1}; /* see confine.c; here it can still be raised from 0 */
    setrlimit(RLIMIT_CORE, &core);
    zygote.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    struct pollfd wanted[2] = {{.fd = control, .events = POLLIN}, {.fd = zygote.signals, .events = POLLIN}};
    for (;;) {
        if (poll(wanted, 2, -1) < 0 && errno != EINTR)
            break;
        struct signalfd_siginfo drained[16];
        if (wanted[1].revents && read(zygote.signals, drained, sizeof drained) >= 0)
            reap();
        if (wanted[0].revents && !receive())
            break;
    }
    end_everything();
    return 0;
}
