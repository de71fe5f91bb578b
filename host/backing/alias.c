/* Parked aliases: read-only mappings of a prefix that a sharer left where they are when it ended,
 * for the next one at the same addresses. They own nothing and nobody reads them; the cache counts
 * them on the mapped axis. They go when the prefix does, under pressure, and where others want the
 * place. Maps nothing. */
#include "host/backing/internal.h"

#include <utlist.h>

#define PARKED_ALIAS_LIMIT_COUNT 8192 /* of one backing: mappings are scarce on some systems */

/* ---- Parking and adopting -------------------------------------------------------------------- */

/* Without a prefix nobody would take it again; a cache that keeps nothing keeps no mapping. */
static bool may_park(const mbr_range *range, const mbr_slot *slot)
{
    const mbr_backing *backing = range->backing;
    return slot->state == MBR_SLOT_ALIAS && slot->extent->keeps != NULL &&
        atomic_load_explicit(&slot->extent->state, memory_order_relaxed) !=
        MBR_EXTENT_QUARANTINED &&
        backing->parked_alias_count < PARKED_ALIAS_LIMIT_COUNT &&
        atomic_load_explicit(&backing->keep_bytes, memory_order_relaxed) != 0;
}

static void count_locked(mbr_range *range, mbr_slot *slot)
{
    mbr_backing *backing = range->backing;
    if (range->parked_alias_count++ == 0)
        DL_APPEND2(backing->aliased, range, alias_prev, alias_next);
    backing->parked_alias_count++;
    slot->extent->parked_alias_count++;
    slot->alias_range = range;
}

void mbr_alias_uncount_locked(mbr_range *range, mbr_slot *slot)
{
    mbr_backing *backing = range->backing;
    if (--range->parked_alias_count == 0)
        DL_DELETE2(backing->aliased, range, alias_prev, alias_next);
    backing->parked_alias_count--;
    slot->extent->parked_alias_count--;
    slot->alias_range = NULL;
}

/* Last in its extent's list: who uses the extent comes first, and pays. */
static void park_locked(mbr_range *range, uint64_t index)
{
    mbr_slot *slot = &range->slots[index];
    mbr_extent *extent = slot->extent;
    mbr_mapped_transfer(slot->holder, range->backing->cache, extent->bytes);
    slot->holder = NULL;
    DL_DELETE(extent->slots, slot);
    DL_APPEND(extent->slots, slot);
    mbr_range_set_slot(range, index, MBR_SLOT_PARKED_ALIAS);
    count_locked(range, slot);
}

void mbr_alias_park_all_locked(mbr_range *range)
{
    for (uint64_t i = 0; i < range->slot_count && range->alias_bytes != 0; i++) {
        if (may_park(range, &range->slots[i]))
            park_locked(range, i);
    }
}

void mbr_alias_adopt_locked(mbr_range *range, uint64_t index, mbr_holder *holder)
{
    mbr_slot *slot = &range->slots[index];
    mbr_extent *extent = slot->extent;
    mbr_range_set_slot(range, index, MBR_SLOT_ALIAS);
    DL_DELETE(extent->slots, slot);
    mbr_extent_queue_slot(extent, slot);
    slot->holder = holder;
    mbr_mapped_transfer(range->backing->cache, holder, extent->bytes);
}

/* ---- Giving up ------------------------------------------------------------------------------- */

void mbr_alias_strip(mbr_range *range, uint64_t first, uint64_t end)
{
    if (range->parked_alias_count == 0 || !mbr_port_try_enter_gate(range->backing->port))
        return;
    for (uint64_t i = first; i < end; i++) {
        if (range->slots[i].state == MBR_SLOT_PARKED_ALIAS)
            mbr_range_unmap_slot(range, i);
    }
    mbr_port_leave_gate(range->backing->port);
}

/* A parked alias of the extent in a range that nobody edits or waits for; NULL: none. Waits. */
static mbr_slot *find_of_locked(mbr_backing *backing, const mbr_extent *extent)
    MBR_REQUIRES(&backing->lock)
{
    for (;;) {
        mbr_slot *last = extent->slots == NULL ? NULL : extent->slots->prev;
        if (last == NULL || last->state != MBR_SLOT_PARKED_ALIAS)
            return NULL;
        if (last->alias_range->editor == NULL)
            return last;
        mbr_range_await_editor(backing, last->alias_range);
    }
}

/* What stays, as where nothing may be unmapped now, is an orphan soon: mbr_alias_catch_up. */
void mbr_alias_give_up_of(mbr_backing *backing, const mbr_extent *extent)
{
    int editor;
    if (!mbr_port_try_enter_gate(backing->port))
        return;
    mbr_lock_take(&backing->lock);
    mbr_slot *slot;
    while (mbr_backing_device_locked(backing) != MBR_DEVICE_IS_LOST &&
        (slot = find_of_locked(backing, extent)) != NULL) {
        mbr_range *range = slot->alias_range;
        mbr_range_begin_edit(range, &editor);
        mbr_lock_drop(&backing->lock);
        mbr_range_unmap_slot(range, (uint64_t)(slot - range->slots));
        mbr_lock_take(&backing->lock);
        mbr_range_end_edit(range);
    }
    mbr_lock_drop(&backing->lock);
    mbr_port_leave_gate(backing->port);
}

static bool find_in(const mbr_range *range, bool orphan, uint64_t *index)
{
    for (*index = 0; *index < range->slot_count; ++*index) {
        const mbr_slot *slot = &range->slots[*index];
        if (slot->state == MBR_SLOT_PARKED_ALIAS && (!orphan || slot->extent->keeps == NULL))
            return true;
    }
    return false;
}

bool mbr_alias_give_up_one(mbr_backing *backing, bool orphan)
{
    int editor;
    uint64_t index = 0;
    bool skipped = false; /* one that somebody edits: it is looked at again */
    mbr_lock_take(&backing->lock);
    mbr_range *range = backing->aliased;
    while (range != NULL && (range->editor != NULL || !find_in(range, orphan, &index))) {
        skipped |= range->editor != NULL;
        range = range->alias_next;
    }
    if (range != NULL)
        mbr_range_begin_edit(range, &editor);
    if (orphan)
        atomic_store_explicit(
            &backing->has_orphans, range != NULL || skipped, memory_order_relaxed);
    mbr_lock_drop(&backing->lock);
    if (range == NULL)
        return false;
    mbr_range_unmap_slot(range, index);
    mbr_lock_take(&backing->lock);
    mbr_range_end_edit(range);
    mbr_lock_drop(&backing->lock);
    return true; /* also where it is stuck: it is no parked alias any more */
}

void mbr_alias_catch_up(mbr_backing *backing)
{
    if (!atomic_load_explicit(&backing->has_orphans, memory_order_relaxed) ||
        mbr_backing_device(backing) == MBR_DEVICE_IS_LOST ||
        !mbr_port_try_enter_gate(backing->port))
        return;
    while (mbr_alias_give_up_one(backing, true))
        ;
    mbr_port_leave_gate(backing->port);
}
