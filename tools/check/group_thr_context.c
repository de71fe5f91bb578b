/* Group THR, third part: the driver's current device and context are the caller's. Asks whichever
 * driver the plugin has loaded into this process; where there is none, nothing can be current.
 * Never loads a driver. */
#include "tools/check/tour.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* Writes a pointer or an int, and answers 0 where there is an answer. */
typedef int (*get_current)(void *current);

static const struct {
    const char *library, *symbol;
} drivers[] = {
    {"libcuda.so.1", "cuCtxGetCurrent"},
    {"libamdhip64.so.7", "hipGetDevice"},
    {"libamdhip64.so.6", "hipGetDevice"},
    {"libamdhip64.so", "hipGetDevice"},
};

#define DRIVER_COUNT (sizeof drivers / sizeof drivers[0])

static void read_current(uint64_t current[DRIVER_COUNT])
{
    memset(current, 0, DRIVER_COUNT * sizeof current[0]);
    for (size_t i = 0; i < DRIVER_COUNT; i++) {
        get_current get = NULL;
        void *library = dlopen(drivers[i].library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        void *symbol = library == NULL ? NULL : dlsym(library, drivers[i].symbol);
        memcpy(&get, &symbol, sizeof symbol);
        if (get != NULL && get(&current[i]) != 0)
            current[i] = 0;
        if (library != NULL)
            dlclose(library);
    }
}

static mbr_status visit(mbr_trial *trial, mbr_subject *subject, mbr_slot slot, bool is_good,
    const void *request, void *outcome)
{
    uint64_t before[DRIVER_COUNT], after[DRIVER_COUNT];
    (void)is_good;
    read_current(before);
    mbr_status status = mbr_drive(trial, subject, slot, request, outcome);
    read_current(after);
    for (size_t i = 0; i < DRIVER_COUNT; i++)
        MBR_EXPECT(trial, before[i] == after[i],
            "a slot leaves the calling thread's current device and context as they were",
            "%s of %s told 0x%lx before %s and 0x%lx behind it", drivers[i].symbol,
            drivers[i].library, before[i], mbr_slot_name(slot), after[i]);
    return status;
}

static void *run_tour(void *argument)
{
    mbr_tour(argument, visit);
    return NULL;
}

/* On a thread of its own, where open has not been called yet. */
static void run_context(mbr_trial *trial)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_tour, trial) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread");
    pthread_join(thread, NULL);
}

static const mbr_check checks[] = {
    {"THR-016", 4, MBR_STAGE_OPENED, 0, "C26", "the caller's current device and context stay",
        "The framework's next launch would go to another device.", run_context, 0, 0},
};

const mbr_group mbr_group_thr_context =
    MBR_GROUP("THR", "many threads, races: the driver's state of a thread", checks);
