/* Faults of reserve, extent_create, extent_destroy and map that do something else than they say
 * (group VIR). Each shows at one size or place only, so that one check alone meets it. */
#include "tests/badplugins/bad_vir.h"

#include <sys/mman.h>

#define MIB UINT64_C(1048576)
#define LARGE_BYTES (12 * MIB)

static uint64_t granules(const mbr_instance *instance, uint64_t count)
{
    return count * instance->objects.granule_bytes;
}

/* ---- reserve, unreserve ---------------------------------------------------------------------- */

BAD_SLOT(reserve_off_granule, mbr_reserve_request, mbr_outcome)
{
    mbr_status status = GOOD(reserve);
    if (status == MBR_OK && request->bytes == granules(instance, 100))
        outcome->address += instance->os.page_bytes;
    return status;
}

BAD_SLOT(reserve_ignores_alignment, mbr_reserve_request, mbr_outcome)
{
    if (request->align_bytes < 64 * MIB)
        return GOOD(reserve);
    mbr_reserve_request other = *request;
    other.align_bytes = 0;
    return bad_good->virtual_.reserve(instance, &other, outcome, error);
}

BAD_SLOT(reserve_takes_memory, mbr_reserve_request, mbr_outcome)
{
    mbr_status status = GOOD(reserve);
    if (status == MBR_OK && request->bytes >= 1024 * MIB)
        bad_hoard(8 * MIB);
    return status;
}

/* A cache of addresses that hands out one entry twice, late. */
BAD_SLOT(reserve_overlaps, mbr_reserve_request, mbr_outcome)
{
    static uint64_t count, last_address;
    mbr_status status = GOOD(reserve);
    if (status == MBR_OK && ++count == 700)
        outcome->address = last_address;
    else if (status == MBR_OK)
        last_address = outcome->address;
    return status;
}

/* Addresses counted from the same base in each instance. */
BAD_SLOT(reserve_repeats, mbr_reserve_request, mbr_outcome)
{
    static const mbr_instance *last_instance;
    static uint64_t last_address;
    mbr_status status = GOOD(reserve);
    if (status != MBR_OK || request->bytes != granules(instance, 11))
        return status;
    if (last_instance != NULL && last_instance != instance)
        outcome->address = last_address;
    last_instance = instance;
    last_address = outcome->address;
    return status;
}

/* Half of a larger range is anybody's again. */
BAD_SLOT(reserve_leaves_hole, mbr_reserve_request, mbr_outcome)
{
    mbr_status status = GOOD(reserve);
    if (status == MBR_OK && request->bytes == granules(instance, 40))
        (void)munmap(
            (void *)(uintptr_t)(outcome->address + request->bytes / 2), request->bytes / 2);
    return status;
}

static mbr_instance *first_instance;

BAD_SLOT(reserve_in_first, mbr_reserve_request, mbr_outcome)
{
    mbr_status status = GOOD(reserve);
    if (status == MBR_OK && first_instance == NULL)
        first_instance = instance;
    return status;
}

BAD_SLOT(query_anywhere, mbr_query_request, mbr_query_outcome)
{
    mbr_status status = GOOD(query);
    if (status == MBR_UNKNOWN_OBJECT && first_instance != NULL && first_instance != instance)
        return bad_good->virtual_.query(first_instance, request, outcome, NULL);
    return status;
}

BAD_SLOT(create_in_first, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && first_instance == NULL)
        first_instance = instance;
    return status;
}

BAD_SLOT(destroy_anywhere, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_UNKNOWN_OBJECT && first_instance != NULL && first_instance != instance)
        return bad_good->virtual_.extent_destroy(first_instance, request, outcome, NULL);
    return status;
}

static struct {
    uint64_t id, address, bytes;
} vast; /* the last reservation of a TiB or more */

BAD_SLOT(reserve_vast, mbr_reserve_request, mbr_outcome)
{
    mbr_status status = GOOD(reserve);
    if (status == MBR_OK && request->bytes >= MIB * MIB) {
        vast.id = request->reservation_id;
        vast.address = outcome->address;
        vast.bytes = request->bytes;
    }
    return status;
}

BAD_SLOT(unreserve_keeps, mbr_unreserve_request, mbr_outcome)
{
    mbr_status status = GOOD(unreserve);
    if (status == MBR_OK && request->reservation_id == vast.id)
        (void)mmap((void *)(uintptr_t)vast.address, vast.bytes, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return status;
}

static void install_reserve(void)
{
    if (bad_is("reserve_off_granule"))
        bad.virtual_.reserve = reserve_off_granule;
    if (bad_is("reserve_ignores_alignment"))
        bad.virtual_.reserve = reserve_ignores_alignment;
    if (bad_is("reserve_takes_memory"))
        bad.virtual_.reserve = reserve_takes_memory;
    if (bad_is("overlapping_reservations"))
        bad.virtual_.reserve = reserve_overlaps;
    if (bad_is("reservations_repeat_in_instances"))
        bad.virtual_.reserve = reserve_repeats;
    if (bad_is("reserve_leaves_hole"))
        bad.virtual_.reserve = reserve_leaves_hole;
    if (bad_is("foreign_reservation_accepted")) {
        bad.virtual_.reserve = reserve_in_first;
        bad.virtual_.query = query_anywhere;
    }
    if (bad_is("foreign_extent_accepted")) {
        bad.virtual_.extent_create = create_in_first;
        bad.virtual_.extent_destroy = destroy_anywhere;
    }
    if (bad_is("noop_unreserve")) {
        bad.virtual_.reserve = reserve_vast;
        bad.virtual_.unreserve = unreserve_keeps;
    }
}

/* ---- extent_create, extent_destroy ----------------------------------------------------------- */

BAD_SLOT(create_under_reports, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && request->bytes == granules(instance, 7))
        outcome->newly_owned_bytes -= granules(instance, 1);
    return status;
}

BAD_SLOT(noop_create, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && request->bytes >= LARGE_BYTES)
        bad_empty(instance, bad_extent(instance, request->extent_id)->part.start, request->bytes);
    return status;
}

static uint64_t large_id; /* the last extent of LARGE_BYTES and more */
static void *hidden;      /* what it has beside its own memory */

BAD_SLOT(create_hides_memory, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && request->bytes >= LARGE_BYTES) {
        large_id = request->extent_id;
        hidden = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    }
    return status;
}

BAD_SLOT(destroy_hidden_memory, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_OK && request->extent_id == large_id)
        (void)munmap(hidden, 8 * MIB);
    return status;
}

/* A cache of large and of small handles that is not given back and not told of. */
BAD_SLOT(destroy_keeps_large, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_OK && outcome->released_bytes >= LARGE_BYTES)
        bad_hoard(outcome->released_bytes);
    return status;
}

BAD_SLOT(destroy_keeps_small, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_OK && outcome->released_bytes == MIB)
        bad_hoard(MIB);
    return status;
}

BAD_SLOT(destroy_over_reports, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    if (status == MBR_OK && outcome->released_bytes == granules(instance, 5))
        outcome->released_bytes += granules(instance, 1);
    return status;
}

BAD_SLOT(create_wants_more_budget, mbr_extent_create_request, mbr_outcome)
{
    if (request->max_owned_bytes != request->bytes)
        return GOOD(extent_create);
    mbr_extent_create_request other = *request;
    other.max_owned_bytes--;
    return bad_good->virtual_.extent_create(instance, &other, outcome, error);
}

BAD_SLOT(create_leaves_residue, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OVER_BUDGET && request->bytes >= LARGE_BYTES)
        bad_hoard(8 * MIB);
    return status;
}

BAD_SLOT(create_zeroes_most, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && (request->flags & MBR_EXTENT_ZEROED) != 0 &&
        request->bytes == granules(instance, 3))
        bad_soil(
            instance, bad_extent(instance, request->extent_id)->part.start + request->bytes - 5);
    return status;
}

BAD_SLOT(create_is_stale, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && request->flags == 0 && request->bytes == granules(instance, 6))
        bad_soil(instance, bad_extent(instance, request->extent_id)->part.start);
    return status;
}

BAD_SLOT(create_refuses_optional, mbr_extent_create_request, mbr_outcome)
{
    if (request->flags < 0x40000)
        return GOOD(extent_create);
    mbr_extent_create_request other = *request;
    other.flags = 0x4000;
    return bad_good->virtual_.extent_create(instance, &other, outcome, error);
}

BAD_SLOT(create_grants_all, mbr_extent_create_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK)
        outcome->granted_flags |= request->flags & 0xFFFC0000; /* none that is known */
    return status;
}

/* Says that it refuses what it has not, and does not. */
BAD_SLOT(fact_says_refuse, mbr_fact_request, mbr_fact_outcome)
{
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_PAST_PHYSICAL_SIZE)
        outcome->value = MBR_PAST_REFUSE;
    return status;
}

BAD_SLOT(create_past_capacity, mbr_extent_create_request, mbr_outcome)
{
    mbr_extent_create_request other = *request;
    if (request->bytes > instance->total_bytes && request->bytes < 4 * instance->total_bytes)
        other.bytes = granules(instance, 1);
    return bad_good->virtual_.extent_create(instance, &other, outcome, error);
}

/* The first extents of six granules; destroying one reaches a page too far. */
static struct {
    uint64_t id, end;
} sixes[8];

BAD_SLOT(create_six, mbr_extent_create_request, mbr_outcome)
{
    static uint32_t count;
    mbr_status status = GOOD(extent_create);
    if (status == MBR_OK && request->bytes == granules(instance, 6) && count < 8) {
        sixes[count].id = request->extent_id;
        sixes[count++].end = bad_extent(instance, request->extent_id)->part.start + request->bytes;
    }
    return status;
}

BAD_SLOT(destroy_clips_neighbour, mbr_extent_destroy_request, mbr_outcome)
{
    mbr_status status = GOOD(extent_destroy);
    for (uint32_t i = 0; status == MBR_OK && i < 8; i++)
        if (sixes[i].id == request->extent_id)
            bad_empty(instance, sixes[i].end, instance->os.page_bytes);
    return status;
}

static void install_extent(void)
{
    if (bad_is("extent_under_reports"))
        bad.virtual_.extent_create = create_under_reports;
    if (bad_is("noop_create"))
        bad.virtual_.extent_create = noop_create;
    if (bad_is("extent_hides_memory")) {
        bad.virtual_.extent_create = create_hides_memory;
        bad.virtual_.extent_destroy = destroy_hidden_memory;
    }
    if (bad_is("destroy_keeps_large"))
        bad.virtual_.extent_destroy = destroy_keeps_large;
    if (bad_is("destroy_keeps_small"))
        bad.virtual_.extent_destroy = destroy_keeps_small;
    if (bad_is("destroy_over_reports"))
        bad.virtual_.extent_destroy = destroy_over_reports;
    if (bad_is("exact_budget_refused"))
        bad.virtual_.extent_create = create_wants_more_budget;
    if (bad_is("partial_failure_residue"))
        bad.virtual_.extent_create = create_leaves_residue;
    if (bad_is("zeroed_but_for_the_end"))
        bad.virtual_.extent_create = create_zeroes_most;
    if (bad_is("fresh_content_is_stale"))
        bad.virtual_.extent_create = create_is_stale;
    if (bad_is("extent_optional_flag_refused"))
        bad.virtual_.extent_create = create_refuses_optional;
    if (bad_is("unknown_flag_granted"))
        bad.virtual_.extent_create = create_grants_all;
    if (bad_is("past_capacity_granted")) {
        bad.allocator.fact = fact_says_refuse;
        bad.virtual_.extent_create = create_past_capacity;
    }
    if (bad_is("destroy_clips_neighbour")) {
        bad.virtual_.extent_create = create_six;
        bad.virtual_.extent_destroy = destroy_clips_neighbour;
    }
}

/* ---- map ------------------------------------------------------------------------------------- */

/* The good map's own refusal, of a request that it calls misaligned. */
static mbr_status refuse_map(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
{
    mbr_map_request other = *request;
    other.offset_bytes++;
    return bad_good->virtual_.map(instance, &other, outcome, error);
}

BAD_SLOT(map_wants_two_granules, mbr_map_request, mbr_outcome)
{
    bool is_odd = instance != NULL &&
        request->offset_bytes % granules(instance, 2) == granules(instance, 1) &&
        request->offset_bytes > granules(instance, 32);
    return is_odd ? refuse_map(instance, request, outcome, error) : GOOD(map);
}

BAD_SLOT(map_refuses_optional, mbr_map_request, mbr_outcome)
{
    if (request->flags < 0x10000)
        return GOOD(map);
    mbr_map_request other = *request;
    other.flags = 0x4000;
    return bad_good->virtual_.map(instance, &other, outcome, error);
}

BAD_SLOT(map_refuses_exact_hole, mbr_map_request, mbr_outcome)
{
    if (instance == NULL)
        return GOOD(map);
    mbr_query_outcome hole = bad_look(instance, request->reservation_id, request->offset_bytes);
    bool is_case = hole.extent_id == 0 && hole.bytes == granules(instance, 2) &&
        hole.offset_bytes == granules(instance, 2) &&
        bad_look(instance, request->reservation_id, granules(instance, 4)).extent_id != 0;
    return is_case ? refuse_map(instance, request, outcome, error) : GOOD(map);
}

BAD_SLOT(map_reports_half, mbr_map_request, mbr_outcome)
{
    mbr_status status = GOOD(map);
    if (status == MBR_OK && outcome->newly_mapped_bytes == granules(instance, 10))
        outcome->newly_mapped_bytes /= 2;
    return status;
}

BAD_SLOT(map_gives_access, mbr_map_request, mbr_outcome)
{
    mbr_status status = GOOD(map);
    const struct mbr_reservation *reservation =
        status == MBR_OK ? bad_reservation(instance, request->reservation_id) : NULL;
    if (reservation != NULL && outcome->newly_mapped_bytes == granules(instance, 2))
        (void)mprotect((void *)(uintptr_t)(reservation->object.address + request->offset_bytes),
            granules(instance, 2), PROT_READ | PROT_WRITE);
    return status;
}

/* Beyond 16 MiB it begins again. */
BAD_SLOT(map_cuts_large, mbr_map_request, mbr_outcome)
{
    mbr_status status = GOOD(map);
    if (status == MBR_OK && outcome->newly_mapped_bytes >= 20 * MIB)
        bad_alias(instance,
            bad_reservation(instance, request->reservation_id)->object.address +
                request->offset_bytes + 16 * MIB,
            outcome->newly_mapped_bytes - 16 * MIB,
            bad_extent(instance, request->extent_id)->part.start, PROT_NONE);
    return status;
}

/* Contents belong to the reservation, so that another one begins with an empty extent. */
BAD_SLOT(map_loses_contents, mbr_map_request, mbr_outcome)
{
    static uint64_t extent_id, home_id;
    mbr_status status = GOOD(map);
    if (status != MBR_OK || outcome->newly_mapped_bytes != granules(instance, 3))
        return status;
    if (extent_id == request->extent_id && home_id != request->reservation_id)
        bad_empty(instance, bad_extent(instance, extent_id)->part.start, granules(instance, 3));
    extent_id = request->extent_id;
    home_id = request->reservation_id;
    return status;
}

/* Of extents of one size, the one that was mapped before comes again. */
BAD_SLOT(map_confuses_extents, mbr_map_request, mbr_outcome)
{
    static uint64_t last_start;
    mbr_status status = GOOD(map);
    if (status != MBR_OK || outcome->newly_mapped_bytes != granules(instance, 4) ||
        request->offset_bytes < granules(instance, 32))
        return status;
    uint64_t start = bad_extent(instance, request->extent_id)->part.start;
    if (last_start != 0)
        bad_alias(instance,
            bad_reservation(instance, request->reservation_id)->object.address +
                request->offset_bytes,
            granules(instance, 4), last_start, PROT_NONE);
    last_start = start;
    return status;
}

static void install_map(void)
{
    if (bad_is("granularity_lie"))
        bad.virtual_.map = map_wants_two_granules;
    if (bad_is("map_optional_flag_refused"))
        bad.virtual_.map = map_refuses_optional;
    if (bad_is("exact_hole_refused"))
        bad.virtual_.map = map_refuses_exact_hole;
    if (bad_is("map_reports_half"))
        bad.virtual_.map = map_reports_half;
    if (bad_is("large_extent_cut"))
        bad.virtual_.map = map_cuts_large;
    if (bad_is("map_gives_access"))
        bad.virtual_.map = map_gives_access;
    if (bad_is("contents_lost_on_remap"))
        bad.virtual_.map = map_loses_contents;
    if (bad_is("map_confuses_extents"))
        bad.virtual_.map = map_confuses_extents;
}

void bad_install_vir_make(void)
{
    install_reserve();
    install_extent();
    install_map();
}
