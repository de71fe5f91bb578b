/* The client's call that protects a prefix in place: waits for those who may still write, then lets
 * the backing close the places. Sets no access itself. */
#include "host/bind/manager.h"
#include "membrane/ep.h"

/* Counts the call on the prefix, whose end waits for it. NULL: *status says why. */
static mbr_prefix_record *enter(
    mbr_manager *manager, mbr_prefix_handle handle, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_prefix_record *record = mbr_find_prefix(manager, handle.value, status, error);
    if (record != NULL)
        record->call_count++;
    mbr_lock_drop(&manager->lock);
    return record;
}

static void leave(mbr_manager *manager, mbr_prefix_record *record)
{
    mbr_lock_take(&manager->lock);
    mbr_leave_call_locked(manager, &record->call_count);
    mbr_lock_drop(&manager->lock);
}

/* Access that is narrowed under a kernel that still writes would end it, and its context. */
static mbr_status await_writers(
    mbr_manager *manager, const mbr_prefix_protect_request *request, mbr_error *error)
{
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < request->stream_count && status == MBR_OK; i++)
        status = mbr_ep_synchronize(manager, request->streams[i], request->deadline_ns, error);
    return status;
}

mbr_status mbr_prefix_protect(
    mbr_manager *manager, const mbr_prefix_protect_request *request, mbr_error *error)
{
    mbr_prefix_protect_request own;
    mbr_status status = MBR_TAKE(&own, mbr_prefix_protect_request, deadline_ns, request, error);
    if (status != MBR_OK)
        return status;
    mbr_prefix_record *record = enter(manager, own.prefix, &status, error);
    if (record == NULL)
        return status;
    status = mbr_prefix_check_seal(record->prefix, error);
    if (status == MBR_OK)
        status = await_writers(manager, &own, error);
    if (status == MBR_OK)
        status = mbr_prefix_seal(record->prefix, error);
    leave(manager, record);
    return status;
}
