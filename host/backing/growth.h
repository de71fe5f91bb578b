/* One growth on its way, between the transaction (grow.c) and what carries its plan out
 * (carry_out.c). */
#ifndef MEMBRANE_HOST_BACKING_GROWTH_H
#define MEMBRANE_HOST_BACKING_GROWTH_H

#include "host/backing/plan.h"

typedef struct mbr_growth_run {
    mbr_plan plan;
    const mbr_grow_options *options;
    mbr_backing *backing;
    uint64_t granted_bytes;  /* not yet charged */
    uint64_t aside_bytes;    /* that a claimed ticket had brought, and that were used */
    uint64_t adopted_bytes;  /* moved from the cache to the holder in advance */
    uint64_t residual_bytes; /* what an undo could not take back */
    bool refused_by_client;  /* its publish callback or watch: no reason to press the cache */
    bool met_capture;        /* since the plan one has begun, in which nothing is moved */
    bool planned;            /* sources are taken and nothing was executed */
    mbr_error *error;
} mbr_growth_run;

/* Every item of the plan is mapped and has the contents that it must have. On failure it is as far
 * as it came, for an undo. */
mbr_status mbr_growth_carry_out(mbr_growth_run *run);
/* In reverse. What of the budget was charged and came back is the caller's to return. */
void mbr_growth_undo(mbr_growth_run *run);

#endif
