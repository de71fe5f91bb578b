/* Group ENV: what no slot may change in the process around it, what it prints and leaves running,
 * and what a fork does to an open instance. */
#include "tools/check/offspring.h"
#include "tools/check/process.h"
#include "tools/check/steps.h"
#include "tools/check/tour.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 1024
#define OWN_DESCRIPTORS 16
#define FORK_WAIT_NS UINT64_C(8000000000)

/* ---- Before and after a tour through every slot ---------------------------------------------- */

/* Twice: what is made once in a process is made, and a second time shows what toggles. */
static void compare(mbr_trial *trial, mbr_aspect aspect, const char *expected)
{
    static mbr_process before, after;
    char text[256];
    mbr_process_read(&before);
    for (int i = 0; i < 2; i++) {
        mbr_tour(trial, NULL);
        mbr_process_read(&after);
        MBR_EXPECT(trial, mbr_process_is_same(&before, &after, aspect, text, sizeof text), expected,
            "%s", text);
    }
}

static void run_locale(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_LOCALE, "no slot changes the locale");
}

static void run_floating_point(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_FLOATING_POINT, "no slot changes the floating-point mode");
}

static void run_directory(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_DIRECTORY, "no slot changes directory or umask");
}

static void run_signals(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_SIGNALS, "no slot changes signal handlers or the signal mask");
}

static void run_environment(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_ENVIRONMENT, "no slot changes the environment");
}

static void run_limits(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_LIMITS, "no slot changes resource limits");
}

/* The warden looks at what was printed and at who is left. */
static void run_tour(mbr_trial *trial)
{
    mbr_tour(trial, NULL);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static void read_open(bool is_open[DESCRIPTORS_MAX])
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static bool was_open[DESCRIPTORS_MAX];

static void expect_closed_on_exec(mbr_trial *trial, const char *when)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || was_open[fd])
            continue;
        MBR_EXPECT(trial, (flags & FD_CLOEXEC) != 0,
            "every descriptor that a plugin opens is closed by exec", "descriptor %d %s is not", fd,
            when);
    }
}

static mbr_status visit_descriptors(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome)
{
    (void)is_good;
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    expect_closed_on_exec(trial, mbr_slot_name(slot));
    return status;
}

/* Before anything is loaded, so that also what loading and open leave is seen. */
static void run_close_on_exec(mbr_trial *trial)
{
    read_open(was_open);
    mbr_stage_enter(trial, MBR_STAGE_OPENED);
    expect_closed_on_exec(trial, "behind open");
    mbr_tour(trial, visit_descriptors);
}

/* A descriptor that the plugin closed is the program's next one; closed twice, it takes that. */
static void run_others_descriptors(mbr_trial *trial)
{
    int own[OWN_DESCRIPTORS];
    struct stat facts, wanted;
    MBR_NEED(trial, stat("/", &wanted) == 0, "stat of /: %s", strerror(errno));
    mbr_tour(trial, NULL);
    for (int i = 0; i < OWN_DESCRIPTORS; i++)
        own[i] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mbr_tour(trial, NULL);
    for (int i = 0; i < OWN_DESCRIPTORS; i++)
        MBR_EXPECT(trial,
            own[i] < 0 ||
                (fstat(own[i], &facts) == 0 && facts.st_dev == wanted.st_dev &&
                    facts.st_ino == wanted.st_ino),
            "a plugin closes its own descriptors alone, and once",
            "descriptor %d of the program was closed", own[i]);
}

/* ---- Fork ------------------------------------------------------------------------------------ */

/* The child's exit status, or 256 and its signal. */
static int await(mbr_trial *trial, pid_t child)
{
    int status;
    (void)mbr_offspring_wait(trial, child, FORK_WAIT_NS, &status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static uint64_t take_allocation(mbr_trial *trial, uint64_t *id)
{
    mbr_outcome outcome = {0};
    *id = mbr_trial_id(trial);
    const mbr_allocate_request request = {MBR_SIZED(mbr_allocate_request), .allocation_id = *id,
        .bytes = 65536, .max_owned_bytes = UINT64_MAX};
    mbr_need_ok(trial, mbr_drive_allocate(trial, &trial->subject, &request, &outcome), "allocate");
    MBR_NEED(trial, mbr_memory_write(trial, outcome.address, 65536, 1) == MBR_MEMORY_OK,
        "a store is refused");
    return outcome.address;
}

/* Children come and go, one by exit with all its handlers, one by _exit. */
static void run_fork_parent(mbr_trial *trial)
{
    uint64_t id, address = take_allocation(trial, &id);
    bool has_virtual = (trial->subject.offered & MBR_NEEDS_VIRTUAL) != 0;
    mbr_place place = {0};
    if (has_virtual) {
        place = mbr_step_reserve(trial, 4);
        mbr_step_commit(trial, &place, 0, 2);
        mbr_step_write(trial, &place, 0, 2, 2);
    }
    mbr_mechanism_stats before = mbr_step_stats(trial);
    for (int i = 0; i < 2; i++) {
        pid_t child = mbr_offspring_fork(trial);
        if (child == 0 && i == 0)
            _exit(0);
        if (child == 0)
            exit(0);
        int status = await(trial, child);
        MBR_EXPECT(trial, status == 0, "a forked child that calls no slot ends as it wants to",
            "%s ended with %d", i == 0 ? "_exit" : "exit", status);
    }
    mbr_memory memory = mbr_memory_read(trial, address, 65536, 1);
    MBR_EXPECT(trial, memory == MBR_MEMORY_OK, "a child's life leaves the parent's memory alone",
        "an allocation: %s", mbr_memory_word(memory));
    if (has_virtual)
        memory = mbr_step_look(trial, &place, 0, 2, 2);
    MBR_EXPECT(trial, memory == MBR_MEMORY_OK, "a child's life leaves the parent's memory alone",
        "a mapping: %s", mbr_memory_word(memory));
    mbr_mechanism_stats after = mbr_step_stats(trial);
    MBR_EXPECT(trial,
        after.owned_bytes == before.owned_bytes && after.mapped_bytes == before.mapped_bytes,
        "a child's life leaves the parent's figures alone", "owned %lu, mapped %lu",
        after.owned_bytes, after.mapped_bytes);
    mbr_tour(trial, NULL);
}

/* Calls of the child end it with a status of their own, because a finding is the parent's. */
static void use_in_child(mbr_trial *trial, uint64_t id, uint64_t address)
{
    mbr_subject *subject = &trial->subject;
    mbr_outcome outcome = {0};
    const mbr_release_request old = {
        MBR_SIZED(mbr_release_request), .allocation_id = id, .address = address};
    const mbr_allocate_request request = {MBR_SIZED(mbr_allocate_request),
        .allocation_id = mbr_trial_id(trial), .bytes = 65536, .max_owned_bytes = UINT64_MAX};
    if (mbr_drive_allocate(trial, subject, &request, &outcome) != MBR_OK)
        _exit(1);
    if (mbr_memory_write(trial, outcome.address, 65536, 3) != MBR_MEMORY_OK)
        _exit(2);
    const mbr_release_request release = {MBR_SIZED(mbr_release_request),
        .allocation_id = request.allocation_id, .address = outcome.address};
    outcome = (mbr_outcome){0};
    if (mbr_drive_release(trial, subject, &release, &outcome) != MBR_OK)
        _exit(3);
    outcome = (mbr_outcome){0};
    if (mbr_drive_release(trial, subject, &old, &outcome) != MBR_OK)
        _exit(4);
    _exit(0);
}

static void run_fork_child(mbr_trial *trial)
{
    static const char *const words[] = {"", "an allocation is refused", "a store is refused",
        "a release is refused", "the release of what the parent took is refused"};
    uint64_t id, address = take_allocation(trial, &id);
    pid_t child = mbr_offspring_fork(trial);
    if (child == 0)
        use_in_child(trial, id, address);
    int status = await(trial, child);
    MBR_EXPECT(trial, status == 0, "an instance that says it is fork-safe works in a child",
        "%s (%d)", status < 5 ? words[status] : "the child died", status);
    mbr_memory memory = mbr_memory_read(trial, address, 65536, 1);
    MBR_EXPECT(trial, memory == MBR_MEMORY_OK,
        "a child that works with an instance leaves the parent's memory alone", "%s",
        mbr_memory_word(memory));
}

#define ENV(number, stage, needs, rules, title, why, run, flags)                                   \
    {                                                                                              \
        "ENV-" number, 4, stage, needs, rules, title, why, run, flags, 0                           \
    }

static const mbr_check checks[] = {
    ENV("001", MBR_STAGE_FILE, 0, "C26", "every descriptor of a plugin is closed by exec",
        "A helper process that a server starts would hold device and memory for ever.",
        run_close_on_exec, 0),
    ENV("002", MBR_STAGE_OPENED, 0, "C26", "a plugin closes its own descriptors alone, and once",
        "The number is another's by then: a connection, or a file that is being written.",
        run_others_descriptors, 0),
    ENV("003", MBR_STAGE_OPENED, 0, "C26", "no slot changes the locale",
        "The locale is the process's: numbers are printed and read otherwise from then on.",
        run_locale, 0),
    ENV("004", MBR_STAGE_OPENED, 0, "C26", "no slot changes the floating-point mode",
        "The thread that computes is the thread that allocates: results change in the last bits.",
        run_floating_point, 0),
    ENV("005", MBR_STAGE_OPENED, 0, "C26", "no slot changes directory or umask",
        "Relative paths and modes of new files of the whole program depend on them.", run_directory,
        0),
    ENV("006", MBR_STAGE_OPENED, 0, "C26", "no slot changes signal handlers or mask",
        "Crash reporters, profilers and clean ends of the program hang on them.", run_signals, 0),
    ENV("007", MBR_STAGE_OPENED, 0, "C26", "no slot changes the environment",
        "Changing it is not safe beside other threads that read it.", run_environment, 0),
    ENV("008", MBR_STAGE_OPENED, 0, "C26", "no slot changes resource limits",
        "The limits are the administrator's and the program's.", run_limits, 0),
    ENV("009", MBR_STAGE_OPENED, 0, "C26", "no slot prints",
        "Standard output is the program's own interface; there is the log callback.", run_tour,
        MBR_CHECK_OUTPUT),
    ENV("010", MBR_STAGE_OPENED, 0, "C26", "no slot leaves a process behind",
        "A server that is stopped must be gone.", run_tour, MBR_CHECK_LEFTOVERS),
    ENV("011", MBR_STAGE_OPENED, 0, "C27", "children that come and go leave an instance alone",
        "Programs fork, to run a command or to load data; no slot is called in those children.",
        run_fork_parent, 0),
    ENV("012", MBR_STAGE_OPENED, MBR_NEEDS_FORK_SAFE, "C4, C27",
        "an instance that says it is fork-safe works in a child",
        "A host believes the fact and serves from workers that it forked.", run_fork_child, 0),
};

const mbr_group mbr_group_env = MBR_GROUP("ENV", "the process around a plugin", checks);
