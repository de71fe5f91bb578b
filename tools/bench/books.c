/* H3: what the books add to a small allocation. The baseline is the same arena, asked for the same
 * block on behalf of the cache itself: the cache pays for the whole span already, so that nothing
 * moves and no tally is written; all else is the same code. */
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#define BLOCK_BYTES 512

typedef struct books_state {
    mbr_bench_core *core;
    mbr_holder *holder;
} books_state;

static bool allocate(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const books_state *state = context;
    mbr_arena_request request = {.holder = state->holder, .bytes = BLOCK_BYTES};
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++) {
        mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
        failed |= mbr_arena_alloc(state->core->arena, &request, &result, NULL);
        failed |= mbr_alloc_free(state->core->table, result.allocation, 0, true, NULL, 0, NULL);
    }
    return failed == MBR_OK;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_core core;
    if (!mbr_bench_core_open(bench, &core))
        return false;
    books_state with = {&core, core.holder};
    books_state without = {&core, mbr_backing_cache(core.backing)};
    mbr_contestant sides[] = {
        {.context = &with, .work = allocate},
        {.context = &without, .work = allocate},
    };
    if (mbr_bench_rounds(bench, sides, 2, bench->options->rounds))
        mbr_bench_take_difference(&rows[0], &sides[0], &sides[1]);
    return mbr_bench_core_close(bench, &core);
}

static const mbr_bench_plan plans[] = {
    {"H3", "allocate + free of 512 B with books", "ns more", "ns",
        "the same arena on behalf of its cache: nothing is booked", false, 3, 8},
};

const mbr_bench_group mbr_bench_books = {plans, 1, run};
