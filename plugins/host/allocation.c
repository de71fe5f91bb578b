/* Capability `membrane.allocator`: facts and figures, and plain allocations, each a private mapping
 * of its own. Never touches the memory file. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/host/core.h"

#include <inttypes.h>
#include <sys/mman.h>

#define GRANULE_RECOMMENDED_BYTES (UINT64_C(2) << 20) /* 128 GiB in 65 530 mappings */

static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *answer, mbr_error *error)
{
    uint64_t granule_bytes = instance->objects.granule_bytes;
    /* What is not named is 0. Under a memory cgroup every way to ask for more ends in SIGKILL,
     * never in a status. A forked child would share the file, but not the books. */
    const uint64_t facts[MBR_FACT_QUIRKS + 1] = {
        [MBR_FACT_GRANULE_MIN_BYTES] = granule_bytes,
        [MBR_FACT_GRANULE_RECOMMENDED_BYTES] = mbr_max(granule_bytes, GRANULE_RECOMMENDED_BYTES),
        [MBR_FACT_EXTENT_MAX_BYTES] = MBR_HOST_OBJECT_MAX_BYTES,
        [MBR_FACT_RESERVATION_MAX_BYTES] = MBR_HOST_OBJECT_MAX_BYTES,
        [MBR_FACT_ALLOCATION_ALIGN_BYTES] = instance->os.page_bytes,
        [MBR_FACT_ALLOCATION_ROUND_BYTES] = instance->os.page_bytes,
        [MBR_FACT_FRESH_CONTENT] = MBR_CONTENT_ZERO,
        [MBR_FACT_USABLE_AFTER_PROTECT] = 1,
        [MBR_FACT_UNMAP_SPANS_MAPPINGS] = 1,
        [MBR_FACT_ALIASING] = 1,
        [MBR_FACT_READ_ONLY_ENFORCED] = 1,
        [MBR_FACT_PAST_PHYSICAL_SIZE] = MBR_PAST_KILL,
        [MBR_FACT_RELEASABLE_AFTER_LOSS] = 1,
        [MBR_FACT_HOST_ACCESSIBLE] = 1,
        [MBR_FACT_POPULATED] = instance->populate,
    };
    return mbr_answer_fact(facts, MBR_FACT_QUIRKS + 1, request, answer, error);
}

static mbr_status stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *answer, mbr_error *error)
{
    const struct mbr_host_os *os = &instance->os;
    (void)request, (void)error;
    if (os->memory(os->context, &answer->total_bytes, &answer->free_bytes) != 0) {
        answer->total_bytes = instance->total_bytes;
        answer->free_bytes = MBR_UNKNOWN_BYTES;
    }
    mbr_objects_tell(&instance->objects, answer);
    return MBR_OK;
}

static mbr_status trim(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *answer, mbr_error *error)
{
    (void)instance, (void)request, (void)answer, (void)error;
    return MBR_OK; /* nothing is cached here */
}

/* Books bytes behind addresses as owned and mapped; refund takes them off. */
static mbr_status claim(mbr_instance *instance, uint64_t bytes, mbr_error *error)
{
    mbr_objects_lock(&instance->objects);
    mbr_status status = mbr_host_claim_locked(instance, bytes, error);
    if (status == MBR_OK)
        instance->objects.mapped_bytes += bytes;
    mbr_objects_unlock(&instance->objects);
    return status;
}

static void refund(mbr_instance *instance, uint64_t bytes)
{
    mbr_objects_lock(&instance->objects);
    instance->objects.owned_bytes -= bytes;
    instance->objects.mapped_bytes -= bytes;
    mbr_objects_unlock(&instance->objects);
}

/* Maps and populates; on failure outer_bytes is 0 if nothing is left mapped. 0 or an errno. */
static int take_memory(
    const mbr_instance *instance, struct mbr_object *allocation, uint64_t align_bytes)
{
    const struct mbr_host_os *os = &instance->os;
    int code = mbr_host_range_take(instance, allocation, align_bytes, PROT_READ | PROT_WRITE, 0);
    if (code == 0 && instance->huge) /* advice: a kernel without huge pages may refuse it */
        (void)os->madvise(os->context, allocation->address, allocation->bytes, MADV_HUGEPAGE);
    if (code == 0)
        code = mbr_host_range_populate(
            instance, allocation->address, allocation->bytes, PROT_READ | PROT_WRITE, true);
    return code;
}

static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = &instance->objects;
    struct mbr_answer_ask ask = {
        .flags = request->flags,
        .known_flags = MBR_ALLOCATE_ZEROED,
        .id = request->allocation_id,
        .bytes = request->bytes,
        .unit_bytes = instance->os.page_bytes,
        .may_round = true,
        .align_bytes = request->align_bytes,
        .largest_bytes = UINT64_MAX,
        .max_owned_bytes = request->max_owned_bytes,
    };
    mbr_status status = mbr_answer_check(&ask, error);
    if (status != MBR_OK)
        return status;
    struct mbr_object *allocation = mbr_object_create(
        objects, &objects->allocations, ask.id, ask.bytes, sizeof(*allocation), &status, error);
    if (!allocation)
        return status;
    status = claim(instance, ask.bytes, error);
    if (status != MBR_OK)
        goto end_allocation;
    int code = take_memory(instance, allocation, ask.align_bytes);
    if (code != 0) {
        status = mbr_host_fail(
            instance, error, code, MBR_OUT_OF_MEMORY, "allocate: mmap and populate", ask.bytes);
        if (allocation->outer_bytes == 0 || mbr_host_range_give(instance, allocation) == 0)
            goto refund;
        /* It stays under its id and address, to be released like any other. */
        answer->state = MBR_STATE_PARTIAL;
        answer->residual_mapped_bytes = answer->residual_owned_bytes = ask.bytes;
        status = mbr_fail(error, MBR_RESIDUAL,
            "allocate: munmap failed after errno %d; %" PRIu64 " bytes stay owned at 0x%" PRIx64,
            code, ask.bytes, allocation->address);
    }
    answer->content = MBR_CONTENT_ZERO;
    answer->granted_flags = request->flags & MBR_ALLOCATE_ZEROED;
    answer->address = allocation->address;
    answer->newly_mapped_bytes = answer->newly_owned_bytes = ask.bytes;
    mbr_object_leave(objects, allocation);
    return status;

refund:
    refund(instance, ask.bytes);
end_allocation:
    mbr_object_end(objects, &objects->allocations, allocation);
    return status;
}

static mbr_status release(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = &instance->objects;
    mbr_status status = MBR_OK;
    mbr_objects_lock(objects);
    struct mbr_object *allocation =
        mbr_object_enter_locked(&objects->allocations, request->allocation_id, &status, error);
    if (allocation && allocation->address != request->address) {
        status = mbr_fail(error, MBR_UNKNOWN_OBJECT, "allocation %" PRIu64 " is not at 0x%" PRIx64,
            request->allocation_id, request->address);
        allocation->busy = false;
    }
    mbr_objects_unlock(objects);
    if (status != MBR_OK)
        return status;
    int code = mbr_host_range_give(instance, allocation);
    if (code != 0) {
        status =
            mbr_host_fail(instance, error, code, MBR_SYSTEM, "release: munmap", allocation->bytes);
        mbr_object_leave(objects, allocation);
        return status;
    }
    answer->unmapped_bytes = answer->released_bytes = allocation->bytes;
    refund(instance, allocation->bytes);
    mbr_object_end(objects, &objects->allocations, allocation);
    return MBR_OK;
}

MBR_ANSWER_TELL(static, slot_fact, fact, mbr_fact_request, mbr_fact_outcome)
MBR_ANSWER_TELL(static, slot_stats, stats, mbr_stats_request, mbr_mechanism_stats)
MBR_ANSWER_CHANGE(static, slot_trim, trim, mbr_trim_request)
MBR_ANSWER_CHANGE(static, slot_allocate, allocate, mbr_allocate_request)
MBR_ANSWER_CHANGE(static, slot_release, release, mbr_release_request)

const mbr_allocator_vtable mbr_host_allocator = {
    MBR_SIZED(mbr_allocator_vtable),
    .kind = MBR_KIND_ALLOCATOR,
    .minor = MBR_MINOR_0,
    .fact = slot_fact,
    .allocate = slot_allocate,
    .release = slot_release,
    .stats = slot_stats,
    .trim = slot_trim,
};
