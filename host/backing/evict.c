/* Gives cached extents back to the system: first what stands ahead of need, then from the pool,
 * which costs one call, then from parked ranges, coldest first. Picks only what the cache pays for.
 */
#include "host/backing/internal.h"

#include <utlist.h>

#define SEARCH_RANGE_COUNT 64 /* cached ranges looked at for one size */

/* What stands ahead is nobody's to move elsewhere: it would be missed at once. */
static bool last_parked(const mbr_range *range, uint64_t bytes, uint64_t *index)
{
    for (uint64_t i = range->slot_count; i-- > 0;) {
        const mbr_slot *slot = &range->slots[i];
        if (slot->state == MBR_SLOT_PARKED && !slot->is_ahead &&
            (bytes == 0 || slot->extent->bytes == bytes)) {
            *index = i;
            return true;
        }
    }
    return false;
}

static mbr_range *search(mbr_range *head, uint64_t bytes, const void *editor, uint64_t *index)
{
    uint32_t looked = 0;
    for (mbr_range *range = head; range != NULL && looked < SEARCH_RANGE_COUNT;
         range = range->next) {
        bool free_to_take = range->editor == NULL || (range->editor == editor && !range->growing);
        if (!free_to_take || range->parked_bytes == range->ahead_bytes)
            continue;
        looked++;
        if (last_parked(range, bytes, index))
            return range;
    }
    return NULL;
}

mbr_range *mbr_find_parked(
    mbr_backing *backing, uint64_t bytes, const void *editor, uint64_t *index)
{
    if (backing->parked_bytes == backing->ahead_bytes)
        return NULL;
    mbr_range *found = search(backing->cached, bytes, editor, index);
    if (found == NULL)
        found = search(backing->live, bytes, editor, index);
    return found != NULL ? found : search(backing->retained, bytes, editor, index);
}

uint64_t mbr_backing_cached_bytes_locked(const mbr_backing *backing)
{
    return backing->pooled_bytes + backing->parked_bytes;
}

/* Unmaps one parked extent, which then is pooled. False: nothing is parked, or it is stuck. */
static bool unpark_one(mbr_backing *backing, const void *editor)
{
    int own_editor;
    uint64_t index;
    mbr_lock_take(&backing->lock);
    mbr_range *range = mbr_find_parked(backing, 0, editor, &index);
    bool marked_before = range != NULL && range->editor != NULL;
    if (range != NULL && !marked_before)
        mbr_range_begin_edit(range, &own_editor);
    mbr_lock_drop(&backing->lock);
    if (range == NULL)
        return false;
    bool unmapped = mbr_range_unmap_slot(range, index);
    if (marked_before)
        return unmapped;
    mbr_lock_take(&backing->lock);
    mbr_range_end_edit(range);
    bool empty = range->cached &&
        range->parked_bytes + range->stuck_count + range->parked_alias_count == 0 &&
        backing->cached_count > MBR_CACHED_RANGE_LIMIT_COUNT / 2;
    if (empty)
        mbr_range_uncache(range);
    mbr_lock_drop(&backing->lock);
    if (empty)
        mbr_range_dissolve(range);
    return unmapped;
}

/* The furthest of what stands longest, in a range that nobody edits. */
static mbr_range *find_ahead_locked(const mbr_backing *backing, uint64_t *index)
{
    mbr_range *range = backing->ahead;
    while (range != NULL && range->editor != NULL)
        range = range->ahead_next;
    if (range == NULL)
        return NULL;
    for (*index = range->slot_count - 1; !range->slots[*index].is_ahead;)
        --*index;
    return range;
}

/* Unmaps one extent that stands ahead and gives it, or one of its size that was pooled meanwhile,
 * back. False: there is none. */
static bool give_one_ahead(mbr_backing *backing, uint64_t *released)
{
    int editor;
    uint64_t index;
    mbr_lock_take(&backing->lock);
    mbr_range *range = find_ahead_locked(backing, &index);
    if (range != NULL)
        mbr_range_begin_edit(range, &editor);
    mbr_lock_drop(&backing->lock);
    if (range == NULL)
        return false;
    uint64_t bytes = range->slots[index].extent->bytes;
    uint32_t group = range->slots[index].extent->isolation_group;
    bool unmapped = mbr_range_unmap_slot(range, index);
    mbr_lock_take(&backing->lock);
    mbr_range_end_edit(range);
    mbr_extent *extent = unmapped ? mbr_extent_pool_take(backing, bytes, group) : NULL;
    mbr_lock_drop(&backing->lock);
    if (extent != NULL)
        *released += mbr_extent_destroy(backing, extent);
    return true; /* also where it is stuck: it does not stand ahead any more */
}

typedef enum mbr_evicted { MBR_EVICT_ALL, MBR_EVICT_KEPT } mbr_evicted;

/* It holds bytes only where nobody else has the extent any more, so it comes last. */
static bool give_up_alias(mbr_backing *backing, mbr_evicted which)
{
    return which == MBR_EVICT_ALL && mbr_alias_give_up_one(backing, false);
}

static uint64_t evict(mbr_backing *backing, uint64_t bytes, const void *editor, mbr_evicted which)
{
    uint64_t released = 0;
    if (!mbr_port_try_enter_gate(backing->port)) /* it is made up for by mbr_backing_catch_up */
        return 0;
    bool ahead = which == MBR_EVICT_ALL;
    while (released < bytes) {
        mbr_lock_take(&backing->lock);
        bool lost = mbr_backing_device_locked(backing) == MBR_DEVICE_IS_LOST;
        mbr_extent *extent = lost || ahead ? NULL : mbr_extent_pool_take_coldest(backing);
        mbr_lock_drop(&backing->lock);
        if (lost) /* I12 */
            break;
        if (ahead)
            ahead = give_one_ahead(backing, &released);
        else if (extent != NULL)
            released += mbr_extent_destroy(backing, extent);
        else if (!unpark_one(backing, editor) && !give_up_alias(backing, which))
            break;
    }
    mbr_port_leave_gate(backing->port);
    mbr_backing_look_again(backing);
    return released;
}

uint64_t mbr_backing_evict_beside(mbr_backing *backing, uint64_t bytes, const void *editor)
{
    return evict(backing, bytes, editor, MBR_EVICT_ALL);
}

uint64_t mbr_backing_evict(mbr_backing *backing, uint64_t bytes)
{
    return mbr_backing_evict_beside(backing, bytes, NULL);
}

static uint64_t trim(mbr_backing *backing, uint64_t keep_bytes, mbr_evicted which)
{
    mbr_lock_take(&backing->lock);
    uint64_t cached = mbr_backing_cached_bytes_locked(backing);
    if (which == MBR_EVICT_KEPT) /* what stands ahead has a bound of its own */
        cached -= backing->ahead_bytes;
    mbr_lock_drop(&backing->lock);
    return cached <= keep_bytes ? 0 : evict(backing, cached - keep_bytes, NULL, which);
}

uint64_t mbr_backing_trim(mbr_backing *backing, uint64_t keep_bytes)
{
    uint64_t released = mbr_backing_retry_quarantined(backing);
    mbr_alias_catch_up(backing);
    mbr_backing_look_again(backing); /* others did not look into what was edited */
    if (keep_bytes == 0)
        released += evict(backing, UINT64_MAX, NULL, MBR_EVICT_ALL);
    return released + trim(backing, keep_bytes, MBR_EVICT_ALL);
}

void mbr_backing_catch_up(mbr_backing *backing)
{
    mbr_backing_retry_quarantined(backing);
    mbr_alias_catch_up(backing);
    mbr_backing_look_again(backing); /* others did not look into what was edited */
    mbr_backing_keep_watermark(backing);
}

void mbr_backing_keep_watermark(mbr_backing *backing)
{
    uint64_t keep = atomic_load_explicit(&backing->keep_bytes, memory_order_relaxed);
    uint64_t idle = atomic_load_explicit(&backing->idle_bytes, memory_order_relaxed);
    trim(backing, keep - mbr_min(keep, idle), MBR_EVICT_KEPT);
}
