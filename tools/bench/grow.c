/* H5: a buffer that grows by 1 GiB.
 *
 *   parked     the extents still stand at these addresses from the range's earlier life
 *   pooled     they are there, unmapped
 *   cold       they are made now, with their pages
 *   addresses  they are made now, without pages */
#include "tools/bench/ranges.h"
#include "tools/bench/rounds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXTENT_DIVISOR 16 /* extents of 64 MiB */
#define LIMIT_BYTES (UINT64_C(8) << 30)
#define QUICK_DIVISOR 16

typedef struct grow_state {
    mbr_bench_world *world;
    mbr_range_handle range;
    uint64_t step_bytes; /* 1 GiB: what is there, and what it grows by */
    uint64_t calls;      /* of the last round */
    char *old;           /* the baseline's buffer */
    char *grown;
    int file;
    char *place; /* where a mapping by hand goes */
} grow_state;

static uint64_t step_of(const mbr_bench *bench)
{
    return bench->options->quick ? MBR_BENCH_GIB / QUICK_DIVISOR : MBR_BENCH_GIB;
}

static bool grow_second(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    grow_state *state = context;
    return mbr_bench_grow(state->world, state->range, state->step_bytes, state->step_bytes);
}

static bool release(void *context)
{
    grow_state *state = context;
    return mbr_bench_release(state->world, &state->range);
}

static bool release_and_trim(void *context)
{
    grow_state *state = context;
    return release(state) && mbr_bench_trim(state->world);
}

/* A group's end: a failure of the client's calls is told, nothing stays open. */
static bool finish(mbr_bench *bench, grow_state *state, bool done)
{
    if (!done)
        mbr_bench_fail_world(bench, "growing", state->world);
    mbr_bench_release(state->world, &state->range);
    return mbr_bench_world_close(bench, state->world) && done;
}

/* Slots called by one run of `work`, with what stands around it. */
static bool count_calls(grow_state *state, bool (*before)(void *context),
    bool (*work)(void *context, uint32_t thread, uint64_t count), bool (*after)(void *context),
    uint64_t *calls)
{
    if (!before(state))
        return false;
    uint64_t begin = mbr_bench_world_calls(state->world);
    if (!work(state, 0, 1))
        return false;
    *calls = mbr_bench_world_calls(state->world) - begin;
    return after(state);
}

/* ---- Parked and pooled, against malloc + copy + free */
static bool reserve_parked(void *context)
{
    grow_state *state = context;
    return mbr_bench_reserve(state->world, 2 * state->step_bytes,
               state->step_bytes / EXTENT_DIVISOR, &state->range) &&
        mbr_bench_grow(state->world, state->range, 0, state->step_bytes);
}

/* Decommitting unmaps into the pool. */
static bool reserve_pooled(void *context)
{
    grow_state *state = context;
    return reserve_parked(state) &&
        mbr_bench_grow(state->world, state->range, state->step_bytes, state->step_bytes) &&
        mbr_bench_decommit(state->world, state->range, state->step_bytes, state->step_bytes);
}

/* What is freed is the copy: as many pages as the old buffer has, which is used again. The new half
 * stays untouched. */
static bool copy_grow(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    grow_state *state = context;
    char *grown = malloc(2 * state->step_bytes);
    if (grown == NULL)
        return false;
    memcpy(grown, state->old, state->step_bytes);
    __asm__ volatile("" : : "r"(grown) : "memory"); /* the copy is not dropped */
    free(grown);
    return true;
}

static bool run_warm(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX, .populate = true};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    grow_state state = {.world = &world, .step_bytes = step_of(bench)};
    state.old = malloc(state.step_bytes);
    mbr_contestant sides[] = {
        {.context = &state,
            .work = grow_second,
            .before = reserve_parked,
            .after = release,
            .fixed_count = 1},
        {.context = &state,
            .work = grow_second,
            .before = reserve_pooled,
            .after = release,
            .fixed_count = 1},
        {.context = &state, .work = copy_grow, .fixed_count = 1},
    };
    bool done = state.old != NULL ||
        mbr_bench_fail(
            bench, "no memory for a buffer of %llu bytes", (unsigned long long)state.step_bytes);
    if (done)
        memset(state.old, 1, state.step_bytes);
    done = done && mbr_bench_rounds(bench, sides, 3, bench->options->rounds) &&
        count_calls(&state, reserve_parked, grow_second, release, &rows[0].ours.calls) &&
        count_calls(&state, reserve_pooled, grow_second, release, &rows[1].ours.calls);
    if (done) {
        for (uint32_t i = 0; i < 2; i++) {
            mbr_bench_take_ratio(&rows[i], &sides[i], &sides[2], 1e3);
            rows[i].ours.owned_bytes = mbr_bench_world_owned(&world);
            rows[i].theirs.owned_bytes =
                2 * state.step_bytes; /* old and copy, new half untouched */
        }
    }
    free(state.old);
    return finish(bench, &state, done);
}

/* ---- Cold and populated, against fallocate + MAP_POPULATE by hand */
static bool reserve_cold(void *context)
{
    grow_state *state = context;
    return mbr_bench_reserve(
        state->world, state->step_bytes, state->step_bytes / EXTENT_DIVISOR, &state->range);
}

static bool grow_first(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    grow_state *state = context;
    return mbr_bench_grow(state->world, state->range, 0, state->step_bytes);
}

static bool map_by_hand(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    grow_state *state = context;
    return fallocate(state->file, 0, 0, (off_t)state->step_bytes) == 0 &&
        mmap(state->place, state->step_bytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_POPULATE | MAP_FIXED, state->file, 0) != MAP_FAILED;
}

static bool unmap_by_hand(void *context)
{
    grow_state *state = context;
    return mmap(state->place, state->step_bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED &&
        ftruncate(state->file, 0) == 0;
}

static bool open_by_hand(mbr_bench *bench, grow_state *state)
{
    state->place = mmap(
        NULL, state->step_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    state->file = memfd_create("membrane-bench", MFD_CLOEXEC);
    return (state->place != MAP_FAILED && state->file >= 0) ||
        mbr_bench_fail(bench, "no memory file for the baseline");
}

static void close_by_hand(grow_state *state)
{
    if (state->place != MAP_FAILED)
        munmap(state->place, state->step_bytes);
    if (state->file >= 0)
        close(state->file);
}

static bool run_cold(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX, .populate = true};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    grow_state state = {.world = &world, .step_bytes = step_of(bench)};
    mbr_contestant sides[] = {
        {.context = &state,
            .work = grow_first,
            .before = reserve_cold,
            .after = release_and_trim,
            .fixed_count = 1},
        {.context = &state, .work = map_by_hand, .after = unmap_by_hand, .fixed_count = 1},
    };
    bool done = open_by_hand(bench, &state) &&
        mbr_bench_rounds(bench, sides, 2, bench->options->rounds) &&
        count_calls(&state, reserve_cold, grow_first, release_and_trim, &rows[0].ours.calls);
    if (done) {
        mbr_bench_take_ratio(&rows[0], &sides[0], &sides[1], 1e6);
        rows[0].ours.owned_bytes = rows[0].theirs.owned_bytes = state.step_bytes;
    }
    close_by_hand(&state);
    return finish(bench, &state, done);
}

/* ---- Addresses only, against mremap */
static bool map_old(void *context)
{
    grow_state *state = context;
    state->grown = NULL;
    state->old = mmap(NULL, state->step_bytes, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return state->old != MAP_FAILED;
}

static bool move_old(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    grow_state *state = context;
    state->grown = mremap(state->old, state->step_bytes, 2 * state->step_bytes, MREMAP_MAYMOVE);
    return state->grown != MAP_FAILED;
}

static bool unmap_grown(void *context)
{
    grow_state *state = context;
    return munmap(state->grown, 2 * state->step_bytes) == 0;
}

static bool reserve_plain(void *context)
{
    grow_state *state = context;
    return mbr_bench_reserve(
               state->world, 2 * state->step_bytes, state->step_bytes, &state->range) &&
        mbr_bench_grow(state->world, state->range, 0, state->step_bytes);
}

static bool run_plain(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {.limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    grow_state state = {.world = &world, .step_bytes = step_of(bench)};
    mbr_contestant sides[] = {
        {.context = &state,
            .work = grow_second,
            .before = reserve_plain,
            .after = release_and_trim,
            .fixed_count = 1},
        {.context = &state,
            .work = move_old,
            .before = map_old,
            .after = unmap_grown,
            .fixed_count = 1},
    };
    bool done = mbr_bench_rounds(bench, sides, 2, bench->options->rounds) &&
        count_calls(&state, reserve_plain, grow_second, release_and_trim, &rows[0].ours.calls);
    if (done)
        mbr_bench_take_ratio(&rows[0], &sides[0], &sides[1], 1e3);
    return finish(bench, &state, done);
}

static const mbr_bench_plan warm_plans[] = {
    {"H5a", "grow a 1 GiB buffer by 1 GiB, parked", "x", "us", "malloc + copy + free", true, 1000,
        200},
    {"H5b", "the same from the pool", "x", "us", "malloc + copy + free", true, 0.9, 0.6},
};
static const mbr_bench_plan cold_plans[] = {
    {"H5c", "grow by 1 GiB, cold and populated", "x", "ms", "fallocate + MAP_POPULATE by hand",
        true, 0.95, 0.9},
};
static const mbr_bench_plan plain_plans[] = {
    {"H5d", "grow by 1 GiB, addresses only", "x", "us", "mremap, neither populated", true, 0.5,
        MBR_BENCH_NO_FLOOR},
};

const mbr_bench_group mbr_bench_grow_warm = {warm_plans, 2, run_warm};
const mbr_bench_group mbr_bench_grow_cold = {cold_plans, 1, run_cold};
const mbr_bench_group mbr_bench_grow_plain = {plain_plans, 1, run_plain};
