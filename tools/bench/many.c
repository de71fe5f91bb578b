/* H8c to H8e: what a range, a sharer of a prefix and a growing sequence of large reservation cost
 * where many others live. Two populations are
 * out at once, a small and a large one, each in a world of its own; an operation begins one more,
 * commits or maps what it needs, and ends it again. Memory has no pages, so that the books, the
 * address work and the system's own tables are what is measured. */
#include "tools/bench/ranges.h"
#include "tools/bench/rounds.h"

#include <stdio.h>
#include <stdlib.h>

#define SMALL_RANGE_COUNT 10
#define SMALL_SHARER_COUNT 1
#define LARGE_COUNT 10000
#define QUICK_LARGE_COUNT 200
#define UNIT_BYTES (UINT64_C(1) << 16)
#define RANGE_BYTES (16 * UNIT_BYTES)
#define LIMIT_BYTES (UINT64_C(4) << 30)
/* Windows of 16 tokens of 4 KiB each: an extent apiece. */
#define MODEL "layers=1,heads=8,dim=128,bytes=2,planes=2"
#define PREFIX_TOKENS 64
#define MAX_TOKENS 1024
/* 4 GiB of addresses; of them two extents committed, and two more while one is measured. The system
 * has 2^47 bytes of addresses and by default 65530 mappings for a process: 10^4 sequences take a
 * third of the one and, with three mappings each, half of the other. */
#define LONG_TOKENS (UINT64_C(1) << 20)
#define BEGIN_TOKENS 32
#define END_TOKENS 64
#define STEP_TOKENS 16

typedef struct population {
    mbr_bench_world world;
    uint64_t target_count, count;
    mbr_range_handle *ranges; /* H8c */
    mbr_kv *kv;               /* H8d, H8e */
    mbr_sequence *source, **sequences;
    mbr_kv_prefix *prefix;
} population;

/* ---- Ranges */
static bool begin_range(population *of, mbr_range_handle *range)
{
    return mbr_bench_reserve(&of->world, RANGE_BYTES, UNIT_BYTES, range) &&
        mbr_bench_grow(&of->world, *range, 0, UNIT_BYTES);
}

static bool one_range_more(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    population *of = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++) {
        mbr_range_handle range = {0};
        done = begin_range(of, &range);
        done = mbr_bench_release(&of->world, &range) && done;
    }
    return done;
}

static bool settle_ranges(population *of)
{
    bool done = true;
    of->ranges = calloc(of->target_count, sizeof *of->ranges);
    for (; of->ranges != NULL && of->count < of->target_count && done; of->count++)
        done = begin_range(of, &of->ranges[of->count]);
    return of->ranges != NULL && done;
}

/* ---- Sharers */
static bool begin_sharer(population *of, mbr_sequence **sharer)
{
    mbr_sequence_request request = {MBR_SIZED(mbr_sequence_request), .tokens = PREFIX_TOKENS,
        .prefix = of->prefix, .prefix_tokens = PREFIX_TOKENS};
    return mbr_sequence_create(of->kv, &request, sharer, &of->world.error) == MBR_OK;
}

static bool end_sequence(population *of, mbr_sequence *sharer)
{
    return mbr_sequence_destroy(sharer, NULL, 0, &of->world.error) == MBR_OK;
}

static bool one_sharer_more(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    population *of = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++) {
        mbr_sequence *sharer;
        done = begin_sharer(of, &sharer) && end_sequence(of, sharer);
    }
    return done;
}

static bool make_cache(population *of, uint64_t max_tokens)
{
    mbr_kv_request kv = {MBR_SIZED(mbr_kv_request), .binding = of->world.binding,
        .holder = of->world.holder, .geometry = MODEL, .max_tokens = max_tokens};
    return mbr_kv_create(of->world.manager, &kv, &of->kv, &of->world.error) == MBR_OK;
}

static bool make_prefix(population *of)
{
    mbr_error *error = &of->world.error;
    mbr_sequence_request source = {MBR_SIZED(mbr_sequence_request), .tokens = PREFIX_TOKENS};
    return make_cache(of, MAX_TOKENS) &&
        mbr_sequence_create(of->kv, &source, &of->source, error) == MBR_OK &&
        mbr_kv_prefix_create(of->source, PREFIX_TOKENS, &of->prefix, error) == MBR_OK;
}

static bool settle_each(population *of, bool (*begin)(population *of, mbr_sequence **sequence))
{
    bool done = true;
    of->sequences = calloc(of->target_count, sizeof(mbr_sequence *));
    while (of->sequences != NULL && of->count < of->target_count && done) {
        done = begin(of, &of->sequences[of->count]);
        of->count += done;
    }
    return of->sequences != NULL && done;
}

static bool settle_sharers(population *of)
{
    return make_prefix(of) && settle_each(of, begin_sharer);
}

/* ---- Sequences that grow */
static bool begin_long(population *of, mbr_sequence **sequence)
{
    mbr_sequence_request request = {MBR_SIZED(mbr_sequence_request), .tokens = BEGIN_TOKENS};
    return mbr_sequence_create(of->kv, &request, sequence, &of->world.error) == MBR_OK;
}

static bool one_long_more(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    population *of = context;
    bool done = true;
    for (uint64_t i = 0; i < count && done; i++) {
        mbr_sequence *sequence;
        done = begin_long(of, &sequence);
        for (uint64_t t = BEGIN_TOKENS; t < END_TOKENS && done; t += STEP_TOKENS)
            done = mbr_sequence_append(sequence, STEP_TOKENS, NULL, &of->world.error) == MBR_OK;
        done = done && end_sequence(of, sequence);
    }
    return done;
}

static bool settle_long(population *of)
{
    return make_cache(of, LONG_TOKENS) && settle_each(of, begin_long);
}

/* ---- Populations */
static bool settle_in(mbr_bench *bench, population *of, bool (*settle)(population *of))
{
    mbr_bench_world_options options = {.limit_bytes = LIMIT_BYTES, .keep_bytes = LIMIT_BYTES};
    if (!mbr_bench_world_open(bench, &options, &of->world)) {
        of->world.manager = NULL; /* nothing is left open */
        return false;
    }
    return settle(of) || mbr_bench_fail_world(bench, "the population", &of->world) ||
        mbr_bench_fail(bench, "no memory for the population");
}

static bool leave(mbr_bench *bench, population *of)
{
    for (uint64_t i = 0; of->ranges != NULL && i < of->count; i++)
        mbr_bench_release(&of->world, &of->ranges[i]);
    for (uint64_t i = 0; of->sequences != NULL && i < of->count; i++)
        end_sequence(of, of->sequences[i]);
    if (of->prefix != NULL)
        mbr_kv_prefix_destroy(of->prefix, NULL);
    if (of->source != NULL)
        end_sequence(of, of->source);
    if (of->kv != NULL)
        mbr_kv_destroy(of->kv, NULL);
    free(of->ranges);
    free(of->sequences);
    return of->world.manager == NULL || mbr_bench_world_close(bench, &of->world);
}

/* ---- Rows */
static bool measure(mbr_bench *bench, population of[2],
    bool (*work)(void *context, uint32_t thread, uint64_t count), mbr_bench_row *row)
{
    mbr_contestant sides[] = {
        {.context = &of[1], .work = work},
        {.context = &of[0], .work = work},
    };
    if (!mbr_bench_rounds(bench, sides, 2, bench->options->rounds))
        return mbr_bench_fail_world(bench, "one more", &of[1].world);
    mbr_bench_take_ratio(row, &sides[0], &sides[1], 1);
    row->value = sides[0].median_ns / sides[1].median_ns;
    uint64_t before = mbr_bench_world_calls(&of[1].world);
    bool done = work(&of[1], 0, 1);
    row->ours.calls = mbr_bench_world_calls(&of[1].world) - before;
    return done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    static const struct {
        uint64_t small_count;
        bool (*settle)(population *of);
        bool (*work)(void *context, uint32_t thread, uint64_t count);
    } kinds[] = {
        {SMALL_RANGE_COUNT, settle_ranges, one_range_more},
        {SMALL_SHARER_COUNT, settle_sharers, one_sharer_more},
        {SMALL_RANGE_COUNT, settle_long, one_long_more},
    };
    bool done = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && done; i++) {
        population of[2] = {{.target_count = kinds[i].small_count},
            {.target_count = bench->options->quick ? QUICK_LARGE_COUNT : LARGE_COUNT}};
        done = settle_in(bench, &of[0], kinds[i].settle) &&
            settle_in(bench, &of[1], kinds[i].settle) &&
            measure(bench, of, kinds[i].work, &rows[i]);
        done = leave(bench, &of[1]) && done;
        done = leave(bench, &of[0]) && done;
    }
    return done;
}

static const mbr_bench_plan plans[] = {
    {"H8c", "reserve, commit and release one more range among 10^4", "x", "ns",
        "the same among 10 ranges", false, 1.5, 2},
    {"H8d", "begin and end one more sharer of a prefix among 10^4", "x", "ns",
        "the same beside 1 sharer", false, 1.5, 2},
    {"H8e", "begin, grow twice and end one more sequence of 4 GiB of addresses among 10^4", "x",
        "ns", "the same among 10 sequences", false, 1.5, 2},
};

const mbr_bench_group mbr_bench_many = {plans, 3, run};
