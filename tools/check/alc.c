/* Helpers of the checks of allocations. Never judges. */
#include "tools/check/alc.h"

#include <string.h>

mbr_status mbr_alc_ask(
    mbr_trial *trial, mbr_subject *subject, mbr_allocate_request request, mbr_alc *allocation)
{
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    memset(allocation, 0, sizeof *allocation);
    mbr_status status = mbr_drive_allocate(trial, subject, &request, &outcome);
    if (status == MBR_OK)
        *allocation = (mbr_alc){request.allocation_id, outcome.address, request.bytes,
            outcome.newly_owned_bytes, outcome.newly_mapped_bytes, outcome.content,
            outcome.granted_flags};
    return status;
}

mbr_allocate_request mbr_alc_request(mbr_trial *trial, uint64_t bytes)
{
    return (mbr_allocate_request){MBR_SIZED(mbr_allocate_request),
        .allocation_id = mbr_trial_id(trial), .bytes = bytes, .max_owned_bytes = UINT64_MAX};
}

mbr_alc mbr_alc_take(mbr_trial *trial, uint64_t bytes)
{
    mbr_alc allocation;
    mbr_need_ok(trial,
        mbr_alc_ask(trial, &trial->subject, mbr_alc_request(trial, bytes), &allocation),
        "allocate");
    MBR_NEED(trial, allocation.address != 0, "allocate of %lu bytes gave address 0", bytes);
    return allocation;
}

mbr_status mbr_alc_release(
    mbr_trial *trial, mbr_subject *subject, uint64_t id, uint64_t address, mbr_outcome *outcome)
{
    const mbr_release_request request = {
        MBR_SIZED(mbr_release_request), .allocation_id = id, .address = address};
    mbr_outcome own = {MBR_SIZED(mbr_outcome)};
    return mbr_drive_release(trial, subject, &request, outcome == NULL ? &own : outcome);
}

void mbr_alc_give(mbr_trial *trial, const mbr_alc *allocation)
{
    mbr_need_ok(trial,
        mbr_alc_release(trial, &trial->subject, allocation->id, allocation->address, NULL),
        "release");
}

mbr_mechanism_stats mbr_alc_stats(mbr_trial *trial)
{
    const mbr_stats_request request = {MBR_SIZED(mbr_stats_request)};
    mbr_mechanism_stats stats = {MBR_SIZED(mbr_mechanism_stats)};
    mbr_need_ok(trial, mbr_drive_stats(trial, &trial->subject, &request, &stats), "stats");
    return stats;
}

static unsigned char pattern_of(uint64_t id, uint64_t offset)
{
    return (unsigned char)((id * 31 + offset + (offset >> 12) * 7) | 1); /* never 0 */
}

void mbr_alc_paint(const mbr_alc *allocation)
{
    for (uint64_t at = 0; at < allocation->bytes; at++)
        *mbr_alc_at(allocation, at) = pattern_of(allocation->id, at);
}

uint64_t mbr_alc_first_changed(const mbr_alc *allocation)
{
    for (uint64_t at = 0; at < allocation->bytes; at++)
        if (*mbr_alc_at(allocation, at) != pattern_of(allocation->id, at))
            return at;
    return allocation->bytes;
}
