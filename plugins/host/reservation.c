/* Reservations: address ranges without memory, their busy mark, and what stands in them. Never
 * edits what is mapped there. */
#include "plugins/host/reservation.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"

#include <inttypes.h>
#include <sys/mman.h>

struct mbr_host_reservation *mbr_host_reservation_enter_locked(
    mbr_instance *instance, uint64_t id, mbr_status *status, mbr_error *error)
{
    struct mbr_host_reservation *reservation = mbr_id_table_find(&instance->reservations, id);
    if (!reservation)
        *status = mbr_fail(error, MBR_UNKNOWN_OBJECT, "no reservation %" PRIu64, id);
    else if (reservation->busy)
        *status = mbr_fail(error, MBR_BUSY, "reservation %" PRIu64 " is in another call", id);
    if (*status != MBR_OK)
        return NULL;
    reservation->busy = true;
    return reservation;
}

struct mbr_host_reservation *mbr_host_reservation_enter(
    mbr_instance *instance, uint64_t id, mbr_status *status, mbr_error *error)
{
    mbr_host_lock(instance);
    struct mbr_host_reservation *reservation =
        mbr_host_reservation_enter_locked(instance, id, status, error);
    mbr_host_unlock(instance);
    return reservation;
}

void mbr_host_reservation_leave(mbr_instance *instance, struct mbr_host_reservation *reservation)
{
    mbr_host_lock(instance);
    reservation->busy = false;
    mbr_host_unlock(instance);
}

struct mbr_host_mapping *mbr_host_mapping_at(
    const struct mbr_host_reservation *reservation, uint64_t offset_bytes)
{
    struct mbr_interval *place = mbr_interval_tree_floor(reservation->mappings, offset_bytes);
    return place && offset_bytes - place->start < place->bytes
        ? (struct mbr_host_mapping *)place /* its first member */
        : NULL;
}

/* ---- reserve, unreserve --------------------------------------------------------------------- */

static mbr_status check_reserve(const mbr_instance *instance, const mbr_reserve_request *request,
    uint64_t *align_bytes, mbr_error *error)
{
    mbr_status status = mbr_host_check_flags(request->flags, 0, error);
    if (status == MBR_OK)
        status = mbr_host_check_size(instance, request->bytes, error);
    if (status != MBR_OK)
        return status;
    if (request->reservation_id == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the id is 0");
    if (request->align_bytes != 0 && !mbr_is_power_of_two(request->align_bytes))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "alignment %" PRIu64 " is no power of two",
            request->align_bytes);
    *align_bytes = mbr_max(request->align_bytes, instance->granule_bytes);
    uint64_t outer_bytes;
    if (!mbr_add(request->bytes, *align_bytes, &outer_bytes))
        return mbr_fail(error, MBR_OVERFLOW, "%" PRIu64 " bytes aligned to %" PRIu64 " overflow",
            request->bytes, *align_bytes);
    if (request->bytes <= MBR_HOST_OBJECT_MAX_BYTES)
        return MBR_OK;
    return mbr_fail_bytes(error, MBR_OUT_OF_ADDRESSES, request->bytes, MBR_HOST_OBJECT_MAX_BYTES,
        "%" PRIu64 " bytes are above the largest reservation, %" PRIu64, request->bytes,
        MBR_HOST_OBJECT_MAX_BYTES);
}

/* Takes addresses, more than asked for where the alignment needs it: unused ones cost nothing, and
 * nothing has to be trimmed. 0 or an errno. */
static int take_addresses(
    const mbr_instance *instance, struct mbr_host_reservation *reservation, uint64_t align_bytes)
{
    const struct mbr_host_os *os = &instance->os;
    reservation->outer_bytes = reservation->bytes + (align_bytes - os->page_bytes);
    int code = os->mmap(os->context, &reservation->outer_address, reservation->outer_bytes,
        PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (code != 0)
        return code;
    (void)mbr_host_hide(instance, reservation->outer_address, reservation->outer_bytes);
    reservation->address =
        reservation->outer_address + (-reservation->outer_address & (align_bytes - 1));
    return 0;
}

static mbr_status slot_reserve(
    mbr_instance *instance, const mbr_reserve_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_reserve_request request;
    uint64_t align_bytes = 0;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK)
        status = check_reserve(instance, &request, &align_bytes, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_reservation *reservation =
        mbr_heap_allocate(&instance->heap, sizeof(*reservation));
    if (!reservation)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for a reservation's record");
    *reservation = (struct mbr_host_reservation){
        .id = request.reservation_id, .bytes = request.bytes, .busy = true};
    mbr_host_lock(instance);
    status = mbr_host_publish_locked(
        instance, &instance->reservations, reservation->id, reservation, "reservation", error);
    mbr_host_unlock(instance);
    if (status != MBR_OK)
        goto release_reservation;

    int code = take_addresses(instance, reservation, align_bytes);
    if (code != 0) {
        status = mbr_host_fail_mapping(
            instance, error, code, MBR_OUT_OF_ADDRESSES, "reserve: mmap", request.bytes);
        goto unpublish;
    }
    mbr_outcome answer = {.state = MBR_STATE_DONE, .address = reservation->address};
    mbr_host_lock(instance);
    instance->reserved_bytes += reservation->bytes;
    reservation->busy = false;
    mbr_host_unlock(instance);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;

unpublish:
    mbr_host_lock(instance);
    mbr_id_table_remove(&instance->reservations, reservation->id);
    mbr_host_unlock(instance);
release_reservation:
    mbr_heap_release(&instance->heap, reservation);
    return status;
}

static mbr_status slot_unreserve(mbr_instance *instance, const mbr_unreserve_request *raw,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_unreserve_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_reservation *reservation =
        mbr_host_reservation_enter(instance, request.reservation_id, &status, error);
    if (!reservation)
        return status;
    if (reservation->mappings) {
        status = mbr_fail(error, MBR_BUSY,
            "reservation %" PRIu64 " has mappings, one at offset %" PRIu64, reservation->id,
            reservation->mappings->start);
        goto leave_reservation;
    }
    int code =
        mbr_host_vacate(instance, reservation->outer_address, reservation->outer_bytes, false);
    if (code != 0 &&
        mbr_host_look_at(instance, reservation->outer_address, reservation->outer_bytes) !=
            MBR_HOST_RANGE_HOLE) {
        status = mbr_host_fail_mapping(
            instance, error, code, MBR_SYSTEM, "unreserve: munmap", reservation->outer_bytes);
        goto leave_reservation;
    }
    mbr_host_lock(instance);
    mbr_id_table_remove(&instance->reservations, reservation->id);
    instance->reserved_bytes -= reservation->bytes;
    mbr_host_unlock(instance);
    mbr_heap_release(&instance->heap, reservation);
    mbr_answer_write(outcome, &(mbr_outcome){.state = MBR_STATE_DONE}, sizeof(mbr_outcome));
    return MBR_OK;

leave_reservation:
    mbr_host_reservation_leave(instance, reservation);
    return status;
}

/* The mapping or the hole around a byte. */
static void describe(const struct mbr_host_reservation *reservation, uint64_t offset_bytes,
    mbr_query_outcome *answer)
{
    const struct mbr_interval *before =
        mbr_interval_tree_floor(reservation->mappings, offset_bytes);
    const struct mbr_host_mapping *mapping = mbr_host_mapping_at(reservation, offset_bytes);
    if (mapping) {
        answer->access = mapping->access;
        answer->extent_id = mapping->extent->id;
        answer->offset_bytes = mapping->place.start;
        answer->bytes = mapping->place.bytes;
        return;
    }
    const struct mbr_interval *after =
        mbr_interval_tree_ceiling(reservation->mappings, offset_bytes);
    answer->offset_bytes = before ? before->start + before->bytes : 0;
    answer->bytes = (after ? after->start : reservation->bytes) - answer->offset_bytes;
}

static mbr_status slot_query(mbr_instance *instance, const mbr_query_request *raw,
    mbr_query_outcome *outcome, mbr_error *error)
{
    mbr_query_request request;
    mbr_query_outcome answer = {0};
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_reservation *reservation =
        mbr_host_reservation_enter(instance, request.reservation_id, &status, error);
    if (!reservation)
        return status;
    if (request.offset_bytes < reservation->bytes)
        describe(reservation, request.offset_bytes, &answer);
    else
        status = mbr_fail(error, MBR_OUT_OF_RANGE,
            "offset %" PRIu64 " of reservation %" PRIu64 " of %" PRIu64 " bytes",
            request.offset_bytes, reservation->id, reservation->bytes);
    mbr_host_reservation_leave(instance, reservation);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}

const mbr_virtual_vtable mbr_host_virtual = {
    MBR_SIZED(mbr_virtual_vtable),
    .kind = MBR_KIND_VIRTUAL,
    .minor = MBR_MINOR_0,
    .reserve = slot_reserve,
    .unreserve = slot_unreserve,
    .extent_create = mbr_host_slot_extent_create,
    .extent_destroy = mbr_host_slot_extent_destroy,
    .map = mbr_host_slot_map,
    .protect = mbr_host_slot_protect,
    .unmap = mbr_host_slot_unmap,
    .query = slot_query,
};

const mbr_shared_vtable mbr_host_shared = {
    MBR_SIZED(mbr_shared_vtable),
    .kind = MBR_KIND_SHARED,
    .minor = MBR_MINOR_0,
    .map_shared = mbr_host_slot_map_shared,
};
