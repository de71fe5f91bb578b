/* Responsible for the life of an authority: its checked options, its first sample, its place in the
 * governor's list. Never touches the books of a holder. */
#include "governor/internal.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

static mbr_status check_options(const mbr_authority_options *options, mbr_error *error)
{
    if (!mbr_governor_name_fits(options->name))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "an authority's name has 1 to %d bytes",
            MBR_NAME_BYTES - 1);
    if (options->tier != MBR_TIER_DEVICE && options->tier != MBR_TIER_HOST)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "tier %u of authority '%s' is neither device (%d) nor host (%d)", options->tier,
            options->name, MBR_TIER_DEVICE, MBR_TIER_HOST);
    if (options->limit_bytes == UINT64_MAX && options->probe == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "authority '%s' has neither a limit nor a probe; give one of them", options->name);
    if (options->limit_bytes != UINT64_MAX && options->limit_bytes > MBR_BYTES_LIMIT)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "limit %" PRIu64 " of authority '%s' is above %" PRIu64
            "; UINT64_MAX means only the measured one",
            options->limit_bytes, options->name, MBR_BYTES_LIMIT);
    return MBR_OK;
}

static void init_authority(mbr_authority *authority, mbr_governor *governor,
    const mbr_authority_options *options, void *block)
{
    authority->governor = governor;
    authority->block = block;
    authority->tier = options->tier;
    authority->margin_bytes = options->margin_bytes;
    if (options->probe != NULL)
        authority->probe = *options->probe;
    strcpy(authority->name, options->name);
    authority->release.at_ns = mbr_clock_now(&governor->clock);
    authority->shared = options->shared;
    mbr_lock_init(&authority->lease_lock, MBR_RANK_LEASE);
    mbr_lock_init(&authority->lock, MBR_RANK_AUTHORITY);
    mbr_lock_take(&authority->lock);
    authority->set_limit_bytes = options->limit_bytes;
    authority->measured_limit_bytes = UINT64_MAX;
    authority->exhausted_limit_bytes = UINT64_MAX;
    authority->leased_limit_bytes = options->shared == NULL ? UINT64_MAX : 0;
    authority->ledger_limit_bytes = UINT64_MAX;
    authority->device_free_bytes = MBR_UNKNOWN_BYTES;
    mbr_limit_apply_locked(authority);
    authority->revision = 0;
    mbr_lock_drop(&authority->lock);
    for (uint32_t i = 0; i <= MBR_SLOT_COUNT; i++)
        atomic_init(&authority->slots[i].credit_bytes, MBR_CREDIT_CLOSED);
}

static void finish_locks(mbr_authority *authority)
{
    mbr_lock_finish(&authority->lock);
    mbr_lock_finish(&authority->lease_lock);
}

static bool name_is_taken_locked(const mbr_governor *governor, const char *name)
    MBR_REQUIRES(&governor->lock)
{
    const mbr_authority *other;
    DL_FOREACH(governor->authorities, other)
    {
        if (strcmp(other->name, name) == 0)
            return true;
    }
    return false;
}

/* The last step of creation: visible, or refused. */
static mbr_status publish(mbr_governor *governor, mbr_authority *authority, mbr_error *error)
{
    mbr_status status = MBR_OK;
    mbr_lock_take(&governor->lock);
    if (name_is_taken_locked(governor, authority->name)) {
        status = MBR_ALREADY_EXISTS;
    } else if (governor->authority_count == MBR_AUTHORITY_LIMIT_COUNT) {
        status = MBR_OUT_OF_DESCRIPTORS;
    } else {
        authority->id = ++governor->last_id;
        governor->authority_count++;
        DL_APPEND(governor->authorities, authority);
    }
    mbr_lock_drop(&governor->lock);
    if (status == MBR_ALREADY_EXISTS)
        return mbr_fail(error, status,
            "an authority named '%s' exists; names are unique in a governor", authority->name);
    if (status == MBR_OUT_OF_DESCRIPTORS)
        return mbr_fail(error, status,
            "the governor has %d authorities, the most it can have; destroy one",
            MBR_AUTHORITY_LIMIT_COUNT);
    mbr_credit_register(authority);
    return MBR_OK;
}

mbr_status mbr_authority_create(mbr_governor *governor, const mbr_authority_options *options,
    mbr_authority **authority, mbr_error *error)
{
    *authority = NULL;
    mbr_status status = check_options(options, error);
    if (status != MBR_OK)
        return status;
    void *block;
    mbr_authority *made = mbr_line_allocate(&governor->heap, sizeof(*made), &block);
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no %zu bytes of heap for authority '%s'",
            sizeof(*made), options->name);
    init_authority(made, governor, options, block);
    mbr_authority_sample(made, true);
    if (options->limit_bytes == UINT64_MAX && made->measured_limit_bytes == UINT64_MAX) {
        status = mbr_fail(error, MBR_SYSTEM,
            "authority '%s' has only the measured limit and the probe gave no answer; set a limit",
            options->name);
        goto undo_init;
    }
    status = publish(governor, made, error);
    if (status != MBR_OK)
        goto undo_init;
    *authority = made;
    return MBR_OK;

undo_init:
    finish_locks(made);
    mbr_heap_release(&governor->heap, block);
    return status;
}

mbr_status mbr_authority_destroy(mbr_authority *authority, mbr_error *error)
{
    if (authority == NULL)
        return MBR_OK;
    mbr_governor *governor = authority->governor;
    mbr_lock_take(&governor->lock);
    uint32_t count = authority->holder_count;
    char first[MBR_NAME_BYTES] = "";
    if (count != 0) {
        memcpy(first, authority->holders->name, sizeof(first));
    } else {
        DL_DELETE(governor->authorities, authority);
        governor->authority_count--;
    }
    mbr_lock_drop(&governor->lock);
    if (count != 0)
        return mbr_fail(error, MBR_IN_USE,
            "authority '%s' still has %u holders, the first is '%s'; destroy them first",
            authority->name, count, first);
    mbr_credit_unregister(authority);
    finish_locks(authority);
    mbr_heap_release(&governor->heap, authority->block);
    return MBR_OK;
}

uint64_t mbr_authority_id(const mbr_authority *authority)
{
    return authority->id;
}

void mbr_authority_note_violation(mbr_authority *authority)
{
    atomic_fetch_add_explicit(&authority->violation_count, 1, memory_order_relaxed);
}
