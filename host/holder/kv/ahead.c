/* Mapping ahead of need: a chore of the EP looks at how fast sequences grow and has the extents
 * that they will soon reach mapped, so that a growth finds them there. Takes nothing from anybody:
 * what is refused is tried again later, what was pressed away is not fetched back. */
#include "host/bind/seams.h"
#include "host/holder/kv/internal.h"

#define PAUSE_NS UINT64_C(5000000) /* between two looks: some fit in MBR_KV_SOON_NS */
#define PAUSE_PER_SEQUENCE_NS 1000 /* one look costs about a twentieth of it a sequence */
#define REFUSED_PAUSE_NS UINT64_C(100000000)

/* ---- The chore
 * -------------------------------------------------------------------------------------- */

/* From `have` on, growth by growth, until what is soon stands there. Where it ends is noted. */
static mbr_status map_until(mbr_sequence *sequence, uint64_t have, uint64_t soon)
{
    mbr_kv *kv = sequence->kv;
    mbr_status status = MBR_OK;
    while (have < soon && status == MBR_OK) {
        uint64_t next = mbr_kv_capacity_of(kv, have + 1);
        status = mbr_sequence_map_ahead(sequence, have, next);
        if (status == MBR_OK)
            have = next;
    }
    mbr_lock_take(&kv->lock);
    sequence->ahead_tokens = have;
    mbr_lock_drop(&kv->lock);
    return status;
}

/* It neither ends nor leaves the list while its mark stands. Drops the lock. */
static mbr_status look_at_locked(mbr_kv *kv, mbr_sequence *sequence, uint64_t now_ns)
    MBR_REQUIRES(&kv->lock)
{
    uint64_t capacity = atomic_load_explicit(&sequence->capacity_tokens, memory_order_relaxed);
    uint64_t have = mbr_max(capacity, sequence->ahead_tokens);
    uint64_t soon = mbr_min(mbr_kv_pace_soon(&sequence->pace, now_ns), kv->max_tokens);
    if (sequence->ending || soon <= have)
        return MBR_OK;
    sequence->is_mapping_ahead = true;
    mbr_lock_drop(&kv->lock);
    mbr_status status = map_until(sequence, have, soon);
    mbr_lock_take(&kv->lock);
    sequence->is_mapping_ahead = false;
    mbr_condition_signal_all(&kv->copied);
    return status;
}

/* Whoever grows from here on wakes it; false: one has grown since it was looked at. */
static bool may_sleep_locked(mbr_kv *kv) MBR_REQUIRES(&kv->lock)
{
    atomic_exchange(&kv->ahead_sleeps, true);
    const mbr_sequence *at = kv->sequences;
    while (at != NULL && mbr_sequence_tokens(at) == at->pace.tokens)
        at = at->next;
    if (at != NULL)
        atomic_exchange(&kv->ahead_sleeps, false);
    return at == NULL;
}

static uint64_t look(mbr_chore *chore, uint64_t now_ns)
{
    mbr_kv *kv = (mbr_kv *)((char *)chore - offsetof(mbr_kv, ahead));
    bool rest = true, refused = false;
    mbr_lock_take(&kv->lock);
    for (mbr_sequence *at = kv->sequences; at != NULL; at = at->next) {
        mbr_kv_pace_see(&at->pace, mbr_sequence_tokens(at), now_ns);
        rest = rest && mbr_kv_pace_rests(&at->pace, now_ns);
        if (!refused) /* one that somebody uses (MBR_BUSY) refuses nobody else */
            refused = MBR_STATUS_CLASS(look_at_locked(kv, at, now_ns)) == MBR_CLASS_EXHAUSTED;
    }
    uint64_t pause_ns = PAUSE_NS + kv->sequence_count * PAUSE_PER_SEQUENCE_NS;
    if (refused)
        pause_ns += REFUSED_PAUSE_NS;
    rest = rest && may_sleep_locked(kv);
    mbr_lock_drop(&kv->lock);
    return rest ? UINT64_MAX : pause_ns;
}

/* Behind the growth. Both sides exchange, and none only loads or stores: either it goes to sleep
 * first, which is seen here, or it sees the growth. */
void mbr_kv_wake_ahead(mbr_kv *kv)
{
    if (kv->has_ahead && atomic_exchange(&kv->ahead_sleeps, false))
        mbr_chore_wake(&kv->ahead);
}

mbr_status mbr_kv_begin_ahead(mbr_kv *kv, mbr_error *error)
{
    mbr_binding_figures binding = {MBR_SIZED(mbr_binding_figures)};
    mbr_status status = mbr_manager_read_binding(kv->manager, kv->binding, &binding, error);
    if (status != MBR_OK || binding.ahead_bytes == 0 || kv->mode != MBR_KV_GROWING)
        return status;
    kv->ahead.run = look;
    kv->ahead_sleeps = true;
    status = mbr_manager_begin_chore(kv->manager, kv->binding, &kv->ahead, error);
    kv->has_ahead = status == MBR_OK;
    return status;
}

void mbr_kv_end_ahead(mbr_kv *kv)
{
    if (kv->has_ahead)
        mbr_chore_end(&kv->ahead);
    kv->has_ahead = false;
}
