/* Mapping ahead of need: a chore of the EP looks at how fast sequences grow and has the extents
 * that they will soon reach mapped, so that a growth finds them there. What one will have reached
 * before the chore has looked again some times it adopts on the sequence's behalf and offers it:
 * the growth takes it by an exchange. What is not taken goes back to the cache. Takes nothing from
 * anybody: what is refused is tried again later, what was pressed away is not fetched back. */
#include "host/bind/seams.h"
#include "host/holder/common/gone.h"
#include "host/holder/kv/internal.h"

#define PAUSE_NS UINT64_C(5000000) /* between two looks: some fit in MBR_KV_SOON_NS */
#define PAUSE_PER_SEQUENCE_NS 1000 /* one look costs about a twentieth of it a sequence */
#define REFUSED_PAUSE_NS UINT64_C(100000000)
#define DUE_LOOK_COUNT 3 /* what is reached before as many looks is adopted: some may be late */

MBR_GIVER_CALLS_DEFINE(mbr_kv, giver_calls);

/* ---- The chore ------------------------------------------------------------------------------- */

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

/* False: somebody is at it already, or it takes no offers. */
static bool begin_adopting_locked(mbr_kv *kv, mbr_sequence *sequence) MBR_REQUIRES(&kv->lock)
{
    (void)kv;
    bool may =
        !sequence->is_adopting && !sequence->is_growing && !sequence->ending && !sequence->is_lent;
    sequence->is_adopting = sequence->is_adopting || may;
    return may;
}

static void end_adopting_locked(mbr_kv *kv, mbr_sequence *sequence) MBR_REQUIRES(&kv->lock)
{
    sequence->is_adopting = false;
    mbr_condition_signal_all(&kv->copied);
}

/* Published last: whoever takes it finds the memory and the books as they are. The exchange tells
 * whether the last offer stands still, and is a part of this one. */
static void offer_locked(mbr_kv *kv, mbr_sequence *sequence, mbr_token_range tokens, uint64_t bytes)
    MBR_REQUIRES(&kv->lock)
{
    (void)kv;
    sequence->committed_bytes += bytes;
    sequence->adopted_tokens = tokens.end;
    bool stood =
        atomic_exchange_explicit(&sequence->offered_tokens, tokens.end, memory_order_acq_rel) != 0;
    if (!stood)
        sequence->offered_first = tokens.first;
    sequence->offered_bytes = bytes + (stood ? sequence->offered_bytes : 0);
}

/* One growth. False: nothing is due, or can be had without asking anybody. Drops the lock. */
static bool adopt_next_locked(mbr_kv *kv, mbr_sequence *sequence, uint64_t due)
    MBR_REQUIRES(&kv->lock)
{
    uint64_t capacity = atomic_load_explicit(&sequence->capacity_tokens, memory_order_relaxed);
    uint64_t have = mbr_max(capacity, sequence->adopted_tokens), bytes;
    if (have >= due || have <= sequence->pressed_tokens || !begin_adopting_locked(kv, sequence))
        return false;
    mbr_lock_drop(&kv->lock);
    uint64_t next = mbr_kv_capacity_of(kv, have + 1);
    bool adopted = mbr_sequence_adopt(sequence, have, next, &bytes);
    mbr_lock_take(&kv->lock);
    if (adopted)
        offer_locked(kv, sequence, (mbr_token_range){have, next}, bytes);
    end_adopting_locked(kv, sequence);
    return adopted;
}

static bool has_offer(const mbr_sequence *sequence)
{
    return atomic_load_explicit(&sequence->offered_tokens, memory_order_relaxed) != 0;
}

/* How much. Drops the lock; a sequence of the list stays there. */
static uint64_t take_back_locked(mbr_kv *kv, mbr_sequence *sequence) MBR_REQUIRES(&kv->lock)
{
    if (!has_offer(sequence) || !begin_adopting_locked(kv, sequence))
        return 0;
    uint64_t first = sequence->offered_first, bytes = 0;
    uint64_t end = atomic_exchange_explicit(&sequence->offered_tokens, 0, memory_order_acq_rel);
    mbr_lock_drop(&kv->lock);
    bool gave = end != 0 && mbr_sequence_disown(sequence, first, end, &bytes);
    mbr_lock_take(&kv->lock);
    if (gave) {
        sequence->committed_bytes -= bytes;
        sequence->adopted_tokens = first;
    } else if (end != 0) {
        atomic_store_explicit(&sequence->offered_tokens, end, memory_order_release);
    }
    end_adopting_locked(kv, sequence);
    return gave ? bytes : 0;
}

/* One that rests; it is asked again while it does. Drops the lock. */
static bool keeps_offer_locked(mbr_kv *kv, mbr_sequence *sequence) MBR_REQUIRES(&kv->lock)
{
    take_back_locked(kv, sequence);
    return has_offer(sequence);
}

/* Somebody is about to take it: it is not offered again before the sequence has passed it. */
static uint64_t press_locked(mbr_kv *kv, mbr_sequence *sequence) MBR_REQUIRES(&kv->lock)
{
    uint64_t bytes = take_back_locked(kv, sequence);
    if (bytes != 0)
        sequence->pressed_tokens = sequence->adopted_tokens;
    return bytes;
}

uint64_t mbr_kv_give(mbr_kv *kv, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    mbr_lock_take(&kv->lock);
    for (mbr_sequence *at = kv->sequences; at != NULL && bytes < wanted_bytes; at = at->next)
        bytes += press_locked(kv, at);
    mbr_lock_drop(&kv->lock);
    return bytes;
}

/* What of it could be taken back now: nothing of what a graph owns, and what ends, or has in part,
 * gives nothing but all of it. Drops the lock; a sequence of the list stays there. */
static uint64_t look_at_offer_locked(mbr_kv *kv, mbr_sequence *sequence) MBR_REQUIRES(&kv->lock)
{
    if (!has_offer(sequence) || !begin_adopting_locked(kv, sequence))
        return 0;
    bool owned = false;
    mbr_lock_drop(&kv->lock);
    for (uint32_t i = 0; i < kv->group_count && !owned; i++)
        owned = mbr_range_is_owned(kv->manager, sequence->groups[i].range, 0);
    mbr_lock_take(&kv->lock);
    end_adopting_locked(kv, sequence);
    return !owned && has_offer(sequence) ? sequence->offered_bytes : 0;
}

uint64_t mbr_kv_could_give(mbr_kv *kv, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    if (!kv->has_ahead || mbr_chore_is_capturing(&kv->ahead) ||
        mbr_manager_is_capturing(kv->manager, kv->binding)) /* nothing goes back meanwhile */
        return 0;
    mbr_lock_take(&kv->lock);
    for (mbr_sequence *at = kv->sequences; at != NULL && bytes < wanted_bytes; at = at->next)
        bytes += look_at_offer_locked(kv, at);
    mbr_lock_drop(&kv->lock);
    return mbr_min(bytes, wanted_bytes);
}

/* It neither ends nor leaves the list while a mark of it stands. Drops the lock. */
static mbr_status look_at_locked(
    mbr_kv *kv, mbr_sequence *sequence, uint64_t now_ns, uint64_t within_ns) MBR_REQUIRES(&kv->lock)
{
    uint64_t capacity = atomic_load_explicit(&sequence->capacity_tokens, memory_order_relaxed);
    uint64_t have = mbr_max(capacity, mbr_max(sequence->adopted_tokens, sequence->ahead_tokens));
    uint64_t soon = mbr_min(mbr_kv_pace_soon(&sequence->pace, now_ns), kv->max_tokens);
    uint64_t due = mbr_kv_pace_due(&sequence->pace, now_ns, within_ns);
    mbr_status status = MBR_OK;
    if (soon > have && !sequence->ending) {
        sequence->is_mapping_ahead = true;
        mbr_lock_drop(&kv->lock);
        status = map_until(sequence, have, soon);
        mbr_lock_take(&kv->lock);
        sequence->is_mapping_ahead = false;
        mbr_condition_signal_all(&kv->copied);
    }
    while (adopt_next_locked(kv, sequence, mbr_min(due, kv->max_tokens)))
        continue;
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

/* How long what is due may be away: some pauses, or, where somebody polls who looks less often, the
 * time that the last one took. */
static uint64_t due_ns(const mbr_kv *kv, uint64_t now_ns, uint64_t pause_ns)
{
    uint64_t since_ns = mbr_min(now_ns - kv->looked_ns, MBR_KV_SOON_NS);
    return mbr_max(DUE_LOOK_COUNT * pause_ns, since_ns + pause_ns);
}

static uint64_t look(mbr_chore *chore, uint64_t now_ns)
{
    mbr_kv *kv = (mbr_kv *)((char *)chore - offsetof(mbr_kv, ahead));
    bool rest = true, kept = false, refused = false;
    mbr_lock_take(&kv->lock);
    uint64_t pause_ns = PAUSE_NS + kv->sequence_count * PAUSE_PER_SEQUENCE_NS;
    uint64_t within_ns = due_ns(kv, now_ns, pause_ns);
    kv->looked_ns = now_ns;
    for (mbr_sequence *at = kv->sequences; at != NULL; at = at->next) {
        mbr_kv_pace_see(&at->pace, mbr_sequence_tokens(at), now_ns);
        bool rests = mbr_kv_pace_rests(&at->pace, now_ns);
        rest = rest && rests;
        if (rests)
            kept = keeps_offer_locked(kv, at) || kept;
        else if (!refused) /* one that somebody uses (MBR_BUSY) refuses nobody else */
            refused =
                MBR_STATUS_CLASS(look_at_locked(kv, at, now_ns, within_ns)) == MBR_CLASS_EXHAUSTED;
    }
    if (refused)
        pause_ns += REFUSED_PAUSE_NS;
    rest = rest && may_sleep_locked(kv);
    mbr_lock_drop(&kv->lock);
    if (rest)
        pause_ns = kept ? REFUSED_PAUSE_NS : UINT64_MAX;
    return pause_ns;
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
    /* Where the authority asks as many as it can, what is offered goes back after a rest alone. */
    if (kv->has_ahead)
        mbr_giver_join(kv->manager, kv->holder, &giver_calls, kv, &kv->giver, NULL);
    return status;
}

void mbr_kv_end_ahead(mbr_kv *kv)
{
    if (!kv->has_ahead)
        return;
    mbr_giver_leave(&kv->giver);
    mbr_chore_end(&kv->ahead);
    kv->has_ahead = false;
}
