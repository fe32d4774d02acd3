/* Two small system call filters besides the allow list (filter.c), each for a limit that would not hold by itself.
 *
 * Core dumps. A core dump may be piped into a program of the host that runs as its root (core_pattern). The kernel leaves that out
 * at a limit of exactly 1 (confine.c), but a limit can always be lowered, and at 0 the program runs again. So a change of this
 * limit does nothing.
 *
 * Sockets in a sandbox that has no memory cgroup. What sockets hold is memory of the kernel: no limit of a process counts it, and
 * TCP's is shared by the whole machine. So each command runs under a second system call filter, which asks process 1 before a
 * socket is made. Process 1 reads how many the sandbox has and refuses one beyond MAX_SOCKETS. An accepted connection is counted but not asked about: it exists because
 * its other end was allowed. Each one holds what a socket holds by default, because requests for larger buffers are ignored. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_SOCKETS 2048

#define LOAD(field) {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, field)}
#define LOAD_HIGH(field) {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, field) + 4} /* both are little-endian */
#define IF_EQUAL(k, yes, no) {BPF_JMP | BPF_JEQ | BPF_K, (yes), (no), (k)}
#define RETURN(k) {BPF_RET | BPF_K, 0, 0, (k)}

/* The other architectures are refused by the first filter (filter.c), whose refusals win over what is said here. */
static struct sock_filter SOCKETS[] = {
    LOAD(nr),
    IF_EQUAL(__NR_socket, 1, 0), IF_EQUAL(__NR_socketpair, 0, 1), RETURN(SECCOMP_RET_USER_NOTIF),
    IF_EQUAL(__NR_setsockopt, 0, 5),
    LOAD(args[1]), IF_EQUAL(SOL_SOCKET, 0, 3),
    LOAD(args[2]), IF_EQUAL(SO_SNDBUF, 2, 0), IF_EQUAL(SO_RCVBUF, 1, 0),
    RETURN(SECCOMP_RET_ALLOW),
    RETURN(SECCOMP_RET_ERRNO | 0), /* done, with nothing changed */
};

/* `prlimit64` also asks, with no new limit; with a new one and a place for the old one it is refused, as there is no answer. */
static struct sock_filter CORE[] = {
    LOAD(nr),
    IF_EQUAL(__NR_setrlimit, 0, 2), LOAD(args[0]), IF_EQUAL(RLIMIT_CORE, 11, 10),
    IF_EQUAL(__NR_prlimit64, 0, 9),
    LOAD(args[1]), IF_EQUAL(RLIMIT_CORE, 0, 7),
    LOAD(args[2]), IF_EQUAL(0, 0, 2), LOAD_HIGH(args[2]), IF_EQUAL(0, 3, 0),
    LOAD(args[3]), IF_EQUAL(0, 2, 0), RETURN(SECCOMP_RET_ERRNO | EPERM),
    RETURN(SECCOMP_RET_ALLOW),
    RETURN(SECCOMP_RET_ERRNO | 0), /* done, with nothing changed */
};

const char *guard_core_limit(void)
{
    struct sock_fprog program = {.len = sizeof CORE / sizeof *CORE, .filter = CORE};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? "hold the limit of core dumps" : NULL;
}

/* In the command's process, before it becomes the command: install the filter and send what process 1 answers it by. */
bool guard_install(int agent_socket)
{
    struct sock_fprog program = {.len = sizeof SOCKETS / sizeof *SOCKETS, .filter = SOCKETS};
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    char space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {"", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &listener, sizeof(int));
    return listener >= 0 && sendmsg(agent_socket, &message, MSG_NOSIGNAL) == 1 && !close(listener);
}

/* What the command's process sent, -1 if it ended before. */
static int receive_listener(int command_socket)
{
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int listener = -1;
    if (recvmsg(command_socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return listener;
}

static unsigned count_sockets(void)
{
    static int table = -1;
    char text[64] = "";
    unsigned count = ~0u;
    if (table < 0)
        table = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
    if (pread(table, text, sizeof text - 1, 0) > 0)
        sscanf(text, "sockets: used %u", &count);
    return count;
}

/* Answers one request. The process that sent it may have been killed meanwhile: then there is nothing to do. */
static void answer(int listener)
{
    struct seccomp_notif question;
    memset(&question, 0, sizeof question);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question))
        return;
    struct seccomp_notif_resp said = {.id = question.id};
    if (count_sockets() < MAX_SOCKETS)
        said.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        said.error = -ENOBUFS;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &said);
}

/* In process 1, which never waits for a command: other processes inside may have stopped it before it sent its listener. */
bool guard_serve(struct guard *guard, short events)
{
    if (guard->is_listener) {
        if (events & POLLIN)
            answer(guard->fd);
        if (!(events & (POLLHUP | POLLERR)))
            return true;
        close(guard->fd);
        return false;
    }
    int listener = receive_listener(guard->fd);
    close(guard->fd);
    *guard = (struct guard){.fd = listener, .is_listener = true};
    return listener >= 0;
}
