/* L1: what it costs to find, judge, load and open a plugin, and to close and unload it again. The
 * baseline is the dynamic linker alone on the same file. */
#include "host/loader/loader.h"

#include "tools/bench/rounds.h"

#include <dlfcn.h>

#define OPENS_A_ROUND 20

typedef struct load_state {
    const mbr_bench *bench;
    char path[MBR_LOADER_PATH_BYTES];
    mbr_error error;
    mbr_status status;
} load_state;

static bool open_by_host(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    load_state *state = context;
    mbr_module_options request = {
        .name_or_path = state->bench->options->plugin, .trusted = state->bench->options->trusted};
    mbr_mechanism_options options = {.mechanism = NULL};
    for (uint64_t i = 0; i < count; i++) {
        mbr_module *module;
        mbr_mechanism mechanism;
        state->status = mbr_module_open(&request, &module, NULL, &state->error);
        if (state->status != MBR_OK)
            return false;
        state->status = mbr_mechanism_open(module, &options, &mechanism, &state->error);
        if (state->status == MBR_OK)
            state->status = mbr_mechanism_close(&mechanism, &state->error);
        mbr_module_close(module);
        if (state->status != MBR_OK)
            return false;
    }
    return true;
}

static bool open_by_linker(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    const load_state *state = context;
    for (uint64_t i = 0; i < count; i++) {
        void *library = dlopen(state->path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            return false;
        dlclose(library);
    }
    return true;
}

static bool find_path(load_state *state)
{
    mbr_module_options request = {
        .name_or_path = state->bench->options->plugin, .trusted = state->bench->options->trusted};
    mbr_module *module;
    state->status = mbr_module_open(&request, &module, NULL, &state->error);
    if (state->status != MBR_OK)
        return false;
    const char *path = mbr_module_candidate(module)->path;
    for (size_t i = 0; i < sizeof state->path && (state->path[i] = path[i]) != 0; i++)
        continue;
    mbr_module_close(module);
    return true;
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    load_state state = {.bench = bench, .error = {MBR_SIZED(mbr_error)}};
    mbr_contestant sides[] = {
        {.context = &state, .work = open_by_host, .fixed_count = OPENS_A_ROUND},
        {.context = &state, .work = open_by_linker, .fixed_count = OPENS_A_ROUND},
    };
    if (!find_path(&state) || !mbr_bench_rounds(bench, sides, 2, bench->options->rounds))
        return mbr_bench_fail_status(bench, "opening the plugin", state.status, &state.error);
    mbr_bench_take_side(&rows[0].ours, &sides[0], 1e6);
    mbr_bench_take_side(&rows[0].theirs, &sides[1], 1e6);
    rows[0].has_baseline = true;
    rows[0].ratio = sides[1].median_ns / sides[0].median_ns;
    rows[0].value = rows[0].ours.median;
    return true;
}

static const mbr_bench_plan plans[] = {
    {"L1", "find, judge, load and open a plugin, and back", "ms", "ms",
        "dlopen and dlclose of the same file", false, 5, MBR_BENCH_NO_FLOOR},
};

const mbr_bench_group mbr_bench_load = {plans, 1, run};
