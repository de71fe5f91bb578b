/* <pthread.h> whose mutexes, conditions and keys are those of fibers. What the product does not use
 * is not here: a mutex in a function of the system does not compile. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_PTHREAD_H
#define MEMBRANE_TESTS_SCHED_SHIM_PTHREAD_H

#include_next <pthread.h>

#include "tests/sched/shim.h"

#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER                                                                  \
    {                                                                                              \
        0                                                                                          \
    }
#define pthread_mutex_t sched_mutex
#define pthread_mutex_init(mutex, attributes) ((void)(attributes), *(mutex) = (sched_mutex){0}, 0)
#define pthread_mutex_destroy sched_mutex_destroy
#define pthread_mutex_lock sched_mutex_lock
#define pthread_mutex_unlock sched_mutex_unlock

#define pthread_cond_t sched_condition
#define pthread_cond_init(condition, attributes)                                                   \
    ((void)(attributes), *(condition) = (sched_condition){0}, 0)
#define pthread_cond_destroy(condition) ((void)(condition), 0)
#define pthread_cond_wait(condition, mutex) sched_condition_wait(condition, mutex, NULL)
#define pthread_cond_timedwait sched_condition_wait
#define pthread_cond_broadcast sched_condition_broadcast

#define pthread_self sched_self
#define pthread_create sched_thread_create
#define pthread_join sched_thread_join
#define pthread_setname_np(thread, name) ((void)(thread), (void)(name), 0)
#define pthread_key_create sched_key_create
#define pthread_setspecific sched_key_set

#endif
