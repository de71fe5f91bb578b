/* One fault: which call fails, before or after its effect, once or for good. The engine counts the
 * calls of each kind and tells each whether it is the one; it knows neither what a call does nor
 * what comes of it.
 *
 * A kind is a seam: a slot of a plugin, a heap, a call of the operating system. Calls that are made
 * while the engine pauses, or on another thread than the one that began the run, are not counted:
 * their number is not the scenario's. */
#ifndef MEMBRANE_TESTS_FAULTS_FAULT_H
#define MEMBRANE_TESTS_FAULTS_FAULT_H

#include "abi/base/seam.h"
#include "abi/derive/slots.h"
#include "plugins/cuda/driver.h"
#include "plugins/hip/driver.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(kind, name) for each call of a seam that is no slot. */
#define FAULT_HOST_PLUGIN_CALLS(X)                                                                 \
    X(FAULT_OS_MMAP, "os.mmap")                                                                    \
    X(FAULT_OS_MUNMAP, "os.munmap")                                                                \
    X(FAULT_OS_MPROTECT, "os.mprotect")                                                            \
    X(FAULT_OS_MADVISE, "os.madvise")                                                              \
    X(FAULT_OS_FILE_CREATE, "os.file_create")                                                      \
    X(FAULT_OS_FILE_CLOSE, "os.file_close")                                                        \
    X(FAULT_OS_FILE_TRUNCATE, "os.file_truncate")                                                  \
    X(FAULT_OS_FILE_ALLOCATE, "os.file_allocate")                                                  \
    X(FAULT_OS_FILE_OWNED, "os.file_owned")                                                        \
    X(FAULT_OS_FILE_SIZE_LIMIT, "os.file_size_limit")                                              \
    X(FAULT_OS_MEMORY, "os.memory")                                                                \
    X(FAULT_OS_INSPECT, "os.inspect")
/* FUNCTION(member, name, parameters) for each function of HIP's runtime that its plugin calls;
 * texts of results cannot fail. CUDA's list is MBR_CUDA_FUNCTIONS. */
#define FAULT_HIP_FUNCTIONS(FUNCTION)                                                              \
    MBR_HIP_PLAIN_FUNCTIONS(FUNCTION)                                                              \
    MBR_HIP_VIRTUAL_FUNCTIONS(FUNCTION)                                                            \
    MBR_HIP_OWN_FUNCTIONS(FUNCTION)
#define FAULT_HOST_CALLS(X)                                                                        \
    X(FAULT_PLUGIN_HEAP, "plugin_heap")                                                            \
    X(FAULT_HEAP, "heap")                                                                          \
    X(FAULT_THREAD, "thread.start")                                                                \
    X(FAULT_LOADER_REALPATH, "loader.realpath")                                                    \
    X(FAULT_LOADER_STAT, "loader.stat")                                                            \
    X(FAULT_LOADER_LSTAT, "loader.lstat")                                                          \
    X(FAULT_LOADER_READLINK, "loader.readlink")                                                    \
    X(FAULT_LOADER_OPEN, "loader.open")                                                            \
    X(FAULT_LOADER_FSTAT, "loader.fstat")                                                          \
    X(FAULT_LOADER_PREAD, "loader.pread")                                                          \
    X(FAULT_LOADER_CLOSE, "loader.close")                                                          \
    X(FAULT_LOADER_OPEN_MAPS, "loader.open_maps")                                                  \
    X(FAULT_SHARED_OPEN, "shared.open")                                                            \
    X(FAULT_SHARED_STAT, "shared.stat")                                                            \
    X(FAULT_SHARED_FIND, "shared.find")                                                            \
    X(FAULT_SHARED_READ, "shared.read")                                                            \
    X(FAULT_SHARED_WRITE, "shared.write")                                                          \
    X(FAULT_SHARED_LOCK, "shared.lock")                                                            \
    X(FAULT_SHARED_IS_LOCKED, "shared.is_locked")                                                  \
    X(FAULT_SHARED_REMOVE, "shared.remove")                                                        \
    X(FAULT_SHARED_CLOSE, "shared.close")
#define FAULT_ALL_SLOTS(X)                                                                         \
    MBR_SLOTS_PLUGIN_VTABLE(X)                                                                     \
    MBR_SLOTS_ALLOCATOR_VTABLE(X)                                                                  \
    MBR_SLOTS_VIRTUAL_VTABLE(X)                                                                    \
    MBR_SLOTS_SHARED_VTABLE(X) MBR_SLOTS_ORDER_VTABLE(X) MBR_SLOTS_TRANSFER_VTABLE(X)

#define FAULT_SLOT(table, slot) FAULT_##table##_##slot
#define FAULT_SLOT_KIND_(table, slot, request, outcome, minor, serial) FAULT_SLOT(table, slot),
#define FAULT_CALL_KIND_(kind, name) kind,
#define FAULT_DRIVER(name) FAULT_##name /* a driver's function */
#define FAULT_DRIVER_KIND_(member, name, parameters) FAULT_DRIVER(name),
enum fault_kind {
    FAULT_ALL_SLOTS(FAULT_SLOT_KIND_) FAULT_SLOT_COUNT,
    FAULT_BEFORE_CALLS_ = FAULT_SLOT_COUNT - 1,
    FAULT_HOST_PLUGIN_CALLS(FAULT_CALL_KIND_) FAULT_CUDA_FIRST,
    FAULT_BEFORE_CUDA_ = FAULT_CUDA_FIRST - 1,
    MBR_CUDA_FUNCTIONS(FAULT_DRIVER_KIND_) FAULT_HIP_FIRST,
    FAULT_CUDA_LAST = FAULT_HIP_FIRST - 1,
    FAULT_HIP_FUNCTIONS(FAULT_DRIVER_KIND_) FAULT_DRIVERS_END_,
    FAULT_HIP_LAST = FAULT_DRIVERS_END_ - 1,
    FAULT_HOST_CALLS(FAULT_CALL_KIND_) FAULT_KIND_COUNT
};

enum fault_verdict {
    FAULT_NONE,   /* go on */
    FAULT_BEFORE, /* fail and change nothing */
    FAULT_AFTER,  /* do it, and fail all the same */
};

struct fault_plan {
    int kind;
    uint64_t ordinal; /* of the calls of its kind, from 1; 0: none fails */
    bool after;
    bool for_good; /* and every later call of its kind, until it is lifted */
};

#define FAULT_PLAN_COUNT 2 /* faults at once */

/* Begins a run on this thread. */
void fault_begin(const struct fault_plan *plans, uint32_t plan_count);
/* At each call. `has_after`: a failure after the effect is another one than before it. */
enum fault_verdict fault_meet(int kind, bool has_after);
/* Calls are neither counted nor failed meanwhile. May be nested. */
void fault_pause(void);
void fault_resume(void);
/* What lasts is over. */
void fault_lift(void);

uint64_t fault_met_count(void);                          /* calls that failed in this run */
const struct fault_plan *fault_plan_met(uint32_t index); /* NULL: not met */
uint64_t fault_call_count(int kind);                     /* of this run */
/* Whether a failure after its effect is told apart; of calls of this run. */
bool fault_has_after(int kind, uint64_t ordinal);

/* The end of a stream by its driver: nothing tells afterwards whether it is gone. */
static inline bool fault_ends_stream(int kind)
{
    return kind == FAULT_DRIVER(cuStreamDestroy_v2) || kind == FAULT_DRIVER(hipStreamDestroy);
}

/* "virtual.map", "os.mmap"; -1: no kind has the name. */
const char *fault_kind_name(int kind);
int fault_kind_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
