/* Responsible for telling whether the books are right: every total is computed again from its
 * entries. Never repairs anything. Exact only with threads at rest. */
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <inttypes.h>
#include <utlist.h>

/* One equation; both sides modulo 2^64 and shown signed, because a wrong book is often below 0. */
static mbr_status check(
    mbr_error *error, const char *of, const char *equation, uint64_t left, uint64_t right)
{
    if (left == right)
        return MBR_OK;
    return mbr_fail(error, MBR_INTERNAL,
        "books of '%s': %s does not hold: %" PRId64 " against %" PRId64, of, equation,
        (int64_t)left, (int64_t)right);
}

static mbr_status check_not_negative(
    mbr_error *error, const char *of, const char *equation, uint64_t sum)
{
    return check(error, of, equation, sum, mbr_sum_shown(sum));
}

static mbr_status audit_holder(const mbr_holder *holder, const mbr_sums *sums, mbr_error *error)
{
    uint64_t leased = atomic_load_explicit(&holder->leased_bytes, memory_order_relaxed);
    uint64_t marked = atomic_load_explicit(&holder->quarantined_bytes, memory_order_relaxed) +
        atomic_load_explicit(&holder->retained_bytes, memory_order_relaxed);
    bool allowance = holder->allowance_bytes != MBR_NO_ALLOWANCE;
    const char *of = holder->name;
    mbr_status status = check_not_negative(error, of, "granted >= 0", sums->granted);
    if (status == MBR_OK)
        status = check_not_negative(error, of, "charged >= 0", sums->charged);
    if (status == MBR_OK)
        status = check_not_negative(error, of, "mapped >= 0", sums->mapped);
    if (status == MBR_OK)
        status = check(error, of, "charged = ever charged + moved - refunded", sums->charged,
            sums->lifetime_charged);
    if (status == MBR_OK)
        status = check(error, of, "leased = granted + charged", leased,
            allowance ? sums->granted + sums->charged : 0);
    if (status == MBR_OK)
        status = check(
            error, of, "quarantined + retained <= charged", marked, mbr_min(marked, sums->charged));
    return status;
}

static mbr_status audit_authority_locked(mbr_authority *authority, const mbr_books *books,
    mbr_error *error) MBR_REQUIRES(&authority->lock)
{
    mbr_slot_sums slots = mbr_slot_sums_read(authority);
    uint64_t limit = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    const char *of = authority->name;
    uint64_t waiting_bytes;
    mbr_status status = check(error, of, "claimed = credit + held + granted + charged",
        mbr_claimed_locked(authority),
        slots.credit + authority->held_bytes + books->granted + books->charged);
    if (status == MBR_OK)
        status = check(error, of, "charged = sum over the holders", slots.charged, books->charged);
    if (status == MBR_OK)
        status = check(error, of, "limit = least of set, measured, exhausted, leased", limit,
            mbr_limit_least_locked(authority));
    if (status == MBR_OK)
        status = check(error, of, "holders = length of their list", authority->holder_count,
            books->holder_count);
    if (status == MBR_OK)
        status = check(error, of, "withheld = quarantined + retained",
            atomic_load(&authority->withheld_bytes), books->quarantined + books->retained);
    if (status == MBR_OK)
        status = check(error, of, "waiting tickets = length of their list",
            atomic_load(&authority->waiting_count),
            mbr_tickets_read_locked(authority, &waiting_bytes));
    if (status == MBR_OK && authority->waiting == NULL)
        status = check(error, of, "held = 0 where nobody waits", authority->held_bytes, 0);
    return status;
}

mbr_status mbr_authority_audit(mbr_authority *authority, mbr_error *error)
{
    mbr_status status = MBR_OK;
    mbr_books books;
    const mbr_holder *holder;
    mbr_lock_take(&authority->governor->lock);
    DL_FOREACH(authority->holders, holder)
    {
        mbr_sums sums = mbr_sums_read(holder);
        if (status == MBR_OK)
            status = audit_holder(holder, &sums, error);
    }
    if (status == MBR_OK) {
        mbr_books_read_locked(authority, &books);
        mbr_lock_take(&authority->lock);
        status = audit_authority_locked(authority, &books, error);
        mbr_lock_drop(&authority->lock);
    }
    mbr_lock_drop(&authority->governor->lock);
    if (status == MBR_OK)
        status = mbr_lease_audit(authority, error);
    return status;
}
