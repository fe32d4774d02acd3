/* Drops the privileges of the first process after its root is built: own user namespace, network, host name and cgroup
 * namespaces, few capabilities, resource limits, no new privileges, the system call filter. The mount, pid and IPC namespaces
 * belong to the zygote's user namespace, so nothing inside can change them, whatever capabilities it keeps. */
#define _GNU_SOURCE
#include "sandlot.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a root user needs to install and run software; all of it holds over the sandbox's own ids only. */
static const int KEPT[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID,
                           CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT};

static const char *drop_capabilities(void)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        kept |= 1ull << KEPT[i];
    for (int capability = 0; capability < 64 && prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (!(kept >> capability & 1) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
            return "drop a capability";
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    for (int half = 0; half < 2; half++) {
        data[half].effective = data[half].permitted = (uint32_t)(kept >> 32 * half);
        data[half].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) ? "set capabilities" : NULL;
}

static const char *raise_loopback(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    strcpy(request.ifr_name, "lo");
    int failed = fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request);
    if (fd >= 0)
        close(fd);
    return failed ? "raise the loopback interface" : NULL;
}

/* The memory of TCP sockets is counted by the whole machine, and one connection may hold 40 MiB of it. In here it holds at most
 * 128 KiB in each direction unless the program asks for more. What all sockets together hold is limited by the memory cgroup; where
 * there is none, guard.c limits their number and ignores requests for more. */
static const char *limit_socket_buffers(int settings)
{
    static const char *const FILES[][2] = {{"net/ipv4/tcp_rmem", "4096 65536 131072"}, {"net/ipv4/tcp_wmem", "4096 16384 131072"}};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        int fd = openat(settings, FILES[i][0], O_WRONLY | O_CLOEXEC);
        bool written = fd >= 0 && write(fd, FILES[i][1], strlen(FILES[i][1])) > 0;
        if (fd >= 0)
            close(fd);
        if (!written)
            return "limit the buffers of sockets";
    }
    return NULL;
}

/* Limits only ever go down: raising a hard limit needs a capability that even root may lack on the host. */
static const char *lower_limit(int resource, uint64_t value)
{
    struct rlimit limit;
    getrlimit(resource, &limit);
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value)
        limit.rlim_max = value;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(resource, &limit) ? "set a resource limit" : NULL;
}

/* A core dump may be piped into a program of the host that runs as its root (core_pattern). A limit of 0 does not stop that; the
 * kernel takes 1 to mean "not even into a pipe", and as a size it is too small for a file. guard.c keeps it there. A hard limit of 0
 * cannot be raised to 1 without a capability that may be missing. */
static const char *limit_core(void)
{
    struct rlimit limit = {1, 1};
    if (!setrlimit(RLIMIT_CORE, &limit))
        return NULL;
    return lower_limit(RLIMIT_CORE, 0);
}

static const char *set_limits(const struct spec *spec)
{
    const char *failed = lower_limit(RLIMIT_NPROC, spec->pids); /* counted per user namespace: holds even without a pids cgroup */
    if (!failed)
        failed = limit_core();
    if (!failed)
        failed = lower_limit(RLIMIT_MEMLOCK, 8u << 20);
    if (!failed && spec->data_bytes)
        failed = lower_limit(RLIMIT_DATA, spec->data_bytes);
    return failed;
}

const char *confine(const struct spec *spec, const struct root_view *view, int user_namespace)
{
    if (setns(user_namespace, CLONE_NEWUSER))
        return "enter the user namespace";
    if (setgroups(0, NULL) && errno != EPERM) /* refused where only one id is mapped; there are no groups to lose then */
        return "drop groups";
    if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
        return "become the sandbox's root";
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP))
        return "make namespaces";
    if (sethostname(spec->hostname, strlen(spec->hostname)))
        return "set the host name";
    const char *failed = raise_loopback();
    if (!failed)
        failed = limit_socket_buffers(view->settings);
    if (!failed)
        failed = set_limits(spec);
    if (!failed)
        failed = drop_capabilities();
    if (failed)
        return failed;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return "give up new privileges";
    /* After the last change of credentials, which clears both: processes inside may not look into this one (its /proc entry
     * shows the socket to the host), and it does not outlive the zygote. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
        return "tie the sandbox to its zygote";
    failed = guard_core_limit();
    return failed ? failed : filter_install();
}
