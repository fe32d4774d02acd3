/* One static program, three ways to run it:
 *
 *   zygote            make sandboxes for the host on descriptor 0 (zygote.c)
 *   agent             serve commands and files on descriptors 0 and 1, as the first process of a Docker container (agent.c)
 *   filter COMMAND    run a command under the system call filter only, to test the filter (filter.c)
 */
#define _GNU_SOURCE
#include "sandlot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Drops what the container engine has left: processes inside may not look into this one, whose /proc entry shows the pipes to the
 * host; nothing gains privileges; the same system calls as in every other sandbox. */
static const char *give_up_power(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return "give up new privileges";
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
        return "close its memory to others";
    const char *failed = guard_core_limit();
    if (failed)
        return failed;
    filter_prepare();
    return filter_install();
}

/* The pipes move away from 0, 1 and 2, so that no command can inherit them by a mistake. */
static const char *take_pipes(int *source, int *sink)
{
    *source = fcntl(0, F_DUPFD_CLOEXEC, 3);
    *sink = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (*source < 0 || *sink < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0 || dup2(nothing, 2) < 0)
        return "take the pipes to the host";
    close(nothing);
    return NULL;
}

static int serve_pipes(void)
{
    static struct root_view none = {.upper_mount = -1, .oom_score = -1};
    hold_oom_score(&none);
    int source = 0, sink = 1;
    const char *failed = take_pipes(&source, &sink);
    if (!failed)
        failed = give_up_power();
    if (!failed)
        agent_run(source, sink, &none, getpid() == 1);
    struct buffer out = {0};
    frame_failed(&out, 0, errno, failed);
    return write(sink >= 0 ? sink : 1, out.data, out.end) == (ssize_t)out.end ? 1 : 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "zygote"))
        return zygote_run(0);
    if (argc == 2 && !strcmp(argv[1], "agent"))
        return serve_pipes();
    if (argc > 2 && !strcmp(argv[1], "filter")) {
        filter_prepare();
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); // without it only root may install a filter
        const char *failed = filter_install();
        if (!failed)
            execvp(argv[2], argv + 2);
        perror(failed ? failed : argv[2]);
        return 1;
    }
    fprintf(stderr, "usage: %s zygote | agent | filter COMMAND...\n", argv[0]);
    return 2;
}
