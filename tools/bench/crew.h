/* Threads that begin at the same instant. They sleep between rounds, so that rounds of one thread
 * have the machine to themselves. */
#ifndef MEMBRANE_TOOLS_BENCH_CREW_H
#define MEMBRANE_TOOLS_BENCH_CREW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mbr_crew mbr_crew;

#define MBR_CREW_LIMIT_COUNT 16

/* Of 2 to MBR_CREW_LIMIT_COUNT threads. NULL: no threads or no memory. */
mbr_crew *mbr_crew_create(uint32_t thread_count);
void mbr_crew_destroy(mbr_crew *crew);

/* Each does work(context, its number, count). *ns is the wall's time from the common begin to the
 * last end. *disturbed: the system took a core away from one of them meanwhile. */
bool mbr_crew_run(mbr_crew *crew, bool (*work)(void *context, uint32_t thread, uint64_t count),
    void *context, uint64_t count, double *ns, bool *disturbed);

#endif
