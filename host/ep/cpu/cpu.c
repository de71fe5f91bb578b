/* Responsible for the life of a CPU EP and for its accessors. Never runs an operation and never
 * waits for a caller: it is destroyed when no stream and no line is open. */
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "host/ep/cpu/internal.h"

#include <inttypes.h>

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value == 0 ? standard : value;
}

/* Reads the options up to the caller's struct_size; what is beyond counts as 0. */
static mbr_status read_options(
    const mbr_cpu_options *options, uint32_t *streams, uint32_t *operations, mbr_error *error)
{
    bool has_streams = options != NULL && MBR_HAS(mbr_cpu_options, options, stream_limit);
    bool has_operations = options != NULL && MBR_HAS(mbr_cpu_options, options, operation_limit);
    *streams = or_default(has_streams ? options->stream_limit : 0, MBR_CPU_STREAM_LIMIT);
    *operations =
        or_default(has_operations ? options->operation_limit : 0, MBR_CPU_OPERATION_LIMIT);
    if (*streams > MBR_CPU_STREAM_LIMIT_MAX)
        return mbr_fail_argument(error, MBR_OUT_OF_RANGE, 1,
            "stream_limit is %" PRIu32 "; at most %d threads are started", *streams,
            MBR_CPU_STREAM_LIMIT_MAX);
    if (*operations > MBR_CPU_OPERATION_LIMIT_MAX)
        return mbr_fail_argument(error, MBR_OUT_OF_RANGE, 2,
            "operation_limit is %" PRIu32 "; at most %d are queued on a stream", *operations,
            MBR_CPU_OPERATION_LIMIT_MAX);
    return MBR_OK;
}

static mbr_cpu *allocate(const mbr_heap *heap, uint32_t stream_limit)
{
    mbr_cpu *cpu = mbr_heap_allocate(heap, sizeof *cpu);
    if (cpu == NULL)
        return NULL;
    cpu->streams = mbr_heap_allocate(heap, stream_limit * sizeof *cpu->streams);
    if (cpu->streams == NULL) {
        mbr_heap_release(heap, cpu);
        return NULL;
    }
    cpu->heap = heap;
    cpu->stream_limit = stream_limit;
    return cpu;
}

mbr_status mbr_cpu_create_with(
    const mbr_cpu_options *options, const mbr_cpu_seams *seams, mbr_cpu **cpu, mbr_error *error)
{
    *cpu = NULL;
    uint32_t stream_limit, operation_limit;
    mbr_status status = read_options(options, &stream_limit, &operation_limit, error);
    if (status != MBR_OK)
        return status;
    mbr_cpu *made = allocate(seams->heap != NULL ? seams->heap : &mbr_heap_libc, stream_limit);
    if (made == NULL)
        return mbr_fail_argument(error, MBR_OUT_OF_HOST_MEMORY, 0,
            "no memory for a CPU EP with %" PRIu32 " streams", stream_limit);
    made->threads = seams->threads != NULL ? seams->threads : &mbr_threads_system;
    made->operation_limit = operation_limit;
    mbr_lock_init(&made->lines_lock, MBR_RANK_EP);
    for (uint32_t index = 0; index < stream_limit; index++)
        mbr_cpu_stream_init(&made->streams[index], made);
    *cpu = made;
    return MBR_OK;
}

mbr_status mbr_cpu_create(const mbr_cpu_options *options, mbr_cpu **cpu, mbr_error *error)
{
    static const mbr_cpu_seams system_seams = {NULL, NULL};
    return mbr_cpu_create_with(options, &system_seams, cpu, error);
}

/* A closing stream does not count: its worker finishes the queue and is joined. */
static uint32_t open_stream_count(const mbr_cpu *cpu)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < cpu->stream_limit; index++) {
        uint32_t state = atomic_load(&cpu->streams[index].state);
        count += state == MBR_CPU_STREAM_OPEN || state == MBR_CPU_STREAM_STARTING;
    }
    return count;
}

mbr_status mbr_cpu_destroy(mbr_cpu *cpu, mbr_error *error)
{
    uint32_t streams = open_stream_count(cpu);
    mbr_lock_take(&cpu->lines_lock);
    uint64_t lines = cpu->line_count;
    mbr_lock_drop(&cpu->lines_lock);
    if (streams != 0 || lines != 0)
        return mbr_fail_argument(error, MBR_IN_USE, 0,
            "%" PRIu32 " streams and %" PRIu64 " lines are open; destroy and close them first",
            streams, lines);
    /* What is queued on one stream may wait for, or submit to, another: no place goes before the
     * last worker has ended. */
    for (uint32_t index = 0; index < cpu->stream_limit; index++)
        mbr_cpu_stream_join(&cpu->streams[index]);
    for (uint32_t index = 0; index < cpu->stream_limit; index++)
        mbr_cpu_stream_finish(&cpu->streams[index]);
    mbr_lock_finish(&cpu->lines_lock);
    mbr_heap_release(cpu->heap, cpu->streams);
    mbr_heap_release(cpu->heap, cpu);
    return MBR_OK;
}

const mbr_order_vtable *mbr_cpu_order(const mbr_cpu *cpu)
{
    (void)cpu;
    return &mbr_cpu_order_vtable;
}

const mbr_transfer_vtable *mbr_cpu_transfer(const mbr_cpu *cpu)
{
    (void)cpu;
    return &mbr_cpu_transfer_vtable;
}

mbr_instance *mbr_cpu_instance(mbr_cpu *cpu)
{
    return (mbr_instance *)(void *)cpu;
}
