/* Responsible for letting members in and letting them grow only while all can still finish. Books
 * nothing and never waits. */
#include "governor/admission.h"
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <inttypes.h>

struct mbr_admission {
    mbr_holder *holder;
    mbr_lock lock;
    uint32_t count;
    uint64_t last_number;
    mbr_member_need members[MBR_MEMBER_LIMIT_COUNT]; /* the least lacking first, after a check */
};

static uint64_t lacks(const mbr_member_need *need)
{
    return need->most_bytes - need->has_bytes;
}

/* By insertion, because one member at a time changes. */
bool mbr_all_can_finish(uint64_t free_bytes, mbr_member_need *needs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        mbr_member_need moving = needs[i];
        uint32_t at = i;
        for (; at > 0 && lacks(&moving) < lacks(&needs[at - 1]); at--)
            needs[at] = needs[at - 1];
        needs[at] = moving;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (lacks(&needs[i]) > free_bytes)
            return false;
        if (!mbr_add(free_bytes, needs[i].has_bytes, &free_bytes))
            return true; /* more than any of them can lack */
    }
    return true;
}

/* What the members have and could have: the limit in force, with what a shared ledger has free,
 * less what others own, caches apart, which give way; and less what is withheld, of a cache or of
 * the holder itself: with that nobody finishes. */
static uint64_t capacity(mbr_holder *holder)
{
    mbr_authority *authority = holder->authority;
    mbr_books books;
    mbr_lock_take(&authority->governor->lock);
    mbr_books_read_locked(authority, &books);
    mbr_sums own = mbr_sums_read(holder);
    uint64_t withheld = mbr_holder_withheld(holder);
    mbr_lock_drop(&authority->governor->lock);
    uint64_t given_way = books.cached - books.stuck;
    if (holder->role == MBR_ROLE_CACHE)
        given_way -= own.charged - withheld;
    uint64_t others =
        mbr_sum_shown(books.granted + books.charged - own.granted - own.charged - given_way);
    mbr_lock_take(&authority->lock);
    uint64_t limit = mbr_lease_reach_locked(authority);
    mbr_lock_drop(&authority->lock);
    uint64_t own_most = holder->borrows ? UINT64_MAX : holder->allowance_bytes;
    uint64_t most = mbr_min(limit - mbr_min(limit, others), own_most);
    return most - mbr_min(most, withheld);
}

/* Sorts the members. */
static bool is_feasible_locked(mbr_admission *admission, uint64_t capacity_bytes)
    MBR_REQUIRES(&admission->lock)
{
    uint64_t has = 0;
    for (uint32_t i = 0; i < admission->count; i++) {
        if (!mbr_add(has, admission->members[i].has_bytes, &has))
            return false;
    }
    return has <= capacity_bytes &&
        mbr_all_can_finish(capacity_bytes - has, admission->members, admission->count);
}

static mbr_member_need *find_locked(mbr_admission *admission, uint64_t number)
    MBR_REQUIRES(&admission->lock)
{
    for (uint32_t i = 0; i < admission->count; i++) {
        if (admission->members[i].number == number)
            return &admission->members[i];
    }
    return NULL;
}

/* The next check sorts. */
static void take_out_locked(mbr_admission *admission, mbr_member_need *member)
    MBR_REQUIRES(&admission->lock)
{
    *member = admission->members[--admission->count];
}

/* The most that a member may grow by. It finishes after the fewest others that free what it lacks;
 * each of these must still get what it lacks itself. */
static uint64_t growable_locked(mbr_admission *admission, uint64_t number, uint64_t capacity_bytes)
    MBR_REQUIRES(&admission->lock)
{
    if (!is_feasible_locked(admission, capacity_bytes))
        return 0;
    const mbr_member_need *grown = find_locked(admission, number);
    uint64_t reach = capacity_bytes;
    for (uint32_t i = 0; i < admission->count; i++)
        reach -= admission->members[i].has_bytes;
    uint64_t bytes = mbr_min(lacks(grown), reach);
    for (uint32_t i = 0; i < admission->count && reach < lacks(grown); i++) {
        const mbr_member_need *earlier = &admission->members[i];
        if (earlier == grown)
            continue;
        bytes = mbr_min(bytes, reach - lacks(earlier));
        reach += earlier->has_bytes;
    }
    return bytes;
}

mbr_status mbr_admission_create(mbr_holder *holder, mbr_admission **admission, mbr_error *error)
{
    *admission = NULL;
    mbr_admission *made =
        mbr_heap_allocate(&holder->authority->governor->heap, sizeof(mbr_admission));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no %zu bytes of heap for an admission",
            sizeof(mbr_admission));
    made->holder = holder;
    mbr_lock_init(&made->lock, MBR_RANK_ADMISSION);
    *admission = made;
    return MBR_OK;
}

mbr_status mbr_admission_destroy(mbr_admission *admission, mbr_error *error)
{
    if (admission == NULL)
        return MBR_OK;
    uint32_t count = mbr_admission_count(admission);
    if (count != 0)
        return mbr_fail(error, MBR_IN_USE, "%u members are still admitted for holder '%s'", count,
            admission->holder->name);
    mbr_lock_finish(&admission->lock);
    mbr_heap_release(&admission->holder->authority->governor->heap, admission);
    return MBR_OK;
}

/* Adds the member, and takes it back where not all could finish. */
static uint64_t try_add(
    mbr_admission *admission, uint64_t most_bytes, uint64_t capacity_bytes, bool *full)
{
    uint64_t number = 0;
    mbr_lock_take(&admission->lock);
    *full = admission->count == MBR_MEMBER_LIMIT_COUNT;
    if (!*full) {
        number = ++admission->last_number;
        admission->members[admission->count++] =
            (mbr_member_need){.most_bytes = most_bytes, .number = number};
        if (!is_feasible_locked(admission, capacity_bytes)) {
            take_out_locked(admission, find_locked(admission, number));
            number = 0;
        }
    }
    mbr_lock_drop(&admission->lock);
    return number;
}

mbr_status mbr_admit(mbr_admission *admission, uint64_t most_bytes, mbr_member *admitted,
    mbr_refusal *refusal, mbr_error *error)
{
    admitted->number = 0;
    if (most_bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "a member that needs 0 bytes at most; say the most it may lease");
    mbr_holder *holder = admission->holder;
    mbr_status status = mbr_refuse_for_ever(holder, most_bytes, refusal);
    if (status != MBR_OK)
        return mbr_fail(error, status,
            "%" PRIu64 " bytes are more than holder '%s' could have alone", most_bytes,
            holder->name);
    bool full;
    admitted->number = try_add(admission, most_bytes, capacity(holder), &full);
    if (admitted->number != 0)
        return MBR_OK;
    if (full)
        return mbr_fail(error, MBR_BUSY, "%d members are admitted for holder '%s', as many as can",
            MBR_MEMBER_LIMIT_COUNT, holder->name);
    mbr_refuse_now(holder, most_bytes, refusal);
    return mbr_fail(error, MBR_OVER_BUDGET,
        "with %" PRIu64 " bytes more promised, not all members of holder '%s' could finish; come "
        "again after a release",
        most_bytes, holder->name);
}

/* *available_bytes is written with MBR_BUSY. */
static mbr_status grow_locked(mbr_admission *admission, uint64_t number, uint64_t bytes,
    uint64_t capacity_bytes, uint64_t *available_bytes, mbr_error *error)
    MBR_REQUIRES(&admission->lock)
{
    mbr_member_need *found = find_locked(admission, number);
    if (found == NULL)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no member %" PRIu64 " is in", number);
    if (bytes > lacks(found))
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "%" PRIu64 " bytes more than the %" PRIu64 " it has would pass the %" PRIu64
            " that the member said",
            bytes, found->has_bytes, found->most_bytes);
    found->has_bytes += bytes;
    if (is_feasible_locked(admission, capacity_bytes))
        return MBR_OK;
    find_locked(admission, number)->has_bytes -= bytes; /* the check has moved it */
    *available_bytes = growable_locked(admission, number, capacity_bytes);
    return mbr_fail(error, MBR_BUSY,
        "with %" PRIu64 " bytes more, not all members could finish; others go first", bytes);
}

mbr_status mbr_member_grow(mbr_admission *admission, mbr_member grown, uint64_t bytes,
    mbr_refusal *refusal, mbr_error *error)
{
    uint64_t capacity_bytes = capacity(admission->holder);
    uint64_t available_bytes = 0;
    mbr_lock_take(&admission->lock);
    mbr_status status =
        grow_locked(admission, grown.number, bytes, capacity_bytes, &available_bytes, error);
    mbr_lock_drop(&admission->lock);
    if (status == MBR_BUSY)
        mbr_refuse_growth(admission->holder, bytes, available_bytes, refusal);
    return status;
}

bool mbr_member_shrink(mbr_admission *admission, mbr_member shrunk, uint64_t bytes)
{
    mbr_lock_take(&admission->lock);
    mbr_member_need *found = find_locked(admission, shrunk.number);
    if (found != NULL)
        found->has_bytes -= mbr_min(found->has_bytes, bytes);
    mbr_lock_drop(&admission->lock);
    return found != NULL;
}

bool mbr_member_leave(mbr_admission *admission, mbr_member left)
{
    mbr_lock_take(&admission->lock);
    mbr_member_need *found = find_locked(admission, left.number);
    if (found != NULL)
        take_out_locked(admission, found);
    mbr_lock_drop(&admission->lock);
    return found != NULL;
}

uint32_t mbr_admission_count(mbr_admission *admission)
{
    mbr_lock_take(&admission->lock);
    uint32_t count = admission->count;
    mbr_lock_drop(&admission->lock);
    return count;
}
