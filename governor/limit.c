/* Responsible for the limit in force: the least of the set limit, the measured one, what was
 * claimed when a driver said out of memory, and what is leased of a shared ledger. Never takes a
 * byte back from a holder. */
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <inttypes.h>

uint64_t mbr_claimed_locked(const mbr_authority *authority)
{
    uint64_t limit = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    return limit - (uint64_t)mbr_room_read(authority);
}

uint64_t mbr_limit_unleased_locked(const mbr_authority *authority)
{
    return mbr_min(mbr_min(authority->set_limit_bytes, authority->measured_limit_bytes),
        mbr_min(authority->exhausted_limit_bytes, MBR_BYTES_LIMIT));
}

uint64_t mbr_limit_for_ever_locked(const mbr_authority *authority)
{
    return mbr_min(
        mbr_min(authority->set_limit_bytes, authority->ledger_limit_bytes), MBR_BYTES_LIMIT);
}

uint64_t mbr_limit_least_locked(const mbr_authority *authority)
{
    return mbr_min(mbr_limit_unleased_locked(authority), authority->leased_limit_bytes);
}

/* False: the least is in force already. */
static bool apply_locked(mbr_authority *authority) MBR_REQUIRES(&authority->lock)
{
    uint64_t old = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    uint64_t least = mbr_limit_least_locked(authority);
    if (least == old)
        return false;
    uint64_t cap = mbr_credit_cap(least);
    atomic_store_explicit(&authority->credit_cap_bytes, cap, memory_order_relaxed);
    if (least < old)
        mbr_credit_collect_locked(authority); /* its bound falls with the limit */
    atomic_store_explicit(&authority->limit_bytes, least, memory_order_relaxed);
    atomic_fetch_add_explicit(
        &authority->room_bytes, (int64_t)least - (int64_t)old, memory_order_release);
    return true;
}

void mbr_limit_apply_locked(mbr_authority *authority)
{
    if (!apply_locked(authority))
        return;
    authority->revision++;
    mbr_tickets_settle_locked(authority);
}

void mbr_limit_set_leased_locked(mbr_authority *authority, uint64_t leased_bytes)
{
    authority->leased_limit_bytes = leased_bytes;
    apply_locked(authority);
}

mbr_status mbr_limit_check(const mbr_authority *authority, uint64_t limit_bytes, mbr_error *error)
{
    if (limit_bytes == UINT64_MAX && authority->probe.free_bytes == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "authority '%s' measures nothing, so it needs a limit", authority->name);
    if (limit_bytes != UINT64_MAX && limit_bytes > MBR_BYTES_LIMIT)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "limit %" PRIu64 " of authority '%s' is above %" PRIu64
            "; UINT64_MAX means only the measured one",
            limit_bytes, authority->name, MBR_BYTES_LIMIT);
    return MBR_OK;
}

void mbr_limit_set_locked(mbr_authority *authority, uint64_t limit_bytes)
{
    authority->set_limit_bytes = limit_bytes;
    authority->set_revision++;
    authority->exhausted_limit_bytes =
        UINT64_MAX; /* whoever sets it knows better, or learns anew */
    if (apply_locked(authority))
        authority->revision++;
    mbr_tickets_settle_locked(authority); /* some may be refused by the set limit alone */
}

mbr_status mbr_authority_set_limit(
    mbr_authority *authority, uint64_t limit_bytes, uint64_t *over_bytes, mbr_error *error)
{
    *over_bytes = 0;
    mbr_status status = mbr_limit_check(authority, limit_bytes, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&authority->lock);
    mbr_limit_set_locked(authority, limit_bytes);
    int64_t room = mbr_room_read(authority);
    mbr_lock_drop(&authority->lock);
    *over_bytes = room < 0 ? (uint64_t)-room : 0;
    return MBR_OK;
}

static uint64_t charged_now(const mbr_authority *authority)
{
    return mbr_sum_shown(mbr_slot_sums_read(authority).charged);
}

/* What may be claimed in all: what is owned already and what is free, less the margin. */
static uint64_t measured_limit(uint64_t charged, uint64_t free, uint64_t margin)
{
    uint64_t usable = free > margin ? free - margin : 0;
    uint64_t limit;
    return mbr_add(charged, usable, &limit) ? mbr_min(limit, MBR_BYTES_LIMIT) : MBR_BYTES_LIMIT;
}

/* One caller of those who come at the same time takes the sample that is due. */
static bool take_turn(mbr_authority *authority, bool now)
{
    uint64_t time = mbr_clock_now(&authority->governor->clock);
    uint64_t last = atomic_load_explicit(&authority->sampled_at_ns, memory_order_relaxed);
    if (now) {
        atomic_store_explicit(&authority->sampled_at_ns, time, memory_order_relaxed);
        return true;
    }
    return time >= last && time - last >= MBR_PROBE_INTERVAL_NS &&
        atomic_compare_exchange_strong_explicit(
            &authority->sampled_at_ns, &last, time, memory_order_relaxed, memory_order_relaxed);
}

static uint64_t exhaustions(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    uint64_t count = authority->exhaustion_count;
    mbr_lock_drop(&authority->lock);
    return count;
}

void mbr_authority_sample(mbr_authority *authority, bool now)
{
    if (!take_turn(authority, now))
        return;
    mbr_release_rates_note(authority);
    uint64_t exhaustions_before = exhaustions(authority);
    uint64_t free = 0;
    uint64_t charged = charged_now(authority);
    bool known = false;
    if (authority->probe.free_bytes != NULL) {
        mbr_lock_assert_none_held();
        known = authority->probe.free_bytes(authority->probe.context, &free) &&
            free != MBR_UNKNOWN_BYTES;
    }
    /* Bytes that were owned for a part of the sample count once: the lower figure is the safe one,
     * because what came into being meanwhile lowered `free`, and what went may have raised it. */
    charged = mbr_min(charged, charged_now(authority));
    mbr_lock_take(&authority->lock);
    if (known) {
        authority->device_free_bytes = free;
        authority->measured_limit_bytes = measured_limit(charged, free, authority->margin_bytes);
    }
    if (authority->exhaustion_count == exhaustions_before)
        authority->exhausted_limit_bytes = UINT64_MAX;
    mbr_limit_apply_locked(authority);
    mbr_lock_drop(&authority->lock);
    mbr_lease_settle(authority, known ? free : MBR_UNKNOWN_BYTES);
}

void mbr_authority_note_exhausted(mbr_authority *authority)
{
    atomic_store_explicit(&authority->sampled_at_ns, mbr_clock_now(&authority->governor->clock),
        memory_order_relaxed);
    mbr_lock_take(&authority->lock);
    mbr_credit_collect_locked(authority);
    /* What is held for a ticket nobody owns: the driver has not got it. */
    authority->exhausted_limit_bytes = mbr_claimed_locked(authority) - authority->held_bytes;
    authority->exhaustion_count++;
    mbr_limit_apply_locked(authority);
    mbr_lock_drop(&authority->lock);
}
