/* Scenarios of plain allocations. */
#include "tests/faults/world.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void small(struct world *world)
{
    struct block *blocks[3];
    for (uint32_t i = 0; i < COUNT(blocks); i++)
        blocks[i] = alloc_now(world, 300);
    for (uint32_t i = 0; i < COUNT(blocks); i++)
        free_now(world, blocks[i]);
}

static void classes(struct world *world)
{
    static const uint64_t sizes[] = {1, 300, 5000, 40000, 300000};
    struct block *blocks[COUNT(sizes)];
    for (uint32_t i = 0; i < COUNT(sizes); i++)
        blocks[i] = alloc_now(world, sizes[i]);
    for (uint32_t i = COUNT(sizes); i-- > 0;)
        free_now(world, blocks[i]);
}

static void take_turns(struct world *world, uint64_t first_bytes, uint64_t second_bytes)
{
    struct block *first = alloc_now(world, first_bytes), *second = alloc_now(world, second_bytes);
    free_now(world, first);
    struct block *again = alloc_now(world, first_bytes);
    free_now(world, second);
    free_now(world, again);
}

static void large(struct world *world)
{
    take_turns(world, 3 * MIB, 5 * MIB);
}

/* Two spans of the least size: all of their pages are taken, each time. */
static void large_populated(struct world *world)
{
    take_turns(world, 256 * KIB, 160 * KIB);
}

static void zeroed(struct world *world)
{
    struct block *first = alloc_on(world, 3 * MIB, 0, 1);
    free_after(world, first, 1);
    world_drain(world);
    struct block *second = alloc_on(world, 3 * MIB, MBR_ALLOC_ZEROED, 1);
    struct block *small_one = alloc_on(world, 1000, MBR_ALLOC_ZEROED, 1);
    free_after(world, second, 1);
    free_after(world, small_one, 1);
    world_drain(world);
}

static void deferred_one(struct world *world)
{
    struct block *first = alloc_on(world, 1000, 0, 1), *second = alloc_on(world, 3 * MIB, 0, 1);
    free_after(world, first, 1);
    free_after(world, second, 1);
    world_poll(world);
    streams_run();
    world_poll(world);
    alloc_now(world, 2000);
    free_now(world, &world->blocks[0]);
}

static void deferred_two(struct world *world)
{
    struct block *first = alloc_on(world, 1000, 0, 1), *second = alloc_on(world, 3 * MIB, 0, 2);
    free_after(world, first, 2);
    free_after(world, second, 2);
    world_drain(world);
    struct block *third = alloc_on(world, 1000, 0, 2);
    free_after(world, third, 2);
    world_drain(world);
}

static void by_address(struct world *world)
{
    struct block *block = alloc_now(world, 2 * MIB);
    mbr_allocation_figures figures = {MBR_SIZED(mbr_allocation_figures)};
    STEP(world,
        mbr_alloc_read(world->manager, (mbr_allocation_handle){0}, block->address + 5000, &figures,
            &world->error));
    CHECK(world, figures.allocation.value == block->allocation.value);
    block->allocation.value = 0;
    mbr_free_request request = {
        MBR_SIZED(mbr_free_request), .flags = MBR_FREE_NOW, .address = block->address};
    block_forget(world, block);
    STEP(world, mbr_free(world->manager, &request, &world->error));
}

/* The limit has room for one of them: the second waits for the first one's release. */
static void reaping(struct world *world)
{
    struct block *first = alloc_on(world, 3 * MIB, 0, 1);
    free_after(world, first, 1);
    world_poll(world);
    streams_run();
    struct block *second = alloc_on(world, 3 * MIB + PAGE, 0, 1);
    free_after(world, second, 1);
    world_drain(world);
}

static void trimmed(struct world *world)
{
    struct block *small_one = alloc_now(world, 1000), *big = alloc_now(world, 3 * MIB);
    free_now(world, small_one);
    free_now(world, big);
    world_trim(world);
    struct block *again = alloc_now(world, 3 * MIB);
    world_trim(world);
    free_now(world, again);
    world_trim(world);
}

const struct scenario alloc_scenarios[] = {
    {.name = "alloc_small", .run = small},
    {.name = "alloc_classes", .run = classes},
    {.name = "alloc_large", .run = large},
    {.name = "alloc_large_populated", .run = large_populated, .setup = {.populates = true}},
    {.name = "alloc_zeroed", .run = zeroed},
    {.name = "alloc_deferred_one_stream", .run = deferred_one},
    {.name = "alloc_deferred_two_streams", .run = deferred_two},
    {.name = "alloc_by_address", .run = by_address},
    {.name = "alloc_reaping", .run = reaping, .setup = {.limit_bytes = 5 * MIB}},
    {.name = "alloc_trimmed", .run = trimmed},
    {.name = "alloc_nothing_kept", .run = large, .setup = {.keep_bytes = 1}},
    {.name = "alloc_plain", .run = large, .setup = {.is_plain = true}},
    {.name = "alloc_plain_classes", .run = classes, .setup = {.is_plain = true}},
    {.name = "alloc_plain_deferred", .run = deferred_two, .setup = {.is_plain = true}},
    {.name = "alloc_measured",
        .run = reaping,
        .setup = {.limit_bytes = 5 * MIB, .is_measured = true}},
    {0},
};
