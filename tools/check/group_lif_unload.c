/* Group LIF, second part: unloading, exit in odd orders, and the file that changes on disk. The
 * checks load the plugin themselves, because they compare before and after. */
#include "tools/check/alc.h"
#include "tools/check/elf_file.h"
#include "tools/check/offspring.h"
#include "tools/check/process.h"
#include "tools/check/tour.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEYS_MAX 4096
#define EXIT_WAIT_NS UINT64_C(8000000000)
#define EXIT_CODE 23

/* ---- Unloading ------------------------------------------------------------------------------- */

static void need_unloadable(mbr_trial *trial)
{
    mbr_elf_file file;
    mbr_elf_file_read(trial, &file);
    if ((mbr_elf_file_note(trial, &file).flags & MBR_NOTE_UNLOADABLE) == 0)
        mbr_trial_skip(trial, MBR_SKIP_FACT, "the note does not say unloadable");
}

static void close_trial(mbr_trial *trial)
{
    const mbr_quiesce_request last = {
        MBR_SIZED(mbr_quiesce_request), .deadline_ns = mbr_now_ns() + UINT64_C(10000000000)};
    mbr_outcome outcome = {0};
    mbr_need_ok(trial, mbr_drive_quiesce(trial, &trial->subject, &last, &outcome), "quiesce");
    mbr_need_ok(trial, mbr_subject_close(trial, &trial->subject), "close");
}

static void end_life(mbr_trial *trial)
{
    close_trial(trial);
    MBR_NEED(trial, dlclose(trial->library) == 0, "dlclose: %s", dlerror());
    trial->library = NULL;
}

/* A whole life: loaded, opened, every slot, closed, unloaded. */
static void live(mbr_trial *trial)
{
    mbr_stage_enter(trial, MBR_STAGE_OPENED);
    mbr_tour(trial, NULL);
    end_life(trial);
}

/* Mappings of the plugin's file; the tool has one of its own, to read the note. */
static uint32_t count_mappings(mbr_trial *trial)
{
    struct stat own;
    char line[4352];
    uint32_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL || stat(trial->page->path, &own) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long inode = 0;
        if (sscanf(line, "%*x-%*x %*s %*x %*x:%*x %lu", &inode) == 1)
            count += inode == own.st_ino && strstr(line, trial->page->path) != NULL;
    }
    fclose(maps);
    return count;
}

static void run_unmapped(mbr_trial *trial)
{
    need_unloadable(trial);
    uint32_t before = count_mappings(trial);
    mbr_stage_enter(trial, MBR_STAGE_OPENED);
    MBR_NEED(trial, count_mappings(trial) > before, "the loaded file is not in /proc/self/maps");
    mbr_tour(trial, NULL);
    end_life(trial);
    uint32_t after = count_mappings(trial);
    MBR_EXPECT(trial, after == before, "a plugin whose note says unloadable is gone behind dlclose",
        "%u mappings are left", after - before);
}

static uint32_t count_free_keys(void)
{
    static pthread_key_t keys[KEYS_MAX];
    uint32_t count = 0;
    while (count < KEYS_MAX && pthread_key_create(&keys[count], NULL) == 0)
        count++;
    for (uint32_t i = 0; i < count; i++)
        pthread_key_delete(keys[i]);
    return count;
}

static void run_keys(mbr_trial *trial)
{
    need_unloadable(trial);
    live(trial); /* a driver below the plugin may keep keys for the process; a second life adds none
                  */
    uint32_t before = count_free_keys();
    live(trial);
    uint32_t after = count_free_keys();
    MBR_EXPECT(trial, after == before, "an unloaded plugin leaves no key of thread-local storage",
        "%u are taken: a thread that ends calls into unmapped code", before - after);
}

/* Of a life: what opening found, what the slots left (which is ENV's), and what closing left. */
typedef struct life_states {
    mbr_process before, opened, toured, after;
} life_states;

static void live_watched(mbr_trial *trial, life_states *life)
{
    mbr_process_read(&life->before);
    mbr_stage_enter(trial, MBR_STAGE_OPENED);
    mbr_process_read(&life->opened);
    mbr_tour(trial, NULL);
    mbr_process_read(&life->toured);
    end_life(trial);
    mbr_process_read(&life->after);
}

/* A plugin may have threads and descriptors from its first call to its end, and a driver below it
 * may keep some for the process once it was used: a second life adds none. */
static bool leaves(const life_states *first, const life_states *second, mbr_aspect aspect,
    char *text, size_t text_bytes)
{
    char ignored[256];
    if (aspect == MBR_ASPECT_THREADS || aspect == MBR_ASPECT_DESCRIPTORS)
        return !mbr_process_is_same(&second->before, &second->after, aspect, text, text_bytes);
    return mbr_process_is_same(&first->opened, &first->toured, aspect, ignored, sizeof ignored) &&
        !mbr_process_is_same(&first->before, &first->after, aspect, text, text_bytes);
}

static void run_state(mbr_trial *trial)
{
    static life_states first, second;
    char text[256];
    need_unloadable(trial);
    live_watched(trial, &first);
    live_watched(trial, &second);
    for (mbr_aspect aspect = 0; aspect < MBR_ASPECT_COUNT; aspect++)
        MBR_EXPECT(trial, !leaves(&first, &second, aspect, text, sizeof text),
            "an unloaded plugin leaves the process as it found it", "%s", text);
}

/* ---- Exit ------------------------------------------------------------------------------------ */

static void *exit_in_thread(void *context)
{
    (void)context;
    exit(EXIT_CODE);
}

/* The child of a way to end; it returns only where the way is not to be had. */
static void end_in_order(mbr_trial *trial, int order)
{
    pthread_t thread;
    mbr_stage_enter(trial, MBR_STAGE_OPENED);
    mbr_tour(trial, NULL);
    if (order != 1)
        (void)mbr_alc_take(trial, 100000);
    else
        close_trial(trial); /* closed, and not unloaded */
    if (order == 2 && pthread_create(&thread, NULL, exit_in_thread, NULL) == 0)
        for (;;)
            pause();
    if (order == 3)
        quick_exit(EXIT_CODE);
    exit(EXIT_CODE);
}

static const char *const order_words[] = {"exit with an allocation alive", "exit behind close",
    "exit on another thread with an allocation alive", "quick_exit with an allocation alive"};

static void try_order(mbr_trial *trial, int order)
{
    int status;
    pid_t child = mbr_offspring_fork(trial);
    if (child == 0)
        end_in_order(trial, order);
    bool has_ended = mbr_offspring_wait(trial, child, EXIT_WAIT_NS, &status);
    /* It found something on its way, and has told it. */
    if (__atomic_load_n(&trial->page->is_told, __ATOMIC_ACQUIRE) != 0)
        trial->end(trial);
    if (trial->page->phase < MBR_PHASE_RUN)
        mbr_trial_skip(
            trial, MBR_SKIP_BLOCKED, "%s: wait status 0x%x", order_words[order], (unsigned)status);
    MBR_EXPECT(trial, has_ended, "a process with a plugin ends when it wants to", "%s: it did not",
        order_words[order]);
    MBR_EXPECT(trial, WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CODE,
        "nothing of a plugin runs when the process ends", "%s: wait status 0x%x",
        order_words[order], (unsigned)status);
}

static void run_exit(mbr_trial *trial)
{
    for (int order = 0; order < 4; order++)
        try_order(trial, order);
}

/* ---- The file on disk ------------------------------------------------------------------------ */

static void need_copy(mbr_trial *trial, const char *from, const char *to)
{
    char buffer[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t count = -1;
    while (in >= 0 && out >= 0 && (count = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, (size_t)count) != count)
            break;
    int code = errno;
    close(in);
    close(out);
    if (count != 0)
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "the file cannot be copied: %s", strerror(code));
}

/* Another file takes the place of the loaded one, then that goes too. */
static void take_away(mbr_trial *trial, const char *folder, const char *copy)
{
    char other[MBR_PAGE_PATH_BYTES + 64];
    snprintf(other, sizeof other, "%s/other", folder);
    int fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd < 0 || write(fd, "no plugin\n", 10) != 10 || rename(other, copy) != 0)
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "%s: %s", other, strerror(errno));
    close(fd);
}

static void work(mbr_trial *trial, const char *when)
{
    mbr_subject second;
    mbr_alc one;
    mbr_status status = mbr_alc_ask(trial, &trial->subject, mbr_alc_request(trial, 50000), &one);
    if (status == MBR_OK)
        status = mbr_alc_release(trial, &trial->subject, one.id, one.address, NULL);
    if (status == MBR_OK)
        status = mbr_subject_open(trial, NULL, 0, &second, NULL);
    MBR_EXPECT(trial, status == MBR_OK, "a loaded plugin does not need its file", "%s: %s", when,
        mbr_status_name(status));
    mbr_tour(trial, NULL);
}

static void run_file_gone(mbr_trial *trial)
{
    const char *slash = strrchr(trial->page->path, '/');
    const char *name = slash == NULL ? trial->page->path : slash + 1;
    const char *temporary = getenv("TMPDIR");
    char folder[1024], copy[MBR_PAGE_PATH_BYTES];
    snprintf(
        folder, sizeof folder, "%s/membrane-check-XXXXXX", temporary == NULL ? "/tmp" : temporary);
    if (mkdtemp(folder) == NULL)
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "no folder %s: %s", folder, strerror(errno));
    snprintf(copy, sizeof copy, "%s/%.255s", folder, name);
    need_copy(trial, trial->page->path, copy);
    char real[MBR_PAGE_PATH_BYTES];
    memcpy(real, trial->page->path, sizeof real);
    memcpy(trial->page->path, copy, sizeof copy);
    mbr_stage_enter(trial, MBR_STAGE_OPENED);
    memcpy(trial->page->path, real, sizeof real);
    take_away(trial, folder, copy);
    bool is_clean = unlink(copy) == 0 && rmdir(folder) == 0;
    MBR_NEED(trial, is_clean, "%s cannot be removed: %s", folder, strerror(errno));
    work(trial, "replaced and deleted");
    close_trial(trial);
}

#define LIF(number, rules, title, why, run)                                                        \
    {                                                                                              \
        "LIF-" number, 4, MBR_STAGE_FILE, 0, rules, title, why, run, 0, 0                          \
    }

static const mbr_check checks[] = {
    LIF("013", "C20, C32", "a plugin whose note says unloadable is unmapped by dlclose",
        "A host that replaces a plugin would load the new one beside the old one.", run_unmapped),
    LIF("014", "C27, C32", "an unloaded plugin leaves no key of thread-local storage",
        "Its destructor runs in unmapped code when some thread of the program ends.", run_keys),
    LIF("015", "C26, C32", "an unloaded plugin leaves the process as it found it",
        "A handler or a thread that is left runs in unmapped code.", run_state),
    LIF("016", "C27", "a process with a plugin ends in any order",
        "Programs exit with models loaded; a plugin that cleans up then meets a driver that is "
        "gone.",
        run_exit),
    LIF("017", "C31", "a loaded plugin goes on when its file is replaced or deleted",
        "Package managers replace files under running servers.", run_file_gone),
};

const mbr_group mbr_group_lif_unload = MBR_GROUP("LIF", "life: unloading and exit", checks);
