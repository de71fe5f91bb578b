/* H8: what a block costs where many others live. Two populations of each side are out at once, a
 * small and a large one; ours are in an arena each. What grows in a place that is visited at random
 * is mostly the caches' misses, so there another allocator's own growth is the measure. */
#include "tools/bench/rival.h"
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#include <stdio.h>
#include <stdlib.h>

#define BLOCK_BYTES 256 /* the smallest class: in it neither side wastes pages */
#define SMALL_COUNT 1000
#define LARGE_COUNT 1000000
#define QUICK_LARGE_COUNT 10000
#define NEWEST_COUNT 64 /* freed and allocated again, last in first out */
#define LIMIT_BYTES (UINT64_C(1) << 30)

typedef struct population {
    const mbr_rival *rival; /* NULL: ours, in `world` */
    mbr_bench_world world;
    uint64_t target_count, count, random;
    mbr_alloc_request request;
    mbr_free_request back;
    mbr_allocation_handle *handles; /* ours */
    void **blocks;                  /* theirs */
} population;

static bool put(population *of, uint64_t index)
{
    volatile char *block;
    if (of->rival != NULL) {
        block = of->blocks[index] = of->rival->take(BLOCK_BYTES);
    } else {
        mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
        mbr_alloc(of->world.manager, &of->request, &result, NULL);
        of->handles[index] = result.allocation;
        block = (char *)(uintptr_t)result.address;
    }
    if (block == NULL)
        return false;
    *block = 1;
    return true;
}

static bool drop(population *of, uint64_t index)
{
    if (of->rival != NULL) {
        of->rival->give(of->blocks[index]);
        return true;
    }
    of->back.allocation = of->handles[index];
    return mbr_free(of->world.manager, &of->back, NULL) == MBR_OK;
}

static bool newest(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    population *of = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i += NEWEST_COUNT) {
        for (uint64_t k = 1; k <= NEWEST_COUNT && done; k++)
            done = drop(of, of->count - k);
        for (uint64_t k = NEWEST_COUNT; k > 0 && done; k--)
            done = put(of, of->count - k);
    }
    return done;
}

static bool at_random(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    population *of = context;
    for (uint64_t i = 0; i < count; i++) {
        of->random = of->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t index = (of->random >> 33) % of->count;
        if (!drop(of, index) || !put(of, index))
            return false;
    }
    return true;
}

/* ---- Populations */
static bool settle(mbr_bench *bench, population *of)
{
    size_t one = of->rival != NULL ? sizeof *of->blocks : sizeof *of->handles;
    void *places = calloc(of->target_count, one);
    of->random = 1;
    if (of->rival != NULL)
        of->blocks = places;
    else
        of->handles = places;
    bool done = places != NULL;
    for (; of->count < of->target_count && done; of->count += done)
        done = put(of, of->count);
    return done ||
        mbr_bench_fail(
            bench, "no memory for %llu live blocks", (unsigned long long)of->target_count);
}

static void leave(population *of)
{
    while (of->count > 0)
        drop(of, --of->count);
    free(of->handles);
    free(of->blocks);
}

static bool settle_ours(mbr_bench *bench, population *of)
{
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = LIMIT_BYTES, .populate = true};
    if (!mbr_bench_world_open(bench, &options, &of->world)) {
        of->world.manager = NULL; /* nothing is left open */
        return false;
    }
    of->request = (mbr_alloc_request){MBR_SIZED(mbr_alloc_request), .binding = of->world.binding,
        .holder = of->world.holder, .bytes = BLOCK_BYTES};
    of->back = (mbr_free_request){MBR_SIZED(mbr_free_request), .flags = MBR_FREE_NOW};
    return settle(bench, of);
}

static bool leave_ours(mbr_bench *bench, population *of)
{
    leave(of);
    return of->world.manager == NULL || mbr_bench_world_close(bench, &of->world);
}

/* ---- Rows */
enum { OURS_SMALL, OURS_LARGE, THEIRS_SMALL, THEIRS_LARGE, POPULATION_COUNT };

static double growth(const mbr_contestant *of_small)
{
    return of_small[1].median_ns / of_small[0].median_ns;
}

static void take_rows(mbr_bench_row *rows, const mbr_contestant *sides)
{
    const mbr_contestant *lifo = sides, *random = &sides[2], *rival = &sides[4];
    mbr_bench_take_ratio(&rows[0], &lifo[1], &lifo[0], 1);
    rows[0].value = growth(lifo);
    mbr_bench_take_ratio(&rows[1], &random[1], &rival[1], 1);
    rows[1].value = growth(random) / growth(rival);
    rows[1].against = rival->name;
    snprintf(rows[1].note, sizeof rows[1].note,
        "ours grows %.2f-fold from %.1f ns, %s %.2f-fold from %.1f ns", growth(random),
        random->median_ns, rival->name, growth(rival), rival->median_ns);
}

static bool measure(mbr_bench *bench, population *of, mbr_bench_row *rows)
{
    mbr_contestant sides[] = {
        {.context = &of[OURS_SMALL], .work = newest, .step_count = NEWEST_COUNT},
        {.context = &of[OURS_LARGE], .work = newest, .step_count = NEWEST_COUNT},
        {.context = &of[OURS_SMALL], .work = at_random},
        {.context = &of[OURS_LARGE], .work = at_random},
        {.context = &of[THEIRS_SMALL], .work = at_random},
        {.context = &of[THEIRS_LARGE], .work = at_random},
    };
    sides[4].name = of[THEIRS_SMALL].rival->name;
    if (!mbr_bench_rounds(bench, sides, 6, bench->options->rounds))
        return false;
    take_rows(rows, sides);
    return true;
}

/* jemalloc, or whoever else is there. */
static const mbr_rival *choose(const mbr_rival *rivals)
{
    for (uint32_t i = MBR_RIVAL_COUNT; i-- > 0;)
        if (rivals[i].take != NULL)
            return &rivals[i];
    return &rivals[0];
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_rival rivals[MBR_RIVAL_COUNT];
    mbr_rivals_open(rivals);
    uint64_t large = bench->options->quick ? QUICK_LARGE_COUNT : LARGE_COUNT;
    const mbr_rival *rival = choose(rivals);
    population of[POPULATION_COUNT] = {
        [OURS_SMALL] = {.target_count = SMALL_COUNT},
        [OURS_LARGE] = {.target_count = large},
        [THEIRS_SMALL] = {.rival = rival, .target_count = SMALL_COUNT},
        [THEIRS_LARGE] = {.rival = rival, .target_count = large},
    };
    uint32_t settled = 0;
    bool done = true;
    for (; settled < POPULATION_COUNT && done; settled++)
        done =
            settled < THEIRS_SMALL ? settle_ours(bench, &of[settled]) : settle(bench, &of[settled]);
    done = done && measure(bench, of, rows);
    for (uint32_t i = 0; i < settled; i++) {
        if (i < THEIRS_SMALL)
            done &= leave_ours(bench, &of[i]);
        else
            leave(&of[i]);
    }
    return done;
}

static const mbr_bench_plan plans[] = {
    {"H8a", "free + allocate of the newest of 10^6 live blocks of 256 B", "x", "ns",
        "the same among 10^3 live blocks", false, 1.2, 1.5},
    {"H8b", "the same at random, growth from 10^3 to 10^6 over the other's growth", "x", "ns",
        "jemalloc at random among 10^6", false, 1.0, 1.5},
};

const mbr_bench_group mbr_bench_size = {plans, 2, run};
