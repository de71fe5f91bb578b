/* Faults that time or many calls show: slots that wait (group PRF), and what goes wrong late
 * (group SOK). */
#include "tests/badplugins/bad_alc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_US 150000
#define QUICK_COUNT 12u /* calls of one kind before it waits */
#define LATE_ALLOCATIONS 12000u
#define LATE_MAPPINGS 1500u

/* The same kind of call, again and again; 0 is none. */
static void wait_if_same(uint64_t kind)
{
    static uint64_t last_kind;
    static uint32_t same_count;
    same_count = kind == last_kind && kind != 0 ? same_count + 1 : 0;
    last_kind = kind;
    if (same_count >= QUICK_COUNT)
        usleep(WAIT_US);
}

static mbr_status release(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    const struct bad_allocation *one = bad_allocation_find(request->allocation_id);
    if (one != NULL) /* of one class of sizes */
        wait_if_same(one->bytes > 90000 && one->bytes < 100000 ? one->bytes : 0);
    return bad_give(instance, request, outcome, error);
}

static mbr_status unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    wait_if_same(instance->objects.reserved_bytes == 64 * instance->objects.granule_bytes);
    return bad_good->virtual_.unreserve(instance, request, outcome, error);
}

static mbr_status destroy(mbr_instance *instance, const mbr_extent_destroy_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    wait_if_same(instance->objects.owned_bytes == instance->objects.granule_bytes);
    return bad_good->virtual_.extent_destroy(instance, request, outcome, error);
}

static mbr_status protect(mbr_instance *instance, const mbr_protect_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    wait_if_same(request->bytes == instance->objects.granule_bytes && request->offset_bytes == 0);
    return bad_good->virtual_.protect(instance, request, outcome, error);
}

static mbr_status report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    wait_if_same(1);
    return bad_good->plugin.report(instance, request, outcome, error);
}

/* ---- Late ------------------------------------------------------------------------------------ */

static uint32_t map_count;

static mbr_status map(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
{
    map_count++;
    return bad_good->virtual_.map(instance, request, outcome, error);
}

static mbr_status stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status != MBR_OK)
        return status;
    if (bad_is("counts_wrong_late"))
        outcome->owned_bytes += bad_allocation_released_count() >= LATE_ALLOCATIONS;
    if (bad_is("maps_wrong_late"))
        outcome->mapped_bytes += map_count >= LATE_MAPPINGS;
    return status;
}

static mbr_status unreserve_leaking(mbr_instance *instance, const mbr_unreserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    static void *volatile kept;
    kept = malloc(600);
    if (kept != NULL)
        memset(kept, 1, 600);
    return bad_good->virtual_.unreserve(instance, request, outcome, error);
}

void bad_install_prf(void)
{
    if (bad_is("slow_release"))
        bad.allocator.release = release;
    if (bad_is("slow_unreserve"))
        bad.virtual_.unreserve = unreserve;
    if (bad_is("slow_destroy"))
        bad.virtual_.extent_destroy = destroy;
    if (bad_is("slow_protect"))
        bad.virtual_.protect = protect;
    if (bad_is("slow_report"))
        bad.plugin.report = report;
    if (bad_is("counts_wrong_late") || bad_is("maps_wrong_late"))
        bad.allocator.stats = stats;
    if (bad_is("maps_wrong_late"))
        bad.virtual_.map = map;
    if (bad_is("leaks_slowly"))
        bad.virtual_.unreserve = unreserve_leaking;
}
