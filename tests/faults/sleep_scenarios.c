/* Scenarios of ranges that sleep and wake: each extent's copies are enqueued before the next is
 * made, so that a call that fails meets work under way. */
#include "tests/faults/world.h"

#include "membrane/sleep.h"

static mbr_sleeper *make_sleeper(struct world *world, const struct range *range)
{
    mbr_sleeper_request request = {MBR_SIZED(mbr_sleeper_request), .arena = world->binding,
        .holder = world->prefix_holder, .chunk_bytes = PAGE, .keep_bytes = UINT64_MAX};
    mbr_sleeper *sleeper;
    STEP(world, mbr_sleeper_create(world->manager, &request, &sleeper, &world->error));
    STEP(world, mbr_sleeper_add(sleeper, range->handle, world->holder, 1, &world->error));
    return sleeper;
}

static void fall_asleep(struct world *world, mbr_sleeper *sleeper)
{
    mbr_sleep_request request = {MBR_SIZED(mbr_sleep_request), .level = MBR_SLEEP_KEEP, .tag = 1,
        .stream = world->streams[0], .deadline_ns = UINT64_MAX};
    mbr_sleep_result result = {MBR_SIZED(mbr_sleep_result)};
    step_begin(world, "mbr_sleeper_sleep");
    while (step_again(world, mbr_sleeper_sleep(sleeper, &request, &result, &world->error)) &&
        !world->step.was_residual)
        ;
}

static void wake(struct world *world, mbr_sleeper *sleeper)
{
    mbr_wake_request request = {MBR_SIZED(mbr_wake_request), .tag = 1, .stream = world->streams[0],
        .deadline_ns = UINT64_MAX};
    mbr_wake_result result = {MBR_SIZED(mbr_wake_result)};
    step_begin(world, "mbr_sleeper_wake");
    while (step_again(world, mbr_sleeper_wake(sleeper, &request, &result, &world->error)) &&
        !world->step.was_residual)
        ;
}

static uint32_t asleep_count(mbr_sleeper *sleeper)
{
    mbr_sleeper_figures figures = {MBR_SIZED(mbr_sleeper_figures)};
    mbr_sleeper_read(sleeper, &figures);
    return figures.asleep_count;
}

static struct block hide(struct range *range)
{
    struct block contents = *range->block;
    range->block->bytes = 0; /* nobody looks there meanwhile */
    return contents;
}

/* After a residual its place is not used any more, and it does not wake. */
static void wake_and_end(
    struct world *world, mbr_sleeper *sleeper, struct range *range, const struct block *contents)
{
    if (!world->step.was_residual)
        wake(world, sleeper);
    if (asleep_count(sleeper) != 0) {
        STEP(world, mbr_sleeper_drop(sleeper, 1, UINT64_MAX, &world->error));
    } else {
        *range->block = *contents;
        world_check(world);
    }
    STEP(world, mbr_sleeper_remove(sleeper, range->handle, &world->error));
    range_release(world, range, 0);
    END(world, mbr_sleeper_destroy(sleeper, UINT64_MAX, &world->error));
}

static void sleep_and_wake(struct world *world)
{
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 3 * PAGE);
    mbr_sleeper *sleeper = make_sleeper(world, &range);
    struct block contents = hide(&range);
    fall_asleep(world, sleeper);
    wake_and_end(world, sleeper, &range, &contents);
}

/* A prefix that has the middle of it ends while it sleeps: told once more, it takes that along. */
static void sleep_once_more(struct world *world)
{
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 3 * PAGE);
    mbr_prefix_handle prefix = prefix_seal(world, &range, PAGE, PAGE);
    mbr_sleeper *sleeper = make_sleeper(world, &range);
    struct block contents = hide(&range);
    fall_asleep(world, sleeper);
    bool was_residual = world->step.was_residual;
    prefix_end(world, prefix);
    if (was_residual)
        world->step.was_residual = true;
    else
        fall_asleep(world, sleeper);
    wake_and_end(world, sleeper, &range, &contents);
}

const struct scenario sleep_scenarios[] = {
    {.name = "sleep_and_wake", .run = sleep_and_wake},
    {.name = "sleep_once_more", .run = sleep_once_more},
    {0},
};
