/* Adoption and its reverse by handle: handles become records, the backing does the work. Grows
 * nothing that does not stand there, and reports no error. */
#include "host/bind/adopt.h"

#include "host/bind/parts.h"

typedef bool (*mbr_move_ahead)(
    mbr_backing *backing, const mbr_grow_options *options, mbr_range_grow_result *result);

static bool move_ahead(mbr_manager *manager, const mbr_range_grow_request *request,
    mbr_move_ahead move, uint64_t *bytes)
{
    mbr_status status;
    mbr_part_list list;
    *bytes = 0;
    mbr_holder_record *holder = mbr_find_holder(manager, request->holder.value, &status, NULL);
    if (holder == NULL ||
        mbr_parts_make(manager, request->pieces, request->piece_count, NULL, &list, NULL) != MBR_OK)
        return false;
    mbr_grow_options options = {
        .holder = holder->holder, .parts = list.parts, .part_count = request->piece_count};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    bool moved = mbr_holder_authority(holder->holder) == mbr_backing_authority(list.backing) &&
        move(list.backing, &options, &result);
    mbr_parts_release(manager, &list, request->piece_count);
    *bytes = moved ? result.new_bytes : 0;
    return moved;
}

bool mbr_range_adopt(mbr_manager *manager, const mbr_range_grow_request *request, uint64_t *bytes)
{
    return move_ahead(manager, request, mbr_backing_adopt, bytes);
}

bool mbr_range_disown(mbr_manager *manager, const mbr_range_grow_request *request, uint64_t *bytes)
{
    return move_ahead(manager, request, mbr_backing_disown, bytes);
}
