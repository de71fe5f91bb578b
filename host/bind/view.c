/* What is read of ranges by handle or address, their pins and views. Keeps no list: a pin is a
 * count and a view an epoch of the range. Gives nothing back. */
#include "host/bind/manager.h"

/* The record stays until the walk ends; its range may be of its next life, which the handle tells.
 */
static const mbr_range_record *begin(mbr_manager *manager, mbr_range_handle handle, mbr_walk *walk,
    mbr_status *status, mbr_error *error)
{
    *walk = mbr_walks_begin(&manager->range_walks);
    const mbr_range_record *record = mbr_find_range(manager, handle.value, status, error);
    if (record == NULL)
        mbr_walks_end(&manager->range_walks, *walk);
    return record;
}

mbr_status mbr_range_pin(mbr_manager *manager, mbr_range_handle range, mbr_error *error)
{
    mbr_walk walk;
    mbr_status status;
    const mbr_range_record *found = begin(manager, range, &walk, &status, error);
    if (found == NULL)
        return status;
    status = mbr_range_check_keeper(found, NULL, error);
    if (status == MBR_OK)
        status = mbr_range_pin_down(found->range, range.value, error);
    mbr_walks_end(&manager->range_walks, walk);
    return status;
}

mbr_status mbr_range_unpin(mbr_manager *manager, mbr_range_handle range, mbr_error *error)
{
    mbr_walk walk;
    mbr_status status;
    const mbr_range_record *found = begin(manager, range, &walk, &status, error);
    if (found == NULL)
        return status;
    status = mbr_range_let_up(found->range, range.value, error);
    mbr_walks_end(&manager->range_walks, walk);
    return status;
}

static mbr_status look(
    mbr_manager *manager, mbr_range_handle range, int32_t by, uint64_t *epoch, mbr_error *error)
{
    mbr_walk walk;
    mbr_status status;
    *epoch = 0;
    const mbr_range_record *found = begin(manager, range, &walk, &status, error);
    if (found == NULL)
        return status;
    status = mbr_range_look(found->range, range.value, by, epoch, error);
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

/* ---- Figures --------------------------------------------------------------------------------- */

static bool read_record(const mbr_range_record *record, mbr_range_figures *figures)
{
    mbr_range_figures_read(record->range, figures);
    if (figures->range.value == record->handle)
        return true;
    *figures = (mbr_range_figures){MBR_SIZED(mbr_range_figures)}; /* of its next life */
    return false;
}

/* Ranges are few and this is no hot path: a walk finds the one around an address. */
static mbr_status read_around(
    mbr_manager *manager, uint64_t address, mbr_range_figures *figures, mbr_error *error)
{
    uint32_t cursor = 0;
    const mbr_range_record *record;
    while ((record = mbr_table_next(&manager->ranges, &cursor)) != NULL) {
        if (address >= record->address && address - record->address < record->bytes &&
            read_record(record, figures))
            return MBR_OK;
    }
    return mbr_fail(
        error, MBR_UNKNOWN_OBJECT, "no range holds the address %llx", (unsigned long long)address);
}

/* During a walk of the ranges. */
static mbr_status read_range(mbr_manager *manager, mbr_range_handle range, uint64_t address,
    mbr_range_figures *figures, mbr_error *error)
{
    mbr_status status;
    if (range.value == 0)
        return read_around(manager, address, figures, error);
    const mbr_range_record *record = mbr_find_range(manager, range.value, &status, error);
    if (record != NULL && !read_record(record, figures))
        return mbr_fail(error, MBR_STALE, "the range was released meanwhile");
    return status;
}

mbr_status mbr_range_read(mbr_manager *manager, mbr_range_handle range, uint64_t address,
    mbr_range_figures *figures, mbr_error *error)
{
    mbr_range_figures whole = {MBR_SIZED(mbr_range_figures)};
    mbr_growable_give(figures, &whole, sizeof(whole));
    mbr_walk walk = mbr_walks_begin(&manager->range_walks);
    mbr_status status = read_range(manager, range, address, &whole, error);
    mbr_walks_end(&manager->range_walks, walk);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return status;
}

mbr_status mbr_range_next_run(mbr_manager *manager, mbr_range_handle range, uint64_t from_bytes,
    mbr_range_run *run, mbr_error *error)
{
    mbr_walk walk;
    mbr_status status;
    mbr_range_run whole = {MBR_SIZED(mbr_range_run)};
    const mbr_range_record *found = begin(manager, range, &walk, &status, error);
    if (found != NULL) {
        status = mbr_range_find_run(found->range, range.value, from_bytes, &whole, error);
        mbr_walks_end(&manager->range_walks, walk);
    }
    mbr_growable_give(run, &whole, sizeof(whole));
    return status;
}
