/* Capability membrane.virtual: reservations without access, extents that keep their pages in a home
 * of their own, and mappings that move these pages there and back. An extent has at most one place,
 * so membrane.shared is not offered. */
#include "tests/author/anon.h"

#include <inttypes.h>

/* ---- finding and refusing ---- */

static mbr_status busy(uint64_t id, uint64_t count, mbr_error *error)
{
    return anon_refuse(error, (mbr_error){.status = MBR_BUSY, .argument_index = 2},
        "%" PRIu64 " still has mappings: %" PRIu64 "; unmap first", id, count);
}

/* A range in a reservation: whole pages that lie in it. Their fields are the third and fourth. */
static mbr_status check_range(
    const anon_reservation *reservation, uint64_t offset_bytes, uint64_t bytes, mbr_error *error)
{
    uint64_t page_bytes = anon_page_bytes();
    mbr_error what = {.status = MBR_INVALID_ARGUMENT, .argument_index = 4};
    if (bytes == 0)
        return anon_refuse(error, what, "a range of 0 bytes is none");
    what.status = MBR_MISALIGNED;
    what.argument_index = offset_bytes % page_bytes ? 3 : 4;
    if (offset_bytes % page_bytes || bytes % page_bytes)
        return anon_refuse(error, what,
            "offset %" PRIu64 " and %" PRIu64 " bytes are not whole pages of %" PRIu64,
            offset_bytes, bytes, page_bytes);
    what.status = MBR_OVERFLOW;
    if (offset_bytes > UINT64_MAX - bytes)
        return anon_refuse(
            error, what, "offset %" PRIu64 " and %" PRIu64 " bytes pass 2^64", offset_bytes, bytes);
    what.status = MBR_OUT_OF_RANGE;
    if (offset_bytes + bytes > reservation->object.bytes)
        return anon_refuse(error, what,
            "the range ends at %" PRIu64 ", the reservation at %" PRIu64, offset_bytes + bytes,
            reservation->object.bytes);
    return MBR_OK;
}

static anon_place *place_at(const anon_reservation *reservation, uint64_t offset_bytes)
{
    return anon_spans_find(&reservation->places, offset_bytes, offset_bytes);
}

/* Whether whole mappings cover [offset, offset + bytes) without a hole. */
static mbr_status check_covered(
    const anon_reservation *reservation, uint64_t offset_bytes, uint64_t bytes, mbr_error *error)
{
    uint64_t at = offset_bytes, end = offset_bytes + bytes;
    while (at < end) {
        const anon_place *place = place_at(reservation, at);
        if (!place || place->offsets.first != at || place->offsets.last >= end)
            return anon_refuse(error,
                (mbr_error){.status = MBR_INVALID_ARGUMENT, .argument_index = 3},
                "%s at offset %" PRIu64 "; a range covers whole mappings",
                place ? "a part of a mapping" : "a hole", at);
        at = place->offsets.last + 1;
    }
    return MBR_OK;
}

static uint8_t *address_of(const anon_reservation *reservation, const anon_place *place)
{
    return reservation->object.area.start + place->offsets.first;
}

/* ---- reserve, unreserve ---- */

static mbr_status reserve(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_reserve_request *request = input;
    uint64_t id = ANON_GET(mbr_reserve_request, request, reservation_id);
    uint64_t bytes = ANON_GET(mbr_reserve_request, request, bytes);
    uint64_t align_bytes = ANON_GET(mbr_reserve_request, request, align_bytes);
    mbr_status status = anon_check_flags(ANON_GET(mbr_reserve_request, request, flags), 0, error);
    if (!status)
        status = anon_check_id(&instance->reservations, id, error);
    if (!status)
        status = anon_check_size(bytes, align_bytes, error);
    if (status)
        return status;
    anon_reservation *reservation =
        anon_object_create(&instance->reservations, sizeof *reservation, id, bytes);
    if (!reservation)
        return anon_no_heap(bytes, error);
    if (!anon_area_take(&reservation->object.area, bytes, align_bytes)) {
        status = anon_system_refused(MBR_OUT_OF_ADDRESSES, "mmap", bytes, error);
        anon_object_destroy(&instance->reservations, &reservation->object);
        return status;
    }
    instance->reserved_bytes += bytes;
    done->address = (uintptr_t)reservation->object.area.start;
    return MBR_OK;
}

static mbr_status unreserve(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    (void)done;
    const mbr_unreserve_request *request = input;
    uint64_t id = ANON_GET(mbr_unreserve_request, request, reservation_id);
    anon_reservation *reservation = anon_spans_find(&instance->reservations, id, id);
    if (!reservation)
        return anon_unknown(id, 2, error);
    if (reservation->places.count)
        return busy(id, reservation->places.count, error);
    uint64_t bytes = reservation->object.bytes;
    mbr_status status = anon_object_end(&instance->reservations, &reservation->object, error);
    if (status == MBR_OK)
        instance->reserved_bytes -= bytes;
    return status;
}

/* ---- extent_create, extent_destroy ---- */

static mbr_status extent_create(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_extent_create_request *request = input;
    uint64_t id = ANON_GET(mbr_extent_create_request, request, extent_id);
    uint64_t bytes = ANON_GET(mbr_extent_create_request, request, bytes);
    mbr_status status = anon_check_flags(
        ANON_GET(mbr_extent_create_request, request, flags), MBR_EXTENT_ZEROED, error);
    if (!status)
        status = anon_check_id(&instance->extents, id, error);
    if (!status)
        status = anon_check_size(bytes, 0, error);
    if (!status)
        status = anon_admit(
            instance, bytes, ANON_GET(mbr_extent_create_request, request, max_owned_bytes), error);
    if (status)
        return status;
    anon_extent *extent = anon_object_create(&instance->extents, sizeof *extent, id, bytes);
    if (!extent)
        return anon_no_heap(bytes, error);
    status = anon_object_fill(
        instance, &instance->extents, &extent->object, 0, MBR_ACCESS_NONE, done, error);
    if (status == MBR_OK)
        done->granted_flags = request->flags & MBR_EXTENT_ZEROED;
    return status;
}

static mbr_status extent_destroy(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_extent_destroy_request *request = input;
    uint64_t id = ANON_GET(mbr_extent_destroy_request, request, extent_id);
    anon_extent *extent = anon_spans_find(&instance->extents, id, id);
    if (!extent)
        return anon_unknown(id, 2, error);
    if (extent->placed)
        return busy(id, 1, error);
    uint64_t bytes = extent->object.bytes;
    mbr_status status = anon_object_end(&instance->extents, &extent->object, error);
    if (status)
        return status;
    instance->owned_bytes -= bytes;
    done->released_bytes = bytes;
    return MBR_OK;
}

/* ---- map, unmap ---- */

static mbr_status check_map(const anon_reservation *reservation, const anon_extent *extent,
    uint64_t offset_bytes, mbr_error *error)
{
    uint64_t bytes = extent->object.bytes;
    if (extent->placed)
        return busy(extent->object.id.first, 1, error);
    mbr_status status = check_range(reservation, offset_bytes, bytes, error);
    if (status)
        return status;
    if (anon_spans_find(&reservation->places, offset_bytes, offset_bytes + bytes - 1))
        return anon_refuse(error, (mbr_error){.status = MBR_ALREADY_EXISTS, .argument_index = 3},
            "something is mapped in %" PRIu64 " bytes at offset %" PRIu64, bytes, offset_bytes);
    return MBR_OK;
}

/* Books the place first: the heap can refuse, and taking the booking back cannot fail. */
static mbr_status place_extent(
    anon_reservation *reservation, anon_extent *extent, uint64_t offset_bytes, mbr_error *error)
{
    uint64_t bytes = extent->object.bytes;
    anon_place *place = &extent->place;
    *place = (anon_place){{offset_bytes, offset_bytes + bytes - 1}, extent, MBR_ACCESS_NONE};
    if (!anon_spans_add(&reservation->places, &place->offsets))
        return anon_no_heap(0, error);
    if (anon_memory_move(address_of(reservation, place), extent->object.area.start, bytes)) {
        extent->placed = true;
        return MBR_OK;
    }
    mbr_status status = anon_system_refused(MBR_OUT_OF_MAPPINGS, "mremap", 0, error);
    anon_spans_remove(&reservation->places, &place->offsets);
    return status;
}

static mbr_status map(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_map_request *request = input;
    uint64_t reservation_id = ANON_GET(mbr_map_request, request, reservation_id);
    uint64_t extent_id = ANON_GET(mbr_map_request, request, extent_id);
    uint64_t offset_bytes = ANON_GET(mbr_map_request, request, offset_bytes);
    mbr_status status = anon_check_flags(ANON_GET(mbr_map_request, request, flags), 0, error);
    if (status)
        return status;
    anon_reservation *reservation =
        anon_spans_find(&instance->reservations, reservation_id, reservation_id);
    if (!reservation)
        return anon_unknown(reservation_id, 2, error);
    anon_extent *extent = anon_spans_find(&instance->extents, extent_id, extent_id);
    if (!extent)
        return anon_unknown(extent_id, 4, error);
    status = check_map(reservation, extent, offset_bytes, error);
    if (!status)
        status = place_extent(reservation, extent, offset_bytes, error);
    if (status)
        return status;
    instance->placed_count++;
    instance->mapped_bytes += extent->object.bytes;
    done->newly_mapped_bytes = extent->object.bytes;
    done->content = extent->written ? MBR_CONTENT_STALE : MBR_CONTENT_ZERO;
    return MBR_OK;
}

/* Access goes before the pages do: what they leave behind must have none, and a touch between the
 * two steps would own memory that nobody counts. */
static mbr_status send_home(
    anon_reservation *reservation, anon_place *place, mbr_outcome *done, mbr_error *error)
{
    uint64_t bytes = place->extent->object.bytes;
    uint8_t *address = address_of(reservation, place);
    if (!anon_memory_access(address, bytes, MBR_ACCESS_NONE))
        return anon_system_refused(MBR_OUT_OF_MAPPINGS, "mprotect", 0, error);
    if (anon_memory_move(place->extent->object.area.start, address, bytes))
        return MBR_OK;
    mbr_status status = anon_system_refused(MBR_OUT_OF_MAPPINGS, "mremap", 0, error);
    if (!anon_memory_access(address, bytes, place->access)) {
        place->access = MBR_ACCESS_NONE;
        done->state = MBR_STATE_PARTIAL;
        done->residual_mapped_bytes = bytes;
    }
    return status;
}

/* Of the reservation's range, what unmap may take: exactly one mapping. */
static mbr_status check_unmap(const anon_reservation *reservation, const mbr_unmap_request *request,
    anon_place **place, mbr_error *error)
{
    uint64_t offset_bytes = ANON_GET(mbr_unmap_request, request, offset_bytes);
    uint64_t bytes = ANON_GET(mbr_unmap_request, request, bytes);
    mbr_status status = check_range(reservation, offset_bytes, bytes, error);
    if (!status)
        status = check_covered(reservation, offset_bytes, bytes, error);
    if (status)
        return status;
    *place = place_at(reservation, offset_bytes);
    if ((*place)->extent->object.bytes != bytes)
        return anon_refuse(error, (mbr_error){.status = MBR_INVALID_ARGUMENT, .argument_index = 4},
            "several mappings in %" PRIu64 " bytes; unmap one at a time", bytes);
    return MBR_OK;
}

static mbr_status unmap(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_unmap_request *request = input;
    uint64_t id = ANON_GET(mbr_unmap_request, request, reservation_id);
    mbr_status status = anon_check_flags(ANON_GET(mbr_unmap_request, request, flags), 0, error);
    if (status)
        return status;
    anon_reservation *reservation = anon_spans_find(&instance->reservations, id, id);
    if (!reservation)
        return anon_unknown(id, 2, error);
    anon_place *place = NULL;
    status = check_unmap(reservation, request, &place, error);
    if (!status)
        status = send_home(reservation, place, done, error);
    if (status)
        return status;
    anon_spans_remove(&reservation->places, &place->offsets);
    place->extent->placed = false;
    instance->placed_count--;
    instance->mapped_bytes -= place->extent->object.bytes;
    done->unmapped_bytes = place->extent->object.bytes;
    return MBR_OK;
}

/* ---- protect ---- */

/* There is one device, so a list of accesses has one entry. */
static mbr_status check_access(
    const mbr_protect_request *request, uint32_t *access, mbr_error *error)
{
    uint32_t count = ANON_GET(mbr_protect_request, request, access_count);
    const mbr_access *list = ANON_GET(mbr_protect_request, request, access);
    mbr_error what = {.status = MBR_INVALID_ARGUMENT, .argument_index = 1};
    if (count != 1)
        return anon_refuse(error, what, "%" PRIu32 " accesses for 1 device", count);
    what.argument_index = 5;
    if (!list)
        return anon_refuse(error, what, "the list of accesses is NULL");
    *access = list[0].access;
    if (list[0].device_index != 0)
        return anon_refuse(
            error, what, "device %" PRIu32 "; there is 0 alone", list[0].device_index);
    if (*access != MBR_ACCESS_NONE && *access != MBR_ACCESS_READ &&
        *access != MBR_ACCESS_READ_WRITE)
        return anon_refuse(error, what, "access %" PRIu32 " is none of 0, 1 and 3", *access);
    return MBR_OK;
}

/* Gives the mappings of [first, end) their access as it is in the books. */
static bool restore_access(const anon_reservation *reservation, uint64_t first, uint64_t end)
{
    bool restored = true;
    while (first < end) {
        const anon_place *place = place_at(reservation, first);
        restored &= anon_memory_access(
            address_of(reservation, place), place->extent->object.bytes, place->access);
        first = place->offsets.last + 1;
    }
    return restored;
}

/* Books the new access; what the content is to whom it is given. */
static uint32_t book_access(
    anon_reservation *reservation, uint64_t first, uint64_t end, uint32_t access)
{
    uint32_t content = MBR_CONTENT_ZERO;
    while (first < end) {
        anon_place *place = place_at(reservation, first);
        if (place->extent->written)
            content = MBR_CONTENT_STALE;
        place->access = access;
        place->extent->written |= access == MBR_ACCESS_READ_WRITE;
        first = place->offsets.last + 1;
    }
    return access == MBR_ACCESS_NONE ? MBR_CONTENT_UNDEFINED : content;
}

static mbr_status protect(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_protect_request *request = input;
    uint64_t id = ANON_GET(mbr_protect_request, request, reservation_id);
    uint64_t first = ANON_GET(mbr_protect_request, request, offset_bytes);
    uint64_t bytes = ANON_GET(mbr_protect_request, request, bytes);
    uint32_t access = MBR_ACCESS_NONE;
    anon_reservation *reservation = anon_spans_find(&instance->reservations, id, id);
    if (!reservation)
        return anon_unknown(id, 2, error);
    mbr_status status = check_access(request, &access, error);
    if (!status)
        status = check_range(reservation, first, bytes, error);
    if (!status)
        status = check_covered(reservation, first, bytes, error);
    if (status)
        return status;
    if (!anon_memory_access(reservation->object.area.start + first, bytes, access)) {
        status = anon_system_refused(MBR_OUT_OF_MAPPINGS, "mprotect", 0, error);
        if (!restore_access(reservation, first, first + bytes))
            done->state = MBR_STATE_QUARANTINED;
        return status;
    }
    done->content = book_access(reservation, first, first + bytes, access);
    return MBR_OK;
}

/* ---- query ---- */

/* The mapping around an offset, or the hole: it ends where the nearest mappings begin. */
static mbr_query_outcome look(const anon_reservation *reservation, uint64_t offset_bytes)
{
    const anon_place *place = place_at(reservation, offset_bytes);
    if (place)
        return (mbr_query_outcome){.access = place->access,
            .extent_id = place->extent->object.id.first,
            .offset_bytes = place->offsets.first,
            .bytes = place->extent->object.bytes};
    uint64_t first = 0, last = reservation->object.bytes - 1;
    while (first < offset_bytes &&
        (place = anon_spans_find(&reservation->places, first, offset_bytes)))
        first = place->offsets.last + 1;
    while ((place = anon_spans_find(&reservation->places, offset_bytes, last)))
        last = place->offsets.first - 1;
    return (mbr_query_outcome){.offset_bytes = first, .bytes = last - first + 1};
}

static mbr_status query_locked(mbr_instance *instance, const mbr_query_request *request,
    mbr_query_outcome *answer, mbr_error *error)
{
    uint64_t id = ANON_GET(mbr_query_request, request, reservation_id);
    uint64_t offset_bytes = ANON_GET(mbr_query_request, request, offset_bytes);
    const anon_reservation *reservation = anon_spans_find(&instance->reservations, id, id);
    if (!reservation)
        return anon_unknown(id, 2, error);
    if (offset_bytes >= reservation->object.bytes)
        return anon_refuse(error, (mbr_error){.status = MBR_OUT_OF_RANGE, .argument_index = 3},
            "offset %" PRIu64 " in a reservation of %" PRIu64 " bytes", offset_bytes,
            reservation->object.bytes);
    *answer = look(reservation, offset_bytes);
    return MBR_OK;
}

static mbr_status slot_query(mbr_instance *instance, const mbr_query_request *request,
    mbr_query_outcome *outcome, mbr_error *error)
{
    mbr_status status = anon_begin(instance && request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    mbr_query_request copy;
    anon_read(&copy, request, sizeof copy);
    mbr_query_outcome answer = {0};
    pthread_mutex_lock(&instance->lock);
    status = query_locked(instance, &copy, &answer, error);
    pthread_mutex_unlock(&instance->lock);
    anon_write(outcome, &answer, sizeof answer);
    return status;
}

/* ---- the table ---- */

static mbr_status slot_reserve(mbr_instance *instance, const mbr_reserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return anon_change_to_address(reserve, instance, request, sizeof *request, outcome, error);
}

static mbr_status slot_unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(unreserve, instance, request, sizeof *request, outcome, error);
}

static mbr_status slot_extent_create(mbr_instance *instance,
    const mbr_extent_create_request *request, mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(extent_create, instance, request, sizeof *request, outcome, error);
}

static mbr_status slot_extent_destroy(mbr_instance *instance,
    const mbr_extent_destroy_request *request, mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(extent_destroy, instance, request, sizeof *request, outcome, error);
}

static mbr_status slot_map(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(map, instance, request, sizeof *request, outcome, error);
}

static mbr_status slot_protect(mbr_instance *instance, const mbr_protect_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(protect, instance, request, sizeof *request, outcome, error);
}

static mbr_status slot_unmap(mbr_instance *instance, const mbr_unmap_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(unmap, instance, request, sizeof *request, outcome, error);
}

const mbr_virtual_vtable anon_virtual = {MBR_SIZED(mbr_virtual_vtable), .kind = MBR_KIND_VIRTUAL,
    .minor = MBR_MINOR_0, .reserve = slot_reserve, .unreserve = slot_unreserve,
    .extent_create = slot_extent_create, .extent_destroy = slot_extent_destroy, .map = slot_map,
    .protect = slot_protect, .unmap = slot_unmap, .query = slot_query};
