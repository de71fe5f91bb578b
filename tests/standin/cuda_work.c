/* The CUDA front end: streams, events, copies, fills, kernels, captures and graphs. Turns arguments
 * and answers round; decides nothing. */
#include "tests/standin/cuda.h"

#define ON_STREAM (SIM_NEEDS_START)

static uintptr_t name_of(mbr_cuda_stream stream)
{
    return (uintptr_t)stream;
}

/* ---- Streams ---- */

mbr_cuda_result cuStreamCreate(mbr_cuda_stream *stream, unsigned flags)
{
    return CUDA_CALL(cuStreamCreate, SIM_NEEDS_LIVE_CONTEXT, front_stream_create(stream, flags, 0));
}

mbr_cuda_result cuStreamCreateWithPriority(mbr_cuda_stream *stream, unsigned flags, int priority)
{
    return CUDA_CALL(cuStreamCreateWithPriority, SIM_NEEDS_LIVE_CONTEXT,
        front_stream_create(stream, flags, priority));
}

mbr_cuda_result cuStreamDestroy_v2(mbr_cuda_stream stream)
{
    return CUDA_CALL(cuStreamDestroy_v2, ON_STREAM, sim_stream_destroy(name_of(stream)));
}

mbr_cuda_result cuStreamQuery(mbr_cuda_stream stream)
{
    return CUDA_CALL(cuStreamQuery, ON_STREAM | SIM_IS_UNSAFE, sim_stream_query(name_of(stream)));
}

mbr_cuda_result cuStreamSynchronize(mbr_cuda_stream stream)
{
    return CUDA_CALL(
        cuStreamSynchronize, ON_STREAM | SIM_IS_UNSAFE, sim_stream_synchronize(name_of(stream)));
}

mbr_cuda_result cuStreamWaitEvent(mbr_cuda_stream stream, mbr_cuda_event event, unsigned flags)
{
    (void)flags;
    return CUDA_CALL(
        cuStreamWaitEvent, ON_STREAM, sim_stream_wait(name_of(stream), (struct sim_event *)event));
}

static int stream_context(uintptr_t name, mbr_cuda_context *context)
{
    struct sim_stream *stream;
    int status = sim_stream_of(name, &stream);
    if (status == SIM_OK)
        *context = (mbr_cuda_context)stream->context;
    return status;
}

mbr_cuda_result cuStreamGetCtx(mbr_cuda_stream stream, mbr_cuda_context *context)
{
    return CUDA_CALL(cuStreamGetCtx, ON_STREAM, stream_context(name_of(stream), context));
}

/* ---- Events ---- */

mbr_cuda_result cuEventCreate(mbr_cuda_event *event, unsigned flags)
{
    return CUDA_CALL(cuEventCreate, SIM_NEEDS_LIVE_CONTEXT, front_event_create(event, flags));
}

mbr_cuda_result cuEventDestroy_v2(mbr_cuda_event event)
{
    return CUDA_CALL(cuEventDestroy_v2, ON_STREAM, sim_event_destroy((struct sim_event *)event));
}

mbr_cuda_result cuEventRecord(mbr_cuda_event event, mbr_cuda_stream stream)
{
    return CUDA_CALL(
        cuEventRecord, ON_STREAM, sim_event_record((struct sim_event *)event, name_of(stream)));
}

mbr_cuda_result cuEventQuery(mbr_cuda_event event)
{
    return CUDA_CALL(cuEventQuery, ON_STREAM | SIM_IS_UNSAFE | SIM_SERVES_INSIDE,
        sim_event_query((struct sim_event *)event));
}

mbr_cuda_result cuEventSynchronize(mbr_cuda_event event)
{
    return CUDA_CALL(cuEventSynchronize, ON_STREAM | SIM_IS_UNSAFE,
        sim_event_synchronize((struct sim_event *)event));
}

mbr_cuda_result cuEventElapsedTime(float *milliseconds, mbr_cuda_event start, mbr_cuda_event end)
{
    return CUDA_CALL(cuEventElapsedTime, ON_STREAM,
        sim_event_elapsed(milliseconds, (struct sim_event *)start, (struct sim_event *)end));
}

/* ---- Copies ---- */

#define WAITED SIM_NEEDS_LIVE_CONTEXT

mbr_cuda_result cuMemcpy(mbr_cuda_address to, mbr_cuda_address from, size_t bytes)
{
    return CUDA_CALL(cuMemcpy, WAITED, sim_submit_copy(0, to, from, bytes, true));
}

mbr_cuda_result cuMemcpyHtoD_v2(mbr_cuda_address to, const void *from, size_t bytes)
{
    return CUDA_CALL(cuMemcpyHtoD_v2, WAITED, sim_submit_copy(0, to, (uintptr_t)from, bytes, true));
}

mbr_cuda_result cuMemcpyDtoH_v2(void *to, mbr_cuda_address from, size_t bytes)
{
    return CUDA_CALL(cuMemcpyDtoH_v2, WAITED, sim_submit_copy(0, (uintptr_t)to, from, bytes, true));
}

/* Between two places of a device the driver does not wait. */
mbr_cuda_result cuMemcpyDtoD_v2(mbr_cuda_address to, mbr_cuda_address from, size_t bytes)
{
    return CUDA_CALL(cuMemcpyDtoD_v2, WAITED, sim_submit_copy(0, to, from, bytes, false));
}

mbr_cuda_result cuMemcpyAsync(
    mbr_cuda_address to, mbr_cuda_address from, size_t bytes, mbr_cuda_stream stream)
{
    return CUDA_CALL(
        cuMemcpyAsync, ON_STREAM, sim_submit_copy(name_of(stream), to, from, bytes, false));
}

mbr_cuda_result cuMemcpyHtoDAsync_v2(
    mbr_cuda_address to, const void *from, size_t bytes, mbr_cuda_stream stream)
{
    return CUDA_CALL(cuMemcpyHtoDAsync_v2, ON_STREAM,
        sim_submit_copy(name_of(stream), to, (uintptr_t)from, bytes, false));
}

mbr_cuda_result cuMemcpyDtoHAsync_v2(
    void *to, mbr_cuda_address from, size_t bytes, mbr_cuda_stream stream)
{
    return CUDA_CALL(cuMemcpyDtoHAsync_v2, ON_STREAM,
        sim_submit_copy(name_of(stream), (uintptr_t)to, from, bytes, false));
}

mbr_cuda_result cuMemcpyDtoDAsync_v2(
    mbr_cuda_address to, mbr_cuda_address from, size_t bytes, mbr_cuda_stream stream)
{
    return CUDA_CALL(
        cuMemcpyDtoDAsync_v2, ON_STREAM, sim_submit_copy(name_of(stream), to, from, bytes, false));
}

/* ---- Fills, which the driver does not wait for ---- */

mbr_cuda_result cuMemsetD8_v2(mbr_cuda_address address, unsigned char value, size_t bytes)
{
    return CUDA_CALL(cuMemsetD8_v2, WAITED, sim_submit_fill(0, address, value, 1, bytes, false));
}

mbr_cuda_result cuMemsetD16_v2(mbr_cuda_address address, uint16_t value, size_t count)
{
    return CUDA_CALL(cuMemsetD16_v2, WAITED, sim_submit_fill(0, address, value, 2, count, false));
}

mbr_cuda_result cuMemsetD32_v2(mbr_cuda_address address, uint32_t value, size_t count)
{
    return CUDA_CALL(cuMemsetD32_v2, WAITED, sim_submit_fill(0, address, value, 4, count, false));
}

mbr_cuda_result cuMemsetD8Async(
    mbr_cuda_address address, unsigned char value, size_t bytes, mbr_cuda_stream stream)
{
    return CUDA_CALL(cuMemsetD8Async, ON_STREAM,
        sim_submit_fill(name_of(stream), address, value, 1, bytes, false));
}

mbr_cuda_result cuMemsetD32Async(
    mbr_cuda_address address, uint32_t value, size_t count, mbr_cuda_stream stream)
{
    return CUDA_CALL(cuMemsetD32Async, ON_STREAM,
        sim_submit_fill(name_of(stream), address, value, 4, count, false));
}

/* ---- Kernels and host functions ---- */

static int module_load(mbr_cuda_module *module, const void *image)
{
    return module ? sim_module_load((struct sim_module **)module, image) : (int)SIM_INVALID_VALUE;
}

mbr_cuda_result cuModuleLoadData(mbr_cuda_module *module, const void *image)
{
    return CUDA_CALL(cuModuleLoadData, SIM_NEEDS_LIVE_CONTEXT, module_load(module, image));
}

mbr_cuda_result cuModuleUnload(mbr_cuda_module module)
{
    return CUDA_CALL(
        cuModuleUnload, SIM_NEEDS_LIVE_CONTEXT, sim_module_unload((struct sim_module *)module));
}

static int module_function(mbr_cuda_function *function, mbr_cuda_module module, const char *name)
{
    const struct sim_kernel *kernel;
    int status = function && name ? sim_module_function(&kernel, (struct sim_module *)module, name)
                                  : (int)SIM_INVALID_VALUE;
    if (status == SIM_OK)
        *function = (mbr_cuda_function)kernel;
    return status;
}

mbr_cuda_result cuModuleGetFunction(
    mbr_cuda_function *function, mbr_cuda_module module, const char *name)
{
    return CUDA_CALL(
        cuModuleGetFunction, SIM_NEEDS_LIVE_CONTEXT, module_function(function, module, name));
}

mbr_cuda_result cuLaunchKernel(mbr_cuda_function function, unsigned grid_x, unsigned grid_y,
    unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
    mbr_cuda_stream stream, void **arguments, void **extra)
{
    (void)shared_bytes;
    bool is_legal = function && !extra && grid_x && grid_y && grid_z && block_x && block_y &&
        block_z && (uint64_t)block_x * block_y * block_z <= CUDA_BLOCK_MAX_THREADS;
    return CUDA_CALL(cuLaunchKernel, ON_STREAM,
        is_legal
            ? sim_submit_kernel(name_of(stream), (const struct sim_kernel *)function, arguments)
            : (int)SIM_INVALID_VALUE);
}

mbr_cuda_result cuLaunchHostFunc(
    mbr_cuda_stream stream, mbr_cuda_host_function function, void *argument)
{
    return CUDA_CALL(
        cuLaunchHostFunc, ON_STREAM, sim_submit_host_function(name_of(stream), function, argument));
}

/* ---- Captures and graphs ---- */

mbr_cuda_result cuStreamBeginCapture_v2(mbr_cuda_stream stream, uint32_t mode)
{
    return CUDA_CALL(cuStreamBeginCapture_v2, ON_STREAM,
        sim_capture_begin(name_of(stream), (enum sim_capture_mode)mode));
}

mbr_cuda_result cuStreamEndCapture(mbr_cuda_stream stream, mbr_cuda_graph *graph)
{
    return CUDA_CALL(cuStreamEndCapture, ON_STREAM,
        front_capture_end(name_of(stream), (struct sim_graph **)graph));
}

mbr_cuda_result cuStreamIsCapturing(mbr_cuda_stream stream, uint32_t *capture_status)
{
    return CUDA_CALL(cuStreamIsCapturing, ON_STREAM,
        capture_status ? sim_capture_status(name_of(stream), capture_status)
                       : (int)SIM_INVALID_VALUE);
}

mbr_cuda_result cuThreadExchangeStreamCaptureMode(uint32_t *mode)
{
    return CUDA_CALL(
        cuThreadExchangeStreamCaptureMode, SIM_NEEDS_START, sim_capture_exchange(mode));
}

static int graph_nodes(mbr_cuda_graph graph, standin_graph_node *nodes, size_t *count)
{
    uint64_t told = 0;
    if (!count || nodes) /* nobody asks for the nodes themselves */
        return SIM_INVALID_VALUE;
    int status = sim_graph_count((struct sim_graph *)graph, &told);
    *count = told;
    return status;
}

mbr_cuda_result cuGraphGetNodes(mbr_cuda_graph graph, standin_graph_node *nodes, size_t *count)
{
    return CUDA_CALL(cuGraphGetNodes, SIM_NEEDS_START, graph_nodes(graph, nodes, count));
}

mbr_cuda_result cuGraphInstantiateWithFlags(
    mbr_cuda_graph_exec *exec, mbr_cuda_graph graph, unsigned long long flags)
{
    (void)flags;
    return CUDA_CALL(cuGraphInstantiateWithFlags, SIM_NEEDS_LIVE_CONTEXT,
        exec ? sim_graph_instantiate((struct sim_graph **)exec, (struct sim_graph *)graph)
             : (int)SIM_INVALID_VALUE);
}

mbr_cuda_result cuGraphLaunch(mbr_cuda_graph_exec exec, mbr_cuda_stream stream)
{
    return CUDA_CALL(
        cuGraphLaunch, ON_STREAM, sim_graph_launch((struct sim_graph *)exec, name_of(stream)));
}

mbr_cuda_result cuGraphExecDestroy(mbr_cuda_graph_exec exec)
{
    return CUDA_CALL(cuGraphExecDestroy, SIM_NEEDS_START,
        sim_graph_destroy((struct sim_graph *)exec, SIM_EXEC_ALIVE));
}

mbr_cuda_result cuGraphDestroy(mbr_cuda_graph graph)
{
    return CUDA_CALL(cuGraphDestroy, SIM_NEEDS_START,
        sim_graph_destroy((struct sim_graph *)graph, SIM_GRAPH_ALIVE));
}
