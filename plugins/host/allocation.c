/* Capability `membrane.allocator`: facts and figures, and plain allocations, each a private mapping
 * of its own. Never touches the memory file. */
#include "abi/base/checked.h"
#include "plugins/host/core.h"

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

static mbr_status take(
    mbr_instance *instance, struct mbr_object *allocation, uint64_t align_bytes, mbr_error *error)
{
    const struct mbr_host_os *os = &instance->os;
    int code = mbr_host_range_take(instance, allocation, align_bytes, PROT_READ | PROT_WRITE, 0);
    if (code == 0 && instance->huge) /* advice: a kernel without huge pages may refuse it */
        (void)os->madvise(os->context, allocation->address, allocation->bytes, MADV_HUGEPAGE);
    if (code == 0)
        code = mbr_host_range_populate(
            instance, allocation->address, allocation->bytes, PROT_READ | PROT_WRITE, true);
    return mbr_host_fail(
        instance, error, code, MBR_OUT_OF_MEMORY, "allocate: mmap and populate", allocation->bytes);
}

static enum mbr_end give(mbr_instance *instance, struct mbr_object *allocation, mbr_error *error)
{
    int code = mbr_host_range_give(instance, allocation);
    mbr_host_fail(instance, error, code, MBR_SYSTEM, "release: munmap", allocation->bytes);
    return code == 0 ? MBR_END_GONE : MBR_END_THERE;
}

const struct mbr_allocation_port mbr_host_allocation_port = {
    .fresh_content = MBR_CONTENT_ZERO,
    .claim_locked = mbr_host_claim_locked,
    .take = take,
    .give = give,
};

MBR_ANSWER_TELL(static, slot_fact, fact, mbr_fact_request, mbr_fact_outcome)
MBR_ANSWER_TELL(static, slot_stats, stats, mbr_stats_request, mbr_mechanism_stats)
MBR_ANSWER_CHANGE(static, slot_trim, mbr_answer_nothing, mbr_trim_request) /* no cache here */

const mbr_allocator_vtable mbr_host_allocator = {
    MBR_SIZED(mbr_allocator_vtable),
    .kind = MBR_KIND_ALLOCATOR,
    .minor = MBR_MINOR_0,
    .fact = slot_fact,
    .allocate = mbr_allocation_slot_allocate,
    .release = mbr_allocation_slot_release,
    .stats = slot_stats,
    .trim = slot_trim,
};
