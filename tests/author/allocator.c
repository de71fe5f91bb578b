/* Capability membrane.allocator: each allocation is a mapping of its own, in whole pages, which
 * goes back to the system when it is released. Caches nothing. */
#include "tests/author/anon.h"

#include <inttypes.h>

/* ---- facts ---- */

/* Zero stands for "not told"; facts whose value is 0 are the host's defaults anyway. */
static uint64_t fact_value(uint32_t fact)
{
    switch (fact) {
    case MBR_FACT_GRANULE_MIN_BYTES:
    case MBR_FACT_GRANULE_RECOMMENDED_BYTES:
    case MBR_FACT_ALLOCATION_ALIGN_BYTES:
    case MBR_FACT_ALLOCATION_ROUND_BYTES:
        return anon_page_bytes();
    case MBR_FACT_FRESH_CONTENT:
        return MBR_CONTENT_ZERO;
    case MBR_FACT_PAST_PHYSICAL_SIZE:
        return MBR_PAST_KILL;
    case MBR_FACT_USABLE_AFTER_PROTECT:
    case MBR_FACT_READ_ONLY_ENFORCED:
    case MBR_FACT_HOST_ACCESSIBLE:
    case MBR_FACT_POPULATED:
        return 1;
    default:
        return 0;
    }
}

static mbr_status slot_fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_status status = anon_begin(instance && request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    mbr_fact_request copy;
    anon_read(&copy, request, sizeof copy);
    uint32_t fact = ANON_GET(mbr_fact_request, &copy, fact);
    mbr_fact_outcome answer = {.value = fact_value(fact)};
    if (answer.value == 0)
        return anon_refuse(error, (mbr_error){.status = MBR_UNSUPPORTED, .argument_index = 1},
            "fact %" PRIu32 " is not told", fact);
    anon_write(outcome, &answer, sizeof answer);
    return MBR_OK;
}

/* ---- allocate, release ---- */

/* In whole pages; 0 if they pass 2^64 or are none. */
static uint64_t round_up(uint64_t bytes)
{
    uint64_t page_bytes = anon_page_bytes();
    return bytes + page_bytes - 1 < bytes ? 0 : (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

static mbr_status check_allocate(
    const mbr_instance *instance, const mbr_allocate_request *request, mbr_error *error)
{
    uint64_t asked_bytes = ANON_GET(mbr_allocate_request, request, bytes);
    uint64_t bytes = round_up(asked_bytes);
    mbr_status status = anon_check_flags(
        ANON_GET(mbr_allocate_request, request, flags), MBR_ALLOCATE_ZEROED, error);
    if (!status)
        status = anon_check_id(
            &instance->allocations, ANON_GET(mbr_allocate_request, request, allocation_id), error);
    if (!status && asked_bytes && !bytes)
        status = anon_refuse(error,
            (mbr_error){.status = MBR_OVERFLOW, .argument_index = 3, .asked_bytes = asked_bytes},
            "%" PRIu64 " bytes in whole pages pass 2^64", asked_bytes);
    if (!status)
        status =
            anon_check_size(bytes, ANON_GET(mbr_allocate_request, request, align_bytes), error);
    if (!status)
        status = anon_admit(
            instance, bytes, ANON_GET(mbr_allocate_request, request, max_owned_bytes), error);
    return status;
}

static mbr_status allocate(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_allocate_request *request = input;
    mbr_status status = check_allocate(instance, request, error);
    if (status)
        return status;
    anon_object *allocation = anon_object_create(&instance->allocations, sizeof *allocation,
        request->allocation_id, round_up(request->bytes));
    if (!allocation)
        return anon_no_heap(request->bytes, error);
    status = anon_object_fill(instance, &instance->allocations, allocation,
        ANON_GET(mbr_allocate_request, request, align_bytes), MBR_ACCESS_READ_WRITE, done, error);
    if (status && done->state == MBR_STATE_UNCHANGED)
        return status;
    instance->mapped_bytes += allocation->bytes;
    done->address = (uintptr_t)allocation->area.start;
    if (status) {
        done->residual_mapped_bytes = allocation->bytes;
        return status;
    }
    done->granted_flags = request->flags & MBR_ALLOCATE_ZEROED;
    done->newly_mapped_bytes = allocation->bytes;
    return MBR_OK;
}

static mbr_status slot_allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return anon_change_to_address(allocate, instance, request, sizeof *request, outcome, error);
}

static mbr_status release(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    const mbr_release_request *request = input;
    uint64_t id = ANON_GET(mbr_release_request, request, allocation_id);
    uint64_t address = ANON_GET(mbr_release_request, request, address);
    anon_object *allocation = anon_spans_find(&instance->allocations, id, id);
    if (!allocation)
        return anon_unknown(id, 2, error);
    if (address != (uintptr_t)allocation->area.start)
        return anon_refuse(error, (mbr_error){.status = MBR_UNKNOWN_OBJECT, .argument_index = 3},
            "allocation %" PRIu64 " is not at 0x%" PRIx64, id, address);
    uint64_t bytes = allocation->bytes;
    mbr_status status = anon_object_end(&instance->allocations, allocation, error);
    if (status)
        return status;
    instance->owned_bytes -= bytes;
    instance->mapped_bytes -= bytes;
    done->unmapped_bytes = done->released_bytes = bytes;
    return MBR_OK;
}

static mbr_status slot_release(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(release, instance, request, sizeof *request, outcome, error);
}

/* ---- stats, trim ---- */

static mbr_status slot_stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_status status = anon_begin(instance && request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    pthread_mutex_lock(&instance->lock);
    mbr_mechanism_stats answer = {.total_bytes = instance->capacity_bytes,
        .free_bytes = anon_free_bytes(instance),
        .owned_bytes = instance->owned_bytes,
        .mapped_bytes = instance->mapped_bytes,
        .reserved_bytes = instance->reserved_bytes};
    pthread_mutex_unlock(&instance->lock);
    anon_write(outcome, &answer, sizeof answer);
    return MBR_OK;
}

static mbr_status trim_nothing(
    mbr_instance *instance, const void *input, mbr_outcome *done, mbr_error *error)
{
    (void)instance, (void)input, (void)done, (void)error;
    return MBR_OK;
}

static mbr_status slot_trim(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    return anon_change(trim_nothing, instance, request, sizeof *request, outcome, error);
}

const mbr_allocator_vtable anon_allocator = {MBR_SIZED(mbr_allocator_vtable),
    .kind = MBR_KIND_ALLOCATOR, .minor = MBR_MINOR_0, .fact = slot_fact, .allocate = slot_allocate,
    .release = slot_release, .stats = slot_stats, .trim = slot_trim};
