/* Responsible for what an authority has leased of the shared ledger: leasing more after a refusal,
 * giving back what is idle. Never decides over a claim.
 *
 * The authority's lease is at most what the ledger's page says: a lease is stored there before it
 * comes into force here, and ends here before its return is stored there. */
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <inttypes.h>

/* Fewer bytes of a cache are not given up for another process. */
#define YIELD_MIN_BYTES (UINT64_C(1) << 20)

static void read_lease(mbr_authority *authority, uint64_t *claimed, uint64_t *leased)
{
    mbr_lock_take(&authority->lock);
    mbr_credit_collect_locked(authority);
    *claimed = mbr_claimed_locked(authority);
    *leased = authority->leased_limit_bytes;
    mbr_lock_drop(&authority->lock);
}

/* After a call of the ledger that did not fail. */
static void take_view(mbr_authority *authority, const mbr_shared_view *view)
{
    mbr_lock_take(&authority->lock);
    mbr_limit_set_leased_locked(authority, view->own_bytes);
    authority->ledger_limit_bytes = view->limit_bytes;
    authority->leasable_bytes = view->limit_bytes - mbr_min(view->limit_bytes, view->leased_bytes);
    authority->wanted_bytes = view->wanted_bytes;
    mbr_tickets_settle_locked(authority);
    mbr_lock_drop(&authority->lock);
}

/* `needed` bytes are to be leased in all. */
static bool lease_up_to(
    mbr_authority *authority, uint64_t needed, uint64_t claimed, mbr_shared_view *view)
{
    uint64_t leased = authority->leased_limit_bytes; /* changes under lease_lock only */
    mbr_status status = mbr_shared_lease(authority->shared, needed - leased, claimed, view, NULL);
    if (status == MBR_OK || status == MBR_OVER_BUDGET)
        take_view(authority, view);
    return status == MBR_OK;
}

bool mbr_lease_more(mbr_authority *authority, uint64_t bytes, mbr_shared_view *view)
{
    uint64_t claimed, leased, needed;
    read_lease(authority, &claimed, &leased);
    if (!mbr_add(claimed, bytes, &needed))
        return false;
    return needed <= leased || lease_up_to(authority, needed, claimed, view);
}

uint64_t mbr_lease_reach_locked(const mbr_authority *authority)
{
    uint64_t reach = authority->leased_limit_bytes;
    if (!mbr_add(reach, authority->leasable_bytes, &reach))
        reach = UINT64_MAX;
    return mbr_min(mbr_limit_unleased_locked(authority), reach);
}

uint64_t mbr_ticket_reach_locked(const mbr_authority *authority)
{
    uint64_t reach = mbr_lease_reach_locked(authority);
    uint64_t withheld = atomic_load_explicit(&authority->withheld_bytes, memory_order_relaxed);
    return reach - mbr_min(reach, withheld);
}

/* What would have to be leased for the first ticket that bytes would help; 0: nothing, or it would
 * be of no use. */
static uint64_t needed_for_tickets(mbr_authority *authority, uint64_t *claimed)
{
    mbr_lock_take(&authority->lock);
    mbr_credit_collect_locked(authority);
    *claimed = mbr_claimed_locked(authority);
    uint64_t bytes = authority->waiting == NULL ? 0 : authority->lacking_bytes;
    uint64_t needed = *claimed - authority->held_bytes; /* which is kept for a ticket */
    bool fits = mbr_add(needed, bytes, &needed) && needed <= mbr_limit_unleased_locked(authority);
    bool lacks = bytes != 0 && fits && needed > authority->leased_limit_bytes;
    mbr_lock_drop(&authority->lock);
    return lacks ? needed : 0;
}

void mbr_lease_for_tickets(mbr_authority *authority)
{
    mbr_shared_view view;
    uint64_t needed, claimed;
    if (authority->shared == NULL)
        return;
    mbr_lock_assert_none_held();
    mbr_lock_take(&authority->lease_lock);
    do
        needed = needed_for_tickets(authority, &claimed);
    while (needed != 0 && lease_up_to(authority, needed, claimed, &view));
    mbr_lock_drop(&authority->lease_lock);
}

/* Ends the lease of `idle` bytes that are still unclaimed. They are claimed first, so that a thread
 * that claims them meanwhile without the lock and this one do not both have them. */
static bool try_give_up(mbr_authority *authority, uint64_t idle)
{
    int64_t seen;
    mbr_lock_take(&authority->lock);
    uint64_t leased = authority->leased_limit_bytes;
    uint64_t limit = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    uint64_t lowered = limit - mbr_min(limit, leased - idle);
    bool given = mbr_room_take(authority, lowered, &seen);
    if (given) {
        mbr_limit_set_leased_locked(authority, leased - idle);
        mbr_room_put(authority, lowered);
        mbr_tickets_settle_locked(authority); /* a claim may have passed by meanwhile */
    }
    mbr_lock_drop(&authority->lock);
    return given;
}

/* All but one chunk, in whole chunks; everything if another member waits for it. */
static uint64_t idle_bytes(uint64_t claimed, uint64_t leased, const mbr_shared_view *view)
{
    uint64_t idle = leased - mbr_min(leased, claimed);
    if (view->wanted_bytes != 0)
        return idle;
    uint64_t chunks = mbr_align_down(idle, view->chunk_bytes);
    return chunks - mbr_min(chunks, view->chunk_bytes);
}

/* What the page says comes into force first: a return that failed before is made up for. */
static void settle(mbr_authority *authority, uint64_t free_bytes)
{
    mbr_shared *shared = authority->shared;
    mbr_shared_view view;
    uint64_t claimed, leased;
    read_lease(authority, &claimed, &leased);
    if (mbr_shared_look(shared, free_bytes, claimed, &view, NULL) != MBR_OK)
        return; /* nothing changes; the audit and the next refusal tell */
    take_view(authority, &view);
    read_lease(authority, &claimed, &leased);
    uint64_t idle = idle_bytes(claimed, leased, &view);
    mbr_status status = MBR_STALE;
    if (claimed > leased)
        status = mbr_shared_lease_past_limit(shared, claimed - leased, claimed, &view, NULL);
    else if (idle != 0 && try_give_up(authority, idle)) /* else it was claimed just now */
        status = mbr_shared_return(shared, idle, claimed, &view, NULL);
    if (status == MBR_OK)
        take_view(authority, &view);
}

void mbr_lease_settle(mbr_authority *authority, uint64_t free_bytes)
{
    if (authority->shared == NULL)
        return;
    mbr_lock_assert_none_held();
    mbr_lock_take(&authority->lease_lock);
    settle(authority, free_bytes);
    mbr_lock_drop(&authority->lease_lock);
}

void mbr_lease_yield(mbr_authority *authority)
{
    if (authority->shared == NULL)
        return;
    mbr_lock_take(&authority->lock);
    uint64_t wanted = authority->wanted_bytes;
    authority->wanted_bytes = 0; /* asked for once, until the next look */
    mbr_lock_drop(&authority->lock);
    /* A plan gives all or nothing, and a part is of use to others, too. */
    uint64_t given = 0;
    if (wanted != 0)
        wanted = mbr_max(wanted, YIELD_MIN_BYTES);
    for (; given == 0 && wanted >= YIELD_MIN_BYTES; wanted /= 2)
        given = mbr_authority_press_caches(authority, NULL, wanted);
    if (given != 0)
        mbr_lease_settle(authority, MBR_UNKNOWN_BYTES);
}

mbr_status mbr_lease_audit(mbr_authority *authority, mbr_error *error)
{
    uint64_t claimed, leased, stored;
    if (authority->shared == NULL)
        return MBR_OK;
    mbr_lock_take(&authority->lease_lock);
    mbr_status status = mbr_shared_audit(authority->shared, &stored, error);
    read_lease(authority, &claimed, &leased);
    mbr_lock_drop(&authority->lease_lock);
    if (status == MBR_OK && stored != leased)
        status = mbr_fail(error, MBR_INTERNAL,
            "books of '%s': leased = the shared ledger's record does not hold: %" PRIu64
            " against %" PRIu64,
            authority->name, leased, stored);
    return status;
}
