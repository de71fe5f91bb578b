/* Group LOD: loading the file and what its constructors do. The checks load it themselves, because
 * they compare before and after. */
#include "tools/check/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#define THREAD_COUNT 16
#define ROUND_COUNT 50

static void run_loads(mbr_trial *trial)
{
    void *library = dlopen(trial->page->path, RTLD_NOW | RTLD_LOCAL);
    MBR_EXPECT(trial, library != NULL, "dlopen with RTLD_NOW succeeds", "%s", dlerror());
}

/* Loads it; what goes wrong in that is LOD-001's. */
static void *load(mbr_trial *trial)
{
    trial->page->phase = MBR_PHASE_LOAD;
    void *library = dlopen(trial->page->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        mbr_trial_skip(trial, MBR_SKIP_BLOCKED, "dlopen: %s", dlerror());
    trial->page->phase = MBR_PHASE_RUN;
    return library;
}

static void run_has_entry(mbr_trial *trial)
{
    struct stat own, found;
    Dl_info info;
    void *symbol = dlsym(load(trial), MBR_ENTRY_SYMBOL);
    MBR_EXPECT(trial, symbol != NULL, "the symbol " MBR_ENTRY_SYMBOL " is found", "%s", dlerror());
    MBR_NEED(trial,
        dladdr(symbol, &info) != 0 && stat(info.dli_fname, &found) == 0 &&
            stat(trial->page->path, &own) == 0,
        "dladdr or stat fails");
    MBR_EXPECT(trial, own.st_dev == found.st_dev && own.st_ino == found.st_ino,
        "the entry is this file's own, not a dependency's", "it lies in %.200s", info.dli_fname);
}

/* ---- Before and after ------------------------------------------------------------------------ */

static void compare(mbr_trial *trial, mbr_aspect aspect, const char *expected)
{
    static mbr_process before, after;
    char text[256];
    mbr_process_read(&before);
    load(trial);
    mbr_process_read(&after);
    MBR_EXPECT(trial, mbr_process_is_same(&before, &after, aspect, text, sizeof text), expected,
        "%s", text);
}

static void run_threads(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_THREADS, "loading starts no thread");
}

static void run_descriptors(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_DESCRIPTORS, "loading leaves no descriptor open");
}

static void run_environment(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_ENVIRONMENT, "loading leaves the environment as it is");
}

static void run_signals(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_SIGNALS, "loading leaves signal handlers and mask as they are");
}

static void run_locale(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_LOCALE, "loading leaves the locale as it is");
}

static void run_directory(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_DIRECTORY, "loading leaves directory and umask as they are");
}

static void run_floating_point(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_FLOATING_POINT, "loading leaves the floating-point mode as it is");
}

static void run_limits(mbr_trial *trial)
{
    compare(trial, MBR_ASPECT_LIMITS, "loading leaves the resource limits as they are");
}

/* The warden looks at what was printed and at who is left. */
static void run_only_load(mbr_trial *trial)
{
    load(trial);
}

/* ---- Many ------------------------------------------------------------------------------------ */

typedef struct greeter {
    mbr_trial *trial;
    pthread_barrier_t *barrier;
    mbr_status status;
    const mbr_plugin_vtable *plugin;
} greeter;

static void *greet(void *context)
{
    greeter *self = context;
    const mbr_hello hello = {MBR_SIZED(mbr_hello)};
    mbr_reply reply = {MBR_SIZED(mbr_reply)};
    mbr_error error = {MBR_SIZED(mbr_error)};
    pthread_barrier_wait(self->barrier);
    self->status = self->trial->entry(&hello, &reply, &error);
    self->plugin = reply.plugin;
    return NULL;
}

static mbr_status greet_once(mbr_trial *trial)
{
    const mbr_hello hello = {MBR_SIZED(mbr_hello)};
    mbr_reply reply = {MBR_SIZED(mbr_reply)};
    mbr_error error = {MBR_SIZED(mbr_error)};
    return trial->entry(&hello, &reply, &error);
}

static void run_entry_at_once(mbr_trial *trial)
{
    pthread_t threads[THREAD_COUNT];
    greeter greeters[THREAD_COUNT];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREAD_COUNT);
    for (int i = 0; i < THREAD_COUNT; i++) {
        greeters[i] = (greeter){.trial = trial, .barrier = &barrier};
        if (pthread_create(&threads[i], NULL, greet, &greeters[i]) != 0)
            mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread: %s", strerror(errno));
    }
    for (int i = 0; i < THREAD_COUNT; i++)
        pthread_join(threads[i], NULL);
    MBR_NEED(trial, greet_once(trial) == MBR_OK, "a call by itself is refused");
    for (int i = 0; i < THREAD_COUNT; i++)
        MBR_EXPECT(trial, greeters[i].status == MBR_OK && greeters[i].plugin == greeters[0].plugin,
            "16 first calls of the entry at once get the same table", "call %d: %s, table %p", i,
            mbr_status_name(greeters[i].status), (const void *)greeters[i].plugin);
}

static void run_entry_leaves_nothing(mbr_trial *trial)
{
    static mbr_process before, after;
    mbr_process_read(&before);
    for (int round = 0; round < ROUND_COUNT; round++) {
        mbr_status status = greet_once(trial);
        MBR_NEED(trial, status == MBR_OK, "round %d: %s", round, mbr_status_name(status));
    }
    mbr_process_read(&after);
    MBR_EXPECT(trial,
        after.descriptor_count == before.descriptor_count &&
            after.thread_count == before.thread_count,
        "50 calls of the entry leave nothing", "%lu descriptors, %lu threads more",
        after.descriptor_count - before.descriptor_count, after.thread_count - before.thread_count);
}

#define LOD(number, rules, title, why, run, flags)                                                 \
    {                                                                                              \
        "LOD-" number, 1, MBR_STAGE_FILE, 0, rules, title, why, run, flags, 0                      \
    }

static const mbr_check checks[] = {
    LOD("001", "C31", "the file loads with every symbol bound at once",
        "A host loads with RTLD_NOW, so that a missing function is a refusal at open and not a "
        "crash "
        "in the middle of a release.",
        run_loads, MBR_CHECK_GATE | MBR_CHECK_OPENS),
    LOD("002", "C16, C31", "the file has the entry of major 1",
        "The entry is the one symbol that a host looks up; one that comes from a dependency would "
        "make any program's library a plugin.",
        run_has_entry, MBR_CHECK_GATE),
    LOD("003", "C26", "loading starts no thread",
        "A host lists and probes plugins that it never opens; their threads would run for ever.",
        run_threads, 0),
    LOD("004", "C26", "loading leaves no descriptor open",
        "They are the process's, and nobody would close them.", run_descriptors, 0),
    LOD("005", "C26", "loading leaves the environment alone",
        "Changing it is not safe beside other threads that read it.", run_environment, 0),
    LOD("006", "C26", "loading leaves signal handlers and mask alone",
        "Crash reporters and profilers of the program own them.", run_signals, 0),
    LOD("007", "C26", "loading leaves the locale alone",
        "The locale is the process's: numbers would be printed with commas elsewhere.", run_locale,
        0),
    LOD("008", "C26", "loading leaves directory and umask alone",
        "Relative paths of the whole program depend on them.", run_directory, 0),
    LOD("009", "C26", "loading leaves the floating-point mode alone",
        "Linked start-up code of fast-math switches denormals off for the whole thread.",
        run_floating_point, 0),
    LOD("010", "C26", "loading leaves resource limits alone",
        "The limits are the administrator's and the program's.", run_limits, 0),
    LOD("011", "C26", "loading prints nothing", "Standard output is the program's own interface.",
        run_only_load, MBR_CHECK_OUTPUT),
    LOD("012", "C26", "loading leaves no process behind",
        "A fork in a constructor duplicates a program that did not ask for it.", run_only_load,
        MBR_CHECK_LEFTOVERS),
    {"LOD-013", 1, MBR_STAGE_LOADED, 0, "C16, C25", "16 first calls of the entry at once succeed",
        "Two bindings may open the same plugin on two threads; the entry is any-thread.",
        run_entry_at_once, 0, 0},
    {"LOD-014", 1, MBR_STAGE_LOADED, 0, "C16, C26", "50 calls of the entry leave nothing",
        "The entry touches no device and keeps no state, so that a probe may be repeated.",
        run_entry_leaves_nothing, 0, 0},
};

const mbr_group mbr_group_lod = MBR_GROUP("LOD", "load and constructors", checks);
