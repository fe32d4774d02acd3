/* Declarations shared by the zygote's files. */
#ifndef SANDLOT_ZYGOTE_H
#define SANDLOT_ZYGOTE_H

#include "sandlot.h"

#define MAX_SLOTS 8192
#define MAX_FOLDERS 4096

struct memory_count {
    uint64_t kills;    /* processes that were killed for memory */
    uint64_t at_limit; /* how often the limit of this very cgroup was reached; version 2 only */
};

struct slot {
    int user_namespace;
    pid_t pid;    /* of the sandbox that has it now; 0 when free */
    char *limits; /* the cgroup lines its folders were made with */
    uint64_t sandbox;  /* the host's number of that sandbox */
    struct memory_count before; /* what the memory cgroup had counted before that sandbox */
    bool is_low;  /* its processes run only when no others want to */
    bool is_held; /* its cgroup cannot serve another sandbox: a layer of what this one wrote stays charged, or its limits are gone */
};

enum fate { LIVES = 0, ENDED = 1, OUT_OF_MEMORY = 2 };
#define MAX_FATES 1024

/* Ids lent to an ordinary user, and the program that may map them. No program: none are. */
struct loan {
    char *program;
    uint32_t first, count;
};

struct zygote {
    int control, signals, host_mounts, own_mounts;
    int itself; /* a descriptor of this process; -1 on a kernel without them */
    struct identity identity;
    uint32_t user, group;
    struct loan users, groups;
    int num_cgroups, cgroups[MAX_CGROUPS];
    char *cgroup_names[MAX_CGROUPS];
    int num_slots, num_running;
    struct slot slots[MAX_SLOTS];
    enum { FREE = 0, AS_IT_IS = 1, TO_BE_MAPPED = 2 } folders[MAX_FOLDERS];
    uint64_t out_of_memory[MAX_FATES]; /* the last sandboxes that ended so */
    size_t num_out_of_memory;
};

extern struct zygote zygote;

void reply_failed(const char *what);
void reply_done(uint64_t value);

/* slot.c */
int slot_take(void);
int slot_user_namespace(uint32_t owner, uint32_t first_id);
uint32_t slot_first_id(int slot);
const char *slot_limit(int slot, const struct spec *spec);
pid_t slot_clone(int slot, bool *joined);
const char *slot_join(int slot, bool joined);
void slot_remove(int slot);
void slot_begin_count(int slot);
bool slot_was_out_of_memory(int slot);
int slot_find(uint64_t sandbox);
int write_file(int folder, const char *path, const char *text);

/* ending.c */
void ending_weigh(int slot, bool low);
void ending_end(int slot);

/* loan.c */
const char *loan_enter_user_namespace(void);

/* layer.c */
bool layer_can_map(const char *path);
void layer_add_folder(struct reader *in);
void layer_attach(int tree, bool is_image);
void layer_drop(uint32_t folder);

#endif
