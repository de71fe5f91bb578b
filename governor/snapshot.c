/* Responsible for the figures that others see: sums over the cells of holders, brought into the
 * structs of budget.h. Never changes a book; it raises peaks that it has seen.
 *
 * Cells are read while their threads write, so a sum may mix moments. What is shown is brought into
 * the bounds that hold at every instant: nothing below 0, charged not above claimed, and granted
 * the rest of claimed. With threads at rest every figure is exact. */
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <string.h>
#include <utlist.h>

static void sum_cell(mbr_sums *sums, const mbr_cell *cell)
{
    sums->granted += atomic_load_explicit(&cell->granted_total, memory_order_relaxed) -
        atomic_load_explicit(&cell->returned_total, memory_order_relaxed) -
        atomic_load_explicit(&cell->charged_total, memory_order_relaxed);
    sums->charged += atomic_load_explicit(&cell->charged, memory_order_relaxed);
    sums->mapped += atomic_load_explicit(&cell->mapped, memory_order_relaxed);
    sums->refunded_total += atomic_load_explicit(&cell->refunded_total, memory_order_relaxed);
    const mbr_pending *pending = &cell->pending_charged;
    sums->pending_charged += atomic_load_explicit(&pending->bytes, memory_order_relaxed);
    sums->highest_pending = mbr_max(
        sums->highest_pending, atomic_load_explicit(&pending->highest_bytes, memory_order_relaxed));
}

mbr_sums mbr_sums_read(const mbr_holder *holder)
{
    mbr_sums sums = {0};
    uint32_t used = mbr_slot_used_count();
    for (uint32_t i = 0; i < used; i++)
        sum_cell(&sums, &holder->cells[i]);
    sum_cell(&sums, &holder->cells[MBR_SLOT_SHARED]);
    return sums;
}

uint64_t mbr_sum_shown(uint64_t sum)
{
    return (int64_t)sum < 0 ? 0 : sum;
}

void mbr_books_read_locked(const mbr_authority *authority, mbr_books *books)
{
    memset(books, 0, sizeof(*books));
    const mbr_holder *holder;
    DL_FOREACH(authority->holders, holder)
    {
        mbr_sums sums = mbr_sums_read(holder);
        books->sums.granted += sums.granted;
        books->sums.charged += sums.charged;
        books->sums.mapped += sums.mapped;
        books->sums.refunded_total += sums.refunded_total;
        books->quarantined +=
            atomic_load_explicit(&holder->quarantined_bytes, memory_order_relaxed);
        books->retained += atomic_load_explicit(&holder->retained_bytes, memory_order_relaxed);
        if (holder->role == MBR_ROLE_CACHE)
            books->cached += sums.charged;
    }
}

/* What the slots of all threads say together. */
static void read_slots(const mbr_authority *authority, uint64_t *grant_count, uint64_t *highest)
{
    const mbr_slot *shared = &authority->slots[MBR_SLOT_SHARED];
    *grant_count = atomic_load_explicit(&shared->grant_count, memory_order_relaxed);
    *highest = 0;
    uint32_t used = mbr_slot_used_count();
    for (uint32_t i = 0; i < used; i++) {
        const mbr_slot *slot = &authority->slots[i];
        *grant_count += atomic_load_explicit(&slot->grant_count, memory_order_relaxed);
        *highest = mbr_max(
            *highest, atomic_load_explicit(&slot->charged.highest_bytes, memory_order_relaxed));
    }
}

/* The highest value: as folded, of the one pending part that rose highest since, and now. */
static uint64_t read_peak(mbr_peak *peak, uint64_t highest_pending, uint64_t now_bytes)
{
    uint64_t folded = atomic_load_explicit(&peak->folded_bytes, memory_order_relaxed);
    mbr_peak_raise(peak, mbr_sum_shown(folded + highest_pending));
    mbr_peak_raise(peak, now_bytes);
    return atomic_load_explicit(&peak->highest_bytes, memory_order_relaxed);
}

/* The figures that change together, under the authority's lock. */
static void fill_limits(mbr_authority *authority, mbr_authority_figures *full)
{
    mbr_lock_take(&authority->lock);
    full->limit_bytes = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    full->set_limit_bytes = authority->set_limit_bytes;
    full->claimed_bytes = mbr_claimed_locked(authority);
    full->revision = authority->revision;
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
    fill_limits(authority, &full);
    mbr_lock_drop(&authority->governor->lock);
    full.charged_bytes = mbr_min(mbr_sum_shown(books.sums.charged), full.claimed_bytes);
    full.granted_bytes = full.claimed_bytes - full.charged_bytes;
    full.mapped_bytes = mbr_sum_shown(books.sums.mapped);
    full.quarantined_bytes = books.quarantined;
    full.retained_bytes = books.retained;
    uint64_t highest_pending;
    read_slots(authority, &full.grant_count, &highest_pending);
    full.peak_charged_bytes = read_peak(&authority->charged, highest_pending, full.charged_bytes);
    full.refusal_count = atomic_load_explicit(&authority->refusal_count, memory_order_relaxed);
    full.violation_count = atomic_load_explicit(&authority->violation_count, memory_order_relaxed);
    mbr_governor_answer(figures, &full, sizeof(full));
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
    full.quarantined_bytes = atomic_load_explicit(&holder->quarantined_bytes, memory_order_relaxed);
    full.retained_bytes = atomic_load_explicit(&holder->retained_bytes, memory_order_relaxed);
    full.peak_charged_bytes = read_peak(&holder->charged, sums.highest_pending, full.charged_bytes);
    mbr_governor_answer(figures, &full, sizeof(full));
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
    mbr_holder *holder;
    mbr_lock_take(&authority->governor->lock);
    uint64_t claimed = claimed_now(authority);
    DL_FOREACH(authority->holders, holder)
    {
        if (filled == capacity)
            break;
        fill_holder(holder, claimed, &lines[filled++]);
    }
    *count = authority->holder_count;
    mbr_lock_drop(&authority->governor->lock);
}
