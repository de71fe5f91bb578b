/* Ends a child, its process group, and every descendant that it left. */
#ifndef MEMBRANE_TOOLS_CHECK_STRAYS_H
#define MEMBRANE_TOOLS_CHECK_STRAYS_H

#include <stdint.h>
#include <sys/types.h>

/* The caller is the sub-reaper of its descendants, and `child` its only own child. Returns when
 * none is left: how many others than `child` there were. */
uint32_t mbr_strays_end(pid_t child);

#endif
