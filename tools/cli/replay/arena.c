/* Opens and closes the arena, and moves a tag of it. Knows no range, and decides nothing. */
#include "tools/cli/replay/arena.h"

#define CHUNK_BYTES (UINT64_C(4) << 20)
#define MARGIN_BYTES (UINT64_C(256) << 20) /* of what is measured, for the process itself */
#define OF_DEVICES "pinned0"               /* what a device's plugin calls its memory of the host */

/* ---- Life */

static mbr_status open_mechanism(replay_arena *arena, mbr_error *error)
{
    const replay_world *world = arena->world;
    if (world->mechanism_figures.domain == MBR_DOMAIN_HOST)
        return MBR_OK;
    mbr_mechanism_open_request request = {
        MBR_SIZED(mbr_mechanism_open_request), .plugin = world->plugin, .mechanism = OF_DEVICES};
    return mbr_manager_open_mechanism(world->manager, &request, &arena->mechanism, error);
}

static mbr_mechanism_handle mechanism_of(const replay_arena *arena)
{
    return arena->mechanism.value != 0 ? arena->mechanism : arena->world->mechanism;
}

static mbr_status open_budget(replay_arena *arena, uint64_t limit_bytes, mbr_error *error)
{
    mbr_manager *manager = arena->world->manager;
    mbr_authority_request authority = {MBR_SIZED(mbr_authority_request), .tier = MBR_TIER_HOST,
        .name = "arena", .limit_bytes = limit_bytes, .margin_bytes = MARGIN_BYTES,
        .measured = mechanism_of(arena)};
    mbr_status status = mbr_manager_create_authority(manager, &authority, &arena->authority, error);
    mbr_holder_request holder = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_STAGING,
        .authority = arena->authority, .name = "arena", .allowance_bytes = MBR_NO_ALLOWANCE};
    return status == MBR_OK ? mbr_manager_create_holder(manager, &holder, &arena->holder, error)
                            : status;
}

mbr_status replay_arena_open(
    replay_arena *arena, replay_world *world, uint64_t limit_bytes, mbr_error *error)
{
    *arena = (replay_arena){.world = world};
    mbr_status status = open_mechanism(arena, error);
    if (status == MBR_OK)
        status = open_budget(arena, limit_bytes, error);
    mbr_bind_request bind = {MBR_SIZED(mbr_bind_request), .mechanism = mechanism_of(arena),
        .ep = world->ep, .authority = arena->authority};
    if (status == MBR_OK)
        status = mbr_manager_bind(world->manager, &bind, &arena->binding, error);
    mbr_sleeper_request request = {MBR_SIZED(mbr_sleeper_request), .arena = arena->binding,
        .holder = arena->holder, .chunk_bytes = CHUNK_BYTES, .keep_bytes = UINT64_MAX};
    return status == MBR_OK ? mbr_sleeper_create(world->manager, &request, &arena->sleeper, error)
                            : status;
}

/* In the order of these lines; what is closed is not closed again. */
mbr_status replay_arena_close(replay_arena *arena, mbr_error *error)
{
    mbr_status status = MBR_OK;
    if (arena->world == NULL)
        return status;
    replay_world *world = arena->world;
    mbr_manager *manager = world->manager;
    uint64_t deadline_ns = replay_drain_deadline_ns(world);
    if (arena->sleeper != NULL)
        status = mbr_sleeper_destroy(arena->sleeper, deadline_ns, error);
    if (status == MBR_OK)
        arena->sleeper = NULL;
    if (status == MBR_OK)
        status = mbr_ep_drain(manager, world->ep, deadline_ns, error);
    if (status == MBR_OK && arena->binding.value != 0)
        status = mbr_manager_unbind(manager, arena->binding, error);
    if (status == MBR_OK)
        arena->binding.value = 0;
    if (status == MBR_OK && arena->holder.value != 0)
        status = mbr_manager_destroy_holder(manager, arena->holder, error);
    if (status == MBR_OK)
        arena->holder.value = 0;
    if (status == MBR_OK && arena->authority.value != 0)
        status = mbr_manager_destroy_authority(manager, arena->authority, error);
    if (status == MBR_OK)
        arena->authority.value = 0;
    if (status == MBR_OK && arena->mechanism.value != 0)
        status = mbr_manager_close_mechanism(manager, arena->mechanism, error);
    if (status == MBR_OK)
        *arena = (replay_arena){0};
    return status;
}

uint64_t replay_arena_owned_bytes(const replay_arena *arena)
{
    mbr_authority_figures books = {MBR_SIZED(mbr_authority_figures)};
    if (arena->world != NULL && arena->mechanism.value == 0)
        mbr_manager_read_authority(arena->world->manager, arena->authority, &books, NULL);
    return books.charged_bytes;
}

/* ---- Sleep and wake */

mbr_status replay_arena_sleep(
    replay_arena *arena, uint64_t tag, uint64_t *slept_bytes, mbr_error *error)
{
    replay_world *world = arena->world;
    mbr_sleep_request request = {MBR_SIZED(mbr_sleep_request), .level = MBR_SLEEP_KEEP, .tag = tag,
        .stream = world->streams[0], .streams = world->streams, .stream_count = world->stream_count,
        .deadline_ns = replay_drain_deadline_ns(world)};
    mbr_sleep_result result = {MBR_SIZED(mbr_sleep_result)};
    mbr_status status = mbr_sleeper_sleep(arena->sleeper, &request, &result, error);
    *slept_bytes = result.slept_bytes;
    return status;
}

mbr_status replay_arena_wake(replay_arena *arena, uint64_t tag, mbr_error *error)
{
    mbr_wake_request request = {MBR_SIZED(mbr_wake_request), .tag = tag,
        .stream = arena->world->streams[0], .deadline_ns = replay_drain_deadline_ns(arena->world)};
    mbr_wake_result result = {MBR_SIZED(mbr_wake_result)};
    return mbr_sleeper_wake(arena->sleeper, &request, &result, error);
}

mbr_status replay_arena_drop(replay_arena *arena, uint64_t tag, mbr_error *error)
{
    return mbr_sleeper_drop(arena->sleeper, tag, replay_drain_deadline_ns(arena->world), error);
}
