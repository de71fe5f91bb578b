/* Bytes that a holder claims and somebody else owns: memory that no mechanism of the manager gave,
 * such as a library's own. They stay granted, and are never charged (I5). */
#ifndef MEMBRANE_HOST_BIND_GRANT_H
#define MEMBRANE_HOST_BIND_GRANT_H

#include "membrane/budget.h"
#include "membrane/handle.h"

/* All or nothing; asks nobody to give. MBR_OVER_BUDGET fills *refusal (may be NULL); MBR_STALE. */
mbr_status mbr_manager_grant(mbr_manager *manager, mbr_holder_handle holder, uint64_t bytes,
    mbr_refusal *refusal, mbr_error *error);
/* The holder has as many granted, and so is there. */
void mbr_manager_grant_return(mbr_manager *manager, mbr_holder_handle holder, uint64_t bytes);

#endif
