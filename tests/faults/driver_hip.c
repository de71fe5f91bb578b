/* Responsible for what is HIP's own of below_gpu.c: its calls, a stream of the current device, and
 * the granule that the plugin takes only where it is told to. Makes no call of the plugin's. */
#include "plugins/hip/backend.h"
#include "plugins/hip/driver.h"
#include "tests/faults/driver.h"

static struct {
#define MEMBER(member, name, parameters) mbr_hip_result(*member) parameters;
    FAULT_HIP_FUNCTIONS(MEMBER)
} hip;

static void find(void *library)
{
#define FIND(member, name, parameters) *(void **)&hip.member = fault_driver_find(library, #name);
    FAULT_HIP_FUNCTIONS(FIND)
}

static void begin(void)
{
    FAULT_DRIVER_NEED(hip.init(0));
}

static mbr_gpu_stream stream_create(void)
{
    mbr_gpu_stream stream;
    FAULT_DRIVER_NEED(hip.stream_create(&stream, MBR_GPU_STREAM_NON_BLOCKING));
    return stream;
}

static const struct fault_call calls[] = {FAULT_HIP_FUNCTIONS(FAULT_DRIVER_CALL)};
static const mbr_option options[] = {{"granule", "4096"}};

const struct fault_driver fault_driver = {
    .library = "libamdhip64.so.7",
    .backend = &mbr_hip_backend,
    .calls = calls,
    .call_count = sizeof calls / sizeof *calls,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .find = find,
    .begin = begin,
    .stream_create = stream_create,
};
