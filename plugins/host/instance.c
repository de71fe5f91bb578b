/* The mechanism as a whole: its description, options, errors and end. Never touches an object. */
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/host/core.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define GRANULE_BYTES UINT64_C(65536)         /* option granule, default */
#define GRANULE_MAX_BYTES (UINT64_C(1) << 30) /* option granule, highest */

mbr_status mbr_host_fail(const mbr_instance *instance, mbr_error *error, int code,
    mbr_status no_memory, const char *call, uint64_t bytes)
{
    const char *name = strerrorname_np(code), *advice = "";
    mbr_status status = code == ENOMEM     ? no_memory
        : code == ENOSPC                   ? MBR_OUT_OF_MEMORY
        : code == EMFILE || code == ENFILE ? MBR_OUT_OF_DESCRIPTORS
        : code == EFBIG                    ? MBR_FILE_SIZE_LIMIT
                                           : MBR_SYSTEM;
    /* ENOMEM has two meanings, and only the process's own map tells which. One call may split two
     * mappings in three each. */
    struct mbr_host_range process;
    if (code == ENOMEM && instance &&
        instance->os.inspect(instance->os.context, 0, 0, 0, &process) == 0 &&
        process.mapping_count + 4 >= process.mapping_count_limit) {
        status = MBR_OUT_OF_MAPPINGS;
        advice = "; the process is at vm.max_map_count, larger extents need fewer mappings";
    }
    mbr_fail_native(error, status, MBR_NATIVE_ERRNO, code, "%s of %" PRIu64 " bytes: %s%s", call,
        bytes, name ? name : "unknown error", advice);
    if (error && MBR_HAS(mbr_error, error, asked_bytes))
        error->asked_bytes = bytes;
    return status;
}

mbr_status mbr_host_claim_locked(mbr_instance *instance, uint64_t bytes, mbr_error *error)
{
    uint64_t owned_bytes = instance->objects.owned_bytes;
    uint64_t free_bytes = mbr_max(instance->total_bytes, owned_bytes) - owned_bytes;
    if (instance->populate && bytes > free_bytes)
        return mbr_fail_bytes(error, MBR_OUT_OF_MEMORY, bytes, free_bytes,
            "%" PRIu64 " bytes on top of %" PRIu64 " owned pass the machine's %" PRIu64, bytes,
            owned_bytes, instance->total_bytes);
    instance->objects.owned_bytes += bytes;
    return MBR_OK;
}

/* ---- open ----------------------------------------------------------------------------------- */

static mbr_status check_open(
    const mbr_open_request *request, const mbr_open_outcome *outcome, mbr_error *error)
{
    char quoted[64];
    if (!request->mechanism || strcmp(request->mechanism, "host") != 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "no mechanism '%s'; the only one is host",
            mbr_answer_quote(quoted, request->mechanism));
    if (request->native_context.kind != MBR_NATIVE_STREAM_NONE)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "host memory has no native context; kind %u was given, 0 works",
            request->native_context.kind);
    if (!MBR_HAS(mbr_open_outcome, outcome, instance))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the outcome cannot hold an instance");
    return MBR_OK;
}

mbr_status mbr_host_open(const struct mbr_host_os *os, const mbr_heap *heap,
    const mbr_open_request *raw, mbr_open_outcome *outcome, mbr_error *error)
{
    mbr_open_request request;
    uint64_t populate = 1, huge = 0, granule_bytes = GRANULE_BYTES, available_bytes;
    const struct mbr_answer_option options[] = {
        {"populate", {"0", "1"}, 0, 0, &populate},
        {"granule", {NULL, NULL}, os->page_bytes, GRANULE_MAX_BYTES, &granule_bytes},
        {"huge", {"never", "advise"}, 0, 0, &huge},
    };
    if (!mbr_answer_begin(&request, sizeof(request), raw, outcome, sizeof(*outcome), error))
        return MBR_INVALID_ARGUMENT;
    mbr_status status = check_open(&request, outcome, error);
    if (status == MBR_OK)
        status = mbr_answer_options(&request, options, 3, error);
    if (status != MBR_OK)
        return status;
    mbr_instance *instance = mbr_heap_allocate(heap, sizeof(*instance));
    if (!instance)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an instance");
    instance->os = *os;
    instance->populate = populate;
    instance->huge = huge;
    int code = os->memory(os->context, &instance->total_bytes, &available_bytes);
    if (code == 0)
        code = os->file_create(os->context, &instance->file, &instance->inode);
    if (code != 0) {
        mbr_heap_release(heap, instance);
        return mbr_host_fail(
            NULL, error, code, MBR_OUT_OF_MEMORY, "open: /proc/meminfo or memfd_create", 0);
    }
    instance->objects.granule_bytes = granule_bytes;
    instance->objects.port = &mbr_host_port;
    mbr_objects_init(&instance->objects, heap);
    mbr_host_ballast_fill_locked(instance); /* nobody else knows the instance yet */
    outcome->instance = instance;
    return MBR_OK;
}

/* ---- Slots of the plugin's table ------------------------------------------------------------ */

static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *raw,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    mbr_mechanisms_request request;
    if (!mbr_answer_begin(&request, sizeof(request), raw, outcome, sizeof(*outcome), error))
        return MBR_INVALID_ARGUMENT;
    mbr_mechanism_description answer = {
        .count = 1,
        .name = "host",
        .description = "RAM of this machine, one sparse memory file per instance",
        .domain = MBR_DOMAIN_HOST,
        .tier = MBR_TIER_HOST,
    };
    mbr_status status = MBR_OK;
    if (request.index > 0) {
        answer = (mbr_mechanism_description){.count = 1};
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

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *answer, mbr_error *error)
{
    (void)instance;
    const struct mbr_answer_table tables[] = {
        {MBR_ID_ALLOCATOR, &mbr_host_allocator},
        {MBR_ID_VIRTUAL, &mbr_host_virtual},
        {MBR_ID_SHARED, &mbr_host_shared},
    };
    return mbr_answer_capability(tables, 3, request, answer, error);
}

static mbr_status close_instance(
    mbr_instance *instance, const mbr_close_request *request, mbr_outcome *answer, mbr_error *error)
{
    struct mbr_objects *objects = &instance->objects;
    (void)answer;
    mbr_status status = mbr_answer_check_flags(request->flags, 0, error);
    if (status == MBR_OK)
        status = mbr_objects_check_unused(objects, error);
    if (status != MBR_OK)
        return status;
    mbr_objects_lock(objects);
    int code = mbr_host_ballast_drop_locked(instance);
    mbr_objects_unlock(objects);
    if (code != 0)
        return mbr_host_fail(NULL, error, code, MBR_OUT_OF_MEMORY, "close: munmap", 0);
    /* Linux has closed the descriptor whatever close answers. */
    (void)instance->os.file_close(instance->os.context, instance->file);
    MBR_CHECK(instance->free_parts == NULL); /* with the last extent the file's tail began at 0 */
    mbr_objects_finish(objects);
    mbr_heap heap = objects->heap;
    mbr_heap_release(&heap, instance);
    return MBR_OK;
}

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *answer, mbr_error *error)
{
    (void)instance, (void)request, (void)answer, (void)error;
    return MBR_OK; /* no threads, nothing in flight */
}

MBR_ANSWER_TELL(static, slot_capability, capability, mbr_capability_request, mbr_capability_outcome)
MBR_ANSWER_CHANGE(static, slot_close, close_instance, mbr_close_request)
MBR_ANSWER_CHANGE(static, slot_quiesce, quiesce, mbr_quiesce_request)

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
    .report = mbr_objects_slot_report,
    .quiesce = slot_quiesce,
};
