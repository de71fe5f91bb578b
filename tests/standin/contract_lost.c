/* Rows about work that meets memory which is gone, and about a context that is lost after it. */
#include "tests/standin/contract.h"

/* Loses the context: a kernel stores where nothing is mapped. */
static void lose(void)
{
    mbr_cuda_address at = reserve(1);
    NEED(launch_store(at, 1, world.stream));
    see(cu.stream_synchronize(world.stream));
}

/* D24: the stream is busy, its next work is for the range. */
static void unmap_before_fill(void)
{
    struct place place = take(1);
    hold(world.stream);
    see(cu.fill_async(place.at, 1, world.granule_bytes, world.stream));
    see(cu.unmap(place.at, world.granule_bytes));
    see(cu.stream_query(world.stream));
    let_go();
    see(cu.stream_synchronize(world.stream));
}

static void unmap_before_copy(void)
{
    struct place place = take(1);
    struct place other = take(1);
    hold(world.stream);
    see(cu.copy_on_device_async(other.at, place.at, world.granule_bytes, world.stream));
    see(cu.unmap(place.at, world.granule_bytes));
    let_go();
    see(cu.stream_synchronize(world.stream));
}

static void unmap_before_kernel(void)
{
    struct place place = take(1);
    hold(world.stream);
    see(launch_verify(place.at, 64, 0, world.stream));
    see(cu.unmap(place.at, world.granule_bytes));
    see(cu.address_free(place.at, world.granule_bytes));
    let_go();
    see(cu.stream_synchronize(world.stream));
}

static void unmap_under_kernel(void)
{
    struct place place = take(1);
    *world.flag = 0;
    see(launch_hammer(place.at, world.stream));
    await_started();
    see(cu.unmap(place.at, world.granule_bytes));
    see(cu.stream_synchronize(world.stream));
}

/* What the release queue is for: the late work writes over the new owner's memory. */
static void remapped_before_work(void)
{
    struct place place = take(1);
    hold(world.stream);
    see(cu.fill_async(place.at, 7, 4, world.stream));
    see(cu.unmap(place.at, world.granule_bytes));
    mbr_cuda_handle handle = create(1);
    map(place.at, 1, handle);
    grant(place.at, 1);
    NEED(launch_store(place.at, 41, world.other));
    NEED(cu.stream_synchronize(world.other));
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_word(place.at, 0x07070707);
    drop(place.at, 1);
    NEED(cu.handle_release(handle));
    NEED(cu.handle_release(place.handle));
}

/* D25 */
static void sticky_streams(void)
{
    mbr_cuda_event event = event_new();
    mbr_cuda_event kept = event_new();
    mbr_cuda_stream stream = stream_new();
    NEED(cu.event_record(event, world.other));
    NEED(cu.event_synchronize(event));
    lose();
    see(cu.event_query(event));
    see(cu.event_record(kept, world.other));
    see(cu.event_synchronize(event));
    see(cu.stream_query(world.other));
    see(cu.stream_synchronize(world.other));
    see(cu.stream_wait(world.other, event, 0));
    see(cu.context_synchronize());
    see(cu.event_destroy(event));
    see(cu.stream_destroy(stream));
}

static void sticky_others(void)
{
    struct place place = take(1);
    mbr_cuda_event event;
    mbr_cuda_stream stream;
    mbr_cuda_address plain = 0;
    size_t bytes;
    uint32_t word = 0;
    void *host = NULL;
    lose();
    see(cu.event_create(&event, 0));
    see(cu.stream_create(&stream, 0));
    see(cu.device_allocate(&plain, 64));
    see(cu.memory_info(&bytes, &bytes));
    see(cu.copy_to_host(&word, place.at, sizeof word));
    see(cu.fill_async(place.at, 0, 4, world.other));
    see(launch_store(place.at, 1, world.other));
    see(cu.host_allocate(&host, 64, 0));
}

static void sticky_frees(void)
{
    mbr_cuda_address plain = 0;
    void *host = NULL;
    NEED(cu.device_allocate(&plain, 64));
    NEED(cu.host_allocate(&host, 64, 0));
    lose();
    see(cu.device_free(plain));
    see(cu.host_free(host));
}

/* What stays askable: devices, names and contexts. */
static void sticky_questions(void)
{
    mbr_cuda_context context = NULL;
    struct mbr_cuda_properties properties = properties_of(0);
    int value = 0;
    size_t bytes = 0;
    lose();
    see(cu.device_count(&value));
    see(cu.device_attribute(&value, MBR_CUDA_HAS_VIRTUAL_MEMORY, 0));
    see(cu.device_total(&bytes, 0));
    see(cu.granularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    see(cu.context_current(&context));
    see(cu.context_pop(&context));
    see(cu.context_push(context));
}

/* D26 */
static void sticky_memory(void)
{
    const size_t granule = world.granule_bytes;
    struct place place = take(1);
    lose();
    see_memory();
    see(cu.unmap(place.at, granule));
    see(cu.handle_release(place.handle));
    see(cu.address_free(place.at, granule));
}

static void sticky_retained_again(void)
{
    mbr_cuda_context context = NULL;
    mbr_cuda_event event;
    lose();
    see(cu.primary_release(0));
    see(cu.primary_retain(&context, 0));
    see(cu.context_set(context));
    see(cu.event_create(&event, 0));
}

static void sticky_retained_more(void)
{
    mbr_cuda_context context = NULL;
    lose();
    see(cu.primary_retain(&context, 0));
    say_if(context == world.context, "same", "another");
}

/* Work behind the failure never runs, in any stream. */
static void work_behind(void)
{
    struct place place = take(1);
    mbr_cuda_address hole = reserve(1);
    volatile uint32_t *answer = world.wrong;
    *answer = 77;
    hold(world.stream);
    see(launch_store(hole, 1, world.stream));
    see(launch_verify(place.at, 1, 0, world.stream));
    let_go();
    see(cu.stream_synchronize(world.stream));
    say_if(*answer == 77, "not run", "run");
}

/* D16, D14 for kernels: nothing looks at submission. */
static void store_read_only(void)
{
    struct place place = take(1);
    NEED(access_to(place.at, world.granule_bytes, MBR_CUDA_ACCESS_READ));
    see(launch_store(place.at, 1, world.stream));
    see(cu.stream_synchronize(world.stream));
    see(cu.context_synchronize());
}

static void load_ungranted(void)
{
    mbr_cuda_address at = reserve(1);
    map(at, 1, create(1));
    see(launch_verify(at, 1, 0, world.stream));
    see(cu.stream_synchronize(world.stream));
}

static void load_after_none(void)
{
    struct place place = take(1);
    NEED(access_to(place.at, world.granule_bytes, MBR_CUDA_ACCESS_NONE));
    see(launch_verify(place.at, 1, 0, world.stream));
    see(cu.stream_synchronize(world.stream));
}

/* C6 */
static void read_only_under_kernel(void)
{
    struct place place = take(1);
    *world.flag = 0;
    see(launch_hammer(place.at, world.stream));
    await_started();
    see(access_to(place.at, world.granule_bytes, MBR_CUDA_ACCESS_READ));
    see(cu.stream_synchronize(world.stream));
}

/* Freed under pending work: cuMemFree waits instead, so the work is done. */
static void plain_free_waits(void)
{
    mbr_cuda_address plain = 0;
    NEED(cu.device_allocate(&plain, world.granule_bytes));
    NEED(launch_fill(plain, 1000, 1, world.stream));
    see(launch_verify(plain, 1000, 1, world.stream));
    see(cu.device_free(plain));
    see(cu.stream_query(world.stream));
    say_if(*world.wrong == 0, "same", "other");
}

#define LOST "ILLEGAL_ADDRESS"

const struct row contract_lost_rows[] = {
    {"D24 unmap-before-pending-fill", unmap_before_fill, "OK, OK, NOT_READY, " LOST, ROW_ALONE},
    {"D24.copy unmap-before-pending-copy", unmap_before_copy, "OK, OK, " LOST, ROW_ALONE},
    {"D24.kernel unmap-and-free-before-pending-kernel", unmap_before_kernel, "OK, OK, OK, " LOST,
        ROW_ALONE},
    {"D24.running unmap-under-a-running-kernel", unmap_under_kernel, "OK, OK, " LOST, ROW_RUNNING},
    {"D24.remapped pending-fill-meets-the-next-owner", remapped_before_work, "OK, OK, OK, same",
        ROW_SHARED},
    {"D25 lost-then-streams-and-events", sticky_streams,
        LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST
             ", " LOST,
        ROW_ALONE},
    {"D25.others lost-then-create-allocate-copy-launch", sticky_others,
        LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST ", " LOST,
        ROW_ALONE},
    {"D25.frees lost-then-plain-and-pinned-memory-freed", sticky_frees, LOST ", " LOST ", " LOST,
        ROW_ALONE},
    {"D25.questions lost-then-devices-and-contexts", sticky_questions,
        LOST ", OK, OK, OK, OK, OK, OK, OK", ROW_ALONE},
    {"D26 lost-then-virtual-memory", sticky_memory, LOST ", OK, OK, OK, OK, OK, OK, OK, OK, OK, OK",
        ROW_ALONE},
    {"D26.retained lost-then-primary-released-and-retained", sticky_retained_again,
        LOST ", OK, " LOST ", OK, INVALID_CONTEXT", ROW_ALONE},
    {"D26.more lost-then-primary-retained-once-more", sticky_retained_more, LOST ", OK, same",
        ROW_ALONE},
    {"lost.behind work-behind-the-failure-does-not-run", work_behind, "OK, OK, " LOST ", not run",
        ROW_ALONE},
    {"D16.store kernel-stores-to-read-only", store_read_only, "OK, " LOST ", " LOST, ROW_ALONE},
    {"D14.kernel kernel-reads-before-set-access", load_ungranted, "OK, " LOST, ROW_ALONE},
    {"C5.none kernel-reads-after-access-was-taken", load_after_none, "OK, " LOST, ROW_ALONE},
    {"C6 read-only-under-a-writing-kernel", read_only_under_kernel, "OK, OK, " LOST, ROW_RUNNING},
    {"plain.free-waits free-behind-pending-kernel", plain_free_waits, "OK, OK, OK, same",
        ROW_SHARED},
    {0},
};
