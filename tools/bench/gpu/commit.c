/* P1 to P4: 1 GiB committed. The driver's cost is per handle, so what counts
 * is how many handles stand behind a GiB, and how many of them are still there from before.
 *
 *   cold    handles are created, mapped, and given access
 *   pooled  the handles are there, unmapped
 *   parked  the mappings are there
 */
#include "tools/bench/gpu/device.h"

#include <stdio.h>
#include <stdlib.h>

#define SMALL_BYTES (UINT64_C(64) << 20)
#define HANDLE_LIMIT_COUNT 512
#define REFRESH_BYTES (UINT64_C(2) << 20) /* a granule of any plugin */

typedef struct commit_state {
    mbr_bench_device *device;
    struct commit_state *refresher;
    uint64_t bytes;        /* 1 GiB */
    uint64_t extent_bytes; /* of this contestant */
    mbr_range_handle range;
    mbr_cuda_address address; /* ours: of the last range */
    mbr_cuda_handle handles[HANDLE_LIMIT_COUNT];
    mbr_hand_way way;
} commit_state;

/* The same right before each turn, whoever had the one before: a granule comes and goes, by hand
 * and then through us. No device has gone to rest then, and the code of either side is as warm as
 * the other's. No more than a granule: a release in bulk is cleared behind our back, and what is
 * created meanwhile waits for that. */
static bool refresh(void *context)
{
    commit_state *one = ((commit_state *)context)->refresher;
    mbr_bench_world *world = &one->device->world;
    return mbr_hand_commit(&one->device->hand, one->address, one->bytes, one->extent_bytes,
               one->way, one->handles) &&
        mbr_hand_decommit(&one->device->hand, one->address, one->bytes, one->extent_bytes, one->way,
            one->handles) &&
        mbr_bench_reserve(world, one->bytes, one->extent_bytes, &one->range) &&
        mbr_bench_grow(world, one->range, 0, one->bytes) && mbr_bench_release(world, &one->range) &&
        mbr_bench_trim(world);
}

/* ---- Ours */
static bool reserve_range(commit_state *state)
{
    mbr_bench_world *world = &state->device->world;
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    bool done = mbr_bench_reserve(world, state->bytes, state->extent_bytes, &state->range) &&
        mbr_range_read(world->manager, state->range, 0, &figures, &world->error) == MBR_OK;
    state->address = figures.address;
    return done;
}

static bool reserve(void *context)
{
    return refresh(context) && reserve_range(context);
}

static bool commit(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    commit_state *state = context;
    return mbr_bench_grow(&state->device->world, state->range, 0, state->bytes);
}

static bool release(void *context)
{
    commit_state *state = context;
    return mbr_bench_release(&state->device->world, &state->range);
}

static bool release_and_trim(void *context)
{
    commit_state *state = context;
    return release(state) && mbr_bench_trim(&state->device->world);
}

static bool reserve_pooled(void *context)
{
    commit_state *state = context;
    return reserve(state) && commit(state, 0, 1) &&
        mbr_bench_decommit(&state->device->world, state->range, 0, state->bytes);
}

/* Releasing parks, and the next range of this size gets the addresses. */
static bool reserve_parked(void *context)
{
    commit_state *state = context;
    return reserve(state) && commit(state, 0, 1) && release(state) && reserve_range(state);
}

/* ---- By hand */
static bool commit_by_hand(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    commit_state *state = context;
    return mbr_hand_commit(&state->device->hand, state->address, state->bytes, state->extent_bytes,
        state->way, state->handles);
}

static bool decommit_by_hand(void *context)
{
    commit_state *state = context;
    return mbr_hand_decommit(&state->device->hand, state->address, state->bytes,
        state->extent_bytes, state->way, state->handles);
}

/* What a pool of handles by hand would have left: they are there, and mapped nowhere. */
static bool leave_handles(void *context)
{
    commit_state *state = context;
    return refresh(state) && commit_by_hand(state, 0, 1) &&
        mbr_hand_did(&state->device->hand,
            state->device->hand.call.unmap(state->address, state->bytes), "cuMemUnmap");
}

static bool map_handles(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    commit_state *state = context;
    return mbr_hand_map(
        &state->device->hand, state->address, state->bytes, state->extent_bytes, state->handles);
}

/* One state a contestant: they differ in the extent. */
typedef struct commit_field {
    mbr_bench_device device;
    commit_state ours_small, ours_large, loop, hand_small, hand_large, refresher;
} commit_field;

static bool open_field(mbr_bench *bench, commit_field *field)
{
    if (!mbr_bench_device_open(bench, UINT64_MAX, &field->device))
        return false;
    uint64_t bytes = mbr_bench_device_bytes(bench, MBR_BENCH_GIB);
    uint64_t small = mbr_bench_device_bytes(bench, SMALL_BYTES);
    uint64_t granule = field->device.hand.granule_bytes;
    if (small < granule)
        small = granule;
    field->ours_small = (commit_state){&field->device, .bytes = bytes, .extent_bytes = small};
    field->ours_large = (commit_state){&field->device, .bytes = bytes, .extent_bytes = bytes};
    field->loop = (commit_state){
        &field->device, .bytes = bytes, .extent_bytes = granule, .way = MBR_HAND_EACH};
    field->hand_small = (commit_state){&field->device, .bytes = bytes, .extent_bytes = small};
    field->hand_large = (commit_state){&field->device, .bytes = bytes, .extent_bytes = bytes};
    uint64_t little = granule > REFRESH_BYTES ? granule : REFRESH_BYTES;
    field->refresher = (commit_state){&field->device, .bytes = little, .extent_bytes = little};
    commit_state *all[] = {&field->ours_small, &field->ours_large, &field->loop, &field->hand_small,
        &field->hand_large};
    for (size_t i = 0; i < 5; i++)
        all[i]->refresher = &field->refresher;
    if (bytes / granule > HANDLE_LIMIT_COUNT)
        return mbr_bench_fail(bench, "a granule of %llu bytes makes more than %d handles of a GiB",
            (unsigned long long)granule, HANDLE_LIMIT_COUNT);
    commit_state *by_hand[] = {
        &field->loop, &field->hand_small, &field->hand_large, &field->refresher};
    for (size_t i = 0; i < 4; i++)
        if (!mbr_hand_reserve(&field->device.hand, by_hand[i]->bytes, &by_hand[i]->address))
            return false;
    return true;
}

static bool close_field(mbr_bench *bench, commit_field *field, bool done)
{
    mbr_bench_world *world = &field->device.world;
    commit_state *ours[] = {&field->ours_small, &field->ours_large};
    commit_state *by_hand[] = {
        &field->loop, &field->hand_small, &field->hand_large, &field->refresher};
    for (size_t i = 0; i < 2; i++)
        done = mbr_bench_release(world, &ours[i]->range) && done;
    for (size_t i = 0; i < 4; i++)
        if (by_hand[i]->address != 0)
            done =
                mbr_hand_unreserve(&field->device.hand, by_hand[i]->address, by_hand[i]->bytes) &&
                done;
    return mbr_bench_device_close(bench, &field->device, done);
}

static bool run_field(mbr_bench *bench, mbr_bench_row *rows,
    bool (*measure)(mbr_bench *bench, commit_field *field, mbr_bench_row *rows))
{
    commit_field *field = calloc(1, sizeof *field);
    if (field == NULL)
        return mbr_bench_fail(bench, "no memory for the contestants");
    bool done = open_field(bench, field);
    if (done || field->device.world.manager != NULL)
        done = close_field(bench, field, done && measure(bench, field, rows));
    free(field);
    return done;
}

static mbr_contestant ours(
    commit_state *state, bool (*before)(void *context), bool (*after)(void *context))
{
    return (mbr_contestant){.context = state,
        .work = commit,
        .before = before,
        .after = after,
        .fixed_count = 1,
        .by_wall = true};
}

static mbr_contestant by_hand(commit_state *state)
{
    return (mbr_contestant){.context = state,
        .work = commit_by_hand,
        .before = refresh,
        .after = decommit_by_hand,
        .fixed_count = 1,
        .by_wall = true};
}

static mbr_contestant pooled_by_hand(commit_state *state)
{
    mbr_contestant one = by_hand(state);
    one.before = leave_handles;
    one.work = map_handles;
    return one;
}

/* Large pages want aligned addresses. */
static unsigned long long alignment_mib(const commit_state *state)
{
    return (state->address & -state->address) / MBR_BENCH_MIB;
}

static bool take(mbr_bench_row *row, const mbr_contestant *mine, const mbr_contestant *theirs)
{
    commit_state *state = mine->context;
    mbr_bench_take_ratio(row, mine, theirs, 1e3);
    uint64_t handles = state->bytes / state->extent_bytes;
    snprintf(row->note, sizeof row->note,
        "%llu handles, %.1f us each; best rounds: %.1f us, theirs %.1f us; addresses are whole "
        "multiples of %llu MiB, theirs of %llu MiB",
        (unsigned long long)handles, row->ours.median / (double)handles, mine->min_ns / 1e3,
        theirs->min_ns / 1e3, alignment_mib(state), alignment_mib(theirs->context));
    return mbr_bench_device_count(state->device, mine, MBR_COUNT_OURS, 0, &row->ours) &&
        mbr_bench_device_count(state->device, theirs, MBR_COUNT_BY_HAND, 0, &row->theirs);
}

/* ---- P1 and P4: cold */
static bool measure_cold(mbr_bench *bench, commit_field *field, mbr_bench_row *rows)
{
    mbr_contestant sides[] = {
        ours(&field->ours_small, reserve, release_and_trim),
        ours(&field->ours_large, reserve, release_and_trim),
        by_hand(&field->loop),
        by_hand(&field->hand_small),
        by_hand(&field->hand_large),
    };
    if (!mbr_bench_rounds(bench, sides, 5, bench->options->rounds))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (!take(&rows[i], &sides[i], &sides[2]) || !take(&rows[2 + i], &sides[i], &sides[3 + i]))
            return false;
    return true;
}

/* ---- P2 and P3: from the pool, and parked */
static bool measure_warm(mbr_bench *bench, commit_field *field, mbr_bench_row *rows)
{
    mbr_contestant sides[] = {
        ours(&field->ours_small, reserve_pooled, release_and_trim),
        ours(&field->ours_large, reserve_pooled, release_and_trim),
        ours(&field->ours_small, reserve_parked, release_and_trim),
        by_hand(&field->loop),
        by_hand(&field->hand_small),
        pooled_by_hand(&field->hand_small),
        pooled_by_hand(&field->hand_large),
    };
    if (!mbr_bench_rounds(bench, sides, 7, bench->options->rounds))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        rows[i].others[rows[i].other_count++] =
            (mbr_bench_other){"the same handles by hand, kept unmapped",
                sides[5 + i].median_ns / 1e3, sides[5 + i].p99_ns / 1e3};
    if (!take(&rows[0], &sides[0], &sides[3]) || !take(&rows[1], &sides[1], &sides[3]) ||
        !take(&rows[2], &sides[2], &sides[4]))
        return false;
    rows[2].value = rows[2].ours.median;
    return rows[2].ours.calls == 0 ||
        mbr_bench_fail(bench, "P3: a parked GiB took %llu plugin calls, and none is the goal",
            (unsigned long long)rows[2].ours.calls);
}

static bool run_cold(mbr_bench *bench, mbr_bench_row *rows)
{
    return run_field(bench, rows, measure_cold);
}

static bool run_warm(mbr_bench *bench, mbr_bench_row *rows)
{
    return run_field(bench, rows, measure_warm);
}

static const mbr_bench_plan cold_plans[] = {
    {"P1a", "commit 1 GiB cold, extents of 64 MiB", "x", "us",
        "create, map and give access, granule by granule", true, 20, 10},
    {"P1b", "the same, one extent", "x", "us", "create, map and give access, granule by granule",
        true, 120, 60},
    {"P4a", "commit 1 GiB cold, extents of 64 MiB", "x", "us",
        "the driver by hand, the same extents, one call for access", true, 0.97, 0.9},
    {"P4b", "the same, one extent", "x", "us",
        "the driver by hand, the same extents, one call for access", true, 0.97, 0.9},
};
static const mbr_bench_plan warm_plans[] = {
    {"P2a", "commit 1 GiB from the pool, extents of 64 MiB", "x", "us",
        "create, map and give access, granule by granule", true, 35, 20},
    {"P2b", "the same, one extent", "x", "us", "create, map and give access, granule by granule",
        true, 200, 100},
    {"P3", "commit 1 GiB parked", "us", "us", "the driver by hand, cold, extents of 64 MiB", false,
        5, 20},
};

const mbr_bench_group mbr_bench_device_cold = {cold_plans, 4, run_cold};
const mbr_bench_group mbr_bench_device_warm = {warm_plans, 3, run_warm};
