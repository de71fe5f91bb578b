/* Faults of protect, unmap, query and stats that do or tell something else than they should (group
 * VIR). Each shows at one size or place only, so that one check alone meets it. */
#include "tests/badplugins/bad_vir.h"

#include <sys/mman.h>

static uint64_t granules(const mbr_instance *instance, uint64_t count)
{
    return count * instance->objects.granule_bytes;
}

static void set_access(
    mbr_instance *instance, uint64_t reservation_id, uint64_t offset_bytes, uint64_t bytes, int how)
{
    const struct mbr_reservation *reservation = bad_reservation(instance, reservation_id);
    if (reservation != NULL)
        (void)mprotect((void *)(uintptr_t)(reservation->object.address + offset_bytes), bytes, how);
}

/* ---- protect --------------------------------------------------------------------------------- */

/* Whether protect gave this many granules this access. */
static bool is_given(const mbr_instance *instance, const mbr_protect_request *request,
    mbr_status status, uint64_t count, uint32_t access)
{
    return status == MBR_OK && request->bytes == granules(instance, count) &&
        request->access[0].access == access;
}

/* The work is queued, and done with the next call. */
BAD_SLOT(protect_later, mbr_protect_request, mbr_outcome)
{
    static mbr_protect_request queued;
    if (queued.bytes != 0)
        set_access(instance, queued.reservation_id, queued.offset_bytes, queued.bytes,
            PROT_READ | PROT_WRITE);
    queued.bytes = 0;
    mbr_status status = GOOD(protect);
    if (is_given(instance, request, status, 4, MBR_ACCESS_READ_WRITE)) {
        queued = *request;
        set_access(
            instance, request->reservation_id, request->offset_bytes, request->bytes, PROT_NONE);
    }
    return status;
}

BAD_SLOT(noop_protect, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (is_given(instance, request, status, 3, MBR_ACCESS_READ))
        set_access(instance, request->reservation_id, request->offset_bytes, request->bytes,
            PROT_READ | PROT_WRITE);
    return status;
}

BAD_SLOT(protect_leaves_reading, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (is_given(instance, request, status, 2, MBR_ACCESS_NONE))
        set_access(
            instance, request->reservation_id, request->offset_bytes, request->bytes, PROT_READ);
    return status;
}

BAD_SLOT(protect_loses_contents, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (is_given(instance, request, status, 12, MBR_ACCESS_NONE)) {
        mbr_query_outcome seen = bad_look(instance, request->reservation_id, request->offset_bytes);
        bad_empty(instance, bad_extent(instance, seen.extent_id)->part.start, seen.bytes);
    }
    return status;
}

BAD_SLOT(protect_first_only, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (!is_given(instance, request, status, 6, MBR_ACCESS_READ_WRITE))
        return status;
    mbr_query_outcome first = bad_look(instance, request->reservation_id, request->offset_bytes);
    if (first.bytes < request->bytes)
        set_access(instance, request->reservation_id, request->offset_bytes + first.bytes,
            request->bytes - first.bytes, PROT_NONE);
    return status;
}

/* The last granule of nine is the first one once more. */
BAD_SLOT(protect_wraps, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (!is_given(instance, request, status, 9, MBR_ACCESS_READ_WRITE))
        return status;
    mbr_query_outcome seen = bad_look(instance, request->reservation_id, request->offset_bytes);
    uint64_t address = bad_reservation(instance, request->reservation_id)->object.address;
    bad_alias(instance, address + request->offset_bytes + granules(instance, 8),
        granules(instance, 1), bad_extent(instance, seen.extent_id)->part.start,
        PROT_READ | PROT_WRITE);
    return status;
}

BAD_SLOT(protect_spills, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (!is_given(instance, request, status, 2, MBR_ACCESS_NONE))
        return status;
    uint64_t end = request->offset_bytes + request->bytes;
    mbr_query_outcome here = bad_look(instance, request->reservation_id, request->offset_bytes);
    mbr_query_outcome next = bad_look(instance, request->reservation_id, end);
    if (next.extent_id != 0 && next.extent_id != here.extent_id)
        set_access(instance, request->reservation_id, end, next.bytes, PROT_NONE);
    return status;
}

BAD_SLOT(protect_does_half, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (status == MBR_OK || request->access_count != 1 || request->access == NULL ||
        request->access[0].access != MBR_ACCESS_NONE)
        return status;
    mbr_query_outcome first = bad_look(instance, request->reservation_id, request->offset_bytes);
    if (first.extent_id != 0 && first.bytes < request->bytes)
        set_access(instance, request->reservation_id, first.offset_bytes, first.bytes, PROT_NONE);
    return status;
}

BAD_SLOT(protect_says_zero, mbr_protect_request, mbr_outcome)
{
    mbr_status status = GOOD(protect);
    if (is_given(instance, request, status, 2, MBR_ACCESS_READ))
        outcome->content = MBR_CONTENT_ZERO;
    return status;
}

static void install_protect(void)
{
    if (bad_is("used_memory_said_zero"))
        bad.virtual_.protect = protect_says_zero;
    if (bad_is("usable_later"))
        bad.virtual_.protect = protect_later;
    if (bad_is("noop_protect"))
        bad.virtual_.protect = noop_protect;
    if (bad_is("protect_leaves_reading"))
        bad.virtual_.protect = protect_leaves_reading;
    if (bad_is("protect_loses_contents"))
        bad.virtual_.protect = protect_loses_contents;
    if (bad_is("protect_first_only"))
        bad.virtual_.protect = protect_first_only;
    if (bad_is("mapping_wraps"))
        bad.virtual_.protect = protect_wraps;
    if (bad_is("protect_spills"))
        bad.virtual_.protect = protect_spills;
    if (bad_is("protect_half_done"))
        bad.virtual_.protect = protect_does_half;
}

/* ---- unmap ----------------------------------------------------------------------------------- */

BAD_SLOT(unmap_under_reports, mbr_unmap_request, mbr_outcome)
{
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && request->bytes == granules(instance, 13))
        outcome->unmapped_bytes -= granules(instance, 1);
    return status;
}

/* On the books only. */
BAD_SLOT(noop_unmap, mbr_unmap_request, mbr_outcome)
{
    mbr_query_outcome seen = bad_look(instance, request->reservation_id, request->offset_bytes);
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && request->bytes == granules(instance, 14))
        bad_alias(instance,
            bad_reservation(instance, request->reservation_id)->object.address +
                request->offset_bytes,
            request->bytes, bad_extent(instance, seen.extent_id)->part.start,
            PROT_READ | PROT_WRITE);
    return status;
}

BAD_SLOT(unmap_gives_addresses, mbr_unmap_request, mbr_outcome)
{
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && request->bytes == granules(instance, 11))
        (void)munmap(
            (void *)(uintptr_t)(bad_reservation(instance, request->reservation_id)->object.address +
                request->offset_bytes),
            request->bytes);
    return status;
}

BAD_SLOT(unmap_takes_neighbour, mbr_unmap_request, mbr_outcome)
{
    mbr_query_outcome seen = bad_look(instance, request->reservation_id, request->offset_bytes);
    mbr_status status = GOOD(unmap);
    if (status != MBR_OK || request->bytes != granules(instance, 3))
        return status;
    uint64_t end = request->offset_bytes + request->bytes;
    mbr_query_outcome next = bad_look(instance, request->reservation_id, end);
    if (next.extent_id != 0 && next.extent_id != seen.extent_id)
        set_access(instance, request->reservation_id, end, next.bytes, PROT_NONE);
    return status;
}

/* Whether the range has more than one mapping. */
static bool is_span(mbr_instance *instance, const mbr_unmap_request *request, uint64_t *first_bytes)
{
    mbr_query_outcome first = bad_look(instance, request->reservation_id, request->offset_bytes);
    *first_bytes = first.bytes;
    return first.extent_id != 0 && first.bytes < request->bytes &&
        request->bytes == granules(instance, 6);
}

BAD_SLOT(unmap_first_only, mbr_unmap_request, mbr_outcome)
{
    mbr_unmap_request other;
    uint64_t first_bytes;
    if (!is_span(instance, request, &first_bytes))
        return GOOD(unmap);
    other = *request;
    other.bytes = first_bytes;
    mbr_status status = bad_good->virtual_.unmap(instance, &other, outcome, error);
    if (status == MBR_OK)
        outcome->unmapped_bytes = request->bytes;
    return status;
}

BAD_SLOT(unmap_one_at_a_time, mbr_unmap_request, mbr_outcome)
{
    mbr_unmap_request other;
    uint64_t first_bytes;
    if (!is_span(instance, request, &first_bytes))
        return GOOD(unmap);
    other = *request;
    other.bytes++;
    return bad_good->virtual_.unmap(instance, &other, outcome, error);
}

static void install_unmap(void)
{
    if (bad_is("unmap_under_reports"))
        bad.virtual_.unmap = unmap_under_reports;
    if (bad_is("noop_unmap"))
        bad.virtual_.unmap = noop_unmap;
    if (bad_is("unmap_gives_addresses"))
        bad.virtual_.unmap = unmap_gives_addresses;
    if (bad_is("unmap_takes_neighbour"))
        bad.virtual_.unmap = unmap_takes_neighbour;
    if (bad_is("unmap_first_only"))
        bad.virtual_.unmap = unmap_first_only;
    if (bad_is("unmap_spans_lie"))
        bad.virtual_.unmap = unmap_one_at_a_time;
}

/* ---- query ----------------------------------------------------------------------------------- */

BAD_SLOT(query_from_here, mbr_query_request, mbr_query_outcome)
{
    mbr_status status = GOOD(query);
    if (status == MBR_OK && outcome->extent_id != 0 && outcome->bytes == granules(instance, 3)) {
        outcome->bytes -= request->offset_bytes - outcome->offset_bytes;
        outcome->offset_bytes = request->offset_bytes;
    }
    return status;
}

BAD_SLOT(query_runs_on, mbr_query_request, mbr_query_outcome)
{
    mbr_status status = GOOD(query);
    if (status == MBR_OK && outcome->extent_id == 0 && outcome->bytes == granules(instance, 3) &&
        outcome->offset_bytes == granules(instance, 5))
        outcome->bytes = granules(instance, 7);
    return status;
}

BAD_SLOT(query_first_access, mbr_query_request, mbr_query_outcome)
{
    mbr_status status = GOOD(query);
    if (status != MBR_OK || outcome->extent_id == 0 || outcome->access != MBR_ACCESS_READ)
        return status;
    const struct mbr_host_extent *extent = bad_extent(instance, outcome->extent_id);
    if (extent != NULL && extent->extent.mapping_count == 1)
        outcome->access = MBR_ACCESS_READ_WRITE;
    return status;
}

static mbr_query_outcome ghost; /* what was unmapped last */
static uint64_t ghost_reservation_id;

BAD_SLOT(unmap_leaves_ghost, mbr_unmap_request, mbr_outcome)
{
    mbr_query_outcome seen = bad_look(instance, request->reservation_id, request->offset_bytes);
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && request->bytes == granules(instance, 2) &&
        request->offset_bytes == granules(instance, 1)) {
        ghost = seen;
        ghost_reservation_id = request->reservation_id;
    }
    return status;
}

BAD_SLOT(query_tells_ghost, mbr_query_request, mbr_query_outcome)
{
    mbr_status status = GOOD(query);
    if (status == MBR_OK && ghost.extent_id != 0 &&
        request->reservation_id == ghost_reservation_id &&
        request->offset_bytes == ghost.offset_bytes)
        *outcome = ghost;
    return status;
}

BAD_SLOT(query_anything, mbr_query_request, mbr_query_outcome)
{
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status = bad_good->virtual_.query(instance, request, outcome, &own);
    if (status == MBR_OUT_OF_RANGE)
        return MBR_OK;
    if (status != MBR_OK && error != NULL)
        mbr_error_copy(error, &own);
    return status;
}

BAD_SLOT(query_of_granules, mbr_query_request, mbr_query_outcome)
{
    if (request->offset_bytes % instance->objects.granule_bytes == 0)
        return GOOD(query);
    *outcome = (mbr_query_outcome){.struct_size = outcome->struct_size};
    return mbr_fail(error, MBR_MISALIGNED, "%lu is no multiple", request->offset_bytes);
}

static void install_query(void)
{
    if (bad_is("query_wants_granules"))
        bad.virtual_.query = query_of_granules;
    if (bad_is("query_from_here"))
        bad.virtual_.query = query_from_here;
    if (bad_is("query_runs_on"))
        bad.virtual_.query = query_runs_on;
    if (bad_is("query_stale_access"))
        bad.virtual_.query = query_first_access;
    if (bad_is("query_tells_ghost")) {
        bad.virtual_.query = query_tells_ghost;
        bad.virtual_.unmap = unmap_leaves_ghost;
    }
    if (bad_is("query_past_end_accepted"))
        bad.virtual_.query = query_anything;
}

/* ---- stats ----------------------------------------------------------------------------------- */

static uint64_t more_reserved, more_mapped; /* what stats tells on top */
static uint64_t made_bytes;                 /* of the last extent */

BAD_SLOT(stats_with_more, mbr_stats_request, mbr_mechanism_stats)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK) {
        outcome->reserved_bytes += more_reserved;
        outcome->mapped_bytes += more_mapped;
    }
    return status;
}

BAD_SLOT(stats_of_mapped_only, mbr_stats_request, mbr_mechanism_stats)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK && outcome->mapped_bytes == 0 && made_bytes == granules(instance, 3))
        outcome->owned_bytes = 0;
    return status;
}

BAD_SLOT(create_and_remember, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK)
        made_bytes = request->bytes;
    return status;
}

static uint64_t fives[8]; /* the first reservations of five granules */

BAD_SLOT(reserve_five, mbr_reserve_request, mbr_outcome)
{
    static uint32_t count;
    mbr_status status = GOOD(reserve);
    if (status == MBR_OK && request->bytes == granules(instance, 5) && count < 8)
        fives[count++] = request->reservation_id;
    return status;
}

BAD_SLOT(unreserve_uncounted, mbr_unreserve_request, mbr_outcome)
{
    mbr_status status = GOOD(unreserve);
    for (uint32_t i = 0; status == MBR_OK && i < 8; i++)
        if (fives[i] == request->reservation_id)
            more_reserved += granules(instance, 5);
    return status;
}

BAD_SLOT(unmap_uncounted, mbr_unmap_request, mbr_outcome)
{
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && request->bytes == granules(instance, 3))
        more_mapped += request->bytes;
    return status;
}

BAD_SLOT(unmap_drifts, mbr_unmap_request, mbr_outcome)
{
    static uint32_t count;
    mbr_status status = GOOD(unmap);
    if (status == MBR_OK && ++count == 50)
        more_mapped += granules(instance, 1);
    return status;
}

BAD_SLOT(map_counts_refused, mbr_map_request, mbr_outcome)
{
    mbr_status status = GOOD(map);
    if (status == MBR_ALREADY_EXISTS)
        more_mapped += granules(instance, 1);
    return status;
}

static void install_stats(void)
{
    bool is_more = true;
    if (bad_is("unreserve_not_counted")) {
        bad.virtual_.reserve = reserve_five;
        bad.virtual_.unreserve = unreserve_uncounted;
    } else if (bad_is("unmap_not_counted")) {
        bad.virtual_.unmap = unmap_uncounted;
    } else if (bad_is("mapped_figure_drifts")) {
        bad.virtual_.unmap = unmap_drifts;
    } else if (bad_is("refused_map_counted")) {
        bad.virtual_.map = map_counts_refused;
    } else {
        is_more = false;
    }
    if (is_more)
        bad.allocator.stats = stats_with_more;
    if (bad_is("reports_zero_while_alive")) {
        bad.virtual_.extent_create = create_and_remember;
        bad.allocator.stats = stats_of_mapped_only;
    }
}

void bad_install_vir_use(void)
{
    install_protect();
    install_unmap();
    install_query();
    install_stats();
}
