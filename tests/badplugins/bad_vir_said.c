/* Faults of what virtual memory says of itself: statuses, figures, grants and facts that are not so
 * (group VIR, and ERR of its slots). */
#include "tests/badplugins/bad_vir.h"

#include <unistd.h>

/* ---- Limits ---------------------------------------------------------------------------------- */

static bool is_above_limit(mbr_status status, uint64_t bytes)
{
    return status == MBR_INVALID_ARGUMENT && bytes > MBR_HOST_OBJECT_MAX_BYTES &&
        bytes < UINT64_C(1) << 60;
}

BAD_SLOT(reserve_limit_exhausted, mbr_reserve_request, mbr_outcome)
{
    mbr_status status = GOOD(reserve);
    return is_above_limit(status, request->bytes)
        ? mbr_fail(error, MBR_OUT_OF_ADDRESSES, "no addresses")
        : status;
}

BAD_SLOT(create_limit_exhausted, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    return is_above_limit(status, request->bytes) ? mbr_fail(error, MBR_OUT_OF_MEMORY, "no memory")
                                                  : status;
}

/* One table for all classes. */
BAD_SLOT(create_in_one_table, mbr_extent_create_request, mbr_outcome)
{
    return bad_reservation(instance, request->extent_id) != NULL
        ? mbr_fail(error, MBR_ALREADY_EXISTS, "the number is a reservation's")
        : GOOD(extent_create);
}

/* ---- Grants and facts ------------------------------------------------------------------------ */

BAD_SLOT(create_grants_huge, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK)
        outcome->granted_flags |= request->flags & MBR_EXTENT_HUGE_PAGES;
    return status;
}

BAD_SLOT(create_grants_node, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK)
        outcome->granted_flags |= request->flags & MBR_EXTENT_ON_NUMA_NODE;
    return status;
}

#define HOLDERS 4096

static struct {
    uint64_t id;
    int file;
} holders[HOLDERS]; /* by the id's low bits; the last one stays */

BAD_SLOT(create_holds_descriptor, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && holders[request->extent_id % HOLDERS].id == 0) {
        holders[request->extent_id % HOLDERS].id = request->extent_id;
        holders[request->extent_id % HOLDERS].file = dup(instance->file);
    }
    return status;
}

BAD_SLOT(destroy_drops_descriptor, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_OK && holders[request->extent_id % HOLDERS].id == request->extent_id) {
        holders[request->extent_id % HOLDERS].id = 0;
        (void)close(holders[request->extent_id % HOLDERS].file);
    }
    return status;
}

BAD_SLOT(create_says_stale, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && request->flags == 0)
        outcome->content = MBR_CONTENT_STALE;
    return status;
}

/* ---- Figures --------------------------------------------------------------------------------- */

BAD_SLOT(map_says_zero, mbr_map_request, mbr_outcome)
{
    mbr_status status = GOOD(map);
    if (status == MBR_OK && outcome->newly_mapped_bytes == 5 * instance->objects.granule_bytes)
        outcome->content = MBR_CONTENT_ZERO;
    return status;
}

BAD_SLOT(map_tells_address, mbr_map_request, mbr_outcome)
{
    mbr_status status = GOOD(map);
    if (status == MBR_OK)
        outcome->address = bad_reservation(instance, request->reservation_id)->object.address +
            request->offset_bytes;
    return status;
}

BAD_SLOT(protect_counts_again, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (status == MBR_OK && request->access[0].access != MBR_ACCESS_NONE)
        outcome->newly_mapped_bytes = request->bytes;
    return status;
}

BAD_SLOT(protect_takes_first, mbr_protect_request, mbr_outcome)
{
    mbr_protect_request other = *request;
    if (request->access_count == 2 &&
        request->access[0].device_index == request->access[1].device_index)
        other.access_count = 1;
    return bad_good->virtual_.protect(instance, &other, outcome, error);
}

void bad_install_vir_said(void)
{
    if (bad_is("reservation_limit_is_exhausted"))
        bad.virtual_.reserve = reserve_limit_exhausted;
    if (bad_is("extent_limit_is_exhausted"))
        bad.virtual_.extent_create = create_limit_exhausted;
    if (bad_is("one_number_for_all_classes"))
        bad.virtual_.extent_create = create_in_one_table;
    if (bad_is("huge_pages_granted_for_nothing"))
        bad.virtual_.extent_create = create_grants_huge;
    if (bad_is("node_of_nowhere_granted"))
        bad.virtual_.extent_create = create_grants_node;
    if (bad_is("fresh_extent_said_stale"))
        bad.virtual_.extent_create = create_says_stale;
    if (bad_is("extent_hides_descriptor")) {
        bad.virtual_.extent_create = create_holds_descriptor;
        bad.virtual_.extent_destroy = destroy_drops_descriptor;
    }
    if (bad_is("mapped_memory_said_zero"))
        bad.virtual_.map = map_says_zero;
    if (bad_is("map_tells_an_address"))
        bad.virtual_.map = map_tells_address;
    if (bad_is("protect_counts_again"))
        bad.virtual_.protect = protect_counts_again;
    if (bad_is("doubled_device_accepted"))
        bad.virtual_.protect = protect_takes_first;
}
