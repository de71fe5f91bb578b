/* Responsible for booking: the hot path of grant, charge and refund, and what follows them. Never
 * decides that a claim is refused, never takes a lock by itself (but what is released is handed to
 * those who wait for it) and never walks a list.
 *
 * A thread books in its own cell of the holder and its own slot of the authority, with plain loads
 * and stores, so that threads share no written cache line. The order inside each function keeps
 * claimed >= sum of what is booked at every instant: a claim comes before its booking, a release
 * after it. */
#include "governor/internal.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

/* Where the calling thread books for a holder. */
typedef struct place {
    mbr_cell *cell;
    mbr_slot *slot;
    uint32_t index;
} place;

static inline place place_of(mbr_holder *holder)
{
    uint32_t index = mbr_slot_of_thread();
    place here = {&holder->cells[index], &holder->authority->slots[index], index};
    return here;
}

/* Adds modulo 2^64; a subtraction adds the complement. Only the shared slot has several writers. */
static inline void add(place here, _Atomic uint64_t *counter, uint64_t bytes)
{
    if (here.index == MBR_SLOT_SHARED)
        atomic_fetch_add_explicit(counter, bytes, memory_order_relaxed);
    else
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + bytes,
            memory_order_relaxed);
}

static inline void subtract(place here, _Atomic uint64_t *counter, uint64_t bytes)
{
    add(here, counter, UINT64_C(0) - bytes);
}

/* ---- Charged bytes and their peaks */
void mbr_total_raise(mbr_total *total, uint64_t bytes)
{
    uint64_t highest = atomic_load_explicit(&total->highest_bytes, memory_order_relaxed);
    while (bytes > highest &&
        !atomic_compare_exchange_weak_explicit(
            &total->highest_bytes, &highest, bytes, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void fold(mbr_total *total, uint64_t bytes, uint64_t highest)
{
    uint64_t before = atomic_fetch_add_explicit(&total->folded_bytes, bytes, memory_order_release);
    mbr_total_raise(total, mbr_sum_shown(before + highest));
}

/* Adds to a total, `difference` modulo 2^64. A pending part is cleared before it is folded, so that
 * a snapshot, which reads the folded part first, never counts it twice. */
static inline void add_to_total(
    place here, mbr_pending *pending, mbr_total *total, uint64_t difference, uint64_t step)
{
    if (here.index == MBR_SLOT_SHARED) {
        fold(total, difference, difference);
        return;
    }
    uint64_t bytes = atomic_load_explicit(&pending->bytes, memory_order_relaxed) + difference;
    uint64_t highest = atomic_load_explicit(&pending->highest_bytes, memory_order_relaxed);
    if ((int64_t)bytes > (int64_t)highest)
        highest = bytes;
    bool far = bytes + step > 2 * step; /* outside [-step, step] */
    atomic_store_explicit(&pending->bytes, far ? 0 : bytes, memory_order_relaxed);
    atomic_store_explicit(&pending->highest_bytes, far ? 0 : highest, memory_order_relaxed);
    if (__builtin_expect(far, 0))
        fold(total, bytes, highest);
}

/* `difference` more or fewer bytes charged to the holder, its authority's total unchanged. */
static inline void add_charged_to_holder(mbr_holder *holder, place here, uint64_t difference)
{
    uint64_t step =
        atomic_load_explicit(&holder->authority->credit_cap_bytes, memory_order_relaxed);
    add_to_total(here, &here.cell->charged, &holder->charged, difference, step);
}

static inline void add_charged(mbr_holder *holder, place here, uint64_t difference)
{
    mbr_authority *authority = holder->authority;
    uint64_t step = atomic_load_explicit(&authority->credit_cap_bytes, memory_order_relaxed);
    add_to_total(here, &here.cell->charged, &holder->charged, difference, step);
    add_to_total(here, &here.slot->charged, &authority->charged, difference, step);
}

/* ---- Claim and release */
static inline bool has_allowance(const mbr_holder *holder)
{
    return __builtin_expect(holder->allowance_bytes != MBR_NO_ALLOWANCE, 0);
}

/* False also for a closed slot, whose mark is above every credit. */
static inline bool try_take_credit(place here, uint64_t bytes)
{
    uint64_t credit = atomic_load_explicit(&here.slot->credit_bytes, memory_order_relaxed);
    do {
        if (credit < bytes || credit == MBR_CREDIT_CLOSED)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&here.slot->credit_bytes, &credit,
        credit - bytes, memory_order_acquire, memory_order_relaxed));
    return true;
}

static inline bool try_put_credit(const mbr_authority *authority, place here, uint64_t bytes)
{
    uint64_t cap = atomic_load_explicit(&authority->credit_cap_bytes, memory_order_relaxed);
    uint64_t credit = atomic_load_explicit(&here.slot->credit_bytes, memory_order_relaxed);
    do {
        if (credit > cap || bytes > cap - credit)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&here.slot->credit_bytes, &credit,
        credit + bytes, memory_order_release, memory_order_relaxed));
    return true;
}

/* Apart from `release`, whose usual way it would burden with registers. */
static __attribute__((noinline)) void spill(mbr_authority *authority, place here, uint64_t bytes)
{
    mbr_credit_spill(authority, here.index, bytes);
    mbr_tickets_wake(authority);
}

static inline void release(mbr_holder *holder, place here, uint64_t bytes)
{
    if (has_allowance(holder))
        atomic_fetch_sub_explicit(&holder->leased_bytes, bytes, memory_order_release);
    if (!try_put_credit(holder->authority, here, bytes))
        spill(holder->authority, here, bytes);
}

static inline void book_grant(place here, uint64_t bytes)
{
    add(here, &here.cell->granted_total, bytes);
    add(here, &here.slot->grant_count, 1);
}

mbr_status mbr_grant(mbr_holder *holder, uint64_t bytes, mbr_refusal *refusal)
{
    if (bytes == 0)
        return MBR_OK;
    place here = place_of(holder);
    bool claimed = !has_allowance(holder) &&
        (try_take_credit(here, bytes) || mbr_credit_claim(holder->authority, here.index, bytes));
    if (!claimed) {
        mbr_status status = mbr_claim_or_refuse(holder, bytes, refusal);
        if (status != MBR_OK)
            return status;
    }
    book_grant(here, bytes);
    return MBR_OK;
}

void mbr_book_grant(mbr_holder *holder, uint64_t bytes)
{
    book_grant(place_of(holder), bytes);
}

/* Rare, so one shared word. */
void mbr_set_aside(mbr_holder *holder, uint64_t bytes)
{
    atomic_fetch_add_explicit(&holder->aside_bytes, bytes, memory_order_release);
}

uint64_t mbr_take_aside(mbr_holder *holder, uint64_t most_bytes)
{
    uint64_t aside = atomic_load_explicit(&holder->aside_bytes, memory_order_acquire);
    while (aside != 0 &&
        !atomic_compare_exchange_weak_explicit(&holder->aside_bytes, &aside,
            aside - mbr_min(aside, most_bytes), memory_order_acq_rel, memory_order_acquire)) {
    }
    return mbr_min(aside, most_bytes);
}

bool mbr_has_aside(const mbr_holder *holder)
{
    return atomic_load_explicit(&holder->aside_bytes, memory_order_relaxed) != 0;
}

void mbr_grant_return(mbr_holder *holder, uint64_t bytes)
{
    place here = place_of(holder);
    add(here, &here.cell->returned_total, bytes);
    release(holder, here, bytes);
}

/* ---- Charges */
void mbr_charge(mbr_holder *holder, uint64_t bytes)
{
    place here = place_of(holder);
    add_charged(holder, here, bytes);
    add(here, &here.cell->charged_total, bytes);
}

void mbr_refund(mbr_holder *holder, uint64_t bytes)
{
    place here = place_of(holder);
    add_charged(holder, here, UINT64_C(0) - bytes);
    add(here, &here.cell->refunded_total, bytes);
    release(holder, here, bytes);
}

/* The receiver, whose lease is taken, pays before the giver stops: bytes always have a payer. The
 * authority's own total does not change. */
static void transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes)
{
    place there = place_of(to), here = place_of(from);
    add_charged_to_holder(to, there, bytes);
    add(there, &there.cell->moved, bytes);
    add_charged_to_holder(from, here, UINT64_C(0) - bytes);
    subtract(here, &here.cell->moved, bytes);
    if (has_allowance(from))
        atomic_fetch_sub(&from->leased_bytes, bytes);
    /* One of `from` may wait for its allowance, and bytes may be held for one of `to`, which can
     * not be satisfied any more. */
    if (has_allowance(from) || has_allowance(to))
        mbr_tickets_wake(from->authority);
}

void mbr_transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes)
{
    MBR_CHECK(from->authority == to->authority);
    if (from == to)
        return;
    if (has_allowance(to))
        atomic_fetch_add_explicit(&to->leased_bytes, bytes, memory_order_relaxed);
    transfer(from, to, bytes);
}

mbr_status mbr_try_transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes, mbr_refusal *refusal)
{
    MBR_CHECK(from->authority == to->authority);
    if (from == to)
        return MBR_OK;
    if (has_allowance(to)) {
        mbr_status status = mbr_lease_or_refuse(to, bytes, refusal);
        if (status != MBR_OK)
            return status;
    }
    transfer(from, to, bytes);
    return MBR_OK;
}

void mbr_record_committed(mbr_holder *holder, uint64_t bytes)
{
    place here = place_of(holder);
    mbr_room_take_past_limit(holder->authority, bytes);
    if (has_allowance(holder))
        atomic_fetch_add_explicit(&holder->leased_bytes, bytes, memory_order_relaxed);
    add_charged(holder, here, bytes);
    add(here, &here.cell->moved, bytes);
    mbr_tickets_wake(holder->authority); /* what was held may be what the device gave */
}

/* ---- The mapped axis */
void mbr_mapped_add(mbr_holder *holder, uint64_t bytes)
{
    place here = place_of(holder);
    add(here, &here.cell->mapped, bytes);
}

void mbr_mapped_sub(mbr_holder *holder, uint64_t bytes)
{
    place here = place_of(holder);
    subtract(here, &here.cell->mapped, bytes);
}

void mbr_mapped_transfer(mbr_holder *from, mbr_holder *to, uint64_t bytes)
{
    mbr_mapped_add(to, bytes);
    mbr_mapped_sub(from, bytes);
}

/* ---- Marks. Rare, so shared counters: of each kind for the holder, of both for the authority. */
static void mark(mbr_holder *holder, _Atomic uint64_t *marks, uint64_t bytes)
{
    atomic_fetch_add_explicit(marks, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&holder->authority->withheld_bytes, bytes, memory_order_relaxed);
}

static void unmark(mbr_holder *holder, _Atomic uint64_t *marks, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&holder->authority->withheld_bytes, bytes, memory_order_relaxed);
    uint64_t before = atomic_fetch_sub_explicit(marks, bytes, memory_order_relaxed);
    MBR_CHECK(before >= bytes); /* a mark below zero would let a teardown refund bytes twice */
}

void mbr_quarantine(mbr_holder *holder, uint64_t bytes)
{
    mark(holder, &holder->quarantined_bytes, bytes);
}

void mbr_quarantine_settle(mbr_holder *holder, uint64_t bytes)
{
    unmark(holder, &holder->quarantined_bytes, bytes);
}

void mbr_retain(mbr_holder *holder, uint64_t bytes)
{
    mark(holder, &holder->retained_bytes, bytes);
}

void mbr_retain_settle(mbr_holder *holder, uint64_t bytes)
{
    unmark(holder, &holder->retained_bytes, bytes);
}
