/* Files inside the sandbox, read and written as its root. Paths are resolved inside; none can lead out. */
#define _GNU_SOURCE
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_DEPTH 200
#define MAX_PATH 4096

enum listing { ITSELF = 0, CHILDREN = 1, BELOW = 2, CHANGED = 3 };

/* As open(2), but never through a link of /proc that stands for what a process has open: what this one has open is not the
 * sandbox's. */
static int open_inside(int folder, const char *path, int flags, uint32_t mode)
{
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC, .mode = mode, .resolve = RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

void files_read(uint32_t id, struct reader *in)
{
    uint64_t most = take_u64(in);
    char *path = take_text(in);
    struct stat about;
    int fd = open_inside(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0); /* never waits for the other end of a pipe */
    int error = fd < 0 ? errno : 0;
    free(path);
    if (!error && fstat(fd, &about))
        error = errno;
    if (!error && !S_ISREG(about.st_mode))
        error = S_ISDIR(about.st_mode) ? EISDIR : ENODEV;
    uint64_t total = 0;
    while (!error) {
        static uint8_t bytes[CHUNK];
        ssize_t count = read(fd, bytes, sizeof bytes);
        if (count <= 0) {
            error = count < 0 && errno != EINTR ? errno : 0;
            if (count == 0)
                break;
            continue;
        }
        total += (uint64_t)count;
        if (total > most) {
            error = EFBIG;
            break;
        }
        size_t mark = frame_begin(&agent.out, DATA, id);
        buffer_put(&agent.out, bytes, (size_t)count);
        frame_end(&agent.out, mark);
        if (total > CHUNK)
            agent_flush(true);
    }
    if (fd >= 0)
        close(fd);
    if (error)
        frame_failed(&agent.out, id, error, "read");
    else
        frame_done(&agent.out, id, total);
}

/* Opens the parent folder of a path, and makes missing folders; `name` is the last part. Each step starts at the folder before
 * it, so that no process can put a link in between. */
static int open_parent(char *path, char **name)
{
    int folder = open_inside(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    char *slash;
    for (*name = path + 1; folder >= 0 && (slash = strchr(*name, '/')); *name = slash + 1) {
        *slash = 0;
        const char *step = **name ? *name : ".";
        int next = open_inside(folder, step, O_PATH | O_DIRECTORY, 0);
        if (next < 0 && errno == ENOENT && (!mkdirat(folder, step, 0755) || errno == EEXIST))
            next = open_inside(folder, step, O_PATH | O_DIRECTORY, 0);
        int error = errno;
        close(folder);
        errno = error;
        folder = next;
    }
    return folder;
}

void files_write(uint32_t id, struct reader *in)
{
    bool append = take_u8(in);
    uint32_t mode = take_u32(in);
    char *path = take_text(in);
    size_t count;
    const uint8_t *bytes = take_bytes(in, &count);
    struct stat about;
    char *name = path;
    int folder = in->bad ? -1 : open_parent(path, &name), fd = -1;
    int error = folder < 0 ? errno : 0;
    if (!error) {
        fd = open_inside(folder, name, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | (append ? O_APPEND : O_TRUNC), mode & 07777);
        error = fd < 0 ? errno : 0;
        close(folder);
    }
    if (!error && (fstat(fd, &about) || !S_ISREG(about.st_mode)))
        error = ENODEV;
    while (!error && count) {
        ssize_t taken = write(fd, bytes, count);
        if (taken < 0)
            error = errno;
        else
            bytes += taken, count -= (size_t)taken;
    }
    if (fd >= 0)
        close(fd);
    free(path);
    if (error)
        frame_failed(&agent.out, id, error, "write");
    else
        frame_done(&agent.out, id, 0);
}

/* -- listings ----------------------------------------------------------------------------------------------------- */

/* A DATA frame that grows entry by entry and is sent when it is large. Entries beyond `room` bytes are only counted: what an
 * agent makes must not fill the host's memory. */
static struct {
    uint32_t id;
    size_t mark;
    uint64_t room, left_out;
} listing;

static void begin_entries(uint32_t id)
{
    listing.id = id;
    listing.mark = frame_begin(&agent.out, DATA, id);
}

static void end_entries(void) { frame_end(&agent.out, listing.mark); }

#define ENTRY_BYTES (1 + 1 + 3 * 4 + 3 * 8 + 4) /* an entry without its path */

/* False when the listing is full. It stays full, so that a short path after a long one is not listed by chance. */
static bool take_room(const char *path)
{
    size_t size = ENTRY_BYTES + strlen(path);
    if (size > listing.room)
        listing.room = 0;
    else
        listing.room -= size;
    listing.left_out += !listing.room;
    return listing.room;
}

static uint8_t kind_of(const struct stat *about)
{
    if (!about)
        return '-';
    return S_ISREG(about->st_mode) ? 'f' : S_ISDIR(about->st_mode) ? 'd' : S_ISLNK(about->st_mode) ? 'l' : 'o';
}

/* u8 kind now, u8 kind in the image ('-' for none), u32 mode, uid, gid, u64 size, u64 mtime in ns, u64 size in the image, path. */
static void put_entry(const char *path, const struct stat *now, const struct stat *image, bool cut)
{
    static const struct stat none;
    const struct stat *about = now ? now : &none;
    if (!take_room(path))
        return;
    put_u8(&agent.out, cut ? 't' : kind_of(now));
    put_u8(&agent.out, kind_of(image));
    put_u32(&agent.out, about->st_mode);
    put_u32(&agent.out, about->st_uid);
    put_u32(&agent.out, about->st_gid);
    put_u64(&agent.out, (uint64_t)about->st_size);
    put_u64(&agent.out, (uint64_t)about->st_mtim.tv_sec * 1000000000u + (uint64_t)about->st_mtim.tv_nsec);
    put_u64(&agent.out, image ? (uint64_t)image->st_size : 0);
    put_text(&agent.out, path);
    if (agent.out.end - agent.out.start - listing.mark > CHUNK) {
        end_entries();
        agent_flush(true);
        begin_entries(listing.id);
    }
}

/* Never through a link, so that an entry is what its path says. */
static bool stat_below(int folder, const char *path, struct stat *about)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, folder, *path ? path : ".", &how, sizeof how);
    bool found = fd >= 0 && !fstat(fd, about);
    if (fd >= 0)
        close(fd);
    return found;
}

typedef void visit(const char *path, const struct stat *about, bool cut);

/* Calls `each` for everything below; `path` is a buffer of MAX_PATH that names the folder and is extended in place. */
static void walk(int folder, char *path, int depth, bool deep, visit *each)
{
    DIR *entries = fdopendir(folder);
    struct dirent *entry;
    size_t length = strlen(path);
    while (entries && (entry = readdir(entries))) {
        struct stat about;
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, "..") || fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW))
            continue;
        bool fits = length + strlen(name) + 2 < MAX_PATH;
        if (!fits) {
            each(path, &about, true);
            continue;
        }
        snprintf(path + length, MAX_PATH - length, "%s%s", length && path[length - 1] != '/' ? "/" : "", name);
        bool enter = deep && S_ISDIR(about.st_mode);
        int inner = enter && depth < MAX_DEPTH ? openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        each(path, &about, enter && inner < 0);
        if (inner >= 0)
            walk(inner, path, depth + 1, deep, each);
        path[length] = 0;
    }
    if (entries)
        closedir(entries);
    else
        close(folder);
}

static void visit_plain(const char *path, const struct stat *about, bool cut) { put_entry(path, about, NULL, cut); }

static const char *list_plain(char *path, enum listing how)
{
    struct stat about;
    int itself = open_inside(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0);
    bool found = itself >= 0 && !fstat(itself, &about);
    if (itself >= 0)
        close(itself);
    if (!found)
        return "look at";
    if (how == ITSELF) {
        put_entry(path, &about, NULL, false);
        return NULL;
    }
    int folder = open_inside(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (folder < 0)
        return "list";
    walk(folder, path, 0, how == BELOW, visit_plain);
    return NULL;
}

/* -- what differs from the image ---------------------------------------------------------------------------------- */

static struct {
    int tree, merged;
    const char *mountpoint;
} current;

static bool is_whiteout(const struct stat *about) { return S_ISCHR(about->st_mode) && about->st_rdev == 0; }

static bool stat_in_image(const char *path, struct stat *about)
{
    int count = agent.view->trees[current.tree].num_layers, images = agent.view->trees[current.tree].num_images;
    for (int i = count - images; i < count; i++)
        if (stat_below(agent.view->trees[current.tree].layers[i], path, about))
            return !is_whiteout(about);
    return false;
}

static void put_changed(const char *path, bool cut)
{
    char whole[MAX_PATH + 300];
    struct stat now, image;
    bool is_now = stat_below(current.merged, path, &now), is_image = stat_in_image(path, &image);
    if (!is_now && !is_image)
        return;
    bool root = !strcmp(current.mountpoint, "/");
    snprintf(whole, sizeof whole, "%s/%s", root ? "" : current.mountpoint, path);
    put_entry(whole, is_now ? &now : NULL, is_image ? &image : NULL, cut);
}

/* Deleted files are found by asking the image what it has in each folder that was touched, whether the deletion left a whiteout
 * or the whole folder was replaced. */
static void put_missing(const char *path)
{
    int count = agent.view->trees[current.tree].num_layers, images = agent.view->trees[current.tree].num_images;
    for (int i = count - images; i < count; i++) {
        struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
        int folder = (int)syscall(SYS_openat2, agent.view->trees[current.tree].layers[i], *path ? path : ".", &how, sizeof how);
        DIR *entries = folder >= 0 ? fdopendir(folder) : NULL;
        struct dirent *entry;
        while (entries && (entry = readdir(entries))) {
            char below[MAX_PATH + 300];
            struct stat about;
            snprintf(below, sizeof below, "%s%s%s", path, *path ? "/" : "", entry->d_name);
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && !stat_below(current.merged, below, &about))
                put_changed(below, false);
        }
        if (entries)
            closedir(entries);
    }
}

static void visit_changed(const char *path, const struct stat *about, bool cut)
{
    if (is_whiteout(about))
        return; /* its folder tells */
    if (!listing.room) {
        listing.left_out++;
        return;
    }
    put_changed(path, cut);
    if (S_ISDIR(about->st_mode))
        put_missing(path);
}

static const char *list_changed(void)
{
    static char path[MAX_PATH];
    for (int tree = 0; tree < agent.view->num_trees; tree++) {
        current.tree = tree;
        current.mountpoint = agent.view->trees[tree].mountpoint;
        current.merged = open(current.mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (current.merged < 0)
            return "open the root";
        put_missing("");
        int written = agent.view->trees[tree].num_layers - agent.view->trees[tree].num_images;
        for (int i = 0; i < written; i++) {
            int folder = openat(agent.view->trees[tree].layers[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            path[0] = 0;
            if (folder >= 0)
                walk(folder, path, 0, true, visit_changed);
        }
        close(current.merged);
    }
    return NULL;
}

void files_list(uint32_t id, struct reader *in)
{
    static char path[MAX_PATH];
    enum listing how = take_u8(in);
    listing.room = take_u64(in);
    char *given = take_text(in);
    bool fits = strlen(given) < sizeof path;
    snprintf(path, sizeof path, "%s", given);
    free(given);
    listing.left_out = 0;
    begin_entries(id);
    errno = ENAMETOOLONG;
    const char *failed = !fits ? "list" : how == CHANGED ? list_changed() : list_plain(path, how);
    int error = errno;
    end_entries();
    if (failed)
        frame_failed(&agent.out, id, error, failed);
    else
        frame_done(&agent.out, id, listing.left_out);
}
