/* The memory of bad plugins: plain slots that remember what they granted. No fault is here. */
#include "tests/badplugins/bad_alc.h"

#include <string.h>

#define REMEMBERED 32768u /* ids rise, so that the last so many are kept */

static struct bad_allocation remembered[REMEMBERED];
static uint32_t live_count, released_count;
/* What outcomes said beyond the truth, so that the figures of a lie agree; wraps below 0. */
static uint64_t skew_bytes;

struct bad_allocation *bad_allocation_find(uint64_t id)
{
    struct bad_allocation *one = &remembered[id % REMEMBERED];
    return one->bytes != 0 && one->id == id ? one : NULL;
}

struct bad_allocation *bad_allocation_around(const mbr_instance *instance, uint64_t address)
{
    for (uint32_t i = 0; i < REMEMBERED && live_count > 0; i++)
        if (remembered[i].is_live && remembered[i].instance == instance &&
            address - remembered[i].address < remembered[i].bytes)
            return &remembered[i];
    return NULL;
}

struct bad_allocation *bad_allocation_at(const mbr_instance *instance, uint64_t address)
{
    struct bad_allocation *one = bad_allocation_around(instance, address);
    return one != NULL && one->address == address ? one : NULL;
}

uint32_t bad_allocation_live_count(void)
{
    return live_count;
}

uint32_t bad_allocation_released_count(void)
{
    return released_count;
}

void bad_allocation_each(void (*visit)(struct bad_allocation *allocation))
{
    for (uint32_t i = 0; i < REMEMBERED; i++)
        if (remembered[i].is_live)
            visit(&remembered[i]);
}

bool bad_is_whole(const void *request, uint32_t request_bytes, const void *outcome)
{
    uint32_t given = 0, room = 0;
    if (request != NULL)
        memcpy(&given, request, sizeof given);
    if (outcome != NULL)
        memcpy(&room, outcome, sizeof room);
    return given == request_bytes && room >= sizeof(mbr_outcome);
}

struct bad_allocation *bad_grant(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error, mbr_status *status)
{
    *status = bad_good->allocator.allocate(instance, request, outcome, error);
    if (*status != MBR_OK || !bad_is_whole(request, sizeof *request, outcome))
        return NULL;
    struct bad_allocation *one = &remembered[request->allocation_id % REMEMBERED];
    *one = (struct bad_allocation){.id = request->allocation_id,
        .bytes = request->bytes,
        .address = outcome->address,
        .real_address = outcome->address,
        .owned_bytes = outcome->newly_owned_bytes,
        .real_owned_bytes = outcome->newly_owned_bytes,
        .instance = instance,
        .thread = pthread_self(),
        .is_live = true};
    live_count++;
    return one;
}

mbr_status bad_give(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (!bad_is_whole(request, sizeof *request, outcome))
        return bad_good->allocator.release(instance, request, outcome, error);
    mbr_release_request real = *request;
    struct bad_allocation *one = bad_allocation_find(request->allocation_id);
    if (one != NULL && one->address == request->address)
        real.address = one->real_address;
    mbr_status status = bad_good->allocator.release(instance, &real, outcome, error);
    if (status != MBR_OK || one == NULL)
        return status;
    outcome->released_bytes = one->owned_bytes;
    skew_bytes -= one->owned_bytes - one->real_owned_bytes;
    one->is_live = false;
    live_count--;
    released_count++;
    return status;
}

mbr_status bad_give_instead(
    struct bad_allocation *allocation, mbr_outcome *outcome, mbr_error *error)
{
    const mbr_release_request request = {MBR_SIZED(mbr_release_request),
        .allocation_id = allocation->id, .address = allocation->address};
    return bad_give(allocation->instance, &request, outcome, error);
}

static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    (void)bad_grant(instance, request, outcome, error, &status);
    return status;
}

void bad_say_owned(struct bad_allocation *allocation, uint64_t bytes, mbr_outcome *outcome)
{
    skew_bytes += bytes - allocation->owned_bytes;
    allocation->owned_bytes = outcome->newly_owned_bytes = bytes;
}

void bad_skew(uint64_t bytes)
{
    skew_bytes += bytes;
}

static mbr_status stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK && MBR_HAS(mbr_mechanism_stats, outcome, owned_bytes))
        outcome->owned_bytes += skew_bytes;
    return status;
}

void bad_remember(void)
{
    if (bad_is("none"))
        return; /* what is remembered is for one thread at a time; the good plugin has many */
    if (bad.allocator.allocate == bad_good->allocator.allocate)
        bad.allocator.allocate = allocate;
    if (bad.allocator.release == bad_good->allocator.release)
        bad.allocator.release = bad_give;
    if (bad.allocator.stats == bad_good->allocator.stats)
        bad.allocator.stats = stats;
}
