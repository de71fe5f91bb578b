/* Responsible for the last word on a claim: under the lock, with all credit taken back, and for the
 * typed refusal with its figures. Never waits but for the shared ledger, never asks a holder. */
#include "governor/internal.h"

#include "abi/base/checked.h"

/* Over how long the rate of release is averaged, and the longest advice to wait. */
#define RATE_MEMORY_SECONDS 1.0
#define RETRY_AFTER_LIMIT_NS UINT64_C(60000000000)
#define NS_PER_SECOND 1e9

/* What stood under the lock when the claim was decided. */
typedef struct decision {
    uint32_t reason; /* 0: claimed */
    uint64_t limit_bytes;
    uint64_t available_bytes;
    uint64_t device_free_bytes;
    mbr_shared_view shared; /* of a claim that the shared ledger refused */
} decision;

uint64_t mbr_lease_left(const mbr_holder *holder, uint64_t *own_bytes)
{
    *own_bytes = 0;
    if (holder->allowance_bytes == MBR_NO_ALLOWANCE)
        return UINT64_MAX;
    uint64_t leased = atomic_load(&holder->leased_bytes);
    *own_bytes = holder->allowance_bytes - mbr_min(holder->allowance_bytes, leased);
    return holder->borrows ? UINT64_MAX : *own_bytes;
}

uint64_t mbr_borrowed(const mbr_holder *holder)
{
    uint64_t leased = atomic_load_explicit(&holder->leased_bytes, memory_order_relaxed);
    return holder->borrows ? leased - mbr_min(leased, holder->allowance_bytes) : 0;
}

/* What the holder's allowance leaves, whatever its authority has. */
static uint64_t allowance_left(const mbr_holder *holder)
{
    uint64_t own;
    return mbr_lease_left(holder, &own);
}

/* Two tries, one before the credit of all threads is taken back and one after: with all slots
 * closed, room is the only place of free bytes. *room_bytes is what the last try was decided by. */
static bool try_claim_locked(mbr_authority *authority, uint64_t bytes, uint64_t left_bytes,
    int64_t *room_bytes) MBR_REQUIRES(&authority->lock)
{
    if (bytes <= left_bytes && mbr_room_take(authority, bytes, room_bytes))
        return true;
    mbr_credit_collect_locked(authority);
    *room_bytes = mbr_room_read(authority);
    return bytes <= left_bytes && mbr_room_take(authority, bytes, room_bytes);
}

static uint32_t reason_locked(const mbr_authority *authority, uint64_t bytes, uint64_t left_bytes,
    int64_t room_bytes) MBR_REQUIRES(&authority->lock)
{
    uint64_t set = mbr_min(authority->set_limit_bytes, MBR_BYTES_LIMIT);
    uint64_t limit = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    uint64_t claimed = limit - (uint64_t)room_bytes;
    if (bytes > set)
        return MBR_REFUSED_CAPACITY;
    if (bytes > left_bytes)
        return MBR_REFUSED_ALLOWANCE;
    uint64_t unleased = mbr_limit_unleased_locked(authority);
    if (claimed <= unleased && bytes <= unleased - claimed)
        return MBR_REFUSED_SHARED;
    return claimed <= set && bytes <= set - claimed ? MBR_REFUSED_MEASURED : MBR_REFUSED_LIMIT;
}

static decision decide_claim(mbr_holder *holder, uint64_t bytes)
{
    mbr_authority *authority = holder->authority;
    decision made = {0};
    int64_t room;
    mbr_lock_take(&authority->lock);
    uint64_t left = allowance_left(holder);
    if (try_claim_locked(authority, bytes, left, &room)) {
        if (holder->allowance_bytes != MBR_NO_ALLOWANCE)
            atomic_fetch_add_explicit(&holder->leased_bytes, bytes, memory_order_relaxed);
    } else {
        made.reason = reason_locked(authority, bytes, left, room);
        made.limit_bytes = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
        made.available_bytes = mbr_min(left, room < 0 ? 0 : (uint64_t)room);
        made.device_free_bytes = authority->device_free_bytes;
    }
    mbr_lock_drop(&authority->lock);
    return made;
}

/* The lease alone refused the claim: more is leased until it does not, or the ledger refuses.
 * Others that come meanwhile wait here, so that none is refused for a chunk that is on its way. */
static decision decide_with_lease(mbr_holder *holder, uint64_t bytes)
{
    mbr_authority *authority = holder->authority;
    mbr_shared_view view = {0};
    decision made;
    mbr_lock_assert_none_held();
    mbr_lock_take(&authority->lease_lock);
    do
        made = decide_claim(holder, bytes);
    while (made.reason == MBR_REFUSED_SHARED && mbr_lease_more(authority, bytes, &view));
    mbr_lock_drop(&authority->lease_lock);
    if (made.reason != MBR_REFUSED_SHARED)
        return made;
    made.shared = view;
    if (view.chunk_bytes != 0 && bytes > view.limit_bytes)
        made.reason = MBR_REFUSED_CAPACITY;
    uint64_t free = view.limit_bytes - mbr_min(view.limit_bytes, view.leased_bytes);
    made.available_bytes += free; /* of the lease and of what the ledger has left */
    return made;
}

/* Takes the lease of bytes that somebody else has claimed. */
static decision decide_lease(mbr_holder *holder, uint64_t bytes)
{
    mbr_authority *authority = holder->authority;
    decision made = {0};
    mbr_lock_take(&authority->lock);
    uint64_t left = allowance_left(holder);
    if (bytes <= left) {
        atomic_fetch_add_explicit(&holder->leased_bytes, bytes, memory_order_relaxed);
    } else {
        made.reason = MBR_REFUSED_ALLOWANCE;
        made.limit_bytes = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
        made.available_bytes = left;
        made.device_free_bytes = authority->device_free_bytes;
    }
    mbr_lock_drop(&authority->lock);
    return made;
}

/* ---- When to come again */
static void update_rate(mbr_rate *rate, uint64_t now_ns, uint64_t total_bytes)
{
    if (now_ns <= rate->at_ns)
        return;
    double seconds = (double)(now_ns - rate->at_ns) / NS_PER_SECOND;
    double recent = (double)(total_bytes - rate->total_bytes) / seconds;
    double weight = seconds / (seconds + RATE_MEMORY_SECONDS);
    rate->bytes_per_second += (recent - rate->bytes_per_second) * weight;
    rate->at_ns = now_ns;
    rate->total_bytes = total_bytes;
}

static uint64_t retry_after(const mbr_rate *rate, uint64_t missing_bytes)
{
    if (rate->bytes_per_second < 1.0)
        return MBR_UNKNOWN_BYTES;
    double ns = (double)missing_bytes / rate->bytes_per_second * NS_PER_SECOND;
    return ns < (double)RETRY_AFTER_LIMIT_NS ? (uint64_t)ns : RETRY_AFTER_LIMIT_NS;
}

/* Without it a refusal after a long silence would average over the silence. */
void mbr_release_rates_note(mbr_authority *authority)
{
    mbr_books books;
    mbr_lock_take(&authority->governor->lock);
    uint64_t now = mbr_clock_now(&authority->governor->clock);
    mbr_books_read_locked(authority, &books);
    update_rate(&authority->release, now, books.refunded_total + authority->retired_refunded_bytes);
    for (mbr_holder *holder = authority->holders; holder != NULL; holder = holder->next)
        update_rate(&holder->release, now, mbr_sums_read(holder).refunded_total);
    mbr_lock_drop(&authority->governor->lock);
}

/* From the releases of whoever must release first: the holder itself at its allowance, anybody at
 * the authority's limit, nobody if it can never be. */
static uint64_t advise_locked(mbr_authority *authority, mbr_holder *holder, const mbr_refusal *full,
    uint64_t refunded) MBR_REQUIRES(&authority->governor->lock)
{
    uint64_t now = mbr_clock_now(&authority->governor->clock);
    uint64_t missing = full->asked_bytes - mbr_min(full->asked_bytes, full->available_bytes);
    update_rate(&authority->release, now, refunded + authority->retired_refunded_bytes);
    update_rate(&holder->release, now, mbr_sums_read(holder).refunded_total);
    if (full->reason == MBR_REFUSED_CAPACITY)
        return MBR_UNKNOWN_BYTES;
    if (full->reason == MBR_REFUSED_ALLOWANCE)
        return retry_after(&holder->release, missing);
    uint64_t alone = retry_after(&authority->release, missing);
    if (alone == MBR_UNKNOWN_BYTES)
        return alone;
    /* Those that wait already and have not given up by then come first. */
    uint64_t ahead = mbr_tickets_bytes_beyond(authority, now + alone);
    return retry_after(&authority->release, missing + mbr_min(ahead, MBR_BYTES_LIMIT));
}

static void fill_refusal(mbr_holder *holder, const decision *made, mbr_refusal *full)
{
    mbr_authority *authority = holder->authority;
    mbr_books books;
    mbr_lock_take(&authority->governor->lock);
    mbr_books_read_locked(authority, &books);
    full->reason = made->reason;
    full->available_bytes = made->available_bytes;
    full->limit_bytes = made->limit_bytes;
    full->device_free_bytes = made->device_free_bytes;
    bool shared = made->shared.chunk_bytes != 0;
    full->shared_limit_bytes = shared ? made->shared.limit_bytes : MBR_UNKNOWN_BYTES;
    full->shared_leased_bytes = shared ? made->shared.leased_bytes : MBR_UNKNOWN_BYTES;
    full->granted_bytes = mbr_sum_shown(books.granted);
    full->charged_bytes = mbr_sum_shown(books.charged);
    full->cached_bytes = mbr_sum_shown(books.cached);
    full->quarantined_bytes = books.quarantined;
    full->deferred_bytes = MBR_UNKNOWN_BYTES; /* the host knows its release queues */
    full->retry_after_ns = advise_locked(authority, holder, full, books.refunded_total);
    mbr_lock_drop(&authority->governor->lock);
}

static mbr_status answer(
    mbr_holder *holder, uint64_t bytes, const decision *made, mbr_refusal *refusal)
{
    if (made->reason == 0)
        return MBR_OK;
    atomic_fetch_add_explicit(&holder->authority->refusal_count, 1, memory_order_relaxed);
    mbr_refusal full = {.asked_bytes = bytes};
    fill_refusal(holder, made, &full);
    if (refusal != NULL)
        mbr_growable_give(refusal, &full, sizeof(full));
    return MBR_OVER_BUDGET;
}

mbr_status mbr_claim_or_refuse(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal)
{
    decision made = decide_claim(holder, bytes);
    if (made.reason == MBR_REFUSED_SHARED)
        made = decide_with_lease(holder, bytes);
    return answer(holder, bytes, &made, refusal);
}

/* As of when the ledger was asked last. */
static mbr_shared_view ledger_as_known_locked(const mbr_authority *authority)
    MBR_REQUIRES(&authority->lock)
{
    uint64_t limit = authority->ledger_limit_bytes;
    return (mbr_shared_view){.limit_bytes = limit,
        .leased_bytes = limit - authority->leasable_bytes,
        .chunk_bytes = mbr_shared_chunk_bytes(limit)};
}

/* What stood when nothing was claimed: for refusals that no claim led to. */
static decision decide_nothing(mbr_holder *holder, uint32_t reason)
{
    mbr_authority *authority = holder->authority;
    decision made = {.reason = reason};
    mbr_lock_take(&authority->lock);
    mbr_credit_collect_locked(authority);
    int64_t room = mbr_room_read(authority);
    made.limit_bytes = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    made.available_bytes = mbr_min(allowance_left(holder), room < 0 ? 0 : (uint64_t)room);
    made.device_free_bytes = authority->device_free_bytes;
    if (authority->ledger_limit_bytes != UINT64_MAX)
        made.shared = ledger_as_known_locked(authority);
    mbr_lock_drop(&authority->lock);
    return made;
}

void mbr_holder_read_room(const mbr_holder *holder, uint64_t *authority_bytes, uint64_t *own_bytes)
{
    mbr_authority *authority = holder->authority;
    mbr_lock_take(&authority->lock);
    mbr_credit_collect_locked(authority);
    uint64_t reach = mbr_lease_reach_locked(authority);
    *authority_bytes = reach - mbr_min(reach, mbr_claimed_locked(authority));
    *own_bytes = allowance_left(holder);
    mbr_lock_drop(&authority->lock);
}

static uint64_t most_for_ever(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    uint64_t most = mbr_limit_for_ever_locked(authority);
    mbr_lock_drop(&authority->lock);
    return most;
}

/* The ledger's limit may have risen since it was asked last. */
static bool is_above_all_limits(mbr_authority *authority, uint64_t bytes)
{
    if (bytes <= most_for_ever(authority))
        return false;
    mbr_lease_settle(authority, MBR_UNKNOWN_BYTES);
    return bytes > most_for_ever(authority);
}

mbr_status mbr_refuse_for_ever(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal)
{
    uint32_t reason = 0;
    if (is_above_all_limits(holder->authority, bytes))
        reason = MBR_REFUSED_CAPACITY;
    else if (bytes > holder->allowance_bytes && !holder->borrows)
        reason = MBR_REFUSED_ALLOWANCE;
    if (reason == 0)
        return MBR_OK;
    decision made = decide_nothing(holder, reason);
    return answer(holder, bytes, &made, refusal);
}

void mbr_refuse_queue(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal)
{
    decision made = decide_nothing(holder, MBR_REFUSED_QUEUE);
    answer(holder, bytes, &made, refusal);
}

void mbr_refuse_now(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal)
{
    mbr_refuse_growth(holder, bytes, UINT64_MAX, refusal);
}

void mbr_refuse_growth(
    mbr_holder *holder, uint64_t bytes, uint64_t available_bytes, mbr_refusal *refusal)
{
    decision made = decide_nothing(holder, MBR_REFUSED_LIMIT);
    made.available_bytes = mbr_min(made.available_bytes, available_bytes);
    answer(holder, bytes, &made, refusal);
}

mbr_status mbr_lease_or_refuse(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal)
{
    decision made = decide_lease(holder, bytes);
    return answer(holder, bytes, &made, refusal);
}
