/* Ranked locks and the per-thread set of ranks held. Knows nothing of what a lock protects. */
#include "abi/base/lock.h"

#include "abi/base/assert.h"

#include <time.h>

_Static_assert(MBR_RANK_COUNT <= 32, "the set of held ranks is one 32-bit word");

#ifndef NDEBUG
static _Thread_local uint32_t held_ranks;

static void note_taken(mbr_lock_rank rank)
{
    MBR_CHECK((held_ranks >> (uint32_t)rank) == 0); /* nothing of this rank or above is held */
    held_ranks |= UINT32_C(1) << (uint32_t)rank;
}

static void note_dropped(mbr_lock_rank rank)
{
    MBR_CHECK((held_ranks & (UINT32_C(1) << (uint32_t)rank)) != 0);
    held_ranks &= ~(UINT32_C(1) << (uint32_t)rank);
}

void mbr_lock_assert_none_held(void)
{
    MBR_CHECK(held_ranks == 0);
}
#else
static void note_taken(mbr_lock_rank rank)
{
    (void)rank;
}

static void note_dropped(mbr_lock_rank rank)
{
    (void)rank;
}

void mbr_lock_assert_none_held(void) {}
#endif

void mbr_lock_init(mbr_lock *lock, mbr_lock_rank rank)
{
    lock->rank = rank;
    /* Nothing slow happens under a lock of ours, so that a short spin mostly saves the sleep. */
    pthread_mutexattr_t attributes;
    MBR_CHECK(pthread_mutexattr_init(&attributes) == 0);
    MBR_CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP) == 0);
    MBR_CHECK(pthread_mutex_init(&lock->mutex, &attributes) == 0);
    pthread_mutexattr_destroy(&attributes);
}

void mbr_lock_finish(mbr_lock *lock)
{
    MBR_CHECK(pthread_mutex_destroy(&lock->mutex) == 0);
}

void mbr_lock_take(mbr_lock *lock) MBR_THREAD_ANNOTATION(no_thread_safety_analysis)
{
    note_taken(lock->rank);
    MBR_CHECK(pthread_mutex_lock(&lock->mutex) == 0);
}

void mbr_lock_drop(mbr_lock *lock) MBR_THREAD_ANNOTATION(no_thread_safety_analysis)
{
    note_dropped(lock->rank); /* first: what this thread does not hold is not unlocked */
    MBR_CHECK(pthread_mutex_unlock(&lock->mutex) == 0);
}

void mbr_condition_init(mbr_condition *condition)
{
    pthread_condattr_t attributes;
    MBR_CHECK(pthread_condattr_init(&attributes) == 0);
    MBR_CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    MBR_CHECK(pthread_cond_init(&condition->condition, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
}

void mbr_condition_finish(mbr_condition *condition)
{
    MBR_CHECK(pthread_cond_destroy(&condition->condition) == 0);
}

bool mbr_condition_wait(mbr_condition *condition, mbr_lock *lock, uint64_t deadline_ns)
{
    int answer;
    if (deadline_ns == UINT64_MAX) {
        answer = pthread_cond_wait(&condition->condition, &lock->mutex);
    } else {
        struct timespec deadline = {
            .tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
            .tv_nsec = (long)(deadline_ns % UINT64_C(1000000000)),
        };
        answer = pthread_cond_timedwait(&condition->condition, &lock->mutex, &deadline);
    }
    return answer == 0;
}

void mbr_condition_signal_all(mbr_condition *condition)
{
    MBR_CHECK(pthread_cond_broadcast(&condition->condition) == 0);
}
