/* H10: a synthetic trace of 12 000 requests served by a KV cache, 32 at a time, one token of each a
 * step; nothing is shared. A call counts when it changes the ledger: a sequence begins, grows past
 * its extents, or ends. Growth inside an extent takes time and does not count.
 *
 * The baseline keeps the same sequences in blocks of the C library: one for each extent, asked for
 * and freed at the same calls, never touched. */
#include "tools/bench/rounds.h"
#include "tools/bench/trace.h"
#include "tools/bench/world.h"

#include <stdio.h>
#include <stdlib.h>

#define MODEL "qwen2.5-0.5b"
#define REQUEST_COUNT 12000
#define POPULATED_REQUEST_COUNT 1000 /* pages take time */
#define QUICK_REQUEST_COUNT 300
#define LIVE_COUNT 32
#define SEED 20240607
#define MAX_TOKENS 2560
#define EXTENT_BYTES (UINT64_C(3) << 19) /* 128 tokens */
#define EXTENT_LIMIT_COUNT 64            /* of one sequence */
#define LIMIT_BYTES (UINT64_C(4) << 30)

typedef struct live {
    mbr_sequence *sequence;
    void *blocks[EXTENT_LIMIT_COUNT]; /* the baseline's */
    uint64_t block_count;
    uint64_t tokens, end_tokens, capacity_tokens;
} live;

typedef struct replay_state {
    mbr_bench_world *world;
    mbr_kv *kv;
    const mbr_bench_request *requests;
    uint64_t request_count;
    uint64_t extent_tokens; /* the baseline's: tokens of one block */
    uint64_t ledger_count;  /* calls of the last run */
    uint64_t inside_count;
    bool (*begin)(struct replay_state *state, live *one, uint64_t tokens);
    bool (*grow)(struct replay_state *state, live *one);
    bool (*end)(struct replay_state *state, live *one);
    live lives[LIVE_COUNT];
} replay_state;

/* ---- Ours */
static bool read_capacity(replay_state *state, live *one)
{
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    mbr_status status = mbr_sequence_read(one->sequence, &figures, &state->world->error);
    one->capacity_tokens = figures.capacity_tokens;
    return status == MBR_OK;
}

static bool begin_sequence(replay_state *state, live *one, uint64_t tokens)
{
    mbr_sequence_request request = {MBR_SIZED(mbr_sequence_request), .tokens = tokens};
    return mbr_sequence_create(state->kv, &request, &one->sequence, &state->world->error) ==
        MBR_OK &&
        read_capacity(state, one);
}

static bool append(replay_state *state, live *one)
{
    return mbr_sequence_append(one->sequence, 1, NULL, &state->world->error) == MBR_OK &&
        (one->tokens < one->capacity_tokens || read_capacity(state, one));
}

static bool end_sequence(replay_state *state, live *one)
{
    mbr_sequence *sequence = one->sequence;
    one->sequence = NULL;
    return mbr_sequence_destroy(sequence, NULL, 0, &state->world->error) == MBR_OK;
}

/* ---- The baseline */
static bool add_blocks(replay_state *state, live *one, uint64_t tokens)
{
    while (one->capacity_tokens < tokens) {
        void *block = one->block_count < EXTENT_LIMIT_COUNT ? malloc(EXTENT_BYTES) : NULL;
        if (block == NULL)
            return false;
        one->blocks[one->block_count++] = block;
        one->capacity_tokens += state->extent_tokens;
    }
    return true;
}

static bool begin_blocks(replay_state *state, live *one, uint64_t tokens)
{
    one->capacity_tokens = one->block_count = 0;
    return add_blocks(state, one, tokens);
}

static bool append_blocks(replay_state *state, live *one)
{
    return add_blocks(state, one, one->tokens + 1);
}

static bool end_blocks(replay_state *state, live *one)
{
    (void)state;
    while (one->block_count != 0)
        free(one->blocks[--one->block_count]);
    return true;
}

/* ---- Serving */
static bool admit(replay_state *state, live *one, const mbr_bench_request *request)
{
    one->tokens = request->prompt_tokens;
    one->end_tokens = request->prompt_tokens + request->output_tokens;
    state->ledger_count++;
    return state->begin(state, one, one->tokens);
}

/* One token more, or the end. */
static bool step(replay_state *state, live *one)
{
    if (one->tokens == one->end_tokens) {
        one->end_tokens = 0;
        state->ledger_count++;
        return state->end(state, one);
    }
    bool inside = one->tokens < one->capacity_tokens;
    *(inside ? &state->inside_count : &state->ledger_count) += 1;
    if (!state->grow(state, one))
        return false;
    one->tokens++;
    return true;
}

static bool serve(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    replay_state *state = context;
    uint64_t next = 0, live_count = 0;
    state->ledger_count = state->inside_count = 0;
    while (next < state->request_count || live_count != 0) {
        for (uint32_t i = 0; i < LIVE_COUNT; i++) {
            live *one = &state->lives[i];
            if (one->end_tokens == 0) {
                if (next == state->request_count)
                    continue;
                if (!admit(state, one, &state->requests[next++]))
                    return false;
                live_count++;
                continue;
            }
            if (!step(state, one))
                return false;
            live_count -= one->end_tokens == 0;
        }
    }
    return true;
}

/* ---- Rows */
static bool open_kv(mbr_bench *bench, replay_state *state)
{
    mbr_kv_request request = {MBR_SIZED(mbr_kv_request), .binding = state->world->binding,
        .holder = state->world->holder, .geometry = MODEL, .max_tokens = MAX_TOKENS,
        .extent_bytes = EXTENT_BYTES};
    mbr_kv_figures figures = {MBR_SIZED(mbr_kv_figures)};
    mbr_status status =
        mbr_kv_create(state->world->manager, &request, &state->kv, &state->world->error);
    if (status == MBR_OK)
        status = mbr_kv_read(state->kv, &figures, &state->world->error);
    if (status != MBR_OK)
        return mbr_bench_fail_status(bench, "the cache", status, &state->world->error);
    state->extent_tokens = EXTENT_BYTES / figures.token_bytes;
    return true;
}

static void end_all(replay_state *state)
{
    for (uint32_t i = 0; i < LIVE_COUNT; i++)
        if (state->lives[i].end_tokens != 0)
            state->end(state, &state->lives[i]);
}

static bool measure(mbr_bench *bench, replay_state *ours, replay_state *theirs, mbr_bench_row *row)
{
    mbr_contestant sides[] = {
        {.context = ours, .work = serve, .fixed_count = 1},
        {.context = theirs, .work = serve, .fixed_count = 1},
    };
    if (!mbr_bench_rounds(bench, sides, 2, bench->options->rounds)) {
        end_all(ours);
        end_all(theirs);
        return false;
    }
    uint64_t calls = mbr_bench_world_calls(ours->world);
    if (!serve(ours, 0, 1)) {
        end_all(ours);
        return false;
    }
    row->ours.calls = mbr_bench_world_calls(ours->world) - calls;
    row->ours.owned_bytes = mbr_bench_world_owned(ours->world);
    mbr_bench_take_ratio(row, &sides[0], &sides[1], 1e6);
    row->value = (double)ours->ledger_count / (sides[0].median_ns / 1e9);
    snprintf(row->note, sizeof row->note,
        "%llu requests: %llu calls change the ledger, %llu grow inside an extent",
        (unsigned long long)ours->request_count, (unsigned long long)ours->ledger_count,
        (unsigned long long)ours->inside_count);
    return true;
}

static bool run_one(mbr_bench *bench, const mbr_bench_request *requests, uint64_t count,
    bool populate, mbr_bench_row *row)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX, .populate = populate};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    replay_state ours = {.world = &world,
        .requests = requests,
        .request_count = count,
        .begin = begin_sequence,
        .grow = append,
        .end = end_sequence};
    bool done = open_kv(bench, &ours);
    replay_state theirs = {.world = &world,
        .requests = requests,
        .request_count = count,
        .extent_tokens = ours.extent_tokens,
        .begin = begin_blocks,
        .grow = append_blocks,
        .end = end_blocks};
    done = done && measure(bench, &ours, &theirs, row);
    if (!done)
        mbr_bench_fail_world(bench, "serving the trace", &world);
    if (ours.kv != NULL)
        mbr_kv_destroy(ours.kv, NULL);
    return mbr_bench_world_close(bench, &world) && done;
}

static bool run_count(mbr_bench *bench, uint64_t count, bool populate, mbr_bench_row *row)
{
    if (bench->options->quick)
        count = QUICK_REQUEST_COUNT;
    mbr_bench_request *requests = malloc(count * sizeof *requests);
    if (requests == NULL)
        return mbr_bench_fail(bench, "no memory for the trace");
    mbr_bench_trace_make(requests, count, SEED);
    bool done = run_one(bench, requests, count, populate, row);
    free(requests);
    return done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    return run_count(bench, REQUEST_COUNT, false, &rows[0]);
}

static bool run_populated(mbr_bench *bench, mbr_bench_row *rows)
{
    return run_count(bench, POPULATED_REQUEST_COUNT, true, &rows[0]);
}

static const mbr_bench_plan plans[] = {
    {"H10a", "replay of 12000 requests, parked extents, no pages", "calls/s", "ms",
        "malloc and free of the same extents", true, 300000, 100000},
};
static const mbr_bench_plan populated_plans[] = {
    {"H10b", "the first 1000 of them, populated", "calls/s", "ms",
        "malloc and free of the same extents, untouched", true, 300000, MBR_BENCH_NO_FLOOR},
};

const mbr_bench_group mbr_bench_replay = {plans, 1, run};
const mbr_bench_group mbr_bench_replay_populated = {populated_plans, 1, run_populated};
