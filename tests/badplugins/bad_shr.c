/* Faults of map_shared, and of the end of what is shared (group SHR). Each shows at one size or
 * place only, so that one check alone meets it. */
#include "tests/badplugins/bad_vir.h"

#include <sys/mman.h>

#define MIB UINT64_C(1048576)
#define SHARE(name) BAD_SLOT(name, mbr_map_shared_request, mbr_outcome)
#define GOOD_SHARE() bad_good->shared.map_shared(instance, request, outcome, error)

static uint64_t granules(const mbr_instance *instance, uint64_t count)
{
    return count * instance->objects.granule_bytes;
}

static uint64_t address_of(mbr_instance *instance, uint64_t reservation_id, uint64_t offset_bytes)
{
    const struct mbr_reservation *reservation = bad_reservation(instance, reservation_id);
    return reservation == NULL ? 0 : reservation->object.address + offset_bytes;
}

/* A sharer right behind its owner, of two granules. */
static bool is_first_sharer(const mbr_instance *instance, const mbr_map_shared_request *request,
    mbr_status status, const mbr_outcome *outcome, uint32_t access)
{
    return status == MBR_OK && outcome->newly_mapped_bytes == granules(instance, 2) &&
        request->offset_bytes == granules(instance, 2) && request->access[0].access == access;
}

/* ---- The memory ------------------------------------------------------------------------------ */

SHARE(share_a_copy)
{
    mbr_status status = GOOD_SHARE();
    if (is_first_sharer(instance, request, status, outcome, MBR_ACCESS_READ_WRITE))
        (void)mmap(
            (void *)(uintptr_t)address_of(instance, request->reservation_id, request->offset_bytes),
            outcome->newly_mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
            instance->file, (off_t)bad_extent(instance, request->extent_id)->part.start);
    return status;
}

SHARE(share_owns_again)
{
    mbr_status status = GOOD_SHARE();
    if (status == MBR_OK && outcome->newly_mapped_bytes == granules(instance, 3))
        outcome->newly_owned_bytes = outcome->newly_mapped_bytes;
    return status;
}

SHARE(share_says_zero)
{
    mbr_status status = GOOD_SHARE();
    if (status == MBR_OK && outcome->newly_mapped_bytes == granules(instance, 2))
        outcome->content = MBR_CONTENT_ZERO;
    return status;
}

static uint64_t more_owned; /* what stats tells on top */

SHARE(share_counts_as_owned)
{
    mbr_status status = GOOD_SHARE();
    if (status == MBR_OK)
        more_owned += outcome->newly_mapped_bytes;
    return status;
}

BAD_SLOT(stats_with_sharers, mbr_stats_request, mbr_mechanism_stats)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK)
        outcome->owned_bytes += more_owned;
    return status;
}

SHARE(share_costs_memory)
{
    mbr_status status = GOOD_SHARE();
    if (status == MBR_OK && outcome->newly_mapped_bytes >= 4 * MIB &&
        request->offset_bytes >= 3 * outcome->newly_mapped_bytes)
        bad_hoard(2 * MIB);
    return status;
}

SHARE(share_two_hundred)
{
    static uint32_t count;
    mbr_status status = GOOD_SHARE();
    if (status == MBR_OK && ++count > 200)
        (void)mmap(
            (void *)(uintptr_t)address_of(instance, request->reservation_id, request->offset_bytes),
            outcome->newly_mapped_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return status;
}

static void install_memory(void)
{
    if (bad_is("shared_is_a_copy"))
        bad.shared.map_shared = share_a_copy;
    if (bad_is("owns_shared_twice"))
        bad.shared.map_shared = share_owns_again;
    if (bad_is("stats_owns_shared_twice")) {
        bad.shared.map_shared = share_counts_as_owned;
        bad.allocator.stats = stats_with_sharers;
    }
    if (bad_is("shared_memory_said_zero"))
        bad.shared.map_shared = share_says_zero;
    if (bad_is("shared_costs_memory"))
        bad.shared.map_shared = share_costs_memory;
    if (bad_is("sharers_beyond_200_see_nothing"))
        bad.shared.map_shared = share_two_hundred;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* An unmap of one of several mappings: what it was, and how many there were. */
static uint32_t look_before(
    mbr_instance *instance, const mbr_unmap_request *request, mbr_query_outcome *seen)
{
    *seen = bad_look(instance, request->reservation_id, request->offset_bytes);
    return seen->extent_id == 0 ? 0 : bad_extent(instance, seen->extent_id)->extent.mapping_count;
}

BAD_SLOT(unmap_first_ends_all, mbr_unmap_request, mbr_outcome)
{
    mbr_query_outcome seen;
    uint32_t count = look_before(instance, request, &seen);
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && count > 1 && request->offset_bytes == 0 &&
        seen.bytes == granules(instance, 2))
        bad_empty(instance, bad_extent(instance, seen.extent_id)->part.start, seen.bytes);
    return status;
}

BAD_SLOT(unmap_ends_owner, mbr_unmap_request, mbr_outcome)
{
    mbr_query_outcome seen;
    uint32_t count = look_before(instance, request, &seen);
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && count > 1 && request->offset_bytes == granules(instance, 4) &&
        seen.bytes == granules(instance, 2))
        (void)mprotect((void *)(uintptr_t)address_of(instance, request->reservation_id, 0),
            seen.bytes, PROT_NONE);
    return status;
}

BAD_SLOT(unmap_releases, mbr_unmap_request, mbr_outcome)
{
    mbr_query_outcome seen;
    uint32_t count = look_before(instance, request, &seen);
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && count > 1 && seen.bytes == granules(instance, 3))
        outcome->released_bytes = seen.bytes;
    return status;
}

static uint64_t shared_id; /* the last extent that got a sharer */

SHARE(share_and_remember)
{
    mbr_status status = GOOD_SHARE();
    if (status == MBR_OK)
        shared_id = request->extent_id;
    return status;
}

BAD_SLOT(destroy_counts_first_only, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status = bad_good->virtual_.extent_destroy(instance, request, outcome, &own);
    if (status == MBR_BUSY && request->extent_id == shared_id &&
        bad_extent(instance, shared_id)->extent.mapping_count == 1) {
        outcome->state = MBR_STATE_DONE;
        return MBR_OK;
    }
    if (status != MBR_OK && error != NULL)
        mbr_error_copy(error, &own);
    return status;
}

BAD_SLOT(destroy_keeps_shared, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_OK && request->extent_id == shared_id && outcome->released_bytes >= 4 * MIB)
        bad_hoard(outcome->released_bytes);
    return status;
}

BAD_SLOT(report_without_sharers, mbr_report_request, mbr_report)
{
    mbr_status status = bad_good->plugin.report(instance, request, outcome, error);
    if (status == MBR_OK && outcome->mapping_count > outcome->extent_count)
        outcome->mapping_count = outcome->extent_count;
    return status;
}

static void install_end(void)
{
    if (bad_is("shared_dies_with_first_mapping"))
        bad.virtual_.unmap = unmap_first_ends_all;
    if (bad_is("owner_dies_with_sharer"))
        bad.virtual_.unmap = unmap_ends_owner;
    if (bad_is("shared_unmap_releases"))
        bad.virtual_.unmap = unmap_releases;
    if (bad_is("destroy_with_sharer_accepted")) {
        bad.shared.map_shared = share_and_remember;
        bad.virtual_.extent_destroy = destroy_counts_first_only;
    }
    if (bad_is("shared_never_given_back")) {
        bad.shared.map_shared = share_and_remember;
        bad.virtual_.extent_destroy = destroy_keeps_shared;
    }
    if (bad_is("report_forgets_sharers"))
        bad.plugin.report = report_without_sharers;
}

/* ---- Access ---------------------------------------------------------------------------------- */

SHARE(share_writable)
{
    mbr_status status = GOOD_SHARE();
    if (is_first_sharer(instance, request, status, outcome, MBR_ACCESS_READ))
        (void)mprotect(
            (void *)(uintptr_t)address_of(instance, request->reservation_id, request->offset_bytes),
            outcome->newly_mapped_bytes, PROT_READ | PROT_WRITE);
    return status;
}

/* The access of the extent, and not of its mapping. */
BAD_SLOT(protect_all_mappings, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (status != MBR_OK || request->offset_bytes != 0 ||
        request->access[0].access != MBR_ACCESS_READ)
        return status;
    mbr_query_outcome here = bad_look(instance, request->reservation_id, 0);
    mbr_query_outcome other = bad_look(instance, request->reservation_id, 2 * here.bytes);
    if (here.extent_id == other.extent_id && here.extent_id != 0)
        (void)mprotect(
            (void *)(uintptr_t)address_of(instance, request->reservation_id, 2 * here.bytes),
            here.bytes, PROT_READ);
    return status;
}

BAD_SLOT(query_owners_access, mbr_query_request, mbr_query_outcome)
{
    mbr_status status = GOOD(query);
    if (status != MBR_OK || outcome->extent_id == 0)
        return status;
    const struct mbr_host_extent *extent = bad_extent(instance, outcome->extent_id);
    if (extent != NULL && extent->extent.mapping_count > 1)
        outcome->access = MBR_ACCESS_READ_WRITE;
    return status;
}

static void install_access(void)
{
    if (bad_is("sharer_can_write"))
        bad.shared.map_shared = share_writable;
    if (bad_is("sharers_have_owners_access"))
        bad.virtual_.protect = protect_all_mappings;
    if (bad_is("query_tells_owners_access"))
        bad.virtual_.query = query_owners_access;
}

/* ---- Refusals that are not made -------------------------------------------------------------- */

static mbr_status tolerated;
static bool (*is_tolerated)(mbr_instance *instance, const mbr_map_shared_request *request);

SHARE(share_tolerant)
{
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status = bad_good->shared.map_shared(instance, request, outcome, &own);
    if (status == tolerated && (is_tolerated == NULL || is_tolerated(instance, request))) {
        outcome->state = MBR_STATE_DONE;
        return MBR_OK;
    }
    if (status != MBR_OK && error != NULL)
        mbr_error_copy(error, &own);
    return status;
}

static bool is_not_mapped(mbr_instance *instance, const mbr_map_shared_request *request)
{
    const struct mbr_host_extent *extent = bad_extent(instance, request->extent_id);
    return extent != NULL && extent->extent.mapping_count == 0;
}

static uint64_t destroyed_id; /* the last one */

BAD_SLOT(destroy_and_remember, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_OK)
        destroyed_id = request->extent_id;
    return status;
}

static bool is_destroyed(mbr_instance *instance, const mbr_map_shared_request *request)
{
    (void)instance;
    return request->extent_id == destroyed_id;
}

static bool is_access_4(mbr_instance *instance, const mbr_map_shared_request *request)
{
    (void)instance;
    return request->access_count == 1 && request->access != NULL && request->access[0].access == 4;
}

/* The last entry of a device holds. */
SHARE(share_takes_last)
{
    mbr_map_shared_request other = *request;
    if (request->access_count == 2 && request->access != NULL &&
        request->access[0].device_index == request->access[1].device_index) {
        other.access_count = 1;
        other.access = &request->access[1];
    }
    return bad_good->shared.map_shared(instance, &other, outcome, error);
}

/* Maps first and looks at the access then. */
SHARE(share_stays_mapped)
{
    mbr_status status = GOOD_SHARE();
    if (status != MBR_INVALID_ARGUMENT || request->access_count != 1 || request->access == NULL ||
        request->access[0].access != 2)
        return status;
    const mbr_access list = {request->access[0].device_index, MBR_ACCESS_READ};
    mbr_map_shared_request other = *request;
    mbr_outcome own = {MBR_SIZED(mbr_outcome)};
    other.access = &list;
    (void)bad_good->shared.map_shared(instance, &other, &own, NULL);
    return status;
}

static void tolerate(const char *fault, mbr_status status,
    bool (*is_case)(mbr_instance *, const mbr_map_shared_request *))
{
    if (!bad_is(fault))
        return;
    tolerated = status;
    is_tolerated = is_case;
    bad.shared.map_shared = share_tolerant;
}

static void install_refusals(void)
{
    tolerate("share_unmapped_accepted", MBR_INVALID_ARGUMENT, is_not_mapped);
    tolerate("share_destroyed_accepted", MBR_UNKNOWN_OBJECT, is_destroyed);
    tolerate("share_misaligned_accepted", MBR_MISALIGNED, NULL);
    tolerate("share_overlap_accepted", MBR_ALREADY_EXISTS, NULL);
    tolerate("share_past_end_accepted", MBR_OUT_OF_RANGE, NULL);
    tolerate("share_odd_access_accepted", MBR_INVALID_ARGUMENT, is_access_4);
    if (bad_is("share_destroyed_accepted"))
        bad.virtual_.extent_destroy = destroy_and_remember;
    if (bad_is("share_doubled_device_accepted"))
        bad.shared.map_shared = share_takes_last;
    if (bad_is("share_refused_but_mapped"))
        bad.shared.map_shared = share_stays_mapped;
}

void bad_install_shr(void)
{
    install_memory();
    install_end();
    install_access();
    install_refusals();
}
