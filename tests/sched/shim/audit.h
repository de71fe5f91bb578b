/* Included before an audit: a scenario that looks between two steps, and has seen that the lock is
 * free, needs none. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_AUDIT_H
#define MEMBRANE_TESTS_SCHED_SHIM_AUDIT_H

#include "abi/base/lock.h"
#include "tests/sched/shim.h"

#define mbr_lock_take(lock) (sched_is_looking() ? (void)0 : mbr_lock_take(lock))
#define mbr_lock_drop(lock) (sched_is_looking() ? (void)0 : mbr_lock_drop(lock))

#endif
