/* H6: 1 GiB committed as ranges, against a memory file mapped into the same ranges with bare system
 * calls; pages and page tables are there on both sides afterwards. */
#include "tools/bench/ranges.h"
#include "tools/bench/rounds.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGE_COUNT 16
#define RANGE_BYTES (UINT64_C(64) << 20)
#define LIMIT_BYTES (UINT64_C(8) << 30)
#define QUICK_DIVISOR 16

typedef struct commit_state {
    mbr_bench_world *world;
    uint64_t range_bytes;
    mbr_range_handle ranges[RANGE_COUNT];
    char *places[RANGE_COUNT];
    int file;
} commit_state;

static bool reserve(void *context)
{
    commit_state *state = context;
    for (uint32_t i = 0; i < RANGE_COUNT; i++)
        if (!mbr_bench_reserve(
                state->world, state->range_bytes, state->range_bytes, &state->ranges[i]))
            return false;
    return true;
}

static bool commit(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    commit_state *state = context;
    mbr_piece pieces[RANGE_COUNT];
    for (uint32_t i = 0; i < RANGE_COUNT; i++)
        pieces[i] = (mbr_piece){state->ranges[i], 0, state->range_bytes};
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
        .holder = state->world->holder, .pieces = pieces, .piece_count = RANGE_COUNT};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    return mbr_range_grow(state->world->manager, &request, &result, &state->world->error) == MBR_OK;
}

static bool release(void *context)
{
    commit_state *state = context;
    for (uint32_t i = 0; i < RANGE_COUNT; i++)
        if (!mbr_bench_release(state->world, &state->ranges[i]))
            return false;
    return mbr_bench_trim(state->world);
}

static bool bare_reserve(void *context)
{
    commit_state *state = context;
    for (uint32_t i = 0; i < RANGE_COUNT; i++) {
        state->places[i] = mmap(NULL, state->range_bytes, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (state->places[i] == MAP_FAILED)
            return false;
    }
    return true;
}

/* The file's pages first, as a caller does who wants an error and no signal. */
static bool bare_commit(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    commit_state *state = context;
    for (uint32_t i = 0; i < RANGE_COUNT; i++) {
        off_t offset = (off_t)(i * state->range_bytes);
        if (fallocate(state->file, 0, offset, (off_t)state->range_bytes) != 0 ||
            mmap(state->places[i], state->range_bytes, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_POPULATE | MAP_FIXED, state->file, offset) == MAP_FAILED)
            return false;
    }
    return true;
}

static bool bare_release(void *context)
{
    commit_state *state = context;
    for (uint32_t i = 0; i < RANGE_COUNT; i++)
        if (munmap(state->places[i], state->range_bytes) != 0)
            return false;
    return ftruncate(state->file, 0) == 0;
}

static bool measure(mbr_bench *bench, commit_state *state, mbr_bench_row *row)
{
    mbr_contestant sides[] = {
        {.context = state, .work = commit, .before = reserve, .after = release, .fixed_count = 1},
        {.context = state,
            .work = bare_commit,
            .before = bare_reserve,
            .after = bare_release,
            .fixed_count = 1},
    };
    if (!mbr_bench_rounds(bench, sides, 2, bench->options->rounds) || !reserve(state))
        return false;
    uint64_t begin = mbr_bench_world_calls(state->world);
    if (!commit(state, 0, 1))
        return false;
    row->ours.calls = mbr_bench_world_calls(state->world) - begin;
    row->ours.owned_bytes = row->theirs.owned_bytes = mbr_bench_world_owned(state->world);
    mbr_bench_take_ratio(row, &sides[0], &sides[1], 1e6);
    return release(state);
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX, .populate = true};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    commit_state state = {.world = &world,
        .range_bytes = bench->options->quick ? RANGE_BYTES / QUICK_DIVISOR : RANGE_BYTES,
        .file = memfd_create("membrane-bench", MFD_CLOEXEC)};
    bool done = state.file >= 0 ? measure(bench, &state, &rows[0])
                                : mbr_bench_fail(bench, "no memory file for the baseline");
    if (!done)
        mbr_bench_fail_world(bench, "committing", &world);
    if (!done)
        release(&state);
    if (state.file >= 0)
        close(state.file);
    return mbr_bench_world_close(bench, &world) && done;
}

static const mbr_bench_plan plans[] = {
    {"H6", "commit 1 GiB as 16 ranges, populated", "x", "ms",
        "bare fallocate + mmap of the same ranges", true, 0.95, 0.9},
};

const mbr_bench_group mbr_bench_commit = {plans, 1, run};
