/* P7: a KV cache of the device grows by 64 MiB each 10 ms, and the EP's thread maps ahead of it:
 * what a step costs its caller, and whether it reaches the plugin or the system. Right
 * after each step, the same growth by hand. */
#include "tools/bench/gpu/device.h"
#include "tools/bench/syscalls.h"

#include <stdio.h>
#include <stdlib.h>

#define GEOMETRY "layers=8,heads=8,dim=128,bytes=4,planes=2"
#define TOKEN_BYTES (UINT64_C(64) << 10)
#define STEP_BYTES (UINT64_C(64) << 20)
#define AHEAD_STEPS 16
#define TICK_NS 1e7
#define TOKENS_BETWEEN 9
#define WARM_STEPS 30
#define TIMED_STEPS 200
#define WATCHED_STEPS 50
#define QUICK_DIVISOR 10 /* of all three */
#define STEP_LIMIT_COUNT (WARM_STEPS + TIMED_STEPS + WATCHED_STEPS)
#define LIMIT_SHARE 20 /* one of so many steps may reach further than memory */

typedef struct ahead_state {
    mbr_bench_device device;
    mbr_kv *kv;
    mbr_sequence *sequence;
    uint64_t step_bytes, step_count, steps_done;
    double tick_ns;
    mbr_cuda_address address; /* by hand */
    mbr_cuda_handle handles[STEP_LIMIT_COUNT];
    double ours_ns[TIMED_STEPS], theirs_ns[TIMED_STEPS];
    uint64_t slots, syscall_steps; /* of the watched ones */
    bool is_watched;
} ahead_state;

static bool open_cache(ahead_state *state)
{
    mbr_bench_world *world = &state->device.world;
    uint64_t tokens = (state->step_count + AHEAD_STEPS) * state->step_bytes / TOKEN_BYTES;
    mbr_kv_request request = {MBR_SIZED(mbr_kv_request), .binding = world->binding,
        .holder = world->holder, .geometry = GEOMETRY, .max_tokens = tokens,
        .extent_bytes = state->step_bytes};
    mbr_sequence_request one = {
        MBR_SIZED(mbr_sequence_request), .stream = state->device.attached, .tokens = 1};
    return mbr_kv_create(world->manager, &request, &state->kv, &world->error) == MBR_OK &&
        mbr_sequence_create(state->kv, &one, &state->sequence, &world->error) == MBR_OK;
}

static bool close_cache(ahead_state *state)
{
    mbr_error *error = &state->device.world.error;
    bool done =
        state->sequence == NULL || mbr_sequence_destroy(state->sequence, NULL, 0, error) == MBR_OK;
    return (state->kv == NULL || mbr_kv_destroy(state->kv, error) == MBR_OK) && done;
}

/* ---- Steps */
static bool append(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    ahead_state *state = context;
    return mbr_sequence_append(state->sequence, state->step_bytes / TOKEN_BYTES - TOKENS_BETWEEN,
               NULL, &state->device.world.error) == MBR_OK;
}

/* The caller is busy between its steps, as one is who launches kernels, and appends a token each
 * millisecond, which grows nothing. */
static bool wait_and_append_tokens(ahead_state *state)
{
    mbr_error *error = &state->device.world.error;
    double begin = state->tick_ns;
    state->tick_ns += TICK_NS;
    for (uint64_t i = 1; i <= TOKENS_BETWEEN; i++) {
        while (mbr_bench_wall_ns() < begin + (double)i * TICK_NS / (TOKENS_BETWEEN + 1))
            continue;
        if (mbr_sequence_append(state->sequence, 1, NULL, error) != MBR_OK)
            return false;
    }
    while (mbr_bench_wall_ns() < state->tick_ns)
        continue;
    return true;
}

static bool grow_by_hand(ahead_state *state)
{
    uint64_t place = state->steps_done;
    return mbr_hand_commit(&state->device.hand, state->address + place * state->step_bytes,
        state->step_bytes, state->step_bytes, MBR_HAND_AT_ONCE, &state->handles[place]);
}

/* The slots that the EP's thread calls meanwhile are counted, too: none is certain, some are not.
 */
static bool watch_step(ahead_state *state)
{
    bool done;
    uint64_t begin = mbr_bench_world_calls(&state->device.world);
    mbr_syscalls seen = mbr_syscalls_watch(append, state, 1, &done);
    state->slots += mbr_bench_world_calls(&state->device.world) - begin;
    state->syscall_steps += seen == MBR_SYSCALLS_SOME;
    state->is_watched = state->is_watched || seen != MBR_SYSCALLS_UNKNOWN;
    return done;
}

static bool time_step(ahead_state *state, double *ours_ns)
{
    double begin = mbr_bench_wall_ns();
    bool done = append(state, 0, 1);
    *ours_ns = mbr_bench_wall_ns() - begin;
    return done;
}

/* A step of ours, the same by hand, and then the tokens that come in between. */
static bool take_steps(ahead_state *state, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i % TIMED_STEPS; /* what warms up is overwritten */
        if (!wait_and_append_tokens(state) || !time_step(state, &state->ours_ns[at]))
            return false;
        double begin = mbr_bench_wall_ns();
        if (!grow_by_hand(state))
            return false;
        state->theirs_ns[at] = mbr_bench_wall_ns() - begin;
        state->steps_done++;
    }
    return true;
}

static bool watch_steps(ahead_state *state, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!wait_and_append_tokens(state) || !watch_step(state))
            return false;
    }
    return true;
}

/* ---- The row */
static void fill_row(ahead_state *state, uint64_t timed, uint64_t watched, mbr_bench_row *row)
{
    row->ours.median = mbr_bench_rank(state->ours_ns, timed, 0.5) / 1e3;
    row->ours.p99 = mbr_bench_rank(state->ours_ns, timed, 0.99) / 1e3;
    row->theirs.median = mbr_bench_rank(state->theirs_ns, timed, 0.5) / 1e3;
    row->theirs.p99 = mbr_bench_rank(state->theirs_ns, timed, 0.99) / 1e3;
    row->ours.calls = (state->slots + watched - 1) / watched; /* one in all steps is not none */
    row->ours.owned_bytes = mbr_bench_world_owned(&state->device.world);
    row->theirs.owned_bytes = state->steps_done * state->step_bytes;
    row->value = row->ours.p99;
    row->ratio = row->theirs.p99 / row->ours.p99;
    row->rounds = timed;
    row->has_baseline = true;
    snprintf(row->note, sizeof row->note,
        "of %llu watched steps %llu made a system call%s; %llu plugin calls by all threads "
        "meanwhile",
        (unsigned long long)watched, (unsigned long long)state->syscall_steps,
        state->is_watched ? "" : " (this kernel cannot watch)", (unsigned long long)state->slots);
}

static bool measure(mbr_bench *bench, ahead_state *state, mbr_bench_row *row)
{
    uint64_t divisor = bench->options->quick ? QUICK_DIVISOR : 1;
    uint64_t timed = TIMED_STEPS / divisor, watched = WATCHED_STEPS / divisor;
    uint64_t warm = WARM_STEPS / divisor;
    state->step_bytes = mbr_bench_device_bytes(bench, STEP_BYTES);
    state->step_count = STEP_LIMIT_COUNT / divisor;
    if (!mbr_hand_reserve(
            &state->device.hand, state->step_count * state->step_bytes, &state->address) ||
        !open_cache(state))
        return false;
    state->tick_ns = mbr_bench_wall_ns();
    uint64_t calls = mbr_hand_calls();
    if (!take_steps(state, timed + warm))
        return false;
    row->theirs.calls = (mbr_hand_calls() - calls) / (timed + warm);
    if (!watch_steps(state, watched))
        return false;
    fill_row(state, timed, watched, row);
    if (!bench->options->quick && state->syscall_steps * LIMIT_SHARE > watched)
        return mbr_bench_fail(bench,
            "P7: %llu of %llu steps made a system call, and none is the goal; p99 %.2f us",
            (unsigned long long)state->syscall_steps, (unsigned long long)watched, row->value);
    return true;
}

static bool close_hand(ahead_state *state)
{
    mbr_hand *hand = &state->device.hand;
    uint64_t bytes = state->steps_done * state->step_bytes;
    bool done = bytes == 0 ||
        mbr_hand_decommit(
            hand, state->address, bytes, state->step_bytes, MBR_HAND_AT_ONCE, state->handles);
    return (state->address == 0 ||
               mbr_hand_unreserve(hand, state->address, state->step_count * state->step_bytes)) &&
        done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    ahead_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return mbr_bench_fail(bench, "no memory for the samples");
    const mbr_bench_world_options options = {.keep_bytes = UINT64_MAX,
        .limit_bytes = UINT64_MAX,
        .ahead_bytes = AHEAD_STEPS * mbr_bench_device_bytes(bench, STEP_BYTES),
        .has_threads = true};
    bool done = mbr_bench_device_open_as(bench, &options, &state->device);
    if (done) {
        done = measure(bench, state, &rows[0]);
        done = close_cache(state) && done;
        done = close_hand(state) && done;
        done = mbr_bench_device_close(bench, &state->device, done);
    }
    free(state);
    return done;
}

static const mbr_bench_plan plans[] = {
    {"P7", "a step of 64 MiB each 10 ms, mapped ahead: the caller's p99", "us", "us",
        "create, map and give access by hand", false, 1, 5},
};

const mbr_bench_group mbr_bench_device_ahead = {plans, 1, run};
