/* The agent: process 1 of a sandbox. It serves the host over one socket or a pair of pipes, and reaps what the commands leave
 * behind.
 *
 * One thread, one poll. It has no privileges that a command run as root does not have, holds no secrets, and exits with its
 * connection: when the host process ends, the sandbox ends. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_HIGH (1u << 20) /* above this many queued bytes, commands' output is left in their pipes */

struct agent agent;

void agent_flush(bool wait)
{
    while (agent.out.end > agent.out.start) {
        ssize_t count = write(agent.sink, agent.out.data + agent.out.start, agent.out.end - agent.out.start);
        if (count >= 0) {
            buffer_drop(&agent.out, (size_t)count);
        } else if (errno == EAGAIN) {
            if (!wait)
                return;
            struct pollfd writable = {.fd = agent.sink, .events = POLLOUT};
            poll(&writable, 1, -1);
        } else if (errno != EINTR) {
            _exit(0); /* the host is gone */
        }
    }
}

static void greet(void)
{
    size_t mark = frame_begin(&agent.out, HELLO, 0);
    put_u32(&agent.out, 1); /* version of this protocol */
    frame_end(&agent.out, mark);
    if (agent.view->upper_mount < 0)
        return; /* nothing to hand over with it: the first flush sends it */
    char space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {agent.out.data, agent.out.end};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &agent.view->upper_mount, sizeof(int));
    if (sendmsg(agent.sink, &message, MSG_NOSIGNAL) != (ssize_t)agent.out.end)
        _exit(0);
    buffer_drop(&agent.out, agent.out.end);
    close(agent.view->upper_mount);
}

static void freeze(uint32_t id, struct reader *in)
{
    agent.frozen |= take_u8(in);
    if (agent.frozen)
        listeners_close(); /* no process is left to connect */
    frame_done(&agent.out, id, process_kill_all());
}

static void serve(uint8_t kind, uint32_t id, struct reader *in)
{
    struct channel *channel = channel_find(id);
    if (agent.frozen && (kind == SPAWN || kind == WRITE)) {
        frame_failed(&agent.out, id, EROFS, "the sandbox is frozen");
        return;
    }
    switch (kind) {
    case SPAWN: process_spawn(id, in); break;
    case CONNECT: channel_connect(id, in); break;
    case LISTEN: listener_open(id, in); break;
    case ACCEPT: listener_accept(id, in); break;
    case READ: files_read(id, in); break;
    case WRITE: files_write(id, in); break;
    case LIST: files_list(id, in); break;
    case FREEZE: freeze(id, in); break;
    /* What follows is about a channel that may have ended meanwhile: then there is nothing to do. */
    case INPUT: if (channel) channel_input(channel, in); break;
    case GRANT: if (channel) channel->credit += take_u64(in); break;
    case KILL: if (channel && channel->pid) process_kill(channel->pid); break;
    case CLOSE: if (channel) channel_close(channel); break;
    default: in->bad = true;
    }
    if (in->bad)
        _exit(71);
}

static void receive(void)
{
    buffer_room(&agent.in, CHUNK);
    ssize_t count = read(agent.source, agent.in.data + agent.in.end, CHUNK);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        _exit(0); /* the host is gone, and with process 1 goes everything */
    if (count > 0)
        agent.in.end += (size_t)count;
    for (;;) {
        size_t waiting = agent.in.end - agent.in.start;
        uint32_t length;
        if (waiting < 4)
            return;
        memcpy(&length, agent.in.data + agent.in.start, 4);
        if (length < 5 || length > FRAME_MAX + CHUNK)
            _exit(71);
        if (waiting < 4 + (size_t)length)
            return;
        const uint8_t *frame = agent.in.data + agent.in.start + 4;
        struct reader in = {frame, frame + length, false};
        uint8_t kind = take_u8(&in);
        uint32_t id = take_u32(&in);
        serve(kind, id, &in);
        buffer_drop(&agent.in, 4 + (size_t)length);
    }
}

/* What to wait for, and on whose behalf: grown as needed, reused. */
static struct pollfd *wanted;
static struct { struct channel *channel; int which; } *owners;
static size_t num_wanted, max_wanted;

static void want(int fd, short events, struct channel *channel, int which)
{
    if (num_wanted == max_wanted) {
        max_wanted = max_wanted ? 2 * max_wanted : 16;
        wanted = realloc(wanted, max_wanted * sizeof *wanted);
        owners = realloc(owners, max_wanted * sizeof *owners);
        if (!wanted || !owners)
            _exit(70);
    }
    wanted[num_wanted] = (struct pollfd){.fd = fd, .events = events};
    owners[num_wanted].channel = channel;
    owners[num_wanted++].which = which;
}

static void want_channels(void)
{
    bool room = agent.out.end - agent.out.start < OUT_HIGH;
    for (struct channel *channel = agent.channels; channel; channel = channel->next) {
        if (channel->is_listener) {
            if (channel->accepting)
                want(channel->output[0], POLLIN, channel, 0);
            continue;
        }
        for (int which = 0; which < 2; which++)
            if (channel->output[which] >= 0 && room && (channel->credit || !channel->budget))
                want(channel->output[which], POLLIN, channel, which);
        if (channel->input >= 0 && channel->pending.end > channel->pending.start)
            want(channel->input, POLLOUT, channel, -1);
    }
}

void agent_add_guard(int command_socket)
{
    struct guard *guards = realloc(agent.guards, (agent.num_guards + 1) * sizeof *guards);
    if (!guards)
        _exit(70);
    agent.guards = guards;
    agent.guards[agent.num_guards++] = (struct guard){.fd = command_socket};
}

static void want_guards(void)
{
    for (size_t i = 0; i < agent.num_guards; i++)
        want(agent.guards[i].fd, POLLIN, NULL, 0);
}

/* `first`: where the guards begin among what was waited for. New ones may have been added since: they come next time. */
static void serve_guards(size_t first, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < agent.num_guards; i++) {
        short events = first + i < count ? wanted[first + i].revents : 0;
        if (!events || guard_serve(&agent.guards[i], events))
            agent.guards[kept++] = agent.guards[i];
    }
    agent.num_guards = kept;
}

static void loop(void)
{
    for (;;) {
        num_wanted = 0;
        bool unsent = agent.out.end > agent.out.start;
        want(agent.source, POLLIN, NULL, 0);
        want(agent.signals, POLLIN, NULL, 0);
        want(unsent ? agent.sink : -1, POLLOUT, NULL, 0);
        want_channels();
        size_t first_guard = num_wanted;
        want_guards();
        if (poll(wanted, num_wanted, -1) < 0 && errno != EINTR)
            _exit(72);
        size_t count = num_wanted;
        /* Output before exits, so that a command's last words come before the news of its end. */
        for (size_t i = 3; i < first_guard; i++) {
            if (!wanted[i].revents)
                continue;
            if (owners[i].channel->is_listener)
                listener_pump(owners[i].channel);
            else if (owners[i].which < 0)
                channel_pump_input(owners[i].channel);
            else
                channel_pump_output(owners[i].channel, owners[i].which);
        }
        serve_guards(first_guard, count);
        struct signalfd_siginfo drained[16];
        if (wanted[1].revents && read(agent.signals, drained, sizeof drained) >= 0)
            process_reap();
        if (wanted[0].revents & (POLLIN | POLLHUP | POLLERR))
            receive();
        channels_sweep();
        agent_flush(false);
    }
}

void agent_run(int source, int sink, struct root_view *view, bool is_init)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "init", 0, 0, 0);
    if (!is_init) /* not the first process of its container: orphans of commands must still come to us */
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    agent = (struct agent){.source = source, .sink = sink, .is_init = is_init, .view = view};
    agent.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (agent.signals < 0)
        _exit(72);
    /* Soft limits are the host process's own: programs inside get the hard ones. Browsers and provers reserve much address space. */
    static const int RAISED[] = {RLIMIT_NOFILE, RLIMIT_AS};
    for (size_t i = 0; i < sizeof RAISED / sizeof *RAISED; i++) {
        struct rlimit limit;
        if (!getrlimit(RAISED[i], &limit)) {
            limit.rlim_cur = limit.rlim_max;
            setrlimit(RAISED[i], &limit);
        }
    }
    greet();
    if (fcntl(source, F_SETFL, fcntl(source, F_GETFL) | O_NONBLOCK) || fcntl(sink, F_SETFL, fcntl(sink, F_GETFL) | O_NONBLOCK))
        _exit(72);
    agent_flush(false);
    loop();
    _exit(0);
}
