/* Declarations shared by the agent's files: the connection to the host, and its channels. */
#ifndef SANDLOT_AGENT_H
#define SANDLOT_AGENT_H

#include "sandlot.h"

#define WINDOW (256u << 10) /* bytes of output on the way to the host, per channel, that it has not granted again */

/* A command, a connection, or a port the host answers. Named by the host's number. */
struct channel {
    uint32_t id;
    pid_t pid;          /* 0 once it has ended, and for connections */
    bool is_connection, is_listener, muted;
    uint32_t accepting; /* of a listener: the channel its next connection gets; 0 while the host wants none */
    int input, output[2]; /* -1 when closed; a terminal or connection has one descriptor for both, in input and output[0] */
    uint64_t credit;    /* bytes the host will take now */
    uint64_t budget;    /* bytes of output still wanted at all; what comes after is counted and thrown away here */
    uint64_t dropped;
    struct buffer pending; /* input not yet taken by the command */
    bool close_input;
    struct channel *next;
};

/* How process 1 answers a command's filter. Until the command's process has sent the listener, `fd` is the socket it comes by. */
struct guard {
    int fd;
    bool is_listener;
};

struct agent {
    int source, sink, signals; /* where the host speaks and listens: one socket, or two pipes */
    bool is_init, frozen;
    struct buffer in, out;
    struct channel *channels;
    struct guard *guards; /* one for each command whose sockets are counted, until its last process has ended */
    size_t num_guards;
    struct root_view *view;
};

extern struct agent agent;

void agent_add_guard(int command_socket);
void agent_flush(bool wait); /* send what is queued; with `wait`, until little is left */

/* process.c */
void process_spawn(uint32_t id, struct reader *in);
void process_kill(pid_t root);
uint64_t process_kill_all(void);
void process_reap(void);
bool process_others_live(void);

/* channel.c */
struct channel *channel_find(uint32_t id);
struct channel *channel_add(uint32_t id);
void channel_connect(uint32_t id, struct reader *in);
void channel_add_connection(uint32_t id, int fd);
void channel_input(struct channel *channel, struct reader *in);
void channel_ended(struct channel *channel, int status);
void channel_pump_output(struct channel *channel, int which);
void channel_pump_input(struct channel *channel);
void channel_close(struct channel *channel);
void channels_sweep(void);

/* listener.c */
void listener_open(uint32_t id, struct reader *in);
void listener_accept(uint32_t id, struct reader *in);
void listener_pump(struct channel *listener);
void listener_close(struct channel *listener);
void listeners_close(void);

/* guard.c */
bool guard_install(int agent_socket);
bool guard_serve(struct guard *guard, short events); /* false when it is closed */

/* files.c */
void files_read(uint32_t id, struct reader *in);
void files_write(uint32_t id, struct reader *in);
void files_list(uint32_t id, struct reader *in);

#endif
