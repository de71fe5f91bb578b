/* What the shim headers call instead of the system: see engine.h. For C code of the product, whose
 * own includes of <pthread.h> and <stdatomic.h> find tests/sched/shim first. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_H
#define MEMBRANE_TESTS_SCHED_SHIM_H

#include "tests/sched/engine.h"

#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sched_mutex {
    int holder_plus_one; /* 0: free; so that zeros are an initializer */
} sched_mutex;

typedef struct sched_condition {
    int unused; /* its address is all */
} sched_condition;

/* A point at which another fiber may go on; then the step is the caller's. */
void sched_point(sched_kind kind, const void *object, const char *file, int line);

/* Whether who calls is the scenario's look between two steps, in which no other can come. */
bool sched_is_looking(void);

/* ---- Threads. Every answer is 0 or what POSIX names. */
int sched_mutex_lock(sched_mutex *mutex);
int sched_mutex_unlock(sched_mutex *mutex);
int sched_mutex_destroy(sched_mutex *mutex);
int sched_condition_wait(
    sched_condition *condition, sched_mutex *mutex, const struct timespec *deadline);
int sched_condition_broadcast(sched_condition *condition);
unsigned long sched_self(void);
int sched_thread_create(
    unsigned long *thread, const void *attributes, void *(*run)(void *argument), void *argument);
int sched_thread_join(unsigned long thread, void **result);
int sched_key_create(unsigned *key, void (*at_end)(void *value));
int sched_key_set(unsigned key, const void *value);

/* Of every clock: the schedule's time. */
int sched_clock_gettime(clockid_t clock, struct timespec *time);

/* ---- Atomics */
extern bool sched_changes_are_torn;
/* The calling fiber's store of `bytes` bytes waits in its buffer; false: the caller stores. */
bool sched_store_waits(void *object, const void *value, size_t bytes);
/* Where the caller's own store to the object still waits, that is what it reads. */
void sched_read_own(const void *object, void *value, size_t bytes);
void sched_land_stores(void);
/* For the journal: the change has just been made, by code of the file. */
void sched_changed(const void *object, uint64_t before, uint64_t after, const char *file);

#ifdef __cplusplus
}
#endif

#endif
