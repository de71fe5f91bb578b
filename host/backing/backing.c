/* One backing: its records' life, its figures. Decides nothing about extents. */
#include "host/backing/internal.h"

#include <utlist.h>

/* ---- What the cache gives when it is asked */
void mbr_backing_add_keeper(mbr_backing *backing, mbr_idle_keeper *keeper)
{
    mbr_lock_take(&backing->lock);
    DL_APPEND(backing->keepers, keeper);
    mbr_lock_drop(&backing->lock);
}

void mbr_backing_remove_keeper(mbr_backing *backing, mbr_idle_keeper *keeper)
{
    mbr_lock_take(&backing->lock);
    while (keeper->is_called)
        mbr_condition_wait(&backing->edited, &backing->lock, UINT64_MAX);
    DL_DELETE(backing->keepers, keeper);
    mbr_lock_drop(&backing->lock);
}

/* One keeper after another, each kept in the list while it is called. `bytes` 0: only asked. */
static uint64_t call_keepers(mbr_backing *backing, uint64_t bytes)
{
    uint64_t sum = 0;
    mbr_lock_take(&backing->lock);
    for (mbr_idle_keeper *keeper = backing->keepers; keeper != NULL; keeper = keeper->next) {
        if (keeper->is_called || (bytes != 0 && sum >= bytes))
            continue;
        keeper->is_called = true;
        mbr_lock_drop(&backing->lock);
        sum += bytes == 0 ? keeper->idle_bytes(keeper->context)
                          : keeper->shed(keeper->context, bytes - sum);
        mbr_lock_take(&backing->lock);
        keeper->is_called = false;
        mbr_condition_signal_all(&backing->edited);
    }
    mbr_lock_drop(&backing->lock);
    return sum;
}

uint64_t mbr_backing_idle_bytes(mbr_backing *backing)
{
    return call_keepers(backing, 0);
}

/* Extents first. Then what slabs keep idle: their spans come into the cache, or go at once. */
bool mbr_backing_give_beside(mbr_backing *backing, uint64_t bytes, const void *editor)
{
    uint64_t given = mbr_backing_evict_beside(backing, bytes, editor);
    if (given >= bytes)
        return true;
    uint64_t shed = call_keepers(backing, bytes - given);
    if (shed != 0)
        mbr_backing_evict_beside(backing, bytes - given, editor);
    return given + shed != 0;
}

static uint64_t cached_bytes(mbr_backing *backing)
{
    mbr_lock_take(&backing->lock);
    uint64_t bytes = mbr_backing_cached_bytes_locked(backing);
    mbr_lock_drop(&backing->lock);
    return bytes;
}

uint64_t mbr_backing_could_give(mbr_backing *backing)
{
    return mbr_port_is_gated(backing->port)
        ? 0
        : cached_bytes(backing) + mbr_backing_idle_bytes(backing);
}

static uint64_t could_give(void *context, const mbr_pressure *pressure)
{
    (void)pressure;
    return mbr_backing_could_give(context);
}

static void give(void *context, const mbr_pressure *pressure, uint64_t bytes)
{
    (void)pressure;
    mbr_backing_give_beside(context, bytes, NULL);
}

/* ---- Life */
mbr_status mbr_backing_create(
    const mbr_backing_options *options, mbr_backing **backing, mbr_error *error)
{
    *backing = NULL;
    mbr_backing *created = mbr_heap_allocate(options->heap, sizeof(*created));
    if (created == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a backing of %s", options->name);
    mbr_holder_options holder = {.name = options->name,
        .role = MBR_ROLE_CACHE,
        .allowance_bytes = MBR_NO_ALLOWANCE,
        .pressed = {could_give, give, created}};
    created->port = options->port;
    created->mechanism = mbr_port_mechanism(options->port);
    created->authority = options->authority;
    created->heap = options->heap;
    created->keep_bytes = options->keep_bytes;
    created->ahead_limit_bytes = options->ahead_bytes;
    created->busy_wait_ns =
        options->busy_wait_ns != 0 ? options->busy_wait_ns : MBR_BUSY_WAIT_DEFAULT_NS;
    mbr_lock_init(&created->lock, MBR_RANK_BACKING);
    mbr_condition_init(&created->edited);
    /* Last, because from then on it may be asked. */
    mbr_status status = mbr_holder_create(options->authority, &holder, &created->cache, error);
    if (status != MBR_OK) {
        mbr_condition_finish(&created->edited);
        mbr_lock_finish(&created->lock);
        mbr_heap_release(options->heap, created);
        return status;
    }
    *backing = created;
    return MBR_OK;
}

static mbr_status refuse_live(const mbr_backing *backing, mbr_error *error)
{
    if (backing->live_count + backing->prefix_count + backing->span_count == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_IN_USE,
        "%llu ranges, %llu prefixes and %llu spans are out; release them first",
        (unsigned long long)(backing->live_count - backing->span_count),
        (unsigned long long)backing->prefix_count, (unsigned long long)backing->span_count);
}

/* The coldest that nothing is stuck in: the addresses of the others stay. */
static mbr_range *first_whole_locked(const mbr_backing *backing)
{
    mbr_range *range = backing->cached;
    while (range != NULL && range->stuck_count != 0)
        range = range->next;
    return range;
}

bool mbr_backing_discard_cached(mbr_backing *backing)
{
    int editor;
    bool discarded = false;
    mbr_range *range;
    if (!mbr_port_try_enter_gate(backing->port))
        return false;
    mbr_lock_take(&backing->lock);
    while ((range = first_whole_locked(backing)) != NULL &&
        mbr_backing_device_locked(backing) != MBR_DEVICE_IS_LOST) {
        if (range->editor != NULL) { /* an eviction, which may take it out of the list */
            mbr_range_await_editor(backing, range);
            continue;
        }
        mbr_range_uncache(range);
        mbr_range_begin_edit(range, &editor);
        mbr_lock_drop(&backing->lock);
        mbr_range_discard(range);
        discarded = true;
        mbr_lock_take(&backing->lock);
    }
    mbr_lock_drop(&backing->lock);
    mbr_port_leave_gate(backing->port);
    return discarded;
}

/* An eviction ends at a place that gets stuck, which is not cached any more: the others go on. */
void mbr_backing_empty_cache(mbr_backing *backing)
{
    uint64_t before, left = UINT64_MAX;
    do {
        before = left;
        mbr_backing_evict(backing, UINT64_MAX);
        left = cached_bytes(backing);
    } while (left != 0 && left < before);
    mbr_backing_discard_cached(backing);
}

static void free_list(mbr_backing *backing, mbr_range *head)
{
    mbr_range *range, *next;
    DL_FOREACH_SAFE(head, range, next)
    {
        mbr_heap_release(backing->heap, range->slots);
        mbr_heap_release(backing->heap, range);
    }
}

uint64_t mbr_backing_ending_count(const mbr_backing *backing)
{
    return atomic_load_explicit(&backing->ending_count, memory_order_acquire);
}

mbr_status mbr_backing_destroy(mbr_backing *backing, mbr_error *error)
{
    mbr_lock_take(&backing->lock);
    mbr_status status = refuse_live(backing, error);
    mbr_lock_drop(&backing->lock);
    if (status != MBR_OK)
        return status;
    mbr_backing_retry_quarantined(backing);
    mbr_backing_empty_cache(backing);
    mbr_extent_retry_withheld(backing); /* what the emptying could not destroy */
    uint64_t withheld =
        backing->extent_count + backing->quarantined_count + (backing->retained_spans != NULL);
    if (withheld == 0) {
        status = mbr_holder_destroy(backing->cache, error);
    } else { /* leaked on purpose: a certain leak is better than an uncertain corruption (rule 33)
              */
        mbr_backing_give_up_fills(backing);     /* an EP is not kept for what is leaked */
        mbr_holder_stop_asking(backing->cache); /* its port and its users may end from now on */
        status = mbr_fail(error, MBR_RESIDUAL,
            "%llu extents or ranges cannot be given back safely and are leaked, still charged",
            (unsigned long long)withheld);
    }
    if (status == MBR_OK) {
        free_list(backing, backing->spare);
        mbr_lock_finish(&backing->lock);
        mbr_condition_finish(&backing->edited);
        mbr_heap_release(backing->heap, backing);
    }
    return status;
}

/* ---- Users and what stands behind them ------------------------------------------------------- */

mbr_device_state mbr_backing_device_locked(const mbr_backing *backing)
{
    if (backing->users == NULL || backing->mechanism->releasable_after_loss)
        return MBR_DEVICE_LIVES;
    mbr_device_state state = MBR_DEVICE_HAS_ENDED;
    const mbr_backing_user *user;
    DL_FOREACH(backing->users, user)
    {
        if (mbr_context_state(user->context) != MBR_CONTEXT_LOST)
            return MBR_DEVICE_LIVES;
        if (!mbr_context_has_ended(user->context))
            state = MBR_DEVICE_IS_LOST;
    }
    return state;
}

mbr_device_state mbr_backing_device(mbr_backing *backing)
{
    mbr_lock_take(&backing->lock);
    mbr_device_state state = mbr_backing_device_locked(backing);
    mbr_lock_drop(&backing->lock);
    return state;
}

void mbr_backing_add_user(mbr_backing *backing, mbr_backing_user *user)
{
    mbr_lock_take(&backing->lock);
    DL_APPEND(backing->users, user);
    mbr_lock_drop(&backing->lock);
}

void mbr_backing_remove_user(mbr_backing *backing, mbr_backing_user *user)
{
    mbr_lock_take(&backing->lock);
    bool lives = mbr_backing_device_locked(backing) == MBR_DEVICE_LIVES;
    DL_DELETE(backing->users, user);
    bool last = lives && mbr_backing_device_locked(backing) != MBR_DEVICE_LIVES;
    if (last)
        DL_APPEND(backing->users, user);
    mbr_lock_drop(&backing->lock);
    if (!last)
        return;
    mbr_backing_empty_cache(backing);
    mbr_lock_take(&backing->lock);
    DL_DELETE(backing->users, user);
    mbr_lock_drop(&backing->lock);
}

mbr_status mbr_backing_grant(mbr_backing *backing, mbr_holder *holder, uint64_t bytes,
    uint64_t *aside_bytes, mbr_refusal *refusal)
{
    uint64_t aside = mbr_take_aside(holder, bytes);
    if (bytes >= MBR_LARGE_GRANT_BYTES)
        mbr_authority_sample(backing->authority, false);
    mbr_status status = mbr_grant(holder, bytes - aside, refusal);
    if (status != MBR_OK &&
        (refusal->reason == MBR_REFUSED_MEASURED || refusal->reason == MBR_REFUSED_SHARED)) {
        mbr_authority_sample(backing->authority, false);
        status = mbr_grant(holder, bytes - aside, refusal);
    }
    if (status != MBR_OK)
        mbr_set_aside(holder, aside);
    *aside_bytes = status == MBR_OK ? aside : 0;
    return status;
}

mbr_status mbr_backing_refuse(mbr_status status, const mbr_refusal *refusal, mbr_error *error)
{
    unsigned long long asked = refusal->asked_bytes, available = refusal->available_bytes;
    if (refusal->reason == MBR_REFUSED_SHARED)
        return mbr_fail(error, status,
            "asked for %llu bytes, %llu are available: processes have leased %llu of the shared "
            "ledger's limit of %llu; wait for another process, or raise that limit",
            asked, available, (unsigned long long)refusal->shared_leased_bytes,
            (unsigned long long)refusal->shared_limit_bytes);
    return mbr_fail(error, status,
        "asked for %llu bytes, %llu are available under the limit of %llu; wait for a release, or "
        "raise the limit",
        asked, available, (unsigned long long)refusal->limit_bytes);
}

mbr_holder *mbr_backing_cache(mbr_backing *backing)
{
    return backing->cache;
}

mbr_port *mbr_backing_port(mbr_backing *backing)
{
    return backing->port;
}

mbr_authority *mbr_backing_authority(mbr_backing *backing)
{
    return backing->authority;
}

void mbr_backing_set_keep(mbr_backing *backing, uint64_t keep_bytes)
{
    atomic_store_explicit(&backing->keep_bytes, keep_bytes, memory_order_relaxed);
    mbr_backing_keep_watermark(backing);
}

void mbr_backing_count_idle(mbr_backing *backing, int64_t by_bytes)
{
    atomic_fetch_add_explicit(&backing->idle_bytes, (uint64_t)by_bytes, memory_order_relaxed);
}

void mbr_backing_read(mbr_backing *backing, mbr_backing_figures *figures)
{
    mbr_lock_take(&backing->lock);
    *figures = (mbr_backing_figures){
        .pooled_bytes = backing->pooled_bytes,
        .parked_bytes = backing->parked_bytes,
        .held_bytes = backing->held_bytes,
        .span_bytes = backing->span_bytes,
        .extent_count = backing->extent_count,
        .range_count = backing->live_count,
        .cached_range_count = backing->cached_count,
        .prefix_count = backing->prefix_count,
        .quarantined_count = backing->quarantined_count,
        .retained_bytes = backing->retained_bytes,
        .ahead_bytes = backing->ahead_bytes,
        .parked_alias_count = backing->parked_alias_count,
    };
    mbr_lock_drop(&backing->lock);
}
