/* No fault: a device of 16 MiB, which refuses what it has no room for. Checks want no more memory
 * than they must have; //tests/check judges it. */
#include "tests/badplugins/bad_alc.h"
#include "tests/badplugins/bad_vir.h"

#define TOTAL_BYTES (UINT64_C(16) << 20)

static uint64_t owned_bytes(mbr_instance *instance)
{
    mbr_objects_lock(&instance->objects);
    uint64_t bytes = instance->objects.owned_bytes;
    mbr_objects_unlock(&instance->objects);
    return bytes;
}

static mbr_status refuse(uint64_t bytes, uint64_t owned, mbr_error *error)
{
    mbr_status status = mbr_fail(error, MBR_OUT_OF_MEMORY, "the device has 16 MiB");
    if (error != NULL && MBR_HAS(mbr_error, error, free_bytes)) {
        error->asked_bytes = bytes;
        error->free_bytes = TOTAL_BYTES - owned;
    }
    return status;
}

static bool is_too_much(uint64_t bytes, uint64_t owned)
{
    return bytes > TOTAL_BYTES - owned && bytes < UINT64_C(1) << 40;
}

static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    uint64_t owned = owned_bytes(instance);
    if (!is_too_much((request->bytes + 4095) & ~UINT64_C(4095), owned))
        return bad_good->allocator.allocate(instance, request, outcome, error);
    *outcome = (mbr_outcome){MBR_SIZED(mbr_outcome)};
    return refuse(request->bytes, owned, error);
}

BAD_SLOT(extent_create, mbr_extent_create_request, mbr_outcome)
{
    uint64_t owned = owned_bytes(instance);
    if (!is_too_much(request->bytes, owned))
        return GOOD(extent_create);
    *outcome = (mbr_outcome){MBR_SIZED(mbr_outcome)};
    return refuse(request->bytes, owned, error);
}

BAD_SLOT(stats, mbr_stats_request, mbr_mechanism_stats)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK) {
        outcome->total_bytes = TOTAL_BYTES;
        outcome->free_bytes = TOTAL_BYTES - outcome->owned_bytes;
    }
    return status;
}

void bad_install_small(void)
{
    if (!bad_is("small_device"))
        return;
    bad.allocator.allocate = allocate;
    bad.allocator.stats = stats;
    bad.virtual_.extent_create = extent_create;
}
