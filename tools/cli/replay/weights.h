/* Weights: a range of growing memory beside the caches, as an engine's parameters would be, that is
 * marked like what sequences hold and falls asleep and wakes while the trace is served. Asleep, its
 * contents are in the arena, and its bytes are the caches' to use. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_WEIGHTS_H
#define MEMBRANE_TOOLS_CLI_REPLAY_WEIGHTS_H

#include "tools/cli/replay/arena.h"
#include "tools/cli/replay/mark.h"

typedef struct replay_weights {
    replay_touch *touch;
    replay_world *world;
    replay_arena *arena;
    mbr_holder_handle holder;
    mbr_range_handle range; /* 0: none */
    uint64_t address, bytes;
    bool has_tag, is_asleep;
} replay_weights;

/* Committed and marked. On failure *error, and replay_weights_close has what is left to do. */
mbr_status replay_weights_open(replay_weights *weights, replay_touch *touch, replay_arena *arena,
    uint64_t bytes, mbr_error *error);
/* Level 1: every mark is queued to be checked on the stream first. */
mbr_status replay_weights_sleep(replay_weights *weights, mbr_error *error);
/* Every mark is queued to be checked behind it. A status of class exhausted: it sleeps on. */
mbr_status replay_weights_wake(replay_weights *weights, mbr_error *error);
/* Of one that is awake, one that is not, or nothing: its memory, before the last drain. */
mbr_status replay_weights_close(replay_weights *weights, mbr_error *error);
/* The holder, when nothing is charged to it any more. */
mbr_status replay_weights_forget(replay_weights *weights, mbr_error *error);

#endif
