/* The HIP front end: streams, events, copies, fills and captures. Turns arguments and answers
 * round; decides nothing, but that a stream that is none is refused where HIP's runtime looks. */
#include "tests/standin/hip.h"

#define ON_STREAM SIM_NEEDS_START

static uintptr_t name_of(mbr_gpu_stream stream)
{
    return (uintptr_t)stream;
}

static struct sim_event *event_of(mbr_gpu_event event)
{
    return (struct sim_event *)event;
}

/* Its answer names a context, where CUDA's driver says "invalid handle" or ends the process. */
#define OF_STREAM(stream, expression)                                                              \
    (sim_is_stream(name_of(stream)) ? (expression) : (int)SIM_CONTEXT_IS_DESTROYED)

mbr_hip_result hipStreamCreateWithFlags(mbr_gpu_stream *stream, unsigned flags)
{
    return HIP_CALL(
        hipStreamCreateWithFlags, SIM_NEEDS_LIVE_CONTEXT, front_stream_create(stream, flags, 0));
}

mbr_hip_result hipStreamDestroy(mbr_gpu_stream stream)
{
    return HIP_CALL(hipStreamDestroy, ON_STREAM, sim_stream_destroy(name_of(stream)));
}

mbr_hip_result hipStreamSynchronize(mbr_gpu_stream stream)
{
    return HIP_CALL(
        hipStreamSynchronize, ON_STREAM | SIM_IS_UNSAFE, sim_stream_synchronize(name_of(stream)));
}

mbr_hip_result hipStreamWaitEvent(mbr_gpu_stream stream, mbr_gpu_event event, unsigned flags)
{
    (void)flags;
    return HIP_CALL(hipStreamWaitEvent, ON_STREAM,
        OF_STREAM(stream, sim_stream_wait(name_of(stream), event_of(event))));
}

mbr_hip_result hipEventCreateWithFlags(mbr_gpu_event *event, unsigned flags)
{
    return HIP_CALL(
        hipEventCreateWithFlags, SIM_NEEDS_LIVE_CONTEXT, front_event_create(event, flags));
}

mbr_hip_result hipEventDestroy(mbr_gpu_event event)
{
    return HIP_CALL(hipEventDestroy, ON_STREAM, sim_event_destroy(event_of(event)));
}

mbr_hip_result hipEventRecord(mbr_gpu_event event, mbr_gpu_stream stream)
{
    return HIP_CALL(hipEventRecord, ON_STREAM,
        OF_STREAM(stream, sim_event_record(event_of(event), name_of(stream))));
}

mbr_hip_result hipEventQuery(mbr_gpu_event event)
{
    return HIP_CALL(hipEventQuery, ON_STREAM | SIM_IS_UNSAFE | SIM_SERVES_INSIDE,
        sim_event_query(event_of(event)));
}

static int copy(mbr_gpu_stream stream, uint64_t to, uint64_t from, size_t bytes, uint32_t kind)
{
    return kind == MBR_HIP_COPY_BY_ADDRESS
        ? sim_submit_copy(name_of(stream), to, from, bytes, false)
        : (int)SIM_INVALID_VALUE;
}

mbr_hip_result hipMemcpyAsync(
    mbr_gpu_address to, mbr_gpu_address from, size_t bytes, uint32_t kind, mbr_gpu_stream stream)
{
    return HIP_CALL(hipMemcpyAsync, ON_STREAM, copy(stream, to, from, bytes, kind));
}

mbr_hip_result hipMemsetD8Async(
    mbr_gpu_address address, unsigned char value, size_t bytes, mbr_gpu_stream stream)
{
    return HIP_CALL(hipMemsetD8Async, ON_STREAM,
        sim_submit_fill(name_of(stream), address, value, 1, bytes, false));
}

/* ---- Captures ---- */

mbr_hip_result hipStreamBeginCapture(mbr_gpu_stream stream, uint32_t mode)
{
    return HIP_CALL(hipStreamBeginCapture, ON_STREAM,
        sim_capture_begin(name_of(stream), (enum sim_capture_mode)mode));
}

mbr_hip_result hipStreamEndCapture(mbr_gpu_stream stream, mbr_hip_graph *graph)
{
    return HIP_CALL(hipStreamEndCapture, ON_STREAM,
        front_capture_end(name_of(stream), (struct sim_graph **)graph));
}

mbr_hip_result hipStreamIsCapturing(mbr_gpu_stream stream, uint32_t *capture_status)
{
    return HIP_CALL(hipStreamIsCapturing, ON_STREAM,
        capture_status ? OF_STREAM(stream, sim_capture_status(name_of(stream), capture_status))
                       : (int)SIM_INVALID_VALUE);
}

mbr_hip_result hipThreadExchangeStreamCaptureMode(uint32_t *mode)
{
    return HIP_CALL(
        hipThreadExchangeStreamCaptureMode, SIM_NEEDS_START, sim_capture_exchange(mode));
}

mbr_hip_result hipGraphDestroy(mbr_hip_graph graph)
{
    return HIP_CALL(hipGraphDestroy, SIM_NEEDS_START,
        sim_graph_destroy((struct sim_graph *)graph, SIM_GRAPH_ALIVE));
}
