/* Tools of the faults of virtual memory, and refusals that a bad plugin does not make (groups VIR
 * and SHR): it mends the request and goes on, or says OK and does nothing. */
#include "tests/badplugins/bad_vir.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct mbr_host_extent *bad_extent(mbr_instance *instance, uint64_t id)
{
    mbr_objects_lock(&instance->objects);
    struct mbr_host_extent *extent = mbr_id_table_find(&instance->objects.extents.ids, id);
    mbr_objects_unlock(&instance->objects);
    return extent;
}

struct mbr_reservation *bad_reservation(mbr_instance *instance, uint64_t id)
{
    mbr_objects_lock(&instance->objects);
    struct mbr_reservation *found = mbr_id_table_find(&instance->objects.reservations.ids, id);
    mbr_objects_unlock(&instance->objects);
    return found;
}

mbr_query_outcome bad_look(mbr_instance *instance, uint64_t reservation_id, uint64_t offset_bytes)
{
    const mbr_query_request request = {MBR_SIZED(mbr_query_request),
        .reservation_id = reservation_id, .offset_bytes = offset_bytes};
    mbr_query_outcome outcome = {MBR_SIZED(mbr_query_outcome)};
    (void)bad_good->virtual_.query(instance, &request, &outcome, NULL);
    return outcome;
}

void bad_alias(const mbr_instance *instance, uint64_t address, uint64_t bytes,
    uint64_t file_offset_bytes, int protection)
{
    (void)mmap((void *)(uintptr_t)address, bytes, protection, MAP_SHARED | MAP_FIXED,
        instance->file, (off_t)file_offset_bytes);
}

void bad_empty(const mbr_instance *instance, uint64_t file_offset_bytes, uint64_t bytes)
{
    (void)fallocate(instance->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
        (off_t)file_offset_bytes, (off_t)bytes);
}

void bad_soil(const mbr_instance *instance, uint64_t file_offset_bytes)
{
    if (pwrite(instance->file, "stale", 5, (off_t)file_offset_bytes) != 5)
        _exit(1);
}

void bad_hoard(uint64_t bytes)
{
    (void)mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

/* ---- Slots that do not refuse -------------------------------------------------------------------
 * `tolerated` is the good slot's refusal that is not made. `mend` changes the request so that it
 * works, and is asked whether it can; without it the answer is OK and nothing happens. */

static mbr_status tolerated;

#define TOLERANT(slot, request_type)                                                               \
    static bool (*mend_##slot)(mbr_instance * instance, request_type * request);                   \
    static bool is_noop_##slot;                                                                    \
    BAD_SLOT(tolerant_##slot, request_type, mbr_outcome)                                           \
    {                                                                                              \
        mbr_error own = {MBR_SIZED(mbr_error)};                                                    \
        mbr_status status = bad_good->virtual_.slot(instance, request, outcome, &own);             \
        bool is_case = status == tolerated;                                                        \
        request_type mended;                                                                       \
        if (is_case)                                                                               \
            mended = *request;                                                                     \
        if (is_case && mend_##slot != NULL)                                                        \
            is_case = mend_##slot(instance, &mended);                                              \
        if (is_case && !is_noop_##slot)                                                            \
            return bad_good->virtual_.slot(instance, &mended, outcome, error);                     \
        if (is_case) {                                                                             \
            outcome->state = MBR_STATE_DONE;                                                       \
            return MBR_OK;                                                                         \
        }                                                                                          \
        if (status != MBR_OK && error != NULL)                                                     \
            mbr_error_copy(error, &own);                                                           \
        return status;                                                                             \
    }

TOLERANT(reserve, mbr_reserve_request)
TOLERANT(unreserve, mbr_unreserve_request)
TOLERANT(extent_create, mbr_extent_create_request)
TOLERANT(extent_destroy, mbr_extent_destroy_request)
TOLERANT(map, mbr_map_request)
TOLERANT(protect, mbr_protect_request)
TOLERANT(unmap, mbr_unmap_request)

#define MEND(name, request_type) static bool name(mbr_instance *instance, request_type *request)
#define TOLERATE(fault, slot, status, mend, is_noop)                                               \
    if (bad_is(fault)) {                                                                           \
        tolerated = (status);                                                                      \
        mend_##slot = (mend);                                                                      \
        is_noop_##slot = (is_noop);                                                                \
        bad.virtual_.slot = tolerant_##slot;                                                       \
    }

#define OTHER_ID_BIT (UINT64_C(1) << 62)
#define HUGE_BYTES (UINT64_C(1) << 62)

/* ---- Reservations ---------------------------------------------------------------------------- */

MEND(guess_alignment, mbr_reserve_request)
{
    (void)instance;
    if (request->bytes == 0 || request->align_bytes == 0)
        return false;
    request->align_bytes = 0;
    return true;
}

MEND(reserve_one_granule, mbr_reserve_request)
{
    if (request->bytes != 0)
        return false;
    request->bytes = instance->objects.granule_bytes;
    return true;
}

MEND(round_reservation, mbr_reserve_request)
{
    uint64_t granule = instance->objects.granule_bytes;
    request->bytes += granule - request->bytes % granule;
    return true;
}

MEND(wrap_reservation, mbr_reserve_request)
{
    request->bytes = instance->objects.granule_bytes;
    request->align_bytes = 0;
    return true;
}

MEND(give_reservation_an_id, mbr_reserve_request)
{
    (void)instance;
    if (request->reservation_id != 0)
        return false;
    request->reservation_id = OTHER_ID_BIT;
    return true;
}

MEND(give_another_reservation_id, mbr_reserve_request)
{
    (void)instance;
    request->reservation_id |= OTHER_ID_BIT;
    return true;
}

MEND(drop_reserve_flags, mbr_reserve_request)
{
    (void)instance;
    request->flags = 0;
    return true;
}

static uint64_t unreserved_id, destroyed_id; /* the last ones */

BAD_SLOT(unreserve_and_remember, mbr_unreserve_request, mbr_outcome)
{
    mbr_status status = tolerant_unreserve(instance, request, outcome, error);
    if (status == MBR_OK)
        unreserved_id = request->reservation_id;
    return status;
}

BAD_SLOT(destroy_and_remember, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = tolerant_extent_destroy(instance, request, outcome, error);
    if (status == MBR_OK)
        destroyed_id = request->extent_id;
    return status;
}

MEND(is_unreserved, mbr_unreserve_request)
{
    (void)instance;
    return request->reservation_id == unreserved_id;
}

static void install_reservations(void)
{
    TOLERATE("reserve_odd_align_accepted", reserve, MBR_INVALID_ARGUMENT, guess_alignment, false)
    TOLERATE("reserve_nothing_accepted", reserve, MBR_INVALID_ARGUMENT, reserve_one_granule, false)
    TOLERATE("reserve_rounds_size", reserve, MBR_MISALIGNED, round_reservation, false)
    TOLERATE("reserve_wraps", reserve, MBR_OVERFLOW, wrap_reservation, false)
    TOLERATE("reservation_without_id_accepted", reserve, MBR_INVALID_ARGUMENT,
        give_reservation_an_id, false)
    TOLERATE(
        "reservation_id_doubled", reserve, MBR_ALREADY_EXISTS, give_another_reservation_id, false)
    TOLERATE("reserve_flag_ignored", reserve, MBR_UNSUPPORTED, drop_reserve_flags, false)
    TOLERATE("unreserve_mapped_accepted", unreserve, MBR_BUSY, NULL, true)
    TOLERATE("unreserve_twice_accepted", unreserve, MBR_UNKNOWN_OBJECT, is_unreserved, true)
    if (bad_is("unreserve_twice_accepted"))
        bad.virtual_.unreserve = unreserve_and_remember;
}

/* ---- Extents --------------------------------------------------------------------------------- */

MEND(make_one_granule, mbr_extent_create_request)
{
    if (request->bytes != 0)
        return false;
    request->bytes = instance->objects.granule_bytes;
    return true;
}

MEND(round_extent, mbr_extent_create_request)
{
    uint64_t granule = instance->objects.granule_bytes;
    request->bytes += granule - request->bytes % granule;
    return true;
}

MEND(wrap_extent, mbr_extent_create_request)
{
    if (request->bytes < HUGE_BYTES)
        return false;
    request->bytes = instance->objects.granule_bytes;
    return true;
}

MEND(cut_to_largest, mbr_extent_create_request)
{
    if (request->bytes <= MBR_HOST_OBJECT_MAX_BYTES || request->bytes >= HUGE_BYTES)
        return false;
    request->bytes = instance->objects.granule_bytes;
    return true;
}

MEND(round_budget_up, mbr_extent_create_request)
{
    (void)instance;
    if (request->max_owned_bytes + 1 != request->bytes ||
        request->bytes > 64 * instance->objects.granule_bytes)
        return false;
    request->max_owned_bytes = UINT64_MAX;
    return true;
}

MEND(give_extent_an_id, mbr_extent_create_request)
{
    (void)instance;
    if (request->extent_id != 0)
        return false;
    request->extent_id = OTHER_ID_BIT;
    return true;
}

MEND(give_another_extent_id, mbr_extent_create_request)
{
    (void)instance;
    request->extent_id |= OTHER_ID_BIT;
    return true;
}

MEND(drop_unknown_flags, mbr_extent_create_request)
{
    (void)instance;
    if ((request->flags & 0xFFFC) == 0)
        return false;
    request->flags &= MBR_EXTENT_ZEROED;
    return true;
}

MEND(drop_exportable, mbr_extent_create_request)
{
    (void)instance;
    if ((request->flags & 0xFFFF & ~(uint32_t)MBR_EXTENT_ZEROED) != MBR_EXTENT_EXPORTABLE)
        return false;
    request->flags &= ~(uint32_t)MBR_EXTENT_EXPORTABLE;
    return true;
}

MEND(is_destroyed, mbr_extent_destroy_request)
{
    (void)instance;
    return request->extent_id == destroyed_id;
}

MEND(is_of_two, mbr_extent_destroy_request)
{
    const struct mbr_host_extent *extent = bad_extent(instance, request->extent_id);
    return extent->part.bytes == 2 * instance->objects.granule_bytes;
}

static void install_extents(void)
{
    TOLERATE(
        "extent_of_nothing_accepted", extent_create, MBR_INVALID_ARGUMENT, make_one_granule, false)
    TOLERATE("extent_rounds_size", extent_create, MBR_MISALIGNED, round_extent, false)
    TOLERATE("extent_wraps", extent_create, MBR_OVERFLOW, wrap_extent, false)
    TOLERATE("extent_max_lie", extent_create, MBR_INVALID_ARGUMENT, cut_to_largest, false)
    TOLERATE("extent_one_byte_over_budget", extent_create, MBR_OVER_BUDGET, round_budget_up, false)
    TOLERATE(
        "extent_without_id_accepted", extent_create, MBR_INVALID_ARGUMENT, give_extent_an_id, false)
    TOLERATE("extent_id_doubled", extent_create, MBR_ALREADY_EXISTS, give_another_extent_id, false)
    TOLERATE("extent_flag_ignored", extent_create, MBR_UNSUPPORTED, drop_unknown_flags, false)
    TOLERATE("exportable_not_granted", extent_create, MBR_UNSUPPORTED, drop_exportable, false)
    TOLERATE("destroy_while_mapped_accepted", extent_destroy, MBR_BUSY, is_of_two, true)
    TOLERATE("destroy_twice_accepted", extent_destroy, MBR_UNKNOWN_OBJECT, is_destroyed, true)
    if (bad_is("destroy_twice_accepted"))
        bad.virtual_.extent_destroy = destroy_and_remember;
}

/* ---- Mappings -------------------------------------------------------------------------------- */

MEND(round_offset, mbr_map_request)
{
    request->offset_bytes -= request->offset_bytes % instance->objects.granule_bytes;
    return true;
}

MEND(is_into_unreserved, mbr_map_request)
{
    (void)instance;
    return request->reservation_id == unreserved_id;
}

MEND(is_of_destroyed, mbr_map_request)
{
    (void)instance;
    return request->extent_id == destroyed_id;
}

static bool is_inside_one(
    mbr_instance *instance, uint64_t reservation_id, uint64_t offset_bytes, uint64_t bytes)
{
    mbr_query_outcome seen = bad_look(instance, reservation_id, offset_bytes);
    return seen.extent_id != 0 && bytes > 0 && bytes < seen.bytes;
}

/* Whether one of its granules is a hole. */
static bool has_hole(
    mbr_instance *instance, uint64_t reservation_id, uint64_t offset_bytes, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += instance->objects.granule_bytes)
        if (bad_look(instance, reservation_id, offset_bytes + at).extent_id == 0)
            return true;
    return false;
}

MEND(protect_part, mbr_protect_request)
{
    return is_inside_one(instance, request->reservation_id, request->offset_bytes, request->bytes);
}

MEND(protect_hole, mbr_protect_request)
{
    return has_hole(instance, request->reservation_id, request->offset_bytes, request->bytes);
}

MEND(protect_odd_access, mbr_protect_request)
{
    (void)instance;
    return request->access_count == 1 && request->access[0].access == 2;
}

MEND(protect_unreserved, mbr_protect_request)
{
    (void)instance;
    return request->reservation_id == unreserved_id;
}

MEND(protect_strange_device, mbr_protect_request)
{
    (void)instance;
    return request->access_count == 1 && request->access[0].device_index != 0;
}

MEND(protect_long_range, mbr_protect_request)
{
    return request->access[0].device_index == 0 && request->offset_bytes == 0 &&
        request->bytes < 64 * instance->objects.granule_bytes &&
        request->bytes % instance->objects.granule_bytes == 0 &&
        !has_hole(instance, request->reservation_id, 0, instance->objects.granule_bytes) &&
        bad_look(instance, request->reservation_id, 0).bytes ==
        bad_reservation(instance, request->reservation_id)->object.bytes;
}

MEND(unmap_part, mbr_unmap_request)
{
    return is_inside_one(instance, request->reservation_id, request->offset_bytes, request->bytes);
}

MEND(unmap_with_hole, mbr_unmap_request)
{
    return has_hole(instance, request->reservation_id, request->offset_bytes, request->bytes) &&
        !has_hole(instance, request->reservation_id, request->offset_bytes,
            instance->objects.granule_bytes);
}

MEND(unmap_hole, mbr_unmap_request)
{
    mbr_query_outcome seen = bad_look(instance, request->reservation_id, request->offset_bytes);
    return seen.extent_id == 0 && seen.bytes == request->bytes && request->offset_bytes == 0;
}

static void install_mappings(void)
{
    TOLERATE("map_rounds_offset", map, MBR_MISALIGNED, round_offset, false)
    TOLERATE("map_past_end_accepted", map, MBR_OUT_OF_RANGE, NULL, true)
    TOLERATE("map_overlap_accepted", map, MBR_ALREADY_EXISTS, NULL, true)
    TOLERATE("map_twice_accepted", map, MBR_BUSY, NULL, true)
    TOLERATE("map_into_unreserved_accepted", map, MBR_UNKNOWN_OBJECT, is_into_unreserved, true)
    TOLERATE("map_destroyed_accepted", map, MBR_UNKNOWN_OBJECT, is_of_destroyed, true)
    TOLERATE("protect_part_accepted", protect, MBR_INVALID_ARGUMENT, protect_part, true)
    TOLERATE("protect_hole_accepted", protect, MBR_INVALID_ARGUMENT, protect_hole, true)
    TOLERATE("protect_odd_access_accepted", protect, MBR_INVALID_ARGUMENT, protect_odd_access, true)
    TOLERATE("protect_unreserved_accepted", protect, MBR_UNKNOWN_OBJECT, protect_unreserved, true)
    TOLERATE(
        "protect_strange_device_accepted", protect, MBR_OUT_OF_RANGE, protect_strange_device, true)
    TOLERATE("protect_long_range_accepted", protect, MBR_OUT_OF_RANGE, protect_long_range, true)
    TOLERATE("unmap_part_accepted", unmap, MBR_INVALID_ARGUMENT, unmap_part, true)
    TOLERATE("unmap_hole_accepted", unmap, MBR_INVALID_ARGUMENT, unmap_with_hole, true)
    TOLERATE("unmap_twice_accepted", unmap, MBR_INVALID_ARGUMENT, unmap_hole, true)
    TOLERATE("unmap_long_range_accepted", unmap, MBR_OUT_OF_RANGE, NULL, true)
    if (bad_is("map_into_unreserved_accepted") || bad_is("protect_unreserved_accepted"))
        bad.virtual_.unreserve = unreserve_and_remember;
    if (bad_is("map_destroyed_accepted"))
        bad.virtual_.extent_destroy = destroy_and_remember;
}

void bad_install_vir(void)
{
    tolerated = MBR_OK - 1; /* nothing */
    install_reservations();
    install_extents();
    install_mappings();
    bad_install_vir_make();
    bad_install_vir_use();
    bad_install_vir_said();
}
