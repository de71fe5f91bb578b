/* Pins and views of ranges by handle. Keeps no list: a pin is a count and a view an epoch of the
 * range. */
#include "host/bind/manager.h"

/* The record stays until the walk ends; its range may be of its next life, which the handle tells.
 */
static mbr_range *begin(mbr_manager *manager, mbr_range_handle handle, mbr_walk *walk,
    mbr_status *status, mbr_error *error)
{
    *walk = mbr_walks_begin(&manager->range_walks);
    const mbr_range_record *record = mbr_find_range(manager, handle.value, status, error);
    if (record != NULL)
        return record->range;
    mbr_walks_end(&manager->range_walks, *walk);
    return NULL;
}

mbr_status mbr_range_pin(mbr_manager *manager, mbr_range_handle range, mbr_error *error)
{
    mbr_walk walk;
    mbr_status status;
    mbr_range *found = begin(manager, range, &walk, &status, error);
    if (found == NULL)
        return status;
    status = mbr_range_pin_down(found, range.value, error);
    mbr_walks_end(&manager->range_walks, walk);
    return status;
}

mbr_status mbr_range_unpin(mbr_manager *manager, mbr_range_handle range, mbr_error *error)
{
    mbr_walk walk;
    mbr_status status;
    mbr_range *found = begin(manager, range, &walk, &status, error);
    if (found == NULL)
        return status;
    status = mbr_range_let_up(found, range.value, error);
    mbr_walks_end(&manager->range_walks, walk);
    return status;
}

static mbr_status look(
    mbr_manager *manager, mbr_range_handle range, int32_t by, uint64_t *epoch, mbr_error *error)
{
    mbr_walk walk;
    mbr_status status;
    *epoch = 0;
    mbr_range *found = begin(manager, range, &walk, &status, error);
    if (found == NULL)
        return status;
    status = mbr_range_look(found, range.value, by, epoch, error);
    mbr_walks_end(&manager->range_walks, walk);
    return status;
}

mbr_status mbr_range_view_take(
    mbr_manager *manager, mbr_range_handle range, mbr_range_view *view, mbr_error *error)
{
    *view = (mbr_range_view){0};
    uint64_t epoch;
    mbr_status status = look(manager, range, 1, &epoch, error);
    if (status == MBR_OK)
        *view = (mbr_range_view){range, epoch};
    return status;
}

mbr_status mbr_range_view_check(mbr_manager *manager, mbr_range_view view, mbr_error *error)
{
    uint64_t epoch;
    mbr_status status = look(manager, view.range, 0, &epoch, error);
    if (status != MBR_OK || epoch == view.generation)
        return status;
    return mbr_fail(error, MBR_STALE,
        "the view is of generation %llu, the range of %llu: parts of it were given back since",
        (unsigned long long)view.generation, (unsigned long long)epoch);
}

mbr_status mbr_range_view_drop(mbr_manager *manager, mbr_range_view view, mbr_error *error)
{
    uint64_t epoch;
    return look(manager, view.range, -1, &epoch, error);
}
