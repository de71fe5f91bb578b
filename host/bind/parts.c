/* Calls inside ranges: a call counts itself on the ranges and the prefix that it names, and the end
 * of one waits until nobody is inside: what hangs on it, from its binding to its addresses, stays
 * meanwhile. The one exception is growth within what is committed (range.c), which may not cost a
 * lock. Waits for nobody. */
#include "host/bind/parts.h"

mbr_range_record *mbr_enter_range_locked(mbr_manager *manager, mbr_range_handle handle,
    const void *keeper, mbr_status *status, mbr_error *error)
{
    mbr_range_record *record = mbr_find_range(manager, handle.value, status, error);
    if (record != NULL && record->closing)
        *status = mbr_fail(error, MBR_STALE, "the range is being released");
    else if (record != NULL)
        *status = mbr_range_check_keeper(record, keeper, error);
    if (*status != MBR_OK)
        return NULL;
    record->call_count++;
    return record;
}

void mbr_leave_range_locked(mbr_manager *manager, mbr_range_handle handle)
{
    mbr_range_record *record = mbr_table_find(&manager->ranges, handle.value);
    MBR_CHECK(record != NULL); /* it waits for this */
    mbr_leave_call_locked(manager, &record->call_count);
}

void mbr_parts_release(mbr_manager *manager, mbr_part_list *list, uint32_t count)
{
    mbr_lock_take(&manager->lock);
    for (uint32_t i = 0; i < count; i++)
        mbr_leave_range_locked(manager, (mbr_range_handle){list->parts[i].handle});
    mbr_lock_drop(&manager->lock);
    if (list->parts != list->inline_parts)
        mbr_heap_release(&manager->heap, list->parts);
}

static mbr_status fill_part_locked(mbr_manager *manager, mbr_part_list *list, uint32_t index,
    const mbr_piece *piece, mbr_error *error) MBR_REQUIRES(&manager->lock)
{
    mbr_status status;
    mbr_range_record *record =
        mbr_enter_range_locked(manager, piece->range, list->keeper, &status, error);
    if (record == NULL)
        return status;
    if (index == 0) {
        list->backing = record->binding->backing->backing;
        list->context = record->binding->ep->context;
        list->binding = record->binding;
    }
    list->parts[index] = (mbr_range_part){.range = record->range,
        .handle = piece->range.value,
        .offset_bytes = piece->offset_bytes,
        .bytes = piece->bytes};
    return MBR_OK;
}

mbr_status mbr_parts_make(mbr_manager *manager, const mbr_piece *pieces, uint32_t count,
    const void *keeper, mbr_part_list *list, mbr_error *error)
{
    list->parts = list->inline_parts;
    list->keeper = keeper;
    if (count == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the call names no piece");
    if (count > MBR_PART_INLINE_COUNT)
        list->parts = mbr_heap_allocate(&manager->heap, count * sizeof(*list->parts));
    if (list->parts == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for %u pieces", count);
    mbr_status status = MBR_OK;
    uint32_t entered = 0;
    mbr_lock_take(&manager->lock);
    for (; entered < count && status == MBR_OK; entered += status == MBR_OK)
        status = fill_part_locked(manager, list, entered, &pieces[entered], error);
    mbr_lock_drop(&manager->lock);
    if (status != MBR_OK)
        mbr_parts_release(manager, list, entered);
    return status;
}
