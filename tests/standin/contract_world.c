/* What the rows of the contract table work with: the library's functions, on one device or on two a
 * context, two streams and kernels, and the steps that many rows have. Judges nothing. */
#include "tests/standin/contract.h"

#include "tools/build/embed.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct mbr_embedded contract_kernels[];

struct calls cu;
struct world world;

static struct world worlds[2]; /* by device */
static void *library_handle;

static void fail(const char *what, const char *which)
{
    fprintf(stderr, "contract: %s: %s\n", what, which);
    exit(3);
}

static void *find(const char *name)
{
    void *function = dlsym(library_handle, name);
    if (!function)
        fail("the library lacks a function", name);
    return function;
}

void contract_open(const char *library)
{
    library_handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!library_handle)
        fail("the driver's library does not open", dlerror());
        /* A data pointer to a function pointer: POSIX has it so, ISO C not. */
#define FIND(member, exported, parameters) *(void **)&cu.member = find(#exported);
    MBR_CUDA_FUNCTIONS(FIND)
    MBR_CUDA_FUNCTIONS_OF_TESTS(FIND)
    STANDIN_FUNCTIONS(FIND)
#undef FIND
}

bool contract_is_standin(void)
{
    return dlsym(library_handle, "standin_assert_clean") != NULL;
}

struct mbr_cuda_properties properties_of(int device)
{
    return (struct mbr_cuda_properties){
        .type = MBR_CUDA_ALLOCATION_PINNED,
        .location = {MBR_CUDA_LOCATION_DEVICE, device},
    };
}

static volatile uint32_t *pinned_word(void)
{
    void *word;
    NEED(cu.host_allocate(&word, 64, MBR_CUDA_HOST_DEVICE_MAP));
    memset(word, 0, 64);
    return word;
}

static mbr_cuda_function kernel(mbr_cuda_module module, const char *name)
{
    mbr_cuda_function function;
    NEED(cu.module_function(&function, module, name));
    return function;
}

/* The first launch of a kernel may load it, and wait for the device while it does: once here,
 * before anything is kept busy. */
static void warm_up(void)
{
    mbr_cuda_address word;
    NEED(cu.device_allocate(&word, 64));
    *world.flag = 1;
    NEED(launch_store(word, 1, world.stream));
    NEED(launch_fill(word, 1, 1, world.stream));
    NEED(launch_verify(word, 1, 1, world.stream));
    NEED(launch_hammer(word, world.stream));
    NEED(cu.stream_synchronize(world.stream));
    hold(world.stream);
    let_go();
    NEED(cu.stream_synchronize(world.stream));
    NEED(cu.fill_async(word, 0, 64, world.stream));
    NEED(cu.context_synchronize());
    NEED(cu.device_free(word));
}

static void pinned_words_init(void)
{
    world.flag = pinned_word();
    world.started = pinned_word();
    world.wrong = pinned_word();
}

static void world_of(int device)
{
    world.device = device;
    NEED(cu.primary_retain(&world.context, device));
    NEED(cu.context_set(world.context));
    struct mbr_cuda_properties properties = properties_of(device);
    NEED(cu.granularity(&world.granule_bytes, &properties, MBR_CUDA_GRANULARITY_RECOMMENDED));
    world.stream = stream_new();
    world.other = stream_new();
    if (!world.flag)
        pinned_words_init();
    mbr_cuda_module module;
    NEED(cu.module_load(&module, contract_kernels[0].text));
    world.spin = kernel(module, "spin");
    world.store = kernel(module, "store");
    world.fill = kernel(module, "fill");
    world.verify = kernel(module, "verify");
    world.hammer = kernel(module, "hammer");
    warm_up();
    worlds[device] = world;
}

void contract_world_init(void)
{
    NEED(cu.init(0));
    world_of(0);
}

void contract_two_worlds_init(void)
{
    contract_world_init();
    world_of(1);
    turn_to(0);
}

void turn_to(int device)
{
    world = worlds[device];
    NEED(cu.context_set(world.context));
}

bool contract_is_well(void)
{
    if (world.device != 0 || cu.context_synchronize() != MBR_CUDA_SUCCESS)
        return false;
    return !worlds[1].context ||
        (cu.context_set(worlds[1].context) == MBR_CUDA_SUCCESS &&
            cu.context_synchronize() == MBR_CUDA_SUCCESS &&
            cu.context_set(worlds[0].context) == MBR_CUDA_SUCCESS);
}

const char *contract_lack_of_two(void)
{
    int count = 0;
    int there = 0;
    int back = 0;
    if (cu.init(0) != MBR_CUDA_SUCCESS || cu.device_count(&count) != MBR_CUDA_SUCCESS)
        return "the driver tells no devices";
    if (count < 2)
        return "this machine has one device";
    bool is_told = cu.can_access_peer(&there, 0, 1) == MBR_CUDA_SUCCESS &&
        cu.can_access_peer(&back, 1, 0) == MBR_CUDA_SUCCESS;
    return is_told && there && back ? NULL : "devices 0 and 1 do not reach each other's memory";
}

mbr_cuda_address reserve(size_t granules)
{
    mbr_cuda_address at;
    NEED(cu.address_reserve(&at, granules * world.granule_bytes, 0, 0, 0));
    return at;
}

mbr_cuda_result create_bytes(mbr_cuda_handle *handle, size_t bytes)
{
    struct mbr_cuda_properties properties = properties_of(world.device);
    return cu.handle_create(handle, bytes, &properties, 0);
}

mbr_cuda_handle create(size_t granules)
{
    mbr_cuda_handle handle;
    NEED(create_bytes(&handle, granules * world.granule_bytes));
    return handle;
}

void map(mbr_cuda_address at, size_t granules, mbr_cuda_handle handle)
{
    NEED(cu.map(at, granules * world.granule_bytes, 0, handle, 0));
}

mbr_cuda_result access_to(mbr_cuda_address at, size_t bytes, uint32_t flags)
{
    struct mbr_cuda_access access = {{MBR_CUDA_LOCATION_DEVICE, world.device}, flags};
    return cu.set_access(at, bytes, &access, 1);
}

void grant(mbr_cuda_address at, size_t granules)
{
    NEED(access_to(at, granules * world.granule_bytes, MBR_CUDA_ACCESS_READ_WRITE));
}

struct place take(size_t granules)
{
    struct place place = {reserve(granules), create(granules)};
    map(place.at, granules, place.handle);
    grant(place.at, granules);
    return place;
}

void give(struct place place, size_t granules)
{
    drop(place.at, granules);
    NEED(cu.handle_release(place.handle));
}

void drop(mbr_cuda_address at, size_t granules)
{
    NEED(cu.unmap(at, granules * world.granule_bytes));
    NEED(cu.address_free(at, granules * world.granule_bytes));
}

void say_access(mbr_cuda_address at, int device)
{
    struct mbr_cuda_location location = {MBR_CUDA_LOCATION_DEVICE, device};
    unsigned long long flags = 77;
    if (see(cu.get_access(&flags, &location, at)) == MBR_CUDA_SUCCESS)
        say(flags == MBR_CUDA_ACCESS_NONE             ? "none"
                : flags == MBR_CUDA_ACCESS_READ       ? "read"
                : flags == MBR_CUDA_ACCESS_READ_WRITE ? "read-write"
                                                      : "another");
}

size_t free_now(void)
{
    size_t free_bytes = 0;
    size_t total = 0;
    NEED(cu.memory_info(&free_bytes, &total));
    return free_bytes;
}

void say_moved(size_t before, size_t granules_gone)
{
    size_t now = free_now();
    say_if(now + granules_gone * world.granule_bytes == before, "as before less it",
        now == before                                            ? "unchanged"
            : now + granules_gone * world.granule_bytes < before ? "less"
                                                                 : "more");
}

void see_memory(void)
{
    const size_t bytes = world.granule_bytes;
    mbr_cuda_address at = 0;
    mbr_cuda_handle handle = 0;
    see(cu.address_reserve(&at, bytes, 0, 0, 0));
    see(create_bytes(&handle, bytes));
    see(cu.map(at, bytes, 0, handle, 0));
    see(access_to(at, bytes, MBR_CUDA_ACCESS_READ_WRITE));
    see(cu.unmap(at, bytes));
    see(cu.handle_release(handle));
    see(cu.address_free(at, bytes));
}

static mbr_cuda_result launch(mbr_cuda_function function, mbr_cuda_stream stream, void **arguments)
{
    return cu.launch(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* A pinned word's address is the same on the device. */
static uint64_t device_address(volatile uint32_t *word)
{
    return (uintptr_t)word;
}

void hold(mbr_cuda_stream stream)
{
    __atomic_store_n(world.flag, 0, __ATOMIC_SEQ_CST);
    uint64_t flag = device_address(world.flag);
    void *arguments[] = {&flag};
    NEED(launch(world.spin, stream, arguments));
}

void let_go(void)
{
    __atomic_store_n(world.flag, 1, __ATOMIC_SEQ_CST);
}

mbr_cuda_result launch_store(mbr_cuda_address at, uint32_t value, mbr_cuda_stream stream)
{
    void *arguments[] = {&at, &value};
    return launch(world.store, stream, arguments);
}

mbr_cuda_result launch_fill(
    mbr_cuda_address at, uint32_t words, uint32_t value, mbr_cuda_stream stream)
{
    void *arguments[] = {&at, &words, &value};
    return launch(world.fill, stream, arguments);
}

mbr_cuda_result launch_verify(
    mbr_cuda_address at, uint32_t words, uint32_t value, mbr_cuda_stream stream)
{
    uint64_t result = device_address(world.wrong);
    void *arguments[] = {&at, &words, &value, &result};
    return launch(world.verify, stream, arguments);
}

mbr_cuda_result launch_hammer(mbr_cuda_address at, mbr_cuda_stream stream)
{
    uint64_t flag = device_address(world.flag);
    uint64_t started = device_address(world.started);
    *world.started = 0;
    void *arguments[] = {&at, &flag, &started};
    return launch(world.hammer, stream, arguments);
}

void await_started(void)
{
    while (!__atomic_load_n(world.started, __ATOMIC_SEQ_CST))
        sched_yield();
}

mbr_cuda_stream stream_new(void)
{
    mbr_cuda_stream stream;
    NEED(cu.stream_create(&stream, MBR_CUDA_STREAM_NON_BLOCKING));
    return stream;
}

mbr_cuda_event event_new(void)
{
    mbr_cuda_event event;
    NEED(cu.event_create(&event, MBR_CUDA_EVENT_DISABLE_TIMING));
    return event;
}

uint32_t word_at(mbr_cuda_address at)
{
    uint32_t word = 0xDEAD;
    mbr_cuda_result code = cu.copy_to_host(&word, at, sizeof word);
    if (code != MBR_CUDA_SUCCESS)
        see(code);
    return word;
}

void say_word(mbr_cuda_address at, uint32_t value)
{
    say_if(word_at(at) == value, "same", "other");
}

struct errand {
    void (*work)(void *argument);
    void *argument;
};

static void *run_errand(void *context)
{
    const struct errand *errand = context;
    errand->work(errand->argument);
    return NULL;
}

void on_thread(void (*work)(void *argument), void *argument)
{
    struct errand errand = {work, argument};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_errand, &errand) != 0)
        fail("no thread", "pthread_create");
    pthread_join(thread, NULL);
}
