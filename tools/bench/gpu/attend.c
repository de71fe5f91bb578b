/* P17d and P17e: attention, one query a sequence and head, over a KV cache of 4 GiB in windows,
 * layer by layer, and the replay of a graph of that; against the same kernel on one block of the
 * driver's with the same strides. Before anything is timed, both results of a layer must be equal
 * and agree with the processor's. */
#include "tools/bench/gpu/device.h"

#include "tools/bench/gpu/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GEOMETRY "layers=8,heads=8,dim=128,bytes=4,planes=2"
#define LAYERS 8
#define HEADS 8
#define SEQUENCE_LIMIT 64
#define TOKENS 1024
#define QUICK_SEQUENCES 2
#define QUICK_TOKENS 40
#define LIMIT_DIFFERENCE 1e-4 /* of numbers below 1 */
#define QUERY_SCALE 0.6F      /* log2(e) / sqrt(128), times 5: a few tokens outweigh the others */
#define ROW_FLOATS (HEADS * MBR_ATTEND_DIM)

typedef struct attend_state attend_state;

/* One side: where the same cache lies, and what was captured of the work on it. */
typedef struct attend_side {
    attend_state *state;
    struct mbr_attend_job job;
    mbr_cuda_address job_address;
    mbr_cuda_graph_exec replayed;
} attend_side;

struct attend_state {
    mbr_bench_device *device;
    mbr_kernels kernels;
    mbr_kv *kv;
    uint32_t sequence_count;
    mbr_sequence *sequences[SEQUENCE_LIMIT];
    mbr_kv_strides strides[SEQUENCE_LIMIT];
    uint64_t tokens, sequence_bytes;
    mbr_cuda_address block, words; /* theirs; query, tables, jobs and results of both */
    attend_side ours, theirs;
};

/* ---- The cache */
static bool open_cache(mbr_bench *bench, attend_state *state)
{
    mbr_bench_world *world = &state->device->world;
    mbr_error *error = &world->error;
    state->tokens = bench->options->quick ? QUICK_TOKENS : TOKENS;
    uint32_t count = bench->options->quick ? QUICK_SEQUENCES : SEQUENCE_LIMIT;
    mbr_kv_request request = {MBR_SIZED(mbr_kv_request), .binding = world->binding,
        .holder = world->holder, .geometry = GEOMETRY, .max_tokens = state->tokens};
    if (mbr_kv_create(world->manager, &request, &state->kv, error) != MBR_OK)
        return false;
    for (; state->sequence_count < count; state->sequence_count++) {
        mbr_kv_strides *strides = &state->strides[state->sequence_count];
        mbr_sequence_request one = {MBR_SIZED(mbr_sequence_request),
            .stream = state->device->attached, .tokens = state->tokens};
        *strides = (mbr_kv_strides){MBR_SIZED(mbr_kv_strides)};
        mbr_sequence **sequence = &state->sequences[state->sequence_count];
        if (mbr_sequence_create(state->kv, &one, sequence, error) != MBR_OK ||
            mbr_sequence_strides(*sequence, 0, strides, error) != MBR_OK)
            return false;
    }
    return true;
}

static bool close_cache(attend_state *state)
{
    mbr_error *error = &state->device->world.error;
    bool done = true;
    for (uint32_t i = 0; i < SEQUENCE_LIMIT; i++)
        if (state->sequences[i] != NULL)
            done = mbr_sequence_destroy(state->sequences[i], NULL, 0, error) == MBR_OK && done;
    return (state->kv == NULL || mbr_kv_destroy(state->kv, error) == MBR_OK) && done;
}

static uint64_t pages_of(const attend_state *state)
{
    uint64_t page_tokens = state->strides[0].window_tokens;
    return (state->tokens + page_tokens - 1) / page_tokens;
}

/* Where a sequence begins on this side. */
static uint64_t base_of(const attend_side *side, uint32_t sequence)
{
    const attend_state *state = side->state;
    return side == &state->ours ? state->strides[sequence].address
                                : state->block + sequence * state->sequence_bytes;
}

/* ---- What the kernel reads beside the cache: one allocation, as an arena would lie */
static uint64_t result_bytes(const attend_state *state)
{
    return state->sequence_count * ROW_FLOATS * sizeof(float);
}

static uint64_t table_bytes(const attend_state *state)
{
    return state->sequence_count * pages_of(state) * sizeof(uint64_t);
}

static void lay_out(attend_state *state, attend_side *side, uint64_t at)
{
    const mbr_kv_strides *strides = &state->strides[0];
    side->state = state;
    side->job_address = at;
    side->job = (struct mbr_attend_job){.query = state->words,
        .out = at + 256,
        .table = at + 256 + result_bytes(state),
        .tokens = state->tokens,
        .page_tokens = strides->window_tokens,
        .token_bytes = strides->token_bytes,
        .head_bytes = strides->head_bytes,
        .plane_bytes = strides->plane_bytes,
        .heads = HEADS,
        .pages = pages_of(state),
        .sequences = state->sequence_count};
}

static bool put(attend_state *state, mbr_cuda_address to, const void *from, uint64_t bytes)
{
    mbr_hand *hand = &state->device->hand;
    return mbr_hand_did(hand, hand->call.copy_to_device(to, from, bytes), "cuMemcpyHtoD");
}

static bool write_table(attend_side *side)
{
    attend_state *state = side->state;
    uint64_t pages = pages_of(state), *table = malloc(table_bytes(state));
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < state->sequence_count; i++)
        for (uint64_t page = 0; page < pages; page++)
            table[i * pages + page] = base_of(side, i) + page * state->strides[0].window_bytes;
    bool done = put(state, side->job.table, table, table_bytes(state)) &&
        put(state, side->job_address, &side->job, sizeof side->job);
    free(table);
    return done;
}

static bool write_query(attend_state *state, float *query)
{
    for (uint64_t i = 0; i < result_bytes(state) / sizeof(float); i++)
        query[i] = QUERY_SCALE * ((float)(i * 37 % 101) / 50 - 1);
    return put(state, state->words, query, result_bytes(state));
}

static bool fill_cache(attend_side *side)
{
    attend_state *state = side->state;
    for (uint32_t i = 0; i < state->sequence_count; i++)
        if (!mbr_kernels_write_floats(&state->device->hand, &state->kernels, base_of(side, i),
                state->sequence_bytes, i, state->device->stream))
            return false;
    return true;
}

static bool open_sides(attend_state *state, float *query)
{
    mbr_hand *hand = &state->device->hand;
    uint64_t part = (256 + result_bytes(state) + table_bytes(state) + 255) / 256 * 256;
    uint64_t query_bytes = (result_bytes(state) + 255) / 256 * 256;
    state->sequence_bytes = pages_of(state) * state->strides[0].window_bytes;
    if (!mbr_hand_did(hand,
            hand->call.device_allocate(
                &state->block, state->sequence_count * state->sequence_bytes),
            "cuMemAlloc") ||
        !mbr_hand_did(
            hand, hand->call.device_allocate(&state->words, query_bytes + 2 * part), "cuMemAlloc"))
        return false;
    lay_out(state, &state->ours, state->words + query_bytes);
    lay_out(state, &state->theirs, state->words + query_bytes + part);
    return write_query(state, query) && write_table(&state->ours) && write_table(&state->theirs) &&
        fill_cache(&state->ours) && fill_cache(&state->theirs);
}

/* ---- The work */
static bool launch_layer(attend_side *side, uint64_t layer)
{
    attend_state *state = side->state;
    return mbr_kernels_attend(&state->device->hand, &state->kernels, &side->job, side->job_address,
        layer * state->strides[0].layer_bytes, state->device->stream);
}

static bool launch_layers(void *context)
{
    attend_side *side = context;
    for (uint64_t layer = 0; layer < LAYERS; layer++)
        if (!launch_layer(side, layer))
            return false;
    return true;
}

static bool finish_stream(attend_state *state)
{
    mbr_hand *hand = &state->device->hand;
    return mbr_hand_did(
        hand, hand->call.stream_synchronize(state->device->stream), "cuStreamSynchronize");
}

static bool attend(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    attend_side *side = context;
    for (uint64_t i = 0; i < count; i++)
        if (!launch_layers(side))
            return false;
    return finish_stream(side->state);
}

static bool replay(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    attend_side *side = context;
    mbr_hand *hand = &side->state->device->hand;
    for (uint64_t i = 0; i < count; i++)
        if (!mbr_hand_did(hand,
                hand->call.graph_launch(side->replayed, side->state->device->stream),
                "cuGraphLaunch"))
            return false;
    return finish_stream(side->state);
}

static bool capture(attend_side *side)
{
    mbr_bench_device *device = side->state->device;
    return mbr_hand_capture(&device->hand, device->stream, launch_layers, side, &side->replayed);
}

/* ---- Whether it is attention */
/* One head of one sequence by the processor: `rows` are keys, then values, of all tokens. */
static void attend_here(
    const attend_state *state, const float *query, const float *rows, double out[MBR_ATTEND_DIM])
{
    double best = -INFINITY, sum = 0, *scores = calloc(state->tokens, sizeof *scores);
    memset(out, 0, MBR_ATTEND_DIM * sizeof *out);
    for (uint64_t token = 0; scores != NULL && token < state->tokens; token++) {
        for (uint32_t i = 0; i < MBR_ATTEND_DIM; i++)
            scores[token] += (double)query[i] * (double)rows[token * MBR_ATTEND_DIM + i];
        best = fmax(best, scores[token]);
    }
    const float *values = rows + state->tokens * MBR_ATTEND_DIM;
    for (uint64_t token = 0; scores != NULL && token < state->tokens; token++) {
        double weight = exp2(scores[token] - best);
        sum += weight;
        for (uint32_t i = 0; i < MBR_ATTEND_DIM; i++)
            out[i] += weight * (double)values[token * MBR_ATTEND_DIM + i];
    }
    for (uint32_t i = 0; i < MBR_ATTEND_DIM; i++)
        out[i] /= sum; /* no memory: no number, which agrees with nothing */
    free(scores);
}

/* Keys and values of one head, as the client's own call finds them. */
static bool fetch_rows(
    attend_state *state, uint32_t sequence, uint32_t layer, uint32_t head, float *rows)
{
    mbr_hand *hand = &state->device->hand;
    mbr_error *error = &state->device->world.error;
    for (uint32_t plane = 0; plane < 2; plane++)
        for (uint64_t token = 0; token < state->tokens; token++) {
            uint64_t address;
            float *to = &rows[(plane * state->tokens + token) * MBR_ATTEND_DIM];
            if (mbr_sequence_locate(state->sequences[sequence], 0, layer, plane, head, token,
                    &address, error) != MBR_OK ||
                !mbr_hand_did(hand,
                    hand->call.copy_to_host(to, address, MBR_ATTEND_DIM * sizeof(float)),
                    "cuMemcpyDtoH"))
                return false;
        }
    return true;
}

static bool check_head(mbr_bench *bench, attend_state *state, uint32_t layer, uint32_t sequence,
    uint32_t head, const float *query, const float *result)
{
    double expected[MBR_ATTEND_DIM], worst = 0;
    float *rows = malloc(2 * state->tokens * MBR_ATTEND_DIM * sizeof *rows);
    bool done = rows != NULL && fetch_rows(state, sequence, layer, head, rows);
    uint64_t at = (sequence * HEADS + head) * (uint64_t)MBR_ATTEND_DIM;
    if (done)
        attend_here(state, &query[at], rows, expected);
    free(rows);
    for (uint32_t i = 0; done && i < MBR_ATTEND_DIM; i++) {
        double difference = fabs(expected[i] - (double)result[at + i]);
        worst = difference <= worst ? worst : difference;
    }
    if (done && !(worst <= LIMIT_DIFFERENCE))
        return mbr_bench_fail(bench,
            "attention of layer %u, sequence %u, head %u differs from the processor's by %g", layer,
            sequence, head, worst);
    return done;
}

static bool fetch_result(attend_side *side, float *result)
{
    mbr_hand *hand = &side->state->device->hand;
    return mbr_hand_did(hand,
        hand->call.copy_to_host(result, side->job.out, result_bytes(side->state)), "cuMemcpyDtoH");
}

/* results: room for both. */
static bool check(mbr_bench *bench, attend_state *state, const float *query, float *results)
{
    const uint32_t layer = LAYERS - 2, last = state->sequence_count - 1;
    float *theirs = results + result_bytes(state) / sizeof *results;
    if (!launch_layer(&state->ours, layer) || !launch_layer(&state->theirs, layer) ||
        !finish_stream(state) || !fetch_result(&state->ours, results) ||
        !fetch_result(&state->theirs, theirs))
        return false;
    if (memcmp(results, theirs, result_bytes(state)) != 0)
        return mbr_bench_fail(bench, "the same attention on both memories came out differently");
    return check_head(bench, state, layer, 0, 0, query, results) &&
        check_head(bench, state, layer, last, HEADS - 3, query, results);
}

/* ---- Rows */
static bool measure_one(mbr_bench *bench, attend_state *state,
    bool (*work)(void *context, uint32_t thread, uint64_t count), mbr_bench_row *row)
{
    mbr_contestant sides[] = {
        {.context = &state->ours,
            .work = work,
            .fixed_count = bench->options->quick ? 1 : 4,
            .by_wall = true,
            .rival = &sides[1]},
        {.context = &state->theirs,
            .work = work,
            .fixed_count = bench->options->quick ? 1 : 4,
            .by_wall = true},
    };
    if (!mbr_bench_rounds(bench, sides, 2, bench->options->rounds) ||
        !mbr_bench_device_count(state->device, &sides[0], MBR_COUNT_BY_HAND, 0, &row->ours) ||
        !mbr_bench_device_count(state->device, &sides[1], MBR_COUNT_BY_HAND, 0, &row->theirs))
        return false;
    mbr_bench_take_round_ratio(row, &sides[0], &sides[1], 1e3);
    double bytes = (double)state->sequence_count * (double)state->tokens * LAYERS * 2 * ROW_FLOATS *
        sizeof(float);
    snprintf(row->note, sizeof row->note,
        "median of the rounds' ratios; %.2f TB/s; %u sequences of %llu tokens in windows of %llu; "
        "equal on both memories and, within %g, to the processor's",
        bytes / sides[0].median_ns / 1e3, state->sequence_count, (unsigned long long)state->tokens,
        (unsigned long long)state->strides[0].window_tokens, LIMIT_DIFFERENCE);
    return true;
}

static bool measure(mbr_bench *bench, attend_state *state, mbr_bench_row *rows)
{
    float *floats = NULL;
    bool done = open_cache(bench, state) && mbr_kernels_open(&state->device->hand, &state->kernels);
    if (done)
        floats = malloc(3 * result_bytes(state));
    done = done && floats != NULL && open_sides(state, floats) &&
        check(bench, state, floats, floats + result_bytes(state) / sizeof *floats) &&
        capture(&state->ours) && capture(&state->theirs) &&
        mbr_bench_device_rest(MBR_BENCH_REST_MS) && measure_one(bench, state, attend, &rows[0]) &&
        measure_one(bench, state, replay, &rows[1]);
    free(floats);
    return done;
}

static bool close_state(attend_state *state)
{
    mbr_hand *hand = &state->device->hand;
    bool done = mbr_kernels_close(hand, &state->kernels);
    const attend_side *sides[] = {&state->ours, &state->theirs};
    for (uint32_t i = 0; i < 2; i++)
        if (sides[i]->replayed != NULL)
            done = mbr_hand_did(hand, hand->call.graph_exec_destroy(sides[i]->replayed),
                       "cuGraphExecDestroy") &&
                done;
    const mbr_cuda_address blocks[] = {state->block, state->words};
    for (uint32_t i = 0; i < 2; i++)
        if (blocks[i] != 0)
            done = mbr_hand_did(hand, hand->call.device_free(blocks[i]), "cuMemFree") && done;
    return close_cache(state) && done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_device device;
    attend_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return mbr_bench_fail(bench, "no memory for the sequences");
    bool done = mbr_bench_device_open(bench, UINT64_MAX, &device);
    if (done) {
        state->device = &device;
        done = measure(bench, state, rows);
        done = close_state(state) && done;
        done = mbr_bench_device_close(bench, &device, done);
    }
    free(state);
    return done;
}

static const mbr_bench_plan plans[] = {
    {"P17d", "attention over a KV cache of 4 GiB of ours, in windows", "x", "us",
        "the same strides in a block of cuMemAlloc", true, 0.99, 0.97},
    {"P17e", "replay of a graph of that", "x", "us", "the same strides in a block of cuMemAlloc",
        true, 0.99, 0.97},
};

const mbr_bench_group mbr_bench_device_attend = {plans, 2, run};
