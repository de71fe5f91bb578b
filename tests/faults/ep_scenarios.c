/* Scenarios of EPs and bindings: their life, streams, retirement and loss, the CPU EP. */
#include "tests/faults/world.h"

#include "host/ep/cpu/seams.h"

#include <string.h>

static void life(struct world *world)
{
    mbr_ep_request request = {MBR_SIZED(mbr_ep_request), .name = "another",
        .mechanism = world->mechanism, .queue_entries = 64};
    mbr_ep_handle ep;
    STEP(world, mbr_ep_create(world->manager, &request, &ep, &world->error));
    mbr_stream_handle streams[3];
    for (uint64_t i = 0; i < 3; i++)
        STEP(world,
            mbr_ep_attach_stream(
                world->manager, ep, fault_hooks.stream(7 + i), &streams[i], &world->error));
    for (uint32_t i = 0; i < 3; i++)
        STEP(world, mbr_ep_detach_stream(world->manager, streams[i], &world->error));
    STEP(world, mbr_ep_destroy(world->manager, ep, UINT64_MAX, &world->error));
}

static bool is_in_doubt(void)
{
    for (uint32_t i = 0; i < FAULT_PLAN_COUNT; i++) {
        const struct fault_plan *plan = fault_plan_met(i);
        if (plan == NULL)
            continue;
        if (fault_ends_stream(plan->kind) ||
            (plan->after && plan->kind == FAULT_SLOT(mbr_transfer_vtable, stream_destroy)))
            return true;
    }
    return false;
}

/* One that may have ended is not named again, and may keep the mechanism. */
static void end_stream(struct world *world, mbr_native native)
{
    step_begin(world, "mbr_ep_destroy_stream");
    while (step_again(
               world, mbr_ep_destroy_stream(world->manager, world->ep, native, &world->error)) &&
        !is_in_doubt())
        ;
}

/* Streams of the EP's own. */
static void own_streams(struct world *world)
{
    mbr_native natives[2];
    mbr_stream_handle stream;
    for (uint32_t i = 0; i < 2; i++)
        STEP(world, mbr_ep_create_stream(world->manager, world->ep, &natives[i], &world->error));
    STEP(
        world, mbr_ep_attach_stream(world->manager, world->ep, natives[0], &stream, &world->error));
    STEP(world, mbr_ep_detach_stream(world->manager, stream, &world->error));
    for (uint32_t i = 0; i < 2; i++)
        end_stream(world, natives[i]);
}

/* The limit has room for one: it is taken again while another stream uses it, which is waited for.
 */
static void taken_again(struct world *world)
{
    struct block *first = alloc_on(world, 3 * MIB, 0, 1);
    free_after(world, first, 2);
    struct block *again = alloc_on(world, 3 * MIB, 0, 1);
    streams_run();
    free_after(world, again, 1);
    world_drain(world);
}

/* A stream that goes while releases wait for it. */
static void detach_early(struct world *world)
{
    struct block *first = alloc_on(world, 3 * MIB, 0, 1), *second = alloc_on(world, 500, 0, 1);
    free_after(world, first, 1);
    free_after(world, second, 1);
    STEP(world, mbr_ep_detach_stream(world->manager, world->streams[0], &world->error));
    STEP(world,
        mbr_ep_attach_stream(
            world->manager, world->ep, fault_hooks.stream(1), &world->streams[0], &world->error));
    streams_run();
    world_poll(world);
    world_drain(world);
}

static void copies(struct world *world)
{
    struct block *from = alloc_on(world, 2 * PAGE, 0, 1), *to = alloc_on(world, 2 * PAGE, 0, 1);
    to->seed = from->seed; /* whatever comes of it, all of it is the other's then */
    *to = (struct block){to->address, PAGE, from->seed, to->allocation};
    memcpy(word_at(to->address), word_at(from->address), PAGE);
    STEP(world,
        mbr_ep_copy(
            world->manager, world->streams[0], to->address, from->address, PAGE, &world->error));
    free_after(world, to, 1);
    free_after(world, from, 2);
    world_drain(world);
}

static void many_releases(struct world *world)
{
    for (uint32_t i = 0; i < 12; i++)
        free_after(world, alloc_on(world, (i + 1) * PAGE, 0, 1 + i % 2), 1 + i % 2);
    world_poll(world);
    streams_run();
    world_poll(world);
    world_drain(world);
}

static void retire(struct world *world)
{
    struct block *block = alloc_on(world, 3 * MIB, 0, 1);
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 3 * PAGE);
    STEP(world, mbr_ep_retire(world->manager, world->ep, &world->error));
    range_release(world, &range, 2);
    free_after(world, block, 1);
    world_drain(world);
}

/* The device is gone: nobody reads its memory any more. */
static void lose_ep(struct world *world)
{
    STEP(world, mbr_ep_lost(world->manager, world->ep, &world->error));
    memset(world->blocks, 0, sizeof world->blocks);
    fault_hooks.is_lost = world->setup->dies;
    world->has_lost = true;
}

/* What is still out is given back after that, each as it comes. */
static void confirm(struct world *world)
{
    fault_hooks.has_ended = world->setup->dies;
    step_begin(world, "mbr_ep_destroy of a lost EP");
    CHECK(
        world, mbr_ep_destroy(world->manager, world->ep, UINT64_MAX, &world->error) == MBR_IN_USE);
    world_check(world);
}

static void lose(struct world *world)
{
    struct block *block = alloc_on(world, 3 * MIB, 0, 1);
    struct range parked = {0}, queued = {0}, late = {0};
    range_reserve(world, &parked, 64 * KIB, PAGE);
    range_grow(world, &parked, 2 * PAGE);
    range_release(world, &parked, 0);
    range_reserve(world, &queued, 64 * KIB, PAGE);
    range_grow(world, &queued, 3 * PAGE);
    range_reserve(world, &late, 32 * KIB, PAGE);
    range_grow(world, &late, 2 * PAGE);
    free_after(world, block, 1);
    range_release(world, &queued, 2);
    lose_ep(world);
    late.block = NULL;
    world_poll(world);
    confirm(world);
    range_release(world, &late, 0);
}

static void lose_plain(struct world *world)
{
    mbr_allocation_handle queued, late;
    struct block *first = alloc_on(world, 3 * MIB, 0, 1), *second = alloc_on(world, 2 * MIB, 0, 1);
    queued = first->allocation;
    late = second->allocation;
    mbr_free_request request = {MBR_SIZED(mbr_free_request), .allocation = queued,
        .streams = world->streams, .stream_count = 1};
    block_forget(world, first);
    STEP(world, mbr_free(world->manager, &request, &world->error));
    lose_ep(world);
    confirm(world);
    request.allocation = late;
    STEP(world, mbr_free(world->manager, &request, &world->error));
}

static void reaper(struct world *world)
{
    mbr_ep_request request = {
        MBR_SIZED(mbr_ep_request), .name = "reaped", .mechanism = world->mechanism};
    mbr_ep_handle ep;
    STEP(world, mbr_ep_create(world->manager, &request, &ep, &world->error));
    STEP(world, mbr_ep_destroy(world->manager, ep, UINT64_MAX, &world->error));
}

/* ---- The CPU EP ------------------------------------------------------------------------------ */

static const mbr_cpu_seams cpu_seams = {&fault_heap, &fault_threads};

static void note(void *context)
{
    ++*(uint32_t *)context;
}

static void cpu_life(struct world *world)
{
    mbr_cpu *cpu;
    mbr_native streams[2];
    uint64_t from[8] = {1, 2, 3}, to[8] = {0};
    uint32_t calls = 0;
    STEP(world, mbr_cpu_create_with(NULL, &cpu_seams, &cpu, &world->error));
    for (uint32_t i = 0; i < 2; i++)
        STEP(world, mbr_cpu_stream_create(cpu, &streams[i], &world->error));
    STEP(world,
        mbr_cpu_copy(cpu, streams[0], (uintptr_t)to, (uintptr_t)from, sizeof to, &world->error));
    STEP(world, mbr_cpu_host_function(cpu, streams[0], note, &calls, &world->error));
    STEP(world, mbr_cpu_synchronize(cpu, streams[0], UINT64_MAX, &world->error));
    CHECK(world, to[2] == 3 && calls == 1);
    STEP(world, mbr_cpu_fill(cpu, streams[1], (uintptr_t)to, 0, sizeof to, &world->error));
    STEP(world, mbr_cpu_synchronize(cpu, streams[1], UINT64_MAX, &world->error));
    CHECK(world, to[2] == 0);
    for (uint32_t i = 0; i < 2; i++)
        STEP(world, mbr_cpu_stream_destroy(cpu, streams[i], &world->error));
    STEP(world, mbr_cpu_destroy(cpu, &world->error));
}

/* An EP with tables of its own, whose releases wait for real work. */
static void cpu_ep(struct world *world)
{
    mbr_cpu *cpu;
    mbr_native native;
    STEP(world, mbr_cpu_create_with(NULL, &cpu_seams, &cpu, &world->error));
    STEP(world, mbr_cpu_stream_create(cpu, &native, &world->error));
    mbr_ep_request request = {MBR_SIZED(mbr_ep_request), .name = "cpu", .order = mbr_cpu_order(cpu),
        .transfer = mbr_cpu_transfer(cpu), .instance = mbr_cpu_instance(cpu)};
    mbr_ep_handle ep, before = world->ep;
    STEP(world, mbr_ep_create(world->manager, &request, &ep, &world->error));
    mbr_stream_handle stream, first = world->streams[0];
    STEP(world, mbr_ep_attach_stream(world->manager, ep, native, &stream, &world->error));
    mbr_bind_request bind = world_bind_request(world);
    bind.ep = ep;
    mbr_binding_handle binding, old = world->binding;
    STEP(world, mbr_manager_bind(world->manager, &bind, &binding, &world->error));
    world->ep = ep;
    world->binding = binding;
    world->streams[0] = stream;
    struct block *block = alloc_on(world, 3 * MIB, 0, 1);
    free_after(world, block, 1);
    STEP(world, mbr_cpu_synchronize(cpu, native, UINT64_MAX, &world->error));
    fault_clock_follow_real(true); /* as its waits do */
    STEP(world, mbr_ep_drain(world->manager, ep, UINT64_MAX, &world->error));
    END(world, mbr_manager_unbind(world->manager, binding, &world->error));
    STEP(world, mbr_ep_detach_stream(world->manager, stream, &world->error));
    STEP(world, mbr_ep_destroy(world->manager, ep, UINT64_MAX, &world->error));
    fault_clock_follow_real(false);
    world->ep = before;
    world->binding = old;
    world->streams[0] = first;
    STEP(world, mbr_cpu_stream_destroy(cpu, native, &world->error));
    STEP(world, mbr_cpu_destroy(cpu, &world->error));
}

/* ---- Bindings -------------------------------------------------------------------------------- */

static void switch_generations(struct world *world)
{
    struct block *old = alloc_now(world, 3 * MIB);
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 2 * PAGE);
    mbr_bind_request request = world_bind_request(world);
    request.isolation_group = 3;
    mbr_binding_handle next;
    STEP(world, mbr_manager_switch(world->manager, world->binding, &request, &next, &world->error));
    world->binding = next;
    struct block *young = alloc_on(world, 256 * KIB, MBR_ALLOC_ZEROED, 1); /* its span is filled */
    free_now(world, old);
    range_release(world, &range, 0);
    free_after(world, young, 1);
}

static void two_bindings(struct world *world)
{
    mbr_authority_request asked = {MBR_SIZED(mbr_authority_request), .tier = fault_hooks.tier,
        .name = "second", .limit_bytes = MIB};
    mbr_authority_handle authority;
    STEP(world, mbr_manager_create_authority(world->manager, &asked, &authority, &world->error));
    mbr_bind_request request = world_bind_request(world);
    request.authority = authority;
    mbr_binding_handle binding;
    STEP(world, mbr_manager_bind(world->manager, &request, &binding, &world->error));
    mbr_binding_figures figures = {MBR_SIZED(mbr_binding_figures)};
    STEP(world, mbr_manager_read_binding(world->manager, binding, &figures, &world->error));
    END(world, mbr_manager_unbind(world->manager, binding, &world->error));
    END(world, mbr_manager_destroy_authority(world->manager, authority, &world->error));
}

/* One is freed after all, one is queued before, and nobody frees the third. */
static void abandon(struct world *world)
{
    struct block *late = alloc_on(world, 3 * MIB, 0, 1);
    struct block *never = alloc_now(world, 2 * MIB);
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 2 * PAGE);
    free_after(world, alloc_on(world, MIB, 0, 1), 1);
    world->has_abandoned = true;
    STEP(world, mbr_manager_abandon(world->manager, world->binding, NULL, &world->error));
    world->binding.value = 0;
    free_after(world, late, 1);
    range_release(world, &range, 0);
    if (world->setup->dies) {
        lose_ep(world);
        confirm(world);
    } else {
        free_now(world, never);
        world_drain(world);
    }
}

const struct scenario ep_scenarios[] = {
    {.name = "ep_life", .run = life},
    {.name = "ep_own_streams", .run = own_streams},
    {.name = "ep_taken_again", .run = taken_again, .setup = {.limit_bytes = 5 * MIB}},
    {.name = "ep_detach_early", .run = detach_early},
    {.name = "ep_copies", .run = copies},
    {.name = "ep_many_releases", .run = many_releases},
    {.name = "ep_many_releases_nothing_kept", .run = many_releases, .setup = {.keep_bytes = 1}},
    {.name = "ep_retire", .run = retire},
    {.name = "ep_lose", .run = lose, .setup = {.outlives = true}},
    {.name = "ep_lose_with_memory", .run = lose, .setup = {.dies = true}},
    {.name = "ep_lose_plain", .run = lose_plain, .setup = {.is_plain = true, .dies = true}},
    {.name = "ep_reaper", .run = reaper, .setup = {.threads = true}},
    {.name = "cpu_life", .run = cpu_life},
    {.name = "cpu_ep", .run = cpu_ep},
    {.name = "binding_abandon", .run = abandon},
    {.name = "binding_abandon_lost", .run = abandon, .setup = {.dies = true}},
    {.name = "binding_switch", .run = switch_generations},
    {.name = "binding_two", .run = two_bindings},
    {0},
};
