/* Responsible for what keeps a range from being given back: the graphs that may touch it and its
 * pins; and for the epoch by which views of it tell a remap. Gives nothing back itself. */
#include "host/backing/internal.h"

void mbr_range_note_graphs(mbr_range *range, uint64_t stream_id)
{
    mbr_graphs graphs = mbr_context_graphs_now(range->context, stream_id);
    if (graphs.first == 0)
        return;
    mbr_lock_take(&range->backing->lock);
    range->graphs = mbr_graphs_join(range->graphs, graphs);
    mbr_lock_drop(&range->backing->lock);
}

bool mbr_range_must_wait(mbr_range *range)
{
    mbr_lock_take(&range->backing->lock);
    mbr_graphs graphs = range->graphs;
    mbr_lock_drop(&range->backing->lock);
    return mbr_context_owns(range->context, graphs) || mbr_port_is_gated(range->backing->port);
}

static mbr_status check_life_locked(const mbr_range *range, uint64_t handle, mbr_error *error)
{
    if (!range->ended && (handle == 0 || range->handle == handle))
        return MBR_OK;
    return mbr_fail(error, MBR_STALE, "the range was released");
}

mbr_status mbr_range_pin_down(mbr_range *range, uint64_t handle, mbr_error *error)
{
    mbr_lock_take(&range->backing->lock);
    mbr_status status = check_life_locked(range, handle, error);
    range->pin_count += status == MBR_OK;
    mbr_lock_drop(&range->backing->lock);
    return status;
}

mbr_status mbr_range_let_up(mbr_range *range, uint64_t handle, mbr_error *error)
{
    mbr_lock_take(&range->backing->lock);
    mbr_status status = check_life_locked(range, handle, error);
    if (status == MBR_OK && range->pin_count == 0)
        status = mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the range is not pinned; every unpin needs a pin of its own");
    range->pin_count -= status == MBR_OK;
    mbr_lock_drop(&range->backing->lock);
    return status;
}

mbr_status mbr_range_check_pins_locked(const mbr_range *range, mbr_error *error)
{
    if (range->pin_count == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY,
        "%llu pins hold the range, so nothing of it is given back; unpin it first",
        (unsigned long long)range->pin_count);
}

mbr_status mbr_range_look(
    mbr_range *range, uint64_t handle, int32_t by, uint64_t *epoch, mbr_error *error)
{
    *epoch = 0;
    mbr_lock_take(&range->backing->lock);
    mbr_status status = check_life_locked(range, handle, error);
    if (status == MBR_OK)
        *epoch = range->remap_epoch;
#ifndef NDEBUG
    if (status == MBR_OK)
        range->view_count += (uint64_t)(int64_t)by;
#else
    (void)by;
#endif
    mbr_lock_drop(&range->backing->lock);
    return status;
}
