/* What stands in a range, told by runs of extents of one kind. Changes nothing. */
#include "host/backing/internal.h"

#define RUN_NONE UINT32_MAX /* an empty or parked place */

static uint32_t kind_of(const mbr_slot *slot, uint32_t owned)
{
    bool has_others =
        slot->extent != NULL && (slot->extent->slot_count > 1 || slot->extent->keeps != NULL);
    uint32_t common = has_others ? MBR_RUN_SHARED : 0;
    if (slot->is_sealed)
        common |= MBR_RUN_PROTECTED;
    switch (slot->state) {
    case MBR_SLOT_COMMITTED:
        return common | owned;
    case MBR_SLOT_ALIAS:
        return common | owned | MBR_RUN_ALIAS;
    case MBR_SLOT_LEAVING:
        return common | owned | MBR_RUN_LEAVING;
    case MBR_SLOT_STUCK:
        return common | owned | MBR_RUN_STUCK;
    case MBR_SLOT_EMPTY:
    case MBR_SLOT_PARKED:
    case MBR_SLOT_PARKED_ALIAS:
        break;
    }
    return RUN_NONE;
}

static void find_locked(const mbr_range *range, uint64_t from_bytes, uint32_t owned,
    mbr_range_run *run) MBR_REQUIRES(&range->backing->lock)
{
    uint64_t first, end;
    mbr_range_slots(range, from_bytes, range->bytes - from_bytes, &first, &end);
    while (first < end && kind_of(&range->slots[first], owned) == RUN_NONE)
        first++;
    if (first == end)
        return;
    run->flags = kind_of(&range->slots[first], owned);
    run->offset_bytes = mbr_slot_offset(range, first);
    for (; first < end && kind_of(&range->slots[first], owned) == run->flags; first++)
        run->bytes += mbr_slot_bytes(range, first);
}

/* The graphs' context stays while the caller looks at the range. NULL: the range has ended. */
static mbr_context *context_of(mbr_range *range, uint64_t handle, mbr_graphs *graphs)
{
    mbr_lock_take(&range->backing->lock);
    bool lives = !range->ended && range->handle == handle;
    mbr_context *context = lives ? range->context : NULL;
    *graphs = range->graphs;
    mbr_lock_drop(&range->backing->lock);
    return context;
}

mbr_status mbr_range_find_run(
    mbr_range *range, uint64_t handle, uint64_t from_bytes, mbr_range_run *run, mbr_error *error)
{
    mbr_graphs graphs;
    mbr_status status = MBR_OK;
    mbr_context *context = context_of(range, handle, &graphs);
    bool owned = context != NULL && mbr_context_owns(context, graphs);
    mbr_lock_take(&range->backing->lock);
    if (context == NULL || range->ended || range->handle != handle)
        status = mbr_fail(error, MBR_STALE, "the range was released");
    else if (from_bytes > range->bytes)
        status = mbr_fail(error, MBR_OUT_OF_RANGE, "byte %llu is past the range's %llu",
            (unsigned long long)from_bytes, (unsigned long long)range->bytes);
    else
        find_locked(range, from_bytes, owned ? MBR_RUN_OWNED : 0, run);
    mbr_lock_drop(&range->backing->lock);
    return status;
}
