/* The mechanism as a whole: its description, options, errors and end. Never touches an object. */
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "plugins/host/core.h"

#include <errno.h>
#include <inttypes.h>

#define GRANULE_BYTES UINT64_C(65536)         /* option granule, default */
#define GRANULE_MAX_BYTES (UINT64_C(1) << 30) /* option granule, highest */

mbr_status mbr_host_fail(const mbr_instance *instance, mbr_error *error, int code,
    mbr_status no_memory, const char *call, uint64_t bytes)
{
    /* ENOMEM has two meanings, and only the process's own map tells which. One
     * call may split two mappings in three each. */
    struct mbr_host_range process;
    if (code == ENOMEM && instance->os.inspect(instance->os.context, 0, 0, 0, &process) == 0 &&
        process.mapping_count + 4 >= process.mapping_count_limit)
        no_memory = MBR_OUT_OF_MAPPINGS;
    return mbr_answer_errno(error, code, no_memory, call, bytes);
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

static const mbr_mechanism_description described = {
    .name = "host",
    .description = "RAM of this machine, one sparse memory file per instance",
    .domain = MBR_DOMAIN_HOST,
    .tier = MBR_TIER_HOST,
};

static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    return mbr_answer_mechanisms(&described, 1, request, outcome, error);
}

mbr_status mbr_host_open(const struct mbr_host_os *os, const mbr_heap *heap,
    const mbr_open_request *request, mbr_open_outcome *outcome, mbr_error *error)
{
    uint64_t populate = 1, huge = 0, granule_bytes = GRANULE_BYTES, available_bytes;
    const struct mbr_answer_option options[] = {
        {"populate", {"0", "1"}, 0, 0, &populate},
        {"granule", {NULL, NULL}, os->page_bytes, GRANULE_MAX_BYTES, &granule_bytes},
        {"huge", {"never", "advise"}, 0, 0, &huge},
    };
    const struct mbr_answer_opening opening = {&described, options, 1, 3, MBR_NATIVE_STREAM_NONE};
    uint32_t index;
    mbr_status status = mbr_answer_open(&opening, request, outcome, &index, error);
    if (status != MBR_OK)
        return status;
    mbr_instance *instance = mbr_heap_allocate(heap, sizeof(*instance));
    if (!instance)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no heap for an instance");
    instance->os = *os;
    instance->populate = populate;
    instance->huge = huge;
    instance->objects.granule_bytes = granule_bytes;
    instance->objects.device_count = 1;
    instance->objects.allocation_unit_bytes = os->page_bytes;
    instance->objects.allocation_port = &mbr_host_allocation_port;
    instance->objects.port = &mbr_host_port;
    int code = os->memory(os->context, &instance->total_bytes, &available_bytes);
    if (code == 0)
        code = os->file_create(os->context, &instance->file, &instance->inode);
    if (code != 0) {
        mbr_heap_release(heap, instance);
        return mbr_answer_errno(
            error, code, MBR_OUT_OF_MEMORY, "open: /proc/meminfo or memfd_create", 0);
    }
    mbr_objects_init(&instance->objects, heap);
    mbr_host_ballast_fill_locked(instance); /* nobody else knows the instance yet */
    outcome->instance = instance;
    return MBR_OK;
}

/* ---- Slots of the plugin's table ------------------------------------------------------------ */

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
    mbr_status status = mbr_objects_check_close(objects, request, error);
    if (status != MBR_OK)
        return status;
    mbr_objects_lock(objects);
    int code = mbr_host_ballast_drop_locked(instance);
    mbr_objects_unlock(objects);
    if (code != 0)
        return mbr_answer_errno(error, code, MBR_OUT_OF_MEMORY, "close: munmap", 0);
    /* Linux has closed the descriptor whatever close answers. */
    (void)instance->os.file_close(instance->os.context, instance->file);
    MBR_CHECK(instance->free_parts == NULL); /* with the last extent the file's tail began at 0 */
    mbr_objects_finish(objects);
    mbr_heap heap = objects->heap;
    mbr_heap_release(&heap, instance);
    return MBR_OK;
}

MBR_ANSWER_TELL(static, slot_capability, capability, mbr_capability_request, mbr_capability_outcome)
MBR_ANSWER_CHANGE(static, slot_close, close_instance, mbr_close_request)
MBR_ANSWER_CHANGE(static, slot_quiesce, mbr_answer_nothing, mbr_quiesce_request) /* no threads */

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
