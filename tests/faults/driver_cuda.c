/* Responsible for what is CUDA's own of below_gpu.c: its calls, and a stream in the primary
 * context. Makes no call of the plugin's. */
#include "plugins/cuda/backend.h"
#include "plugins/cuda/driver.h"
#include "tests/faults/driver.h"

static struct {
#define MEMBER(member, name, parameters) mbr_cuda_result(*member) parameters;
    MBR_CUDA_FUNCTIONS(MEMBER)
} cuda;

static mbr_cuda_context context; /* of the streams */

static void find(void *library)
{
#define FIND(member, name, parameters) *(void **)&cuda.member = fault_driver_find(library, #name);
    MBR_CUDA_FUNCTIONS(FIND)
}

static void begin(void)
{
    FAULT_DRIVER_NEED(cuda.init(0));
    context = NULL;
}

static mbr_gpu_stream stream_create(void)
{
    mbr_gpu_stream stream;
    mbr_cuda_context popped;
    if (context == NULL)
        FAULT_DRIVER_NEED(cuda.primary_retain(&context, 0));
    FAULT_DRIVER_NEED(cuda.context_push(context));
    FAULT_DRIVER_NEED(cuda.stream_create(&stream, MBR_GPU_STREAM_NON_BLOCKING));
    FAULT_DRIVER_NEED(cuda.context_pop(&popped));
    return stream;
}

static const struct fault_call calls[] = {MBR_CUDA_FUNCTIONS(FAULT_DRIVER_CALL)};

const struct fault_driver fault_driver = {
    .library = MBR_CUDA_LIBRARY,
    .backend = &mbr_cuda_backend,
    .calls = calls,
    .call_count = sizeof calls / sizeof *calls,
    .find = find,
    .begin = begin,
    .stream_create = stream_create,
};
