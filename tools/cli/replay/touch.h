/* Contents: a sequence marks what it holds alone, and reads back whatever it holds: what came with
 * a prefix when it is attached, everything before it is given back, and with stamps (--verify) also
 * what was copied around a prefix, and everything after each growth. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_TOUCH_H
#define MEMBRANE_TOOLS_CLI_REPLAY_TOUCH_H

#include "tools/cli/replay/origin.h"

typedef struct replay_range {
    uint32_t group;
    uint64_t base; /* the group's address, which eager growth changes */
    uint64_t offset, end;
} replay_range;

/* What one sequence has marked so far: its private ranges, by group and offset. */
typedef struct replay_touched {
    replay_range *ranges;
    uint64_t count, capacity;
    uint64_t tokens; /* of the sequence then */
} replay_touched;

typedef struct replay_contents {
    const mbr_trace_request *request; /* its blocks say what the tokens are */
    uint64_t tag;                     /* of tokens that no block names */
    uint32_t stream;
    mbr_sequence *sequence;
    replay_touched touched;
    replay_origin origin; /* of what it holds; `own` is the caller's to set */
    bool is_lost;         /* what it held alone was given up in its sleep: nothing is checked */
} replay_contents;

/* A sequence has begun. Checks what came with a prefix of prefix_tokens tokens that `from` wrote
 * (NULL: there are no stamps, or no prefix) and marks the rest. False: replay_touch_reason. */
bool replay_touch_begin(replay_touch *touch, replay_contents *contents, const replay_origin *from,
    uint64_t prefix_tokens);
/* It has grown: with stamps, checks all there was; marks what is new. */
bool replay_touch_grown(replay_touch *touch, replay_contents *contents);
/* Queues the check of everything that the sequence holds, private and shared. */
bool replay_verify_all(replay_touch *touch, replay_contents *contents);
void replay_contents_finish(replay_contents *contents);

#endif
