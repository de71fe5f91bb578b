/* H1: what the host's private copy of a table costs over the plugin's own function. */
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

typedef mbr_status (*fact_function)(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error);

typedef struct slot_state {
    const mbr_mechanism *mechanism;
    fact_function direct;
} slot_state;

static bool call_table(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const mbr_mechanism *mechanism = ((slot_state *)context)->mechanism;
    mbr_fact_request request = {MBR_SIZED(mbr_fact_request), .fact = MBR_FACT_GRANULE_MIN_BYTES};
    mbr_fact_outcome outcome = {MBR_SIZED(mbr_fact_outcome)};
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++)
        failed |= mechanism->allocator.fact(mechanism->instance, &request, &outcome, NULL);
    return failed == MBR_OK;
}

static bool call_directly(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const slot_state *state = context;
    fact_function direct = state->direct;
    mbr_instance *instance = state->mechanism->instance;
    mbr_fact_request request = {MBR_SIZED(mbr_fact_request), .fact = MBR_FACT_GRANULE_MIN_BYTES};
    mbr_fact_outcome outcome = {MBR_SIZED(mbr_fact_outcome)};
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++)
        failed |= direct(instance, &request, &outcome, NULL);
    return failed == MBR_OK;
}

/* The plugin's own table, not the host's copy of it. */
static bool find_direct(mbr_bench *bench, slot_state *state)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_capability_request request = {
        MBR_SIZED(mbr_capability_request), .minor = MBR_MINOR_0, .id = MBR_ID_ALLOCATOR};
    mbr_capability_outcome outcome = {MBR_SIZED(mbr_capability_outcome)};
    mbr_status status =
        state->mechanism->plugin.capability(state->mechanism->instance, &request, &outcome, &error);
    if (status != MBR_OK)
        return mbr_bench_fail_status(bench, "asking for the table", status, &error);
    state->direct = ((const mbr_allocator_vtable *)outcome.table)->fact;
    return true;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    mbr_bench_core core;
    if (!mbr_bench_core_open(bench, &core))
        return false;
    slot_state state = {.mechanism = &core.mechanism};
    mbr_contestant sides[] = {
        {.context = &state, .work = call_table},
        {.context = &state, .work = call_directly},
    };
    if (find_direct(bench, &state) && mbr_bench_rounds(bench, sides, 2, bench->options->rounds)) {
        mbr_bench_take_difference(&rows[0], &sides[0], &sides[1]);
        rows[0].ours.calls = rows[0].theirs.calls = 1;
    }
    return mbr_bench_core_close(bench, &core);
}

static const mbr_bench_plan plans[] = {
    {"H1", "a slot (allocator.fact) through the host's table", "ns more", "ns",
        "a direct call of the plugin's function", false, 2, 4},
};

const mbr_bench_group mbr_bench_slot = {plans, 1, run};
