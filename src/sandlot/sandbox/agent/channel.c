/* Channels: the streams of commands and connections, with flow control both ways so that neither side can flood the other. */
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct channel *channel_find(uint32_t id)
{
    struct channel *channel = agent.channels;
    while (channel && channel->id != id)
        channel = channel->next;
    return channel;
}

struct channel *channel_add(uint32_t id)
{
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        _exit(70);
    channel->id = id;
    channel->input = channel->output[0] = channel->output[1] = -1;
    channel->credit = WINDOW;
    channel->budget = UINT64_MAX;
    channel->next = agent.channels;
    agent.channels = channel;
    return channel;
}

static void close_output(struct channel *channel, int which)
{
    close(channel->output[which]);
    channel->output[which] = -1;
}

static void close_input(struct channel *channel)
{
    if (channel->input >= 0) {
        if (channel->is_connection)
            shutdown(channel->input, SHUT_WR);
        close(channel->input);
    }
    channel->input = -1;
}

static void send_output(struct channel *channel, int which, const uint8_t *bytes, size_t count)
{
    size_t wanted = count < channel->budget ? count : (size_t)channel->budget;
    channel->dropped += count - wanted;
    if (!wanted || channel->muted)
        return;
    if (channel->budget != UINT64_MAX)
        channel->budget -= wanted;
    channel->credit -= wanted < channel->credit ? wanted : channel->credit;
    size_t mark = frame_begin(&agent.out, OUTPUT, channel->id);
    put_u8(&agent.out, (uint8_t)which);
    buffer_put(&agent.out, bytes, wanted);
    frame_end(&agent.out, mark);
}

/* A connection may be closed one way only: who has said all may still want to hear the answer. */
static void end_output(struct channel *channel, int which, bool broken)
{
    close_output(channel, which);
    if (!channel->is_connection)
        return;
    if (broken)
        close_input(channel);
    if (channel->input < 0 || channel->muted)
        return;
    size_t mark = frame_begin(&agent.out, OUTPUT, channel->id);
    put_u8(&agent.out, (uint8_t)which);
    frame_end(&agent.out, mark);
}

void channel_pump_output(struct channel *channel, int which)
{
    static uint8_t bytes[CHUNK];
    if (channel->output[which] < 0)
        return;
    size_t most = channel->budget && channel->credit < CHUNK ? (size_t)channel->credit : CHUNK;
    ssize_t count = most ? read(channel->output[which], bytes, most) : 0;
    if (count > 0)
        send_output(channel, which, bytes, (size_t)count);
    else if (most && (count == 0 || (errno != EAGAIN && errno != EINTR))) /* a terminal's end is EIO */
        end_output(channel, which, count < 0);
}

/* Data never exceeds the window the host keeps to; a command that does not read gets it when it does. */
void channel_input(struct channel *channel, struct reader *in)
{
    size_t count = (size_t)(in->end - in->at);
    if (count)
        buffer_put(&channel->pending, in->at, count);
    else
        channel->close_input = true;
    in->at = in->end;
    channel_pump_input(channel);
}

static void report_taken(struct channel *channel, size_t count)
{
    if (!count || channel->muted)
        return;
    size_t mark = frame_begin(&agent.out, TAKEN, channel->id);
    put_u64(&agent.out, count);
    frame_end(&agent.out, mark);
}

void channel_pump_input(struct channel *channel)
{
    size_t waiting = channel->pending.end - channel->pending.start;
    ssize_t count = 0;
    if (waiting && channel->input >= 0) {
        count = write(channel->input, channel->pending.data + channel->pending.start, waiting);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
    }
    if (waiting && (channel->input < 0 || count < 0)) { /* the reader is gone: input is dropped, as with any pipe */
        close_input(channel);
        count = (ssize_t)waiting;
    }
    buffer_drop(&channel->pending, (size_t)count);
    report_taken(channel, (size_t)count);
    if (channel->close_input && channel->pending.start == channel->pending.end)
        close_input(channel);
}

/* What is in the pipes when the command ends is its output and is sent first. What background processes write later is read and
 * dropped: there is no reader for it, and a closed or full pipe would stop them. */
void channel_ended(struct channel *channel, int status)
{
    channel->pid = 0;
    for (int which = 0; which < 2; which++) {
        int left = 0;
        if (channel->output[which] < 0 || ioctl(channel->output[which], FIONREAD, &left))
            continue;
        while (left > 0 && channel->output[which] >= 0) {
            static uint8_t bytes[CHUNK];
            ssize_t count = read(channel->output[which], bytes, left < (int)CHUNK ? (size_t)left : CHUNK);
            if (count <= 0)
                break;
            send_output(channel, which, bytes, (size_t)count);
            left -= (int)count;
        }
    }
    if (channel->muted)
        return;
    size_t mark = frame_begin(&agent.out, EXITED, channel->id);
    put_u32(&agent.out, (uint32_t)(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status)));
    put_u64(&agent.out, channel->dropped);
    put_u8(&agent.out, process_others_live());
    frame_end(&agent.out, mark);
    channel_close(channel);
}

/* The host listens no longer. */
void channel_close(struct channel *channel)
{
    channel->muted = true;
    channel->budget = 0;
    channel->pending.start = channel->pending.end;
    close_input(channel);
    if (channel->is_listener)
        listener_close(channel);
    if (channel->is_connection && channel->output[0] >= 0)
        close_output(channel, 0);
}

void channels_sweep(void)
{
    struct channel **link = &agent.channels;
    while (*link) {
        struct channel *channel = *link;
        if (channel->pid || channel->output[0] >= 0 || channel->output[1] >= 0 || (channel->is_connection && channel->input >= 0)) {
            link = &channel->next;
            continue;
        }
        if (!channel->muted) {
            size_t mark = frame_begin(&agent.out, CLOSED, channel->id);
            put_u64(&agent.out, channel->dropped);
            frame_end(&agent.out, mark);
        }
        close_input(channel);
        free(channel->pending.data);
        *link = channel->next;
        free(channel);
    }
}

/* On loopback the answer is there at once, unless the listener's queue is full: a second of waiting bounds what that costs. */
static bool is_connected(int fd)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int error = ETIMEDOUT;
    if (poll(&writable, 1, 1000) == 1)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    return error == 0;
}

static int open_connection(uint32_t port, const char *path)
{
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof local.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(local.sun_path, path);
    int fd = socket(*path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int failed = *path ? connect(fd, (struct sockaddr *)&local, sizeof local) : connect(fd, (struct sockaddr *)&inet, sizeof inet);
    if (failed && errno == EINPROGRESS)
        failed = !is_connected(fd);
    if (failed) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

void channel_add_connection(uint32_t id, int fd)
{
    int input = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (input < 0) {
        frame_failed(&agent.out, id, errno, "hold a connection");
        close(fd);
        return;
    }
    struct channel *channel = channel_add(id);
    channel->is_connection = true;
    channel->output[0] = fd;
    channel->input = input;
    frame_done(&agent.out, id, 0);
}

void channel_connect(uint32_t id, struct reader *in)
{
    uint32_t port = take_u32(in);
    char *path = take_text(in);
    int fd = in->bad ? -1 : open_connection(port, path);
    if (fd < 0) {
        frame_failed(&agent.out, id, errno, "connect");
    } else {
        channel_add_connection(id, fd);
    }
    free(path);
}
