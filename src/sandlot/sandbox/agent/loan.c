/* Ids of an ordinary user: its own, and its subordinate ids in /etc/subuid and /etc/subgid.
 *
 * Only newuidmap and newgidmap may map subordinate ids, and only from outside the new user namespace. So a child stays outside and
 * calls them when the zygote is inside. If that fails, one id is mapped, which every user may do. */
#define _GNU_SOURCE
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void map_from_outside(const struct loan *loan, pid_t target, uint32_t own)
{
    char words[6][16];
    uint32_t values[] = {(uint32_t)target, 0, own, 1, loan->first, loan->count};
    for (int i = 0; i < 6; i++)
        snprintf(words[i], sizeof words[i], "%u", values[i]);
    execl(loan->program, loan->program, words[0], words[1], words[2], "1", words[3], words[4], words[5], (char *)NULL);
    _exit(127);
}

/* A child that waits for a word and then maps; returns where to send the word, -1 if there is nothing to map. */
static int prepare(const struct loan *loan, uint32_t own, pid_t *child)
{
    int go[2];
    pid_t target = getpid();
    if (!*loan->program || !loan->count || pipe2(go, O_CLOEXEC))
        return -1;
    *child = fork();
    if (*child == 0) {
        char byte;
        close(go[1]);
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        map_from_outside(loan, target, own);
    }
    close(go[0]);
    return go[1];
}

static bool is_mapped(int go, pid_t child)
{
    int status = -1;
    if (go < 0)
        return false;
    bool sent = write(go, "", 1) == 1;
    close(go);
    return child > 0 && waitpid(child, &status, 0) == child && sent && WIFEXITED(status) && !WEXITSTATUS(status);
}

const char *loan_enter_user_namespace(void)
{
    pid_t for_users = -1, for_groups = -1;
    int users = prepare(&zygote.users, zygote.user, &for_users), groups = prepare(&zygote.groups, zygote.group, &for_groups);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
        return "make a user namespace (is kernel.unprivileged_userns_clone or AppArmor in the way?)";
    zygote.identity.num_users = zygote.identity.num_groups = 1;
    char map[48];
    if (is_mapped(users, for_users)) {
        zygote.identity.num_users += zygote.users.count;
    } else {
        snprintf(map, sizeof map, "0 %u 1", zygote.user);
        if (write_file(AT_FDCWD, "/proc/self/uid_map", map))
            return "map the user";
    }
    if (is_mapped(groups, for_groups)) {
        zygote.identity.num_groups += zygote.groups.count;
        return NULL;
    }
    snprintf(map, sizeof map, "0 %u 1", zygote.group);
    if (write_file(AT_FDCWD, "/proc/self/setgroups", "deny"))
        return "give up changing groups";
    return write_file(AT_FDCWD, "/proc/self/gid_map", map) ? "map the group" : NULL;
}
