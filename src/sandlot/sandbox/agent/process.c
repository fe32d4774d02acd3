/* Commands: starting them, ending them with all they started, reaping. */
#define _GNU_SOURCE
#include "agent.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_WORDS 65536

enum flags { WITH_TERMINAL = 1, INPUT_STAYS_OPEN = 2 };

struct command {
    uint8_t flags;
    uint64_t budget;
    char *user, *folder, **argv, **env;
    const uint8_t *input;
    size_t num_input;
    uid_t uid;
    gid_t gid;
};

static char **take_words(struct reader *in)
{
    uint32_t count = take_u32(in);
    if (count > MAX_WORDS)
        in->bad = true;
    if (in->bad)
        return NULL;
    char **words = calloc(count + 1, sizeof *words);
    for (uint32_t i = 0; words && i < count; i++)
        words[i] = take_text(in);
    return words;
}

static void free_words(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

/* `name`, `uid` or `uid:gid`; names by the sandbox's own /etc/passwd, which is the sandbox's to write. libc's reader would load
 * name service plugins out of the image, so the file is read here. */
static bool resolve_user(struct command *command)
{
    char *end;
    unsigned long uid = strtoul(command->user, &end, 10);
    if (isdigit((unsigned char)*command->user) && (*end == 0 || *end == ':')) {
        command->uid = (uid_t)uid;
        command->gid = *end ? (gid_t)strtoul(end + 1, NULL, 10) : (gid_t)uid;
        return true;
    }
    if (!strcmp(command->user, "root"))
        return true;
    struct stat kind;
    int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd >= 0 && !fstat(fd, &kind) && S_ISREG(kind.st_mode) ? fdopen(fd, "r") : NULL;
    char line[1024], name[256];
    unsigned found_uid, found_gid;
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "%255[^:]:%*[^:]:%u:%u", name, &found_uid, &found_gid) == 3 && !strcmp(name, command->user);
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    if (found) {
        command->uid = found_uid;
        command->gid = found_gid;
    }
    errno = ENOENT;
    return found;
}

/* Descriptors of a command: the child's ends are 0, 1, 2 of `child`; the agent's ends are the channel's. */
static bool open_streams(struct channel *channel, bool terminal, int child[3])
{
    if (terminal) {
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        if (master < 0 || unlockpt(master))
            return false;
        struct winsize size = {.ws_row = 24, .ws_col = 80};
        ioctl(master, TIOCSWINSZ, &size);
        child[0] = child[1] = child[2] = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        channel->output[0] = master;
        channel->input = fcntl(master, F_DUPFD_CLOEXEC, 0);
        return child[0] >= 0 && channel->input >= 0;
    }
    int input[2], output[2], errors[2];
    if (pipe2(input, O_CLOEXEC) || pipe2(output, O_CLOEXEC) || pipe2(errors, O_CLOEXEC))
        return false;
    child[0] = input[0], child[1] = output[1], child[2] = errors[1];
    channel->input = input[1], channel->output[0] = output[0], channel->output[1] = errors[0];
    fcntl(input[1], F_SETFL, O_NONBLOCK);
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    return true;
}

static void fail_child(const char *what, const char *name, int code)
{
    dprintf(2, "sandlot: cannot %s `%s`: %s\n", what, name, strerror(errno));
    _exit(code);
}

/* Where PATH has a program that may be run. execvp would ask the kernel to run each candidate in turn, which costs several times
 * as much as looking; what is not found here is left to it, and so are its rules about errors. */
static bool find_program(const char *name, char *found, size_t size)
{
    const char *path = strchr(name, '/') ? NULL : getenv("PATH");
    struct stat kind;
    while (path) {
        size_t length = strcspn(path, ":");
        if (length && (size_t)snprintf(found, size, "%.*s/%s", (int)length, path, name) < size && !stat(found, &kind) &&
            S_ISREG(kind.st_mode) && !access(found, X_OK))
            return true;
        path = path[length] ? path + length + 1 : NULL;
    }
    return false;
}

/* Process 1 has ten times the weight of a command, so that it can act beside hundreds of them. Between sandboxes only their cgroups
 * count, where there are any. */
#define NICER 10

static void become_command(const struct command *command, const int child[3], int guard)
{
    setsid();
    if (command->flags & WITH_TERMINAL)
        ioctl(child[0], TIOCSCTTY, 0);
    for (int i = 0; i < 3; i++)
        dup2(child[i], i);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    umask(022);
    if (nice(NICER) < 0) /* only ever fails where it is already the nicest */
        errno = 0;
    struct rlimit files = {agent.view->open_files, agent.view->open_files};
    if (agent.view->open_files && setrlimit(RLIMIT_NOFILE, &files))
        fail_child("limit the open files of", command->argv[0], 126);
    /* Its orphans stay below it, so that ending the command finds all it started, daemons included. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    struct rlimit processes = {agent.view->user_pids, agent.view->user_pids}; /* counted by user */
    if (command->uid && agent.view->user_pids && setrlimit(RLIMIT_NPROC, &processes))
        fail_child("limit the processes of", command->argv[0], 126);
    if (command->uid || command->gid) {
        if (setgroups(0, NULL) || setresgid(command->gid, command->gid, command->gid) ||
            setresuid(command->uid, command->uid, command->uid))
            fail_child("become user", command->user, 126);
    }
    if (guard >= 0 && !guard_install(guard))
        fail_child("count the sockets of", command->argv[0], 126);
    /* From here on paths are the user's, and must not lead through /proc/self/fd to what this program holds. */
    if (syscall(SYS_close_range, 3u, ~0u, 0u))
        fail_child("close the descriptors of", command->argv[0], 126);
    if (chdir(command->folder))
        fail_child("enter", command->folder, 126);
    environ = command->env;
    char found[4096];
    execvp(find_program(command->argv[0], found, sizeof found) ? found : command->argv[0], command->argv);
    fail_child("start", command->argv[0], errno == ENOENT ? 127 : 126);
}

/* A command that cannot be started ends with a message and an exit code, as in a shell; the sandbox has not failed. */
static void refuse(uint32_t id, const char *what, const char *name)
{
    char text[512];
    snprintf(text, sizeof text, "sandlot: cannot %s `%s`: %s\n", what, name, strerror(errno));
    size_t mark = frame_begin(&agent.out, OUTPUT, id);
    put_u8(&agent.out, 1);
    buffer_put(&agent.out, text, strlen(text));
    frame_end(&agent.out, mark);
    mark = frame_begin(&agent.out, EXITED, id);
    put_u32(&agent.out, 126);
    put_u64(&agent.out, 0);
    put_u8(&agent.out, false);
    frame_end(&agent.out, mark);
}

#define OOM_COMMAND 200 /* a fifth of the memory limit, which process 1 never has */

/* When memory runs out the kernel kills the process with the highest score: its size and this number. Commands get a higher one
 * than process 1, so they are killed first, however small they are. A command inherits what process 1 has at the fork; it cannot
 * lower it, because /proc is read-only. */
static void set_oom_score(int value)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%d", value > 1000 ? 1000 : value);
    if (agent.view->oom_score >= 0 && pwrite(agent.view->oom_score, text, (size_t)length, 0) != length)
        _exit(73);
}

static pid_t fork_command(void)
{
    set_oom_score(agent.view->oom_base + OOM_COMMAND);
    pid_t pid = fork();
    int error = errno;
    if (pid)
        set_oom_score(agent.view->oom_base);
    errno = error;
    return pid;
}

static void take_guard(const int pair[2], bool started)
{
    if (pair[0] < 0)
        return;
    close(pair[1]);
    if (started)
        agent_add_guard(pair[0]);
    else
        close(pair[0]);
}

static void start(uint32_t id, const struct command *command)
{
    struct channel *channel = channel_add(id);
    int child[3] = {-1, -1, -1};
    channel->budget = command->budget;
    pid_t pid = -1;
    int guard[2] = {-1, -1};
    bool ready = !agent.view->count_sockets || !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, guard);
    if (ready && open_streams(channel, command->flags & WITH_TERMINAL, child))
        pid = fork_command();
    if (pid == 0)
        become_command(command, child, guard[1]);
    int error = errno;
    take_guard(guard, pid > 0);
    for (int i = 0; i < 3; i++)
        if (child[i] >= 0 && (i == 0 || child[i] != child[0]))
            close(child[i]);
    if (pid < 0) {
        errno = error;
        refuse(id, "start", command->argv[0]);
        channel_close(channel);
        for (int which = 0; which < 2; which++)
            if (channel->output[which] >= 0)
                close(channel->output[which]);
        channel->output[0] = channel->output[1] = -1; /* swept at the end of this round */
        return;
    }
    channel->pid = pid;
    buffer_put(&channel->pending, command->input, command->num_input);
    channel->close_input = !(command->flags & INPUT_STAYS_OPEN);
    channel_pump_input(channel);
}

void process_spawn(uint32_t id, struct reader *in)
{
    struct command command = {.flags = take_u8(in), .budget = take_u64(in), .user = take_text(in), .folder = take_text(in)};
    command.argv = take_words(in);
    command.env = take_words(in);
    command.input = take_bytes(in, &command.num_input);
    if (in->bad || !command.argv || !command.argv[0] || !command.env)
        in->bad = true;
    else if (resolve_user(&command))
        start(id, &command);
    else
        refuse(id, "become user", command.user);
    free(command.user);
    free(command.folder);
    free_words(command.argv);
    free_words(command.env);
}

void process_reap(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (struct channel *channel = agent.channels; channel; channel = channel->next)
            if (channel->pid == pid)
                channel_ended(channel, status);
}

/* Whether anything is left of the commands that have ended; also true while another one runs. */
bool process_others_live(void)
{
    siginfo_t about;
    return !waitid(P_ALL, 0, &about, WEXITED | WNOHANG | WNOWAIT);
}

struct relative {
    pid_t pid, parent;
    char state;
    bool doomed;
};

static size_t list_processes(struct relative *found, size_t most)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;
    while (folder && count < most && (entry = readdir(folder))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        char path[300], text[512];
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        if (fd >= 0)
            close(fd);
        if (length <= 0)
            continue;
        text[length] = 0;
        char *after = strrchr(text, ')'), state; /* the name before it is the process's own to choose */
        int parent;
        if (after && sscanf(after + 1, " %c %d", &state, &parent) == 2 && state != 'Z')
            found[count++] = (struct relative){atoi(entry->d_name), parent, state, false};
    }
    if (folder)
        closedir(folder);
    return count;
}

static size_t mark_doomed(struct relative *found, size_t count, pid_t root)
{
    size_t doomed = 0, before;
    do {
        before = doomed;
        for (size_t i = 0; i < count; i++) {
            bool is_below = found[i].pid == root;
            for (size_t j = 0; j < count && !is_below && !found[i].doomed; j++)
                is_below = found[j].doomed && found[j].pid == found[i].parent;
            doomed += is_below && !found[i].doomed;
            found[i].doomed |= is_below;
        }
    } while (doomed > before);
    return doomed;
}

/* A command and everything below it. The command itself is stopped first, so that it starts nothing new, and goes last, because
 * while it lives its orphans stay below it. */
void process_kill(pid_t root)
{
    static struct relative found[4096];
    kill(root, SIGSTOP);
    for (int round = 0; round < 1000; round++) {
        size_t count = list_processes(found, sizeof found / sizeof *found);
        size_t doomed = mark_doomed(found, count, root);
        bool stopped = true;
        for (size_t i = 0; i < count; i++) {
            if (found[i].pid == root)
                stopped = found[i].state == 'T' || found[i].state == 't';
            else if (found[i].doomed)
                kill(found[i].pid, SIGKILL);
        }
        if (doomed <= 1 && stopped)
            break;
        sched_yield();
    }
    kill(root, SIGKILL);
}

/* Everything but this process. The kernel signals all at once, and a fork fails while a kill is pending. */
uint64_t process_kill_all(void)
{
    uint64_t ended = 0;
    int status;
    for (;;) {
        if (agent.is_init)
            kill(-1, SIGKILL);
        else
            for (struct channel *channel = agent.channels; channel; channel = channel->next)
                if (channel->pid)
                    process_kill(channel->pid);
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == ECHILD)
            return ended;
        ended++;
        for (struct channel *channel = agent.channels; channel; channel = channel->next)
            if (channel->pid == pid)
                channel_ended(channel, status);
    }
}
