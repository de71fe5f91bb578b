/* Capability `membrane.allocator`: facts and figures, and plain allocations, each a private mapping
 * of its own. Never touches the memory file. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"

#include <inttypes.h>
#include <sys/mman.h>

struct allocation {
    uint64_t id;
    uint64_t address, owned_bytes;
    uint64_t outer_address, outer_bytes; /* what was mapped to reach the alignment */
    bool busy;                           /* being made or given back */
};

/* ---- Facts and figures ---------------------------------------------------------------------- */

/* False for a fact that is unknown here. */
static bool fact_of(const mbr_instance *instance, uint32_t fact, uint64_t *value)
{
    const uint64_t facts[] = {
        [MBR_FACT_GRANULE_MIN_BYTES] = instance->granule_bytes,
        [MBR_FACT_GRANULE_RECOMMENDED_BYTES] =
            mbr_max(instance->granule_bytes, MBR_HOST_GRANULE_RECOMMENDED_BYTES),
        [MBR_FACT_EXTENT_MAX_BYTES] = MBR_HOST_OBJECT_MAX_BYTES,
        [MBR_FACT_RESERVATION_MAX_BYTES] = MBR_HOST_OBJECT_MAX_BYTES,
        [MBR_FACT_ALLOCATION_ALIGN_BYTES] = instance->os.page_bytes,
        [MBR_FACT_ALLOCATION_ROUND_BYTES] = instance->os.page_bytes,
        [MBR_FACT_FRESH_CONTENT] = MBR_CONTENT_ZERO,
        [MBR_FACT_USABLE_AFTER_PROTECT] = 1,
        [MBR_FACT_UNMAP_SPANS_MAPPINGS] = 1,
        [MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY] = 0,
        [MBR_FACT_ALIASING] = 1,
        [MBR_FACT_READ_ONLY_ENFORCED] = 1,
        [MBR_FACT_UNMAP_WAITS_FOR_DEVICE] = 0,
        /* Under a memory cgroup every way to ask for more ends in SIGKILL, never in a status. */
        [MBR_FACT_PAST_PHYSICAL_SIZE] = MBR_PAST_KILL,
        [MBR_FACT_RELEASABLE_AFTER_LOSS] = 1,
        [MBR_FACT_HOST_ACCESSIBLE] = 1,
        [MBR_FACT_FORK_SAFE] = 0, /* a child would share the file, but not the books */
        [MBR_FACT_DESCRIPTORS_PER_EXTENT] = 0,
        [MBR_FACT_POPULATED] = instance->populate,
        [MBR_FACT_QUIRKS] = 0,
    };
    if (fact < MBR_FACT_GRANULE_MIN_BYTES || fact >= sizeof(facts) / sizeof(facts[0]))
        return false;
    *value = facts[fact];
    return true;
}

static mbr_status slot_fact(mbr_instance *instance, const mbr_fact_request *raw,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_fact_request request;
    mbr_fact_outcome answer = {0};
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    if (!fact_of(instance, request.fact, &answer.value))
        return mbr_fail(error, MBR_UNSUPPORTED, "fact %u is unknown", request.fact);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

static mbr_status slot_stats(mbr_instance *instance, const mbr_stats_request *raw,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_stats_request request;
    mbr_mechanism_stats answer = {0};
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    if (instance->os.memory(instance->os.context, &answer.total_bytes, &answer.free_bytes) != 0) {
        answer.total_bytes = instance->total_bytes;
        answer.free_bytes = MBR_UNKNOWN_BYTES;
    }
    mbr_host_lock(instance);
    answer.owned_bytes = instance->owned_bytes;
    answer.mapped_bytes = instance->mapped_bytes;
    answer.reserved_bytes = instance->reserved_bytes;
    mbr_host_unlock(instance);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

static mbr_status slot_trim(
    mbr_instance *instance, const mbr_trim_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_trim_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK) /* nothing is cached here */
        mbr_answer_write(outcome, &(mbr_outcome){.state = MBR_STATE_DONE}, sizeof(mbr_outcome));
    return status;
}

/* ---- Allocations ---------------------------------------------------------------------------- */

static mbr_status check_allocate(const mbr_instance *instance, const mbr_allocate_request *request,
    uint64_t *align_bytes, uint64_t *owned_bytes, mbr_error *error)
{
    mbr_status status = mbr_host_check_flags(request->flags, MBR_ALLOCATE_ZEROED, error);
    if (status != MBR_OK)
        return status;
    if (request->allocation_id == 0 || request->bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the %s is 0",
            request->allocation_id == 0 ? "id" : "size");
    if (request->align_bytes != 0 && !mbr_is_power_of_two(request->align_bytes))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "alignment %" PRIu64 " is no power of two",
            request->align_bytes);
    *align_bytes = mbr_max(request->align_bytes, instance->os.page_bytes);
    uint64_t outer_bytes;
    if (!mbr_align_up(request->bytes, instance->os.page_bytes, owned_bytes) ||
        !mbr_add(*owned_bytes, *align_bytes, &outer_bytes))
        return mbr_fail(error, MBR_OVERFLOW, "%" PRIu64 " bytes aligned to %" PRIu64 " overflow",
            request->bytes, *align_bytes);
    return mbr_host_check_budget(*owned_bytes, request->max_owned_bytes, error);
}

/* Maps and populates; on failure outer_bytes is 0 if nothing is left mapped. 0 or an errno. */
static int take_memory(
    const mbr_instance *instance, struct allocation *allocation, uint64_t align_bytes)
{
    const struct mbr_host_os *os = &instance->os;
    /* A stricter alignment than a page costs addresses around the allocation, without access. */
    bool is_padded = align_bytes > os->page_bytes;
    uint64_t outer_bytes = allocation->owned_bytes + (is_padded ? align_bytes - os->page_bytes : 0);
    int code = os->mmap(os->context, &allocation->outer_address, outer_bytes,
        is_padded ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code != 0)
        return code;
    allocation->outer_bytes = outer_bytes;
    allocation->address = allocation->outer_address;
    if (is_padded) {
        allocation->address += -allocation->outer_address & (align_bytes - 1);
        code = os->mprotect(
            os->context, allocation->address, allocation->owned_bytes, PROT_READ | PROT_WRITE);
    }
    if (code == 0 && instance->huge) /* advice: a kernel without huge pages may refuse it */
        (void)os->madvise(os->context, allocation->address, allocation->owned_bytes, MADV_HUGEPAGE);
    if (code == 0)
        code = mbr_host_populate(
            instance, allocation->address, allocation->owned_bytes, PROT_READ | PROT_WRITE, true);
    return code;
}

/* Unmaps it all: 0, or an errno if it still stands there as far as anybody can tell. */
static int give_memory(mbr_instance *instance, struct allocation *allocation)
{
    int code = mbr_host_vacate(instance, allocation->outer_address, allocation->outer_bytes, false);
    if (code != 0 &&
        mbr_host_look_at(instance, allocation->outer_address, allocation->outer_bytes) ==
            MBR_HOST_RANGE_HOLE)
        code = 0; /* it failed after its effect */
    if (code == 0)
        allocation->outer_bytes = 0;
    return code;
}

static void forget_locked(mbr_instance *instance, struct allocation *allocation)
{
    mbr_id_table_remove(&instance->allocations, allocation->id);
    instance->owned_bytes -= allocation->owned_bytes;
    instance->mapped_bytes -= allocation->owned_bytes;
    mbr_heap_release(&instance->heap, allocation);
}

static mbr_status slot_allocate(
    mbr_instance *instance, const mbr_allocate_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_allocate_request request;
    uint64_t align_bytes = 0, owned_bytes = 0;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK)
        status = check_allocate(instance, &request, &align_bytes, &owned_bytes, error);
    if (status != MBR_OK)
        return status;
    struct allocation *allocation = mbr_heap_allocate(&instance->heap, sizeof(*allocation));
    if (!allocation)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an allocation's record");
    *allocation =
        (struct allocation){.id = request.allocation_id, .owned_bytes = owned_bytes, .busy = true};
    mbr_host_lock(instance);
    status = mbr_host_publish_locked(
        instance, &instance->allocations, allocation->id, allocation, "allocation", error);
    if (status == MBR_OK) {
        status = mbr_host_claim_locked(instance, owned_bytes, error);
        if (status == MBR_OK)
            instance->mapped_bytes += owned_bytes;
        else
            mbr_id_table_remove(&instance->allocations, allocation->id);
    }
    mbr_host_unlock(instance);
    if (status != MBR_OK) {
        mbr_heap_release(&instance->heap, allocation);
        return status;
    }

    int code = take_memory(instance, allocation, align_bytes);
    mbr_outcome answer = {
        .state = MBR_STATE_DONE,
        .content = MBR_CONTENT_ZERO,
        .granted_flags = request.flags & MBR_ALLOCATE_ZEROED,
        .address = allocation->address,
        .newly_mapped_bytes = owned_bytes,
        .newly_owned_bytes = owned_bytes,
    };
    if (code != 0) {
        status = mbr_host_fail_mapping(
            instance, error, code, MBR_OUT_OF_MEMORY, "allocate: mmap and populate", owned_bytes);
        if (allocation->outer_bytes == 0 || give_memory(instance, allocation) == 0) {
            mbr_host_lock(instance);
            forget_locked(instance, allocation);
            mbr_host_unlock(instance);
            return status;
        }
        /* It stays under its id and address, to be released like any other. */
        answer.state = MBR_STATE_PARTIAL;
        answer.residual_mapped_bytes = answer.residual_owned_bytes = owned_bytes;
        status = mbr_fail(error, MBR_RESIDUAL,
            "allocate: munmap failed after an error; %" PRIu64 " bytes stay owned at 0x%" PRIx64 "",
            owned_bytes, allocation->address);
    }
    mbr_host_lock(instance);
    allocation->busy = false;
    mbr_host_unlock(instance);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}

static mbr_status slot_release(
    mbr_instance *instance, const mbr_release_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_release_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_host_lock(instance);
    struct allocation *allocation =
        mbr_id_table_find(&instance->allocations, request.allocation_id);
    if (allocation && (allocation->busy || allocation->address != request.address))
        allocation = NULL; /* of two that race for one release the second finds it gone */
    if (allocation)
        allocation->busy = true;
    mbr_host_unlock(instance);
    if (!allocation)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no allocation %" PRIu64 " at 0x%" PRIx64 "",
            request.allocation_id, request.address);

    mbr_outcome answer = {
        .state = MBR_STATE_DONE,
        .unmapped_bytes = allocation->owned_bytes,
        .released_bytes = allocation->owned_bytes,
    };
    int code = give_memory(instance, allocation);
    mbr_host_lock(instance);
    if (code == 0)
        forget_locked(instance, allocation);
    else
        allocation->busy = false;
    mbr_host_unlock(instance);
    if (code != 0)
        return mbr_host_fail_mapping(
            instance, error, code, MBR_SYSTEM, "release: munmap", answer.released_bytes);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

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
