/* A stamp says who wrote it (the allocation and its generation), which place it is for, and which
 * tokens are there, so that one that is elsewhere, older or somebody else's is none of them. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_STAMP_H
#define MEMBRANE_TOOLS_CLI_REPLAY_STAMP_H

#include <stdint.h>

typedef struct replay_writer {
    uint64_t allocation; /* the request's number, and its tenant's above REPLAY_TENANT_SHIFT */
    uint64_t generation; /* of stays in this run, from 1 */
} replay_writer;

#define REPLAY_TENANT_SHIFT 48
#define REPLAY_GROUP_SHIFT 56

typedef struct replay_stamp {
    replay_writer writer;
    uint64_t index; /* of the step in its group's memory, the group above REPLAY_GROUP_SHIFT */
    uint64_t tokens;
} replay_stamp;

#endif
