/* Scenarios of prefixes: sealed, shared, outlived. */
#include "tests/faults/world.h"

#define SHARED_BYTES (4 * PAGE)

static void make_source(struct world *world, struct range *source)
{
    range_reserve(world, source, 64 * KIB, PAGE);
    range_grow(world, source, SHARED_BYTES + PAGE);
}

/* A residual forbids the target: another one takes its place. False: the prefix cannot be had. */
static bool attach(
    struct world *world, mbr_prefix_handle prefix, const struct range *source, struct range *target)
{
    range_reserve(world, target, 64 * KIB, PAGE);
    for (;;) {
        mbr_prefix_attach_request request = {MBR_SIZED(mbr_prefix_attach_request),
            .target_count = 1, .prefix = prefix, .holder = world->holder,
            .targets = &target->handle, .stream = world->streams[0]};
        mbr_prefix_attach_result result = {MBR_SIZED(mbr_prefix_attach_result)};
        step_begin(world, "mbr_prefix_attach");
        while (step_again(
                   world, mbr_prefix_attach(world->manager, &request, &result, &world->error)) &&
            !world->step.was_residual)
            ;
        if (!world->step.was_residual)
            break;
        if (world->step.status == MBR_BUSY) /* the prefix itself is never named again */
            return false;
        range_release(world, target, 0);
        range_reserve(world, target, 64 * KIB, PAGE);
    }
    for (uint64_t offset = 0; offset < SHARED_BYTES; offset += PAGE)
        CHECK(world,
            source == NULL ||
                *word_at(source->address + offset) == *word_at(target->address + offset));
    return true;
}

static void seal_release(struct world *world)
{
    struct range source = {0};
    make_source(world, &source);
    prefix_end(world, prefix_seal(world, &source, 0, SHARED_BYTES));
    mbr_prefix_handle prefix = prefix_seal(world, &source, 0, 2 * PAGE);
    range_release(world, &source, 0);
    prefix_end(world, prefix);
}

static void attach_detach(struct world *world)
{
    struct range source = {0}, target = {0};
    make_source(world, &source);
    mbr_prefix_handle prefix = prefix_seal(world, &source, 0, SHARED_BYTES);
    attach(world, prefix, &source, &target);
    range_release(world, &target, 1);
    world_drain(world);
    range_release(world, &source, 0);
    prefix_end(world, prefix);
}

/* The bill moves from one to the next. */
static void last_user(struct world *world)
{
    struct range source = {0}, first = {0}, second = {0};
    make_source(world, &source);
    mbr_prefix_handle prefix = prefix_seal(world, &source, 0, SHARED_BYTES);
    attach(world, prefix, &source, &first);
    attach(world, prefix, &source, &second);
    range_release(world, &source, 1);
    world_drain(world);
    prefix_end(world, prefix);
    range_release(world, &first, 0);
    range_release(world, &second, 2);
    world_drain(world);
}

/* A prefix of what is shared already; and the prefix alone keeps it for a while. */
static void chain(struct world *world)
{
    struct range source = {0}, first = {0}, second = {0};
    make_source(world, &source);
    mbr_prefix_handle prefix = prefix_seal(world, &source, 0, SHARED_BYTES);
    bool is_chained = attach(world, prefix, &source, &first);
    mbr_prefix_handle longer = prefix_seal(world, is_chained ? &first : &source, 0, SHARED_BYTES);
    range_release(world, &source, 0);
    range_release(world, &first, 0);
    prefix_end(world, prefix);
    attach(world, longer, NULL, &second);
    prefix_end(world, longer);
    range_release(world, &second, 0);
}

/* The target goes on privately behind what it shares. */
static void grows_on(struct world *world)
{
    struct range source = {0}, target = {0};
    make_source(world, &source);
    mbr_prefix_handle prefix = prefix_seal(world, &source, 0, SHARED_BYTES);
    attach(world, prefix, &source, &target);
    for (bool done = false; !done;) {
        mbr_piece piece = {target.handle, 0, SHARED_BYTES + 3 * PAGE};
        mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
            .holder = world->holder, .pieces = &piece, .piece_count = 1};
        mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
        step_begin(world, "mbr_range_grow behind a prefix");
        while (
            step_again(world, mbr_range_grow(world->manager, &request, &result, &world->error)) &&
            !world->step.was_residual)
            ;
        done = !world->step.was_residual;
        if (!done) {
            range_release(world, &target, 0);
            attach(world, prefix, &source, &target);
        }
    }
    target.block = block_write(world, target.address + SHARED_BYTES, 3 * PAGE);
    range_release(world, &target, 0);
    prefix_end(world, prefix);
    range_release(world, &source, 0);
}

/* Somewhere in the range. */
static bool is_protected(struct world *world, const struct range *range)
{
    bool is_so = false;
    mbr_range_run run = {MBR_SIZED(mbr_range_run)};
    do {
        uint64_t from = run.offset_bytes + run.bytes;
        STEP(world, mbr_range_next_run(world->manager, range->handle, from, &run, &world->error));
        is_so |= run.bytes != 0 && (run.flags & MBR_RUN_PROTECTED) != 0;
    } while (run.bytes != 0);
    return is_so;
}

/* Its source may only read what it shares, and writes it again afterwards: unless giving the access
 * back was refused. */
static void protects(struct world *world)
{
    struct range source = {0}, target = {0};
    make_source(world, &source);
    mbr_prefix_handle prefix = prefix_seal(world, &source, 0, SHARED_BYTES);
    mbr_prefix_protect_request request = {MBR_SIZED(mbr_prefix_protect_request), .stream_count = 1,
        .prefix = prefix, .streams = world->streams, .deadline_ns = UINT64_MAX};
    STEP(world, mbr_prefix_protect(world->manager, &request, &world->error));
    CHECK(world, is_protected(world, &source));
    attach(world, prefix, &source, &target);
    prefix_end(world, prefix);
    range_release(world, &target, 0);
    world_trim(world);
    if (!is_protected(world, &source)) {
        block_forget(world, source.block);
        source.block = block_write(world, source.address, SHARED_BYTES + PAGE);
    }
    range_release(world, &source, 0);
    range_reserve(world, &source, 64 * KIB, PAGE);
    range_grow(world, &source, SHARED_BYTES + PAGE); /* which writes all of it */
    range_release(world, &source, 0);
}

const struct scenario prefix_scenarios[] = {
    {.name = "prefix_seal_release", .run = seal_release},
    {.name = "prefix_attach_detach", .run = attach_detach},
    {.name = "prefix_attach_nothing_kept", .run = attach_detach, .setup = {.keep_bytes = 1}},
    {.name = "prefix_last_user", .run = last_user},
    {.name = "prefix_last_user_populated", .run = last_user, .setup = {.populates = true}},
    {.name = "prefix_chain", .run = chain},
    {.name = "prefix_chain_nothing_kept", .run = chain, .setup = {.keep_bytes = 1}},
    {.name = "prefix_grows_on", .run = grows_on},
    {.name = "prefix_protected", .run = protects},
    {0},
};
