/* Contents: one byte in every granule that holds live tokens is written by its sequence, on its
 * stream, and read back before release: by the processor where the memory is the host's, else by
 * the EP's fills and copies. What a byte must be depends only on the tokens there, so
 * that sharers of a prefix expect the same. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_TOUCH_H
#define MEMBRANE_TOOLS_CLI_REPLAY_TOUCH_H

#include "tools/cli/replay/world.h"

#include <stdatomic.h>

typedef struct replay_touch {
    replay_world *world;
    uint64_t granule_bytes;
    uint64_t seed;
    _Atomic uint64_t written_count, verified_count, wrong_count;
    _Atomic uint64_t first_wrong_address;
    mbr_error error; /* of the last call that failed; MBR_OK: memory of our own was exhausted */
} replay_touch;

/* What one sequence has touched so far: ranges of addresses in ascending order of their group. */
typedef struct replay_touched {
    struct {
        uint64_t address, bytes;
    } * ranges;
    uint64_t count, capacity;
} replay_touched;

typedef struct replay_contents {
    const mbr_trace_request *request; /* its blocks say what the tokens are */
    uint64_t tag;                     /* of tokens that no block names */
    uint32_t stream;
    mbr_sequence *sequence;
    replay_touched touched;
} replay_contents;

/* Writes what is new since the last call, after checking nothing. False: replay_touch_reason. */
bool replay_touch_new(replay_touch *touch, replay_contents *contents);
/* Queues the check of everything that the sequence holds, private and shared. */
bool replay_verify_all(replay_touch *touch, replay_contents *contents);
/* Queues the check of what came with a prefix. */
bool replay_verify_shared(replay_touch *touch, replay_contents *contents);
const char *replay_touch_reason(const replay_touch *touch);
void replay_touched_finish(replay_touched *touched);

#endif
