/* The heap of the check's process, in which an allocation can fail. A plugin that uses the C
 * library's heap gets this program's functions. */
#ifndef MEMBRANE_TOOLS_CHECK_FAILING_HEAP_H
#define MEMBRANE_TOOLS_CHECK_FAILING_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* false in builds whose sanitizer owns the heap. */
bool mbr_failing_heap_is_there(void);

/* The calling thread's nth allocation from now on fails, and all behind it if `for_good`; 0: none
 * does. Returns the failures since the last call. */
uint32_t mbr_failing_heap_arm(uint64_t nth, bool for_good);

/* Allocations that have still to come before the first that fails. */
uint64_t mbr_failing_heap_left(void);

#endif
