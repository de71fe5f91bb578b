/* Scenarios of managers, plugins and mechanisms: found, opened, asked, traced, closed. */
#include "tests/faults/world.h"

#include "host/loader/loader.h"

#include <stdio.h>
#include <stdlib.h>

static void nothing(struct world *world)
{
    (void)world;
}

static const char *plugin_folder(void)
{
    static char folder[512];
    snprintf(folder, sizeof folder, "%s/plugins", getenv("TEST_TMPDIR"));
    return folder;
}

static void drop_line(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context;
    (void)level;
    (void)text;
    (void)text_bytes;
}

static void make_manager(struct world *world)
{
    mbr_manager_options options = {
        MBR_SIZED(mbr_manager_options), .log = drop_line, .plugin_path = plugin_folder()};
    STEP(world,
        mbr_manager_create_with_seams(&options, &fault_seams, &world->manager, &world->error));
}

static void end_manager(struct world *world)
{
    mbr_manager *manager = world->manager;
    world->manager = NULL;
    STEP(world, mbr_manager_destroy(manager, &world->error));
}

static void manager_life(struct world *world)
{
    make_manager(world);
    mbr_manager_poll(world->manager);
    end_manager(world);
}

static void open_and_close(struct world *world, const char *name, uint32_t flags)
{
    mbr_plugin_open_request request = {
        MBR_SIZED(mbr_plugin_open_request), .name = name, .flags = flags};
    mbr_plugin_handle plugin;
    STEP(world, mbr_manager_open_plugin(world->manager, &request, &plugin, &world->error));
    mbr_mechanism_open_request opening = {MBR_SIZED(mbr_mechanism_open_request), .plugin = plugin};
    mbr_mechanism_handle mechanism;
    STEP(world, mbr_manager_open_mechanism(world->manager, &opening, &mechanism, &world->error));
    mbr_mechanism_figures figures = {MBR_SIZED(mbr_mechanism_figures)};
    STEP(world, mbr_manager_read_mechanism(world->manager, mechanism, &figures, &world->error));
    STEP(world, mbr_manager_close_mechanism(world->manager, mechanism, &world->error));
    STEP(world, mbr_manager_close_plugin(world->manager, plugin, &world->error));
}

static void by_path(struct world *world)
{
    make_manager(world);
    open_and_close(world, fault_plugin_path, MBR_PLUGIN_TRUSTED);
    end_manager(world);
}

static void by_name(struct world *world)
{
    make_manager(world);
    open_and_close(world, "seams", 0);
    end_manager(world);
}

static void traced(struct world *world)
{
    setenv("MEMBRANE_TRACE", "calls", 1);
    setenv("MEMBRANE_TRACE_FILE", "/dev/null", 1);
    make_manager(world);
    open_and_close(world, fault_plugin_path, MBR_PLUGIN_TRUSTED);
    end_manager(world);
    unsetenv("MEMBRANE_TRACE");
    unsetenv("MEMBRANE_TRACE_FILE");
}

static void mechanisms(struct world *world)
{
    mbr_mechanism_handle opened[3];
    for (uint32_t i = 0; i < 3; i++) {
        mbr_mechanism_open_request request = {
            MBR_SIZED(mbr_mechanism_open_request), .plugin = world->plugin};
        STEP(
            world, mbr_manager_open_mechanism(world->manager, &request, &opened[i], &world->error));
    }
    for (uint32_t i = 0; i < 3; i++)
        STEP(world, mbr_manager_close_mechanism(world->manager, opened[i], &world->error));
}

static void listed(struct world *world)
{
    mbr_loader_environment environment = {.plugin_path = plugin_folder(),
        .data_home = "/nowhere/home",
        .data_dirs = "/nowhere/one:relative",
        .built_in_dir = "/nowhere"};
    mbr_candidate *candidates = NULL;
    uint32_t count;
    STEP(world, mbr_loader_list(&environment, &fault_heap, &candidates, &count, &world->error));
    CHECK(world, count >= 2 && candidates[0].reason == MBR_REASON_USED);
    mbr_loader_list_release(&fault_heap, candidates);
}

/* Everything that only looks. */
static void looked_at(struct world *world)
{
    struct range range = {0};
    range_reserve(world, &range, 64 * KIB, PAGE);
    range_grow(world, &range, 2 * PAGE);
    struct block *block = alloc_now(world, 1000);
    mbr_mechanism_figures mechanism = {MBR_SIZED(mbr_mechanism_figures)};
    STEP(world,
        mbr_manager_read_mechanism(world->manager, world->mechanism, &mechanism, &world->error));
    mbr_holder_figures lines[4] = {{MBR_SIZED(mbr_holder_figures)}, {MBR_SIZED(mbr_holder_figures)},
        {MBR_SIZED(mbr_holder_figures)}, {MBR_SIZED(mbr_holder_figures)}};
    uint32_t count;
    STEP(world,
        mbr_manager_read_holders(
            world->manager, world->authority, lines, 4, &count, &world->error));
    CHECK(world, count == 3);
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    STEP(world,
        mbr_range_read(
            world->manager, (mbr_range_handle){0}, range.address + 100, &figures, &world->error));
    STEP(world, mbr_manager_audit(world->manager, &world->error));
    free_now(world, block);
    range_release(world, &range, 0);
}

const struct scenario plugin_scenarios[] = {
    {.name = "world", .run = nothing, .setup = {.counts_setup = true}},
    {.name = "world_with_reaper", .run = nothing, .setup = {.counts_setup = true, .threads = true}},
    {.name = "world_plain", .run = nothing, .setup = {.counts_setup = true, .is_plain = true}},
    {.name = "world_measured",
        .run = nothing,
        .setup = {.counts_setup = true, .is_measured = true}},
    {.name = "world_shared", .run = nothing, .setup = {.counts_setup = true, .is_shared = true}},
    {.name = "manager_life", .run = manager_life, .setup = {.is_bare = true, .counts_setup = true}},
    {.name = "plugin_by_path", .run = by_path, .setup = {.is_bare = true, .counts_setup = true}},
    {.name = "plugin_by_name", .run = by_name, .setup = {.is_bare = true, .counts_setup = true}},
    {.name = "plugin_traced", .run = traced, .setup = {.is_bare = true, .counts_setup = true}},
    {.name = "plugin_mechanisms", .run = mechanisms},
    {.name = "plugin_listed", .run = listed, .setup = {.is_bare = true, .counts_setup = true}},
    {.name = "looked_at", .run = looked_at},
    {0},
};
