/* Grants by handle, for holders whose bytes others own, and what a holder would be granted. Takes
 * no memory. */
#include "host/bind/grant.h"

#include "host/bind/manager.h"

static mbr_status grant(
    const mbr_holder_record *record, uint64_t bytes, mbr_refusal *refusal, mbr_error *error)
{
    mbr_refusal own = {MBR_SIZED(mbr_refusal)};
    mbr_status status = mbr_grant(record->holder, bytes, &own);
    if (status == MBR_OK)
        return MBR_OK;
    if (refusal != NULL)
        mbr_growable_give(refusal, &own, sizeof(own));
    return mbr_fail_bytes(error, status, own.asked_bytes, own.available_bytes,
        "declined: asked for %llu bytes, %llu are available under the limit of %llu",
        (unsigned long long)own.asked_bytes, (unsigned long long)own.available_bytes,
        (unsigned long long)own.limit_bytes);
}

mbr_status mbr_manager_grant(mbr_manager *manager, mbr_holder_handle holder, uint64_t bytes,
    mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status;
    mbr_holder_record *record = mbr_refer_holder(manager, holder, &status, error);
    if (record == NULL)
        return status;
    status = grant(record, bytes, refusal, error);
    mbr_unrefer_holder(manager, record);
    return status;
}

void mbr_manager_grant_return(mbr_manager *manager, mbr_holder_handle holder, uint64_t bytes)
{
    mbr_walk walk = mbr_begin_walk(manager);
    const mbr_holder_record *record = mbr_table_find(&manager->holders, holder.value);
    MBR_CHECK(record != NULL); /* who has bytes granted is not destroyed */
    mbr_grant_return(record->holder, bytes);
    mbr_end_walk(manager, walk);
}

/* ---- Room */

static mbr_room room_of(const mbr_backing_record *backing, const mbr_holder_record *holder)
{
    mbr_room room = {0};
    if (holder == NULL || holder->authority != backing->authority)
        return room;
    mbr_holder_read_room(holder->holder, &room.authority_bytes, &room.holder_bytes);
    room.authority_bytes += mbr_backing_could_give(backing->backing);
    return room;
}

mbr_room mbr_manager_read_room(
    mbr_manager *manager, mbr_range_handle range, mbr_holder_handle holder)
{
    mbr_room room = {0};
    mbr_status status;
    mbr_manager_fold(manager);
    mbr_walk walk = mbr_begin_walk(manager);
    mbr_walk inside = mbr_walks_begin(&manager->range_walks);
    const mbr_range_record *record = mbr_find_range(manager, range.value, &status, NULL);
    if (record != NULL)
        room = room_of(
            record->binding->backing, mbr_find_holder(manager, holder.value, &status, NULL));
    mbr_walks_end(&manager->range_walks, inside);
    mbr_end_walk(manager, walk);
    return room;
}
