/* Children that a check forks by itself: started, and waited for with an end. */
#ifndef MEMBRANE_TOOLS_CHECK_OFFSPRING_H
#define MEMBRANE_TOOLS_CHECK_OFFSPRING_H

#include "tools/check/trial.h"

#include <sys/types.h>

/* fork(), and the check gives up (RESOURCE) where there is none. */
pid_t mbr_offspring_fork(mbr_trial *trial);

/* Whether the child ended by itself within wait_ns; else it is killed. Its wait status either way.
 */
bool mbr_offspring_wait(mbr_trial *trial, pid_t child, uint64_t wait_ns, int *status);

#endif
