/* Included before all else in code that runs on fibers: what would be of a thread lies in one
 * section, which is exchanged with the fiber. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_LOCAL_H
#define MEMBRANE_TESTS_SCHED_SHIM_LOCAL_H

#include <time.h>

#define _Thread_local __attribute__((section("fiber_local")))
#define MBR_THREAD_HOT _Thread_local
#define clock_gettime sched_clock_gettime

int sched_clock_gettime(clockid_t clock, struct timespec *time);

#endif
