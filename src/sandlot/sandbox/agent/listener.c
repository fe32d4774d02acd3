/* Listeners: ports of the sandbox's loopback whose connections go to the host.
 *
 * The host accepts one connection at a time and names its channel. Others wait in the kernel's short queue, so a program that opens
 * connections without end waits too, and costs nothing here. */
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE 512

static int open_port(uint32_t port)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) || bind(fd, (struct sockaddr *)&where, sizeof where) ||
        listen(fd, QUEUE)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

void listener_open(uint32_t id, struct reader *in)
{
    uint32_t port = take_u32(in);
    int fd = in->bad ? -1 : open_port(port);
    if (fd < 0) {
        char what[64];
        snprintf(what, sizeof what, "listen on port %u inside the sandbox", port);
        frame_failed(&agent.out, id, errno, what);
        return;
    }
    struct channel *channel = channel_add(id);
    channel->is_listener = true;
    channel->output[0] = fd;
    frame_done(&agent.out, id, 0);
}

static void send_closed(uint32_t id)
{
    size_t mark = frame_begin(&agent.out, CLOSED, id);
    put_u64(&agent.out, 0);
    frame_end(&agent.out, mark);
}

void listener_accept(uint32_t id, struct reader *in)
{
    struct channel *listener = channel_find(take_u32(in));
    if (!listener || !listener->is_listener || listener->output[0] < 0)
        send_closed(id);
    else if (listener->accepting)
        in->bad = true;
    else
        listener->accepting = id;
}

void listener_pump(struct channel *listener)
{
    int fd = accept4(listener->output[0], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = errno;
    if (fd < 0 && (error == EAGAIN || error == EINTR || error == ECONNABORTED))
        return;
    uint32_t id = listener->accepting;
    listener->accepting = 0;
    if (fd >= 0)
        channel_add_connection(id, fd);
    else
        frame_failed(&agent.out, id, error, "take a connection");
}

/* Closes a listener; a waiting ACCEPT gets the end. */
void listener_close(struct channel *listener)
{
    if (listener->output[0] >= 0)
        close(listener->output[0]);
    listener->output[0] = -1;
    if (listener->accepting)
        send_closed(listener->accepting);
    listener->accepting = 0;
}

void listeners_close(void)
{
    for (struct channel *channel = agent.channels; channel; channel = channel->next)
        if (channel->is_listener)
            listener_close(channel);
}
