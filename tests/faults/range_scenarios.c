/* Scenarios of ranges that grow, shrink, are parked, adopted and stolen from. */
#include "tests/faults/world.h"

static void reserve_release(struct world *world)
{
    struct range first = {0}, second = {0};
    range_reserve(world, &first, 64 * KIB, PAGE);
    range_reserve(world, &second, MIB, 64 * KIB);
    range_release(world, &first, 0);
    range_release(world, &second, 0);
}

static void grow_steps(struct world *world)
{
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 2 * PAGE);
    range_grow(world, &range, 4 * PAGE);
    range_grow(world, &range, 6 * PAGE);
    range_release(world, &range, 0);
}

static void shrink(struct world *world)
{
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 6 * PAGE);
    range_shrink(world, &range, 3 * PAGE, 0);
    range_grow(world, &range, 7 * PAGE);
    range_shrink(world, &range, PAGE, 0);
    range_release(world, &range, 0);
}

static void shrink_deferred(struct world *world)
{
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 6 * PAGE);
    range_shrink(world, &range, 4 * PAGE, 1);
    range_shrink(world, &range, 2 * PAGE, 2);
    world_poll(world);
    streams_run();
    world_poll(world);
    world_drain(world);
    range_grow(world, &range, 5 * PAGE);
    range_release(world, &range, 2);
    world_drain(world);
}

/* The second life adopts in place what the first has left mapped. */
static void park_adopt(struct world *world)
{
    for (uint32_t life = 0; life < 3; life++) {
        struct range range = {0};
        range_reserve(world, &range, 64 * KIB, PAGE);
        range_grow(world, &range, (4 + life) * PAGE);
        range_release(world, &range, life);
        world_drain(world);
    }
}

/* What is parked in one shape is moved to a range of another, where the limit leaves no other way.
 */
static void steal(struct world *world)
{
    struct range parked = {0}, other = {0};
    range_reserve(world, &parked, 64 * KIB, PAGE);
    range_grow(world, &parked, 8 * PAGE);
    range_release(world, &parked, 0);
    range_reserve(world, &other, 128 * KIB, PAGE);
    range_grow(world, &other, 6 * PAGE);
    range_grow(world, &other, 9 * PAGE);
    range_release(world, &other, 0);
}

/* Extents of another size are evicted first. */
static void evict(struct world *world)
{
    struct range small_ones = {0}, big = {0};
    range_reserve(world, &small_ones, 64 * KIB, PAGE);
    range_grow(world, &small_ones, 8 * PAGE);
    range_release(world, &small_ones, 0);
    range_reserve(world, &big, 128 * KIB, 4 * PAGE);
    range_grow(world, &big, 12 * PAGE);
    range_release(world, &big, 0);
}

/* Kept addresses of other shapes, and alignments. */
static void shapes(struct world *world)
{
    static const struct {
        uint64_t bytes, unit_bytes;
    } wanted[] = {{64 * KIB, PAGE}, {128 * KIB, 2 * PAGE}, {64 * KIB, 4 * PAGE}, {MIB, 16 * PAGE}};
    for (uint32_t life = 0; life < 2; life++) {
        struct range ranges[4];
        for (uint32_t i = 0; i < 4; i++) {
            ranges[i] = (struct range){0};
            range_reserve(world, &ranges[i], wanted[i].bytes, wanted[i].unit_bytes);
            range_grow(world, &ranges[i], 2 * wanted[i].unit_bytes);
        }
        for (uint32_t i = 0; i < 4; i++)
            range_release(world, &ranges[i], i % 3);
        world_drain(world);
    }
    world_trim(world);
}

static mbr_status refuse_once(void *context)
{
    return (*(uint32_t *)context)++ == 0 ? MBR_BUSY : MBR_OK;
}

/* One transaction over two ranges, refused by its client the first time. */
static void several(struct world *world)
{
    struct range first = {0}, second = {0}, *ranges[2] = {&first, &second};
    for (uint32_t i = 0; i < 2; i++)
        range_reserve(world, ranges[i], 64 * KIB, PAGE);
    uint32_t call_count = 1;
    for (;;) {
        mbr_piece pieces[2] = {{ranges[0]->handle, 0, 3 * PAGE}, {ranges[1]->handle, 0, 2 * PAGE}};
        mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
            .holder = world->holder, .pieces = pieces, .piece_count = 2, .publish = refuse_once,
            .publish_context = &call_count};
        mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
        step_begin(world, "mbr_range_grow of two");
        while (
            step_again(world, mbr_range_grow(world->manager, &request, &result, &world->error)) &&
            !world->step.was_residual)
            ;
        if (!world->step.was_residual)
            break;
        for (uint32_t i = 0; i < 2; i++) {
            range_release(world, ranges[i], 0);
            range_reserve(world, ranges[i], 64 * KIB, PAGE);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        ranges[i]->committed_bytes = (3 - i) * PAGE;
        ranges[i]->block = block_write(world, ranges[i]->address, ranges[i]->committed_bytes);
    }
    for (uint32_t i = 0; i < 2; i++)
        range_release(world, ranges[i], 1);
    world_drain(world);
}

/* The client says no: all is undone. With a fault of the undo some of it stays. */
static void refused(struct world *world)
{
    struct range range = {0};
    uint32_t call_count = 0;
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 2 * PAGE);
    mbr_piece piece = {range.handle, 0, 5 * PAGE};
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request), .holder = world->holder,
        .pieces = &piece, .piece_count = 1, .publish = refuse_once, .publish_context = &call_count};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    step_begin(world, "mbr_range_grow, refused by its client");
    mbr_status status = mbr_range_grow(world->manager, &request, &result, &world->error);
    CHECK(world, status != MBR_OK);
    if (status != MBR_BUSY)
        step_again(world, status);
    world_check(world);
    range_shrink(world, &range, PAGE, 0);
    range_release(world, &range, 0);
}

/* What is new is zero though others have written it: it is filled on the stream. */
static void zeroed(struct world *world)
{
    struct range first = {0}, range = {0};
    range_reserve(world, &first, 64 * KIB, PAGE);
    range_grow(world, &first, 4 * PAGE);
    range_release(world, &first, 0);
    range_reserve(world, &range, 64 * KIB, PAGE);
    for (;;) {
        mbr_piece piece = {range.handle, 0, 5 * PAGE};
        mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
            .flags = MBR_GROW_ZEROED, .holder = world->holder, .pieces = &piece, .piece_count = 1,
            .stream = world->streams[0]};
        mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
        step_begin(world, "mbr_range_grow, zeroed");
        while (
            step_again(world, mbr_range_grow(world->manager, &request, &result, &world->error)) &&
            !world->step.was_residual)
            ;
        if (!world->step.was_residual)
            break;
        range_release(world, &range, 0);
        range_reserve(world, &range, 64 * KIB, PAGE);
    }
    streams_run();
    for (uint64_t offset = 0; offset < 5 * PAGE; offset += sizeof(uint64_t))
        CHECK(world, *word_at(range.address + offset) == 0);
    range_release(world, &range, 1);
    world_drain(world);
}

/* Extents that grow with the offset. */
static void growth_rule(struct world *world)
{
    mbr_range_reserve_request request = {MBR_SIZED(mbr_range_reserve_request),
        .binding = world->binding, .bytes = 4 * MIB, .growth = {PAGE, MIB, 2}};
    mbr_range_reserve_result result = {MBR_SIZED(mbr_range_reserve_result)};
    STEP(world, mbr_range_reserve(world->manager, &request, &result, &world->error));
    struct range range = {.handle = result.range,
        .address = result.address,
        .bytes = result.bytes,
        .unit_bytes = PAGE,
        .binding = world->binding};
    range_grow(world, &range, 2 * PAGE);
    range_grow(world, &range, 128 * KIB);
    range_release(world, &range, 1);
    world_drain(world);
}

/* One group's bytes are filled before another sees them. */
static void groups(struct world *world)
{
    mbr_bind_request other = world_bind_request(world);
    other.isolation_group = 7;
    mbr_binding_handle binding;
    STEP(world, mbr_manager_bind(world->manager, &other, &binding, &world->error));
    struct range first = {0}, second = {.binding = binding};
    range_reserve(world, &first, 64 * KIB, PAGE);
    range_grow(world, &first, 4 * PAGE);
    range_release(world, &first, 0);
    range_reserve(world, &second, 64 * KIB, PAGE);
    range_grow(world, &second, 5 * PAGE);
    range_release(world, &second, 0);
    END(world, mbr_manager_unbind(world->manager, binding, &world->error));
}

const struct scenario range_scenarios[] = {
    {.name = "range_reserve_release", .run = reserve_release},
    {.name = "range_grow_steps", .run = grow_steps},
    {.name = "range_grow_steps_nothing_kept", .run = grow_steps, .setup = {.keep_bytes = 1}},
    {.name = "range_grow_steps_populated", .run = grow_steps, .setup = {.populates = true}},
    {.name = "range_shrink", .run = shrink},
    {.name = "range_shrink_deferred", .run = shrink_deferred},
    {.name = "range_park_adopt", .run = park_adopt},
    {.name = "range_steal", .run = steal, .setup = {.limit_bytes = 10 * PAGE}},
    {.name = "range_steal_populated",
        .run = steal,
        .setup = {.limit_bytes = 10 * PAGE, .populates = true}},
    {.name = "range_park_adopt_nothing_kept", .run = park_adopt, .setup = {.keep_bytes = 1}},
    {.name = "range_shapes", .run = shapes},
    {.name = "range_evict", .run = evict, .setup = {.limit_bytes = 13 * PAGE}},
    {.name = "range_several", .run = several},
    {.name = "range_refused", .run = refused},
    {.name = "range_zeroed", .run = zeroed},
    {.name = "range_growth_rule", .run = growth_rule},
    {.name = "range_groups", .run = groups},
    {0},
};
