/* Responsible for claims on several authorities as one: all or none, in ascending order, so that no
 * two of them hold a part each and wait for the other's. Whoever waits holds nothing. */
#include "governor/internal.h"

#include "abi/base/checked.h"

/* The claims' indices in ascending order of their authorities. False: too many, or two of one. */
static bool order(const mbr_claim *claims, uint32_t count, uint8_t *indices)
{
    if (count > MBR_AUTHORITY_LIMIT_COUNT)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id = claims[i].holder->authority->id;
        uint32_t at = i;
        for (; at > 0 && claims[indices[at - 1]].holder->authority->id > id; at--)
            indices[at] = indices[at - 1];
        if (at > 0 && claims[indices[at - 1]].holder->authority->id == id)
            return false;
        indices[at] = (uint8_t)i;
    }
    return true;
}

_Static_assert(MBR_AUTHORITY_LIMIT_COUNT <= UINT8_MAX, "an index of a claim is one byte");

/* `held_index` is granted already; UINT32_MAX: none is. After a refusal none is, also not that one.
 */
static mbr_status try_all(const mbr_claim *claims, const uint8_t *indices, uint32_t count,
    uint32_t held_index, uint32_t *refused_index, mbr_refusal *refusal)
{
    mbr_status status = MBR_OK;
    uint32_t tried = 0;
    for (; tried < count && status == MBR_OK; tried++) {
        uint32_t index = indices[tried];
        if (index != held_index)
            status = mbr_grant(claims[index].holder, claims[index].bytes, refusal);
    }
    if (status == MBR_OK)
        return MBR_OK;
    *refused_index = indices[tried - 1];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = indices[i];
        if (i < tried - 1 || index == held_index)
            mbr_grant_return(claims[index].holder, claims[index].bytes);
    }
    return status;
}

mbr_status mbr_grant_all(
    const mbr_claim *claims, uint32_t count, uint32_t *refused_index, mbr_refusal *refusal)
{
    uint8_t indices[MBR_AUTHORITY_LIMIT_COUNT];
    *refused_index = UINT32_MAX;
    if (!order(claims, count, indices))
        return MBR_INVALID_ARGUMENT;
    return try_all(claims, indices, count, UINT32_MAX, refused_index, refusal);
}

static mbr_status wait_for(const mbr_claim *claim, uint32_t priority, uint64_t deadline_ns,
    uint64_t since_ns, mbr_refusal *refusal, mbr_error *error)
{
    mbr_ticket_options options = {.holder = claim->holder,
        .bytes = claim->bytes,
        .priority = priority,
        .deadline_ns = deadline_ns,
        .since_ns = since_ns};
    mbr_ticket *ticket;
    mbr_status status = mbr_ticket_submit(&options, &ticket, refusal, error);
    if (status == MBR_OK)
        status = mbr_ticket_wait(ticket);
    mbr_ticket_destroy(ticket);
    return status;
}

mbr_status mbr_wait_all(const mbr_claim *claims, uint32_t count, uint32_t priority,
    uint64_t deadline_ns, uint32_t *refused_index, mbr_refusal *refusal, mbr_error *error)
{
    uint8_t indices[MBR_AUTHORITY_LIMIT_COUNT];
    *refused_index = UINT32_MAX;
    if (!order(claims, count, indices))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "%u claims, too many or two of one authority; give at most %d, each of another", count,
            MBR_AUTHORITY_LIMIT_COUNT);
    if (count == 0)
        return MBR_OK;
    uint64_t since_ns = mbr_clock_now(&claims[0].holder->authority->governor->clock);
    uint32_t held_index = UINT32_MAX;
    for (;;) {
        mbr_status status = try_all(claims, indices, count, held_index, refused_index, refusal);
        if (status == MBR_OK) {
            *refused_index = UINT32_MAX;
            return MBR_OK;
        }
        held_index = *refused_index;
        status = wait_for(&claims[held_index], priority, deadline_ns, since_ns, refusal, error);
        if (status != MBR_OK)
            return status;
    }
}
