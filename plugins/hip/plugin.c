/* The one exported function of libmembrane-hip.so, its table, and the note that is read before it
 * runs. */
#include "plugins/common/answer.h"
#include "plugins/hip/backend.h"

/* Not unloadable, though this file alone would be: the driver that it opens has threads and keys of
 * thread-local storage, and stays. */
MBR_PLUGIN_NOTE("hip", "membrane", 0);

static mbr_status slot_mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    return mbr_gpu_mechanisms(&mbr_hip_backend, request, outcome, error);
}

static mbr_status slot_open(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none;
    return mbr_gpu_open(&mbr_hip_backend, &mbr_heap_libc, request, outcome, error);
}

static const mbr_plugin_vtable plugin = {
    MBR_SIZED(mbr_plugin_vtable),
    .kind = MBR_KIND_PLUGIN,
    .minor = MBR_MINOR_0,
    .name = "hip",
    .version = "1.0",
    .mechanisms = slot_mechanisms,
    .open = slot_open,
    .capability = mbr_gpu_slot_capability,
    .close = mbr_gpu_slot_close,
    .report = mbr_objects_slot_report,
    .quiesce = mbr_line_slot_quiesce,
};

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    return mbr_answer_hello(&plugin, hello, reply, error);
}
