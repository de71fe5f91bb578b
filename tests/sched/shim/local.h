/* Included before all else in code that runs on fibers: what would be of a thread lies in one
 * section, which is exchanged with the fiber. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_LOCAL_H
#define MEMBRANE_TESTS_SCHED_SHIM_LOCAL_H

#define _Thread_local __attribute__((section("fiber_local")))

#endif
