/* The arena: memory of the host, with an authority of its own, that weights and caches sleep in. It
 * is no part of the budget, which is of what they sleep to give back. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_ARENA_H
#define MEMBRANE_TOOLS_CLI_REPLAY_ARENA_H

#include "tools/cli/replay/world.h"

typedef struct replay_arena {
    replay_world *world;
    mbr_mechanism_handle mechanism; /* a device's for memory of the host; 0: the world's is that */
    mbr_authority_handle authority;
    mbr_holder_handle holder;
    mbr_binding_handle binding;
    mbr_sleeper *sleeper;
} replay_arena;

/* Of at most limit_bytes, and what is measured. On failure replay_arena_close has what is left to
 * do. */
mbr_status replay_arena_open(
    replay_arena *arena, replay_world *world, uint64_t limit_bytes, mbr_error *error);
/* Level 1, behind all of the world's streams. *slept_bytes are those of the tag. */
mbr_status replay_arena_sleep(
    replay_arena *arena, uint64_t tag, uint64_t *slept_bytes, mbr_error *error);
mbr_status replay_arena_wake(replay_arena *arena, uint64_t tag, mbr_error *error);
/* The tag, asleep, is awake without its contents. */
mbr_status replay_arena_drop(replay_arena *arena, uint64_t tag, mbr_error *error);
/* What the world's mechanism owns for it, as the books say. */
uint64_t replay_arena_owned_bytes(const replay_arena *arena);
/* Nothing sleeps any more. */
mbr_status replay_arena_close(replay_arena *arena, mbr_error *error);

#endif
