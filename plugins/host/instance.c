/* The mechanism as a whole: its description, options, facts, figures and end, and what all slots
 * share. Never touches an object of the three tables. */
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/common/answer.h"
#include "plugins/host/core.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define KNOWN_OPTIONS "populate (1 or 0), granule (bytes), huge (never or advise)"

/* ---- Shared by the slots -------------------------------------------------------------------- */

mbr_status mbr_host_enter(const mbr_instance *instance, void *copy, uint32_t copy_bytes,
    const void *request, void *outcome, uint32_t outcome_bytes, mbr_error *error)
{
    if (!mbr_answer_begin(copy, copy_bytes, request, outcome, outcome_bytes, error))
        return MBR_INVALID_ARGUMENT;
    if (!instance || instance->magic != MBR_HOST_MAGIC)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "no open instance of mechanism host");
    return MBR_OK;
}

/* A plain mutex, without ranks: those are kept in thread-local storage, which a plugin that can be
 * unloaded must not have. There is one lock, and no slot calls out under it. */
void mbr_host_lock(mbr_instance *instance)
{
    MBR_CHECK(pthread_mutex_lock(&instance->lock) == 0);
}

void mbr_host_unlock(mbr_instance *instance)
{
    MBR_CHECK(pthread_mutex_unlock(&instance->lock) == 0);
}

static mbr_status fail_as(
    mbr_error *error, mbr_status status, int code, const char *call, uint64_t bytes)
{
    const char *name = strerrorname_np(code);
    const char *advice = status == MBR_OUT_OF_MAPPINGS
        ? "; the process is at vm.max_map_count, larger extents need fewer mappings"
        : "";
    mbr_fail_native(error, status, MBR_NATIVE_ERRNO, code, "%s of %" PRIu64 " bytes: %s%s", call,
        bytes, name ? name : "unknown error", advice);
    if (error && MBR_HAS(mbr_error, error, asked_bytes))
        error->asked_bytes = bytes;
    return status;
}

mbr_status mbr_host_fail(mbr_error *error, int code, const char *call, uint64_t bytes)
{
    mbr_status status = MBR_SYSTEM;
    if (code == ENOMEM || code == ENOSPC)
        status = MBR_OUT_OF_MEMORY;
    else if (code == EMFILE || code == ENFILE)
        status = MBR_OUT_OF_DESCRIPTORS;
    else if (code == EFBIG)
        status = MBR_FILE_SIZE_LIMIT;
    return fail_as(error, status, code, call, bytes);
}

mbr_status mbr_host_fail_mapping(const mbr_instance *instance, mbr_error *error, int code,
    mbr_status no_memory, const char *call, uint64_t bytes)
{
    if (code != ENOMEM)
        return mbr_host_fail(error, code, call, bytes);
    /* ENOMEM has two meanings, and only the process's own map tells which. One call may split two
     * mappings in three each. */
    struct mbr_host_range process;
    if (instance->os.inspect(instance->os.context, 0, 0, 0, &process) == 0 &&
        process.mapping_count + 4 >= process.mapping_count_limit)
        no_memory = MBR_OUT_OF_MAPPINGS;
    return fail_as(error, no_memory, code, call, bytes);
}

int mbr_host_populate(
    const mbr_instance *instance, uint64_t address, uint64_t bytes, int protection, bool fresh)
{
    if (!instance->populate || protection == PROT_NONE)
        return 0;
    /* Of the two the writing kind is a quarter faster on shared memory, and changes no byte. */
    int advice = protection & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    int code = instance->os.madvise(instance->os.context, address, bytes, advice);
    if (code != EINVAL)
        return code;
    /* Before Linux 5.14: by hand. Reading makes a page of shared memory present for writes too; a
     * private one must be written, which only its first user may. */
    for (uint64_t offset = 0; offset < bytes; offset += instance->os.page_bytes) {
        volatile char *byte = (volatile char *)(uintptr_t)(address + offset);
        if (fresh)
            *byte = 0;
        else
            (void)*byte;
    }
    return 0;
}

int mbr_host_hide(const mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    return instance->os.madvise(instance->os.context, address, bytes, MADV_DONTFORK);
}

enum mbr_host_range_kind mbr_host_look_at(
    const mbr_instance *instance, uint64_t address, uint64_t bytes)
{
    struct mbr_host_range range;
    if (instance->os.inspect(instance->os.context, address, bytes, instance->inode, &range) != 0)
        return MBR_HOST_RANGE_OTHER;
    return range.kind;
}

mbr_status mbr_host_check_flags(uint32_t flags, uint32_t known, mbr_error *error)
{
    uint32_t unknown = flags & 0xFFFF & ~known;
    if (unknown == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_UNSUPPORTED, "flag 0x%x is not offered here", unknown);
}

mbr_status mbr_host_check_size(const mbr_instance *instance, uint64_t bytes, mbr_error *error)
{
    if (bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the size is 0");
    if (bytes % instance->granule_bytes != 0)
        return mbr_fail(error, MBR_MISALIGNED,
            "%" PRIu64 " bytes are no multiple of the granule %" PRIu64, bytes,
            instance->granule_bytes);
    return MBR_OK;
}

mbr_status mbr_host_publish_locked(mbr_instance *instance, struct mbr_id_table *table, uint64_t id,
    void *object, const char *class_name, mbr_error *error)
{
    if (mbr_id_table_find(table, id))
        return mbr_fail(error, MBR_ALREADY_EXISTS, "%s %" PRIu64 " exists", class_name, id);
    if (!mbr_id_table_reserve(table, &instance->heap))
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for the table of %ss", class_name);
    mbr_id_table_insert(table, id, object);
    return MBR_OK;
}

mbr_status mbr_host_claim_locked(mbr_instance *instance, uint64_t bytes, mbr_error *error)
{
    uint64_t free_bytes =
        mbr_max(instance->total_bytes, instance->owned_bytes) - instance->owned_bytes;
    if (instance->populate && bytes > free_bytes)
        return mbr_fail_bytes(error, MBR_OUT_OF_MEMORY, bytes, free_bytes,
            "%" PRIu64 " bytes on top of %" PRIu64 " owned pass the machine's %" PRIu64, bytes,
            instance->owned_bytes, instance->total_bytes);
    instance->owned_bytes += bytes;
    return MBR_OK;
}

mbr_status mbr_host_check_budget(uint64_t bytes, uint64_t max_owned_bytes, mbr_error *error)
{
    if (bytes <= max_owned_bytes)
        return MBR_OK;
    return mbr_fail_bytes(error, MBR_OVER_BUDGET, bytes, max_owned_bytes,
        "would own %" PRIu64 " bytes, at most %" PRIu64 " are allowed", bytes, max_owned_bytes);
}

/* ---- Options and open ----------------------------------------------------------------------- */

static bool is_equal(const char *text, const char *word)
{
    return text && strcmp(text, word) == 0;
}

/* Decimal digits only, so that no locale has a say. False if it is no number of 64 bits. */
static bool parse_bytes(const char *text, uint64_t *bytes)
{
    uint64_t value = 0;
    if (!text || !*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || !mbr_mul(value, 10, &value) ||
            !mbr_add(value, (uint64_t)(*text - '0'), &value))
            return false;
    *bytes = value;
    return true;
}

static bool set_switch(const char *value, const char *off, const char *on, bool *out)
{
    *out = is_equal(value, on);
    return *out || is_equal(value, off);
}

static mbr_status set_option(mbr_instance *instance, const mbr_option *option, mbr_error *error)
{
    bool good;
    char quoted[64];
    if (is_equal(option->key, "populate")) {
        good = set_switch(option->value, "0", "1", &instance->populate);
    } else if (is_equal(option->key, "huge")) {
        good = set_switch(option->value, "never", "advise", &instance->huge);
    } else if (is_equal(option->key, "granule")) {
        good = parse_bytes(option->value, &instance->granule_bytes) &&
            mbr_is_power_of_two(instance->granule_bytes) &&
            instance->granule_bytes >= instance->os.page_bytes &&
            instance->granule_bytes <= MBR_HOST_GRANULE_MAX_BYTES;
    } else {
        return mbr_fail(error, MBR_UNKNOWN_KEY, "unknown option '%s'; known: " KNOWN_OPTIONS,
            mbr_answer_quote(quoted, option->key));
    }
    if (good)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "option %s cannot be '%s'; known: " KNOWN_OPTIONS
        "; a granule is a power of two from %" PRIu64 " to %" PRIu64,
        option->key, mbr_answer_quote(quoted, option->value), instance->os.page_bytes,
        MBR_HOST_GRANULE_MAX_BYTES);
}

static mbr_status check_open(const mbr_open_request *request, mbr_error *error)
{
    char quoted[64];
    if (!is_equal(request->mechanism, "host"))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "no mechanism '%s'; the only one is host",
            mbr_answer_quote(quoted, request->mechanism));
    if (request->option_count > 0 && !request->options)
        return mbr_fail(
            error, MBR_INVALID_ARGUMENT, "%u options at address 0", request->option_count);
    if (request->native_context.kind != MBR_NATIVE_STREAM_NONE)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "host memory has no native context; kind %u was given, 0 works",
            request->native_context.kind);
    return MBR_OK;
}

mbr_status mbr_host_open(const struct mbr_host_os *os, const mbr_heap *heap,
    const mbr_open_request *raw, mbr_open_outcome *outcome, mbr_error *error)
{
    mbr_open_request request;
    if (!mbr_answer_begin(&request, sizeof(request), raw, outcome, sizeof(*outcome), error))
        return MBR_INVALID_ARGUMENT;
    mbr_status status = check_open(&request, error);
    if (status != MBR_OK)
        return status;
    if (!MBR_HAS(mbr_open_outcome, outcome, instance))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the outcome cannot hold an instance");
    mbr_instance *instance = mbr_heap_allocate(heap, sizeof(*instance));
    if (!instance)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an instance");
    instance->os = *os;
    instance->heap = *heap;
    instance->populate = true;
    instance->granule_bytes = MBR_HOST_GRANULE_BYTES;
    for (uint32_t i = 0; i < request.option_count && status == MBR_OK; i++)
        status = set_option(instance, &request.options[i], error);
    if (status != MBR_OK)
        goto release_instance;

    uint64_t available_bytes;
    int code = os->memory(os->context, &instance->total_bytes, &available_bytes);
    if (code != 0) {
        status = mbr_host_fail(error, code, "open: read /proc/meminfo", 0);
        goto release_instance;
    }
    code = os->file_create(os->context, &instance->file, &instance->inode);
    if (code != 0) {
        status = mbr_host_fail(error, code, "open: memfd_create", 0);
        goto release_instance;
    }
    MBR_CHECK(pthread_mutex_init(&instance->lock, NULL) == 0);
    mbr_host_ballast_fill_locked(instance); /* nobody else knows the instance yet */
    instance->magic = MBR_HOST_MAGIC;
    outcome->instance = instance;
    return MBR_OK;

release_instance:
    mbr_heap_release(heap, instance);
    return status;
}

/* ---- Slots of the plugin's table ------------------------------------------------------------ */

static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *raw,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    mbr_mechanisms_request request;
    if (!mbr_answer_begin(&request, sizeof(request), raw, outcome, sizeof(*outcome), error))
        return MBR_INVALID_ARGUMENT;
    mbr_mechanism_description answer = {.count = 1};
    mbr_status status = MBR_OK;
    if (request.index == 0) {
        strcpy(answer.name, "host");
        strcpy(answer.description, "RAM of this machine, one sparse memory file per instance");
        answer.domain = MBR_DOMAIN_HOST;
        answer.tier = MBR_TIER_HOST;
    } else {
        status = mbr_fail(error, MBR_OUT_OF_RANGE, "mechanism %u of 1", request.index);
    }
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}

static mbr_status slot_open(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none;
    struct mbr_host_os os;
    mbr_host_os_linux(&os);
    return mbr_host_open(&os, &mbr_heap_libc, request, outcome, error);
}

static mbr_status slot_capability(mbr_instance *instance, const mbr_capability_request *raw,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    mbr_capability_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    char quoted[64];
    mbr_capability_outcome answer = {.table = NULL};
    if (is_equal(request.id, MBR_ID_ALLOCATOR))
        answer.table = (const mbr_vtable_head *)&mbr_host_allocator;
    else if (is_equal(request.id, MBR_ID_VIRTUAL))
        answer.table = (const mbr_vtable_head *)&mbr_host_virtual;
    else if (is_equal(request.id, MBR_ID_SHARED))
        answer.table = (const mbr_vtable_head *)&mbr_host_shared;
    if (!request.id)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the capability's id is NULL");
    if (!answer.table)
        return mbr_fail(error, MBR_UNSUPPORTED, "mechanism host does not offer '%s'",
            mbr_answer_quote(quoted, request.id));
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

static void read_report(mbr_instance *instance, mbr_report *report)
{
    mbr_host_lock(instance);
    report->allocation_count = instance->allocations.id_count;
    report->reservation_count = instance->reservations.id_count;
    report->extent_count = instance->extents.id_count;
    report->mapping_count = instance->mapping_count;
    mbr_host_unlock(instance);
}

static mbr_status slot_close(
    mbr_instance *instance, const mbr_close_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_close_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK)
        status = mbr_host_check_flags(request.flags, 0, error);
    if (status != MBR_OK)
        return status;
    mbr_report live = {0};
    read_report(instance, &live);
    if (live.allocation_count + live.reservation_count + live.extent_count > 0)
        return mbr_fail(error, MBR_IN_USE,
            "alive: %" PRIu64 " allocations, %" PRIu64 " reservations, %" PRIu64
            " extents, %" PRIu64 " mappings",
            live.allocation_count, live.reservation_count, live.extent_count, live.mapping_count);
    mbr_host_lock(instance);
    int code = mbr_host_ballast_drop_locked(instance);
    mbr_host_unlock(instance);
    if (code != 0)
        return mbr_host_fail(error, code, "close: munmap", 0);
    instance->magic = 0;
    /* Linux has closed the descriptor whatever close answers. */
    (void)instance->os.file_close(instance->os.context, instance->file);
    mbr_heap heap = instance->heap;
    mbr_id_table_finish(&instance->allocations, &heap);
    mbr_id_table_finish(&instance->reservations, &heap);
    mbr_id_table_finish(&instance->extents, &heap);
    MBR_CHECK(instance->free_parts == NULL); /* with the last extent the file's tail began at 0 */
    MBR_CHECK(pthread_mutex_destroy(&instance->lock) == 0);
    mbr_heap_release(&heap, instance);
    mbr_answer_write(outcome, &(mbr_outcome){.state = MBR_STATE_DONE}, sizeof(mbr_outcome));
    return MBR_OK;
}

static mbr_status slot_report(
    mbr_instance *instance, const mbr_report_request *raw, mbr_report *outcome, mbr_error *error)
{
    mbr_report_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status != MBR_OK)
        return status;
    mbr_report answer = {0};
    read_report(instance, &answer);
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return MBR_OK;
}

static mbr_status slot_quiesce(
    mbr_instance *instance, const mbr_quiesce_request *raw, mbr_outcome *outcome, mbr_error *error)
{
    mbr_quiesce_request request;
    mbr_status status = MBR_HOST_ENTER(instance, request, raw, outcome, error);
    if (status == MBR_OK) /* no threads, nothing in flight */
        mbr_answer_write(outcome, &(mbr_outcome){.state = MBR_STATE_DONE}, sizeof(mbr_outcome));
    return status;
}

const mbr_plugin_vtable mbr_host_plugin = {
    MBR_SIZED(mbr_plugin_vtable),
    .kind = MBR_KIND_PLUGIN,
    .minor = MBR_MINOR_0,
    .name = "host",
    .version = "1.0",
    .mechanisms = slot_mechanisms,
    .open = slot_open,
    .capability = slot_capability,
    .close = slot_close,
    .report = slot_report,
    .quiesce = slot_quiesce,
};
