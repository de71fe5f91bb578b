/* K1: a sequence's step into its next extent, where what it reaches was mapped ahead of need, and
 * where it is not. One step a millisecond; between the steps the manager is polled, which does what
 * the EP's thread does where there is one. */
#include "tools/bench/ranges.h"
#include "tools/bench/rounds.h"
#include "tools/bench/syscalls.h"

#include <stdio.h>

#define MODEL "qwen2.5-0.5b"
#define EXTENT_TOKENS 128 /* eight of the model's windows */
#define EXTENT_BYTES (UINT64_C(1536) << 10)
#define LIMIT_BYTES (UINT64_C(4) << 30)
#define STEP_COUNT 100
#define QUICK_STEP_COUNT 20
#define FIRST_COUNT 24 /* steps by which its pace is known and its first extents stand */
#define PACE_NS 1000000

typedef struct ahead_side {
    mbr_bench_world world;
    mbr_kv *kv;
    mbr_sequence *sequence;
    uint64_t step_count;
    uint64_t calls, steps; /* slots that measured steps called, and those steps */
    double samples_ns[STEP_COUNT];
} ahead_side;

typedef struct ahead_state {
    ahead_side sides[2]; /* with, and without */
} ahead_state;

static bool step(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    ahead_side *side = context;
    return mbr_sequence_append(side->sequence, EXTENT_TOKENS, NULL, &side->world.error) == MBR_OK;
}

/* Awake, so that other programs' use of the core is not what is measured. */
static void pause_and_poll(const ahead_side *side)
{
    double until_ns = mbr_bench_wall_ns() + PACE_NS;
    do
        mbr_manager_poll(side->world.manager);
    while (mbr_bench_wall_ns() < until_ns);
}

static bool begin(ahead_side *side)
{
    mbr_sequence_request request = {MBR_SIZED(mbr_sequence_request), .tokens = EXTENT_TOKENS};
    bool done =
        mbr_sequence_create(side->kv, &request, &side->sequence, &side->world.error) == MBR_OK;
    for (uint32_t i = 0; i < FIRST_COUNT && done; i++) {
        pause_and_poll(side);
        done = step(side, 0, 1);
    }
    return done;
}

/* What it had is given to the system: the next one finds nothing parked. */
static bool end(ahead_side *side)
{
    return mbr_sequence_destroy(side->sequence, NULL, 0, &side->world.error) == MBR_OK &&
        mbr_bench_trim(&side->world);
}

static bool turn(ahead_side *side, double *median_ns, double *p99_ns)
{
    bool done = begin(side);
    for (uint64_t i = 0; i < side->step_count && done; i++) {
        pause_and_poll(side);
        uint64_t calls = mbr_bench_world_calls(&side->world);
        double begin_ns = mbr_bench_wall_ns();
        done = step(side, 0, 1);
        side->samples_ns[i] = mbr_bench_wall_ns() - begin_ns;
        side->calls += mbr_bench_world_calls(&side->world) - calls;
        side->steps++;
    }
    done = done && end(side);
    *median_ns = mbr_bench_rank(side->samples_ns, side->step_count, 0.5);
    *p99_ns = mbr_bench_rank(side->samples_ns, side->step_count, 0.99);
    return done;
}

static bool turn_with(void *context, double *median_ns, double *p99_ns)
{
    return turn(&((ahead_state *)context)->sides[0], median_ns, p99_ns);
}

static bool turn_without(void *context, double *median_ns, double *p99_ns)
{
    return turn(&((ahead_state *)context)->sides[1], median_ns, p99_ns);
}

static bool open_side(mbr_bench *bench, ahead_side *side, uint64_t ahead_bytes)
{
    mbr_bench_world_options options = {
        .limit_bytes = LIMIT_BYTES, .keep_bytes = UINT64_MAX, .ahead_bytes = ahead_bytes};
    if (!mbr_bench_world_open(bench, &options, &side->world))
        return false;
    side->step_count = bench->options->quick ? QUICK_STEP_COUNT : STEP_COUNT;
    mbr_kv_request request = {MBR_SIZED(mbr_kv_request), .binding = side->world.binding,
        .holder = side->world.holder, .geometry = MODEL, .extent_bytes = EXTENT_BYTES,
        .max_tokens = EXTENT_TOKENS * (1 + FIRST_COUNT + STEP_COUNT)};
    return mbr_kv_create(side->world.manager, &request, &side->kv, &side->world.error) == MBR_OK ||
        mbr_bench_fail_world(bench, "making a cache", &side->world);
}

static bool close_side(mbr_bench *bench, ahead_side *side)
{
    if (bench->text[0] != '\0')
        return false; /* what failed is told; the process ends */
    mbr_kv_destroy(side->kv, NULL);
    return mbr_bench_world_close(bench, &side->world);
}

/* One step under the kernel's eye. */
static bool watch(mbr_bench *bench, ahead_side *side, mbr_bench_row *row)
{
    if (!begin(side))
        return mbr_bench_fail_world(bench, "growing", &side->world);
    pause_and_poll(side);
    bool done;
    mbr_syscalls seen = mbr_syscalls_watch(step, side, 1, &done);
    if (!done || !end(side))
        return mbr_bench_fail_world(bench, "growing", &side->world);
    snprintf(row->note, sizeof row->note, "%llu plugin calls in %llu steps, %s",
        (unsigned long long)side->calls, (unsigned long long)side->steps,
        seen == MBR_SYSCALLS_NONE       ? "0 system calls"
            : seen == MBR_SYSCALLS_SOME ? "a system call"
                                        : "system calls not watched: this kernel cannot");
    return true;
}

/* Rounded up: one call in all steps is not none. */
static uint64_t calls_a_step(const ahead_side *side)
{
    return side->steps == 0 ? 0 : (side->calls + side->steps - 1) / side->steps;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    static ahead_state state; /* too large for a stack */
    const mbr_bench_turn sides[] = {turn_with, turn_without};
    state = (ahead_state){0};
    bool done =
        open_side(bench, &state.sides[0], LIMIT_BYTES) && open_side(bench, &state.sides[1], 0);
    done = done &&
        (mbr_bench_turns(bench, sides, &state, &rows[0]) ||
            mbr_bench_fail_world(bench, "growing", &state.sides[0].world) ||
            mbr_bench_fail_world(bench, "growing", &state.sides[1].world)) &&
        watch(bench, &state.sides[0], &rows[0]);
    rows[0].value = rows[0].ours.p99;
    rows[0].ratio = rows[0].theirs.p99 / rows[0].ours.p99;
    rows[0].ours.calls = calls_a_step(&state.sides[0]);
    rows[0].theirs.calls = calls_a_step(&state.sides[1]);
    for (int i = 0; i < 2; i++)
        done = close_side(bench, &state.sides[i]) && done;
    return done;
}

static const mbr_bench_plan plans[] = {
    {"K1", "p99 of a step into the next extent, mapped ahead", "ns p99", "ns",
        "the same, not mapped ahead", false, 200, 1000},
};

const mbr_bench_group mbr_bench_ahead = {plans, 1, run};
