/* P20: access for two GPUs to 1 GiB in extents of 64 MiB, in one call of the slot with a list of
 * two, against a call for each. Below the client's calls: only there a list can be cut. */
#include "tools/bench/gpu/device.h"

#define EXTENT_COUNT 16
#define EXTENT_BYTES (UINT64_C(64) << 20)

typedef struct peers_state {
    mbr_mechanism *mechanism;
    uint64_t extent_bytes;
    uint64_t reservation_id, first_extent_id;
    uint64_t *last_id; /* ids rise over both sides */
    uint64_t protect_count;
    mbr_error error;
} peers_state;

/* ---- Mapped, without access */
static bool map_extents(void *context)
{
    peers_state *state = context;
    mbr_mechanism *mechanism = state->mechanism;
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_reserve_request reserve = {MBR_SIZED(mbr_reserve_request),
        .reservation_id = state->reservation_id = ++*state->last_id,
        .bytes = EXTENT_COUNT * state->extent_bytes};
    mbr_status status =
        mechanism->virtual_.reserve(mechanism->instance, &reserve, &outcome, &state->error);
    state->first_extent_id = *state->last_id + 1;
    for (uint64_t i = 0; i < EXTENT_COUNT && status == MBR_OK; i++) {
        mbr_extent_create_request create = {MBR_SIZED(mbr_extent_create_request),
            .extent_id = ++*state->last_id, .bytes = state->extent_bytes,
            .max_owned_bytes = state->extent_bytes};
        mbr_map_request map = {MBR_SIZED(mbr_map_request), .reservation_id = state->reservation_id,
            .offset_bytes = i * state->extent_bytes, .extent_id = create.extent_id};
        status = mechanism->virtual_.extent_create(
            mechanism->instance, &create, &outcome, &state->error);
        if (status == MBR_OK)
            status = mechanism->virtual_.map(mechanism->instance, &map, &outcome, &state->error);
    }
    return status == MBR_OK;
}

static bool unmap_extents(void *context)
{
    peers_state *state = context;
    mbr_mechanism *mechanism = state->mechanism;
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_status status = MBR_OK;
    for (uint64_t i = 0; i < EXTENT_COUNT && status == MBR_OK; i++) {
        mbr_unmap_request unmap = {MBR_SIZED(mbr_unmap_request),
            .reservation_id = state->reservation_id, .offset_bytes = i * state->extent_bytes,
            .bytes = state->extent_bytes};
        mbr_extent_destroy_request destroy = {
            MBR_SIZED(mbr_extent_destroy_request), .extent_id = state->first_extent_id + i};
        status = mechanism->virtual_.unmap(mechanism->instance, &unmap, &outcome, &state->error);
        if (status == MBR_OK)
            status = mechanism->virtual_.extent_destroy(
                mechanism->instance, &destroy, &outcome, &state->error);
    }
    mbr_unreserve_request unreserve = {
        MBR_SIZED(mbr_unreserve_request), .reservation_id = state->reservation_id};
    if (status == MBR_OK)
        status =
            mechanism->virtual_.unreserve(mechanism->instance, &unreserve, &outcome, &state->error);
    return status == MBR_OK;
}

/* ---- The two ways */
static bool protect(peers_state *state, const mbr_access *list, uint32_t count)
{
    mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
    mbr_protect_request request = {MBR_SIZED(mbr_protect_request), .access_count = count,
        .reservation_id = state->reservation_id, .bytes = EXTENT_COUNT * state->extent_bytes,
        .access = list};
    state->protect_count++;
    return state->mechanism->virtual_.protect(
               state->mechanism->instance, &request, &outcome, &state->error) == MBR_OK;
}

static const mbr_access both[] = {{0, MBR_ACCESS_READ_WRITE}, {1, MBR_ACCESS_READ_WRITE}};

static bool protect_at_once(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    return protect(context, both, 2);
}

static bool protect_one_by_one(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    (void)count;
    return protect(context, &both[0], 1) && protect(context, &both[1], 1);
}

static bool count_slots(const mbr_contestant *one, mbr_bench_side *side)
{
    peers_state *state = one->context;
    uint64_t begin = state->protect_count;
    bool done = one->before(state) && one->work(state, 0, 1);
    side->calls = state->protect_count - begin;
    side->owned_bytes = EXTENT_COUNT * state->extent_bytes;
    return one->after(state) && done;
}

static bool has_two(mbr_bench *bench)
{
    mbr_hand hand;
    int count = 0;
    if (!mbr_hand_open(bench, &hand))
        return false;
    bool done = mbr_hand_did(&hand, hand.call.device_count(&count), "cuDeviceGetCount") ||
        mbr_bench_fail_hand(bench, &hand);
    mbr_hand_close(&hand);
    if (done && count < 2)
        done = mbr_bench_leave_out(bench, "it wants two GPUs, and here is %d", count);
    return done;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    if (!has_two(bench))
        return false;
    mbr_module *module;
    mbr_mechanism mechanism;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_module_options from = {
        .name_or_path = bench->options->plugin, .trusted = bench->options->trusted};
    mbr_mechanism_options options = {.mechanism = NULL};
    mbr_status status = mbr_module_open(&from, &module, NULL, &error);
    if (status != MBR_OK)
        return mbr_bench_fail_status(bench, "opening the plugin", status, &error);
    status = mbr_mechanism_open(module, &options, &mechanism, &error);
    if (status != MBR_OK) {
        mbr_module_close(module);
        return mbr_bench_fail_status(bench, "opening the mechanism", status, &error);
    }
    uint64_t last_id = 0, extent_bytes = mbr_bench_device_bytes(bench, EXTENT_BYTES);
    peers_state state = {.mechanism = &mechanism,
        .extent_bytes = extent_bytes,
        .last_id = &last_id,
        .error = {MBR_SIZED(mbr_error)}};
    mbr_contestant sides[] = {
        {.context = &state,
            .work = protect_at_once,
            .before = map_extents,
            .after = unmap_extents,
            .fixed_count = 1,
            .by_wall = true},
        {.context = &state,
            .work = protect_one_by_one,
            .before = map_extents,
            .after = unmap_extents,
            .fixed_count = 1,
            .by_wall = true},
    };
    bool done = mbr_bench_rounds(bench, sides, 2, bench->options->rounds);
    if (done) {
        mbr_bench_take_ratio(&rows[0], &sides[0], &sides[1], 1e3);
        done = count_slots(&sides[0], &rows[0].ours) && count_slots(&sides[1], &rows[0].theirs);
    }
    if (!done)
        mbr_bench_fail_status(bench, "access for two GPUs", state.error.status, &state.error);
    status = mbr_mechanism_close(&mechanism, &error);
    if (status != MBR_OK) /* what a failed round left: the code stays */
        return mbr_bench_fail_status(bench, "closing", status, &error);
    mbr_module_close(module);
    return done;
}

static const mbr_bench_plan plans[] = {
    {"P20", "access for two GPUs to 1 GiB, in one call", "x", "us", "a call for each", true, 1.5,
        1.2},
};

const mbr_bench_group mbr_bench_device_peers = {plans, 1, run};
