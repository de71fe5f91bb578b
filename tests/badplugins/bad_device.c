/* No fault, and another device: one of 16 MiB, which refuses what it has no room for, and one whose
 * memory the CPU does not reach. Checks want no more than they must have; //tests/check judges
 * both.
 */
#include "tests/badplugins/bad_vir.h"

#include <sys/uio.h>
#include <unistd.h>

/* ---- 16 MiB ---------------------------------------------------------------------------------- */

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

/* ---- Out of the CPU's reach --------------------------------------------------------------------
 * Contents are seen by copies alone, and a copy that has no access is refused: the kernel says so.
 */

static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_HOST_ACCESSIBLE)
        outcome->value = 0;
    return status;
}

/* Every byte is read and, for a write, written back. */
static bool has_access(uint64_t address, uint64_t bytes, bool is_write)
{
    char page[4096];
    for (uint64_t done = 0, step; done < bytes; done += step) {
        step = bytes - done < sizeof page ? bytes - done : sizeof page;
        const struct iovec here = {page, step};
        const struct iovec there = {(void *)(uintptr_t)(address + done), step};
        ssize_t moved = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        if (moved == (ssize_t)step && is_write)
            moved = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
        if (moved != (ssize_t)step)
            return false;
    }
    return true;
}

static mbr_status copy(
    mbr_instance *instance, const mbr_copy_request *request, mbr_outcome *outcome, mbr_error *error)
{
    if (request->bytes < UINT64_C(1) << 40 &&
        (!has_access(request->from_address, request->bytes, false) ||
            !has_access(request->to_address, request->bytes, true))) {
        *outcome = (mbr_outcome){MBR_SIZED(mbr_outcome)};
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "no access to a part of the ranges");
    }
    return bad_good->transfer.copy(instance, request, outcome, error);
}

void bad_install_device(void)
{
    if (bad_is("small_device")) {
        bad.allocator.allocate = allocate;
        bad.allocator.stats = stats;
        bad.virtual_.extent_create = extent_create;
    }
    if (bad_is("unreachable_device")) {
        bad.allocator.fact = fact;
        bad.transfer.copy = copy;
    }
}
