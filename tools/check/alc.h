/* What the checks of allocations share: taking one, giving it back, and looking into it. What fails
 * here on the way is a need, never a finding. */
#ifndef MEMBRANE_TOOLS_CHECK_ALC_H
#define MEMBRANE_TOOLS_CHECK_ALC_H

#include "tools/check/trial.h"

typedef struct mbr_alc {
    uint64_t id, address, bytes;
    uint64_t owned_bytes, mapped_bytes; /* as the outcome said */
    uint32_t content, granted_flags;
} mbr_alc;

/* One call of allocate with everything said. `allocation` is zero where it is refused. */
mbr_status mbr_alc_ask(
    mbr_trial *trial, mbr_subject *subject, mbr_allocate_request request, mbr_alc *allocation);

/* A request for `bytes` under a fresh id, without a wish and without a limit. */
mbr_allocate_request mbr_alc_request(mbr_trial *trial, uint64_t bytes);

/* One that must be granted, at an address, for the check to go on. */
mbr_alc mbr_alc_take(mbr_trial *trial, uint64_t bytes);

/* One call of release, with the outcome where it is not NULL. */
mbr_status mbr_alc_release(
    mbr_trial *trial, mbr_subject *subject, uint64_t id, uint64_t address, mbr_outcome *outcome);

/* Gives it back, which must work for the check to go on. */
void mbr_alc_give(mbr_trial *trial, const mbr_alc *allocation);

mbr_mechanism_stats mbr_alc_stats(mbr_trial *trial);

/* Memory that the CPU reaches: the byte at `offset`. */
static inline volatile unsigned char *mbr_alc_at(const mbr_alc *allocation, uint64_t offset)
{
    return (volatile unsigned char *)(uintptr_t)(allocation->address + offset);
}

/* Writes every byte with a pattern of the allocation's id; and the offset of the first byte that is
 * another now, or the size where there is none. */
void mbr_alc_paint(const mbr_alc *allocation);
uint64_t mbr_alc_first_changed(const mbr_alc *allocation);

#endif
