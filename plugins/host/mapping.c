/* Edits of the address space: map, map_shared, protect, unmap. Every slot looks at all it needs
 * under the lock, marks the reservation busy, edits without the lock, and then settles the books;
 * another slot sees the state before or after. Never backs or punches an extent. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"
#include "plugins/host/reservation.h"

#include <inttypes.h>
#include <sys/mman.h>

/* ---- What the slots share ------------------------------------------------------------------- */

static mbr_status check_span(const mbr_instance *instance,
    const struct mbr_host_reservation *reservation, uint64_t offset_bytes, uint64_t bytes,
    mbr_error *error)
{
    uint64_t end;
    if (offset_bytes % instance->granule_bytes != 0)
        return mbr_fail(error, MBR_MISALIGNED,
            "offset %" PRIu64 " is no multiple of the granule %" PRIu64, offset_bytes,
            instance->granule_bytes);
    if (!mbr_add(offset_bytes, bytes, &end))
        return mbr_fail(error, MBR_OVERFLOW, "%" PRIu64 " bytes from offset %" PRIu64 " overflow",
            bytes, offset_bytes);
    if (end > reservation->bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "[%" PRIu64 ", %" PRIu64 ") passes the end of reservation %" PRIu64 ", %" PRIu64,
            offset_bytes, end, reservation->id, reservation->bytes);
    return MBR_OK;
}

/* The same for a range that must be made of whole mappings, without a hole. */
static mbr_status check_cover(const mbr_instance *instance,
    const struct mbr_host_reservation *reservation, uint64_t offset_bytes, uint64_t bytes,
    mbr_error *error)
{
    mbr_status status = mbr_host_check_size(instance, bytes, error);
    if (status == MBR_OK)
        status = check_span(instance, reservation, offset_bytes, bytes, error);
    if (status != MBR_OK)
        return status;
    uint64_t end = offset_bytes + bytes, position = offset_bytes;
    while (position < end) {
        const struct mbr_host_mapping *mapping = mbr_host_mapping_at(reservation, position);
        if (!mapping || mapping->place.start != position)
            break;
        position += mapping->place.bytes;
    }
    if (position == end)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "[%" PRIu64 ", %" PRIu64 ") of reservation %" PRIu64
        " is not made of whole mappings; it departs at %" PRIu64,
        offset_bytes, end, reservation->id, mbr_min(position, end));
}

/* The next mapping at or after a position that a cover check passed. */
static struct mbr_host_mapping *next_mapping(
    const struct mbr_host_reservation *reservation, uint64_t *position, uint64_t end)
{
    if (*position >= end)
        return NULL;
    struct mbr_host_mapping *mapping = mbr_host_mapping_at(reservation, *position);
    *position += mapping->place.bytes;
    return mapping;
}

static int protection_of(uint32_t access)
{
    return access == MBR_ACCESS_NONE ? PROT_NONE
        : access == MBR_ACCESS_READ  ? PROT_READ
                                     : PROT_READ | PROT_WRITE;
}

/* The access for the one device that there is. */
static mbr_status read_access(
    const mbr_access *list, uint32_t count, uint32_t *access, mbr_error *error)
{
    if (count == 0 || !list)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the list of accesses is empty");
    if (list[0].device_index != 0)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "access for device %u; the only one is 0",
            list[0].device_index);
    if (count > 1)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "%u accesses; there is one device", count);
    *access = list[0].access;
    if (*access == MBR_ACCESS_NONE || *access == MBR_ACCESS_READ ||
        *access == MBR_ACCESS_READ_WRITE)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT, "access %u is none of 0, 1 and 3", list[0].access);
}

/* Makes a range of a reservation empty again, in one step, so that at no moment another thread
 * could be given these addresses. Returns RESERVED; FILE if the mappings are still there; anything
 * else if nobody can tell. *code is 0 or the errno. */
static enum mbr_host_range_kind make_empty(
    mbr_instance *instance, uint64_t address, uint64_t bytes, int *code)
{
    *code = mbr_host_vacate(instance, address, bytes, true);
    if (*code != 0)
        return mbr_host_look_at(instance, address, bytes);
    /* A child that sees a range without pages and without access sees nothing. */
    (void)mbr_host_hide(instance, address, bytes);
    return MBR_HOST_RANGE_RESERVED;
}

/* ---- map, map_shared ------------------------------------------------------------------------ */

struct map_job {
    uint64_t reservation_id, offset_bytes, extent_id;
    bool is_further; /* map_shared: the extent has a mapping already */
    uint32_t access;
};

static mbr_status check_extent(
    const struct mbr_host_extent *extent, const struct map_job *job, mbr_error *error)
{
    uint64_t id = job->extent_id;
    if (!extent)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no extent %" PRIu64, id);
    if (extent->busy || extent->broken)
        return mbr_fail(error, MBR_BUSY, "extent %" PRIu64 " is being made or given back", id);
    if (job->is_further && extent->mapping_count == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "extent %" PRIu64 " has no mapping yet; the first one is map's", id);
    if (!job->is_further && extent->mapping_count > 0)
        return mbr_fail(
            error, MBR_BUSY, "extent %" PRIu64 " is mapped; further mappings are map_shared's", id);
    return MBR_OK;
}

/* Checks all that map can be refused for and books the mapping. It becomes visible with
 * mbr_host_reservation_leave(). */
static mbr_status claim_locked(mbr_instance *instance, const struct map_job *job,
    struct mbr_host_mapping *mapping, struct mbr_host_reservation **reservation, mbr_error *error)
{
    mbr_status status = MBR_OK;
    *reservation = mbr_host_reservation_enter_locked(instance, job->reservation_id, &status, error);
    if (!*reservation)
        return status;
    struct mbr_host_extent *extent = mbr_id_table_find(&instance->extents, job->extent_id);
    status = check_extent(extent, job, error);
    if (status == MBR_OK)
        status = check_span(instance, *reservation, job->offset_bytes, extent->part.bytes, error);
    if (status == MBR_OK) {
        const struct mbr_interval *last = mbr_interval_tree_floor(
            (*reservation)->mappings, job->offset_bytes + extent->part.bytes - 1);
        if (last && last->start + last->bytes > job->offset_bytes)
            status = mbr_fail(error, MBR_ALREADY_EXISTS,
                "[%" PRIu64 ", %" PRIu64 ") of reservation %" PRIu64 " is in use at %" PRIu64,
                job->offset_bytes, (job->offset_bytes + extent->part.bytes), job->reservation_id,
                last->start);
    }
    if (status != MBR_OK) {
        (*reservation)->busy = false;
        return status;
    }
    *mapping = (struct mbr_host_mapping){
        .place = {.start = job->offset_bytes, .bytes = extent->part.bytes},
        .extent = extent,
        .access = job->access,
    };
    mbr_interval_tree_insert(&(*reservation)->mappings, &mapping->place);
    extent->mapping_count++;
    instance->mapping_count++;
    instance->mapped_bytes += extent->part.bytes;
    return MBR_OK;
}

/* Takes a mapping off the books, once its range is empty. */
static void forget_locked(mbr_instance *instance, struct mbr_host_reservation *reservation,
    struct mbr_host_mapping *mapping)
{
    mbr_interval_tree_remove(&reservation->mappings, &mapping->place);
    mapping->extent->mapping_count--;
    instance->mapping_count--;
    instance->mapped_bytes -= mapping->place.bytes;
    mbr_heap_release(&instance->heap, mapping);
}

/* 0 or an errno; the range may then be in any state. */
static int place_mapping(
    const mbr_instance *instance, const struct mbr_host_mapping *mapping, uint64_t address)
{
    const struct mbr_host_os *os = &instance->os;
    uint64_t bytes = mapping->place.bytes;
    int protection = protection_of(mapping->access);
    int code = os->mmap(os->context, &address, bytes, protection, MAP_SHARED | MAP_FIXED,
        instance->file, mapping->extent->part.start);
    if (code == 0)
        code = mbr_host_hide(instance, address, bytes);
    if (code == 0 && instance->huge) /* advice: a kernel without huge pages may refuse it */
        (void)os->madvise(os->context, address, bytes, MADV_HUGEPAGE);
    return code != 0 ? code : mbr_host_populate(instance, address, bytes, protection, false);
}

/* After a failure to place it. */
static mbr_status undo_map(mbr_instance *instance, struct mbr_host_reservation *reservation,
    struct mbr_host_mapping *mapping, mbr_status status, mbr_outcome *answer, mbr_error *error)
{
    int code;
    uint64_t address = reservation->address + mapping->place.start;
    uint64_t bytes = mapping->place.bytes;
    enum mbr_host_range_kind kind = make_empty(instance, address, bytes, &code);
    if (kind == MBR_HOST_RANGE_RESERVED) {
        mbr_host_lock(instance);
        forget_locked(instance, reservation, mapping);
        mbr_host_unlock(instance);
        return status;
    }
    mapping->doubtful = kind != MBR_HOST_RANGE_FILE;
    answer->state = mapping->doubtful ? MBR_STATE_QUARANTINED : MBR_STATE_PARTIAL;
    answer->newly_mapped_bytes = answer->residual_mapped_bytes = bytes;
    return mbr_fail(error, MBR_RESIDUAL,
        "map failed, and so did its undo (errno %d): %" PRIu64 " bytes at offset %" PRIu64 " %s",
        code, bytes, mapping->place.start,
        mapping->doubtful ? "are in an unknown state" : "stay mapped");
}

static void mark_written_locked(struct mbr_host_mapping *mapping)
{
    if (mapping->access == MBR_ACCESS_READ_WRITE)
        mapping->extent->written = true;
}

static mbr_status map_extent(
    mbr_instance *instance, const struct map_job *job, mbr_outcome *outcome, mbr_error *error)
{
    struct mbr_host_reservation *reservation;
    struct mbr_host_mapping *mapping = mbr_heap_allocate(&instance->heap, sizeof(*mapping));
    if (!mapping)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for a mapping's record");
    mbr_host_lock(instance);
    mbr_status status = claim_locked(instance, job, mapping, &reservation, error);
    mbr_outcome answer = {0};
    if (status == MBR_OK) {
        answer = (mbr_outcome){
            .state = MBR_STATE_DONE,
            .content = mapping->extent->written ? MBR_CONTENT_STALE : MBR_CONTENT_ZERO,
            .newly_mapped_bytes = mapping->place.bytes,
        };
        mark_written_locked(mapping);
    }
    mbr_host_unlock(instance);
    if (status != MBR_OK) {
        mbr_heap_release(&instance->heap, mapping);
        return status;
    }

    int code = place_mapping(instance, mapping, reservation->address + mapping->place.start);
    if (code != 0) {
        status = mbr_host_fail_mapping(instance, error, code, MBR_OUT_OF_MEMORY,
            job->is_further ? "map_shared: mmap" : "map: mmap", mapping->place.bytes);
        answer = (mbr_outcome){0};
        status = undo_map(instance, reservation, mapping, status, &answer, error);
    }
    mbr_host_reservation_leave(instance, reservation);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}

mbr_status mbr_host_slot_map(
    mbr_instance *instance, const mbr_map_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_map_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK)
        status = mbr_host_check_flags(request.flags, 0, error);
    if (status != MBR_OK)
        return status;
    struct map_job job = {
        .reservation_id = request.reservation_id,
        .offset_bytes = request.offset_bytes,
        .extent_id = request.extent_id,
        .access = MBR_ACCESS_NONE,
    };
    return map_extent(instance, &job, outcome, error);
}

mbr_status mbr_host_slot_map_shared(mbr_instance *instance, const mbr_map_shared_request *raw,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_map_shared_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    struct map_job job = {.is_further = true};
    if (status == MBR_OK)
        status = read_access(request.access, request.access_count, &job.access, error);
    if (status != MBR_OK)
        return status;
    job.reservation_id = request.reservation_id;
    job.offset_bytes = request.offset_bytes;
    job.extent_id = request.extent_id;
    return map_extent(instance, &job, outcome, error);
}

/* ---- protect -------------------------------------------------------------------------------- */

/* Puts every mapping of the range back to the access in its record; false if one resists. */
static bool restore_access(const mbr_instance *instance,
    const struct mbr_host_reservation *reservation, uint64_t offset_bytes, uint64_t bytes)
{
    bool is_restored = true;
    uint64_t position = offset_bytes;
    const struct mbr_host_mapping *mapping;
    while ((mapping = next_mapping(reservation, &position, offset_bytes + bytes)) != NULL)
        if (instance->os.mprotect(instance->os.context, reservation->address + mapping->place.start,
                mapping->place.bytes, protection_of(mapping->access)) != 0)
            is_restored = false;
    return is_restored;
}

/* Writes the new access into the records; returns the content that the range has. */
static uint32_t record_access_locked(const struct mbr_host_reservation *reservation,
    uint64_t offset_bytes, uint64_t bytes, uint32_t access)
{
    uint32_t content = MBR_CONTENT_ZERO;
    uint64_t position = offset_bytes;
    struct mbr_host_mapping *mapping;
    while ((mapping = next_mapping(reservation, &position, offset_bytes + bytes)) != NULL) {
        if (mapping->extent->written)
            content = MBR_CONTENT_STALE;
        mapping->access = access;
        mark_written_locked(mapping);
    }
    return content;
}

static mbr_status set_access(mbr_instance *instance, struct mbr_host_reservation *reservation,
    const mbr_protect_request *request, uint32_t access, mbr_outcome *answer, mbr_error *error)
{
    mbr_status status =
        check_cover(instance, reservation, request->offset_bytes, request->bytes, error);
    if (status != MBR_OK)
        return status;
    const struct mbr_host_os *os = &instance->os;
    uint64_t address = reservation->address + request->offset_bytes;
    int protection = protection_of(access);
    int code = os->mprotect(os->context, address, request->bytes, protection);
    if (code == 0)
        code = mbr_host_populate(instance, address, request->bytes, protection, false);
    if (code == 0) {
        answer->state = MBR_STATE_DONE;
        mbr_host_lock(instance);
        answer->content =
            record_access_locked(reservation, request->offset_bytes, request->bytes, access);
        mbr_host_unlock(instance);
        return MBR_OK;
    }
    status = mbr_host_fail_mapping(
        instance, error, code, MBR_OUT_OF_MEMORY, "protect: mprotect and populate", request->bytes);
    if (restore_access(instance, reservation, request->offset_bytes, request->bytes))
        return status;
    /* Reachable in one way or another: a later protect sets it anew, an unmap ends it. */
    answer->state = MBR_STATE_PARTIAL;
    answer->residual_mapped_bytes = request->bytes;
    return mbr_fail(error, MBR_RESIDUAL,
        "protect failed (errno %d), and so did its undo: the access of [%" PRIu64 ", %" PRIu64
        ") is mixed",
        code, request->offset_bytes, (request->offset_bytes + request->bytes));
}

mbr_status mbr_host_slot_protect(
    mbr_instance *instance, const mbr_protect_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_protect_request request;
    mbr_outcome answer = {0};
    uint32_t access = MBR_ACCESS_NONE;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK)
        status = read_access(request.access, request.access_count, &access, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_reservation *reservation =
        mbr_host_reservation_enter(instance, request.reservation_id, &status, error);
    if (!reservation)
        return status;
    status = set_access(instance, reservation, &request, access, &answer, error);
    mbr_host_reservation_leave(instance, reservation);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}

/* ---- unmap, query --------------------------------------------------------------------------- */

static bool is_doubtful(
    const struct mbr_host_reservation *reservation, uint64_t offset_bytes, uint64_t bytes)
{
    uint64_t position = offset_bytes;
    const struct mbr_host_mapping *mapping;
    while ((mapping = next_mapping(reservation, &position, offset_bytes + bytes)) != NULL)
        if (mapping->doubtful)
            return true;
    return false;
}

/* Ends the mappings of the range in the books, or marks them as doubtful. */
static void settle_range(mbr_instance *instance, struct mbr_host_reservation *reservation,
    const mbr_unmap_request *request, bool is_gone)
{
    uint64_t position = request->offset_bytes;
    struct mbr_host_mapping *mapping;
    mbr_host_lock(instance);
    while ((mapping = next_mapping(
                reservation, &position, request->offset_bytes + request->bytes)) != NULL)
        if (is_gone)
            forget_locked(instance, reservation, mapping);
        else
            mapping->doubtful = true;
    mbr_host_unlock(instance);
}

static mbr_status take_away(mbr_instance *instance, struct mbr_host_reservation *reservation,
    const mbr_unmap_request *request, mbr_outcome *answer, mbr_error *error)
{
    mbr_status status =
        check_cover(instance, reservation, request->offset_bytes, request->bytes, error);
    if (status != MBR_OK)
        return status;
    uint64_t address = reservation->address + request->offset_bytes;
    int code = 0;
    enum mbr_host_range_kind kind = MBR_HOST_RANGE_FILE;
    /* Where nobody knew what stands there, another thread's memory might: look before touching. */
    if (is_doubtful(reservation, request->offset_bytes, request->bytes))
        kind = mbr_host_look_at(instance, address, request->bytes);
    if (kind == MBR_HOST_RANGE_FILE)
        kind = make_empty(instance, address, request->bytes, &code);
    if (kind == MBR_HOST_RANGE_RESERVED) { /* also where the call failed after its effect */
        settle_range(instance, reservation, request, true);
        answer->state = MBR_STATE_DONE;
        answer->unmapped_bytes = request->bytes;
        return MBR_OK;
    }
    if (kind == MBR_HOST_RANGE_FILE) /* nothing happened */
        return mbr_host_fail_mapping(
            instance, error, code, MBR_SYSTEM, "unmap: mmap", request->bytes);
    settle_range(instance, reservation, request, false);
    answer->state = MBR_STATE_QUARANTINED;
    answer->residual_mapped_bytes = request->bytes;
    return mbr_fail(error, MBR_RESIDUAL,
        "unmap failed (errno %d) and [%" PRIu64 ", %" PRIu64 ") is in an unknown state", code,
        request->offset_bytes, (request->offset_bytes + request->bytes));
}

mbr_status mbr_host_slot_unmap(
    mbr_instance *instance, const mbr_unmap_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_unmap_request request;
    mbr_outcome answer = {0};
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK)
        status = mbr_host_check_flags(request.flags, 0, error);
    if (status != MBR_OK)
        return status;
    struct mbr_host_reservation *reservation =
        mbr_host_reservation_enter(instance, request.reservation_id, &status, error);
    if (!reservation)
        return status;
    status = take_away(instance, reservation, &request, &answer, error);
    mbr_host_reservation_leave(instance, reservation);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}
