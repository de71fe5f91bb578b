/* Responsible for a limit that changes in two phases: claims pause at the new one, holders are
 * asked, then it stands or the old one comes back. Never takes a byte from a holder by itself. */
#include "governor/internal.h"

#include "abi/base/checked.h"

/* Above the set limit: what the measured one or a lease forbids is not this change's matter. */
static uint64_t over_locked(const mbr_authority *authority) MBR_REQUIRES(&authority->lock)
{
    uint64_t claimed = mbr_claimed_locked(authority);
    return claimed - mbr_min(claimed, authority->set_limit_bytes);
}

static void fill_locked(mbr_authority *authority, uint32_t kind, mbr_limit_answer *answer)
    MBR_REQUIRES(&authority->lock)
{
    answer->kind = kind;
    answer->limit_bytes = authority->set_limit_bytes;
    answer->revision = authority->set_revision;
    answer->over_bytes = over_locked(authority);
}

/* True: the change is this caller's to finish, and the new limit is in force. */
static bool begin(mbr_authority *authority, const mbr_limit_change *change, uint64_t *old_bytes,
    mbr_limit_answer *answer)
{
    bool any = change->expected_revision == MBR_ANY_REVISION;
    mbr_lock_take(&authority->lock);
    bool stale = !any && change->expected_revision != authority->set_revision;
    bool begun = !stale && !authority->limit_is_changing;
    *old_bytes = authority->set_limit_bytes;
    if (begun) {
        authority->limit_is_changing = true;
        mbr_limit_set_locked(authority, change->limit_bytes);
    }
    fill_locked(authority, stale ? MBR_LIMIT_STALE : MBR_LIMIT_CONFLICT, answer);
    mbr_lock_drop(&authority->lock);
    return begun;
}

/* What is above the limit, asked of the holders, again while that brings something: a holder that
 * moved its bytes to the payer of a cache freed none, and the cache is asked in the next round. */
static uint64_t ask_for_overage(mbr_authority *authority, uint64_t over_bytes)
{
    uint64_t left = over_bytes;
    bool gave = !mbr_is_pressing();
    for (int round = 0; left != 0 && gave && round < MBR_PRESS_ROUND_LIMIT_COUNT; round++) {
        mbr_pressure pressure = {.struct_size = sizeof(pressure),
            .tier = authority->tier,
            .role = MBR_ROLE_COUNT,
            .priority = MBR_PRIORITY_COUNT - 1,
            .bytes = left,
            .deadline_ns = MBR_NO_DEADLINE,
            .generation = atomic_load_explicit(&authority->generation, memory_order_acquire)};
        gave = mbr_press(authority, &pressure, false) != 0;
        mbr_lock_take(&authority->lock);
        mbr_credit_collect_locked(authority);
        left = over_locked(authority);
        mbr_lock_drop(&authority->lock);
    }
    return over_bytes - mbr_min(over_bytes, left);
}

static void finish(mbr_authority *authority, const mbr_limit_change *change, uint64_t old_bytes,
    uint64_t begun_revision, mbr_limit_answer *answer)
{
    mbr_lock_take(&authority->lock);
    authority->limit_is_changing = false;
    uint64_t over = over_locked(authority);
    bool overtaken = authority->set_revision != begun_revision;
    bool restores = !overtaken && over != 0 && (change->flags & MBR_LIMIT_RESTORE) != 0;
    if (restores)
        mbr_limit_set_locked(authority, old_bytes);
    uint32_t kind = over == 0 ? MBR_LIMIT_APPLIED : MBR_LIMIT_DEFERRED;
    if (overtaken)
        kind = MBR_LIMIT_STALE;
    else if (restores)
        kind = MBR_LIMIT_CONFLICT;
    fill_locked(authority, kind, answer);
    if (restores)
        answer->over_bytes = over;
    mbr_lock_drop(&authority->lock);
}

mbr_status mbr_authority_change_limit(mbr_authority *authority, const mbr_limit_change *change,
    mbr_limit_answer *answer, mbr_error *error)
{
    mbr_limit_answer full = {0};
    mbr_growable_give(answer, NULL, sizeof(*answer));
    mbr_lock_assert_none_held();
    mbr_limit_change own;
    mbr_status status = MBR_TAKE(&own, mbr_limit_change, expected_revision, change, error);
    if (status == MBR_OK)
        status = mbr_flags_check(own.flags, MBR_LIMIT_RESTORE, "mbr_limit_change", error);
    if (status == MBR_OK)
        status = mbr_limit_check(authority, own.limit_bytes, error);
    if (status != MBR_OK)
        return status;
    uint64_t old_bytes;
    if (begin(authority, &own, &old_bytes, &full)) {
        uint64_t begun_revision = full.revision;
        full.given_bytes = ask_for_overage(authority, full.over_bytes);
        finish(authority, &own, old_bytes, begun_revision, &full);
        mbr_authority_deliver(authority);
    }
    mbr_growable_give(answer, &full, sizeof(full));
    return MBR_OK;
}
