/* libmembrane-eager.so: a mechanism that has the required slots and nothing else, over the C
 * library's heap, so that tests can walk the path without virtual memory. Never caches. Option
 * `capacity` (bytes) makes it a device of that size, which refuses honestly when it is full. */
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/seam.h"
#include "membrane/membrane_plugin.h"
#include "plugins/common/answer.h"
#include "plugins/common/id_table.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 64 /* alignment and rounding of every allocation */

MBR_PLUGIN_NOTE("eager", "membrane tests", MBR_NOTE_UNLOADABLE);

struct mbr_instance {
    uint64_t capacity_bytes; /* UINT64_MAX: what the heap has */
    pthread_mutex_t lock;    /* guards the rest */
    struct mbr_id_table allocations;
    uint64_t owned_bytes; /* of all allocations */
};

struct allocation {
    void *memory;
    uint64_t owned_bytes;
};

#define ENTER(request, raw, outcome, error)                                                        \
    mbr_answer_begin(&(request), sizeof(request), raw, outcome, sizeof(*(outcome)), error)
#define WRITE(outcome, ...)                                                                        \
    mbr_answer_write(outcome, &(mbr_outcome){__VA_ARGS__}, sizeof(mbr_outcome))

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

/* ---- allocator ------------------------------------------------------------------------------ */

static mbr_status slot_fact(mbr_instance *instance, const mbr_fact_request *raw,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_fact_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    mbr_fact_outcome answer = {0};
    switch (request.fact) {
    case MBR_FACT_ALLOCATION_ALIGN_BYTES:
    case MBR_FACT_ALLOCATION_ROUND_BYTES:
        answer.value = LINE_BYTES;
        break;
    case MBR_FACT_FRESH_CONTENT:
        answer.value = MBR_CONTENT_UNDEFINED;
        break;
    case MBR_FACT_PAST_PHYSICAL_SIZE:
        answer.value = instance->capacity_bytes < UINT64_MAX ? MBR_PAST_REFUSE : MBR_PAST_KILL;
        break;
    case MBR_FACT_RELEASABLE_AFTER_LOSS:
    case MBR_FACT_HOST_ACCESSIBLE:
        answer.value = 1;
        break;
    default:
        return mbr_fail(error, MBR_UNSUPPORTED, "fact %u is unknown", request.fact);
    }
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

static mbr_status check_allocate(
    const mbr_allocate_request *request, uint64_t *owned_bytes, mbr_error *error)
{
    if (request->flags & 0xFFFF & ~(uint32_t)MBR_ALLOCATE_ZEROED)
        return mbr_fail(error, MBR_UNSUPPORTED, "flags 0x%x", request->flags);
    if (request->allocation_id == 0 || request->bytes == 0 ||
        (request->align_bytes != 0 && !mbr_is_power_of_two(request->align_bytes)))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "id %" PRIu64 ", %" PRIu64 " bytes, aligned to %" PRIu64
            ": neither id nor size may be 0, and an alignment is a power of two",
            request->allocation_id, request->bytes, request->align_bytes);
    if (!mbr_align_up(request->bytes, LINE_BYTES, owned_bytes))
        return mbr_fail(error, MBR_OVERFLOW, "%" PRIu64 " bytes overflow", request->bytes);
    if (*owned_bytes > request->max_owned_bytes)
        return mbr_fail_bytes(error, MBR_OVER_BUDGET, *owned_bytes, request->max_owned_bytes,
            "would own %" PRIu64 " bytes, at most %" PRIu64 " are allowed", *owned_bytes,
            request->max_owned_bytes);
    return MBR_OK;
}

/* Checks and books under the lock; the memory itself is there already. */
static mbr_status publish_locked(
    mbr_instance *instance, uint64_t id, struct allocation *allocation, mbr_error *error)
{
    uint64_t free_bytes = instance->capacity_bytes - instance->owned_bytes;
    if (mbr_id_table_find(&instance->allocations, id))
        return mbr_fail(error, MBR_ALREADY_EXISTS, "allocation %" PRIu64 " exists", id);
    if (allocation->owned_bytes > free_bytes)
        return mbr_fail_bytes(error, MBR_OUT_OF_MEMORY, allocation->owned_bytes, free_bytes,
            "%" PRIu64 " bytes of %" PRIu64 " are free", free_bytes, instance->capacity_bytes);
    if (!mbr_id_table_reserve(&instance->allocations, &mbr_heap_libc))
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for the table of allocations");
    mbr_id_table_insert(&instance->allocations, id, allocation);
    instance->owned_bytes += allocation->owned_bytes;
    return MBR_OK;
}

static mbr_status slot_allocate(
    mbr_instance *instance, const mbr_allocate_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_allocate_request request;
    uint64_t owned_bytes = 0;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    mbr_status status = check_allocate(&request, &owned_bytes, error);
    if (status != MBR_OK)
        return status;
    if (owned_bytes > instance->capacity_bytes) /* not even tried */
        return mbr_fail_bytes(error, MBR_OUT_OF_MEMORY, owned_bytes, instance->capacity_bytes,
            "the capacity is %" PRIu64, instance->capacity_bytes);
    struct allocation *allocation = malloc(sizeof(*allocation));
    if (!allocation)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an allocation's record");
    allocation->owned_bytes = owned_bytes;
    uint64_t align_bytes = mbr_max(request.align_bytes, LINE_BYTES);
    if (posix_memalign(&allocation->memory, align_bytes, owned_bytes) != 0) {
        status = mbr_fail_bytes(error, MBR_OUT_OF_MEMORY, owned_bytes, 0, "the heap is exhausted");
        goto free_record;
    }
    bool is_zeroed = (request.flags & MBR_ALLOCATE_ZEROED) != 0;
    if (is_zeroed)
        memset(allocation->memory, 0, owned_bytes);
    MBR_CHECK(pthread_mutex_lock(&instance->lock) == 0);
    status = publish_locked(instance, request.allocation_id, allocation, error);
    MBR_CHECK(pthread_mutex_unlock(&instance->lock) == 0);
    if (status != MBR_OK)
        goto free_memory;
    WRITE(outcome, .state = MBR_STATE_DONE,
        .content = is_zeroed ? MBR_CONTENT_ZERO : MBR_CONTENT_UNDEFINED,
        .granted_flags = request.flags & MBR_ALLOCATE_ZEROED,
        .address = address_of(allocation->memory), .newly_mapped_bytes = owned_bytes,
        .newly_owned_bytes = owned_bytes);
    return MBR_OK;

free_memory:
    free(allocation->memory);
free_record:
    free(allocation);
    return status;
}

static mbr_status slot_release(
    mbr_instance *instance, const mbr_release_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_release_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    MBR_CHECK(pthread_mutex_lock(&instance->lock) == 0);
    struct allocation *allocation =
        mbr_id_table_find(&instance->allocations, request.allocation_id);
    if (allocation && address_of(allocation->memory) != request.address)
        allocation = NULL;
    if (allocation) {
        mbr_id_table_remove(&instance->allocations, request.allocation_id);
        instance->owned_bytes -= allocation->owned_bytes;
    }
    MBR_CHECK(pthread_mutex_unlock(&instance->lock) == 0);
    if (!allocation)
        return mbr_fail(error, MBR_UNKNOWN_OBJECT, "no allocation %" PRIu64 " at 0x%" PRIx64,
            request.allocation_id, request.address);
    WRITE(outcome, .state = MBR_STATE_DONE, .unmapped_bytes = allocation->owned_bytes,
        .released_bytes = allocation->owned_bytes);
    free(allocation->memory);
    free(allocation);
    return MBR_OK;
}

static mbr_status slot_stats(mbr_instance *instance, const mbr_stats_request *raw,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_stats_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    MBR_CHECK(pthread_mutex_lock(&instance->lock) == 0);
    mbr_mechanism_stats answer = {
        .total_bytes = instance->capacity_bytes, /* UINT64_MAX is MBR_UNKNOWN_BYTES */
        .free_bytes = MBR_UNKNOWN_BYTES,
        .owned_bytes = instance->owned_bytes,
        .mapped_bytes = instance->owned_bytes,
    };
    if (instance->capacity_bytes < UINT64_MAX)
        answer.free_bytes = instance->capacity_bytes - instance->owned_bytes;
    MBR_CHECK(pthread_mutex_unlock(&instance->lock) == 0);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

static mbr_status slot_trim(
    mbr_instance *instance, const mbr_trim_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    mbr_trim_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    WRITE(outcome, .state = MBR_STATE_DONE);
    return MBR_OK;
}

static const mbr_allocator_vtable allocator = {
    MBR_SIZED(mbr_allocator_vtable),
    .kind = MBR_KIND_ALLOCATOR,
    .minor = MBR_MINOR_0,
    .fact = slot_fact,
    .allocate = slot_allocate,
    .release = slot_release,
    .stats = slot_stats,
    .trim = slot_trim,
};

/* ---- plugin --------------------------------------------------------------------------------- */

static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *raw,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    mbr_mechanisms_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    mbr_mechanism_description answer = {.count = 1};
    if (request.index == 0) {
        strcpy(answer.name, "eager");
        strcpy(answer.description, "the C library's heap, without virtual memory");
        answer.domain = MBR_DOMAIN_HOST;
        answer.tier = MBR_TIER_HOST;
    }
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return request.index == 0
        ? MBR_OK
        : mbr_fail(error, MBR_OUT_OF_RANGE, "mechanism %u of 1", request.index);
}

static mbr_status read_options(
    const mbr_open_request *request, uint64_t *capacity_bytes, mbr_error *error)
{
    char quoted[64];
    *capacity_bytes = UINT64_MAX;
    for (uint32_t i = 0; i < request->option_count; i++) {
        const mbr_option *option = &request->options[i];
        if (!option->key || strcmp(option->key, "capacity") != 0)
            return mbr_fail(error, MBR_UNKNOWN_KEY, "unknown option '%s'; known: capacity (bytes)",
                mbr_answer_quote(quoted, option->key));
        char *end = NULL;
        *capacity_bytes = option->value ? strtoull(option->value, &end, 10) : 0;
        if (*capacity_bytes == 0 || *end != 0)
            return mbr_fail(error, MBR_INVALID_ARGUMENT, "capacity '%s' is no number of bytes",
                mbr_answer_quote(quoted, option->value));
    }
    return MBR_OK;
}

static mbr_status slot_open(
    mbr_instance *none, const mbr_open_request *raw, mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none;
    mbr_open_request request;
    uint64_t capacity_bytes;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    if (!request.mechanism || strcmp(request.mechanism, "eager") != 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the only mechanism is eager");
    mbr_status status = read_options(&request, &capacity_bytes, error);
    if (status != MBR_OK)
        return status;
    mbr_instance *instance = calloc(1, sizeof(*instance));
    if (!instance)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an instance");
    instance->capacity_bytes = capacity_bytes;
    MBR_CHECK(pthread_mutex_init(&instance->lock, NULL) == 0);
    outcome->instance = instance;
    return MBR_OK;
}

static mbr_status slot_capability(mbr_instance *instance, const mbr_capability_request *raw,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    (void)instance;
    mbr_capability_request request;
    char quoted[64];
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    if (!request.id || strcmp(request.id, MBR_ID_ALLOCATOR) != 0)
        return mbr_fail(error, request.id ? MBR_UNSUPPORTED : MBR_INVALID_ARGUMENT,
            "mechanism eager does not offer '%s'", mbr_answer_quote(quoted, request.id));
    outcome->table = (const mbr_vtable_head *)&allocator;
    return MBR_OK;
}

static uint64_t count_allocations(mbr_instance *instance)
{
    MBR_CHECK(pthread_mutex_lock(&instance->lock) == 0);
    uint64_t count = instance->allocations.id_count;
    MBR_CHECK(pthread_mutex_unlock(&instance->lock) == 0);
    return count;
}

static mbr_status slot_close(
    mbr_instance *instance, const mbr_close_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_close_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    uint64_t count = count_allocations(instance);
    if (count > 0)
        return mbr_fail(error, MBR_IN_USE, "alive: %" PRIu64 " allocations", count);
    mbr_id_table_finish(&instance->allocations, &mbr_heap_libc);
    MBR_CHECK(pthread_mutex_destroy(&instance->lock) == 0);
    free(instance);
    WRITE(outcome, .state = MBR_STATE_DONE);
    return MBR_OK;
}

static mbr_status slot_report(
    mbr_instance *instance, const mbr_report_request *raw, mbr_report *outcome, mbr_error *error)
{
    mbr_report_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    mbr_report answer = {.allocation_count = count_allocations(instance)};
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

static mbr_status slot_quiesce(
    mbr_instance *instance, const mbr_quiesce_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    mbr_quiesce_request request;
    if (!ENTER(request, raw, outcome, error))
        return MBR_INVALID_ARGUMENT;
    WRITE(outcome, .state = MBR_STATE_DONE);
    return MBR_OK;
}

static const mbr_plugin_vtable plugin = {
    MBR_SIZED(mbr_plugin_vtable),
    .kind = MBR_KIND_PLUGIN,
    .minor = MBR_MINOR_0,
    .name = "eager",
    .version = "1.0",
    .mechanisms = slot_mechanisms,
    .open = slot_open,
    .capability = slot_capability,
    .close = slot_close,
    .report = slot_report,
    .quiesce = slot_quiesce,
};

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    return mbr_answer_hello(&plugin, hello, reply, error);
}
