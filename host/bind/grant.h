/* Bytes that a holder claims and somebody else owns: memory that no mechanism of the manager gave,
 * such as a library's own. They stay granted, and are never charged (I5). And what it could claim.
 */
#ifndef MEMBRANE_HOST_BIND_GRANT_H
#define MEMBRANE_HOST_BIND_GRANT_H

#include "membrane/budget.h"
#include "membrane/handle.h"

/* All or nothing; asks nobody to give. MBR_OVER_BUDGET fills *refusal (may be NULL); MBR_STALE. */
mbr_status mbr_manager_grant(mbr_manager *manager, mbr_holder_handle holder, uint64_t bytes,
    mbr_refusal *refusal, mbr_error *error);
/* The holder has as many granted, and so is there. */
void mbr_manager_grant_return(mbr_manager *manager, mbr_holder_handle holder, uint64_t bytes);

/* What growth of a range could take now, whoever else wants it: of the range's authority, with what
 * the cache of the range's own backing could give, which is all that is asked while somebody gives;
 * and of the holder's allowance. */
typedef struct mbr_room {
    uint64_t authority_bytes;
    uint64_t holder_bytes;
} mbr_room;

/* Of ranges of every generation. None where range or holder has ended, or the holder is of another
 * authority than the range. */
mbr_room mbr_manager_read_room(
    mbr_manager *manager, mbr_range_handle range, mbr_holder_handle holder);

#endif
