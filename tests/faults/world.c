/* Responsible for making a world and taking it apart, and for the steps that many scenarios share.
 * Judges nothing: that is step.c's. */
#include "tests/faults/world.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_BYTES (64 * MIB)
#define SPACE_NS UINT64_MAX
#define DRAIN_NS UINT64_C(200000) /* of the clock of the seams: so many hundred looks */

/* ---- Making ---------------------------------------------------------------------------------- */

static void open_plugin(struct world *world, const struct setup *setup)
{
    mbr_manager_options options = {MBR_SIZED(mbr_manager_options),
        .threads = setup->threads ? MBR_THREADS_INTERNAL : MBR_THREADS_NONE};
    STEP(world,
        mbr_manager_create_with_seams(&options, &fault_seams, &world->manager, &world->error));
    mbr_plugin_open_request request = {
        MBR_SIZED(mbr_plugin_open_request), .name = fault_plugin_path, .flags = MBR_PLUGIN_TRUSTED};
    STEP(world, mbr_manager_open_plugin(world->manager, &request, &world->plugin, &world->error));
    const mbr_option given[] = {{"granule", "4096"}, {"populate", setup->populates ? "1" : "0"},
        {"virtual", setup->is_plain ? "0" : "1"}, {"dies", setup->dies ? "1" : "0"}};
    mbr_mechanism_open_request opening = {MBR_SIZED(mbr_mechanism_open_request),
        .plugin = world->plugin, .options = given, .option_count = 4};
    STEP(world,
        mbr_manager_open_mechanism(world->manager, &opening, &world->mechanism, &world->error));
}

static void make_budget(struct world *world, const struct setup *setup)
{
    mbr_authority_request request = {MBR_SIZED(mbr_authority_request), .tier = fault_hooks.tier,
        .name = "pool", .limit_bytes = setup->limit_bytes != 0 ? setup->limit_bytes : LIMIT_BYTES,
        .measured = {setup->is_measured ? world->mechanism.value : 0},
        .shared = setup->is_shared ? "pool" : NULL, .shared_folder = getenv("TEST_TMPDIR")};
    STEP(world,
        mbr_manager_create_authority(world->manager, &request, &world->authority, &world->error));
    mbr_holder_request holder = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_KV,
        .authority = world->authority, .name = "kv", .allowance_bytes = MBR_NO_ALLOWANCE};
    STEP(world, mbr_manager_create_holder(world->manager, &holder, &world->holder, &world->error));
    holder.role = MBR_ROLE_PREFIX;
    holder.name = "prefixes";
    STEP(world,
        mbr_manager_create_holder(world->manager, &holder, &world->prefix_holder, &world->error));
}

mbr_bind_request world_bind_request(const struct world *world)
{
    uint64_t keep_bytes = world->setup->keep_bytes;
    return (mbr_bind_request){MBR_SIZED(mbr_bind_request), .mechanism = world->mechanism,
        .ep = world->ep, .authority = world->authority,
        .cache_keep_bytes = keep_bytes != 0 ? keep_bytes : UINT64_MAX};
}

void world_build(struct world *world, const struct setup *setup)
{
    world->setup = setup;
    open_plugin(world, setup);
    make_budget(world, setup);
    mbr_ep_request ep = {MBR_SIZED(mbr_ep_request), .name = "ep", .mechanism = world->mechanism};
    STEP(world, mbr_ep_create(world->manager, &ep, &world->ep, &world->error));
    for (uint32_t i = 0; i < WORLD_STREAM_COUNT; i++)
        STEP(world,
            mbr_ep_attach_stream(world->manager, world->ep, fault_hooks.stream(i + 1),
                &world->streams[i], &world->error));
    mbr_bind_request request = world_bind_request(world);
    STEP(world, mbr_manager_bind(world->manager, &request, &world->binding, &world->error));
}

/* ---- Taking apart ---------------------------------------------------------------------------- */

static void end_ep(struct world *world)
{
    world_drain(world);
    if (world->binding.value != 0)
        END(world, mbr_manager_unbind(world->manager, world->binding, &world->error));
    world->binding.value = 0;
    for (uint32_t i = 0; i < WORLD_STREAM_COUNT; i++) {
        if (world->streams[i].value != 0)
            STEP(world, mbr_ep_detach_stream(world->manager, world->streams[i], &world->error));
        world->streams[i].value = 0;
    }
    STEP(world, mbr_ep_destroy(world->manager, world->ep, SPACE_NS, &world->error));
    world->ep.value = 0;
}

/* What a residue is charged to stays until the manager ends. */
static void end_budget(struct world *world)
{
    for (uint32_t i = 0; i < world->late_holder_count; i++)
        END(world,
            mbr_manager_destroy_holder(world->manager, world->late_holders[i], &world->error));
    END(world, mbr_manager_destroy_holder(world->manager, world->prefix_holder, &world->error));
    END(world, mbr_manager_destroy_holder(world->manager, world->holder, &world->error));
    world->holder.value = 0;
    mbr_authority_handle authority = world->authority;
    world->authority.value = 0; /* its figures can be asked no more, but by the audit */
    END(world, mbr_manager_destroy_authority(world->manager, authority, &world->error));
}

static bool leaves_lines_or_streams(void)
{
    for (uint32_t i = 0; i < FAULT_PLAN_COUNT; i++) {
        const struct fault_plan *plan = fault_plan_met(i);
        if (plan == NULL)
            continue;
        if (fault_ends_stream(plan->kind) ||
            plan->kind == FAULT_SLOT(mbr_transfer_vtable, stream_destroy) ||
            (plan->kind >= FAULT_SLOT(mbr_order_vtable, line_open) &&
                plan->kind <= FAULT_SLOT(mbr_order_vtable, line_close)))
            return true;
    }
    return false;
}

/* Lines that are left open keep a mechanism, as does the measuring of an authority that stays;
 * other residues do not. */
static void close_all(struct world *world)
{
    mbr_mechanism_handle mechanism = world->mechanism;
    world->mechanism.value = 0;
    bool had_residue = world->is_kept;
    world->is_kept = false;
    END(world, mbr_manager_close_mechanism(world->manager, mechanism, &world->error));
    CHECK(world, !world->is_kept || world->setup->is_measured || leaves_lines_or_streams());
    if (world->is_kept)
        return;
    STEP(world, mbr_manager_close_plugin(world->manager, world->plugin, &world->error));
    mbr_manager *manager = world->manager;
    world->manager = NULL;
    STEP(world, mbr_manager_destroy(manager, &world->error));
    world->is_kept = had_residue;
}

/* Of what HIP's plugin undoes within a slot, or has probed at its opening, no object is left that
 * could be withheld, and nobody may try once more: see destroy and unreserve in gpu_virtual.c. What
 * a stream that never ends may touch, the probe keeps. */
static bool leaves_what_nobody_names(void)
{
    const struct fault_plan *plan = fault_plan_met(0);
    if (plan == NULL || plan->after)
        return false;
    return plan->kind == FAULT_DRIVER(hipMemRelease) ||
        plan->kind == FAULT_DRIVER(hipMemAddressFree) ||
        (plan->for_good &&
            (plan->kind == FAULT_DRIVER(hipMemUnmap) ||
                plan->kind == FAULT_DRIVER(hipStreamSynchronize)));
}

static void expect_clean(struct world *world)
{
    if (world->is_kept) /* a ledger is left by nobody while its authority is kept */
        return;
    CHECK(world, fault_file_count() == 0);
    bool may_be_given_up = world->has_residue || world->has_lost;
    if (fault_heap_count() != 0 && !may_be_given_up) /* what an instance given up may call stays */
        world_fail(world, "O4: %llu blocks of the host's heap are out",
            (unsigned long long)fault_heap_count());
    CHECK(world, fault_hooks.instance_count == 0 || may_be_given_up);
    if (may_be_given_up)
        return;
    CHECK(world, fault_plugin_heap_count() == 0);
    CHECK(world, fault_hooks.mapped_bytes + fault_hooks.owned_bytes == 0);
    bool was_undone = fault_plan_met(1) == NULL; /* a second failure may leave addresses */
    CHECK(world, fault_hooks.left() == 0 || !was_undone || leaves_what_nobody_names());
}

void world_end(struct world *world)
{
    if (world->ep.value != 0)
        end_ep(world);
    if (world->authority.value != 0)
        end_budget(world);
    if (world->mechanism.value != 0)
        close_all(world);
    expect_clean(world);
}

/* ---- Allocations ----------------------------------------------------------------------------- */

struct block *alloc_on(struct world *world, uint64_t bytes, uint32_t flags, uint32_t stream)
{
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .flags = flags,
        .binding = world->binding, .holder = world->holder, .bytes = bytes};
    if (stream != 0)
        request.stream = world->streams[stream - 1];
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    STEP(world, mbr_alloc(world->manager, &request, &result, &world->error));
    if ((flags & MBR_ALLOC_ZEROED) != 0) /* else the fill would come after what is written now */
        streams_run();
    struct block *block = block_write(world, result.address, bytes);
    block->allocation = result.allocation;
    return block;
}

struct block *alloc_now(struct world *world, uint64_t bytes)
{
    return alloc_on(world, bytes, 0, 0);
}

static void free_block(struct world *world, struct block *block, mbr_free_request *request)
{
    request->struct_size = sizeof *request;
    request->allocation = block->allocation;
    struct block kept = *block;
    *block = (struct block){0}; /* not readable any more, unless it is refused */
    step_begin(world, "mbr_free");
    mbr_status status = mbr_free(world->manager, request, &world->error);
    if (status != MBR_OK)
        *block = kept;
    while (step_again(world, status))
        status = mbr_free(world->manager, request, &world->error);
    *block = (struct block){0};
}

void free_now(struct world *world, struct block *block)
{
    mbr_free_request request = {.flags = MBR_FREE_NOW};
    free_block(world, block, &request);
}

void free_after(struct world *world, struct block *block, uint32_t stream_count)
{
    mbr_free_request request = {.streams = world->streams, .stream_count = stream_count};
    free_block(world, block, &request);
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

void range_reserve(struct world *world, struct range *range, uint64_t bytes, uint64_t unit_bytes)
{
    mbr_range_reserve_request request = {MBR_SIZED(mbr_range_reserve_request),
        .binding = range->binding.value != 0 ? range->binding : world->binding, .bytes = bytes,
        .growth = {unit_bytes, unit_bytes, 0}};
    mbr_range_reserve_result result = {MBR_SIZED(mbr_range_reserve_result)};
    STEP(world, mbr_range_reserve(world->manager, &request, &result, &world->error));
    *range = (struct range){.handle = result.range,
        .address = result.address,
        .bytes = result.bytes,
        .unit_bytes = unit_bytes,
        .binding = request.binding};
}

/* All of what is committed is one block. */
static void range_rewrite(struct world *world, struct range *range)
{
    block_forget(world, range->block);
    range->block = range->committed_bytes == 0
        ? NULL
        : block_write(world, range->address, range->committed_bytes);
}

void range_grow(struct world *world, struct range *range, uint64_t to_bytes)
{
    for (;;) {
        mbr_piece piece = {range->handle, 0, to_bytes};
        mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
            .holder = world->holder, .pieces = &piece, .piece_count = 1,
            .stream = world->streams[0]};
        mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
        step_begin(world, "mbr_range_grow");
        while (
            step_again(world, mbr_range_grow(world->manager, &request, &result, &world->error)) &&
            !world->step.was_residual)
            ;
        if (!world->step.was_residual)
            break;
        range_release(world, range, 0);
        range_reserve(world, range, range->bytes, range->unit_bytes);
    }
    range->committed_bytes = to_bytes;
    range_rewrite(world, range);
}

void range_shrink(struct world *world, struct range *range, uint64_t to_bytes, uint32_t streams)
{
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .flags = streams == 0 ? MBR_FREE_NOW : 0,
        .piece = {range->handle, to_bytes, range->committed_bytes - to_bytes},
        .streams = world->streams, .stream_count = streams};
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    range->block->bytes = to_bytes;
    STEP(world, mbr_range_decommit(world->manager, &request, &result, &world->error));
    range->committed_bytes = to_bytes;
}

void range_release(struct world *world, struct range *range, uint32_t stream_count)
{
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .flags = stream_count == 0 ? MBR_FREE_NOW : 0, .piece = {.range = range->handle},
        .streams = world->streams, .stream_count = stream_count};
    block_forget(world, range->block);
    range->block = NULL;
    range->committed_bytes = 0;
    STEP(world, mbr_range_release(world->manager, &request, &world->error));
}

mbr_prefix_handle prefix_seal(
    struct world *world, const struct range *range, uint64_t offset, uint64_t bytes)
{
    mbr_piece piece = {range->handle, offset, bytes};
    mbr_prefix_request request = {MBR_SIZED(mbr_prefix_request), .piece_count = 1,
        .holder = world->prefix_holder, .pieces = &piece};
    mbr_prefix_result result = {MBR_SIZED(mbr_prefix_result)};
    STEP(world, mbr_prefix_create(world->manager, &request, &result, &world->error));
    CHECK(world, result.shared_bytes == bytes);
    return result.prefix;
}

void prefix_end(struct world *world, mbr_prefix_handle prefix)
{
    STEP(world, mbr_prefix_release(world->manager, prefix, &world->error));
}

/* ---- The rest -------------------------------------------------------------------------------- */

void streams_run(void)
{
    if (fault_hooks.run_streams != NULL)
        fault_hooks.run_streams();
}

void world_poll(struct world *world)
{
    step_begin(world, "mbr_manager_poll");
    mbr_manager_poll(world->manager);
    step_again(world, MBR_OK);
}

/* What lacks memory for a signal may have it later: a drain waits for that, up to its deadline. */
void world_drain(struct world *world)
{
    STEP_OR(world, MBR_TIMED_OUT,
        mbr_ep_drain(
            world->manager, world->ep, mbr_clock_now(&fault_clock) + DRAIN_NS, &world->error));
}

void world_trim(struct world *world)
{
    uint64_t released_bytes;
    STEP(world,
        mbr_manager_trim(world->manager, world->mechanism, 0, &released_bytes, &world->error));
}
