/* The slots of `membrane.virtual` and `membrane.shared` over a plugin's primitives. Each looks at
 * all it needs under the lock, enters the reservation, edits without the lock, and then settles the
 * books; another slot sees the state before or after. Never makes or ends an extent. */
#include "plugins/common/space.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"

#include <inttypes.h>

/* ---- Ranges of a reservation ---------------------------------------------------------------- */

/* A range of a reservation that this call has entered. */
struct span {
    struct mbr_reservation *reservation;
    uint64_t offset_bytes, bytes;
};

static uint64_t address_of(const struct span *span)
{
    return span->reservation->object.address + span->offset_bytes;
}

/* The mapping that covers a byte, or NULL. */
static struct mbr_mapping *mapping_at(
    const struct mbr_reservation *reservation, uint64_t offset_bytes)
{
    struct mbr_interval *place = mbr_interval_tree_floor(reservation->mappings, offset_bytes);
    return place && offset_bytes - place->start < place->bytes
        ? (struct mbr_mapping *)place /* its first member */
        : NULL;
}

static mbr_status check_span(
    const struct mbr_objects *objects, const struct span *span, mbr_error *error)
{
    uint64_t end, offset_bytes = span->offset_bytes;
    if (offset_bytes % objects->granule_bytes != 0)
        return mbr_fail(error, MBR_MISALIGNED,
            "offset %" PRIu64 " is no multiple of the granule %" PRIu64, offset_bytes,
            objects->granule_bytes);
    if (!mbr_add(offset_bytes, span->bytes, &end))
        return mbr_fail(error, MBR_OVERFLOW, "%" PRIu64 " bytes from offset %" PRIu64 " overflow",
            span->bytes, offset_bytes);
    if (end > span->reservation->object.bytes)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "[%" PRIu64 ", %" PRIu64 ") passes the end of reservation %" PRIu64 ", %" PRIu64,
            offset_bytes, end, span->reservation->object.id, span->reservation->object.bytes);
    return MBR_OK;
}

/* The same for a range that must be made of whole mappings, without a hole. */
static mbr_status check_cover(
    const struct mbr_objects *objects, const struct span *span, mbr_error *error)
{
    mbr_status status = mbr_answer_check_size(span->bytes, objects->granule_bytes, error);
    if (status == MBR_OK)
        status = check_span(objects, span, error);
    if (status != MBR_OK)
        return status;
    uint64_t position = span->offset_bytes, end = position + span->bytes;
    while (position < end) {
        const struct mbr_mapping *mapping = mapping_at(span->reservation, position);
        if (!mapping || mapping->place.start != position)
            break;
        position += mapping->place.bytes;
    }
    if (position == end)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "[%" PRIu64 ", %" PRIu64 ") of reservation %" PRIu64
        " is not made of whole mappings; it departs at %" PRIu64,
        span->offset_bytes, end, span->reservation->object.id, mbr_min(position, end));
}

static mbr_status enter_cover(
    struct mbr_objects *objects, uint64_t id, struct span *span, mbr_error *error)
{
    mbr_status status = MBR_OK;
    span->reservation = mbr_object_enter(objects, &objects->reservations, id, &status, error);
    if (!span->reservation)
        return status;
    status = check_cover(objects, span, error);
    if (status != MBR_OK)
        mbr_object_leave(objects, &span->reservation->object);
    return status;
}

/* The next mapping at or after a position of a range that check_cover passed. */
static struct mbr_mapping *next_mapping(const struct span *span, uint64_t *position)
{
    if (*position >= span->offset_bytes + span->bytes)
        return NULL;
    struct mbr_mapping *mapping = mapping_at(span->reservation, *position);
    *position += mapping->place.bytes;
    return mapping;
}

#define EACH_MAPPING(mapping, span)                                                                \
    (uint64_t position = (span)->offset_bytes; (mapping = next_mapping(span, &position)) != NULL;)

/* ---- Books ---------------------------------------------------------------------------------- */

/* Takes the mappings of a range off the books once it is empty, or marks them as doubtful. */
static void settle(struct mbr_objects *objects, const struct span *span, enum mbr_end end)
{
    struct mbr_mapping *mapping;
    mbr_objects_lock(objects);
    for
        EACH_MAPPING(mapping, span)
        {
            mapping->doubtful = end == MBR_END_UNKNOWN;
            if (end != MBR_END_GONE)
                continue;
            mbr_interval_tree_remove(&span->reservation->mappings, &mapping->place);
            mapping->extent->mapping_count--;
            objects->mapping_count--;
            objects->mapped_bytes -= mapping->place.bytes;
            mbr_heap_release(&objects->heap, mapping);
        }
    mbr_objects_unlock(objects);
}

/* Sets the access of the devices that are named, and returns what the extent held before. */
static uint32_t record_access_locked(
    struct mbr_mapping *mapping, const struct mbr_answer_access *access)
{
    uint32_t content = mapping->extent->content;
    mapping->access.named |= access->named;
    mapping->access.readers = (mapping->access.readers & ~access->named) | access->readers;
    mapping->access.writers = (mapping->access.writers & ~access->named) | access->writers;
    if (access->writers != 0 && content == MBR_CONTENT_ZERO)
        mapping->extent->content = MBR_CONTENT_STALE;
    return content;
}

/* An undo failed: `cause` is why. */
static mbr_status fail_residual(
    mbr_error *error, const mbr_error *cause, const char *what, const struct span *span)
{
    return mbr_fail_native(error, MBR_RESIDUAL, cause->native_domain, cause->native_code,
        "%s: [%" PRIu64 ", %" PRIu64 ") of reservation %" PRIu64 "; %.80s", what,
        span->offset_bytes, span->offset_bytes + span->bytes, span->reservation->object.id,
        cause->text);
}

/* ---- reserve, unreserve --------------------------------------------------------------------- */

/* A driver that hands an address out twice breaks the contract; the index takes the first alone. */
static void place_locked(struct mbr_objects *objects, struct mbr_reservation *reservation)
{
    const struct mbr_object *object = &reservation->object;
    const struct mbr_interval *below = mbr_interval_tree_floor(objects->places, object->address);
    if (below && below->start == object->address)
        return;
    reservation->place = (struct mbr_interval){.start = object->address, .bytes = object->bytes};
    mbr_interval_tree_insert(&objects->places, &reservation->place);
}

static void displace_locked(struct mbr_objects *objects, struct mbr_reservation *reservation)
{
    if (reservation->place.bytes != 0)
        mbr_interval_tree_remove(&objects->places, &reservation->place);
    reservation->place = (struct mbr_interval){0};
}

static mbr_status reserve(mbr_instance *instance, const mbr_reserve_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct mbr_answer_ask ask = {
        .flags = request->flags,
        .id = request->reservation_id,
        .bytes = request->bytes,
        .unit_bytes = objects->granule_bytes,
        .align_bytes = request->align_bytes,
        .largest_bytes = objects->port->reservation_max_bytes,
        .max_owned_bytes = UINT64_MAX,
    };
    mbr_status status = mbr_answer_check(&ask, error);
    if (status != MBR_OK)
        return status;
    struct mbr_object *object = mbr_object_create(objects, &objects->reservations, ask.id,
        ask.bytes, sizeof(struct mbr_reservation), &status, error);
    if (!object)
        return status;
    status = objects->port->reserve(instance, object, ask.align_bytes, error);
    if (status != MBR_OK) {
        mbr_object_end(objects, &objects->reservations, object);
        return status;
    }
    answer->address = object->address;
    mbr_objects_lock(objects);
    objects->reserved_bytes += object->bytes;
    place_locked(objects, (struct mbr_reservation *)object);
    object->busy = false;
    mbr_objects_unlock(objects);
    return MBR_OK;
}

/* The driver may hand the same address to another thread before its call is back here: the place is
 * off the index before, and there again where nothing happened. */
static enum mbr_end give_addresses(
    mbr_instance *instance, struct mbr_reservation *reservation, mbr_error *cause)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_objects_lock(objects);
    displace_locked(objects, reservation);
    mbr_objects_unlock(objects);
    enum mbr_end end = objects->port->unreserve(instance, &reservation->object, cause);
    mbr_objects_lock(objects);
    if (end == MBR_END_THERE)
        place_locked(objects, reservation);
    else if (end == MBR_END_GONE)
        objects->reserved_bytes -= reservation->object.bytes;
    mbr_objects_unlock(objects);
    return end;
}

static mbr_status unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_error cause = {MBR_SIZED(mbr_error)};
    mbr_status status = MBR_OK;
    struct mbr_reservation *reservation =
        mbr_object_enter(objects, &objects->reservations, request->reservation_id, &status, error);
    if (!reservation)
        return status;
    struct mbr_object *object = &reservation->object;
    enum mbr_end end = MBR_END_THERE;
    if (reservation->mappings)
        mbr_fail(&cause, MBR_BUSY, "reservation %" PRIu64 " has mappings, one at offset %" PRIu64,
            object->id, reservation->mappings->start);
    else
        end = give_addresses(instance, reservation, &cause);
    if (end != MBR_END_GONE) {
        answer->state = end == MBR_END_THERE ? MBR_STATE_UNCHANGED : MBR_STATE_QUARANTINED;
        mbr_error_copy(error, &cause);
        mbr_object_leave(objects, object);
        return cause.status;
    }
    mbr_object_end(objects, &objects->reservations, object);
    return MBR_OK;
}

static mbr_status check_part_locked(
    const struct mbr_reservation *reservation, uint64_t address, uint64_t end, mbr_error *error)
{
    uint64_t start = reservation->place.start;
    while (address < end && address - start < reservation->place.bytes) {
        const struct mbr_mapping *mapping = mapping_at(reservation, address - start);
        if (!mapping)
            return mbr_fail(error, MBR_INVALID_ARGUMENT,
                "nothing is mapped at 0x%" PRIx64 ", offset %" PRIu64 " of reservation %" PRIu64,
                address, address - start, reservation->object.id);
        address = start + mapping->place.start + mapping->place.bytes;
    }
    return MBR_OK;
}

/* From the range's end downwards through all reservations that it meets: drivers put one behind
 * another. What lies outside of them is not looked at. */
mbr_status mbr_space_check_mapped(
    struct mbr_objects *objects, uint64_t address, uint64_t bytes, mbr_error *error)
{
    mbr_status status = MBR_OK;
    mbr_objects_lock(objects);
    for (uint64_t end = address + bytes; status == MBR_OK && end > address;) {
        const struct mbr_interval *place = mbr_interval_tree_floor(objects->places, end - 1);
        if (!place || address >= place->start + place->bytes)
            break;
        status = check_part_locked((const struct mbr_reservation *)((const char *)place -
                                       offsetof(struct mbr_reservation, place)),
            mbr_max(address, place->start), end, error);
        end = place->start;
    }
    mbr_objects_unlock(objects);
    return status;
}

/* ---- map, map_shared ------------------------------------------------------------------------ */

struct map_job {
    uint64_t reservation_id, offset_bytes, extent_id;
    bool is_further; /* map_shared: the extent has a mapping already */
    struct mbr_answer_access access;
};

void *mbr_space_enter_extent(
    struct mbr_objects *objects, uint64_t id, mbr_status *status, mbr_error *error)
{
    mbr_objects_lock(objects);
    struct mbr_extent *extent = mbr_object_enter_locked(&objects->extents, id, status, error);
    if (extent && extent->mapping_count > 0) {
        *status = mbr_fail(
            error, MBR_BUSY, "extent %" PRIu64 " has %u mappings", id, extent->mapping_count);
        extent->object.busy = false;
        extent = NULL;
    }
    mbr_objects_unlock(objects);
    return extent;
}

static mbr_status check_extent(
    const struct mbr_extent *extent, const struct map_job *job, mbr_error *error)
{
    uint64_t id = job->extent_id;
    if (!extent)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no extent %" PRIu64, id);
    if (extent->object.busy || extent->broken)
        return mbr_fail(error, MBR_BUSY, "extent %" PRIu64 " is being made or given back", id);
    if (job->is_further && extent->mapping_count == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "extent %" PRIu64 " has no mapping yet; the first one is map's", id);
    if (!job->is_further && extent->mapping_count > 0)
        return mbr_fail(
            error, MBR_BUSY, "extent %" PRIu64 " is mapped; further mappings are map_shared's", id);
    return MBR_OK;
}

static mbr_status check_free(
    const struct mbr_objects *objects, const struct span *span, mbr_error *error)
{
    mbr_status status = check_span(objects, span, error);
    if (status != MBR_OK)
        return status;
    uint64_t end = span->offset_bytes + span->bytes;
    const struct mbr_interval *last = mbr_interval_tree_floor(span->reservation->mappings, end - 1);
    if (!last || last->start + last->bytes <= span->offset_bytes)
        return MBR_OK;
    return mbr_fail(error, MBR_ALREADY_EXISTS,
        "[%" PRIu64 ", %" PRIu64 ") of reservation %" PRIu64 " is in use at %" PRIu64,
        span->offset_bytes, end, span->reservation->object.id, last->start);
}

/* Checks all that map can be refused for, enters the reservation and books the mapping. */
static mbr_status claim_locked(struct mbr_objects *objects, const struct map_job *job,
    struct mbr_mapping *mapping, struct span *span, uint32_t *content, mbr_error *error)
{
    mbr_status status = MBR_OK;
    span->reservation =
        mbr_object_enter_locked(&objects->reservations, job->reservation_id, &status, error);
    if (!span->reservation)
        return status;
    struct mbr_extent *extent = mbr_id_table_find(&objects->extents.ids, job->extent_id);
    status = check_extent(extent, job, error);
    if (status == MBR_OK) {
        span->bytes = extent->object.bytes;
        status = check_free(objects, span, error);
    }
    if (status != MBR_OK) {
        span->reservation->object.busy = false;
        return status;
    }
    mapping->place = (struct mbr_interval){.start = span->offset_bytes, .bytes = span->bytes};
    mapping->extent = extent;
    *content = record_access_locked(mapping, &job->access);
    mbr_interval_tree_insert(&span->reservation->mappings, &mapping->place);
    extent->mapping_count++;
    objects->mapping_count++;
    objects->mapped_bytes += span->bytes;
    return MBR_OK;
}

/* After a failure to map; the error says why and stays unless the undo fails as well. */
static mbr_status undo_map(mbr_instance *instance, const struct span *span, mbr_status status,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_error cause = {MBR_SIZED(mbr_error)};
    /* A range where nothing is mapped is not unmapped: drivers may take that for a mistake. */
    enum mbr_end end = objects->port->look(instance, address_of(span), span->bytes);
    if (end != MBR_END_GONE)
        end = objects->port->unmap(instance, address_of(span), span->bytes, &cause);
    settle(objects, span, end);
    if (end == MBR_END_GONE)
        return status;
    bool is_known = end == MBR_END_THERE;
    answer->state = is_known ? MBR_STATE_PARTIAL : MBR_STATE_QUARANTINED;
    answer->newly_mapped_bytes = answer->residual_mapped_bytes = span->bytes;
    return fail_residual(error, &cause,
        is_known ? "map failed, and its undo too: stays mapped"
                 : "map failed, and its undo too: in an unknown state",
        span);
}

static mbr_status map_extent(
    mbr_instance *instance, const struct map_job *job, mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct span span = {NULL, job->offset_bytes, 0};
    uint32_t content = MBR_CONTENT_UNDEFINED;
    struct mbr_mapping *mapping = mbr_heap_allocate(&objects->heap, sizeof(*mapping));
    if (!mapping)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for a mapping's record");
    mbr_objects_lock(objects);
    mbr_status status = claim_locked(objects, job, mapping, &span, &content, error);
    mbr_objects_unlock(objects);
    if (status != MBR_OK) {
        mbr_heap_release(&objects->heap, mapping);
        return status;
    }
    status = objects->port->map(instance, mapping, address_of(&span), error);
    if (status == MBR_OK) {
        answer->content = content;
        answer->newly_mapped_bytes = span.bytes;
    } else {
        status = undo_map(instance, &span, status, answer, error);
    }
    mbr_object_leave(objects, &span.reservation->object);
    return status;
}

static mbr_status map(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *answer, mbr_error *error)
{
    struct map_job job = {
        request->reservation_id, request->offset_bytes, request->extent_id, false, {0}};
    mbr_status status = mbr_answer_check_flags(request->flags, 0, error);
    return status == MBR_OK ? map_extent(instance, &job, answer, error) : status;
}

static mbr_status map_shared(mbr_instance *instance, const mbr_map_shared_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct map_job job = {
        request->reservation_id, request->offset_bytes, request->extent_id, true, {0}};
    mbr_status status = mbr_answer_read_access(request->access, request->access_count,
        mbr_objects_of(instance)->device_count, &job.access, error);
    return status == MBR_OK ? map_extent(instance, &job, answer, error) : status;
}

/* ---- protect -------------------------------------------------------------------------------- */

/* Puts these devices back to the access in each mapping's record; false if one resists. */
static bool restore_access(
    mbr_instance *instance, const struct span *span, uint64_t devices, mbr_error *cause)
{
    bool is_restored = true;
    const struct mbr_mapping *mapping;
    for
        EACH_MAPPING(mapping, span)
        {
            const struct mbr_answer_access before = {
                devices, mapping->access.readers & devices, mapping->access.writers & devices};
            if (mbr_objects_of(instance)->port->protect(instance,
                    span->reservation->object.address + mapping->place.start, mapping->place.bytes,
                    &before, true, cause) != MBR_OK)
                is_restored = false;
        }
    return is_restored;
}

/* The weakest promise about the contents of all: UNDEFINED, then STALE, then ZERO. */
static uint32_t weaker_content(uint32_t one, uint32_t other)
{
    if (one == MBR_CONTENT_UNDEFINED || other == MBR_CONTENT_UNDEFINED)
        return MBR_CONTENT_UNDEFINED;
    return one == MBR_CONTENT_STALE ? one : other;
}

static mbr_status protect(mbr_instance *instance, const mbr_protect_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct span span = {NULL, request->offset_bytes, request->bytes};
    mbr_error cause = {MBR_SIZED(mbr_error)};
    struct mbr_mapping *mapping;
    struct mbr_answer_access access;
    uint32_t content = MBR_CONTENT_ZERO;
    mbr_status status = mbr_answer_read_access(
        request->access, request->access_count, objects->device_count, &access, error);
    if (status == MBR_OK)
        status = enter_cover(objects, request->reservation_id, &span, error);
    if (status != MBR_OK)
        return status;
    status = objects->port->protect(instance, address_of(&span), span.bytes, &access, false, error);
    if (status == MBR_OK) {
        mbr_objects_lock(objects);
        for
            EACH_MAPPING(mapping, &span)
        content = weaker_content(content, record_access_locked(mapping, &access));
        mbr_objects_unlock(objects);
        answer->content = content;
    } else if (!restore_access(instance, &span, access.named, &cause)) {
        /* Reachable in one way or another: a later protect sets it anew, an unmap ends it. */
        answer->state = MBR_STATE_PARTIAL;
        answer->residual_mapped_bytes = span.bytes;
        status = fail_residual(error, &cause, "protect failed, and its undo too: mixed", &span);
    }
    mbr_object_leave(objects, &span.reservation->object);
    return status;
}

/* ---- unmap, query --------------------------------------------------------------------------- */

/* Where nobody knew what stands there, another thread's memory might: look before touching. */
static enum mbr_end look_if_doubtful(mbr_instance *instance, const struct span *span)
{
    const struct mbr_mapping *mapping;
    for
        EACH_MAPPING(mapping, span)
    if (mapping->doubtful)
        return mbr_objects_of(instance)->port->look(instance, address_of(span), span->bytes);
    return MBR_END_THERE;
}

/* The fact says that one unmap does not span mappings: the driver may not bear it. */
static mbr_status check_single(
    const struct mbr_objects *objects, const struct span *span, mbr_error *error)
{
    if (!objects->unmaps_single_mappings ||
        mapping_at(span->reservation, span->offset_bytes)->place.bytes == span->bytes)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "%" PRIu64 " bytes are of several mappings; here each is unmapped by itself", span->bytes);
}

static mbr_status unmap(
    mbr_instance *instance, const mbr_unmap_request *request, mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    struct span span = {NULL, request->offset_bytes, request->bytes};
    mbr_error cause = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_answer_check_flags(request->flags, 0, error);
    if (status == MBR_OK)
        status = enter_cover(objects, request->reservation_id, &span, error);
    if (status != MBR_OK)
        return status;
    status = check_single(objects, &span, error);
    if (status != MBR_OK) {
        mbr_object_leave(objects, &span.reservation->object);
        return status;
    }
    enum mbr_end end = look_if_doubtful(instance, &span);
    if (end == MBR_END_THERE)
        end = objects->port->unmap(instance, address_of(&span), span.bytes, &cause);
    settle(objects, &span, end);
    if (end == MBR_END_GONE) {
        answer->unmapped_bytes = span.bytes;
    } else if (end == MBR_END_THERE) {
        status = cause.status;
        mbr_error_copy(error, &cause);
    } else {
        answer->state = MBR_STATE_QUARANTINED;
        answer->residual_mapped_bytes = span.bytes;
        status = fail_residual(error, &cause, "unmap failed: in an unknown state", &span);
    }
    mbr_object_leave(objects, &span.reservation->object);
    return status;
}

/* The mapping or the hole around a byte. */
static void describe(const struct mbr_reservation *reservation, uint64_t offset_bytes,
    uint32_t device_index, mbr_query_outcome *answer)
{
    const struct mbr_interval *before =
        mbr_interval_tree_floor(reservation->mappings, offset_bytes);
    const struct mbr_interval *after =
        mbr_interval_tree_ceiling(reservation->mappings, offset_bytes);
    const struct mbr_mapping *mapping = mapping_at(reservation, offset_bytes);
    if (mapping) {
        answer->access = mbr_answer_access_of(&mapping->access, device_index);
        answer->extent_id = mapping->extent->object.id;
        answer->offset_bytes = mapping->place.start;
        answer->bytes = mapping->place.bytes;
    } else {
        answer->offset_bytes = before ? before->start + before->bytes : 0;
        answer->bytes = (after ? after->start : reservation->object.bytes) - answer->offset_bytes;
    }
}

static mbr_status query(mbr_instance *instance, const mbr_query_request *request,
    mbr_query_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = mbr_objects_of(instance);
    mbr_status status = MBR_OK;
    struct mbr_reservation *reservation =
        mbr_object_enter(objects, &objects->reservations, request->reservation_id, &status, error);
    if (!reservation)
        return status;
    if (request->offset_bytes < reservation->object.bytes)
        describe(reservation, request->offset_bytes, objects->device_index, answer);
    else
        status = mbr_fail(error, MBR_OUT_OF_RANGE,
            "offset %" PRIu64 " of reservation %" PRIu64 " of %" PRIu64 " bytes",
            request->offset_bytes, reservation->object.id, reservation->object.bytes);
    mbr_object_leave(objects, &reservation->object);
    return status;
}

MBR_ANSWER_CHANGE(, mbr_space_slot_reserve, reserve, mbr_reserve_request)
MBR_ANSWER_CHANGE(, mbr_space_slot_unreserve, unreserve, mbr_unreserve_request)
MBR_ANSWER_CHANGE(, mbr_space_slot_map, map, mbr_map_request)
MBR_ANSWER_CHANGE(, mbr_space_slot_map_shared, map_shared, mbr_map_shared_request)
MBR_ANSWER_CHANGE(, mbr_space_slot_protect, protect, mbr_protect_request)
MBR_ANSWER_CHANGE(, mbr_space_slot_unmap, unmap, mbr_unmap_request)
MBR_ANSWER_TELL(, mbr_space_slot_query, query, mbr_query_request, mbr_query_outcome)
