/* H7: growth inside what is committed already, of a range and of a sequence. The baseline is a call
 * of a function that does nothing. */
#include "tools/bench/ranges.h"
#include "tools/bench/rounds.h"
#include "tools/bench/syscalls.h"

#include <stdio.h>

#define MODEL "qwen2.5-0.5b"
#define EXTENT_BYTES (UINT64_C(96) << 20) /* 512 of the model's windows of 16 tokens */
#define LIMIT_BYTES (UINT64_C(4) << 30)
#define MAX_TOKENS 32768
#define WATCHED_COUNT 1000

typedef struct inside_state {
    mbr_bench_world *world;
    mbr_range_handle range;
    mbr_kv *kv;
    mbr_sequence *sequence;
    uint64_t room_tokens; /* of a new sequence, inside its first extent */
} inside_state;

/* ---- A range */
static bool grow_inside(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    inside_state *state = context;
    mbr_piece piece = {state->range, 0, 0};
    mbr_range_grow_request request = {MBR_SIZED(mbr_range_grow_request),
        .holder = state->world->holder, .pieces = &piece, .piece_count = 1};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++) {
        piece.bytes = i % EXTENT_BYTES + 1;
        failed |= mbr_range_grow(state->world->manager, &request, &result, &state->world->error);
    }
    return failed == MBR_OK;
}

static __attribute__((noinline)) mbr_status nothing(
    void *object, const void *request, void *result, mbr_error *error)
{
    __asm__ volatile("" : : "r"(object), "r"(request), "r"(result), "r"(error) : "memory");
    return MBR_OK;
}

static bool call_nothing(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    inside_state *state = context;
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++)
        failed |= nothing(state->world, &i, NULL, &state->world->error);
    return failed == MBR_OK;
}

/* ---- A sequence */
static bool begin_sequence(void *context)
{
    inside_state *state = context;
    mbr_sequence_request request = {MBR_SIZED(mbr_sequence_request), .tokens = 1};
    return mbr_sequence_create(state->kv, &request, &state->sequence, &state->world->error) ==
        MBR_OK;
}

static bool end_sequence(void *context)
{
    inside_state *state = context;
    if (state->sequence == NULL)
        return true;
    mbr_status status = mbr_sequence_destroy(state->sequence, NULL, 0, &state->world->error);
    state->sequence = NULL;
    return status == MBR_OK;
}

static bool append_inside(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    inside_state *state = context;
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++)
        failed |= mbr_sequence_append(state->sequence, 1, NULL, &state->world->error);
    return failed == MBR_OK;
}

static bool open_kv(inside_state *state)
{
    mbr_error *error = &state->world->error;
    mbr_kv_request request = {MBR_SIZED(mbr_kv_request), .binding = state->world->binding,
        .holder = state->world->holder, .geometry = MODEL, .max_tokens = MAX_TOKENS,
        .extent_bytes = EXTENT_BYTES};
    if (mbr_kv_create(state->world->manager, &request, &state->kv, error) != MBR_OK ||
        !begin_sequence(state))
        return false;
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    if (mbr_sequence_read(state->sequence, &figures, error) != MBR_OK)
        return false;
    state->room_tokens = figures.capacity_tokens - figures.tokens;
    return end_sequence(state);
}

/* ---- Rows */
/* No slot and no system call: the one is counted by the host, the other watched for by the kernel.
 */
static bool watch(mbr_bench *bench, inside_state *state, mbr_contestant *side, mbr_bench_row *row)
{
    if (side->before != NULL && !side->before(state))
        return false;
    uint64_t calls = mbr_bench_world_calls(state->world);
    bool done;
    mbr_syscalls seen = mbr_syscalls_watch(side->work, state, WATCHED_COUNT, &done);
    row->ours.calls = mbr_bench_world_calls(state->world) - calls;
    if (!done || (side->after != NULL && !side->after(state)))
        return false;
    if (row->ours.calls != 0 || seen == MBR_SYSCALLS_SOME)
        return mbr_bench_fail(bench, "%s: growth inside an extent made %llu plugin calls%s",
            row->plan->id, (unsigned long long)row->ours.calls,
            seen == MBR_SYSCALLS_SOME ? " and a system call" : "");
    snprintf(row->note, sizeof row->note, "0 plugin calls, %s",
        seen == MBR_SYSCALLS_NONE ? "0 system calls"
                                  : "system calls not watched: this kernel cannot");
    return true;
}

static bool measure(mbr_bench *bench, inside_state *state, mbr_bench_row *rows)
{
    if (!mbr_bench_reserve(state->world, EXTENT_BYTES, EXTENT_BYTES, &state->range) ||
        !mbr_bench_grow(state->world, state->range, 0, EXTENT_BYTES) || !open_kv(state))
        return false;
    mbr_contestant sides[] = {
        {.context = state, .work = grow_inside},
        {.context = state,
            .work = append_inside,
            .before = begin_sequence,
            .after = end_sequence,
            .fixed_count = state->room_tokens},
        {.context = state, .work = call_nothing},
    };
    if (!mbr_bench_rounds(bench, sides, 3, bench->options->rounds))
        return false;
    mbr_bench_take_time(&rows[0], &sides[0], &sides[2]);
    mbr_bench_take_time(&rows[1], &sides[1], &sides[2]);
    return watch(bench, state, &sides[0], &rows[0]) && watch(bench, state, &sides[1], &rows[1]);
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_world world;
    mbr_bench_world_options options = {.limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX};
    if (!mbr_bench_world_open(bench, &options, &world))
        return false;
    inside_state state = {.world = &world};
    bool done = measure(bench, &state, rows);
    if (!done)
        mbr_bench_fail_world(bench, "growing inside an extent", &world);
    end_sequence(&state);
    if (state.kv != NULL)
        mbr_kv_destroy(state.kv, NULL);
    mbr_bench_release(&world, &state.range);
    return mbr_bench_world_close(bench, &world) && done;
}

static const mbr_bench_plan plans[] = {
    {"H7a", "growth of a range inside a committed extent", "ns", "ns", "a call that does nothing",
        false, 10, 20},
    {"H7b", "append of a token inside a committed extent", "ns", "ns", "a call that does nothing",
        false, 10, 20},
};

const mbr_bench_group mbr_bench_inside = {plans, 2, run};
