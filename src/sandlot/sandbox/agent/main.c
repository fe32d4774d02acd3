/* One static program, three ways to run it:
 *
 *   zygote            make sandboxes for the host on descriptor 0 (zygote.c)
 *   agent             serve commands and files on descriptor 0, inside a container somebody else made (agent.c)
 *   filter COMMAND    run a command under the system call filter alone, capabilities kept: how the filter is tested (filter.c)
 */
#include "sandlot.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static struct root_view none = {.upper_mount = -1};
    if (argc == 2 && !strcmp(argv[1], "zygote"))
        return zygote_run(0);
    if (argc == 2 && !strcmp(argv[1], "agent"))
        agent_run(0, &none, getpid() == 1);
    if (argc > 2 && !strcmp(argv[1], "filter")) {
        filter_prepare();
        const char *failed = filter_install();
        if (!failed)
            execvp(argv[2], argv + 2);
        perror(failed ? failed : argv[2]);
        return 1;
    }
    fprintf(stderr, "usage: %s zygote | agent | filter COMMAND...\n", argv[0]);
    return 2;
}
