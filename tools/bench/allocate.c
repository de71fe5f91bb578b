/* H4: plain allocations through the client's calls, beside allocators that keep no books. Every
 * side touches the first byte of each block. Ours is backed by pages from the start and stays under
 * a watermark of 2 GiB; the others decide for themselves what they keep. */
#include "tools/bench/rival.h"
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#include <stdio.h>
#include <string.h>

#define BATCH_COUNT 1000
#define BATCH_HALF 500 /* of each of two threads: as many blocks as one thread has */
/* At least: the first of them finds the caches as the other sides left them. */
#define BATCHES_A_ROUND 24
#define SIZE_COUNT 4
#define SIDE_COUNT (1 + MBR_RIVAL_COUNT)
#define KEEP_BYTES (UINT64_C(2) << 30)
#define LIMIT_BYTES (UINT64_C(4) << 30)

static const uint64_t sizes[SIZE_COUNT] = {512, 4096, 65536, 2097152};
static const uint64_t quick_sizes[SIZE_COUNT] = {512, 4096, 65536, 131072}; /* 128 MiB at most */

typedef struct allocate_state {
    mbr_bench_world *world;
    const mbr_rival *rival; /* NULL: ours */
    uint64_t bytes;
    uint64_t batch; /* blocks that are out at once */
} allocate_state;

/* ---- Ours */
static inline bool take(
    const mbr_bench_world *world, const mbr_alloc_request *request, mbr_alloc_result *result)
{
    if (mbr_alloc(world->manager, request, result, NULL) != MBR_OK)
        return false;
    *(volatile char *)(uintptr_t)result->address = 1;
    return true;
}

static inline bool give(
    const mbr_bench_world *world, mbr_free_request *request, mbr_allocation_handle allocation)
{
    request->allocation = allocation;
    return mbr_free(world->manager, request, NULL) == MBR_OK;
}

static bool pairs(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const allocate_state *state = context;
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = state->world->binding,
        .holder = state->world->holder, .bytes = state->bytes};
    mbr_free_request back = {MBR_SIZED(mbr_free_request), .flags = MBR_FREE_NOW};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    for (uint64_t i = 0; i < count; i++)
        if (!take(state->world, &request, &result) || !give(state->world, &back, result.allocation))
            return false;
    return true;
}

static bool batches(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const allocate_state *state = context;
    mbr_allocation_handle out[BATCH_COUNT];
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = state->world->binding,
        .holder = state->world->holder, .bytes = state->bytes};
    mbr_free_request back = {MBR_SIZED(mbr_free_request), .flags = MBR_FREE_NOW};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    for (uint64_t done = 0; done < count; done += state->batch) {
        for (uint64_t i = 0; i < state->batch; i++) {
            if (!take(state->world, &request, &result))
                return false;
            out[i] = result.allocation;
        }
        for (uint64_t i = 0; i < state->batch; i++)
            if (!give(state->world, &back, out[i]))
                return false;
    }
    return true;
}

/* ---- Theirs */
static inline void *rival_take(const mbr_rival *rival, uint64_t bytes)
{
    volatile char *block = rival->take(bytes);
    if (block != NULL)
        *block = 1;
    return (void *)(uintptr_t)block;
}

static bool rival_pairs(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const allocate_state *state = context;
    for (uint64_t i = 0; i < count; i++) {
        void *block = rival_take(state->rival, state->bytes);
        if (block == NULL)
            return false;
        state->rival->give(block);
    }
    return true;
}

static bool rival_batches(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const allocate_state *state = context;
    void *out[BATCH_COUNT];
    for (uint64_t done = 0; done < count; done += state->batch) {
        for (uint64_t i = 0; i < state->batch; i++)
            if ((out[i] = rival_take(state->rival, state->bytes)) == NULL)
                return false;
        for (uint64_t i = 0; i < state->batch; i++)
            state->rival->give(out[i]);
    }
    return true;
}

/* ---- Rows */
typedef struct field {
    mbr_contestant one[SIDE_COUNT], two[SIDE_COUNT];
    allocate_state states[SIDE_COUNT], halves[SIDE_COUNT];
    uint32_t count; /* ours first, then the rivals that are there */
} field;

static void add_side(
    field *sides, mbr_bench_world *world, const mbr_rival *rival, uint64_t bytes, bool in_batches)
{
    uint32_t i = sides->count++;
    sides->states[i] = (allocate_state){world, rival, bytes, BATCH_COUNT};
    sides->halves[i] = (allocate_state){world, rival, bytes, BATCH_HALF};
    mbr_contestant one = {.name = rival != NULL ? rival->name : "membrane",
        .context = &sides->states[i],
        .step_count = in_batches ? BATCHES_A_ROUND * BATCH_COUNT : 1};
    if (rival == NULL)
        one.work = in_batches ? batches : pairs;
    else
        one.work = in_batches ? rival_batches : rival_pairs;
    sides->one[i] = sides->two[i] = one;
    sides->two[i].context = &sides->halves[i];
    sides->two[i].thread_count = 2;
}

/* The fastest of the others is the row's baseline; the rest is kept beside it. */
static uint32_t fastest(const mbr_contestant *sides, uint32_t count)
{
    uint32_t best = 1;
    for (uint32_t i = 2; i < count; i++)
        if (sides[i].median_ns < sides[best].median_ns)
            best = i;
    return best;
}

static void note_others(
    mbr_bench_row *row, const mbr_contestant *sides, uint32_t count, const mbr_rival *rivals)
{
    for (uint32_t i = 1; i < count; i++)
        row->others[row->other_count++] =
            (mbr_bench_other){sides[i].name, sides[i].median_ns, sides[i].p99_ns};
    size_t length = strlen(row->note);
    for (uint32_t i = 0; i < MBR_RIVAL_COUNT; i++) {
        if (rivals[i].take != NULL || length >= sizeof row->note)
            continue;
        snprintf(row->note + length, sizeof row->note - length, "%s%s", length != 0 ? "; " : "",
            rivals[i].reason);
        length = strlen(row->note);
    }
}

static void take_rows(
    const field *sides, const mbr_rival *rivals, mbr_bench_row *one, mbr_bench_row *two)
{
    uint32_t best = fastest(sides->one, sides->count);
    mbr_bench_take_time(one, &sides->one[0], &sides->one[best]);
    one->against = sides->one[best].name;
    note_others(one, sides->one, sides->count, rivals);
    best = fastest(sides->two, sides->count);
    mbr_bench_take_scaling(
        two, &sides->one[0], &sides->two[0], &sides->one[best], &sides->two[best]);
    two->against = sides->two[best].name;
    if (sides->two[0].disturbed_count != 0)
        snprintf(two->note, sizeof two->note,
            "in %llu rounds other programs took a core away from one of the threads",
            (unsigned long long)sides->two[0].disturbed_count);
    note_others(two, sides->two, sides->count, rivals);
}

/* One thread and two in the same rounds: where a core is slower for a while, both are. */
static bool run_together(mbr_bench *bench, field *sides, uint64_t rounds)
{
    mbr_contestant all[2 * SIDE_COUNT];
    size_t bytes = sides->count * sizeof all[0];
    memcpy(all, sides->one, bytes);
    memcpy(&all[sides->count], sides->two, bytes);
    bool done = mbr_bench_rounds(bench, all, 2 * sides->count, rounds);
    memcpy(sides->one, all, bytes);
    memcpy(sides->two, &all[sides->count], bytes);
    return done;
}

static bool measure(mbr_bench *bench, mbr_bench_world *world, const mbr_rival *rivals,
    uint64_t bytes, bool in_batches, mbr_bench_row *one, mbr_bench_row *two)
{
    field sides = {.count = 0};
    add_side(&sides, world, NULL, bytes, in_batches);
    for (uint32_t i = 0; i < MBR_RIVAL_COUNT; i++)
        if (rivals[i].take != NULL)
            add_side(&sides, world, &rivals[i], bytes, in_batches);
    if (!run_together(bench, &sides, 1)) /* what slabs are needed is there afterwards */
        return false;
    uint64_t calls = mbr_bench_world_calls(world);
    if (!run_together(bench, &sides, bench->options->rounds))
        return false;
    take_rows(&sides, rivals, one, two);
    one->ours.calls = two->ours.calls =
        (mbr_bench_world_calls(world) - calls) / bench->options->rounds;
    one->ours.owned_bytes = two->ours.owned_bytes = mbr_bench_world_owned(world);
    return true;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_rival rivals[MBR_RIVAL_COUNT];
    mbr_rivals_open(rivals);
    mbr_bench_world world;
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = KEEP_BYTES, .populate = true};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    const uint64_t *bytes = bench->options->quick ? quick_sizes : sizes;
    bool done = true;
    for (uint32_t kind = 0; kind < 2 && done; kind++)
        for (uint32_t i = 0; i < SIZE_COUNT && done; i++)
            done = measure(bench, &world, rivals, bytes[i], kind == 1, &rows[kind * SIZE_COUNT + i],
                &rows[(2 + kind) * SIZE_COUNT + i]);
    return mbr_bench_world_close(bench, &world);
}

#define AGAINST "the fastest of glibc, mimalloc, jemalloc"
#define HOT(letter, size)                                                                          \
    {                                                                                              \
        "H4" letter, "allocate + free, " size ", hot", "ns", "ns", AGAINST, false, 50, 85          \
    }
#define BATCH(letter, size)                                                                        \
    {                                                                                              \
        "H4" letter, "allocate + free, " size ", batches of 1000", "ns", "ns", AGAINST, false, 80, \
            200                                                                                    \
    }
#define TWO(letter, what)                                                                          \
    {                                                                                              \
        "H4" letter, "2 threads over 1, " what, "x", "ns", AGAINST, true, 1.8, 1.4                 \
    }

static const mbr_bench_plan plans[] = {
    HOT("a", "512 B"),
    HOT("b", "4 KiB"),
    HOT("c", "64 KiB"),
    HOT("d", "2 MiB"),
    BATCH("e", "512 B"),
    BATCH("f", "4 KiB"),
    BATCH("g", "64 KiB"),
    BATCH("h", "2 MiB"),
    TWO("i", "512 B, hot"),
    TWO("j", "4 KiB, hot"),
    TWO("k", "64 KiB, hot"),
    TWO("l", "2 MiB, hot"),
    TWO("m", "512 B, batches"),
    TWO("n", "4 KiB, batches"),
    TWO("o", "64 KiB, batches"),
    TWO("p", "2 MiB, batches"),
};

const mbr_bench_group mbr_bench_allocate = {plans, 4 * SIZE_COUNT, run};
