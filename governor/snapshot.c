/* Responsible for the figures that others see: sums over the cells of holders and the slots of
 * threads, brought into the structs of budget.h. Never changes a book; it raises peaks that it has
 * seen.
 *
 * Cells are read while their threads write, so a sum may mix moments. The charged totals are read
 * as folded part, then pending parts: what that misses or mixes is no more than pending parts are.
 * What is shown is brought into the bounds that hold at every instant: nothing below 0, charged not
 * above claimed, granted the rest of claimed. With threads at rest every figure is exact. */
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <string.h>
#include <utlist.h>

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Adds one pending part to a total whose folded part is in *sum and *highest already. */
static void add_pending(
    const mbr_pending *pending, uint64_t folded, uint64_t *sum, uint64_t *highest)
{
    *sum += load(&pending->bytes);
    *highest = folded + mbr_max(*highest - folded, load(&pending->highest_bytes));
}

static void add_cell(mbr_sums *sums, const mbr_cell *cell, uint64_t folded)
{
    uint64_t charged_total = load(&cell->charged_total);
    uint64_t refunded_total = load(&cell->refunded_total);
    add_pending(&cell->charged, folded, &sums->charged, &sums->highest_charged);
    sums->granted += load(&cell->granted_total) - load(&cell->returned_total) - charged_total;
    sums->lifetime_charged += charged_total + load(&cell->moved) - refunded_total;
    sums->refunded_total += refunded_total;
    sums->mapped += load(&cell->mapped);
}

mbr_sums mbr_sums_read(const mbr_holder *holder)
{
    uint64_t folded = atomic_load_explicit(&holder->charged.folded_bytes, memory_order_acquire);
    mbr_sums sums = {.charged = folded, .highest_charged = folded};
    uint32_t used = mbr_slot_used_count();
    for (uint32_t i = 0; i < used; i++)
        add_cell(&sums, &holder->cells[i], folded);
    add_cell(&sums, &holder->cells[MBR_SLOT_SHARED], folded);
    return sums;
}

static void add_slot(mbr_slot_sums *sums, const mbr_slot *slot, uint64_t folded)
{
    uint64_t credit = load(&slot->credit_bytes);
    add_pending(&slot->charged, folded, &sums->charged, &sums->highest_charged);
    sums->credit += credit == MBR_CREDIT_CLOSED ? 0 : credit;
    sums->grant_count += load(&slot->grant_count);
}

mbr_slot_sums mbr_slot_sums_read(const mbr_authority *authority)
{
    uint64_t folded = atomic_load_explicit(&authority->charged.folded_bytes, memory_order_acquire);
    mbr_slot_sums sums = {.charged = folded, .highest_charged = folded};
    uint32_t used = mbr_slot_used_count();
    for (uint32_t i = 0; i < used; i++)
        add_slot(&sums, &authority->slots[i], folded);
    add_slot(&sums, &authority->slots[MBR_SLOT_SHARED], folded);
    return sums;
}

uint64_t mbr_sum_shown(uint64_t sum)
{
    return (int64_t)sum < 0 ? 0 : sum;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
    uint64_t sum = UINT64_MAX;
    mbr_add(a, b, &sum);
    return sum;
}

/* Allowances that no addition can make wrap: what is lent is never more than what is borrowed. */
static void add_share(mbr_books *books, const mbr_holder *holder)
{
    if (holder->allowance_bytes == MBR_NO_ALLOWANCE)
        return;
    uint64_t own;
    mbr_lease_left(holder, &own);
    books->unused = add_capped(books->unused, own);
    books->allowances = add_capped(books->allowances, holder->allowance_bytes);
    books->borrowed += mbr_borrowed(holder);
}

uint64_t mbr_holder_withheld(const mbr_holder *holder)
{
    return load(&holder->quarantined_bytes) + load(&holder->retained_bytes);
}

void mbr_books_read_locked(const mbr_authority *authority, mbr_books *books)
{
    memset(books, 0, sizeof(*books));
    const mbr_holder *holder;
    DL_FOREACH(authority->holders, holder)
    {
        mbr_sums sums = mbr_sums_read(holder);
        books->granted += sums.granted;
        books->charged += sums.charged;
        books->mapped += sums.mapped;
        books->refunded_total += sums.refunded_total;
        books->quarantined += load(&holder->quarantined_bytes);
        books->retained += load(&holder->retained_bytes);
        if (holder->role == MBR_ROLE_CACHE) {
            books->cached += sums.charged;
            books->stuck += mbr_holder_withheld(holder);
        }
        add_share(books, holder);
        books->holder_count++;
    }
}

/* The highest value: as folded, with the pending part that rose highest since, and now. */
static uint64_t read_peak(mbr_total *total, uint64_t highest_sum, uint64_t now_bytes)
{
    mbr_total_raise(total, mbr_sum_shown(highest_sum));
    mbr_total_raise(total, now_bytes);
    return load(&total->highest_bytes);
}

/* The figures that change together, under the authority's lock. */
static void fill_limits(mbr_authority *authority, mbr_authority_figures *full)
{
    mbr_lock_take(&authority->lock);
    full->limit_bytes = load(&authority->limit_bytes);
    full->set_limit_bytes = authority->set_limit_bytes;
    full->claimed_bytes = mbr_claimed_locked(authority);
    full->revision = authority->revision;
    full->set_revision = authority->set_revision;
    full->held_bytes = authority->held_bytes;
    full->waiting_count = mbr_tickets_read_locked(authority, &full->waiting_bytes);
    full->leased_bytes =
        authority->shared == NULL ? MBR_UNKNOWN_BYTES : authority->leased_limit_bytes;
    mbr_lock_drop(&authority->lock);
    if (full->claimed_bytes > full->limit_bytes)
        full->over_bytes = full->claimed_bytes - full->limit_bytes;
}

void mbr_authority_figures_read(mbr_authority *authority, mbr_authority_figures *figures)
{
    mbr_authority_figures full = {
        .tier = authority->tier,
        .authority_id = authority->id,
        .unattributed_bytes = MBR_UNKNOWN_BYTES, /* the host knows what a mechanism owns */
    };
    memcpy(full.name, authority->name, sizeof(full.name));
    mbr_books books;
    mbr_lock_take(&authority->governor->lock);
    mbr_books_read_locked(authority, &books);
    full.holder_count = authority->holder_count;
    mbr_lock_drop(&authority->governor->lock);
    mbr_slot_sums slots = mbr_slot_sums_read(authority);
    fill_limits(authority, &full);
    full.charged_bytes = mbr_min(mbr_sum_shown(slots.charged), full.claimed_bytes);
    full.granted_bytes = full.claimed_bytes - full.charged_bytes;
    full.mapped_bytes = mbr_sum_shown(books.mapped);
    full.quarantined_bytes = books.quarantined;
    full.retained_bytes = books.retained;
    full.lent_bytes = mbr_min(books.borrowed, books.unused); /* of others' shares first */
    full.unassigned_bytes = full.limit_bytes - mbr_min(full.limit_bytes, books.allowances);
    full.peak_charged_bytes =
        read_peak(&authority->charged, slots.highest_charged, full.charged_bytes);
    full.grant_count = slots.grant_count;
    full.refusal_count = load(&authority->refusal_count);
    full.violation_count = load(&authority->violation_count);
    mbr_growable_give(figures, &full, sizeof(full));
}

static void fill_holder(mbr_holder *holder, uint64_t claimed, mbr_holder_figures *figures)
{
    mbr_holder_figures full = {
        .role = holder->role,
        .holder_id = holder->id,
        .allowance_bytes = holder->allowance_bytes,
    };
    memcpy(full.name, holder->name, sizeof(full.name));
    mbr_sums sums = mbr_sums_read(holder);
    full.charged_bytes = mbr_min(mbr_sum_shown(sums.charged), claimed);
    full.granted_bytes = mbr_min(mbr_sum_shown(sums.granted), claimed - full.charged_bytes);
    full.mapped_bytes = mbr_sum_shown(sums.mapped);
    if (full.charged_bytes > holder->allowance_bytes)
        full.oversubscribed_bytes = full.charged_bytes - holder->allowance_bytes;
    full.quarantined_bytes = load(&holder->quarantined_bytes);
    full.retained_bytes = load(&holder->retained_bytes);
    full.borrowed_bytes = mbr_borrowed(holder);
    full.peak_charged_bytes = read_peak(&holder->charged, sums.highest_charged, full.charged_bytes);
    mbr_growable_give(figures, &full, sizeof(full));
}

static uint64_t claimed_now(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    uint64_t claimed = mbr_claimed_locked(authority);
    mbr_lock_drop(&authority->lock);
    return claimed;
}

void mbr_holder_figures_read(mbr_holder *holder, mbr_holder_figures *figures)
{
    fill_holder(holder, claimed_now(holder->authority), figures);
}

void mbr_authority_holders_read(
    mbr_authority *authority, mbr_holder_figures *lines, uint32_t capacity, uint32_t *count)
{
    uint32_t filled = 0;
    uint32_t stride = capacity == 0 ? 0 : lines->struct_size; /* the caller's, not ours (rule 11) */
    mbr_holder *holder;
    mbr_lock_take(&authority->governor->lock);
    uint64_t claimed = claimed_now(authority);
    DL_FOREACH(authority->holders, holder)
    {
        if (filled == capacity)
            break;
        fill_holder(holder, claimed, (mbr_holder_figures *)((char *)lines + stride * filled++));
    }
    *count = authority->holder_count;
    mbr_lock_drop(&authority->governor->lock);
}
