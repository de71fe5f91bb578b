/* Marks: what a sequence writes into its memory, at every step_bytes of it, and reads back. Each is
 * an operation of the sequence's stream: by the processor where the memory is the host's, else by
 * the EP's fills and copies. With --verify a mark is a whole stamp; else it is the byte of one that
 * follows from the tokens, which sharers of a prefix expect alike without knowing who wrote it. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_MARK_H
#define MEMBRANE_TOOLS_CLI_REPLAY_MARK_H

#include "tools/cli/replay/stamp.h"
#include "tools/cli/replay/world.h"

#include "host/holder/geometry/model.h"

#include <stdatomic.h>

typedef struct replay_touch {
    replay_world *world;
    mbr_geometry geometry;
    uint64_t step_bytes;
    uint64_t seed;
    bool has_stamps;
    const mbr_replay_meddler *meddler; /* for tests; NULL: nobody */
    _Atomic uint64_t written_count, verified_count, wrong_count;
    atomic_bool is_wrong; /* what follows is the first one's */
    uint64_t wrong_address;
    replay_stamp expected, found;
    mbr_error error; /* of the last call that failed; MBR_OK: memory of our own was exhausted */
} replay_touch;

/* One stream operation over the marks of [low, end): those that do not end before `known`. */
typedef struct replay_mark_job {
    replay_touch *touch;
    const mbr_trace_request *request; /* its blocks say what the tokens are */
    uint64_t tag;                     /* of tokens that no block names */
    replay_writer writer;
    uint32_t group;
    bool write;
    bool meddles;    /* the meddler may change what is checked */
    bool is_of_rows; /* only marks inside rows of the tokens [token_first, token_end) */
    uint64_t token_first, token_end;
    uint64_t low, known, end;
    mbr_kv_strides strides;
} replay_mark_job;

/* False: replay_touch_reason says why. */
bool replay_mark_submit(const replay_mark_job *job, uint32_t stream);
/* Keeps the first that is wrong. From any thread. */
void replay_touch_judge(
    replay_touch *touch, uint64_t address, const replay_stamp *expected, const void *found);
const char *replay_touch_reason(const replay_touch *touch);
/* What is wrong, in one line. False: nothing so far. */
bool replay_touch_is_wrong(const replay_touch *touch, char text[MBR_REPLAY_TEXT_BYTES]);

#endif
