/* Included before an audit: a scenario that looks between two steps, and has seen that the lock is
 * free, needs none. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_AUDIT_H
#define MEMBRANE_TESTS_SCHED_SHIM_AUDIT_H

#include "abi/base/lock.h"
#include "tests/sched/shim.h"

/* Who looks counts as holding the lock: nobody else has it, and nobody else runs. */
static inline void sched_audit_take(mbr_lock *lock) MBR_ACQUIRES(lock)
    MBR_THREAD_ANNOTATION(no_thread_safety_analysis);
static inline void sched_audit_drop(mbr_lock *lock) MBR_RELEASES(lock)
    MBR_THREAD_ANNOTATION(no_thread_safety_analysis);

static inline void sched_audit_take(mbr_lock *lock)
{
    if (!sched_is_looking())
        mbr_lock_take(lock);
}

static inline void sched_audit_drop(mbr_lock *lock)
{
    if (!sched_is_looking())
        mbr_lock_drop(lock);
}

#define mbr_lock_take(lock) sched_audit_take(lock)
#define mbr_lock_drop(lock) sched_audit_drop(lock)

#endif
