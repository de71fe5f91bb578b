/* Two threads that begin at the same instant. They sleep between rounds, so that rounds of one
 * thread have the machine to themselves. */
#ifndef MEMBRANE_TOOLS_BENCH_PAIR_H
#define MEMBRANE_TOOLS_BENCH_PAIR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mbr_pair mbr_pair;

mbr_pair *mbr_pair_create(void); /* NULL: no threads or no memory */
void mbr_pair_destroy(mbr_pair *pair);

/* Both do work(context, 0 or 1, count). *ns is the wall's time from the common begin to the later
 * end. *disturbed: the system took a core away from one of them meanwhile. */
bool mbr_pair_run(mbr_pair *pair, bool (*work)(void *context, uint32_t thread, uint64_t count),
    void *context, uint64_t count, double *ns, bool *disturbed);

#endif
