/* The system calls a sandbox may make: an allow list. A call that is not listed fails with EPERM. A call newer than this list
 * fails with ENOSYS, so that programs fall back as on an older kernel. Other ABIs (32-bit, x32) have other numbers for the same
 * calls and are refused whole. clone3 hides its flags behind a pointer that no filter can read: ENOSYS makes libc use clone.
 *
 * Numbers come from the kernel's headers for the processor this is compiled for. The list has every call that glibc and musl make
 * on x86-64 and on aarch64, except those that need power a sandbox does not have. tests/system_calls.txt states the expected
 * answer for each call and processor. */
#define _GNU_SOURCE
#include "sandlot.h"

#include <asm/unistd.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef OWN_ARCH /* a test names the other one, to look at the filter of a processor it does not run on */
#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "the system call filter knows x86_64 and aarch64"
#endif
#endif

/* Calls that newer libraries make and older headers do not have. Calls since Linux 5.1 have one number on every processor. */
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif

#define NEW_NAMESPACES \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP)
#define NEWEST_KNOWN 462 /* mseal */

static const int ALLOWED[] = {
    /* files */
    __NR_read, __NR_write, __NR_close, __NR_openat, __NR_openat2, __NR_lseek, __NR_pread64, __NR_pwrite64, __NR_readv,
    __NR_writev, __NR_preadv, __NR_pwritev, __NR_preadv2, __NR_pwritev2, __NR_fstat, __NR_newfstatat, __NR_statx, __NR_statfs,
    __NR_fstatfs, __NR_faccessat, __NR_faccessat2, __NR_getdents64, __NR_getcwd, __NR_chdir, __NR_fchdir, __NR_chroot,
    __NR_mkdirat, __NR_unlinkat, __NR_renameat, __NR_renameat2, __NR_linkat, __NR_symlinkat, __NR_readlinkat, __NR_mknodat,
    __NR_fchmod, __NR_fchmodat, __NR_fchmodat2, __NR_fchown, __NR_fchownat, __NR_utimensat, __NR_truncate, __NR_ftruncate,
    __NR_fallocate, __NR_fadvise64, __NR_readahead, __NR_sync, __NR_fsync, __NR_fdatasync, __NR_syncfs, __NR_sync_file_range,
    __NR_umask, __NR_flock,
    __NR_fcntl, __NR_dup, __NR_dup3, __NR_pipe2, __NR_sendfile, __NR_splice, __NR_tee, __NR_vmsplice, __NR_copy_file_range,
    __NR_getxattr, __NR_lgetxattr, __NR_fgetxattr, __NR_setxattr, __NR_lsetxattr, __NR_fsetxattr, __NR_listxattr,
    __NR_llistxattr, __NR_flistxattr, __NR_removexattr, __NR_lremovexattr, __NR_fremovexattr, __NR_inotify_init1,
    __NR_inotify_add_watch, __NR_inotify_rm_watch, __NR_close_range, __NR_memfd_create,
    /* waiting and events */
    __NR_ppoll, __NR_pselect6, __NR_epoll_create1, __NR_epoll_ctl, __NR_epoll_pwait, __NR_epoll_pwait2, __NR_eventfd2,
    __NR_signalfd4, __NR_timerfd_create, __NR_timerfd_settime, __NR_timerfd_gettime,
    /* memory */
    __NR_brk, __NR_mmap, __NR_munmap, __NR_mremap, __NR_mprotect, __NR_madvise, __NR_mincore, __NR_msync, __NR_mlock,
    __NR_mlock2, __NR_munlock, __NR_mlockall, __NR_munlockall, __NR_membarrier, __NR_get_mempolicy, __NR_pkey_alloc,
    __NR_pkey_free, __NR_pkey_mprotect, __NR_remap_file_pages, __NR_map_shadow_stack, __NR_mseal,
    /* processes, threads, signals */
    __NR_execve, __NR_execveat, __NR_exit, __NR_exit_group, __NR_wait4, __NR_waitid, __NR_kill, __NR_tkill, __NR_tgkill,
    __NR_pidfd_open, __NR_pidfd_send_signal, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigpending, __NR_rt_sigtimedwait,
    __NR_rt_sigqueueinfo, __NR_rt_tgsigqueueinfo, __NR_rt_sigsuspend, __NR_rt_sigreturn, __NR_sigaltstack, __NR_futex,
    __NR_set_robust_list, __NR_get_robust_list, __NR_set_tid_address, __NR_rseq, __NR_restart_syscall, __NR_sched_yield,
    __NR_sched_getaffinity, __NR_sched_getparam, __NR_sched_getscheduler,
    __NR_sched_get_priority_max, __NR_sched_get_priority_min, __NR_sched_rr_get_interval,
    __NR_sched_getattr, __NR_getpriority, __NR_ioprio_get, __NR_ioprio_set, __NR_prctl,
    __NR_getrlimit, __NR_setrlimit, __NR_getrusage, __NR_times, __NR_seccomp, __NR_landlock_create_ruleset,
    __NR_landlock_add_rule, __NR_landlock_restrict_self,
    /* who am I */
    __NR_getpid, __NR_getppid, __NR_gettid, __NR_getpgid, __NR_setpgid, __NR_getsid, __NR_setsid, __NR_getuid, __NR_geteuid,
    __NR_getgid, __NR_getegid, __NR_setuid, __NR_setgid, __NR_setreuid, __NR_setregid, __NR_setresuid, __NR_setresgid,
    __NR_getresuid, __NR_getresgid, __NR_setfsuid, __NR_setfsgid, __NR_getgroups, __NR_setgroups, __NR_capget, __NR_capset,
    __NR_uname, __NR_sysinfo, __NR_getcpu, __NR_getrandom,
    /* time: reading it, sleeping, timers; never setting it */
    __NR_gettimeofday, __NR_clock_gettime, __NR_clock_getres, __NR_nanosleep, __NR_clock_nanosleep, __NR_getitimer,
    __NR_setitimer, __NR_timer_create, __NR_timer_settime, __NR_timer_gettime, __NR_timer_getoverrun, __NR_timer_delete,
    /* sockets (`socket` and `socketpair` are filtered below) and System V IPC, which the IPC namespace holds */
    __NR_bind, __NR_listen, __NR_accept, __NR_accept4, __NR_connect, __NR_getsockname, __NR_getpeername,
    __NR_sendto, __NR_recvfrom, __NR_sendmsg, __NR_recvmsg, __NR_sendmmsg, __NR_recvmmsg, __NR_shutdown, __NR_setsockopt,
    __NR_getsockopt, __NR_shmget, __NR_shmat, __NR_shmctl, __NR_shmdt, __NR_semget, __NR_semop, __NR_semctl, __NR_semtimedop,
    __NR_msgget, __NR_msgsnd, __NR_msgrcv, __NR_msgctl, __NR_mq_open, __NR_mq_unlink, __NR_mq_timedsend,
    __NR_mq_timedreceive, __NR_mq_notify, __NR_mq_getsetattr,
#ifdef __NR_open /* calls that processors added since 2012, aarch64 among them, do not have */
    __NR_open, __NR_creat, __NR_stat, __NR_lstat, __NR_access, __NR_poll, __NR_select, __NR_epoll_create, __NR_epoll_wait,
    __NR_eventfd, __NR_signalfd, __NR_inotify_init, __NR_dup2, __NR_pipe, __NR_fork, __NR_vfork, __NR_getdents, __NR_mkdir,
    __NR_rmdir, __NR_unlink, __NR_rename, __NR_link, __NR_symlink, __NR_readlink, __NR_mknod, __NR_chmod,
    __NR_chown, __NR_lchown, __NR_utime, __NR_utimes, __NR_futimesat, __NR_alarm, __NR_pause, __NR_time, __NR_getpgrp,
    __NR_arch_prctl,
#endif
};

#define STATEMENT(code, k) ((struct sock_filter){(code), 0, 0, (k)})
#define JUMP(code, k, yes, no) ((struct sock_filter){(code), (yes), (no), (k)})
#define LOAD(offset) STATEMENT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define LOAD_ARGUMENT(n) LOAD(offsetof(struct seccomp_data, args[n])) /* its low half: these arguments are ints */
#define LOAD_HIGH(n) LOAD(offsetof(struct seccomp_data, args[n]) + 4) /* both processors are little-endian */
#define IF_EQUAL(k, yes, no) JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), (yes), (no))
#define ALLOW STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE(error) STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

/* Calls that are decided by more than their number. Each program runs for its call only and ends in an answer on every path. */
static const struct sock_filter CLONE[] = {
    LOAD_ARGUMENT(0), JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1), REFUSE(EPERM), ALLOW,
};
static const struct sock_filter PERSONALITY[] = {
    LOAD_ARGUMENT(0), IF_EQUAL(0, 2, 0), IF_EQUAL(0x40000 /* no address randomisation */, 1, 0),
    IF_EQUAL(0xffffffff /* only asks */, 0, 1), ALLOW, REFUSE(EPERM),
};
/* Pushing characters into a terminal, or pasting the console's selection, would be input for the process at the other end. Another
 * line discipline would be old code of the kernel's, loaded as a module where it is not there. */
static const struct sock_filter IOCTL[] = {
    LOAD_ARGUMENT(1), IF_EQUAL(0x5412 /* TIOCSTI */, 2, 0), IF_EQUAL(0x541c /* TIOCLINUX */, 1, 0),
    IF_EQUAL(0x5423 /* TIOCSETD */, 0, 1), REFUSE(EPERM), ALLOW,
};
/* Unix sockets; TCP and UDP over IPv4 and IPv6 and no other protocol; netlink for routes only (getaddrinfo asks). No raw, packet,
 * vsock, alg, bluetooth ... sockets. */
static const struct sock_filter SOCKET[] = {
    LOAD_ARGUMENT(0), IF_EQUAL(AF_UNIX, 19, 0), IF_EQUAL(AF_NETLINK, 0, 2),
    LOAD_ARGUMENT(2), IF_EQUAL(NETLINK_ROUTE, 16, 15),
    IF_EQUAL(AF_INET, 1, 0), IF_EQUAL(AF_INET6, 0, 13),
    LOAD_ARGUMENT(1), STATEMENT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    IF_EQUAL(SOCK_STREAM, 2, 0), IF_EQUAL(SOCK_DGRAM, 4, 0), IF_EQUAL(SOCK_RAW, 7, 6),
    LOAD_ARGUMENT(2), IF_EQUAL(0, 7, 0), IF_EQUAL(IPPROTO_TCP, 6, 3),
    LOAD_ARGUMENT(2), IF_EQUAL(0, 4, 0), IF_EQUAL(IPPROTO_UDP, 3, 0),
    REFUSE(EPROTONOSUPPORT), REFUSE(EPERM), REFUSE(EAFNOSUPPORT), ALLOW,
};
/* The kernel would make both sockets before it finds that only unix sockets come in pairs. */
static const struct sock_filter SOCKETPAIR[] = {
    LOAD_ARGUMENT(0), IF_EQUAL(AF_UNIX, 0, 1), ALLOW, REFUSE(EOPNOTSUPP),
};
/* Process 1 has the user of the commands, so they could set its limits and its turn on the processor. Without memory or descriptors
 * it dies and takes with it all that the agent has done. Asking is allowed. */
static const struct sock_filter LIMITS[] = {
    LOAD_ARGUMENT(0), IF_EQUAL(1, 0, 5), LOAD_ARGUMENT(2), IF_EQUAL(0, 0, 2), LOAD_HIGH(2), IF_EQUAL(0, 1, 0), REFUSE(EPERM), ALLOW,
};
static const struct sock_filter SCHEDULE[] = {
    LOAD_ARGUMENT(0), IF_EQUAL(1, 0, 1), REFUSE(EPERM), ALLOW,
};
static const struct sock_filter PRIORITY[] = {
    LOAD_ARGUMENT(0), IF_EQUAL(PRIO_USER, 2, 0), LOAD_ARGUMENT(1), IF_EQUAL(1, 0, 1), REFUSE(EPERM), ALLOW,
};
static const struct sock_filter NOT_IMPLEMENTED[] = {REFUSE(ENOSYS)};

#define RULE(call, program) {(call), sizeof(program) / sizeof *(program), (program)}
static const struct {
    uint32_t call;
    uint8_t length;
    const struct sock_filter *program;
} RULES[] = {
    RULE(__NR_clone3, NOT_IMPLEMENTED),
    RULE(__NR_io_setup, NOT_IMPLEMENTED), /* aio is counted per machine: one sandbox could take all. Programs use threads then. */
    RULE(__NR_clone, CLONE),
    RULE(__NR_personality, PERSONALITY),
    RULE(__NR_ioctl, IOCTL),
    RULE(__NR_socket, SOCKET),
    RULE(__NR_socketpair, SOCKETPAIR),
    RULE(__NR_prlimit64, LIMITS),
    RULE(__NR_sched_setaffinity, SCHEDULE),
    RULE(__NR_sched_setattr, SCHEDULE),
    RULE(__NR_sched_setparam, SCHEDULE),
    RULE(__NR_sched_setscheduler, SCHEDULE),
    RULE(__NR_setpriority, PRIORITY),
};

#define NUM_ALLOWED (sizeof ALLOWED / sizeof *ALLOWED)

static int by_number(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

static struct sock_filter code[128 + 3 * NUM_ALLOWED];
static size_t length;

/* Called once, in the zygote. Neighbouring numbers become ranges: the kernel walks the whole filter for every call number when it
 * is installed, which is a tenth of a sandbox's start. */
void filter_prepare(void)
{
    static int sorted[NUM_ALLOWED];
    memcpy(sorted, ALLOWED, sizeof ALLOWED);
    qsort(sorted, NUM_ALLOWED, sizeof *sorted, by_number);
    length = 0;
    code[length++] = LOAD(offsetof(struct seccomp_data, arch));
    code[length++] = IF_EQUAL(OWN_ARCH, 1, 0);
    code[length++] = STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[length++] = LOAD(offsetof(struct seccomp_data, nr));
    code[length++] = JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1); /* x32 calls have bit 30 set: also here */
    code[length++] = REFUSE(ENOSYS);
    for (size_t first = 0, last; first < NUM_ALLOWED; first = last + 1) {
        for (last = first; last + 1 < NUM_ALLOWED && sorted[last + 1] <= sorted[last] + 1;)
            last++;
        code[length++] = JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)sorted[first], 0, 2);
        code[length++] = JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)sorted[last], 1, 0);
        code[length++] = ALLOW;
    }
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        code[length++] = IF_EQUAL(RULES[i].call, 0, RULES[i].length);
        memcpy(code + length, RULES[i].program, RULES[i].length * sizeof *code);
        length += RULES[i].length;
    }
    code[length++] = REFUSE(EPERM);
}

const char *filter_install(void)
{
    struct sock_fprog program = {.len = (unsigned short)length, .filter = code};
    return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? "install the system call filter" : NULL;
}
